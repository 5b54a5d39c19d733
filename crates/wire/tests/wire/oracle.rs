//! The wire format once more, as another implementation of protocol buffers sees it.
//!
//! These structs exist only to be compared with; their field numbers are those of `docs/wire-format.md`.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// Messages: `struct Name { #[prost(…)] field: type }`.
macro_rules! messages {
    ($(struct $name:ident { $(#[$meta:meta] $field:ident: $type:ty),* $(,)? })*) => {
        $(#[derive(Clone, PartialEq, Message)]
        pub(crate) struct $name { $(#[$meta] pub(crate) $field: $type),* })*
    };
}

/// Messages that are one of several: `Name, "Choice", "tags" = Choice { number Variant(Type) }`.
macro_rules! choices {
    ($($name:ident, $text:tt, $tags:tt = $choice:ident { $($number:tt $variant:ident($type:ty)),* $(,)? })*) => {
        $(
            #[derive(Clone, PartialEq, Message)]
            pub(crate) struct $name {
                #[prost(oneof = $text, tags = $tags)]
                pub(crate) choice: Option<$choice>,
            }

            #[derive(Clone, PartialEq, Oneof)]
            pub(crate) enum $choice { $(#[prost(message, tag = $number)] $variant($type)),* }
        )*
    };
}

pub(crate) mod baselines;
pub(crate) mod configuration;
pub(crate) mod granola;
pub(crate) mod qwstore;

messages! {
    struct Empty {}
    struct TransactionId {
        #[prost(fixed64, tag = 1)] client: u64,
        #[prost(uint64, tag = 2)] sequence: u64,
        #[prost(uint32, tag = 3)] attempt: u32,
    }
    struct ReplicaId { #[prost(uint32, tag = 1)] shard: u32, #[prost(uint32, tag = 2)] index: u32 }
    struct Timestamp { #[prost(fixed64, tag = 1)] micros: u64, #[prost(fixed64, tag = 2)] client: u64 }
    struct KeyRange {
        #[prost(bytes = "vec", tag = 1)] from: Vec<u8>,
        #[prost(bytes = "vec", optional, tag = 2)] to: Option<Vec<u8>>,
    }
    struct ReadVersion {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(message, optional, tag = 2)] version: Option<Timestamp>,
    }
    struct Write {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(bytes = "vec", optional, tag = 2)] value: Option<Vec<u8>>,
    }
    struct Transaction {
        #[prost(message, repeated, tag = 1)] reads: Vec<ReadVersion>,
        #[prost(message, repeated, tag = 2)] writes: Vec<Write>,
        #[prost(message, repeated, tag = 3)] ranges: Vec<KeyRange>,
        #[prost(uint32, repeated, tag = 4)] participants: Vec<u32>,
        #[prost(bool, tag = 20)] reads_when_prepared: bool,
    }
    struct OperationId {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] number: u32,
    }
    struct Prepare {
        #[prost(message, optional, tag = 1)] transaction: Option<Transaction>,
        #[prost(message, optional, tag = 2)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 3)] first: Option<Timestamp>,
    }
    struct AcceptedOutcome {
        #[prost(uint32, tag = 1)] ballot: u32,
        #[prost(message, optional, tag = 2)] outcome: Option<Outcome>,
    }
    struct Promise {
        #[prost(uint32, tag = 1)] ballot: u32,
        #[prost(message, optional, tag = 2)] accepted: Option<AcceptedOutcome>,
    }
    struct SupplementEntry {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] promise: Option<Promise>,
    }
    struct Supplement {
        #[prost(message, repeated, tag = 1)] promises: Vec<SupplementEntry>,
        #[prost(message, optional, tag = 2)] read_floor: Option<Timestamp>,
        #[prost(message, optional, tag = 10)] refusal: Option<Timestamp>,
        #[prost(message, optional, tag = 11)] complete: Option<Timestamp>,
    }
    struct Part {
        #[prost(uint64, tag = 1)] series: u64,
        #[prost(uint32, tag = 2)] index: u32,
        #[prost(uint32, tag = 3)] count: u32,
    }
    struct SharedCommit {
        #[prost(uint32, tag = 1)] transaction: u32,
        #[prost(message, optional, tag = 2)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 10)] last: Option<Timestamp>,
    }
    struct InconsistentEntry {
        #[prost(message, optional, tag = 1)] decision: Option<SharedDecision>,
        #[prost(bool, tag = 2)] executed: bool,
    }
    struct ConsensusEntry {
        #[prost(uint32, tag = 1)] number: u32,
        #[prost(uint32, tag = 2)] transaction: u32,
        #[prost(message, optional, tag = 3)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] verdict: Option<Vote>,
        #[prost(uint32, optional, tag = 5)] finalized: Option<u32>,
        #[prost(message, optional, tag = 6)] first: Option<Timestamp>,
    }
    struct OperationEntries {
        #[prost(message, repeated, tag = 1)] transactions: Vec<Transaction>,
        #[prost(message, optional, tag = 2)] inconsistent: Option<InconsistentEntry>,
        #[prost(message, repeated, tag = 3)] consensus: Vec<ConsensusEntry>,
    }
    struct PageEntry {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] entries: Option<OperationEntries>,
    }
    struct RecordPage { #[prost(message, repeated, tag = 1)] entries: Vec<PageEntry> }
    struct Commit {
        #[prost(message, optional, tag = 1)] transaction: Option<Transaction>,
        #[prost(message, optional, tag = 2)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 10)] last: Option<Timestamp>,
    }
    struct Abort { #[prost(message, optional, tag = 10)] last: Option<Timestamp> }
    struct KeyVersion {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(message, optional, tag = 2)] version: Option<Timestamp>,
        #[prost(bytes = "vec", optional, tag = 3)] value: Option<Vec<u8>>,
    }
    struct StatePage { #[prost(message, repeated, tag = 1)] versions: Vec<KeyVersion> }
}

choices! {
    Vote, "VoteChoice", "1, 2, 3, 4" = VoteChoice { 1 Ok(Empty), 2 Abstain(Empty), 3 Abort(Empty), 4 Retry(Timestamp) }
    Outcome, "OutcomeChoice", "1, 2" = OutcomeChoice { 1 Committed(Timestamp), 2 Aborted(Empty) }
    Decision, "DecisionChoice", "1, 2" = DecisionChoice { 1 Commit(Commit), 2 Abort(Abort) }
    SharedDecision, "SharedDecisionChoice", "1, 2" = SharedDecisionChoice { 1 Commit(SharedCommit), 2 Abort(Abort) }
}

// Inconsistent replication.
messages! {
    struct ProposeInconsistent {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(message, optional, tag = 2)] operation: Option<Decision>,
    }
    struct ProposeConsensus {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(message, optional, tag = 2)] operation: Option<Prepare>,
    }
    struct InconsistentReply {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(uint64, tag = 2)] view: u64,
    }
    struct ConsensusReply {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(uint64, tag = 2)] view: u64,
        #[prost(message, optional, tag = 3)] verdict: Option<Vote>,
        #[prost(bool, tag = 4)] finalized: bool,
    }
    struct FinalizeInconsistent { #[prost(message, optional, tag = 1)] id: Option<OperationId> }
    struct FinalizeConsensus {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(message, optional, tag = 2)] verdict: Option<Vote>,
        #[prost(uint64, tag = 3)] view: u64,
        #[prost(uint32, tag = 4)] ballot: u32,
    }
    struct Confirm {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(uint64, tag = 2)] view: u64,
        #[prost(message, optional, tag = 3)] verdict: Option<Vote>,
        #[prost(bool, tag = 4)] finalized: bool,
    }
    struct JustView { #[prost(uint64, tag = 1)] view: u64 }
    struct ViewChange {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, optional, tag = 2)] last_normal_or_since: Option<u64>,
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
        #[prost(uint64, optional, tag = 2)] last_normal_or_since: Option<u64>,
        #[prost(message, optional, tag = 3)] part: Option<Part>,
        #[prost(message, optional, tag = 4)] page: Option<RecordPage>,
        #[prost(message, optional, tag = 5)] supplement: Option<Supplement>,
        #[prost(message, optional, tag = 10)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 11)] state: Option<StatePage>,
    }
    struct ViewQuery { #[prost(uint64, tag = 1)] nonce: u64, #[prost(uint64, tag = 2)] life: u64 }
    struct PartRange {
        #[prost(uint32, tag = 1)] first: u32,
        #[prost(uint32, tag = 2)] last: u32,
    }
    struct PartsMissing {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, tag = 2)] series: u64,
        #[prost(message, repeated, tag = 3)] missing: Vec<PartRange>,
    }
    struct ViewQueryReply {
        #[prost(uint64, tag = 1)] nonce: u64,
        #[prost(uint64, tag = 2)] view: u64,
        #[prost(bool, tag = 3)] lost: bool,
        #[prost(uint64, tag = 4)] life: u64,
    }
}

