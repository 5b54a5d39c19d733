//! The quorum store without transactions.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

use super::{
    Empty, FinalizeInconsistent, InconsistentReply, JustView, KeyRange, KeyVersion, LifeNoted, OperationId,
    Part, PartsMissing, StatePage, Timestamp, TransactionId, ViewQuery, ViewQueryReply,
};

messages! {
    struct Put {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(bytes = "vec", optional, tag = 2)] value: Option<Vec<u8>>,
        #[prost(message, optional, tag = 3)] timestamp: Option<Timestamp>,
    }
    struct Supplement {
        #[prost(message, optional, tag = 1)] refusal: Option<Timestamp>,
        #[prost(message, optional, tag = 2)] complete: Option<Timestamp>,
    }
    struct RecordedPut { #[prost(message, optional, tag = 1)] operation: Option<Put> }
    struct PageEntry {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] entries: Option<RecordedPut>,
    }
    struct RecordPage { #[prost(message, repeated, tag = 1)] entries: Vec<PageEntry> }
}

// Inconsistent replication, as far as the store uses it.
messages! {
    struct ProposePut {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(message, optional, tag = 2)] operation: Option<Put>,
    }
    struct Confirm {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(uint64, tag = 2)] view: u64,
        #[prost(bool, tag = 4)] finalized: bool,
    }
    struct ViewChange {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, optional, tag = 2)] last_normal: Option<u64>,
        #[prost(uint64, repeated, tag = 3)] lineage: Vec<u64>,
        #[prost(message, optional, tag = 4)] part: Option<Part>,
        #[prost(message, optional, tag = 5)] page: Option<RecordPage>,
        #[prost(message, optional, tag = 6)] supplement: Option<Supplement>,
        #[prost(message, optional, tag = 10)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 11)] complete: Option<Timestamp>,
        #[prost(btree_map = "uint32, uint64", tag = 12)] lives: BTreeMap<u32, u64>,
    }
    struct StartView {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, optional, tag = 2)] since: Option<u64>,
        #[prost(message, optional, tag = 3)] part: Option<Part>,
        #[prost(message, optional, tag = 4)] page: Option<RecordPage>,
        #[prost(message, optional, tag = 5)] supplement: Option<Supplement>,
        #[prost(message, optional, tag = 10)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 11)] state: Option<StatePage>,
    }
}

choices! {
    Ir, "IrChoice", "1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15" = IrChoice {
        1 ProposePut(ProposePut),
        3 InconsistentReply(InconsistentReply),
        5 FinalizeInconsistent(FinalizeInconsistent),
        7 Confirm(Confirm),
        8 HigherView(JustView),
        9 StartViewChange(JustView),
        10 DoViewChange(ViewChange),
        11 StartView(StartView),
        12 ViewQuery(ViewQuery),
        13 ViewQueryReply(ViewQueryReply),
        14 PartsMissing(PartsMissing),
        15 Arrived(Empty),
    }
}

messages! {
    struct Read {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(bytes = "vec", tag = 2)] key: Vec<u8>,
    }
    struct ReadReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(bytes = "vec", tag = 2)] key: Vec<u8>,
        #[prost(message, optional, tag = 3)] version: Option<Timestamp>,
        #[prost(bytes = "vec", optional, tag = 4)] value: Option<Vec<u8>>,
    }
    struct Scan {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] request: u32,
        #[prost(message, optional, tag = 3)] range: Option<KeyRange>,
        #[prost(uint32, tag = 4)] limit: u32,
    }
    struct ScanReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] request: u32,
        #[prost(message, repeated, tag = 3)] keys: Vec<KeyVersion>,
        #[prost(bytes = "vec", optional, tag = 4)] next: Option<Vec<u8>>,
    }
    struct Late {
        #[prost(message, optional, tag = 1)] put: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] refusal: Option<Timestamp>,
        #[prost(uint64, tag = 3)] clock: u64,
    }
    struct ClockAhead {
        #[prost(message, optional, tag = 1)] put: Option<TransactionId>,
        #[prost(uint64, tag = 2)] ahead_micros: u64,
        #[prost(uint64, tag = 3)] ahead_max_micros: u64,
    }
    struct Place {
        #[prost(message, optional, tag = 1)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 2)] put: Option<TransactionId>,
    }
    struct Gather {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 3)] below: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] from: Option<Place>,
    }
    struct GatherReply {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] below: Option<Timestamp>,
        #[prost(message, optional, tag = 3)] from: Option<Place>,
        #[prost(message, repeated, tag = 4)] held: Vec<Place>,
        #[prost(message, optional, tag = 5)] next: Option<Place>,
    }
    struct FetchPuts { #[prost(message, repeated, tag = 1)] puts: Vec<TransactionId> }
    struct NamedPut {
        #[prost(message, optional, tag = 1)] put: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] operation: Option<Put>,
    }
    struct Puts { #[prost(message, repeated, tag = 1)] puts: Vec<NamedPut> }
    struct Complete {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] below: Option<Timestamp>,
    }
    struct RaiseFloor { #[prost(message, optional, tag = 1)] floor: Option<Timestamp> }
}

choices! {
    QwStore, "QwStoreChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 60" = QwStoreChoice {
        1 Read(Read),
        2 ReadReply(ReadReply),
        3 Scan(Scan),
        4 ScanReply(ScanReply),
        5 Ir(Ir),
        6 Late(Late),
        7 ClockAhead(ClockAhead),
        8 Gather(Gather),
        9 GatherReply(GatherReply),
        10 FetchPuts(FetchPuts),
        11 Puts(Puts),
        12 Complete(Complete),
        13 CompleteReply(Complete),
        14 RaiseFloor(RaiseFloor),
        60 Outdated(Empty),
    }
}

// What stands in the log.
messages! {
    struct PutRecorded {
        #[prost(message, optional, tag = 1)] put: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] operation: Option<Put>,
    }
    struct ViewPage {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] page: Option<RecordPage>,
    }
    struct ViewState {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] state: Option<StatePage>,
    }
    struct ViewInstalled {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, optional, tag = 2)] since: Option<u64>,
        #[prost(message, optional, tag = 3)] supplement: Option<Supplement>,
        #[prost(message, optional, tag = 4)] floor: Option<Timestamp>,
    }
    struct SnapshotBegun {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, repeated, tag = 2)] lineage: Vec<u64>,
        #[prost(message, optional, tag = 3)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] complete: Option<Timestamp>,
        #[prost(message, optional, tag = 5)] supplement: Option<Supplement>,
        #[prost(btree_map = "uint32, uint64", tag = 6)] lives: BTreeMap<u32, u64>,
    }
    struct SnapshotPage { #[prost(message, optional, tag = 1)] state: Option<StatePage> }
}

choices! {
    Record, "RecordChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13" = RecordChoice {
        1 Initialised(Empty),
        2 ViewEntered(JustView),
        3 PutRecorded(PutRecorded),
        4 ViewPage(ViewPage),
        5 ViewState(ViewState),
        6 ViewInstalled(ViewInstalled),
        7 Refusing(RaiseFloor),
        8 Completed(RaiseFloor),
        9 FloorRaised(RaiseFloor),
        10 SnapshotBegun(SnapshotBegun),
        11 SnapshotPage(SnapshotPage),
        12 SnapshotEnded(RaiseFloor),
        13 LifeNoted(LifeNoted),
    }
}
