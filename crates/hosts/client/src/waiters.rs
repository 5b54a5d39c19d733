//! The calls that wait for the coordinator, and which event ends which wait.
//!
//! Each open transaction has a slot. A call never waits longer than its slot lives: when the transaction finishes, all
//! its waiting calls are woken, and when the host ends, all calls of all transactions are. To be woken without an
//! answer means to look into [`Waiters::failure`].

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::command::{
    Begun, Committed, Event, Executed, Failure, Member, Milestone, NotExecuted, NotReached, Outcome,
    SetAnswer, Shown,
};
use quorate_core::hash::{FixedMap, FixedSet};
use quorate_core::topology::{Durability, Keyspace, Shard};
use quorate_core::{Key, KeyRange, KeyspaceId, NodeId, ReplicaId, ShardId, TransactionId, Value};
use quorate_wire::catalogue::SYSTEM_KEYSPACE_ID;
use quorate_wire::rights::Awaited;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A page of a scan, as the coordinator gives it: keys and values, and the first key that is not covered.
pub(crate) type ScanAnswer = (Vec<(Key, Value)>, Option<Key>);

/// A page of a counting set, as the coordinator gives it: elements and counts, and the range that is left.
pub(crate) type ElementsAnswer = (Vec<(Key, i64)>, Option<KeyRange>);

/// Where a container is.
#[derive(Debug)]
pub(crate) struct Located {
    /// The preferred site.
    pub(crate) preferred: ShardId,
    /// The local sites that have its objects.
    pub(crate) replicas: Vec<ShardId>,
}
/// A page of a counting set with the registers that its elements name, as the coordinator gives it, and the range that is left.
pub(crate) type MembersAnswer = (Vec<Member>, Option<KeyRange>);

/// How a transaction ended, as the coordinator says.
pub(crate) type FinishAnswer = Result<Committed, Failure>;

/// The value of a key, and how far its version has come: see [`Transaction::get_marked`](crate::Transaction::get_marked).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The value; none if the key is absent.
    pub value: Option<Value>,
    /// False if the version is visible everywhere: a transaction that reads the key, at any site, reads it or a later one. True if it may not be yet.
    pub is_in_flight: bool,
}

/// The result of a one-round transaction, as the coordinator says.
pub(crate) type ExecutedAnswer = Result<Executed, NotExecuted>;

/// Whether a transaction has reached a milestone, as the coordinator says.
pub(crate) type MilestoneAnswer = Result<(), NotReached>;

/// The outcome of a transaction; none if it could not be found out in time.
pub(crate) type OutcomeAnswer = Result<Option<Outcome>, Forgotten>;

/// The outcome of a transaction is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forgotten;

/// All calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    slots: FixedMap<TransactionId, Slot>,
    resolving: FixedMap<TransactionId, Vec<oneshot::Sender<OutcomeAnswer>>>,
    milestones: FixedMap<(TransactionId, Milestone), Vec<oneshot::Sender<MilestoneAnswer>>>,
    /// One-round transactions: nothing is asked of them but what they come to.
    executing: FixedMap<TransactionId, oneshot::Sender<ExecutedAnswer>>,
    /// Until when a keyspace wants no new transactions.
    busy: FixedMap<KeyspaceId, Instant>,
    /// Keyspaces of which a later membership was heard than the one that is known here.
    outdated: FixedSet<KeyspaceId>,
    /// Why replicas will not serve before an operator acts, as their nodes have said.
    problems: FixedMap<ReplicaId, (NodeId, String)>,
    /// The nodes whose disks have no room for writes, and what they say of it.
    without_space: BTreeMap<NodeId, String>,
    /// The transactions that nodes have refused for want of a right, and in which words, until their calls have asked.
    denied: FixedMap<TransactionId, String>,
    /// The words in which a node has just refused a question: what fails now fails for that.
    denying: Option<String>,
    closed: bool,
}

