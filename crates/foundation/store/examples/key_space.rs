//! Fills a key space, and prints how much memory a key takes and how long it takes to find one.
//!
//! ```text
//! cargo run --release -p quorate-store --example key_space -- KEYS VALUE_BYTES [shuffled]
//! ```

use std::time::Instant;

use quorate_core::attic::Memory;
use quorate_core::{ClientId, Key, Random, Timestamp, Value};
use quorate_store::Versions;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| match arguments.next() {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("{text} is not a number of keys or bytes")),
        None => default,
    };
    let (keys, value_bytes) = (number(1_000_000), number(100));
    let mut random = Random::new(1);
    let mut order: Vec<usize> = (0..keys).collect();
    let is_shuffled = arguments.next().is_some_and(|word| word == "shuffled");
    if is_shuffled {
        random.shuffle(&mut order);
    }
    let resident = resident_bytes();
    let mut versions = Versions::new();
    let filling = timed(keys, |at| versions.install(&key(order[at]), at_micros(1), value(value_bytes)));
    let taken = resident_bytes().saturating_sub(resident);
    let name = if is_shuffled { "in any order" } else { "ascending" };
    println!("{keys} keys of 16 bytes, {name}, with values of {value_bytes} bytes");
    println!("  memory:   {:.1} bytes a key", taken as f64 / keys as f64);
    let Memory { index, values, .. } = versions.memory();
    let each = |bytes: usize| bytes as f64 / keys as f64;
    println!("  of these: {:.1} for the key, {:.1} for its value", each(index), each(values));
    println!("  insert:   {filling:.0} ns");
    let mut sum = 0;
    let finding = timed(keys, |_| sum += versions.newest_timestamp(&key(random.index(keys))).micros);
    println!("  validate: {finding:.0} ns");
    let reading = timed(keys, |_| {
        let (_, value) = versions.held(&key(random.index(keys)));
        sum += value.map_or(0, |value| value.len() as u64);
    });
    println!("  read:     {reading:.0} ns");
    let overwriting = timed(keys, |at| {
        let micros = at as u64 + 2;
        versions.install(&key(random.index(keys)), at_micros(micros), value(value_bytes));
        versions.collect(at_micros(micros), 2);
    });
    println!("  write:    {overwriting:.0} ns, and collect");
    let mut all = versions.iter();
    let scanning = timed(keys, |_| sum += all.next().map_or(0, |(_, version)| version.timestamp.micros));
    println!("  scan:     {scanning:.0} ns a key");
    // Nothing of it was for nothing.
    assert_ne!(sum, 0);
}

fn key(number: usize) -> Key {
    Key::from(format!("key-{number:012}"))
}

fn value(bytes: usize) -> Option<Value> {
    Some(Value::from(vec![b'v'; bytes]))
}

fn at_micros(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(1) }
}

/// Nanoseconds that each of so many calls takes.
fn timed(count: usize, mut call: impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    (0..count).for_each(&mut call);
    begin.elapsed().as_nanos() as f64 / count as f64
}

/// The memory of this process that is in use.
fn resident_bytes() -> usize {
    let pages =
        std::fs::read_to_string("/proc/self/statm").expect("Linux says how much memory a process takes");
    let resident = pages.split_whitespace().nth(1).expect("the second number is what is resident");
    resident.parse::<usize>().expect("it is a number of pages") * 4_096
}
