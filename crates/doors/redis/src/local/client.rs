//! Commands of a client about itself and others: `HELLO`, `AUTH`, `CLIENT`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_gateway::{Connection, Password};
use quorate_redis_commands::Reply;

use super::clients::{Clients, PAUSE_MAX, Peer, Told, Unblocked};
use super::{Facts, REDIS_VERSION, is_word};
use crate::codec::Version;
use crate::connection::{Replies, State};

/// The subcommands of `CLIENT`.
pub(super) const SUBCOMMANDS: &[(&str, i32)] = &[
    ("ID", 2),
    ("GETNAME", 2),
    ("SETNAME", 3),
    ("SETINFO", 4),
    ("INFO", 2),
    ("LIST", -2),
    ("KILL", -3),
    ("UNBLOCK", -3),
    ("PAUSE", -3),
    ("UNPAUSE", 2),
    ("GETREDIR", 2),
    ("REPLY", 3),
    ("NO-EVICT", 3),
    ("NO-TOUCH", 3),
    ("HELP", 2),
];

/// The fault of a user where there are none: there is one, which has no password.
pub(super) fn authenticate(user: &[u8]) -> Option<Reply> {
    const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
    (user != b"default").then(|| Reply::error(WRONG))
}

fn check_name(name: &[u8]) -> Option<Reply> {
    const INVALID: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
    let is_sound = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    (!is_sound).then(|| Reply::error(INVALID))
}

/// `HELLO`, as it was told.
#[derive(Debug)]
pub(crate) struct Hello {
    version: Version,
    /// The user and its password, if the client logs in with it.
    pub(crate) login: Option<(Bytes, Password)>,
    name: Option<Vec<u8>>,
}

impl Hello {
    /// Reads it, for a client that speaks this version so far.
    ///
    /// # Errors
    /// The reply that says what is wrong.
    pub(crate) fn read(words: &[Bytes], version: Version) -> Result<Hello, Reply> {
        let mut hello = Hello { version, login: None, name: None };
        let mut rest = &words[1..];
        if let [number, behind @ ..] = rest {
            hello.version = match super::integer(number) {
                Ok(2) => Version::Two,
                Ok(3) => Version::Three,
                Ok(_) => return Err(Reply::error("NOPROTO unsupported protocol version")),
                Err(_) => {
                    return Err(Reply::error("ERR Protocol version is not an integer or out of range"));
                }
            };
            rest = behind;
        }
        while let [word, behind @ ..] = rest {
            rest = match behind {
                [user, password, behind @ ..] if is_word(word, "AUTH") => {
                    hello.login = Some((user.clone(), Password::told(password.as_ref())));
                    behind
                }
                [given, behind @ ..] if is_word(word, "SETNAME") => {
                    if let Some(error) = check_name(given) {
                        return Err(error);
                    }
                    hello.name = Some(given.to_vec());
                    behind
                }
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Reply::error(format!("ERR Syntax error in HELLO option '{word}'")));
                }
            };
        }
        Ok(hello)
    }

    /// The error in it where there are no users.
    pub(crate) fn fault_without_users(&self) -> Option<Reply> {
        self.login.as_ref().and_then(|(user, _)| authenticate(user))
    }

    /// The client goes on as it has said.
    pub(crate) fn take_effect(self, state: &mut State) -> Reply {
        state.version = self.version;
        if let Some(name) = self.name {
            state.name = name;
        }
        let text = Reply::bulk;
        Reply::Map(vec![
            (text("server"), text("redis")),
            (text("version"), text(REDIS_VERSION)),
            (text("proto"), Reply::Integer(state.version.number())),
            (text("id"), Reply::Integer(state.id() as i64)),
            (text("mode"), text("standalone")),
            (text("role"), text("master")),
            (text("modules"), Reply::Array(Vec::new())),
        ])
    }
}

/// A line about a client.
fn describe(peer: &Peer) -> String {
    let told = peer.told();
    let [channels, patterns, shards] = told.subscriptions;
    let (queued, queued_bytes) = told.queued.map_or((-1, 0), |(count, bytes)| (count as i64, bytes));
    let flags = [('b', peer.waits()), ('x', told.queued.is_some()), ('P', is_subscriber(&told))];
    let mut flags: String = flags.iter().filter(|(_, holds)| *holds).map(|(flag, _)| flag).collect();
    if flags.is_empty() {
        flags.push('N');
    }
    format!(
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={channels} psub={patterns} ssub={shards} multi={queued} \
         watch={} multi-mem={queued_bytes} tot-mem={} events=r cmd={} user={} redir=-1 resp={}\n",
        peer.id,
        peer.peer,
        peer.local,
        String::from_utf8_lossy(&told.name),
        peer.since.elapsed().as_secs(),
        told.at.elapsed().as_secs(),
        told.number,
        told.watched,
        told.bytes,
        super::full_name(told.command),
        told.user.as_deref().unwrap_or("default"),
        told.version,
    )
}

