//! The leader of each shard, as far as a coordinator knows. A guess: a replica that does not lead says so and does nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::hash::FixedSet;
use quorate_core::{Epoch, KeyspaceId, Members, ReplicaId, ReplicaIndex, ShardId};

/// A replica that is about to lead is asked again after this part of the time for which a leader may be silent, as a divisor.
const SOON: u32 = 10;

/// The pause before a replica that is about to lead is asked again, where a leader may be silent for `silence`.
pub fn soon(silence: Duration) -> Duration {
    silence / SOON
}

/// A group of replicas, as a coordinator knows it.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    members: Members,
    /// Its keyspace; none where it is clear of itself, or not known yet.
    pub keyspace: Option<KeyspaceId>,
    /// The membership under which it is spoken to. A message under another is as true: a leader says what its log says, and a
    /// log is one through all its memberships.
    pub epoch: Epoch,
    /// The greatest membership that was heard of.
    pub newest_epoch: Epoch,
    /// Not one of the members, perhaps, as long as the group has not gone on to them.
    leader: ReplicaIndex,
}

/// Every group that a coordinator speaks to.
#[derive(Debug, Default)]
pub struct Leaders {
    groups: BTreeMap<ShardId, Group>,
    /// Replicas whose connection is down.
    unreachable: FixedSet<ReplicaId>,
}

impl Leaders {
    /// The membership of a group, and its leader, as far as they are known.
    pub fn group(&self, shard: ShardId) -> Option<&Group> {
        self.groups.get(&shard)
    }

    /// The same, to be changed.
    pub fn group_mut(&mut self, shard: ShardId) -> Option<&mut Group> {
        self.groups.get_mut(&shard)
    }

    /// A replica speaks under this membership. Gives the keyspace whose client has to learn of it, if it is later than any that was heard of.
    pub fn note_epoch(&mut self, from: ReplicaId, epoch: Epoch) -> Option<KeyspaceId> {
        let group = self.groups.get_mut(&from.shard).filter(|group| epoch > group.newest_epoch)?;
        group.newest_epoch = epoch;
        group.keyspace
    }

    /// Every shard that is known.
    pub fn shards(&self) -> Vec<ShardId> {
        self.groups.keys().copied().collect()
    }

    /// Learns of a group, or of a change of it.
    pub fn learn(&mut self, shard: ShardId, members: Members, keyspace: Option<KeyspaceId>, epoch: Epoch) {
        let known = self.groups.get(&shard);
        let leader = known.map_or(members.at(0), |group| group.leader);
        let newest_epoch = known.map_or(epoch, |group| group.newest_epoch.max(epoch));
        self.groups.insert(shard, Group { members, keyspace, epoch, newest_epoch, leader });
    }

    /// The replica that is asked as the leader of a shard.
    pub fn leader(&self, shard: ShardId) -> ReplicaId {
        let index = self.groups.get(&shard).map_or(ReplicaIndex(0), |group| group.leader);
        ReplicaId { shard, index }
    }

    /// Every replica of a shard.
    pub fn replicas(&self, shard: ShardId) -> impl Iterator<Item = ReplicaId> + use<> {
        let members = self.groups.get(&shard).map(|group| group.members);
        members.into_iter().flat_map(Members::iter).map(move |index| ReplicaId { shard, index })
    }

    /// A replica names the leader of its shard. True if the one that was taken for the leader does, and names another; that may be of
    /// another membership than the one that is known.
    pub fn redirect(&mut self, from: ReplicaId, leader: ReplicaIndex) -> bool {
        let Some(group) = self.groups.get_mut(&from.shard) else { return false };
        let is_news = group.leader == from.index && leader != from.index;
        if is_news {
            group.leader = leader;
        }
        is_news
    }

    /// A replica has answered as leaders do.
    pub fn note_leading(&mut self, from: ReplicaId) {
        if let Some(group) = self.groups.get_mut(&from.shard) {
            group.leader = from.index;
        }
    }

    /// True if a replica that has just said that it does not lead is worth a further question in a moment ([`soon`]): one that names itself is
    /// about to lead, and one that names a replica which is gone will soon name another.
    pub fn is_soon(&self, from: ReplicaId) -> bool {
        let named = self.leader(from.shard);
        named == from || !self.is_reachable(named)
    }

