//! Reads batches: nearly every operation is one, and the derived code would copy each of them twice.

use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{ClientId, ClockTime, Key, KeyRange, TransactionId, Value};
use quorate_granola::Place;

use super::present;
use crate::operation::{Batch, Condition, Malformed, Step};

/// The fields of a message, one after the other.
struct Fields<'a>(&'a [u8]);

/// What a field holds.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
    /// Four bytes, of which no message here has any.
    Short,
}

fn broken() -> Malformed {
    Malformed::of("the bytes do not have the fields that were expected")
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for at in 0..10 {
            let (byte, rest) = self.0.split_first().ok_or_else(broken)?;
            self.0 = rest;
            if at == 9 && *byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(broken())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(broken)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next field and its number; none at the end.
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || tag > u64::from(u32::MAX) {
            return Err(broken());
        }
        let field = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Fixed(self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| broken())?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| broken())?;
                Field::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Field::Short
            }
            _ => return Err(broken()),
        };
        Ok(Some((number, field)))
    }
}

impl<'a> Field<'a> {
    fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            Field::Number(_) | Field::Fixed(_) | Field::Short => Err(broken()),
        }
    }

    fn key(self) -> Result<Key, Malformed> {
        self.bytes().map(Key::copy_from_slice)
    }

    fn value(self) -> Result<Value, Malformed> {
        self.bytes().map(Value::copy_from_slice)
    }

    fn fixed(self) -> Result<u64, Malformed> {
        match self {
            Field::Fixed(number) => Ok(number),
            Field::Number(_) | Field::Bytes(_) | Field::Short => Err(broken()),
        }
    }

    fn number(self) -> Result<u64, Malformed> {
        match self {
            Field::Number(number) => Ok(number),
            Field::Fixed(_) | Field::Bytes(_) | Field::Short => Err(broken()),
        }
    }

    /// Of a message without fields.
    fn nothing(self) -> Result<(), Malformed> {
        let mut fields = Fields(self.bytes()?);
        while fields.next()?.is_some() {}
        Ok(())
    }
}

/// Reads an operation if it is a batch: the last of several counts. None if it may be another one.
pub(super) fn read_batch(operation: &[u8]) -> Result<Option<Batch>, Malformed> {
    let mut fields = Fields(operation);
    let mut found = None;
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => found = Some(field.bytes()?),
            2..=4 => found = None,
            _ => {}
        }
    }
    found.map(batch).transpose()
}

/// Counts what calls declare, before anything is made of it: a few bytes of a message would become many.
pub(super) fn count_declared(operation: &[u8]) -> Result<usize, Malformed> {
    let (mut count, mut fields) = (0, Fields(operation));
    while let Some((number, field)) = fields.next()? {
        if number != 2 {
            continue;
        }
        let mut call = Fields(field.bytes()?);
        while let Some((number, field)) = call.next()? {
            if number != 4 {
                continue;
            }
            let mut declared = Fields(field.bytes()?);
            while declared.next()?.is_some() {
                count += 1;
            }
        }
    }
    Ok(count)
}

fn batch(bytes: &[u8]) -> Result<Batch, Malformed> {
    let (mut batch, mut fields) = (Batch::default(), Fields(bytes));
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => batch.conditions.push(condition(field.bytes()?)?),
            2 => batch.steps.push(step(field.bytes()?)?),
            _ => {}
        }
        let entries = batch.conditions.len() + batch.steps.len();
        if entries > TRANSACTION_ENTRIES_MAX {
            return Err(Malformed(format!("more than {TRANSACTION_ENTRIES_MAX} conditions and steps")));
        }
    }
    Ok(batch)
}

/// What a condition asks for, before its key is known.
enum Holds {
    Absent,
    Exists,
    Version(Place),
    Value(Value),
    Unchanged(KeyRange, Place, u64),
}

