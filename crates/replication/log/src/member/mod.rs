//! A replica of the log and the machine that stands on it, as one machine.
//!
//! ```text
//!   message, timer, news of the disk ──► Replica ── stable entries, states, leading, deposed ──► LogMachine
//!   message, timer, command ───────────────────────── append, confirm ◄──────────────────────────────┘
//! ```
//!
//! Everything that the log tells its host within one call is gathered and given to the machine afterwards, in order, with
//! the log at hand; entries that the machine appends meanwhile are written down and sent together at the end of the step.
//! The machine hears that it leads only once it has been given everything that the view began with, and the clocks of f
//! others are known.
//!
//! `verifying` compares what the machine holds with what others hold, at a position that an operator names.
//!
//! The clock in the context of a machine is that of its *group*: the replica's own, but never further from those of a majority than a
//! bound. See [`crate::clocks`].

mod host;
mod hosted;
mod item;
mod port;
mod verifying;

use std::collections::VecDeque;
use std::fmt::Debug;

use quorate_core::caption::{Caption, Captioned};
use quorate_core::log::{LogMachine, LogOutbox, Position};
use quorate_core::machine::{Context, Effect, Input, InputOf, Machine, OutboxOf, PersistToken};
use quorate_core::replay::SnapshotPart;
use quorate_core::verify::{Pace, Request, Verification};
use quorate_core::{Address, ClockTime, Epoch, ReplicaId, View};

use crate::replica::snapshot;
use crate::{Boot, Fact, Limits, Membership, Message, Replica, Rules, Status, Timer, Timing};
use host::Acts;
pub use item::Item;
use port::Port;

/// A part of a member: of its log, or of the machine that stands on the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part<L, O> {
    /// The log's.
    Log(L),
    /// The machine's own.
    Own(O),
}

impl<L: Debug, O: Captioned> Captioned for Part<L, O> {
    fn caption(&self) -> Option<Caption> {
        match self {
            Part::Log(message) => Some(Caption::of(message)),
            Part::Own(message) => message.caption(),
        }
    }
}

/// The entries in the log of a machine.
pub type ItemOf<M> = Item<<M as LogMachine>::Canonical>;

/// The messages between the participants of a protocol on a log.
pub type MessageOf<M> = Said<<M as LogMachine>::Canonical>;

/// The same, by the machine that stands for those that say it.
pub type Said<C> = Part<Message<Item<C>>, <C as LogMachine>::Message>;

/// From what a member is built.
#[derive(Clone, Debug)]
pub struct Config<C> {
    /// Which replica it is.
    pub me: ReplicaId,
    /// The replicas of its group, as far as its host knows. If its disk knows of a later epoch, that counts; if of an earlier one, the
    /// group is to go on with these, as after [`LogCommand::ChangeGroup`].
    pub membership: Membership,
    /// The earlier lives of the replica, as its host knows them.
    pub boot: Boot,
    /// The times that the group goes by.
    pub timing: Timing,
    /// How much of what it takes upon itself.
    pub limits: Limits,
    /// How much is looked at and told at a time when replicas are compared, or read for a backup.
    pub pace: Pace,
    /// A snapshot begins after so many bytes of entries.
    pub snapshot_bytes: u64,
    /// [`Rules::SOUND`], but for tests and the simulator.
    pub rules: Rules,
    /// From what the machine is built.
    pub machine: C,
}

/// News from the log for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// The replica takes part in this view.
    Normal {
        /// The view.
        view: View,
    },
    /// It waits for this view to begin.
    ViewChanging {
        /// The view.
        view: View,
    },
    /// It has lost its disk, and learns from the others.
    Recovering,
    /// So many replicas have lost their disks, this one among them, that the group does not come back by itself.
    Lost {
        /// How many are known to it.
        lost: usize,
    },
    /// It leads this view, and has applied everything that the view began with.
    Leading {
        /// The view.
        view: View,
    },
    /// It leads no longer.
    Deposed,
    /// The group goes on in this epoch without it. Its records may still be wanted.
    Retired {
        /// The epoch.
        epoch: Epoch,
    },
    /// The group needs it no longer: it may be stopped.
    HandedOver,
    /// Its clock is off, or is so no longer.
    Clock {
        /// By how many microseconds it is ahead of those of a majority, negative if it is behind; none if it is not off.
        error_micros: Option<i64>,
    },
}

