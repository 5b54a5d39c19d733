//! The state that only the leader knows, and loses with its leadership: nothing here is needed to tell what has been promised.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quorate_core::log::Confirmation;
use quorate_core::{
    Address, ClientId, ClockTime, Instant, ReplicaIndex, ShardId, TransactionId, Value, View,
};

use super::debts::Debts;
use super::delays::VoteDelays;
use super::hub::Gathering;
use super::reads::{Reading, Reads};
use crate::application::Answer;
use crate::entry::{Ending, Final, Pending, Vote};
use crate::message::Message;
use crate::place::Place;
use quorate_core::command::Class;

/// The volatile state of a leader.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) view: View,
    /// The transactions that it has accepted and not executed, nor refused.
    pub(super) open: BTreeMap<TransactionId, Open>,
    /// How much of that, and of what waits to read, each client has asked for; none of those that have nothing there.
    pub(super) callers: BTreeMap<ClientId, usize>,
    /// The debts of clients for operations that were long.
    pub(super) debts: Debts,
    /// Those of them that write, in the order in which they are executed if nothing comes in between; stable or not.
    pub(super) queue: BTreeSet<Place>,
    /// Those of them that have no timestamp yet, as votes are missing.
    pub(super) undecided: BTreeSet<Place>,
    /// How late the votes of other shards are.
    pub(super) delays: VoteDelays,
    /// True if of what writes the latest needs no votes: then more of that may come.
    pub(super) may_be_passed: bool,
    /// The read-only transactions whose timestamps are known: each waits until nothing stands at or below its own.
    pub(super) reads: Reads,
    /// The read-only transactions without a timestamp yet, by their proposals.
    pub(super) undated: BTreeSet<(ClockTime, TransactionId)>,
    /// True if something has changed since what waits to read was last looked at.
    pub(super) has_moved: bool,
    /// How much of what is open is coordinated.
    pub(super) coordinated: usize,
    /// True if, when it was last looked at, a shard did not vote for long on something that writes.
    pub(super) is_held_up: bool,
    /// True if it locks, and so executes in another order than that of timestamps (section 4.5).
    pub(super) is_locking: bool,
    /// While it locks: the transactions of the queue that have their timestamps.
    pub(super) dated: BTreeSet<Place>,
    /// While it locks: true if some of what is pending touches the same, so that it matters where it stands.
    pub(super) is_forced: bool,
    /// The transactions voted for in entries that are not stable yet, at their proposals.
    pub(super) voted: BTreeSet<Place>,
    /// The transactions that were executed before they were logged, and are not stable yet. Nobody may learn of them.
    pub(super) unlogged: BTreeSet<Place>,
    /// The transactions that were executed ahead of the log: their timestamps and answers.
    pub(super) ahead: BTreeMap<TransactionId, (ClockTime, Answer)>,
    /// The transactions that are executed nowhere, as another participant has decided, of which the log does not say so yet.
    pub(super) dropped: BTreeMap<TransactionId, Ending>,
    /// The greatest timestamp at which anything was executed or read, also by earlier leaders.
    pub(super) executed: ClockTime,
    /// Up to here it has told consumers of changes that nothing else comes.
    pub(super) promised: ClockTime,
    /// The greatest that was proposed.
    pub(super) proposed: ClockTime,
    /// The endings that are to be appended with the next entry.
    pub(super) finals: Vec<Final>,
    /// True if a timer appends that if nothing else does.
    pub(super) finals_due: bool,
    /// Up to where it may execute once everything is stable that was appended.
    pub(super) ceiling: ClockTime,
    /// The transactions on which others vote and that nobody has asked this shard to execute.
    pub(super) strangers: BTreeMap<TransactionId, Stranger>,
    /// The transactions that were refused without having been heard of, if that is not stable yet.
    pub(super) refusing: BTreeSet<TransactionId>,
    /// The transactions that it coordinates for others, if that is what its group is for.
    pub(super) gathering: BTreeMap<TransactionId, Gathering>,
    /// Answers that leave once it is known that this replica still led when they were made.
    pub(super) unconfirmed: VecDeque<(Confirmation, Address, Message)>,
    /// Endings without execution, as others say: they are believed once it is known that this replica led when it heard them.
    pub(super) unbelieved: VecDeque<(Confirmation, TransactionId, Ending)>,
    /// The leaders of other shards, as far as it knows.
    pub(super) leaders: BTreeMap<ShardId, ReplicaIndex>,
    /// The shards that take part in what is remembered here, and their floors as far as they were heard.
    pub(super) neighbours: BTreeMap<ShardId, ClockTime>,
    /// Which replica of each of them is asked next: any of them will do.
    pub(super) floor_round: usize,
    pub(super) floor_due: Instant,
    /// Up to where other shards may have executed, the furthest of what they have told: what clients have seen there is no lie.
    pub(super) elsewhere: ClockTime,
    /// Not before they are asked for that again.
    pub(super) elsewhere_due: Instant,
    /// FLOOR is appended and not yet stable, with this floor: a transaction that is accepted below it now would come after it.
    pub(super) next_floor: Option<ClockTime>,
    /// Until then another shard needs this one's floor.
    pub(super) floor_wanted_until: Option<Instant>,
}

