//! Procedures of serializable keyspaces: deployed, called over several shards, removed.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate::{
    Call, Database, Error, Invalid, InvalidProcedure, Isolation, Keyspace, KeyspaceOptions, Refusal, Stage,
};

use crate::support::{Cluster, impatient, until};

/// The worked example: moves an amount from one account to another, and refuses an overdraft.
const TRANSFER: &[u8] = include_bytes!("../../../../serializable/sandbox/tests/sandbox/transfer.wasm");

async fn create(db: &Database, shards: usize) -> Keyspace {
    let options = KeyspaceOptions { shards, ..KeyspaceOptions::new(Isolation::Serializable) };
    db.create_keyspace("accounts", options).await.unwrap()
}

fn transfer(from: &str, to: &str, amount: u64) -> Call {
    let name = |name: &str| [&[name.len() as u8], name.as_bytes()].concat();
    let arguments = [name(from), name(to), amount.to_le_bytes().to_vec()].concat();
    Call::new("transfer").arguments(arguments)
}

async fn open(accounts: &Keyspace, name: &str, amount: u64) {
    accounts.put(name, amount.to_le_bytes()).await.unwrap();
}

async fn held(accounts: &Keyspace, name: &str) -> u64 {
    let value = accounts.get(name).await.unwrap().expect("there is such an account");
    u64::from_le_bytes(value.as_ref().try_into().unwrap())
}

fn refusal(result: quorate::Result<quorate::Answers>) -> Refusal {
    match result {
        Err(Error::Refused { refusal, .. }) => *refusal,
        other => panic!("{other:?} is no refusal"),
    }
}

#[tokio::test]
async fn a_version_is_deployed_called_and_removed() {
    let cluster = Cluster::start();
    let (db, other) = (cluster.connect().await, cluster.connect().await);
    let accounts = create(&db, 3).await;
    let first = accounts.deploy("transfer", None, TRANSFER).await.unwrap();
    assert_eq!((first.version, first.stage, first.bytes), (1, Stage::Deployed, TRANSFER.len() as u64));
    // Somebody else deploys the same, and it stays the same version.
    let theirs = other.keyspace("accounts").await.unwrap();
    assert_eq!(theirs.deploy("transfer", None, TRANSFER).await.unwrap(), first);
    assert_eq!(theirs.deploy("transfer", Some(1), TRANSFER).await.unwrap(), first);

    // Both accounts lie at one shard because of their tag, which decides alone.
    let (ada, bob) = ("{team}ada", "{team}bob");
    open(&accounts, ada, 100).await;
    open(&accounts, bob, 5).await;
    let answers = theirs.call(transfer(ada, bob, 30).version(1).keys([ada, bob])).await.unwrap();
    assert_eq!((answers.answers.len(), answers.first()), (1, &70u64.to_le_bytes()[..]));
    assert_eq!((held(&accounts, ada).await, held(&accounts, bob).await), (70, 35));
    let overdraft = refusal(theirs.call(transfer(ada, bob, 71).keys([ada, bob])).await);
    assert!(
        matches!(&overdraft, Refusal::Procedure { reason } if reason.ends_with(b"does not hold that much"))
    );
    let undeclared = refusal(theirs.call(transfer(ada, bob, 1).keys([ada])).await);
    assert!(
        matches!(&undeclared, Refusal::Failed { text } if text.contains("has not declared")),
        "{undeclared}"
    );
    let writes = refusal(theirs.call(transfer(ada, bob, 1).at([ada]).read_only()).await);
    assert_eq!(writes, Refusal::ReadOnly);
    assert_eq!((held(&accounts, ada).await, held(&accounts, bob).await), (70, 35));

    let second = accounts.deploy("transfer", None, &[TRANSFER, b"\0\x05\x04note"].concat()).await.unwrap();
    assert_eq!(second.version, 2);
    let taken = accounts.deploy("transfer", Some(2), TRANSFER).await.unwrap_err();
    let expected = InvalidProcedure::VersionTaken { name: "transfer".to_owned(), version: 2 };
    assert!(matches!(&taken, Error::Invalid(Invalid::Procedure(error)) if *error == expected), "{taken}");
    accounts.remove("transfer", 1).await.unwrap();
    let gone = refusal(theirs.call(transfer(ada, bob, 1).version(1).at([ada])).await);
    assert_eq!(gone, Refusal::NoSuchProcedure { name: "transfer".to_owned(), version: 1 });
    theirs.call(transfer(ada, bob, 1).at([ada])).await.unwrap();
    accounts.remove("transfer", 1).await.unwrap();
    assert!(accounts.deploy("transfer", Some(1), TRANSFER).await.is_err(), "a number is not used again");
    let stages: Vec<_> =
        theirs.procedures().await.unwrap().iter().map(|known| (known.version, known.stage)).collect();
    assert_eq!(stages, [(1, Stage::Removed), (2, Stage::Deployed)]);
    db.drop_keyspace("accounts").await.unwrap();
}