/// An order of an operator to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogCommand {
    /// The group is to go on with these replicas. To be told to all of them, and to those that are no members any more: the leader,
    /// now or later, sees to it, and the others ask until they have gone on as well, because the members that they know may be gone. A
    /// membership that the group has gone on from already is passed over, and so is one that was wanted before.
    ChangeGroup(Membership),
    /// An operator compares what replicas hold: see [`quorate_core::verify`]. [`Member::verified`] has the answer.
    Verify(Request),
    /// The node of this replica is about to stop: if it leads, another replica that takes part is to lead.
    GiveWay,
}

/// News from the log, until the machine is given it.
#[derive(Debug)]
enum Told<M: LogMachine> {
    Stable(Position, ItemOf<M>),
    State(Position, Vec<M::Page>),
    Leading(View),
    Deposed,
}

/// One replica of the log with the machine that stands on it.
#[derive(Debug)]
pub struct Member<M: LogMachine> {
    me: ReplicaId,
    boot: Boot,
    snapshot_bytes: u64,
    replica: Replica<ItemOf<M>>,
    machine: M,
    told: VecDeque<Told<M>>,
    /// The view that this replica leads, and whether the machine knows.
    leading: Option<(View, bool)>,
    notices: host::Notices,
    /// The effects of the machine in one call.
    said: LogOutbox<M>,
    /// The lease and the confirmations that the machine knows of, and the status that the host knows of.
    progress: port::Progress,
    status: Option<(Status, View)>,
    /// How many replicas had lost their disks when the host was told.
    lost: usize,
    /// The last position whose entry the machine has been given.
    applied: Position,
    /// The comparison that an operator has asked for.
    verification: Verification<M::Frozen>,
    /// True if the clock of this replica was off when the host was told.
    is_clock_off: bool,
    /// The reading of this replica's own clock in this step. The machine is given that of its group.
    own_clock: ClockTime,
}

impl<M: LogMachine> Member<M> {
    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The replica of the log.
    pub fn replica(&self) -> &Replica<ItemOf<M>> {
        &self.replica
    }

    /// The view that this replica leads and of which the machine knows.
    pub fn leading(&self) -> Option<View> {
        self.leading.filter(|(_, is_known)| *is_known).map(|(view, _)| view)
    }

    /// Lets the log do something.
    fn ask_log(
        &mut self,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
        act: impl FnOnce(&mut Replica<ItemOf<M>>, &mut Acts<'_, '_, M>),
    ) {
        let (me, machine, clock) = (self.me, &self.machine, self.own_clock);
        let Member { replica, told, notices, .. } = self;
        act(replica, &mut Acts { context, outbox, clock, me, machine, told, notices });
    }

