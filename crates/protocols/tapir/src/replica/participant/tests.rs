//! The rules of what is kept and handed over, one at a time.

use std::sync::Arc;

use quorate_core::{ClientId, Key, ReadVersion, Transaction, Write};
use quorate_ir::State;

use super::*;

fn id(sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(sequence), sequence, attempt: 0 }
}

fn operation(sequence: u64) -> OperationId {
    OperationId { transaction: id(sequence), number: 1 }
}

fn at(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(1) }
}

/// A transaction that has read `key` at a version and writes it.
fn update(key: &str, version: u64) -> Arc<Transaction> {
    let key = Key::from(key.to_owned());
    let version = if version == 0 { Timestamp::ZERO } else { at(version) };
    let reads = vec![ReadVersion { key: key.clone(), version, deleted: false }];
    Arc::new(Transaction { reads, writes: vec![Write { key, value: None }], ..Transaction::default() })
}

fn read(key: &str) -> Arc<Transaction> {
    let reads =
        vec![ReadVersion { key: Key::from(key.to_owned()), version: Timestamp::ZERO, deleted: false }];
    Arc::new(Transaction { reads, ..Transaction::default() })
}

fn prepare(transaction: &Arc<Transaction>, micros: u64) -> Prepare {
    Prepare { transaction: transaction.clone(), timestamp: at(micros), first: None }
}

fn commit(transaction: &Arc<Transaction>, micros: u64) -> Decision {
    Decision::Commit { transaction: transaction.clone(), timestamp: at(micros), last: Timestamp::ZERO }
}

fn tentative(sequence: u64, prepare: Prepare) -> (TransactionId, ConsensusEntry<Tapir>) {
    let entry = ConsensusEntry { number: 1, operation: prepare, verdict: Vote::Ok, state: State::Tentative };
    (id(sequence), entry)
}

fn participant() -> Participant {
    Participant::new(Rules::EXCLUSIVE, None)
}

fn held_at(participant: &Participant, sequence: u64) -> Option<Timestamp> {
    participant.prepared.entry(id(sequence)).map(|held| held.timestamp)
}

#[test]
fn a_verdict_against_a_prepare_ends_its_hold_and_that_of_no_later_one() {
    let (mut participant, transaction) = (participant(), update("a", 0));
    for micros in [10, 20] {
        assert_eq!(participant.execute_consensus(operation(1), &prepare(&transaction, micros)), Vote::Ok);
    }
    for by_view_change in [false, true] {
        let earlier = prepare(&transaction, 10);
        participant.finalize_consensus(operation(1), &earlier, &Vote::Abort, by_view_change);
        assert_eq!(held_at(&participant, 1), Some(at(20)));
    }
    participant.finalize_consensus(operation(1), &prepare(&transaction, 20), &Vote::Abstain, false);
    assert_eq!(held_at(&participant, 1), None);
}

#[test]
fn a_view_change_spreads_holds_and_displaces_no_later_one() {
    let (mut participant, transaction) = (participant(), update("a", 0));
    participant.finalize_consensus(operation(1), &prepare(&transaction, 20), &Vote::Ok, false);
    assert_eq!(held_at(&participant, 1), None, "who makes a vote final spreads no holds");
    for micros in [20, 10] {
        participant.finalize_consensus(operation(1), &prepare(&transaction, micros), &Vote::Ok, true);
        assert_eq!(held_at(&participant, 1), Some(at(20)));
    }
}

#[test]
fn a_prepare_after_another_commit_of_its_transaction_is_refused() {
    let (mut participant, transaction) = (participant(), update("a", 0));
    let recorded = InconsistentEntry { operation: commit(&transaction, 10), executed: true };
    let mut vote =
        |micros| participant.verdict_after(operation(1), &prepare(&transaction, micros), &recorded);
    assert_eq!((vote(10), vote(20)), (Some(Vote::Ok), Some(Vote::Abort)));
}

#[test]
fn a_commit_from_below_the_floor_leaves_nothing_behind_again() {
    let (mut participant, transaction) = (participant(), update("a", 0));
    participant.bounds.raise_floor(at(20));
    participant.execute_inconsistent(id(1), &commit(&transaction, 10));
    assert_eq!(participant.versions.iter().count(), 0);
}

