//! Properties that are broken on purpose, one at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_core::hosted::Boot;
use quorate_core::machine::Machine;
use quorate_core::{Ballot, ClientId, GroupSize, Instant, ReadVersion, Value, View, Write};
use quorate_ir::{ConsensusEntry, Cursor, InconsistentEntry, Outline, Part, RecordPage, State};
use quorate_store::Prepared;

use super::super::participant::Participant;
use super::*;
use crate::config::ReplicaConfig;
use crate::message::Promise;

const ID: TransactionId = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };
const OTHER: TransactionId = TransactionId { client: ClientId(2), sequence: 1, attempt: 0 };

fn replica(shard: u32, index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) }
}

fn at(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(1) }
}

fn machine() -> Replica {
    let group = GroupSize::new(3).unwrap();
    Replica::restore(ReplicaConfig::new(replica(1, 0), group, Boot::Initialise), [])
}

/// One way to break a property of a replica.
type Break = fn(&mut Replica);

#[test]
fn what_a_replica_breaks_is_noticed() {
    machine().assert_invariants();
    machine().assert_whole();
    let broken: [(&str, Break); 4] = [
        ("IR1", |replica| {
            let mut other = Participant::new(crate::Rules::EXCLUSIVE, None);
            replica.ir.restore(Fact::ViewEntered(View(5)), &mut other);
        }),
        ("TAP1", |replica| replica.participant.bounds.raise_floor(at(1))),
        ("TAP2", |replica| {
            let (transaction, since) = (Arc::default(), Instant::START);
            replica.participant.prepared.insert(ID, Prepared { transaction, timestamp: at(1), since });
        }),
        ("TAP3", |replica| {
            assert!(replica.ir.status() == Status::Normal);
            assert!(replica.participant.promises.insert(ID, Promise::default()).is_none());
            let operation = Decision::Abort { last: at(1) };
            let fact = Fact::InconsistentRecorded { transaction: ID, operation, executed: true };
            replica.ir.restore(fact, &mut Participant::new(crate::Rules::EXCLUSIVE, None));
        }),
    ];
    for (property, breaks) in broken {
        let mut replica = machine();
        breaks(&mut replica);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            replica.assert_invariants();
            replica.assert_whole();
        }));
        let panic = panic.expect_err(property);
        let told = panic.downcast_ref::<String>().expect("it says why");
        assert!(told.starts_with(property), "{property}: {told}");
    }
}

/// "rK@V" reads K at version V, "wK" writes a value to K, "dK" deletes it; of shards 1 and 2.
fn contents(text: &str) -> Arc<Transaction> {
    let mut transaction =
        Transaction { participants: vec![ShardId(1), ShardId(2)], ..Transaction::default() };
    for word in text.split_whitespace() {
        let (kind, rest) = word.split_at(1);
        let key = |name: &str| Key::copy_from_slice(name.as_bytes());
        match kind {
            "r" => {
                let (name, version) = rest.split_once('@').unwrap();
                let micros: u64 = version.parse().unwrap();
                let version = if micros == 0 { Timestamp::ZERO } else { at(micros) };
                transaction.reads.push(ReadVersion { key: key(name), version, deleted: false });
            }
            "w" => {
                transaction.writes.push(Write { key: key(rest), value: Some(Value::from_static(b"value")) })
            }
            "d" => transaction.writes.push(Write { key: key(rest), value: None }),
            _ => panic!("no such word: {word}"),
        }
    }
    Arc::new(transaction)
}

/// A witness of two shards of three replicas, each.
fn witness() -> Witness {
    let mut witness = Witness::default();
    for shard in [1, 2] {
        witness.group(ShardId(shard)).note_majority(2);
    }
    witness
}

/// So many replicas of each shard vote OK.
fn vote(witness: &mut Witness, id: TransactionId, text: &str, micros: u64, votes: [u8; 2]) {
    for (shard, votes) in (1..).zip(votes) {
        for index in 0..votes {
            let prepare = Prepare { transaction: contents(text), timestamp: at(micros), first: None };
            let id = OperationId { transaction: id, number: 1 };
            let mut found = Vec::new();
            witness.keep(replica(shard, index), &Record::Voted { id, prepare, vote: Vote::Ok }, &mut found);
            assert!(found.is_empty());
        }
    }
}

