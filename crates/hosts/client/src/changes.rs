//! Change feeds: every committed write of a keyspace, as it commits.
//!
//! ```no_run
//! # async fn example(orders: quorate::Keyspace, kept: Option<quorate::Cursor>) -> quorate::Result<()> {
//! let mut changes = orders.changes(kept.as_ref()).await?;
//! loop {
//!     let page = changes.next().await?;
//!     for change in &page.changes {
//!         // The writes of one transaction at one shard.
//!         println!("{} {:?}", change.timestamp, change.writes);
//!     }
//!     // A consumer that goes on from here gets everything that follows, and nothing twice.
//!     let cursor = changes.cursor().to_string();
//!     # drop(cursor);
//! }
//! # }
//! ```
//!
//! A `parallel-snapshot` keyspace is followed at one of its sites at a time, which has what all of them have committed.
//!
//! Each shard is followed by a task of its own, which asks any replica that is near and goes on at another one when that is silent, is cut off or
//! has let go too much ([`quorate_core::changes`]). A page that nobody takes keeps the task from asking for more than one ahead.

mod cursor;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quorate_core::changes::{Answer, Change, Follower, Outcome, Page, Position, Request, successor};
use quorate_core::expiry::{Envelope, NoEnvelope};
use quorate_core::topology::{Keyspace as Definition, Shard};
use quorate_core::{Instant, Key, KeyRange, NodeId, ReplicaId, ShardId, Timestamp};
use tokio::sync::mpsc;

use crate::database::Database;
use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::transaction::{end_of_prefix, no_envelope, time_of, user_range};

pub use cursor::{Cursor, InvalidCursor};

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two questions to replicas that knew no more: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// A page without changes comes so often of a keyspace in which nothing happens as long as nobody writes.
const IDLE: Duration = Duration::from_secs(1);

/// So many pages of each shard may wait to be taken.
const PAGES_AHEAD: usize = 1;

/// The changes of a shard in a stretch of positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePage {
    /// The shard; none of a `parallel-snapshot` keyspace, whose sites all have everything.
    pub shard: Option<ShardId>,
    /// The changes, in the order in which they have committed; perhaps none, if nothing has been written. Of a `parallel-snapshot` keyspace those of each
    /// site are in their order, and each comes after all that its transaction has seen.
    pub changes: Vec<Change>,
    /// No change of this shard below this position comes later.
    pub resolved: Position,
    /// When the values are over that have been written for a lifetime, each by its timestamp and its key.
    pub expiries: BTreeMap<(Timestamp, Key), SystemTime>,
}

/// The changes of a keyspace, or of some of its keys. See [`Keyspace::changes`].
#[derive(Debug)]
pub struct Changes {
    keyspace: Arc<Definition>,
    cursor: Cursor,
    pages: mpsc::Receiver<(Option<ShardId>, Told)>,
}

/// The news from the task of a shard.
#[derive(Debug)]
enum Told {
    Page(Page<Position>),
    /// No replica answers as it should, for this reason. The task goes on.
    Stuck(String),
    /// The client has not the right. The task has ended.
    Denied(String),
    /// No replica retains what is wanted. The task has ended.
    TooOld(Position),
}

impl Keyspace {
    /// Every committed write from a cursor on; without one, all that commits after this call, and perhaps some that have committed shortly before.
    ///
    /// Of each shard the changes come in the order in which they have committed, which is that of their timestamps. All writes of a transaction have the
    /// same timestamp, at all shards, and no other transaction has it.
    ///
    /// The transactions of a `parallel-snapshot` keyspace have no common order: each comes after all that it has seen, and those of each site in their order, so the writes of one key
    /// come in theirs. It is told once it is disaster-safe durable.
    ///
    /// # Errors
    /// [`Invalid::Cursor`] if the cursor belongs to something else, [`Invalid::NoFeed`] if the keyspace is run by a system that is there to be compared with.
    pub async fn changes(&self, from: Option<&Cursor>) -> Result<Changes> {
        let (definition, keys) = (self.definition(), user_range(b"", b""));
        let followed = followed(&definition, definition.shards_of_range(&keys));
        self.follow(definition, followed, keys, from).await
    }

