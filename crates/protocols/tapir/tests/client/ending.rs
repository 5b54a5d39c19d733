//! From the outcome until it is forgotten, and what becomes of a transaction that others settle.

use quorate_core::command::Outcome;

use super::*;

const NOTHING: [&str; 0] = [];

impl Client {
    /// A transaction has committed on the fast path.
    fn has_committed(&mut self, replicas: u8) {
        self.writes(&["a"]);
        for index in 0..replicas {
            self.hears_vote(&format!("1/r{index}"), Vote::Ok);
        }
    }

    fn resolves(&mut self, patience: u64) -> Vec<String> {
        self.does(Command::Resolve {
            transaction: self.transaction,
            participants: vec![ShardId(1)],
            timestamp: at(700),
            patience: Duration::from_millis(patience),
        })
    }

    fn is_superseded(&mut self) -> Vec<String> {
        let (transaction, promised) = (self.transaction, quorate_core::Ballot(3));
        self.hears("1/r0", Message::Superseded { transaction, promised })
    }

    fn hears_outcome(&mut self, outcome: Outcome) -> Vec<String> {
        let transaction = self.transaction;
        self.hears("1/r0", Message::RecoverReply { transaction, outcome })
    }
}

/// When it was asked to recover something, and by which replica.
fn asked(told: &[String]) -> Vec<(&str, &str)> {
    let recovers = told.iter().filter(|line| line.contains("recover"));
    recovers.map(|line| (line.split(' ').next().unwrap(), line.split(' ').nth(2).unwrap())).collect()
}

#[test]
fn an_outcome_is_told_until_all_that_can_be_expected_know_it() {
    let mut client = Client::new(3);
    client.has_committed(3);
    assert_eq!(client.hears_told("1/r0"), NOTHING);
    let again = ["1000 ms: 1/r1 1/r2 ← commit all at 1000", "3000 ms: 1/r1 1/r2 ← commit all at 1000"];
    assert_eq!(client.waits(3_500), again);
    assert_eq!(client.hears_told("1/r1"), NOTHING);
    client.knows("1/r2", false);
    assert_eq!(client.waits(60_000), NOTHING, "the third learns of it when it comes back");

    let mut client = Client::new(3);
    client.has_committed(3);
    for replica in ["1/r0", "1/r1", "1/r2"] {
        assert_eq!(client.hears_told(replica), NOTHING);
    }
    assert_eq!(client.waits(60_000), NOTHING);
}

/// With f > 1 a decision takes effect when f + 1 are known to hold it.
#[test]
fn an_outcome_is_carried_out_once_enough_hold_it() {
    let mut client = Client::new(5);
    client.has_committed(4);
    assert_eq!(client.hears_told("1/r0"), NOTHING);
    assert_eq!(client.hears_told("1/r1"), NOTHING);
    assert_eq!(client.hears_told("1/r2"), ["1/r0 1/r1 1/r2 1/r3 1/r4 ← carry it out"]);
    assert_eq!(client.hears_told("1/r3"), NOTHING);
    let confirm = |client: &mut Client, replica: &str| {
        let id = OperationId { transaction: client.transaction, number: OperationId::INCONSISTENT };
        let (view, verdict, finalized) = (View(0), None, true);
        client.hears(replica, Message::Ir(Ir::Confirm { id, view, verdict, finalized }))
    };
    for replica in ["1/r0", "1/r1"] {
        assert_eq!(confirm(&mut client, replica), NOTHING);
    }
    let told = client.waits(1_000);
    let again = ["1000 ms: 1/r4 ← commit all at 1000", "1000 ms: 1/r2 1/r3 1/r4 ← carry it out"];
    assert_eq!(told, again);
    for replica in ["1/r2", "1/r3", "1/r4"] {
        confirm(&mut client, replica);
    }
    assert_eq!(client.waits(60_000), NOTHING);
}

