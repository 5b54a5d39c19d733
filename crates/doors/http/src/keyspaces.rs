//! Keyspaces: the one that a request is about, and all of them; and outcomes, which are of any.

use std::future::Future;
use std::time::Duration;

use hyper::StatusCode;
use quorate::topology::Keyspace as Definition;
use quorate::{Durability, Error, Invalid, Isolation, Keyspace, KeyspaceOptions, Outcome, Retention, Token};
use quorate_gateway::{Right, Scope, Session};
use serde::{Deserialize, Serialize};
use tokio::time::timeout_at;

use crate::answer::Answer;
use crate::problem::{Committed, Kind, Problem};
use crate::request::Request;
use crate::sessions;

/// A new keyspace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKeyspace {
    isolation: String,
    durability: Option<String>,
    shards: Option<usize>,
    replicas: Option<usize>,
    #[serde(default)]
    sites: Vec<String>,
    clock_bound_ms: Option<u64>,
    application: Option<String>,
    retain_s: Option<u64>,
    retain_bytes: Option<u64>,
    #[serde(default)]
    expiring: bool,
}

/// A keyspace as it is told.
#[derive(Debug, Serialize)]
struct Described {
    name: String,
    isolation: String,
    durability: String,
    shards: usize,
    /// How many replicas each shard has.
    replicas: usize,
    /// True if values may have lifetimes.
    expiring: bool,
}

impl Described {
    fn new(definition: &Definition) -> Self {
        Described {
            name: definition.name.clone(),
            isolation: definition.isolation.to_string(),
            durability: definition.durability.to_string(),
            shards: definition.shards.len(),
            replicas: definition.shards.first().map_or(0, |shard| shard.replicas.len()),
            expiring: definition.expiring,
        }
    }
}

