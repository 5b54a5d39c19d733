//! A client: which node it speaks to, when it asks again, and what it makes of the answers.

mod nodes;
mod waiting;

use std::sync::Arc;

use quorate_core::command::{Command, Freshness, Routes};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::machine::Machine;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::transaction::KeyVersion;
use quorate_core::{Epoch, KeyspaceId, NodeId};
use quorate_str::message::{Ending, Refusal};
use quorate_str::{Coordinator, CoordinatorConfig};
use quorate_testscripts::alone::AloneClient;

use super::*;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// A client, and the transaction that it is in.
struct Client {
    alone: AloneClient<Coordinator>,
    sequence: u64,
}

/// Two shards and the home 3, of three machines each.
fn routes(epoch: Epoch) -> Arc<Routes> {
    let nodes: Vec<NodeId> = (0..3).map(NodeId).collect();
    let shard = |id: u32| Shard::new(ShardId(id), nodes.clone());
    let keyspace = Keyspace {
        epoch,
        homes: vec![shard(3)],
        ..Keyspace::new(KEYSPACE, "k", Isolation::Snapshot, Durability::Sync, vec![shard(1), shard(2)])
    };
    Arc::new(Routes::new(keyspace, vec![(0..3).map(ReplicaIndex).collect(); 3]))
}

fn version(key: &str, value: &str, micros: u64) -> Found {
    let version = if micros == 0 { Timestamp::ZERO } else { Timestamp { micros, client: ClientId(9) } };
    let value = (!value.is_empty()).then(|| Value::from(value.to_owned()));
    Found::Key(KeyVersion { key: Key::from(key), version, value })
}

fn commits_at(micros: u64) -> Ending {
    let timestamp = Timestamp { micros, client: ClientId(1) };
    Ending::Committed { timestamp, snapshot: at(micros / 2) }
}

fn not_open(sequence: u64) -> String {
    let id = txn(1, sequence);
    let failure = quorate_core::command::Failure::Invalid(quorate_core::command::Invalid::NotOpen(id));
    format!("c1.{sequence} {failure:?}")
}

impl Client {
    fn new() -> Self {
        let coordinator = Coordinator::restore(CoordinatorConfig::new(ClientId(1)), []);
        let alone = AloneClient::new(coordinator, describe::message, describe::event);
        let mut client = Client { alone, sequence: 0 };
        assert_eq!(client.does(Command::Route(routes(Epoch::FIRST))), NOTHING);
        client
    }

