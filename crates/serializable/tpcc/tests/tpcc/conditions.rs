//! The conditions hold, and notice what is broken.

use quorate_procedure::{Answer, Procedure, Stop, Store};
use quorate_tpcc::Tpcc;
use quorate_tpcc::key::{self, Table};
use quorate_tpcc::row;
use quorate_tpcc::transaction::{Payment, Transaction, Who};

use crate::world::{NOW, World};

#[test]
fn the_population_is_consistent() {
    for warehouses in [1, 3] {
        assert_eq!(World::new(warehouses, warehouses as usize).violations(), [""; 0]);
    }
}

#[test]
fn whatever_is_run_the_conditions_hold() {
    for (warehouses, shards, seed) in [(1, 1, 1), (2, 2, 2), (5, 3, 3), (5, 5, 4)] {
        let mut world = World::new(warehouses, shards);
        let before = world.all();
        let kinds = world.run_many(&Tpcc, 3_000, seed);
        assert_eq!(world.violations(), [""; 0], "{warehouses} warehouses on {shards} shards");
        assert_ne!(world.all(), before);
        for kind in ["new-order", "payment", "order-status", "delivery", "stock-level", "refused"] {
            assert!(kinds.get(kind).is_some_and(|count| *count > 5), "{kinds:?}");
        }
    }
}

#[test]
fn where_warehouses_lie_changes_nothing() {
    let worlds = [1, 2, 4].map(|shards| {
        let mut world = World::new(4, shards);
        world.run_many(&Tpcc, 1_500, 9);
        world.all()
    });
    assert_eq!(worlds[0], worlds[1]);
    assert_eq!(worlds[0], worlds[2]);
}

/// Runs something else in place of one call, and TPC-C otherwise.
struct Broken<F>(F);

impl<F: Fn(&mut dyn Store, &[u32], &Transaction) -> Option<Answer>> Procedure for Broken<F> {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let (local, transaction) = Transaction::decode(arguments).expect("the generator makes no mistakes");
        match (self.0)(store, &local, &transaction) {
            Some(answer) => Ok(answer),
            None => Tpcc.call(store, arguments),
        }
    }
}

#[test]
fn a_transaction_that_is_carried_out_by_half_is_noticed() {
    let mut world = World::new(4, 4);
    let forgets_remote_stocks = Broken(|_: &mut dyn Store, local: &[u32], transaction: &Transaction| {
        let is_remote =
            matches!(transaction, Transaction::NewOrder(order) if !local.contains(&order.warehouse));
        is_remote.then(|| Answer::Done(NO_PART.to_vec()))
    });
    world.run_many(&forgets_remote_stocks, 500, 5);
    let violations = world.violations();
    assert!(
        !violations.is_empty() && violations.iter().all(|line| line.starts_with("stocks: ")),
        "{violations:?}"
    );

    let mut world = World::new(4, 4);
    let forgets_remote_customers = Broken(|_: &mut dyn Store, local: &[u32], transaction: &Transaction| {
        let is_remote =
            matches!(transaction, Transaction::Payment(payment) if !local.contains(&payment.warehouse));
        is_remote.then(|| Answer::Done(NO_PART.to_vec()))
    });
    world.run_many(&forgets_remote_customers, 500, 5);
    let violations = world.violations().join("\n");
    assert!(violations.contains("condition 8: ") && violations.contains("condition 9: "), "{violations}");
}

const NO_PART: &[u8] = &[0, 0];

#[test]
fn a_lost_update_is_noticed() {
    // Two payments to the same district read what it was paid before either writes.
    let mut world = World::new(1, 1);
    let before = world.shards[0].clone();
    let payment = |customer| {
        Transaction::Payment(Payment {
            warehouse: 1,
            district: 3,
            customer_warehouse: 1,
            customer_district: 3,
            customer: Who::Number(customer),
            amount: 12_345,
            date: NOW,
        })
    };
    world.run(&Tpcc, &payment(1)).unwrap();
    let paid = [key::warehouse(1), key::district(1, 3)];
    for key in &paid {
        world.shards[0].pairs.insert(key.clone(), before.pairs[key].clone());
    }
    world.run(&Tpcc, &payment(2)).unwrap();
    let violations = world.violations();
    assert_eq!(violations.len(), 2, "{violations:?}");
    assert!(violations[0].starts_with("condition 8: warehouse 1 was paid 312345"), "{violations:?}");
    assert!(violations[1].starts_with("condition 9: district (1, 3)"), "{violations:?}");
}

#[test]
fn each_condition_notices_what_it_is_about() {
    fn with<R>(row: Result<R, Stop>, change: impl FnOnce(&mut R)) -> R {
        let mut row = row.unwrap();
        change(&mut row);
        row
    }
    macro_rules! change {
        ($row:ident, $change:expr) => {
            |bytes: &mut Vec<u8>| {
                *bytes = with(row::$row::of(bytes.clone()), $change).as_bytes().to_vec();
                true
            }
        };
    }
    type Change = fn(&mut Vec<u8>) -> bool;
    let gone: Change = |_| false;
    let cases: [(Table, Change, &[&str]); 19] = [
        (
            Table::Warehouse,
            change!(Warehouse, |row| row.set_paid(row.paid() + 1)),
            &["condition 1", "condition 8"],
        ),
        (Table::Warehouse, gone, &["rows"]),
        (
            Table::District,
            change!(District, |row| row.set_paid(row.paid() - 1)),
            &["condition 1", "condition 9"],
        ),
        (Table::District, change!(District, |row| row.set_next_order(32)), &["condition 2"]),
        (Table::Customer, change!(Customer, |row| row.set_balance(0)), &["condition 10", "condition 12"]),
        (Table::Customer, change!(Customer, |row| row.set_paid(0)), &["condition 12"]),
        (Table::Customer, change!(Customer, |row| row.set_payments(2)), &["condition 12"]),
        (Table::Customer, change!(Customer, |row| row.set_deliveries(1)), &["condition 11"]),
        (Table::CustomerByName, gone, &["names"]),
        (Table::History, gone, &["condition 8", "condition 9", "condition 10"]),
        (Table::Order, gone, &["condition 2", "condition 4", "condition 5", "condition 6"]),
        (Table::Order, change!(Order, |row| row.set_carrier(3)), &["condition 5", "condition 7"]),
        (Table::Order, change!(Order, |row| row.set_lines(16)), &["condition 4", "condition 6"]),
        (Table::OrderByCustomer, gone, &["names"]),
        (Table::NewOrder, gone, &["condition 2", "condition 5"]),
        (Table::OrderLine, change!(OrderLine, |row| row.set_delivered(1)), &["condition 7"]),
        (Table::OrderLine, gone, &["condition 4", "condition 6"]),
        (Table::Item, gone, &["items"]),
        (Table::Stock, change!(Stock, |row| row.set_ordered(1)), &["stocks"]),
    ];
    for (table, change, expected) in cases {
        let mut world = World::new(1, 1);
        world.tamper(table, change);
        let violations = world.violations();
        for condition in expected {
            assert!(violations.iter().any(|line| line.starts_with(condition)), "{table:?}: {violations:?}");
        }
    }
    let mut world = World::new(1, 1);
    let (waiting, _) = key::new_orders(1, 4);
    let first = world.shards[0].pairs.range(waiting..).nth(3).unwrap().0.clone();
    world.shards[0].pairs.remove(&first);
    assert!(world.violations().iter().any(|line| line.starts_with("condition 3")));
    world.shards[0].pairs.insert(b"x".to_vec(), Vec::new());
    assert!(world.violations().iter().any(|line| line.starts_with("rows: the key [120]")));
}
