//! The local site is asked to commit, or what became of a transaction.

use quorate_coordinator::{Wants, finish};
use quorate_core::command::{AtSite, Committed, Event, Failure, Invalid, Outcome, SiteVersion};
use quorate_core::{ClientId, Context, Instant, ReplicaId, ShardId, Timestamp, TransactionId};

use super::directing::Directed;
use super::execution::newest;
use super::{Coordinator, Open, Out, Phase};
use crate::histories::Update;
use crate::message::{Ending, Message, Period, Snapshot};
use crate::reasons;
use crate::vector::{Vector, VersionNumber};

/// A transaction whose ending the local site is asked for.
#[derive(Debug)]
pub(super) struct Asking {
    question: Question,
    /// The period that it was sent with first.
    pub(super) period: Period,
    first_asked: Instant,
    pub(super) asked_at: Instant,
}

impl Asking {
    /// The question whether these updates commit.
    pub(super) fn commit(snapshot: Snapshot, updates: Vec<Update>, period: Period, now: Instant) -> Self {
        Asking { question: Question::Commit { snapshot, updates }, period, first_asked: now, asked_at: now }
    }

    /// True if the snapshot of what is to be committed includes transactions of a site above this one.
    pub(super) fn includes_above(&self, last: VersionNumber) -> bool {
        match &self.question {
            Question::Commit { snapshot, .. } => snapshot.least().of(last.site) > last.seqno,
            Question::Ending => false,
        }
    }

    /// The question how a transaction has ended.
    fn ending(period: Period, now: Instant) -> Self {
        Asking { question: Question::Ending, period, first_asked: now, asked_at: now }
    }
}

#[derive(Debug)]
enum Question {
    /// Commit this.
    Commit { snapshot: Snapshot, updates: Vec<Update> },
    /// How has it ended?
    Ending,
}

