//! The field numbers of ids, addresses, timestamps and transactions, and the kinds of pairs that several protocols have.

use quorate_core::command::{Decided, Outcome};
use quorate_core::transaction::{
    KeyVersion, LimitExceeded, TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, readable,
};
use quorate_core::{
    Address, Key, KeyRange, ReadVersion, ReplicaId, ReplicaIndex, Timestamp, Transaction, TransactionId,
    Write,
};

use crate::error::Fault;
use crate::field::{
    BoundBytes, Fixed64, KeyBytes, Map, Nested, Optional, Packed, Repeated, ValueBytes, Varint,
};

message!(TransactionId, "TransactionId", {
    1 client: Fixed64,
    2 sequence: Varint,
    3 attempt: Varint,
});

message!(ReplicaId, "ReplicaId", {
    1 shard: Varint,
    2 index: Varint,
});

alternatives!(Address, "Address", fields {
    1 Replica: Nested,
    2 Client: Fixed64,
});

message!(Decided, "Decided", {
    1 shard: Varint,
    2 timestamp: Varint,
    3 is_refused: Varint,
    4 digest: Fixed64,
});

message!(Timestamp, "Timestamp", {
    1 micros: Fixed64,
    2 client: Fixed64,
});

message!(KeyRange, "KeyRange", {
    1 from: BoundBytes,
    2 to: Optional<BoundBytes>,
});

message!(ReadVersion, "ReadVersion", {
    1 key: KeyBytes,
    2 version: Nested,
    3 deleted: Varint,
});

message!(Write, "Write", {
    1 key: KeyBytes,
    2 value: Optional<ValueBytes>,
});

message!(KeyVersion, "KeyVersion", {
    1 key: KeyBytes,
    2 version: Nested,
    3 value: Optional<ValueBytes>,
});

alternatives!(Outcome, "tapir.Outcome",
    messages {
        2 Aborted {}
    },
    fields {
        1 Committed: Nested,
    }
);

pair!(
    /// A place in a record that is walked by timestamp.
    pub Cursor: (Timestamp, TransactionId), "tapir.Cursor", 1 timestamp: Nested, 2 transaction: Nested
);

pair!(
    /// The life that a replica is in.
    pub Life: (ReplicaIndex, u64), "log.Life", 1 replica: Varint, 2 life: Varint
);

/// The lives that the replicas of a group are in.
pub type Lives = Map<Life>;

message!(Transaction, "Transaction", {
    1 reads: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
    2 writes: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
    3 ranges: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
    4 participants: Packed,
    20 reads_when_prepared: Varint,
}, check validate_transaction);

/// The properties of a transaction that all its handlers rely on: it is within the limits that the client should have checked, and
/// its keys ascend.
fn validate_transaction(transaction: &Transaction) -> Result<(), Fault> {
    let entries = transaction.reads.len() + transaction.writes.len() + transaction.ranges.len();
    let bytes = transaction.bytes();
    if entries > TRANSACTION_ENTRIES_MAX || bytes > TRANSACTION_BYTES_MAX {
        let key = readable(last_key(transaction).map_or(b"", |key| key));
        return Err(if bytes > TRANSACTION_BYTES_MAX {
            LimitExceeded::Transaction { key, bytes }.into()
        } else {
            LimitExceeded::Entries { key, entries }.into()
        });
    }
    let ascends = transaction.reads.is_sorted_by(|one, next| one.key < next.key)
        && transaction.writes.is_sorted_by(|one, next| one.key < next.key)
        && transaction.participants.is_sorted_by(|one, next| one < next);
    if ascends { Ok(()) } else { Err(Fault::Unsorted) }
}

fn last_key(transaction: &Transaction) -> Option<&Key> {
    let written = transaction.writes.last().map(|write| &write.key);
    written.or_else(|| transaction.reads.last().map(|read| &read.key))
}
