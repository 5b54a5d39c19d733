//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

use quorate_ir::Mistake;

quorate_core::plants! {
    OneReplicaSuffices = "Q1", "a put counts as complete as soon as one replica has recorded it";
    LatePutsTaken = "Q2", "a put that arrives below the floor is acknowledged and not recorded";
    ReplyBeforeSync = "Q3", "a replica says that it has recorded a put before that is on its disk";
    NobodyCompares = "Q4", "replicas do not tell each other what they lack";
    CollectsAlone = "Q5", "a replica raises its floor without asking anybody";
    EmptyDiskBeginsAnew = "Q6", "a replica with an empty disk begins as if its group were new";
    RepeatedTimestamps = "Q7", "a client gives two puts of a key the same timestamp";
    CountsLostReplicas = "Q8", "a replica that has lost its record counts in a view change";
    CollectsNothing = "Q9", "nothing is ever forgotten";
    ReusedClientIds = "Q10", "a client that comes back gives its puts the ids of earlier ones";
    ComparesOnce = "Q11", "who looks for a floor does not compare again what it records before it refuses";
}

/// The mistake that inconsistent replication is to make.
pub(crate) fn mistake(rules: Rules) -> Option<Mistake> {
    rules.has(Plant::CountsLostReplicas).then_some(Mistake::CountsLostReplicas)
}
