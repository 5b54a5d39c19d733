//! The state of a shard of a serializable keyspace, and how it runs operations.
//!
//! ```text
//!   run      ─► work: sees the newest versions, writes beside them ─► install at its place
//!   prepare  ─► the same, and locks what it has touched ─► commit: install at its place
//!                                                      └─► abort: forget
//!   read     ─► work: sees what stood before a place
//! ```
//!
//! | file | role |
//! |---|---|
//! | `leaves` | a sorted map that can be frozen while it changes |
//! | `bounds` | where the parts of that map begin |
//! | `versions` | what keys hold, and have held until it is settled |
//! | `locks` | what prepared transactions have locked |
//! | `work` | an operation while it runs |
//! | `batch` | conditions and steps |
//! | `frozen` | states that are read at one place, for a backup |
//! | `history` | what was written, for consumers of changes |
//! | `procedures` | which procedures there are, and calls of them |

mod batch;
mod bounds;
mod frozen;
mod history;
mod leaves;
mod locks;
mod procedures;
mod versions;
mod work;

use std::collections::BTreeMap;

use quorate_core::attic::Memory;
use quorate_core::changes::{self, Retention};
use quorate_core::landmark::{FewKeys, few};
use quorate_core::verify::{Digester, Item};
use quorate_core::{ClientId, ClockTime, Key, Timestamp, TransactionId, Value};
use quorate_granola::{Answer as Answered, Application, Keyed, Place, Prepared, Read};

use crate::answer::{Answer, Found, FoundKey, Held, Refusal};
use crate::library::{Library, NoProcedures};
use crate::operation::{Freeze, Malformed, Operation, ReadFrozen, SCAN_KEYS_MAX, Step};
pub(crate) use batch::SCAN_BYTES;
use frozen::FrozenStates;
use history::History;
pub use history::Written;
use locks::{Access, Locks, Touched};
use procedures::{Change, Procedures};
pub use versions::Version;
use versions::{Versions, Writes};
pub(crate) use work::ENTRY_BYTES;
use work::{Halt, Mode, Work};

/// The error of a transaction that reads or writes versions above its place.
const BELOW: &str = "runs below what it touches";

/// A shard of a serializable keyspace whose procedures come from a library.
#[derive(Debug)]
pub struct ShardWith<L: Library> {
    keys: Versions,
    procedures: Procedures<L>,
    locks: Locks,
    prepared: BTreeMap<TransactionId, Waiting<L>>,
    /// States that are read as they were.
    frozen: FrozenStates,
    /// What was written, as long as consumers of changes may ask for it.
    history: History,
    /// How often something was out of order.
    disorders: u64,
    /// True if that does not stop it.
    allows_disorder: bool,
}

/// A shard of a serializable keyspace without procedures.
pub type Shard = ShardWith<NoProcedures>;

/// A prepared transaction.
#[derive(Debug)]
struct Waiting<L: Library> {
    touched: Touched,
    waits: Waits<L>,
}

/// The effects of a prepared transaction once it has a place.
#[derive(Debug)]
enum Waits<L: Library> {
    /// It has run.
    Done {
        effect: Effect<L>,
        answer: Answered,
        /// True if what it has read was undone since.
        is_stale: bool,
    },
    /// It has locked whatever it may touch, which others may have locked, too, and runs then.
    Forced(Value),
    /// It has locked whatever it may touch, and runs then: what it does depends on its place.
    Late(Value),
}

/// The changes that an operation makes.
#[derive(Debug)]
struct Effect<L: Library> {
    writes: Writes,
    procedures: Option<Change<L>>,
}

/// An operation that has come to an end.
struct Ended<L: Library> {
    effect: Effect<L>,
    answer: Answered,
    touched: Touched,
    locked_by: Option<TransactionId>,
    is_out_of_order: bool,
    /// True if it has asked for its place and has none.
    lacks_place: bool,
}

/// Why an operation is not carried out.
#[derive(Debug)]
enum End {
    Refused(Refusal),
    Halt(Halt),
}

impl From<Halt> for End {
    fn from(halt: Halt) -> Self {
        End::Halt(halt)
    }
}

impl From<Malformed> for End {
    fn from(Malformed(text): Malformed) -> Self {
        End::Refused(Refusal::Malformed { text })
    }
}

