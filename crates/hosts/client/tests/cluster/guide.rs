//! The examples of `README.md`, `docs/guide.md`, `docs/one-round.md` and of the calls in `docs/procedures.md`.
//!
//! The code between `// Page: NAME` and `// Page ends.` is shown there, and `cargo xtask check tidy` compares the two.

use std::time::Duration;

use quorate::{
    Answers, Applied, Batch, Call, Error, Isolation, Keyspace, KeyspaceOptions, Marker, Once, Outcome,
    Result, Timestamp, Token, Value,
};

use crate::support::Cluster;

// Page: a balance
fn balance(value: &Option<Value>) -> Result<i64> {
    let digits = value.as_ref().and_then(|value| std::str::from_utf8(value).ok());
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| Error::application("no such account"))
}
// Page ends.

#[test]
fn every_error_has_a_row_in_the_guide() {
    let source = include_str!("../../src/error.rs");
    let declared = source.split_once("\npub enum Error {\n").unwrap().1.split_once("\n}\n").unwrap().0;
    // Variants are indented once, and begin with a capital; documentation and attributes do not.
    let variant =
        |line: &'static str| line.strip_prefix("    ").filter(|line| line.starts_with(char::is_uppercase));
    let named = |line: &'static str| line.split([' ', '(', ',']).next().unwrap();
    let variants: Vec<&str> = declared.lines().filter_map(variant).map(named).collect();
    assert!(variants.len() > 20 && variants.contains(&"Conflict") && variants.contains(&"Application"));
    let guide = include_str!("../../../../../docs/guide.md");
    let table = guide.split_once("\n## Errors\n").unwrap().1.split_once("\n## ").unwrap().0;
    let cells = table.lines().filter_map(|row| row.strip_prefix("| `")?.split_once(" | "));
    let rows: Vec<&str> = cells.map(|(cell, _)| cell).collect();
    for variant in variants {
        let names = |row: &&str| row.split(['`', ' ', '(']).any(|word| word == variant);
        assert_eq!(rows.iter().filter(|row| names(row)).count(), 1, "{variant} has no row of its own");
    }
}

async fn connect(address: &str) -> Result<quorate::Database> {
    // Page: connect
    let db = quorate::connect(address).await?; // such as 10.0.0.1:7400,10.0.0.2:7400
    // Page ends.
    Ok(db)
}

async fn create(db: &quorate::Database) -> Result<Keyspace> {
    // Page: create
    let mut options = KeyspaceOptions::new(Isolation::Strict);
    options.shards = 8;
    let accounts = db.create_keyspace("accounts", options).await?;
    // Page ends.
    assert_eq!(accounts.definition().shards.len(), 8);
    // Page: open
    let accounts = db.keyspace("accounts").await?;
    // Page ends.
    Ok(accounts)
}

async fn transact(accounts: &Keyspace) -> Result<i64> {
    // Page: transact
    let left = accounts
        .transact(async |txn| {
            let alice = balance(&txn.get("alice").await?)?;
            txn.put("alice", (alice - 40).to_string())?;
            Ok(alice - 40)
        })
        .await?;
    // Page ends.
    Ok(left)
}

async fn index(users: &Keyspace) -> Result<(usize, usize)> {
    // Page: index
    users.put("ada", r#"{"city":"London"}"#).await?;
    let londoners = users.find("by-city", "London", 100).await?;
    let both = users
        .transact(async |txn| {
            txn.put("grace", r#"{"city":"London"}"#)?;
            Ok(txn.index("by-city").get("London", 100).await?.entries.len())
        })
        .await?;
    // Page ends.
    Ok((londoners.entries.len(), both))
}

async fn expiring(sessions: &Keyspace) -> Result<Option<Duration>> {
    // Page: expiring
    sessions.put_for("session/7", "alice", Duration::from_secs(1800)).await?;
    let held = sessions.get_with_expiry("session/7").await?;
    let left = held.and_then(|held| held.remaining());
    sessions
        .transact(async |txn| {
            // Once the lifetime is over the key is absent, and another one may take its place.
            if txn.get("session/7").await?.is_none() {
                txn.put_for("session/7", "bob", Duration::from_secs(1800))?;
            }
            Ok(())
        })
        .await?;
    // Page ends.
    Ok(left)
}

async fn begin(accounts: &Keyspace) -> Result<Timestamp> {
    // Page: begin
    let mut txn = accounts.begin().await?;
    txn.put("bob", "40")?;
    let receipt = txn.commit().await?;
    // Page ends.
    Ok(receipt.timestamp)
}

async fn apply(accounts: &Keyspace) -> Result<bool> {
    // Page: apply
    let transfer = Batch::new().expect("alice", "60").expect("bob", "40").put("alice", "0").put("bob", "100");
    let is_done = match accounts.apply(transfer).await? {
        Applied::Done { .. } => true,
        // A comparison did not hold, and nothing was written.
        Applied::Unmet { .. } => false,
    };
    // Page ends.
    Ok(is_done)
}

async fn observe(db: &quorate::Database, other: &quorate::Database) -> Result<()> {
    // Page: observe
    let token = db.seen().to_string(); // here
    let seen = token.parse().map_err(Error::application)?; // there, maybe at another site
    other.observe(&seen).await?;
    // Page ends.
    Ok(())
}

async fn read(accounts: &Keyspace, at: Timestamp) -> Result<Vec<Vec<Option<Value>>>> {
    // Page: read
    let names = accounts.read_only(["alice", "bob"]).await?; // strict
    let then = accounts.read_at(at, ["alice", "bob"]).await?; // a snapshot in the past
    let recent = accounts.read_stale(Duration::from_secs(5), ["alice"]).await?;
    println!("{:?} as of {}", recent.values, recent.timestamp);
    // Page ends.
    Ok(vec![names, then, recent.values])
}

async fn scan(accounts: &Keyspace, at: Timestamp) -> Result<usize> {
    // Page: scan
    let page = accounts.scan("a", "b", 100).await?; // strict
    let then = accounts.scan_at(at, "a", "b", 100).await?; // a snapshot in the past
    let recent = accounts.scan_stale(Duration::from_secs(5), "a", "b", 100).await?;

    // More than a page of one snapshot: go on where it ended, at its timestamp.
    let first = accounts.scan_with_snapshot("", "", 1).await?;
    if let Some(next) = &first.page.next {
        let second = accounts.scan_at(first.timestamp, next, "", 1_000).await?;
        println!("and {} more", second.entries.len());
    }
    // Page ends.
    Ok(page.entries.len() + then.entries.len() + recent.page.entries.len())
}

async fn read_now(bounded: &Keyspace) -> Result<usize> {
    // Page: read now
    let now = bounded.read_now(["alice", "bob"]).await?; // strict within a bound of clocks
    let range = bounded.scan_now("a", "b", 100).await?;
    // Page ends.
    Ok(now.values.len() + range.page.entries.len())
}

async fn outcome(db: &quorate::Database, text: &str) -> Result<Option<Timestamp>> {
    // Page: outcome
    let token: Token = text.parse().map_err(Error::application)?;
    let committed = match db.outcome(&token).await? {
        Outcome::Committed(timestamp) => Some(timestamp),
        Outcome::Aborted => None, // and it will not commit any more
    };
    // Page ends.
    Ok(committed)
}

async fn once(accounts: &Keyspace, customer: &str, order: u32, amount: i64) -> Result<Once> {
    // Page: once
    let marker = Marker::new(format!("paid/{{{customer}}}/{order}")).of_request(amount.to_string());
    let paid = accounts
        .transact_once(&marker, async |txn| {
            let key = format!("{{{customer}}}/balance");
            let left = balance(&txn.get(&key).await?)? - amount;
            txn.put(&key, left.to_string())?;
            Ok(left.to_string().into())
        })
        .await?;
    // Page ends.
    Ok(paid)
}

/// The result that a program makes of changes.
#[derive(Default)]
struct Index {
    applied: Vec<(Timestamp, Vec<quorate::Write>)>,
    kept: String,
}

impl Index {
    fn apply(&mut self, timestamp: Timestamp, writes: &[quorate::Write]) {
        self.applied.push((timestamp, writes.to_vec()));
    }

    fn keep(&mut self, cursor: String) {
        self.kept = cursor;
    }
}

async fn follow(
    orders: &Keyspace,
    kept: Option<quorate::Cursor>,
    until: Timestamp,
    index: &mut Index,
) -> Result<()> {
    // Page: follow
    let mut changes = orders.changes(kept.as_ref()).await?; // or watch("key", …), watch_prefix("user/", …)
    while !changes.resolved().has_passed(until) {
        let page = changes.next().await?; // of one shard, in commit order
        for change in &page.changes {
            index.apply(change.timestamp, &change.writes); // a write without a value is a deletion
        }
        index.keep(changes.cursor().to_string()); // with what was applied, in one transaction if that can be
    }
    // Page ends.
    Ok(())
}

async fn order(keyspace: &Keyspace) -> Result<()> {
    // Page: order
    let order = Batch::new()
        .expect("{alice}/state", "active")
        .expect_absent("{alice}/order/1007")
        .put("{alice}/order/1007", "3 pens")
        .increment("{alice}/orders", 1);
    match keyspace.apply(order).await? {
        Applied::Done { answers, .. } => println!("order number {:?}", answers[1].number()),
        Applied::Unmet { condition, found } => println!("condition {condition} does not hold: {found:?}"),
    }
    // Page ends.
    Ok(())
}

/// The worked example: moves an amount from one account to another.
const TRANSFER: &[u8] = include_bytes!("../../../../serializable/sandbox/tests/sandbox/transfer.wasm");

/// The arguments that move an amount from one of these accounts to the other.
fn arguments(from: &str, to: &str, amount: u64) -> Vec<u8> {
    let name = |name: &str| [&[name.len() as u8], name.as_bytes()].concat();
    [name(from), name(to), amount.to_le_bytes().to_vec()].concat()
}

async fn deploy(accounts: &Keyspace, module: &[u8], arguments: Vec<u8>) -> Result<Answers> {
    // Page: deploy
    accounts.deploy("transfer", None, module).await?; // once
    let transfer = Call::new("transfer").arguments(arguments);
    let answers = accounts.call(transfer.keys(["{team}/ada", "{team}/bob"])).await?;
    // Page ends.
    Ok(answers)
}

async fn call(accounts: &Keyspace, arguments: Vec<u8>) -> Result<Answers> {
    // Page: call
    use quorate::Call;

    let call = Call::new("transfer").version(1).arguments(arguments).keys(["{team}/ada", "{team}/bob"]);
    let answers = accounts.call(call).await?;
    // Page ends.
    Ok(answers)
}

async fn basket(address: &str) -> Result<bool> {
    // Page: basket
    let db = quorate::connect(address).await?;
    let accounts = db.keyspace("accounts").await?;
    let moved = accounts
        .transact(async |txn| {
            let Some(basket) = txn.get("basket/alice").await? else { return Ok(false) };
            txn.put("basket/bob", basket)?;
            txn.delete("basket/alice")?;
            Ok(true)
        })
        .await?; // runs again on conflicts, up to a deadline; errors say what happened and what to do
    // Page ends.
    Ok(moved)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_guide_do_what_it_says() {
    let cluster = Cluster::start();
    let address = cluster.addresses().join(",");
    let (db, other) = (connect(&address).await.unwrap(), connect(&address).await.unwrap());
    let accounts = create(&db).await.unwrap();
    accounts.transact(async |txn| txn.put("alice", "100")).await.unwrap();
    // A closure that gives up may have read at a replica that has not heard of the account yet.
    let left = loop {
        match transact(&accounts).await {
            Err(Error::Application(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            left => break left.unwrap(),
        }
    };
    assert_eq!(left, 60);
    let users = db.create_keyspace("users", KeyspaceOptions::new(Isolation::Strict)).await.unwrap();
    let options = quorate::IndexOptions::new("json:/city".parse().unwrap());
    users.create_index("by-city", &options, |_| {}).await.unwrap();
    assert_eq!(index(&users).await.unwrap(), (1, 2));
    let options = KeyspaceOptions { expiring: true, ..KeyspaceOptions::new(Isolation::Strict) };
    let sessions = db.create_keyspace("sessions", options).await.unwrap();
    let left = expiring(&sessions).await.unwrap().unwrap();
    assert!(left > Duration::from_secs(1000) && left <= Duration::from_secs(1800), "{left:?}");
    assert_eq!(sessions.get("session/7").await.unwrap().as_deref(), Some(&b"alice"[..]));
    let at = begin(&accounts).await.unwrap();
    assert!(apply(&accounts).await.unwrap());
    assert!(!apply(&accounts).await.unwrap(), "nothing is as it was expected");
    let values = read(&accounts, at).await.unwrap();
    let value = |text: &str| Some(Value::copy_from_slice(text.as_bytes()));
    assert_eq!(values[0], [value("0"), value("100")]);
    assert_eq!(values[1], [value("60"), value("40")]);
    assert_eq!(
        scan(&accounts, at).await.unwrap(),
        2,
        "alice, now and then; five seconds ago there was nothing"
    );
    observe(&db, &other).await.unwrap();

    let (_, receipt) = accounts.transact_with_receipt(async |txn| txn.put("carol", "1")).await.unwrap();
    assert_eq!(outcome(&db, &receipt.token.to_string()).await.unwrap(), Some(receipt.timestamp));
    let (mut index, from) = (Index::default(), accounts.changes(None).await.unwrap().cursor().clone());
    let (_, receipt) = accounts.transact_with_receipt(async |txn| txn.delete("carol")).await.unwrap();
    follow(&accounts, Some(from), receipt.timestamp, &mut index).await.unwrap();
    let deleted = quorate::Write { key: "carol".into(), value: None };
    assert!(index.applied.contains(&(receipt.timestamp, vec![deleted])), "{:?}", index.applied);
    assert!(index.kept.parse::<quorate::Cursor>().unwrap().resolved().has_passed(receipt.timestamp));

    accounts.put("{alice}/balance", "100").await.unwrap();
    let paid = once(&accounts, "alice", 1007, 30).await.unwrap();
    assert_eq!((paid.answer, paid.is_repeat), ("70".into(), false));
    let paid = once(&accounts, "alice", 1007, 30).await.unwrap();
    assert_eq!((paid.answer, paid.is_repeat), ("70".into(), true));

    assert!(!basket(&address).await.unwrap());
    accounts.transact(async |txn| txn.put("basket/alice", "3 pens")).await.unwrap();
    assert!(basket(&address).await.unwrap());
    assert_eq!(accounts.get("basket/bob").await.unwrap(), value("3 pens"));

    let options = KeyspaceOptions {
        clock_bound: Some(Duration::from_millis(5)),
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    let bounded = db.create_keyspace("bounded", options).await.unwrap();
    assert_eq!(read_now(&bounded).await.unwrap(), 2);
    let shop = db.create_keyspace("shop", KeyspaceOptions::new(Isolation::Serializable)).await.unwrap();
    order(&shop).await.unwrap();
    shop.transact(async |txn| txn.put("{alice}/state", "active")).await.unwrap();
    order(&shop).await.unwrap();
    assert_eq!(shop.get("{alice}/orders").await.unwrap(), value("1"));

    let (ada, bob) = ("{team}/ada", "{team}/bob");
    for (account, amount) in [(ada, 100_u64), (bob, 5)] {
        shop.put(account, amount.to_le_bytes()).await.unwrap();
    }
    let answers = deploy(&shop, TRANSFER, arguments(ada, bob, 30)).await.unwrap();
    assert_eq!((answers.answers.len(), answers.first()), (1, &70_u64.to_le_bytes()[..]));
    let answers = call(&shop, arguments(bob, ada, 5)).await.unwrap();
    assert_eq!(answers.first(), 30_u64.to_le_bytes());
}
