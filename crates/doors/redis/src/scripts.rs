//! Scripts: where they are kept, the threads that they run on, and the transactions that they are.
//!
//! ```text
//!   connection ─► Job: commands and scripts ─► a thread of its own: quorate_redis_scripts over a Sequence ─┐ missing, done
//!        ▲                                                                                                 │
//!        └──────────────────── Running, the steps of an interactive transaction ◄──────────────────────────┘
//! ```
//!
//! A script waits for what it reads, and may be hostile: so it has a thread of its own, and the event loop is asked for what is missing. Commands run on that
//! thread too, over what has been read so far, as those of any interactive transaction do. Writes go to the transaction in the end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_procedure::fetched::{Called, Found, Sequence};
use quorate_procedure::{Needs, Stop};
use quorate_redis_commands::{Commands, MORE, Reply, Request, find};
use quorate_redis_scripts::{Host, Limits, Outcome, Over, Run, STACK_BYTES, Script, Shared, digest, run};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc as channel, oneshot};

use crate::channels::{Channels, Message};
use crate::databases::{Step, Steps};
use crate::failure::Failure;
use crate::local::integer;
use crate::plan::{Asked, Decoded, Watched, decode};

/// So many scripts of a door run at a time: others wait.
const RUNNING_MAX: usize = 8;

/// How long a script waits until others are done.
const WAITING_MAX: Duration = Duration::from_secs(5);

/// So many bytes of scripts are kept, with [`KEPT_OVERHEAD_BYTES`] for each. Those that were used longest ago go first.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The cost of each script beside its text, in bytes.
const KEPT_OVERHEAD_BYTES: usize = 1024;

/// How long a script may be, in bytes.
const SCRIPT_BYTES_MAX: usize = 1024 * 1024;

/// A script may read and write so many bytes before its transaction, which may do less, refuses that.
const TRANSACTION_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A job may publish messages of so many bytes.
const PUBLISHED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// So many commands of a job that may have written are remembered. A client that waits for the keys of others finds them later.
const WROTE_MAX: usize = 100;

/// So many lines of the scripts of a job are logged,
const LOGGED_MAX: usize = 100;

/// of so many bytes each.
const LOGGED_BYTES_MAX: usize = 1024;

/// `SCRIPT KILL` ends scripts that have run for so long: shorter ones end by themselves.
const KILLED_AFTER: Duration = Duration::from_millis(100);

/// A script that runs.
#[derive(Debug)]
struct Alive {
    since: Instant,
    stop: Arc<AtomicBool>,
}

/// Scripts by their digest, each with the time of its last use.
#[derive(Debug, Default)]
struct Kept {
    scripts: BTreeMap<String, (Arc<Script>, u64)>,
    bytes: usize,
    uses: u64,
}

/// The scripts of a door.
#[derive(Debug)]
pub(crate) struct Scripts {
    kept: Mutex<Kept>,
    running: Mutex<BTreeMap<u64, Alive>>,
    places: Semaphore,
    limits: Limits,
    /// The channels that scripts publish to.
    channels: Arc<Channels>,
}

impl Scripts {
    /// No scripts yet, which would publish to these channels.
    pub(crate) fn new(channels: Arc<Channels>) -> Self {
        Scripts {
            channels,
            kept: Mutex::default(),
            running: Mutex::default(),
            places: Semaphore::new(RUNNING_MAX),
            limits: Limits::default(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cost(script: &Script) -> usize {
    script.bytes() + KEPT_OVERHEAD_BYTES
}

impl Kept {
    fn keep(&mut self, script: &Arc<Script>) {
        self.uses += 1;
        let entry = (Arc::clone(script), self.uses);
        if self.scripts.insert(script.sha().to_owned(), entry).is_none() {
            self.bytes += cost(script);
        }
        while self.bytes > KEPT_BYTES_MAX {
            let oldest = self.scripts.iter().min_by_key(|(_, (_, used))| *used).map(|(sha, _)| sha.clone());
            let Some((script, _)) = oldest.and_then(|sha| self.scripts.remove(&sha)) else { break };
            self.bytes -= cost(&script);
        }
    }

    fn find(&mut self, sha: &[u8]) -> Option<Arc<Script>> {
        let sha = String::from_utf8_lossy(sha).to_lowercase();
        self.uses += 1;
        let (script, used) = self.scripts.get_mut(&sha)?;
        *used = self.uses;
        Some(Arc::clone(script))
    }
}

/// A part of a transaction with scripts.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A command.
    Command(Vec<Vec<u8>>),
    /// A script with its keys and arguments.
    Script { script: Arc<Script>, keys: Vec<Vec<u8>>, arguments: Vec<Vec<u8>>, is_read_only: bool },
    /// A message to be published once the transaction has committed.
    Publish(Message),
    /// A reply that is known already.
    Reply(Reply),
}

impl Item {
    /// A command of a client.
    pub(crate) fn command(words: &[Bytes]) -> Self {
        Item::Command(words.iter().map(|word| word.to_vec()).collect())
    }

    /// True if it may write.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Item::Command(_) => true,
            Item::Script { is_read_only, .. } => !is_read_only,
            Item::Publish(_) | Item::Reply(_) => false,
        }
    }
}

/// Parts that are one transaction, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) items: Vec<Item>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) seed: u64,
}

