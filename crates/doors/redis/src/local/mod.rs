//! Commands that touch no key: what a client says about itself, and asks about the server.

pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod documentation;
mod key_specs;
pub(crate) mod left_out;
mod server;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_gateway::Connection;
use quorate_redis_commands::{Reply, unknown_subcommand, wrong_number};

use crate::blocking::{self, Bells};
use crate::channels::Channels;
use crate::connection::State;
use crate::local::clients::{Clients, Named};
use crate::scripts::Scripts;

/// The version of Redis whose replies these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// A web page can send many requests of HTTP: so far apart are they logged.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The knowledge of a process about its door.
#[derive(Debug)]
pub struct Facts {
    started: Instant,
    commands: AtomicU64,
    /// When a request of HTTP was logged last.
    warned_of_http: Mutex<Option<Instant>>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) bells: Bells,
    pub(crate) channels: Arc<Channels>,
    pub(crate) scripts: Arc<Scripts>,
}

impl Default for Facts {
    fn default() -> Self {
        let channels = Arc::<Channels>::default();
        Facts {
            started: Instant::now(),
            commands: AtomicU64::new(0),
            warned_of_http: Mutex::new(None),
            clients: Arc::default(),
            bells: Bells::default(),
            scripts: Arc::new(Scripts::new(Arc::clone(&channels))),
            channels,
        }
    }
}

impl Facts {
    /// Notes commands that are carried out.
    pub(crate) fn count(&self, commands: usize) {
        self.commands.fetch_add(commands as u64, Ordering::Relaxed);
    }

    /// True if a request of HTTP is to be logged now: one a minute is.
    pub(crate) fn warns_of_http(&self) -> bool {
        let mut warned = self.warned_of_http.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if is_due {
            *warned = Some(Instant::now());
        }
        is_due
    }
}

/// A command that touches no key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) name: &'static str,
    arity: i32,
    /// Its subcommands, each with its arity, if it has some.
    subcommands: &'static [(&'static str, i32)],
}

const fn local(name: &'static str, arity: i32) -> Local {
    Local { name, arity, subcommands: &[] }
}

/// The subcommands of `SCRIPT`.
const SCRIPT_SUBCOMMANDS: &[(&str, i32)] =
    &[("LOAD", 3), ("EXISTS", -3), ("FLUSH", -2), ("KILL", 2), ("HELP", 2)];

/// The subcommands of `FUNCTION`.
const FUNCTION_SUBCOMMANDS: &[(&str, i32)] = &[
    ("DELETE", 3),
    ("DUMP", 2),
    ("FLUSH", -2),
    ("KILL", 2),
    ("LIST", -2),
    ("LOAD", -3),
    ("RESTORE", -3),
    ("STATS", 2),
    ("HELP", 2),
];

/// The subcommands of `ACL`: users are those of the cluster, which `quorate user` changes.
const ACL_SUBCOMMANDS: &[(&str, i32)] = &[("WHOAMI", 2), ("HELP", 2)];

/// The subcommands of `PUBSUB`.
const PUBSUB_SUBCOMMANDS: &[(&str, i32)] = &[
    ("CHANNELS", -2),
    ("NUMPAT", 2),
    ("NUMSUB", -2),
    ("SHARDCHANNELS", -2),
    ("SHARDNUMSUB", -2),
    ("HELP", 2),
];

/// All of them.
const LOCALS: &[Local] = &[
    local("ping", -1),
    local("echo", 2),
    local("hello", -1),
    local("auth", -2),
    Local { name: "acl", arity: -2, subcommands: ACL_SUBCOMMANDS },
    local("select", 2),
    Local { name: "client", arity: -2, subcommands: client::SUBCOMMANDS },
    Local { name: "command", arity: -1, subcommands: documentation::SUBCOMMANDS },
    local("info", -1),
    Local { name: "config", arity: -2, subcommands: server::CONFIG_SUBCOMMANDS },
    local("reset", 1),
    local("quit", -1),
    local("time", 1),
    local("wait", 3),
    local("multi", 1),
    local("exec", 1),
    local("discard", 1),
    local("watch", -2),
    local("unwatch", 1),
    local("eval", -3),
    local("eval_ro", -3),
    local("evalsha", -3),
    local("evalsha_ro", -3),
    local("fcall", -3),
    local("fcall_ro", -3),
    Local { name: "function", arity: -2, subcommands: FUNCTION_SUBCOMMANDS },
    Local { name: "script", arity: -2, subcommands: SCRIPT_SUBCOMMANDS },
    local("subscribe", -2),
    local("unsubscribe", -1),
    local("psubscribe", -2),
    local("punsubscribe", -1),
    local("ssubscribe", -2),
    local("sunsubscribe", -1),
    local("publish", 3),
    local("spublish", 3),
    Local { name: "pubsub", arity: -2, subcommands: PUBSUB_SUBCOMMANDS },
];

