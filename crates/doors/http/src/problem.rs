//! Problem details (RFC 9457): what went wrong, in a form that programs read, and whether anything can have happened.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use quorate::{Error, Invalid, InvalidProcedure, Refusal};
use quorate_gateway::{Denied, Limited};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::text::Octets;

/// The beginning of all types of problems.
pub(crate) const TYPE_PREFIX: &str = "urn:quorate:problem:";

/// How a client may say who it is.
const CHALLENGE: &str = "Basic realm=\"quorate\", charset=\"UTF-8\", Bearer realm=\"quorate\"";

/// Whether what was asked for can have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// It surely has not.
    No,
    /// It surely has.
    Yes,
    /// It may have, or may still do so.
    Unknown,
}

impl Committed {
    pub(crate) const ALL: [Committed; 3] = [Committed::No, Committed::Yes, Committed::Unknown];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Committed::No => "no",
            Committed::Yes => "yes",
            Committed::Unknown => "unknown",
        }
    }
}

/// Declares the kinds of problems once: name, status and title.
macro_rules! kinds {
    ($($kind:ident: $name:literal, $status:ident, $title:literal;)*) => {
        /// A kind of problem: the end of its type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $(#[doc = $title] $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub(crate) const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// The end of its type, the status and the title.
            pub(crate) fn facts(self) -> (&'static str, StatusCode, &'static str) {
                match self {
                    $(Kind::$kind => ($name, StatusCode::$status, $title),)*
                }
            }
        }
    };
}

kinds! {
    BadRequest: "bad-request", BAD_REQUEST, "the request cannot be understood";
    NotLoggedIn: "not-logged-in", UNAUTHORIZED, "this needs a user, or the credential is wrong";
    Denied: "denied", FORBIDDEN, "the user may not do this";
    NotFound: "not-found", NOT_FOUND, "there is no such thing";
    MethodNotAllowed: "method-not-allowed", METHOD_NOT_ALLOWED, "the address has no such method";
    NotAcceptable: "not-acceptable", NOT_ACCEPTABLE, "the value is not of the type that was asked for";
    Stalled: "stalled", REQUEST_TIMEOUT, "the request did not arrive in time";
    Conflict: "conflict", CONFLICT, "another transaction was in the way";
    InProgress: "in-progress", CONFLICT, "a request with this idempotency key is under way";
    Exists: "exists", CONFLICT, "it exists already";
    TooOld: "too-old", GONE, "this is not kept any more";
    Unmet: "condition-unmet", PRECONDITION_FAILED, "a condition does not hold";
    TooLarge: "too-large", PAYLOAD_TOO_LARGE, "this is more than is allowed";
    MediaType: "media-type", UNSUPPORTED_MEDIA_TYPE, "the body is of another type than the address takes";
    Misdirected: "misdirected", MISDIRECTED_REQUEST, "this door does not answer to this name";
    Refused: "refused", UNPROCESSABLE_ENTITY, "this cannot be carried out";
    Overloaded: "overloaded", TOO_MANY_REQUESTS, "there is more work than is taken";
    Internal: "internal", INTERNAL_SERVER_ERROR, "something failed that should not";
    AnswersLost: "answers-lost", INTERNAL_SERVER_ERROR, "it was committed, and its answers are lost";
    Unavailable: "unavailable", SERVICE_UNAVAILABLE, "too few replicas can be reached";
    Unknown: "unknown-outcome", GATEWAY_TIMEOUT, "it may or may not have been committed";
    NotReached: "not-reached", GATEWAY_TIMEOUT, "it was committed, and is not everywhere yet";
    NoSpace: "no-space", INSUFFICIENT_STORAGE, "there is no room for writes";
}

/// Why a request was not answered as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    detail: String,
    committed: Committed,
    /// Further members, by name.
    more: Map<String, Value>,
    retry_after: Option<Duration>,
    /// The methods that the address has.
    allow: Option<String>,
    /// True if the keyspace may be another one by now, and nothing was done.
    pub(crate) is_stale: bool,
}

