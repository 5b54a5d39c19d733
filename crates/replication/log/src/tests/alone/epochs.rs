//! From one epoch to the next, step by step.

use std::collections::BTreeMap;

use super::*;
use crate::{Run, Shape, Status};

const SILENCE: Option<Duration> = Some(TIMING.silence);

fn entry(view: u64, payload: Word) -> Entry<Word> {
    Entry { view: View(view), payload }
}

/// One of three whose log holds a word and the end of the epoch, which goes on with these; nothing of that is known as stable.
fn ending(me: u8, members: &[u8]) -> Alone {
    let next = Word::Next(group(1, members));
    if me == 0 {
        let mut alone = Alone::built(0, first(3), Vec::new());
        let began = alone.starts(Boot::Initialise);
        alone.syncs(&began);
        let acts = alone.steps(|replica, _| {
            assert!(replica.append(Word::Own(1)).is_some() && replica.append(next).is_some());
        });
        alone.syncs(&acts);
        return alone;
    }
    let mut alone = Alone::new(me, 3);
    alone.hears(0, prepare(vec![entry(0, Word::Own(1)), entry(0, next)], 0));
    alone
}

fn prepare(entries: Vec<Entry<Word>>, stable: u64) -> Message<Word> {
    Message::Prepare {
        view: View(0),
        after: Position(0),
        entries,
        stable: Position(stable),
        beat: 1,
        clock: None,
    }
}

/// Both entries are stable, as far as this replica is told.
fn ended(me: u8, members: &[u8]) -> (Alone, Vec<Act>) {
    let mut alone = ending(me, members);
    let acts = if me == 0 {
        alone.hears(1, Message::PrepareOk { view: View(0), upto: Position(2), beat: 1, clock: None })
    } else {
        alone.hears(0, prepare(Vec::new(), 2))
    };
    (alone, acts)
}

fn begins_with(members: &[u8]) -> Beginning {
    Beginning { membership: group(1, members), base: Position(2), view: View(0) }
}

fn installed(view: View, members: &[u8]) -> Fact<Word> {
    let beginning = begins_with(members);
    let (kept, last, lives) = (Position(2), Position(2), BTreeMap::new());
    Fact::ViewInstalled { view, kept, last, from_state: None, beginning, lives }
}

/// The view with which the second epoch begins.
fn second() -> View {
    View::first_of(Epoch(1))
}

/// All of a log that ends with the first epoch.
fn whole() -> Shape {
    Shape { base: Position::START, runs: vec![Run { view: View(0), first: Position(1) }], last: Position(2) }
}

fn begun(members: &[u8], shape: Shape) -> Message<Word> {
    Message::EpochBegun { membership: group(1, members), shape }
}

/// Which others are told that an epoch has begun, each once.
fn told(acts: &[Act]) -> Vec<u8> {
    let is_begun =
        |(to, message): (u8, Message<Word>)| matches!(message, Message::EpochBegun { .. }).then_some(to);
    let mut told: Vec<u8> = said(acts).into_iter().filter_map(is_begun).collect();
    told.sort_unstable();
    told.dedup();
    told
}

#[test]
fn an_epoch_ends_once_its_last_entry_is_stable_and_in_a_step_of_its_own() {
    for me in [0, 1] {
        let mut alone = ending(me, &[0, 1, 3]);
        alone.fires(Timer::Epoch);
        assert_eq!(alone.replica.membership().epoch(), Epoch(0), "its last entry is not stable");
        let (mut alone, acts) = ended(me, &[0, 1, 3]);
        assert_eq!(timer(&acts, Timer::Epoch), Some(Duration::ZERO));
        assert_eq!((alone.replica.membership().epoch(), told(&acts)), (Epoch(0), vec![]));
        assert!(!alone.replica.knows_all(), "the next may have begun elsewhere");
        let acts = alone.fires(Timer::Epoch);
        assert_eq!(facts(&acts), [installed(second(), &[0, 1, 3])]);
        assert_eq!((alone.replica.view(), alone.replica.status()), (second(), Status::Normal));
        let others: Vec<u8> = [0, 1, 2, 3].into_iter().filter(|other| *other != me).collect();
        assert_eq!(told(&acts), others, "all of both groups");
        assert!(said(&acts).contains(&(2, begun(&[0, 1, 3], whole()))));
        assert_eq!(timer(&acts, Timer::Epoch), SILENCE);
        assert_eq!(acts.contains(&Act::Deposed), me == 0, "a leader leads no longer");
        assert_eq!(acts.contains(&Act::Leading(second())), me == 0, "and the first member leads");
    }
}

