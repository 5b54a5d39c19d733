//! Random schedules: leaders change, messages are lost, late and repeated, clocks differ, replicas and clients die. In each,
//! clients were told what one execution after the other would have told them, in the order of timestamps; and the next
//! transaction of a client comes after what it has seen.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::{ClockTime, Random, ReplicaId, ShardId, TransactionId, Value};
use quorate_granola::{Answer, Application, Class, Outcome, Place, Plant, Rules};
use quorate_testscripts::schedule::{self, Troubles};

use crate::registers::Registers;
use crate::scripts::world::World;

const KEYS: [&str; 2] = ["k", "l"];
const SHARDS: [u32; 2] = [1, 2];

/// A transaction of a schedule.
#[derive(Debug)]
struct Txn {
    class: Class,
    parts: BTreeMap<ShardId, String>,
    /// The timestamp and the answers that its client was told, if it was told anything.
    told: Option<Told>,
    /// Its client was told that it is executed nowhere.
    is_aborted: bool,
    /// The timestamp that its client had seen when it began.
    seen: ClockTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    attempt: TransactionId,
    timestamp: ClockTime,
    answers: BTreeMap<ShardId, String>,
}

struct Schedule {
    world: World,
    random: Random,
    troubles: Troubles,
    sequence: u64,
    txns: BTreeMap<TransactionId, Txn>,
    /// The executions that shards tell of, and their places; shards forget them in time.
    executed: BTreeMap<Place, BTreeMap<ShardId, String>>,
    seen: BTreeMap<u64, ClockTime>,
}

impl Schedule {
    fn new(rules: Rules, seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Replicas forget transactions that have ended while others still ask, or not at all.
        let lag = [1, 1_000_000][random.index(2)];
        // In some schedules another group coordinates for the shards.
        let (cluster, groups) = match random.chance(0.2) {
            true => ("shards=3 hub=3", &["1", "2", "3"][..]),
            false => ("shards=2", &["1", "2"][..]),
        };
        let ahead = [0, 20, 250][random.index(3)];
        let mut schedule = Schedule {
            world: World::new(rules),
            random,
            troubles: Troubles::new(groups, 3, 3),
            sequence: 0,
            txns: BTreeMap::new(),
            executed: BTreeMap::new(),
            seen: BTreeMap::new(),
        };
        schedule.command(&format!("cluster {cluster} lag={lag} ahead={ahead}"));
        for group in groups {
            for index in 0..3 {
                let micros = [100, 3_000, 400_000, 2_000_000][schedule.random.index(4)];
                schedule.command(&format!("clock {group}/r{index} {micros}"));
            }
        }
        schedule
    }

    fn command(&mut self, line: &str) {
        for told in self.world.command(line) {
            if let Some(event) = told.strip_prefix("  ") {
                self.on_event(event);
            }
        }
        for (ReplicaId { shard, .. }, replica) in self.world.replicas() {
            for (id, ended) in replica.ended() {
                if let Outcome::Committed { timestamp, answer } = &ended.outcome {
                    let place = Place { timestamp: *timestamp, transaction: id };
                    self.executed.entry(place).or_default().insert(shard, text(answer));
                }
            }
        }
    }

    /// `c1.7/2 COMMITTED at 101: 1 nothing, 2 x`, or how else it ended.
    fn on_event(&mut self, event: &str) {
        let Some((id, what)) = event.split_once(' ') else { return };
        let Some((client, number)) = id.strip_prefix('c').and_then(|id| id.split_once('.')) else { return };
        let (sequence, attempt) = number.split_once('/').unwrap_or((number, "0"));
        let client: u64 = client.parse().unwrap();
        let name = name(client, sequence.parse().unwrap());
        if what.starts_with("ABORTED") {
            self.txns.get_mut(&name).unwrap().is_aborted = true;
        }
        assert!(!what.starts_with("DISAGREEMENT"), "{event}");
        let Some(rest) = what.strip_prefix("COMMITTED at ") else { return };
        let (timestamp, answers) = rest.split_once(": ").unwrap();
        let timestamp = ClockTime::from_micros(timestamp.parse().unwrap());
        let answer = |answer: &str| {
            let (shard, answer) = answer.split_once(' ').unwrap();
            (ShardId(shard.parse().unwrap()), answer.to_owned())
        };
        let attempt = TransactionId { attempt: attempt.parse().unwrap(), ..name };
        let told = Told { attempt, timestamp, answers: answers.split(", ").map(answer).collect() };
        let Some(txn) = self.txns.get_mut(&name) else { return };
        assert_eq!(txn.told, None, "{name} ends once");
        txn.told = Some(told);
        let seen = self.seen.entry(client).or_default();
        *seen = timestamp.max(*seen);
    }

