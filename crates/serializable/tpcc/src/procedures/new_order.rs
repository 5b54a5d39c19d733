//! A customer orders (section 2.4).

use alloc::vec::Vec;

use quorate_procedure::{Answer, Stop, Store};

use super::{must_get, no_such_customer};
use crate::bytes::{Reader, put, put_text};
use crate::key;
use crate::random::is_original;
use crate::row::{Customer, District, Item, Order, OrderLine, Stock, Text, Warehouse};
use crate::transaction::{Line, NewOrder};

/// The answer if an item does not exist: the words that the specification has a terminal show.
pub const INVALID_ITEM: &[u8] = b"Item number is not valid";

/// The answer of a shard to a new order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewOrderAnswer {
    /// The order as its warehouse has noted it, if that is here.
    pub ordered: Option<OrderedHere>,
    /// The lines that are supplied from here.
    pub supplied: Vec<SuppliedHere>,
}

/// An order as its warehouse has noted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedHere {
    /// The number of the order.
    pub order: u32,
    /// With taxes and without the discount, in cents.
    pub total: i64,
    /// The last name of the customer.
    pub last_name: Vec<u8>,
    /// The credit of the customer.
    pub credit: Vec<u8>,
    /// In hundredths of a percent: the discount, the tax of the warehouse, the tax of the district.
    pub rates: [u16; 3],
    /// The price of each line's item, in cents.
    pub prices: Vec<i64>,
}

/// A line that is supplied from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuppliedHere {
    /// Which line, from one.
    pub line: u8,
    /// How many are in stock now.
    pub quantity: i64,
    /// True if both the item and the stock are marked as original.
    pub is_brand: bool,
}

impl NewOrderAnswer {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        put(&mut bytes, u8::from(self.ordered.is_some()));
        if let Some(ordered) = &self.ordered {
            put(&mut bytes, ordered.order);
            put(&mut bytes, ordered.total);
            put_text(&mut bytes, &ordered.last_name);
            put_text(&mut bytes, &ordered.credit);
            ordered.rates.iter().for_each(|rate| put(&mut bytes, *rate));
            put(&mut bytes, ordered.prices.len() as u8);
            ordered.prices.iter().for_each(|price| put(&mut bytes, *price));
        }
        put(&mut bytes, self.supplied.len() as u8);
        for supplied in &self.supplied {
            put(&mut bytes, supplied.line);
            put(&mut bytes, supplied.quantity);
            put(&mut bytes, u8::from(supplied.is_brand));
        }
        bytes
    }

    /// Reads an answer; none if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let ordered = match reader.take::<u8>()? {
            0 => None,
            _ => Some(OrderedHere::decode(&mut reader)?),
        };
        let count = reader.take::<u8>()?;
        let supplied = reader.take_many(usize::from(count), |reader| {
            let (line, quantity) = (reader.take()?, reader.take()?);
            Some(SuppliedHere { line, quantity, is_brand: reader.take::<u8>()? != 0 })
        })?;
        reader.is_done().then_some(NewOrderAnswer { ordered, supplied })
    }
}

impl OrderedHere {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (order, total) = (reader.take()?, reader.take()?);
        let (last_name, credit) = (reader.take_text()?.to_vec(), reader.take_text()?.to_vec());
        let rates = [reader.take()?, reader.take()?, reader.take()?];
        let count = reader.take::<u8>()?;
        let prices = reader.take_many(usize::from(count), Reader::take)?;
        Some(OrderedHere { order, total, last_name, credit, rates, prices })
    }
}

pub(super) fn run(store: &mut dyn Store, local: &[u32], order: &NewOrder) -> Result<Answer, Stop> {
    // Whether all items exist is looked at before anything is written, at any of the warehouses: all have the
    // same.
    let Some(items) = items(store, local.first().copied().unwrap_or(order.warehouse), &order.lines)? else {
        return Ok(Answer::Refused(INVALID_ITEM.to_vec()));
    };
    let mut answer = NewOrderAnswer::default();
    let mut texts = Vec::with_capacity(order.lines.len());
    let is_ordered_here = local.contains(&order.warehouse);
    let customer = match is_ordered_here {
        true => store.get(&key::customer(order.warehouse, order.district, order.customer))?,
        false => None,
    };
    if is_ordered_here && customer.is_none() {
        return no_such_customer();
    }
    for (at, (line, item)) in order.lines.iter().zip(&items).enumerate() {
        let mut text = Text::new(b"");
        if local.contains(&line.supplier) {
            let stock = supply(store, order, line)?;
            let is_brand = is_original(item.data()) && is_original(stock.data());
            answer.supplied.push(SuppliedHere { line: at as u8 + 1, quantity: stock.quantity(), is_brand });
            if line.supplier == order.warehouse {
                text = stock.district_text(order.district);
            }
        }
        texts.push(text);
    }
    if let Some(customer) = customer {
        let customer = Customer::of(customer)?;
        answer.ordered = Some(enter(store, order, &customer, &items, &texts)?);
    }
    Ok(Answer::Done(answer.encode()))
}

