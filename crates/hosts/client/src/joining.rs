//! A site joins a `parallel-snapshot` keyspace: one that is new to it, or one that comes back after it was removed.
//!
//! One transaction on the catalogue adds a group of replicas there. Everything else the sites do by themselves: the new one gets the data of
//! another, and whatever the lost one let in is handed over to it.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::topology::{Join, Keyspace as Definition, Shard};
use quorate_core::{NodeId, ShardId};
use tokio::time::Instant;

use crate::catalogue;
use crate::database::Database;
use crate::error::{Invalid, Result};
use crate::transaction::Transaction;

/// How long the nodes of the site may take to learn the keyspaces.
const PATIENCE_OF_NODES: Duration = Duration::from_secs(30);

/// How often it is looked whether the site has all data.
const POLL: Duration = Duration::from_millis(200);

/// A site that joins a keyspace, as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteJoin {
    /// The keyspace as it is defined now.
    pub definition: Definition,
    /// The local sites that joined by this call, as far as each has come; all of them ready at the end.
    pub joined: Vec<Join>,
}

impl SiteJoin {
    /// True if each has all data, so that clients use it.
    pub fn is_ready(&self) -> bool {
        self.joined.iter().all(|join| join.is_ready)
    }
}

impl Database {
    /// Lets a site join a `parallel-snapshot` keyspace, and waits until it has all data; no longer than `patience`, and it goes on by itself. Where local
    /// sites were removed there, as many new ones come in their place and get back what these let in; else one is new.
    ///
    /// A call that is repeated waits for a site that joins already.
    ///
    /// # Errors
    /// There is no such keyspace or site, [`Invalid::Unsupported`] if the keyspace's groups do not stand in sites, [`Invalid::InSite`] if it is there
    /// already, [`Invalid::CannotJoin`] if another site joins, [`Invalid::Placement`] if there are too few nodes, [`Invalid::NotUp`] or
    /// [`Invalid::NotReady`] if they cannot hold replicas at the moment.
    pub async fn add_site(
        &self,
        name: &str,
        site: &str,
        patience: Duration,
        mut progress: impl FnMut(&SiteJoin),
    ) -> Result<SiteJoin> {
        let deadline = Instant::now() + patience;
        let mut joined: Vec<ShardId> = Vec::new();
        loop {
            let definition = self.defined(name).await?;
            let next = self.next_to_join(&definition, site, &joined)?;
            self.learn(definition.clone());
            let is_over = |definition: &Definition, joined: &[ShardId]| {
                definition.joins.iter().filter(|join| joined.contains(&join.shard)).all(|join| join.is_ready)
            };
            match next {
                Next::Waits(shard) if !joined.contains(&shard) => joined.push(shard),
                Next::Waits(_) => {}
                Next::Joins if is_over(&definition, &joined) => {
                    self.await_nodes(site, deadline.min(Instant::now() + PATIENCE_OF_NODES)).await?;
                    joined.push(self.begin_to_join(name, site).await?);
                    continue;
                }
                Next::Joins | Next::Nothing => {}
            }
            let is_meant = |join: &&Join| joined.contains(&join.shard);
            let join = SiteJoin {
                joined: definition.joins.iter().filter(is_meant).cloned().collect(),
                definition: definition.clone(),
            };
            if Instant::now() >= deadline || (matches!(next, Next::Nothing) && join.is_ready()) {
                return Ok(join);
            }
            progress(&join);
            tokio::time::sleep(POLL).await;
        }
    }

    /// The names of the keyspaces from which a site was removed, and whose removed local sites there nothing has replaced; or which it joins.
    ///
    /// # Errors
    /// There is no such site.
    pub async fn removed_from(&self, site: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for definition in self.definitions().await? {
            let there = self.shared().places.directory().all_local_sites(&definition, site)?;
            let changes = definition.site_changes();
            let joins = changes.joining().is_some_and(|join| there.contains(&join.shard));
            if joins || changes.replaceable(|shard| there.contains(&shard)).is_some() {
                names.push(definition.name);
            }
        }
        Ok(names)
    }

