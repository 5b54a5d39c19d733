//! Announcements: clients tell each other something, whichever nodes they are near.

use std::time::Duration;

use quorate::{ANNOUNCEMENT_BYTES_MAX, Announcements, Database, Error, Invalid};
use tokio::time::{Instant, timeout};

use crate::support::Cluster;

const PATIENCE: Duration = Duration::from_secs(30);

async fn next(heard: &mut Announcements) -> String {
    let next = timeout(PATIENCE, heard.next()).await.expect("an announcement is heard");
    String::from_utf8_lossy(&next.content).into_owned()
}

/// Announces something again and again until it is heard.
async fn until_heard(from: &Database, heard: &mut Announcements, what: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        from.announce("topic", what.to_owned()).await.unwrap();
        match timeout(Duration::from_millis(200), heard.next()).await {
            Ok(next) if next.content == what => return,
            _ => assert!(Instant::now() < deadline, "{what} is not heard"),
        }
    }
}

#[tokio::test]
async fn clients_hear_each_other_whichever_nodes_die_and_return() {
    let mut cluster = Cluster::start();
    let (one, other) = (cluster.connect().await, cluster.connect().await);
    let (mut at_one, mut at_other) =
        (one.announcements("topic").unwrap(), other.announcements("topic").unwrap());
    let mut elsewhere = other.announcements("another").unwrap();
    until_heard(&one, &mut at_other, "probe").await;
    until_heard(&other, &mut at_one, "probe").await;
    for number in 0..100 {
        one.announce("topic", number.to_string()).await.unwrap();
    }
    let mut number = 0;
    while number < 100 {
        let content = next(&mut at_other).await;
        if content != "probe" {
            assert_eq!(content, number.to_string());
            number += 1;
        }
    }
    for node in [0, 1, 2] {
        cluster.crash(node);
        until_heard(&one, &mut at_other, &format!("without node {node}")).await;
        cluster.restart(node);
        until_heard(&other, &mut at_one, &format!("node {node} is back")).await;
    }
    assert!(timeout(Duration::from_millis(50), elsewhere.next()).await.is_err(), "nobody has said that");
    drop(at_other);
    assert_eq!(at_one.lost(), 0);
}

#[tokio::test]
async fn what_cannot_be_announced_is_said() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let is_invalid = |result: quorate::Result<()>| {
        assert!(matches!(result, Err(Error::Invalid(Invalid::Announcement { .. }))), "{result:?}");
    };
    is_invalid(db.announce("", "x").await);
    is_invalid(db.announce(&"t".repeat(65), "x").await);
    is_invalid(db.announce("topic", vec![0; ANNOUNCEMENT_BYTES_MAX + 1]).await);
    is_invalid(db.announcements("").map(drop));
    let topics: Vec<String> = (0..17).map(|number| format!("topic{number}")).collect();
    let held: Vec<Announcements> =
        topics[..16].iter().map(|topic| db.announcements(topic).unwrap()).collect();
    is_invalid(db.announcements(&topics[16]).map(drop));
    drop(db.announcements(&topics[0]).unwrap());
    drop(held);
    drop(db.announcements(&topics[16]).unwrap());
    (0..3).for_each(|node| cluster.crash(node));
    let begun = Instant::now();
    let deadline = begun + PATIENCE;
    loop {
        // Until the connections are known to be broken, it is lost.
        match db.announce("topic", "nobody is there").await {
            Err(Error::Connect { tried }) => {
                assert_eq!(tried.len(), 3);
                return;
            }
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
