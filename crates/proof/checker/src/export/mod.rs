//! Histories in the formats of other checkers, to hear a second opinion.
//!
//! | format | tool | judged there |
//! |---|---|---|
//! | [`Format::Elle`] | Elle, in EDN | lists or registers; serializable and snapshot isolation, with real time or without |
//! | [`Format::Porcupine`] | Porcupine, through a program that reads our JSON | any type; strict serializability of small histories |
//! | [`Format::Dbcop`] | dbcop, in JSON | registers; causal, snapshot isolation, serializable, all of them with session order |
//! | [`Format::TimeKiller`] | TimeKiller (Chronos), in JSON | lists or registers with server timestamps; snapshot isolation |
//!
//! No format holds everything that a history says. A part of it is only ever left out in such a way that a valid history
//! stays valid: a fault that the other tool finds is a fault of the whole as well. [`Format::limits`] states what the format
//! cannot express, and [`write()`] returns what it left out of this history.

mod dbcop;
mod elle;
mod porcupine;
mod timekiller;

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use crate::dependencies::{Fate, WriteIndex, decide_fates};
use crate::history::{History, KeyType, Op, Outcome, Txn};

/// The format of another checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Operation maps in EDN, one per line, for Elle.
    Elle,
    /// One JSON object per transaction, for a small Porcupine model.
    Porcupine,
    /// The JSON of dbcop's command line.
    Dbcop,
    /// The JSON of TimeKiller, also called Chronos.
    TimeKiller,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 4] = [Format::Elle, Format::Porcupine, Format::Dbcop, Format::TimeKiller];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Elle => "elle",
            Format::Porcupine => "porcupine",
            Format::Dbcop => "dbcop",
            Format::TimeKiller => "timekiller",
        }
    }

    /// How names of files in this format end.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Elle => "elle.edn",
            Format::Porcupine => "porcupine.jsonl",
            Format::Dbcop => "dbcop.json",
            Format::TimeKiller => "timekiller.json",
        }
    }

    /// The limits of the format, in one sentence each.
    pub fn limits(self) -> &'static [&'static str] {
        match self {
            Format::Elle => elle::LIMITS,
            Format::Porcupine => porcupine::LIMITS,
            Format::Dbcop => dbcop::LIMITS,
            Format::TimeKiller => timekiller::LIMITS,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A format name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown format \"{0}\"; the formats are {all}", all = Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let format = Format::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| UnknownFormat(name.to_string()))
    }
}

/// A history that could not be written in a format.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The format has no words for it.
    #[error("{0}")]
    Inexpressible(String),
    /// The output failed.
    #[error("cannot write the history: {0}")]
    Io(#[from] io::Error),
}

/// Parts of a history that an export left out, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Transactions of which nobody can tell whether they happened, and aborted ones where the format has no
    /// place for them.
    pub txns: usize,
    /// Operations on keys of a type that the format, or the rest of the file, does not have.
    pub ops: usize,
    /// Elements of lists before the last one.
    pub list_elements: usize,
    /// `spec` lines.
    pub speculative_commits: usize,
    /// Reads of aborted transactions that were really seen.
    pub observed_reads: usize,
}

impl fmt::Display for LeftOut {
    /// A list for people: `2 transactions, 1 spec line`, or `nothing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.txns, "transactions"),
            (self.ops, "operations on keys of other types"),
            (self.list_elements, "elements of lists before the last one"),
            (self.speculative_commits, "spec lines"),
            (self.observed_reads, "reads of aborted transactions"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        f.pad(&if parts.is_empty() { "nothing".to_string() } else { parts.join(", ") })
    }
}

/// Writes a history in a format, and returns what was left out of it.
///
/// # Errors
///
/// [`ExportError::Inexpressible`] if nothing useful would be left, [`ExportError::Io`] if `output` fails.
pub fn write(history: &History, format: Format, output: impl Write) -> Result<LeftOut, ExportError> {
    let source = Source::new(history);
    let mut out = io::BufWriter::new(output);
    let mut left_out = source.unspoken();
    match format {
        Format::Elle => elle::write(&source, &mut out, &mut left_out)?,
        Format::Porcupine => porcupine::write(&source, &mut out, &mut left_out)?,
        Format::Dbcop => dbcop::write(&source, &mut out, &mut left_out)?,
        Format::TimeKiller => timekiller::write(&source, &mut out, &mut left_out)?,
    }
    out.flush()?;
    Ok(left_out)
}

/// A history, and what became of its transactions.
struct Source<'a> {
    history: &'a History,
    writes: WriteIndex,
    fates: Vec<Fate>,
}

impl<'a> Source<'a> {
    fn new(history: &'a History) -> Self {
        let writes = WriteIndex::new(history);
        let fates = decide_fates(history, &writes);
        Source { history, writes, fates }
    }

    /// The facts that no format has a place for.
    fn unspoken(&self) -> LeftOut {
        let txns = self.history.txns();
        let is_read = |op: &&Op| op.action.written().is_none();
        LeftOut {
            speculative_commits: txns.iter().filter(|txn| txn.speculation.is_some()).count(),
            observed_reads: txns
                .iter()
                .filter(|txn| txn.outcome == Outcome::Aborted && txn.observed)
                .map(|txn| self.history.ops(txn).iter().filter(is_read).count())
                .sum(),
            ..LeftOut::default()
        }
    }

    /// The transactions with what became of them, in the order of their invocations.
    fn txns(&self) -> impl Iterator<Item = (&'a Txn, Fate)> {
        self.history.txns().iter().zip(self.fates.iter().copied())
    }

    /// The type of most keys among lists and registers, for formats that hold one type.
    fn main_type(&self) -> Result<KeyType, ExportError> {
        let count = |key_type| {
            let keys = (0..self.history.key_count() as u32).map(crate::history::KeyId);
            keys.filter(|&key| self.history.key_type(key) == Some(key_type)).count()
        };
        let (lists, registers) = (count(KeyType::List), count(KeyType::Register));
        if lists == 0 && registers == 0 {
            let why = "The history has neither lists nor registers, and the format has nothing else.";
            return Err(ExportError::Inexpressible(why.to_string()));
        }
        Ok(if registers > lists { KeyType::Register } else { KeyType::List })
    }

    /// Whether an operation is on a key of this type. Keys of no type were only ever read, as absent, and fit
    /// any.
    fn fits(&self, op: &Op, key_type: KeyType) -> bool {
        self.history.key_type(op.key).is_none_or(|found| found == key_type)
    }
}
