//! A dedicated coordinator: the leader of a group without keys runs two-phase commit for clients.
//!
//! The outcome follows from what the participants have made durable, so that it keeps nothing durable itself, and nobody waits
//! for it to do so. If it fails, it is asked again, or the leader after it is: participants that have answered answer the
//! same. A transaction whose client is never heard of again, participants settle among themselves, as they do anyway. So two
//! that both take themselves for the coordinator do no harm.
//!
//! It never asks again by itself. Clients do, and a coordinator that is asked again asks all replicas of the participants that are silent.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_coordinator::Leaders;
use quorate_core::command::Outcome;
use quorate_core::log::Log;
use quorate_core::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX};
use quorate_core::{
    Address, ClientId, Context, Groups, Instant, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId,
};

use super::prepare::is_sound;
use super::recovery::before;
use super::{Out, Replica};
use crate::config::ReplicaConfig;
use crate::decision::{Standings, Verdict};
use crate::entry::Entry;
use crate::message::{Message, Standing};
use crate::rules::Plant;

/// So many transactions are coordinated at a time; the client of a further one asks again.
const COORDINATIONS_MAX: usize = 100_000;

/// So often a prepare follows from one replica to the one that it names, before the client asks again.
const REDIRECTS_MAX: u32 = 4;

/// The transactions that a leader coordinates.
#[derive(Debug, Default)]
pub(super) struct Coordinations {
    open: BTreeMap<TransactionId, Coordination>,
    leaders: Leaders,
}

/// A transaction whose participants are asked for their votes.
#[derive(Debug)]
struct Coordination {
    parts: BTreeMap<ShardId, Arc<Transaction>>,
    proposed: Timestamp,
    standings: Standings,
    /// When its client asked last.
    asked_at: Instant,
    redirects: u32,
}

impl Coordinations {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many there are; those of one client only, if one is named.
    pub(super) fn load(&self, client: Option<ClientId>) -> usize {
        let Some(client) = client else { return self.open.len() };
        let least = TransactionId { client, sequence: 0, attempt: 0 };
        let most = TransactionId { client, sequence: u64::MAX, attempt: u32::MAX };
        self.open.range(least..=most).count()
    }
}

impl Coordinations {
    /// Learns who the replicas of participants are now.
    pub(super) fn change_groups(&mut self, groups: &Groups) {
        for shard in self.leaders.shards() {
            self.leaders.learn(shard, groups.members(shard), None, groups.epoch);
        }
    }
}

impl Coordination {
    /// The prepare that a participant is asked.
    fn prepare(&self, id: TransactionId, shard: ShardId) -> Option<Message> {
        let (part, proposed) = (self.parts.get(&shard)?.clone(), self.proposed);
        Some(Message::Prepare { transaction: id, part, proposed, age: proposed, locked_in: None })
    }
}

impl Replica {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_coordinate(
        &mut self,
        from: Address,
        id: TransactionId,
        parts: Vec<Arc<Transaction>>,
        proposed: Timestamp,
        context: &Context<'_>,
        log: &impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if from != Address::Client(id.client) || !are_well_formed(&parts, &self.config) {
            return;
        }
        let Some(leader) = &mut self.leader else { return Self::send_not_leading(from, id, log, outbox) };
        if leader.coordinations.open.contains_key(&id) {
            return self.coordinate_again(id, context.now, outbox);
        }
        if leader.coordinations.open.len() >= COORDINATIONS_MAX {
            return;
        }
        let Some(participants) = parts.first().map(|part| part.participants.clone()) else { return };
        let Coordinations { open, leaders } = &mut leader.coordinations;
        let coordination = Coordination {
            standings: Standings::new(&participants),
            parts: participants.into_iter().zip(parts).collect(),
            proposed,
            asked_at: context.now,
            redirects: 0,
        };
        for shard in coordination.parts.keys().copied() {
            if leaders.group(shard).is_none() {
                leaders.learn(shard, self.config.groups.members(shard), None, self.config.groups.epoch);
            }
            if let Some(prepare) = coordination.prepare(id, shard) {
                outbox.send(leaders.leader(shard), prepare);
            }
        }
        open.insert(id, coordination);
    }

    /// The client has waited in vain: any replica of a silent participant may lead it.
    fn coordinate_again(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        let Coordinations { open, leaders } = &mut leader.coordinations;
        let Some(coordination) = open.get_mut(&id) else { return };
        (coordination.asked_at, coordination.redirects) = (now, 0);
        if self.config.rules.has(Plant::SilenceRefuses) {
            let silent: Vec<ShardId> = coordination.standings.missing().collect();
            for shard in silent {
                coordination.standings.note(shard, Standing::Ended(Outcome::Aborted));
            }
            return self.conclude_coordination(id, outbox);
        }
        for shard in coordination.standings.missing() {
            let Some(prepare) = coordination.prepare(id, shard) else { continue };
            for replica in leaders.replicas(shard) {
                outbox.send(replica, prepare.clone());
            }
        }
    }

