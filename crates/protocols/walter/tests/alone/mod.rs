//! A site by itself, and a client by itself: each message that comes, and everything that it leads to, word by word.
//!
//! The site is the first of three, `oak`, `elm` and `iris` are its keys, `apple`, `plum` and `date` those of the second one, `pear`, `fig` and `lime` those of the third.

mod claims;
mod client;
mod commits;
mod consumers;
mod copies;
mod counters;
mod ends;
mod hosting;
mod joining;
mod leaders;
mod locks;
mod moving;
mod peers;
mod reads;
mod removal;
mod roles;
mod strangers;

use std::time::Duration;

use bytes::Bytes;
use quorate_core::hosted::Shards;
use quorate_core::log::LogMachine;
use quorate_core::{ClientId, GroupSize, Instant, Key, KeyRange, ShardId, TransactionId};
use quorate_testscripts::alone::{AloneReplica, Words, replica};
use quorate_walter::message::{Ending, Message, Period, Snapshot, Wanted};
use quorate_walter::{
    LocalSite, Replica, ReplicaConfig, ReplicaEvent, Update, Vector, VersionNumber, entry::Commit,
};

use crate::scripts::describe;

const NOTHING: [&str; 0] = [];

/// A replica of a local site, alone.
type Site = AloneReplica<Replica>;

fn v(numbers: &[u64]) -> Vector {
    Vector::new(numbers.to_vec())
}

fn txn(client: u64, sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(client), sequence, attempt: 0 }
}

fn version(site: u16, seqno: u64) -> VersionNumber {
    VersionNumber { site: LocalSite(site), seqno }
}

fn write(key: &str, value: &str) -> Update {
    Update::Write { key: Key::from(key), value: Some(Bytes::from(value.to_owned())) }
}

fn add(set: &str, element: &str, by: i32) -> Update {
    Update::Add { set: Key::from(set), element: Key::from(element), by }
}

fn register(key: &str) -> Wanted {
    Wanted::Register(Key::from(key))
}

fn all() -> KeyRange {
    KeyRange { from: Key::default(), to: None }
}

fn event(event: &ReplicaEvent) -> String {
    match event {
        ReplicaEvent::Leading { view } => format!("leads {view}"),
        ReplicaEvent::Deposed => "is deposed".to_owned(),
        ReplicaEvent::Consults(question) => match &question.settlement {
            Some(settlement) => format!("proposes {}", describe::settlement(settlement)),
            None => "asks".to_owned(),
        },
    }
}

fn words() -> Words<Replica> {
    let (message, entry, assert_invariants) =
        (describe::message, describe::entry, Replica::assert_invariants as fn(&Replica));
    Words { message, entry, event, assert_invariants }
}

/// A replica of the first of three sites, which follows.
fn backup(change: impl FnOnce(&mut ReplicaConfig)) -> Site {
    let shards = Shards { first: ShardId(1), count: 3 };
    let mut config = ReplicaConfig::new(replica("1/r0"), GroupSize::new(3).unwrap(), shards);
    change(&mut config);
    AloneReplica::new(Replica::new(config), words())
}

/// One that leads, and is sure of it.
fn leader(change: impl FnOnce(&mut ReplicaConfig)) -> Site {
    let mut site = backup(change);
    site.log.lease_until = Some(Instant::START + Duration::from_secs(1_000_000));
    site.leads(0);
    site
}

fn site() -> Site {
    leader(|_| {})
}

/// The effects of a step, without the messages that sites send each other every now and then.
fn but_for_progress(told: Vec<String>) -> Vec<String> {
    told.into_iter().filter(|line| !line.contains("← PROGRESS")).collect()
}

/// The effects of a step that begin like this.
fn only(told: Vec<String>, what: &str) -> Vec<String> {
    told.into_iter().filter(|line| line.contains(what)).collect()
}

fn read_at(client: u64, sequence: u64, snapshot: Snapshot, wanted: Vec<Wanted>) -> Message {
    Message::Read { transaction: txn(client, sequence), request: 1, snapshot, wanted }
}

