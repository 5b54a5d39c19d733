//! The white-box check: replaying transactions in the order of their commit timestamps must explain every
//! read.
//!
//! A read sees what the transaction with the greatest timestamp below the reader's own installed; own writes
//! excepted. Unlike the black-box levels this needs no search, and it finds a wrong timestamp even where no
//! client could tell.

use crate::dependencies::{ExternalReads, Fate, WriteIndex, collect_reads, decide_fates};
use crate::explain::Words;
use crate::history::{History, KeyId, KeyType, ListRef, Timestamp, TxnId, Value};
use crate::report::{Anomalies, AnomalyKind, Report, Vacuity};

/// A version of a key as the timestamps order them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    ts: Timestamp,
    txn: TxnId,
    /// The position of the write in its transaction.
    position: u32,
    value: Value,
}

/// Checks that the commit timestamps explain every read of a committed transaction.
///
/// The verdict is unknown if a committed transaction has no timestamp, or if transactions use counting sets.
pub fn check_timestamps(history: &History) -> Report {
    let writes = WriteIndex::new(history);
    let fates = decide_fates(history, &writes);
    let mut anomalies = Anomalies::default();
    let reads = collect_reads(history, &writes, &fates, &mut anomalies);
    let evidence = Vacuity {
        commits: fates.iter().filter(|&&fate| fate == Fate::Committed).count() as u64,
        ..Vacuity::default()
    };
    let mut reason = missing_timestamp(history, &fates);
    if reason.is_none() {
        let mut replay = Replay::new(history, &fates, &mut anomalies);
        replay.registers(&reads, &writes);
        replay.lists(&reads);
        reason = replay.counting_sets();
    }
    Report::new("timestamps", history, anomalies, reason, evidence)
}

fn missing_timestamp(history: &History, fates: &[Fate]) -> Option<String> {
    let effective = (0..).map(TxnId).zip(history.txns().iter().zip(fates));
    let (txn, _) =
        effective.filter(|(_, (_, fate))| fate.is_effective()).find(|(_, (txn, _))| txn.ts.is_none())?;
    Some(format!("{} committed without a commit timestamp.", Words::new(history).txn(txn)))
}

struct Replay<'a> {
    history: &'a History,
    words: Words<'a>,
    anomalies: &'a mut Anomalies,
    /// Per key its versions by timestamp, those of one transaction in program order.
    versions: Vec<Vec<Version>>,
}

impl<'a> Replay<'a> {
    fn new(history: &'a History, fates: &[Fate], anomalies: &'a mut Anomalies) -> Self {
        let mut versions: Vec<Vec<Version>> = vec![Vec::new(); history.key_count()];
        for ((at, txn), fate) in (0..).zip(history.txns()).zip(fates) {
            let (Some(ts), true) = (txn.ts, fate.is_effective()) else { continue };
            for (position, op) in (0..).zip(history.ops(txn)) {
                if let Some(value) = op.action.written() {
                    versions[op.key.index()].push(Version { ts, txn: TxnId(at), position, value });
                }
            }
        }
        let mut replay = Replay { history, words: Words::new(history), anomalies, versions };
        replay.versions.iter_mut().for_each(|of_key| of_key.sort_unstable());
        replay.refuse_ties();
        replay
    }

    /// Two writers of a key at one timestamp have no order.
    fn refuse_ties(&mut self) {
        for (key, of_key) in (0..).map(KeyId).zip(&self.versions) {
            for pair in
                of_key.windows(2).filter(|pair| pair[0].ts == pair[1].ts && pair[0].txn != pair[1].txn)
            {
                let txns = [pair[0].txn, pair[1].txn];
                self.anomalies.add(self.history, AnomalyKind::TimestampViolation, &txns, || {
                    let (one, other) = (self.words.txn(txns[0]), self.words.txn(txns[1]));
                    let (key, ts) = (self.history.key(key), timestamp(pair[0].ts));
                    format!("{one} and {other} both wrote {key} at timestamp {ts}.")
                });
            }
        }
    }

