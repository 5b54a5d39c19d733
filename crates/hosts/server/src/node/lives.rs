//! The lives of nodes, as this node hears of them: which peers it takes anything from, and whether it is still believed itself.
//!
//! Each end of a connection between nodes says its life first, see [`quorate_core::lives`]. Until then, and if the life cannot follow
//! the one that is remembered, nothing that the peer says is taken in. A node that hears of itself what its own life
//! cannot follow gives up all its replicas at once, and its data directory for good: what they say could take back what
//! others rely on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::NodeId;
use quorate_core::lives::{Life, Lives, follow};
use quorate_runtime::{LinkId, Turn};
use quorate_wire::{KnownLife, Packet};

use super::Node;
use super::hosted::State;
use super::loops::Handed;
use crate::data::{DataDirectory, DataError};

/// How the peer at the other end of a connection is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has not said anything.
    Silent,
    /// Its life follows the one that was remembered. Also said of one of a version that knows nothing of lives.
    Believed,
    /// Its life does not.
    Fenced,
}

/// The lives of nodes, as this one knows them.
#[derive(Debug)]
pub(crate) struct Peers {
    me: NodeId,
    data: Arc<DataDirectory>,
    own: Life,
    /// Shared by the event loops of the node, which hear of lives on connections of their own.
    lives: Arc<Mutex<Lives>>,
    links: BTreeMap<LinkId, (NodeId, Standing)>,
    /// Why this node is not believed any more.
    fence: Option<String>,
    /// Messages of fenced peers that were passed over.
    passed_over: u64,
}

impl Peers {
    /// Reads what was noted, and begins the next life, with a tag that was drawn at random.
    pub(crate) fn new(data: Arc<DataDirectory>, me: NodeId, tag: u64) -> Result<Self, DataError> {
        let own = data.begin_life(tag)?;
        let mut lives = data.peers()?;
        let mut fence = None;
        match lives.hear(me, &own) {
            Ok(_) => data.note_peers(&lives)?,
            // Parts of the directory are of different ages.
            Err(found) => fence = Some(found.to_string()),
        }
        tracing::info!(life = own.number, incarnation = %own.incarnation, "a life begins");
        let lives = Arc::new(Mutex::new(lives));
        Ok(Peers { me, data, own, lives, links: BTreeMap::new(), fence, passed_over: 0 })
    }

    /// The same knowledge for another event loop of the node.
    pub(crate) fn of_another_event_loop(&self) -> Self {
        let Peers { me, data, own, lives, fence, .. } = self;
        let (data, lives) = (Arc::clone(data), Arc::clone(lives));
        let (own, fence) = (own.clone(), fence.clone());
        Peers { me: *me, data, own, lives, links: BTreeMap::new(), fence, passed_over: 0 }
    }

    /// The first packet of this node on a connection.
    fn greeting(&self) -> Packet {
        let known = |(node, remembered): (NodeId, &quorate_core::lives::Remembered)| KnownLife {
            node,
            remembered: remembered.clone(),
        };
        Packet::Lives { own: self.own.clone(), known: lock(&self.lives).iter().map(known).collect() }
    }

    /// Says it, on a connection that has just come up.
    pub(super) fn greet(&mut self, link: LinkId, node: NodeId, turn: &mut Turn<'_>) {
        turn.send(link, &self.greeting());
        self.links.insert(link, (node, Standing::Silent));
    }

    pub(super) fn forget_link(&mut self, link: LinkId) {
        self.links.remove(&link);
    }

    /// True if this node has heard the life of another one on a connection that lasts.
    pub(super) fn has_heard(&self, node: NodeId) -> bool {
        self.links.values().any(|(other, standing)| *other == node && *standing != Standing::Silent)
    }

    /// True if what the peer at a connection says is taken in. One whose first word is not its life is of an earlier version.
    pub(super) fn believes(&mut self, link: LinkId) -> bool {
        match self.links.get_mut(&link) {
            None | Some((_, Standing::Believed)) => true,
            Some((node, standing @ Standing::Silent)) => {
                tracing::warn!(%node, "it says nothing of its life: it is of an earlier version, and what it has forgotten is not noticed");
                *standing = Standing::Believed;
                true
            }
            Some((_, Standing::Fenced)) => {
                self.passed_over += 1;
                false
            }
        }
    }

