//! The state that a replica keeps, and how puts run: the upcalls of inconsistent replication.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::{Key, Timestamp, TransactionId};
use quorate_ir::{Bounds, ConsensusEntry, InconsistentEntry, OperationEntries, OperationId, Upcalls};
use quorate_store::Versions;

use crate::message::{Put, QwStore, StatePage, Supplement};
use crate::rules::Rules;

/// The state that a replica keeps.
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
        below: Timestamp,
        bytes_max: usize,
    ) -> (StatePage, Option<Key>) {
        let (versions, to) = self.versions.page_after(after, below, bytes_max);
        (StatePage { versions }, to)
    }

    fn forget_state_below(&mut self, floor: Timestamp) {
        self.versions.forget_below(floor);
    }

    fn install_state(&mut self, state: StatePage) {
        self.versions.install_page(state.versions);
    }

    fn on_state_installed(&mut self) {
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

#[cfg(test)]
mod tests {
    use quorate_core::transaction::KeyVersion;
    use quorate_core::{ClientId, Value};

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn put(key: &str, micros: u64) -> Arc<Put> {
        Arc::new(Put {
            key: Key::from(key),
            value: Some(Value::from(micros.to_string())),
            timestamp: at(micros),
        })
    }

    fn store(puts: &[(&str, u64)]) -> Store {
        let mut store = Store::new(Rules::SOUND);
        for (key, micros) in puts {
            store.execute_inconsistent(TransactionId::default(), &put(key, *micros));
        }
        store
    }

    /// A put below the floor was compared, and is being collected: one that comes late is no version any more.
    #[test]
    fn a_put_below_the_floor_has_no_effect() {
        let mut store = store(&[("a", 5)]);
        store.bounds.raise_floor(at(10));
        for (key, micros) in [("b", 9), ("c", 10), ("d", 11)] {
            store.execute_inconsistent(TransactionId::default(), &put(key, micros));
        }
        let held = |key: &str| store.versions.held(key.as_bytes()).0;
        assert_eq!([held("a"), held("b"), held("c"), held("d")], [at(5), Timestamp::ZERO, at(10), at(11)]);
    }

    #[test]
    fn a_put_where_others_have_compared_is_noted_as_late() {
        let mut store = store(&[]);
        store.bounds.refuse_below(at(10));
        store.execute_inconsistent(TransactionId::default(), &put("a", 12));
        assert_eq!(store.bounds_mut().take_late(), None);
        store.execute_inconsistent(TransactionId::default(), &put("a", 8));
        assert_eq!(store.bounds_mut().take_late(), Some(at(8)));
    }

    /// It is no lower than that of any replica that takes part in a view change.
    #[test]
    fn a_replica_refuses_what_a_quorum_refuses() {
        let mut store = store(&[]);
        let supplement = |refusal, complete| Supplement { refusal: at(refusal), complete: at(complete) };
        store.adopt_supplement(&supplement(7, 3));
        store.adopt_supplement(&supplement(5, 4));
        assert_eq!((store.bounds().refusal, store.bounds().complete), (at(7), at(4)));
        assert_eq!((store.contribution(), store.supplement()), (supplement(7, 4), supplement(7, 4)));
    }

    #[test]
    fn a_state_is_handed_over_in_pages_below_a_floor() {
        let mut given = store(&[("a", 5), ("a", 15), ("b", 6), ("c", 7)]);
        let (first, next) = given.state_after(None, at(10), 1);
        let versions = |page: &StatePage| -> Vec<(Key, u64)> {
            page.versions
                .iter()
                .map(|KeyVersion { key, version, .. }| (key.clone(), version.micros))
                .collect()
        };
        assert_eq!(versions(&first), [(Key::from("a"), 5)]);
        let (rest, end) = given.state_after(next.as_ref(), at(10), 1 << 20);
        assert_eq!((versions(&rest), end), (vec![(Key::from("b"), 6), (Key::from("c"), 7)], None));
        let (all, _) = given.state_after(None, Timestamp::MAX, 1 << 20);
        assert_eq!(versions(&all).len(), 4, "above it as well");
        let mut taken = store(&[]);
        [first, rest].into_iter().for_each(|page| taken.install_state(page));
        let held = |store: &Store, key: &str| store.versions.held(key.as_bytes()).0.micros;
        assert_eq!(["a", "b", "c"].map(|key| held(&taken, key)), [5, 6, 7]);
        given.forget_state_below(at(10));
        assert_eq!(["a", "b", "c"].map(|key| held(&given, key)), [15, 0, 0]);
    }

    #[test]
    fn an_entry_takes_as_many_bytes_as_its_put_and_what_stands_around_it() {
        let entry = |operation| InconsistentEntry { operation, executed: true };
        let entries = |inconsistent| OperationEntries { inconsistent, consensus: Vec::new() };
        let bytes = |entries: &OperationEntries<QwStore>| Store::entry_bytes(entries);
        let none = bytes(&entries(None));
        assert_eq!(none, 96);
        assert_eq!(bytes(&entries(Some(entry(put("abc", 12_345))))), none + 3 + 5);
    }
}
