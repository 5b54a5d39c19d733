//! One attempt at a transaction: what to do next, given what was read so far.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_checker::{MicroOp, Observed};
use quorate_core::command::{End, Member};
use quorate_core::transaction::readable;
use quorate_core::{Key, KeyRange, Value, counter};

use crate::key::{self, in_history, number_of};
use crate::operation::{Element, Elements, Operation, Plan, Scan, Spread};
use crate::social::{self, ReadSet};
use crate::unique::UniqueValues;
use crate::value::{Content, Undecodable};

/// The next step of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a key and pass what it holds to [`Execution::got`].
    Get(Key),
    /// Read these keys, each of which is another one, and pass what each holds to [`Execution::got_one`].
    GetMany(Vec<Key>),
    /// Read a page of a range and pass it to [`Execution::scanned`].
    Scan {
        /// The range.
        range: KeyRange,
        /// At most so many keys.
        limit: u32,
    },
    /// Write a key; none deletes it.
    Put(Key, Option<Value>),
    /// Change the count of an element of a counting set.
    Change {
        /// The set.
        set: Key,
        /// The element.
        element: Key,
        /// By how much.
        by: i32,
    },
    /// Read a page of a counting set and pass it to [`Execution::counted`].
    Elements {
        /// The set.
        set: Key,
        /// Those in this range.
        range: KeyRange,
        /// From which end.
        from: End,
        /// At most so many.
        limit: u32,
        /// So many more will do; none if all are wanted.
        enough: Option<u32>,
    },
    /// Read a page of a counting set, with the keys that its elements are, and pass it to [`Execution::counted_with_objects`].
    Members {
        /// The set.
        set: Key,
        /// The elements in this range.
        range: KeyRange,
        /// From which end.
        from: End,
        /// At most so many.
        limit: u32,
    },
    /// Commit: everything is done.
    Commit,
}

/// A key that was to be read and was not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key {key} was not read")]
pub struct Unread {
    /// The key, readable.
    pub key: String,
}

/// One attempt at a [`Plan`]: ask for the next step, answer reads, until it says commit.
#[derive(Clone, Debug)]
pub struct Execution {
    plan: Arc<Plan>,
    /// The values that are written are padded to this size.
    value_bytes_min: usize,
    /// For each operation: the fresh value that it writes, if it writes one.
    fresh: Vec<i64>,
    /// For each operation: what it has read.
    seen: Vec<Seen>,
    /// The value that the current operation writes, now that it has read.
    pending: Option<Value>,
    /// Changes of sets that were found out to be made, and have not been made.
    queued: VecDeque<Step>,
    /// The same as a history records them, until it has been told.
    discovered: Vec<MicroOp>,
    /// How many operations are done.
    done: usize,
    /// True if each object is read by itself, those that a set names too.
    reads_apart: bool,
}

/// The result of an operation that was done together with all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenAtOnce {
    /// It has only written.
    Nothing,
    /// A key, before it has written that, if it has.
    Value(Option<Value>),
    /// A page of a range.
    Page {
        /// Keys and values, ascending.
        entries: Vec<(Key, Value)>,
        /// The first key that it does not cover; none if it covers the range.
        next: Option<Key>,
    },
}

/// The result of an operation.
#[derive(Clone, Debug, Default)]
enum Seen {
    #[default]
    Nothing,
    Value(Option<Value>),
    Pages(Pages),
    Listed(Listed),
}

/// The part of a set that was read.
#[derive(Clone, Debug, Default)]
struct Listed {
    counts: Vec<(Key, i64)>,
    /// The range that was not read; none at first.
    rest: Option<KeyRange>,
    /// True once no more elements are wanted, or there are none.
    is_over: bool,
    /// The objects that elements name, and what they hold.
    objects: Vec<(Key, Option<Value>)>,
}

impl Listed {
    /// How many elements more will do.
    fn enough(&self, elements: &Elements) -> Option<u32> {
        elements.limit.map(|limit| limit.saturating_sub(self.counts.len() as u32))
    }

