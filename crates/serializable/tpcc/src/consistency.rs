//! The conditions that must hold at any time: the twelve of section 3.3.2, and those that this layout adds.
//!
//! | condition | what |
//! |---|---|
//! | 1 | what a warehouse was paid is what its districts were paid |
//! | 2 | the next order of a district follows its greatest order, and that is the greatest one that waits |
//! | 3 | the orders that wait are without gaps |
//! | 4, 6 | orders have as many lines as they say |
//! | 5, 7 | an order has a carrier, and its lines are delivered, if and only if it does not wait |
//! | 8, 9 | what a warehouse and a district were paid is what history says |
//! | 10, 12 | what a customer has is what was delivered to it, without what it has paid |
//! | 11 | as many orders were delivered as customers say; of the population, seven tenths |
//! | names | a customer is found by its name, an order by its customer, and nothing else is |
//! | items | each warehouse has the same items, and a stock of each |
//! | stocks | what was ordered of a stock is what lines of orders say, wherever they stand |
//!
//! The last one is what tells whether orders of several warehouses are carried out everywhere or nowhere.

mod books;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use quorate_procedure::Pair;

use crate::scale::{DISTRICTS, Scale};
use books::{Books, DistrictBooks};

/// As many violations are spelled out for each condition; the others are counted.
const SHOWN: usize = 5;

/// The conditions that are violated, in words; none if all is well. `pairs` are all keys of all shards, in any order.
pub fn violations(scale: &Scale, pairs: impl IntoIterator<Item = Pair>) -> Vec<String> {
    let mut report = Report::default();
    let books = Books::read(pairs, &mut report);
    presence(scale, &books, &mut report);
    paid(&books, &mut report);
    for (place, district) in &books.districts {
        numbers(place, district, &mut report);
        orders(place, district, &mut report);
        customers(scale, place, district, &mut report);
        names(place, district, &mut report);
    }
    items(scale, &books, &mut report);
    stocks(scale, &books, &mut report);
    report.finish()
}

/// A district: its warehouse and its number.
type Place = (u32, u8);

/// The violations that were found, by condition.
#[derive(Clone, Debug, Default)]
pub struct Report {
    found: BTreeMap<&'static str, (Vec<String>, usize)>,
}

impl Report {
    /// A condition is violated, as this says.
    pub fn add(&mut self, condition: &'static str, text: impl FnOnce() -> String) {
        let (shown, count) = self.found.entry(condition).or_default();
        if shown.len() < SHOWN {
            shown.push(text());
        }
        *count += 1;
    }

    /// A condition is violated, as this says, unless it holds.
    pub fn expect(&mut self, condition: &'static str, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.add(condition, text);
        }
    }

    /// The violations, in words: the first of each condition, and how many more there are.
    pub fn finish(self) -> Vec<String> {
        let mut lines = Vec::new();
        for (condition, (shown, count)) in self.found {
            let more = count - shown.len();
            lines.extend(shown.into_iter().map(|text| format!("{condition}: {text}")));
            if more > 0 {
                lines.push(format!("{condition}: and {more} more like this"));
            }
        }
        lines
    }
}

/// Everything that there should be is there.
fn presence(scale: &Scale, books: &Books, report: &mut Report) {
    let count = books.warehouses.len();
    report.expect("rows", count == scale.warehouses as usize, || {
        format!("there are {count} warehouses, and there should be {}", scale.warehouses)
    });
    for (place, district) in &books.districts {
        report.expect("rows", district.row.is_some(), || format!("district {place:?} has no row"));
        let count = district.customers.len();
        report.expect("rows", count == scale.customers as usize, || {
            format!("district {place:?} has {count} customers, and should have {}", scale.customers)
        });
    }
    let count = books.districts.len();
    report.expect("rows", count == books.warehouses.len() * usize::from(DISTRICTS), || {
        format!("there are {count} districts, and there should be {DISTRICTS} for each warehouse")
    });
}

