//! A customer pays (section 2.5).

use alloc::string::ToString;
use alloc::vec::Vec;

use quorate_procedure::{Answer, Stop, Store};

use super::{customer, must_get, no_such_customer};
use crate::bytes::{Reader, put, put_text};
use crate::key;
use crate::row::{Customer, District, History, Warehouse};
use crate::transaction::Payment;

/// As much as this is known of a customer at most.
const DATA_MAX: usize = 500;

/// The answer of a shard to a payment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentAnswer {
    /// The names of the warehouse and the district that were paid, if they are here.
    pub paid: Option<(Vec<u8>, Vec<u8>)>,
    /// The number of the customer and its balance, in cents, if it is here.
    pub customer: Option<(u32, i64)>,
}

impl PaymentAnswer {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        put(&mut bytes, u8::from(self.paid.is_some()));
        if let Some((warehouse, district)) = &self.paid {
            put_text(&mut bytes, warehouse);
            put_text(&mut bytes, district);
        }
        put(&mut bytes, u8::from(self.customer.is_some()));
        if let Some((number, balance)) = self.customer {
            put(&mut bytes, number);
            put(&mut bytes, balance);
        }
        bytes
    }

    /// Reads an answer; none if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let paid = match reader.take::<u8>()? {
            0 => None,
            _ => Some((reader.take_text()?.to_vec(), reader.take_text()?.to_vec())),
        };
        let customer = match reader.take::<u8>()? {
            0 => None,
            _ => Some((reader.take()?, reader.take()?)),
        };
        reader.is_done().then_some(PaymentAnswer { paid, customer })
    }
}

pub(super) fn run(store: &mut dyn Store, local: &[u32], payment: &Payment) -> Result<Answer, Stop> {
    let mut answer = PaymentAnswer::default();
    if local.contains(&payment.customer_warehouse) {
        let (warehouse, district) = (payment.customer_warehouse, payment.customer_district);
        match customer(store, warehouse, district, &payment.customer)? {
            Some((number, customer)) => answer.customer = Some(charge(store, payment, number, customer)?),
            None => return no_such_customer(),
        }
    }
    if local.contains(&payment.warehouse) {
        answer.paid = Some(receive(store, payment)?);
    }
    Ok(Answer::Done(answer.encode()))
}

/// Notes what the warehouse and the district are paid.
fn receive(store: &mut dyn Store, payment: &Payment) -> Result<(Vec<u8>, Vec<u8>), Stop> {
    let key = key::warehouse(payment.warehouse);
    let mut warehouse = Warehouse::of(must_get(store, &key)?)?;
    warehouse.set_paid(warehouse.paid().wrapping_add(payment.amount));
    store.put(&key, warehouse.as_bytes())?;

    let key = key::district(payment.warehouse, payment.district);
    let mut district = District::of(must_get(store, &key)?)?;
    district.set_paid(district.paid().wrapping_add(payment.amount));
    store.put(&key, district.as_bytes())?;
    Ok((warehouse.name().as_bytes().to_vec(), district.name().as_bytes().to_vec()))
}

/// Notes what the customer pays. The number of its payments tells its rows of history apart.
fn charge(
    store: &mut dyn Store,
    payment: &Payment,
    number: u32,
    mut customer: Customer,
) -> Result<(u32, i64), Stop> {
    let (warehouse, district) = (payment.customer_warehouse, payment.customer_district);
    let payments = customer.payments().wrapping_add(1);
    customer.set_balance(customer.balance().wrapping_sub(payment.amount));
    customer.set_paid(customer.paid().wrapping_add(payment.amount));
    customer.set_payments(payments);
    if customer.credit().as_bytes() == b"BC" {
        let mut data = note(payment, number);
        data.extend_from_slice(customer.data());
        data.truncate(DATA_MAX);
        customer.set_data(&data);
    }
    store.put(&key::customer(warehouse, district, number), customer.as_bytes())?;

    let mut history = History::new();
    history.set_amount(payment.amount);
    history.set_warehouse(payment.warehouse);
    history.set_district(payment.district);
    history.set_date(payment.date);
    store.put(&key::history(warehouse, district, number, payments), history.as_bytes())?;
    Ok((number, customer.balance()))
}

/// The note of a payment by a customer with bad credit.
fn note(payment: &Payment, number: u32) -> Vec<u8> {
    let Payment { customer_warehouse, customer_district, warehouse, district, amount, .. } = payment;
    let numbers =
        [number, *customer_warehouse, u32::from(*customer_district), *warehouse, u32::from(*district)];
    let mut note = Vec::with_capacity(64);
    for number in numbers {
        note.extend_from_slice(number.to_string().as_bytes());
        note.push(b' ');
    }
    note.extend_from_slice(amount.to_string().as_bytes());
    note.push(b'|');
    note
}