#[test]
fn nothing_is_appended_and_no_snapshot_begun_between_the_end_of_an_epoch_and_the_next() {
    let (mut alone, _) = ended(0, &[0, 1, 3]);
    let mut has_begun = true;
    alone.steps(|replica, hands| has_begun = replica.begin_snapshot(hands));
    assert!(!has_begun, "the entry that ends an epoch stays until the next begins");
    alone.steps(|replica, _| assert_eq!(replica.append(Word::Own(7)), None));
    alone.steps(|replica, _| assert_eq!(replica.append(Word::Next(group(2, &[0]))), None));
    alone.fires(Timer::Epoch);
    alone.steps(|replica, _| {
        assert_eq!(replica.append(Word::Next(group(1, &[0]))), None, "that is the present one")
    });
    alone.steps(|replica, _| assert_eq!(replica.append(Word::Own(7)), Some(Position(3))));
    alone.steps(|replica, hands| has_begun = replica.begin_snapshot(hands));
    assert!(has_begun);
    let begun = alone.disk.iter().rev().find_map(|fact| match fact {
        Fact::SnapshotBegun { base, view, beginning, .. } => Some((*base, *view, beginning.clone())),
        _ => None,
    });
    assert_eq!(begun, Some((Position(2), second(), begins_with(&[0, 1, 3]))));
}

#[test]
fn members_are_told_of_an_epoch_until_they_have_gone_on_to_it() {
    let (mut alone, _) = ended(1, &[0, 1, 3]);
    alone.fires(Timer::Epoch);
    let acts = alone.fires(Timer::Epoch);
    assert_eq!(
        (told(&acts), timer(&acts, Timer::Epoch)),
        (vec![0, 3], SILENCE),
        "the next time members only"
    );
    alone.hears(3, Message::EpochStarted);
    let acts = alone.fires(Timer::Epoch);
    assert_eq!((told(&acts), timer(&acts, Timer::Epoch)), (vec![0], SILENCE));
    alone.hears(0, Message::EpochStarted);
    assert_eq!(alone.fires(Timer::Epoch), [], "everybody has");
    // A restart does not know of that, and asks once more.
    let (mut again, acts) = alone.restarted();
    assert_eq!(timer(&acts, Timer::Epoch), SILENCE);
    assert_eq!(told(&again.fires(Timer::Epoch)), [0, 3]);
}

#[test]
fn a_replica_of_the_first_epoch_tells_nobody_of_it() {
    let mut alone = Alone::new(1, 3);
    assert_eq!(alone.fires(Timer::Epoch), []);
    assert_eq!(
        said(&alone.hears_of(Epoch(0), 2, begun(&[0, 1, 3], whole()))),
        [],
        "that is of another epoch"
    );
}

#[test]
fn a_message_of_an_earlier_epoch_is_answered_with_the_present_one_and_of_a_later_with_a_question() {
    let (mut alone, _) = ended(1, &[0, 1, 3]);
    alone.fires(Timer::Epoch);
    let earlier = alone.hears_of(Epoch(0), 2, Message::Join { view: View(0) });
    assert_eq!(said(&earlier), [(2, begun(&[0, 1, 3], whole()))]);
    let of_view = |epoch, view| (epoch, Message::StartViewChange { view, entered: true });
    let later = View::first_of(Epoch(2));
    let (epoch, message) = of_view(Epoch(2), later);
    assert_eq!(said(&alone.hears_of(epoch, 0, message)), [(0, Message::Join { view: second() })]);
    for (epoch, view) in [(Epoch(1), later), (Epoch(2), second()), (Epoch(1), View(0))] {
        let (epoch, message) = of_view(epoch, view);
        assert_eq!(alone.hears_of(epoch, 0, message), [Act::Ignored("view of another epoch")]);
    }
    // One that has said of an earlier epoch that it begins has not heard of this one.
    let (mut alone, _) = ended(1, &[0, 1, 3]);
    alone.fires(Timer::Epoch);
    let next = Word::Next(group(3, &[0, 1, 4]));
    let message = Message::Prepare {
        view: second(),
        after: Position(2),
        entries: vec![Entry { view: second(), payload: next }],
        stable: Position(3),
        beat: 1,
        clock: None,
    };
    alone.hears(0, message);
    alone.fires(Timer::Epoch);
    assert_eq!(alone.replica.membership().epoch(), Epoch(3));
    let acts = alone.hears_of(Epoch(1), 2, begun(&[0, 1, 3], whole()));
    let answered = said(&acts).into_iter().map(|(to, message)| match message {
        Message::EpochBegun { membership, .. } => (to, membership.epoch()),
        other => panic!("{other:?}"),
    });
    assert_eq!(answered.collect::<Vec<_>>(), [(2, Epoch(3))]);
}

