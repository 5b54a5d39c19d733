//! Properties that hold between any two steps of a replica, and between the replicas of a group. The simulator asserts them after every step.
//!
//! | id | property | TAPIR paper |
//! |---|---|---|
//! | IR1 | a normal replica is a member, and has the record of its view | 3.2.2 |
//! | IR2 | below its floor a replica is complete, and what it builds on comes before its view | [`floor`](super::floor) |
//! | IR3 | records are handed over to the leader of a view that has not started | 3.2.2 |
//! | IR4 | only a replica without its record asks which life it is | [`recovery`](super) |
//! | IR5 | whatever is recorded is in the index, open or ended, and nothing else is | 3.2.1 |
//! | IR6 | a view has one leader, and settles each operation once | 3.2.2 |
//! | IR7 | a floor is raised where f + 1 replicas have said that they are complete | [`floor`](super::floor) |
//! | IR8 | a replica lets nothing new take effect where it has said, in the same life, that it refuses | [`floor`](super::floor) |
//!
//! The first four are asserted after every step, the fifth after every so many, because it looks at the whole record. The others a
//! [`Witness`] finds out, to which all that replicas say and keep is shown. The word of a replica is durable, so that a crash takes
//! nothing of it back.

use std::collections::BTreeMap;

use quorate_core::invariant::Violation;
use quorate_core::{ReplicaIndex, ShardId, Timestamp, View};

use super::{Fact, Replica, Status};
use crate::Operations;
use crate::message::OperationId;
use crate::record::RecordPage;

impl<O: Operations> Replica<O> {
    /// IR1 to IR4.
    ///
    /// # Panics
    /// If one of them does not hold.
    pub fn assert_invariants(&self) {
        self.a_normal_replica_has_the_record_of_its_view();
        self.floors_lie_below_what_is_complete();
        self.records_are_gathered_for_a_view_to_come();
        self.only_the_lost_ask_for_lives();
    }

    /// IR5. Looks at the whole record.
    ///
    /// # Panics
    /// If it does not hold.
    pub fn assert_record(&self) {
        self.record.assert_sound();
    }

    fn a_normal_replica_has_the_record_of_its_view(&self) {
        let is_so = self.is_member() && self.view.epoch() >= self.since() && self.has_started();
        assert!(
            self.status != Status::Normal || is_so,
            "IR1: {:?} is normal in {:?} with the record of {:?}, in the group {:?} since {:?}",
            self.me,
            self.view,
            self.last_normal(),
            self.group,
            self.since()
        );
    }

    fn floors_lie_below_what_is_complete(&self) {
        assert!(
            self.floor <= self.complete && self.record.last_normal() <= Some(self.view),
            "IR2: the floor is {}, all is complete below {}, and the record of {:?} is that of {:?}",
            self.floor,
            self.complete,
            self.view,
            self.record.last_normal()
        );
    }

    fn records_are_gathered_for_a_view_to_come(&self) {
        let is_gathering = self.leader_of(self.view) == self.me && !self.has_started();
        assert!(
            self.change.gathered() == 0 || is_gathering && self.status != Status::Normal,
            "IR3: {} records are handed over to {:?}, which is {:?} in {:?}",
            self.change.gathered(),
            self.me,
            self.status,
            self.view
        );
    }

    fn only_the_lost_ask_for_lives(&self) {
        assert!(
            self.change.query.is_none() || self.status == Status::Recovering,
            "IR4: {:?} is {:?} and asks which life it is",
            self.me,
            self.status
        );
    }
}

/// A word of a replica that binds it, or others.
#[derive(Debug)]
pub enum Word<'a, O: Operations> {
    /// It lets nothing new take effect below.
    Refuses(Timestamp),
    /// It is complete below.
    Complete(Timestamp),
    /// Others are to raise their floors.
    RaisesFloor(Timestamp),
    /// A view starts with these entries.
    StartsView(View, &'a RecordPage<O>),
}

/// The words of the replicas of one group.
#[derive(Debug)]
pub struct Witness<O: Operations> {
    shard: ShardId,
    /// The fewest that have made a majority of the group so far.
    majority: usize,
    leaders: BTreeMap<View, ReplicaIndex>,
    settled: BTreeMap<(View, OperationId), O::Verdict>,
    complete: BTreeMap<ReplicaIndex, Timestamp>,
    refusing: BTreeMap<ReplicaIndex, Timestamp>,
}

impl<O: Operations> Witness<O> {
    /// Nothing was said in the group.
    pub fn new(shard: ShardId) -> Self {
        Witness {
            shard,
            majority: usize::MAX,
            leaders: BTreeMap::new(),
            settled: BTreeMap::new(),
            complete: BTreeMap::new(),
            refusing: BTreeMap::new(),
        }
    }

    /// A replica goes on that has lost its record, because its group has lost more than it survives: nothing that it has said binds it.
    pub fn begin_anew(&mut self, replica: ReplicaIndex) {
        self.refusing.remove(&replica);
    }