    fn does(&mut self, command: Command) -> Vec<String> {
        self.alone.does(command)
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<String> {
        self.alone.hears(from, message)
    }

    fn id(&self) -> TransactionId {
        txn(1, self.sequence)
    }

    fn begins(&mut self) {
        self.sequence += 1;
        let transaction = self.id();
        let told = self.does(Command::Begin { transaction, keyspace: KEYSPACE, patience: PATIENCE });
        assert_eq!(told, NOTHING);
    }

    fn gets(&mut self, keys: &[&str]) -> Vec<String> {
        let (transaction, keys) = (self.id(), keys.iter().map(|key| Key::from(*key)).collect());
        self.does(Command::GetMany { transaction, keys })
    }

    fn puts(&mut self, key: &str, value: &str) -> Vec<String> {
        let (transaction, key) = (self.id(), Key::from(key));
        self.does(Command::Put { transaction, key, value: Some(Value::from(value.to_owned())) })
    }

    fn commits(&mut self) -> Vec<String> {
        let transaction = self.id();
        self.does(Command::Commit { transaction })
    }

    fn reads(&mut self, keys: &[&str]) -> Vec<String> {
        self.sequence += 1;
        let (transaction, keys) = (self.id(), keys.iter().map(|key| Key::from(*key)).collect());
        let (keyspace, freshness, patience) = (KEYSPACE, Freshness::Strict, PATIENCE);
        self.does(Command::ReadOnly { transaction, keyspace, keys, freshness, patience })
    }

    fn is_told(&mut self, from: &str, request: u32, snapshot: u64, found: Vec<Found>) -> Vec<String> {
        let (transaction, snapshot) = (self.id(), at(snapshot));
        let period = Period { life: LIFE, number: 4 };
        self.hears(from, Message::ReadReply { transaction, request, snapshot, found, period })
    }

    fn ends(&mut self, from: &str, ending: Ending) -> Vec<String> {
        let transaction = self.id();
        self.hears(from, Message::CommitReply { transaction, ending })
    }

    fn is_other_period(&mut self, number: u64) -> Vec<String> {
        let (transaction, period) = (self.id(), Period { life: LIFE, number });
        self.hears("3/r0", Message::OtherPeriod { transaction, period })
    }

    fn is_answered(&mut self, from: &str, outcome: Option<Outcome>) -> Vec<String> {
        let transaction = self.id();
        self.hears(from, Message::InquireReply { transaction, outcome })
    }

    fn seen(&self) -> quorate_core::seen::Seen {
        self.alone.machine.seen()
    }
}

#[test]
fn a_transaction_reads_and_commits_at_the_nearest_node() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.gets(&["oak", "elm"]), ["3/r0 ← READ c1.1 oak elm above @0"]);
    assert_eq!(client.alone.machine.home_of(txn(1, 1)), Some(ShardId(3)));
    assert_eq!(client.gets(&["iris"]), ["3/r0 ← READ c1.1 iris above @0"]);
    assert_eq!(client.is_told("3/r1", 1, 700, vec![]), ["✗ nothing waits under this name"], "another node");
    let told = client.is_told("3/r0", 1, 700, vec![version("oak", "x", 5), version("elm", "", 0)]);
    assert_eq!(told, ["c1.1 begins @700", "c1.1 got oak = x", "c1.1 got elm = nothing"]);
    assert_eq!(client.is_told("3/r0", 1, 700, vec![]), ["✗ answered already"]);
    assert_eq!(
        client.is_told("3/r0", 2, 700, vec![version("iris", "i", 5)]),
        ["c1.1 got iris = i"],
        "it has begun"
    );
    assert_eq!(client.gets(&["oak"]), ["c1.1 got oak = x"]);
    assert_eq!(client.gets(&["moss"]), ["3/r0 ← READ c1.1 moss @700"]);
    assert_eq!(
        client.is_told("3/r0", 3, 700, vec![version("oak", "x", 5)]),
        ["✗ no coordinator sends this"],
        "of another key"
    );
    client.puts("oak", "y");
    client.puts("apple", "z");
    assert_eq!(client.commits(), ["3/r0 ← COMMIT c1.1 apple=z oak=y"], "ascending");
    assert_eq!(client.commits(), [not_open(1)]);
    assert_eq!(client.ends("3/r1", commits_at(900)), ["✗ answered already"]);
    assert_eq!(client.ends("3/r0", commits_at(900)), ["c1.1 COMMITTED @900"]);
    assert_eq!(client.ends("3/r0", commits_at(900)), ["✗ answered already"]);
    assert!(client.alone.machine.is_idle());
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r0 ← READ c1.2 oak above @900"], "its session is in order");
    client.does(Command::Observe { timestamp: at(400) });
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r0 ← READ c1.3 oak above @900"]);
    client.does(Command::Observe { timestamp: at(4_000) });
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r0 ← READ c1.4 oak above @4000"]);
    assert_eq!(client.seen(), quorate_core::seen::Seen::at(at(4_000)));
}

