//! Sites that are lost for good, where a system goes on without them: the loss, the operator who takes such a site out and later lets a new one
//! join in its place, and the configuration service that all sites ask.
//!
//! The service stands on one node, and answers every node that it hears: that it is a replicated log with leaders of its own is simulated elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::hosted::{Consultation, HostedReplica};
use quorate_core::topology::{Settlement, Shard, SiteChanges};
use quorate_core::{Instant, Random, ShardId};

use crate::clients::placing;
use crate::cluster::{Alarm, Cluster};
use crate::membership::MembershipStep;
use crate::system::System;
use crate::world::disk::Crash;

/// A site that is cut off first is lost within this time.
const CUT_MAX: Duration = Duration::from_secs(3);

/// An operator takes a site out within this time after it was lost.
const OPERATOR_MAX: Duration = Duration::from_secs(2);

/// With this probability an operator lets a site join in the place of one that was taken out, and within this time.
const JOIN: f64 = 0.6;
const JOIN_MAX: Duration = Duration::from_secs(10);

/// The replicas of a site that was taken out while it ran are gone within this time.
const GONE_MAX: Duration = Duration::from_secs(15);

/// With this probability a question to the configuration service, or its answer, is lost.
const LOSS: f64 = 0.05;

/// A step of what follows the loss of a site.
#[derive(Clone, Debug)]
pub enum SiteStep {
    /// It was cut off, and is lost now.
    Lost {
        /// The site.
        shard: ShardId,
        /// The links that were cut.
        links: Vec<(usize, usize)>,
    },
    /// An operator takes it out.
    Remove(ShardId),
    /// Its replicas are gone.
    Gone(ShardId),
    /// An operator lets a new site join where it stood.
    Join(ShardId),
    /// The configuration service hears a question.
    Asked {
        /// The server that asks.
        server: usize,
        /// When it asked.
        asked: Instant,
        /// Its proposal.
        settlement: Option<Arc<Settlement>>,
    },
    /// A server hears the answer.
    Answered {
        /// The server.
        server: usize,
        /// When it asked.
        asked: Instant,
        /// The answer.
        changes: Arc<SiteChanges>,
    },
}

/// The sites that were lost.
#[derive(Debug, Default)]
pub(crate) struct SiteLosses {
    /// The list of the configuration service.
    changes: Arc<SiteChanges>,
    /// Those that are lost, or are to be taken out.
    lost: Vec<ShardId>,
    /// The nearest site of the client on a node, as that client knows it.
    homes: BTreeMap<usize, ShardId>,
    /// True once all faults have ended, or those in the way of a core of nodes: then every question is heard and answered.
    pub(crate) is_steady: bool,
}

impl SiteLosses {
    /// How the sites have changed.
    pub(crate) fn changes(&self) -> &SiteChanges {
        &self.changes
    }

    /// The nearest site of the client on a node.
    pub(crate) fn home(&self, node: usize) -> Option<ShardId> {
        self.homes.get(&node).copied()
    }

    /// The client on a node knows of another nearest site.
    pub(crate) fn note_home(&mut self, node: usize, shard: ShardId) {
        self.homes.insert(node, shard);
    }

    /// A group of replicas is lost, or will be.
    pub(crate) fn note_lost(&mut self, shard: ShardId) {
        self.lost.push(shard);
    }

    /// How many sites are lost, or were taken out.
    pub(crate) fn count(&self) -> usize {
        self.lost.len()
    }

    /// True if a site is lost, or was taken out; or if a shard is that nobody takes out.
    pub(crate) fn has_lost(&self, shard: ShardId) -> bool {
        self.lost.contains(&shard)
    }
}

impl<S: System> Cluster<S> {
    /// Loses a site; false if no other would be left that could go on.
    pub(crate) fn lose_site(&mut self, random: &mut Random) -> bool {
        let shards = self.shards();
        let shard = shards[random.index(shards.len())];
        let can_go_on = |other: &ShardId| {
            *other != shard && !self.losses.has_lost(*other) && self.losses.changes.serves(*other)
        };
        // Where objects are at few sites, no more are lost than leave a copy of each.
        let limits = placing::limits(&self.scenario).and(S::copies_min(&self.scenario.settings));
        let is_too_many = limits.is_some_and(|copies| self.losses.lost.len() + 1 >= copies);
        if !S::LOSES_SITES || self.losses.has_lost(shard) || is_too_many || !shards.iter().any(can_go_on) {
            return false;
        }
        self.losses.lost.push(shard);
        match random.below(5) {
            0 | 1 => self.on_lost(shard, Vec::new()),
            // Transactions that it acknowledges meanwhile no other site has.
            2 | 3 => {
                let links = self.links_of_site(shard);
                for (from, to) in &links {
                    self.world.network().cut(*from, *to);
                }
                self.world.note(|| format!("{shard} is cut off, and will be lost"));
                self.go_on_later(CUT_MAX, SiteStep::Lost { shard, links });
            }
            _ => {
                self.remove_site(shard);
                self.go_on_later(GONE_MAX, SiteStep::Gone(shard));
            }
        }
        true
    }

    /// The links between the servers of a site and those of others.
    fn links_of_site(&self, shard: ShardId) -> Vec<(usize, usize)> {
        let servers = (0..self.world.servers()).filter(|server| self.replica(*server).shard == shard);
        let nodes: BTreeSet<usize> = servers.map(|server| self.world.node_of_server(server)).collect();
        let is_elsewhere = |from: usize, to: &usize| self.site_of(from) != self.site_of(*to);
        let pairs = nodes.iter().flat_map(|from| {
            let others = (0..self.scenario.server_nodes).filter(move |to| is_elsewhere(*from, to));
            others.flat_map(move |to| [(*from, to), (to, *from)])
        });
        pairs.collect()
    }