fn commit(text: &str, micros: u64) -> Decision {
    Decision::Commit { transaction: contents(text), timestamp: at(micros), last: Timestamp::ZERO }
}

fn decided(transaction: TransactionId, decision: Decision) -> Record {
    Record::Decided { transaction, decision, executed: true }
}

fn properties(found: &[Violation]) -> Vec<&'static str> {
    found.iter().map(|violation| violation.property).collect()
}

#[test]
fn outcomes_and_contents_that_differ_are_noticed() {
    let table: [(&str, ReplicaId, Decision, &[&str]); 7] = [
        ("a shard that does not participate ends it", replica(3, 0), Decision::Abort { last: at(9) }, &[]),
        ("the same", replica(1, 1), commit("wa", 5), &[]),
        ("the same at another shard", replica(2, 0), commit("wb", 5), &[]),
        ("it aborts elsewhere", replica(2, 0), Decision::Abort { last: at(9) }, &["TAP4"]),
        ("at another timestamp", replica(1, 1), commit("wa", 6), &["TAP4"]),
        ("with other writes", replica(1, 1), commit("wb", 5), &["TAP6"]),
        ("with none", replica(1, 1), commit("", 5), &["TAP6"]),
    ];
    for (what, from, decision, expected) in table {
        let mut witness = witness();
        let mut found = Vec::new();
        vote(&mut witness, ID, "wa", 5, [2, 2]);
        witness.keep(replica(1, 0), &decided(ID, commit("wa", 5)), &mut found);
        assert!(found.is_empty(), "{found:?}");
        witness.keep(from, &decided(ID, decision), &mut found);
        assert_eq!(properties(&found), expected, "{what}");
    }
}

#[test]
fn a_commit_of_just_what_was_voted_on_is_one() {
    let table: [([u8; 2], Decision, &[&str]); 4] = [
        ([2, 2], commit("wa", 5), &[]),
        ([2, 2], Decision::Abort { last: at(9) }, &["TAP4"]),
        ([2, 2], commit("wb", 5), &["TAP6"]),
        ([1, 2], commit("wa", 5), &["TAP7"]),
    ];
    for (votes, second, expected) in table {
        let mut witness = witness();
        let mut found = Vec::new();
        vote(&mut witness, ID, "wa", 5, votes);
        let id = OperationId { transaction: ID, number: 1 };
        let record = Record::CommittedAsPrepared { id, last: at(5), executed: true };
        witness.keep(replica(1, 0), &record, &mut found);
        witness.keep(replica(1, 1), &decided(ID, second), &mut found);
        assert_eq!(properties(&found), expected, "{votes:?}");
    }
}

#[test]
fn commits_that_too_few_have_prepared_are_noticed() {
    let table: [([u8; 2], u64, &[&str]); 4] = [
        ([2, 2], 5, &[]),
        ([3, 1], 5, &["TAP7"]),
        ([0, 0], 5, &["TAP7", "TAP7"]),
        ([3, 3], 6, &["TAP7", "TAP7"]),
    ];
    for (votes, micros, expected) in table {
        let mut witness = witness();
        let mut found = Vec::new();
        vote(&mut witness, ID, "wa", 5, votes);
        witness.keep(replica(1, 0), &decided(ID, commit("wa", micros)), &mut found);
        assert_eq!(properties(&found), expected, "{votes:?}");
    }
    let mut witness = witness();
    let mut found = Vec::new();
    vote(&mut witness, ID, "wa", 5, [1, 2]);
    let id = OperationId { transaction: ID, number: 1 };
    let record = Record::VoteFinalized { id, vote: Vote::Ok, ballot: Ballot::ORIGINAL };
    witness.keep(replica(1, 2), &record, &mut found);
    witness.keep(replica(1, 0), &decided(ID, commit("wa", 5)), &mut found);
    assert!(found.is_empty(), "what a coordinator has made final counts: {found:?}");
}

