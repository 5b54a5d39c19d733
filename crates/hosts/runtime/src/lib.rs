//! The real world around the machines: timers and sockets.
//!
//! A machine (see [`quorate_core::machine`]) never waits and never does I/O. This crate carries out what machines ask
//! for, the same way for a server, which hosts replicas, and for a client, which hosts a coordinator:
//!
//! ```text
//!   sockets ── readers ──▶ Host::on_packet ──▶ Driver::step ──▶ Carrier: send, persist, emit
//!                             ▲                    │                        │
//!              Transport::with (user calls)     timers,              per-link buffers, log
//!                                               held sends                  │
//!                       end of turn: Host::on_turn_end, one log write per log, one write per dirty link
//! ```
//!
//! * [`quorate_driver`]: [`Driver`] hosts one machine, here as in the simulator. It keeps the machine's timers and holds
//!   sends and events back until what was persisted before them is durable.
//! * [`transport`]: [`Transport`] hosts the connections of one process and one
//!   [`Host`], the code that owns the drivers. All of it is tasks on the tokio runtime of the caller that
//!   starts it; the host stands behind one mutex, which on a `current_thread` runtime is never contended, so a call of
//!   a user steps the coordinator in place, without a hop to another task or thread.
//! * [`conversation`]: a few questions to one node, for programs that have no transport yet.
//! * [`wan`]: emulated wide-area delay between sites.
//! * [`secure`]: the bytes of a connection, as they are or through TLS.
//! * [`clock`]: the two kinds of time, read once per turn.
//! * [`ports`]: where a cluster can listen that runs for a while.
//!
//! # One turn
//! A reader task reads all that its socket has, decodes it and gives it to the host, which steps machines; what they
//! send gathers in one buffer per link. The first change of a turn wakes the turn task, which stands behind all readers
//! that were woken with it; when it runs it lets the host write its logs ([`Host::on_turn_end`]) and then writes each
//! dirty link to its socket, once. So a turn costs one read per readable socket, one write per log and one write per
//! peer, however many messages there were.
//!
//! [`Host::on_turn_end`]: transport::Host::on_turn_end
//!
//! # How to host a machine
//! A host owns its [`Driver`]s, implements [`Host`] and gives each step a
//! [`Carrier`], typically a short-lived struct of `&mut` borrows of its routes and of the
//! [`Turn`]:
//!
//! ```text
//! impl Host for ClientHost {
//!     fn on_link_up(&mut self, link: LinkId, remote: &Remote, turn: &mut Turn<'_>) { /* node id → link; Command::Reachable */ }
//!     fn on_link_down(&mut self, link: LinkId, remote: &Remote, reason: &str, turn: &mut Turn<'_>) { … }
//!     fn on_packet(&mut self, link: LinkId, packet: Packet, turn: &mut Turn<'_>) -> Result<(), Violation> {
//!         if let Packet::Envelope(Envelope { from, epoch, message: ProtocolMessage::Tapir(message), .. }) = packet {
//!             let mut carrier = Carrier { routes: &self.routes, waiters: &mut self.waiters, turn };
//!             self.coordinator.step(turn.time, Input::Message { from, epoch, message }, &mut carrier);
//!         }
//!         Ok(())
//!     }
//!     fn on_turn_end(&mut self, turn: &mut Turn<'_>) { self.coordinator.fire_timers(turn.time, …) }
//!     fn next_deadline(&mut self) -> Option<Instant> { self.coordinator.next_deadline() }
//! }
//!
//! let options = Options::new(cluster, Peer::Client(client), site);
//! let (transport, turns) = Transport::start(host, options, Clock::start(), TurnWaker::default()); // on the caller's runtime
//! let dialled = transport.dial(Target { address, expect: Some(node), event_loop: 0 });     // connects, and again whenever it breaks
//! transport.with(|host, turn| host.begin(transaction, turn));               // a user's call
//! ```

pub mod clock;
pub mod conversation;
pub mod ports;
pub mod secure;
pub mod transport;
pub mod wan;

pub use clock::{Clock, Time};
pub use quorate_driver::{Carrier, Driver, Kept, Mark};
pub use transport::{Host, LinkId, Transport, Turn};

/// Notes that a machine has dropped an input, for this reason.
pub fn log_ignored(reason: &'static str) {
    tracing::debug!(reason, "a machine drops an input");
}