impl Scripts {
    /// A script that a client calls: `EVAL`, `EVALSHA` and their variants that only read.
    pub(crate) fn called(&self, name: &str, words: &[Bytes]) -> Item {
        let count = match integer(&words[2]) {
            Ok(count) => count,
            Err(reply) => return Item::Reply(reply),
        };
        let error = |text: &str| Item::Reply(Reply::error(text));
        let Ok(count) = usize::try_from(count) else {
            return error("ERR Number of keys can't be negative");
        };
        if count > words.len() - 3 {
            return error("ERR Number of keys can't be greater than number of args");
        }
        let script = if name.starts_with("evalsha") {
            lock(&self.kept).find(&words[1])
        } else if words[1].len() > SCRIPT_BYTES_MAX {
            return Item::Reply(too_long());
        } else {
            Some(self.known(&words[1]))
        };
        let Some(script) = script else { return error("NOSCRIPT No matching script. Please use EVAL.") };
        let owned = |words: &[Bytes]| words.iter().map(|word| word.to_vec()).collect();
        let (keys, arguments) = words[3..].split_at(count);
        let is_read_only = name.ends_with("_ro");
        Item::Script { script, keys: owned(keys), arguments: owned(arguments), is_read_only }
    }

    /// A script of this text, which may be kept already.
    fn known(&self, body: &[u8]) -> Arc<Script> {
        let known = lock(&self.kept).find(digest(body).as_bytes());
        known.unwrap_or_else(|| Arc::new(Script::new(body.to_vec())))
    }

    /// `SCRIPT`.
    pub(crate) async fn administer(self: &Arc<Self>, words: &[Bytes]) -> Reply {
        match words[1].to_ascii_lowercase().as_slice() {
            b"load" => self.load(&words[2]).await,
            b"exists" => {
                let mut kept = lock(&self.kept);
                Reply::Array(words[2..].iter().map(|sha| Reply::flag(kept.find(sha).is_some())).collect())
            }
            b"flush" => match &words[2..] {
                [] => self.flush(),
                [how] if how.eq_ignore_ascii_case(b"sync") || how.eq_ignore_ascii_case(b"async") => {
                    self.flush()
                }
                _ => Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
            },
            b"kill" => self.kill(),
            _ => Reply::error("ERR syntax error"),
        }
    }

    fn flush(&self) -> Reply {
        *lock(&self.kept) = Kept::default();
        Reply::OK
    }

    /// Ends the scripts that have run for some time. None of them has committed, so nothing of them stands.
    fn kill(&self) -> Reply {
        let running = lock(&self.running);
        let mut killed = running.values().filter(|alive| alive.since.elapsed() >= KILLED_AFTER).peekable();
        if killed.peek().is_none() {
            return Reply::error("NOTBUSY No scripts in execution right now.");
        }
        killed.for_each(|alive| alive.stop.store(true, Ordering::Relaxed));
        Reply::OK
    }

    async fn load(self: &Arc<Self>, body: &[u8]) -> Reply {
        if body.len() > SCRIPT_BYTES_MAX {
            return too_long();
        }
        let _place = match self.place().await {
            Ok(place) => place,
            Err(failure) => return failure.reply(),
        };
        let (script, scripts) = (self.known(body), Arc::clone(self));
        let (told, answer) = oneshot::channel();
        let compile = move || {
            let reply = match script.check() {
                Ok(()) => {
                    lock(&scripts.kept).keep(&script);
                    Reply::bulk(script.sha())
                }
                Err(reply) => reply,
            };
            // The client may have gone.
            let _ = told.send(reply);
        };
        match spawn(compile) {
            Ok(()) => answer.await.unwrap_or_else(|_| lost().reply()),
            Err(failure) => failure.reply(),
        }
    }

