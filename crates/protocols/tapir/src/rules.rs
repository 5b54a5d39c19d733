//! Which rules validation follows, and the bugs that can be planted into them.
//!
//! Servers and clients run [`Rules::EXCLUSIVE`]; [`Rules::SERIALIZABLE`] promise less and allow more. The other rules exist
//! so that tests and the simulator can prove that the checker would notice: as published, TAPIR is not strictly
//! serializable, and each [`Plant`] re-introduces one known mistake. Some are mistakes of inconsistent replication, which is
//! told of them without knowing TAPIR.

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

/// A known mistake, by its id in the protocol note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plant {
    /// T1: the published rules, under which a late prepare slips below a completed transaction.
    PublishedRules,
    /// T2: committed reads are forgotten; only prepared ones keep writers off.
    ForgetCommittedReads,
    /// T3: a read is checked only against the smallest pending write of its key.
    SmallestPendingWrite,
    /// T4: a view change validates anew what may have committed on the fast path.
    DoubtsFastCommits,
    /// T5: a late FINALIZE overwrites what a view change has settled.
    LateFinalizeOverwrites,
    /// T6: a replica without its record counts in the quorum of a view change.
    CountsLostReplicas,
    /// T7: a replica answers while it changes views.
    AnswersWhileChanging,
    /// T8: FINALIZE of what is unknown or final already is not confirmed.
    ConfirmsOnce,
    /// T9: a late prepare at an older timestamp displaces a newer one, and votes are counted across timestamps.
    OlderPrepareDisplaces,
    /// T10: recovery picks a vote as the coordinator does, as if nothing could have committed behind its back.
    RecoveryPicksVotes,
    /// T11: a prepare that arrives after its transaction's outcome is prepared all the same.
    PrepareAfterOutcome,
    /// T12: a replica that enters a view drops the prepared transactions that it was not told of.
    SyncDropsPrepares,
    /// T13: a replica collects below its own clock, alone.
    CollectAlone,
    /// T14: nobody looks after the transactions of a client that died.
    NoRecovery,
    /// T15: a client that restarts goes by its old name and begins to count anew.
    ReusedClientIds,
    /// T16: a version is taken as valid up to the read timestamp of its key, at a replica that may lack the version that
    /// was read.
    ReadTimestampTrusted,
    /// T17: a snapshot at the client's clock is taken for strict.
    SnapshotTakenAsStrict,
    /// T18: a strict quorum read overlooks pending writes.
    PendingWriteOverlooked,
    /// T19: absent keys and scanned ranges are not validated.
    UnvalidatedAbsence,
    /// T20: votes of different views count together.
    MixedViews,
    /// T21: the coordinator counts ABSTAIN as success.
    AbstainIsSuccess,
    /// T22: replicas that lag behind are never told of a greater view.
    LaggardsUntold,
    /// T23: a replica whose disk is empty begins again in view 0, as if its group had just been created.
    EmptyDiskBeginsAnew,
    /// T24: a COMMIT takes effect on arrival, however large the group.
    CommitOnArrival,
    /// T25: a vote leaves before it is on disk.
    VoteBeforeSync,
    /// T26: promises to backup coordinators are lost in a view change.
    ForgottenPromises,
    /// T27: a strict read-only transaction reads shard after shard, without holds.
    ShardsReadApart,
    /// T28: what is held below a floor is gathered before new prepares below it are refused.
    GatherBeforeRefusing,
    /// T29: in a keyspace that states a bound of clocks, transactions are reported as soon as they are decided.
    CommitReportedAtOnce,
    /// T30: nothing is ever collected.
    CollectNothing,
    /// T31: f + 1 votes alike count as a fast quorum, as if synchronous logs sufficed for that.
    MajoritiesAreFast,
    /// T32: in a view change a later prepare supersedes an earlier one that a backup coordinator has made final.
    LaterPrepareSupersedes,
    /// T33: a write is let in at exactly the timestamp at which a reader was promised that nothing comes in any more.
    WriteAtPromise,
    /// T34: a key of which a replica has nothing below its floor counts as never written, not as deleted there.
    CollectedDeletionUnseen,
    /// T35: who looks for a floor from below another's is told what that one has not collected, as if that were all.
    FloorBelowAnother,
    /// T36: what a later prepare of a transaction has displaced does not hold again when that comes to nothing.
    DisplacedForgotten,
    /// T40: of a range that was scanned at a timestamp only the keys are promised to stay as they were that were there.
    RangeNotPromised,
    /// T41: a replica goes on to the next epoch without writing that down, and after a restart answers in the one before.
    EpochForgotten,
    /// T42: the members of an epoch begin with what f + 1 of them have, whoever was there before.
    HandsOverFromTooFew,
    /// T43: a new replica takes part before it has what the others know.
    ServesEmpty,
    /// T44: what readers and backup coordinators were promised is not handed over to the replicas of the next epoch.
    PromisesStayBehind,
    /// T45: an epoch is defined before the groups have arrived in the one before, and begins with what is older.
    EpochDefinedEarly,
    /// T46: what a replica handed over before it lost its record counts afterwards.
    EarlierLivesCount,
    /// T47: a view that another replica names is gone on to however far ahead it lies.
    AnyViewBelieved,
}

