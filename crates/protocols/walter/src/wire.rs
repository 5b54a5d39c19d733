//! The field numbers of Walter.

use quorate_codec::field::{BoundBytes, KeyBytes, Nested, Optional, Packed, Repeated, ValueBytes, Varint};
use quorate_codec::scalar::Scalar;
use quorate_codec::schema::Number;
use quorate_codec::{Fault, Through, alternatives, list, message};
use quorate_core::{Key, KeyRange};

use crate::container::{Container, Replicas};
use crate::entry::{Commit, Ended, Entry, Lock, Page, Stretch};
use crate::histories::{Count, Placed, Read, Update};
use crate::message::{Change, Ending, Found, Member, Message, Period, Snapshot, Wanted};
use crate::removal::{End, Frozen, Removal};
use crate::vector::{LocalSite, Vector, VersionNumber};

impl Scalar for LocalSite {
    const NUMBER: Number = Number::up_to(u16::MAX as u64);

    fn to_u64(&self) -> u64 {
        u64::from(self.0)
    }

    fn from_u64(number: u64) -> Option<Self> {
        u16::try_from(number).ok().map(LocalSite)
    }
}

impl Scalar for Period {
    const NUMBER: Number = Number::up_to(u64::MAX);

    fn to_u64(&self) -> u64 {
        self.0
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(Period(number))
    }
}

message!(Replicas, "walter.Replicas", { 1 sites: Packed });

message!(Container, "walter.Container", {
    1 preferred: Varint,
    2 replicas: Nested,
    3 stays: Varint,
});

message!(Change, "walter.Change", {
    1 seqno: Varint,
    2 element: KeyBytes,
    3 by: Varint,
});

message!(Vector, "walter.Vector", { 1 numbers: Packed });

message!(VersionNumber, "walter.Version", {
    1 site: Varint,
    2 seqno: Varint,
});

alternatives!(Snapshot, "walter.Snapshot",
    messages { 3 After { 1 seen: Nested, 2 earlier: Nested, 3 period: Varint } },
    fields { 1 Taken: Nested, 2 New: Nested }
);

/// [`Wanted::Register`].
struct WantedRegister {
    key: Key,
}

message!(WantedRegister, "walter.Wanted.Register", { 1 key: KeyBytes });

/// [`Wanted::Container`].
struct WantedContainer {
    name: Key,
}

message!(WantedContainer, "walter.Wanted.Container", { 1 name: KeyBytes });

/// [`Wanted::InFlight`].
struct WantedInFlight {
    key: Key,
}

message!(WantedInFlight, "walter.Wanted.InFlight", { 1 key: KeyBytes });

/// [`Wanted::Range`].
struct WantedRange {
    range: KeyRange,
    limit: u32,
}

message!(WantedRange, "walter.Wanted.Range", {
    1 range: Nested,
    2 limit: Varint,
});

alternatives!(Wanted, "walter.Wanted",
    messages {
        3 Count { 1 set: KeyBytes, 2 element: KeyBytes }
        4 Elements { 1 set: KeyBytes, 2 range: Nested, 3 from: Varint, 4 limit: Varint }
        10 Members { 1 set: KeyBytes, 2 range: Nested, 3 from: Varint, 4 limit: Varint }
    },
    through {
        1 Register: WantedRegister,
        2 Range: WantedRange,
        5 Container: WantedContainer,
        11 InFlight: WantedInFlight,
    }
);

impl Through<Wanted> for WantedRegister {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Register(key) => WantedRegister { key: key.clone() },
            _ => unreachable!("others are other alternatives"),
        }
    }

    fn restore(self) -> Result<Wanted, Fault> {
        Ok(Wanted::Register(self.key))
    }
}

impl Through<Wanted> for WantedInFlight {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::InFlight(key) => WantedInFlight { key: key.clone() },
            _ => unreachable!("others are other alternatives"),
        }
    }

    fn restore(self) -> Result<Wanted, Fault> {
        Ok(Wanted::InFlight(self.key))
    }
}

impl Through<Wanted> for WantedContainer {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Container(name) => WantedContainer { name: name.clone() },
            _ => unreachable!("others are other alternatives"),
        }
    }

    fn restore(self) -> Result<Wanted, Fault> {
        Ok(Wanted::Container(self.name))
    }
}

