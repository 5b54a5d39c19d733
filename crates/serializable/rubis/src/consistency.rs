//! The conditions that must hold at any time.
//!
//! | condition | what |
//! |---|---|
//! | rows | each market has all categories and regions, and what a row refers to is there |
//! | numbers | rows are numbered without gaps, and the next number of a table follows its greatest |
//! | bids | an item has as many bids as it says, and the greatest of them is what it says |
//! | quantities | what there is of an item and what was sold of it is what was offered, and never below zero |
//! | ratings | the rating of a user is the sum of those of all comments on it |
//! | names | an item is found by category, region and seller, a user by nickname, and nothing else is |
//! | notes | each bidder and each buyer has a note of it at home, and no other user has |
//!
//! The last one is what tells whether interactions of two markets are carried out everywhere or nowhere.

mod books;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use quorate_procedure::Pair;
use quorate_tpcc::consistency::Report;

use crate::key::{Id, Table};
use crate::scale::{CATEGORIES, REGIONS, Scale};
use books::Books;

/// The conditions that are violated, in words; none if all is well. `pairs` are all keys of all shards, in any order.
pub fn violations(scale: &Scale, pairs: impl IntoIterator<Item = Pair>) -> Vec<String> {
    let mut report = Report::default();
    let books = Books::read(pairs, &mut report);
    lists(scale, &books, &mut report);
    numbers(&books, &mut report);
    items(&books, &mut report);
    users(&books, &mut report);
    notes(&books, &mut report);
    report.finish()
}

/// Every market has what all have.
fn lists(scale: &Scale, books: &Books, report: &mut Report) {
    for market in 1..=scale.markets {
        let (categories, regions) = books.lists.get(&market).copied().unwrap_or_default();
        report.expect(
            "rows",
            (categories, regions) == (usize::from(CATEGORIES), usize::from(REGIONS)),
            || format!("market {market} has {categories} categories and {regions} regions"),
        );
        for table in Table::NUMBERED {
            report.expect("rows", books.next.contains_key(&(market, table)), || {
                format!("nothing numbers table {table:?} of market {market}")
            });
        }
    }
}

fn numbers(books: &Books, report: &mut Report) {
    for ((market, table), next) in &books.next {
        let numbers = books.numbers.get(&(*market, *table)).map_or(&[][..], Vec::as_slice);
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        let greatest = sorted.last().copied().unwrap_or_default();
        report.expect("numbers", u64::from(*next) == u64::from(greatest) + 1, || {
            format!("the next of table {table:?} of market {market} is {next}, and its greatest {greatest}")
        });
        report.expect("numbers", sorted.iter().copied().eq(1..=greatest), || {
            let count = numbers.len();
            format!("table {table:?} of market {market} has {count} rows, which are not numbered from 1 to {greatest}")
        });
    }
    for (market, table) in books.numbers.keys().filter(|place| !books.next.contains_key(place)) {
        report.add("rows", || format!("nothing numbers table {table:?} of market {market}"));
    }
}

