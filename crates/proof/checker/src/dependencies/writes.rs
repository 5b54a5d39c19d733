//! The writers of values: list appends and register writes of all transactions, by key and value.

use crate::history::{History, KeyId, Op, TxnId, Value};

/// Marks an absent position.
pub(crate) const ABSENT: u32 = u32::MAX;

/// One append or register write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) value: Value,
    pub(crate) txn: TxnId,
    /// The position of the transaction's previous write to this key, or [`ABSENT`].
    pub(crate) previous: u32,
    /// No later write of the transaction to this key follows.
    pub(crate) is_last: bool,
}

/// Names a write: its position in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WriteId(pub(crate) u32);

impl WriteId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// All writes, grouped by key and sorted by value within a key, so that a writer is found by binary search.
#[derive(Debug)]
pub(crate) struct WriteIndex {
    starts: Vec<u32>,
    writes: Vec<Write>,
}

impl WriteIndex {
    pub(crate) fn new(history: &History) -> Self {
        let mut starts = vec![0_u32; history.key_count() + 1];
        for_each_write(history, |_, _, op, _| starts[op.key.index() + 1] += 1);
        for key in 0..history.key_count() {
            starts[key + 1] += starts[key];
        }
        let nothing = Write { value: 0, txn: TxnId(0), previous: ABSENT, is_last: true };
        let mut writes = vec![nothing; starts[history.key_count()] as usize];
        let mut next = starts.clone();
        // Per key the latest write so far: whose it is, where it stands in its transaction, and its slot.
        let mut latest = vec![(TxnId(ABSENT), ABSENT, 0_usize); history.key_count()];
        for_each_write(history, |txn, position, op, value| {
            let slot = next[op.key.index()] as usize;
            next[op.key.index()] += 1;
            let (latest_txn, latest_position, latest_slot) = latest[op.key.index()];
            let mut previous = ABSENT;
            if latest_txn == txn {
                previous = latest_position;
                writes[latest_slot].is_last = false;
            }
            latest[op.key.index()] = (txn, position, slot);
            writes[slot] = Write { value, txn, previous, is_last: true };
        });
        for key in 0..history.key_count() {
            writes[starts[key] as usize..starts[key + 1] as usize].sort_unstable_by_key(|write| write.value);
        }
        WriteIndex { starts, writes }
    }

    pub(crate) fn len(&self) -> usize {
        self.writes.len()
    }

    /// The write that installed `value` at `key`, whatever became of its transaction.
    pub(crate) fn find(&self, key: KeyId, value: Value) -> Option<WriteId> {
        let start = self.starts[key.index()];
        let found = self.of_key(key).binary_search_by_key(&value, |write| write.value).ok()?;
        Some(WriteId(start + found as u32))
    }

    pub(crate) fn write(&self, id: WriteId) -> &Write {
        &self.writes[id.index()]
    }

    pub(crate) fn of_key(&self, key: KeyId) -> &[Write] {
        &self.writes[self.starts[key.index()] as usize..self.starts[key.index() + 1] as usize]
    }

    /// The identifiers of the writes of a key, in the order of their values.
    pub(crate) fn ids_of_key(&self, key: KeyId) -> impl Iterator<Item = WriteId> + use<> {
        (self.starts[key.index()]..self.starts[key.index() + 1]).map(WriteId)
    }
}

fn for_each_write(history: &History, mut visit: impl FnMut(TxnId, u32, &Op, Value)) {
    for (at, txn) in history.txns().iter().enumerate() {
        for (position, op) in history.ops(txn).iter().enumerate() {
            if let Some(value) = op.action.written() {
                visit(TxnId(at as u32), position as u32, op, value);
            }
        }
    }
}
