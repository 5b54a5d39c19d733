//! Snapshots on their way to a page, as server-sent events (the `text/event-stream` of HTML).
//!
//! One snapshot waits for a page at most: a page that reads slowly is told of fewer. One that takes nothing is cut off by the gateway, as any client is.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::{Body, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

/// A snapshot as an event.
pub(super) fn event(json: &str) -> Bytes {
    // JSON that serde writes has no line breaks.
    Bytes::from(format!("event: snapshot\ndata: {json}\n\n"))
}

/// How long a page waits before it connects again, in milliseconds, as the first line of the stream says.
const RETRY: &[u8] = b"retry: 1000\n\n";

/// The events of one page, as a body that never ends by itself.
#[derive(Debug)]
pub(crate) struct Events {
    begins: bool,
    waiting: mpsc::Receiver<Bytes>,
}

impl Events {
    /// Hands on what a channel holds from now on, until the page is closed. Its place among the listeners is kept for so long.
    pub(super) fn start(
        mut latest: watch::Receiver<Option<Bytes>>,
        place: OwnedSemaphorePermit,
        may_see: impl Fn() -> bool + 'static,
    ) -> Self {
        let (sender, waiting) = mpsc::channel(1);
        tokio::task::spawn_local(async move {
            let _place = place;
            latest.mark_changed();
            loop {
                tokio::select! {
                    changed = latest.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
                // The right may have been taken away since the page was opened.
                if !may_see() {
                    return;
                }
                let event = latest.borrow_and_update().clone();
                if let Some(event) = event
                    && sender.send(event).await.is_err()
                {
                    return;
                }
            }
        });
        Events { begins: true, waiting }
    }

    /// Those that come out of a channel, until it is closed.
    pub(crate) fn of(waiting: mpsc::Receiver<Bytes>) -> Self {
        Events { begins: true, waiting }
    }

    /// The response that carries them.
    pub(crate) fn into_response(self) -> Response<Content> {
        let mut response = Response::new(Content::Events(self));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let nosniff = HeaderName::from_static("x-content-type-options");
        headers.insert(nosniff, HeaderValue::from_static("nosniff"));
        response
    }
}

/// The content of a response: whole, or events.
#[derive(Debug)]
pub(crate) enum Content {
    Whole(Full<Bytes>),
    Events(Events),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(whole) => Pin::new(whole).poll_frame(context),
            Content::Events(events) => {
                if std::mem::take(&mut events.begins) {
                    return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(RETRY)))));
                }
                events.waiting.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Events(_) => false,
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Content::Whole(whole) => whole.size_hint(),
            Content::Events(_) => hyper::body::SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use http_body_util::BodyExt;
    use tokio::sync::Semaphore;
    use tokio::task::LocalSet;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Runs something as a thread of the gateway does.
    fn run(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, work);
    }

    async fn next(content: &mut Content) -> Bytes {
        let frame = timeout(Duration::from_secs(5), content.frame()).await.unwrap();
        frame.unwrap().unwrap().into_data().unwrap()
    }

    #[test]
    fn a_page_that_reads_slowly_is_told_of_fewer_snapshots_and_of_the_latest() {
        run(async {
            let (latest, places) = (watch::Sender::new(Some(event("0"))), Arc::new(Semaphore::new(1)));
            let place = Arc::clone(&places).try_acquire_owned().unwrap();
            let mut content = Content::Events(Events::start(latest.subscribe(), place, || true));
            assert_eq!(next(&mut content).await, RETRY);
            for number in 1..=50 {
                latest.send_replace(Some(event(&number.to_string())));
                sleep(Duration::from_millis(1)).await;
            }
            let mut told = Vec::new();
            while told.last() != Some(&event("50")) {
                told.push(next(&mut content).await);
            }
            assert!(told.len() <= 3, "{told:?}");
        });
    }

    #[test]
    fn a_page_that_is_closed_gives_its_place_back() {
        run(async {
            let (latest, places) = (watch::Sender::new(None), Arc::new(Semaphore::new(1)));
            let place = Arc::clone(&places).try_acquire_owned().unwrap();
            let events = Events::start(latest.subscribe(), place, || true);
            sleep(Duration::from_millis(5)).await;
            assert_eq!((places.available_permits(), latest.receiver_count()), (0, 1));
            drop(events);
            timeout(Duration::from_secs(5), places.acquire()).await.unwrap().unwrap().forget();
            assert_eq!(latest.receiver_count(), 0, "nobody listens, so that nobody is surveyed");
        });
    }
}
