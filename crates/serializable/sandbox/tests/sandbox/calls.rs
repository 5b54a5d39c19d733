//! The effects of a call, and the errors that stop it.

use crate::common::{Shard, calling, module};
use quorate_procedure::{Answer, Footprint, Procedure, Stop};
use quorate_serializable_sandbox::{Limits, Module};

/// Answers with the value of the key that the arguments are; refuses if there is none.
const READ: &str = r#"
    (local $got i32)
    (call $arguments (i32.const 0))
    (local.set $got (call $get (i32.const 0) (local.get $length) (i32.const 1000) (i32.const 8)))
    (if (i32.eq (local.get $got) (i32.const -1)) (then (return (i32.const 1))))
    (if (i32.gt_u (local.get $got) (i32.const 8)) (then (call $fetch (i32.const 1000))))
    (call $answer (i32.const 1000) (local.get $got))
    (i32.const 0)"#;

#[test]
fn a_value_is_read_short_or_long_or_not_there() {
    let long = vec![7; 5_000];
    let mut store = Shard::new(&[("a", b"one"), ("long", &long), ("empty", b"")]);
    let read = calling(READ);
    assert_eq!(read.call(&mut store, b"a"), Ok(Answer::Done(b"one".to_vec())));
    assert_eq!(read.call(&mut store, b"long"), Ok(Answer::Done(long)));
    assert_eq!(read.call(&mut store, b"empty"), Ok(Answer::Done(Vec::new())));
    assert_eq!(read.call(&mut store, b"b"), Ok(Answer::Refused(Vec::new())));
}

#[test]
fn a_call_puts_and_deletes() {
    let both = calling(
        r#"(i32.store (i32.const 0) (i32.const 0x64636261))
           (call $put (i32.const 0) (i32.const 1) (i32.const 1) (i32.const 3))
           (call $delete (i32.const 3) (i32.const 1))
           (i32.const 0)"#,
    );
    let mut store = Shard::new(&[("d", b"gone")]);
    assert_eq!(both.call(&mut store, b""), Ok(Answer::Done(Vec::new())));
    assert_eq!(store.memory.pairs, Shard::new(&[("a", b"bcd")]).memory.pairs);
}

#[test]
fn a_scan_gives_pairs_from_either_end() {
    // The arguments are the limit and the direction; the answer is that of the scan.
    let scan = module(
        r#"(data (i32.const 100) "az")
           (func (export "call") (param $length i32) (result i32) (local $got i32)
             (call $arguments (i32.const 0))
             (local.set $got (call $scan (i32.const 100) (i32.const 1) (i32.const 101) (i32.const 1)
               (i32.load8_u (i32.const 0)) (i32.load8_u (i32.const 1)) (i32.const 200) (i32.const 20)))
             (if (i32.gt_u (local.get $got) (i32.const 20)) (then (call $fetch (i32.const 200))))
             (call $answer (i32.const 200) (local.get $got))
             (i32.const 0))"#,
    );
    let mut store = Shard::new(&[("a", b"1"), ("bb", b"22"), ("c", b""), ("z", b"not")]);
    let a = b"\x01\0\0\0\x01\0\0\0a1".to_vec();
    let b = b"\x02\0\0\0\x02\0\0\0bb22".to_vec();
    let c = b"\x01\0\0\0\0\0\0\0c".to_vec();
    let cases = [
        ([9, 0], [&a[..], &b, &c].concat()),
        ([2, 0], [&a[..], &b].concat()),
        ([1, 1], c.clone()),
        ([9, 1], [&c[..], &b, &a].concat()),
        ([0, 0], Vec::new()),
    ];
    for (arguments, expected) in cases {
        assert_eq!(scan.call(&mut store, &arguments), Ok(Answer::Done(expected)), "{arguments:?}");
    }
}