#[test]
fn timestamps_that_explain_no_read_are_noticed() {
    // The transactions that have committed first, at 5 and 7, and the one that does then.
    let table: [(&str, &str, &str, u64, &[&str]); 11] = [
        ("wa", "wb", "wc", 5, &["TAP5"]),
        ("wa", "wb", "ra@5", 9, &[]),
        ("wa", "wa", "ra@5", 9, &["TAP8"]),
        ("wa", "wa", "ra@5", 6, &[]),
        ("wa", "wb", "ra@0", 9, &["TAP8"]),
        ("wa", "da", "ra@0", 9, &[]),
        ("da", "wa", "ra@0", 9, &["TAP8"]),
        ("ra@0", "wb", "wa", 3, &["TAP8"]),
        ("ra@0", "wb", "wa", 6, &[]),
        ("ra@0", "ra@0", "da", 3, &[]),
        ("ra@0", "ra@0", "wa", 3, &["TAP8", "TAP8"]),
    ];
    for (first, second, last, micros, expected) in table {
        let mut witness = witness();
        let mut found = Vec::new();
        let names = (1..).map(|sequence| TransactionId { sequence, ..OTHER });
        for ((text, micros), id) in [(first, 5), (second, 7), (last, micros)].into_iter().zip(names) {
            assert!(found.is_empty(), "{first}, {second}: {found:?}");
            vote(&mut witness, id, text, micros, [2, 2]);
            witness.keep(replica(1, 0), &decided(id, commit(text, micros)), &mut found);
        }
        assert_eq!(properties(&found), expected, "{last} at {micros} after {first} and {second}");
    }
}

/// Agreements from before may be lost, and come to light again.
#[test]
fn what_had_begun_before_a_loss_was_accepted_is_held_against_nobody() {
    let mut witness = witness();
    let mut found = Vec::new();
    vote(&mut witness, ID, "wa", 5, [2, 2]);
    witness.keep(replica(1, 0), &decided(ID, commit("wa", 5)), &mut found);
    witness.begin_anew(replica(1, 1), &BTreeSet::from([ID]));
    witness.keep(replica(1, 1), &decided(ID, Decision::Abort { last: at(9) }), &mut found);
    vote(&mut witness, OTHER, "ra@0", 9, [2, 2]);
    witness.keep(replica(1, 0), &decided(OTHER, commit("ra@0", 9)), &mut found);
    witness.keep(replica(1, 2), &decided(ID, commit("wa", 5)), &mut found);
    assert!(found.is_empty(), "{found:?}");
    witness.keep(replica(1, 1), &decided(OTHER, Decision::Abort { last: at(9) }), &mut found);
    assert_eq!(properties(&found), ["TAP4"], "what began later is bound");
}

#[test]
fn what_replicas_say_is_passed_on_to_the_witness_of_their_group() {
    let (view, floor, below) = (View(1), at(4), at(4));
    let part = Part { series: 1, index: 0, count: 1 };
    let change = quorate_ir::Message::DoViewChange {
        view,
        last_normal: Some(View(0)),
        lineage: vec![View(0)],
        part,
        page: RecordPage::default(),
        outline: Outline::default(),
        supplement: Default::default(),
        floor,
        complete: floor,
        lives: BTreeMap::new(),
    };
    let started = quorate_ir::Message::StartView {
        view,
        since: None,
        part,
        page: RecordPage::default(),
        outline: Outline::default(),
        supplement: Default::default(),
        floor: Some(floor),
        state: None,
        state_to: None,
    };
    let raising = [
        Message::RaiseFloor { floor },
        Message::Gather { view, floor, below: at(9), from: Cursor::default() },
        Message::Ir(change.clone()),
        Message::Ir(started),
    ];
    let complete =
        [Message::Complete { view, below }, Message::CompleteReply { view, below }, Message::Ir(change)];
    for raises in &raising {
        let mut found = Vec::new();
        witness().hear(replica(1, 0), raises, &mut found);
        assert_eq!(properties(&found), ["IR7"], "{raises:?}");
        for complete in &complete {
            let mut witness = witness();
            witness.hear(replica(1, 1), complete, &mut Vec::new());
            let mut found = Vec::new();
            witness.hear(replica(1, 0), raises, &mut found);
            assert!(found.is_empty(), "{complete:?}, {raises:?}: {found:?}");
        }
    }
}

