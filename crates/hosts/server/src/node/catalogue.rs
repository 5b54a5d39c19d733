//! How a node learns of keyspaces, sites and nodes, and registers nodes: it keeps a copy of these parts of the configuration.
//!
//! The copy may lag behind, which does no harm as long as it does not lag behind what this node has known in an earlier life. So once
//! after it has started, the node writes nothing at all, in an entry of the log of its own: the revision at which that is told to be
//! written is that of everything that anybody knew before. From there on what was created later is new. Only a node that has lost
//! its disk cares for that: what is older it has to learn from others, see [`Initialise::Replace`](crate::Initialise::Replace).
//!
//! A keyspace that is missing in the copy was not dropped: a drop is an entry of its own, see [`Dropped`]. The node also waits for the
//! delays of drops, a step at a time, and writes down that it did.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorate_access::{Access, InvalidEntry};
use quorate_configuration::{
    Compare, ConditionalWrite, Put, Refusal, Replica, Revision, Stored, Subscriber, SubscriberCommand,
    SubscriberConfig, SubscriberEvent, WriteResult,
};
use quorate_core::hosted::Consultation;
use quorate_core::machine::InputOf;
use quorate_core::topology::{Keyspace, Shard, SiteChanges, Topology};
use quorate_core::{
    Address, ClientId, Epoch, Input, Instant, Key, KeyspaceId, Machine, Members, NodeId, Random, ReplicaId,
    TransactionId, Value,
};
use quorate_log::Guest;
use quorate_log::member::MessageOf;
use quorate_runtime::{Carrier, Driver, Kept, LinkId, Time, log_ignored};
use quorate_wire::ProtocolVersion;
use quorate_wire::catalogue::{
    Dropped, PROTOCOL_VERSION_KEY, SYSTEM_SHARD, access_ranges, decode_protocol_version, group_key,
    group_range, is_dropped_key, is_keyspace_key, keyspaces_and_dropped_range, node_range,
    protocol_version_range, site_range,
};

use super::registry::{Joining, Registry};
use super::routes::Outgoing;
use crate::Config;

// The names of the watches.
const KEYSPACES: u64 = 0;
const SITES: u64 = 1;
const NODES: u64 = 2;
const GROUPS: u64 = 3;
const VERSION: u64 = 4;
const USERS: u64 = 5;
const ROLES: u64 = 6;
const TOKENS: u64 = 7;

/// The longest time after which a node asks whether it has missed changes of what it watches: users, roles and tokens are to be in force within a second.
const WATCH_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// How often somebody who wants to join is given a number that somebody else is given first.
const JOIN_ATTEMPTS_MAX: u32 = 8;

/// How long the node waits for its write before it asks for another, and after one that was refused.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);

/// How long it waits for an answer before another replica is asked.
const RESEND_TIMEOUT: Duration = Duration::from_millis(500);

/// The entries of users, roles and tokens.
pub(crate) type AccessEntries = BTreeMap<Key, Value>;

/// The subscriber with which a node keeps a copy, speaking as members of the log do.
type Speaker = Guest<Subscriber, Replica>;

/// The keyspaces, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The keyspaces that are there, and those that were dropped and can be brought back: both have their replicas.
    pub(crate) keyspaces: Vec<Found>,
    /// The records of drops.
    pub(crate) drops: BTreeMap<KeyspaceId, Dropped>,
    /// Everything up to this revision was known to somebody before this node had started.
    pub(crate) started: Revision,
    /// True if there are surely no others.
    pub(crate) complete: bool,
}

impl Reading {
    /// The keyspace that the catalogue lists under this id.
    pub(crate) fn listed(&self, keyspace: KeyspaceId) -> Option<&Keyspace> {
        let found = self.keyspaces.iter().find(|found| found.keyspace.id == keyspace && found.is_listed)?;
        Some(&found.keyspace)
    }
}

/// The outcome of a write, as [`SubscriberEvent::Written`] tells it.
type WriteOutcome = Result<WriteResult, Option<Refusal>>;

