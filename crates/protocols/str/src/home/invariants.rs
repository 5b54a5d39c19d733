//! The invariants that hold between any two steps of the machine of a node. Golden scripts and the simulator assert them after every step.
//!
//! | id | property | what relies on it |
//! |---|---|---|
//! | STR4 | the cache has what transactions of the node have written, as far as they have come | snapshots include local commits (section 6.5) |
//! | STR5 | dependencies lead both ways, and what is decided depends on nothing | SPSI-4: nothing is final before what it has read |
//! | STR6 | what only has to be known of transactions in some phases is known of just those | the next snapshot, and the bound of commits under way |
//!
//! Everything is looked at after every simulated step, so it is done in two passes: over the cache, and over the transactions.

use quorate_core::{ClientId, TransactionId};

use super::Home;
use super::cache::Stage;
use super::transaction::{Phase, Transaction};

/// The counts of the pass over the transactions.
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
        assert!(counted.open == self.open.len(), "STR6: open transactions are counted");
        assert!(counted.locals == self.locals.len(), "STR6: snapshots include local commits");
        assert!(counted.committing == self.committing.len(None), "STR6: commits under way are counted");
        assert!(counted.clients == self.committing.clients(), "STR6: commits under way are counted");
    }

    /// Facts that have to be known only of transactions in some phases are known of just those.
    fn phase_is_known(&self, id: TransactionId, transaction: &Transaction, counted: &mut Counted) {
        let is_open = transaction.phase == Phase::Executing;
        counted.open += usize::from(is_open);
        assert!(is_open == self.open.contains(&transaction.began), "STR6: open transactions are counted");
        if let Phase::Local(local) | Phase::Deciding(local, _) = transaction.phase {
            counted.locals += 1;
            assert!(
                self.locals.contains(&(local, id)),
                "STR6: snapshots include local commits, and {id} is one"
            );
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
            assert!(commits == self.committing.len(Some(client)), "STR6: commits of {client:?} are counted");
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
            assert!(fits, "STR4: {id} is {phase:?}, and the cache has it as {stage:?}");
        }
    }

    fn dependencies_lead_both_ways(&self, id: TransactionId, transaction: &Transaction) {
        for other in &transaction.depends_on {
            let is_linked = self.transactions.get(other).is_some_and(|other| other.dependents.contains(&id));
            assert!(is_linked, "STR5: {id} depends on {other}, which does not know");
        }
        if let Some(earlier) = transaction.after {
            let is_linked =
                self.transactions.get(&earlier).is_some_and(|earlier| earlier.followers.contains(&id));
            assert!(is_linked, "STR5: {id} follows {earlier}, which does not know");
        }
        let is_decided = matches!(transaction.phase, Phase::Deciding(..));
        assert!(
            !is_decided || transaction.is_independent() || !self.is_sound(),
            "STR5: {id} is decided before what it depends on"
        );
    }

    fn is_sound(&self) -> bool {
        self.config.rules == crate::rules::Rules::SOUND
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use quorate_core::hosted::Shards;
    use quorate_core::{ClockTime, GroupSize, Instant, Key, ReplicaId, ReplicaIndex, ShardId, Write};

    use super::*;
    use crate::config::ReplicaConfig;

    const AT: fn(u64) -> ClockTime = ClockTime::from_micros;
    const ONE: TransactionId = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };
    const TWO: TransactionId = TransactionId { client: ClientId(1), sequence: 2, attempt: 0 };

    fn home() -> Home {
        let replica = ReplicaId { shard: ShardId(2), index: ReplicaIndex(0) };
        let shards = Shards { first: ShardId(1), count: 1 };
        Home::new(ReplicaConfig::new(replica, GroupSize::new(1).unwrap(), shards))
    }

    /// A transaction that reads.
    fn begin(home: &mut Home, id: TransactionId) -> &mut Transaction {
        home.began += 1;
        home.open.insert(home.began);
        let transaction = Transaction::new(id.client, home.began, AT(10), Instant::START);
        home.transactions.entry(id).or_insert_with(|| Box::new(transaction))
    }

    /// The first one has come so far by itself, and by what the cache has of it.
    fn commits(home: &mut Home, stage: Stage, phase: Phase) {
        let writes = [Write { key: Key::from("k"), value: None }];
        home.cache.insert(ONE, AT(10), &writes);
        home.cache.set_stage(ONE, stage, &writes);
        home.transactions.get_mut(&ONE).expect("it reads").phase = phase;
    }

    /// A thing to do to a machine at which two transactions read.
    type Break = fn(&mut Home);

    #[test]
    fn what_a_machine_breaks_is_noticed() {
        let two = || {
            let mut home = home();
            begin(&mut home, ONE);
            begin(&mut home, TWO);
            home
        };
        two().assert_invariants();
        let broken: [(&str, Break); 11] = [
            ("STR4", |home| {
                let write = Write { key: Key::from("k"), value: None };
                home.cache.insert(ONE, AT(10), &[write]);
            }),
            ("STR4", |home| commits(home, Stage::Local(AT(12)), Phase::Local(AT(11)))),
            ("STR4", |home| commits(home, Stage::Deciding(AT(12)), Phase::Deciding(AT(11), AT(13)))),
            ("STR5", |home| {
                commits(home, Stage::Deciding(AT(12)), Phase::Deciding(AT(12), AT(13)));
                home.transactions.get_mut(&ONE).expect("it commits").depends_on.insert(TWO);
                home.transactions.get_mut(&TWO).expect("it reads").dependents.insert(ONE);
            }),
            ("STR5", |home| {
                let one = home.transactions.get_mut(&ONE).expect("it reads");
                one.depends_on.insert(TWO);
            }),
            ("STR5", |home| home.transactions.get_mut(&TWO).expect("it reads").after = Some(ONE)),
            ("STR6", |home| _ = home.open.pop_first()),
            ("STR6", |home| _ = home.open.insert(9)),
            ("STR6", |home| _ = home.locals.insert((AT(11), ONE))),
            ("STR6", |home| home.committing.begin(ONE.client)),
            ("STR6", |home| {
                let one = home.transactions.get_mut(&ONE).expect("it reads");
                one.phase = Phase::Certifying;
                home.open.pop_first();
            }),
        ];
        for (property, breaks) in broken {
            let mut home = two();
            breaks(&mut home);
            let home = crate::Replica::Home(Box::new(home));
            let panic = catch_unwind(AssertUnwindSafe(|| home.assert_invariants())).expect_err(property);
            let told = panic.downcast_ref::<String>().cloned();
            let told = told.or_else(|| panic.downcast_ref::<&str>().map(|told| (*told).to_owned()));
            let told = told.expect("it says why");
            assert!(told.starts_with(property), "{property}: {told}");
        }
    }
}