/// How a request uses its keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access<'a> {
    /// It reads a part of it.
    Read(Scope<'a>),
    /// It writes to a part of it.
    Write(Scope<'a>),
    /// It deploys or removes procedures.
    Deploy,
}

/// Asks for the right to a part of a keyspace, or to do something with it.
///
/// # Errors
/// The session does not have it.
pub(crate) fn require(session: &Session, keyspace: &str, access: Access<'_>) -> Result<(), Problem> {
    // The records of another door name its keys in their own way: a prefix says nothing of them.
    let within = |scope| match scope {
        Scope::Part => Scope::Part,
        _ if session.is_layered(keyspace) => Scope::Whole,
        scope => scope,
    };
    session.require(match access {
        Access::Read(scope) => Right::Read { keyspace, scope: within(scope) },
        Access::Write(scope) => Right::Write { keyspace, scope: within(scope) },
        Access::Deploy => Right::Deploy { keyspace },
    })?;
    Ok(())
}

/// Does something in the keyspace of a request, whose name is the first in its address, once the session has the right to. A keyspace that has been dropped is looked
/// up once more: there may be a new one of its name.
pub(crate) async fn in_keyspace<T>(
    session: &Session,
    request: &Request,
    access: Access<'_>,
    run: impl AsyncFn(Keyspace) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let name = request.name(0)?;
    require(session, name, access)?;
    let mut is_first = true;
    loop {
        let keyspace = in_time(request, session.keyspace(name), Committed::No).await?;
        sessions::observe(session, request, &keyspace).await?;
        match run(keyspace.with_deadline(request.patience())).await {
            Err(problem) if problem.is_stale => {
                session.forget(name);
                if !std::mem::take(&mut is_first) {
                    return Err(problem.with("of", "keyspace"));
                }
            }
            ended => return ended,
        }
    }
}

/// Waits as long as the request may take; `committed` says whether anything can have happened if that is not long enough.
pub(crate) async fn in_time<T>(
    request: &Request,
    work: impl Future<Output = quorate::Result<T>>,
    committed: Committed,
) -> Result<T, Problem> {
    let Ok(done) = timeout_at(request.deadline, work).await else {
        let kind = if committed == Committed::No { Kind::Unavailable } else { Kind::Unknown };
        return Err(Problem::new(kind, "the deadline of the request has passed").committed(committed));
    };
    done.map_err(|error| match error {
        Error::Invalid(Invalid::NoSuchKeyspace { .. } | Invalid::KeyspaceInDrops { .. }) => {
            Problem::from(error).with("of", "keyspace")
        }
        error => Problem::from(error),
    })
}

/// Lists the keyspaces.
pub(crate) async fn list(session: &Session, request: &Request) -> Result<Answer, Problem> {
    /// All of them.
    #[derive(Serialize)]
    struct Listed {
        keyspaces: Vec<Described>,
    }
    session.require(Right::List)?;
    let list = async { session.database().await?.list().await };
    let mut definitions = in_time(request, list, Committed::No).await?;
    // A user is told of those that it has a right in.
    definitions.retain(|definition| {
        let keyspace = definition.name.as_str();
        [
            Right::Read { keyspace, scope: Scope::Part },
            Right::Deploy { keyspace },
            Right::Administer { keyspace },
        ]
        .into_iter()
        .any(|right| session.allows(right))
    });
    let listed = Listed { keyspaces: definitions.iter().map(Described::new).collect() };
    Ok(Answer::json(StatusCode::OK, &listed))
}

/// Tells what a keyspace is like.
pub(crate) async fn describe(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let name = request.name(0)?;
    require(session, name, Access::Read(Scope::Part))?;
    // The catalogue is asked, because what the session remembers may have been dropped.
    let find = async { session.database().await?.keyspace(name).await };
    let keyspace = in_time(request, find, Committed::No).await?;
    Ok(Answer::json(StatusCode::OK, &Described::new(&keyspace.definition())))
}

/// Creates a keyspace, unless there is one that is as asked for: a client that has no answer asks again.
pub(crate) async fn create(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let name = request.name(0)?;
    session.require(Right::Administer { keyspace: name })?;
    let options = request.json::<NewKeyspace>()?.options()?;
    let create = async {
        let database = session.database().await?;
        database.create_keyspace_if_absent_with(name, options, Some(request.patience()), |_| {}).await
    };
    session.record_administration("create keyspace", name);
    let ensured = in_time(request, create, Committed::Unknown).await?;
    let status = if ensured.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let body = Described::new(&ensured.keyspace.definition());
    Ok(Answer::json(status, &body))
}

impl NewKeyspace {
    pub(crate) fn options(self) -> Result<KeyspaceOptions, Problem> {
        let wrong = |error: &dyn std::fmt::Display| Problem::new(Kind::Refused, error.to_string());
        let isolation: Isolation = self.isolation.parse().map_err(|error| wrong(&error))?;
        let usual = KeyspaceOptions::new(isolation);
        let durability = self.durability.as_deref().map(str::parse::<Durability>).transpose();
        Ok(KeyspaceOptions {
            durability: durability.map_err(|error| wrong(&error))?.unwrap_or(usual.durability),
            shards: self.shards.unwrap_or(usual.shards),
            replicas: self.replicas,
            sites: self.sites,
            clock_bound: self.clock_bound_ms.map(Duration::from_millis),
            application: self.application,
            retention: (self.retain_s.is_some() || self.retain_bytes.is_some()).then(|| Retention {
                time: self.retain_s.map_or(Retention::default().time, Duration::from_secs),
                bytes: self.retain_bytes.unwrap_or(Retention::default().bytes),
            }),
            expiring: self.expiring,
            ..usual
        })
    }
}

/// Drops a keyspace.
pub(crate) async fn drop_one(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let name = request.name(0)?;
    session.require(Right::Administer { keyspace: name })?;
    session.record_administration("drop keyspace", name);
    session.forget(name);
    let dropping = async { session.database().await?.drop_keyspace(name).await };
    in_time(request, dropping, Committed::Unknown).await?;
    Ok(Answer::empty())
}

/// Tells what became of a transaction.
pub(crate) async fn outcome(session: &Session, request: &Request) -> Result<Answer, Problem> {
    /// An outcome.
    #[derive(Serialize)]
    struct Told<'a> {
        token: &'a str,
        outcome: &'static str,
        /// Of a transaction that has committed.
        timestamp: Option<String>,
    }
    let text = request.name(0)?;
    let token: Token = text.parse().map_err(|error| Error::from(Invalid::Token(error)))?;
    let (outcome, timestamp) = match ask_outcome(session, request, &token).await? {
        Outcome::Committed(timestamp) => ("committed", Some(timestamp)),
        Outcome::Aborted => ("aborted", None),
    };
    let told = Told { token: text, outcome, timestamp: timestamp.map(|timestamp| timestamp.to_string()) };
    Ok(Answer::json(StatusCode::OK, &told))
}

/// Asks what became of a transaction, and settles it.
pub(crate) async fn ask_outcome(
    session: &Session,
    request: &Request,
    token: &Token,
) -> Result<Outcome, Problem> {
    session.require(Right::Settle)?;
    let ask = async { session.database().await?.outcome(token).await };
    in_time(request, ask, Committed::Unknown).await.map_err(|problem| match problem.token() {
        None if problem.kind == Kind::Unknown => problem.with("token", token.to_string()),
        _ => problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keyspaces_are_read_from_json() {
        let read = |text: &str| serde_json::from_str::<NewKeyspace>(text).map(NewKeyspace::options);
        let expected = KeyspaceOptions {
            shards: 3,
            durability: Durability::Memory,
            ..KeyspaceOptions::new(Isolation::Strict)
        };
        let text = r#"{"isolation": "strict", "shards": 3, "durability": "memory"}"#;
        assert_eq!(read(text).unwrap(), Ok(expected));
        let wrong = read(r#"{"isolation": "strong"}"#).unwrap().unwrap_err();
        assert!(wrong.body().to_string().contains("strict"), "{wrong:?}");
        assert!(read("{}").is_err());
    }
}
