//! The messages that Quorate sends on sockets and the records that it writes to disks, as bytes.
//!
//! ```text
//!   TCP stream   = frame, frame, …                 frame: length, CRC, version byte, payload
//!   payload      = packet, packet, …               packet: handshake, directory, or an envelope around a message
//!   message      = fields by number                protocol buffers, so that versions and languages can mix
//! ```
//!
//! The encoding is protocol buffers, declared as tables over the types that the machines use: there is no second set of
//! structs and no copy between them. `docs/wire-format.md` has the frames and the rules, and `docs/wire-format.proto` every message.
//!
//! The tables are those of [`quorate_codec`], and stand in the crates of the types that they encode: the vocabulary's in the
//! codec, each protocol's in its folder. This crate joins them: frames, packets, records and the catalogue.
//!
//! | module | what it is about |
//! |---|---|
//! | [`frame`] | cutting a stream into checked frames, and batching packets into them |
//! | [`packet`] | what one end of a connection says to the other |
//! | [`record`] | what a replica writes to its log |
//! | [`catalogue`] | what the configuration service keeps, which clients see as the built-in keyspace `_system` |
//! | [`version`] | protocol versions: which nodes may work together |
//! | [`rights`] | the senders that each message may have, and its demand on a client |
//! | `event_loops` | which event loop of a node a shard belongs to |
//! | `schema` | all messages as data, from which `docs/wire-format.proto` is written |

pub mod catalogue;
mod event_loops;
pub mod frame;
pub mod packet;
mod protocols;
pub mod record;
pub mod rights;
mod schema;
pub mod version;

pub use event_loops::event_loop_of;
pub use frame::{FRAME_BYTES_MAX, FrameError, FrameReader, FrameWriter};
pub use packet::{
    About, Credential, Denial, Directory, Envelope, Hello, KnownLife, Packet, Peer, ReplicaReport, Setting,
    Welcome,
};
pub use protocols::{EachProtocol, ProtocolMessage, Serializable, each_protocol};
pub use quorate_codec::{DecodeError, Fault, Malformed, Wire, decode, encode};
pub use record::{decode_record, encode_record, record_alternative};
pub use schema::schema;
pub use version::{ProtocolVersion, Window};
