//! Snapshots are read, from the cache and from replicas (section 6.5, algorithm 1, lines 7-15).

use std::collections::BTreeMap;

use quorate_core::command::Outcome;
use quorate_core::log::Log;
use quorate_core::topology::Grants;
use quorate_core::transaction::{KeyVersion, TRANSACTION_ENTRIES_MAX};
use quorate_core::{ClockTime, Context, Key, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId};

use super::Home;
use super::cache::{Cached, Stage};
use super::transaction::{Asked, Gathering, Phase, Redirected, Transaction};
use crate::entry::Entry;
use crate::machine::Out;
use crate::message::{Ending, Found, Message, Refusal, Session, Unreadable, Wanted};
use crate::reasons;
use crate::rules::Plant;

/// A question to a replica, for a read of a transaction.
#[derive(Debug)]
pub(super) struct Sub {
    transaction: TransactionId,
    /// The number of the transaction at this node: it may have been aborted, and begun again.
    began: u64,
    request: u32,
    shard: ShardId,
    /// The wishes that the shard has keys of, by position.
    wishes: Vec<usize>,
    tries: u32,
    asked: Asked,
}

/// The result of what the cache and a replica hold of a key.
enum Merged {
    /// This version; of a transaction of the node that is not final, if one is named; and what is final in it is no fresher than this.
    Version(KeyVersion, Option<TransactionId>, ClockTime),
    /// It depends on something that ends soon.
    Later,
    /// A replica has to be asked.
    Unasked,
    /// The transaction has missed a local commit of its node that it had to see.
    Missed,
}

/// A read that can be answered.
struct Answer {
    found: Vec<Found>,
    sources: Vec<TransactionId>,
    freshest: ClockTime,
}

