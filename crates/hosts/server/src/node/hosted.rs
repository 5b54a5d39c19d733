//! One replica on this node: its machine, its log, and what is known of its health.
//!
//! The protocol that it runs is decided once, when it is built. Everything after goes through [`Running`], which is written
//! once over [`Served`]; a node calls it through [`Runs`], because it keeps replicas of all protocols in one table. That is
//! one indirect call for a message, and none for what the machine wants in turn.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use quorate_core::changes::{self, Position};
use quorate_core::hosted::{Consultation, HandedOver, Health, News, Seat, SiteLag, Speculating};
use quorate_core::machine::InputOf;
use quorate_core::replay;
use quorate_core::topology::SiteChanges;
use quorate_core::verify::{Answer, Progress, Request};
use quorate_core::{Address, ClientId, Epoch, Groups, Input, Instant, Random, ReplicaId, ShardId, View};
use quorate_runtime::{Carrier, Driver, Kept, Mark, Time, log_ignored};
use quorate_storage::Unsynced;
use quorate_wire::ProtocolMessage;

use super::building::{Order, Origin};
use super::comeback::Hindrance;
use super::fate::Standing;
use super::log::{Contents, LogError, Logs, ReplicaLog};
use super::routes::Outgoing;
use super::served::{self, Served};
use super::status::MemoryStatus;
use super::traffic::Traffic;
use crate::data::{Attics, DataDirectory, MemoryShare, Placement, ReplicaAttic};

/// A replica that this node is to host.
pub(crate) struct Hosted {
    pub(crate) placement: Placement,
    pub(crate) state: State,
    /// The standing of its keyspace in the catalogue.
    pub(crate) standing: Standing,
    /// How it begins if it is built again and nothing of it is here: its first word may never have been said.
    pub(crate) origin: Origin,
    /// Why it was refused, if that passes: then it comes back by itself.
    hindrance: Option<Hindrance>,
    /// When it is to be woken for its timers.
    pub(super) due: Option<Instant>,
    /// True if it stands in the list of those that wait for a sync.
    pub(super) waits_for_sync: bool,
}

/// The state that the replica is in.
pub(crate) enum State {
    /// It runs.
    Running(Box<dyn Runs>),
    /// It cannot be served; says why and what to do.
    Refused(String),
}

/// A replica that runs, whatever its protocol.
pub(crate) trait Runs: Send {
    /// Starts the machine.
    fn start(&mut self, time: Time, outgoing: Outgoing<'_, '_>) -> Stepped;

    /// Tells the machine who the replicas of its keyspace are from now on; what it knows already it passes over.
    fn change_groups(&mut self, time: Time, memberships: &Groups, outgoing: Outgoing<'_, '_>) -> Stepped;

    /// Tells the machine which others of its keyspace run on this node from now on.
    fn meet(&mut self, time: Time, neighbours: &[ReplicaId], outgoing: Outgoing<'_, '_>) -> Stepped;

    /// Tells the machine that another shard of its keyspace is lost for good; none if its protocol knows nothing of that.
    fn declare_lost(&mut self, time: Time, shard: ShardId, outgoing: Outgoing<'_, '_>) -> Option<Stepped>;

    /// Has the machine give up what it leads, because the node is about to stop.
    fn give_way(&mut self, time: Time, outgoing: Outgoing<'_, '_>) -> Stepped;

    /// True if the machine leads what others could lead.
    fn has_the_lead(&self) -> bool;

    /// The last question of the machine to the configuration service, once.
    fn take_consultation(&mut self) -> Option<Consultation>;

    /// Gives the machine the answer to a question of this instant.
    fn answer(
        &mut self,
        time: Time,
        asked: Instant,
        changes: &SiteChanges,
        outgoing: Outgoing<'_, '_>,
    ) -> Stepped;

    /// Asks the machine, on behalf of an operator, what it holds.
    fn verify(&mut self, time: Time, request: &Request, outgoing: Outgoing<'_, '_>) -> (Stepped, Answer);

    /// Asks the machine, on behalf of a consumer, what has committed.
    fn changes(
        &mut self,
        time: Time,
        request: &changes::Request<Position>,
        outgoing: Outgoing<'_, '_>,
    ) -> (Stepped, changes::Answer<Position>);

