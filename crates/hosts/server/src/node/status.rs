//! The status that operators, `bench` and dashboards are told.

use quorate_certificates::Date;
use quorate_core::Instant;
use quorate_core::attic::{Memory, is_exceeded};
use quorate_core::changes::Retained;
use quorate_core::hosted::{self, HandedOver, Health, SiteLag};
use quorate_core::topology::SerialOrder;
use quorate_runtime::Turn;
use quorate_storage::AtticStatus;
use quorate_wire::ReplicaReport;
use serde::Serialize;

use super::catalogue::Catalogue;
use super::disk::Disk;
use super::hosted::{Facts, State, Told};
use super::round_trips::PeerStatus;
use super::speculating::SpeculatingStatus;
use super::sweeping::SweepingStatus;
use super::traffic::TrafficStatus;
use super::versions::VersionsStatus;
use super::{FORGOTTEN, Node, ReplicaId};
use crate::data::{Attics, ReplicaAttic};
use crate::process;

/// How a node is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// The name of the cluster.
    pub cluster: String,
    /// The id of the cluster.
    pub cluster_id: u64,
    /// The node.
    pub node: u16,
    /// Its site.
    pub site: String,
    /// Where it keeps what must survive it.
    pub data_directory: String,
    /// The version of the program.
    pub version: &'static str,
    /// The protocol versions that it knows, and the one in force.
    pub protocol_versions: VersionsStatus,
    /// True if every replica serves.
    pub healthy: bool,
    /// Why not, one entry for each reason.
    pub problems: Vec<String>,
    /// How far the clock of this node is ahead of those of most others, in seconds, negative if it is behind; none if that is no more than is
    /// allowed, as far as this node knows.
    pub clock_error_seconds: Option<f64>,
    /// How long the node has been running, in seconds.
    pub uptime_seconds: f64,
    /// The processor time that the whole process has used, in seconds.
    pub cpu_seconds: f64,
    /// How often the catalogue was written, as far as this node knows; none before it has heard of it.
    pub catalogue_revision: Option<u64>,
    /// Messages from clients that were refused because of overload.
    pub refused_messages: u64,
    /// Those of them that were refused because their client had too much under way at one replica, while others were served.
    pub refused_client_messages: u64,
    /// Announcements of clients that were passed on, once for each client that listens.
    pub announcements_passed_on: u64,
    /// Announcements that were not passed on because too much waited to be sent, likewise.
    pub announcements_dropped: u64,
    /// Transactions of which clients say that their shards have decided differently.
    pub disagreements: u64,
    /// The connected nodes of which nothing is taken in, because they have forgotten something.
    pub fenced_nodes: Vec<u16>,
    /// Messages of such nodes that were passed over.
    pub fenced_messages: u64,
    /// Messages that nodes have sent in the name of replicas and clients that are not their own; they were passed over.
    pub misattributed_messages: u64,
    /// Messages and requests of clients that were refused because their user has not the right.
    pub denied_messages: u64,
    /// Messages that were passed over because such a peer does not say such things: a client what replicas say, a replica what is said in other groups.
    pub unsaid_messages: u64,
    /// How the connections of the node are secured.
    pub security: SecurityStatus,
    /// The other nodes of the cluster, ascending.
    pub peers: Vec<PeerStatus>,
    /// The traffic of the connections.
    pub transport: TransportStatus,
    /// The event loops, each with what it does of that.
    pub event_loops: Vec<EventLoopStatus>,
    /// The writes to disk, over all replicas.
    pub log: LogStatus,
    /// Where that is kept.
    pub disk: DiskStatus,
    /// The keyspaces whose values expire and that this node sweeps.
    pub sweeping: Vec<SweepingStatus>,
    /// The replicas, ascending.
    pub replicas: Vec<ReplicaStatus>,
}

/// An event loop of a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EventLoopStatus {
    /// Which one: 0 speaks for the node.
    pub event_loop: u16,
    /// The replicas that live there.
    pub replicas: usize,
    /// The processor time that its thread had used when it last ended a turn, in seconds. Threads that sync logs are not counted.
    pub cpu_seconds: f64,
    /// Its turns since the process started.
    pub turns: u64,
    /// Connections that lead there.
    pub connections: usize,
    /// Protocol messages that it has received from other processes.
    pub messages_received: u64,
    /// Protocol messages that other event loops have handed to it, because they had arrived there or were sent there.
    pub messages_handed: u64,
    /// Those that were lost because too many waited.
    pub messages_lost: u64,
    /// Syncs of its logs and of its journal.
    pub syncs: u64,
}

