//! Random schedules: leaders change, messages are lost, late and repeated, replicas and clients die. The results that clients
//! were told are strictly serializable: lists that transactions append to show in which order they came, and that order must
//! be one.

use std::collections::{BTreeMap, BTreeSet};

use quorate_baselines::{Plant, Rules, System};
use quorate_core::Random;
use quorate_testscripts::schedule::{self, Troubles, list};

use crate::scripts::world::World;

const KEYS: [&str; 4] = ["a", "aa", "b", "bb"];

/// A transaction of a schedule.
#[derive(Debug)]
struct Txn {
    began: usize,
    /// The keys it reads, with what it has read of those that it got.
    reads: Vec<(&'static str, Option<Vec<String>>)>,
    /// Those of them that it appends its name to.
    appends: Vec<&'static str>,
    /// True if it reads all at once.
    at_once: bool,
    commits: bool,
    /// When it ended, and whether it has committed; nobody knows if that is none.
    ended: Option<(usize, Option<bool>)>,
}

struct Schedule {
    world: World,
    random: Random,
    troubles: Troubles,
    step: usize,
    sequence: u64,
    txns: BTreeMap<String, Txn>,
    open: BTreeMap<u64, String>,
}

impl Schedule {
    fn new(system: System, rules: Rules, seed: u64) -> Self {
        let groups = if system.has_coordinator() { &["1", "2", "d"][..] } else { &["1", "2"] };
        let mut schedule = Schedule {
            world: World::new(rules),
            random: Random::new(seed),
            troubles: Troubles::new(groups, 3, 3),
            step: 0,
            sequence: 0,
            txns: BTreeMap::new(),
            open: BTreeMap::new(),
        };
        schedule.command(&format!("cluster {system} shards=2"));
        schedule
    }

    fn command(&mut self, line: &str) {
        self.step += 1;
        for told in self.world.command(line) {
            if let Some(event) = told.strip_prefix("  ") {
                self.on_event(event);
            }
        }
    }

    /// `c1.7 got a1 = x,y`, or how it ended.
    fn on_event(&mut self, event: &str) {
        let (id, what) = event.split_once(' ').unwrap();
        let step = self.step;
        let Some(txn) = self.txns.get_mut(id) else { return };
        if let Some((key, value)) = what.strip_prefix("got ").and_then(|got| got.split_once(" = ")) {
            let word = key.trim_end_matches(char::is_numeric);
            let read = txn.reads.iter_mut().find(|(wanted, _)| *wanted == word).unwrap();
            read.1 = Some(list(value));
            return;
        }
        let committed = match what {
            _ if what.starts_with("COMMITTED") => Some(true),
            _ if what.starts_with("UNKNOWN") => None,
            _ if what.starts_with("INVALID") => return,
            _ => Some(false),
        };
        txn.ended = Some((step, committed));
        self.open.retain(|_, open| open != id);
    }

    /// Lets a client take its next step, if it does not wait.
    fn drive(&mut self) {
        let client = self.troubles.client(&mut self.random);
        let Some(id) = self.open.get(&client).cloned() else { return self.begin(client) };
        let sequence = id.split_once('.').unwrap().1.to_owned();
        let txn = self.txns.get_mut(&id).unwrap();
        if txn.commits || txn.at_once {
            return;
        }
        let first = txn.reads.iter().position(|(_, found)| found.is_none());
        if let Some(first) = first {
            // Asked for again if it is not there yet: the coordinator answers twice, and alike.
            let key = txn.reads[first].0;
            return self.command(&format!("get c{client} {sequence} {key}"));
        }
        txn.commits = true;
        let mut lines = Vec::new();
        for (key, found) in &txn.reads {
            if txn.appends.contains(key) {
                let mut list = found.clone().unwrap();
                list.push(id.clone());
                lines.push(format!("put c{client} {sequence} {key} {}", list.join(",")));
            }
        }
        lines.push(format!("commit c{client} {sequence}"));
        for line in lines {
            self.command(&line);
        }
    }

    fn begin(&mut self, client: u64) {
        self.sequence += 1;
        let (id, sequence) = (format!("c{client}.{}", self.sequence), self.sequence);
        let mut keys = KEYS.to_vec();
        self.random.shuffle(&mut keys);
        keys.truncate(1 + self.random.index(3));
        let at_once = self.random.chance(0.2);
        // Mostly one key less than is read, so that some are only read.
        let mut appends = keys.clone();
        let fewer = self.random.below(3) as usize;
        appends.truncate(if at_once { 0 } else { keys.len().saturating_sub(fewer) });
        let reads = keys.iter().map(|key| (*key, None)).collect();
        let txn = Txn { began: self.step, reads, appends, at_once, commits: false, ended: None };
        self.txns.insert(id.clone(), txn);
        self.open.insert(client, id);
        match at_once {
            true => self.command(&format!("read c{client} {sequence} {}", keys.join(" "))),
            false => self.command(&format!("begin c{client} {sequence}")),
        }
    }

    /// Something happens.
    fn act(&mut self) {
        if self.random.chance(0.3) {
            return self.drive();
        }
        let commands = self.troubles.next(&mut self.random);
        commands.iter().for_each(|command| self.command(command));
        let clients = self.troubles.clients();
        self.open.retain(|client, _| clients.contains(client));
    }

    /// Everything is well again, and what is under way ends.
    fn settle(&mut self) {
        self.troubles.end(20).iter().for_each(|command| self.command(command));
    }