    /// The versions of a key below the timestamp of a reader.
    fn below(&self, key: KeyId, reader: TxnId) -> &[Version] {
        let of_key = &self.versions[key.index()];
        match self.history.txn(reader).ts {
            Some(ts) => &of_key[..of_key.partition_point(|version| version.ts < ts)],
            None => &[],
        }
    }

    fn registers(&mut self, reads: &ExternalReads, writes: &WriteIndex) {
        for read in &reads.registers {
            let seen = read.write.map(|write| writes.write(write).value);
            let due = self.below(read.key, read.txn).last().copied();
            if seen != due.map(|due| due.value) {
                let seen = seen.map_or_else(|| "the initial value".to_string(), |seen| seen.to_string());
                self.mismatch(read.txn, read.key, &seen, due);
            }
        }
    }

    fn lists(&mut self, reads: &ExternalReads) {
        let explained = self.explained_prefixes(reads);
        for read in &reads.lists {
            let due = self.below(read.key, read.txn);
            if read.len as usize != due.len() || read.len > explained[read.key.index()] {
                let list = self.history.list(read.key, ListRef::shared(read.len));
                self.list_mismatch(read.txn, read.key, list);
            }
        }
        for read in reads.apart.iter().filter(|read| read.is_first) {
            let list = &self.history.list(read.key, read.list)[..read.others as usize];
            let due = self.below(read.key, read.txn);
            if !due.iter().map(|version| &version.value).eq(list) {
                self.list_mismatch(read.txn, read.key, list);
            }
        }
    }

    /// Per key, how many elements of its spine agree with the order of the timestamps.
    fn explained_prefixes(&self, reads: &ExternalReads) -> Vec<u32> {
        let mut explained = vec![0; self.history.key_count()];
        let mut spine_len = vec![0; self.history.key_count()];
        for read in &reads.lists {
            spine_len[read.key.index()] = read.len.max(spine_len[read.key.index()]);
        }
        for key in (0..self.history.key_count() as u32).map(KeyId) {
            if spine_len[key.index()] > 0 {
                let spine = self.history.list(key, ListRef::shared(spine_len[key.index()]));
                let due = self.versions[key.index()].iter().map(|version| version.value);
                explained[key.index()] =
                    spine.iter().zip(due).take_while(|&(&seen, due)| seen == due).count() as u32;
            }
        }
        explained
    }

    fn list_mismatch(&mut self, reader: TxnId, key: KeyId, list: &[Value]) {
        let due = self.below(key, reader);
        let agreeing = due.iter().zip(list).take_while(|(due, seen)| due.value == **seen).count();
        let first = due.get(agreeing).copied();
        self.mismatch(reader, key, &Words::list(list), first);
    }

    /// `due` is the version that the reader should have seen and did not; none if it should have seen less.
    fn mismatch(&mut self, reader: TxnId, key: KeyId, seen: &str, due: Option<Version>) {
        let txns: Vec<TxnId> = [Some(reader), due.map(|due| due.txn)].into_iter().flatten().collect();
        self.anomalies.add(self.history, AnomalyKind::TimestampViolation, &txns, || {
            let ts = self.history.txn(reader).ts.map(timestamp).unwrap_or_default();
            let (reader, key) = (self.words.txn(reader), self.history.key(key));
            let expected = match due {
                Some(due) => format!(
                    "{} wrote {} at the earlier timestamp {}",
                    self.words.txn(due.txn),
                    due.value,
                    timestamp(due.ts)
                ),
                None => "nothing else was written at an earlier timestamp".to_string(),
            };
            format!("{reader}, at timestamp {ts}, read {seen} of {key}, but {expected}.")
        });
    }

    fn counting_sets(&self) -> Option<String> {
        let is_set = |key| self.history.key_type(key) == Some(KeyType::CountingSet);
        let key = (0..self.history.key_count() as u32).map(KeyId).find(|&key| is_set(key))?;
        Some(format!("{} is a counting set, which this check does not judge.", self.history.key(key)))
    }
}

fn timestamp(ts: Timestamp) -> String {
    if ts.client == 0 { ts.time.to_string() } else { format!("[{}, {}]", ts.time, ts.client) }
}