/// How the connections of a node are secured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecurityStatus {
    /// `tls` or `plain text`.
    pub transport: &'static str,
    /// The addresses, other than loopback, at which plain text is served because the file of the node asks for it.
    pub insecure_addresses: Vec<String>,
    /// The identity that the certificate of the node states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The end of that certificate, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<i64>,
    /// True once there are users: clients may do what these were granted.
    pub access_control: bool,
}

/// The traffic of the connections of a node since it started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransportStatus {
    /// Connections that are up.
    pub connections: usize,
    /// How much waits to be sent, in bytes.
    pub queued_bytes: usize,
    /// Protocol messages sent.
    pub messages_sent: u64,
    /// Protocol messages received.
    pub messages_received: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Calls that wrote to a socket.
    pub socket_writes: u64,
    /// Calls that read from a socket.
    pub socket_reads: u64,
    /// Messages sent for each write to a socket.
    pub mean_batch: f64,
    /// Connections that were refused.
    pub refused_connections: u64,
    /// Those of them that were refused, or closed later, because of their certificate, or the lack of one.
    pub refused_certificates: u64,
    /// Connections that were closed because the peer broke the rules.
    pub violations: u64,
    /// Connections that were closed because the peer did not read.
    pub slow_readers: u64,
    /// Packets that were passed over because this version does not know them.
    pub unsupported: u64,
    /// Kinds of messages, over all connections, that peers do not know.
    pub unsupported_by_peers: u64,
}

/// The writes of a node to its logs since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LogStatus {
    /// Syncs, of logs and of the journal of the node.
    pub syncs: u64,
    /// Writes.
    pub writes: u64,
    /// Records.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// How much waits for a sync, in bytes.
    pub lag_bytes: u64,
}

/// How the disk of a node is, and what the operating system lets it have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DiskStatus {
    /// How much room there is, in bytes; none if the operating system does not say.
    pub free_bytes: Option<u64>,
    /// True if that is below the mark, and writes are refused where a group needs this node.
    pub is_low: bool,
    /// How much of logs was read again since the node started, in bytes.
    pub scrubbed_bytes: u64,
    /// How often all logs were.
    pub scrub_passes: u64,
    /// When that was last, in seconds since 1970.
    pub last_scrub: Option<u64>,
    /// How many files and connections the process may have open.
    pub descriptors_max: u64,
    /// How many clients may connect.
    pub clients_max: usize,
}

/// How a replica is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplicaStatus {
    /// The name of its keyspace.
    pub keyspace: String,
    /// Its shard.
    pub shard: u32,
    /// Its name in the group.
    pub index: u8,
    /// The members of the group, ascending.
    pub members: Vec<u8>,
    /// Their nodes, in the same order.
    pub nodes: Vec<u16>,
    /// The latest membership of its keyspace that it knows of.
    pub epoch: u32,
    /// Since when the members are as they are, by that membership.
    pub since: u32,
    /// Since when the members were as they were when it last began to serve in a view since it has started, durably.
    pub arrived: Option<u32>,
    /// The same of the latest view that it has records of, whether it serves or not.
    pub taken_part: Option<u32>,
    /// The failures that acknowledged writes survive.
    pub durability: &'static str,
    /// `tapir`, `configuration`, or the comparison system that runs the keyspace.
    pub protocol: &'static str,
    /// The serial order of its keyspace, where that is strict: `real-time` or `timestamps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<&'static str>,
    /// The application that its shard can call, if its keyspace names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// True if it leads its group, in a protocol with leaders.
    pub leads: bool,
    /// `normal`, `view-changing`, `recovering`, `retired`, `lost` or `refused`.
    pub state: &'static str,
    /// The standing of its keyspace in the catalogue: `listed`, `dropped`, `unknown`, or `unheard` before it was read.
    pub catalogue: &'static str,
    /// Why it does not serve, if an operator has to act.
    pub problem: Option<String>,
    /// When operators have accepted that its records were lost, in seconds since 1970.
    pub accepted_losses: Vec<u64>,
    /// The shards that operators have declared lost for good, as far as is durable here.
    pub lost_shards: Vec<u32>,
    /// Its view.
    pub view: u64,
    /// The transactions that it holds prepared.
    pub prepared: usize,
    /// Transactions committed since this process started. A comparison system counts those again that its log still holds.
    pub commits: u64,
    /// Transactions aborted since this process started, likewise.
    pub aborts: u64,
    /// Transactions in its record.
    pub record_len: usize,
    /// Recoveries of other coordinators' transactions that it leads.
    pub recoveries: usize,
    /// Records that it has emitted since this process started.
    pub records: u64,
    /// Messages and events that wait for the disk.
    pub held: usize,
    /// How much waits for the disk, in bytes.
    pub log_lag_bytes: u64,
    /// The memory that its keys and values take; absent of a protocol that does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatus>,
    /// How far other local sites are behind, if it leads one.
    pub lags: Vec<LagStatus>,
    /// Containers that it has moved to the sites that write them, and shares of counters that it has given to others, since this process started; absent where
    /// there are no local sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_over: Option<HandedOverStatus>,
    /// The ends of the transactions of its node, and how much they speculate; absent where it does not run them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculating: Option<SpeculatingStatus>,
    /// The transactions that it has seen; absent if it was asked for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficStatus>,
    /// The changes that it retains and has told; absent where none are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangesStatus>,
}

