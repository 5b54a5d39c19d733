//! The state that each entry leads to.

use std::time::Duration;

use super::*;
use crate::container::{Container, Replicas};

const HERE: LocalSite = LocalSite(0);

fn v(numbers: &[u64]) -> Vector {
    Vector::new(numbers.to_vec())
}

fn version(site: u16, seqno: u64) -> VersionNumber {
    VersionNumber { site: LocalSite(site), seqno }
}

fn id(client: u64, sequence: u64) -> TransactionId {
    TransactionId { client: quorate_core::ClientId(client), sequence, attempt: 0 }
}

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn keys(words: &[&str]) -> Vec<Key> {
    words.iter().map(|word| Key::from(*word)).collect()
}

fn write(key: &str) -> Update {
    Update::Write { key: Key::from(key), value: Some(quorate_core::Value::from_static(b"x")) }
}

/// A transaction whose name says its site and number.
fn commit(site: u16, seqno: u64, snapshot: &[u64], updates: Vec<Update>) -> Arc<Commit> {
    let (transaction, version) = (id(u64::from(site), seqno), version(site, seqno));
    Arc::new(Commit { transaction, version, snapshot: v(snapshot), updates, is_slow: seqno == 2 })
}

fn removal(site: u16, successor: u16) -> Removal {
    Removal { site: LocalSite(site), successor: LocalSite(successor), end: None }
}

fn locked(sequence: u64, origin: u16, words: &[&str]) -> Entry {
    Entry::Locked { transaction: id(9, sequence), origin: LocalSite(origin), keys: keys(words) }
}

fn removed(site: u16, last: u64, barrier: &[u64]) -> Entry {
    Entry::Removed { site: LocalSite(site), end: End { last, barrier: v(barrier) } }
}

fn floor(floor: &[u64], forgotten: u64) -> Entry {
    Entry::Floor { floor: v(floor), forgotten: Period(forgotten) }
}

fn after(entries: &[Entry]) -> State {
    let mut state = State::new(HERE, Rules::SOUND);
    entries.iter().for_each(|entry| state.apply(entry, at(7)));
    state
}

/// Two transactions of this site and two of the second one, in turn.
fn busy() -> State {
    after(&[
        Entry::Commit(commit(0, 1, &[], vec![write("a")])),
        Entry::Received(vec![commit(1, 1, &[1], vec![write("b")])]),
        Entry::Advance(v(&[0, 1])),
        Entry::Commit(commit(0, 2, &[1, 1], vec![write("b")])),
        Entry::Received(vec![commit(1, 2, &[2, 1], vec![write("a")])]),
        Entry::Advance(v(&[0, 2])),
    ])
}

fn kept(state: &State) -> Vec<(u16, u64)> {
    let versions = state.journals.values().flatten().map(|commit| commit.version);
    versions.map(|version| (version.site.0, version.seqno)).collect()
}

#[test]
fn a_journal_begins_behind_the_floor() {
    let mut state = busy();
    assert_eq!(kept(&state), [(0, 1), (0, 2), (1, 1), (1, 2)]);
    assert_eq!((&state.committed, state.period, state.forgotten), (&v(&[2, 2]), Period(1), Period(0)));
    let known =
        |state: &State, site, seqno| state.commit(version(site, seqno)).map(|commit| commit.version.seqno);
    for (site, seqno, expected) in
        [(0, 0, None), (0, 1, Some(1)), (0, 2, Some(2)), (0, 3, None), (1, 2, Some(2)), (2, 1, None)]
    {
        assert_eq!(known(&state, site, seqno), expected, "s{site}.{seqno}");
    }
    state.apply(&floor(&[1, 1], 0), at(8));
    assert_eq!(kept(&state), [(0, 2), (1, 2)]);
    assert_eq!(state.histories.floor(), &v(&[1, 1]));
    for (site, seqno, expected) in
        [(0, 1, None), (0, 2, Some(2)), (1, 1, None), (1, 2, Some(2)), (1, 3, None)]
    {
        assert_eq!(known(&state, site, seqno), expected, "s{site}.{seqno}");
    }
    state.apply(&floor(&[2, 2], 1), at(8));
    assert!(state.journals.is_empty(), "{:?}", state.journals);
    assert_eq!((state.period, state.forgotten), (Period(3), Period(1)));
    state.apply(&floor(&[2, 2], 0), at(8));
    assert_eq!((state.period, state.forgotten), (Period(4), Period(1)), "nothing is remembered again");
}

