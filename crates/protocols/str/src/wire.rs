//! The field numbers of STR.

use quorate_codec::field::{BoundBytes, Fixed64, KeyBytes, Nested, Optional, Packed, Repeated, Varint};
use quorate_codec::scalar::Scalar;
use quorate_codec::schema::Number;
use quorate_codec::{Fault, Through, alternatives, list, message, pair};
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClockTime, Key, KeyRange, TransactionId};

use crate::entry::{Decided, Decision, Ended, Entry, Granted, Page, Prepared, Remembered};
use crate::message::{Ending, Found, Holder, Life, Message, Period, Refusal, Session, Unreadable, Wanted};

impl Scalar for Life {
    const NUMBER: Number = Number::up_to(u64::MAX);

    fn to_u64(&self) -> u64 {
        self.0
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(Life(number))
    }
}

pair!(Reader: (Key, ClockTime), "str.Reader", 1 key: KeyBytes, 2 snapshot: Fixed64);

message!(Period, "str.Period", { 1 life: Fixed64, 2 number: Varint });

message!(Session, "str.Session", { 1 seen: Fixed64, 2 after: Optional<Nested> });

/// [`Wanted::Key`].
struct WantedKey {
    key: Key,
}

message!(WantedKey, "str.Wanted.Key", { 1 key: KeyBytes });

/// [`Wanted::Range`].
struct WantedRange {
    range: KeyRange,
    limit: u32,
}

message!(WantedRange, "str.Wanted.Range", { 1 range: Nested, 2 limit: Varint });

alternatives!(Wanted, "str.Wanted", through { 1 Key: WantedKey, 2 Range: WantedRange });

impl Through<Wanted> for WantedKey {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Key(key) => WantedKey { key: key.clone() },
            Wanted::Range { .. } => unreachable!("others are other alternatives"),
        }
    }

    fn restore(self) -> Result<Wanted, Fault> {
        Ok(Wanted::Key(self.key))
    }
}

impl Through<Wanted> for WantedRange {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Range { range, limit } => WantedRange { range: range.clone(), limit: *limit },
            Wanted::Key(_) => unreachable!("others are other alternatives"),
        }
    }

    fn restore(self) -> Result<Wanted, Fault> {
        Ok(Wanted::Range { range: self.range, limit: self.limit })
    }
}

alternatives!(Found, "str.Found",
    messages { 2 Range { 1 keys: Repeated<Nested>, 2 next: Optional<BoundBytes> } },
    fields { 1 Key: Nested }
);

alternatives!(Unreadable, "str.Unreadable", fields { 1 TooOld: Fixed64, 2 Ahead: Fixed64, 3 NotLeading: Varint });

message!(Holder, "str.Holder", { 1 replica: Varint, 2 life: Fixed64, 3 until: Fixed64 });

alternatives!(Refusal, "str.Refusal",
    messages {
        1 Conflict {}
        2 Misspeculated {}
        6 Lost {}
        7 Overloaded {}
        9 ClientAhead { 1 ahead_micros: Varint, 2 ahead_max_micros: Varint }
    },
    fields {
        3 TooOld: Fixed64,
        4 Ahead: Fixed64,
        5 Unavailable: Varint,
        8 Overwritten: Fixed64,
    }
);

alternatives!(Ending, "str.Ending",
    messages { 1 Committed { 1 timestamp: Nested, 2 snapshot: Fixed64 } },
    fields { 2 Aborted: Nested }
);

alternatives!(Message, "str.Message",
    messages {
        1 Read {
            1 transaction: Nested,
            2 session: Nested,
            3 snapshot: Optional<Fixed64>,
            4 request: Varint,
            5 wanted: Repeated<Nested>,
        }
        2 ReadReply {
            1 transaction: Nested,
            2 request: Varint,
            3 snapshot: Fixed64,
            4 found: Repeated<Nested>,
            5 period: Nested,
        }
        3 Commit {
            1 transaction: Nested,
            2 session: Nested,
            3 snapshot: Optional<Fixed64>,
            4 period: Nested,
            5 writes: Repeated<Nested>,
            6 shows: Varint,
            7 begun: Fixed64,
            8 knows_indexes: Varint,
        }
        4 Shown { 1 transaction: Nested, 2 snapshot: Fixed64, 3 local: Fixed64, 4 chain: Varint }
        5 CommitReply { 1 transaction: Nested, 2 ending: Nested }
        6 OtherPeriod { 1 transaction: Nested, 2 period: Nested }
        7 Abort { 1 transaction: Nested }
        8 Inquire { 1 transaction: Nested, 2 snapshot: Fixed64 }
        9 InquireReply { 1 transaction: Nested, 2 outcome: Optional<Nested> }
        10 ReadAt { 1 life: Fixed64, 2 request: Varint, 3 snapshot: Fixed64, 4 wanted: Repeated<Nested> }
        11 ReadAtReply { 1 life: Fixed64, 2 request: Varint, 3 found: Repeated<Nested>, 4 floor: Fixed64 }
        12 Prepare {
            1 transaction: Nested,
            2 life: Fixed64,
            3 snapshot: Fixed64,
            4 writes: Repeated<Nested>,
            5 after: Repeated<Nested>,
            6 is_local: Varint,
            7 knows_indexes: Varint,
        }
        13 LocalVote { 1 transaction: Nested, 2 life: Fixed64, 3 proposal: Fixed64, 4 leads: Varint }
        14 Replicate {
            1 transaction: Nested,
            2 home: Nested,
            3 life: Fixed64,
            4 snapshot: Fixed64,
            5 keys: Repeated<KeyBytes>,
            6 holder: Nested,
            7 view: Varint,
        }
        15 Vote { 1 transaction: Nested, 2 life: Fixed64, 3 proposal: Fixed64, 4 view: Varint }
        16 Prepared { 1 transaction: Nested, 2 proposal: Fixed64, 3 holders: Repeated<Nested>, 4 view: Varint }
        17 Refused { 1 transaction: Nested, 2 refusal: Nested }
        18 Decide { 1 transaction: Nested, 2 outcome: Nested, 3 readers: Repeated<Reader>, 4 is_forgotten: Varint }
        19 Applied { 1 transaction: Nested }
        20 GiveWay { 1 transaction: Nested }
        21 AskGrant { 1 life: Fixed64, 2 wanted: Fixed64 }
        22 Bound { 1 until: Fixed64, 2 clock: Fixed64 }
        23 Hello { 1 life: Fixed64, 2 wants: Varint }
        24 Record { 1 decision: Nested, 2 forgotten: Optional<Fixed64> }
        25 Recorded { 1 transaction: Nested, 2 outcome: Nested }
        26 Settled { 1 transactions: Repeated<Nested> }
        27 NotLeading { 1 transaction: Optional<Nested>, 2 leader: Varint }
        30 UnderWay { 1 transaction: Nested }
        31 AskTime { 1 life: Fixed64 }
        32 Time { 1 life: Fixed64, 2 clock: Fixed64 }
        29 Doomed { 1 transaction: Nested, 2 refusal: Nested }
        28 CannotRead { 1 life: Fixed64, 2 request: Varint, 3 why: Nested }
    }
);

