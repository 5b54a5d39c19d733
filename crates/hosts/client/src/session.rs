//! The session that all handles of one [`Database`](crate::Database) share: names for transactions, the way to the coordinator, and
//! the limits of this client.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::changes::{self, Position};
use quorate_core::command::{Begun, Command, ContainerCall, Failure, Freshness, Milestone, SetCall, Shown};
use quorate_core::topology::Keyspace;
use quorate_core::{
    ClientId, ClockTime, Key, KeyRange, KeyspaceId, NodeId, ReplicaId, ShardId, Timestamp, TransactionId,
    Value,
};
use quorate_granola::Class;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::receipt::Receipt;
use crate::waiters::{
    ElementsAnswer, ExecutedAnswer, FinishAnswer, Located, Marked, MembersAnswer, MilestoneAnswer, OpenError,
    OutcomeAnswer, ScanAnswer, Waiters,
};
use crate::window::Window;

/// The way to the host of the coordinator. Tests put a fake one in its place.
pub(crate) trait Port: Send + Sync {
    /// Lets `call` change what is waited for, and then steps the coordinator with the commands that it has put into
    /// the vector, all before anything else happens to either.
    fn with(&self, call: &mut dyn FnMut(&mut Waiters, &mut Vec<Command>));

    /// The home that decides an open transaction, where transactions run at nodes.
    fn home_of(&self, transaction: TransactionId) -> Option<ShardId>;

    /// Asks a node for changes of a shard; none if it is not connected.
    fn ask_changes(
        &self,
        node: NodeId,
        replica: ReplicaId,
        request: changes::Request<Position>,
    ) -> Option<ChangesReceiver>;

    /// Ends the host: nothing is sent or received any more.
    fn shut(&self);
}

/// The answers for each key of a read-only transaction, and for its end.
pub(crate) type ReadOnlyReceivers = (Vec<oneshot::Receiver<Option<Value>>>, oneshot::Receiver<FinishAnswer>);

/// The answer of a replica to a consumer of changes, or why its node does not let it.
type ToldChanges = Result<changes::Answer<Position>, String>;
pub(crate) type ChangesReceiver = oneshot::Receiver<ToldChanges>;
pub(crate) type ChangesSender = oneshot::Sender<ToldChanges>;

/// A one-round transaction.
pub(crate) struct OneRound<'a> {
    /// Its name.
    pub(crate) transaction: TransactionId,
    /// The keyspace of all its shards.
    pub(crate) keyspace: &'a Keyspace,
    /// Its part at each of them.
    pub(crate) parts: BTreeMap<ShardId, Value>,
    /// The agreement that they need.
    pub(crate) class: Class,
    /// It was named at this time.
    pub(crate) not_before: ClockTime,
    /// By when an answer is wanted.
    pub(crate) patience: Duration,
}

/// Why a one-round transaction cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotBegun {
    /// As any other.
    Refused(OpenError),
    /// Its shards cannot do without these replicas, which will not serve before an operator acts.
    Unserved(Vec<ReplicaId>),
}

/// How much later than the coordinator a call gives up, so that the better informed of the two speaks first.
pub(crate) const COORDINATOR_GRACE: Duration = Duration::from_millis(250);

/// The shared part of all handles.
pub(crate) struct Session {
    client: ClientId,
    open_max: usize,
    next_sequence: AtomicU64,
    /// The time of the last id that was given to an object, in microseconds.
    last_id: AtomicU64,
    commits: Arc<Semaphore>,
    /// How many transactions of each keyspace run at once that are run again after a conflict.
    windows: Mutex<BTreeMap<KeyspaceId, Arc<Window>>>,
    port: Box<dyn Port>,
}

impl Session {
    pub(crate) fn new(
        client: ClientId,
        open_max: usize,
        commits_in_flight_max: usize,
        port: impl Port + 'static,
    ) -> Self {
        let commits = Arc::new(Semaphore::new(commits_in_flight_max.clamp(1, Semaphore::MAX_PERMITS)));
        Session {
            client,
            open_max,
            next_sequence: AtomicU64::new(0),
            last_id: AtomicU64::new(0),
            commits,
            windows: Mutex::default(),
            port: Box::new(port),
        }
    }

    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    /// Asks a node for changes of a shard; none if it is not connected.
    pub(crate) fn ask_changes(
        &self,
        node: NodeId,
        replica: ReplicaId,
        request: changes::Request<Position>,
    ) -> Option<ChangesReceiver> {
        self.port.ask_changes(node, replica, request)
    }

