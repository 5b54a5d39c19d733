//! Snapshots are read, and wait for what they may have to include (section 6.5, algorithm 2, lines 5-14).

use quorate_core::command::Outcome;
use quorate_core::log::{FrozenAt, Log};
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClockTime, Context, Instant, Key, KeyRange, ReplicaId, Timestamp, TransactionId, Value};

use super::{Shard, Waiter};
use crate::entry::{Entry, Frozen};
use crate::machine::Out;
use crate::message::{Found, Life, Message, Unreadable, Wanted, newest_of};
use crate::reasons;
use crate::rules::Plant;

/// A read at a snapshot.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) home: ReplicaId,
    pub(super) life: Life,
    pub(super) request: u64,
    pub(super) snapshot: ClockTime,
    pub(super) wanted: Vec<Wanted>,
    pub(super) since: Instant,
    /// True if it has waited for a version that was pending.
    pub(super) has_waited: bool,
}

/// Why a read has no answer yet, or none at all.
enum Unserved {
    Blocked(TransactionId),
    Ungranted,
    Unreadable(Unreadable),
}

impl Shard {
    /// READ-AT.
    pub(super) fn on_read_at(
        &mut self,
        read: Read,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let is_of_node = self.home.is_some_and(|(home, _)| home == read.home);
        if is_of_node && !self.is_own_home(read.home.into(), read.life) {
            return outbox.ignored(reasons::OTHER_LIFE);
        }
        self.is_read = true;
        self.answer(read, context, log, outbox);
    }

    /// Answers a read, or lets it wait.
    pub(super) fn answer(
        &mut self,
        read: Read,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (home, life, request) = (read.home, read.life, read.request);
        match self.serve(&read, context.clock) {
            Ok((found, floor)) => {
                assert!(
                    read.snapshot <= self.bound || self.has(Plant::LaggingReplicaServes),
                    "{:?} is served, and granted is {:?}",
                    read.snapshot,
                    self.bound
                );
                assert_eq!(
                    found.len(),
                    read.wanted.len(),
                    "every wish of {home}'s request {request} is answered"
                );
                outbox.send_unordered(home, Message::ReadAtReply { life, request, found, floor });
            }
            Err(Unserved::Unreadable(why)) => {
                outbox.send_unordered(home, Message::CannotRead { life, request, why });
            }
            Err(_) if self.waiters >= self.config.waiting_max => outbox.ignored(reasons::TOO_MANY),
            Err(Unserved::Blocked(other)) => {
                let read = Read { has_waited: true, ..read };
                assert!(
                    self.pendings.get(other).is_some(),
                    "{home}'s request {request} waits for {other}, which holds nothing"
                );
                self.waiting.entry(other).or_default().push(Waiter::Read(read));
                self.one_more_waits();
            }
            Err(Unserved::Ungranted) => {
                self.ungranted.push(read);
                self.one_more_waits();
                self.ask_grant(context, log, outbox);
            }
        }
    }

    /// The answer to a read, and below which instant it lacks nothing that has committed.
    fn serve(&mut self, read: &Read, clock: ClockTime) -> Result<(Vec<Found>, ClockTime), Unserved> {
        if read.snapshot < self.state.floor && !self.has(Plant::FloorIgnored) {
            return Err(Unserved::Unreadable(Unreadable::TooOld(self.state.floor)));
        }
        if let Some(time) = self.is_behind(read.snapshot, clock) {
            return Err(Unserved::Unreadable(Unreadable::Ahead(time)));
        }
        if read.snapshot > self.bound && !self.has(Plant::LaggingReplicaServes) {
            return Err(Unserved::Ungranted);
        }
        let is_local = self.is_own_home(read.home.into(), read.life);
        let mut floor = self.state.floor;
        let found = read.wanted.iter().map(|wanted| match wanted {
            Wanted::Key(key) => {
                let (version, value) = self.version_at(key, read.snapshot, is_local, &mut floor)?;
                Ok(Found::Key(KeyVersion { key: key.clone(), version, value }))
            }
            Wanted::Range { range, limit } => {
                self.range_at(range, *limit, read.snapshot, is_local, &mut floor)
            }
        });
        let found = found.collect::<Result<Vec<Found>, Unserved>>();
        let is_noted =
            if self.has(Plant::WaitingReadersUnnoted) { !read.has_waited && found.is_ok() } else { true };
        if is_noted {
            self.note_reader(read);
        }
        Ok((found?, floor))
    }

