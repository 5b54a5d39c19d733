//! An attempt of a transaction with scripts: its parts, on a thread of their own, and the steps that its transaction sees.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use bytes::Bytes;
use quorate_gateway::{Permit, Right, Scope};
use quorate_procedure::fetched::{Called, Found, Sequence};
use quorate_procedure::{Answer, Needs, Procedure, Stop, Store};
use quorate_redis_commands::{
    Command, Commands, KEY_BYTES_MAX, MORE, Reply, Request, find, record_of, slot_of,
};
use quorate_redis_scripts::{Host, Limits, Outcome, Over, Program, Run, Script, Shared, run};
use tokio::sync::mpsc as channel;

use super::{Alive, Scripts, lock, lost, spawn};
use crate::channels::{Channels, Message};
use crate::databases::{Keys, Step, Steps};
use crate::failure::Failure;
use crate::functions::{Asks, Ended, INDEX, Libraries, Records};
use crate::permission::{self, Wanted};
use crate::plan::{Decoded, Watched, decode};

/// A script may read and write so many bytes before its transaction, which may do less, refuses that.
const TRANSACTION_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A job may publish messages of so many bytes.
const PUBLISHED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// So many keys of a job are looked up before it begins, at most: what is read beyond a transaction's bounds would fail it.
const FIRST_KEYS_MAX: usize = 1_000;

/// So many keys of a job that may have been written are remembered. A client that waits for others finds them later.
const WROTE_MAX: usize = 100;

/// So many lines of the scripts of a job are logged,
const LOGGED_MAX: usize = 100;

/// of so many bytes each.
const LOGGED_BYTES_MAX: usize = 1024;

/// A part of a transaction with scripts.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A command.
    Command(Vec<Vec<u8>>),
    /// A script with its keys and arguments.
    Script { script: Arc<Script>, keys: Vec<Vec<u8>>, arguments: Vec<Vec<u8>>, is_read_only: bool },
    /// A function of a library with its keys and arguments.
    Function { name: String, keys: Vec<Vec<u8>>, arguments: Vec<Vec<u8>>, is_read_only: bool },
    /// The request to libraries, with the function that ran when it was asked.
    Library(Asks, Box<Reply>),
    /// A message to be published once the transaction has committed.
    Publish(Message),
    /// A reply that is known already.
    Reply(Reply),
}

impl Item {
    /// The name of a function that is called, and the command that calls it.
    fn function(&self) -> Option<(String, Vec<Vec<u8>>)> {
        let Item::Function { name, keys, arguments, is_read_only } = self else { return None };
        let command = if *is_read_only { "fcall_ro" } else { "fcall" };
        let head = [command.to_owned(), name.clone(), keys.len().to_string()].map(String::into_bytes);
        let words = head.into_iter().chain(keys.iter().chain(arguments).cloned());
        Some((name.clone(), words.collect()))
    }

    /// Refuses what its client has no right to, as far as it names that.
    ///
    /// # Errors
    /// It names a key, or a channel, that the client may not use so.
    pub(crate) fn check(&self, permit: &Permit) -> Result<(), Failure> {
        match self {
            Item::Command(words) => match words.first().and_then(|name| find(name)) {
                Some(command) => permission::check(permit, &command, words),
                None => Ok(()),
            },
            Item::Script { keys, is_read_only, .. } | Item::Function { keys, is_read_only, .. } => {
                permission::check_keys(permit, !is_read_only, keys)
            }
            Item::Library(asks, _) => {
                let right = if asks.writes() { deploy } else { read_all };
                let denied = |denied| Failure::denied(&denied, Wanted::Command("function"));
                permit.require_right(right).map_err(denied)
            }
            Item::Publish(message) => may_publish(permit, &message.channel),
            Item::Reply(_) => Ok(()),
        }
    }

    /// The keys that it names.
    pub(super) fn named_keys(&self) -> Vec<&Vec<u8>> {
        match self {
            Item::Command(words) => {
                let command = words.first().and_then(|name| find(name));
                let positions = command.map_or_else(Vec::new, |command| command.key_positions(words));
                positions.into_iter().filter_map(|at| words.get(at)).collect()
            }
            Item::Script { keys, .. } | Item::Function { keys, .. } => keys.iter().collect(),
            Item::Library(..) | Item::Publish(_) | Item::Reply(_) => Vec::new(),
        }
    }

    /// A command of a client.
    pub(crate) fn command(words: &[Bytes]) -> Self {
        Item::Command(words.iter().map(|word| word.to_vec()).collect())
    }

    /// True if it may write.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Item::Command(_) => true,
            Item::Script { is_read_only, .. } | Item::Function { is_read_only, .. } => !is_read_only,
            Item::Library(asks, _) => asks.writes(),
            Item::Publish(_) | Item::Reply(_) => false,
        }
    }
}