#[test]
fn what_has_touched_nothing_is_over_at_once() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.commits(), ["c1.1 COMMITTED @0"]);
    assert_eq!(client.reads(&[]), ["c1.2 COMMITTED @0"]);
    assert_eq!(client.reads(&["oak"]), ["3/r0 ← READ c1.3 oak above @0"]);
    let told = client.is_told("3/r0", 1, 700, vec![version("oak", "x", 5)]);
    assert_eq!(
        told,
        ["c1.3 begins @700", "c1.3 got oak = x", "3/r0 ← COMMIT c1.3 "],
        "it may have read what is not final"
    );
    assert_eq!(client.ends("3/r0", commits_at(700)), ["c1.3 COMMITTED @700"]);
    let scan = Command::ReadOnlyScan {
        transaction: txn(1, 9),
        keyspace: KEYSPACE,
        range: KeyRange { from: Key::from("z"), to: Some(Key::from("a")) },
        limit: 5,
        freshness: Freshness::Strict,
        patience: PATIENCE,
    };
    assert_eq!(client.does(scan), ["c1.9 scanned", "c1.9 COMMITTED @700"], "an empty range");
}

#[test]
fn a_refusal_is_told_as_what_it_means_to_a_client() {
    for (refusal, told) in [
        (Refusal::Conflict, "CONFLICT"),
        (Refusal::Overwritten(at(5)), "CONFLICT"),
        (Refusal::Misspeculated, "CONFLICT"),
        (Refusal::Lost, "CONFLICT"),
        (Refusal::Overloaded, "CONFLICT"),
        (Refusal::TooOld(at(5)), "TOO OLD"),
        (Refusal::Ahead(at(5)), "CONFLICT"),
        (Refusal::Unavailable(ShardId(2)), "UNAVAILABLE"),
    ] {
        let mut client = Client::new();
        client.begins();
        client.gets(&["oak"]);
        let doomed = |transaction| Message::Doomed { transaction, refusal };
        assert_eq!(client.hears("3/r1", doomed(txn(1, 1))), ["✗ answered already"]);
        assert_eq!(client.hears("3/r0", doomed(txn(1, 1))), [format!("c1.1 {told}")]);
        client.begins();
        client.puts("oak", "x");
        client.commits();
        assert_eq!(client.hears("3/r0", doomed(txn(1, 2))), ["✗ answered already"], "it is to commit");
        assert_eq!(client.ends("3/r0", Ending::Aborted(refusal)), [format!("c1.2 {told}")]);
    }
    let mut client = Client::new();
    client.does(Command::Observe { timestamp: at(400) });
    client.begins();
    client.gets(&["oak"]);
    let doomed = Message::Doomed { transaction: txn(1, 1), refusal: Refusal::Ahead(at(100)) };
    let told = client.hears("3/r0", doomed);
    assert!(told[0].contains("SeenAhead { ahead_micros: 300 }"), "{told:?}");
    client.begins();
    client.gets(&["oak"]);
    let doomed = Message::Doomed { transaction: txn(1, 2), refusal: Refusal::Ahead(at(400)) };
    assert_eq!(client.hears("3/r0", doomed), ["c1.2 CONFLICT"], "it is another one's");
    let early = client.ends("3/r0", commits_at(7));
    assert_eq!(early, ["✗ answered already"]);
}

#[test]
fn a_silent_node_is_asked_again_and_left_for_the_next() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    assert_eq!(client.alone.waits(499), NOTHING);
    let again = |after: u64| format!("{after} ms: 3/r0 ← READ c1.1 oak above @0");
    assert_eq!(client.alone.waits(1), [again(1)]);
    assert_eq!(client.alone.waits(500), [again(500)]);
    assert_eq!(client.alone.waits(500), ["500 ms: c1.1 CONFLICT"], "three are enough");
    assert!(client.alone.machine.is_idle());
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r1 ← READ c1.2 oak above @0"]);
    // It waits twice as long there, since it may be further away.
    assert_eq!(client.alone.waits(999), NOTHING);
    assert_eq!(client.alone.waits(1), ["1 ms: 3/r1 ← READ c1.2 oak above @0"]);
    // A node that says that it lives is waited for.
    let lives = |client: &mut Client| client.hears("3/r1", Message::UnderWay { transaction: txn(1, 2) });
    assert_eq!(lives(&mut client), NOTHING);
    assert_eq!(client.hears("3/r2", Message::UnderWay { transaction: txn(1, 2) }), ["✗ answered already"]);
    for _ in 0..4 {
        assert_eq!(client.alone.waits(1_000).len(), 1);
        lives(&mut client);
    }
    client.is_told("3/r1", 1, 700, vec![version("oak", "", 0)]);
    client.puts("oak", "x");
    client.commits();
    client.ends("3/r1", commits_at(900));
    client.begins();
    client.gets(&["oak"]);
    assert_eq!(client.alone.waits(500).len(), 1, "it has committed something there");
}

