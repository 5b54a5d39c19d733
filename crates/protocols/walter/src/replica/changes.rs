//! The changes that a replica tells consumers: see [`quorate_core::changes`].
//!
//! A position is a vector. A replica tells of each site the transactions that follow, in the order of their numbers and causes before effects, up to those that are *certain*
//! here: they are disaster-safe durable, so they stay even if sites are lost (as many as the keyspace survives). A transaction of another site commits here no sooner. Of its own site's a leader
//! knows it by the copies that it has counted, and every replica by the snapshots of other sites that include them.
//!
//! Every vector that a consumer is told is closed: with each transaction it includes all that its snapshot includes. So it goes on at any replica of any site. A transaction that has written to a container of which a site has no copy
//! another site tells: the page ends before it, and the next question is refused.

use std::collections::BTreeMap;

use quorate_core::changes::{
    self, Addition, Answer, Change, PAGE_BYTES, PAGE_WRITES, Page, Position, Request,
};
use quorate_core::topology::container_of;
use quorate_core::{ClientId, Key, KeyRange, Timestamp, Value, Write, counter};

use super::{Out, Replica};
use crate::entry::Commit;
use crate::histories::Update;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector, VersionNumber};

/// The part of a page that was gathered so far.
struct Gathered {
    at: Vector,
    changes: Vec<Change>,
    bytes: u64,
    looked_at: usize,
}

/// Why a page ends.
enum Ending {
    /// All that is certain was told.
    Certain,
    /// There is no room for more.
    Full,
    /// This site has no copy of what a transaction has written to an object.
    Lacking(VersionNumber, Key),
}

impl Replica {
    /// A consumer asks: copies are counted that nobody has asked for.
    pub(super) fn on_follow(&mut self, outbox: &mut Out) {
        if self.leader.is_some() && self.state.is_whole() {
            self.count_copies(outbox);
        }
    }

    /// The answer to a consumer of changes.
    pub fn changes(&self, request: &Request<Position>) -> Answer<Position> {
        if self.is_removed() {
            return Answer::unable("its site was taken out of the keyspace");
        }
        if !self.state.is_whole() {
            return Answer::unable("its site joins the others, and has not all that they have");
        }
        let certain = self.certain();
        let from = match &request.from {
            None => certain.clone(),
            Some(Position::Sites(numbers)) => Vector::new(numbers.clone()),
            Some(Position::Timestamp(_)) => {
                return Answer::unable("the position is one of another isolation");
            }
        };
        let horizon = self.state.retained.horizon();
        // A transaction that was told and is abandoned was lost with more sites than the keyspace survives: the consumer has to begin anew.
        if !from.includes_all(horizon) || self.abandoned(&from).is_some() {
            return Answer::TooOld { retained_from: position(horizon) };
        }
        let (gathered, ending) = self.gather(&from, &certain, request);
        let page = Page {
            from: position(&from),
            to: position(&gathered.at),
            changes: gathered.changes,
            is_last: matches!(ending, Ending::Certain),
        };
        match ending {
            Ending::Lacking(version, object) if page.from == page.to => {
                let container = String::from_utf8_lossy(container_of(&object)).into_owned();
                Answer::unable(format!(
                    "its site has no copy of the container {container:?}, to which {version} has written"
                ))
            }
            _ => Answer::Page(page),
        }
    }

    /// A transaction that consumers are told of, by its name, as long as it is retained.
    pub fn told(&self, name: Timestamp) -> Option<&Commit> {
        let version = VersionNumber::from_timestamp(name)?;
        let commit = self.state.retained.commit(version).or_else(|| self.state.commit(version));
        commit.map(AsRef::as_ref)
    }

    /// The changes that it retains.
    pub(crate) fn retained_changes(&self) -> changes::Retained {
        let retained = &self.state.retained;
        let horizon = Timestamp { micros: retained.let_go().as_micros(), client: ClientId(0) };
        changes::Retained { bytes: retained.bytes(), horizon }
    }

    /// The transactions that have committed here and stay, whichever sites are lost, if no more are than the keyspace survives.
    fn certain(&self) -> Vector {
        let mut certain = self.state.committed.clone();
        if self.config.rules.has(Plant::UncertainTold) {
            return certain;
        }
        let counted = self.leader.as_ref().map_or(0, |leader| leader.durable);
        let known = counted.max(self.state.vouched).max(self.state.histories.floor().of(self.site));
        certain.exclude_above(VersionNumber { site: self.site, seqno: known });
        certain
    }

