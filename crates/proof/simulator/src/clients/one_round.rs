//! One-round transactions: what a plan does is known beforehand, so all of it can be asked for at once.

use std::time::Duration;

use quorate_core::command::{Command, Executed, Failure, NotExecuted, Outcome};
use quorate_core::topology::Keyspace;
use quorate_core::{ClockTime, Key, ShardId, Timestamp, TransactionId, Value};
use quorate_granola::{Answer, Class};
use quorate_serializable_shard::answer::{Found, Refusal};
use quorate_serializable_shard::operation::{Batch, Condition, Step};
use quorate_serializable_shard::{Division, NoAnswer};
use quorate_workloads::execution::SeenAtOnce;
use quorate_workloads::value::Content;
use quorate_workloads::{Execution, Operation};

use super::promise::refused_elsewhere;
use super::{Attempt, Clients, Session, Work, in_history};
use crate::cluster::{Cluster, KEYSPACE};
use crate::system::System;

/// So many batches have a condition that may not hold.
const CONDITION_PROBABILITY: f64 = 0.2;

/// A plan as one batch.
#[derive(Clone, Debug)]
pub(super) struct OneRound {
    division: Division,
    class: Class,
    /// The condition that has to hold, if there is one.
    condition: Option<Condition>,
    /// The shard that refuses its part although the client vouches for it that none does, if one does.
    pub(super) refusing: Option<ShardId>,
}

impl OneRound {
    /// The same as a batch; none if what the plan does cannot be said in one.
    fn of(
        execution: &Execution,
        condition: Option<Condition>,
        class: impl FnOnce(&Division) -> Class,
        keyspace: &Keyspace,
    ) -> Option<Self> {
        let mut steps = Vec::new();
        for (operation, fresh) in execution.all_at_once() {
            steps.extend(steps_of(operation, fresh)?);
        }
        let batch = Batch { conditions: condition.iter().cloned().collect(), steps };
        let division = Division::of(batch, keyspace).ok()?;
        let class = class(&division);
        Some(OneRound { division, class, condition, refusing: None })
    }

    /// The same as a batch that another shard refuses, although its client vouches for it that none does.
    fn broken_promise(execution: &Execution, keyspace: &Keyspace) -> Option<Self> {
        let key = execution.plan().operations.iter().find_map(Operation::key_written)?;
        let condition = refused_elsewhere(key, keyspace);
        let one_round = OneRound::of(execution, condition, |_| Class::Independent, keyspace)?;
        let mut shards = one_round.division.parts.keys().copied();
        let refusing = shards.find(|shard| *shard != keyspace.shard_of(key).id);
        Some(OneRound { refusing, ..one_round })
    }

    /// The shards that take part.
    pub(super) fn participants(&self) -> impl Iterator<Item = ShardId> {
        self.division.parts.keys().copied()
    }

    /// True if it may write: a shard refuses a class that only reads something that writes.
    pub(super) fn writes(&self) -> bool {
        self.class != Class::ReadOnly
    }

    /// The kind of the transaction, in a few words.
    fn kind(&self) -> &'static str {
        if self.refusing.is_some() {
            return "batch that breaks a promise";
        }
        match (self.class, self.division.parts.len() > 1) {
            (Class::ReadOnly, _) => "batch that reads",
            (_, false) => "batch of one shard",
            (Class::Independent, true) => "independent batch of several shards",
            (Class::Coordinated, true) => "coordinated batch",
        }
    }

    /// The observation of each operation, from the answers of shards.
    fn seen(&self, execution: &Execution, answers: Executed) -> Result<Vec<SeenAtOnce>, String> {
        let answers = answers.answers.into_iter().map(|(shard, bytes)| (shard, Answer::Done(bytes)));
        let found = self.division.compose(&answers.collect()).map_err(|error| error.to_string())?;
        let mut found = found.into_iter();
        let mut seen = Vec::new();
        for (operation, fresh) in execution.all_at_once() {
            let steps = steps_of(operation, fresh).map_or(0, |steps| steps.len());
            let own: Vec<Found> = found.by_ref().take(steps).collect();
            let first = own.into_iter().next();
            seen.push(first.map_or(SeenAtOnce::Nothing, |found| seen_in(operation, found)));
        }
        if let Some(shard) = self.refusing {
            return Err(format!("{shard} has refused its part, and it was executed"));
        }
        match &self.condition {
            Some(condition) if !holds(condition, execution, &seen) => {
                Err(format!("{condition:?} did not hold, and it was executed"))
            }
            _ => Ok(seen),
        }
    }

    /// The part of a refusal that makes no sense, in words: that nobody asked for it, or that what was found is as it had to be.
    fn nonsense(&self, shard: ShardId, reason: &Value) -> Option<String> {
        let refusal = match self.division.refusal(shard, reason) {
            NoAnswer::Refused { refusal, .. } => refusal,
            malformed @ NoAnswer::Malformed { .. } => return Some(malformed.to_string()),
        };
        let is_due = match (&refusal, &self.condition) {
            (Refusal::Condition { found, .. }, Some(Condition::Absent { .. })) => found.is_some(),
            (Refusal::Condition { found, .. }, Some(Condition::Exists { .. })) => found.is_none(),
            _ => false,
        };
        (!is_due).then(|| refusal.to_string())
    }
}