#[test]
fn an_ending_is_remembered_until_its_period_is_forgotten_and_the_floor_includes_it() {
    let mut state = busy();
    state.apply(&Entry::Refused(id(5, 1)), at(8));
    state.apply(&Entry::Refused(id(5, 1)), at(8));
    assert_eq!((state.decided, state.ended_len()), ((2, 1), 3), "it is refused once");
    let committed = Ending::Committed { version: version(0, 2), snapshot: v(&[1, 1]), is_slow: true };
    assert_eq!(state.ending(id(0, 2)), Some(&committed));
    assert_eq!((state.ending(id(5, 1)), state.ending(id(1, 1))), (Some(&Ending::Aborted), None));
    assert_eq!(state.endings().count(), 3);
    state.apply(&floor(&[], 0), at(9));
    state.apply(&Entry::Refused(id(5, 2)), at(9));
    assert_eq!((state.ended_len(), state.overdue()), (4, 0));
    state.apply(&floor(&[1, 1], 1), at(9));
    assert_eq!(state.ending(id(5, 1)), None);
    assert_eq!(state.ending(id(0, 1)), None);
    assert!(state.ending(id(0, 2)).is_some(), "a lock may still depend on it");
    assert!(state.ending(id(5, 2)).is_some(), "it is of the next period");
    assert_eq!((state.ended_len(), state.overdue()), (2, 0));
    state.apply(&floor(&[2, 1], 1), at(9));
    assert_eq!((state.ending(id(0, 2)), state.ended_len()), (None, 1));
    state.apply(&floor(&[2, 1], 2), at(9));
    assert_eq!((state.ended_len(), state.fading.len()), (0, 0));
}

#[test]
fn an_ending_that_nothing_depends_on_is_overdue() {
    let mut state = busy();
    state.apply(&Entry::Refused(id(5, 1)), at(8));
    state.apply(&floor(&[], 0), at(8));
    state.apply(&Entry::Refused(id(5, 2)), at(8));
    assert_eq!(state.overdue(), 0);
    state.forgotten = Period(1);
    assert_eq!(state.overdue(), 1, "the floor includes neither of those that have committed");
    state.forgotten = Period(2);
    assert_eq!(state.overdue(), 2);
}

#[test]
fn a_lock_is_held_until_its_transaction_is_released_or_commits() {
    let mut state = busy();
    state.apply(&locked(1, 1, &["c", "d"]), at(11));
    state.apply(&locked(2, 2, &["e"]), at(12));
    let holder = |state: &State, key: &str| state.holder(key.as_bytes()).map(|id| id.sequence);
    assert_eq!(["c", "d", "e", "f"].map(|key| holder(&state, key)), [Some(1), Some(1), Some(2), None]);
    assert_eq!(state.locked().cloned().collect::<Vec<_>>(), keys(&["c", "d", "e"]));
    let lock = Lock { transaction: id(9, 1), origin: LocalSite(1), keys: keys(&["c", "d"]) };
    assert_eq!(state.locks.get(&id(9, 1)), Some(&(lock, at(11))));
    state.apply(&Entry::Released(id(9, 3)), at(13));
    state.apply(&Entry::Released(id(9, 1)), at(13));
    assert_eq!(["c", "d", "e"].map(|key| holder(&state, key)), [None, None, Some(2)]);
    assert_eq!(state.locks.len(), 1);
    let mut third = (*commit(2, 1, &[2, 2], vec![write("e")])).clone();
    third.transaction = id(9, 2);
    state.apply(&Entry::Received(vec![Arc::new(third)]), at(14));
    assert_eq!(holder(&state, "e"), Some(2), "it has not committed here");
    state.apply(&Entry::Advance(v(&[0, 0, 1])), at(14));
    assert_eq!((holder(&state, "e"), state.locks.len()), (None, 0));
    assert_eq!(state.committed, v(&[2, 2, 1]), "an earlier one takes nothing back");
}