#[test]
fn the_beginning_of_an_epoch_is_told_with_all_of_the_log_that_is_known() {
    let (mut alone, _) = ended(0, &[0, 1, 3]);
    alone.fires(Timer::Epoch);
    let last = |alone: &mut Alone| {
        let acts = alone.hears_of(Epoch(0), 2, Message::Join { view: View(0) });
        said(&acts).into_iter().next_back().map(|(_, message)| message)
    };
    assert_eq!(last(&mut alone), Some(begun(&[0, 1, 3], whole())));
    let acts = alone.appends([2, 3]);
    alone.syncs(&acts);
    assert_eq!(
        last(&mut alone),
        Some(begun(&[0, 1, 3], whole())),
        "what was appended since is no part of it"
    );
    // Forgotten entries are told by the view of the last one.
    let (again, _) = {
        let acts = alone.appends(4..=9);
        alone.syncs(&acts);
        let upto = alone.replica.last();
        alone.hears(1, Message::PrepareOk { view: second(), upto, beat: 1, clock: None });
        assert_eq!(alone.replica.stable(), upto);
        alone.steps(|replica, hands| assert!(replica.begin_snapshot(hands)));
        alone.writes_snapshot();
        alone.restarted()
    };
    let mut again = again;
    assert_eq!(last(&mut again), Some(begun(&[0, 1, 3], Shape::forgotten(Position(2), View(0)))));
}

#[test]
fn a_replica_that_is_no_member_any_more_retires_with_what_members_may_want() {
    let (mut alone, _) = ended(2, &[0, 1, 3]);
    let acts = alone.fires(Timer::Epoch);
    assert_eq!(facts(&acts), [installed(second(), &[0, 1, 3])]);
    assert_eq!((alone.replica.status(), told(&acts)), (Status::Retired, vec![0, 1, 3]));
    assert!(acts.contains(&Act::CancelTimer(Timer::Silence)));
    assert_eq!(timer(&acts, Timer::Epoch), SILENCE);
    // Members are given what they lack, and nothing else is heard.
    let fetch = Message::Fetch { view: second(), after: Position(0), upto: Position(2) };
    let given = said(&alone.hears(3, fetch));
    assert!(
        matches!(given.as_slice(), [(3, Message::Fetched { entries, .. })] if entries.len() == 2),
        "{given:?}"
    );
    let beat = Message::Prepare {
        view: second(),
        after: Position(2),
        entries: entries(second().0, [9]),
        stable: Position(3),
        beat: 1,
        clock: None,
    };
    assert_eq!(alone.hears(0, beat), []);
    assert_eq!(alone.replica.last(), Position(2));
    // It is needed until a majority of the members have gone on, and then no more.
    assert!(!alone.hears(1, Message::EpochStarted).contains(&Act::HandedOver));
    assert!(!alone.hears(1, Message::EpochStarted).contains(&Act::HandedOver), "that is one of three");
    assert!(!alone.replica.is_handed_over());
    let (again, _) = alone.restarted();
    assert_eq!(again.replica.status(), Status::Retired);
    assert!(alone.hears(0, Message::EpochStarted).contains(&Act::HandedOver));
    assert!(alone.replica.is_handed_over());
    assert_eq!(alone.hears(3, Message::EpochStarted), [], "it is said once");
    assert_eq!(alone.fires(Timer::Epoch), [], "nobody has to be told any more");
}

#[test]
fn a_replica_that_retires_without_all_entries_is_needed_by_nobody() {
    let mut alone = Alone::new(2, 3);
    let acts = alone.hears_of(Epoch(1), 0, begun(&[0, 1, 3], whole()));
    assert_eq!((alone.replica.status(), facts(&acts), told(&acts)), (Status::Retired, vec![], vec![]));
    assert!(acts.contains(&Act::HandedOver) && alone.replica.is_handed_over());
    assert_eq!(alone.hears(1, Message::EpochStarted), []);
    // Its entries were unstable, and are stable now: the others' log shows that it has everything.
    let mut alone = ending(2, &[0, 1, 3]);
    let acts = alone.hears_of(Epoch(1), 0, begun(&[0, 1, 3], whole()));
    assert_eq!(facts(&acts), [installed(second(), &[0, 1, 3])]);
    assert_eq!((alone.replica.stable(), alone.state.len()), (Position(2), 2));
    // Another log does not.
    let mut alone = ending(2, &[0, 1, 3]);
    let mut other = whole();
    other.runs.push(Run { view: View(3), first: Position(2) });
    let acts = alone.hears_of(Epoch(1), 0, begun(&[0, 1, 3], other));
    assert_eq!((facts(&acts), alone.replica.stable()), (vec![], Position(0)));
    assert!(acts.contains(&Act::HandedOver));
}