    /// As [`Keyspace::changes`], of one key.
    ///
    /// # Errors
    /// As [`Keyspace::changes`].
    pub async fn watch(&self, key: impl AsRef<[u8]>, from: Option<&Cursor>) -> Result<Changes> {
        let (key, definition) = (key.as_ref(), self.definition());
        let keys = user_range(key, &[key, &[0]].concat());
        let followed = followed(&definition, std::slice::from_ref(definition.shard_of(key)));
        self.follow(definition, followed, keys, from).await
    }

    /// As [`Keyspace::changes`], of the keys that begin with these bytes.
    ///
    /// # Errors
    /// As [`Keyspace::changes`].
    pub async fn watch_prefix(&self, prefix: impl AsRef<[u8]>, from: Option<&Cursor>) -> Result<Changes> {
        let (prefix, definition) = (prefix.as_ref(), self.definition());
        let keys = user_range(prefix, &end_of_prefix(prefix));
        let followed = followed(&definition, definition.shards_of_range(&keys));
        self.follow(definition, followed, keys, from).await
    }

    async fn follow(
        &self,
        definition: Arc<Definition>,
        followed: Vec<Option<ShardId>>,
        keys: KeyRange,
        from: Option<&Cursor>,
    ) -> Result<Changes> {
        validate(&definition)?;
        let cursor = match from {
            Some(from) => from.of(&definition, &followed)?.clone(),
            None => self.begin_to_follow(&definition, &followed).await?,
        };
        let (sender, pages) = mpsc::channel(PAGES_AHEAD * followed.len().max(1));
        for shard in followed {
            let feed = Feed {
                keyspace: self.clone(),
                shard,
                keys: keys.clone(),
                position: cursor.position(shard),
                pages: sender.clone(),
            };
            tokio::spawn(feed.run());
        }
        Ok(Changes { keyspace: definition, cursor, pages })
    }

    /// The cursor of a consumer that begins now.
    async fn begin_to_follow(&self, definition: &Definition, followed: &[Option<ShardId>]) -> Result<Cursor> {
        let (sender, mut pages) = mpsc::channel(followed.len().max(1));
        for shard in followed.iter().copied() {
            let feed = Feed {
                keyspace: self.clone(),
                shard,
                keys: user_range(b"", b""),
                position: None,
                pages: sender.clone(),
            };
            tokio::spawn(feed.begin());
        }
        drop(sender);
        let mut positions = Vec::new();
        while let Some((shard, told)) = pages.recv().await {
            positions.push((shard, told.into_page(definition, shard)?.to));
        }
        match positions.len() == followed.len() {
            true => Cursor::begin(definition, positions).ok_or_else(|| foreign_position(definition, None)),
            false => Err(Error::Closed),
        }
    }
}

impl Database {
    /// A position behind all that was acknowledged in a keyspace by now, wherever its clients are: a consumer whose [`Changes::resolved`] includes it was told all of that. Of a `parallel-snapshot`
    /// keyspace that is what the nearest site shows.
    ///
    /// # Errors
    /// As [`Keyspace::scan_with_snapshot`], or as [`Keyspace::transact`].
    pub async fn latest_position(&self, keyspace: &Keyspace) -> Result<Position> {
        if !keyspace.isolation().stands_in_sites() {
            let latest = keyspace.scan_with_snapshot(b"", b"", 1).await?.timestamp;
            return Ok(Position::Timestamp(successor(latest)));
        }
        // A session has seen all that its transactions see.
        keyspace.transact(async |txn| txn.get(b"0").await).await?;
        let seen = self.seen();
        let part = seen.part(keyspace.definition().id);
        Ok(Position::of_sites(part.map(|part| part.numbers.clone()).unwrap_or_default()))
    }
}

/// The shards that are followed, each by itself, to hear of keys that may be at these; none stands for all sites of a keyspace, of which any one is followed.
fn followed(definition: &Definition, shards: &[Shard]) -> Vec<Option<ShardId>> {
    match definition.isolation.stands_in_sites() {
        true => vec![None],
        false => shards.iter().map(|shard| Some(shard.id)).collect(),
    }
}

