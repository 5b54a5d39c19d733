//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

use quorate_core::rules::Hunt;

quorate_core::plants! {
    LockNotLogged = "W1", "5.5", Hunt::ALL_FAULTS,
        "a preferred site votes for a transaction before its locks are durable, and keeps them in memory";
    NumberBeforeVotes = "W2", "5.5", Hunt::ALL_FAULTS,
        "a slow commit takes its number before the votes, so that an abort leaves a gap";
    OwnChangesCountTwice = "W3", "5.3", Hunt::ALL_FAULTS,
        "what a site has added to a set that others hold counts once more, although these have received it";
    StaleCopyMerged = "W4", "5.3", Hunt::Scripted,
        "what another site said of a set before it had received something is merged with what the client's own site keeps of it since";
    CopyReadEarly = "W5", "5.3", Hunt::under(&["partial-partitions", "delay-spikes"]),
        "a site reads for a client of another one although it has not received what the snapshot includes";
    DurableWhenReceived = "W6", "5.6", Hunt::ALL_FAULTS,
        "a transaction counts as durable although its sets have not reached their preferred sites";
    BarrierIgnored = "W7", "5.7", Hunt::Scripted,
        "the successor of a lost site lets in writes before it has all that the others have written with the lost site's consent";
    LostSiteHeard = "W8", "5.7", Hunt::Scripted,
        "what a site says that was taken out is still taken from it";
    LeaseIgnored = "W10", "5.7", Hunt::Scripted,
        "a site commits although it has not asked for long whether it was taken out";
    AdvancesByOne = "W12", "5.6", Hunt::ALL_FAULTS,
        "a transaction of another site becomes visible before what its snapshot includes";
    NothingPropagatedAgain = "W13", "5.6", Hunt::ALL_FAULTS,
        "what was lost on its way to another site is not sent again";
    SessionForgotten = "W14", "5.1", Hunt::Scripted,
        "a snapshot need not include what the session has seen";
    SnapshotsKept = "W17", "6", Hunt::Scripted,
        "the floor never rises, as if somebody might still read the first snapshot";
    MovesUnsettled = "W18", "4.1", Hunt::ALL_FAULTS,
        "a container passes to another site while transactions are under way that write to it, and before their effects are there";
    AbandonedAwaited = "W19", "5.7", Hunt::Scripted,
        "a session that has seen abandoned transactions waits for them";
    LeaseNotCheckedAgain = "W20", "5.7", Hunt::Scripted,
        "a site tells a client of a commit although the lease has ended since it was appended";
    RemoteWritesIgnored = "W21", "5.4", Hunt::ALL_FAULTS,
        "a commit looks at what its own site has committed last, not at what was received";
    LocksIgnored = "W22", "5.4", Hunt::ALL_FAULTS,
        "a fast commit writes what is locked for a slow one";
    LeaseNotChecked = "W23", "5.1", Hunt::Scripted,
        "a deposed leader hands out snapshots";
    AbortsNotLogged = "W24", "5.5", Hunt::ALL_FAULTS,
        "a transaction is refused without a word in the log";
    EffectsFirst = "W25", "5.6", Hunt::ALL_FAULTS,
        "what was received takes effect although its causes are missing";
    ClaimsBelieved = "W31", "5.1", Hunt::Scripted,
        "a session that claims to have seen what a site never had is waited for";
    StarvationIgnored = "W32", "5.5", Hunt::Scripted,
        "fast commits do not wait for a slow one that was refused";
    EarlierIgnored = "W33", "4.1", Hunt::ALL_FAULTS,
        "a transaction does not wait for the commit of its client that it comes after";
    OtherLocksVouch = "W34", "5.5", Hunt::Scripted,
        "a lock that a transaction has of some registers vouches for others, which its site asks for by another leader";
    SharesIgnored = "W35", "beyond", Hunt::ALL_FAULTS,
        "a site takes from a counter without a look at its share";
    SharesTooEarly = "W36", "beyond", Hunt::Scripted,
        "a site takes from a share of a counter that its transaction's snapshot lacks";
    UncertainTold = "W37", "beyond", Hunt::ALL_FAULTS,
        "a consumer of changes is told what has committed at a site before it is disaster-safe durable";
    EffectsToldFirst = "W38", "beyond", Hunt::ALL_FAULTS,
        "a consumer of changes is told a transaction before what its snapshot includes";
    LackingPassedOver = "W39", "beyond", Hunt::ALL_FAULTS,
        "a consumer of changes is not told what a site has no copy of, and goes on behind it";
}

/// The rules that the machines of this crate follow.
pub type Rules = quorate_core::rules::Rules<Plant>;
