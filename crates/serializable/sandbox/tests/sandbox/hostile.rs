//! Modules that mean no good: nothing panics, and work and memory are bounded.

use proptest::prelude::*;
use quorate_procedure::{Answer, Procedure};
use quorate_serializable_sandbox::{Limits, Module};

use crate::common::{IMPORTS, Shard, bytes};
use crate::example::TRANSFER;

/// Little enough that each case takes no time.
const TIGHT: Limits = Limits {
    module_bytes_max: 1 << 20,
    functions_max: 1_000,
    locals_max: 500,
    memory_bytes_max: 2 << 20,
    depth_max: 100,
    fuel: 200_000,
};

/// Loads and calls whatever these bytes are. Nothing but panics and endless loops could go wrong.
fn survive(bytes: &[u8]) -> bool {
    let Ok(module) = Module::new(bytes, TIGHT) else { return false };
    let mut store = Shard::new(&[("ada", &[1; 8]), ("bob", &[2; 8])]);
    for arguments in [&b"\x03ada\x03bob\x01\0\0\0\0\0\0\0"[..], b"", &[7; 300]] {
        let first = module.run(&mut store.clone(), arguments);
        assert_eq!(first, module.run(&mut store.clone(), arguments), "a call has left something behind");
        let _ = module.call(&mut store, arguments);
        module.footprint(arguments);
    }
    true
}

/// A piece of a random program: it writes somewhere, in one of all ways.
fn write() -> impl Strategy<Value = String> {
    let address = prop_oneof![0..200u32, 4_080..4_110u32, 0..65_536u32, 65_500..65_536u32];
    let kind = prop::sample::select(vec!["i32.store", "i32.store8", "i32.store16"]);
    let long = prop::sample::select(vec!["i64.store", "i64.store8", "i64.store16", "i64.store32"]);
    let offset = prop_oneof![Just(0u32), 0..5_000u32];
    let length = prop_oneof![0..10u32, 4_000..9_000u32];
    prop_oneof![
        (kind, offset.clone(), address.clone(), any::<i32>()).prop_map(|(kind, offset, at, value)| format!(
            "({kind} offset={offset} (i32.const {at}) (i32.const {value}))"
        )),
        (long, offset, address.clone(), any::<i64>()).prop_map(|(kind, offset, at, value)| format!(
            "({kind} offset={offset} (i32.const {at}) (i64.const {value}))"
        )),
        (address.clone(), any::<u8>(), length.clone()).prop_map(|(at, value, length)| format!(
            "(memory.fill (i32.const {at}) (i32.const {value}) (i32.const {length}))"
        )),
        (address.clone(), address.clone(), length).prop_map(|(at, from, length)| format!(
            "(memory.copy (i32.const {at}) (i32.const {from}) (i32.const {length}))"
        )),
        any::<i64>()
            .prop_map(|value| format!("(global.set $long (i64.add (global.get $long) (i64.const {value})))")),
        address.clone().prop_map(|at| format!("(call $arguments (i32.const {at}))")),
        (address.clone(), 0..3_000u32).prop_map(|(at, length)| format!(
            "(drop (call $get (i32.const 100) (i32.const 1) (i32.const {at}) (i32.const {length})))"
        )),
        address.prop_map(|at| format!("(call $fetch (i32.const {at}))")),
        Just("(drop (memory.grow (i32.const 1)))".to_owned()),
    ]
}

/// Shows all of the memory and the global, and then writes.
fn showing(writes: &[String]) -> Vec<u8> {
    bytes(&format!(
        r#"(global $long (mut i64) (i64.const 7))
           (data (i32.const 100) "k") (data (i32.const 4090) "0123456789")
           (func (export "call") (param $length i32) (result i32)
             (call $answer (i32.const 0) (i32.const 65536))
             (call $put (i32.const 100) (i32.const 1) (i32.const 0) (i32.const 16))
             (if (i64.ne (global.get $long) (i64.const 7)) (then (unreachable)))
             {}
             (i32.const 0))"#,
        writes.join("\n")
    ))
}