impl Problem {
    /// Nothing has happened.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Problem {
            kind,
            detail: detail.into(),
            committed: Committed::No,
            more: Map::new(),
            retry_after: None,
            allow: None,
            is_stale: false,
        }
    }

    pub(crate) fn committed(mut self, committed: Committed) -> Self {
        self.committed = committed;
        self
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.with("retry_after_ms", millis)
    }

    /// The address has other methods than the one that was asked for.
    pub(crate) fn method(allowed: String) -> Self {
        let detail = format!("the address has the methods {allowed}");
        Problem { allow: Some(allowed), ..Problem::new(Kind::MethodNotAllowed, detail) }
    }

    /// True if the same request may have another end when it is repeated, because nothing has happened.
    pub(crate) fn is_without_effect(&self) -> bool {
        self.committed == Committed::No
    }

    /// The transaction whose outcome is to be asked for.
    pub(crate) fn token(&self) -> Option<&str> {
        self.more.get("token").and_then(Value::as_str)
    }

    /// The explanation, for people.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn body(&self) -> Value {
        let (name, status, title) = self.kind.facts();
        let mut body = json!({
            "type": format!("{TYPE_PREFIX}{name}"),
            "status": status.as_u16(),
            "title": title,
            "detail": self.detail,
            "committed": self.committed.name(),
        });
        if let Value::Object(members) = &mut body {
            members.extend(self.more.clone());
        }
        body
    }

    pub(crate) fn into_answer(self) -> Answer {
        let (_, status, _) = self.kind.facts();
        let mut answer = Answer::new(status, Bytes::from(self.body().to_string() + "\n"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(token) = self.token() {
            answer = answer.token(token);
        }
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_millis().div_ceil(1_000).max(1);
            answer = answer.header(RETRY_AFTER, seconds.to_string());
        }
        if self.kind == Kind::NotLoggedIn {
            answer = answer.header(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        if let Some(allowed) = self.allow {
            answer = answer.header(ALLOW, allowed);
        }
        answer
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let kind = match denied {
            Denied::NotLoggedIn(_) => Kind::NotLoggedIn,
            Denied::NotAllowed(_) => Kind::Denied,
            Denied::NotKnown => Kind::Unavailable,
        };
        Problem::new(kind, denied.to_string())
    }
}

impl From<Limited> for Problem {
    fn from(limited: Limited) -> Self {
        let problem = Problem::new(Kind::Overloaded, format!("{limited}; nothing was done"));
        match limited {
            Limited::Rate { retry_after, .. } => problem.retry_after(retry_after),
            Limited::OpenTransactions => problem,
        }
    }
}

/// So long to wait where nobody has said how long.
const RETRY_AFTER_USUAL: Duration = Duration::from_secs(1);

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let problem = |kind| Problem::new(kind, detail.clone());
        match error {
            Error::Conflict => problem(Kind::Conflict).retry_after(Duration::ZERO),
            Error::BelowZero | Error::HistoryAbandoned { .. } | Error::ChangeRefused { .. } => {
                problem(Kind::Conflict)
            }
            Error::Unavailable { .. } | Error::Connect { .. } | Error::Handshake { .. } | Error::Closed => {
                problem(Kind::Unavailable).retry_after(RETRY_AFTER_USUAL)
            }
            Error::Overloaded { retry_after } => problem(Kind::Overloaded).retry_after(retry_after),
            Error::NoSpace { .. } => problem(Kind::NoSpace),
            Error::Unknown { token } => {
                problem(Kind::Unknown).committed(Committed::Unknown).with("token", token.to_string())
            }
            Error::Denied { token: None, .. } => problem(Kind::Denied),
            Error::Denied { token: Some(token), .. } => {
                problem(Kind::Denied).committed(Committed::Unknown).with("token", token.to_string())
            }
            Error::ApologyOwed { token } => problem(Kind::Conflict).with("token", token.to_string()),
            Error::AnswersLost { token } => {
                problem(Kind::AnswersLost).committed(Committed::Yes).with("token", token.to_string())
            }
            Error::NotReached { .. } | Error::NotServing { .. } => {
                problem(Kind::NotReached).committed(Committed::Yes)
            }
            Error::Step { step, .. } => problem(Kind::Refused).with("step", step),
            Error::Invalid(invalid) => of_invalid(&invalid, detail),
            Error::TooOld { .. } => problem(Kind::TooOld).committed(Committed::Unknown),
            Error::ChangesTooOld { retained_from, .. } => {
                problem(Kind::TooOld).with("retained_from", retained_from.to_string())
            }
            Error::ChangesUnavailable { .. } | Error::CutLost { .. } => {
                problem(Kind::Unavailable).retry_after(RETRY_AFTER_USUAL)
            }
            Error::SnapshotTooOld { oldest } => problem(Kind::TooOld).with("oldest", oldest.to_string()),
            Error::Refused { refusal, .. } => of_refusal(&refusal, detail),
            Error::Application(_) => problem(Kind::Internal),
            // A client that is newer than this door: nothing is known of what has happened.
            _ => problem(Kind::Internal).committed(Committed::Unknown),
        }
    }
}

