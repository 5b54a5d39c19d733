//! Calls of procedures, one at a time.

use quorate_core::Value;
use quorate_granola::{Application, Prepared};
use quorate_serializable_shard::{
    Answer, Call, Declared, Deploy, Infer, Inferred, Operation, Refusal, Remove, Shard, Step, read_answer,
};

use crate::batches::{batch, get, key, place, put, range, value};
use crate::library::TestedShard;

fn deploy(name: &str, version: u32, code: &str) -> Value {
    Operation::Deploy(Deploy { name: name.to_owned(), version, code: value(code) }).encode()
}

fn remove(name: &str, version: u32) -> Value {
    Operation::Remove(Remove { name: name.to_owned(), version }).encode()
}

fn call(name: &str, version: u32, arguments: &str, declared: Option<Declared>) -> Value {
    Operation::Call(Call { name: name.to_owned(), version, arguments: value(arguments), declared }).encode()
}

fn infer(name: &str, version: u32, arguments: &str) -> Value {
    Operation::Infer(Infer { name: name.to_owned(), version, arguments: value(arguments) }).encode()
}

fn run(shard: &mut TestedShard, at: u64, operation: &Value) -> Result<Answer, Refusal> {
    read_answer(&shard.run(place(at), operation).expect("nothing is locked")).unwrap()
}

fn held(shard: &TestedShard, name: &str) -> Option<Value> {
    shard.newest(name.as_bytes()).map(|held| held.value.clone())
}

#[test]
fn the_newest_version_is_called_unless_one_is_named() {
    let mut shard = TestedShard::default();
    let missing = |version| Err(Refusal::NoSuchProcedure { name: "p".to_owned(), version });
    assert_eq!(run(&mut shard, 1, &call("p", 0, "", None)), missing(0));
    for (at, version, code) in [(2, 1, "a 1"), (3, 300, "a 3"), (4, 2, "a 2")] {
        assert_eq!(run(&mut shard, at, &deploy("p", version, code)), Ok(Answer::Changed));
    }
    run(&mut shard, 5, &deploy("p2", 999, "a x")).unwrap();
    run(&mut shard, 6, &call("p", 0, "", None)).unwrap();
    run(&mut shard, 7, &call("p", 2, "", None)).unwrap();
    assert_eq!(held(&shard, "a"), Some(value("32")));
    assert_eq!(run(&mut shard, 8, &call("p", 3, "", None)), missing(3));
    assert_eq!(run(&mut shard, 9, &remove("p", 300)), Ok(Answer::Changed));
    assert_eq!(run(&mut shard, 10, &remove("p", 300)), missing(300));
    run(&mut shard, 11, &call("p", 0, "", None)).unwrap();
    assert_eq!(held(&shard, "a"), Some(value("322")));
    // A procedure that was deployed before a place can still be called there.
    let read = |before| read_answer(&shard.read(place(before), &call("p", 300, "", None)).answer).unwrap();
    assert_eq!(read(9), Err(Refusal::ReadOnly));
    assert_eq!(read(10), missing(300));
}

#[test]
fn what_cannot_be_deployed_as_a_table() {
    let mut shard = TestedShard::default();
    run(&mut shard, 1, &deploy("p", 1, "a +")).unwrap();
    let refused = |text: &str| Err(Refusal::Deploy { text: text.to_owned() });
    let table = [
        (deploy("p", 1, "a +"), Ok(Answer::Changed)),
        (deploy("p", 1, "a -"), refused("version 1 of p has other code: give it another number")),
        (deploy("p", 2, "no-line"), refused("this is no line")),
        (deploy("count", 1, "a +"), refused("count is linked with the server: give it another name")),
    ];
    for (at, (operation, expected)) in (2..).zip(table) {
        assert_eq!(run(&mut shard, at, &operation), expected);
    }
    for operation in [deploy("", 1, "a +"), deploy("p\0", 1, "a +"), deploy("p", 0, "a +"), remove("p", 0)] {
        assert!(matches!(run(&mut shard, 9, &operation), Err(Refusal::Malformed { .. })));
    }
    let mut bare = Shard::default();
    let answer = bare.run(place(1), &deploy("p", 1, "a +")).unwrap();
    assert_eq!(read_answer(&answer).unwrap(), refused("this server runs no procedures"));
}

