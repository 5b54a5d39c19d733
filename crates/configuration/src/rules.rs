//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plant {
    /// C1: a leader answers without knowing whether it still leads.
    LeaseNotChecked,
    /// C2: conditions on absent keys and on ranges are not looked at.
    AbsenceNotCompared,
    /// C3: whoever leads remembers what it has done, and the log does not.
    RepeatedAfterFailOver,
    /// C4: a watch that asks for what is forgotten is told what is left.
    WatchGap,
    /// C5: a holder counts its lease from when it hears that it has it.
    LeaseFromAnswer,
    /// C6: a new leader counts leases from when they were granted.
    LeaseNotRestarted,
    /// C7: a leader renews leases without knowing whether it still leads.
    RenewalNotConfirmed,
    /// C8: a frozen state forgets what clients have been answered.
    SnapshotWithoutClients,
    /// C9: who begins with a frozen state takes the last change of a key for the last revision.
    RevisionFromKeys,
    /// C10: keys vanish with a lease although they have been written since.
    LeaseTakesOthersKeys,
    /// C11: a lease that is about to end is renewed.
    RenewedWhileEnding,
}

impl Plant {
    /// Every plant there is.
    pub const ALL: [Plant; 11] = [
        Plant::LeaseNotChecked,
        Plant::AbsenceNotCompared,
        Plant::RepeatedAfterFailOver,
        Plant::WatchGap,
        Plant::LeaseFromAnswer,
        Plant::LeaseNotRestarted,
        Plant::RenewalNotConfirmed,
        Plant::SnapshotWithoutClients,
        Plant::RevisionFromKeys,
        Plant::LeaseTakesOthersKeys,
        Plant::RenewedWhileEnding,
    ];

    #[rustfmt::skip]
    const fn listed(self) -> (&'static str, &'static str) {
        match self {
            Plant::LeaseNotChecked => ("C1", "a leader answers reads without knowing whether it still leads"),
            Plant::AbsenceNotCompared => ("C2", "conditions on absent keys and on ranges are not looked at"),
            Plant::RepeatedAfterFailOver => ("C3", "a write that is sent again to the next leader is applied again"),
            Plant::WatchGap => ("C4", "a watch that asks for changes that are forgotten is told those that are left"),
            Plant::LeaseFromAnswer => ("C5", "a holder counts its lease from the answer, and not from when it asked"),
            Plant::LeaseNotRestarted => ("C6", "a new leader counts leases from when they were granted"),
            Plant::RenewalNotConfirmed => ("C7", "a leader renews leases without knowing whether it still leads"),
            Plant::SnapshotWithoutClients => ("C8", "a frozen state forgets what clients have been answered"),
            Plant::RevisionFromKeys => ("C9", "who begins with a frozen state takes the last change of a living key for the last revision"),
            Plant::LeaseTakesOthersKeys => ("C10", "keys vanish with a lease although somebody has written them since"),
            Plant::RenewedWhileEnding => ("C11", "a lease is renewed while its end is on its way into the log"),
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