choices! {
    Ir, "IrChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15" = IrChoice {
        1 ProposeInconsistent(ProposeInconsistent),
        2 ProposeConsensus(ProposeConsensus),
        3 InconsistentReply(InconsistentReply),
        4 ConsensusReply(ConsensusReply),
        5 FinalizeInconsistent(FinalizeInconsistent),
        6 FinalizeConsensus(FinalizeConsensus),
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

// TAPIR.
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
    struct Recover {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, repeated, tag = 2)] participants: Vec<u32>,
        #[prost(message, optional, tag = 10)] timestamp: Option<Timestamp>,
    }
    struct CoordinatorChange {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] ballot: u32,
        #[prost(message, optional, tag = 10)] timestamp: Option<Timestamp>,
    }
    struct Ballot {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] ballot: u32,
    }
    struct RecordedVote {
        #[prost(uint32, tag = 1)] number: u32,
        #[prost(uint32, tag = 2)] transaction: u32,
        #[prost(message, optional, tag = 3)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] vote: Option<Vote>,
        #[prost(uint32, optional, tag = 5)] finalized: Option<u32>,
        #[prost(bool, tag = 6)] held: bool,
        #[prost(message, optional, tag = 7)] first: Option<Timestamp>,
    }
    struct CoordinatorChangeReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] ballot: u32,
        #[prost(uint64, tag = 3)] view: u64,
        #[prost(message, optional, tag = 4)] outcome: Option<Outcome>,
        #[prost(message, repeated, tag = 5)] transactions: Vec<Transaction>,
        #[prost(uint32, optional, tag = 6)] committed: Option<u32>,
        #[prost(message, repeated, tag = 7)] votes: Vec<RecordedVote>,
        #[prost(message, optional, tag = 8)] accepted: Option<AcceptedOutcome>,
        #[prost(bool, tag = 10)] settled: bool,
    }
    struct RecordOutcome {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] ballot: u32,
        #[prost(message, optional, tag = 3)] outcome: Option<Outcome>,
    }
    struct RecordOutcomeReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] ballot: u32,
        #[prost(uint64, tag = 3)] view: u64,
    }
    struct RecoverReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] outcome: Option<Outcome>,
    }
    struct ClockAhead {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint64, tag = 2)] ahead_micros: u64,
        #[prost(uint64, tag = 3)] ahead_max_micros: u64,
    }
    struct CommitPrepared {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(message, optional, tag = 2)] timestamp: Option<Timestamp>,
    }
    struct Cursor {
        #[prost(message, optional, tag = 1)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 2)] transaction: Option<TransactionId>,
    }
    struct Gather {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 3)] below: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] from: Option<Cursor>,
    }
    struct GatherReply {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] below: Option<Timestamp>,
        #[prost(message, optional, tag = 3)] from: Option<Cursor>,
        #[prost(message, repeated, tag = 4)] executed: Vec<Cursor>,
        #[prost(message, repeated, tag = 5)] open: Vec<Cursor>,
        #[prost(message, optional, tag = 6)] next: Option<Cursor>,
    }
    struct FetchDecisions { #[prost(message, repeated, tag = 1)] transactions: Vec<TransactionId> }
    struct DecisionsEntry {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] decision: Option<Decision>,
    }
    struct Decisions { #[prost(message, repeated, tag = 1)] decisions: Vec<DecisionsEntry> }
    struct AreDecided {
        #[prost(uint64, tag = 1)] nonce: u64,
        #[prost(message, repeated, tag = 2)] transactions: Vec<Cursor>,
    }
    struct AreDecidedReply {
        #[prost(uint64, tag = 1)] nonce: u64,
        #[prost(uint64, tag = 2)] view: u64,
        #[prost(message, repeated, tag = 3)] missing: Vec<TransactionId>,
    }
    struct Complete {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] below: Option<Timestamp>,
    }
    struct RaiseFloor { #[prost(message, optional, tag = 1)] floor: Option<Timestamp> }
    struct Forgotten { #[prost(message, optional, tag = 1)] transaction: Option<TransactionId> }
    struct FoundVersion {
        #[prost(message, optional, tag = 1)] version: Option<Timestamp>,
        #[prost(bytes = "vec", optional, tag = 2)] value: Option<Vec<u8>>,
        #[prost(message, optional, tag = 3)] absent_below: Option<Timestamp>,
    }
    struct SnapshotVersion {
        #[prost(message, optional, tag = 1)] found: Option<FoundVersion>,
        #[prost(message, optional, tag = 2)] newest: Option<Timestamp>,
        #[prost(message, optional, tag = 3)] pending: Option<Timestamp>,
    }
    struct ValidatedVersion {
        #[prost(message, optional, tag = 1)] found: Option<FoundVersion>,
        #[prost(message, optional, tag = 2)] until: Option<Timestamp>,
    }
    struct HeldReads {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(uint64, tag = 2)] view: u64,
        #[prost(message, optional, tag = 3)] vote: Option<Vote>,
        #[prost(bool, tag = 4)] finalized: bool,
        #[prost(message, repeated, tag = 5)] found: Vec<FoundVersion>,
    }
    struct QuorumRead {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] round: u32,
        #[prost(message, optional, tag = 3)] timestamp: Option<Timestamp>,
        #[prost(bytes = "vec", repeated, tag = 4)] keys: Vec<Vec<u8>>,
        #[prost(bool, tag = 5)] in_turn: bool,
    }
    struct QuorumReadReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] round: u32,
        #[prost(uint64, tag = 3)] view: u64,
        #[prost(message, repeated, tag = 4)] found: Vec<SnapshotVersion>,
    }
    struct FoundKey {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(message, optional, tag = 2)] version: Option<SnapshotVersion>,
    }
    struct FoundPage {
        #[prost(message, repeated, tag = 1)] keys: Vec<FoundKey>,
        #[prost(bytes = "vec", optional, tag = 2)] next: Option<Vec<u8>>,
        #[prost(message, optional, tag = 3)] absent_below: Option<Timestamp>,
    }
    struct QuorumScan {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] round: u32,
        #[prost(message, optional, tag = 3)] timestamp: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] range: Option<KeyRange>,
        #[prost(uint32, tag = 5)] limit: u32,
    }
    struct QuorumScanReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] round: u32,
        #[prost(uint64, tag = 3)] view: u64,
        #[prost(message, optional, tag = 4)] page: Option<FoundPage>,
    }
    struct SnapshotTooOld {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] oldest: Option<Timestamp>,
    }
    struct ReadValidated {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(bytes = "vec", repeated, tag = 2)] keys: Vec<Vec<u8>>,
    }
    struct ReadValidatedReply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, repeated, tag = 2)] found: Vec<ValidatedVersion>,
    }
    struct Validated {
        #[prost(message, optional, tag = 1)] timestamp: Option<Timestamp>,
        #[prost(message, repeated, tag = 2)] reads: Vec<ReadVersion>,
    }
    struct ClockProbe {
        #[prost(uint64, tag = 1)] sent: u64,
        #[prost(bool, tag = 2)] deadlines: bool,
    }
    struct ClockProbeReply {
        #[prost(uint64, tag = 1)] sent: u64,
        #[prost(uint64, tag = 2)] arrived: u64,
    }
}

