//! The databases that `SELECT` chooses from, as keyspaces of a cluster.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use quorate::topology::shard_position;
use quorate::{Call, Concluded, Error, Isolation, Keyspace, Refusal, Transaction};
use quorate_gateway::{LoginError, Password, Permit, Place, Right, Scope, Session};
use quorate_procedure::Needs;
use quorate_procedure::fetched::Found;
use quorate_redis_commands::{Commands, PROCEDURE, SLOTS, routing_key};
use quorate_redis_evaluator::UNKNOWN_TEXT;

use crate::channels::TOPIC;
use crate::failure::Failure;
use crate::joint::Joint;
use crate::permission::Wanted;
use crate::plan::{micros_now, unreadable};

/// The databases of a door.
pub trait Databases {
    /// The keys of one.
    type Keys: Keys + 'static;

    /// How many there are.
    fn count(&self) -> usize;

    /// Opens one, to read or also to write.
    fn open(&self, number: usize, writes: bool) -> impl Future<Output = Result<Self::Keys, Failure>>;

    /// The keyspace of that name may be another one by now.
    fn forget(&self, number: usize);

    /// The joint transactions of the thread: they carry out commands of several clients together.
    fn joint(&self) -> &Rc<Joint>;

    /// Tells the other doors of the cluster what a client publishes, at most once: it is heard in the order in which it is told.
    fn announce(&self, message: Vec<u8>) -> impl Future<Output = Result<(), Failure>>;

    /// Asks whether the client may do something that is about no key. Where there are no users, it may.
    ///
    /// # Errors
    /// It may not.
    fn require(&self, right: Right<'_>, wanted: Wanted<'_>) -> Result<(), Failure> {
        let _ = (right, wanted);
        Ok(())
    }

    /// The rights of the client in a database, from now on until it logs in anew.
    fn permit(&self, number: usize) -> Permit {
        let _ = number;
        Permit::everything()
    }

    /// Waits until it is known who may do what.
    fn ready(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// True if there are users, so that a client is to be one of them.
    fn has_users(&self) -> bool {
        false
    }

    /// The name of the user that the client is; none if it has not logged in.
    fn user(&self) -> Option<&str> {
        None
    }

    /// Logs in.
    ///
    /// # Errors
    /// The user or its password is wrong, or that cannot be found out now. The client stays what it was.
    fn log_in(&mut self, user: &str, password: Password) -> impl Future<Output = Result<(), LoginError>> {
        let _ = (user, password);
        std::future::ready(Err(LoginError::Wrong))
    }

    /// Is no user any more.
    fn log_out(&mut self) {}

    /// Counts a command of so many bytes.
    ///
    /// # Errors
    /// The user has given as many as it may for now.
    fn meter(&self, bytes: usize) -> Result<(), Failure> {
        let _ = bytes;
        Ok(())
    }

    /// A place among the open transactions of the user, if those are counted.
    ///
    /// # Errors
    /// It has as many as it may have.
    fn open_transaction(&self) -> Result<Option<Place>, Failure> {
        Ok(None)
    }
}

/// The keys of a database, divided into shards.
pub trait Keys: Clone {
    /// How many shards there are; one where commands do not run at shards.
    fn shards(&self) -> usize;

    /// Which shard a slot lies in.
    fn shard_of(&self, slot: u16) -> usize;

    /// How many other replicas have what is acknowledged, once it is.
    fn replicas(&self) -> usize;

    /// True if requests run at shards; else they are interactive transactions.
    fn runs_at_shards(&self) -> bool;

    /// Has each shard carry out its request, all at one place in the serial order, and gives their answers.
    fn at_shards(
        &self,
        parts: &[(usize, Vec<u8>)],
        is_read_only: bool,
    ) -> impl Future<Output = Result<Vec<Vec<u8>>, Failure>>;

    /// True if scripts may run at shards.
    fn runs_scripts(&self) -> bool;

    /// A slot that lies at a shard, the same for all doors; none if there is none.
    fn home_of(&self, shard: usize) -> Option<u16>;

    /// Has a shard carry out a request of scripts.
    fn scripts_at_shard(
        &self,
        shard: usize,
        request: &[u8],
        is_read_only: bool,
    ) -> impl Future<Output = Result<AtShard, Failure>>;

    /// Carries out a request over keys of any shards, and gives its answer.
    fn as_transaction(&self, request: &[u8]) -> impl Future<Output = Result<Vec<u8>, Failure>>;

    /// Carries out a transaction that finds out on its way what it reads and writes. An attempt begins at a time, in microseconds since the Unix epoch; another
    /// one begins if other transactions were in the way.
    fn by_steps<S: Steps>(
        &self,
        begin: impl Fn(u64) -> Result<S, Failure>,
    ) -> impl Future<Output = Result<S::Done, Failure>>;
}

/// The end of a request of scripts at a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtShard {
    /// It is done, and this is the answer.
    Done(Vec<u8>),
    /// The shard has given up, and nothing was done.
    GivenUp,
    /// The shard has not kept a text that the request names, and nothing was done.
    TextUnknown,
}

/// An attempt of a transaction that finds out on its way what it reads and writes.
pub trait Steps {
    /// Its result.
    type Done;

