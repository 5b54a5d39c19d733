//! Protocol versions: a cluster whose upgrade is finished, and nodes that do not know the version in force.

use quorate_core::topology::Durability;
use quorate_core::{Epoch, NodeId, ReplicaId, ReplicaIndex};
use quorate_server::Limits;
use quorate_wire::catalogue::{SYSTEM_SHARD, encode_counter};
use quorate_wire::{Envelope, Packet, ProtocolVersion, Setting, Window};

use crate::cluster::{Cluster, until};
use crate::raw::{Raw, read};

fn in_force(cluster: &Cluster, version: ProtocolVersion) -> bool {
    let says = |server: &quorate_server::Server| server.status().protocol_versions.in_force == version.0;
    cluster.servers.iter().flatten().all(says)
}

/// A message that the third node alone may send.
fn in_its_name() -> Packet {
    let replica = |index| ReplicaId { shard: SYSTEM_SHARD, index: ReplicaIndex(index) }.into();
    Packet::Envelope(Envelope {
        from: replica(2),
        to: replica(0),
        epoch: Epoch::FIRST,
        message: read(1).into(),
    })
}

/// The reason for which a node closes a connection.
fn farewell(raw: &mut Raw) -> String {
    loop {
        match raw.read() {
            Some(Packet::Goodbye { reason }) => return reason,
            Some(_) => {}
            None => panic!("closed without a word"),
        }
    }
}

#[tokio::test]
async fn an_upgrade_is_finished_at_all_nodes_and_stays_so() {
    let begin = |base: &mut quorate_server::Config| {
        (base.system.durability, base.first_version) = (Durability::Sync, ProtocolVersion::FIRST);
    };
    let mut cluster = Cluster::start_configured(begin);
    cluster.healthy(1).await;
    assert!(in_force(&cluster, ProtocolVersion::FIRST));
    // A node of an earlier program, which says nothing of versions, takes part.
    let mut early = Raw::node(cluster.addresses()[0], cluster.configs[0].cluster, NodeId(1));
    early.write(&[Packet::Settings { settings: Vec::new() }, in_its_name()]);
    // Its messages are looked at: it speaks for another node.
    until("its messages are taken in", || cluster.server(0).status().misattributed_messages == 1).await;

    let mut client = cluster.client().await;
    let newest = Window::OWN.newest;
    client.write(cluster.system(), "version/protocol", Some(encode_counter(newest.0))).await;
    until("the version is in force at all nodes", || in_force(&cluster, newest)).await;
    assert!(farewell(&mut early).contains("start a later program there"));
    for node in 0..3 {
        let identity = cluster.configs[node].data_directory.join("identity.toml");
        let identity = std::fs::read_to_string(identity).unwrap();
        assert!(identity.contains(&format!("protocol_version = {newest}")), "{identity}");
    }
    cluster.crash(1);
    cluster.restart(1);
    assert_eq!(cluster.server(1).status().protocol_versions.in_force, newest.0, "its directory names it");
    cluster.healthy(1).await;
}

#[tokio::test]
async fn a_node_that_does_not_know_the_version_in_force_is_sent_away_and_named() {
    let mut cluster = Cluster::start_with(Durability::Sync, Limits::default());
    cluster.healthy(1).await;
    until("a new cluster begins with the newest version", || in_force(&cluster, Window::OWN.newest)).await;
    cluster.crash(1);
    for said in [vec![], vec![("protocol.oldest", 1), ("protocol.newest", 1)]] {
        let mut early = Raw::node(cluster.addresses()[0], cluster.configs[0].cluster, NodeId(1));
        let settings = said.into_iter().map(|(name, value)| Setting { name: name.to_owned(), value });
        // Messages that come before its settings, or behind them, are not looked at.
        early.write(&[in_its_name(), Packet::Settings { settings: settings.collect() }, in_its_name()]);
        let reason = farewell(&mut early);
        assert!(reason.contains("its program knows version 1: start a later program"), "{reason}");
        let problems = cluster.server(0).status().problems;
        assert!(problems.iter().any(|one| one.starts_with("nothing of node1 is taken in")), "{problems:?}");
    }
    assert_eq!(cluster.server(0).status().misattributed_messages, 0);
    cluster.restart(1);
    cluster.healthy(1).await;
}
