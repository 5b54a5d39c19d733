//! What all handles of one [`Database`](crate::Database) share: names for transactions, the way to the coordinator, and
//! the limits of this client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate_core::command::{Command, Failure, Freshness};
use quorate_core::topology::Keyspace;
use quorate_core::{ClientId, Key, KeyRange, KeyspaceId, ReplicaId, Timestamp, TransactionId, Value};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::waiters::{FinishAnswer, OpenError, OutcomeAnswer, ScanAnswer, Waiters};

/// The way to the host of the coordinator. Tests put a fake one in its place.
pub(crate) trait Port: Send + Sync {
    /// Lets `call` change what is waited for, and then steps the coordinator with the commands that it has put into
    /// the vector, all before anything else happens to either.
    fn with(&self, call: &mut dyn FnMut(&mut Waiters, &mut Vec<Command>));

    /// Ends the host: nothing is sent or received any more.
    fn shut(&self);
}

/// Who answers for each key of a read-only transaction, and for its end.
pub(crate) type ReadOnlyReceivers = (Vec<oneshot::Receiver<Option<Value>>>, oneshot::Receiver<FinishAnswer>);

/// How much later than the coordinator a call gives up, so that the better informed of the two speaks first.
pub(crate) const COORDINATOR_GRACE: Duration = Duration::from_millis(250);

/// The shared part of all handles.
pub(crate) struct Session {
    client: ClientId,
    open_max: usize,
    next_sequence: AtomicU64,
    commits: Semaphore,
    port: Box<dyn Port>,
}

impl Session {
    pub(crate) fn new(
        client: ClientId,
        open_max: usize,
        commits_in_flight_max: usize,
        port: impl Port + 'static,
    ) -> Self {
        let commits = Semaphore::new(commits_in_flight_max.clamp(1, Semaphore::MAX_PERMITS));
        Session { client, open_max, next_sequence: AtomicU64::new(0), commits, port: Box::new(port) }
    }

    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    pub(crate) fn open_max(&self) -> usize {
        self.open_max
    }

    /// A name for a new transaction's first attempt.
    pub(crate) fn next_transaction(&self) -> TransactionId {
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        TransactionId { client: self.client, sequence, attempt: 0 }
    }

    /// Waits for a place in the window of commits that are in flight; none if the session is closed.
    pub(crate) async fn commit_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.commits.acquire().await.ok()
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

    /// Why each of these replicas will not serve before an operator acts, if its node has said so.
    pub(crate) fn problems(&self, replicas: &[ReplicaId]) -> Vec<Option<String>> {
        let mut problems = Vec::new();
        self.port.with(&mut |waiters, _| {
            problems = replicas.iter().map(|replica| waiters.problem(*replica).cloned()).collect();
        });
        problems
    }

    /// Asks for a key. This and the next two begin the transaction first, if that is asked for.
    pub(crate) fn get(
        &self,
        transaction: TransactionId,
        begin: Option<Command>,
        key: &Key,
    ) -> Option<oneshot::Receiver<Option<Value>>> {
        self.ask(
            begin,
            |waiters, sender| waiters.expect_get(transaction, key.clone(), sender),
            || Command::Get { transaction, key: key.clone() },
        )
    }

    /// Asks for a page of a range.
    pub(crate) fn scan(
        &self,
        transaction: TransactionId,
        begin: Option<Command>,
        range: &KeyRange,
        limit: u32,
    ) -> Option<oneshot::Receiver<ScanAnswer>> {
        self.ask(
            begin,
            |waiters, sender| waiters.expect_scan(transaction, sender),
            || Command::Scan { transaction, range: range.clone(), limit },
        )
    }

    /// Writes or deletes a key, in the coordinator's memory.
    pub(crate) fn put(
        &self,
        transaction: TransactionId,
        begin: Option<Command>,
        key: Key,
        value: Option<Value>,
    ) {
        let mut both = [begin, Some(Command::Put { transaction, key, value })];
        self.port.with(&mut |_, commands| commands.extend(both.iter_mut().filter_map(Option::take)));
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
            None,
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
            None,
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

    /// Asks to commit.
    pub(crate) fn commit(&self, transaction: TransactionId) -> Option<oneshot::Receiver<FinishAnswer>> {
        self.ask(
            None,
            |waiters, sender| waiters.expect_finish(transaction, sender),
            || Command::Commit { transaction },
        )
    }

    /// Asks to drop a transaction.
    pub(crate) fn abort(&self, transaction: TransactionId) -> Option<oneshot::Receiver<FinishAnswer>> {
        self.ask(
            None,
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
            None,
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

    /// Registers the call and gives the command, as one step; none if it cannot be made any more. The receiver is woken
    /// without an answer if the transaction or the session ends.
    fn ask<Answer>(
        &self,
        mut first: Option<Command>,
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
                commands.extend(first.take());
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

    /// Gives a command whose answer nobody waits for.
    pub(crate) fn tell(&self, command: Command) {
        let mut command = Some(command);
        self.port.with(&mut |_, commands| commands.extend(command.take()));
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
