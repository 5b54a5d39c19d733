//! A door to shards in memory: all of it but a cluster.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quorate::topology::shard_position;
use quorate_gateway::{Connection, Door, Gateway, Limits, Options, Session};
use quorate_procedure::fetched::{Found, read};
use quorate_procedure::{Answer, Direction, Memory, Pair, Procedure, Stop, Store};
use quorate_redis::databases::{AtShard, Databases, Keys, Step, Steps};
use quorate_redis::{Facts, Failure, Joint};
use quorate_redis_commands::{Commands, Request, SLOTS, routing_key};
use quorate_redis_evaluator::{Scripts, UNKNOWN_TEXT};

/// Shards of one database, and how requests run there.
#[derive(Clone)]
pub(crate) struct Shards {
    shards: Arc<Mutex<Vec<Memory>>>,
    runs_at_shards: bool,
    /// How many commands each request to shards had so far.
    asked: Arc<Mutex<Vec<usize>>>,
    /// The failures of the next requests of more than one command, in place of being carried out.
    failures: Arc<Mutex<VecDeque<Failure>>>,
    /// Held while shards carry out nothing.
    gate: Arc<Mutex<()>>,
    runs_scripts: bool,
    counts: Arc<Counts>,
}

/// Counts of requests to shards.
#[derive(Default)]
pub(crate) struct Counts {
    /// Requests of scripts that they have carried out.
    pub(crate) scripts_run: AtomicUsize,
    /// Bytes of requests of scripts, whatever came of them.
    pub(crate) script_bytes: AtomicUsize,
    /// Rounds of reads of interactive transactions.
    pub(crate) rounds: AtomicUsize,
}

impl Shards {
    fn new(count: usize, runs_at_shards: bool, runs_scripts: bool) -> Self {
        let shards = Arc::new(Mutex::new(vec![Memory::default(); count]));
        let (asked, failures, gate, counts) = Default::default();
        Shards { shards, runs_at_shards, asked, failures, gate, runs_scripts, counts }
    }

    /// How many commands each request had since this was asked last.
    pub(crate) fn take_asked(&self) -> Vec<usize> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// The next requests of several commands fail like this.
    pub(crate) fn fail(&self, failures: impl IntoIterator<Item = Failure>) {
        self.failures.lock().unwrap().extend(failures);
    }

    /// Carries out nothing while `act` runs, which begins once a first request waits.
    pub(crate) fn hold_up(&self, first: impl FnOnce(), act: impl FnOnce()) {
        let _held = self.gate.lock().unwrap();
        first();
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.asked.lock().unwrap().is_empty() {
            assert!(Instant::now() < deadline, "no request has come");
            std::thread::yield_now();
        }
        act();
    }

    fn count(&self) -> usize {
        self.shards.lock().unwrap().len()
    }
}

/// A time after that of all transactions before.
fn next_timestamp(shards: &mut [Memory]) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let last = shards.iter().filter_map(|shard| shard.timestamp).max().unwrap_or(0);
    let next = now.max(last + 1);
    shards.iter_mut().for_each(|shard| shard.timestamp = Some(next));
    next
}

fn ended(result: Result<Answer, Stop>) -> Result<Vec<u8>, Failure> {
    match result {
        Ok(Answer::Done(answer)) => Ok(answer),
        Ok(Answer::Refused(reason)) => Err(Failure::refused(String::from_utf8_lossy(&reason))),
        Err(stop) => Err(Failure::refused(format!("stopped: {stop:?}"))),
    }
}

impl Keys for Shards {
    fn shards(&self) -> usize {
        if self.runs_at_shards { self.count() } else { 1 }
    }

    fn shard_of(&self, slot: u16) -> usize {
        if self.runs_at_shards { shard_position(&routing_key(slot), self.count()) } else { 0 }
    }

    fn replicas(&self) -> usize {
        0
    }

    fn runs_at_shards(&self) -> bool {
        self.runs_at_shards
    }

    async fn at_shards(
        &self,
        parts: &[(usize, Vec<u8>)],
        is_read_only: bool,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let commands = |(_, request): &(usize, Vec<u8>)| Request::decode(request).unwrap().commands.len();
        let commands = parts.iter().map(commands).sum();
        self.asked.lock().unwrap().push(commands);
        if commands > 1
            && let Some(failure) = self.failures.lock().unwrap().pop_front()
        {
            return Err(failure);
        }
        let _passes = self.gate.lock().unwrap();
        let mut shards = self.shards.lock().unwrap();
        next_timestamp(&mut shards);
        let answers: Result<Vec<Vec<u8>>, Failure> = parts
            .iter()
            .map(|(at, request)| ended(shards[*at].call(&Commands, request, is_read_only)))
            .collect();
        // A shard reads no more than this in one transaction.
        let is_too_large = |answers: &Vec<Vec<u8>>| answers.iter().map(Vec::len).sum::<usize>() > 10_000_000;
        if is_read_only && answers.as_ref().is_ok_and(is_too_large) {
            return Err(Failure { is_too_large: true, ..Failure::refused("too large") });
        }
        answers
    }

    fn runs_scripts(&self) -> bool {
        self.runs_at_shards && self.runs_scripts
    }

    fn home_of(&self, shard: usize) -> Option<u16> {
        (0..SLOTS).find(|slot| self.shard_of(*slot) == shard)
    }

