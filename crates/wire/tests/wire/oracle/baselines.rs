//! The replicated log and the comparison systems that stand on it.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

use super::{Empty, JustView, KeyRange, Outcome, SnapshotTooOld, Timestamp, Transaction, TransactionId};

// What stands in the log.
messages! {
    struct Prepared {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] part: Option<Transaction>,
        #[prost(message, optional, tag = 3)] proposed: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 5)] age: Option<Timestamp>,
    }
    struct Refused {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, repeated, tag = 2)] participants: Vec<u32>,
        #[prost(message, optional, tag = 3)] until: Option<Timestamp>,
    }
    struct Decide {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] outcome: Option<Outcome>,
    }
    struct Floor {
        #[prost(message, optional, tag = 1)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 2)] forgotten: Option<Timestamp>,
    }
    struct Entry {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] payload: Option<Item>,
    }
    struct Entries { #[prost(message, repeated, tag = 1)] entries: Vec<Entry> }
    struct Version {
        #[prost(message, optional, tag = 1)] timestamp: Option<Timestamp>,
        #[prost(bytes = "vec", optional, tag = 2)] value: Option<Vec<u8>>,
    }
    struct KeyVersion {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(message, optional, tag = 2)] version: Option<Version>,
    }
    struct VersionsPage { #[prost(message, repeated, tag = 1)] versions: Vec<KeyVersion> }
    struct PreparedPage { #[prost(message, repeated, tag = 1)] prepared: Vec<Prepared> }
    struct Ended {
        #[prost(message, optional, tag = 1)] outcome: Option<Outcome>,
        #[prost(uint32, repeated, tag = 2)] participants: Vec<u32>,
        #[prost(message, optional, tag = 3)] until: Option<Timestamp>,
    }
    struct TransactionEnded {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] ended: Option<Ended>,
    }
    struct EndedPage { #[prost(message, repeated, tag = 1)] ended: Vec<TransactionEnded> }
    struct Bounds {
        #[prost(message, optional, tag = 1)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 2)] forgotten: Option<Timestamp>,
        #[prost(message, optional, tag = 3)] last: Option<Timestamp>,
    }
}

choices! {
    Item, "ItemChoice", "1, 2" = ItemChoice { 1 Own(OwnEntry), 2 NextGroup(Membership) }
    OwnEntry, "OwnEntryChoice", "1, 2, 3, 4, 5" = OwnEntryChoice {
        1 Prepared(Prepared),
        2 Refused(Refused),
        3 Decided(Decide),
        4 Floor(Floor),
        5 Ceiling(Timestamp),
    }
    Page, "PageChoice", "1, 2, 3, 4" = PageChoice {
        1 Versions(VersionsPage),
        2 Prepared(PreparedPage),
        3 Ended(EndedPage),
        4 Bounds(Bounds),
    }
}

// What the replicas of a log say.
messages! {
    struct Run { #[prost(uint64, tag = 1)] view: u64, #[prost(uint64, tag = 2)] first: u64 }
    struct Shape {
        #[prost(uint64, tag = 1)] base: u64,
        #[prost(message, repeated, tag = 2)] runs: Vec<Run>,
        #[prost(uint64, tag = 3)] last: u64,
    }
    struct Offer {
        #[prost(uint64, tag = 1)] last_normal: u64,
        #[prost(message, optional, tag = 2)] shape: Option<Shape>,
        #[prost(uint64, tag = 3)] stable: u64,
        #[prost(btree_map = "uint32, uint64", tag = 4)] lives: BTreeMap<u32, u64>,
    }
    struct Membership {
        #[prost(uint32, tag = 1)] epoch: u32,
        #[prost(uint32, repeated, tag = 2)] members: Vec<u32>,
    }
    struct Beginning {
        #[prost(message, optional, tag = 1)] membership: Option<Membership>,
        #[prost(uint64, tag = 2)] base: u64,
        #[prost(uint64, tag = 3)] view: u64,
    }
    struct PrepareEntries {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] after: u64,
        #[prost(message, repeated, tag = 3)] entries: Vec<Entry>,
        #[prost(uint64, tag = 4)] stable: u64,
        #[prost(uint64, tag = 5)] beat: u64,
        #[prost(fixed64, optional, tag = 6)] clock: Option<u64>,
    }
    struct PrepareOk {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] upto: u64,
        #[prost(uint64, tag = 3)] beat: u64,
        #[prost(fixed64, optional, tag = 4)] clock: Option<u64>,
    }
    struct StartViewChange { #[prost(uint64, tag = 1)] view: u64, #[prost(bool, tag = 2)] entered: bool }
    struct DoViewChange {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] offer: Option<Offer>,
        #[prost(fixed64, optional, tag = 3)] clock: Option<u64>,
    }
    struct StartView {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] shape: Option<Shape>,
        #[prost(uint64, tag = 3)] stable: u64,
        #[prost(message, optional, tag = 4)] beginning: Option<Beginning>,
    }
    struct Fetch {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] after: u64,
        #[prost(uint64, tag = 3)] upto: u64,
    }
    struct ViewEntries {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] after: u64,
        #[prost(message, repeated, tag = 3)] entries: Vec<Entry>,
    }
    struct FromState {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] base: u64,
        #[prost(uint64, tag = 3)] base_view: u64,
        #[prost(uint64, tag = 4)] page: u64,
        #[prost(message, optional, tag = 5)] state: Option<Page>,
    }
    struct FetchState {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] base: u64,
        #[prost(uint64, tag = 3)] page: u64,
    }
    struct WhichLife { #[prost(fixed64, tag = 1)] nonce: u64 }
    struct KnownLife { #[prost(fixed64, tag = 1)] nonce: u64, #[prost(uint64, tag = 2)] life: u64 }
    struct NewLife { #[prost(uint64, tag = 1)] life: u64 }
    struct LifeNoted { #[prost(uint64, tag = 1)] life: u64, #[prost(uint64, tag = 2)] view: u64 }
    struct EpochBegun {
        #[prost(message, optional, tag = 1)] membership: Option<Membership>,
        #[prost(message, optional, tag = 2)] shape: Option<Shape>,
    }
}

choices! {
    Log, "LogChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16" = LogChoice {
        1 Prepare(PrepareEntries),
        2 PrepareOk(PrepareOk),
        3 StartViewChange(StartViewChange),
        4 DoViewChange(DoViewChange),
        5 StartView(StartView),
        6 Fetch(Fetch),
        7 Fetched(ViewEntries),
        8 FromState(FromState),
        9 FetchState(FetchState),
        10 WhichLife(WhichLife),
        11 KnownLife(KnownLife),
        12 NewLife(NewLife),
        13 LifeNoted(LifeNoted),
        14 Join(JustView),
        15 EpochBegun(EpochBegun),
        16 EpochStarted(Empty),
    }
    Member, "MemberChoice", "1, 2" = MemberChoice { 1 Log(Log), 2 Own(Own) }
}

// What the participants of a transaction say.
messages! {
    struct Keys { #[prost(bytes = "vec", repeated, tag = 1)] keys: Vec<Vec<u8>> }
    struct Range {
        #[prost(message, optional, tag = 1)] range: Option<KeyRange>,
        #[prost(uint32, tag = 2)] limit: u32,
    }
    struct Clock { #[prost(uint64, tag = 1)] clock: u64 }
    struct JustTransaction { #[prost(message, optional, tag = 1)] transaction: Option<TransactionId> }
    struct TransactionTimestamp {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] timestamp: Option<Timestamp>,
    }
    struct TransactionStanding {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] standing: Option<Standing>,
    }
    struct Read {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(bytes = "vec", tag = 2)] key: Vec<u8>,
        #[prost(message, optional, tag = 3)] lock: Option<Timestamp>,
    }
    struct ReadReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(bytes = "vec", tag = 2)] key: Vec<u8>,
        #[prost(message, optional, tag = 3)] version: Option<Timestamp>,
        #[prost(bytes = "vec", optional, tag = 4)] value: Option<Vec<u8>>,
        #[prost(uint64, optional, tag = 5)] locked_in: Option<u64>,
    }
    struct Scan {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] request: u32,
        #[prost(message, optional, tag = 3)] range: Option<KeyRange>,
        #[prost(uint32, tag = 4)] limit: u32,
        #[prost(message, optional, tag = 5)] lock: Option<Timestamp>,
    }
    struct ScanReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] request: u32,
        #[prost(message, repeated, tag = 3)] keys: Vec<super::KeyVersion>,
        #[prost(bytes = "vec", optional, tag = 4)] next: Option<Vec<u8>>,
        #[prost(uint64, optional, tag = 5)] locked_in: Option<u64>,
    }
    struct Prepare {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] part: Option<Transaction>,
        #[prost(message, optional, tag = 3)] proposed: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] age: Option<Timestamp>,
        #[prost(uint64, optional, tag = 5)] locked_in: Option<u64>,
    }
    struct Coordinate {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, repeated, tag = 2)] parts: Vec<Transaction>,
        #[prost(message, optional, tag = 3)] proposed: Option<Timestamp>,
    }
    struct Validate {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] part: Option<Transaction>,
        #[prost(uint64, optional, tag = 3)] locked_in: Option<u64>,
        #[prost(message, optional, tag = 4)] at: Option<Timestamp>,
    }
    struct ValidateReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(bool, tag = 2)] is_valid: bool,
    }
    struct ReadCurrent {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(bytes = "vec", repeated, tag = 2)] keys: Vec<Vec<u8>>,
    }
    struct ReadCurrentReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, repeated, tag = 2)] found: Vec<super::KeyVersion>,
        #[prost(message, optional, tag = 3)] timestamp: Option<Timestamp>,
    }
    struct Inquire {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, repeated, tag = 2)] participants: Vec<u32>,
        #[prost(message, optional, tag = 3)] age: Option<Age>,
    }
    struct NotLeading {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] leader: u32,
    }
    struct AskFloorReply { #[prost(message, optional, tag = 1)] floor: Option<Timestamp> }
    struct ReadAt {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] wanted: Option<Wanted>,
        #[prost(message, optional, tag = 3)] at: Option<Timestamp>,
    }
    struct ReadAtReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, repeated, tag = 2)] found: Vec<super::KeyVersion>,
        #[prost(bytes = "vec", optional, tag = 3)] next: Option<Vec<u8>>,
    }
}

