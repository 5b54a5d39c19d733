//! Replicas and operators: what is told of replicas that do not serve before an operator acts, how a loss is accepted, and
//! what replicas hold.
//!
//! A replica that has lost its records, with more of its group than the group survives, stays silent for ever; so does
//! one whose log cannot be used. Clients are told at once, so that they need not wait for answers that never come.

use std::collections::BTreeMap;

use quorate_core::acceptance::{self, Refusal};
use quorate_core::changes::{self, Position};
use quorate_core::hosted::Status;
use quorate_core::verify::{Answer, Request};
use quorate_core::{ReplicaId, ShardId, View};
use quorate_runtime::{LinkId, Turn};
use quorate_wire::Packet;
use quorate_wire::catalogue::SYSTEM_SHARD;

use super::Node;
use super::building::{Order, Origin};
use super::fate::Standing;
use super::hosted::{Hosted, State};
use super::loops::Handed;

/// Why a node does not have a replica go on without its records.
pub(super) struct NotAccepted {
    reason: String,
    /// True if that passes by itself within moments.
    passes: bool,
}

impl From<String> for NotAccepted {
    fn from(reason: String) -> Self {
        NotAccepted { reason, passes: false }
    }
}

/// The answer to [`Packet::AcceptLoss`].
pub(super) fn answer_acceptance(replica: ReplicaId, accepted: Result<(), NotAccepted>) -> Packet {
    let (refused, passes) = match accepted {
        Ok(()) => (None, false),
        Err(NotAccepted { reason, passes }) => (Some(reason), passes),
    };
    Packet::AcceptLossReply { replica, refused, passes }
}

impl Hosted {
    /// So many replicas of the group have lost their records, this one among them, that it does not recover by itself.
    pub(crate) fn lost(&self) -> Option<usize> {
        let State::Running(running) = &self.state else { return None };
        running.facts().lost.filter(|_| running.health().status == Status::Recovering)
    }

    /// The problem that keeps the replica from serving until an operator acts, and what to do.
    pub(crate) fn problem(&self, directory: &str) -> Option<String> {
        if let State::Refused(reason) = &self.state {
            return Some(reason.clone());
        }
        if let Standing::Dropped(farewell) = &self.standing {
            return Some(farewell.clone());
        }
        let lost = self.lost()?;
        let (name, shard, replicas) = (
            &self.placement.keyspace_name,
            self.placement.replica.shard.0,
            self.placement.group.replicas.len(),
        );
        Some(format!(
            "{lost} of the {replicas} replicas of shard {shard} of {name} have lost their records, and it survives the \
             loss of {}: bring back the disk of one of them (here {directory}), or accept the loss with `quorate \
             cluster accept-loss {name}`, which says what that means",
            (replicas - 1) / 2
        ))
    }
}

impl Node {
    /// Tells clients which replicas have stopped or begun to serve since they were told last.
    pub(super) fn tell_service(&mut self, turn: &mut Turn<'_>) {
        if !std::mem::take(&mut self.service_changed) {
            return;
        }
        let directory = self.data.path().display().to_string();
        let problem = |(id, hosted): (&ReplicaId, &Hosted)| Some((*id, hosted.problem(&directory)?));
        let mut problems: BTreeMap<_, _> = self.replicas.iter().filter_map(problem).collect();
        if !self.is_first() {
            let (event_loop, logs) = (self.event_loop(), self.logs_len());
            self.here.loops.hand(0, Handed::Service { event_loop, problems, logs });
            return;
        }
        problems.extend(self.others_problems.values().flat_map(|(problems, _)| problems.clone()));
        let told = std::mem::replace(&mut self.problems, problems);
        for (replica, problem) in &self.problems {
            if told.get(replica) != Some(problem) {
                turn.send_to_clients(&service(*replica, Some(problem)));
            }
        }
        for replica in told.keys().filter(|replica| !self.problems.contains_key(replica)) {
            turn.send_to_clients(&service(*replica, None));
        }
    }

    /// Tells a client that has just connected which replicas do not serve.
    pub(super) fn tell_problems(&self, link: LinkId, turn: &mut Turn<'_>) {
        for (replica, problem) in &self.problems {
            turn.send(link, &service(*replica, Some(problem)));
        }
    }

