//! The coordinator: runs a client's transactions at its local site, thousands at a time (section 5.1).
//!
//! ```text
//!   Begin ─► executing ─ Commit ─► committing ─► committed, or conflict
//!              │ reads    │
//!              │          └─ writes nothing ─► committed
//!            Abort
//! ```
//!
//! The first read takes the snapshot, and the others are read at it; writes are buffered. So a transaction of one access, or of writes
//! alone, is one round trip. The local site decides: a client that vanishes leaves nothing behind.
//!
//! | file | role |
//! |---|---|
//! | `execution` | reads, buffered writes, scans, limits |
//! | `copies` | objects that are not at the local site are read at another |
//! | `sets` | counting sets, with the changes of the transaction itself |
//! | `members` | sets and the registers that their elements name |
//! | `containers` | containers are found and placed |
//! | `sessions` | what another client has seen is included in what this one does |
//! | `commit` | the local site is asked to commit, and what became of a transaction |
//! | `directing` | which replica of the local site is asked while leaders change |
//! | `milestones` | the local site is asked whether a transaction is durable, or visible everywhere |

mod commit;
mod containers;
mod copies;
mod directing;
mod execution;
mod members;
mod milestones;
mod sessions;
mod sets;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::{Coordinates, Leaders, Transactions, Wants, finish};
use quorate_core::command::{Command, Event, Failure, Freshness, Invalid, Outcome, Routes};
use quorate_core::hash::FixedMap;
use quorate_core::{Context, Epoch, Instant, KeyspaceId, ReplicaId, ShardId, TransactionId};

use crate::config::CoordinatorConfig;
use crate::message::{Message, Period};
use crate::reasons;
use crate::vector::Vector;
use commit::Asking;
use directing::Directed;
use execution::Execution;
use milestones::Milestones;

type Out = quorate_coordinator::Out<Coordinator>;

/// The outcome of so many transactions that nobody knew at first can be asked for.
const UNKNOWN_MAX: usize = 10_000;

/// So many transactions that no site was asked to commit are remembered at most, the latest ones.
const UNSENT_MAX: usize = 10_000;

/// The coordinator of all transactions of one client.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    keyspaces: BTreeMap<KeyspaceId, Session>,
    leaders: Leaders,
    transactions: Transactions<Open>,
    /// With which period transactions were sent whose outcome the client does not know.
    unknown: FixedMap<TransactionId, Period>,
    /// How transactions ended that no site was asked to commit, oldest first: a site could not tell them from those that it has forgotten.
    unsent: VecDeque<(TransactionId, Outcome)>,
    milestones: Milestones,
}

/// A keyspace, and what this client has seen of it.
#[derive(Debug)]
struct Session {
    routes: Arc<Routes>,
    /// The local site that the client speaks to.
    home: ShardId,
    /// The vector that it has seen: every later snapshot includes it.
    seen: Vector,
    /// The period of its local site that it has heard of last; zero if of none.
    period: Period,
}

impl Session {
    fn new(routes: &Arc<Routes>) -> Self {
        let home = routes.keyspace.shards[routes.order[0]].id;
        Session { routes: Arc::clone(routes), home, seen: Vector::default(), period: Period(0) }
    }
}

/// A transaction that the coordinator has not forgotten yet.
#[derive(Debug)]
pub struct Open {
    keyspace: KeyspaceId,
    /// The local site at which it runs.
    home: ShardId,
    phase: Phase,
    /// By when the client wants an answer.
    deadline: Instant,
    wants: Wants,
    directed: Directed,
}

#[derive(Debug)]
enum Phase {
    Executing(Box<Execution>),
    Asking(Box<Asking>),
}

impl Coordinates for Coordinator {
    type Message = Message;
    type Command = Command;
    type Event = Event;
    type Config = CoordinatorConfig;
    type Open = Open;

    fn new(config: CoordinatorConfig) -> Self {
        Coordinator {
            config,
            keyspaces: BTreeMap::new(),
            leaders: Leaders::default(),
            transactions: Transactions::default(),
            unknown: FixedMap::default(),
            unsent: VecDeque::new(),
            milestones: Milestones::default(),
        }
    }

    fn epoch_of(&self, shard: ShardId) -> Epoch {
        self.leaders.group(shard).map_or(Epoch::FIRST, |group| group.epoch)
    }

