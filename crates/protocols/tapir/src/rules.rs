//! Which rules validation follows, and the bugs that can be planted into them.
//!
//! Servers and clients run [`Rules::EXCLUSIVE`]; [`Rules::SERIALIZABLE`] promise less and allow more. The other rules exist
//! so that tests and the simulator can prove that the checker would notice: as published, TAPIR is not strictly
//! serializable, and each [`Plant`] re-introduces one known mistake. Some are mistakes of inconsistent replication, which is
//! told of them without knowing TAPIR.

use quorate_core::rules::{Hunt, Plants};
use quorate_core::topology::SerialOrder;
use quorate_ir::Mistake;

/// How a prepare is validated against other prepared transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// A prepared transaction keeps every conflicting one out, whatever the timestamps say. Conflicting transactions
    /// are ordered by the instants at which all their shards hold them, so no clock can break the order.
    Exclusive,
    /// The paper's serializable variant (section 6.3): what was read may have been overwritten above the transaction's own
    /// timestamp, and a write may lie below the newest version. Prepared transactions keep conflicting ones out as with
    /// [`Validation::Exclusive`]. Serializable in the order of timestamps, and not strict: timestamps need not follow real
    /// time.
    Serializable,
    /// The paper's rules: prepared transactions conflict only if the timestamps do. Fast clocks reorder transactions
    /// that had completed before others began.
    Published,
}

