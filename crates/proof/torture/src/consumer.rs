//! A consumer of changes beside the clients: it follows the keyspace from its creation, begins again from its cursor every few seconds, and in the end must have been
//! told what leads from nothing to what the keyspace holds, each change once and those of each shard in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use quorate::{
    Addition, Change, ChangePage, Changes, Cursor, CutEntry, Database, Error, Isolation, Key, Keyspace,
    Position, Timestamp, Value, Write,
};
use quorate_cluster::Failure;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The consumer begins again so often.
const LIFE: Duration = Duration::from_secs(2);

/// Once nothing is written any more, it has this time to come to the end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The shards have this time to come to the instant at which the keyspace is read.
const CUT_PATIENCE: Duration = Duration::from_secs(60);

/// No more troubles are told.
const TROUBLES_MAX: usize = 5;

/// A consumer under way.
pub(crate) struct Consumer {
    until: watch::Sender<Option<Position>>,
    task: JoinHandle<Consumed>,
}

/// The changes that a consumer was told.
#[derive(Clone, Debug, Default)]
pub struct Consumed {
    /// How many changes.
    pub changes: u64,
    /// How often it began again.
    pub lives: u64,
    /// The longest time between two pages.
    pub gap: Duration,
    /// True if two transactions of one client may have one timestamp.
    may_share: bool,
    /// The mistakes that it has found.
    troubles: Vec<String>,
    /// The last change of each shard, or of each local site.
    last: BTreeMap<u64, Timestamp>,
    /// All changes, in the order in which they were told.
    told: Vec<Change>,
}

impl Consumer {
    /// Begins to follow a keyspace in which nothing was written yet.
    pub(crate) async fn start(db: &Database, name: &str) -> Result<Consumer, Failure> {
        let keyspace = db.keyspace(name).await?;
        let changes = keyspace.changes(None).await?;
        let (until, wanted) = watch::channel(None);
        let task = tokio::spawn(follow(keyspace, changes, wanted));
        Ok(Consumer { until, task })
    }

    /// Lets it come to the end, once nobody writes any more, and judges what it was told.
    pub(crate) async fn end(
        self,
        db: &Database,
        keyspace: &Keyspace,
    ) -> Result<(Consumed, Vec<String>), Failure> {
        let held = read_all(db, keyspace).await?;
        // The task may have ended by itself, and tells why.
        let _ = self.until.send(Some(held.at.clone()));
        let mut consumed =
            self.task.await.map_err(|_| Failure::failed("the consumer of changes has panicked"))?;
        let told = consumed.leads_to(held.at);
        for key in differences(&held.values, &told.values) {
            let (holds, was_told) = (held.values.get(&key), told.values.get(&key));
            consumed.note(format!("{key:?} holds {holds:?}, and the consumer was told {was_told:?}"));
        }
        for counted in differences(&held.counts, &told.counts) {
            let (holds, was_told) = (held.counts.get(&counted), told.counts.get(&counted));
            consumed.note(format!("{counted:?} counts {holds:?}, and the consumer was told {was_told:?}"));
        }
        let troubles = std::mem::take(&mut consumed.troubles);
        Ok((consumed, troubles))
    }
}

async fn follow(
    keyspace: Keyspace,
    mut changes: Changes,
    wanted: watch::Receiver<Option<Position>>,
) -> Consumed {
    let may_share = keyspace.isolation() == Isolation::Serializable;
    let mut consumed = Consumed { may_share, ..Consumed::default() };
    let (mut born, mut heard) = (Instant::now(), Instant::now());
    let mut ending = None;
    loop {
        let until = wanted.borrow().clone();
        if until.as_ref().is_some_and(|until| changes.resolved().includes(until)) {
            return consumed;
        }
        let since = until.as_ref().map(|_| *ending.get_or_insert_with(Instant::now));
        if since.is_some_and(|since| since.elapsed() > PATIENCE) {
            let resolved = changes.resolved();
            consumed.note(format!("the consumer has come to {resolved}, and not to the end at {until:?}"));
            return consumed;
        }
        if born.elapsed() >= LIFE {
            match begin_again(&keyspace, &changes).await {
                Ok(again) => (changes, born, consumed.lives) = (again, Instant::now(), consumed.lives + 1),
                Err(error) => {
                    consumed.note(format!("the consumer cannot begin again: {error}"));
                    return consumed;
                }
            }
        }
        match changes.next().await {
            Ok(page) => {
                consumed.gap = consumed.gap.max(heard.elapsed());
                heard = Instant::now();
                consumed.take(page);
            }
            Err(Error::ChangesUnavailable { .. }) => {}
            Err(error) => {
                consumed.note(format!("the consumer of changes: {error}"));
                return consumed;
            }
        }
    }
}

