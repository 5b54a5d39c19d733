//! Runs every script in `testscripts` and compares what happens with what is written there.
//!
//! A script is a sequence of blocks: commands, a line `---`, and what they led to. `QUORATE_BLESS=1 cargo test -p
//! quorate-tapir` writes what happens into the scripts; read the difference before you commit it.
//!
//! | command | meaning |
//! |---|---|
//! | `cluster shards=S replicas=N [published]` | first; keys `a…` go to shard 1 and keys `b…` to shard 2, if there is one |
//! | `clock WHO MICROS` | sets the physical clock of a client (`c1`) or replica (`1/r0`) |
//! | `begin c1 7`, `get c1 7 a`, `put c1 7 a x`, `scan c1 7 a z`, `commit c1 7`, `abort c1 7`, `resolve c1 c2.7` | a client's commands |
//! | `read c1 7 a b`, `read-at c1 7 MICROS a`, `read-stale c1 7 MICROS a`, `read-clock c1 7 MICROS a` | read-only transactions: strict, at a timestamp, stale within a bound, strict within a bound of clocks |
//! | `deliver` | delivers messages, and what they lead to, until none is left |
//! | `hold WHO`, `release WHO` | keeps messages to WHO back from now on; lets them go |
//! | `drop WHO` | loses the messages to WHO that are on their way or held back |
//! | `repeat WHO` | delivers every message that WHO ever received once more |
//! | `advance MILLISECONDS` | lets time pass; timers fire |
//! | `crash WHO`, `restart WHO`, `lose WHO` | kills; brings back with its disk; brings back without |
//! | `show WHO` | what a replica holds |

mod describe;
mod world;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use world::World;

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testscripts");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    scripts.sort();
    scripts
}

fn run(text: &str) -> String {
    let mut world = World::default();
    let mut result = String::new();
    let mut in_output = false;
    let mut pending = Vec::new();
    for line in text.lines() {
        if line == "---" {
            in_output = true;
            result.push_str("---\n");
            for event in std::mem::take(&mut pending) {
                writeln!(result, "{event}").unwrap();
            }
        } else if line.is_empty() {
            in_output = false;
            result.push('\n');
        } else if !in_output {
            writeln!(result, "{line}").unwrap();
            if !line.starts_with('#') {
                pending.extend(world.command(line));
            }
        }
    }
    result
}

#[test]
fn scripts_tell_what_happens() {
    let bless = std::env::var_os("QUORATE_BLESS").is_some();
    let mut differing = Vec::new();
    for path in scripts() {
        let expected = std::fs::read_to_string(&path).unwrap();
        let actual = run(&expected);
        if actual != expected {
            let first = expected.lines().zip(actual.lines()).find(|(one, other)| one != other);
            differing.push(format!("{}: {first:?}", path.file_name().unwrap().to_string_lossy()));
            if bless {
                std::fs::write(&path, actual).unwrap();
            }
        }
    }
    assert!(bless || differing.is_empty(), "scripts differ; QUORATE_BLESS=1 rewrites them: {differing:#?}");
}
