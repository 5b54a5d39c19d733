//! Decisions of inconsistent replication as tables, over the smallest protocol there is: operations are words, verdicts
//! are letters.

use quorate_core::{Ballot, ClientId, GroupSize, ReplicaIndex, Timestamp, TransactionId, View};

use crate::record::{merge_tails, split_page};
use crate::{
    ConsensusCall, ConsensusEntry, ConsensusProgress, InconsistentCall, OperationEntries, OperationId,
    Operations, Record, RecordPage, State,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words;

impl Operations for Words {
    type Inconsistent = &'static str;
    type Consensus = &'static str;
    type Verdict = char;
    type Supplement = ();
    type State = ();

    fn consensus_timestamp(_: &&'static str) -> Timestamp {
        Timestamp::ZERO
    }

    fn inconsistent_timestamp(_: &&'static str) -> Timestamp {
        Timestamp::ZERO
    }

    fn last_timestamp(_: &&'static str) -> Timestamp {
        Timestamp::ZERO
    }

    fn leaves_state(_: &&'static str) -> bool {
        true
    }

    fn as_proposed(_: &&'static str, _: &&'static str) -> Option<Timestamp> {
        None
    }

    fn of_proposed(proposed: &&'static str, _: Timestamp) -> &'static str {
        proposed
    }

    fn bytes(_: &&'static str) -> usize {
        1
    }

    fn consensus_bytes(_: &&'static str) -> usize {
        1
    }

    fn state_bytes((): &()) -> usize {
        1
    }

    fn is_favourable(verdict: &char) -> bool {
        *verdict == 'y'
    }
}

fn transaction(sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(1), sequence, attempt: 0 }
}

fn id(sequence: u64, number: u32) -> OperationId {
    OperationId { transaction: transaction(sequence), number }
}

fn entry(number: u32, verdict: char, state: State) -> ConsensusEntry<Words> {
    ConsensusEntry { number, operation: "op", verdict, state }
}

/// A call to a group of as many replicas as there are letters: `.` has not replied; a capital reply is final; a digit
/// before a letter is the view, 0 if there is none.
fn call(replies: &str) -> ConsensusCall<Words> {
    let words: Vec<&str> = replies.split_whitespace().collect();
    let mut call = ConsensusCall::new(GroupSize::new(words.len()).unwrap());
    for (index, word) in words.iter().enumerate() {
        let (view, letter) = match word.strip_prefix(|c: char| c.is_ascii_digit()) {
            Some(rest) => (word[..1].parse().unwrap(), rest.chars().next().unwrap()),
            None => (0, word.chars().next().unwrap()),
        };
        if letter != '.' {
            let verdict = letter.to_ascii_lowercase();
            call.on_reply(ReplicaIndex(index as u8), View(view), verdict, letter.is_ascii_uppercase());
        }
    }
    call
}

#[test]
fn progress_of_a_consensus_operation_as_a_table() {
    use ConsensusProgress::{Final, Follow, Quorum, Waiting};
    let fast = |verdict| Final { verdict, view: View(0), fast: true };
    let table = [
        (". . .", Waiting),
        ("y . .", Waiting),
        ("y y .", Quorum { view: View(0) }),
        ("y y y", fast('y')),
        ("y y n", Quorum { view: View(0) }),
        ("y y y y .", fast('y')),
        ("y y y n .", Quorum { view: View(0) }),
        ("n y y y y", fast('y')),
        // Verdicts of two views do not count together (T20).
        ("1y y y", Waiting),
        ("1y 1y y", Quorum { view: View(1) }),
        ("1y 1y 1y", Final { verdict: 'y', view: View(1), fast: true }),
        // A verdict that is final somewhere must be followed; if it is so at a majority, nothing is left to do.
        ("y N .", Follow { verdict: 'n', view: View(0) }),
        ("N N .", Final { verdict: 'n', view: View(0), fast: false }),
        ("1y N .", Waiting),
    ];
    for (replies, expected) in table {
        assert_eq!(call(replies).progress(), expected, "{replies}");
    }
}

#[test]
fn the_slow_path_needs_a_majority_of_confirms_of_its_view_and_verdict() {
    let mut call = call("y y n");
    call.start_finalizing('y', View(0));
    assert_eq!(call.progress(), ConsensusProgress::Finalizing);
    call.on_confirm(ReplicaIndex(0), View(0), Some('y'), true);
    call.on_confirm(ReplicaIndex(0), View(0), Some('y'), true);
    assert_eq!(call.progress(), ConsensusProgress::Finalizing, "a replica confirms once");
    call.on_confirm(ReplicaIndex(1), View(0), Some('n'), false);
    assert_eq!(call.progress(), ConsensusProgress::Finalizing, "another verdict confirms nothing");
    call.on_confirm(ReplicaIndex(2), View(0), Some('y'), true);
    assert_eq!(call.progress(), ConsensusProgress::Final { verdict: 'y', view: View(0), fast: false });
}

#[test]
fn another_final_verdict_ends_the_slow_path() {
    let mut call = call("y y n");
    call.start_finalizing('y', View(0));
    call.on_confirm(ReplicaIndex(2), View(0), Some('n'), true);
    assert_eq!(call.progress(), ConsensusProgress::Follow { verdict: 'n', view: View(0) });
    call.start_finalizing('n', View(0));
    call.on_confirm(ReplicaIndex(2), View(0), Some('n'), true);
    call.on_confirm(ReplicaIndex(0), View(0), Some('n'), true);
    assert_eq!(call.progress(), ConsensusProgress::Final { verdict: 'n', view: View(0), fast: false });
}

#[test]
fn replicas_that_contradict_each_other_do_not_keep_the_slow_path_going_round() {
    let mut call = call("y y n");
    call.start_finalizing('y', View(0));
    let mut rounds = 0;
    for _ in 0..10 {
        for (index, verdict) in [(0, 'y'), (2, 'n')] {
            call.on_confirm(ReplicaIndex(index), View(0), Some(verdict), true);
            if let ConsensusProgress::Follow { verdict, view } = call.progress() {
                call.start_finalizing(verdict, view);
                rounds += 1;
            }
        }
    }
    assert!(rounds <= 3, "each is followed once at most: {rounds}");
}

/// It has lost the operation, or is new: it has to be proposed to it again.
#[test]
fn a_replica_that_confirms_nothing_has_not_voted_in_that_view() {
    let missing = |call: &ConsensusCall<Words>| call.missing().map(|index| index.0).collect::<Vec<_>>();
    for (view, expected) in [(0, vec![2]), (1, vec![1, 2]), (2, vec![1, 2])] {
        let mut call = call("1y 1y .");
        call.start_finalizing('y', View(1));
        call.on_confirm(ReplicaIndex(1), View(view), None, false);
        assert_eq!(missing(&call), expected, "in view {view}");
        call.on_confirm(ReplicaIndex(9), View(view), None, false);
        assert_eq!(missing(&call), expected, "no member");
    }
}

#[test]
fn a_greater_view_ends_the_slow_path() {
    let mut call = call("y y n");
    call.start_finalizing('y', View(0));
    call.on_confirm(ReplicaIndex(0), View(0), Some('y'), true);
    call.on_confirm(ReplicaIndex(1), View(1), Some('n'), false);
    assert_eq!(call.progress(), ConsensusProgress::Waiting, "the others must be asked again");
    assert_eq!(call.missing().collect::<Vec<_>>(), [ReplicaIndex(0), ReplicaIndex(2)]);
    assert_eq!(call.lagging().collect::<Vec<_>>(), [ReplicaIndex(0), ReplicaIndex(2)]);
}

#[test]
fn a_fast_quorum_after_finalize_counts_only_if_it_says_the_same() {
    let mut same = call("y y y . .");
    same.start_finalizing('y', View(0));
    same.on_reply(ReplicaIndex(3), View(0), 'y', false);
    assert_eq!(same.progress(), ConsensusProgress::Final { verdict: 'y', view: View(0), fast: true });
    let mut other = call("y y y n .");
    other.start_finalizing('n', View(0));
    other.on_reply(ReplicaIndex(4), View(0), 'y', false);
    assert_eq!(other.progress(), ConsensusProgress::Finalizing);
}

#[test]
fn late_replies_of_lower_views_are_ignored() {
    let mut call = call("1y . .");
    call.on_reply(ReplicaIndex(0), View(0), 'n', false);
    assert_eq!(call.view(), Some(View(1)));
    call.on_reply(ReplicaIndex(9), View(5), 'n', false);
    assert_eq!(call.view(), Some(View(1)), "a replica that is none is ignored");
}

#[test]
fn an_inconsistent_operation_needs_a_majority_of_one_view() {
    let mut call = InconsistentCall::new(GroupSize::new(3).unwrap());
    call.on_reply(ReplicaIndex(0), View(0));
    call.on_reply(ReplicaIndex(1), View(1));
    assert!(!call.is_successful());
    call.on_reply(ReplicaIndex(0), View(1));
    assert!(call.is_successful());
    assert_eq!(call.missing().collect::<Vec<_>>(), [ReplicaIndex(2)]);
}

fn tail(entries: &[(u64, &[ConsensusEntry<Words>])]) -> RecordPage<Words> {
    let entries = entries
        .iter()
        .map(|(sequence, consensus)| {
            (transaction(*sequence), OperationEntries { inconsistent: None, consensus: consensus.to_vec() })
        })
        .collect();
    RecordPage { entries }
}

#[test]
fn tails_are_merged_by_final_then_fast_then_open() {
    let tentative = |verdict| entry(1, verdict, State::Tentative);
    let settled = |verdict, ballot| entry(1, verdict, State::Finalized(Ballot(ballot)));
    let one = tail(&[
        (1, &[tentative('y')]),
        (2, &[tentative('y')]),
        (3, &[settled('n', 0)]),
        (4, &[tentative('y')]),
    ]);
    let other = tail(&[(1, &[tentative('y')]), (2, &[tentative('n')]), (3, &[settled('y', 3)])]);
    let merged = merge_tails(&[one, other], 2);
    let ids = |list: &[(TransactionId, ConsensusEntry<Words>)]| -> Vec<(u64, char)> {
        list.iter().map(|(id, entry)| (id.sequence, entry.verdict)).collect()
    };
    assert_eq!(ids(&merged.decided), [(1, 'y')], "two of two may have been a fast quorum");
    assert_eq!(ids(&merged.undecided), [(2, 'y'), (4, 'y')]);
    assert_eq!(ids(&merged.finalized), [(3, 'y')], "the greater ballot counts");
}

/// Otherwise a view change would hold what nobody holds any more, and revoke what has succeeded since.
#[test]
fn an_operation_that_was_given_up_for_a_later_one_is_not_settled_as_favourable() {
    let held = entry(1, 'y', State::Tentative);
    let retried = entry(2, 'n', State::Finalized(Ballot::ORIGINAL));
    let one = tail(&[(1, &[held.clone(), retried])]);
    let merged = merge_tails(&[one, tail(&[(1, &[held])])], 2);
    assert!(merged.decided.is_empty(), "two of two, but both have gone on, or may have");
    assert_eq!(merged.superseded.iter().map(|(_, entry)| entry.number).collect::<Vec<_>>(), [1]);
    assert_eq!(merged.finalized.len(), 1);
}

/// It may have recorded the outcome and told it, although the client goes on: else a view change would lose a commit.
#[test]
fn what_a_backup_coordinator_has_made_final_counts_before_a_later_operation() {
    let given_up = entry(1, 'y', State::Tentative);
    let settled = entry(1, 'y', State::Finalized(Ballot(3)));
    let later = entry(2, 'y', State::Tentative);
    let one = tail(&[(1, &[settled, later.clone()])]);
    let merged = merge_tails(&[one, tail(&[(1, &[given_up, later])])], 2);
    let numbers = |list: &[(TransactionId, ConsensusEntry<Words>)]| -> Vec<u32> {
        list.iter().map(|(_, entry)| entry.number).collect()
    };
    assert_eq!((numbers(&merged.finalized), numbers(&merged.superseded)), (vec![1], vec![2]));
    assert!(merged.decided.is_empty() && merged.undecided.is_empty());
}

#[test]
fn an_outcome_settles_everything_else_of_its_transaction() {
    let mut record: Record<Words> = Record::default();
    record.record_consensus(transaction(1), entry(1, 'y', State::Tentative));
    record.record_inconsistent(transaction(1), "commit", false);
    assert!(record.consensus(id(1, 1)).is_some(), "it has not taken effect yet");
    record.mark_executed(transaction(1));
    assert!(record.consensus(id(1, 1)).is_none());
    let merged = merge_tails(&[record.tail(), tail(&[(1, &[entry(2, 'n', State::Tentative)])])], 2);
    assert_eq!(merged.inconsistent, [(transaction(1), "commit")]);
    assert!(merged.undecided.is_empty());
}

/// A record that was normal in views 0 and 4, with transaction 1 in the base of 4 and transaction 2 in the tail.
fn installed() -> Record<Words> {
    let mut record: Record<Words> = Record::default();
    record.enter_lineage(None, View(0));
    record.install(View(4), &tail(&[(1, &[entry(1, 'y', State::Finalized(Ballot::ORIGINAL))])]));
    record.enter_lineage(Some(View(0)), View(4));
    record.record_consensus(transaction(2), entry(1, 'y', State::Tentative));
    record
}

fn sequences(page: &RecordPage<Words>) -> Vec<u64> {
    page.entries.iter().map(|(id, _)| id.sequence).collect()
}

#[test]
fn a_tail_is_what_came_since_the_view_started() {
    let record = installed();
    assert_eq!(sequences(&record.tail()), [2]);
    assert_eq!(sequences(&record.beyond(Some(View(0)))), [1], "the tail is not part of the base");
    assert_eq!(sequences(&record.beyond(Some(View(4)))), [] as [u64; 0]);
    assert_eq!(sequences(&record.beyond(None)), [1]);
}

#[test]
fn a_late_receiver_is_told_what_settled_the_base() {
    let mut record = installed();
    record.record_inconsistent(transaction(1), "commit", true);
    record.record_inconsistent(transaction(3), "commit", true);
    let page = record.beyond(Some(View(0)));
    assert_eq!(sequences(&page), [1], "only what the base held");
    assert!(!page.entries[0].1.inconsistent.as_ref().unwrap().executed, "it is news, not base");
    let mut receiver: Record<Words> = Record::default();
    receiver.install(View(4), &page);
    assert_eq!(sequences(&receiver.tail()), [1], "so the receiver passes it on");
}

#[test]
fn a_new_view_forgets_verdicts_of_the_tail_but_never_facts() {
    let mut record = installed();
    record.record_inconsistent(transaction(3), "commit", true);
    let forgotten = record.forget_consensus_beyond(Some(View(4)));
    assert_eq!(forgotten, [(id(2, 1), "op")]);
    assert!(record.consensus(id(1, 1)).is_some(), "the shared base stays");
    assert!(record.inconsistent(transaction(3)).is_some());
    assert_eq!(record.forget_consensus_beyond(None), [(id(1, 1), "op")], "nothing is shared");
}

#[test]
fn a_receiver_claims_only_the_ancestors_that_it_shares() {
    // It skipped view 4, so what view 4 brought came to it with view 6, and must come again if 6 turns out to be no
    // ancestor of what follows.
    let mut receiver: Record<Words> = Record::default();
    receiver.enter_lineage(None, View(0));
    receiver.install(View(6), &installed().beyond(Some(View(0))));
    receiver.enter_lineage(Some(View(0)), View(6));
    assert_eq!(receiver.lineage(), [View(0), View(6)]);
    assert_eq!(installed().common_ancestor(receiver.lineage()), Some(View(0)));
    receiver.record_inconsistent(transaction(7), "commit", true);
    receiver.install(View(6), &receiver.tail());
    assert_eq!(sequences(&receiver.tail()), [] as [u64; 0]);
    assert_eq!(receiver.forget_consensus_beyond(Some(View(0))), [(id(1, 1), "op")]);
    assert_eq!(sequences(&receiver.tail()), [7], "a fact from an abandoned view is news to the others");
}

#[test]
fn lineages_meet_at_the_greatest_common_view() {
    let record = installed();
    assert_eq!(record.common_ancestor(&[View(0), View(3)]), Some(View(0)));
    assert_eq!(record.common_ancestor(&[View(0), View(4), View(6)]), Some(View(4)));
    assert_eq!(record.common_ancestor(&[View(2)]), None);
    assert_eq!(record.last_normal(), Some(View(4)));
}

#[test]
fn pages_are_split_by_size_and_keep_their_order() {
    let page = tail(&[(1, &[]), (2, &[]), (3, &[]), (4, &[]), (5, &[])]);
    let parts = split_page(page.clone(), 25, |_| 10);
    assert_eq!(parts.iter().map(sequences).collect::<Vec<_>>(), [vec![1, 2], vec![3, 4], vec![5]]);
    let parts = split_page(page.clone(), 20, |_| 10);
    assert_eq!(
        parts.iter().map(sequences).collect::<Vec<_>>(),
        [vec![1, 2], vec![3, 4], vec![5]],
        "a page is filled"
    );
    assert_eq!(split_page(page, 1, |_| 10).len(), 5, "an entry that is too large goes alone");
    assert_eq!(split_page(tail(&[]), 25, |_| 10).len(), 1, "an empty page is still sent");
}
