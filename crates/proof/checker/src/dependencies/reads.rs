//! The reads of each committed transaction from others, after its own reads and writes are found to agree.
//!
//! The first read of a key before any own write of it, or the part of a list before the transaction's own
//! appends, is *external*: it names the version that the transaction saw. Everything else must follow from
//! it.

use crate::dependencies::fate::Fate;
use crate::dependencies::writes::{ABSENT, WriteId, WriteIndex};
use crate::explain::Words;
use crate::history::{Action, History, KeyId, ListRef, Op, Seen, TxnId, Value};
use crate::report::{Anomalies, AnomalyKind};

/// The version of a list that a transaction saw: so many elements of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListVersion {
    pub(crate) txn: TxnId,
    pub(crate) key: KeyId,
    pub(crate) len: u32,
}

/// The version of a register that a transaction saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegisterVersion {
    pub(crate) key: KeyId,
    /// The write, or none for the initial value.
    pub(crate) write: Option<WriteId>,
    pub(crate) txn: TxnId,
}

/// A list read whose own part has been checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListObservation {
    pub(crate) txn: TxnId,
    pub(crate) key: KeyId,
    pub(crate) list: ListRef,
    /// How many of its elements are not the transaction's own.
    pub(crate) others: u32,
    /// It is the first read of the key in its transaction.
    pub(crate) is_first: bool,
}

/// All external reads of a history, in the order of transactions.
#[derive(Debug, Default)]
pub(crate) struct ExternalReads {
    pub(crate) lists: Vec<ListVersion>,
    pub(crate) registers: Vec<RegisterVersion>,
    /// List reads that are not prefixes of their key's spine, to be compared element by element.
    pub(crate) apart: Vec<ListObservation>,
    /// Per key the longest list that a committed transaction read, with the first such reader.
    pub(crate) longest: Vec<Option<ListObservation>>,
}

/// A key, as far as a transaction knows it so far.
#[derive(Debug, Clone, Copy)]
struct Known {
    txn: TxnId,
    /// The latest own write: its position.
    own: u32,
    own_count: u32,
    /// Lists: the first list read, and how many of its elements are not the transaction's own.
    list: Option<(Option<ListRef>, u32)>,
    /// Registers: the value that the next read must return.
    register: Option<Option<Value>>,
}

const UNKNOWN: Known = Known { txn: TxnId(ABSENT), own: ABSENT, own_count: 0, list: None, register: None };

/// Checks the own reads and writes of all committed transactions and collects what they read from others.
pub(crate) fn collect(
    history: &History,
    writes: &WriteIndex,
    fates: &[Fate],
    anomalies: &mut Anomalies,
) -> ExternalReads {
    let mut collector = Collector {
        history,
        writes,
        words: Words::new(history),
        known: vec![UNKNOWN; history.key_count()],
        reads: ExternalReads { longest: vec![None; history.key_count()], ..ExternalReads::default() },
        anomalies,
    };
    for (at, fate) in fates.iter().enumerate() {
        if *fate == Fate::Committed {
            collector.transaction(TxnId(at as u32));
        }
    }
    collector.reads
}

struct Collector<'a> {
    history: &'a History,
    writes: &'a WriteIndex,
    words: Words<'a>,
    known: Vec<Known>,
    reads: ExternalReads,
    anomalies: &'a mut Anomalies,
}