    /// The replica that was taken for the leader of a shard is silent: the next one may know more.
    pub fn suspect(&mut self, shard: ShardId) {
        let Some(group) = self.groups.get_mut(&shard) else { return };
        for _ in 0..group.members.replicas() {
            group.leader = group.members.after(group.leader);
            if !self.unreachable.contains(&ReplicaId { shard, index: group.leader }) {
                break;
            }
        }
    }

    /// The same, if the one that was asked is still taken for the leader: whatever was heard since counts for more than its silence.
    pub fn suspect_asked(&mut self, asked: ReplicaId) {
        if self.leader(asked.shard) == asked {
            self.suspect(asked.shard);
        }
    }

    /// True if nothing else is known.
    pub fn is_reachable(&self, replica: ReplicaId) -> bool {
        !self.unreachable.contains(&replica)
    }

    /// The connection to a replica came up or broke. True if this is news.
    pub fn set_reachable(&mut self, replica: ReplicaId, reachable: bool) -> bool {
        if reachable { self.unreachable.remove(&replica) } else { self.unreachable.insert(replica) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(1);

    fn replica(index: u8) -> ReplicaId {
        ReplicaId { shard: SHARD, index: ReplicaIndex(index) }
    }

    fn members(indices: &[u8]) -> Members {
        Members::new(indices.iter().copied().map(ReplicaIndex)).unwrap()
    }

    fn leaders() -> Leaders {
        let mut leaders = Leaders::default();
        leaders.learn(SHARD, members(&[0, 1, 2]), None, Epoch::FIRST);
        leaders
    }

    #[test]
    fn only_the_supposed_leader_names_another() {
        let mut leaders = leaders();
        assert!(!leaders.redirect(replica(1), ReplicaIndex(2)), "nobody took it for the leader");
        assert!(!leaders.redirect(replica(0), ReplicaIndex(0)), "it does not know either");
        assert_eq!(leaders.leader(SHARD), replica(0));
        assert!(leaders.redirect(replica(0), ReplicaIndex(2)));
        assert_eq!(leaders.leader(SHARD), replica(2));
    }

    #[test]
    fn one_that_names_itself_or_what_is_gone_is_worth_a_further_question() {
        let mut leaders = leaders();
        leaders.redirect(replica(0), ReplicaIndex(0));
        assert!(leaders.is_soon(replica(0)), "it is about to lead");
        leaders.redirect(replica(0), ReplicaIndex(2));
        assert!(!leaders.is_soon(replica(0)), "the next one is asked at once");
        leaders.set_reachable(replica(2), false);
        assert!(leaders.is_soon(replica(0)), "it will name another");
    }

    #[test]
    fn after_a_silent_leader_the_next_is_asked_that_can_be_reached() {
        let mut leaders = leaders();
        leaders.set_reachable(replica(1), false);
        leaders.suspect(SHARD);
        assert_eq!(leaders.leader(SHARD), replica(2));
        leaders.suspect(SHARD);
        assert_eq!(leaders.leader(SHARD), replica(0));
        leaders.learn(SHARD, members(&[1, 4, 7]), None, Epoch(1));
        assert_eq!(
            leaders.leader(SHARD),
            replica(0),
            "who leads is not forgotten: the group may not have gone on"
        );
        leaders.suspect(SHARD);
        assert_eq!(leaders.leader(SHARD), replica(4), "it is no member, and cannot be reached either");
        leaders.suspect(SHARD);
        leaders.suspect(SHARD);
        assert_eq!(leaders.leader(SHARD), replica(4));
    }

    #[test]
    fn silence_says_nothing_of_a_leader_that_was_not_asked() {
        let mut leaders = leaders();
        leaders.note_leading(replica(1));
        leaders.suspect_asked(replica(0));
        assert_eq!(leaders.leader(SHARD), replica(1));
        leaders.suspect_asked(replica(1));
        assert_eq!(leaders.leader(SHARD), replica(2));
    }

    #[test]
    fn whoever_leads_may_be_of_another_membership() {
        let mut leaders = leaders();
        assert!(leaders.redirect(replica(0), ReplicaIndex(5)));
        assert_eq!(leaders.leader(SHARD), replica(5));
        assert_eq!(leaders.replicas(SHARD).count(), 3);
        leaders.suspect(SHARD);
        assert_eq!(leaders.leader(SHARD), replica(0), "of those that are known");
    }
}
