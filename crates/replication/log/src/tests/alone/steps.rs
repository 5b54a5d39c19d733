//! All that a replica asks for in a step, in its order: as a leader, as a backup, on its way to another view, and without a disk.

use std::collections::BTreeMap;

use super::*;
use crate::message::Offer;
use crate::{Shape, Status};

fn prepare(after: u64, entries: Vec<Entry<Word>>, stable: u64, beat: u64) -> Message<Word> {
    let (view, clock) = (View(0), None);
    Message::Prepare { view, after: Position(after), entries, stable: Position(stable), beat, clock }
}

fn holds(upto: u64, beat: u64) -> Message<Word> {
    Message::PrepareOk { view: View(0), upto: Position(upto), beat, clock: None }
}

fn enters(view: u64) -> Message<Word> {
    Message::StartViewChange { view: View(view), entered: true }
}

/// The reading of a replica's clock.
fn reading(alone: &Alone) -> ClockTime {
    ClockTime::from_micros(alone.now.as_nanos() / 1_000)
}

fn installed(view: u64) -> Fact<Word> {
    Fact::ViewInstalled {
        view: View(view),
        kept: Position(0),
        last: Position(0),
        from_state: None,
        beginning: beginning(3),
        lives: BTreeMap::new(),
    }
}

/// The first of three, which leads, and whose disk knows of it.
fn leader() -> Alone {
    let mut alone = Alone::built(0, first(3), Vec::new());
    let began = alone.starts(Boot::Initialise);
    assert_eq!(alone.syncs(&began), []);
    alone
}

/// It tells both others the same.
fn both(message: &Message<Word>) -> [Act; 2] {
    [1, 2].map(|to| Act::SendAtOnce(to, message.clone()))
}

#[test]
fn a_new_leader_writes_down_that_it_takes_part_and_speaks_to_all() {
    let mut alone = Alone::built(0, first(3), Vec::new());
    let durable = Durable { view: View(0), upto: Position(0) };
    let expected = [
        Act::PersistAndNotify(installed(0), durable),
        Act::CancelTimer(Timer::Silence),
        Act::Leading(View(0)),
        Act::SetTimer(Timer::Beat, TIMING.beat),
        Act::Send(1, prepare(0, Vec::new(), 0, 1)),
        Act::Send(2, prepare(0, Vec::new(), 0, 1)),
    ];
    assert_eq!(alone.starts(Boot::Initialise), expected);
}

#[test]
fn a_beat_has_a_number_and_goes_to_all() {
    let mut alone = leader();
    for beat in 2..=4 {
        alone.passes(TIMING.beat);
        let told = both(&prepare(0, Vec::new(), 0, beat));
        let expected = [vec![Act::SetTimer(Timer::Beat, TIMING.beat)], told.to_vec()].concat();
        assert_eq!(alone.fires(Timer::Beat), expected);
    }
}

/// The clock of the majority is told once as many have said what theirs read.
#[test]
fn a_beat_tells_what_the_clocks_of_a_majority_read() {
    let mut alone = leader();
    let told = |acts: &[Act]| {
        let clock = |(_, message)| match message {
            Message::Prepare { clock, .. } => Some(clock),
            _ => None,
        };
        said(acts).into_iter().filter_map(clock).collect::<Vec<_>>()
    };
    assert_eq!(told(&alone.fires(Timer::Beat)), [None, None]);
    let clock = Some(reading(&alone));
    alone.hears(1, Message::PrepareOk { view: View(0), upto: Position(0), beat: 2, clock });
    assert_eq!(told(&alone.fires(Timer::Beat)), [clock, clock]);
    alone.passes(TIMING.silence + Duration::from_millis(1));
    assert_eq!(told(&alone.fires(Timer::Beat)), [None, None], "that is too long ago");
}

