//! The packets that one end of a connection sends to the other.

use std::time::Duration;

use bytes::Bytes;
use quorate_core::changes::{self, Position};
use quorate_core::command::Decided;
use quorate_core::lives::{Life, Remembered};
use quorate_core::topology::{Keyspace, Topology};
use quorate_core::verify::{Answer, Request};
use quorate_core::{Address, ClientId, Epoch, NodeId, ReplicaId, ShardId, TransactionId, View};

use quorate_codec::field::{Fixed64, Nested, Optional, PlainBytes, Repeated, Text, Varint};
use quorate_codec::{alternatives, choices, message};

use crate::protocols::ProtocolMessage;

/// One thing said on a connection. Several travel in one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Either → either: a message of a protocol.
    Envelope(Envelope),
    /// The end that connected → the other, first: who I am, and which cluster I want.
    Hello(Hello),
    /// The answer to [`Packet::Hello`]: who I am.
    Welcome(Welcome),
    /// Server → client: I am overloaded and have not started what you sent.
    Busy {
        /// When trying again has a chance.
        retry_after: Duration,
    },
    /// Server → client: keyspaces were created or dropped, or their replicas or the nodes have changed; what you know may be old.
    CatalogueChanged,
    /// Client → server: who is in the cluster?
    DirectoryRequest,
    /// The answer to [`Packet::DirectoryRequest`].
    Directory(Directory),
    /// Client → server: how are you?
    StatusRequest,
    /// The answer to [`Packet::StatusRequest`].
    Status {
        /// One JSON object.
        json: Bytes,
    },
    /// Either → either: I am about to close the connection.
    Goodbye {
        /// Why, for people.
        reason: String,
    },
    /// Server → client: a replica of mine does not serve, and will not before an operator acts; or it does again.
    ReplicaService {
        /// The replica.
        replica: ReplicaId,
        /// The problem and its remedy; none if there is none.
        problem: Option<String>,
    },
    /// Server → client: I am about to stop: ask others, as if you could not reach me any more. This node still deals with messages that you have sent.
    Stopping,
    /// Client → server, on behalf of an operator: a replica of yours that has lost its records is to go on as a member
    /// that has slept since its group was created, because more of the group have lost theirs than it survives. Records that
    /// only they had are lost.
    AcceptLoss {
        /// The replica.
        replica: ReplicaId,
        /// A view above every view that any replica of the group can have been in.
        view: View,
    },
    /// The answer to [`Packet::AcceptLoss`]: it is under way, unless it was refused.
    AcceptLossReply {
        /// The replica.
        replica: ReplicaId,
        /// Why it was refused, if it was.
        refused: Option<String>,
        /// True if that passes by itself within moments. Earlier versions do not say.
        passes: bool,
    },
    /// Either → either: you have said something that my version does not know. That was lost; what came before and after
    /// was not. Said once on a connection for each kind of message that held it.
    Unsupported {
        /// The message that held what is not known, as it is called in the description of the wire format.
        message: String,
    },
    /// A process that wants to be a node → server: register me. Asking twice is asking once.
    Join {
        /// The name of its site, which may be new.
        site: String,
        /// Where it will be found, as `host:port`.
        address: String,
    },
    /// The answer to [`Packet::Join`].
    JoinReply {
        /// Which node it is; none if it was refused.
        node: Option<NodeId>,
        /// True if it had been registered before: then it may have been part of the cluster, and must not begin empty.
        is_known: bool,
        /// Why it was refused, if it was.
        refused: Option<String>,
    },
    /// Client → server: which replicas do you host, and how far are they? Asked by a client that changes groups.
    ReplicasRequest,
    /// The answer to [`Packet::ReplicasRequest`].
    Replicas {
        /// The replicas.
        replicas: Vec<ReplicaReport>,
        /// How many further ones the operating system lets the node have, if that is known.
        room: Option<u64>,
        /// True if the node knows the keyspaces: what is created from now on is new to it, also if it has lost its disk.
        knows_keyspaces: bool,
        /// The applications that the node is linked with, by name.
        applications: Vec<String>,
    },
    /// Node → node, first: this is what I am told by my file and what has to be the same at all nodes.
    Settings {
        /// The settings.
        settings: Vec<Setting>,
    },
    /// Client → server, on behalf of an operator: another shard of the serializable keyspace of this replica of yours is lost for
    /// good. Nobody is to wait for its votes any more. Only who leads makes that durable: it is said again until the status of a
    /// replica of the shard says so.
    DeclareLost {
        /// The replica.
        replica: ReplicaId,
        /// The shard that is lost.
        shard: ShardId,
    },
    /// The answer to [`Packet::DeclareLost`]: the replica was told, unless it was refused.
    DeclareLostReply {
        /// The replica.
        replica: ReplicaId,
        /// Why it was refused, if it was.
        refused: Option<String>,
    },
    /// Node → node, before anything else: the life that I am in, and what I remember of the lives of all nodes, yours among them. If
    /// your life cannot follow the one that I remember, I pass over all else that you say.
    Lives {
        /// The life of the sender.
        own: Life,
        /// The lives that it remembers.
        known: Vec<KnownLife>,
    },
    /// Client → server, on behalf of an operator: what does this replica of yours hold? Said again and again until it has an answer.
    Verify {
        /// The replica.
        replica: ReplicaId,
        /// At which point, and which part of it.
        request: Request,
    },
    /// The answer to [`Packet::Verify`].
    VerifyReply {
        /// The replica.
        replica: ReplicaId,
        /// The question.
        request: Request,
        /// How far the replica is with it.
        answer: Answer,
    },
    /// Client → server: which writes of this replica's shard have committed from a position on? A consumer says it again and again.
    Changes {
        /// The replica.
        replica: ReplicaId,
        /// From which position on, and of which keys.
        request: changes::Request<Position>,
    },
    /// The answer to [`Packet::Changes`].
    ChangesReply {
        /// The replica.
        replica: ReplicaId,
        /// The request that was made.
        request: changes::Request<Position>,
        /// The changes, or why there are none.
        answer: changes::Answer<Position>,
    },
    /// Server → client and node, and once more whenever it changes: whether my disk has room. Shards that would have no majority
    /// without nodes of which it has none take no writes.
    Space {
        /// The problem and its remedy; none if there is room, which need not be said at first.
        problem: Option<String>,
    },
    /// Client → server: pass announcements under these topics on to me, and no others. Said on every new connection, and once more
    /// whenever that changes.
    Listen {
        /// The topics: [`TOPICS_MAX`] at most, each of [`TOPIC_BYTES_MAX`] at most.
        topics: Vec<String>,
    },
    /// Client → server: pass this on to the clients that listen to its topic. Server → client: a client has announced this. An announcement that is lost on
    /// the way is not repeated, and an announcement is passed on only where little else waits to be sent.
    Announce {
        /// The client that announces it.
        from: ClientId,
        /// How many this client has announced before, plus one: an announcement that comes behind a later one is too late.
        number: u64,
        /// Its topic, of [`TOPIC_BYTES_MAX`] at most.
        topic: String,
        /// Its content, of [`ANNOUNCEMENT_BYTES_MAX`] at most.
        content: Bytes,
    },
    /// Client → server: shards have decided differently on a transaction of mine, or at different timestamps. Said once, to one node, for an
    /// operator; nothing answers it.
    Disagreement {
        /// The transaction.
        transaction: TransactionId,
        /// The decision of each of its shards: [`DECIDED_MAX`] at most are told.
        decided: Vec<Decided>,
    },
    /// Server → client: you have not the right to what you have said, and I have done nothing about it.
    Denied(Denial),
    /// Node → node: a client that shows the token with this hash works for me: my doors, which ask for the rights of their own clients, or somebody
    /// who can read my data directory. Said on every new connection; an earlier one counts no more.
    Token {
        /// The SHA-256 of the token.
        hash: Bytes,
    },
}