/// A replica has answered with a position of another kind than its isolation has.
fn foreign_position(definition: &Definition, shard: Option<ShardId>) -> Error {
    let reason =
        "its replicas name positions that this client does not know: is the cluster newer?".to_owned();
    Error::ChangesUnavailable { name: definition.name.clone(), shard, reason }
}

/// Looks whether the keyspace has feeds.
fn validate(definition: &Definition) -> Result<(), Invalid> {
    match definition.tells_changes() {
        true => Ok(()),
        false => Err(Invalid::NoFeed { name: definition.name.clone() }),
    }
}

impl Changes {
    /// The next page of some shard. If there is nothing to tell, one without changes comes from time to time, by which [`Changes::resolved`] goes on.
    ///
    /// # Errors
    /// [`Error::ChangesUnavailable`] if the replicas of a shard do not answer for as long as the deadline of the keyspace's handle: call again, and nothing will be
    /// missed. [`Error::ChangesTooOld`] if they have let go what follows: take a fresh snapshot. [`Error::Denied`] without the right to read.
    pub async fn next(&mut self) -> Result<ChangePage> {
        let Some((shard, told)) = self.pages.recv().await else { return Err(Error::Closed) };
        let Page { from, to, mut changes, .. } = told.into_page(&self.keyspace, shard)?;
        let mut expiries = BTreeMap::new();
        if self.keyspace.expiring {
            expiries = self.open_envelopes(&mut changes)?;
        }
        match self.cursor.advance(shard, &from, &to) {
            true => Ok(ChangePage { shard, changes, resolved: to, expiries }),
            false => Err(foreign_position(&self.keyspace, shard)),
        }
    }

    /// Takes values out of their envelopes. Gives the expiries that they name.
    fn open_envelopes(&self, changes: &mut [Change]) -> Result<BTreeMap<(Timestamp, Key), SystemTime>> {
        let mut expiries = BTreeMap::new();
        for Change { timestamp, writes, .. } in changes {
            for write in writes {
                let Some(held) = &write.value else { continue };
                let envelope =
                    Envelope::decode(held).map_err(|NoEnvelope| no_envelope(&self.keyspace, &write.key))?;
                let expiry = envelope.expiry.map(|expiry| ((*timestamp, write.key.clone()), time_of(expiry)));
                expiries.extend(expiry);
                write.value = Some(envelope.value);
            }
        }
        Ok(expiries)
    }

    /// Behind all pages that were taken. It may be kept for as long as replicas retain what follows, and is of use at any client.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// No change below this position comes later, of any shard: all that were told below are all that there are.
    pub fn resolved(&self) -> Position {
        self.cursor.resolved()
    }
}

impl Told {
    fn into_page(self, keyspace: &Definition, shard: Option<ShardId>) -> Result<Page<Position>> {
        let name = keyspace.name.clone();
        match self {
            Told::Page(page) => Ok(page),
            Told::Stuck(reason) => Err(Error::ChangesUnavailable { name, shard, reason }),
            Told::Denied(reason) => Err(Error::Denied { reason, token: None }),
            Told::TooOld(retained_from) => Err(Error::ChangesTooOld { name, shard, retained_from }),
        }
    }
}

/// The task that follows a shard, or a keyspace at any of its sites.
struct Feed {
    keyspace: Keyspace,
    shard: Option<ShardId>,
    keys: KeyRange,
    position: Option<Position>,
    pages: mpsc::Sender<(Option<ShardId>, Told)>,
}

impl Feed {
    /// Finds out where a consumer begins.
    async fn begin(self) {
        let mut reading = Reading::new(&self);
        let told = reading.next(&self).await;
        // The call may not wait any more.
        let _ = self.pages.send((self.shard, told)).await;
    }

