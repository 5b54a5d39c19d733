//! A network namespace for every node, joined by a bridge.
//!
//! Nothing stands between the processes but the kernel: a link that is cut loses packets, and TCP does what it does then.
//! Everything is named after this process, so that it can be removed by name and nothing else is touched:
//!
//! ```text
//!   bridge quorate<pid>, 198.18.<pid mod 256>.254      clients, in the namespace of this process
//!   namespace quorate<pid>-0, eth0 198.18.….1          node 0
//!   namespace quorate<pid>-1, eth0 198.18.….2          node 1, …
//! ```
//!
//! A link towards a node is cut in the namespace of that node, by a rule that drops what comes from the other end; for
//! this the table of local addresses is moved behind such rules. A link towards clients is cut by a route without a
//! destination in the namespace of the node. All clients stand in one place here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};

use quorate_cluster::Failure;

use super::{NodeAddress, Place};

/// The namespaces of a cluster. Dropping it removes them.
pub(crate) struct Namespaces {
    /// Names the bridge, and begins the names of the namespaces.
    name: String,
    /// The first three bytes of all addresses, with dots.
    network: String,
    addresses: Vec<NodeAddress>,
    /// How often each link was cut without having been mended since: cuts may overlap.
    cut: BTreeMap<(Place, Place), u32>,
}

/// Where servers listen.
const PORT: u16 = 7400;

/// The last byte of the address of the clients.
const CLIENTS: usize = 254;

impl Namespaces {
    /// Makes a namespace for each of so many nodes.
    pub(crate) fn start(nodes: usize) -> Result<Namespaces, Failure> {
        let process = std::process::id();
        let mut namespaces = Namespaces {
            name: format!("quorate{process}"),
            network: format!("198.18.{}", process % 256),
            addresses: Vec::new(),
            cut: BTreeMap::new(),
        };
        namespaces.create(nodes).map_err(|reason| {
            Failure::failed(format!(
                "network namespaces cannot be used here: {reason}; run as root where `ip` (iproute2) is installed, or \
                 without --namespaces"
            ))
        })?;
        Ok(namespaces)
    }

    fn create(&mut self, nodes: usize) -> Result<(), String> {
        let (bridge, network) = (self.name.clone(), self.network.clone());
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        ip(&["address", "add", &format!("{network}.{CLIENTS}/24"), "dev", &bridge])?;
        ip(&["link", "set", &bridge, "up"])?;
        for node in 0..nodes {
            let (namespace, cable) = (self.namespace(node), self.cable(node));
            let address = self.address(Place::Node(node));
            ip(&["netns", "add", &namespace])?;
            let peer = ["peer", "name", "eth0", "netns", &namespace];
            ip(&[&["link", "add", &cable, "type", "veth"], &peer[..]].concat())?;
            ip(&["link", "set", &cable, "master", &bridge, "up"])?;
            let inside = ["-n", &namespace];
            ip(&[&inside[..], &["address", "add", &format!("{address}/24"), "dev", "eth0"]].concat())?;
            ip(&[&inside[..], &["link", "set", "eth0", "up"]].concat())?;
            ip(&[&inside[..], &["link", "set", "lo", "up"]].concat())?;
            ip(&[&inside[..], &["rule", "add", "pref", "100", "lookup", "local"]].concat())?;
            ip(&[&inside[..], &["rule", "del", "pref", "0"]].concat())?;
            let found = format!("{address}:{PORT}");
            self.addresses.push(NodeAddress { listen: found.clone(), found });
        }
        Ok(())
    }

    pub(super) fn addresses(&self) -> &[NodeAddress] {
        &self.addresses
    }

    pub(super) fn wrappers(&self) -> Vec<Vec<OsString>> {
        let enter = |node| ["ip", "netns", "exec", &self.namespace(node)].map(OsString::from).to_vec();
        (0..self.addresses.len()).map(enter).collect()
    }

    pub(super) fn cut(&mut self, links: &[(Place, Place)]) -> Result<(), Failure> {
        for link in links.iter().copied().map(at_one_place) {
            let cuts = self.cut.entry(link).or_default();
            *cuts += 1;
            if *cuts == 1 {
                self.change("add", link).map_err(Failure::failed)?;
            }
        }
        Ok(())
    }

    pub(super) fn mend(&mut self, links: &[(Place, Place)]) -> Result<(), Failure> {
        for link in links.iter().copied().map(at_one_place) {
            let Some(cuts) = self.cut.get_mut(&link) else { continue };
            *cuts -= 1;
            if *cuts == 0 {
                self.cut.remove(&link);
                self.change("del", link).map_err(Failure::failed)?;
            }
        }
        Ok(())
    }

    /// Adds or deletes what drops the packets of a link.
    fn change(&self, how: &str, (from, to): (Place, Place)) -> Result<(), String> {
        match (from, to) {
            (from, Place::Node(node)) => {
                let (namespace, from) = (self.namespace(node), self.address(from));
                ip(&["-n", &namespace, "rule", how, "pref", "10", "from", &from, "iif", "eth0", "blackhole"])
            }
            (Place::Node(node), to) => {
                let (namespace, to) = (self.namespace(node), format!("{}/32", self.address(to)));
                ip(&["-n", &namespace, "route", how, "blackhole", &to])
            }
            // Clients do not speak with each other.
            _ => Ok(()),
        }
    }

    fn namespace(&self, node: usize) -> String {
        format!("{}-{node}", self.name)
    }

    /// The end of a node's cable that is plugged into the bridge.
    fn cable(&self, node: usize) -> String {
        format!("q{}-{node}", std::process::id())
    }

    fn address(&self, place: Place) -> String {
        let last = match place {
            Place::Node(node) => node + 1,
            Place::Clients(_) | Place::Watch => CLIENTS,
        };
        format!("{}.{last}", self.network)
    }
}

/// A link as it can be cut here: all clients stand in one place.
fn at_one_place((from, to): (Place, Place)) -> (Place, Place) {
    let one = |place| if let Place::Clients(_) = place { Place::Clients(0) } else { place };
    (one(from), one(to))
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // The one after the last may have been half made, and what was never made cannot be removed: no matter.
        for node in 0..=self.addresses.len() {
            let _ = ip(&["netns", "del", &self.namespace(node)]);
        }
        let _ = ip(&["link", "del", &self.name]);
    }
}

/// Runs `ip`.
fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`ip`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`ip {}`: {}", arguments.join(" "), said.trim()))
}
