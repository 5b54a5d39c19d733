//! A node has to know before it starts which it is, and who the others are.
//!
//! A node of the first hour is told by its file, one that joins later asks another node. From then on either remembers, in its data
//! directory, who the others were when it knew last. The file counts until the configuration is heard, because all
//! may have moved at once; others are looked for at both places.

use std::time::Duration;

use quorate_core::topology::{Node, Topology};
use quorate_core::{ClientId, NodeId, SiteId};
use quorate_runtime::conversation::{Conversation, Trouble};
use quorate_runtime::secure::Tls;
use quorate_wire::{Directory, Hello, Packet, Peer};

use crate::data::{DataDirectory, DataError, Initialise};
use crate::{Config, StartError};

/// How long another node may take to register this one: longer than a change of who leads the configuration service.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a node cannot join a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Nobody who was asked has registered it.
    #[error("no node has registered this one: {}", list(tried))]
    Nobody {
        /// The addresses that it has asked, and what came of each.
        tried: Vec<(String, String)>,
    },
    /// Its address is that of a node that was part of the cluster before, and its data directory is that of another.
    #[error(
        "{address} is registered as {registered}, and the data directory belongs to {found}: check the address in [[nodes]]"
    )]
    Other {
        /// Its address.
        address: String,
        /// The node that is registered there.
        registered: NodeId,
        /// The node that the data directory belongs to.
        found: NodeId,
    },
}

fn list(tried: &[(String, String)]) -> String {
    let lines: Vec<_> = tried.iter().map(|(address, reason)| format!("{address}: {reason}")).collect();
    lines.join("; ")
}

/// The knowledge with which a node starts.
pub(crate) struct Settled {
    /// The configuration, completed by what the node remembers or has asked for.
    pub(crate) config: Config,
    /// How its data directory is to be dealt with: a node that is registered already must not begin empty.
    pub(crate) initialise: Initialise,
    /// Where other nodes may be found besides.
    pub(crate) hints: Vec<Node>,
}

/// Completes what a node is told.
pub(crate) fn settle(
    mut config: Config,
    initialise: Initialise,
    client: ClientId,
    tls: Option<&Tls>,
) -> Result<Settled, StartError> {
    let path = &config.data_directory;
    let remembered = DataDirectory::remembered(path)?;
    let (site, address) = (config.own_site().to_owned(), config.own_node().address.clone());
    if config.join.is_empty() {
        let told = config.topology.clone();
        let topology = remembered.map_or_else(|| told.clone(), |(topology, _)| topology);
        let hints = topology.nodes.clone();
        let overlay = |topology, node: &Node| {
            with_node(topology, node.id, &told.sites[usize::from(node.site.0)], node.address.clone())
        };
        config.topology = told.nodes.iter().fold(topology, overlay);
        return Ok(Settled { config, initialise, hints: [hints, told.nodes].concat() });
    }
    let owner = DataDirectory::owner(path)?;
    match (owner, remembered, initialise) {
        (Some((_, node)), Some((topology, system)), Initialise::No | Initialise::Rejoin) => {
            (config.node, config.system) = (node, system);
            config.topology = with_node(topology, node, &site, address);
            Ok(Settled { config, initialise, hints: Vec::new() })
        }
        (None, _, Initialise::No | Initialise::Rejoin) => {
            Err(DataError::Missing { path: path.to_owned() }.into())
        }
        (owner, ..) => {
            let (node, is_known, Directory { topology, system }) = ask_others(&config, client, tls)?;
            if let Some((_, found)) = owner.filter(|(_, found)| *found != node) {
                return Err(JoinError::Other { address, registered: node, found }.into());
            }
            (config.node, config.system) = (node, system);
            config.topology = with_node(topology, node, &site, address);
            let initialise = match initialise {
                Initialise::New if is_known => Initialise::Replace,
                as_told => as_told,
            };
            Ok(Settled { config, initialise, hints: Vec::new() })
        }
    }
}

/// Sites and nodes with one as its file tells it. Others that are not known yet are found nowhere until they are.
fn with_node(mut topology: Topology, id: NodeId, site: &str, address: String) -> Topology {
    let position = topology.sites.iter().position(|known| known == site).unwrap_or_else(|| {
        topology.sites.push(site.to_owned());
        topology.sites.len() - 1
    });
    let site = SiteId(position as u16);
    for unknown in topology.nodes.len()..=usize::from(id.0) {
        topology.nodes.push(Node { id: NodeId(unknown as u16), site, address: String::new() });
    }
    topology.nodes[usize::from(id.0)] = Node { id, site, address };
    topology
}

/// Asks the others in turn until one has registered this node. Runs on a thread of its own: the caller that starts a node may be inside
/// a runtime already.
fn ask_others(
    config: &Config,
    client: ClientId,
    tls: Option<&Tls>,
) -> Result<(NodeId, bool, Directory), StartError> {
    let ask_all = async {
        let mut tried = Vec::with_capacity(config.join.len());
        for address in &config.join {
            match tokio::time::timeout(PATIENCE, ask(address, config, client, tls)).await {
                Ok(Ok(joined)) => return Ok(joined),
                Ok(Err(trouble)) => tried.push((address.clone(), trouble.to_string())),
                Err(_) => tried.push((address.clone(), format!("no answer within {PATIENCE:?}"))),
            }
        }
        Err(StartError::Join(JoinError::Nobody { tried }))
    };
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(ask_all)
        });
        asking.join()
    });
    asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

async fn ask(
    address: &str,
    config: &Config,
    client: ClientId,
    tls: Option<&Tls>,
) -> Result<(NodeId, bool, Directory), Trouble> {
    let (site, own) = (config.own_site().to_owned(), config.own_node().address.clone());
    let hello = Hello {
        cluster: config.cluster,
        peer: Peer::Client(client),
        site: site.clone(),
        credential: None,
        event_loop: 0,
    };
    let (mut other, _) = Conversation::begin(address, hello, tls).await?;
    other.say(&Packet::Join { site, address: own }).await?;
    let mut joined = None;
    loop {
        match (other.hear().await?, joined) {
            (Packet::JoinReply { node: Some(node), is_known, .. }, _) => {
                joined = Some((node, is_known));
                other.say(&Packet::DirectoryRequest).await?;
            }
            (Packet::JoinReply { node: None, refused, .. }, _) => {
                return Err(Trouble::Refused(refused.unwrap_or_else(|| "it does not say why".to_owned())));
            }
            (Packet::Directory(directory), Some((node, is_known))) => return Ok((node, is_known, directory)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_others_counts_and_what_the_file_says_of_this_node() {
        let node = |id, site, address: &str| Node {
            id: NodeId(id),
            site: SiteId(site),
            address: address.to_owned(),
        };
        let remembered = Topology {
            sites: vec!["us".into(), "eu".into()],
            nodes: vec![node(0, 0, "a:1"), node(1, 1, "b:1")],
        };
        let moved = with_node(remembered.clone(), NodeId(1), "eu", "c:1".to_owned());
        assert_eq!(moved.nodes, [node(0, 0, "a:1"), node(1, 1, "c:1")]);
        let new = with_node(remembered, NodeId(3), "mars", "d:1".to_owned());
        assert_eq!(new.sites, ["us", "eu", "mars"]);
        assert_eq!(new.nodes[2..], [node(2, 2, ""), node(3, 2, "d:1")], "nobody knows where the third is");
    }
}
