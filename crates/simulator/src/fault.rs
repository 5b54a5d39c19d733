//! The faults that can be injected, by name.

use std::fmt;
use std::str::FromStr;

use quorate_core::topology::UnknownName;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Messages are lost.
    Loss,
    /// Messages arrive twice within moments.
    Duplication,
    /// Messages arrive again minutes later, across restarts and view changes.
    LateDuplicates,
    /// Messages overtake each other.
    Reordering,
    /// A single message takes seconds.
    LateMessages,
    /// For a while, everything that one node sends takes much longer.
    DelaySpikes,
    /// A node is cut off from all others.
    Partitions,
    /// Messages from one node to another vanish, but not those the other way.
    OneWayPartitions,
    /// Clocks are wrong by a constant.
    ClockSkew,
    /// Clocks run too fast or too slowly.
    ClockDrift,
    /// Clocks jump forward and back.
    ClockJumps,
    /// Clocks stand still for a while.
    FrozenClocks,
    /// A node crashes and restarts with what its disk holds.
    NodeCrashes,
    /// All nodes crash at once.
    PowerLoss,
    /// A node crashes and restarts with an empty disk: at most f of a group at a time.
    EmptyDisks,
    /// A client vanishes in the middle of anything; a new incarnation takes its place.
    ClientCrashes,
    /// A node or a client stands still for a while and then goes on as if nothing had happened.
    Pauses,
    /// Syncs take long.
    SlowDisks,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 18] = [
        Fault::Loss,
        Fault::Duplication,
        Fault::LateDuplicates,
        Fault::Reordering,
        Fault::LateMessages,
        Fault::DelaySpikes,
        Fault::Partitions,
        Fault::OneWayPartitions,
        Fault::ClockSkew,
        Fault::ClockDrift,
        Fault::ClockJumps,
        Fault::FrozenClocks,
        Fault::NodeCrashes,
        Fault::PowerLoss,
        Fault::EmptyDisks,
        Fault::ClientCrashes,
        Fault::Pauses,
        Fault::SlowDisks,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Loss => "loss",
            Fault::Duplication => "duplication",
            Fault::LateDuplicates => "late-duplicates",
            Fault::Reordering => "reordering",
            Fault::LateMessages => "late-messages",
            Fault::DelaySpikes => "delay-spikes",
            Fault::Partitions => "partitions",
            Fault::OneWayPartitions => "one-way-partitions",
            Fault::ClockSkew => "clock-skew",
            Fault::ClockDrift => "clock-drift",
            Fault::ClockJumps => "clock-jumps",
            Fault::FrozenClocks => "frozen-clocks",
            Fault::NodeCrashes => "node-crashes",
            Fault::PowerLoss => "power-loss",
            Fault::EmptyDisks => "empty-disks",
            Fault::ClientCrashes => "client-crashes",
            Fault::Pauses => "pauses",
            Fault::SlowDisks => "slow-disks",
        }
    }

    /// What it does, in a sentence.
    pub const fn what(self) -> &'static str {
        match self {
            Fault::Loss => "messages are lost",
            Fault::Duplication => "messages arrive twice within moments",
            Fault::LateDuplicates => "messages arrive again minutes later, across restarts and view changes",
            Fault::Reordering => "messages overtake each other",
            Fault::LateMessages => "single messages take seconds",
            Fault::DelaySpikes => "for a while, everything that one node sends takes much longer",
            Fault::Partitions => "a node is cut off from all others for a while",
            Fault::OneWayPartitions => {
                "messages from one node to another vanish, but not those the other way"
            }
            Fault::ClockSkew => "clocks are wrong by a constant, up to twenty seconds",
            Fault::ClockDrift => "clocks run up to a thousandth too fast or too slowly",
            Fault::ClockJumps => "clocks jump forward and back by up to ten seconds",
            Fault::FrozenClocks => "clocks stand still for a while",
            Fault::NodeCrashes => "a node crashes and restarts with what its disk holds",
            Fault::PowerLoss => "all nodes crash at once and restart with what their disks hold",
            Fault::EmptyDisks => {
                "a node crashes and restarts with an empty disk, at most f of a group at a time"
            }
            Fault::ClientCrashes => {
                "a client vanishes in the middle of anything, and a new one takes its place"
            }
            Fault::Pauses => "a node or a client stands still for a while and then goes on",
            Fault::SlowDisks => "syncs take up to a second",
        }
    }

    /// The position in [`Fault::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Fault {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| UnknownName {
            what: "fault",
            given: name.to_owned(),
            choices: Fault::ALL.map(Fault::name).join(", "),
        })
    }
}

/// How often each fault was injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; Fault::ALL.len()]);

impl FaultCounts {
    /// One more.
    pub fn add(&mut self, fault: Fault) {
        self.0[fault.index()] += 1;
    }

    /// How often this one was injected.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_place_and_a_name_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for (at, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault.index(), at);
            assert_eq!(fault.name().parse(), Ok(fault));
            assert!(names.insert(fault.name()));
        }
        assert!("earthquake".parse::<Fault>().unwrap_err().to_string().contains("loss, duplication"));
    }
}
