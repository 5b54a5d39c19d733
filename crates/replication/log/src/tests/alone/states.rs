//! Snapshots, step by step, and states that are given page by page.

use std::collections::BTreeMap;

use super::*;
use crate::Status;

/// The leader of one or of three, with so many stable entries.
fn leader(replicas: usize, count: u64) -> Alone {
    let mut alone = Alone::built(0, first(replicas), Vec::new());
    let began = alone.starts(Boot::Initialise);
    alone.syncs(&began);
    let acts = alone.appends(1..=count);
    alone.syncs(&acts);
    if replicas > 1 {
        alone.hears(1, holds(count));
    }
    assert_eq!(alone.replica.stable(), Position(count));
    alone
}

/// A backup says that it holds the log up to there.
fn holds(upto: u64) -> Message<Word> {
    Message::PrepareOk { view: View(0), upto: Position(upto), beat: 1, clock: None }
}

fn begins(alone: &mut Alone) -> (bool, Vec<Act>) {
    let mut has_begun = false;
    let acts = alone.steps(|replica, hands| has_begun = replica.begin_snapshot(hands));
    (has_begun, acts)
}

/// Begins a snapshot and writes it to its end.
fn snapshot(alone: &mut Alone) {
    assert!(begins(alone).0);
    alone.writes_snapshot();
}

fn begun(base: u64) -> Fact<Word> {
    Fact::SnapshotBegun {
        base: Position(base),
        base_view: View(0),
        view: View(0),
        last_normal: View(0),
        changing: false,
        lives: BTreeMap::new(),
        beginning: beginning(3),
    }
}

#[test]
fn a_snapshot_is_written_page_by_page_and_what_lies_before_goes_at_its_end() {
    let mut alone = leader(3, 3);
    alone.appends([4, 5]);
    let (has_begun, acts) = begins(&mut alone);
    assert!(has_begun);
    assert_eq!(
        acts,
        [
            Act::Anchor,
            Act::Persist(begun(3)),
            Act::Persist(Fact::SnapshotEntries(entries(0, [4, 5]))),
            Act::SetTimer(Timer::Snapshot, TIMING.beat),
        ],
        "what is not stable is kept as entries"
    );
    assert_eq!(alone.replica.bytes_since_snapshot(), 0);
    assert!(!begins(&mut alone).0, "it is under way");
    // Entries that become stable meanwhile are no part of it.
    alone.hears(1, holds(5));
    let acts = alone.appends([6]);
    alone.syncs(&acts);
    alone.hears(1, holds(6));
    let pause = Duration::from_millis(2);
    for words in [vec![1, 2], vec![3]] {
        let acts = alone.fires(Timer::Snapshot);
        assert_eq!(acts, [Act::Persist(Fact::SnapshotPage(words)), Act::SetTimer(Timer::Snapshot, pause)]);
    }
    assert_eq!(alone.fires(Timer::Snapshot), [Act::Persist(Fact::SnapshotEnded), Act::Truncate]);
    assert_eq!(alone.fires(Timer::Snapshot), [], "it has ended");
    assert!(begins(&mut alone).0, "more has become stable");
}

#[test]
fn unstable_entries_go_into_a_snapshot_as_many_at_once_as_a_message_has_room_for() {
    let mut alone = leader(3, 1);
    alone.appends(2..=12);
    let (_, acts) = begins(&mut alone);
    let entry_facts: Vec<Fact<Word>> =
        facts(&acts).into_iter().filter(|fact| matches!(fact, Fact::SnapshotEntries(_))).collect();
    let expected = [2..=6, 7..=11, 12..=12].map(|words| Fact::SnapshotEntries(entries(0, words)));
    assert_eq!(entry_facts, expected);
    alone.writes_snapshot();
    let (again, _) = alone.restarted();
    assert_eq!(again.log(), (2, (2..=12).map(Word::Own).collect()));
}

#[test]
fn nothing_is_written_down_of_which_nothing_is_new() {
    let mut alone = leader(1, 0);
    assert_eq!(begins(&mut alone), (false, vec![]));
    let acts = alone.appends([1]);
    alone.syncs(&acts);
    snapshot(&mut alone);
    assert_eq!(begins(&mut alone), (false, vec![]));
    let acts = alone.appends([2]);
    assert!(!begins(&mut alone).0, "it is not stable");
    alone.syncs(&acts);
    assert!(begins(&mut alone).0);
}

