//! One machine by itself: each step is told with all that it leads to, also when it looks again.
//!
//! In a cluster a question that is asked once too often is answered all the same. Here it is one line more.

mod client;
mod replica;
mod words;

use quorate_configuration::{Coordinator, Subscriber};
use quorate_core::Instant;

/// The machine of a script.
#[expect(private_interfaces, reason = "a script knows its machine by this alone")]
pub(super) enum Alone {
    Coordinator(client::Alone<Coordinator>),
    Subscriber(client::Alone<Subscriber>),
    Replica(Box<replica::Alone>),
}

impl Alone {
    /// The machine of this kind: a replica has bounds, if any are named.
    pub(super) fn new(kind: &[&str]) -> Self {
        match *kind {
            ["coordinator"] => Alone::Coordinator(client::Alone::new()),
            ["subscriber"] => Alone::Subscriber(client::Alone::new()),
            ["replica", ref bounds @ ..] => Alone::Replica(Box::new(replica::Alone::new(bounds))),
            _ => panic!("there is no machine {kind:?}"),
        }
    }

    /// Carries out a command.
    pub(super) fn command(&mut self, line: &str, told: &mut Vec<String>) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match self {
            Alone::Coordinator(coordinator) => coordinator.command(&words, told),
            Alone::Subscriber(subscriber) => subscriber.command(&words, told),
            Alone::Replica(replica) => replica.command(&words, told),
        }
    }
}

/// Milliseconds since the script began.
fn since_start(at: Instant) -> String {
    format!("{} ms", at.saturating_since(Instant::START).as_millis())
}