impl Coordinator {
    pub(super) fn on_commit(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        if self.execution(id).is_none() {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        if self.fails_to_follow(id, outbox) {
            return;
        }
        let after = self.unheard_before(id);
        let Some(Open { keyspace, home, phase: Phase::Executing(execution), deadline, wants, directed }) =
            self.transactions.remove(&id)
        else {
            return;
        };
        let Some(session) = self.keyspaces.get(&keyspace) else { return };
        let taken = execution.snapshot.clone();
        let updates = execution.into_updates();
        if updates.is_empty() {
            // It is a part of its snapshot, and nobody has to know of it.
            let committed = read_only(taken);
            self.note_unsent(id, Outcome::Committed(committed.timestamp));
            return finish(outbox, id, Ok(committed));
        }
        let snapshot = taken.map_or_else(|| newest(session.seen.clone(), after), Snapshot::Taken);
        let asking = Asking::commit(snapshot, updates, session.period, context.now);
        let phase = Phase::Asking(Box::new(asking));
        let open = Open { keyspace, home, phase, deadline, wants, directed };
        self.insert_asking(id, open, context, outbox);
    }

    pub(super) fn insert_asking(
        &mut self,
        id: TransactionId,
        open: Open,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let deadline = open.deadline;
        assert!(!self.transactions.contains_key(&id), "{id} is asked about, and is open");
        self.transactions.insert(id, open);
        self.ask(id, context, outbox);
        self.transactions.wake_at(id, deadline.min(context.now + self.config.resend_timeout));
    }

    fn ask(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let Phase::Asking(asking) = &mut open.phase else { return };
        asking.asked_at = context.now;
        let period = asking.period;
        let message = match &asking.question {
            Question::Commit { snapshot, updates } => {
                let (snapshot, updates) = (snapshot.clone(), updates.clone());
                Message::Commit { transaction: id, snapshot, period, updates }
            }
            Question::Ending => Message::AskOutcome { transaction: id, period, committed: 0 },
        };
        let leader = self.leaders.leader(open.home);
        open.directed.to = leader.index;
        outbox.send(leader, message);
    }

    fn ask_again(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        self.renew_earlier(id);
        self.ask(id, context, outbox);
    }

    /// A transaction that comes after an earlier one names the period that this was sent with last; or waits for it no more, if its ending was heard of since:
    /// the session has seen it.
    fn renew_earlier(&mut self, id: TransactionId) {
        let Some(Open { keyspace, phase: Phase::Asking(asking), .. }) = self.transactions.get(&id) else {
            return;
        };
        let Question::Commit { snapshot: Snapshot::After { earlier, .. }, .. } = &asking.question else {
            return;
        };
        let (keyspace, earlier) = (*keyspace, *earlier);
        let after = self.unheard(earlier).map(|period| (earlier, period));
        let Some(seen) = self.keyspaces.get(&keyspace).map(|session| session.seen.clone()) else { return };
        if let Some(Open { phase: Phase::Asking(asking), .. }) = self.transactions.get_mut(&id)
            && let Question::Commit { snapshot, .. } = &mut asking.question
        {
            *snapshot = newest(seen, after);
        }
    }

    /// Sends again whatever a transaction waits for.
    pub(super) fn send_again(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        match self.transactions.get(&id).map(|open| &open.phase) {
            Some(Phase::Executing(_)) => {
                self.read_again(id, context.now, outbox);
                self.send_copies_again(id, context.now, outbox);
            }
            Some(Phase::Asking(_)) => self.ask_again(id, context, outbox),
            None => outbox.ignored(reasons::NOT_OPEN),
        }
    }

    /// Sends again what a transaction has asked its local site for. Its questions to other sites have a time of their own.
    pub(super) fn ask_home_again(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        match self.transactions.get(&id).map(|open| &open.phase) {
            Some(Phase::Executing(_)) => self.read_again(id, context.now, outbox),
            Some(Phase::Asking(_)) => self.ask_again(id, context, outbox),
            None => {}
        }
    }

    fn read_again(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        self.forget_sent(id);
        self.send_reads(id, now, outbox);
    }

    /// A transaction has ended, durably.
    pub(super) fn on_ending(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        ending: Ending,
        (silent, is_short): (&[ShardId], bool),
        outbox: &mut Out,
    ) {
        let is_asked = |open: &Open| open.home == from.shard && matches!(open.phase, Phase::Asking(_));
        if !self.transactions.get(&id).is_some_and(is_asked) {
            return outbox.ignored(reasons::NOT_OPEN);
        }
        self.leaders.note_leading(from);
        if let (Ending::Committed { version, snapshot, .. }, Some(session)) = (&ending, self.session_of(id)) {
            session.seen.join(snapshot);
            session.seen.include(*version);
        }
        self.unknown.remove(&id);
        let Some(Open { wants, .. }) = self.transactions.remove(&id) else { return };
        let result = match ending {
            Ending::Committed { version, snapshot, is_slow } => {
                Ok(Committed { fast: !is_slow, ..committed(version, &snapshot) })
            }
            Ending::Aborted if is_short => Err(Failure::BelowZero),
            Ending::Aborted if silent.is_empty() => Err(Failure::Conflict),
            Ending::Aborted => {
                let known = silent.iter().filter(|shard| self.leaders.group(**shard).is_some());
                let missing = known.map(|shard| self.leaders.leader(*shard)).collect();
                Err(Failure::Unavailable { missing })
            }
        };
        if wants.resolve_wanted {
            let committed = |committed: &Committed| Outcome::Committed(committed.timestamp);
            let outcome = Some(result.as_ref().map_or(Outcome::Aborted, committed));
            outbox.emit(Event::Resolved { transaction: id, outcome });
        }
        if !wants.answered {
            finish(outbox, id, result);
        }
    }

    /// The snapshot of a transaction cannot be read any more, or what became of it may be forgotten.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_too_old(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        refused: Option<Period>,
        present: &Vector,
        period: Period,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if self.transactions.get(&id).is_some_and(|open| open.asks(from.shard))
            && let (Some(refused), Some((_, period))) = (refused, self.unheard_before(id))
        {
            // The transaction that it comes after was refused as well, and sent again with a later period.
            if period <= refused {
                return outbox.ignored(reasons::KNOWN);
            }
            self.forget_sent(id);
            return self.send_reads(id, context.now, outbox);
        }
        let surely_remembered = self.config.surely_remembered;
        let Some(open) = self.transactions.get_mut(&id).filter(|open| open.asks(from.shard)) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        let named = match &open.phase {
            Phase::Executing(_) => None,
            Phase::Asking(asking) => Some(asking.period),
        };
        if refused != named {
            // It was sent again since, with a later period, and that may be accepted.
            return outbox.ignored(reasons::KNOWN);
        }
        let oldest = Timestamp { micros: present.numbers().iter().sum(), client: ClientId(0) };
        let Phase::Asking(asking) = &mut open.phase else {
            return self.fail(id, Failure::TooOld { oldest }, outbox);
        };
        // Had it been accepted, that would not be forgotten yet.
        let is_surely_not_accepted = context.now - asking.first_asked < surely_remembered;
        match &asking.question {
            Question::Ending => self.on_forgotten(from, id, outbox),
            Question::Commit { .. } if !is_surely_not_accepted => self.give_up(id, outbox),
            Question::Commit { snapshot: Snapshot::New(_) | Snapshot::After { .. }, .. }
                if asking.period < period =>
            {
                // Of what was sent with an earlier period nothing is accepted any more.
                asking.period = period;
                self.ask_again(id, context, outbox);
            }
            Question::Commit { snapshot: Snapshot::Taken(snapshot), .. }
                if asking.period < period && present.includes_all(snapshot) =>
            {
                asking.period = period;
                self.ask_again(id, context, outbox);
            }
            Question::Commit { .. } => self.fail(id, Failure::TooOld { oldest }, outbox),
        }
    }

