//! What holds between any two steps of the machine of a node.

use super::Home;
use super::cache::Stage;
use super::transaction::Phase;

impl Home {
    /// Asserts all of it.
    pub(crate) fn assert_invariants(&self) {
        self.the_cache_follows_transactions();
        self.dependencies_lead_both_ways();
        self.open_transactions_are_counted();
        self.local_commits_are_known();
    }

    fn local_commits_are_known(&self) {
        let of = |phase: Phase| match phase {
            Phase::Local(local) | Phase::Deciding(local, _) => Some(local),
            Phase::Executing | Phase::Certifying | Phase::ReadOnly => None,
        };
        let locals = self.transactions.iter().filter_map(|(id, one)| Some((of(one.phase)?, *id)));
        assert_eq!(
            locals.collect::<std::collections::BTreeSet<_>>(),
            self.locals,
            "snapshots include local commits"
        );
    }

    fn the_cache_follows_transactions(&self) {
        for (id, stage) in self.cache.transactions() {
            let phase = self.transactions.get(&id).map(|transaction| transaction.phase);
            let fits = match (stage, phase) {
                (Stage::Certifying(_), Some(Phase::Certifying)) => true,
                (Stage::Local(at), Some(Phase::Local(local))) => at == local,
                (Stage::Deciding(at), Some(Phase::Deciding(local, _))) => at == local,
                // A late copy of a read may have begun it once more.
                (Stage::Final(..), None | Some(Phase::Executing)) => true,
                _ => false,
            };
            assert!(fits, "{id} is {phase:?}, and the cache has it as {stage:?}");
        }
    }

    fn dependencies_lead_both_ways(&self) {
        for (id, transaction) in &self.transactions {
            for other in &transaction.depends_on {
                let is_linked =
                    self.transactions.get(other).is_some_and(|other| other.dependents.contains(id));
                assert!(is_linked, "{id} depends on {other}, which does not know");
            }
            if let Some(earlier) = transaction.after {
                let is_linked =
                    self.transactions.get(&earlier).is_some_and(|earlier| earlier.followers.contains(id));
                assert!(is_linked, "{id} follows {earlier}, which does not know");
            }
            let is_decided = matches!(transaction.phase, Phase::Deciding(..));
            assert!(
                !is_decided || transaction.is_independent() || !self.is_sound(),
                "{id} is decided before what it depends on"
            );
        }
    }

    fn open_transactions_are_counted(&self) {
        let reads = |phase: Phase| phase == Phase::Executing;
        let open = self.transactions.values().filter(|one| reads(one.phase)).count();
        assert_eq!(open, self.open.len(), "open transactions are counted");
        for transaction in self.transactions.values() {
            assert_eq!(
                reads(transaction.phase),
                self.open.contains(&transaction.began),
                "open transactions are counted"
            );
        }
    }

    fn is_sound(&self) -> bool {
        self.config.rules == crate::rules::Rules::SOUND
    }
}