fn deploy(keyspace: &str) -> Right<'_> {
    Right::Deploy { keyspace }
}

fn read_all(keyspace: &str) -> Right<'_> {
    Right::Read { keyspace, scope: Scope::Whole }
}

fn may_publish(permit: &Permit, channel: &[u8]) -> Result<(), Failure> {
    let denied = |denied| Failure::denied(&denied, Wanted::Channel);
    permit.require_beside(Right::Publish { channel }).map_err(denied)
}

/// Parts that are one transaction, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) items: Vec<Item>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) seed: u64,
    /// The rights of its client.
    permit: Permit,
    /// The records that it reads before it begins, in parts that may be read each by itself.
    first: Vec<Needs>,
}

impl Job {
    /// A transaction of these parts, with what was watched.
    pub(crate) fn new(items: Vec<Item>, watched: Vec<Watched>, seed: u64, keys: &impl Keys) -> Self {
        let permit = Permit::everything();
        let mut job = Job { items, watched, seed, permit, first: Vec::new() };
        job.first = job.first_needs(keys);
        job
    }

    /// The same, for a client that may touch so much: each command of a script is judged by itself.
    pub(crate) fn with_permit(self, permit: Permit) -> Self {
        Job { permit, ..self }
    }

    /// The records that it reads before it begins, all in one round: those at which commands look first, of every key that is named.
    ///
    /// A job that only reads does so at one time, so that nothing is compared in the end. The reads of one that may write are compared in any case, so each shard is asked
    /// by itself: shards that are read together have to agree on a time.
    fn first_needs(&self, keys: &impl Keys) -> Vec<Needs> {
        let is_together = !self.items.iter().any(Item::writes);
        let mut needs: BTreeMap<usize, Needs> = BTreeMap::new();
        let mut add = |slot, record: &[u8]| {
            let part = if is_together { 0 } else { keys.shard_of(slot) };
            needs.entry(part).or_default().key(record);
        };
        if self.items.iter().any(|item| matches!(item, Item::Function { .. })) {
            add(0, INDEX);
        }
        let named = self.items.iter().flat_map(Item::named_keys).map(Vec::as_slice);
        let named = self.watched.iter().map(|(key, _)| key.as_ref()).chain(named);
        // The record of a longer key cannot be asked for: commands refuse that key.
        for key in named.filter(|key| key.len() <= KEY_BYTES_MAX).take(FIRST_KEYS_MAX) {
            add(slot_of(key), &record_of(key));
        }
        needs.into_values().collect()
    }
}

impl Scripts {
    /// Begins an attempt of a job, at this time.
    pub(crate) fn begin(self: &Arc<Self>, job: &Job, timestamp: u64) -> Result<Running, Failure> {
        let (told, questions) = channel::unbounded_channel();
        let (answers, heard) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let first = job.first.clone();
        let (job, scripts, flag) = (job.clone(), Arc::clone(self), Arc::clone(&stop));
        spawn(move || {
            let sequence = Sequence::at(timestamp);
            let attempt = Attempt {
                sequence,
                told,
                heard,
                timestamp,
                seed: job.seed,
                permit: job.permit.clone(),
                failure: None,
                done: Done::default(),
                published_bytes: 0,
                logged: 0,
                channels: Arc::clone(&scripts.channels),
            };
            scripts.attempt(&job, attempt, flag);
        })?;
        // The thread begins with what is found.
        Ok(Running { first: Some(first), questions, answers, stop })
    }

