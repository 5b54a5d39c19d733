//! The examples of `docs/write-where-you-are.md`: how parallel-snapshot keyspaces are used, which anomalies they permit, and which
//! they do not.
//!
//! The code between `// Page: NAME` and `// Page ends.` is shown there, and `cargo xtask check tidy` compares the two. Sites are 100 ms apart,
//! there and back. An anomaly that needs two transactions to commit before either has reached the other site is tried again until it occurs.

use std::time::{Duration, Instant};

use quorate::wan::Matrix;
use quorate::{
    Database, Durability, Error, Isolation, Keyspace, KeyspaceOptions, Options, Result, Transaction, Value,
};

use crate::support::Cluster;

/// So long a test waits for something that comes by itself, or tries to see an anomaly.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of three sites, and clients of each.
struct Network {
    west: Keyspace,
    east: Keyspace,
    north: Keyspace,
    db: Database,
    cluster: Cluster,
}

impl Network {
    /// Users whose tags prefer the west, the east and the north.
    const AT_HOME: [(&str, &str); 3] = [("bob", "west"), ("alice", "east"), ("carol", "north")];

    async fn start() -> Result<Network> {
        let cluster = Cluster::start_with(&["north", "east", "west"], "[wan]\nmatrix = \"uniform-100ms\"\n");
        let db = connect(&cluster, "west").await?;
        // Page: create
        let mut options = KeyspaceOptions::new(Isolation::ParallelSnapshot);
        options.replicas = Some(1); // in each site; three, where every site has three nodes
        options.durability = Durability::Sync;
        let network = db.create_keyspace("network", options).await?;
        // Page ends.
        for (user, site) in Network::AT_HOME {
            let definition = network.definition();
            let replicas = &definition.shard_of(format!("{{{user}}}").as_bytes()).replicas;
            let topology = db.topology();
            let preferred = topology.nodes[usize::from(replicas[0].0)].site;
            assert_eq!(topology.sites[usize::from(preferred.0)], site, "the preferred site of {user}");
        }
        let at = async |site| connect(&cluster, site).await?.keyspace("network").await;
        let (west, east, north) = (at("west").await?, at("east").await?, at("north").await?);
        Ok(Network { west, east, north, db, cluster })
    }

    /// Clients of all sites.
    fn everywhere(&self) -> [&Keyspace; 3] {
        [&self.west, &self.east, &self.north]
    }

    /// Writes something and waits until every site sees it.
    async fn settle(&self, pairs: &[(&str, &str)]) -> Result<()> {
        let write = async |txn: Transaction| pairs.iter().try_for_each(|(key, value)| txn.put(key, value));
        self.west.transact(write).await?;
        for (key, value) in pairs {
            for site in self.everywhere() {
                eventually(Some(Value::from((*value).to_owned())), async || site.get(key).await).await?;
            }
        }
        Ok(())
    }
}

async fn connect(cluster: &Cluster, site: &str) -> Result<Database> {
    let addresses = cluster.addresses();
    let delays = Matrix::builtin("uniform-100ms");
    quorate::connect_with(addresses, Options { site: Some(site.to_owned()), delays, ..Options::default() })
        .await
}