    /// So many replicas are a majority of the group, as one of them knows it.
    pub fn note_majority(&mut self, majority: usize) {
        self.majority = self.majority.min(majority);
    }

    /// The fewest that have made a majority of the group so far.
    pub fn majority(&self) -> usize {
        self.majority
    }

    /// A replica says something.
    pub fn hear(&mut self, from: ReplicaIndex, word: Word<'_, O>, found: &mut Vec<Violation>) {
        match word {
            Word::Refuses(below) => {
                let known = self.refusing.entry(from).or_default();
                *known = below.max(*known);
            }
            Word::Complete(below) => {
                let known = self.complete.entry(from).or_default();
                *known = below.max(*known);
            }
            Word::RaisesFloor(floor) => self.raises_floor(from, floor, found),
            Word::StartsView(view, page) => self.starts_view(from, view, page, found),
        }
    }

    /// A replica keeps a fact. With a new life begins one that has said nothing: it takes part in later views only, with what those
    /// that were complete before have handed over, and a search for a floor ends with its view.
    pub fn keep(&mut self, from: ReplicaIndex, fact: &Fact<O>, found: &mut Vec<Violation>) {
        let (id, operation, verdict) = match fact {
            Fact::ConsensusRecorded { id, operation, verdict } => (id, operation, verdict),
            Fact::LifeNoted { replica, .. } if *replica == from => {
                self.refusing.remove(&from);
                return;
            }
            _ => return,
        };
        let (at, refused) = (O::consensus_timestamp(operation), self.refusing.get(&from));
        if let Some(below) = refused.filter(|below| at < **below && O::is_favourable(verdict)) {
            let explain =
                format!("{from:?} gives {verdict:?} to {id} at {at}, and refuses what is below {below}");
            found.push(Violation::new("IR8", self.shard, explain).of(id.transaction));
        }
    }

    fn raises_floor(&mut self, from: ReplicaIndex, floor: Timestamp, found: &mut Vec<Violation>) {
        if floor == Timestamp::ZERO {
            return;
        }
        let others = self.complete.iter().filter(|(index, below)| **index != from && **below >= floor);
        let complete = 1 + others.count();
        if complete < self.majority {
            let explain = format!(
                "{from:?} has a floor raised to {floor}, below which {complete} are complete, of {}: {:?}",
                self.majority, self.complete
            );
            found.push(Violation::new("IR7", self.shard, explain));
        }
    }