fn is_subscriber(told: &Told) -> bool {
    told.subscriptions.iter().any(|count| *count > 0)
}

/// The types of clients that there are; those of replication are known, and none of their clients is here.
fn is_of_type(told: &Told, of: &[u8]) -> Option<bool> {
    match of.to_ascii_lowercase().as_slice() {
        b"normal" => Some(!is_subscriber(told)),
        b"pubsub" => Some(is_subscriber(told)),
        b"master" | b"slave" | b"replica" => Some(false),
        _ => None,
    }
}

fn unknown_type(of: &[u8]) -> Reply {
    Reply::error(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(of)))
}

/// `CLIENT LIST`.
fn list(words: &[Bytes], clients: &Clients) -> Reply {
    let listed: Vec<Arc<Peer>> = match &words[2..] {
        [] => clients.all(),
        [by, of] if is_word(by, "TYPE") => {
            if is_of_type(&Told::default(), of).is_none() {
                return unknown_type(of);
            }
            let is_wanted = |peer: &Arc<Peer>| is_of_type(&peer.told(), of) == Some(true);
            clients.all().into_iter().filter(is_wanted).collect()
        }
        [by, ids @ ..] if is_word(by, "ID") && !ids.is_empty() => {
            let mut listed = Vec::new();
            for id in ids {
                match super::integer(id) {
                    Ok(id) => listed.extend(u64::try_from(id).ok().and_then(|id| clients.find(id))),
                    Err(_) => return Reply::error("ERR Invalid client ID"),
                }
            }
            listed
        }
        _ => return Reply::error("ERR syntax error"),
    };
    Reply::Verbatim(listed.iter().map(|peer| describe(peer)).collect::<String>().into_bytes())
}

/// The clients that `CLIENT KILL` is about: all that are named must fit.
#[derive(Debug, Default)]
struct Filter {
    id: Option<u64>,
    address: Option<Vec<u8>>,
    local: Option<Vec<u8>>,
    of_type: Option<Vec<u8>>,
    spares_own: bool,
}

impl Filter {
    fn read(mut rest: &[Bytes]) -> Result<Filter, Reply> {
        let syntax = || Reply::error("ERR syntax error");
        let mut filter = Filter { spares_own: true, ..Filter::default() };
        while let [name, value, behind @ ..] = rest {
            rest = behind;
            match name.to_ascii_uppercase().as_slice() {
                b"ID" => {
                    let id = super::integer(value).ok().and_then(|id| u64::try_from(id).ok());
                    let Some(id) = id.filter(|id| *id > 0) else {
                        return Err(Reply::error("ERR client-id should be greater than 0"));
                    };
                    filter.id = Some(id);
                }
                b"ADDR" => filter.address = Some(value.to_vec()),
                b"LADDR" => filter.local = Some(value.to_vec()),
                b"TYPE" if is_of_type(&Told::default(), value).is_none() => return Err(unknown_type(value)),
                b"TYPE" => filter.of_type = Some(value.to_vec()),
                b"USER" if value.as_ref() == b"default" => {}
                b"USER" => {
                    let text = format!("ERR No such user '{}'", String::from_utf8_lossy(value));
                    return Err(Reply::error(text));
                }
                b"SKIPME" if is_word(value, "YES") => filter.spares_own = true,
                b"SKIPME" if is_word(value, "NO") => filter.spares_own = false,
                _ => return Err(syntax()),
            }
        }
        if rest.is_empty() { Ok(filter) } else { Err(syntax()) }
    }

    fn fits(&self, peer: &Peer, own: u64) -> bool {
        let is = |wanted: &Option<Vec<u8>>, found: String| {
            wanted.as_ref().is_none_or(|wanted| *wanted == found.as_bytes())
        };
        self.id.is_none_or(|id| id == peer.id)
            && is(&self.address, peer.peer.to_string())
            && is(&self.local, peer.local.to_string())
            && self.of_type.as_ref().is_none_or(|of| is_of_type(&peer.told(), of) == Some(true))
            && !(self.spares_own && peer.id == own)
    }
}

