//! One replica on this node: its machine, its log, and what is known of its health.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use quorate_core::machine::InputOf;
use quorate_core::{Address, Epoch, GroupSize, Instant, Machine, ReplicaId, View};
use quorate_runtime::driver::{Carrier, Kept, Mark};
use quorate_runtime::{Driver, Time};
use quorate_tapir::message::Decision;
use quorate_tapir::{Message, Record, Replica, ReplicaConfig, ReplicaEvent};
use quorate_wire::catalogue::keyspace_range;

use super::building::Origin;
use super::log::{LogError, Logs, ReplicaLog};
use super::routes::Outgoing;
use crate::config::SYSTEM_SHARD;
use crate::data::{DataDirectory, Placement};

/// A replica that this node is to host.
pub(crate) struct Hosted {
    pub(crate) placement: Placement,
    pub(crate) state: State,
}

/// What became of it.
pub(crate) enum State {
    /// It runs.
    Running(Box<Running>),
    /// It cannot be served; says why and what to do.
    Refused(String),
}

/// A replica that runs.
pub(crate) struct Running {
    driver: Driver<Replica>,
    log: Option<ReplicaLog>,
    /// How many records it has emitted since this process started.
    pub(crate) records: u64,
    /// How many transactions it had seen committed and aborted when this process started.
    before: (u64, u64),
    /// What it said last about itself.
    pub(crate) event: Option<ReplicaEvent>,
    /// True if its log has records that were not written yet.
    is_dirty: bool,
    /// When operators have accepted that it had lost its records, in seconds since 1970.
    pub(crate) accepted_losses: Vec<u64>,
}

/// What a replica remembers that was created with its group and has slept since. The view is one above which no replica
/// of the group has been: what this replica may have said in an earlier life counts in no view to come.
fn asleep_since_creation(view: View) -> Vec<Record> {
    vec![Record::Initialised, Record::ViewEntered { view }]
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Hosted {
    /// Builds a replica from what it had made durable, or as its origin says if there is nothing.
    pub(crate) fn build(
        placement: Placement,
        data: &DataDirectory,
        origin: Origin,
        logs: &Logs,
        seed: u64,
    ) -> Hosted {
        let state = match Running::build(&placement, data, origin, logs, seed) {
            Ok(running) => State::Running(Box::new(running)),
            Err(error) => {
                tracing::error!(replica = %placement.replica, %error, "a replica is not served");
                State::Refused(error.to_string())
            }
        };
        Hosted { placement, state }
    }

    /// The replica, if it runs.
    pub(crate) fn running(&mut self) -> Option<&mut Running> {
        match &mut self.state {
            State::Running(running) => Some(running),
            State::Refused(_) => None,
        }
    }

    /// Gives the replica up, for this reason.
    pub(crate) fn refuse(&mut self, error: &LogError) {
        tracing::error!(replica = %self.placement.replica, %error, "a replica is not served any more");
        self.state = State::Refused(error.to_string());
    }
}

impl Running {
    fn build(
        placement: &Placement,
        data: &DataDirectory,
        origin: Origin,
        logs: &Logs,
        seed: u64,
    ) -> Result<Running, LogError> {
        let replica = placement.replica;
        let create = |directory: &Path| logs.create(directory, replica);
        let asleep = match origin {
            Origin::AcceptedLoss { view } => asleep_since_creation(view),
            Origin::NewGroup | Origin::OldGroup => Vec::new(),
        };
        if !asleep.is_empty() {
            data.accept_loss(placement, unix_seconds())?;
        }
        let prepared = data.prepare_replica(placement, origin == Origin::NewGroup, create)?;
        let (log, records) = match prepared.log {
            None => (None, asleep),
            Some(directory) => {
                if !asleep.is_empty() {
                    let (mut log, _) = logs.open(&directory, replica, placement.epoch)?;
                    asleep.iter().for_each(|record| _ = log.append(record));
                    log.close()?;
                }
                let (log, records) = logs.open(&directory, replica, placement.epoch)?;
                (Some(log), records)
            }
        };
        let group = GroupSize::new(placement.nodes.len())?;
        let epoch = placement.epoch;
        let shards = placement.shards;
        let config = ReplicaConfig { epoch, shards, ..ReplicaConfig::new(replica, group, prepared.boot) };
        let machine = Replica::restore(config, records);
        let before = (machine.committed(), machine.aborted());
        let driver = Driver::new(machine, seed);
        let accepted_losses = prepared.accepted_losses;
        Ok(Running { driver, log, records: 0, before, event: None, is_dirty: false, accepted_losses })
    }

    pub(crate) fn replica(&self) -> &Replica {
        self.driver.machine()
    }

    /// How many transactions have committed and aborted here since this process started.
    pub(crate) fn decided(&self) -> (u64, u64) {
        let machine = self.replica();
        (machine.committed().saturating_sub(self.before.0), machine.aborted().saturating_sub(self.before.1))
    }

    /// How many effects wait for the disk.
    pub(crate) fn held_len(&self) -> usize {
        self.driver.held_len()
    }

    /// What waits for the disk, in bytes.
    pub(crate) fn log_lag_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, ReplicaLog::lag_bytes)
    }

    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        self.driver.next_deadline()
    }

    /// Gives the machine one input.
    pub(crate) fn step(
        &mut self,
        id: ReplicaId,
        time: Time,
        input: InputOf<Replica>,
        outgoing: Outgoing<'_, '_>,
    ) -> Stepped {
        self.drive(id, outgoing, |driver, carrier| driver.step(time, input, carrier))
    }

    /// Fires the timers that are due.
    pub(crate) fn fire_timers(&mut self, id: ReplicaId, time: Time, outgoing: Outgoing<'_, '_>) -> Stepped {
        self.drive(id, outgoing, |driver, carrier| driver.fire_timers(time, carrier))
    }

    /// Lets go what waited for records that have become durable.
    pub(crate) fn release_durable(
        &mut self,
        id: ReplicaId,
        time: Time,
        outgoing: Outgoing<'_, '_>,
    ) -> Result<Stepped, LogError> {
        let Some(mark) = self.log.as_mut().map_or(Ok(None), ReplicaLog::take_durable)? else {
            return Ok(Stepped::default());
        };
        Ok(self.drive(id, outgoing, |driver, carrier| driver.on_durable(time, mark, carrier)))
    }

    /// Writes what was appended to the log, and asks for it to be synced.
    pub(crate) fn write_log(&mut self) -> Result<(), LogError> {
        self.is_dirty = false;
        self.log.as_mut().map_or(Ok(()), ReplicaLog::write)
    }

    /// Makes everything durable. The replica must not be stepped again.
    pub(crate) fn close(self) -> Result<(), LogError> {
        self.log.map_or(Ok(()), ReplicaLog::close)
    }

    /// True if a written record is not durable yet.
    pub(crate) fn is_syncing(&self) -> bool {
        let (appended, durable) = self.driver.marks();
        durable < appended
    }

    fn drive(
        &mut self,
        id: ReplicaId,
        outgoing: Outgoing<'_, '_>,
        act: impl FnOnce(&mut Driver<Replica>, &mut ToWorld<'_, '_, '_>),
    ) -> Stepped {
        let Running { driver, log, records, event, is_dirty, .. } = self;
        let was_dirty = *is_dirty;
        let mut carrier = ToWorld {
            id,
            log: log.as_mut(),
            records,
            event,
            is_dirty,
            changes_catalogue: false,
            changes_state: false,
            outgoing,
        };
        act(driver, &mut carrier);
        let ToWorld { changes_catalogue, changes_state, .. } = carrier;
        Stepped { became_dirty: *is_dirty && !was_dirty, changes_catalogue, changes_state }
    }
}

