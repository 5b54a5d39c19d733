//! Writes that commit once: an `Idempotency-Marker` names a key of the keyspace at which the first request leaves its answer, in its transaction.
//!
//! Where an `Idempotency-Key` is remembered by one node for a while ([`repeats`](crate::repeats)), a marker is data: a repeat finds the answer at any node and after any
//! restart. The marker is an ordinary key of the client, which needs the rights to read and to write it.

use std::cell::RefCell;

use hyper::StatusCode;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use quorate::{Batch, Invalid, Keyspace, Marker, Once, Receipt, StepAnswer, Taken, Value};
use quorate_gateway::{Scope, Session};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::answer::{Answer, JSON, REPEATED};
use crate::batch::AnswerBody;
use crate::keyspaces::{Access, in_keyspace, require};
use crate::problem::{Kind, Problem};
use crate::request::{IDEMPOTENCY_KEY, Request};
use crate::routes::Operation;
use crate::text::percent_decode;

/// The header that names the marker, percent-encoded as keys in addresses are.
pub(crate) const IDEMPOTENCY_MARKER: HeaderName = HeaderName::from_static("idempotency-marker");

/// The answers of a batch as a marker keeps them: the transaction is not known before it has committed.
#[derive(Serialize)]
struct Kept<'a> {
    answers: &'a [AnswerBody],
}

/// True if requests of this kind may have a marker.
pub(crate) fn takes_marker(operation: Operation) -> bool {
    matches!(operation, Operation::PutKey | Operation::DeleteKey | Operation::ApplyBatch)
}

/// The same, as it is read.
#[derive(Deserialize)]
struct Answers {
    answers: serde_json::Value,
}

/// The first answer to a request, which names the transaction.
#[derive(Serialize)]
struct Named {
    answers: serde_json::Value,
    token: String,
    timestamp: String,
}

/// The key of the marker of a request; none if it has none.
///
/// # Errors
/// It is no key, or the request is of a kind that has no marker.
pub(crate) fn marker_of(request: &Request) -> Result<Option<Vec<u8>>, Problem> {
    let Some(value) = request.headers.get(IDEMPOTENCY_MARKER) else { return Ok(None) };
    let wrong = |detail: String| Err(Problem::new(Kind::BadRequest, detail));
    if !takes_marker(request.route.operation) {
        return wrong(format!("{IDEMPOTENCY_MARKER} is for writes of keys and for batches"));
    }
    if request.headers.contains_key(IDEMPOTENCY_KEY) {
        return wrong(format!("a request has an {IDEMPOTENCY_KEY} or an {IDEMPOTENCY_MARKER}, not both"));
    }
    match value.to_str().ok().and_then(percent_decode).filter(|key| !key.is_empty()) {
        Some(key) => Ok(Some(key)),
        None => wrong(format!("{IDEMPOTENCY_MARKER} is not a key, percent-encoded as in an address")),
    }
}

/// A digest that tells requests apart, and those of one user from those of another.
fn digest(session: &Session, request: &Request) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let conditions =
        [IF_MATCH, IF_NONE_MATCH].map(|name| request.headers.get(name).map(|value| value.as_bytes()));
    let parts = [
        session.user().unwrap_or_default().as_bytes(),
        request.route.method.as_bytes(),
        request.address.as_bytes(),
        request.content_type().as_bytes(),
        conditions[0].unwrap_or_default(),
        conditions[1].unwrap_or_default(),
        &request.body,
    ];
    for part in parts {
        // The length keeps the end of one part from being the beginning of the next.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Carries out a batch, unless a request with this marker was carried out before. A condition that does not hold is told by `refuse`, and nothing is remembered.
pub(crate) async fn apply(
    session: &Session,
    request: &Request,
    marker: &[u8],
    access: Access<'_>,
    batch: &Batch,
    refuse: impl Fn(usize, Option<Value>) -> Problem,
) -> Result<Answer, Problem> {
    let name = request.name(0)?;
    require(session, name, Access::Read(Scope::Key(marker)))?;
    require(session, name, Access::Write(Scope::Key(marker)))?;
    let marker = &Marker::new(marker).of_request(digest(session, request));
    let refused: &RefCell<Option<(usize, Option<Value>)>> = &RefCell::default();
    let commit = async |keyspace: Keyspace| {
        let body = async |txn: quorate::Transaction| match txn.apply(batch).await? {
            Taken::Done(answers) => Ok(kept(&answers)),
            Taken::Unmet { condition, found } => {
                refused.replace(Some((condition, found)));
                // The transaction is given up, and its client is told the condition in place of this.
                Err(Invalid::Batch { reason: "a condition does not hold".to_owned() }.into())
            }
        };
        Ok(keyspace.transact_once(marker, body).await?)
    };
    match in_keyspace(session, request, access, commit).await {
        Ok(once) => Ok(answer(request, once)),
        Err(problem) => match refused.take() {
            Some((condition, found)) => Err(refuse(condition, found)),
            None => Err(problem),
        },
    }
}

/// The answers of a batch as its marker keeps them.
fn kept(answers: &[StepAnswer]) -> Value {
    let answers: Vec<AnswerBody> = answers.iter().map(AnswerBody::from).collect();
    // Strings, numbers and their lists are always written.
    serde_json::to_vec(&Kept { answers: &answers }).unwrap_or_default().into()
}

/// The answer to a request, as its marker keeps it. The first one names the transaction as well.
fn answer(request: &Request, Once { answer, is_repeat, receipt }: Once) -> Answer {
    let whole = match (request.route.operation, &receipt) {
        (Operation::ApplyBatch, Some(receipt)) => Answer::json(StatusCode::OK, &named(&answer, receipt)),
        (Operation::ApplyBatch, None) => Answer::of(JSON, [&answer[..], b"\n"].concat()),
        _ => Answer::empty(),
    };
    let whole = match &receipt {
        Some(receipt) => whole.receipt(receipt),
        None => whole,
    };
    if is_repeat { whole.header(REPEATED, "true") } else { whole }
}

/// The answers that a marker keeps, with the names of the transaction that has left them there.
fn named(kept: &[u8], receipt: &Receipt) -> Named {
    // They were written a moment ago.
    let answers = serde_json::from_slice(kept).map(|Answers { answers }| answers).unwrap_or_default();
    Named { answers, token: receipt.token.to_string(), timestamp: receipt.timestamp.to_string() }
}
