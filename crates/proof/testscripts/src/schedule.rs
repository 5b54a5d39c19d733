//! Random schedules of a [stage](crate::stage): what goes wrong by chance and comes right again, as commands that every stage knows, and
//! transactions on lists, which show whether an update was lost.
//!
//! The crate whose machines are on the stage brings what its clients do, and judges what they were told.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::Random;

/// The seeds that a test runs: of `QUORATE_SEEDS=A..B`, or those given here.
///
/// # Panics
/// If the variable is set to anything else.
pub fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(given) = std::env::var("QUORATE_SEEDS") else { return usual };
    let bounds = given.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let Some((from, to)) = bounds else { panic!("QUORATE_SEEDS is like 0..400, and not {given:?}") };
    from..to
}

/// How a link is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wrong {
    /// Messages are kept back.
    Held,
    /// They are lost.
    Cut,
}

impl Wrong {
    /// The command that begins it, and the one that ends it.
    fn commands(self) -> (&'static str, &'static str) {
        match self {
            Wrong::Held => ("hold", "release"),
            Wrong::Cut => ("cut", "mend"),
        }
    }
}

/// Groups of replicas and their clients, and what is wrong with them: links that lose or keep messages back, leaders that change, replicas
/// that are down, clients that die.
#[derive(Clone, Debug)]
pub struct Troubles {
    groups: Vec<&'static str>,
    replicas: u64,
    clients: Vec<u64>,
    /// The number of the last client.
    last: u64,
    down: BTreeSet<String>,
    links: BTreeSet<(Wrong, String, String)>,
}

