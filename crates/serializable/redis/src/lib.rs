//! The commands of Redis, as one stored procedure.
//!
//! A door turns what a Redis client sends into a [`Request`], and what the procedure [`Commands`] answers into replies. Where a keyspace is `serializable`
//! the procedure runs at the shard that holds the keys: one round, and nobody can be in the way. Elsewhere it runs over what an interactive
//! transaction has read. The code of a command is the same, and does not know which.
//!
//! ```text
//!   door ── Request: commands, what was watched, a seed ──► Commands ──► one function for each command ──► records (`layout`)
//!        ◄── Answer: a Reply for each, or that a watched key has changed ──┘
//! ```
//!
//! The result of a command follows from its arguments, the records, the timestamp of the transaction and the seed: so all replicas come to the same. Keys
//! expire by the timestamp. Nothing here refuses a transaction after it has written: what is wrong with a command is its reply.
//!
//! | file | role |
//! |---|---|
//! | `table` | which commands there are, which of their arguments are keys, how they are divided by shards |
//! | `layout`, `database`, `collection` | records, the keys that they make up, and the elements of one |
//! | `request`, [`Reply`] | what a door and a shard tell each other |
//! | `strings`, `bits`, `keys`, `expiry`, `scan`, `hashes`, `lists`, `sets`, `sorted_sets`, `ranges`, `geo`, `hyperloglog`, `streams`, `sort`, `dump` | a family of commands each |
//! | `sweep` | collects what is expired or dropped |
//! | `parse`, `glob`, `long_double` | numbers, patterns, and sums as C calculates them |
//!
//! All replicas must come to the same. So what changes here changes what old log entries do, and is a reason to upgrade all servers of a cluster before it
//! is used.

mod bits;
pub mod bytes;
mod collection;
mod database;
mod dump;
mod expiry;
mod geo;
mod glob;
mod hashes;
mod hyperloglog;
mod keys;
mod layout;
mod lists;
mod long_double;
mod parse;
mod ranges;
mod reply;
mod request;
mod scan;
mod sets;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
mod sweep;
mod table;

use quorate_procedure::{Answer as Ended, Footprint, Procedure, Stop, Store};

use database::Database;
pub use glob::matches;
pub use layout::{ELEMENT_BYTES_MAX, KEY_BYTES_MAX, SLOTS, STRING_BYTES_MAX, slot_of};
pub use parse::{print_decimal, print_double};
pub use reply::Reply;
use reply::{Fail, Replied};
pub use request::{Answer, Mark, Request};
pub use scan::{MORE, cursor};
pub use streams::reading::timeout_position;
pub use table::{Access, Behind, COMMANDS, Command, DUE, Keys, LAST, MARK, SWEEP, Spread, UNREAD, find};

/// The name that the procedure is called by.
pub const PROCEDURE: &str = "redis/commands";

/// The bytes of a request, an answer or a record make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("these bytes make no sense")
    }
}

impl std::error::Error for Malformed {}

/// The key by which the shard of a key is found: one that lies in the same slot.
pub fn routing_key(slot: u16) -> Vec<u8> {
    layout::slot_prefix(layout::kind::HEADER, slot).to_vec()
}

/// The record at which commands look first for a key: it tells what the key holds, and holds a short string itself.
pub fn record_of(key: &[u8]) -> Vec<u8> {
    layout::header_record(key)
}

/// The procedure: carries out the commands of a [`Request`], one after the other, and answers with an [`Answer`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Commands;

impl Procedure for Commands {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Ended, Stop> {
        let Ok(request) = Request::decode(arguments) else {
            return Ok(Ended::Refused(b"this is no request of commands, or of another version".to_vec()));
        };
        let Some(now) = store.timestamp() else {
            let reason =
                b"commands need a timestamp: call them at one shard, as independent, or to read only";
            return Ok(Ended::Refused(reason.to_vec()));
        };
        let mut keyspace = Commanded::new(store, now, (request.clock, request.seed));
        match keyspace.is_unchanged(&request.watched)? {
            Ok(true) => {}
            Ok(false) => return Ok(Ended::Done(Answer::Changed.encode())),
            Err(reason) => return Ok(Ended::Refused(reason.into_bytes())),
        }
        let mut replies = Vec::with_capacity(request.commands.len());
        for words in &request.commands {
            replies.push(keyspace.carry_out(words)?);
        }
        let answer = if keyspace.is_in_doubt() { Answer::Later } else { Answer::Replies(replies) };
        Ok(Ended::Done(answer.encode()))
    }

    fn frees(&self, arguments: &[u8]) -> bool {
        let Ok(request) = Request::decode(arguments) else { return true };
        let mut commands = request.commands.iter().filter_map(|words| find(words.first()?));
        commands.all(|command| command.frees())
    }

    fn footprint(&self, arguments: &[u8]) -> Footprint {
        let Ok(request) = Request::decode(arguments) else { return Footprint::Everything };
        let mut slots: Vec<u16> = request.watched.iter().map(|(key, _)| slot_of(key)).collect();
        for words in &request.commands {
            let Some(command) = words.first().and_then(|name| find(name)) else { continue };
            let positions = command.key_positions(words);
            if positions.is_empty() && command.keys == Keys::No || !command.is_confined(words) {
                return Footprint::Everything;
            }
            slots.extend(positions.into_iter().filter_map(|at| words.get(at)).map(|key| slot_of(key)));
        }
        footprint_of(slots)
    }
}

