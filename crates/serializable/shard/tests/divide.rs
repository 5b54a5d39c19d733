//! Batches over several shards: what is asked of each, and that it comes to what one shard with all keys
//! would do.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_core::{Key, KeyRange, ShardId, Value};
use quorate_granola::{Application, Class};
use quorate_serializable_shard::{
    Answer, Batch, Condition, Division, Found, NoAnswer, Operation, Placement, Refusal, Shard, Step,
    StepFault, read_answer,
};

use crate::batches::{get, key, place, put, range, value};

/// Keys lie by their last letter, so that ranges lie on all shards.
pub(crate) struct ByLetter(pub(crate) u32);

impl Placement for ByLetter {
    fn shard(&self, key: &[u8]) -> ShardId {
        ShardId(key.last().copied().map_or(0, u32::from) % self.0)
    }

    fn shards(&self, _: &KeyRange) -> Vec<ShardId> {
        (0..self.0).map(ShardId).collect()
    }
}

fn batch(conditions: &[Condition], steps: &[Step]) -> Batch {
    Batch { conditions: conditions.to_vec(), steps: steps.to_vec() }
}

#[test]
fn classes_as_a_table() {
    // With two shards, b, d and f lie on one of them, and a, c and e on the other.
    let exists = |name| Condition::Exists { key: key(name) };
    let increment = |name| Step::Increment { key: key(name), by: 1 };
    let append = |name| Step::Append { key: key(name), value: value("x") };
    let scan = |limit| Step::Scan { range: range("a", "f"), limit, descending: false };
    let delete = |name| Step::Delete { key: key(name) };
    let gets = |count: usize| std::iter::repeat_n(get("a"), count);
    let table = [
        (batch(&[], &[get("a")]), 1, Class::ReadOnly),
        (batch(&[], &[get("a"), get("b")]), 2, Class::ReadOnly),
        (batch(&[exists("a")], &[get("b")]), 2, Class::ReadOnly),
        (batch(&[exists("a"), exists("b")], &[]), 2, Class::ReadOnly),
        (batch(&[], &[scan(10)]), 2, Class::ReadOnly),
        (batch(&[], &[put("a", "1")]), 1, Class::Independent),
        (batch(&[exists("a")], &[put("c", "1"), increment("e")]), 1, Class::Independent),
        (batch(&[], &[put("a", "1"), put("b", "1")]), 2, Class::Independent),
        (batch(&[], &[put("a", "1"), delete("b"), get("c"), get("d")]), 2, Class::Independent),
        (batch(&[], &[put("a", "1"), get("b"), scan(10)]), 2, Class::Independent),
        (batch(&[exists("a")], &[put("b", "1")]), 2, Class::Coordinated),
        (batch(&[exists("a"), exists("b")], &[put("b", "1")]), 2, Class::Coordinated),
        (batch(&[], &[increment("a"), put("b", "1")]), 2, Class::Coordinated),
        (batch(&[], &[append("a"), get("b")]), 2, Class::Coordinated),
        (batch(&[], &[put("b", "1")].into_iter().chain(gets(9)).collect::<Vec<_>>()), 2, Class::Independent),
        (batch(&[], &[put("b", "1")].into_iter().chain(gets(10)).collect::<Vec<_>>()), 2, Class::Coordinated),
    ];
    for (batch, parts, class) in table {
        let division = Division::of(batch.clone(), &ByLetter(2)).unwrap();
        assert_eq!((division.parts.len(), division.class), (parts, class), "{batch:?}");
    }
}

#[test]
fn what_cannot_be_divided() {
    let unchanged = |before| Condition::Unchanged { range: range("a", "b"), before, keys: 0 };
    let batches = [
        (Batch::default(), "a batch that asks for nothing"),
        (batch(&[unchanged(place(1))], &[]), "condition 0: [\"a\", \"b\") lies on several shards"),
        (batch(&[], &[get("")]), "a key must not be empty"),
    ];
    for (batch, text) in batches {
        assert_eq!(Division::of(batch, &ByLetter(2)).unwrap_err().to_string(), text);
    }
    assert!(Division::of(batch(&[unchanged(place(1))], &[]), &ByLetter(1)).is_ok());
    let large = Step::Put { key: key("a"), value: Value::from(vec![0; 1_000_000]) };
    let large = batch(&[], &std::iter::repeat_n(large, 11).collect::<Vec<_>>());
    assert!(Division::of(large, &ByLetter(2)).unwrap_err().to_string().contains("the limit is 10000000"));
}

#[test]
fn what_a_shard_refuses_is_counted_in_the_batch() {
    let conditions = [Condition::Exists { key: key("a") }, Condition::Exists { key: key("b") }];
    let steps = [put("a", "x"), put("b", "x"), Step::Increment { key: key("b"), by: 1 }];
    let mut shards = [Shard::default(), Shard::default()];
    let run = |shards: &mut [Shard; 2], at, division: &Division| {
        let run = |(shard, operation): (ShardId, Value)| {
            (shard, shards[shard.0 as usize].run(place(at), &operation).unwrap())
        };
        division.compose(&division.operations().into_iter().map(run).collect())
    };
    let division = Division::of(batch(&conditions[1..], &steps), &ByLetter(2)).unwrap();
    let refused = |refusal| Err(NoAnswer::Refused { shard: ShardId(0), refusal });
    let expected = refused(Refusal::Condition { condition: 0, found: None });
    assert_eq!(run(&mut shards, 1, &division), expected);
    let division = Division::of(batch(&[], &steps), &ByLetter(2)).unwrap();
    let refusal = Refusal::Step { step: 2, fault: StepFault::NotANumber };
    assert_eq!(run(&mut shards, 2, &division), refused(refusal.clone()));
    let of_part = Refusal::Step { step: 1, fault: StepFault::NotANumber };
    assert_eq!(Err(division.refusal(ShardId(0), &of_part.encode())), refused(refusal));
    let division = Division::of(batch(&conditions, &[]), &ByLetter(2)).unwrap();
    let condition = Refusal::Condition { condition: 1, found: None };
    assert_eq!(run(&mut shards, 3, &division), refused(condition), "of the batch it is the second");
    let silent = division.compose(&BTreeMap::new()).unwrap_err().to_string();
    assert_eq!(silent, "shard0 answers what cannot be understood: there is none");
}