message!(Prepared, "str.Prepared", {
    1 transaction: Nested,
    2 home: Nested,
    3 life: Fixed64,
    4 snapshot: Fixed64,
    5 proposal: Fixed64,
    6 writes: Repeated<Nested>,
    7 holders: Repeated<Nested>,
    8 view: Varint,
});

message!(Decided, "str.Decided", {
    1 transaction: Nested,
    2 outcome: Nested,
    3 readers: Repeated<Reader>,
});

message!(Granted, "str.Granted", {
    1 view: Varint,
    2 clock: Fixed64,
    3 holders: Repeated<Nested>,
});

message!(Decision, "str.Decision", {
    1 transaction: Nested,
    2 by: Varint,
    3 snapshot: Fixed64,
    4 participants: Packed,
    5 outcome: Nested,
    6 readers: Repeated<Reader>,
    7 begun: Fixed64,
});

message!(Remembered, "str.Remembered", { 1 decision: Nested, 2 is_settled: Varint });

message!(Ended, "str.Ended", { 1 transaction: Nested, 2 outcome: Nested, 3 snapshot: Fixed64 });

list!(TransactionList: Vec<TransactionId>, "str.Transactions", Repeated<Nested>);
list!(VersionList: Vec<KeyVersion>, "str.Page.Versions", Repeated<Nested>);
list!(PreparedList: Vec<std::sync::Arc<Prepared>>, "str.Page.PreparedList", Repeated<Nested>);
list!(EndedList: Vec<Ended>, "str.Page.EndedList", Repeated<Nested>);
list!(RememberedList: Vec<Remembered>, "str.Page.Decisions", Repeated<Nested>);

alternatives!(Entry, "str.Entry", fields {
    1 Prepared: Nested,
    2 Decided: Nested,
    3 Granted: Nested,
    4 Floor: Fixed64,
    5 Recorded: Nested,
    6 Settled: TransactionList,
    7 Forgotten: Fixed64,
});

alternatives!(Page, "str.Page",
    messages {
        4 Bounds {
            1 floor: Fixed64,
            2 grants: Repeated<Nested>,
            3 readers: Repeated<Reader>,
            4 retained_from: Optional<Nested>,
        }
        6 HomeBounds { 1 forgotten: Fixed64 }
    },
    fields {
        1 Versions: VersionList,
        2 Prepared: PreparedList,
        3 Ended: EndedList,
        5 Decisions: RememberedList,
    }
);

#[cfg(test)]
mod tests {
    use quorate_codec::{decode, encode};
    use quorate_core::{ClientId, ReplicaIndex};

    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in() {
        let (transaction, at) =
            (TransactionId { client: ClientId(1), sequence: 2, attempt: 3 }, ClockTime::from_micros(4));
        let range = KeyRange { from: Key::from("a"), to: Some(Key::from("z")) };
        let wanted = vec![Wanted::Key(Key::from("oak")), Wanted::Range { range, limit: 5 }];
        let (life, request) = (Life(u64::MAX), 7);
        let holder = Holder { replica: ReplicaIndex(1), life: Life(8), until: at };
        for message in [
            Message::ReadAt { life, request, snapshot: at, wanted },
            Message::ReadAtReply {
                life,
                request,
                found: vec![Found::Range { keys: Vec::new(), next: None }],
                floor: at,
            },
            Message::CannotRead { life, request, why: Unreadable::NotLeading(ReplicaIndex(2)) },
            Message::Doomed { transaction, refusal: Refusal::Overwritten(at) },
            Message::Prepared {
                transaction,
                view: quorate_core::View(9),
                proposal: at,
                holders: vec![holder],
            },
            Message::OtherPeriod { transaction, period: Period { life, number: 10 } },
            Message::Decide {
                transaction,
                outcome: quorate_core::command::Outcome::Aborted,
                readers: vec![(Key::from("k"), at)],
                is_forgotten: true,
            },
        ] {
            assert_eq!(decode::<Message>(&encode(&message)).as_ref(), Ok(&message));
        }
    }
}