    /// A place among the scripts that run.
    pub(crate) async fn place(&self) -> Result<SemaphorePermit<'_>, Failure> {
        match tokio::time::timeout(WAITING_MAX, self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Failure {
                text: "OVERLOADED as many scripts run as may, and nothing was started: try again in 1000 ms"
                    .to_owned(),
                is_too_large: false,
                is_stale: false,
            }),
        }
    }

    /// Begins an attempt of a job, at this time.
    pub(crate) fn begin(self: &Arc<Self>, job: &Job, timestamp: u64) -> Result<Running, Failure> {
        let (told, questions) = channel::unbounded_channel();
        let (answers, heard) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (job, scripts, flag) = (job.clone(), Arc::clone(self), Arc::clone(&stop));
        spawn(move || {
            let sequence = Sequence::at(timestamp);
            let attempt = Attempt {
                sequence,
                told,
                heard,
                timestamp,
                seed: job.seed,
                failure: None,
                done: Done::default(),
                published_bytes: 0,
                logged: 0,
                channels: Arc::clone(&scripts.channels),
            };
            scripts.attempt(&job, attempt, flag);
        })?;
        Ok(Running { questions, answers, stop })
    }

    /// An attempt of a job, on a thread of its own.
    fn attempt(&self, job: &Job, attempt: Attempt, stop: Arc<AtomicBool>) {
        let alive = Alive { since: Instant::now(), stop: Arc::clone(&stop) };
        let number = {
            let mut running = lock(&self.running);
            let number = running.last_key_value().map_or(0, |(last, _)| last + 1);
            running.insert(number, alive);
            number
        };
        let host = Rc::new(RefCell::new(attempt));
        let result = self.carry_out(job, &host, &stop);
        lock(&self.running).remove(&number);
        let mut attempt = host.borrow_mut();
        let ended = match result {
            Ok(replies) => {
                let done = std::mem::take(&mut attempt.done);
                Told::Done(std::mem::take(&mut attempt.sequence), Done { replies, ..done })
            }
            Err(failure) => Told::Failed(failure),
        };
        // The client may have gone.
        let _ = attempt.told.send(ended);
    }

    /// The replies of all parts; none if something that is watched has changed.
    fn carry_out(
        &self,
        job: &Job,
        host: &Shared<Attempt>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Vec<Reply>>, Failure> {
        let over = |host: &Shared<Attempt>| host.borrow_mut().failure.take().unwrap_or_else(lost);
        if !job.watched.is_empty() {
            let watched = job.watched.iter().map(|(key, mark)| (key.as_ref(), *mark)).collect();
            let request = Request { seed: job.seed, clock: 0, watched, commands: Vec::new() };
            let answer = host.borrow_mut().request(&request);
            if answer.map_err(|Over| over(host))?.is_none() {
                return Ok(None);
            }
        }
        let mut replies = Vec::with_capacity(job.items.len());
        for item in &job.items {
            replies.push(match item {
                Item::Reply(reply) => reply.clone(),
                Item::Publish(message) => {
                    let reply = host.borrow_mut().publish_message(message.clone());
                    reply.map_err(|Over| over(host))?
                }
                Item::Command(words) => {
                    let reply = host.borrow_mut().call(words);
                    reply.map_err(|Over| over(host))?
                }
                Item::Script { script, keys, arguments, is_read_only } => {
                    let one =
                        Run { script, keys, arguments, is_read_only: *is_read_only, stop: Arc::clone(stop) };
                    let outcome = run(&one, &self.limits, host);
                    if !matches!(outcome, Outcome::Invalid(_)) {
                        lock(&self.kept).keep(script);
                    }
                    match outcome {
                        Outcome::Ended(reply) | Outcome::Invalid(reply) => reply,
                        Outcome::Stopped(Reply::Error(text)) => {
                            return Err(Failure { text, is_too_large: false, is_stale: false });
                        }
                        Outcome::Stopped(_) | Outcome::Over => return Err(over(host)),
                    }
                }
            });
        }
        Ok(Some(replies))
    }
}

fn too_long() -> Reply {
    Reply::error(format!("ERR a script may have at most {SCRIPT_BYTES_MAX} bytes"))
}

fn lost() -> Failure {
    Failure::refused("the script has lost its transaction, and nothing was done")
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().name("redis-script".to_owned()).stack_size(STACK_BYTES);
    match thread.spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(Failure::refused(format!("there is no thread for the script, and nothing was done: {error}")))
        }
    }
}

/// The result of a job.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The replies of all parts; none if something that is watched has changed.
    pub(crate) replies: Option<Vec<Reply>>,
    /// Commands that may have written, as many as are remembered: clients may wait for their keys.
    pub(crate) wrote: Vec<Asked>,
    /// The messages to publish now that it has committed, in their order.
    pub(crate) published: Vec<Message>,
}

/// The messages of the thread of an attempt.
enum Told {
    /// It has to know this.
    Missing(Needs),
    /// It is done, with these writes and replies.
    Done(Sequence, Done),
    /// It cannot go on.
    Failed(Failure),
}