    pub(crate) fn open_max(&self) -> usize {
        self.open_max
    }

    /// The window of a keyspace.
    pub(crate) fn window(&self, keyspace: KeyspaceId) -> Arc<Window> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.entry(keyspace).or_insert_with(|| Arc::new(Window::new(self.open_max)));
        Arc::clone(window)
    }

    /// A name for a new transaction's first attempt.
    pub(crate) fn next_transaction(&self) -> TransactionId {
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        TransactionId { client: self.client, sequence, attempt: 0 }
    }

    /// A time for a new id: now, in microseconds, and after that of every id before.
    pub(crate) fn next_id(&self, now: ClockTime) -> u64 {
        let after = |last: u64| now.as_micros().max(last + 1);
        let last = self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        after(last.unwrap_or_else(|last| last))
    }

    /// Waits for a place in the window of commits that are in flight; none if the session is closed.
    pub(crate) async fn commit_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.commits).acquire_owned().await.ok()
    }

    /// Makes room for the answers to a transaction; gives the replicas that the shards of its keyspace cannot do without
    /// and that will not serve before an operator acts.
    pub(crate) fn open(
        &self,
        transaction: TransactionId,
        keyspace: &Keyspace,
    ) -> Result<Vec<ReplicaId>, OpenError> {
        let mut result = Ok(Vec::new());
        self.port.with(&mut |waiters, _| {
            result =
                waiters.open(transaction, keyspace.id, self.open_max).map(|()| waiters.unserved(keyspace));
        });
        result
    }

    /// Begins a transaction that runs at a node, and gives the home of that; none if it could not begin, or has failed already.
    pub(crate) fn begin_at_home(
        &self,
        transaction: TransactionId,
        begin: impl IntoIterator<Item = Command>,
    ) -> Option<ShardId> {
        self.tell(begin);
        self.port.home_of(transaction)
    }

    /// Forgets a transaction after giving a last command about it, if any.
    pub(crate) fn forget(&self, transaction: TransactionId, last: Option<Command>) {
        let mut last = last;
        self.port.with(&mut |waiters, commands| {
            waiters.forget(transaction);
            commands.extend(last.take());
        });
    }

    /// How a transaction ended before it was asked to; none if the session is closed.
    pub(crate) fn failure(&self, transaction: TransactionId) -> Option<Failure> {
        let mut failure = None;
        self.port.with(&mut |waiters, _| failure = waiters.failure(transaction));
        failure
    }

    /// The words in which a node has refused a transaction for want of a right; none if none has.
    pub(crate) fn denial(&self, transaction: TransactionId) -> Option<String> {
        let mut denial = None;
        self.port.with(&mut |waiters, _| denial = waiters.denial(transaction));
        denial
    }

    /// Why each of these replicas will not serve before an operator acts, if its node has said so.
    pub(crate) fn problems(&self, replicas: &[ReplicaId]) -> Vec<Option<String>> {
        let mut problems = Vec::new();
        self.port.with(&mut |waiters, _| {
            problems = replicas.iter().map(|replica| waiters.problem(*replica).cloned()).collect();
        });
        problems
    }

    /// The replicas that the shards of a keyspace cannot do without and that will not serve before an operator acts.
    pub(crate) fn unserved(&self, keyspace: &Keyspace) -> Vec<ReplicaId> {
        let mut found = Vec::new();
        self.port.with(&mut |waiters, _| found = waiters.unserved(keyspace));
        found
    }

    /// The shards of a keyspace that take no writes for want of room, and what is said of it.
    pub(crate) fn without_space(&self, keyspace: &Keyspace) -> Vec<(ShardId, String)> {
        let mut found = Vec::new();
        self.port.with(&mut |waiters, _| found = waiters.without_space(keyspace));
        found
    }

    /// Asks for a key. This, scans and commits give other commands about the transaction first.
    pub(crate) fn get(
        &self,
        transaction: TransactionId,
        before: Vec<Command>,
        key: &Key,
    ) -> Option<oneshot::Receiver<Option<Value>>> {
        self.ask(
            before,
            |waiters, sender| waiters.expect_get(transaction, key.clone(), sender),
            || Command::Get { transaction, key: key.clone() },
        )
    }

    /// Asks for a key and how far its version has come.
    pub(crate) fn get_marked(
        &self,
        transaction: TransactionId,
        before: Vec<Command>,
        key: &Key,
    ) -> Option<oneshot::Receiver<Marked>> {
        self.ask(
            before,
            |waiters, sender| waiters.expect_marked(transaction, key.clone(), sender),
            || Command::GetMarked { transaction, key: key.clone() },
        )
    }

    /// Asks for a page of a range.
    pub(crate) fn scan(
        &self,
        transaction: TransactionId,
        before: Vec<Command>,
        range: &KeyRange,
        limit: u32,
    ) -> Option<oneshot::Receiver<ScanAnswer>> {
        self.ask(
            before,
            |waiters, sender| waiters.expect_scan(transaction, sender),
            || Command::Scan { transaction, range: range.clone(), limit },
        )
    }

    /// Asks for the count of an element of a counting set.
    pub(crate) fn count(
        &self,
        transaction: TransactionId,
        before: Vec<Command>,
        set: &Key,
        element: &Key,
    ) -> Option<oneshot::Receiver<i64>> {
        let (set, element) = (set.clone(), element.clone());
        let name = (set.clone(), element.clone());
        self.ask(
            before,
            |waiters, sender| waiters.expect_count(transaction, name.clone(), sender),
            || Command::Set {
                transaction,
                call: SetCall::Count { set: set.clone(), element: element.clone() },
            },
        )
    }

    /// Asks for a page of a counting set.
    pub(crate) fn elements(
        &self,
        transaction: TransactionId,
        before: Vec<Command>,
        call: &SetCall,
    ) -> Option<oneshot::Receiver<ElementsAnswer>> {
        self.ask(
            before,
            |waiters, sender| waiters.expect_elements(transaction, sender),
            || Command::Set { transaction, call: call.clone() },
        )
    }

    /// Asks for a page of a counting set and the registers that its elements name.
    pub(crate) fn members(
        &self,
        transaction: TransactionId,
        before: Vec<Command>,
        call: &SetCall,
    ) -> Option<oneshot::Receiver<MembersAnswer>> {
        self.ask(
            before,
            |waiters, sender| waiters.expect_members(transaction, sender),
            || Command::Set { transaction, call: call.clone() },
        )
    }

    /// Asks for keys at once; gives who answers for each, in their order.
    pub(crate) fn get_many(
        &self,
        transaction: TransactionId,
        mut before: Vec<Command>,
        keys: &[Key],
    ) -> Option<Vec<oneshot::Receiver<Option<Value>>>> {
        let mut receivers = None;
        self.port.with(&mut |waiters, commands| {
            let mut expect = |key: &Key| {
                let (sender, receiver) = oneshot::channel();
                waiters.expect_get(transaction, key.clone(), sender).then_some(receiver)
            };
            receivers = keys.iter().map(&mut expect).collect();
            if receivers.is_some() {
                commands.append(&mut before);
                commands.push(Command::GetMany { transaction, keys: keys.to_vec() });
            }
        });
        receivers
    }

    /// Asks for keys in a read-only transaction; gives who answers for each key, and for the whole.
    pub(crate) fn read_only(
        &self,
        transaction: TransactionId,
        keyspace: KeyspaceId,
        keys: &[Key],
        freshness: Freshness,
        patience: Duration,
    ) -> Option<ReadOnlyReceivers> {
        let mut values = Vec::with_capacity(keys.len());
        let finish = self.ask(
            Vec::new(),
            |waiters, sender| {
                for key in keys {
                    let (sender, receiver) = oneshot::channel();
                    values.push(receiver);
                    waiters.expect_get(transaction, key.clone(), sender);
                }
                waiters.expect_finish(transaction, sender)
            },
            || Command::ReadOnly { transaction, keyspace, keys: keys.to_vec(), freshness, patience },
        )?;
        Some((values, finish))
    }

    /// Asks for a page of a range in a read-only transaction; gives who answers with the page, and for the whole.
    pub(crate) fn read_only_scan(
        &self,
        transaction: TransactionId,
        keyspace: KeyspaceId,
        range: &KeyRange,
        limit: u32,
        freshness: Freshness,
        patience: Duration,
    ) -> Option<(oneshot::Receiver<ScanAnswer>, oneshot::Receiver<FinishAnswer>)> {
        let (page, receiver) = oneshot::channel();
        let mut page = Some(page);
        let finish = self.ask(
            Vec::new(),
            |waiters, sender| {
                if let Some(page) = page.take() {
                    waiters.expect_scan(transaction, page);
                }
                waiters.expect_finish(transaction, sender)
            },
            || {
                let range = range.clone();
                Command::ReadOnlyScan { transaction, keyspace, range, limit, freshness, patience }
            },
        )?;
        Some((receiver, finish))
    }

    /// Finds or changes where a container is; gives who answers where, and for the whole.
    pub(crate) fn container(
        &self,
        transaction: TransactionId,
        keyspace: KeyspaceId,
        name: &Key,
        call: ContainerCall,
        patience: Duration,
    ) -> Option<(oneshot::Receiver<Located>, oneshot::Receiver<FinishAnswer>)> {
        let (located, receiver) = oneshot::channel();
        let mut located = Some(located);
        let finish = self.ask(
            Vec::new(),
            |waiters, sender| {
                if let Some(located) = located.take() {
                    waiters.expect_located(transaction, located);
                }
                waiters.expect_finish(transaction, sender)
            },
            || Command::Container { transaction, keyspace, name: name.clone(), call: call.clone(), patience },
        )?;
        Some((receiver, finish))
    }

    /// Asks to include what another client has seen.
    pub(crate) fn catch_up(
        &self,
        transaction: TransactionId,
        keyspace: KeyspaceId,
        seen: &[u64],
        patience: Duration,
    ) -> Option<oneshot::Receiver<FinishAnswer>> {
        self.ask(
            Vec::new(),
            |waiters, sender| waiters.expect_finish(transaction, sender),
            || Command::CatchUp { transaction, keyspace, seen: seen.to_vec(), patience },
        )
    }

    /// Asks to commit.
    pub(crate) fn commit(
        &self,
        transaction: TransactionId,
        before: Vec<Command>,
    ) -> Option<oneshot::Receiver<FinishAnswer>> {
        self.ask(
            before,
            |waiters, sender| waiters.expect_finish(transaction, sender),
            || Command::Commit { transaction },
        )
    }

    /// Asks to commit a transaction, and to be shown the result before it is final.
    pub(crate) fn commit_speculatively(
        &self,
        transaction: TransactionId,
        before: Vec<Command>,
    ) -> Option<(oneshot::Receiver<Shown>, oneshot::Receiver<FinishAnswer>)> {
        let (sender, shown) = oneshot::channel();
        let mut sender = Some(sender);
        let finish = self.ask(
            before,
            |waiters, finish| {
                sender.take().is_some_and(|shown| waiters.expect_shown(transaction, shown, finish))
            },
            || Command::CommitSpeculatively { transaction },
        );
        finish.map(|finish| (shown, finish))
    }

    /// The snapshot of an open transaction, once it has one.
    pub(crate) fn begun(&self, transaction: TransactionId) -> Option<Begun> {
        let mut begun = None;
        self.port.with(&mut |waiters, _| begun = waiters.begun(transaction));
        begun
    }

    /// Asks to drop a transaction.
    pub(crate) fn abort(&self, transaction: TransactionId) -> Option<oneshot::Receiver<FinishAnswer>> {
        self.ask(
            Vec::new(),
            |waiters, sender| waiters.expect_finish(transaction, sender),
            || Command::Abort { transaction },
        )
    }

    /// Asks what became of a transaction, and waits for `patience` at most; none if the session has ended. The coordinator keeps
    /// that time, and the timer here is for when the runtime that hosts it has ended.
    pub(crate) async fn resolve(&self, token: &crate::Token, patience: Duration) -> Option<OutcomeAnswer> {
        let transaction = token.transaction;
        let timestamp = Timestamp::new(token.began, ClientId(0));
        let receiver = self.ask(
            Vec::new(),
            |waiters, sender| waiters.expect_outcome(transaction, sender),
            || Command::Resolve {
                transaction,
                participants: token.participants.clone(),
                timestamp,
                patience,
            },
        )?;
        match tokio::time::timeout(patience.saturating_add(COORDINATOR_GRACE), receiver).await {
            Ok(answer) => answer.ok(),
            Err(_) => Some(Ok(None)),
        }
    }

    /// Asks whether a committed transaction has reached a milestone, and waits for it for `patience` at most; none if the session has ended, or
    /// the runtime that hosts the coordinator.
    pub(crate) async fn reach(
        &self,
        receipt: &Receipt,
        milestone: Milestone,
        patience: Duration,
    ) -> Option<MilestoneAnswer> {
        let Receipt { token, timestamp, .. } = receipt;
        let receiver = self.ask(
            Vec::new(),
            |waiters, sender| waiters.expect_milestone(token.transaction, milestone, sender),
            || Command::Await {
                transaction: token.transaction,
                participants: token.participants.clone(),
                timestamp: *timestamp,
                milestone,
                patience,
            },
        )?;
        tokio::time::timeout(patience.saturating_add(COORDINATOR_GRACE), receiver).await.ok()?.ok()
    }

    /// Has a transaction executed in one round; gives who answers.
    ///
    /// # Errors
    /// It cannot begin. Nothing was sent.
    pub(crate) fn execute(&self, order: OneRound<'_>) -> Result<oneshot::Receiver<ExecutedAnswer>, NotBegun> {
        let OneRound { transaction, keyspace, parts, class, not_before, patience } = order;
        let (sender, receiver) = oneshot::channel();
        let (mut given, mut refused) = (Some((sender, parts)), None);
        self.port.with(&mut |waiters, commands| {
            let Some((sender, parts)) = given.take() else { return };
            let unserved = waiters.unserved(keyspace).into_iter();
            let missing: Vec<ReplicaId> =
                unserved.filter(|replica| parts.contains_key(&replica.shard)).collect();
            if !missing.is_empty() {
                refused = Some(NotBegun::Unserved(missing));
            } else if let Err(error) =
                waiters.expect_executed(transaction, keyspace.id, self.open_max, sender)
            {
                refused = Some(NotBegun::Refused(error));
            } else {
                let keyspace = keyspace.id;
                commands.push(Command::Execute { transaction, keyspace, parts, class, not_before, patience });
            }
        });
        refused.map_or(Ok(receiver), Err)
    }

    /// Asks what a one-round transaction has come to, and waits for `patience` at most; none if that could not be found out in time.
    pub(crate) async fn recall(&self, token: &crate::Token, patience: Duration) -> Option<ExecutedAnswer> {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        self.port.with(&mut |waiters, commands| {
            if let Some(sender) = sender.take()
                && waiters.expect_recalled(token.transaction, sender)
            {
                let (participants, not_before) = (token.participants.clone(), token.began);
                let transaction = token.transaction;
                commands.push(Command::Recall { transaction, participants, not_before, patience });
            }
        });
        tokio::time::timeout(patience.saturating_add(COORDINATOR_GRACE), receiver).await.ok()?.ok()
    }

    /// Registers the call and gives the command, as one step; none if it cannot be made any more. The receiver is woken
    /// without an answer if the transaction or the session ends.
    fn ask<Answer>(
        &self,
        mut before: Vec<Command>,
        mut expect: impl FnMut(&mut Waiters, oneshot::Sender<Answer>) -> bool,
        command: impl Fn() -> Command,
    ) -> Option<oneshot::Receiver<Answer>> {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        let mut given = false;
        self.port.with(&mut |waiters, commands| {
            if let Some(sender) = sender.take()
                && expect(waiters, sender)
            {
                commands.append(&mut before);
                commands.push(command());
                given = true;
            }
        });
        given.then_some(receiver)
    }

    /// True once the session has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.commits.is_closed()
    }

    /// Gives commands whose answers nobody waits for.
    pub(crate) fn tell(&self, told: impl IntoIterator<Item = Command>) {
        let mut told: Vec<Command> = told.into_iter().collect();
        self.port.with(&mut |_, commands| commands.append(&mut told));
    }

    /// Ends the session: every waiting call is woken.
    pub(crate) fn close(&self) {
        self.commits.close();
        self.port.with(&mut |waiters, _| waiters.close());
        self.port.shut();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("client", &self.client).finish_non_exhaustive()
    }
}