    /// Lets the machine do something, and passes on what it says.
    fn ask_machine(
        &mut self,
        outbox: &mut OutboxOf<Self>,
        act: impl FnOnce(&mut M, &mut Port<'_, M>, &mut LogOutbox<M>),
    ) {
        let has_all = !self.told.iter().any(|told| matches!(told, Told::Stable(..) | Told::State(..)));
        let leading = self.leading();
        let mut port = Port { replica: &mut self.replica, leading, has_all };
        act(&mut self.machine, &mut port, &mut self.said);
        for reason in self.said.take_ignored() {
            outbox.ignored(reason);
        }
        for effect in self.said.drain() {
            match effect {
                Effect::Send { to, message } => outbox.send(to, Part::Own(message)),
                Effect::SendUnordered { to, message } => outbox.send_unordered(to, Part::Own(message)),
                Effect::SetTimer { timer, after } => outbox.set_timer(Part::Own(timer), after),
                Effect::CancelTimer(timer) => outbox.cancel_timer(Part::Own(timer)),
                Effect::Emit(event) => outbox.emit(Part::Own(event)),
                Effect::Persist { record, .. } => match record {},
                Effect::Anchor | Effect::Truncate => unreachable!("a machine on a log keeps no records"),
            }
        }
    }

    /// Sets the time of the machine: the clock of the group, as far as that is known.
    fn set_clock(&mut self, context: &mut Context<'_>) {
        context.clock = self.replica.group_clock(self.own_clock, context.now).unwrap_or(self.own_clock);
    }

    /// Gives the machine what the log has told, and the log what the machine says to that, until nothing more comes.
    fn settle(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.set_clock(context);
        loop {
            while let Some(told) = self.told.pop_front() {
                self.pass_on(told, context, outbox);
            }
            if let Some((view, false)) = self.leading
                && self.replica.knows_all()
                && self.replica.group_clock(self.own_clock, context.now).is_some()
            {
                self.leading = Some((view, true));
                outbox.emit(Part::Log(LogEvent::Leading { view }));
                self.ask_machine(outbox, |machine, log, said| machine.on_leading(context, view, log, said));
            }
            self.change_group();
            self.ask_log(context, outbox, |replica, acts| replica.flush(acts));
            if self.told.is_empty() && self.note_progress(context, outbox) {
                break;
            }
        }
        assert!(
            self.applied == self.replica.stable(),
            "the machine was given entries up to {:?}, and {:?} is stable",
            self.applied,
            self.replica.stable()
        );
        assert!(
            self.leading.is_none_or(|(view, _)| view == self.replica.view() && self.replica.is_leading()),
            "the machine leads {:?}, and its replica is in {}",
            self.leading,
            self.replica.view()
        );
        if self.replica.bytes_since_snapshot() >= self.snapshot_bytes {
            self.ask_log(context, outbox, |replica, acts| {
                replica.begin_snapshot(acts);
            });
        }
        self.note_status(outbox);
    }

    fn pass_on(&mut self, told: Told<M>, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        match told {
            Told::Stable(position, item) => {
                assert!(
                    position == self.applied.next(),
                    "the machine is given the entry at {position:?} after that at {:?}",
                    self.applied
                );
                // That the group goes on with others the replica hears from the log.
                if let Item::Own(entry) = item {
                    self.ask_machine(outbox, |machine, log, said| {
                        machine.apply(context, position, &entry, log, said);
                    });
                }
                self.note_applied(position);
            }
            Told::State(base, pages) => {
                assert!(base >= self.applied, "the machine goes from {:?} back to {base:?}", self.applied);
                self.machine.replace_state(base, pages);
                self.note_applied(base);
            }
            Told::Leading(view) => {
                assert!(self.leading.is_none(), "{view} is led beside {:?}", self.leading);
                self.leading = Some((view, false));
            }
            Told::Deposed => {
                if self.leading.take().is_some_and(|(_, is_known)| is_known) {
                    outbox.emit(Part::Log(LogEvent::Deposed));
                    self.ask_machine(outbox, |machine, _, said| machine.on_deposed(context, said));
                }
            }
        }
    }

    /// Tells the machine if its lease or a confirmation has moved. True if it has not: then there is nothing more to do.
    fn note_progress(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) -> bool {
        let progress = port::Progress::of(&self.replica);
        let has_moved = progress != std::mem::replace(&mut self.progress, progress);
        if has_moved && self.leading().is_some() {
            self.ask_machine(outbox, |machine, log, said| machine.on_progress(context, log, said));
        }
        !has_moved
    }

    fn note_status(&mut self, outbox: &mut OutboxOf<Self>) {
        let (status, view) = (self.replica.status(), self.replica.view());
        if self.status.replace((status, view)) != Some((status, view)) {
            outbox.emit(Part::Log(match status {
                Status::Normal => LogEvent::Normal { view },
                Status::ViewChanging => LogEvent::ViewChanging { view },
                Status::Recovering => LogEvent::Recovering,
                Status::Retired => LogEvent::Retired { epoch: self.replica.membership().epoch() },
            }));
        }
        let error_micros = self.replica.clock_error_micros();
        if std::mem::replace(&mut self.is_clock_off, error_micros.is_some()) != error_micros.is_some() {
            outbox.emit(Part::Log(LogEvent::Clock { error_micros }));
        }
        let lost = self.replica.lost();
        if std::mem::replace(&mut self.lost, lost) != lost
            && lost > self.replica.membership().group().failures()
        {
            outbox.emit(Part::Log(LogEvent::Lost { lost }));
        }
    }

    /// Ends the epoch, if this replica leads and the group is to go on with others.
    fn change_group(&mut self) {
        let wanted = self.replica.wanted().filter(|_| self.leading().is_some());
        if let Some(wanted) = wanted.cloned() {
            // Nothing is appended if the epoch ends already. Then the next one is not yet the one that is wanted, or is.
            self.replica.append(Item::NextGroup(wanted));
        }
    }

    fn on_message(
        &mut self,
        from: Address,
        epoch: Epoch,
        message: MessageOf<M>,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        match (message, from) {
            (Part::Log(message), Address::Replica(ReplicaId { shard, index })) if shard == self.me.shard => {
                self.ask_log(context, outbox, |replica, acts| {
                    replica.on_message(index, epoch, message, acts)
                });
            }
            (Part::Log(_), _) => outbox.ignored("said by no replica of the group"),
            (Part::Own(message), _) => {
                let input = Input::Message { from, epoch, message };
                self.ask_machine(outbox, |machine, log, said| machine.step(context, input, log, said));
            }
        }
    }
}

impl<M: LogMachine> Machine for Member<M> {
    type Message = MessageOf<M>;
    type Timer = Part<Timer, M::Timer>;
    type Record = Fact<ItemOf<M>>;
    type Command = Part<LogCommand, M::Command>;
    type Event = Part<LogEvent, M::Event>;
    type Config = Config<M::Config>;

