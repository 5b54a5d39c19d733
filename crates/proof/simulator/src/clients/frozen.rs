//! Backups of a keyspace whose shards are frozen by a transaction, in some seeds: an operator freezes all shards, and reads each page by page, as `quorate backup create` does, by
//! [`FrozenReader`]. The leader keeps a frozen state in its memory alone: once it has lost it, the backup comes to nothing, and the operator begins another one.

use std::collections::BTreeMap;

use quorate_core::command::{Executed, NotExecuted};
use quorate_core::hosted::StoredVersion;
use quorate_core::{Random, ShardId, Value};
use quorate_granola::Class;
use quorate_serializable_shard::{FrozenPage, FrozenReader, freezing, frozen_at, not_frozen};

use super::beside::{Errand, Errands, OfBackup, Remark};
use crate::backups::Held;

/// So many backups are begun in a seed of the usual length.
const BACKUPS: u64 = 8;

/// Backups, one after the other.
#[derive(Debug)]
pub(super) struct FrozenBackups {
    random: Random,
    shards: Vec<ShardId>,
    /// How many backups are still to be begun.
    left: u64,
    /// The number of the last transaction.
    number: u64,
    current: Option<Current>,
}

/// A backup that is being taken.
#[derive(Debug)]
struct Current {
    /// The number that no other reader has.
    reader: u64,
    held: Held,
    /// The shards that are not read to their ends; none as long as they are not frozen.
    shards: Option<BTreeMap<ShardId, FrozenReader>>,
    /// The client that was asked for something, and was not told.
    waits: Option<usize>,
}

impl FrozenBackups {
    pub(super) fn new(seed: u64, length: u64, shards: Vec<ShardId>) -> Self {
        let random = Random::stream(seed, "frozen backups");
        FrozenBackups { random, shards, left: BACKUPS * length, number: 0, current: None }
    }

    fn freeze(&mut self, slot: usize) -> Option<Errand> {
        self.left = self.left.checked_sub(1)?;
        let reader = self.left;
        self.current = Some(Current { reader, held: Held::default(), shards: None, waits: Some(slot) });
        let parts = freezing(reader, self.shards.iter().copied());
        Some(self.errand(parts, true))
    }

    fn errand(&mut self, parts: BTreeMap<ShardId, Value>, begins_backup: bool) -> Errand {
        self.number += 1;
        Errand { number: self.number, parts, class: Class::ReadOnly, insists: false, begins_backup }
    }

    /// Takes the answers of shards to the operator, and says how the backup goes on; why it does not, if that makes no sense.
    fn take(current: &mut Current, executed: &Executed) -> Result<Option<OfBackup>, String> {
        let Some(shards) = &mut current.shards else {
            let at = frozen_at(&executed.answers)?;
            let readers =
                executed.answers.keys().map(|shard| (*shard, FrozenReader::new(current.reader, at)));
            current.shards = Some(readers.collect());
            return Ok(Some(OfBackup::Stands(executed.timestamp)));
        };
        for (shard, answer) in &executed.answers {
            let Some(reader) = shards.get_mut(shard) else {
                return Err(format!("was answered by {shard:?}, which was read to its end"));
            };
            if let FrozenPage::Keys(found) = reader.on_answer(answer)? {
                current.held.values.extend(found.into_iter().map(|found| (found.key, found.held.value)));
            }
            if reader.is_over() {
                shards.remove(shard);
            }
        }
        Ok(shards.is_empty().then(|| OfBackup::Taken(std::mem::take(&mut current.held))))
    }
}

impl Errands for FrozenBackups {
    fn name(&self) -> &'static str {
        "backups"
    }

    fn next(&mut self, slot: usize, _: u64) -> Option<Errand> {
        let Some(current) = &mut self.current else { return self.freeze(slot) };
        let shards = current.shards.as_ref().filter(|_| current.waits.is_none())?;
        // Shards are read side by side.
        let (shard, reader) = shards.iter().nth(self.random.index(shards.len()))?;
        let parts = BTreeMap::from([(*shard, reader.next())]);
        current.waits = Some(slot);
        Some(self.errand(parts, false))
    }

    fn on_told(&mut self, number: u64, told: &Result<Executed, NotExecuted>) -> Remark {
        let Some(current) = self.current.as_mut().filter(|_| number == self.number) else {
            return Remark {
                nonsense: Some("was told of, and nobody had asked".to_owned()),
                ..Remark::default()
            };
        };
        current.waits = None;
        let (of_backup, nonsense) = match told {
            Ok(executed) => match Self::take(current, executed) {
                Ok(of_backup) => (of_backup, None),
                Err(reason) => (Some(OfBackup::Lost), Some(reason)),
            },
            Err(NotExecuted::Refused { reason, .. }) if current.shards.is_none() => {
                (Some(OfBackup::Lost), Some(format!("was refused: {}", not_frozen(reason))))
            }
            Err(_) => (Some(OfBackup::Lost), None),
        };
        if matches!(of_backup, Some(OfBackup::Taken(_) | OfBackup::Lost)) {
            self.current = None;
        }
        Remark { of_backup, nonsense, ..Remark::default() }
    }

    /// A page is asked for again, by whichever client is next. Nobody knows where shards were frozen that were not told.
    fn on_buried(&mut self, slot: usize) {
        let Some(current) = self.current.as_mut().filter(|current| current.waits == Some(slot)) else {
            return;
        };
        current.waits = None;
        if current.shards.is_none() {
            self.current = None;
        }
    }

    fn thought(&mut self) -> f64 {
        self.random.unit()
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.current.is_none()
    }

    fn violations(&self, _: &mut dyn Iterator<Item = &StoredVersion>) -> Vec<String> {
        Vec::new()
    }
}
