//! The errors in a module, and those of a call.

use std::borrow::Cow;
use std::fmt;

use quorate_procedure::Stop;

/// Why a module is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It has too many bytes.
    #[error(
        "the module has {bytes} bytes, and may have {max}: build it with `opt-level = \"s\"` and strip it"
    )]
    TooLong {
        /// As many as this.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// It has too much of something.
    #[error("the module has {count} {what}, and may have {max}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// As many as this.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// It is no WebAssembly, or uses what is not supported.
    #[error("the module is not valid WebAssembly with the supported extensions: {0}")]
    Malformed(String),
    /// It calculates with floating-point numbers.
    #[error(
        "the module has floating-point instructions, the first at byte {at}: replicas with other processors could come to other \
         bits; calculate with integers"
    )]
    Floats {
        /// Where the first was found.
        at: usize,
    },
    /// It imports what does not exist.
    #[error("the module imports `{module}.{name}`, which does not exist: what exists is {known}")]
    UnknownImport {
        /// From where.
        module: String,
        /// Under which name.
        name: String,
        /// The imports that it could have.
        known: String,
    },
    /// It imports something as something else.
    #[error("the module imports `{name}` with another type than {expected}")]
    ImportType {
        /// The import.
        name: String,
        /// Its true type.
        expected: &'static str,
    },
    /// It does not export what it has to.
    #[error("the module does not export {what}: {why}")]
    MissingExport {
        /// The export that it lacks.
        what: &'static str,
        /// The purpose of that.
        why: &'static str,
    },
    /// It has a function that runs when it is loaded.
    #[error("the module has a start function, which would run before each call: do in `call` what it does")]
    StartFunction,
    /// It uses an instruction or a part of modules that would outlast a call.
    #[error("the module has {what}, at byte {at}: a call could leave something behind with it")]
    Unsupported {
        /// The instruction or part.
        what: &'static str,
        /// Where.
        at: usize,
    },
}

/// Why a call has come to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    stop: Stop,
    reason: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn failed(reason: impl Into<Cow<'static, str>>) -> Self {
        Failure { stop: Stop::Failed, reason: reason.into() }
    }

    /// The store has stopped it.
    pub(crate) fn stopped(stop: Stop) -> Self {
        Failure { stop, reason: Cow::Borrowed("the store has stopped the call") }
    }

    /// The error that the caller is told.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// Why, in words: for logs, and for the author of the procedure. The same at every replica.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}
