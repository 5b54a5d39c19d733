//! The commits of a keyspace, page by page: a client asks for those that follow its cursor, and waits for them.
//!
//! The door keeps nothing between two requests: the cursor says everything, so that the next one may come to any door.

use std::time::Duration;

use hyper::StatusCode;
use quorate::{Change, Changes, Cursor, Keyspace, end_of_prefix};
use quorate_gateway::{Scope, Session};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::answer::Answer;
use crate::keyspaces::{Access, in_keyspace};
use crate::problem::{Kind, Problem};
use crate::request::Request;
use crate::text::{Octets, percent_encode};

/// A page is told once its changes have so many bytes.
const PAGE_BYTES: u64 = 1024 * 1024;

/// Once there is a change, so long others are waited for that are told with it.
const GATHERING: Duration = Duration::from_millis(20);

/// A page is told by the deadline of its request, or so much earlier that it arrives before that.
const MARGIN: Duration = Duration::from_millis(500);

/// A page of changes.
#[derive(Debug, Serialize)]
struct FeedPage {
    changes: Vec<FeedChange>,
    /// Everything below this position was told, by this page and those before it.
    resolved: String,
    cursor: String,
    /// The address of the next page.
    next: String,
}

/// The writes of one transaction at one shard.
#[derive(Debug, Serialize)]
struct FeedChange {
    timestamp: String,
    shard: u32,
    writes: Vec<FeedWrite>,
}

/// A write; without a value, the key was deleted.
#[derive(Debug, Serialize)]
struct FeedWrite {
    key: Octets,
    value: Option<Octets>,
}

impl FeedChange {
    fn new(shard: quorate::ShardId, change: Change) -> Self {
        let write = |write: quorate::Write| FeedWrite {
            key: Octets::from(&write.key),
            value: write.value.map(Octets),
        };
        FeedChange {
            timestamp: change.timestamp.to_string(),
            shard: shard.0,
            writes: change.writes.into_iter().map(write).collect(),
        }
    }
}

/// The keys that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted<'a> {
    All,
    Key(&'a [u8]),
    Prefix(&'a [u8]),
}

impl<'a> Wanted<'a> {
    fn of(request: &'a Request) -> Result<Self, Problem> {
        match (request.parameter("key"), request.parameter("prefix")) {
            (None, None) => Ok(Wanted::All),
            (Some(key), None) => Ok(Wanted::Key(key)),
            (None, Some(prefix)) => Ok(Wanted::Prefix(prefix)),
            (Some(_), Some(_)) => {
                Err(Problem::new(Kind::BadRequest, "changes are asked for of a key or of a prefix, not both"))
            }
        }
    }

    async fn follow(self, keyspace: &Keyspace, from: Option<&Cursor>) -> quorate::Result<Changes> {
        match self {
            Wanted::All => keyspace.changes(from).await,
            Wanted::Key(key) => keyspace.watch(key, from).await,
            Wanted::Prefix(prefix) => keyspace.watch_prefix(prefix, from).await,
        }
    }

    /// The parameter that names them, to be followed by others.
    fn parameter(self) -> String {
        match self {
            Wanted::All => String::new(),
            Wanted::Key(key) => format!("key={}&", percent_encode(key)),
            Wanted::Prefix(prefix) => format!("prefix={}&", percent_encode(prefix)),
        }
    }
}

/// Tells what follows a cursor: waits until there is a change, or the time of the request is nearly over. Without a cursor it tells at once where to begin.
pub(crate) async fn follow(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let from = cursor(request)?;
    let wanted = Wanted::of(request)?;
    let end = if let Wanted::Prefix(prefix) = wanted { end_of_prefix(prefix) } else { Vec::new() };
    let scope = match wanted {
        Wanted::All => Scope::Range(&[], None),
        Wanted::Key(key) => Scope::Key(key),
        Wanted::Prefix(prefix) => Scope::Range(prefix, Some(&end[..]).filter(|end| !end.is_empty())),
    };
    let read = async |keyspace: Keyspace| {
        let mut changes = wanted.follow(&keyspace, from.as_ref()).await?;
        let told = match from {
            Some(_) => gather(&mut changes, request.deadline).await?,
            None => Vec::new(),
        };
        Ok((told, changes.resolved(), changes.cursor().clone()))
    };
    let (changes, resolved, cursor) = in_keyspace(session, request, Access::Read(scope), read).await?;
    let path = request.address.split('?').next().unwrap_or_default();
    let next = format!("{path}?{}from={cursor}", wanted.parameter());
    let page = FeedPage { changes, resolved: resolved.to_string(), cursor: cursor.to_string(), next };
    Ok(Answer::json(StatusCode::OK, &page))
}

/// The cursor of a request, if it has one.
pub(crate) fn cursor(request: &Request) -> Result<Option<Cursor>, Problem> {
    let Some(bytes) = request.parameter("from") else { return Ok(None) };
    let text = String::from_utf8_lossy(bytes);
    let parsed = text.parse::<Cursor>();
    parsed.map(Some).map_err(|error| Problem::new(Kind::BadRequest, error.to_string()))
}

/// Waits for changes, and takes those that come shortly after the first.
async fn gather(changes: &mut Changes, deadline: Instant) -> Result<Vec<FeedChange>, Problem> {
    let left = deadline.saturating_duration_since(Instant::now());
    let mut until = deadline - MARGIN.min(left / 4);
    let (mut told, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE_BYTES {
        match timeout_at(until, changes.next()).await {
            Err(_) => break,
            Ok(Ok(page)) => {
                bytes += page.changes.iter().map(Change::bytes).sum::<u64>();
                told.extend(page.changes.into_iter().map(|change| FeedChange::new(page.shard, change)));
                if !told.is_empty() {
                    until = until.min(Instant::now() + GATHERING);
                }
            }
            // The changes that were told already are returned; the next request finds out the rest.
            Ok(Err(_)) if !told.is_empty() => break,
            Ok(Err(error)) => return Err(error.into()),
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_of_the_same_keys() {
        assert_eq!(Wanted::All.parameter(), "");
        assert_eq!(Wanted::Key(b"a/\xff").parameter(), "key=a%2F%FF&");
        assert_eq!(Wanted::Prefix(b"user/").parameter(), "prefix=user%2F&");
    }
}