#[test]
fn a_lock_ends_a_call_at_once_whatever_the_guest_does() {
    // It would go on for ever, and write, if it came back.
    let stubborn = calling(
        r#"(i32.store (i32.const 0) (i32.const 0x6261))
           (drop (call $get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))
           (call $put (i32.const 1) (i32.const 1) (i32.const 1) (i32.const 1))
           (loop $again (br $again))
           (i32.const 0)"#,
    );
    let mut store = Shard { locked: Some(b"a".to_vec()), ..Shard::default() };
    assert_eq!(stubborn.call(&mut store, b""), Err(Stop::Locked));
    assert_eq!(store.calls, 1);
    assert!(store.memory.pairs.is_empty());
}

#[test]
fn what_the_store_refuses_is_passed_on() {
    let empty_key =
        calling("(call $put (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const 0)");
    assert_eq!(empty_key.call(&mut Shard::default(), b""), Err(Stop::InvalidKey));
}

/// The reason with which a module fails that does this.
fn reason(body: &str) -> String {
    let module = calling(body);
    assert_eq!(module.call(&mut Shard::default(), b"argument"), Err(Stop::Failed), "{body}");
    let failure = module.take_failure().expect("there is a reason");
    assert_eq!(module.take_failure(), None);
    // The next call knows nothing of it, and fails in the same way.
    assert_eq!(module.run(&mut Shard::default(), b"argument"), Err(failure.clone()), "{body}");
    failure.reason().to_owned()
}

