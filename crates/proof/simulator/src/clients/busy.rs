//! Clients that are told that a node has too much to do. As the client library does, they begin nothing for a while, and conclude nothing
//! about what is under way: of a message that one replica has refused others may have taken their copy.

use std::time::Duration;

use quorate_core::hash::{FixedMap, FixedSet};
use quorate_core::{Instant, TransactionId};

use super::Clients;
use crate::cluster::{Alarm, Cluster};
use crate::hosts::HostPlant;
use crate::system::System;

/// A client that was told so begins nothing for this long, unless its node says something else: as servers have it by default.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// The effect of busy answers on clients.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Until when each client begins nothing, as the world numbers them.
    until: FixedMap<usize, Instant>,
    /// Attempts of which a client has said that they have not happened, although nobody had told it: a mistake.
    given_up: FixedSet<TransactionId>,
}

impl Busy {
    /// True if the client of a transaction has said of it that it has not happened, before its coordinator did.
    pub(super) fn is_given_up(&self, transaction: TransactionId) -> bool {
        self.given_up.contains(&transaction)
    }
}

impl Clients {
    /// A client, as the world numbers it, is told that a node has too much to do.
    pub fn on_busy<S: System>(&mut self, client: usize, cluster: &mut Cluster<S>) {
        self.busy.until.insert(client, cluster.instant_after(RETRY_AFTER));
        *self.happened.entry("client was told that a node is busy").or_default() += 1;
        if cluster.scenario.host_plant == Some(HostPlant::BusyTakenForAbort) {
            self.take_for_abort(client, cluster);
        }
    }

    /// A session waits before it begins what it has to, if its client was told to; true then.
    pub(super) fn waits<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) -> bool {
        let client = self.slots[self.sessions[session].slot].client;
        let Some(until) = self.busy.until.get(&client).copied() else { return false };
        let wait = until.saturating_since(cluster.world.now());
        if wait.is_zero() {
            self.busy.until.remove(&client);
            return false;
        }
        cluster.world.set_alarm(wait, Alarm::Session(session));
        true
    }

    /// The client says that nothing of what it is at has happened.
    fn take_for_abort<S: System>(&mut self, client: usize, cluster: &mut Cluster<S>) {
        for session in 0..self.sessions.len() {
            let is_its = self.slots[self.sessions[session].slot].client == client;
            let Some(attempt) = self.sessions[session].attempt.as_ref().filter(|_| is_its) else { continue };
            if attempt.commit_asked && !attempt.resolving && attempt.one_round.is_none() {
                self.busy.given_up.insert(attempt.id);
                self.end_aborted(session, cluster);
            }
        }
    }
}