/// How a plant is listed.
struct Listed {
    id: &'static str,
    /// The section of the TAPIR paper that the rule comes from.
    section: &'static str,
    /// What goes wrong, in a sentence.
    what: &'static str,
}

const fn listed(id: &'static str, section: &'static str, what: &'static str) -> Listed {
    Listed { id, section, what }
}

impl Plant {
    /// Every plant there is.
    pub const ALL: [Plant; 44] = [
        Plant::PublishedRules,
        Plant::ForgetCommittedReads,
        Plant::SmallestPendingWrite,
        Plant::DoubtsFastCommits,
        Plant::LateFinalizeOverwrites,
        Plant::CountsLostReplicas,
        Plant::AnswersWhileChanging,
        Plant::ConfirmsOnce,
        Plant::OlderPrepareDisplaces,
        Plant::RecoveryPicksVotes,
        Plant::PrepareAfterOutcome,
        Plant::SyncDropsPrepares,
        Plant::CollectAlone,
        Plant::NoRecovery,
        Plant::ReusedClientIds,
        Plant::ReadTimestampTrusted,
        Plant::SnapshotTakenAsStrict,
        Plant::PendingWriteOverlooked,
        Plant::UnvalidatedAbsence,
        Plant::MixedViews,
        Plant::AbstainIsSuccess,
        Plant::LaggardsUntold,
        Plant::EmptyDiskBeginsAnew,
        Plant::CommitOnArrival,
        Plant::VoteBeforeSync,
        Plant::ForgottenPromises,
        Plant::ShardsReadApart,
        Plant::GatherBeforeRefusing,
        Plant::CommitReportedAtOnce,
        Plant::CollectNothing,
        Plant::MajoritiesAreFast,
        Plant::LaterPrepareSupersedes,
        Plant::WriteAtPromise,
        Plant::CollectedDeletionUnseen,
        Plant::FloorBelowAnother,
        Plant::DisplacedForgotten,
        Plant::RangeNotPromised,
        Plant::EpochForgotten,
        Plant::HandsOverFromTooFew,
        Plant::ServesEmpty,
        Plant::PromisesStayBehind,
        Plant::EpochDefinedEarly,
        Plant::EarlierLivesCount,
        Plant::AnyViewBelieved,
    ];

