//! The console: a page that shows how the cluster is while a person looks at it.
//!
//! ```text
//!   every node ─ status ─► survey ─► snapshot ─► one channel, which holds the latest ─► listeners (server-sent events)
//! ```
//!
//! The nodes are asked over the connections of the gateway, twice a second, and only while a page is open. A node that is gone has no connection; one that does not
//! answer is given a moment, and then said to be silent. Figures are those of the nodes' own status; rates are the differences between two of them.
//!
//! | file | role |
//! |---|---|
//! | `assets` | the files of the page, which are parts of the program |
//! | `survey` | the statuses of all nodes |
//! | `rates` | the differences between two statuses |
//! | `snapshot` | the cluster, put together from that |
//! | `advice` | the advice on a problem, as the page for operators has it |
//! | `events` | snapshots on their way to a page |

mod advice;
pub(crate) mod assets;
mod events;
mod rates;
mod snapshot;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_gateway::{Right, Session};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use crate::problem::{Kind, Problem};
pub(crate) use events::{Content, Events};
use survey::Surveyor;

/// Pages that are told of the cluster at a time.
const LISTENERS_MAX: usize = 32;

/// The time from one survey to the next.
const PERIOD: Duration = Duration::from_millis(500);

/// The state that all pages of one door share.
#[derive(Debug)]
pub(crate) struct Console {
    /// The latest snapshot as an event; none while nobody listens.
    latest: watch::Sender<Option<Bytes>>,
    places: Arc<Semaphore>,
    /// Woken when a page listens.
    listened: Notify,
}

impl Console {
    pub(crate) fn new() -> Self {
        Console {
            latest: watch::Sender::new(None),
            places: Arc::new(Semaphore::new(LISTENERS_MAX)),
            listened: Notify::new(),
        }
    }

    /// Surveys the cluster for as long as the door is open, while any page listens.
    pub(crate) async fn run(&self, session: Session) {
        let mut surveyor = Surveyor::default();
        loop {
            if self.latest.receiver_count() == 0 {
                // The last snapshot would be old when the next page opens.
                self.latest.send_replace(None);
                surveyor = Surveyor::default();
                self.listened.notified().await;
            }
            let next = Instant::now() + PERIOD;
            let snapshot = surveyor.survey(&session).await;
            match serde_json::to_string(&snapshot) {
                Ok(json) => _ = self.latest.send_replace(Some(events::event(&json))),
                Err(error) => tracing::error!(%error, "a snapshot of the cluster cannot be written"),
            }
            sleep_until(next).await;
        }
    }

    /// Snapshots of the cluster from now on.
    ///
    /// # Errors
    /// The session may not see them, or as many pages as may be listen already.
    pub(crate) fn listen(&self, session: &Session) -> Result<Events, Problem> {
        session.require(Right::Observe)?;
        let session = session.clone();
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let detail = format!("{LISTENERS_MAX} pages are open already: close one");
            return Err(Problem::new(Kind::Overloaded, detail).retry_after(Duration::from_secs(1)));
        };
        let events =
            Events::start(self.latest.subscribe(), place, move || session.require(Right::Observe).is_ok());
        self.listened.notify_one();
        Ok(events)
    }
}
