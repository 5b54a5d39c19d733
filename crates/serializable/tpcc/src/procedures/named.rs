//! The keys and ranges that the arguments of a transaction name.

use quorate_procedure::{Direction, Needs};

use crate::key;
use crate::scale::DISTRICTS;
use crate::transaction::{NewOrder, Payment, Transaction, Who};

/// The reads of a transaction that follow from its arguments, for the warehouses that it acts for. A new order has no others.
pub(super) fn needs(local: &[u32], transaction: &Transaction) -> Needs {
    let mut needs = Needs::default();
    match transaction {
        Transaction::NewOrder(order) => of_new_order(local, order, &mut needs),
        Transaction::Payment(payment) => of_payment(local, payment, &mut needs),
        Transaction::OrderStatus(status) => {
            let (warehouse, district) = (status.warehouse, status.district);
            of_customer(warehouse, district, &status.customer, &mut needs);
            if let Who::Number(number) = status.customer {
                let orders = key::orders_of_customer(warehouse, district, number);
                needs.range(orders, 1, Direction::Descending);
            }
        }
        Transaction::Delivery(delivery) => {
            for district in 1..=DISTRICTS {
                needs.range(key::new_orders(delivery.warehouse, district), 1, Direction::Ascending);
            }
        }
        Transaction::StockLevel(level) => needs.key(&key::district(level.warehouse, level.district)),
    }
    needs
}

fn of_new_order(local: &[u32], order: &NewOrder, needs: &mut Needs) {
    let items_at = local.first().copied().unwrap_or(order.warehouse);
    for line in &order.lines {
        needs.key(&key::item(items_at, line.item));
        if local.contains(&line.supplier) {
            needs.key(&key::stock(line.supplier, line.item));
        }
    }
    if local.contains(&order.warehouse) {
        needs.key(&key::warehouse(order.warehouse));
        needs.key(&key::district(order.warehouse, order.district));
        needs.key(&key::customer(order.warehouse, order.district, order.customer));
    }
}

fn of_payment(local: &[u32], payment: &Payment, needs: &mut Needs) {
    if local.contains(&payment.customer_warehouse) {
        of_customer(payment.customer_warehouse, payment.customer_district, &payment.customer, needs);
    }
    if local.contains(&payment.warehouse) {
        needs.key(&key::warehouse(payment.warehouse));
        needs.key(&key::district(payment.warehouse, payment.district));
    }
}

fn of_customer(warehouse: u32, district: u8, who: &Who, needs: &mut Needs) {
    match who {
        Who::Number(number) => needs.key(&key::customer(warehouse, district, *number)),
        Who::LastName(name) => {
            needs.range(key::customers_of_name(warehouse, district, name), usize::MAX, Direction::Ascending);
        }
    }
}
