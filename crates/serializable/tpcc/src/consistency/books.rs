//! All rows of all shards, sorted by what they are about.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use quorate_procedure::{Pair, Stop};

use super::{Place, Report};
use crate::key::{self, Table};
use crate::row::{Customer, District, History, Item, Order, OrderLine, Stock, Warehouse};

/// All rows.
#[derive(Default)]
pub(super) struct Books {
    pub(super) warehouses: BTreeMap<u32, Warehouse>,
    pub(super) districts: BTreeMap<Place, DistrictBooks>,
    /// The payments to a district, by the rows of the history.
    pub(super) paid: BTreeMap<Place, i64>,
    /// By warehouse and number.
    pub(super) items: BTreeMap<u32, BTreeMap<u32, Item>>,
    /// By warehouse and item.
    pub(super) stocks: BTreeMap<(u32, u32), Stock>,
}

/// The rows of a district.
#[derive(Default)]
pub(super) struct DistrictBooks {
    pub(super) row: Option<District>,
    pub(super) customers: BTreeMap<u32, Customer>,
    /// Last name, first name and number of customers.
    pub(super) by_name: BTreeSet<(Vec<u8>, Vec<u8>, u32)>,
    pub(super) orders: BTreeMap<u32, Order>,
    /// The numbers of customers and of their orders.
    pub(super) by_customer: BTreeSet<(u32, u32)>,
    pub(super) lines: BTreeMap<u32, Vec<OrderLine>>,
    pub(super) waiting: BTreeSet<u32>,
    /// Of each customer how often it has paid, and how much.
    pub(super) history: BTreeMap<u32, (u32, i64)>,
}

impl Books {
    pub(super) fn read(pairs: impl IntoIterator<Item = Pair>, report: &mut Report) -> Self {
        let mut books = Books::default();
        for (key, value) in pairs {
            if books.add(&key, value).is_none() {
                report.add("rows", || format!("the key {key:?} or its value is none of TPC-C's"));
            }
        }
        books
    }

    /// Sorts a row in; none if it is no row.
    fn add(&mut self, key: &[u8], value: Vec<u8>) -> Option<()> {
        let (warehouse, table, mut rest) = key::split(key)?;
        match table {
            Table::Warehouse => {
                self.warehouses.insert(warehouse, row(Warehouse::of(value))?);
            }
            Table::Item => {
                self.items.entry(warehouse).or_default().insert(number(&mut rest)?, row(Item::of(value))?);
            }
            Table::Stock => {
                self.stocks.insert((warehouse, number(&mut rest)?), row(Stock::of(value))?);
            }
            _ => {
                let (district, after) = rest.split_first()?;
                if table == Table::History {
                    let history = row(History::of(value.clone()))?;
                    *self.paid.entry((history.warehouse(), history.district())).or_default() +=
                        history.amount();
                }
                self.districts.entry((warehouse, *district)).or_default().add(table, after, value)?;
                rest = &[];
            }
        }
        rest.is_empty().then_some(())
    }
}

impl DistrictBooks {
    fn add(&mut self, table: Table, mut rest: &[u8], value: Vec<u8>) -> Option<()> {
        match table {
            Table::District => self.row = Some(row(District::of(value))?),
            Table::Customer => {
                self.customers.insert(number(&mut rest)?, row(Customer::of(value))?);
            }
            Table::CustomerByName => {
                let mut parts = rest.splitn(3, |byte| *byte == 0);
                let (last, first) = (parts.next()?.to_vec(), parts.next()?.to_vec());
                rest = parts.next()?;
                self.by_name.insert((last, first, number(&mut rest)?));
            }
            Table::History => {
                let (customer, _) = (number(&mut rest)?, number(&mut rest)?);
                let (count, paid) = self.history.entry(customer).or_default();
                *count += 1;
                *paid += row(History::of(value))?.amount();
            }
            Table::Order => {
                self.orders.insert(number(&mut rest)?, row(Order::of(value))?);
            }
            Table::OrderByCustomer => {
                self.by_customer.insert((number(&mut rest)?, number(&mut rest)?));
            }
            Table::NewOrder => {
                self.waiting.insert(number(&mut rest)?);
            }
            Table::OrderLine => {
                let lines = self.lines.entry(number(&mut rest)?).or_default();
                let (_, after) = rest.split_first()?;
                rest = after;
                lines.push(row(OrderLine::of(value))?);
            }
            Table::Warehouse | Table::Item | Table::Stock => return None,
        }
        rest.is_empty().then_some(())
    }
}

fn row<R>(row: Result<R, Stop>) -> Option<R> {
    row.ok()
}

/// The number at the beginning, which is taken away.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}
