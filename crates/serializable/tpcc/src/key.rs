//! The layout of keys: the warehouse in four bytes, in braces, which keep it on one shard; the table in one
//! byte, and what tells rows of that table apart. Numbers are big endian, so that keys are in the order of
//! numbers.

use alloc::vec::Vec;

/// The tables. Those with `By` lead from something else to a row, and have no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Table {
    /// One row.
    Warehouse = 1,
    /// By its number.
    District,
    /// By district and number.
    Customer,
    /// By district, last name, first name and number.
    CustomerByName,
    /// By the district and the number of the customer, and the number of its payment.
    History,
    /// By district and number.
    Order,
    /// By district, customer and number.
    OrderByCustomer,
    /// By district and number: orders that wait for delivery.
    NewOrder,
    /// By district, order and number.
    OrderLine,
    /// By its number; the same at all warehouses.
    Item,
    /// By the number of the item.
    Stock,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 11] = [
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::CustomerByName,
        Table::History,
        Table::Order,
        Table::OrderByCustomer,
        Table::NewOrder,
        Table::OrderLine,
        Table::Item,
        Table::Stock,
    ];
}

/// The bytes of the warehouse at the beginning of each of its keys, with the braces: what places them on a
/// shard.
pub const PREFIX: usize = 6;

/// The end of a name in a key: less than each letter.
const END: u8 = 0;

fn prefix(warehouse: u32, end: u8) -> [u8; PREFIX] {
    let [a, b, c, d] = warehouse.to_be_bytes();
    [b'{', a, b, c, d, end]
}

fn key(warehouse: u32, table: Table, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::with_capacity(PREFIX + 1 + parts.iter().map(|part| part.len()).sum::<usize>());
    key.extend_from_slice(&prefix(warehouse, b'}'));
    key.push(table as u8);
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

/// All keys of a warehouse: from the first up to, and without, the second.
pub fn of_warehouse(number: u32) -> (Vec<u8>, Vec<u8>) {
    (prefix(number, b'}').to_vec(), prefix(number, b'}' + 1).to_vec())
}

/// The warehouse and the table of a key, and what follows; none if it is no key of ours.
pub fn split(key: &[u8]) -> Option<(u32, Table, &[u8])> {
    let ([b'{', warehouse @ .., b'}'], rest) = key.split_first_chunk::<PREFIX>()? else { return None };
    let (table, rest) = rest.split_first()?;
    let table = Table::ALL.into_iter().find(|of| *of as u8 == *table)?;
    Some((u32::from_be_bytes(*warehouse), table, rest))
}

/// A warehouse.
pub fn warehouse(number: u32) -> Vec<u8> {
    key(number, Table::Warehouse, &[])
}

/// A district.
pub fn district(warehouse: u32, number: u8) -> Vec<u8> {
    key(warehouse, Table::District, &[&[number]])
}

/// A customer.
pub fn customer(warehouse: u32, district: u8, number: u32) -> Vec<u8> {
    key(warehouse, Table::Customer, &[&[district], &number.to_be_bytes()])
}

/// From the name of a customer to its number, which is at the end.
pub fn customer_by_name(warehouse: u32, district: u8, last: &[u8], first: &[u8], number: u32) -> Vec<u8> {
    let parts = [&[district], last, &[END], first, &[END], &number.to_be_bytes()];
    key(warehouse, Table::CustomerByName, &parts)
}

/// All customers with a last name, in the order of their first names.
pub fn customers_of_name(warehouse: u32, district: u8, last: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let bound = |end: u8| key(warehouse, Table::CustomerByName, &[&[district], last, &[end]]);
    (bound(END), bound(END + 1))
}

/// A payment in the history of a customer.
pub fn history(warehouse: u32, district: u8, customer: u32, payment: u32) -> Vec<u8> {
    key(warehouse, Table::History, &[&[district], &customer.to_be_bytes(), &payment.to_be_bytes()])
}

/// An order.
pub fn order(warehouse: u32, district: u8, number: u32) -> Vec<u8> {
    key(warehouse, Table::Order, &[&[district], &number.to_be_bytes()])
}

/// From a customer to the number of an order, which is at the end.
pub fn order_by_customer(warehouse: u32, district: u8, customer: u32, number: u32) -> Vec<u8> {
    key(warehouse, Table::OrderByCustomer, &[&[district], &customer.to_be_bytes(), &number.to_be_bytes()])
}

/// All orders of a customer.
pub fn orders_of_customer(warehouse: u32, district: u8, customer: u32) -> (Vec<u8>, Vec<u8>) {
    let bound =
        |customer: u32| key(warehouse, Table::OrderByCustomer, &[&[district], &customer.to_be_bytes()]);
    (bound(customer), bound(customer + 1))
}

/// That an order waits for delivery.
pub fn new_order(warehouse: u32, district: u8, order: u32) -> Vec<u8> {
    key(warehouse, Table::NewOrder, &[&[district], &order.to_be_bytes()])
}

/// All orders of a district that wait for delivery.
pub fn new_orders(warehouse: u32, district: u8) -> (Vec<u8>, Vec<u8>) {
    let bound = |district: u8| key(warehouse, Table::NewOrder, &[&[district]]);
    (bound(district), bound(district + 1))
}

/// A line of an order.
pub fn order_line(warehouse: u32, district: u8, order: u32, number: u8) -> Vec<u8> {
    key(warehouse, Table::OrderLine, &[&[district], &order.to_be_bytes(), &[number]])
}

/// All lines of the orders from the first up to, and without, the second.
pub fn order_lines(warehouse: u32, district: u8, from: u32, to: u32) -> (Vec<u8>, Vec<u8>) {
    let bound = |order: u32| key(warehouse, Table::OrderLine, &[&[district], &order.to_be_bytes()]);
    (bound(from), bound(to))
}

/// An item, as a warehouse knows it.
pub fn item(warehouse: u32, number: u32) -> Vec<u8> {
    key(warehouse, Table::Item, &[&number.to_be_bytes()])
}

/// The stock of an item.
pub fn stock(warehouse: u32, item: u32) -> Vec<u8> {
    key(warehouse, Table::Stock, &[&item.to_be_bytes()])
}

/// The number at the end of a key.
pub fn last_number(key: &[u8]) -> Option<u32> {
    key.last_chunk().map(|number| u32::from_be_bytes(*number))
}