    /// An attempt of a job, on a thread of its own.
    fn attempt(&self, job: &Job, attempt: Attempt, stop: Arc<AtomicBool>) {
        let function = job.items.iter().find_map(Item::function);
        let alive = Alive { since: Instant::now(), stop: Arc::clone(&stop), function };
        let number = {
            let mut running = lock(&self.running);
            let number = running.last_key_value().map_or(0, |(last, _)| last + 1);
            running.insert(number, alive);
            number
        };
        let host = Rc::new(RefCell::new(attempt));
        let begun = host.borrow_mut().begin();
        let result = begun.map_err(|Over| lost()).and_then(|()| self.carry_out(job, &host, &stop));
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
        if !job.watched.is_empty() {
            let watched = job.watched.iter().map(|(key, mark)| (key.as_ref(), *mark)).collect();
            let request = Request { seed: job.seed, clock: 0, watched, commands: Vec::new() };
            let answer = host.borrow_mut().request(&request);
            if answer.map_err(|Over| over(host))?.is_none() {
                return Ok(None);
            }
        }
        let mut replies = Vec::with_capacity(job.items.len());
        // Scripts of one transaction have their time together: it keeps a place of the door, and a snapshot, for as long.
        let begun = Instant::now();
        for item in &job.items {
            let time_max = self.limits.time_max.saturating_sub(begun.elapsed());
            let limits = Limits { time_max, ..self.limits.clone() };
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
                    let program = Program::Script(script);
                    let one =
                        Run { program, keys, arguments, is_read_only: *is_read_only, stop: Arc::clone(stop) };
                    let outcome = run(&one, &limits, host);
                    if !matches!(outcome, Outcome::Invalid(_)) {
                        lock(&self.kept).keep(script);
                    }
                    concluded(outcome, host)?
                }
                Item::Function { name, keys, arguments, is_read_only } => {
                    let libraries = self.libraries(host, &limits, stop);
                    let found = libraries.find(name, *is_read_only).map_err(|ended| given_up(ended, host))?;
                    match found {
                        Ok(library) => {
                            let program = Program::Function(&library, name);
                            let is_read_only = *is_read_only;
                            let stop = Arc::clone(stop);
                            let one = Run { program, keys, arguments, is_read_only, stop };
                            concluded(run(&one, &limits, host), host)?
                        }
                        Err(reply) => reply,
                    }
                }
                Item::Library(asks, runs) => {
                    let reply = self.libraries(host, &limits, stop).ask(asks);
                    let reply = reply.map_err(|ended| given_up(ended, host))?;
                    if matches!(asks, Asks::Stats) { stats(runs, reply) } else { reply }
                }
            });
        }
        Ok(Some(replies))
    }
}

impl Scripts {
    fn libraries<'a>(
        &'a self,
        host: &'a Shared<Attempt>,
        limits: &'a Limits,
        stop: &'a Arc<AtomicBool>,
    ) -> Libraries<'a, Attempt> {
        Libraries { host, limits, stop, cache: &self.libraries }
    }
}

/// Why an attempt cannot go on, if its transaction is over.
fn over(host: &Shared<Attempt>) -> Failure {
    host.borrow_mut().failure.take().unwrap_or_else(lost)
}

/// The reply of a script, if its transaction goes on.
fn concluded(outcome: Outcome, host: &Shared<Attempt>) -> Result<Reply, Failure> {
    match outcome {
        Outcome::Ended(reply) | Outcome::Invalid(reply) => Ok(reply),
        Outcome::Stopped(reply) => Err(given_up(Ended::Stopped(reply), host)),
        Outcome::Over => Err(given_up(Ended::Over, host)),
    }
}

fn given_up(ended: Ended, host: &Shared<Attempt>) -> Failure {
    match ended {
        Ended::Stopped(Reply::Error(text)) => Failure { text, is_too_large: false, is_stale: false },
        Ended::Stopped(_) | Ended::Over => over(host),
    }
}

/// The reply to `FUNCTION STATS`.
fn stats(runs: &Reply, counts: Reply) -> Reply {
    Reply::Map(vec![
        (Reply::bulk("running_script"), runs.clone()),
        (Reply::bulk("engines"), Reply::Map(vec![(Reply::bulk("LUA"), counts)])),
    ])
}

/// The result of a job.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The replies of all parts; none if something that is watched has changed.
    pub(crate) replies: Option<Vec<Reply>>,
    /// Keys that may have been written, as many as are remembered: clients may wait for them.
    pub(crate) wrote: Vec<Bytes>,
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
    /// The rights of its client.
    permit: Permit,
    /// Why it cannot go on.
    failure: Option<Failure>,
    /// The effects of the transaction once it commits.
    done: Done,
    published_bytes: usize,
    /// How many lines were logged.
    logged: usize,
    channels: Arc<Channels>,
}

impl Attempt {
    /// Takes in what was read before it begins.
    fn begin(&mut self) -> Result<(), Over> {
        // An error means that nobody waits for the transaction any more.
        self.sequence.found(self.heard.recv().map_err(|_| Over)?);
        Ok(())
    }

    fn fail<T>(&mut self, failure: Failure) -> Result<T, Over> {
        self.failure = Some(failure);
        Err(Over)
    }

    /// Publishes a message if the transaction commits; replies how many would receive it now.
    fn publish_message(&mut self, message: Message) -> Result<Reply, Over> {
        if let Err(failure) = may_publish(&self.permit, &message.channel) {
            return Ok(failure.reply());
        }
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
        let answer = self.call_procedure(&Commands, &request.encode())?;
        match decode(&answer) {
            Ok(Decoded::Replies(replies)) => Ok(Some(replies)),
            Ok(Decoded::Changed) => Ok(None),
            Ok(Decoded::Later) => self.fail(lost()),
            Err(failure) => self.fail(failure),
        }
    }