/// A keyspace and which write has created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) keyspace: Keyspace,
    /// The first revision if it was ever dropped: its replicas have been there before, whenever its entry was written.
    pub(crate) created: Revision,
    /// False if it was dropped.
    pub(crate) is_listed: bool,
}

/// A step of the delay of a drop that this node waits for.
#[derive(Clone, Debug)]
struct Wait {
    /// The write that the record was seen as.
    changed: Revision,
    /// When the step has been waited for.
    due: Instant,
    /// The write that is made then.
    write: ConditionalWrite,
}

/// Somebody who wants to be a node.
#[derive(Clone, Debug)]
struct Applicant {
    /// The connection over which it has said so.
    link: LinkId,
    site: String,
    address: String,
    /// The node whose certificate it has shown, if it has shown one.
    certified: Option<NodeId>,
    attempts: u32,
}

/// The answer to an applicant that wants to be a node: which it is, and whether it was that before; or why it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) link: LinkId,
    pub(crate) result: Result<(NodeId, bool), String>,
}

/// A question of a replica: which sites were taken out of its keyspace?
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) replica: ReplicaId,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) consultation: Consultation,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) replica: ReplicaId,
    pub(crate) asked: Instant,
    pub(crate) changes: SiteChanges,
}

/// No more keyspaces than this are confirmed by one write.
const CONFIRMED_MAX: usize = 64;

/// The purpose of a write.
#[derive(Clone, Debug)]
enum Purpose {
    /// That keyspaces are as the copy has them, since these replicas want to know.
    Confirm(Vec<(Question, SiteChanges)>),
    /// That the ends of lost sites are settled.
    Settle,
    /// To be told a revision.
    Start,
    /// That this node is registered as it is, or all are of whom its file tells.
    Register,
    /// That an applicant becomes this node.
    Join(Applicant, NodeId),
    /// That a step of the delay of a drop has passed.
    Wait(Key),
}

/// Keeps the copy.
pub(crate) struct Catalogue {
    driver: Driver<Speaker>,
    client: ClientId,
    config: Arc<Config>,
    /// The number of the last write.
    sequence: u64,
    /// The writes that are under way.
    writes: BTreeMap<u64, Purpose>,
    /// No write begins before.
    not_before: Instant,
    /// Writes rely on a copy of nodes that holds everything up to here.
    relies_on: Revision,
    /// The revision of the write that has succeeded.
    started: Option<Revision>,
    /// The copy of keyspaces, or that of sites and nodes, has changed since it was taken last.
    has_changed: bool,
    nodes_have_changed: bool,
    /// That of the group of the configuration service itself has.
    group_has_changed: bool,
    /// That of the protocol version in force has.
    version_has_changed: bool,
    /// One of those of users, roles and tokens has.
    access_has_changed: bool,
    applicants: VecDeque<Applicant>,
    joined: Vec<Joined>,
    /// The questions of replicas, one of each.
    questions: BTreeMap<ReplicaId, Question>,
    answers: Vec<Answered>,
    /// The delays of drops that are waited for, by their keys.
    waits: BTreeMap<Key, Wait>,
    /// The events of the subscriber in this step.
    events: VecDeque<SubscriberEvent>,
}

