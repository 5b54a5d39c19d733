//! Sessions that go on at another node: a client carries what it has seen in a header, and each answer tells what it has seen by then.
//!
//! The connections of a thread of the gateway share a session, so what a client claims to have seen must not hold up others. Only the part of the
//! keyspace that the request is about is observed, the request alone waits for it, and a time that lies ahead of the clock of this node is
//! waited for before the session hears of it. All other parts are handed back as they came.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::HeaderName;
use quorate::{Keyspace, Seen};
use quorate_gateway::Session;
use tokio::time::sleep;

use crate::answer::Answer;
use crate::keyspaces::in_time;
use crate::problem::{Committed, Kind, Problem};
use crate::request::Request;

/// The header that carries what a client has seen, in requests and answers.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("quorate-session");

/// The longest token that is taken, in bytes: it has room in the head of a request.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The token that a request carries; none if its client does not care. A session begins with an empty one.
///
/// # Errors
/// It is no token.
pub(crate) fn seen_by(request: &Request) -> Result<Option<Seen>, Problem> {
    let Some(value) = request.headers.get(SESSION) else { return Ok(None) };
    let wrong = |what: String| Problem::new(Kind::BadRequest, format!("{SESSION}: {what}"));
    if value.len() > TOKEN_BYTES_MAX {
        return Err(wrong(format!("a token has at most {TOKEN_BYTES_MAX} bytes; begin with an empty one")));
    }
    let text = value.to_str().map_err(|_| wrong("a token has digits, dots and tildes".to_owned()))?;
    if text.is_empty() {
        return Ok(Some(Seen::default()));
    }
    text.parse().map(Some).map_err(|error: quorate::InvalidSeen| wrong(error.to_string()))
}

/// Lets what the request does come after what its client has seen of the keyspace.
///
/// # Errors
/// That was never there, or is not here by the deadline of the request.
pub(crate) async fn observe(
    session: &Session,
    request: &Request,
    keyspace: &Keyspace,
) -> Result<(), Problem> {
    let Some(seen) = seen_by(request)?.map(|seen| seen.only(keyspace.definition().id)) else {
        return Ok(());
    };
    let database = in_time(request, session.database(), Committed::No).await?;
    let own = database.seen();
    if own.includes(&seen) {
        return Ok(());
    }
    if seen.time > own.time {
        let ahead = ahead_of_clock(seen.time.as_micros());
        if ahead > request.patience() {
            let detail = format!(
                "{SESSION}: what was seen lies {ahead:.0?} ahead of the clock of this node, which is longer than the request may take"
            );
            return Err(Problem::new(Kind::Unavailable, detail));
        }
        sleep(ahead).await;
    }
    in_time(request, database.observe(&seen), Committed::No).await
}

/// How far a time lies ahead of the clock of this node.
fn ahead_of_clock(micros: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_micros(micros).saturating_sub(now)
}

/// The same answer, which tells what the client has seen now.
pub(crate) fn told(answer: Answer, seen: Seen, session: &Session, keyspace: &str) -> Answer {
    let mut joined = seen;
    if let Some(here) = session.seen(keyspace) {
        joined.join(&here);
    }
    answer.header(SESSION, joined.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::find;

    fn seen(value: &str) -> Result<Option<Seen>, Problem> {
        let uri: hyper::Uri = "/v1/keyspaces/a/keys/k".parse().unwrap();
        let headers = [(SESSION, value.parse().unwrap())].into_iter().collect();
        let request = Request::new(find("GET", uri.path())?, &uri, headers, Duration::from_secs(1));
        seen_by(&request?)
    }

    #[test]
    fn a_session_begins_with_nothing_and_goes_on_with_a_token() {
        assert_eq!(seen("").unwrap(), Some(Seen::default()));
        assert_eq!(seen("7~1.2.3").unwrap(), Some("7~1.2.3".parse().unwrap()));
        for wrong in ["soon", "7~1", &"1".repeat(TOKEN_BYTES_MAX + 1)] {
            assert_eq!(seen(wrong).unwrap_err().kind, Kind::BadRequest, "{wrong}");
        }
    }

    #[test]
    fn only_what_lies_ahead_of_the_clock_is_waited_for() {
        assert_eq!(ahead_of_clock(0), Duration::ZERO);
        assert!(ahead_of_clock(u64::MAX) > Duration::from_secs(1_000_000_000));
    }
}
