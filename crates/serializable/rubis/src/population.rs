//! The rows that there are at first.
//!
//! A market's users live in random regions and sell random items, of random categories, for which random users of the same market have bid. There is one
//! comment for each item, on its seller. Nobody has bought anything.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use quorate_procedure::Pair;
use quorate_tpcc::random::{Source, between, text};

use crate::key::{self, Id, Table};
use crate::row::{Bid, Category, Comment, Counter, Item, Note, Region, Text, User};
use crate::scale::{CATEGORIES, REGIONS, Scale};

/// How long auctions go on, in microseconds.
pub const AUCTION_US: u64 = 7 * 24 * 3_600 * 1_000_000;

/// The ratings that comments give.
pub const RATINGS: [i64; 5] = [-5, -3, 0, 3, 5];

/// The nickname of a user of the population.
pub fn nickname(user: Id) -> Vec<u8> {
    format!("m{:x}u{:x}", user.market, user.number).into_bytes()
}

/// The password of a user with this nickname, by which a driver knows it.
pub fn password(nickname: &[u8]) -> Vec<u8> {
    [b"pw", &nickname[..nickname.len().min(18)]].concat()
}

/// All keys of a market and their values, handed out one by one. `now` is the time of everything, in microseconds; not zero.
pub fn market(scale: &Scale, number: u32, now: u64, random: &mut dyn Source, each: &mut dyn FnMut(Pair)) {
    let mut market = Market { scale, number, now, random, each };
    market.lists();
    let mut regions = Vec::with_capacity(scale.users as usize);
    for _ in 0..scale.users {
        regions.push(between(market.random, 1, u32::from(REGIONS)) as u16);
    }
    let mut ratings = alloc::vec![0; scale.users as usize];
    let mut bids = 0;
    for item in 1..=scale.items {
        let seller = between(market.random, 1, scale.users);
        market.item(item, seller, regions[seller as usize - 1], &mut bids);
        ratings[seller as usize - 1] += market.comment(item, seller);
    }
    for (user, (region, rating)) in (1..).zip(regions.into_iter().zip(ratings)) {
        market.user(user, region, rating);
    }
    let next = [scale.users, scale.items, bids, 0, scale.items];
    for (table, greatest) in Table::NUMBERED.into_iter().zip(next) {
        let mut counter = Counter::new();
        counter.set_next(greatest + 1);
        market.put(key::counter(number, table), counter.as_bytes());
    }
}

/// A market that is being filled.
struct Market<'a> {
    scale: &'a Scale,
    number: u32,
    now: u64,
    random: &'a mut dyn Source,
    each: &'a mut dyn FnMut(Pair),
}

impl Market<'_> {
    fn put(&mut self, key: Vec<u8>, value: &[u8]) {
        (self.each)((key, value.to_vec()));
    }

    fn id(&self, number: u32) -> Id {
        Id { market: self.number, number }
    }

    fn any_user(&mut self) -> Id {
        let number = between(self.random, 1, self.scale.users);
        self.id(number)
    }

    /// Categories and regions, which are the same everywhere.
    fn lists(&mut self) {
        for number in 1..=CATEGORIES {
            let mut row = Category::new();
            row.set_name(Text::new(format!("category {number}").as_bytes()));
            self.put(key::category(self.number, number), row.as_bytes());
        }
        for number in 1..=REGIONS {
            let mut row = Region::new();
            row.set_name(Text::new(format!("region {number}").as_bytes()));
            self.put(key::region(self.number, number), row.as_bytes());
        }
    }

    fn user(&mut self, number: u32, region: u16, rating: i64) {
        let id = self.id(number);
        let nickname = nickname(id);
        let mut row = User::new();
        row.set_rating(rating);
        row.set_region(region);
        row.set_created(self.now);
        row.set_nickname(Text::new(&nickname));
        row.set_password(Text::new(&password(&nickname)));
        row.set_first(Text::new(&text(self.random, 5, 20)));
        row.set_last(Text::new(&text(self.random, 5, 20)));
        row.set_email(Text::new(&text(self.random, 10, 50)));
        self.put(key::user_by_name(self.number, &nickname), &number.to_be_bytes());
        self.put(key::user(id), row.as_bytes());
    }

    /// An item with its bids, which are numbered on.
    fn item(&mut self, number: u32, seller: u32, region: u16, bids: &mut u32) {
        let id = self.id(number);
        let category = between(self.random, 1, u32::from(CATEGORIES)) as u16;
        let mut row = Item::new();
        row.set_seller(seller);
        row.set_category(category);
        row.set_region(region);
        row.set_offered(between(self.random, 1, 10));
        row.set_quantity(row.offered());
        row.set_initial_price(i64::from(between(self.random, 100, 500_000)));
        row.set_reserve_price(row.initial_price() + i64::from(between(self.random, 0, 100_000)));
        row.set_buy_now_price(row.reserve_price() + i64::from(between(self.random, 0, 100_000)));
        row.set_started(self.now);
        row.set_ends(self.now + AUCTION_US);
        row.set_name(Text::new(&text(self.random, 10, 100)));
        row.set_data(&text(self.random, 50, 250));
        // A later bid of the same bidder takes the place of the note on an earlier one.
        let mut notes = BTreeMap::new();
        for _ in 0..between(self.random, 0, self.scale.bids_max) {
            *bids += 1;
            let bidder = self.any_user();
            let amount = self.bid(id, *bids, bidder, row.initial_price());
            notes.insert(bidder, amount);
            row.set_bids(row.bids() + 1);
            row.set_max_bid(row.max_bid().max(amount));
        }
        for (bidder, amount) in notes {
            let mut note = Note::new();
            note.set_quantity(1);
            note.set_amount(amount);
            note.set_date(self.now);
            self.put(key::bid_by_user(bidder, id), note.as_bytes());
        }
        self.put(key::item(id), row.as_bytes());
        self.put(key::item_by_category(id, category), b"");
        self.put(key::item_by_region(id, region, category), b"");
        self.put(key::item_by_seller(id, seller), b"");
    }

    /// A bid. Gives how much it is.
    fn bid(&mut self, item: Id, number: u32, bidder: Id, initial_price: i64) -> i64 {
        let amount = initial_price + i64::from(between(self.random, 1, 100_000));
        let mut row = Bid::new();
        row.set_bidder_market(bidder.market);
        row.set_bidder(bidder.number);
        row.set_nickname(Text::new(&nickname(bidder)));
        row.set_quantity(1);
        row.set_amount(amount);
        row.set_amount_max(amount);
        row.set_date(self.now);
        self.put(key::bid(item, number), row.as_bytes());
        amount
    }

    /// The comment on the seller of an item, which has the item's number. Gives its rating.
    fn comment(&mut self, item: u32, seller: u32) -> i64 {
        let author = self.any_user();
        let rating = RATINGS[between(self.random, 0, RATINGS.len() as u32 - 1) as usize];
        let mut row = Comment::new();
        row.set_author_market(author.market);
        row.set_author(author.number);
        row.set_nickname(Text::new(&nickname(author)));
        row.set_item_market(self.number);
        row.set_item(item);
        row.set_rating(rating);
        row.set_date(self.now);
        row.set_data(&text(self.random, 20, 150));
        self.put(key::comment(self.id(seller), item), row.as_bytes());
        rating
    }
}
