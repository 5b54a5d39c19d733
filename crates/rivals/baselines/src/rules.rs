//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

quorate_core::plants! {
    VoteBeforeStable = "B1", "a leader votes as soon as it has appended, before that is stable";
    RefusalNotDurable = "B2", "a refusal is told without having been appended";
    PreparedOverlooked = "B3", "validation looks at versions and overlooks what is prepared";
    ReadsNotHeld = "B4", "nothing holds what a prepared transaction has read";
    LeaseNotChecked = "B5", "a leader answers strict reads without knowing whether it still leads";
    ForgottenTooEarly = "B6", "an outcome is forgotten while a participant may still ask for it";
    PrepareAfterOutcome = "B7", "a prepare that arrives after its transaction's outcome is prepared";
    NoRecovery = "B8", "nobody looks after the transactions of a client that died";
    AbortsAlone = "B9", "a participant that hears nothing aborts without asking the others";
    UnvalidatedAbsence = "B10", "absent keys and scanned ranges are not validated";
    LostLocksCount = "B11", "read locks that were lost, as those of an earlier view are, count all the same";
    ReadLocksOverlooked = "B12", "who wants to write a key does not ask who has locked it, and who has is taken at its word";
    CommitReportedAtOnce = "B13", "a commit is reported before its timestamp has passed on all clocks";
    SnapshotOverlooksPrepared = "B14", "a snapshot passes over what is prepared below its timestamp";
    SnapshotNotPromised = "B15", "a transaction may still be prepared below a snapshot that was read";
    CeilingNotDurable = "B16", "what snapshots were promised is forgotten by the next leader";
    HoldsOverlooked = "B17", "what one participant commits by itself is not checked against what others hold";
    UnstableOverlooked = "B18", "validation overlooks what one participant is about to commit by itself";
    SilenceRefuses = "B19", "a coordinator that is asked again takes silent participants for refusing";
    GroupsForgotten = "B20", "a replica goes on asking those who were the replicas of other groups when it began";
}