choices! {
    Tapir, "TapirChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 45, 46, 47, 48, 60"
        = TapirChoice {
        1 Read(Read),
        2 ReadReply(ReadReply),
        3 Scan(Scan),
        4 ScanReply(ScanReply),
        5 Ir(Ir),
        6 Recover(Recover),
        7 CoordinatorChange(CoordinatorChange),
        8 CoordinatorChangeReply(CoordinatorChangeReply),
        9 RecordOutcome(RecordOutcome),
        10 RecordOutcomeReply(RecordOutcomeReply),
        11 Superseded(Ballot),
        12 RecoverReply(RecoverReply),
        13 ClockAhead(ClockAhead),
        14 CommitPrepared(CommitPrepared),
        20 Gather(Gather),
        21 GatherReply(GatherReply),
        22 FetchDecisions(FetchDecisions),
        23 Decisions(Decisions),
        24 AreDecided(AreDecided),
        25 AreDecidedReply(AreDecidedReply),
        26 Complete(Complete),
        27 CompleteReply(Complete),
        28 RaiseFloor(RaiseFloor),
        29 Forgotten(Forgotten),
        30 HeldReads(HeldReads),
        31 QuorumRead(QuorumRead),
        32 QuorumReadReply(QuorumReadReply),
        33 SnapshotTooOld(SnapshotTooOld),
        34 ReadValidated(ReadValidated),
        35 ReadValidatedReply(ReadValidatedReply),
        36 Validated(Validated),
        37 QuorumScan(QuorumScan),
        38 QuorumScanReply(QuorumScanReply),
        45 ClockProbe(ClockProbe),
        46 ClockProbeReply(ClockProbeReply),
        47 ReadInTurn(Read),
        48 ReadWaits(Read),
        60 Outdated(Empty),
    }
}