#[test]
fn a_node_that_cannot_be_reached_is_left_and_a_nearer_one_that_comes_back_is_taken() {
    let mut client = Client::new();
    let reachable =
        |index: u8, reachable| Command::Reachable { replica: replica(&format!("3/r{index}")), reachable };
    client.begins();
    client.gets(&["oak"]);
    client.does(reachable(0, false));
    let again = "3/r0 ← READ c1.1 oak above @0";
    let told = client.alone.waits(1_000);
    assert_eq!(
        told,
        [format!("0 ms: {again}"), format!("500 ms: {again}"), "1000 ms: c1.1 CONFLICT".to_owned()]
    );
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r1 ← READ c1.2 oak above @0"]);
    client.does(reachable(1, false));
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r2 ← READ c1.3 oak above @0"]);
    assert_eq!(client.does(reachable(2, true)), NOTHING, "that is no news");
    client.does(reachable(1, true));
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r1 ← READ c1.4 oak above @0"]);
    client.does(reachable(0, true));
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r0 ← READ c1.5 oak above @0"]);
}

/// No node takes a commit without a period, so the first one was not taken.
#[test]
fn a_commit_that_names_another_period_is_sent_again_or_inquired_after() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    assert_eq!(client.commits(), ["3/r0 ← COMMIT c1.1 oak=x"]);
    assert_eq!(client.is_other_period(4), ["3/r0 ← COMMIT c1.1 oak=x"]);
    assert_eq!(client.is_other_period(4), ["✗ this is known"]);
    assert_eq!(client.is_other_period(6), ["3/r0 ← INQUIRE c1.1 of @1000"], "that may have been taken");
    assert_eq!(client.is_other_period(7), ["✗ answered already"]);
    assert_eq!(client.is_answered("3/r0", Some(committed(900))), ["c1.1 COMMITTED @900"]);
    client.begins();
    assert_eq!(client.is_other_period(7), ["✗ answered already"], "it has not asked for a commit");
    client.puts("oak", "y");
    client.commits();
    assert_eq!(client.is_other_period(8), ["3/r0 ← INQUIRE c1.2 of @1000"], "it knew a period");
    // The node has begun another life, and counts anew.
    let (transaction, period) = (client.id(), Period { life: Life(8), number: 1 });
    client.hears("3/r0", Message::OtherPeriod { transaction, period });
    client.begins();
    client.puts("oak", "y");
    let transaction = client.id();
    client.commits();
    assert_eq!(
        client.hears("3/r0", Message::OtherPeriod { transaction, period }),
        ["✗ this is known"],
        "it names that"
    );
}

#[test]
fn the_outcome_of_a_commit_whose_node_is_silent_is_found_out_at_its_home() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    let told = client.alone.waits(1_500);
    assert_eq!(told[2], "1500 ms: 3/r0 ← INQUIRE c1.1 of @1000", "{told:?}");
    let asks = |after: u64, index: u8| format!("{after} ms: 3/r{index} ← INQUIRE c1.1 of @1000");
    assert_eq!(
        client.alone.waits(3_000),
        [asks(1_000, 1), asks(2_000, 2), asks(3_000, 0)],
        "one after the other"
    );
    let not_leading =
        |leader| Message::NotLeading { transaction: Some(txn(1, 1)), leader: ReplicaIndex(leader) };
    assert_eq!(client.hears("3/r1", not_leading(2)), ["✗ this is known"], "it was not asked last");
    assert_eq!(client.hears("3/r0", not_leading(0)), ["✗ this is known"], "it names itself");
    assert_eq!(client.hears("3/r0", not_leading(2)), ["3/r2 ← INQUIRE c1.1 of @1000"]);
    assert_eq!(client.hears("1/r0", not_leading(2)), ["✗ nothing waits under this name"]);
    // Its node may not have heard of the abort, and still show the local commit: the client turns to another one.
    assert_eq!(client.is_answered("3/r2", Some(Outcome::Aborted)), ["c1.1 CONFLICT"]);
    assert_eq!(client.is_answered("3/r2", Some(Outcome::Aborted)), ["✗ answered already"]);
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r1 ← READ c1.2 oak above @0"]);
}

