//! The execution phase: reads at the nearest replica, writes buffered until commit (TAPIR paper, section 5.1.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::command::{Event, Failure, Invalid, Routes};
use quorate_core::topology::Shard;
use quorate_core::transaction::{
    LimitExceeded, TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, readable, validate_key, validate_write,
};
use quorate_core::{
    Context, Instant, Key, KeyRange, ReadVersion, ReplicaId, ShardId, Timestamp, Transaction, TransactionId,
    Value, Write,
};

use super::pages::{self, Entries};
use super::{Coordinator, Out, Phase, finish};
use crate::message::{Message, ScannedKey};
use crate::rules::{Plant, Rules};

/// What a transaction has read and wants to write.
#[derive(Debug)]
pub(super) struct Execution {
    routes: Arc<Routes>,
    /// Which attempt at the transaction this is: later ones read elsewhere, in case the nearest replica is stale.
    attempt: u32,
    reads: BTreeMap<Key, (Timestamp, Option<Value>)>,
    writes: BTreeMap<Key, Option<Value>>,
    ranges: Vec<(ShardId, KeyRange)>,
    bytes: usize,
    pending_reads: Vec<PendingRead>,
    pending_scans: Vec<PendingScan>,
    scans: u32,
    /// True if it is a read-only transaction that commits by itself once everything is read.
    commits_when_read: bool,
}

#[derive(Debug)]
struct PendingRead {
    key: Key,
    shard: usize,
    /// How many replicas have been asked.
    asked: usize,
    asked_at: Instant,
    /// The replica that has said, since it was asked last, that the read waits for its turn.
    waits_at: Option<ReplicaId>,
}

#[derive(Debug)]
struct PendingScan {
    request: u32,
    range: KeyRange,
    limit: u32,
    /// One page for each shard, once it is there; an empty one for those that hold no key of the range.
    pages: Vec<Option<Page>>,
    asked: usize,
    asked_at: Instant,
}

#[derive(Debug, Default)]
struct Page {
    keys: Vec<ScannedKey>,
    next: Option<Key>,
}

impl Execution {
    pub(super) fn new(routes: Arc<Routes>, attempt: u32) -> Self {
        Execution {
            routes,
            attempt,
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            ranges: Vec::new(),
            bytes: 0,
            pending_reads: Vec::new(),
            pending_scans: Vec::new(),
            scans: 0,
            commits_when_read: false,
        }
    }

    /// One that writes nothing and commits by itself once everything that was asked for is read.
    pub(super) fn read_only(routes: Arc<Routes>, attempt: u32) -> Self {
        Execution { commits_when_read: true, ..Execution::new(routes, attempt) }
    }

    /// The replica of a shard with this rank, the nearest first.
    fn replica(&self, shard: usize, rank: usize) -> ReplicaId {
        let nearest = &self.routes.nearest[shard];
        ReplicaId { shard: self.routes.keyspace.shards[shard].id, index: nearest[rank % nearest.len()] }
    }

    /// The rank of the first replica to ask for a key. A first re-run of a transaction reads where it read before,
    /// because most conflicts are real. Further ones look elsewhere, and for each key at another place: of two replicas
    /// each may have missed a commit, and a transaction that reads both keys at either would be stale for ever.
    fn first_rank(&self, key: &Key) -> usize {
        self.spread(key)
    }

    /// The rank of the first replica of a shard to ask for a range.
    fn first_rank_of_scan(&self, shard: usize) -> usize {
        self.spread(&(shard as u32).to_le_bytes())
    }

    fn spread(&self, bytes: &[u8]) -> usize {
        if self.attempt < 2 {
            return 0;
        }
        let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        (bytes.iter().fold(self.attempt.wrapping_mul(0x9e37_79b9), mix) >> 16) as usize
    }

    fn count(&mut self, key: &Key, bytes: usize) -> Result<(), LimitExceeded> {
        self.bytes += bytes;
        if self.bytes > TRANSACTION_BYTES_MAX {
            return Err(LimitExceeded::Transaction { key: readable(key), bytes: self.bytes });
        }
        let entries = self.reads.len() + self.writes.len() + self.ranges.len() + 1;
        if entries > TRANSACTION_ENTRIES_MAX {
            return Err(LimitExceeded::Entries { key: readable(key), entries });
        }
        Ok(())
    }

