//! Keyspaces that keep everything in memory, on nodes that may take little of it.

use std::time::Duration;

use quorate::{Error, Isolation, KeyspaceOptions, Retention};

use crate::support::{Cluster, impatient, until};

#[tokio::test]
async fn what_exceeds_the_memory_of_a_node_is_refused_until_something_is_deleted() {
    let cluster = Cluster::start_with(&["a", "b", "c"], "[limits]\nmemory_bytes = 300000\n");
    let db = cluster.connect().await;
    let hasty = cluster.connect_with(impatient(Duration::from_secs(1))).await;
    let problem = |node: usize| {
        let problems = cluster.status(node).problems;
        problems.into_iter().find(|problem| problem.contains("memory_bytes is raised"))
    };
    for isolation in [Isolation::Serializable, Isolation::Snapshot, Isolation::ParallelSnapshot] {
        let options = KeyspaceOptions { retention: Some(Retention::NONE), ..KeyspaceOptions::new(isolation) };
        let keyspace = db.create_keyspace("few", options).await.unwrap();
        let hasty = hasty.keyspace("few").await.unwrap();
        let value = vec![7; 10_000];
        let mut written = 0;
        let refusal = loop {
            match hasty.put(format!("key{written}"), value.clone()).await {
                Ok(_) => written += 1,
                Err(refusal) => break refusal,
            }
            assert!(written < 100, "there is always room in {isolation:?}");
        };
        let is_definite =
            matches!(refusal, Error::Overloaded { .. } | Error::Conflict | Error::Unavailable { .. });
        assert!(is_definite, "{isolation:?}: {refusal}");
        assert!(written >= 20, "{written} in {isolation:?}");
        assert!((0..3).any(|node| problem(node).is_some()), "{isolation:?}");
        assert_eq!(
            keyspace.get("key0").await.unwrap().map(|value| value.len()),
            Some(10_000),
            "reading goes on"
        );
        for key in 0..written {
            keyspace.delete(format!("key{key}")).await.unwrap();
        }
        // A deleted version is kept until no snapshot reads it any more.
        keyspace.put("another", value).await.unwrap();
        until("there is room again", || (0..3).all(|node| problem(node).is_none())).await;
        db.drop_keyspace("few").await.unwrap();
    }
    hasty.close().await;
    db.close().await;
}