    /// All keys at one snapshot, for an operator that reads them (a backup). That is a reader of all keys as any other: it is served up to
    /// the bound that is granted, all later commits are above its snapshot, and it waits for those that may be below. So shards
    /// that are read at one snapshot give what one transaction would have read, however long it takes to fetch it.
    pub(crate) fn freeze_at(&mut self, below: Timestamp) -> FrozenAt<Frozen> {
        let Some(snapshot) = below.micros.checked_sub(1).map(ClockTime::from_micros) else {
            return FrozenAt::Passed;
        };
        if snapshot < self.state.floor && !self.has(Plant::FloorIgnored) {
            return FrozenAt::Passed;
        }
        // Grants are renewed while somebody reads.
        self.is_read = true;
        if snapshot > self.bound && !self.has(Plant::LaggingReplicaServes) {
            return FrozenAt::NotYet;
        }
        let all = KeyRange { from: Key::default(), to: None };
        if !self.has(Plant::BackupsUnnoted) {
            self.readers.read_range(&all, newest_of(snapshot));
        }
        let may_commit_below = |outcome: Option<Outcome>| match outcome {
            None => true,
            Some(Outcome::Committed(timestamp)) => timestamp.micros <= snapshot.as_micros(),
            Some(Outcome::Aborted) => false,
        };
        let is_in_the_way = self
            .pendings
            .iter()
            .any(|(_, pending)| pending.snapshot < snapshot && may_commit_below(pending.outcome));
        match is_in_the_way && !self.has(Plant::BackupsDoNotWait) {
            true => FrozenAt::NotYet,
            false => FrozenAt::Frozen(self.state.freeze_at(newest_of(snapshot))),
        }
    }

    /// A transaction that commits from now on, and that the reader does not see, commits above its snapshot.
    fn note_reader(&mut self, read: &Read) {
        let snapshot = newest_of(read.snapshot);
        for wanted in &read.wanted {
            match wanted {
                Wanted::Key(key) => self.readers.read_key(key, snapshot),
                Wanted::Range { range, .. } => self.readers.read_range(range, snapshot),
            }
        }
    }

    /// The version of a key at a snapshot. The reader waits for transactions that may commit at or below it, unless its home knows them better: then `floor` comes
    /// to lie below where they may.
    fn version_at(
        &self,
        key: &Key,
        snapshot: ClockTime,
        is_local: bool,
        floor: &mut ClockTime,
    ) -> Result<(Timestamp, Option<Value>), Unserved> {
        let committed = self.state.versions.at(key, newest_of(snapshot));
        let mut newest =
            committed.map_or((Timestamp::ZERO, None), |version| (version.timestamp, version.value()));
        for (id, pending) in self.pendings.of_key(key) {
            if pending.snapshot >= snapshot {
                continue;
            }
            match pending.outcome {
                Some(Outcome::Aborted) => {}
                Some(Outcome::Committed(timestamp)) if timestamp.micros > snapshot.as_micros() => {}
                Some(Outcome::Committed(timestamp)) => match pending.write_to(key) {
                    Some(write) if timestamp > newest.0 => newest = (timestamp, write.value.clone()),
                    Some(_) => {}
                    None => return Err(Unserved::Blocked(id)),
                },
                // The home has it in its own cache, and tells this replica how it ended before it asks again.
                None if is_local && pending.note.is_some() => *floor = (*floor).min(pending.snapshot),
                None => match pending.write_to(key) {
                    Some(write) if self.has(Plant::ForeignSpeculation) => {
                        newest = (newest_of(pending.snapshot), write.value.clone());
                    }
                    _ => return Err(Unserved::Blocked(id)),
                },
            }
        }
        assert!(
            newest.0 <= newest_of(snapshot),
            "a version of {key:?} of {} is in the snapshot {snapshot:?}",
            newest.0
        );
        Ok(newest)
    }

    fn range_at(
        &self,
        range: &KeyRange,
        limit: u32,
        snapshot: ClockTime,
        is_local: bool,
        floor: &mut ClockTime,
    ) -> Result<Found, Unserved> {
        let mut versions = self.state.versions.range(range).map(|(key, _)| key).peekable();
        let mut held = self.pendings.keys_in(range).peekable();
        let (mut keys, mut live, mut looked_at) = (Vec::new(), 0, 0);
        loop {
            let key = match (versions.peek(), held.peek()) {
                (Some(one), Some(other)) => (*one).min(*other),
                (Some(one), None) => *one,
                (None, Some(other)) => *other,
                (None, None) => return Ok(Found::Range { keys, next: None }),
            };
            if live >= limit as usize || looked_at >= self.config.scan_page_max {
                return Ok(Found::Range { keys, next: Some(key.clone()) });
            }
            looked_at += 1;
            let (version, value) = self.version_at(key, snapshot, is_local, floor)?;
            live += usize::from(value.is_some());
            // A deletion is told, too: the home may know an older version, and would take that for the newest.
            let is_told = value.is_some() || version > Timestamp::ZERO && !self.has(Plant::DeletionsUntold);
            if is_told {
                keys.push(KeyVersion { key: key.clone(), version, value });
            }
            let key = key.clone();
            versions.next_if(|next| **next == key);
            held.next_if(|next| **next == key);
        }
    }