#[test]
fn a_site_that_is_taken_out_keeps_what_it_ends_with() {
    let mut state = busy();
    state.apply(
        &Entry::Received(vec![commit(2, 1, &[], vec![write("f")]), commit(2, 2, &[], vec![write("f")])]),
        at(1),
    );
    state.apply(&Entry::Received(vec![commit(2, 3, &[], vec![write("g")])]), at(1));
    state.apply(&Entry::Advance(v(&[0, 0, 1])), at(1));
    state.apply(&locked(1, 1, &["c"]), at(1));
    let by_third = |sequence, word: &str| Entry::Locked {
        transaction: id(2, sequence),
        origin: LocalSite(2),
        keys: keys(&[word]),
    };
    for (sequence, word) in [(2, "d"), (3, "e")] {
        state.apply(&by_third(sequence, word), at(1));
    }
    assert!(state.are_settled() && state.freeze.is_none());
    state.apply(&Entry::Freeze(vec![removal(2, 0)]), at(2));
    let frozen = removal::Frozen { removals: 1, received: v(&[0, 0, 3]), committed: v(&[0, 0, 1]), seqno: 2 };
    assert_eq!(state.freeze, Some(frozen));
    assert_eq!((state.are_settled(), state.open_removals().collect::<Vec<_>>()), (false, vec![LocalSite(2)]));
    assert_eq!(state.successor(LocalSite(2)), None, "its end is open");
    state.apply(&removed(2, 2, &[5, 6]), at(3));
    assert!(state.are_settled());
    assert_eq!(
        state.removal(LocalSite(2)).and_then(|removal| removal.end.clone()).map(|end| end.last),
        Some(2)
    );
    assert_eq!(state.removal(LocalSite(1)), None);
    assert_eq!(kept(&state), [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]);
    assert_eq!(state.histories.received(), &v(&[2, 2, 2]));
    let left: Vec<TransactionId> = state.locks.keys().copied().collect();
    assert_eq!(
        left,
        [id(2, 2), id(9, 1)],
        "what it coordinated and is kept commits, and another site goes on"
    );
    assert_eq!(state.successor(LocalSite(2)), Some((HERE, v(&[5, 6]))));
    assert_eq!(state.successor(LocalSite(1)), Some((LocalSite(1), v(&[]))));
    // Another one is lost, and nothing is said again of the first.
    state.apply(&Entry::Freeze(vec![removal(2, 0), removal(1, 0)]), at(4));
    assert_eq!(state.removals.len(), 2);
    assert!(state.removals[0].end.is_some() && state.removals[1].end.is_none());
    let frozen = removal::Frozen { removals: 2, received: v(&[0, 2]), committed: v(&[0, 2]), seqno: 2 };
    assert_eq!(state.freeze, Some(frozen), "of those whose end is open");
    state.apply(&removed(1, 2, &[]), at(5));
    assert_eq!(state.open_removals().next(), None);
}

#[test]
fn a_successor_may_be_succeeded() {
    let mut state = after(&[
        Entry::Freeze(vec![removal(3, 2)]),
        removed(3, 0, &[1, 0, 4]),
        Entry::Freeze(vec![removal(3, 2), removal(2, 1)]),
    ]);
    assert_eq!(state.successor(LocalSite(3)), None);
    state.apply(&removed(2, 0, &[3, 7]), at(1));
    assert_eq!(state.successor(LocalSite(3)), Some((LocalSite(1), v(&[3, 7, 4]))));
    assert_eq!(state.successor(LocalSite(2)), Some((LocalSite(1), v(&[3, 7]))));
}

