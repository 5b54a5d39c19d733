//! The bugs that can be planted into the log. Sections are those of "Viewstamped Replication Revisited".

use quorate_core::rules::Hunt;

quorate_core::plants! {
    OwnLogBegins = "L1", "4.2", Hunt::ALL_FAULTS.of("txn-lock"),
        "a view begins with the log of its leader, not with the latest that it is offered";
    LeaseFromAnswer = "L2", "6.3.1", Hunt::Scripted,
        "a lease is counted from when the answer came, not from when the leader spoke";
    OkBeforeSync = "L3", "4.1", Hunt::Scripted,
        "an acknowledgement leaves before the entries are on disk";
    RecoveringVotes = "L4", "4.3", Hunt::Scripted,
        "a replica that has lost its disk takes part in view changes";
    LivesForgotten = "L5", "4.3", Hunt::Scripted,
        "nobody notes that earlier lives of a replica are over, and what those have said counts";
    SnapshotWithoutEnd = "L6", "5.1", Hunt::ALL_FAULTS.of("txn-lock"),
        "a snapshot counts before it has an end";
    UnstableTruncated = "L7", "5.1", Hunt::ALL_FAULTS.of("txn-lock"),
        "a snapshot stands for entries that are not stable yet";
    ReadsBeforeAll = "L8", "6.3.1", Hunt::Scripted,
        "a new leader serves reads before it has heard from anybody and applied what came before it";
    EpochBeginsEarly = "L9", "7.1", Hunt::Scripted,
        "an epoch begins before the entry that ends the one before is stable";
    RestartEndsPromise = "L10", "6.3.1", Hunt::Scripted,
        "a replica that restarts is not bound by what it had promised to the leader";
    RestartedLeaderGoesOn = "L11", "4.1", Hunt::Scripted,
        "a leader that restarts goes on in its view, where it may have appended what it has forgotten";
    PromiseIgnored = "L12", "6.3.1", Hunt::Scripted,
        "a backup takes part in a view change while its promise to the leader binds it";
    NewMemberVotes = "L13", "7.1.1", Hunt::ALL_FAULTS.of("txn-lock"),
        "a member takes part in an epoch before it has what the epochs before have led to";
    HandedOverToOne = "L14", "7.1.2", Hunt::Scripted,
        "whoever has retired is stopped as soon as one member has gone on, and not f + 1";
    WaitsInVain = "L15", "7.1.1", Hunt::Scripted,
        "a replica that holds nothing is not told that its group has gone on without it, and waits for ever";
    AnyViewBelieved = "L16", "4.2", Hunt::Scripted,
        "a view that another replica names is gone on to however far ahead it lies, also the last of all";
    OwnClockCounts = "L17", "4.1", Hunt::under(&["clock-leaps"]).of("serializable"),
        "a machine is given the clock of its replica, however far that is from those of a majority";
    OffClockLeads = "L18", "4.2", Hunt::under(&["clock-leaps"]).of("serializable"),
        "a leader whose clock is off goes on leading";
}

/// The rules that a log follows.
pub type Rules = quorate_core::rules::Rules<Plant>;