/// A part of the state of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Keys with what they hold, and what was written.
    Keys {
        /// The keys; none in a page of what was written.
        entries: Vec<(Key, Version)>,
        /// What was written, in the serial order; nothing in a page of keys.
        written: Vec<Written>,
        /// In a page of what was written: the state has all that was written at this timestamp or above.
        retained_from: Option<ClockTime>,
    },
    /// Versions of procedures, each by its name, a byte zero and its number, the most significant byte first.
    Procedures(Vec<(Key, Version)>),
}

/// The state of a shard as it was when it was frozen.
#[derive(Debug)]
pub struct Frozen {
    procedures: versions::Frozen,
    keys: versions::Frozen,
    history: history::Frozen,
}

impl<L: Library> Default for ShardWith<L> {
    fn default() -> Self {
        ShardWith {
            keys: Versions::default(),
            procedures: Procedures::default(),
            locks: Locks::default(),
            prepared: BTreeMap::new(),
            frozen: FrozenStates::default(),
            history: History::default(),
            disorders: 0,
            allows_disorder: L::ALLOWS_DISORDER,
        }
    }
}

impl<L: Library> ShardWith<L> {
    /// How many keys are there.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many writes could still be undone.
    pub fn unsettled(&self) -> usize {
        self.keys.unsettled() + self.procedures.code.unsettled()
    }