#[test]
fn a_snapshot_says_where_a_replica_was_that_has_left_its_view() {
    let mut alone = Alone::new(2, 3);
    let prepare = Message::Prepare {
        view: View(0),
        after: Position(0),
        entries: entries(0, [1]),
        stable: Position(1),
        beat: 1,
        clock: None,
    };
    alone.hears(0, prepare);
    alone.hears(1, Message::NewLife { life: 2 });
    alone.passes(2 * TIMING.lease);
    for from in [0, 1] {
        alone.hears(from, Message::StartViewChange { view: View(4), entered: true });
    }
    assert_eq!((alone.replica.status(), alone.replica.view()), (Status::ViewChanging, View(4)));
    let (_, acts) = begins(&mut alone);
    let expected = Fact::SnapshotBegun {
        base: Position(1),
        base_view: View(0),
        view: View(4),
        last_normal: View(0),
        changing: true,
        lives: BTreeMap::from([(ReplicaIndex(1), 2)]),
        beginning: beginning(3),
    };
    assert!(acts.contains(&Act::Persist(expected)), "{acts:?}");
}

#[test]
fn some_entries_before_a_snapshot_are_kept_for_those_a_little_behind() {
    let mut alone = leader(1, 10);
    snapshot(&mut alone);
    assert_eq!(alone.log(), (10 - LIMITS.kept + 1, (7..=10).map(Word::Own).collect()));
    let acts = alone.appends(11..=12);
    alone.syncs(&acts);
    snapshot(&mut alone);
    assert_eq!(alone.log().0, 12 - LIMITS.kept + 1);
}

#[test]
fn a_leader_shows_a_backup_that_lacks_what_is_forgotten_where_the_view_is() {
    let mut alone = leader(3, 10);
    snapshot(&mut alone);
    let told = |acts: &[Act]| {
        let is_start =
            |(to, message): (u8, Message<Word>)| matches!(message, Message::StartView { .. }).then_some(to);
        said(acts).into_iter().filter_map(is_start).collect::<Vec<u8>>()
    };
    assert_eq!(told(&alone.fires(Timer::Beat)), [2], "the other has everything");
    alone.hears(2, holds(6));
    assert!(told(&alone.fires(Timer::Beat)).is_empty(), "what it lacks is here");
}

/// The leader of three, which has forgotten how its log began, and the question of a backup that has nothing.
fn giving() -> (Alone, Message<Word>) {
    let mut alone = leader(3, 10);
    snapshot(&mut alone);
    (alone, Message::Fetch { view: View(0), after: Position(0), upto: Position(10) })
}

fn given(base: u64, page: u64, words: Option<&[u64]>) -> (u8, Message<Word>) {
    let state = words.map(<[u64]>::to_vec);
    (2, Message::FromState { view: View(0), base: Position(base), base_view: View(0), page, state })
}

fn wants(base: u64, page: u64) -> Message<Word> {
    Message::FetchState { view: View(0), base: Position(base), page }
}

#[test]
fn a_state_is_given_one_page_for_each_question_and_the_last_once_more() {
    let (mut alone, fetch) = giving();
    let acts = alone.hears(2, fetch.clone());
    assert_eq!(said(&acts), [given(10, 0, Some(&[1, 2]))]);
    assert_eq!(timer(&acts, Timer::Transfer), Some(TIMING.silence));
    let mut asks = |page| said(&alone.hears(2, wants(10, page)));
    assert_eq!(asks(1), [given(10, 1, Some(&[3, 4]))]);
    assert_eq!(asks(1), [given(10, 1, Some(&[3, 4]))], "it was lost");
    assert_eq!(asks(0), [], "that has come, if this was asked for");
    assert_eq!(asks(3), [], "nobody asks for what comes after the next");
    assert_eq!(asks(2), [given(10, 2, Some(&[5, 6]))]);
    assert_eq!(asks(3), [given(10, 3, Some(&[7, 8]))]);
    assert_eq!(asks(4), [given(10, 4, Some(&[9, 10]))]);
    assert_eq!(asks(5), [given(10, 5, None)], "there are no more");
    assert_eq!(asks(5), [given(10, 5, None)]);
}

