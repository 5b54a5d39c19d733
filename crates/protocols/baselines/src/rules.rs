//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plant {
    /// B1: a leader votes as soon as it has appended.
    VoteBeforeStable,
    /// B2: a refusal is told without having been appended.
    RefusalNotDurable,
    /// B3: validation looks at versions and overlooks what is prepared.
    PreparedOverlooked,
    /// B4: nothing holds what a prepared transaction has read.
    ReadsNotHeld,
    /// B5: a leader answers strict reads without a lease and without asking whether it still leads.
    LeaseNotChecked,
    /// B6: an outcome is forgotten as soon as it is old here, whoever may still ask for it.
    ForgottenTooEarly,
    /// B7: a prepare that arrives after its transaction's outcome is prepared all the same.
    PrepareAfterOutcome,
    /// B8: nobody looks after the transactions of a client that died.
    NoRecovery,
    /// B9: a participant that waits in vain aborts by itself.
    AbortsAlone,
    /// B10: absent keys and scanned ranges are not validated.
    UnvalidatedAbsence,
    /// B11: read locks of an earlier view, and locks that were lost, count when a transaction is prepared.
    LostLocksCount,
    /// B12: who wants to write a key does not ask who has locked it, and who has is taken at its word.
    ReadLocksOverlooked,
    /// B13: a commit is reported as soon as it is decided, before its timestamp has passed on all clocks.
    CommitReportedAtOnce,
    /// B14: a snapshot passes over what is prepared below its timestamp.
    SnapshotOverlooksPrepared,
    /// B15: a transaction may still be prepared below a snapshot that was read.
    SnapshotNotPromised,
    /// B16: what snapshots were promised is forgotten by the next leader.
    CeilingNotDurable,
    /// B17: what one participant commits by itself is not checked against what others hold.
    HoldsOverlooked,
    /// B18: what is validated does not count what one participant is about to commit by itself.
    UnstableOverlooked,
    /// B19: a coordinator that is asked again takes the participants that have not answered for refusing.
    SilenceRefuses,
    /// B20: a replica goes on asking those who were the replicas of other groups when it began.
    GroupsForgotten,
}

impl Plant {
    /// Every plant there is.
    pub const ALL: [Plant; 20] = [
        Plant::VoteBeforeStable,
        Plant::RefusalNotDurable,
        Plant::PreparedOverlooked,
        Plant::ReadsNotHeld,
        Plant::LeaseNotChecked,
        Plant::ForgottenTooEarly,
        Plant::PrepareAfterOutcome,
        Plant::NoRecovery,
        Plant::AbortsAlone,
        Plant::UnvalidatedAbsence,
        Plant::LostLocksCount,
        Plant::ReadLocksOverlooked,
        Plant::CommitReportedAtOnce,
        Plant::SnapshotOverlooksPrepared,
        Plant::SnapshotNotPromised,
        Plant::CeilingNotDurable,
        Plant::HoldsOverlooked,
        Plant::UnstableOverlooked,
        Plant::SilenceRefuses,
        Plant::GroupsForgotten,
    ];

    #[rustfmt::skip]
    const fn listed(self) -> (&'static str, &'static str) {
        match self {
            Plant::VoteBeforeStable => ("B1", "a leader votes as soon as it has appended, before that is stable"),
            Plant::RefusalNotDurable => ("B2", "a refusal is told without having been appended"),
            Plant::PreparedOverlooked => ("B3", "validation looks at versions and overlooks what is prepared"),
            Plant::ReadsNotHeld => ("B4", "nothing holds what a prepared transaction has read"),
            Plant::LeaseNotChecked => ("B5", "a leader answers strict reads without knowing whether it still leads"),
            Plant::ForgottenTooEarly => ("B6", "an outcome is forgotten while a participant may still ask for it"),
            Plant::PrepareAfterOutcome => ("B7", "a prepare that arrives after its transaction's outcome is prepared"),
            Plant::NoRecovery => ("B8", "nobody looks after the transactions of a client that died"),
            Plant::AbortsAlone => ("B9", "a participant that hears nothing aborts without asking the others"),
            Plant::UnvalidatedAbsence => ("B10", "absent keys and scanned ranges are not validated"),
            Plant::LostLocksCount => ("B11", "read locks that were lost, as those of an earlier view are, count all the same"),
            Plant::ReadLocksOverlooked => ("B12", "who wants to write a key does not ask who has locked it, and who has is taken at its word"),
            Plant::CommitReportedAtOnce => ("B13", "a commit is reported before its timestamp has passed on all clocks"),
            Plant::SnapshotOverlooksPrepared => ("B14", "a snapshot passes over what is prepared below its timestamp"),
            Plant::SnapshotNotPromised => ("B15", "a transaction may still be prepared below a snapshot that was read"),
            Plant::CeilingNotDurable => ("B16", "what snapshots were promised is forgotten by the next leader"),
            Plant::HoldsOverlooked => ("B17", "what one participant commits by itself is not checked against what others hold"),
            Plant::UnstableOverlooked => ("B18", "validation overlooks what one participant is about to commit by itself"),
            Plant::SilenceRefuses => ("B19", "a coordinator that is asked again takes silent participants for refusing"),
            Plant::GroupsForgotten => ("B20", "a replica goes on asking those who were the replicas of other groups when it began"),
        }
    }

    /// The id.
    pub const fn id(self) -> &'static str {
        self.listed().0
    }

    /// What goes wrong, in a sentence.
    pub const fn what(self) -> &'static str {
        self.listed().1
    }
}

/// The rules that a machine follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    plant: Option<Plant>,
}

impl Rules {
    /// The rules that keep the promises.
    pub const SOUND: Rules = Rules { plant: None };

    /// The rules with a bug. For tests and the simulator only.
    pub const fn planted(plant: Plant) -> Rules {
        Rules { plant: Some(plant) }
    }

    /// True if this bug is planted.
    pub fn has(self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plant_has_an_id_of_its_own_and_they_ascend() {
        let number = |plant: &Plant| plant.id()[1..].parse::<u32>().unwrap();
        assert!(Plant::ALL.is_sorted_by(|one, other| number(one) < number(other)));
        assert!(Plant::ALL.iter().all(|plant| !plant.what().is_empty()));
    }
}