/// As another process would, from the text of its cursor.
async fn begin_again(keyspace: &Keyspace, changes: &Changes) -> quorate::Result<Changes> {
    let cursor = changes.cursor().to_string().parse::<Cursor>().map_err(quorate::Invalid::from)?;
    keyspace.changes(Some(&cursor)).await
}

impl Consumed {
    fn note(&mut self, trouble: String) {
        if self.troubles.len() < TROUBLES_MAX {
            self.troubles.push(trouble);
        }
    }

    /// The state that the changes lead to which lie before a position: of a keyspace in local sites, the site that was read may not have heard of all that another one has told.
    fn leads_to(&self, at: Position) -> Held {
        let (mut values, mut counts) = (BTreeMap::new(), BTreeMap::new());
        for change in self.told.iter().filter(|change| at.has_passed(change.timestamp)) {
            for Write { key, value } in &change.writes {
                match value {
                    Some(value) => _ = values.insert(key.clone(), value.clone()),
                    None => _ = values.remove(key),
                }
            }
            for Addition { object, element, by } in &change.additions {
                *counts.entry((object.clone(), element.clone())).or_default() += by;
            }
        }
        counts.retain(|_, count| *count != 0);
        Held { at, values, counts }
    }

    fn take(&mut self, page: ChangePage) {
        for change in page.changes {
            let timestamp = change.timestamp;
            self.changes += 1;
            if !page.resolved.has_passed(timestamp) {
                self.note(format!("{timestamp} is told, and {} is resolved", page.resolved));
            }
            let part = page.shard.map_or(timestamp.client.0, |shard| u64::from(shard.0));
            let is_wrong = |last: &Timestamp| *last > timestamp || *last == timestamp && !self.may_share;
            if let Some(last) = self.last.insert(part, timestamp).filter(is_wrong) {
                self.note(format!("{part}: {timestamp} is told after {last}"));
            }
            self.told.push(change);
        }
    }
}

/// The content of a keyspace at a position.
struct Held {
    at: Position,
    values: BTreeMap<Key, Value>,
    /// The counts of elements and of counters that are not zero.
    counts: BTreeMap<(Key, Option<Key>), i64>,
}

/// The names under which two maps hold something different, or only one of them anything.
fn differences<K: Ord + Clone, V: PartialEq>(one: &BTreeMap<K, V>, other: &BTreeMap<K, V>) -> Vec<K> {
    let names = one.keys().chain(other.keys()).filter(|name| one.get(*name) != other.get(*name));
    let names: BTreeSet<K> = names.cloned().collect();
    names.into_iter().collect()
}

/// Everything that a keyspace holds, to which nobody writes any more, and where a consumer has come to the end of it.
async fn read_all(db: &Database, keyspace: &Keyspace) -> quorate::Result<Held> {
    let cut = db.cut(keyspace.name(), CUT_PATIENCE).await?;
    let (mut values, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for shard in cut.shards() {
        let mut reader = cut.reader(shard);
        while let Some(page) = reader.next().await? {
            for entry in page {
                match entry {
                    CutEntry::Value { key, value } => drop(values.insert(key, value)),
                    CutEntry::Count { set, element, count } => {
                        counts.insert((set, Some(element)), count);
                    }
                    CutEntry::Counter { counter, value } => drop(counts.insert((counter, None), value)),
                    CutEntry::Procedure { .. } => {}
                }
            }
        }
    }
    Ok(Held { at: cut.cursor()?.resolved(), values, counts })
}