    /// Takes one transaction after the other whose causes were told, of each site in turn.
    fn gather(&self, from: &Vector, certain: &Vector, request: &Request<Position>) -> (Gathered, Ending) {
        let bytes_max = request.bytes_max.min(PAGE_BYTES);
        let mut gathered = Gathered { at: from.clone(), changes: Vec::new(), bytes: 0, looked_at: 0 };
        loop {
            let before = gathered.at.clone();
            for site in (0..certain.numbers().len() as u16).map(LocalSite) {
                while let Some(commit) = self.next_certain(site, &gathered.at, certain) {
                    if let Err(object) = gathered.take(commit, &request.keys) {
                        if !self.config.rules.has(Plant::LackingPassedOver) {
                            return (gathered, Ending::Lacking(commit.version, object));
                        }
                        gathered.at.include(commit.version);
                    }
                    if gathered.bytes >= bytes_max || gathered.looked_at >= PAGE_WRITES {
                        return (gathered, Ending::Full);
                    }
                }
            }
            if gathered.at == before {
                return (gathered, Ending::Certain);
            }
        }
    }

    /// The next transaction of a site, if it is certain, and its causes were told.
    fn next_certain(&self, site: LocalSite, told: &Vector, certain: &Vector) -> Option<&Commit> {
        // A client may say of any site that it was told all that there can be.
        let version = VersionNumber { site, seqno: told.of(site).checked_add(1)? };
        if !certain.includes(version) {
            return None;
        }
        let retained = self.state.retained.commit(version);
        let commit = retained.or_else(|| self.state.commit(version));
        let commit = commit.expect("all above the horizon is retained, or above the floor");
        let is_next = told.includes_all(&commit.snapshot) || self.config.rules.has(Plant::EffectsToldFirst);
        is_next.then_some(commit.as_ref())
    }
}

impl Gathered {
    /// Takes a transaction, as far as its objects are wanted; gives the first that is wanted and not here.
    fn take(&mut self, commit: &Commit, keys: &KeyRange) -> Result<(), Key> {
        let change = change_of(commit, keys)?;
        self.at.include(commit.version);
        self.looked_at += commit.updates.len();
        if !change.writes.is_empty() || !change.additions.is_empty() {
            self.bytes += change.bytes();
            self.changes.push(change);
        }
        Ok(())
    }
}

/// The name of an object, as clients have it.
fn name_of(object: &Key) -> &[u8] {
    counter::name_of(object).unwrap_or(object)
}

/// The change that a transaction has made, as far as it is wanted: the last value of each key, and the sum of what each element and each counter was changed by. Shares of a counter are an affair of sites.
fn change_of(commit: &Commit, keys: &KeyRange) -> Result<Change, Key> {
    let mut writes: BTreeMap<&Key, &Option<Value>> = BTreeMap::new();
    let mut additions: BTreeMap<(Key, Option<&Key>), i64> = BTreeMap::new();
    for update in &commit.updates {
        match update {
            Update::Write { key, value } if keys.contains(key) => _ = writes.insert(key, value),
            Update::Add { set, element, by } if keys.contains(name_of(set)) => {
                let element = (!counter::is_counter(set)).then_some(element);
                *additions.entry((Key::copy_from_slice(name_of(set)), element)).or_default() +=
                    i64::from(*by);
            }
            Update::Noted { object, .. } if keys.contains(name_of(object)) => return Err(object.clone()),
            Update::Write { .. } | Update::Add { .. } | Update::Noted { .. } | Update::Place { .. } => {}
        }
    }
    let write = |(key, value): (&Key, &Option<Value>)| Write { key: key.clone(), value: value.clone() };
    let added = |((object, element), by): ((Key, Option<&Key>), i64)| Addition {
        object,
        element: element.cloned(),
        by,
    };
    Ok(Change {
        timestamp: commit.version.timestamp(),
        writes: writes.into_iter().map(write).collect(),
        additions: additions.into_iter().filter(|(_, by)| *by != 0).map(added).collect(),
    })
}

fn position(vector: &Vector) -> Position {
    Position::of_sites(vector.numbers().to_vec())
}