    /// The objects that are to be read once all elements are.
    fn wanted(&self, elements: &Elements) -> Vec<Key> {
        let present = self.counts.iter().filter(|(_, count)| *count >= 1);
        let named = present.filter_map(|(element, _)| social::named(element)).take(elements.objects as usize);
        named.filter(|key| !self.objects.iter().any(|(read, _)| read == key)).collect()
    }
}

#[derive(Clone, Debug, Default)]
struct Pages {
    entries: Vec<(Key, Value)>,
    count: u32,
    next: Option<Key>,
}

impl Execution {
    /// An attempt at `plan` that writes fresh values of at least `value_bytes_min` bytes.
    pub fn new(plan: Arc<Plan>, unique: &mut UniqueValues, value_bytes_min: usize) -> Self {
        let fresh = plan.operations.iter().map(|op| if op.writes() { unique.draw() } else { 0 }).collect();
        let seen = plan.operations.iter().map(|_| Seen::Nothing).collect();
        let (pending, queued, discovered) = (None, VecDeque::new(), Vec::new());
        let (done, reads_apart) = (0, false);
        Execution { plan, value_bytes_min, fresh, seen, pending, queued, discovered, done, reads_apart }
    }

    /// The same, which reads each object by itself: a set first, and then the objects that it names.
    #[must_use]
    pub fn reading_apart(self) -> Self {
        Execution { reads_apart: true, ..self }
    }

    /// True if it was [told to](Execution::reading_apart).
    pub fn reads_apart(&self) -> bool {
        self.reads_apart
    }

    /// The transaction.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// True once an operation is done.
    pub fn has_begun(&self) -> bool {
        self.done > 0
    }

    /// The next step. A read is repeated until it is answered, and commit for ever.
    pub fn next_step(&mut self) -> Step {
        if let Some(step) = self.queued.pop_front() {
            return step;
        }
        let Some(operation) = self.plan.operations.get(self.done) else { return Step::Commit };
        match operation {
            Operation::Update(key) | Operation::Append(key) | Operation::Increment(key) => {
                match self.pending.take() {
                    Some(value) => {
                        self.done += 1;
                        Step::Put(key.clone(), Some(value))
                    }
                    None => Step::Get(key.clone()),
                }
            }
            Operation::Get(key) => Step::Get(key.clone()),
            Operation::Put(key) => {
                let value = self.register(self.fresh[self.done]);
                self.done += 1;
                Step::Put(key.clone(), Some(value))
            }
            Operation::Delete(key) => {
                self.done += 1;
                Step::Put(key.clone(), None)
            }
            Operation::Scan(scan) => {
                let from = match &self.seen[self.done] {
                    Seen::Pages(Pages { next: Some(next), .. }) => next.clone(),
                    _ => scan.range.from.clone(),
                };
                Step::Scan { range: KeyRange { from, to: scan.range.to.clone() }, limit: scan.page }
            }
            Operation::Create { owner } => {
                let number = self.fresh[self.done];
                let (key, value) = (social::object(*owner, number), self.register(number));
                self.done += 1;
                Step::Put(key, Some(value))
            }
            Operation::Change { set, element, by } => {
                let (element, _) = self.element(*element, self.done);
                let step = Step::Change { set: set.clone(), element, by: *by };
                self.done += 1;
                step
            }
            Operation::Elements(elements) | Operation::Spread(Spread { users: elements, .. }) => {
                self.next_of_set(elements)
            }
        }
    }

