//! One machine in the world: the driver that servers use as well, on a simulated disk, with crashes at chosen steps.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use quorate_core::attic::Attic;
use quorate_core::machine::InputOf;
use quorate_core::{Address, ClockTime, Epoch, Input, Instant, Machine, Random};
use quorate_driver::{Alarm, Carrier, Driver, Kept, Mark, Setting, Time};
use quorate_storage::LogError;

use super::disk::{Crash, Disk};
use super::steps::Moment;

/// The requests of a host to the world around it.
pub(super) trait Surroundings<M: Machine> {
    /// The monotonic instant on the node.
    fn now(&self, node: usize) -> Instant;
    /// How long it is until so much time has passed on the node.
    fn lasting(&self, node: usize, after: Duration) -> Duration;
    /// The physical clock of the node.
    fn clock(&self, node: usize) -> ClockTime;
    /// Sends a message.
    fn transmit(&mut self, node: usize, envelope: Envelope<M::Message>);
    /// Tells the owner of the simulation what the machine said.
    fn emitted(&mut self, host: usize, event: M::Event);
    /// The machine was gone before anybody could hear this.
    fn unheard(&mut self, host: usize, event: M::Event);
    /// Schedules something that happens to a host.
    fn schedule(&mut self, after: Duration, event: HostEvent<M::Timer>);
    /// A record of so many bytes is appended to a disk.
    fn appended(&mut self, node: usize, bytes: usize);
    /// How long the sync that begins now takes, of so many bytes.
    fn sync_time(&mut self, node: usize, bytes: usize) -> Duration;
    /// The machine has lost its disk, and has ended because of that.
    fn stopped(&mut self, host: usize, why: &str);
    /// The machine has taken a step, and lives.
    fn stepped(&mut self, address: Address, node: usize, machine: &M);
    /// The machine keeps a record, if it does not crash first.
    fn kept(&mut self, address: Address, record: &M::Record);
    /// The machine is down.
    fn lost(&mut self, address: Address);
    /// The machine has dropped what it was given, for this reason.
    fn ignored(&mut self, host: usize, reason: &'static str);
    /// The machine takes a step, which may be about something; gives the crash that it meets there.
    fn reach(&mut self, host: usize, moment: Moment, about: About<'_, M>) -> Option<Crash>;
    /// The machine has met it.
    fn crashed(&mut self, host: usize, crash: Crash);
}

/// The subject of a step.
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
    Timer { timer: T, setting: Setting },
    /// A sync ends.
    Synced,
}

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Envelope<Message> {
    /// The sender.
    pub from: Address,
    /// The receiver.
    pub to: Address,
    /// Under which membership it is said.
    pub epoch: Epoch,
    /// The message itself.
    pub message: Message,
}

/// Appends the bytes of a record that is written under a membership.
type Encode<R> = fn(Epoch, &R, &mut BytesMut);

/// A machine and what it needs.
pub(super) struct Host<M: Machine> {
    pub(super) id: usize,
    pub(super) address: Address,
    pub(super) node: usize,
    pub(super) disk: Disk,
    /// None while it is down.
    driver: Option<Driver<M>>,
    /// Appends the bytes of a record.
    encode: Encode<M::Record>,
    incarnation: u32,
    /// How much was appended since the last sync began.
    unsynced_bytes: usize,
    /// Of the next incarnation, while the machine is down.
    random: Random,
    /// Where the machine keeps values that do not fit into memory, if it does and its host looks whether they can be read.
    attic: Option<Arc<dyn Attic>>,
}

/// Why a machine ends within an effect of its own.
enum Ending {
    /// It crashes at this step.
    Crashes(Crash),
    /// The log has failed.
    Fails(LogError),
}

/// Carries the effects of one machine out into the world.
struct ToWorld<'a, M: Machine, S> {
    id: usize,
    address: Address,
    node: usize,
    incarnation: u32,
    encode: Encode<M::Record>,
    disk: &'a mut Disk,
    unsynced_bytes: &'a mut usize,
    around: &'a mut S,
    attic: Option<&'a dyn Attic>,
    ending: Option<Ending>,
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
            disk,
            driver: None,
            encode,
            incarnation: 0,
            unsynced_bytes: 0,
            random,
            attic: None,
        }
    }

    /// The machine, unless it is down.
    pub(super) fn machine(&self) -> Option<&M> {
        self.driver.as_ref().map(Driver::machine)
    }

    /// Counts the machines that have run here.
    pub(super) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The attic of the machine that boots next.
    pub(super) fn set_attic(&mut self, attic: Option<Arc<dyn Attic>>) {
        self.attic = attic;
    }

    /// Ends the machine if it could not read a value; true if it does. A host asks that after each step, and after each other look at the machine
    /// that may have read a value.
    pub(super) fn ends_unread(&mut self, around: &mut impl Surroundings<M>) -> bool {
        let has_failed = self.driver.is_some() && self.attic.as_ref().is_some_and(|attic| attic.has_failed());
        if has_failed {
            self.stop("a value that is not in memory cannot be read", around);
        }
        has_failed
    }

    /// Boots a machine that was restored from the disk. As after whatever happens to it, [`Host::settle`] comes next.
    pub(super) fn boot(&mut self, machine: M, around: &mut impl Surroundings<M>) {
        self.driver = Some(Driver::new(machine, self.random.clone()));
        self.step(Input::Start, around);
    }

    /// The machine is gone, with everything that it had not made durable or said.
    pub(super) fn crash(&mut self, crash: Crash, around: &mut impl Surroundings<M>) {
        if let Some(driver) = self.driver.take() {
            let (random, unheard) = driver.end();
            self.random = random;
            unheard.into_iter().for_each(|event| around.unheard(self.id, event));
        }
        around.lost(self.address);
        self.incarnation += 1;
        self.unsynced_bytes = 0;
        self.disk.crash(crash);
    }

    /// True if an event concerns the machine that runs now.
    pub(super) fn concerns(&self, event: &HostEvent<M::Timer>) -> bool {
        let driver = self.driver.as_ref().filter(|_| event.incarnation == self.incarnation);
        driver.is_some_and(|driver| match &event.what {
            HostEventKind::Timer { timer, setting } => driver.is_set(timer, *setting),
            HostEventKind::Synced => true,
        })
    }

    /// Lets something happen that concerns the machine.
    pub(super) fn happen(&mut self, event: HostEventKind<M::Timer>, around: &mut impl Surroundings<M>) {
        match event {
            HostEventKind::Timer { timer, setting } => {
                self.drive(around, |driver, time, carrier| driver.fire_timer(time, timer, setting, carrier));
            }
            HostEventKind::Synced => self.end_sync(around),
        }
    }

    /// Gives the machine one input and carries out what it wants; nothing if it is down.
    pub(super) fn step(&mut self, input: InputOf<M>, around: &mut impl Surroundings<M>) {
        self.drive(around, |driver, time, carrier| driver.step(time, input, carrier));
    }

    fn drive<S: Surroundings<M>>(
        &mut self,
        around: &mut S,
        act: impl FnOnce(&mut Driver<M>, Time, &mut ToWorld<'_, M, S>),
    ) {
        let Some(driver) = &mut self.driver else { return };
        let time = Time { now: around.now(self.node), clock: around.clock(self.node) };
        let mut carrier = ToWorld {
            id: self.id,
            address: self.address,
            node: self.node,
            incarnation: self.incarnation,
            encode: self.encode,
            disk: &mut self.disk,
            unsynced_bytes: &mut self.unsynced_bytes,
            around,
            attic: self.attic.as_deref(),
            ending: None,
        };
        act(driver, time, &mut carrier);
        match carrier.ending {
            Some(Ending::Crashes(crash)) => self.meet(crash, around),
            Some(Ending::Fails(error)) => self.stop(&error.to_string(), around),
            None if self.ends_unread(around) => {}
            None => {
                if let Some(driver) = &self.driver {
                    around.stepped(self.address, self.node, driver.machine());
                }
            }
        }
    }

    /// Ends a turn: writes what was persisted in it, and begins to sync that unless a sync is under way.
    pub(super) fn settle(&mut self, around: &mut impl Surroundings<M>) {
        if self.driver.is_none() {
            return;
        }
        if let Err(error) = self.disk.write() {
            return self.stop(&error.to_string(), around);
        }
        if self.disk.begin_sync() {
            if !self.survives(Moment::BeforeSync, around) {
                return;
            }
            let after = around.sync_time(self.node, std::mem::take(&mut self.unsynced_bytes));
            let event =
                HostEvent { host: self.id, incarnation: self.incarnation, what: HostEventKind::Synced };
            around.schedule(after, event);
        }
    }

    fn end_sync(&mut self, around: &mut impl Surroundings<M>) {
        match self.disk.end_sync() {
            Ok(mark) => {
                if self.survives(Moment::AfterSync, around) {
                    self.drive(around, |driver, time, carrier| driver.on_durable(time, mark, carrier));
                }
            }
            Err(error) => self.stop(&error.to_string(), around),
        }
    }

    /// False if the machine crashes at this step of its disk.
    fn survives(&mut self, moment: Moment, around: &mut impl Surroundings<M>) -> bool {
        let crash = around.reach(self.id, moment, About::Disk);
        if let Some(crash) = crash {
            self.meet(crash, around);
        }
        crash.is_none()
    }

    fn meet(&mut self, crash: Crash, around: &mut impl Surroundings<M>) {
        self.crash(crash, around);
        around.crashed(self.id, crash);
    }

    /// The log or the attic has failed: nothing may be acknowledged any more, so the process ends.
    fn stop(&mut self, why: &str, around: &mut impl Surroundings<M>) {
        self.crash(Crash::Process, around);
        around.stopped(self.id, why);
    }
}