    /// The transactions that are prepared, and for each whether that was by force.
    pub fn prepared(&self) -> impl Iterator<Item = (TransactionId, bool)> + '_ {
        self.prepared.iter().map(|(id, waiting)| (*id, matches!(waiting.waits, Waits::Forced(_))))
    }

    /// How often something was read, written or undone below what stands there already, or was carried out as
    /// it had been prepared although what it had read was undone: never, unless that is allowed.
    pub fn disorders(&self) -> u64 {
        self.disorders + self.keys.disorders() + self.procedures.code.disorders()
    }

    /// The version that a key holds now.
    pub fn newest(&self, key: &[u8]) -> Option<&Version> {
        self.keys.newest(&Key::copy_from_slice(key))
    }

    /// Runs an operation as far as it comes. None if it touches what is locked.
    fn work(&self, operation: &Value, mode: Mode) -> Option<Ended<L>> {
        let mut work = Work::new(&self.keys, &self.locks, mode);
        let refused = |refusal: Refusal| (Answered::Refused(refusal.encode()), None);
        let (answer, procedures) = match self.execute(&mut work, operation) {
            Ok((answer, change)) => (Answered::Done(answer), change),
            Err(End::Halt(Halt::Locked)) => return None,
            Err(End::Halt(Halt::ReadOnly)) => refused(Refusal::ReadOnly),
            Err(End::Halt(Halt::TooLarge)) => refused(Refusal::TooLarge),
            Err(End::Refused(refusal)) => refused(refusal),
        };
        let lacks_place = work.lacks_place();
        let Work { mut writes, touched, locked_by, is_out_of_order, .. } = work;
        if let Answered::Refused(_) = answer {
            writes.clear();
        }
        let effect = Effect { writes, procedures };
        Some(Ended { effect, answer, touched, locked_by, is_out_of_order, lacks_place })
    }

    fn execute(&self, work: &mut Work<'_>, operation: &Value) -> Result<(Value, Option<Change<L>>), End> {
        Ok(match Operation::decode(operation)? {
            Operation::Batch(batch) => (batch::execute(work, batch)?, None),
            Operation::Call(call) => (self.procedures.call(work, &call)?.encode(), None),
            Operation::Deploy(deploy) => (Answer::Changed.encode(), self.procedures.deploy(work, &deploy)?),
            Operation::Remove(remove) => (Answer::Changed.encode(), self.procedures.remove(work, &remove)?),
            Operation::Infer(infer) => (self.procedures.infer(work, infer)?, None),
            Operation::Freeze(freeze) => (self.freeze_for(work, freeze)?, None),
            Operation::ReadFrozen(wanted) => (self.read_frozen(work, &wanted)?, None),
        })
    }

    /// Freezes what stands before the place of an operation that only reads, and tells how many keys there are now, and the timestamp.
    fn freeze_for(&self, work: &mut Work<'_>, freeze: Freeze) -> Result<Value, End> {
        let before = only_reading(work)?;
        work.touch_all()?;
        work.touch_procedures(Access::Read)?;
        let (keys, procedures) = (self.keys.freeze(Some(before)), self.procedures.code.freeze(Some(before)));
        self.frozen.keep(freeze.reader, before, keys, procedures);
        let timestamp = i64::try_from(before.timestamp.as_micros()).unwrap_or(i64::MAX);
        Ok(Answer::Batch(vec![Found::Length(self.keys.len() as u64), Found::Number(timestamp)]).encode())
    }

    /// A page of what was frozen.
    fn read_frozen(&self, work: &Work<'_>, wanted: &ReadFrozen) -> Result<Value, End> {
        let now = only_reading(work)?.timestamp;
        let ReadFrozen { reader, at, procedures, after } = wanted;
        let limits = (SCAN_BYTES, SCAN_KEYS_MAX as usize);
        let page = self.frozen.read((*reader, *at), now, *procedures, after, limits);
        let page = page.ok_or(End::Refused(Refusal::NotFrozen))?;
        let more = !page.is_empty();
        let keys = page.into_iter().map(|(key, Version { place, value })| FoundKey {
            key,
            held: Held { place: Some(place), value },
        });
        Ok(Answer::Batch(vec![Found::Keys { keys: keys.collect(), more }]).encode())
    }

    /// How many states are kept for those that read them.
    pub fn frozen_len(&self) -> usize {
        self.frozen.len()
    }

    fn install(&mut self, place: Place, effect: Effect<L>) {
        let mut is_in_order = true;
        self.history.note(place, &effect.writes);
        for (key, value) in effect.writes {
            is_in_order &= self.keys.write(place, &key, value);
        }
        if let Some(change) = effect.procedures {
            is_in_order &= self.procedures.install(place, change);
        }
        self.note_order(place, is_in_order, BELOW);
    }

    /// An operation out of order stops the replica, unless that is allowed.
    fn note_order(&mut self, place: Place, is_in_order: bool, what_is_wrong: &str) {
        assert!(is_in_order || self.allows_disorder, "{place} {what_is_wrong}");
        self.disorders += u64::from(!is_in_order);
    }

    fn release(&mut self, transaction: TransactionId) -> Waiting<L> {
        let waiting = self.prepared.remove(&transaction);
        let waiting = waiting.unwrap_or_else(|| panic!("{transaction} ends, and was not prepared"));
        self.locks.unlock(transaction, &waiting.touched);
        waiting
    }

    /// Locks what a transaction has touched; true if nobody had locked any key of that.
    fn hold(&mut self, transaction: TransactionId, touched: Touched, waits: Waits<L>) -> bool {
        let is_free = self.locks.lock(transaction, &touched);
        let before = self.prepared.insert(transaction, Waiting { touched, waits });
        assert!(before.is_none(), "{transaction} is prepared twice");
        is_free
    }

    /// Prepares an operation that has asked for its place, and has come to this answer without one: the replicas that follow run it at its place, so it runs
    /// there here, too.
    fn prepare_late(&mut self, transaction: TransactionId, operation: &Value, answer: Answered) -> Prepared {
        let touched = self.footprint(operation);
        if self.locks.has_any(&touched) {
            return Prepared::Conflict;
        }
        self.hold(transaction, touched, Waits::Late(operation.clone()));
        Prepared::Late(match answer {
            Answered::Refused(reason) => reason,
            Answered::Done(_) => {
                let text =
                    "it asks for its timestamp, which a coordinated transaction does not have yet".to_owned();
                Refusal::Failed { text }.encode()
            }
        })
    }

    fn footprint(&self, operation: &Value) -> Touched {
        match Operation::decode(operation) {
            Ok(Operation::Batch(batch)) => batch::footprint(&batch),
            Ok(Operation::Call(call)) => self.procedures.footprint(&call, &self.locks),
            Ok(Operation::Deploy(_) | Operation::Remove(_)) => {
                Touched { procedures: Some(Access::Write), ..Touched::default() }
            }
            Ok(Operation::Infer(_)) => Touched { procedures: Some(Access::Read), ..Touched::default() },
            // They are refused to whatever is no transaction that only reads.
            Ok(Operation::Freeze(_) | Operation::ReadFrozen(_)) => Touched::default(),
            Err(_) => Touched::default(),
        }
    }
}

impl<L: Library> Keyed for ShardWith<L> {
    fn versions(&self) -> Vec<(Key, Place, Value)> {
        let mut frozen = self.freeze(None);
        let pages = std::iter::from_fn(|| Self::next_page(&mut frozen, usize::MAX));
        let keys = pages.flat_map(|page| match page {
            Page::Keys { entries: keys, .. } | Page::Procedures(keys) => keys,
        });
        keys.map(|(key, Version { place, value })| (key, place, value)).collect()
    }

