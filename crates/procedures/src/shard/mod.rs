//! What a shard of a serializable keyspace holds, and how it runs operations.
//!
//! ```text
//!   run      ─► work: sees the newest versions, writes beside them ─► what it has written is installed at its place
//!   prepare  ─► the same, and locks what it has touched ─► what it has written waits ─► commit installs it, abort drops it
//!   read     ─► work: sees what stood before a place
//! ```
//!
//! | file | role |
//! |---|---|
//! | `leaves` | a sorted map that can be frozen while it changes |
//! | `versions` | what keys hold, and have held until it is settled |
//! | `locks` | what prepared transactions have locked |
//! | `work` | an operation while it runs |
//! | `batch` | conditions and steps |

mod batch;
mod leaves;
mod locks;
mod versions;
mod work;

use std::collections::BTreeMap;

use quorate_core::{Key, TransactionId, Value};
use quorate_granola::{Answer as Answered, Application, Place, Prepared, Read};

use crate::answer::{Answer, Refusal, Version};
use crate::operation::{Malformed, Operation};
use locks::{Locks, Touched};
use versions::{Versions, Writes};
use work::{Halt, Mode, Work};

/// A shard of a serializable keyspace.
#[derive(Debug, Default)]
pub struct Shard {
    keys: Versions,
    /// The code of procedures, by name and version.
    procedures: Versions,
    locks: Locks,
    prepared: BTreeMap<TransactionId, Waiting>,
}

/// A prepared transaction.
#[derive(Debug)]
struct Waiting {
    touched: Touched,
    waits: Waits,
}

/// What a prepared transaction leads to once it has a place.
#[derive(Debug)]
enum Waits {
    /// It has run.
    Done {
        writes: Writes,
        result: Result<Answer, Refusal>,
        /// True if what it has read was undone since.
        is_stale: bool,
    },
    /// It has locked whatever it may touch, and runs then.
    Forced(Value),
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
    /// Keys with what they hold.
    Keys(Vec<(Key, Version)>),
    /// Versions of procedures, each by its name, a byte zero and its number, the most significant byte first.
    Procedures(Vec<(Key, Version)>),
}

/// The state of a shard as it was when it was frozen.
#[derive(Debug)]
pub struct Frozen {
    procedures: versions::Frozen,
    keys: versions::Frozen,
}

impl Shard {
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
        self.keys.unsettled()
    }

    /// The transactions that are prepared, and for each whether that was by force.
    pub fn prepared(&self) -> impl Iterator<Item = (TransactionId, bool)> + '_ {
        self.prepared.iter().map(|(id, waiting)| (*id, matches!(waiting.waits, Waits::Forced(_))))
    }

    /// What a key holds now.
    pub fn newest(&self, key: &[u8]) -> Option<&Version> {
        self.keys.newest(key)
    }

    /// Runs an operation as far as it comes. None if it touches what is locked.
    fn work(&self, operation: &Value, mode: Mode) -> Option<(Work<'_>, Result<Answer, Refusal>)> {
        let mut work = Work::new(&self.keys, &self.locks, mode);
        let result = match self.execute(&mut work, operation, mode) {
            Ok(answer) => Ok(answer),
            Err(End::Halt(Halt::Locked)) => return None,
            Err(End::Halt(Halt::ReadOnly)) => Err(Refusal::ReadOnly),
            Err(End::Halt(Halt::TooLarge)) => Err(Refusal::TooLarge),
            Err(End::Refused(refusal)) => Err(refusal),
        };
        if result.is_err() {
            work.writes.clear();
        }
        Some((work, result))
    }

    fn execute(&self, work: &mut Work<'_>, operation: &Value, mode: Mode) -> Result<Answer, End> {
        let place = match mode {
            Mode::Run(place) | Mode::RunAnyway(place) => Some(place),
            Mode::Read(_) | Mode::Prepare => None,
        };
        match Operation::decode(operation)? {
            Operation::Batch(batch) => batch::execute(work, &batch, place),
            Operation::Call(call) => {
                Err(End::Refused(Refusal::NoSuchProcedure { name: call.name, version: call.version }))
            }
            Operation::Deploy(_) | Operation::Remove(_) => {
                let text = "this server runs none".to_owned();
                Err(End::Refused(Refusal::Deploy { text }))
            }
        }
    }

    fn install(&mut self, place: Place, writes: Writes) {
        for (key, value) in writes {
            self.keys.write(place, &key, value);
        }
    }

    fn release(&mut self, transaction: TransactionId) -> Waiting {
        let waiting = self.prepared.remove(&transaction);
        let waiting = waiting.unwrap_or_else(|| panic!("{transaction} ends, and was not prepared"));
        self.locks.unlock(transaction, &waiting.touched);
        waiting
    }

    fn hold(&mut self, transaction: TransactionId, touched: Touched, waits: Waits) {
        self.locks.lock(transaction, &touched);
        let before = self.prepared.insert(transaction, Waiting { touched, waits });
        assert!(before.is_none(), "{transaction} is prepared twice");
    }

    fn footprint(&self, operation: &Value) -> Touched {
        match Operation::decode(operation) {
            Ok(Operation::Batch(batch)) => batch::footprint(&batch),
            Ok(Operation::Call(_) | Operation::Deploy(_) | Operation::Remove(_)) | Err(_) => {
                Touched::default()
            }
        }
    }
}

