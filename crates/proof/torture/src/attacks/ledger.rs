//! The writes that a keyspace has acknowledged, and whether they are still there.
//!
//! Every write has a value of its own. Three of four write a key of their own, so that each loss shows; the fourth overwrites one of a
//! few keys, so that a value that comes back from the past shows as well. A key has one write at a time under way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quorate::{Error, Keyspace};
use quorate_cluster::Failure;
use tokio::task::JoinSet;

/// How many writes are under way at once.
const AT_ONCE: u64 = 16;

/// Each so manieth write overwrites a key.
const OVERWRITES: u64 = 4;

/// How many keys are read in one transaction.
const READ_KEYS: usize = 100;

/// How long a keyspace that is to take writes may refuse them.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a keyspace that is to be read may refuse that.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How long to wait after everything was refused.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a write may take that perhaps cannot be done.
const TRY_DEADLINE: Duration = Duration::from_secs(2);

/// The writes of one keyspace.
pub(super) struct Ledger {
    keyspace: Keyspace,
    /// The number of the next write.
    next: u64,
    /// The writes to each key.
    keys: BTreeMap<String, Story>,
    /// The end of every value, which only makes it longer.
    padding: String,
    counts: Counts,
}

/// The counts of writes, by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes that are there for good.
    pub acknowledged: u64,
    /// Writes that may be there.
    pub unknown: u64,
    /// Writes that are surely not there.
    pub refused: u64,
    /// Writes that were acknowledged, and are not there.
    pub lost: u64,
}

impl Counts {
    /// Adds those of another ledger.
    pub(crate) fn add(&mut self, other: Counts) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.lost += other.lost;
    }
}

/// The writes of one key.
#[derive(Clone, Debug, Default)]
struct Story {
    /// The last value whose write was acknowledged.
    acknowledged: Option<String>,
    /// The values that may have been written, perhaps later than the last acknowledged one.
    unknown: Vec<String>,
    /// The values that were surely not written.
    refused: Vec<String>,
}

/// An error in a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    /// An acknowledged write is not there.
    Lost,
    /// A write is there of which the client said that it surely is not.
    Refused,
}

impl Story {
    fn judge(&self, found: Option<&str>) -> Option<Wrong> {
        let may_be_there = |value: &str| self.unknown.iter().any(|unknown| unknown == value);
        if found == self.acknowledged.as_deref() || found.is_some_and(may_be_there) {
            return None;
        }
        let is_refused = |value: &str| self.refused.iter().any(|refused| refused == value);
        Some(if found.is_some_and(is_refused) { Wrong::Refused } else { Wrong::Lost })
    }
}

impl Ledger {
    /// The ledger of a keyspace that is empty.
    pub(super) fn new(keyspace: Keyspace) -> Ledger {
        Ledger { keyspace, next: 0, keys: BTreeMap::new(), padding: String::new(), counts: Counts::default() }
    }

    /// The name of the keyspace.
    pub(super) fn keyspace(&self) -> &str {
        self.keyspace.name()
    }

    /// From now on every value has so many bytes more.
    pub(super) fn fatten(&mut self, bytes: usize) {
        self.padding = ".".repeat(bytes);
    }

