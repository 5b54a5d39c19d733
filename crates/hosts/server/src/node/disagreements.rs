//! The reports of clients on shards that have decided differently on a transaction (Granola, section 4.4: independent transactions).
//!
//! Only the client of a transaction has the answers of all its shards. It is told that nobody knows what the transaction came to, and
//! its coordinator tells a node, so that an operator hears of it: in the log, with what each shard has decided, and in a metric.
//! The fault lies with the application, which has vouched for it that its shards decide alike, or with a shard that has lost what was durable.

use std::fmt::Write;
use std::time::Duration;

use quorate_core::command::Decided;
use quorate_core::{Instant, TransactionId};
use quorate_runtime::transport::Violation;
use quorate_runtime::{LinkId, Turn};
use quorate_wire::Peer;
use quorate_wire::packet::DECIDED_MAX;

use super::Node;

/// One line of the log at most is written in this time: an application that breaks its promises does so often.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// The reports so far.
#[derive(Debug, Default)]
pub(super) struct Disagreements {
    heard: u64,
    /// When the last line was written.
    written_at: Option<Instant>,
}

impl Disagreements {
    /// How many disagreements clients have told of.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// A client tells of one. True if that is to be written.
    fn hear(&mut self, now: Instant) -> bool {
        self.heard += 1;
        let is_due = self.written_at.is_none_or(|at| now.saturating_since(at) >= LINE_INTERVAL);
        if is_due {
            self.written_at = Some(now);
        }
        is_due
    }
}

impl Node {
    /// A client says that shards have decided differently on a transaction of its own. Between nodes this means nothing.
    ///
    /// # Errors
    /// The transaction is that of another client, or it names more shards than it may.
    pub(super) fn hear_disagreement(
        &mut self,
        link: LinkId,
        transaction: TransactionId,
        decided: &[Decided],
        turn: &Turn<'_>,
    ) -> Result<(), Violation> {
        let Some(Peer::Client(client)) = turn.remote(link).map(|remote| remote.identity) else {
            return Ok(());
        };
        if transaction.client != client || decided.len() > DECIDED_MAX {
            let told = format!("{client} tells of {} shards in disagreement on {transaction}", decided.len());
            return Err(Violation(told.into()));
        }
        if self.disagreements.hear(turn.time.now) {
            tracing::error!(
                %transaction,
                decided = describe(decided),
                "shards have decided differently on a transaction: its application has vouched that they decide alike, or a shard has \
                 lost what was durable; see docs/operations.md"
            );
        }
        Ok(())
    }
}

/// The decision of each shard, in words.
fn describe(decided: &[Decided]) -> String {
    let mut words = String::new();
    for Decided { shard, timestamp, is_refused, digest } in decided {
        let did = if *is_refused { "refused" } else { "done" };
        let separator = if words.is_empty() { "" } else { ", " };
        // Writing into a string cannot fail.
        let _ = write!(words, "{separator}{shard} {did} at {} with {digest:016x}", timestamp.as_micros());
    }
    words
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClockTime, ShardId};

    use super::*;

    #[test]
    fn every_disagreement_counts_and_one_a_second_is_written() {
        let mut disagreements = Disagreements::default();
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let written: Vec<bool> =
            [0, 10, 999, 1_000, 1_001, 2_500].map(|millis| disagreements.hear(at(millis))).to_vec();
        assert_eq!(written, [true, false, false, true, false, true]);
        assert_eq!(disagreements.heard(), 6);
    }

    #[test]
    fn an_operator_reads_what_each_shard_has_decided() {
        let decided = |shard, is_refused, digest| Decided {
            shard: ShardId(shard),
            timestamp: ClockTime::from_micros(70),
            is_refused,
            digest,
        };
        assert_eq!(
            describe(&[decided(1, false, 0xab), decided(2, true, 0xcd)]),
            "shard1 done at 70 with 00000000000000ab, shard2 refused at 70 with 00000000000000cd"
        );
        assert_eq!(describe(&[]), "");
    }
}