#[test]
fn a_role_that_was_handed_over_is_where_its_container_is() {
    let container = Some(Container { preferred: LocalSite(3), replicas: Replicas::ALL, stays: true });
    let placed =
        Entry::Commit(commit(0, 1, &[], vec![Update::Place { name: role(LocalSite(2)), container }]));
    let mut state = after(std::slice::from_ref(&placed));
    assert_eq!(state.successor(LocalSite(2)), Some((LocalSite(2), v(&[]))), "no site has joined");
    state.apply(&Entry::Join(vec![ShardId(7)]), at(1));
    assert_eq!(state.successor(LocalSite(2)), Some((LocalSite(3), v(&[1]))));
    assert_eq!(state.successor(LocalSite(1)), Some((LocalSite(1), v(&[]))));
}

#[test]
fn sites_join_in_one_order() {
    let mut state = after(&[Entry::Join(vec![ShardId(7), ShardId(8)])]);
    state.apply(&Entry::Join(vec![ShardId(7)]), at(1));
    assert_eq!(state.joined, [ShardId(7), ShardId(8)], "it was said before");
    state.apply(&Entry::Join(vec![ShardId(7), ShardId(8), ShardId(9)]), at(1));
    assert_eq!(state.joined.len(), 3);
}

fn pages(state: &State, bytes: usize) -> Vec<Page> {
    let mut frozen = state.freeze(bytes);
    let mut pages = Vec::new();
    while let Some(page) = frozen.next_page() {
        assert_eq!(frozen.is_done(), frozen.pages.is_empty());
        pages.push(page);
    }
    assert!(frozen.is_done());
    pages
}

/// A state with something of everything.
fn full() -> State {
    let mut state = busy();
    let add = |element: &str| Update::Add { set: Key::from("s"), element: Key::from(element), by: 2 };
    let container = Some(Container { preferred: LocalSite(1), replicas: Replicas::ALL, stays: true });
    let place = Update::Place { name: Key::from("p"), container };
    for entry in [
        Entry::Commit(commit(0, 3, &[2, 2], vec![write("h"), add("e"), add("f")])),
        Entry::Commit(commit(0, 4, &[3, 2], vec![place])),
        floor(&[4, 2], 0),
        Entry::Commit(commit(0, 5, &[4, 2], vec![write("h")])),
        Entry::Received(vec![
            commit(1, 3, &[5, 2], vec![write("b")]),
            commit(1, 4, &[5, 3], vec![write("b")]),
        ]),
        Entry::Advance(v(&[0, 3])),
        Entry::Commit(commit(0, 6, &[5, 3], vec![write("i")])),
        Entry::Received(vec![commit(1, 5, &[6, 4], vec![write("b")])]),
        Entry::Refused(id(5, 1)),
        locked(1, 1, &["c", "d"]),
        locked(2, 1, &["e"]),
        Entry::Join(vec![ShardId(7)]),
        Entry::Freeze(vec![removal(2, 0)]),
    ] {
        state.apply(&entry, at(20));
    }
    state
}

