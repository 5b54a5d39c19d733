//! How the sites of a keyspace change whose groups stand in sites: some are taken out, because they are lost, and others join, among them
//! those that come back.
//!
//! The configuration service has one list of these changes for each keyspace, to which an operator adds; and the sites write into it how far
//! they go on with what a lost one has done, and that one has all that the others have. All of it is decided there once.

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

/// A site that joins the others, or has joined them. Its place among the shards is behind those that were there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The group of replicas that stands there.
    pub shard: ShardId,
    /// The site that was taken out and comes back as this one: what that let in is handed over to it.
    pub replaces: Option<ShardId>,
    /// True once it has all that the others have. Before, it serves nobody, and nobody waits for it.
    pub is_ready: bool,
}

/// A proposal of a site: the ends of the sites that were taken out and have none yet, or that it has all that the others have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// How many removals there were when it was made: it says nothing once there are more.
    pub removals: usize,
    /// The ends.
    pub ends: Vec<(ShardId, Settled)>,
    /// The site that has all now.
    pub ready: Option<ShardId>,
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

/// Why a site cannot join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// One joins after the other.
    #[error("{shard} is about to join this keyspace: wait until it has all data, or remove it")]
    Busy {
        /// The group of replicas that joins.
        shard: ShardId,
    },
    /// The site that it replaces was not taken out.
    #[error("{shard} was not removed from this keyspace, so no site can take its place")]
    NotRemoved {
        /// The group of replicas.
        shard: ShardId,
    },
}

/// The changes to the sites of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteChanges {
    /// The sites that were taken out, in this order. A successor is a site that had not been taken out by then.
    removals: Vec<Removal>,
    /// The sites that joined, in this order.
    joins: Vec<Join>,
}

impl SiteChanges {
    /// These, the first ones first.
    pub fn new(removals: Vec<Removal>, joins: Vec<Join>) -> Self {
        SiteChanges { removals, joins }
    }

    /// The lists of them.
    pub fn into_lists(self) -> (Vec<Removal>, Vec<Join>) {
        (self.removals, self.joins)
    }

    /// True if these can be the changes of a keyspace with these shards: those that joined are the last of them, each that was taken out is
    /// one of them and was so once, and is succeeded by one that was left.
    pub fn fits(&self, shards: &[ShardId]) -> bool {
        let joined = self.joins.iter().map(|join| &join.shard);
        let Some(founders) = shards.len().checked_sub(self.joins.len()).filter(|founders| *founders > 0)
        else {
            return false;
        };
        let replaces_one = |join: &Join| {
            join.replaces.is_none_or(|replaced| replaced != join.shard && self.removal(replaced).is_some())
        };
        let mut gone: Vec<ShardId> = Vec::new();
        let mut are_left = self.removals.iter().map(|Removal { shard, successor, .. }| {
            let is_left = |shard: &ShardId| shards.contains(shard) && !gone.contains(shard);
            let fits = is_left(shard) && is_left(successor) && shard != successor;
            gone.push(*shard);
            fits
        });
        joined.eq(&shards[founders..]) && are_left.all(|fits| fits) && self.joins.iter().all(replaces_one)
    }

    /// The sites that were taken out, the first one first.
    pub fn removals(&self) -> &[Removal] {
        &self.removals
    }

    /// The sites that joined, the first one first.
    pub fn joins(&self) -> &[Join] {
        &self.joins
    }

    /// How far they have come: of two lists of one keyspace the greater one is the later.
    pub fn version(&self) -> [usize; 4] {
        let settled = self.removals.iter().filter(|removal| removal.settled.is_some()).count();
        let ready = self.joins.iter().filter(|join| join.is_ready).count();
        [self.removals.len(), settled, self.joins.len(), ready]
    }

    /// The removal of a site.
    pub fn removal(&self, shard: ShardId) -> Option<&Removal> {
        self.removals.iter().find(|removal| removal.shard == shard)
    }