/// Conditions 1, 8 and 9.
fn paid(books: &Books, report: &mut Report) {
    for (number, warehouse) in &books.warehouses {
        let districts = books.districts.range((*number, 0)..=(*number, u8::MAX));
        let sum: i64 =
            districts.filter_map(|(_, district)| district.row.as_ref()).map(|row| row.paid()).sum();
        let paid = warehouse.paid();
        report.expect("condition 1", paid == sum, || {
            format!("warehouse {number} was paid {paid}, and its districts {sum}")
        });
        let history: i64 = books.paid.range((*number, 0)..=(*number, u8::MAX)).map(|(_, paid)| paid).sum();
        report.expect("condition 8", paid == history, || {
            format!("warehouse {number} was paid {paid}, and history says {history}")
        });
    }
    for (place, district) in &books.districts {
        let paid = district.row.as_ref().map_or(0, |row| row.paid());
        let history = books.paid.get(place).copied().unwrap_or(0);
        report.expect("condition 9", paid == history, || {
            format!("district {place:?} was paid {paid}, and history says {history}")
        });
    }
}

/// Conditions 2 and 3.
fn numbers(place: &Place, district: &DistrictBooks, report: &mut Report) {
    let next = district.row.as_ref().map_or(0, |row| row.next_order());
    let greatest = district.orders.keys().next_back().copied().unwrap_or(0);
    report.expect("condition 2", next == greatest + 1, || {
        format!("the next order of district {place:?} is {next}, and its greatest is {greatest}")
    });
    let (Some(first), Some(last)) = (district.waiting.first(), district.waiting.last()) else { return };
    report.expect("condition 2", *last == greatest, || {
        format!("of district {place:?} order {last} is the greatest that waits, and {greatest} the greatest")
    });
    let count = district.waiting.len();
    report.expect("condition 3", (last - first) as usize + 1 == count, || {
        format!("of district {place:?} {count} orders wait, from {first} to {last}")
    });
}

/// Conditions 4 to 7.
fn orders(place: &Place, district: &DistrictBooks, report: &mut Report) {
    let said: usize = district.orders.values().map(|order| usize::from(order.lines())).sum();
    let lines: usize = district.lines.values().map(Vec::len).sum();
    report.expect("condition 4", said == lines, || {
        format!("the orders of district {place:?} say that they have {said} lines, and there are {lines}")
    });
    for (number, order) in &district.orders {
        let waits = district.waiting.contains(number);
        report.expect("condition 5", waits == (order.carrier() == 0), || {
            let waits = if waits { "waits" } else { "does not wait" };
            format!("order {number} of district {place:?} {waits}, and its carrier is {}", order.carrier())
        });
        let lines = district.lines.get(number).map_or(&[][..], Vec::as_slice);
        report.expect("condition 6", usize::from(order.lines()) == lines.len(), || {
            let (said, count) = (order.lines(), lines.len());
            format!("order {number} of district {place:?} says that it has {said} lines, and has {count}")
        });
        for line in lines {
            report.expect("condition 7", (line.delivered() == 0) == (order.carrier() == 0), || {
                let (carrier, delivered) = (order.carrier(), line.delivered());
                format!(
                    "order {number} of district {place:?} has carrier {carrier}, and a line delivered at {delivered}"
                )
            });
        }
    }
    for number in district.waiting.iter().filter(|number| !district.orders.contains_key(number)) {
        report
            .add("condition 5", || format!("order {number} of district {place:?} waits, and does not exist"));
    }
    for number in district.lines.keys().filter(|number| !district.orders.contains_key(number)) {
        report.add("condition 6", || {
            format!("order {number} of district {place:?} has lines, and does not exist")
        });
    }
}

