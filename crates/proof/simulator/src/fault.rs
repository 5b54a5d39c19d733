//! The faults that can be injected, by name.

use crate::invariants::Invariant::{
    self, Agreement, Determinism, Durability, Isolation, Liveness, Sanity, Timestamps,
};

/// Everything that strict keyspaces promise.
const ALL: &[Invariant] = &[Isolation, Timestamps, Durability, Agreement, Liveness, Sanity, Determinism];

/// The invariants that clocks must not touch.
const ORDER: &[Invariant] = &[Isolation, Timestamps, Liveness];

/// The invariants that crashes must not touch.
const SURVIVAL: &[Invariant] = &[Isolation, Durability, Liveness];

/// The invariants that disks must not touch which change what they hold.
const DETECTED: &[Invariant] = &[Durability, Agreement, Sanity];

/// Declares every fault once: its name as users write it, what must hold all the same, and what it does.
macro_rules! faults {
    ($($fault:ident = $name:literal, $must_hold:expr, $what:literal;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $(#[doc = $what] $fault,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: [Fault; [$(Fault::$fault),*].len()] = [$(Fault::$fault),*];

            /// The name that users write.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Fault::$fault => $name,)*
                }
            }

            /// Its effect, in a sentence.
            pub const fn what(self) -> &'static str {
                match self {
                    $(Fault::$fault => $what,)*
                }
            }

            /// The invariants that must be seen to hold under it: the cells of the coverage table.
            pub const fn must_hold(self) -> &'static [Invariant] {
                match self {
                    $(Fault::$fault => $must_hold,)*
                }
            }
        }
    };
}