#[test]
fn a_transfer_that_goes_on_is_not_begun_anew_by_what_comes_late() {
    let (mut alone, fetch) = giving();
    alone.hears(2, fetch.clone());
    assert_eq!(
        said(&alone.hears(2, fetch.clone())),
        [given(10, 0, Some(&[1, 2]))],
        "the first page was lost"
    );
    alone.hears(2, wants(10, 1));
    assert_eq!(said(&alone.hears(2, fetch.clone())), [], "that question is from before");
    // After a silence it may have restarted.
    alone.fires(Timer::Transfer);
    assert_eq!(said(&alone.hears(2, fetch.clone())), [given(10, 0, Some(&[1, 2]))]);
    // One that asks for more of an earlier state has not heard of this one.
    let acts = alone.appends([11]);
    alone.syncs(&acts);
    alone.hears(1, holds(11));
    alone.fires(Timer::Transfer);
    alone.hears(2, fetch);
    assert_eq!(said(&alone.hears(2, wants(10, 1))), [given(11, 0, Some(&[1, 2]))]);
    alone.hears(2, wants(11, 1));
    assert_eq!(said(&alone.hears(2, wants(10, 1))), [], "it has");
}

#[test]
fn a_question_of_another_view_is_not_answered_with_state() {
    let (mut alone, fetch) = giving();
    alone.hears(2, fetch);
    let of_view = |view, page| Message::FetchState { view: View(view), base: Position(10), page };
    assert_eq!(said(&alone.hears(2, of_view(1, 1))), []);
    assert_eq!(said(&alone.hears(2, of_view(0, 1))), [given(10, 1, Some(&[3, 4]))]);
    // A state that is not known here any more, perhaps after a restart, is frozen anew; but none before anything is stable.
    assert_eq!(said(&alone.hears(1, wants(20, 7)))[0].1, given(10, 0, Some(&[1, 2])).1);
    let mut empty = leader(3, 0);
    assert_eq!(said(&empty.hears(1, wants(20, 7))), []);
}

#[test]
fn a_state_that_is_not_asked_for_any_more_is_dropped() {
    let (mut alone, fetch) = giving();
    alone.hears(2, fetch);
    for silence in 1..=8 {
        let acts = alone.fires(Timer::Transfer);
        assert_eq!(
            timer(&acts, Timer::Transfer),
            Some(TIMING.silence),
            "after {silence} silences it is kept"
        );
    }
    assert_eq!(said(&alone.hears(2, wants(10, 1))), [given(10, 1, Some(&[3, 4]))]);
    for _ in 1..=8 {
        alone.fires(Timer::Transfer);
    }
    assert_eq!(alone.fires(Timer::Transfer), [], "nobody is given anything");
    assert_eq!(said(&alone.hears(2, wants(10, 2))), [given(10, 0, Some(&[1, 2]))], "it begins anew");
}

#[test]
fn entries_are_given_as_far_as_a_message_has_room_and_only_those_that_are_here() {
    let mut alone = leader(3, 10);
    let mut asks = |view, after, upto| {
        let fetch = Message::Fetch { view: View(view), after: Position(after), upto: Position(upto) };
        alone.hears(2, fetch)
    };
    let fetched = |after, words| {
        (2, Message::Fetched { view: View(0), after: Position(after), entries: entries(0, words) })
    };
    assert_eq!(said(&asks(0, 2, 4)), [fetched(2, 3..=4)]);
    assert_eq!(said(&asks(0, 2, 10)), [fetched(2, 3..=7)]);
    for (view, after, upto) in [(0, 2, 11), (0, 5, 4), (1, 2, 4)] {
        assert_eq!(asks(view, after, upto), [Act::Ignored("entries that are not here")]);
    }
    // Forgotten entries are not told one by one.
    snapshot(&mut alone);
    assert_eq!(alone.log().0, 7);
    let fetch = |after| Message::Fetch { view: View(0), after: Position(after), upto: Position(10) };
    assert_eq!(said(&alone.hears(2, fetch(6))), [fetched(6, 7..=10)]);
    assert_eq!(said(&alone.hears(2, fetch(5))), [given(10, 0, Some(&[1, 2]))]);
}

