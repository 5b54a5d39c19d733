//! The network between processes under torture: every directed link can be cut, and what a node sends can be delayed.
//!
//! | file | role |
//! |---|---|
//! | `proxies` | a proxy in this process before every node: works everywhere, and holds back what passes |
//! | `namespaces` | a network namespace for every node: needs privileges, and loses packets as real networks do |

mod namespaces;
mod proxies;

use std::ffi::OsString;
use std::time::Duration;

use quorate_cluster::Failure;

pub(crate) use namespaces::Namespaces;
pub(crate) use proxies::{Proxies, site_name};

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A node.
    Node(usize),
    /// The clients that stand in the site of this node.
    Clients(usize),
    /// The watcher; its links are never cut.
    Watch,
}

/// The network of a cluster on this machine.
pub(crate) enum Network {
    /// Proxies before the nodes.
    Proxies(Proxies),
    /// A namespace for each node.
    Namespaces(Namespaces),
}

/// Where a node is found and where it listens.
#[derive(Clone, Debug)]
pub(crate) struct NodeAddress {
    /// Where others and clients find it.
    pub(crate) found: String,
    /// Where it listens.
    pub(crate) listen: String,
}

impl Network {
    /// Where the nodes are.
    pub(crate) fn addresses(&self) -> &[NodeAddress] {
        match self {
            Network::Proxies(proxies) => proxies.addresses(),
            Network::Namespaces(namespaces) => namespaces.addresses(),
        }
    }

    /// For each node: the command that runs its server; none if it runs as it is.
    pub(crate) fn wrappers(&self) -> Vec<Vec<OsString>> {
        match self {
            Network::Proxies(_) => Vec::new(),
            Network::Namespaces(namespaces) => namespaces.wrappers(),
        }
    }

    /// Nothing passes over these links any more, each from the first place to the second.
    pub(crate) fn cut(&mut self, links: &[(Place, Place)]) -> Result<(), Failure> {
        match self {
            Network::Proxies(proxies) => proxies.cut(links),
            Network::Namespaces(namespaces) => namespaces.cut(links)?,
        }
        Ok(())
    }

    /// They carry everything again.
    pub(crate) fn mend(&mut self, links: &[(Place, Place)]) -> Result<(), Failure> {
        match self {
            Network::Proxies(proxies) => proxies.mend(links),
            Network::Namespaces(namespaces) => namespaces.mend(links)?,
        }
        Ok(())
    }

    /// All messages of a node from here on take so much longer. False if this network cannot do that.
    pub(crate) fn slow(&self, node: usize, extra: Duration) -> bool {
        match self {
            Network::Proxies(proxies) => proxies.slow(node, extra),
            Network::Namespaces(_) => return false,
        }
        true
    }

    /// Every connection of a node breaks. False if this network cannot do that.
    pub(crate) fn break_connections(&self, node: usize) -> bool {
        match self {
            Network::Proxies(proxies) => proxies.break_connections(node),
            Network::Namespaces(_) => return false,
        }
        true
    }
}
