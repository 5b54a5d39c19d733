//! One replica by itself: what it writes down, says and asks for in one step, and in which order.

mod epochs;
mod facts;
mod states;
mod steps;
mod views;

use std::collections::VecDeque;
use std::time::Duration;

use quorate_core::log::Position;
use quorate_core::{ClockTime, Epoch, GroupSize, Instant, ReplicaIndex, View};

use super::{LIMITS, TIMING, counting};
use crate::replica::{Beginning, Boot, Durable};
use crate::{Entry, Fact, Host, Membership, Message, Payload, Replica, Rules, Timer};

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Own(u64),
    Next(Membership),
}

impl Payload for Word {
    /// Up to [`PAGE`] words so far.
    type Page = Vec<u64>;
    /// The pages that have not been given.
    type Frozen = VecDeque<Vec<u64>>;

    fn bytes(&self) -> usize {
        8
    }

    fn next_group(&self) -> Option<&Membership> {
        match self {
            Word::Own(_) => None,
            Word::Next(next) => Some(next),
        }
    }
}

/// A page holds so many words.
const PAGE: usize = 2;

/// A request of a replica to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Act {
    Send(u8, Message<Word>),
    SendAtOnce(u8, Message<Word>),
    Persist(Fact<Word>),
    PersistAndNotify(Fact<Word>, Durable),
    Anchor,
    Truncate,
    SetTimer(Timer, Duration),
    CancelTimer(Timer),
    ReplaceState(u64, Vec<Vec<u64>>),
    Leading(View),
    Deposed,
    HandedOver,
    Ignored(&'static str),
}

/// The host of one replica in one step.
struct Hands<'a> {
    now: Instant,
    state: &'a mut Vec<u64>,
    nonces: &'a mut u64,
    acts: Vec<Act>,
}

impl Host<Word> for Hands<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn clock(&self) -> ClockTime {
        ClockTime::from_micros(self.now.as_nanos() / 1_000)
    }

    fn send(&mut self, to: ReplicaIndex, message: Message<Word>) {
        self.acts.push(Act::Send(to.0, message));
    }

    fn send_unordered(&mut self, to: ReplicaIndex, message: Message<Word>) {
        self.acts.push(Act::SendAtOnce(to.0, message));
    }

    fn persist(&mut self, fact: Fact<Word>) {
        self.acts.push(Act::Persist(fact));
    }

    fn anchor(&mut self) {
        self.acts.push(Act::Anchor);
    }

    fn truncate(&mut self) {
        self.acts.push(Act::Truncate);
    }

    fn persist_and_notify(&mut self, fact: Fact<Word>, durable: Durable) {
        self.acts.push(Act::PersistAndNotify(fact, durable));
    }

    fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.acts.push(Act::SetTimer(timer, after));
    }

    fn cancel_timer(&mut self, timer: Timer) {
        self.acts.push(Act::CancelTimer(timer));
    }

    fn on_stable(&mut self, position: Position, payload: &Word) {
        assert_eq!(position.0, self.state.len() as u64 + 1, "entries are given in order");
        self.state.push(match payload {
            Word::Own(word) => *word,
            Word::Next(next) => 1_000 + u64::from(next.epoch().0),
        });
    }

    fn freeze(&mut self) -> VecDeque<Vec<u64>> {
        self.state.chunks(PAGE).map(<[u64]>::to_vec).collect()
    }

    fn next_page(&mut self, state: &mut VecDeque<Vec<u64>>) -> Option<Vec<u64>> {
        state.pop_front()
    }

    fn replace_state(&mut self, base: Position, pages: Vec<Vec<u64>>) {
        *self.state = pages.concat();
        self.acts.push(Act::ReplaceState(base.0, pages));
    }

    fn nonce(&mut self) -> u64 {
        *self.nonces += 1;
        *self.nonces
    }

    fn ignored(&mut self, reason: &'static str) {
        self.acts.push(Act::Ignored(reason));
    }

    fn on_leading(&mut self, view: View) {
        self.acts.push(Act::Leading(view));
    }

    fn on_deposed(&mut self) {
        self.acts.push(Act::Deposed);
    }

    fn on_handed_over(&mut self) {
        self.acts.push(Act::HandedOver);
    }
}

/// A replica, its disk, and what its host holds.
struct Alone {
    replica: Replica<Word>,
    me: u8,
    membership: Membership,
    now: Instant,
    disk: Vec<Fact<Word>>,
    state: Vec<u64>,
    nonces: u64,
}

impl Alone {
    /// A replica of a new group.
    fn new(me: u8, replicas: usize) -> Self {
        let mut alone = Alone::built(me, first(replicas), Vec::new());
        alone.starts(Boot::Initialise);
        alone
    }

    /// A replica with these facts on its disk, which has not begun.
    fn built(me: u8, membership: Membership, disk: Vec<Fact<Word>>) -> Self {
        let mut replica = Replica::new(membership.clone(), ReplicaIndex(me), TIMING, LIMITS);
        replica.restore(counting(disk.clone(), Rules::SOUND));
        let now = Instant::START + Duration::from_secs(1);
        Alone { replica, me, membership, now, disk, state: Vec::new(), nonces: 0 }
    }