/// A transaction that is accepted and not executed.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) participants: Vec<ShardId>,
    pub(super) operation: Value,
    pub(super) first: ClockTime,
    pub(super) class: Class,
    pub(super) proposed: ClockTime,
    /// Since when its vote may be told, if it may.
    pub(super) stable_since: Option<Instant>,
    /// The proposals of the others, as far as they are known.
    pub(super) votes: BTreeMap<ShardId, ClockTime>,
    /// Its timestamp, once that is certain.
    pub(super) timestamp: Option<ClockTime>,
    /// When it was accepted, or votes were asked for.
    pub(super) asked: Instant,
    /// How often they were asked for.
    pub(super) asks: u32,
    /// True if an earlier leader has accepted it, and may have executed it and told its client.
    pub(super) is_inherited: bool,
    /// True if it is not executed here any more: as soon as that is stable, it has ended.
    pub(super) is_given_up: bool,
    /// Its locks.
    pub(super) hold: Hold,
    /// Its answer if it is committed, as far as that is known.
    pub(super) answer: Option<Answer>,
    /// The participants that do not know the votes of shards that are lost, either.
    pub(super) abandoned: BTreeSet<ShardId>,
}

/// The locks of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Nothing.
    Nothing,
    /// All that it touches, which no other has locked; or all that it may touch, which none before it has locked. It can be committed.
    Prepared,
    /// All that it may touch, as others have that stand before it.
    Blocked,
}

impl Open {
    /// A transaction that is pending in the log: its vote is stable.
    pub(super) fn of(pending: &Pending, now: Instant) -> Self {
        let voted = &pending.voted;
        Open {
            participants: voted.participants.clone(),
            operation: voted.operation.clone().unwrap_or_default(),
            first: voted.first,
            class: voted.class,
            proposed: voted.proposed,
            stable_since: Some(now),
            votes: BTreeMap::new(),
            timestamp: pending.is_final.then_some(pending.place.timestamp),
            asked: now,
            asks: 0,
            is_inherited: true,
            is_given_up: false,
            hold: Hold::Nothing,
            answer: None,
            abandoned: BTreeSet::new(),
        }
    }

    /// True if its vote may be told.
    pub(super) fn is_stable(&self) -> bool {
        self.stable_since.is_some()
    }

    /// The participants whose votes are not known, but for `own`.
    pub(super) fn missing(&self, own: ShardId) -> impl Iterator<Item = ShardId> + '_ {
        let others = self.participants.iter().copied().filter(move |shard| *shard != own);
        others.filter(|shard| !self.votes.contains_key(shard))
    }

    /// Where it stands in the queue.
    pub(super) fn place(&self, id: TransactionId) -> Place {
        Place { timestamp: self.timestamp.unwrap_or(self.proposed), transaction: id }
    }
}

/// A transaction that nobody has asked this shard to execute, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Stranger {
    pub(super) participants: Vec<ShardId>,
    pub(super) first: ClockTime,
    pub(super) class: Class,
    pub(super) votes: BTreeMap<ShardId, (Vote, ClockTime)>,
    pub(super) since: Instant,
}

impl Leader {
    /// A leader that begins above everything that earlier ones may have executed.
    pub(super) fn new(view: View, ceiling: ClockTime) -> Self {
        Leader {
            view,
            open: BTreeMap::new(),
            callers: BTreeMap::new(),
            debts: Debts::default(),
            queue: BTreeSet::new(),
            undecided: BTreeSet::new(),
            delays: VoteDelays::default(),
            may_be_passed: false,
            reads: Reads::default(),
            undated: BTreeSet::new(),
            has_moved: false,
            coordinated: 0,
            is_held_up: false,
            is_locking: false,
            dated: BTreeSet::new(),
            is_forced: false,
            voted: BTreeSet::new(),
            unlogged: BTreeSet::new(),
            ahead: BTreeMap::new(),
            dropped: BTreeMap::new(),
            executed: ceiling,
            promised: ClockTime::default(),
            proposed: ceiling,
            finals: Vec::new(),
            finals_due: false,
            ceiling,
            strangers: BTreeMap::new(),
            refusing: BTreeSet::new(),
            gathering: BTreeMap::new(),
            unconfirmed: VecDeque::new(),
            unbelieved: VecDeque::new(),
            leaders: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            floor_round: 0,
            floor_due: Instant::START,
            elsewhere: ClockTime::default(),
            elsewhere_due: Instant::START,
            next_floor: None,
            floor_wanted_until: None,
        }
    }

    /// How many requests wait for something.
    pub(super) fn waiting(&self) -> usize {
        self.open.len()
            + self.reads.len()
            + self.ahead.len()
            + self.dropped.len()
            + self.strangers.len()
            + self.refusing.len()
            + self.unconfirmed.len()
    }

