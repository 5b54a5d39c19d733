//! Transactions whose parts the client has named.

use quorate_core::command::Invalid;
use quorate_serializable_shard::operation::Step;
use quorate_serializable_shard::{Answer, Batch, Condition, Division, Found, Operation};

use super::*;

const PATIENCE: Duration = Duration::from_secs(3);

/// Adds one to each of these keys.
fn increments(keys: &[&str]) -> Batch {
    let step = |key: &&str| Step::Increment { key: Key::copy_from_slice(key.as_bytes()), by: 1 };
    Batch { conditions: Vec::new(), steps: keys.iter().map(step).collect() }
}

fn name(sequence: u64, attempt: u32) -> TransactionId {
    TransactionId { client: CLIENT, sequence, attempt }
}

impl Stage {
    fn keyspace(&self) -> Keyspace {
        self.client.keyspaces[&KEYSPACE].keyspace.clone()
    }

    fn apply(&mut self, transaction: TransactionId, batch: &Batch) -> Division {
        let division = Division::of(batch.clone(), &self.keyspace()).expect("it is a batch");
        self.run(transaction, division.operations(), division.class);
        division
    }

    fn run(&mut self, transaction: TransactionId, parts: BTreeMap<ShardId, Value>, class: Class) {
        let (keyspace, not_before) = (KEYSPACE, ClockTime::from_micros(1_000));
        let execute =
            Command::Execute { transaction, keyspace, parts, class, not_before, patience: PATIENCE };
        assert_eq!(self.tell(execute), [], "it is told in its own way");
    }

    fn recall(&mut self, transaction: TransactionId, participants: Vec<ShardId>) {
        let not_before = ClockTime::from_micros(1_000);
        let recall = Command::Recall { transaction, participants, not_before, patience: PATIENCE };
        assert_eq!(self.tell(recall), []);
    }

    /// The last answer that the client was given.
    fn told(&mut self) -> Result<Executed, NotExecuted> {
        self.executed.pop().expect("it was told something")
    }
}

fn numbers(division: &Division, executed: Executed) -> Vec<Found> {
    let answers =
        executed.answers.into_iter().map(|(shard, answer)| (shard, quorate_granola::Answer::Done(answer)));
    division.compose(&answers.collect()).expect("all have answered")
}

#[test]
fn each_class_is_sent_as_it_was_named_and_answered_by_every_shard() {
    let mut stage = Stage::new();
    let one = stage.apply(name(1, 0), &increments(&KEYS[..1]));
    let several = stage.apply(name(2, 0), &increments(&KEYS));
    let gets = KEYS.map(|key| Step::Get { key: Key::from(key) });
    let reads = stage.apply(name(3, 0), &Batch { conditions: Vec::new(), steps: gets.to_vec() });
    assert_eq!(stage.asked, [(Class::Independent, 1), (Class::Coordinated, 3), (Class::ReadOnly, 3)]);
    let executed: Vec<Executed> =
        stage.executed.drain(..).map(|result| result.expect("nothing is in the way")).collect();
    let timestamps: Vec<u64> = executed.iter().map(|executed| executed.timestamp.micros).collect();
    assert_eq!(timestamps, [1_010, 1_020, 1_030]);
    let found: Vec<_> = [one, several, reads]
        .iter()
        .zip(executed)
        .map(|(division, executed)| numbers(division, executed))
        .collect();
    assert_eq!(found[0], [Found::Number(1)]);
    assert_eq!(found[1], [2, 1, 1, 1, 1, 1].map(Found::Number));
    let is_there = |found: &Found| matches!(found, Found::Held(_));
    assert_eq!(found[2].iter().filter(|found| is_there(found)).count(), KEYS.len());
    assert!(stage.client.is_idle());
    assert_eq!(stage.client.seen().time, ClockTime::from_micros(1_030));
}

#[test]
fn a_refusal_names_the_shard_and_its_reason_whatever_the_class() {
    for keys in [&KEYS[..1], &KEYS[..]] {
        let mut stage = Stage::new();
        let absent = Condition::Exists { key: Key::copy_from_slice(keys[0].as_bytes()) };
        let division = stage.apply(name(1, 0), &Batch { conditions: vec![absent], ..increments(keys) });
        let Err(NotExecuted::Refused { shard, reason }) = stage.told() else { panic!("it is refused") };
        assert_eq!(shard, stage.keyspace().shard_of(keys[0].as_bytes()).id);
        let refused = division.refusal(shard, &reason).to_string();
        assert!(refused.contains("condition 0 does not hold"), "{refused}");
        let reader = stage.begin(2);
        assert_eq!(stage.get(reader, keys[0]), None, "nothing was changed");
    }
}

