//! The smallest world in which machines on logs, and those that speak with them, can meet: one queue of messages, delivered in
//! order.
//!
//! | command | meaning |
//! |---|---|
//! | `clock WHO MICROS` | what the physical clock of a client (`c1`) or replica (`1/r0`) has shown at the start |
//! | `deliver`, `deliver N` | delivers messages, and what they lead to, until none is left; the next N |
//! | `hold WHO`, `hold FROM TO`, `release …` | keeps messages back from now on; lets them go |
//! | `cut FROM TO`, `mend FROM TO` | loses what FROM sends to TO from now on; no longer |
//! | `overtake FROM TO` | what FROM has said to TO last comes before what it has said to TO earlier and TO has not heard yet |
//! | `drop WHO` | loses the messages to WHO that are on their way or held back |
//! | `repeat WHO` | delivers every message that WHO ever received once more, but for those of logs |
//! | `advance MILLISECONDS` | lets time pass; timers fire |
//! | `crash WHO`, `restart WHO` | kills; brings back with its log |
//! | `lead WHO`, `usurp WHO` | lets a replica lead the next view; the former leader is told, or is not and has lost its lease |
//! | `group SHARD r3 r4 r5` | the group of a shard goes on with these replicas, the first of which leads; nobody else is told |
//! | `lease WHO none` | a leader has no lease |
//! | `confirm WHO` | lets a leader know that it leads |
//!
//! A message that is lost is struck out: `✗ c1 → 1/r0: …`. One that its receiver drops is so, too, and says why: `✗ c1 → 1/r0: … (reason)`.
//! Any other input that a machine drops is told like `✗ 1/r0 (reason)`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;

use std::time::Duration;

use quorate_core::log::{LogMachine, LogOutbox, Position};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, Groups, Input, Instant, Machine, Members, Outbox,
    Random, ReplicaId, ReplicaIndex, ShardId, TransactionId, View,
};

use crate::ignored::Ignored;
use crate::log::{LogMessage, ReplicaLog, lease};

/// The machines that a protocol brings to the stage, with their names and words.
pub trait Play {
    /// A machine on a log.
    type Replica: LogMachine;
    /// A machine that speaks with them.
    type Client: Machine<Message = MessageOf<Self>, Record = Infallible>;

    /// A replica, where the groups are these.
    fn replica(&self, id: ReplicaId, groups: &Groups) -> Self::Replica;

    /// The group of this name.
    fn shard(&self, word: &str) -> ShardId {
        ShardId(word.parse().unwrap_or_else(|_| panic!("no such group: {word}")))
    }

    /// The name of a group.
    fn shard_name(&self, shard: ShardId) -> String {
        shard.0.to_string()
    }

    /// The name of a client.
    fn client_name(&self, client: ClientId) -> String {
        format!("c{}", client.0)
    }

    /// A message in a few words.
    fn message(&self, message: &MessageOf<Self>) -> String;

    /// An entry in a few words.
    fn entry(&self, entry: &<Self::Replica as LogMachine>::Entry) -> String;

    /// Asserts what holds between any two steps of a replica. Called after each.
    fn assert_invariants(&self, replica: &Self::Replica) {
        let _ = replica;
    }

    /// A message of a replica to its host, in a few words.
    fn replica_event(&self, event: &<Self::Replica as LogMachine>::Event) -> String;

    /// A message to a client, in a few words.
    fn client_event(&self, event: &<Self::Client as Machine>::Event) -> String;
}

type MessageOf<P> = <<P as Play>::Replica as LogMachine>::Message;
type EntryOf<P> = <<P as Play>::Replica as LogMachine>::Entry;
type TimerOf<P> = <<P as Play>::Replica as LogMachine>::Timer;
type PageOf<P> = <<P as Play>::Replica as LogMachine>::Page;
type ReplicaInput<P> = Input<MessageOf<P>, TimerOf<P>, <<P as Play>::Replica as LogMachine>::Command>;