impl<M: Machine, S: Surroundings<M>> ToWorld<'_, M, S> {
    /// False if the machine crashes at this step.
    fn survives(&mut self, moment: Moment, about: About<'_, M>) -> bool {
        self.ending = self.around.reach(self.id, moment, about).map(Ending::Crashes);
        self.ending.is_none()
    }
}

impl<M: Machine, S: Surroundings<M>> Carrier<M> for ToWorld<'_, M, S> {
    /// Sends a message, unless the machine crashes first.
    fn send(&mut self, to: Address, epoch: Epoch, message: M::Message) {
        let envelope = Envelope { from: self.address, to, epoch, message };
        if self.survives(Moment::BeforeSend, About::Message(&envelope.message)) {
            self.survives(Moment::AfterSend, About::Message(&envelope.message));
            self.around.transmit(self.node, envelope);
        }
    }

    fn emit(&mut self, event: M::Event) {
        self.around.emitted(self.id, event);
    }

    /// Appends a record, unless the machine crashes first.
    fn persist(&mut self, machine: &M, record: M::Record) -> Kept {
        let mut contents = BytesMut::new();
        self.around.kept(self.address, &record);
        if self.disk.is_kept() {
            (self.encode)(machine.epoch(self.address), &record, &mut contents);
            self.around.appended(self.node, contents.len());
            *self.unsynced_bytes += contents.len();
        }
        if !self.survives(Moment::BeforeAppend, About::Record(&record)) {
            return Kept::Now;
        }
        self.disk.append(contents.freeze())
    }

    fn ignored(&mut self, reason: &'static str) {
        self.around.ignored(self.id, reason);
    }

    fn log_end(&self) -> Kept {
        self.disk.end()
    }

    fn truncate(&mut self, up_to: Mark) {
        self.ending = self.disk.truncate(up_to).err().map(Ending::Fails);
    }

    fn schedule(&mut self, timer: &M::Timer, setting: Setting, after: Duration) -> Alarm {
        let what = HostEventKind::Timer { timer: timer.clone(), setting };
        let after = self.around.lasting(self.node, after);
        self.around.schedule(after, HostEvent { host: self.id, incarnation: self.incarnation, what });
        Alarm::Host
    }

    fn has_ended(&self) -> bool {
        self.ending.is_some() || self.attic.is_some_and(|attic| attic.has_failed())
    }
}
