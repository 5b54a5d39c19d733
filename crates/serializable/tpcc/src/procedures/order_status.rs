//! A customer asks for its latest order (section 2.6).

use alloc::vec::Vec;

use quorate_procedure::{Answer, Direction, Stop, Store};

use super::{customer, must_get, no_such_customer};
use crate::bytes::{Reader, put, put_text};
use crate::key;
use crate::row::{Order, OrderLine};
use crate::transaction::{LINES_MAX, OrderStatus};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusAnswer {
    /// The number of the customer.
    pub customer: u32,
    /// Its balance, in cents.
    pub balance: i64,
    /// Its first, middle and last name.
    pub names: [Vec<u8>; 3],
    /// The number of its latest order, when it was entered, and who has delivered it (zero: nobody yet).
    pub order: (u32, u64, u8),
    /// The lines of that order.
    pub lines: Vec<StatusLine>,
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLine {
    /// Which item.
    pub item: u32,
    /// Which warehouse supplies it.
    pub supplier: u32,
    /// How many.
    pub quantity: u8,
    /// In cents.
    pub amount: i64,
    /// When it was delivered; zero if it was not.
    pub delivered: u64,
}

impl OrderStatusAnswer {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        put(&mut bytes, self.customer);
        put(&mut bytes, self.balance);
        self.names.iter().for_each(|name| put_text(&mut bytes, name));
        put(&mut bytes, self.order.0);
        put(&mut bytes, self.order.1);
        put(&mut bytes, self.order.2);
        put(&mut bytes, self.lines.len() as u8);
        for line in &self.lines {
            put(&mut bytes, line.item);
            put(&mut bytes, line.supplier);
            put(&mut bytes, line.quantity);
            put(&mut bytes, line.amount);
            put(&mut bytes, line.delivered);
        }
        bytes
    }

    /// Reads an answer; none if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (customer, balance) = (reader.take()?, reader.take()?);
        let mut name = || Some(reader.take_text()?.to_vec());
        let names = [name()?, name()?, name()?];
        let order = (reader.take()?, reader.take()?, reader.take()?);
        let count = reader.take::<u8>()?;
        let lines = reader.take_many(usize::from(count), |reader| {
            let (item, supplier, quantity) = (reader.take()?, reader.take()?, reader.take()?);
            Some(StatusLine { item, supplier, quantity, amount: reader.take()?, delivered: reader.take()? })
        })?;
        reader.is_done().then_some(OrderStatusAnswer { customer, balance, names, order, lines })
    }
}

pub(super) fn run(store: &mut dyn Store, status: &OrderStatus) -> Result<Answer, Stop> {
    let (warehouse, district) = (status.warehouse, status.district);
    let Some((number, customer)) = customer(store, warehouse, district, &status.customer)? else {
        return no_such_customer();
    };
    let (from, to) = key::orders_of_customer(warehouse, district, number);
    let latest = store.scan(&from, &to, 1, Direction::Descending)?;
    let latest = latest.first().and_then(|(key, _)| key::last_number(key)).ok_or(Stop::Failed)?;
    let order = must_get(store, &key::order(warehouse, district, latest));
    let (from, to) = key::order_lines(warehouse, district, latest, latest + 1);
    let found = store.scan(&from, &to, LINES_MAX, Direction::Ascending);
    let order = Order::of(order?)?;

    let mut lines = Vec::with_capacity(LINES_MAX);
    for (_, bytes) in found? {
        let line = OrderLine::of(bytes)?;
        lines.push(StatusLine {
            item: line.item(),
            supplier: line.supplier(),
            quantity: line.quantity(),
            amount: line.amount(),
            delivered: line.delivered(),
        });
    }
    let name = |name: &[u8]| name.to_vec();
    let answer = OrderStatusAnswer {
        customer: number,
        balance: customer.balance(),
        names: [
            name(customer.first().as_bytes()),
            name(customer.middle().as_bytes()),
            name(customer.last().as_bytes()),
        ],
        order: (latest, order.entered(), order.carrier()),
        lines,
    };
    Ok(Answer::Done(answer.encode()))
}