/// The kind of thing that a server has not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// Something with a message to a replica.
    Message,
    /// The answer to [`Packet::StatusRequest`].
    Status,
    /// The answer to [`Packet::ReplicasRequest`].
    Replicas,
    /// The answer to [`Packet::Verify`].
    Verify,
    /// Something with announcements, or another packet that nothing answers.
    Announcement,
    /// The answer to [`Packet::Changes`].
    Changes,
}

/// A message that a server has refused because the right for it is missing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The subject of the message.
    pub about: About,
    /// The replica that was to receive a message; none if it was no message to one.
    pub replica: Option<ReplicaId>,
    /// The transaction that the message was about, if it was about one.
    pub transaction: Option<TransactionId>,
    /// The question to the configuration service that it was, if it was one.
    pub question: Option<u64>,
    /// Why, in words that name the right.
    pub reason: String,
}

/// By what a client says as which user it comes. It is shown in the handshake, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A password.
    Password {
        /// The name of the user.
        user: String,
        /// The password.
        password: Bytes,
    },
    /// A bearer token, which names its user by itself.
    Token {
        /// The token, as text.
        token: Bytes,
    },
}

impl Credential {
    /// The password of a user.
    pub fn password(user: impl Into<String>, password: impl AsRef<[u8]>) -> Self {
        Credential::Password { user: user.into(), password: Bytes::copy_from_slice(password.as_ref()) }
    }