#[test]
fn a_hold_needs_a_favourable_vote_at_its_very_timestamp() {
    let told = |vote: Vote, micros: u64| {
        let mut replica = machine();
        let operation = Prepare { transaction: Arc::default(), timestamp: at(micros), first: None };
        let id = OperationId { transaction: ID, number: 1 };
        let fact = Fact::ConsensusRecorded { id, operation, verdict: vote };
        replica.ir.restore(fact, &mut Participant::new(crate::Rules::EXCLUSIVE, None));
        let (transaction, since) = (Arc::default(), Instant::START);
        replica.participant.prepared.insert(ID, Prepared { transaction, timestamp: at(5), since });
        catch_unwind(AssertUnwindSafe(|| replica.assert_whole())).is_ok()
    };
    assert!(told(Vote::Ok, 5));
    assert!(!told(Vote::Ok, 4) && !told(Vote::Abstain, 5) && !told(Vote::Retry(at(9)), 5));
}

#[test]
fn the_promises_of_what_is_open_or_has_not_run_are_nobodys_fault() {
    for executed in [false, true] {
        let mut replica = machine();
        replica.participant.promises.insert(ID, Promise::default());
        replica.assert_whole();
        let operation = Decision::Abort { last: at(1) };
        let fact = Fact::InconsistentRecorded { transaction: ID, operation, executed };
        replica.ir.restore(fact, &mut Participant::new(crate::Rules::EXCLUSIVE, None));
        let is_well = catch_unwind(AssertUnwindSafe(|| replica.assert_whole())).is_ok();
        assert_eq!(is_well, !executed);
    }
    let config = ReplicaConfig::new(replica(1, 0), GroupSize::new(3).unwrap(), Boot::Rejoin);
    let mut recovering = Replica::restore(config, []);
    recovering.participant.promises.insert(ID, Promise::default());
    let operation = Decision::Abort { last: at(1) };
    let fact = Fact::InconsistentRecorded { transaction: ID, operation, executed: true };
    recovering.ir.restore(fact, &mut Participant::new(crate::Rules::EXCLUSIVE, None));
    recovering.assert_whole();
}

/// A record of a view in which a transaction is prepared once, and has ended, if it has.
fn page(text: &str, micros: u64, verdict: Vote, decision: Option<Decision>) -> Record {
    let operation = Prepare { transaction: contents(text), timestamp: at(micros), first: None };
    let state = State::Finalized(Ballot::ORIGINAL);
    let entries = OperationEntries {
        inconsistent: decision.map(|operation| InconsistentEntry { operation, executed: true }),
        consensus: vec![ConsensusEntry { number: 1, operation, verdict, state }],
    };
    Record::ViewPage { view: View(1), page: RecordPage { entries: vec![(ID, entries)] } }
}

#[test]
fn the_records_that_a_view_begins_with_hold_votes_and_decisions() {
    // The vote that both shards have in the record of their view, how many replicas keep that, and what is found.
    let table: [(Vote, u64, u8, &[&str]); 5] = [
        (Vote::Ok, 5, 2, &[]),
        (Vote::Ok, 5, 1, &["TAP7", "TAP7"]),
        (Vote::Ok, 6, 2, &["TAP7", "TAP7"]),
        (Vote::Abstain, 5, 3, &["TAP7", "TAP7"]),
        (Vote::Retry(at(9)), 5, 3, &["TAP7", "TAP7"]),
    ];
    for (verdict, micros, replicas, expected) in table {
        let (mut witness, mut found) = (witness(), Vec::new());
        for (shard, index) in
            [1, 2].into_iter().flat_map(|shard| (0..replicas).map(move |index| (shard, index)))
        {
            witness.keep(replica(shard, index), &page("wa", micros, verdict, None), &mut found);
        }
        assert!(found.is_empty());
        let known = Some(commit("wa", 5));
        witness.keep(replica(1, 2), &page("wa", 4, Vote::Abort, known), &mut found);
        assert_eq!(properties(&found), expected, "{verdict:?} at {micros} of {replicas}");
        found.clear();
        let aborted = Some(Decision::Abort { last: at(9) });
        witness.keep(replica(1, 0), &page("wa", 5, verdict, aborted), &mut found);
        assert_eq!(properties(&found), ["TAP4"], "it has committed");
    }
}

