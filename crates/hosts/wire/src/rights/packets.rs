//! The table of packets that are no envelopes.

use super::Packet;

/// The senders that a packet may have, and the right that it demands of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketRow {
    /// The transport deals with it, before a node hears of it.
    Transport,
    /// It holds a message of a protocol, which has a row of its own.
    Message,
    /// Any peer may, a client that has not logged in among them: where nodes are found.
    Anybody,
    /// A client that wants to become a node, with the certificate of one, or without any where there are none.
    Applicant,
    /// A client with the right to administer the cluster: how a node is, with the keys that are used most.
    Cluster,
    /// A client that may administer a keyspace.
    AdministersSome,
    /// A client that may coordinate in a keyspace.
    CoordinatesSome,
    /// A client that may administer the keyspace of the replica that it is about.
    AdministersReplica,
    /// A client that may read or administer the keyspace of the replica that it is about.
    ComparesReplica,
    /// A client that may read the keyspace of the replica that it is about.
    ReadsReplica,
    /// A client that may hear what is announced under its topics.
    Listens,
    /// A client that may announce something under its topic.
    Announces,
    /// A node, for itself.
    Node,
    /// A node or a client that has been asked: it means nothing to a node.
    Answer,
}

/// The row of a packet.
pub fn packet_row(packet: &Packet) -> PacketRow {
    match packet {
        Packet::Hello(_) | Packet::Welcome(_) | Packet::Goodbye { .. } | Packet::Unsupported { .. } => {
            PacketRow::Transport
        }
        Packet::Envelope(_) => PacketRow::Message,
        Packet::DirectoryRequest => PacketRow::Anybody,
        Packet::Join { .. } => PacketRow::Applicant,
        Packet::StatusRequest => PacketRow::Cluster,
        Packet::ReplicasRequest => PacketRow::AdministersSome,
        Packet::Disagreement { .. } => PacketRow::CoordinatesSome,
        Packet::AcceptLoss { .. } | Packet::DeclareLost { .. } => PacketRow::AdministersReplica,
        Packet::Verify { .. } => PacketRow::ComparesReplica,
        Packet::Changes { .. } => PacketRow::ReadsReplica,
        Packet::Listen { .. } => PacketRow::Listens,
        Packet::Announce { .. } => PacketRow::Announces,
        Packet::Directory(_)
        | Packet::Settings { .. }
        | Packet::Lives { .. }
        | Packet::Space { .. }
        | Packet::Token { .. } => PacketRow::Node,
        Packet::Busy { .. }
        | Packet::CatalogueChanged
        | Packet::Status { .. }
        | Packet::Replicas { .. }
        | Packet::ReplicaService { .. }
        | Packet::Stopping
        | Packet::AcceptLossReply { .. }
        | Packet::DeclareLostReply { .. }
        | Packet::VerifyReply { .. }
        | Packet::ChangesReply { .. }
        | Packet::JoinReply { .. }
        | Packet::Denied(_) => PacketRow::Answer,
    }
}
