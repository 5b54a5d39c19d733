//! Known mistakes, each of which can be planted, so that tests and the simulator can prove that they would be noticed.
//!
//! A replica or a call has none unless it is given one. Each is a single branch beside the rule that it breaks.

/// A mistake in inconsistent replication that the papers warn of, or that they make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// T4: a view change settles anew what may have succeeded on the fast path.
    DoubtsFastVerdicts,
    /// T5: FINALIZE overwrites what is final already, and is confirmed whatever the view.
    FinalizeOverwrites,
    /// T6: a replica without its record counts in the quorum of a view change.
    CountsLostReplicas,
    /// T7: a replica goes on answering proposals while it changes views.
    AnswersWhileChanging,
    /// T8: FINALIZE of what is unknown or final already is not confirmed.
    ConfirmsOnce,
    /// T20: replies of different views count together.
    MixesViews,
    /// T24: an inconsistent operation runs on arrival, however large the group.
    RunsOnArrival,
    /// T31: a majority of replies alike counts as a fast quorum.
    MajoritiesAreFast,
    /// T32: of the operations of a transaction a view change goes by the latest, whatever a backup coordinator has made
    /// final.
    LatestOperationCounts,
    /// T42: new members begin with what f + 1 of them have, whichever members there were before.
    HandsOverFromTooFew,
    /// T43: a new member takes part before it has what the others know.
    ServesEmpty,
    /// T44: what travels beside the record is not handed over to the members of the next epoch.
    SupplementStaysBehind,
    /// T45: new members begin with what those have who were members before the last change, as if nothing had been agreed on
    /// since.
    HandsOverFromTooEarly,
    /// T46: nobody notes that a replica has lost its record, so that what it handed over before may count.
    ForgetsLives,
    /// T47: a view that another replica names is gone on to however far ahead it lies.
    BelievesAnyView,
    /// T48: an inconsistent operation that leaves nothing behind runs on arrival, however large the group.
    LetsGoOnArrival,
    /// T28: a replica says what it holds below a floor that is searched for before it refuses new operations there.
    SaysBeforeRefusing,
    /// T49: the replica that searches for a floor goes on although its clock was wild when it began.
    SeeksWildFloors,
    /// State is handed over with what has run since the view began.
    HandsOverBeyondFloor,
    /// Replicas compare what lies below the floor of one of them.
    ComparesBelowFloors,
    /// The replica that searches for a floor does not compare again what runs at it before it refuses.
    ComparesOnce,
    /// Replicas do not tell each other what they lack.
    ComparesNothing,
    /// A replica raises its floor without asking anybody.
    CollectsAlone,
    /// Nothing is ever collected.
    CollectsNothing,
}