    /// The next read of a set, and of the objects that it names.
    fn next_of_set(&self, elements: &Elements) -> Step {
        let nothing = Listed::default();
        let listed = match &self.seen[self.done] {
            Seen::Listed(listed) => listed,
            _ => &nothing,
        };
        if listed.is_over {
            return Step::GetMany(listed.wanted(elements));
        }
        let range = listed.rest.clone().unwrap_or(KeyRange { from: Key::default(), to: None });
        if !self.reads_apart && elements.objects > 0 && listed.rest.is_none() && elements.names_objects {
            // The first elements and the objects that they name come together.
            let limit =
                listed.enough(elements).map_or(elements.objects, |enough| enough.min(elements.objects));
            return Step::Members { set: elements.set.clone(), range, from: elements.from, limit };
        }
        let enough = listed.enough(elements);
        let limit = enough.map_or(elements.page, |enough| enough.min(elements.page));
        Step::Elements { set: elements.set.clone(), range, from: elements.from, limit, enough }
    }

    /// The element that the operation at this place changes, and its number.
    fn element(&self, element: Element, at: usize) -> (Key, i64) {
        match element {
            Element::Fresh => (key::element(self.fresh[at]), self.fresh[at]),
            Element::Numbered(number) => (key::element(number), number),
            Element::Value => (Key::copy_from_slice(counter::VALUE), key::VALUE),
            Element::Created(object) => self.created(object),
        }
    }

    /// The name of the object that the operation at this place creates, and its number.
    fn created(&self, at: usize) -> (Key, i64) {
        let Operation::Create { owner } = &self.plan.operations[at] else {
            panic!("an operation that creates nothing was taken for one that does")
        };
        (social::object(*owner, self.fresh[at]), self.fresh[at])
    }

    /// The key that [`Step::Get`] named holds this.
    ///
    /// # Errors
    /// The transaction needs to understand the value and cannot. It can only be given up.
    pub fn got(&mut self, value: Option<Value>) -> Result<(), Undecodable> {
        let fresh = self.fresh[self.done];
        match &self.plan.operations[self.done] {
            Operation::Get(_) => self.done += 1,
            Operation::Update(_) => self.pending = Some(self.register(fresh)),
            Operation::Append(_) => {
                let mut elements = list(value.as_ref())?;
                elements.push(fresh);
                self.pending = Some(Content::List(elements).encode(self.value_bytes_min));
            }
            Operation::Increment(_) => self.pending = Some(self.register(counter(value.as_ref())? + 1)),
            Operation::Put(_)
            | Operation::Delete(_)
            | Operation::Scan(_)
            | Operation::Create { .. }
            | Operation::Change { .. }
            | Operation::Elements(_)
            | Operation::Spread(_) => {
                panic!("a value was passed to an operation that asked for none")
            }
        }
        let at = if self.pending.is_some() { self.done } else { self.done - 1 };
        self.seen[at] = Seen::Value(value);
        Ok(())
    }

    /// Everything that a plan of reads names holds this: for plans that read all at once, see [`Plan::keys_read`].
    ///
    /// # Errors
    /// A key was not read.
    pub fn got_all(&mut self, values: &BTreeMap<Key, Option<Value>>) -> Result<(), Unread> {
        while let Step::Get(key) = self.next_step() {
            let Some(value) = values.get(&key) else { return Err(Unread { key: readable(&key) }) };
            self.seen[self.done] = Seen::Value(value.clone());
            self.done += 1;
        }
        Ok(())
    }

    /// The range that [`Step::Scan`] named holds these entries; `next` is the first key that was not covered.
    pub fn scanned(&mut self, entries: Vec<(Key, Value)>, next: Option<Key>) {
        let Operation::Scan(scan) = &self.plan.operations[self.done] else {
            panic!("a page was passed to an operation that asked for none")
        };
        let mut pages = match std::mem::take(&mut self.seen[self.done]) {
            Seen::Pages(pages) => pages,
            Seen::Nothing | Seen::Value(_) | Seen::Listed(_) => Pages::default(),
        };
        pages.entries.extend(entries);
        pages.count += 1;
        pages.next = next;
        let ended = pages.next.is_none() || pages.count >= scan.pages_max;
        self.seen[self.done] = Seen::Pages(pages);
        self.done += usize::from(ended);
    }