    /// Gives the machine a message. One of another protocol is lost.
    fn on_message(
        &mut self,
        time: Time,
        from: Address,
        epoch: Epoch,
        message: ProtocolMessage,
        outgoing: Outgoing<'_, '_>,
    ) -> Stepped;

    /// Fires the timers that are due.
    fn fire_timers(&mut self, time: Time, outgoing: Outgoing<'_, '_>) -> Stepped;

    /// Lets go what waited for records that have become durable.
    fn release_durable(&mut self, time: Time, outgoing: Outgoing<'_, '_>) -> Result<Stepped, LogError>;

    /// Writes what was appended to the log, and gives what has to be synced.
    fn write_log(&mut self) -> Result<Option<Unsynced>, LogError>;

    /// Makes everything durable. The replica is not stepped again.
    fn close(self: Box<Self>) -> Result<(), LogError>;

    /// When the next timer is due.
    fn next_deadline(&mut self) -> Option<Instant>;

    /// True if a written record is not durable yet.
    fn is_syncing(&self) -> bool;

    /// How the machine is.
    fn health(&self) -> Health;

    /// How many transactions of clients, or of one, are prepared here.
    fn load(&self, client: Option<ClientId>) -> usize;

    /// True if the keys and values here take more memory than they may, and cannot take less.
    fn exceeds_memory(&self) -> bool;

    /// The memory that keys and values take, as far as the machine knows.
    fn memory(&self) -> Option<MemoryStatus>;

    /// True if other shards hold something until the machine has taken in a message of a client.
    fn is_awaited(&self, message: &ProtocolMessage) -> bool;

    /// True if a message of a client goes on with a transaction that is open here and nowhere else.
    fn has_open(&self, message: &ProtocolMessage) -> bool;

    /// True if the machine has nothing of clients under way.
    fn is_idle(&self) -> bool;

    /// The latest membership that the machine knows of.
    fn epoch(&self) -> Epoch;

    /// The life in which the machine can go on asleep that has lost its records; none as long as it has not heard from all other members.
    fn next_life(&self) -> Option<u64>;

    /// The shards that an operator has declared lost, as far as is durable here.
    fn lost_shards(&self) -> Vec<ShardId>;

    /// How far other sites are behind what has committed at this one, where the machine leads a local site.
    fn lags(&self, now: Instant) -> Vec<SiteLag>;

    /// The containers and shares that the machine has handed to other sites, where it is one of a local site.
    fn handed_over(&self) -> Option<HandedOver>;

    /// The ends of the transactions of the node, and how much they speculate; none if the machine does not run them.
    fn speculating(&self) -> Option<Speculating>;

    /// The changes that the machine retains for consumers.
    fn retained(&self) -> changes::Retained;

    /// The facts of the replica that its machine does not know.
    fn facts(&self) -> Facts<'_>;
}

/// The facts of a running replica that its machine does not know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// Since when the members of its group were as they were when it last began to serve in a view, durably; none if it has not
    /// since this process started.
    pub(crate) arrived: Option<Epoch>,
    /// So many replicas of the group have lost their records, as it said last, that it does not recover by itself.
    pub(crate) lost: Option<usize>,
    /// How many transactions have committed and aborted here since this process started.
    pub(crate) decided: (u64, u64),
    /// How many records it has emitted since this process started.
    pub(crate) records: u64,
    /// How many effects wait for the disk.
    pub(crate) held: usize,
    /// How much waits for the disk, in bytes.
    pub(crate) log_lag_bytes: u64,
    /// When operators have accepted that it had lost its records, in seconds since 1970.
    pub(crate) accepted_losses: &'a [u64],
    /// The transactions that it has seen.
    pub(super) traffic: &'a Traffic,
    /// The answers that it has given to consumers of changes.
    pub(super) told: Told,
}

/// The answers of a replica to consumers of changes since this process started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// Pages that brought a consumer on.
    pub(crate) pages: u64,
    /// How often what was asked for was let go already.
    pub(crate) too_old: u64,
}