    /// The same replica after a crash that its whole disk has survived; it has begun.
    fn restarted(&self) -> (Self, Vec<Act>) {
        let mut next = Alone::built(self.me, self.membership.clone(), self.disk.clone());
        (next.now, next.nonces) = (self.now, self.nonces);
        let acts = next.starts(Boot::Initialise);
        (next, acts)
    }

    fn starts(&mut self, boot: Boot) -> Vec<Act> {
        self.steps(|replica, hands| replica.start(boot, hands))
    }

    /// The requests of the replica in one step.
    fn steps(&mut self, act: impl FnOnce(&mut Replica<Word>, &mut Hands<'_>)) -> Vec<Act> {
        let mut hands =
            Hands { now: self.now, state: &mut self.state, nonces: &mut self.nonces, acts: Vec::new() };
        act(&mut self.replica, &mut hands);
        self.replica.flush(&mut hands);
        let acts = hands.acts;
        self.disk.extend(facts(&acts));
        acts
    }

    /// Its requests when another replica says something under an epoch.
    fn hears_of(&mut self, epoch: Epoch, from: u8, message: Message<Word>) -> Vec<Act> {
        self.steps(|replica, hands| replica.on_message(ReplicaIndex(from), epoch, message, hands))
    }

    /// The same under its own epoch.
    fn hears(&mut self, from: u8, message: Message<Word>) -> Vec<Act> {
        let epoch = self.replica.membership().epoch();
        self.hears_of(epoch, from, message)
    }

    fn fires(&mut self, timer: Timer) -> Vec<Act> {
        self.steps(|replica, hands| replica.on_timer(timer, hands))
    }

    fn passes(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// All that was written down becomes durable.
    fn syncs(&mut self, acts: &[Act]) -> Vec<Act> {
        let notices = acts.iter().filter_map(|act| match act {
            Act::PersistAndNotify(_, durable) => Some(*durable),
            _ => None,
        });
        let notices: Vec<Durable> = notices.collect();
        let on_durable = |durable| self.steps(|replica, hands| replica.on_durable(durable, hands));
        notices.into_iter().flat_map(on_durable).collect()
    }

    /// Its requests when it appends these, one entry a word.
    fn appends(&mut self, words: impl IntoIterator<Item = u64>) -> Vec<Act> {
        self.steps(|replica, _| {
            for word in words {
                assert!(replica.append(Word::Own(word)).is_some(), "it leads");
            }
        })
    }

    /// Writes the snapshot that has begun to its end.
    fn writes_snapshot(&mut self) {
        let has_ended = (0..100).any(|_| self.fires(Timer::Snapshot).contains(&Act::Truncate));
        assert!(has_ended, "a snapshot has an end");
    }

    /// The entries of its log, with the position of the first.
    fn log(&self) -> (u64, Vec<Word>) {
        let base = self.replica.shape().base.0;
        let at = |position| self.replica.entry(Position(position)).map(|entry| entry.payload.clone());
        (base + 1, (base + 1..=self.replica.last().0).map(|position| at(position).unwrap()).collect())
    }
}

fn first(replicas: usize) -> Membership {
    Membership::first(GroupSize::on_log(replicas).unwrap())
}

fn group(epoch: u32, members: &[u8]) -> Membership {
    Membership::new(Epoch(epoch), members.iter().copied().map(ReplicaIndex).collect()).unwrap()
}

/// A view of the first epoch is one of the group that begins with nothing.
fn beginning(replicas: usize) -> Beginning {
    Beginning { membership: first(replicas), base: Position::START, view: View(0) }
}

/// Entries that were appended in one view.
fn entries(view: u64, words: impl IntoIterator<Item = u64>) -> Vec<Entry<Word>> {
    words.into_iter().map(|word| Entry { view: View(view), payload: Word::Own(word) }).collect()
}

/// The facts among what a replica asks for.
fn facts(acts: &[Act]) -> Vec<Fact<Word>> {
    let fact = |act: &Act| match act {
        Act::Persist(fact) | Act::PersistAndNotify(fact, _) => Some(fact.clone()),
        _ => None,
    };
    acts.iter().filter_map(fact).collect()
}

/// The messages of a replica, and the others to which they go.
fn said(acts: &[Act]) -> Vec<(u8, Message<Word>)> {
    let message = |act: &Act| match act {
        Act::Send(to, message) | Act::SendAtOnce(to, message) => Some((*to, message.clone())),
        _ => None,
    };
    acts.iter().filter_map(message).collect()
}

/// For how long a replica has set a timer last; none if it has not.
fn timer(acts: &[Act], timer: Timer) -> Option<Duration> {
    acts.iter().rev().find_map(|act| match act {
        Act::SetTimer(set, after) if *set == timer => Some(*after),
        _ => None,
    })
}
