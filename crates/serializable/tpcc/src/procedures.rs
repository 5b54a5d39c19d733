//! The five procedures.
//!
//! Each is called at every shard that takes part, acts there for the warehouses that its arguments name, and
//! answers with what those had to say. The answers of several shards are parts of one: see the modules for
//! what they hold.

mod delivery;
mod named;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use alloc::vec::Vec;

use quorate_procedure::{Answer, Direction, Footprint, Needs, Procedure, Stop, Store};

pub use delivery::DeliveryAnswer;
pub use new_order::{INVALID_ITEM, NewOrderAnswer, OrderedHere, SuppliedHere};
pub use order_status::{OrderStatusAnswer, StatusLine};
pub use payment::PaymentAnswer;
pub use stock_level::StockLevelAnswer;

use crate::key;
use crate::row;
use crate::transaction::{Transaction, Who};

/// All five, told apart by their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tpcc;

/// The answer to arguments that are not those of a transaction.
pub const MALFORMED: &[u8] = b"the arguments are no transaction of TPC-C";

impl Procedure for Tpcc {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let Some((local, transaction)) = Transaction::decode(arguments) else {
            return Ok(Answer::Refused(MALFORMED.to_vec()));
        };
        match transaction {
            Transaction::NewOrder(order) => new_order::run(store, &local, &order),
            Transaction::Payment(payment) => payment::run(store, &local, &payment),
            Transaction::OrderStatus(status) => order_status::run(store, &status),
            Transaction::Delivery(delivery) => delivery::run(store, &delivery),
            Transaction::StockLevel(level) => stock_level::run(store, &level),
        }
    }

    /// The warehouses that it acts for.
    fn footprint(&self, arguments: &[u8]) -> Footprint {
        let local = Transaction::decode(arguments).map_or(Vec::new(), |(local, _)| local);
        let ranges = local.into_iter().map(key::of_warehouse).collect();
        Footprint::Keys { keys: Vec::new(), ranges }
    }

    fn named(&self, arguments: &[u8]) -> Needs {
        let decoded = Transaction::decode(arguments);
        decoded.map_or(Needs::default(), |(local, transaction)| named::needs(&local, &transaction))
    }
}

macro_rules! procedures {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl Procedure for $name {
            fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
                match Transaction::decode(arguments) {
                    Some((_, Transaction::$name(_))) => Tpcc.call(store, arguments),
                    _ => Ok(Answer::Refused(MALFORMED.to_vec())),
                }
            }

            fn footprint(&self, arguments: &[u8]) -> Footprint {
                Tpcc.footprint(arguments)
            }

            fn named(&self, arguments: &[u8]) -> Needs {
                Tpcc.named(arguments)
            }
        }
    )*};
}

procedures! {
    /// Only new orders.
    NewOrder,
    /// Only payments.
    Payment,
    /// Only the status of orders.
    OrderStatus,
    /// Only deliveries.
    Delivery,
    /// Only levels of stocks.
    StockLevel,
}

/// The bytes of a row that must be there: the population has it, and nothing takes it away.
fn must_get(store: &mut dyn Store, key: &[u8]) -> Result<Vec<u8>, Stop> {
    store.get(key)?.ok_or(Stop::Failed)
}

/// The number of a customer; none if there is no such customer.
fn find(store: &mut dyn Store, warehouse: u32, district: u8, who: &Who) -> Result<Option<u32>, Stop> {
    let name = match who {
        Who::Number(number) => return Ok(Some(*number)),
        Who::LastName(name) => name,
    };
    let (from, to) = key::customers_of_name(warehouse, district, name);
    let found = store.scan(&from, &to, usize::MAX, Direction::Ascending)?;
    // The middle one, rounded up: of the first, second and third the second, of the first and second the
    // first.
    let middle = found.len().div_ceil(2).checked_sub(1).and_then(|at| found.get(at));
    Ok(middle.and_then(|(key, _)| key::last_number(key)))
}

/// A customer with its number; none if there is no such customer.
fn customer(
    store: &mut dyn Store,
    warehouse: u32,
    district: u8,
    who: &Who,
) -> Result<Option<(u32, row::Customer)>, Stop> {
    let Some(number) = find(store, warehouse, district, who)? else { return Ok(None) };
    let Some(bytes) = store.get(&key::customer(warehouse, district, number))? else { return Ok(None) };
    Ok(Some((number, row::Customer::of(bytes)?)))
}

/// The answer where there is no such customer. The generator never asks for one: of a payment that two
/// shards take part in, one alone would refuse.
fn no_such_customer() -> Result<Answer, Stop> {
    Ok(Answer::Refused(b"there is no such customer".to_vec()))
}