impl Told {
    fn note(&mut self, request: &changes::Request<Position>, answer: &changes::Answer<Position>) {
        match answer {
            changes::Answer::Page(page) => self.pages += u64::from(request.from.as_ref() != Some(&page.to)),
            changes::Answer::TooOld { .. } => self.too_old += 1,
            changes::Answer::Unable { .. } => {}
        }
    }
}

/// A replica that runs.
pub(super) struct Running<M: Served> {
    id: ReplicaId,
    driver: Driver<M>,
    log: Option<ReplicaLog>,
    /// Where it keeps values that do not fit into memory.
    attic: Option<ReplicaAttic>,
    /// Its part in the memory of the node, if that is bounded and all its values stay there.
    share: Option<MemoryShare>,
    /// How many records it has emitted since this process started.
    records: u64,
    /// How many transactions it had seen committed and aborted when this process started.
    before: (u64, u64),
    /// The news that it told last about itself.
    news: Option<News>,
    /// As [`Facts::arrived`].
    arrived: Option<Epoch>,
    /// True if its log has records that were not written yet.
    is_dirty: bool,
    /// When operators have accepted that it had lost its records, in seconds since 1970.
    accepted_losses: Vec<u64>,
    /// The last question to the configuration service, until it is taken.
    consultation: Option<Consultation>,
    /// The transactions that it has seen.
    traffic: Traffic,
    /// The answers that it has given to consumers of changes.
    told: Told,
}

/// The time, in seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Hosted {
    /// Builds a replica from what it had made durable, or as its origin says if there is nothing.
    pub(crate) fn build(order: Order, data: &DataDirectory, logs: &Logs) -> Hosted {
        let built = served::build(&order, data, logs);
        let (state, hindrance) = built.map_or_else(
            |error| {
                tracing::error!(replica = %order.placement.replica, %error, "a replica is not served");
                refused(&error)
            },
            |running| (State::Running(running), None),
        );
        let origin = match order.origin {
            // A loss that was accepted once is not accepted again, when there may be something to lose.
            Origin::AcceptedLoss { .. } => Origin::OldGroup,
            origin => origin,
        };
        let standing = Standing::default();
        Hosted {
            placement: order.placement,
            state,
            standing,
            origin,
            hindrance,
            due: None,
            waits_for_sync: false,
        }
    }

    /// The replica, if it runs.
    pub(crate) fn running(&mut self) -> Option<&mut dyn Runs> {
        match &mut self.state {
            State::Running(running) => Some(&mut **running),
            State::Refused(_) => None,
        }
    }

    /// Gives the replica up, for this reason.
    pub(crate) fn refuse(&mut self, error: &LogError) {
        tracing::error!(replica = %self.placement.replica, %error, "a replica is not served any more");
        (self.state, self.hindrance) = refused(error);
    }

    /// Why the replica was refused, if that passes.
    pub(crate) fn hindrance(&self) -> Option<Hindrance> {
        self.hindrance
    }
}

/// The state of a replica after an error, and whether that passes.
fn refused(error: &LogError) -> (State, Option<Hindrance>) {
    let hindrance = Hindrance::of(error);
    let reason = match hindrance {
        None => error.to_string(),
        Some(hindrance) => format!("{error}; {}", hindrance.advice()),
    };
    (State::Refused(reason), hindrance)
}