/// The items of all lines; none if one does not exist.
fn items(store: &mut dyn Store, warehouse: u32, lines: &[Line]) -> Result<Option<Vec<Item>>, Stop> {
    let mut items = Vec::with_capacity(lines.len());
    for line in lines {
        match store.get(&key::item(warehouse, line.item))? {
            Some(bytes) => items.push(Item::of(bytes)?),
            None => return Ok(None),
        }
    }
    Ok(Some(items))
}

/// Takes what a line orders from its stock, which is filled up when it gets low.
fn supply(store: &mut dyn Store, order: &NewOrder, line: &Line) -> Result<Stock, Stop> {
    let key = key::stock(line.supplier, line.item);
    let mut stock = Stock::of(must_get(store, &key)?)?;
    let wanted = i64::from(line.quantity);
    let rest = stock.quantity() - wanted;
    stock.set_quantity(if rest >= 10 { rest } else { rest + 91 });
    stock.set_ordered(stock.ordered().wrapping_add(u32::from(line.quantity)));
    stock.set_lines(stock.lines().wrapping_add(1));
    if line.supplier != order.warehouse {
        stock.set_remote_lines(stock.remote_lines().wrapping_add(1));
    }
    store.put(&key, stock.as_bytes())?;
    Ok(stock)
}

/// Notes the order at its warehouse.
fn enter(
    store: &mut dyn Store,
    order: &NewOrder,
    customer: &Customer,
    items: &[Item],
    texts: &[Text<24>],
) -> Result<OrderedHere, Stop> {
    let (warehouse, district) = (order.warehouse, order.district);
    let warehouse_tax = Warehouse::of(must_get(store, &key::warehouse(warehouse))?)?.tax();
    let district_key = key::district(warehouse, district);
    let mut district_row = District::of(must_get(store, &district_key)?)?;
    let number = district_row.next_order();
    district_row.set_next_order(number.checked_add(1).ok_or(Stop::Failed)?);
    store.put(&district_key, district_row.as_bytes())?;

    let mut row = Order::new();
    row.set_customer(order.customer);
    row.set_entered(order.entered);
    row.set_lines(order.lines.len() as u8);
    row.set_is_local(u8::from(order.lines.iter().all(|line| line.supplier == warehouse)));
    store.put(&key::order(warehouse, district, number), row.as_bytes())?;
    store.put(&key::order_by_customer(warehouse, district, order.customer, number), b"")?;
    store.put(&key::new_order(warehouse, district, number), b"")?;

    let mut sum = 0;
    for (at, ((line, item), text)) in order.lines.iter().zip(items).zip(texts).enumerate() {
        let amount = item.price() * i64::from(line.quantity);
        sum += amount;
        let mut row = OrderLine::new();
        row.set_item(line.item);
        row.set_supplier(line.supplier);
        row.set_quantity(line.quantity);
        row.set_amount(amount);
        row.set_district_text(*text);
        store.put(&key::order_line(warehouse, district, number, at as u8 + 1), row.as_bytes())?;
    }
    let rates = [customer.discount(), warehouse_tax, district_row.tax()];
    Ok(OrderedHere {
        order: number,
        total: total(sum, rates),
        last_name: customer.last().as_bytes().to_vec(),
        credit: customer.credit().as_bytes().to_vec(),
        rates,
        prices: items.iter().map(Item::price).collect(),
    })
}

/// The sum that the customer has to pay.
fn total(sum: i64, [discount, warehouse_tax, district_tax]: [u16; 3]) -> i64 {
    const WHOLE: i64 = 10_000;
    let discounted = sum * (WHOLE - i64::from(discount));
    let taxed =
        i128::from(discounted) * i128::from(WHOLE + i64::from(warehouse_tax) + i64::from(district_tax));
    (taxed / i128::from(WHOLE * WHOLE)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_as_a_table() {
        let table = [
            (10_000, [0, 0, 0], 10_000),
            (10_000, [5_000, 0, 0], 5_000),
            (10_000, [0, 1_000, 500], 11_500),
            (10_000, [1_000, 2_000, 1_000], 11_700),
            (1, [0, 1, 1], 1),
        ];
        for (sum, rates, expected) in table {
            assert_eq!(total(sum, rates), expected, "{sum} {rates:?}");
        }
    }
}
