//! Batches, one at a time: what conditions and steps do, as tables.

use quorate_core::{ClientId, ClockTime, Key, KeyRange, TransactionId, Value};
use quorate_granola::{Application, Place, Prepared};
use quorate_serializable_shard::{
    Answer, Batch, Condition, Found, FoundKey, Held, Operation, Refusal, Shard, Step, StepFault, read_answer,
};

pub(crate) fn place(timestamp: u64) -> Place {
    let transaction = TransactionId { client: ClientId(1), sequence: timestamp, attempt: 0 };
    Place { timestamp: ClockTime::from_micros(timestamp), transaction }
}

pub(crate) fn key(name: &str) -> Key {
    Key::from(name)
}

pub(crate) fn value(text: &str) -> Value {
    Value::copy_from_slice(text.as_bytes())
}

pub(crate) fn range(from: &str, to: &str) -> KeyRange {
    KeyRange { from: key(from), to: (!to.is_empty()).then(|| key(to)) }
}

pub(crate) fn put(name: &str, text: &str) -> Step {
    Step::Put { key: key(name), value: value(text) }
}

pub(crate) fn get(name: &str) -> Step {
    Step::Get { key: key(name) }
}

pub(crate) fn batch(conditions: &[Condition], steps: &[Step]) -> Value {
    Operation::Batch(Batch { conditions: conditions.to_vec(), steps: steps.to_vec() }).encode()
}

pub(crate) fn run(shard: &mut Shard, at: u64, operation: &Value) -> Result<Answer, Refusal> {
    let answer = shard.run(place(at), operation).expect("nothing is locked");
    let read = read_answer(&answer).expect("a shard answers what can be read");
    if let (quorate_granola::Answer::Done(bytes), Ok(read)) = (answer, &read) {
        assert_eq!(read.encode(), bytes, "whoever writes it, it has the same bytes");
    }
    read
}

fn held(at: u64, text: &str) -> Held {
    Held { place: Some(place(at)), value: value(text) }
}

/// A version that the reader has written itself.
fn own(text: &str) -> Held {
    Held { place: None, value: value(text) }
}

/// A shard in which `a` holds 7 since 10, and `b` holds x since 20; `c` was removed at 30.
fn shard() -> Shard {
    let mut shard = Shard::default();
    run(&mut shard, 10, &batch(&[], &[put("a", "7"), put("c", "y")])).unwrap();
    run(&mut shard, 20, &batch(&[], &[put("b", "x")])).unwrap();
    run(&mut shard, 30, &batch(&[], &[Step::Delete { key: key("c") }])).unwrap();
    shard
}

#[test]
fn conditions_as_a_table() {
    let unchanged = |from, to, before, keys| Condition::Unchanged { range: range(from, to), before, keys };
    let table = [
        (Condition::Absent { key: key("a") }, Some(Some(held(10, "7")))),
        (Condition::Absent { key: key("c") }, None),
        (Condition::Absent { key: key("d") }, None),
        (Condition::Exists { key: key("b") }, None),
        (Condition::Exists { key: key("c") }, Some(None)),
        (Condition::Version { key: key("a"), version: place(10) }, None),
        (Condition::Version { key: key("a"), version: place(11) }, Some(Some(held(10, "7")))),
        (Condition::Version { key: key("c"), version: place(10) }, Some(None)),
        (Condition::Value { key: key("b"), value: value("x") }, None),
        (Condition::Value { key: key("b"), value: value("") }, Some(Some(held(20, "x")))),
        (Condition::Value { key: key("d"), value: value("") }, Some(None)),
        (Condition::AtLeast { key: key("a"), number: 7 }, None),
        (Condition::AtLeast { key: key("a"), number: i64::MIN }, None),
        (Condition::AtLeast { key: key("a"), number: 8 }, Some(Some(held(10, "7")))),
        // It is no number, and what is absent counts as zero.
        (Condition::AtLeast { key: key("b"), number: i64::MIN }, Some(Some(held(20, "x")))),
        (Condition::AtLeast { key: key("c"), number: 0 }, None),
        (Condition::AtLeast { key: key("d"), number: 1 }, Some(None)),
        (unchanged("a", "d", place(21), 2), None),
        (unchanged("a", "", place(21), 2), None),
        (unchanged("a", "d", place(20), 2), Some(None)),
        (unchanged("a", "d", place(21), 3), Some(None)),
        (unchanged("a", "d", place(21), 1), Some(None)),
        (unchanged("c", "d", place(1), 0), None),
        (unchanged("d", "a", place(1), 0), None),
    ];
    for (condition, fails) in table {
        let mut shard = shard();
        let conditions = [Condition::Exists { key: key("a") }, condition.clone()];
        let answer = run(&mut shard, 40, &batch(&conditions, &[put("d", "new")]));
        let expected = match fails.clone() {
            None => Ok(Answer::Batch(vec![Found::Done])),
            Some(found) => Err(Refusal::Condition { condition: 1, found }),
        };
        assert_eq!(answer, expected, "{condition:?}");
        assert_eq!(shard.newest(b"d").is_some(), fails.is_none(), "{condition:?}");
    }
}

