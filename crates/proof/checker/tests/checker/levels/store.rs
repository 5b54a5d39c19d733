//! Simulated stores, from strict to causal, that produce random tiny histories, most of them just about valid
//! for the level that the store promises and invalid for the ones above.
//!
//! A store keeps its commits in one order of arbitration. A transaction reads from the commits that its
//! snapshot holds. Which ones these are, and which conflicts abort it, depends on the kind of store; bugs are
//! rare and random.

use std::collections::BTreeMap;

use quorate_checker::{Key, MicroOp, Observed};

use super::random::Random;
use super::tape::{End, Entry, Tape};

/// The keys of each type.
pub(crate) const LISTS: std::ops::Range<i64> = 0..3;
pub(crate) const REGISTERS: std::ops::Range<i64> = 3..6;
pub(crate) const SETS: std::ops::Range<i64> = 6..8;

/// The promise of a store, as far as no bug strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A transaction reads and commits in one instant.
    Serial,
    /// A transaction reads a prefix of the commits; the first of two conflicting ones wins.
    Snapshot,
    /// Every site has its own order of commits; the first of two conflicting ones wins everywhere.
    Parallel,
    /// The same without conflicts.
    Causal,
    /// Snapshots hold local commits of the own site.
    Speculative,
}

/// A commit, final or local.
struct Commit {
    ops: Vec<MicroOp>,
    site: usize,
    /// The commits in its snapshot, and itself.
    past: u32,
    is_final: bool,
    is_aborted: bool,
}

struct Running {
    entry: usize,
    snapshot: u32,
    /// Its local commit.
    local: Option<usize>,
}

struct Store<'a> {
    random: &'a mut Random,
    kind: Kind,
    /// In percent, how often a snapshot lags behind, and how often a check for conflicts is forgotten.
    lag: usize,
    bugs: usize,
    /// In percent, how many steps propagate a commit to another site, and how many transactions read every key.
    spread: usize,
    scans: usize,
    /// So many transactions write first, and all later ones read every key: a likely fork.
    writers_first: usize,
    /// In percent, how many transactions read one key and write two others.
    skews: usize,
    /// In percent, how many snapshots miss a commit that is older than others which they hold.
    skewed: usize,
    keep_sessions: bool,
    sites: usize,
    sessions: usize,
    keys: Vec<i64>,
    commits: Vec<Commit>,
    /// Per site the commits that it has applied.
    applied: Vec<u32>,
    /// Per session all that it has seen or committed.
    pasts: Vec<u32>,
    running: Vec<Running>,
    tape: Tape,
    next_value: i64,
    moment: usize,
}

/// A random history of at most `txns_max` transactions.
pub(crate) fn history(random: &mut Random, txns_max: usize) -> Tape {
    let kinds = [Kind::Serial, Kind::Snapshot, Kind::Parallel, Kind::Parallel, Kind::Parallel, Kind::Causal];
    let writers_first = random.pick(&[0, 0, 2, 3]);
    let forks = writers_first > 0 && random.percent(70);
    let kind = match () {
        () if forks => random.pick(&[Kind::Parallel, Kind::Parallel, Kind::Causal]),
        () if random.percent(35) => Kind::Speculative,
        () => random.pick(&kinds),
    };
    let families: [Vec<i64>; 8] = [
        vec![0, 1],
        vec![3, 4],
        vec![6, 7],
        LISTS.collect(),
        vec![0],
        REGISTERS.collect(),
        vec![0, 1, 3],
        vec![0, 3, 4, 6],
    ];
    let keys = families[random.below(if forks { 4 } else { families.len() })].clone();
    let sites_max = if kind == Kind::Speculative { 2 } else { 3 };
    let sites = if forks { 2 } else { 1 + random.below(sites_max) };
    let sessions = 1 + random.below(5);
    let mut store = Store {
        kind,
        lag: random.pick(&[0, 20, 40, 80]),
        bugs: random.pick(&[0, 0, 0, 10, 50]),
        spread: random.pick(if forks { &[5, 15] } else { &[5, 20, 60] }),
        scans: random.pick(&[10, 40]),
        writers_first,
        skews: if kind == Kind::Speculative { random.pick(&[0, 50]) } else { random.pick(&[0, 0, 0, 70]) },
        skewed: if kind == Kind::Speculative { random.pick(&[0, 0, 40]) } else { 0 },
        keep_sessions: random.percent(40),
        sites,
        sessions,
        keys,
        commits: Vec::new(),
        applied: vec![0; sites],
        pasts: vec![0; sessions],
        running: Vec::new(),
        tape: Tape { entries: Vec::new(), by_process: random.percent(30) },
        next_value: 0,
        moment: 0,
        random,
    };
    let txns = if forks { txns_max.max(4) } else { txns_max - store.random.below(txns_max.min(3)) };
    store.run(txns);
    store.tape
}

