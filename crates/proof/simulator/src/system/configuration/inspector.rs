//! Properties of the configuration beside those that histories show: looked at again and again while a seed runs.
//!
//! * Replicas at equal positions are alike, and no two know different changes of one revision.
//! * A watch tells every change once, in order.
//! * A copy is what the map was at its revision.
//! * No two clients hold one container at one instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_configuration::{Change, Replica, Revision};
use quorate_core::Instant;
use quorate_core::log::Position;

use super::Cluster;
use super::session::{Claim, Seen, Session};
use crate::invariants::{Broken, Invariant};

/// The observations so far.
#[derive(Debug, Default)]
pub struct Inspector {
    /// Every change that some replica or client has been seen to know.
    changes: BTreeMap<Revision, Arc<Change>>,
    /// Up to which revision the changes of each server have been looked at.
    noted: BTreeMap<usize, Revision>,
    /// How much of what each client has seen has been looked at, and up to which revision it knows everything.
    followed: BTreeMap<usize, (usize, Revision)>,
    /// The containers that clients, living or dead, believed to hold, and when by a time that is the same for all of them.
    claims: BTreeMap<usize, Vec<Claim>>,
    /// Where replicas were compared last.
    compared: Position,
    /// When it was looked last.
    looked: Instant,
    broken: Vec<Broken>,
}

/// So many violations are told of; more would not tell more.
const BROKEN_MAX: usize = 3;

impl Inspector {
    /// Looks at the cluster; gives what is wrong.
    pub(super) fn inspect(&mut self, cluster: &Cluster) -> Vec<Broken> {
        self.follow_replicas(cluster);
        self.compare_replicas(cluster);
        let live = cluster.live_clients().iter();
        let sessions: Vec<(usize, &Session)> =
            live.filter_map(|client| Some((*client, cluster.world.client(*client)?.machine()))).collect();
        for (client, session) in &sessions {
            self.follow_watch(*client, session);
            self.judge_copy(*client, session, cluster);
        }
        // A client that has died holds nothing any more: what it gave up before it died was not seen.
        let is_live = |client: &usize| sessions.iter().any(|(live, _)| live == client);
        for (_, claims) in self.claims.iter_mut().filter(|(client, _)| !is_live(client)) {
            claims.iter_mut().for_each(|claim| claim.until = claim.until.min(self.looked));
        }
        let mut changed = Vec::new();
        for (client, session) in sessions {
            let pace = cluster.world.pace(cluster.world.node_of_client(client));
            let of_all = |claim: &Claim| Claim {
                from: pace.global(claim.from),
                until: pace.global(claim.until),
                ..*claim
            };
            let claims: Vec<Claim> = session.claims.iter().map(of_all).collect();
            if self.claims.get(&client) != Some(&claims) {
                self.claims.insert(client, claims);
                changed.push(client);
            }
        }
        changed.into_iter().for_each(|client| self.judge_claims(client));
        self.looked = cluster.world.now();
        std::mem::take(&mut self.broken)
    }

    fn tell(&mut self, anomaly: &str, explain: String) {
        if self.broken.len() < BROKEN_MAX {
            let (invariant, anomaly) = (Invariant::Agreement, anomaly.to_owned());
            self.broken.push(Broken { invariant, level: "", anomaly, explain });
        }
    }

    /// Somebody knows of a change.
    fn note(&mut self, who: &str, change: &Arc<Change>) {
        let known = self.changes.entry(change.revision).or_insert_with(|| Arc::clone(change)).clone();
        if known != *change {
            self.tell("two-changes", format!("{who} knows {change:?}, and others {known:?}"));
        }
    }

    fn follow_replicas(&mut self, cluster: &Cluster) {
        for (server, machine) in replicas(cluster) {
            let noted = self.noted.get(&server).copied().unwrap_or_default().min(machine.revision());
            for change in machine.changes().filter(|change| change.revision > noted) {
                self.note(&cluster.replica(server).to_string(), change);
            }
            self.noted.insert(server, machine.revision());
        }
    }

    fn compare_replicas(&mut self, cluster: &Cluster) {
        let mut at: BTreeMap<Position, (usize, &Replica)> = BTreeMap::new();
        for (server, machine) in replicas(cluster) {
            let Some((other, first)) = at.get(&machine.position()) else {
                at.insert(machine.position(), (server, machine));
                continue;
            };
            if machine.position() <= self.compared {
                continue;
            }
            let parts = [
                ("revisions", machine.revision() == first.revision()),
                ("keys", machine.keys().eq(first.keys())),
                ("leases", machine.leases().eq(first.leases())),
                ("changes", machine.changes().eq(first.changes())),
                ("outcomes", machine.outcomes() == first.outcomes()),
            ];
            if let Some((part, _)) = parts.into_iter().find(|(_, is_alike)| !is_alike) {
                let (one, other) = (cluster.replica(*other), cluster.replica(server));
                let position = machine.position();
                self.tell("unlike", format!("{one} and {other} differ in their {part} at {position}"));
            }
        }
        self.compared = at.into_keys().next_back().unwrap_or_default().max(self.compared);
    }

    fn follow_watch(&mut self, client: usize, session: &Session) {
        let (done, mut known) = self.followed.get(&client).copied().unwrap_or_default();
        for seen in &session.seen[done..] {
            match seen {
                Seen::Loaded(revision) if *revision < known => {
                    self.tell(
                        "watch-went-back",
                        format!("client {client} was at {known}, and is at {revision}"),
                    );
                }
                Seen::Loaded(revision) => known = *revision,
                Seen::Changed(change) => {
                    self.note(&format!("client {client}"), change);
                    if change.revision <= known {
                        self.tell("watch-repeats", format!("client {client} is told {change:?} at {known}"));
                        continue;
                    }
                    let mut missed = self.changes.range(known.next()..change.revision);
                    if let Some((missed, _)) = missed.find(|(_, change)| !change.keys.is_empty()) {
                        let told = change.revision;
                        self.tell("watch-gap", format!("client {client} was told {told} and not {missed}"));
                    }
                    known = change.revision;
                }
            }
        }
        self.followed.insert(client, (session.seen.len(), known));
    }

    fn judge_copy(&mut self, client: usize, session: &Session, cluster: &Cluster) {
        let Some(copy) = session.copy() else { return };
        let (Some(keys), revision) = (copy.keys(), copy.revision()) else { return };
        let same = replicas(cluster).find(|(_, machine)| machine.revision() == revision);
        if let Some((server, machine)) = same
            && !machine.keys().eq(keys.iter())
        {
            let replica = cluster.replica(server);
            self.tell("copy-differs", format!("client {client} and {replica} differ at {revision}"));
        }
    }

    fn judge_claims(&mut self, client: usize) {
        let overlap = |claim: &Claim, other: &Claim| {
            other.container == claim.container && other.from < claim.until && claim.from < other.until
        };
        let mut told = Vec::new();
        for claim in &self.claims[&client] {
            for (other, theirs) in self.claims.iter().filter(|(other, _)| **other != client) {
                if let Some(theirs) = theirs.iter().find(|theirs| overlap(claim, theirs)) {
                    told.push(format!("client {client} holds {claim:?}, and client {other} {theirs:?}"));
                }
            }
        }
        told.into_iter().for_each(|told| self.tell("two-holders", told));
    }
}

/// The replicas that are up, by server.
fn replicas(cluster: &Cluster) -> impl Iterator<Item = (usize, &Replica)> {
    let servers = 0..cluster.world.servers();
    servers.filter_map(|server| Some((server, cluster.world.server(server)?.machine())))
}
