//! Rights at the native port: what a user may do, what it is told, and that what it may not do changes nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use quorate::credentials::Password;
use quorate::rights::{User, UserLimits};
use quorate::{
    Credential, Database, Durability, Error, Isolation, Keyspace, KeyspaceOptions, NodeId, Options,
    UserChange,
};
use quorate_certificates::{Files, Purpose, Trust};
use quorate_core::caption::variant;
use quorate_core::{Address, ClientId, Epoch, Random, ReplicaId, ReplicaIndex};
use quorate_log::Part;
use quorate_runtime::conversation::Conversation;
use quorate_server::{Server, Status};
use quorate_wire::catalogue::{EntryDemand, demands};
use quorate_wire::rights::{Speaker, row};
use quorate_wire::{Envelope, Hello, Packet, Peer, ProtocolMessage};

use crate::generate;
use crate::support::Cluster;
use crate::tls::Secured;

const SECRET: &str = "correct horse";

/// A change is in force within a second, and is waited for longer on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(20);

fn user(name: &str, grants: &[&str]) -> User {
    User {
        certificates: vec![name.to_owned()],
        grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
        limits: UserLimits::default(),
        ..User::new(name)
    }
}

/// An administrator that comes with a certificate.
async fn administered(cluster: &Secured) -> Database {
    let root = cluster.connect(cluster.user("root")).await.unwrap();
    root.create_user(&user("root", &["administer,coordinate,read,deploy:*"])).await.unwrap();
    in_force(cluster.servers.iter()).await;
    root
}

/// Waits until every node knows that there are users.
async fn in_force<'a>(servers: impl Iterator<Item = &'a Server> + Clone) {
    let until = Instant::now() + PATIENCE;
    while !servers.clone().all(|server| server.status().security.access_control) {
        assert!(Instant::now() < until, "users come to every node");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn create(db: &Database, name: &str, isolation: Isolation) -> Keyspace {
    let options = KeyspaceOptions { durability: Durability::Memory, ..KeyspaceOptions::new(isolation) };
    let keyspace = db.create_keyspace(name, options).await.unwrap();
    keyspace.put("key", "before").await.unwrap();
    keyspace
}

const ISOLATIONS: [(&str, Isolation); 4] = [
    ("strict", Isolation::Strict),
    ("serializable", Isolation::Serializable),
    ("snapshot", Isolation::Snapshot),
    ("parallel", Isolation::ParallelSnapshot),
];

fn reason<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Denied { reason, .. }) => reason,
        other => panic!("it was not denied: {other:?}"),
    }
}

#[tokio::test]
async fn users_do_what_they_are_granted_and_are_told_which_right_they_lack() {
    let cluster = Secured::start();
    let root = administered(&cluster).await;
    for (name, isolation) in ISOLATIONS {
        create(&root, name, isolation).await;
    }
    root.create_user(&user("reader", &["read:*"])).await.unwrap();
    root.create_user(&user(
        "writer",
        &["coordinate:strict", "coordinate:serializable", "coordinate:snapshot", "coordinate:parallel"],
    ))
    .await
    .unwrap();
    root.create_user(&user("stranger", &["read,coordinate:other", "read,write:strict:a/"])).await.unwrap();
    // At one site, where what one client has written is there for the others.
    let at_site = |options| Options { site: Some("a".to_owned()), ..options };
    let as_user = async |name: &str| cluster.connect(at_site(cluster.user(name))).await.unwrap();
    let (reader, writer, stranger) =
        (as_user("reader").await, as_user("writer").await, as_user("stranger").await);
    let unknown = as_user("eve").await;
    for (name, _) in ISOLATIONS {
        // Users come to the nodes one after the other.
        let until = Instant::now() + PATIENCE;
        let written = loop {
            match writer.keyspace(name).await {
                Ok(keyspace) => break keyspace.put("key", "by the writer").await,
                Err(error) => assert!(Instant::now() < until, "{name}: {error}"),
            }
        };
        written.unwrap_or_else(|error| panic!("{name}: {error}"));
        let read = reader.keyspace(name).await.unwrap();
        assert_eq!(read.get("key").await.unwrap().unwrap(), "by the writer", "{name}");
        let in_transaction = read.transact(async |txn| txn.get("key").await).await;
        assert_eq!(
            in_transaction.unwrap().unwrap(),
            "by the writer",
            "a transaction that only reads: {name}"
        );
        let denied = reason(read.put("key", "by the reader").await);
        assert!(
            denied.contains("\"reader\" has no right to coordinate") && denied.contains(name),
            "{denied}"
        );
        let increment = read.transact(async |txn| {
            txn.get("key").await?;
            txn.put("key", "by the reader")
        });
        assert!(reason(increment.await).contains("coordinate"), "{name}");
        let elsewhere = stranger.keyspace(name).await.unwrap();
        let denied = reason(elsewhere.get("key").await);
        assert!(denied.contains("\"stranger\" has no right to read"), "{denied}");
        let denied = reason(elsewhere.changes(None).await);
        assert!(denied.contains("\"stranger\" has no right to read"), "{denied}");
        read.changes(None).await.unwrap();
        assert!(reason(elsewhere.put("a/key", "by a stranger").await).contains("coordinate"), "{name}");
        assert_eq!(read.get("key").await.unwrap().unwrap(), "by the writer", "{name}");
    }
    let denied = reason(unknown.keyspace("strict").await);
    assert!(denied.contains("logged in"), "{denied}");
    // To administer is for administrators.
    let options = KeyspaceOptions::new(Isolation::Strict);
    assert!(reason(writer.create_keyspace("more", options).await).contains("administer"));
    assert!(reason(writer.drop_keyspace("strict").await).contains("administer"));
    assert!(reason(writer.create_user(&user("friend", &["administer:*"])).await).contains("administer"));
    assert!(reason(reader.access().await).contains("administer"));
    assert!(reason(reader.status(NodeId(0)).await).contains("administer"));
    let deploying = writer.keyspace("serializable").await.unwrap();
    let denied = reason(deploying.deploy("thing", None, b"\0asm\x01\0\0\0").await);
    assert!(denied.contains("deploy"), "{denied}");
    assert!(root.status(NodeId(0)).await.is_ok() && root.access().await.unwrap().users().count() == 4);
    let denied: u64 = cluster.servers.iter().map(|server| server.status().denied_messages).sum();
    assert!(denied > 10, "{denied}");
}