    fn version_count(&self) -> usize {
        self.len()
    }
}

/// The place before which an operation reads that is allowed only to transactions that read: to others every replica answers the same.
fn only_reading(work: &Work<'_>) -> Result<Place, End> {
    work.before().ok_or(End::Refused(Refusal::NotFrozen))
}

/// False if an operation only reads or deletes. A procedure that was deployed may do anything, and so may those of applications.
fn adds<L: Library>(operation: &Value) -> bool {
    match Operation::decode(operation) {
        Ok(Operation::Batch(batch)) => batch
            .steps
            .iter()
            .any(|step| matches!(step, Step::Put { .. } | Step::Increment { .. } | Step::Append { .. })),
        Ok(Operation::Call(call)) => {
            !L::find(&call.name).is_some_and(|procedure| procedure.frees(&call.arguments))
        }
        Ok(Operation::Deploy(_)) => true,
        // The shard refuses the last with a reason.
        Ok(Operation::Remove(_) | Operation::Infer(_) | Operation::Freeze(_) | Operation::ReadFrozen(_))
        | Err(_) => false,
    }
}

/// The first keys that an operation writes; none of a call of a procedure, which tells its keys only if it declares them.
fn keys_written(operation: &Value) -> FewKeys {
    match Operation::decode(operation) {
        Ok(Operation::Batch(batch)) => few(batch.steps.iter().filter_map(|step| match step {
            Step::Put { key, .. }
            | Step::Delete { key }
            | Step::Increment { key, .. }
            | Step::Append { key, .. } => Some(key),
            Step::Get { .. } | Step::Scan { .. } => None,
        })),
        Ok(Operation::Call(call)) => few(call.declared.iter().flat_map(|declared| &declared.keys)),
        // The shard refuses the rest, or it concerns procedures and no keys.
        Ok(_) | Err(_) => FewKeys::default(),
    }
}

impl<L: Library> Application for ShardWith<L> {
    type Page = Page;
    type Frozen = Frozen;
    type Canonical = Shard;

    fn run(&mut self, place: Place, operation: &Value) -> Option<Answered> {
        let Ended { effect, answer, is_out_of_order, .. } = self.work(operation, Mode::Run(place))?;
        self.note_order(place, !is_out_of_order, BELOW);
        self.install(place, effect);
        Some(answer)
    }

    fn read(&self, before: Place, operation: &Value) -> Read {
        let ended = self.work(operation, Mode::Read(before)).expect("what only reads waits for no lock");
        Read { answer: ended.answer, locked_by: ended.locked_by }
    }

    fn prepare(&mut self, transaction: TransactionId, operation: &Value) -> Prepared {
        let Some(ended) = self.work(operation, Mode::Prepare) else { return Prepared::Conflict };
        let Ended { effect, answer, touched, lacks_place, .. } = ended;
        if lacks_place {
            return self.prepare_late(transaction, operation, answer);
        }
        let vote = match &answer {
            Answered::Done(_) => Prepared::Commit(answer.clone()),
            Answered::Refused(reason) => Prepared::Abort(reason.clone()),
        };
        let is_free = self.hold(transaction, touched, Waits::Done { effect, answer, is_stale: false });
        // Prepared transactions can be committed in any order (section 4.5).
        assert!(is_free, "{transaction} has touched a key that is locked, and does not conflict");
        vote
    }

    fn force_prepare(&mut self, transaction: TransactionId, operation: &Value) -> bool {
        let touched = self.footprint(operation);
        let is_free = !self.locks.has_any(&touched);
        self.hold(transaction, touched, Waits::Forced(operation.clone()));
        is_free
    }

    fn commit(&mut self, place: Place) -> Answered {
        let (effect, answer) = match self.release(place.transaction).waits {
            Waits::Done { is_stale, effect, answer } => {
                self.note_order(place, !is_stale, "is committed, and what it has read was undone");
                (effect, answer)
            }
            Waits::Forced(operation) | Waits::Late(operation) => {
                let ended = self.work(&operation, Mode::RunAnyway(place));
                let ended = ended.expect("it runs whatever is locked");
                self.note_order(place, !ended.is_out_of_order, BELOW);
                (ended.effect, ended.answer)
            }
        };
        self.install(place, effect);
        answer
    }

    fn abort(&mut self, transaction: TransactionId) {
        self.release(transaction);
    }