/// Machines, and what is between them.
pub struct Stage<P: Play> {
    play: P,
    now: Instant,
    random: Random,
    /// The membership by the latest definition; a machine that is created learns that.
    groups: Groups,
    clocks: BTreeMap<Address, u64>,
    replicas: BTreeMap<ReplicaId, P::Replica>,
    logs: BTreeMap<ReplicaId, ReplicaLog<EntryOf<P>>>,
    clients: BTreeMap<ClientId, P::Client>,
    replica_timers: BTreeMap<(ReplicaId, TimerOf<P>), Instant>,
    client_timers: BTreeMap<(ClientId, <P::Client as Machine>::Timer), Instant>,
    queue: VecDeque<Envelope<P>>,
    /// Receivers whose messages are kept back; with a sender, only those from it.
    held: BTreeSet<(Option<Address>, Address)>,
    /// Links, from and to, on which everything is lost.
    cut: BTreeSet<(Address, Address)>,
    history: Vec<Envelope<P>>,
    ignored: Ignored,
}

struct Envelope<P: Play> {
    from: Address,
    to: Address,
    said: Said<P>,
    /// True if it comes once more.
    is_repeated: bool,
}

impl<P: Play> Clone for Envelope<P> {
    fn clone(&self) -> Self {
        let Envelope { from, to, said, is_repeated } = self;
        Envelope { from: *from, to: *to, said: said.clone(), is_repeated: *is_repeated }
    }
}

enum Said<P: Play> {
    Protocol(MessageOf<P>),
    Log(LogMessage<EntryOf<P>>),
}

impl<P: Play> Clone for Said<P> {
    fn clone(&self) -> Self {
        match self {
            Said::Protocol(message) => Said::Protocol(message.clone()),
            Said::Log(message) => Said::Log(message.clone()),
        }
    }
}

impl<P: Play> Stage<P> {
    /// An empty stage, where groups are of this size unless they are changed.
    pub fn new(play: P, groups: Groups) -> Self {
        Stage {
            play,
            now: Instant::START,
            random: Random::new(1),
            groups,
            clocks: BTreeMap::new(),
            replicas: BTreeMap::new(),
            logs: BTreeMap::new(),
            clients: BTreeMap::new(),
            replica_timers: BTreeMap::new(),
            client_timers: BTreeMap::new(),
            queue: VecDeque::new(),
            held: BTreeSet::new(),
            cut: BTreeSet::new(),
            history: Vec::new(),
            ignored: Ignored::default(),
        }
    }

    /// The protocol that was brought.
    pub fn play(&self) -> &P {
        &self.play
    }

    /// The membership by the latest definition.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Every replica that is up.
    pub fn replicas(&self) -> &BTreeMap<ReplicaId, P::Replica> {
        &self.replicas
    }