/// The changes that a replica retains for consumers, and has told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChangesStatus {
    /// About how many bytes those take that are retained.
    pub retained_bytes: u64,
    /// Since when they are retained, in seconds since 1970; absent if none was ever let go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retained_since: Option<f64>,
    /// Pages that brought a consumer on, since this process started.
    pub pages: u64,
    /// How often a consumer has asked for what was let go already, since this process started.
    pub too_old: u64,
}

impl ChangesStatus {
    fn new(retained: Retained, told: Told) -> Self {
        let since = retained.horizon.micros;
        ChangesStatus {
            retained_bytes: retained.bytes,
            retained_since: (since > 0).then_some(since as f64 / 1e6),
            pages: told.pages,
            too_old: told.too_old,
        }
    }
}

/// The memory that the keys and values of a replica take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryStatus {
    /// Keys with the timestamps of their versions, and all that finds them, in bytes.
    pub index_bytes: usize,
    /// Values that are in memory, in bytes.
    pub values_bytes: usize,
    /// Values that are in a file; absent where everything is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<ValuesInFileStatus>,
}

/// The values of a replica that are in a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValuesInFileStatus {
    /// The memory that the replica may take, in bytes.
    pub memory_bytes: usize,
    /// How many values are there.
    pub values: u64,
    /// How much room they take, in bytes.
    pub bytes: u64,
    /// How long the file is once everything is written, in bytes.
    pub file_bytes: u64,
    /// Values that were written to it since the replica was built.
    pub writes: u64,
    /// Values that were read from it since then.
    pub reads: u64,
    /// Why values stay in memory that should be there, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl MemoryStatus {
    /// True if more is taken than may be, and an eighth of that besides.
    fn exceeds(&self, file: &ValuesInFileStatus) -> bool {
        is_exceeded(self.index_bytes + self.values_bytes, file.memory_bytes)
    }

    pub(super) fn new(memory: Memory, attic: Option<&ReplicaAttic>) -> Self {
        let file = |attic: &ReplicaAttic| {
            let AtticStatus { values, bytes, file_bytes, puts: writes, reads, stays: problem, .. } =
                attic.status();
            let memory_bytes = attic.memory_bytes();
            ValuesInFileStatus { memory_bytes, values, bytes, file_bytes, writes, reads, problem }
        };
        MemoryStatus { index_bytes: memory.index, values_bytes: memory.values, file: attic.map(file) }
    }
}