#[test]
fn what_commits_below_the_refusal_is_told_to_who_looks_for_a_floor() {
    let mut participant = participant();
    participant.bounds.refuse_below(at(20));
    participant.execute_inconsistent(id(1), &commit(&update("a", 0), 25));
    assert_eq!(participant.bounds.take_late(), None);
    for micros in [12, 10, 15] {
        participant.execute_inconsistent(id(micros), &commit(&update("a", 0), micros));
    }
    assert_eq!(participant.bounds.take_late(), Some(at(10)), "the smallest");
}

#[test]
fn what_may_have_succeeded_is_settled_in_the_order_of_timestamps_and_before_the_rest() {
    let (mut participant, transaction) = (participant(), update("a", 0));
    let (earlier, later) = (prepare(&transaction, 10), prepare(&transaction, 20));
    participant.execute_consensus(operation(3), &prepare(&transaction, 5));
    let decided = [tentative(1, later), tentative(2, earlier)];
    let undecided = [tentative(3, prepare(&transaction, 5))];
    assert_eq!(participant.merge(&decided, &undecided), [Vote::Abstain, Vote::Ok, Vote::Abstain]);
    assert_eq!(
        [1, 2, 3].map(|sequence| held_at(&participant, sequence)),
        [None, Some(at(10)), None],
        "and holds what it lets succeed"
    );
}

#[test]
fn what_others_would_have_executed_had_it_succeeded_has_not() {
    let mut participant = participant();
    let below = participant.supplement();
    participant.adopt_supplement(&Supplement { complete: at(20), refusal: at(20), ..below });
    let decided = [tentative(1, prepare(&update("a", 0), 10)), tentative(2, prepare(&update("b", 0), 30))];
    assert_eq!(participant.merge(&decided, &[]), [Vote::Retry(at(20)), Vote::Ok]);
}

/// A version above the one that was read had been executed at a majority, and one of it votes against.
#[test]
fn what_was_overwritten_cannot_have_succeeded() {
    let (mut participant, transaction) = (participant(), update("a", 0));
    participant.execute_inconsistent(id(1), &commit(&transaction, 10));
    assert_eq!(participant.merge(&[tentative(2, prepare(&transaction, 20))], &[]), [Vote::Abort]);
    assert_eq!(held_at(&participant, 2), None);
}

#[test]
fn promises_to_readers_spare_what_may_have_succeeded_and_bind_the_rest() {
    let promised = || {
        let mut participant = participant();
        let own = participant.supplement();
        participant.adopt_supplement(&Supplement { read_floor: at(20), ..own });
        participant
    };
    let entry = [tentative(1, prepare(&update("a", 0), 10))];
    assert_eq!(promised().merge(&entry, &[]), [Vote::Ok]);
    assert_eq!(promised().merge(&[], &entry), [Vote::Retry(at(20))]);
    let mut started = promised();
    started.enter_view();
    assert!(started.promised_reads.of(b"a") == at(20) && started.reads.of(b"a") == at(20));
    let mut here = participant();
    here.promised_reads.read_key(&Key::from("a"), at(20));
    assert_eq!(here.merge(&entry, &[]), [Vote::Ok], "also what this replica has promised itself");
}

#[test]
fn everything_that_binds_is_handed_over() {
    let mut participant = participant();
    participant.execute_inconsistent(id(1), &commit(&read("a"), 10));
    assert_eq!(participant.contribution().read_floor, at(10), "committed reads");
    participant.promised_reads.read_key(&Key::from("b"), at(20));
    assert_eq!(participant.contribution().read_floor, at(20), "promises to readers");
    participant.take_over_promise(at(30));
    assert_eq!(participant.contribution().read_floor, at(30), "what was heard of either");
    participant.bounds.refuse_below(at(40));
    participant.bounds.complete_below(at(35));
    let Supplement { refusal, complete, .. } = participant.contribution();
    assert_eq!((refusal, complete), (at(40), at(35)));
}

/// A replica that joins late and later leads must not find prepares wrong that succeeded in this view without it.
#[test]
fn who_joins_a_view_is_told_of_reads_from_before_it_only() {
    let mut participant = participant();
    participant.take_over_promise(at(5));
    participant.enter_view();
    participant.execute_inconsistent(id(1), &commit(&read("a"), 10));
    assert_eq!(participant.supplement().read_floor, at(5));
}