#[test]
fn what_is_appended_is_written_and_sent_as_far_as_backups_have_room() {
    let mut alone = leader();
    let acts = alone.appends(1..=20);
    let durable = Durable { view: View(0), upto: Position(20) };
    // Five entries of eight bytes have room in a message, and three messages may be on their way.
    let message = |from: u64| prepare(from - 1, entries(0, from..from + 5), 0, 1);
    let sent = |to: u8| [1, 6, 11].map(|from| Act::SendAtOnce(to, message(from)));
    let written = Act::PersistAndNotify(Fact::Appended(entries(0, 1..=20)), durable);
    assert_eq!(acts, [vec![written], sent(1).to_vec(), sent(2).to_vec()].concat());
    // A beat sends nothing more, and says from where it would go on.
    let told = [vec![Act::SetTimer(Timer::Beat, TIMING.beat)], both(&prepare(15, Vec::new(), 0, 2)).to_vec()];
    assert_eq!(alone.fires(Timer::Beat), told.concat());
    // The rest goes once something has arrived.
    let rest = |stable| prepare(15, entries(0, 16..=20), stable, 2);
    assert_eq!(alone.hears(1, holds(5, 1)), [Act::SendAtOnce(1, rest(0))]);
    assert_eq!(alone.hears(1, holds(20, 1)), []);
    assert_eq!(alone.replica.stable(), Position(0), "it is nowhere else durable");
    assert_eq!(alone.syncs(&acts), []);
    assert_eq!(alone.replica.stable(), Position(20));
    assert_eq!(alone.hears(2, holds(5, 1)), [Act::SendAtOnce(2, rest(20))]);
}

/// An acknowledgement of entries that no backup can hold, or that it held in another view, counts for nothing.
#[test]
fn an_acknowledgement_counts_for_its_view_and_for_what_there_is() {
    let mut alone = leader();
    let acts = alone.appends([1, 2]);
    alone.syncs(&acts);
    assert_eq!(alone.hears(1, holds(3, 1)), []);
    assert_eq!(alone.hears(7, holds(2, 1)), [], "that is no member");
    let (upto, clock) = (Position(2), None);
    assert_eq!(alone.hears(1, Message::PrepareOk { view: View(1), upto, beat: 1, clock }), []);
    assert_eq!(alone.replica.stable(), Position(0));
    assert_eq!(alone.hears(1, holds(1, 1)), []);
    assert_eq!(alone.replica.stable(), Position(1));
    assert_eq!(alone.hears(2, holds(2, 1)), []);
    assert_eq!(alone.replica.stable(), Position(2));
    assert_eq!(alone.hears(1, holds(0, 1)), [], "late");
    assert_eq!((alone.replica.stable(), alone.state.as_slice()), (Position(2), [1, 2].as_slice()));
}

/// Each question is a beat, of which as many may be unanswered as messages may be on their way.
#[test]
fn so_many_questions_may_be_open_and_the_next_beat_asks_the_rest() {
    let mut alone = leader();
    let asks = |alone: &mut Alone| {
        let mut asked = None;
        let acts = alone.steps(|replica, _| asked = replica.confirm());
        (asked.unwrap(), acts)
    };
    for beat in 2..=3 {
        let (asked, acts) = asks(&mut alone);
        assert_eq!((asked, acts), (beat, both(&prepare(0, Vec::new(), 0, beat)).to_vec()));
    }
    let (asked, acts) = asks(&mut alone);
    assert_eq!((asked, acts), (4, vec![]), "three beats have no answer");
    // A member that says nothing of its clock is taken to agree with that of the leader.
    let clock = Some(reading(&alone));
    let (view, after, entries, stable) = (View(0), Position(0), Vec::new(), Position(0));
    let fourth = Message::Prepare { view, after, entries, stable, beat: 4, clock };
    assert_eq!(alone.hears(2, holds(0, 2)), both(&fourth));
    assert!(!alone.replica.has_confirmed(4));
    let confirmed = |replica: &Replica<Word>| [2, 3, 4].map(|number| replica.has_confirmed(number));
    assert_eq!(confirmed(&alone.replica), [true, false, false]);
    alone.hears(1, holds(0, 3));
    assert_eq!(confirmed(&alone.replica), [true, true, false]);
    alone.hears(1, holds(0, 4));
    assert_eq!((confirmed(&alone.replica), alone.replica.confirmed()), ([true, true, true], 4));
}

#[test]
fn a_lease_counts_from_the_beat_that_one_of_two_others_has_answered() {
    let mut alone = leader();
    assert_eq!(alone.replica.lease_until(), None);
    let spoken = alone.now;
    alone.passes(TIMING.beat);
    alone.fires(Timer::Beat);
    alone.hears(2, holds(0, 1));
    // By the share of five in a hundred that time may pass faster elsewhere it ends sooner.
    let lasts = Duration::from_micros(142_500);
    assert_eq!(alone.replica.lease_until(), Some(spoken + lasts));
    alone.hears(1, holds(0, 2));
    assert_eq!(alone.replica.lease_until(), Some(spoken + TIMING.beat + lasts));
}

