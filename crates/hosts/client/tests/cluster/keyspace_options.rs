//! Options of keyspaces that are their own: the order of timestamps, how far ahead is proposed again, and applications in native code.

use std::path::Path;
use std::time::Duration;

use quorate::topology::{SerialOrder, Timestamping, TimestampingError};
use quorate::{Call, Error, Invalid, Isolation, KeyspaceOptions, Refusal, Rival, System};
use quorate_procedure::{Answer, Footprint, Procedure, Stop, Store};
use quorate_server::{Application, LinkError, link};

use crate::parallel_snapshot::eventually;
use crate::support::{Cluster, count_up};

fn timestamps(retry_ahead: Duration) -> KeyspaceOptions {
    let timestamping = Timestamping { order: SerialOrder::Timestamps, retry_ahead };
    KeyspaceOptions { timestamping: Some(timestamping), ..KeyspaceOptions::new(Isolation::Strict) }
}

#[tokio::test]
async fn a_keyspace_in_the_order_of_timestamps_serves_and_keeps_its_order() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let options = timestamps(Duration::from_millis(2));
    let expected = options.timestamping;
    let counts = db.create_keyspace("counts", options).await.unwrap();
    assert_eq!(counts.definition().timestamping, expected);
    for count in 1..=5 {
        assert_eq!(count_up(&counts, "visits").await, count);
    }
    // A node that starts again knows the option by its own disk.
    cluster.crash(0);
    cluster.restart(0);
    // It hosts its replicas one after the other.
    let hosted = async || {
        let status = cluster.status(0);
        let replica = status.replicas.into_iter().find(|replica| replica.keyspace == "counts");
        replica.map(|replica| replica.order)
    };
    eventually(Some(Some("timestamps")), hosted).await;
    cluster.all_serve().await;
    assert_eq!(count_up(&counts, "visits").await, 6);
    assert_eq!(db.keyspace("counts").await.unwrap().definition().timestamping, expected);
}

#[tokio::test]
async fn a_keyspace_is_created_if_it_is_absent() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    for isolation in Isolation::ALL {
        let (name, options) = (isolation.name(), KeyspaceOptions::new(isolation));
        let ensure = async |options: &KeyspaceOptions| {
            db.create_keyspace_if_absent_with(name, options.clone(), None, |_| {}).await
        };
        let first = ensure(&options).await.unwrap();
        let second = ensure(&options).await.unwrap();
        assert_eq!((first.is_new, second.is_new), (true, false), "{name}");
        assert_eq!(first.keyspace.definition(), second.keyspace.definition());
        second.keyspace.put("key", "value").await.unwrap();
        let other = ensure(&KeyspaceOptions { shards: 2, ..options.clone() }).await.unwrap_err();
        let told = other.to_string();
        assert!(matches!(other, Error::Invalid(Invalid::KeyspaceDiffers { .. })), "{told}");
        assert!(told.contains("(shards 1, not 2)"), "{told}");
        assert_eq!(db.create_keyspace_if_absent(name, options).await.unwrap().name(), name);
    }
    // Several clients may find nothing at once, and one of them creates it.
    let others = [cluster.connect().await, cluster.connect().await];
    let ensure = async |db: &quorate::Database| {
        let options = KeyspaceOptions::new(Isolation::Strict);
        db.create_keyspace_if_absent_with("common", options, None, |_| {}).await.unwrap().is_new
    };
    let (one, two, three) = tokio::join!(ensure(&db), ensure(&others[0]), ensure(&others[1]));
    assert_eq!([one, two, three].into_iter().filter(|is_new| *is_new).count(), 1);
    let system = db.create_keyspace_if_absent("_system", KeyspaceOptions::new(Isolation::Strict)).await;
    assert!(matches!(system, Err(Error::Invalid(Invalid::SystemKeyspace { .. }))));
}

