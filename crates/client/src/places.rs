//! Where nodes and replicas are, kept current while a client is connected.
//!
//! What a client knows of a cluster may be old at any time, which does no harm: replicas say so, and servers tell when something has
//! changed. Then one task asks anew: who the nodes are, dialling those that have joined, and who the replicas of the keyspaces are
//! that this client uses. Transactions that are open go on; new ones wait for the answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use quorate_core::topology::{Keyspace as Definition, Topology};
use quorate_core::{KeyspaceId, NodeId, SiteId};
use quorate_runtime::transport::{Dialled, Target, Transport};
use tokio::sync::{Notify, watch};

use quorate_wire::Directory as Heard;
use quorate_wire::catalogue::SYSTEM_KEYSPACE_ID;

use crate::database::{Database, Shared};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::host::{Attempt, ClientHost};
use crate::options::Options;

/// How long to wait before asking again, if nobody could answer.
const PAUSE: Duration = Duration::from_millis(500);

/// A node that is not connected is looked for at so many addresses at most.
const ADDRESSES_MAX: usize = 4;

/// How far a client's knowledge goes.
#[derive(Debug)]
pub(crate) struct Places {
    /// The site of this client, and what the name of it is.
    site: (Option<SiteId>, String),
    directory: Mutex<Arc<Directory>>,
    definitions: Mutex<BTreeMap<KeyspaceId, Arc<Definition>>>,
    /// The standing wishes to be connected to the nodes where they are: dropping them closes the connections.
    dials: Mutex<BTreeMap<(NodeId, String), Dialled>>,
    /// Changes whenever something was learnt.
    renewed: watch::Sender<()>,
    /// Wakes the task that asks anew.
    stale: Arc<Notify>,
}

impl Places {
    pub(crate) fn new(site: (Option<SiteId>, String), topology: Topology, stale: Arc<Notify>) -> Self {
        Places {
            directory: Mutex::new(Arc::new(Directory::new(topology, site.0, |_| None))),
            site,
            definitions: Mutex::default(),
            dials: Mutex::default(),
            renewed: watch::Sender::default(),
            stale,
        }
    }

    /// The sites and nodes.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&lock(&self.directory))
    }

    /// A keyspace as it is known by now, of which this is known.
    pub(crate) fn latest(&self, known: &Arc<Definition>) -> Arc<Definition> {
        Arc::clone(lock(&self.definitions).get(&known.id).unwrap_or(known))
    }

    /// The keyspaces that this client uses.
    pub(crate) fn definitions(&self) -> Vec<Arc<Definition>> {
        lock(&self.definitions).values().cloned().collect()
    }

    /// Learns of a keyspace; of a later epoch than is known, if it is known. Gives back what is known from now on.
    pub(crate) fn learn(&self, definition: Definition) -> Arc<Definition> {
        let mut definitions = lock(&self.definitions);
        let known = definitions.entry(definition.id).or_insert_with(|| Arc::new(definition.clone()));
        if known.epoch < definition.epoch {
            *known = Arc::new(definition);
        }
        Arc::clone(known)
    }

    /// Dials nodes that are new or are said to be elsewhere. That may be old news: who is connected stays so, and who is not is looked
    /// for where it was as well. Who is no node any more is hung up on.
    pub(crate) fn dial(&self, transport: &Transport<ClientHost>, topology: &Topology) {
        let connected = transport.with(|host, _| host.connected());
        let wanted: Vec<_> = topology.live_nodes().map(|node| (node.id, node.address.clone())).collect();
        let mut dials = lock(&self.dials);
        dials.retain(|(known, _), _| wanted.iter().any(|(live, _)| live == known));
        for (id, address) in wanted {
            let known = dials.keys().filter(|(known, _)| *known == id).count();
            if connected.contains(&id) && known > 0 {
                continue;
            }
            if known >= ADDRESSES_MAX {
                dials.retain(|(known, place), _| *known != id || *place == address);
            }
            let target = Target { address: address.clone(), expect: Some(id) };
            dials.entry((id, address)).or_insert_with(|| transport.dial(target));
        }
    }

    /// Takes note of how far nodes are.
    pub(crate) fn measure(&self, topology: Topology, options: &Options, attempts: &[Attempt]) {
        let (site, name) = &self.site;
        let round_trip = |node: NodeId| {
            let place = topology.nodes.get(usize::from(node.0))?;
            let remote = topology.sites.get(usize::from(place.site.0))?;
            match (&options.delays, attempts.get(usize::from(node.0))) {
                (Some(delays), _) => delays.round_trip(name, remote),
                (None, Some(Attempt::Reached(after))) => Some(*after),
                (None, _) => None,
            }
        };
        let directory = Directory::new(topology.clone(), *site, round_trip);
        *lock(&self.directory) = Arc::new(directory);
    }

    /// Says that something may be old, and tells when something was learnt.
    pub(crate) fn expect_news(&self) -> watch::Receiver<()> {
        let news = self.renewed.subscribe();
        self.stale.notify_one();
        news
    }
}