/// The steps of an operation; the first of them reads, if any does.
fn steps_of(operation: &Operation, fresh: i64) -> Option<Vec<Step>> {
    let get = |key: &Key| Step::Get { key: key.clone() };
    let put = |key: &Key| Step::Put { key: key.clone(), value: Content::Register(fresh).encode(0) };
    Some(match operation {
        Operation::Get(key) => vec![get(key)],
        Operation::Put(key) => vec![put(key)],
        Operation::Update(key) => vec![get(key), put(key)],
        Operation::Append(key) => {
            vec![get(key), Step::Append { key: key.clone(), value: Content::appended(fresh) }]
        }
        Operation::Delete(key) => vec![Step::Delete { key: key.clone() }],
        Operation::Scan(scan) => {
            vec![Step::Scan { range: scan.range.clone(), limit: scan.page, descending: false }]
        }
        // Counters of workloads are not written as steps write numbers.
        Operation::Increment(_) => return None,
        // Shards of one-round transactions have no sets.
        Operation::Create { .. }
        | Operation::Change { .. }
        | Operation::Elements(_)
        | Operation::Spread(_) => return None,
    })
}

/// The key of an operation, if it has one.
fn key_of(operation: &Operation) -> Option<&Key> {
    match operation {
        Operation::Get(key) => Some(key),
        _ => operation.key_written(),
    }
}

/// The observation of an operation by its first step.
fn seen_in(operation: &Operation, found: Found) -> SeenAtOnce {
    match (operation, found) {
        (_, Found::Held(held)) => SeenAtOnce::Value(Some(held.value)),
        (_, Found::Absent) => SeenAtOnce::Value(None),
        (Operation::Scan(_), Found::Keys { keys, more }) => {
            let after = |last: &Key| Key::from([last.as_slice(), b"\0"].concat());
            let next = keys.last().filter(|_| more).map(|last| after(&last.key));
            let entries = keys.into_iter().map(|found| (found.key, found.held.value)).collect();
            SeenAtOnce::Page { entries, next }
        }
        _ => SeenAtOnce::Nothing,
    }
}

/// True if a condition fits with what was seen of its key, before anything was written to it.
fn holds(condition: &Condition, execution: &Execution, seen: &[SeenAtOnce]) -> bool {
    let (Condition::Absent { key } | Condition::Exists { key }) = condition else { return true };
    let first =
        execution.all_at_once().zip(seen).find_map(|((operation, _), seen)| match (operation, seen) {
            (
                Operation::Get(of) | Operation::Update(of) | Operation::Append(of),
                SeenAtOnce::Value(value),
            ) => (of == key).then_some(value.is_some()),
            _ => None,
        });
    first.is_none_or(|exists| exists == matches!(condition, Condition::Exists { .. }))
}

impl Clients {
    /// How an attempt at a plan is asked for in one round, if it is to be.
    pub(super) fn draw_one_round<S: System>(
        &mut self,
        session: usize,
        execution: &Execution,
        cluster: &Cluster<S>,
    ) -> Option<OneRound> {
        if self.sessions[session].manner.breaks_promise {
            return OneRound::broken_promise(execution, cluster.keyspace());
        }
        let is_inclined = S::RUNS_ONE_ROUND && self.random.chance(cluster.scenario.one_round);
        if !is_inclined || self.sessions[session].audits() {
            return None;
        }
        let condition = self.draw_condition(execution);
        let coordinated = cluster.scenario.coordinated;
        let prefers_other = self.random.unit();
        let class = |division: &Division| match division.class {
            Class::Independent if division.parts.len() > 1 && prefers_other < coordinated => {
                Class::Coordinated
            }
            // Nothing but a condition is refused here.
            Class::Coordinated if condition.is_none() && prefers_other >= (2.5 * coordinated).min(1.0) => {
                Class::Independent
            }
            class => class,
        };
        OneRound::of(execution, condition.clone(), class, cluster.keyspace())
    }

    /// Something about one of the keys that may hold or not.
    fn draw_condition(&mut self, execution: &Execution) -> Option<Condition> {
        let has_one = self.random.chance(CONDITION_PROBABILITY);
        let keys: Vec<&Key> =
            execution.all_at_once().filter_map(|(operation, _)| key_of(operation)).collect();
        if !has_one || keys.is_empty() {
            return None;
        }
        let key = keys[self.random.index(keys.len())].clone();
        Some(if self.random.chance(0.5) { Condition::Absent { key } } else { Condition::Exists { key } })
    }