    /// A bearer token.
    pub fn token(token: impl AsRef<[u8]>) -> Self {
        Credential::Token { token: Bytes::copy_from_slice(token.as_ref()) }
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credential::Password { user, .. } => write!(formatter, "Password({user:?}, …)"),
            Credential::Token { .. } => formatter.write_str("Token(…)"),
        }
    }
}

/// A disagreement is told of so many shards at most.
pub const DECIDED_MAX: usize = 64;

/// The length of a topic at most, in bytes.
pub const TOPIC_BYTES_MAX: usize = 64;

/// A client listens to so many topics at most.
pub const TOPICS_MAX: usize = 16;

/// The length of an announcement at most, in bytes.
pub const ANNOUNCEMENT_BYTES_MAX: usize = 1024 * 1024;

/// The life of another node, or of its own, as a node remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLife {
    /// The other node.
    pub node: NodeId,
    /// Its latest life.
    pub remembered: Remembered,
}

/// Something that an operator has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, which says in what unit the value is.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// How far a replica is in a change of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaReport {
    /// The replica.
    pub replica: ReplicaId,
    /// The latest membership that it knows of.
    pub epoch: Epoch,
    /// Since when the members of its group were as they were when it took part last, durably; none if it has not taken part, or is
    /// no member.
    pub arrived: Option<Epoch>,
    /// True if it has its records, so that it counts in a change.
    pub has_records: bool,
}

/// A message of a protocol with its sender and receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The sender.
    pub from: Address,
    /// The receiver.
    pub to: Address,
    /// Under which membership it is said.
    pub epoch: Epoch,
    /// The message.
    pub message: ProtocolMessage,
}

/// The first packet of the end that connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The cluster that the sender belongs to; zero, which only a client may say, for whichever this is.
    pub cluster: u64,
    /// The sender.
    pub peer: Peer,
    /// The name of the site that the sender stands in; empty if it does not know.
    pub site: String,
    /// By what a client says as which user it comes; none if its certificate says so, or it comes as none.
    pub credential: Option<Credential>,
    /// The event loop of the node to which the messages of this connection go, counted from 0. One that the node does not have means the
    /// remainder by the number of those that it has. A connection to another event loop than the first one carries messages of protocols only.
    pub event_loop: u16,
}

/// A peer that connects to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Another node of the cluster.
    Node(NodeId),
    /// A client.
    Client(ClientId),
}

/// The answer to a [`Hello`] that is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The cluster.
    pub cluster: u64,
    /// The node that answers.
    pub node: NodeId,
    /// The name of its site.
    pub site: String,
    /// The version of its program, for people.
    pub version: String,
    /// How many event loops the node has beside the first one. A program that knows one event loop only says nothing.
    pub further_event_loops: u16,
}

/// The data that a client needs to reach the catalogue of keyspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The sites and nodes.
    pub topology: Topology,
    /// The built-in keyspace `_system`.
    pub system: Keyspace,
}

