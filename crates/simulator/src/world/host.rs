//! One machine in the world: its timers, its disk, and what it has said but may not say yet.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use bytes::BytesMut;
use quorate_core::machine::{InputOf, OutboxOf, PersistToken};
use quorate_core::{Address, ClockTime, Context, Effect, Epoch, Input, Instant, Machine, Random};
use quorate_storage::LogError;

use super::disk::{Anchor, Crash, Disk, Medium};
use super::steps::Moment;

/// What a host asks of the world around it.
pub(super) trait Surroundings<M: Machine> {
    /// The monotonic instant on the node.
    fn now(&self, node: usize) -> Instant;
    /// How long it is until so much time has passed on the node.
    fn lasting(&self, node: usize, after: Duration) -> Duration;
    /// The physical clock of the node.
    fn clock(&self, node: usize) -> ClockTime;
    /// Sends a message.
    fn transmit(&mut self, node: usize, envelope: Envelope<M::Message>);
    /// Tells whoever runs the simulation what the machine said.
    fn emitted(&mut self, host: usize, event: M::Event);
    /// Schedules something that happens to a host.
    fn schedule(&mut self, after: Duration, event: HostEvent<M::Timer>);
    /// A record of so many bytes is appended to a disk.
    fn appended(&mut self, node: usize, bytes: usize);
    /// How long the sync that begins now takes, of so many bytes.
    fn sync_time(&mut self, node: usize, bytes: usize) -> Duration;
    /// The machine has lost its disk, and has ended because of that.
    fn stopped(&mut self, host: usize, why: &str);
    /// The machine has dropped what it was given, for this reason.
    fn ignored(&mut self, host: usize, reason: &'static str);
    /// The machine takes a step, which may be about something; gives the crash that it meets there.
    fn reach(&mut self, host: usize, moment: Moment, about: About<'_, M>) -> Option<Crash>;
    /// The machine has met it.
    fn crashed(&mut self, host: usize, crash: Crash);
}

/// What a step is about.
pub(super) enum About<'a, M: Machine> {
    Message(&'a M::Message),
    Record(&'a M::Record),
    Disk,
}

/// Something that happens to a host by itself. It concerns one incarnation, and nobody after it.
#[derive(Debug)]
pub(super) struct HostEvent<T> {
    pub(super) host: usize,
    pub(super) incarnation: u32,
    pub(super) what: HostEventKind<T>,
}

#[derive(Debug)]
pub(super) enum HostEventKind<T> {
    /// A timer fires, unless it was set again since.
    Timer { timer: T, setting: u64 },
    /// A sync ends.
    Synced,
}

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Envelope<Message> {
    /// Who sends it.
    pub from: Address,
    /// Who is to receive it.
    pub to: Address,
    /// Under which membership it is said.
    pub epoch: Epoch,
    /// What it says.
    pub message: Message,
}

/// Appends the bytes of a record that is written under a membership.
type Encode<R> = fn(Epoch, &R, &mut BytesMut);

/// An effect that waits for the disk.
enum Held<M: Machine> {
    Send(Envelope<M::Message>),
    Emit(M::Event),
    Truncate(Anchor),
}

/// A machine and what it needs.
pub(super) struct Host<M: Machine> {
    pub(super) id: usize,
    pub(super) address: Address,
    pub(super) node: usize,
    /// None while it is down.
    pub(super) machine: Option<M>,
    pub(super) disk: Disk,
    /// Appends the bytes of a record.
    encode: Encode<M::Record>,
    incarnation: u32,
    timers: BTreeMap<M::Timer, u64>,
    timers_set: u64,
    held: VecDeque<(u64, Held<M>)>,
    /// What the machine's latest anchor names.
    anchor: Option<Anchor>,
    durable: VecDeque<PersistToken>,
    /// How much was appended since the last sync began.
    unsynced_bytes: usize,
    random: Random,
}

impl<M: Machine> Host<M> {
    pub(super) fn new(
        id: usize,
        address: Address,
        node: usize,
        disk: Disk,
        encode: Encode<M::Record>,
        random: Random,
    ) -> Self {
        Host {
            id,
            address,
            node,
            machine: None,
            disk,
            encode,
            incarnation: 0,
            timers: BTreeMap::new(),
            timers_set: 0,
            held: VecDeque::new(),
            anchor: None,
            durable: VecDeque::new(),
            unsynced_bytes: 0,
            random,
        }
    }

    /// Boots a machine that was restored from the disk. As after whatever happens to it, [`Host::settle`] comes next.
    pub(super) fn boot(&mut self, machine: M, outbox: &mut OutboxOf<M>, around: &mut impl Surroundings<M>) {
        self.machine = Some(machine);
        self.step(Input::Start, outbox, around);
    }

    /// The machine is gone, with everything that it had not made durable or said.
    pub(super) fn crash(&mut self, crash: Crash) {
        self.machine = None;
        self.incarnation += 1;
        self.timers.clear();
        self.held.clear();
        self.anchor = None;
        self.durable.clear();
        self.unsynced_bytes = 0;
        self.disk.crash(crash);
    }

    /// True if an event concerns the machine that runs now.
    pub(super) fn concerns(&self, event: &HostEvent<M::Timer>) -> bool {
        let current = event.incarnation == self.incarnation && self.machine.is_some();
        current
            && match &event.what {
                HostEventKind::Timer { timer, setting } => self.timers.get(timer) == Some(setting),
                HostEventKind::Synced => true,
            }
    }

    /// Lets something happen that concerns the machine.
    pub(super) fn happen(
        &mut self,
        event: HostEventKind<M::Timer>,
        outbox: &mut OutboxOf<M>,
        around: &mut impl Surroundings<M>,
    ) {
        match event {
            HostEventKind::Timer { timer, .. } => {
                self.timers.remove(&timer);
                self.step(Input::Timer(timer), outbox, around);
            }
            HostEventKind::Synced => {
                if self.end_sync(around) {
                    self.notify(outbox, around);
                }
            }
        }
    }

    /// Gives the machine one input and carries out what it wants; nothing if it is down.
    pub(super) fn step(
        &mut self,
        input: InputOf<M>,
        outbox: &mut OutboxOf<M>,
        around: &mut impl Surroundings<M>,
    ) {
        self.step_once(input, outbox, around);
        self.notify(outbox, around);
    }

    /// Tells the machine which of its records are durable, for as long as that makes more of them so.
    fn notify(&mut self, outbox: &mut OutboxOf<M>, around: &mut impl Surroundings<M>) {
        loop {
            if self.disk.medium() == Medium::Memory && self.disk.begin_sync() && !self.end_sync(around) {
                return;
            }
            let Some(token) = self.durable.pop_front() else { return };
            self.step_once(Input::Persisted(token), outbox, around);
        }
    }

    fn step_once(&mut self, input: InputOf<M>, outbox: &mut OutboxOf<M>, around: &mut impl Surroundings<M>) {
        let Some(machine) = &mut self.machine else { return };
        let mut context =
            Context { now: around.now(self.node), clock: around.clock(self.node), random: &mut self.random };
        machine.step(&mut context, input, outbox);
        for reason in outbox.take_ignored() {
            around.ignored(self.id, reason);
        }
        for effect in outbox.drain() {
            // It may have crashed at one of the effects before this one.
            let Some(machine) = &self.machine else { return };
            match effect {
                Effect::Send { to, message } => {
                    let envelope = Envelope { from: self.address, to, epoch: machine.epoch(to), message };
                    self.held.push_back((self.disk.appended(), Held::Send(envelope)));
                }
                Effect::SendUnordered { to, message } => {
                    let envelope = Envelope { from: self.address, to, epoch: machine.epoch(to), message };
                    self.send(envelope, around);
                }
                Effect::SetTimer { timer, after } => {
                    self.timers_set += 1;
                    self.timers.insert(timer.clone(), self.timers_set);
                    let what = HostEventKind::Timer { timer, setting: self.timers_set };
                    let after = around.lasting(self.node, after);
                    around.schedule(after, HostEvent { host: self.id, incarnation: self.incarnation, what });
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Persist { record, notify } => {
                    let mut contents = BytesMut::new();
                    if self.disk.medium() == Medium::Disk {
                        (self.encode)(machine.epoch(self.address), &record, &mut contents);
                        around.appended(self.node, contents.len());
                        self.unsynced_bytes += contents.len();
                    }
                    if !self.survives(Moment::BeforeAppend, About::Record(&record), around) {
                        return;
                    }
                    self.disk.append(contents.freeze(), notify);
                }
                Effect::Emit(event) => self.held.push_back((self.disk.appended(), Held::Emit(event))),
                Effect::Anchor => self.anchor = self.disk.anchor(),
                Effect::Truncate => {
                    let anchor = self.anchor.take();
                    assert!(
                        anchor.is_some() || self.disk.medium() == Medium::Memory,
                        "a machine truncates at an anchor"
                    );
                    let after = self.disk.appended();
                    self.held.extend(anchor.map(|anchor| (after, Held::Truncate(anchor))));
                }
            }
        }
        self.release(around);
    }

    /// Sends a message, unless the machine crashes first.
    fn send(&mut self, envelope: Envelope<M::Message>, around: &mut impl Surroundings<M>) {
        if self.survives(Moment::BeforeSend, About::Message(&envelope.message), around) {
            let crash = around.reach(self.id, Moment::AfterSend, About::Message(&envelope.message));
            around.transmit(self.node, envelope);
            self.meet(crash, around);
        }
    }

    /// False if the machine crashes at this step.
    fn survives(&mut self, moment: Moment, about: About<'_, M>, around: &mut impl Surroundings<M>) -> bool {
        let crash = around.reach(self.id, moment, about);
        self.meet(crash, around)
    }

    fn meet(&mut self, crash: Option<Crash>, around: &mut impl Surroundings<M>) -> bool {
        if let Some(crash) = crash {
            self.crash(crash);
            around.crashed(self.id, crash);
        }
        crash.is_none()
    }

    /// Lets go of what waited for records that are durable now.
    fn release(&mut self, around: &mut impl Surroundings<M>) {
        let synced = self.disk.synced();
        while self.held.front().is_some_and(|(after, _)| *after <= synced) {
            match self.held.pop_front() {
                Some((_, Held::Send(envelope))) => self.send(envelope, around),
                Some((_, Held::Emit(event))) => around.emitted(self.id, event),
                Some((_, Held::Truncate(anchor))) => {
                    if let Err(error) = self.disk.truncate(anchor) {
                        return self.stop(&error, around);
                    }
                }
                None => break,
            }
        }
    }

    /// Ends a turn: writes what was persisted in it, and begins to sync that unless a sync is under way.
    pub(super) fn settle(&mut self, around: &mut impl Surroundings<M>) {
        if self.machine.is_none() || self.disk.medium() == Medium::Memory {
            return;
        }
        if let Err(error) = self.disk.write() {
            return self.stop(&error, around);
        }
        if self.disk.begin_sync() {
            if !self.survives(Moment::BeforeSync, About::Disk, around) {
                return;
            }
            let after = around.sync_time(self.node, std::mem::take(&mut self.unsynced_bytes));
            let event =
                HostEvent { host: self.id, incarnation: self.incarnation, what: HostEventKind::Synced };
            around.schedule(after, event);
        }
    }

    /// False if the disk has failed.
    fn end_sync(&mut self, around: &mut impl Surroundings<M>) -> bool {
        match self.disk.end_sync(&mut self.durable) {
            Ok(()) if !self.survives(Moment::AfterSync, About::Disk, around) => {}
            Ok(()) => self.release(around),
            Err(error) => self.stop(&error, around),
        }
        self.machine.is_some()
    }

    /// The log has failed: nothing may be acknowledged any more, so the process ends.
    fn stop(&mut self, error: &LogError, around: &mut impl Surroundings<M>) {
        self.crash(Crash::Process);
        around.stopped(self.id, &error.to_string());
    }
}
