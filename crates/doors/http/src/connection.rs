//! One client, from its first byte to its last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Method, Response, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use quorate::{Outcome, Token};
use quorate_gateway::{Account, Connection, Right, Session};

use crate::answer::{Answer, REPEATED};
use crate::console::{Console, Content, Events, assets};
use crate::login::Remembered;
use crate::problem::{Committed, Kind, Problem};
use crate::repeats::{Repeat, Repeats, fingerprint, key_of};
use crate::request::{Request, no_room};
use crate::routes::{Operation, find};
use crate::sessions::{seen_by, told};
use crate::{
    batch, feed, feed_events, indexes, keys, keyspaces, objects, once, openapi, pages, procedures, trace,
};

/// The longest head of a request, in bytes,
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// with so many headers.
const HEADERS_MAX: usize = 64;

/// The buffer of a connection, in bytes: a head and the beginning of a body.
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// The memory that is counted for a connection as long as it lasts, in bytes: its buffer, and its state.
pub(crate) const CONNECTION_BYTES: usize = 16 * 1024;

/// Serves a client to its end.
pub(crate) async fn serve(
    mut connection: Connection,
    session: Session,
    repeats: &Arc<Repeats>,
    console: &Arc<Console>,
    pages: Option<&pages::Source>,
) {
    let (peer, local) = (connection.peer(), connection.local());
    if let Err(ended) = connection.reserve(CONNECTION_BYTES) {
        connection.last_words(&no_room_in_words());
        tracing::debug!(%peer, %ended, "a connection is refused");
        return;
    }
    let (stream, account) = connection.into_stream();
    let (repeats, console) = (Arc::clone(repeats), Arc::clone(console));
    let login = Remembered::default();
    let pages = pages.cloned();
    let server = Rc::new(Server { session, login, account, repeats, console, local, pages });
    let stall_timeout = server.session.stall_timeout();
    let service = service_fn(|request| {
        let server = Rc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    // A client that has sent all that it wants to may close its side: it is answered all the same, and what it has begun is not cut off.
    let served = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(stall_timeout)
        .max_header_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a connection has ended");
    }
}

/// The last words to a client for which there is no room.
pub(crate) fn no_room_in_words() -> Vec<u8> {
    let body =
        Problem::new(Kind::Overloaded, "the door has as many clients as it takes, and nothing was started")
            .body()
            .to_string();
    format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: \
         {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The words to a client that sends a request in plain text to a door that speaks TLS.
pub(crate) fn wants_tls_in_words() -> Vec<u8> {
    let advice = "this door speaks TLS only: ask by https, and believe the authority of its certificate\n";
    let length = advice.len();
    format!("HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{advice}")
        .into_bytes()
}

struct Server {
    /// That of a client that says nothing of itself.
    session: Session,
    login: Remembered,
    account: Account,
    repeats: Arc<Repeats>,
    console: Arc<Console>,
    /// Where the client has come in.
    local: SocketAddr,
    /// Where the node serves its pages, if they are to be had here.
    pages: Option<pages::Source>,
}

impl Server {
    async fn answer(&self, request: hyper::Request<Incoming>) -> Response<Content> {
        let (head, body) = request.into_parts();
        let answer = match self.listen(&head).await {
            Ok(Some(events)) => return events.into_response(),
            Ok(None) => self.carry_out(head, body).await.unwrap_or_else(Problem::into_answer),
            Err(problem) => problem.into_answer(),
        };
        self.account.answered();
        answer.into_response().map(Content::Whole)
    }

    /// The events of a request that asks for them; none if it asks for something else. They are the only answer that is not whole before it is sent.
    async fn listen(&self, head: &Parts) -> Result<Option<Events>, Problem> {
        validate_host(head, self.local)?;
        let found = (head.method == Method::GET).then(|| find("GET", head.uri.path()).ok()).flatten();
        let operations = [Operation::Listen, Operation::FollowChanges];
        let Some(found) = found.filter(|found| operations.contains(&found.route.operation)) else {
            return Ok(None);
        };
        // Its head has to make sense as that of any other request.
        let request = Request::new(found, &head.uri, head.headers.clone(), self.session.deadline())?;
        let follows = request.route.operation == Operation::FollowChanges;
        if follows && !request.accepts(feed_events::EVENT_STREAM) {
            return Ok(None);
        }
        let session = self.login.session_of(&self.session, &head.headers).await?;
        if !follows {
            return self.console.listen(&session).map(Some);
        }
        session.count(request.address.len())?;
        self.account.hold(feed_events::BYTES).map_err(|no_memory| no_room(&no_memory))?;
        feed_events::listen(session, request).await.map(Some)
    }

    async fn carry_out(&self, head: Parts, body: Incoming) -> Result<Answer, Problem> {
        if let Some(file) = assets::find(&head) {
            // The file is no secret, but a browser asks for a user when the page is refused, and not when its events are.
            if self.session.is_known_to_be_controlled() {
                let session = self.login.session_of(&self.session, &head.headers).await?;
                session.require(Right::Observe)?;
            }
            return Ok(file);
        }
        if let Some(source) = self.pages.as_ref().filter(|_| pages::is_one(&head)) {
            if !pages::is_open(&head) {
                self.login.session_of(&self.session, &head.headers).await?.require(Right::Observe)?;
            }
            return pages::pass_on(source, &head, self.session.deadline()).await;
        }
        let found = find(head.method.as_str(), head.uri.path())?;
        let request = Request::new(found, &head.uri, head.headers, self.session.deadline())?;
        let session = match request.route.operation {
            // The description of the routes is no secret.
            Operation::OpenApi => self.session.clone(),
            _ => self.login.session_of(&self.session, &request.headers).await?,
        };
        if request.route.operation != Operation::OpenApi {
            // Before the body is read: strangers send none.
            session.require(Right::List)?;
        }
        let request = request.receive(body, &self.account, self.session.stall_timeout()).await?;
        session.count(request.address.len() + request.body.len())?;
        let route = request.route;
        let of_session = match route.is_in_session() {
            true => seen_by(&request)?.map(|seen| (seen, request.name(0).unwrap_or_default().to_owned())),
            false => None,
        };
        let ended = match key_of(&request)? {
            None => run(&session, &request).await,
            Some(key) => self.remembered(session.clone(), key, request).await,
        };
        // Also a client that is told of a problem may have seen something.
        let ended = match of_session {
            None => ended,
            Some((seen, keyspace)) => {
                let answer = ended.unwrap_or_else(Problem::into_answer);
                Ok(told(answer, seen, &session, &keyspace))
            }
        };
        let bytes = match &ended {
            Ok(answer) => answer.bytes(),
            Err(_) => return ended,
        };
        // The request is not held any more.
        self.account.hold(bytes).map_err(|no_memory| match &ended {
            Ok(answer) if route.commits => {
                answers_lost(answer.token_of(), "there is no memory for its answers")
            }
            _ => no_room(&no_memory),
        })?;
        ended
    }

    /// Carries out a request that has a key, unless it was carried out before. It goes on if the connection breaks.
    async fn remembered(&self, session: Session, key: String, request: Request) -> Result<Answer, Problem> {
        // The answer to one user is no answer for another.
        let key = format!("{}\0{key}", session.user().unwrap_or_default());
        let repeat = self.repeats.begin(&key, fingerprint(&request), Instant::now())?;
        let unsettled = match repeat {
            Repeat::Answered(answer) => return Ok(answer.header(REPEATED, "true")),
            Repeat::Settle(token) => Some(token),
            Repeat::New => None,
        };
        let (repeats, account) = (Arc::clone(&self.repeats), self.account.clone());
        let work = tokio::task::spawn_local(async move {
            let settled = match unsettled {
                Some(token) => settle(&session, &request, &token).await,
                None => None,
            };
            let ended = match settled {
                Some(ended) => ended,
                None => run(&session, &request).await,
            };
            repeats.end(&key, &ended);
            // The memory of the request is counted as long as there is one.
            drop(account);
            ended
        });
        work.await.unwrap_or_else(|error| {
            Err(Problem::new(Kind::Internal, format!("the request was cut off: {error}"))
                .committed(Committed::Unknown))
        })
    }
}

/// The result of an earlier attempt at a request; none if it surely did not commit, and never will.
async fn settle(session: &Session, request: &Request, token: &str) -> Option<Result<Answer, Problem>> {
    let parsed: Token = match token.parse() {
        Ok(parsed) => parsed,
        Err(_) => {
            return Some(Err(Problem::new(Kind::Internal, "the token of the first request is lost")
                .committed(Committed::Unknown)));
        }
    };
    match keyspaces::ask_outcome(session, request, &parsed).await {
        Ok(Outcome::Aborted) => None,
        Ok(Outcome::Committed(timestamp)) => Some(match request.route.operation {
            Operation::PutKey | Operation::DeleteKey => Ok(Answer::empty().token(token).timestamp(timestamp)),
            Operation::ChangeObjects => Ok(objects::committed(token, timestamp)),
            _ => Err(answers_lost(Some(token), "the first request was answered by nothing")
                .with("timestamp", timestamp.to_string())),
        }),
        Err(problem) if problem.kind == Kind::TooOld => Some(Err(problem)),
        // Nothing is known yet, whatever has kept it from being known.
        Err(problem) => {
            let unknown = Problem::new(Kind::Unknown, problem.detail().to_owned());
            Some(Err(unknown.committed(Committed::Unknown).with("token", token)))
        }
    }
}

fn answers_lost(token: Option<&str>, why: &str) -> Problem {
    let problem = Problem::new(Kind::AnswersLost, format!("it was committed, and {why}: look at the data"))
        .committed(Committed::Yes);
    match token {
        Some(token) => problem.with("token", token),
        None => problem,
    }
}

/// Does what a request asks for.
async fn run(session: &Session, request: &Request) -> Result<Answer, Problem> {
    // One that has none to leave its answer at is refused, and not carried out without.
    once::marker_of(request)?;
    match request.route.operation {
        Operation::GetKey => keys::get(session, request).await,
        Operation::PutKey => keys::put(session, request).await,
        Operation::DeleteKey => keys::delete(session, request).await,
        Operation::ScanKeys => keys::scan(session, request).await,
        Operation::ApplyBatch => batch::apply(session, request).await,
        Operation::TraceBatch => trace::apply(session, request).await,
        Operation::ChangeObjects => objects::change(session, request).await,
        Operation::FindKeys => indexes::find(session, request).await,
        Operation::FollowChanges => feed::follow(session, request).await,
        Operation::GetCounter => objects::counter(session, request).await,
        Operation::GetElements => objects::elements(session, request).await,
        Operation::GetCount => objects::count(session, request).await,
        Operation::CallProcedure => procedures::call(session, request).await,
        Operation::DeployProcedure => procedures::deploy(session, request).await,
        Operation::RemoveProcedure => procedures::remove(session, request).await,
        Operation::ListProcedures => procedures::list(session, request).await,
        Operation::GetOutcome => keyspaces::outcome(session, request).await,
        Operation::ListKeyspaces => keyspaces::list(session, request).await,
        Operation::CreateKeyspace => keyspaces::create(session, request).await,
        Operation::DescribeKeyspace => keyspaces::describe(session, request).await,
        Operation::DropKeyspace => keyspaces::drop_one(session, request).await,
        // Only HEAD comes here: events have no end.
        Operation::Listen => Ok(Answer::of("text/event-stream", "")),
        Operation::OpenApi => Ok(Answer::json(hyper::StatusCode::OK, &openapi::document())),
    }
}

/// Refuses names that this machine may not have. A page of a browser can let a name of its own stand for a loopback address, and would be of
/// the same origin as the door then: so what comes in there names an address, or localhost.
fn validate_host(head: &Parts, local: SocketAddr) -> Result<(), Problem> {
    let named = match head.headers.get(HOST) {
        Some(value) => value.to_str().unwrap_or_default(),
        None if head.version <= Version::HTTP_10 => return Ok(()),
        None => return Err(Problem::new(Kind::BadRequest, "the request has no Host")),
    };
    if !local.ip().is_loopback() || is_of_this_machine(named) {
        return Ok(());
    }
    let detail = "this door is on loopback, and answers to localhost and to addresses";
    Err(Problem::new(Kind::Misdirected, detail))
}

/// True of localhost and of addresses, with a port or without.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => return address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_as_a_table() {
        for (host, is_ours) in [
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("127.0.0.1:7480", true),
            ("[::1]:7480", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("[evil]", false),
            ("", false),
        ] {
            assert_eq!(is_of_this_machine(host), is_ours, "{host}");
        }
    }
}