#[test]
fn a_member_that_lacks_entries_fetches_them_from_the_replica_that_told_it() {
    let mut alone = Alone::new(1, 3);
    let acts = alone.hears_of(Epoch(1), 2, begun(&[0, 1, 3], whole()));
    assert_eq!((alone.replica.status(), facts(&acts)), (Status::Recovering, vec![]));
    let fetch = Message::Fetch { view: second(), after: Position(0), upto: Position(2) };
    assert_eq!(said(&acts), [(2, fetch.clone())]);
    assert_eq!(timer(&acts, Timer::Silence), SILENCE);
    // Until then it neither votes nor tells others.
    assert!(told(&alone.fires(Timer::Epoch)).is_empty());
    assert_eq!(
        said(&alone.hears(0, Message::StartViewChange { view: View(second().0 + 1), entered: true })),
        []
    );
    assert_eq!(said(&alone.hears(0, begun(&[0, 1, 3], whole()))), [], "one is asked at a time");
    assert_eq!(said(&alone.fires(Timer::Silence)), [(2, fetch)]);
    let payloads = [Word::Own(1), Word::Next(group(1, &[0, 1, 3]))];
    let entries: Vec<Entry<Word>> = payloads.into_iter().map(|payload| entry(0, payload)).collect();
    let fetched = Message::Fetched { view: second(), after: Position(0), entries: entries.clone() };
    let acts = alone.hears(2, fetched);
    let page = Fact::ViewPage { view: second(), after: Position(0), entries };
    let Fact::ViewInstalled { view, last, from_state, beginning, lives, .. } =
        installed(second(), &[0, 1, 3])
    else {
        unreachable!("it is one")
    };
    let installed = Fact::ViewInstalled { view, kept: Position(0), last, from_state, beginning, lives };
    assert_eq!(facts(&acts), [page, installed]);
    assert_eq!((alone.replica.status(), alone.replica.stable()), (Status::Normal, Position(2)));
    assert_eq!(told(&acts), [0, 3]);
    assert_eq!(said(&alone.hears(2, begun(&[0, 1, 3], whole()))), [(2, Message::EpochStarted)]);
    let (again, _) = alone.restarted();
    assert_eq!(
        (again.replica.status(), again.replica.view(), again.state.len()),
        (Status::Normal, second(), 2)
    );
}

#[test]
fn members_that_are_silent_are_asked_no_more_until_all_were() {
    let mut alone = Alone::new(1, 3);
    alone.hears_of(Epoch(1), 2, begun(&[0, 1, 3], whole()));
    let asked = |acts: &[Act]| {
        said(acts).into_iter().find(|(_, message)| matches!(message, Message::Fetch { .. })).map(|(to, _)| to)
    };
    let tells = |alone: &mut Alone, from| asked(&alone.hears(from, begun(&[0, 1, 3], whole())));
    for _ in 0..2 {
        alone.fires(Timer::Silence);
        assert_eq!(tells(&mut alone, 0), None, "the first still has time");
    }
    alone.fires(Timer::Silence);
    assert_eq!(tells(&mut alone, 2), None, "it has had its turn");
    assert_eq!(tells(&mut alone, 0), Some(0));
    for _ in 0..3 {
        alone.fires(Timer::Silence);
    }
    assert_eq!((tells(&mut alone, 2), tells(&mut alone, 0)), (None, None), "both have had theirs");
    for _ in 0..2 {
        alone.fires(Timer::Silence);
        assert_eq!(tells(&mut alone, 2), None);
    }
    alone.fires(Timer::Silence);
    assert_eq!(tells(&mut alone, 2), Some(2), "nobody else speaks");
}