/// Each shard sees its own keys alone, and what several come to is one decision.
#[tokio::test]
async fn several_shards_carry_a_call_out_or_none_does() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = create(&db, 2).await;
    accounts.deploy("transfer", None, TRANSFER).await.unwrap();
    let definition = accounts.definition();
    let at = |shard: usize| {
        (0..)
            .map(|number| format!("{{{number}}}"))
            .find(|tag| definition.shard_of(tag.as_bytes()).id == definition.shards[shard].id)
    };
    let [here, there] = [0, 1].map(|shard| at(shard).expect("some tag lies there"));
    for name in ["a", "b"] {
        open(&accounts, &format!("{here}{name}"), 10).await;
        open(&accounts, &format!("{there}{name}"), 10).await;
    }
    let amounts = |here_amount: u64, there_amount: u64| {
        let part = |tag: &str, amount: u64| {
            let name = |end: &str| [&[tag.len() as u8 + 1], tag.as_bytes(), end.as_bytes()].concat();
            [name("a"), name("b"), amount.to_le_bytes().to_vec()].concat()
        };
        Call::new("transfer")
            .at_with(&there, part(&there, there_amount))
            .at_with(&here, part(&here, here_amount))
    };
    let answers = accounts.call(amounts(1, 2)).await.unwrap();
    assert_eq!(
        answers.answers,
        [8u64.to_le_bytes().to_vec(), 9u64.to_le_bytes().to_vec()],
        "in the order of the keys"
    );
    for refused in [amounts(100, 1), amounts(1, 100)] {
        assert!(matches!(refusal(accounts.call(refused).await), Refusal::Procedure { .. }));
    }
    accounts.call(amounts(1, 1).independent()).await.unwrap();
    let left = [held(&accounts, &format!("{here}a")).await, held(&accounts, &format!("{there}a")).await];
    assert_eq!(left, [8, 7]);

    // The application vouches for what its procedure does not keep: one shard refuses, and the other has done its part.
    let alarms = || (0..3).map(|node| cluster.status(node).disagreements).sum::<u64>();
    assert_eq!(alarms(), 0);
    let broken = accounts.call(amounts(100, 1).independent()).await;
    assert!(matches!(broken, Err(Error::Unknown { .. })), "{broken:?}");
    until("an operator can hear of it", || alarms() > 0).await;
    let left = [held(&accounts, &format!("{here}a")).await, held(&accounts, &format!("{there}a")).await];
    assert_eq!(left, [8, 6]);
}

