//! Batches, on keyspaces that run them in one round and on those that read first.

use std::time::Duration;

use quorate::{Applied, Batch, Database, Durability, Error, Isolation, Keyspace, KeyspaceOptions, Outcome};
use quorate::{StepAnswer, StepFault, Value};

use crate::support::{Cluster, number};

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn create(db: &Database, isolation: Isolation) -> Keyspace {
    let options =
        KeyspaceOptions { shards: 3, durability: Durability::Sync, ..KeyspaceOptions::new(isolation) };
    db.create_keyspace("stock", options).await.unwrap()
}

fn increments() -> Batch {
    KEYS.iter().fold(Batch::new(), |batch, key| batch.increment(key, 1))
}

#[tokio::test]
async fn steps_are_taken_in_order_over_all_shards_or_not_at_all() {
    for isolation in [Isolation::Strict, Isolation::Serializable, Isolation::Snapshot] {
        let cluster = Cluster::start();
        let db = cluster.connect().await;
        let stock = create(&db, isolation).await;
        let several = || increments().append("log", "one;").read("a").scan("a", "c", 10).expect_absent("log");
        let applied = stock.apply(several()).await.unwrap();
        let mut expected = vec![StepAnswer::Number(1); KEYS.len()];
        expected.extend([StepAnswer::Length(4), StepAnswer::Value(Some(Value::from("1")))]);
        assert_eq!(applied.answers()[..8], expected, "{isolation:?}");
        let StepAnswer::Page(page) = &applied.answers()[8] else { panic!("{applied:?}") };
        assert_eq!((page.entries.len(), &page.next), (2, &None));
        let receipt = applied.receipt().unwrap();
        assert_eq!(db.outcome(&receipt.token).await.unwrap(), Outcome::Committed(receipt.timestamp));
        let found = Some(Value::from("one;"));
        assert_eq!(stock.apply(several()).await.unwrap(), Applied::Unmet { condition: 0, found });
        let error = stock.apply(increments().increment("log", 1)).await.unwrap_err();
        assert!(matches!(error, Error::Step { step: 6, fault: StepFault::NotANumber, .. }), "{error}");
        let least =
            |number| Batch::new().expect_at_least("a", number).expect_at_least("b", 1).increment("a", 0);
        assert_eq!(stock.apply(least(1)).await.unwrap().answers(), [StepAnswer::Number(1)]);
        let found = Some(Value::from("1"));
        assert_eq!(stock.apply(least(2)).await.unwrap(), Applied::Unmet { condition: 0, found });
        let none = Batch::new().expect_at_least("none", 1).increment("none", 1);
        assert_eq!(stock.apply(none).await.unwrap(), Applied::Unmet { condition: 0, found: None });
        let one_shard = stock.apply(Batch::new().expect("a", "1").put("a", "x").increment("a", 1)).await;
        assert!(matches!(one_shard, Err(Error::Step { step: 1, .. })), "{one_shard:?}");
        let values = stock.apply(KEYS.iter().fold(Batch::new(), |batch, key| batch.read(key))).await.unwrap();
        let one = StepAnswer::Value(Some(Value::from("1")));
        assert_eq!(values.answers(), vec![one; KEYS.len()], "what was refused has changed nothing");
        assert_eq!(stock.get("a").await.unwrap(), Some(Value::from("1")), "transactions see what batches do");
    }
}

/// Batches that lock, those that do not, and transactions that read first: all of them are counted.
#[tokio::test]
async fn nothing_is_lost_among_many_at_once() {
    for isolation in [Isolation::Strict, Isolation::Serializable, Isolation::Snapshot] {
        let cluster = Cluster::start();
        let db = cluster.connect().await;
        let stock = create(&db, isolation).await;
        let tasks: Vec<_> = (0..12)
            .map(|task| {
                let stock = stock.clone().with_deadline(Duration::from_secs(60));
                tokio::spawn(async move {
                    for _ in 0..4 {
                        match task % 3 {
                            0 => _ = stock.apply(increments()).await.unwrap(),
                            1 => {
                                for key in KEYS {
                                    stock.apply(Batch::new().increment(key, 1)).await.unwrap();
                                }
                            }
                            _ => {
                                for key in KEYS {
                                    crate::support::increment(&stock, key).await.unwrap();
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        for value in stock.read_only(KEYS).await.unwrap() {
            assert_eq!(number(&value.unwrap()), 48, "{isolation:?}");
        }
    }
}

/// Answers that are lost with a node are recalled, so that nothing is done twice and nothing is left out.
#[tokio::test]
async fn increments_are_counted_once_although_nodes_crash() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let stock = create(&db, Isolation::Serializable).await.with_deadline(Duration::from_secs(60));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let stock = stock.clone();
            tokio::spawn(async move {
                let (mut applied, mut in_doubt) = (0, 0);
                for round in 0..150 {
                    let batch = match (task + round) % 3 {
                        0 => increments(),
                        _ => KEYS
                            .iter()
                            .fold(Batch::new(), |batch, key| batch.increment(format!("{{x}}{key}"), 1)),
                    };
                    match stock.apply(batch.increment("total", 1)).await {
                        Ok(done) if done.is_done() => applied += 1,
                        Ok(unmet) => panic!("{unmet:?}"),
                        Err(Error::AnswersLost { .. }) => applied += 1,
                        Err(Error::Unknown { .. }) => in_doubt += 1,
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
                (applied, in_doubt)
            })
        })
        .collect();
    for node in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        cluster.crash(node);
        tokio::time::sleep(Duration::from_millis(400)).await;
        cluster.restart(node);
    }
    let (mut applied, mut in_doubt) = (0, 0);
    for task in tasks {
        let (done, doubtful) = task.await.unwrap();
        (applied, in_doubt) = (applied + done, in_doubt + doubtful);
    }
    let stock = stock.with_deadline(Duration::from_secs(60));
    let total = number(&stock.get("total").await.unwrap().unwrap());
    assert!((applied..=applied + in_doubt).contains(&total), "{total} of {applied} and {in_doubt} in doubt");
    assert!(applied > 0);
}