#[test]
fn what_another_replica_carries_only_adds() {
    let promise = |ballot, accepted: Option<u32>| Promise {
        ballot: Ballot(ballot),
        accepted: accepted.map(|ballot| (Ballot(ballot), Outcome::Aborted)),
    };
    let mut participant = participant();
    participant.promises.insert(id(1), promise(5, None));
    participant.promises.insert(id(2), promise(2, Some(2)));
    let theirs = vec![(id(1), promise(3, Some(3))), (id(2), promise(4, None)), (id(3), promise(1, None))];
    let low = Supplement { promises: theirs, ..Supplement::default() };
    participant.bounds.refuse_below(at(10));
    participant.adopt_supplement(&low);
    let kept: Vec<Promise> = participant.promises.values().copied().collect();
    assert_eq!(kept, [promise(5, Some(3)), promise(4, Some(2)), promise(1, None)]);
    assert_eq!(participant.bounds.refusal, at(10));
    participant.adopt_supplement(&Supplement { refusal: at(90), complete: at(20), ..Supplement::default() });
    assert_eq!(
        (participant.bounds.refusal, participant.bounds.complete),
        (at(20), at(20)),
        "a refusal binds its replica alone"
    );
    let refused = participant.execute_consensus(operation(9), &prepare(&update("a", 0), 19));
    assert_eq!(refused, Vote::Retry(at(20)), "in force at once");
}

#[test]
fn a_floor_refuses_what_lies_below_it() {
    let mut participant = participant();
    participant.bounds.raise_floor(at(20));
    for transaction in [read("a"), update("a", 0)] {
        let vote = participant.execute_consensus(operation(1), &prepare(&transaction, 19));
        assert_eq!(vote, Vote::Retry(at(20)));
    }
    assert_eq!(participant.bounds.complete, at(20), "and everything there is complete");
}

#[test]
fn a_prepare_that_holds_already_displaces_nothing() {
    let (mut participant, first) = (participant(), prepare(&update("a", 0), 10));
    for _ in 0..3 {
        participant.hold(id(1), &first);
        assert!(participant.displaced.is_empty());
    }
    assert_eq!(participant.first_hold(id(1)), Some(at(10)));
}

/// A view change may have made the first final as OK: then a majority holds it until its outcome is known, and a backup
/// coordinator may commit it. A replica where a later prepare came to nothing must not be the one that lets others in.
#[test]
fn what_a_later_prepare_displaced_holds_again_when_that_comes_to_nothing() {
    let transaction = update("a", 0);
    let (first, second) = (prepare(&transaction, 10), prepare(&transaction, 20));
    let prepared = || {
        let mut participant = participant();
        participant.finalize_consensus(operation(1), &first, &Vote::Ok, true);
        assert_eq!(participant.execute_consensus(operation(1), &second), Vote::Ok);
        assert_eq!(held_at(&participant, 1), Some(at(20)));
        participant
    };
    let mut refused = prepared();
    refused.finalize_consensus(operation(1), &second, &Vote::Retry(at(30)), false);
    let mut forgotten = prepared();
    forgotten.forget_consensus(operation(1), &second);
    let mut merged = prepared();
    merged.reads.raise_floor(at(40));
    assert_eq!(merged.merge(&[], &[tentative(1, second.clone())]), [Vote::Retry(at(40))]);
    for mut participant in [refused, forgotten, merged] {
        assert_eq!(held_at(&participant, 1), Some(at(10)));
        assert_eq!(participant.execute_consensus(operation(2), &prepare(&transaction, 50)), Vote::Abstain);
        participant.execute_inconsistent(id(1), &Decision::Abort { last: at(20) });
        assert_eq!((held_at(&participant, 1), participant.displaced.len()), (None, 0));
    }
    let mut both = prepared();
    both.forget_consensus(operation(1), &first);
    both.forget_consensus(operation(1), &second);
    assert_eq!(held_at(&both, 1), None);
    let mut planted = Participant::new(Rules::planted(Plant::DisplacedForgotten), None);
    for prepare in [&first, &second] {
        planted.execute_consensus(operation(1), prepare);
    }
    planted.forget_consensus(operation(1), &second);
    assert_eq!(held_at(&planted, 1), None, "which is what the plant is about");
}