impl Troubles {
    /// Nothing is wrong yet with these groups, each of so many replicas, and with the clients 1, 2, … that they have.
    pub fn new(groups: &[&'static str], replicas: u64, clients: u64) -> Self {
        Troubles {
            groups: groups.to_vec(),
            replicas,
            clients: (1..=clients).collect(),
            last: clients,
            down: BTreeSet::new(),
            links: BTreeSet::new(),
        }
    }

    /// The clients that live.
    pub fn clients(&self) -> &[u64] {
        &self.clients
    }

    /// One of the clients that live.
    pub fn client(&self, random: &mut Random) -> u64 {
        self.clients[random.index(self.clients.len())]
    }

    /// The next thing that happens, which is mostly that messages are delivered.
    pub fn next(&mut self, random: &mut Random) -> Vec<String> {
        match random.below(100) {
            0..50 => vec![format!("deliver {}", random.between(1, 12))],
            50..53 => vec!["deliver".to_owned()],
            53..62 => vec![format!("advance {}", [1, 20, 500, 1_500][random.index(4)])],
            62..74 => self.disturb_link(random),
            74..81 => self.links.pop_first().iter().map(Self::comes_right).collect(),
            81..84 => vec![format!("confirm {}", self.replica(random))],
            84..88 => self.lead(random),
            88..90 => vec![format!("lease {} none", self.replica(random))],
            90..93 => vec![format!("repeat {}", self.participant(random))],
            93..98 => self.crash_or_restart(random),
            _ => self.let_die(random),
        }
    }

    /// Everything comes right, and so much time passes that whatever is under way ends.
    pub fn end(&mut self, seconds: u64) -> Vec<String> {
        let mut commands: Vec<String> =
            std::mem::take(&mut self.links).iter().map(Self::comes_right).collect();
        commands.extend(std::mem::take(&mut self.down).iter().map(|who| format!("restart {who}")));
        commands.push("deliver".to_owned());
        commands.extend(self.groups.iter().map(|group| format!("lead {group}/r0")));
        commands.push("deliver".to_owned());
        for _ in 0..2 * seconds {
            commands.push("advance 500".to_owned());
            commands.extend(self.groups.iter().map(|group| format!("confirm {group}/r0")));
        }
        commands
    }

    fn replica(&self, random: &mut Random) -> String {
        format!("{}/r{}", self.groups[random.index(self.groups.len())], random.below(self.replicas))
    }

    fn participant(&self, random: &mut Random) -> String {
        if random.chance(0.3) { format!("c{}", self.client(random)) } else { self.replica(random) }
    }

    fn disturb_link(&mut self, random: &mut Random) -> Vec<String> {
        let (from, to) = (self.participant(random), self.participant(random));
        let wrong = if random.chance(0.3) { Wrong::Cut } else { Wrong::Held };
        let command = format!("{} {from} {to}", wrong.commands().0);
        self.links.insert((wrong, from, to));
        vec![command]
    }

    fn comes_right((wrong, from, to): &(Wrong, String, String)) -> String {
        format!("{} {from} {to}", wrong.commands().1)
    }

    /// True if a replica of the same group is down.
    fn lacks_some(&self, who: &str) -> bool {
        self.down.iter().any(|down| group(down) == group(who))
    }

    /// A replica leads. The leader before it is told, or not, and then it is as good as down.
    fn lead(&self, random: &mut Random) -> Vec<String> {
        let who = self.replica(random);
        if self.down.contains(&who) {
            return Vec::new();
        }
        let is_usurped = self.replicas > 1 && !self.lacks_some(&who) && random.chance(0.4);
        vec![format!("{} {who}", if is_usurped { "usurp" } else { "lead" })]
    }

    /// One of a group is down at most. Another one leads, at once or later.
    fn crash_or_restart(&mut self, random: &mut Random) -> Vec<String> {
        if random.chance(0.5)
            && let Some(who) = self.down.pop_first()
        {
            let lead = (self.replicas == 1).then(|| format!("lead {who}"));
            return [format!("restart {who}")].into_iter().chain(lead).collect();
        }
        let who = self.replica(random);
        if self.lacks_some(&who) {
            return Vec::new();
        }
        self.down.insert(who.clone());
        let mut others = (0..self.replicas).map(|index| format!("{}/r{index}", group(&who)));
        let lead = others.find(|other| *other != who).filter(|_| random.chance(0.7));
        [format!("crash {who}")].into_iter().chain(lead.map(|other| format!("lead {other}"))).collect()
    }

    /// A client dies, and another one comes.
    fn let_die(&mut self, random: &mut Random) -> Vec<String> {
        self.last += 1;
        let at = random.index(self.clients.len());
        let dead = std::mem::replace(&mut self.clients[at], self.last);
        vec![format!("crash c{dead}")]
    }
}

/// The group of a replica.
fn group(replica: &str) -> &str {
    replica.split_once('/').map_or(replica, |(group, _)| group)
}

/// How a transaction has ended, as far as its client was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It has committed.
    Committed,
    /// It has not, and never will.
    Aborted,
    /// Its client was not told.
    #[default]
    Unknown,
}

/// One transaction on lists: the list of each key that it has read, and the keys to whose lists it has appended its name.
#[derive(Clone, Debug, Default)]
pub struct Appends<'a> {
    /// The list of each key that it has read.
    pub found: BTreeMap<&'a str, Vec<String>>,
    /// The keys that it has written, each of which it had read.
    pub appended: BTreeSet<&'a str>,
    /// How it ended.
    pub fate: Fate,
}

/// Judges lists that transactions have appended their names to, of which no update may be lost: each transaction that has committed is there
/// once, and none that has not; and each has appended to the list that it had read. Gives a sentence for each mistake.
///
/// `lists` is what the keys hold in the end.
pub fn judge_appends(
    transactions: &BTreeMap<String, Appends<'_>>,
    lists: &BTreeMap<&str, Vec<String>>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, transaction) in transactions {
        for key in &transaction.appended {
            let list = lists.get(key).map_or(&[][..], Vec::as_slice);
            let times = list.iter().filter(|element| *element == name).count();
            let is_right = match transaction.fate {
                Fate::Committed => times == 1,
                Fate::Aborted => times == 0,
                Fate::Unknown => times <= 1,
            };
            if !is_right {
                wrong.push(format!("{name}: {:?}, and {times} times in {key}", transaction.fate));
            }
            let found = transaction.found.get(key).map_or(&[][..], Vec::as_slice);
            if times > 0 && !(list.starts_with(found) && list.get(found.len()) == Some(name)) {
                wrong.push(format!("{name} has appended to {found:?}, and {key} is {list:?}"));
            }
        }
        if transaction.fate == Fate::Committed {
            for (key, found) in &transaction.found {
                let list = lists.get(key).map_or(&[][..], Vec::as_slice);
                if !list.starts_with(found) {
                    wrong.push(format!("{name} has read {found:?} of {key}, which became {list:?}"));
                }
            }
        }
    }
    wrong
}