/// Waits until something is read.
async fn eventually<T: PartialEq + std::fmt::Debug>(
    expected: T,
    read: impl AsyncFn() -> Result<T>,
) -> Result<()> {
    let begin = Instant::now();
    loop {
        let found = read().await?;
        if found == expected {
            return Ok(());
        }
        assert!(begin.elapsed() < PATIENCE, "{found:?} is read, and {expected:?} is expected");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Tries until an anomaly occurs. Where sites are far behind each other, as on a busy machine, a write may be in conflict with the one before it all the time.
async fn occurs(anomaly: &str, try_once: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    loop {
        match try_once().await {
            Ok(true) => return Ok(()),
            Ok(false) | Err(Error::Conflict) => {}
            Err(error) => return Err(error),
        }
        assert!(begin.elapsed() < PATIENCE, "{anomaly} does not occur");
    }
}

#[tokio::test]
async fn a_user_writes_at_home_without_waiting_for_other_sites() -> Result<()> {
    let network = Network::start().await?;
    let addresses = network.cluster.addresses();
    let in_the_west = async || -> Result<Keyspace> {
        // Page: connect
        let options = Options { site: Some("west".to_owned()), ..Options::default() };
        let west = quorate::connect_with(addresses, options).await?.keyspace("network").await?;
        // Page ends.
        Ok(west)
    };
    let west = in_the_west().await?;
    // Page: write
    west.transact(async |txn| {
        txn.put("{bob}/profile", "Bob, from the west")?;
        txn.put("{bob}/status/1", "It is snowing.")?;
        txn.set_add("{bob}/statuses", "1")
    })
    .await?;
    // Page ends.
    let took = async |key: &'static str| {
        let mut shortest = Duration::MAX;
        for _ in 0..5 {
            let begin = Instant::now();
            network.west.put(key, "x").await?;
            shortest = shortest.min(begin.elapsed());
        }
        Ok::<_, Error>(shortest)
    };
    let (at_home, abroad) = (took("{bob}/profile").await?, took("{alice}/profile").await?);
    assert!(at_home < Duration::from_millis(50), "{at_home:?} for what belongs to the west");
    assert!(abroad >= Duration::from_millis(100), "{abroad:?} for what belongs to the east");
    // Page: container
    west.container("alice").place_at("west").await?; // she has moved
    // Page ends.
    let begin = Instant::now();
    while took("{alice}/profile").await? >= Duration::from_millis(50) {
        assert!(begin.elapsed() < PATIENCE, "what was placed in the west is not written there");
    }
    Ok(())
}

#[tokio::test]
async fn a_container_is_at_two_of_three_sites() -> Result<()> {
    let network = Network::start().await?;
    let (west, north) = (&network.west, &network.north);
    network.settle(&[("{bob}/profile", "Bob")]).await?;
    // Page: copies
    let bob = west.container("bob");
    bob.place("west").replicated_at(["west", "east"]).await?; // what is his need not be in the north
    // Page ends.
    eventually(vec!["east".to_owned(), "west".to_owned()], async || {
        north.container("bob").replica_sites().await
    })
    .await?;
    // The north reads from afar what was written since, and what it adds itself at once.
    west.put("{bob}/profile", "Robert").await?;
    eventually(Some(Value::from("Robert")), async || north.get("{bob}/profile").await).await?;
    let begin = Instant::now();
    assert_eq!(north.get("{bob}/profile").await?, Some("Robert".into()));
    assert!(
        begin.elapsed() >= Duration::from_millis(100),
        "{:?} for what is not in the north",
        begin.elapsed()
    );
    north.transact(async |txn| txn.set_add("{bob}/friends", "carol")).await?;
    let friends = north.begin().await?.set_count("{bob}/friends", "carol").await?;
    assert_eq!(friends, 1);
    let page = north.scan("{bob}", "{bob~", 10).await?;
    assert_eq!(page.entries.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), [Value::from("Robert")]);
    eventually(1, async || west.begin().await?.set_count("{bob}/friends", "carol").await).await
}

