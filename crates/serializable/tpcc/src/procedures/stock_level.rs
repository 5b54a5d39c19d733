//! How many of the items that were ordered lately are nearly out of stock (section 2.8).

use alloc::vec::Vec;

use quorate_procedure::{Answer, Direction, Stop, Store};

use super::must_get;
use crate::bytes::{Reader, put};
use crate::key;
use crate::row::{District, OrderLine, Stock};
use crate::transaction::{LINES_MAX, StockLevel};

/// The orders that count as lately.
const LATELY: u32 = 20;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelAnswer {
    /// How many items there are fewer of than asked for.
    pub low: u32,
}

impl StockLevelAnswer {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4);
        put(&mut bytes, self.low);
        bytes
    }

    /// Reads an answer; none if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let low = reader.take()?;
        reader.is_done().then_some(StockLevelAnswer { low })
    }
}

pub(super) fn run(store: &mut dyn Store, level: &StockLevel) -> Result<Answer, Stop> {
    let (warehouse, district) = (level.warehouse, level.district);
    let next = District::of(must_get(store, &key::district(warehouse, district))?)?.next_order();
    let (from, to) = key::order_lines(warehouse, district, next.saturating_sub(LATELY), next);
    let lines = store.scan(&from, &to, LATELY as usize * LINES_MAX, Direction::Ascending)?;
    let mut items = Vec::with_capacity(lines.len());
    for (_, bytes) in lines {
        items.push(OrderLine::of(bytes)?.item());
    }
    items.sort_unstable();
    items.dedup();
    // All are asked for before the first is looked at: where they have to be fetched, they are fetched together.
    let stocks: Vec<_> =
        items.into_iter().map(|item| must_get(store, &key::stock(warehouse, item))).collect();
    let mut low = 0;
    for bytes in stocks {
        low += u32::from(Stock::of(bytes?)?.quantity() < i64::from(level.threshold));
    }
    Ok(Answer::Done(StockLevelAnswer { low }.encode()))
}