faults! {
    Loss = "loss", ALL, "messages are lost";
    Duplication = "duplication", ALL, "messages arrive twice within moments";
    LateDuplicates = "late-duplicates", ALL,
        "messages arrive again minutes later, across restarts and view changes";
    Reordering = "reordering", ALL, "messages overtake each other";
    LateMessages = "late-messages", ALL, "single messages take seconds";
    CorruptedFrames = "corrupted-frames", &[Isolation, Durability, Liveness, Sanity],
        "frames are damaged on their way or malformed, and with each one its connection is lost";
    DelaySpikes = "delay-spikes", ALL, "for a while, everything that one node sends takes much longer";
    Partitions = "partitions", ALL, "a node is cut off from all others for a while";
    OneWayPartitions = "one-way-partitions", ALL,
        "messages from one node to another vanish, but not those the other way";
    PartialPartitions = "partial-partitions", ALL,
        "two groups of nodes do not hear each other, and both hear the rest";
    RingPartitions = "ring-partitions", ALL,
        "every node hears a majority, and no two nodes hear the same one";
    FlappingLinks = "flapping-links", ALL, "links fail and come back in the rhythm of a time-out";
    SiteOutages = "site-outages", ALL,
        "a site is cut off, and then its links come back one by one in random order";
    ClockSkew = "clock-skew", ORDER, "clocks are wrong by a constant, up to twenty seconds";
    ClockDrift = "clock-drift", ORDER, "clocks run up to a thousandth too fast or too slowly, and so does the time of timers and leases";
    ClockJumps = "clock-jumps", ORDER, "clocks jump forward and back by up to ten seconds";
    ClockStrobes = "clock-strobes", ORDER, "a clock jumps to and fro every few milliseconds";
    FrozenClocks = "frozen-clocks", ORDER, "clocks stand still for a while";
    FarClocks = "far-clocks", ORDER,
        "the clock of a client is minutes to years ahead, or that of a replica as far behind";
    ClockLeaps = "clock-leaps", ORDER,
        "the clock of one node with replicas leaps ten minutes to six hours ahead, or back, for a moment or some seconds";
    NodeCrashes = "node-crashes", SURVIVAL, "a node crashes and restarts with what its disk holds";
    RestartStorms = "restart-storms", SURVIVAL, "a node crashes again and again, moments after each restart";
    RollingRestarts = "rolling-restarts", SURVIVAL,
        "every node is stopped in good order and started again, one after the other, with more patience or less";
    PowerLoss = "power-loss", SURVIVAL, "all nodes crash at once and restart with what their disks hold";
    EmptyDisks = "empty-disks", &[Isolation, Durability, Agreement],
        "a node crashes and restarts with an empty disk, at most f of a group at a time";
    Amnesia = "amnesia", &[Isolation, Durability, Agreement],
        "a node is made to forget: its disk is rolled back to an earlier copy, or it is initialised anew, or the directory of a \
         replica is removed; at most f of a group at a time";
    ClientCrashes = "client-crashes", SURVIVAL,
        "a client vanishes in the middle of anything, and a new one takes its place";
    RecoveryCrashes = "recovery-crashes", SURVIVAL,
        "a client vanishes, and so does the replica that settles its transactions, while it does so";
    RecoveryDuels = "recovery-duels", SURVIVAL,
        "several backup coordinators take over a transaction that its own coordinator still works on";
    Pauses = "pauses", &[Isolation, Liveness], "a node or a client stands still for a while and then goes on";
    LongPauses = "long-pauses", SURVIVAL,
        "a node or a client stands still until others have taken over what it was at, and then goes on";
    SlowNodes = "slow-nodes", &[Isolation, Liveness],
        "for a while, a node or a client takes up to five milliseconds for each message and timer";
    SlowDisks = "slow-disks", &[Durability, Liveness, Sanity], "syncs take up to a second";
    TornWrites = "torn-writes", DETECTED,
        "a node loses power while it writes, and any of the sectors that were not synced may be there";
    BitRot = "bit-rot", DETECTED, "a bit of a disk flips, at most on f disks of a group at a time";
    MisdirectedWrites = "misdirected-writes", DETECTED,
        "a sector of a disk lies where another one was, at most on f disks of a group at a time";
    WrongDisks = "wrong-disks", &[Isolation, Durability, Agreement],
        "a node restarts with the disk of another replica attached, and later with its own";
    FullDisks = "full-disks", &[Durability, Liveness, Sanity], "a disk has no room for a while";
    FailingDisks = "failing-disks", &[Durability, Liveness, Sanity],
        "nothing can be read from a disk or written to it for a while";
    FailedSyncs = "failed-syncs", &[Durability, Liveness, Sanity],
        "a sync fails after it has written some of the sectors";
    HostileClients = "hostile-clients", &[Liveness, Sanity],
        "a client lies: it meddles with others' transactions, leaves its own open, forges views and ballots";
    ViewChanges = "view-changes", ALL, "replicas change views all the time, for no reason";
    ForgedViews = "forged-views", &[Isolation, Liveness, Sanity],
        "a replica hears of the last view that there can be, as if another had gone on to it";
    HealthyCore = "healthy-core", &[Isolation, Durability, Agreement, Liveness],
        "at first only f + 1 replicas of each shard and some clients are healed, and all else stays broken";
    Buggify = "buggify", ALL,
        "limits and time-outs are as small as they can be, and views change and records are collected all the time";
    Overload = "overload", &[Liveness, Sanity],
        "many sessions want the same few keys at once, at servers that take their time for each message";
    Membership = "membership", ALL,
        "replicas are replaced, two are added or taken away, while transactions run, one change after the other";
    LowMarks = "low-marks", ALL,
        "nodes refuse new work of clients above marks that are as low as can be, and say that they are busy";
    FullLinks = "full-links", ALL,
        "links take nothing for a while, and once too much waits for one its connection is lost with all that waits";
    MixedVersions = "mixed-versions", ALL,
        "some nodes and clients run a later version, whose messages hold what others do not know, and more and more are upgraded";
    LowMemory = "low-memory", ALL,
        "replicas keep no values in memory, or few: they are in a file, which is full, or cannot be read, now and then";
    Rights = "rights", ALL,
        "users may coordinate, read, or nothing, which an operator changes while transactions are open, and nodes learn each in its own time";
    SiteLoss = "site-loss", ALL,
        "all replicas of a site are lost with their disks, or its operator has it removed while it runs: the others go on without it, and \
         what it alone has acknowledged is lost";
    ShardLoss = "shard-loss", ALL,
        "all replicas of a shard are lost with their disks, and its operator declares that to the others, or does so while it runs: what waits for \
         its votes is executed nowhere, and what it has told its clients alone may be lost";
    AcceptedLoss = "accepted-loss", ALL,
        "more than f replicas of a group lose their disks at once, and an operator accepts that: the group goes on with what the others know";
}

impl Fault {
    /// The faults that change how a whole seed is run, rather than strike in it. A seed has them beside its others.
    pub const MODES: [Fault; 3] = [Fault::HealthyCore, Fault::Buggify, Fault::Overload];

    /// The faults that change what nodes do beside the machines that they run. A seed has them beside its others.
    pub const HOSTS: [Fault; 5] =
        [Fault::LowMarks, Fault::FullLinks, Fault::MixedVersions, Fault::LowMemory, Fault::Rights];

    /// The faults after which an operator says that something is lost for good. A seed has them beside its others.
    pub const LOSSES: [Fault; 2] = [Fault::ShardLoss, Fault::AcceptedLoss];

    /// True if it is about disks: there is none where records are kept in memory.
    pub const fn needs_disks(self) -> bool {
        matches!(
            self,
            Fault::SlowDisks
                | Fault::TornWrites
                | Fault::BitRot
                | Fault::MisdirectedWrites
                | Fault::WrongDisks
                | Fault::FullDisks
                | Fault::FailingDisks
                | Fault::FailedSyncs
        )
    }

    /// The position in [`Fault::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

quorate_core::names!(Fault, "fault");

/// How often each fault was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCounts([u64; Fault::ALL.len()]);

impl Default for FaultCounts {
    fn default() -> Self {
        FaultCounts([0; Fault::ALL.len()])
    }
}

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
