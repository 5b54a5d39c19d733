//! Faults that a test build can plant in the checker, to see that its own tests notice.
//!
//! The feature `mutants` compiles them in, and only the crate's own tests ask for it. Without the feature
//! [`is_planted`] is constantly false, so that nothing is left of a fault where it could be planted.

#![cfg_attr(not(feature = "mutants"), expect(unreachable_pub, reason = "the module is private then"))]

#[cfg(feature = "mutants")]
use std::cell::Cell;

use crate::dependencies::EdgeKind;
use crate::report::AnomalyKind;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// No edges of the class WR.
    DropsReadsFrom,
    /// No edges of the class WW.
    DropsWriteOrder,
    /// No edges of the class RW.
    DropsAntiDependencies,
    /// No edges of the class SO.
    DropsSessionOrder,
    /// No edges of the class RT.
    DropsRealTime,
    /// The barriers of real time and sessions are not linked.
    ForgetsBarriers,
    /// A commit of unknown outcome that somebody noticed had happened when its unknown outcome was reported.
    EndsUnknownOutcomes,
    /// Every unknown outcome is a commit, at the latest when it is reported.
    CommitsUnknownOutcomes,
    /// Every unknown outcome is an abort.
    AbortsUnknownOutcomes,
    /// Lost transactions stay committed.
    IgnoresLoss,
    /// Only lost transactions themselves are lost, not those that read from them at their site.
    ContainsLoss,
    /// A list that was read seems one element longer, where the longest one goes on.
    MiscountsPrefixes,
    /// The last element of a list is not compared with the longest list.
    ComparesAllButTheLast,
    /// Own reads and writes need not agree.
    SkipsInternal,
    /// Reads of aborted writes are passed over.
    SkipsAbortedReads,
    /// Reads of overwritten writes are passed over.
    SkipsIntermediateReads,
    /// Reads of values that nobody wrote are passed over.
    SkipsUnwrittenReads,
    /// Elements that lists hold twice are passed over.
    SkipsDuplicates,
    /// Lists of one key need not be prefixes of one another.
    SkipsIncompatibleOrders,
    /// Counts of counting sets need not be sums.
    SkipsCounts,
    /// Appends that no read shows follow nothing.
    ForgetsTails,
    /// Writers of one key that nobody read need not see each other.
    IgnoresConflicts,
    /// The search for an order of what is open ends with success.
    SettlesEverything,
    /// No edges between what completed at a site and its later transactions.
    DropsSiteOrder,
    /// No edges between what a site has only shown and its later final commits that touch the same keys.
    DropsShown,
    /// A transaction that a site has only shown counts as completed there.
    TakesShownForFinal,
    /// No edges from local commits to those that saw them.
    DropsLocalCommits,
    /// Session order is that of processes.
    SessionsAreProcesses,
    /// Visibility is not transitive at the causal level.
    SeesOnlyDirectly,
    /// Reads may overlook visible writes at the causal level.
    MissesNothing,
    /// There need not be one arbitration order at the causal level.
    ForgetsArbitration,
    /// Snapshots of one site need not form a chain.
    LeavesSnapshotsApart,
    /// Snapshots of sites may hold what was invoked after their transactions completed.
    SeesTheFuture,
    /// All sites order commits alike.
    KeepsOneLog,
    /// Removing an element of a counting set adds it.
    TakesRemovalsForAdds,
    /// Open sums of counting sets are not propagated.
    SettlesSums,
    /// Final commits may flow-depend on aborted ones.
    ForgetsFlows,
    /// Snapshots may hold local commits of other nodes.
    SeesOtherNodes,
    /// Snapshots may hold what had aborted before.
    SeesAborted,
    /// Snapshots may hold what never committed locally.
    SeesRunning,
    /// Members of a speculative snapshot may be concurrent and write one key.
    IgnoresSnapshotConflicts,
    /// A speculative snapshot need not hold what its members read from.
    ForgetsSources,
    /// A speculative view may miss what its site had shown.
    ForgetsOwnSite,
    /// A speculative view may miss what it holds by a choice.
    ForgetsHeld,
    /// A speculative view may read from transactions that were invoked after it had ended.
    ReadsTheFuture,
    /// No transaction that was invoked after a speculative view had ended is below its snapshot, whatever its keys are.
    EndsWholeSnapshots,
    /// The reads of a speculative commit that became final are not compared with the final ones.
    BelievesSpeculation,
}