impl<M: Served> Running<M> {
    /// Builds the replica from what it had made durable, or as its origin says if there is nothing.
    pub(super) fn build(
        config: M::Config,
        order: &Order,
        data: &DataDirectory,
        logs: &Logs,
    ) -> Result<Box<dyn Runs>, LogError> {
        let Order { placement, origin, seed, .. } = order;
        let id = placement.replica;
        let create = |directory: &Path| logs.create(directory, id);
        if M::NEEDS_SHARDS && placement.shards.is_none() {
            return Err(LogError::Shards);
        }
        let mut seat = placement.seat();
        let asleep = match origin {
            Origin::AcceptedLoss { view, life } => Self::accept_loss(placement, &seat, data, (*view, *life))?,
            Origin::NewGroup | Origin::OldGroup => Vec::new(),
        };
        let epoch = placement.memberships.epoch;
        let prepared = data.prepare_replica(placement, *origin == Origin::NewGroup, create)?;
        let path = prepared.log.clone().unwrap_or_default();
        let (log, contents) = match prepared.log {
            None => (None, None),
            Some(directory) => {
                if !asleep.is_empty() {
                    let (mut log, _) = logs.open(&directory, id, epoch)?;
                    asleep.iter().for_each(|record| _ = log.append(record));
                    log.close()?;
                }
                let (log, contents) = logs.open(&directory, id, epoch)?;
                (Some(log), Some(contents))
            }
        };
        // A replica with records has taken part in no membership that it has not written down: it is told once it has started.
        let is_new = contents.as_ref().map_or(asleep.is_empty(), Contents::is_empty);
        if !is_new && !matches!(origin, Origin::AcceptedLoss { .. }) {
            seat.groups = placement.founding_groups();
        }
        seat.boot = prepared.boot;
        let attic = data.attics().filter(|_| M::KEEPS_VALUES_IN_ATTICS).map(|attics| attics.create(id));
        let attic = attic.transpose()?;
        seat.attic = attic.as_ref().map(ReplicaAttic::for_machine);
        let share = data.attics().filter(|_| !M::KEEPS_VALUES_IN_ATTICS).map(Attics::share);
        let config = M::seated(config, &seat);
        let machine = match contents {
            None => replay::rebuild::<M>(config, asleep),
            Some(contents) => Self::rebuild(config, &contents)?,
        };
        if let Some(attic) = attic.as_ref().filter(|attic| attic.has_failed()) {
            return Err(unread(attic, log.is_some()));
        }
        let view = machine.health().view;
        if !view.is_sound(epoch) {
            return Err(LogError::View { path: path.display().to_string(), view });
        }
        let before = machine.decided();
        let driver = Driver::new(machine, Random::new(*seed));
        let accepted_losses = prepared.accepted_losses;
        Ok(Box::new(Running {
            id,
            driver,
            log,
            attic,
            share,
            records: 0,
            before,
            news: None,
            arrived: None,
            is_dirty: false,
            accepted_losses,
            consultation: None,
            traffic: Traffic::default(),
            told: Told::default(),
        }))
    }

    /// Rebuilds the machine from its log.
    fn rebuild(config: M::Config, contents: &Contents) -> Result<M, LogError> {
        let extent = contents.extent(|record| M::snapshot_part(&config, record))?;
        let mut reading = contents.read();
        let parts = config.clone();
        let records = extent.select(reading.by_ref(), |record| M::snapshot_part(&parts, record));
        // A log that fails while it is read the second time looks as after an earlier crash, and the machine is given up.
        let machine = M::restore(config, records);
        reading.end().and(Ok(machine))
    }

    /// Notes that the records of the replica are lost, and says with which it goes on.
    fn accept_loss(
        placement: &Placement,
        seat: &Seat,
        data: &DataDirectory,
        (view, life): (View, u64),
    ) -> Result<Vec<M::Record>, LogError> {
        if !M::ACCEPTS_LOSS {
            return Err(LogError::LossNotAccepted);
        }
        let asleep = M::asleep_since_creation(seat, view, life).ok_or(LogError::NoViewLeft { view })?;
        data.accept_loss(placement, unix_seconds())?;
        Ok(asleep)
    }

    /// The end of the replica, if a look at its machine could not read a value.
    fn gives_up_unread(&mut self) -> Option<Stepped> {
        self.attic.as_ref().filter(|attic| attic.has_failed())?;
        let became_dirty = !std::mem::replace(&mut self.is_dirty, true);
        Some(Stepped { became_dirty, ..Stepped::default() })
    }

    fn step(&mut self, time: Time, input: InputOf<M>, outgoing: Outgoing<'_, '_>) -> Stepped {
        self.drive(time, outgoing, |driver, carrier| driver.step(time, input, carrier))
    }

