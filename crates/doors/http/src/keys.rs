//! Keys and values, one by one and in pages.

use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use quorate::{Applied, Batch, Isolation, Key, Keyspace, Page, Snapshot, Timestamp, Value, end_of_prefix};
use quorate_gateway::{Scope, Session};
use serde::Serialize;

use crate::answer::{Answer, JSON};
use crate::keyspaces::{Access, in_keyspace};
use crate::once::{self, marker_of};
use crate::problem::{Kind, Problem};
use crate::request::Request;
use crate::text::{Octets, percent_encode};

/// Lines of JSON as a type of bodies.
pub(crate) const LINES: &str = "application/x-ndjson";

/// Bytes as a type of bodies.
const BYTES: &str = "application/octet-stream";

/// The header that holds the address of the next page.
const NEXT: HeaderName = HeaderName::from_static("quorate-next");

/// The header that says for how many milliseconds a key will hold its value.
const TTL: HeaderName = HeaderName::from_static("quorate-ttl-ms");

const LIMIT_USUAL: u32 = 100;
const LIMIT_MAX: u32 = 10_000;

/// A key and its value.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) key: Octets,
    pub(crate) value: Octets,
}

impl Entry {
    /// The entries of a page.
    pub(crate) fn all(page: &Page) -> Vec<Entry> {
        let entry =
            |(key, value): &(Key, Value)| Entry { key: Octets::from(key), value: Octets(value.clone()) };
        page.entries.iter().map(entry).collect()
    }
}

/// A page of a scan.
#[derive(Debug, Serialize)]
struct ScannedPage {
    entries: Vec<Entry>,
    /// The address of the next page; none if the range ends here.
    next: Option<String>,
    timestamp: String,
}

/// Reads a key.
pub(crate) async fn get(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let (at, key) = (request.at()?, request.key(1));
    let read = async |keyspace: Keyspace| match at {
        Some(timestamp) => Ok((keyspace.read_at(timestamp, [key]).await?, None, timestamp)),
        None => {
            let Snapshot { values, expiries, timestamp, .. } =
                keyspace.read_only_with_snapshot([key]).await?;
            Ok((values, expiries.into_iter().next().flatten(), timestamp))
        }
    };
    let (values, expires_at, timestamp) =
        in_keyspace(session, request, Access::Read(Scope::Key(key)), read).await?;
    let answer = match values.into_iter().next().flatten() {
        None => Problem::new(Kind::NotFound, "the key is absent").with("of", "key").into_answer(),
        Some(value) if request.accepts(JSON) => match serde_json::from_slice::<serde::de::IgnoredAny>(&value)
        {
            Ok(_) => Answer::of(JSON, value),
            Err(error) => {
                let detail = format!("the value is not JSON: {error}; ask for {BYTES}");
                Problem::new(Kind::NotAcceptable, detail).into_answer()
            }
        },
        Some(value) => Answer::of(BYTES, value),
    };
    let answer = answer.timestamp(timestamp);
    Ok(match expires_at {
        Some(at) => answer.header(TTL, remaining_ms(at).to_string()),
        None => answer,
    })
}

/// The milliseconds that are left of a lifetime. It was not over when it was read.
fn remaining_ms(expires_at: SystemTime) -> u128 {
    expires_at.duration_since(SystemTime::now()).unwrap_or_default().as_millis().max(1)
}

/// Writes a key.
pub(crate) async fn put(session: &Session, request: &Request) -> Result<Answer, Problem> {
    if request.content_type().eq_ignore_ascii_case(JSON) {
        request.json::<serde::de::IgnoredAny>()?;
    }
    let key = request.key(1);
    let batch = match lifetime(request)? {
        Some(lifetime) => Batch::new().put_for(key, &request.body, lifetime),
        None => Batch::new().put(key, &request.body),
    };
    write(session, request, batch).await
}

/// How long what is written is to live; none if it stays.
fn lifetime(request: &Request) -> Result<Option<Duration>, Problem> {
    let parse = |text: &str| text.parse().ok().filter(|milliseconds| *milliseconds > 0);
    let milliseconds = request.parsed("ttl_ms", parse, "a number of milliseconds, which is 1 at least")?;
    Ok(milliseconds.map(Duration::from_millis))
}

/// Deletes a key.
pub(crate) async fn delete(session: &Session, request: &Request) -> Result<Answer, Problem> {
    write(session, request, Batch::new().delete(request.key(1))).await
}

async fn write(session: &Session, request: &Request, batch: Batch) -> Result<Answer, Problem> {
    let batch = conditions(request, batch)?;
    let access = Access::Write(Scope::Key(request.key(1)));
    let unmet = |_: usize, found: Option<Value>| {
        let state = if found.is_some() { "there" } else { "absent" };
        Problem::new(Kind::Unmet, format!("the key is {state}, and nothing was done"))
    };
    if let Some(marker) = marker_of(request)? {
        return once::apply(session, request, &marker, access, &batch, unmet).await;
    }
    let apply = async |keyspace: Keyspace| Ok(keyspace.apply(batch.clone()).await?);
    match in_keyspace(session, request, access, apply).await? {
        Applied::Done { receipt, .. } => Ok(Answer::empty().receipt(&receipt)),
        Applied::Unmet { condition, found } => Err(unmet(condition, found)),
    }
}

