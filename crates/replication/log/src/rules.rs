//! The bugs that can be planted into the log.
//!
//! Servers run [`Rules::CORRECT`]. Each [`Plant`] re-introduces one known mistake, so that tests and the simulator can prove
//! that they would notice.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plant {
    /// L1: a view begins with the log of its leader, whatever the others offer.
    OwnLogBegins,
    /// L2: a lease is counted from when the answer came.
    LeaseFromAnswer,
    /// L3: an acknowledgement leaves before the entries are on disk.
    OkBeforeSync,
    /// L4: a replica that has lost its disk offers what it has left to the next leader.
    RecoveringVotes,
    /// L5: nobody notes that earlier lives of a replica are over.
    LivesForgotten,
    /// L6: a snapshot counts before it has an end.
    SnapshotWithoutEnd,
    /// L7: a snapshot stands for entries that are not stable yet.
    UnstableTruncated,
    /// L8: a new leader serves reads before it has heard from anybody and applied what came before it.
    ReadsBeforeAll,
    /// L9: an epoch begins before the one before has ended.
    EpochBeginsEarly,
    /// L10: a replica that restarts is not bound by what it had promised.
    RestartEndsPromise,
    /// L11: a leader that restarts goes on in its view.
    RestartedLeaderGoesOn,
    /// L12: a backup goes on at once, as if it had promised nothing.
    PromiseIgnored,
    /// L13: a new member takes part before it has what came before.
    NewMemberVotes,
    /// L14: whoever has retired is stopped as soon as one member has gone on.
    HandedOverToOne,
    /// L15: a replica that holds nothing is not told that its group has gone on without it.
    WaitsInVain,
    /// L16: a view that another replica names is gone on to however far ahead it lies.
    AnyViewBelieved,
    /// L17: a machine is given the clock of its replica, whatever the others read.
    OwnClockCounts,
    /// L18: a leader whose clock is off goes on.
    OffClockLeads,
}

/// How a plant is listed.
struct Listed {
    id: &'static str,
    /// The section of "Viewstamped Replication Revisited" that the rule comes from, or that it takes the place of.
    section: &'static str,
    /// What goes wrong, in a sentence.
    what: &'static str,
}

const fn listed(id: &'static str, section: &'static str, what: &'static str) -> Listed {
    Listed { id, section, what }
}

impl Plant {
    /// Every plant there is.
    pub const ALL: [Plant; 18] = [
        Plant::OwnLogBegins,
        Plant::LeaseFromAnswer,
        Plant::OkBeforeSync,
        Plant::RecoveringVotes,
        Plant::LivesForgotten,
        Plant::SnapshotWithoutEnd,
        Plant::UnstableTruncated,
        Plant::ReadsBeforeAll,
        Plant::EpochBeginsEarly,
        Plant::RestartEndsPromise,
        Plant::RestartedLeaderGoesOn,
        Plant::PromiseIgnored,
        Plant::NewMemberVotes,
        Plant::HandedOverToOne,
        Plant::WaitsInVain,
        Plant::AnyViewBelieved,
        Plant::OwnClockCounts,
        Plant::OffClockLeads,
    ];

    #[rustfmt::skip]
    const fn listed(self) -> Listed {
        match self {
            Plant::OwnLogBegins => listed("L1", "4.2",
                "a view begins with the log of its leader, not with the latest that it is offered"),
            Plant::LeaseFromAnswer => listed("L2", "6.3.1",
                "a lease is counted from when the answer came, not from when the leader spoke"),
            Plant::OkBeforeSync => listed("L3", "4.1",
                "an acknowledgement leaves before the entries are on disk"),
            Plant::RecoveringVotes => listed("L4", "4.3",
                "a replica that has lost its disk takes part in view changes"),
            Plant::LivesForgotten => listed("L5", "4.3",
                "nobody notes that earlier lives of a replica are over, and what those have said counts"),
            Plant::SnapshotWithoutEnd => listed("L6", "5.1",
                "a snapshot counts before it has an end"),
            Plant::UnstableTruncated => listed("L7", "5.1",
                "a snapshot stands for entries that are not stable yet"),
            Plant::ReadsBeforeAll => listed("L8", "6.3.1",
                "a new leader serves reads before it has heard from anybody and applied what came before it"),
            Plant::EpochBeginsEarly => listed("L9", "7.1",
                "an epoch begins before the entry that ends the one before is stable"),
            Plant::RestartEndsPromise => listed("L10", "6.3.1",
                "a replica that restarts is not bound by what it had promised to the leader"),
            Plant::RestartedLeaderGoesOn => listed("L11", "4.1",
                "a leader that restarts goes on in its view, where it may have appended what it has forgotten"),
            Plant::PromiseIgnored => listed("L12", "6.3.1",
                "a backup takes part in a view change while its promise to the leader binds it"),
            Plant::NewMemberVotes => listed("L13", "7.1.1",
                "a member takes part in an epoch before it has what the epochs before have led to"),
            Plant::HandedOverToOne => listed("L14", "7.1.2",
                "whoever has retired is stopped as soon as one member has gone on, and not f + 1"),
            Plant::WaitsInVain => listed("L15", "7.1.1",
                "a replica that holds nothing is not told that its group has gone on without it, and waits for ever"),
            Plant::AnyViewBelieved => listed("L16", "4.2",
                "a view that another replica names is gone on to however far ahead it lies, also the last of all"),
            Plant::OwnClockCounts => listed("L17", "4.1",
                "a machine is given the clock of its replica, however far that is from those of a majority"),
            Plant::OffClockLeads => listed("L18", "4.2",
                "a leader whose clock is off goes on leading"),
        }
    }

    /// The id, as in the protocol note.
    pub const fn id(self) -> &'static str {
        self.listed().id
    }

    /// What goes wrong, in a sentence.
    pub const fn what(self) -> &'static str {
        self.listed().what
    }

    /// The section of the paper that the rule comes from, or that it takes the place of.
    pub const fn section(self) -> &'static str {
        self.listed().section
    }
}

/// The rules that a log follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    plant: Option<Plant>,
}

impl Rules {
    /// What servers run.
    pub const CORRECT: Rules = Rules { plant: None };

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
        let number = |plant: &Plant| plant.id()[1..].parse::<u32>().expect("a letter and a number");
        assert!(Plant::ALL.is_sorted_by(|one, other| number(one) < number(other)));
    }
}