/// Answers with what there is between `a` and `b`.
const LIST: &str = r#"(module
    (import "quorate_1" "scan" (func $scan (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
    (import "quorate_1" "answer" (func $answer (param i32 i32)))
    (import "quorate_1" "footprint_range" (func $footprint_range (param i32 i32 i32 i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "ab")
    (func (export "call") (param i32) (result i32)
        (call $answer (i32.const 16) (call $scan
            (i32.const 0) (i32.const 1) (i32.const 1) (i32.const 1) (i32.const 99) (i32.const 0) (i32.const 16) (i32.const 999)))
        i32.const 0)
    (func (export "footprint") (param i32) (result i32)
        (call $footprint_range (i32.const 0) (i32.const 1) (i32.const 1) (i32.const 1))
        i32.const 1))"#;

/// Does nothing, and does not say so beforehand.
const SECRET: &str =
    r#"(module (memory (export "memory") 1) (func (export "call") (param i32) (result i32) i32.const 0))"#;

/// A caller that names no keys has the procedure say which shards take part.
#[tokio::test]
async fn a_call_that_names_no_keys_is_called_where_its_procedure_says() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = create(&db, 3).await;
    accounts.deploy("transfer", None, TRANSFER).await.unwrap();
    let (ada, bob) = ("{team}ada", "{team}bob");
    open(&accounts, ada, 100).await;
    open(&accounts, bob, 5).await;
    let answers = accounts.call(transfer(ada, bob, 30)).await.unwrap();
    assert_eq!((answers.answers.len(), answers.first()), (1, &70u64.to_le_bytes()[..]));
    let overdraft = refusal(accounts.call(transfer(ada, bob, 71)).await);
    assert!(matches!(overdraft, Refusal::Procedure { .. }), "{overdraft}");
    let nothing = refusal(accounts.call(Call::new("transfer")).await);
    let told = Refusal::Procedure { reason: quorate::Value::from("the arguments are no transfer") };
    assert_eq!(nothing, told, "what touches nothing is called somewhere");
    assert_eq!((held(&accounts, ada).await, held(&accounts, bob).await), (70, 35));

    accounts.deploy("list", None, &wat::parse_str(LIST).unwrap()).await.unwrap();
    let names: Vec<String> = (0..9).map(|number| format!("a{number}")).collect();
    for name in names.iter().map(String::as_str).chain(["b", "c"]) {
        accounts.put(name, "").await.unwrap();
    }
    for call in [Call::new("list"), Call::new("list").version(1).read_only()] {
        let answers = accounts.call(call).await.unwrap().answers;
        // The length of a key, that of its value, and the key.
        let keys =
            |answer: &quorate::Value| answer.chunks(10).map(|pair| pair[8..].to_vec()).collect::<Vec<_>>();
        let mut listed: Vec<_> = answers.iter().flat_map(keys).collect();
        listed.sort();
        assert_eq!(
            (answers.len(), listed),
            (3, names.iter().map(|name| name.clone().into_bytes()).collect())
        );
    }

    accounts.deploy("secret", None, &wat::parse_str(SECRET).unwrap()).await.unwrap();
    let secret = accounts.call(Call::new("secret")).await.unwrap_err();
    let expected = InvalidProcedure::WithoutKeys { name: "secret".to_owned() };
    assert!(matches!(&secret, Error::Invalid(Invalid::Procedure(error)) if *error == expected), "{secret}");
    accounts.call(Call::new("secret").at(["a"])).await.unwrap();
    let missing = refusal(accounts.call(Call::new("transfer").version(2)).await);
    assert_eq!(missing, Refusal::NoSuchProcedure { name: "transfer".to_owned(), version: 2 });
}

/// A client that stops between the catalogue and the shards leaves a record that says so, and the same again ends it.
#[tokio::test]
async fn what_was_left_halfway_is_ended_by_the_same_again() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "d", "e", "f"]);
    let db = cluster.connect_with(impatient(Duration::from_secs(3))).await;
    let sites = ["d", "e", "f"].map(str::to_owned).to_vec();
    let options = KeyspaceOptions { sites, ..KeyspaceOptions::new(Isolation::Serializable) };
    // Nodes that have just started register meanwhile, at the same catalogue.
    cluster.connect().await.create_keyspace("accounts", options).await.unwrap();
    let accounts = db.keyspace("accounts").await.unwrap();
    // A transaction that nobody ended may be in the way of those that follow, for a moment.
    let patient = accounts.clone().with_deadline(Duration::from_secs(60));
    let stage = async || patient.procedures().await.unwrap().first().map(|known| known.stage);

    cluster.crash(3);
    cluster.crash(4);
    accounts.deploy("transfer", None, TRANSFER).await.unwrap_err();
    assert_eq!(stage().await, Some(Stage::Deploying));
    cluster.restart(3);
    cluster.restart(4);
    let deployed = patient.deploy("transfer", None, TRANSFER).await.unwrap();
    assert_eq!((deployed.version, deployed.stage), (1, Stage::Deployed));
    patient.call(transfer("ada", "bob", 0)).await.expect_err("there is no such account");

    cluster.crash(3);
    cluster.crash(4);
    accounts.remove("transfer", 1).await.unwrap_err();
    assert_eq!(stage().await, Some(Stage::Removing));
    accounts.deploy("transfer", Some(1), TRANSFER).await.expect_err("somebody wants it gone");
    cluster.restart(3);
    cluster.restart(4);
    patient.remove("transfer", 1).await.unwrap();
    assert_eq!(stage().await, Some(Stage::Removed));
}

