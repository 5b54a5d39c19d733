//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

use quorate_core::rules::Hunt;

quorate_core::plants! {
    CeilingForgotten = "G1", "5.2", Hunt::under(&["node-crashes", "pauses", "clock-skew", "partitions"]),
        "up to where was read and executed is forgotten by the next leader";
    LatestExecuted = "G2", "4.4", Hunt::ALL_FAULTS,
        "proposals lie above what was executed last, not above everything that was executed";
    ProposedFirst = "G3", "4.4",
        Hunt::under(&["clock-skew", "client-crashes", "node-crashes", "delay-spikes", "late-messages"]),
        "a transaction gets its proposal before it is prepared, and before what its preparation lets go";
    RefusalsNotLogged = "G4", "4.4", Hunt::ALL_FAULTS,
        "a vote against a transaction is told before it is durable";
    NoTombstones = "G5", "5.1", Hunt::ALL_FAULTS,
        "nobody votes on a transaction whose client died before it could ask everybody";
    VotesDiscarded = "G6", "5.1", Hunt::under(&["node-crashes", "pauses", "clock-skew", "partitions"]),
        "a participant that has executed a transaction answers none that lack votes";
    IncompleteNotLocked = "G7", "4.4", Hunt::ALL_FAULTS,
        "what lacks votes locks nothing when a leader begins to lock";
    LocksKept = "G8", "4.4", Hunt::ALL_FAULTS,
        "what is refused elsewhere keeps its locks";
    ExecutionsAscend = "G9", "4.4", Hunt::ALL_FAULTS,
        "a leader asserts that it executes in the order of timestamps, whatever was locked before";
    ReadsRaiseNothing = "G10", "4.4", Hunt::under(&["clock-skew"]),
        "what only reads does not raise what is proposed next";
    ToldUnlogged = "G11", "4.4", Hunt::ALL_FAULTS,
        "a client is told of what was executed before it was logged";
    ObservedIgnored = "G12", "4.4", Hunt::under(&["clock-skew"]),
        "a client passes over a timestamp that it was handed by another";
    DecisionsNotCompared = "G13", "4.4", Hunt::ALL_FAULTS,
        "a client does not mind that some participants have refused an independent transaction";
    LatestOnly = "G14", "5.3", Hunt::ALL_FAULTS,
        "of a client only what comes after its latest request is new";
    ArrivalOrder = "G15", "4.4", Hunt::ALL_FAULTS,
        "backups execute in the order of their log, not of timestamps";
    SinglesKept = "G16", "4.4", Hunt::ALL_FAULTS,
        "a leader that is deposed keeps what it has executed and never logged";
    UnequalReadsTaken = "G17", "4.2", Hunt::under(&["node-crashes", "view-changes", "pauses", "loss", "clock-skew"]),
        "a client takes what it has read at different timestamps for one snapshot";
    QueuedOnceStable = "G18", "4.4", Hunt::ALL_FAULTS,
        "a proposal is in nobody's way before it is stable";
    ProposalsDescend = "G19", "4.4", Hunt::ALL_FAULTS,
        "a leader proposes beneath what it has proposed before, although that lacks no votes";
    NotRewound = "G20", "5.2", Hunt::under(&["node-crashes", "pauses", "clock-skew", "partitions"]),
        "a leader that is deposed keeps what it has executed ahead of the log";
    SessionForgotten = "G21", "4.2", Hunt::ALL_FAULTS,
        "a client does not say which timestamps it has seen";
    NothingLocked = "G22", "4.4", Hunt::Scripted,
        "a leader that takes over coordinated transactions locks nothing for them";
    LostVotesCount = "G23", "4.4", Hunt::under(&["shard-loss", "late-messages", "loss"]),
        "a shard that has declared another lost still takes its votes";
    SeenAdopted = "G24", "4.4", Hunt::under(&["hostile-clients"]),
        "what a client says that it has seen is believed, however far it is ahead";
    LateRefused = "G25", "4.4", Hunt::ALL_FAULTS,
        "what asks for its timestamp while a shard locks is refused by the leader, and carried out by the replicas that follow";
    PendingPassedOver = "G26", "4.4", Hunt::ALL_FAULTS,
        "a leader tells consumers of changes that nothing else comes beneath its clock, whether something is pending there or not";
    CeilingTold = "G27", "4.4", Hunt::ALL_FAULTS,
        "replicas that follow tell consumers of changes that nothing else comes beneath the ceiling";
}

/// The rules that the machines of this crate follow.
pub type Rules = quorate_core::rules::Rules<Plant>;
