//! The histories of all objects that a local site has (Walter, section 5.2).
//!
//! An object is a register or a counting set; its kind is part of its name, so that a register and a set of one key are two objects. Every
//! object exists from the beginning, as nil or empty, and takes no room until it is updated.
//!
//! A *container* holds the objects whose keys name it, and says which site their preferred one is. It is written like a register: one
//! version after the other, each by the site that has the container then.
//!
//! Of a container that has no replica at its site, histories hold the versions of registers above the floor, without values, so that no
//! write is concurrent with them that is let in here; and what transactions of this site have written, with values, as long as other sites may lack it.
//!
//! A *floor* is a vector that every snapshot includes which anybody may still read. Versions that no such snapshot tells apart are folded: a register
//! keeps its newest version below the floor, a set adds up its counts. A snapshot that does not include the floor is too old.

mod replicas;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Bound, RangeBounds};

use quorate_core::attic::Memory;
use quorate_core::command::End;
use quorate_core::counter::{self, is_counter};
use quorate_core::hash::FixedMap;
use quorate_core::{Key, KeyRange, Value};

use crate::container::{Container, Replicas};
use crate::counting_set::CountingSet;
use crate::register::{Register, Written};
use crate::vector::{LocalSite, Vector, VersionNumber};

/// One update of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Writes a register, or destroys it.
    Write {
        /// The register.
        key: Key,
        /// The value; none destroys it.
        value: Option<Value>,
    },
    /// Adds to the count of an element: one to add it, minus one to remove it.
    Add {
        /// The counting set.
        set: Key,
        /// The element.
        element: Key,
        /// By how much.
        by: i32,
    },
    /// Creates, moves or destroys a container, in a transaction that does nothing else. The container's preferred site does it, and hands the
    /// container over by that.
    Place {
        /// The part of its objects' keys that names it, as [`container_of`](quorate_core::topology::container_of) gives it.
        name: Key,
        /// Where its objects are from here on; none where the keyspace has them.
        container: Option<Container>,
    },
    /// An update of an object that has no replica at the site which is told of it: all that this site knows. No client asks for it.
    Noted {
        /// The object.
        object: Key,
        /// True if a register was written, false if a set was changed.
        writes: bool,
    },
}

impl Update {
    /// The object that it updates, or the name of a container; registers and sets of one key have one preferred site.
    pub fn object(&self) -> &Key {
        match self {
            Update::Write { key, .. } => key,
            Update::Add { set, .. } => set,
            Update::Place { name, .. } => name,
            Update::Noted { object, .. } => object,
        }
    }

    /// True if it writes a register.
    pub fn is_write(&self) -> bool {
        matches!(self, Update::Write { .. })
    }
}

/// A snapshot is older than what is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot {snapshot} does not include {floor}, below which versions are not kept")]
pub struct TooOld {
    /// The snapshot.
    pub snapshot: Vector,
    /// The oldest that can be read.
    pub floor: Vector,
}

/// A page of the elements of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// The elements whose count is not zero, with their counts, in the order that was asked for.
    pub counts: Vec<Count>,
    /// True if the limit was reached before the bound.
    pub is_cut: bool,
}

/// A page of the registers of a range that have a value, ascending, each with the version that was read, and the first key that was not
/// looked at.
pub type Registers = (Vec<Read>, Option<Key>);

/// A register that has a value in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The register.
    pub key: Key,
    /// The version that the snapshot reads.
    pub version: VersionNumber,
    /// Its value.
    pub value: Value,
}

/// The count of an element of a set in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The set.
    pub set: Key,
    /// The element.
    pub element: Key,
    /// Its count, which is not zero.
    pub count: i64,
}

/// A container in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its name.
    pub name: Key,
    /// The transaction that placed it last.
    pub version: VersionNumber,
    /// Where it is.
    pub container: Container,
}

/// All objects as one snapshot reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The snapshot.
    pub floor: Vector,
    /// Registers that have a value, ascending.
    pub registers: Vec<Read>,
    /// Counts that are not zero, ascending by set and element.
    pub counts: Vec<Count>,
    /// Containers that were created and not destroyed, ascending by name.
    pub containers: Vec<Placed>,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Register,
    Set,
    Container,
}