#[test]
fn a_vote_counts_as_it_was_made_final_and_for_what_was_proposed_here() {
    let id = OperationId { transaction: ID, number: 1 };
    // The vote of the third replica of shard 1, and as what it was made final there.
    let table: [(Option<Vote>, Option<Vote>, &[&str]); 5] = [
        (Some(Vote::Ok), None, &[]),
        (Some(Vote::Abstain), None, &["TAP7"]),
        (Some(Vote::Abstain), Some(Vote::Ok), &[]),
        (Some(Vote::Abort), Some(Vote::Abort), &["TAP7"]),
        (None, None, &["TAP7"]),
    ];
    for (voted, made_final, expected) in table {
        let (mut witness, mut found) = (witness(), Vec::new());
        vote(&mut witness, ID, "wa", 5, [1, 2]);
        let prepare = Prepare { transaction: contents("wa"), timestamp: at(5), first: None };
        if let Some(vote) = voted {
            let prepare = prepare.clone();
            witness.keep(replica(1, 2), &Record::Voted { id, prepare, vote }, &mut found);
        }
        if let Some(vote) = made_final {
            let record = Record::VoteFinalized { id, vote, ballot: Ballot::ORIGINAL };
            witness.keep(replica(1, 2), &record, &mut found);
        }
        witness.keep(replica(1, 0), &decided(ID, commit("wa", 5)), &mut found);
        assert_eq!(properties(&found), expected, "{voted:?}, {made_final:?}");
    }
    // Of a prepare that was never seen nothing follows.
    let (mut witness, mut found) = (witness(), Vec::new());
    let record = Record::VoteFinalized { id, vote: Vote::Ok, ballot: Ballot::ORIGINAL };
    witness.keep(replica(1, 0), &record, &mut found);
    let record = Record::CommittedAsPrepared { id, last: at(5), executed: true };
    witness.keep(replica(1, 0), &record, &mut found);
    assert!(found.is_empty() && witness.held.is_empty() && witness.outcomes.is_empty());
}

#[test]
fn an_outcome_is_compared_with_those_of_all_participants_in_whatever_order_they_come_to_light() {
    let abort = || Decision::Abort { last: at(9) };
    let table: [(ReplicaId, Decision, ReplicaId, Decision, &[&str]); 7] = [
        (replica(2, 0), abort(), replica(1, 0), commit("wa", 5), &["TAP4"]),
        (replica(3, 0), abort(), replica(1, 0), commit("wa", 5), &[]),
        (replica(1, 1), abort(), replica(1, 0), commit("wa", 5), &["TAP4"]),
        (replica(1, 1), commit("wa", 5), replica(1, 0), abort(), &["TAP4"]),
        (replica(1, 0), commit("wa", 5), replica(2, 0), commit("wa", 6), &["TAP4", "TAP7", "TAP7"]),
        (replica(1, 0), abort(), replica(2, 0), abort(), &[]),
        // A shard that takes no part may say that it has aborted, and nothing else then.
        (replica(3, 0), abort(), replica(3, 1), commit("wa", 5), &["TAP4"]),
    ];
    for (first, one, second, other, expected) in table {
        let (mut witness, mut found) = (witness(), Vec::new());
        vote(&mut witness, ID, "wa", 5, [2, 2]);
        witness.keep(first, &decided(ID, one.clone()), &mut found);
        assert!(found.is_empty());
        witness.keep(second, &decided(ID, other.clone()), &mut found);
        let properties = properties(&found);
        assert_eq!(properties[..expected.len().min(properties.len())], *expected, "{one:?}, {other:?}");
        let told = found.iter().all(|violation| violation.transaction == Some(ID));
        assert!(told, "{found:?}");
    }
}

