//! The assertions of a record, and what it gives back of what it holds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_core::ClientId;

use super::*;
use crate::tests::Words;

fn transaction(sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(1), sequence, attempt: 0 }
}

fn id(sequence: u64) -> OperationId {
    OperationId { transaction: transaction(sequence), number: 1 }
}

fn vote(verdict: char, state: State) -> ConsensusEntry<Words> {
    ConsensusEntry { number: 1, operation: "op", verdict, state }
}

fn at(micros: u64) -> Timestamp {
    Timestamp { micros, ..Timestamp::ZERO }
}

/// A page of one transaction.
fn page(
    sequence: u64,
    inconsistent: Option<InconsistentEntry<Words>>,
    consensus: Vec<ConsensusEntry<Words>>,
) -> RecordPage<Words> {
    RecordPage { entries: vec![(transaction(sequence), OperationEntries { inconsistent, consensus })] }
}

fn sequences(page: &RecordPage<Words>) -> Vec<u64> {
    page.entries.iter().map(|(id, _)| id.sequence).collect()
}

/// Something that happens to a record.
type Change = fn(&mut Record<Words>);

#[test]
fn whatever_changes_a_record_notices_an_index_that_is_out_of_step() {
    let changes: [(&str, Change); 6] = [
        ("record", |record| record.record_inconsistent(transaction(2), "commit", true)),
        ("forget", |record| _ = record.forget_consensus_beyond(None)),
        ("install", |record| record.install(View(4), &RecordPage::default())),
        ("collect", |record| _ = record.collect(None, Timestamp::ZERO, 9)),
        ("forget below", |record| record.forget_below(Timestamp::ZERO)),
        ("collect one", |record| record.collect_one(transaction(1), at(1))),
    ];
    for (change, happens) in changes {
        for breaks in [false, true] {
            let mut record = Record::<Words>::default();
            record.enter_lineage(None, View(0));
            record.record_inconsistent(transaction(1), "commit", true);
            if breaks {
                record.index.by_timestamp.insert((at(99), transaction(9)));
            }
            let panics = catch_unwind(AssertUnwindSafe(|| happens(&mut record))).is_err();
            assert_eq!(panics, breaks, "{change}");
        }
    }
}

#[test]
fn only_a_greater_ballot_makes_another_verdict_final() {
    for (ballot, verdict, is_refused) in
        [(1, 'y', false), (1, 'n', true), (2, 'n', true), (2, 'y', false), (3, 'n', false)]
    {
        let mut record = Record::<Words>::default();
        record.record_consensus(transaction(1), vote('y', State::Finalized(Ballot(2))));
        let finalizes = || record.finalize_consensus(id(1), verdict, Ballot(ballot));
        let panics = catch_unwind(AssertUnwindSafe(finalizes)).is_err();
        assert_eq!(panics, is_refused, "{verdict} under {ballot}");
    }
}

#[test]
#[should_panic(expected = "can still take effect below the floor")]
fn no_floor_passes_a_vote_that_can_take_effect() {
    let mut record = Record::<Words>::default();
    record.record_consensus(transaction(1), vote('y', State::Tentative));
    record.collect(None, at(1), 9);
}

/// Its receiver may have taken part in the view, and hold it as open still.
#[test]
fn an_operation_that_a_base_holds_as_open_and_that_has_ended_here_is_passed_on_as_news() {
    let executed = |executed| Some(InconsistentEntry { operation: "commit", executed });
    let open = vec![vote('y', State::Finalized(Ballot::ORIGINAL))];
    for (entries, expected) in [
        (page(1, None, open), vec![1]),
        (page(1, executed(false), Vec::new()), vec![]),
        (page(1, executed(true), Vec::new()), vec![1]),
    ] {
        let mut record = Record::<Words>::default();
        record.enter_lineage(None, View(0));
        record.record_inconsistent(transaction(1), "commit", true);
        record.install(View(4), &entries);
        record.enter_lineage(Some(View(0)), View(4));
        assert_eq!(sequences(&record.beyond(Some(View(0)))), expected, "{entries:?}");
        assert_eq!(sequences(&record.beyond(Some(View(4)))), [] as [u64; 0], "{entries:?}");
    }
}

#[test]
fn whoever_walks_through_a_record_is_told_when_nothing_is_left() {
    let mut record = Record::<Words>::default();
    for sequence in 1..=3 {
        record.record_inconsistent(transaction(sequence), "commit", true);
    }
    record.start_generation();
    let last = record.last().unwrap();
    let ended = |after, max| {
        let (ended, next) = record.older_ended(after, last, max);
        (ended.iter().map(|(id, _)| id.sequence).collect::<Vec<_>>(), next.map(|(_, id)| id.sequence))
    };
    assert_eq!(ended(None, 2), (vec![1, 2], Some(2)));
    assert_eq!(ended(Some((Timestamp::ZERO, transaction(2))), 2), (vec![3], None));
    assert_eq!(ended(Some(last), 2), (vec![], None));
    assert_eq!(record.collect(None, at(1), 2).map(|(_, id)| id.sequence), Some(2));
    assert_eq!((record.overdue(at(1)), record.overdue(Timestamp::ZERO)), (1, 0));
    assert_eq!((record.collect(None, at(1), 2), record.len()), (None, 0));
    assert_eq!(
        record.collect(Some((at(2), transaction(1))), at(1), 2),
        None,
        "the floor does not reach that far"
    );
}