/// The histories of all objects.
#[derive(Debug, Default)]
pub struct Histories {
    /// The site that has them.
    site: LocalSite,
    registers: FixedMap<Key, Box<Kept<Register>>>,
    /// The keys of the registers that are known, for scans.
    ordered: BTreeSet<Key>,
    sets: FixedMap<Key, Kept<CountingSet>>,
    /// Those that were placed by themselves.
    containers: BTreeMap<Key, Kept<Register<Container>>>,
    /// The transactions that have taken effect: the paper's *GotVTS*.
    received: Vector,
    floor: Vector,
    /// The objects of which a higher floor makes something superfluous.
    foldable: VecDeque<(Kind, Key)>,
    /// How many of these, from the front, were not looked at since the floor was raised.
    unfolded: usize,
    /// The replica sets that versions of containers name, but for those of all sites, each with the number of these versions.
    limited: BTreeMap<Replicas, usize>,
    /// Containers whose copies here were given up, for good.
    given_up: BTreeSet<Key>,
    /// Those of them whose objects are still here.
    leaving: BTreeSet<Key>,
    taken: Taken,
}

/// The parts of the memory that objects take which their numbers do not tell, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    /// Of the keys of registers and sets.
    keys: usize,
    /// How many versions registers have.
    versions: usize,
    /// Of their values.
    values: usize,
    /// Of the contents of sets.
    sets: usize,
}

impl Taken {
    /// A register has changed.
    fn replace_register(&mut self, before: (usize, usize), after: (usize, usize)) {
        assert!(self.versions >= before.0 && self.values >= before.1, "{before:?} is more than {self:?}");
        self.versions = self.versions + after.0 - before.0;
        self.values = self.values + after.1 - before.1;
    }

    /// A set has.
    fn replace_set(&mut self, before: usize, after: usize) {
        assert!(self.sets >= before, "a set takes {before}, and all sets {}", self.sets);
        self.sets = self.sets + after - before;
    }
}

/// An object, and whether it waits to be folded.
#[derive(Debug, Default)]
struct Kept<T> {
    object: T,
    is_queued: bool,
}

impl Histories {
    /// Empty histories of a site.
    pub fn new(site: LocalSite) -> Self {
        Histories { site, ..Histories::default() }
    }

    /// The transactions that have taken effect here: of each site the first so many (the paper's *GotVTS*).
    pub fn received(&self) -> &Vector {
        &self.received
    }

    /// Takes a transaction for received that was not.
    #[cfg(test)]
    pub(crate) fn break_received(&mut self, version: VersionNumber) {
        self.received.include(version);
    }

    /// The oldest snapshot that can be read.
    pub fn floor(&self) -> &Vector {
        &self.floor
    }

    /// A transaction takes effect: it is in the histories from here on, and visible to the snapshots that include it.
    ///
    /// # Panics
    /// If it is not the next one of its site. The transactions of a site take effect in the order of their numbers, each once, also those
    /// of which nothing is kept here.
    pub fn apply(&mut self, version: VersionNumber, updates: &[Update]) {
        let next = self.received.of(version.site) + 1;
        assert!(version.seqno == next, "{version} takes effect, and number {next} is the next of its site");
        self.received.include(version);
        for update in updates {
            match update {
                Update::Write { key, value } => self.write(version, key, value.clone()),
                Update::Add { set, element, by } => self.add(version, set, element.clone(), *by),
                Update::Place { name, container } => self.place(version, name, container.clone()),
                Update::Noted { object, writes: true } => self.note(version, object),
                Update::Noted { writes: false, .. } => {}
            }
        }
        self.assert_ordered();
    }

    fn place(&mut self, version: VersionNumber, name: &Key, container: Option<Container>) {
        if let Some(Container { replicas, .. }) =
            container.as_ref().filter(|container| !container.replicas.is_all())
        {
            *self.limited.entry(replicas.clone()).or_default() += 1;
        }
        let kept = self.containers.entry(name.clone()).or_default();
        kept.object.write(version, container);
        let is_foldable = self.is_container_foldable(name);
        if let Some(kept) = self.containers.get_mut(name)
            && is_foldable
            && !std::mem::replace(&mut kept.is_queued, true)
        {
            self.foldable.push_back((Kind::Container, name.clone()));
        }
    }

    fn add(&mut self, version: VersionNumber, set: &Key, element: Key, by: i32) {
        if version.site != self.site && !self.holds(set, &self.floor) {
            return;
        }
        self.change_set(set, |object| object.add(version, element, by));
        if let Some(kept) = self.sets.get_mut(set)
            && !std::mem::replace(&mut kept.is_queued, true)
        {
            self.foldable.push_back((Kind::Set, set.clone()));
        }
    }