    /// The site that joins: it has not all that the others have, and was not taken out.
    pub fn joining(&self) -> Option<&Join> {
        self.joins.iter().find(|join| !join.is_ready && self.removal(join.shard).is_none())
    }

    /// True if clients may use the site: it was not taken out, and does not still join.
    pub fn serves(&self, shard: ShardId) -> bool {
        self.removal(shard).is_none() && self.joining().is_none_or(|join| join.shard != shard)
    }

    /// Takes a site out of a keyspace that has these; the first one that is left after it, round about, succeeds it.
    ///
    /// # Errors
    /// It is none of them, was taken out before, or is the last one that has all data.
    pub fn remove(&mut self, shard: ShardId, shards: &[ShardId]) -> Result<(), RemovalError> {
        let position =
            shards.iter().position(|known| *known == shard).ok_or(RemovalError::NoSuchSite { shard })?;
        if self.removal(shard).is_some() {
            return Err(RemovalError::RemovedBefore { shard });
        }
        let after = shards[position + 1..].iter().chain(&shards[..position]).copied();
        let mut left = after.filter(|other| self.serves(*other));
        let successor = left.next().ok_or(RemovalError::LastSite { shard })?;
        self.removals.push(Removal { shard, successor, settled: None });
        Ok(())
    }

    /// A site joins, which may be one that comes back.
    ///
    /// # Errors
    /// Another one joins, or the one that it replaces was not taken out.
    pub fn join(&mut self, shard: ShardId, replaces: Option<ShardId>) -> Result<(), JoinError> {
        if let Some(Join { shard, .. }) = self.joining() {
            return Err(JoinError::Busy { shard: *shard });
        }
        if let Some(shard) = replaces.filter(|replaced| self.removal(*replaced).is_none()) {
            return Err(JoinError::NotRemoved { shard });
        }
        self.joins.push(Join { shard, replaces, is_ready: false });
        Ok(())
    }

    /// The site that was taken out last of those that one which joins may replace: nobody has replaced it yet.
    pub fn replaceable(&self, mut may: impl FnMut(ShardId) -> bool) -> Option<ShardId> {
        let is_replaced = |shard: ShardId| {
            let mut joins = self.joins.iter().filter(|join| self.removal(join.shard).is_none());
            joins.any(|join| join.replaces == Some(shard))
        };
        let mut lost = self.removals.iter().rev().map(|removal| removal.shard);
        lost.find(|shard| !is_replaced(*shard) && may(*shard))
    }

    /// Settles what a site proposes; false if something else was decided since, and nothing was done.
    pub fn settle(&mut self, settlement: &Settlement) -> bool {
        let is_open = |(shard, _): &(ShardId, Settled)| {
            self.removal(*shard).is_some_and(|removal| removal.settled.is_none())
        };
        if settlement.removals != self.removals.len() || !settlement.ends.iter().all(is_open) {
            return false;
        }
        for (shard, settled) in &settlement.ends {
            if let Some(removal) = self.removals.iter_mut().find(|removal| removal.shard == *shard) {
                removal.settled = Some(settled.clone());
            }
        }
        let are_all_settled = self.removals.iter().all(|removal| removal.settled.is_some());
        let ready = settlement
            .ready
            .filter(|ready| are_all_settled && self.joining().is_some_and(|joining| joining.shard == *ready));
        for join in self.joins.iter_mut().filter(|join| ready == Some(join.shard)) {
            join.is_ready = true;
        }
        !settlement.ends.is_empty() || ready.is_some()
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
        let (all, mut removals) = (shards(&[1, 2, 3]), SiteChanges::default());
        removals.remove(ShardId(3), &all).unwrap();
        removals.remove(ShardId(1), &all).unwrap();
        let listed: Vec<_> =
            removals.removals().iter().map(|removal| (removal.shard.0, removal.successor.0)).collect();
        assert_eq!(listed, [(3, 1), (1, 2)]);
        let refused = |shard| removals.clone().remove(ShardId(shard), &all).unwrap_err();
        assert_eq!(refused(2), RemovalError::LastSite { shard: ShardId(2) });
        assert_eq!(refused(3), RemovalError::RemovedBefore { shard: ShardId(3) });
        assert_eq!(refused(4), RemovalError::NoSuchSite { shard: ShardId(4) });
    }