quorate_core::plants! {
    PublishedRules = "T1", "5.1.2", Hunt::ALL_FAULTS,
        "the published validation rules: a late prepare slips below a completed transaction";
    ForgetCommittedReads = "T2", "5.1.2", Hunt::ALL_FAULTS,
        "committed reads are forgotten; only prepared reads keep writers off";
    SmallestPendingWrite = "T3", "5.1.2", Hunt::ALL_FAULTS,
        "a read is checked only against the smallest pending write of its key";
    DoubtsFastCommits = "T4", "3.2.2", Hunt::under(&["late-messages", "client-crashes", "view-changes"]),
        "a view change validates anew what may have committed on the fast path";
    LateFinalizeOverwrites = "T5", "3.2.1", Hunt::under(&["late-messages", "client-crashes", "view-changes"]),
        "a late FINALIZE overwrites what a view change has settled";
    CountsLostReplicas = "T6", "3.2.2", Hunt::under(&["loss", "partitions", "empty-disks"]),
        "a replica without its record counts in the quorum of a view change";
    AnswersWhileChanging = "T7", "3.2.2", Hunt::ALL_FAULTS,
        "a replica answers while it changes views";
    ConfirmsOnce = "T8", "3.2.1", Hunt::ALL_FAULTS,
        "FINALIZE of what is unknown or final already is not confirmed";
    OlderPrepareDisplaces = "T9", "5.1.2", Hunt::under(&["reordering", "clock-skew", "client-crashes"]),
        "a late prepare at an older timestamp displaces a newer one";
    RecoveryPicksVotes = "T10", "5.2.2", Hunt::ALL_FAULTS,
        "recovery picks a vote as the coordinator does, and aborts what may have committed";
    PrepareAfterOutcome = "T11", "5.1.3", Hunt::ALL_FAULTS,
        "a prepare that arrives after commit or abort is prepared for ever";
    SyncDropsPrepares = "T12", "5.2.1", Hunt::ALL_FAULTS,
        "a replica that enters a view drops the prepared transactions that it was not told of";
    CollectAlone = "T13", "5.3", Hunt::ALL_FAULTS,
        "a replica collects its record alone, without asking what others need";
    NoRecovery = "T14", "5.2.2", Hunt::ALL_FAULTS,
        "nobody looks after the transactions of a client that died";
    ReusedClientIds = "T15", "3.2.1", Hunt::ALL_FAULTS,
        "a client that restarts goes by its old name and begins to count anew";
    ReadTimestampTrusted = "T16", "6.1", Hunt::ALL_FAULTS,
        "a version is taken as valid up to the read timestamp of its key, also where it is not the one read";
    SnapshotTakenAsStrict = "T17", "6.1", Hunt::ALL_FAULTS,
        "a snapshot at the client's clock is taken for strict";
    PendingWriteOverlooked = "T18", "6.1", Hunt::ALL_FAULTS,
        "a strict quorum read overlooks pending writes";
    UnvalidatedAbsence = "T19", "5.1.1", Hunt::ALL_FAULTS,
        "absent keys and scanned ranges are not validated";
    MixedViews = "T20", "3.2.2", Hunt::under(&["late-messages", "client-crashes", "view-changes"]),
        "votes of different views count together";
    AbstainIsSuccess = "T21", "5.1.2", Hunt::ALL_FAULTS,
        "ABSTAIN is counted as success";
    LaggardsUntold = "T22", "3.2.2", Hunt::Scripted,
        "replicas that lag behind are never told of a greater view";
    EmptyDiskBeginsAnew = "T23", "3.2.2", Hunt::ALL_FAULTS,
        "a replica whose disk is empty begins again in view 0";
    CommitOnArrival = "T24", "5.1.2", Hunt::Scripted,
        "a COMMIT takes effect on arrival in groups of five and more";
    VoteBeforeSync = "T25", "6.4", Hunt::under(&["power-loss", "client-crashes", "slow-disks"]),
        "a vote leaves before it is on disk";
    ForgottenPromises = "T26", "5.2.2", Hunt::under(&["client-crashes", "recovery-duels", "view-changes"]),
        "promises to backup coordinators are lost in a view change";
    ShardsReadApart = "T27", "6.1", Hunt::ALL_FAULTS,
        "a strict read-only transaction reads its shards without holds";
    GatherBeforeRefusing = "T28", "5.3", Hunt::under(&["late-messages", "partitions", "clock-skew", "buggify"]),
        "a checkpoint gathers what is held before new prepares below it are refused";
    CommitReportedAtOnce = "T29", "6.1", Hunt::NO_FAULTS,
        "where clocks are bounded, a transaction is reported before its timestamp has passed on all of them";
    CollectNothing = "T30", "5.3", Hunt::ALL_FAULTS,
        "the record and old versions are never collected";
    MajoritiesAreFast = "T31", "6.4", Hunt::ALL_FAULTS,
        "f + 1 votes alike count as a fast quorum, as if synchronous logs sufficed for that";
    LaterPrepareSupersedes = "T32", "5.2.2", Hunt::Scripted,
        "in a view change a later prepare supersedes what a backup coordinator has made final";
    WriteAtPromise = "T33", "6.1", Hunt::under(&["clock-drift", "late-messages", "loss"]),
        "a write is let in at exactly the timestamp that a reader was promised";
    CollectedDeletionUnseen = "T34", "5.3", Hunt::Scripted,
        "a key whose deletion was collected counts as never written";
    FloorBelowAnother = "T35", "5.3", Hunt::Scripted,
        "who looks for a floor from below another's is told only what is not collected there";
    DisplacedForgotten = "T36", "5.1.2", Hunt::Scripted,
        "what a later prepare displaced does not hold again when that comes to nothing";
    RangeNotPromised = "T40", "6.1", Hunt::ALL_FAULTS,
        "of a range that was scanned at a timestamp only the keys that were there are promised to stay";
    EpochForgotten = "T41", "3.1", Hunt::under(&["partitions", "node-crashes", "membership"]),
        "a replica that has gone on to the next epoch answers in the one before after a restart";
    HandsOverFromTooFew = "T42", "3.1", Hunt::Scripted,
        "the replicas of an epoch begin with what a majority of them has, whoever was there before";
    ServesEmpty = "T43", "3.1", Hunt::under(&["partitions", "node-crashes", "membership"]),
        "a new replica takes part before it has what the others know";
    PromisesStayBehind = "T44", "3.1", Hunt::Scripted,
        "what readers and backup coordinators were promised is not handed over to the next epoch";
    EpochDefinedEarly = "T45", "3.1", Hunt::Scripted,
        "an epoch is defined before the groups have arrived in the one before, and begins with what is older";
    EarlierLivesCount = "T46", "3.2.2", Hunt::Scripted,
        "what a replica handed over before it lost its record counts afterwards";
    AnyViewBelieved = "T47", "3.2.2", Hunt::under(&["forged-views", "node-crashes"]),
        "a view that another replica names is gone on to however far ahead it lies, also the last of all";
    AbortOnArrival = "T48", "3.2.1", Hunt::Scripted,
        "an ABORT takes effect on arrival in groups of five and more";
    WildFloorSought = "T49", "5.3", Hunt::under(&["clock-leaps"]),
        "a leader goes on with the search for a floor that its clock began when it was wild";
    ChangesAboveFloor = "T50", "5.3", Hunt::ALL_FAULTS,
        "consumers are told that nothing commits any more below what is refused, whether all of it has ended or not";
    HorizonForgotten = "T51", "5.3", Hunt::under(&["partitions", "node-crashes", "empty-disks", "membership"]),
        "a replica that is given the state of another takes everything for retained that the other has let go";
    ReadBeforeFloor = "T52", "5.3", Hunt::ALL_FAULTS,
        "all that a replica holds below a timestamp is read before its floor is there";
    ReadWhatIsCollected = "T53", "5.3", Hunt::under(&["partitions", "node-crashes", "empty-disks"]),
        "all that a replica holds below a timestamp is read although it has collected below a later floor";
    IndexListOverlooked = "T54", "5.1.2", Hunt::ALL_FAULTS,
        "a replica lets a transaction write that has not read the index list of its shard";
    ExpiryOverrun = "T55", "5.1.2", Hunt::ALL_FAULTS,
        "a transaction that has seen a value commits at its expiry or above, where readers at a timestamp find it over";
    ExpiryUnwritten = "T56", "5.1.2", Hunt::ALL_FAULTS,
        "a transaction that finds a value over does not delete its key";
    ExpiredSnapshot = "T57", "6.1", Hunt::ALL_FAULTS,
        "a strict read-only transaction that finds a value over tells so without deleting its key";
    SweptUnread = "T58", "5.1.2", Hunt::ALL_FAULTS,
        "the sweeper deletes keys by the entries of their expiries, and does not read what they hold";
    IndexListRevalidated = "T59", "5.2", Hunt::under(&["view-changes", "client-crashes", "corrupted-frames", "delay-spikes"]),
        "a view change takes what may have committed for undone because an index list that it had read has changed since";
}

