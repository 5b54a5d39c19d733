//! The field numbers of inconsistent replication, the same for every protocol that stands on it.

use quorate_codec::field::{KeyBytes, Nested, Optional, Packed, Repeated, Varint};
use quorate_codec::vocabulary::{Cursor, Lives};
use quorate_codec::{Fault, Through, Wire, alternatives, message, pair, through};
use quorate_core::TransactionId;

use crate::{
    CursorRange, Message, OperationEntries, OperationId, Operations, Outline, Part, PartRange, RecordPage,
    Stretch,
};

/// Operations that can be written: each of them, and how a record's entries of one transaction are.
pub trait WireOperations:
    Operations<Inconsistent: Wire, Consensus: Wire, Verdict: Wire, Supplement: Wire, State: Wire>
{
    /// The message that stands for the entries of one transaction.
    type Entries: Through<OperationEntries<Self>>;
}

through!(OperationEntries<O> where [O: WireOperations], O::Entries);

message!(OperationId, "ir.OperationId", {
    1 transaction: Nested,
    2 number: Varint,
});

message!(Part, "ir.Part", {
    1 series: Varint,
    2 index: Varint,
    3 count: Varint,
}, check validate_part);

fn validate_part(part: &Part) -> Result<(), Fault> {
    if part.index < part.count {
        Ok(())
    } else {
        Err(Fault::Meaningless("the index of a part must be below the count of parts"))
    }
}

message!(PartRange, "ir.PartRange", {
    1 first: Varint,
    2 last: Varint,
}, check validate_part_range);

fn validate_part_range(range: &PartRange) -> Result<(), Fault> {
    if range.first <= range.last {
        Ok(())
    } else {
        Err(Fault::Meaningless("the last of a range of parts must not be below the first"))
    }
}

message!(CursorRange, "ir.CursorRange", {
    1 first: Cursor,
    2 last: Cursor,
}, check validate_cursor_range);

fn validate_cursor_range(range: &CursorRange) -> Result<(), Fault> {
    if range.first <= range.last {
        Ok(())
    } else {
        Err(Fault::Meaningless("the last place of a part of a record must not be below the first"))
    }
}

message!(Stretch, "ir.Stretch", {
    1 range: Nested,
    2 ended: Nested,
});

message!(Outline, "ir.Outline", {
    1 floor: Nested,
    2 stretches: Repeated<Nested>,
});

message!(RecordPage<O> where [O: WireOperations] of O::Supplement, "ir.RecordPage", {
    1 entries: Repeated<PageEntry>,
});

pair!(
    PageEntry: (TransactionId, OperationEntries<O>) where [O: WireOperations] of O::Supplement, "ir.RecordPage.Entry",
    1 transaction: Nested, 2 entries: Nested
);

alternatives!(Message<O> where [O: WireOperations] of O::Supplement, "ir.Message", messages {
    1 ProposeInconsistent { 1 id: Nested, 2 operation: Nested }
    2 ProposeConsensus { 1 id: Nested, 2 operation: Nested }
    3 InconsistentReply { 1 id: Nested, 2 view: Varint }
    4 ConsensusReply { 1 id: Nested, 2 view: Varint, 3 verdict: Nested, 4 finalized: Varint }
    5 FinalizeInconsistent { 1 id: Nested }
    6 FinalizeConsensus { 1 id: Nested, 2 verdict: Nested, 3 view: Varint, 4 ballot: Varint }
    7 Confirm { 1 id: Nested, 2 view: Varint, 3 verdict: Optional<Nested>, 4 finalized: Varint }
    8 HigherView { 1 view: Varint }
    9 StartViewChange { 1 view: Varint }
    10 DoViewChange {
        1 view: Varint,
        2 last_normal: Optional<Varint>,
        3 lineage: Packed,
        4 part: Nested,
        5 page: Nested,
        6 supplement: Nested,
        10 floor: Nested,
        11 complete: Nested,
        12 lives: Lives,
        13 outline: Nested,
    }
    11 StartView {
        1 view: Varint,
        2 since: Optional<Varint>,
        3 part: Nested,
        4 page: Nested,
        5 supplement: Nested,
        10 floor: Optional<Nested>,
        11 state: Optional<Nested>,
        12 outline: Nested,
        13 state_to: Optional<KeyBytes>,
    }
    12 ViewQuery { 1 nonce: Varint, 2 life: Varint }
    13 ViewQueryReply { 1 nonce: Varint, 2 view: Varint, 3 lost: Varint, 4 life: Varint }
    14 PartsMissing { 1 view: Varint, 2 series: Varint, 3 missing: Repeated<Nested> }
    15 Arrived {}
    16 StateWanted { 1 view: Varint, 2 series: Varint, 3 after: KeyBytes }
    17 StatePage { 1 view: Varint, 2 series: Varint, 3 after: KeyBytes, 4 state: Nested, 5 to: Optional<KeyBytes> }
});

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Timestamp, TransactionId};

    use super::*;

    #[test]
    fn parts_and_ranges_that_cannot_be_are_refused() {
        for (index, count, is_valid) in
            [(0, 1, true), (1, 2, true), (0, 0, false), (1, 1, false), (2, 1, false)]
        {
            let part = Part { series: 7, index, count };
            assert_eq!(validate_part(&part).is_ok(), is_valid, "{part:?}");
        }
        let place = |micros| {
            let client = ClientId(1);
            (Timestamp { micros, client }, TransactionId { client, sequence: 1, attempt: 0 })
        };
        for (first, last, is_valid) in [(1, 1, true), (1, 2, true), (2, 1, false)] {
            assert_eq!(
                validate_part_range(&PartRange { first, last }).is_ok(),
                is_valid,
                "{first} to {last}"
            );
            let range = CursorRange { first: place(first.into()), last: place(last.into()) };
            assert_eq!(validate_cursor_range(&range).is_ok(), is_valid, "{range:?}");
        }
    }
}
