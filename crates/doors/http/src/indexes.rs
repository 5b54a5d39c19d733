//! Keys that an index finds.
//!
//! Indexes are created and dropped by the command line, because both take as long as the keyspace is large.

use hyper::StatusCode;
use quorate::index::IndexValue;
use quorate::{IndexPage, Indexed, Key, Keyspace};
use quorate_gateway::{Scope, Session};
use serde::Serialize;

use crate::answer::Answer;
use crate::keys::{Entry, limit};
use crate::keyspaces::{Access, in_keyspace};
use crate::problem::{Kind, Problem};
use crate::request::Request;
use crate::text::{Octets, percent_encode};

/// A page of keys that were found.
#[derive(Debug, Serialize)]
struct FoundPage {
    entries: Vec<Entry>,
    /// The address of the next page; none if there is no more.
    next: Option<String>,
}

/// The values that are asked for.
enum Asked {
    Equal(IndexValue),
    Between(Option<IndexValue>, Option<IndexValue>),
}

/// Reads a page of the keys that are found by a value, or by values of a range. Its reader may read every key of the keyspace: what is found may have any.
pub(crate) async fn find(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let asked = asked(request)?;
    let (limit, after) = (limit(request)?, request.parameter("after").map(Key::copy_from_slice));
    let name = request.name(1)?;
    let read = async |keyspace: Keyspace| {
        let read = async |txn: quorate::Transaction| {
            let index = txn.index(name);
            let index = match &after {
                Some(after) => index.resume(after.clone()),
                None => index,
            };
            match &asked {
                Asked::Equal(value) => index.get(value.clone(), limit).await,
                Asked::Between(from, to) => index.range(from.clone(), to.clone(), limit).await,
            }
        };
        Ok(keyspace.transact(read).await?)
    };
    let access = Access::Read(Scope::Range(b"", None));
    let IndexPage { entries, next } = in_keyspace(session, request, access, read).await?;
    let entry = |Indexed { key, value, .. }: Indexed| Entry { key: Octets::from(&key), value: Octets(value) };
    let entries = entries.into_iter().map(entry).collect();
    let next = next.map(|next| next_address(request, &next, limit));
    Ok(Answer::json(StatusCode::OK, &FoundPage { entries, next }))
}

/// The values that a request asks for: a scalar in JSON, or a text.
fn asked(request: &Request) -> Result<Asked, Problem> {
    let value = |name| request.parsed(name, |text| Some(IndexValue::read(text)), "text");
    match (value("value")?, value("from")?, value("to")?) {
        (Some(value), None, None) => Ok(Asked::Equal(value)),
        (None, from, to) => Ok(Asked::Between(from, to)),
        _ => Err(Problem::new(Kind::BadRequest, "an index is asked for a value, or for values from and to")),
    }
}

/// The address of the page behind this one.
fn next_address(request: &Request, next: &[u8], limit: u32) -> String {
    let path = request.address.split('?').next().unwrap_or_default();
    let same = ["value", "from", "to"]
        .into_iter()
        .filter_map(|name| request.parameter(name).map(|value| format!("{name}={}&", percent_encode(value))));
    let same: String = same.collect();
    format!("{path}?{same}limit={limit}&after={}", percent_encode(next))
}

/// Reads the parameters of a request.
pub(crate) fn validate(request: &Request) -> Result<(), Problem> {
    limit(request)?;
    asked(request).map(drop)
}
