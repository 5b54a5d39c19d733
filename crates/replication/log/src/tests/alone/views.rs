//! The judgement of one replica on leaders, wishes and offers.

use std::collections::BTreeMap;

use quorate_core::bound::reasons;

use super::*;
use crate::message::Offer;
use crate::{Run, Shape, Status};

fn prepare(after: u64, entries: Vec<Entry<Word>>, beat: u64) -> Message<Word> {
    Message::Prepare {
        view: View(0),
        after: Position(after),
        entries,
        stable: Position::START,
        beat,
        clock: None,
    }
}

fn wish(view: u64) -> Message<Word> {
    Message::StartViewChange { view: View(view), entered: false }
}

/// A backup that nothing binds to its leader any more.
fn unbound(me: u8, replicas: usize) -> Alone {
    let mut alone = Alone::new(me, replicas);
    alone.passes(2 * TIMING.lease);
    alone
}

/// Those that had no patience may have it again by now.
#[test]
fn wishes_end_when_the_leader_is_heard() {
    for is_heard in [false, true] {
        let mut alone = unbound(4, 5);
        alone.hears(2, wish(1));
        assert_eq!(alone.replica.status(), Status::Normal, "two of five");
        if is_heard {
            alone.hears(0, prepare(0, Vec::new(), 2));
            alone.passes(2 * TIMING.lease);
        }
        alone.hears(3, wish(1));
        let has_left = alone.replica.view() == View(1);
        assert_eq!(has_left, !is_heard, "three have wished, and the leader was heard meanwhile: {is_heard}");
    }
}

#[test]
fn a_wish_is_passed_on_once_and_does_not_wait_for_the_disk() {
    let mut alone = unbound(4, 5);
    let acts = alone.hears(2, wish(1));
    assert_eq!(facts(&acts), []);
    let expected: Vec<Act> = (0..4).map(|to| Act::SendAtOnce(to, wish(1))).collect();
    let told: Vec<Act> = (0..4).map(|to| Act::Send(to, wish(1))).collect();
    let sent: Vec<Act> =
        acts.into_iter().filter(|act| matches!(act, Act::Send(..) | Act::SendAtOnce(..))).collect();
    assert!(sent == told || sent == expected, "{sent:?}");
    assert_eq!(said(&alone.hears(2, wish(1))), []);
    // Its own, after a silence, does so as well: the disk may be why there is one.
    let mut alone = unbound(4, 5);
    let sent: Vec<Act> = alone
        .fires(Timer::Silence)
        .into_iter()
        .filter(|act| matches!(act, Act::Send(..) | Act::SendAtOnce(..)))
        .collect();
    assert_eq!(sent, expected);
}

#[test]
fn entries_that_no_leader_of_the_view_can_have_sent_are_not_taken() {
    let entry = |view, word| Entry { view: View(view), payload: Word::Own(word) };
    for (wrong, entries) in [
        ("of a view to come", vec![entry(1, 7)]),
        ("one of a view to come", vec![entry(0, 7), entry(1, 8)]),
        ("views that descend", vec![entry(1, 7), entry(0, 8)]),
    ] {
        let mut alone = Alone::new(1, 3);
        let acts = alone.hears(0, prepare(0, entries, 1));
        assert!(acts.contains(&Act::Ignored("entries of views to come")), "{wrong}: {acts:?}");
        assert_eq!(
            (facts(&acts), said(&acts), alone.replica.last()),
            (vec![], vec![], Position(0)),
            "{wrong}"
        );
    }
    let mut alone = Alone::new(1, 3);
    let far = group(u32::MAX, &[0, 1, 2]);
    let acts = alone.hears(0, prepare(0, vec![Entry { view: View(0), payload: Word::Next(far) }], 1));
    assert!(acts.contains(&Act::Ignored(reasons::EPOCH)) && facts(&acts).is_empty(), "{acts:?}");
    let acts = alone.hears(0, prepare(u64::MAX, vec![entry(0, 7)], 1));
    assert!(acts.contains(&Act::Ignored(reasons::POSITION)) && facts(&acts).is_empty(), "{acts:?}");
    // Entries of earlier views, which a leader has from these, are.
    let acts = alone.hears(0, prepare(0, vec![entry(0, 7)], 1));
    assert_eq!(facts(&acts), [Fact::Appended(vec![entry(0, 7)])]);
}