    /// Lets a replica that has lost its records go on as a member that has slept since its group was created.
    ///
    /// This brings a group back of which too few know their records: with those that do, the sleepers make a majority,
    /// and the next view change takes over what the others know. The caller sees to it that no more replicas sleep than
    /// that takes, or they could go on without those that know something.
    ///
    /// # Errors
    /// The replica has nothing to accept, or nothing could come of it; says why.
    pub(super) fn accept_loss(&mut self, replica: ReplicaId, view: View) -> Result<(), NotAccepted> {
        if self.draining.is_some() {
            return Err("this node is stopping".to_owned().into());
        }
        let Some(hosted) = self.replicas.get(&replica) else {
            return Err(format!("{replica} is not on this node").into());
        };
        let Some(lost) = hosted.lost() else {
            let nothing = format!(
                "{replica} has not lost its records with too many others: there is nothing to accept"
            );
            return Err(nothing.into());
        };
        let next_life = match &hosted.state {
            State::Running(running) => running.next_life(),
            State::Refused(_) => None,
        };
        let since = hosted.placement.memberships.succession(replica.shard).present.since;
        let life = acceptance::life_asleep(next_life, since, view).map_err(|refusal| {
            let (reason, passes) = match refusal {
                Refusal::Unheard => {
                    ("has not heard from all other replicas of its group since it started", true)
                }
                Refusal::OtherMembers => (
                    "has other members in its group than when this was planned, as far as its node knows",
                    false,
                ),
            };
            NotAccepted { reason: format!("{replica} {reason}: repeat the command"), passes }
        })?;
        if replica.shard == SYSTEM_SHARD && lost == hosted.placement.group.replicas.len() {
            return Err(
                "no replica of the catalogue is left: if it began again empty, it would know no keyspace; \
                        bring back a disk, or create a new cluster"
                    .to_owned()
                    .into(),
            );
        }
        self.note_neighbour(replica);
        let Some(Hosted { placement, state: State::Running(running), .. }) = self.replicas.remove(&replica)
        else {
            unreachable!("only a replica that runs can have lost its records");
        };
        tracing::warn!(%replica, keyspace = placement.keyspace_name, lost, %view, "an operator accepts the loss of records");
        self.service_changed = true;
        if let Err(error) = running.close() {
            // It holds nothing that counts, and is removed.
            tracing::warn!(%replica, %error, "the log of a lost replica could not be closed");
        }
        let order =
            Order { origin: Origin::AcceptedLoss { view, life }, ..self.order(placement, Origin::OldGroup) };
        self.builder.start(vec![order]);
        Ok(())
    }

    /// Tells a replica that another shard of its keyspace is lost for good. The operator looks at the status to see what came of it:
    /// a replica that does not lead passes it over.
    ///
    /// # Errors
    /// The replica is not here, or could never know of such a shard; says why.
    pub(super) fn declare_lost(
        &mut self,
        replica: ReplicaId,
        shard: ShardId,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        let Some(Hosted { placement, state, .. }) = self.replicas.get(&replica) else {
            return Err(format!("{replica} is not on this node"));
        };
        let name = placement.keyspace_name.clone();
        let own = placement.shards;
        let is_known =
            own.is_some_and(|own| shard.0.checked_sub(own.first.0).is_some_and(|at| at < own.count));
        if shard == replica.shard || !is_known {
            return Err(format!("{shard} is no other shard of {name:?}"));
        }
        if let State::Refused(reason) = state {
            return Err(format!("{replica} does not serve: {reason}"));
        }
        let mut is_told = false;
        self.step(replica, turn, |running, time, outgoing| {
            let stepped = running.declare_lost(time, shard, outgoing);
            is_told = stepped.is_some();
            stepped.unwrap_or_default()
        });
        if !is_told {
            return Err(format!(
                "{name:?} is not serializable: nobody waits for votes of a shard that is lost"
            ));
        }
        tracing::warn!(%replica, keyspace = name, %shard, "an operator declares a shard lost for good");
        Ok(())
    }
}

impl Node {
    /// The answer of a replica to an operator that compares what replicas hold.
    pub(super) fn verify(&mut self, replica: ReplicaId, request: &Request, turn: &mut Turn<'_>) -> Answer {
        match self.replicas.get(&replica).map(|hosted| &hosted.state) {
            None => return Answer::unable("it is not on this node, or not yet"),
            Some(State::Refused(reason)) => return Answer::unable(format!("it does not serve: {reason}")),
            Some(State::Running(_)) => {}
        }
        let mut answer = None;
        self.step(replica, turn, |running, time, outgoing| {
            let (stepped, said) = running.verify(time, request, outgoing);
            answer = Some(said);
            stepped
        });
        answer.unwrap_or_else(|| Answer::unable("it does not serve any more"))
    }

    /// The answer of a replica to a consumer of changes.
    pub(super) fn changes(
        &mut self,
        replica: ReplicaId,
        request: &changes::Request<Position>,
        turn: &mut Turn<'_>,
    ) -> changes::Answer<Position> {
        match self.replicas.get(&replica).map(|hosted| &hosted.state) {
            None => return changes::Answer::unable("it is not on this node, or not yet"),
            Some(State::Refused(reason)) => {
                return changes::Answer::unable(format!("it does not serve: {reason}"));
            }
            Some(State::Running(_)) => {}
        }
        let mut answer = None;
        self.step(replica, turn, |running, time, outgoing| {
            let (stepped, said) = running.changes(time, request, outgoing);
            answer = Some(said);
            stepped
        });
        answer.unwrap_or_else(|| changes::Answer::unable("it does not serve any more"))
    }
}

fn service(replica: ReplicaId, problem: Option<&String>) -> Packet {
    Packet::ReplicaService { replica, problem: problem.cloned() }
}
