//! The layout of rows, as those of TPC-C are laid out: fields at fixed places, and the one long text at the end.

use quorate_tpcc::row;

pub use quorate_tpcc::row::Text;

row! {
    /// A category of items.
    Category {
        /// Its name.
        name / set_name: Text<50>,
    }
}

row! {
    /// A region in which users live.
    Region {
        /// Its name.
        name / set_name: Text<25>,
    }
}

row! {
    /// The counter that numbers the rows of a table at a market.
    Counter {
        /// The number that the next row will have.
        next / set_next: u32,
    }
}

row! {
    /// A user.
    User {
        /// The sum of the ratings of all comments on it.
        rating / set_rating: i64,
        /// Where it lives.
        region / set_region: u16,
        /// Since when it is a user.
        created / set_created: u64,
        /// The name by which it is known.
        nickname / set_nickname: Text<20>,
        /// Its password.
        password / set_password: Text<20>,
        /// Its first name.
        first / set_first: Text<20>,
        /// Its last name.
        last / set_last: Text<20>,
        /// Its address for messages.
        email / set_email: Text<50>,
    }
}

row! {
    /// An item for sale. The text at the end describes it.
    Item {
        /// The number of its seller, a user of the same market.
        seller / set_seller: u32,
        /// Its category.
        category / set_category: u16,
        /// The region of its seller.
        region / set_region: u16,
        /// How many there were at first.
        offered / set_offered: u32,
        /// How many there are.
        quantity / set_quantity: u32,
        /// The price at which the auction has begun, in cents.
        initial_price / set_initial_price: i64,
        /// The least price for which it is sold in an auction, in cents; zero if any will do.
        reserve_price / set_reserve_price: i64,
        /// The price for which it is sold at once, in cents; zero if it is not.
        buy_now_price / set_buy_now_price: i64,
        /// How many bids there are.
        bids / set_bids: u32,
        /// The greatest of them, in cents; zero if there is none.
        max_bid / set_max_bid: i64,
        /// When the auction has begun.
        started / set_started: u64,
        /// When it ends.
        ends / set_ends: u64,
        /// Its name.
        name / set_name: Text<100>,
    }
}

row! {
    /// A bid. For which item says its key.
    Bid {
        /// The market of the bidder.
        bidder_market / set_bidder_market: u32,
        /// The number of the bidder there.
        bidder / set_bidder: u32,
        /// The nickname of the bidder.
        nickname / set_nickname: Text<20>,
        /// For how many.
        quantity / set_quantity: u32,
        /// In cents, for each.
        amount / set_amount: i64,
        /// The most that the bidder would pay, in cents, for each.
        amount_max / set_amount_max: i64,
        /// When.
        date / set_date: u64,
    }
}

row! {
    /// A purchase without an auction. Of which item says its key.
    Purchase {
        /// The market of the buyer.
        buyer_market / set_buyer_market: u32,
        /// The number of the buyer there.
        buyer / set_buyer: u32,
        /// How many were asked for.
        wanted / set_wanted: u32,
        /// How many were sold: as many as there were, at most.
        sold / set_sold: u32,
        /// When.
        date / set_date: u64,
    }
}

row! {
    /// A bidder's or a buyer's note on what it has asked for, at its own market.
    Note {
        /// For how many.
        quantity / set_quantity: u32,
        /// For how much, in cents, each; zero for a purchase.
        amount / set_amount: i64,
        /// When.
        date / set_date: u64,
    }
}

row! {
    /// A comment. On which user says its key. The text at the end is what is said.
    Comment {
        /// The market of its author.
        author_market / set_author_market: u32,
        /// The number of its author there.
        author / set_author: u32,
        /// The nickname of its author.
        nickname / set_nickname: Text<20>,
        /// The market of the item that was dealt with.
        item_market / set_item_market: u32,
        /// The number of that item there.
        item / set_item: u32,
        /// From minus five to five.
        rating / set_rating: i64,
        /// When.
        date / set_date: u64,
    }
}
