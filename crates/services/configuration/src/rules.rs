//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

quorate_core::plants! {
    LeaseNotChecked = "C1", "a leader answers reads without knowing whether it still leads";
    AbsenceNotCompared = "C2", "conditions on absent keys and on ranges are not looked at";
    RepeatedAfterFailOver = "C3", "a write that is sent again to the next leader is applied again";
    WatchGap = "C4", "a watch that asks for changes that are forgotten is told those that are left";
    LeaseFromAnswer = "C5", "a holder counts its lease from the answer, and not from when it asked";
    LeaseNotRestarted = "C6", "a new leader counts leases from when they were granted";
    RenewalNotConfirmed = "C7", "a leader renews leases without knowing whether it still leads";
    SnapshotWithoutClients = "C8", "a frozen state forgets what clients have been answered";
    RevisionFromKeys = "C9", "who begins with a frozen state takes the last change of a living key for the last revision";
    LeaseTakesOthersKeys = "C10", "keys vanish with a lease although somebody has written them since";
    RenewedWhileEnding = "C11", "a lease is renewed while its end is on its way into the log";
}