/// Another shard may have been asked before, under the same name, by a client that has since restarted.
#[test]
fn the_answers_of_a_shard_count_for_that_shard_alone() {
    let id =
        |client: &Client| OperationId { transaction: client.transaction, number: OperationId::INCONSISTENT };
    let mut client = Client::new(3);
    client.writes(&["x"]);
    for replica in ["2/r0", "2/r1", "2/r2"] {
        client.hears_vote(replica, Vote::Ok);
    }
    for replica in ["1/r0", "1/r1", "1/r2"] {
        assert_eq!(client.hears_told(replica), NOTHING);
    }
    assert_eq!(client.waits(1_000), ["1000 ms: 2/r0 2/r1 2/r2 ← commit all at 1000"]);

    let mut client = Client::new(5);
    client.writes(&["a", "x"]);
    let all = |shard: u32| (0..5).map(move |index| format!("{shard}/r{index}"));
    for replica in all(1).chain(all(2)) {
        client.hears_vote(&replica, Vote::Ok);
    }
    for replica in all(1).chain(all(2)) {
        client.hears_told(&replica);
    }
    for replica in all(1).chain(all(2)) {
        let (id, view, verdict, finalized) = (id(&client), View(0), None, true);
        assert_eq!(
            client.hears(&replica, Message::Ir(Ir::Confirm { id, view, verdict, finalized })),
            NOTHING
        );
    }
    assert_eq!(client.waits(60_000), NOTHING, "both have carried it out");
}

/// A keyspace whose second shard has five replicas, and the first three.
#[test]
fn an_outcome_is_carried_out_everywhere_if_one_shard_needs_that() {
    let shard = |id, replicas: u16| Shard::new(ShardId(id), (0..replicas).map(NodeId).collect());
    let shards = vec![shard(1, 3), shard(2, 5)];
    let keyspace = Keyspace::new(KEYSPACE, "k", Isolation::Strict, Durability::Sync, shards);
    let nearest = [3, 5].map(|replicas| (0..replicas).map(ReplicaIndex).collect()).to_vec();
    let mut client = Client::new(3);
    client.epoch = Epoch(2);
    client.does(Command::Route(Arc::new(Routes::new(Keyspace { epoch: Epoch(2), ..keyspace }, nearest))));
    client.writes(&["a", "x"]);
    let all = ["1/r0", "1/r1", "1/r2", "2/r0", "2/r1", "2/r2", "2/r3", "2/r4"];
    for replica in all {
        client.hears_vote(replica, Vote::Ok);
    }
    let told: Vec<String> = all.iter().flat_map(|replica| client.hears_told(replica)).collect();
    assert_eq!(told, [format!("{} ← carry it out", all.join(" "))]);
}

#[test]
fn others_are_told_once_they_are_the_replicas() {
    let mut client = Client::new(3);
    client.has_committed(3);
    client.hears_told("1/r0");
    assert_eq!(client.learns_of(Epoch(2), &[0, 3, 4]), ["1/r0 1/r3 1/r4 ← commit all at 1000"]);
}

#[test]
fn a_client_that_has_waited_long_enough_is_told_that_nobody_knows() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    let told = client.waits(60_000);
    assert_eq!(told.last().unwrap(), "60000 ms: Unknown { participants: [shard1] }");
    // For a while it goes on by itself; the outcome is nobody's business any more.
    let told = client.waits(10_000);
    assert!(told.iter().all(|line| line.contains("prepare 1")), "{told:?}");
    assert_eq!(client.waits(60_000), NOTHING);
}

