//! Errors of the client as exceptions: one class of `quorate.errors` for each variant that the guide lists.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use quorate::{Error, Invalid, MissingReplica, Refusal, Token};

use crate::answers::Timestamp;
use crate::changes;
use crate::values::bytes;

/// The module that declares the classes.
const MODULE: &str = "quorate.errors";

/// The facts about an error, beside its message.
struct Facts {
    class: &'static str,
    /// False if surely nothing has happened.
    may_have_happened: bool,
    token: Option<Token>,
}

impl Facts {
    /// Nothing has happened.
    const fn of(class: &'static str) -> Self {
        Facts { class, may_have_happened: false, token: None }
    }

    fn happened(self) -> Self {
        Facts { may_have_happened: true, ..self }
    }

    fn named(self, token: &Token) -> Self {
        Facts { token: Some(token.clone()), ..self }
    }

    fn new(failure: &Error) -> Self {
        match failure {
            Error::Conflict => Facts::of("Conflict"),
            Error::BelowZero => Facts::of("BelowZero"),
            Error::Unavailable { .. } => Facts::of("Unavailable"),
            Error::HistoryAbandoned { .. } => Facts::of("HistoryAbandoned"),
            Error::Overloaded { .. } => Facts::of("Overloaded"),
            Error::NoSpace { .. } => Facts::of("NoSpace"),
            Error::Denied { token: None, .. } => Facts::of("Denied"),
            Error::Denied { token: Some(token), .. } => Facts::of("Denied").happened().named(token),
            Error::Unknown { token } => Facts::of("Unknown").happened().named(token),
            Error::ApologyOwed { token } => Facts::of("ApologyOwed").named(token),
            Error::AnswersLost { token } => Facts::of("AnswersLost").happened().named(token),
            Error::NotReached { .. } => Facts::of("NotReached").happened(),
            Error::Step { .. } => Facts::of("Step"),
            Error::Invalid(Invalid::NoSuchKeyspace { .. } | Invalid::KeyspaceInDrops { .. }) => {
                Facts::of("NoSuchKeyspace")
            }
            Error::Invalid(Invalid::KeyspaceExists { .. } | Invalid::KeyspaceDiffers { .. }) => {
                Facts::of("KeyspaceExists")
            }
            Error::Invalid(Invalid::TransactionOver) => Facts::of("TransactionOver"),
            Error::Invalid(_) => Facts::of("Invalid"),
            Error::TooOld { token, .. } => Facts::of("TooOld").happened().named(token),
            Error::SnapshotTooOld { .. } => Facts::of("SnapshotTooOld"),
            Error::ChangeRefused { .. } => Facts::of("ChangeRefused"),
            Error::CutLost { .. } => Facts::of("CutLost"),
            Error::ChangesUnavailable { .. } => Facts::of("ChangesUnavailable"),
            Error::ChangesTooOld { .. } => Facts::of("ChangesTooOld"),
            Error::NotServing { .. } => Facts::of("NotServing").happened(),
            Error::Connect { .. } => Facts::of("Connect"),
            Error::Handshake { .. } => Facts::of("Handshake"),
            Error::Closed => Facts::of("Closed"),
            Error::Refused { .. } => Facts::of("Refused"),
            Error::Application(_) => Facts::of("Application"),
            // An error that this crate does not know may have any meaning.
            _ => Facts::of("Error").happened(),
        }
    }
}

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, failure: &Error) -> PyErr {
    made(py, failure).unwrap_or_else(|failed| failed)
}

fn made(py: Python<'_>, failure: &Error) -> PyResult<PyErr> {
    let facts = Facts::new(failure);
    let raised = raised(py, facts.class, failure.to_string())?;
    raised.setattr("may_have_happened", facts.may_have_happened)?;
    raised.setattr("retry", failure.is_retryable())?;
    raised.setattr("token", facts.token.map(|token| token.to_string()))?;
    for (name, value) in details(py, failure)? {
        raised.setattr(name, value)?;
    }
    Ok(PyErr::from_value(raised))
}

fn raised<'py>(py: Python<'py>, class: &str, message: String) -> PyResult<Bound<'py, PyAny>> {
    py.import(MODULE)?.getattr(class)?.call1((message,))
}