#[test]
fn what_cannot_be_is_told_at_once_and_nothing_is_sent() {
    let mut stage = Stage::new();
    let parts = |shards: &[u32]| -> BTreeMap<ShardId, Value> {
        shards.iter().map(|shard| (ShardId(*shard), Operation::Batch(increments(&["a"])).encode())).collect()
    };
    stage.run(name(1, 0), parts(&[]), Class::Independent);
    assert_eq!(stage.told(), Err(NotExecuted::NoSuchShard(None)));
    stage.run(name(1, 0), parts(&[1, 9]), Class::Independent);
    assert_eq!(stage.told(), Err(NotExecuted::NoSuchShard(Some(ShardId(9)))));
    let elsewhere = Command::Execute {
        transaction: name(1, 0),
        keyspace: KeyspaceId(2),
        parts: parts(&[1]),
        class: Class::Independent,
        not_before: ClockTime::default(),
        patience: PATIENCE,
    };
    stage.tell(elsewhere);
    let unknown = Failure::Invalid(Invalid::UnknownKeyspace(KeyspaceId(2)));
    assert_eq!(stage.told(), Err(NotExecuted::Failed(unknown)));
    let open = stage.begin(1);
    stage.run(open, parts(&[1]), Class::Independent);
    assert_eq!(stage.told(), Err(NotExecuted::Failed(Failure::Invalid(Invalid::NotOpen(open)))));
    // The clock was turned back by more than clocks are.
    stage.clock = 0;
    let late = Command::Execute {
        transaction: name(3, 0),
        keyspace: KEYSPACE,
        parts: parts(&[1]),
        class: Class::Independent,
        not_before: ClockTime::from_micros(2_000_000),
        patience: PATIENCE,
    };
    stage.tell(late);
    assert_eq!(stage.told(), Err(NotExecuted::Failed(Failure::Conflict)));
    assert_eq!(stage.asked, []);
}

#[test]
fn a_conflict_is_told_and_the_next_attempt_runs_under_its_own_name() {
    let mut stage = Stage::new();
    for shard in 1..=3 {
        stage.ended.insert((name(1, 0), ShardId(shard)), Reply::Ended(Outcome::Conflict));
    }
    stage.apply(name(1, 0), &increments(&KEYS));
    assert_eq!(stage.told(), Err(NotExecuted::Failed(Failure::Conflict)));
    stage.apply(name(1, 1), &increments(&KEYS));
    assert!(stage.told().is_ok());
}

#[test]
fn what_would_touch_a_lost_shard_is_executed_nowhere() {
    let mut stage = Stage::new();
    stage.lost.insert(ShardId(2));
    stage.apply(name(1, 0), &increments(&KEYS));
    let lost = Failure::Invalid(Invalid::ShardLost(ShardId(2)));
    assert_eq!(stage.told(), Err(NotExecuted::Failed(lost.clone())));
    stage.recall(name(1, 0), vec![ShardId(1), ShardId(2), ShardId(3)]);
    assert_eq!(stage.told(), Err(NotExecuted::Failed(lost)));
}

#[test]
fn lost_answers_are_recalled_from_every_shard() {
    let mut stage = Stage::new();
    stage.silent.extend([ShardId(1), ShardId(2), ShardId(3)]);
    let division = stage.apply(name(1, 0), &increments(&KEYS));
    let participants: Vec<ShardId> = division.parts.keys().copied().collect();
    stage.pass(PATIENCE);
    let unknown = || Err(NotExecuted::Failed(Failure::Unknown { participants: participants.clone() }));
    assert_eq!(stage.told(), unknown());
    stage.recall(name(1, 0), participants.clone());
    stage.pass(PATIENCE);
    assert_eq!(stage.told(), unknown(), "nobody answers");
    // One does not answer: that another one does says that it was executed.
    stage.silent = BTreeSet::from([ShardId(3)]);
    stage.recall(name(1, 0), participants.clone());
    assert_eq!(stage.executed, [], "answers are waited for");
    stage.pass(PATIENCE);
    let timestamp = Timestamp { micros: 1_010, client: CLIENT };
    assert_eq!(stage.told(), Err(NotExecuted::AnswersLost { timestamp, missing: vec![ShardId(3)] }));
    stage.silent.clear();
    stage.recall(name(1, 0), participants.clone());
    let executed = stage.told().expect("all remember it");
    assert_eq!(executed.timestamp, timestamp);
    assert_eq!(numbers(&division, executed), [1; 6].map(Found::Number));
    // One forgets it after another, and the last that speaks is the first.
    for forgotten in &participants {
        let reply = Reply::Forgotten { clock: ClockTime::default() };
        stage.ended.insert((name(1, 0), *forgotten), reply);
        stage.recall(name(1, 0), participants.clone());
        let told = stage.told();
        match *forgotten == ShardId(3) {
            true => assert_eq!(told, Err(NotExecuted::Forgotten)),
            false => assert!(matches!(told, Err(NotExecuted::AnswersLost { .. })), "{told:?}"),
        }
    }
}