#[tokio::test]
async fn a_set_is_changed_from_any_site() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (&network.west, &network.east);
    network.settle(&[("{bob}/profile", "Bob"), ("{alice}/profile", "Alice")]).await?;
    let befriend = async || {
        // Page: befriend
        west.transact(async |txn| {
            let profiles = txn.get_many(["{bob}/profile", "{alice}/profile"]).await?;
            if profiles.iter().any(Option::is_none) {
                return Err(Error::application("there is no such user"));
            }
            txn.set_add("{bob}/friends", "alice")?;
            txn.set_add("{alice}/friends", "bob")
        })
        .await
        // Page ends.
    };
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        let begin = Instant::now();
        befriend().await?;
        shortest = shortest.min(begin.elapsed());
    }
    assert!(shortest < Duration::from_millis(90), "{shortest:?}, and it waits for nobody");
    let friends = async || {
        // Page: friends
        let txn = east.begin().await?;
        let mut friends = txn.set_iter("{alice}/friends").limit(100);
        let mut names = Vec::new();
        while let Some((name, count)) = friends.next().await? {
            if count >= 1 {
                names.push(name);
            }
        }
        // Page ends.
        Ok(names)
    };
    eventually(vec!["bob".into()], friends).await?;
    Ok(())
}

#[tokio::test]
async fn a_stock_is_sold_from_any_site_and_no_more_than_there_is() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (&network.west, &network.east);
    // Page: stock
    west.transact(async |txn| txn.counter_add("{tea}/stock", 10)).await?; // ten have come
    west.transact(async |txn| {
        txn.counter_add("{tea}/stock", -2)?;
        txn.set_add("{tea}/orders", "order 17") // in one transaction, or not at all
    })
    .await?;
    // Page ends.
    let stock = async |site: &Keyspace| site.begin().await?.counter_get("{tea}/stock").await;
    for site in network.everywhere() {
        eventually(8, async || stock(site).await).await?;
    }
    // Page: sold out
    let sale = east.transact(async |txn| txn.counter_add("{tea}/stock", -9)).await;
    assert!(matches!(sale, Err(Error::BelowZero)), "there are eight: {sale:?}");
    // Page ends.
    // The east asks the west for a share once, and sells from it afterwards.
    for _ in 0..4 {
        east.transact(async |txn| txn.counter_add("{tea}/stock", -1)).await?;
    }
    west.transact(async |txn| txn.counter_add("{tea}/stock", -4)).await?;
    for site in network.everywhere() {
        eventually(0, async || stock(site).await).await?;
    }
    let mut txn = west.begin().await?;
    txn.counter_add("{tea}/stock", 3)?;
    assert_eq!(txn.counter_get("{tea}/stock").await?, 3, "a transaction sees its own changes");
    assert_eq!(
        txn.set_count("{tea}/stock", "value").await?,
        0,
        "a counter and a set of one name are two things"
    );
    txn.abort().await?;
    let wrong = west.begin().await?.set_add(b"\0{tea}/stock", "x");
    assert!(matches!(&wrong, Err(Error::Invalid(_))), "{wrong:?}");
    assert!(wrong.unwrap_err().to_string().contains("zero byte"));
    Ok(())
}

#[tokio::test]
async fn write_skew_is_permitted() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (&network.west, &network.east);
    network.settle(&[("{bob}/moderates", "yes"), ("{alice}/moderates", "yes")]).await?;
    // Page: write skew
    let resign = async |txn: &Transaction, own: &str, other: &str| {
        let is_last = txn.get(other).await?.is_none();
        if !is_last {
            txn.delete(own)?;
        }
        Ok::<bool, Error>(!is_last)
    };
    let (mut bob, mut alice) = (west.begin().await?, east.begin().await?);
    assert!(resign(&bob, "{bob}/moderates", "{alice}/moderates").await?);
    assert!(resign(&alice, "{alice}/moderates", "{bob}/moderates").await?);
    bob.commit().await?;
    alice.commit().await?; // and nobody is left
    // Page ends.
    for site in network.everywhere() {
        let moderators = async || site.read_only(["{bob}/moderates", "{alice}/moderates"]).await;
        eventually(vec![None, None], moderators).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_key_that_both_write_keeps_write_skew_out() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (&network.west, &network.east);
    network.settle(&[("{bob}/moderates", "yes"), ("{alice}/moderates", "yes")]).await?;
    // Page: no write skew
    let resign = async |txn: &Transaction, own: &str, other: &str| {
        if txn.get(other).await?.is_some() {
            txn.delete(own)?;
            txn.put("{group}/resigned", own)?; // both write it
        }
        Ok::<(), Error>(())
    };
    let (mut bob, mut alice) = (west.begin().await?, east.begin().await?);
    resign(&bob, "{bob}/moderates", "{alice}/moderates").await?;
    resign(&alice, "{alice}/moderates", "{bob}/moderates").await?;
    bob.commit().await?;
    assert!(matches!(alice.commit().await, Err(Error::Conflict)));
    // Page ends.
    Ok(())
}