fn of_invalid(invalid: &Invalid, detail: String) -> Problem {
    let kind = match invalid {
        Invalid::Limit(quorate::LimitExceeded::EmptyKey) => Kind::Refused,
        Invalid::Limit(_) | Invalid::Procedure(InvalidProcedure::Limit { .. }) => Kind::TooLarge,
        Invalid::NoSuchKeyspace { .. }
        | Invalid::KeyspaceInDrops { .. }
        | Invalid::Procedure(InvalidProcedure::NoSuchVersion { .. }) => Kind::NotFound,
        Invalid::KeyspaceExists { .. } | Invalid::KeyspaceDiffers { .. } => Kind::Exists,
        Invalid::SystemKeyspace { .. } => Kind::Denied,
        Invalid::OpenTransactions { .. } => {
            return Problem::new(Kind::Overloaded, detail).retry_after(RETRY_AFTER_USUAL);
        }
        Invalid::KeyspaceDropped { .. } => {
            return Problem { is_stale: true, ..Problem::new(Kind::NotFound, detail) };
        }
        Invalid::KeyspaceOutdated { .. } => {
            return Problem::new(Kind::Unavailable, detail).retry_after(RETRY_AFTER_USUAL);
        }
        Invalid::Token(_) => Kind::BadRequest,
        Invalid::ClockAhead { .. } | Invalid::SeenAhead { .. } => Kind::Internal,
        _ => Kind::Refused,
    };
    Problem::new(kind, detail)
}

fn of_refusal(refusal: &Refusal, detail: String) -> Problem {
    match refusal {
        Refusal::TooLarge => Problem::new(Kind::TooLarge, detail),
        Refusal::NoSuchProcedure { .. } => Problem::new(Kind::NotFound, detail),
        Refusal::Procedure { reason } => {
            // A string is always written.
            let reason = serde_json::to_value(Octets(reason.clone())).unwrap_or_default();
            Problem::new(Kind::Refused, detail).with("reason", reason)
        }
        Refusal::Condition { condition, .. } => {
            Problem::new(Kind::Unmet, detail).with("condition", *condition)
        }
        Refusal::Step { step, .. } => Problem::new(Kind::Refused, detail).with("step", *step),
        _ => Problem::new(Kind::Refused, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_whether_anything_can_have_happened() {
        let token: quorate::Token = "a.1.0.1.1".parse().unwrap();
        let wait = Duration::from_millis(1_200);
        for (error, status, committed) in [
            (Error::Conflict, 409, "no"),
            (Error::Unavailable { missing: Vec::new() }, 503, "no"),
            (Error::Overloaded { retry_after: wait }, 429, "no"),
            (Error::NoSpace { reason: "full".to_owned() }, 507, "no"),
            (Error::CutLost { name: "a".to_owned(), reason: "another leader".to_owned() }, 503, "no"),
            (Error::Denied { reason: "no right".to_owned(), token: None }, 403, "no"),
            (Error::Denied { reason: "no right".to_owned(), token: Some(token.clone()) }, 403, "unknown"),
            (Error::Unknown { token: token.clone() }, 504, "unknown"),
            (Error::AnswersLost { token }, 500, "yes"),
            (Invalid::KeyspaceExists { name: "a".to_owned() }.into(), 409, "no"),
            (Invalid::NoSuchKeyspace { name: "a".to_owned(), existing: Vec::new() }.into(), 404, "no"),
            (Invalid::Limit(quorate::LimitExceeded::EmptyKey).into(), 422, "no"),
        ] {
            let body = Problem::from(error).body();
            assert_eq!((&body["status"], &body["committed"]), (&json!(status), &json!(committed)), "{body}");
            assert!(body["type"].as_str().unwrap().starts_with(TYPE_PREFIX));
        }
        let answer = Problem::from(Error::Overloaded { retry_after: wait }).into_answer();
        assert_eq!(answer.headers_of(RETRY_AFTER), ["2"]);
    }

    #[test]
    fn kinds_have_names_of_their_own() {
        let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.facts().0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