#[test]
fn what_was_never_heard_of_is_executed_nowhere_once_it_is_recalled() {
    let mut stage = Stage::new();
    let batch = increments(&KEYS);
    let participants = vec![ShardId(1), ShardId(2), ShardId(3)];
    stage.recall(name(1, 0), participants.clone());
    assert_eq!(stage.told(), Err(NotExecuted::Failed(Failure::Conflict)));
    stage.apply(name(1, 0), &batch);
    assert_eq!(stage.told(), Err(NotExecuted::Failed(Failure::Conflict)), "whenever it comes");
}

#[test]
fn a_refusal_is_recalled_with_its_reason() {
    for keys in [&KEYS[..1], &KEYS[..]] {
        let mut stage = Stage::new();
        let exists = Condition::Exists { key: Key::copy_from_slice(keys[0].as_bytes()) };
        stage.silent.extend([ShardId(1), ShardId(2), ShardId(3)]);
        let division = stage.apply(name(1, 0), &Batch { conditions: vec![exists], ..increments(keys) });
        stage.pass(PATIENCE);
        assert!(matches!(stage.told(), Err(NotExecuted::Failed(Failure::Unknown { .. }))));
        stage.silent.clear();
        stage.recall(name(1, 0), division.parts.keys().copied().collect());
        let Err(NotExecuted::Refused { shard, .. }) = stage.told() else { panic!("it is refused") };
        assert_eq!(shard, stage.keyspace().shard_of(keys[0].as_bytes()).id);
    }
}

#[test]
fn what_only_reads_is_unavailable_rather_than_unknown() {
    let mut stage = Stage::new();
    stage.silent.insert(ShardId(1));
    let key = KEYS.into_iter().find(|key| stage.keyspace().shard_of(key.as_bytes()).id == ShardId(1));
    let get = Step::Get { key: Key::from(key.expect("one of them lies there")) };
    stage.apply(name(1, 0), &Batch { conditions: Vec::new(), steps: vec![get] });
    stage.pass(PATIENCE);
    let told = stage.told();
    assert!(matches!(told, Err(NotExecuted::Failed(Failure::Unavailable { .. }))), "{told:?}");
}

#[test]
fn what_another_client_has_seen_comes_before() {
    let mut stage = Stage::new();
    let timestamp = ClockTime::from_micros(9_000);
    assert_eq!(stage.tell(Command::Observe { timestamp }), []);
    assert_eq!(stage.client.seen().time, timestamp);
}

#[test]
fn answers_are_opaque() {
    let mut stage = Stage::new();
    let parts = BTreeMap::from([(ShardId(1), Value::from_static(b"no operation"))]);
    stage.run(name(1, 0), parts, Class::Independent);
    let Err(NotExecuted::Refused { reason, .. }) = stage.told() else { panic!("shards refuse that") };
    let refusal = quorate_serializable_shard::Refusal::decode(&reason).expect("it is one");
    assert!(matches!(refusal, quorate_serializable_shard::Refusal::Malformed { .. }), "{refusal}");
    stage.apply(name(2, 0), &increments(&KEYS[..1]));
    let executed = stage.told().expect("nothing is in the way");
    let answer = executed.answers.values().next().expect("there is one");
    assert_eq!(Answer::decode(answer), Ok(Answer::Batch(vec![Found::Number(1)])));
}

/// Each adds to its key, but one shard requires what does not hold. Its client vouches that all decide alike.
#[test]
fn a_disagreement_of_shards_is_told_with_what_each_has_decided_and_its_client_that_nobody_knows() {
    let mut stage = Stage::new();
    let keyspace = stage.keyspace();
    let absent = Condition::Exists { key: Key::copy_from_slice(KEYS[0].as_bytes()) };
    let batch = Batch { conditions: vec![absent], ..increments(&KEYS) };
    let division = Division::of(batch, &keyspace).expect("it is a batch");
    let refusing = keyspace.shard_of(KEYS[0].as_bytes()).id;
    let execute = Command::Execute {
        transaction: name(1, 0),
        keyspace: KEYSPACE,
        parts: division.operations(),
        class: Class::Independent,
        not_before: ClockTime::from_micros(1_000),
        patience: PATIENCE,
    };
    let told = stage.tell(execute);
    let [Event::Disagreement { transaction, decided }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*transaction, name(1, 0));
    let refused: Vec<(ShardId, bool)> =
        decided.iter().map(|decided| (decided.shard, decided.is_refused)).collect();
    assert_eq!(refused, [1, 2, 3].map(|shard| (ShardId(shard), ShardId(shard) == refusing)));
    assert!(decided.iter().all(|decided| decided.timestamp == ClockTime::from_micros(1_010)));
    let digests: BTreeSet<u64> = decided.iter().map(|decided| decided.digest).collect();
    assert!(digests.len() > 1, "a refusal is no answer: {digests:?}");
    assert!(matches!(stage.told(), Err(NotExecuted::Failed(Failure::Unknown { .. }))));
    assert_eq!(stage.client.disagreements(), 1);
}
