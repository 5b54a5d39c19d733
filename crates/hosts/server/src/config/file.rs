//! The configuration file: TOML, with a line for every mistake.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::topology::{Durability, Isolation, Keyspace, Node, Shard, Topology};
use quorate_core::{GroupSize, NodeId, SiteId};
use quorate_runtime::wan::{Matrix, MatrixError};
use quorate_wire::catalogue::{SYSTEM_KEYSPACE, SYSTEM_KEYSPACE_ID, SYSTEM_SHARD};
use quorate_wire::{ProtocolVersion, Window};
use serde::Deserialize;
use toml::Spanned;

use super::{
    Config, ContainerOptions, Doors, EventLoops, KeyPair, Limits, LogOptions, Logging, TlsOptions,
    is_loopback,
};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration {path} cannot be read: {source}; `quorate server --print-config` writes an example", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Not TOML, or with a field that is unknown, missing or of the wrong type. The text names line and column.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A field with a value that makes no sense.
    #[error("line {line}: {mistake}")]
    Value {
        /// The line, from one.
        line: usize,
        /// The mistake, and what would be right.
        mistake: String,
    },
    /// The delay matrix cannot be used.
    #[error("line {line}: {source}")]
    Matrix {
        /// The line that asks for it.
        line: usize,
        /// The mistake in the matrix.
        source: MatrixError,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    node: Option<Spanned<u16>>,
    data_directory: PathBuf,
    listen: Option<Spanned<String>>,
    http: Option<Spanned<String>>,
    #[serde(default)]
    insecure: bool,
    threads: Option<Spanned<FileThreads>>,
    sites: Vec<Spanned<String>>,
    cluster: FileCluster,
    nodes: Vec<FileNode>,
    #[serde(default)]
    system: FileSystem,
    wan: Option<FileWan>,
    tls: Option<Spanned<FileTls>>,
    #[serde(default)]
    limits: FileLimits,
    #[serde(default)]
    containers: FileContainers,
    #[serde(default)]
    log: FileLog,
    #[serde(default)]
    logging: FileLogging,
    #[serde(default)]
    doors: FileDoors,
}

