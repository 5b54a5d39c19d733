//! The commits of a keyspace as server-sent events (the `text/event-stream` of HTML), where a request accepts these.
//!
//! The id of an event is the cursor behind it. A client that has lost its connection asks again with the last one in `Last-Event-ID`, as browsers do by
//! themselves, and gets what follows: at this door or at another one.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderName;
use quorate::{Changes, Cursor};
use quorate_gateway::{Right, Session};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::console::Events;
use crate::feed::{self, FeedChange, FeedPage};
use crate::problem::{Kind, Problem};
use crate::request::Request;

/// The type of the answer.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// The memory that is counted for the events of a request, in bytes: one that waits, and one that is made.
pub(crate) const BYTES: usize = 4 * 1024 * 1024;

/// The header of a client that goes on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An event comes at least so often, if only to tell how far everything was told.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Begins to tell what follows a cursor. Without one the first event says where that is.
///
/// # Errors
/// As those of a request for one page.
pub(crate) async fn listen(session: Session, request: Request) -> Result<Events, Problem> {
    session.require(Right::List)?;
    let from = cursor(&request)?;
    let changes = feed::open(&session, &request, from.as_ref(), async |changes| Ok(changes)).await?;
    // A client that reads slowly is told later: nothing is asked for ahead of it.
    let (sender, waiting) = mpsc::channel(1);
    tokio::task::spawn_local(tell(session, request, changes, sender));
    Ok(Events::of(waiting))
}

/// The cursor of the last event that the client has, or else that of its address.
fn cursor(request: &Request) -> Result<Option<Cursor>, Problem> {
    match request.headers.get(LAST_EVENT_ID) {
        Some(last) => feed::parse_cursor(last.as_bytes()).map(Some),
        None => feed::cursor(request),
    }
}

/// Tells event after event until nobody listens any more, or a problem, which is the last.
async fn tell(session: Session, request: Request, mut changes: Changes, sender: mpsc::Sender<Bytes>) {
    let mut told = Ok(Vec::new());
    loop {
        let event = told.and_then(|told| event(told, &changes));
        let (event, is_last) = match event {
            Ok(event) => (event, false),
            Err(problem) => (ending(problem), true),
        };
        if sender.send(event).await.is_err() || is_last {
            return;
        }
        told = tokio::select! {
            told = feed::gather(&mut changes, Instant::now() + SILENCE_MAX) => told,
            () = sender.closed() => return,
        };
        // The right may have been taken away since the request came.
        if let Err(denied) = feed::require(&session, &request) {
            told = Err(denied);
        }
    }
}

fn event(told: Vec<FeedChange>, changes: &Changes) -> Result<Bytes, Problem> {
    let page = FeedPage::new(told, changes, None);
    let json = serde_json::to_string(&page)
        .map_err(|error| Problem::new(Kind::Internal, format!("an event cannot be written: {error}")))?;
    // JSON that serde writes has no line breaks.
    Ok(Bytes::from(format!("id: {}\nevent: changes\ndata: {json}\n\n", page.cursor())))
}

fn ending(problem: Problem) -> Bytes {
    let body = problem.into_answer().body;
    Bytes::from(format!("event: problem\ndata: {}\n\n", String::from_utf8_lossy(&body).trim_end()))
}