/// The problem of a replica with the memory that it may take, if it has one.
fn memory_problem(replica: &ReplicaStatus) -> Option<String> {
    let memory = replica.memory.as_ref()?;
    let file = memory.file.as_ref()?;
    let ReplicaStatus { keyspace, shard, .. } = replica;
    let of = format!("the replica of shard {shard} of {keyspace}");
    if memory.exceeds(file) {
        let taken = (memory.index_bytes + memory.values_bytes) >> 20;
        let why = match &file.problem {
            Some(problem) => format!("because values cannot be written to a file: {problem}"),
            None => "because keys stay in memory".to_owned(),
        };
        return Some(format!(
            "{of} takes {taken} MiB of memory and may take {} MiB, {why}; writes are refused until something is deleted, or memory_bytes is raised \
             and the node is restarted",
            file.memory_bytes >> 20
        ));
    }
    let problem = file.problem.as_ref()?;
    Some(format!("{of} keeps values in memory that should be in a file: {problem}"))
}

/// The things that a replica of a local site has handed to other sites.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HandedOverStatus {
    /// Containers.
    pub containers: u64,
    /// Shares of counters.
    pub shares: u64,
}

/// How far another local site of a keyspace is behind what has committed at one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LagStatus {
    /// The shard that stands at the other site.
    pub shard: u32,
    /// Transactions that it has not received durably.
    pub unreceived: u64,
    /// For how long at least it has lacked the first of them, in seconds.
    pub unreceived_seconds: f64,
    /// Transactions that have not committed there, so that readers there do not see them.
    pub uncommitted: u64,
    /// For how long at least the first of them has not, in seconds.
    pub uncommitted_seconds: f64,
    /// True if it keeps transactions from being visible at all sites.
    pub holds_up: bool,
}

impl From<&SiteLag> for LagStatus {
    fn from(lag: &SiteLag) -> Self {
        LagStatus {
            shard: lag.site.0,
            unreceived: lag.unreceived,
            unreceived_seconds: lag.unreceived_for.as_secs_f64(),
            uncommitted: lag.uncommitted,
            uncommitted_seconds: lag.uncommitted_for.as_secs_f64(),
            holds_up: lag.holds_up,
        }
    }
}

impl Status {
    /// The status as one JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers, texts and lists can be written as JSON")
    }
}

/// Why a replica does not serve, if it does not.
fn not_serving(replica: &ReplicaStatus) -> Option<String> {
    let ReplicaStatus { keyspace, shard, index, state, problem, .. } = replica;
    let why = problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
    (*state != "normal").then(|| format!("replica {index} of shard {shard} ({keyspace}) is {state}{why}"))
}

/// The contribution of an event loop to the status of its node.
struct Part {
    replicas: Vec<ReplicaStatus>,
    unknown_keyspaces: Vec<String>,
    clock_error_micros: Option<i64>,
    refused: u64,
    refused_for_client: u64,
    fenced_messages: u64,
    misattributed: u64,
    denied: u64,
    unsaid: u64,
    transport: TransportStatus,
    event_loop: EventLoopStatus,
    log: LogStatus,
}

impl Part {
    fn add(&mut self, other: Part) {
        self.replicas.extend(other.replicas);
        self.unknown_keyspaces.extend(other.unknown_keyspaces);
        let errors = [self.clock_error_micros, other.clock_error_micros].into_iter().flatten();
        self.clock_error_micros = errors.max_by_key(|error| error.unsigned_abs());
        self.refused += other.refused;
        self.refused_for_client += other.refused_for_client;
        self.fenced_messages += other.fenced_messages;
        self.misattributed += other.misattributed;
        self.denied += other.denied;
        self.unsaid += other.unsaid;
        self.transport.add(&other.transport);
        self.log.add(&other.log);
    }
}

impl TransportStatus {
    fn add(&mut self, other: &TransportStatus) {
        self.connections += other.connections;
        self.queued_bytes += other.queued_bytes;
        self.messages_sent += other.messages_sent;
        self.messages_received += other.messages_received;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.socket_writes += other.socket_writes;
        self.socket_reads += other.socket_reads;
        self.mean_batch = self.messages_sent as f64 / self.socket_writes.max(1) as f64;
        self.refused_connections += other.refused_connections;
        self.refused_certificates += other.refused_certificates;
        self.violations += other.violations;
        self.slow_readers += other.slow_readers;
        self.unsupported += other.unsupported;
        self.unsupported_by_peers += other.unsupported_by_peers;
    }
}