#[test]
fn a_backup_takes_what_its_leader_sends_and_answers_each_beat() {
    let mut alone = Alone::new(1, 3);
    let clock = Some(reading(&alone));
    let ok =
        |upto, beat| Act::Send(0, Message::PrepareOk { view: View(0), upto: Position(upto), beat, clock });
    let listens = Act::SetTimer(Timer::Silence, TIMING.silence);
    assert_eq!(alone.hears(0, prepare(0, Vec::new(), 0, 5)), [listens.clone(), ok(0, 5)]);
    let taken = Act::Persist(Fact::Appended(entries(0, [1, 2])));
    assert_eq!(alone.hears(0, prepare(0, entries(0, [1, 2]), 1, 6)), [listens.clone(), taken, ok(2, 6)]);
    assert_eq!(alone.replica.stable(), Position(1));
    assert_eq!(alone.hears(0, prepare(2, Vec::new(), 9, 7)), [listens, ok(2, 7)]);
    assert_eq!(alone.replica.stable(), Position(2), "what it lacks is not stable here");
    assert_eq!(alone.hears(2, prepare(2, entries(0, [3]), 0, 8)), [], "that does not lead");
    assert_eq!(
        alone.hears(1, prepare(2, entries(0, [3]), 0, 8)),
        [Act::Ignored("said by this replica itself")]
    );
}

/// More than so many messages that came early are lost, and come again.
#[test]
fn a_backup_keeps_so_many_messages_that_came_early() {
    let mut alone = Alone::new(1, 3);
    for after in [2, 4, 6, 8] {
        alone.hears(0, prepare(after, entries(0, [after + 1, after + 2]), 0, 1));
    }
    alone.hears(0, prepare(0, entries(0, [1, 2]), 0, 1));
    assert_eq!(alone.log(), (1, (1..=8).map(Word::Own).collect()), "three were kept, and the fourth was not");
    alone.hears(0, prepare(8, entries(0, [9, 10]), 0, 1));
    assert_eq!(alone.replica.last(), Position(10));
}

#[test]
fn a_backup_that_hears_nothing_wishes_for_the_next_view_once_its_promise_has_ended() {
    let mut alone = Alone::new(1, 3);
    alone.hears(0, prepare(0, Vec::new(), 0, 1));
    alone.passes(TIMING.silence);
    // It has promised for 150 ms, and for a twentieth of that because time may pass slower here.
    let left = Duration::from_micros(157_500) - TIMING.silence;
    assert_eq!(alone.fires(Timer::Silence), [Act::SetTimer(Timer::Silence, left)]);
    alone.passes(left);
    let wish = Message::StartViewChange { view: View(1), entered: false };
    let expected = [
        Act::SendAtOnce(0, wish.clone()),
        Act::SendAtOnce(2, wish),
        Act::SetTimer(Timer::Silence, TIMING.silence),
    ];
    assert_eq!(alone.fires(Timer::Silence), expected);
    assert_eq!((alone.replica.view(), alone.replica.status()), (View(0), Status::Normal), "one does not do");
}

/// It leaves its view durably before it offers its log.
#[test]
fn a_backup_whose_wish_others_share_enters_the_view_and_offers_its_log_to_its_leader() {
    let mut alone = Alone::new(2, 3);
    alone.hears(0, prepare(0, entries(0, [1, 2]), 1, 1));
    alone.passes(2 * TIMING.lease);
    let acts = alone.hears(0, enters(1));
    let offer = Offer {
        last_normal: View(0),
        shape: Shape {
            base: Position(0),
            runs: vec![crate::Run { view: View(0), first: Position(1) }],
            last: Position(2),
        },
        stable: Position(1),
        lives: BTreeMap::new(),
    };
    let clock = Some(reading(&alone));
    let wish = Message::StartViewChange { view: View(1), entered: false };
    let expected = [
        Act::Send(0, wish.clone()),
        Act::Send(1, wish),
        Act::Persist(Fact::ViewEntered(View(1))),
        Act::SetTimer(Timer::Silence, TIMING.silence),
        Act::SetTimer(Timer::Silence, TIMING.silence),
        Act::Send(0, enters(1)),
        Act::Send(1, enters(1)),
        Act::Send(1, Message::DoViewChange { view: View(1), offer, clock }),
    ];
    assert_eq!(acts, expected);
}

