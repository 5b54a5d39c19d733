//! Commit: a timestamp, votes, the outcome; and for what writes nothing, validation alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::clock_since;
use quorate_core::command::{Committed, Event, Failure, Invalid, Outcome};
use quorate_core::{ClockTime, Context, ReplicaId, ShardId, Timestamp, Transaction, TransactionId};

use super::asking::{Asking, Question};
use super::{Coordinator, Open, Out, Phase, finish};
use crate::decision::{Standings, Verdict};
use crate::message::{Message, Standing};

/// No timestamp is on its way for longer than this.
const WAY_MAX: Duration = Duration::from_secs(1);

impl Coordinator {
    pub(super) fn on_commit(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(Open { phase: Phase::Executing(execution), began, .. }) = self.transactions.get_mut(&id)
        else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        let Some(clock) = clock_since(*began, context.clock) else {
            return self.fail(id, Failure::Conflict, outbox);
        };
        let routes = execution.routes().clone();
        let execution = std::mem::replace(&mut **execution, super::Execution::new(routes, 0, None));
        let (locked, age) = (execution.locked().clone(), execution.age());
        let (writes, greatest) = (execution.writes(), execution.greatest_version());
        let parts = execution.into_parts(self.config.rules);
        let shards: Vec<ShardId> = parts.keys().copied().collect();
        for shard in locked.keys().filter(|shard| !parts.contains_key(shard)) {
            // Reads that are still open there are not wanted any more.
            outbox.send(self.leaders.leader(*shard), Message::Release { transaction: id });
        }
        if parts.is_empty() {
            let committed = Committed::at(greatest);
            self.close(id, Outcome::Committed(committed.timestamp), outbox);
            finish(outbox, id, Ok(committed));
        } else if !writes {
            let promised = self.config.system.has_snapshots();
            let timestamp = match promised {
                true => self.next_timestamp(clock, greatest),
                false => greatest,
            };
            let asking = Asking::new(Question::Validate { timestamp, greatest, promised }, parts, shards);
            self.ask(id, Asking { locked, age, ..asking }, context, outbox);
        } else if let (true, Some((server, _))) =
            (self.config.system.has_timestamp_server(), self.config.service)
        {
            let asking = Asking::new(Question::Timestamp, parts, [server]);
            self.ask(id, asking, context, outbox);
        } else {
            let proposed = self.next_timestamp(clock, greatest);
            let asking = self.preparing(parts, proposed, context.clock);
            self.ask(id, Asking { locked, age, ..asking }, context, outbox);
        }
    }

    /// A timestamp by the clock, above everything that was read and every earlier one of this client.
    pub(super) fn next_timestamp(&mut self, clock: ClockTime, above: Timestamp) -> Timestamp {
        let clock = clock.saturating_add(self.lead);
        self.last_timestamp = self.last_timestamp.max(above).successor(clock, self.config.client);
        self.last_timestamp
    }

    pub(super) fn on_next_timestamp_reply(
        &mut self,
        id: TransactionId,
        timestamp: Timestamp,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(asking) = self.asking(id) else { return };
        if matches!(asking.question, Question::Timestamp) {
            let parts = std::mem::take(&mut asking.parts);
            let asking = self.preparing(parts, timestamp, context.clock);
            self.ask(id, asking, context, outbox);
        }
    }

    /// Asks for votes: the participants; or the coordinating group, if there are several of them and there is one.
    fn preparing(
        &self,
        parts: BTreeMap<ShardId, Arc<Transaction>>,
        proposed: Timestamp,
        clock: ClockTime,
    ) -> Asking {
        let shards: Vec<ShardId> = match self.config.service {
            Some((coordinator, _)) if self.config.system.has_coordinator() && parts.len() > 1 => {
                vec![coordinator]
            }
            _ => parts.keys().copied().collect(),
        };
        let question = Question::Prepare { proposed, clock, standings: Standings::new(&shards) };
        Asking::new(question, parts, shards)
    }

    /// A participant says how it stands to a transaction: its vote, or what it was asked when others were to settle it.
    pub(super) fn on_standing(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        standing: Standing,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(asking) = self.asking(id) else { return };
        let (standings, prepared) = match &mut asking.question {
            Question::Prepare { standings, proposed, clock } => (standings, Some((*proposed, *clock))),
            Question::Resolve { standings, .. } => (standings, None),
            _ => return,
        };
        if !standings.note(from.shard, standing) {
            return;
        }
        let (verdict, holders) = (standings.verdict(), standings.holders().collect::<Vec<_>>());
        asking.missing.remove(&from.shard);
        if let Standing::TooOld { clock: theirs } | Standing::Forgotten { clock: theirs } = standing
            && let Some((proposed, clock)) = prepared
        {
            self.on_too_old(theirs, proposed, clock);
        }
        match verdict {
            None => {}
            Some(Verdict::Forgotten) => self.forgotten(id, outbox),
            Some(Verdict::Outcome(outcome)) => {
                if prepared.is_some() {
                    for shard in holders {
                        outbox.send(self.leaders.leader(shard), Message::Decide { transaction: id, outcome });
                    }
                }
                self.answer(id, outcome, context, outbox);
            }
        }
    }

    /// A prepare has arrived too late for its timestamp: the clock of this client, or the timestamp server's, is behind, or the
    /// way is long. Later ones are proposed at what the replica's clock says when they arrive.
    fn on_too_old(&mut self, theirs: ClockTime, proposed: Timestamp, clock: ClockTime) {
        let behind = |micros: u64| Duration::from_micros(theirs.as_micros().saturating_sub(micros));
        self.lead = self.lead.max(behind(clock.as_micros()));
        let arrives = theirs.saturating_add(behind(proposed.micros).min(WAY_MAX));
        self.last_timestamp = self.last_timestamp.max(Timestamp::new(arrives, self.config.client));
    }

    /// The outcome is known: tells the client, unless it gave up, and all that have asked for it since.
    fn answer(&mut self, id: TransactionId, outcome: Outcome, context: &Context<'_>, outbox: &mut Out) {
        let Some(asking) = self.asking(id) else { return };
        let (age, participants) = (asking.age, asking.participants());
        if let Outcome::Committed(timestamp) = outcome {
            let shard = participants.first().copied();
            return self.report(id, timestamp, timestamp, shard, participants, context, outbox);
        }
        if let Some(age) = age {
            self.ages.keep(id, age);
        }
        let Some(open) = self.close(id, outcome, outbox) else { return };
        if !open.wants.answered {
            finish(outbox, id, Err(Failure::Conflict));
        }
    }

    /// Nobody knows any more what became of a transaction.
    fn forgotten(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(mut open) = self.transactions.remove(&id) else { return };
        if std::mem::take(&mut open.wants.resolve_wanted) {
            outbox.emit(Event::Forgotten { transaction: id });
        }
        super::give_up(&mut open, id, outbox);
    }

    pub(super) fn on_validate_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        is_valid: bool,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(asking) = self.asking(id) else { return };
        let Question::Validate { timestamp, greatest, .. } = asking.question else { return };
        if !asking.missing.remove(&from.shard) {
            return;
        }
        if !is_valid {
            self.fail(id, Failure::Conflict, outbox);
        } else if asking.missing.is_empty() {
            // A version that it has read may not have been reported yet.
            self.report(id, timestamp, greatest, Some(from.shard), Vec::new(), context, outbox);
        }
    }
}
