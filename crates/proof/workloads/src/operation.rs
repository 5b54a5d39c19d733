//! The operations of a transaction, as data.

use quorate_core::command::End;
use quorate_core::{Key, KeyRange};

use crate::social::List;

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
    /// Write a register that nobody else writes: an object of this user, see [`crate::social`].
    Create {
        /// The number of the user.
        owner: u64,
    },
    /// Change the count of an element of a counting set.
    Change {
        /// The set.
        set: Key,
        /// The element.
        element: Element,
        /// By how much.
        by: i32,
    },
    /// Read the elements of a counting set.
    Elements(Elements),
    /// Read the users in a counting set, and add an object to a set of each.
    Spread(Spread),
}

/// The element of a counting set that a transaction changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// One that nobody else adds.
    Fresh,
    /// This one.
    Numbered(i64),
    /// The name of the object that the operation at this place of the plan creates.
    Created(usize),
    /// The value of a counter that does not fall below zero.
    Value,
}

/// The elements of a counting set, page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The set.
    pub set: Key,
    /// From which end.
    pub from: End,
    /// How many are asked for at a time.
    pub page: u32,
    /// Not more than so many in all. A history cannot record that, so no judged workload states it.
    pub limit: Option<u32>,
    /// So many of the elements that were read first name objects that are read as well.
    pub objects: u32,
    /// True if its elements are the keys of objects.
    pub names_objects: bool,
}

impl Elements {
    /// All elements, and no objects.
    pub fn all(set: Key, from: End, page: u32) -> Self {
        Elements { set, from, page, limit: None, objects: 0, names_objects: false }
    }
}

/// An object that is added to a set of each user in a counting set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The set of users.
    pub users: Elements,
    /// The place in the plan of the operation that creates the object.
    pub object: usize,
    /// The set of each user.
    pub list: List,
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
    /// The key that is written, if one is that was named before.
    pub fn key_written(&self) -> Option<&Key> {
        match self {
            Operation::Put(key)
            | Operation::Update(key)
            | Operation::Append(key)
            | Operation::Increment(key)
            | Operation::Delete(key) => Some(key),
            Operation::Get(_)
            | Operation::Scan(_)
            | Operation::Create { .. }
            | Operation::Change { .. }
            | Operation::Elements(_)
            | Operation::Spread(_) => None,
        }
    }

    /// True if it changes something.
    pub fn writes(&self) -> bool {
        let changes =
            matches!(self, Operation::Create { .. } | Operation::Change { .. } | Operation::Spread(_));
        changes || self.key_written().is_some()
    }

    /// True if a history with this operation can be judged by what was read.
    pub fn is_judgeable(&self) -> bool {
        match self {
            Operation::Increment(_) | Operation::Delete(_) => false,
            Operation::Elements(elements) | Operation::Spread(Spread { users: elements, .. }) => {
                elements.limit.is_none()
            }
            _ => true,
        }
    }
}

/// The operations of one transaction, in program order.
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

    /// The keys that it reads and that it names, in program order: a client may read them all at once, before it begins.
    pub fn keys_named(&self) -> Vec<Key> {
        let reads = |operation: &&Operation| {
            matches!(
                operation,
                Operation::Get(_) | Operation::Update(_) | Operation::Append(_) | Operation::Increment(_)
            )
        };
        let key = |operation: &Operation| match operation {
            Operation::Get(key) => Some(key.clone()),
            other => other.key_written().cloned(),
        };
        self.operations.iter().filter(reads).filter_map(key).collect()
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