    fn drive(
        &mut self,
        time: Time,
        outgoing: Outgoing<'_, '_>,
        act: impl FnOnce(&mut Driver<M>, &mut ToWorld<'_, '_, '_>),
    ) -> Stepped {
        let Running {
            id, driver, log, attic, records, news, arrived, is_dirty, consultation, traffic, ..
        } = self;
        let was_dirty = *is_dirty;
        let said = Stepped::default();
        let mut carrier = ToWorld {
            id: *id,
            log: log.as_mut(),
            attic: attic.as_ref(),
            records,
            news,
            arrived,
            is_dirty,
            consultation,
            traffic,
            now: time.now,
            said,
            outgoing,
        };
        act(driver, &mut carrier);
        let said = carrier.said;
        // Where the log is written at the end of the turn, the replica is given up.
        *is_dirty |= attic.as_ref().is_some_and(ReplicaAttic::has_failed);
        Stepped { became_dirty: *is_dirty && !was_dirty, ..said }
    }
}

impl<M: Served> Runs for Running<M> {
    fn start(&mut self, time: Time, outgoing: Outgoing<'_, '_>) -> Stepped {
        self.step(time, Input::Start, outgoing)
    }

    fn change_groups(&mut self, time: Time, memberships: &Groups, outgoing: Outgoing<'_, '_>) -> Stepped {
        if let Some(log) = &mut self.log {
            log.set_epoch(memberships.epoch);
        }
        let commands = M::change_groups(memberships, self.id.shard);
        self.drive(time, outgoing, |driver, carrier| {
            for command in commands {
                driver.step(time, Input::Command(command), carrier);
            }
        })
    }

    fn meet(&mut self, time: Time, neighbours: &[ReplicaId], outgoing: Outgoing<'_, '_>) -> Stepped {
        match M::meet(neighbours) {
            Some(command) => self.step(time, Input::Command(command), outgoing),
            None => Stepped::default(),
        }
    }

    fn declare_lost(&mut self, time: Time, shard: ShardId, outgoing: Outgoing<'_, '_>) -> Option<Stepped> {
        let command = M::declare_lost(shard)?;
        Some(self.step(time, Input::Command(command), outgoing))
    }

    fn give_way(&mut self, time: Time, outgoing: Outgoing<'_, '_>) -> Stepped {
        match M::give_way() {
            Some(command) => self.step(time, Input::Command(command), outgoing),
            None => Stepped::default(),
        }
    }

    fn has_the_lead(&self) -> bool {
        M::give_way().is_some() && self.driver.machine().health().leads
    }

    fn take_consultation(&mut self) -> Option<Consultation> {
        self.consultation.take()
    }

    fn answer(
        &mut self,
        time: Time,
        asked: Instant,
        changes: &SiteChanges,
        outgoing: Outgoing<'_, '_>,
    ) -> Stepped {
        match M::answer(asked, changes) {
            Some(command) => self.step(time, Input::Command(command), outgoing),
            None => Stepped::default(),
        }
    }

    fn verify(&mut self, time: Time, request: &Request, outgoing: Outgoing<'_, '_>) -> (Stepped, Answer) {
        let stepped = match M::verify(request.clone()) {
            Some(command) => self.step(time, Input::Command(command), outgoing),
            None => Stepped::default(),
        };
        let answer = self.driver.machine().verified(request);
        match self.gives_up_unread() {
            // Another time: it is built again.
            Some(given_up) => (stepped.and(given_up), Answer { at: None, progress: Progress::Waiting }),
            None => (stepped, answer),
        }
    }

    fn changes(
        &mut self,
        time: Time,
        request: &changes::Request<Position>,
        outgoing: Outgoing<'_, '_>,
    ) -> (Stepped, changes::Answer<Position>) {
        let stepped = match M::follow() {
            Some(command) => self.step(time, Input::Command(command), outgoing),
            None => Stepped::default(),
        };
        let answer = self.driver.machine().changes(request);
        match self.gives_up_unread() {
            Some(given_up) => (stepped.and(given_up), changes::Answer::unable("it cannot read a value")),
            None => {
                self.told.note(request, &answer);
                (stepped, answer)
            }
        }
    }

    fn on_message(
        &mut self,
        time: Time,
        from: Address,
        epoch: Epoch,
        message: ProtocolMessage,
        outgoing: Outgoing<'_, '_>,
    ) -> Stepped {
        let Ok(message) = message.try_into() else { return Stepped::default() };
        let landmark = M::landmark_received(&message, self.id.shard);
        self.traffic.on_received(time.now, landmark, || M::keys_written(&message));
        self.step(time, Input::Message { from, epoch, message }, outgoing)
    }