impl Drop for Places {
    /// Lets the task end that asks anew.
    fn drop(&mut self) {
        self.stale.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks anew whenever something may be old, for as long as somebody uses the connection.
pub(crate) async fn keep_current(
    shared: Weak<Shared>,
    transport: Transport<ClientHost>,
    system: Arc<Definition>,
    stale: Arc<Notify>,
) {
    loop {
        stale.notified().await;
        loop {
            let Some(shared) = shared.upgrade() else { return };
            let database = Database::of(shared, transport.clone(), Arc::clone(&system));
            match database.renew().await {
                Ok(()) => break,
                Err(Error::Closed) => return,
                Err(_) => {}
            }
            drop(database);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Database {
    /// Asks who the nodes are, and who the replicas of the keyspaces are that are in use.
    ///
    /// # Errors
    /// No majority of the configuration service says so; what others remember was learnt.
    async fn renew(&self) -> Result<()> {
        let places = &self.shared().places;
        let Some(Heard { topology, system }) = self.ask_directory().await else {
            return Err(Error::Conflict);
        };
        // Whatever is asked of the catalogue would wait for this here.
        self.transport().with(|host, _| host.set_current(SYSTEM_KEYSPACE_ID));
        if system.id == SYSTEM_KEYSPACE_ID && system.epoch > self.system().definition().epoch {
            self.learn(system);
        }
        if topology.nodes.len() >= places.directory().topology().nodes.len() {
            let attempts = self.transport().with(|host, turn| {
                host.set_nodes(&topology, turn.time.now);
                host.attempts()
            });
            places.dial(self.transport(), &topology);
            places.measure(topology, &self.shared().options, &attempts);
        }
        let mut result = Ok(());
        for known in places.definitions().into_iter().filter(|known| known.id != SYSTEM_KEYSPACE_ID) {
            if self.transport().with(|host, _| host.is_outdated(SYSTEM_KEYSPACE_ID)) {
                // Whoever said who holds the catalogue did not know it. To ask the catalogue is to wait for whoever renews that: oneself.
                return Err(Error::Conflict);
            }
            match self.find_definition(&known.name).await {
                Ok((Some(found), is_certain)) if found.id == known.id => {
                    self.learn(found);
                    if !is_certain {
                        result = Err(Error::Conflict);
                    }
                }
                // It was dropped. Whoever uses it finds nobody.
                Ok(_) => self.transport().with(|host, _| host.set_current(known.id)),
                Err(error) => result = Err(error),
            }
        }
        places.renewed.send_replace(());
        result
    }

    /// Who the nodes are, and who holds the catalogue: as any of them says; or, if others hold it than is known, as one says that knows
    /// them, if one does.
    async fn ask_directory(&self) -> Option<Heard> {
        let is_outdated = self.transport().with(|host, _| host.is_outdated(SYSTEM_KEYSPACE_ID));
        let known = self.system().definition().epoch;
        let mut first: Option<Heard> = None;
        for node in self.transport().with(|host, _| host.connected()) {
            let answer = self.transport().with(|host, turn| host.ask_directory(node, turn));
            let Ok(directory) = self.answer_of(node, answer).await else { continue };
            if !is_outdated || directory.system.epoch > known {
                return Some(directory);
            }
            first.get_or_insert(directory);
        }
        first
    }
}