/// Conditions 10 to 12.
fn customers(scale: &Scale, place: &Place, district: &DistrictBooks, report: &mut Report) {
    let mut delivered: BTreeMap<u32, i64> = BTreeMap::new();
    for (number, order) in district.orders.iter().filter(|(_, order)| order.carrier() != 0) {
        let lines = district.lines.get(number).into_iter().flatten();
        *delivered.entry(order.customer()).or_default() += lines.map(|line| line.amount()).sum::<i64>();
    }
    let mut deliveries = u64::from(scale.delivered());
    for (number, customer) in &district.customers {
        let delivered = delivered.get(number).copied().unwrap_or(0);
        let (payments, paid) = district.history.get(number).copied().unwrap_or_default();
        let balance = customer.balance();
        report.expect("condition 10", balance == delivered - paid, || {
            format!(
                "customer {number} of district {place:?} has {balance}; {delivered} was delivered, and {paid} paid"
            )
        });
        report.expect("condition 12", balance + customer.paid() == delivered, || {
            let paid = customer.paid();
            format!(
                "customer {number} of district {place:?} has {balance} and has paid {paid}; {delivered} was delivered"
            )
        });
        report.expect("condition 12", customer.payments() == payments, || {
            let said = customer.payments();
            format!(
                "customer {number} of district {place:?} has paid {said} times, and history says {payments}"
            )
        });
        deliveries += u64::from(customer.deliveries());
    }
    let done = (district.orders.len() - district.waiting.len()) as u64;
    report.expect("condition 11", done == deliveries, || {
        format!("of district {place:?} {done} orders do not wait any more, and {deliveries} were delivered")
    });
}

/// The keys that lead from a name to a customer and from a customer to an order.
fn names(place: &Place, district: &DistrictBooks, report: &mut Report) {
    for (number, customer) in &district.customers {
        let name = (customer.last().as_bytes().to_vec(), customer.first().as_bytes().to_vec(), *number);
        report.expect("names", district.by_name.contains(&name), || {
            format!("customer {number} of district {place:?} is not found by its name")
        });
    }
    let (by_name, customers) = (district.by_name.len(), district.customers.len());
    report.expect("names", by_name == customers, || {
        format!("{by_name} names lead to customers of district {place:?}, and there are {customers}")
    });
    for (number, order) in &district.orders {
        report.expect("names", district.by_customer.contains(&(order.customer(), *number)), || {
            format!("order {number} of district {place:?} is not found by its customer")
        });
    }
    let (by_customer, orders) = (district.by_customer.len(), district.orders.len());
    report.expect("names", by_customer == orders, || {
        format!("{by_customer} keys lead to orders of district {place:?}, and there are {orders}")
    });
}

/// Items are the same everywhere.
fn items(scale: &Scale, books: &Books, report: &mut Report) {
    let first = books.items.values().next();
    for (warehouse, items) in &books.items {
        let count = items.len();
        report.expect("items", count == scale.items as usize, || {
            format!("warehouse {warehouse} has {count} items, and should have {}", scale.items)
        });
        report.expect("items", Some(items) == first, || {
            format!("warehouse {warehouse} has other items than the first one")
        });
    }
}

/// The orders that a stock has counted are those of the lines.
fn stocks(scale: &Scale, books: &Books, report: &mut Report) {
    // How many were ordered, in how many lines, and in how many of other warehouses.
    let mut said: BTreeMap<(u32, u32), [u32; 3]> = BTreeMap::new();
    for ((warehouse, _), district) in &books.districts {
        for (_, lines) in district.lines.range(scale.customers + 1..) {
            for line in lines {
                let of = said.entry((line.supplier(), line.item())).or_default();
                of[0] += u32::from(line.quantity());
                of[1] += 1;
                of[2] += u32::from(line.supplier() != *warehouse);
            }
        }
    }
    for (place, stock) in &books.stocks {
        let said = said.remove(place).unwrap_or_default();
        let found = [stock.ordered(), stock.lines(), stock.remote_lines()];
        report.expect("stocks", said == found, || {
            format!(
                "stock {place:?} says {found:?} (ordered, lines, remote lines), and lines of orders {said:?}"
            )
        });
    }
    for place in said.keys() {
        report.add("stocks", || format!("stock {place:?} was ordered from, and does not exist"));
    }
    let (count, all) = (books.stocks.len(), books.warehouses.len() * scale.items as usize);
    report.expect("stocks", count == all, || format!("there are {count} stocks, and there should be {all}"));
}
