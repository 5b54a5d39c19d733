//! What Quorate says on sockets and writes to disks, as bytes.
//!
//! ```text
//!   TCP stream   = frame, frame, …                 frame: length, CRC, version byte, payload
//!   payload      = packet, packet, …               packet: handshake, directory, or an envelope around a message
//!   message      = fields by number                protocol buffers, so that versions and languages can mix
//! ```
//!
//! The encoding is protocol buffers, declared as tables over the types that the machines use: there is no second set of
//! structs and no copy between them. `docs/wire-format.md` lists every frame, packet and field number.
//!
//! Bytes from outside are untrusted. Decoding never panics, allocates in proportion to what has arrived, refuses keys,
//! values and transactions above the documented limits, and copies keys and values out, so that a small value does not
//! keep a large frame in memory. A field that is not known is skipped; a field that is missing takes its default, or is
//! refused where it has none.
//!
//! | module | what it is about |
//! |---|---|
//! | [`frame`] | cutting a stream into checked frames, and batching packets into them |
//! | [`packet`] | what one end of a connection says to the other |
//! | [`record`] | what a replica writes to its log |
//! | [`catalogue`] | how the built-in keyspace `_system` stores the other keyspaces |
//! | [`codec`] | the trait and the tables |

mod baselines;
pub mod catalogue;
pub mod codec;
mod configuration;
mod error;
pub mod frame;
mod granola;
mod groups;
mod ir;
mod log;
pub mod packet;
mod qwstore;
pub mod record;
mod shared;
mod tapir;
mod topology;
mod verify;
mod vocabulary;

pub use codec::{Wire, decode, encode};
pub use error::{DecodeError, Fault, Malformed};
pub use frame::{FRAME_BYTES_MAX, FrameError, FrameReader, FrameWriter};
pub use packet::{
    Directory, Envelope, Hello, KnownLife, Packet, Peer, ProtocolMessage, ReplicaReport, Setting, Welcome,
};
pub use record::{decode_record, encode_record};
