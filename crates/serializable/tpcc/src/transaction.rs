//! The transactions that can be asked for, and their arguments.

use alloc::vec::Vec;

use crate::bytes::{Reader, put, put_text};
use crate::scale::DISTRICTS;

/// How a transaction is coordinated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It changes nothing.
    ReadOnly,
    /// It changes something; where several shards take part, each does its part without the answers of
    /// others.
    Independent,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// Section 2.4.
    NewOrder(NewOrder),
    /// Section 2.5.
    Payment(Payment),
    /// Section 2.6.
    OrderStatus(OrderStatus),
    /// Section 2.7.
    Delivery(Delivery),
    /// Section 2.8.
    StockLevel(StockLevel),
}

/// A customer orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// Where.
    pub warehouse: u32,
    /// In which of its districts.
    pub district: u8,
    /// Which of its customers.
    pub customer: u32,
    /// When, in microseconds; not zero.
    pub entered: u64,
    /// The lines of the order.
    pub lines: Vec<Line>,
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which item.
    pub item: u32,
    /// Which warehouse supplies it.
    pub supplier: u32,
    /// How many.
    pub quantity: u8,
}

/// A customer pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// To which warehouse.
    pub warehouse: u32,
    /// To which of its districts.
    pub district: u8,
    /// A customer of which warehouse.
    pub customer_warehouse: u32,
    /// Of which of its districts.
    pub customer_district: u8,
    /// The customer.
    pub customer: Who,
    /// How much, in cents.
    pub amount: i64,
    /// When, in microseconds.
    pub date: u64,
}

/// A customer asks for its latest order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    /// Of which warehouse.
    pub warehouse: u32,
    /// Of which of its districts.
    pub district: u8,
    /// The customer.
    pub customer: Who,
}

/// The oldest order of each district is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// By which warehouse.
    pub warehouse: u32,
    /// The carrier; not zero.
    pub carrier: u8,
    /// When, in microseconds; not zero.
    pub date: u64,
}

/// How many of the items that were ordered lately are nearly out of stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockLevel {
    /// In which warehouse.
    pub warehouse: u32,
    /// Ordered in which of its districts.
    pub district: u8,
    /// Fewer than this many.
    pub threshold: u8,
}

/// How a customer is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// By its number.
    Number(u32),
    /// By its last name, which others may have: it is the one in the middle, by first names.
    LastName(Vec<u8>),
}

/// Orders have at most this many lines.
pub const LINES_MAX: usize = 15;

impl Transaction {
    /// Its name, as the specification has it.
    pub fn name(&self) -> &'static str {
        match self {
            Transaction::NewOrder(_) => "new-order",
            Transaction::Payment(_) => "payment",
            Transaction::OrderStatus(_) => "order-status",
            Transaction::Delivery(_) => "delivery",
            Transaction::StockLevel(_) => "stock-level",
        }
    }

    /// How it is coordinated.
    pub fn class(&self) -> Class {
        match self {
            Transaction::OrderStatus(_) | Transaction::StockLevel(_) => Class::ReadOnly,
            Transaction::NewOrder(_) | Transaction::Payment(_) | Transaction::Delivery(_) => {
                Class::Independent
            }
        }
    }

    /// How long a terminal's user takes to key it in, at least (section 5.2.5.2), in milliseconds.
    pub fn keying_ms(&self) -> u32 {
        match self {
            Transaction::NewOrder(_) => 18_000,
            Transaction::Payment(_) => 3_000,
            Transaction::OrderStatus(_) | Transaction::Delivery(_) | Transaction::StockLevel(_) => 2_000,
        }
    }

    /// How long the user thinks about what it has answered, on average (section 5.2.5.4), in milliseconds. Times follow an exponential distribution that
    /// is cut off at ten times of that.
    pub fn thinking_ms(&self) -> u32 {
        match self {
            Transaction::NewOrder(_) | Transaction::Payment(_) => 12_000,
            Transaction::OrderStatus(_) => 10_000,
            Transaction::Delivery(_) | Transaction::StockLevel(_) => 5_000,
        }
    }

    /// The warehouse at which it was entered.
    pub fn home(&self) -> u32 {
        match self {
            Transaction::NewOrder(NewOrder { warehouse, .. })
            | Transaction::Payment(Payment { warehouse, .. })
            | Transaction::OrderStatus(OrderStatus { warehouse, .. })
            | Transaction::Delivery(Delivery { warehouse, .. })
            | Transaction::StockLevel(StockLevel { warehouse, .. }) => *warehouse,
        }
    }

    /// The warehouses that it touches, each once, in the order of their numbers.
    pub fn warehouses(&self) -> Vec<u32> {
        let mut warehouses = Vec::from([self.home()]);
        match self {
            Transaction::NewOrder(order) => warehouses.extend(order.lines.iter().map(|line| line.supplier)),
            Transaction::Payment(payment) => warehouses.push(payment.customer_warehouse),
            Transaction::OrderStatus(_) | Transaction::Delivery(_) | Transaction::StockLevel(_) => {}
        }
        warehouses.sort_unstable();
        warehouses.dedup();
        warehouses
    }

    /// The arguments of its call at a shard: the same everywhere, but for the warehouses that it acts for
    /// there. These are those of [`Transaction::warehouses`] that the shard holds.
    pub fn arguments(&self, local: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        put(&mut bytes, local.len() as u8);
        local.iter().for_each(|warehouse| put(&mut bytes, *warehouse));
        match self {
            Transaction::NewOrder(order) => order.encode(&mut bytes),
            Transaction::Payment(payment) => payment.encode(&mut bytes),
            Transaction::OrderStatus(status) => status.encode(&mut bytes),
            Transaction::Delivery(delivery) => delivery.encode(&mut bytes),
            Transaction::StockLevel(level) => level.encode(&mut bytes),
        }
        bytes
    }

    /// Reads arguments: the warehouses to act for, and the transaction. None if they are not what was agreed.
    pub fn decode(arguments: &[u8]) -> Option<(Vec<u32>, Transaction)> {
        let mut reader = Reader(arguments);
        let count = reader.take::<u8>()?;
        let local = reader.take_many(usize::from(count), Reader::take)?;
        let transaction = match reader.take::<u8>()? {
            NEW_ORDER => Transaction::NewOrder(NewOrder::decode(&mut reader)?),
            PAYMENT => Transaction::Payment(Payment::decode(&mut reader)?),
            ORDER_STATUS => Transaction::OrderStatus(OrderStatus::decode(&mut reader)?),
            DELIVERY => Transaction::Delivery(Delivery::decode(&mut reader)?),
            STOCK_LEVEL => Transaction::StockLevel(StockLevel::decode(&mut reader)?),
            _ => return None,
        };
        let is_local = |warehouse: &u32| transaction.warehouses().contains(warehouse);
        (reader.is_done() && !local.is_empty() && local.iter().all(is_local)).then_some((local, transaction))
    }
}