/// A number, or `"auto"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileThreads {
    Number(i64),
    Text(String),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLogging {
    format: Option<Spanned<String>>,
    level: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTls {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    revoked: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKeyPair {
    certificate: PathBuf,
    key: PathBuf,
}

impl From<FileKeyPair> for KeyPair {
    fn from(FileKeyPair { certificate, key }: FileKeyPair) -> Self {
        KeyPair { certificate, key }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCluster {
    name: String,
    id: Spanned<u64>,
    join: Option<Spanned<Vec<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNode {
    site: Spanned<String>,
    address: Spanned<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSystem {
    replicas: Option<Spanned<Vec<u16>>>,
    durability: Option<Spanned<String>>,
    protocol_version: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileWan {
    matrix: Spanned<String>,
}

/// The settings that a zero turns off.
const MAY_BE_ZERO: [&str; 4] = ["free_bytes_low", "memory_bytes", "scrub_bytes_per_second", "move_window_ms"];

/// Declares a section once: the fields of the file, and how each one overrides a default. Other sections may stand within it.
macro_rules! section {
    ($name:ident of $options:ident { $($field:ident: $type:ty => $($option:ident).+ = $convert:expr;)* }
        $(beside { $($beside:ident: $section:ty),* })?) => {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $name {
            $($field: Option<Spanned<$type>>,)*
            $($(#[serde(default)] $beside: $section,)*)?
        }

        impl $name {
            fn apply(self, text: &str) -> Result<$options, ConfigError> {
                let mut options = $options::default();
                $(if let Some(value) = self.$field {
                    if *value.get_ref() == 0 && !MAY_BE_ZERO.contains(&stringify!($field)) {
                        return Err(mistake(text, value.span(), concat!(stringify!($field), " must not be 0")));
                    }
                    options.$($option).+ = $convert(value.into_inner());
                })*
                Ok(options)
            }
        }
    };
}

section! { FileLimits of Limits {
    connections_max: usize => connections_max = usize::from;
    http_connections_max: usize => http_connections_max = usize::from;
    http_timeout_ms: u64 => http_timeout = Duration::from_millis;
    handshake_timeout_ms: u64 => handshake_timeout = Duration::from_millis;
    stall_timeout_ms: u64 => stall_timeout = Duration::from_millis;
    client_queue_bytes_max: usize => client_queue_bytes_max = usize::from;
    node_queue_bytes_max: usize => node_queue_bytes_max = usize::from;
    unfinished_bytes_max: usize => unfinished_bytes_max = usize::from;
    queued_bytes_high: usize => queued_bytes_high = usize::from;
    prepared_high: usize => prepared_high = usize::from;
    client_prepared_high: usize => client_prepared_high = usize::from;
    log_lag_bytes_high: u64 => log_lag_bytes_high = u64::from;
    free_bytes_low: u64 => free_bytes_low = u64::from;
    memory_bytes: u64 => memory_bytes = u64::from;
    scrub_bytes_per_second: u64 => scrub_bytes_per_second = u64::from;
    scrub_interval_ms: u64 => scrub_interval = Duration::from_millis;
    busy_retry_after_ms: u64 => busy_retry_after = Duration::from_millis;
    catalogue_interval_ms: u64 => catalogue_interval = Duration::from_millis;
    drain_timeout_ms: u64 => drain_timeout = Duration::from_millis;
} }

section! { FileDoors of Doors {
    threads: usize => threads = usize::from;
    connections_max: usize => connections_max = usize::from;
    connection_bytes_max: usize => connection_bytes_max = usize::from;
    bytes_max: usize => bytes_max = usize::from;
    deadline_ms: u64 => deadline = Duration::from_millis;
    stall_timeout_ms: u64 => stall_timeout = Duration::from_millis;
} beside {
    audit_log: Option<PathBuf>,
    redis: FileRedis,
    http: FileHttp,
    tls: Option<Spanned<FileKeyPair>>,
    user: Option<Spanned<FileKeyPair>>
} }

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRedis {
    listen: Option<Spanned<String>>,
    databases: Option<Vec<String>>,
    scripts_at_shards: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHttp {
    listen: Option<Spanned<String>>,
}

section! { FileContainers of ContainerOptions {
    move_window_ms: u64 => move_window = Duration::from_millis;
    move_writes_min: u64 => move_writes_min = u64::from;
} }

section! { FileLog of LogOptions {
    beat_ms: u64 => timing.beat = Duration::from_millis;
    silence_ms: u64 => timing.silence = Duration::from_millis;
    lease_ms: u64 => timing.lease = Duration::from_millis;
    clock_error_max_ms: u64 => timing.clock_error_max = Duration::from_millis;
    hand_back_ms: u64 => timing.hand_back = Duration::from_millis;
    message_bytes_max: usize => limits.message_bytes = usize::from;
    in_flight_max: usize => limits.in_flight = usize::from;
    in_flight_bytes_max: usize => limits.in_flight_bytes = usize::from;
    kept_entries: u64 => limits.kept = u64::from;
    snapshot_bytes: u64 => snapshot_bytes = u64::from;
} }

/// A subscriber that does not say for half a minute that it still listens is not told of changes any more.
const CATALOGUE_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Reads a configuration.
pub(super) fn parse(text: &str) -> Result<Config, ConfigError> {
    let file: File = toml::from_str(text)?;
    if *file.cluster.id.get_ref() == 0 {
        return Err(mistake(
            text,
            file.cluster.id.span(),
            "the cluster's id must not be 0: choose a random number",
        ));
    }
    let sites = file.sites.iter().map(|site| site.get_ref().clone()).collect::<Vec<_>>();
    for (at, site) in file.sites.iter().enumerate() {
        if sites[..at].contains(site.get_ref()) {
            return Err(mistake(
                text,
                site.span(),
                format!("the site \"{}\" is listed twice", site.get_ref()),
            ));
        }
    }
    let topology = Topology { nodes: nodes(text, &file.nodes, &sites)?, sites };
    let (node, join) = match (&file.node, file.cluster.join.clone()) {
        (Some(node), None) => (own_node(text, node, &topology)?, Vec::new()),
        (None, Some(join)) => (NodeId(0), others(text, join, &topology)?),
        (None, None) => {
            let advice = "missing field `node`: which of the [[nodes]] this is, counted from 0; a node that joins others names \
                          them in `join`";
            return Err(mistake(text, file.cluster.id.span(), advice));
        }
        (Some(_), Some(join)) => {
            let advice = "a node that joins others is told its number by them: leave out `node`, or `join`";
            return Err(mistake(text, join.span(), advice));
        }
    };
    let of_doors = [&file.doors.redis.listen, &file.doors.http.listen];
    for address in [&file.listen, &file.http].into_iter().chain(of_doors).flatten() {
        validate_address(text, address)?;
    }
    if let Some(interval) = &file.limits.catalogue_interval_ms
        && Duration::from_millis(*interval.get_ref()) > CATALOGUE_INTERVAL_MAX
    {
        let advice =
            format!("catalogue_interval_ms must not be above {}", CATALOGUE_INTERVAL_MAX.as_millis());
        return Err(mistake(text, interval.span(), advice));
    }
    validate_secrecy(text, &file, node)?;
    let tls = file.tls.map(Spanned::into_inner);
    Ok(Config {
        cluster_name: file.cluster.name,
        cluster: file.cluster.id.into_inner(),
        node,
        join,
        system: system(text, &file.system, &topology)?,
        first_version: first_version(text, &file.system)?,
        data_directory: file.data_directory,
        listen: file.listen.map(Spanned::into_inner),
        http: file.http.map(Spanned::into_inner),
        wan: file.wan.map(|wan| matrix(text, &wan.matrix, &topology)).transpose()?,
        threads: file.threads.map_or(Ok(EventLoops::default()), |given| threads(text, &given))?,
        limits: file.limits.apply(text)?,
        containers: file.containers.apply(text)?,
        log: file.log.apply(text)?,
        logging: logging(text, file.logging)?,
        doors: doors(text, file.doors)?,
        tls: tls.map(|FileTls { ca, certificate, key, revoked }| TlsOptions {
            ca,
            certificate,
            key,
            revoked,
        }),
        insecure: file.insecure,
        topology,
    })
}

/// Looks whether a node without certificates is only reached from its own machine, unless plain text is asked for; and whether one with them has all.
fn validate_secrecy(text: &str, file: &File, node: NodeId) -> Result<(), ConfigError> {
    let FileDoors { redis, http, tls, user, .. } = &file.doors;
    let of_doors = [&redis.listen, &http.listen].into_iter().flatten();
    if let Some(section) = &file.tls {
        if file.insecure {
            let advice = "`insecure = true` asks for plain text, and [tls] for none: leave out one of them";
            return Err(mistake(text, section.span(), advice));
        }
        return match of_doors.into_iter().next() {
            Some(door) if user.is_none() => {
                let advice = "with [tls], doors work with the cluster as a user: name its certificate and key in [doors.user] \
                              (`quorate certificates create-user` makes them)";
                Err(mistake(text, door.span(), advice))
            }
            _ => Ok(()),
        };
    }
    if let Some(pair) = tls.iter().chain(user).next() {
        return Err(mistake(text, pair.span(), "certificates of doors need those of the node: add [tls]"));
    }
    let own = &file.nodes[usize::from(node.0)].address;
    let listeners =
        [file.listen.as_ref().or(Some(own)), file.http.as_ref()].into_iter().flatten().chain(of_doors);
    match listeners.into_iter().find(|address| !is_loopback(address.get_ref())) {
        Some(address) if !file.insecure => {
            let advice = format!(
                "{} is no loopback address, and without [tls] plain text is spoken there: name certificates in [tls] (`quorate certificates` makes \
                 them), or say `insecure = true` if everything that can reach it may do everything",
                address.get_ref()
            );
            Err(mistake(text, address.span(), advice))
        }
        _ => Ok(()),
    }
}

fn threads(text: &str, given: &Spanned<FileThreads>) -> Result<EventLoops, ConfigError> {
    let threads = match given.get_ref() {
        // A negative number is as wrong as 0.
        FileThreads::Number(count) => EventLoops::exactly(u64::try_from(*count).unwrap_or(0)),
        FileThreads::Text(name) => name.parse(),
    };
    threads.map_err(|advice| mistake(text, given.span(), advice))
}

fn logging(text: &str, file: FileLogging) -> Result<Logging, ConfigError> {
    let told = Logging::default();
    let format = match &file.format {
        None => told.format,
        Some(name) => name.get_ref().parse().map_err(|error: String| mistake(text, name.span(), error))?,
    };
    Ok(Logging { format, level: file.level.unwrap_or(told.level) })
}

fn doors(text: &str, mut doors: FileDoors) -> Result<Doors, ConfigError> {
    let FileRedis { listen, databases, scripts_at_shards } = std::mem::take(&mut doors.redis);
    let http = std::mem::take(&mut doors.http).listen;
    let pair = |pair: &mut Option<Spanned<FileKeyPair>>| pair.take().map(|pair| pair.into_inner().into());
    let (tls, user) = (pair(&mut doors.tls), pair(&mut doors.user));
    let audit_log = doors.audit_log.take();
    let told = doors.apply(text)?;
    Ok(Doors {
        redis: listen.map(Spanned::into_inner),
        http: http.map(Spanned::into_inner),
        tls,
        user,
        audit_log,
        redis_databases: databases.unwrap_or_else(|| told.redis_databases.clone()),
        redis_scripts_at_shards: scripts_at_shards.unwrap_or(told.redis_scripts_at_shards),
        ..told
    })
}

/// Which of the nodes this is.
fn own_node(text: &str, node: &Spanned<u16>, topology: &Topology) -> Result<NodeId, ConfigError> {
    let (known, id) = (topology.nodes.len(), *node.get_ref());
    if usize::from(id) < known {
        return Ok(NodeId(id));
    }
    let advice = format!("there is no node {id}: {known} [[nodes]] are listed, counted from 0");
    Err(mistake(text, node.span(), advice))
}

/// Where the others are that this node joins.
fn others(text: &str, join: Spanned<Vec<String>>, topology: &Topology) -> Result<Vec<String>, ConfigError> {
    let span = join.span();
    let join = join.into_inner();
    if join.is_empty() {
        return Err(mistake(text, span, "`join` must name the address of a node at least"));
    }
    if let Some(wrong) = join.iter().find(|address| !is_address(address)) {
        return Err(mistake(text, span, format!("\"{wrong}\" is not an address: write host:port")));
    }
    if topology.nodes.len() != 1 {
        let advice =
            "a node that joins others lists itself alone in [[nodes]]: it learns of the others from them";
        return Err(mistake(text, span, advice));
    }
    Ok(join)
}

fn nodes(text: &str, nodes: &[FileNode], sites: &[String]) -> Result<Vec<Node>, ConfigError> {
    nodes
        .iter()
        .zip(0u16..)
        .map(|(node, id)| {
            let name = node.site.get_ref();
            let site = sites.iter().position(|site| site == name).ok_or_else(|| {
                let known = sites.join(", ");
                mistake(text, node.site.span(), format!("the site \"{name}\" is not one of: {known}"))
            })?;
            validate_address(text, &node.address)?;
            let address = node.address.get_ref().clone();
            Ok(Node { id: NodeId(id), site: SiteId(site as u16), address })
        })
        .collect()
}

fn system(text: &str, system: &FileSystem, topology: &Topology) -> Result<Keyspace, ConfigError> {
    let replicas = match &system.replicas {
        Some(given) => given_replicas(text, given, topology)?,
        None => default_replicas(topology),
    };
    let durability = match &system.durability {
        None => Durability::default(),
        Some(name) => Durability::from_str(name.get_ref())
            .map_err(|error| mistake(text, name.span(), error.to_string()))?,
    };
    Ok(system_keyspace(replicas, durability))
}

/// The protocol version with which the cluster begins: the newest one unless the file names another.
fn first_version(text: &str, system: &FileSystem) -> Result<ProtocolVersion, ConfigError> {
    let Some(version) = &system.protocol_version else { return Ok(Window::OWN.newest) };
    let (given, known) = (ProtocolVersion(*version.get_ref()), Window::OWN);
    let advice = || format!("this program knows protocol {known}, and not {given}");
    known.contains(given).then_some(given).ok_or_else(|| mistake(text, version.span(), advice()))
}

/// The nodes that a file names.
fn given_replicas(
    text: &str,
    given: &Spanned<Vec<u16>>,
    topology: &Topology,
) -> Result<Vec<NodeId>, ConfigError> {
    let replicas = given.get_ref();
    let span = || given.span();
    GroupSize::new(replicas.len()).map_err(|error| mistake(text, span(), error.to_string()))?;
    for (at, replica) in replicas.iter().enumerate() {
        if usize::from(*replica) >= topology.nodes.len() {
            let known = topology.nodes.len();
            let advice = format!("there is no node {replica}: {known} [[nodes]] are listed, counted from 0");
            return Err(mistake(text, span(), advice));
        }
        if replicas[..at].contains(replica) {
            return Err(mistake(
                text,
                span(),
                format!("node {replica} cannot hold two replicas of one shard"),
            ));
        }
    }
    Ok(replicas.iter().copied().map(NodeId).collect())
}

/// One node in each of five sites, or of three; three nodes if there are fewer sites, and one if there are fewer nodes. The
/// same at every node that is told of the same others.
fn default_replicas(topology: &Topology) -> Vec<NodeId> {
    let sites: BTreeSet<SiteId> = topology.nodes.iter().map(|node| node.site).collect();
    let replicas = match (sites.len(), topology.nodes.len()) {
        (5.., _) => 5,
        (_, 3..) => 3,
        _ => 1,
    };
    let sites: Vec<SiteId> = sites.into_iter().collect();
    let placed = topology.place(1, replicas, SYSTEM_SHARD, &sites).ok().and_then(|mut shards| shards.pop());
    placed.expect("there are as many nodes, and their number is odd").replicas
}

/// The built-in keyspace, with one shard on these nodes.
pub(crate) fn system_keyspace(replicas: Vec<NodeId>, durability: Durability) -> Keyspace {
    Keyspace::new(
        SYSTEM_KEYSPACE_ID,
        SYSTEM_KEYSPACE,
        Isolation::Strict,
        durability,
        vec![Shard::new(SYSTEM_SHARD, replicas)],
    )
}

fn matrix(text: &str, name: &Spanned<String>, topology: &Topology) -> Result<Arc<Matrix>, ConfigError> {
    let sites = topology.sites.iter().map(String::as_str);
    let load = || -> Result<Matrix, MatrixError> {
        let matrix = Matrix::load(name.get_ref())?;
        matrix.require(sites)?;
        Ok(matrix)
    };
    load().map(Arc::new).map_err(|source| ConfigError::Matrix { line: line(text, name.span()), source })
}

fn validate_address(text: &str, address: &Spanned<String>) -> Result<(), ConfigError> {
    let given = address.get_ref();
    if is_address(given) {
        Ok(())
    } else {
        let advice = format!("\"{given}\" is not an address: write host:port, like \"127.0.0.1:7400\"");
        Err(mistake(text, address.span(), advice))
    }
}

fn is_address(given: &str) -> bool {
    given.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn mistake(text: &str, span: Range<usize>, mistake: impl Into<String>) -> ConfigError {
    ConfigError::Value { line: line(text, span), mistake: mistake.into() }
}

fn line(text: &str, span: Range<usize>) -> usize {
    text.as_bytes()[..span.start.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