    /// True if there is such a client, and it is up.
    pub fn has_client(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Carries out one of the commands that every stage knows; false if it is none of them.
    pub fn command(&mut self, words: &[&str], told: &mut Vec<String>) -> bool {
        match *words {
            ["clock", who, micros] => {
                self.clocks.insert(self.address(who), micros.parse().expect("a number"));
            }
            ["deliver"] => self.deliver(told),
            ["deliver", count] => self.deliver_some(count.parse().expect("a number"), told),
            ["hold", who] => {
                self.held.insert((None, self.address(who)));
            }
            ["hold", from, to] => {
                self.held.insert((Some(self.address(from)), self.address(to)));
            }
            ["release", who] => {
                self.held.remove(&(None, self.address(who)));
            }
            ["release", from, to] => {
                self.held.remove(&(Some(self.address(from)), self.address(to)));
            }
            ["cut", from, to] => {
                self.cut.insert((self.address(from), self.address(to)));
            }
            ["mend", from, to] => {
                self.cut.remove(&(self.address(from), self.address(to)));
            }
            ["overtake", from, to] => self.overtake(self.address(from), self.address(to)),
            ["drop", who] => self.drop_messages(self.address(who), told),
            ["repeat", who] => self.repeat(self.address(who), told),
            ["advance", milliseconds] => self.advance(milliseconds.parse().expect("a number"), told),
            ["crash", who] => self.crash(self.address(who)),
            ["restart", who] => self.restart(self.replica(who), told),
            ["lead", who] => self.lead(self.replica(who), true, told),
            ["usurp", who] => self.lead(self.replica(who), false, told),
            ["group", shard, ref members @ ..] => self.change_group(shard, members, told),
            ["lease", who, "none"] => {
                let id = self.replica(who);
                self.log(id).lease = None;
            }
            ["confirm", who] => self.confirm(self.replica(who), told),
            _ => return false,
        }
        self.ignored.tell(told);
        true
    }

    /// The participant of this name: `c1` or `1/r0`.
    ///
    /// # Panics
    /// If that is no name.
    pub fn address(&self, word: &str) -> Address {
        if let Some(client) = word.strip_prefix('c') {
            return Address::Client(ClientId(client.parse().expect("clients are numbered")));
        }
        let (shard, index) = word.split_once("/r").unwrap_or_else(|| panic!("no such participant: {word}"));
        let index = ReplicaIndex(index.parse().expect("replicas are numbered"));
        Address::Replica(ReplicaId { shard: self.play.shard(shard), index })
    }

    /// The replica of this name.
    ///
    /// # Panics
    /// If that is not the name of a replica.
    pub fn replica(&self, word: &str) -> ReplicaId {
        let Address::Replica(id) = self.address(word) else { panic!("{word} is no replica") };
        id
    }

    /// The transaction of this name: `7` is one of this client, `c2.7` one of that client, and `7/2` the attempt after the second.
    ///
    /// # Panics
    /// If that is no name.
    pub fn transaction(&self, client: ClientId, word: &str) -> TransactionId {
        let (client, word) = match word.split_once('.') {
            Some((other, word)) => match self.address(other) {
                Address::Client(other) => (other, word),
                Address::Replica(_) => panic!("{other} is no client"),
            },
            None => (client, word),
        };
        let (sequence, attempt) = word.split_once('/').unwrap_or((word, "0"));
        let sequence = sequence.parse().expect("transactions are numbered");
        TransactionId { client, sequence, attempt: attempt.parse().expect("attempts are numbered") }
    }

    /// The name of a participant.
    pub fn name(&self, address: Address) -> String {
        name(&self.play, address)
    }

    fn log(&mut self, id: ReplicaId) -> &mut ReplicaLog<EntryOf<P>> {
        self.logs.get_mut(&id).expect("every replica has a log")
    }

    /// Creates the replicas of a group, the first of which leads.
    pub fn create_group(&mut self, shard: ShardId, told: &mut Vec<String>) {
        let members: Vec<ReplicaIndex> = self.groups.members(shard).iter().collect();
        for (place, index) in members.into_iter().enumerate() {
            let id = ReplicaId { shard, index };
            self.create_replica(id, place == 0, told);
            if place == 0 {
                self.tell(id, told, |replica, context, log, outbox| {
                    replica.on_leading(context, View(0), log, outbox);
                });
            }
        }
    }

    fn create_replica(&mut self, id: ReplicaId, leads: bool, told: &mut Vec<String>) {
        self.logs.insert(id, ReplicaLog::new(leads));
        self.replicas.insert(id, self.play.replica(id, &self.groups));
        self.step_replica(id, Input::Start, told);
    }

    /// Creates a client.
    pub fn create_client(&mut self, id: ClientId, client: P::Client, told: &mut Vec<String>) {
        self.clients.insert(id, client);
        self.step_client(id, Input::Start, told);
    }

    /// The group of a shard goes on with these replicas, the first of which leads. They know, and so do those before them; the
    /// machines that speak with them do not.
    fn change_group(&mut self, shard: &str, members: &[&str], told: &mut Vec<String>) {
        let index = |word: &&str| {
            let number = word.strip_prefix('r').and_then(|number| number.parse().ok());
            ReplicaIndex(number.unwrap_or_else(|| panic!("{word} is no replica")))
        };
        let members: Vec<ReplicaIndex> = members.iter().map(index).collect();
        let shard = self.play.shard(shard);
        let entries = self.longest_log(shard, true).expect("a majority is up");
        let next = Members::new(members.iter().copied()).expect("these can be a group");
        self.groups = self.groups.next([(shard, next)]);
        let view = View::first_of(self.groups.epoch);
        for id in members.iter().map(|index| ReplicaId { shard, index: *index }) {
            if !self.logs.contains_key(&id) {
                self.create_replica(id, false, told);
            }
        }
        self.begin_view(ReplicaId { shard, index: members[0] }, view, &entries, true, told);
    }

    fn clock(&self, who: Address) -> ClockTime {
        let elapsed = self.now.as_nanos() / 1_000;
        ClockTime::from_micros(self.clocks.get(&who).copied().unwrap_or(100) + elapsed)
    }

    /// Gives a replica an input.
    pub fn step_replica(&mut self, id: ReplicaId, input: ReplicaInput<P>, told: &mut Vec<String>) {
        self.give_replica(id, input, told);
        self.ignored.tell(told);
    }

    fn give_replica(&mut self, id: ReplicaId, input: ReplicaInput<P>, told: &mut Vec<String>) {
        self.tell(id, told, |replica, context, log, outbox| replica.step(context, input, log, outbox));
    }

    /// Lets a replica do something, and then whatever follows from it at once.
    fn tell(
        &mut self,
        id: ReplicaId,
        told: &mut Vec<String>,
        act: impl FnOnce(
            &mut P::Replica,
            &mut Context<'_>,
            &mut ReplicaLog<EntryOf<P>>,
            &mut LogOutbox<P::Replica>,
        ),
    ) {
        let clock = self.clock(id.into());
        let (Some(replica), Some(log)) = (self.replicas.get_mut(&id), self.logs.get_mut(&id)) else { return };
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        let mut outbox = Outbox::new();
        act(replica, &mut context, log, &mut outbox);
        loop {
            if log.leads {
                log.advance(self.groups.members(id.shard).majority());
            }
            if log.applied == log.stable {
                break;
            }
            let entry = log.entries[log.applied].clone();
            log.applied += 1;
            let position = Position(log.applied as u64);
            replica.apply(&mut context, position, &entry, log, &mut outbox);
        }
        self.play.assert_invariants(replica);
        let from = Address::Replica(id);
        let play = &self.play;
        self.ignored.note(outbox.take_ignored(), || name(play, from));
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    self.send(from, to, Said::Protocol(message));
                }
                Effect::SetTimer { timer, after } => {
                    self.replica_timers.insert((id, timer), self.now + after);
                }
                Effect::CancelTimer(timer) => {
                    self.replica_timers.remove(&(id, timer));
                }
                Effect::Emit(event) => {
                    told.push(format!("{} {}", self.name(from), self.play.replica_event(&event)));
                }
                Effect::Persist { record, .. } => match record {},
                Effect::Anchor | Effect::Truncate => unreachable!("machines on a log keep no records"),
            }
        }
        self.send_log(id);
    }

    fn send(&mut self, from: Address, to: Address, said: Said<P>) {
        self.queue.push_back(Envelope { from, to, said, is_repeated: false });
    }

    /// Sends what the log of a leader has to say to its backups.
    fn send_log(&mut self, id: ReplicaId) {
        let Some(log) = self.logs.get_mut(&id).filter(|log| log.leads) else { return };
        let (view, stable) = (log.view, log.stable);
        let mut messages: Vec<LogMessage<EntryOf<P>>> = std::mem::take(&mut log.unsent)
            .into_iter()
            .map(|position| {
                let entry = log.entries[position - 1].clone();
                LogMessage::Append { view, position, entry }
            })
            .collect();
        if log.told_stable < stable {
            log.told_stable = stable;
            messages.push(LogMessage::Stable { view, position: stable });
        }
        for message in messages {
            for index in self.groups.members(id.shard).iter().filter(|index| *index != id.index) {
                let to = ReplicaId { shard: id.shard, index };
                self.send(id.into(), to.into(), Said::Log(message.clone()));
            }
        }
    }

    fn on_log_message(
        &mut self,
        from: ReplicaId,
        id: ReplicaId,
        message: LogMessage<EntryOf<P>>,
        told: &mut Vec<String>,
    ) {
        let Some(log) = self.logs.get_mut(&id) else { return };
        match message {
            LogMessage::Append { view, position, entry } => {
                if view != log.view || position > log.entries.len() + 1 {
                    return;
                }
                if position == log.entries.len() + 1 {
                    log.entries.push(entry);
                }
                let said = Said::Log(LogMessage::Holds { view, position: log.entries.len() });
                self.send(id.into(), from.into(), said);
            }
            LogMessage::Holds { view, position } => {
                if view == log.view && log.leads {
                    let held = log.held.entry(from.index).or_default();
                    *held = position.max(*held);
                    self.tell(id, told, |_, _, _, _| {});
                }
            }
            LogMessage::Stable { view, position } => {
                if view == log.view {
                    log.stable = log.stable.max(position.min(log.entries.len()));
                    self.tell(id, told, |_, _, _, _| {});
                }
            }
        }
    }

    /// A replica leads the next view, with the longest log of those that are up. The former leader knows, or not.
    fn lead(&mut self, id: ReplicaId, is_known: bool, told: &mut Vec<String>) {
        let view = self.latest_view(id.shard).next().expect("scripts are short");
        match self.longest_log(id.shard, is_known) {
            Some(entries) => self.begin_view(id, view, &entries, is_known, told),
            None => told.push(format!("{} has no majority", self.name(id.into()))),
        }
    }

    /// The longest log of those members that are up; none if they are no majority.
    fn longest_log(&self, shard: ShardId, counts_leader: bool) -> Option<Vec<EntryOf<P>>> {
        // A replica that was not told of the latest view has no part in what is stable.
        let (members, latest) = (self.groups.members(shard), self.latest_view(shard));
        let members = || members.iter().map(|index| ReplicaId { shard, index });
        let takes_part = |other: &ReplicaId| {
            let log = &self.logs[other];
            self.replicas.contains_key(other) && log.view == latest && (counts_leader || !log.leads)
        };
        let able: Vec<ReplicaId> = members().filter(takes_part).collect();
        let longest = able.iter().max_by_key(|other| self.logs[*other].entries.len())?;
        (able.len() >= self.groups.members(shard).majority()).then(|| self.logs[longest].entries.clone())
    }

    /// A replica begins to lead a view with these entries. The former leader knows, or not.
    fn begin_view(
        &mut self,
        id: ReplicaId,
        view: View,
        entries: &[EntryOf<P>],
        is_known: bool,
        told: &mut Vec<String>,
    ) {
        let group: Vec<ReplicaId> =
            self.logs.keys().copied().filter(|other| other.shard == id.shard).collect();
        // Perhaps it still led an earlier view as far as it knew. That ends before it follows what others have appended.
        if std::mem::take(&mut self.log(id).leads) {
            self.tell(id, told, |replica, context, _, outbox| replica.on_deposed(context, outbox));
        }
        for other in group {
            let log = self.log(other);
            if log.leads && other != id {
                log.lease = None;
                if !is_known {
                    continue;
                }
                log.leads = false;
                self.tell(other, told, |replica, context, _, outbox| replica.on_deposed(context, outbox));
            }
            let log = self.log(other);
            log.entries = entries.to_vec();
            log.unsent.clear();
            log.held.clear();
            (log.view, log.leader, log.stable) = (view, id.index, entries.len());
            self.tell(other, told, |_, _, _, _| {});
        }
        let log = self.log(id);
        (log.leads, log.told_stable, log.lease) = (true, log.stable, Some(lease()));
        self.tell(id, told, |replica, context, log, outbox| replica.on_leading(context, view, log, outbox));
    }

    fn latest_view(&self, shard: ShardId) -> View {
        let views = self.logs.iter().filter(|(id, _)| id.shard == shard).map(|(_, log)| log.view);
        views.max().expect("a group has replicas")
    }

    /// The others have told a leader that it leads, as often as it has asked; if it does.
    fn confirm(&mut self, id: ReplicaId, told: &mut Vec<String>) {
        let latest = self.latest_view(id.shard);
        let log = self.log(id);
        if log.view == latest {
            log.confirmed = log.asked;
        }
        self.tell(id, told, |replica, context, log, outbox| replica.on_progress(context, log, outbox));
    }

    /// Gives a client an input.
    pub fn step_client(&mut self, id: ClientId, input: InputOf<P::Client>, told: &mut Vec<String>) {
        self.give_client(id, input, told);
        self.ignored.tell(told);
    }

    fn give_client(&mut self, id: ClientId, input: InputOf<P::Client>, told: &mut Vec<String>) {
        let clock = self.clock(id.into());
        let Some(client) = self.clients.get_mut(&id) else { return };
        let mut outbox = OutboxOf::<P::Client>::new();
        client.step(&mut Context { now: self.now, clock, random: &mut self.random }, input, &mut outbox);
        let play = &self.play;
        self.ignored.note(outbox.take_ignored(), || name(play, id.into()));
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    self.send(id.into(), to, Said::Protocol(message));
                }
                Effect::SetTimer { timer, after } => {
                    self.client_timers.insert((id, timer), self.now + after);
                }
                Effect::CancelTimer(timer) => {
                    self.client_timers.remove(&(id, timer));
                }
                Effect::Persist { record, .. } => match record {},
                Effect::Emit(event) => told.push(format!("  {}", self.play.client_event(&event))),
                Effect::Anchor | Effect::Truncate => unreachable!("clients keep no records"),
            }
        }
    }

    fn deliver(&mut self, told: &mut Vec<String>) {
        /// More messages than any story needs: a script that does not end is wrong.
        const MESSAGES_MAX: usize = 5_000;
        self.deliver_some(MESSAGES_MAX, told);
        let moves = |envelope: &Envelope<P>| !self.is_held(envelope);
        assert!(
            !self.queue.iter().any(moves),
            "messages do not end; the last were {:#?}",
            &told[told.len() - 20..]
        );
    }

    fn is_held(&self, envelope: &Envelope<P>) -> bool {
        [None, Some(envelope.from)].iter().any(|from| self.held.contains(&(*from, envelope.to)))
    }

    /// Delivers so many messages; those that are lost count too.
    fn deliver_some(&mut self, count: usize, told: &mut Vec<String>) {
        let mut kept = VecDeque::new();
        let mut delivered = 0;
        while delivered < count {
            let Some(envelope) = self.queue.pop_front() else { break };
            if self.is_held(&envelope) {
                kept.push_back(envelope);
            } else {
                delivered += 1;
                self.deliver_one(envelope, told);
            }
        }
        // Messages that were passed over stand before those that have not been looked at.
        kept.append(&mut self.queue);
        self.queue = kept;
    }

    fn text(&self, envelope: &Envelope<P>) -> String {
        let (from, to) = (self.name(envelope.from), self.name(envelope.to));
        match &envelope.said {
            Said::Protocol(message) => format!("{from} → {to}: {}", self.play.message(message)),
            Said::Log(LogMessage::Append { position, entry, .. }) => {
                format!("{from} ⇒ {to}: #{position} {}", self.play.entry(entry))
            }
            Said::Log(LogMessage::Holds { position, .. }) => format!("{from} ⇒ {to}: holds #{position}"),
            Said::Log(LogMessage::Stable { position, .. }) => {
                format!("{from} ⇒ {to}: #{position} is stable")
            }
        }
    }

    fn deliver_one(&mut self, envelope: Envelope<P>, told: &mut Vec<String>) {
        let text = self.text(&envelope);
        let Envelope { from, to, said, is_repeated } = envelope.clone();
        let is_up = match to {
            Address::Replica(id) => self.replicas.contains_key(&id),
            Address::Client(id) => self.clients.contains_key(&id),
        };
        if !is_up || self.cut.contains(&(from, to)) {
            return told.push(format!("✗ {text}"));
        }
        self.ignored.tell(told);
        let line = told.len();
        told.push(text);
        if !is_repeated {
            self.history.push(envelope);
        }
        let epoch = match from {
            Address::Replica(id) => self.logs[&id].view.epoch(),
            Address::Client(_) => Epoch::FIRST,
        };
        match (to, said) {
            (Address::Replica(id), Said::Protocol(message)) => {
                self.give_replica(id, Input::Message { from, epoch, message }, told);
            }
            (Address::Client(id), Said::Protocol(message)) => {
                self.give_client(id, Input::Message { from, epoch, message }, told);
            }
            (Address::Replica(id), Said::Log(message)) => {
                let Address::Replica(from) = from else { panic!("clients have no log") };
                self.on_log_message(from, id, message, told);
            }
            (Address::Client(_), Said::Log(_)) => panic!("clients have no log"),
        }
        self.ignored.strike_out(line, told);
    }

    fn overtake(&mut self, from: Address, to: Address) {
        let is_between = |envelope: &Envelope<P>| envelope.from == from && envelope.to == to;
        let (first, last) = (self.queue.iter().position(is_between), self.queue.iter().rposition(is_between));
        let (Some(first), Some(last)) = (first, last) else { panic!("nothing is on its way") };
        let envelope = self.queue.remove(last).expect("it was just found");
        self.queue.insert(first, envelope);
    }

    fn drop_messages(&mut self, to: Address, told: &mut Vec<String>) {
        let (dropped, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.queue).into_iter().partition(|envelope| envelope.to == to);
        self.queue = kept;
        told.extend(dropped.iter().map(|envelope| format!("✗ {}", self.text(envelope))));
    }

    fn repeat(&mut self, to: Address, told: &mut Vec<String>) {
        let again = |envelope: &&Envelope<P>| envelope.to == to && matches!(envelope.said, Said::Protocol(_));
        let again: Vec<Envelope<P>> = self.history.iter().filter(again).cloned().collect();
        self.queue.extend(again.into_iter().map(|envelope| Envelope { is_repeated: true, ..envelope }));
        self.deliver(told);
    }

    fn advance(&mut self, milliseconds: u64, told: &mut Vec<String>) {
        let until = self.now + Duration::from_millis(milliseconds);
        loop {
            let replica = self.replica_timers.iter().map(|(timer, at)| (*at, timer.clone())).min();
            let client = self.client_timers.iter().map(|(timer, at)| (*at, timer.clone())).min();
            let times = [replica.as_ref().map(|(at, _)| *at), client.as_ref().map(|(at, _)| *at)];
            let Some(next) = times.into_iter().flatten().min().filter(|next| *next <= until) else { break };
            self.now = next;
            if let Some((at, timer)) = replica
                && at == next
            {
                self.replica_timers.remove(&timer);
                self.step_replica(timer.0, Input::Timer(timer.1), told);
            } else if let Some((_, timer)) = client {
                self.client_timers.remove(&timer);
                self.step_client(timer.0, Input::Timer(timer.1), told);
            }
            self.deliver(told);
        }
        self.now = until;
    }

    fn crash(&mut self, who: Address) {
        match who {
            Address::Client(id) => {
                self.clients.remove(&id);
                self.client_timers.retain(|(owner, _), _| *owner != id);
            }
            Address::Replica(id) => {
                self.replicas.remove(&id);
                self.replica_timers.retain(|(owner, _), _| *owner != id);
                let log = self.log(id);
                (log.leads, log.applied) = (false, 0);
            }
        }
    }

    fn restart(&mut self, id: ReplicaId, told: &mut Vec<String>) {
        self.crash(id.into());
        self.replicas.insert(id, self.play.replica(id, &self.groups));
        self.step_replica(id, Input::Start, told);
    }

    /// Replicas that have applied as many entries have the same state, and restoring it changes nothing.
    ///
    /// # Panics
    /// If that is not so.
    pub fn check_agreement(&self) {
        let mut states: BTreeMap<_, (ReplicaId, Vec<PageOf<P>>)> = BTreeMap::new();
        for (id, replica) in &self.replicas {
            let pages = pages(replica);
            let mut copy = self.play.replica(*id, &self.groups);
            copy.replace_state(Position::START, pages.clone());
            assert_eq!(pages, self::pages(&copy), "the pages of {id} hold all of its state");
            let (other, theirs) =
                states.entry((id.shard, self.logs[id].applied)).or_insert_with(|| (*id, pages.clone()));
            assert_eq!(*theirs, pages, "{other} and {id} have applied the same");
        }
    }
}

fn name<P: Play>(play: &P, address: Address) -> String {
    match address {
        Address::Client(client) => play.client_name(client),
        Address::Replica(ReplicaId { shard, index }) => format!("{}/r{}", play.shard_name(shard), index.0),
    }
}

fn pages<M: LogMachine>(replica: &M) -> Vec<M::Page> {
    let mut frozen = replica.freeze();
    std::iter::from_fn(|| M::next_page(&mut frozen)).collect()
}