impl Home {
    /// READ.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read(
        &mut self,
        id: TransactionId,
        session: Session,
        snapshot: Option<ClockTime>,
        request: u32,
        wanted: Vec<Wanted>,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if wanted.is_empty() || wanted.len() > TRANSACTION_ENTRIES_MAX {
            return outbox.ignored(reasons::MALFORMED);
        }
        if !self.transactions.contains_key(&id) {
            if let Some(why) = self.early(id, session, context) {
                return self.tell_early(id, why, outbox);
            }
            let begun = match self.ending(id) {
                Some(Ending::Committed { .. }) => return outbox.ignored(reasons::ENDED),
                Some(Ending::Aborted(refusal)) => Err(refusal),
                None if snapshot.is_some() => Err(Refusal::Lost),
                None => self.begin(id, session, context, outbox),
            };
            if let Err(refusal) = begun {
                return self.tell(id.client, Message::Doomed { transaction: id, refusal }, outbox);
            }
        }
        let Some(transaction) = self.transactions.get_mut(&id) else { return };
        transaction.touched_at = context.now;
        if transaction.phase != Phase::Executing {
            return outbox.ignored(reasons::UNDER_WAY);
        }
        if transaction.reads.contains_key(&request) {
            return self.tell_under_way(id, outbox);
        }
        if self.gather(id, request, wanted, context, outbox) {
            self.deliver_read(id, request, context, log, outbox);
        }
    }

    /// How a transaction ended, if that is remembered.
    pub(super) fn ending(&self, id: TransactionId) -> Option<Ending> {
        let Some(known) = self.state.get(id) else { return self.endings.get(&id).map(|(ending, _)| *ending) };
        Some(match known.decision.outcome {
            Outcome::Committed(timestamp) => {
                Ending::Committed { timestamp, snapshot: known.decision.snapshot }
            }
            Outcome::Aborted => Ending::Aborted(Refusal::Lost),
        })
    }

    /// Begins a transaction (algorithm 1, lines 1-6).
    pub(super) fn begin(
        &mut self,
        id: TransactionId,
        session: Session,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Result<(), Refusal> {
        let mut seen = session.seen;
        let mut follows = None;
        if let Some(earlier) = session.after {
            match self.ending(earlier) {
                _ if self.transactions.contains_key(&earlier) => follows = Some(earlier),
                Some(Ending::Committed { timestamp, .. }) => {
                    seen = seen.max(ClockTime::from_micros(timestamp.micros));
                }
                Some(Ending::Aborted(_)) => return Err(Refusal::Misspeculated),
                None => return Err(Refusal::Lost),
            }
        }
        if self.transactions.len() >= self.config.waiting_max {
            return Err(Refusal::Overloaded);
        }
        // Nothing on this node may come to lie that far ahead.
        let time = self.time(context);
        if seen > time.saturating_add(self.config.ahead_max) {
            self.doubt_time(context, outbox);
            return Err(Refusal::Ahead(time));
        }
        self.began += 1;
        let snapshot = self.snapshot(seen, context);
        assert!(
            snapshot > seen.max(self.latest()) || self.has(Plant::SessionIgnored),
            "{id} begins at {snapshot:?}, its session has seen {seen:?} and this node {:?}",
            self.latest()
        );
        let mut transaction = Transaction::new(id.client, self.began, snapshot, context.now);
        transaction.after = follows;
        if let Some(earlier) = follows.and_then(|earlier| self.transactions.get_mut(&earlier)) {
            earlier.followers.insert(id);
        }
        assert!(self.open.insert(self.began), "two transactions have the number {}", self.began);
        let known = self.transactions.insert(id, Box::new(transaction));
        assert!(known.is_none(), "{id} is begun, and is {:?}", known.map(|known| known.phase));
        assert!(
            self.transactions.len() <= self.config.waiting_max,
            "{} transactions are open, with {id}",
            self.transactions.len()
        );
        if let (0, Some(tuner)) = (id.attempt, &mut self.tuner) {
            tuner.on_arrival();
        }
        Ok(())
    }

    /// Asks the replicas that have to be asked for a read. True if there are none.
    fn gather(
        &mut self,
        id: TransactionId,
        request: u32,
        wanted: Vec<Wanted>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        let Some(snapshot) = self.transactions.get(&id).map(|transaction| transaction.snapshot) else {
            return false;
        };
        let mut asked: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (index, wish) in wanted.iter().enumerate() {
            match wish {
                Wanted::Key(key) => {
                    let shard = self.config.shard_of(key);
                    let is_cached = self.is_cached(key, snapshot);
                    if is_cached || !self.has(Plant::CacheReadersUnnoted) {
                        // A transaction that commits on this node from now on, and is not seen, commits above.
                        self.cache.note_key(key, snapshot);
                    }
                    // A replica on this node protects what is read of the cache; another one need not know of it.
                    if !is_cached || self.local(shard).is_some() {
                        asked.entry(shard).or_default().push(index);
                    }
                }
                Wanted::Range { range, .. } => {
                    self.cache.note_range(range, snapshot);
                    for shard in self.config.shards.of_range(range) {
                        asked.entry(shard).or_default().push(index);
                    }
                }
            }
        }
        let found = wanted.iter().map(|_| Vec::new()).collect();
        let gathering = Gathering { wanted, found, floors: BTreeMap::new(), missing: asked.len() };
        let Some(transaction) = self.transactions.get_mut(&id) else { return false };
        let known = transaction.reads.insert(request, gathering);
        assert!(known.is_none(), "the read {request} of {id} is gathered twice");
        let began = transaction.began;
        let is_complete = asked.is_empty();
        for (shard, wishes) in asked {
            self.requests += 1;
            let sub = Sub {
                transaction: id,
                began,
                request,
                shard,
                wishes,
                tries: 0,
                asked: Asked::new(self.reader(shard, 0), context.now),
            };
            self.send_sub(self.requests, sub, outbox);
        }
        is_complete
    }

    /// True if the cache has a version of a key for a snapshot.
    fn is_cached(&self, key: &Key, snapshot: ClockTime) -> bool {
        let of_stage = |cached: &Cached| match cached.stage {
            Stage::Certifying(_) => None,
            Stage::Local(at) | Stage::Deciding(at) => Some((at, true)),
            // Others may have overwritten what is final.
            Stage::Final(_, at) => Some((at, false)),
        };
        let newest = self.cached(key).iter().filter_map(of_stage).filter(|(at, _)| *at <= snapshot).max();
        newest.is_some_and(|(_, is_open)| is_open)
    }

    /// The versions of a key in the cache.
    fn cached(&self, key: &Key) -> &[Cached] {
        let is_missing = self.has(Plant::CacheEmpty) && self.local(self.config.shard_of(key)).is_none();
        if is_missing { &[] } else { self.cache.of_key(key) }
    }

    /// Sends a question, and remembers it. One whose transaction is over is forgotten: another one may have begun under its name, which wants something
    /// else.
    fn send_sub(&mut self, number: u64, sub: Sub, outbox: &mut Out) {
        let transaction = self.transactions.get(&sub.transaction).filter(|one| one.began == sub.began);
        let Some(transaction) = transaction else { return };
        let Some(gathering) = transaction.reads.get(&sub.request) else { return };
        let wanted = sub.wishes.iter().map(|wish| gathering.wanted[*wish].clone()).collect();
        let message =
            Message::ReadAt { life: self.life(), request: number, snapshot: transaction.snapshot, wanted };
        outbox.send_unordered(sub.asked.replica, message);
        let known = self.subs.insert(number, sub);
        assert!(known.is_none(), "two questions have the number {number}");
    }

    /// The replica that reads of a shard are sent to: that on this node, or the leader where leaders alone serve; else any, in turn.
    fn reader(&self, shard: ShardId, tries: u32) -> ReplicaId {
        let leader = self.leaders.leader(shard);
        if self.config.grants == Grants::Leader && tries == 0 {
            return leader;
        }
        // It is granted snapshots only if it is read from, so it is asked before it serves any.
        if let Some(neighbour) = self.neighbours.get(&shard)
            && neighbour.life.is_some()
            && tries < 2
            && self.config.grants == Grants::All
        {
            return neighbour.replica;
        }
        let members = self.config.groups.members(shard);
        let first = members.position(leader.index).unwrap_or_default();
        ReplicaId { shard, index: members.at(first + tries as usize) }
    }

    /// Asks again what a replica of a shard was asked that is gone.
    pub(super) fn ask_elsewhere(&mut self, shard: ShardId, context: &Context<'_>, outbox: &mut Out) {
        let asked: Vec<u64> =
            self.subs.iter().filter(|(_, sub)| sub.shard == shard).map(|(number, _)| *number).collect();
        self.ask_again(&asked, context, outbox);
    }

    fn ask_again(&mut self, numbers: &[u64], context: &Context<'_>, outbox: &mut Out) {
        for number in numbers {
            let Some(mut sub) = self.subs.remove(number) else { continue };
            if !sub.asked.leads_soon {
                sub.tries = sub.tries.saturating_add(1);
            }
            sub.asked = Asked::new(self.reader(sub.shard, sub.tries), context.now);
            self.send_sub(*number, sub, outbox);
        }
    }

    pub(super) fn attend_reads(&mut self, context: &Context<'_>, outbox: &mut Out) {
        let timeout = self.config.resend_timeout;
        let is_late = |sub: &Sub| sub.asked.is_late(context.now, timeout);
        let late: Vec<u64> =
            self.subs.iter().filter(|(_, sub)| is_late(sub)).map(|(number, _)| *number).collect();
        self.ask_again(&late, context, outbox);
    }

    /// READ-AT-REPLY.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_at_reply(
        &mut self,
        from: ReplicaId,
        number: u64,
        found: Vec<Found>,
        floor: ClockTime,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let is_answer = |sub: &Sub| sub.shard == from.shard && sub.wishes.len() == found.len();
        if !self.subs.get(&number).is_some_and(is_answer) {
            return outbox.ignored(reasons::NOT_OPEN);
        }
        let Some(Sub { transaction: id, began, request, wishes, .. }) = self.subs.remove(&number) else {
            return;
        };
        if self.config.grants == Grants::Leader {
            self.note_leading(from, context.now, outbox);
        }
        let transaction = self.transactions.get_mut(&id).filter(|one| one.began == began);
        let Some(gathering) = transaction.and_then(|transaction| transaction.reads.get_mut(&request)) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        for (wish, found) in wishes.into_iter().zip(found) {
            gathering.found[wish].push(found);
        }
        gathering.floors.insert(from.shard, floor);
        assert!(gathering.missing > 0, "{from} answers the read {request} of {id}, and nothing was missing");
        gathering.missing -= 1;
        if gathering.missing == 0 {
            self.deliver_read(id, request, context, log, outbox);
        }
    }

    /// CANNOT-READ.
    pub(super) fn on_cannot_read(
        &mut self,
        from: ReplicaId,
        number: u64,
        why: Unreadable,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if self.subs.get(&number).is_none_or(|sub| sub.shard != from.shard) {
            return outbox.ignored(reasons::NOT_OPEN);
        }
        let refusal = match why {
            Unreadable::TooOld(floor) => Refusal::TooOld(floor),
            Unreadable::Ahead(clock) => Refusal::Ahead(clock),
            Unreadable::NotLeading(leader) => {
                return self.read_at_leader(from, number, leader, context, outbox);
            }
        };
        let Some(sub) = self.subs.remove(&number) else { return };
        self.note_refusal(from.shard, refusal, context);
        if self.transactions.get(&sub.transaction).is_none_or(|one| one.began != sub.began) {
            return outbox.ignored(reasons::NOT_OPEN);
        }
        self.abort(sub.transaction, refusal, context, log, outbox);
    }

    /// A replica that was asked does not lead, and will be granted nothing: the leader is asked that it has named.
    fn read_at_leader(
        &mut self,
        from: ReplicaId,
        number: u64,
        leader: ReplicaIndex,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        self.leaders.redirect(from, leader);
        let asked = self.subs.get(&number).map(|sub| sub.asked);
        match asked.map_or(Redirected::Nowhere, |asked| asked.named(from, leader, context.now)) {
            Redirected::To(asked) => {
                let Some(sub) = self.subs.remove(&number) else { return };
                self.send_sub(number, Sub { asked, ..sub }, outbox);
            }
            Redirected::Soon(again) => {
                if let Some(sub) = self.subs.get_mut(&number) {
                    sub.asked = again;
                }
                self.ask_soon(outbox);
            }
            Redirected::Nowhere => outbox.ignored(reasons::KNOWN),
        }
    }

    /// Reads that waited are looked at once more.
    pub(super) fn look_at_parked(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        for (id, request) in std::mem::take(&mut self.parked) {
            self.deliver_read(id, request, context, log, outbox);
        }
    }

    /// Answers a read of which all replicas have answered, if it can be (algorithm 1, lines 13-15).
    fn deliver_read(
        &mut self,
        id: TransactionId,
        request: u32,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(transaction) = self.transactions.get(&id) else { return };
        let Some(gathering) = transaction.reads.get(&request) else { return };
        assert!(gathering.missing == 0, "the read {request} of {id} lacks {} answers", gathering.missing);
        let answer = match self.answer(transaction, gathering) {
            Ok(answer) => answer,
            Err(Merged::Missed) => return self.abort(id, Refusal::Misspeculated, context, log, outbox),
            Err(Merged::Unasked) => {
                let Some(gathering) = self.forget_read(id, request) else { return };
                if self.gather(id, request, gathering.wanted, context, outbox) {
                    // No replica is to be asked after all: what the cache has is about to end.
                    self.parked.insert((id, request));
                }
                return;
            }
            Err(Merged::Later | Merged::Version(..)) => {
                self.parked.insert((id, request));
                return;
            }
        };
        let mut oldest = transaction.oldest.clone();
        for (source, safe) in &mut oldest {
            // A version that was safe up to a grant when it was read is so further on by the next one.
            if let Some(read) = self.transactions.get(source) {
                *safe = (*safe).max(self.safe_up_to(read).min(read.oldest_unsafe()));
            }
        }
        let mut freshest = transaction.freshest.max(answer.freshest);
        for source in &answer.sources {
            if let Some(read) = self.transactions.get(source) {
                oldest.insert(*source, self.safe_up_to(read).min(read.oldest_unsafe()));
                freshest = freshest.max(read.freshest);
            }
        }
        // An unsafe local commit may conflict with what became final above its snapshot (section 6.2).
        let is_mixed = oldest.values().any(|oldest| *oldest < freshest);
        if is_mixed && !self.has(Plant::ConflictsMixed) {
            self.counts.mixed += 1;
            self.parked.insert((id, request));
            return;
        }
        self.counts.speculative_reads += answer.sources.len() as u64;
        for source in &answer.sources {
            if let Some(read) = self.transactions.get_mut(source) {
                read.dependents.insert(id);
            }
        }
        self.forget_read(id, request);
        let Some(transaction) = self.transactions.get_mut(&id) else { return };
        assert!(!answer.sources.contains(&id), "{id} reads from itself");
        transaction.depends_on.extend(answer.sources);
        (transaction.oldest, transaction.freshest) = (oldest, freshest);
        let (client, snapshot) = (transaction.client, transaction.snapshot);
        let is_read = transaction.reads.is_empty();
        let (found, period) = (answer.found, self.period);
        self.tell(client, Message::ReadReply { transaction: id, request, snapshot, found, period }, outbox);
        if is_read {
            self.proceed(id, context, log, outbox);
        }
    }

    fn forget_read(&mut self, id: TransactionId, request: u32) -> Option<Gathering> {
        self.transactions.get_mut(&id)?.reads.remove(&request)
    }

    /// Up to which timestamp others cannot have committed what conflicts with a local commit, without this node's knowing.
    pub(super) fn safe_up_to(&self, transaction: &Transaction) -> ClockTime {
        let of_part = |(shard, part): (&ShardId, &super::transaction::Part)| match part.local {
            None => transaction.snapshot,
            Some(_) if self.has(Plant::SafeWithoutVote) => ClockTime::from_micros(u64::MAX),
            Some(_) => self.neighbours.get(shard).map_or(transaction.snapshot, |known| known.bound),
        };
        transaction.parts.iter().map(of_part).min().unwrap_or(ClockTime::from_micros(u64::MAX))
    }

    fn answer(&self, transaction: &Transaction, gathering: &Gathering) -> Result<Answer, Merged> {
        let mut answer = Answer { found: Vec::new(), sources: Vec::new(), freshest: ClockTime::default() };
        for (wish, found) in gathering.wanted.iter().zip(&gathering.found) {
            let found = match wish {
                Wanted::Key(key) => {
                    let of_replica = found.iter().find_map(|found| match found {
                        Found::Key(version) => Some(version),
                        Found::Range { .. } => None,
                    });
                    let floor = self.floor_at(gathering, key);
                    Found::Key(self.take(transaction, key, of_replica, floor, &mut answer)?)
                }
                Wanted::Range { range, limit } => {
                    let floor_at = |key: &Key| self.floor_at(gathering, key);
                    self.range(transaction, range, *limit, (found, floor_at), &mut answer)?
                }
            };
            answer.found.push(found);
        }
        Ok(answer)
    }

    /// The floor of the shard of a key that has answered.
    fn floor_at(&self, gathering: &Gathering, key: &Key) -> ClockTime {
        gathering.floors.get(&self.config.shard_of(key)).copied().unwrap_or_default()
    }

    /// The version of a key, with what follows from its being read.
    fn take(
        &self,
        transaction: &Transaction,
        key: &Key,
        of_replica: Option<&KeyVersion>,
        floor: ClockTime,
        answer: &mut Answer,
    ) -> Result<KeyVersion, Merged> {
        match self.merge(transaction, key, of_replica, floor) {
            Merged::Version(version, source, freshest) => {
                answer.sources.extend(source);
                answer.freshest = answer.freshest.max(freshest);
                Ok(version)
            }
            other => Err(other),
        }
    }

    fn merge(
        &self,
        transaction: &Transaction,
        key: &Key,
        of_replica: Option<&KeyVersion>,
        floor: ClockTime,
    ) -> Merged {
        let snapshot = transaction.snapshot;
        let mut newest: Option<(ClockTime, &Cached)> = None;
        for cached in self.cached(key) {
            let at = match cached.stage {
                // It may come to lie in the snapshot, and that is known in a moment.
                Stage::Certifying(other) if other < snapshot => return Merged::Later,
                Stage::Certifying(_) => continue,
                Stage::Local(local) | Stage::Deciding(local) => local,
                // The replica knows better: if it has no version, the key was deleted, and it may have forgotten when.
                Stage::Final(_, at) if at < floor && of_replica.is_some() => continue,
                Stage::Final(_, at) if at <= snapshot => at,
                Stage::Final(local, _) if local <= snapshot && !self.has(Plant::MissedLocally) => {
                    return Merged::Missed;
                }
                Stage::Final(..) => continue,
            };
            if at <= snapshot && newest.is_none_or(|(newest, _)| newest < at) {
                newest = Some((at, cached));
            }
        }
        let is_newer =
            |version: &KeyVersion| newest.is_none_or(|(at, _)| at.as_micros() < version.version.micros);
        if let Some(version) = of_replica.filter(|version| is_newer(version)) {
            let at = ClockTime::from_micros(version.version.micros);
            return Merged::Version(version.clone(), None, at);
        }
        let Some((at, cached)) = newest else { return Merged::Unasked };
        let version = Timestamp { micros: at.as_micros(), client: cached.transaction.client };
        let version = KeyVersion { key: key.clone(), version, value: cached.value.clone() };
        match cached.stage {
            Stage::Final(..) if of_replica.is_none() => Merged::Unasked,
            Stage::Final(..) => Merged::Version(version, None, at),
            _ if !self.reads_speculatively() => Merged::Later,
            // The readers that its decision tells the shards of are counted already.
            Stage::Deciding(_) if self.local(self.config.shard_of(key)).is_none() => Merged::Later,
            // The replica on this node serves snapshots only since this was read.
            Stage::Deciding(_) if of_replica.is_none() => Merged::Unasked,
            _ => Merged::Version(version, Some(cached.transaction), ClockTime::default()),
        }
    }

    fn range(
        &self,
        transaction: &Transaction,
        range: &quorate_core::KeyRange,
        limit: u32,
        (found, floor_at): (&[Found], impl Fn(&Key) -> ClockTime),
        answer: &mut Answer,
    ) -> Result<Found, Merged> {
        let mut of_replicas: BTreeMap<Key, Option<KeyVersion>> = BTreeMap::new();
        let mut end: Option<Key> = None;
        for page in found {
            let Found::Range { keys, next } = page else { continue };
            of_replicas.extend(keys.iter().map(|version| (version.key.clone(), Some(version.clone()))));
            end = match (end, next) {
                (Some(end), Some(next)) => Some(end.min(next.clone())),
                (end, next) => end.or_else(|| next.clone()),
            };
        }
        for key in self.cache.keys_in(range) {
            of_replicas.entry(key).or_default();
        }
        let mut keys = Vec::new();
        for (key, version) in of_replicas {
            if end.as_ref().is_some_and(|end| key >= *end) {
                break;
            }
            if keys.len() >= limit as usize {
                return Ok(Found::Range { keys, next: Some(key) });
            }
            let absent = KeyVersion { key: key.clone(), version: Timestamp::ZERO, value: None };
            let (of_replica, floor) = (version.unwrap_or(absent), floor_at(&key));
            let version = self.take(transaction, &key, Some(&of_replica), floor, answer)?;
            if version.value.is_some() {
                keys.push(version);
            }
        }
        Ok(Found::Range { keys, next: end })
    }
}
