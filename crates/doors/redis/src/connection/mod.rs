//! One client, from its first byte to its last.
//!
//! Commands are carried out in the order in which they come. Those of a pipeline that touch keys go together, as many as have come; others end what
//! has been gathered so far. Replies are written before anything more is read: a client that does not take them is not read from.
//!
//! | file | role |
//! |---|---|
//! | `transaction` | `MULTI`, `EXEC`, `WATCH` |
//! | `waiting` | commands that wait until there is something to take |
//! | `subscriptions` | publishing and subscribing |

mod subscriptions;
mod transaction;
mod waiting;

use std::sync::Arc;

use bytes::Bytes;
use quorate_gateway::{Connection, Ended, Password, Right, Scope};
use quorate_redis_commands::{Command, Reply, check, find, unknown_command};
use tokio::time::Instant;

use crate::blocking;
use crate::channels::{Kind, Message, Subscriber};
use crate::codec::{Invalid, Limits, Parser, Version, write_reply};
use crate::databases::Databases;
use crate::execute::Executor;
use crate::failure::Failure;
use crate::local::client::Hello;
use crate::local::clients::{Named, Peer};
use crate::local::{self, Facts, Local};
use crate::permission::{self, Wanted};
use crate::plan::{Asked, Watched};
use crate::reading::Reading;
use crate::scripts::Item;
use subscriptions::change_of;
use transaction::{Multi, Queued};

/// So many commands are gathered from a pipeline before they are carried out.
const GATHERED_MAX: usize = 1_024;

/// The user of a client that names none.
const DEFAULT_USER: &str = "default";

/// The reply to `HELLO` of a client that has to log in first.
const HELLO_NOT_LOGGED_IN: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";

/// Replies are sent once there are so many bytes of them, even if more commands have come.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// The choices of a client, and its transaction.
#[derive(Debug)]
pub(crate) struct State {
    /// As other clients see it.
    pub(crate) peer: Arc<Peer>,
    /// Its last command.
    pub(crate) last: Named,
    pub(crate) version: Version,
    /// Its database.
    pub(crate) number: usize,
    pub(crate) name: Vec<u8>,
    /// Its user, if it has logged in.
    pub(crate) user: Option<String>,
    /// The transaction that it has begun with `MULTI`.
    multi: Option<Multi>,
    /// The keys that it watches, each with its database.
    watched: Vec<(usize, Watched)>,
    /// Its subscriptions; none if there are none.
    pub(crate) subscriber: Option<Subscriber>,
    pub(crate) replies: Replies,
    /// The connection ends once the replies so far are sent.
    pub(crate) is_over: bool,
}

/// Whether a client wants replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    On,
    Off,
    /// Not to the next command.
    Skip,
}

impl State {
    /// Tells it from other clients of this door.
    pub(crate) fn id(&self) -> u64 {
        self.peer.id
    }

    /// Tells others how it is.
    pub(crate) fn tell(&self, connection: &Connection) {
        let subscriptions = self.subscriber.as_ref();
        let count = |kind| subscriptions.map_or(0, |subscriber| subscriber.len(kind));
        let queued = self.multi.as_ref().map(|multi| (multi.len(), multi.bytes));
        let bytes = connection.input.len() + connection.output.len() + queued.map_or(0, |(_, bytes)| bytes);
        self.peer.tell(|told| {
            told.name.clone_from(&self.name);
            told.user.clone_from(&self.user);
            (told.number, told.version, told.command) = (self.number, self.version.number(), self.last);
            told.at = Instant::now();
            told.subscriptions = [Kind::Channel, Kind::Pattern, Kind::Shard].map(count);
            (told.queued, told.watched) = (queued, self.watched.len());
            told.bytes = bytes + subscriptions.map_or(0, Subscriber::bytes);
        });
    }
}

/// True for the first word of a line with which requests of HTTP begin, or which all of them have: a web page, or a program that is made to send
/// requests, can have a browser send commands of its choice behind it.
fn is_of_http(name: &[u8]) -> bool {
    local::is_word(name, "POST") || local::is_word(name, "Host:")
}

