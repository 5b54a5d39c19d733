//! A database: a client's connection to a cluster.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::command::Outcome;
use quorate_core::topology::{Keyspace as Definition, Topology};
use quorate_core::{ClientId, NodeId, ReplicaId, ShardId, View};
use quorate_runtime::transport::{Counters, Transport};
use tokio::sync::oneshot;

use crate::catalogue;
use crate::error::{Error, Invalid, Result};
use crate::host::{ClientHost, LossRefused};
use crate::keyspace::Keyspace;
use crate::options::Options;
use crate::places::Places;
use crate::seen::Kept;
use crate::session::Session;
use crate::token::Token;
use crate::transaction::{Transaction, clock_now};
use crate::waiters::Forgotten;

/// The state that all handles of one connection share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) session: Session,
    pub(crate) options: Options,
    pub(crate) places: Places,
    pub(crate) indexes: crate::indexes::known::KnownIndexes,
    pub(crate) probabilities: crate::transaction::speculation::Probabilities,
    /// The parts of observed tokens that are about keyspaces which this client does not use.
    pub(crate) kept: Kept,
    /// The catalogue, as it was known first.
    pub(crate) system: Arc<Definition>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.session.close();
    }
}

/// A connection to a cluster: one link per node, over which all transactions of this client travel. Cheap to clone;
/// closed when the last handle is dropped, but [`Database::close`] also waits until everything is written.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
    system: Keyspace,
    transport: Transport<ClientHost>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Database").field("client", &self.client()).finish_non_exhaustive()
    }
}

impl Database {
    /// A new connection.
    pub(crate) fn new(
        shared: Arc<Shared>,
        transport: Transport<ClientHost>,
        system: Arc<Definition>,
    ) -> Self {
        let database = Database::of(shared, transport, system);
        database.learn(Definition::clone(&database.system.definition()));
        database
    }