    fn change_set(&mut self, set: &Key, change: impl FnOnce(&mut CountingSet)) {
        let kept = self.sets.entry(set.clone()).or_default();
        self.taken.keys += if kept.object.is_empty() { set.len() } else { 0 };
        let before = kept.object.memory();
        change(&mut kept.object);
        self.taken.replace_set(before, kept.object.memory());
    }

    fn change_register(&mut self, key: &Key, change: impl FnOnce(&mut Register)) -> bool {
        let kept = self.registers.entry(key.clone()).or_default();
        if kept.object.is_empty() {
            self.ordered.insert(key.clone());
            self.taken.keys += key.len();
        }
        let before = kept.object.size();
        change(&mut kept.object);
        self.taken.replace_register(before, kept.object.size());
        kept.object.is_foldable()
    }

    fn write(&mut self, version: VersionNumber, key: &Key, value: Option<Value>) {
        let is_foldable = self.change_register(key, |object| object.write(version, value));
        self.queue_register(key, is_foldable);
    }

    /// A register was written, and its value is at other sites.
    fn note(&mut self, version: VersionNumber, key: &Key) {
        self.change_register(key, |object| object.note(version));
        self.queue_register(key, true);
    }

    fn queue_register(&mut self, key: &Key, is_foldable: bool) {
        let is_foldable = is_foldable || !self.holds(key, &self.floor);
        if let Some(kept) = self.registers.get_mut(key.as_slice())
            && is_foldable
            && !std::mem::replace(&mut kept.is_queued, true)
        {
            self.foldable.push_back((Kind::Register, key.clone()));
        }
    }

    /// The version of a register in a snapshot; none if it was never written.
    ///
    /// # Errors
    /// The snapshot is too old.
    pub fn read(&self, key: &[u8], snapshot: &Vector) -> Result<Option<&Written>, TooOld> {
        self.check(snapshot)?;
        Ok(self.register(key).and_then(|register| register.at(snapshot)))
    }

