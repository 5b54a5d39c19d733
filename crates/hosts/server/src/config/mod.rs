//! The configuration of a node by its operator, and every limit that it works within.
//!
//! A mistake is answered with the line it stands on and with what to write instead.

mod containers;
mod doors;
mod event_loops;
mod file;
mod limits;
mod log;
mod logging;
mod reload;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_core::NodeId;
use quorate_core::topology::{Keyspace, Node, Topology};
use quorate_runtime::wan::Matrix;
use quorate_wire::ProtocolVersion;

pub use containers::ContainerOptions;
pub use doors::Doors;
pub use event_loops::EventLoops;
pub use file::ConfigError;
pub(crate) use file::system_keyspace;
pub use limits::Limits;
pub use log::LogOptions;
pub use logging::{LogFormat, Logging};
pub use reload::Reloaded;
pub(crate) use tls::is_loopback;
pub use tls::{KeyPair, TlsOptions};

/// The configuration of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The name of the cluster, for people.
    pub cluster_name: String,
    /// Tells the cluster from others; not zero.
    pub cluster: u64,
    /// Which node this is.
    pub node: NodeId,
    /// The sites and nodes of the cluster.
    pub topology: Topology,
    /// The built-in keyspace that holds the catalogue, and where it is.
    pub system: Keyspace,
    /// The protocol version with which the cluster begins. Counts once, as the place of the catalogue does.
    pub first_version: ProtocolVersion,
    /// Where this node keeps what must survive it.
    pub data_directory: PathBuf,
    /// Where this node listens, as `host:port`, if that is not the address by which the others find it.
    pub listen: Option<String>,
    /// Where `/metrics`, `/health` and `/status` are served, as `host:port`; none if nowhere.
    pub http: Option<String>,
    /// The delays between sites to emulate.
    pub wan: Option<Arc<Matrix>>,
    /// Where other nodes are found, if this one is to join them: then `topology` names this node alone, which it is is asked
    /// for, and so is what else is in the cluster.
    pub join: Vec<String>,
    /// Over how many event loops the replicas of the node are spread.
    pub threads: EventLoops,
    /// The bounds of every queue.
    pub limits: Limits,
    /// How the containers of `parallel-snapshot` keyspaces go by.
    pub containers: ContainerOptions,
    /// How replicated logs go by.
    pub log: LogOptions,
    /// How much the program of the node logs, and in which form. The node itself only logs: its process reads this.
    pub logging: Logging,
    /// The certificates of the node; none if its connections are plain text.
    pub tls: Option<TlsOptions>,
    /// True if plain text is meant also where other machines reach it.
    pub insecure: bool,
    /// How programs come in that are no clients of the cluster. The node itself opens no door: its process does.
    pub doors: Doors,
}

impl Config {
    /// Reads a configuration from the text of a file.
    ///
    /// # Errors
    /// The text is not a configuration; the error names the line.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        file::parse(text)
    }

    /// Reads a configuration from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a configuration.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        Config::parse(&text)
    }

    /// This node's entry in the topology.
    ///
    /// # Panics
    /// If the topology has no such node, which [`Config::parse`] refuses.
    pub fn own_node(&self) -> &Node {
        &self.topology.nodes[usize::from(self.node.0)]
    }

    /// Where this node listens.
    ///
    /// # Panics
    /// As [`Config::own_node`].
    pub fn listen_address(&self) -> &str {
        self.listen.as_deref().unwrap_or(&self.own_node().address)
    }

    /// The addresses, other than loopback, at which this node serves plain text: none if its file does not ask for it.
    pub fn insecure_addresses(&self) -> Vec<String> {
        if self.tls.is_some() {
            return Vec::new();
        }
        let listeners = [self.http.as_ref(), self.doors.redis.as_ref(), self.doors.http.as_ref()];
        let own = self.listen_address().to_owned();
        let all = std::iter::once(own).chain(listeners.into_iter().flatten().cloned());
        all.filter(|address| !is_loopback(address)).collect()
    }

    /// The name of the site that this node stands in.
    ///
    /// # Panics
    /// As [`Config::own_node`].
    pub fn own_site(&self) -> &str {
        &self.topology.sites[usize::from(self.own_node().site.0)]
    }
}

/// A commented example of a configuration file. It can be read back.
pub fn print_config() -> &'static str {
    include_str!("example.toml")
}

#[cfg(test)]
mod tests;
