//! Histories beside a model, which keeps every transaction and works out at each question what a floor leaves of them.
//!
//! A site receives transactions of three sites, places containers at fewer and fewer of them, raises its floor, gives its copies up, abandons
//! transactions, and goes on from the pages of a state. After each of these steps everything that histories tell is compared.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::Random;
use quorate_core::topology::container_of;

use crate::histories::*;
use crate::message::Change;

const SITES: u16 = 3;
const REGISTERS: [&str; 6] = ["{a}x", "{a}y", "{b}x", "{b}z", "c", "d"];
const SETS: [&str; 4] = ["{a}s", "{b}s", "t", "\0n"];
const ELEMENTS: [&str; 3] = ["e", "f", "g"];
const CONTAINERS: [&str; 3] = ["a", "b", "c"];

/// Two bounds of elements.
type Between<'a> = (Bound<&'a Key>, Bound<&'a Key>);

/// A change of a count, with the transaction that has made it.
type Changed = (VersionNumber, Key, i32);

/// Everything that has taken effect at a site.
struct Model {
    site: LocalSite,
    floor: Vector,
    received: Vector,
    /// In the order in which it took effect.
    applied: Vec<(VersionNumber, Vec<Update>)>,
}

/// Some words as keys, ascending.
fn keys(words: &[&str]) -> BTreeSet<Key> {
    words.iter().map(|word| Key::from(*word)).collect()
}

/// The versions that snapshots read which include a floor.
fn folded<T>(mut versions: Vec<Written<T>>, floor: &Vector) -> Vec<Written<T>> {
    if let Some(newest) = versions.iter().rposition(|known| floor.includes(known.version)) {
        let destroys = versions[newest].value.is_none() && !versions[newest].is_elsewhere;
        versions.drain(..newest + usize::from(destroys));
    }
    versions
}

/// The newest of some versions in a snapshot.
fn newest<'a, T>(versions: &'a [Written<T>], snapshot: &Vector) -> Option<&'a Written<T>> {
    versions.iter().rfind(|known| snapshot.includes(known.version))
}

/// True if a higher floor makes some of these versions superfluous.
fn are_foldable<T>(versions: &[Written<T>]) -> bool {
    versions.len() > 1 || versions.iter().any(|known| known.value.is_none())
}

/// True if a transaction destroys a register and writes it again.
fn overwrites(updates: &[Update]) -> bool {
    let destroyed = |update: &Update| matches!(update, Update::Write { value: None, .. });
    let again = |at: usize| updates[at + 1..].iter().any(|later| later.object() == updates[at].object());
    (0..updates.len()).any(|at| destroyed(&updates[at]) && again(at))
}

fn is_between(element: &Key, (from, to): Between<'_>) -> bool {
    let begins = match from {
        Bound::Included(from) => element >= from,
        Bound::Excluded(from) => element > from,
        Bound::Unbounded => true,
    };
    let ends = match to {
        Bound::Included(to) => element <= to,
        Bound::Excluded(to) => element < to,
        Bound::Unbounded => true,
    };
    begins && ends
}

impl Model {
    /// The versions of a container that are kept.
    fn placed(&self, name: &[u8]) -> Vec<Written<Container>> {
        let mut all = Vec::new();
        for (version, updates) in &self.applied {
            if let [Update::Place { name: of, container }] = &updates[..]
                && of.as_slice() == name
            {
                all.push(Written { version: *version, value: container.clone(), is_elsewhere: false });
            }
        }
        folded(all, &self.floor)
    }

    fn replicas(&self, key: &Key, snapshot: &Vector) -> Replicas {
        let placed = self.placed(container_of(key));
        let container = newest(&placed, snapshot).and_then(|placed| placed.value.as_ref());
        container.filter(|_| !is_counter(key)).map_or(Replicas::ALL, |container| container.replicas.clone())
    }

    fn holds(&self, key: &Key, snapshot: &Vector) -> bool {
        self.replicas(key, snapshot).has(self.site)
    }

