//! The machine of a node: it reads, certifies and speculates for clients.

mod committing;
mod depending;
mod ending;
mod leading;
mod reading;
mod trusting;
mod tuning;
mod versions;

use quorate_core::topology::Grants;
use quorate_core::transaction::{KeyVersion, TRANSACTION_ENTRIES_MAX};
use quorate_str::message::{Refusal, Unreadable};
use quorate_str::{Shows, Variant};

use super::*;

/// The machine of a node that has the first replica of the first shard, and none of the second.
struct Home {
    alone: Alone,
    life: Life,
}

/// The life of the replica on its node.
const NEIGHBOUR: Life = Life(5);

impl Home {
    fn new() -> Self {
        Home::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let mut home = Home::uncompared(change);
        assert_eq!(home.hears("1/r0", Message::Bound { until: at(9_000_000), clock: at(1_000) }), NOTHING);
        home
    }

    /// One that has heard of no clock.
    fn uncompared(change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let mut alone = machine("3/r0", change);
        assert_eq!(alone.starts(), ["1/r0 ← ASK-TIME", "2/r0 ← ASK-TIME"]);
        let life = life_of(&alone);
        let told = alone.does(ReplicaCommand::Meet(vec![replica("1/r0")]));
        assert_eq!(told, ["1/r0 ← HELLO, and who are you?"]);
        let mut home = Home { alone, life };
        assert_eq!(home.hears("1/r0", Message::Hello { life: NEIGHBOUR, wants: true }), ["1/r0 ← HELLO"]);
        home
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<String> {
        self.alone.hears(from, message)
    }

    fn reads(&mut self, client: u64, sequence: u64, wanted: Vec<Wanted>) -> Vec<String> {
        self.reads_after(client, sequence, Session::default(), wanted)
    }

    fn reads_after(
        &mut self,
        client: u64,
        sequence: u64,
        session: Session,
        wanted: Vec<Wanted>,
    ) -> Vec<String> {
        let message =
            Message::Read { transaction: txn(client, sequence), session, snapshot: None, request: 1, wanted };
        self.hears(&format!("c{client}"), message)
    }

    fn commits(&mut self, client: u64, sequence: u64, words: &str) -> Vec<String> {
        self.commits_after(client, sequence, Session::default(), words)
    }

    fn commits_after(&mut self, client: u64, sequence: u64, session: Session, words: &str) -> Vec<String> {
        let message = self.commit(client, sequence, session, words);
        self.hears(&format!("c{client}"), message)
    }

    fn commit(&self, client: u64, sequence: u64, session: Session, words: &str) -> Message {
        Message::Commit {
            knows_indexes: false,
            transaction: txn(client, sequence),
            session,
            snapshot: None,
            period: Period { life: self.life, number: 1 },
            begun: at(900),
            writes: writes(words),
            shows: true,
        }
    }

    /// A replica has found these.
    fn is_told(&mut self, from: &str, request: u64, found: Vec<Found>) -> Vec<String> {
        self.is_told_with(from, request, found, 0)
    }

    /// The same, and where it lacks nothing.
    fn is_told_with(&mut self, from: &str, request: u64, found: Vec<Found>, floor: u64) -> Vec<String> {
        let (life, floor) = (self.life, at(floor));
        self.hears(from, Message::ReadAtReply { life, request, found, floor })
    }

    fn is_voted_here(&mut self, client: u64, sequence: u64, proposal: u64) -> Vec<String> {
        let (transaction, proposal) = (txn(client, sequence), at(proposal));
        self.hears("1/r0", Message::LocalVote { transaction, life: NEIGHBOUR, proposal, leads: true })
    }

    fn is_prepared(
        &mut self,
        from: &str,
        client: u64,
        sequence: u64,
        proposal: u64,
        holders: Vec<Holder>,
    ) -> Vec<String> {
        let (transaction, view, proposal) = (txn(client, sequence), View(0), at(proposal));
        self.hears(from, Message::Prepared { transaction, view, proposal, holders })
    }

    fn is_recorded(&mut self, client: u64, sequence: u64, micros: u64) -> Vec<String> {
        let outcome = Outcome::Committed(Timestamp { micros, client: ClientId(client) });
        self.hears("3/r1", Message::Recorded { transaction: txn(client, sequence), outcome })
    }

    /// A transaction of the node that has written to its own shard has committed locally.
    fn commits_locally(&mut self, client: u64, sequence: u64, words: &str, proposal: u64) {
        self.commits(client, sequence, words);
        let told = self.is_voted_here(client, sequence, proposal);
        assert!(told[0].contains("SHOWN"), "{told:?}");
    }
}

fn version(key: &str, value: &str, micros: u64) -> Found {
    let version = if micros == 0 { Timestamp::ZERO } else { Timestamp { micros, client: ClientId(9) } };
    let value = (!value.is_empty()).then(|| Value::from(value.to_owned()));
    Found::Key(KeyVersion { key: Key::from(key), version, value })
}

fn holder(index: u8, until: u64) -> Holder {
    Holder { replica: ReplicaIndex(index), life: Life(3), until: at(until) }
}

fn after(sequence: u64) -> Session {
    Session { seen: at(0), after: Some(txn(1, sequence)) }
}

fn seen(micros: u64) -> Session {
    Session { seen: at(micros), after: None }
}
