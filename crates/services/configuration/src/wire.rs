//! The field numbers of the configuration service.

use std::sync::Arc;
use std::time::Duration;

use quorate_codec::field::{
    BoundBytes, Fixed64, KeyBytes, Map, Nested, Optional, Repeated, ValueBytes, Varint,
};
use quorate_codec::scalar::Scalar;
use quorate_codec::schema::Number;
use quorate_codec::{alternatives, choices, foreign, list, message, pair};
use quorate_core::Key;
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_store::client_table::{Remembered, TablePage};

use crate::{
    Change, Compare, ConditionalWrite, Consistency, Done, Entry, KeyState, LeaseId, Message, Page, Put,
    Refusal, Revision, Stored, WriteResult,
};

alternatives!(Message, "configuration.Message", messages {
    1 Get { 1 request: Varint, 2 keys: Repeated<KeyBytes>, 3 consistency: Varint }
    2 GetReply { 1 request: Varint, 2 revision: Varint, 3 position: Varint, 4 found: Repeated<Nested> }
    3 Scan { 1 request: Varint, 2 range: Nested, 3 limit: Varint, 4 consistency: Varint }
    4 ScanReply {
        1 request: Varint,
        2 revision: Varint,
        3 position: Varint,
        4 found: Repeated<FoundKey>,
        5 next: Optional<BoundBytes>,
    }
    5 Check { 1 request: Varint, 2 compares: Repeated<Nested, TRANSACTION_ENTRIES_MAX> }
    6 CheckReply { 1 request: Varint, 2 revision: Varint, 3 position: Varint, 4 holds: Varint }
    7 Write { 1 request: Varint, 2 transaction: Nested, 3 since: Varint, 4 write: Nested }
    8 Settle { 1 request: Varint, 2 transaction: Nested, 3 since: Varint }
    9 WriteReply { 1 request: Varint, 2 position: Varint, 3 result: Nested }
    10 Grant { 1 request: Varint, 2 lease: Nested, 3 duration: Varint }
    11 Renew { 1 request: Varint, 2 lease: Nested }
    12 Renewed { 1 request: Varint, 2 lease: Nested }
    13 Release { 1 request: Varint, 2 lease: Nested }
    14 NoSuchLease { 1 request: Varint, 2 lease: Nested }
    15 Watch { 1 request: Varint, 2 range: Nested, 3 after: Varint }
    16 Unwatch { 1 request: Varint }
    17 Changes {
        1 request: Varint,
        2 after: Varint,
        3 until: Varint,
        4 changes: Repeated<Nested>,
        5 has_more: Varint,
    }
    18 Forgotten { 1 request: Varint, 2 forgotten: Varint }
    19 NotLeading { 1 request: Varint, 2 leader: Varint }
    20 Refused { 1 request: Varint, 2 refusal: Varint }
});

impl Scalar for Revision {
    const NUMBER: Number = Number::up_to(u64::MAX);

    fn to_u64(&self) -> u64 {
        self.0
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(Revision(number))
    }
}

choices!(Consistency {
    1 "linearizable" [Consistency::Linearizable],
    2 "stale" [Consistency::Stale],
});

choices!(Refusal {
    1 "malformed" [Refusal::Malformed],
    2 "too large" [Refusal::TooLarge],
    3 "too old" [Refusal::TooOld],
    4 "too many" [Refusal::TooMany],
    5 "of a duration" [Refusal::Duration],
});

message!(LeaseId, "configuration.LeaseId", {
    1 client: Fixed64,
    2 number: Varint,
});

message!(Stored, "configuration.Stored", {
    1 value: ValueBytes,
    2 created: Varint,
    3 changed: Varint,
    4 lease: Optional<Nested>,
});

message!(KeyState, "configuration.KeyState", {
    1 key: KeyBytes,
    2 stored: Optional<Nested>,
});

pair!(FoundKey: (Key, Stored), "configuration.FoundKey", 1 key: KeyBytes, 2 stored: Nested);

message!(Change, "configuration.Change", {
    1 revision: Varint,
    2 keys: Repeated<Nested>,
});

message!(ConditionalWrite, "configuration.ConditionalWrite", {
    1 compares: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
    2 puts: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
});

alternatives!(Compare, "configuration.Compare", messages {
    1 Key { 1 key: KeyBytes, 2 changed: Optional<Varint> }
    2 Range { 1 range: Nested, 2 after: Varint, 3 keys: Varint }
});

message!(Put, "configuration.Put", {
    1 key: KeyBytes,
    2 value: Optional<ValueBytes>,
    3 lease: Optional<Nested>,
});

alternatives!(WriteResult, "configuration.WriteResult", messages {
    1 Written { 1 revision: Varint }
    2 NotHeld { 1 revision: Varint, 2 compare: Varint }
    3 NoSuchLease { 1 lease: Nested }
    4 Full {}
    5 Settled {}
    6 LastAdministrator {}
});

alternatives!(Entry, "configuration.Entry", messages {
    1 Write { 1 transaction: Nested, 2 since: Varint, 3 write: Nested }
    2 Settle { 1 transaction: Nested, 2 since: Varint }
    3 Grant { 1 lease: Nested, 2 duration: Varint }
    4 End { 1 lease: Nested }
});

message!(Done, "configuration.Done", {
    1 attempt: Varint,
    2 result: Nested,
});

pair!(ClientResult: (u64, Done), "configuration.Result", 1 sequence: Varint, 2 done: Nested);

foreign!(ClientFields: Remembered<Done>, "configuration.Client", {
    1 client: Fixed64,
    2 used: Varint,
    3 since: Varint,
    4 results: Map<ClientResult>,
    5 last: Varint,
});

foreign!(ClientList: TablePage<Done>, "configuration.Clients", {
    1 forgotten_until: Varint,
    2 clients: Repeated<ClientFields>,
});

pair!(Lease: (LeaseId, Duration), "configuration.Lease", 1 lease: Nested, 2 duration: Varint);

list!(FoundKeys: Vec<(Key, Stored)>, "configuration.Page.Keys", Repeated<FoundKey>);
list!(Changes: Vec<Arc<Change>>, "configuration.Page.Changes", Repeated<Nested>);
list!(Leases: Vec<(LeaseId, Duration)>, "configuration.Page.Leases", Repeated<Lease>);

alternatives!(Page, "configuration.Page",
    messages {
        1 Revisions { 1 revision: Varint, 2 forgotten: Varint }
    },
    fields {
        2 Keys: FoundKeys,
        3 Changes: Changes,
        4 Leases: Leases,
        5 Clients: ClientList,
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_may_be_a_revision() {
        for number in [0, 1, 5, u64::MAX] {
            assert_eq!(Revision::from_u64(number), Some(Revision(number)));
            assert_eq!(Revision(number).to_u64(), number);
        }
    }
}
