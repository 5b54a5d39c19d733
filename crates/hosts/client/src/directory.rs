//! Which sites and nodes there are, and which replicas are near.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Routes;
use quorate_core::topology::{Keyspace, Shard, Topology};
use quorate_core::{NodeId, ReplicaId, ReplicaIndex, ShardId, SiteId};

use crate::error::{Invalid, MissingReplica};

/// The places of a cluster, as a client knows them at a time.
#[derive(Debug)]
pub(crate) struct Directory {
    topology: Arc<Topology>,
    /// How far each node is, by node id.
    distance: Vec<Distance>,
}

/// How far a node is: first by place, then by what was measured or is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Distance {
    /// False sorts first: the node stands in the site of this client.
    pub(crate) elsewhere: bool,
    /// The round trip; the greatest duration if it is not known.
    pub(crate) round_trip: Duration,
}

impl Directory {
    /// The directory as seen from a client; `round_trip` tells how far a node is, if that is known.
    pub(crate) fn new(
        topology: Topology,
        site: Option<SiteId>,
        round_trip: impl Fn(NodeId) -> Option<Duration>,
    ) -> Self {
        let distance = topology
            .nodes
            .iter()
            .map(|node| Distance {
                elsewhere: site != Some(node.site),
                round_trip: round_trip(node.id).unwrap_or(Duration::MAX),
            })
            .collect();
        Directory { topology: Arc::new(topology), distance }
    }

    /// The sites and nodes.
    pub(crate) fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// A keyspace with the replicas of all its groups sorted by distance, the nearest first.
    pub(crate) fn routes(&self, keyspace: Keyspace) -> Routes {
        let nearest = |shard| {
            let mut replicas: Vec<_> = self.distances(shard).collect();
            replicas.sort_unstable();
            replicas.into_iter().map(|(_, _, index)| index).collect()
        };
        let nearest = keyspace.groups().map(nearest).collect();
        let changes = keyspace.site_changes();
        let serves = |at: &usize| changes.serves(keyspace.shards[*at].id);
        let mut order: Vec<usize> = (0..keyspace.shards.len()).filter(serves).collect();
        order.sort_by_cached_key(|position| self.distances(&keyspace.shards[*position]).min());
        let mut homes: Vec<_> = keyspace
            .homes
            .iter()
            .flat_map(|home| self.distances(home).map(|distance| (distance, home.id)))
            .collect();
        homes.sort_unstable();
        let homes = homes.into_iter().map(|((_, _, index), shard)| ReplicaId { shard, index }).collect();
        Routes { keyspace, nearest, order, homes }
    }

    /// The shard of a keyspace whose nearest replica is the nearest.
    pub(crate) fn nearest_shard(&self, keyspace: &Keyspace) -> Option<ShardId> {
        keyspace.shards_that_serve().min_by_key(|shard| self.distances(shard).min()).map(|shard| shard.id)
    }

    /// How far each replica of a group is.
    fn distances(&self, shard: &Shard) -> impl Iterator<Item = (Reverse<bool>, Distance, ReplicaIndex)> {
        shard.members().map(|(index, node)| {
            let distance = self.distance.get(usize::from(node.0)).copied();
            let unknown = Distance { elsewhere: true, round_trip: Duration::MAX };
            (Reverse(distance.is_some()), distance.unwrap_or(unknown), index)
        })
    }

    /// How far a node is; none sorts before those that are known, so a node that is not comes last.
    pub(crate) fn distance_of(&self, node: NodeId) -> (bool, Option<Distance>) {
        let distance = self.distance.get(usize::from(node.0)).copied();
        (distance.is_none(), distance)
    }

    /// Where replicas that do not answer should be.
    pub(crate) fn describe(&self, keyspace: &Keyspace, missing: &[ReplicaId]) -> Vec<MissingReplica> {
        missing.iter().map(|replica| self.describe_one(keyspace, *replica)).collect()
    }

    fn describe_one(&self, keyspace: &Keyspace, replica: ReplicaId) -> MissingReplica {
        let node = keyspace
            .groups()
            .find(|shard| shard.id == replica.shard)
            .and_then(|shard| shard.node_of(replica.index))
            .and_then(|node| self.topology.nodes.get(usize::from(node.0)));
        let site = node.and_then(|node| self.topology.sites.get(usize::from(node.site.0)));
        MissingReplica {
            replica,
            address: node.map_or_else(|| "an unknown address".to_owned(), |node| node.address.clone()),
            site: site.map_or_else(|| "unknown site".to_owned(), String::clone),
            problem: None,
            if_lost: None,
        }
    }

    /// The local sites of a keyspace that stand in a site and that clients may use.
    ///
    /// # Errors
    /// There is no such site, or none of the keyspace's stands in it.
    pub(crate) fn local_sites(&self, keyspace: &Keyspace, site: &str) -> Result<Vec<ShardId>, Invalid> {
        let mut found = self.all_local_sites(keyspace, site)?;
        let changes = keyspace.site_changes();
        found.retain(|shard| changes.serves(*shard));
        if found.is_empty() {
            return Err(Invalid::NotInSite { name: keyspace.name.clone(), site: site.to_owned() });
        }
        Ok(found)
    }