fn answered(result: &Result<Answer, Refusal>) -> Answered {
    match result {
        Ok(answer) => Answered::Done(answer.encode()),
        Err(refusal) => Answered::Refused(refusal.encode()),
    }
}

impl Application for Shard {
    type Page = Page;
    type Frozen = Frozen;

    fn run(&mut self, place: Place, operation: &Value) -> Option<Answered> {
        let (work, result) = self.work(operation, Mode::Run(place))?;
        let writes = work.writes;
        self.install(place, writes);
        Some(answered(&result))
    }

    fn read(&self, before: Place, operation: &Value) -> Read {
        let (work, result) =
            self.work(operation, Mode::Read(before)).expect("what only reads waits for no lock");
        Read { answer: answered(&result), is_locked: work.is_locked }
    }

    fn prepare(&mut self, transaction: TransactionId, operation: &Value) -> Prepared {
        let Some((work, result)) = self.work(operation, Mode::Prepare) else { return Prepared::Conflict };
        let vote = match &result {
            Ok(_) => Prepared::Commit(answered(&result)),
            Err(refusal) => Prepared::Abort(refusal.encode()),
        };
        let Work { touched, writes, .. } = work;
        self.hold(transaction, touched, Waits::Done { writes, result, is_stale: false });
        vote
    }

    fn force_prepare(&mut self, transaction: TransactionId, operation: &Value) -> bool {
        let touched = self.footprint(operation);
        let is_free = !self.locks.has_any(&touched);
        self.hold(transaction, touched, Waits::Forced(operation.clone()));
        is_free
    }

    fn commit(&mut self, place: Place) -> Answered {
        let (writes, result) = match self.release(place.transaction).waits {
            Waits::Done { is_stale: true, .. } => {
                panic!("{place} is committed, and what it has read was undone")
            }
            Waits::Done { writes, mut result, .. } => {
                if let Ok(answer) = &mut result {
                    batch::settle_places(answer, place);
                }
                (writes, result)
            }
            Waits::Forced(operation) => {
                let run = self.work(&operation, Mode::RunAnyway(place)).expect("it runs whatever is locked");
                (run.0.writes, run.1)
            }
        };
        self.install(place, writes);
        answered(&result)
    }

    fn abort(&mut self, transaction: TransactionId) {
        self.release(transaction);
    }

    fn settle(&mut self, below: Option<Place>) {
        self.keys.settle(below);
        self.procedures.settle(below);
    }

    fn rewind(&mut self, to: Place) {
        let undone = self.keys.rewind(to);
        if !undone.is_empty() {
            for Waiting { touched, waits } in self.prepared.values_mut() {
                if let Waits::Done { is_stale, .. } = waits {
                    *is_stale |= touched.has_any(&undone);
                }
            }
        }
    }

    fn freeze(&self, below: Option<Place>) -> Frozen {
        Frozen { procedures: self.procedures.freeze(below), keys: self.keys.freeze(below) }
    }

    fn next_page(frozen: &mut Frozen, bytes_max: usize) -> Option<Page> {
        let procedures = frozen.procedures.next_page(bytes_max);
        if !procedures.is_empty() {
            return Some(Page::Procedures(procedures));
        }
        let keys = frozen.keys.next_page(bytes_max);
        (!keys.is_empty()).then_some(Page::Keys(keys))
    }

    fn from_pages(pages: Vec<Page>) -> Self {
        let mut shard = Shard::default();
        for page in pages {
            let (part, entries) = match page {
                Page::Keys(entries) => (&mut shard.keys, entries),
                Page::Procedures(entries) => (&mut shard.procedures, entries),
            };
            entries.into_iter().for_each(|(key, version)| part.restore(&key, version));
        }
        shard
    }
}
