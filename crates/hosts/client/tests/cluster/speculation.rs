//! The options of snapshot keyspaces: chains, tuners, groups of even size, and what is refused at the call.

use quorate::topology::{PlacementError, Speculation, SpeculationError, SpeculationVariant};
use quorate::{Durability, Error, Invalid, Isolation, Keyspace, KeyspaceOptions, Rival, Speculated, System};

use crate::snapshot::Shop;
use crate::support::{Cluster, count_up};

fn options(speculation: Speculation) -> KeyspaceOptions {
    KeyspaceOptions {
        speculation: Some(speculation),
        durability: Durability::Memory,
        ..KeyspaceOptions::new(Isolation::Snapshot)
    }
}

/// Writes after an earlier transaction, if there is one, and is shown or not.
async fn write_after(shop: &Keyspace, earlier: Option<&Speculated>, key: &str) -> Speculated {
    let mut txn = match earlier {
        Some(Speculated::Shown(commit)) => shop.begin_after(commit).await.unwrap(),
        Some(Speculated::Final(_)) | None => shop.begin().await.unwrap(),
    };
    txn.put(key, "1").unwrap();
    txn.commit_speculatively(|_| true, |_| {}, |end| drop(end.unwrap())).await.unwrap()
}

/// The second transaction of a chain is shown where chains of two are allowed, and waits for the first one where they are not.
#[tokio::test]
async fn chains_are_as_long_as_the_keyspace_allows() {
    for (chain_max, expected) in [(1, 1), (2, 2)] {
        let speculation = Speculation { chain_max: Some(chain_max), ..Speculation::default() };
        let started = Shop::start_as(speculation).await;
        let mut longest = 0;
        let mut earlier = None;
        for key in ["a", "b", "c", "d", "e", "f"] {
            let shown = write_after(&started.west, earlier.as_ref(), key).await;
            if let Speculated::Shown(commit) = &shown {
                longest = longest.max(commit.chain());
            }
            earlier = Some(shown);
        }
        assert_eq!(longest, expected, "chains of {chain_max}");
    }
}

#[tokio::test]
async fn what_a_keyspace_cannot_do_is_invalid_at_the_call() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let create = async |options| match db.create_keyspace("shop", options).await {
        Err(Error::Invalid(invalid)) => invalid,
        other => panic!("{other:?}"),
    };
    for length in [9, 100, u8::MAX] {
        let refused =
            create(options(Speculation { chain_max: Some(length), ..Speculation::default() })).await;
        let expected = SpeculationError::ChainLength { length };
        assert!(matches!(&refused, Invalid::Speculation(error) if *error == expected), "{refused}");
    }
    for variant in SpeculationVariant::ALL.into_iter().filter(|variant| !variant.has_chains()) {
        let refused =
            create(options(Speculation { variant, chain_max: Some(1), ..Speculation::default() })).await;
        let expected = SpeculationError::NoChains { variant };
        assert!(matches!(&refused, Invalid::Speculation(error) if *error == expected), "{refused}");
    }
    for isolation in Isolation::ALL.into_iter().filter(|isolation| !isolation.has_homes()) {
        let refused = create(KeyspaceOptions { isolation, ..options(Speculation::default()) }).await;
        assert!(matches!(refused, Invalid::NoSpeculation { .. }), "{refused}");
        let refused = create(KeyspaceOptions { replicas: Some(2), ..KeyspaceOptions::new(isolation) }).await;
        let is_size = matches!(refused, Invalid::Placement(PlacementError::GroupSize(_)));
        assert!(is_size && refused.to_string().contains("odd number"), "{refused}");
    }
    let compared = KeyspaceOptions {
        comparison: Some(Rival::from(System::TxnOcc)),
        replicas: Some(2),
        ..KeyspaceOptions::new(Isolation::Snapshot)
    };
    let refused = create(compared).await;
    assert!(refused.to_string().contains("odd number"), "{refused}");
    let unknown = "str".parse::<SpeculationVariant>().unwrap_err();
    assert!(unknown.to_string().contains("variant \"str\" does not exist"), "{unknown}");
}

/// Keyspaces of other isolations, of other variants, and those whose chains have length zero.
#[tokio::test]
async fn nothing_is_shown_where_the_keyspace_shows_nothing() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let speculation =
        |variant, chain_max| options(Speculation { variant, chain_max, ..Speculation::default() });
    let plain =
        |isolation| KeyspaceOptions { durability: Durability::Memory, ..KeyspaceOptions::new(isolation) };
    let table = [
        ("none", speculation(SpeculationVariant::StrExternal, Some(0))),
        ("internal", speculation(SpeculationVariant::StrInternal, None)),
        ("clock", speculation(SpeculationVariant::ClockSi, None)),
        ("strict", plain(Isolation::Strict)),
        ("serializable", plain(Isolation::Serializable)),
        ("parallel", plain(Isolation::ParallelSnapshot)),
    ];
    for (name, options) in table {
        let shop = db.create_keyspace(name, options).await.unwrap();
        let mut txn = shop.begin().await.unwrap();
        txn.put("a", "1").unwrap();
        let refused = txn.commit_speculatively(|_| true, |_| {}, drop).await.unwrap_err();
        assert!(matches!(&refused, Error::Invalid(Invalid::ShowsNothing { .. })), "{name}: {refused}");
        txn.abort().await.unwrap();
    }
}

/// The paper's six replicas: any two of them may be away.
#[tokio::test]
async fn a_shard_of_six_survives_two_nodes() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "d", "e", "f"]);
    let db = cluster.connect().await;
    let options = KeyspaceOptions { replicas: Some(6), ..KeyspaceOptions::new(Isolation::Snapshot) };
    let shop = db.create_keyspace("shop", options).await.unwrap();
    assert_eq!(shop.definition().shards[0].replicas.len(), 6);
    assert_eq!(count_up(&shop, "a").await, 1);
    for node in [0, 5] {
        cluster.crash(node);
    }
    // A key waits for the node whose transaction has prepared it there; other keys do not.
    assert_eq!(count_up(&shop, "b").await, 1);
    for node in [0, 5] {
        cluster.restart(node);
    }
    cluster.all_serve().await;
    // Nodes 0 and 5 hear from two of the first three which keyspaces there are, before they serve.
    for node in [3, 4] {
        cluster.crash(node);
    }
    assert_eq!(count_up(&shop, "c").await, 1);
}
