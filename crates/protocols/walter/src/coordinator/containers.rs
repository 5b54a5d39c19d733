//! Containers are found and placed (section 4.1).
//!
//! ```text
//!   Container ─► READ at the client's site: where is it? ─► located
//!                  └─► COMMIT at the preferred site, which hands it over ─► committed; or conflict: it has gone on since, or is written to
//! ```

use std::time::Duration;

use quorate_core::command::{ContainerCall, Event, Failure, Invalid};
use quorate_core::topology::container_of;
use quorate_core::transaction::{LimitExceeded, validate_key};
use quorate_core::{Context, Key, KeyspaceId, ShardId, TransactionId};

use super::commit::Asking;
use super::{Coordinator, Open, Out, Phase};
use crate::container::Container;
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
        let invalid = match (checked, call) {
            (Err(limit), _) => Some(Invalid::Limit(limit)),
            (Ok(()), ContainerCall::Place(site)) if execution.site(site).is_none() => {
                Some(Invalid::NoSuchSite(site))
            }
            _ => None,
        };
        if let Some(invalid) = invalid {
            return self.fail(id, Failure::Invalid(invalid), outbox);
        }
        match call {
            ContainerCall::Locate => execution.commits_when_read = true,
            ContainerCall::Place(_) | ContainerCall::Destroy => execution.places = Some(call),
        }
        self.want(id, vec![Wanted::Container(name)], context, outbox);
    }

    /// The snapshot of the client's site says where a container is.
    pub(super) fn take_container(
        &mut self,
        id: TransactionId,
        name: Key,
        container: &Container,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        let Some(preferred) = execution.shard(container.preferred) else {
            return outbox.ignored(reasons::MALFORMED);
        };
        let container = match execution.places {
            None | Some(ContainerCall::Locate) => {
                return outbox.emit(Event::Located { transaction: id, name, preferred });
            }
            Some(ContainerCall::Destroy) => None,
            Some(ContainerCall::Place(site)) => execution.site(site).map(|preferred| Container { preferred }),
        };
        let snapshot = Snapshot::New(execution.snapshot.clone().unwrap_or_default());
        let asking =
            Asking::commit(snapshot, vec![Update::Place { name, container }], Period(0), context.now);
        let Some(Open { keyspace, deadline, wants, .. }) = self.transactions.remove(&id) else { return };
        // The site that has it hands it over, wherever the client is.
        let open =
            Open { keyspace, home: preferred, phase: Phase::Asking(Box::new(asking)), deadline, wants };
        self.insert_asking(id, open, context, outbox);
    }
}

impl super::execution::Execution {
    /// The local site that a shard of the keyspace is.
    fn site(&self, shard: ShardId) -> Option<LocalSite> {
        let position = self.keyspace().shards.iter().position(|known| known.id == shard)?;
        u16::try_from(position).ok().map(LocalSite)
    }

    /// The shard that is a local site of the keyspace.
    fn shard(&self, site: LocalSite) -> Option<ShardId> {
        self.keyspace().shards.get(usize::from(site.0)).map(|shard| shard.id)
    }
}
