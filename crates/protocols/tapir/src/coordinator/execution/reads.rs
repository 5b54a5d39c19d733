//! The keys that a transaction waits for while it executes.
//!
//! The keys of one call that the same replica is asked for go in one request. Keys that a replica leaves unanswered are asked for one
//! by one, at other replicas: the replica may be of a version that does not know requests for several keys. For a while it is not
//! sent any.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use quorate_coordinator::tell_known;
use quorate_core::command::Event;
use quorate_core::hash::FixedSet;
use quorate_core::transaction::{KeyVersion, validate_key};
use quorate_core::{Context, Instant, Key, ReplicaId, ShardId, TransactionId};

use super::{Coordinator, Execution, Out, Phase};
use crate::message::Message;

/// For so long no request for several keys is sent to a replica that has left one unanswered.
const APART_FOR: Duration = Duration::from_secs(10);

/// Roughly how many bytes of keys go into one request.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// The keys that a transaction waits for.
#[derive(Debug, Default)]
pub(super) struct PendingReads {
    reads: BTreeMap<Key, PendingRead>,
    /// Counts the requests for several keys.
    requests: u32,
}

#[derive(Debug)]
struct PendingRead {
    shard: usize,
    /// How often the client waits for the key.
    wanted: u32,
    /// How many replicas have been asked.
    asked: usize,
    asked_at: Instant,
    /// The replica that has said, since it was asked last, that the read waits for its turn.
    waits_at: Option<ReplicaId>,
    /// The request for several keys that the key was asked for in, and that has not been answered.
    request: Option<(ReplicaId, u32)>,
}

impl PendingReads {
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// True if some keys wait for their turn.
    pub(super) fn some_wait(&self) -> bool {
        self.reads.values().any(|read| read.waits_at.is_some())
    }

    /// Each key, the position of its shard, and how many replicas have been asked for it.
    pub(super) fn asked(&self) -> impl Iterator<Item = (&Key, usize, usize)> {
        self.reads.iter().map(|(key, read)| (key, read.shard, read.asked))
    }

    /// The client waits for a key. True if nobody has been asked for it.
    fn expect(&mut self, key: &Key, shard: usize, now: Instant) -> bool {
        match self.reads.entry(key.clone()) {
            Entry::Occupied(mut known) => {
                known.get_mut().wanted += 1;
                false
            }
            Entry::Vacant(vacant) => {
                let (wanted, asked, asked_at) = (1, 0, now);
                vacant.insert(PendingRead { shard, wanted, asked, asked_at, waits_at: None, request: None });
                true
            }
        }
    }

    /// Forgets whom the keys have been asked for; gives all of them.
    fn begin_anew(&mut self) -> Vec<Key> {
        for read in self.reads.values_mut() {
            (read.asked, read.waits_at, read.request) = (0, None, None);
        }
        self.reads.keys().cloned().collect()
    }

    /// These keys are asked for in one request; gives its number.
    fn begin_request(&mut self, keys: &[Key], replica: ReplicaId, now: Instant) -> u32 {
        self.requests += 1;
        for key in keys {
            if let Some(read) = self.reads.get_mut(key) {
                (read.request, read.asked_at) = (Some((replica, self.requests)), now);
            }
        }
        self.requests
    }

    /// The keys of a request that nothing has been said of.
    fn left_of(&self, replica: ReplicaId, request: u32) -> Vec<Key> {
        let is_left = |read: &PendingRead| read.request == Some((replica, request));
        self.reads.iter().filter(|(_, read)| is_left(read)).map(|(key, _)| key.clone()).collect()
    }
}

impl Execution {
    /// The shard of a position.
    fn shard(&self, position: usize) -> ShardId {
        self.routes.keyspace.shards[position].id
    }

