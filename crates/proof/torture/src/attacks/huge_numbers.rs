//! A connection that says it is a node sends the greatest numbers that fit: views, lives, positions, ballots. They are refused, nodes go
//! on, and they start again with what they have written down.

use quorate_cluster::Failure;

use super::cluster::{A, B, C, Cluster, SERIALIZABLE, STRICT, THREE, fixed, nested, number};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "huge-numbers",
    item: 6,
    what: "a connection that says it is a node sends the greatest views, lives, positions, ballots and timestamps; then all nodes restart, twice",
    scenes: &[
        Scene { name: "strict", setup: THREE, play: |cluster| Box::pin(to_strict(cluster)) },
        Scene { name: "logs", setup: THREE, play: |cluster| Box::pin(to_logs(cluster)) },
        Scene { name: "times", setup: THREE, play: |cluster| Box::pin(times(cluster)) },
    ],
};

const HUGE: u64 = u64::MAX;
const HUGE_BALLOT: u64 = u32::MAX as u64;

async fn to_strict(cluster: &mut Cluster) -> Result<(), Failure> {
    let transaction = || nested(1, &[fixed(1, 7), number(2, 1), number(3, 1)]);
    let messages = [
        // Of inconsistent replication: a higher view, the wish for one, a query, its answer, a settled vote.
        nested(5, &[nested(8, &[number(1, HUGE)])]),
        nested(5, &[nested(9, &[number(1, HUGE)])]),
        nested(5, &[nested(12, &[number(1, 7), number(2, HUGE)])]),
        nested(5, &[nested(13, &[number(1, 7), number(2, HUGE), number(4, HUGE)])]),
        nested(
            5,
            &[nested(
                6,
                &[
                    nested(1, &[transaction(), number(2, 1)]),
                    nested(2, &[nested(1, &[])]),
                    number(3, HUGE),
                    number(4, HUGE_BALLOT),
                ],
            )],
        ),
        // Of TAPIR: another coordinator.
        nested(7, &[transaction(), number(2, HUGE_BALLOT), nested(10, &[fixed(1, 7), fixed(2, 7)])]),
    ];
    let messages = messages.map(|message| nested(1, &[message]));
    say(cluster, STRICT, &messages).await
}

async fn to_logs(cluster: &mut Cluster) -> Result<(), Failure> {
    let messages = [
        // The leader's word, an answer to it, the wish for a view, fetches, lives, and who is behind.
        nested(1, &[number(1, HUGE), number(2, 0), number(4, HUGE), number(5, HUGE)]),
        nested(2, &[number(1, HUGE), number(2, HUGE), number(3, HUGE)]),
        nested(3, &[number(1, HUGE), number(2, 1)]),
        nested(6, &[number(1, HUGE), number(2, HUGE - 1), number(3, HUGE)]),
        nested(9, &[number(1, HUGE), number(2, HUGE), number(3, HUGE)]),
        nested(11, &[fixed(1, 7), number(2, HUGE)]),
        nested(12, &[number(1, HUGE)]),
        nested(13, &[number(1, HUGE), number(2, HUGE)]),
        nested(14, &[number(1, HUGE)]),
    ];
    let messages = messages.map(|message| nested(5, &[nested(1, &[message])]));
    say(cluster, SERIALIZABLE, &messages).await
}

async fn times(cluster: &mut Cluster) -> Result<(), Failure> {
    let timestamp = || nested(1, &[fixed(1, HUGE), fixed(2, HUGE)]);
    // The floor of a strict shard.
    let floor = nested(1, &[nested(28, &[timestamp()])]);
    say(cluster, STRICT, &[floor]).await
}

/// Says this to every replica of the first shard of a keyspace, in the name of another.
async fn say(cluster: &mut Cluster, keyspace: &str, messages: &[Vec<u8>]) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(100).await?;
    for (node, liar) in [(A, B), (B, C), (C, A)] {
        let address = |replica: [u64; 2]| nested(1, &[number(1, replica[0]), number(2, replica[1])]);
        let from = nested(1, &[address(cluster.replica_id(liar, keyspace)?)]);
        let to = nested(2, &[address(cluster.replica_id(node, keyspace)?)]);
        let packet = |message: &Vec<u8>| {
            nested(1, &[from.clone(), to.clone(), nested(3, std::slice::from_ref(message))])
        };
        let packets: Vec<_> = messages.iter().map(packet).collect();
        cluster.say_as(liar, node, &packets).await?;
    }
    cluster.write(100).await?;
    cluster.restart_all().await?;
    cluster.write(100).await?;
    cluster.restart_all().await
}
