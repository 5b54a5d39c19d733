//! Nodes that forget, or are made to forget: their data directories, as far as these decide how replicas begin and which nodes are
//! believed. The decisions are those of servers, [`quorate_core::lives`] and [`quorate_core::inventory`]; what is simulated here is
//! what they are made of, and operators who do what they are told.
//!
//! | what is done to a node | what must come of it |
//! |---|---|
//! | its disk is rolled back to a copy from an earlier life | its peers fence it; an operator replaces it |
//! | its disk is emptied, and it is started as a new node | likewise |
//! | the directory of one of its replicas is removed | the replica does not begin; an operator gives it up |
//!
//! A node or replica that has forgotten something counts as lost, at most f of a group at a time. A node that was rolled back is started
//! only while a peer that remembers more can be reached: otherwise nobody notices, which is documented.

use std::time::Duration;

use quorate_core::Random;
use quorate_core::inventory::{Begin, Found, Mark, decide_begin};
use quorate_core::lives::{Incarnation, Life, Lives};
use quorate_core::topology::Durability;

use crate::cluster::Cluster;
use crate::hosts::HostPlant;
use crate::system::System;
use crate::world::disk::{Crash, Image};
use crate::world::lives::LifeNumber;

/// How an operator deals with a node that is down.
const PATIENCE: (u64, u64) = (50, 2_000);

/// The data directory of a node, beside its replicas' logs.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    life: Life,
    /// True if what is on it was forgotten, and nobody has been told yet.
    is_forgetful: bool,
    /// True if it was created as that of a new node since.
    is_new: bool,
}

/// A copy of a node's disk.
#[derive(Debug)]
pub(crate) struct Copy {
    life: Life,
    lives: Lives,
    images: Vec<(usize, Image)>,
}

/// The state of amnesia in a cluster: copies of disks, and the nodes that have forgotten something.
#[derive(Debug, Default)]
pub(crate) struct Amnesia {
    /// Per node that holds replicas.
    directories: Vec<Directory>,
    copies: Vec<Option<Copy>>,
    /// Per server: true if its directory is gone.
    pub(crate) missing: Vec<bool>,
    /// Per server: true once an operator has given up what is missing.
    given_up: Vec<bool>,
    random: Option<Random>,
}

impl Amnesia {
    fn draw(&mut self) -> u64 {
        self.random.as_mut().map_or(0, Random::next_u64)
    }

    /// A server is added.
    pub(crate) fn add_server(&mut self) {
        self.missing.push(false);
        self.given_up.push(false);
    }
}

impl<S: System> Cluster<S> {
    /// Every node begins its first life.
    pub(crate) fn begin_lives(&mut self) {
        self.amnesia.random = Some(Random::stream(self.scenario.seed, "lives"));
        self.world.lives().is_blind = self.scenario.host_plant == Some(HostPlant::LivesIgnored);
        for node in 0..self.scenario.server_nodes {
            let life = Life::first(Incarnation(self.amnesia.draw()), false, self.amnesia.draw());
            self.amnesia.directories.push(Directory {
                life: life.clone(),
                is_forgetful: false,
                is_new: false,
            });
            self.amnesia.copies.push(None);
            self.world.lives().begin(node, life, Lives::default(), false);
        }
        self.meet_all();
    }

    /// Nodes that hear each other connect, and say their lives.
    pub(crate) fn meet_all(&mut self) {
        for one in 0..self.scenario.server_nodes {
            for other in one + 1..self.scenario.server_nodes {
                if self.can_meet(one, other)
                    && self.is_running(one)
                    && let Some(fenced) = self.world.lives().meet(one, other)
                {
                    self.on_fenced(fenced);
                }
            }
        }
    }

    /// A node that is down begins its next life; false if it does not, because it is told that it must not, or waits.
    pub(crate) fn begin_life(&mut self, node: usize) -> bool {
        let Directory { life, is_forgetful, .. } = self.amnesia.directories[node].clone();
        let tag = self.amnesia.draw();
        let Ok(life) = life.next(tag) else { unreachable!("no simulation lasts for so many lives") };
        let reachable: Vec<usize> = (0..self.scenario.server_nodes)
            .filter(|peer| *peer != node && self.can_meet(node, *peer))
            .collect();
        let is_blind = self.scenario.host_plant == Some(HostPlant::LivesIgnored);
        if is_forgetful && !is_blind {
            let peers = 0..self.scenario.server_nodes;
            let lives = self.world.lives();
            let remembers = |peer: usize| peer != node && lives.fence(peer, node, &life).is_some();
            if !peers.clone().any(remembers) {
                // The node met nobody in the lives that are forgotten, or those peers have new disks: no peer can tell it.
                self.on_fenced(node);
                return false;
            }
            if !reachable.iter().any(|peer| remembers(*peer)) {
                return false;
            }
        }
        let remembered = self.world.lives().remembered(node);
        self.amnesia.directories[node].life = life.clone();
        self.world.lives().begin(node, life, remembered, is_forgetful);
        for peer in reachable {
            if self.world.lives().meet(node, peer) == Some(node) {
                self.on_fenced(node);
                return false;
            }
        }
        true
    }

    /// True if two nodes hear each other.
    fn can_meet(&mut self, one: usize, other: usize) -> bool {
        let is_open = self.world.network().is_open(one, other) && self.world.network().is_open(other, one);
        is_open && self.is_running(other)
    }

    /// True if the process of a node runs. Nodes without replicas never stop.
    fn is_running(&self, node: usize) -> bool {
        let servers = self.servers_of(node);
        servers.is_empty() || servers.iter().any(|server| self.world.server(*server).is_some())
    }

