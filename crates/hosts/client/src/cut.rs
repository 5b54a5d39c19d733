//! Everything that a keyspace holds, at one instant: what a backup reads, beside the protocol.
//!
//! | isolation | the instant | how a shard comes to it |
//! |---|---|---|
//! | `strict` | a timestamp, the same at all shards | a replica whose floor has passed it gives what lies below, and collects nothing of that until it was read |
//! | `snapshot` | a snapshot, the same at all shards | a replica serves a reader of all keys |
//! | `serializable` | a place in the serial order | one transaction that only reads freezes all shards |
//! | `parallel-snapshot` | what a site shows | a replica of the site freezes what has committed there |
//!
//! Why each of them is one state that a transaction could have read stands in ADR 0074.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::changes::Position;
use quorate_core::counter;
use quorate_core::log::Position as LogPosition;
use quorate_core::reserved::is_reserved;
use quorate_core::seen::SITES_MAX;
use quorate_core::topology::{Isolation, Keyspace as Definition, Shard};
use quorate_core::verify::{Answer, Arrival, Furthest, Item, Point, Read, Reader, Request, Stored, position};
use quorate_core::{
    ClientId, ClockTime, Instant, Key, NodeId, ReplicaId, ReplicaIndex, ShardId, Timestamp, Value,
};
use quorate_granola::Class;
use quorate_serializable_shard::{FoundKey, FrozenPage, FrozenReader, freezing, frozen_at, not_frozen};
use tokio::sync::oneshot;

use crate::changes::Cursor;
use crate::database::Database;
use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::one_round::Ended;
use crate::transaction::clock_now;

/// Between two questions to a replica that is not so far.
const POLL: Duration = Duration::from_millis(5);

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// One thing that a keyspace holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutEntry {
    /// A key with its value.
    Value {
        /// The key.
        key: Key,
        /// The value.
        value: Value,
    },
    /// An element of a counting set whose count is not zero.
    Count {
        /// The set.
        set: Key,
        /// The element.
        element: Key,
        /// Its count.
        count: i64,
    },
    /// A counter that is not zero.
    Counter {
        /// The counter.
        counter: Key,
        /// Its value.
        value: i64,
    },
    /// A version of a procedure. Each shard has it.
    Procedure {
        /// Its name.
        name: String,
        /// Its version.
        version: u32,
        /// A WebAssembly module.
        code: Value,
    },
}

/// Everything that a keyspace holds at one instant, to be read shard by shard.
///
/// All shards are to be read at once: a shard that nobody asks for ten seconds lets go of the instant.
#[derive(Clone, Debug)]
pub struct Cut {
    db: Database,
    keyspace: Keyspace,
    definition: Definition,
    operator: u64,
    at: At,
    patience: Duration,
    /// Of a keyspace whose sites have all of it: how many transactions of each site are in what is read, once a reader has been told.
    numbers: Arc<Mutex<Option<Vec<u64>>>>,
}

/// Where the instant lies.
#[derive(Clone, Debug)]
enum At {
    /// Below a timestamp, at all shards.
    Below(Timestamp),
    /// Of one local site: at a position of its log, or a later one.
    Site { shard: ShardId, position: LogPosition },
    /// Where a transaction has frozen all shards.
    Frozen { at: ClockTime, timestamp: Timestamp },
}

impl Database {
    /// Everything that a keyspace holds, at an instant after the call. `patience` bounds how long is waited for shards to come to it:
    /// those of `strict` keyspaces take some fifteen seconds.
    ///
    /// # Errors
    /// [`Error::CutLost`] if a shard cannot be read so; else as [`Database::keyspace`].
    pub async fn cut(&self, keyspace: &str, patience: Duration) -> Result<Cut> {
        let keyspace = self.keyspace(keyspace).await?;
        let definition = Definition::clone(&keyspace.definition());
        if let Some(comparison) = &definition.comparison {
            let reason = format!("it is run by {}, which is there to be compared with", comparison.rival);
            return Err(Error::CutLost { name: keyspace.name().to_owned(), reason });
        }
        // Two that read are not to be taken for one.
        let operator = random(keyspace.name())?;
        let at = match definition.isolation {
            Isolation::Strict => At::Below(timestamp(clock_now().as_micros().saturating_add(1))),
            Isolation::Snapshot => {
                let shown = keyspace.scan_with_snapshot(b"", b"", 1).await?;
                At::Below(timestamp(shown.timestamp.micros.saturating_add(1)))
            }
            Isolation::Serializable => freeze(&keyspace, &definition, operator).await?,
            Isolation::ParallelSnapshot => self.site_to_read(&definition).await?,
        };
        Ok(Cut { db: self.clone(), keyspace, definition, operator, at, patience, numbers: Arc::default() })
    }