    /// The local sites of a keyspace that stand in a site, those that were removed among them.
    ///
    /// # Errors
    /// There is no such site.
    pub(crate) fn all_local_sites(&self, keyspace: &Keyspace, site: &str) -> Result<Vec<ShardId>, Invalid> {
        let wanted = site_named(&self.topology, site)?;
        let site_of = |node: &NodeId| self.topology.nodes.get(usize::from(node.0)).map(|node| node.site);
        let is_there = |shard: &&Shard| shard.replicas.first().and_then(site_of) == Some(wanted);
        Ok(keyspace.shards.iter().filter(is_there).map(|shard| shard.id).collect())
    }

    /// The names of the sites of these shards, as far as they are known, each once.
    pub(crate) fn sites_of(&self, keyspace: &Keyspace, shards: &[ShardId]) -> Vec<String> {
        let stands = |shard: &ShardId| {
            let node = keyspace.groups().find(|group| group.id == *shard)?.replicas.first()?;
            let site = self.topology.nodes.get(usize::from(node.0))?.site;
            self.topology.sites.get(usize::from(site.0)).cloned()
        };
        let name = |shard: &ShardId| stands(shard).unwrap_or_else(|| format!("the site of {shard}"));
        let mut names: Vec<String> = shards.iter().map(name).collect();
        names.dedup();
        names
    }

    /// The sites with these names; all sites if none are named.
    pub(crate) fn sites(&self, names: &[String]) -> Result<Vec<SiteId>, Invalid> {
        if names.is_empty() {
            return Ok((0..self.topology.sites.len()).map(|site| SiteId(site as u16)).collect());
        }
        names.iter().map(|name| site_named(&self.topology, name)).collect()
    }
}

/// The site with this name.
pub(crate) fn site_named(topology: &Topology, name: &str) -> Result<SiteId, Invalid> {
    let position = topology.sites.iter().position(|site| site == name);
    position
        .map(|position| SiteId(position as u16))
        .ok_or_else(|| Invalid::NoSuchSite { name: name.to_owned(), existing: topology.sites.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::topology::{Durability, Isolation, Node, Shard};
    use quorate_core::{KeyspaceId, ShardId};

    fn topology() -> Topology {
        let node = |id: u16| Node { id: NodeId(id), site: SiteId(id), address: format!("host{id}:7400") };
        Topology { sites: vec!["us".into(), "eu".into(), "asia".into()], nodes: (0..3).map(node).collect() }
    }

    fn keyspace() -> Keyspace {
        Keyspace::new(
            KeyspaceId(1),
            "accounts",
            Isolation::Strict,
            Durability::Sync,
            vec![Shard::new(ShardId(4), vec![NodeId(0), NodeId(1), NodeId(2)])],
        )
    }

    fn nearest(directory: &Directory) -> Vec<u8> {
        directory.routes(keyspace()).nearest[0].iter().map(|index| index.0).collect()
    }

    #[test]
    fn the_own_site_comes_first_and_then_the_shortest_way() {
        let round_trip = |node: NodeId| Some(Duration::from_millis([100, 300, 200][usize::from(node.0)]));
        assert_eq!(nearest(&Directory::new(topology(), Some(SiteId(1)), round_trip)), [1, 0, 2]);
        assert_eq!(nearest(&Directory::new(topology(), None, round_trip)), [0, 2, 1]);
    }

    #[test]
    fn nodes_that_were_not_reached_come_last() {
        let round_trip = |node: NodeId| (node != NodeId(0)).then_some(Duration::from_millis(5));
        assert_eq!(nearest(&Directory::new(topology(), None, round_trip)), [1, 2, 0]);
    }

    #[test]
    fn missing_replicas_are_told_by_place() {
        let directory = Directory::new(topology(), None, |_| None);
        let known = ReplicaId { shard: ShardId(4), index: ReplicaIndex(2) };
        let unknown = ReplicaId { shard: ShardId(9), index: ReplicaIndex(0) };
        let described = directory.describe(&keyspace(), &[known, unknown]);
        assert_eq!(described[0].to_string(), "shard4/r2 at host2:7400 (asia)");
        assert_eq!(described[1].to_string(), "shard9/r0 at an unknown address (unknown site)");
    }

    #[test]
    fn unknown_sites_are_named_with_the_known_ones() {
        let directory = Directory::new(topology(), None, |_| None);
        assert_eq!(directory.sites(&[]).unwrap().len(), 3);
        assert_eq!(directory.sites(&["eu".into()]).unwrap(), [SiteId(1)]);
        let error = directory.sites(&["mars".into()]).unwrap_err().to_string();
        assert!(error.contains("mars") && error.contains("us, eu, asia"), "{error}");
    }
}