impl LogStatus {
    fn add(&mut self, other: &LogStatus) {
        self.syncs += other.syncs;
        self.writes += other.writes;
        self.records += other.records;
        self.bytes += other.bytes;
        self.lag_bytes += other.lag_bytes;
    }
}

impl Node {
    /// The contribution of this event loop to the status.
    fn part(&self, turn: &Turn<'_>) -> Part {
        let data_directory = self.data.path().display().to_string();
        let ids = self.replica_ids().into_iter();
        let replicas: Vec<_> =
            ids.map(|id| self.replica_status(id, &data_directory, turn.time.now)).collect();
        let (transport, (messages_handed, messages_lost)) = (transport(turn), self.here.loops.messages());
        let log = self.logs.status(replicas.iter().map(|replica| replica.log_lag_bytes).sum());
        Part {
            unknown_keyspaces: self.unknown_keyspaces(),
            clock_error_micros: self.clock_error_micros(),
            refused: self.refused,
            refused_for_client: self.refused_for_client,
            fenced_messages: self.peers.passed_over(),
            misattributed: self.misattributed.messages(),
            denied: self.rights.denied(),
            unsaid: self.rights.unsaid(),
            event_loop: EventLoopStatus {
                event_loop: self.event_loop(),
                replicas: replicas.len(),
                cpu_seconds: self.cpu_time.as_secs_f64(),
                turns: self.turns,
                connections: transport.connections,
                messages_received: transport.messages_received,
                messages_handed,
                messages_lost,
                syncs: log.syncs,
            },
            replicas,
            transport,
            log,
        }
    }

    /// How the node is. Measures anew how far away the others are.
    pub(crate) fn status(&mut self, turn: &mut Turn<'_>) -> Status {
        self.measure_round_trips(turn);
        let data_directory = self.data.path().display().to_string();
        let mut whole = self.part(turn);
        let mut event_loops = vec![whole.event_loop];
        for other in &self.others {
            let part = other.with(|node, turn| node.part(turn));
            event_loops.push(part.event_loop);
            whole.add(part);
        }
        let mut replicas = whole.replicas;
        replicas.sort_by_key(|replica| (replica.shard, replica.index));
        let mut problems = self.own_hindrances();
        problems.extend(self.foreign.iter().cloned());
        problems.extend(self.agreement.problems().cloned());
        problems.extend(self.versions.problems(&self.topology.borrow()));
        problems.extend(whole.unknown_keyspaces);
        problems.extend(self.space_problem());
        problems.extend(self.certificate_problem());
        problems.extend(self.configuration_problem.clone());
        let clock_error_seconds = whole.clock_error_micros.map(|error| error as f64 / 1e6);
        problems.extend(clock_error_seconds.map(clock_problem));
        problems.extend(replicas.iter().filter_map(not_serving));
        problems.extend(replicas.iter().filter_map(memory_problem));
        problems.extend(self.data.attics().and_then(Attics::problem));
        Status {
            cluster: self.config.cluster_name.clone(),
            cluster_id: self.config.cluster,
            node: self.config.node.0,
            site: self.config.own_site().to_owned(),
            data_directory,
            version: env!("CARGO_PKG_VERSION"),
            protocol_versions: self.versions.status(),
            healthy: problems.is_empty(),
            problems,
            clock_error_seconds,
            uptime_seconds: turn.time.now.as_nanos() as f64 / 1e9,
            cpu_seconds: process::cpu_time().as_secs_f64(),
            catalogue_revision: self
                .catalogue
                .as_ref()
                .and_then(Catalogue::revision)
                .map(|revision| revision.0),
            refused_messages: whole.refused,
            refused_client_messages: whole.refused_for_client,
            announcements_passed_on: self.announcements.passed_on(),
            announcements_dropped: self.announcements.dropped(),
            disagreements: self.disagreements.heard(),
            fenced_nodes: self.peers.fenced(),
            fenced_messages: whole.fenced_messages,
            misattributed_messages: whole.misattributed,
            denied_messages: whole.denied,
            unsaid_messages: whole.unsaid,
            security: self.security(),
            peers: self.peers(),
            transport: whole.transport,
            event_loops,
            log: whole.log,
            disk: self.disk_status(),
            sweeping: self.sweeping.clone(),
            replicas,
        }
    }

