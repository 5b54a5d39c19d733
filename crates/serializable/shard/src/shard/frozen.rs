//! States that are read at one place, for a backup: page by page, while more runs.
//!
//! [`Freeze`](crate::operation::Freeze) is an operation that only reads, at all shards of a keyspace, in one transaction. It touches every key, so the protocol
//! gives it one place in the serial order at all of them, and nothing that writes below that place comes later. The state before the
//! place is frozen, which costs a reference for each node of the map ([ADR 0032](https://github.com/quorate/quorate/blob/main/docs/adr/0032-what-a-shard-of-a-serializable-keyspace-holds.md)),
//! and [`ReadFrozen`](crate::operation::ReadFrozen) reads it.
//!
//! A frozen state is in the memory of the one replica that has answered. It is no part of the state of the shard: no operation that writes can
//! see it, it is not handed over, and a replica that does not have it says so. So the reader begins anew then.

use std::cell::RefCell;
use std::collections::VecDeque;

use quorate_core::{ClockTime, Key};
use quorate_granola::Place;

use super::versions::{self, Version};

/// States that are kept at a time, for all readers: the oldest gives way.
const FROZEN_MAX: usize = 4;

/// A state that was not read for so long by the timestamps of the shard is let go, in microseconds.
const UNREAD_MICROS_MAX: u64 = 60 * 1_000_000;

/// No state is kept for longer, in microseconds: what is overwritten meanwhile stays in memory.
const KEPT_MICROS_MAX: u64 = 3_600 * 1_000_000;

/// The frozen states of a replica.
#[derive(Debug, Default)]
pub(super) struct FrozenStates(RefCell<VecDeque<FrozenState>>);

#[derive(Debug)]
struct FrozenState {
    reader: u64,
    /// It holds what stands before this place.
    before: Place,
    read_at: ClockTime,
    keys: versions::Frozen,
    procedures: versions::Frozen,
}

impl FrozenStates {
    /// Keeps a state for a reader.
    pub(super) fn keep(
        &self,
        reader: u64,
        before: Place,
        keys: versions::Frozen,
        procedures: versions::Frozen,
    ) {
        let mut states = self.0.borrow_mut();
        let is_same = |state: &FrozenState| state.reader == reader && state.before == before;
        states.retain(|state| !is_same(state));
        if states.len() == FROZEN_MAX {
            states.pop_front();
        }
        states.push_back(FrozenState { reader, before, read_at: before.timestamp, keys, procedures });
    }

    /// The keys, or the procedures, behind one of a state that is kept, with about so many bytes, at most so many; none if it is not kept.
    pub(super) fn read(
        &self,
        (reader, at): (u64, ClockTime),
        now: ClockTime,
        procedures: bool,
        after: &Key,
        limits: (usize, usize),
    ) -> Option<Vec<(Key, Version)>> {
        let mut states = self.0.borrow_mut();
        let is_wanted = |state: &&mut FrozenState| state.reader == reader && state.before.timestamp == at;
        let state = states.iter_mut().find(is_wanted)?;
        state.read_at = state.read_at.max(now);
        let part = if procedures { &mut state.procedures } else { &mut state.keys };
        Some(part.page_after(after, limits.0, limits.1))
    }

    /// Time has come so far: what nobody reads any more is let go.
    pub(super) fn forget(&self, now: ClockTime) {
        let mut states = self.0.borrow_mut();
        let age = |since: ClockTime| now.as_micros().saturating_sub(since.as_micros());
        states.retain(|state| {
            age(state.read_at) < UNREAD_MICROS_MAX && age(state.before.timestamp) < KEPT_MICROS_MAX
        });
    }

    /// Everything at this place and above was undone, so a state that holds it is none that ever was.
    pub(super) fn rewind(&self, to: Place) {
        self.0.borrow_mut().retain(|state| state.before <= to);
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}
