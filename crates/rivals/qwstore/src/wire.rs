//! The field numbers of the quorum store without transactions.

use std::sync::Arc;

use quorate_codec::field::{BoundBytes, KeyBytes, Nested, Optional, Packed, Repeated, ValueBytes, Varint};
use quorate_codec::vocabulary::{Cursor, Lives};
use quorate_codec::{Fault, Through, alternatives, message, pair};
use quorate_core::TransactionId;
use quorate_ir::wire::WireOperations;
use quorate_ir::{InconsistentEntry, OperationEntries};

use crate::message::{Put, StatePage, Supplement};
use crate::{Message, QwStore, Record};

message!(Put, "qwstore.Put", {
    1 key: KeyBytes,
    2 value: Optional<ValueBytes>,
    3 timestamp: Nested,
});

message!(Supplement, "qwstore.Supplement", {
    1 refusal: Nested,
    2 complete: Nested,
});

message!(StatePage, "qwstore.StatePage", {
    1 versions: Repeated<Nested>,
});

/// [`OperationEntries`] of a put: that it is recorded, and has taken effect.
pub struct PutEntry {
    operation: Option<Arc<Put>>,
}

message!(PutEntry, "qwstore.RecordedPut", {
    1 operation: Optional<Nested>,
});

impl WireOperations for QwStore {
    type Entries = PutEntry;
}

impl Through<OperationEntries<QwStore>> for PutEntry {
    fn of(entries: &OperationEntries<QwStore>) -> Self {
        PutEntry { operation: entries.inconsistent.as_ref().map(|entry| entry.operation.clone()) }
    }

    fn restore(self) -> Result<OperationEntries<QwStore>, Fault> {
        let recorded = |operation| InconsistentEntry { operation, executed: true };
        Ok(OperationEntries { inconsistent: self.operation.map(recorded), consensus: Vec::new() })
    }
}

pair!(NamedPut: (TransactionId, Arc<Put>), "qwstore.Puts.Entry", 1 put: Nested, 2 operation: Nested);

alternatives!(Message, "qwstore.Message",
    messages {
        1 Read { 1 transaction: Nested, 2 key: KeyBytes }
        2 ReadReply { 1 transaction: Nested, 2 key: KeyBytes, 3 version: Nested, 4 value: Optional<ValueBytes> }
        3 Scan { 1 transaction: Nested, 2 request: Varint, 3 range: Nested, 4 limit: Varint }
        4 ScanReply {
            1 transaction: Nested,
            2 request: Varint,
            3 keys: Repeated<Nested>,
            4 next: Optional<BoundBytes>,
        }
        6 Late { 1 put: Nested, 2 refusal: Nested, 3 clock: Varint }
        7 ClockAhead { 1 put: Nested, 2 ahead_micros: Varint, 3 ahead_max_micros: Varint }
        8 Gather { 1 view: Varint, 2 floor: Nested, 3 below: Nested, 4 from: Cursor }
        9 GatherReply {
            1 view: Varint,
            2 below: Nested,
            3 from: Cursor,
            4 held: Repeated<Cursor>,
            5 next: Optional<Cursor>,
        }
        10 FetchPuts { 1 puts: Repeated<Nested> }
        11 Puts { 1 puts: Repeated<NamedPut> }
        12 Complete { 1 view: Varint, 2 below: Nested }
        13 CompleteReply { 1 view: Varint, 2 below: Nested }
        14 RaiseFloor { 1 floor: Nested }
        60 Outdated {}
    },
    fields {
        5 Ir: Nested,
    }
);

alternatives!(Record, "qwstore.Record", messages {
    1 Initialised {}
    2 ViewEntered { 1 view: Varint }
    3 PutRecorded { 1 put: Nested, 2 operation: Nested }
    4 ViewPage { 1 view: Varint, 2 page: Nested }
    5 ViewState { 1 view: Varint, 2 state: Nested }
    6 ViewInstalled { 1 view: Varint, 2 since: Optional<Varint>, 3 supplement: Nested, 4 floor: Optional<Nested>, 5 kept: Repeated<Nested> }
    7 Refusing { 1 below: Nested }
    8 Completed { 1 below: Nested }
    9 FloorRaised { 1 floor: Nested }
    10 SnapshotBegun {
        1 view: Varint,
        2 lineage: Packed,
        3 floor: Nested,
        4 complete: Nested,
        5 supplement: Nested,
        6 lives: Lives,
    }
    11 SnapshotPage { 1 state: Nested, 2 below: Optional<Nested> }
    12 SnapshotEnded { 1 floor: Nested }
    13 LifeNoted { 1 replica: Varint, 2 life: Varint }
});
