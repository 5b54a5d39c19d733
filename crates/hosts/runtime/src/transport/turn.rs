//! The task that ends each turn.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use quorate_core::Instant;

use super::{Host, Hub, Shared, Turn};

/// How often links are looked at for stalled peers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Ends turns until the transport is closed.
pub(super) async fn run<H: Host>(shared: Arc<Shared<H>>) {
    let mut sleep = pin!(tokio::time::sleep(SWEEP_INTERVAL));
    // When `sleep` ends. It is moved only to end earlier: one that ends too early costs one empty turn, and moving it
    // in every turn would cost more.
    let mut wakes_at = shared.clock.instant() + SWEEP_INTERVAL;
    let mut next_sweep = wakes_at;
    let mut elapsed = false;
    let mut blocked = Vec::new();
    while !shared.is_closed() {
        let deadline = end_turn(&shared, &mut next_sweep, &mut blocked);
        for (link, socket) in blocked.drain(..) {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                // An error here is found again by the write.
                let _ = socket.writable().await;
                shared.with(|_, turn| turn.links.on_writable(link));
            });
        }
        if deadline < wakes_at || elapsed {
            wakes_at = deadline;
            sleep.as_mut().reset(shared.clock.to_system(deadline).into());
        }
        elapsed = std::future::poll_fn(|context| {
            {
                let mut waker = shared.waker.inner.waker.lock().unwrap_or_else(PoisonError::into_inner);
                match &*waker {
                    Some(known) if known.will_wake(context.waker()) => {}
                    _ => *waker = Some(context.waker().clone()),
                }
            }
            if shared.waker.inner.due.swap(false, Ordering::AcqRel) {
                return Poll::Ready(false);
            }
            sleep.as_mut().poll(context).map(|()| true)
        })
        .await;
    }
}

/// Ends one turn and says when the next one is wanted at the latest.
fn end_turn<H: Host>(shared: &Shared<H>, next_sweep: &mut Instant, blocked: &mut Blocked) -> Instant {
    let mut hub = shared.lock();
    let Hub { host, links } = &mut *hub;
    let time = shared.clock.read();
    host.on_turn_end(&mut Turn { time, links });
    if *next_sweep <= time.now {
        *next_sweep = time.now + SWEEP_INTERVAL;
        links.sweep(time.now, shared.options.stall_timeout);
        if let Some(tls) = &shared.options.tls {
            links.judge_again(tls);
        }
    }
    links.flush(time.now, blocked);
    [host.next_deadline(), links.next_release()].into_iter().flatten().fold(*next_sweep, Instant::min)
}

type Blocked = Vec<(super::LinkId, Arc<crate::secure::Socket>)>;