    /// The counts of the outcomes of all writes.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Writes until so many further writes were acknowledged; an error if the keyspace refuses them for too long.
    pub(super) async fn write(&mut self, count: u64) -> Result<(), Failure> {
        let deadline = Instant::now() + WRITE_TIMEOUT;
        let mut left = count;
        while left > 0 {
            let (acknowledged, error) = self.write_at_once(left.min(AT_ONCE), self.keyspace.clone()).await?;
            left -= acknowledged;
            let Some(error) = error else { continue };
            if Instant::now() >= deadline {
                let name = self.keyspace();
                return Err(Failure::failed(format!(
                    "{name} has acknowledged {} of {count} writes in {WRITE_TIMEOUT:?}: {error}",
                    count - left
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Tries a few writes that may be refused; tells how many were acknowledged.
    pub(super) async fn try_write(&mut self) -> Result<u64, Failure> {
        let hasty = self.keyspace.clone().with_deadline(TRY_DEADLINE);
        Ok(self.write_at_once(AT_ONCE, hasty).await?.0)
    }

    /// Begins so many writes at once; tells how many were acknowledged, and why one was not.
    async fn write_at_once(&mut self, count: u64, at: Keyspace) -> Result<(u64, Option<Error>), Failure> {
        let mut under_way = JoinSet::new();
        for slot in 0..count {
            let number = self.next;
            self.next += 1;
            let overwrites = number.is_multiple_of(OVERWRITES);
            let key = if overwrites { format!("again-{slot:02}") } else { format!("once-{number:07}") };
            let (keyspace, value) = (at.clone(), format!("write-{number}"));
            let padded = format!("{value}{}", self.padding);
            under_way.spawn(async move {
                let written = keyspace.put(&key, &padded).await;
                (key, value, written)
            });
        }
        let (mut acknowledged, mut why_not) = (0, None);
        while let Some(ended) = under_way.join_next().await {
            let (key, value, written) =
                ended.map_err(|_| Failure::failed("the task of a write has panicked"))?;
            let story = self.keys.entry(key).or_default();
            match written {
                Ok(()) => {
                    acknowledged += 1;
                    story.acknowledged = Some(value);
                }
                Err(error @ Error::Unknown { .. }) => {
                    self.counts.unknown += 1;
                    story.unknown.push(value);
                    why_not = Some(error);
                }
                Err(error) => {
                    self.counts.refused += 1;
                    story.refused.push(value);
                    why_not = Some(error);
                }
            }
        }
        self.counts.acknowledged += acknowledged;
        Ok((acknowledged, why_not))
    }

    /// Reads everything that was ever written, at this handle of the keyspace; an error names what is not as it has to be.
    pub(super) async fn read(&mut self, at: &Keyspace, site: &str) -> Result<(), Failure> {
        let deadline = Instant::now() + READ_TIMEOUT;
        loop {
            match self.read_once(at, site).await {
                Ok(judged) => return judged,
                Err(error) if Instant::now() >= deadline => {
                    let name = self.keyspace();
                    return Err(Failure::failed(format!(
                        "{name} cannot be read at {site} for {READ_TIMEOUT:?}: {error}"
                    )));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Reads everything if it can be read; an error names what is read and is not as it has to be.
    pub(super) async fn try_read(&mut self) -> Result<(), Failure> {
        let hasty = self.keyspace.clone().with_deadline(TRY_DEADLINE);
        // Without an answer nothing wrong was said.
        self.read_once(&hasty, "any site").await.unwrap_or(Ok(()))
    }

    async fn read_once(&mut self, at: &Keyspace, site: &str) -> Result<Result<(), Failure>, Error> {
        let keys: Vec<&String> = self.keys.keys().collect();
        let mut wrong = Vec::new();
        for chunk in keys.chunks(READ_KEYS) {
            let found = at.read_only(chunk.iter().map(|key| key.as_bytes())).await?;
            for (key, found) in chunk.iter().copied().zip(found) {
                let found =
                    found.map(|value| String::from_utf8_lossy(&value).trim_end_matches('.').to_owned());
                if let Some(what) = self.keys[key].judge(found.as_deref()) {
                    wrong.push((key.clone(), found, what));
                }
            }
        }
        let Some((key, found, _)) = wrong.first() else { return Ok(Ok(())) };
        let lost = wrong.iter().filter(|(_, _, what)| *what == Wrong::Lost).count() as u64;
        let example = format!("{key} is {found:?} in place of {:?}", self.keys[key].acknowledged.as_deref());
        self.counts.lost = self.counts.lost.max(lost);
        Ok(Err(Failure::failed(format!(
            "{lost} of {} acknowledged writes of {} are lost, and {} that were refused are there, at {site}: {example}",
            self.counts.acknowledged,
            self.keyspace(),
            wrong.len() as u64 - lost,
        ))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_its_last_acknowledged_value_or_one_that_may_have_been_written() {
        let story = Story {
            acknowledged: Some("write-2".into()),
            unknown: vec!["write-3".into()],
            refused: vec!["write-4".into()],
        };
        let table = [
            (Some("write-2"), None),
            (Some("write-3"), None),
            (Some("write-1"), Some(Wrong::Lost)),
            (None, Some(Wrong::Lost)),
            (Some("write-4"), Some(Wrong::Refused)),
        ];
        for (found, wrong) in table {
            assert_eq!(story.judge(found), wrong, "{found:?}");
        }
        let refused = Story { refused: vec!["write-1".into()], ..Story::default() };
        assert_eq!(refused.judge(None), None);
        assert_eq!(refused.judge(Some("write-1")), Some(Wrong::Refused));
    }
}
