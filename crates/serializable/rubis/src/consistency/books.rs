//! All rows of all shards, sorted by what they are about.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use quorate_procedure::Pair;
use quorate_tpcc::consistency::Report;

use crate::key::{self, Id, Parts, Table};
use crate::row::{Bid, Category, Comment, Counter, Item, Note, Purchase, Region, User};

/// All rows.
#[derive(Default)]
pub(super) struct Books {
    /// How many categories and regions a market has.
    pub(super) lists: BTreeMap<u32, (usize, usize)>,
    /// The next number of each table of a market.
    pub(super) next: BTreeMap<(u32, Table), u32>,
    /// The numbers that rows of each table of a market have.
    pub(super) numbers: BTreeMap<(u32, Table), Vec<u32>>,
    pub(super) users: BTreeMap<Id, User>,
    /// By market and nickname.
    pub(super) by_name: BTreeMap<(u32, Vec<u8>), u32>,
    pub(super) items: BTreeMap<Id, Item>,
    pub(super) by_category: BTreeSet<(Id, u16)>,
    /// Item, region and category.
    pub(super) by_region: BTreeSet<(Id, u16, u16)>,
    /// Item and number of the seller.
    pub(super) by_seller: BTreeSet<(Id, u32)>,
    /// By item.
    pub(super) bids: BTreeMap<Id, Vec<Bid>>,
    /// By item.
    pub(super) purchases: BTreeMap<Id, Vec<Purchase>>,
    /// By the user that they are about.
    pub(super) comments: BTreeMap<Id, Vec<Comment>>,
    /// Bidder and item.
    pub(super) bid_notes: BTreeSet<(Id, Id)>,
    /// Buyer, item and date.
    pub(super) purchase_notes: BTreeSet<(Id, Id, u64)>,
}

impl Books {
    pub(super) fn read(pairs: impl IntoIterator<Item = Pair>, report: &mut Report) -> Self {
        let mut books = Books::default();
        for (key, value) in pairs {
            if books.add(&key, value).is_none() {
                report.add("rows", || format!("the key {key:?} or its value is none of RUBiS's"));
            }
        }
        books
    }

    /// Sorts a row in; none if it is no row.
    fn add(&mut self, key: &[u8], value: Vec<u8>) -> Option<()> {
        let (market, table, rest) = key::split(key)?;
        let mut parts = Parts(rest);
        match table {
            Table::Category => {
                Category::of(value).ok()?;
                parts.short()?;
                self.lists.entry(market).or_default().0 += 1;
            }
            Table::Region => {
                Region::of(value).ok()?;
                parts.short()?;
                self.lists.entry(market).or_default().1 += 1;
            }
            Table::Counter => {
                let ([of], rest) = parts.0.split_first_chunk()?;
                let of = Table::NUMBERED.into_iter().find(|table| *table as u8 == *of)?;
                parts = Parts(rest);
                self.next.insert((market, of), Counter::of(value).ok()?.next());
            }
            Table::User => {
                let id = Id { market, number: parts.number()? };
                self.number(market, table, id.number);
                self.users.insert(id, User::of(value).ok()?);
            }
            Table::UserByName => {
                self.by_name.insert((market, parts.0.to_vec()), key::last_number(&value)?);
                parts = Parts(&[]);
            }
            Table::Item => {
                let id = Id { market, number: parts.number()? };
                self.number(market, table, id.number);
                self.items.insert(id, Item::of(value).ok()?);
            }
            Table::ItemByCategory => {
                let category = parts.short()?;
                self.by_category.insert((Id { market, number: parts.number()? }, category));
            }
            Table::ItemByRegion => {
                let (region, category) = (parts.short()?, parts.short()?);
                self.by_region.insert((Id { market, number: parts.number()? }, region, category));
            }
            Table::ItemBySeller => {
                let seller = parts.number()?;
                self.by_seller.insert((Id { market, number: parts.number()? }, seller));
            }
            Table::Bid => {
                let item = Id { market, number: parts.number()? };
                self.number(market, table, parts.number()?);
                self.bids.entry(item).or_default().push(Bid::of(value).ok()?);
            }
            Table::BidByUser => {
                let bidder = Id { market, number: parts.number()? };
                Note::of(value).ok()?;
                self.bid_notes.insert((bidder, parts.id()?));
            }
            Table::Purchase => {
                let item = Id { market, number: parts.number()? };
                self.number(market, table, parts.number()?);
                self.purchases.entry(item).or_default().push(Purchase::of(value).ok()?);
            }
            Table::PurchaseByUser => {
                let buyer = Id { market, number: parts.number()? };
                Note::of(value).ok()?;
                self.purchase_notes.insert((buyer, parts.id()?, parts.date()?));
            }
            Table::Comment => {
                let about = Id { market, number: parts.number()? };
                self.number(market, table, parts.number()?);
                self.comments.entry(about).or_default().push(Comment::of(value).ok()?);
            }
        }
        parts.0.is_empty().then_some(())
    }

    fn number(&mut self, market: u32, table: Table, number: u32) {
        self.numbers.entry((market, table)).or_default().push(number);
    }
}