    fn transactions(&self) -> &Transactions<Open> {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions<Open> {
        &mut self.transactions
    }

    /// If a replica speaks under a later membership than this coordinator knows, the client is told that it has to learn of that.
    /// False if its group is none of those that are spoken to.
    fn is_current(&mut self, from: ReplicaId, epoch: Epoch, outbox: &mut Out) -> bool {
        if let Some(keyspace) = self.leaders.note_epoch(from, epoch) {
            outbox.emit(Event::Outdated { keyspace });
        }
        self.leaders.group(from.shard).is_some()
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, context: &mut Context<'_>, outbox: &mut Out) {
        match message {
            Message::ReadReply { transaction, request, snapshot, found, period } => {
                self.note_period(transaction, from, period);
                self.on_read_reply(from, transaction, request, snapshot, found, context, outbox);
            }
            Message::CopyReply { transaction, request, included, found } => {
                self.on_copy_reply(from, transaction, request, included, found, context, outbox);
            }
            Message::CommitReply { transaction, ending, silent, is_short } => {
                self.on_ending(from, transaction, ending, (&silent, is_short), outbox);
            }
            Message::TooOld { transaction, refused, committed, period } => {
                self.note_period(transaction, from, period);
                self.on_too_old(from, transaction, refused, &committed, period, context, outbox);
            }
            Message::Abandoned { transaction, last } => {
                self.on_abandoned(from, transaction, last, context, outbox);
            }
            Message::NeverCommitted { transaction, last } => {
                self.on_never_committed(from, transaction, last, outbox);
            }
            Message::Forgotten { transaction } => self.on_forgotten(from, transaction, outbox),
            Message::MilestoneReply { transaction, milestone, missing } => {
                self.on_milestone(from, transaction, milestone, missing, outbox);
            }
            Message::NotLeading { transaction: Some(transaction), leader } => {
                self.on_not_leading(from, transaction, leader, context, outbox);
            }
            Message::NotLeading { transaction: None, .. }
            | Message::Read { .. }
            | Message::ReadCopy { .. }
            | Message::Commit { .. }
            | Message::Prepare { .. }
            | Message::Vote { .. }
            | Message::Release { .. }
            | Message::AskOutcome { .. }
            | Message::AskMilestone { .. }
            | Message::Propagate { .. }
            | Message::AskLast { .. }
            | Message::AskShare { .. }
            | Message::Last { .. }
            | Message::Frozen { .. }
            | Message::Relay { .. }
            | Message::Join {}
            | Message::Expected { .. }
            | Message::Fetch { .. }
            | Message::State { .. }
            | Message::Progress { .. } => outbox.ignored(reasons::REPLICAS_ONLY),
        }
    }

    fn on_command(&mut self, command: Command, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            Command::Route(routes) => self.learn(&routes),
            Command::Reachable { replica, reachable } => {
                if self.leaders.set_reachable(replica, reachable) && !reachable {
                    self.transactions.wake_all(context.now);
                }
            }
            Command::Begin { transaction, keyspace, patience } => {
                self.begin(transaction, keyspace, patience, context, outbox);
            }
            Command::Get { transaction, key } => self.on_get(transaction, vec![key], context, outbox),
            Command::GetMarked { transaction, key } => self.on_get_marked(transaction, key, context, outbox),
            Command::GetMany { transaction, keys } => self.on_get(transaction, keys, context, outbox),
            Command::Scan { transaction, range, limit } => {
                self.on_scan(transaction, range, limit, context, outbox);
            }
            Command::Put { transaction, key, value } => self.on_put(transaction, key, value, outbox),
            Command::Set { transaction, call } => self.on_set(transaction, call, context, outbox),
            Command::Container { transaction, keyspace, name, call, patience } => {
                self.on_container(transaction, keyspace, name, call, patience, context, outbox);
            }
            Command::Commit { transaction } => self.on_commit(transaction, context, outbox),
            Command::Abort { transaction } => self.on_abort(transaction, outbox),
            Command::ReadOnly { transaction, keyspace, keys, freshness: Freshness::Strict, patience } => {
                if self.begin(transaction, keyspace, patience, context, outbox) {
                    self.read_only(transaction, keys, context, outbox);
                }
            }
            Command::ReadOnlyScan {
                transaction,
                keyspace,
                range,
                limit,
                freshness: Freshness::Strict,
                patience,
            } => {
                if self.begin(transaction, keyspace, patience, context, outbox) {
                    self.read_only_scan(transaction, range, limit, context, outbox);
                }
            }
            Command::Resolve { transaction, participants, patience, .. } => {
                self.on_resolve(transaction, &participants, context.now + patience, context, outbox);
            }
            Command::Await { transaction, participants, timestamp, milestone, patience } => {
                let deadline = context.now + patience;
                self.on_await(transaction, &participants, timestamp, milestone, deadline, context, outbox);
            }
            Command::CatchUp { transaction, keyspace, seen, patience } => {
                if self.begin(transaction, keyspace, patience, context, outbox) {
                    self.catch_up(transaction, Vector::new(seen), context, outbox);
                }
            }
            Command::After { transaction, earlier } => self.follow(transaction, earlier, outbox),
            Command::Observe { .. } => {}
            Command::CommitSpeculatively { .. }
            | Command::ReadOnly { .. }
            | Command::ReadOnlyScan { .. }
            | Command::Confine { .. }
            | Command::Execute { .. }
            | Command::Recall { .. } => {
                if let Some(event) = command.refused(Invalid::Unsupported) {
                    outbox.emit(event);
                }
            }
        }
    }

