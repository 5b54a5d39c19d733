//! Containers: where the objects of a `parallel-snapshot` keyspace are written first.

use quorate_core::command::{ContainerCall, Outcome};
use quorate_core::topology::{container_of, shard_position};
use quorate_core::{Key, ShardId, TransactionId};

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
        let located = self.run(ContainerCall::Locate).await?;
        let directory = self.keyspace.shared().places.directory();
        let names = directory.sites_of(&self.keyspace.definition(), located.as_slice());
        let outdated = || Invalid::KeyspaceOutdated { name: self.keyspace.name().to_owned() };
        names.into_iter().next().ok_or_else(|| outdated().into())
    }

    /// Creates it with this preferred site, or moves it there: the site that has it lets in no more writes, and the other one begins as soon
    /// as it has all that was written. Returns once the site that had it has handed it over, durably.
    ///
    /// # Errors
    /// [`Invalid::NoSuchSite`] or [`Invalid::NotInSite`] if the keyspace is not there; [`Error::Conflict`] if transactions wrote to it all the time until the
    /// deadline; else as [`Keyspace::transact`].
    pub async fn place_at(&self, site: &str) -> Result<()> {
        let directory = self.keyspace.shared().places.directory();
        let there = directory.local_sites(&self.keyspace.definition(), site)?;
        // Containers spread over the local sites of one place.
        let position = shard_position(&self.name, there.len());
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
