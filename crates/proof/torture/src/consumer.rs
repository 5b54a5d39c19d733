//! A consumer of changes beside the clients: it follows the keyspace from its creation, begins again from its cursor every few seconds, and in the end must have been
//! told what leads from nothing to what the keyspace holds, each change once and those of each shard in their order.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quorate::{
    ChangePage, Changes, Cursor, CutEntry, Database, Error, Isolation, Key, Keyspace, ShardId, Timestamp,
    Value, Write,
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
    until: watch::Sender<Option<Timestamp>>,
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
    last: BTreeMap<ShardId, Timestamp>,
    state: BTreeMap<Key, (Timestamp, Option<Value>)>,
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
        let (state, end) = read_all(db, keyspace).await?;
        // The task may have ended by itself, and tells why.
        let _ = self.until.send(Some(end));
        let mut consumed =
            self.task.await.map_err(|_| Failure::failed("the consumer of changes has panicked"))?;
        let told = consumed.state.iter().filter_map(|(key, (_, value))| Some((key.clone(), value.clone()?)));
        let told: BTreeMap<Key, Value> = told.collect();
        for key in state.keys().chain(told.keys()).filter(|key| state.get(*key) != told.get(*key)) {
            let (holds, was_told) = (state.get(key), told.get(key));
            consumed.note(format!("{key:?} holds {holds:?}, and the consumer was told {was_told:?}"));
        }
        let troubles = std::mem::take(&mut consumed.troubles);
        Ok((consumed, troubles))
    }
}

async fn follow(
    keyspace: Keyspace,
    mut changes: Changes,
    wanted: watch::Receiver<Option<Timestamp>>,
) -> Consumed {
    let may_share = keyspace.isolation() == Isolation::Serializable;
    let mut consumed = Consumed { may_share, ..Consumed::default() };
    let (mut born, mut heard) = (Instant::now(), Instant::now());
    let mut ending = None;
    loop {
        let until = *wanted.borrow();
        if until.is_some_and(|until| changes.resolved() >= until) {
            return consumed;
        }
        let since = until.map(|_| *ending.get_or_insert_with(Instant::now));
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

    fn take(&mut self, page: ChangePage) {
        for change in page.changes {
            let timestamp = change.timestamp;
            self.changes += 1;
            if timestamp >= page.resolved {
                self.note(format!("{timestamp} is told, and {} is resolved", page.resolved));
            }
            let is_wrong = |last: &Timestamp| *last > timestamp || *last == timestamp && !self.may_share;
            if let Some(last) = self.last.insert(page.shard, timestamp).filter(is_wrong) {
                self.note(format!("{}: {timestamp} is told after {last}", page.shard));
            }
            for Write { key, value } in change.writes {
                self.state.insert(key, (timestamp, value));
            }
        }
    }
}

/// Everything that a keyspace holds, to which nobody writes any more, and where a consumer has come to the end of it.
async fn read_all(db: &Database, keyspace: &Keyspace) -> quorate::Result<(BTreeMap<Key, Value>, Timestamp)> {
    let cut = db.cut(keyspace.name(), CUT_PATIENCE).await?;
    let mut all = BTreeMap::new();
    for shard in cut.shards() {
        let mut reader = cut.reader(shard);
        while let Some(page) = reader.next().await? {
            all.extend(page.into_iter().filter_map(|entry| match entry {
                CutEntry::Value { key, value } => Some((key, value)),
                _ => None,
            }));
        }
    }
    Ok((all, cut.cursor()?.resolved()))
}