/// Transactions that commit in this order, and the properties that the last one is found to break.
fn last_of(transactions: &[(&str, u64)]) -> Vec<&'static str> {
    let (mut witness, mut found) = (witness(), Vec::new());
    for (sequence, (text, micros)) in (1..).zip(transactions) {
        found.clear();
        let id = TransactionId { sequence, ..OTHER };
        vote(&mut witness, id, text, *micros, [2, 2]);
        witness.keep(replica(1, 0), &decided(id, commit(text, *micros)), &mut found);
    }
    properties(&found)
}

#[test]
fn a_write_is_held_against_the_readers_up_to_the_next_version_and_no_others() {
    let none: [&str; 0] = [];
    assert_eq!(last_of(&[("wa", 5), ("ra@5 wa", 10), ("wa", 7)]), ["TAP8"], "a lost update");
    assert_eq!(last_of(&[("wa", 5), ("ra@5 wa", 10), ("wa", 12)]), none);
    assert_eq!(last_of(&[("wa", 5), ("wa", 10), ("ra@10", 20), ("wa", 7)]), none);
    assert_eq!(last_of(&[("wa", 5), ("ra@5", 20), ("wa", 10)]), ["TAP8"]);
    let told_already = [("wa", 5), ("ra@5", 20), ("wa", 10), ("wa", 7)];
    assert_eq!(last_of(&told_already), none, "the reader was found out by the next version");
    assert_eq!(last_of(&[("wa", 5), ("ra@5", 8), ("ra@5", 9), ("wa", 7)]), ["TAP8", "TAP8"]);
    assert_eq!(last_of(&[("wa", 5), ("ra@5", 7), ("wb", 6)]), none, "of another key");
}

#[test]
fn what_is_read_when_it_is_prepared_and_index_lists_have_no_timestamps() {
    let list = quorate_core::reserved::index_list_keys(1).remove(0);
    let (read, plain) = ((list, at(5)), (Key::from("a"), at(5)));
    for ((key, version), held, expected) in
        [(read.clone(), false, &[][..]), (plain.clone(), true, &[]), (plain, false, &["TAP8"])]
    {
        let (mut witness, mut found) = (witness(), Vec::new());
        let write = Write { key: key.clone(), value: None };
        let overwrites = Transaction { writes: vec![write], ..Transaction::clone(&contents("")) };
        let reads = vec![ReadVersion { key, version, deleted: false }];
        let reader = Transaction { reads, reads_when_prepared: held, ..Transaction::clone(&contents("")) };
        for (id, transaction, micros) in [(ID, overwrites, 7), (OTHER, reader, 9)] {
            vote(&mut witness, id, "", micros, [2, 2]);
            let (transaction, timestamp) = (Arc::new(transaction), at(micros));
            let decision = Decision::Commit { transaction, timestamp, last: timestamp };
            witness.keep(replica(1, 0), &decided(id, decision), &mut found);
        }
        assert_eq!(properties(&found), expected);
    }
}

#[test]
fn a_group_whose_size_nobody_has_shown_yet_proves_nothing() {
    let (mut witness, mut found) = (Witness::default(), Vec::new());
    witness.keep(replica(1, 0), &decided(ID, commit("wa", 5)), &mut found);
    assert!(found.is_empty());
    witness.see(&machine());
    witness.keep(replica(1, 0), &decided(OTHER, commit("wb", 6)), &mut found);
    assert_eq!(properties(&found), ["TAP7"], "of shard 2 nothing is known yet");
}

