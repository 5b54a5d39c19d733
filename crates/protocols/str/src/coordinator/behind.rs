//! Nodes that may not have heard yet how transactions of theirs ended, of which another machine of their home has told the client. Such a node
//! still shows the local commit. A client that has been told of its abort and tries again must not read it: it turns to another node until
//! this one knows.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{ClockTime, Instant, ReplicaId, TransactionId};

use super::Out;
use crate::message::Message;

/// Per machine what it may not have heard of.
#[derive(Debug, Default)]
pub(super) struct Behind(BTreeMap<ReplicaId, Unheard>);

#[derive(Debug)]
struct Unheard {
    /// The transactions, and when they were begun by the clock of the client.
    aborted: BTreeMap<TransactionId, ClockTime>,
    /// When the machine is asked about them next.
    asks_at: Instant,
}

impl Behind {
    /// Another machine of its home has said that the transaction is aborted.
    pub(super) fn note(&mut self, machine: ReplicaId, aborted: TransactionId, begun: ClockTime) {
        let unheard = Unheard { aborted: BTreeMap::new(), asks_at: Instant::START };
        self.0.entry(machine).or_insert(unheard).aborted.insert(aborted, begun);
    }

    /// The machine does not run the transaction any more.
    pub(super) fn note_heard(&mut self, machine: ReplicaId, aborted: TransactionId) {
        if let Some(unheard) = self.0.get_mut(&machine) {
            unheard.aborted.remove(&aborted);
            if unheard.aborted.is_empty() {
                self.0.remove(&machine);
            }
        }
    }

    /// Drops the machines that are no longer there.
    pub(super) fn retain(&mut self, is_there: impl Fn(ReplicaId) -> bool) {
        self.0.retain(|machine, _| is_there(*machine));
    }

    /// True if the machine may show what its client knows to be aborted.
    pub(super) fn contains(&self, machine: ReplicaId) -> bool {
        self.0.contains_key(&machine)
    }

    /// INQUIRE at the machine about all of that, unless it was asked a moment ago.
    pub(super) fn ask(&mut self, machine: ReplicaId, now: Instant, interval: Duration, outbox: &mut Out) {
        let Some(unheard) = self.0.get_mut(&machine).filter(|unheard| unheard.asks_at <= now) else { return };
        unheard.asks_at = now + interval;
        for (transaction, begun) in &unheard.aborted {
            outbox.send_unordered(machine, Message::Inquire { transaction: *transaction, snapshot: *begun });
        }
    }
}