#[test]
fn offers_that_cannot_be_are_not_counted() {
    let offer = |offer| Message::DoViewChange { view: View(1), offer, clock: None };
    let unsound = Shape {
        runs: vec![Run { view: View(0), first: Position(2) }],
        last: Position(3),
        ..Shape::default()
    };
    let of_later_view = Offer { last_normal: View(1), ..Offer::default() };
    let of_far_life = Offer { lives: BTreeMap::from([(ReplicaIndex(0), u64::MAX)]), ..Offer::default() };
    for (wrong, reason) in [
        (Offer { shape: unsound, ..Offer::default() }, "offer of a log that cannot be"),
        (of_later_view, "offer of a log that cannot be"),
        (of_far_life, reasons::LIFE),
    ] {
        let mut alone = unbound(1, 3);
        let acts = alone.hears(2, offer(wrong.clone()));
        assert_eq!(acts, [Act::Ignored(reason)], "{wrong:?}");
        assert_eq!(alone.replica.view(), View(0));
    }
    for me in [0, 2] {
        let mut other = unbound(me, 3);
        let from = 2 - me;
        assert_eq!(
            other.hears(from, offer(Offer::default())),
            [Act::Ignored("offer to another leader")],
            "{me}"
        );
    }
    // One that can be is, once nothing binds the replica to its leader any more.
    let mut bound = Alone::new(1, 3);
    bound.hears(0, prepare(0, Vec::new(), 1));
    assert_eq!(bound.hears(2, offer(Offer::default())), []);
    assert_eq!(bound.replica.status(), Status::Normal);
    let mut alone = unbound(1, 3);
    let acts = alone.hears(2, offer(Offer::default()));
    assert!(acts.contains(&Act::Leading(View(1))), "{acts:?}");
    let begins = |(to, message): (u8, Message<Word>)| {
        matches!(message, Message::StartView { view: View(1), .. }).then_some(to)
    };
    let told: Vec<u8> = said(&acts).into_iter().filter_map(begins).collect();
    assert_eq!(told, [0, 2], "everybody is told with what the view begins");
}

#[test]
fn only_a_leader_asks_whether_it_leads() {
    let mut backup = Alone::new(1, 3);
    backup.steps(|replica, _| assert_eq!(replica.confirm(), None));
    let mut leader = Alone::new(0, 3);
    let mut asked = None;
    let acts = leader.steps(|replica, _| asked = replica.confirm());
    let beats: Vec<u64> = said(&acts)
        .into_iter()
        .filter_map(|(_, message)| match message {
            Message::Prepare { beat, .. } => Some(beat),
            _ => None,
        })
        .collect();
    assert_eq!(
        beats.iter().copied().map(Some).collect::<Vec<_>>(),
        [asked, asked],
        "the next beat is the question"
    );
}

/// Records that it was given before it had nothing to do do not count against it.
#[test]
fn a_disk_is_silent_from_when_it_was_given_something() {
    let heard = |alone: &mut Alone| {
        let beat = Message::PrepareOk { view: View(0), upto: Position(0), beat: 1, clock: None };
        alone.hears(1, beat.clone());
        alone.hears(2, beat);
    };
    let mut alone = Alone::built(0, first(3), Vec::new());
    let began = alone.starts(Boot::Initialise);
    alone.syncs(&began);
    alone.fires(Timer::Beat);
    alone.passes(TIMING.lease + TIMING.silence);
    alone.appends([1]);
    heard(&mut alone);
    alone.fires(Timer::Beat);
    assert!(alone.replica.is_leading(), "it was given the entry just now");
    alone.passes(TIMING.lease + TIMING.silence);
    heard(&mut alone);
    alone.fires(Timer::Beat);
    assert!(!alone.replica.is_leading(), "it has stood still since");
}

/// A replica that takes over the log of the leader of view 1, and has asked it for what it lacks.
fn fetching() -> (Alone, Message<Word>) {
    let mut alone = unbound(2, 3);
    let shape = Shape {
        runs: vec![Run { view: View(0), first: Position(1) }],
        last: Position(4),
        ..Shape::default()
    };
    let begins = Message::StartView { view: View(1), shape, stable: Position(0), beginning: beginning(3) };
    let acts = alone.hears(1, begins);
    let fetch = |after| Message::Fetch { view: View(1), after: Position(after), upto: Position(4) };
    assert_eq!(said(&acts), [(1, fetch(0))]);
    (alone, fetch(2))
}

fn fetched(view: u64, after: u64, entries: Vec<Entry<Word>>) -> Message<Word> {
    Message::Fetched { view: View(view), after: Position(after), entries }
}