    /// The set that [`Step::Elements`] named has these counts; `rest` is the range that was not covered.
    ///
    /// # Panics
    /// If the operation has asked for no elements.
    pub fn counted(&mut self, counts: Vec<(Key, i64)>, rest: Option<KeyRange>) {
        self.listed(counts, Vec::new(), rest);
    }

    /// The set that [`Step::Members`] named has these members; `rest` is the range that was not covered.
    ///
    /// # Panics
    /// If the operation has asked for no elements.
    pub fn counted_with_objects(&mut self, members: Vec<Member>, rest: Option<KeyRange>) {
        let (mut counts, mut objects) = (Vec::with_capacity(members.len()), Vec::new());
        for Member { element, count, value } in members {
            if count >= 1 {
                objects.push((element.clone(), value));
            }
            counts.push((element, count));
        }
        self.listed(counts, objects, rest);
    }

    fn listed(
        &mut self,
        counts: Vec<(Key, i64)>,
        objects: Vec<(Key, Option<Value>)>,
        rest: Option<KeyRange>,
    ) {
        let plan = Arc::clone(&self.plan);
        let (Operation::Elements(elements) | Operation::Spread(Spread { users: elements, .. })) =
            &plan.operations[self.done]
        else {
            panic!("counts were passed to an operation that asked for none")
        };
        let mut listed = match std::mem::take(&mut self.seen[self.done]) {
            Seen::Listed(listed) => listed,
            Seen::Nothing | Seen::Value(_) | Seen::Pages(_) => Listed::default(),
        };
        listed.counts.extend(counts);
        listed.objects.extend(objects);
        listed.is_over = rest.is_none() || listed.enough(elements) == Some(0);
        listed.rest = rest;
        let is_done = listed.is_over && listed.wanted(elements).is_empty();
        if let Operation::Spread(spread) = &plan.operations[self.done]
            && is_done
        {
            self.spread(spread, &listed.counts);
        }
        self.seen[self.done] = Seen::Listed(listed);
        self.done += usize::from(is_done);
    }

    /// Adds an object to a set of each of these users.
    fn spread(&mut self, spread: &Spread, users: &[(Key, i64)]) {
        let (element, number) = self.created(spread.object);
        let users = users.iter().filter(|(_, count)| *count >= 1);
        for user in users.filter_map(|(user, _)| social::user(user)) {
            let set = social::list(user, spread.list);
            self.discovered.push(MicroOp::Add(in_history(&set), number));
            self.queued.push_back(Step::Change { set, element: element.clone(), by: 1 });
        }
    }

    /// True if [`Step::GetMany`] was the last step, and not all of its keys have been read.
    pub fn reads_many(&self) -> bool {
        matches!(self.seen.get(self.done), Some(Seen::Listed(listed)) if listed.is_over)
    }

    /// One of the keys that [`Step::GetMany`] named holds this. True if it was the last of them.
    ///
    /// # Panics
    /// If no such key was asked for.
    pub fn got_one(&mut self, key: Key, value: Option<Value>) -> bool {
        let plan = Arc::clone(&self.plan);
        let (Some(Operation::Elements(elements)), Some(Seen::Listed(listed))) =
            (plan.operations.get(self.done), self.seen.get_mut(self.done))
        else {
            panic!("a value was passed to an operation that asked for none")
        };
        listed.objects.push((key, value));
        let is_last = listed.wanted(elements).is_empty();
        self.done += usize::from(is_last);
        is_last
    }

    /// The changes that have become known since this was called last: for a history that has to know of a change before it is made.
    pub fn discovered(&mut self) -> Vec<MicroOp> {
        std::mem::take(&mut self.discovered)
    }