    /// The next replica that may answer for a key that is still wanted, and whether it is the first that is asked.
    fn next_to_ask(
        &mut self,
        key: &Key,
        now: Instant,
        unreachable: &FixedSet<ReplicaId>,
    ) -> Option<(ReplicaId, bool)> {
        let read = self.pending_reads.reads.get(key)?;
        let (shard, before) = (read.shard, read.asked);
        let replicas = self.routes.nearest[shard].len();
        let first = self.first_rank(key);
        let is_reachable = |asked: &usize| !unreachable.contains(&self.replica(shard, first + asked));
        let skip = (before..before + replicas).find(is_reachable).unwrap_or(before);
        let next = self.replica(shard, first + skip);
        let read = self.pending_reads.reads.get_mut(key)?;
        let (replica, asked) = match read.waits_at.take() {
            // It only wants to know that somebody still waits.
            Some(waits_at) if !unreachable.contains(&waits_at) => (waits_at, before),
            _ => (next, skip + 1),
        };
        assert!(asked >= before, "{key:?} was asked for at {before} replicas, and is at {asked}");
        (read.asked, read.asked_at, read.request) = (asked, now, None);
        Some((replica, before == 0))
    }
}

impl Coordinator {
    /// Reads keys, those that one replica has in one message.
    pub(in super::super) fn on_get(
        &mut self,
        id: TransactionId,
        keys: Vec<Key>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        if let Err(limit) = keys.iter().try_for_each(|key| validate_key(key)) {
            return self.fail_limit(id, limit, outbox);
        }
        let mut new = tell_known(outbox, id, &execution.buffer, keys);
        let shards = execution.routes.keyspace.shards.len();
        new.retain(|key| {
            let shard = quorate_core::topology::shard_position(key, shards);
            execution.pending_reads.expect(key, shard, context.now)
        });
        if !new.is_empty() {
            self.ask_to_read(id, new, context.now, outbox);
            self.transactions.wake_at(id, context.now + self.config.read_timeout);
        }
    }

    /// Asks the next replicas that may answer for keys that are still wanted.
    fn ask_to_read(&mut self, id: TransactionId, keys: Vec<Key>, now: Instant, outbox: &mut Out) {
        let unreachable = std::mem::take(&mut self.unreachable);
        let mut together: BTreeMap<ReplicaId, Vec<Key>> = BTreeMap::new();
        let mut apart = Vec::new();
        if let Some(Phase::Executing(execution)) = self.transactions.get_mut(&id).map(|open| &mut open.phase)
        {
            for key in keys {
                let Some((replica, is_first)) = execution.next_to_ask(&key, now, &unreachable) else {
                    continue;
                };
                let is_apart = self.reads_apart.get(&replica).is_some_and(|until| *until > now);
                match is_first && !is_apart {
                    true => together.entry(replica).or_default().push(key),
                    false => apart.push((replica, key)),
                }
            }
        }
        self.unreachable = unreachable;
        for (replica, keys) in together {
            self.request_reads(id, replica, keys, now, outbox);
        }
        for (replica, key) in apart {
            let message = read(id, key, self.reads_in_turn(replica.shard));
            outbox.send(replica, message);
        }
    }

    /// Asks a replica for keys, in as few messages as they fit into.
    fn request_reads(
        &mut self,
        id: TransactionId,
        replica: ReplicaId,
        keys: Vec<Key>,
        now: Instant,
        outbox: &mut Out,
    ) {
        let in_turn = self.reads_in_turn(replica.shard);
        let keys_max = self.config.scan_page_max as usize;
        let Some(execution) = self.execution(id) else { return };
        for mut keys in in_requests(keys, keys_max) {
            let message = match keys.len() {
                1 => read(id, keys.remove(0), in_turn),
                _ => {
                    let request = execution.pending_reads.begin_request(&keys, replica, now);
                    Message::ReadMany { transaction: id, request, keys, in_turn }
                }
            };
            outbox.send(replica, message);
        }
    }

    /// Others hold what this transaction has asked for: they are asked.
    pub(super) fn read_keys_elsewhere(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        let keys = execution.pending_reads.begin_anew();
        self.ask_to_read(id, keys, now, outbox);
    }

    /// A replica lets a read wait for its turn. False if nobody waits for the key.
    pub(in super::super) fn on_read_waits(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        key: &Key,
        now: Instant,
    ) -> bool {
        let Some(execution) = self.execution(id) else { return false };
        let Some(read) = execution.pending_reads.reads.get_mut(key) else { return false };
        (read.waits_at, read.asked_at, read.request) = (Some(from), now, None);
        true
    }

