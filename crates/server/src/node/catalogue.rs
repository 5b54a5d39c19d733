//! How a node learns of keyspaces: it keeps a copy of their part of the configuration.
//!
//! The copy may lag behind, which does no harm as long as it does not lag behind what this node has known in an earlier life:
//! a keyspace that is hosted here and missing there was dropped, or has not come yet. So once after it has started, the node
//! writes nothing at all, in an entry of the log of its own: the revision at which that is told to be written is that of
//! everything that anybody knew before. From there on what is missing was dropped, and what was created later is new. Only a
//! node that has lost its disk cares for the latter: what is older it has to learn from others, see
//! [`Initialise::Replace`](crate::Initialise::Replace).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorate_configuration::{
    ConditionalWrite, Replica, Revision, Stored, Subscriber, SubscriberCommand, SubscriberConfig,
    SubscriberEvent, WriteResult,
};
use quorate_core::machine::InputOf;
use quorate_core::topology::Keyspace;
use quorate_core::{Address, ClientId, Epoch, Input, Instant, Key, Machine, TransactionId};
use quorate_log::Guest;
use quorate_log::member::MessageOf;
use quorate_runtime::driver::{Carrier, Kept};
use quorate_runtime::{Driver, Time};
use quorate_wire::catalogue::keyspace_range;

use super::routes::Outgoing;

/// The name of the watch of all keyspaces.
const KEYSPACES: u64 = 0;

/// How long the node waits for its write before it asks for another, and after one that was refused.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);

/// How long it waits for an answer before another replica is asked.
const RESEND_TIMEOUT: Duration = Duration::from_millis(500);

/// What a node keeps a copy with, speaking as members of the log do.
type Speaker = Guest<Subscriber, Replica>;

/// What is known of the keyspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The keyspaces that are there.
    pub(crate) keyspaces: Vec<Found>,
    /// Everything up to this revision was known to somebody before this node had started.
    pub(crate) started: Revision,
    /// True if there are surely no others.
    pub(crate) complete: bool,
}

/// A keyspace and which write has created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) keyspace: Keyspace,
    pub(crate) created: Revision,
}

/// Keeps the copy.
pub(crate) struct Catalogue {
    driver: Driver<Speaker>,
    client: ClientId,
    /// The number of the last write.
    sequence: u64,
    /// When the next write is due.
    write_at: Option<Instant>,
    /// The revision of the write that has succeeded.
    started: Option<Revision>,
    /// The copy has changed since it was taken last.
    has_changed: bool,
    /// What the subscriber said in this step.
    events: VecDeque<SubscriberEvent>,
}

impl Catalogue {
    /// The copy of a node that speaks as this client; `interval` is how often it asks for what it may have missed.
    pub(crate) fn new(client: ClientId, system: &Keyspace, interval: Duration, seed: u64) -> Self {
        let shard = &system.shards[0];
        let config = SubscriberConfig {
            resend_timeout: RESEND_TIMEOUT,
            watch_interval: interval,
            ..SubscriberConfig::new(client, (shard.id, shard.group_size()))
        };
        Catalogue {
            driver: Driver::new(Guest::restore(config, []), seed),
            client,
            sequence: 0,
            write_at: None,
            started: None,
            has_changed: false,
            events: VecDeque::new(),
        }
    }

    /// Begins to watch.
    pub(crate) fn start(&mut self, time: Time, outgoing: &mut Outgoing<'_, '_>) {
        self.step(time, Input::Start, outgoing);
        let watch = SubscriberCommand::Watch { watch: KEYSPACES, range: keyspace_range() };
        self.step(time, Input::Command(watch), outgoing);
    }

    /// A message for the subscriber has arrived.
    pub(crate) fn on_message(
        &mut self,
        time: Time,
        from: Address,
        epoch: Epoch,
        message: MessageOf<Replica>,
        outgoing: &mut Outgoing<'_, '_>,
    ) {
        self.step(time, Input::Message { from, epoch, message }, outgoing);
    }

    /// Fires timers, and writes if that is due.
    pub(crate) fn on_turn_end(&mut self, time: Time, outgoing: &mut Outgoing<'_, '_>) {
        let Catalogue { driver, client, events, .. } = self;
        driver.fire_timers(time, &mut ToWorld { client: *client, events, outgoing });
        self.take_events(time.now);
        if self.write_at.take_if(|at| *at <= time.now).is_some() {
            self.sequence += 1;
            let transaction = TransactionId { client: self.client, sequence: self.sequence, attempt: 0 };
            let write = Arc::new(ConditionalWrite::default());
            let command = SubscriberCommand::Write { transaction, write, patience: PATIENCE };
            self.step(time, Input::Command(command), outgoing);
        }
    }

    /// When a turn is wanted.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        [self.driver.next_deadline(), self.write_at].into_iter().flatten().min()
    }

    /// What is known, if that has changed since this was asked last.
    pub(crate) fn take_reading(&mut self) -> Option<Reading> {
        let started = self.started?;
        let watched = self.driver.machine().machine().watched(KEYSPACES)?;
        let keys = watched.keys().filter(|_| self.has_changed && watched.revision() >= started)?;
        let reading = read(keys, started);
        self.has_changed = false;
        Some(reading)
    }

    /// Up to which revision the copy is known to hold everything; none as long as it is not whole.
    pub(crate) fn revision(&self) -> Option<Revision> {
        let watched = self.driver.machine().machine().watched(KEYSPACES)?;
        watched.keys().map(|_| watched.revision())
    }

    fn step(&mut self, time: Time, input: InputOf<Speaker>, outgoing: &mut Outgoing<'_, '_>) {
        let Catalogue { driver, client, events, .. } = self;
        driver.step(time, input, &mut ToWorld { client: *client, events, outgoing });
        self.take_events(time.now);
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.events.pop_front() {
            match event {
                SubscriberEvent::Loaded { .. } | SubscriberEvent::Changed { .. } => {
                    self.has_changed = true;
                    if self.sequence == 0 {
                        // Not before: a write of somebody who knows nothing of the log may be one of long ago.
                        self.write_at = Some(now);
                    }
                }
                SubscriberEvent::Written { result, .. } => match result {
                    Ok(WriteResult::Written { revision }) => self.started = Some(revision),
                    _ => self.write_at = Some(now + PAUSE),
                },
                SubscriberEvent::Held { .. } | SubscriberEvent::Lost { .. } => {}
            }
        }
    }
}

/// Reads what the keys of keyspaces hold.
fn read(keys: &BTreeMap<Key, Stored>, started: Revision) -> Reading {
    let mut reading = Reading { keyspaces: Vec::with_capacity(keys.len()), started, complete: true };
    for (key, stored) in keys {
        match quorate_wire::decode(&stored.value) {
            Ok(keyspace) => reading.keyspaces.push(Found { keyspace, created: stored.created }),
            Err(error) => {
                tracing::error!(?key, %error, "a keyspace in the catalogue cannot be read");
                reading.complete = false;
            }
        }
    }
    reading
}

/// Carries out what the subscriber wants.
struct ToWorld<'a, 'b, 't> {
    client: ClientId,
    events: &'a mut VecDeque<SubscriberEvent>,
    outgoing: &'a mut Outgoing<'b, 't>,
}

impl Carrier<Speaker> for ToWorld<'_, '_, '_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: MessageOf<Replica>) {
        self.outgoing.send(self.client.into(), to, epoch, message.into());
    }

    fn emit(&mut self, event: SubscriberEvent) {
        self.events.push_back(event);
    }

    fn persist(&mut self, record: std::convert::Infallible) -> Kept {
        match record {}
    }
}
