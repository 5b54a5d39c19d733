//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

use quorate_core::rules::Hunt;
use quorate_ir::Mistake;

quorate_core::plants! {
    OneReplicaSuffices = "Q1", "7.1", Hunt::ALL_FAULTS,
        "a put counts as complete as soon as one replica has recorded it";
    LatePutsTaken = "Q2", "7.1", Hunt::ALL_FAULTS,
        "a put that arrives below the floor is acknowledged and not recorded";
    ReplyBeforeSync = "Q3", "7.1", Hunt::under(&["power-loss", "slow-disks"]),
        "a replica says that it has recorded a put before that is on its disk";
    NobodyCompares = "Q4", "7.1", Hunt::ALL_FAULTS,
        "replicas do not tell each other what they lack";
    CollectsAlone = "Q5", "7.1", Hunt::ALL_FAULTS,
        "a replica raises its floor without asking anybody";
    EmptyDiskBeginsAnew = "Q6", "7.1", Hunt::ALL_FAULTS,
        "a replica with an empty disk begins as if its group were new";
    RepeatedTimestamps = "Q7", "7.1", Hunt::ALL_FAULTS,
        "a client gives two puts of a key the same timestamp";
    CountsLostReplicas = "Q8", "7.1", Hunt::under(&["loss", "partitions", "empty-disks"]),
        "a replica that has lost its record counts in a view change";
    CollectsNothing = "Q9", "7.1", Hunt::ALL_FAULTS,
        "nothing is ever forgotten";
    ReusedClientIds = "Q10", "7.1", Hunt::ALL_FAULTS,
        "a client that comes back gives its puts the ids of earlier ones";
    ComparesOnce = "Q11", "7.1", Hunt::Scripted,
        "who looks for a floor does not compare again what it records before it refuses";
    HandsOverBeyondFloor = "Q12", "7.1", Hunt::ALL_FAULTS,
        "a leader hands over state with what it alone has run since the view began";
}

/// The rules that the machines of this crate follow.
pub type Rules = quorate_core::rules::Rules<Plant>;

/// The mistake that inconsistent replication is to make.
pub(crate) fn mistake(rules: Rules) -> Option<Mistake> {
    let table = [
        (Plant::CountsLostReplicas, Mistake::CountsLostReplicas),
        (Plant::NobodyCompares, Mistake::ComparesNothing),
        (Plant::ComparesOnce, Mistake::ComparesOnce),
        (Plant::HandsOverBeyondFloor, Mistake::HandsOverBeyondFloor),
        (Plant::CollectsAlone, Mistake::CollectsAlone),
        (Plant::CollectsNothing, Mistake::CollectsNothing),
    ];
    table.into_iter().find(|(plant, _)| rules.has(*plant)).map(|(_, mistake)| mistake)
}