impl Catalogue {
    /// The copy of a node that speaks as this client.
    pub(crate) fn new(client: ClientId, config: Arc<Config>, shard: &Shard, seed: u64) -> Self {
        let subscriber = SubscriberConfig {
            resend_timeout: RESEND_TIMEOUT,
            watch_interval: config.limits.catalogue_interval.min(WATCH_INTERVAL_MAX),
            ..SubscriberConfig::new(client, (shard.id, shard.succession().present.members))
        };
        Catalogue {
            driver: Driver::new(Guest::restore(subscriber, []), Random::new(seed)),
            client,
            config,
            sequence: 0,
            writes: BTreeMap::new(),
            not_before: Instant::START,
            relies_on: Revision::START,
            started: None,
            has_changed: false,
            nodes_have_changed: false,
            group_has_changed: false,
            version_has_changed: false,
            access_has_changed: false,
            applicants: VecDeque::new(),
            joined: Vec::new(),
            questions: BTreeMap::new(),
            answers: Vec::new(),
            waits: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Begins to watch.
    pub(crate) fn start(&mut self, time: Time, outgoing: &mut Outgoing<'_, '_>) {
        self.step(time, Input::Start, outgoing);
        let [users, roles, tokens] = access_ranges();
        let watches = [
            (KEYSPACES, keyspaces_and_dropped_range()),
            (SITES, site_range()),
            (NODES, node_range()),
            (GROUPS, group_range()),
            (VERSION, protocol_version_range()),
            (USERS, users),
            (ROLES, roles),
            (TOKENS, tokens),
        ];
        for (watch, range) in watches {
            self.step(time, Input::Command(SubscriberCommand::Watch { watch, range }), outgoing);
        }
    }

    /// Registers somebody who wants to be a node, as soon as that can be. Answered by [`Catalogue::take_joined`].
    pub(crate) fn join(&mut self, link: LinkId, site: String, address: String, certified: Option<NodeId>) {
        self.applicants.push_back(Applicant { link, site, address, certified, attempts: 0 });
    }

    /// A replica asks which sites were taken out of its keyspace. Answered by [`Catalogue::take_answers`].
    pub(crate) fn consult(&mut self, question: Question) {
        self.questions.insert(question.replica, question);
    }

    /// The answers since this was asked last.
    pub(crate) fn take_answers(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.answers)
    }

    /// The keyspaces of the copy, by their ids: which write has changed each last, and how it is.
    fn keyspaces_by_id(&self) -> BTreeMap<KeyspaceId, (Key, Revision, Keyspace)> {
        let keys = self.keys(KEYSPACES).into_iter().flatten();
        let decoded = keys.filter(|(key, _)| is_keyspace_key(key)).filter_map(|(key, stored)| {
            let keyspace: Keyspace = quorate_wire::decode(&stored.value).ok()?;
            Some((keyspace.id, (key.clone(), stored.changed, keyspace)))
        });
        decoded.collect()
    }

    /// The write that answers what replicas have asked: it settles what one of them proposes, or changes nothing and is refused if the
    /// copy is not current.
    fn next_answer(&mut self) -> Option<(Purpose, ConditionalWrite)> {
        if self.questions.is_empty() {
            return None;
        }
        let keyspaces = self.keyspaces_by_id();
        // A keyspace that is not in the copy was dropped, or will be: the replica asks again.
        self.questions.retain(|_, question| keyspaces.contains_key(&question.keyspace));
        for question in self.questions.values_mut() {
            let Some((key, changed, keyspace)) = keyspaces.get(&question.keyspace) else { continue };
            let Some(settlement) = question.consultation.settlement.take() else { continue };
            let mut changes = keyspace.site_changes();
            if changes.settle(&settlement) {
                let settled = keyspace.clone().with_site_changes(changes);
                let put = Put { key: key.clone(), value: Some(quorate_wire::encode(&settled)), lease: None };
                let unchanged = Compare::Key { key: key.clone(), changed: Some(*changed) };
                let write = ConditionalWrite { compares: vec![unchanged], puts: vec![put] };
                return Some((Purpose::Settle, write));
            }
        }
        let (mut asked, mut compares) = (Vec::new(), BTreeMap::new());
        while compares.len() < CONFIRMED_MAX
            && let Some((_, question)) = self.questions.pop_first()
        {
            if let Some((key, changed, keyspace)) = keyspaces.get(&question.keyspace) {
                let unchanged = Compare::Key { key: key.clone(), changed: Some(*changed) };
                compares.insert(question.keyspace, unchanged);
                asked.push((question, keyspace.site_changes()));
            }
        }
        let compares: Vec<Compare> = compares.into_values().collect();
        (!asked.is_empty())
            .then(|| (Purpose::Confirm(asked), ConditionalWrite { compares, ..Default::default() }))
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

    /// Fires timers, and writes what is to be written.
    pub(crate) fn on_turn_end(&mut self, time: Time, outgoing: &mut Outgoing<'_, '_>) {
        let Catalogue { driver, client, events, .. } = self;
        driver.fire_timers(time, &mut ToWorld { client: *client, events, outgoing });
        self.take_events(time.now);
        // One at a time: each relies on what the one before has led to.
        if self.not_before > time.now || !self.writes.is_empty() {
            return;
        }
        self.not_before = Instant::START;
        if let Some((purpose, write)) = self.next_write(time.now) {
            self.sequence += 1;
            self.writes.insert(self.sequence, purpose);
            let transaction = TransactionId { client: self.client, sequence: self.sequence, attempt: 0 };
            let command =
                SubscriberCommand::Write { transaction, write: Arc::new(write), patience: PATIENCE };
            self.step(time, Input::Command(command), outgoing);
        }
    }

    /// The next write, if there is one to make.
    fn next_write(&mut self, now: Instant) -> Option<(Purpose, ConditionalWrite)> {
        // Not before something was read: a write of somebody who knows nothing of the log may be one of long ago.
        self.keys(KEYSPACES)?;
        if self.started.is_none() {
            return Some((Purpose::Start, ConditionalWrite::default()));
        }
        if let Some((key, wait)) = self.waits.iter().find(|(_, wait)| wait.due <= now) {
            return Some((Purpose::Wait(key.clone()), wait.write.clone()));
        }
        if let Some(write) = self.next_answer() {
            return Some(write);
        }
        let registry = self.registry()?;
        let Config { topology, node, system, first_version, .. } = &*self.config;
        if let Some(write) = registry.registration(topology, *node, system, *first_version) {
            return Some((Purpose::Register, write));
        }
        while let Some(applicant) = self.applicants.pop_front() {
            let link = applicant.link;
            let result = match self.registry()?.join(&applicant.site, &applicant.address, applicant.certified)
            {
                Ok(Joining::New(node, write)) => return Some((Purpose::Join(applicant, node), write)),
                Ok(Joining::Known(node)) => Ok((node, true)),
                Err(reason) => Err(reason),
            };
            self.joined.push(Joined { link, result });
        }
        None
    }

    fn keys(&self, watch: u64) -> Option<&BTreeMap<Key, Stored>> {
        self.driver.machine().machine().watched(watch)?.keys()
    }

    /// The copies of sites and nodes, if they hold everything that is relied on.
    fn registry(&self) -> Option<Registry<'_>> {
        let nodes = self.driver.machine().machine().watched(NODES)?;
        let nodes = nodes.keys().filter(|_| nodes.revision() >= self.relies_on)?;
        Some(Registry { sites: self.keys(SITES)?, nodes })
    }

    /// When a turn is wanted.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        // Every other write is caused by a message.
        let pause = (self.not_before > Instant::START).then_some(self.not_before);
        let wait = self.waits.values().map(|wait| wait.due).min().filter(|_| self.writes.is_empty());
        [self.driver.next_deadline(), pause, wait].into_iter().flatten().min()
    }

