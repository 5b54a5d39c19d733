//! The cost of operations at a shard: `cargo run --release --example cost -p quorate-serializable-shard`.
//!
//! Each operation is settled once it has run, as at a replica that follows the log, or at a leader that has
//! caught up with it. Keys are drawn at random from a million, so most of them are not in any cache.

use std::hint::black_box;
use std::time::Instant;

use quorate_core::{ClientId, ClockTime, Key, KeyRange, Random, TransactionId, Value};
use quorate_granola::{Application, Place};
use quorate_serializable_shard::{Batch, Condition, Operation, Shard, Step};

const KEYS: u64 = 1_000_000;

fn place(at: u64) -> Place {
    let transaction = TransactionId { client: ClientId(7), sequence: at, attempt: 0 };
    Place { timestamp: ClockTime::from_micros(at), transaction }
}

fn key(number: u64) -> Key {
    Key::from(format!("account/{number:012}"))
}

fn operation(steps: Vec<Step>) -> Value {
    Operation::Batch(Batch { conditions: Vec::new(), steps }).encode()
}

/// Runs an operation for each of many keys, in turns, and says what one costs in the median turn, and in the
/// fastest.
fn measure(shard: &mut Shard, at: &mut u64, what: &str, mut of_key: impl FnMut(Key) -> Value) {
    const TURN: usize = 1_000;
    const TURNS: usize = 200;
    let mut random = Random::new(*at);
    let mut turn = || {
        // They have just come in, so they are in the cache, as a server's would be.
        let operations: Vec<Value> = (0..TURN).map(|_| of_key(key(random.below(KEYS)))).collect();
        let start = Instant::now();
        for operation in &operations {
            *at += 1;
            black_box(shard.run(place(*at), operation));
            shard.settle(None);
        }
        start.elapsed().as_nanos() as usize / TURN
    };
    let mut turns: Vec<usize> = (0..TURNS).map(|_| turn()).collect();
    turns.sort_unstable();
    println!("{what:<40} {:>6} ns {:>6} ns", turns[turns.len() / 2], turns[0]);
}

fn main() {
    let value = Value::from(vec![b'x'; 100]);
    let mut shard = Shard::default();
    let start = Instant::now();
    for number in 0..KEYS {
        let put = Step::Put { key: key(number), value: value.clone() };
        shard.run(place(number + 1), &operation(vec![put]));
        shard.settle(None);
    }
    println!("{:<40} {:>6} ns", "a put of the next key", start.elapsed().as_nanos() as u64 / KEYS);

    let mut at = KEYS + 1;
    let get = |key: Key| Step::Get { key };
    let put = |key: Key| Step::Put { key, value: value.clone() };
    measure(&mut shard, &mut at, "get", |key| operation(vec![get(key)]));
    measure(&mut shard, &mut at, "put", |key| operation(vec![put(key)]));
    measure(&mut shard, &mut at, "get and put", |key| operation(vec![get(key.clone()), put(key)]));
    measure(&mut shard, &mut at, "put if it exists", |key| {
        let conditions = vec![Condition::Exists { key: key.clone() }];
        Operation::Batch(Batch { conditions, steps: vec![put(key)] }).encode()
    });
    measure(&mut shard, &mut at, "scan of ten keys", |from| {
        let range = KeyRange { from, to: None };
        operation(vec![Step::Scan { range, limit: 10, descending: false }])
    });

    let start = Instant::now();
    let frozen = shard.freeze(None);
    println!("{:<40} {:>6} µs", "to freeze a million keys", start.elapsed().as_micros());
    measure(&mut shard, &mut at, "get and put, while that is frozen", |key| {
        operation(vec![get(key.clone()), put(key)])
    });
    drop(frozen);
}