    /// The breaches of promises about data that was read, in words: those of the workload, see [`crate::social`], and that no counter is below zero.
    pub fn violations(&self) -> Vec<String> {
        let mut read = Vec::new();
        for (operation, seen) in self.plan.operations.iter().zip(&self.seen) {
            if let (Operation::Elements(elements), Seen::Listed(listed)) = (operation, seen) {
                let (set, counts, objects) = (&elements.set, &listed.counts, &listed.objects);
                read.push(ReadSet { set, counts, objects, is_complete: listed.rest.is_none() });
            }
        }
        let below = read.iter().filter(|read| counter::is_counter(read.set));
        let below = below.filter(|read| read.counts.iter().any(|(_, count)| *count < 0));
        let mut violations: Vec<String> =
            below.map(|read| format!("{} is below zero: {:?}", readable(read.set), read.counts)).collect();
        violations.extend(social::violations(&read));
        violations
    }

    /// The operations, each with the fresh value that it writes, if it writes one: for clients that do all of them at once.
    pub fn all_at_once(&self) -> impl Iterator<Item = (&Operation, i64)> {
        self.plan.operations.iter().zip(self.fresh.iter().copied())
    }

    /// All operations were done at once, and each of them that reads a key or a page of a range has seen this, in their order.
    ///
    /// # Panics
    /// If it is not one for each operation.
    pub fn done_at_once(&mut self, seen: Vec<SeenAtOnce>) {
        assert_eq!(seen.len(), self.plan.operations.len(), "each operation has seen something, or nothing");
        let kept = seen.into_iter().map(|seen| match seen {
            SeenAtOnce::Nothing => Seen::Nothing,
            SeenAtOnce::Value(value) => Seen::Value(value),
            SeenAtOnce::Page { entries, next } => Seen::Pages(Pages { entries, count: 1, next }),
        });
        self.seen = kept.collect();
        self.done = self.plan.operations.len();
    }

    /// The micro-operations before anything has been read: every read is null. Values are fresh and drawn beforehand,
    /// so what will be written is known, but for what is [`Execution::discovered`].
    pub fn announced(&self) -> Vec<MicroOp> {
        let mut ops = Vec::with_capacity(2 * self.plan.operations.len());
        for (at, operation) in self.plan.operations.iter().enumerate() {
            match operation {
                Operation::Scan(scan) => {
                    ops.extend(scan.universe.iter().map(|key| read(key, Observed::Null)))
                }
                _ => self.record_key(at, Observed::Null, &mut ops),
            }
        }
        ops
    }

    /// The micro-operations with what was read, once everything is done. Increments and deletes are not among them:
    /// see [`Plan::is_judgeable`].
    ///
    /// # Errors
    /// A value that was read is not one that workloads write.
    pub fn observed(&self) -> Result<Vec<MicroOp>, Undecodable> {
        self.observed_of(self.plan.operations.len())
    }

    /// The micro-operations that are done, of a transaction that has ended before all of them were.
    ///
    /// # Errors
    /// A value that was read is not one that workloads write.
    pub fn observed_so_far(&self) -> Result<Vec<MicroOp>, Undecodable> {
        self.observed_of(self.done)
    }

    fn observed_of(&self, operations: usize) -> Result<Vec<MicroOp>, Undecodable> {
        let mut ops = Vec::with_capacity(2 * operations);
        let done = self.plan.operations.iter().zip(&self.seen).enumerate().take(operations);
        for (at, (operation, seen)) in done {
            match (operation, seen) {
                (Operation::Scan(scan), Seen::Pages(pages)) => record_pages(scan, pages, &mut ops)?,
                (Operation::Elements(elements), Seen::Listed(listed)) => {
                    record_listed(elements, listed, &mut ops)?;
                }
                (Operation::Spread(spread), Seen::Listed(listed)) => {
                    record_listed(&spread.users, listed, &mut ops)?;
                    let (_, number) = self.created(spread.object);
                    let users = listed.counts.iter().filter(|(_, count)| *count >= 1);
                    let sets = users.filter_map(|(user, _)| social::user(user));
                    let add = |user| MicroOp::Add(in_history(&social::list(user, spread.list)), number);
                    ops.extend(sets.map(add));
                }
                (_, Seen::Value(Some(value))) => {
                    self.record_key(at, Content::decode(value)?.into_observed(), &mut ops);
                }
                _ => self.record_key(at, Observed::Null, &mut ops),
            }
        }
        Ok(ops)
    }

