//! The layout of keys: the market in four bytes, in braces, which keep it on one shard; the table in one byte, and what tells rows of that table apart.
//! Numbers are big endian, so that keys are in the order of numbers.

use alloc::vec::Vec;

/// The tables. Those with `By` lead from something else to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Table {
    /// By its number; the same at all markets.
    Category = 1,
    /// By its number; the same at all markets.
    Region,
    /// By the table that it numbers.
    Counter,
    /// By its number.
    User,
    /// By nickname; leads to the number of a user.
    UserByName,
    /// By its number.
    Item,
    /// By category and number; no value.
    ItemByCategory,
    /// By the region of the seller, category and number; no value.
    ItemByRegion,
    /// By the number of the seller and its own; no value.
    ItemBySeller,
    /// By the number of the item and its own.
    Bid,
    /// By the number of the bidder, and the item, of any market.
    BidByUser,
    /// By the number of the item and its own.
    Purchase,
    /// By the number of the buyer, the item, of any market, and the date.
    PurchaseByUser,
    /// By the number of the user that it is about and its own.
    Comment,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 14] = [
        Table::Category,
        Table::Region,
        Table::Counter,
        Table::User,
        Table::UserByName,
        Table::Item,
        Table::ItemByCategory,
        Table::ItemByRegion,
        Table::ItemBySeller,
        Table::Bid,
        Table::BidByUser,
        Table::Purchase,
        Table::PurchaseByUser,
        Table::Comment,
    ];

    /// The tables whose rows a counter of their market numbers.
    pub const NUMBERED: [Table; 5] = [Table::User, Table::Item, Table::Bid, Table::Purchase, Table::Comment];
}

/// A user or an item: its market, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The market.
    pub market: u32,
    /// The number.
    pub number: u32,
}

impl Id {
    /// Its bytes in keys.
    fn bytes(self) -> [u8; 8] {
        ((u64::from(self.market) << 32) | u64::from(self.number)).to_be_bytes()
    }

    fn of(bytes: [u8; 8]) -> Self {
        let number = u64::from_be_bytes(bytes);
        Id { market: (number >> 32) as u32, number: number as u32 }
    }
}

/// The bytes of the market at the beginning of each of its keys, with the braces: what places them on a shard.
pub const PREFIX: usize = 6;

fn prefix(market: u32, end: u8) -> [u8; PREFIX] {
    let [a, b, c, d] = market.to_be_bytes();
    [b'{', a, b, c, d, end]
}

