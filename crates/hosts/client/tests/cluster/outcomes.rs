//! Tokens and what becomes of them.

use std::time::Duration;

use quorate::{Error, Isolation, KeyspaceOptions, Options, Outcome, Token};

use crate::support::{Cluster, accounts};

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