/// A module that takes long to load: every write to memory is rewritten. It is another one for each number.
fn long_module(number: u32) -> Vec<u8> {
    const FUNCTIONS: usize = 1_000;
    const WRITES: usize = 130;
    let mut text = String::from("(module (memory (export \"memory\") 1)");
    for _ in 0..FUNCTIONS {
        let writes = "local.get 0 local.get 0 i32.store ".repeat(WRITES);
        write!(text, "(func (param i32) (result i32) {writes} i32.const {number})").unwrap();
    }
    text.push_str("(func (export \"call\") (param i32) (result i32) i32.const 0))");
    wat::parse_str(text).unwrap()
}

/// To load a module takes longer than anything else, so it is not done where replicas run.
#[tokio::test]
async fn nodes_answer_while_a_module_is_loaded() {
    /// Other tests take processors away, and threads then wait for nothing.
    const ATTEMPTS: u32 = 5;
    let cluster = Arc::new(Cluster::start());
    let db = cluster.connect().await;
    let accounts = create(&db, 1).await;
    let mut seen = Vec::new();
    for number in 0..ATTEMPTS {
        let (first, second) = (long_module(2 * number), long_module(2 * number + 1));
        let begin = Instant::now();
        quorate_serializable_library::load(&first);
        let loading = begin.elapsed();
        let stop = Arc::new(AtomicBool::new(false));
        let watch = |node| {
            let (cluster, stop) = (Arc::clone(&cluster), Arc::clone(&stop));
            thread::spawn(move || {
                let mut longest = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    cluster.status(node);
                    longest = longest.max(asked.elapsed());
                    thread::sleep(Duration::from_millis(1));
                }
                longest
            })
        };
        let watching = [0, 1, 2].map(watch);
        accounts.deploy("long", None, &second).await.unwrap();
        stop.store(true, Ordering::Relaxed);
        let longest = watching.into_iter().map(|thread| thread.join().unwrap()).max().unwrap();
        if longest < loading / 2 {
            return;
        }
        seen.push((loading, longest));
    }
    panic!("nodes wait as long as it takes to load a module: {seen:?}");
}