    #[rustfmt::skip]
    const fn listed(self) -> Listed {
        match self {
            Plant::PublishedRules => listed("T1", "5.1.2",
                "the published validation rules: a late prepare slips below a completed transaction"),
            Plant::ForgetCommittedReads => listed("T2", "5.1.2",
                "committed reads are forgotten; only prepared reads keep writers off"),
            Plant::SmallestPendingWrite => listed("T3", "5.1.2",
                "a read is checked only against the smallest pending write of its key"),
            Plant::DoubtsFastCommits => listed("T4", "3.2.2",
                "a view change validates anew what may have committed on the fast path"),
            Plant::LateFinalizeOverwrites => listed("T5", "3.2.1",
                "a late FINALIZE overwrites what a view change has settled"),
            Plant::CountsLostReplicas => listed("T6", "3.2.2",
                "a replica without its record counts in the quorum of a view change"),
            Plant::AnswersWhileChanging => listed("T7", "3.2.2",
                "a replica answers while it changes views"),
            Plant::ConfirmsOnce => listed("T8", "3.2.1",
                "FINALIZE of what is unknown or final already is not confirmed"),
            Plant::OlderPrepareDisplaces => listed("T9", "5.1.2",
                "a late prepare at an older timestamp displaces a newer one"),
            Plant::RecoveryPicksVotes => listed("T10", "5.2.2",
                "recovery picks a vote as the coordinator does, and aborts what may have committed"),
            Plant::PrepareAfterOutcome => listed("T11", "5.1.3",
                "a prepare that arrives after commit or abort is prepared for ever"),
            Plant::SyncDropsPrepares => listed("T12", "5.2.1",
                "a replica that enters a view drops the prepared transactions that it was not told of"),
            Plant::CollectAlone => listed("T13", "5.3",
                "a replica collects its record alone, without asking what others need"),
            Plant::NoRecovery => listed("T14", "5.2.2",
                "nobody looks after the transactions of a client that died"),
            Plant::ReusedClientIds => listed("T15", "3.2.1",
                "a client that restarts goes by its old name and begins to count anew"),
            Plant::ReadTimestampTrusted => listed("T16", "6.1",
                "a version is taken as valid up to the read timestamp of its key, also where it is not the one read"),
            Plant::SnapshotTakenAsStrict => listed("T17", "6.1",
                "a snapshot at the client's clock is taken for strict"),
            Plant::PendingWriteOverlooked => listed("T18", "6.1",
                "a strict quorum read overlooks pending writes"),
            Plant::UnvalidatedAbsence => listed("T19", "5.1.1",
                "absent keys and scanned ranges are not validated"),
            Plant::MixedViews => listed("T20", "3.2.2",
                "votes of different views count together"),
            Plant::AbstainIsSuccess => listed("T21", "5.1.2",
                "ABSTAIN is counted as success"),
            Plant::LaggardsUntold => listed("T22", "3.2.2",
                "replicas that lag behind are never told of a greater view"),
            Plant::EmptyDiskBeginsAnew => listed("T23", "3.2.2",
                "a replica whose disk is empty begins again in view 0"),
            Plant::CommitOnArrival => listed("T24", "5.1.2",
                "a COMMIT takes effect on arrival in groups of five and more"),
            Plant::VoteBeforeSync => listed("T25", "6.4",
                "a vote leaves before it is on disk"),
            Plant::ForgottenPromises => listed("T26", "5.2.2",
                "promises to backup coordinators are lost in a view change"),
            Plant::ShardsReadApart => listed("T27", "6.1",
                "a strict read-only transaction reads its shards without holds"),
            Plant::GatherBeforeRefusing => listed("T28", "5.3",
                "a checkpoint gathers what is held before new prepares below it are refused"),
            Plant::CommitReportedAtOnce => listed("T29", "6.1",
                "where clocks are bounded, a transaction is reported before its timestamp has passed on all of them"),
            Plant::CollectNothing => listed("T30", "5.3",
                "the record and old versions are never collected"),
            Plant::MajoritiesAreFast => listed("T31", "6.4",
                "f + 1 votes alike count as a fast quorum, as if synchronous logs sufficed for that"),
            Plant::LaterPrepareSupersedes => listed("T32", "5.2.2",
                "in a view change a later prepare supersedes what a backup coordinator has made final"),
            Plant::WriteAtPromise => listed("T33", "6.1",
                "a write is let in at exactly the timestamp that a reader was promised"),
            Plant::CollectedDeletionUnseen => listed("T34", "5.3",
                "a key whose deletion was collected counts as never written"),
            Plant::FloorBelowAnother => listed("T35", "5.3",
                "who looks for a floor from below another's is told only what is not collected there"),
            Plant::DisplacedForgotten => listed("T36", "5.1.2",
                "what a later prepare displaced does not hold again when that comes to nothing"),
            Plant::RangeNotPromised => listed("T40", "6.1",
                "of a range that was scanned at a timestamp only the keys that were there are promised to stay"),
            Plant::EpochForgotten => listed("T41", "3.1",
                "a replica that has gone on to the next epoch answers in the one before after a restart"),
            Plant::HandsOverFromTooFew => listed("T42", "3.1",
                "the replicas of an epoch begin with what a majority of them has, whoever was there before"),
            Plant::ServesEmpty => listed("T43", "3.1",
                "a new replica takes part before it has what the others know"),
            Plant::PromisesStayBehind => listed("T44", "3.1",
                "what readers and backup coordinators were promised is not handed over to the next epoch"),
            Plant::EpochDefinedEarly => listed("T45", "3.1",
                "an epoch is defined before the groups have arrived in the one before, and begins with what is older"),
            Plant::EarlierLivesCount => listed("T46", "3.2.2",
                "what a replica handed over before it lost its record counts afterwards"),
            Plant::AnyViewBelieved => listed("T47", "3.2.2",
                "a view that another replica names is gone on to however far ahead it lies, also the last of all"),
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

    /// The section of the TAPIR paper that the rule comes from.
    pub const fn section(self) -> &'static str {
        self.listed().section
    }

    /// The mistake in inconsistent replication that it is, if it is one.
    const fn mistake(self) -> Option<Mistake> {
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

    /// The rules of the serializable variant: an option of whoever hosts machines, the same at every replica of a keyspace,
    /// and never a default.
    pub const SERIALIZABLE: Rules = Rules { validation: Validation::Serializable, plant: None };

    /// The published rules. For tests and the simulator only.
    pub const PUBLISHED: Rules = Rules { validation: Validation::Published, plant: None };

    /// The rules with a bug. For tests and the simulator only.
    pub const fn planted(plant: Plant) -> Rules {
        match plant {
            Plant::PublishedRules => Rules::PUBLISHED,
            _ => Rules { validation: Validation::Exclusive, plant: Some(plant) },
        }
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
        self.plant.and_then(Plant::mistake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plant_has_an_id_of_its_own_and_they_ascend() {
        let number = |plant: &Plant| plant.id()[1..].parse::<u32>().unwrap();
        assert!(Plant::ALL.is_sorted_by(|one, other| number(one) < number(other)));
        assert!(Plant::ALL.iter().all(|plant| !plant.what().is_empty() && !plant.section().is_empty()));
    }
}
