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
//!
//! | file | role |
//! |---|---|
//! | `attempt` | the parts of a transaction, and how they are carried out |
//! | `shard` | those that a shard carries out, as it does commands |

mod attempt;
mod shard;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_redis_commands::Reply;
use quorate_redis_scripts::{Limits, STACK_BYTES, Script, digest};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

pub(crate) use attempt::{Done, Item, Job};

use crate::channels::Channels;
use crate::failure::Failure;
use crate::functions::{Asks, Cache};
use crate::local::integer;

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

/// `SCRIPT KILL` ends scripts that have run for so long: shorter ones end by themselves.
const KILLED_AFTER: Duration = Duration::from_millis(100);

/// A script or a function that runs.
#[derive(Debug)]
struct Alive {
    since: Instant,
    stop: Arc<AtomicBool>,
    /// The name of a function, and the command that has called it.
    function: Option<(String, Vec<Vec<u8>>)>,
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
    /// The libraries that were called before.
    libraries: Cache,
}

impl Scripts {
    /// No scripts yet, which would publish to these channels.
    pub(crate) fn new(channels: Arc<Channels>) -> Self {
        Scripts {
            channels,
            libraries: Cache::default(),
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

impl Scripts {
    /// A request of a client to libraries.
    fn asked(&self, words: &[Bytes]) -> Item {
        if words[1].eq_ignore_ascii_case(b"kill") {
            return Item::Reply(self.kill(true));
        }
        match Asks::read(words) {
            Ok(asks) => Item::Library(asks, Box::new(self.function_that_runs())),
            Err(reply) => Item::Reply(reply),
        }
    }

    /// The function of this door that has run for longest, as `FUNCTION STATS` tells it.
    fn function_that_runs(&self) -> Reply {
        let running = lock(&self.running);
        let functions = running.values().filter_map(|alive| Some((alive, alive.function.as_ref()?)));
        let Some((alive, (name, command))) = functions.min_by_key(|(alive, _)| alive.since) else {
            return Reply::Null;
        };
        let millis = alive.since.elapsed().as_millis();
        Reply::Map(vec![
            (Reply::bulk("name"), Reply::bulk(name)),
            (Reply::bulk("command"), Reply::Array(command.iter().map(Reply::bulk).collect())),
            (Reply::bulk("duration_ms"), Reply::Integer(i64::try_from(millis).unwrap_or(i64::MAX))),
        ])
    }

    /// A script that a client calls: `EVAL`, `EVALSHA` and their variants that only read; or a function, or what is asked of libraries.
    pub(crate) fn called(&self, name: &str, words: &[Bytes]) -> Item {
        match name {
            "function" => return self.asked(words),
            "fcall" | "fcall_ro" => return call_function(name, words),
            _ => {}
        }
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
            b"kill" => self.kill(false),
            _ => Reply::error("ERR syntax error"),
        }
    }

    fn flush(&self) -> Reply {
        *lock(&self.kept) = Kept::default();
        Reply::OK
    }

    /// Ends the scripts that have run for some time, or the functions. None of them has committed, so nothing of them stands.
    fn kill(&self, functions: bool) -> Reply {
        let running = lock(&self.running);
        let is_meant =
            |alive: &&Alive| alive.function.is_some() == functions && alive.since.elapsed() >= KILLED_AFTER;
        let mut killed = running.values().filter(is_meant).peekable();
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
}

/// A function that a client calls, by its name.
fn call_function(name: &str, words: &[Bytes]) -> Item {
    let error = |text: &str| Item::Reply(Reply::error(text));
    let Ok(count) = integer(&words[2]) else { return error("ERR Bad number of keys provided") };
    let Ok(count) = usize::try_from(count) else { return error("ERR Number of keys can't be negative") };
    if count > words.len() - 3 {
        return error("ERR Number of keys can't be greater than number of args");
    }
    let owned = |words: &[Bytes]| words.iter().map(|word| word.to_vec()).collect();
    let (keys, arguments) = words[3..].split_at(count);
    Item::Function {
        name: String::from_utf8_lossy(&words[1]).into_owned(),
        keys: owned(keys),
        arguments: owned(arguments),
        is_read_only: name == "fcall_ro",
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
