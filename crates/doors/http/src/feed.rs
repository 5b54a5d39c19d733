//! The commits of a keyspace, page by page: a client asks for those that follow its cursor, and waits for them.
//!
//! The door keeps nothing between two requests: the cursor says everything, so that the next one may come to any door.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use quorate::{Addition, Change, ChangePage, Changes, Cursor, Keyspace, end_of_prefix};
use quorate_gateway::{Scope, Session};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::answer::Answer;
use crate::keyspaces::{self, Access, in_keyspace};
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
pub(crate) struct FeedPage {
    changes: Vec<FeedChange>,
    /// Everything below this position was told, by this page and those before it.
    resolved: String,
    cursor: String,
    /// The address of the next page; none of an event, which others follow by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl FeedPage {
    pub(crate) fn new(told: Vec<FeedChange>, changes: &Changes, next: Option<String>) -> Self {
        let (resolved, cursor) = (changes.resolved().to_string(), changes.cursor().to_string());
        FeedPage { changes: told, resolved, cursor, next }
    }

    pub(crate) fn cursor(&self) -> &str {
        &self.cursor
    }
}

/// The writes of one transaction at one shard.
#[derive(Debug, Serialize)]
pub(crate) struct FeedChange {
    timestamp: String,
    /// None of a keyspace whose sites all have everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<u32>,
    writes: Vec<FeedWrite>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    additions: Vec<FeedAddition>,
}

/// A write; without a value, the key was deleted.
#[derive(Debug, Serialize)]
struct FeedWrite {
    key: Octets,
    value: Option<Octets>,
    /// When the value is over, in microseconds since 1970, if it was written for a lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_us: Option<u64>,
}

/// The count of an element of a set, or a counter, was changed by so much.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum FeedAddition {
    Element { set: Octets, element: Octets, by: i64 },
    Counter { counter: Octets, by: i64 },
}

impl From<Addition> for FeedAddition {
    fn from(Addition { object, element, by }: Addition) -> Self {
        let object = Octets::from(&object);
        match element {
            Some(element) => FeedAddition::Element { set: object, element: Octets::from(&element), by },
            None => FeedAddition::Counter { counter: object, by },
        }
    }
}

impl FeedChange {
    /// The changes of a page.
    fn all(page: ChangePage) -> Vec<Self> {
        let ChangePage { shard, changes, expiries, .. } = page;
        let one = |Change { timestamp, writes, additions }: Change| {
            let write = |quorate::Write { key, value }: quorate::Write| FeedWrite {
                key: Octets::from(&key),
                value: value.map(Octets),
                expires_us: expiries.get(&(timestamp, key)).and_then(|at| micros(*at)),
            };
            let writes = writes.into_iter().map(write).collect();
            let additions = additions.into_iter().map(FeedAddition::from).collect();
            FeedChange {
                timestamp: timestamp.to_string(),
                shard: shard.map(|shard| shard.0),
                writes,
                additions,
            }
        };
        changes.into_iter().map(one).collect()
    }
}