    /// Calls a procedure over what the transaction has read and written so far.
    fn call_procedure(&mut self, procedure: &dyn Procedure, arguments: &[u8]) -> Result<Vec<u8>, Over> {
        loop {
            if self.sequence.bytes() > TRANSACTION_BYTES_MAX {
                return self.fail(Failure::too_large());
            }
            match self.sequence.next(procedure, arguments) {
                Called::Misses(needs) => {
                    // An error means that nobody waits for the transaction any more.
                    self.told.send(Told::Missing(needs)).map_err(|_| Over)?;
                    self.sequence.found(self.heard.recv().map_err(|_| Over)?);
                }
                Called::Done { answer, .. } => return Ok(answer),
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
        if let Some(Err(failure)) =
            find(&words[0]).map(|command| permission::check(&self.permit, &command, words))
        {
            return Ok(failure.reply());
        }
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let commands = vec![words.iter().map(Vec::as_slice).collect()];
        let request = Request { seed: self.seed, clock: 0, watched: Vec::new(), commands };
        let replies = self.request(&request)?;
        if let Some(command) = find(&words[0]).filter(Command::writes) {
            let keys = command.key_positions(words).into_iter().filter_map(|at| words.get(at));
            let room = WROTE_MAX.saturating_sub(self.done.wrote.len());
            self.done.wrote.extend(keys.take(room).map(|key| Bytes::copy_from_slice(key)));
        }
        Ok(match replies.and_then(|mut replies| replies.pop()) {
            Some(reply) if reply == MORE => {
                Reply::error("ERR there is more than one transaction removes: some is left")
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

/// Reads a record, or writes it: what is asked of libraries is no command.
struct OneRecord<'a> {
    record: &'a [u8],
    /// The value that it gets, if it is written; none deletes.
    written: Option<Option<&'a [u8]>>,
}

impl Procedure for OneRecord<'_> {
    fn call(&self, store: &mut dyn Store, _: &[u8]) -> Result<Answer, Stop> {
        match self.written {
            Some(Some(value)) => store.put(self.record, value)?,
            Some(None) => store.delete(self.record)?,
            None => {
                let value = store.get(self.record)?;
                // A byte before the value tells it from none.
                let answer = value.map_or(Vec::new(), |value| [&[1], value.as_slice()].concat());
                return Ok(Answer::Done(answer));
            }
        }
        Ok(Answer::Done(Vec::new()))
    }
}

impl Records for Attempt {
    fn read(&mut self, record: &[u8]) -> Result<Option<Vec<u8>>, Over> {
        let answer = self.call_procedure(&OneRecord { record, written: None }, &[])?;
        Ok(answer.split_first().map(|(_, value)| value.to_vec()))
    }

    fn write(&mut self, record: &[u8], value: Option<&[u8]>) -> Result<(), Over> {
        self.call_procedure(&OneRecord { record, written: Some(value) }, &[])?;
        Ok(())
    }
}

/// An attempt, as its transaction sees it. The script ends if it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    /// The records to read before its thread goes on.
    first: Option<Vec<Needs>>,
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
        if let Some(first) = self.first.take() {
            if !first.is_empty() {
                return Step::Fetch(first);
            }
            let _ = self.answers.send(Found::default());
        }
        if let Some(found) = found {
            // An error means that the thread has ended, which the question tells.
            let _ = self.answers.send(found);
        }
        match self.questions.recv().await {
            Some(Told::Missing(needs)) => Step::Fetch(vec![needs]),
            Some(Told::Done(sequence, done)) => Step::Write(sequence.into_writes(), done),
            Some(Told::Failed(failure)) => Step::Refuse(failure),
            None => Step::Refuse(lost()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_scripts_of_a_transaction_have_their_time_together() {
        let limits =
            Limits { time_max: Duration::from_millis(500), steps_max: u64::MAX, ..Limits::default() };
        let scripts = Arc::new(Scripts { limits, ..Scripts::new(Arc::default()) });
        let script =
            Arc::new(Script::new(b"local n = 0 while n < 200000 do n = n + 1 end return n".to_vec()));
        let one = || Item::Script {
            script: Arc::clone(&script),
            keys: Vec::new(),
            arguments: Vec::new(),
            is_read_only: true,
        };
        let run = async |count: usize| {
            let job = Job {
                items: (0..count).map(|_| one()).collect(),
                watched: Vec::new(),
                seed: 1,
                permit: Permit::everything(),
                first: Vec::new(),
            };
            scripts.begin(&job, 1).unwrap().next(None).await
        };
        assert!(matches!(run(2).await, Step::Write(..)), "each of them takes some milliseconds");
        let Step::Refuse(failure) = run(5_000).await else { panic!("they are not stopped") };
        assert!(failure.text.contains("has run for more than"), "{}", failure.text);
    }
}
