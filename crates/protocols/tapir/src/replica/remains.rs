//! The remains of ended transactions at a replica.

use quorate_core::Timestamp;
use quorate_store::ReadTimestamps;

use super::Replica;

/// The entries that a replica keeps although nothing may ask for them any more. Some of them are dropped with the next floor, so
/// that there are none only when the replica has been at rest for a while; but they never grow with the number of transactions
/// that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Transactions in its record that lie below the floor with everything that may ever have been proposed of them.
    pub recorded: usize,
    /// Versions that are below the floor and not retained either, and not the newest there; and such deletions.
    pub versions: usize,
    /// Keys and ranges whose read timestamps it remembers, if nothing has been read above the floor.
    pub read_timestamps: usize,
    /// Promises to backup coordinators, of transactions of which the record tells nothing and of which nothing may have been
    /// proposed above the floor.
    pub promises: usize,
    /// Transactions that were prepared again, and of which nothing is held any more.
    pub displaced: usize,
    /// Recoveries that it leads, and recoveries that it has asked others for.
    pub recoveries: usize,
    /// Keys whose readers take turns.
    pub turns: usize,
}

impl Remains {
    /// Each kind of thing that is left, with its number.
    pub fn left(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let all = [
            ("recorded transactions", self.recorded),
            ("versions", self.versions),
            ("read timestamps", self.read_timestamps),
            ("promises", self.promises),
            ("displaced prepares", self.displaced),
            ("recoveries", self.recoveries),
            ("turns", self.turns),
        ];
        all.into_iter().filter(|(_, number)| *number > 0)
    }
}

impl Replica {
    /// The remains of ended transactions. Looks at everything that it keeps.
    pub fn remains(&self) -> Remains {
        let (record, floor, participant) = (self.ir.record(), self.ir.floor(), &self.participant);
        let may_be_proposed = |id| participant.fading.get(id).is_some_and(|(_, last)| *last >= floor);
        let promises = participant.promises.keys();
        let promises = promises.filter(|id| !record.holds(**id) && !may_be_proposed(*id));
        Remains {
            recorded: record.overdue(floor),
            versions: participant.versions.superfluous(floor.min(participant.history.horizon())),
            read_timestamps: [&participant.reads, &participant.promised_reads]
                .map(|reads| overdue(reads, floor))
                .iter()
                .sum(),
            promises: promises.count(),
            displaced: participant.displaced_in_vain(),
            recoveries: self.recoveries.len() + self.asked.len(),
            turns: self.turns.len(),
        }
    }
}

/// Single keys are forgotten together, once the floor has passed all that was read.
fn overdue(reads: &ReadTimestamps, floor: Timestamp) -> usize {
    if reads.greatest() > floor { 0 } else { reads.remembered() }
}