#[test]
fn a_call_that_refuses_or_fails_has_written_nothing() {
    let mut shard = TestedShard::default();
    run(&mut shard, 1, &deploy("p", 1, "a 123456")).unwrap();
    assert_eq!(run(&mut shard, 2, &call("p", 0, "", None)), Ok(Answer::Call(Value::new())));
    let full = Err(Refusal::Procedure { reason: value("full") });
    assert_eq!(run(&mut shard, 3, &call("p", 0, "", None)), full);
    assert_eq!(held(&shard, "a"), Some(value("123456")));
    run(&mut shard, 4, &batch(&[], &[put("a", "1234567890")])).unwrap();
    let failed = Err(Refusal::Failed { text: "overfull".to_owned() });
    assert_eq!(run(&mut shard, 5, &call("p", 0, "", None)), failed);
    assert_eq!(held(&shard, "a"), Some(value("1234567890")));
}

#[test]
fn whatever_a_procedure_makes_of_it_a_lock_is_a_lock_and_a_read_writes_nothing() {
    let mut shard = TestedShard::default();
    let stubborn = call("stubborn", 0, "k", None);
    assert!(matches!(shard.prepare(place(1).transaction, &batch(&[], &[get("k")])), Prepared::Commit(_)));
    assert_eq!(shard.run(place(2), &stubborn), None);
    assert_eq!(shard.prepare(place(3).transaction, &stubborn), Prepared::Conflict);
    let read = shard.read(place(3), &stubborn);
    assert_eq!(read_answer(&read.answer).unwrap(), Err(Refusal::ReadOnly));
    shard.abort(place(1).transaction);
    assert_eq!(run(&mut shard, 4, &stubborn), Ok(Answer::Call(value("Ok(None)"))));
    assert_eq!(held(&shard, "k"), Some(value("stubborn")));
}

#[test]
fn a_call_that_asks_for_its_place_runs_once_it_has_one_and_holds_its_locks_until_then() {
    let mut shard = TestedShard::default();
    let when = call("when", 0, "", None);
    let Prepared::Late(reason) = shard.prepare(place(1).transaction, &when) else {
        panic!("it has asked for its place")
    };
    let refused = read_answer(&quorate_granola::Answer::Refused(reason)).unwrap();
    assert!(matches!(refused, Err(Refusal::Failed { text }) if text.contains("timestamp")));
    assert_eq!(shard.prepared().collect::<Vec<_>>(), [(place(1).transaction, false)]);
    // Only its own keys are locked.
    assert_eq!(shard.prepare(place(2).transaction, &when), Prepared::Conflict);
    assert_eq!(shard.run(place(2), &batch(&[], &[get("when")])), None);
    assert!(shard.run(place(9), &batch(&[], &[put("other", "1")])).is_some());
    let at = place(1).timestamp.as_micros().to_string();
    let answer = shard.commit(place(1));
    assert_eq!(read_answer(&answer).unwrap(), Ok(Answer::Call(value(&at))));
    let mut follower = TestedShard::default();
    assert_eq!(run(&mut follower, 1, &when), Ok(Answer::Call(value(&at))));
    assert_eq!((held(&shard, "when"), held(&follower, "when")), (Some(value(&at)), Some(value(&at))));
    // Given up, it has done nothing.
    assert!(matches!(shard.prepare(place(10).transaction, &when), Prepared::Late(_)));
    shard.abort(place(10).transaction);
    assert_eq!(held(&shard, "when"), Some(value(&at)));
    assert_eq!(run(&mut shard, 11, &when).map(drop), Ok(()));
}