#[test]
fn whatever_goes_wrong_ends_a_call_with_its_reason() {
    let cases = [
        ("(unreachable)", "the procedure has trapped: wasm `unreachable` instruction executed"),
        (
            "(loop $again (br $again)) (unreachable)",
            "the procedure has used up the work that a call may take",
        ),
        ("(i32.div_u (i32.const 1) (i32.const 0))", "the procedure has trapped: integer divide by zero"),
        ("(i32.load (i32.const -1))", "the procedure has trapped: out of bounds memory access"),
        ("(memory.grow (i32.const 1000))", "the procedure wants more memory than it may have"),
        ("(i32.const 2)", "the procedure has returned 2, which is neither 0 nor 1"),
        (
            "(call $arguments (i32.const 65530)) (i32.const 0)",
            "the procedure has passed an address outside its memory",
        ),
        (
            "(call $answer (i32.const -1) (i32.const 1)) (i32.const 0)",
            "the procedure has passed an address outside its memory",
        ),
        (
            "(call $answer (i32.const 60000) (i32.const 9999)) (i32.const 0)",
            "the procedure has passed an address outside its memory",
        ),
        (
            "(drop (call $get (i32.const 65536) (i32.const 1) (i32.const 0) (i32.const 0))) (i32.const 0)",
            "the procedure has passed an address outside its memory",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(reason(body), expected, "{body}");
    }
    let deep = module("(func $call (export \"call\") (param i32) (result i32) (call $call (local.get 0)))");
    assert_eq!(deep.call(&mut Shard::default(), b""), Err(Stop::Failed));
    assert_eq!(deep.take_failure().unwrap().reason(), "the procedure calls itself too deeply");
}

#[test]
fn a_guest_can_say_why_it_fails() {
    let module = module(
        r#"(data (i32.const 8) "no such account")
           (func (export "call") (param i32) (result i32)
             (call $fail (i32.const 8) (i32.const 15)) (i32.const 0))"#,
    );
    let failure = module.run(&mut Shard::default(), b"").unwrap_err();
    assert_eq!((failure.stop(), failure.reason()), (Stop::Failed, "no such account"));
}

#[test]
fn asking_the_store_takes_fuel_by_the_byte() {
    let put =
        "(loop $again (call $put (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 60000)) (br $again))";
    let text = format!("(func (export \"call\") (param i32) (result i32) {put} (i32.const 0))");
    let limits = Limits { fuel: 100_000, ..Limits::default() };
    let module = Module::new(&crate::common::bytes(&text), limits).unwrap();
    let mut store = Shard::default();
    assert_eq!(module.call(&mut store, b""), Err(Stop::Failed));
    assert!((5..20).contains(&store.calls), "{}", store.calls);
}

#[test]
fn a_call_sees_nothing_of_another() {
    // It counts in its memory, in a global and in memory that it adds, and answers with what it has counted.
    let text = r#"
        (global $count (mut i32) (i32.const 5))
        (data (i32.const 16) "\07")
        (func (export "call") (param $length i32) (result i32)
          (global.set $count (i32.add (global.get $count) (i32.const 1)))
          (i32.store (i32.const 0) (global.get $count))
          (i32.store8 (i32.const 16) (i32.add (i32.load8_u (i32.const 16)) (i32.const 1)))
          (i32.store8 (i32.const 4) (i32.load8_u (i32.const 16)))
          (i64.store (i32.const 65528) (i64.add (i64.load (i32.const 65528)) (i64.const 1)))
          (i32.store8 (i32.const 5) (i32.load8_u (i32.const 65528)))
          (call $arguments (i32.const 40000))
          (i32.store8 (i32.const 6) (memory.size))
          (if (i32.eq (local.get $length) (i32.const 1)) (then (drop (memory.grow (i32.const 3)))))
          (i32.store8 (i32.const 7) (i32.load8_u (i32.const 40001)))
          (memory.fill (i32.const 9000) (i32.add (i32.load8_u (i32.const 9999)) (i32.const 1)) (i32.const 1000))
          (memory.copy (i32.const 20000) (i32.const 9000) (i32.const 10000))
          (i32.store8 (i32.const 8) (i32.load8_u (i32.const 20500)))
          (if (i32.eq (local.get $length) (i32.const 3)) (then (unreachable)))
          (call $answer (i32.const 0) (i32.const 9))
          (i32.const 0))"#;
    let module = module(text);
    let expected = |second: u8| Ok(Answer::Done(vec![6, 0, 0, 0, 8, 1, 1, second, 1]));
    let mut store = Shard::default();
    for _ in 0..3 {
        assert_eq!(module.call(&mut store, b"ab"), expected(b'b'));
        assert_eq!(module.call(&mut store, b"a"), expected(0));
        assert_eq!(module.call(&mut store, b"abc"), Err(Stop::Failed));
        assert_eq!(module.clone().call(&mut store, b"ab"), expected(b'b'));
    }
}

#[test]
fn a_footprint_is_what_the_module_names() {
    let call = "(func (export \"call\") (param i32) (result i32) (i32.const 0))";
    assert_eq!(module(call).footprint(b""), Footprint::Everything);

    let names = module(&format!(
        r#"{call} (data (i32.const 0) "abc")
           (func (export "footprint") (param $length i32) (result i32)
             (call $footprint_key (i32.const 0) (i32.const 2))
             (call $footprint_range (i32.const 1) (i32.const 1) (i32.const 2) (i32.const 1))
             (local.get $length))"#
    ));
    let keys = Footprint::Keys { keys: vec![b"ab".to_vec()], ranges: vec![(b"b".to_vec(), b"c".to_vec())] };
    assert_eq!(names.footprint(b"x"), keys);
    assert_eq!(names.footprint(b"x"), keys);
    assert_eq!(names.footprint(b""), Footprint::Everything);
    // Any other result is a mistake, and then the call may touch anything.
    assert!(names.try_footprint(b"xx").unwrap_err().reason().contains("neither 0 nor 1"));
    assert_eq!(names.footprint(b"xx"), Footprint::Everything);

    let reads = module(&format!(
        r#"{call} (func (export "footprint") (param i32) (result i32)
             (call $get (i32.const 0) (i32.const 2) (i32.const 0) (i32.const 0)))"#
    ));
    assert!(reads.try_footprint(b"").unwrap_err().reason().contains("while it was asked for its footprint"));
    let endless = module(&format!(
        r#"{call} (func (export "footprint") (param i32) (result i32)
             (loop $again (call $footprint_key (i32.const 0) (i32.const 2)) (br $again)) (i32.const 1))"#
    ));
    assert!(endless.try_footprint(b"").unwrap_err().reason().contains("too much of its footprint"));
}