/// Bids, quantities, and the names of items.
fn items(books: &Books, report: &mut Report) {
    for (id, item) in &books.items {
        let bids = books.bids.get(id).map_or(&[][..], Vec::as_slice);
        report.expect("bids", item.bids() as usize == bids.len(), || {
            format!("{id:?} says that it has {} bids, and has {}", item.bids(), bids.len())
        });
        let greatest = bids.iter().map(|bid| bid.amount()).max().unwrap_or_default();
        report.expect("bids", item.max_bid() == greatest, || {
            format!("{id:?} says that its greatest bid is {}, which is {greatest}", item.max_bid())
        });
        let purchases = books.purchases.get(id).map_or(&[][..], Vec::as_slice);
        let sold: u64 = purchases.iter().map(|purchase| u64::from(purchase.sold())).sum();
        report.expect("quantities", u64::from(item.offered()) == u64::from(item.quantity()) + sold, || {
            let (offered, quantity) = (item.offered(), item.quantity());
            format!("of {id:?} {offered} were offered, {sold} were sold, and there are {quantity}")
        });
        for purchase in purchases.iter().filter(|purchase| purchase.sold() > purchase.wanted()) {
            let (sold, wanted) = (purchase.sold(), purchase.wanted());
            report.add("quantities", || format!("of {id:?} {sold} were sold where {wanted} were wanted"));
        }
        let seller = Id { market: id.market, number: item.seller() };
        report.expect("rows", books.users.contains_key(&seller), || {
            format!("{id:?} is sold by {seller:?}, which does not exist")
        });
        let names = [
            books.by_category.contains(&(*id, item.category())),
            books.by_region.contains(&(*id, item.region(), item.category())),
            books.by_seller.contains(&(*id, item.seller())),
        ];
        report.expect("names", names == [true; 3], || {
            format!("{id:?} is found by category, region and seller: {names:?}")
        });
    }
    let found = [books.by_category.len(), books.by_region.len(), books.by_seller.len()];
    let count = books.items.len();
    report.expect("names", found == [count; 3], || {
        format!("{found:?} keys lead to items by category, region and seller, and there are {count}")
    });
    let of = books.bids.keys().chain(books.purchases.keys());
    for id in of.filter(|id| !books.items.contains_key(id)) {
        report.add("rows", || format!("{id:?} was bid for or bought, and does not exist"));
    }
}

/// Ratings, and the names of users.
fn users(books: &Books, report: &mut Report) {
    for (id, user) in &books.users {
        let rating: i64 = books.comments.get(id).into_iter().flatten().map(|comment| comment.rating()).sum();
        report.expect("ratings", user.rating() == rating, || {
            format!("the rating of {id:?} is {}, and comments on it give {rating}", user.rating())
        });
        let name = (id.market, user.nickname().as_bytes().to_vec());
        report.expect("names", books.by_name.get(&name) == Some(&id.number), || {
            format!("{id:?} is not found by its nickname")
        });
    }
    let (names, users) = (books.by_name.len(), books.users.len());
    report.expect("names", names == users, || {
        format!("{names} nicknames lead to users, and there are {users}")
    });
    for id in books.comments.keys().filter(|id| !books.users.contains_key(id)) {
        report.add("rows", || format!("{id:?} was commented on, and does not exist"));
    }
}

/// The bids and purchases, and the notes that users have of them.
fn notes(books: &Books, report: &mut Report) {
    let mut bids: BTreeMap<(Id, Id), bool> = books.bid_notes.iter().map(|note| (*note, false)).collect();
    for (item, bid) in books.bids.iter().flat_map(|(item, bids)| bids.iter().map(move |bid| (item, bid))) {
        let bidder = Id { market: bid.bidder_market(), number: bid.bidder() };
        match bids.get_mut(&(bidder, *item)) {
            Some(is_so) => *is_so = true,
            None => report.add("notes", || format!("{bidder:?} has bid for {item:?}, without a note of it")),
        }
    }
    for ((bidder, item), _) in bids.into_iter().filter(|(_, is_so)| !is_so) {
        report.add("notes", || format!("{bidder:?} has a note that it has bid for {item:?}, and has not"));
    }
    let mut purchases: BTreeMap<(Id, Id, u64), bool> =
        books.purchase_notes.iter().map(|note| (*note, false)).collect();
    let bought = books.purchases.iter().flat_map(|(item, all)| all.iter().map(move |one| (item, one)));
    for (item, purchase) in bought {
        let buyer = Id { market: purchase.buyer_market(), number: purchase.buyer() };
        match purchases.get_mut(&(buyer, *item, purchase.date())) {
            Some(is_so) => *is_so = true,
            None => report.add("notes", || format!("{buyer:?} has bought {item:?}, without a note of it")),
        }
    }
    for ((buyer, item, _), _) in purchases.into_iter().filter(|(_, is_so)| !is_so) {
        report.add("notes", || format!("{buyer:?} has a note that it has bought {item:?}, and has not"));
    }
}