#[test]
fn a_call_touches_only_what_it_has_declared_and_locks_only_that() {
    let mut shard = TestedShard::default();
    let declared = |keys: &[&str], ranges: &[(&str, &str)]| {
        let keys = keys.iter().map(|name| key(name)).collect();
        Some(Declared { keys, ranges: ranges.iter().map(|(from, to)| range(from, to)).collect() })
    };
    let touched = |what: &str| {
        Err(Refusal::Failed { text: format!("it touches {what}, which the call has not declared") })
    };
    let table = [
        (call("count", 0, "", declared(&["x"], &[("", "x")])), Ok(Answer::Call(value("0")))),
        (call("count", 0, "", declared(&["x"], &[("", "")])), Ok(Answer::Call(value("0")))),
        (call("count", 0, "", declared(&["x"], &[("", "w")])), touched("[\"\", \"x\")")),
        (call("count", 0, "", declared(&["y"], &[("", "x")])), touched("b\"x\"")),
        (call("stubborn", 0, "k", declared(&["l"], &[])), touched("[\"k\", \"~\")")),
    ];
    for (at, (operation, expected)) in (1..).zip(table) {
        assert_eq!(run(&mut shard, at, &operation), expected);
    }
    assert!(
        shard.force_prepare(place(10).transaction, &call("count", 0, "", declared(&["x"], &[("", "x")])))
    );
    assert!(shard.run(place(11), &batch(&[], &[put("y", "1")])).is_some());
    assert!(shard.run(place(12), &batch(&[], &[put("a", "1")])).is_none());
    assert!(
        !shard.force_prepare(place(13).transaction, &call("count", 0, "", None)),
        "it may touch anything"
    );
    assert!(shard.run(place(14), &batch(&[], &[put("y", "2")])).is_none());
    shard.abort(place(13).transaction);
    assert!(
        !shard.force_prepare(place(15).transaction, &call("stubborn", 0, "w", None)),
        "w to ~ has x in it"
    );
    assert!(shard.run(place(16), &batch(&[], &[put("y", "2")])).is_none());
    assert_eq!(read_answer(&shard.commit(place(10))).unwrap(), Ok(Answer::Call(value("0"))));
}

#[test]
fn a_procedure_says_what_a_call_would_touch_as_a_table() {
    let mut shard = TestedShard::default();
    let long = format!("{} 1", "k".repeat(4097));
    let codes = [(1, "p", 1, "a 1"), (2, "p", 2, "b 2"), (3, "empty", 1, " 1"), (4, "long", 1, &long)];
    for (at, name, version, code) in codes {
        run(&mut shard, at, &deploy(name, version, code)).unwrap();
    }
    let touches = |version, keys: &[&str], ranges: &[(&str, &str)]| {
        let keys = keys.iter().map(|name| key(name)).collect();
        let ranges = ranges.iter().map(|(from, to)| range(from, to)).collect();
        Ok(Answer::Inferred(Inferred { version, touches: Some(Declared { keys, ranges }) }))
    };
    let failed = |text: &str| Err(Refusal::Failed { text: text.to_owned() });
    let cannot = "what it says that it touches cannot be declared: ";
    let table = [
        (infer("p", 0, ""), touches(2, &["b"], &[])),
        (infer("p", 1, ""), touches(1, &["a"], &[])),
        (infer("p", 3, ""), Err(Refusal::NoSuchProcedure { name: "p".to_owned(), version: 3 })),
        (infer("p", 0, "fail"), failed("it does not say")),
        (infer("p", 0, "much"), Err(Refusal::TooLarge)),
        (infer("stubborn", 0, "k"), touches(0, &[], &[("k", "~")])),
        (infer("stubborn", 0, "~"), touches(0, &[], &[])),
        (infer("count", 0, ""), Ok(Answer::Inferred(Inferred { version: 0, touches: None }))),
        (infer("empty", 0, ""), failed(&format!("{cannot}a key must not be empty"))),
        (
            infer("long", 0, ""),
            failed(&format!("{cannot}the key \"{}…\" has 4097 bytes; the limit is 4096", "k".repeat(40))),
        ),
    ];
    for (operation, expected) in table {
        let read = shard.read(place(9), &operation);
        assert!(read.locked_by.is_none());
        assert_eq!(read_answer(&read.answer).unwrap(), expected);
    }
    assert_eq!(Operation::decode(&infer("p", 0, "")).map(|infer| infer.reads_only()), Ok(true));
    let refused = run(&mut shard, 9, &infer("", 0, ""));
    assert!(matches!(refused, Err(Refusal::Malformed { .. })), "{refused:?}");
}

