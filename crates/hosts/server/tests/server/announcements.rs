//! Announcements of clients: who hears them, and what a node does not pass on.

use std::time::Duration;

use bytes::Bytes;
use quorate_core::ClientId;
use quorate_core::topology::Durability;
use quorate_server::Limits;
use quorate_wire::Packet;
use quorate_wire::packet::{ANNOUNCEMENT_BYTES_MAX, TOPICS_MAX};

use crate::cluster::Cluster;
use crate::raw::Raw;

fn announce(from: ClientId, number: u64, topic: &str, content: impl Into<Bytes>) -> Packet {
    Packet::Announce { from, number, topic: topic.to_owned(), content: content.into() }
}

fn listen(topics: &[&str]) -> Packet {
    Packet::Listen { topics: topics.iter().map(|topic| (*topic).to_owned()).collect() }
}

/// Waits until the node has taken in what was said before.
fn settle(raw: &mut Raw) {
    raw.write(&[Packet::DirectoryRequest]);
    while !matches!(raw.read(), Some(Packet::Directory(_))) {}
}

#[test]
fn a_node_passes_announcements_on_to_the_clients_that_listen() {
    let cluster = Cluster::start(Durability::Memory);
    let node = cluster.addresses()[0];
    let ids = [ClientId(1), ClientId(2), ClientId(3)];
    let [mut one, mut both, mut none] = ids.map(|id| Raw::of(id, node));
    one.write(&[listen(&["a"])]);
    both.write(&[listen(&["a", "b"])]);
    none.write(&[listen(&["a"]), listen(&[])]);
    for raw in [&mut one, &mut both, &mut none] {
        settle(raw);
    }
    let said = [
        announce(ids[2], 1, "a", "first"),
        announce(ids[2], 2, "b", "second"),
        announce(ids[2], 3, "a", "third"),
    ];
    none.write(&said);
    settle(&mut none);
    let heard = |raw: &mut Raw, count: usize| {
        let next = |_| loop {
            match raw.read() {
                Some(packet @ Packet::Announce { .. }) => break packet,
                Some(_) => {}
                None => panic!("the node has closed the connection"),
            }
        };
        (0..count).map(next).collect::<Vec<_>>()
    };
    assert_eq!(heard(&mut one, 2), [said[0].clone(), said[2].clone()]);
    assert_eq!(heard(&mut both, 3), said);
    assert_eq!(cluster.server(0).status().announcements_passed_on, 5);
}

#[test]
fn a_client_that_announces_more_than_it_may_is_cut_off() {
    let cluster = Cluster::start(Durability::Memory);
    let node = cluster.addresses()[0];
    let many: Vec<String> = (0..=TOPICS_MAX).map(|number| number.to_string()).collect();
    for wrong in [
        announce(ClientId(8), 1, "a", "in the name of another client"),
        announce(ClientId(7), 1, &"t".repeat(65), "the topic is long"),
        announce(ClientId(7), 1, "a", vec![0; ANNOUNCEMENT_BYTES_MAX + 1]),
        Packet::Listen { topics: many },
    ] {
        let mut raw = Raw::of(ClientId(7), node);
        raw.write(std::slice::from_ref(&wrong));
        let reason = loop {
            match raw.read() {
                Some(Packet::Goodbye { reason }) => break reason,
                Some(_) => {}
                None => panic!("it says why"),
            }
        };
        assert!(reason.contains("announces") || reason.contains("listens"), "{reason}");
    }
    assert_eq!(cluster.server(0).status().transport.violations, 4);
}

#[test]
fn a_client_that_does_not_read_misses_announcements_and_keeps_its_connection() {
    let limits = Limits { client_queue_bytes_max: 8 * 1024 * 1024, ..Limits::default() };
    let cluster = Cluster::start_with(Durability::Memory, limits);
    let node = cluster.addresses()[0];
    let (mut slow, mut quick) = (Raw::of(ClientId(1), node), Raw::of(ClientId(2), node));
    slow.write(&[listen(&["a"])]);
    settle(&mut slow);
    for number in 1..=60 {
        quick.write(&[announce(ClientId(2), number, "a", vec![0; 500_000])]);
    }
    settle(&mut quick);
    let status = cluster.server(0).status();
    assert!(status.announcements_dropped > 0, "it would take 30 MB");
    assert_eq!(status.transport.slow_readers, 0);
    // The announcements that were passed on are there when the client reads.
    for _ in 0..status.announcements_passed_on {
        assert!(matches!(slow.read_within(Duration::from_secs(10)), Some(Packet::Announce { .. })));
    }
    settle(&mut slow);
}
