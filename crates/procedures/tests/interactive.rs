//! Interactive transactions over several shards, many at a time: whoever commits has read what stands where
//! it commits.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quorate_core::{ClientId, ClockTime, Key, KeyRange, Random, ShardId, TransactionId, Value};
use quorate_granola::{Answer as Answered, Application, Class, Place};
use quorate_procedures::{
    Batch, Division, Found, FoundKey, Held, Interactive, NoAnswer, Refusal, Shard, Step, covered,
};

use crate::batches::{key, place, put, range, value};
use crate::divide::ByLetter;

/// Shards, and the timestamp of what was executed last.
struct Shards {
    shards: Vec<Shard>,
    last: u64,
}

impl Shards {
    fn new(count: u32) -> Self {
        Shards { shards: (0..count).map(|_| Shard::default()).collect(), last: 0 }
    }

    fn placement(&self) -> ByLetter {
        ByLetter(self.shards.len() as u32)
    }

    /// Reads at the timestamp of what was executed last.
    fn read(&self, step: Step) -> (Found, ClockTime) {
        let at = ClockTime::from_micros(self.last);
        let division =
            Division::of(Batch { steps: vec![step], ..Batch::default() }, &self.placement()).unwrap();
        assert_eq!(division.class, Class::ReadOnly);
        let read = |(shard, operation): (ShardId, Value)| {
            (shard, self.shards[shard.0 as usize].read(Place::after(at), &operation).answer)
        };
        let mut found = division.compose(&division.operations().into_iter().map(read).collect()).unwrap();
        (found.remove(0), at)
    }

    /// Executes all parts or none.
    fn execute(&mut self, division: &Division) -> Result<Vec<Found>, NoAnswer> {
        self.last += 1;
        let transaction = TransactionId { client: ClientId(1), sequence: self.last, attempt: 0 };
        let place = Place { timestamp: ClockTime::from_micros(self.last), transaction };
        let mut answers: BTreeMap<ShardId, Answered> = BTreeMap::new();
        for (shard, operation) in division.operations() {
            answers.insert(shard, self.shards[shard.0 as usize].run(place, &operation).unwrap());
        }
        if answers.values().any(|answer| matches!(answer, Answered::Refused(_))) {
            self.shards.iter_mut().for_each(|shard| shard.rewind(place));
        }
        division.compose(&answers)
    }
}

fn scan(range: KeyRange, limit: u32, descending: bool) -> Step {
    Step::Scan { range, limit, descending }
}

/// A transaction, and what it was told.
#[derive(Default)]
struct Client {
    txn: Interactive,
    got: Vec<(Key, Option<Held>)>,
    scanned: Vec<(Step, Found)>,
}

impl Client {
    /// Reads or writes something; false if the transaction cannot be committed any more.
    fn step(&mut self, shards: &Shards, random: &mut Random) -> bool {
        let name = |random: &mut Random| Key::from(["a", "b", "c", "d", "ab", "ba"][random.index(6)]);
        let key = name(random);
        match random.below(5) {
            0 | 1 => {
                let (found, at) = shards.read(Step::Get { key: key.clone() });
                let Found::Value(held) = found else { panic!("{found:?}") };
                if self.txn.note_read(key.clone(), held.as_ref(), at).is_err() {
                    return false;
                }
                self.got.push((key, held));
            }
            2 => {
                let to = random.chance(0.7).then(|| name(random));
                let (range, limit, descending) =
                    (KeyRange { from: key, to }, random.between(1, 4) as u32, random.chance(0.5));
                let step = scan(range.clone(), limit, descending);
                let (found, at) = shards.read(step.clone());
                let Found::Keys { keys, more } = &found else { panic!("{found:?}") };
                self.txn.note_scan(covered(&range, keys, *more, descending), keys, at);
                self.scanned.push((step, found));
            }
            _ => {
                let value = random.chance(0.7).then(|| Value::from(random.below(99).to_string()));
                self.txn.write(key, value);
            }
        }
        true
    }