fn commit_at(client: u64, sequence: u64, snapshot: Snapshot, updates: Vec<Update>) -> Message {
    Message::Commit { transaction: txn(client, sequence), snapshot, period: Period(1), updates }
}

/// A transaction of another site.
fn foreign(site: u16, seqno: u64, snapshot: &[u64], updates: Vec<Update>) -> std::sync::Arc<Commit> {
    let (version, snapshot) = (version(site, seqno), v(snapshot));
    let transaction = txn(100 + u64::from(site), seqno);
    std::sync::Arc::new(Commit { transaction, version, snapshot, updates, is_slow: false })
}

/// The messages that a site needs of others.
trait Speaks {
    /// A client asks for a commit.
    fn is_asked(&mut self, sequence: u64, snapshot: Snapshot, updates: Vec<Update>) -> Vec<String>;

    /// A client writes, and that is stable.
    fn commits(&mut self, sequence: u64, updates: Vec<Update>);

    /// Another site sends transactions.
    fn is_sent(&mut self, from: &str, commits: Vec<std::sync::Arc<Commit>>, durable: u64) -> Vec<String>;

    /// Another site sends this, it is stable, and it has committed here.
    fn takes(&mut self, from: &str, commit: std::sync::Arc<Commit>);

    /// Another site says how far it is.
    fn is_told(&mut self, from: &str, received: u64, committed: &[u64], oldest: &[u64]) -> Vec<String>;
}

impl Speaks for Site {
    fn is_asked(&mut self, sequence: u64, snapshot: Snapshot, updates: Vec<Update>) -> Vec<String> {
        self.hears("c1", commit_at(1, sequence, snapshot, updates))
    }

    fn commits(&mut self, sequence: u64, updates: Vec<Update>) {
        let told = self.is_asked(sequence, Snapshot::New(v(&[])), updates);
        assert!(told[0].starts_with("appends COMMIT"), "{told:?}");
        let told = self.logs();
        assert!(told[0].contains("committed"), "{told:?}");
    }

    fn is_sent(&mut self, from: &str, commits: Vec<std::sync::Arc<Commit>>, durable: u64) -> Vec<String> {
        self.hears(from, Message::Propagate { commits, durable })
    }

    fn takes(&mut self, from: &str, commit: std::sync::Arc<Commit>) {
        let durable = commit.version.seqno;
        self.is_sent(from, vec![commit], durable);
        self.logs();
        self.logs();
    }

    fn is_told(&mut self, from: &str, received: u64, committed: &[u64], oldest: &[u64]) -> Vec<String> {
        let (committed, oldest) = (v(committed), v(oldest));
        self.hears(from, Message::Progress { received, committed, oldest })
    }
}

/// A transaction of the site, as it was committed.
fn ended(told: &[String]) -> bool {
    told.iter().any(|line| line.contains("committed as"))
}

#[test]
fn a_site_that_stands_alone_leads_and_waits_for_its_clients() {
    let mut site = backup(|_| {});
    assert_eq!(site.starts(), NOTHING);
    assert_eq!(site.leads(0), ["leads v0"]);
    assert!(!ended(&site.logs()));
    let told = site.waits(5);
    let progress = "5 ms: 2/r0 ← PROGRESS received 0, ⟨⟩ committed, ⟨⟩ oldest";
    assert_eq!(told, [progress.to_owned(), progress.replace("2/r0", "3/r0")], "it says so to the others");
    assert_eq!(site.waits(494), NOTHING);
    assert_eq!(site.waits(1).len(), 2, "and once in a while");
    assert_eq!(site.is_deposed(), ["is deposed"]);
    assert_eq!(site.is_deposed(), NOTHING);
    assert_eq!(site.waits(60_000), NOTHING, "all that only a leader does is over");
    assert_eq!(site.machine.ending(txn(1, 1)).map(|ending| *ending == Ending::Aborted), None);
}