    fn settle(&mut self, below: Option<Place>) {
        self.keys.settle(below);
        self.procedures.settle(below);
        self.history.settle(below);
        if let Some(below) = below {
            self.frozen.forget(below.timestamp);
        }
    }

    fn is_open(&self, place: Place) -> bool {
        self.keys.is_open(place) && self.procedures.code.is_open(place)
    }

    fn rewind(&mut self, to: Place) {
        let is_open = self.is_open(to);
        self.note_order(to, is_open, "is undone, and was settled");
        self.frozen.rewind(to);
        self.history.rewind(to);
        let undone = self.keys.rewind(to);
        let other_procedures = self.procedures.rewind(to);
        assert!(
            !self.keys.has_written(to) && !self.procedures.code.has_written(to),
            "{to} is undone in part"
        );
        if undone.is_empty() && !other_procedures {
            return;
        }
        for Waiting { touched, waits } in self.prepared.values_mut() {
            if let Waits::Done { is_stale, .. } = waits {
                *is_stale |= touched.has_any(&undone) || other_procedures && touched.procedures.is_some();
            }
        }
    }

    fn freeze(&self, below: Option<Place>) -> Frozen {
        let (procedures, keys) = (self.procedures.code.freeze(below), self.keys.freeze(below));
        Frozen { procedures, keys, history: self.history.freeze(below) }
    }

    fn next_page(frozen: &mut Frozen, bytes_max: usize) -> Option<Page> {
        let procedures = frozen.procedures.next_page(bytes_max);
        if !procedures.is_empty() {
            return Some(Page::Procedures(procedures));
        }
        let entries = frozen.keys.next_page(bytes_max);
        if !entries.is_empty() {
            return Some(Page::Keys { entries, written: Vec::new(), retained_from: None });
        }
        let (retained_from, written) = frozen.history.next_page(bytes_max)?;
        Some(Page::Keys { entries, written, retained_from: Some(retained_from) })
    }

    fn digest(page: &Page, digester: &mut Digester) {
        let (space, held) = match page {
            Page::Keys { entries, .. } => (Item::DATA, entries),
            Page::Procedures(held) => (Item::PROCEDURE, held),
        };
        for (key, Version { place, value }) in held {
            let TransactionId { client, sequence, attempt } = place.transaction;
            let stamps = [place.timestamp.as_micros(), client.0, sequence, attempt.into()];
            digester.add(Item { space, key, stamps: &stamps, value: Some(value) });
        }
    }

    fn keys_written(operation: &Value) -> FewKeys {
        keys_written(operation)
    }

    fn adds(operation: &Value) -> bool {
        adds::<L>(operation)
    }

    /// The history retains written values beside the keys.
    fn memory(&self) -> Option<Memory> {
        let (keys, procedures) = (self.keys.memory(), self.procedures.code.memory());
        let values = keys.values + procedures.values + self.history.bytes();
        Some(Memory { index: keys.index + procedures.index, values, stowed: 0 })
    }

    fn work(&self) -> u64 {
        self.procedures.work()
    }

    fn allow_disorder(&mut self) {
        self.allows_disorder = true;
        self.keys.allow_disorder();
        self.procedures.code.allow_disorder();
    }

    fn retain(&mut self, retention: Retention) {
        self.history.set_retention(retention);
    }

    fn forget_history(&mut self) {
        self.history.forget();
    }

    fn retained(&self) -> changes::Retained {
        let micros = self.history.horizon().map_or(0, ClockTime::as_micros);
        let horizon = Timestamp { micros, client: ClientId(0) };
        changes::Retained { bytes: self.history.bytes() as u64, horizon }
    }

    fn changes(&self, request: &changes::Request, certain: ClockTime) -> changes::Answer {
        self.history.answer(request, certain)
    }

    fn link(&mut self, name: &str) {
        self.procedures.application = Some(name.to_owned());
    }

    fn from_pages(pages: Vec<Page>) -> Self {
        let mut shard = Self::default();
        if !pages.is_empty() {
            shard.history.forget();
        }
        for page in pages {
            match page {
                Page::Keys { entries, written, retained_from } => {
                    entries.into_iter().for_each(|(key, held)| shard.keys.restore(&key, held));
                    if let Some(retained_from) = retained_from {
                        shard.history.restore(retained_from, written);
                    }
                }
                Page::Procedures(page) => {
                    page.into_iter().for_each(|(key, held)| shard.procedures.restore(&key, held));
                }
            }
        }
        shard
    }
}
