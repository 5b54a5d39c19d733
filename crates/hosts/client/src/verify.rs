//! Whether the replicas of a shard hold the same: asked at a common point, which [`Comparison`] chooses.
//!
//! If they differ, the part of the items in which they do is asked for again, more closely each time, until what differs is
//! named. Each time is at a later point: a key that is written meanwhile may hold the same by then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::topology::Shard;
use quorate_core::verify::{Compared, Comparison, Digest, Held, Listed, Odd, PATH_MAX, Point, judge};
use quorate_core::{Instant, NodeId, ReplicaId, ReplicaIndex, ShardId};

use crate::database::Database;

/// How often replicas are asked how far they are.
const POLL: Duration = Duration::from_millis(20);

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// So many keys are named that differ.
const DIFFERENCES_MAX: usize = 10;

/// How replicas are to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyOptions {
    /// How long to wait for replicas that do not come to a common point, or do not answer. Reading what they hold takes as long as it
    /// takes.
    pub patience: Duration,
    /// In `strict` keyspaces: microseconds since 1970 at or above which the common point is to lie, so that everything is compared
    /// that was written before. Zero to compare what is settled now.
    pub not_below: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions { patience: Duration::from_secs(60), not_below: 0 }
    }
}

/// The result of a comparison of the replicas of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedShard {
    /// The shard.
    pub shard: ShardId,
    /// The common point, for people; none if there was none.
    pub compared_at: Option<String>,
    /// The members of its group, ascending.
    pub replicas: Vec<VerifiedReplica>,
    /// How they differ, if they do.
    pub difference: Option<Difference>,
}

/// The content of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedReplica {
    /// Which replica of its group.
    pub index: ReplicaIndex,
    /// Where it is.
    pub node: NodeId,
    /// Its content, or why that could not be compared.
    pub held: Result<HeldData, String>,
}

/// The content of a replica at the common point, in few bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldData {
    /// Equal, at replicas of one shard, only if what they hold is.
    pub checksum: String,
    /// How many versions of keys.
    pub keys: u64,
    /// How many bytes of keys and values.
    pub bytes: u64,
}

/// How replicas differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The replicas that differ from a majority of those that were compared; none if no majority holds the same.
    pub odd: BTreeSet<ReplicaIndex>,
    /// Some of the keys in which they differ, ascending. None if too many keys lay together to be told apart, or if all had been
    /// written once more by the time that they were looked for.
    pub keys: Vec<DifferingKey>,
}

/// A key that replicas hold in different versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingKey {
    /// The key, or how it begins.
    pub key: Bytes,
    /// For each replica that was compared: what it holds; none if it does not have the key.
    pub held: BTreeMap<ReplicaIndex, Option<HeldVersion>>,
}

/// A version that a replica holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldVersion {
    /// The name of the version, for people: microseconds and client, or revisions.
    pub version: String,
    /// The checksum over key, version and value.
    pub checksum: String,
}

impl VerifiedShard {
    /// True if all replicas could be compared, and hold the same.
    pub fn is_ok(&self) -> bool {
        self.difference.is_none() && self.replicas.iter().all(|replica| replica.held.is_ok())
    }
}

impl Database {
    /// Compares what the replicas of a shard hold, while they serve. `progress` is told how many items the slowest replica has read.
    pub async fn verify(
        &self,
        shard: &Shard,
        options: VerifyOptions,
        mut progress: impl FnMut(u64),
    ) -> VerifiedShard {
        let members: BTreeMap<ReplicaIndex, NodeId> = shard.members().collect();
        // Without randomness two operators could be taken for one: each would make the other begin anew.
        let operator = getrandom::u64().unwrap_or_default();
        let verifier = Verifier { db: self, operator, shard: shard.id, options };
        let compared = verifier.compare(&members, Bytes::new(), &mut progress).await;
        let odd = match judge(&compared.held) {
            Odd::None => None,
            Odd::These(odd) => Some(odd),
            Odd::Tie => Some(BTreeSet::new()),
        };
        let difference = match odd {
            None => None,
            Some(odd) => {
                Some(Difference { odd, keys: verifier.locate(&members, &compared, &mut progress).await })
            }
        };
        let held = |digest: &Digest| HeldData {
            checksum: digest.checksum().to_string(),
            keys: digest.items,
            bytes: digest.bytes,
        };
        let replica = |(index, node): (&ReplicaIndex, &NodeId)| VerifiedReplica {
            index: *index,
            node: *node,
            held: compared.held[index].as_ref().map(held).map_err(Clone::clone),
        };
        VerifiedShard {
            shard: shard.id,
            compared_at: compared.point.map(|point| match point {
                Point::Position(_) => point.to_string(),
                Point::Below(floor) if floor.micros == 0 => "nothing is settled yet".to_owned(),
                Point::Below(floor) => format!("{} µs since 1970", floor.micros),
            }),
            replicas: members.iter().map(replica).collect(),
            difference,
        }
    }
}

/// Compares the replicas of one shard.
struct Verifier<'a> {
    db: &'a Database,
    operator: u64,
    shard: ShardId,
    options: VerifyOptions,
}

