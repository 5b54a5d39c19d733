//! The field numbers of TAPIR: of its messages, and of the records of a replica.

mod shared;

use quorate_codec::field::{BoundBytes, KeyBytes, Nested, Optional, Packed, Repeated, ValueBytes, Varint};
use quorate_codec::vocabulary::{Cursor, Lives};
use quorate_codec::{alternatives, message, pair};
use quorate_core::command::Outcome;
use quorate_core::{Ballot, TransactionId};
use quorate_ir::wire::WireOperations;

use self::shared::{SharedCoordinatorChangeReply, SharedEntries};
use crate::message::{
    Decision, FoundKey, FoundPage, FoundVersion, Otherwise, Prepare, Promise, SnapshotVersion, StatePage,
    Supplement, ValidatedVersion, Validation, Vote,
};
use crate::{Message, Record, Tapir};

impl WireOperations for Tapir {
    type Entries = SharedEntries;
}

message!(Prepare, "tapir.Prepare", {
    1 transaction: Nested,
    2 timestamp: Nested,
    3 first: Optional<Nested>,
});

alternatives!(Vote, "tapir.Vote",
    messages {
        1 Ok {}
        2 Abstain {}
        3 Abort {}
    },
    fields {
        4 Retry: Nested,
    }
);

alternatives!(Decision, "tapir.Decision", messages {
    1 Commit { 1 transaction: Nested, 2 timestamp: Nested, 10 last: Nested }
    2 Abort { 10 last: Nested }
});

pair!(AcceptedOutcome: (Ballot, Outcome), "tapir.AcceptedOutcome", 1 ballot: Varint, 2 outcome: Nested);

message!(Promise, "tapir.Promise", {
    1 ballot: Varint,
    2 accepted: Optional<AcceptedOutcome>,
});

pair!(NamedPromise: (TransactionId, Promise), "tapir.Supplement.Entry", 1 transaction: Nested, 2 promise: Nested);

message!(Supplement, "tapir.Supplement", {
    1 promises: Repeated<NamedPromise>,
    2 read_floor: Nested,
    10 refusal: Nested,
    11 complete: Nested,
});

message!(StatePage, "tapir.StatePage", {
    1 versions: Repeated<Nested>,
    2 retained_from: Optional<Nested>,
});

pair!(NamedDecision: (TransactionId, Decision), "tapir.Decisions.Entry", 1 transaction: Nested, 2 decision: Nested);

message!(FoundVersion, "tapir.FoundVersion", {
    1 version: Nested,
    2 value: Optional<ValueBytes>,
    3 absent_below: Optional<Nested>,
});

message!(SnapshotVersion, "tapir.SnapshotVersion", {
    1 found: Nested,
    2 newest: Nested,
    3 pending: Optional<Nested>,
});

message!(FoundKey, "tapir.FoundKey", {
    1 key: KeyBytes,
    2 version: Nested,
});

message!(FoundPage, "tapir.FoundPage", {
    1 keys: Repeated<Nested>,
    2 next: Optional<BoundBytes>,
    3 absent_below: Optional<Nested>,
});

message!(ValidatedVersion, "tapir.ValidatedVersion", {
    1 found: Nested,
    2 until: Nested,
});

message!(Otherwise, "tapir.Otherwise", {
    1 oldest: Nested,
    2 round: Varint,
    3 timestamp: Nested,
});

message!(Validation, "tapir.Validation", {
    1 timestamp: Nested,
    2 reads: Repeated<Nested>,
});