/// A recovery takes three round trips and more.
#[test]
fn an_outcome_is_asked_of_one_backup_coordinator_after_the_other() {
    let mut client = Client::new(3);
    client.transaction.sequence = 9;
    let told = client.resolves(5_000);
    assert!(told.len() == 1 && told[0].ends_with("recover what was at 700"), "{told:?}");
    let told = client.waits(5_000);
    assert_eq!(told.last().unwrap(), "5000 ms: resolved: None");
    let asked = asked(&told);
    assert_eq!(asked.iter().map(|(at, _)| *at).collect::<Vec<_>>(), ["1500", "3000", "4500"]);
    let replicas: BTreeSet<&str> = asked.iter().map(|(_, replica)| *replica).collect();
    assert_eq!(replicas.len(), 3, "{asked:?}");
    assert_eq!(client.waits(60_000), NOTHING, "the replicas settle it by themselves");

    for (outcome, expected) in [(Outcome::Committed(at(700)), "Committed"), (Outcome::Aborted, "Aborted")] {
        client.transaction.sequence += 1;
        client.resolves(5_000);
        client.waits(2_000);
        let told = client.hears_outcome(outcome);
        assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
        assert_eq!(client.hears_outcome(outcome), NOTHING);
        let again = client.resolves(5_000);
        assert!(
            again.len() == 1 && again[0].ends_with("recover what was at 700"),
            "it is asked anew: {again:?}"
        );
        assert_eq!(client.hears_outcome(outcome), told);
        assert_eq!(client.waits(60_000), NOTHING);
    }
    client.transaction.sequence += 1;
    client.resolves(5_000);
    let transaction = client.transaction;
    assert_eq!(client.hears("1/r0", Message::Forgotten { transaction }), ["forgotten"]);
    assert_eq!(client.waits(60_000), NOTHING);
    let participants = vec![ShardId(9)];
    let (timestamp, patience) = (at(1), Duration::from_secs(1));
    let unknown = Command::Resolve { transaction, participants, timestamp, patience };
    assert_eq!(client.does(unknown), ["resolved: None"], "there is no such shard");
}

#[test]
fn a_transaction_that_others_settle_ends_as_they_say() {
    for (outcome, expected) in [
        (Outcome::Committed(at(1_000)), "committed at 1000, 0 retries, slowly"),
        (Outcome::Aborted, "Conflict"),
    ] {
        let mut client = Client::new(3);
        client.writes(&["a"]);
        let told = client.is_superseded();
        assert!(told.len() == 1 && told[0].ends_with("recover what was at 1000"), "{told:?}");
        assert_eq!(client.is_superseded(), NOTHING);
        assert_eq!(client.hears_vote("1/r1", Vote::Ok), NOTHING, "its votes count no more");
        assert_eq!(asked(&client.waits(2_500)).len(), 1);
        assert_eq!(client.hears_outcome(outcome), [expected]);
    }
}

#[test]
fn an_outcome_that_somebody_asks_for_is_sought_beyond_the_first_deadline() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.waits(59_000);
    client.is_superseded();
    assert_eq!(client.resolves(5_000), NOTHING, "it is on its way already");
    let told = client.waits(4_000);
    assert_eq!(asked(&told).iter().map(|(at, _)| *at).collect::<Vec<_>>(), ["2500", "4000"]);
    let told = client.hears_outcome(Outcome::Committed(at(1_000)));
    assert_eq!(told.len(), 2, "both questions are answered: {told:?}");

    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.waits(59_000);
    client.is_superseded();
    let told = client.waits(1_000);
    assert_eq!(told.last().unwrap(), "1000 ms: Unknown { participants: [shard1] }");
    assert_eq!(client.waits(60_000), NOTHING, "nobody waits any longer");
}

#[test]
fn an_outcome_that_is_known_here_is_told_at_once() {
    let mut client = Client::new(3);
    client.has_committed(3);
    let told = client.resolves(5_000);
    assert!(told.len() == 1 && told[0].starts_with("resolved: Some(Committed"), "{told:?}");
    client.writes(&["a"]);
    for replica in ["1/r0", "1/r1", "1/r2"] {
        client.hears_vote(replica, Vote::Abort);
    }
    assert_eq!(client.resolves(5_000), ["resolved: Some(Aborted)"]);
}