    fn begin(&mut self) {
        self.sequence += 1;
        let client = self.troubles.client(&mut self.random);
        let class = match self.random.index(10) {
            0..3 => Class::ReadOnly,
            3 | 4 => Class::Coordinated,
            _ => Class::Independent,
        };
        let shards: Vec<u32> = match self.random.index(3) {
            0 => SHARDS.to_vec(),
            at => vec![SHARDS[at - 1]],
        };
        let mut parts = BTreeMap::new();
        for shard in &shards {
            let operation = match class {
                Class::ReadOnly => "get k l s p".to_owned(),
                // A transaction that only one of several shards may refuse has to be agreed upon.
                Class::Independent if shards.len() > 1 => self.operation(4),
                Class::Independent | Class::Coordinated => self.operation(6),
            };
            parts.insert(ShardId(*shard), operation);
        }
        let words: Vec<String> = parts.iter().map(|(shard, part)| format!("{} {part}", shard.0)).collect();
        let seen = self.seen.get(&client).copied().unwrap_or_default();
        self.txns
            .insert(name(client, self.sequence), Txn { class, parts, told: None, is_aborted: false, seen });
        let verb = match class {
            Class::ReadOnly => "read",
            Class::Independent => "run",
            Class::Coordinated => "agree",
        };
        self.command(&format!("{verb} c{client} {} {}", self.sequence, words.join(", ")));
    }

    /// One of the first so many kinds of operations that write; the last two may be refused.
    fn operation(&mut self, kinds: usize) -> String {
        let key = KEYS[self.random.index(2)];
        let kind = self.random.index(kinds);
        // Now and then one is long, and its client is in debt for some seconds.
        if self.sequence.is_multiple_of(29) {
            return "toil t 15000000".to_owned();
        }
        match kind {
            0 | 1 => format!("append {key} {}", self.sequence),
            2 => format!("follow p {}", self.sequence),
            3 => format!("put p {key}"),
            _ => {
                let words = ["nothing", "a", "b"];
                format!("swap s {} {}", words[self.random.index(3)], words[1 + self.random.index(2)])
            }
        }
    }

    fn step(&mut self) {
        if self.random.chance(0.35) {
            return self.begin();
        }
        let commands = self.troubles.next(&mut self.random);
        commands.iter().for_each(|command| self.command(command));
    }

    /// Everything is well again, and ends.
    fn heal(&mut self) {
        // Longer than any client is patient.
        self.troubles.end(25).iter().for_each(|command| self.command(command));
    }