#[tokio::test]
async fn a_long_fork_is_permitted() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (&network.west, &network.east);
    let (asleep, awake) = (Some(Value::from("asleep")), Some(Value::from("awake")));
    let fork = async || {
        network.settle(&[("{bob}/status", "asleep"), ("{alice}/status", "asleep")]).await?;
        // Page: long fork
        let both = ["{bob}/status", "{alice}/status"];
        // Bob and Alice wake up at one time, each at home.
        tokio::try_join!(west.put("{bob}/status", "awake"), east.put("{alice}/status", "awake"))?;
        // Somebody looks at each site.
        let (in_the_west, in_the_east) = tokio::try_join!(west.read_only(both), east.read_only(both))?;
        // In the west Bob was the first, and in the east Alice was.
        let is_forked =
            in_the_west == [awake.clone(), asleep.clone()] && in_the_east == [asleep.clone(), awake.clone()];
        // Page ends.
        for site in network.everywhere() {
            eventually(vec![awake.clone(), awake.clone()], async || site.read_only(both).await).await?;
        }
        Ok(is_forked)
    };
    occurs("a long fork", fork).await
}

#[tokio::test]
async fn a_friend_who_is_added_twice_and_removed_once_is_left() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (&network.west, &network.east);
    let count = async |site: &Keyspace| {
        site.transact(async |txn| txn.set_count("{alice}/friends", "bob").await).await
    };
    // Page: a count above one
    for site in [west, east] {
        site.transact(async |txn| txn.set_add("{alice}/friends", "bob")).await?;
    }
    eventually(2, async || count(east).await).await?;
    east.transact(async |txn| txn.set_remove("{alice}/friends", "bob")).await?;
    assert_eq!(count(east).await?, 1); // he is still a friend
    // Page ends.
    // Page: a set without counts
    east.transact(async |txn| txn.set_discard("{alice}/friends", "bob").await).await?;
    assert_eq!(count(east).await?, 0);
    east.transact(async |txn| txn.set_insert("{alice}/friends", "bob").await).await?;
    let is_friend = east.transact(async |txn| txn.set_contains("{alice}/friends", "bob").await).await?;
    // Page ends.
    assert!(is_friend && count(east).await? == 1);
    Ok(())
}

#[tokio::test]
async fn a_user_who_changes_site_may_miss_her_own_write() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (&network.west, &network.east);
    let (old, new) = (Some(Value::from("old")), Some(Value::from("new")));
    let change_site = async || {
        network.settle(&[("{bob}/draft", "old")]).await?;
        // Page: a user changes site
        west.put("{bob}/draft", "new").await?;
        let here = west.get("{bob}/draft").await?; // by the same connection
        let elsewhere = east.get("{bob}/draft").await?; // by one to another site
        let misses_it = here == new && elsewhere == old;
        // Page ends.
        assert_eq!(here, new, "a connection sees what it has written");
        eventually(new.clone(), async || east.get("{bob}/draft").await).await?;
        Ok(misses_it)
    };
    occurs("a regression of a session", change_site).await
}