    /// The replicas that have been asked and have not answered.
    pub(super) fn unanswered(&self) -> Vec<ReplicaId> {
        let mut missing = Vec::new();
        let mut add = |shard: usize, first: usize, asked: usize| {
            for rank in 0..asked.min(self.routes.nearest[shard].len()) {
                missing.push(self.replica(shard, first + rank));
            }
        };
        for read in &self.pending_reads {
            add(read.shard, self.first_rank(&read.key), read.asked);
        }
        for scan in &self.pending_scans {
            for (shard, page) in scan.pages.iter().enumerate() {
                if page.is_none() {
                    add(shard, self.first_rank_of_scan(shard), scan.asked);
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// What the transaction has read of a key, if it has: also that it was absent when a range around it was scanned.
    fn known(&self, key: &Key) -> Option<(Timestamp, Option<Value>)> {
        let scanned = || self.ranges.iter().any(|(_, range)| range.contains(key));
        self.reads.get(key).cloned().or_else(|| scanned().then_some((Timestamp::ZERO, None)))
    }

    /// The greatest version that was read.
    pub(super) fn greatest_version(&self) -> Timestamp {
        self.reads.values().map(|(version, _)| *version).max().unwrap_or(Timestamp::ZERO)
    }

    /// The routes of the transaction's keyspace.
    pub(super) fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// Divides the transaction by shard, sorted by shard.
    pub(super) fn into_parts(self, rules: Rules) -> Vec<(ShardId, Arc<Transaction>)> {
        let keyspace = &self.routes.keyspace;
        let mut parts: BTreeMap<ShardId, Transaction> = BTreeMap::new();
        let validates_absence = !rules.has(Plant::UnvalidatedAbsence);
        for (key, (version, _)) in self.reads {
            if version > Timestamp::ZERO || validates_absence {
                let part = parts.entry(keyspace.shard_of(&key).id).or_default();
                part.reads.push(ReadVersion { key, version });
            }
        }
        for (key, value) in self.writes {
            parts.entry(keyspace.shard_of(&key).id).or_default().writes.push(Write { key, value });
        }
        if validates_absence {
            for (shard, range) in self.ranges {
                parts.entry(shard).or_default().ranges.push(range);
            }
        }
        let participants: Vec<ShardId> = parts.keys().copied().collect();
        let finish = |(shard, mut part): (ShardId, Transaction)| {
            part.participants = participants.clone();
            (shard, Arc::new(part))
        };
        parts.into_iter().map(finish).collect()
    }

    /// Merges the pages of a scan, with what the transaction itself has read and written, and notes what was covered.
    fn finish_scan(&mut self, scan: PendingScan) -> (Entries, Option<Key>) {
        let PendingScan { range, limit, pages, .. } = scan;
        let until = |next: &Option<Key>| next.clone().or_else(|| range.to.clone());
        let next = pages::common_end(pages.iter().flatten().map(|page| &page.next));
        let covered = KeyRange { from: range.from.clone(), to: until(&next) };
        let mut found: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        let mut versions: BTreeMap<Key, (Timestamp, Option<Value>)> = BTreeMap::new();
        for scanned in pages.into_iter().flatten().flat_map(|page| page.keys) {
            if covered.contains(&scanned.key) {
                // What the transaction has read before, it reads again; if that is stale, the range will not validate.
                let known = self.known(&scanned.key).unwrap_or((scanned.version, scanned.value));
                found.insert(scanned.key.clone(), known.1.clone());
                versions.insert(scanned.key, known);
            }
        }
        for (key, value) in self.writes.iter().filter(|(key, _)| covered.contains(key)) {
            found.insert(key.clone(), value.clone());
        }
        let mut entries: Entries = found.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let next = pages::cut(&mut entries, limit).or(next);
        let covered = KeyRange { from: range.from.clone(), to: until(&next) };
        for (key, known) in versions.into_iter().filter(|(key, _)| covered.contains(key)) {
            self.reads.entry(key).or_insert(known);
        }
        if !covered.is_empty() {
            for shard in self.routes.keyspace.shards_of_range(&range) {
                self.ranges.push((shard.id, covered.clone()));
            }
        }
        (entries, next)
    }
}

impl Coordinator {
    fn execution(&mut self, id: TransactionId) -> Option<&mut Execution> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Executing(execution) => Some(execution),
            _ => None,
        }
    }

    fn execution_or_invalid(&mut self, id: TransactionId, outbox: &mut Out) -> Option<&mut Execution> {
        if self.execution(id).is_none() {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        self.execution(id)
    }

    fn fail_limit(&mut self, id: TransactionId, limit: LimitExceeded, outbox: &mut Out) {
        self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
    }

    pub(super) fn on_get(&mut self, id: TransactionId, key: Key, context: &Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        if let Err(limit) = validate_key(&key) {
            return self.fail_limit(id, limit, outbox);
        }
        let own = execution.writes.get(&key).cloned();
        if let Some(value) = own.or_else(|| execution.known(&key).map(|(_, value)| value)) {
            outbox.emit(Event::Got { transaction: id, key, value });
            return;
        }
        let shard = quorate_core::topology::shard_position(&key, execution.routes.keyspace.shards.len());
        execution.pending_reads.push(PendingRead {
            key: key.clone(),
            shard,
            asked: 0,
            asked_at: context.now,
            waits_at: None,
        });
        self.ask_to_read(id, &key, context.now, outbox);
        self.wake_at(id, context.now + self.config.read_timeout);
    }

    /// Asks the next replica that may answer for a key that is still wanted.
    fn ask_to_read(&mut self, id: TransactionId, key: &Key, now: Instant, outbox: &mut Out) {
        let unreachable = std::mem::take(&mut self.unreachable);
        if let Some(execution) = self.execution(id)
            && let Some(at) = execution.pending_reads.iter().position(|read| read.key == *key)
        {
            let (shard, mut asked) = (execution.pending_reads[at].shard, execution.pending_reads[at].asked);
            let replicas = execution.routes.nearest[shard].len();
            let first = execution.first_rank(key);
            let reachable = |asked: usize| !unreachable.contains(&execution.replica(shard, first + asked));
            let skip = (asked..asked + replicas).find(|asked| reachable(*asked)).unwrap_or(asked);
            let mut replica = execution.replica(shard, first + skip);
            let read = &mut execution.pending_reads[at];
            match read.waits_at.take() {
                // It only wants to know that somebody still waits.
                Some(waits_at) if !unreachable.contains(&waits_at) => replica = waits_at,
                _ => asked = skip + 1,
            }
            read.asked = asked;
            read.asked_at = now;
            let key = key.clone();
            outbox.send(
                replica,
                match self.reads_in_turn(replica.shard) {
                    true => Message::ReadInTurn { transaction: id, key },
                    false => Message::Read { transaction: id, key },
                },
            );
        }
        self.unreachable = unreachable;
    }

    /// A replica lets a read wait for its turn.
    pub(super) fn on_read_waits(&mut self, from: ReplicaId, id: TransactionId, key: &Key, now: Instant) {
        let Some(execution) = self.execution(id) else { return };
        if let Some(read) = execution.pending_reads.iter_mut().find(|read| read.key == *key) {
            read.waits_at = Some(from);
            read.asked_at = now;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        key: Key,
        version: Timestamp,
        value: Option<Value>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        let Some(at) = execution.pending_reads.iter().position(|read| {
            read.key == key && execution.routes.keyspace.shards[read.shard].id == from.shard
        }) else {
            return;
        };
        execution.pending_reads.swap_remove(at);
        let bytes = key.len() + value.as_ref().map_or(0, |value| value.len());
        if let Err(limit) = execution.count(&key, bytes) {
            return self.fail_limit(id, limit, outbox);
        }
        // A write of this transaction may have come in between, and a scan may have read the key.
        let (version, value) = execution.known(&key).unwrap_or((version, value));
        execution.reads.insert(key.clone(), (version, value.clone()));
        let value = execution.writes.get(&key).cloned().unwrap_or(value);
        let commits = execution.commits_when_read && execution.pending_reads.is_empty();
        outbox.emit(Event::Got { transaction: id, key, value });
        if commits {
            self.on_commit(id, context, outbox);
        }
    }

    pub(super) fn on_put(&mut self, id: TransactionId, key: Key, value: Option<Value>, outbox: &mut Out) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        let length = value.as_ref().map_or(0, |value| value.len());
        let checked = validate_write(&key, value.as_deref().unwrap_or_default());
        if let Err(limit) = checked.and_then(|()| execution.count(&key, key.len() + length)) {
            return self.fail_limit(id, limit, outbox);
        }
        execution.writes.insert(key, value);
    }

    pub(super) fn on_scan(
        &mut self,
        id: TransactionId,
        range: KeyRange,
        limit: u32,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let page_max = self.config.scan_page_max;
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        if range.is_empty() || limit == 0 {
            let next = if range.is_empty() { None } else { Some(range.from) };
            outbox.emit(Event::Scanned { transaction: id, entries: Vec::new(), next });
            return;
        }
        execution.scans += 1;
        let request = execution.scans;
        let keyspace = &execution.routes.keyspace;
        let asked: Vec<ShardId> = keyspace.shards_of_range(&range).iter().map(|shard| shard.id).collect();
        let page = |shard: &Shard| (!asked.contains(&shard.id)).then(Page::default);
        let pages = keyspace.shards.iter().map(page).collect();
        let limit = limit.min(page_max);
        let scan = PendingScan { request, range, limit, pages, asked: 0, asked_at: context.now };
        execution.pending_scans.push(scan);
        self.ask_to_scan(id, request, context.now, outbox);
        self.wake_at(id, context.now + self.config.read_timeout);
    }

    fn ask_to_scan(&mut self, id: TransactionId, request: u32, now: Instant, outbox: &mut Out) {
        let unreachable = std::mem::take(&mut self.unreachable);
        if let Some(execution) = self.execution(id)
            && let Some(at) = execution.pending_scans.iter().position(|scan| scan.request == request)
        {
            let scan = &execution.pending_scans[at];
            for shard in (0..scan.pages.len()).filter(|shard| scan.pages[*shard].is_none()) {
                let replicas = execution.routes.nearest[shard].len();
                let reachable = |rank: &usize| !unreachable.contains(&execution.replica(shard, *rank));
                let first = execution.first_rank_of_scan(shard) + scan.asked;
                let rank = (first..first + replicas).find(reachable).unwrap_or(first);
                let (range, limit) = (scan.range.clone(), scan.limit);
                let message = Message::Scan { transaction: id, request, range, limit };
                outbox.send(execution.replica(shard, rank), message);
            }
            let scan = &mut execution.pending_scans[at];
            scan.asked += 1;
            scan.asked_at = now;
        }
        self.unreachable = unreachable;
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_scan_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        request: u32,
        keys: Vec<ScannedKey>,
        next: Option<Key>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        let Some(at) = execution.pending_scans.iter().position(|scan| scan.request == request) else {
            return;
        };
        let Some(shard) = execution.routes.keyspace.shards.iter().position(|shard| shard.id == from.shard)
        else {
            return;
        };
        execution.pending_scans[at].pages[shard] = Some(Page { keys, next });
        if execution.pending_scans[at].pages.iter().any(Option::is_none) {
            return;
        }
        let scan = execution.pending_scans.swap_remove(at);
        let first = scan.range.from.clone();
        let page_bytes = |page: &Page| -> usize {
            page.keys
                .iter()
                .map(|found| found.key.len() + found.value.as_ref().map_or(0, |value| value.len()))
                .sum()
        };
        let bytes = scan.pages.iter().flatten().map(page_bytes).sum();
        let (entries, next) = execution.finish_scan(scan);
        if let Err(limit) = execution.count(&first, bytes) {
            return self.fail_limit(id, limit, outbox);
        }
        let commits = execution.commits_when_read;
        outbox.emit(Event::Scanned { transaction: id, entries, next });
        if commits {
            self.on_commit(id, context, outbox);
        }
    }

    /// Asks other replicas for what the first have not answered.
    pub(super) fn attend_execution(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let (now, timeout) = (context.now, self.config.read_timeout);
        let unreachable = std::mem::take(&mut self.unreachable);
        let execution = self.execution(id)?;
        let overdue = |asked_at: Instant, replica: ReplicaId| {
            now - asked_at >= timeout || unreachable.contains(&replica)
        };
        let last_asked = |shard: usize, first: usize, asked: usize| {
            execution.replica(shard, first + asked.saturating_sub(1))
        };
        let reads: Vec<Key> = execution
            .pending_reads
            .iter()
            .filter(|read| {
                let first = execution.first_rank(&read.key);
                overdue(read.asked_at, last_asked(read.shard, first, read.asked))
            })
            .map(|read| read.key.clone())
            .collect();
        let is_late = |scan: &&PendingScan| {
            (0..scan.pages.len()).any(|shard| {
                scan.pages[shard].is_none()
                    && overdue(
                        scan.asked_at,
                        last_asked(shard, execution.first_rank_of_scan(shard), scan.asked),
                    )
            })
        };
        let scans: Vec<u32> =
            execution.pending_scans.iter().filter(is_late).map(|scan| scan.request).collect();
        self.unreachable = unreachable;
        for key in reads {
            self.ask_to_read(id, &key, now, outbox);
        }
        for request in scans {
            self.ask_to_scan(id, request, now, outbox);
        }
        let open = self.transactions.get(&id)?;
        let Phase::Executing(execution) = &open.phase else { return None };
        let waits = !execution.pending_reads.is_empty() || !execution.pending_scans.is_empty();
        Some(if waits { open.deadline.min(now + timeout) } else { open.deadline })
    }
}