    fn keeps(&self, key: &Key) -> bool {
        self.holds(key, &Vector::new(vec![u64::MAX; usize::from(SITES)]))
    }

    fn limited(&self) -> BTreeSet<Replicas> {
        let placed = CONTAINERS.iter().flat_map(|name| self.placed(name.as_bytes()));
        let replicas = placed.filter_map(|placed| placed.value).map(|container| container.replicas);
        replicas.filter(|replicas| !replicas.is_all()).collect()
    }

    fn knows_reached(&self, key: &Key, snapshot: &Vector) -> bool {
        let placed = self.placed(container_of(key));
        let below = newest(&placed, &self.floor);
        self.limited().is_empty()
            || snapshot.includes_all(&self.floor)
            || below.is_none_or(|below| snapshot.includes(below.version))
    }

    fn reached(&self, key: &Key, snapshot: &Vector) -> Replicas {
        match self.knows_reached(key, snapshot) {
            true => self.replicas(key, snapshot),
            false => self.replicas(key, &self.floor),
        }
    }

    /// The versions of a register that are kept.
    fn versions(&self, key: &Key) -> Vec<Written> {
        let mut all: Vec<Written> = Vec::new();
        for (version, update) in self
            .applied
            .iter()
            .flat_map(|(version, updates)| updates.iter().map(move |update| (*version, update)))
        {
            let (value, is_elsewhere) = match update {
                Update::Write { key: of, value } if of == key => (value.clone(), false),
                Update::Noted { object, writes: true } if object == key => (None, true),
                _ => continue,
            };
            all.retain(|known| known.version != version);
            all.push(Written { version, value, is_elsewhere });
        }
        if self.holds(key, &self.floor) {
            return folded(all, &self.floor);
        }
        all.retain(|known| !self.floor.includes(known.version));
        all
    }

    /// The counts of a set below the floor, and the changes above it.
    fn changes(&self, set: &Key) -> (BTreeMap<Key, i64>, Vec<Changed>) {
        let is_held = self.holds(set, &self.floor);
        let (mut base, mut later) = (BTreeMap::new(), Vec::new());
        for (version, updates) in &self.applied {
            let mut changed: BTreeMap<Key, i32> = BTreeMap::new();
            for update in updates {
                if let Update::Add { set: of, element, by } = update
                    && of == set
                {
                    *changed.entry(element.clone()).or_default() += by;
                }
            }
            let is_below = self.floor.includes(*version);
            for (element, by) in changed {
                if is_held && is_below {
                    *base.entry(element).or_default() += i64::from(by);
                } else if !is_below && (is_held || version.site == self.site) {
                    later.push((*version, element, by));
                }
            }
        }
        base.retain(|_, count: &mut i64| *count != 0);
        (base, later)
    }

    /// The counts of a set in a snapshot that are not zero.
    fn counts(&self, set: &Key, snapshot: &Vector) -> BTreeMap<Key, i64> {
        let (mut counts, later) = self.changes(set);
        for (_, element, by) in later.iter().filter(|(version, ..)| snapshot.includes(*version)) {
            *counts.entry(element.clone()).or_default() += i64::from(*by);
        }
        counts.retain(|_, count| *count != 0);
        counts
    }

    /// How many objects a higher floor makes something superfluous of.
    fn foldable(&self) -> usize {
        let is_foldable = |key: &&Key| {
            let versions = self.versions(key);
            are_foldable(&versions) || (!versions.is_empty() && !self.holds(key, &self.floor))
        };
        let registers = keys(&REGISTERS).iter().filter(is_foldable).count();
        let sets = keys(&SETS).iter().filter(|set| !self.changes(set).1.is_empty()).count();
        let leaves = |placed: &[Written<Container>]| {
            let has = |placed: Option<&Written<Container>>| {
                let container = placed.and_then(|placed| placed.value.as_ref());
                container.is_none_or(|container| container.replicas.has(self.site))
            };
            !has(placed.last()) && has(newest(placed, &self.floor))
        };
        let placed = CONTAINERS.iter().map(|name| self.placed(name.as_bytes()));
        registers + sets + placed.filter(|placed| are_foldable(placed) || leaves(placed)).count()
    }

