//! Measures reading and judging:
//! `cargo run --release -p quorate-checker --example scale -- 100000 [FILE] [LEVEL..]`, at most levels by default.
//!
//! Writes a valid list-append history of that many transactions (10 operations each, half of them appends, at
//! most 64 appends to a key and then a new key, 100 sessions at 4 sites that overlap), unless FILE exists already; then
//! reads and judges it.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use quorate_checker::{History, Level, check};

const SESSIONS: usize = 100;
const SITES: [&str; 4] = ["A", "B", "C", "D"];
const KEYS: usize = 100;
const APPENDS_PER_KEY: usize = 64;

/// What is judged unless levels are named. `-` stands for the default FILE.
const LEVELS: [Level; 6] =
    [Level::StrictSerializable, Level::StrongSi, Level::Si, Level::Psi, Level::WalterPsi, Level::Causal];

/// A small generator of its own, so that a file depends on nothing but its size.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

struct Generator {
    random: Random,
    keys: Vec<(usize, Vec<usize>)>,
    next_key: usize,
    next_value: usize,
}

impl Generator {
    /// Runs one transaction and returns its operations as invoked and as completed.
    fn transaction(&mut self) -> (String, String) {
        let (mut invoked, mut completed) = (String::from("["), String::from("["));
        for op in 0..10 {
            let separator = if op > 0 { "," } else { "" };
            let slot = self.random.below(KEYS);
            if self.keys[slot].1.len() == APPENDS_PER_KEY {
                self.keys[slot] = (self.next_key, Vec::new());
                self.next_key += 1;
            }
            let (key, list) = &mut self.keys[slot];
            if self.random.below(2) == 0 {
                let append = format!("{separator}[\"append\",{key},{}]", self.next_value);
                list.push(self.next_value);
                self.next_value += 1;
                invoked += &append;
                completed += &append;
            } else {
                invoked += &format!("{separator}[\"r\",{key},null]");
                completed += &format!("{separator}[\"r\",{key},{list:?}]").replace(' ', "");
            }
        }
        (invoked + "]", completed + "]")
    }
}

fn generate(txns: usize, mut out: impl Write) -> std::io::Result<()> {
    let keys = (0..KEYS).map(|key| (key, Vec::new())).collect();
    let mut generator = Generator { random: Random(7), keys, next_key: KEYS, next_value: 1 };
    let mut open: Vec<Option<String>> = vec![None; SESSIONS];
    let (mut index, mut started) = (0, 0);
    while started < txns || open.iter().any(Option::is_some) {
        let process = generator.random.below(SESSIONS);
        let (event, value) = match open[process].take() {
            Some(completed) => ("ok", completed),
            None if started == txns => continue,
            None => {
                let (invoked, completed) = generator.transaction();
                open[process] = Some(completed);
                started += 1;
                ("invoke", invoked)
            }
        };
        writeln!(
            out,
            "{{\"index\":{index},\"type\":\"{event}\",\"process\":{process},\"f\":\"txn\",\"time\":{},\"site\":\"{}\",\"value\":{value}}}",
            index * 1000,
            SITES[process % SITES.len()]
        )?;
        index += 1;
    }
    out.flush()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let txns = arguments.next().map_or(Ok(100_000), |txns| txns.parse())?;
    let default = || std::env::temp_dir().join(format!("quorate-scale-{txns}.jsonl"));
    let path = arguments.next().filter(|file| file != "-").map_or_else(default, PathBuf::from);
    if !path.exists() {
        generate(txns, BufWriter::new(File::create(&path)?))?;
    }
    println!("{}: {} MB", path.display(), path.metadata()?.len() >> 20);
    let start = Instant::now();
    let history = History::read(File::open(&path)?)?;
    println!("read   {:>8.3} s", start.elapsed().as_secs_f64());
    let named = arguments.map(|name| name.parse()).collect::<Result<Vec<Level>, _>>()?;
    for level in if named.is_empty() { LEVELS.to_vec() } else { named } {
        let start = Instant::now();
        let report = check(&history, level);
        println!("judged {:>8.3} s  {report}", start.elapsed().as_secs_f64());
    }
    Ok(())
}