    /// Goes on with what was missing, as far as it gets.
    fn next(&mut self, found: Option<Found>) -> impl Future<Output = Step<Self::Done>>;
}

/// How far an attempt has come.
#[derive(Debug)]
pub enum Step<D> {
    /// It has to know this; the parts may be read each by itself.
    Fetch(Vec<Needs>),
    /// It is done, once this is written: keys with their values; none deletes.
    Write(Vec<(Vec<u8>, Option<Vec<u8>>)>, D),
    /// It writes nothing, as long as what it has read is so.
    Refuse(Failure),
}

/// Keyspaces of a cluster, each under a number.
#[derive(Debug)]
pub(crate) struct Cluster {
    session: Session,
    keyspaces: Arc<[Option<String>]>,
    /// Whether scripts may run at shards.
    runs_scripts: bool,
    /// Those that this client has used.
    opened: RefCell<BTreeMap<usize, ClusterKeys>>,
    /// The rights of the user in those.
    permits: RefCell<BTreeMap<usize, Permit>>,
    joint: Rc<Joint>,
}

impl Cluster {
    pub(crate) fn new(session: Session, keyspaces: Arc<[Option<String>]>, runs_scripts: bool) -> Self {
        let joint = session.shared();
        let (opened, permits) = (RefCell::default(), RefCell::default());
        Cluster { session, keyspaces, runs_scripts, opened, permits, joint }
    }
}

impl Databases for Cluster {
    type Keys = ClusterKeys;

    fn count(&self) -> usize {
        self.keyspaces.len()
    }

    async fn open(&self, number: usize, writes: bool) -> Result<ClusterKeys, Failure> {
        let Some(Some(name)) = self.keyspaces.get(number) else {
            return Err(Failure::refused("DB index is out of range"));
        };
        // The keys are asked for where they are known: what a command touches says `permission`.
        let permit = self.permit(number);
        permit.require(writes, Scope::Part).map_err(|denied| Failure::denied(&denied, Wanted::Key))?;
        if let Some(opened) = self.opened.borrow().get(&number) {
            return Ok(opened.clone());
        }
        let keys = ClusterKeys::new(self.session.keyspace(name).await?, permit, self.runs_scripts);
        self.opened.borrow_mut().insert(number, keys.clone());
        Ok(keys)
    }

    fn forget(&self, number: usize) {
        if let Some(Some(name)) = self.keyspaces.get(number) {
            self.session.forget(name);
            self.opened.borrow_mut().remove(&number);
        }
    }

    fn joint(&self) -> &Rc<Joint> {
        &self.joint
    }

    async fn announce(&self, message: Vec<u8>) -> Result<(), Failure> {
        Ok(self.session.database().await?.announce(TOPIC, message).await?)
    }

    fn require(&self, right: Right<'_>, wanted: Wanted<'_>) -> Result<(), Failure> {
        self.session.require(right).map_err(|denied| Failure::denied(&denied, wanted))
    }

    fn permit(&self, number: usize) -> Permit {
        let mut permits = self.permits.borrow_mut();
        let new = || {
            let name = self.keyspaces.get(number).and_then(Option::as_deref);
            self.session.permit(name.unwrap_or_default())
        };
        permits.entry(number).or_insert_with(new).clone()
    }

    async fn ready(&self) {
        self.session.ready().await;
    }

    fn has_users(&self) -> bool {
        self.session.is_controlled()
    }

    fn user(&self) -> Option<&str> {
        self.session.user()
    }

    async fn log_in(&mut self, user: &str, password: Password) -> Result<(), LoginError> {
        let session = self.session.log_in(user, password).await?;
        self.become_one(session);
        Ok(())
    }

    fn log_out(&mut self) {
        let session = self.session.logged_out();
        self.become_one(session);
    }

    fn meter(&self, bytes: usize) -> Result<(), Failure> {
        Ok(self.session.count(bytes)?)
    }

    fn open_transaction(&self) -> Result<Option<Place>, Failure> {
        Ok(self.session.open_transaction()?)
    }
}

impl Cluster {
    /// Goes on as another user: what was found out for the one before does not count.
    fn become_one(&mut self, session: Session) {
        self.session = session;
        self.permits.borrow_mut().clear();
        self.opened.borrow_mut().clear();
    }
}

/// A keyspace.
#[derive(Clone, Debug)]
pub(crate) struct ClusterKeys {
    keyspace: Keyspace,
    permit: Permit,
    /// For each shard the first slot that lies there; none if none does.
    homes: Arc<[Option<u16>]>,
    replicas: usize,
    runs_at_shards: bool,
    runs_scripts: bool,
}

impl ClusterKeys {
    fn new(keyspace: Keyspace, permit: Permit, runs_scripts: bool) -> Self {
        let definition = keyspace.definition();
        let runs_at_shards =
            definition.isolation == Isolation::Serializable && definition.comparison.is_none();
        let shards = if runs_at_shards { definition.shards.len() } else { 1 };
        let mut homes = vec![None; shards];
        for slot in 0..SLOTS {
            homes[shard_position(&routing_key(slot), shards)].get_or_insert(slot);
        }
        ClusterKeys {
            homes: homes.into(),
            replicas: definition.shards.first().map_or(0, |shard| shard.replicas.len().saturating_sub(1)),
            runs_at_shards,
            runs_scripts,
            keyspace,
            permit,
        }
    }
}