impl Through<Wanted> for WantedRange {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Range(range, limit) => WantedRange { range: range.clone(), limit: *limit },
            _ => unreachable!("others are other alternatives"),
        }
    }

    fn restore(self) -> Result<Wanted, Fault> {
        Ok(Wanted::Range(self.range, self.limit))
    }
}

alternatives!(Found, "walter.Found",
    messages {
        1 Register { 1 version: Optional<Nested>, 2 value: Optional<ValueBytes> }
        2 Range { 1 entries: Repeated<Nested>, 2 next: Optional<BoundBytes>, 3 elsewhere: Repeated<Nested> }
        4 Elements { 1 counts: Repeated<Nested>, 2 is_cut: Varint }
        5 Container { 1 container: Nested, 2 copies_min: Varint }
        6 Elsewhere { 1 sites: Packed, 2 own: Repeated<Nested> }
        10 Members { 1 members: Repeated<Nested>, 2 is_cut: Varint }
    },
    fields {
        3 Count: Varint,
        11 InFlight: Varint,
    }
);

message!(Member, "walter.Member", {
    1 element: KeyBytes,
    2 count: Varint,
    3 version: Optional<Nested>,
    4 value: Optional<ValueBytes>,
    5 is_elsewhere: Varint,
});

message!(Read, "walter.Read", {
    1 key: KeyBytes,
    2 version: Nested,
    3 value: ValueBytes,
});

message!(Count, "walter.Count", {
    1 set: KeyBytes,
    2 element: KeyBytes,
    3 count: Varint,
});

alternatives!(Update, "walter.Update", messages {
    1 Write { 1 key: KeyBytes, 2 value: Optional<ValueBytes> }
    2 Add { 1 set: KeyBytes, 2 element: KeyBytes, 3 by: Varint }
    3 Place { 1 name: KeyBytes, 2 container: Optional<Nested> }
    4 Noted { 1 object: KeyBytes, 2 writes: Varint }
});

message!(Placed, "walter.Placed", {
    1 name: KeyBytes,
    2 version: Nested,
    3 container: Nested,
});

alternatives!(Ending, "walter.Ending", messages {
    1 Committed { 1 version: Nested, 2 snapshot: Nested, 3 is_slow: Varint }
    2 Aborted {}
});

alternatives!(Message, "walter.Message", messages {
    1 Read { 1 transaction: Nested, 2 request: Varint, 3 snapshot: Nested, 4 wanted: Repeated<Nested> }
    2 ReadReply {
        1 transaction: Nested,
        2 request: Varint,
        3 snapshot: Nested,
        4 found: Repeated<Nested>,
        5 period: Varint,
    }
    3 Commit { 1 transaction: Nested, 2 snapshot: Nested, 3 period: Varint, 4 updates: Repeated<Nested> }
    4 CommitReply { 1 transaction: Nested, 2 ending: Nested, 3 silent: Packed, 4 is_short: Varint }
    5 TooOld { 1 transaction: Nested, 2 refused: Optional<Varint>, 3 committed: Nested, 4 period: Varint }
    6 NotLeading { 1 transaction: Optional<Nested>, 2 leader: Varint }
    7 Prepare { 1 transaction: Nested, 2 keys: Repeated<KeyBytes>, 3 snapshot: Nested }
    8 Vote { 1 transaction: Nested, 2 agrees: Varint, 3 keys: Repeated<KeyBytes> }
    9 Release { 1 transaction: Nested }
    10 AskOutcome { 1 transaction: Nested, 2 period: Varint, 3 committed: Varint }
    11 Forgotten { 1 transaction: Nested }
    12 Propagate { 1 commits: Repeated<Nested>, 2 durable: Varint }
    14 Abandoned { 1 transaction: Nested, 2 last: Nested }
    15 Frozen { 1 frozen: Nested, 2 received: Nested }
    16 Relay { 1 commits: Repeated<Nested> }
    13 Progress { 1 received: Varint, 2 committed: Nested, 3 oldest: Nested }
    17 Join {}
    18 Expected { 1 floor: Nested }
    19 Fetch { 1 state: Varint, 2 number: Varint }
    22 State { 1 state: Varint, 2 number: Varint, 3 is_last: Varint, 4 page: Nested }
    23 ReadCopy {
        1 transaction: Nested,
        2 request: Varint,
        3 snapshot: Nested,
        4 home: Varint,
        5 wanted: Repeated<Nested>,
    }
    24 CopyReply { 1 transaction: Nested, 2 request: Varint, 3 included: Varint, 4 found: Repeated<Nested> }
    30 NeverCommitted { 1 transaction: Nested, 2 last: Nested }
    31 AskLast { 1 question: Varint }
    33 AskShare { 1 counter: KeyBytes, 2 wanted: Varint }
    32 Last { 1 question: Varint, 2 seqno: Varint }
    20 AskMilestone { 1 transaction: Nested, 2 version: Nested, 3 milestone: Varint }
    21 MilestoneReply { 1 transaction: Nested, 2 milestone: Varint, 3 missing: Packed }
});