    fn security(&self) -> SecurityStatus {
        let own = self.trust.as_ref().map(|trust| trust.own());
        SecurityStatus {
            transport: if own.is_some() { "tls" } else { "plain text" },
            insecure_addresses: self.config.insecure_addresses(),
            access_control: self.rights.entrance().in_force().is_some(),
            valid_until: own.as_ref().map(|certificate| certificate.not_after.0),
            identity: own.and_then(|certificate| certificate.identity).map(|identity| identity.to_uri()),
        }
    }

    /// The problem with the certificate of this node that an operator has to solve, if there is one.
    fn certificate_problem(&self) -> Option<String> {
        /// A certificate whose end is nearer than this is to be renewed, in seconds.
        const RENEWAL_SECONDS: i64 = 14 * 24 * 3600;
        let trust = self.trust.as_ref()?;
        if let Some(problem) = trust.problem() {
            return Some(format!("renewed certificates cannot be used, and those before are: {problem}"));
        }
        let own = trust.own();
        (own.not_after.0 - Date::now().0 < RENEWAL_SECONDS).then(|| {
            format!("{} ends at {}: replace its files, the node takes them up", own.describe(), own.not_after)
        })
    }

    /// Why clients are better not sent to this node, one entry for each reason.
    pub(crate) fn hindrances(&self, now: Instant) -> Vec<String> {
        let data_directory = self.data.path().display().to_string();
        let mut hindrances = self.own_hindrances();
        let replicas = self.replica_ids().into_iter().map(|id| self.replica_status(id, &data_directory, now));
        hindrances.extend(replicas.filter_map(|replica| not_serving(&replica)));
        for other in &self.others {
            let data_directory = &data_directory;
            hindrances.extend(other.with(|node, turn| {
                let ids = node.replica_ids().into_iter();
                let replicas = ids.map(|id| node.replica_status(id, data_directory, turn.time.now));
                replicas.filter_map(|replica| not_serving(&replica)).collect::<Vec<_>>()
            }));
        }
        hindrances
    }

    /// Waits until each event loop is between two turns.
    pub(crate) fn wait_for_others(&self) {
        self.others.iter().for_each(|other| other.with(|_, _| ()));
    }

    /// Why none of its replicas is to be asked.
    fn own_hindrances(&self) -> Vec<String> {
        let mut hindrances = Vec::new();
        if !self.is_started {
            hindrances.push("the node is starting".to_owned());
        }
        if self.draining.is_some() {
            hindrances.push("the node is stopping".to_owned());
        }
        if self.is_forgotten {
            hindrances.push(FORGOTTEN.to_owned());
        }
        hindrances.extend(self.peers.fence().map(|reason| format!("this node is fenced: {reason}")));
        hindrances
    }

    fn replica_status(&self, id: ReplicaId, data_directory: &str, now: Instant) -> ReplicaStatus {
        let hosted = &self.replicas[&id];
        let base = ReplicaStatus {
            keyspace: hosted.placement.keyspace_name.clone(),
            shard: id.shard.0,
            index: id.index.0,
            members: hosted.placement.group.replica_ids().map(|replica| replica.index.0).collect(),
            nodes: hosted.placement.group.replicas.iter().map(|node| node.0).collect(),
            epoch: hosted.placement.memberships.epoch.0,
            since: hosted.placement.memberships.succession(id.shard).present.since.0,
            arrived: None,
            taken_part: None,
            durability: hosted.placement.durability.name(),
            protocol: hosted.placement.protocol().name(),
            order: hosted.placement.order().map(SerialOrder::name),
            application: hosted.placement.application.clone(),
            leads: false,
            state: "refused",
            catalogue: hosted.standing.name(),
            problem: hosted.problem(data_directory),
            accepted_losses: Vec::new(),
            lost_shards: Vec::new(),
            view: 0,
            prepared: 0,
            commits: 0,
            aborts: 0,
            record_len: 0,
            recoveries: 0,
            records: 0,
            held: 0,
            log_lag_bytes: 0,
            memory: None,
            lags: Vec::new(),
            handed_over: None,
            speculating: None,
            traffic: None,
            changes: None,
        };
        let State::Running(running) = &hosted.state else { return base };
        let Health { status, view, arrived: taken_part, leads, prepared, record_len, recoveries, .. } =
            running.health();
        let Facts {
            arrived,
            decided: (commits, aborts),
            records,
            held,
            log_lag_bytes,
            accepted_losses,
            traffic,
            told,
            ..
        } = running.facts();
        let state = match status {
            // The machine is not started, and has read nothing of what the others know.
            _ if !self.is_started => hosted::Status::Recovering.name(),
            hosted::Status::Recovering if hosted.lost().is_some() => "lost",
            status => status.name(),
        };
        ReplicaStatus {
            state,
            epoch: running.epoch().0,
            arrived: arrived.map(|since| since.0),
            taken_part: taken_part.map(|since| since.0),
            leads,
            accepted_losses: accepted_losses.to_vec(),
            lost_shards: running.lost_shards().iter().map(|shard| shard.0).collect(),
            view: view.0,
            prepared,
            commits,
            aborts,
            record_len,
            recoveries,
            records,
            held,
            log_lag_bytes,
            memory: running.memory(),
            lags: running.lags(now).iter().map(LagStatus::from).collect(),
            handed_over: running
                .handed_over()
                .map(|HandedOver { containers, shares }| HandedOverStatus { containers, shares }),
            speculating: running.speculating().map(SpeculatingStatus::from),
            traffic: traffic.status(now),
            changes: hosted.placement.tells_changes().then(|| ChangesStatus::new(running.retained(), told)),
            ..base
        }
    }

