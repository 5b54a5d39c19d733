//! Which rules validation follows, and the bugs that can be planted into them.
//!
//! Servers and clients run [`Rules::EXCLUSIVE`]. The other rules exist so that tests and the simulator can prove that
//! the checker would notice: as published, TAPIR is not strictly serializable, and each [`Plant`] re-introduces one
//! known mistake.

/// How a prepare is validated against other prepared transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// A prepared transaction keeps every conflicting one out, whatever the timestamps say. Conflicting transactions
    /// are ordered by the instants at which all their shards hold them, so no clock can break the order.
    Exclusive,
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
    /// T9: a late prepare at an older timestamp displaces a newer one, and votes are counted across timestamps.
    OlderPrepareDisplaces,
    /// T11: a prepare that arrives after its transaction's outcome is prepared all the same.
    PrepareAfterOutcome,
    /// T16: a version is taken as valid up to the read timestamp of its key, at a replica that may lack the version that
    /// was read.
    ReadTimestampTrusted,
    /// T17: a snapshot at the client's clock is taken for strict.
    SnapshotTakenAsStrict,
    /// T18: a strict quorum read overlooks pending writes.
    PendingWriteOverlooked,
    /// T19: absent keys and scanned ranges are not validated.
    UnvalidatedAbsence,
    /// T21: the coordinator counts ABSTAIN as success.
    AbstainIsSuccess,
    /// T27: a strict read-only transaction reads shard after shard, without holds.
    ShardsReadApart,
}

impl Plant {
    /// Every plant there is.
    pub const ALL: [Plant; 11] = [
        Plant::PublishedRules,
        Plant::ForgetCommittedReads,
        Plant::SmallestPendingWrite,
        Plant::OlderPrepareDisplaces,
        Plant::PrepareAfterOutcome,
        Plant::ReadTimestampTrusted,
        Plant::SnapshotTakenAsStrict,
        Plant::PendingWriteOverlooked,
        Plant::UnvalidatedAbsence,
        Plant::AbstainIsSuccess,
        Plant::ShardsReadApart,
    ];

    /// The id, as in the protocol note.
    pub const fn id(self) -> &'static str {
        match self {
            Plant::PublishedRules => "T1",
            Plant::ForgetCommittedReads => "T2",
            Plant::SmallestPendingWrite => "T3",
            Plant::OlderPrepareDisplaces => "T9",
            Plant::PrepareAfterOutcome => "T11",
            Plant::ReadTimestampTrusted => "T16",
            Plant::SnapshotTakenAsStrict => "T17",
            Plant::PendingWriteOverlooked => "T18",
            Plant::UnvalidatedAbsence => "T19",
            Plant::AbstainIsSuccess => "T21",
            Plant::ShardsReadApart => "T27",
        }
    }

    /// What goes wrong, in a sentence.
    pub const fn what(self) -> &'static str {
        match self {
            Plant::PublishedRules => {
                "the published validation rules: a late prepare slips below a completed transaction"
            }
            Plant::ForgetCommittedReads => {
                "committed reads are forgotten; only prepared reads keep writers off"
            }
            Plant::SmallestPendingWrite => {
                "a read is checked only against the smallest pending write of its key"
            }
            Plant::OlderPrepareDisplaces => "a late prepare at an older timestamp displaces a newer one",
            Plant::PrepareAfterOutcome => "a prepare that arrives after commit or abort is prepared for ever",
            Plant::UnvalidatedAbsence => "absent keys and scanned ranges are not validated",
            Plant::AbstainIsSuccess => "ABSTAIN is counted as success",
            Plant::ReadTimestampTrusted => {
                "a version is taken as valid up to the read timestamp of its key, also where it is not the one read"
            }
            Plant::SnapshotTakenAsStrict => "a snapshot at the client's clock is taken for strict",
            Plant::PendingWriteOverlooked => "a strict quorum read overlooks pending writes",
            Plant::ShardsReadApart => "a strict read-only transaction reads its shards without holds",
        }
    }

    /// The section of the TAPIR paper that the rule comes from.
    pub const fn section(self) -> &'static str {
        match self {
            Plant::PublishedRules | Plant::SmallestPendingWrite => "5.1.2",
            Plant::ForgetCommittedReads => "5.1.2",
            Plant::OlderPrepareDisplaces => "5.1.2",
            Plant::PrepareAfterOutcome => "5.1.3",
            Plant::UnvalidatedAbsence => "5.1.1",
            Plant::AbstainIsSuccess => "5.1.2",
            Plant::ReadTimestampTrusted
            | Plant::SnapshotTakenAsStrict
            | Plant::PendingWriteOverlooked
            | Plant::ShardsReadApart => "6.1",
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
}