#[test]
fn a_node_that_may_not_have_heard_of_an_abort_is_asked_about_it() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    client.alone.waits(2_000);
    client.is_answered("3/r1", Some(Outcome::Aborted));
    client.does(Command::Reachable { replica: replica("3/r0"), reachable: false });
    client.does(Command::Reachable { replica: replica("3/r0"), reachable: true });
    client.sequence += 1;
    let transaction = client.id();
    let told = client.does(Command::Begin { transaction, keyspace: KEYSPACE, patience: PATIENCE });
    assert_eq!(told, ["3/r0 ← INQUIRE c1.1 of @1000"]);
    assert_eq!(client.gets(&["oak"]), ["3/r1 ← READ c1.2 oak above @0"]);
    let heard = Message::InquireReply { transaction: txn(1, 1), outcome: Some(Outcome::Aborted) };
    client.hears("3/r0", heard);
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r0 ← READ c1.3 oak above @0"], "it has heard of it");
}

#[test]
fn a_transaction_that_is_given_up_is_unknown_or_unavailable() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    client.is_told("3/r0", 1, 700, vec![version("oak", "", 0)]);
    let told = client.alone.waits(20_000);
    assert_eq!(told, ["20000 ms: 3/r0 ← ABORT c1.1", "20000 ms: c1.1 UNAVAILABLE"]);
    client.begins();
    let told = client.alone.waits(20_000);
    assert_eq!(told, ["20000 ms: c1.2 UNAVAILABLE"], "no node knows of it");
    client.begins();
    client.puts("oak", "x");
    client.commits();
    let told = client.alone.waits(20_000);
    assert_eq!(told.last().unwrap(), "20000 ms: c1.3 UNKNOWN");
    let resolve = |shards: &[u32]| Command::Resolve {
        transaction: txn(1, 3),
        participants: shards.iter().copied().map(ShardId).collect(),
        timestamp: Timestamp { micros: 41_000, client: ClientId(1) },
        patience: PATIENCE,
    };
    assert_eq!(client.does(resolve(&[9])), ["c1.3 resolved: unknown"]);
    assert_eq!(client.does(resolve(&[])), ["c1.3 resolved: unknown"]);
    assert_eq!(client.does(resolve(&[3])), ["3/r0 ← INQUIRE c1.3 of @41000"]);
    assert_eq!(client.does(resolve(&[3])), NOTHING, "it is asked for");
    assert_eq!(client.is_answered("3/r0", Some(committed(900))), ["c1.3 resolved: committed @900"]);
    client.does(resolve(&[3]));
    assert_eq!(client.is_answered("3/r0", None), ["c1.3 is forgotten"]);
    client.does(resolve(&[3]));
    let told = client.alone.waits(20_000);
    assert_eq!(told.last().unwrap(), "20000 ms: c1.3 resolved: unknown");
    assert!(client.alone.machine.is_idle());
}

