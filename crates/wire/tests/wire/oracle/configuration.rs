//! The configuration service. Of what every machine on a log says only what holds entries and pages.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

use super::baselines::Membership;
use super::{Empty, KeyRange, TransactionId};

messages! {
    struct LeaseId { #[prost(fixed64, tag = 1)] client: u64, #[prost(uint64, tag = 2)] number: u64 }
    struct Stored {
        #[prost(bytes = "vec", tag = 1)] value: Vec<u8>,
        #[prost(uint64, tag = 2)] created: u64,
        #[prost(uint64, tag = 3)] changed: u64,
        #[prost(message, optional, tag = 4)] lease: Option<LeaseId>,
    }
    struct KeyState {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(message, optional, tag = 2)] stored: Option<Stored>,
    }
    struct Change {
        #[prost(uint64, tag = 1)] revision: u64,
        #[prost(message, repeated, tag = 2)] keys: Vec<KeyState>,
    }
    struct CompareKey {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(uint64, optional, tag = 2)] changed: Option<u64>,
    }
    struct CompareRange {
        #[prost(message, optional, tag = 1)] range: Option<KeyRange>,
        #[prost(uint64, tag = 2)] after: u64,
        #[prost(uint64, tag = 3)] keys: u64,
    }
    struct Put {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(bytes = "vec", optional, tag = 2)] value: Option<Vec<u8>>,
        #[prost(message, optional, tag = 3)] lease: Option<LeaseId>,
    }
    struct ConditionalWrite {
        #[prost(message, repeated, tag = 1)] compares: Vec<Compare>,
        #[prost(message, repeated, tag = 2)] puts: Vec<Put>,
    }
    struct Written { #[prost(uint64, tag = 1)] revision: u64 }
    struct NotHeld { #[prost(uint64, tag = 1)] revision: u64, #[prost(uint32, tag = 2)] compare: u32 }
    struct JustLease { #[prost(message, optional, tag = 1)] lease: Option<LeaseId> }
}

choices! {
    Compare, "CompareChoice", "1, 2" = CompareChoice { 1 Key(CompareKey), 2 Range(CompareRange) }
    WriteResult, "WriteResultChoice", "1, 2, 3, 4, 5" = WriteResultChoice {
        1 Written(Written),
        2 NotHeld(NotHeld),
        3 NoSuchLease(JustLease),
        4 Full(Empty),
        5 Settled(Empty),
    }
}

// What stands in the log, and the pages of the state.
messages! {
    struct WriteEntry {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint64, tag = 2)] since: u64,
        #[prost(message, optional, tag = 3)] write: Option<ConditionalWrite>,
    }
    struct SettleEntry {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint64, tag = 2)] since: u64,
    }
    struct Lease {
        #[prost(message, optional, tag = 1)] lease: Option<LeaseId>,
        #[prost(uint64, tag = 2)] duration: u64,
    }
    struct Entry {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] payload: Option<Item>,
    }
    struct Entries { #[prost(message, repeated, tag = 1)] entries: Vec<Entry> }
    struct Revisions { #[prost(uint64, tag = 1)] revision: u64, #[prost(uint64, tag = 2)] forgotten: u64 }
    struct FoundKey {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(message, optional, tag = 2)] stored: Option<Stored>,
    }
    struct KeysPage { #[prost(message, repeated, tag = 1)] keys: Vec<FoundKey> }
    struct ChangesPage { #[prost(message, repeated, tag = 1)] changes: Vec<Change> }
    struct LeasesPage { #[prost(message, repeated, tag = 1)] leases: Vec<Lease> }
    struct Done {
        #[prost(uint32, tag = 1)] attempt: u32,
        #[prost(message, optional, tag = 2)] result: Option<WriteResult>,
    }
    struct Client {
        #[prost(fixed64, tag = 1)] client: u64,
        #[prost(uint64, tag = 2)] used: u64,
        #[prost(uint64, tag = 3)] since: u64,
        #[prost(btree_map = "uint64, message", tag = 4)] results: BTreeMap<u64, Done>,
        #[prost(uint64, tag = 5)] last: u64,
    }
    struct ClientsPage {
        #[prost(uint64, tag = 1)] forgotten_until: u64,
        #[prost(message, repeated, tag = 2)] clients: Vec<Client>,
    }
}

choices! {
    Item, "ItemChoice", "1, 2" = ItemChoice { 1 Own(OwnEntry), 2 NextGroup(Membership) }
    OwnEntry, "OwnEntryChoice", "1, 2, 3, 4" = OwnEntryChoice {
        1 Write(WriteEntry),
        2 Settle(SettleEntry),
        3 Grant(Lease),
        4 End(JustLease),
    }
    Page, "PageChoice", "1, 2, 3, 4, 5" = PageChoice {
        1 Revisions(Revisions),
        2 Keys(KeysPage),
        3 Changes(ChangesPage),
        4 Leases(LeasesPage),
        5 Clients(ClientsPage),
    }
}

// What clients and replicas say.
messages! {
    struct Get {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(bytes = "vec", repeated, tag = 2)] keys: Vec<Vec<u8>>,
        #[prost(uint32, tag = 3)] consistency: u32,
    }
    struct GetReply {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(uint64, tag = 2)] revision: u64,
        #[prost(uint64, tag = 3)] position: u64,
        #[prost(message, repeated, tag = 4)] found: Vec<KeyState>,
    }
    struct Scan {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(message, optional, tag = 2)] range: Option<KeyRange>,
        #[prost(uint32, tag = 3)] limit: u32,
        #[prost(uint32, tag = 4)] consistency: u32,
    }
    struct ScanReply {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(uint64, tag = 2)] revision: u64,
        #[prost(uint64, tag = 3)] position: u64,
        #[prost(message, repeated, tag = 4)] found: Vec<FoundKey>,
        #[prost(bytes = "vec", optional, tag = 5)] next: Option<Vec<u8>>,
    }
    struct Check {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(message, repeated, tag = 2)] compares: Vec<Compare>,
    }
    struct CheckReply {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(uint64, tag = 2)] revision: u64,
        #[prost(uint64, tag = 3)] position: u64,
        #[prost(bool, tag = 4)] holds: bool,
    }
    struct Write {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(message, optional, tag = 2)] transaction: Option<TransactionId>,
        #[prost(uint64, tag = 3)] since: u64,
        #[prost(message, optional, tag = 4)] write: Option<ConditionalWrite>,
    }
    struct Settle {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(message, optional, tag = 2)] transaction: Option<TransactionId>,
        #[prost(uint64, tag = 3)] since: u64,
    }
    struct WriteReply {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(uint64, tag = 2)] position: u64,
        #[prost(message, optional, tag = 3)] result: Option<WriteResult>,
    }
    struct Grant {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(message, optional, tag = 2)] lease: Option<LeaseId>,
        #[prost(uint64, tag = 3)] duration: u64,
    }
    struct AboutLease {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(message, optional, tag = 2)] lease: Option<LeaseId>,
    }
    struct Watch {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(message, optional, tag = 2)] range: Option<KeyRange>,
        #[prost(uint64, tag = 3)] after: u64,
    }
    struct Unwatch { #[prost(uint64, tag = 1)] request: u64 }
    struct Changes {
        #[prost(uint64, tag = 1)] request: u64,
        #[prost(uint64, tag = 2)] after: u64,
        #[prost(uint64, tag = 3)] until: u64,
        #[prost(message, repeated, tag = 4)] changes: Vec<Change>,
        #[prost(bool, tag = 5)] has_more: bool,
    }
    struct Forgotten { #[prost(uint64, tag = 1)] request: u64, #[prost(uint64, tag = 2)] forgotten: u64 }
    struct NotLeading { #[prost(uint64, tag = 1)] request: u64, #[prost(uint32, tag = 2)] leader: u32 }
    struct Refused { #[prost(uint64, tag = 1)] request: u64, #[prost(uint32, tag = 2)] refusal: u32 }
    struct Fetched {
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
}

choices! {
    Own, "OwnChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20" = OwnChoice {
        1 Get(Get),
        2 GetReply(GetReply),
        3 Scan(Scan),
        4 ScanReply(ScanReply),
        5 Check(Check),
        6 CheckReply(CheckReply),
        7 Write(Write),
        8 Settle(Settle),
        9 WriteReply(WriteReply),
        10 Grant(Grant),
        11 Renew(AboutLease),
        12 Renewed(AboutLease),
        13 Release(AboutLease),
        14 NoSuchLease(AboutLease),
        15 Watch(Watch),
        16 Unwatch(Unwatch),
        17 Changes(Changes),
        18 Forgotten(Forgotten),
        19 NotLeading(NotLeading),
        20 Refused(Refused),
    }
    Log, "LogChoice", "7, 8" = LogChoice { 7 Fetched(Fetched), 8 FromState(FromState) }
    Member, "MemberChoice", "1, 2" = MemberChoice { 1 Log(Log), 2 Own(Own) }
    Fact, "FactChoice", "1, 9" = FactChoice { 1 Appended(Entries), 9 SnapshotPage(Page) }
}