const NEW_ORDER: u8 = 1;
const PAYMENT: u8 = 2;
const ORDER_STATUS: u8 = 3;
const DELIVERY: u8 = 4;
const STOCK_LEVEL: u8 = 5;

fn take_district(reader: &mut Reader<'_>) -> Option<u8> {
    reader.take().filter(|district| (1..=DISTRICTS).contains(district))
}

impl NewOrder {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, NEW_ORDER);
        put(bytes, self.warehouse);
        put(bytes, self.district);
        put(bytes, self.customer);
        put(bytes, self.entered);
        put(bytes, self.lines.len() as u8);
        for line in &self.lines {
            put(bytes, line.item);
            put(bytes, line.supplier);
            put(bytes, line.quantity);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (warehouse, district) = (reader.take()?, take_district(reader)?);
        let (customer, entered) = (reader.take()?, reader.take()?);
        let count = usize::from(reader.take::<u8>()?);
        if count == 0 || count > LINES_MAX {
            return None;
        }
        let lines = reader.take_many(count, |reader| {
            let (item, supplier, quantity) = (reader.take()?, reader.take()?, reader.take()?);
            Some(Line { item, supplier, quantity })
        })?;
        Some(NewOrder { warehouse, district, customer, entered, lines })
    }
}

impl Who {
    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Who::Number(number) => {
                put(bytes, 0u8);
                put(bytes, *number);
            }
            Who::LastName(name) => {
                put(bytes, 1u8);
                put_text(bytes, name);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        match reader.take::<u8>()? {
            0 => Some(Who::Number(reader.take()?)),
            1 => Some(Who::LastName(reader.take_text()?.to_vec())),
            _ => None,
        }
    }
}

impl Payment {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, PAYMENT);
        put(bytes, self.warehouse);
        put(bytes, self.district);
        put(bytes, self.customer_warehouse);
        put(bytes, self.customer_district);
        self.customer.encode(bytes);
        put(bytes, self.amount);
        put(bytes, self.date);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (warehouse, district) = (reader.take()?, take_district(reader)?);
        let (customer_warehouse, customer_district) = (reader.take()?, take_district(reader)?);
        let customer = Who::decode(reader)?;
        let (amount, date) = (reader.take()?, reader.take()?);
        Some(Payment { warehouse, district, customer_warehouse, customer_district, customer, amount, date })
    }
}

impl OrderStatus {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, ORDER_STATUS);
        put(bytes, self.warehouse);
        put(bytes, self.district);
        self.customer.encode(bytes);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (warehouse, district) = (reader.take()?, take_district(reader)?);
        Some(OrderStatus { warehouse, district, customer: Who::decode(reader)? })
    }
}

impl Delivery {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, DELIVERY);
        put(bytes, self.warehouse);
        put(bytes, self.carrier);
        put(bytes, self.date);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (warehouse, carrier) = (reader.take()?, reader.take::<u8>()?);
        let date = reader.take::<u64>()?;
        (carrier != 0 && date != 0).then_some(Delivery { warehouse, carrier, date })
    }
}

impl StockLevel {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, STOCK_LEVEL);
        put(bytes, self.warehouse);
        put(bytes, self.district);
        put(bytes, self.threshold);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (warehouse, district) = (reader.take()?, take_district(reader)?);
        Some(StockLevel { warehouse, district, threshold: reader.take()? })
    }
}