/// The conditions that a write has in its headers (RFC 9110, section 13.1). Values have no tags, so others than `*` cannot be met.
fn conditions(request: &Request, batch: Batch) -> Result<Batch, Problem> {
    let is_any = |name: HeaderName| match request.headers.get(&name) {
        None => Ok(false),
        Some(value) if value.as_bytes().trim_ascii() == b"*" => Ok(true),
        Some(_) => {
            let detail = format!("{name} is not `*`: values have no tags; a batch compares them");
            Err(Problem::new(Kind::BadRequest, detail))
        }
    };
    let key = request.key(1);
    let batch = if is_any(IF_NONE_MATCH)? { batch.expect_absent(key) } else { batch };
    Ok(if is_any(IF_MATCH)? { batch.expect_exists(key) } else { batch })
}

/// Reads a page of keys.
pub(crate) async fn scan(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let at = request.at()?;
    let limit = limit(request)?;
    let (from, to) = range(request)?;
    let read = async |keyspace: Keyspace| match at {
        Some(timestamp) => {
            let page = keyspace.scan_at(timestamp, &from, &to, limit).await?;
            Ok((page, timestamp, Some(timestamp)))
        }
        None => {
            let snapshot = keyspace.scan_with_snapshot(&from, &to, limit).await?;
            let goes_on_at = keeps_the_past(&keyspace).then_some(snapshot.timestamp);
            Ok((snapshot.page, snapshot.timestamp, goes_on_at))
        }
    };
    let is_empty = !to.is_empty() && from >= to;
    let (page, timestamp, goes_on_at) = match at {
        // Nothing lies there, and a transaction that reads nothing has no timestamp.
        Some(timestamp) if is_empty => (Page::default(), timestamp, None),
        _ => {
            let scope = Scope::Range(&from, Some(&to[..]).filter(|to| !to.is_empty()));
            in_keyspace(session, request, Access::Read(scope), read).await?
        }
    };
    let path = request.address.split('?').next().unwrap_or_default();
    let next = page.next.as_ref().map(|next| next_address(path, next, &to, limit, goes_on_at));
    let entries = Entry::all(&page);
    if request.accepts(LINES) {
        let mut lines = Vec::new();
        for entry in &entries {
            // A write to memory does not fail.
            if serde_json::to_writer(&mut lines, entry).is_ok() {
                lines.push(b'\n');
            }
        }
        let answer = Answer::of(LINES, lines).timestamp(timestamp);
        return Ok(match next {
            Some(next) => answer.header(NEXT, next),
            None => answer,
        });
    }
    let page = ScannedPage { entries, next, timestamp: timestamp.to_string() };
    Ok(Answer::json(StatusCode::OK, &page).timestamp(timestamp))
}

/// How many a page has at most, as the request says.
pub(crate) fn limit(request: &Request) -> Result<u32, Problem> {
    let parse = |text: &str| text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    Ok(request.parsed("limit", parse, &format!("a number from 1 to {LIMIT_MAX}"))?.unwrap_or(LIMIT_USUAL))
}

/// The range that a scan is of: from the first key, included, to the last one, excluded; without an end if that is empty.
pub(crate) fn range(request: &Request) -> Result<(Vec<u8>, Vec<u8>), Problem> {
    let bytes = |name| request.parameter(name).unwrap_or_default().to_vec();
    let (from, to) = match request.parameter("prefix") {
        Some(_) if request.parameter("from").or(request.parameter("to")).is_some() => {
            return Err(Problem::new(Kind::BadRequest, "a scan has a prefix, or from and to"));
        }
        Some(prefix) => (prefix.to_vec(), end_of_prefix(prefix)),
        None => (bytes("from"), bytes("to")),
    };
    let after = request.parameter("after").map(|after| [after, &[0]].concat()).unwrap_or_default();
    Ok((from.max(after), to))
}

/// The address of the page from a key on, of the same snapshot.
pub(crate) fn next_address(path: &str, next: &[u8], to: &[u8], limit: u32, at: Option<Timestamp>) -> String {
    let to = if to.is_empty() { String::new() } else { format!("&to={}", percent_encode(to)) };
    let at = at.map(|at| format!("&at={at}")).unwrap_or_default();
    format!("{path}?from={}{to}&limit={limit}{at}", percent_encode(next))
}

/// True if pages that follow each other can be read at one timestamp: elsewhere a keyspace has what there is now.
fn keeps_the_past(keyspace: &Keyspace) -> bool {
    let definition = keyspace.definition();
    definition.isolation == Isolation::Strict && definition.comparison.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_an_address() {
        let at = Timestamp { micros: 7, client: quorate::ClientId(0xab) };
        let next = next_address("/v1/keyspaces/a/keys", b"k/\xff", b"z", 2, Some(at));
        assert_eq!(next, "/v1/keyspaces/a/keys?from=k%2F%FF&to=z&limit=2&at=7@ab");
    }
}