#[test]
fn what_a_later_prepare_displaced_is_forgotten_with_the_outcome() {
    let transaction = update("a", 0);
    for decision in [commit(&transaction, 20), Decision::Abort { last: at(20) }] {
        let mut participant = participant();
        for micros in [10, 20] {
            participant.execute_consensus(operation(1), &prepare(&transaction, micros));
        }
        assert_eq!(participant.displaced.len(), 1);
        participant.execute_inconsistent(id(1), &decision);
        assert_eq!((held_at(&participant, 1), participant.displaced.len()), (None, 0));
        assert_eq!(participant.displaced_in_vain(), 0);
    }
}

/// At its own timestamp the key holds what the transaction has written.
#[test]
fn what_a_transaction_has_read_ends_with_what_it_writes() {
    let validity = |transaction: &Arc<Transaction>| {
        let mut participant = participant();
        participant.execute_inconsistent(id(1), &commit(transaction, 20));
        participant.validated.of(&Key::from("a")).map(|known| (known.version, known.until))
    };
    let reads = vec![ReadVersion { key: Key::from("a"), version: at(10), deleted: false }];
    assert_eq!(validity(&Arc::new(Transaction { reads, ..Transaction::default() })), Some((at(10), at(20))));
    assert_eq!(validity(&update("a", 10)), None);
}

/// A floor that has passed a deletion speaks against nobody who has read it: what may have succeeded before stays.
#[test]
fn a_view_change_spares_what_has_read_a_deletion_that_is_collected_meanwhile() {
    for (deleted, verdict) in [(true, Vote::Ok), (false, Vote::Abort)] {
        let mut participant = participant();
        participant.execute_inconsistent(id(1), &commit(&update("a", 0), 10));
        let reads = vec![ReadVersion { key: Key::from("a"), version: at(10), deleted }];
        let transaction = Arc::new(Transaction { reads, ..Transaction::default() });
        assert_eq!(participant.execute_consensus(operation(2), &prepare(&transaction, 30)), Vote::Ok);
        participant.bounds.raise_floor(at(20));
        participant.versions.collect(at(20), 100);
        assert!(participant.versions.newest(b"a").is_none(), "the deletion is collected");
        assert_eq!(participant.merge(&[tentative(2, prepare(&transaction, 30))], &[]), [verdict]);
    }
}

/// Recovery must not wait anew with each view; but what a later prepare holds is as old as that.
#[test]
fn a_hold_that_a_view_change_gives_back_is_as_old_as_it_was_and_no_other() {
    let transaction = update("a", 0);
    let since = |participant: &Participant| participant.prepared.entry(id(1)).map(|held| held.since);
    let later = Instant::from_nanos(1_000);
    for starts in [false, true] {
        let mut participant = participant();
        assert_eq!(participant.execute_consensus(operation(1), &prepare(&transaction, 10)), Vote::Ok);
        participant.forget_consensus(operation(1), &prepare(&transaction, 10));
        participant.now = later;
        if starts {
            participant.enter_view();
        }
        participant.finalize_consensus(operation(1), &prepare(&transaction, 10), &Vote::Ok, true);
        assert_eq!(since(&participant), Some(if starts { later } else { Instant::START }));
    }
}

#[test]
fn of_several_prepares_each_ends_for_itself() {
    let transaction = update("a", 0);
    let mut participant = participant();
    for micros in [10, 20, 30] {
        assert_eq!(participant.execute_consensus(operation(1), &prepare(&transaction, micros)), Vote::Ok);
    }
    assert_eq!(participant.first_hold(id(1)), Some(at(10)));
    participant.forget_consensus(operation(1), &prepare(&transaction, 10));
    assert_eq!((held_at(&participant, 1), participant.first_hold(id(1))), (Some(at(30)), Some(at(20))));
    participant.forget_consensus(operation(1), &prepare(&transaction, 30));
    assert_eq!((held_at(&participant, 1), participant.first_hold(id(1))), (Some(at(20)), Some(at(20))));
    participant.forget_consensus(operation(1), &prepare(&transaction, 20));
    assert_eq!((held_at(&participant, 1), participant.displaced.len()), (None, 0));
}

