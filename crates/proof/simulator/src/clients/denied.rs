//! Clients that are told that they have not the right to what they have said. As the client library does, they give up the transaction that it is about: the decision what
//! ends how is its own ([`Awaited`]).
//!
//! | the transaction | is then |
//! |---|---|
//! | has not been asked to commit | aborted by its client |
//! | has, and writes | of unknown fate: others may have let it in before, and settle it as that of a dead client |
//! | has, and only reads | over: nothing has happened |
//!
//! A client does not try again what it has not the right to. From when on no node knows of the right, an answer to it is a violation.

use quorate_access::Claim;
use quorate_core::TransactionId;
use quorate_core::command::{Command, Event, Failure, Outcome};
use quorate_core::hash::FixedMap;
use quorate_wire::rights::Awaited;

use super::Clients;
use super::attempt::Attempt;
use crate::cluster::Cluster;
use crate::system::System;
use crate::world::rights::Denied;

/// The effect of denials on clients.
#[derive(Debug, Default)]
pub(super) struct Denials {
    /// The transactions that clients have given up, with the client, as the world numbers it: it does not listen to what its coordinator still says of them.
    given_up: FixedMap<TransactionId, usize>,
}

/// The transaction whose client an event of a coordinator is for, if it is for one.
fn transaction_of(event: &Event) -> Option<TransactionId> {
    match event {
        Event::Got { transaction, .. }
        | Event::Marked { transaction, .. }
        | Event::Scanned { transaction, .. }
        | Event::Set { transaction, .. }
        | Event::Located { transaction, .. }
        | Event::Begun { transaction, .. }
        | Event::Shown { transaction, .. }
        | Event::Finished { transaction, .. }
        | Event::Resolved { transaction, .. }
        | Event::Milestone { transaction, .. }
        | Event::Executed { transaction, .. }
        | Event::Forgotten { transaction } => Some(*transaction),
        // It is about all that know the cluster, whatever their clients wait for.
        Event::Outdated { .. } | Event::Disagreement { .. } => None,
    }
}

impl Clients {
    /// A client, as the world numbers it, has given up the transaction of which its coordinator says something.
    pub fn is_done_with(&self, client: usize, event: &Event) -> bool {
        let given_up = |transaction| self.denials.given_up.get(&transaction).copied();
        transaction_of(event).and_then(given_up) == Some(client)
    }

    /// A client is told that it has not the right to something.
    pub fn on_denied<S: System>(&mut self, denied: Denied, cluster: &mut Cluster<S>) {
        *self.happened.entry("client was told that it has not the right").or_default() += 1;
        let Denied { client, replica, transaction } = denied;
        let Some(transaction) = transaction else { return };
        let giving_up = self.awaited(transaction).giving_up(transaction, replica.shard);
        if let Some(message) = giving_up.and_then(S::from_wire) {
            // The coordinator knows to which transaction one belongs that it has named itself. A transaction that fails now fails for want of the right.
            for event in cluster.world.tell_client(client, replica, message) {
                match &event {
                    // The client has given it up before, and a coordinator that gives it up as well knows nothing of its outcome.
                    _ if self.is_done_with(client, &event) => {}
                    Event::Finished { result: Err(_), .. } | Event::Executed { result: Err(_), .. } => {
                        self.on_denial(client, event, cluster);
                    }
                    _ => self.on_event(event, cluster),
                }
            }
        }
        for event in self.awaited(transaction).events(transaction) {
            self.on_denial(client, event, cluster);
        }
    }