fn condition(bytes: &[u8]) -> Result<Condition, Malformed> {
    let (mut key, mut holds, mut fields) = (Key::default(), None, Fields(bytes));
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => key = field.key()?,
            2 => {
                field.nothing()?;
                holds = Some(Holds::Absent);
            }
            3 => {
                field.nothing()?;
                holds = Some(Holds::Exists);
            }
            4 => holds = Some(Holds::Version(place(field.bytes()?)?)),
            5 => holds = Some(Holds::Value(field.value()?)),
            6 => holds = Some(unchanged(field.bytes()?)?),
            _ => {}
        }
    }
    Ok(match present(holds, "what a condition asks for")? {
        Holds::Absent => Condition::Absent { key },
        Holds::Exists => Condition::Exists { key },
        Holds::Version(version) => Condition::Version { key, version },
        Holds::Value(value) => Condition::Value { key, value },
        Holds::Unchanged(range, before, keys) => Condition::Unchanged { range, before, keys },
    })
}

fn unchanged(bytes: &[u8]) -> Result<Holds, Malformed> {
    let (mut of_range, mut before, mut keys, mut fields) = (None, None, 0, Fields(bytes));
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => of_range = Some(range(field.bytes()?)?),
            2 => before = Some(place(field.bytes()?)?),
            3 => keys = field.number()?,
            _ => {}
        }
    }
    let of_range = present(of_range, "the range of a condition")?;
    Ok(Holds::Unchanged(of_range, present(before, "the place of a condition")?, keys))
}

fn range(bytes: &[u8]) -> Result<KeyRange, Malformed> {
    let (mut range, mut fields) = (KeyRange { from: Key::default(), to: None }, Fields(bytes));
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => range.from = field.key()?,
            2 => range.to = Some(field.key()?),
            _ => {}
        }
    }
    Ok(range)
}

fn place(bytes: &[u8]) -> Result<Place, Malformed> {
    let (mut timestamp, mut transaction) = (0, TransactionId::default());
    let mut fields = Fields(bytes);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => timestamp = field.fixed()?,
            2 => transaction.client = ClientId(field.fixed()?),
            3 => transaction.sequence = field.number()?,
            // Of a number that is too long the lowest bits count.
            4 => transaction.attempt = field.number()? as u32,
            _ => {}
        }
    }
    Ok(Place { timestamp: ClockTime::from_micros(timestamp), transaction })
}

/// What a step does, before its key is known.
enum Does {
    Get,
    Put(Value),
    Delete,
    Increment(i64),
    Append(Value),
    Scan(KeyRange, u32, bool),
}

fn step(bytes: &[u8]) -> Result<Step, Malformed> {
    let (mut key, mut does, mut fields) = (Key::default(), None, Fields(bytes));
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => key = field.key()?,
            2 => {
                field.nothing()?;
                does = Some(Does::Get);
            }
            3 => does = Some(Does::Put(field.value()?)),
            4 => {
                field.nothing()?;
                does = Some(Does::Delete);
            }
            5 => does = Some(Does::Increment(signed(field.number()?))),
            6 => does = Some(Does::Append(field.value()?)),
            7 => does = Some(scan(field.bytes()?)?),
            _ => {}
        }
    }
    Ok(match present(does, "what a step does")? {
        Does::Get => Step::Get { key },
        Does::Put(value) => Step::Put { key, value },
        Does::Delete => Step::Delete { key },
        Does::Increment(by) => Step::Increment { key, by },
        Does::Append(value) => Step::Append { key, value },
        Does::Scan(range, limit, descending) => Step::Scan { range, limit, descending },
    })
}

fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn scan(bytes: &[u8]) -> Result<Does, Malformed> {
    let (mut of_range, mut limit, mut descending, mut fields) = (None, 0, false, Fields(bytes));
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => of_range = Some(range(field.bytes()?)?),
            2 => limit = field.number()? as u32,
            3 => descending = field.number()? != 0,
            _ => {}
        }
    }
    Ok(Does::Scan(present(of_range, "the range of a scan")?, limit, descending))
}