impl Keys for ClusterKeys {
    fn shards(&self) -> usize {
        self.homes.len()
    }

    fn shard_of(&self, slot: u16) -> usize {
        if self.shards() == 1 { 0 } else { shard_position(&routing_key(slot), self.shards()) }
    }

    fn replicas(&self) -> usize {
        self.replicas
    }

    fn runs_at_shards(&self) -> bool {
        self.runs_at_shards
    }

    async fn at_shards(
        &self,
        parts: &[(usize, Vec<u8>)],
        is_read_only: bool,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut call = Call::new(PROCEDURE);
        for (shard, request) in parts {
            let Some(home) = self.home_of(*shard) else {
                return Err(Failure::refused("no keys lie at this shard, and nothing was done"));
            };
            call = call.at_with(routing_key(home), request);
        }
        // All shards carry it out or, if it is none, all refuse it: what a command comes to is a reply.
        let call = if is_read_only { call.read_only() } else { call.independent() };
        let answers = self.keyspace.call(call).await?.answers;
        Ok(answers.into_iter().map(|answer| answer.to_vec()).collect())
    }

    fn runs_scripts(&self) -> bool {
        self.runs_at_shards && self.runs_scripts
    }

    fn home_of(&self, shard: usize) -> Option<u16> {
        self.homes.get(shard).copied().flatten()
    }

    async fn scripts_at_shard(
        &self,
        shard: usize,
        request: &[u8],
        is_read_only: bool,
    ) -> Result<AtShard, Failure> {
        let Some(home) = self.home_of(shard) else { return Ok(AtShard::GivenUp) };
        let call = Call::new(quorate_redis_evaluator::PROCEDURE).at_with(routing_key(home), request);
        let call = if is_read_only { call.read_only() } else { call.independent() };
        let refusal = match self.keyspace.call(call).await {
            Ok(called) => {
                let answer = called.answers.first().map(|answer| answer.to_vec());
                return answer.map(AtShard::Done).ok_or_else(unreadable);
            }
            Err(Error::Refused { refusal, .. }) => refusal,
            Err(error) => return Err(error.into()),
        };
        Ok(match *refusal {
            Refusal::Procedure { reason } if *reason == *UNKNOWN_TEXT.as_bytes() => AtShard::TextUnknown,
            // A server that does not know the procedure is older than this door.
            Refusal::Procedure { .. } | Refusal::NoSuchProcedure { .. } | Refusal::Failed { .. } => {
                AtShard::GivenUp
            }
            Refusal::TooLarge => return Err(Failure::too_large()),
            other => return Err(Failure::refused(format!("nothing was done: {other}"))),
        })
    }

    async fn as_transaction(&self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        match self.keyspace.transact_procedure(&Commands, request).await?.ended {
            Concluded::Done(answer) => Ok(answer),
            Concluded::Refused(reason) => Err(Failure::refused(String::from_utf8_lossy(&reason))),
        }
    }

    async fn by_steps<S: Steps>(
        &self,
        begin: impl Fn(u64) -> Result<S, Failure>,
    ) -> Result<S::Done, Failure> {
        let begin = &begin;
        let body = async |txn: Transaction| {
            let mut steps = match begin(micros_now()) {
                Ok(steps) => steps,
                Err(failure) => return Ok(Err(failure)),
            };
            let mut found = None;
            loop {
                match steps.next(found.take()).await {
                    Step::Fetch(needs) => found = Some(fetch_all(&txn, needs).await?),
                    Step::Write(writes, done) => {
                        // The right may have been taken away while the transaction was open.
                        if let Err(denied) = self.permit.require(!writes.is_empty(), Scope::Part) {
                            return Ok(Err(Failure::denied(&denied, Wanted::Key)));
                        }
                        for (key, value) in writes {
                            match value {
                                Some(value) => txn.put(key, value)?,
                                None => txn.delete(key)?,
                            }
                        }
                        return Ok(Ok(done));
                    }
                    Step::Refuse(failure) => return Ok(Err(failure)),
                }
            }
        };
        self.keyspace.transact(body).await?
    }
}

/// Reads all parts at a time, each by itself.
async fn fetch_all(txn: &Transaction, needs: Vec<Needs>) -> quorate::Result<Found> {
    let mut reads: Vec<_> = needs.into_iter().map(|needs| Box::pin(txn.fetch(needs))).collect();
    let mut all = Found::default();
    let mut read = |context: &mut Context<'_>| {
        let mut at = 0;
        while let Some(one) = reads.get_mut(at) {
            match one.as_mut().poll(context) {
                Poll::Ready(Ok(found)) => {
                    all.keys.extend(found.keys);
                    all.ranges.extend(found.ranges);
                    drop(reads.swap_remove(at));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => at += 1,
            }
        }
        if reads.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
    };
    poll_fn(|context| read(context)).await?;
    Ok(all)
}
