//! The execution phase: reads at the nearest replica, writes buffered until commit (TAPIR paper, section 5.1.1).

mod reads;

use std::sync::Arc;

use quorate_coordinator::{Buffer, Page, Scan, scan};
use quorate_core::command::{Event, Failure, Invalid, Routes};
use quorate_core::transaction::{KeyVersion, LimitExceeded};
use quorate_core::{
    Context, Instant, Key, KeyRange, ReplicaId, ShardId, Timestamp, Transaction, TransactionId, Value,
};

use super::{Coordinator, Out, Phase, finish};
use crate::message::Message;
use crate::rules::{Plant, Rules};
use reads::PendingReads;

/// The reads and buffered writes of a transaction.
#[derive(Debug)]
pub(super) struct Execution {
    routes: Arc<Routes>,
    /// Which attempt at the transaction this is: later ones read elsewhere, in case the nearest replica is stale.
    attempt: u32,
    buffer: Buffer,
    pending_reads: PendingReads,
    pending_scans: Vec<PendingScan>,
    scans: u32,
    /// True if it is a read-only transaction that commits by itself once everything is read.
    commits_when_read: bool,
}

#[derive(Debug)]
struct PendingScan {
    request: u32,
    scan: Scan,
    asked: usize,
    asked_at: Instant,
}

impl Execution {
    pub(super) fn new(routes: Arc<Routes>, attempt: u32) -> Self {
        Execution {
            routes,
            attempt,
            buffer: Buffer::default(),
            pending_reads: PendingReads::default(),
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

    /// Why time ran out: others are before it, or replicas do not answer. Where all have answered no replica is to blame: earlier attempts have
    /// left this one little time.
    pub(super) fn failure(&self) -> Failure {
        let missing = self.unanswered();
        if missing.is_empty() || self.pending_reads.some_wait() {
            return Failure::Conflict;
        }
        Failure::Unavailable { missing }
    }

    /// The replicas that have been asked and have not answered.
    fn unanswered(&self) -> Vec<ReplicaId> {
        let mut missing = Vec::new();
        let mut add = |shard: usize, first: usize, asked: usize| {
            for rank in 0..asked.min(self.routes.nearest[shard].len()) {
                missing.push(self.replica(shard, first + rank));
            }
        };
        for (key, shard, asked) in self.pending_reads.asked() {
            add(shard, self.first_rank(key), asked);
        }
        for scan in &self.pending_scans {
            for shard in scan.scan.missing() {
                add(shard, self.first_rank_of_scan(shard), scan.asked);
            }
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// The greatest version that was read.
    pub(super) fn greatest_version(&self) -> Timestamp {
        self.buffer.greatest_version()
    }

    /// The routes of the transaction's keyspace.
    pub(super) fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// Divides the transaction by shard, sorted by shard.
    pub(super) fn into_parts(mut self, rules: Rules) -> Vec<(ShardId, Arc<Transaction>)> {
        if rules.has(Plant::UnvalidatedAbsence) {
            self.buffer.forget_absence();
        }
        self.buffer.into_parts(&self.routes.keyspace).into_iter().collect()
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

    /// Others hold what this transaction has asked for: they are asked.
    pub(super) fn execute_elsewhere(
        &mut self,
        id: TransactionId,
        routes: &Arc<Routes>,
        now: Instant,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        if execution.routes.keyspace.id != routes.keyspace.id {
            return;
        }
        execution.routes = routes.clone();
        for scan in &mut execution.pending_scans {
            scan.asked = 0;
        }
        let requests: Vec<u32> = execution.pending_scans.iter().map(|scan| scan.request).collect();
        self.read_keys_elsewhere(id, now, outbox);
        for request in requests {
            self.ask_to_scan(id, request, now, outbox);
        }
    }

    pub(super) fn on_put(&mut self, id: TransactionId, key: Key, value: Option<Value>, outbox: &mut Out) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        if let Err(limit) = execution.buffer.put(key, value) {
            self.fail_limit(id, limit, outbox);
        }
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
        if scan::answer_empty(outbox, id, &range, limit) {
            return;
        }
        execution.scans += 1;
        let request = execution.scans;
        let scan = Scan::new(&execution.routes.keyspace, range, limit.min(page_max));
        let scan = PendingScan { request, scan, asked: 0, asked_at: context.now };
        execution.pending_scans.push(scan);
        self.ask_to_scan(id, request, context.now, outbox);
        self.transactions.wake_at(id, context.now + self.config.read_timeout);
    }

    fn ask_to_scan(&mut self, id: TransactionId, request: u32, now: Instant, outbox: &mut Out) {
        let unreachable = std::mem::take(&mut self.unreachable);
        if let Some(execution) = self.execution(id)
            && let Some(at) = execution.pending_scans.iter().position(|scan| scan.request == request)
        {
            let scan = &execution.pending_scans[at];
            for shard in scan.scan.missing() {
                let replicas = execution.routes.nearest[shard].len();
                let reachable = |rank: &usize| !unreachable.contains(&execution.replica(shard, *rank));
                let first = execution.first_rank_of_scan(shard) + scan.asked;
                let rank = (first..first + replicas).find(reachable).unwrap_or(first);
                let (range, limit) = (scan.scan.range.clone(), scan.scan.limit);
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
        keys: Vec<KeyVersion>,
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
        if !execution.pending_scans[at].scan.take(shard, Page { keys, next }) {
            return;
        }
        let scan = execution.pending_scans.swap_remove(at).scan;
        let (entries, next) = match execution.buffer.scan(&execution.routes.keyspace, scan) {
            Ok(found) => found,
            Err(limit) => return self.fail_limit(id, limit, outbox),
        };
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
        self.attend_reads(id, now, outbox);
        let unreachable = std::mem::take(&mut self.unreachable);
        let execution = self.execution(id)?;
        let overdue = |asked_at: Instant, replica: ReplicaId| {
            now - asked_at >= timeout || unreachable.contains(&replica)
        };
        let last_asked = |shard: usize, first: usize, asked: usize| {
            execution.replica(shard, first + asked.saturating_sub(1))
        };
        let is_late = |scan: &&PendingScan| {
            scan.scan.missing().any(|shard| {
                let first = execution.first_rank_of_scan(shard);
                overdue(scan.asked_at, last_asked(shard, first, scan.asked))
            })
        };
        let scans: Vec<u32> =
            execution.pending_scans.iter().filter(is_late).map(|scan| scan.request).collect();
        self.unreachable = unreachable;
        for request in scans {
            self.ask_to_scan(id, request, now, outbox);
        }
        let open = self.transactions.get(&id)?;
        let Phase::Executing(execution) = &open.phase else { return None };
        let waits = !execution.pending_reads.is_empty() || !execution.pending_scans.is_empty();
        Some(if waits { open.deadline.min(now + timeout) } else { open.deadline })
    }
}
