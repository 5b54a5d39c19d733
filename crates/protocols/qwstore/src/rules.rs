//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

use quorate_ir::Mistake;

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plant {
    /// Q1: a put counts as complete as soon as one replica has recorded it.
    OneReplicaSuffices,
    /// Q2: a put that arrives below the floor is acknowledged as if it had been recorded.
    LatePutsTaken,
    /// Q3: a replica says that it has recorded a put before that is on its disk.
    ReplyBeforeSync,
    /// Q4: replicas do not tell each other what they lack.
    NobodyCompares,
    /// Q5: a replica raises its floor without asking anybody.
    CollectsAlone,
    /// Q6: a replica with an empty disk begins as if its group were new.
    EmptyDiskBeginsAnew,
    /// Q7: a client gives two puts of a key the same timestamp.
    RepeatedTimestamps,
    /// Q8: a replica that has lost its record counts in a view change.
    CountsLostReplicas,
    /// Q9: nothing is ever forgotten.
    CollectsNothing,
    /// Q10: a client that comes back gives its puts the ids of earlier ones.
    ReusedClientIds,
    /// Q11: whoever looks for a floor does not compare again what it records itself before it refuses.
    ComparesOnce,
}

impl Plant {
    /// Every plant there is.
    pub const ALL: [Plant; 11] = [
        Plant::OneReplicaSuffices,
        Plant::LatePutsTaken,
        Plant::ReplyBeforeSync,
        Plant::NobodyCompares,
        Plant::CollectsAlone,
        Plant::EmptyDiskBeginsAnew,
        Plant::RepeatedTimestamps,
        Plant::CountsLostReplicas,
        Plant::CollectsNothing,
        Plant::ReusedClientIds,
        Plant::ComparesOnce,
    ];

    #[rustfmt::skip]
    const fn listed(self) -> (&'static str, &'static str) {
        match self {
            Plant::OneReplicaSuffices => ("Q1", "a put counts as complete as soon as one replica has recorded it"),
            Plant::LatePutsTaken => ("Q2", "a put that arrives below the floor is acknowledged and not recorded"),
            Plant::ReplyBeforeSync => ("Q3", "a replica says that it has recorded a put before that is on its disk"),
            Plant::NobodyCompares => ("Q4", "replicas do not tell each other what they lack"),
            Plant::CollectsAlone => ("Q5", "a replica raises its floor without asking anybody"),
            Plant::EmptyDiskBeginsAnew => ("Q6", "a replica with an empty disk begins as if its group were new"),
            Plant::RepeatedTimestamps => ("Q7", "a client gives two puts of a key the same timestamp"),
            Plant::CountsLostReplicas => ("Q8", "a replica that has lost its record counts in a view change"),
            Plant::CollectsNothing => ("Q9", "nothing is ever forgotten"),
            Plant::ReusedClientIds => ("Q10", "a client that comes back gives its puts the ids of earlier ones"),
            Plant::ComparesOnce => ("Q11", "who looks for a floor does not compare again what it records before it refuses"),
        }
    }

    /// The id.
    pub const fn id(self) -> &'static str {
        self.listed().0
    }

    /// What goes wrong, in a sentence.
    pub const fn what(self) -> &'static str {
        self.listed().1
    }
}

/// The rules that a machine follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    plant: Option<Plant>,
}

impl Rules {
    /// The rules that keep the promises.
    pub const SOUND: Rules = Rules { plant: None };

    /// The rules with a bug. For tests and the simulator only.
    pub const fn planted(plant: Plant) -> Rules {
        Rules { plant: Some(plant) }
    }

    /// True if this bug is planted.
    pub fn has(self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// The mistake that inconsistent replication is to make.
    pub(crate) fn mistake(self) -> Option<Mistake> {
        self.has(Plant::CountsLostReplicas).then_some(Mistake::CountsLostReplicas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plant_has_an_id_of_its_own_and_they_ascend() {
        let number = |plant: &Plant| plant.id()[1..].parse::<u32>().unwrap();
        assert!(Plant::ALL.is_sorted_by(|one, other| number(one) < number(other)));
        assert!(Plant::ALL.iter().all(|plant| !plant.what().is_empty()));
    }
}