fn key(market: u32, table: Table, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::with_capacity(PREFIX + 1 + parts.iter().map(|part| part.len()).sum::<usize>());
    key.extend_from_slice(&prefix(market, b'}'));
    key.push(table as u8);
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

/// All keys of a market: from the first up to, and without, the second.
pub fn of_market(number: u32) -> (Vec<u8>, Vec<u8>) {
    (prefix(number, b'}').to_vec(), prefix(number, b'}' + 1).to_vec())
}

/// The market and the table of a key, and what follows; none if it is no key of ours.
pub fn split(key: &[u8]) -> Option<(u32, Table, &[u8])> {
    let ([b'{', market @ .., b'}'], rest) = key.split_first_chunk::<PREFIX>()? else { return None };
    let (table, rest) = rest.split_first()?;
    let table = Table::ALL.into_iter().find(|of| *of as u8 == *table)?;
    Some((u32::from_be_bytes(*market), table, rest))
}

/// A category, as a market knows it.
pub fn category(market: u32, number: u16) -> Vec<u8> {
    key(market, Table::Category, &[&number.to_be_bytes()])
}

/// All categories.
pub fn categories(market: u32) -> (Vec<u8>, Vec<u8>) {
    all(market, Table::Category)
}

/// A region, as a market knows it.
pub fn region(market: u32, number: u16) -> Vec<u8> {
    key(market, Table::Region, &[&number.to_be_bytes()])
}

/// All regions.
pub fn regions(market: u32) -> (Vec<u8>, Vec<u8>) {
    all(market, Table::Region)
}

/// All rows of a table.
fn all(market: u32, table: Table) -> (Vec<u8>, Vec<u8>) {
    let from = key(market, table, &[]);
    let mut to = from.clone();
    to[PREFIX] += 1;
    (from, to)
}

/// The counter that numbers the rows of a table.
pub fn counter(market: u32, of: Table) -> Vec<u8> {
    key(market, Table::Counter, &[&[of as u8]])
}

/// A user.
pub fn user(id: Id) -> Vec<u8> {
    key(id.market, Table::User, &[&id.number.to_be_bytes()])
}

/// From a nickname to the number of a user.
pub fn user_by_name(market: u32, nickname: &[u8]) -> Vec<u8> {
    key(market, Table::UserByName, &[nickname])
}

/// An item.
pub fn item(id: Id) -> Vec<u8> {
    key(id.market, Table::Item, &[&id.number.to_be_bytes()])
}

/// From a category to an item.
pub fn item_by_category(item: Id, category: u16) -> Vec<u8> {
    key(item.market, Table::ItemByCategory, &[&category.to_be_bytes(), &item.number.to_be_bytes()])
}

/// The items of a category with this number or a greater one.
pub fn items_of_category(market: u32, category: u16, from: u32) -> (Vec<u8>, Vec<u8>) {
    let bound = |category: u16, from: u32| item_by_category(Id { market, number: from }, category);
    (bound(category, from), bound(category + 1, 0))
}

/// From the region of the seller and a category to an item.
pub fn item_by_region(item: Id, region: u16, category: u16) -> Vec<u8> {
    let parts: [&[u8]; 3] = [&region.to_be_bytes(), &category.to_be_bytes(), &item.number.to_be_bytes()];
    key(item.market, Table::ItemByRegion, &parts)
}

/// The items of a region and a category with this number or a greater one.
pub fn items_of_region(market: u32, region: u16, category: u16, from: u32) -> (Vec<u8>, Vec<u8>) {
    let bound = |category: u16, from: u32| item_by_region(Id { market, number: from }, region, category);
    (bound(category, from), bound(category + 1, 0))
}

/// From a seller to an item, which is of the same market.
pub fn item_by_seller(item: Id, seller: u32) -> Vec<u8> {
    key(item.market, Table::ItemBySeller, &[&seller.to_be_bytes(), &item.number.to_be_bytes()])
}

/// All items of a seller.
pub fn items_of_seller(seller: Id) -> (Vec<u8>, Vec<u8>) {
    of_number(seller.market, Table::ItemBySeller, seller.number)
}

/// A bid.
pub fn bid(item: Id, number: u32) -> Vec<u8> {
    key(item.market, Table::Bid, &[&item.number.to_be_bytes(), &number.to_be_bytes()])
}

/// All bids for an item.
pub fn bids_of(item: Id) -> (Vec<u8>, Vec<u8>) {
    of_number(item.market, Table::Bid, item.number)
}

/// The note of a bidder that it has bid for an item.
pub fn bid_by_user(bidder: Id, item: Id) -> Vec<u8> {
    key(bidder.market, Table::BidByUser, &[&bidder.number.to_be_bytes(), &item.bytes()])
}

/// All notes of a bidder on what it has bid for.
pub fn bids_by(bidder: Id) -> (Vec<u8>, Vec<u8>) {
    of_number(bidder.market, Table::BidByUser, bidder.number)
}

/// A purchase.
pub fn purchase(item: Id, number: u32) -> Vec<u8> {
    key(item.market, Table::Purchase, &[&item.number.to_be_bytes(), &number.to_be_bytes()])
}

/// The note of a buyer that it has asked for an item.
pub fn purchase_by_user(buyer: Id, item: Id, date: u64) -> Vec<u8> {
    let parts: [&[u8]; 3] = [&buyer.number.to_be_bytes(), &item.bytes(), &date.to_be_bytes()];
    key(buyer.market, Table::PurchaseByUser, &parts)
}

/// All notes of a buyer on what it has asked for.
pub fn purchases_by(buyer: Id) -> (Vec<u8>, Vec<u8>) {
    of_number(buyer.market, Table::PurchaseByUser, buyer.number)
}

/// A comment on a user.
pub fn comment(about: Id, number: u32) -> Vec<u8> {
    key(about.market, Table::Comment, &[&about.number.to_be_bytes(), &number.to_be_bytes()])
}

/// All comments on a user.
pub fn comments_about(user: Id) -> (Vec<u8>, Vec<u8>) {
    of_number(user.market, Table::Comment, user.number)
}

/// All rows of a table that begin with a number.
fn of_number(market: u32, table: Table, number: u32) -> (Vec<u8>, Vec<u8>) {
    let bound = |number: u32| key(market, table, &[&number.to_be_bytes()]);
    (bound(number), bound(number + 1))
}

/// The number at the end of a key.
pub fn last_number(key: &[u8]) -> Option<u32> {
    key.last_chunk().map(|number| u32::from_be_bytes(*number))
}

/// Reads a key's parts one after the other.
pub(crate) struct Parts<'a>(pub(crate) &'a [u8]);

impl Parts<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// A number of two bytes.
    pub(crate) fn short(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    /// A number of four bytes.
    pub(crate) fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// A date.
    pub(crate) fn date(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// An item of any market.
    pub(crate) fn id(&mut self) -> Option<Id> {
        self.take().map(Id::of)
    }
}
