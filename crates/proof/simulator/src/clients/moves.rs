//! Sessions that change site: now and then one goes on at another client, with a token of what it has seen, and its order has to hold.
//!
//! The order of a session is judged in the history, where it stays one process. It ends where the session is told that what it has seen cannot be
//! had: what it does then is another process. Some tokens are false: they name what no site ever had, and have to be refused.

use std::collections::BTreeMap;

use quorate_core::command::{Command, Committed, Failure, Invalid};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::{ClientId, Random, TransactionId};

use super::{Clients, Work};
use crate::cluster::{Cluster, KEYSPACE};
use crate::system::System;

/// So many of all tokens are false.
const FALSE_SHARE: f64 = 0.1;

/// A session that is on its way to another client.
#[derive(Clone, Copy, Debug)]
struct Move {
    session: usize,
    /// True if its token names what no site ever had.
    is_false: bool,
}

/// The sessions that are on their way.
#[derive(Debug)]
pub(super) struct Moves {
    random: Random,
    under_way: BTreeMap<TransactionId, Move>,
}

impl Moves {
    pub(super) fn new(seed: u64) -> Self {
        Moves { random: Random::stream(seed, "moves"), under_way: BTreeMap::new() }
    }

    /// True if a session is on its way.
    pub(super) fn are_awaited_by(&self, session: usize) -> bool {
        self.under_way.values().any(|under_way| under_way.session == session)
    }

    /// True if a session catches up in this transaction.
    pub(super) fn is_under_way(&self, transaction: TransactionId) -> bool {
        self.under_way.contains_key(&transaction)
    }

    /// A client is no more, and so are the sessions that came to it.
    pub(super) fn bury(&mut self, client: ClientId) {
        self.under_way.retain(|transaction, _| transaction.client != client);
    }
}

impl Clients {
    /// Now and then a session goes on at another client: with what it has seen by then, if it does.
    pub(super) fn draw_change_of_site<S: System>(
        &mut self,
        session: usize,
        cluster: &Cluster<S>,
    ) -> Option<Vec<u64>> {
        let is_drawn = matches!(self.sessions[session].work, Work::Drawn);
        let may = S::HANDS_ON_TOKENS && is_drawn && self.confined.is_none();
        if !may || !self.moves.random.chance(cluster.scenario.moves) {
            return None;
        }
        let slot = self.sessions[session].slot;
        let to = self.moves.random.index(cluster.scenario.clients);
        let seen = cluster.world.client(self.slots[slot].client)?.seen();
        let seen = seen.part(KEYSPACE).map(|part| part.numbers.clone()).unwrap_or_default();
        if to == slot || !self.slots[to].is_alive {
            return None;
        }
        self.sessions[session].slot = to;
        Some(seen)
    }

    /// A session that has come to a client lets it catch up, and begins its transaction then.
    pub(super) fn catch_up<S: System>(&mut self, session: usize, seen: Vec<u64>, cluster: &mut Cluster<S>) {
        let is_false = self.moves.random.chance(FALSE_SHARE);
        let seen = if is_false { self.falsify(seen, cluster) } else { seen };
        let patience = self.draw_patience(2, cluster);
        let place = &mut self.slots[self.sessions[session].slot];
        place.sequence += S::NUMBERS_APART;
        let transaction = TransactionId { client: place.id, sequence: place.sequence, attempt: 0 };
        let client = place.client;
        self.moves.under_way.insert(transaction, Move { session, is_false });
        cluster.world.command(client, Command::CatchUp { transaction, keyspace: KEYSPACE, seen, patience });
    }

    /// A vector that names what no site ever had: far ahead of one of them, or of a site that there is not.
    fn falsify<S: System>(&mut self, mut seen: Vec<u64>, cluster: &Cluster<S>) -> Vec<u64> {
        const NEVER_REACHED: u64 = 1_000_000;
        let sites = cluster.shards().len();
        let site = self.moves.random.index(sites + 1);
        seen.resize(sites + 1, 0);
        seen[site] = [NEVER_REACHED, u64::MAX][self.moves.random.index(2)];
        seen
    }

    /// True if this was the end of a move.
    pub(super) fn on_caught_up<S: System>(
        &mut self,
        transaction: TransactionId,
        result: &Result<Committed, Failure>,
        cluster: &mut Cluster<S>,
    ) -> bool {
        let Some(Move { session, is_false }) = self.moves.under_way.remove(&transaction) else {
            return false;
        };
        let is_refused = matches!(result, Err(Failure::Invalid(Invalid::NeverCommitted { .. })));
        if is_false && result.is_ok() {
            self.nonsense.push(format!("{transaction} has caught up with what no site ever had"));
        }
        if !is_false && is_refused {
            self.nonsense.push(format!("{transaction} has seen what is denied: {result:?}"));
        }
        let what = match result {
            Ok(_) => "session changed site with its token",
            Err(Failure::HistoryAbandoned { .. }) => "token named abandoned transactions",
            Err(_) if is_refused => "false token was refused",
            Err(_) => "token could not be had in time",
        };
        *self.happened.entry(what).or_default() += 1;
        if result.is_err() {
            self.sessions[session].process = self.next_process();
        }
        self.begin_attempt(session, cluster);
        true
    }
}