    /// Nobody knows any more what became of a transaction.
    pub(super) fn on_forgotten(&mut self, from: ReplicaId, id: TransactionId, outbox: &mut Out) {
        let Some(open) = self.transactions.get(&id).filter(|open| open.home == from.shard) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        if open.wants.resolve_wanted {
            self.transactions.remove(&id);
            outbox.emit(Event::Forgotten { transaction: id });
        }
    }

    pub(super) fn on_resolve(
        &mut self,
        id: TransactionId,
        participants: &[ShardId],
        deadline: Instant,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if let Some((_, outcome)) = self.unsent.iter().find(|(unsent, _)| *unsent == id) {
            return outbox.emit(Event::Resolved { transaction: id, outcome: Some(*outcome) });
        }
        let home = match participants {
            [home] => self.leaders.group(*home).and_then(|group| Some((*home, group.keyspace?))),
            _ => None,
        };
        let Some((home, keyspace)) = home.filter(|_| !self.transactions.contains_key(&id)) else {
            outbox.emit(Event::Resolved { transaction: id, outcome: None });
            return;
        };
        let is_left = |session: &super::Session| {
            session.routes.order.iter().any(|at| session.routes.keyspace.shards[*at].id == home)
        };
        if !self.keyspaces.get(&keyspace).is_some_and(is_left) {
            // The site that knew is no more.
            return outbox.emit(Event::Forgotten { transaction: id });
        }
        let period = self.unknown.get(&id).copied().unwrap_or_default();
        let asking = Asking::ending(period, context.now);
        let wants = Wants { answered: true, resolve_wanted: true };
        let phase = Phase::Asking(Box::new(asking));
        let open = Open { keyspace, home, phase, deadline, wants, directed: Directed::default() };
        self.insert_asking(id, open, context, outbox);
    }
}

fn committed(version: VersionNumber, snapshot: &Vector) -> Committed {
    let name = SiteVersion { site: version.site.0, seqno: version.seqno };
    let at_site = Some(AtSite { version: Some(name), snapshot: snapshot.numbers().to_vec() });
    Committed { at_site, ..Committed::at(version.timestamp()) }
}

/// A transaction that has written nothing is a part of its snapshot, if it has read anything.
fn read_only(snapshot: Option<Vector>) -> Committed {
    let numbers = snapshot.map(|snapshot| snapshot.numbers().to_vec());
    let micros = numbers.iter().flatten().sum();
    let at_site = numbers.map(|snapshot| AtSite { version: None, snapshot });
    Committed { at_site, ..Committed::at(Timestamp { micros, client: ClientId(0) }) }
}