    /// Tells page after page, until nobody takes them.
    async fn run(self) {
        let mut reading = Reading::new(&self);
        loop {
            let told = tokio::select! {
                told = reading.next(&self) => told,
                () = self.pages.closed() => return,
            };
            let is_over = matches!(told, Told::Denied(_) | Told::TooOld(_));
            if self.pages.send((self.shard, told)).await.is_err() || is_over {
                return;
            }
        }
    }

    /// The members of the group, or of all sites, the nearest first.
    fn members(&self) -> Vec<(ReplicaId, NodeId)> {
        let definition = self.keyspace.definition();
        let directory = self.keyspace.shared().places.directory();
        let is_followed = |group: &&Shard| self.shard.is_none_or(|shard| shard == group.id);
        let mut members = Vec::new();
        for group in definition.shards_that_serve().filter(is_followed) {
            let replica = |index| ReplicaId { shard: group.id, index };
            members.extend(group.members().map(|(index, node)| (replica(index), node)));
        }
        members.sort_by_key(|(_, node)| directory.distance_of(*node));
        members
    }

    /// Asks a replica; none if it does not answer.
    async fn ask(
        &self,
        replica: ReplicaId,
        request: &Request<Position>,
    ) -> Option<Result<Answer<Position>, String>> {
        let (_, node) = self.members().into_iter().find(|(member, _)| *member == replica)?;
        let asked = self.keyspace.session().ask_changes(node, replica, request.clone())?;
        tokio::time::timeout(ANSWER_TIMEOUT, asked).await.ok()?.ok()
    }
}

/// A follower, and the time that it lives in.
struct Reading {
    follower: Follower,
    began: tokio::time::Instant,
    pause: Duration,
}

impl Reading {
    fn new(feed: &Feed) -> Self {
        let members = feed.members().into_iter().map(|(member, _)| member).collect();
        let follower = Follower::new(feed.position.clone(), feed.keys.clone(), members, Instant::START);
        Reading { follower, began: tokio::time::Instant::now(), pause: Duration::ZERO }
    }

    fn now(&self) -> Instant {
        Instant::START + self.began.elapsed()
    }

    /// The next page, or why there is none.
    async fn next(&mut self, feed: &Feed) -> Told {
        let began = self.now();
        loop {
            tokio::time::sleep(self.pause).await;
            let outcome = match self.ask(feed).await {
                Ok(outcome) => outcome,
                Err(denied) => return Told::Denied(denied),
            };
            match outcome {
                Outcome::Page(page) => {
                    self.pause = if page.is_last { PAUSE_MIN } else { Duration::ZERO };
                    return Told::Page(page);
                }
                Outcome::TooOld(retained_from) => return Told::TooOld(retained_from),
                Outcome::Pause if self.is_idle(began) => {
                    if let Some(position) = self.follower.position().cloned() {
                        let (from, changes) = (position.clone(), Vec::new());
                        return Told::Page(Page { from, to: position, changes, is_last: true });
                    }
                }
                Outcome::Pause if self.now() - began >= feed.keyspace.deadline() => {
                    return Told::Stuck(self.reason());
                }
                Outcome::Pause => self.pause = (2 * self.pause).clamp(PAUSE_MIN, PAUSE_MAX),
            }
        }
    }

    /// True if a replica has answered since, and there is nothing to be told for a while.
    fn is_idle(&self, since: Instant) -> bool {
        self.follower.idle().is_some_and(|idle| idle >= since) && self.now() - since >= IDLE
    }

    async fn ask(&mut self, feed: &Feed) -> Result<Outcome, String> {
        let members = feed.members().into_iter().map(|(member, _)| member).collect();
        self.follower.change_members(members);
        let Some((replica, request)) = self.follower.next() else { return Ok(Outcome::Pause) };
        let answer = feed.ask(replica, &request).await.transpose()?;
        let now = self.now();
        Ok(match answer {
            Some(answer) => self.follower.on_answer(&request, answer, now),
            None => self.follower.on_silence(now),
        })
    }

    fn reason(&self) -> String {
        match self.follower.reason() {
            "" => "its replicas know no more, and their floor does not rise: is a majority of them away?"
                .to_owned(),
            reason => format!("of the replica that was asked last: {reason}"),
        }
    }
}