    fn attend(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) -> Option<Instant> {
        let open = self.transactions.get(&id)?;
        if context.now >= open.deadline {
            self.give_up(id, outbox);
            return None;
        }
        let (home, copies_at) = (open.home, self.attend_copies(id, context, outbox));
        let open = self.transactions.get(&id)?;
        let deadline = copies_at.map_or(open.deadline, |at| at.min(open.deadline));
        let waits = match &open.phase {
            Phase::Executing(execution) => execution.waits_since(),
            Phase::Asking(asking) => Some(asking.asked_at),
        };
        let Some(since) = waits else { return Some(deadline) };
        let timeout = self.config.resend_timeout;
        let is_silent = context.now - since >= timeout;
        let again_at = open.directed.again_at;
        let is_gone = is_silent || !self.leaders.is_reachable(self.leaders.leader(home));
        if is_gone {
            self.leaders.suspect(home);
        }
        if is_gone || again_at.is_some_and(|at| context.now >= at) {
            if let Some(open) = self.transactions.get_mut(&id) {
                open.directed.anew();
            }
            self.ask_home_again(id, context, outbox);
            return Some(deadline.min(context.now + timeout));
        }
        Some(again_at.map_or(deadline, |at| at.min(deadline)).min(since + timeout))
    }

    fn attend_others(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        self.attend_milestones(context, outbox);
    }

    fn others_wake_at(&self) -> Option<Instant> {
        self.milestones.wake_at()
    }
}

quorate_coordinator::coordinator!(inner Coordinator);

impl Coordinator {
    fn learn(&mut self, routes: &Arc<Routes>) {
        let keyspace = &routes.keyspace;
        for (position, shard) in keyspace.shards.iter().enumerate() {
            self.leaders.learn(shard.id, routes.members(position), Some(keyspace.id), keyspace.epoch);
        }
        match self.keyspaces.get_mut(&keyspace.id) {
            Some(session) => {
                let Session { home, .. } = Session::new(routes);
                if home != session.home {
                    // Another site counts other periods. The client takes the vector that it has seen along.
                    (session.home, session.period) = (home, Period(0));
                }
                session.routes = Arc::clone(routes);
            }
            None => {
                self.keyspaces.insert(keyspace.id, Session::new(routes));
            }
        }
    }

    /// True if the transaction has begun.
    fn begin(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        patience: Duration,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        if self.transactions.contains_key(&id) {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
            return false;
        }
        let Some(session) = self.keyspaces.get(&keyspace) else {
            finish(outbox, id, Err(Failure::Invalid(Invalid::UnknownKeyspace(keyspace))));
            return false;
        };
        let execution = Execution::new(Arc::clone(&session.routes));
        let deadline = context.now + patience;
        let open = Open {
            keyspace,
            home: session.home,
            phase: Phase::Executing(Box::new(execution)),
            deadline,
            wants: Wants::default(),
            directed: Directed::default(),
        };
        self.transactions.insert(id, open);
        self.transactions.wake_at(id, deadline);
        true
    }

    /// The session of the keyspace of a transaction.
    fn session_of(&mut self, id: TransactionId) -> Option<&mut Session> {
        let keyspace = self.transactions.get(&id)?.keyspace;
        self.keyspaces.get_mut(&keyspace)
    }

    /// The local site of a transaction is in this period at least.
    fn note_period(&mut self, id: TransactionId, from: ReplicaId, period: Period) {
        self.leaders.note_leading(from);
        if let Some(session) = self.session_of(id)
            && session.home == from.shard
        {
            session.period = session.period.max(period);
        }
    }

    /// Ends a transaction that has not been sent.
    fn fail(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        let Some(open) = self.transactions.remove(&id) else { return };
        if matches!(open.phase, Phase::Executing(_)) {
            self.note_unsent(id, Outcome::Aborted);
        }
        finish(outbox, id, Err(failure));
    }

    /// Remembers a transaction that no site was asked to commit, and none ever will be.
    fn note_unsent(&mut self, id: TransactionId, outcome: Outcome) {
        if self.unsent.len() == UNSENT_MAX {
            self.unsent.pop_front();
        }
        self.unsent.push_back((id, outcome));
    }

    fn on_abort(&mut self, id: TransactionId, outbox: &mut Out) {
        if self.execution(id).is_some() {
            return self.fail(id, Failure::Aborted, outbox);
        }
        finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
    }

    /// The client has waited long enough.
    fn give_up(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(mut open) = self.transactions.remove(&id) else { return };
        match open.phase {
            Phase::Executing(_) => self.give_up_reads(id, &open, outbox),
            Phase::Asking(asking) => {
                if self.unknown.len() < UNKNOWN_MAX {
                    self.unknown.insert(id, asking.period);
                }
                assert!(self.unknown.len() <= UNKNOWN_MAX, "{} outcomes are unknown", self.unknown.len());
                open.wants.give_up(id, vec![open.home], outbox);
            }
        }
    }
}
