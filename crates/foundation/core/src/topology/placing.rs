//! Where replicas go when nodes come and go: which nodes a shard is to have its replicas on. The conditions of a change of a group are
//! told elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::{Keyspace, Node, Shard, Topology};
use crate::id::{NodeId, ShardId, SiteId};
use crate::quorum::InvalidGroupSize;

/// The nodes that shards are to have their replicas on; those that are not named stay where they are.
pub type Moves = BTreeMap<ShardId, Vec<NodeId>>;

/// Why replicas cannot be placed as they are wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// There is no such node, or it was forgotten.
    #[error("{node} is no node of this cluster")]
    NoSuchNode {
        /// The node.
        node: NodeId,
    },
    /// A node has nothing that could move.
    #[error("{node} has no replica of it")]
    NothingThere {
        /// The node.
        node: NodeId,
    },
    /// Two replicas of a shard on one node would be lost together.
    #[error("{node} has a replica of {shard} already")]
    Occupied {
        /// The shard.
        shard: ShardId,
        /// The node.
        node: NodeId,
    },
    /// The shard is a local site, and the node stands in another.
    #[error("{shard} stands in one site, and {node} is in another")]
    OtherSite {
        /// The shard.
        shard: ShardId,
        /// The node.
        node: NodeId,
    },
    /// Every node that may be has a replica of the shard, or a machine of another home.
    #[error("no node is left for {shard} that has no replica of it: add a node, or take a replica away")]
    NoNodeLeft {
        /// The shard.
        shard: ShardId,
    },
    /// Not an odd number of replicas, or too many.
    #[error(transparent)]
    GroupSize(#[from] InvalidGroupSize),
}

/// Chooses nodes for replicas.
#[derive(Clone, Debug)]
pub struct Placing<'a> {
    topology: &'a Topology,
    /// How many replicas each node has.
    load: BTreeMap<NodeId, usize>,
}

