//! Creating keyspaces, and waiting until they serve.
//!
//! A keyspace is created by one transaction on the catalogue. The steps that follow cannot fail any more, only take long: nodes create the replicas,
//! and each group begins. So there are errors that say that nothing was created, and one that says that it was.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::topology::Keyspace as Definition;
use quorate_core::{NodeId, ShardId};
use quorate_wire::ProtocolVersion;
use tokio::time::Instant;

use crate::access::has_nodes;
use crate::catalogue::{self, KeyspaceOptions};
use crate::database::Database;
use crate::differences;
use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::transaction::Transaction;
use crate::versions::in_force;

/// How often nodes are asked how far they are.
const POLL: Duration = Duration::from_millis(250);

/// Keyspaces of so few replicas are not asked for room: nodes keep some.
const REPLICAS_UNASKED: usize = 32;

/// How long one look at every shard of a keyspace may take: this, and so much for each shard. Longer than a client waits for a replica
/// before it asks another one.
const TRY: Duration = Duration::from_secs(2);
const TRY_OF_A_SHARD: Duration = Duration::from_millis(5);

/// How long it is waited for a new keyspace by default: this, and so much for each shard.
const PATIENCE: Duration = Duration::from_secs(30);
const PATIENCE_OF_A_SHARD: Duration = Duration::from_millis(100);

/// How far a keyspace is that was just created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingProgress {
    /// How many of its shards serve: a majority of their replicas does.
    pub serving: usize,
    /// How many there are.
    pub shards: usize,
}

/// A keyspace that was to be created unless it was there.
#[derive(Debug)]
pub struct Ensured {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// True if the call has created it.
    pub is_new: bool,
}

