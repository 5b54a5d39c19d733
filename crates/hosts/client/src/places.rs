//! Where nodes and replicas are, kept current while a client is connected.
//!
//! The places that a client knows may be old at any time, which does no harm: replicas say so, and servers tell when something has
//! changed. Then one task asks anew: who the nodes are, dialling those that have joined, and who the replicas of the keyspaces are
//! that this client uses. Transactions that are open go on; new ones wait for the answer.

use std::collections::BTreeMap;
use std::pin::pin;
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

/// So often somebody who waits looks whether it is in vain.
const MOMENT: Duration = Duration::from_millis(20);

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
        // One that was dropped and brought back under another name is the same.
        let is_renamed = known.version() == definition.version() && known.name != definition.name;
        if known.version() < definition.version() || is_renamed {
            *known = Arc::new(definition);
        }
        Arc::clone(known)
    }

    /// Dials nodes that are new or are said to be elsewhere. That may be old news: a node that is connected stays so, and one that is not is looked
    /// for where it was as well. A node that is none any more is hung up on.
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
            let target = Target { address: address.clone(), expect: Some(id), event_loop: 0 };
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
        // A question to the catalogue would wait for this here.
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
            let Some(found) = self.find_while_current(&known.name).await else { return Err(Error::Conflict) };
            match found {
                Ok((Some(found), is_certain)) if found.id == known.id => {
                    self.learn(found);
                    if !is_certain {
                        result = Err(Error::Conflict);
                    }
                }
                // It was dropped. A transaction that uses it finds nobody.
                Ok(_) => self.transport().with(|host, _| host.set_current(known.id)),
                Err(error) => result = Err(error),
            }
        }
        places.renewed.send_replace(());
        result
    }

    /// Looks a keyspace up; none if others hold the catalogue than is known. The node that said who does did not know it, and to ask on is to
    /// wait for the call that renews that, which is this one.
    async fn find_while_current(&self, name: &str) -> Option<Result<(Option<Definition>, bool)>> {
        let mut finding = pin!(self.find_definition(name));
        loop {
            match tokio::time::timeout(MOMENT, finding.as_mut()).await {
                Ok(found) => return Some(found),
                Err(_) if self.transport().with(|host, _| host.is_outdated(SYSTEM_KEYSPACE_ID)) => {
                    return None;
                }
                Err(_) => {}
            }
        }
    }

    /// The nodes, and the replicas that hold the catalogue: as any of them says; or, if others hold it than is known, as one says that knows
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use quorate_configuration::Message;
    use quorate_core::log::Position;
    use quorate_core::topology::{Durability, Isolation, Node, Shard};
    use quorate_core::{Epoch, ShardId};
    use quorate_log::Part;
    use quorate_runtime::clock::Clock;
    use quorate_runtime::transport::{self, Host, LinkId, Remote, Turn, TurnWaker, Violation};
    use quorate_wire::catalogue::{SYSTEM_KEYSPACE, SYSTEM_SHARD};
    use quorate_wire::{Envelope, Packet, Peer, ProtocolMessage};
    use tokio::net::TcpListener;

    use super::*;

    /// The epoch that the configuration service has gone on to.
    const PRESENT: Epoch = Epoch(1);

    /// A node that says who holds the catalogue, as it was in some epoch, and has a replica of the catalogue that is in the present one.
    struct FakeNode(Heard);

    impl Host for FakeNode {
        fn on_link_up(&mut self, _: LinkId, _: &Remote, _: &mut Turn<'_>) {}

        fn on_link_down(&mut self, _: LinkId, _: &Remote, _: &str, _: &mut Turn<'_>) {}

        fn on_packet(
            &mut self,
            link: LinkId,
            packet: Packet,
            turn: &mut Turn<'_>,
        ) -> std::result::Result<(), Violation> {
            match packet {
                Packet::DirectoryRequest => turn.send(link, &Packet::Directory(self.0.clone())),
                Packet::Envelope(Envelope { from, to, .. }) => {
                    let (request, position) = (0, Position::START);
                    let nothing = Message::GetReply {
                        request,
                        revision: Default::default(),
                        position,
                        found: Vec::new(),
                    };
                    let message = ProtocolMessage::Configuration(Part::Own(nothing));
                    turn.send(
                        link,
                        &Packet::Envelope(Envelope { from: to, to: from, epoch: PRESENT, message }),
                    );
                }
                _ => {}
            }
            Ok(())
        }

        fn on_turn_end(&mut self, _: &mut Turn<'_>) {}

        fn next_deadline(&mut self) -> Option<quorate_core::Instant> {
            None
        }
    }

    fn keyspace(id: u32, epoch: Epoch) -> Definition {
        let (name, shard) = match id {
            0 => (SYSTEM_KEYSPACE.to_owned(), SYSTEM_SHARD),
            _ => (format!("accounts{id}"), ShardId(id)),
        };
        Definition {
            epoch,
            ..Definition::new(
                KeyspaceId(id),
                name,
                Isolation::Strict,
                Durability::Sync,
                vec![Shard::new(shard, [0, 1, 2].map(NodeId).to_vec())],
            )
        }
    }

    /// Starts a node for each of these epochs, as of which it knows who holds the catalogue, and connects to them.
    async fn connected(epochs: [Epoch; 3]) -> (Database, [Transport<FakeNode>; 3]) {
        let mut listeners = Vec::new();
        for _ in epochs {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let addresses: Vec<_> = listeners.iter().map(|at| at.local_addr().unwrap().to_string()).collect();
        let node = |(id, address): (u16, &String)| Node {
            id: NodeId(id),
            site: SiteId(0),
            address: address.clone(),
        };
        let nodes = (0..).zip(&addresses).map(node).collect();
        let topology = Topology { sites: vec!["here".to_owned()], nodes };
        let mut at = listeners.into_iter();
        let nodes = [0, 1, 2].map(|id| {
            let heard = Heard { topology: topology.clone(), system: keyspace(0, epochs[usize::from(id)]) };
            let options = transport::Options::new(99, Peer::Node(NodeId(id)), "here");
            let (node, _) = Transport::start(FakeNode(heard), options, Clock::start(), TurnWaker::default());
            node.listen(at.next().unwrap());
            node
        });
        (crate::connect(addresses).await.unwrap(), nodes)
    }

    #[tokio::test]
    async fn who_renews_what_it_knows_asks_on_and_does_not_wait_for_itself() {
        let (db, [first, ..]) = connected([Epoch::FIRST, PRESENT, PRESENT]).await;
        for id in 1..=5 {
            db.learn(keyspace(id, Epoch::FIRST));
        }
        let before = Instant::now();
        first.with(|_, turn| turn.send_to_clients(&Packet::CatalogueChanged));
        while db.system().definition().epoch != PRESENT {
            assert!(before.elapsed() < Duration::from_secs(5), "it waits for itself, or asks nobody else");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