#[test]
fn steps_as_a_table() {
    let increment = |name, by| Step::Increment { key: key(name), by };
    let append = |name, text| Step::Append { key: key(name), value: value(text) };
    let scan = |limit, descending| Step::Scan { range: range("", ""), limit, descending };
    let found = |name, held| FoundKey { key: key(name), held };
    let keys = |keys: &[FoundKey], more| Found::Keys { keys: keys.to_vec(), more };
    let (a, b) = (found("a", held(10, "7")), found("b", held(20, "x")));
    let table = [
        (vec![get("a"), get("c")], Ok(vec![Found::Held(held(10, "7")), Found::Absent])),
        (vec![put("a", "8"), get("a")], Ok(vec![Found::Done, Found::Held(own("8"))])),
        (vec![Step::Delete { key: key("a") }, get("a")], Ok(vec![Found::Done, Found::Absent])),
        (vec![increment("a", -8), increment("d", 5)], Ok(vec![Found::Number(-1), Found::Number(5)])),
        (vec![put("a", "1"), increment("b", 1)], Err((1, StepFault::NotANumber))),
        (vec![increment("a", i64::MAX)], Err((0, StepFault::Overflow))),
        (vec![append("b", "yz"), append("d", "")], Ok(vec![Found::Length(3), Found::Length(0)])),
        (vec![append("b", "yz"), get("b")], Ok(vec![Found::Length(3), Found::Held(own("xyz"))])),
        (vec![scan(5, false)], Ok(vec![keys(&[a.clone(), b.clone()], false)])),
        (vec![scan(2, true)], Ok(vec![keys(&[b.clone(), a.clone()], false)])),
        (vec![scan(1, true)], Ok(vec![keys(std::slice::from_ref(&b), true)])),
        (
            vec![put("aa", "new"), Step::Delete { key: key("b") }, scan(5, false), scan(1, true)],
            Ok(vec![
                Found::Done,
                Found::Done,
                keys(&[a, found("aa", own("new"))], false),
                keys(&[found("aa", own("new"))], true),
            ]),
        ),
    ];
    for (steps, expected) in table {
        let expected = match expected {
            Ok(found) => Ok(Answer::Batch(found)),
            Err((step, fault)) => Err(Refusal::Step { step, fault }),
        };
        let operation = batch(&[], &steps);
        let mut at_once = shard();
        assert_eq!(run(&mut at_once, 40, &operation), expected, "{steps:?}");
        let mut prepared = shard();
        let vote = prepared.prepare(place(40).transaction, &operation);
        let answer = prepared.commit(place(40));
        assert_eq!(read_answer(&answer).unwrap(), expected, "{steps:?}");
        match vote {
            Prepared::Commit(promised) => assert_eq!(promised, answer, "{steps:?}"),
            Prepared::Abort(reason) => {
                assert_eq!(quorate_granola::Answer::Refused(reason), answer, "{steps:?}")
            }
            Prepared::Late(_) => panic!("a batch does not ask for its place"),
            Prepared::Conflict => panic!("nothing is locked"),
        }
        assert_eq!(pages(&prepared), pages(&at_once), "{steps:?}");
    }
}

