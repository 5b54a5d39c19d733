//! The records of a log that a machine is rebuilt from.
//!
//! A machine shortens its log by a snapshot that it writes among its other records ([`crate::machine`], *Truncation*). A crash leaves snapshots without an end, and storage keeps records
//! from before the last one that has an end. Neither counts. Which records do is known only once the whole log was looked at, and a log may be larger than memory: so a host reads it
//! twice, first to find the [`Extent`], and then to hand the machine one record after the other.

use crate::machine::Machine;

/// The part that a record has in a snapshot that a machine writes into its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotPart {
    /// It begins a snapshot.
    Begin,
    /// It is of no use without the rest of its snapshot.
    Page,
    /// It ends a snapshot, which is complete.
    End,
}

/// The records of a log that count: all from the beginning of the last complete snapshot on, but for those of snapshots that were begun later and have no end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The place of the first record that counts.
    first: usize,
    /// How many records are in front of the first one that may belong to a snapshot without an end.
    complete: usize,
}

impl Extent {
    /// The extent of a log, from the parts that its records have in snapshots.
    ///
    /// # Panics
    /// The log holds the end of its last complete snapshot and not the beginning: storage has given up what it had to keep.
    pub fn of(parts: impl IntoIterator<Item = Option<SnapshotPart>>) -> Self {
        let (mut begun, mut last) = (None, None);
        for (at, part) in parts.into_iter().enumerate() {
            match part {
                Some(SnapshotPart::Begin) => begun = Some(at),
                Some(SnapshotPart::End) => last = Some((begun, at)),
                Some(SnapshotPart::Page) | None => {}
            }
        }
        let Some((begun, ended)) = last else { return Extent::default() };
        assert!(begun.is_some(), "the snapshot that ends at record {ended} never began");
        Extent { first: begun.unwrap_or_default(), complete: ended + 1 }
    }

    /// The records that count, of all of the same log.
    pub fn select<R>(
        self,
        records: impl IntoIterator<Item = R>,
        part: impl Fn(&R) -> Option<SnapshotPart>,
    ) -> impl Iterator<Item = R> {
        let counts = move |(at, record): (usize, R)| {
            let is_unfinished = || matches!(part(&record), Some(SnapshotPart::Begin | SnapshotPart::Page));
            (at < self.complete || !is_unfinished()).then_some(record)
        };
        records.into_iter().enumerate().skip(self.first).filter_map(counts)
    }
}

/// The records that count, of all records of a log.
pub fn counting<R>(records: Vec<R>, part: impl Fn(&R) -> Option<SnapshotPart>) -> Vec<R> {
    let extent = Extent::of(records.iter().map(&part));
    extent.select(records, part).collect()
}

/// Rebuilds a machine from all records of a log that fits into memory.
pub fn rebuild<M: Machine>(config: M::Config, records: Vec<M::Record>) -> M {
    let records = counting(records, |record| M::snapshot_part(&config, record));
    M::restore(config, records)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter a record: `b` begins a snapshot, `p` is a page, `e` ends one, `-` is outside.
    fn part(letter: &char) -> Option<SnapshotPart> {
        match letter {
            'b' => Some(SnapshotPart::Begin),
            'p' => Some(SnapshotPart::Page),
            'e' => Some(SnapshotPart::End),
            _ => None,
        }
    }

    fn selected(log: &str) -> String {
        counting(log.chars().collect(), part).into_iter().collect()
    }

    #[test]
    fn a_restart_begins_at_the_last_complete_snapshot() {
        let table = [
            ("", ""),
            ("123", "123"),
            ("12b3p4", "1234"),
            ("12b3p4e", "b3p4e"),
            ("1bpe2b3pe45", "b3pe45"),
            ("1b2bpe", "bpe"),
            ("1bpe2b3p", "bpe23"),
            ("p1e2bpe", "bpe"),
            ("bp1", "1"),
            ("bpebpepbp3", "bpe3"),
        ];
        for (log, expected) in table {
            assert_eq!(selected(log), expected, "{log}");
        }
    }

    #[test]
    #[should_panic(expected = "the snapshot that ends at record 2 never began")]
    fn a_log_without_the_beginning_of_its_snapshot_is_no_log() {
        selected("1pe2");
    }
}