#[test]
fn a_result_is_shown_once_and_only_to_a_client_that_waits() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    let transaction = client.id();
    let told = client.does(Command::CommitSpeculatively { transaction });
    assert_eq!(told, ["3/r0 ← COMMIT c1.1 oak=x, to be shown"]);
    let shown = |sequence| Message::Shown {
        transaction: txn(1, sequence),
        snapshot: at(700),
        local: at(800),
        chain: 1,
    };
    assert_eq!(client.hears("3/r1", shown(1)), ["✗ answered already"]);
    client.sequence = 8;
    client.begins();
    client.gets(&["oak"]);
    assert_eq!(client.hears("3/r0", shown(9)), ["✗ this is known"], "it has not asked for a commit");
    client.sequence = 1;
    assert_eq!(client.hears("3/r0", shown(1)), ["c1.1 SHOWN @800, 1 in its chain"]);
    assert_eq!(client.hears("3/r0", shown(1)), ["✗ this is known"]);
    // It follows the transaction to its node, and is in order behind it.
    client.begins();
    let after = |id, earlier| Command::After { transaction: txn(1, id), earlier: txn(1, earlier) };
    assert_eq!(client.does(after(2, 2)), ["✗ nothing waits under this name"]);
    assert_eq!(client.does(after(7, 1)), ["✗ nothing waits under this name"]);
    assert_eq!(client.does(after(2, 1)), NOTHING);
    assert_eq!(client.gets(&["oak"]), ["3/r0 ← READ c1.2 oak above @0 after c1.1"]);
    assert_eq!(client.does(after(2, 1)), ["✗ nothing waits under this name"], "a node knows of it");
    // A transaction that was shown and aborts is apologised for: nothing comes after it.
    client.sequence = 1;
    assert_eq!(client.ends("3/r0", Ending::Aborted(Refusal::Misspeculated)), ["c1.1 CONFLICT"]);
    client.sequence = 2;
    client.begins();
    assert_eq!(client.does(after(3, 1)), ["c1.3 CONFLICT"]);
    assert_eq!(client.hears("3/r0", shown(3)), ["✗ answered already"]);
}

/// A transaction that has only read may have committed before that was forgotten, and others after it.
#[test]
fn what_has_only_read_and_was_shown_is_unknown_if_its_home_has_forgotten_it() {
    for (is_shown, expected) in [(true, "c1.1 UNKNOWN"), (false, "c1.1 CONFLICT")] {
        let mut client = Client::new();
        client.begins();
        client.gets(&["oak"]);
        client.is_told("3/r0", 1, 700, vec![version("oak", "", 0)]);
        client.does(Command::CommitSpeculatively { transaction: txn(1, 1) });
        if is_shown {
            let shown =
                Message::Shown { transaction: txn(1, 1), snapshot: at(700), local: at(700), chain: 1 };
            client.hears("3/r0", shown);
        }
        client.alone.waits(2_500);
        assert_eq!(client.is_answered("3/r0", Some(Outcome::Aborted)), [expected]);
    }
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    assert_eq!(
        client.is_answered("3/r0", Some(Outcome::Aborted)),
        ["✗ nothing waits under this name"],
        "it reads"
    );
}

/// A late copy of an earlier read has begun it anew: this is another snapshot.
#[test]
fn a_transaction_with_two_snapshots_conflicts() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    client.gets(&["elm"]);
    client.is_told("3/r0", 1, 700, vec![version("oak", "", 0)]);
    assert_eq!(client.is_told("3/r0", 2, 800, vec![version("elm", "", 0)]), ["c1.1 CONFLICT"]);
    client.begins();
    client.gets(&["oak"]);
    let told = client.is_told("3/r0", 1, 700, vec![]);
    assert_eq!(told, ["✗ no coordinator sends this", "c1.2 CONFLICT"]);
}

