//! Nodes that run transactions: the machine of a home beside the replicas of shards.

use std::time::{Duration, SystemTime};

use quorate_core::command::Outcome;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard, Speculation, SpeculationVariant};
use quorate_core::{ClientId, ClockTime, KeyspaceId, NodeId, ReplicaIndex, ShardId, TransactionId, Write};
use quorate_log::Part;
use quorate_log::member::MessageOf;
use quorate_str::entry::Decision;
use quorate_str::message::{Ending, Found, Life, Period, Session, Wanted};
use quorate_str::{Message, Replica};
use quorate_wire::{Envelope, Packet, ProtocolMessage};

use crate::client::Client;
use crate::cluster::{Cluster, until};
use crate::operations::http;
use crate::raw::{CLIENT, Raw, envelope};

const SHARD: u32 = 20;

/// The home of node 0. Those of the others follow.
const HOME: u32 = 21;

/// A keyspace of one shard, whose nodes have a home each.
async fn create(cluster: &Cluster, client: &mut Client, durability: Durability) -> Keyspace {
    let home = |node: u16| Shard::new(ShardId(HOME + u32::from(node)), vec![NodeId(node)]);
    let keyspace = Keyspace {
        id: KeyspaceId(9),
        name: "shop".to_owned(),
        isolation: Isolation::Snapshot,
        durability,
        shards: vec![Shard::new(ShardId(SHARD), [0, 1, 2].map(NodeId).to_vec())],
        homes: (0..3).map(home).collect(),
        speculation: Some(Speculation {
            variant: SpeculationVariant::StrInternal,
            orders_sessions: true,
            ..Speculation::default()
        }),
        ..cluster.system().clone()
    };
    client.write(cluster.system(), "keyspace/shop", Some(quorate_wire::encode(&keyspace))).await;
    cluster.healthy(3).await;
    keyspace
}

fn to(group: u32, message: Message) -> Packet {
    let message: MessageOf<Replica> = Part::Own(message);
    envelope(CLIENT, group, 0, message)
}

/// The reading of a clock that is right.
fn now() -> ClockTime {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    ClockTime::from_micros(since_1970.as_micros() as u64)
}

fn transaction(sequence: u64) -> TransactionId {
    TransactionId { client: CLIENT, sequence, attempt: 0 }
}

/// Says something until it is answered as is wanted: what comes before the machines of a node serve may be lost.
fn ask<Answer>(raw: &mut Raw, request: Message, accept: impl Fn(Message) -> Option<Answer>) -> Answer {
    let deadline = SystemTime::now() + Duration::from_secs(60);
    loop {
        raw.write(&[to(HOME, request.clone())]);
        while let Some(said) = raw.read_within(Duration::from_millis(500)) {
            if let Packet::Envelope(Envelope { message: ProtocolMessage::Str(Part::Own(message)), .. }) = said
                && let Some(answer) = accept(message)
            {
                return answer;
            }
        }
        assert!(SystemTime::now() < deadline, "{request:?} is answered");
    }
}

/// Writes a key in a transaction of its own, as the client library does: it begins when it reads.
fn write(raw: &mut Raw, sequence: u64, value: &'static str) -> Ending {
    let id = transaction(sequence);
    let (snapshot, period) = ask(raw, read_key(sequence), |message| match message {
        Message::ReadReply { transaction, snapshot, period, .. } if transaction == id => {
            Some((snapshot, period))
        }
        _ => None,
    });
    let commit = Message::Commit {
        knows_indexes: false,
        transaction: id,
        session: Session::default(),
        snapshot: Some(snapshot),
        period,
        writes: vec![Write { key: "key".into(), value: Some(value.into()) }],
        begun: now(),
        shows: false,
    };
    ask(raw, commit, |message| match message {
        Message::CommitReply { transaction, ending } if transaction == id => Some(ending),
        _ => None,
    })
}

fn read_key(sequence: u64) -> Message {
    Message::Read {
        transaction: transaction(sequence),
        session: Session::default(),
        snapshot: None,
        request: 1,
        wanted: vec![Wanted::Key("key".into())],
    }
}

fn read(raw: &mut Raw, sequence: u64) -> Vec<Found> {
    ask(raw, read_key(sequence), |message| match message {
        Message::ReadReply { transaction: id, found, .. } if id == transaction(sequence) => Some(found),
        _ => None,
    })
}

fn is_value(found: &[Found], expected: &str) -> bool {
    matches!(found, [Found::Key(version)] if version.value.as_deref() == Some(expected.as_bytes()))
}