    #[test]
    fn an_end_is_settled_once_and_by_those_that_know_of_all_removals() {
        let (all, mut removals) = (shards(&[1, 2, 3]), SiteChanges::default());
        removals.remove(ShardId(3), &all).unwrap();
        let end = |last| Settled { last, barrier: vec![last] };
        let settlement =
            |removals, last| Settlement { removals, ends: vec![(ShardId(3), end(last))], ready: None };
        assert!(!removals.settle(&settlement(0, 5)) && !removals.settle(&settlement(2, 5)));
        assert!(removals.settle(&settlement(1, 5)) && !removals.settle(&settlement(1, 6)));
        assert_eq!(removals.removal(ShardId(3)).unwrap().settled, Some(end(5)));
        assert!(!removals.settle(&Settlement { removals: 1, ends: vec![(ShardId(2), end(1))], ready: None }));
    }

    fn ready(removals: usize, shard: u32) -> Settlement {
        Settlement { removals, ends: Vec::new(), ready: Some(ShardId(shard)) }
    }

    #[test]
    fn sites_join_one_after_the_other_and_succeed_nobody_before_they_have_all_data() {
        let (all, mut changes) = (shards(&[1, 2, 3, 9]), SiteChanges::default());
        assert_eq!(
            changes.join(ShardId(9), Some(ShardId(3))),
            Err(JoinError::NotRemoved { shard: ShardId(3) })
        );
        changes.remove(ShardId(3), &all[..3]).unwrap();
        changes.join(ShardId(9), Some(ShardId(3))).unwrap();
        assert!(changes.fits(&all) && !changes.fits(&all[..3]) && !changes.fits(&shards(&[1, 2, 9, 3])));
        assert_eq!(changes.join(ShardId(10), None), Err(JoinError::Busy { shard: ShardId(9) }));
        assert!(!changes.serves(ShardId(9)) && !changes.serves(ShardId(3)) && changes.serves(ShardId(1)));
        assert!(!changes.settle(&ready(1, 9)), "the end of a removal is open");
        let end = Settlement { removals: 1, ends: vec![(ShardId(3), Settled::default())], ready: None };
        assert!(changes.settle(&end));
        assert!(!changes.settle(&ready(0, 9)) && !changes.settle(&ready(1, 2)));
        let mut without = changes.clone();
        without.remove(ShardId(1), &all).unwrap();
        assert_eq!(without.remove(ShardId(2), &all), Err(RemovalError::LastSite { shard: ShardId(2) }));
        assert!(changes.settle(&ready(1, 9)) && !changes.settle(&ready(1, 9)));
        assert!(changes.serves(ShardId(9)) && changes.joining().is_none());
        changes.remove(ShardId(2), &all).unwrap();
        assert_eq!(changes.removal(ShardId(2)).unwrap().successor, ShardId(9));
    }

    #[test]
    fn a_site_is_replaced_by_one_that_is_left() {
        let (all, mut changes) = (shards(&[1, 2, 8, 9]), SiteChanges::default());
        changes.remove(ShardId(2), &all[..2]).unwrap();
        assert_eq!(changes.replaceable(|_| true), Some(ShardId(2)));
        assert_eq!(changes.replaceable(|shard| shard != ShardId(2)), None);
        changes.join(ShardId(8), Some(ShardId(2))).unwrap();
        assert_eq!(changes.replaceable(|_| true), None);
        changes.remove(ShardId(8), &all[..3]).unwrap();
        assert_eq!(changes.replaceable(|_| true), Some(ShardId(8)));
    }
}