#[test]
fn what_a_call_would_touch_is_asked_at_a_place() {
    let mut shard = TestedShard::default();
    let version = |answer: &quorate_granola::Answer| match read_answer(answer).unwrap() {
        Ok(Answer::Inferred(inferred)) => inferred.version,
        other => panic!("{other:?} does not say what it touches"),
    };
    run(&mut shard, 1, &deploy("p", 1, "a 1")).unwrap();
    run(&mut shard, 3, &deploy("p", 2, "b 2")).unwrap();
    assert_eq!([3, 4].map(|before| version(&shard.read(place(before), &infer("p", 0, "")).answer)), [1, 2]);
    // Another one is about to be deployed, or not.
    assert!(matches!(shard.prepare(place(5).transaction, &deploy("p", 3, "c 3")), Prepared::Commit(_)));
    assert!(shard.read(place(6), &infer("p", 0, "")).locked_by.is_some());
    assert!(shard.run(place(6), &infer("p", 0, "")).is_none());
    shard.abort(place(5).transaction);
    // It holds off changes of procedures alone.
    assert!(shard.force_prepare(place(7).transaction, &infer("p", 0, "")));
    assert!(shard.run(place(8), &deploy("p", 3, "c 3")).is_none());
    assert!(shard.run(place(9), &batch(&[], &[put("b", "1")])).is_some());
    assert_eq!(version(&shard.commit(place(7))), 2);
}

#[test]
fn a_change_of_procedures_is_in_the_way_of_calls_and_is_undone_with_the_rest() {
    let mut shard = TestedShard::default();
    run(&mut shard, 1, &deploy("p", 1, "a 1")).unwrap();
    shard.settle(None);
    assert!(matches!(shard.prepare(place(2).transaction, &deploy("p", 2, "b 2")), Prepared::Commit(_)));
    assert_eq!(shard.run(place(3), &call("p", 0, "", None)), None);
    assert!(shard.run(place(4), &call("count", 0, "", None)).is_some(), "a linked one is not changed");
    assert!(!shard.force_prepare(place(5).transaction, &call("p", 1, "", None)));
    assert!(shard.run(place(6), &batch(&[], &[put("z", "1")])).is_none(), "nobody knows what it would call");
    shard.abort(place(5).transaction);
    assert_eq!(read_answer(&shard.commit(place(2))).unwrap(), Ok(Answer::Changed));
    run(&mut shard, 7, &call("p", 0, "", None)).unwrap();
    assert_eq!((held(&shard, "a"), held(&shard, "b")), (None, Some(value("2"))));
    shard.rewind(place(2));
    run(&mut shard, 8, &call("p", 0, "", None)).unwrap();
    assert_eq!((held(&shard, "a"), held(&shard, "b")), (Some(value("1")), None));
    assert!(matches!(shard.prepare(place(9).transaction, &call("p", 1, "", None)), Prepared::Commit(_)));
    assert_eq!(shard.run(place(10), &remove("p", 1)), None, "it is about to be called");
}

#[test]
fn procedures_are_handed_over_with_the_keys() {
    let mut shard = TestedShard::default();
    run(&mut shard, 1, &deploy("p", 1, "a 1")).unwrap();
    run(&mut shard, 2, &batch(&[], &[put("z", "1"), Step::Delete { key: key("z") }])).unwrap();
    let mut frozen = shard.freeze(None);
    let pages = std::iter::from_fn(|| TestedShard::next_page(&mut frozen, 1)).collect();
    let mut copy = TestedShard::from_pages(pages);
    run(&mut copy, 3, &call("p", 0, "", None)).unwrap();
    assert_eq!((held(&copy, "a"), copy.len()), (Some(value("1")), 1));
}

#[test]
#[should_panic(expected = "what it has read was undone")]
fn what_was_prepared_on_what_was_undone_is_not_committed() {
    let mut shard = TestedShard::default();
    run(&mut shard, 1, &batch(&[], &[put("k", "1")])).unwrap();
    assert!(matches!(shard.prepare(place(2).transaction, &batch(&[], &[get("k")])), Prepared::Commit(_)));
    shard.rewind(place(1));
    shard.commit(place(2));
}

#[test]
fn a_call_that_declares_too_much_is_refused() {
    let declared = |count| Declared { keys: vec![key("x"); count], ranges: vec![range("", "x")] };
    let mut shard = TestedShard::default();
    let answer = run(&mut shard, 1, &call("count", 0, "", Some(declared(100_000))));
    let text = "100001 keys and ranges are declared; the limit is 100000".to_owned();
    assert_eq!(answer, Err(Refusal::Malformed { text }));
    assert_eq!(
        run(&mut shard, 2, &call("count", 0, "", Some(declared(99_999)))),
        Ok(Answer::Call(value("0")))
    );
}
