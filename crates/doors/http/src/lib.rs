//! HTTP and JSON as a door: curl, and any program that speaks HTTP, uses any keyspace.
//!
//! ```text
//!   socket ─► hyper: HTTP/1.1 within bounds ─► routes ─► request: parameters, body, deadline ─► keys, batch, procedures, keyspaces ─► quorate::Keyspace
//!                                                           └─► repeats: an answer that was given before
//! ```
//!
//! The routes are one table, from which requests are dispatched and the OpenAPI document is made. Every error is a problem (RFC 9457) that says whether anything can have
//! happened. `docs/doors/http.md` tells how it is used.
//!
//! | file | role |
//! |---|---|
//! | `connection` | one client, from its first byte to its last |
//! | `routes` | the table of addresses and methods |
//! | `request` | a request, from what has arrived to what it asks for |
//! | `answer`, `problem` | what is replied, and what went wrong |
//! | `keys`, `batch`, `objects`, `procedures`, `keyspaces` | what is done |
//! | `pages` | the pages of a node for operators |
//! | `console` | a page for people that shows how the cluster is |
//! | `login` | the user of a request |
//! | `repeats` | requests that are repeated |
//! | `sessions` | what a client has seen, carried between nodes |
//! | `openapi` | the routes as an OpenAPI document |
//! | [`trace`] | one transaction with its messages |
//! | [`text`] | bytes as text |
//! | [`validate`] | requests that are read, and no more |

mod answer;
mod batch;
mod connection;
mod console;
mod feed;
mod feed_events;
mod indexes;
mod keys;
mod keyspaces;
mod login;
mod objects;
mod once;
mod openapi;
mod pages;
mod problem;
mod procedures;
mod repeats;
mod request;
mod routes;
mod sessions;
pub mod text;
pub mod trace;
pub mod validate;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use console::Console;
use quorate_gateway::{Connection, Door, Session};
pub use repeats::RepeatLimits;
use repeats::Repeats;

/// The door.
#[derive(Clone, Debug)]
pub struct Http {
    repeats: Arc<Repeats>,
    console: Arc<Console>,
    pages: Option<pages::Source>,
}

impl Http {
    /// A door to all keyspaces of a cluster.
    pub fn new() -> Self {
        Self::with_repeats(RepeatLimits::default())
    }

    /// The same, which remembers so much of requests that have an idempotency key.
    pub fn with_repeats(limits: RepeatLimits) -> Self {
        Http { repeats: Arc::new(Repeats::new(limits)), console: Arc::new(Console::new()), pages: None }
    }

    /// Passes on requests for the pages of a node for operators (`/metrics`, `/health`, `/status` and their like), which it serves at this address
    /// to who shows this token.
    #[must_use]
    pub fn with_pages(self, node: SocketAddr, token: Option<String>) -> Self {
        Http { pages: Some(pages::Source { node, token }), ..self }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl Door for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn serve<'a>(
        &'a self,
        connection: Connection,
        session: Session,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(connection::serve(connection, session, &self.repeats, &self.console, self.pages.as_ref()))
    }

    fn tend<'a>(&'a self, session: Session) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(self.console.run(session))
    }

    fn too_many(&self) -> Vec<u8> {
        connection::no_room_in_words()
    }

    fn speaks_tls(&self) -> Vec<u8> {
        connection::wants_tls_in_words()
    }
}