#[test]
fn a_state_in_pages_is_the_same_state() {
    let state = full();
    let names = |pages: &[Page]| -> String {
        let name = |page: &Page| match page {
            Page::Bounds { .. } => 'B',
            Page::Registers(_) => 'R',
            Page::Counts(_) => 'C',
            Page::Containers(_) => 'P',
            Page::Journal { horizon: Some(_), .. } => 'H',
            Page::Journal { .. } => 'J',
            Page::Removals { .. } => 'L',
            Page::Joined(_) => 'N',
            Page::Locks(_) => 'K',
            Page::Ended(_) => 'E',
            Page::Partial {} => '-',
        };
        pages.iter().map(name).collect()
    };
    assert_eq!(names(&pages(&state, 1)), "BLNRRRCCPJJJJJKKEEEEEEE");
    assert_eq!(names(&pages(&state, 1 << 20)), "BLNRCPJKE");
    let shared: Vec<Page> = state.freeze_shared(1).pages.into();
    assert_eq!(names(&shared), "BLNRRRCCPJJJJJ", "what was promised to others is its own");
    let data: Vec<Page> = state.freeze_data(1).pages.into();
    assert_eq!(names(&data), "RRRCCP");
    let Page::Bounds { floor, committed, period, forgotten } = pages(&state, 1).remove(0) else {
        panic!("a state begins with its bounds")
    };
    assert_eq!((floor, committed, period, forgotten), (v(&[4, 2]), v(&[6, 3]), Period(2), Period(0)));
    for bytes in [1, 1 << 20] {
        let copy = State::from_pages(pages(&state, bytes), HERE, Rules::SOUND, Retention::NONE);
        assert_eq!(pages(&copy, bytes), pages(&state, bytes));
        assert_eq!((&copy.committed, kept(&copy)), (&state.committed, kept(&state)));
        assert_eq!((copy.period, copy.forgotten), (Period(2), Period(0)));
        assert_eq!(
            (&copy.removals, &copy.freeze, &copy.joined),
            (&state.removals, &state.freeze, &state.joined)
        );
        assert_eq!(copy.histories.received(), state.histories.received());
        assert_eq!(copy.locked().cloned().collect::<Vec<_>>(), keys(&["c", "d", "e"]));
        assert_eq!(copy.holder(b"d"), Some(id(9, 1)));
        assert!(copy.locks.values().all(|(_, since)| *since == Instant::START), "they count as old");
        assert_eq!((copy.ended_len(), copy.ending(id(5, 1))), (7, Some(&Ending::Aborted)));
        assert!(copy.is_whole());
    }
}

#[test]
fn a_state_that_is_adopted_is_whole_with_its_last_page_alone() {
    let all: Vec<Page> = full().freeze_shared(1).pages.into();
    let mut state = State::joining(LocalSite(3), Rules::SOUND);
    let adopt = |state: &mut State, number: usize, is_last| {
        let page = all[number].clone();
        state.apply(&Entry::Adopt { number: number as u32, is_last, page }, at(1));
        state.adopted()
    };
    assert_eq!((state.is_whole(), state.adopted()), (false, 0));
    assert_eq!(adopt(&mut state, 1, true), 0, "the first one is missing");
    assert_eq!(adopt(&mut state, 0, false), 1);
    assert_eq!(adopt(&mut state, 2, false), 1);
    assert_eq!(adopt(&mut state, 1, false), 2);
    assert_eq!(adopt(&mut state, 1, false), 2);
    assert_eq!(adopt(&mut state, 0, false), 1, "another state begins");
    let part = pages(&state, 1);
    assert_eq!((&part[0], part[1..].len()), (&Page::Partial {}, 1));
    let copy = State::from_pages(part, LocalSite(3), Rules::SOUND, Retention::NONE);
    assert_eq!((copy.is_whole(), copy.adopted()), (false, 1));
    for number in 1..all.len() {
        assert!(!state.is_whole());
        adopt(&mut state, number, number == all.len() - 1);
    }
    assert_eq!((state.is_whole(), state.adopted()), (true, 0));
    assert_eq!((&state.committed, state.period, state.forgotten), (&v(&[6, 3]), Period(1), Period(0)));
    let frozen = removal::Frozen { removals: 1, received: v(&[]), committed: v(&[]), seqno: 0 };
    assert_eq!(state.freeze, Some(frozen), "how far it is itself");
    assert_eq!((state.ended_len(), state.locks.len()), (0, 0));
    assert_eq!(adopt(&mut state, 0, true), 0, "it is whole");
    assert_eq!(state.committed, v(&[6, 3]));
    state.apply(&Entry::Anew {}, at(2));
    assert_eq!((state.is_whole(), state.committed), (false, v(&[])));
}