fn pages(shard: &Shard) -> Vec<quorate_serializable_shard::Page> {
    let mut frozen = shard.freeze(None);
    std::iter::from_fn(|| Shard::next_page(&mut frozen, 64)).collect()
}

#[test]
fn what_only_reads_must_not_write() {
    let shard = shard();
    let read = shard.read(place(40), &batch(&[], &[get("a"), put("a", "8")]));
    assert_eq!(read_answer(&read.answer).unwrap(), Err(Refusal::ReadOnly));
}

#[test]
fn a_scan_ends_after_about_a_mebibyte() {
    let mut shard = Shard::default();
    let large = Value::from(vec![b'x'; 700_000]);
    for (at, name) in (1..).zip(["a", "b", "c"]) {
        let step = Step::Put { key: key(name), value: large.clone() };
        run(&mut shard, at, &batch(&[], &[step])).unwrap();
    }
    let scan = Step::Scan { range: range("", ""), limit: 10, descending: false };
    let Ok(Answer::Batch(found)) = run(&mut shard, 9, &batch(&[], &[scan])) else { panic!("it is a scan") };
    let Found::Keys { keys, more } = &found[0] else { panic!("{found:?}") };
    assert_eq!((keys.len(), *more), (2, true));
    let gets: Vec<Step> = std::iter::repeat_n(get("a"), 15).collect();
    assert_eq!(run(&mut shard, 10, &batch(&[], &gets)), Err(Refusal::TooLarge));
}

#[test]
fn what_is_no_operation_is_refused() {
    let mut shard = shard();
    let long = "k".repeat(5_000);
    let operations = [
        Value::new(),
        value("no operation"),
        batch(&[], &[get("")]),
        batch(&[], &[get(&long)]),
        batch(&[], &[Step::Scan { range: range("", ""), limit: 0, descending: false }]),
        batch(&[], &[Step::Scan { range: range(&long, ""), limit: 1, descending: false }]),
        batch(&[Condition::Absent { key: key("") }], &[]),
    ];
    for operation in operations {
        let answer = run(&mut shard, 50, &operation);
        assert!(matches!(answer, Err(Refusal::Malformed { .. })), "{operation:?}: {answer:?}");
        let vote = shard.prepare(place(60).transaction, &operation);
        assert!(matches!(vote, Prepared::Abort(_)), "{vote:?}");
        shard.abort(place(60).transaction);
    }
}

#[test]
fn a_batch_of_too_many_steps_is_refused() {
    let operation = batch(&[], &std::iter::repeat_n(get("a"), 100_001).collect::<Vec<_>>());
    assert!(matches!(run(&mut shard(), 40, &operation), Err(Refusal::Malformed { .. })));
    let operation = batch(&[], &std::iter::repeat_n(get("a"), 100_000).collect::<Vec<_>>());
    assert!(matches!(run(&mut shard(), 40, &operation), Ok(Answer::Batch(_))));
}

#[test]
#[should_panic(expected = "runs below what it touches")]
fn nothing_is_written_below_what_stands() {
    run(&mut shard(), 15, &batch(&[], &[put("b", "late")])).unwrap();
}

#[test]
#[should_panic(expected = "runs below what it touches")]
fn nothing_is_written_below_where_it_was_removed() {
    run(&mut shard(), 25, &batch(&[], &[put("c", "late")])).unwrap();
}

#[test]
#[should_panic(expected = "runs below what it touches")]
fn nothing_is_read_below_what_was_written() {
    drop(run(&mut shard(), 15, &batch(&[], &[get("b")])));
}

#[test]
#[should_panic(expected = "is undone, and was settled")]
fn nothing_is_undone_that_is_settled() {
    let mut shard = shard();
    shard.settle(None);
    shard.rewind(place(15));
}

#[test]
fn where_disorder_is_allowed_it_is_counted() {
    let mut shard = shard();
    shard.allow_disorder();
    run(&mut shard, 15, &batch(&[], &[put("b", "late")])).unwrap();
    assert_eq!(shard.disorders(), 1);
    shard.settle(None);
    shard.rewind(place(15));
    assert_eq!(shard.disorders(), 2);
    drop(shard.read(place(15), &batch(&[], &[get("a")])));
    assert_eq!(shard.disorders(), 3);
}
