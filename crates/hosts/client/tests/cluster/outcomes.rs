//! Tokens and what becomes of them.

use std::time::Duration;

use quorate::{Error, Invalid, Isolation, Keyspace, KeyspaceOptions, Marker, Once, Options, Outcome, Token};

use crate::support::{Cluster, accounts};

/// Takes one from a stock, once for each marker.
async fn sell(stock: &Keyspace, marker: &Marker) -> quorate::Result<Once> {
    let sell = async |txn: quorate::Transaction| {
        let left = txn.get("{pens}/left").await?.unwrap_or_else(|| "100".into());
        let left = String::from_utf8(left.to_vec()).unwrap().parse::<u32>().unwrap() - 1;
        txn.put("{pens}/left", left.to_string())?;
        Ok(left.to_string().into())
    };
    stock.transact_once(marker, sell).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_with_a_marker_commits_once_for_all_clients_that_repeat_it() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    for isolation in Isolation::ALL {
        let options = KeyspaceOptions { shards: 1, ..KeyspaceOptions::new(isolation) };
        let stock = db.create_keyspace(isolation.name(), options).await.unwrap();
        // Several clients repeat the same sales at one time.
        let clients: Vec<_> = (0..3)
            .map(|_| {
                let (addresses, name) = (cluster.addresses().to_vec(), stock.name().to_owned());
                tokio::spawn(async move {
                    let options = Options { deadline: Duration::from_secs(60), ..Options::default() };
                    let db = quorate::connect_with(addresses.as_slice(), options).await.unwrap();
                    let stock = db.keyspace(&name).await.unwrap();
                    let mut answers = Vec::new();
                    for sale in 0..5 {
                        let marker = Marker::new(format!("{{pens}}/sale-{sale}")).of_request([sale]);
                        answers.push(sell(&stock, &marker).await.unwrap());
                    }
                    answers
                })
            })
            .collect();
        let mut sold = [0; 5];
        for client in clients {
            for (sale, once) in client.await.unwrap().into_iter().enumerate() {
                assert_eq!(once.answer, (99 - sale).to_string(), "{isolation}");
                assert_eq!(once.is_repeat, once.receipt.is_none(), "{isolation}");
                sold[sale] += usize::from(!once.is_repeat);
            }
        }
        assert_eq!(sold, [1; 5], "{isolation}");
        let other = Marker::new("{pens}/sale-0").of_request("another");
        let refused = sell(&stock, &other).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(Invalid::OtherRequest { .. })), "{refused}");
        let refused = sell(&stock, &Marker::new("{pens}/left")).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(Invalid::NotAMarker { .. })), "{refused}");
        // A transaction that was given up leaves no marker.
        let marker = Marker::new("{pens}/given-up");
        let gives_up = async |txn: quorate::Transaction| {
            txn.put("{pens}/left", "0")?;
            Err(Error::Overloaded { retry_after: Duration::ZERO })
        };
        stock.transact_once(&marker, gives_up).await.unwrap_err();
        assert_eq!(sell(&stock, &marker).await.unwrap().answer, "94", "{isolation}");
    }
}

#[tokio::test]
async fn markers_whose_time_is_over_are_swept_and_nothing_else() {
    let cluster = Cluster::start();
    let accounts = accounts(&cluster.connect().await).await;
    accounts.put("once/a value", "1").await.unwrap();
    for (number, retention) in [(1, Duration::ZERO), (2, Duration::ZERO), (3, Duration::from_secs(600))] {
        let marker = Marker::new(format!("once/{number}")).retained_for(retention);
        accounts.transact_once(&marker, async |_| Ok("done".into())).await.unwrap();
    }
    let again = Marker::new("once/1").retained_for(Duration::ZERO);
    let again = accounts.transact_once(&again, async |_| Ok("again".into())).await.unwrap();
    assert_eq!((again.is_repeat, again.answer), (false, "again".into()), "its time was over");
    let swept = accounts.sweep_markers("once/", "once0").await.unwrap();
    assert_eq!((swept.deleted, swept.next), (2, None));
    let left = accounts.scan("", "", 10).await.unwrap();
    let left: Vec<_> = left.entries.into_iter().map(|(key, _)| key).collect();
    assert_eq!(left, ["once/3", "once/a value"]);
    assert_eq!(accounts.sweep_markers("once/", "").await.unwrap().deleted, 0);
}

#[tokio::test]
async fn the_outcome_of_a_transaction_can_be_asked_by_any_client() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let mut txn = accounts.begin().await.unwrap();
    txn.put("alice", "1").unwrap();
    txn.put("bob", "1").unwrap();
    let receipt = txn.commit().await.unwrap();
    let text = receipt.token.to_string();
    let token: Token = text.parse().unwrap();
    assert_eq!(db.outcome(&token).await.unwrap(), Outcome::Committed(receipt.timestamp));
    let other = cluster.connect().await;
    assert_eq!(other.outcome(&token).await.unwrap(), Outcome::Committed(receipt.timestamp));
}

#[tokio::test]
async fn a_transaction_that_was_never_prepared_is_settled_as_aborted() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let mut txn = accounts.begin().await.unwrap();
    txn.put("alice", "1").unwrap();
    let token = txn.token();
    let other = cluster.connect().await;
    assert_eq!(other.outcome(&token).await.unwrap(), Outcome::Aborted);
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, Error::Conflict), "an outcome never changes: {error}");
    assert_eq!(other.outcome(&token).await.unwrap(), Outcome::Aborted);
    assert_eq!(accounts.get("alice").await.unwrap(), None);
}

#[tokio::test]
async fn old_and_foreign_tokens_are_refused_with_the_reason() {
    let cluster = Cluster::start();
    let options = Options { outcome_retention: Duration::from_millis(20), ..Options::default() };
    let db = cluster.connect_with(options).await;
    let accounts = accounts(&db).await;
    let txn = accounts.begin().await.unwrap();
    txn.put("alice", "1").unwrap();
    let token = txn.token();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let error = db.outcome(&token).await.unwrap_err();
    assert!(matches!(error, Error::TooOld { .. }), "{error}");
    let foreign =
        Token { participants: vec![quorate::ShardId(4_000)], ..accounts.begin().await.unwrap().token() };
    let error = db.outcome(&foreign).await.unwrap_err();
    assert!(error.to_string().contains("dropped"), "{error}");
}

/// In a `parallel-snapshot` keyspace no site has heard of them, and could not tell them from those that it has forgotten.
#[tokio::test]
async fn a_client_knows_how_transactions_ended_that_it_sent_to_no_site() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let options = KeyspaceOptions::new(Isolation::ParallelSnapshot);
    let keyspace = db.create_keyspace("network", options).await.unwrap();
    let mut given_up = keyspace.begin().await.unwrap();
    assert_eq!(given_up.get("a").await.unwrap(), None);
    given_up.put("a", "1").unwrap();
    let token = given_up.token();
    given_up.abort().await.unwrap();
    assert_eq!(db.outcome(&token).await.unwrap(), Outcome::Aborted);
    let mut reader = keyspace.begin().await.unwrap();
    assert_eq!(reader.get("a").await.unwrap(), None);
    let receipt = reader.commit().await.unwrap();
    assert_eq!(db.outcome(&receipt.token).await.unwrap(), Outcome::Committed(receipt.timestamp));
}
