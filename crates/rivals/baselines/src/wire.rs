//! The field numbers of the comparison systems that stand on a replicated log.

use quorate_codec::field::{BoundBytes, KeyBytes, Nested, Optional, Packed, Repeated, ValueBytes, Varint};
use quorate_codec::{Fault, Through, alternatives, foreign, list, message, pair};
use quorate_core::{Key, KeyRange, TransactionId};
use quorate_store::Version;

use crate::entry::{Ended, Entry, Page, Prepared};
use crate::message::{Age, Message, Standing, Wanted};

alternatives!(Message, "baselines.Message", messages {
    1 Read { 1 transaction: Nested, 2 key: KeyBytes, 3 lock: Optional<Nested> }
    2 ReadReply {
        1 transaction: Nested,
        2 key: KeyBytes,
        3 version: Nested,
        4 value: Optional<ValueBytes>,
        5 locked_in: Optional<Varint>,
    }
    3 Scan {
        1 transaction: Nested,
        2 request: Varint,
        3 range: Nested,
        4 limit: Varint,
        5 lock: Optional<Nested>,
    }
    4 ScanReply {
        1 transaction: Nested,
        2 request: Varint,
        3 keys: Repeated<Nested>,
        4 next: Optional<BoundBytes>,
        5 locked_in: Optional<Varint>,
    }
    5 NextTimestamp { 1 transaction: Nested, 2 above: Nested }
    6 NextTimestampReply { 1 transaction: Nested, 2 timestamp: Nested }
    7 Prepare {
        1 transaction: Nested,
        2 part: Nested,
        3 proposed: Nested,
        4 age: Nested,
        5 locked_in: Optional<Varint>,
    }
    8 PrepareReply { 1 transaction: Nested, 2 standing: Nested }
    9 Validate { 1 transaction: Nested, 2 part: Nested, 3 locked_in: Optional<Varint>, 4 at: Optional<Nested> }
    10 ValidateReply { 1 transaction: Nested, 2 is_valid: Varint }
    11 ReadCurrent { 1 transaction: Nested, 2 keys: Repeated<KeyBytes> }
    12 ReadCurrentReply { 1 transaction: Nested, 2 found: Repeated<Nested>, 3 timestamp: Nested }
    13 Decide { 1 transaction: Nested, 2 outcome: Nested }
    14 Inquire { 1 transaction: Nested, 2 participants: Packed, 3 age: Nested }
    15 InquireReply { 1 transaction: Nested, 2 standing: Nested }
    16 NotLeading { 1 transaction: Nested, 2 leader: Varint }
    17 AskFloor {}
    18 AskFloorReply { 1 floor: Nested }
    19 Release { 1 transaction: Nested }
    20 Wounded { 1 transaction: Nested }
    21 ReadAt { 1 transaction: Nested, 2 wanted: Nested, 3 at: Nested }
    22 ReadAtReply { 1 transaction: Nested, 2 found: Repeated<Nested>, 3 next: Optional<BoundBytes> }
    23 SnapshotTooOld { 1 transaction: Nested, 2 oldest: Nested }
    24 Coordinate { 1 transaction: Nested, 2 parts: Repeated<Nested>, 3 proposed: Nested }
    25 CoordinateReply { 1 transaction: Nested, 2 standing: Nested }
});

list!(WantedKeys: Vec<Key>, "baselines.Wanted.Keys", Repeated<KeyBytes>);

/// [`Wanted::Range`].
struct WantedRange {
    range: KeyRange,
    limit: u32,
}

message!(WantedRange, "baselines.Wanted.Range", {
    1 range: Nested,
    2 limit: Varint,
});

alternatives!(Wanted, "baselines.Wanted",
    fields {
        1 Keys: WantedKeys,
    },
    through {
        2 Range: WantedRange,
    }
);

impl Through<Wanted> for WantedRange {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Range(range, limit) => WantedRange { range: range.clone(), limit: *limit },
            Wanted::Keys(_) => unreachable!("keys are another alternative"),
        }
    }

    fn restore(self) -> Result<Wanted, Fault> {
        Ok(Wanted::Range(self.range, self.limit))
    }
}

alternatives!(Standing, "baselines.Standing",
    messages {
        3 TooOld { 1 clock: Varint }
        4 Forgotten { 1 clock: Varint }
    },
    fields {
        1 Prepared: Nested,
        2 Ended: Nested,
    }
);

alternatives!(Age, "baselines.Age", fields {
    1 Proposed: Nested,
    2 NotBefore: Nested,
});

alternatives!(Entry, "baselines.Entry",
    messages {
        2 Refused { 1 transaction: Nested, 2 participants: Packed, 3 until: Nested }
        3 Decided { 1 transaction: Nested, 2 outcome: Nested }
        4 Floor { 1 floor: Nested, 2 forgotten: Nested }
    },
    fields {
        1 Prepared: Nested,
        5 Ceiling: Nested,
    }
);

message!(Prepared, "baselines.Prepared", {
    1 transaction: Nested,
    2 part: Nested,
    3 proposed: Nested,
    4 timestamp: Nested,
    5 age: Nested,
});

message!(Ended, "baselines.Ended", {
    1 outcome: Nested,
    2 participants: Packed,
    3 until: Nested,
});

pair!(NamedEnding: (TransactionId, Ended), "baselines.Page.Ended", 1 transaction: Nested, 2 ended: Nested);

foreign!(VersionFields: Version, "baselines.Version", {
    1 timestamp: Nested,
    2 value: Optional<ValueBytes>,
});

pair!(KeyVersion: (Key, Version), "baselines.Page.Version", 1 key: KeyBytes, 2 version: VersionFields);

list!(VersionList: Vec<(Key, Version)>, "baselines.Page.Versions", Repeated<KeyVersion>);
list!(PreparedList: Vec<Prepared>, "baselines.Page.PreparedList", Repeated<Nested>);
list!(EndedList: Vec<(TransactionId, Ended)>, "baselines.Page.EndedList", Repeated<NamedEnding>);

alternatives!(Page, "baselines.Page",
    messages {
        4 Bounds { 1 floor: Nested, 2 forgotten: Nested, 3 last: Nested }
    },
    fields {
        1 Versions: VersionList,
        2 Prepared: PreparedList,
        3 Ended: EndedList,
    }
);
