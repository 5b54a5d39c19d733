//! Why bytes are not a message.

use std::fmt;
use std::ops::Deref;

use quorate_core::transaction::{LimitExceeded, TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX};

/// Bytes that are not the message they should be: what is wrong, and in which field.
///
/// As small as a pointer, so that the results which carry it stay small where bytes are well-formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(Box<Malformed>);

/// The details of a [`DecodeError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The message that was being decoded, the innermost one.
    pub message: &'static str,
    /// The field in it; empty if the fault is not in one field.
    pub field: &'static str,
    /// The fault.
    pub fault: Fault,
}

/// A fault in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes end within a field.
    #[error("the bytes end too early")]
    Truncated,
    /// A number has more bits than it may have.
    #[error("a number is too great for its field")]
    OutOfRange,
    /// A tag has no valid field number or wire type, or not the one that the field has.
    #[error("a tag is invalid or has the wrong wire type")]
    WireType,
    /// A field that has no default is absent.
    #[error("the field is missing")]
    Missing,
    /// None of the alternatives that this version knows is present.
    #[error("no alternative that this version knows is present")]
    UnknownAlternative,
    /// A text is not UTF-8.
    #[error("the text is not UTF-8")]
    Utf8,
    /// Keys or ids that must ascend do not.
    #[error("the entries do not ascend, or one is there twice")]
    Unsorted,
    /// There are more entries than there may be.
    #[error("there are more than {max} entries")]
    Entries {
        /// The most that are accepted.
        max: usize,
    },
    /// A value is longer than allowed.
    #[error("a value has {bytes} bytes; the limit is {max}", max = VALUE_BYTES_MAX)]
    Value {
        /// Its length.
        bytes: usize,
    },
    /// A shard's part of a one-round transaction is longer than allowed.
    #[error("an operation has {bytes} bytes; the limit is {max}", max = TRANSACTION_BYTES_MAX)]
    Operation {
        /// Its length.
        bytes: usize,
    },
    /// A key or transaction is larger than allowed.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The parts are valid, but together they mean nothing.
    #[error("{0}")]
    Meaningless(&'static str),
}

impl DecodeError {
    /// The error about one field, or about a message if the field is empty.
    #[cold]
    pub fn new(message: &'static str, field: &'static str, fault: Fault) -> Self {
        DecodeError(Box::new(Malformed { message, field, fault }))
    }

    /// Names the message and field, unless a message further inside was named already.
    #[cold]
    pub fn within(mut self, message: &'static str, field: &'static str) -> Self {
        if self.0.message.is_empty() {
            self.0.message = message;
            self.0.field = field;
        }
        self
    }
}

impl Deref for DecodeError {
    type Target = Malformed;

    fn deref(&self) -> &Malformed {
        &self.0
    }
}

impl From<Fault> for DecodeError {
    #[cold]
    fn from(fault: Fault) -> Self {
        DecodeError::new("", "", fault)
    }
}

impl From<LimitExceeded> for DecodeError {
    #[cold]
    fn from(limit: LimitExceeded) -> Self {
        Fault::Limit(limit).into()
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message, self.field) {
            ("", _) => write!(formatter, "malformed message: {}", self.fault),
            (message, "") => write!(formatter, "malformed {message}: {}", self.fault),
            (message, field) => write!(formatter, "malformed {message}, field {field}: {}", self.fault),
        }
    }
}

impl std::error::Error for DecodeError {}