impl Collector<'_> {
    fn transaction(&mut self, txn: TxnId) {
        for (position, op) in self.history.ops(self.history.txn(txn)).iter().enumerate() {
            let slot = &mut self.known[op.key.index()];
            if slot.txn != txn {
                *slot = Known { txn, ..UNKNOWN };
            }
            let known = *slot;
            match op.action {
                Action::Append(_) => {
                    self.known[op.key.index()] =
                        Known { own: position as u32, own_count: known.own_count + 1, ..known };
                }
                Action::Write(value) => {
                    self.known[op.key.index()] =
                        Known { own: position as u32, register: Some(Some(value)), ..known };
                }
                Action::Read(Seen::List(list)) => self.list_read(txn, op, Some(list), known),
                Action::Read(Seen::Register(value)) => self.register_read(txn, op, Some(value), known),
                Action::Read(Seen::Initial) => self.initial_read(txn, op, known),
                Action::Read(Seen::Set(_) | Seen::Nothing) | Action::Add(_) | Action::Remove(_) => {}
            }
        }
    }

    fn initial_read(&mut self, txn: TxnId, op: &Op, known: Known) {
        match self.history.key_type(op.key) {
            Some(crate::history::KeyType::List) => self.list_read(txn, op, None, known),
            Some(crate::history::KeyType::Register) => self.register_read(txn, op, None, known),
            // Counts are read elsewhere; a key of no type has only ever been read as initial.
            Some(crate::history::KeyType::CountingSet) | None => {}
        }
    }

    fn list_read(&mut self, txn: TxnId, op: &Op, list: Option<ListRef>, known: Known) {
        let values = list.map_or(&[][..], |list| self.history.list(op.key, list));
        let Some(others) = self.without_own(txn, values, known) else {
            return self.internal(txn, |words| words.own_appends_missing(txn, op.key, values));
        };
        match known.list {
            None => self.first_list_read(txn, op.key, list, others),
            Some((first, before)) => {
                let first_values = first.map_or(&[][..], |first| self.history.list(op.key, first));
                let same = before as usize == others
                    && (first.is_none_or(ListRef::is_shared) && list.is_none_or(ListRef::is_shared)
                        || first_values[..others] == values[..others]);
                if !same {
                    return self.internal(txn, |words| words.list_changed(txn, op.key, first_values, values));
                }
                // A later read reaches further where it holds own appends.
                self.observe(txn, op.key, list, others, false);
            }
        }
    }

    fn first_list_read(&mut self, txn: TxnId, key: KeyId, list: Option<ListRef>, others: usize) {
        self.known[key.index()].list = Some((list, others as u32));
        self.observe(txn, key, list, others, true);
        if list.is_none_or(ListRef::is_shared) {
            self.reads.lists.push(ListVersion { txn, key, len: others as u32 });
        }
    }

    fn observe(&mut self, txn: TxnId, key: KeyId, list: Option<ListRef>, others: usize, is_first: bool) {
        let Some(list) = list else { return };
        let observation = ListObservation { txn, key, list, others: others as u32, is_first };
        if !list.is_shared() {
            self.reads.apart.push(observation);
        }
        let longest = &mut self.reads.longest[key.index()];
        let len = self.history.list(key, list).len();
        if longest.is_none_or(|longest| self.history.list(key, longest.list).len() < len) {
            *longest = Some(observation);
        }
    }

    /// The length of a list without the transaction's own appends at its end; none if they are not there.
    fn without_own(&self, txn: TxnId, values: &[Value], known: Known) -> Option<usize> {
        let ops = self.history.ops(self.history.txn(txn));
        let mut position = known.own;
        let mut rest = values;
        for _ in 0..known.own_count {
            let op = ops[position as usize];
            let own = op.action.written()?;
            let (&end, before) = rest.split_last()?;
            if own != end {
                return None;
            }
            position = self.writes.write(self.writes.find(op.key, own)?).previous;
            rest = before;
        }
        Some(rest.len())
    }

    fn register_read(&mut self, txn: TxnId, op: &Op, value: Option<Value>, known: Known) {
        if let Some(expected) = known.register {
            if expected != value {
                let own = known.own != ABSENT;
                self.internal(txn, |words| words.register_changed(txn, op.key, expected, value, own));
            }
            return;
        }
        self.known[op.key.index()].register = Some(value);
        let write = value.map(|value| self.writes.find(op.key, value));
        match write {
            Some(None) => {
                let words = &self.words;
                self.anomalies.add(self.history, AnomalyKind::UnwrittenRead, &[txn], || {
                    words.unwritten(txn, op.key, value.unwrap_or_default())
                });
            }
            Some(Some(write)) if self.writes.write(write).txn == txn => {
                let value = self.writes.write(write).value;
                self.internal(txn, |words| words.own_future_write(txn, op.key, value));
            }
            write => {
                let write = write.flatten();
                self.reads.registers.push(RegisterVersion { key: op.key, write, txn });
            }
        }
    }

    fn internal(&mut self, txn: TxnId, why: impl FnOnce(&Words<'_>) -> String) {
        let words = &self.words;
        self.anomalies.add(self.history, AnomalyKind::Internal, &[txn], || why(words));
    }
}