fn micros(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_micros()).ok())
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

    /// Their end, where they are a range that has one.
    fn end(self) -> Vec<u8> {
        if let Wanted::Prefix(prefix) = self { end_of_prefix(prefix) } else { Vec::new() }
    }

    /// The right to read them.
    fn access(self, end: &'a [u8]) -> Access<'a> {
        Access::Read(match self {
            Wanted::All => Scope::Range(&[], None),
            Wanted::Key(key) => Scope::Key(key),
            Wanted::Prefix(prefix) => Scope::Range(prefix, Some(end).filter(|end| !end.is_empty())),
        })
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
    let (from, wanted) = (cursor(request)?, Wanted::of(request)?);
    let path = request.address.split('?').next().unwrap_or_default();
    let read = async |mut changes: Changes| {
        let told = match from {
            Some(_) => gather(&mut changes, request.deadline).await?,
            None => Vec::new(),
        };
        let next = format!("{path}?{}from={}", wanted.parameter(), changes.cursor());
        Ok(FeedPage::new(told, &changes, Some(next)))
    };
    let page = open(session, request, from.as_ref(), read).await?;
    Ok(Answer::json(StatusCode::OK, &page))
}

/// Does something with the changes that a request asks for, from a cursor on.
pub(crate) async fn open<T>(
    session: &Session,
    request: &Request,
    from: Option<&Cursor>,
    run: impl AsyncFn(Changes) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let wanted = Wanted::of(request)?;
    let end = wanted.end();
    let opened = async |keyspace: Keyspace| run(wanted.follow(&keyspace, from).await?).await;
    in_keyspace(session, request, wanted.access(&end), opened).await
}

/// Asks for the right to read the changes that a request asks for.
pub(crate) fn require(session: &Session, request: &Request) -> Result<(), Problem> {
    let wanted = Wanted::of(request)?;
    keyspaces::require(session, request.name(0)?, wanted.access(&wanted.end()))
}

/// The cursor of a request, if it has one.
pub(crate) fn cursor(request: &Request) -> Result<Option<Cursor>, Problem> {
    request.parameter("from").map(parse_cursor).transpose()
}

pub(crate) fn parse_cursor(bytes: &[u8]) -> Result<Cursor, Problem> {
    let parsed = String::from_utf8_lossy(bytes).parse::<Cursor>();
    parsed.map_err(|error| Problem::new(Kind::BadRequest, error.to_string()))
}

/// Waits for changes, and takes those that come shortly after the first.
pub(crate) async fn gather(changes: &mut Changes, deadline: Instant) -> Result<Vec<FeedChange>, Problem> {
    let left = deadline.saturating_duration_since(Instant::now());
    let mut until = deadline - MARGIN.min(left / 4);
    let (mut told, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE_BYTES {
        match timeout_at(until, changes.next()).await {
            Err(_) => break,
            Ok(Ok(page)) => {
                bytes += page.changes.iter().map(Change::bytes).sum::<u64>();
                told.extend(FeedChange::all(page));
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
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_next_page_is_of_the_same_keys() {
        assert_eq!(Wanted::All.parameter(), "");
        assert_eq!(Wanted::Key(b"a/\xff").parameter(), "key=a%2F%FF&");
        assert_eq!(Wanted::Prefix(b"user/").parameter(), "prefix=user%2F&");
    }

    fn told(shard: Option<quorate::ShardId>, change: Change) -> serde_json::Value {
        let resolved = quorate::Position::Timestamp(change.timestamp);
        let page = ChangePage { shard, changes: vec![change], resolved, expiries: BTreeMap::new() };
        let told = FeedChange::all(page).pop().unwrap();
        serde_json::to_value(told).unwrap()
    }

    #[test]
    fn additions_say_whether_they_are_of_a_set_or_a_counter() {
        let timestamp = quorate::Timestamp { micros: 7, client: quorate::ClientId(2) };
        let added = |object: &str, element: Option<&str>, by| Addition {
            object: object.into(),
            element: element.map(quorate::Key::from),
            by,
        };
        let additions = vec![added("likes", Some("ada"), -1), added("stock", None, 5)];
        let json = told(None, Change { timestamp, writes: Vec::new(), additions });
        let expected = serde_json::json!({ "timestamp": "7@2", "writes": [], "additions": [
            { "set": "likes", "element": "ada", "by": -1 }, { "counter": "stock", "by": 5 },
        ] });
        assert_eq!(json, expected);
        let write = quorate::Write { key: "a".into(), value: None };
        let json = told(Some(quorate::ShardId(3)), Change::of_writes(timestamp, vec![write]));
        assert_eq!(
            json,
            serde_json::json!({ "timestamp": "7@2", "shard": 3, "writes": [{ "key": "a", "value": null }] })
        );
    }
}
