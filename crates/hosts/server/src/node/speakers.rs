//! Which peer may say what: nodes speak for themselves and their replicas, clients for themselves.
//!
//! The transport has looked whether a peer is what its certificate says (`quorate_runtime::secure`). Here it is looked whether it says only what such a peer may
//! say. Most of it holds without certificates too, against mistakes: then a peer is what it says it is.

use quorate_certificates::Subject;
use quorate_core::{Address, NodeId};
use quorate_runtime::transport::{Remote, Violation};
use quorate_runtime::{LinkId, Turn};
use quorate_wire::{Packet, Peer};

use super::Node;

/// Messages that came from a peer which may not send them.
#[derive(Debug, Default)]
pub(super) struct Misattributed {
    messages: u64,
    /// The node of which the log was told last.
    told: Option<NodeId>,
}

impl Misattributed {
    /// How many there were.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    pub(super) fn note(&mut self, node: NodeId, sender: Address) {
        self.messages += 1;
        if self.told.replace(node) != Some(node) {
            tracing::warn!(%node, %sender, "a node sends in the name of another; its messages are passed over");
        }
    }
}

/// The node whose certificate a peer has shown; none if it has shown that of a user, or none.
pub(super) fn certified_node(remote: &Remote) -> Option<NodeId> {
    match &remote.certified.as_ref()?.identity.subject {
        Subject::Node(node) => Some(*node),
        Subject::User(_) => None,
    }
}

/// Looks whether this kind of peer says such things.
///
/// # Errors
/// It does not.
pub(super) fn validate(remote: &Remote, packet: &Packet) -> Result<(), Violation> {
    match remote.identity {
        // It wants to join, or asks before it does. All other packets of a client need the certificate of a user.
        Peer::Client(_) => match (certified_node(remote), packet) {
            (None, _) | (Some(_), Packet::Join { .. } | Packet::DirectoryRequest) => Ok(()),
            (Some(node), _) => Err(Violation(
                format!("{node} may join with its certificate, and speak as a node: a client needs the certificate of a user").into(),
            )),
        },
        Peer::Node(node) => match packet {
            Packet::AcceptLoss { .. }
            | Packet::DeclareLost { .. }
            | Packet::Verify { .. }
            | Packet::Changes { .. }
            | Packet::Join { .. } => {
                Err(Violation(format!("{node} says what only clients say").into()))
            }
            _ => Ok(()),
        },
    }
}

impl Node {
    /// True if a node may send in this name: a replica of another node, or a client that is connected elsewhere, is not its own. A replica of which nothing is
    /// known here may be.
    pub(super) fn may_send(&mut self, node: NodeId, link: LinkId, sender: Address, turn: &Turn<'_>) -> bool {
        let is_own = match sender {
            Address::Replica(replica) => self.routes.hosts(node, replica),
            Address::Client(client) => {
                let known = self.routes.link_of(client).filter(|known| *known != link);
                let owner = known.and_then(|known| turn.remote(known)).map(|remote| remote.identity);
                client != self.routes.own_client() && owner.is_none_or(|owner| owner == Peer::Node(node))
            }
        };
        if !is_own {
            self.misattributed.note(node, sender);
        }
        is_own
    }

    /// A peer wants to be a node. With certificates it shows that of the node which it is to be.
    pub(super) fn on_join(&mut self, link: LinkId, site: String, address: String, turn: &mut Turn<'_>) {
        let Some(remote) = turn.remote(link) else { return };
        let certified = certified_node(remote);
        if remote.certified.is_some() && certified.is_none() {
            let refused =
                Some("a node joins with the certificate of a node, and not with that of a user".to_owned());
            turn.send(link, &Packet::JoinReply { node: None, is_known: false, refused });
            return;
        }
        if let Some(catalogue) = &mut self.catalogue {
            catalogue.join(link, site, address, certified);
        }
    }
}