/// A list, as scripts show it: names with commas between them, or `nothing`.
pub fn list(value: &str) -> Vec<String> {
    if value == "nothing" { Vec::new() } else { value.split(',').map(str::to_owned).collect() }
}

/// The first seed whose schedule goes wrong, or in which a machine panics.
pub fn find(seeds: std::ops::Range<u64>, run: impl Fn(u64) -> Vec<String>) -> Option<u64> {
    let goes_wrong = |seed: &u64| {
        // The schedule is dropped with the panic: nothing of it is seen afterwards.
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(*seed)));
        found.map_or(true, |wrong| !wrong.is_empty())
    };
    seeds.into_iter().find(goes_wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_group_one_replica_is_down_at_most_and_all_comes_right() {
        for (seed, replicas) in (0..50).zip([1, 3].into_iter().cycle()) {
            let (mut random, mut troubles) = (Random::new(seed), Troubles::new(&["1", "2"], replicas, 3));
            let (mut down, mut links) = (BTreeSet::new(), BTreeSet::new());
            let mut take = |command: &str, troubles: &Troubles| match command.split(' ').collect::<Vec<_>>()[..]
            {
                ["crash", who] if who.contains('/') => {
                    assert!(down.insert(who.to_owned()), "{who} is down already");
                    let together = down.iter().filter(|other| group(other) == group(who)).count();
                    assert_eq!(together, 1, "{down:?}");
                }
                ["crash", who] => {
                    assert!(!troubles.clients().iter().any(|client| format!("c{client}") == who));
                }
                ["restart", who] => assert!(down.remove(who)),
                ["lead" | "usurp", who] => assert!(!down.contains(who), "{who} is down"),
                ["hold" | "cut", from, to] => _ = links.insert(format!("{from} {to}")),
                ["release" | "mend", from, to] => _ = links.remove(&format!("{from} {to}")),
                _ => {}
            };
            for _ in 0..400 {
                troubles.next(&mut random).iter().for_each(|command| take(command, &troubles));
            }
            troubles.end(1).iter().for_each(|command| take(command, &troubles));
            assert_eq!((down.len(), links.len()), (0, 0));
        }
    }

    fn appends(found: &[&str], fate: Fate) -> Appends<'static> {
        let found = found.iter().map(|name| (*name).to_owned()).collect();
        Appends { found: BTreeMap::from([("k", found)]), appended: BTreeSet::from(["k"]), fate }
    }

    #[test]
    fn a_lost_update_is_noticed() {
        let judge = |second: Appends<'static>, list: &[&str]| {
            let first = appends(&[], Fate::Committed);
            let transactions = BTreeMap::from([("t1".to_owned(), first), ("t2".to_owned(), second)]);
            let list = list.iter().map(|name| (*name).to_owned()).collect();
            judge_appends(&transactions, &BTreeMap::from([("k", list)])).len()
        };
        assert_eq!(judge(appends(&["t1"], Fate::Committed), &["t1", "t2"]), 0);
        assert_eq!(judge(appends(&["t1"], Fate::Unknown), &["t1"]), 0);
        assert_eq!(judge(appends(&["t1"], Fate::Unknown), &["t1", "t2"]), 0);
        assert_eq!(judge(appends(&["t1"], Fate::Aborted), &["t1", "t2"]), 1, "it was told to have aborted");
        assert_eq!(judge(appends(&[], Fate::Committed), &["t2"]), 1, "the first is lost");
        assert_eq!(judge(appends(&[], Fate::Committed), &["t1", "t2"]), 1, "it had not read the first");
        assert_eq!(judge(appends(&["t1"], Fate::Committed), &["t1", "t2", "t2"]), 1, "it is there twice");
    }
}
