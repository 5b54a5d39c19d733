//! Containers are found and placed (section 4.1).
//!
//! ```text
//!   Container ─► READ at the client's site: where is it? ─► located; or invalid: it cannot be where it is to be
//!                  └─► COMMIT at the preferred site, which hands it over ─► committed; or conflict: it has gone on since, or is written to
//! ```

use std::time::Duration;

use quorate_core::command::{ContainerCall, Event, Failure, Invalid, ReplicasError};
use quorate_core::topology::container_of;
use quorate_core::transaction::{LimitExceeded, validate_key};
use quorate_core::{Context, Key, KeyspaceId, ShardId, TransactionId};

use super::commit::Asking;
use super::directing::Directed;
use super::{Coordinator, Open, Out, Phase};
use crate::container::{Container, Replicas};
use crate::histories::Update;
use crate::message::{Period, Snapshot, Wanted};
use crate::reasons;
use crate::vector::LocalSite;

impl Coordinator {
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn on_container(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        name: Key,
        call: ContainerCall,
        patience: Duration,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if !self.begin(id, keyspace, patience, context, outbox) {
            return;
        }
        // Another part of a key would name no container.
        let checked = match container_of(&name) == name.as_slice() {
            true => validate_key(&name),
            false => Err(LimitExceeded::ContainerName),
        };
        let Some(execution) = self.execution(id) else { return };
        let unknown = named(&call).find(|site| !execution.serves(*site));
        let invalid = checked.err().map(Invalid::Limit).or(unknown.map(Invalid::NoSuchSite));
        if let Some(invalid) = invalid {
            return self.fail(id, Failure::Invalid(invalid), outbox);
        }
        match call {
            ContainerCall::Locate => execution.commits_when_read = true,
            ContainerCall::Place { .. } | ContainerCall::Destroy => execution.places = Some(call),
        }
        self.want(id, vec![Wanted::Container(name)], context, outbox);
    }

    /// The snapshot of the client's site says where a container is.
    pub(super) fn take_container(
        &mut self,
        id: TransactionId,
        name: Key,
        container: &Container,
        copies_min: usize,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        let Some(preferred) = execution.shard(container.preferred) else {
            return outbox.ignored(reasons::MALFORMED);
        };
        let next = match execution.places.take() {
            None | Some(ContainerCall::Locate) => {
                let replicas = execution.sites_of(&container.replicas);
                return outbox.emit(Event::Located { transaction: id, name, preferred, replicas });
            }
            Some(_) if execution.sites_of(&container.replicas).is_empty() => Err(ReplicasError::Lost),
            Some(ContainerCall::Destroy) => match container.replicas.is_all() {
                true => Ok(None),
                false => Err(ReplicasError::Limited),
            },
            Some(ContainerCall::Place { preferred, replicas }) => {
                execution.place(&container.replicas, copies_min, preferred, replicas)
            }
        };
        let container = match next {
            Ok(container) => container,
            Err(error) => return self.fail(id, Failure::Invalid(Invalid::Replicas(error)), outbox),
        };
        let snapshot = Snapshot::New(execution.snapshot.clone().unwrap_or_default());
        let asking =
            Asking::commit(snapshot, vec![Update::Place { name, container }], Period(0), context.now);
        let Some(Open { keyspace, deadline, wants, .. }) = self.transactions.remove(&id) else { return };
        // The site that has it hands it over, wherever the client is.
        let (phase, directed) = (Phase::Asking(Box::new(asking)), Directed::default());
        let open = Open { keyspace, home: preferred, phase, deadline, wants, directed };
        self.insert_asking(id, open, context, outbox);
    }
}

/// The sites that a call names.
fn named(call: &ContainerCall) -> impl Iterator<Item = ShardId> {
    let (preferred, replicas) = match call {
        ContainerCall::Place { preferred, replicas } => (Some(*preferred), replicas.clone()),
        ContainerCall::Locate | ContainerCall::Destroy => (None, None),
    };
    preferred.into_iter().chain(replicas.into_iter().flatten())
}

impl super::execution::Execution {
    /// Where a container is to be, of which these sites have the objects now.
    fn place(
        &self,
        present: &Replicas,
        copies_min: usize,
        preferred: ShardId,
        replicas: Option<Vec<ShardId>>,
    ) -> Result<Option<Container>, ReplicasError> {
        let left = self.sites_of(&Replicas::ALL);
        let next = match &replicas {
            None => present.clone(),
            Some(named) if named.is_empty() => return Err(ReplicasError::PreferredWithoutCopy(preferred)),
            Some(named) if left.iter().all(|site| named.contains(site)) && present.is_all() => Replicas::ALL,
            Some(named) => Replicas::of(named.iter().filter_map(|site| self.site(*site))),
        };
        let has =
            |replicas: &Replicas, shard: ShardId| self.site(shard).is_some_and(|site| replicas.has(site));
        if let Some(shard) =
            [preferred].iter().chain(replicas.iter().flatten()).find(|shard| !has(present, **shard))
        {
            return Err(ReplicasError::NoCopy(*shard));
        }
        if !has(&next, preferred) {
            return Err(ReplicasError::PreferredWithoutCopy(preferred));
        }
        // Fewer may be left where sites were taken out.
        let (given, least) = (self.sites_of(&next).len(), copies_min.min(self.sites_of(present).len()));
        if given < least {
            return Err(ReplicasError::TooFew { given, least });
        }
        Ok(self.site(preferred).map(|preferred| Container { preferred, replicas: next, stays: true }))
    }

    /// The sites among these that were not taken out, ascending.
    fn sites_of(&self, replicas: &Replicas) -> Vec<ShardId> {
        let keyspace = self.keyspace();
        let left: Vec<ShardId> = keyspace.shards_that_serve().map(|shard| shard.id).collect();
        left.into_iter().filter(|shard| self.site(*shard).is_some_and(|site| replicas.has(site))).collect()
    }

    /// True if a shard is a local site of the keyspace that clients may use.
    fn serves(&self, shard: ShardId) -> bool {
        self.keyspace().shards_that_serve().any(|known| known.id == shard)
    }

    /// The local site that a shard of the keyspace is.
    pub(super) fn site(&self, shard: ShardId) -> Option<LocalSite> {
        let position = self.keyspace().shards.iter().position(|known| known.id == shard)?;
        u16::try_from(position).ok().map(LocalSite)
    }

    /// The shard that is a local site of the keyspace.
    fn shard(&self, site: LocalSite) -> Option<ShardId> {
        self.keyspace().shards.get(usize::from(site.0)).map(|shard| shard.id)
    }
}