message!(Commit, "walter.Commit", {
    1 transaction: Nested,
    2 version: Nested,
    3 snapshot: Nested,
    4 updates: Repeated<Nested>,
    5 is_slow: Varint,
});

list!(ReceivedList: Vec<std::sync::Arc<Commit>>, "walter.Commits", Repeated<Nested>);

alternatives!(Entry, "walter.Entry",
    messages {
        5 Locked { 1 transaction: Nested, 2 origin: Varint, 3 keys: Repeated<KeyBytes> }
        7 Floor { 1 floor: Nested, 2 forgotten: Varint }
        9 Removed { 1 site: Varint, 2 end: Nested }
        12 Anew {}
        11 Adopt { 1 number: Varint, 2 is_last: Varint, 3 page: Nested }
    },
    fields {
        1 Commit: Nested,
        2 Refused: Nested,
        3 Received: ReceivedList,
        4 Advance: Nested,
        6 Released: Nested,
        8 Freeze: RemovalList,
        10 Join: ShardList,
    }
);

message!(End, "walter.End", { 1 last: Varint, 2 barrier: Nested });

message!(Removal, "walter.Removal", {
    1 site: Varint,
    2 successor: Varint,
    3 end: Optional<Nested>,
});

message!(Frozen, "walter.Frozen", {
    1 removals: Varint,
    2 received: Nested,
    3 seqno: Varint,
    4 committed: Nested,
});

list!(ShardList: Vec<quorate_core::ShardId>, "walter.Shards", Packed);
list!(RemovalList: Vec<Removal>, "walter.Removals", Repeated<Nested>);

message!(Lock, "walter.Lock", {
    1 transaction: Nested,
    2 origin: Varint,
    3 keys: Repeated<KeyBytes>,
});

message!(Ended, "walter.Ended", {
    1 transaction: Nested,
    2 ending: Nested,
    3 period: Varint,
});

message!(Stretch, "walter.Stretch", {
    1 since: Varint,
    2 until: Varint,
    3 floor: Nested,
});

list!(ReadList: Vec<Read>, "walter.Page.Registers", Repeated<Nested>);
list!(CountList: Vec<Count>, "walter.Page.Counts", Repeated<Nested>);
list!(PlacedList: Vec<Placed>, "walter.Page.Containers", Repeated<Nested>);
list!(LockList: Vec<Lock>, "walter.Page.Locks", Repeated<Nested>);
list!(EndedList: Vec<Ended>, "walter.Page.EndedList", Repeated<Nested>);

alternatives!(Page, "walter.Page",
    messages {
        1 Bounds { 1 floor: Nested, 2 committed: Nested, 3 period: Varint, 4 forgotten: Varint }
        8 Removals { 1 removals: Repeated<Nested>, 2 frozen: Optional<Nested> }
        10 Partial {}
        4 Journal {
            1 commits: Repeated<Nested>,
            2 retained: Repeated<Nested>,
            3 horizon: Optional<Nested>,
            4 stretches: Repeated<Nested>,
        }
    },
    fields {
        2 Registers: ReadList,
        3 Counts: CountList,
        5 Locks: LockList,
        6 Ended: EndedList,
        7 Containers: PlacedList,
        9 Joined: ShardList,
    }
);