#[test]
fn an_abort_is_told_to_a_node_that_may_know_of_the_transaction() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.does(Command::Abort { transaction: txn(1, 1) }), ["c1.1 ABORTED"]);
    assert_eq!(client.does(Command::Abort { transaction: txn(1, 1) }), [not_open(1)]);
    client.begins();
    client.gets(&["oak"]);
    let told = client.does(Command::Abort { transaction: txn(1, 2) });
    assert_eq!(told, ["3/r0 ← ABORT c1.2", "c1.2 ABORTED"]);
    client.begins();
    client.puts("oak", "x");
    client.commits();
    assert_eq!(client.does(Command::Abort { transaction: txn(1, 3) }), [not_open(3)]);
    let long = "x".repeat(quorate_core::transaction::KEY_BYTES_MAX + 1);
    client.begins();
    client.gets(&["oak"]);
    let told = client.gets(&[&long]);
    assert_eq!(told[0], "3/r0 ← ABORT c1.4", "{told:?}");
    assert!(told[1].starts_with("c1.4 Invalid(Limit("), "{told:?}");
    client.begins();
    let told = client.puts(&long, "x");
    assert!(told.len() == 1 && told[0].starts_with("c1.5 Invalid(Limit("), "{told:?}");
    assert!(client.reads(&[&long])[0].starts_with("c1.6 Invalid(Limit("));
    let begins =
        |keyspace, sequence| Command::Begin { transaction: txn(1, sequence), keyspace, patience: PATIENCE };
    assert!(client.does(begins(KeyspaceId(8), 90))[0].contains("UnknownKeyspace"));
    assert_eq!(client.does(begins(KEYSPACE, 3)), [not_open(3)]);
    assert_eq!(client.does(Command::Get { transaction: txn(1, 99), key: Key::from("oak") }), [not_open(99)]);
    assert_eq!(
        client.does(Command::Put { transaction: txn(1, 99), key: Key::from("oak"), value: None }),
        [not_open(99)]
    );
    let told = client.does(Command::Set {
        transaction: txn(1, 99),
        call: quorate_core::command::SetCall::Count { set: Key::from("s"), element: Key::from("e") },
    });
    assert!(told[0].contains("Unsupported"), "{told:?}");
}

#[test]
fn a_scan_has_what_the_snapshot_and_the_transaction_have() {
    let mut client = Client::new();
    client.begins();
    client.puts("fig", "own");
    let scan = |from: &str, limit| Command::Scan {
        transaction: txn(1, 1),
        range: KeyRange { from: Key::from(from), to: Some(Key::from("z")) },
        limit,
    };
    assert_eq!(client.does(scan("a", 9_000)), ["3/r0 ← READ c1.1 1000 of a..z above @0"]);
    let page = Found::Range {
        keys: ["elm", "oak"]
            .map(|key| KeyVersion {
                key: Key::from(key),
                version: Timestamp { micros: 5, client: ClientId(9) },
                value: Some(Value::from("v")),
            })
            .to_vec(),
        next: Some(Key::from("pear")),
    };
    let told = client.is_told("3/r0", 1, 700, vec![page]);
    assert_eq!(told, ["c1.1 begins @700", "c1.1 scanned elm=v fig=own oak=v … pear"]);
    assert_eq!(client.does(scan("z", 5)), ["c1.1 scanned"]);
    client.does(scan("a", 5));
    let told = client.is_told("3/r0", 2, 700, vec![version("oak", "", 0)]);
    assert_eq!(told, ["✗ no coordinator sends this"]);
}

#[test]
fn a_client_is_told_nothing_that_is_for_replicas() {
    let mut client = Client::new();
    for message in [
        Message::Applied { transaction: txn(1, 1) },
        Message::NotLeading { transaction: None, leader: ReplicaIndex(1) },
        Message::AskTime { life: LIFE },
    ] {
        assert_eq!(client.hears("3/r0", message.clone()), ["✗ only replicas are told so"], "{message:?}");
    }
    let reply = || Message::UnderWay { transaction: txn(1, 1) };
    let told = client.alone.hears_under(Epoch(3), "3/r0", reply());
    assert!(told.iter().any(|line| line.contains("Outdated")), "{told:?}");
    assert_eq!(client.alone.hears_under(Epoch(3), "3/r0", reply()), ["✗ answered already"]);
    let told = client.alone.hears_under(Epoch::FIRST, "9/r0", reply());
    assert_eq!(told, ["✗ another membership than the coordinator's"]);
    assert_eq!(client.alone.machine.epoch(replica("3/r0").into()), Epoch::FIRST);
    client.does(Command::Route(routes(Epoch(3))));
    assert_eq!(client.alone.machine.epoch(replica("3/r0").into()), Epoch(3));
}