    /// The nearest site, and by which position it has all that was acknowledged there.
    async fn site_to_read(&self, definition: &Definition) -> Result<At> {
        let lost = |reason: &str| Error::CutLost { name: definition.name.clone(), reason: reason.to_owned() };
        let nearest = self.shared().places.directory().nearest_shard(definition);
        let shard = nearest.ok_or_else(|| lost("none of its sites serves"))?;
        let group = definition.shards.iter().find(|group| group.id == shard);
        let group = group.ok_or_else(|| lost("its sites have changed: try again"))?;
        let mut furthest = Furthest::new(group.replicas.len());
        for (index, node) in group.members() {
            let asked = self.ask_to_verify(node, ReplicaId { shard, index }, Furthest::request()).await;
            asked.iter().for_each(|answer| furthest.note(answer));
        }
        let position = furthest.position().ok_or_else(|| {
            lost("a majority of the nearest site does not answer: see `quorate cluster status`")
        })?;
        Ok(At::Site { shard, position })
    }

    /// Asks a replica what it holds; none if it does not answer.
    async fn ask_to_verify(&self, node: NodeId, replica: ReplicaId, request: Request) -> Option<Answer> {
        let asked = self.transport().with(|host, turn| host.verify(node, replica, request, turn))?;
        tokio::time::timeout(ANSWER_TIMEOUT, asked).await.ok()?.ok()
    }
}

fn timestamp(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId::default() }
}

fn random(name: &str) -> Result<u64> {
    getrandom::u64().map_err(|error| Error::CutLost {
        name: name.to_owned(),
        reason: format!("this machine gives no random numbers: {error}"),
    })
}

/// Freezes all shards in one transaction.
async fn freeze(keyspace: &Keyspace, definition: &Definition, reader: u64) -> Result<At> {
    let lost = |reason: String| Error::CutLost { name: definition.name.clone(), reason };
    let parts = freezing(reader, definition.shards.iter().map(|shard| shard.id));
    let count = parts.len();
    let (answers, receipt) = match keyspace.execute(parts, Class::ReadOnly).await? {
        Ended::Done { answers, receipt } => (answers, receipt),
        Ended::AnswersLost { .. } => return Err(lost("the answers of its shards are lost".to_owned())),
        Ended::Refused { shard, reason } => return Err(lost(format!("{shard}: {}", not_frozen(&reason)))),
    };
    if answers.len() != count {
        return Err(lost("the answers of some of its shards are missing".to_owned()));
    }
    Ok(At::Frozen { at: frozen_at(&answers).map_err(lost)?, timestamp: receipt.timestamp })
}

impl Cut {
    /// The keyspace as it was defined.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The instant, in microseconds since 1970 by the clocks of the cluster; of a `parallel-snapshot` keyspace by the clock of this machine, because
    /// sites have no common time.
    pub fn instant_micros(&self) -> u64 {
        match &self.at {
            At::Below(timestamp) => timestamp.micros.saturating_sub(1),
            At::Site { .. } => clock_now().as_micros(),
            At::Frozen { timestamp, .. } => timestamp.micros,
        }
    }

    /// Behind the instant: a consumer that goes on from here gets every change that the cut does not hold, and no other. Where a site shows what it holds, of a `parallel-snapshot`
    /// keyspace, that is known once the first page was read.
    ///
    /// # Errors
    /// [`Invalid::NoFeed`] if the keyspace tells no changes. [`Error::CutLost`] if nothing was read yet, or the replica that is read does not know how to tell.
    pub fn cursor(&self) -> Result<Cursor> {
        if let At::Site { .. } = self.at {
            let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let begin = |numbers| Cursor::begin(&self.definition, [(None, Position::of_sites(numbers))]);
            return numbers.and_then(begin).ok_or_else(|| {
                self.lost("how far it is in what its sites have committed is known once its first page was read, and not of earlier programs")
            });
        }
        let below = match &self.at {
            At::Below(below) => Some(*below),
            // What is frozen stands before the first place of this timestamp.
            At::Frozen { at, .. } => Some(Timestamp { micros: at.as_micros(), client: ClientId(0) }),
            At::Site { .. } => None,
        };
        let begin = |below: Timestamp| {
            let positions = self.shards().into_iter().map(|shard| (Some(shard), below.into()));
            Cursor::begin(&self.definition, positions)
        };
        match below.filter(|_| self.definition.tells_changes()).and_then(begin) {
            Some(cursor) => Ok(cursor),
            None => Err(Invalid::NoFeed { name: self.definition.name.clone() }.into()),
        }
    }

