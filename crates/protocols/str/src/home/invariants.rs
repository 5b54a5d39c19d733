//! What holds between any two steps of the machine of a node.
//!
//! Everything is looked at after every simulated step, so it is done in two passes: over the cache, and over the transactions.

use quorate_core::{ClientId, TransactionId};

use super::Home;
use super::cache::Stage;
use super::transaction::{Phase, Transaction};

/// What the pass over the transactions counts.
#[derive(Default)]
struct Counted {
    open: usize,
    locals: usize,
    committing: usize,
    /// Clients that have a commit under way.
    clients: usize,
    /// The client of the last commit under way, and how many of its commits were passed. Those of a client are neighbours.
    last: Option<(ClientId, usize)>,
}

impl Home {
    /// Asserts all of it.
    pub(crate) fn assert_invariants(&self) {
        self.the_cache_follows_transactions();
        let mut counted = Counted::default();
        for (id, transaction) in &self.transactions {
            self.dependencies_lead_both_ways(*id, transaction);
            self.phase_is_known(*id, transaction, &mut counted);
        }
        self.commits_of_the_last_client_are_counted(&counted);
        assert_eq!(counted.open, self.open.len(), "open transactions are counted");
        assert_eq!(counted.locals, self.locals.len(), "snapshots include local commits");
        assert_eq!(counted.committing, self.committing.len(None), "commits under way are counted");
        assert_eq!(counted.clients, self.committing.clients(), "commits under way are counted");
    }

    /// What only has to be known of transactions in some phases is known of just those.
    fn phase_is_known(&self, id: TransactionId, transaction: &Transaction, counted: &mut Counted) {
        let is_open = transaction.phase == Phase::Executing;
        counted.open += usize::from(is_open);
        assert_eq!(is_open, self.open.contains(&transaction.began), "open transactions are counted");
        if let Phase::Local(local) | Phase::Deciding(local, _) = transaction.phase {
            counted.locals += 1;
            assert!(self.locals.contains(&(local, id)), "snapshots include local commits, and {id} is one");
        }
        if matches!(transaction.phase, Phase::Executing | Phase::ReadOnly) {
            return;
        }
        counted.committing += 1;
        match &mut counted.last {
            Some((client, commits)) if *client == id.client => *commits += 1,
            _ => {
                self.commits_of_the_last_client_are_counted(counted);
                counted.clients += 1;
                counted.last = Some((id.client, 1));
            }
        }
    }

    fn commits_of_the_last_client_are_counted(&self, counted: &Counted) {
        if let Some((client, commits)) = counted.last {
            assert_eq!(commits, self.committing.len(Some(client)), "commits of {client:?} are counted");
        }
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

    fn dependencies_lead_both_ways(&self, id: TransactionId, transaction: &Transaction) {
        for other in &transaction.depends_on {
            let is_linked = self.transactions.get(other).is_some_and(|other| other.dependents.contains(&id));
            assert!(is_linked, "{id} depends on {other}, which does not know");
        }
        if let Some(earlier) = transaction.after {
            let is_linked =
                self.transactions.get(&earlier).is_some_and(|earlier| earlier.followers.contains(&id));
            assert!(is_linked, "{id} follows {earlier}, which does not know");
        }
        let is_decided = matches!(transaction.phase, Phase::Deciding(..));
        assert!(
            !is_decided || transaction.is_independent() || !self.is_sound(),
            "{id} is decided before what it depends on"
        );
    }

    fn is_sound(&self) -> bool {
        self.config.rules == crate::rules::Rules::SOUND
    }
}
