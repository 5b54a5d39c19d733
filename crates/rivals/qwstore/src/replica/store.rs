//! What a replica keeps, and how puts run: the upcalls of inconsistent replication.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::{Key, Timestamp, TransactionId};
use quorate_ir::{ConsensusEntry, InconsistentEntry, OperationEntries, OperationId, Upcalls};
use quorate_store::Versions;

use crate::message::{Put, QwStore, StatePage, Supplement};

/// What a replica keeps.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// The versions. The newest of each key counts; older ones stay until a floor has passed them.
    pub(super) versions: Versions,
    /// Below this everything has been compared, and is being collected.
    pub(super) floor: Timestamp,
    /// New puts below are refused.
    pub(super) refusal: Timestamp,
    /// Below this f + 1 replicas hold every put that was acknowledged, as far as is known here.
    pub(super) complete: Timestamp,
    /// Below this a floor is looked for: what comes there has to be compared, also if it may come.
    pub(super) gathering: Timestamp,
    /// The lowest timestamp of a put that has come below where a floor is looked for, or where puts are refused, since this
    /// was last asked.
    pub(super) late: Option<Timestamp>,
}

impl Store {
    /// From now on refuses new puts below.
    pub(super) fn refuse_below(&mut self, below: Timestamp) {
        self.refusal = self.refusal.max(below);
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
        if *timestamp < self.floor {
            return;
        }
        if *timestamp < self.refusal.max(self.gathering) {
            self.late = Some(self.late.map_or(*timestamp, |late| late.min(*timestamp)));
        }
        self.versions.install(key, *timestamp, value.clone());
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
        Supplement { refusal: self.refusal, complete: self.complete }
    }

    fn supplement(&self) -> Supplement {
        self.contribution()
    }

    fn adopt_supplement(&mut self, supplement: &Supplement) {
        self.refusal = self.refusal.max(supplement.refusal);
        self.complete = self.complete.max(supplement.complete);
    }

    fn refusal(&self) -> Timestamp {
        self.refusal
    }

    fn complete(&self) -> Timestamp {
        self.complete
    }

    fn on_floor(&mut self, floor: Timestamp) {
        self.floor = self.floor.max(floor);
        self.complete = self.complete.max(floor);
        self.refusal = self.refusal.max(floor);
    }

    fn state(&self, bytes_max: usize) -> Vec<StatePage> {
        self.versions.pages(bytes_max).into_iter().map(|versions| StatePage { versions }).collect()
    }

    fn key_count(&self) -> usize {
        self.versions.len()
    }

    fn next_page(&self, after: Option<&Key>, bytes_max: usize) -> (StatePage, Option<Key>) {
        let (versions, last) = self.versions.page_after(after, bytes_max);
        (StatePage { versions }, last)
    }

    fn forget_state_below(&mut self, floor: Timestamp) {
        self.versions.forget_below(floor);
    }

    fn install_state(&mut self, state: &StatePage) {
        self.versions.install_page(&state.versions);
    }

    fn entry_bytes(entries: &OperationEntries<QwStore>) -> usize {
        const OVERHEAD: usize = 96;
        entries.inconsistent.as_ref().map_or(0, |entry| entry.operation.bytes()) + OVERHEAD
    }
}