    /// A site is lost, and an operator will hear of it.
    fn on_lost(&mut self, shard: ShardId, links: Vec<(usize, usize)>) {
        self.world.note(|| format!("{shard} is lost for good"));
        self.erase_group(shard);
        for (from, to) in links {
            self.world.network().mend(from, to);
        }
        self.go_on_later(OPERATOR_MAX, SiteStep::Remove(shard));
    }

    fn go_on_later(&mut self, most: Duration, step: SiteStep) {
        let after = self.within(most);
        self.world.set_alarm(after, Alarm::Site(step));
    }

    /// Goes on with what follows a loss.
    pub(crate) fn go_on_with_site(&mut self, step: SiteStep) {
        match step {
            SiteStep::Lost { shard, links } => self.on_lost(shard, links),
            SiteStep::Remove(shard) => self.remove_site(shard),
            SiteStep::Gone(shard) => self.erase_group(shard),
            SiteStep::Join(replaced) => self.join_site(replaced),
            SiteStep::Asked { server, asked, settlement } => {
                self.answer(server, asked, settlement.as_deref())
            }
            SiteStep::Answered { server, asked, changes } => {
                if self.world.server(server).is_some()
                    && let Some(command) = S::Server::answer(asked, &changes)
                {
                    self.world.command_server(server, command);
                }
            }
        }
    }

    /// An operator takes a site out.
    fn remove_site(&mut self, shard: ShardId) {
        let shards = self.shards();
        let changes = Arc::make_mut(&mut self.losses.changes);
        if changes.removal(shard).is_some() {
            return;
        }
        if let Err(error) = changes.remove(shard, &shards) {
            unreachable!("a site is left: {error}");
        }
        self.note_site_changes();
        self.world.note(|| format!("{shard} is removed"));
        self.tell_clients();
        if self.random_chance(JOIN) {
            self.go_on_later(JOIN_MAX, SiteStep::Join(shard));
        }
    }

    /// The catalogue has the changes of the sites in the definition of the keyspace, beside who its replicas are.
    pub(crate) fn note_site_changes(&mut self) {
        let (removals, joins) = self.losses.changes.as_ref().clone().into_lists();
        let defined = self.definers.defined_mut();
        (defined.removals, defined.joins) = (removals, joins);
    }

    fn tell_clients(&mut self) {
        for client in self.live_clients().to_vec() {
            self.tell_later(MembershipStep::TellClient(client));
        }
    }

    /// An operator lets a new site join where one stood that was taken out.
    fn join_site(&mut self, replaced: ShardId) {
        let last = self.shards().into_iter().max().unwrap_or_default();
        let shard = ShardId(last.0 + 1);
        let stood = self.keyspace().shards.iter().find(|known| known.id == replaced);
        let Some(nodes) = stood.map(|stood| stood.replicas.clone()) else { return };
        // All that is lost has to be so before the end.
        if self.losses.is_steady {
            return;
        }
        if Arc::make_mut(&mut self.losses.changes).join(shard, Some(replaced)).is_err() {
            // Another one joins.
            return self.go_on_later(JOIN_MAX, SiteStep::Join(replaced));
        }
        self.world.note(|| format!("{shard} joins, where {replaced} stood"));
        self.add_group(Shard::new(shard, nodes));
        self.tell_clients();
    }

    /// The replicas of a group, and what is on their disks, are gone.
    pub(crate) fn erase_group(&mut self, shard: ShardId) {
        for server in 0..self.world.servers() {
            if self.replica(server).shard == shard {
                if self.world.server(server).is_some() {
                    self.world.crash_server(server, Crash::Process);
                }
                self.mark_deleted(server);
            }
        }
    }

    /// All faults have ended: what is lost is taken out by now, and gone.
    pub(crate) fn end_losses(&mut self) {
        self.losses.is_steady = true;
        if !S::LOSES_SITES {
            return;
        }
        for shard in self.losses.lost.clone() {
            self.remove_site(shard);
            self.erase_group(shard);
        }
    }

    /// A replica asks the configuration service.
    pub(crate) fn on_consultation(&mut self, server: usize, consultation: &Consultation) {
        let (asked, settlement) = (consultation.asked, consultation.settlement.clone().map(Arc::new));
        if self.reaches_service(server) {
            let after = self.service_delay();
            let step = SiteStep::Asked { server, asked, settlement };
            self.world.set_alarm(after, Alarm::Site(step));
        }
    }

    fn answer(&mut self, server: usize, asked: Instant, settlement: Option<&Settlement>) {
        if let Some(settlement) = settlement
            && Arc::make_mut(&mut self.losses.changes).settle(settlement)
        {
            self.note_site_changes();
            self.world.note(|| format!("it is settled that {settlement:?}"));
            if settlement.ready.is_some() {
                self.tell_clients();
            }
        }
        if self.reaches_service(server) {
            let changes = Arc::clone(&self.losses.changes);
            let after = self.service_delay();
            self.world.set_alarm(after, Alarm::Site(SiteStep::Answered { server, asked, changes }));
        }
    }

    /// True if a message between a server and the configuration service arrives.
    fn reaches_service(&mut self, server: usize) -> bool {
        let service = self.catalogue_node();
        let node = self.world.node_of_server(server);
        let is_lost = self.random_chance(LOSS);
        let network = self.world.network();
        let is_open = network.is_open(node, service) && network.is_open(service, node);
        self.losses.is_steady || (is_open && !is_lost)
    }

    /// The node of the configuration service.
    pub(crate) fn catalogue_node(&self) -> usize {
        self.scenario.seed as usize % self.scenario.server_nodes
    }

    fn service_delay(&mut self) -> Duration {
        let trip = self.scenario.round_trip();
        trip / 4 + self.within(trip)
    }
}
