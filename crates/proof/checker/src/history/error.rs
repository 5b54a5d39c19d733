//! Why a history is refused: the reasons, and the line they name.

use std::io;

use thiserror::Error;

use super::Value;

/// A history that could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The input could not be read at all.
    #[error("cannot read the history: {0}")]
    Io(#[from] io::Error),
    /// A line breaks the format.
    #[error("line {line}: {reason}")]
    Malformed {
        /// The line, counted from 1.
        line: u64,
        /// The fault in it.
        reason: Malformed,
    },
}

/// A fault in a line of a history, or in one recorded event.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The file has no line at all.
    #[error("the history is empty")]
    Empty,
    /// The line is not UTF-8.
    #[error("the line is not valid UTF-8")]
    NotUtf8,
    /// The line is not the JSON that the format asks for.
    #[error("column {column}: expected {expected}")]
    Json {
        /// The column, in bytes counted from 1.
        column: usize,
        /// The JSON that should have been there.
        expected: &'static str,
    },
    /// A field that every line must have is absent.
    #[error("the field \"{0}\" is missing")]
    MissingField(&'static str),
    /// A field appears twice in one line.
    #[error("the field \"{0}\" appears twice")]
    RepeatedField(&'static str),
    /// The `type` is none of the known ones.
    #[error("unknown event type \"{0}\"")]
    UnknownType(String),
    /// The `f` is not `txn`.
    #[error("unknown function \"{0}\", only \"txn\" is judged")]
    UnknownFunction(String),
    /// The operation is none of the known ones.
    #[error("unknown operation \"{0}\"")]
    UnknownOperation(String),
    /// The indices are not 0, 1, 2 and so on.
    #[error("index {found} where {expected} was due")]
    IndexNotContiguous {
        /// The index that was due.
        expected: u64,
        /// The index in the line.
        found: i64,
    },
    /// The time is smaller than that of the line before.
    #[error("time goes back from {before} to {now}")]
    TimeGoesBack {
        /// The time of the line before.
        before: i64,
        /// The time of this line.
        now: i64,
    },
    /// A process number below zero.
    #[error("process {0} is negative")]
    NegativeProcess(i64),
    /// An invocation by a process whose transaction is still open.
    #[error("process {0} invokes a transaction while another one of it is open")]
    TwoOpenTransactions(u64),
    /// An event of a process after its transaction ended with an unknown outcome.
    #[error("process {0} is used again after a transaction with an unknown outcome")]
    ProcessReused(u64),
    /// A completion, or a speculative commit, of a process without an open transaction.
    #[error("process {0} has no open transaction")]
    NoOpenTransaction(u64),
    /// A second speculative commit of one transaction.
    #[error("process {0} shows a second speculative commit of one transaction")]
    SecondSpeculation(u64),
    /// A `lost` line that fits no acknowledged transaction of its process.
    #[error("process {0} has no acknowledged transaction that this line could abandon")]
    NothingLost(u64),
    /// A completion with other operations than its invocation.
    #[error("operation {position} of the transaction differs from its invocation")]
    ShapeDiffers {
        /// The first operation that differs, counted from 1.
        position: usize,
    },
    /// A completion that names another session or site than its invocation.
    #[error("the {0} differs from that of the invocation")]
    OriginDiffers(&'static str),
    /// A server-side fact that two lines of one transaction tell differently.
    #[error("the {0} differs from that of an earlier line of the transaction")]
    FactDiffers(&'static str),
    /// A snapshot vector that names one site twice.
    #[error("the vts names site \"{0}\" twice")]
    RepeatedSite(String),
    /// A read that carries a result before the transaction has run.
    #[error("a read in an invocation carries a result")]
    ReadInInvocation,
    /// A key that is used as two types.
    #[error("key {key} is used as a {before} and as a {now}")]
    KeyOfTwoTypes {
        /// The key.
        key: String,
        /// The type that earlier operations gave it.
        before: &'static str,
        /// The type that this operation asks for.
        now: &'static str,
    },
    /// A written value outside of the range that every JSON tool keeps exact.
    #[error("written value {0} is not below 2^53")]
    ValueTooLarge(Value),
    /// A value that was already written to the same key.
    #[error("value {value} is written to key {key} twice")]
    DuplicateWrite {
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// A counting set that names one element twice, or an element with count zero.
    #[error("element {0} of a counting set is named twice or has count zero")]
    BadElement(String),
    /// More events than the checker numbers.
    #[error("the history has more than {} events or operations", u32::MAX - 1)]
    TooLong,
}
