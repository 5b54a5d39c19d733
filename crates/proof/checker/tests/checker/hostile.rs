//! Spoiled files: whatever the bytes, the reader answers; it accepts nothing that is not JSON, and what it
//! accepts can be judged.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use quorate_checker::{History, Level, ReadError, check};

use crate::expand;

/// Bytes that mean something to the format, or to nobody.
const BYTES: &[u8] = b"{}[]\",:\\0123456789-+.eE \t\n\ntrufalsn\x00\x1f\x7f\xc3\xff";
/// Pieces that may be put somewhere else than they belong.
const PIECES: [&str; 17] = [
    "null",
    "{}",
    "[]",
    "{\"1\":-1}",
    "[1,1]",
    "\"\\u00e9\"",
    "\"\\ud800\"",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1e400",
    "\"observed\":true,",
    "\"elsewhere\":true,",
    "\"index\":0,",
    "\"site\":\"A\",",
    "\"ts\":[1,2],",
    "[\"r\",\"x\",null],",
];

/// A file with everything that the format knows.
fn rich_history() -> String {
    expand(
        r#"
        invoke 0 @al #A [["append","x",1],["r","x",null],["w","r",1]]
        invoke 1 #B [["add","s",4],["rem","s",5],["r","s",null]]
        spec   0 [["append","x",1],["r","x",[1]],["w","r",1]]
        ok     1 ts=3 [["add","s",4],["rem","s",5],["r","s",{"4":1,"5":-1}]]
        ok     0 ts=3:1 [["append","x",1],["r","x",[1]],["w","r",1]]
        invoke 0 @al #A [["append","x",2],["r",7,null]]
        invoke 2 [["r","r",null],["append","x",3]]
        fail   0 ! [["append","x",2],["r",7,null]]
        info   2 [["r","r",null],["append","x",3]]
        lost   1 [["add","s",4],["rem","s",5],["r","s",{}]]
        invoke 3 [["r","x",null],["r","r",null]]
        ok     3 [["r","x",[1,3]],["r","r",1]]
    "#,
    )
}

#[derive(Debug, Clone)]
enum Damage {
    Replace(Index, Index),
    Remove(Index, usize),
    Insert(Index, Index),
    Piece(Index, Index),
    /// Copies so many bytes from one place to another.
    Copy(Index, Index, usize),
    /// Cuts the file off.
    End(Index),
    /// Exchanges two lines.
    Swap(Index, Index),
    /// Exchanges two lines and keeps the indices in order.
    Reorder(Index, Index),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let place = any::<Index>;
    let damage = prop_oneof![
        (place(), place()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        (place(), 1..40_usize).prop_map(|(at, len)| Damage::Remove(at, len)),
        (place(), place()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        (place(), place()).prop_map(|(at, piece)| Damage::Piece(at, piece)),
        (place(), place(), 1..60_usize).prop_map(|(from, to, len)| Damage::Copy(from, to, len)),
        place().prop_map(Damage::End),
        (place(), place()).prop_map(|(one, other)| Damage::Swap(one, other)),
        (place(), place()).prop_map(|(one, other)| Damage::Reorder(one, other)),
    ];
    proptest::collection::vec(damage, 1..4)
}

fn spoil(mut bytes: Vec<u8>, damage: &Damage) -> Vec<u8> {
    if bytes.is_empty() {
        return bytes;
    }
    let len = bytes.len();
    match damage {
        Damage::Replace(at, byte) => bytes[at.index(len)] = BYTES[byte.index(BYTES.len())],
        Damage::Remove(at, count) => {
            let at = at.index(len);
            bytes.drain(at..(at + count).min(len));
        }
        Damage::Insert(at, byte) => bytes.insert(at.index(len), BYTES[byte.index(BYTES.len())]),
        Damage::Piece(at, piece) => {
            let at = at.index(len);
            bytes.splice(at..at, PIECES[piece.index(PIECES.len())].bytes());
        }
        Damage::Copy(from, to, count) => {
            let (from, to) = (from.index(len), to.index(len));
            let copied = bytes[from..(from + count).min(len)].to_vec();
            bytes.splice(to..to, copied);
        }
        Damage::End(at) => bytes.truncate(at.index(len)),
        Damage::Swap(one, other) => bytes = exchange(&bytes, one, other, false),
        Damage::Reorder(one, other) => bytes = exchange(&bytes, one, other, true),
    }
    bytes
}

fn exchange(bytes: &[u8], one: &Index, other: &Index, renumber: bool) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let (one, other) = (one.index(lines.len()), other.index(lines.len()));
    lines.swap(one, other);
    if renumber {
        for (index, line) in lines.iter_mut().enumerate() {
            let Some(rest) = line.iter().position(|&byte| byte == b',') else { continue };
            line.splice(..rest, format!("{{\"index\":{index}").into_bytes());
            let text = String::from_utf8_lossy(line).replace("\"time\":", "\"time\":1,\"was\":");
            *line = text.into_bytes();
        }
    }
    lines.concat()
}

#[test]
fn spoiled_files_are_refused_with_a_line_or_judged() {
    let cases = std::env::var("QUORATE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    let result = runner.run(&damages(), |damages| {
        let bytes = damages.iter().fold(rich_history().into_bytes(), spoil);
        match History::read(&bytes[..]) {
            Ok(history) => {
                accepted.set(accepted.get() + 1);
                let lines = bytes.split_inclusive(|&byte| byte == b'\n');
                for line in lines {
                    let parsed = serde_json::from_slice::<serde_json::Value>(line);
                    prop_assert!(parsed.is_ok(), "accepted {}", String::from_utf8_lossy(line));
                }
                for level in Level::ALL {
                    check(&history, level);
                }
            }
            Err(ReadError::Malformed { line, reason }) => {
                refused.set(refused.get() + 1);
                let lines = bytes.split_inclusive(|&byte| byte == b'\n').count() as u64;
                prop_assert!((1..=lines.max(1)).contains(&line), "line {line} of {lines}: {reason}");
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
    let (accepted, refused) = (accepted.get(), refused.get());
    assert!(accepted * 50 > cases && refused * 2 > cases, "{accepted} accepted, {refused} refused");
}
