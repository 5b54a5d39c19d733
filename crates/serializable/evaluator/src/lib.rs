//! Scripts of Redis at the shard that holds their keys: a part of Lua 5.1 that comes to the same at every replica.
//!
//! A script whose keys lie at one shard runs there, as the commands of Redis do: in one round, and nobody can be in the way. All replicas of the shard execute
//! it, so it may depend on nothing but its text, its arguments, the records and the timestamp. The interpreter of the door, Lua's own, depends on more: on
//! addresses, on the C library, on how a platform prints what is no number. So this is another one, which knows the language but for metatables and coroutines, and the
//! libraries but for what is not the same everywhere.
//!
//! **It gives up** wherever it would have to guess: at an error, at an order that follows from addresses, at a function that it does not know, at a key outside of
//! the slots that `KEYS` lists, and beyond its limits. Then nothing was done, and the door runs the script as an interactive transaction. So errors have the words
//! of Lua itself, and what is compared with Redis is compared once.
//!
//! ```text
//!   door ── Request: scripts and commands, what was watched, a seed ──► Scripts ──► Machine: steps, memory ──► commands ──► records
//!        ◄── Answer: replies, keys that were written, lines of the log; or refused: given up ──┘
//! ```
//!
//! | file | role |
//! |---|---|
//! | `lexer`, `parser`, `syntax` | a text to a [`Program`], whose names are resolved |
//! | `machine`, `operators`, `values`, `table` | a run: expressions, statements, calls; tables as Lua keeps them |
//! | `natives`, `library` | the functions that are known by name, and what they do |
//! | `numbers`, [`pattern`], [`sha1`] | digits as C prints them, patterns in bounded work, names of scripts |
//! | `request`, [`Scripts`], `texts` | the procedure, its bytes, and texts that a shard keeps |
//!
//! A change here changes what old log entries do. So a shard that learns to run a script that it gave up before does so for requests of a later version alone; and
//! all servers of a cluster are upgraded before that is used.

mod lexer;
mod library;
mod machine;
mod natives;
mod numbers;
mod operators;
mod parser;
pub mod pattern;
mod procedure;
mod request;
pub mod sha1;
mod syntax;
mod table;
mod texts;
mod values;

use quorate_procedure::Stop;
use quorate_redis_commands::{Command, Reply};

pub use library::Random;
use machine::Machine;
pub use procedure::{PROCEDURE, Scripts, UNKNOWN_TEXT};
pub use request::{Answer, Item, Request, Text};

/// A longer text is left to the door, in bytes: to read it takes a shard some time.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// A text that shards do not run, for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit(pub &'static str);

/// Why a run has ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// It gives up, for this reason.
    Unfit(&'static str),
    /// The store stops it.
    Stop(Stop),
}

/// Carries out what scripts ask for.
pub trait Host {
    /// Carries out a command that takes these words; what is wrong with it is its reply.
    ///
    /// # Errors
    /// The run ends here, and nothing of it counts.
    fn call(&mut self, command: &Command, words: &[Vec<u8>]) -> Result<Reply, Halt>;

    /// Logs what a script says, at a level from 0, for developers, to 3, for warnings.
    fn log(&mut self, level: u8, text: &[u8]);

    /// The time that the script is told, in microseconds since the Unix epoch.
    fn now(&self) -> u64;
}

/// The limits of the scripts of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Expressions, statements and calls, and the work of functions.
    pub steps_max: u64,
    /// How many bytes values take that are made, whether or not they are needed until the end.
    pub memory_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps_max: 100_000, memory_bytes_max: 8 * 1024 * 1024 }
    }
}

/// A script that is ready to run.
#[derive(Debug)]
pub struct Program {
    pub(crate) functions: Vec<syntax::Function>,
    /// The number of the script itself among its functions.
    pub(crate) main: usize,
}

impl Program {
    /// Reads a script.
    ///
    /// # Errors
    /// It is no Lua, or more of it than shards know.
    pub fn new(text: &[u8]) -> Result<Self, Unfit> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Unfit("it is longer than at a shard"));
        }
        parser::parse(text)
    }

    /// Runs it: the reply, and the steps that are left of these limits.
    ///
    /// # Errors
    /// It has not come to its end, and nothing of it counts.
    pub fn run(
        &self,
        (keys, arguments): (&[&[u8]], &[&[u8]]),
        is_read_only: bool,
        limits: Limits,
        host: &mut dyn Host,
    ) -> Result<(Reply, u64), Halt> {
        let mut machine = Machine::new(self, host, limits, is_read_only);
        let value = machine.run(keys, arguments)?;
        let reply = machine.reply_of(&value)?;
        Ok((reply, machine.steps_left))
    }
}

#[cfg(test)]
mod tests;