    fn disk_status(&self) -> DiskStatus {
        let disk = self.disk.as_ref();
        let (scrubbed_bytes, scrub_passes, last_scrub) = disk.map_or((0, 0, None), Disk::scrubbed);
        DiskStatus {
            free_bytes: disk.and_then(Disk::free_bytes),
            is_low: disk.is_some_and(Disk::is_low),
            scrubbed_bytes,
            scrub_passes,
            last_scrub,
            descriptors_max: process::descriptors_max(),
            clients_max: self.clients_max,
        }
    }
}

impl Node {
    /// By how much the clock of this node is off, by the replica that finds it furthest off.
    fn clock_error_micros(&self) -> Option<i64> {
        let running = self.replicas.values().filter_map(|hosted| match &hosted.state {
            State::Running(running) => running.health().clock_error_micros,
            State::Refused(_) => None,
        });
        running.max_by_key(|error| error.unsigned_abs())
    }

    /// How far each replica is, for the operator that changes groups.
    pub(super) fn reports(&self) -> Vec<ReplicaReport> {
        let report = |id: ReplicaId| {
            let hosted = &self.replicas[&id];
            let epoch = hosted.placement.memberships.epoch;
            match &hosted.state {
                State::Running(running) => ReplicaReport {
                    replica: id,
                    epoch: running.epoch(),
                    arrived: running.facts().arrived,
                    has_records: running.health().status != hosted::Status::Recovering,
                },
                State::Refused(_) => ReplicaReport { replica: id, epoch, arrived: None, has_records: false },
            }
        };
        self.replica_ids().into_iter().map(report).collect()
    }
}

/// The message to an operator about a clock that is off by so many seconds.
fn clock_problem(error_seconds: f64) -> String {
    let side = if error_seconds > 0.0 { "ahead of" } else { "behind" };
    format!(
        "the clock of this node is {:.1} s {side} those of most others: set it right, and look after its time service; until then other nodes \
         lead its groups, and then all goes on without a restart",
        error_seconds.abs()
    )
}

fn transport(turn: &Turn<'_>) -> TransportStatus {
    let counters = turn.counters();
    TransportStatus {
        connections: turn.links_len(),
        queued_bytes: turn.queued_bytes(),
        messages_sent: counters.messages_sent,
        messages_received: counters.messages_received,
        bytes_sent: counters.bytes_sent,
        bytes_received: counters.bytes_received,
        socket_writes: counters.socket_writes,
        socket_reads: counters.socket_reads,
        mean_batch: counters.messages_sent as f64 / counters.socket_writes.max(1) as f64,
        refused_connections: counters.refused,
        refused_certificates: counters.refused_by_certificate,
        violations: counters.violations,
        slow_readers: counters.slow_readers,
        unsupported: counters.unsupported,
        unsupported_by_peers: counters.unsupported_by_peers,
    }
}