    /// The answers to applicants that have joined, or were refused, since this was asked last.
    pub(crate) fn take_joined(&mut self) -> Vec<Joined> {
        std::mem::take(&mut self.joined)
    }

    /// The sites and nodes that are registered, if that has changed since this was asked last.
    pub(crate) fn take_topology(&mut self) -> Option<Topology> {
        let nodes = self.driver.machine().machine().watched(NODES)?;
        let is_current = self.started.is_some_and(|started| nodes.revision() >= started);
        let topology = self.registry().filter(|_| self.nodes_have_changed && is_current)?.topology()?;
        self.nodes_have_changed = false;
        Some(topology)
    }

    /// The group of the configuration service itself, if that has changed since this was asked last.
    pub(crate) fn take_group(&mut self) -> Option<Shard> {
        if !std::mem::take(&mut self.group_has_changed) {
            return None;
        }
        let stored = self.keys(GROUPS)?.get(&group_key(SYSTEM_SHARD))?;
        match quorate_wire::decode(&stored.value) {
            Ok(group) => Some(group),
            Err(error) => {
                tracing::error!(%error, "who holds the configuration service cannot be read");
                None
            }
        }
    }

    /// The protocol version in force, if that has changed since this was asked last.
    pub(crate) fn take_version(&mut self) -> Option<ProtocolVersion> {
        if !std::mem::take(&mut self.version_has_changed) {
            return None;
        }
        let stored = self.keys(VERSION)?.get(PROTOCOL_VERSION_KEY);
        match decode_protocol_version(stored.map(|stored| &*stored.value)) {
            Ok(version) => Some(version),
            Err(error) => {
                tracing::error!(%error, "the protocol version in force cannot be read");
                None
            }
        }
    }