/// The calls of one transaction that wait for an answer, and how it ended if it has.
#[derive(Debug, Default)]
struct Slot {
    gets: Vec<(Key, oneshot::Sender<Option<Value>>)>,
    scan: Option<oneshot::Sender<ScanAnswer>>,
    marks: Vec<(Key, oneshot::Sender<Marked>)>,
    counts: Vec<(Key, Key, oneshot::Sender<i64>)>,
    elements: Option<oneshot::Sender<ElementsAnswer>>,
    members: Option<oneshot::Sender<MembersAnswer>>,
    located: Option<oneshot::Sender<Located>>,
    begun: Option<Begun>,
    shown: Option<oneshot::Sender<Shown>>,
    finish: Option<oneshot::Sender<FinishAnswer>>,
    failure: Option<Failure>,
}

/// Why a transaction cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// As many are open as the limit allows.
    TooMany,
    /// The cluster wants no new transactions for so long.
    Busy(Duration),
    /// The replicas of the keyspace are others by now.
    Outdated,
    /// The host has ended.
    Closed,
}

impl Waiters {
    /// Makes room for the answers to a transaction, if fewer than `open_max` are open.
    pub(crate) fn open(
        &mut self,
        transaction: TransactionId,
        keyspace: KeyspaceId,
        open_max: usize,
    ) -> Result<(), OpenError> {
        self.require_room(keyspace, open_max)?;
        self.slots.insert(transaction, Slot::default());
        Ok(())
    }

    /// A call waits for a one-round transaction, if fewer than `open_max` are open.
    pub(crate) fn expect_executed(
        &mut self,
        transaction: TransactionId,
        keyspace: KeyspaceId,
        open_max: usize,
        sender: oneshot::Sender<ExecutedAnswer>,
    ) -> Result<(), OpenError> {
        self.require_room(keyspace, open_max)?;
        self.executing.insert(transaction, sender);
        Ok(())
    }

    /// A call waits for what a one-round transaction has come to, which is not under way any more. False if the host has ended.
    pub(crate) fn expect_recalled(
        &mut self,
        transaction: TransactionId,
        sender: oneshot::Sender<ExecutedAnswer>,
    ) -> bool {
        if !self.closed {
            self.executing.insert(transaction, sender);
        }
        !self.closed
    }