#[tokio::test]
async fn options_that_fit_no_keyspace_are_refused_at_the_call() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let create = async |options| match db.create_keyspace("a", options).await {
        Err(Error::Invalid(invalid)) => invalid,
        other => panic!("{other:?}"),
    };
    let plain = || timestamps(Duration::ZERO);
    for isolation in Isolation::ALL.into_iter().filter(|isolation| *isolation != Isolation::Strict) {
        let refused = create(KeyspaceOptions { isolation, ..plain() }).await;
        assert!(matches!(refused, Invalid::NoTimestamping { .. }), "{refused}");
    }
    let compared = KeyspaceOptions { comparison: Some(Rival::from(System::TxnOcc)), ..plain() };
    assert!(matches!(create(compared).await, Invalid::NoTimestamping { .. }));
    let bounded = KeyspaceOptions { clock_bound: Some(Duration::from_millis(5)), ..plain() };
    assert!(matches!(create(bounded).await, Invalid::Timestamping(TimestampingError::ClockBound)));
    let far = timestamps(Duration::from_millis(1_001));
    assert!(matches!(create(far).await, Invalid::Timestamping(TimestampingError::RetryAhead)));
    for isolation in Isolation::ALL.into_iter().filter(|isolation| *isolation != Isolation::Serializable) {
        let application = Some("bank".to_owned());
        let refused = create(KeyspaceOptions { application, ..KeyspaceOptions::new(isolation) }).await;
        assert!(matches!(refused, Invalid::NoApplication { .. }), "{refused}");
    }
    let named = |name: &str| KeyspaceOptions {
        application: Some(name.to_owned()),
        ..KeyspaceOptions::new(Isolation::Serializable)
    };
    for name in ["", &"a".repeat(65)] {
        assert!(matches!(create(named(name)).await, Invalid::ApplicationName { .. }));
    }
    let refused = create(named("nobody-has-this")).await;
    assert!(matches!(refused, Invalid::NotLinked { .. }), "{refused}");
    assert!(refused.to_string().contains("nothing was created"), "{refused}");
    assert!(db.keyspace("a").await.is_err(), "nothing was created");
}

/// Adds to an account, in native code: `arguments` is the name of the account and the amount in eight bytes.
struct Deposit;

impl Procedure for Deposit {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let Some((name, amount)) = arguments.split_last_chunk() else {
            return Ok(Answer::Refused(b"no amount".to_vec()));
        };
        let held = store.get(name)?.and_then(|held| Some(u64::from_le_bytes(held.try_into().ok()?)));
        let sum = held.unwrap_or(0) + u64::from_le_bytes(*amount);
        store.put(name, &sum.to_le_bytes())?;
        Ok(Answer::Done(sum.to_le_bytes().to_vec()))
    }

    fn footprint(&self, arguments: &[u8]) -> Footprint {
        let keys = arguments.split_last_chunk::<8>().map(|(name, _)| name.to_vec()).into_iter().collect();
        Footprint::Keys { keys, ranges: Vec::new() }
    }
}

/// The program of `docs/procedures.md` that has an application of its own.
fn started(path: &Path) -> Result<quorate_server::Server, Box<dyn std::error::Error>> {
    // Page: link
    use quorate_server::{Application, Config, Initialise, Server, link};

    link(Application { name: "bank-1", procedures: &[("deposit", &Deposit)] })?;
    let server = Server::start(Config::load(path)?, Initialise::No)?;
    // Page ends.
    Ok(server)
}

#[test]
fn an_application_is_linked_before_a_server_starts() {
    let missing = started(Path::new("node-0.toml")).err().unwrap();
    assert!(missing.to_string().contains("node-0.toml"), "{missing}");
    let again = started(Path::new("node-0.toml")).err().unwrap();
    assert_eq!(
        again.downcast_ref(),
        Some(&LinkError::Taken { name: "bank-1" }),
        "the first call has linked it"
    );
}

#[tokio::test]
async fn a_linked_application_is_called_in_keyspaces_that_name_it() {
    let bank = Application { name: "bank", procedures: &[("deposit", &Deposit)] };
    // The servers of all tests are threads of this process.
    assert!(matches!(link(bank), Ok(()) | Err(LinkError::Taken { .. })));
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let plain = KeyspaceOptions { shards: 2, ..KeyspaceOptions::new(Isolation::Serializable) };
    let options = KeyspaceOptions { application: Some("bank".to_owned()), ..plain.clone() };
    let (accounts, others) = (
        db.create_keyspace("accounts", options).await.unwrap(),
        db.create_keyspace("others", plain).await.unwrap(),
    );
    let deposit = |name: &str, amount: u64| {
        Call::new("bank/deposit").arguments([name.as_bytes(), &amount.to_le_bytes()].concat())
    };
    for (name, sum) in [("ada", 5), ("bob", 5), ("ada", 10)] {
        let answers = accounts.call(deposit(name, 5)).await.unwrap();
        assert_eq!(answers.first(), u64::to_le_bytes(sum));
    }
    match others.call(deposit("ada", 5)).await {
        Err(Error::Refused { refusal, .. }) => {
            assert!(matches!(*refusal, Refusal::NoSuchProcedure { .. }), "{refusal:?}");
        }
        other => panic!("{other:?}"),
    }
    cluster.crash(1);
    cluster.restart(1);
    cluster.all_serve().await;
    let answers = accounts.call(deposit("ada", 1)).await.unwrap();
    assert_eq!(answers.first(), u64::to_le_bytes(11));
    assert_eq!(accounts.definition().application.as_deref(), Some("bank"));
}