impl Verifier<'_> {
    /// Compares the items with a path.
    async fn compare(
        &self,
        members: &BTreeMap<ReplicaIndex, NodeId>,
        path: Bytes,
        progress: &mut impl FnMut(u64),
    ) -> Compared {
        let began = std::time::Instant::now();
        let now = || Instant::START + began.elapsed();
        let VerifyOptions { patience, not_below } = self.options;
        let mut comparison =
            Comparison::new(self.operator, members.keys().copied(), path, not_below, patience, now());
        loop {
            let request = comparison.request();
            let ask = |(index, node): (&ReplicaIndex, &NodeId)| {
                let replica = ReplicaId { shard: self.shard, index: *index };
                let answer =
                    self.db.transport().with(|host, turn| host.verify(*node, replica, request.clone(), turn));
                (*index, *node, answer)
            };
            let asked: Vec<_> = members.iter().map(ask).collect();
            for (index, node, answer) in asked {
                let answer = match answer {
                    Some(answer) => tokio::time::timeout(ANSWER_TIMEOUT, answer).await,
                    None => {
                        comparison.on_failure(index, format!("{node} is not connected"));
                        continue;
                    }
                };
                match answer {
                    Ok(Ok(answer)) => comparison.on_answer(index, &request, answer, now()),
                    Ok(Err(_)) => comparison.on_failure(index, format!("the connection to {node} broke")),
                    Err(_) => comparison.on_failure(
                        index,
                        format!("{node} does not answer within {ANSWER_TIMEOUT:?}: does its version know this question?"),
                    ),
                }
            }
            if let Some(compared) = comparison.advance(now()) {
                return compared;
            }
            progress(comparison.items());
            // A point that was just chosen may soon be passed.
            if comparison.request() == request {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    /// Finds some of the keys in which replicas differ.
    async fn locate(
        &self,
        members: &BTreeMap<ReplicaIndex, NodeId>,
        compared: &Compared,
        progress: &mut impl FnMut(u64),
    ) -> Vec<DifferingKey> {
        let comparable = |index: &ReplicaIndex| compared.held.get(index).is_some_and(Result::is_ok);
        let members: BTreeMap<_, _> = members
            .iter()
            .filter(|(index, _)| comparable(index))
            .map(|(index, node)| (*index, *node))
            .collect();
        let (mut path, mut last) = (Vec::new(), compared.clone());
        while path.len() < PATH_MAX
            && let Some(bucket) = first_difference(&last.held)
        {
            path.push(bucket);
            last = self.compare(&members, Bytes::from(path.clone()), progress).await;
            let digests = digests(&last.held);
            if digests.values().all(|digest| digest.lists_all()) {
                return differing_keys(&digests);
            }
        }
        Vec::new()
    }
}

fn digests(held: &BTreeMap<ReplicaIndex, Held>) -> BTreeMap<ReplicaIndex, &Digest> {
    held.iter().filter_map(|(index, held)| Some((*index, held.as_ref().ok()?))).collect()
}

/// The first bucket in which any two differ.
fn first_difference(held: &BTreeMap<ReplicaIndex, Held>) -> Option<u8> {
    let digests: Vec<&Digest> = digests(held).into_values().collect();
    digests.windows(2).filter_map(|pair| pair[0].first_difference(pair[1])).min()
}

/// The keys in which digests that list all of their items differ.
fn differing_keys(digests: &BTreeMap<ReplicaIndex, &Digest>) -> Vec<DifferingKey> {
    // Of each key all versions, ascending: protocols that keep older ones list them as well.
    let mut keys: BTreeMap<(u8, &Bytes), BTreeMap<ReplicaIndex, Vec<&Listed>>> = BTreeMap::new();
    for (index, digest) in digests {
        for listed in &digest.listed {
            keys.entry((listed.space, &listed.key)).or_default().entry(*index).or_default().push(listed);
        }
    }
    for versions in keys.values_mut().flat_map(BTreeMap::values_mut) {
        versions.sort();
    }
    let differs = |held: &BTreeMap<ReplicaIndex, Vec<&Listed>>| {
        let mut all = digests.keys().map(|index| held.get(index));
        let first = all.next();
        all.any(|other| Some(other) != first)
    };
    let newest = |versions: &Vec<&Listed>| {
        let Listed { stamps, is_live, checksum, .. } = versions.last()?;
        let stamps: Vec<String> = stamps.iter().map(u64::to_string).collect();
        let deleted = if *is_live { "" } else { " (deleted)" };
        Some(HeldVersion { version: stamps.join(".") + deleted, checksum: checksum.to_string() })
    };
    let differing = keys.iter().filter(|(_, held)| differs(held)).map(|((_, key), held)| DifferingKey {
        key: (*key).clone(),
        held: digests.keys().map(|index| (*index, held.get(index).and_then(newest))).collect(),
    });
    differing.take(DIFFERENCES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use quorate_core::verify::{Digester, Item};

    use super::*;

    fn digest(items: &[(&str, u64, Option<&str>)]) -> Digest {
        // A path that each of these keys has.
        let path = |key: &str| {
            let mut digester = Digester::new(&[]);
            digester.add(Item { space: Item::DATA, key: key.as_bytes(), stamps: &[], value: None });
            digester.finish().first_difference(&Digest::new(&[]))
        };
        let mut digester = Digester::new(&[path("k").unwrap_or_default()]);
        for (key, stamp, value) in items {
            let value = value.map(str::as_bytes);
            digester.add(Item { space: Item::DATA, key: key.as_bytes(), stamps: &[*stamp, 7], value });
        }
        digester.finish()
    }

    #[test]
    fn keys_that_differ_are_named_with_what_each_replica_holds() {
        let (one, other, third) =
            (digest(&[("k", 5, Some("x"))]), digest(&[("k", 3, Some("w"))]), digest(&[]));
        let digests = (0..).map(ReplicaIndex).zip([&one, &other, &third]).collect();
        let keys = differing_keys(&digests);
        let [differing] = &keys[..] else { panic!("{keys:?}") };
        assert_eq!(differing.key, "k");
        let versions: Vec<Option<&str>> =
            differing.held.values().map(|held| held.as_ref().map(|held| held.version.as_str())).collect();
        assert_eq!(versions, [Some("5.7"), Some("3.7"), None]);
        let same = (0..).map(ReplicaIndex).zip([&one, &one]).collect();
        assert_eq!(differing_keys(&same), []);
    }
}
