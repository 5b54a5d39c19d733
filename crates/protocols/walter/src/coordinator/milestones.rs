//! The client is told when a transaction that has committed is durable, or visible everywhere.
//!
//! The site at which it committed is asked again and again, because it forgets its clients. Each of its answers names the sites that are missing,
//! so that the client hears of them if its time runs out.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::command::{Event, Invalid, Milestone, NotReached};
use quorate_core::{Context, Instant, ReplicaId, ShardId, Timestamp, TransactionId};

use super::{Coordinator, Out};
use crate::message::Message;
use crate::reasons;
use crate::vector::{LocalSite, VersionNumber};

/// A transaction, and what it is to reach.
type Goal = (TransactionId, Milestone);

/// All milestones that the client waits for.
#[derive(Debug, Default)]
pub(super) struct Milestones {
    goals: BTreeMap<Goal, Awaiting>,
    /// When each wants attention.
    wakeups: BTreeSet<(Instant, Goal)>,
}

/// A milestone that the client waits for.
#[derive(Debug)]
struct Awaiting {
    version: VersionNumber,
    /// The local site at which the transaction committed.
    home: ShardId,
    deadline: Instant,
    /// The local sites that are missing: the one that is asked, until it has answered.
    missing: Vec<ShardId>,
    /// True if the site has answered since it was asked last.
    is_answered: bool,
    /// How often it was asked again since a replica has named another one, since it was time to ask.
    redirects: u32,
    wakes_at: Instant,
}

impl Milestones {
    /// When the first wants attention.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.wakeups.first().map(|(at, _)| *at)
    }

    fn remove(&mut self, goal: Goal) -> Option<Awaiting> {
        let awaiting = self.goals.remove(&goal)?;
        let was_known = self.wakeups.remove(&(awaiting.wakes_at, goal));
        assert!(was_known, "{goal:?} is awaited, and nothing is done at {:?}", awaiting.wakes_at);
        Some(awaiting)
    }

    fn sleep_until(&mut self, goal: Goal, at: Instant) {
        if let Some(awaiting) = self.goals.get_mut(&goal) {
            self.wakeups.remove(&(awaiting.wakes_at, goal));
            awaiting.wakes_at = at;
            self.wakeups.insert((at, goal));
        }
        assert_eq!(self.goals.len(), self.wakeups.len(), "each goal has its time, {goal:?} as the others");
    }
}

/// A milestone is asked for so often at most since replicas name each other, until it is time to ask again.
const REDIRECTS_MAX: u32 = 3;

impl Coordinator {
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn on_await(
        &mut self,
        id: TransactionId,
        participants: &[ShardId],
        timestamp: Timestamp,
        milestone: Milestone,
        deadline: Instant,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(version) = VersionNumber::from_timestamp(timestamp) else {
            // It has written nothing.
            return tell(outbox, (id, milestone), Ok(()));
        };
        let Some(home) = self.local_site(participants, version.site) else {
            return tell(outbox, (id, milestone), Err(NotReached::Invalid(Invalid::NotOpen(id))));
        };
        let goal = (id, milestone);
        let awaiting = self.milestones.goals.entry(goal).or_insert_with(|| Awaiting {
            version,
            home,
            deadline,
            missing: vec![home],
            is_answered: true,
            redirects: 0,
            wakes_at: deadline,
        });
        // A client that asks twice is answered once, and the longer patience counts.
        awaiting.deadline = awaiting.deadline.max(deadline);
        awaiting.redirects = 0;
        self.ask_milestone(goal, context, outbox);
    }

    /// A local site of the keyspace of these.
    fn local_site(&self, participants: &[ShardId], site: LocalSite) -> Option<ShardId> {
        let keyspace = self.leaders.group(*participants.first()?)?.keyspace?;
        let shards = &self.keyspaces.get(&keyspace)?.routes.keyspace.shards;
        shards.get(usize::from(site.0)).map(|shard| shard.id)
    }

    fn ask_milestone(&mut self, goal: Goal, context: &Context<'_>, outbox: &mut Out) {
        let (transaction, milestone) = goal;
        let Some(awaiting) = self.milestones.goals.get_mut(&goal) else { return };
        awaiting.is_answered = false;
        let (version, home, deadline) = (awaiting.version, awaiting.home, awaiting.deadline);
        outbox.send(self.leaders.leader(home), Message::AskMilestone { transaction, version, milestone });
        let again = context.now + self.config.resend_timeout;
        self.milestones.sleep_until(goal, again.min(deadline));
    }

    pub(super) fn on_milestone(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        milestone: Milestone,
        missing: Vec<ShardId>,
        outbox: &mut Out,
    ) {
        let goal = (id, milestone);
        let is_home = |awaiting: &Awaiting| awaiting.home == from.shard;
        if !self.milestones.goals.get(&goal).is_some_and(is_home) {
            return outbox.ignored(reasons::NOT_OPEN);
        }
        self.leaders.note_leading(from);
        if missing.is_empty() {
            self.milestones.remove(goal);
            return tell(outbox, goal, Ok(()));
        }
        if let Some(awaiting) = self.milestones.goals.get_mut(&goal) {
            awaiting.is_answered = true;
            awaiting.missing = missing;
        }
    }

    /// Another replica leads the site of a transaction. True if that was asked for milestones of it, which it is again; but a few times only until it is
    /// time to ask again anyway: replicas may name each other for a while, and each answer would lead to a question for both milestones.
    pub(super) fn ask_milestones_again(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        let awaited = Milestone::ALL.map(|milestone| (id, milestone));
        let awaited = awaited.into_iter().filter(|goal| self.milestones.goals.contains_key(goal));
        let awaited: Vec<Goal> = awaited.collect();
        for goal in &awaited {
            let Some(awaiting) = self.milestones.goals.get_mut(goal) else { continue };
            awaiting.redirects += 1;
            if awaiting.redirects <= REDIRECTS_MAX {
                self.ask_milestone(*goal, context, outbox);
            }
        }
        !awaited.is_empty()
    }

    /// Asks again, and tells the client whose time has run out which sites are missing.
    pub(super) fn attend_milestones(&mut self, context: &Context<'_>, outbox: &mut Out) {
        while let Some((_, goal)) =
            self.milestones.wakeups.first().copied().filter(|(at, _)| *at <= context.now)
        {
            let Some(awaiting) = self.milestones.goals.get_mut(&goal) else {
                panic!("{goal:?} has its time, and is not awaited")
            };
            awaiting.redirects = 0;
            let (home, is_answered) = (awaiting.home, awaiting.is_answered);
            if awaiting.deadline <= context.now {
                if let Some(awaiting) = self.milestones.remove(goal) {
                    tell(outbox, goal, Err(NotReached::Missing(awaiting.missing)));
                }
                continue;
            }
            if !is_answered {
                self.leaders.suspect(home);
            }
            self.ask_milestone(goal, context, outbox);
        }
    }
}

fn tell(outbox: &mut Out, (transaction, milestone): Goal, result: Result<(), NotReached>) {
    outbox.emit(Event::Milestone { transaction, milestone, result });
}