    fn fire_timers(&mut self, time: Time, outgoing: Outgoing<'_, '_>) -> Stepped {
        self.drive(time, outgoing, |driver, carrier| driver.fire_timers(time, carrier))
    }

    fn release_durable(&mut self, time: Time, outgoing: Outgoing<'_, '_>) -> Result<Stepped, LogError> {
        let Some(mark) = self.log.as_mut().map_or(Ok(None), ReplicaLog::take_durable)? else {
            return Ok(Stepped::default());
        };
        Ok(self.drive(time, outgoing, |driver, carrier| driver.on_durable(time, mark, carrier)))
    }

    fn write_log(&mut self) -> Result<Option<Unsynced>, LogError> {
        self.is_dirty = false;
        if let Some(attic) = self.attic.as_ref().filter(|attic| attic.has_failed()) {
            return Err(unread(attic, self.log.is_some()));
        }
        self.log.as_mut().map_or(Ok(None), ReplicaLog::write)
    }

    fn close(self: Box<Self>) -> Result<(), LogError> {
        self.log.map_or(Ok(()), ReplicaLog::close)
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        self.driver.next_deadline()
    }

    fn is_syncing(&self) -> bool {
        let (appended, durable) = self.driver.marks();
        durable < appended
    }

    fn health(&self) -> Health {
        self.driver.machine().health()
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        self.driver.machine().load(client)
    }

    fn exceeds_memory(&self) -> bool {
        let machine = self.driver.machine();
        let share = self.share.as_ref().zip(machine.memory());
        machine.exceeds_memory() || share.is_some_and(|(share, memory)| share.exceeds_with(memory.bytes()))
    }

    fn memory(&self) -> Option<MemoryStatus> {
        let memory = self.driver.machine().memory()?;
        self.share.iter().for_each(|share| share.note(memory.bytes()));
        Some(MemoryStatus::new(memory, self.attic.as_ref()))
    }

    fn is_awaited(&self, message: &ProtocolMessage) -> bool {
        // Asked of what would be refused, and of nothing else: so a copy will do.
        M::Message::try_from(message.clone()).is_ok_and(|message| self.driver.machine().is_awaited(&message))
    }

    fn has_open(&self, message: &ProtocolMessage) -> bool {
        // Asked only once the node stops.
        M::Message::try_from(message.clone()).is_ok_and(|message| self.driver.machine().has_open(&message))
    }

    fn is_idle(&self) -> bool {
        self.driver.machine().is_idle()
    }

    fn epoch(&self) -> Epoch {
        self.driver.machine().epoch(self.id.into())
    }

    fn next_life(&self) -> Option<u64> {
        self.driver.machine().next_life()
    }

    fn lost_shards(&self) -> Vec<ShardId> {
        self.driver.machine().lost_shards()
    }

    fn lags(&self, now: Instant) -> Vec<SiteLag> {
        self.driver.machine().lags(now)
    }

    fn handed_over(&self) -> Option<HandedOver> {
        self.driver.machine().handed_over()
    }

    fn speculating(&self) -> Option<Speculating> {
        self.driver.machine().speculating()
    }

    fn retained(&self) -> changes::Retained {
        self.driver.machine().retained()
    }

    fn facts(&self) -> Facts<'_> {
        let decided = self.driver.machine().decided();
        Facts {
            arrived: self.arrived,
            lost: match self.news {
                Some(News::Lost(lost)) => Some(lost),
                _ => None,
            },
            decided: (decided.0.saturating_sub(self.before.0), decided.1.saturating_sub(self.before.1)),
            records: self.records,
            held: self.driver.held_len(),
            log_lag_bytes: self.log.as_ref().map_or(0, ReplicaLog::lag_bytes),
            accepted_losses: &self.accepted_losses,
            traffic: &self.traffic,
            told: self.told,
        }
    }
}

/// The tasks of the node after a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stepped {
    /// The log has to be written at the end of this turn.
    pub(crate) became_dirty: bool,
    /// The replica has something new to say about itself.
    pub(crate) changes_state: bool,
    /// Nobody needs the replica any more.
    pub(crate) is_retired: bool,
    /// The replica asks the configuration service.
    pub(crate) consults: bool,
}

