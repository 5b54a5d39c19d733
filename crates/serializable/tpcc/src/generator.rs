//! The mix (sections 2 and 5.2.3).

use alloc::vec::Vec;

use crate::random::{Constants, Source, between, last_name, non_uniform, percent};
use crate::scale::{DISTRICTS, Scale};
use crate::transaction::{Delivery, Line, NewOrder, OrderStatus, Payment, StockLevel, Transaction, Who};

/// How often what is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Out of a hundred transactions: payments, requests for the status of an order, deliveries, requests for
    /// the level of a stock. The rest are new orders.
    pub percents: [u32; 4],
    /// Out of a hundred lines, those that another warehouse supplies.
    pub remote_lines: u32,
    /// Out of a hundred payments, those of a customer of another warehouse.
    pub remote_payments: u32,
    /// Out of a hundred new orders, those with an item that does not exist.
    pub invalid_items: u32,
}

impl Default for Mix {
    fn default() -> Self {
        Mix { percents: [43, 4, 4, 4], remote_lines: 1, remote_payments: 15, invalid_items: 1 }
    }
}

impl Mix {
    /// The mixes that the paper on STR measures (its section 8.2): a name, and out of a hundred transactions new orders, payments and requests for the
    /// status of an order.
    pub const OF_STR: [(&'static str, [u32; 3]); 3] =
        [("A", [5, 83, 12]), ("B", [45, 43, 12]), ("C", [5, 43, 52])];

    /// The same with other shares, out of a hundred: new orders, payments, requests for the status of an order, deliveries, requests for the level of a
    /// stock. None if they are not a hundred.
    #[must_use]
    pub fn with_shares(self, [orders, payments, statuses, deliveries, levels]: [u32; 5]) -> Option<Self> {
        let shares = [orders, payments, statuses, deliveries, levels];
        let sum = shares.iter().try_fold(0u32, |sum, share| sum.checked_add(*share));
        (sum == Some(100)).then_some(Mix { percents: [payments, statuses, deliveries, levels], ..self })
    }

    /// The shares, out of a hundred, in the order of [`Mix::with_shares`].
    pub fn shares(&self) -> [u32; 5] {
        let [payments, statuses, deliveries, levels] = self.percents;
        let others = [payments, statuses, deliveries, levels].iter().sum();
        [100u32.saturating_sub(others), payments, statuses, deliveries, levels]
    }
}

/// Draws transactions.
#[derive(Clone, Debug)]
pub struct Generator {
    scale: Scale,
    constants: Constants,
    mix: Mix,
}

impl Generator {
    /// Transactions over a population, with the constants of this run ([`Constants::of_run`]).
    pub fn new(scale: Scale, constants: Constants, mix: Mix) -> Self {
        Generator { scale, constants, mix }
    }

    /// A transaction that is entered at any warehouse, at this time, in microseconds; not zero.
    pub fn next(&self, random: &mut dyn Source, now: u64) -> Transaction {
        let home = between(random, 1, self.scale.warehouses);
        self.next_at(random, home, now)
    }

    /// A transaction that is entered at this warehouse, at this time, in microseconds; not zero.
    pub fn next_at(&self, random: &mut dyn Source, home: u32, now: u64) -> Transaction {
        let [payments, statuses, deliveries, levels] = self.mix.percents;
        let drawn = between(random, 1, 100);
        if drawn <= payments {
            Transaction::Payment(self.payment(random, home, now))
        } else if drawn <= payments + statuses {
            Transaction::OrderStatus(self.order_status(random, home))
        } else if drawn <= payments + statuses + deliveries {
            let carrier = between(random, 1, 10) as u8;
            Transaction::Delivery(Delivery { warehouse: home, carrier, date: now })
        } else if drawn <= payments + statuses + deliveries + levels {
            let threshold = between(random, 10, 20) as u8;
            Transaction::StockLevel(StockLevel { warehouse: home, district: district(random), threshold })
        } else {
            Transaction::NewOrder(self.new_order(random, home, now))
        }
    }

    fn new_order(&self, random: &mut dyn Source, home: u32, now: u64) -> NewOrder {
        let count = between(random, 5, 15);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| Line {
                item: non_uniform(random, 8_191, self.constants.item, 1, self.scale.items),
                supplier: self.at_another(random, home, self.mix.remote_lines),
                quantity: between(random, 1, 10) as u8,
            })
            .collect();
        if percent(random, self.mix.invalid_items)
            && let Some(last) = lines.last_mut()
        {
            last.item = self.scale.items + 1;
        }
        NewOrder {
            warehouse: home,
            district: district(random),
            customer: self.number(random),
            entered: now,
            lines,
        }
    }

    fn payment(&self, random: &mut dyn Source, home: u32, now: u64) -> Payment {
        let own_district = district(random);
        let customer_warehouse = self.at_another(random, home, self.mix.remote_payments);
        let customer_district = if customer_warehouse == home { own_district } else { district(random) };
        Payment {
            warehouse: home,
            district: own_district,
            customer_warehouse,
            customer_district,
            customer: self.who(random),
            amount: i64::from(between(random, 100, 500_000)),
            date: now,
        }
    }

    fn order_status(&self, random: &mut dyn Source, home: u32) -> OrderStatus {
        OrderStatus { warehouse: home, district: district(random), customer: self.who(random) }
    }

    /// A customer: six in ten are known by name.
    fn who(&self, random: &mut dyn Source) -> Who {
        if percent(random, 60) {
            let names = self.scale.last_names();
            let name = non_uniform(random, 255, self.constants.last_name, 0, names - 1);
            Who::LastName(last_name(name).into_bytes())
        } else {
            Who::Number(self.number(random))
        }
    }

    fn number(&self, random: &mut dyn Source) -> u32 {
        non_uniform(random, 1_023, self.constants.customer, 1, self.scale.customers)
    }

    /// In so many of a hundred cases another warehouse, if there is one.
    fn at_another(&self, random: &mut dyn Source, home: u32, of_a_hundred: u32) -> u32 {
        if self.scale.warehouses < 2 || !percent(random, of_a_hundred) {
            return home;
        }
        let other = between(random, 1, self.scale.warehouses - 1);
        if other < home { other } else { other + 1 }
    }
}

fn district(random: &mut dyn Source) -> u8 {
    between(random, 1, u32::from(DISTRICTS)) as u8
}