impl Mutant {
    /// All faults.
    #[cfg(feature = "mutants")]
    pub const ALL: [Mutant; 47] = [
        Mutant::DropsReadsFrom,
        Mutant::DropsWriteOrder,
        Mutant::DropsAntiDependencies,
        Mutant::DropsSessionOrder,
        Mutant::DropsRealTime,
        Mutant::ForgetsBarriers,
        Mutant::EndsUnknownOutcomes,
        Mutant::CommitsUnknownOutcomes,
        Mutant::AbortsUnknownOutcomes,
        Mutant::IgnoresLoss,
        Mutant::ContainsLoss,
        Mutant::MiscountsPrefixes,
        Mutant::ComparesAllButTheLast,
        Mutant::SkipsInternal,
        Mutant::SkipsAbortedReads,
        Mutant::SkipsIntermediateReads,
        Mutant::SkipsUnwrittenReads,
        Mutant::SkipsDuplicates,
        Mutant::SkipsIncompatibleOrders,
        Mutant::SkipsCounts,
        Mutant::ForgetsTails,
        Mutant::IgnoresConflicts,
        Mutant::SettlesEverything,
        Mutant::DropsSiteOrder,
        Mutant::DropsShown,
        Mutant::TakesShownForFinal,
        Mutant::DropsLocalCommits,
        Mutant::SessionsAreProcesses,
        Mutant::SeesOnlyDirectly,
        Mutant::MissesNothing,
        Mutant::ForgetsArbitration,
        Mutant::LeavesSnapshotsApart,
        Mutant::SeesTheFuture,
        Mutant::KeepsOneLog,
        Mutant::TakesRemovalsForAdds,
        Mutant::SettlesSums,
        Mutant::ForgetsFlows,
        Mutant::SeesOtherNodes,
        Mutant::SeesAborted,
        Mutant::SeesRunning,
        Mutant::IgnoresSnapshotConflicts,
        Mutant::ForgetsSources,
        Mutant::ForgetsOwnSite,
        Mutant::ForgetsHeld,
        Mutant::ReadsTheFuture,
        Mutant::EndsWholeSnapshots,
        Mutant::BelievesSpeculation,
    ];
}

#[cfg(feature = "mutants")]
thread_local! {
    static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Runs something with a fault in the checker, on this thread.
#[cfg(feature = "mutants")]
pub fn with<T>(mutant: Mutant, run: impl FnOnce() -> T) -> T {
    let before = PLANTED.replace(Some(mutant));
    let result = run();
    PLANTED.set(before);
    result
}

/// Whether a fault is planted.
#[cfg(feature = "mutants")]
pub(crate) fn is_planted(mutant: Mutant) -> bool {
    PLANTED.get() == Some(mutant)
}

/// No fault is planted.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_planted(_: Mutant) -> bool {
    false
}

/// Whether a fault takes the edges of a class away.
pub(crate) fn drops(kind: EdgeKind) -> bool {
    match kind {
        EdgeKind::ReadsFrom => is_planted(Mutant::DropsReadsFrom),
        EdgeKind::WriteOrder => is_planted(Mutant::DropsWriteOrder),
        EdgeKind::AntiDependency => is_planted(Mutant::DropsAntiDependencies),
        EdgeKind::SessionOrder => is_planted(Mutant::DropsSessionOrder),
        EdgeKind::RealTime => is_planted(Mutant::DropsRealTime),
        EdgeKind::SiteOrder => is_planted(Mutant::DropsSiteOrder),
        EdgeKind::Shown => is_planted(Mutant::DropsShown),
        EdgeKind::LocalCommit => is_planted(Mutant::DropsLocalCommits),
        _ => false,
    }
}

/// Whether a fault skips the check that reports anomalies of a kind.
pub(crate) fn skips(kind: AnomalyKind) -> bool {
    match kind {
        AnomalyKind::Internal => is_planted(Mutant::SkipsInternal),
        AnomalyKind::AbortedRead => is_planted(Mutant::SkipsAbortedReads),
        AnomalyKind::IntermediateRead => is_planted(Mutant::SkipsIntermediateReads),
        AnomalyKind::UnwrittenRead => is_planted(Mutant::SkipsUnwrittenReads),
        AnomalyKind::DuplicateValue => is_planted(Mutant::SkipsDuplicates),
        AnomalyKind::IncompatibleOrder => is_planted(Mutant::SkipsIncompatibleOrders),
        AnomalyKind::WrongCount => is_planted(Mutant::SkipsCounts),
        _ => false,
    }
}
