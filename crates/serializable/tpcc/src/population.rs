//! The rows that there are at first (section 4.3.3).

use alloc::vec::Vec;

use quorate_procedure::Pair;

use crate::key;
use crate::random::{
    Constants, Source, between, digits, last_name, maybe_original, non_uniform, percent, text, zip,
};
use crate::row::{Customer, District, History, Item, Order, OrderLine, Stock, Text, Warehouse};
use crate::scale::{DISTRICTS, Scale};

/// The sum that each customer has paid at first, in cents.
pub const FIRST_PAYMENT: i64 = 1_000;

/// The items, drawn once: all warehouses have the same.
#[derive(Clone, Debug)]
pub struct Items(Vec<Item>);

impl Items {
    /// Draws them.
    pub fn draw(scale: &Scale, random: &mut dyn Source) -> Self {
        let item = |_| {
            let mut item = Item::new();
            item.set_image(between(random, 1, 10_000));
            item.set_name(Text::new(&text(random, 14, 24)));
            item.set_price(i64::from(between(random, 100, 10_000)));
            item.set_data(&maybe_original(random));
            item
        };
        Items((0..scale.items).map(item).collect())
    }
}

/// All keys of a warehouse and their values, handed out one by one. `now` is the time of everything, in
/// microseconds; not zero.
pub fn warehouse(
    scale: &Scale,
    number: u32,
    items: &Items,
    constants: &Constants,
    now: u64,
    random: &mut dyn Source,
    each: &mut dyn FnMut(Pair),
) {
    let paid_to_district = FIRST_PAYMENT * i64::from(scale.customers);
    let mut row = Warehouse::new();
    row.set_paid(paid_to_district * i64::from(DISTRICTS));
    row.set_tax(between(random, 0, 2_000) as u16);
    row.set_name(Text::new(&text(random, 6, 10)));
    row.set_street(Text::new(&text(random, 10, 20)));
    row.set_street_2(Text::new(&text(random, 10, 20)));
    row.set_city(Text::new(&text(random, 10, 20)));
    row.set_state(Text::new(&text(random, 2, 2)));
    row.set_zip(Text::new(&zip(random)));
    each((key::warehouse(number), row.as_bytes().to_vec()));

    for (item, row) in (1..).zip(&items.0) {
        each((key::item(number, item), row.as_bytes().to_vec()));
        each((key::stock(number, item), stock(random).as_bytes().to_vec()));
    }
    for district in 1..=DISTRICTS {
        let mut place = Place { scale, warehouse: number, district, now, random, each };
        place.district(paid_to_district);
        place.customers(constants);
        place.orders();
    }
}

fn stock(random: &mut dyn Source) -> Stock {
    let mut row = Stock::new();
    row.set_quantity(i64::from(between(random, 10, 100)));
    row.set_districts(Text::new(&text(random, 240, 240)));
    row.set_data(&maybe_original(random));
    row
}

/// A district that is being filled.
struct Place<'a> {
    scale: &'a Scale,
    warehouse: u32,
    district: u8,
    now: u64,
    random: &'a mut dyn Source,
    each: &'a mut dyn FnMut(Pair),
}

impl Place<'_> {
    fn district(&mut self, paid: i64) {
        let random = &mut *self.random;
        let mut row = District::new();
        row.set_paid(paid);
        row.set_next_order(self.scale.customers + 1);
        row.set_tax(between(random, 0, 2_000) as u16);
        row.set_name(Text::new(&text(random, 6, 10)));
        row.set_street(Text::new(&text(random, 10, 20)));
        row.set_street_2(Text::new(&text(random, 10, 20)));
        row.set_city(Text::new(&text(random, 10, 20)));
        row.set_state(Text::new(&text(random, 2, 2)));
        row.set_zip(Text::new(&zip(random)));
        (self.each)((key::district(self.warehouse, self.district), row.as_bytes().to_vec()));
    }

    fn customers(&mut self, constants: &Constants) {
        let (warehouse, district) = (self.warehouse, self.district);
        let names = self.scale.last_names();
        for number in 1..=self.scale.customers {
            let name = match number {
                _ if number <= names => number - 1,
                _ => non_uniform(self.random, 255, constants.last_name, 0, names - 1),
            };
            let row = self.customer(last_name(name).as_bytes());
            let (last, first) = (row.last(), row.first());
            let by_name =
                key::customer_by_name(warehouse, district, last.as_bytes(), first.as_bytes(), number);
            (self.each)((by_name, Vec::new()));
            (self.each)((key::customer(warehouse, district, number), row.as_bytes().to_vec()));

            let mut history = History::new();
            history.set_amount(FIRST_PAYMENT);
            history.set_warehouse(warehouse);
            history.set_district(district);
            history.set_date(self.now);
            (self.each)((key::history(warehouse, district, number, 1), history.as_bytes().to_vec()));
        }
    }

    fn customer(&mut self, last: &[u8]) -> Customer {
        let now = self.now;
        let random = &mut *self.random;
        let mut row = Customer::new();
        row.set_balance(-FIRST_PAYMENT);
        row.set_paid(FIRST_PAYMENT);
        row.set_payments(1);
        row.set_discount(between(random, 0, 5_000) as u16);
        row.set_credit(Text::new(if percent(random, 10) { b"BC" } else { b"GC" }));
        row.set_last(Text::new(last));
        row.set_first(Text::new(&text(random, 8, 16)));
        row.set_middle(Text::new(b"OE"));
        row.set_credit_limit(5_000_000);
        row.set_since(now);
        row.set_street(Text::new(&text(random, 10, 20)));
        row.set_street_2(Text::new(&text(random, 10, 20)));
        row.set_city(Text::new(&text(random, 10, 20)));
        row.set_state(Text::new(&text(random, 2, 2)));
        row.set_zip(Text::new(&zip(random)));
        row.set_phone(Text::new(&digits(random, 16)));
        row.set_data(&text(random, 300, 500));
        row
    }

    /// An order of each customer, in a random order of customers. The older seven tenths were delivered.
    fn orders(&mut self) {
        let (warehouse, district) = (self.warehouse, self.district);
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        for last in (1..customers.len()).rev() {
            customers.swap(last, between(self.random, 0, last as u32) as usize);
        }
        for (number, customer) in (1..).zip(customers) {
            let is_delivered = number <= self.scale.delivered();
            let mut row = Order::new();
            row.set_customer(customer);
            row.set_entered(self.now);
            row.set_carrier(if is_delivered { between(self.random, 1, 10) as u8 } else { 0 });
            row.set_lines(between(self.random, 5, 15) as u8);
            row.set_is_local(1);
            (self.each)((key::order(warehouse, district, number), row.as_bytes().to_vec()));
            (self.each)((key::order_by_customer(warehouse, district, customer, number), Vec::new()));
            if !is_delivered {
                (self.each)((key::new_order(warehouse, district, number), Vec::new()));
            }
            for line in 1..=row.lines() {
                let row = self.order_line(is_delivered);
                (self.each)((key::order_line(warehouse, district, number, line), row.as_bytes().to_vec()));
            }
        }
    }

    fn order_line(&mut self, is_delivered: bool) -> OrderLine {
        let random = &mut *self.random;
        let mut row = OrderLine::new();
        row.set_item(between(random, 1, self.scale.items));
        row.set_supplier(self.warehouse);
        row.set_quantity(5);
        if is_delivered {
            row.set_delivered(self.now);
        } else {
            row.set_amount(i64::from(between(random, 1, 999_999)));
        }
        row.set_district_text(Text::new(&text(random, 24, 24)));
        row
    }
}