impl<'a> Placing<'a> {
    /// Chooses among the nodes of a cluster that has these keyspaces: those that have few replicas are preferred.
    pub fn new<'k>(topology: &'a Topology, keyspaces: impl IntoIterator<Item = &'k Keyspace>) -> Self {
        let mut load = BTreeMap::new();
        for node in keyspaces.into_iter().flat_map(Keyspace::groups).flat_map(|group| &group.replicas) {
            *load.entry(*node).or_default() += 1;
        }
        Placing { topology, load }
    }

    /// Moves the replicas of a keyspace, or of one of its shards, from one node to another. Nothing is left to move if that is what
    /// the last change was.
    ///
    /// # Errors
    /// There is no such node, nothing to move, or the other node has a replica of the same shard already.
    pub fn relocate(
        &mut self,
        keyspace: &Keyspace,
        shard: Option<ShardId>,
        from: NodeId,
        to: NodeId,
    ) -> Result<Moves, MoveError> {
        for node in [from, to] {
            self.node(node)?;
        }
        let is_meant =
            |group: &&Shard| shard.is_none_or(|shard| shard == group.id) && group.replicas.contains(&from);
        let mut moves = Moves::new();
        for group in keyspace.groups().filter(is_meant) {
            match self.relocation(keyspace, group, from, to) {
                Ok(()) => {
                    moves.insert(group.id, self.replaced(group, from, to));
                }
                // The machine of a node stays there if it cannot follow the replicas.
                Err(_) if shard.is_none() && keyspace.is_home(group.id) => {}
                Err(error) => return Err(error),
            }
        }
        let has_moved = |group: &Shard| {
            let was_on = |node| group.previous().any(|(_, known)| known == node);
            let is_meant = shard.is_none_or(|shard| shard == group.id);
            is_meant && was_on(from) && !was_on(to) && group.replicas.contains(&to)
        };
        if moves.is_empty() && !keyspace.groups().any(has_moved) {
            return Err(MoveError::NothingThere { node: from });
        }
        Ok(moves)
    }

    /// Finds out whether a replica of a group may move from one node to another.
    fn relocation(
        &self,
        keyspace: &Keyspace,
        group: &Shard,
        from: NodeId,
        to: NodeId,
    ) -> Result<(), MoveError> {
        let is_home = keyspace.is_home(group.id);
        let has_machine = keyspace.homes.iter().find(|home| is_home && home.replicas.contains(&to));
        let occupied = has_machine.or_else(|| Some(group).filter(|group| group.replicas.contains(&to)));
        if let Some(Shard { id, .. }) = occupied {
            return Err(MoveError::Occupied { shard: *id, node: to });
        }
        if stands_in_site(keyspace, group) && self.site(from) != self.site(to) {
            return Err(MoveError::OtherSite { shard: group.id, node: to });
        }
        Ok(())
    }

    /// Moves every replica of a keyspace from these nodes elsewhere: in the same site if there is a node, or else to a site
    /// that has none of the shard. No home goes on with fewer: in memory, two could not do without one of them.
    ///
    /// # Errors
    /// There is no such node, or no other is left for one of the replicas.
    pub fn vacate(&mut self, keyspace: &Keyspace, nodes: &BTreeSet<NodeId>) -> Result<Moves, MoveError> {
        let mut moves = Moves::new();
        for node in nodes {
            let site = self.node(*node)?.site;
            for group in keyspace.groups().filter(|group| group.replicas.contains(node)) {
                let stays = stands_in_site(keyspace, group);
                let homes = keyspace.homes.iter().filter(|_| keyspace.is_home(group.id));
                let machines: Vec<&[NodeId]> = homes.map(|home| placed(home, &moves)).collect();
                let has_machine = |to: &Node| machines.iter().any(|home| home.contains(&to.id));
                let may_be =
                    |to: &Node| !nodes.contains(&to.id) && (!stays || to.site == site) && !has_machine(to);
                let present = Shard::new(group.id, placed(group, &moves).to_vec());
                let to = self.choose(&present, may_be, Some(site))?;
                moves.insert(group.id, self.replaced(&present, *node, to));
            }
        }
        Ok(moves)
    }

    /// Gives every shard of a keyspace so many replicas: further ones in these sites, first where the shard has none; and
    /// takes away from sites that have most. Homes stay as they are.
    ///
    /// # Errors
    /// No group has such a size, or there are too few nodes.
    pub fn resize(
        &mut self,
        keyspace: &Keyspace,
        replicas: usize,
        sites: &[SiteId],
    ) -> Result<Moves, MoveError> {
        keyspace.group_of(replicas)?;
        let mut moves = Moves::new();
        let is_other = |group: &&Shard| !keyspace.is_home(group.id) && group.replicas.len() != replicas;
        for group in keyspace.groups().filter(is_other) {
            let mut group = Shard::new(group.id, group.replicas.clone());
            while group.replicas.len() < replicas {
                let own = group.replicas.first().and_then(|node| self.site(*node));
                let may_be = |node: &Node| match keyspace.isolation.stands_in_sites() {
                    true => Some(node.site) == own,
                    false => sites.contains(&node.site),
                };
                let node = self.choose(&group, may_be, None)?;
                *self.load.entry(node).or_default() += 1;
                group.replicas.push(node);
            }
            while group.replicas.len() > replicas {
                let node = self.most_dispensable(&group);
                *self.load.entry(node).or_default() -= 1;
                group.replicas.retain(|kept| *kept != node);
            }
            moves.insert(group.id, group.replicas);
        }
        Ok(moves)
    }

    fn node(&self, node: NodeId) -> Result<&'a Node, MoveError> {
        self.topology.node(node).ok_or(MoveError::NoSuchNode { node })
    }

    fn site(&self, node: NodeId) -> Option<SiteId> {
        self.topology.node(node).map(|node| node.site)
    }

    /// How many replicas of a group stand in a site.
    fn in_site(&self, group: &Shard, site: Option<SiteId>) -> usize {
        group.replicas.iter().filter(|node| self.site(**node) == site).count()
    }

    /// A node for a further replica of a group, in this site if there is one.
    fn choose(
        &self,
        group: &Shard,
        may_be: impl Fn(&Node) -> bool,
        preferred: Option<SiteId>,
    ) -> Result<NodeId, MoveError> {
        let free = |node: &&Node| may_be(node) && !group.replicas.contains(&node.id);
        let cost = |node: &&Node| {
            let load = self.load.get(&node.id).copied().unwrap_or(0);
            (Some(node.site) != preferred, self.in_site(group, Some(node.site)), load, node.id)
        };
        let chosen = self.topology.live_nodes().filter(free).min_by_key(cost);
        chosen.map(|node| node.id).ok_or(MoveError::NoNodeLeft { shard: group.id })
    }

    /// The node of the replica of a group that is missed least. Of equals the last one goes: the first may lead.
    fn most_dispensable(&self, group: &Shard) -> NodeId {
        let merit = |(position, node): &(usize, &NodeId)| {
            let load = self.load.get(*node).copied().unwrap_or(0);
            (self.in_site(group, self.site(**node)), load, *position)
        };
        let candidates = group.replicas.iter().enumerate();
        candidates.max_by_key(merit).map(|(_, node)| *node).expect("a group has a replica")
    }

    /// The nodes of a group with one in the place of another.
    fn replaced(&mut self, group: &Shard, from: NodeId, to: NodeId) -> Vec<NodeId> {
        *self.load.entry(to).or_default() += 1;
        self.load.entry(from).and_modify(|load| *load = load.saturating_sub(1));
        group.replicas.iter().map(|node| if *node == from { to } else { *node }).collect()
    }
}

