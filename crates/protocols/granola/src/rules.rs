//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

quorate_core::plants! {
    CeilingForgotten = "G1", "up to where was read and executed is forgotten by the next leader";
    NoTombstones = "G5", "nobody votes on a transaction whose client died before it could ask everybody";
    VotesDiscarded = "G6", "a participant that has executed a transaction answers none that lack votes";
    ReadsRaiseNothing = "G10", "what only reads does not raise what is proposed next";
    LatestOnly = "G14", "of a client only what comes after its latest request is new";
    ArrivalOrder = "G15", "backups execute in the order of their log, not of timestamps";
    UnequalReadsTaken = "G17", "a client takes what it has read at different timestamps for one snapshot";
    QueuedOnceStable = "G18", "a proposal is in nobody's way before it is stable";
    ProposalsDescend = "G19", "a leader proposes below what it has proposed before";
    NotRewound = "G20", "a leader that is deposed keeps what it has executed ahead of the log";
    SessionForgotten = "G21", "a client does not say which timestamps it has seen";
}
