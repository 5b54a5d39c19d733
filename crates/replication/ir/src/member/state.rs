//! The state of a member beside its replica and its protocol, and the records that it begins with.

use std::iter::Peekable;
use std::time::Duration;

use quorate_core::hosted::Boot;
use quorate_core::{Epoch, ReplicaIndex, Succession};

use super::search::{Search, SearchSettings};
use super::shortening::Shortening;
use crate::{Fact, Operations, Replica};

/// The sizes and times that a member goes by.
#[derive(Clone, Copy, Debug)]
pub struct MemberSettings {
    /// Roughly how many bytes go into one message between replicas, and into one page of a snapshot.
    pub page_bytes_max: usize,
    /// The log is shortened after so many records at the earliest.
    pub snapshot_records_min: u64,
    /// How floors are searched for.
    pub search: SearchSettings,
}

/// The state of a member beside its replica and its protocol.
#[derive(Debug)]
pub struct MemberState {
    pub(super) settings: MemberSettings,
    pub(super) search: Search,
    pub(super) shortening: Shortening,
    /// True if the replica's creation is not on disk yet.
    pub(super) newborn: bool,
    /// The greatest membership that it has heard of.
    newest_epoch: Epoch,
}

impl MemberState {
    /// True if this replica searches for a floor.
    pub fn is_searching(&self) -> bool {
        self.search.run.is_some()
    }

    /// Gives the search for a floor up.
    pub fn give_up_search(&mut self) {
        self.search.run = None;
    }

    /// Takes note of a membership. True if it is the greatest so far.
    pub fn note_epoch(&mut self, epoch: Epoch) -> bool {
        let is_newer = epoch > self.newest_epoch;
        self.newest_epoch = self.newest_epoch.max(epoch);
        is_newer
    }
}

/// The parts of a member that take turns.
#[derive(Debug)]
pub struct Parts<'a, O: Operations, P> {
    /// Its part in inconsistent replication.
    pub ir: &'a mut Replica<O>,
    /// The state on which operations run.
    pub protocol: &'a mut P,
    /// The rest.
    pub state: &'a mut MemberState,
}

/// A record of a member's log: a shared fact, or one of the protocol's own.
pub type Kept<O, R> = Result<Fact<O>, R>;

/// The records that a member begins with. They are taken one after the other: all of them may be more than memory holds.
#[expect(missing_debug_implementations, reason = "its records have to be taken to be looked at")]
pub struct Beginning<I: Iterator> {
    pub(super) records: Peekable<I>,
    pub(super) restarted: bool,
    newborn: bool,
}

impl<I: Iterator> Beginning<I> {
    /// A member with these records. It is being created if there are none and `boot` says so, or `begins_anew`.
    pub fn new(records: impl IntoIterator<IntoIter = I>, boot: Boot, begins_anew: bool) -> Self {
        let mut records = records.into_iter().peekable();
        let restarted = records.peek().is_some();
        let newborn = !restarted && (boot == Boot::Initialise || begins_anew);
        Beginning { records, restarted, newborn }
    }

    /// The state of the member under a membership.
    pub fn state(&self, epoch: Epoch, settings: MemberSettings) -> MemberState {
        MemberState {
            settings,
            search: Search::default(),
            shortening: Shortening::default(),
            newborn: self.newborn,
            newest_epoch: epoch,
        }
    }
}

impl<O: Operations, R, I: Iterator<Item = Kept<O, R>>> Beginning<I> {
    /// The replica: new, or without its record until it is rebuilt.
    pub fn replica(
        &mut self,
        group: impl Into<Succession>,
        me: ReplicaIndex,
        view_change_timeout: Duration,
        page_bytes_max: usize,
    ) -> Replica<O> {
        let is_created = self.newborn || matches!(self.records.peek(), Some(Ok(Fact::Initialised)));
        let build = if is_created { Replica::initialise } else { Replica::lost };
        build(group.into(), me, view_change_timeout, page_bytes_max)
    }
}
