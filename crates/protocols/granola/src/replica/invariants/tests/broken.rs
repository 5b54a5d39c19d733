//! A leader that locks, with something of every kind; and each way in which it stops fitting together.

use std::sync::Arc;

use quorate_core::Value;

use super::super::super::leader::Stranger;
use super::*;
use crate::application::Answer;
use crate::entry::{Ended, Outcome, Pending};
use crate::rules::Rules;

/// A replica in which all is well, as far as an invariant looks.
struct World {
    state: State<()>,
    leader: Leader,
}

fn id(sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(1 + sequence % 2), sequence, attempt: 0 }
}

fn at(micros: u64) -> ClockTime {
    ClockTime::from_micros(micros)
}

fn place(timestamp: u64, sequence: u64) -> Place {
    Place { timestamp: at(timestamp), transaction: id(sequence) }
}

fn voted(sequence: u64, proposed: u64, participants: &[u32], first: u64) -> Arc<Voted> {
    Arc::new(Voted {
        transaction: id(sequence),
        class: Class::Independent,
        participants: participants.iter().copied().map(ShardId).collect(),
        operation: Some(Value::new()),
        vote: Vote::Commit,
        proposed: at(proposed),
        first: at(first),
    })
}

fn open(class: Class, proposed: u64, timestamp: Option<u64>, hold: Hold) -> Open {
    let voted = voted(0, proposed, &[1, 2], 12);
    let pending = Pending { voted, place: place(proposed, 0), is_final: false };
    Open { class, timestamp: timestamp.map(at), hold, ..Open::of(&pending, Instant::START) }
}

fn reading() -> Reading {
    Reading { operation: Value::new(), high: None, since: Instant::START }
}

impl World {
    /// One writes and lacks votes, one has its timestamp, one reads and lacks votes, one waits to read; one has run ahead of the log, one
    /// before it was logged; one was dropped, and one has ended.
    fn sound() -> Self {
        let mut state = State::before_all(ShardId(1), (), Rules::SOUND);
        (state.ceiling, state.floor, state.forgotten) = (at(100), at(10), at(5));
        for (sequence, proposed) in [(1, 20), (5, 60), (7, 70)] {
            let voted = voted(sequence, proposed, &[1, 2], 12);
            let place = place(proposed, sequence);
            state.queue.insert(place);
            state.pending.insert(id(sequence), Pending { voted, place, is_final: sequence == 5 });
        }
        let mut world = World { state, leader: Leader::new(View(0), at(130)) };
        world.ends(9);
        let leader = &mut world.leader;
        (leader.executed, leader.is_locking, leader.is_forced) = (at(120), true, true);
        leader.begin(id(1), open(Class::Coordinated, 20, None, Hold::Blocked));
        leader.begin(id(2), open(Class::Independent, 30, Some(31), Hold::Prepared));
        leader.begin(id(3), open(Class::ReadOnly, 40, None, Hold::Nothing));
        leader.queue.extend([place(20, 1), place(31, 2)]);
        leader.dated.insert(place(31, 2));
        leader.undated.insert((at(40), id(3)));
        leader.await_read(id(4), at(50), reading(), Some(id(1)));
        for (sequence, timestamp) in [(5, 60), (6, 120)] {
            leader.ahead.insert(id(sequence), (at(timestamp), Answer::Done(Value::new())));
        }
        leader.unlogged.insert(place(120, 6));
        leader.voted.insert(place(120, 6));
        leader.dropped.insert(id(7), Ending::Conflict);
        world
    }

    /// The same while nothing is locked.
    fn unlocked() -> Self {
        let mut world = World::sound();
        let leader = &mut world.leader;
        (leader.is_locking, leader.is_forced) = (false, false);
        leader.dated.clear();
        leader.open.values_mut().for_each(|open| open.hold = Hold::Nothing);
        leader.end_read(id(4));
        leader.await_read(id(4), at(50), reading(), None);
        world
    }