#[test]
fn an_epoch_that_cannot_be_is_not_believed() {
    let mut alone = Alone::new(1, 3);
    let mut unsound = whole();
    unsound.runs[0].first = Position(2);
    let nothing = Shape::default();
    for shape in [unsound, nothing] {
        assert_eq!(alone.hears_of(Epoch(1), 0, begun(&[0, 1, 3], shape)), []);
    }
    let far = Epoch(u32::MAX);
    let message = Message::EpochBegun { membership: group(far.0, &[0, 1, 3]), shape: whole() };
    let reason = quorate_core::bound::reasons::EPOCH;
    assert_eq!(alone.hears_of(far, 0, message), [Act::Ignored(reason)]);
    assert_eq!(
        alone.hears_of(Epoch(2), 0, begun(&[0, 1, 3], whole())),
        [Act::Ignored("membership of another epoch")]
    );
    assert_eq!((alone.replica.membership().epoch(), alone.replica.status()), (Epoch(0), Status::Normal));
}

#[test]
fn a_new_replica_goes_on_with_the_first_epoch_of_which_it_is_a_member() {
    let mut alone = Alone::built(3, group(0, &[0, 1, 2]), Vec::new());
    let acts = alone.starts(Boot::Join);
    assert_eq!(facts(&acts), [Fact::Awaiting]);
    let join = Message::Join { view: View(0) };
    assert_eq!(said(&acts), [(0, join.clone()), (1, join.clone()), (2, join)]);
    assert_eq!(alone.replica.status(), Status::Recovering);
    let (again, acts) = alone.restarted();
    assert_eq!((again.replica.status(), facts(&acts)), (Status::Recovering, vec![]));
    // Its host knows of an epoch of which it is a member; an earlier one says nothing to it.
    let mut alone = Alone::built(3, group(0, &[0, 1, 2]), Vec::new());
    alone.starts(Boot::Join);
    alone.steps(|replica, hands| replica.want(group(2, &[0, 1, 3]), hands));
    assert_eq!(said(&alone.hears_of(Epoch(1), 0, begun(&[0, 1, 2], whole()))), []);
    assert_eq!(alone.replica.status(), Status::Recovering);
    let begun = Message::EpochBegun { membership: group(2, &[0, 1, 3]), shape: whole() };
    let acts = alone.hears_of(Epoch(2), 0, begun);
    let view = View::first_of(Epoch(2));
    assert_eq!(said(&acts), [(0, Message::Fetch { view, after: Position(0), upto: Position(2) })]);
    // One that is named by none that its host knows retires with the first that it hears of.
    let mut alone = Alone::built(3, group(0, &[0, 1, 2]), Vec::new());
    alone.starts(Boot::Join);
    let acts = alone.hears_of(Epoch(1), 0, self::begun(&[0, 1, 2], whole()));
    assert_eq!(alone.replica.status(), Status::Retired);
    assert!(acts.contains(&Act::HandedOver));
}

#[test]
fn members_whom_the_host_knows_are_asked_until_the_group_has_gone_on() {
    let mut alone = Alone::new(1, 3);
    let join = |to| (to, Message::Join { view: View(0) });
    let wanted = group(4, &[1, 5, 6]);
    let acts = alone.steps(|replica, hands| replica.want(wanted.clone(), hands));
    assert_eq!((said(&acts), timer(&acts, Timer::Epoch)), (vec![join(5), join(6)], SILENCE));
    let acts = alone.fires(Timer::Epoch);
    assert_eq!((said(&acts), timer(&acts, Timer::Epoch)), (vec![join(5), join(6)], SILENCE));
    alone.steps(|replica, hands| replica.want(group(3, &[1, 7, 8]), hands));
    assert_eq!(alone.replica.wanted(), Some(&wanted), "that is earlier");
    // A leader asks nobody: it sees to it.
    let mut leader = Alone::new(0, 3);
    let acts = leader.steps(|replica, hands| replica.want(wanted.clone(), hands));
    assert_eq!((said(&acts), timer(&acts, Timer::Epoch)), (vec![], SILENCE));
    // Once the epoch has come nothing is wanted, and an epoch that is ending is not asked about.
    let (mut alone, _) = ended(1, &[0, 1, 3]);
    let acts = alone.steps(|replica, hands| replica.want(group(1, &[0, 1, 3]), hands));
    assert_eq!(acts, []);
    alone.fires(Timer::Epoch);
    assert_eq!(alone.replica.wanted(), None);
}

