//! Shards that have decided differently: what a node hears of that from clients.

use quorate_core::command::Decided;
use quorate_core::topology::Durability;
use quorate_core::{ClientId, ClockTime, ShardId, TransactionId};
use quorate_wire::Packet;
use quorate_wire::packet::DECIDED_MAX;

use crate::cluster::Cluster;
use crate::raw::Raw;

/// A client tells of a transaction on which so many shards have decided.
fn disagreement(client: ClientId, shards: usize) -> Packet {
    let decided = |shard| Decided {
        shard: ShardId(shard),
        timestamp: ClockTime::from_micros(1_000),
        is_refused: shard == 1,
        digest: u64::from(shard),
    };
    let transaction = TransactionId { client, sequence: 1, attempt: 0 };
    Packet::Disagreement { transaction, decided: (1..=shards as u32).map(decided).collect() }
}

#[test]
fn a_node_counts_the_disagreements_that_clients_tell_of() {
    let cluster = Cluster::start(Durability::Memory);
    let mut raw = Raw::of(ClientId(7), cluster.addresses()[0]);
    raw.write(&[disagreement(ClientId(7), 2), disagreement(ClientId(7), DECIDED_MAX)]);
    raw.write(&[Packet::DirectoryRequest]);
    while !matches!(raw.read(), Some(Packet::Directory(_))) {}
    assert_eq!(cluster.server(0).status().disagreements, 2);
    assert_eq!(cluster.server(1).status().disagreements, 0);
}

#[test]
fn a_client_that_tells_of_the_transactions_of_others_or_of_too_many_shards_is_cut_off() {
    let cluster = Cluster::start(Durability::Memory);
    for wrong in [disagreement(ClientId(8), 2), disagreement(ClientId(7), DECIDED_MAX + 1)] {
        let mut raw = Raw::of(ClientId(7), cluster.addresses()[0]);
        raw.write(&[wrong]);
        let reason = loop {
            match raw.read() {
                Some(Packet::Goodbye { reason }) => break reason,
                Some(_) => {}
                None => panic!("it says why"),
            }
        };
        assert!(reason.contains("in disagreement"), "{reason}");
    }
    assert_eq!(cluster.server(0).status().disagreements, 0);
}