    fn size(&self) -> (usize, u64) {
        let (mut count, mut bytes) = (0, 0);
        for key in keys(&REGISTERS) {
            let versions = self.versions(&key);
            count += versions.len();
            bytes += versions.len() * key.len();
            bytes += versions.iter().filter_map(|known| known.value.as_ref()).map(Value::len).sum::<usize>();
        }
        for set in keys(&SETS) {
            let (base, later) = self.changes(&set);
            let elements: Vec<&Key> =
                base.keys().chain(later.iter().map(|(_, element, _)| element)).collect();
            count += elements.len();
            bytes += elements.iter().map(|element| 8 + element.len()).sum::<usize>();
            bytes += if elements.is_empty() { 0 } else { set.len() };
        }
        for name in CONTAINERS {
            let versions = self.placed(name.as_bytes()).len();
            count += versions;
            bytes += if versions == 0 { 0 } else { name.len() };
        }
        (count, bytes as u64)
    }

    fn at(&self, snapshot: &Vector) -> Base {
        let mut base = Base { floor: snapshot.clone(), ..Base::default() };
        for key in keys(&REGISTERS) {
            let versions = self.versions(&key);
            if let Some(Written { version, value: Some(value), .. }) = newest(&versions, snapshot)
                && self.holds(&key, snapshot)
            {
                base.registers.push(Read { key, version: *version, value: value.clone() });
            }
        }
        for set in keys(&SETS) {
            if self.holds(&set, snapshot) {
                let counts = self.counts(&set, snapshot).into_iter();
                base.counts.extend(counts.map(|(element, count)| Count { set: set.clone(), element, count }));
            }
        }
        for name in keys(&CONTAINERS) {
            let placed = self.placed(&name);
            if let Some(Written { version, value: Some(container), .. }) = newest(&placed, snapshot) {
                base.containers.push(Placed { name, version: *version, container: container.clone() });
            }
        }
        base
    }

    /// A page of registers; none if one of them is wanted whose value is elsewhere.
    fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        snapshot: &Vector,
        is_wanted: impl Fn(&Key) -> bool,
    ) -> Option<Registers> {
        let mut found = Vec::new();
        for key in keys(&REGISTERS).into_iter().filter(|key| range.contains(key)) {
            let versions = self.versions(&key);
            if versions.is_empty() {
                continue;
            }
            if found.len() == limit {
                return Some((found, Some(key)));
            }
            if let Some(Written { version, value, is_elsewhere }) = newest(&versions, snapshot)
                && self.holds(&key, snapshot)
                && is_wanted(&key)
            {
                if *is_elsewhere {
                    return None;
                }
                let read = value.clone().map(|value| Read { key: key.clone(), version: *version, value });
                found.extend(read);
            }
        }
        Some((found, None))
    }

    fn elements(
        &self,
        set: &Key,
        between: Between<'_>,
        from: End,
        limit: usize,
        snapshot: &Vector,
    ) -> Elements {
        let mut counts = self.counts(set, snapshot);
        if is_counter(set) {
            let sum = counts.values().sum();
            counts = BTreeMap::from([(Key::copy_from_slice(counter::VALUE), sum)]);
            counts.retain(|_, sum| *sum != 0);
        }
        let counts = counts.into_iter().filter(|(element, _)| is_between(element, between));
        let mut counts: Vec<Count> =
            counts.map(|(element, count)| Count { set: set.clone(), element, count }).collect();
        if from == End::Greatest {
            counts.reverse();
        }
        let is_cut = counts.len() > limit;
        counts.truncate(limit);
        Elements { counts, is_cut }
    }
}

