//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plant {
    /// G1: what was read up to is forgotten by the next leader.
    CeilingForgotten,
    /// G5: nobody votes on a transaction whose client has died before it could ask everybody.
    NoTombstones,
    /// G6: a participant that has executed a transaction does not tell those any more who lack votes.
    VotesDiscarded,
    /// G10: what only reads does not raise what is proposed next.
    ReadsRaiseNothing,
    /// G14: of a client only what comes after its latest request is new.
    LatestOnly,
    /// G15: backups execute in the order of their log.
    ArrivalOrder,
    /// G17: a client takes what it has read at different timestamps.
    UnequalReadsTaken,
    /// G18: a proposal is in nobody's way before it is stable.
    QueuedOnceStable,
    /// G19: a leader proposes by its clock, below what it has proposed before.
    ProposalsDescend,
    /// G20: a leader that is deposed keeps what it has executed ahead of the log.
    NotRewound,
    /// G21: a client does not say what it has seen.
    SessionForgotten,
}

impl Plant {
    /// Every plant there is.
    pub const ALL: [Plant; 11] = [
        Plant::CeilingForgotten,
        Plant::NoTombstones,
        Plant::VotesDiscarded,
        Plant::ReadsRaiseNothing,
        Plant::LatestOnly,
        Plant::ArrivalOrder,
        Plant::UnequalReadsTaken,
        Plant::QueuedOnceStable,
        Plant::ProposalsDescend,
        Plant::NotRewound,
        Plant::SessionForgotten,
    ];

    #[rustfmt::skip]
    const fn listed(self) -> (&'static str, &'static str) {
        match self {
            Plant::CeilingForgotten => ("G1", "up to where was read and executed is forgotten by the next leader"),
            Plant::NoTombstones => ("G5", "nobody votes on a transaction whose client died before it could ask everybody"),
            Plant::VotesDiscarded => ("G6", "a participant that has executed a transaction answers none that lack votes"),
            Plant::ReadsRaiseNothing => ("G10", "what only reads does not raise what is proposed next"),
            Plant::LatestOnly => ("G14", "of a client only what comes after its latest request is new"),
            Plant::ArrivalOrder => ("G15", "backups execute in the order of their log, not of timestamps"),
            Plant::UnequalReadsTaken => ("G17", "a client takes what it has read at different timestamps for one snapshot"),
            Plant::QueuedOnceStable => ("G18", "a proposal is in nobody's way before it is stable"),
            Plant::ProposalsDescend => ("G19", "a leader proposes below what it has proposed before"),
            Plant::NotRewound => ("G20", "a leader that is deposed keeps what it has executed ahead of the log"),
            Plant::SessionForgotten => ("G21", "a client does not say which timestamps it has seen"),
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