impl Database {
    /// Creates a keyspace, and waits until it can be used: for half a minute, and longer the more shards there are.
    ///
    /// # Errors
    /// [`Invalid`] if the name is taken or cannot be a name, or the shards cannot be placed; [`Error::NotServing`] if the keyspace is
    /// created and does not serve yet; or whatever a transaction may end with: then it is not created.
    pub async fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.create_keyspace_with(name, options, None, |_| {}).await
    }

    /// Like [`Database::create_keyspace`], with patience of the caller's choice once the keyspace is created, and told how far it is.
    ///
    /// # Errors
    /// As [`Database::create_keyspace`].
    pub async fn create_keyspace_with(
        &self,
        name: &str,
        options: KeyspaceOptions,
        patience: Option<Duration>,
        progress: impl FnMut(ServingProgress),
    ) -> Result<Keyspace> {
        catalogue::validate_name(name)?;
        self.refuse_without_room(&options).await?;
        self.refuse_without_application(&options).await?;
        self.refuse_expiring_before_version(&options).await?;
        let directory = &self.shared().places.directory();
        let create = async |txn| catalogue::create(&txn, directory, name, &options).await;
        let definition = self.system().transact(create).await??;
        let keyspace = self.handle(definition);
        self.await_serving(&keyspace, patience, progress).await?;
        if options.expiring {
            match keyspace.keep_expiries().await {
                // The first client that may write does it.
                Ok(()) | Err(Error::Denied { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(keyspace)
    }

    /// Creates a keyspace unless there is one of this name with these options, and waits until it can be used. To call it again does no harm. Where options leave the
    /// replicas or the sites to the cluster, any number and any sites will do.
    ///
    /// # Errors
    /// As [`Database::create_keyspace`], and [`Invalid::KeyspaceDiffers`] if there is one with other options, which it names.
    pub async fn create_keyspace_if_absent(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let ensured = self.create_keyspace_if_absent_with(name, options, None, |_| {}).await?;
        Ok(ensured.keyspace)
    }

    /// Like [`Database::create_keyspace_if_absent`], with patience of the caller's choice, told how far the keyspace is, and whether it is new.
    ///
    /// # Errors
    /// As [`Database::create_keyspace_if_absent`].
    pub async fn create_keyspace_if_absent_with(
        &self,
        name: &str,
        options: KeyspaceOptions,
        patience: Option<Duration>,
        mut progress: impl FnMut(ServingProgress),
    ) -> Result<Ensured> {
        catalogue::validate_name(name)?;
        if let (Some(existing), _) = self.find_definition(name).await? {
            let keyspace = self.as_asked_for(&existing, &options, patience, progress).await?;
            return Ok(Ensured { keyspace, is_new: false });
        }
        match self.create_keyspace_with(name, options.clone(), patience, &mut progress).await {
            Ok(keyspace) => Ok(Ensured { keyspace, is_new: true }),
            // Another client was faster, or what was found was what a replica remembered.
            Err(Error::Invalid(Invalid::KeyspaceExists { .. })) => {
                let existing = self.keyspace(name).await?.definition();
                let keyspace = self.as_asked_for(&existing, &options, patience, progress).await?;
                Ok(Ensured { keyspace, is_new: false })
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until a keyspace serves that is there already, if it is as these options say.
    async fn as_asked_for(
        &self,
        existing: &Definition,
        options: &KeyspaceOptions,
        patience: Option<Duration>,
        progress: impl FnMut(ServingProgress),
    ) -> Result<Keyspace> {
        let differences = differences::between(existing, options, &self.shared().places.directory())?;
        if !differences.is_empty() {
            let differences = differences.join("; ");
            return Err(Invalid::KeyspaceDiffers { name: existing.name.clone(), differences }.into());
        }
        self.await_keyspace(&existing.name, patience, progress).await
    }

    /// Waits until a keyspace serves that was created, as long as this patience lasts; by default as [`Database::create_keyspace`] does.
    ///
    /// # Errors
    /// [`Error::NotServing`] if it does not serve yet, [`Invalid::NoSuchKeyspace`] if there is none.
    pub async fn await_keyspace(
        &self,
        name: &str,
        patience: Option<Duration>,
        progress: impl FnMut(ServingProgress),
    ) -> Result<Keyspace> {
        let keyspace = self.keyspace(name).await?;
        self.await_serving(&keyspace, patience, progress).await?;
        Ok(keyspace)
    }

    /// Waits until a keyspace serves that has just been defined.
    pub(crate) async fn await_usable(&self, definition: &Definition) -> Result<()> {
        self.await_serving(&self.handle(definition.clone()), None, |_| {}).await
    }

    async fn await_serving(
        &self,
        keyspace: &Keyspace,
        patience: Option<Duration>,
        mut progress: impl FnMut(ServingProgress),
    ) -> Result<()> {
        let definition = keyspace.definition();
        let count = definition.groups().count();
        let shards = u32::try_from(count).unwrap_or(u32::MAX);
        let patience = patience.unwrap_or(PATIENCE + PATIENCE_OF_A_SHARD * shards);
        let deadline = Instant::now() + patience;
        let look = keyspace.beside_indexes().with_deadline(TRY + TRY_OF_A_SHARD * shards);
        // A user that may create a keyspace may lack the right to read it.
        let mut may_read = true;
        loop {
            // All of it at once says it best, and of few shards it costs nothing to try.
            if count <= REPLICAS_UNASKED && may_read {
                match look.read_something().await {
                    Err(Error::Denied { .. }) => may_read = false,
                    Err(error) if !may_pass(&error) => return Err(error),
                    Err(_) => {}
                    Ok(()) => return Ok(()),
                }
            }
            let survey = self.ask_replicas(&definition).await;
            let serves = |shard: &&quorate_core::topology::Shard| {
                survey.replicas.arrived(shard) >= shard.group_size().majority()
            };
            let serving = definition.groups().filter(serves).count();
            progress(ServingProgress { serving, shards: count });
            if (count > REPLICAS_UNASKED || !may_read) && serving == count {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let name = definition.name.clone();
                return Err(Error::NotServing { name, serving, shards: count, waited: patience });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Refuses an application that a node is not linked with which would be asked to call it. A node that does not answer refuses its replicas itself.
    async fn refuse_without_application(&self, options: &KeyspaceOptions) -> Result<()> {
        let Some(name) = &options.application else { return Ok(()) };
        catalogue::validate_application(options, name)?;
        let directory = self.shared().places.directory();
        let sites = directory.sites(&options.sites)?;
        let nodes = &directory.topology().nodes;
        let asked = nodes.iter().filter(|node| sites.contains(&node.site)).map(|node| node.id).collect();
        let survey = self.ask_nodes(asked).await;
        match survey.applications.into_iter().find(|(_, linked)| !linked.contains(name)) {
            Some((node, linked)) => {
                Err(Invalid::NotLinked { application: name.clone(), node, linked }.into())
            }
            None => Ok(()),
        }
    }

    /// Refuses values that expire as long as a node may run a program whose replicas take writes without envelopes.
    async fn refuse_expiring_before_version(&self, options: &KeyspaceOptions) -> Result<()> {
        if !options.expiring {
            return Ok(());
        }
        let until = Instant::now() + self.shared().options.deadline;
        loop {
            // A new cluster has no version before its nodes have registered, which they do as soon as they have started.
            let look = async |txn: Transaction| Ok((in_force(&txn).await?, has_nodes(&txn).await?));
            match self.system().transact(look).await? {
                (in_force, _) if in_force >= ProtocolVersion::INDEXES => return Ok(()),
                (_, false) if Instant::now() < until => tokio::time::sleep(POLL).await,
                (in_force, _) => return Err(Invalid::ExpiringTooEarly { in_force }.into()),
            }
        }
    }

    /// Refuses many replicas that a node could not open the files of.
    async fn refuse_without_room(&self, options: &KeyspaceOptions) -> Result<()> {
        let directory = self.shared().places.directory();
        let sites = directory.sites(&options.sites)?;
        let replicas = options
            .replicas
            .unwrap_or_else(|| catalogue::default_replicas(&directory, options.isolation, &sites));
        // A keyspace that cannot be placed is refused with its reason when it is created.
        let placed =
            directory.topology().place_for(options.isolation, options.shards, replicas, ShardId(1), &sites);
        let Ok(placed) = placed else { return Ok(()) };
        let mut wanted: BTreeMap<NodeId, u64> = BTreeMap::new();
        for node in placed.iter().flat_map(|shard| &shard.replicas) {
            *wanted.entry(*node).or_default() += 1;
        }
        wanted.retain(|_, wanted| *wanted > REPLICAS_UNASKED as u64);
        if wanted.is_empty() {
            return Ok(());
        }
        let survey = self.ask_nodes(wanted.keys().copied().collect()).await;
        for (node, wanted) in wanted {
            match survey.rooms.get(&node) {
                Some(room) if *room < wanted => {
                    return Err(Invalid::NoRoom { node, wanted, room: *room }.into());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// True if a look at a keyspace has failed for what may pass as its replicas begin to serve.
fn may_pass(error: &Error) -> bool {
    matches!(
        error,
        Error::Unavailable { .. } | Error::Conflict | Error::Unknown { .. } | Error::Overloaded { .. }
    )
}
