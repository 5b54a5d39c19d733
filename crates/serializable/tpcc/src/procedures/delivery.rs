//! The oldest order of each district is delivered (section 2.7).

use alloc::vec::Vec;

use quorate_procedure::{Answer, Direction, Stop, Store};

use super::must_get;
use crate::bytes::{Reader, put};
use crate::key;
use crate::row::{Customer, Order, OrderLine};
use crate::scale::DISTRICTS;
use crate::transaction::{Delivery, LINES_MAX};

/// The answer: the number of the order that was delivered in each district; none if none waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryAnswer {
    /// By district, from the first.
    pub orders: [Option<u32>; DISTRICTS as usize],
}

impl DeliveryAnswer {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 * usize::from(DISTRICTS));
        self.orders.iter().for_each(|order| put(&mut bytes, order.unwrap_or(0)));
        bytes
    }

    /// Reads an answer; none if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let mut answer = DeliveryAnswer::default();
        for order in &mut answer.orders {
            *order = Some(reader.take()?).filter(|number| *number != 0);
        }
        reader.is_done().then_some(answer)
    }
}

pub(super) fn run(store: &mut dyn Store, delivery: &Delivery) -> Result<Answer, Stop> {
    // Every district is begun before the first failure is looked at: where rows have to be fetched, those of all districts are fetched together.
    let delivered: Vec<_> = (1..=DISTRICTS).map(|district| deliver(store, delivery, district)).collect();
    let mut answer = DeliveryAnswer::default();
    for (delivered, order) in delivered.into_iter().zip(&mut answer.orders) {
        *order = delivered?;
    }
    Ok(Answer::Done(answer.encode()))
}

/// Delivers the oldest order of a district.
fn deliver(store: &mut dyn Store, delivery: &Delivery, district: u8) -> Result<Option<u32>, Stop> {
    let warehouse = delivery.warehouse;
    let (from, to) = key::new_orders(warehouse, district);
    let oldest = store.scan(&from, &to, 1, Direction::Ascending)?;
    let Some((waiting, _)) = oldest.first() else { return Ok(None) };
    let number = key::last_number(waiting).ok_or(Stop::Failed)?;
    store.delete(waiting)?;

    let order_key = key::order(warehouse, district, number);
    let order = must_get(store, &order_key);
    let (from, to) = key::order_lines(warehouse, district, number, number + 1);
    let lines = store.scan(&from, &to, LINES_MAX, Direction::Ascending);
    let mut order = Order::of(order?)?;
    order.set_carrier(delivery.carrier);
    store.put(&order_key, order.as_bytes())?;

    let mut sum = 0;
    for (line_key, bytes) in lines? {
        let mut line = OrderLine::of(bytes)?;
        sum += line.amount();
        line.set_delivered(delivery.date);
        store.put(&line_key, line.as_bytes())?;
    }

    let customer_key = key::customer(warehouse, district, order.customer());
    let mut customer = Customer::of(must_get(store, &customer_key)?)?;
    customer.set_balance(customer.balance().wrapping_add(sum));
    customer.set_deliveries(customer.deliveries().wrapping_add(1));
    store.put(&customer_key, customer.as_bytes())?;
    Ok(Some(number))
}