    /// The thing that a client waits to hear of a transaction.
    fn awaited(&self, transaction: TransactionId) -> Awaited {
        let is_its = |attempt: &&Attempt| attempt.id == transaction;
        let attempt = self.session_of(transaction).and_then(|session| {
            let session = &self.sessions[session];
            session.attempt.as_ref().filter(is_its).or_else(|| session.shown.iter().find(is_its))
        });
        match attempt {
            Some(attempt) if attempt.one_round.is_some() => Awaited::Result,
            Some(attempt) if attempt.resolving => Awaited::Outcome,
            Some(_) => Awaited::End,
            None if self.beside.is_open(transaction) => Awaited::Result,
            None if self.placing.open.contains(&transaction) => Awaited::End,
            None if self.moves.is_under_way(transaction) => Awaited::End,
            None => Awaited::Milestones,
        }
    }

    /// A transaction ends for its client, because it has not the right.
    fn on_denial<S: System>(&mut self, client: usize, event: Event, cluster: &mut Cluster<S>) {
        let transaction = match event {
            Event::Executed { transaction, ref result } if self.beside.is_open(transaction) => {
                self.denials.given_up.insert(transaction, client);
                self.on_errand_told(transaction, result, cluster);
                return;
            }
            Event::Milestone { transaction, milestone, .. } => {
                return self.milestones.give_up(transaction, milestone);
            }
            event => match transaction_of(&event) {
                Some(transaction) => transaction,
                None => return,
            },
        };
        self.denials.given_up.insert(transaction, client);
        if self.placing.open.remove(&transaction)
            || self.on_caught_up(transaction, &Err(Failure::Aborted), cluster)
        {
            return;
        }
        let Some(session) = self.session_of(transaction) else { return };
        if let Some(at) = self.sessions[session].shown.iter().position(|attempt| attempt.id == transaction) {
            let attempt = self.sessions[session].shown.remove(at);
            self.by_transaction.remove(&transaction);
            return self.leave_to_others(session, attempt, cluster);
        }
        let Some(attempt) = self.take_attempt(session) else { return };
        self.sessions[session].current = None;
        if attempt.commit_asked {
            self.leave_to_others(session, attempt, cluster);
        } else {
            if attempt.read_only.is_none() {
                self.told.push((transaction, Outcome::Aborted));
                cluster.world.command(client, Command::Abort { transaction });
            }
            self.record_aborted(&attempt, cluster);
        }
        self.wake_for_next(session, cluster);
    }

    /// A transaction was asked to commit, and its client will not hear how it ends.
    fn leave_to_others<S: System>(&mut self, session: usize, attempt: Attempt, cluster: &mut Cluster<S>) {
        let participants = attempt.one_round.as_ref().map(|one_round| one_round.participants().collect());
        if claim_of(&attempt) == Claim::Coordinate {
            self.give_up_for_good(session, attempt, participants, (false, true), cluster);
        } else {
            // It is over for its client; a replica may know it to have committed all the same.
            self.record_aborted(&attempt, cluster);
        }
    }

    /// An attempt has come to something: its client must not have been without the right at every node since it began.
    pub(super) fn judge_right<S: System>(&mut self, attempt: &Attempt, what: &str, cluster: &Cluster<S>) {
        let claim = claim_of(attempt);
        if cluster.is_barred(attempt.id, claim) {
            let told = format!(
                "{} {what}, and no node knew of a right of its client to {}",
                attempt.id,
                claim.right()
            );
            self.nonsense.push(told);
        }
    }

    /// A replica has answered what a session reads. The session's own writes it knows without an answer.
    pub(super) fn judge_answer<S: System>(&mut self, session: usize, cluster: &Cluster<S>) {
        let attempt = self.sessions[session].attempt.as_ref().filter(|attempt| !attempt.has_written());
        let Some(id) = attempt.map(|attempt| attempt.id) else { return };
        if cluster.is_barred(id, Claim::Read) {
            self.nonsense
                .push(format!("{id} was answered, and no node knew of a right of its client to read"));
        }
    }
}

/// The claim of an attempt that commits.
fn claim_of(attempt: &Attempt) -> Claim {
    let writes = match &attempt.one_round {
        Some(one_round) => one_round.writes(),
        None => attempt.has_written(),
    };
    if writes { Claim::Coordinate } else { Claim::Read }
}