    /// Other shards take part in what is remembered here from now on.
    pub(super) fn note_neighbours(&mut self, participants: &[ShardId]) {
        for shard in participants {
            self.neighbours.entry(*shard).or_default();
        }
    }

    /// The least place of which a read-only transaction may still have to see the state.
    pub(super) fn reads_from(&self) -> Option<Place> {
        let undated = self.undated.first();
        let first = undated.copied().into_iter().chain(self.reads.first()).min();
        first.map(|(timestamp, _)| Place::after(timestamp))
    }

    /// A transaction was accepted.
    pub(super) fn begin(&mut self, id: TransactionId, open: Open) {
        assert!(!self.ahead.contains_key(&id), "{id} is executed, and accepted again (I3)");
        assert!(!self.dropped.contains_key(&id), "{id} is executed nowhere, and accepted (I4)");
        self.coordinated += usize::from(open.class == Class::Coordinated);
        if open.class != Class::ReadOnly && open.timestamp.is_none() {
            self.undecided.insert(open.place(id));
        }
        assert!(self.open.insert(id, open).is_none(), "{id} is accepted twice");
        self.count_in(id.client);
    }

    /// Up to where nothing lacks votes. A proposal above keeps nothing waiting that could go on without it.
    pub(super) fn certain(&self) -> ClockTime {
        let (queued, read) = match self.undecided.first() {
            Some(first) => (self.queue.range(..first).next_back(), self.reads.last_beneath(first.timestamp)),
            None => (self.queue.last(), self.reads.last()),
        };
        let queued = queued.map(|place| place.timestamp);
        queued.into_iter().chain(read).max().unwrap_or_default()
    }

    /// Forgets a transaction that was accepted. It may still hold locks.
    pub(super) fn close(&mut self, id: TransactionId) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.count_out(id.client);
        let coordinated = usize::from(open.class == Class::Coordinated);
        assert!(self.coordinated >= coordinated, "{id} is coordinated, and was not counted");
        self.coordinated -= coordinated;
        self.has_moved = true;
        self.reads.unblock(id);
        match open.class {
            Class::ReadOnly => {
                self.undated.remove(&(open.proposed, id));
            }
            Class::Independent | Class::Coordinated => {
                self.undecided.remove(&open.place(id));
                self.queue.remove(&open.place(id));
                self.dated.remove(&open.place(id));
            }
        }
        Some(open)
    }

    /// Lets what only reads wait for its timestamp; it may be blocked already.
    pub(super) fn await_read(
        &mut self,
        id: TransactionId,
        timestamp: ClockTime,
        reading: Reading,
        blocked_by: Option<TransactionId>,
    ) {
        assert!(!self.open.contains_key(&id), "{id} waits for votes and for its turn");
        self.reads.begin(id, timestamp, reading, blocked_by);
        self.count_in(id.client);
        self.has_moved = true;
    }

    /// It waits no longer.
    pub(super) fn end_read(&mut self, id: TransactionId) {
        self.reads.end(id);
        self.count_out(id.client);
    }

    /// How many requests of a client wait to be executed.
    pub(super) fn waiting_of(&self, client: ClientId) -> usize {
        self.callers.get(&client).copied().unwrap_or_default()
    }

    /// True if a client owes something and has to wait for its turn: all of them owe much, or one of them has something here that may be long.
    pub(super) fn is_to_wait(&self, client: ClientId, owed_max: u64) -> bool {
        let has_anything = |debtor: ClientId| self.waiting_of(debtor) > 0;
        self.debts.has(client) && (self.debts.total() > owed_max || self.debts.debtors().any(has_anything))
    }

    fn count_in(&mut self, client: ClientId) {
        *self.callers.entry(client).or_default() += 1;
    }

    fn count_out(&mut self, client: ClientId) {
        let Some(waiting) = self.callers.get_mut(&client) else { panic!("{client} waits for nothing") };
        *waiting -= 1;
        if *waiting == 0 {
            self.callers.remove(&client);
        }
    }

    /// The greatest timestamp up to which everything that was executed here is stable.
    pub(super) fn executed_and_logged(&self) -> ClockTime {
        let before = |place: &Place| ClockTime::from_micros(place.timestamp.as_micros().saturating_sub(1));
        self.unlogged.first().map_or(self.executed, |first| self.executed.min(before(first)))
    }

    /// The least timestamp of what was executed and is not stable.
    pub(super) fn first_unlogged(&self) -> Option<ClockTime> {
        self.unlogged.first().map(|place| place.timestamp)
    }

    /// The least timestamp of what is not executed, or not stable.
    pub(super) fn first_pending(&self) -> Option<ClockTime> {
        let queued = self.queue.first().map(|place| place.timestamp);
        self.first_unlogged().into_iter().chain(queued).min()
    }

    /// True if it was executed and is not stable.
    pub(super) fn is_unlogged(&self, id: TransactionId) -> bool {
        let ahead = self.ahead.get(&id);
        ahead.is_some_and(|(timestamp, _)| {
            self.unlogged.contains(&Place { timestamp: *timestamp, transaction: id })
        })
    }
}