#[test]
fn a_commit_at_the_floor_takes_effect_and_one_below_does_not() {
    let versions = |micros| {
        let mut participant = participant();
        participant.bounds.raise_floor(at(20));
        participant.execute_inconsistent(id(1), &commit(&update("a", 0), micros));
        (participant.versions.iter().count(), participant.committed)
    };
    assert_eq!([19, 20].map(versions), [(0, 0), (1, 1)]);
}

#[test]
fn what_a_committed_transaction_has_read_keeps_later_writers_above() {
    let range = quorate_core::KeyRange { from: Key::from("a"), to: Some(Key::from("c")) };
    let scan = Arc::new(Transaction { ranges: vec![range], ..Transaction::default() });
    for (transaction, key, vote) in [
        (scan.clone(), "b", Vote::Retry(at(30))),
        (scan, "c", Vote::Ok),
        (read("b"), "b", Vote::Retry(at(30))),
        (read("a"), "b", Vote::Ok),
    ] {
        let mut participant = participant();
        participant.execute_inconsistent(id(1), &commit(&transaction, 30));
        let writes = vec![Write { key: Key::from(key.to_owned()), value: None }];
        let writer = Arc::new(Transaction { writes, ..Transaction::default() });
        assert_eq!(participant.execute_consensus(operation(2), &prepare(&writer, 20)), vote, "{key}");
    }
}

/// Parts of a message and pages of a log are cut by these.
#[test]
fn entries_have_the_bytes_of_what_they_hold_and_some_for_each() {
    let transaction = update("a", 0);
    let bytes = transaction.bytes();
    let decided = |operation| OperationEntries {
        inconsistent: Some(InconsistentEntry { operation, executed: true }),
        consensus: Vec::new(),
    };
    let (_, entry) = tentative(1, prepare(&transaction, 10));
    let mut both = decided(commit(&transaction, 10));
    both.consensus = vec![entry.clone(), entry];
    let table = [
        (OperationEntries::default(), 96),
        (decided(Decision::Abort { last: at(1) }), 2 * 96),
        (decided(commit(&transaction, 10)), 2 * 96 + bytes),
        (both, 4 * 96 + 3 * bytes),
    ];
    for (entries, expected) in table {
        assert_eq!(Participant::entry_bytes(&entries), expected, "{entries:?}");
    }
}

/// It keeps others off its keys, whatever has been read or is refused since.
#[test]
fn what_is_held_at_a_timestamp_has_its_vote_there() {
    let (mut participant, transaction) = (participant(), update("a", 0));
    let again = OperationId { number: 2, ..operation(1) };
    assert_eq!(participant.execute_consensus(operation(1), &prepare(&transaction, 10)), Vote::Ok);
    participant.bounds.refuse_below(at(50));
    participant.promised_reads.read_key(&Key::from("a"), at(60));
    assert_eq!(participant.execute_consensus(again, &prepare(&transaction, 10)), Vote::Ok);
    assert_eq!(participant.execute_consensus(again, &prepare(&transaction, 9)), Vote::Abstain);
    assert_eq!(participant.execute_consensus(again, &prepare(&transaction, 11)), Vote::Retry(at(50)));
    assert_eq!(held_at(&participant, 1), Some(at(10)));
}

/// The answer was told to its client alone; here it stands blank.
#[test]
fn what_was_read_by_a_hold_is_validated_nowhere() {
    let of = |transaction: Transaction| {
        let mut participant = participant();
        participant.versions.install(&Key::from("a"), at(5), None);
        participant.execute_inconsistent(id(1), &commit(&Arc::new(transaction), 20));
        let validity = participant.validated.of(&Key::from("a")).map(|known| (known.version, known.until));
        (validity, participant.reads.of(b"a"))
    };
    let plain = Transaction::clone(&read("a"));
    let held = Transaction { reads_when_prepared: true, ..plain.clone() };
    assert_eq!(of(plain), (Some((Timestamp::ZERO, at(20))), at(20)));
    assert_eq!(of(held), (None, at(20)), "it keeps writers above it all the same");
    let writes = Transaction::clone(&update("a", 5));
    assert_eq!(of(writes), (None, Timestamp::ZERO), "its own version does");
}