    /// What it was told still stands, to the last version. Of what lies beyond what it has read it was told
    /// nothing.
    fn is_current(&self, shards: &Shards) -> bool {
        let got = |(key, held): &(Key, Option<Held>)| {
            shards.read(Step::Get { key: key.clone() }).0 == Found::Value(held.clone())
        };
        let scanned = |(step, told): &(Step, Found)| match (told, shards.read(step.clone()).0) {
            (Found::Keys { keys, more }, Found::Keys { keys: now, more: more_now }) => {
                *keys == now && (*more || !more_now)
            }
            _ => false,
        };
        self.got.iter().all(got) && self.scanned.iter().all(scanned)
    }
}

proptest! {
    #[test]
    fn who_commits_has_read_what_stands_there(seed in any::<u64>(), count in 1u32..4) {
        let mut random = Random::new(seed);
        let mut shards = Shards::new(count);
        let mut clients: Vec<Client> = (0..3).map(|_| Client::default()).collect();
        for _ in 0..60 {
            let at = random.index(clients.len());
            let client = &mut clients[at];
            if random.chance(0.75) {
                if !client.step(&shards, &mut random) {
                    prop_assert!(!client.is_current(&shards));
                    *client = Client::default();
                }
                continue;
            }
            let client = std::mem::take(client);
            let Ok(division) = client.txn.commit(&shards.placement()) else { continue };
            let is_current = client.is_current(&shards);
            let committed = shards.execute(&division);
            // A key that was written and removed again since is absent, as it was.
            prop_assert_eq!(committed.is_ok(), is_current);
            if let Err(NoAnswer::Refused { refusal: Refusal::Condition { condition, .. }, .. }) = committed {
                prop_assert!((condition as usize) < client.txn.compared().len());
            }
        }
    }
}

#[test]
fn a_commit_compares_and_writes() {
    let mut shards = Shards::new(2);
    let division = Division::of(
        Batch { conditions: Vec::new(), steps: vec![put("a", "1"), put("b", "2")] },
        &shards.placement(),
    );
    shards.execute(&division.unwrap()).unwrap();
    let mut txn = Interactive::new();
    let (Found::Value(held), at) = shards.read(Step::Get { key: key("a") }) else { panic!("it is a get") };
    txn.note_read(key("a"), held.as_ref(), at).unwrap();
    assert!(txn.is_snapshot(), "it has read at one timestamp");
    let commit = txn.commit(&shards.placement()).unwrap();
    assert_eq!((commit.class, commit.parts.len()), (Class::ReadOnly, 1));
    txn.write(key("c"), Some(value("3")));
    assert_eq!(txn.commit(&shards.placement()).unwrap().class, Class::Independent, "a and c share a shard");
    txn.write(key("b"), None);
    assert_eq!(txn.written(b"b"), Some(&None));
    assert_eq!(txn.written_in(&range("b", "")).count(), 2);
    let commit = txn.commit(&shards.placement()).unwrap();
    assert_eq!((commit.class, commit.parts.len()), (Class::Coordinated, 2));
    assert_eq!(shards.execute(&commit), Ok(vec![Found::Done, Found::Done]));
    assert!(shards.shards[0].newest(b"b").is_none());
    // What it has read twice has to be the same.
    let other = Held { place: Some(place(77)), value: value("7") };
    let changed = txn.note_read(key("a"), Some(&other), at).unwrap_err();
    assert_eq!(changed.to_string(), "b\"a\" was written after it was read: run the transaction again");
    assert!(Interactive::new().commit(&shards.placement()).is_err(), "there is nothing to commit");
}

#[test]
fn what_a_scan_covers_as_a_table() {
    let found = |name: &str| FoundKey { key: key(name), held: Held { place: None, value: Value::new() } };
    let keys = [found("c"), found("e")];
    let back = [found("e"), found("c")];
    let table = [
        (&keys[..], false, false, range("a", "x")),
        (&keys[..], true, false, range("a", "e\0")),
        (&back[..], true, true, range("c", "x")),
        (&back[..], false, true, range("a", "x")),
        (&[][..], false, false, range("a", "x")),
    ];
    for (keys, more, descending, expected) in table {
        assert_eq!(covered(&range("a", "x"), keys, more, descending), expected);
    }
}
