//! What a replica keeps, and how puts run: the upcalls of inconsistent replication.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::{Key, Timestamp, TransactionId};
use quorate_ir::{Bounds, ConsensusEntry, InconsistentEntry, OperationEntries, OperationId, Upcalls};
use quorate_store::Versions;

use crate::message::{Put, QwStore, StatePage, Supplement};
use crate::rules::Rules;

/// What a replica keeps.
#[derive(Debug)]
pub struct Store {
    /// The versions. The newest of each key counts; older ones stay until a floor has passed them.
    pub(super) versions: Versions,
    /// The bounds of puts that have been compared, and of puts that are refused.
    pub(super) bounds: Bounds,
    /// The rules that it follows.
    pub(super) rules: Rules,
}

impl Store {
    /// An empty store.
    pub(super) fn new(rules: Rules) -> Self {
        Store { versions: Versions::new(), bounds: Bounds::default(), rules }
    }
}

/// Why there are no verdicts.
const NO_CONSENSUS: &str = "the store has no consensus operations";

impl Upcalls<QwStore> for Store {
    fn execute_consensus(&mut self, _: OperationId, operation: &Infallible) -> Infallible {
        *operation
    }

    fn verdict_after(
        &mut self,
        _: OperationId,
        operation: &Infallible,
        _: &InconsistentEntry<QwStore>,
    ) -> Option<Infallible> {
        match *operation {}
    }

    fn implied_verdict(_: &Arc<Put>) -> Infallible {
        unreachable!("{NO_CONSENSUS}")
    }

    fn superseded_verdict() -> Infallible {
        unreachable!("{NO_CONSENSUS}")
    }

    fn execute_inconsistent(&mut self, _: TransactionId, operation: &Arc<Put>) {
        let Put { key, value, timestamp } = operation.as_ref();
        if *timestamp < self.bounds.floor {
            return;
        }
        self.bounds.note_effect(*timestamp);
        self.versions.install(key, *timestamp, value.clone());
        let newest = self.versions.newest_timestamp(key);
        assert!(
            newest >= *timestamp,
            "{key:?} was put at {timestamp}, and its newest version is of {newest}"
        );
    }

    fn finalize_consensus(&mut self, _: OperationId, operation: &Infallible, _: &Infallible, _: bool) {
        match *operation {}
    }

    fn forget_consensus(&mut self, _: OperationId, operation: &Infallible) {
        match *operation {}
    }

    fn merge(
        &mut self,
        _: &[(TransactionId, ConsensusEntry<QwStore>)],
        _: &[(TransactionId, ConsensusEntry<QwStore>)],
    ) -> Vec<Infallible> {
        Vec::new()
    }

    fn contribution(&self) -> Supplement {
        Supplement { refusal: self.bounds.refusal, complete: self.bounds.complete }
    }

    fn supplement(&self) -> Supplement {
        self.contribution()
    }

    fn adopt_supplement(&mut self, supplement: &Supplement) {
        self.bounds.refuse_below(supplement.refusal);
        self.bounds.complete_below(supplement.complete);
        assert!(
            self.bounds.refusal >= supplement.refusal,
            "puts below {} are refused by a quorum, and here below {}",
            supplement.refusal,
            self.bounds.refusal
        );
    }

    fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    fn bounds_mut(&mut self) -> &mut Bounds {
        &mut self.bounds
    }

    fn state_after(
        &self,
        after: Option<&Key>,
        below: Option<Timestamp>,
        bytes_max: usize,
    ) -> (StatePage, Option<Key>) {
        let (versions, to) = self.versions.page_after(after, below, bytes_max);
        (StatePage { versions }, to)
    }

    fn forget_state_below(&mut self, floor: Timestamp) {
        self.versions.forget_below(floor);
    }

    fn install_states(&mut self, states: impl IntoIterator<Item = StatePage>) {
        self.versions.install_pages(states.into_iter().map(|state| state.versions));
        assert!(
            self.bounds.floor <= self.bounds.refusal,
            "the floor is {}, and puts are taken from {} on",
            self.bounds.floor,
            self.bounds.refusal
        );
    }

    fn entry_bytes(entries: &OperationEntries<QwStore>) -> usize {
        const OVERHEAD: usize = 96;
        entries.inconsistent.as_ref().map_or(0, |entry| entry.operation.bytes()) + OVERHEAD
    }
}
