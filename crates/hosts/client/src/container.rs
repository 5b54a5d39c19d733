//! Containers: where the objects of a `parallel-snapshot` keyspace are written first.

use std::sync::Arc;

use quorate_core::command::{ContainerCall, Outcome};
use quorate_core::topology::{Keyspace as Definition, container_of};
use quorate_core::{Key, NodeId, ShardId, SiteId, TransactionId};

use crate::directory::site_named;
use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::retry::Retries;
use crate::transaction::Transaction;

/// A container of a `parallel-snapshot` keyspace: all objects whose keys name it by their tag in braces, as `{alice}/profile` does.
///
/// Its *preferred site* lets in what is written to its registers, so a transaction that is begun there commits without waiting for
/// another site. Until a container is placed, its preferred site follows from its name. Sets are changed at every site alike.
#[derive(Clone, Debug)]
pub struct Container {
    keyspace: Keyspace,
    name: Key,
}

impl Container {
    pub(crate) fn new(keyspace: Keyspace, tag: &[u8]) -> Self {
        Container { keyspace, name: Key::copy_from_slice(tag) }
    }

    /// The tag that its objects' keys have in braces.
    pub fn tag(&self) -> &[u8] {
        &self.name
    }

    /// The name of its preferred site, as the nearest site knows it.
    ///
    /// # Errors
    /// [`Invalid::Unsupported`] if the keyspace has no containers; else as [`Keyspace::read_only`].
    pub async fn preferred_site(&self) -> Result<String> {
        let shard = self.run(ContainerCall::Locate).await?;
        let places = self.keyspace.shared().places.directory();
        let site = shard.and_then(|shard| {
            site_of(&self.keyspace.definition(), shard, |node| {
                places.topology().nodes.get(usize::from(node.0)).map(|node| node.site)
            })
        });
        let name = site.and_then(|site| places.topology().sites.get(usize::from(site.0)).cloned());
        name.ok_or_else(|| Invalid::KeyspaceOutdated { name: self.keyspace.name().to_owned() }.into())
    }

    /// Creates it with this preferred site, or moves it there: the site that has it lets in no more writes, and the other one begins as soon
    /// as it has all that was written. Returns once the site that had it has handed it over, durably.
    ///
    /// # Errors
    /// [`Invalid::NoSuchSite`] or [`Invalid::NotInSite`] if the keyspace is not there; [`Error::Conflict`] if transactions wrote to it all the time until the
    /// deadline; else as [`Keyspace::transact`].
    pub async fn place_at(&self, site: &str) -> Result<()> {
        let directory = self.keyspace.shared().places.directory();
        let topology = directory.topology();
        let wanted = site_named(topology, site)?;
        let definition = self.keyspace.definition();
        let node_site = |node: NodeId| topology.nodes.get(usize::from(node.0)).map(|node| node.site);
        let there: Vec<ShardId> = definition
            .shards
            .iter()
            .map(|shard| shard.id)
            .filter(|shard| site_of(&definition, *shard, node_site) == Some(wanted))
            .collect();
        if there.is_empty() {
            let name = self.keyspace.name().to_owned();
            return Err(Invalid::NotInSite { name, site: site.to_owned() }.into());
        }
        // Containers spread over the local sites of one place.
        let position = quorate_core::topology::shard_position(&self.name, there.len());
        self.run(ContainerCall::Place(there[position])).await.map(drop)
    }

    /// Destroys it: its preferred site is that which follows from its name. Its objects stay.
    ///
    /// # Errors
    /// As [`Container::place_at`].
    pub async fn destroy(&self) -> Result<()> {
        self.run(ContainerCall::Destroy).await.map(drop)
    }

    async fn run(&self, call: ContainerCall) -> Result<Option<ShardId>> {
        if container_of(&self.name) != self.name.as_slice() {
            return Err(Invalid::from(quorate_core::transaction::LimitExceeded::ContainerName).into());
        }
        let first = self.keyspace.session().next_transaction();
        let mut retries = Retries::new(self.keyspace.deadline(), first.client.0 ^ first.sequence);
        loop {
            let (attempt, patience) = retries.begin();
            let id = TransactionId { attempt, ..first };
            let txn: Transaction = self.keyspace.open(id, patience).await?;
            match txn.container(&self.name, call).await {
                Ok(located) => return Ok(located),
                Err(Error::Conflict) => {}
                Err(Error::Unknown { token }) => {
                    match self.keyspace.settle(&token, retries.remaining()).await {
                        Some(Outcome::Committed(_)) => return Ok(None),
                        Some(Outcome::Aborted) => {}
                        None => return Err(Error::Unknown { token }),
                    }
                }
                Err(error) => return Err(error),
            }
            if !retries.pause().await {
                return Err(Error::Conflict);
            }
        }
    }
}

/// The site in which a local site stands.
fn site_of(
    definition: &Arc<Definition>,
    shard: ShardId,
    site: impl Fn(NodeId) -> Option<SiteId>,
) -> Option<SiteId> {
    let shard = definition.shards.iter().find(|known| known.id == shard)?;
    shard.replicas.first().and_then(|node| site(*node))
}