    /// The values of each key in the end.
    fn read_all(&mut self) -> BTreeMap<&'static str, Vec<String>> {
        let reader = 9_999;
        let reads = KEYS.iter().map(|key| (*key, None)).collect();
        let id = format!("c{reader}.1");
        let txn =
            Txn { began: self.step, reads, appends: Vec::new(), at_once: true, commits: true, ended: None };
        self.txns.insert(id.clone(), txn);
        self.command(&format!("read c{reader} 1 {}", KEYS.join(" ")));
        self.command("deliver");
        let txn = &self.txns[&id];
        assert!(matches!(txn.ended, Some((_, Some(true)))), "the last reader is in nobody's way: {txn:?}");
        txn.reads.iter().map(|(key, found)| (*key, found.clone().unwrap())).collect()
    }
}

/// The fault in what clients saw, if there is one.
fn judge(txns: &BTreeMap<String, Txn>, lists: &BTreeMap<&'static str, Vec<String>>) -> Result<usize, String> {
    let place = |id: &str, key: &str| lists[key].iter().filter(|element| *element == id).count();
    for (id, txn) in txns {
        for key in &txn.appends {
            let (times, fate) = (place(id, key), txn.ended.and_then(|(_, committed)| committed));
            let expected = fate.map(usize::from);
            if times > 1 || expected.is_some_and(|expected| expected != times) {
                return Err(format!("{id} ended as {fate:?}, and is in {key} {times} times"));
            }
        }
    }
    // The transactions that committed, as far as that is known: clients were told, or it shows.
    let committed: Vec<(&String, &Txn)> = txns
        .iter()
        .filter(|(id, txn)| {
            matches!(txn.ended, Some((_, Some(true)))) || txn.appends.iter().any(|key| place(id, key) > 0)
        })
        .collect();
    let number: BTreeMap<&str, usize> =
        committed.iter().enumerate().map(|(at, (id, _))| (id.as_str(), at)).collect();
    let mut later: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); committed.len()];
    for list in lists.values() {
        for pair in list.windows(2) {
            later[number[pair[0].as_str()]].insert(number[pair[1].as_str()]);
        }
    }
    for (at, (id, txn)) in committed.iter().enumerate() {
        for (key, found) in &txn.reads {
            let found = found.as_ref().ok_or_else(|| format!("{id} committed and never read {key}"))?;
            let list = &lists[key];
            if !list.starts_with(found) {
                return Err(format!("{id} read {found:?} of {key}, which became {list:?}"));
            }
            if txn.appends.contains(key) && list.get(found.len()) != Some(*id) {
                return Err(format!("{id} appended to {key} after {found:?}: {list:?}"));
            }
            if let Some(last) = found.last() {
                later[number[last.as_str()]].insert(at);
            }
            if let Some(next) = list.get(found.len()).filter(|next| next != id) {
                later[at].insert(number[next.as_str()]);
            }
        }
        for (other, (_, next)) in committed.iter().enumerate() {
            // A transaction whose outcome nobody knows, as its client was told, may commit long after.
            if matches!(txn.ended, Some((ended, Some(true))) if ended < next.began) {
                later[at].insert(other);
            }
        }
    }
    // A transaction that has none before it is taken away, until none is left.
    let mut before = vec![0usize; committed.len()];
    later.iter().flatten().for_each(|next| before[*next] += 1);
    let mut free: Vec<usize> = (0..committed.len()).filter(|at| before[*at] == 0).collect();
    let mut taken = 0;
    while let Some(at) = free.pop() {
        taken += 1;
        for next in &later[at] {
            before[*next] -= 1;
            if before[*next] == 0 {
                free.push(*next);
            }
        }
    }
    if taken < committed.len() {
        let left: Vec<&String> =
            (0..committed.len()).filter(|at| before[*at] > 0).map(|at| committed[at].0).collect();
        return Err(format!("there is no order of {left:?}"));
    }
    Ok(committed.len())
}

/// Plays a schedule; gives how many transactions committed, or what is wrong.
fn play(system: System, rules: Rules, seed: u64) -> Result<usize, String> {
    let mut schedule = Schedule::new(system, rules, seed);
    for _ in 0..800 {
        schedule.act();
    }
    schedule.settle();
    if let Some(left) = schedule.world.left().into_iter().next() {
        return Err(left);
    }
    let lists = schedule.read_all();
    judge(&schedule.txns, &lists)
}

#[test]
fn what_clients_see_is_strictly_serializable() {
    let seeds = schedule::seeds(0..40);
    for system in System::ALL {
        let mut committed = 0;
        for seed in seeds.clone() {
            match play(system, Rules::SOUND, seed) {
                Ok(count) => committed += count,
                Err(wrong) => panic!("{system}, seed {seed}: {wrong}"),
            }
        }
        println!("{system}: {committed} committed in {} schedules", seeds.clone().count());
        assert!(committed > 10 * seeds.clone().count(), "{system}: only {committed} committed");
    }
}

/// Schedules that go well with a broken rule prove little.
#[test]
fn schedules_find_planted_bugs() {
    const TABLE: [(System, Plant); 8] = [
        (System::TxnOcc, Plant::PreparedOverlooked),
        (System::TxnOcc, Plant::ReadsNotHeld),
        (System::TxnOcc, Plant::AbortsAlone),
        (System::TxnLock, Plant::LostLocksCount),
        (System::TxnLock, Plant::ReadLocksOverlooked),
        (System::Sinfonia, Plant::HoldsOverlooked),
        (System::Sinfonia, Plant::UnstableOverlooked),
        (System::Sinfonia, Plant::SilenceRefuses),
    ];
    for (system, plant) in TABLE {
        let found = (0..200).find(|seed| play(system, Rules::planted(plant), *seed).is_err());
        println!("{system} with {}: {found:?}", plant.id());
        assert!(found.is_some(), "{system} with {}", plant.id());
    }
}