    /// The next step of a site that is to be in a keyspace.
    fn next_to_join(&self, definition: &Definition, site: &str, joined: &[ShardId]) -> Result<Next> {
        let directory = self.shared().places.directory();
        if !definition.isolation.stands_in_sites() {
            let name = definition.name.clone();
            return Err(Invalid::Unsupported { name, isolation: definition.isolation }.into());
        }
        let changes = definition.site_changes();
        let there = directory.all_local_sites(definition, site)?;
        if let Some(join) = changes.joining().filter(|join| there.contains(&join.shard)) {
            return Ok(Next::Waits(join.shard));
        }
        if changes.replaceable(|shard| there.contains(&shard)).is_some() {
            return Ok(Next::Joins);
        }
        match there.iter().any(|shard| changes.serves(*shard)) {
            false => Ok(Next::Joins),
            true if joined.is_empty() => {
                Err(Invalid::InSite { name: definition.name.clone(), site: site.to_owned() }.into())
            }
            true => Ok(Next::Nothing),
        }
    }

    /// Waits until the nodes of a site that are up know the keyspaces. A node that has lost its disk takes a group for one that it has held if it has
    /// not, and waits for records that nobody has.
    async fn await_nodes(&self, site: &str, deadline: Instant) -> Result<()> {
        let directory = self.shared().places.directory();
        let sites = directory.sites(&[site.to_owned()])?;
        let nodes = directory.topology().nodes.iter().enumerate();
        let there: BTreeSet<NodeId> = nodes
            .filter(|(_, node)| sites.contains(&node.site))
            .map(|(position, _)| NodeId(position as u16))
            .collect();
        loop {
            let survey = self.ask_nodes(there.clone()).await;
            if !survey.replicas.answering().is_empty() && survey.waiting.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let (site, nodes) = (site.to_owned(), Vec::from_iter(survey.waiting));
                let is_up = !nodes.is_empty();
                return Err(
                    if is_up { Invalid::NotReady { site, nodes } } else { Invalid::NotUp { site } }.into()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Adds a group of replicas there to the keyspace.
    async fn begin_to_join(&self, name: &str, site: &str) -> Result<ShardId> {
        let directory = self.shared().places.directory();
        let sites = directory.sites(&[site.to_owned()])?;
        let join = async |txn: Transaction| {
            let Some(definition) = catalogue::remembered(&txn, name).await? else {
                return Ok(Err(catalogue::missing(&txn, name).await?));
            };
            let there = directory.all_local_sites(&definition, site)?;
            let mut changes = definition.site_changes();
            let replaces = changes.replaceable(|shard| there.contains(&shard));
            let id = catalogue::take_shard(&txn).await?;
            if let Err(error) = changes.join(id, replaces) {
                return Ok(Err(Invalid::CannotJoin { name: name.to_owned(), error }));
            }
            let replicas = definition.shards[0].group_size().replicas();
            let placed = directory.topology().place_for(definition.isolation, 1, replicas, id, &sites);
            let group = match placed {
                Ok(mut groups) => groups.remove(0),
                Err(error) => return Ok(Err(Invalid::Placement(error))),
            };
            let nodes: Vec<NodeId> = group.replicas.clone();
            if let Some(node) = catalogue::forgotten_among(&txn, nodes).await? {
                return Ok(Err(Invalid::NoSuchNode { node }));
            }
            let shards: Vec<Shard> = definition.shards.iter().cloned().chain([group]).collect();
            let next = Definition { shards, ..definition.with_site_changes(changes) };
            catalogue::define(&txn, &next)?;
            Ok(Ok(id))
        };
        Ok(self.system().transact(join).await??)
    }
}

/// The next step of a site that is to be in a keyspace.
enum Next {
    /// It joins as this group, and has not all data yet.
    Waits(ShardId),
    /// A group is added.
    Joins,
    /// It is there.
    Nothing,
}
