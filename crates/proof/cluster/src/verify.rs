//! Whether the replicas of each shard hold the same, and the remedy if they do not.

use quorate::topology::Keyspace as Definition;
use quorate::{
    Database, Difference, DifferingKey, NodeId, ReplicaIndex, ShardId, VerifiedShard, VerifyOptions,
};

/// The outcome of the comparison of a keyspace.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The outcome for each shard.
    pub shards: Vec<VerifiedShard>,
}

/// The progress of the comparison of a shard.
#[derive(Clone, Copy, Debug)]
pub struct HowFar<'a> {
    /// The name of the keyspace.
    pub keyspace: &'a str,
    /// The shard.
    pub shard: ShardId,
    /// How many versions were read.
    pub versions: u64,
}

/// Compares the replicas of each shard of a keyspace. `tell` hears how far the comparison is.
pub async fn verify(
    db: &Database,
    definition: &Definition,
    options: VerifyOptions,
    tell: &(dyn Fn(HowFar<'_>) + Sync),
) -> Verified {
    let mut shards = Vec::new();
    for shard in definition.groups() {
        let progress = |versions| tell(HowFar { keyspace: &definition.name, shard: shard.id, versions });
        shards.push(db.verify(shard, options, progress).await);
    }
    Verified { keyspace: definition.name.clone(), shards }
}

impl Verified {
    /// The troubles of all shards, a line each.
    pub fn troubles(&self) -> Vec<String> {
        self.shards.iter().flat_map(|shard| troubles(&self.keyspace, shard)).collect()
    }
}

/// The troubles of a shard.
fn troubles(keyspace: &str, shard: &VerifiedShard) -> Vec<String> {
    let id = shard.shard.0;
    let mut troubles: Vec<String> = Vec::new();
    for replica in &shard.replicas {
        if let Err(reason) = &replica.held {
            let node = replica.node.0;
            troubles.push(format!(
                "shard {id} of {keyspace}: the replica on node {node} was not compared: {reason}"
            ));
        }
    }
    if let Some(difference) = &shard.difference {
        troubles.push(format!("shard {id} of {keyspace} differs: {}", describe(shard, difference)));
    }
    troubles
}

/// The node of a replica that was compared.
pub fn node(shard: &VerifiedShard, index: ReplicaIndex) -> NodeId {
    let replica = shard.replicas.iter().find(|replica| replica.index == index);
    replica.map_or(NodeId(0), |replica| replica.node)
}

/// The replicas that differ, the keys in which they do, and the remedy.
fn describe(shard: &VerifiedShard, difference: &Difference) -> String {
    let odd: Vec<String> =
        difference.odd.iter().map(|index| format!("the replica on node {}", node(shard, *index).0)).collect();
    let which = if odd.is_empty() {
        "no majority of its replicas holds the same".to_owned()
    } else {
        format!("{} holds other data than the majority", odd.join(" and "))
    };
    let keys: Vec<String> = difference.keys.iter().map(|key| describe_key(shard, key)).collect();
    let keys = match keys.is_empty() {
        true => "; what differed first has been written again since, or could not be told apart".to_owned(),
        false => format!("; for example {}", keys.join("; ")),
    };
    format!("{which}{keys}. {}", remedy(shard, difference))
}

fn describe_key(shard: &VerifiedShard, key: &DifferingKey) -> String {
    let held = key.held.iter().map(|(index, held)| {
        let held = held.as_ref().map_or("nothing".to_owned(), |held| {
            format!("version {} ({})", held.version, &held.checksum[..8.min(held.checksum.len())])
        });
        format!("node {} {held}", node(shard, *index).0)
    });
    format!("key \"{}\": {}", key.key.escape_ascii(), held.collect::<Vec<_>>().join(", "))
}

/// The remedy for a difference, as an operator is told.
pub fn remedy(shard: &VerifiedShard, difference: &Difference) -> String {
    let Some(first) = difference.odd.first() else {
        return "Keep all data directories as they are: the versions say which replica is behind".to_owned();
    };
    format!(
        "If all other replicas of the shard serve, stop node {}, move replicas/shard-{}-r{}/log in its data directory away, and start \
         it again: the replica learns everything anew from the others. Keep what was moved. With durability memory starting it \
         again is enough",
        node(shard, *first).0,
        shard.shard.0,
        first.0,
    )
}