fn any_key() -> impl Strategy<Value = Key> {
    "[a-f]{1,2}".prop_map(Key::from)
}

fn any_step() -> impl Strategy<Value = Step> {
    let text = "[0-9]{0,3}".prop_map(Value::from);
    prop_oneof![
        any_key().prop_map(|key| Step::Get { key }),
        (any_key(), text.clone()).prop_map(|(key, value)| Step::Put { key, value }),
        any_key().prop_map(|key| Step::Delete { key }),
        (any_key(), -3i64..9).prop_map(|(key, by)| Step::Increment { key, by }),
        (any_key(), text).prop_map(|(key, value)| Step::Append { key, value }),
        (any_key(), prop::option::of(any_key()), 1u32..6, any::<bool>()).prop_map(
            |(from, to, limit, descending)| Step::Scan { range: KeyRange { from, to }, limit, descending }
        ),
    ]
}

fn any_batch() -> impl Strategy<Value = Batch> {
    let condition = prop_oneof![
        any_key().prop_map(|key| Condition::Absent { key }),
        any_key().prop_map(|key| Condition::Exists { key }),
        (any_key(), -3i64..9).prop_map(|(key, number)| Condition::AtLeast { key, number }),
        (any_key(), "[0-9]{0,1}").prop_map(|(key, text)| Condition::Value { key, value: Value::from(text) }),
    ];
    let conditions = prop_oneof![4 => Just(Vec::new()), 1 => vec(condition, 1..3)];
    (conditions, vec(any_step(), 1..6)).prop_map(|(conditions, steps)| Batch { conditions, steps })
}

proptest! {
    #[test]
    fn several_shards_do_what_one_would(batches in vec(any_batch(), 1..25), count in 1u32..5) {
        let mut whole = Shard::default();
        let mut shards: Vec<Shard> = (0..count).map(|_| Shard::default()).collect();
        for (at, batch) in (1..).zip(batches) {
            let place = place(at);
            let division = Division::of(batch.clone(), &ByLetter(count)).unwrap();
            prop_assert_eq!(division.class == Class::ReadOnly, batch.reads_only());
            // All are committed, and that is undone if one of them refuses.
            let mut votes = BTreeMap::new();
            for (shard, operation) in division.operations() {
                let held = &mut shards[shard.0 as usize];
                held.prepare(place.transaction, &operation);
                votes.insert(shard, held.commit(place));
            }
            let answer = whole.run(place, &Operation::Batch(batch).encode()).unwrap();
            let answer = read_answer(&answer).unwrap();
            let refused = votes.values().any(|answer| matches!(answer, quorate_granola::Answer::Refused(_)));
            prop_assert_eq!(refused, answer.is_err());
            if refused {
                prop_assert!(division.parts.len() == 1 || division.class != Class::Independent);
                for shard in division.parts.keys() {
                    shards[shard.0 as usize].rewind(place);
                }
                let composed = division.compose(&votes);
                prop_assert!(matches!(composed, Err(NoAnswer::Refused { .. })), "{:?}", composed);
            } else {
                prop_assert_eq!(division.compose(&votes).map(Answer::Batch), Ok(answer.unwrap()));
            }
        }
    }
}

#[test]
fn a_scan_of_several_shards_ends_where_the_first_of_them_does() {
    let steps: Vec<Step> = ["a", "b", "c", "d", "e", "f"].map(|name| put(name, name)).to_vec();
    let division = Division::of(batch(&[], &steps), &ByLetter(2)).unwrap();
    let mut shards = [Shard::default(), Shard::default()];
    for (shard, operation) in division.operations() {
        shards[shard.0 as usize].run(place(1), &operation).unwrap();
    }
    for (limit, descending, expected) in
        [(2, false, "ab"), (3, true, "fed"), (6, false, "abcdef"), (1, true, "f")]
    {
        let scan = Step::Scan { range: range("a", ""), limit, descending };
        let division = Division::of(batch(&[], &[scan]), &ByLetter(2)).unwrap();
        let read = |(shard, operation): (ShardId, Value)| {
            (shard, shards[shard.0 as usize].read(place(9), &operation).answer)
        };
        let found = division.compose(&division.operations().into_iter().map(read).collect()).unwrap();
        let [Found::Keys { keys, more }] = &found[..] else { panic!("{found:?}") };
        let names: String =
            keys.iter().map(|found| String::from_utf8_lossy(&found.key).into_owned()).collect();
        assert_eq!((names.as_str(), *more), (expected, expected.len() < 6));
        assert!(keys.iter().all(|found| found.held.place == Some(place(1))));
    }
}