    /// The replicas of the configuration service are these from now on.
    pub(crate) fn route(&mut self, time: Time, members: Members, outgoing: &mut Outgoing<'_, '_>) {
        self.step(time, Input::Command(SubscriberCommand::Route(members)), outgoing);
    }

    /// The entries of users, roles and tokens with what they come to, if all were read and one has changed since this was asked last. An error if one of them cannot
    /// be read.
    pub(crate) fn take_access(&mut self) -> Option<Result<(AccessEntries, Access), InvalidEntry>> {
        let started = self.started.filter(|_| self.access_has_changed)?;
        let mut entries = AccessEntries::new();
        for watch in [USERS, ROLES, TOKENS] {
            let watched = self.driver.machine().machine().watched(watch)?;
            // A copy of an earlier life of the configuration service would take back what was changed since.
            let keys = watched.keys().filter(|_| watched.revision() >= started)?;
            entries.extend(keys.iter().map(|(key, stored)| (key.clone(), stored.value.clone())));
        }
        self.access_has_changed = false;
        Some(Access::read(&entries).map(|access| (entries, access)))
    }

    /// The keyspaces as they are known, if they have changed since this was asked last.
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
                SubscriberEvent::Loaded { watch, .. } | SubscriberEvent::Changed { watch, .. } => {
                    let has_changed = match watch {
                        KEYSPACES => &mut self.has_changed,
                        GROUPS => &mut self.group_has_changed,
                        VERSION => &mut self.version_has_changed,
                        USERS | ROLES | TOKENS => &mut self.access_has_changed,
                        _ => &mut self.nodes_have_changed,
                    };
                    *has_changed = true;
                    if watch == KEYSPACES {
                        self.renew_waits(now);
                    }
                }
                SubscriberEvent::Written { transaction, result } => {
                    self.not_before = Instant::START;
                    if let Some(purpose) = self.writes.remove(&transaction.sequence) {
                        self.on_written(purpose, result, now);
                    }
                }
                SubscriberEvent::Held { .. } | SubscriberEvent::Lost { .. } => {}
            }
        }
    }

    /// Begins to wait for a step of each drop that is new, or has become another. Only the time from here on counts: when a record was
    /// written is not known by this clock.
    fn renew_waits(&mut self, now: Instant) {
        let mut known = std::mem::take(&mut self.waits);
        let Some(keys) =
            self.driver.machine().machine().watched(KEYSPACES).and_then(|watched| watched.keys())
        else {
            return;
        };
        for (key, stored) in keys.iter().filter(|(key, _)| is_dropped_key(key)) {
            let wait = match known.remove(key) {
                Some(wait) if wait.changed == stored.changed => Some(wait),
                _ => wait_for(key, stored, now),
            };
            self.waits.extend(wait.map(|wait| (key.clone(), wait)));
        }
    }

    fn on_written(&mut self, purpose: Purpose, result: WriteOutcome, now: Instant) {
        match (purpose, result) {
            (Purpose::Confirm(asked), Ok(WriteResult::Written { .. })) => {
                let answered = asked.into_iter().map(|(question, changes)| Answered {
                    replica: question.replica,
                    asked: question.consultation.asked,
                    changes,
                });
                self.answers.extend(answered);
            }
            // The copy will be current in a moment.
            (Purpose::Confirm(asked), _) => {
                self.not_before = now + PAUSE;
                for (question, _) in asked {
                    self.questions.entry(question.replica).or_insert(question);
                }
            }
            // The replica asks again after any outcome.
            (Purpose::Settle, _) => self.not_before = now + PAUSE,
            (Purpose::Start, Ok(WriteResult::Written { revision })) => self.started = Some(revision),
            (Purpose::Register, Ok(WriteResult::Written { revision })) => self.relies_on = revision,
            (Purpose::Join(applicant, node), Ok(WriteResult::Written { revision })) => {
                self.relies_on = revision;
                self.joined.push(Joined { link: applicant.link, result: Ok((node, false)) });
            }
            // Somebody else was first: the copy will say so.
            (Purpose::Register, Ok(WriteResult::NotHeld { .. })) => self.not_before = now + PAUSE,
            (Purpose::Join(applicant, _), Ok(WriteResult::NotHeld { .. }))
                if applicant.attempts < JOIN_ATTEMPTS_MAX =>
            {
                self.not_before = now + PAUSE;
                self.applicants.push_back(Applicant { attempts: applicant.attempts + 1, ..applicant });
            }
            (Purpose::Join(applicant, _), _) => {
                let result = Err("the configuration service does not answer: try again".to_owned());
                self.joined.push(Joined { link: applicant.link, result });
            }
            // The copy will tell the outcome, unless there is none.
            (Purpose::Wait(key), _) => {
                self.waits.entry(key).and_modify(|wait| wait.due = now + PATIENCE);
            }
            (Purpose::Start | Purpose::Register, _) => self.not_before = now + PAUSE,
        }
    }
}

