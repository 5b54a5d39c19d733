//! The gateway: what all doors have in common.
//!
//! A door speaks another protocol and coordinates for its clients. It knows that protocol and none of the cluster's; the gateway knows neither. It
//! stands on the public client, as any program could.
//!
//! ```text
//!   listener ─► a thread of the gateway: accepts, counts, bounds ─► Door::serve(Connection, Session) ─► quorate::Keyspace
//! ```
//!
//! - Threads of its own: what a door does, however long, delays no vote of the node beside it. Each thread has a [`Database`](quorate::Database), which is the
//!   session of all its connections: what one of them has seen, what it does next comes after.
//! - Memory is bounded, per connection and in all ([`Limits`]). A client that goes beyond is told, and cut off; a client that does not read its replies is not read
//!   from either.
//! - Rights are asked in one place, [`Session::require`], for every request, from a copy of the cluster's users and roles that is less than a second old.
//!
//! | file | role |
//! |---|---|
//! | `connection` | a socket, and the bytes that wait on it |
//! | `memory` | how much all connections hold |
//! | `socket` | plain, or secured by TLS |
//! | `stream` | a connection whose bytes a library reads and writes, and the account of what it holds |
//! | `session` | the login of a connection, and the keyspaces that it uses |
//! | `authority` | what it may do |
//! | `access` | the copy of users, roles and tokens |
//! | `meter` | what users use, for those that have limits |
//! | `threads` | listeners and threads, from start to stop |

mod access;
mod authority;
mod connection;
mod memory;
mod meter;
mod session;
mod socket;
mod stream;
mod threads;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use authority::{Denied, Permit, Right};
pub use connection::{Connection, Ended};
pub use memory::Memory;
pub use meter::{Limited, Place};
pub use quorate::credentials::Password;
pub use quorate::rights::Scope;
pub use quorate_logins::{Audit, LoginError};
pub use session::Session;
pub use stream::{Account, Stream};
pub use threads::{Gateway, Options};

/// A language.
pub trait Door: Send + Sync + 'static {
    /// The name of the door, for logs.
    fn name(&self) -> &'static str;

    /// Serves a connection to its end.
    fn serve<'a>(
        &'a self,
        connection: Connection,
        session: Session,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

    /// The work of the door beside serving clients, on one thread, as long as it is open.
    fn tend<'a>(&'a self, session: Session) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        drop(session);
        Box::pin(std::future::ready(()))
    }

    /// The last words to a client that is cut off, because there are too many.
    fn too_many(&self) -> Vec<u8>;

    /// The words to a client that speaks plain text where the door speaks TLS.
    fn speaks_tls(&self) -> Vec<u8>;
}

/// The bounds within which the gateway works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are open at a time, over all doors.
    pub connections_max: usize,
    /// How many bytes of requests and replies one connection may hold.
    pub connection_bytes_max: usize,
    /// How many bytes all connections may hold together.
    pub bytes_max: usize,
    /// How long a request may take in all.
    pub deadline: Duration,
    /// How long a request may take to arrive once it has begun, and a client to take some of what waits for it.
    pub stall_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            connection_bytes_max: 64 * 1024 * 1024,
            bytes_max: 512 * 1024 * 1024,
            deadline: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
        }
    }
}