    /// Asks for an attempt in one round.
    pub(super) fn begin_one_round<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let patience = self.draw_patience(1, cluster);
        let client = self.slots[self.sessions[session].slot].client;
        let Some(attempt) = &mut self.sessions[session].attempt else { return };
        let Some(one_round) = &attempt.one_round else { return };
        *self.happened.entry(one_round.kind()).or_default() += 1;
        attempt.commit_asked = true;
        if one_round.writes() {
            cluster.note_writes(attempt.id);
        }
        if let Some(shard) = one_round.refusing {
            self.promises.note_refusing(attempt.id, shard);
        }
        let order = Command::Execute {
            transaction: attempt.id,
            keyspace: KEYSPACE,
            parts: one_round.division.operations(),
            class: one_round.class,
            not_before: ClockTime::from_micros(attempt.began.micros),
            patience,
        };
        cluster.world.command(client, order);
    }
}

impl Clients {
    /// Now and then a session goes on at another client, which is told what it has seen: at which, if it does.
    pub(super) fn draw_move<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) -> Option<usize> {
        let is_drawn = matches!(self.sessions[session].work, Work::Drawn);
        if !S::RUNS_ONE_ROUND
            || !is_drawn
            || self.confined.is_some()
            || !self.random.chance(cluster.scenario.moves)
        {
            return None;
        }
        let to = self.random.index(cluster.scenario.clients);
        let Session { slot, seen, .. } = self.sessions[session];
        if to == slot || !self.slots[to].is_alive {
            return None;
        }
        *self.happened.entry("session moved").or_default() += 1;
        self.sessions[session].slot = to;
        let timestamp = ClockTime::from_micros(seen.micros);
        cluster.world.command(self.slots[to].client, Command::Observe { timestamp });
        Some(to)
    }
}

/// The coordinator's answer.
type ExecutedAnswer = Result<Executed, NotExecuted>;

impl Clients {
    /// A coordinator has answered for a one-round transaction.
    pub fn on_executed<S: System>(
        &mut self,
        id: TransactionId,
        told: ExecutedAnswer,
        cluster: &mut Cluster<S>,
    ) {
        if self.on_errand_told(id, &told, cluster) {
            return;
        }
        let Some(session) = self.session_of(id) else { return self.on_undecided_recalled(id, told, cluster) };
        let slot = self.sessions[session].slot;
        match told {
            Ok(executed) => {
                let timestamp = executed.timestamp;
                if let Some(attempt) = &mut self.sessions[session].attempt {
                    self.nonsense.extend(see(attempt, executed));
                }
                self.end_committed(session, timestamp, cluster);
                self.meet_doom(slot, false, cluster);
            }
            Err(NotExecuted::AnswersLost { timestamp, .. }) => {
                let Some(attempt) = self.take_attempt(session) else { return };
                self.record_unseen(&attempt, timestamp, false, cluster);
                self.sessions[session].current = None;
                self.sessions[session].process = self.next_process();
                self.wake_for_next(session, cluster);
            }
            Err(NotExecuted::Failed(Failure::Unknown { participants })) => {
                let client = self.slots[slot].client;
                let recalls = self.random.chance(0.5);
                let patience = Duration::from_millis(self.random.between(50, 3_000));
                match &mut self.sessions[session].attempt {
                    // An answer that only some shards give would say that nothing has changed.
                    Some(attempt) if recalls && !attempt.resolving && !attempt.manner.breaks_promise => {
                        attempt.resolving = true;
                        cluster.world.command(client, recall(attempt, participants, patience));
                    }
                    _ => self.end_unknown(session, Some(participants), cluster),
                }
            }
            Err(NotExecuted::Forgotten) => {
                self.note_forgotten(id, cluster);
                self.end_unknown(session, None, cluster);
            }
            Err(not_executed) => {
                self.note_refusal(session, &not_executed);
                self.end_aborted(session, cluster);
            }
        }
    }

    /// Nothing is refused without a reason.
    fn note_refusal(&mut self, session: usize, not_executed: &NotExecuted) {
        let Some(attempt) = &self.sessions[session].attempt else { return };
        match (not_executed, &attempt.one_round) {
            (NotExecuted::Refused { shard, reason }, Some(one_round)) => {
                *self.happened.entry("batch refused").or_default() += 1;
                let nonsense = one_round.nonsense(*shard, reason);
                self.nonsense.extend(nonsense.map(|text| format!("{} was refused: {text}", attempt.id)));
            }
            (NotExecuted::Failed(_), Some(_)) => {}
            _ => self.nonsense.push(format!("{} ended with {not_executed:?}", attempt.id)),
        }
    }