    /// A transaction has ended, or holds nothing any more: the requests that wait for it are looked at.
    pub(super) fn wake(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(waiting) = self.waiting.remove(&id) else { return };
        self.fewer_wait(waiting.len());
        for waiter in waiting {
            match waiter {
                Waiter::Read(read) => self.answer(read, context, log, outbox),
                Waiter::Candidate(candidate) => self.on_prepare(candidate, context, log, outbox),
            }
        }
    }

    /// The bound has risen.
    pub(super) fn wake_ungranted(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let bound = self.bound;
        let (served, left): (Vec<Read>, Vec<Read>) =
            std::mem::take(&mut self.ungranted).into_iter().partition(|read| read.snapshot <= bound);
        self.ungranted = left;
        self.fewer_wait(served.len());
        for read in served {
            self.answer(read, context, log, outbox);
        }
    }

    /// A transaction has aborted: it must not be let in, and hold keys for ever, once what it waits for has ended.
    pub(super) fn forget_candidate(&mut self, id: TransactionId) {
        let mut forgotten = 0;
        for waiting in self.waiting.values_mut() {
            let before = waiting.len();
            waiting.retain(|waiter| !matches!(waiter, Waiter::Candidate(one) if one.transaction == id));
            forgotten += before - waiting.len();
        }
        self.fewer_wait(forgotten);
    }

    /// A request waits that did not.
    pub(super) fn one_more_waits(&mut self) {
        self.waiters += 1;
        assert!(
            self.waiters <= self.config.waiting_max,
            "{} requests wait, and {} may",
            self.waiters,
            self.config.waiting_max
        );
    }

    /// So many requests do not wait any more.
    pub(super) fn fewer_wait(&mut self, requests: usize) {
        assert!(requests <= self.waiters, "{requests} requests have waited, of {}", self.waiters);
        self.waiters -= requests;
    }

    /// Gives up what has waited for so long that its home has asked again elsewhere, or is gone.
    pub(super) fn attend_waiting(&mut self, context: &Context<'_>) {
        let is_fresh = |read: &Read| context.now - read.since < self.config.certify_timeout;
        let mut left = 0;
        // An entry goes with the transaction that is waited for, whether or not anything waits any more.
        for waiting in self.waiting.values_mut() {
            waiting.retain(|waiter| match waiter {
                Waiter::Read(read) => is_fresh(read),
                Waiter::Candidate(_) => true,
            });
            left += waiting.len();
        }
        self.ungranted.retain(is_fresh);
        let left = left + self.ungranted.len();
        self.fewer_wait(self.waiters.saturating_sub(left));
        assert_eq!(left, self.waiters, "requests that wait are counted");
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::hosted::Shards;
    use quorate_core::{ClientId, GroupSize, ReplicaId, ReplicaIndex, ShardId, Value};

    use super::*;
    use crate::config::ReplicaConfig;
    use crate::rules::Rules;

    /// S28: a home that has an older version in its cache learns from a range that the key was deleted.
    #[test]
    fn a_range_tells_of_deleted_keys_and_counts_those_that_are_there() {
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let range = KeyRange { from: Key::from("a"), to: None };
        for (rules, told) in [
            (Rules::SOUND, vec![("a", 5, true), ("b", 7, false), ("c", 6, true)]),
            (Rules::planted(Plant::DeletionsUntold), vec![("a", 5, true), ("c", 6, true)]),
        ] {
            let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
            let shards = Shards { first: ShardId(1), count: 1 };
            let config = ReplicaConfig::new(replica, GroupSize::new(1).unwrap(), shards);
            let mut shard = Shard::new(ReplicaConfig { rules, ..config });
            let value = || Some(Value::from_static(b"x"));
            for (key, micros, value) in
                [("a", 5, value()), ("b", 3, value()), ("b", 7, None), ("c", 6, value()), ("d", 8, value())]
            {
                shard.state.versions.install(&Key::from(key), at(micros), value);
            }
            let mut floor = ClockTime::from_micros(4);
            let found = shard.range_at(&range, 2, ClockTime::from_micros(100), false, &mut floor);
            assert_eq!(floor, ClockTime::from_micros(4), "nothing is left out");
            let Ok(Found::Range { keys, next }) = found else { panic!("nobody is in the way") };
            let keys: Vec<(&str, u64, bool)> = keys
                .iter()
                .map(|key| {
                    let name = std::str::from_utf8(&key.key).unwrap();
                    (name, key.version.micros, key.value.is_some())
                })
                .collect();
            assert_eq!((keys, next), (told, Some(Key::from("d"))));
        }
    }
}