    /// A participant has voted.
    pub(super) fn on_prepare_reply(
        &mut self,
        from: Address,
        id: TransactionId,
        standing: Standing,
        outbox: &mut Out,
    ) {
        let (Address::Replica(replica), Some(leader)) = (from, &mut self.leader) else { return };
        let Coordinations { open, leaders } = &mut leader.coordinations;
        let Some(coordination) = open.get_mut(&id) else { return };
        if !coordination.standings.note(replica.shard, standing) {
            return;
        }
        leaders.note_leading(replica);
        self.conclude_coordination(id, outbox);
    }

    /// Tells everybody how a transaction has ended, once that follows.
    fn conclude_coordination(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        let Coordinations { open, leaders } = &mut leader.coordinations;
        let Some(coordination) = open.get(&id) else { return };
        let Some(standing) = coordination.standings.summary() else { return };
        // Nobody waits but the client.
        outbox.send(id.client, Message::CoordinateReply { transaction: id, standing });
        if let Some(Verdict::Outcome(outcome)) = coordination.standings.verdict() {
            for shard in coordination.standings.holders() {
                outbox.send(leaders.leader(shard), Message::Decide { transaction: id, outcome });
            }
        }
        open.remove(&id);
    }

    /// The replica that was asked does not lead its shard.
    pub(super) fn on_not_leading(
        &mut self,
        from: Address,
        id: TransactionId,
        named: ReplicaIndex,
        outbox: &mut Out,
    ) {
        let (Address::Replica(replica), Some(leader)) = (from, &mut self.leader) else { return };
        let Coordinations { open, leaders } = &mut leader.coordinations;
        let Some(coordination) = open.get_mut(&id) else { return };
        // Another transaction may have been told before.
        let knows_another = leaders.redirect(replica, named) || leaders.leader(replica.shard) != replica;
        let is_silent = coordination.standings.missing().any(|shard| shard == replica.shard);
        if !knows_another || !is_silent || coordination.redirects >= REDIRECTS_MAX {
            return;
        }
        coordination.redirects += 1;
        if let Some(prepare) = coordination.prepare(id, replica.shard) {
            outbox.send(leaders.leader(replica.shard), prepare);
        }
    }

    /// Leaves to the participants what no client has asked for any more.
    pub(super) fn leave_idle(&mut self, context: &Context<'_>) {
        let (Some(leader), Some(cutoff)) =
            (&mut self.leader, before(context.now, self.config.client_timeout))
        else {
            return;
        };
        leader.coordinations.open.retain(|_, coordination| coordination.asked_at > cutoff);
    }
}

/// True if these are the parts of one transaction, as coordinators make them.
fn are_well_formed(parts: &[Arc<Transaction>], config: &ReplicaConfig) -> bool {
    let Some(participants) = parts.first().map(|part| &part.participants) else { return false };
    let bytes: usize = parts.iter().map(|part| part.bytes()).sum();
    let entries = |part: &Arc<Transaction>| part.reads.len() + part.writes.len() + part.ranges.len();
    config.coordinates()
        && participants.len() == parts.len()
        && config.are_shards(participants)
        && parts.iter().all(|part| part.participants == *participants && is_sound(part))
        && parts.iter().map(entries).sum::<usize>() <= TRANSACTION_ENTRIES_MAX
        && bytes <= TRANSACTION_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use quorate_core::hosted::Shards;
    use quorate_core::{GroupSize, Key, ReplicaId, Write};

    use super::*;
    use crate::config::System;

    #[test]
    fn what_is_not_one_transaction_is_found_out() {
        let part = |participants: &[u32], keys: &[&str]| {
            let write = |key: &&str| Write { key: Key::from(*key), value: None };
            let participants = participants.iter().copied().map(ShardId).collect();
            let writes = keys.iter().map(write).collect();
            Arc::new(Transaction { writes, participants, ..Transaction::default() })
        };
        let replica = |shard| ReplicaId { shard: ShardId(shard), index: ReplicaIndex(0) };
        let config = |shard, system| {
            ReplicaConfig::new(
                replica(shard),
                GroupSize::new(3).unwrap(),
                Shards { first: ShardId(1), count: 3 },
                system,
            )
        };
        let coordinator = config(4, System::Sinfonia);
        let good = vec![part(&[1, 2], &["a"]), part(&[1, 2], &["b", "c"])];
        let table = [
            (good.clone(), true),
            (vec![], false),
            (vec![part(&[1, 2], &["a"])], false),
            (vec![part(&[1, 2], &["a"]), part(&[1, 3], &["b"])], false),
            (vec![part(&[2, 1], &["a"]), part(&[2, 1], &["b"])], false),
            (vec![part(&[1, 4], &["a"]), part(&[1, 4], &["b"])], false),
            (vec![part(&[1, 2], &["a"]), part(&[1, 2], &["c", "b"])], false),
        ];
        for (parts, expected) in table {
            assert_eq!(are_well_formed(&parts, &coordinator), expected, "{parts:?}");
        }
        assert!(!are_well_formed(&good, &config(1, System::Sinfonia)), "a participant coordinates nothing");
        assert!(!are_well_formed(&good, &config(4, System::TxnOcc)), "nor does a timestamp server");
        let many: Vec<String> =
            (0..TRANSACTION_ENTRIES_MAX / 2 + 1).map(|number| format!("{number:09}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(!are_well_formed(&[part(&[1, 2], &many), part(&[1, 2], &many)], &coordinator));
    }
}
