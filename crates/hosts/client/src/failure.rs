//! The failures of transactions that the coordinator tells, as users are told of them.

use std::sync::Arc;

use quorate_core::command::{Failure, Invalid as Mistake, ReplicasError};
use quorate_core::topology::Keyspace as Definition;
use quorate_core::{ReplicaId, ShardId};

use crate::database::Shared;
use crate::error::{Error, Invalid};
use crate::token::Token;
use crate::waiters::OpenError;

impl Shared {
    /// Why a transaction could not be opened.
    pub(crate) fn not_opened(&self, keyspace: &Arc<Definition>, error: OpenError) -> Error {
        match error {
            OpenError::Busy(retry_after) => Error::Overloaded { retry_after },
            OpenError::TooMany => Invalid::OpenTransactions { max: self.session.open_max() }.into(),
            OpenError::Outdated => Invalid::KeyspaceOutdated { name: keyspace.name.clone() }.into(),
            OpenError::Closed => Error::Closed,
        }
    }

    /// Why a transaction has failed that bears this name.
    pub(crate) fn error(
        &self,
        keyspace: &Arc<Definition>,
        failure: Failure,
        token: impl FnOnce() -> Token,
    ) -> Error {
        match failure {
            Failure::Conflict => Error::Conflict,
            Failure::BelowZero => Error::BelowZero,
            Failure::Aborted => Invalid::TransactionOver.into(),
            Failure::HistoryAbandoned { shard } => self.abandoned(keyspace, shard),
            Failure::Unavailable { missing } => self.unavailable(keyspace, &missing),
            Failure::Unknown { participants } => Error::Unknown { token: Token { participants, ..token() } },
            Failure::TooOld { oldest } => Error::SnapshotTooOld { oldest },
            Failure::Invalid(Mistake::NeverCommitted { position }) => {
                self.never_seen(keyspace, position).into()
            }
            Failure::Invalid(Mistake::Replicas(error)) => self.cannot_be_there(keyspace, error).into(),
            Failure::Invalid(mistake) => invalid(keyspace, mistake).into(),
        }
    }

    /// The objects of a container cannot be at some sites.
    fn cannot_be_there(&self, keyspace: &Arc<Definition>, error: ReplicasError) -> Invalid {
        let shard = match error {
            ReplicasError::NoCopy(shard) | ReplicasError::PreferredWithoutCopy(shard) => Some(shard),
            ReplicasError::TooFew { .. } | ReplicasError::Lost | ReplicasError::Limited => None,
        };
        let named = self.places.directory().sites_of(&self.places.latest(keyspace), shard.as_slice());
        Invalid::Replicas { name: keyspace.name.clone(), site: named.into_iter().next(), error }
    }

    /// The session has seen transactions that were abandoned with this local site.
    fn abandoned(&self, keyspace: &Arc<Definition>, shard: ShardId) -> Error {
        let named = self.places.directory().sites_of(&self.places.latest(keyspace), &[shard]);
        let site = named.into_iter().next().unwrap_or_else(|| format!("the site of {shard}"));
        Error::HistoryAbandoned { site }
    }

    /// The session has seen what this local site never had.
    fn never_seen(&self, keyspace: &Arc<Definition>, position: u16) -> Invalid {
        let latest = self.places.latest(keyspace);
        let shard = latest.shards.get(usize::from(position)).map(|shard| shard.id);
        let named = self.places.directory().sites_of(&latest, shard.as_slice());
        let site = named.into_iter().next().unwrap_or_else(|| format!("a site of number {position}"));
        Invalid::NeverSeen { name: keyspace.name.clone(), site }
    }

    /// A call got no answer in time. The nodes may have said why meanwhile; what they say of shards that it does not concern is no reason.
    pub(crate) fn unanswered(&self, keyspace: &Arc<Definition>, concerns: impl Fn(ShardId) -> bool) -> Error {
        let mut missing = self.session.unserved(keyspace);
        missing.retain(|replica| concerns(replica.shard));
        self.unavailable(keyspace, &missing)
    }

    /// These replicas do not answer.
    pub(crate) fn unavailable(&self, keyspace: &Arc<Definition>, missing: &[ReplicaId]) -> Error {
        let directory = self.places.directory();
        let mut described = directory.describe(&self.places.latest(keyspace), missing);
        let home = directory.nearest_shard(keyspace).filter(|_| keyspace.isolation.stands_in_sites());
        let waits_for = |shard: ShardId| home.is_some_and(|home| home != shard);
        for (replica, problem) in described.iter_mut().zip(self.session.problems(missing)) {
            let site = &replica.site;
            let lost = || {
                format!(
                    "what prefers the site {site:?} waits for it; if it is lost for good, `quorate cluster remove-site {site} --abandon`"
                )
            };
            replica.problem = problem;
            replica.if_lost = waits_for(replica.replica.shard).then(lost);
        }
        Error::Unavailable { missing: described }
    }
}

/// The mistake in a call, as users are told.
pub(crate) fn invalid(keyspace: &Arc<Definition>, mistake: Mistake) -> Invalid {
    let name = || keyspace.name.clone();
    match mistake {
        Mistake::Limit(limit) => Invalid::Limit(limit),
        Mistake::UnknownKeyspace(_) => Invalid::KeyspaceDropped { name: name() },
        Mistake::Unsupported => Invalid::Unsupported { name: name(), isolation: keyspace.isolation },
        Mistake::NoSuchSite(_) => Invalid::KeyspaceOutdated { name: name() },
        Mistake::Replicas(error) => Invalid::Replicas { name: name(), site: None, error },
        Mistake::NoClockBound(_) => Invalid::NoClockBound { name: name() },
        Mistake::ShardLost(shard) => Invalid::ShardLost { name: name(), shard },
        Mistake::NotOpen(_) => Invalid::TransactionOver,
        Mistake::NeverCommitted { position } => {
            Invalid::NeverSeen { name: name(), site: format!("a site of number {position}") }
        }
        Mistake::SeenAhead { ahead_micros } => Invalid::SeenAhead { ahead_micros },
        Mistake::ClockAhead { ahead_micros, ahead_max_micros } => {
            Invalid::ClockAhead { ahead_micros, ahead_max_micros }
        }
    }
}