    /// Records the operation at this place, of which this was seen.
    fn record_key(&self, at: usize, seen: Observed, ops: &mut Vec<MicroOp>) {
        let fresh = self.fresh[at];
        match &self.plan.operations[at] {
            Operation::Get(key) => ops.push(read(key, seen)),
            Operation::Put(key) => ops.push(MicroOp::Write(in_history(key), fresh)),
            Operation::Update(key) => {
                ops.push(read(key, seen));
                ops.push(MicroOp::Write(in_history(key), fresh));
            }
            Operation::Append(key) => {
                ops.push(read(key, seen));
                ops.push(MicroOp::Append(in_history(key), fresh));
            }
            Operation::Create { owner } => {
                ops.push(MicroOp::Write(in_history(&social::object(*owner, fresh)), fresh));
            }
            Operation::Elements(elements) | Operation::Spread(Spread { users: elements, .. }) => {
                ops.push(read(&elements.set, seen));
            }
            Operation::Change { set, element, by } => {
                let (set, (_, number)) = (in_history(set), self.element(*element, at));
                let change = if *by > 0 { MicroOp::Add } else { MicroOp::Remove };
                ops.extend((0..by.unsigned_abs()).map(|_| change(set.clone(), number)));
            }
            Operation::Increment(_) | Operation::Delete(_) | Operation::Scan(_) => {}
        }
    }

    fn register(&self, value: i64) -> Value {
        Content::Register(value).encode(self.value_bytes_min)
    }
}

fn list(value: Option<&Value>) -> Result<Vec<i64>, Undecodable> {
    let Some(value) = value else { return Ok(Vec::new()) };
    match Content::decode(value)? {
        Content::List(elements) => Ok(elements),
        Content::Register(_) => Err(Undecodable { value: readable(value) }),
    }
}

fn counter(value: Option<&Value>) -> Result<i64, Undecodable> {
    let Some(value) = value else { return Ok(0) };
    match Content::decode(value)? {
        Content::Register(count) => Ok(count),
        Content::List(_) => Err(Undecodable { value: readable(value) }),
    }
}

fn read(key: &Key, observed: Observed) -> MicroOp {
    MicroOp::Read(in_history(key), observed)
}

/// One read of the set, and one of each object.
fn record_listed(elements: &Elements, listed: &Listed, ops: &mut Vec<MicroOp>) -> Result<(), Undecodable> {
    ops.push(read(&elements.set, observed_set(&listed.counts)?));
    for (key, value) in &listed.objects {
        let seen = match value {
            Some(value) => Content::decode(value)?.into_observed(),
            None => Observed::Null,
        };
        ops.push(read(key, seen));
    }
    Ok(())
}

/// The content of a set, as a history says it.
fn observed_set(counts: &[(Key, i64)]) -> Result<Observed, Undecodable> {
    let count = |(element, count): &(Key, i64)| match number_of(element) {
        Some(number) => Ok((number, *count)),
        None => Err(Undecodable { value: readable(element) }),
    };
    Ok(Observed::Set(counts.iter().map(count).collect::<Result<_, _>>()?))
}

/// One read per key that was found, also if the workload never writes it, and per key that the pages cover without it.
fn record_pages(scan: &Scan, pages: &Pages, ops: &mut Vec<MicroOp>) -> Result<(), Undecodable> {
    for (key, value) in &pages.entries {
        ops.push(read(key, Content::decode(value)?.into_observed()));
    }
    let covered = |key: &Key| pages.next.as_ref().is_none_or(|next| key < next);
    let found = |key: &Key| pages.entries.iter().any(|(found, _)| found == key);
    let absent = scan.universe.iter().filter(|key| covered(key) && !found(key));
    ops.extend(absent.map(|key| read(key, Observed::Null)));
    Ok(())
}

#[cfg(test)]
mod tests;
