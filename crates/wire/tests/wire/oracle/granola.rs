//! Granola. Of what every machine on a log says only what holds entries and pages.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

use super::baselines::Membership;
use super::{Empty, TransactionId};

messages! {
    struct Refusal {
        #[prost(uint32, tag = 1)] shard: u32,
        #[prost(bytes = "vec", tag = 2)] reason: Vec<u8>,
    }
    struct Committed {
        #[prost(fixed64, tag = 1)] timestamp: u64,
        #[prost(message, optional, tag = 2)] answer: Option<Answer>,
    }
    struct Clock { #[prost(fixed64, tag = 1)] clock: u64 }
    struct JustShard { #[prost(uint32, tag = 1)] shard: u32 }
    struct Answer {
        #[prost(oneof = "AnswerChoice", tags = "1, 2")] choice: Option<AnswerChoice>,
    }
    struct Vote { #[prost(oneof = "VoteChoice", tags = "1, 2, 3")] choice: Option<VoteChoice> }
    struct Ending { #[prost(oneof = "EndingChoice", tags = "1, 2, 3")] choice: Option<EndingChoice> }
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AnswerChoice {
    #[prost(bytes, tag = 1)]
    Done(Vec<u8>),
    #[prost(bytes, tag = 2)]
    Refused(Vec<u8>),
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum VoteChoice {
    #[prost(message, tag = 1)]
    Commit(Empty),
    #[prost(bytes, tag = 2)]
    Abort(Vec<u8>),
    #[prost(message, tag = 3)]
    Conflict(Empty),
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum EndingChoice {
    #[prost(fixed64, tag = 1)]
    Commit(u64),
    #[prost(message, tag = 2)]
    Abort(Refusal),
    #[prost(message, tag = 3)]
    Conflict(Empty),
}

choices! {
    Outcome, "OutcomeChoice", "1, 2, 3" = OutcomeChoice {
        1 Committed(Committed),
        2 Aborted(Refusal),
        3 Conflict(Empty),
    }
    ReplyResult, "ReplyChoice", "1, 2, 3, 4, 5" = ReplyChoice {
        1 Ended(Outcome),
        2 Forgotten(Clock),
        3 TooOld(Clock),
        4 Lost(JustShard),
        5 ClockAhead(Clock),
    }
}

// What stands in the log, and the pages of the state.
messages! {
    struct Voted {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] class: u32,
        #[prost(uint32, repeated, tag = 3)] participants: Vec<u32>,
        #[prost(bytes = "vec", optional, tag = 4)] operation: Option<Vec<u8>>,
        #[prost(message, optional, tag = 5)] vote: Option<Vote>,
        #[prost(fixed64, tag = 6)] proposed: u64,
        #[prost(fixed64, tag = 7)] first: u64,
    }
    struct Floor { #[prost(fixed64, tag = 1)] floor: u64, #[prost(fixed64, tag = 2)] forgotten: u64 }
    struct Body { #[prost(oneof = "BodyChoice", tags = "1, 2, 3, 4")] choice: Option<BodyChoice> }
    struct Final {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] ending: Option<Ending>,
    }
    struct OwnEntry {
        #[prost(fixed64, tag = 1)] ceiling: u64,
        #[prost(message, repeated, tag = 2)] finals: Vec<Final>,
        #[prost(message, optional, tag = 3)] body: Option<Body>,
    }
    struct Entry {
        #[prost(uint64, tag = 1)] view: u64,
        #[prost(message, optional, tag = 2)] payload: Option<Item>,
    }
    struct Entries { #[prost(message, repeated, tag = 1)] entries: Vec<Entry> }
    struct Place {
        #[prost(fixed64, tag = 1)] timestamp: u64,
        #[prost(message, optional, tag = 2)] transaction: Option<TransactionId>,
    }
    struct Version {
        #[prost(message, optional, tag = 1)] place: Option<Place>,
        #[prost(bytes = "vec", tag = 2)] value: Vec<u8>,
    }
    struct KeyVersion {
        #[prost(bytes = "vec", tag = 1)] key: Vec<u8>,
        #[prost(message, optional, tag = 2)] version: Option<Version>,
    }
    struct Keys { #[prost(message, repeated, tag = 1)] keys: Vec<KeyVersion> }
    struct Pending {
        #[prost(message, optional, tag = 1)] voted: Option<Voted>,
        #[prost(message, optional, tag = 2)] place: Option<Place>,
        #[prost(bool, tag = 3)] is_final: bool,
    }
    struct PendingPage { #[prost(message, repeated, tag = 1)] pending: Vec<Pending> }
    struct Ended {
        #[prost(message, optional, tag = 1)] outcome: Option<Outcome>,
        #[prost(uint32, repeated, tag = 2)] participants: Vec<u32>,
        #[prost(fixed64, tag = 3)] first: u64,
    }
    struct TransactionEnded {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] ended: Option<Ended>,
    }
    struct EndedPage { #[prost(message, repeated, tag = 1)] ended: Vec<TransactionEnded> }
    struct Bounds {
        #[prost(fixed64, tag = 1)] ceiling: u64,
        #[prost(fixed64, tag = 2)] floor: u64,
        #[prost(fixed64, tag = 3)] forgotten: u64,
        #[prost(uint32, repeated, tag = 4)] lost: Vec<u32>,
    }
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum BodyChoice {
    #[prost(message, tag = 1)]
    Voted(Voted),
    #[prost(message, tag = 2)]
    Floor(Floor),
    #[prost(uint32, tag = 3)]
    Lost(u32),
    #[prost(message, tag = 4)]
    Nothing(Empty),
}

choices! {
    Item, "ItemChoice", "1, 2" = ItemChoice { 1 Own(OwnEntry), 2 NextGroup(Membership) }
    ApplicationPage, "ApplicationChoice", "1, 2" = ApplicationChoice { 1 Keys(Keys), 2 Procedures(Keys) }
    Page, "PageChoice", "1, 2, 3, 4" = PageChoice {
        1 Application(ApplicationPage),
        2 Pending(PendingPage),
        3 Ended(EndedPage),
        4 Bounds(Bounds),
    }
}

// What clients and participants say.
messages! {
    struct Request {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, repeated, tag = 2)] participants: Vec<u32>,
        #[prost(bytes = "vec", tag = 3)] operation: Vec<u8>,
        #[prost(uint32, tag = 4)] class: u32,
        #[prost(fixed64, tag = 5)] high: u64,
        #[prost(fixed64, tag = 6)] first: u64,
    }
    struct Reply {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] reply: Option<ReplyResult>,
    }
    struct VoteMessage {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, repeated, tag = 2)] participants: Vec<u32>,
        #[prost(fixed64, tag = 3)] first: u64,
        #[prost(message, optional, tag = 4)] vote: Option<Vote>,
        #[prost(fixed64, tag = 5)] proposed: u64,
        #[prost(uint32, tag = 6)] class: u32,
        #[prost(bool, tag = 7)] wants: bool,
    }
    struct Resolved {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] ending: Option<Ending>,
    }
    struct Abandoned {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] lost: u32,
    }
    struct NotLeading {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, tag = 2)] leader: u32,
    }
    struct AskFloorReply { #[prost(fixed64, tag = 1)] floor: u64, #[prost(fixed64, tag = 2)] ceiling: u64 }
    struct Inquire {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(uint32, repeated, tag = 2)] participants: Vec<u32>,
        #[prost(fixed64, tag = 3)] not_before: u64,
    }
    struct Begin {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(btree_map = "uint32, bytes", tag = 2)] parts: BTreeMap<u32, Vec<u8>>,
        #[prost(fixed64, tag = 3)] high: u64,
        #[prost(fixed64, tag = 4)] first: u64,
    }
    struct Prepared {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(message, optional, tag = 2)] vote: Option<Vote>,
        #[prost(fixed64, tag = 3)] proposed: u64,
        #[prost(message, optional, tag = 4)] answer: Option<Answer>,
    }
    struct Gathered {
        #[prost(message, optional, tag = 1)] transaction: Option<TransactionId>,
        #[prost(fixed64, tag = 2)] timestamp: u64,
        #[prost(btree_map = "uint32, message", tag = 3)] answers: BTreeMap<u32, Answer>,
    }
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
    Own, "OwnChoice", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12" = OwnChoice {
        1 Request(Request),
        2 Reply(Reply),
        3 Vote(VoteMessage),
        4 Resolved(Resolved),
        5 Abandoned(Abandoned),
        6 NotLeading(NotLeading),
        7 AskFloor(Empty),
        8 AskFloorReply(AskFloorReply),
        9 Inquire(Inquire),
        10 Begin(Begin),
        11 Prepared(Prepared),
        12 Gathered(Gathered),
    }
    Log, "LogChoice", "7, 8" = LogChoice { 7 Fetched(Fetched), 8 FromState(FromState) }
    Member, "MemberChoice", "1, 2" = MemberChoice { 1 Log(Log), 2 Own(Own) }
    Fact, "FactChoice", "1, 9" = FactChoice { 1 Appended(Entries), 9 SnapshotPage(Page) }
}