    /// A further handle on a connection.
    pub(crate) fn of(shared: Arc<Shared>, transport: Transport<ClientHost>, system: Arc<Definition>) -> Self {
        let system = Keyspace::new(Arc::clone(&shared), system, true);
        Database { shared, system, transport }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn transport(&self) -> &Transport<ClientHost> {
        &self.transport
    }

    /// The catalogue, which may be written here.
    pub(crate) fn system(&self) -> &Keyspace {
        &self.system
    }

    /// The incarnation of this client.
    pub fn client(&self) -> ClientId {
        self.shared.session.client()
    }

    /// The sites and nodes of the cluster, as far as is known by now: those that have joined, or were forgotten, are known soon
    /// afterwards.
    pub fn topology(&self) -> Arc<Topology> {
        Arc::clone(self.shared.places.directory().topology())
    }

    /// A handle on a keyspace. Also `_system`, the built-in catalogue, can be read.
    ///
    /// If no majority of the catalogue answers, what any of its replicas remembers will do: a keyspace is served where it is
    /// whether or not keyspaces can be created. One that has been dropped meanwhile does not answer.
    ///
    /// # Errors
    /// [`Invalid::NoSuchKeyspace`], which names those that exist, [`Invalid::NoRivals`], or whatever a transaction may end with. If a token was observed that has seen something of
    /// this keyspace, as [`Database::observe`]; that part of it does not count then, and to call again succeeds.
    pub async fn keyspace(&self, name: &str) -> Result<Keyspace> {
        if name == self.system.name() {
            return Ok(Keyspace::new(Arc::clone(&self.shared), self.system.definition(), false));
        }
        match self.find_definition(name).await? {
            (Some(definition), _) => {
                catalogue::validate_rival(definition.comparison.as_ref().map(|comparison| comparison.rival))?;
                let keyspace = self.handle(definition);
                self.observe_kept(&keyspace).await?;
                Ok(keyspace)
            }
            (None, _) => {
                Err(self.system.transact(async |txn| catalogue::missing(&txn, name).await).await?.into())
            }
        }
    }

    /// Looks a keyspace up, and tells whether what was found is certain: if no majority of the catalogue answers, what any of its
    /// replicas remembers will do.
    ///
    /// # Errors
    /// Nobody answers.
    pub(crate) async fn find_definition(&self, name: &str) -> Result<(Option<Definition>, bool)> {
        /// How long to wait for certainty before what somebody remembers is asked for.
        const CERTAINTY: Duration = Duration::from_secs(2);
        let find = async |txn: Transaction| catalogue::remembered(&txn, name).await;
        let deadline = self.shared.options.deadline;
        let hasty = self.system.clone().with_deadline(deadline.min(CERTAINTY));
        match hasty.transact(find).await {
            Err(Error::Unavailable { .. } | Error::Conflict) if deadline > CERTAINTY => {
                match catalogue::remembered(&self.system.begin().await?, name).await {
                    Ok(Some(definition)) => Ok((Some(definition), false)),
                    // Nobody near remembers it, or can be asked: who is to know can still come back.
                    Ok(None) | Err(_) => Ok((self.system.transact(find).await?, true)),
                }
            }
            found => Ok((found?, true)),
        }
    }

    /// Every keyspace but the catalogue, by name.
    ///
    /// # Errors
    /// Any error that a transaction may end with.
    pub async fn list(&self) -> Result<Vec<Definition>> {
        self.system.transact(async |txn| catalogue::list(&txn).await).await
    }

    /// The outcome of a transaction, whichever client began it; settles it if need be. An answer never changes.
    ///
    /// # Errors
    /// [`Error::TooOld`] if the cluster may have forgotten, [`Error::Unknown`] if it could not be found out within the
    /// deadline: ask again.
    pub async fn outcome(&self, token: &Token) -> Result<Outcome> {
        let retention = self.shared.options.outcome_retention;
        let age_micros = clock_now().as_micros().saturating_sub(token.began.as_micros());
        if Duration::from_micros(age_micros) > retention {
            return Err(Error::TooOld { token: token.clone(), retention });
        }
        if token.participants.is_empty() {
            // It had neither read nor written anything.
            return Ok(Outcome::Aborted);
        }
        self.learn_participants(token).await?;
        let answer = self.shared.session.resolve(token, self.shared.options.deadline).await;
        let answer = answer.ok_or(Error::Closed)?;
        if let Some(reason) = self.shared.session.denial(token.transaction) {
            self.shared.session.forget(token.transaction, None);
            return Err(Error::Denied { reason, token: Some(token.clone()) });
        }
        let retention = Duration::from_micros(age_micros);
        let outcome = answer.map_err(|Forgotten| Error::TooOld { token: token.clone(), retention })?;
        outcome.ok_or_else(|| Error::Unknown { token: token.clone() })
    }

    /// Lets the coordinator know where the participants of a foreign transaction are.
    async fn learn_participants(&self, token: &Token) -> Result<()> {
        let holds =
            |definition: &Definition| definition.groups().any(|group| token.participants.contains(&group.id));
        if holds(&self.system.definition()) {
            return Ok(());
        }
        match self.list().await?.into_iter().find(holds) {
            Some(definition) => {
                self.learn(definition);
                Ok(())
            }
            None => Err(Invalid::KeyspaceDropped { name: format!("of transaction {token}") }.into()),
        }
    }

    /// The messages and bytes that this client's links have carried.
    pub fn counters(&self) -> Counters {
        self.transport.with(|_, turn| turn.counters())
    }

    /// The status of a node as it tells it, one JSON object.
    ///
    /// # Errors
    /// [`Error::Connect`] if the node is not connected or does not answer in time, [`Error::Denied`] unless the user of this client administers the cluster.
    pub async fn status(&self, node: NodeId) -> Result<Bytes> {
        let answer = self.transport.with(|host, turn| host.ask_status(node, turn));
        let answer = self.answer_of(node, answer).await?;
        answer.map_err(|reason| Error::Denied { reason, token: None })
    }

    /// Waits for the answer of a node; there is nothing to wait for if it is not connected.
    pub(crate) async fn answer_of<T>(&self, node: NodeId, answer: Option<oneshot::Receiver<T>>) -> Result<T> {
        let unreachable = |reason: String| {
            let address = self.topology().nodes.get(usize::from(node.0)).map(|node| node.address.clone());
            Error::Connect { tried: vec![(address.unwrap_or_else(|| node.to_string()), reason)] }
        };
        let Some(answer) = answer else { return Err(unreachable("it is not connected".to_owned())) };
        let timeout = self.shared.options.connect_timeout;
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(unreachable("the connection broke".to_owned())),
            Err(_) => Err(unreachable(format!("no answer within {timeout:?}"))),
        }
    }