    /// At most so many registers of a range that have a value in a snapshot, as far as they are wanted and have a replica here.
    ///
    /// # Errors
    /// The snapshot is too old.
    pub fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        snapshot: &Vector,
        is_wanted: impl Fn(&Key) -> bool,
    ) -> Result<Registers, TooOld> {
        self.check(snapshot)?;
        let mut found = Vec::new();
        for key in self.ordered.range::<Key, _>(&range.from..).take_while(|key| range.contains(key)) {
            if found.len() == limit {
                return Ok((found, Some(key.clone())));
            }
            if self.holds(key, snapshot) && is_wanted(key) {
                let register = self.register(key);
                if register.and_then(|register| register.at(snapshot)).is_some_and(|known| known.is_elsewhere)
                {
                    // The copy is about to be given up, and this snapshot is one of the last to read it.
                    return Err(self.too_old(snapshot));
                }
                found.extend(register.and_then(|register| read(key, register, snapshot)));
            }
        }
        Ok((found, None))
    }

    /// The newest version of a register; none if it has none, or only one below the floor that destroyed it.
    pub fn last(&self, key: &[u8]) -> Option<VersionNumber> {
        self.register(key).and_then(Register::last).map(|known| known.version)
    }

    /// The newest version of a container, in a snapshot if one is given; none if the container was never created, or destroyed long ago.
    pub fn container(&self, name: &[u8], snapshot: Option<&Vector>) -> Option<&Written<Container>> {
        let container = &self.containers.get(name)?.object;
        snapshot.map_or_else(|| container.last(), |snapshot| container.at(snapshot))
    }

    /// The names of the containers of which something is kept.
    pub fn container_names(&self) -> impl Iterator<Item = &Key> {
        self.containers.keys()
    }

    /// True if a transaction with this snapshot has seen the newest version of a register: no write of it is concurrent.
    pub fn is_unmodified(&self, key: &[u8], snapshot: &Vector) -> bool {
        self.last(key).is_none_or(|last| snapshot.includes(last))
    }

    /// The count of an element of a set in a snapshot, as clients see it: of a counter its value.
    ///
    /// # Errors
    /// The snapshot is too old.
    pub fn count(&self, set: &Key, element: &Key, snapshot: &Vector) -> Result<i64, TooOld> {
        self.check(snapshot)?;
        let Some(kept) = self.sets.get(set) else { return Ok(0) };
        Ok(match is_counter(set) {
            true if element == counter::VALUE => kept.object.sum(snapshot),
            true => 0,
            false => kept.object.count(element, snapshot),
        })
    }

    /// A share of a counter in a snapshot, less what was taken from it since.
    pub(crate) fn untaken(&self, counter: &Key, share: &Key, snapshot: &Vector) -> i64 {
        self.sets.get(counter).map_or(0, |kept| kept.object.untaken(share, snapshot))
    }

    /// All shares of a counter in a snapshot that are not zero.
    pub(crate) fn shares(&self, counter: &Key, snapshot: &Vector) -> Vec<(Key, i64)> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let Some(kept) = self.sets.get(counter) else { return Vec::new() };
        let shares = kept.object.elements(all, End::Least, snapshot);
        shares.map(|(share, count)| (share.clone(), count)).collect()
    }

    /// The elements of a set in a snapshot between two bounds, from one end, at most so many, as clients see them: a counter has one.
    ///
    /// # Errors
    /// The snapshot is too old.
    pub fn elements(
        &self,
        set: &Key,
        between: (Bound<&Key>, Bound<&Key>),
        from: End,
        limit: usize,
        snapshot: &Vector,
    ) -> Result<Elements, TooOld> {
        self.check(snapshot)?;
        let (Some(kept), true) = (self.sets.get(set), is_some_between(between)) else {
            return Ok(Elements::default());
        };
        if is_counter(set) {
            return Ok(value_of(set, &kept.object, between, limit, snapshot));
        }
        let mut elements = kept.object.elements(between, from, snapshot);
        let count =
            |(element, count): (&Key, i64)| Count { set: set.clone(), element: element.clone(), count };
        let counts: Vec<Count> = elements.by_ref().take(limit).map(count).collect();
        Ok(Elements { counts, is_cut: elements.next().is_some() })
    }

    /// The objects as the oldest snapshot reads them that can be read, with the histories of later transactions left out.
    pub fn base(&self) -> Base {
        self.at(&self.floor)
    }

    /// All objects that have a replica here, as a snapshot reads them that includes the floor.
    pub fn at(&self, snapshot: &Vector) -> Base {
        let ordered = self.ordered.iter().filter(|key| self.holds(key, snapshot));
        let registers = ordered.filter_map(|key| read(key, self.register(key)?, snapshot));
        let all = (Bound::Unbounded, Bound::Unbounded);
        // Any order: they are sorted next.
        let mut sets: Vec<_> = self.sets.iter().filter(|(set, _)| self.holds(set, snapshot)).collect();
        sets.sort_unstable_by_key(|(set, _)| *set);
        let counts = sets.into_iter().flat_map(|(set, kept)| {
            let elements = kept.object.elements(all, End::Least, snapshot);
            elements.map(|(element, count)| Count { set: set.clone(), element: element.clone(), count })
        });
        let containers = self.containers.iter().filter_map(|(name, kept)| {
            let Written { version, value, .. } = kept.object.at(snapshot)?.clone();
            Some(Placed { name: name.clone(), version, container: value? })
        });
        Base {
            floor: snapshot.clone(),
            registers: registers.collect(),
            counts: counts.collect(),
            containers: containers.collect(),
        }
    }

    /// Histories of a site that hold this and nothing later. The base may be that of another site, which has objects that this one has not.
    pub fn from_base(base: Base, site: LocalSite) -> Self {
        let mut histories =
            Histories { site, received: base.floor.clone(), floor: base.floor, ..Histories::default() };
        for Placed { name, version, container } in base.containers {
            if !container.replicas.has(site) {
                histories.given_up.insert(name.clone());
            }
            histories.place(version, &name, Some(container));
        }
        for Read { key, version, value } in base.registers {
            if histories.holds(&key, &histories.floor) {
                histories.write(version, &key, Some(value));
            }
        }
        for Count { set, element, count } in base.counts {
            if histories.holds(&set, &histories.floor) {
                histories.change_set(&set, |object| object.set_base(element, count));
            }
        }
        histories
    }

    /// The memory that all objects take, about. Containers are few.
    pub fn memory(&self) -> Memory {
        // In a table and in order, each with the room that it keeps.
        const REGISTER: usize = (size_of::<(Key, Box<Kept<Register>>)>() + size_of::<Key>()) * 3 / 2
            + size_of::<Kept<Register>>();
        const SET: usize = size_of::<(Key, Kept<CountingSet>)>() * 3 / 2;
        const VERSION: usize = size_of::<Written>();
        let Taken { keys, versions, values, sets } = self.taken;
        let index = self.registers.len() * REGISTER + self.sets.len() * SET + versions * VERSION + keys;
        Memory { index, values: values + sets, stowed: 0 }
    }

    /// How many versions of registers, changes of sets and counts are kept, and about how many bytes they have.
    pub fn size(&self) -> (usize, u64) {
        let mut size = (0, 0);
        for key in &self.ordered {
            let (count, bytes) = self.register(key).map_or((0, 0), Register::size);
            size = (size.0 + count, size.1 + (bytes + count * key.len()) as u64);
        }
        for (set, kept) in &self.sets {
            let (count, bytes) = kept.object.size();
            size = (size.0 + count, size.1 + bytes + set.len() as u64);
        }
        for (name, kept) in &self.containers {
            size = (size.0 + kept.object.versions().count(), size.1 + name.len() as u64);
        }
        size
    }

    /// Every version of every register, ascending by key, oldest first, also those whose values are elsewhere.
    pub fn versions(&self) -> impl Iterator<Item = (&Key, &Written)> {
        let versions = |key: &Key| self.registers.get(key.as_slice()).map(|kept| kept.object.versions());
        self.ordered
            .iter()
            .flat_map(move |key| versions(key).into_iter().flatten().map(move |known| (key, known)))
    }

    /// How many objects keep more than the floor tells apart, once [`Histories::fold`] is done.
    pub fn superfluous(&self) -> usize {
        self.unfolded
    }

    /// Raises the floor: from here on a snapshot that does not include it is too old. [`Histories::fold`] frees the room.
    pub fn raise_floor(&mut self, floor: &Vector) {
        self.floor.join(floor);
        assert!(
            self.received.includes_all(&self.floor),
            "the floor is {}, and {} was received",
            self.floor,
            self.received
        );
        self.unfolded = self.foldable.len();
    }

    /// Folds what the floor makes superfluous, of at most so many objects. True if others are left to be looked at.
    pub fn fold(&mut self, objects_max: usize) -> bool {
        for _ in 0..objects_max.min(self.unfolded) {
            assert!(
                self.unfolded <= self.foldable.len(),
                "{} objects are to be folded, of {}",
                self.unfolded,
                self.foldable.len()
            );
            self.unfolded -= 1;
            let Some((kind, key)) = self.foldable.pop_front() else { break };
            if self.fold_object(kind, &key) {
                self.foldable.push_back((kind, key));
            }
        }
        if self.unfolded == 0 {
            self.leave();
        }
        self.assert_ordered();
        self.unfolded > 0
    }

    /// Every register is in order, and nothing else is.
    fn assert_ordered(&self) {
        let (registers, ordered) = (self.registers.len(), self.ordered.len());
        assert!(registers == ordered, "{registers} registers are there, and {ordered} are in order");
    }

    /// True if a higher floor makes more of the object superfluous.
    fn fold_object(&mut self, kind: Kind, key: &Key) -> bool {
        let is_held = self.holds(key, &self.floor);
        match kind {
            Kind::Register => {
                let Some(kept) = self.registers.get_mut(key.as_slice()) else { return false };
                let before = kept.object.size();
                match is_held {
                    true => _ = kept.object.fold(&self.floor),
                    false => kept.object.give_up(&self.floor),
                }
                self.taken.replace_register(before, kept.object.size());
                kept.is_queued = !kept.object.is_empty() && (kept.object.is_foldable() || !is_held);
                let is_queued = kept.is_queued;
                if kept.object.is_empty() {
                    self.registers.remove(key.as_slice());
                    self.ordered.remove(key);
                    self.taken.keys -= key.len();
                }
                is_queued
            }
            Kind::Set => {
                let Some(kept) = self.sets.get_mut(key) else { return false };
                let before = kept.object.memory();
                match is_held {
                    true => _ = kept.object.fold(&self.floor),
                    false => kept.object.give_up(&self.floor, self.site),
                }
                self.taken.replace_set(before, kept.object.memory());
                kept.is_queued = kept.object.is_foldable();
                let is_queued = kept.is_queued;
                if kept.object.is_empty() {
                    self.sets.remove(key);
                    self.taken.keys -= key.len();
                }
                is_queued
            }
            Kind::Container => self.fold_container(key),
        }
    }

    /// Drops all that transactions of a site have done above this one, as if they had never committed: they were abandoned (section 5.7).
    ///
    /// # Panics
    /// If the floor includes one of them: it had committed everywhere.
    pub fn abandon_above(&mut self, last: VersionNumber) {
        assert!(
            self.floor.of(last.site) <= last.seqno,
            "what the floor {} includes has committed everywhere",
            self.floor
        );
        self.received.exclude_above(last);
        assert!(
            self.received.of(last.site) <= last.seqno && self.received.includes_all(&self.floor),
            "{} was received up to {last}, above the floor {}",
            self.received,
            self.floor
        );
        let is_abandoned = |version: VersionNumber| version.site == last.site && version.seqno > last.seqno;
        let mut emptied = Vec::new();
        let taken = &mut self.taken;
        for key in &self.ordered {
            if let Some(kept) = self.registers.get_mut(key.as_slice()) {
                let before = kept.object.size();
                kept.object.discard(is_abandoned);
                taken.replace_register(before, kept.object.size());
                emptied.extend(kept.object.is_empty().then(|| key.clone()));
            }
        }
        for key in emptied {
            self.registers.remove(key.as_slice());
            self.ordered.remove(&key);
            taken.keys -= key.len();
        }
        // Any order: what becomes of a set concerns no other.
        self.sets.retain(|set, kept| {
            let before = kept.object.memory();
            kept.object.discard(is_abandoned);
            taken.replace_set(before, kept.object.memory());
            taken.keys -= if kept.object.is_empty() { set.len() } else { 0 };
            !kept.object.is_empty()
        });
        self.containers.retain(|_, kept| {
            kept.object.discard(is_abandoned);
            !kept.object.is_empty()
        });
        self.count_limited();
        self.forget_gone();
    }

    /// Objects that are gone do not wait to be folded: they would wait twice once they are there again.
    fn forget_gone(&mut self) {
        let Histories { registers, sets, containers, foldable, unfolded, .. } = self;
        let is_there = |(kind, key): &(Kind, Key)| match kind {
            Kind::Register => registers.contains_key(key.as_slice()),
            Kind::Set => sets.contains_key(key),
            Kind::Container => containers.contains_key(key),
        };
        *unfolded = foldable.iter().take(*unfolded).filter(|queued| is_there(queued)).count();
        foldable.retain(is_there);
    }

    fn register(&self, key: &[u8]) -> Option<&Register> {
        self.registers.get(key).map(|kept| &kept.object)
    }

    fn check(&self, snapshot: &Vector) -> Result<(), TooOld> {
        if snapshot.includes_all(&self.floor) {
            return Ok(());
        }
        Err(self.too_old(snapshot))
    }

    fn too_old(&self, snapshot: &Vector) -> TooOld {
        TooOld { snapshot: snapshot.clone(), floor: self.floor.clone() }
    }
}

/// A register that has a value in a snapshot.
fn read(key: &Key, register: &Register, snapshot: &Vector) -> Option<Read> {
    let written = register.at(snapshot)?;
    Some(Read { key: key.clone(), version: written.version, value: written.value.clone()? })
}

/// A counter as clients see it, between two bounds.
fn value_of(
    set: &Key,
    counter: &CountingSet,
    between: (Bound<&Key>, Bound<&Key>),
    limit: usize,
    snapshot: &Vector,
) -> Elements {
    let element = Key::copy_from_slice(counter::VALUE);
    let count = Count { set: set.clone(), element, count: counter.sum(snapshot) };
    let is_there = count.count != 0 && between.contains(&count.element);
    let counts: Vec<Count> = Vec::from_iter(is_there.then_some(count)).into_iter().take(limit).collect();
    Elements { is_cut: is_there && counts.is_empty(), counts }
}

/// False if no element lies between two bounds, whatever the elements are.
fn is_some_between(between: (Bound<&Key>, Bound<&Key>)) -> bool {
    match between {
        (Bound::Included(from), Bound::Included(to)) => from <= to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from < to
        }
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
    }
}

#[cfg(test)]
mod tests;