/// The details of a variant, by the names of attributes.
fn details(py: Python<'_>, failure: &Error) -> PyResult<Vec<(&'static str, Py<PyAny>)>> {
    fn object<'py>(py: Python<'py>, value: impl IntoPyObject<'py>) -> PyResult<Py<PyAny>> {
        value.into_py_any(py)
    }
    Ok(match failure {
        Error::Unavailable { missing } => {
            let listed: Vec<String> = missing.iter().map(MissingReplica::to_string).collect();
            let needs_operator = missing.iter().any(|replica| replica.problem.is_some());
            vec![("missing", object(py, listed)?), ("needs_operator", object(py, needs_operator)?)]
        }
        Error::HistoryAbandoned { site } => vec![("site", object(py, site)?)],
        Error::Overloaded { retry_after } => vec![("retry_after", object(py, retry_after.as_secs_f64())?)],
        Error::NoSpace { reason } | Error::Denied { reason, .. } => vec![("reason", object(py, reason)?)],
        Error::NotReached { milestone, missing, waited } => vec![
            ("milestone", object(py, milestone.name())?),
            ("missing", object(py, missing)?),
            ("waited", object(py, waited.as_secs_f64())?),
        ],
        Error::Step { step, key, fault } => {
            vec![
                ("step", object(py, step)?),
                ("key", object(py, key)?),
                ("fault", object(py, fault.to_string())?),
            ]
        }
        Error::ChangesUnavailable { shard, reason, .. } => {
            vec![("shard", object(py, shard.map(|shard| shard.0))?), ("reason", object(py, reason)?)]
        }
        Error::ChangesTooOld { shard, retained_from, .. } => {
            let retained_from = changes::resolved(py, retained_from)?;
            vec![("shard", object(py, shard.map(|shard| shard.0))?), ("retained_from", retained_from)]
        }
        Error::SnapshotTooOld { oldest } => vec![("oldest", object(py, Timestamp(*oldest))?)],
        Error::CutLost { name, reason } | Error::ChangeRefused { name, reason } => {
            vec![("name", object(py, name)?), ("reason", object(py, reason)?)]
        }
        Error::NotServing { name, serving, shards, waited } => vec![
            ("name", object(py, name)?),
            ("serving", object(py, serving)?),
            ("shards", object(py, shards)?),
            ("waited", object(py, waited.as_secs_f64())?),
        ],
        Error::Connect { tried } => vec![("tried", object(py, tried)?)],
        Error::Handshake { address, reason } => {
            vec![("address", object(py, address)?), ("reason", object(py, reason)?)]
        }
        Error::Refused { shard, refusal } => {
            let reason = match &**refusal {
                Refusal::Procedure { reason } => Some(bytes(py, reason)),
                _ => None,
            };
            vec![("shard", object(py, shard.0)?), ("reason", object(py, reason)?)]
        }
        _ => Vec::new(),
    })
}

/// The call is at fault, and nothing was sent.
pub(crate) fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raised(py, "Invalid", message.into()).map_or_else(|failed| failed, PyErr::from_value)
}

/// A database is used in a fork of the process that has connected.
pub(crate) fn forked(connected: u32, process: u32) -> PyErr {
    let message = format!(
        "this database was connected in process {connected}, and this is process {process}, a fork of it, where its thread is not: connect in the fork"
    );
    Python::attach(|py| raised(py, "Forked", message).map_or_else(|failed| failed, PyErr::from_value))
}

/// The answer of a call was handed out before.
pub(crate) fn taken(answer: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{answer} was asked for before"))
}

/// The error with which a function leaves a transaction, so that the client runs it again exactly if it would have done so with a closure in Rust.
pub(crate) fn given_up(py: Python<'_>, raised: &Bound<'_, PyAny>) -> PyResult<Error> {
    let module = py.import(MODULE)?;
    if raised.is_instance(&module.getattr("Conflict")?)? {
        return Ok(Error::Conflict);
    }
    if raised.is_instance(&module.getattr("Unavailable")?)?
        && !raised.getattr("needs_operator")?.is_truthy()?
    {
        return Ok(Error::Unavailable { missing: Vec::new() });
    }
    Ok(Error::application("the function has raised an exception"))
}