impl Plant {
    /// The mistake in inconsistent replication that it is, if it is one.
    const fn in_replication(self) -> Option<Mistake> {
        match self {
            Plant::DoubtsFastCommits => Some(Mistake::DoubtsFastVerdicts),
            Plant::LateFinalizeOverwrites => Some(Mistake::FinalizeOverwrites),
            Plant::CountsLostReplicas => Some(Mistake::CountsLostReplicas),
            Plant::AnswersWhileChanging => Some(Mistake::AnswersWhileChanging),
            Plant::ConfirmsOnce => Some(Mistake::ConfirmsOnce),
            Plant::MixedViews => Some(Mistake::MixesViews),
            Plant::CommitOnArrival => Some(Mistake::RunsOnArrival),
            Plant::MajoritiesAreFast => Some(Mistake::MajoritiesAreFast),
            Plant::LaterPrepareSupersedes => Some(Mistake::LatestOperationCounts),
            Plant::HandsOverFromTooFew => Some(Mistake::HandsOverFromTooFew),
            Plant::ServesEmpty => Some(Mistake::ServesEmpty),
            Plant::PromisesStayBehind => Some(Mistake::SupplementStaysBehind),
            Plant::EpochDefinedEarly => Some(Mistake::HandsOverFromTooEarly),
            Plant::EarlierLivesCount => Some(Mistake::ForgetsLives),
            Plant::AnyViewBelieved => Some(Mistake::BelievesAnyView),
            Plant::AbortOnArrival => Some(Mistake::LetsGoOnArrival),
            Plant::GatherBeforeRefusing => Some(Mistake::SaysBeforeRefusing),
            Plant::FloorBelowAnother => Some(Mistake::ComparesBelowFloors),
            Plant::WildFloorSought => Some(Mistake::SeeksWildFloors),
            Plant::CollectAlone => Some(Mistake::CollectsAlone),
            Plant::CollectNothing => Some(Mistake::CollectsNothing),
            _ => None,
        }
    }
}

/// The rules that a machine follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    validation: Validation,
    plant: Option<Plant>,
}

impl Rules {
    /// The rules that keep the promise of strict serializability.
    pub const EXCLUSIVE: Rules = Rules { validation: Validation::Exclusive, plant: None };

    /// The rules of the serializable variant: an option of the host of machines, the same at every replica of a keyspace,
    /// and never a default.
    pub const SERIALIZABLE: Rules = Rules { validation: Validation::Serializable, plant: None };

    /// The rules that keep the promise of this order.
    pub const fn of(order: SerialOrder) -> Rules {
        match order {
            SerialOrder::RealTime => Rules::EXCLUSIVE,
            SerialOrder::Timestamps => Rules::SERIALIZABLE,
        }
    }

    /// The published rules. For tests and the simulator only.
    pub const PUBLISHED: Rules = Rules { validation: Validation::Published, plant: None };

    /// The rules with a bug. For tests and the simulator only.
    pub const fn planted(plant: Plant) -> Rules {
        match plant {
            Plant::PublishedRules => Rules::PUBLISHED,
            _ => Rules { validation: Validation::Exclusive, plant: Some(plant) },
        }
    }

    /// The rules with the bug that has this id, if there is one.
    pub fn with_id(id: Option<&str>) -> Rules {
        id.and_then(Plant::with_id).map_or(Rules::EXCLUSIVE, Rules::planted)
    }

    /// How prepares are validated.
    pub const fn validation(self) -> Validation {
        self.validation
    }

    /// True if this bug is planted.
    pub fn has(self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// The mistake that inconsistent replication makes, if one of its own is planted.
    pub(crate) fn mistake(self) -> Option<Mistake> {
        self.plant.and_then(Plant::in_replication)
    }
}