/// The values of a metric of the node of [`write`], by further labels.
fn metric(metrics: &str, name: &str) -> Vec<(String, f64)> {
    let head = format!("quorate_{name}{{keyspace=\"shop\",shard=\"{HOME}\",replica=\"0\"");
    let line = |line: &str| {
        let (labels, value) = line.strip_prefix(&head)?.split_once("} ")?;
        Some((labels.to_owned(), value.parse().unwrap()))
    };
    metrics.lines().filter_map(line).collect()
}

/// The degree, the windows and the decisions are on the page of metrics; how much there is of them does not depend on how long it goes on.
#[tokio::test]
async fn the_tuner_of_a_node_is_on_its_page_of_metrics() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    create(&cluster, &mut client, Durability::Memory).await;
    let mut raw = Raw::client(cluster.addresses()[0]);
    let address = cluster.server(0).http_address().unwrap();
    let page = || http(address, "/metrics").1;
    let (mut written, mut decided, mut lines) = (0, 0.0, None);
    let deadline = SystemTime::now() + Duration::from_secs(120);
    // Until it has decided a few times; what is on the page before is as much.
    while decided < 2.0 {
        assert!(
            SystemTime::now() < deadline,
            "the tuner decides nothing after {written} transactions\n{}",
            page()
        );
        for _ in 0..50 {
            written += 1;
            assert!(matches!(write(&mut raw, written, "more"), Ending::Committed { .. }));
        }
        let page = page();
        let one = |name| match metric(&page, name)[..] {
            [(ref labels, value)] if labels.is_empty() => value,
            ref others => panic!("{name}: {others:?}\n{page}"),
        };
        assert_eq!(one("final_commits_total"), written as f64);
        assert!(
            (0.0..=1.0).contains(&one("tuner_degree")),
            "its variant shows nothing, so chains are no choice: {}",
            one("tuner_degree")
        );
        assert!((-1.0..=1.0).contains(&one("tuner_settled_degree")));
        assert!((0.2..=60.0).contains(&one("tuner_window_seconds")));
        let causes = metric(&page, "tuner_decisions_total");
        assert_eq!(causes.len(), 9, "{causes:?}");
        decided = causes.iter().map(|(_, count)| count).sum();
        let told = page.lines().filter(|line| line.contains("quorate_tuner_")).count();
        assert_eq!(*lines.get_or_insert(told), told, "{page}");
    }
    let page = page();
    assert!(metric(&page, "tuner_windows_total")[0].1 >= 1.0, "{page}");
    assert!(metric(&page, "tuner_searches_total")[0].1 >= 1.0, "{page}");
    assert!(metric(&page, "tuner_commits_per_second")[0].1 > 0.0, "{page}");
    assert!(metric(&page, "tuner_final_latency_seconds")[0].1 > 0.0, "{page}");
    // The replica of the shard on the same node runs no transactions.
    assert!(!page.contains(&format!("quorate_tuner_degree{{keyspace=\"shop\",shard=\"{SHARD}\"")), "{page}");
    let status: serde_json::Value = serde_json::from_str(&http(address, "/status").1).unwrap();
    let replicas = status["replicas"].as_array().unwrap();
    let home = replicas.iter().find(|replica| replica["shard"] == HOME).unwrap();
    let tuner = &home["speculating"]["tuner"];
    let decisions = tuner["decisions"].as_array().unwrap();
    assert!((1..=16).contains(&decisions.len()), "{tuner}");
    assert!(["searching", "settled", "probing"].contains(&tuner["phase"].as_str().unwrap()), "{tuner}");
}