/// Serves a client to its end.
pub async fn serve<D: Databases>(connection: Connection, databases: D, facts: &Facts) {
    let seed = getrandom::u64().unwrap_or_default();
    let open = facts.clients.open(connection.peer(), connection.local());
    let state = State {
        peer: Arc::clone(&open.peer),
        last: ("NULL", None),
        version: Version::default(),
        number: 0,
        name: Vec::new(),
        user: None,
        multi: None,
        watched: Vec::new(),
        subscriber: None,
        replies: Replies::default(),
        is_over: false,
    };
    let mut client = Client { connection, databases, facts, state, gathered: Vec::new(), seed };
    if let Err(ended) = client.run().await {
        let words = match &ended {
            Ended::Socket(_) | Ended::Stalled | Ended::Behind | Ended::Killed => None,
            Ended::Denied => {
                Some("-NOAUTH the login has ended, or what is subscribed to may not be heard any more\r\n")
            }
            Ended::TooMuch => Some("-ERR a connection may not hold so much: send less at once\r\n"),
            Ended::NoMemory => Some("-OVERLOADED the door holds as much as it may: try again later\r\n"),
        };
        if let Some(words) = words {
            client.connection.last_words(words.as_bytes());
        }
        tracing::debug!(peer = %client.connection.peer(), %ended, "a connection has ended");
    }
}

struct Client<'a, D> {
    connection: Connection,
    databases: D,
    facts: &'a Facts,
    state: State,
    /// Commands of a pipeline that have not been carried out yet.
    gathered: Vec<Asked>,
    seed: u64,
}