#[test]
fn a_replica_that_refuses_is_bound_until_it_begins_another_life() {
    let begins = |replica, life| Record::LifeNoted { replica: ReplicaIndex(replica), life };
    let kept_off = |change: &dyn Fn(&mut Witness)| {
        let (mut witness, mut found) = (witness(), Vec::new());
        let (view, below, from) = (View(0), at(9), Cursor::default());
        let (executed, open, next) = (Vec::new(), Vec::new(), None);
        let reply = Message::GatherReply { view, below, from, executed, open, next };
        witness.hear(replica(1, 0), &reply, &mut found);
        change(&mut witness);
        let prepare = Prepare { transaction: contents("wa"), timestamp: at(5), first: None };
        let id = OperationId { transaction: ID, number: 1 };
        witness.keep(replica(1, 0), &Record::Voted { id, prepare, vote: Vote::Ok }, &mut found);
        properties(&found)
    };
    let none: [&str; 0] = [];
    assert_eq!(kept_off(&|_| {}), ["IR8"]);
    assert_eq!(kept_off(&|witness| witness.keep(replica(1, 0), &begins(0, 2), &mut Vec::new())), none);
    assert_eq!(kept_off(&|witness| witness.keep(replica(1, 0), &begins(1, 2), &mut Vec::new())), ["IR8"]);
    assert_eq!(kept_off(&|witness| witness.keep(replica(2, 0), &begins(0, 2), &mut Vec::new())), ["IR8"]);
    assert_eq!(kept_off(&|witness| witness.begin_anew(replica(1, 0), &BTreeSet::new())), none);
    assert_eq!(kept_off(&|witness| witness.begin_anew(replica(1, 1), &BTreeSet::new())), ["IR8"]);
    assert_eq!(kept_off(&|witness| witness.begin_anew(replica(2, 0), &BTreeSet::new())), ["IR8"]);
}

#[test]
fn a_view_is_started_by_one_replica_with_one_record() {
    let started = |verdict| {
        let Record::ViewPage { view, page } = page("wa", 5, verdict, None) else { unreachable!() };
        Message::Ir(quorate_ir::Message::StartView {
            view,
            since: None,
            part: Part { series: 1, index: 0, count: 1 },
            page,
            outline: Outline::default(),
            supplement: Default::default(),
            floor: None,
            state: None,
            state_to: None,
        })
    };
    let table: [(ReplicaId, Vote, &[&str]); 4] = [
        (replica(1, 0), Vote::Ok, &[]),
        (replica(1, 0), Vote::Abort, &["IR6"]),
        (replica(1, 1), Vote::Ok, &["IR6"]),
        (replica(2, 1), Vote::Abort, &[]),
    ];
    for (from, verdict, expected) in table {
        let (mut witness, mut found) = (witness(), Vec::new());
        witness.hear(replica(1, 0), &started(Vote::Ok), &mut found);
        assert!(found.is_empty(), "no floor is raised: {found:?}");
        witness.hear(from, &started(verdict), &mut found);
        assert_eq!(properties(&found), expected, "{from}, {verdict:?}");
    }
}

#[test]
fn a_group_of_one_has_to_have_voted_as_well() {
    let (mut witness, mut found) = (witness(), Vec::new());
    (1..=2).for_each(|shard| witness.group(ShardId(shard)).note_majority(1));
    vote(&mut witness, ID, "wa", 5, [1, 0]);
    witness.keep(replica(1, 0), &decided(ID, commit("wa", 5)), &mut found);
    assert_eq!(properties(&found), ["TAP7"]);
}

#[test]
fn what_a_view_began_with_is_known_when_it_is_made_final_or_commits_as_it_is() {
    let id = OperationId { transaction: ID, number: 1 };
    let (mut witness, mut found) = (witness(), Vec::new());
    for (shard, index) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        witness.keep(replica(shard, index), &page("wa", 5, Vote::Abstain, None), &mut found);
        let record = Record::VoteFinalized { id, vote: Vote::Ok, ballot: Ballot::ORIGINAL };
        witness.keep(replica(shard, index), &record, &mut found);
    }
    let record = Record::CommittedAsPrepared { id, last: at(5), executed: true };
    witness.keep(replica(1, 0), &record, &mut found);
    assert!(found.is_empty() && witness.outcomes.len() == 1, "{found:?}");
}