    /// For operators, if more replicas of a group have lost their records than it survives: lets a replica that has lost
    /// its own go on as a member that has slept since the group was created. **Transactions known only to replicas that
    /// have lost their records are lost**, acknowledged ones among them, some of them in part.
    ///
    /// `view` must be above every view that a replica of the group can have been in. No more replicas may be given up in
    /// this way than make a majority together with those that have their records: `quorate cluster accept-loss` decides
    /// which. Returns once it is under way; the status of the node tells the rest.
    ///
    /// # Errors
    /// [`Invalid::LossNotAccepted`] if nothing is lost or nothing can come of it, [`Error::Connect`] if the node is not
    /// connected or does not answer in time.
    pub async fn accept_loss(&self, node: NodeId, replica: ReplicaId, view: View) -> Result<()> {
        let answer = self.transport.with(|host, turn| host.accept_loss(node, replica, view, turn));
        match self.answer_of(node, answer).await? {
            None => Ok(()),
            Some(LossRefused { reason, passes }) => {
                Err(Invalid::LossNotAccepted { replica, reason, passes }.into())
            }
        }
    }

    /// For operators, if a shard of a serializable keyspace is lost for good, with all its replicas or what they had made durable:
    /// tells a replica of **another** shard of that keyspace, `replica` on `node`, that `lost` is. A transaction that waits there for a vote of the
    /// lost shard that nobody knows is executed nowhere, and new transactions that touch the lost shard are refused.
    ///
    /// Only the leader of its shard makes that durable, so this is to be repeated until the status of a node says so for each shard:
    /// `quorate cluster declare-lost` does that.
    ///
    /// # Errors
    /// [`Invalid::LossNotDeclared`] if the replica could never know of such a shard, [`Error::Connect`] if the node is not connected
    /// or does not answer in time.
    pub async fn declare_lost(&self, node: NodeId, replica: ReplicaId, lost: ShardId) -> Result<()> {
        let answer = self.transport.with(|host, turn| host.declare_lost(node, replica, lost, turn));
        match self.answer_of(node, answer).await? {
            None => Ok(()),
            Some(LossRefused { reason, .. }) => Err(Invalid::LossNotDeclared { replica, reason }.into()),
        }
    }

    /// Closes the connection once the outcome of everything that was committed has been told to the replicas, or a
    /// second has passed. Open transactions are lost.
    pub async fn close(self) {
        const GRACE: Duration = Duration::from_secs(1);
        const POLL: Duration = Duration::from_millis(2);
        let deadline = tokio::time::Instant::now() + GRACE;
        while !self.transport.with(|host, _| host.is_idle()) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
        }
        self.transport.close("the client closes", GRACE).await;
        self.shared.session.close();
    }

    pub(crate) fn handle(&self, definition: Definition) -> Keyspace {
        Keyspace::new(Arc::clone(&self.shared), self.learn(definition), true)
    }

    /// Learns of a keyspace, or of who its replicas are now.
    pub(crate) fn learn(&self, definition: Definition) -> Arc<Definition> {
        let definition = self.shared.places.learn(definition);
        self.route(&definition);
        definition
    }

    fn route(&self, definition: &Definition) {
        let routes = Arc::new(self.shared.places.directory().routes(definition.clone()));
        self.transport.with(|host, turn| host.learn(routes, turn));
    }
}