impl<D: Databases> Client<'_, D> {
    async fn run(&mut self) -> Result<(), Ended> {
        self.databases.ready().await;
        let mut parser = Parser::new(Limits::default());
        while !self.state.is_over {
            match parser.next(&mut self.connection.input) {
                Ok(Some(words)) => {
                    if self.state.peer.is_killed() {
                        return Err(Ended::Killed);
                    }
                    if is_of_http(&words[0]) {
                        return self.leave_http().await;
                    }
                    if self.facts.clients.is_paused(|| self.may_write(&words)) {
                        self.pause().await?;
                    }
                    self.take(words).await?;
                    if self.gathered.len() >= GATHERED_MAX {
                        self.carry_out().await?;
                    }
                    if self.connection.output.len() >= OUTPUT_BYTES_MAX {
                        self.write_messages()?;
                        self.send().await?;
                    }
                }
                Ok(None) => {
                    self.carry_out().await?;
                    if !self.receive(parser.kept()).await? {
                        return Ok(());
                    }
                }
                Err(Invalid(text)) => {
                    self.carry_out().await?;
                    self.reply(&Reply::error(text));
                    self.state.is_over = true;
                }
            }
        }
        self.carry_out().await?;
        self.send().await
    }

    /// Ends a connection that speaks HTTP. As in Redis, the commands before are carried out, and no reply of them leaves any more: a web page learns
    /// nothing.
    async fn leave_http(&mut self) -> Result<(), Ended> {
        self.carry_out().await?;
        if self.facts.warns_of_http() {
            tracing::warn!(
                peer = %self.connection.peer(),
                "a request of HTTP has come to the door for Redis, perhaps forged by a web page: its connection is closed, and nothing of what \
                 follows is carried out; this is logged once a minute at most"
            );
        }
        Ok(())
    }

    /// True if a command may write, so that it waits for the end of a pause of writes.
    fn may_write(&self, words: &[Bytes]) -> bool {
        if let Some(command) = find(&words[0]) {
            return command.writes();
        }
        blocking::find(&words[0]).is_some()
            || local::find(&words[0]).is_some_and(|local| match local.name {
                "exec" => self.state.multi.as_ref().is_some_and(|multi| !multi.is_empty()),
                name => local.publishes() || local.is_script() && !name.ends_with("_ro"),
            })
    }

    /// Waits for the end of a pause that another client has asked for.
    async fn pause(&mut self) -> Result<(), Ended> {
        self.carry_out().await?;
        self.send().await?;
        let (facts, peer) = (self.facts, &self.state.peer);
        tokio::select! {
            () = facts.clients.pause_ended() => Ok(()),
            () = peer.killed() => Err(Ended::Killed),
            ended = self.connection.left() => Err(ended),
        }
    }

    /// Writes a reply, if the client wants it.
    fn reply(&mut self, reply: &Reply) {
        let is_wanted = match self.state.replies {
            Replies::On => true,
            Replies::Off => false,
            Replies::Skip => {
                self.state.replies = Replies::On;
                false
            }
        };
        if is_wanted {
            write_reply(&mut self.connection.output, reply, self.state.version);
        }
    }

    fn executor(&self, number: usize) -> Executor<'_, D> {
        Executor { databases: &self.databases, number, seed: self.seed }
    }

    /// Carries out what has been gathered. Replies are sent on the way once there are many.
    async fn carry_out(&mut self) -> Result<(), Ended> {
        let asked = std::mem::take(&mut self.gathered);
        self.facts.count(asked.len());
        let mut rest = asked.as_slice();
        while !rest.is_empty() {
            let mut executor = self.executor(self.state.number);
            let replies = executor.run_some(rest).await;
            self.seed = executor.seed;
            self.facts.bells.ring(self.state.number, &rest[..replies.len()]);
            replies.iter().for_each(|reply| self.reply(reply));
            rest = &rest[replies.len()..];
            if self.connection.output.len() >= OUTPUT_BYTES_MAX {
                self.send().await?;
            }
        }
        Ok(())
    }

    /// Carries out one command, and rings for the clients that wait for its keys.
    async fn run_one(&mut self, asked: Asked) -> Reply {
        let number = self.state.number;
        let mut executor = self.executor(number);
        let mut replies = executor.run_some(std::slice::from_ref(&asked)).await;
        self.seed = executor.seed;
        self.facts.bells.ring(number, [&asked]);
        replies.pop().unwrap_or(Reply::Null)
    }

    /// Takes the next command.
    async fn take(&mut self, words: Vec<Bytes>) -> Result<(), Ended> {
        if let Some(reply) = self.state.refusal(&words) {
            return self.refuse(reply).await;
        }
        if let Err(failure) = self.admit(&words) {
            return self.refuse(failure.reply()).await;
        }
        if let Some(command) = find(&words[0]).filter(|command| !command.is_internal()) {
            self.state.last = (command.name, None);
            let refused = check(&command, &words).err().or_else(|| self.refusal_of(&command, &words));
            match refused.map_or(Ok(()), Err) {
                Ok(()) if self.state.multi.is_none() => {
                    let asked = Asked { command, words };
                    match Reading::find(&asked).transpose() {
                        Some(reading) => self.read_on(reading).await?,
                        None => self.gathered.push(asked),
                    }
                }
                Ok(()) => self.queue(Queued::Keys(Asked { command, words })),
                Err(reply) => self.refuse(reply).await?,
            }
            return Ok(());
        }
        if let Some(waits) = blocking::find(&words[0]) {
            self.state.last = (waits.name, None);
            return match waits.check(&words) {
                Ok(()) => {
                    let wait = waits.read(&words);
                    let asked = wait.as_ref().ok().map(|wait| &wait.asked);
                    let refused = asked.and_then(|asked| self.refusal_of(&asked.command, &asked.words));
                    match refused {
                        Some(reply) => self.refuse(reply).await,
                        None if self.state.multi.is_some() => {
                            self.queue(Queued::Waits(wait, words));
                            Ok(())
                        }
                        None => self.wait_for(wait).await,
                    }
                }
                Err(reply) => self.refuse(reply).await,
            };
        }
        let Some(local) = local::find(&words[0]) else {
            let reply = local::left_out::reply(&words[0]).unwrap_or_else(|| unknown_command(&words));
            return self.refuse(reply).await;
        };
        self.state.last = local.named(&words);
        match local.check(&words) {
            Ok(()) => {}
            Err(Reply::Error(text)) if local.name == "exec" => {
                self.carry_out().await?;
                self.state.multi = None;
                self.state.watched.clear();
                let reason = text.strip_prefix("ERR ").unwrap_or(&text);
                let text = format!("EXECABORT Transaction discarded because of: {reason}");
                self.reply(&Reply::Error(text));
                return Ok(());
            }
            Err(reply) => return self.refuse(reply).await,
        }
        if let Err(failure) = self.may_run(local, &words) {
            return self.refuse(failure.reply()).await;
        }
        self.carry_out().await?;
        self.facts.count(1);
        if let Some(change) = change_of(local.name) {
            return self.change_subscriptions(change, &words[1..]).await;
        }
        match local.name {
            "multi" => self.begin(),
            "exec" => self.execute().await,
            "discard" => self.discard(),
            "watch" => self.watch(&words[1..]).await,
            "quit" | "reset" => self.run_local(local, &words).await,
            _ if self.state.multi.is_some() => self.queue(Queued::Local(local, words)),
            _ => self.run_local(local, &words).await,
        }
        Ok(())
    }

    /// Refuses a client that has to log in first, or has given more commands than it may for now.
    fn admit(&self, words: &[Bytes]) -> Result<(), Failure> {
        if !self.databases.has_users() {
            return Ok(());
        }
        let logs_in = ["auth", "hello", "quit", "reset"].iter().any(|name| local::is_word(&words[0], name));
        if logs_in {
            return Ok(());
        }
        // A login that has ended is none.
        self.databases.require(Right::List, Wanted::Command(""))?;
        self.databases.meter(words.iter().map(|word| word.len()).sum())
    }

    /// The reply to a command that the client has no right to, in the database that it has chosen.
    fn refusal_of(&self, command: &Command, words: &[Bytes]) -> Option<Reply> {
        let permit = self.databases.permit(self.state.number);
        permission::check(&permit, command, words).err().map(|failure| failure.reply())
    }

    /// Refuses a command that touches no key, if the client may not do it: those that concern other clients.
    fn may_run(&self, local: Local, words: &[Bytes]) -> Result<(), Failure> {
        let full_name = local.full_name(words);
        let wanted = Wanted::Command(&full_name);
        match full_name.as_str() {
            "client|list" | "client|kill" | "client|unblock" | "client|pause" | "client|unpause"
            | "script|flush" | "script|kill" | "function|kill" | "function|stats" => {
                self.databases.require(Right::Observe, wanted)
            }
            "pubsub|channels"
            | "pubsub|numsub"
            | "pubsub|numpat"
            | "pubsub|shardchannels"
            | "pubsub|shardnumsub" => {
                self.databases.require(Right::Subscribe { channels: Scope::Whole }, wanted)
            }
            "publish" | "spublish" => {
                self.databases.require(Right::Publish { channel: &words[1] }, Wanted::Channel)
            }
            _ => Ok(()),
        }
    }

    /// Replies what is wrong with a command before it is carried out; a transaction that it would be part of is not carried out.
    async fn refuse(&mut self, reply: Reply) -> Result<(), Ended> {
        self.carry_out().await?;
        if let Some(multi) = &mut self.state.multi {
            multi.is_aborted = true;
        }
        self.reply(&reply);
        Ok(())
    }

    async fn run_local(&mut self, local: Local, words: &[Bytes]) {
        if let Some(reply) = self.local_reply(local, words).await {
            self.reply(&reply);
        }
    }

    /// The reply of a command that touches no key; none if it wants no reply.
    async fn local_reply(&mut self, local: Local, words: &[Bytes]) -> Option<Reply> {
        match local.name {
            "unwatch" => {
                self.state.watched.clear();
                Some(Reply::OK)
            }
            "reset" => {
                self.state.multi = None;
                self.state.watched.clear();
                self.state.subscriber = None;
                self.databases.log_out();
                self.state.user = None;
                (self.state.version, self.state.number) = (Version::default(), 0);
                (self.state.name, self.state.replies) = (Vec::new(), Replies::On);
                Some(Reply::Simple("RESET".into()))
            }
            "auth" if self.databases.has_users() => Some(self.authenticate(words).await),
            "hello" => Some(self.hello(words).await),
            "acl" if !local.asks_for_help(words) => {
                Some(Reply::bulk(self.databases.user().unwrap_or(DEFAULT_USER)))
            }
            "select" => Some(self.select(&words[1])),
            "ping" if self.state.is_restricted() && words.len() <= 2 => {
                let text = words.get(1).map_or(Reply::bulk(""), Reply::bulk);
                Some(Reply::Array(vec![Reply::bulk("pong"), text]))
            }
            _ if local.publishes() => {
                let message = Message::new(&words[1], &words[2], local.name == "spublish");
                Some(match message {
                    Ok(message) => self.publish(message).await,
                    Err(reply) => reply,
                })
            }
            name if local.asks_for_help(words) => Some(local::documentation::help(name)),
            "pubsub" => Some(self.facts.channels.ask(words)),
            "script" => Some(self.facts.scripts.administer(words).await),
            _ if local.is_script() => Some(self.call_script(local, words).await),
            "wait" => Some(self.wait(words).await),
            _ => local::run(local, words, &mut self.state, &self.connection, self.facts),
        }
    }

    async fn run_scripts(
        &mut self,
        items: Vec<Item>,
        watched: Vec<Watched>,
    ) -> Result<Option<Vec<Reply>>, Failure> {
        self.facts.count(items.len());
        let mut executor = self.executor(self.state.number);
        let done = executor.run_scripts(&self.facts.scripts, items, watched).await;
        self.seed = executor.seed;
        let done = done?;
        self.facts.bells.ring_for(self.state.number, &done.wrote);
        for message in done.published {
            if let Reply::Error(text) = self.publish(message).await {
                // The transaction has committed, and its replies are made.
                tracing::debug!(text, "a message of a script is lost");
            }
        }
        Ok(done.replies)
    }

    /// The reply of a script that is a transaction of its own.
    async fn call_script(&mut self, local: Local, words: &[Bytes]) -> Reply {
        let item = match self.facts.scripts.called(local.name, words) {
            Item::Reply(reply) => return reply,
            item => item,
        };
        match self.run_scripts(vec![item], Vec::new()).await {
            // Nothing is watched, so that there is a reply.
            Ok(replies) => replies.and_then(|mut replies| replies.pop()).unwrap_or(Reply::Null),
            Err(failure) => failure.reply(),
        }
    }

    /// `AUTH` where there are users. Without a name it is the one that Redis names so.
    async fn authenticate(&mut self, words: &[Bytes]) -> Reply {
        match &words[1..] {
            [password] => {
                let password = Password::told(password.as_ref());
                self.log_in(DEFAULT_USER.as_bytes(), password).await
            }
            [user, password] => self.log_in(user, Password::told(password.as_ref())).await,
            _ => Err(Reply::error("ERR syntax error")),
        }
        .map_or_else(|error| error, |()| Reply::OK)
    }

    async fn log_in(&mut self, user: &[u8], password: Password) -> Result<(), Reply> {
        // A name that is no text is that of nobody.
        let user = String::from_utf8_lossy(user).into_owned();
        let result = self.databases.log_in(&user, password).await;
        self.state.user = self.databases.user().map(str::to_owned);
        result.map_err(|error| Failure::from(error).reply())
    }

    /// `HELLO`: the client logs in before anything of it takes effect.
    async fn hello(&mut self, words: &[Bytes]) -> Reply {
        let hello = match Hello::read(words, self.state.version) {
            Ok(hello) => hello,
            Err(reply) => return reply,
        };
        if self.databases.has_users() {
            if let Some((user, password)) = &hello.login {
                if let Err(reply) = self.log_in(user, password.clone()).await {
                    return reply;
                }
            } else if self.databases.require(Right::List, Wanted::Command("hello")).is_err() {
                return Reply::error(HELLO_NOT_LOGGED_IN);
            }
        } else if let Some(reply) = hello.fault_without_users() {
            return reply;
        }
        hello.take_effect(&mut self.state)
    }

    fn select(&mut self, number: &[u8]) -> Reply {
        let number = match local::integer(number) {
            Ok(number) => number,
            Err(reply) => return reply,
        };
        match usize::try_from(number) {
            Ok(number) if number < self.databases.count() => {
                self.state.number = number;
                Reply::OK
            }
            _ => Reply::error("ERR DB index is out of range"),
        }
    }

    /// Every acknowledged write is with a majority already: so there is nothing to wait for.
    async fn wait(&self, words: &[Bytes]) -> Reply {
        if let Err(reply) = local::integer(&words[1]) {
            return reply;
        }
        match local::integer(&words[2]) {
            Ok(0..) => {}
            Ok(_) => return Reply::error("ERR timeout is negative"),
            Err(_) => return Reply::error("ERR timeout is not an integer or out of range"),
        }
        match self.databases.open(self.state.number, false).await {
            Ok(keys) => Reply::count(crate::databases::Keys::replicas(&keys)),
            Err(failure) => failure.reply(),
        }
    }
}