    /// A peer says in which life it is, and what it remembers. Gives why this node is fenced, if that is news.
    fn on_lives(&mut self, link: LinkId, node: NodeId, life: &Life, known: &[KnownLife]) -> Option<String> {
        let mut lives = lock(&self.lives);
        let before = lives.clone();
        let standing = match lives.hear(node, life) {
            Ok(_) => Standing::Believed,
            Err(fence) => {
                tracing::error!(%node, life = life.number, incarnation = %life.incarnation, "fenced: {fence}");
                Standing::Fenced
            }
        };
        self.links.insert(link, (node, standing));
        let mut contradiction = None;
        // A peer that is not believed itself knows nothing of others.
        for KnownLife { node, remembered } in known.iter().filter(|_| standing == Standing::Believed) {
            if *node == self.me {
                contradiction = follow(Some(remembered), &self.own).err();
            } else {
                lives.learn(*node, remembered);
            }
        }
        // Noted before another event loop hears more.
        if *lives != before
            && let Err(error) = self.data.note_peers(&lives)
        {
            tracing::error!(%error, "the lives of peers cannot be noted: what they forget from here on may not be noticed after a restart");
        }
        drop(lives);
        let reason = format!("{node} says of {}: {}", self.me, contradiction?);
        if self.fence.is_some() {
            return None;
        }
        self.fence = Some(reason.clone());
        Some(reason)
    }

    /// Another event loop has heard that this node is not believed any more. False if this is no news.
    fn set_fence(&mut self, reason: &str) -> bool {
        let is_news = self.fence.is_none();
        self.fence.get_or_insert_with(|| reason.to_owned());
        is_news
    }

    /// Why this node is not believed any more.
    pub(super) fn fence(&self) -> Option<&str> {
        self.fence.as_deref()
    }

    /// The connected peers that are fenced.
    pub(super) fn fenced(&self) -> Vec<u16> {
        let fenced = self.links.values().filter(|(_, standing)| *standing == Standing::Fenced);
        let mut nodes: Vec<u16> = fenced.map(|(node, _)| node.0).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Messages of fenced peers that were passed over since this process started.
    pub(super) fn passed_over(&self) -> u64 {
        self.passed_over
    }
}

fn lock(lives: &Mutex<Lives>) -> MutexGuard<'_, Lives> {
    lives.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// True once every other node has said its life.
    pub(crate) fn knows_all_lives(&self) -> bool {
        let me = self.config.node;
        self.topology.borrow().live_nodes().all(|node| node.id == me || self.peers.has_heard(node.id))
    }

    pub(super) fn on_lives(&mut self, link: LinkId, node: NodeId, life: &Life, known: &[KnownLife]) {
        if let Some(reason) = self.peers.on_lives(link, node, life, known) {
            self.give_up(&reason);
        }
    }

    /// This node is not believed any more: its replicas end, and its data directory is not used again.
    pub(super) fn give_up(&mut self, reason: &str) {
        if let Err(error) = self.data.fence(reason) {
            tracing::error!(%error, "that this node is fenced cannot be noted");
        }
        self.here.loops.hand_to_others(|| Handed::Fenced(reason.to_owned()));
        self.end_replicas(reason);
    }

    /// Another event loop has given the node up.
    pub(super) fn give_up_too(&mut self, reason: &str) {
        if self.peers.set_fence(reason) {
            self.end_replicas(reason);
        }
    }

    fn end_replicas(&mut self, reason: &str) {
        let path = self.data.path().to_owned();
        let problem = DataError::Fenced { path, reason: reason.to_owned() }.to_string();
        tracing::error!("{problem}");
        for hosted in self.replicas.values_mut() {
            hosted.state = State::Refused(problem.clone());
        }
        self.service_changed = true;
    }
}