/// A replica that comes anew to a shard whose log was shortened is given its state, and the code with it.
#[tokio::test]
async fn code_is_handed_over_with_the_state_of_a_shard() {
    let log = "[log]\nsnapshot_bytes = 100000\nkept_entries = 10\n";
    let mut cluster = Cluster::start_with(&["a", "b", "c"], log);
    let db = cluster.connect().await;
    let accounts = create(&db, 1).await.with_deadline(Duration::from_secs(60));
    accounts.deploy("transfer", None, TRANSFER).await.unwrap();
    open(&accounts, "ada", 100).await;
    open(&accounts, "bob", 5).await;
    for _ in 0..60 {
        accounts.put("padding", vec![0; 10_000]).await.unwrap();
    }
    cluster.crash(2);
    cluster.replace(2);
    let replica = |cluster: &Cluster, node: usize| {
        let mut replicas = cluster.status(node).replicas;
        replicas.retain(|replica| replica.keyspace == "accounts");
        replicas.pop()
    };
    let leader = |cluster: &Cluster, up: &[usize]| {
        let replicas: Vec<_> = up.iter().filter_map(|node| replica(cluster, *node)).collect();
        let agree = replicas.iter().all(|known| known.state == "normal" && known.view == replicas[0].view);
        let leader = replicas.iter().position(|known| known.leads)?;
        (agree && replicas.len() == up.len()).then_some(up[leader])
    };
    // The leader goes, until it is the one that is new.
    for old in [0, 1] {
        until("all are there", || leader(&cluster, &[0, 1, 2]).is_some()).await;
        if leader(&cluster, &[0, 1, 2]) == Some(old) {
            cluster.crash(old);
            until("another one leads", || leader(&cluster, &[1 - old, 2]).is_some()).await;
            cluster.restart(old);
        }
    }
    until("who is new leads", || leader(&cluster, &[0, 1, 2]) == Some(2)).await;
    accounts.call(transfer("ada", "bob", 30)).await.unwrap();
    assert_eq!((held(&accounts, "ada").await, held(&accounts, "bob").await), (70, 35));
}

/// Never comes to its end.
const ENDLESS: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "call") (param i32) (result i32) (loop $again (br $again)) i32.const 0))"#;

/// How many writes four callers get done in this time, one after the other. One that comes to nothing is none, and may take its deadline: a machine that others have
/// taken answers late.
async fn done_within(keyspace: &Keyspace, time: Duration) -> usize {
    let deadline = Instant::now() + time;
    let callers: Vec<_> = (0..4)
        .map(|caller| {
            let keyspace = keyspace.clone();
            tokio::spawn(async move {
                let mut done = 0;
                while Instant::now() < deadline {
                    match keyspace.put(format!("{caller}"), "x").await {
                        Ok(()) => done += 1,
                        Err(Error::Unknown { .. } | Error::Unavailable { .. } | Error::Overloaded { .. }) => {
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for caller in callers {
        done += caller.await.unwrap();
    }
    done
}

/// All of them run on the one thread of each node.
#[tokio::test]
async fn endless_procedures_do_not_take_a_node_from_other_keyspaces() {
    let cluster = Cluster::start();
    let (db, other) = (cluster.connect().await, cluster.connect().await);
    let accounts = create(&db, 1).await;
    accounts.deploy("endless", None, &wat::parse_str(ENDLESS).unwrap()).await.unwrap();
    let options = KeyspaceOptions { shards: 1, ..KeyspaceOptions::new(Isolation::Serializable) };
    let theirs = other.create_keyspace("theirs", options).await.unwrap();
    let before = done_within(&theirs, Duration::from_secs(2)).await;

    let ended = Arc::new(AtomicUsize::new(0));
    let endless: Vec<_> = (0..8)
        .map(|_| {
            let (accounts, ended) = (accounts.clone(), Arc::clone(&ended));
            tokio::spawn(async move {
                loop {
                    let _ = accounts.call(Call::new("endless").at(["a"])).await;
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // The first ones come all at once, and take as long as this machine has other things to do.
    let deadline = Instant::now() + Duration::from_secs(30);
    while ended.load(Ordering::Relaxed) < endless.len() {
        assert!(Instant::now() < deadline, "calls that do not end are not ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Other tests may take the machine meanwhile; they end, and what takes a node from others does not.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let beside = done_within(&theirs, Duration::from_secs(3)).await * 2 / 3;
        eprintln!("{before} writes in two seconds, and {beside} beside endless procedures");
        if beside * 4 > before {
            break;
        }
        assert!(Instant::now() < deadline, "{beside} writes beside endless procedures, and {before} without");
    }
    endless.iter().for_each(tokio::task::JoinHandle::abort);
}
