//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

use quorate_core::rules::Hunt;

quorate_core::plants! {
    VoteBeforeStable = "B1", "7.1", Hunt::ALL_FAULTS.of("txn-occ"),
        "a leader votes as soon as it has appended, before that is stable";
    RefusalNotDurable = "B2", "7.1", Hunt::ALL_FAULTS.of("txn-occ"),
        "a refusal is told without having been appended";
    PreparedOverlooked = "B3", "7.1", Hunt::ALL_FAULTS.of("txn-occ"),
        "validation looks at versions and overlooks what is prepared";
    ReadsNotHeld = "B4", "7.1", Hunt::under(&["node-crashes", "loss", "delay-spikes"]).of("txn-occ"),
        "nothing holds what a prepared transaction has read";
    LeaseNotChecked = "B5", "7.1", Hunt::Scripted,
        "a leader answers strict reads without knowing whether it still leads";
    ForgottenTooEarly = "B6", "7.1", Hunt::ALL_FAULTS.of("txn-occ"),
        "an outcome is forgotten while a participant may still ask for it";
    PrepareAfterOutcome = "B7", "7.1", Hunt::ALL_FAULTS.of("txn-occ"),
        "a prepare that arrives after its transaction's outcome is prepared";
    NoRecovery = "B8", "7.1", Hunt::ALL_FAULTS.of("txn-occ"),
        "nobody looks after the transactions of a client that died";
    AbortsAlone = "B9", "7.1", Hunt::ALL_FAULTS.of("txn-occ"),
        "a participant that hears nothing aborts without asking the others";
    UnvalidatedAbsence = "B10", "7.1", Hunt::ALL_FAULTS.of("txn-occ"),
        "absent keys and scanned ranges are not validated";
    LostLocksCount = "B11", "7.1", Hunt::ALL_FAULTS.of("txn-lock"),
        "read locks that were lost, as those of an earlier view are, count all the same";
    ReadLocksOverlooked = "B12", "7.1", Hunt::ALL_FAULTS.of("txn-lock"),
        "who wants to write a key does not ask who has locked it, and who has is taken at its word";
    CommitReportedAtOnce = "B13", "7.1", Hunt::ALL_FAULTS.of("span-occ"),
        "a commit is reported before its timestamp has passed on all clocks";
    SnapshotOverlooksPrepared = "B14", "7.1", Hunt::ALL_FAULTS.of("span-occ"),
        "a snapshot passes over what is prepared below its timestamp";
    SnapshotNotPromised = "B15", "7.1", Hunt::Scripted,
        "a transaction may still be prepared below a snapshot that was read";
    CeilingNotDurable = "B16", "7.1", Hunt::Scripted,
        "what snapshots were promised is forgotten by the next leader";
    HoldsOverlooked = "B17", "6", Hunt::ALL_FAULTS.of("sinfonia"),
        "what one participant commits by itself is not checked against what others hold";
    UnstableOverlooked = "B18", "6", Hunt::ALL_FAULTS.of("sinfonia"),
        "validation overlooks what one participant is about to commit by itself";
    SilenceRefuses = "B19", "6", Hunt::ALL_FAULTS.of("sinfonia"),
        "a coordinator that is asked again takes silent participants for refusing";
    GroupsForgotten = "B20", "7.1", Hunt::under(&["client-crashes", "membership"]).of("sinfonia"),
        "a replica goes on asking those who were the replicas of other groups when it began";
}

/// The rules that the machines of this crate follow.
pub type Rules = quorate_core::rules::Rules<Plant>;