alternatives!(Message, "tapir.Message",
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
        6 Recover { 1 transaction: Nested, 2 participants: Packed, 10 timestamp: Nested }
        7 CoordinatorChange { 1 transaction: Nested, 2 ballot: Varint, 10 timestamp: Nested }
        9 RecordOutcome { 1 transaction: Nested, 2 ballot: Varint, 3 outcome: Nested }
        10 RecordOutcomeReply { 1 transaction: Nested, 2 ballot: Varint, 3 view: Varint }
        11 Superseded { 1 transaction: Nested, 2 promised: Varint }
        12 RecoverReply { 1 transaction: Nested, 2 outcome: Nested }
        13 ClockAhead { 1 transaction: Nested, 2 ahead_micros: Varint, 3 ahead_max_micros: Varint }
        14 CommitPrepared { 1 id: Nested, 2 timestamp: Nested, 3 together: Varint }
        15 Recorded { 1 view: Varint, 2 transactions: Repeated<Nested> }
        20 Gather { 1 view: Varint, 2 floor: Nested, 3 below: Nested, 4 from: Cursor }
        21 GatherReply {
            1 view: Varint,
            2 below: Nested,
            3 from: Cursor,
            4 executed: Repeated<Cursor>,
            5 open: Repeated<Cursor>,
            6 next: Optional<Cursor>,
        }
        22 FetchDecisions { 1 transactions: Repeated<Nested> }
        23 Decisions { 1 decisions: Repeated<NamedDecision> }
        24 AreDecided { 1 nonce: Varint, 2 transactions: Repeated<Cursor> }
        25 AreDecidedReply { 1 nonce: Varint, 2 view: Varint, 3 missing: Repeated<Nested> }
        26 Complete { 1 view: Varint, 2 below: Nested }
        27 CompleteReply { 1 view: Varint, 2 below: Nested }
        28 RaiseFloor { 1 floor: Nested }
        29 Forgotten { 1 transaction: Nested }
        30 HeldReads { 1 id: Nested, 2 view: Varint, 3 vote: Nested, 4 finalized: Varint, 5 found: Repeated<Nested> }
        31 QuorumRead { 1 transaction: Nested, 2 round: Varint, 3 timestamp: Nested, 4 keys: Repeated<KeyBytes>, 5 in_turn: Varint }
        32 QuorumReadReply { 1 transaction: Nested, 2 round: Varint, 3 view: Varint, 4 found: Repeated<Nested> }
        33 SnapshotTooOld { 1 transaction: Nested, 2 oldest: Nested }
        34 ReadValidated {
            1 transaction: Nested,
            2 keys: Repeated<KeyBytes>,
            3 otherwise: Optional<Nested>,
            4 validated: Repeated<Nested>,
        }
        35 ReadValidatedReply { 1 transaction: Nested, 2 found: Repeated<Nested> }
        36 Validated { 1 timestamp: Nested, 2 reads: Repeated<Nested> }
        37 QuorumScan {
            1 transaction: Nested,
            2 round: Varint,
            3 timestamp: Nested,
            4 range: Nested,
            5 limit: Varint,
        }
        38 QuorumScanReply { 1 transaction: Nested, 2 round: Varint, 3 view: Varint, 4 page: Nested }
        45 ClockProbe { 1 sent: Varint, 2 deadlines: Varint }
        46 ClockProbeReply { 1 sent: Varint, 2 arrived: Varint }
        47 ReadInTurn { 1 transaction: Nested, 2 key: KeyBytes }
        48 ReadWaits { 1 transaction: Nested, 2 key: KeyBytes }
        49 ReadMany { 1 transaction: Nested, 2 request: Varint, 3 keys: Repeated<KeyBytes>, 4 in_turn: Varint }
        50 ReadManyReply {
            1 transaction: Nested,
            2 request: Varint,
            3 found: Repeated<Nested>,
            4 waiting: Repeated<KeyBytes>,
        }
        60 Outdated {}
    },
    fields {
        5 Ir: Nested,
    },
    through {
        8 CoordinatorChangeReply: SharedCoordinatorChangeReply,
    }
);

alternatives!(Record, "tapir.Record", messages {
    1 Initialised {}
    2 ViewEntered { 1 view: Varint }
    3 Voted { 1 id: Nested, 2 prepare: Nested, 3 vote: Nested }
    4 VoteFinalized { 1 id: Nested, 2 vote: Nested, 3 ballot: Varint }
    5 Decided { 1 transaction: Nested, 2 decision: Nested, 3 executed: Varint }
    6 DecisionExecuted { 1 transaction: Nested }
    7 Promised { 1 transaction: Nested, 2 promise: Nested }
    8 ViewPage { 1 view: Varint, 2 page: Nested }
    9 ViewInstalled {
        1 view: Varint,
        2 since: Optional<Varint>,
        3 supplement: Nested,
        10 floor: Optional<Nested>,
        11 kept: Repeated<Nested>,
    }
    10 Refusing { 1 below: Nested }
    11 Completed { 1 below: Nested }
    12 FloorRaised { 1 floor: Nested }
    13 ViewState { 1 view: Varint, 2 state: Nested }
    14 SnapshotBegun { 1 view: Varint, 2 lineage: Packed, 3 floor: Nested, 4 complete: Nested, 5 lives: Lives }
    15 SnapshotBinds { 1 read_floor: Nested, 2 supplement: Nested }
    16 SnapshotPage { 1 state: Nested, 2 below: Optional<Nested> }
    17 SnapshotEnded { 1 floor: Nested }
    18 LifeNoted { 1 replica: Varint, 2 life: Varint }
    19 EpochEntered { 1 groups: Nested }
    20 CommittedAsPrepared { 1 id: Nested, 2 last: Nested, 3 executed: Varint }
    30 ReadsPromised { 1 until: Nested }
});