/// The histories and the model of one site.
struct Walk {
    random: Random,
    model: Model,
    histories: Histories,
    /// False once something was abandoned, or overwritten by its own transaction: that may leave objects among the foldable which are not any more.
    is_queue_exact: bool,
    written: u64,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let site = LocalSite(random.index(usize::from(SITES)) as u16);
        let (floor, received) = (Vector::default(), Vector::default());
        let model = Model { site, floor, received, applied: Vec::new() };
        Walk { random, model, histories: Histories::new(site), is_queue_exact: true, written: 0 }
    }

    fn one_of(&mut self, words: &[&'static str]) -> Key {
        Key::from(words[self.random.index(words.len())])
    }

    fn site(&mut self) -> LocalSite {
        LocalSite(self.random.index(usize::from(SITES)) as u16)
    }

    /// A version of a container that names no site which the one before did not.
    fn place(&mut self) -> Update {
        let name = self.one_of(&CONTAINERS);
        let placed = self.model.placed(&name);
        let present = placed.last().and_then(|placed| placed.value.as_ref());
        let present = present.map_or(Replicas::ALL, |container| container.replicas.clone());
        if present.is_all() && self.random.chance(0.4) {
            let container = Container { preferred: self.site(), replicas: Replicas::ALL, stays: false };
            let container = self.random.chance(0.5).then_some(container);
            return Update::Place { name, container };
        }
        let mut sites = present.among((0..SITES).map(LocalSite));
        while sites.len() > 1 && self.random.chance(0.4) {
            sites.remove(self.random.index(sites.len()));
        }
        let preferred = sites[self.random.index(sites.len())];
        let container = Some(Container { preferred, replicas: Replicas::of(sites), stays: true });
        Update::Place { name, container }
    }

    /// Updates of objects, with the values that another site sends to this one.
    fn updates(&mut self, of: LocalSite) -> Vec<Update> {
        let mut updates = Vec::new();
        let mut objects = BTreeSet::new();
        for _ in 0..self.random.between(1, 4) {
            let writes = self.random.chance(0.5);
            let object = self.one_of(if writes { &REGISTERS } else { &SETS });
            let comes = of == self.model.site || self.model.keeps(&object) || self.random.chance(0.3);
            let is_first = objects.insert((object.clone(), writes));
            if !comes && is_first {
                updates.push(Update::Noted { object, writes });
            } else if comes && writes {
                self.written += 1;
                let value = Value::from(self.written.to_string().into_bytes());
                let value = self.random.chance(0.8).then_some(value);
                updates.push(Update::Write { key: object, value });
            } else if comes {
                let (element, by) = (self.one_of(&ELEMENTS), self.random.between(0, 4) as i32 - 2);
                updates.push(Update::Add { set: object, element, by });
            }
        }
        let is_noted = |of: &Key| {
            let is_it = |update: &Update| matches!(update, Update::Noted { object, .. } if object == of);
            updates.iter().any(is_it)
        };
        let twice = |update: &Update| !matches!(update, Update::Noted { .. }) && is_noted(update.object());
        updates.iter().filter(|update| !twice(update)).cloned().collect()
    }

    fn apply(&mut self) {
        let site = self.site();
        let version = VersionNumber { site, seqno: self.model.received.of(site) + 1 };
        let updates = if self.random.chance(0.2) { vec![self.place()] } else { self.updates(site) };
        self.histories.apply(version, &updates);
        self.is_queue_exact &= !overwrites(&updates);
        self.model.received.include(version);
        self.model.applied.push((version, updates));
    }

    /// Raises the floor to what had taken effect at some time, and folds so many objects at a time.
    fn raise_floor(&mut self) {
        let known = self.random.index(self.model.applied.len() + 1);
        let mut floor = Vector::default();
        self.model.applied[..known].iter().for_each(|(version, _)| floor.include(*version));
        let foldable = self.model.foldable();
        self.histories.raise_floor(&floor);
        self.model.floor.join(&floor);
        let superfluous = self.histories.superfluous();
        assert!(superfluous >= foldable, "{superfluous} objects are to be folded, of {foldable}");
        assert!(
            superfluous == foldable || !self.is_queue_exact,
            "{superfluous} are to be folded, not {foldable}"
        );
        let objects_max = self.random.between(1, 3) as usize;
        let mut turns = 1;
        while self.histories.fold(objects_max) {
            turns += 1;
            assert_eq!(self.histories.superfluous(), superfluous - (turns - 1) * objects_max);
        }
        assert_eq!(turns, superfluous.div_ceil(objects_max).max(1));
        assert_eq!(self.histories.superfluous(), 0);
    }

    fn abandon(&mut self) {
        let site = self.site();
        let seqno = self.random.between(self.model.floor.of(site), self.model.received.of(site));
        let last = VersionNumber { site, seqno };
        self.histories.abandon_above(last);
        self.model.received.exclude_above(last);
        self.model.applied.retain(|(version, _)| version.site != site || version.seqno <= seqno);
        self.is_queue_exact = false;
    }

    /// Goes on from the state as a restart finds it: what the floor reads, and all transactions since.
    fn restart(&mut self) {
        let model = &self.model;
        let is_lost = |key: &Key| {
            let versions = model.versions(key);
            model.holds(key, &model.floor)
                && newest(&versions, &model.floor).is_some_and(|last| last.is_elsewhere)
        };
        if keys(&REGISTERS).iter().any(is_lost) {
            // The container's version was abandoned that this depends on. With it goes what has seen it, which no model of one site knows.
            return;
        }
        let base = self.histories.base();
        self.histories = Histories::from_base(base.clone(), model.site);
        assert_eq!(self.histories.received(), &model.floor);
        self.is_queue_exact = true;
        for (version, updates) in &model.applied {
            if !model.floor.includes(*version) {
                self.histories.apply(*version, updates);
                self.is_queue_exact &= !overwrites(updates);
            }
        }
        for other in (0..SITES).map(LocalSite) {
            let mut theirs = base.clone();
            theirs.registers.retain(|read| model.replicas(&read.key, &model.floor).has(other));
            theirs.counts.retain(|count| model.replicas(&count.set, &model.floor).has(other));
            let adopted = Histories::from_base(base.clone(), other);
            assert_eq!(adopted.base(), theirs, "as {other} adopts it");
            assert_eq!(adopted.size(), Histories::from_base(theirs, other).size(), "nothing else is kept");
        }
    }

    fn snapshot(&mut self, floor: &Vector) -> Vector {
        let number = |site: u16| {
            let site = LocalSite(site);
            self.random.between(floor.of(site), self.model.received.of(site) + 1)
        };
        Vector::new((0..SITES).map(number).collect())
    }

    /// Objects that are marked to be folded are there, and stand in the queue once.
    fn check_queue(&self) {
        let Histories { registers, sets, containers, foldable, .. } = &self.histories;
        let is_marked = |(kind, key): &(Kind, Key)| match kind {
            Kind::Register => registers.get(key.as_slice()).is_some_and(|kept| kept.is_queued),
            Kind::Set => sets.get(key).is_some_and(|kept| kept.is_queued),
            Kind::Container => containers.get(key).is_some_and(|kept| kept.is_queued),
        };
        for (place, queued) in foldable.iter().enumerate() {
            assert!(is_marked(queued), "{queued:?} is gone, or is not marked");
            assert!(!foldable.range(place + 1..).any(|other| other == queued), "{queued:?} waits twice");
        }
        // Any order: they are counted.
        let marked = registers.values().filter(|kept| kept.is_queued).count()
            + sets.values().filter(|kept| kept.is_queued).count()
            + containers.values().filter(|kept| kept.is_queued).count();
        assert_eq!(marked, foldable.len());
    }

    /// The parts of the memory that are counted while objects change are those that objects have.
    fn check_memory(&self) {
        let Histories { registers, sets, taken, .. } = &self.histories;
        let of_sets =
            |count: fn(&CountingSet) -> usize| sets.values().map(|kept| count(&kept.object)).sum::<usize>();
        for kept in sets.values() {
            let (counted, anew) = kept.object.counted_bytes();
            assert_eq!(counted, anew);
        }
        let versions = || registers.values().flat_map(|kept| kept.object.versions());
        let anew = Taken {
            keys: registers.keys().chain(sets.keys()).map(|key| key.len()).sum(),
            versions: versions().count(),
            values: versions().filter_map(|known| known.value.as_ref()).map(Value::len).sum(),
            sets: of_sets(CountingSet::memory),
        };
        assert_eq!(*taken, anew);
        let is_nothing = registers.is_empty() && sets.is_empty();
        assert_eq!(self.histories.memory().bytes() == 0, is_nothing);
    }

    fn check(&mut self) {
        self.check_queue();
        self.check_memory();
        let (model, histories) = (&self.model, &self.histories);
        assert_eq!((histories.received(), histories.floor()), (&model.received, &model.floor));
        assert_eq!(histories.size(), model.size());
        assert_eq!(histories.limited().cloned().collect::<Vec<_>>(), Vec::from_iter(model.limited()));
        let is_known = |name: &&str| !model.placed(name.as_bytes()).is_empty();
        let known: Vec<&str> = CONTAINERS.into_iter().filter(is_known).collect();
        assert_eq!(histories.container_names().collect::<Vec<_>>(), Vec::from_iter(&keys(&known)));
        let kept = keys(&REGISTERS)
            .into_iter()
            .flat_map(|key| model.versions(&key).into_iter().map(move |known| (key.clone(), known)));
        let versions = histories.versions().map(|(key, known)| (key.clone(), known.clone()));
        assert_eq!(versions.collect::<Vec<_>>(), kept.collect::<Vec<_>>());
        assert_eq!(histories.base(), model.at(&model.floor));
        for key in keys(&REGISTERS) {
            assert_eq!(histories.last(&key), model.versions(&key).last().map(|known| known.version));
            assert_eq!(histories.keeps(&key), model.keeps(&key), "{key:?}");
        }
        for _ in 0..3 {
            let floor = self.model.floor.clone();
            let snapshot = self.snapshot(&floor);
            self.check_snapshot(&snapshot);
            let any = self.snapshot(&Vector::default());
            self.check_copies(&any);
            if !any.includes_all(&floor) {
                self.check_too_old(&any);
            }
        }
    }

    fn check_snapshot(&mut self, snapshot: &Vector) {
        let (model, histories) = (&self.model, &self.histories);
        assert_eq!(histories.at(snapshot), model.at(snapshot));
        for key in keys(&REGISTERS) {
            let versions = model.versions(&key);
            assert_eq!(
                histories.read(&key, snapshot),
                Ok(newest(&versions, snapshot)),
                "{key:?} in {snapshot}"
            );
            let is_unmodified = versions.last().is_none_or(|last| snapshot.includes(last.version));
            assert_eq!(histories.is_unmodified(&key, snapshot), is_unmodified);
            assert_eq!(histories.holds(&key, snapshot), model.holds(&key, snapshot));
        }
        for name in CONTAINERS {
            let placed = model.placed(name.as_bytes());
            assert_eq!(histories.container(name.as_bytes(), None), placed.last());
            assert_eq!(histories.container(name.as_bytes(), Some(snapshot)), newest(&placed, snapshot));
        }
        let limit = self.random.between(0, 3) as usize;
        let (from, to) = (self.random.index(REGISTERS.len()), self.random.index(REGISTERS.len()));
        let to = self.random.chance(0.7).then(|| Key::from(REGISTERS[to]));
        let range = KeyRange { from: Key::from(REGISTERS[from]), to };
        let unwanted = self.random.chance(0.3).then(|| Key::from(REGISTERS[from]));
        let is_wanted = |key: &Key| unwanted.as_ref() != Some(key);
        let (model, histories) = (&self.model, &self.histories);
        let scanned = histories.scan(&range, limit, snapshot, is_wanted);
        assert_eq!(scanned.ok(), model.scan(&range, limit, snapshot, is_wanted), "{range:?} in {snapshot}");
        for set in keys(&SETS) {
            self.check_set(&set, snapshot);
        }
    }

    fn check_set(&mut self, set: &Key, snapshot: &Vector) {
        let words: Vec<Key> = ["a", "e", "f", "g", "value"].map(Key::from).to_vec();
        let mut bound = || match self.random.index(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(&words[self.random.index(words.len())]),
            _ => Bound::Excluded(&words[self.random.index(words.len())]),
        };
        let between = (bound(), bound());
        let limit = self.random.between(0, 3) as usize;
        let (model, histories) = (&self.model, &self.histories);
        for from in [End::Least, End::Greatest] {
            let page = histories.elements(set, between, from, limit, snapshot).unwrap();
            let expected = model.elements(set, between, from, limit, snapshot);
            assert_eq!(page, expected, "{set:?} between {between:?} from the {from:?} in {snapshot}");
        }
        let counts = model.counts(set, snapshot);
        assert_eq!(histories.shares(set, snapshot), Vec::from_iter(counts.clone()));
        let (_, later) = model.changes(set);
        for element in &words {
            let count = counts.get(element).copied().unwrap_or(0);
            let taken = later.iter().filter(|(version, of, _)| of == element && !snapshot.includes(*version));
            let taken: i64 = taken.map(|(_, _, by)| i64::from(*by.min(&0))).sum();
            assert_eq!(histories.untaken(set, element, snapshot), count + taken, "{element:?} of {set:?}");
            let shown = match is_counter(set) {
                true if element.as_slice() == counter::VALUE => counts.values().sum(),
                true => 0,
                false => count,
            };
            assert_eq!(histories.count(set, element, snapshot), Ok(shown));
        }
        let is_meant = |(version, element, _): &&Changed| {
            version.site == model.site && snapshot.includes(*version) && is_between(element, between)
        };
        let own = later.iter().filter(is_meant);
        let own = own.map(|(version, element, by)| Change {
            seqno: version.seqno,
            element: element.clone(),
            by: *by,
        });
        assert_eq!(histories.own_changes(set, between, snapshot), Ok(own.collect()), "{set:?} in {snapshot}");
    }

    /// Of whichever snapshot: the sites that an update reaches.
    fn check_copies(&self, snapshot: &Vector) {
        let (model, histories) = (&self.model, &self.histories);
        for key in keys(&REGISTERS).into_iter().chain(keys(&SETS)) {
            let reached = model.reached(&key, snapshot);
            let needs = reached.has(model.site) && model.keeps(&key);
            assert_eq!(
                histories.knows_reached(&key, snapshot),
                model.knows_reached(&key, snapshot),
                "{key:?}"
            );
            assert_eq!(histories.reached(&key, snapshot), &reached, "{key:?} in {snapshot}");
            assert_eq!(histories.needs(&key, snapshot), needs, "{key:?} in {snapshot}");
        }
    }

    fn check_too_old(&self, snapshot: &Vector) {
        let (model, histories) = (&self.model, &self.histories);
        let too_old = TooOld { snapshot: snapshot.clone(), floor: model.floor.clone() };
        let (key, range) = (Key::from("t"), KeyRange { from: Key::default(), to: None });
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(histories.read(&key, snapshot), Err(too_old.clone()));
        assert_eq!(histories.scan(&range, 9, snapshot, |_| true), Err(too_old.clone()));
        assert_eq!(histories.count(&key, &key, snapshot), Err(too_old.clone()));
        assert_eq!(histories.elements(&key, all, End::Least, 9, snapshot), Err(too_old.clone()));
        assert_eq!(histories.own_changes(&key, all, snapshot), Err(too_old));
    }
}

#[test]
fn histories_tell_at_each_step_what_a_model_tells_that_keeps_every_transaction() {
    for seed in 0..120 {
        let mut walk = Walk::new(seed);
        let abandons = seed % 2 == 1;
        for _ in 0..40 {
            match walk.random.below(20) {
                0..=2 => walk.raise_floor(),
                3 => walk.restart(),
                4 if abandons => walk.abandon(),
                _ => walk.apply(),
            }
            walk.check();
        }
    }
}
