//! Sites that were taken out of a keyspace whose groups stand in sites, because they are lost.
//!
//! The configuration service has one list of them for each keyspace, to which an operator adds; and the sites that are left write into it
//! how far they go on with what a lost one has done. All of it is decided there once.

use crate::id::ShardId;

/// The end of the transactions of a site that was taken out, as the others have agreed on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// So many of its transactions are kept, the first ones. Later ones are abandoned.
    pub last: u64,
    /// By position: how many transactions of each site its successor must have before it lets in what the lost site let in.
    pub barrier: Vec<u64>,
}

/// A site that was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The group of replicas that stood there.
    pub shard: ShardId,
    /// The one that does from here on what only the lost one could.
    pub successor: ShardId,
    /// How it has ended; none before the others have agreed.
    pub settled: Option<Settled>,
}

/// A proposal of a site that is left: the ends of the sites that were taken out and have none yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// How many removals there were when it was made: it says nothing once there are more.
    pub removals: usize,
    /// The ends.
    pub ends: Vec<(ShardId, Settled)>,
}

/// Why a site cannot be taken out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemovalError {
    /// There is no such site.
    #[error("{shard} is no site of this keyspace")]
    NoSuchSite {
        /// The group of replicas.
        shard: ShardId,
    },
    /// It was taken out before.
    #[error("{shard} was removed before")]
    RemovedBefore {
        /// The group of replicas.
        shard: ShardId,
    },
    /// Nobody would be left.
    #[error(
        "{shard} is the last site of this keyspace, which cannot be removed: drop the keyspace, or bring the site back"
    )]
    LastSite {
        /// The group of replicas.
        shard: ShardId,
    },
}

/// The sites that were taken out of a keyspace, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// A successor is a site that had not been taken out by then.
    list: Vec<Removal>,
}

impl Removals {
    /// These, the first one first.
    pub fn new(list: Vec<Removal>) -> Self {
        Removals { list }
    }

    /// The list of them.
    pub fn into_list(self) -> Vec<Removal> {
        self.list
    }

    /// True if these can be removals from a keyspace with these shards: each of one of them and once, succeeded by one that was left.
    pub fn fits(&self, shards: &[ShardId]) -> bool {
        let mut gone: Vec<ShardId> = Vec::new();
        self.list.iter().all(|Removal { shard, successor, .. }| {
            let is_left = |shard: &ShardId| shards.contains(shard) && !gone.contains(shard);
            let fits = is_left(shard) && is_left(successor) && shard != successor;
            gone.push(*shard);
            fits
        })
    }

    /// All of them, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &Removal> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if no site was taken out.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The removal of a site.
    pub fn of(&self, shard: ShardId) -> Option<&Removal> {
        self.list.iter().find(|removal| removal.shard == shard)
    }

    /// Takes a site out of a keyspace that has these; the first one that is left after it, round about, succeeds it.
    ///
    /// # Errors
    /// It is none of them, was taken out before, or is the last one.
    pub fn remove(&mut self, shard: ShardId, shards: &[ShardId]) -> Result<(), RemovalError> {
        let position =
            shards.iter().position(|known| *known == shard).ok_or(RemovalError::NoSuchSite { shard })?;
        if self.of(shard).is_some() {
            return Err(RemovalError::RemovedBefore { shard });
        }
        let after = shards[position + 1..].iter().chain(&shards[..position]).copied();
        let mut left = after.filter(|other| self.of(*other).is_none());
        let successor = left.next().ok_or(RemovalError::LastSite { shard })?;
        self.list.push(Removal { shard, successor, settled: None });
        Ok(())
    }

    /// Settles the ends of sites as the others propose it; false if something else was decided since, and nothing was done.
    pub fn settle(&mut self, settlement: &Settlement) -> bool {
        let is_open = |(shard, _): &(ShardId, Settled)| {
            self.of(*shard).is_some_and(|removal| removal.settled.is_none())
        };
        if settlement.removals != self.list.len() || !settlement.ends.iter().all(is_open) {
            return false;
        }
        for (shard, settled) in &settlement.ends {
            if let Some(removal) = self.list.iter_mut().find(|removal| removal.shard == *shard) {
                removal.settled = Some(settled.clone());
            }
        }
        !settlement.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(ids: &[u32]) -> Vec<ShardId> {
        ids.iter().copied().map(ShardId).collect()
    }

    #[test]
    fn the_next_site_that_is_left_succeeds() {
        let (all, mut removals) = (shards(&[1, 2, 3]), Removals::default());
        removals.remove(ShardId(3), &all).unwrap();
        removals.remove(ShardId(1), &all).unwrap();
        let listed: Vec<_> = removals.iter().map(|removal| (removal.shard.0, removal.successor.0)).collect();
        assert_eq!(listed, [(3, 1), (1, 2)]);
        let refused = |shard| removals.clone().remove(ShardId(shard), &all).unwrap_err();
        assert_eq!(refused(2), RemovalError::LastSite { shard: ShardId(2) });
        assert_eq!(refused(3), RemovalError::RemovedBefore { shard: ShardId(3) });
        assert_eq!(refused(4), RemovalError::NoSuchSite { shard: ShardId(4) });
    }

    #[test]
    fn an_end_is_settled_once_and_by_those_that_know_of_all_removals() {
        let (all, mut removals) = (shards(&[1, 2, 3]), Removals::default());
        removals.remove(ShardId(3), &all).unwrap();
        let end = |last| Settled { last, barrier: vec![last] };
        let settlement = |removals, last| Settlement { removals, ends: vec![(ShardId(3), end(last))] };
        assert!(!removals.settle(&settlement(0, 5)) && !removals.settle(&settlement(2, 5)));
        assert!(removals.settle(&settlement(1, 5)) && !removals.settle(&settlement(1, 6)));
        assert_eq!(removals.of(ShardId(3)).unwrap().settled, Some(end(5)));
        assert!(!removals.settle(&Settlement { removals: 1, ends: vec![(ShardId(2), end(1))] }));
    }
}