choices! {
    Wanted, "WantedChoice", "1, 2" = WantedChoice { 1 Keys(Keys), 2 Range(Range) }
    Standing, "StandingChoice", "1, 2, 3, 4" = StandingChoice {
        1 Prepared(Timestamp),
        2 Ended(Outcome),
        3 TooOld(Clock),
        4 Forgotten(Clock),
    }
    Age, "AgeChoice", "1, 2" = AgeChoice { 1 Proposed(Timestamp), 2 NotBefore(Timestamp) }
    Own, "OwnChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25" = OwnChoice {
        1 Read(Read),
        2 ReadReply(ReadReply),
        3 Scan(Scan),
        4 ScanReply(ScanReply),
        5 NextTimestamp(TransactionTimestamp),
        6 NextTimestampReply(TransactionTimestamp),
        7 Prepare(Prepare),
        8 PrepareReply(TransactionStanding),
        9 Validate(Validate),
        10 ValidateReply(ValidateReply),
        11 ReadCurrent(ReadCurrent),
        12 ReadCurrentReply(ReadCurrentReply),
        13 Decide(Decide),
        14 Inquire(Inquire),
        15 InquireReply(TransactionStanding),
        16 NotLeading(NotLeading),
        17 AskFloor(Empty),
        18 AskFloorReply(AskFloorReply),
        19 Release(JustTransaction),
        20 Wounded(JustTransaction),
        21 ReadAt(ReadAt),
        22 ReadAtReply(ReadAtReply),
        23 SnapshotTooOld(SnapshotTooOld),
        24 Coordinate(Coordinate),
        25 CoordinateReply(TransactionStanding),
    }
}

