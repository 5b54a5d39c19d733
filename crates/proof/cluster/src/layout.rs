//! The configuration of the nodes of a cluster on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate::Durability;
use quorate_server::{Config, EventLoops};
use serde::Serialize;

use crate::Failure;
use crate::certificates::{client_files, door_files, node_files};

/// The name of a cluster on this machine.
pub const CLUSTER_NAME: &str = "local";

/// A cluster on this machine: one node per entry of `nodes`.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Tells the cluster from others.
    pub cluster: u64,
    /// The names of the sites.
    pub sites: Vec<String>,
    /// For each node: the site it stands in, and where it is found.
    pub nodes: Vec<(String, String)>,
    /// For each node: where it listens, if that is not where it is found; empty if all are found where they listen.
    pub listen: Vec<String>,
    /// For each node: where it serves HTTP; empty if nowhere.
    pub http: Vec<String>,
    /// Under this directory each node has its own.
    pub directory: PathBuf,
    /// The delays to emulate: a built-in matrix or a file.
    pub wan: Option<String>,
    /// The durability of acknowledged changes of the catalogue.
    pub durability: Durability,
    /// How replicated logs go by, where that is not as usual.
    pub log: BTreeMap<String, u64>,
    /// The bounds of nodes, where these are not as usual.
    pub limits: BTreeMap<String, u64>,
    /// The doors of the nodes for Redis, if they have some.
    pub redis: Option<RedisDoors>,
    /// The directory of the certificates of the cluster, as [`make_certificates`](crate::make_certificates) makes them; none for plain text.
    pub tls: Option<PathBuf>,
    /// The protocol version with which the cluster begins; none for the newest that the program knows.
    pub protocol_version: Option<u32>,
    /// Over how many event loops each node spreads its replicas.
    pub threads: EventLoops,
}

/// A door for Redis at each node.
#[derive(Clone, Debug)]
pub struct RedisDoors {
    /// For each node: where its door is.
    pub listen: Vec<String>,
    /// The keyspace of database 0.
    pub keyspace: String,
    /// How long a command may take before a door says that it does not know, or that nothing was done.
    pub deadline: Duration,
}

#[derive(Serialize)]
struct File<'a> {
    node: usize,
    data_directory: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<&'a str>,
    insecure: bool,
    // Earlier programs know no such field.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<String>,
    sites: &'a [String],
    cluster: FileCluster<'a>,
    nodes: Vec<FileNode<'a>>,
    system: FileSystem<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wan: Option<FileWan<'a>>,
    log: &'a BTreeMap<String, u64>,
    limits: &'a BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<FileTls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doors: Option<FileDoors<'a>>,
}

#[derive(Serialize)]
struct FileTls {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Serialize)]
struct FileUser {
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Serialize)]
struct FileDoors<'a> {
    deadline_ms: u128,
    redis: FileRedis<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<FileUser>,
}

#[derive(Serialize)]
struct FileRedis<'a> {
    listen: &'a str,
    databases: [&'a str; 1],
}

#[derive(Serialize)]
struct FileCluster<'a> {
    name: &'a str,
    id: u64,
}

#[derive(Serialize)]
struct FileNode<'a> {
    site: &'a str,
    address: &'a str,
}

#[derive(Serialize)]
struct FileSystem<'a> {
    durability: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_version: Option<u32>,
}

#[derive(Serialize)]
struct FileWan<'a> {
    matrix: &'a str,
}

impl Layout {
    /// The data directory of a node.
    pub fn data_directory(&self, node: usize) -> PathBuf {
        self.directory.join(format!("node-{node}"))
    }