/// The ranges in which the records of the keys of these slots lie.
pub fn footprint_of(mut slots: Vec<u16>) -> Footprint {
    use layout::kind::{DROPPED, ELEMENT, GENERATION, HEADER};
    slots.sort_unstable();
    slots.dedup();
    let kinds = [DROPPED, ELEMENT, GENERATION, HEADER];
    let of_slot = |slot: u16| kinds.map(|kind| layout::slot_prefix(kind, slot));
    let range = |prefix: [u8; 6]| (prefix.to_vec(), layout::behind(&prefix));
    let keys = slots.iter().map(|slot| layout::slot_prefix(GENERATION, *slot).to_vec()).collect();
    Footprint::Keys { keys, ranges: slots.iter().flat_map(|slot| of_slot(*slot)).map(range).collect() }
}

/// The keys of a store during one transaction, as commands see them.
pub struct Commanded<'a> {
    database: Database<'a>,
}

impl std::fmt::Debug for Commanded<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Commanded").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl<'a> Commanded<'a> {
    /// The keys at the timestamp of the transaction, in microseconds since the Unix epoch, for a request with this clock and this seed, as in [`Request`].
    pub fn new(store: &'a mut dyn Store, now: u64, (clock, seed): (u64, u64)) -> Self {
        Commanded { database: Database::new(store, now, (clock, seed)) }
    }

    /// True if all that is watched is as it was. A key that cannot be watched comes as its error within.
    ///
    /// # Errors
    /// The store stops it.
    pub fn is_unchanged(&mut self, watched: &[(&[u8], Mark)]) -> Result<Result<bool, String>, Stop> {
        for (key, mark) in watched {
            match self.database.mark(key) {
                Ok(found) if found == *mark => {}
                Ok(_) => return Ok(Ok(false)),
                Err(Fail::Stop(stop)) => return Err(stop),
                Err(Fail::Error(reason)) => return Ok(Err(reason)),
            }
        }
        Ok(Ok(true))
    }

    /// Carries out one command; what is wrong with it is its reply.
    ///
    /// # Errors
    /// The store stops it.
    pub fn carry_out(&mut self, words: &[&[u8]]) -> Result<Reply, Stop> {
        match run(&mut self.database, words) {
            Ok(reply) => Ok(reply),
            Err(Fail::Error(text)) => Ok(Reply::Error(text)),
            Err(Fail::Stop(stop)) => Err(stop),
        }
    }

    /// True if something that was read has expired by the clock, and not by the timestamp: see [`Answer::Later`].
    pub fn is_in_doubt(&self) -> bool {
        self.database.is_in_doubt
    }

    /// The timestamp, in microseconds since the Unix epoch, or the clock if that is later.
    pub fn now(&self) -> u64 {
        self.database.told_micros()
    }
}

/// A fault that Redis finds in a command before it looks at its arguments: the number of its words, and its subcommand.
///
/// # Errors
/// Its reply.
pub fn check(command: &Command, words: &[impl AsRef<[u8]>]) -> Result<(), Reply> {
    if !command.takes(words.len()) {
        return Err(wrong_number(command.name));
    }
    match command.name {
        "object" => check_subcommand(command.name, keys::OBJECT_SUBCOMMANDS, words),
        "xgroup" => check_subcommand(command.name, streams::administration::GROUP_SUBCOMMANDS, words),
        "xinfo" => check_subcommand(command.name, streams::info::INFO_SUBCOMMANDS, words),
        _ => Ok(()),
    }
}

/// The fault of a subcommand: each is listed with the number of words; if that is negative, with the least one.
fn check_subcommand(
    command: &str,
    subcommands: &[(&str, i32)],
    words: &[impl AsRef<[u8]>],
) -> Result<(), Reply> {
    let subcommand = words.get(1).map_or(b"".as_slice(), AsRef::as_ref);
    let found = subcommands.iter().find(|(name, _)| parse::is_word(subcommand, name));
    let Some((name, arity)) = found else {
        return Err(unknown_subcommand(&command.to_uppercase(), subcommand));
    };
    if table::fits(*arity, words.len()) {
        return Ok(());
    }
    Err(wrong_number(&format!("{command}|{}", name.to_lowercase())))
}

/// Carries out one command.
fn run(database: &mut Database<'_>, words: &[&[u8]]) -> Replied {
    let name = words.first().copied().unwrap_or_default();
    let Some(command) = find(name) else { return Ok(unknown_command(words)) };
    match check(&command, words) {
        Ok(()) => (command.run)(database, words),
        Err(reply) => Ok(reply),
    }
}

/// So many bytes of what a client has sent are shown in an error.
const SHOWN_BYTES_MAX: usize = 128;

/// The reply of Redis to a command that it does not know.
pub fn unknown_command(words: &[impl AsRef<[u8]>]) -> Reply {
    let name = words.first().map_or(String::new(), |name| shown(name.as_ref()));
    let mut arguments = Vec::new();
    for word in words.iter().skip(1) {
        if arguments.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let room = SHOWN_BYTES_MAX - arguments.len();
        arguments.push(b'\'');
        arguments.extend_from_slice(&c_string(word.as_ref())[..c_string(word.as_ref()).len().min(room)]);
        arguments.extend_from_slice(b"' ");
    }
    let arguments = String::from_utf8_lossy(&arguments);
    Reply::error(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
}

/// The reply of Redis to a subcommand that it does not know.
pub fn unknown_subcommand(command: &str, subcommand: &[u8]) -> Reply {
    let subcommand = shown(subcommand);
    Reply::error(format!("ERR unknown subcommand '{subcommand}'. Try {command} HELP."))
}

/// A word as Redis prints it, which takes it for a string of C: up to its first zero.
fn c_string(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A word as an error shows it.
pub(crate) fn shown(word: &[u8]) -> String {
    let word = c_string(word);
    String::from_utf8_lossy(&word[..word.len().min(SHOWN_BYTES_MAX)]).into_owned()
}

/// The reply of Redis to a command with too many or too few words.
pub fn wrong_number(name: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}

#[cfg(test)]
mod tests;