    /// A further transaction may begin.
    fn require_room(&mut self, keyspace: KeyspaceId, open_max: usize) -> Result<(), OpenError> {
        if self.closed {
            return Err(OpenError::Closed);
        }
        if let Some(until) = self.busy.get(&keyspace) {
            match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => self.busy.remove(&keyspace),
                wait => return Err(OpenError::Busy(wait)),
            };
        }
        if self.is_outdated(keyspace) {
            return Err(OpenError::Outdated);
        }
        if self.slots.len() + self.executing.len() >= open_max {
            return Err(OpenError::TooMany);
        }
        Ok(())
    }

    /// True if the membership of a keyspace has changed, and who belongs to it now is not known.
    pub(crate) fn is_outdated(&self, keyspace: KeyspaceId) -> bool {
        self.outdated.contains(&keyspace)
    }

    /// The present membership of a keyspace is known.
    pub(crate) fn set_current(&mut self, keyspace: KeyspaceId) {
        self.outdated.remove(&keyspace);
    }

    /// A keyspace wants no new transactions until then.
    pub(crate) fn set_busy(&mut self, keyspace: KeyspaceId, until: Instant) {
        let known = self.busy.entry(keyspace).or_insert(until);
        *known = until.max(*known);
    }

    /// A replica of this node will not serve before an operator acts; or it serves again.
    pub(crate) fn set_problem(&mut self, node: NodeId, replica: ReplicaId, problem: Option<String>) {
        match problem {
            Some(problem) => _ = self.problems.insert(replica, (node, problem)),
            None => _ = self.problems.remove(&replica),
        }
    }

    /// The connection to a node is gone: what it has said of its replicas it will say again.
    pub(crate) fn forget_problems(&mut self, node: NodeId) {
        self.problems.retain(|_, (of, _)| *of != node);
        self.without_space.remove(&node);
    }

    /// Whether the disk of a node has room for writes, as it has said last.
    pub(crate) fn set_space(&mut self, node: NodeId, problem: Option<String>) {
        match problem {
            Some(problem) => _ = self.without_space.insert(node, problem),
            None => _ = self.without_space.remove(&node),
        }
    }

    /// The shards of a keyspace that take no writes, because the disks of too many of their nodes have no room; and what the first
    /// of these nodes says of it.
    pub(crate) fn without_space(&self, keyspace: &Keyspace) -> Vec<(ShardId, String)> {
        // Writes into the built-in keyspace are small, and some of them make room.
        let is_kept = keyspace.durability == Durability::Sync && keyspace.id != SYSTEM_KEYSPACE_ID;
        if self.without_space.is_empty() || !is_kept {
            return Vec::new();
        }
        let needs_room = |shard: &Shard| {
            let nodes = |node| self.without_space.contains_key(&node);
            let first = shard.replicas.iter().find_map(|node| self.without_space.get(node))?;
            shard.needs_some_of(nodes).then(|| (shard.id, first.clone()))
        };
        keyspace.groups().filter_map(needs_room).collect()
    }

    /// Why a replica will not serve before an operator acts, if its node has said so.
    pub(crate) fn problem(&self, replica: ReplicaId) -> Option<&String> {
        self.problems.get(&replica).map(|(_, problem)| problem)
    }

    /// The replicas that will not serve before an operator acts, of those shards of a keyspace that cannot do without
    /// them.
    pub(crate) fn unserved(&self, keyspace: &Keyspace) -> Vec<ReplicaId> {
        let mut unserved = Vec::new();
        if self.problems.is_empty() {
            return unserved;
        }
        for shard in keyspace.groups() {
            let missing: Vec<_> =
                shard.replica_ids().filter(|replica| self.problems.contains_key(replica)).collect();
            if missing.len() * 2 > shard.replicas.len() {
                unserved.extend(missing);
            }
        }
        unserved
    }

    /// Forgets a transaction: answers to it that are still to come go nowhere.
    pub(crate) fn forget(&mut self, transaction: TransactionId) {
        self.slots.remove(&transaction);
        self.executing.remove(&transaction);
        self.denied.remove(&transaction);
    }

    /// A node refuses what a transaction asks for, since the client has not the right. Its calls are woken.
    pub(crate) fn deny(&mut self, transaction: TransactionId, reason: String) {
        let awaited = self.awaited(transaction);
        if awaited != Awaited::Milestones {
            self.denied.insert(transaction, reason);
        }
        awaited.events(transaction).into_iter().for_each(|event| self.deliver(event));
    }

    /// The thing that calls wait for of a transaction.
    pub(crate) fn awaited(&self, transaction: TransactionId) -> Awaited {
        // One that has failed before it was asked to commit keeps its slot while somebody asks what became of it.
        if self.resolving.contains_key(&transaction) {
            Awaited::Outcome
        } else if self.slots.contains_key(&transaction) {
            Awaited::End
        } else if self.executing.contains_key(&transaction) {
            Awaited::Result
        } else {
            Awaited::Milestones
        }
    }

    /// Calls that fail from here on fail because a node has refused them in these words.
    pub(crate) fn begin_denying(&mut self, reason: String) {
        self.denying = Some(reason);
    }

    /// It does so no more.
    pub(crate) fn end_denying(&mut self) {
        self.denying = None;
    }

    /// The words in which a transaction was refused for want of a right; none if it was not.
    pub(crate) fn denial(&self, transaction: TransactionId) -> Option<String> {
        self.denied.get(&transaction).cloned()
    }

    /// A call waits for a key. False, and the call is woken at once, if the transaction is over.
    pub(crate) fn expect_get(
        &mut self,
        transaction: TransactionId,
        key: Key,
        sender: oneshot::Sender<Option<Value>>,
    ) -> bool {
        self.live(transaction).map(|slot| slot.gets.push((key, sender))).is_some()
    }

    /// A call waits for a key and how far its version has come.
    pub(crate) fn expect_marked(
        &mut self,
        transaction: TransactionId,
        key: Key,
        sender: oneshot::Sender<Marked>,
    ) -> bool {
        self.live(transaction).map(|slot| slot.marks.push((key, sender))).is_some()
    }

    /// A call waits for a page of a range; at most one at a time per transaction.
    pub(crate) fn expect_scan(
        &mut self,
        transaction: TransactionId,
        sender: oneshot::Sender<ScanAnswer>,
    ) -> bool {
        self.live(transaction).map(|slot| slot.scan = Some(sender)).is_some()
    }

    /// A call waits for the count of an element of a set.
    pub(crate) fn expect_count(
        &mut self,
        transaction: TransactionId,
        (set, element): (Key, Key),
        sender: oneshot::Sender<i64>,
    ) -> bool {
        self.live(transaction).map(|slot| slot.counts.push((set, element, sender))).is_some()
    }

    /// A call waits for a page of a set; at most one at a time per transaction.
    pub(crate) fn expect_elements(
        &mut self,
        transaction: TransactionId,
        sender: oneshot::Sender<ElementsAnswer>,
    ) -> bool {
        self.live(transaction).map(|slot| slot.elements = Some(sender)).is_some()
    }

    /// A call waits for a page of a set and the registers that it names; at most one at a time per transaction.
    pub(crate) fn expect_members(
        &mut self,
        transaction: TransactionId,
        sender: oneshot::Sender<MembersAnswer>,
    ) -> bool {
        self.live(transaction).map(|slot| slot.members = Some(sender)).is_some()
    }

    /// A call waits to hear where a container is; at most one at a time per transaction.
    pub(crate) fn expect_located(
        &mut self,
        transaction: TransactionId,
        sender: oneshot::Sender<Located>,
    ) -> bool {
        self.live(transaction).map(|slot| slot.located = Some(sender)).is_some()
    }

    /// A call waits for the end of a transaction.
    pub(crate) fn expect_finish(
        &mut self,
        transaction: TransactionId,
        sender: oneshot::Sender<FinishAnswer>,
    ) -> bool {
        self.live(transaction).map(|slot| slot.finish = Some(sender)).is_some()
    }

    /// A call waits to be shown the result of a transaction, and for its end: at most one at a time per transaction.
    pub(crate) fn expect_shown(
        &mut self,
        transaction: TransactionId,
        shown: oneshot::Sender<Shown>,
        finish: oneshot::Sender<FinishAnswer>,
    ) -> bool {
        let slot = self.live(transaction);
        slot.map(|slot| (slot.shown, slot.finish) = (Some(shown), Some(finish))).is_some()
    }

    /// The snapshot of an open transaction, once it has one.
    pub(crate) fn begun(&self, transaction: TransactionId) -> Option<Begun> {
        self.slots.get(&transaction).and_then(|slot| slot.begun)
    }

    /// A call waits for what became of a transaction.
    pub(crate) fn expect_outcome(
        &mut self,
        transaction: TransactionId,
        sender: oneshot::Sender<OutcomeAnswer>,
    ) -> bool {
        if !self.closed {
            self.resolving.entry(transaction).or_default().push(sender);
        }
        !self.closed
    }

    /// A call waits until a transaction has reached a milestone.
    pub(crate) fn expect_milestone(
        &mut self,
        transaction: TransactionId,
        milestone: Milestone,
        sender: oneshot::Sender<MilestoneAnswer>,
    ) -> bool {
        if !self.closed {
            self.milestones.entry((transaction, milestone)).or_default().push(sender);
        }
        !self.closed
    }

    /// How a transaction ended before it was asked to; none if the host has ended.
    pub(crate) fn failure(&self, transaction: TransactionId) -> Option<Failure> {
        self.slots.get(&transaction).and_then(|slot| slot.failure.clone())
    }

    fn live(&mut self, transaction: TransactionId) -> Option<&mut Slot> {
        self.slots.get_mut(&transaction).filter(|slot| slot.failure.is_none())
    }

    /// Hands an event of the coordinator to the call that waits for it. A call that no longer waits misses nothing.
    pub(crate) fn deliver(&mut self, event: Event) {
        match event {
            Event::Executed { transaction, result } => {
                if let (Err(_), Some(reason)) = (&result, &self.denying) {
                    self.denied.insert(transaction, reason.clone());
                }
                if let Some(sender) = self.executing.remove(&transaction) {
                    let _ = sender.send(result);
                }
            }
            Event::Got { transaction, key, value } => {
                let Some(slot) = self.slots.get_mut(&transaction) else { return };
                if let Some(position) = slot.gets.iter().position(|(wanted, _)| *wanted == key) {
                    let _ = slot.gets.swap_remove(position).1.send(value);
                }
            }
            Event::Begun { transaction, begun } => {
                if let Some(slot) = self.slots.get_mut(&transaction) {
                    slot.begun = Some(begun);
                }
            }
            Event::Shown { transaction, shown } => {
                if let Some(sender) = self.slots.get_mut(&transaction).and_then(|slot| slot.shown.take()) {
                    let _ = sender.send(shown);
                }
            }
            Event::Marked { transaction, key, value, is_in_flight } => {
                let Some(slot) = self.slots.get_mut(&transaction) else { return };
                if let Some(position) = slot.marks.iter().position(|(wanted, _)| *wanted == key) {
                    let _ = slot.marks.swap_remove(position).1.send(Marked { value, is_in_flight });
                }
            }
            Event::Scanned { transaction, entries, next } => {
                if let Some(sender) = self.slots.get_mut(&transaction).and_then(|slot| slot.scan.take()) {
                    let _ = sender.send((entries, next));
                }
            }
            Event::Located { transaction, preferred, replicas, .. } => {
                if let Some(sender) = self.slots.get_mut(&transaction).and_then(|slot| slot.located.take()) {
                    let _ = sender.send(Located { preferred, replicas });
                }
            }
            Event::Set { transaction, answer } => self.deliver_set(transaction, answer),
            Event::Finished { transaction, result } => self.deliver_end(transaction, result),
            Event::Outdated { keyspace } => {
                self.outdated.insert(keyspace);
            }
            Event::Resolved { transaction, outcome } => {
                for sender in self.resolving.remove(&transaction).into_iter().flatten() {
                    let _ = sender.send(Ok(outcome));
                }
            }
            Event::Milestone { transaction, milestone, result } => {
                for sender in self.milestones.remove(&(transaction, milestone)).into_iter().flatten() {
                    let _ = sender.send(result.clone());
                }
            }
            // No call waits for it.
            Event::Disagreement { .. } => {}
            Event::Forgotten { transaction } => {
                for sender in self.resolving.remove(&transaction).into_iter().flatten() {
                    let _ = sender.send(Err(Forgotten));
                }
            }
        }
    }

    fn deliver_set(&mut self, transaction: TransactionId, answer: SetAnswer) {
        let Some(slot) = self.slots.get_mut(&transaction) else { return };
        match answer {
            SetAnswer::Count { set, element, count } => {
                let is_wanted = |(of, wanted, _): &(Key, Key, _)| *of == set && *wanted == element;
                if let Some(position) = slot.counts.iter().position(is_wanted) {
                    let _ = slot.counts.swap_remove(position).2.send(count);
                }
            }
            SetAnswer::Elements { counts, rest, .. } => {
                if let Some(sender) = slot.elements.take() {
                    let _ = sender.send((counts, rest));
                }
            }
            SetAnswer::Members { members, rest, .. } => {
                if let Some(sender) = slot.members.take() {
                    let _ = sender.send((members, rest));
                }
            }
        }
    }

    fn deliver_end(&mut self, transaction: TransactionId, result: FinishAnswer) {
        let Some(slot) = self.slots.get_mut(&transaction) else { return };
        if let (Err(_), Some(reason)) = (&result, &self.denying) {
            self.denied.insert(transaction, reason.clone());
        }
        match slot.finish.take() {
            Some(sender) => {
                self.slots.remove(&transaction);
                let _ = sender.send(result);
            }
            None => {
                // The first end counts. A request to the transaction afterwards, a write too, is answered with another.
                slot.failure.get_or_insert(result.err().unwrap_or(Failure::Aborted));
                slot.gets.clear();
                slot.marks.clear();
                slot.scan = None;
                slot.counts.clear();
                slot.elements = None;
                slot.members = None;
            }
        }
    }

    /// The host ends: every waiting call is woken, and none can wait any more.
    pub(crate) fn close(&mut self) {
        *self = Waiters { closed: true, ..Waiters::default() };
    }

    /// How many transactions are open.
    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        self.slots.len() + self.executing.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::topology::{Durability, Isolation, Shard};
    use quorate_core::{ClientId, ReplicaIndex, ShardId};

    const KEYSPACE: KeyspaceId = KeyspaceId(1);

    fn transaction(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn got(key: &'static str, value: &'static str) -> Event {
        Event::Got { transaction: transaction(1), key: Key::from(key), value: Some(Value::from(value)) }
    }

    #[test]
    fn a_denial_wakes_the_call_that_waits_and_a_question_for_an_outcome_before_all() {
        let mut waiters = Waiters::default();
        assert_eq!(waiters.awaited(transaction(1)), Awaited::Milestones);
        waiters.deny(transaction(1), "no right".to_owned());
        assert_eq!(waiters.denial(transaction(1)), None, "no call of it waits");

        let (sender, mut executed) = oneshot::channel();
        waiters.expect_executed(transaction(2), KEYSPACE, 10, sender).unwrap();
        assert_eq!(waiters.awaited(transaction(2)), Awaited::Result);
        waiters.deny(transaction(2), "no right".to_owned());
        assert_eq!(executed.try_recv().unwrap(), Err(NotExecuted::Failed(Failure::Aborted)));

        waiters.open(transaction(1), KEYSPACE, 10).unwrap();
        assert_eq!(waiters.awaited(transaction(1)), Awaited::End);
        let (sender, mut outcome) = oneshot::channel();
        assert!(waiters.expect_outcome(transaction(1), sender));
        assert_eq!(waiters.awaited(transaction(1)), Awaited::Outcome);
        waiters.deny(transaction(1), "no right".to_owned());
        assert_eq!((outcome.try_recv().unwrap(), waiters.failure(transaction(1))), (Ok(None), None));
        waiters.deny(transaction(1), "no right".to_owned());
        assert_eq!(waiters.failure(transaction(1)), Some(Failure::Aborted));
        assert_eq!(waiters.denial(transaction(1)).as_deref(), Some("no right"));
    }

    #[test]
    fn an_answer_reaches_the_call_that_asked_for_its_key() {
        let mut waiters = Waiters::default();
        waiters.open(transaction(1), KEYSPACE, 10).unwrap();
        let (sender_a, mut a) = oneshot::channel();
        let (sender_b, mut b) = oneshot::channel();
        assert!(waiters.expect_get(transaction(1), Key::from("a"), sender_a));
        assert!(waiters.expect_get(transaction(1), Key::from("b"), sender_b));
        waiters.deliver(got("b", "2"));
        assert_eq!(b.try_recv().unwrap(), Some(Value::from("2")));
        assert!(a.try_recv().is_err());
        waiters.deliver(got("a", "1"));
        assert_eq!(a.try_recv().unwrap(), Some(Value::from("1")));
        waiters.deliver(got("a", "again"));
    }

    #[test]
    fn a_transaction_that_fails_while_it_reads_wakes_its_calls_and_remembers_why() {
        let mut waiters = Waiters::default();
        waiters.open(transaction(1), KEYSPACE, 10).unwrap();
        let (sender, mut receiver) = oneshot::channel();
        waiters.expect_get(transaction(1), Key::from("a"), sender);
        let failure = Failure::Unavailable { missing: Vec::new() };
        waiters.deliver(Event::Finished { transaction: transaction(1), result: Err(failure.clone()) });
        assert_eq!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(waiters.failure(transaction(1)), Some(failure));
        let (sender, mut receiver) = oneshot::channel();
        assert!(!waiters.expect_finish(transaction(1), sender), "nothing may be asked of it any more");
        assert_eq!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }

    #[test]
    fn what_is_asked_of_a_transaction_that_has_failed_does_not_hide_why() {
        let mut waiters = Waiters::default();
        waiters.open(transaction(1), KEYSPACE, 10).unwrap();
        let not_open = Failure::Invalid(quorate_core::command::Invalid::NotOpen(transaction(1)));
        for failure in [Failure::Conflict, not_open] {
            waiters.deliver(Event::Finished { transaction: transaction(1), result: Err(failure) });
        }
        assert_eq!(waiters.failure(transaction(1)), Some(Failure::Conflict), "it may be tried again");
    }

    #[test]
    fn a_transaction_that_has_ended_as_it_was_asked_to_is_not_open_any_more() {
        let mut waiters = Waiters::default();
        waiters.open(transaction(1), KEYSPACE, 10).unwrap();
        let (sender, mut receiver) = oneshot::channel();
        assert!(waiters.expect_finish(transaction(1), sender));
        waiters.deliver(Event::Finished { transaction: transaction(1), result: Err(Failure::Conflict) });
        assert_eq!(receiver.try_recv(), Ok(Err(Failure::Conflict)));
        assert_eq!(waiters.open_count(), 0);
    }

    #[test]
    fn open_transactions_are_bounded() {
        let mut waiters = Waiters::default();
        waiters.open(transaction(1), KEYSPACE, 2).unwrap();
        waiters.open(transaction(2), KEYSPACE, 2).unwrap();
        assert_eq!(waiters.open(transaction(3), KEYSPACE, 2), Err(OpenError::TooMany));
        waiters.forget(transaction(1));
        waiters.open(transaction(3), KEYSPACE, 2).unwrap();
    }

    #[test]
    fn nothing_begins_under_a_membership_that_is_over() {
        let mut waiters = Waiters::default();
        waiters.deliver(Event::Outdated { keyspace: KEYSPACE });
        assert_eq!(waiters.open(transaction(1), KEYSPACE, 2), Err(OpenError::Outdated));
        waiters.set_current(KEYSPACE);
        waiters.open(transaction(1), KEYSPACE, 2).unwrap();
    }

    #[test]
    fn a_shard_is_unserved_once_it_has_no_majority_left() {
        let shard = |id| Shard::new(ShardId(id), (0..3).map(NodeId).collect());
        let keyspace = Keyspace::new(
            KEYSPACE,
            "accounts",
            Isolation::Strict,
            Durability::Sync,
            vec![shard(1), shard(2)],
        );
        let replica = |shard, index| ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) };
        let mut waiters = Waiters::default();
        for (shard, index) in [(1, 0), (2, 1), (2, 2)] {
            waiters.set_problem(NodeId(index.into()), replica(shard, index), Some("it is lost".to_owned()));
        }
        assert_eq!(waiters.unserved(&keyspace), [replica(2, 1), replica(2, 2)]);
        waiters.set_problem(NodeId(1), replica(2, 1), None);
        assert_eq!(waiters.unserved(&keyspace), []);
        waiters.forget_problems(NodeId(2));
        assert_eq!((waiters.problem(replica(2, 2)), waiters.problem(replica(1, 0)).is_some()), (None, true));
    }

    #[test]
    fn a_shard_takes_no_writes_once_too_few_of_its_nodes_have_room() {
        let shard = |id, nodes: [u16; 3]| Shard::new(ShardId(id), nodes.map(NodeId).to_vec());
        let mut keyspace = Keyspace::new(
            KEYSPACE,
            "accounts",
            Isolation::Strict,
            Durability::Sync,
            vec![shard(1, [0, 1, 2]), shard(2, [2, 3, 4])],
        );
        let mut waiters = Waiters::default();
        waiters.set_space(NodeId(2), Some("node2 is nearly full".to_owned()));
        assert_eq!(waiters.without_space(&keyspace), []);
        waiters.set_space(NodeId(3), Some("node3 is nearly full".to_owned()));
        assert_eq!(waiters.without_space(&keyspace), [(ShardId(2), "node2 is nearly full".to_owned())]);
        keyspace.durability = Durability::Memory;
        assert_eq!(waiters.without_space(&keyspace), []);
        keyspace.durability = Durability::Sync;
        waiters.set_space(NodeId(2), None);
        assert_eq!(waiters.without_space(&keyspace), []);
        waiters.set_space(NodeId(2), Some("node2 is nearly full".to_owned()));
        waiters.forget_problems(NodeId(3));
        assert_eq!(waiters.without_space(&keyspace), []);
    }

    #[test]
    fn closing_wakes_everybody_and_takes_nobody_in() {
        let mut waiters = Waiters::default();
        waiters.open(transaction(1), KEYSPACE, 2).unwrap();
        let (sender, mut finish) = oneshot::channel();
        waiters.expect_finish(transaction(1), sender);
        let (sender, mut outcome) = oneshot::channel();
        waiters.expect_outcome(transaction(9), sender);
        waiters.close();
        assert!(finish.try_recv().is_err() && outcome.try_recv().is_err());
        assert_eq!(waiters.open(transaction(2), KEYSPACE, 2), Err(OpenError::Closed));
        let (sender, _receiver) = oneshot::channel();
        assert!(!waiters.expect_outcome(transaction(9), sender));
        assert_eq!(waiters.open_count(), 0);
    }

    #[test]
    fn a_milestone_is_told_to_all_calls_that_wait_for_it() {
        let mut waiters = Waiters::default();
        let mut expect = |milestone| {
            let (sender, receiver) = oneshot::channel();
            assert!(waiters.expect_milestone(transaction(5), milestone, sender));
            receiver
        };
        let [mut first, mut second] = [expect(Milestone::Durable), expect(Milestone::Durable)];
        let mut visible = expect(Milestone::Visible);
        let (transaction, milestone) = (transaction(5), Milestone::Durable);
        waiters.deliver(Event::Milestone { transaction, milestone, result: Ok(()) });
        assert_eq!((first.try_recv(), second.try_recv()), (Ok(Ok(())), Ok(Ok(()))));
        assert!(visible.try_recv().is_err());
        waiters.close();
        assert_eq!(visible.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }

    #[test]
    fn two_calls_can_wait_for_one_outcome() {
        let mut waiters = Waiters::default();
        let (sender, mut first) = oneshot::channel();
        waiters.expect_outcome(transaction(5), sender);
        let (sender, mut second) = oneshot::channel();
        waiters.expect_outcome(transaction(5), sender);
        waiters.deliver(Event::Resolved { transaction: transaction(5), outcome: Some(Outcome::Aborted) });
        assert_eq!(first.try_recv().unwrap(), Ok(Some(Outcome::Aborted)));
        assert_eq!(second.try_recv().unwrap(), Ok(Some(Outcome::Aborted)));
    }
}