    /// The shards that are to be read: together they hold everything. Of a `parallel-snapshot` keyspace one site does.
    pub fn shards(&self) -> Vec<ShardId> {
        match &self.at {
            At::Site { shard, .. } => vec![*shard],
            At::Below(_) | At::Frozen { .. } => self.definition.shards.iter().map(|shard| shard.id).collect(),
        }
    }

    /// Reads a shard.
    pub fn reader(&self, shard: ShardId) -> CutReader {
        let group = self.definition.shards.iter().find(|group| group.id == shard);
        let members = group.map(|group| self.nearest_first(group)).unwrap_or_default();
        let pages = |point, arrival| Source::Pages {
            reader: Reader::new(
                self.operator,
                point,
                arrival,
                self.patience,
                members.iter().map(|(index, _)| *index),
            ),
            nodes: members.iter().copied().collect(),
            began: tokio::time::Instant::now(),
            asked: None,
        };
        let source = match &self.at {
            // Floors rise everywhere alike; who is granted a snapshot differs.
            At::Below(below) if self.definition.isolation == Isolation::Strict => {
                pages(Point::Below(*below), Arrival::Together)
            }
            At::Below(below) => pages(Point::Below(*below), Arrival::Alone),
            At::Site { position, .. } => pages(Point::Position(*position), Arrival::Alone),
            At::Frozen { at, .. } => Source::Frozen(FrozenReader::new(self.operator, *at)),
        };
        CutReader { cut: self.clone(), shard, source, counters: BTreeMap::new(), is_over: false }
    }

    /// The members of a group that can be read, those of this site first.
    fn nearest_first(&self, group: &Shard) -> Vec<(ReplicaIndex, NodeId)> {
        let directory = self.db.shared().places.directory();
        let mut members: Vec<_> = group.members().collect();
        members.sort_by_key(|(_, node)| directory.distance_of(*node));
        members
    }

    fn lost(&self, reason: impl Into<String>) -> Error {
        Error::CutLost { name: self.definition.name.clone(), reason: reason.into() }
    }
}

/// Reads what a shard holds at the instant of a [`Cut`], page by page.
#[derive(Debug)]
pub struct CutReader {
    cut: Cut,
    shard: ShardId,
    source: Source,
    /// The counters that were read so far: a value is the sum of the shares of sites, and these lie one after the other, on several pages perhaps.
    counters: BTreeMap<Key, i64>,
    is_over: bool,
}

/// How a shard is read.
#[derive(Debug)]
enum Source {
    /// By the pages of a replica.
    Pages {
        reader: Reader,
        nodes: BTreeMap<ReplicaIndex, NodeId>,
        /// The beginning of the time that the reader lives in.
        began: tokio::time::Instant,
        /// The answer that is under way, to the question for the next page.
        asked: Option<oneshot::Receiver<Answer>>,
    },
    /// By transactions, in what one has frozen.
    Frozen(FrozenReader),
}

impl CutReader {
    /// The next entries, in the order in which the shard holds them; none once all were given.
    ///
    /// # Errors
    /// [`Error::CutLost`]: what was read is of no use then without the rest. Read from a new instant.
    pub async fn next(&mut self) -> Result<Option<Vec<CutEntry>>> {
        if self.is_over {
            return Ok(None);
        }
        match self.source {
            Source::Pages { .. } => self.next_page().await,
            Source::Frozen(_) => self.next_frozen().await,
        }
    }

    async fn next_page(&mut self) -> Result<Option<Vec<CutEntry>>> {
        let Some((items, is_last)) = self.fetch().await? else { return Ok(None) };
        self.is_over = is_last;
        let mut entries = Vec::with_capacity(items.len());
        for item in items {
            if item.key == position::KEY && self.cut.definition.isolation == Isolation::ParallelSnapshot {
                self.note_position(&item.stamps);
                continue;
            }
            entries.extend(self.entry_of(item)?);
        }
        if is_last {
            let counters = std::mem::take(&mut self.counters).into_iter().filter(|(_, value)| *value != 0);
            entries.extend(counters.map(|(counter, value)| CutEntry::Counter { counter, value }));
        }
        Ok(Some(entries))
    }

    /// The state that is read includes so many transactions of a local site.
    fn note_position(&self, stamps: &[u64]) {
        let [site, seqno, _] = *stamps else { return };
        let Some(at) = usize::try_from(site).ok().filter(|at| *at < SITES_MAX) else { return };
        let mut numbers = self.cut.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = numbers.get_or_insert_default();
        if numbers.len() <= at {
            numbers.resize(at + 1, 0);
        }
        numbers[at] = seqno;
    }

