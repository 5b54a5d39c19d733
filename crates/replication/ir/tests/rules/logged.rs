//! The decisions in a log.

use super::*;

/// The facts on decisions that a member writes down in this step.
fn decision_facts(member: &mut Member, step: impl FnOnce(&mut Member)) -> Vec<Fact<Times>> {
    member.desk.facts.clear();
    step(member);
    let of_decisions = |fact: &Fact<Times>| {
        matches!(fact, Fact::InconsistentRecorded { .. } | Fact::ProposalTookEffect { .. })
    };
    std::mem::take(&mut member.desk.facts).into_iter().filter(of_decisions).collect()
}

#[test]
fn a_decision_refers_to_its_vote_if_that_stands_behind_the_anchor_of_every_snapshot() {
    let mut member = Member::new(0);
    let whole = |sequence, micros| Fact::InconsistentRecorded {
        transaction: transaction(sequence),
        operation: Decided { at: micros, last: micros },
        executed: true,
    };
    let reference = |sequence, number, micros| Fact::ProposalTookEffect {
        id: operation(sequence, number),
        last: at(micros),
        executed: true,
    };
    member.proposes(1, 1, 50);
    member.proposes(2, 1, 60);
    member.proposes(2, 2, 62);
    member.proposes(3, 1, 70);
    member.proposes(4, 1, 80);
    assert_eq!(decision_facts(&mut member, |member| member.decides(1, 50)), [reference(1, 1, 50)]);
    assert_eq!(decision_facts(&mut member, |member| member.decides(2, 62)), [reference(2, 2, 62)]);
    assert_eq!(
        decision_facts(&mut member, |member| member.decides(3, 71)),
        [whole(3, 71)],
        "it says something else"
    );
    member.replica.begin_snapshot(&mut member.desk);
    assert_eq!(decision_facts(&mut member, |member| member.decides(4, 80)), [whole(4, 80)]);
    assert_eq!(decision_facts(&mut member, |member| member.decides(5, 90)), [whole(5, 90)]);
    member.proposes(6, 1, 95);
    let learned = Decided { at: 95, last: 95 };
    let learns = |member: &mut Member| member.replica.learn(transaction(6), learned, &mut member.desk);
    assert_eq!(decision_facts(&mut member, learns), [reference(6, 1, 95)]);
}

#[test]
fn a_restart_finds_what_a_decision_refers_to() {
    let mut member = Member::new(0);
    member.proposes(1, 1, 50);
    member.decides(1, 50);
    let mut restarted = Member::new(0);
    for fact in member.desk.facts.drain(..) {
        restarted.replica.restore(fact, &mut restarted.desk.ledger);
    }
    assert_eq!(restarted.replica.record().tail(), member.replica.record().tail());
    assert_eq!(restarted.desk.ledger.stored, member.desk.ledger.stored);
    assert_eq!((restarted.runs(1), restarted.desk.ledger.held.len()), (1, 0));
}

/// A member in which one transaction ended at 50 and was collected.
fn that_has_collected(sequence: u64, replicas: usize) -> Member {
    let mut member = Member::of(0, replicas);
    member.decides(sequence, 50);
    let id = operation(sequence, OperationId::INCONSISTENT);
    member.replica.on_finalize_inconsistent(CLIENT, id, &mut member.desk);
    member.replica.complete_below(at(100), &mut member.desk);
    member.replica.raise_floor(at(100), &mut member.desk);
    while member.replica.collect(10) {}
    assert!(!member.replica.record().holds(transaction(sequence)));
    member
}

#[test]
fn a_restart_takes_a_second_end_of_what_had_been_collected_as_it_was_taken() {
    // A client that lies: the log holds both ends, and the record held one at a time.
    for (replicas, executed_at_once) in [(3, true), (5, false)] {
        let mut member = that_has_collected(1, replicas);
        member.decides(1, 200);
        let restarted = member.restarted();
        assert_eq!(restarted.replica.record().tail(), member.replica.record().tail());
        assert_eq!(restarted.replica.record().is_executed(transaction(1)), executed_at_once);
    }
}

#[test]
fn a_restart_takes_a_vote_on_what_had_been_collected_as_it_was_given() {
    let mut member = that_has_collected(1, 3);
    member.proposes(1, 1, 200);
    let restarted = member.restarted();
    assert_eq!(restarted.replica.record().tail(), member.replica.record().tail());
    assert!(!restarted.replica.record().is_executed(transaction(1)), "it goes on");
}

#[test]
#[should_panic(expected = "the log lacks the verdict")]
fn a_log_that_lacks_what_a_decision_refers_to_is_refused() {
    let mut member = Member::new(0);
    let fact = Fact::ProposalTookEffect { id: operation(1, 1), last: at(50), executed: true };
    member.replica.restore(fact, &mut member.desk.ledger);
}