/// `CLIENT KILL`: the client itself still gets its reply.
fn kill(words: &[Bytes], state: &mut State, clients: &Clients) -> Reply {
    let (filter, is_old) = match &words[2..] {
        [address] => {
            let address = Some(address.to_vec());
            (Filter { address, ..Filter::default() }, true)
        }
        rest => match Filter::read(rest) {
            Ok(filter) => (filter, false),
            Err(reply) => return reply,
        },
    };
    let (mut killed, own) = (0, state.id());
    for peer in clients.all().iter().filter(|peer| filter.fits(peer, own)) {
        killed += 1;
        if peer.id == own {
            state.is_over = true;
        } else {
            peer.kill();
        }
    }
    match (is_old, killed) {
        (true, 0) => Reply::error("ERR No such client"),
        (true, _) => Reply::OK,
        (false, killed) => Reply::Integer(killed),
    }
}

/// `CLIENT UNBLOCK`.
fn unblock(words: &[Bytes], clients: &Clients) -> Reply {
    let how = match &words[3..] {
        [] => Unblocked::Timeout,
        [how] if is_word(how, "TIMEOUT") => Unblocked::Timeout,
        [how] if is_word(how, "ERROR") => Unblocked::Error,
        _ => return Reply::error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
    };
    match super::integer(&words[2]) {
        Ok(id) => {
            let peer = u64::try_from(id).ok().and_then(|id| clients.find(id));
            Reply::flag(peer.is_some_and(|peer| peer.unblock(how)))
        }
        Err(reply) => reply,
    }
}

/// `CLIENT PAUSE`.
fn pause(words: &[Bytes], clients: &Clients) -> Reply {
    let writes_only = match &words[3..] {
        [] => false,
        [mode] if is_word(mode, "ALL") => false,
        [mode] if is_word(mode, "WRITE") => true,
        [_] => return Reply::error("ERR CLIENT PAUSE mode must be WRITE or ALL"),
        _ => return Reply::error("ERR syntax error"),
    };
    let duration = match super::integer(&words[2]) {
        Ok(millis) => match u64::try_from(millis) {
            Ok(millis) => Duration::from_millis(millis),
            Err(_) => return Reply::error("ERR timeout is negative"),
        },
        Err(_) => return Reply::error("ERR timeout is not an integer or out of range"),
    };
    if duration > PAUSE_MAX {
        let text = format!("ERR unsupported: a pause of more than {} ms", PAUSE_MAX.as_millis());
        return Reply::error(text);
    }
    clients.pause(duration, writes_only);
    Reply::OK
}

pub(super) fn run(
    words: &[Bytes],
    state: &mut State,
    connection: &Connection,
    facts: &Facts,
) -> Option<Reply> {
    let clients = &facts.clients;
    let syntax = || Reply::error("ERR syntax error");
    Some(match words[1].to_ascii_uppercase().as_slice() {
        b"ID" => Reply::Integer(state.id() as i64),
        b"GETNAME" if state.name.is_empty() => Reply::Null,
        b"GETNAME" => Reply::bulk(&state.name),
        b"SETNAME" => match check_name(&words[2]) {
            Some(error) => error,
            None => {
                state.name = words[2].to_vec();
                Reply::OK
            }
        },
        b"SETINFO" => Reply::OK,
        // Each door knows its own clients alone.
        b"INFO" => {
            state.tell(connection);
            Reply::Verbatim(describe(&state.peer).into_bytes())
        }
        b"LIST" => {
            state.tell(connection);
            list(words, clients)
        }
        b"KILL" => kill(words, state, clients),
        b"UNBLOCK" => unblock(words, clients),
        b"PAUSE" => pause(words, clients),
        b"UNPAUSE" => {
            clients.resume();
            Reply::OK
        }
        b"GETREDIR" => Reply::Integer(-1),
        b"NO-EVICT" | b"NO-TOUCH" if is_word(&words[2], "ON") || is_word(&words[2], "OFF") => Reply::OK,
        b"REPLY" if is_word(&words[2], "ON") => {
            state.replies = Replies::On;
            Reply::OK
        }
        b"REPLY" if is_word(&words[2], "OFF") => {
            state.replies = Replies::Off;
            return None;
        }
        b"REPLY" if is_word(&words[2], "SKIP") => {
            if state.replies != Replies::Off {
                state.replies = Replies::Skip;
            }
            return None;
        }
        _ => syntax(),
    })
}
