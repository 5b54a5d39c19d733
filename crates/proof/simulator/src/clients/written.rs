//! The writes that clients know to have committed, for the judgement of change feeds.

use quorate_checker::MicroOp;
use quorate_core::Timestamp;

use super::Clients;
use crate::cluster::Cluster;
use crate::system::System;

impl Clients {
    /// A transaction has written at this timestamp, if it has.
    pub(super) fn note_written<S: System>(
        &mut self,
        timestamp: Timestamp,
        ops: &[MicroOp],
        cluster: &Cluster<S>,
    ) {
        if !cluster.scenario.consumers {
            return;
        }
        for op in ops {
            if let MicroOp::Append(key, _) | MicroOp::Write(key, _) = op {
                let shard = cluster.shard_of(key.to_string().as_bytes());
                self.written.entry(timestamp).or_default().insert(shard);
            }
        }
    }

    /// The greatest timestamp of what is known to be committed.
    pub(crate) fn latest(&self) -> Timestamp {
        self.latest
    }
}