/// Only the node itself tells its machines of each other, and only replicas tell them of transactions.
#[tokio::test]
async fn clients_that_pretend_to_be_replicas_change_nothing() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    create(&cluster, &mut client, Durability::Sync).await;
    let mut raw = Raw::client(cluster.addresses()[0]);
    assert!(matches!(write(&mut raw, 1, "mine"), Ending::Committed { .. }));
    let (theirs, life) = (TransactionId { client: ClientId(78), sequence: 1, attempt: 0 }, Life(7));
    let aborted = Decision {
        transaction: transaction(1),
        by: ReplicaIndex(0),
        snapshot: ClockTime::from_micros(1),
        participants: vec![ShardId(SHARD)],
        begun: ClockTime::from_micros(1),
        outcome: Outcome::Aborted,
        readers: Vec::new(),
    };
    let lies = [
        Message::Hello { life, wants: true },
        Message::Record { decision: aborted, forgotten: None },
        Message::Recorded { transaction: transaction(1), outcome: Outcome::Aborted },
        Message::Settled { transactions: vec![transaction(1)] },
        Message::Decide {
            transaction: transaction(1),
            outcome: Outcome::Aborted,
            readers: Vec::new(),
            is_forgotten: false,
        },
        Message::GiveWay { transaction: transaction(1) },
        Message::AskGrant { life, wanted: ClockTime::from_micros(u64::MAX) },
        Message::AskTime { life },
        Message::Time { life, clock: ClockTime::from_micros(u64::MAX) },
        Message::Bound { until: ClockTime::from_micros(u64::MAX), clock: ClockTime::from_micros(u64::MAX) },
        Message::ReadAt { life, request: 1, snapshot: ClockTime::from_micros(u64::MAX), wanted: Vec::new() },
        Message::Prepare {
            knows_indexes: false,
            transaction: theirs,
            life,
            snapshot: ClockTime::from_micros(u64::MAX - 1),
            writes: vec![Write { key: "key".into(), value: None }],
            after: Vec::new(),
            is_local: true,
        },
        // Clients say these, of their own transactions.
        Message::Abort { transaction: theirs },
        Message::Read {
            transaction: theirs,
            session: Session { seen: ClockTime::from_micros(u64::MAX), after: None },
            snapshot: Some(ClockTime::from_micros(u64::MAX)),
            request: 1,
            wanted: vec![Wanted::Key("key".into())],
        },
        // A snapshot further ahead than clocks may be.
        Message::Read {
            transaction: transaction(2),
            session: Session { seen: ClockTime::from_micros(u64::MAX - 1), after: None },
            snapshot: None,
            request: 1,
            wanted: vec![Wanted::Key("key".into())],
        },
    ];
    for lie in lies {
        raw.write(&[to(HOME, lie.clone()), to(SHARD, lie)]);
    }
    assert!(is_value(&read(&mut raw, 3), "mine"));
    assert!(matches!(write(&mut raw, 4, "more"), Ending::Committed { .. }));
    assert!(is_value(&read(&mut raw, 5), "more"));
    // A transaction that would be counted against another client is no mistake.
    raw.write(&[to(
        HOME,
        Message::Commit {
            knows_indexes: false,
            transaction: theirs,
            session: Session::default(),
            snapshot: None,
            period: Period::default(),
            writes: Vec::new(),
            begun: now(),
            shows: false,
        },
    )]);
    let reason = loop {
        if let Packet::Goodbye { reason } = raw.read().expect("it is told why") {
            break reason;
        }
    };
    assert!(reason.contains("prepares a transaction of"), "{reason}");
}

/// A node that was killed finds its home again, and what a transaction has left there is settled.
#[tokio::test]
async fn a_killed_node_has_forgotten_no_decision() {
    for durability in [Durability::Sync, Durability::Memory] {
        let mut cluster = Cluster::start(Durability::Sync);
        cluster.healthy(1).await;
        let mut client = cluster.client().await;
        create(&cluster, &mut client, durability).await;
        let mut raw = Raw::client(cluster.addresses()[0]);
        let Ending::Committed { timestamp, .. } = write(&mut raw, 1, "first") else { panic!("it commits") };
        cluster.crash(0);
        cluster.restart(0);
        let serves = || cluster.server(0).status().healthy;
        until("the node serves again", serves).await;
        let mut raw = Raw::client(cluster.addresses()[0]);
        let snapshot = ClockTime::from_micros(timestamp.micros);
        let inquire = Message::Inquire { transaction: transaction(1), snapshot };
        let outcome = ask(&mut raw, inquire, |message| match message {
            Message::InquireReply { outcome, .. } => Some(outcome),
            _ => None,
        });
        assert_eq!(outcome, Some(Outcome::Committed(timestamp)));
        // The first commit may lie ahead of clocks, where it has passed a replica: a snapshot by the clock alone is below it.
        let mut commits = |sequence| matches!(write(&mut raw, sequence, "second"), Ending::Committed { .. });
        assert!((2..12).any(&mut commits), "what is refused says what the next snapshot has to include");
        let mut raw = Raw::client(cluster.addresses()[0]);
        assert!(is_value(&read(&mut raw, 12), "second"));
        let home = cluster.replica_directory(0, HOME).join("log");
        assert!(home.exists(), "a home of one is on disk");
        assert_eq!(cluster.replica_directory(0, SHARD).join("log").exists(), durability == Durability::Sync);
    }
}
