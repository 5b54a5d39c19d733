//! One attempt at a transaction: what to do next, given what was read so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_checker::{MicroOp, Observed};
use quorate_core::command::End;
use quorate_core::transaction::readable;
use quorate_core::{Key, KeyRange, Value};

use crate::key::{self, in_history, number_of};
use crate::operation::{Elements, Operation, Plan, Scan};
use crate::unique::UniqueValues;
use crate::value::{Content, Undecodable};

/// What the client is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a key and pass what it holds to [`Execution::got`].
    Get(Key),
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
    /// What the current operation writes, now that it has read.
    pending: Option<Value>,
    /// How many operations are done.
    done: usize,
}

/// What an operation has read that was done together with all others.
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

/// What an operation has read.
#[derive(Clone, Debug, Default)]
enum Seen {
    #[default]
    Nothing,
    Value(Option<Value>),
    Pages(Pages),
    /// Counts of a set, and the range that is left.
    Counts(Vec<(Key, i64)>, Option<KeyRange>),
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
        Execution { plan, value_bytes_min, fresh, seen, pending: None, done: 0 }
    }

    /// The transaction.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// True once an operation is done.
    pub fn has_begun(&self) -> bool {
        self.done > 0
    }

    /// What to do next. A read is repeated until it is answered, and commit for ever.
    pub fn next_step(&mut self) -> Step {
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
            Operation::Change { set, element, by } => {
                let element = key::element(element.unwrap_or(self.fresh[self.done]));
                self.done += 1;
                Step::Change { set: set.clone(), element, by: *by }
            }
            Operation::Elements(Elements { set, from, page }) => {
                let everything = || KeyRange { from: Key::default(), to: None };
                let range = match &self.seen[self.done] {
                    Seen::Counts(_, Some(rest)) => rest.clone(),
                    _ => everything(),
                };
                Step::Elements { set: set.clone(), range, from: *from, limit: *page }
            }
        }
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
            | Operation::Change { .. }
            | Operation::Elements(_) => {
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
            Seen::Nothing | Seen::Value(_) | Seen::Counts(..) => Pages::default(),
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
        assert!(
            matches!(self.plan.operations[self.done], Operation::Elements(_)),
            "counts were passed to an operation that asked for none"
        );
        let mut all = match std::mem::take(&mut self.seen[self.done]) {
            Seen::Counts(counts, _) => counts,
            Seen::Nothing | Seen::Value(_) | Seen::Pages(_) => Vec::new(),
        };
        all.extend(counts);
        let ended = rest.is_none();
        self.seen[self.done] = Seen::Counts(all, rest);
        self.done += usize::from(ended);
    }

    /// What each operation does, with the fresh value that it writes, if it writes one: for whoever does all of them at once.
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
    /// so what will be written is known.
    pub fn announced(&self) -> Vec<MicroOp> {
        let mut ops = Vec::with_capacity(2 * self.plan.operations.len());
        for (operation, &fresh) in self.plan.operations.iter().zip(&self.fresh) {
            match operation {
                Operation::Scan(scan) => {
                    ops.extend(scan.universe.iter().map(|key| read(key, Observed::Null)))
                }
                _ => record_key(operation, fresh, Observed::Null, &mut ops),
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
        let mut ops = Vec::with_capacity(2 * self.plan.operations.len());
        for ((operation, &fresh), seen) in self.plan.operations.iter().zip(&self.fresh).zip(&self.seen) {
            match (operation, seen) {
                (Operation::Scan(scan), Seen::Pages(pages)) => record_pages(scan, pages, &mut ops)?,
                (Operation::Elements(elements), Seen::Counts(counts, _)) => {
                    ops.push(read(&elements.set, observed_set(counts)?));
                }
                (_, Seen::Value(Some(value))) => {
                    record_key(operation, fresh, Content::decode(value)?.into_observed(), &mut ops);
                }
                _ => record_key(operation, fresh, Observed::Null, &mut ops),
            }
        }
        Ok(ops)
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

fn record_key(operation: &Operation, fresh: i64, seen: Observed, ops: &mut Vec<MicroOp>) {
    match operation {
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
        Operation::Elements(elements) => ops.push(read(&elements.set, seen)),
        Operation::Change { set, element, by } => {
            let (set, element) = (in_history(set), element.unwrap_or(fresh));
            let change = if *by > 0 { MicroOp::Add } else { MicroOp::Remove };
            ops.extend((0..by.unsigned_abs()).map(|_| change(set.clone(), element)));
        }
        Operation::Increment(_) | Operation::Delete(_) | Operation::Scan(_) => {}
    }
}

/// What a set holds, as a history says it.
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
mod tests {
    use super::*;
    use bytes::Bytes;

    fn execution(operations: Vec<Operation>) -> Execution {
        Execution::new(Arc::new(Plan { kind: "test", operations }), &mut UniqueValues::new(1), 0)
    }

    fn key(name: &'static str) -> Key {
        Key::from(name)
    }

    const FIRST: i64 = (1 << 16) + 1;
    const SECOND: i64 = (2 << 16) + 1;

    #[test]
    fn an_append_reads_before_it_writes() {
        let mut execution = execution(vec![Operation::Append(key("l"))]);
        assert_eq!(execution.next_step(), Step::Get(key("l")));
        assert_eq!(execution.next_step(), Step::Get(key("l")), "a read is repeated until it is answered");
        assert!(!execution.has_begun());
        execution.got(Some(Content::List(vec![7]).encode(0))).unwrap();
        let expected = Content::List(vec![7, FIRST]).encode(0);
        assert_eq!(execution.next_step(), Step::Put(key("l"), Some(expected)));
        assert_eq!(execution.next_step(), Step::Commit);
        assert_eq!(execution.next_step(), Step::Commit);
        assert!(execution.has_begun());
        let l = || quorate_checker::Key::from("l");
        let ops = vec![MicroOp::Read(l(), Observed::List(vec![7])), MicroOp::Append(l(), FIRST)];
        assert_eq!(execution.observed(), Ok(ops));
        let announced = vec![MicroOp::Read(l(), Observed::Null), MicroOp::Append(l(), FIRST)];
        assert_eq!(execution.announced(), announced);
    }

    #[test]
    fn writes_are_fresh_and_blind_ones_do_not_read() {
        let mut execution = execution(vec![Operation::Put(key("a")), Operation::Update(key("b"))]);
        let first = Content::Register(FIRST).encode(0);
        assert_eq!(execution.next_step(), Step::Put(key("a"), Some(first)));
        assert_eq!(execution.next_step(), Step::Get(key("b")));
        execution.got(None).unwrap();
        let second = Content::Register(SECOND).encode(0);
        assert_eq!(execution.next_step(), Step::Put(key("b"), Some(second)));
        let expected = vec![
            MicroOp::Write("a".into(), FIRST),
            MicroOp::Read("b".into(), Observed::Null),
            MicroOp::Write("b".into(), SECOND),
        ];
        assert_eq!(execution.observed(), Ok(expected));
    }

    #[test]
    fn what_is_read_at_once_is_recorded_alike() {
        let mut execution = execution(vec![Operation::Get(key("a")), Operation::Get(key("b"))]);
        let keys = execution.plan().keys_read().unwrap();
        assert_eq!(keys, [key("a"), key("b")]);
        let mut values = BTreeMap::from([(key("b"), Some(Content::Register(7).encode(0)))]);
        assert_eq!(execution.got_all(&values), Err(Unread { key: "\"a\"".to_owned() }));
        values.insert(key("a"), None);
        assert_eq!(execution.got_all(&values), Ok(()));
        assert_eq!(execution.next_step(), Step::Commit);
        let expected =
            vec![MicroOp::Read("a".into(), Observed::Null), MicroOp::Read("b".into(), Observed::Register(7))];
        assert_eq!(execution.observed(), Ok(expected));
    }

    #[test]
    fn what_is_done_at_once_is_recorded_alike() {
        let mut execution = execution(vec![Operation::Append(key("l")), Operation::Put(key("r"))]);
        let fresh: Vec<i64> = execution.all_at_once().map(|(_, fresh)| fresh).collect();
        assert_eq!(fresh, [FIRST, SECOND]);
        let read = SeenAtOnce::Value(Some(Content::appended(7)));
        execution.done_at_once(vec![read, SeenAtOnce::Nothing]);
        assert_eq!(execution.next_step(), Step::Commit);
        let expected = vec![
            MicroOp::Read("l".into(), Observed::List(vec![7])),
            MicroOp::Append("l".into(), FIRST),
            MicroOp::Write("r".into(), SECOND),
        ];
        assert_eq!(execution.observed(), Ok(expected));
    }

    #[test]
    fn an_increment_counts_and_a_delete_deletes() {
        let mut execution = execution(vec![Operation::Increment(key("n")), Operation::Delete(key("d"))]);
        assert!(!execution.plan().is_judgeable());
        assert_eq!(execution.next_step(), Step::Get(key("n")));
        execution.got(Some(Content::Register(41).encode(0))).unwrap();
        assert_eq!(execution.next_step(), Step::Put(key("n"), Some(Content::Register(42).encode(0))));
        assert_eq!(execution.next_step(), Step::Put(key("d"), None));
        assert_eq!(execution.next_step(), Step::Commit);
    }

    #[test]
    fn a_foreign_value_ends_the_attempt() {
        let mut execution = execution(vec![Operation::Append(key("l"))]);
        assert!(execution.got(Some(Bytes::from_static(b"hello"))).is_err());
        assert!(execution.got(Some(Content::Register(1).encode(0))).is_err());
    }

    #[test]
    fn a_set_is_read_page_by_page_and_recorded_once() {
        let set = || key("s");
        let add = |element, by| Operation::Change { set: set(), element, by };
        let elements = Operation::Elements(Elements { set: set(), from: End::Greatest, page: 1 });
        let mut execution = execution(vec![add(None, 1), add(Some(7), -2), elements]);
        assert!(!execution.plan().is_read_only());
        let change = |number, by| Step::Change { set: set(), element: key::element(number), by };
        assert_eq!(execution.next_step(), change(FIRST, 1));
        assert_eq!(execution.next_step(), change(7, -2));
        let asked = |range| Step::Elements { set: set(), range, from: End::Greatest, limit: 1 };
        assert_eq!(execution.next_step(), asked(KeyRange { from: Key::default(), to: None }));
        let rest = KeyRange { from: Key::default(), to: Some(key::element(FIRST)) };
        execution.counted(vec![(key::element(FIRST), 1)], Some(rest.clone()));
        assert_eq!(execution.next_step(), asked(rest));
        execution.counted(vec![(key::element(7), -2)], None);
        assert_eq!(execution.next_step(), Step::Commit);
        let s = || quorate_checker::Key::from("s");
        let seen = Observed::Set(BTreeMap::from([(7, -2), (FIRST, 1)]));
        let changes = [MicroOp::Add(s(), FIRST), MicroOp::Remove(s(), 7), MicroOp::Remove(s(), 7)];
        let expected = [&changes[..], &[MicroOp::Read(s(), seen)]].concat();
        assert_eq!(execution.observed(), Ok(expected));
    }

    fn scan(page: u32, pages_max: u32) -> Operation {
        let range = KeyRange { from: key("a"), to: Some(key("e")) };
        let universe = ["a", "b", "c", "d"].map(key).to_vec();
        Operation::Scan(Scan { range, universe, page, pages_max })
    }

    #[test]
    fn a_scan_goes_on_where_the_page_ended_and_records_absent_keys() {
        let mut execution = execution(vec![scan(1, 9), scan(9, 9)]);
        let rest = |from| Step::Scan { range: KeyRange { from: key(from), to: Some(key("e")) }, limit: 1 };
        assert_eq!(execution.next_step(), rest("a"));
        execution.scanned(vec![(key("b"), Content::Register(5).encode(0))], Some(key("c")));
        assert_eq!(execution.next_step(), rest("c"));
        execution.scanned(vec![], None);
        assert!(matches!(execution.next_step(), Step::Scan { limit: 9, .. }));
        execution.scanned(vec![], None);
        assert_eq!(execution.next_step(), Step::Commit);
        let reads = execution.observed().unwrap();
        assert_eq!(reads[0], MicroOp::Read("b".into(), Observed::Register(5)));
        assert_eq!(reads.len(), 8, "each scan reads each of the four keys: {reads:?}");
    }

    #[test]
    fn a_scan_that_has_seen_enough_records_only_what_it_covered() {
        let mut execution = execution(vec![scan(1, 1)]);
        execution.scanned(vec![(key("a"), Content::Register(5).encode(0))], Some(key("c")));
        assert_eq!(execution.next_step(), Step::Commit);
        let expected =
            vec![MicroOp::Read("a".into(), Observed::Register(5)), MicroOp::Read("b".into(), Observed::Null)];
        assert_eq!(execution.observed(), Ok(expected));
    }
}