    /// The faults in how it went; none, if it went well.
    fn judge(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let leaders: Vec<_> =
            self.world.replicas().filter(|(_, replica)| replica.leads().is_some()).collect();
        for (id, replica) in &leaders {
            let (pending, waiting) = (replica.pending().len(), replica.waiting());
            if pending + waiting > 0 {
                wrong.push(format!("{id} has {pending} pending and lets {waiting} wait"));
            }
        }
        let mut shards: BTreeMap<ShardId, Registers> = BTreeMap::new();
        for shard in SHARDS {
            shards.insert(ShardId(shard), Registers::default());
        }
        let mut reads: BTreeMap<Place, &Txn> = BTreeMap::new();
        for (name, txn) in &self.txns {
            let Some(told) = &txn.told else { continue };
            let reads_only = txn.class == Class::ReadOnly;
            let is_late = if reads_only { told.timestamp < txn.seen } else { told.timestamp <= txn.seen };
            if is_late {
                wrong.push(format!("{name} comes before what its client had seen: {told:?}"));
            }
            let place = Place { timestamp: told.timestamp, transaction: told.attempt };
            match reads_only {
                true => {
                    reads.insert(Place { timestamp: Place::after(told.timestamp).timestamp, ..place }, txn);
                }
                false if self.executed.get(&place) != Some(&told.answers) => {
                    wrong.push(format!(
                        "{name} was told {told:?}, and not by {:?}",
                        self.executed.get(&place)
                    ));
                }
                false => {}
            }
        }
        // One after the other.
        let mut names = BTreeSet::new();
        for (place, answers) in &self.executed {
            while let Some((at, txn)) = reads.pop_first() {
                if Place::after(at.timestamp) > Place::after(place.timestamp) {
                    reads.insert(at, txn);
                    break;
                }
                wrong.extend(compare_read(&shards, txn));
            }
            let name = name(place.transaction.client.0, place.transaction.sequence);
            if !names.insert(name) {
                wrong.push(format!("{name} was executed twice"));
            }
            let Some(txn) = self.txns.get(&name) else { continue };
            if txn.is_aborted {
                wrong.push(format!("{name} was told to be executed nowhere"));
            }
            if txn.class == Class::Coordinated && txn.parts.len() > 1 {
                let refused = answers.values().filter(|answer| answer.starts_with("refused"));
                wrong.extend(refused.map(|answer| format!("{name} was voted for and {answer}")));
            }
            for (shard, part) in &txn.parts {
                let operation = Value::from(part.clone());
                let answer = shards.get_mut(shard).unwrap().run(*place, &operation);
                let expected = text(&answer.expect("nothing is locked"));
                if answers.get(shard) != Some(&expected) {
                    wrong.push(format!("{place} at {shard} has {:?}, not {expected}", answers.get(shard)));
                }
            }
        }
        for txn in reads.values() {
            wrong.extend(compare_read(&shards, txn));
        }
        wrong
    }
}

/// The answers of a transaction that has read what is not there.
fn compare_read(shards: &BTreeMap<ShardId, Registers>, txn: &Txn) -> Option<String> {
    let told = txn.told.as_ref()?;
    let end = Place::after(ClockTime::from_micros(u64::MAX - 1));
    let found = |(shard, part): (&ShardId, &String)| {
        let read = shards[shard].read(end, &Value::from(part.clone()));
        (*shard, text(&read.answer))
    };
    let found: BTreeMap<ShardId, String> = txn.parts.iter().map(found).collect();
    (found != told.answers).then(|| format!("{told:?} should have read {found:?}"))
}

/// An answer, as scripts show it.
fn text(answer: &Answer) -> String {
    match answer {
        Answer::Done(answer) => String::from_utf8_lossy(answer).into_owned(),
        Answer::Refused(reason) => format!("refused ({})", String::from_utf8_lossy(reason)),
    }
}

fn name(client: u64, sequence: u64) -> TransactionId {
    TransactionId { client: quorate_core::ClientId(client), sequence, attempt: 0 }
}

/// How many transactions were told to have committed, and what is wrong.
fn run(rules: Rules, seed: u64) -> (usize, Vec<String>) {
    let mut schedule = Schedule::new(rules, seed);
    for _ in 0..120 {
        schedule.step();
    }
    schedule.heal();
    let committed = schedule.txns.values().filter(|txn| txn.told.is_some()).count();
    (committed, schedule.judge())
}

#[test]
fn what_clients_see_is_serializable_in_the_order_of_their_sessions() {
    let (mut committed, seeds) = (0, schedule::seeds(0..150));
    for seed in seeds.clone() {
        let (count, wrong) = run(Rules::SOUND, seed);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        committed += count;
    }
    assert!(committed > 15 * seeds.count(), "{committed} have committed");
}

/// Each bug is found within so many schedules.
const SCHEDULES: u64 = 150;

/// Bugs too rare for that, or that need what schedules do not do: scripts show them.
const SCRIPTED: [Plant; 11] = [
    Plant::LatestExecuted,
    Plant::ProposedFirst,
    Plant::ObservedIgnored,
    Plant::DecisionsNotCompared,
    Plant::LatestOnly,
    Plant::NothingLocked,
    Plant::LostVotesCount,
    Plant::SeenAdopted,
    Plant::LateRefused,
    Plant::PendingPassedOver,
    Plant::CeilingTold,
];

#[test]
fn schedules_find_planted_bugs() {
    for plant in Plant::ALL.into_iter().filter(|plant| !SCRIPTED.contains(plant)) {
        let found = schedule::find(0..SCHEDULES, |seed| run(Rules::planted(plant), seed).1);
        assert!(found.is_some(), "{} was not found", plant.id());
    }
}