// Records.
messages! {
    struct Voted {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(message, optional, tag = 2)] prepare: Option<Prepare>,
        #[prost(message, optional, tag = 3)] vote: Option<Vote>,
    }
    struct VoteFinalized {
        #[prost(message, optional, tag = 1)] id: Option<OperationId>,
        #[prost(message, optional, tag = 2)] vote: Option<Vote>,
        #[prost(uint32, tag = 3)] ballot: u32,
    }
    struct Decided {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] decision: Option<Decision>,
        #[prost(bool, tag = 3)] executed: bool,
    }
    struct DecisionExecuted { #[prost(message, optional, tag = 1)] transaction: Option<TransactionId> }
    struct ViewPage {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] page: Option<RecordPage>,
    }
    struct ViewInstalled {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, optional, tag = 2)] since: Option<u64>,
        #[prost(message, optional, tag = 3)] supplement: Option<Supplement>,
        #[prost(message, optional, tag = 10)] floor: Option<Timestamp>,
    }
    struct Below { #[prost(message, optional, tag = 1)] below: Option<Timestamp> }
    struct SnapshotBegun {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(uint64, repeated, tag = 2)] lineage: Vec<u64>,
        #[prost(message, optional, tag = 3)] floor: Option<Timestamp>,
        #[prost(message, optional, tag = 4)] complete: Option<Timestamp>,
        #[prost(btree_map = "uint32, uint64", tag = 5)] lives: BTreeMap<u32, u64>,
    }
    struct LifeNoted { #[prost(uint32, tag = 1)] replica: u32, #[prost(uint64, tag = 2)] life: u64 }
    struct SnapshotBinds {
        #[prost(message, optional, tag = 1)] read_floor: Option<Timestamp>,
        #[prost(message, optional, tag = 2)] supplement: Option<Supplement>,
    }
    struct SnapshotPage { #[prost(message, optional, tag = 1)] state: Option<StatePage> }
    struct ViewState {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] state: Option<StatePage>,
    }
    struct Tenure {
        #[prost(uint32, tag = 1)] since: u32,
        #[prost(uint32, repeated, tag = 2)] members: Vec<u32>,
    }
    struct ChangedGroup {
        #[prost(uint32, tag = 1)] shard: u32,
        #[prost(message, optional, tag = 2)] previous: Option<Tenure>,
        #[prost(message, optional, tag = 3)] present: Option<Tenure>,
    }
    struct Groups {
        #[prost(uint32, tag = 1)] epoch: u32,
        #[prost(uint32, tag = 2)] size: u32,
        #[prost(message, repeated, tag = 3)] changed: Vec<ChangedGroup>,
    }
    struct EpochEntered { #[prost(message, optional, tag = 1)] groups: Option<Groups> }
    struct ReadsPromised { #[prost(message, optional, tag = 1)] until: Option<Timestamp> }
}

choices! {
    Record, "RecordChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 30" = RecordChoice {
        1 Initialised(Empty),
        2 ViewEntered(JustView),
        3 Voted(Voted),
        4 VoteFinalized(VoteFinalized),
        5 Decided(Decided),
        6 DecisionExecuted(DecisionExecuted),
        7 Promised(SupplementEntry),
        8 ViewPage(ViewPage),
        9 ViewInstalled(ViewInstalled),
        10 Refusing(Below),
        11 Completed(Below),
        12 FloorRaised(RaiseFloor),
        13 ViewState(ViewState),
        14 SnapshotBegun(SnapshotBegun),
        15 SnapshotBinds(SnapshotBinds),
        16 SnapshotPage(SnapshotPage),
        17 SnapshotEnded(RaiseFloor),
        18 LifeNoted(LifeNoted),
        19 EpochEntered(EpochEntered),
        30 ReadsPromised(ReadsPromised),
    }
}

// Packets.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Address {
    #[prost(oneof = "AddressChoice", tags = "1, 2")]
    pub(crate) choice: Option<AddressChoice>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AddressChoice {
    #[prost(message, tag = 1)]
    Replica(ReplicaId),
    #[prost(fixed64, tag = 2)]
    Client(u64),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Peer {
    #[prost(oneof = "PeerChoice", tags = "1, 2")]
    pub(crate) choice: Option<PeerChoice>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum PeerChoice {
    #[prost(uint32, tag = 1)]
    Node(u32),
    #[prost(fixed64, tag = 2)]
    Client(u64),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Point {
    #[prost(oneof = "PointChoice", tags = "1, 2")]
    pub(crate) choice: Option<PointChoice>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum PointChoice {
    #[prost(uint64, tag = 1)]
    Position(u64),
    #[prost(message, tag = 2)]
    Below(Timestamp),
}

messages! {
    struct Envelope {
        #[prost(message, optional, tag = 1)] from: Option<Address>,
        #[prost(message, optional, tag = 2)] to: Option<Address>,
        #[prost(message, optional, tag = 3)] message: Option<ProtocolMessage>,
        #[prost(uint32, tag = 4)] epoch: u32,
    }
    struct Hello {
        #[prost(fixed64, tag = 1)] cluster: u64,
        #[prost(message, optional, tag = 2)] peer: Option<Peer>,
        #[prost(string, tag = 3)] site: String,
    }
    struct Welcome {
        #[prost(fixed64, tag = 1)] cluster: u64,
        #[prost(uint32, tag = 2)] node: u32,
        #[prost(string, tag = 3)] site: String,
        #[prost(string, tag = 4)] version: String,
    }
    struct Busy { #[prost(uint64, tag = 1)] retry_after_micros: u64 }
    struct Status { #[prost(bytes = "vec", tag = 1)] json: Vec<u8> }
    struct Goodbye { #[prost(string, tag = 1)] reason: String }
    struct ReplicaService {
        #[prost(message, optional, tag = 1)] replica: Option<ReplicaId>,
        #[prost(string, optional, tag = 2)] problem: Option<String>,
    }
    struct AcceptLoss {
        #[prost(message, optional, tag = 1)] replica: Option<ReplicaId>,
        #[prost(uint64, tag = 2)] view: u64,
    }
    struct Space { #[prost(string, optional, tag = 1)] problem: Option<String> }
    struct Unsupported { #[prost(string, tag = 1)] message: String }
    struct Join { #[prost(string, tag = 1)] site: String, #[prost(string, tag = 2)] address: String }
    struct JoinReply {
        #[prost(uint32, optional, tag = 1)] node: Option<u32>,
        #[prost(bool, tag = 2)] is_known: bool,
        #[prost(string, optional, tag = 3)] refused: Option<String>,
    }
    struct DeclareLost {
        #[prost(message, optional, tag = 1)] replica: Option<ReplicaId>,
        #[prost(uint32, tag = 2)] shard: u32,
    }
    struct DeclareLostReply {
        #[prost(message, optional, tag = 1)] replica: Option<ReplicaId>,
        #[prost(string, optional, tag = 2)] refused: Option<String>,
    }
    struct AcceptLossReply {
        #[prost(message, optional, tag = 1)] replica: Option<ReplicaId>,
        #[prost(string, optional, tag = 2)] refused: Option<String>,
    }
    struct Node {
        #[prost(uint32, tag = 1)] id: u32,
        #[prost(uint32, tag = 2)] site: u32,
        #[prost(string, tag = 3)] address: String,
    }
    struct Topology {
        #[prost(string, repeated, tag = 1)] sites: Vec<String>,
        #[prost(message, repeated, tag = 2)] nodes: Vec<Node>,
    }
    struct Shard {
        #[prost(uint32, tag = 1)] id: u32,
        #[prost(uint32, repeated, tag = 2)] replicas: Vec<u32>,
        #[prost(message, optional, tag = 3)] change: Option<Change>,
    }
    struct Change {
        #[prost(message, optional, tag = 1)] previous: Option<Tenure>,
        #[prost(uint32, repeated, tag = 2)] nodes: Vec<u32>,
        #[prost(message, optional, tag = 3)] present: Option<Tenure>,
        #[prost(uint32, tag = 4)] next: u32,
    }
    struct ReplicaReport {
        #[prost(message, optional, tag = 1)] replica: Option<ReplicaId>,
        #[prost(uint32, tag = 2)] epoch: u32,
        #[prost(uint32, optional, tag = 3)] arrived: Option<u32>,
        #[prost(bool, tag = 4)] has_records: bool,
    }
    struct Replicas {
        #[prost(message, repeated, tag = 1)] replicas: Vec<ReplicaReport>,
        #[prost(uint64, optional, tag = 2)] room: Option<u64>,
    }
    struct Setting {
        #[prost(string, tag = 1)] name: String,
        #[prost(uint64, tag = 2)] value: u64,
    }
    struct Settings { #[prost(message, repeated, tag = 1)] settings: Vec<Setting> }
    struct Life {
        #[prost(fixed64, tag = 1)] incarnation: u64,
        #[prost(bool, tag = 2)] replaces: bool,
        #[prost(uint64, tag = 3)] number: u64,
        #[prost(fixed64, repeated, packed = "false", tag = 4)] tags: Vec<u64>,
    }
    struct Remembered {
        #[prost(fixed64, tag = 1)] incarnation: u64,
        #[prost(uint64, tag = 2)] number: u64,
        #[prost(fixed64, tag = 3)] tag: u64,
        #[prost(fixed64, repeated, packed = "false", tag = 4)] former: Vec<u64>,
    }
    struct KnownLife {
        #[prost(uint32, tag = 1)] node: u32,
        #[prost(message, optional, tag = 2)] remembered: Option<Remembered>,
    }
    struct Lives {
        #[prost(message, optional, tag = 1)] own: Option<Life>,
        #[prost(message, repeated, tag = 2)] known: Vec<KnownLife>,
    }
    struct Keyspace {
        #[prost(uint32, tag = 1)] id: u32,
        #[prost(string, tag = 2)] name: String,
        #[prost(uint32, tag = 3)] isolation: u32,
        #[prost(uint32, tag = 4)] durability: u32,
        #[prost(message, repeated, tag = 5)] shards: Vec<Shard>,
        #[prost(uint32, tag = 6)] epoch: u32,
        #[prost(uint64, optional, tag = 7)] clock_bound: Option<u64>,
        #[prost(message, optional, tag = 8)] comparison: Option<Comparison>,
    }
    struct Comparison {
        #[prost(uint32, tag = 1)] system: u32,
        #[prost(message, optional, tag = 2)] timestamps: Option<Shard>,
    }
    struct Deployment {
        #[prost(uint32, tag = 1)] stage: u32,
        #[prost(uint64, tag = 2)] bytes: u64,
        #[prost(uint32, tag = 3)] crc32: u32,
        #[prost(uint64, tag = 4)] deployed_at: u64,
    }
    struct Dropped {
        #[prost(uint32, tag = 1)] id: u32,
        #[prost(string, tag = 2)] name: String,
        #[prost(uint32, tag = 3)] stage: u32,
        #[prost(uint64, tag = 4)] dropped_at: u64,
        #[prost(uint64, tag = 5)] delete_after: u64,
        #[prost(uint64, tag = 6)] waited: u64,
        #[prost(message, optional, tag = 7)] definition: Option<Keyspace>,
        #[prost(string, repeated, tag = 8)] former_names: Vec<String>,
        #[prost(bytes, repeated, tag = 9)] procedures: Vec<Vec<u8>>,
    }
    struct Directory {
        #[prost(message, optional, tag = 1)] topology: Option<Topology>,
        #[prost(message, optional, tag = 2)] system: Option<Keyspace>,
    }
    struct Verify {
        #[prost(message, optional, tag = 1)] replica: Option<ReplicaId>,
        #[prost(message, optional, tag = 2)] request: Option<VerifyRequest>,
    }
    struct VerifyReply {
        #[prost(message, optional, tag = 1)] replica: Option<ReplicaId>,
        #[prost(message, optional, tag = 2)] request: Option<VerifyRequest>,
        #[prost(message, optional, tag = 3)] answer: Option<VerifyAnswer>,
    }
    struct VerifyRequest {
        #[prost(fixed64, tag = 1)] operator: u64,
        #[prost(message, optional, tag = 2)] point: Option<Point>,
        #[prost(bytes = "vec", tag = 3)] path: Vec<u8>,
    }
    struct VerifyAnswer {
        #[prost(message, optional, tag = 1)] at: Option<Point>,
        #[prost(message, optional, tag = 2)] progress: Option<Progress>,
    }
    struct Walking { #[prost(uint64, tag = 1)] items: u64 }
    struct Done { #[prost(message, optional, tag = 1)] digest: Option<Digest> }
    struct Unable { #[prost(string, tag = 1)] reason: String }
    struct Checksum { #[prost(fixed64, tag = 1)] low: u64, #[prost(fixed64, tag = 2)] high: u64 }
    struct Digest {
        #[prost(bytes = "vec", tag = 1)] path: Vec<u8>,
        #[prost(message, repeated, tag = 2)] buckets: Vec<Checksum>,
        #[prost(uint64, tag = 3)] items: u64,
        #[prost(uint64, tag = 4)] bytes: u64,
        #[prost(message, repeated, tag = 5)] listed: Vec<Listed>,
    }
    struct Listed {
        #[prost(uint32, tag = 1)] space: u32,
        #[prost(bytes = "vec", tag = 2)] key: Vec<u8>,
        #[prost(uint64, repeated, tag = 3)] stamps: Vec<u64>,
        #[prost(bool, tag = 4)] is_live: bool,
        #[prost(message, optional, tag = 5)] checksum: Option<Checksum>,
    }
    struct Payload { #[prost(message, repeated, tag = 1)] packets: Vec<Packet> }
}

choices! {
    ProtocolMessage, "ProtocolChoice", "1, 2, 3, 4, 5" = ProtocolChoice {
        1 Tapir(Tapir),
        2 Baseline(baselines::Member),
        3 Configuration(configuration::Member),
        4 QwStore(qwstore::QwStore),
        5 Granola(granola::Member),
    }
    Progress, "ProgressChoice", "1, 2, 3, 4, 5, 6, 7" = ProgressChoice {
        1 Idle(Empty),
        2 Waiting(Empty),
        3 Walking(Walking),
        4 Done(Done),
        5 Passed(Empty),
        6 Busy(Empty),
        7 Unable(Unable),
    }
    Packet, "PacketChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25" = PacketChoice {
        1 Envelope(Envelope),
        2 Hello(Hello),
        3 Welcome(Welcome),
        4 Busy(Busy),
        5 CatalogueChanged(Empty),
        6 DirectoryRequest(Empty),
        7 Directory(Directory),
        8 StatusRequest(Empty),
        9 Status(Status),
        10 Goodbye(Goodbye),
        11 ReplicaService(ReplicaService),
        12 AcceptLoss(AcceptLoss),
        13 AcceptLossReply(AcceptLossReply),
        14 Unsupported(Unsupported),
        15 Join(Join),
        16 JoinReply(JoinReply),
        17 ReplicasRequest(Empty),
        18 Replicas(Replicas),
        19 Settings(Settings),
        20 DeclareLost(DeclareLost),
        21 DeclareLostReply(DeclareLostReply),
        22 Lives(Lives),
        24 Verify(Verify),
        25 VerifyReply(VerifyReply),
        23 Space(Space),
    }
}