    /// The configuration file of a node.
    ///
    /// # Errors
    /// If the layout cannot be written as TOML.
    pub fn config_text(&self, node: usize) -> Result<String, Failure> {
        let data_directory = self.data_directory(node);
        let nodes = self.nodes.iter().map(|(site, address)| FileNode { site, address }).collect();
        let doors = self.redis.as_ref().and_then(|redis| {
            let listen = redis.listen.get(node)?;
            Some(FileDoors {
                deadline_ms: redis.deadline.as_millis(),
                redis: FileRedis { listen, databases: [&redis.keyspace] },
                user: self.tls.as_deref().map(|directory| {
                    let files = door_files(directory);
                    FileUser { certificate: files.certificate, key: files.key }
                }),
            })
        });
        let file = File {
            node,
            data_directory: &data_directory,
            listen: self.listen.get(node).map(String::as_str),
            http: self.http.get(node).map(String::as_str),
            // These are clusters of one machine, whatever addresses it has.
            insecure: self.tls.is_none(),
            threads: (self.threads != EventLoops::default()).then(|| self.threads.to_string()),
            sites: &self.sites,
            cluster: FileCluster { name: CLUSTER_NAME, id: self.cluster },
            nodes,
            system: FileSystem {
                durability: self.durability.name(),
                protocol_version: self.protocol_version,
            },
            wan: self.wan.as_deref().map(|matrix| FileWan { matrix }),
            log: &self.log,
            limits: &self.limits,
            tls: self.tls.as_deref().map(|directory| {
                let files = node_files(directory, node);
                FileTls { ca: files.ca, certificate: files.certificate, key: files.key }
            }),
            doors,
        };
        toml::to_string(&file).map_err(Failure::failed)
    }

    /// The configuration of a node.
    ///
    /// # Errors
    /// If a server would refuse the configuration.
    pub fn config(&self, node: usize) -> Result<Config, Failure> {
        Config::parse(&self.config_text(node)?).map_err(Failure::usage)
    }

    /// How a client connects to the cluster: as its operator, by the token of the first node, once that runs.
    ///
    /// # Errors
    /// If its certificates cannot be used.
    pub fn client(&self) -> Result<quorate::Options, Failure> {
        let load = |directory: &PathBuf| quorate::Certificates::from_files(client_files(directory));
        let certificates = self.tls.as_ref().map(load).transpose().map_err(Failure::failed)?;
        let credential = self.operator()?;
        Ok(quorate::Options { certificates, credential, ..quorate::Options::default() })
    }

    /// The token of the first node, which has written it when it started; none if it has not.
    fn operator(&self) -> Result<Option<quorate::Credential>, Failure> {
        let path = self.data_directory(0).join("token");
        match std::fs::read_to_string(&path) {
            Ok(token) => Ok(Some(quorate::Credential::token(token.trim_end()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::failed(format!("{}: {error}", path.display()))),
        }
    }

    /// The addresses of all nodes.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|(_, address)| address.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_a_configuration_that_servers_accept() {
        let layout = Layout {
            cluster: 7,
            sites: vec!["north".into(), "east \"x\"".into(), "west".into()],
            nodes: vec![
                ("north".into(), "127.0.0.1:1".into()),
                ("east \"x\"".into(), "127.0.0.1:2".into()),
                ("west".into(), "127.0.0.1:3".into()),
            ],
            listen: vec!["127.0.0.1:5".into()],
            http: vec!["127.0.0.1:4".into()],
            directory: PathBuf::from("/tmp/a b"),
            wan: None,
            durability: Durability::Memory,
            log: BTreeMap::from([("in_flight_max".into(), 3)]),
            limits: BTreeMap::from([("free_bytes_low".into(), 4)]),
            redis: Some(RedisDoors {
                listen: vec!["127.0.0.1:6".into()],
                keyspace: "k \"x\"".into(),
                deadline: Duration::from_millis(1_500),
            }),
            tls: None,
            protocol_version: None,
            threads: EventLoops::default(),
        };
        let config = layout.config(1).unwrap();
        assert_eq!(config.own_site(), "east \"x\"");
        assert_eq!((config.http.as_deref(), config.listen_address()), (None, "127.0.0.1:2"));
        assert_eq!(layout.config(0).unwrap().listen_address(), "127.0.0.1:5");
        assert_eq!(config.data_directory, Path::new("/tmp/a b/node-1"));
        assert_eq!(config.system.shards[0].replicas.len(), 3);
        assert_eq!(config.log.limits.in_flight, 3);
        assert_eq!(layout.config(0).unwrap().http.as_deref(), Some("127.0.0.1:4"));
        let doors = layout.config(0).unwrap().doors;
        assert_eq!(
            (doors.redis.as_deref(), doors.redis_databases),
            (Some("127.0.0.1:6"), vec!["k \"x\"".into()])
        );
        assert_eq!(doors.deadline, Duration::from_millis(1_500));
        assert_eq!(config.doors.redis, None, "the second node has no door");
    }
}