#[test]
fn a_leader_that_follows_to_another_view_leads_no_longer() {
    let mut alone = leader();
    alone.passes(TIMING.silence);
    let acts = alone.hears(1, enters(2));
    let expected = [
        Act::CancelTimer(Timer::Beat),
        Act::Deposed,
        Act::Persist(Fact::ViewEntered(View(3))),
        Act::SetTimer(Timer::Silence, TIMING.silence),
        Act::SetTimer(Timer::Silence, TIMING.silence),
        Act::Send(1, enters(3)),
        Act::Send(2, enters(3)),
    ];
    assert_eq!(acts, expected, "the next view of its own");
    assert_eq!(alone.appends([]), []);
    alone.steps(|replica, _| assert_eq!(replica.append(Word::Own(1)), None));
}

/// The leader of a view has the log of the latest of a majority, and tells all with what the view begins.
#[test]
fn a_replica_that_has_heard_enough_offers_begins_its_view() {
    let mut alone = Alone::new(1, 3);
    alone.passes(2 * TIMING.lease);
    let offer = Message::DoViewChange { view: View(1), offer: Offer::default(), clock: None };
    let acts = alone.hears(2, offer);
    let begins = Message::StartView {
        view: View(1),
        shape: Shape::default(),
        stable: Position(0),
        beginning: beginning(3),
    };
    let beat = Message::Prepare {
        view: View(1),
        after: Position(0),
        entries: Vec::new(),
        stable: Position(0),
        beat: 1,
        clock: Some(reading(&alone)),
    };
    let expected = [
        Act::Persist(Fact::ViewEntered(View(1))),
        Act::SetTimer(Timer::Silence, TIMING.silence),
        Act::SetTimer(Timer::Silence, TIMING.silence),
        Act::Send(0, enters(1)),
        Act::Send(2, enters(1)),
        Act::PersistAndNotify(installed(1), Durable { view: View(1), upto: Position(0) }),
        Act::CancelTimer(Timer::Silence),
        Act::Leading(View(1)),
        Act::SetTimer(Timer::Beat, TIMING.beat),
        Act::Send(0, beat.clone()),
        Act::Send(2, beat),
        Act::Send(0, begins.clone()),
        Act::Send(2, begins),
    ];
    assert_eq!(acts, expected);
}

#[test]
fn a_replica_that_joins_a_view_has_it_on_disk_before_it_says_so() {
    let mut alone = Alone::new(2, 3);
    let begins = Message::StartView {
        view: View(1),
        shape: Shape::default(),
        stable: Position(0),
        beginning: beginning(3),
    };
    let acts = alone.hears(1, begins.clone());
    let clock = Some(reading(&alone));
    let expected = [
        Act::Persist(Fact::ViewEntered(View(1))),
        Act::SetTimer(Timer::Silence, TIMING.silence),
        Act::Persist(installed(1)),
        Act::SetTimer(Timer::Silence, TIMING.silence),
        Act::Send(1, Message::PrepareOk { view: View(1), upto: Position(0), beat: 0, clock }),
    ];
    assert_eq!(acts, expected);
    assert_eq!(alone.hears(1, begins), [], "it takes part");
    assert_eq!(alone.hears(0, Message::Join { view: View(0) }), [], "that is for the leader to answer");
}