    pub(in super::super) fn on_read_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        found: KeyVersion,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if self.take_read(from, id, found, outbox) {
            self.commit_if_read(id, context, outbox);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(in super::super) fn on_read_many_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        request: u32,
        found: Vec<KeyVersion>,
        waiting: &[Key],
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        self.reads_apart.remove(&from);
        let mut answered = 0;
        for found in found {
            answered += usize::from(self.take_read(from, id, found, outbox));
        }
        for key in waiting {
            answered += usize::from(self.on_read_waits(from, id, key, context.now));
        }
        if answered == 0 {
            return outbox.ignored("nobody waits for these keys");
        }
        let Some(execution) = self.execution(id) else { return };
        let left = execution.pending_reads.left_of(from, request);
        // They did not fit into the reply. Each reply has something of its request, so this ends.
        self.request_reads(id, from, left, context.now, outbox);
        self.commit_if_read(id, context, outbox);
    }

    /// Takes in what a replica holds of a key. False if nobody waits for that, or the transaction has become too large.
    fn take_read(&mut self, from: ReplicaId, id: TransactionId, found: KeyVersion, outbox: &mut Out) -> bool {
        let Some(execution) = self.execution(id) else { return false };
        let KeyVersion { key, version, value } = found;
        let Some(PendingRead { shard, wanted, .. }) = execution.pending_reads.reads.get(&key) else {
            return false;
        };
        let wanted = *wanted;
        if execution.shard(*shard) != from.shard {
            return false;
        }
        execution.pending_reads.reads.remove(&key);
        let value = match execution.buffer.read(&key, version, value) {
            Ok(value) => value,
            Err(limit) => {
                self.fail_limit(id, limit, outbox);
                return false;
            }
        };
        assert!(wanted > 0, "{id} waits for {key:?}, and nobody wants it");
        for _ in 0..wanted {
            outbox.emit(Event::Got { transaction: id, key: key.clone(), value: value.clone() });
        }
        true
    }

    /// A transaction that commits by itself does so once nothing is left to be read.
    fn commit_if_read(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        if execution.commits_when_read && execution.pending_reads.is_empty() {
            self.on_commit(id, context, outbox);
        }
    }

    /// Asks other replicas for the keys that the first have not answered.
    pub(super) fn attend_reads(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        let timeout = self.config.read_timeout;
        let Some(Phase::Executing(execution)) = self.transactions.get(&id).map(|open| &open.phase) else {
            return;
        };
        let mut late = Vec::new();
        for (key, read) in &execution.pending_reads.reads {
            let last_asked = execution.first_rank(key) + read.asked.saturating_sub(1);
            let is_down = self.unreachable.contains(&execution.replica(read.shard, last_asked));
            if !is_down && now - read.asked_at < timeout {
                continue;
            }
            if let Some((replica, _)) = read.request.filter(|_| !is_down) {
                self.reads_apart.insert(replica, now + APART_FOR);
            }
            late.push(key.clone());
        }
        self.ask_to_read(id, late, now, outbox);
    }
}

/// Asks for one key.
fn read(transaction: TransactionId, key: Key, in_turn: bool) -> Message {
    match in_turn {
        true => Message::ReadInTurn { transaction, key },
        false => Message::Read { transaction, key },
    }
}

/// Divides keys among requests of at most `keys_max` keys, and roughly [`REQUEST_BYTES_MAX`] bytes.
fn in_requests(keys: Vec<Key>, keys_max: usize) -> Vec<Vec<Key>> {
    let mut requests: Vec<Vec<Key>> = Vec::new();
    let mut bytes = 0;
    for key in keys {
        let length = key.len();
        match requests.last_mut() {
            Some(request) if request.len() < keys_max && bytes + length <= REQUEST_BYTES_MAX => {
                bytes += length;
                request.push(key);
            }
            _ => {
                bytes = length;
                requests.push(vec![key]);
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_by_keys_and_bytes() {
        let sizes = |lengths: &[usize], keys_max| -> Vec<usize> {
            let keys = lengths.iter().map(|length| Key::from(vec![b'k'; *length])).collect();
            in_requests(keys, keys_max).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&[], 2), [0; 0]);
        assert_eq!(sizes(&[1], 2), [1]);
        assert_eq!(sizes(&[1, 1], 2), [2]);
        assert_eq!(sizes(&[1, 1, 1, 1, 1], 2), [2, 2, 1]);
        assert_eq!(sizes(&[REQUEST_BYTES_MAX, 1], 9), [1, 1]);
        assert_eq!(sizes(&[REQUEST_BYTES_MAX - 1, 1, 1], 9), [2, 1]);
    }
}