impl Stepped {
    /// The tasks after this step and another one.
    fn and(self, other: Stepped) -> Stepped {
        Stepped {
            became_dirty: self.became_dirty || other.became_dirty,
            changes_state: self.changes_state || other.changes_state,
            is_retired: self.is_retired || other.is_retired,
            consults: self.consults || other.consults,
        }
    }
}

/// The error of a replica that could not read a value. One without a log does not come back within this life of its node: it would forget what
/// it has said in it.
fn unread(attic: &ReplicaAttic, has_log: bool) -> LogError {
    let why = attic.status().failure.unwrap_or_default();
    let path = attic.path().display().to_string();
    if has_log { LogError::Attic { path, why } } else { LogError::AtticAlone { path, why } }
}

/// Carries out what the replica wants.
struct ToWorld<'a, 'b, 't> {
    id: ReplicaId,
    log: Option<&'a mut ReplicaLog>,
    attic: Option<&'a ReplicaAttic>,
    records: &'a mut u64,
    news: &'a mut Option<News>,
    arrived: &'a mut Option<Epoch>,
    is_dirty: &'a mut bool,
    consultation: &'a mut Option<Consultation>,
    traffic: &'a mut Traffic,
    now: Instant,
    /// The tasks of the node that follow from its events.
    said: Stepped,
    outgoing: Outgoing<'b, 't>,
}

impl<M: Served> Carrier<M> for ToWorld<'_, '_, '_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: M::Message) {
        self.traffic.on_sent(self.now, || M::landmark_sent(&message));
        self.outgoing.send(self.id.into(), to, epoch, message.into());
    }

    fn emit(&mut self, event: M::Event) {
        if let Some(consultation) = M::consultation(&event) {
            *self.consultation = Some(consultation.clone());
            self.said.consults = true;
        }
        let Some(news) = M::news(&event) else { return };
        if let News::Clock(error_micros) = news {
            // It says nothing of how the replica is.
            match error_micros {
                Some(error) => {
                    let error_seconds = error as f64 / 1e6;
                    tracing::warn!(replica = %self.id, error_seconds, "the clock of this node is off");
                }
                None => tracing::info!(replica = %self.id, "the clock of this node is right again"),
            }
            return;
        }
        if matches!(news, News::Lost(_)) && *self.news == Some(news) {
            // It repeats this for as long as it holds.
            return;
        }
        self.said.changes_state = true;
        match news {
            News::Normal(view) => {
                *self.arrived = Some(view.epoch());
                tracing::info!(replica = %self.id, %view, "serving");
            }
            News::Retired => {
                self.said.is_retired = true;
                tracing::info!(replica = %self.id, "no member any more, and needed by nobody");
            }
            News::ViewChanging(view) => tracing::info!(replica = %self.id, %view, "changing views"),
            News::Recovering => tracing::info!(replica = %self.id, "learning what was lost from the others"),
            News::Leading(view) => tracing::info!(replica = %self.id, %view, "leading"),
            // The catalogue tells of it, if it has not yet.
            News::Outdated(epoch) => {
                tracing::info!(replica = %self.id, %epoch, "others know of a later membership");
            }
            News::Clock(_) => {}
            News::Lost(lost) => {
                tracing::error!(replica = %self.id, lost, "too many replicas have lost their records");
            }
        }
        *self.news = Some(news);
    }

    fn persist(&mut self, _: &M, record: M::Record) -> Kept {
        *self.records += 1;
        match &mut self.log {
            None => Kept::Now,
            Some(log) => {
                *self.is_dirty = true;
                Kept::At(log.append(&record))
            }
        }
    }

    fn ignored(&mut self, reason: &'static str) {
        log_ignored(reason);
    }

    fn log_end(&self) -> Kept {
        self.log.as_ref().map_or(Kept::Now, |log| Kept::At(log.end()))
    }

    fn truncate(&mut self, up_to: Mark) {
        if let Some(log) = &mut self.log {
            log.truncate(up_to);
        }
    }

    /// A machine that could not read a value has gone on with something else in its place.
    fn has_ended(&self) -> bool {
        self.attic.is_some_and(ReplicaAttic::has_failed)
    }
}