impl Store<'_> {
    fn run(&mut self, txns: usize) {
        let concurrent = self.random.pick(&[1, 2, 4, 6]);
        while self.tape.entries.len() < txns || !self.running.is_empty() {
            self.moment += 10;
            let may_begin = self.tape.entries.len() < txns && self.running.len() < concurrent;
            if self.random.percent(self.spread) {
                self.propagate();
            } else if may_begin && (self.running.is_empty() || self.random.percent(50)) {
                self.begin();
            } else if !self.running.is_empty() {
                let at = self.random.below(self.running.len());
                self.proceed(at);
            }
        }
    }

    fn all(&self) -> u32 {
        let finals = self.commits.iter().enumerate().filter(|(_, commit)| commit.is_final);
        finals.fold(0, |all, (at, _)| all | 1 << at)
    }

    fn begin(&mut self) {
        let turn = self.tape.entries.len() % self.sites;
        let site = if self.writers_first > 0 { turn } else { self.random.below(self.sites) };
        let session = self.random.below(self.sessions);
        let mut snapshot = match self.kind {
            Kind::Serial | Kind::Snapshot | Kind::Speculative => self.all(),
            Kind::Parallel | Kind::Causal => self.applied[site],
        };
        if self.random.percent(self.lag) {
            snapshot &= (1_u32 << self.random.below(self.commits.len() + 1)) - 1;
        }
        if self.kind == Kind::Speculative && !self.commits.is_empty() && self.random.percent(self.skewed) {
            // Clocks are skewed: some commit is above the snapshot, although later ones are below it.
            let above = self.random.below(self.commits.len());
            for (at, commit) in self.commits.iter().enumerate() {
                if commit.past >> above & 1 == 1 {
                    snapshot &= !(1 << at);
                }
            }
        }
        if self.keep_sessions {
            snapshot |= self.pasts[session];
        }
        if self.kind == Kind::Speculative {
            for (at, commit) in self.commits.iter().enumerate() {
                let is_seen = commit.site == site || self.random.percent(self.bugs / 5);
                let is_there = !commit.is_aborted || self.random.percent(self.bugs);
                if !commit.is_final && is_there && is_seen && !self.random.percent(self.bugs / 2) {
                    // A bug: the commit is seen without what it saw.
                    let is_alone = self.random.percent(self.bugs / 2);
                    snapshot |= if is_alone { 1 << at } else { commit.past };
                }
            }
        }
        let ops = self.ops(snapshot);
        self.running.push(Running { entry: self.tape.entries.len(), snapshot, local: None });
        self.tape.entries.push(Entry {
            ops,
            spec: None,
            site: Some(site),
            session,
            end: End::Open,
            invoked_at: self.moment,
            ended_at: self.moment,
        });
    }

    /// Runs a random transaction on a snapshot.
    fn ops(&mut self, snapshot: u32) -> Vec<MicroOp> {
        let mut ops: Vec<MicroOp> = Vec::new();
        let is_late = self.writers_first > 0 && self.tape.entries.len() >= self.writers_first;
        if is_late && self.random.percent(80) || self.random.percent(self.scans) {
            // The commits that a transaction sees show in the keys that it does not pass over.
            let passed_over = self.random.pick(&[0, 0, 40]);
            for key in self.keys.clone() {
                if !self.random.percent(passed_over) {
                    ops.push(MicroOp::Read(key.into(), self.read(key, snapshot, &[])));
                }
            }
            if self.random.percent(20) {
                let key = self.random.pick(&self.keys);
                ops.push(self.write(key));
            }
            return ops;
        }
        if self.keys.len() > 1 && self.random.percent(self.skews) {
            // Reads one key and writes two others, the first of which everybody writes.
            let [read, written] = [self.random.pick(&self.keys), self.random.pick(&self.keys)];
            let observed = self.read(read, snapshot, &[]);
            ops.extend([self.write(self.keys[0]), self.write(written)]);
            let at = if read == self.keys[0] || read == written { 0 } else { self.random.below(3) };
            ops.insert(at, MicroOp::Read(read.into(), observed));
            return ops;
        }
        let count = if self.writers_first > 0 { 1 } else { 1 + self.random.below(4) };
        let writes = if self.writers_first > 0 { 80 } else { self.random.pick(&[0, 30, 50, 50, 80]) };
        for _ in 0..count {
            let key = self.random.pick(&self.keys);
            if self.random.percent(writes) {
                ops.push(self.write(key));
            } else {
                let observed = self.read(key, snapshot, &ops);
                ops.push(MicroOp::Read(key.into(), observed));
            }
        }
        ops
    }

    fn write(&mut self, key: i64) -> MicroOp {
        if SETS.contains(&key) {
            let element = self.random.below(2) as i64;
            let update = self.random.pick(&[MicroOp::Add, MicroOp::Add, MicroOp::Remove]);
            return update(key.into(), element);
        }
        self.next_value += 1;
        let write = if LISTS.contains(&key) { MicroOp::Append } else { MicroOp::Write };
        write(key.into(), self.next_value)
    }

    fn read(&self, key: i64, snapshot: u32, own: &[MicroOp]) -> Observed {
        let in_snapshot = self.commits.iter().enumerate().filter(|(at, _)| snapshot >> at & 1 == 1);
        let ops = in_snapshot.flat_map(|(_, commit)| &commit.ops).chain(own);
        let (mut values, mut counts) = (Vec::new(), BTreeMap::new());
        for op in ops {
            match op {
                MicroOp::Append(at, value) if *at == Key::Int(key) => values.push(*value),
                MicroOp::Write(at, value) if *at == Key::Int(key) => values = vec![*value],
                MicroOp::Add(at, element) if *at == Key::Int(key) => {
                    *counts.entry(*element).or_insert(0) += 1
                }
                MicroOp::Remove(at, element) if *at == Key::Int(key) => {
                    *counts.entry(*element).or_insert(0) -= 1;
                }
                _ => {}
            }
        }
        counts.retain(|_, count| *count != 0);
        match (LISTS.contains(&key), REGISTERS.contains(&key)) {
            (true, _) if !values.is_empty() => Observed::List(values),
            (_, true) if !values.is_empty() => Observed::Register(values[0]),
            (false, false) if !counts.is_empty() => Observed::Set(counts),
            _ => Observed::Null,
        }
    }

    /// The next step of a running transaction: its local commit, or its end.
    fn proceed(&mut self, at: usize) {
        let entry = self.running[at].entry;
        if self.kind == Kind::Serial {
            self.running[at].snapshot = self.all();
            let mut fresh = Vec::new();
            for op in self.tape.entries[entry].ops.clone() {
                fresh.push(match op {
                    MicroOp::Read(Key::Int(key), _) => {
                        MicroOp::Read(key.into(), self.read(key, self.running[at].snapshot, &fresh))
                    }
                    write => write,
                });
            }
            self.tape.entries[entry].ops = fresh;
        }
        if self.kind == Kind::Speculative && self.running[at].local.is_none() && self.random.percent(75) {
            return self.commit_locally(at);
        }
        let running = self.running.swap_remove(at);
        let is_committed = self.decide(&running);
        self.tape.entries[entry].ended_at = self.moment;
        self.tape.entries[entry].end = self.reported(is_committed);
        if is_committed {
            let id = running.local.unwrap_or(self.commits.len());
            if running.local.is_none() {
                self.push_commit(&running);
            }
            self.commits[id].is_final = true;
            let site = self.commits[id].site;
            self.applied[site] |= 1 << id;
            let session = self.tape.entries[entry].session;
            self.pasts[session] |= self.commits[id].past & self.all();
        } else if let Some(local) = running.local {
            self.commits[local].is_aborted = true;
        }
    }

    fn push_commit(&mut self, running: &Running) {
        let entry = &self.tape.entries[running.entry];
        let (ops, site) = (entry.ops.clone(), entry.site.unwrap_or(0));
        let past = running.snapshot | 1 << self.commits.len();
        self.commits.push(Commit { ops, site, past, is_final: false, is_aborted: false });
    }

    fn commit_locally(&mut self, at: usize) {
        let (entry, id) = (self.running[at].entry, self.commits.len());
        let running = Running { entry, snapshot: self.running[at].snapshot, local: Some(id) };
        self.push_commit(&running);
        self.running[at] = running;
        if self.random.percent(85) {
            let ops = self.tape.entries[entry].ops.clone();
            self.tape.entries[entry].spec = Some((self.moment, ops));
        }
    }

    /// First committer wins, and nothing touches what a local commit wrote that did not become final.
    fn decide(&mut self, running: &Running) -> bool {
        let ops = &self.tape.entries[running.entry].ops;
        let conflicts = |commit: &Commit| {
            let mut written = ops.iter().filter_map(written_key);
            written.any(|key| commit.ops.iter().filter_map(written_key).any(|other| other == key))
        };
        let others = || self.commits.iter().enumerate().filter(|(id, _)| Some(*id) != running.local);
        let is_missed = |id: usize| running.snapshot >> id & 1 == 0;
        let lost_race = others().any(|(id, commit)| commit.is_final && is_missed(id) && conflicts(commit));
        let touches = |commit: &Commit| {
            let mut written = commit.ops.iter().filter_map(updated_key);
            written.any(|key| ops.iter().any(|op| touched_key(op) == key))
        };
        let depends = others().any(|(id, commit)| !commit.is_final && !is_missed(id) && touches(commit));
        let checked = self.kind != Kind::Causal && !self.random.percent(self.bugs);
        !((lost_race && checked)
            || (depends && !self.random.percent(self.bugs / 2))
            || self.random.percent(5))
    }

    /// The outcome that the client is told.
    fn reported(&mut self, is_committed: bool) -> End {
        match (self.random.below(100), is_committed) {
            (0..4, _) => End::Info,
            (4..7, _) => End::Open,
            (7..9, true) => End::Lost(self.moment + 1 + self.random.below(40)),
            (9..11, true) => End::Fail,
            (_, true) => End::Ok,
            (11..35, false) => End::Fail,
            (_, false) => End::FailObserved,
        }
    }

    /// A random site applies a random commit whose past it has.
    fn propagate(&mut self) {
        if self.commits.is_empty() {
            return;
        }
        let (site, id) = (self.random.below(self.sites), self.random.below(self.commits.len()));
        let missing = self.commits[id].past & !self.applied[site] & !(1 << id);
        if self.commits[id].is_final && (missing == 0 || self.random.percent(self.bugs)) {
            self.applied[site] |= 1 << id;
        }
    }
}

fn touched_key(op: &MicroOp) -> &Key {
    match op {
        MicroOp::Append(key, _)
        | MicroOp::Write(key, _)
        | MicroOp::Add(key, _)
        | MicroOp::Remove(key, _)
        | MicroOp::Read(key, _) => key,
    }
}

/// The key of anything but a read.
fn updated_key(op: &MicroOp) -> Option<&Key> {
    (!matches!(op, MicroOp::Read(..))).then(|| touched_key(op))
}

/// The key of an append or a register write.
fn written_key(op: &MicroOp) -> Option<&Key> {
    match op {
        MicroOp::Append(key, _) | MicroOp::Write(key, _) => Some(key),
        _ => None,
    }
}