/// The command of this name.
pub(crate) fn find(name: &[u8]) -> Option<Local> {
    LOCALS.iter().find(|local| name.eq_ignore_ascii_case(local.name.as_bytes())).copied()
}

/// True if a command has this subcommand: those of commands that touch keys are not known here.
fn has_subcommand(name: &str, subcommand: &str) -> bool {
    match find(name.as_bytes()) {
        Some(local) => local.subcommands.iter().any(|(known, _)| known.eq_ignore_ascii_case(subcommand)),
        None => true,
    }
}

/// The names of all commands of the door, those that touch keys among them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let of_keys = quorate_redis_commands::COMMANDS.iter().filter(|command| !command.is_internal());
    of_keys.map(|command| command.name).chain(blocking::names()).chain(LOCALS.iter().map(|local| local.name))
}

fn fits(arity: i32, words: usize) -> bool {
    if arity < 0 { words >= arity.unsigned_abs() as usize } else { words == arity as usize }
}

impl Local {
    /// True if it calls a script or a function, which may touch any key, or is about libraries: these are parts of a transaction with scripts.
    pub(crate) fn is_script(&self) -> bool {
        self.name.starts_with("eval") || self.name.starts_with("fcall") || self.name == "function"
    }

    /// True if these words ask which subcommands it has.
    pub(crate) fn asks_for_help(&self, words: &[Bytes]) -> bool {
        !self.subcommands.is_empty() && words.get(1).is_some_and(|word| is_word(word, "HELP"))
    }

    /// True if it publishes a message.
    pub(crate) fn publishes(&self) -> bool {
        matches!(self.name, "publish" | "spublish")
    }

    /// Its name with that of its subcommand, as errors tell it.
    pub(crate) fn full_name(&self, words: &[Bytes]) -> String {
        full_name(self.named(words))
    }

    /// Its name and that of its subcommand.
    pub(crate) fn named(&self, words: &[Bytes]) -> Named {
        let is_named =
            |subcommand: &Bytes| self.subcommands.iter().find(|(name, _)| is_word(subcommand, name));
        (self.name, words.get(1).and_then(is_named).map(|(name, _)| *name))
    }

    /// Its fault before it is looked at.
    pub(crate) fn check(&self, words: &[Bytes]) -> Result<(), Reply> {
        if let [_, subcommand, ..] = words
            && !self.subcommands.is_empty()
        {
            let found = self.subcommands.iter().find(|(name, _)| is_word(subcommand, name));
            return match found {
                None => Err(unknown_subcommand(&self.name.to_uppercase(), subcommand)),
                Some((_, arity)) if fits(*arity, words.len()) => Ok(()),
                Some((name, _)) => Err(wrong_number(&format!("{}|{}", self.name, name.to_lowercase()))),
            };
        }
        if fits(self.arity, words.len()) { Ok(()) } else { Err(wrong_number(self.name)) }
    }
}

/// The name of a command with that of its subcommand.
fn full_name((name, subcommand): Named) -> String {
    match subcommand {
        Some(subcommand) => format!("{name}|{}", subcommand.to_lowercase()),
        None => name.to_owned(),
    }
}

pub(crate) fn is_word(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

/// A number in a word.
pub(crate) fn integer(word: &[u8]) -> Result<i64, Reply> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Reply::error("ERR value is not an integer or out of range"))
}

/// Carries out a command; no reply if the client wants none.
pub(crate) fn run(
    local: Local,
    words: &[Bytes],
    state: &mut State,
    connection: &Connection,
    facts: &Facts,
) -> Option<Reply> {
    Some(match local.name {
        "ping" => match words {
            [_] => Reply::Simple("PONG".into()),
            [_, text] => Reply::bulk(text),
            _ => wrong_number("ping"),
        },
        "echo" => Reply::bulk(&words[1]),
        "auth" => match words.len() {
            2 => Reply::error(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            ),
            3 => client::authenticate(&words[1]).unwrap_or(Reply::OK),
            _ => Reply::error("ERR syntax error"),
        },
        "client" => return client::run(words, state, connection, facts),
        "command" => documentation::run(words),
        "info" => server::info(words, facts),
        "config" => server::config(words),
        "time" => server::time(),
        "quit" => {
            state.is_over = true;
            Reply::OK
        }
        name => Reply::error(format!("ERR unsupported: {name}")),
    })
}
