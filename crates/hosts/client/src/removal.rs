//! Removing a site that is lost from a `parallel-snapshot` keyspace, so that the others go on without it.
//!
//! One transaction on the catalogue adds the local sites there to the list of those that were removed. From then on the sites that are left do
//! everything by themselves, whatever becomes of the call that waits for them.

use std::time::Duration;

use quorate_core::ShardId;
use quorate_core::topology::{Keyspace as Definition, Removal, RemovalError, Shard};
use tokio::time::Instant;

use crate::catalogue;
use crate::database::Database;
use crate::error::{Invalid, Result};
use crate::transaction::Transaction;

/// How often it is looked whether the sites that are left have agreed.
const POLL: Duration = Duration::from_millis(200);

/// A removal, as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRemoval {
    /// The keyspace as it is defined now.
    pub definition: Definition,
    /// The local sites that were removed, as far as that has come: each is settled once all others have agreed on its end.
    pub removed: Vec<Removal>,
}

impl SiteRemoval {
    /// True if all ends are settled.
    pub fn is_settled(&self) -> bool {
        self.removed.iter().all(|removal| removal.settled.is_some())
    }
}

impl Database {
    /// The local sites of a keyspace that stand in a site and were not removed from it.
    ///
    /// # Errors
    /// There is no such keyspace or site, or the keyspace's groups do not stand in sites.
    pub async fn local_sites(&self, name: &str, site: &str) -> Result<Vec<Shard>> {
        let definition = self.defined(name).await?;
        let found = self.local_sites_of(&definition, site)?;
        Ok(definition.shards.iter().filter(|shard| found.contains(&shard.id)).cloned().collect())
    }

    /// Removes a site that is lost for good from a `parallel-snapshot` keyspace, and waits until the others have agreed on what is kept of it; no longer
    /// than `patience`, and it goes on by itself.
    ///
    /// Transactions that the site has acknowledged and no other one has received are lost. The site must not come back as it was.
    ///
    /// # Errors
    /// There is no such keyspace or site, [`Invalid::Unsupported`] if the keyspace's groups do not stand in sites, [`Invalid::NotInSite`] if it is not
    /// there any more, [`Invalid::CannotRemove`] if nobody would be left.
    pub async fn remove_site(
        &self,
        name: &str,
        site: &str,
        patience: Duration,
        mut progress: impl FnMut(&SiteRemoval),
    ) -> Result<SiteRemoval> {
        let deadline = Instant::now() + patience;
        let known = self.defined(name).await?;
        let lost = self.local_sites_of(&known, site)?;
        let remove = async |txn: Transaction| {
            let Some(definition) = catalogue::remembered(&txn, name).await? else {
                return Ok(Err(catalogue::missing(&txn, name).await?));
            };
            let shards: Vec<ShardId> = definition.shards.iter().map(|shard| shard.id).collect();
            let mut changes = definition.site_changes();
            for shard in &lost {
                match changes.remove(*shard, &shards) {
                    Ok(()) | Err(RemovalError::RemovedBefore { .. }) => {}
                    Err(error) => {
                        return Ok(Err(Invalid::CannotRemove { name: name.to_owned(), error }));
                    }
                }
            }
            let next = definition.with_site_changes(changes);
            catalogue::define(&txn, &next)?;
            Ok(Ok(next))
        };
        let mut definition = self.system().transact(remove).await??;
        loop {
            self.learn(definition.clone());
            let is_meant = |removal: &&Removal| lost.contains(&removal.shard);
            let removed = definition.removals.iter().filter(is_meant).cloned().collect();
            let removal = SiteRemoval { definition: definition.clone(), removed };
            if removal.is_settled() || Instant::now() >= deadline {
                return Ok(removal);
            }
            progress(&removal);
            tokio::time::sleep(POLL).await;
            definition = self.defined(name).await?;
        }
    }

    /// A keyspace as the catalogue defines it now.
    pub(crate) async fn defined(&self, name: &str) -> Result<Definition> {
        let find = async |txn: Transaction| match catalogue::remembered(&txn, name).await? {
            Some(definition) => Ok(Ok(definition)),
            None => Ok(Err(catalogue::missing(&txn, name).await?)),
        };
        Ok(self.system().transact(find).await??)
    }

    /// The local sites of a keyspace that stand in a site and were not removed.
    fn local_sites_of(&self, definition: &Definition, site: &str) -> Result<Vec<ShardId>> {
        if !definition.isolation.stands_in_sites() {
            let name = definition.name.clone();
            return Err(Invalid::Unsupported { name, isolation: definition.isolation }.into());
        }
        let mut found = self.shared().places.directory().all_local_sites(definition, site)?;
        let changes = definition.site_changes();
        found.retain(|shard| changes.removal(*shard).is_none());
        if found.is_empty() {
            return Err(Invalid::NotInSite { name: definition.name.clone(), site: site.to_owned() }.into());
        }
        Ok(found)
    }
}
