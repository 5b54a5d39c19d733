//! What a transaction does, as data.

use quorate_core::command::End;
use quorate_core::{Key, KeyRange};

/// One operation of a transaction. Written values are not part of it: every attempt writes fresh ones, so that a history
/// can tell attempts apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read a key.
    Get(Key),
    /// Write a fresh register value without reading.
    Put(Key),
    /// Read a register, then write a fresh value: a read-modify-write whose history can be judged.
    Update(Key),
    /// Read a list, then write it with a fresh element at its end.
    Append(Key),
    /// Read a counter, then write it plus one. Values repeat, so histories with increments are judged by their sums only.
    Increment(Key),
    /// Delete a key. No judged workload deletes.
    Delete(Key),
    /// Read a range.
    Scan(Scan),
    /// Change the count of an element of a counting set.
    Change {
        /// The set.
        set: Key,
        /// The element; none for one that nobody else adds.
        element: Option<i64>,
        /// By how much.
        by: i32,
    },
    /// Read the elements of a counting set.
    Elements(Elements),
}

/// All elements of a counting set, page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The set.
    pub set: Key,
    /// From which end.
    pub from: End,
    /// How many are asked for at a time.
    pub page: u32,
}

/// A range read, page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The range.
    pub range: KeyRange,
    /// Every key that the workload may ever write in the range, ascending: a history records one read for each.
    pub universe: Vec<Key>,
    /// How many keys are asked for at a time.
    pub page: u32,
    /// After how many pages the transaction has seen enough; what lies behind them is not read.
    pub pages_max: u32,
}

impl Operation {
    /// The key that is written, if one is.
    pub fn key_written(&self) -> Option<&Key> {
        match self {
            Operation::Put(key)
            | Operation::Update(key)
            | Operation::Append(key)
            | Operation::Increment(key)
            | Operation::Delete(key) => Some(key),
            Operation::Get(_) | Operation::Scan(_) | Operation::Change { .. } | Operation::Elements(_) => {
                None
            }
        }
    }

    /// True if it changes something.
    pub fn writes(&self) -> bool {
        self.key_written().is_some() || matches!(self, Operation::Change { .. })
    }

    /// True if a history with this operation can be judged by what was read.
    pub fn is_judgeable(&self) -> bool {
        !matches!(self, Operation::Increment(_) | Operation::Delete(_))
    }
}

/// What one transaction does, in program order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name of the transaction within its workload, such as `follow`.
    pub kind: &'static str,
    /// Its operations.
    pub operations: Vec<Operation>,
}

impl Plan {
    /// True if it writes nothing.
    pub fn is_read_only(&self) -> bool {
        !self.operations.iter().any(Operation::writes)
    }

    /// The keys, if all that it does is to read keys, which are then known beforehand.
    pub fn keys_read(&self) -> Option<Vec<Key>> {
        let key = |operation: &Operation| match operation {
            Operation::Get(key) => Some(key.clone()),
            _ => None,
        };
        self.operations.iter().map(key).collect()
    }

    /// The scan, if all that it does is one scan.
    pub fn scan_read(&self) -> Option<&Scan> {
        match self.operations.as_slice() {
            [Operation::Scan(scan)] => Some(scan),
            _ => None,
        }
    }

    /// True if a history with this transaction can be judged by what was read.
    pub fn is_judgeable(&self) -> bool {
        self.operations.iter().all(Operation::is_judgeable)
    }
}
