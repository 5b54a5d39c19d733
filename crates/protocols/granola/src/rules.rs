//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

quorate_core::plants! {
    CeilingForgotten = "G1", "up to where was read and executed is forgotten by the next leader";
    LatestExecuted = "G2", "proposals lie above what was executed last, not above everything that was executed";
    ProposedFirst = "G3", "a transaction gets its proposal before it is prepared, and before what its preparation lets go";
    RefusalsNotLogged = "G4", "a vote against a transaction is told before it is durable";
    NoTombstones = "G5", "nobody votes on a transaction whose client died before it could ask everybody";
    VotesDiscarded = "G6", "a participant that has executed a transaction answers none that lack votes";
    IncompleteNotLocked = "G7", "what lacks votes locks nothing when a leader begins to lock";
    LocksKept = "G8", "what is refused elsewhere keeps its locks";
    ExecutionsAscend = "G9", "a leader asserts that it executes in the order of timestamps, whatever was locked before";
    ReadsRaiseNothing = "G10", "what only reads does not raise what is proposed next";
    ToldUnlogged = "G11", "a client is told of what was executed before it was logged";
    ObservedIgnored = "G12", "a client passes over a timestamp that it was handed by another";
    DecisionsNotCompared = "G13", "a client does not mind that some participants have refused an independent transaction";
    LatestOnly = "G14", "of a client only what comes after its latest request is new";
    ArrivalOrder = "G15", "backups execute in the order of their log, not of timestamps";
    SinglesKept = "G16", "a leader that is deposed keeps what it has executed and never logged";
    UnequalReadsTaken = "G17", "a client takes what it has read at different timestamps for one snapshot";
    QueuedOnceStable = "G18", "a proposal is in nobody's way before it is stable";
    ProposalsDescend = "G19", "a leader proposes beneath what it has proposed before, although that lacks no votes";
    NotRewound = "G20", "a leader that is deposed keeps what it has executed ahead of the log";
    SessionForgotten = "G21", "a client does not say which timestamps it has seen";
    NothingLocked = "G22", "a leader that takes over coordinated transactions locks nothing for them";
    LostVotesCount = "G23", "a shard that has declared another lost still takes its votes";
    SeenAdopted = "G24", "what a client says that it has seen is believed, however far it is ahead";
}
