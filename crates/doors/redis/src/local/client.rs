//! Commands of a client about itself: `HELLO`, `AUTH`, `CLIENT`.

use bytes::Bytes;
use quorate_gateway::Connection;
use quorate_redis_commands::Reply;

use super::{REDIS_VERSION, is_word};
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
    ("REPLY", 3),
    ("NO-EVICT", 3),
    ("NO-TOUCH", 3),
];

/// The fault of a user: there is one, which has no password.
pub(super) fn authenticate(user: &[u8]) -> Option<Reply> {
    const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
    (user != b"default").then(|| Reply::error(WRONG))
}

fn check_name(name: &[u8]) -> Option<Reply> {
    const INVALID: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
    let is_sound = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    (!is_sound).then(|| Reply::error(INVALID))
}

pub(super) fn hello(words: &[Bytes], state: &mut State) -> Reply {
    let mut version = state.version;
    let mut rest = &words[1..];
    if let [number, behind @ ..] = rest {
        version = match super::integer(number) {
            Ok(2) => Version::Two,
            Ok(3) => Version::Three,
            Ok(_) => return Reply::error("NOPROTO unsupported protocol version"),
            Err(_) => return Reply::error("ERR Protocol version is not an integer or out of range"),
        };
        rest = behind;
    }
    let mut name = None;
    while let [word, behind @ ..] = rest {
        rest = match behind {
            [user, _, behind @ ..] if is_word(word, "AUTH") => {
                if let Some(error) = authenticate(user) {
                    return error;
                }
                behind
            }
            [given, behind @ ..] if is_word(word, "SETNAME") => {
                if let Some(error) = check_name(given) {
                    return error;
                }
                name = Some(given.to_vec());
                behind
            }
            _ => {
                let word = String::from_utf8_lossy(word);
                return Reply::error(format!("ERR Syntax error in HELLO option '{word}'"));
            }
        };
    }
    state.version = version;
    if let Some(name) = name {
        state.name = name;
    }
    let text = Reply::bulk;
    Reply::Map(vec![
        (text("server"), text("redis")),
        (text("version"), text(REDIS_VERSION)),
        (text("proto"), Reply::Integer(version.number())),
        (text("id"), Reply::Integer(state.id as i64)),
        (text("mode"), text("standalone")),
        (text("role"), text("master")),
        (text("modules"), Reply::Array(Vec::new())),
    ])
}

/// A line about a client.
fn describe(state: &State, connection: &Connection) -> String {
    format!(
        "id={} addr={} laddr={} name={} db={} cmd=client user=default resp={}\n",
        state.id,
        connection.peer(),
        connection.local(),
        String::from_utf8_lossy(&state.name),
        state.number,
        state.version.number(),
    )
}

pub(super) fn run(words: &[Bytes], state: &mut State, connection: &Connection) -> Option<Reply> {
    let syntax = || Reply::error("ERR syntax error");
    Some(match words[1].to_ascii_uppercase().as_slice() {
        b"ID" => Reply::Integer(state.id as i64),
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
        // Each process of the cluster knows its own clients alone: a client is told of itself.
        b"INFO" | b"LIST" => Reply::Verbatim(describe(state, connection).into_bytes()),
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