    /// The outcome of an attempt that had been given up is known.
    fn on_undecided_recalled<S: System>(
        &mut self,
        id: TransactionId,
        told: ExecutedAnswer,
        cluster: &mut Cluster<S>,
    ) {
        let Some(undecided) = self.undecided.iter_mut().find(|undecided| undecided.attempt.id == id) else {
            return self.nonsense.push(format!("{id} was executed, and nobody had asked: {told:?}"));
        };
        let (is_unknown, reported) =
            (matches!(told, Err(NotExecuted::Failed(Failure::Unknown { .. }))), undecided.reported);
        undecided.resolved = !is_unknown;
        let mut attempt = undecided.attempt.clone();
        if told == Err(NotExecuted::Forgotten) {
            self.note_forgotten(id, cluster);
        }
        match told {
            Ok(executed) if reported => {
                self.recorder.timestamp(attempt.recorded, in_history::<S>(id, executed.timestamp));
            }
            Ok(executed) => {
                let timestamp = executed.timestamp;
                self.nonsense.extend(see(&mut attempt, executed));
                self.record_committed(&attempt, timestamp, false, cluster);
            }
            Err(NotExecuted::AnswersLost { timestamp, .. }) => {
                self.record_unseen(&attempt, timestamp, reported, cluster);
            }
            Err(NotExecuted::Forgotten | NotExecuted::Failed(Failure::Unknown { .. })) => {}
            Err(_) if !reported => self.record_failed(attempt.recorded, cluster),
            Err(_) => {}
        }
    }

    /// An attempt was executed, and what it has read will never be known: the history says that much.
    pub(super) fn record_unseen<S: System>(
        &mut self,
        attempt: &Attempt,
        timestamp: Timestamp,
        reported: bool,
        cluster: &Cluster<S>,
    ) {
        self.tally.unknown += 1;
        if !reported {
            let time = self.time(cluster.world.now());
            self.recorder.info(attempt.recorded, time);
        }
        self.recorder.timestamp(attempt.recorded, in_history::<S>(attempt.id, timestamp));
        self.told.push((attempt.id, Outcome::Committed(timestamp)));
        self.acknowledge(attempt, &attempt.execution.announced(), cluster);
    }
}

/// An attempt has seen what shards have answered. Says what makes no sense of that.
fn see(attempt: &mut Attempt, executed: Executed) -> Option<String> {
    let seen = match &attempt.one_round {
        Some(one_round) => one_round.seen(&attempt.execution, executed),
        None => Err("it was not asked for in one round".to_owned()),
    };
    match seen {
        Ok(seen) => {
            attempt.execution.done_at_once(seen);
            None
        }
        Err(text) => Some(format!("{} was executed: {text}", attempt.id)),
    }
}

/// How a client asks what became of an attempt.
pub(super) fn recall(attempt: &Attempt, participants: Vec<ShardId>, patience: Duration) -> Command {
    let not_before = ClockTime::from_micros(attempt.began.micros);
    Command::Recall { transaction: attempt.id, participants, not_before, patience }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use quorate_core::NodeId;
    use quorate_core::topology::{Durability, Isolation, Shard};
    use quorate_workloads::{Plan, UniqueValues};

    use super::*;

    fn keyspace() -> Keyspace {
        let shard = |id| Shard::new(ShardId(id), vec![NodeId(0)]);
        Keyspace::new(
            KEYSPACE,
            "tested",
            Isolation::Serializable,
            Durability::Memory,
            vec![shard(1), shard(2), shard(3)],
        )
    }

    #[test]
    fn a_promise_is_broken_by_a_shard_that_writes_nothing() {
        let keyspace = keyspace();
        for name in ["a", "b", "c", "d", "e"] {
            let key = Key::from(name);
            let plan = Plan { kind: "broken promise", operations: vec![Operation::Append(key.clone())] };
            let execution = Execution::new(Arc::new(plan), &mut UniqueValues::new(0), 0);
            let one_round =
                OneRound::broken_promise(&execution, &keyspace).expect("there are several shards");
            let refusing = one_round.refusing.expect("one of them refuses");
            assert_eq!(one_round.class, Class::Independent);
            assert_eq!(one_round.division.parts.len(), 2);
            assert_ne!(refusing, keyspace.shard_of(&key).id);
            assert!(one_round.division.parts[&refusing].steps.is_empty());
            assert_eq!(one_round.division.parts[&refusing].conditions.len(), 1);
            let executed = Executed { timestamp: Timestamp::ZERO, answers: BTreeMap::new() };
            assert!(one_round.seen(&execution, executed).is_err(), "nobody may be told that it was executed");
        }
    }
}