/// An attempt, on its thread.
struct Attempt {
    sequence: Sequence,
    told: channel::UnboundedSender<Told>,
    heard: mpsc::Receiver<Found>,
    timestamp: u64,
    seed: u64,
    /// Why it cannot go on.
    failure: Option<Failure>,
    /// What is done once it commits.
    done: Done,
    published_bytes: usize,
    /// How many lines were logged.
    logged: usize,
    channels: Arc<Channels>,
}

impl Attempt {
    fn fail<T>(&mut self, failure: Failure) -> Result<T, Over> {
        self.failure = Some(failure);
        Err(Over)
    }

    /// Publishes a message if the transaction commits; replies how many would receive it now.
    fn publish_message(&mut self, message: Message) -> Result<Reply, Over> {
        self.published_bytes += message.cost();
        if self.published_bytes > PUBLISHED_BYTES_MAX {
            let reason = format!(
                "scripts of one transaction may publish at most {PUBLISHED_BYTES_MAX} bytes, and nothing was done"
            );
            return self.fail(Failure::refused(reason));
        }
        let count = self.channels.receivers(&message);
        self.done.published.push(message);
        Ok(Reply::count(count))
    }

    /// Carries out a request; none if something that it watches has changed.
    fn request(&mut self, request: &Request<'_>) -> Result<Option<Vec<Reply>>, Over> {
        let request = request.encode();
        loop {
            if self.sequence.bytes() > TRANSACTION_BYTES_MAX {
                return self.fail(Failure::too_large());
            }
            match self.sequence.next(&Commands, &request) {
                Called::Misses(needs) => {
                    // An error means that nobody waits for the transaction any more.
                    self.told.send(Told::Missing(needs)).map_err(|_| Over)?;
                    self.sequence.found(self.heard.recv().map_err(|_| Over)?);
                }
                Called::Done { answer, .. } => {
                    return match decode(&answer) {
                        Ok(Decoded::Replies(replies)) => Ok(Some(replies)),
                        Ok(Decoded::Changed) => Ok(None),
                        Ok(Decoded::Later) => self.fail(lost()),
                        Err(failure) => self.fail(failure),
                    };
                }
                Called::Refused(reason) => {
                    return self.fail(Failure::refused(String::from_utf8_lossy(&reason)));
                }
                Called::Stopped(Stop::TooLarge) => return self.fail(Failure::too_large()),
                Called::Stopped(stop) => {
                    let text = format!("a command fails on what it has read, and nothing was done: {stop:?}");
                    return self.fail(Failure::refused(text));
                }
            }
        }
    }
}

impl Host for Attempt {
    fn call(&mut self, words: &[Vec<u8>]) -> Result<Reply, Over> {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let commands = vec![words.iter().map(Vec::as_slice).collect()];
        let request = Request { seed: self.seed, clock: 0, watched: Vec::new(), commands };
        let replies = self.request(&request)?;
        if let Some(command) =
            find(&words[0]).filter(|command| command.writes() && self.done.wrote.len() < WROTE_MAX)
        {
            let words = words.iter().map(|word| Bytes::copy_from_slice(word)).collect();
            self.done.wrote.push(Asked { command, words });
        }
        Ok(match replies.and_then(|mut replies| replies.pop()) {
            Some(reply) if reply == MORE => {
                Reply::error("ERR there are more keys than one transaction removes: some are left")
            }
            Some(reply) => reply,
            None => Reply::Null,
        })
    }

    fn publish(&mut self, channel: &[u8], content: &[u8], is_shard: bool) -> Result<Reply, Over> {
        match Message::new(channel, content, is_shard) {
            Ok(message) => self.publish_message(message),
            Err(reply) => Ok(reply),
        }
    }

    /// At the level of the node that is for developers, whatever a script thinks of it.
    fn log(&mut self, level: u8, text: &[u8]) {
        self.logged += 1;
        if self.logged <= LOGGED_MAX {
            let text = String::from_utf8_lossy(&text[..text.len().min(LOGGED_BYTES_MAX)]);
            tracing::debug!(level, %text, "a script logs");
        }
    }

    fn now(&self) -> u64 {
        self.timestamp
    }
}

/// An attempt, as its transaction sees it. The script ends if it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    questions: channel::UnboundedReceiver<Told>,
    answers: mpsc::Sender<Found>,
    stop: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Steps for Running {
    type Done = Done;

    async fn next(&mut self, found: Option<Found>) -> Step<Self::Done> {
        if let Some(found) = found {
            // An error means that the thread has ended, which the question tells.
            let _ = self.answers.send(found);
        }
        match self.questions.recv().await {
            Some(Told::Missing(needs)) => Step::Fetch(needs),
            Some(Told::Done(sequence, done)) => Step::Write(sequence.into_writes(), done),
            Some(Told::Failed(failure)) => Step::Refuse(failure),
            None => Step::Refuse(lost()),
        }
    }
}
