//! The Redis protocol as a door: any Redis client uses any keyspace.
//!
//! ```text
//!   socket ─► codec ─► connection: MULTI, WATCH, SELECT ─► execute: pipelines and transactions ─► plan: parts for shards ─► quorate::Keyspace::call
//!                           └─► local: what touches no key                                 └─► an interactive transaction
//! ```
//!
//! The effect of a command on keys is not known here: it is code of `quorate_redis_commands`, which runs at the shards, or over what an interactive transaction
//! has read. `docs/doors/redis.md` says what differs from Redis.
//!
//! | file | role |
//! |---|---|
//! | [`codec`] | bytes to requests, replies to bytes |
//! | `connection` | one client, from its first byte to its last |
//! | `local` | commands that touch no key: `PING`, `HELLO`, `INFO` and their like |
//! | `plan` | commands divided by shards, and replies put together |
//! | `execute` | pipelines, transactions |
//! | `joint` | commands of several clients as one transaction |
//! | `channels` | publish and subscribe |
//! | `blocking` | commands that wait until there is something to take |
//! | `reading` | commands that wait until there is something to read |
//! | [`databases`] | keyspaces as numbered databases |
//! | `sweeper` | has what is expired or dropped collected |
//! | `scripts` | scripts: kept, run on threads of their own, as transactions |
//! | `functions` | libraries of functions, kept in the database |
//! | `permission` | what a client may touch |
//! | `failure` | what went wrong, in words for a Redis client |

mod blocking;
mod channels;
pub mod codec;
mod connection;
pub mod databases;
mod execute;
mod failure;
mod functions;
mod joint;
mod local;
mod permission;
mod plan;
mod reading;
mod scripts;
mod sweeper;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use connection::serve;
pub use failure::Failure;
pub use joint::Joint;
pub use local::Facts;
pub use permission::Wanted;
use quorate_gateway::{Connection, Door, Session};

/// The door.
#[derive(Clone, Debug)]
pub struct Redis {
    /// The keyspace of each database by its number; none where there is none.
    keyspaces: Arc<[Option<String>]>,
    runs_scripts: bool,
    facts: Arc<Facts>,
}

impl Redis {
    /// A door to these keyspaces: `SELECT 0` chooses the first.
    pub fn new(keyspaces: Vec<Option<String>>) -> Self {
        Redis { keyspaces: keyspaces.into(), runs_scripts: true, facts: Arc::new(Facts::default()) }
    }

    /// The same door, which runs all scripts itself. Servers of an earlier version refuse those that others carry out, so this is for a cluster with such servers.
    pub fn with_scripts_at_the_door(self) -> Self {
        Redis { runs_scripts: false, ..self }
    }
}

impl Door for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn serve<'a>(
        &'a self,
        connection: Connection,
        session: Session,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let databases = databases::Cluster::new(session, Arc::clone(&self.keyspaces), self.runs_scripts);
        Box::pin(serve(connection, databases, &self.facts))
    }

    fn tend<'a>(&'a self, session: Session) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let databases =
            databases::Cluster::new(session.clone(), Arc::clone(&self.keyspaces), self.runs_scripts);
        Box::pin(async move {
            tokio::join!(sweeper::run(databases), channels::hear(&session, &self.facts.channels));
        })
    }

    fn too_many(&self) -> Vec<u8> {
        b"-ERR max number of clients reached\r\n".to_vec()
    }

    fn speaks_tls(&self) -> Vec<u8> {
        b"-ERR this door speaks TLS only: connect with it (redis-cli --tls --cacert FILE)\r\n".to_vec()
    }
}