/// A replica that comes back without its disk, is at `view`, and is told to take over a log that begins with a state.
fn joining() -> Alone {
    let mut alone = Alone::new(2, 3);
    alone.passes(2 * TIMING.lease);
    let shape = crate::Shape::forgotten(Position(10), View(1));
    let begins = Message::StartView { view: View(1), shape, stable: Position(10), beginning: beginning(3) };
    let acts = alone.hears(1, begins);
    let fetch = Message::Fetch { view: View(1), after: Position(0), upto: Position(10) };
    assert_eq!(said(&acts), [(1, fetch)]);
    alone
}

fn gives(base: u64, page: u64, words: Option<&[u64]>) -> Message<Word> {
    let state = words.map(<[u64]>::to_vec);
    Message::FromState { view: View(1), base: Position(base), base_view: View(1), page, state }
}

fn asked(acts: &[Act]) -> Vec<(u64, u64)> {
    let page = |(_, message)| match message {
        Message::FetchState { base, page, .. } => Some((base.0, page)),
        _ => None,
    };
    said(acts).into_iter().filter_map(page).collect()
}

#[test]
fn a_state_is_taken_over_in_one_step_once_all_its_pages_have_come() {
    let mut alone = joining();
    assert_eq!(asked(&alone.hears(1, gives(10, 0, Some(&[1, 2])))), [(10, 1)]);
    assert_eq!(asked(&alone.hears(1, gives(10, 2, Some(&[9, 9])))), [], "one page is missing");
    assert_eq!(asked(&alone.hears(1, gives(11, 1, Some(&[9, 9])))), [], "that is of another state");
    assert_eq!(asked(&alone.hears(0, gives(10, 1, Some(&[9, 9])))), [], "it was not asked");
    assert_eq!(asked(&alone.fires(Timer::Silence)), [(10, 1)], "what is missing is asked for once more");
    let acts = alone.hears(1, gives(10, 1, Some(&[3])));
    assert_eq!((asked(&acts), facts(&acts)), (vec![(10, 2)], vec![]), "nothing is written before the end");
    let acts = alone.hears(1, gives(10, 2, None));
    let state = |page, words: &[u64]| Fact::ViewState { view: View(1), page, state: words.to_vec() };
    let installed = Fact::ViewInstalled {
        view: View(1),
        kept: Position(10),
        last: Position(10),
        from_state: Some(View(1)),
        beginning: beginning(3),
        lives: BTreeMap::new(),
    };
    assert_eq!(facts(&acts), [state(0, &[1, 2]), state(1, &[3]), installed]);
    assert!(acts.contains(&Act::ReplaceState(10, vec![vec![1, 2], vec![3]])));
    assert_eq!((alone.replica.status(), alone.replica.stable()), (Status::Normal, Position(10)));
    assert!(alone.replica.shape() == crate::Shape::forgotten(Position(10), View(1)));
}

#[test]
fn the_first_page_of_another_state_begins_anew() {
    let mut alone = joining();
    alone.hears(1, gives(10, 0, Some(&[1, 2])));
    assert_eq!(asked(&alone.hears(1, gives(12, 0, Some(&[5, 6])))), [(12, 1)]);
    let acts = alone.hears(1, gives(12, 1, None));
    assert!(acts.contains(&Act::ReplaceState(12, vec![vec![5, 6]])), "{acts:?}");
    assert_eq!(alone.replica.last(), Position(12), "the view has gone on meanwhile");
}

#[test]
fn a_state_of_less_than_is_stable_here_is_not_taken_over() {
    let mut alone = Alone::new(2, 3);
    let prepare = Message::Prepare {
        view: View(0),
        after: Position(0),
        entries: entries(0, 1..=5),
        stable: Position(5),
        beat: 1,
        clock: None,
    };
    alone.hears(0, prepare);
    alone.passes(2 * TIMING.lease);
    let shape = crate::Shape::forgotten(Position(10), View(1));
    let begins = Message::StartView { view: View(1), shape, stable: Position(10), beginning: beginning(3) };
    alone.hears(1, begins);
    let lacks = [Act::Ignored("log without what is stable here")];
    assert_eq!(alone.hears(1, gives(4, 0, Some(&[1, 2]))), lacks);
    assert_eq!(asked(&alone.hears(1, gives(5, 0, Some(&[1, 2])))), [(5, 1)], "all that is stable is in it");
    let far = Position(u64::MAX).0;
    assert_eq!(alone.hears(1, gives(far, 0, None)), [Act::Ignored(quorate_core::bound::reasons::POSITION)]);
}