// Records.
messages! {
    struct ReplicaLife { #[prost(uint32, tag = 1)] replica: u32, #[prost(uint64, tag = 2)] life: u64 }
    struct ViewInstalled {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] kept: u64,
        #[prost(uint64, tag = 3)] last: u64,
        #[prost(uint64, optional, tag = 4)] from_state: Option<u64>,
        #[prost(message, optional, tag = 5)] beginning: Option<Beginning>,
        #[prost(btree_map = "uint32, uint64", tag = 6)] lives: BTreeMap<u32, u64>,
    }
    struct ViewState {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] page: u64,
        #[prost(message, optional, tag = 3)] state: Option<Page>,
    }
    struct SnapshotBegun {
        #[prost(uint64, tag = 1)] base: u64,
        #[prost(uint64, tag = 2)] base_view: u64,
        #[prost(uint64, tag = 3)] view: u64,
        #[prost(uint64, tag = 4)] last_normal: u64,
        #[prost(bool, tag = 5)] changing: bool,
        #[prost(btree_map = "uint32, uint64", tag = 6)] lives: BTreeMap<u32, u64>,
        #[prost(message, optional, tag = 7)] beginning: Option<Beginning>,
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Fact {
    #[prost(oneof = "FactChoice", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11")]
    pub(crate) choice: Option<FactChoice>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum FactChoice {
    #[prost(message, tag = 1)]
    Appended(Entries),
    #[prost(uint64, tag = 2)]
    ViewEntered(u64),
    #[prost(message, tag = 3)]
    LifeNoted(ReplicaLife),
    #[prost(message, tag = 4)]
    ViewPage(ViewEntries),
    #[prost(message, tag = 5)]
    ViewInstalled(ViewInstalled),
    #[prost(message, tag = 6)]
    ViewState(ViewState),
    #[prost(message, tag = 7)]
    SnapshotBegun(SnapshotBegun),
    #[prost(message, tag = 8)]
    SnapshotEntries(Entries),
    #[prost(message, tag = 9)]
    SnapshotPage(Page),
    #[prost(message, tag = 10)]
    SnapshotEnded(Empty),
    #[prost(message, tag = 11)]
    Awaiting(Empty),
}
