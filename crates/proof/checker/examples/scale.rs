//! Measures reading and judging:
//! `cargo run --release -p quorate-checker --example scale -- [SHAPE:]100000 [FILE] [LEVEL..]`, at most levels by default.
//!
//! Writes a list-append history of that many transactions (10 operations each, half of them appends, at most 64 appends to
//! a key and then a new key, 100 sessions at 4 sites that overlap), unless FILE exists already; then reads and judges it.
//! `serial`, the shape by default, satisfies every level. `parallel` comes of sites that commit on their own and exchange
//! what they committed in causal order some time later: it is full of long forks, and satisfies walter-psi and less.

use std::collections::HashMap;
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

/// The levels that are judged unless others are named. `-` stands for the default FILE.
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

/// The store that runs the transactions.
struct Store {
    random: Random,
    is_parallel: bool,
    /// The key in each slot, by number, and how often it was appended to.
    keys: Vec<(usize, usize)>,
    next_key: usize,
    next_value: usize,
    /// One if the history is serial.
    sites: Vec<SiteState>,
}

/// The state of one site.
#[derive(Default)]
struct SiteState {
    lists: HashMap<usize, Vec<usize>>,
    /// How much of the log of each site is in the lists.
    applied: Vec<usize>,
    /// The commits of this site.
    log: Vec<Commit>,
}

#[derive(Clone)]
struct Commit {
    /// How much of the log of each site it saw.
    snapshot: Vec<usize>,
    /// Keys and values.
    appends: Vec<(usize, usize)>,
}

impl Store {
    fn new(is_parallel: bool) -> Self {
        let sites = if is_parallel { SITES.len() } else { 1 };
        let site = || SiteState { applied: vec![0; sites], ..SiteState::default() };
        Store {
            random: Random(7),
            is_parallel,
            keys: (0..KEYS).map(|key| (key, 0)).collect(),
            next_key: KEYS,
            next_value: 1,
            sites: (0..sites).map(|_| site()).collect(),
        }
    }

    /// Runs one transaction at a site and returns its operations as invoked and as completed.
    fn transaction(&mut self, site: usize) -> (String, String) {
        let site = site % self.sites.len();
        let (mut invoked, mut completed) = (String::from("["), String::from("["));
        let snapshot = self.sites[site].applied.clone();
        let mut appends = Vec::new();
        for op in 0..10 {
            let separator = if op > 0 { "," } else { "" };
            let mut slot = self.random.below(KEYS);
            let is_append = self.random.below(2) == 0;
            if is_append && self.is_parallel {
                // Each key is appended to at one site only, so that nothing conflicts.
                slot = slot / SITES.len() * SITES.len() + site;
            }
            if is_append && self.keys[slot].1 == APPENDS_PER_KEY {
                self.keys[slot] = (self.next_key, 0);
                self.next_key += 1;
            }
            let (key, length) = &mut self.keys[slot];
            let list = self.sites[site].lists.entry(*key).or_default();
            if is_append {
                let append = format!("{separator}[\"append\",{key},{}]", self.next_value);
                list.push(self.next_value);
                appends.push((*key, self.next_value));
                *length += 1;
                self.next_value += 1;
                invoked += &append;
                completed += &append;
            } else {
                invoked += &format!("{separator}[\"r\",{key},null]");
                completed += &format!("{separator}[\"r\",{key},{list:?}]").replace(' ', "");
            }
        }
        self.sites[site].applied[site] += 1;
        self.sites[site].log.push(Commit { snapshot, appends });
        self.propagate();
        (invoked + "]", completed + "]")
    }

    /// Lets some site apply what some other one has committed and it has not seen.
    fn propagate(&mut self) {
        for _ in 0..3 * (self.sites.len() - 1) {
            let (from, to) = (self.random.below(self.sites.len()), self.random.below(self.sites.len()));
            let next = self.sites[to].applied[from];
            let Some(Commit { snapshot, appends }) = self.sites[from].log.get(next).cloned() else {
                continue;
            };
            let applied = &self.sites[to].applied;
            if from == to || snapshot.iter().zip(applied).any(|(needed, has)| needed > has) {
                continue;
            }
            for (key, value) in appends {
                self.sites[to].lists.entry(key).or_default().push(value);
            }
            self.sites[to].applied[from] += 1;
        }
    }
}

fn generate(txns: usize, is_parallel: bool, mut out: impl Write) -> std::io::Result<()> {
    let mut store = Store::new(is_parallel);
    let mut open: Vec<Option<String>> = vec![None; SESSIONS];
    let (mut index, mut started) = (0, 0);
    while started < txns || open.iter().any(Option::is_some) {
        let process = store.random.below(SESSIONS);
        let (event, value) = match open[process].take() {
            Some(completed) => ("ok", completed),
            None if started == txns => continue,
            None => {
                let (invoked, completed) = store.transaction(process % SITES.len());
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
    let size = arguments.next().unwrap_or_else(|| "100000".to_owned());
    let (shape, txns) = size.split_once(':').unwrap_or(("serial", &size));
    let is_parallel = match shape {
        "serial" => false,
        "parallel" => true,
        _ => return Err(format!("no such shape: {shape}; there are serial and parallel").into()),
    };
    let txns = txns.parse()?;
    let default = || std::env::temp_dir().join(format!("quorate-scale-{shape}-{txns}.jsonl"));
    let path = arguments.next().filter(|file| file != "-").map_or_else(default, PathBuf::from);
    if !path.exists() {
        generate(txns, is_parallel, BufWriter::new(File::create(&path)?))?;
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