    fn starts_view(
        &mut self,
        from: ReplicaIndex,
        view: View,
        page: &RecordPage<O>,
        found: &mut Vec<Violation>,
    ) {
        let leader = *self.leaders.entry(view).or_insert(from);
        if leader != from {
            let explain = format!("{view:?} is started by {from:?}, and was by {leader:?}");
            found.push(Violation::new("IR6", self.shard, explain));
        }
        for (transaction, entries) in &page.entries {
            for entry in &entries.consensus {
                let id = OperationId { transaction: *transaction, number: entry.number };
                let settled = self.settled.entry((view, id)).or_insert_with(|| entry.verdict.clone());
                if *settled != entry.verdict {
                    let explain = format!(
                        "{view:?} starts with {:?} for {id} at one replica, and {settled:?} at another",
                        entry.verdict
                    );
                    found.push(Violation::new("IR6", self.shard, explain).of(*transaction));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use quorate_core::{Ballot, ClientId, Epoch, GroupSize, TransactionId};

    use super::super::recovery::Query;
    use super::*;
    use crate::record::{ConsensusEntry, OperationEntries, State};
    use crate::tests::Words;

    const ONE: ReplicaIndex = ReplicaIndex(1);
    const TWO: ReplicaIndex = ReplicaIndex(2);
    const ID: TransactionId = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };

    fn replica() -> Replica<Words> {
        Replica::initialise(GroupSize::new(3).unwrap(), ONE, Duration::from_secs(1), 1_000)
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, ..Timestamp::ZERO }
    }

    /// One way to break a property of a replica.
    type Break = fn(&mut Replica<Words>);

    #[test]
    fn what_a_replica_breaks_is_noticed() {
        replica().assert_invariants();
        replica().assert_record();
        let broken: [(&str, Break); 9] = [
            ("IR1", |replica| replica.view = View(1)),
            ("IR1", |replica| replica.succession.present.since = Epoch(1)),
            ("IR1", |replica| replica.me = ReplicaIndex(7)),
            ("IR2", |replica| replica.floor = Timestamp { micros: 1, ..Timestamp::ZERO }),
            ("IR2", |replica| {
                (replica.status, replica.record) = (Status::ViewChanging, Default::default());
                replica.record.enter_lineage(None, View(9));
            }),
            ("IR3", |replica| replica.change.gather(TWO)),
            ("IR3", |replica| {
                (replica.status, replica.view) = (Status::ViewChanging, View(2));
                replica.change.gather(TWO);
            }),
            ("IR4", |replica| replica.change.query = Some(Query::new(1, 0))),
            ("IR5", |replica| replica.record.break_index(ID)),
        ];
        for (property, breaks) in broken {
            let mut replica = replica();
            breaks(&mut replica);
            let panic = catch_unwind(AssertUnwindSafe(|| {
                replica.assert_invariants();
                replica.assert_record();
            }));
            let panic = panic.expect_err(property);
            let told = panic.downcast_ref::<String>().expect("it says why");
            assert!(told.starts_with(property), "{property}: {told}");
        }
    }

    /// A page in which an operation has a verdict.
    fn page(verdict: char) -> RecordPage<Words> {
        let state = State::Finalized(Ballot::ORIGINAL);
        let entry = ConsensusEntry { number: 1, operation: "x", verdict, state };
        RecordPage { entries: vec![(ID, OperationEntries { inconsistent: None, consensus: vec![entry] })] }
    }

    fn properties(found: &[Violation]) -> Vec<&'static str> {
        found.iter().map(|violation| violation.property).collect()
    }

    /// A replica that starts a view with such a record, and what is found.
    type Start<'a> = (&'a str, ReplicaIndex, u64, &'a RecordPage<Words>, &'a [&'a str]);

    /// Below what replicas have said that they are complete, and what is found once one raises the floor.
    type Raise<'a> = (&'a str, &'a [(ReplicaIndex, u64)], &'a [&'a str]);

    #[test]
    fn views_that_contradict_each_other_are_noticed() {
        let (yes, no) = (page('y'), page('n'));
        let table: [Start<'_>; 5] = [
            ("the same once more", ONE, 1, &yes, &[]),
            ("another in a later view", TWO, 2, &no, &[]),
            ("another verdict", ONE, 1, &no, &["IR6"]),
            ("another leader", TWO, 1, &yes, &["IR6"]),
            ("both", TWO, 1, &no, &["IR6", "IR6"]),
        ];
        for (what, from, view, second, expected) in table {
            let mut witness = Witness::new(ShardId(1));
            let mut found = Vec::new();
            witness.hear(ONE, Word::StartsView(View(1), &yes), &mut found);
            assert!(found.is_empty());
            witness.hear(from, Word::StartsView(View(view), second), &mut found);
            assert_eq!(properties(&found), expected, "{what}");
        }
    }

    #[test]
    fn floors_that_too_few_have_reached_are_noticed() {
        let table: [Raise<'_>; 5] = [
            ("its own word is not enough", &[], &["IR7"]),
            ("another has not come so far", &[(TWO, 9)], &["IR7"]),
            ("its own word counts once", &[(ONE, 10)], &["IR7"]),
            ("another has", &[(TWO, 10)], &[]),
            ("and has not gone back", &[(TWO, 12), (TWO, 3)], &[]),
        ];
        for (what, complete, expected) in table {
            let mut witness = Witness::<Words>::new(ShardId(1));
            witness.note_majority(2);
            witness.note_majority(3);
            let mut found = Vec::new();
            for (from, below) in complete {
                witness.hear(*from, Word::Complete(at(*below)), &mut found);
            }
            witness.hear(ONE, Word::RaisesFloor(at(10)), &mut found);
            assert_eq!(properties(&found), expected, "{what}");
        }
    }

    #[test]
    fn what_is_let_in_below_what_is_refused_is_noticed() {
        let fact = |verdict| Fact::ConsensusRecorded {
            id: OperationId { transaction: ID, number: 1 },
            operation: "x",
            verdict,
        };
        let mut witness = Witness::<Words>::new(ShardId(1));
        let mut found = Vec::new();
        witness.keep(ONE, &fact('y'), &mut found);
        witness.hear(ONE, Word::Refuses(at(0)), &mut found);
        witness.keep(ONE, &fact('y'), &mut found);
        assert!(found.is_empty(), "it lies no lower: {found:?}");
        witness.hear(ONE, Word::Refuses(at(1)), &mut found);
        witness.keep(TWO, &fact('y'), &mut found);
        witness.keep(ONE, &fact('n'), &mut found);
        assert!(found.is_empty(), "{found:?}");
        witness.keep(ONE, &fact('y'), &mut found);
        assert_eq!(properties(&found), ["IR8"]);
        assert_eq!(found[0].transaction, Some(ID));
        // A loss of another does not release it, and a loss of its own does.
        found.clear();
        witness.keep(ONE, &Fact::LifeNoted { replica: TWO, life: 1 }, &mut found);
        witness.keep(ONE, &fact('y'), &mut found);
        assert_eq!(properties(&found), ["IR8"]);
        found.clear();
        witness.keep(ONE, &Fact::LifeNoted { replica: ONE, life: 1 }, &mut found);
        witness.keep(ONE, &fact('y'), &mut found);
        assert!(found.is_empty(), "{found:?}");
        // Nor does it once it goes on asleep.
        witness.hear(ONE, Word::Refuses(at(1)), &mut found);
        witness.begin_anew(TWO);
        witness.keep(ONE, &fact('y'), &mut found);
        assert_eq!(properties(&found), ["IR8"]);
        witness.begin_anew(ONE);
        witness.keep(ONE, &fact('y'), &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