/// True if the replicas of a group stand in one site. A home of one may go anywhere: it is one node's in any case.
fn stands_in_site(keyspace: &Keyspace, group: &Shard) -> bool {
    keyspace.isolation.stands_in_sites() || keyspace.is_home(group.id) && group.replicas.len() > 1
}

/// The nodes of a group, once these moves are made.
fn placed<'m>(group: &'m Shard, moves: &'m Moves) -> &'m [NodeId] {
    moves.get(&group.id).unwrap_or(&group.replicas)
}

impl Topology {
    /// The nodes that were not forgotten.
    pub fn live_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.is_forgotten())
    }

    /// A node, unless it was forgotten or never was.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::from(id.0)).filter(|node| !node.is_forgotten())
    }

    /// A site whose loss a group would not survive, because it holds a majority.
    pub fn decisive_site(&self, group: &Shard) -> Option<SiteId> {
        let mut held = BTreeMap::<SiteId, usize>::new();
        for node in group.replicas.iter().filter_map(|node| self.nodes.get(usize::from(node.0))) {
            *held.entry(node.site).or_default() += 1;
        }
        held.into_iter().find(|(_, held)| held * 2 > group.replicas.len()).map(|(site, _)| site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::KeyspaceId;
    use crate::topology::{Durability, Isolation};

    /// Nodes in sites, numbered as they are named.
    fn topology(sites: &[&[u16]]) -> Topology {
        let mut nodes: Vec<Node> = Vec::new();
        for (site, members) in sites.iter().enumerate() {
            nodes.extend(members.iter().map(|id| Node {
                id: NodeId(*id),
                site: SiteId(site as u16),
                address: format!("host{id}:1"),
            }));
        }
        nodes.sort_by_key(|node| node.id);
        Topology { sites: (0..sites.len()).map(|site| format!("site{site}")).collect(), nodes }
    }

    fn nodes(nodes: &[u16]) -> Vec<NodeId> {
        nodes.iter().copied().map(NodeId).collect()
    }

    fn keyspace(shards: &[&[u16]]) -> Keyspace {
        let shard = |(id, on): (u32, &&[u16])| Shard::new(ShardId(id), nodes(on));
        Keyspace::new(
            KeyspaceId(1),
            "accounts",
            Isolation::Strict,
            Durability::Sync,
            (1..).zip(shards).map(shard).collect(),
        )
    }

    /// The nodes of each shard that moves.
    fn listed(moves: Result<Moves, MoveError>) -> Vec<(u32, Vec<u16>)> {
        let list = |(shard, nodes): (ShardId, Vec<NodeId>)| {
            (shard.0, nodes.into_iter().map(|node| node.0).collect())
        };
        moves.unwrap().into_iter().map(list).collect()
    }

    #[test]
    fn a_replica_moves_to_a_node_that_has_none_of_its_shard() {
        let topology = topology(&[&[0, 3], &[1], &[2]]);
        let keyspace = keyspace(&[&[0, 1, 2], &[1, 2, 3]]);
        let mut placing = Placing::new(&topology, [&keyspace]);
        let mut relocate = |shard: Option<u32>, from, to| {
            placing.relocate(&keyspace, shard.map(ShardId), NodeId(from), NodeId(to))
        };
        assert_eq!(listed(relocate(None, 0, 3)), [(1, vec![3, 1, 2])]);
        let occupied = MoveError::Occupied { shard: ShardId(2), node: NodeId(3) };
        assert_eq!(relocate(None, 1, 3), Err(occupied.clone()));
        assert_eq!(relocate(Some(2), 1, 3), Err(occupied));
        assert_eq!(relocate(Some(2), 0, 1), Err(MoveError::NothingThere { node: NodeId(0) }));
        assert_eq!(relocate(None, 0, 9), Err(MoveError::NoSuchNode { node: NodeId(9) }));
    }

    #[test]
    fn a_local_site_stays_in_its_site() {
        let topology = topology(&[&[0, 1, 2, 6], &[3, 4, 5]]);
        let local =
            Keyspace { isolation: Isolation::ParallelSnapshot, ..keyspace(&[&[0, 1, 2], &[3, 4, 5]]) };
        let mut placing = Placing::new(&topology, [&local]);
        let (first, second) = (ShardId(1), ShardId(2));
        assert_eq!(listed(placing.relocate(&local, Some(first), NodeId(0), NodeId(6))), [(1, vec![6, 1, 2])]);
        let other = MoveError::OtherSite { shard: second, node: NodeId(6) };
        assert_eq!(placing.relocate(&local, Some(second), NodeId(3), NodeId(6)), Err(other));
        assert_eq!(listed(placing.vacate(&local, &[NodeId(1)].into())), [(1, vec![0, 6, 2])]);
        assert_eq!(placing.vacate(&local, &[NodeId(4)].into()), Err(MoveError::NoNodeLeft { shard: second }));
        let grown = placing.resize(&local, 5, &[SiteId(0), SiteId(1)]);
        assert_eq!(grown, Err(MoveError::NoNodeLeft { shard: first }));
    }

    #[test]
    fn a_home_stays_in_its_site_and_no_node_has_two_machines() {
        let topology = topology(&[&[0, 1, 2, 6], &[3, 4], &[5]]);
        let home = |(id, on): (u32, &[u16])| Shard::new(ShardId(id), nodes(on));
        let homes = [(7, &[0, 1, 2][..]), (8, &[3][..]), (9, &[4][..])].map(home).to_vec();
        let speculative =
            Keyspace { isolation: Isolation::Snapshot, homes, ..keyspace(&[&[0, 3, 4], &[1, 3, 4]]) };
        let relocate = |shard: Option<u32>, from, to| {
            let mut placing = Placing::new(&topology, [&speculative]);
            placing.relocate(&speculative, shard.map(ShardId), NodeId(from), NodeId(to))
        };
        assert_eq!(listed(relocate(None, 0, 6)), [(1, vec![6, 3, 4]), (7, vec![6, 1, 2])]);
        assert_eq!(listed(relocate(None, 0, 1)), [(1, vec![1, 3, 4])], "each of them has a machine");
        assert_eq!(listed(relocate(None, 0, 5)), [(1, vec![5, 3, 4])], "a home of three stays in its site");
        assert_eq!(listed(relocate(Some(9), 4, 5)), [(9, vec![5])], "a home of one may go anywhere");
        let occupied = MoveError::Occupied { shard: ShardId(8), node: NodeId(3) };
        assert_eq!(relocate(Some(7), 0, 3), Err(occupied));
        let other = MoveError::OtherSite { shard: ShardId(7), node: NodeId(5) };
        assert_eq!(relocate(Some(7), 0, 5), Err(other));

        let vacate = |leaving: &[u16]| {
            let leaving = nodes(leaving).into_iter().collect();
            Placing::new(&topology, [&speculative]).vacate(&speculative, &leaving)
        };
        assert_eq!(listed(vacate(&[2])), [(7, vec![0, 1, 6])]);
        assert_eq!(
            vacate(&[0, 2]),
            Err(MoveError::NoNodeLeft { shard: ShardId(7) }),
            "one is left in the site"
        );
        let mut elsewhere = listed(vacate(&[3, 4])).split_off(2);
        elsewhere.sort_by_key(|(_, on)| on.clone());
        assert_eq!(elsewhere, [(9, vec![5]), (8, vec![6])], "each on another node, though in another site");

        let sites = [SiteId(0), SiteId(1), SiteId(2)];
        let grown = Placing::new(&topology, [&speculative]).resize(&speculative, 5, &sites);
        assert_eq!(listed(grown).iter().map(|(group, _)| *group).collect::<Vec<_>>(), [1, 2]);
        let even = Placing::new(&topology, [&speculative]).resize(&speculative, 4, &sites).unwrap();
        assert!(speculative.next_epoch(&even).is_ok(), "logs take an even number as well");
    }

    #[test]
    fn what_has_moved_with_the_last_change_is_not_to_be_moved_again() {
        let topology = topology(&[&[0, 3], &[1], &[2]]);
        let moved = |keyspace: &Keyspace, from, to| {
            Placing::new(&topology, [keyspace]).relocate(keyspace, None, NodeId(from), NodeId(to))
        };
        let before = keyspace(&[&[0, 1, 2]]);
        let after = before.next_epoch(&moved(&before, 0, 3).unwrap()).unwrap();
        assert_eq!(listed(moved(&after, 0, 3)), []);
        assert_eq!(
            moved(&after, 0, 1),
            Err(MoveError::NothingThere { node: NodeId(0) }),
            "it was there before"
        );
        assert_eq!(moved(&after, 0, 0), Err(MoveError::NothingThere { node: NodeId(0) }));
        let later = after.next_epoch(&moved(&after, 1, 0).unwrap()).unwrap();
        assert_eq!(listed(moved(&later, 1, 0)), []);
        assert_eq!(listed(moved(&later, 3, 1)), [(1, vec![2, 1, 0])]);
    }

    #[test]
    fn who_leaves_a_node_stays_in_its_site_or_goes_where_its_shard_is_not() {
        let topology = topology(&[&[0, 3], &[1], &[2], &[4], &[5]]);
        let drained = |on: &[u16], leaving: &[u16]| {
            let keyspace = keyspace(&[on]);
            let leaving = nodes(leaving).into_iter().collect();
            Placing::new(&topology, [&keyspace]).vacate(&keyspace, &leaving)
        };
        assert_eq!(listed(drained(&[0, 1, 2], &[0])), [(1, vec![3, 1, 2])], "the same site");
        assert_eq!(listed(drained(&[0, 1, 2], &[0, 3])), [(1, vec![4, 1, 2])], "a site without one");
        assert_eq!(listed(drained(&[0, 1, 2], &[1, 2])), [(1, vec![0, 4, 5])]);
        assert_eq!(listed(drained(&[0, 1, 2], &[5])), []);
        let everywhere = [0, 1, 2, 4, 5];
        assert_eq!(listed(drained(&everywhere, &[4])), [(1, vec![0, 1, 2, 3, 5])], "better than nowhere");
        assert_eq!(drained(&everywhere, &[3, 4]), Err(MoveError::NoNodeLeft { shard: ShardId(1) }));
    }

    #[test]
    fn replicas_spread_over_the_nodes_that_have_few() {
        let topology = topology(&[&[0], &[1], &[2], &[3, 4]]);
        let keyspace = keyspace(&[&[0, 1, 2], &[0, 1, 2], &[0, 1, 3]]);
        let moves = Placing::new(&topology, [&keyspace]).vacate(&keyspace, &[NodeId(2)].into());
        assert_eq!(listed(moves), [(1, vec![0, 1, 4]), (2, vec![0, 1, 3])]);
    }

    #[test]
    fn groups_grow_where_they_are_not_and_shrink_where_they_are_most() {
        let topology = topology(&[&[0, 5], &[1], &[2], &[3], &[4]]);
        let sites: Vec<SiteId> = (0..5).map(SiteId).collect();
        let resized = |on: &[u16], replicas: usize, sites: &[SiteId]| {
            let keyspace = keyspace(&[on]);
            Placing::new(&topology, [&keyspace]).resize(&keyspace, replicas, sites)
        };
        assert_eq!(listed(resized(&[0, 1, 2], 5, &sites)), [(1, vec![0, 1, 2, 3, 4])]);
        assert_eq!(listed(resized(&[0, 1, 2], 3, &sites)), [], "it has as many");
        assert_eq!(listed(resized(&[5, 0, 1, 2, 3], 3, &sites)), [(1, vec![5, 1, 2])]);
        let few = resized(&[0, 1, 2], 5, &sites[..4]);
        assert_eq!(listed(few), [(1, vec![0, 1, 2, 3, 5])], "in these sites, even two in one");
        assert_eq!(resized(&[0, 1, 2], 5, &sites[1..4]), Err(MoveError::NoNodeLeft { shard: ShardId(1) }));
        assert!(matches!(resized(&[0, 1, 2], 4, &sites), Err(MoveError::GroupSize(_))));
    }

    #[test]
    fn forgotten_nodes_are_not_chosen() {
        let mut topology = topology(&[&[0, 3], &[1], &[2], &[4]]);
        topology.nodes[3].address.clear();
        let keyspace = keyspace(&[&[0, 1, 2]]);
        let mut placing = Placing::new(&topology, [&keyspace]);
        assert_eq!(listed(placing.vacate(&keyspace, &[NodeId(0)].into())), [(1, vec![4, 1, 2])]);
        let refused = placing.relocate(&keyspace, None, NodeId(0), NodeId(3));
        assert_eq!(refused, Err(MoveError::NoSuchNode { node: NodeId(3) }));
    }

    #[test]
    fn a_site_with_a_majority_decides() {
        let topology = topology(&[&[0, 1, 2], &[3], &[4]]);
        let decisive = |on: &[u16]| topology.decisive_site(&Shard::new(ShardId(1), nodes(on)));
        assert_eq!(decisive(&[0, 1, 3]), Some(SiteId(0)));
        assert_eq!(decisive(&[0, 3, 4]), None);
        assert_eq!(decisive(&[0, 1, 2, 3, 4]), Some(SiteId(0)));
    }
}
