//! The messages that the coordinators of a client send and receive, recorded for as long as a caller wants.
//!
//! A trace is taken where messages enter and leave the client, so it holds messages that have travelled. Without one, a message costs a look at whether there
//! is one.

use std::time::Duration;

use quorate_core::caption::{Caption, Captioned};
use quorate_core::{Instant, NodeId, ReplicaId};
use quorate_runtime::transport::Transport;
use quorate_wire::ProtocolMessage;
use tokio::time::sleep;

use crate::database::Database;
use crate::host::ClientHost;

/// A trace holds at most so many moments; later ones are not in it.
pub const TRACE_MOMENTS_MAX: usize = 10_000;

/// How long [`Trace::finish`] waits for the last messages.
const GRACE: Duration = Duration::from_secs(1);

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the coordinator to a replica.
    Sent,
    /// From a replica to the coordinator.
    Received,
}

/// A message of a transaction, as its coordinator has sent or received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedMessage {
    /// Which way it went.
    pub direction: Direction,
    /// The replica at the other end.
    pub replica: ReplicaId,
    /// The node that hosts it; none if that is not known any more.
    pub node: Option<NodeId>,
    /// Its name in its protocol, for example `PREPARE`.
    pub name: String,
    /// The part of its content that tells the course of a transaction: a vote, a key; often nothing.
    pub detail: String,
}

/// A moment of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Something that the caller has noted.
    Noted(String),
    /// A message.
    Message(TracedMessage),
}

/// The moments of a trace, each with the time since the trace began, ascending.
pub type Moments = Vec<(Duration, Moment)>;

/// A trace that is being taken. Messages for other users of the same [`Database`] are in it, too.
#[derive(Debug)]
pub struct Trace {
    transport: Transport<ClientHost>,
    /// False once it has ended: another one may be taken by then.
    is_open: bool,
}

impl Database {
    /// Begins a trace of all that the coordinators of this client say and hear; none if one is being taken already.
    ///
    /// ```no_run
    /// # async fn example(db: quorate::Database, accounts: quorate::Keyspace) -> quorate::Result<()> {
    /// if let Some(trace) = db.trace() {
    ///     accounts.put(b"alice", b"100").await?;
    ///     for (at, moment) in trace.finish().await {
    ///         println!("{at:?} {moment:?}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn trace(&self) -> Option<Trace> {
        let transport = self.transport().clone();
        let has_begun = transport.with(|host, turn| host.begin_trace(turn.time.now));
        has_begun.then(|| Trace { transport, is_open: true })
    }
}

impl Trace {
    /// Notes something at this moment.
    pub fn note(&self, text: impl Into<String>) {
        self.transport.with(|host, turn| host.note(turn.time.now, Moment::Noted(text.into())));
    }

    /// Ends the trace, once every transaction is over and told to the replicas, or after a second.
    pub async fn finish(mut self) -> Moments {
        const PAUSE: Duration = Duration::from_millis(2);
        let deadline = tokio::time::Instant::now() + GRACE;
        while !self.transport.with(|host, _| host.is_idle()) && tokio::time::Instant::now() < deadline {
            sleep(PAUSE).await;
        }
        self.is_open = false;
        self.transport.with(|host, _| host.end_trace())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if self.is_open {
            self.transport.with(|host, _| host.end_trace());
        }
    }
}

/// The trace of a client, if one is being taken.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Option<Recording>);

#[derive(Debug)]
struct Recording {
    began: Instant,
    moments: Moments,
}

impl Recorder {
    /// Begins a recording; false if there is one.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let is_free = self.0.is_none();
        if is_free {
            self.0 = Some(Recording { began: now, moments: Vec::new() });
        }
        is_free
    }

    /// Ends it.
    pub(crate) fn end(&mut self) -> Moments {
        self.0.take().map(|recording| recording.moments).unwrap_or_default()
    }

    /// Notes a moment, if there is a recording and it has room.
    pub(crate) fn note(&mut self, now: Instant, moment: impl FnOnce() -> Moment) {
        if let Some(recording) = &mut self.0
            && recording.moments.len() < TRACE_MOMENTS_MAX
        {
            recording.moments.push((now.saturating_since(recording.began), moment()));
        }
    }

    /// Notes a message.
    pub(crate) fn message(
        &mut self,
        now: Instant,
        direction: Direction,
        (replica, node): (ReplicaId, Option<NodeId>),
        message: &ProtocolMessage,
    ) {
        if self.0.is_some()
            && let Some(Caption { name, detail }) = message.caption()
        {
            self.note(now, || Moment::Message(TracedMessage { direction, replica, node, name, detail }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_bounded_and_there_is_one_at_a_time() {
        let mut recorder = Recorder::default();
        let noted = || Moment::Noted(String::new());
        recorder.note(Instant::START, noted);
        assert_eq!(recorder.end(), vec![], "nobody has begun one");
        assert!(recorder.begin(Instant::from_nanos(5)));
        assert!(!recorder.begin(Instant::from_nanos(6)));
        (0..TRACE_MOMENTS_MAX as u64 + 5).for_each(|at| recorder.note(Instant::from_nanos(5 + at), noted));
        let moments = recorder.end();
        assert_eq!(moments.len(), TRACE_MOMENTS_MAX);
        assert_eq!(moments[7], (Duration::from_nanos(7), noted()));
        assert!(recorder.begin(Instant::from_nanos(7)));
    }
}
