//! The entries of the log, and the pages of the state that it leads to.
//!
//! An entry holds a whole conditional write: whether its conditions hold is decided when it is applied, at every replica
//! alike. So a leader decides nothing that a later one would have to know.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::log::Position;
use quorate_core::{ClientId, Key, TransactionId, Value};
use quorate_store::client_table::TablePage;

use crate::message::{ConditionalWrite, WriteResult};

/// How often the map has been written. Zero is the empty map.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first write.
    pub const START: Revision = Revision(0);

    /// That of the next write.
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "@{}", self.0)
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// A lease, named by the client that it is granted to, which never uses a number again.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    /// The client that holds it.
    pub client: ClientId,
    /// Counts the leases of this client.
    pub number: u64,
}

impl fmt::Display for LeaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "lease {}.{}", self.client, self.number)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// The value of a key, with its revision and its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The value.
    pub value: Value,
    /// Which write brought the key to life.
    pub created: Revision,
    /// Which write gave it this value.
    pub changed: Revision,
    /// The lease that it vanishes with.
    pub lease: Option<LeaseId>,
}

/// A key and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The key.
    pub key: Key,
    /// Its value; none if it is absent.
    pub stored: Option<Stored>,
}

/// The changes of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its revision.
    pub revision: Revision,
    /// The keys, ascending. Of a part of the map none may be left.
    pub keys: Vec<KeyState>,
}

impl Change {
    /// Roughly how many bytes it takes.
    pub fn bytes(&self) -> usize {
        const FIXED: usize = 48;
        let one = |change: &KeyState| {
            FIXED + change.key.len() + change.stored.as_ref().map_or(0, |stored| stored.value.len())
        };
        FIXED + self.keys.iter().map(one).sum::<usize>()
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A client wants this written, if its conditions hold.
    Write {
        /// Its name.
        transaction: TransactionId,
        /// Up to here the client knew the log when it first sent this.
        since: Position,
        /// The write itself.
        write: Arc<ConditionalWrite>,
    },
    /// Somebody wants to know what became of a write: if nobody has heard of it, it is refused from now on.
    Settle {
        /// Its name.
        transaction: TransactionId,
        /// It was not sent before the log was here.
        since: Position,
    },
    /// A client wants a lease.
    Grant {
        /// Its name.
        lease: LeaseId,
        /// How long it lasts without being renewed.
        duration: Duration,
    },
    /// A lease ends, because its holder has given it up or has not renewed it for its whole length.
    End {
        /// Which.
        lease: LeaseId,
    },
}

impl Entry {
    /// Roughly how many bytes it takes, rather more than less: the entries of one message are chosen by it.
    pub fn bytes(&self) -> usize {
        const FIXED: usize = 64;
        match self {
            Entry::Write { write, .. } => FIXED + write.bytes(),
            Entry::Settle { .. } | Entry::Grant { .. } | Entry::End { .. } => FIXED,
        }
    }
}

/// The result of the last attempt at a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which attempt. Those before it have not been and will not be applied.
    pub attempt: u32,
    /// Its result.
    pub result: WriteResult,
}

/// A part of the state that the entries up to some position have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// How often the map has been written, and up to which revision its changes are forgotten.
    Revisions {
        /// The last revision.
        revision: Revision,
        /// Changes up to this one are forgotten.
        forgotten: Revision,
    },
    /// Keys, ascending, with what they hold.
    Keys(Vec<(Key, Stored)>),
    /// The last changes, in order.
    Changes(Vec<Arc<Change>>),
    /// Leases, with their lengths.
    Leases(Vec<(LeaseId, Duration)>),
    /// Clients, with the results of their last writes.
    Clients(TablePage<Done>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Put;

    #[test]
    fn changes_and_entries_take_as_many_bytes_as_what_they_hold_and_a_little_more() {
        let put = Put { key: Key::from("123"), value: Some(Value::from_static(b"1234567")), lease: None };
        let write = Arc::new(ConditionalWrite { compares: Vec::new(), puts: vec![put] });
        let (transaction, since) = (TransactionId::default(), Position::START);
        assert_eq!(Entry::Write { transaction, since, write: write.clone() }.bytes(), 64 + write.bytes());
        assert_eq!(Entry::Settle { transaction, since }.bytes(), 64);
        let (value, changed) = (Value::from_static(b"1234567"), Revision(4));
        let stored = Some(Stored { value, created: changed, changed, lease: None });
        let keys =
            vec![KeyState { key: Key::from("123"), stored }, KeyState { key: Key::from("12"), stored: None }];
        assert_eq!(Change { revision: changed, keys }.bytes(), 48 + (48 + 10) + (48 + 2));
        assert_eq!(Change { revision: changed, keys: Vec::new() }.bytes(), 48);
    }
}