alternatives!(Packet, "Packet",
    messages {
        4 Busy { 1 retry_after: Varint }
        5 CatalogueChanged {}
        6 DirectoryRequest {}
        8 StatusRequest {}
        9 Status { 1 json: PlainBytes }
        10 Goodbye { 1 reason: Text }
        11 ReplicaService { 1 replica: Nested, 2 problem: Optional<Text> }
        12 AcceptLoss { 1 replica: Nested, 2 view: Varint }
        13 AcceptLossReply { 1 replica: Nested, 2 refused: Optional<Text>, 3 passes: Varint }
        14 Unsupported { 1 message: Text }
        15 Join { 1 site: Text, 2 address: Text }
        16 JoinReply { 1 node: Optional<Varint>, 2 is_known: Varint, 3 refused: Optional<Text> }
        17 ReplicasRequest {}
        18 Replicas { 1 replicas: Repeated<Nested>, 2 room: Optional<Varint>, 3 knows_keyspaces: Varint, 4 applications: Repeated<Text> }
        19 Settings { 1 settings: Repeated<Nested> }
        20 DeclareLost { 1 replica: Nested, 2 shard: Varint }
        21 DeclareLostReply { 1 replica: Nested, 2 refused: Optional<Text> }
        22 Lives { 1 own: Nested, 2 known: Repeated<Nested> }
        24 Verify { 1 replica: Nested, 2 request: Nested }
        25 VerifyReply { 1 replica: Nested, 2 request: Nested, 3 answer: Nested }
        23 Space { 1 problem: Optional<Text> }
        26 Stopping {}
        27 Listen { 1 topics: Repeated<Text> }
        28 Announce { 1 from: Fixed64, 2 number: Varint, 3 topic: Text, 4 content: PlainBytes }
        29 Disagreement { 1 transaction: Nested, 2 decided: Repeated<Nested> }
        31 Token { 1 hash: PlainBytes }
        32 Changes { 1 replica: Nested, 2 request: Nested }
        33 ChangesReply { 1 replica: Nested, 2 request: Nested, 3 answer: Nested }
    },
    fields {
        1 Envelope: Nested,
        2 Hello: Nested,
        3 Welcome: Nested,
        7 Directory: Nested,
        30 Denied: Nested,
    }
);

choices!(About {
    1 "message" [About::Message],
    2 "status" [About::Status],
    3 "replicas" [About::Replicas],
    4 "verify" [About::Verify],
    5 "announcement" [About::Announcement],
    6 "changes" [About::Changes],
});

message!(Denial, "Denial", {
    1 about: Varint,
    2 replica: Optional<Nested>,
    3 transaction: Optional<Nested>,
    4 question: Optional<Varint>,
    5 reason: Text,
});

alternatives!(Credential, "Credential", messages {
    1 Password { 1 user: Text, 2 password: PlainBytes }
    2 Token { 1 token: PlainBytes }
});

message!(ReplicaReport, "ReplicaReport", {
    1 replica: Nested,
    2 epoch: Varint,
    3 arrived: Optional<Varint>,
    4 has_records: Varint,
});

message!(KnownLife, "KnownLife", {
    1 node: Varint,
    2 remembered: Nested,
});

message!(Setting, "Setting", {
    1 name: Text,
    2 value: Varint,
});

message!(Envelope, "Envelope", {
    1 from: Nested,
    2 to: Nested,
    3 message: Nested,
    4 epoch: Varint,
});

message!(Hello, "Hello", {
    1 cluster: Fixed64,
    2 peer: Nested,
    3 site: Text,
    4 credential: Optional<Nested>,
    5 event_loop: Varint,
});

alternatives!(Peer, "Peer", fields {
    1 Node: Varint,
    2 Client: Fixed64,
});

message!(Welcome, "Welcome", {
    1 cluster: Fixed64,
    2 node: Varint,
    3 site: Text,
    4 version: Text,
    5 further_event_loops: Varint,
});

message!(Directory, "Directory", {
    1 topology: Nested,
    2 system: Nested,
});