#[test]
fn what_is_known_of_an_epoch_does_not_count_in_the_next() {
    let (mut alone, _) = ended(1, &[0, 1, 3]);
    alone.hears(2, Message::NewLife { life: 3 });
    alone.hears(2, Message::StartViewChange { view: View(1), entered: false });
    let acts = alone.fires(Timer::Epoch);
    assert_eq!(facts(&acts), [installed(second(), &[0, 1, 3])], "lives are counted anew");
    // Its promise ends with its leader.
    let (alone, _) = ended(0, &[1, 2, 3]);
    assert!(alone.replica.is_leading());
    let (mut alone, _) = ended(1, &[0, 1, 3]);
    alone.fires(Timer::Epoch);
    alone.passes(TIMING.silence);
    assert_eq!(alone.replica.lease_until(), None);
}

#[test]
fn a_member_that_is_given_the_state_of_a_later_view_takes_part_in_that() {
    let arrives = |base: u64, base_view: View| {
        let mut alone = Alone::new(1, 3);
        alone.hears_of(Epoch(1), 0, begun(&[0, 1, 3], Shape::forgotten(Position(2), View(0))));
        let page =
            |page, state| Message::FromState { view: second(), base: Position(base), base_view, page, state };
        let first = alone.hears(0, page(0, Some(vec![1, 1_001])));
        let acts = alone.hears(0, page(1, None));
        (alone, first, acts)
    };
    let (alone, _, acts) = arrives(2, View(0));
    assert_eq!((alone.replica.view(), alone.replica.status()), (second(), Status::Normal));
    let written = facts(&acts);
    assert!(
        matches!(&written[..], [Fact::ViewState { .. }, Fact::ViewInstalled { view, from_state: Some(View(0)), .. }] if *view == second()),
        "{written:?}"
    );
    let third = View(second().0 + 2);
    let (alone, _, _) = arrives(7, third);
    assert_eq!(
        (alone.replica.view(), alone.replica.last()),
        (third, Position(7)),
        "the epoch had got so far"
    );
    // The state of another epoch, or of less than it begins with, is none that it begins with.
    for (base, view) in [(7, View(5)), (1, View(0)), (7, View::first_of(Epoch(2)))] {
        let (alone, first, _) = arrives(base, view);
        assert_eq!(first, [Act::Ignored(quorate_core::bound::reasons::VIEW)], "{base} of {view}");
        assert_eq!(alone.replica.status(), Status::Recovering);
    }
    // It has led that view, and has forgotten.
    let own = View(second().0 + 1);
    let (_, first, _) = arrives(7, own);
    assert!(
        said(&first).iter().all(|(_, message)| matches!(message, Message::WhichLife { .. })),
        "{first:?}"
    );
    assert_eq!(said(&first).len(), 2);
}

/// It would begin the same view once more, and append something else in the same place.
#[test]
fn a_leader_of_a_new_epoch_says_nothing_before_its_disk_knows_of_it() {
    let at_once = |acts: &[Act]| acts.iter().any(|act| matches!(act, Act::SendAtOnce(..)));
    let (mut alone, _) = ended(0, &[0, 1, 3]);
    let began = alone.fires(Timer::Epoch);
    assert!(alone.replica.is_leading() && !at_once(&began), "{began:?}");
    let appended = alone.appends([7]);
    assert!(!said(&appended).is_empty() && !at_once(&appended), "{appended:?}");
    alone.syncs(&began);
    assert!(at_once(&alone.appends([8])));
}

/// It knows the group by its host only.
#[test]
fn a_replica_without_its_disk_learns_with_what_its_epoch_began() {
    let mut alone = Alone::built(1, group(1, &[0, 1, 3]), Vec::new());
    alone.starts(Boot::Recover);
    for from in [0, 3] {
        alone.hears(from, Message::KnownLife { nonce: 1, life: 0 });
    }
    for from in [0, 3] {
        alone.hears(from, Message::LifeNoted { life: 1, view: second() });
    }
    let beginning = begins_with(&[0, 1, 3]);
    let begins = Message::StartView {
        view: second(),
        shape: whole(),
        stable: Position(2),
        beginning: beginning.clone(),
    };
    assert_eq!(said(&alone.hears(0, begins)).len(), 1, "it lacks all entries");
    let payloads = [Word::Own(1), Word::Next(group(1, &[0, 1, 3]))];
    let entries = payloads.map(|payload| entry(0, payload)).to_vec();
    let acts = alone.hears(0, Message::Fetched { view: second(), after: Position(0), entries });
    let known = |fact| match fact {
        Fact::ViewInstalled { beginning, .. } => Some(beginning),
        _ => None,
    };
    assert_eq!(facts(&acts).into_iter().filter_map(known).collect::<Vec<_>>(), [beginning]);
}