#[test]
fn entries_are_taken_over_that_were_asked_for_and_are_those_of_the_view() {
    let (mut alone, next) = fetching();
    let nothing = |alone: &mut Alone, from, message| {
        assert_eq!(alone.hears(from, message), [], "it is of no use");
    };
    // An answer without entries would be answered by the same question, for ever.
    nothing(&mut alone, 1, fetched(1, 0, Vec::new()));
    nothing(&mut alone, 0, fetched(1, 0, entries(0, 1..=2)));
    nothing(&mut alone, 1, fetched(0, 0, entries(0, 1..=2)));
    nothing(&mut alone, 1, fetched(1, 1, entries(0, 2..=3)));
    nothing(&mut alone, 1, fetched(1, 0, entries(1, 1..=2)));
    assert_eq!(said(&alone.hears(1, fetched(1, 0, entries(0, 1..=2)))), [(1, next)]);
    let acts = alone.hears(1, fetched(1, 2, entries(0, 3..=4)));
    assert_eq!(facts(&acts).len(), 2, "one page, and that the view is installed: {acts:?}");
    assert_eq!(timer(&acts, Timer::Silence), Some(TIMING.silence), "from now on it listens");
    let clock = Some(ClockTime::from_micros(alone.now.as_nanos() / 1_000));
    let joined = Message::PrepareOk { view: View(1), upto: Position(4), beat: 0, clock };
    assert_eq!(said(&acts), [(1, joined)]);
    assert_eq!((alone.replica.status(), alone.replica.last()), (Status::Normal, Position(4)));
}

#[test]
fn a_state_for_another_view_is_not_wanted() {
    let (mut alone, _) = fetching();
    let page = |view| Message::FromState {
        view: View(view),
        base: Position(4),
        base_view: View(0),
        page: 0,
        state: Some(vec![1, 2]),
    };
    for other in [0, 2] {
        assert_eq!(alone.hears(1, page(other)), [Act::Ignored("state that is not wanted")]);
    }
    assert_eq!(alone.hears(0, page(1)), [Act::Ignored("state that is not wanted")]);
    assert_eq!(said(&alone.hears(1, page(1))).len(), 1);
}

/// Those that want to go further than a view that has been entered need not say so again.
#[test]
fn wishes_for_later_views_outlive_the_entering_of_one() {
    let mut alone = unbound(4, 5);
    alone.hears(1, wish(3));
    alone.hears(2, wish(1));
    assert_eq!(
        (alone.replica.view(), alone.replica.status()),
        (View(1), Status::ViewChanging),
        "three want that"
    );
    alone.hears(2, wish(3));
    assert_eq!(alone.replica.view(), View(3), "and now three want this");
}

#[test]
fn a_leader_knows_all_once_what_its_view_began_with_is_stable() {
    let mut alone = unbound(1, 3);
    alone.hears(0, prepare(0, entries(0, [1, 2]), 9));
    alone.passes(2 * TIMING.lease);
    let began = alone.hears(2, Message::DoViewChange { view: View(1), offer: Offer::default(), clock: None });
    assert!(
        alone.replica.is_leading() && !alone.replica.knows_all(),
        "an earlier leader may have made more stable"
    );
    let holds = |upto| Message::PrepareOk { view: View(1), upto: Position(upto), beat: 99, clock: None };
    alone.hears(2, holds(2));
    assert!(
        !alone.replica.knows_all() && alone.replica.lease_until().is_none(),
        "its own disk has not written it"
    );
    alone.syncs(&began);
    assert!(alone.replica.knows_all());
    assert_eq!(alone.replica.stable(), Position(2));
}

/// It may be about to say something that it has taken over, and has not heard the leader yet.
#[test]
fn a_leader_gives_way_to_a_replica_that_has_answered_it_and_not_to_one_that_has_only_joined() {
    let ok = |beat| Message::PrepareOk { view: View(0), upto: Position(0), beat, clock: None };
    for (beats, expected) in [([0, 1], Some(2)), ([1, 1], Some(1)), ([0, 0], None)] {
        let mut leader = Alone::new(0, 3);
        for (from, beat) in [1, 2].into_iter().zip(beats) {
            leader.hears(from, ok(beat));
        }
        let acts = leader.steps(|replica, hands| replica.give_way(hands));
        let entered = facts(&acts).into_iter().find_map(|fact| match fact {
            Fact::ViewEntered(view) => Some(view.0),
            _ => None,
        });
        assert_eq!(entered, expected, "{beats:?}");
    }
}