/// What the node has to do after a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stepped {
    /// The log has to be written at the end of this turn.
    pub(crate) became_dirty: bool,
    /// A keyspace was created or dropped.
    pub(crate) changes_catalogue: bool,
    /// The replica has something new to say about itself.
    pub(crate) changes_state: bool,
}

/// Carries out what the replica wants.
struct ToWorld<'a, 'b, 't> {
    id: ReplicaId,
    log: Option<&'a mut ReplicaLog>,
    records: &'a mut u64,
    event: &'a mut Option<ReplicaEvent>,
    is_dirty: &'a mut bool,
    changes_catalogue: bool,
    changes_state: bool,
    outgoing: Outgoing<'b, 't>,
}

/// True if the record creates or drops a keyspace, given that it is one of the catalogue's.
fn changes_catalogue(record: &Record) -> bool {
    let Record::Decided { decision: Decision::Commit { transaction, .. }, .. } = record else { return false };
    let keyspaces = keyspace_range();
    transaction.writes.iter().any(|write| keyspaces.contains(&write.key))
}

impl Carrier<Replica> for ToWorld<'_, '_, '_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: Message) {
        self.outgoing.send(self.id.into(), to, epoch, message);
    }

    fn emit(&mut self, event: ReplicaEvent) {
        if matches!(event, ReplicaEvent::Lost { .. }) && self.event.as_ref() == Some(&event) {
            // It repeats this for as long as it holds.
            return;
        }
        self.changes_state = true;
        match &event {
            ReplicaEvent::Normal { view } => tracing::info!(replica = %self.id, %view, "serving"),
            ReplicaEvent::ViewChanging { view } => {
                tracing::info!(replica = %self.id, %view, "changing views")
            }
            ReplicaEvent::Outdated { epoch } => {
                tracing::warn!(replica = %self.id, %epoch, "the membership has changed; reading the catalogue");
                self.changes_catalogue = true;
            }
            ReplicaEvent::Lost { lost } => {
                tracing::error!(replica = %self.id, lost, "too many replicas have lost their records");
            }
        }
        *self.event = Some(event);
    }

    fn persist(&mut self, record: Record) -> Kept {
        *self.records += 1;
        if self.id.shard == SYSTEM_SHARD {
            self.changes_catalogue |= changes_catalogue(&record);
        }
        match &mut self.log {
            None => Kept::Now,
            Some(log) => {
                *self.is_dirty = true;
                Kept::At(log.append(&record))
            }
        }
    }

    fn log_end(&self) -> Kept {
        self.log.as_ref().map_or(Kept::Now, |log| Kept::At(log.end()))
    }

    fn truncate(&mut self, up_to: Mark) {
        if let Some(log) = &mut self.log {
            log.truncate(up_to);
        }
    }
}