    fn ends(&mut self, sequence: u64) {
        let ended = Ended { outcome: Outcome::Conflict, participants: vec![ShardId(1)], first: at(12) };
        self.state.ended.insert(id(sequence), ended);
        self.state.fading.insert((at(12), id(sequence)));
    }

    fn pending(&mut self, sequence: u64) -> &mut Pending {
        self.state.pending.get_mut(&id(sequence)).expect("it waits")
    }

    fn open(&mut self, sequence: u64) -> &mut Open {
        self.leader.open.get_mut(&id(sequence)).expect("it is accepted")
    }

    fn check(&self) {
        let World { state, leader } = self;
        what_waits_has_one_place(state);
        what_has_ended_waits_no_longer(state);
        bounds_are_in_order(state);
        what_waits_is_known_to_the_leader(state, leader);
        each_has_one_fate(state, leader);
        check(leader);
        nothing_ran_above_the_ceiling(state, leader);
    }

    /// The message of an invariant that does not hold in it, if there is one.
    fn told(&self) -> Option<String> {
        let panic = catch_unwind(AssertUnwindSafe(|| self.check())).err()?;
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
    }
}

/// One way to change a replica.
type Change = fn(&mut World);

#[test]
fn a_replica_in_which_something_does_not_fit_is_noticed() {
    let broken: [(&str, Change); 43] = [
        ("as many places as wait", |world| assert!(world.state.queue.insert(place(21, 8)))),
        ("has no place", |world| world.pending(1).place.transaction = id(8)),
        ("has no place", |world| {
            world.state.queue.remove(&place(20, 1));
            world.state.queue.insert(place(21, 1));
        }),
        ("what has ended fades", |world| assert!(world.state.fading.insert((at(13), id(8))))),
        ("has ended, and waits", |world| world.ends(7)),
        ("could begin anew", |world| world.state.forgotten = at(11)),
        ("proposed above the ceiling", |world| world.pending(1).voted = voted(1, 101, &[1, 2], 12)),
        ("ran above the ceiling", |world| {
            world.state.queue.remove(&place(60, 5));
            world.state.queue.insert(place(101, 5));
            world.pending(5).place = place(101, 5);
        }),
        ("waits below the floor", |world| world.pending(1).voted = voted(1, 20, &[1, 2], 9)),
        ("its leader does not know", |world| drop(world.leader.dropped.remove(&id(7)))),
        ("its leader does not know", |world| drop(world.leader.ahead.remove(&id(5)))),
        ("its leader does not know", |world| {
            world.leader.close(id(1));
            world.leader.end_read(id(4));
        }),
        ("is something else as well", |world| drop(world.leader.dropped.insert(id(2), Ending::Conflict))),
        ("is something else as well", |world| {
            world.leader.ahead.insert(id(2), (at(31), Answer::Done(Value::new())));
        }),
        ("is something else as well", |world| {
            let (participants, first, class) = (Vec::new(), at(12), Class::Independent);
            let (votes, since) = (BTreeMap::new(), Instant::START);
            let stranger = Stranger { participants, first, class, votes, since };
            world.leader.strangers.insert(id(2), stranger);
        }),
        ("is something else as well", |world| world.ends(2)),
        ("ahead of the log, and has ended", |world| {
            world.leader.dropped.insert(id(6), Ending::Conflict);
        }),
        ("ahead of the log, and has ended", |world| world.ends(6)),
        ("stands in the way, and is not there", |world| assert!(world.leader.queue.insert(place(33, 8)))),
        ("is in nobody's way", |world| {
            world.leader.queue.remove(&place(31, 2));
            world.leader.queue.insert(place(30, 2));
        }),
        ("needs locks is counted", |world| world.leader.coordinated = 2),
        ("needs locks is counted", |world| world.leader.coordinated = 0),
        ("lacks votes, and has them", |world| assert!(world.leader.undecided.insert(place(31, 2)))),
        ("lacks votes, and nobody knows", |world| {
            world.leader.undecided.remove(&place(20, 1));
            world.leader.undecided.insert(place(31, 2));
        }),
        ("can be committed is known", |world| assert!(world.leader.dated.insert(place(20, 1)))),
        ("has its timestamp, or not", |world| {
            world.leader.dated.remove(&place(31, 2));
            world.leader.dated.insert(place(20, 1));
        }),
        ("holds Nothing", |world| world.open(1).hold = Hold::Nothing),
        ("blocks reads while nothing is locked", |world| {
            *world = World::unlocked();
            world.leader.end_read(id(4));
            world.leader.await_read(id(4), at(50), reading(), Some(id(1)));
        }),
        ("can be committed is known", |world| {
            *world = World::unlocked();
            world.leader.dated.insert(place(31, 2));
        }),
        ("by force while nothing is locked", |world| {
            *world = World::unlocked();
            world.leader.is_forced = true;
        }),
        ("holds Prepared", |world| {
            *world = World::unlocked();
            world.open(2).hold = Hold::Prepared;
        }),
        ("beneath the one that is stable", |world| world.state.ceiling = at(131)),
        ("above every ceiling", |world| world.leader.executed = at(131)),
        ("is not stable, and has not run", |world| {
            world.leader.unlogged.insert(place(90, 8));
            world.leader.voted.insert(place(90, 8));
        }),
        ("is not on its way", |world| assert!(world.leader.voted.remove(&place(120, 6)))),
        ("ran above the ceiling", |world| assert!(world.leader.unlogged.remove(&place(120, 6)))),
        ("has ended, and blocks reads", |world| {
            world.leader.end_read(id(4));
            world.leader.await_read(id(4), at(50), reading(), Some(id(8)));
        }),
        ("a read lacks votes, and has them", |world| assert!(world.leader.undated.insert((at(41), id(8))))),
        ("lacks votes, and nobody knows", |world| {
            world.leader.undated.clear();
            world.leader.undated.insert((at(41), id(3)));
        }),
        ("waits for votes and to read", |world| {
            world.leader.reads.begin(id(3), at(50), reading(), None);
        }),
        ("and", |world| assert!(world.leader.callers.insert(ClientId(9), 1).is_none())),
        ("and", |world| assert!(world.leader.callers.remove(&ClientId(1)).is_some())),
        ("and", |world| *world.leader.callers.entry(ClientId(2)).or_default() += 1),
    ];
    assert_eq!((World::sound().told(), World::unlocked().told()), (None, None));
    for (number, (property, breaks)) in broken.into_iter().enumerate() {
        let mut world = World::sound();
        breaks(&mut world);
        let told = world.told();
        assert!(told.as_ref().is_some_and(|told| told.contains(property)), "{number} {property}: {told:?}");
    }
}

#[test]
fn what_stands_at_a_bound_is_within_it() {
    let allowed: [(&str, Change); 7] = [
        ("forgotten up to the floor", |world| world.state.forgotten = at(10)),
        ("proposed at the ceiling", |world| world.pending(1).voted = voted(1, 100, &[1, 2], 12)),
        ("sent at the floor", |world| world.pending(1).voted = voted(1, 20, &[1, 2], 10)),
        ("one that no other shard votes on, sent below the floor", |world| {
            world.pending(1).voted = voted(1, 20, &[1], 9);
        }),
        ("the ceilings are the same", |world| world.state.ceiling = at(130)),
        ("executed up to the ceiling", |world| world.leader.executed = at(130)),
        ("a final timestamp at the ceiling", |world| {
            world.state.queue.remove(&place(60, 5));
            world.state.queue.insert(place(100, 5));
            world.pending(5).place = place(100, 5);
        }),
    ];
    for (what, change) in allowed {
        let mut world = World::sound();
        change(&mut world);
        assert_eq!(world.told(), None, "{what}");
    }
}