    fn snapshot_part(config: &Self::Config, record: &Self::Record) -> Option<SnapshotPart> {
        snapshot::part(record, config.rules)
    }

    fn restore(config: Self::Config, records: impl IntoIterator<Item = Self::Record>) -> Self {
        let Config { me, membership, boot, timing, limits, pace, snapshot_bytes, rules, machine } = config;
        let mut replica = Replica::new(membership, me.index, timing, limits).with_rules(rules);
        replica.restore(records);
        Member {
            me,
            boot,
            snapshot_bytes,
            replica,
            machine: M::new(machine),
            told: VecDeque::new(),
            leading: None,
            notices: host::Notices::default(),
            said: LogOutbox::<M>::new(),
            progress: port::Progress::default(),
            status: None,
            lost: 0,
            applied: Position::START,
            verification: Verification::new(pace),
            is_clock_off: false,
            own_clock: ClockTime::default(),
        }
    }

    fn epoch(&self, _: Address) -> Epoch {
        self.replica.membership().epoch()
    }

    fn step(&mut self, context: &mut Context<'_>, input: InputOf<Self>, outbox: &mut OutboxOf<Self>) {
        self.own_clock = context.clock;
        self.set_clock(context);
        match input {
            Input::Start => {
                let boot = self.boot;
                self.ask_log(context, outbox, |replica, acts| replica.start(boot, acts));
                while let Some(told) = self.told.pop_front_if(|told| matches!(told, Told::State(..))) {
                    self.pass_on(told, context, outbox);
                }
                self.ask_machine(outbox, |machine, log, said| machine.step(context, Input::Start, log, said));
            }
            Input::Message { from, epoch, message } => {
                self.on_message(from, epoch, message, context, outbox);
            }
            Input::Timer(Part::Log(Timer::Verification)) => self.walk(context.now, outbox),
            Input::Timer(Part::Log(timer)) => {
                self.ask_log(context, outbox, |replica, acts| replica.on_timer(timer, acts));
            }
            Input::Timer(Part::Own(timer)) => {
                let input = Input::Timer(timer);
                self.ask_machine(outbox, |machine, log, said| machine.step(context, input, log, said));
            }
            Input::Persisted(PersistToken(token)) => {
                if let Some(durable) = self.notices.take(token) {
                    self.ask_log(context, outbox, |replica, acts| replica.on_durable(durable, acts));
                }
            }
            Input::Command(Part::Log(LogCommand::ChangeGroup(wanted))) => {
                self.ask_log(context, outbox, |replica, acts| replica.want(wanted, acts));
            }
            Input::Command(Part::Log(LogCommand::GiveWay)) => {
                self.ask_log(context, outbox, |replica, acts| replica.give_way(acts));
            }
            Input::Command(Part::Log(LogCommand::Verify(request))) => {
                self.on_verify(&request, context.now, outbox);
            }
            Input::Command(Part::Own(command)) => {
                let input = Input::Command(command);
                self.ask_machine(outbox, |machine, log, said| machine.step(context, input, log, said));
            }
        }
        self.settle(context, outbox);
        context.clock = self.own_clock;
    }
}
