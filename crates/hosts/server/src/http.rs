//! `/metrics`, `/health`, `/ready`, `/live` and `/status`, on a small thread of their own.

mod connections;
mod stream;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quorate_access::{Refusal, Wish};
use quorate_certificates::Trust;
use quorate_runtime::Transport;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::entrance::Entrance;
use crate::node::{Node, Status};
use crate::process::BackgroundRuntime;
use crate::{Limits, metrics};
use connections::BoundedListener;

/// Serves HTTP until it is dropped.
#[derive(Debug)]
pub(crate) struct HttpServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    pub(crate) fn start(
        listener: TcpListener,
        transport: Transport<Node>,
        limits: &Limits,
        trust: Option<Arc<Trust>>,
        entrance: Arc<Entrance>,
    ) -> std::io::Result<Self> {
        let (connections_max, timeout) = (limits.http_connections_max, limits.http_timeout);
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // Programs of this machine, such as probes of an orchestrator, have no certificates.
        let trust = trust.filter(|_| !address.ip().is_loopback());
        let runtime = BackgroundRuntime::new(Builder::new_current_thread().enable_all().build()?);
        let (stop, stop_asked) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
            let served = runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let listener = BoundedListener::new(listener, connections_max, timeout, trust);
                tokio::select! {
                    served = axum::serve(listener, router(Pages { transport, entrance })).into_future() => served,
                    // Asked to stop, or dropped.
                    _ = stop_asked => Ok(()),
                }
            });
            if let Err(error) = served {
                tracing::error!(%error, "HTTP is not served any more");
            }
        })?;
        Ok(HttpServer { address, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that served HTTP has panicked");
        }
    }
}

/// The node whose pages are served, and who may read them.
#[derive(Clone)]
struct Pages {
    transport: Transport<Node>,
    entrance: Arc<Entrance>,
}

fn router(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/live", get(live))
        .route("/status", get(status))
        .with_state(pages)
}

fn read(transport: &Transport<Node>) -> Status {
    transport.with(|node, turn| node.status(turn))
}

/// The answer to who may not read a page; none to who may.
fn refused(pages: &Pages, headers: &HeaderMap, wish: Wish<'_>) -> Option<Response> {
    let shown =
        headers.get(header::AUTHORIZATION).and_then(|shown| shown.as_bytes().strip_prefix(b"Bearer "));
    let refusal = pages.entrance.admit_to_page(shown, wish).err()?;
    let status = match refusal {
        Refusal::NotLoggedIn | Refusal::LoggedOut { .. } => StatusCode::UNAUTHORIZED,
        Refusal::Denied { .. } => StatusCode::FORBIDDEN,
    };
    Some((status, [(header::WWW_AUTHENTICATE, "Bearer")], format!("{refusal}\n")).into_response())
}

/// Any user may: they tell of keyspaces by their names, and of no keys.
async fn metrics(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    if let Some(refused) = refused(&pages, &headers, Wish::Known) {
        return refused;
    }
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (content_type, metrics::render(&read(&pages.transport))).into_response()
}

async fn health(State(pages): State<Pages>) -> Response {
    let status = read(&pages.transport);
    if status.healthy {
        (StatusCode::OK, "ok\n".to_owned()).into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, status.problems.join("\n") + "\n").into_response()
    }
}

/// Whether clients may be sent here: what an operator should know beside that does not count.
async fn ready(State(pages): State<Pages>) -> Response {
    let reasons = pages.transport.with(|node, turn| node.hindrances(turn.time.now));
    if reasons.is_empty() {
        (StatusCode::OK, "ok\n".to_owned()).into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n").into_response()
    }
}

/// Answers at all, between two turns of each event loop of the node: one that does not is to be started again.
async fn live(State(pages): State<Pages>) -> Response {
    pages.transport.with(|node, _| node.wait_for_others());
    (StatusCode::OK, "ok\n".to_owned()).into_response()
}

/// An administrator may: it tells which keys are hot.
async fn status(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    if let Some(refused) = refused(&pages, &headers, Wish::Cluster) {
        return refused;
    }
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (content_type, read(&pages.transport).to_json()).into_response()
}
