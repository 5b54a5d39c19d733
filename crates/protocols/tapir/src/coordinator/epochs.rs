//! Going on with other replicas: what becomes of transactions that are open when the epoch of their keyspace ends.
//!
//! Nothing that was said under an earlier epoch counts any more, so whatever waits for an answer asks again. To the protocol the
//! change is one of views, whose numbers tell the epochs apart: what has become final under an earlier epoch stays, what has
//! not is proposed again, under the number that it had. The replicas answer what they have answered already, if that was handed
//! over, and otherwise as they find things now; and only answers of one view count together.

use std::sync::Arc;

use quorate_core::command::Routes;
use quorate_core::{Context, ReplicaId};

use super::{Coordinator, Group, Out, Phase};

impl Coordinator {
    /// Learns of a keyspace, or of a later epoch of it. An earlier epoch is no news.
    pub(super) fn on_route(&mut self, routes: Arc<Routes>, context: &mut Context<'_>, outbox: &mut Out) {
        let (keyspace, epoch) = (routes.keyspace.id, routes.keyspace.epoch);
        let known = self.keyspaces.get(&keyspace).map(|known| known.keyspace.epoch);
        if known > Some(epoch) {
            return;
        }
        for (position, shard) in routes.keyspace.shards.iter().enumerate() {
            let members = routes.members(position);
            let newest = self.groups.get(&shard.id).map_or(epoch, |group| group.newest_epoch.max(epoch));
            self.groups.insert(shard.id, Group { members, keyspace, epoch, newest_epoch: newest });
            for index in members.iter() {
                self.probe(ReplicaId { shard: shard.id, index }, context, outbox);
            }
        }
        assert!(known <= Some(epoch), "{keyspace:?} goes from {known:?} back to {epoch:?}");
        self.keyspaces.insert(keyspace, routes.clone());
        if known.is_some_and(|known| known < epoch) {
            self.go_on_with(&routes, context, outbox);
        }
    }

    /// Asks again whatever has not been answered under an earlier epoch.
    fn go_on_with(&mut self, routes: &Arc<Routes>, context: &mut Context<'_>, outbox: &mut Out) {
        let groups = &self.groups;
        let is_member = |replica: &ReplicaId| {
            groups.get(&replica.shard).is_none_or(|group| group.members.contains(replica.index))
        };
        self.unreachable.retain(is_member);
        self.silent.retain(is_member);
        self.reads_apart.retain(|replica, _| is_member(replica));
        self.notices.retain(is_member);
        let open = self.transactions.ids();
        for id in open {
            let Some(known) = self.transactions.get(&id) else { continue };
            match &known.phase {
                Phase::Executing(_) => self.execute_elsewhere(id, routes, context.now, outbox),
                Phase::Reading(_) => self.read_elsewhere(id, routes, context, outbox),
                Phase::Preparing(_) => self.prepare_elsewhere(id, context.now, outbox),
                Phase::Telling(_) => self.tell_others(id, outbox),
                // A backup coordinator is asked again before long; those of the epoch before have given up.
                Phase::Resolving(_) => {}
            }
        }
    }
}
