//! Shards that are lost for good (section 5.4): an operator says so, and nobody waits for their votes any more.
//!
//! A transaction that lacks such a vote is executed nowhere, unless another participant knows the vote, or has ended already. So
//! each says durably that it takes no more votes of that shard, and no endings, and then that it has none; once all have said so, all drop it.
//!
//! ```text
//!   DECLARE-LOST ─► append LOST ─ stable ─► ABANDONED to the others that take part ── all have said so ─► dropped
//!                                                └── one has ended it: RESOLVED ─► as there
//! ```
//!
//! Where a leader had executed something by a vote of a lost shard, and has told nobody but its client when it fails, that vote is
//! lost, too: the transaction is dropped although its client was told otherwise. The loss of a whole shard loses data.

use quorate_core::log::Log;
use quorate_core::{Address, ShardId, TransactionId};

use super::{Out, Replica};
use crate::application::Application;
use crate::entry::{Body, Ending, Entry};
use crate::message::Message;
use crate::reasons;

impl<A: Application> Replica<A> {
    /// An operator says that a shard is lost.
    pub(super) fn declare_lost(&mut self, shard: ShardId, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        if shard == self.config.replica.shard || !self.config.shards.contains(shard) {
            return outbox.ignored(reasons::NO_OTHER_SHARD);
        }
        if self.state.lost.contains(&shard) {
            return outbox.ignored(reasons::LOST_ALREADY);
        }
        if !self.append(Body::Lost(shard), Default::default(), log) {
            outbox.ignored(reasons::NOT_LEADING);
        }
    }

    /// Asks the others about what lacks votes of shards that are lost.
    pub(super) fn attend_lost(&mut self, outbox: &mut Out<A>) {
        let Some(leader) = &self.leader else { return };
        if self.state.lost.is_empty() {
            return;
        }
        let undated = leader.open.iter().filter(|(_, open)| open.timestamp.is_none());
        let undated: Vec<TransactionId> = undated.map(|(id, _)| *id).collect();
        for id in undated {
            let Some(lost) = self.lost_vote(id) else { continue };
            let message = Message::Abandoned { transaction: id, lost };
            for shard in self.others_left(id) {
                outbox.send(self.leader_of(shard), message.clone());
            }
            self.drop_abandoned(id, outbox);
        }
    }

    /// A shard that is lost, and whose vote on a transaction is not known.
    fn lost_vote(&self, id: TransactionId) -> Option<ShardId> {
        let open = self.leader.as_ref()?.open.get(&id)?;
        open.missing(self.config.replica.shard).find(|shard| self.state.lost.contains(shard))
    }

    /// The other participants of a transaction that are not lost.
    fn others_left(&self, id: TransactionId) -> Vec<ShardId> {
        let own = self.config.replica.shard;
        let open = self.leader.as_ref().and_then(|leader| leader.open.get(&id));
        let participants = open.map(|open| open.participants.as_slice()).unwrap_or_default();
        let others = participants.iter().copied().filter(|shard| *shard != own);
        others.filter(|shard| !self.state.lost.contains(shard)).collect()
    }

    /// Another participant has no vote of a shard that is lost, and takes none.
    pub(super) fn on_abandoned(
        &mut self,
        from: Address,
        id: TransactionId,
        lost: ShardId,
        outbox: &mut Out<A>,
    ) {
        let Address::Replica(replica) = from else { return outbox.ignored(reasons::CLIENT) };
        if let Some(ending) = self.ending(id) {
            return outbox.send(from, Message::Resolved { transaction: id, ending });
        }
        // It counts only if the shard is lost as far as is known here, too: otherwise its vote may still come.
        if !self.state.lost.contains(&lost) {
            return outbox.ignored(reasons::NOT_LOST);
        }
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        let Some(open) = leader.open.get_mut(&id) else { return outbox.ignored(reasons::NOT_OPEN) };
        open.abandoned.insert(replica.shard);
        self.drop_abandoned(id, outbox);
    }

    /// Drops a transaction once nobody knows the votes that it lacks.
    fn drop_abandoned(&mut self, id: TransactionId, outbox: &mut Out<A>) {
        let Some(open) = self.leader.as_ref().and_then(|leader| leader.open.get(&id)) else { return };
        let is_abandoned = self.others_left(id).iter().all(|shard| open.abandoned.contains(shard));
        if is_abandoned && self.lost_vote(id).is_some() {
            self.drop_open(id, Ending::Conflict, outbox);
        }
    }
}
