//! The field numbers of Granola.

use quorate_codec::field::{Fixed64, Map, Nested, Optional, Packed, PlainBytes, Repeated, Varint};
use quorate_codec::{Fault, Wire, alternatives, bytes_kind, list, message, pair};
use quorate_core::transaction::{TRANSACTION_BYTES_MAX, Value};
use quorate_core::{ShardId, TransactionId};

use crate::Place;
use crate::application::Answer;
use crate::entry::{Body, Ended, Ending, Entry, Final, Outcome, Page, Pending, Refusal, Vote, Voted};
use crate::message::{Begin, Message, Reply, Request};

bytes_kind!(
    /// The operation of a transaction at one shard. It is told in an entry of a log as well, so it is limited: an entry
    /// cannot be divided, and has to fit into a frame.
    OperationBytes: Value,
    default Some(Value::new()),
    lengths 0, Some(TRANSACTION_BYTES_MAX),
    check |bytes| if bytes.len() > TRANSACTION_BYTES_MAX {
        Err(Fault::Operation { bytes: bytes.len() })
    } else {
        Ok(())
    }
);

alternatives!(Message, "granola.Message",
    messages {
        2 Reply { 1 transaction: Nested, 2 reply: Nested }
        3 Vote {
            1 transaction: Nested,
            2 participants: Packed,
            3 first: Fixed64,
            4 vote: Nested,
            5 proposed: Fixed64,
            6 class: Varint,
            7 wants: Varint,
        }
        4 Resolved { 1 transaction: Nested, 2 ending: Nested }
        5 Abandoned { 1 transaction: Nested, 2 lost: Varint }
        6 NotLeading { 1 transaction: Nested, 2 leader: Varint }
        7 AskFloor {}
        8 AskFloorReply { 1 floor: Fixed64, 2 ceiling: Fixed64 }
        9 Inquire { 1 transaction: Nested, 2 participants: Packed, 3 not_before: Fixed64 }
        11 Prepared { 1 transaction: Nested, 2 vote: Nested, 3 proposed: Fixed64, 4 answer: Optional<Nested> }
        12 Gathered { 1 transaction: Nested, 2 timestamp: Fixed64, 3 answers: Map<ShardAnswer> }
    },
    fields {
        1 Request: Nested,
        10 Begin: Nested,
    }
);

pair!(ShardAnswer: (ShardId, Answer), "granola.ShardAnswer", 1 shard: Varint, 2 answer: Nested);

message!(Begin, "granola.Begin", {
    1 transaction: Nested,
    2 parts: Map<ShardOperation>,
    3 high: Fixed64,
    4 first: Fixed64,
});

pair!(ShardOperation: (ShardId, Value), "granola.Part", 1 shard: Varint, 2 operation: OperationBytes);

message!(Request, "granola.Request", {
    1 transaction: Nested,
    2 participants: Packed,
    3 operation: OperationBytes,
    4 class: Varint,
    5 high: Fixed64,
    6 first: Fixed64,
});

alternatives!(Reply, "granola.Reply",
    messages {
        2 Forgotten { 1 clock: Fixed64 }
        3 TooOld { 1 clock: Fixed64 }
        4 Lost { 1 shard: Varint }
        5 ClockAhead { 1 clock: Fixed64 }
    },
    fields {
        1 Ended: Nested,
    }
);

alternatives!(Outcome, "granola.Outcome",
    messages {
        1 Committed { 1 timestamp: Fixed64, 2 answer: Nested }
        3 Conflict {}
    },
    fields {
        2 Aborted: Nested,
    }
);

alternatives!(Answer, "granola.Answer", fields {
    1 Done: PlainBytes,
    2 Refused: PlainBytes,
});

message!(Refusal, "granola.Refusal", {
    1 shard: Varint,
    2 reason: PlainBytes,
});

alternatives!(Vote, "granola.Vote",
    messages {
        1 Commit {}
        3 Conflict {}
    },
    fields {
        2 Abort: PlainBytes,
    }
);

alternatives!(Ending, "granola.Ending",
    messages {
        3 Conflict {}
    },
    fields {
        1 Commit: Fixed64,
        2 Abort: Nested,
    }
);

message!(Entry, "granola.Entry", {
    1 ceiling: Fixed64,
    2 finals: Repeated<Nested>,
    3 body: Nested,
});

message!(Final, "granola.Final", {
    1 transaction: Nested,
    2 ending: Nested,
});

alternatives!(Body, "granola.Body",
    messages {
        2 Floor { 1 floor: Fixed64, 2 forgotten: Fixed64 }
        4 Nothing {}
    },
    fields {
        1 Voted: Nested,
        3 Lost: Varint,
    }
);

message!(Voted, "granola.Voted", {
    1 transaction: Nested,
    2 class: Varint,
    3 participants: Packed,
    4 operation: Optional<OperationBytes>,
    5 vote: Nested,
    6 proposed: Fixed64,
    7 first: Fixed64,
});

message!(Place, "granola.Place", {
    1 timestamp: Fixed64,
    2 transaction: Nested,
});

message!(Pending, "granola.Pending", {
    1 voted: Nested,
    2 place: Nested,
    3 is_final: Varint,
});

message!(Ended, "granola.Ended", {
    1 outcome: Nested,
    2 participants: Packed,
    3 first: Fixed64,
});

pair!(NamedEnding: (TransactionId, Ended), "granola.Page.Ended", 1 transaction: Nested, 2 ended: Nested);

list!(PendingList: Vec<Pending>, "granola.Page.PendingList", Repeated<Nested>);
list!(EndedList: Vec<(TransactionId, Ended)>, "granola.Page.EndedList", Repeated<NamedEnding>);

alternatives!(Page<P> where [P: Wire], "granola.Page",
    messages {
        4 Bounds { 1 ceiling: Fixed64, 2 floor: Fixed64, 3 forgotten: Fixed64, 4 lost: Packed }
    },
    fields {
        1 Application: Nested,
        2 Pending: PendingList,
        3 Ended: EndedList,
    }
);
