//! The modules that are accepted, and the errors that are told of others.

use crate::common::{IMPORTS, bytes, refused};
use quorate_serializable_sandbox::{Invalid, Limits, Module};

const CALL: &str = "(func (export \"call\") (param i32) (result i32) (i32.const 0))";

fn whole(text: &str) -> Result<(), String> {
    let bytes = wat::parse_str(text).expect("the text is well formed");
    Module::new(&bytes, Limits::default()).map(drop).map_err(|invalid| invalid.to_string())
}

#[test]
fn a_module_needs_memory_and_something_to_call() {
    assert_eq!(whole(&format!("(module (memory (export \"memory\") 1) {CALL})")), Ok(()));
    let error = whole(&format!("(module {CALL})")).unwrap_err();
    assert_eq!(
        error,
        "the module does not export its memory as `memory`: through it, keys and values are passed"
    );
    let error = whole("(module (memory (export \"memory\") 1))").unwrap_err();
    assert!(error.contains("does not export a function `call` that takes an i32 and returns one"), "{error}");
    let error = whole("(module (memory (export \"memory\") 1) (func (export \"call\")))").unwrap_err();
    assert!(error.contains("does not export a function `call`"), "{error}");
    let other = format!("(module (memory (export \"memory\") 1) {CALL} (func (export \"footprint\")))");
    assert!(whole(&other).unwrap_err().contains("`footprint`"));
}

#[test]
fn what_is_no_module_is_said_to_be_none() {
    for bytes in [&b""[..], b"\0asm", b"(module)", b"\0asm\x01\0\0\0\x01"] {
        let error = Module::new(bytes, Limits::default()).unwrap_err();
        assert!(matches!(error, Invalid::Malformed(_) | Invalid::MissingExport { .. }), "{error}");
    }
}

#[test]
fn imports_that_do_not_exist_are_named() {
    let clock = "(module (import \"wasi_snapshot_preview1\" \"clock_time_get\" (func)))";
    assert_eq!(
        whole(clock).unwrap_err(),
        "the module imports `wasi_snapshot_preview1.clock_time_get`, which does not exist: what exists is in `quorate_1`, as functions: \
         arguments, get, put, delete, scan, fetch, answer, fail, footprint_key, footprint_range"
    );
    let random = "(module (import \"quorate_1\" \"random\" (func)))";
    assert!(whole(random).unwrap_err().contains("`quorate_1.random`"));
    let memory = "(module (import \"quorate_1\" \"get\" (memory 1)))";
    assert!(whole(memory).unwrap_err().contains("as functions"));
    let other = "(module (import \"quorate_1\" \"get\" (func (param i32) (result i32))))";
    assert_eq!(
        whole(other).unwrap_err(),
        "the module imports `get` with another type than (key, key_length, buffer, capacity: i32) -> i32"
    );
    let other = "(module (import \"quorate_1\" \"fetch\" (func (param i64))))";
    assert!(whole(other).unwrap_err().contains("(buffer: i32)"));
}

#[test]
fn floats_are_refused_by_name() {
    let error = refused(&format!("{CALL} (func (drop (f64.add (f64.const 1) (f64.const 2))))"));
    assert!(matches!(error, Invalid::Floats { at } if at > 0), "{error}");
    let error = refused(&format!("{CALL} (func (param f32))"));
    assert!(matches!(error, Invalid::Floats { .. }), "{error}");
    assert!(error.to_string().contains("calculate with integers"));
    let error = refused(&format!("{CALL} (func (drop (i32.trunc_sat_f32_s (f32.const 2))))"));
    assert!(matches!(error, Invalid::Floats { .. }), "{error}");
}

#[test]
fn what_would_outlast_a_call_is_refused() {
    let table = "(table 4 funcref) (elem declare func $f) (func $f)";
    for instruction in [
        "(table.set 0 (i32.const 0) (ref.func $f))",
        "(drop (table.grow 0 (ref.func $f) (i32.const 1)))",
        "(table.fill 0 (i32.const 0) (ref.func $f) (i32.const 1))",
        "(table.copy (i32.const 0) (i32.const 1) (i32.const 1))",
    ] {
        let error = refused(&format!("{CALL} {table} (func {instruction})"));
        assert!(matches!(error, Invalid::Unsupported { .. }), "{instruction}: {error}");
    }
    let error = refused(&format!("{CALL} (data $d \"x\") (func (data.drop $d))"));
    assert!(matches!(error, Invalid::Unsupported { .. }), "{error}");
    let error = refused(&format!("{CALL} (func $s) (start $s)"));
    assert_eq!(error, Invalid::StartFunction);
}

#[test]
fn extensions_that_are_not_the_same_everywhere_are_refused() {
    for text in [
        "(func (drop (v128.const i32x4 0 0 0 0)))",
        "(memory 1)",
        "(memory i64 1)",
        "(tag)",
        "(func $f (return_call $f))",
        "(func (drop (i32.atomic.load (i32.const 0))))",
        "(global i32 (i32.add (i32.const 1) (i32.const 2)))",
    ] {
        refused(&format!("{CALL} {text}"));
    }
}

#[test]
fn there_is_not_too_much_of_anything() {
    let limits = Limits { module_bytes_max: 100, ..Limits::default() };
    let error = Module::new(&bytes(CALL), limits).unwrap_err();
    assert!(matches!(error, Invalid::TooLong { max: 100, .. }), "{error}");

    let limits = Limits { functions_max: 2, ..Limits::default() };
    let error = Module::new(&bytes(&format!("{CALL} (func) (func)")), limits).unwrap_err();
    assert_eq!(error.to_string(), "the module has 3 functions, and may have 2");

    let locals = "i64 ".repeat(1_001);
    let error = refused(&format!("{CALL} (func (local {locals}))"));
    assert!(error.to_string().contains("local variables"), "{error}");

    let text = format!("(module {IMPORTS} (memory (export \"memory\") 300) {CALL})");
    assert!(whole(&text).unwrap_err().contains("bytes of memory"));
    let error = refused(&format!("{CALL} (table 1000000 funcref)"));
    assert!(error.to_string().contains("elements in its table"), "{error}");
    let error = refused(&format!("{CALL} {}", "(global i32 (i32.const 0))".repeat(1_001)));
    assert!(error.to_string().contains("globals"), "{error}");
}

#[test]
fn segments_fit_into_the_memory() {
    let error = refused(&format!("{CALL} (data (i32.const 65535) \"too far\")"));
    assert!(matches!(error, Invalid::Malformed(_)), "{error}");
}