/// Lives are counted so that an offer of an earlier one counts nowhere.
#[test]
fn a_replica_without_its_disk_asks_for_its_lives_has_the_next_noted_and_joins() {
    let mut alone = Alone::built(2, first(3), Vec::new());
    let listens = Act::SetTimer(Timer::Silence, TIMING.silence);
    let all =
        |message: Message<Word>| vec![listens.clone(), Act::Send(0, message.clone()), Act::Send(1, message)];
    assert_eq!(alone.starts(Boot::Recover), all(Message::WhichLife { nonce: 1 }));
    assert_eq!(alone.fires(Timer::Silence), all(Message::WhichLife { nonce: 1 }));
    let knows = |nonce, life| Message::KnownLife { nonce, life };
    assert_eq!(alone.hears(0, knows(2, 7)), [Act::Ignored("answer to an earlier question")]);
    assert_eq!(alone.hears(0, knows(1, 4)), []);
    assert_eq!(alone.hears(0, knows(1, 4)), [], "one of two");
    let noted = Act::Persist(Fact::LifeNoted { replica: ReplicaIndex(2), life: 5 });
    let announced = all(Message::NewLife { life: 5 });
    assert_eq!(alone.hears(1, knows(1, 2)), [vec![noted], announced.clone()].concat());
    assert_eq!(alone.fires(Timer::Silence), announced);
    let notes = |life, view| Message::LifeNoted { life, view: View(view) };
    assert_eq!(alone.hears(0, notes(4, 9)), [], "an earlier one");
    assert_eq!(alone.hears(0, notes(5, 7)), []);
    let joins = all(Message::Join { view: View(7) });
    assert_eq!(alone.hears(1, notes(5, 4)), joins, "the greatest view of those that have noted it");
    assert_eq!(alone.fires(Timer::Silence), joins);
    assert_eq!(alone.replica.view(), View(7));
    assert_eq!(alone.replica.status(), Status::Recovering);
    // Until it has joined it answers nobody else who has lost a disk, and votes for nothing.
    assert_eq!(alone.hears(0, Message::WhichLife { nonce: 3 }), []);
    assert_eq!(
        alone.hears(0, Message::NewLife { life: 3 }),
        [Act::Ignored("recovering, so that it notes no life")]
    );
    assert_eq!(alone.hears(0, enters(8)), []);
}

#[test]
fn a_replica_notes_the_lives_of_others_durably_and_tells_what_it_knows() {
    let mut alone = Alone::new(1, 3);
    let which = Message::WhichLife { nonce: 8 };
    assert_eq!(alone.hears(2, which.clone()), [Act::Send(2, Message::KnownLife { nonce: 8, life: 0 })]);
    let noted = |life| Act::Send(2, Message::LifeNoted { life, view: View(0) });
    let fact = Act::Persist(Fact::LifeNoted { replica: ReplicaIndex(2), life: 3 });
    assert_eq!(alone.hears(2, Message::NewLife { life: 3 }), [fact, noted(3)]);
    assert_eq!(alone.hears(2, Message::NewLife { life: 3 }), [noted(3)], "it is noted");
    assert_eq!(alone.hears(2, Message::NewLife { life: 2 }), [noted(2)], "that is over");
    assert_eq!(alone.hears(2, which), [Act::Send(2, Message::KnownLife { nonce: 8, life: 3 })]);
}

/// A leader that lags behind the views of others must not be left waiting.
#[test]
fn a_replica_that_asks_to_join_is_told_of_the_view_that_is_led_or_changed_to() {
    let mut alone = leader();
    let begins = Message::StartView {
        view: View(0),
        shape: Shape::default(),
        stable: Position(0),
        beginning: beginning(3),
    };
    assert_eq!(alone.hears(2, Message::Join { view: View(0) }), [Act::Send(2, begins)]);
    let acts = alone.hears(2, Message::Join { view: View(4) });
    assert!(acts.contains(&Act::Persist(Fact::ViewEntered(View(6)))), "the next of its own: {acts:?}");
    assert_eq!(alone.hears(2, Message::Join { view: View(5) }), [Act::Send(2, enters(6))]);
    assert_eq!(alone.hears(2, Message::Join { view: View(6) }), [], "it waits for that itself");
    let mut backup = Alone::new(1, 3);
    assert_eq!(backup.hears(2, Message::Join { view: View(0) }), []);
}

/// Its host may know of an epoch that its disk does not.
#[test]
fn a_replica_whose_host_knows_of_a_later_epoch_looks_for_it_from_the_start() {
    let backup = Alone::new(1, 3);
    for (membership, looks) in [(first(3), None), (group(1, &[0, 1, 3]), Some(TIMING.silence))] {
        let mut again = Alone::built(1, membership, backup.disk.clone());
        assert_eq!(timer(&again.starts(Boot::Initialise), Timer::Epoch), looks);
    }
}