    /// A node hears that it is not believed in a life, unless that is over.
    pub(crate) fn hear_fence(&mut self, node: usize, life: LifeNumber) {
        if self.world.lives().now(node) == Some(life) {
            self.on_fenced(node);
        }
    }

    /// A node hears that it is not believed. It gives up its replicas, and an operator replaces its disk.
    pub(crate) fn on_fenced(&mut self, node: usize) {
        assert!(
            self.world.lives().is_forgetful(node),
            "node {node} is fenced, and has forgotten nothing: {:?}",
            self.amnesia.directories[node]
        );
        self.world.note(|| format!("node {node} is fenced"));
        self.crash_node(node, Crash::Process);
        self.replace_disk(node);
        self.restart_after(node);
    }

    /// An empty disk takes the place of that of a node, and says so.
    pub(crate) fn replace_directory(&mut self, node: usize) {
        let life = Life::first(Incarnation(self.amnesia.draw()), true, self.amnesia.draw());
        self.world.lives().begin(node, life.clone(), Lives::default(), false);
        self.amnesia.directories[node] = Directory { life, is_forgetful: false, is_new: false };
        self.amnesia.copies[node] = None;
        for server in self.servers_of(node) {
            self.amnesia.missing[server] = false;
        }
    }

    /// How a server begins, by what its node finds of it.
    pub(crate) fn decide_begin(&self, server: usize) -> Begin {
        let node = self.world.node_of_server(server);
        let is_new = self.amnesia.directories[node].is_new;
        let is_founded = self.has_been_founded(server);
        let forgets = self.scenario.host_plant == Some(HostPlant::MissingBeginsEmpty);
        let is_missing = self.amnesia.missing[server] || is_new;
        let found = Found {
            is_in_inventory: is_founded && !is_new && !forgets,
            mark: if is_founded && !is_missing { Mark::Own { rejoins: false } } else { Mark::None },
            has_log: !self.is_empty_handed(server) || !is_founded,
            keeps_log: self.scenario.durability == Durability::Sync,
        };
        // Without a mark and an inventory a node takes a group for new that it reads of.
        decide_begin(found, true, self.amnesia.given_up[server])
    }

    /// A replica does not begin because its directory is gone. An operator gives it up after a while.
    pub(crate) fn on_missing(&mut self, server: usize) {
        self.world.note(|| format!("server {server} is missing, and does not begin"));
        self.amnesia.given_up[server] = true;
    }

    /// A replica begins by learning everything, or as it had to.
    pub(crate) fn note_begun(&mut self, server: usize) {
        (self.amnesia.missing[server], self.amnesia.given_up[server]) = (false, false);
    }

    /// A node is made to forget something; false if nothing came of it but a restart.
    pub(crate) fn forget(&mut self, node: usize, random: &mut Random) -> bool {
        let servers = self.servers_of(node);
        let is_sound = servers.iter().all(|server| self.has_been_founded(*server) && !self.has_lost(*server));
        if servers.is_empty() || !self.may_lose(node) || !self.is_up(node) || !is_sound {
            return false;
        }
        let keeps_logs = self.scenario.durability == Durability::Sync;
        match random.below(3) {
            0 if keeps_logs => self.roll_back(node),
            1 if keeps_logs => {
                let server = servers[random.index(servers.len())];
                self.crash_node(node, Crash::Power);
                self.remove_replica(server);
                self.restart_after(node);
                true
            }
            _ => {
                self.crash_node(node, Crash::Power);
                self.replace_disk(node);
                let life = Life::first(Incarnation(self.amnesia.draw()), false, self.amnesia.draw());
                self.world.lives().begin(node, life.clone(), Lives::default(), true);
                self.amnesia.directories[node] = Directory { life, is_forgetful: true, is_new: true };
                self.restart_after(node);
                true
            }
        }
    }

    /// A disk is rolled back to the copy that was taken in an earlier life; without one, such a copy is taken.
    fn roll_back(&mut self, node: usize) -> bool {
        self.crash_node(node, Crash::Process);
        let Some(copy) = self.amnesia.copies[node].take() else {
            let images =
                self.servers_of(node).into_iter().map(|server| (server, self.world.disk(server).image()));
            let images = images.collect();
            let life = self.amnesia.directories[node].life.clone();
            self.amnesia.copies[node] =
                Some(Copy { life, lives: self.world.lives().remembered(node), images });
            self.restart_after(node);
            return false;
        };
        self.world.note(|| format!("the disk of node {node} is rolled back to life {}", copy.life.number));
        let there = self.servers_of(node);
        self.replace_disk(node);
        for (server, image) in copy.images {
            if there.contains(&server) {
                self.world.restore_disk(server, image);
            }
        }
        self.world.lives().begin(node, copy.life.clone(), copy.lives, true);
        self.amnesia.directories[node] = Directory { life: copy.life, is_forgetful: true, is_new: false };
        self.restart_after(node);
        true
    }

    fn restart_after(&mut self, node: usize) {
        let (low, high) = PATIENCE;
        let after = Duration::from_millis(low) + self.within(Duration::from_millis(high - low));
        self.restart_in(node, after);
    }

    /// True if a node has forgotten something, and has not been told.
    pub(crate) fn is_to_be_fenced(&self, node: usize) -> bool {
        self.amnesia.directories[node].is_forgetful
    }

    /// True if a server begins with what its disk holds although that is not all that it had: nobody has told it yet.
    pub(crate) fn is_rolled_back(&self, server: usize) -> bool {
        let Directory { is_forgetful, is_new, .. } =
            &self.amnesia.directories[self.world.node_of_server(server)];
        *is_forgetful && !is_new
    }
}
