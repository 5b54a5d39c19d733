//! The faults that strike real processes, by name: those of the simulator have the same names there.

use std::str::FromStr;

use quorate_core::topology::UnknownName;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A node is killed, and started again.
    NodeCrashes,
    /// All nodes are killed at once.
    PowerLoss,
    /// A node is killed and loses its disk, or the logs on it: at most f at a time.
    EmptyDisks,
    /// A node is stopped in good order, and started again.
    Restarts,
    /// A node stands still for a while.
    Pauses,
    /// A node is cut off from everybody.
    Partitions,
    /// Nothing passes over links in one direction.
    OneWayPartitions,
    /// The messages of a node take longer.
    DelaySpikes,
    /// All connections of a node break.
    BrokenConnections,
    /// All clients of a site vanish, and others take their place.
    ClientCrashes,
    /// Groups get other replicas.
    Membership,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 11] = [
        Fault::NodeCrashes,
        Fault::PowerLoss,
        Fault::EmptyDisks,
        Fault::Restarts,
        Fault::Pauses,
        Fault::Partitions,
        Fault::OneWayPartitions,
        Fault::DelaySpikes,
        Fault::BrokenConnections,
        Fault::ClientCrashes,
        Fault::Membership,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::NodeCrashes => "node-crashes",
            Fault::PowerLoss => "power-loss",
            Fault::EmptyDisks => "empty-disks",
            Fault::Restarts => "restarts",
            Fault::Pauses => "pauses",
            Fault::Partitions => "partitions",
            Fault::OneWayPartitions => "one-way-partitions",
            Fault::DelaySpikes => "delay-spikes",
            Fault::BrokenConnections => "broken-connections",
            Fault::ClientCrashes => "client-crashes",
            Fault::Membership => "membership",
        }
    }

    /// The effect of the fault, in a sentence.
    pub const fn what(self) -> &'static str {
        match self {
            Fault::NodeCrashes => "a node is killed and restarts with what its disk holds",
            Fault::PowerLoss => "all nodes are killed at once and restart with what their disks hold",
            Fault::EmptyDisks => {
                "a node is killed and restarts with an empty disk, or without its logs, at most f at a time"
            }
            Fault::Restarts => "a node is stopped in good order and restarts",
            Fault::Pauses => "a node stands still for a while and then goes on",
            Fault::Partitions => "a node is cut off from all others and from clients for a while",
            Fault::OneWayPartitions => "nothing passes over some links in one direction",
            Fault::DelaySpikes => "for a while, everything that one node sends takes much longer",
            Fault::BrokenConnections => "all connections of a node break",
            Fault::ClientCrashes => {
                "the clients of a site vanish in the middle of anything, and new ones take their place"
            }
            Fault::Membership => {
                "every group gets two replicas more, or loses these and whatever it has on one node; the configuration service too"
            }
        }
    }
}

quorate_core::names!(Fault, "fault");

/// The faults of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Faults {
    /// All that the run can survive.
    All,
    /// These.
    These(Vec<Fault>),
}

impl FromStr for Faults {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "all" => Ok(Faults::All),
            "none" => Ok(Faults::These(Vec::new())),
            names => {
                names.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>().map(Faults::These)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_simulator_can_do_as_well_has_the_same_name_there() {
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(fault));
            let simulated = fault.name().parse::<quorate_simulator::Fault>();
            let only_here = [Fault::Restarts, Fault::BrokenConnections].contains(&fault);
            assert_eq!(simulated.is_err(), only_here, "{fault}");
        }
        assert_eq!("pauses, power-loss".parse(), Ok(Faults::These(vec![Fault::Pauses, Fault::PowerLoss])));
        assert_eq!("none".parse(), Ok(Faults::These(Vec::new())));
        assert!("earthquake".parse::<Faults>().unwrap_err().to_string().contains("node-crashes, power-loss"));
    }
}