#[tokio::test]
async fn a_user_who_changes_site_with_a_token_sees_her_own_write() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (connect(&network.cluster, "west").await?, connect(&network.cluster, "east").await?);
    let (db, west, east_db) = (west.clone(), west.keyspace("network").await?, east);
    let east = east_db.keyspace("network").await?;
    for number in 0..10 {
        let new = Value::from(number.to_string());
        // Page: a user changes site with a token
        west.put("{bob}/draft", &new).await?;
        let cookie = db.seen().to_string(); // some dozen bytes, for a cookie
        // The next request of the same user comes to a server in the east.
        east_db.observe(&cookie.parse()?).await?;
        assert_eq!(east.get("{bob}/draft").await?, Some(new));
        // Page ends.
    }
    Ok(())
}

#[tokio::test]
async fn no_update_is_lost() -> Result<()> {
    let network = Network::start().await?;
    let (west, east) = (&network.west, &network.east);
    let number = |value: Option<Value>| {
        let text = value.map(|value| String::from_utf8_lossy(&value).into_owned());
        text.and_then(|text| text.parse().ok()).unwrap_or(0_u64)
    };
    network.settle(&[("{bob}/visitors", "0")]).await?;
    // Page: no lost update
    let (mut one, mut other) = (west.begin().await?, east.begin().await?);
    for txn in [&one, &other] {
        let visitors = number(txn.get("{bob}/visitors").await?);
        txn.put("{bob}/visitors", (visitors + 1).to_string())?;
    }
    one.commit().await?;
    assert!(matches!(other.commit().await, Err(Error::Conflict))); // `transact` would run it again
    // Page ends.
    let count = async |site: &Keyspace| {
        for _ in 0..10 {
            site.transact(async |txn| {
                let visitors = number(txn.get("{bob}/visitors").await?);
                txn.put("{bob}/visitors", (visitors + 1).to_string())
            })
            .await?;
        }
        Ok::<(), Error>(())
    };
    tokio::try_join!(count(west), count(east))?;
    for site in network.everywhere() {
        eventually(21, async || Ok(number(site.get("{bob}/visitors").await?))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn no_read_is_fractured() -> Result<()> {
    let network = Network::start().await?;
    let (west, north) = (&network.west, &network.north);
    network.settle(&[("{bob}/spouse", "0"), ("{alice}/spouse", "0")]).await?;
    let write = async || {
        for number in 1..=10 {
            // Page: no fractured read
            west.transact(async |txn| {
                txn.put("{bob}/spouse", number.to_string())?;
                txn.put("{alice}/spouse", number.to_string())
            })
            .await?;
            // Page ends.
        }
        Ok::<(), Error>(())
    };
    let read = async || {
        let mut seen = Vec::new();
        loop {
            let both = north.read_only(["{bob}/spouse", "{alice}/spouse"]).await?;
            assert_eq!(both[0], both[1], "both, or neither");
            if seen.last() != Some(&both[0]) {
                seen.extend(both.into_iter().take(1));
            }
            if seen.last() == Some(&Some(Value::from("10"))) {
                return Ok(seen);
            }
        }
    };
    let ((), seen) = tokio::try_join!(write(), read())?;
    assert!(seen.len() > 2, "something was seen on the way: {seen:?}");
    Ok(())
}

#[tokio::test]
async fn no_effect_is_seen_without_its_cause() -> Result<()> {
    let network = Network::start().await?;
    let Network { west, east, north, .. } = &network;
    let found = Some(Value::from("Found it!"));
    let lost = async || {
        west.put("{bob}/status", "I have lost my ring.").await?;
        west.put("{bob}/status", "Found it!").await
    };
    let reply = async || {
        eventually(found.clone(), async || east.get("{bob}/status").await).await?;
        east.put("{alice}/reply", "I am glad to hear that.").await
    };
    let look = async || {
        loop {
            // Page: causes before effects
            let seen = north.read_only(["{bob}/status", "{alice}/reply"]).await?;
            if seen[1].is_some() {
                assert_eq!(seen[0], found); // Alice has replied to it
                return Ok(());
            }
            // Page ends.
        }
    };
    tokio::try_join!(lost(), reply(), look())?;
    network.db.close().await;
    Ok(())
}
