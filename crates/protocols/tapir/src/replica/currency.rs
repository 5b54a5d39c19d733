//! Does this replica lag behind? Inconsistent replication lets a replica miss operations for ever, and no single
//! transaction is harmed; but when every replica misses something else, a transaction that reads enough keys finds no
//! replica that is current for all of them.
//!
//! A prepare that carries a read of a version that this replica does not have shows that it missed a commit. If the version
//! is still missing after a while, the replica changes views and comes back current. (If it holds the missing transaction
//! prepared, recovery brings the outcome sooner.)

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{Instant, Key, Timestamp, Transaction};
use quorate_store::Versions;

/// Versions that others have and this replica does not.
#[derive(Debug, Default)]
pub(super) struct Currency {
    missing: BTreeMap<Key, (Timestamp, Instant)>,
    /// True if the others have collected what this replica does not have.
    is_behind: bool,
    next_view_change: Instant,
}

/// One is enough to know; more only help if some arrive late.
const MISSING_MAX: usize = 64;

/// Between two view changes for this reason lie so many time-outs, in case it is the others who cannot be reached.
const TIMEOUTS_BETWEEN: u32 = 8;

impl Currency {
    /// Notes what a prepare has read and this replica lacks.
    ///
    /// Below the floor nothing is missing: what is not there has been collected.
    pub(super) fn note(
        &mut self,
        transaction: &Transaction,
        versions: &Versions,
        floor: Timestamp,
        now: Instant,
    ) {
        for read in &transaction.reads {
            // A key that was read absent cannot be missing; that is worth a look-up in every prepare.
            let was_found = read.version > Timestamp::ZERO && read.version >= floor;
            if was_found
                && versions.newest_timestamp(&read.key) < read.version
                && self.missing.len() < MISSING_MAX
            {
                self.missing.entry(read.key.clone()).or_insert((read.version, now));
            }
        }
        assert!(self.missing.len() <= MISSING_MAX, "{} versions are missed", self.missing.len());
    }

    /// The others have collected something that this replica does not have.
    pub(super) fn note_behind(&mut self) {
        self.is_behind = true;
    }

    /// True if something has been missing for `timeout`, and it is time to do something about it.
    pub(super) fn lags(
        &mut self,
        versions: &Versions,
        floor: Timestamp,
        now: Instant,
        timeout: Duration,
    ) -> bool {
        self.missing
            .retain(|key, (version, _)| *version >= floor && versions.newest_timestamp(key) < *version);
        let overdue = self.is_behind || self.missing.values().any(|(_, since)| now - *since >= timeout);
        if !overdue || now < self.next_view_change {
            return false;
        }
        self.is_behind = false;
        self.missing.clear();
        self.next_view_change = now + timeout * TIMEOUTS_BETWEEN;
        assert!(self.next_view_change > now, "one view change is asked for after the other at {now:?}");
        true
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, ReadVersion};

    use super::*;

    #[test]
    fn a_version_that_stays_missing_is_noticed_once_in_a_while() {
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let seconds = |seconds| Instant::START + Duration::from_secs(seconds);
        let timeout = Duration::from_secs(2);
        let key = Key::from("k");
        let read = ReadVersion { key: key.clone(), version: at(7), deleted: false };
        let transaction = Transaction { reads: vec![read], ..Transaction::default() };
        let mut versions = Versions::new();
        let mut currency = Currency::default();
        currency.note(&transaction, &versions, Timestamp::ZERO, seconds(10));
        assert!(!currency.lags(&versions, Timestamp::ZERO, seconds(11), timeout), "it may still arrive");
        assert!(currency.lags(&versions, Timestamp::ZERO, seconds(12), timeout));
        currency.note(&transaction, &versions, Timestamp::ZERO, seconds(13));
        assert!(
            !currency.lags(&versions, Timestamp::ZERO, seconds(16), timeout),
            "the last view change was just now"
        );
        versions.install(&key, at(7), None);
        assert!(!currency.lags(&versions, Timestamp::ZERO, seconds(60), timeout), "it has arrived");
        currency.note(&transaction, &Versions::new(), at(8), seconds(70));
        assert!(
            !currency.lags(&Versions::new(), at(8), seconds(80), timeout),
            "below the floor nothing is missing"
        );
        currency.note_behind();
        assert!(currency.lags(&versions, at(8), seconds(80), timeout), "the others have collected it");
    }

    #[test]
    fn only_so_many_missing_versions_are_noted() {
        let version = Timestamp { micros: 7, client: ClientId(1) };
        let read = |key: usize| ReadVersion { key: Key::from(format!("k{key}")), version, deleted: false };
        let reads = (0..=MISSING_MAX).map(read).collect();
        let transaction = Transaction { reads, ..Transaction::default() };
        let mut currency = Currency::default();
        currency.note(&transaction, &Versions::new(), Timestamp::ZERO, Instant::START);
        assert_eq!(currency.missing.len(), MISSING_MAX);
    }

    #[test]
    fn a_version_is_missing_if_it_is_not_below_the_floor_and_later_than_all_that_is_here() {
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let key = Key::from("k");
        let now = Instant::START + Duration::from_secs(100);
        let lags = |read: Timestamp, held: u64, floor: u64| {
            let mut versions = Versions::new();
            if held > 0 {
                versions.install(&key, at(held), None);
            }
            let read = ReadVersion { key: key.clone(), version: read, deleted: false };
            let transaction = Transaction { reads: vec![read], ..Transaction::default() };
            let mut currency = Currency::default();
            currency.note(&transaction, &versions, at(floor), now);
            let second = Duration::from_secs(1);
            (currency.missing.len(), currency.lags(&versions, at(floor), now + second, second))
        };
        assert_eq!(lags(at(7), 0, 7), (1, true), "at the floor nothing is collected");
        assert_eq!(lags(at(7), 0, 8), (0, false));
        assert_eq!(lags(at(7), 6, 0), (1, true));
        assert_eq!(lags(at(7), 7, 0), (0, false), "it is here");
        assert_eq!(lags(at(7), 8, 0), (0, false));
        assert_eq!(lags(Timestamp::ZERO, 0, 0), (0, false), "what was absent cannot be missing");
    }

    #[test]
    fn what_the_floor_has_passed_is_missing_no_more() {
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let second = Duration::from_secs(1);
        for (floor, lags) in [(7, true), (8, false)] {
            let (versions, mut currency) = (Versions::new(), Currency::default());
            let read = ReadVersion { key: Key::from("k"), version: at(7), deleted: false };
            let transaction = Transaction { reads: vec![read], ..Transaction::default() };
            let now = Instant::START + 100 * second;
            currency.note(&transaction, &versions, Timestamp::ZERO, now);
            assert_eq!(currency.lags(&versions, at(floor), now + second, second), lags, "{floor}");
        }
    }
}
