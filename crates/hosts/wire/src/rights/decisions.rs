//! The decisions that follow from the table: whether a node takes what a client or another node says.
//!
//! They are functions of the message and of what is known of its sender, so that whatever takes messages from a network, a server or a simulation of one, decides alike.

use quorate_access::{Claim, Standing};
use quorate_core::{Address, ClientId, ShardId};
use quorate_log::Part;

use super::{Demand, Row, Speaker, has_hints, row};
use crate::catalogue::{EntryDemand, SYSTEM_SHARD, demands};
use crate::protocols::ProtocolMessage;

/// How a node takes a message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// As it is.
    Whole,
    /// [Without](super::without_hints) what only a coordinator is believed.
    WithoutHints,
    /// Not at all, and the client is not told: nothing waits for it.
    PassedOver,
    /// Not at all: no client says such a thing.
    Unsaid,
    /// Not at all: the client has no right to this.
    Denied(Claim),
    /// If the client has all the rights that [`demands`] names: it is about entries of the catalogue.
    IfEntriesMay,
}

impl Row {
    /// True if a client may be the sender.
    pub const fn is_of_clients(self) -> bool {
        matches!(self.speaker, Speaker::Client | Speaker::Coordinator)
    }
}

/// The decision on a message, of which this is the row, that a client says whose claims on the keyspace of the receiver are these.
pub fn decide_client(said: Row, message: &ProtocolMessage, client: ClientId, standing: Standing) -> Taking {
    if !said.is_of_clients() {
        return Taking::Unsaid;
    }
    let coordinates = standing.allows(Claim::Coordinate);
    let claim = match said.demand {
        Demand::Nothing => return Taking::Whole,
        Demand::Entries => return Taking::IfEntriesMay,
        Demand::Hint if coordinates => return Taking::Whole,
        Demand::Hint => return Taking::PassedOver,
        Demand::Claim(claim) => claim,
        Demand::Own(transaction) if transaction.client == client => Claim::Read,
        Demand::Own(_) => Claim::Coordinate,
    };
    if !standing.allows(claim) {
        Taking::Denied(claim)
    } else if has_hints(message) && !coordinates {
        Taking::WithoutHints
    } else {
        Taking::Whole
    }
}

/// True if another node says such a thing in this name: a replica within its group or its keyspace, a coordinator of the node to the configuration service.
pub fn is_said_by_nodes(
    from: Address,
    to: Address,
    message: &ProtocolMessage,
    are_of_one_keyspace: impl FnOnce(ShardId, ShardId) -> bool,
) -> bool {
    match (from, to) {
        (Address::Replica(from), Address::Replica(to)) => match row(message).speaker {
            Speaker::Group => from.shard == to.shard,
            Speaker::Keyspace | Speaker::Coordinator => {
                from.shard == to.shard || are_of_one_keyspace(from.shard, to.shard)
            }
            Speaker::Client => false,
        },
        // Nodes keep copies of the catalogue, and write there; people change users.
        (Address::Client(client), Address::Replica(to)) => match message {
            ProtocolMessage::Configuration(Part::Own(own)) => {
                let is_of_people = |demand: &EntryDemand| matches!(demand, EntryDemand::Access);
                to.shard == SYSTEM_SHARD
                    && row(message).speaker == Speaker::Client
                    && !demands(own, client).iter().any(is_of_people)
            }
            _ => false,
        },
        // Only the configuration service answers the coordinator of a node.
        (Address::Replica(from), Address::Client(_)) => from.shard == SYSTEM_SHARD,
        (Address::Client(_), Address::Client(_)) => false,
    }
}