    /// The page that is to come next, and whether it is the last. The one behind it is asked for at once.
    async fn fetch(&mut self) -> Result<Option<(Vec<Stored>, bool)>> {
        let CutReader { cut, shard, source, .. } = self;
        let Source::Pages { reader, nodes, began, asked } = source else { return Ok(None) };
        let ask = |reader: &Reader| {
            let (index, request) = reader.next()?;
            let (node, replica) = (*nodes.get(&index)?, ReplicaId { shard: *shard, index });
            cut.db.transport().with(|host, turn| host.verify(node, replica, request, turn))
        };
        loop {
            let answer = match asked.take().or_else(|| ask(reader)) {
                None => None,
                Some(asked) => tokio::time::timeout(ANSWER_TIMEOUT, asked).await.ok().and_then(Result::ok),
            };
            let now = Instant::START + began.elapsed();
            match reader.on_answer(answer.map(|answer| answer.progress), now) {
                Read::Page { items, is_last } => {
                    *asked = if is_last { None } else { ask(reader) };
                    return Ok(Some((items, is_last)));
                }
                Read::Pause => tokio::time::sleep(POLL).await,
                Read::Lost { reason } => return Err(cut.lost(format!("{shard}: {reason}"))),
            }
        }
    }

    fn lost(&self, reason: &str) -> Error {
        self.cut.lost(format!("{}: {reason}", self.shard))
    }

    /// Reads on in what a transaction has frozen.
    async fn next_frozen(&mut self) -> Result<Option<Vec<CutEntry>>> {
        let Source::Frozen(reader) = &self.source else { return Ok(None) };
        let parts = BTreeMap::from([(self.shard, reader.next())]);
        let answers = match self.cut.keyspace.execute(parts, Class::ReadOnly).await? {
            Ended::Done { answers, .. } => answers,
            Ended::AnswersLost { .. } => return Err(self.lost("its answer is lost")),
            Ended::Refused { reason, .. } => return Err(self.lost(&not_frozen(&reason))),
        };
        let answer = answers.get(&self.shard).ok_or_else(|| self.lost("it has not answered"))?;
        let Source::Frozen(reader) = &mut self.source else { return Ok(None) };
        let page = reader.on_answer(answer);
        self.is_over = reader.is_over();
        let entries = match page.map_err(|reason| self.lost(&reason))? {
            FrozenPage::Procedures(found) => {
                let entries = found.into_iter().map(|found| procedure(&found.key, found.held.value));
                entries.collect::<Option<_>>().ok_or_else(|| {
                    self.lost(
                        "a procedure has a name that cannot be read: is the cluster newer than this client?",
                    )
                })?
            }
            FrozenPage::Keys(found) => {
                let entry = |FoundKey { key, held }| CutEntry::Value { key, value: held.value };
                found.into_iter().map(entry).collect()
            }
        };
        Ok(Some(entries))
    }

    /// The entry for an item.
    fn entry_of(&mut self, item: Stored) -> Result<Option<CutEntry>> {
        let Stored { space, key, stamps, value } = item;
        let unknown = || {
            self.lost(
                "it holds something that this client does not know: is the cluster newer than this client?",
            )
        };
        let key = Key::from(&key[..]);
        match (self.cut.definition.isolation, space, stamps.len(), value) {
            // The entries of indexes follow from the rest, and are made anew where it is restored.
            (Isolation::Strict | Isolation::Snapshot, Item::DATA, 2, _) if is_reserved(&key) => Ok(None),
            (Isolation::Strict | Isolation::Snapshot, Item::DATA, 2, value)
            | (Isolation::ParallelSnapshot, Item::DATA, 2, value @ Some(_)) => {
                Ok(value.map(|value| CutEntry::Value { key, value }))
            }
            (Isolation::ParallelSnapshot, Item::DATA, 1, Some(element)) => {
                let count = stamps[0].cast_signed();
                if let Some(name) = counter::name_of(&key) {
                    *self.counters.entry(Key::from(name)).or_default() += count;
                    return Ok(None);
                }
                let element = Key::from(&element[..]);
                Ok((count != 0).then_some(CutEntry::Count { set: key, element, count }))
            }
            // A container that is at all sites holds nothing itself.
            (Isolation::ParallelSnapshot, Item::DATA, 3, None) => Ok(None),
            (Isolation::ParallelSnapshot, Item::DATA, 3, Some(_)) => Err(self.lost(&format!(
                "the objects of the container {key:?} are at some sites alone, and no site has all of the keyspace"
            ))),
            _ => Err(unknown()),
        }
    }
}

/// A version of a procedure, as its key names it: its name, a byte zero and its number.
fn procedure(key: &Key, code: Value) -> Option<CutEntry> {
    let (name, version) = key.split_last_chunk::<4>()?;
    let name = std::str::from_utf8(name.strip_suffix(b"\0")?).ok()?;
    Some(CutEntry::Procedure { name: name.to_owned(), version: u32::from_be_bytes(*version), code })
}