#[tokio::test]
async fn who_may_administer_a_keyspace_creates_and_drops_that_one() {
    let cluster = Secured::start();
    let root = administered(&cluster).await;
    create(&root, "strict", Isolation::Strict).await;
    root.create_user(&user("owner", &["administer:shop"])).await.unwrap();
    let owner = cluster.connect(cluster.user("owner")).await.unwrap();
    let options = || KeyspaceOptions::new(Isolation::Strict);
    let until = Instant::now() + PATIENCE;
    while let Err(error) = owner.create_keyspace("shop", options()).await {
        if matches!(error, Error::Invalid(_)) {
            break;
        }
        assert!(Instant::now() < until, "{error}");
    }
    assert!(reason(owner.keyspace("shop").await.unwrap().get("key").await).contains("read"));
    owner.drop_keyspace("shop").await.unwrap();
    assert!(reason(owner.drop_keyspace("strict").await).contains("\"strict\""));
    assert!(reason(owner.create_keyspace("other", options()).await).contains("\"other\""));
}

#[tokio::test]
async fn rights_that_are_taken_away_are_gone_within_a_second_on_open_connections() {
    let cluster = Secured::start();
    let root = administered(&cluster).await;
    create(&root, "strict", Isolation::Strict).await;
    root.create_user(&user("ada", &["coordinate:strict"])).await.unwrap();
    let ada = cluster.connect(cluster.user("ada")).await.unwrap();
    let until = Instant::now() + PATIENCE;
    let keyspace = loop {
        match ada.keyspace("strict").await {
            Ok(keyspace) => break keyspace,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    let changed = [
        vec![UserChange::Revoke("coordinate:strict".parse().unwrap())],
        vec![UserChange::Grant("coordinate:strict".parse().unwrap())],
        vec![UserChange::Disable(true)],
    ];
    // The node that was asked for the keyspace knew the user; others may hear of it later.
    while let Err(error) = keyspace.put("key", "1").await {
        assert!(Instant::now() < until, "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (at, changes) in changed.into_iter().enumerate() {
        root.change_user("ada", &changes).await.unwrap();
        let is_allowed = at == 1;
        let since = Instant::now();
        while keyspace.put("key", "2").await.is_ok() != is_allowed {
            assert!(since.elapsed() < PATIENCE, "change {at} comes into force");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let denied = reason(keyspace.get("key").await);
    assert!(denied.contains("logged in"), "its certificate is that of no user that may come: {denied}");
}

#[tokio::test]
async fn users_log_in_by_password_and_by_token_where_there_are_no_certificates() {
    let cluster = Cluster::start();
    let operator =
        cluster.connect_with(Options { credential: Some(cluster.token()), ..Options::default() }).await;
    create(&operator, "strict", Isolation::Strict).await;
    let with = |credential| Options { credential: Some(credential), ..Options::default() };
    // Before there are users a password cannot be judged: the client is let in, and has to come again.
    let early = cluster.connect_with(with(Credential::password("root", SECRET))).await;
    assert!(early.keyspace("strict").await.is_ok());
    let root = User {
        password: Some(Password::told(SECRET).hash().unwrap()),
        ..user("root", &["administer,coordinate:*"])
    };
    operator.create_user(&root).await.unwrap();
    in_force(cluster.running()).await;
    let connect = async |credential| quorate::connect_with(cluster.addresses(), with(credential)).await;
    let until = Instant::now() + PATIENCE;
    let db = loop {
        match connect(Credential::password("root", SECRET)).await {
            Ok(db) => break db,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    let until = Instant::now() + PATIENCE;
    while let Err(error) = early.keyspace("strict").await.unwrap().put("key", "early").await {
        assert!(Instant::now() < until, "it connects again by itself: {error}");
    }
    assert!(db.keyspace("strict").await.unwrap().put("key", "root").await.is_ok());
    for wrong in [
        Credential::password("root", "wrong horse"),
        Credential::password("nobody", SECRET),
        Credential::token("quorate_1"),
    ] {
        let error = connect(wrong).await.unwrap_err();
        assert!(matches!(&error, Error::Handshake { reason, .. } if reason.contains("wrong")), "{error}");
    }
    let (id, secret) = db.create_token("root", None, "").await.unwrap();
    let token = || Credential::token(secret.reveal());
    let until = Instant::now() + PATIENCE;
    let by_token = loop {
        match connect(token()).await {
            Ok(db) => break db,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    let keyspace = by_token.keyspace("strict").await.unwrap();
    keyspace.put("key", "token").await.unwrap();
    db.revoke_token(id).await.unwrap();
    let until = Instant::now() + PATIENCE;
    while keyspace.put("key", "revoked").await.is_ok() {
        assert!(Instant::now() < until, "a token that is revoked is worth nothing");
    }
    assert!(reason(keyspace.get("key").await).contains("has ended"));
    let anonymous = quorate::connect(cluster.addresses()).await.unwrap();
    assert!(reason(anonymous.keyspace("strict").await).contains("logged in"));
    assert!(operator.access().await.is_ok(), "an operator who can read the directory of a node is let in");
}

/// The state that no message of a client without rights changes.
#[derive(Debug, PartialEq, Eq)]
struct State {
    revision: Option<u64>,
    replicas: Vec<(String, u32, usize, usize, u64, u64)>,
    keys: Vec<String>,
}

async fn state(root: &Database, server: &Server) -> State {
    let Status { catalogue_revision: revision, replicas, .. } = server.status();
    let replicas = replicas.into_iter().map(|replica| {
        (
            replica.keyspace,
            replica.shard,
            replica.prepared,
            replica.recoveries,
            replica.commits,
            replica.aborts,
        )
    });
    let mut keys = Vec::new();
    for (name, _) in ISOLATIONS {
        let keyspace = root.keyspace(name).await.unwrap();
        let page = keyspace.scan("", "", 10).await.unwrap();
        keys.extend(page.entries.iter().map(|(key, value)| format!("{name} {key:?} {value:?}")));
    }
    State { revision, replicas: replicas.collect(), keys }
}

/// The name of a message, as the table has it.
fn name(message: &ProtocolMessage) -> String {
    fn own<L: std::fmt::Debug, O: std::fmt::Debug>(part: &Part<L, O>) -> String {
        match part {
            Part::Log(message) => variant(message),
            Part::Own(message) => variant(message),
        }
    }
    let said = match message {
        ProtocolMessage::Tapir(quorate_tapir::Message::Ir(message)) => variant(message),
        ProtocolMessage::Tapir(message) => variant(message),
        ProtocolMessage::Granola(message) => own(message),
        ProtocolMessage::Walter(message) => own(message),
        ProtocolMessage::Str(message) => own(message),
        ProtocolMessage::Configuration(message) => own(message),
        // There are more with the systems of comparison.
        other => variant(other),
    };
    format!("{} {said}", variant(message))
}

/// Every message of every protocol, drawn from the tables of the wire format, said to a replica of its protocol by users that may not: one that has no right at all, and one
/// that may read. The first is answered nothing but refusals, and nothing that either says changes anything.
#[tokio::test]
async fn no_message_of_a_user_without_the_right_changes_anything() {
    let cluster = Secured::start();
    let root = administered(&cluster).await;
    let mut shards = Vec::new();
    for (name, isolation) in ISOLATIONS {
        shards.push(create(&root, name, isolation).await.definition().shards[0].id);
    }
    root.create_user(&user("mallory", &["read,coordinate:elsewhere"])).await.unwrap();
    root.create_user(&user("reader", &["read:*"])).await.unwrap();
    // The nodes have heard of both once the reader reads.
    let until = Instant::now() + PATIENCE;
    let reader = cluster.connect(cluster.user("reader")).await.unwrap();
    while reader.keyspace("strict").await.is_err() {
        assert!(Instant::now() < until, "users come to the nodes");
    }
    // Its files are made, and what the nodes do by themselves has come to rest.
    cluster.user("mallory");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = state(&root, &cluster.servers[0]).await;
    let denied = cluster.servers[0].status().denied_messages;
    for (who, client) in [("mallory", ClientId(6)), ("reader", ClientId(7))] {
        let [ca, certificate, key] = cluster.files(who);
        let trust = Trust::load(Files { ca, certificate, key, revoked: None }, Purpose::User).unwrap();
        let begin = async || {
            let hello = Hello {
                cluster: 0,
                peer: Peer::Client(client),
                site: String::new(),
                credential: None,
                event_loop: 0,
            };
            Conversation::begin(&cluster.addresses[0], hello, Some(&trust)).await.unwrap().0
        };
        let mut peer = begin().await;
        let mut said = BTreeSet::new();
        for seed in 0..4_000 {
            let message: ProtocolMessage = generate::of_type(&mut Random::new(seed));
            let demand = row(&message);
            let is_of_clients = matches!(demand.speaker, Speaker::Client | Speaker::Coordinator);
            if who == "reader" && !writes(&message) {
                // It may read, and what it reads is answered.
                continue;
            }
            let shard = match &message {
                ProtocolMessage::Tapir(_) => shards[0],
                ProtocolMessage::Granola(_) => shards[1],
                ProtocolMessage::Str(_) => shards[2],
                ProtocolMessage::Walter(_) => shards[3],
                _ => quorate_core::ShardId(0),
            };
            said.insert((name(&message), is_of_clients));
            let is_known = match &message {
                ProtocolMessage::Configuration(Part::Own(message)) => {
                    demands(message, client).iter().all(|demand| *demand == EntryDemand::Known)
                }
                _ => false,
            };
            let to = Address::Replica(ReplicaId { shard, index: ReplicaIndex(0) });
            let envelope = Envelope { from: Address::Client(client), to, epoch: Epoch::FIRST, message };
            let told = format!("{envelope:?}");
            let answered = async {
                peer.say(&Packet::Envelope(envelope)).await?;
                peer.say(&Packet::DirectoryRequest).await?;
                loop {
                    match peer.hear().await? {
                        Packet::Directory(_) => return Ok(()),
                        // Any user may know which keyspaces there are.
                        Packet::Envelope(Envelope { message: ProtocolMessage::Configuration(_), .. })
                            if is_known => {}
                        Packet::Envelope(answer) => panic!("{told} is answered: {answer:?}"),
                        _ => {}
                    }
                }
            };
            let answered: Result<(), quorate_runtime::conversation::Trouble> = answered.await;
            // A client that says what no client says has its connection closed, and makes another.
            if answered.is_err() {
                peer = begin().await;
            }
        }
        let of_clients = said.iter().filter(|(_, is_of_clients)| *is_of_clients).count();
        assert!(of_clients > if who == "reader" { 5 } else { 25 }, "{said:?}");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(state(&root, &cluster.servers[0]).await, before);
    assert!(cluster.servers[0].status().denied_messages > denied + 100);
    assert_eq!(root.access().await.unwrap().users().count(), 3);
}

/// True of a message that only a coordinator may say.
fn writes(message: &ProtocolMessage) -> bool {
    use quorate_wire::rights::Demand;
    matches!(row(message).demand, Demand::Claim(claim) if claim != quorate::rights::Claim::Read)
        || !matches!(row(message).speaker, Speaker::Client | Speaker::Coordinator)
}

#[tokio::test]
async fn a_user_that_may_only_read_waits_until_what_is_over_is_swept() {
    let cluster = Secured::start();
    let root = administered(&cluster).await;
    for (name, isolation) in [("strict", Isolation::Strict), ("snapshot", Isolation::Snapshot)] {
        let options = KeyspaceOptions { expiring: true, ..KeyspaceOptions::new(isolation) };
        let sessions = root.create_keyspace(name, options).await.unwrap();
        root.create_user(&user(&format!("reader-{name}"), &[&format!("read:{name}")])).await.unwrap();
        let reader = cluster.connect(cluster.user(&format!("reader-{name}"))).await.unwrap();
        let until = Instant::now() + PATIENCE;
        let reading = loop {
            match reader.keyspace(name).await {
                Ok(keyspace) => break keyspace.with_deadline(PATIENCE),
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let lifetime = Duration::from_millis(20);
        sessions.put_for("key", "over", lifetime).await.unwrap();
        tokio::time::sleep(2 * lifetime).await;
        let deletes = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            sessions.get("key").await
        };
        let (read, deleted) = tokio::join!(reading.get("key"), deletes);
        assert_eq!((read.unwrap(), deleted.unwrap()), (None, None), "{name}");
    }
}