/// The step of the delay of a drop that is to be waited for next, if any is.
fn wait_for(key: &Key, stored: &Stored, now: Instant) -> Option<Wait> {
    // Another version has written what cannot be read, and will wait for it.
    let dropped: Dropped = quorate_wire::decode(&stored.value).ok()?;
    let step = dropped.step()?;
    let later = dropped.after_waiting(step);
    let mut puts = vec![Put { key: key.clone(), value: Some(quorate_wire::encode(&later)), lease: None }];
    if later.remaining().is_none() {
        let gone = dropped.procedures.into_iter();
        puts.extend(gone.map(|key| Put { key, value: None, lease: None }));
    }
    let unchanged = Compare::Key { key: key.clone(), changed: Some(stored.changed) };
    let write = ConditionalWrite { compares: vec![unchanged], puts };
    Some(Wait { changed: stored.changed, due: now + step, write })
}

/// Reads what the keys of keyspaces and drops hold.
fn read(keys: &BTreeMap<Key, Stored>, started: Revision) -> Reading {
    let mut reading = Reading {
        keyspaces: Vec::with_capacity(keys.len()),
        drops: BTreeMap::new(),
        started,
        complete: true,
    };
    for (key, stored) in keys.iter().filter(|(key, _)| is_dropped_key(key)) {
        match quorate_wire::decode::<Dropped>(&stored.value) {
            Ok(dropped) => _ = reading.drops.insert(dropped.id, dropped),
            Err(error) => {
                tracing::error!(?key, %error, "the record of a drop in the catalogue cannot be read");
                reading.complete = false;
            }
        }
    }
    for (key, stored) in keys.iter().filter(|(key, _)| is_keyspace_key(key)) {
        match quorate_wire::decode::<Keyspace>(&stored.value) {
            Ok(keyspace) => {
                let was_dropped = reading.drops.contains_key(&keyspace.id);
                let created = if was_dropped { Revision::START } else { stored.created };
                reading.keyspaces.push(Found { keyspace, created, is_listed: true });
            }
            Err(error) => {
                tracing::error!(?key, %error, "a keyspace in the catalogue cannot be read");
                reading.complete = false;
            }
        }
    }
    let waiting = reading.drops.values().filter(|dropped| dropped.remaining().is_some());
    let definitions = waiting.filter_map(|dropped| dropped.definition.clone());
    let found = definitions.map(|keyspace| Found { keyspace, created: Revision::START, is_listed: false });
    let found: Vec<_> = found.filter(|found| reading.listed(found.keyspace.id).is_none()).collect();
    reading.keyspaces.extend(found);
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

    fn persist(&mut self, _: &Speaker, record: std::convert::Infallible) -> Kept {
        match record {}
    }

    fn ignored(&mut self, reason: &'static str) {
        log_ignored(reason);
    }
}