proptest! {
    #[test]
    fn each_call_begins_with_the_memory_that_the_module_declares(writes in prop::collection::vec(write(), 1..8)) {
        let mut expected = vec![0; 65_536];
        expected[100] = b'k';
        expected[4_090..4_100].copy_from_slice(b"0123456789");
        let module = Module::new(&showing(&writes), Limits::default()).unwrap();
        let mut store = Shard::new(&[("k", &[9; 2_000])]);
        let mut results = Vec::new();
        for _ in 0..3 {
            store.memory.pairs.insert(b"k".to_vec(), vec![9; 2_000]);
            match module.run(&mut store, &[5; 700]) {
                Ok(answer) => {
                    prop_assert!(answer == Answer::Done(expected.clone()), "the memory was not as declared");
                    results.push(None);
                }
                Err(failure) => {
                    prop_assert!(!failure.reason().contains("unreachable"), "{failure}");
                    results.push(Some(failure));
                }
            }
        }
        prop_assert_eq!(&results[0], &results[1]);
        prop_assert_eq!(&results[1], &results[2]);
    }

    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survive(&bytes);
        survive(&[b"\0asm\x01\0\0\0", &bytes[..]].concat());
    }

    #[test]
    fn valid_modules_with_bytes_changed_are_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = TRANSFER.to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        survive(&bytes);
    }

    #[test]
    fn valid_modules_that_are_cut_or_doubled_are_survived(at in any::<prop::sample::Index>(), length in 0..100usize) {
        let at = at.index(TRANSFER.len());
        let end = (at + length).min(TRANSFER.len());
        survive(&[&TRANSFER[..at], &TRANSFER[end..]].concat());
        survive(&[&TRANSFER[..end], &TRANSFER[at..]].concat());
        survive(&TRANSFER[..at]);
    }
}

/// Without this, the tests above could survive because nothing is ever accepted.
#[test]
fn some_modules_with_a_byte_changed_are_still_accepted() {
    let accepted = (0..TRANSFER.len()).step_by(7).filter(|at| {
        let mut bytes = TRANSFER.to_vec();
        bytes[*at] ^= 1;
        survive(&bytes)
    });
    // Each takes as long as it takes to load one.
    assert_eq!(accepted.take(20).count(), 20);
}

fn whole(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the text is well formed")
}

#[test]
fn what_is_made_to_be_expensive_is_refused_or_cheap() {
    let call =
        "(memory (export \"memory\") 1) (func (export \"call\") (param i32) (result i32) (i32.const 0))";
    let nested = format!("(func {} {})", "(block ".repeat(5_000), ")".repeat(5_000));
    let table = format!("(func (block (br_table {} (i32.const 0))))", "0 ".repeat(10_000));
    let cases = [
        format!("(module {IMPORTS} {call} {nested})"),
        format!("(module {IMPORTS} {call} {table})"),
        format!("(module {IMPORTS} {call} {})", "(func (local i64 i64 i64))".repeat(900)),
        format!("(module {IMPORTS} {call} {})", "(func (i32.store (i32.const 0) (i32.const 0)))".repeat(900)),
        format!(
            "(module {IMPORTS} {call} (table 10000 funcref) {})",
            "(elem (i32.const 0) 0 1 2 3 4 5 6 7)".repeat(4_000)
        ),
    ];
    for text in cases {
        assert!(survive(&whole(&text)), "{}", &text[..2_000.min(text.len())]);
    }
    // Fifty thousand local variables in each of many functions would be cleared each time that one is called.
    let many = format!("(func (local {}))", "i64 ".repeat(501));
    assert!(!survive(&whole(&format!("(module {call} {many})"))));
}

#[test]
fn a_guest_cannot_reach_what_notes_its_writes() {
    let store = "(i32.store 1 (i32.const 0) (i32.const 0))";
    let text = format!(
        "(module (memory (export \"memory\") 1) (memory 1) (func (export \"call\") (param i32) (result i32) {store} (i32.const 0)))"
    );
    assert!(Module::new(&whole(&text), Limits::default()).is_err());
    // The name under which it is exported is taken.
    let name = "quorate touched";
    let text = format!(
        "(module (memory (export \"memory\") (export \"{name}\") 1) (func (export \"call\") (param i32) (result i32) (i32.const 0)))"
    );
    assert!(Module::new(&whole(&text), Limits::default()).is_err());
}
