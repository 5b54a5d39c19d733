//! Everything that is said.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::transaction::KeyVersion;
use quorate_core::{ClockTime, Key, KeyRange, Timestamp, TransactionId, Value, View};
use quorate_ir::{Cursor, FloorMessage, Operations, Summary, counterparts};

/// The operations that the store invokes through inconsistent replication: puts, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QwStore;

/// A put, or a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The key.
    pub key: Key,
    /// The value; none deletes.
    pub value: Option<Value>,
    /// Names the version. Of two versions of a key the later one stands.
    pub timestamp: Timestamp,
}

impl Put {
    /// How many bytes its key and value have.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Value::len)
    }
}

/// The bounds that travel beside a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supplement {
    /// Puts below are refused.
    pub refusal: Timestamp,
    /// Below this f + 1 replicas hold every put that was acknowledged, as far as the sender knows.
    pub complete: Timestamp,
}

/// Some of the versions that a replica holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatePage {
    /// The versions.
    pub versions: Vec<KeyVersion>,
}

impl Operations for QwStore {
    type Inconsistent = Arc<Put>;
    type Consensus = Infallible;
    type Verdict = Infallible;
    type Supplement = Supplement;
    type State = StatePage;

    fn consensus_timestamp(operation: &Infallible) -> Timestamp {
        match *operation {}
    }

    fn inconsistent_timestamp(operation: &Arc<Put>) -> Timestamp {
        operation.timestamp
    }

    fn last_timestamp(operation: &Arc<Put>) -> Timestamp {
        operation.timestamp
    }

    fn leaves_state(_: &Arc<Put>) -> bool {
        true
    }

    fn as_proposed(_: &Arc<Put>, operation: &Infallible) -> Option<Timestamp> {
        match *operation {}
    }

    fn of_proposed(operation: &Infallible, _: Timestamp) -> Arc<Put> {
        match *operation {}
    }

    fn bytes(put: &Arc<Put>) -> usize {
        put.bytes()
    }

    fn consensus_bytes(operation: &Infallible) -> usize {
        match *operation {}
    }

    fn state_bytes(page: &StatePage) -> usize {
        page.versions.iter().map(KeyVersion::bytes).sum()
    }

    /// A put lets go of nothing that others could still need.
    fn runs_on_arrival(_: &Arc<Put>) -> bool {
        true
    }

    fn is_favourable(verdict: &Infallible) -> bool {
        match *verdict {}
    }
}

/// The messages of coordinators and replicas to each other.
///
/// A put has an id of its own, which has the form of a [`TransactionId`]: the client and how many puts it has sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Coordinator → the nearest replica: what does this key hold?
    Read {
        /// The transaction that asks.
        transaction: TransactionId,
        /// The key.
        key: Key,
    },
    /// Replica → coordinator: the newest version that I hold. Others may hold newer ones.
    ReadReply {
        /// The transaction that asked.
        transaction: TransactionId,
        /// The key.
        key: Key,
        /// Its newest version here; zero if there is none.
        version: Timestamp,
        /// The value; none if the key is absent.
        value: Option<Value>,
    },
    /// Coordinator → the nearest replica of each shard: what does this range hold?
    Scan {
        /// The transaction that asks.
        transaction: TransactionId,
        /// Tells the answers to this scan from those to another one of the same transaction.
        request: u32,
        /// The range.
        range: KeyRange,
        /// At most so many keys that exist.
        limit: u32,
    },
    /// Replica → coordinator: the newest versions that I hold, in order of their keys, deletions among them.
    ScanReply {
        /// The transaction that asked.
        transaction: TransactionId,
        /// The scan's number.
        request: u32,
        /// The versions.
        keys: Vec<KeyVersion>,
        /// The first key that is not covered; none if the whole range is.
        next: Option<Key>,
    },
    /// Inconsistent replication: PROPOSE of a put, its reply, and view changes.
    Ir(quorate_ir::Message<QwStore>),
    /// Replica → coordinator: I have not recorded this put, because its timestamp lies where I refuse new ones. It has to be
    /// put anew with a later one.
    Late {
        /// The put.
        put: TransactionId,
        /// Below this I refuse.
        refusal: Timestamp,
        /// The reading of my clock.
        clock: ClockTime,
    },
    /// Replica → coordinator: I have not recorded this put, because its timestamp is too far ahead of my clock.
    ClockAhead {
        /// The put.
        put: TransactionId,
        /// How far ahead it is.
        ahead_micros: u64,
        /// How far it may be.
        ahead_max_micros: u64,
    },
    /// The replica that looks for a floor → each other one: refuse new puts below, and tell me which you hold there.
    Gather {
        /// Its view; in another one this means nothing.
        view: View,
        /// Its floor: what lies below has been compared.
        floor: Timestamp,
        /// Where the next floor may come to lie.
        below: Timestamp,
        /// Where the answer is to begin.
        from: Cursor,
    },
    /// The answer: I refuse new puts below from now on, durably, and these are the ones that I hold.
    GatherReply {
        /// The view.
        view: View,
        /// As asked.
        below: Timestamp,
        /// As asked.
        from: Cursor,
        /// The puts, ascending.
        held: Vec<Cursor>,
        /// Where the next page begins; none if this was the last.
        next: Option<Cursor>,
    },
    /// Replica → replica: send me these puts.
    FetchPuts {
        /// Their ids.
        puts: Vec<TransactionId>,
    },
    /// Replica → replica: puts that you do not hold.
    Puts {
        /// The puts.
        puts: Vec<(TransactionId, Arc<Put>)>,
    },
    /// The replica that looks for a floor → those that hold what it holds: make it durable that you do.
    Complete {
        /// The view.
        view: View,
        /// Below this they hold the same.
        below: Timestamp,
    },
    /// The answer, once that is durable.
    CompleteReply {
        /// The view.
        view: View,
        /// As asked.
        below: Timestamp,
    },
    /// Replica → replica: f + 1 are complete below this, so it is the floor.
    RaiseFloor {
        /// The floor.
        floor: Timestamp,
    },
    /// Replica → the sender under an earlier membership: learn of the present one.
    Outdated,
}

impl From<quorate_ir::Message<QwStore>> for Message {
    fn from(message: quorate_ir::Message<QwStore>) -> Self {
        Message::Ir(message)
    }
}

// No put is ever open.
counterparts!(FloorMessage<QwStore> = Message {
    Gather { view, floor, below, from } = Gather { view, floor, below, from },
    Fetch { transactions } = FetchPuts { puts: transactions },
    Learn { operations } = Puts { puts: operations },
    Complete { view, below } = Complete { view, below },
    CompleteReply { view, below } = CompleteReply { view, below },
    RaiseFloor { floor } = RaiseFloor { floor },
} to own {
    FloorMessage::GatherReply { view, below, from, summary } => {
        let Summary { executed: held, next, .. } = summary;
        Message::GatherReply { view, below, from, held, next }
    },
} to shared {
    Message::GatherReply { view, below, from, held, next } => {
        let summary = Summary { executed: held, open: Vec::new(), next };
        FloorMessage::GatherReply { view, below, from, summary }
    },
} own other);
