//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

use quorate_core::rules::Hunt;

quorate_core::plants! {
    LeaseNotChecked = "C1", "", Hunt::Scripted,
        "a leader answers reads without knowing whether it still leads";
    AbsenceNotCompared = "C2", "", Hunt::ALL_FAULTS,
        "conditions on absent keys and on ranges are not looked at";
    RepeatedAfterFailOver = "C3", "", Hunt::ALL_FAULTS,
        "a write that is sent again to the next leader is applied again";
    WatchGap = "C4", "", Hunt::ALL_FAULTS,
        "a watch that asks for changes that are forgotten is told those that are left";
    LeaseFromAnswer = "C5", "", Hunt::Scripted,
        "a holder counts its lease from the answer, and not from when it asked";
    LeaseNotRestarted = "C6", "", Hunt::Scripted,
        "a new leader counts leases from when they were granted";
    RenewalNotConfirmed = "C7", "", Hunt::Scripted,
        "a leader renews leases without knowing whether it still leads";
    SnapshotWithoutClients = "C8", "", Hunt::ALL_FAULTS,
        "a frozen state forgets what clients have been answered";
    RevisionFromKeys = "C9", "", Hunt::ALL_FAULTS,
        "who begins with a frozen state takes the last change of a living key for the last revision";
    LeaseTakesOthersKeys = "C10", "", Hunt::Scripted,
        "keys vanish with a lease although somebody has written them since";
    RenewedWhileEnding = "C11", "", Hunt::Scripted,
        "a lease is renewed while its end is on its way into the log";
    AdministratorsLost = "C12", "", Hunt::Scripted,
        "the last administrator is removed";
}

/// The rules that the machines of this crate follow.
pub type Rules = quorate_core::rules::Rules<Plant>;