    async fn scripts_at_shard(
        &self,
        at: usize,
        request: &[u8],
        is_read_only: bool,
    ) -> Result<AtShard, Failure> {
        self.counts.script_bytes.fetch_add(request.len(), Ordering::Relaxed);
        let mut shards = self.shards.lock().unwrap();
        next_timestamp(&mut shards);
        // A shard that gives up keeps nothing of its writes.
        let mut attempt = shards[at].clone();
        let answer = if is_read_only {
            attempt.call(&Scripts::default(), request, true)
        } else {
            Scripts::default().call(&mut attempt, request)
        };
        match answer {
            Ok(Answer::Done(answer)) => {
                shards[at] = attempt;
                self.counts.scripts_run.fetch_add(1, Ordering::Relaxed);
                Ok(AtShard::Done(answer))
            }
            Ok(Answer::Refused(reason)) if reason == UNKNOWN_TEXT.as_bytes() => Ok(AtShard::TextUnknown),
            Ok(Answer::Refused(_)) => Ok(AtShard::GivenUp),
            Err(stop) => Err(Failure::refused(format!("stopped: {stop:?}"))),
        }
    }

    async fn as_transaction(&self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut shards = self.shards.lock().unwrap();
        let timestamp = next_timestamp(&mut shards);
        ended(Commands.call(&mut Union { shards: &mut shards, timestamp }, request))
    }

    async fn by_steps<S: Steps>(
        &self,
        begin: impl Fn(u64) -> Result<S, Failure>,
    ) -> Result<S::Done, Failure> {
        // As other transactions may come in between, an attempt counts only if all is as it was when it began.
        loop {
            let (before, timestamp) = {
                let mut shards = self.shards.lock().unwrap();
                let timestamp = next_timestamp(&mut shards);
                (shards.clone(), timestamp)
            };
            let (mut steps, mut found) = (begin(timestamp)?, None);
            let mut snapshot = before.clone();
            let (writes, done) = loop {
                match steps.next(found.take()).await {
                    Step::Fetch(parts) => {
                        self.counts.rounds.fetch_add(1, Ordering::Relaxed);
                        let mut union = Union { shards: &mut snapshot, timestamp };
                        let mut all = Found::default();
                        for needs in parts {
                            let part = read(&mut union, needs).unwrap();
                            all.keys.extend(part.keys);
                            all.ranges.extend(part.ranges);
                        }
                        found = Some(all);
                    }
                    Step::Write(writes, done) => break (writes, Ok(done)),
                    Step::Refuse(failure) => break (Vec::new(), Err(failure)),
                }
            };
            let mut shards = self.shards.lock().unwrap();
            if shards.iter().zip(&before).any(|(now, then)| now.pairs != then.pairs) {
                continue;
            }
            let count = shards.len();
            for (key, value) in writes {
                shards[shard_position(&key, count)].apply([(key, value)]);
            }
            return done;
        }
    }
}

/// All shards as one store.
struct Union<'a> {
    shards: &'a mut Vec<Memory>,
    timestamp: u64,
}

impl Union<'_> {
    fn of(&mut self, record: &[u8]) -> &mut Memory {
        let count = self.shards.len();
        &mut self.shards[shard_position(record, count)]
    }
}

impl Store for Union<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.of(key).get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.of(key).put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        self.of(key).delete(key)
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>, Stop> {
        let mut all = BTreeMap::new();
        for shard in &mut *self.shards {
            all.extend(shard.scan(from, to, limit, direction)?);
        }
        Ok(match direction {
            Direction::Ascending => all.into_iter().take(limit).collect(),
            Direction::Descending => all.into_iter().rev().take(limit).collect(),
        })
    }

    fn timestamp(&self) -> Option<u64> {
        Some(self.timestamp)
    }
}

/// One database.
struct One(Shards, Rc<Joint>);

impl Databases for One {
    type Keys = Shards;

    fn count(&self) -> usize {
        1
    }

    async fn open(&self, _: usize, _: bool) -> Result<Shards, Failure> {
        Ok(self.0.clone())
    }

    fn forget(&self, _: usize) {}

    fn joint(&self) -> &Rc<Joint> {
        &self.1
    }

    async fn announce(&self, _: Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }
}

struct MemoryDoor {
    shards: Shards,
    facts: Facts,
}

impl Door for MemoryDoor {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn serve<'a>(
        &'a self,
        connection: Connection,
        session: Session,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let database = One(self.shards.clone(), session.shared());
        Box::pin(quorate_redis::serve(connection, database, &self.facts))
    }

    fn too_many(&self) -> Vec<u8> {
        b"-ERR max number of clients reached\r\n".to_vec()
    }

    fn speaks_tls(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// Opens a door to so many shards in memory, which run commands and scripts if they run anything.
pub(crate) fn open(shards: usize, runs_at_shards: bool, limits: Limits) -> (Gateway, SocketAddr) {
    let (gateway, address, _) = open_with(shards, (runs_at_shards, true), limits);
    (gateway, address)
}

/// The same; shards may run commands, and scripts too. Their requests are counted.
pub(crate) fn open_with(
    shards: usize,
    (runs_at_shards, runs_scripts): (bool, bool),
    limits: Limits,
) -> (Gateway, SocketAddr, Arc<Counts>) {
    let shards = Shards::new(shards, runs_at_shards, runs_scripts);
    let counts = Arc::clone(&shards.counts);
    let (gateway, address) = open_to(shards, limits);
    (gateway, address, counts)
}

/// Opens a door to a shard in memory that is looked at.
pub(crate) fn open_observed() -> (Gateway, SocketAddr, Shards) {
    let shards = Shards::new(1, true, true);
    let (gateway, address) = open_to(shards.clone(), Limits::default());
    (gateway, address, shards)
}

fn open_to(shards: Shards, limits: Limits) -> (Gateway, SocketAddr) {
    let door = MemoryDoor { shards, facts: Facts::default() };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let options = Options { limits, ..Options::new(Vec::new()) };
    (Gateway::start(options, vec![(listener, Arc::new(door))]).unwrap(), address)
}