/// The state may be older than that, and would take entries back.
#[test]
fn what_had_seemed_to_be_forgotten_may_come_late_and_then_no_state_is_wanted() {
    let mut alone = Alone::new(1, 3);
    let shape = Shape::forgotten(Position(3), View(0));
    let begins = Message::StartView { view: View(0), shape, stable: Position(3), beginning: beginning(3) };
    let fetch = Message::Fetch { view: View(0), after: Position(0), upto: Position(3) };
    assert_eq!(said(&alone.hears(0, begins)), [(0, fetch)]);
    alone.hears(0, prepare(0, entries(0, 1..=4), 2));
    assert_eq!(alone.replica.last(), Position(4));
    let page = |page, state| Message::FromState {
        view: View(0),
        base: Position(3),
        base_view: View(0),
        page,
        state,
    };
    let acts = [alone.hears(0, page(0, Some(vec![1, 2, 3]))), alone.hears(0, page(1, None))].concat();
    assert_eq!((facts(&acts), said(&acts), alone.replica.last()), (vec![], vec![], Position(4)));
}

/// An operator hears of how many have lost their disks, and not of those that have come back.
#[test]
fn a_replica_that_is_back_is_not_counted_among_those_that_have_lost_their_disks() {
    let mut alone = Alone::built(0, first(5), Vec::new());
    alone.starts(Boot::Recover);
    assert_eq!(alone.replica.lost(), 1);
    for from in [1, 2, 1] {
        alone.hears(from, Message::WhichLife { nonce: 7 });
    }
    assert_eq!(alone.replica.lost(), 3, "each once");
    alone.hears(2, Message::Join { view: View(0) });
    assert_eq!(alone.replica.lost(), 2);
    assert_eq!(Alone::new(0, 5).replica.lost(), 0);
}

#[test]
fn a_replica_that_hears_the_leader_of_a_later_view_asks_with_what_that_began() {
    let later = |view| Message::Prepare {
        view: View(view),
        after: Position(0),
        entries: entries(view, [1]),
        stable: Position(1),
        beat: 1,
        clock: None,
    };
    let mut alone = Alone::new(1, 3);
    assert_eq!(said(&alone.hears(2, later(2))), [(2, Message::Join { view: View(2) })]);
    assert_eq!((alone.replica.last(), alone.replica.view()), (Position(0), View(0)), "it takes nothing yet");
    assert_eq!(said(&alone.hears(0, later(2))), [], "that one does not lead it");
}

/// It may be the leader of a view that others have left without its knowing.
#[test]
fn a_leader_of_an_earlier_view_is_told_that_a_replica_has_gone_on() {
    let mut alone = unbound(2, 3);
    alone.hears(1, Message::StartViewChange { view: View(4), entered: true });
    assert_eq!((alone.replica.view(), alone.replica.status()), (View(4), Status::ViewChanging));
    let told = Message::StartViewChange { view: View(4), entered: true };
    assert_eq!(said(&alone.hears(0, prepare(0, entries(0, [1]), 9))), [(0, told)]);
    assert_eq!(alone.replica.last(), Position(0));
}

#[test]
fn each_view_change_is_repeated_as_often_before_the_next_is_wished_for() {
    let mut alone = unbound(4, 5);
    let patience = |alone: &mut Alone| {
        let view = alone.replica.view();
        let wishes = |acts: &[Act]| {
            said(acts).iter().any(|(_, message)| {
                matches!(message, Message::StartViewChange { view: wished, entered: false } if *wished > view)
            })
        };
        (1..100).find(|_| wishes(&alone.fires(Timer::Silence))).expect("it does not wait for ever")
    };
    for view in [1, 2] {
        for from in [0, 1, 2] {
            alone.hears(from, Message::StartViewChange { view: View(view), entered: true });
        }
        assert_eq!((alone.replica.view(), alone.replica.status()), (View(view), Status::ViewChanging));
        assert_eq!(patience(&mut alone), 4);
    }
}

/// It would take over, or wait for, what nobody has.
#[test]
fn a_view_begins_only_as_its_leader_can_have_begun_it() {
    let shape = |last| Shape {
        runs: vec![Run { view: View(0), first: Position(1) }],
        last: Position(last),
        ..Shape::default()
    };
    let begins = |view, last, stable, beginning: Beginning| {
        let (view, stable) = (View(view), Position(stable));
        Message::StartView { view, shape: shape(last), stable, beginning }
    };
    let other_group = Beginning { membership: group(0, &[0, 1, 3]), ..beginning(3) };
    let beyond = Beginning { base: Position(5), ..beginning(3) };
    for (from, message, counts) in [
        (1, begins(1, 4, 4, beginning(3)), true),
        (1, begins(1, 4, 5, beginning(3)), false),
        (1, begins(1, 4, 0, other_group), false),
        (1, begins(1, 4, 0, beyond), false),
        (0, begins(1, 4, 0, beginning(3)), false),
        (1, begins(0, 4, 0, beginning(3)), false),
    ] {
        let mut alone = unbound(2, 3);
        let acts = alone.hears(from, message.clone());
        assert_eq!(!said(&acts).is_empty(), counts, "from r{from}: {message:?}");
    }
}
