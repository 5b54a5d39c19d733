//! Findings of stale reads at quorums. The nearest replicas are told of them along with the next stale reads, which are all that
//! they are good for: a message of its own would make the first read of a key dearer than a strict one.

use std::collections::{BTreeMap, VecDeque};

use quorate_core::ReplicaId;

use crate::message::Validation;

/// A replica is told of so many keys at once; of more, the oldest are left out, as if the message had been lost.
const KEYS_MAX: usize = 256;

/// The validations that replicas are to be told.
#[derive(Debug, Default)]
pub(super) struct Notices {
    of_replicas: BTreeMap<ReplicaId, Notice>,
}

#[derive(Debug, Default)]
struct Notice {
    validated: VecDeque<Validation>,
    keys: usize,
}

impl Notices {
    /// A replica is to be told of this.
    pub(super) fn note(&mut self, replica: ReplicaId, validation: Validation) {
        let notice = self.of_replicas.entry(replica).or_default();
        notice.keys += validation.reads.len();
        notice.validated.push_back(validation);
        while notice.keys > KEYS_MAX {
            let Some(oldest) = notice.validated.pop_front() else { break };
            notice.keys -= oldest.reads.len();
        }
        let keys: usize = notice.validated.iter().map(|validation| validation.reads.len()).sum();
        assert!(
            notice.keys == keys && keys <= KEYS_MAX,
            "{replica} is to be told of {keys} keys, and {} are counted",
            notice.keys
        );
    }

    /// The validations that a replica is told now.
    pub(super) fn take(&mut self, replica: ReplicaId) -> Vec<Validation> {
        self.of_replicas.remove(&replica).map_or(Vec::new(), |notice| notice.validated.into())
    }

    /// Forgets what others were to be told.
    pub(super) fn retain(&mut self, is_member: impl Fn(&ReplicaId) -> bool) {
        self.of_replicas.retain(|replica, _| is_member(replica));
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Key, ReadVersion, ReplicaIndex, ShardId, Timestamp};

    use super::*;

    #[test]
    fn the_oldest_are_left_out_of_too_many() {
        let replica = |index| ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) };
        let validation = |micros, keys: usize| {
            let key = |at: usize| Key::from(format!("k{at}"));
            let read = |at| ReadVersion { key: key(at), version: Timestamp::ZERO, deleted: false };
            let timestamp = Timestamp { micros, client: ClientId(1) };
            Validation { timestamp, reads: (0..keys).map(read).collect() }
        };
        let mut notices = Notices::default();
        for (micros, keys) in [(1, 1), (2, KEYS_MAX - 1)] {
            notices.note(replica(0), validation(micros, keys));
        }
        assert_eq!(notices.take(replica(0)).len(), 2, "as many as may be");
        for (micros, keys) in [(1, 1), (2, KEYS_MAX - 1), (3, 1), (4, 1)] {
            notices.note(replica(0), validation(micros, keys));
        }
        notices.note(replica(1), validation(5, KEYS_MAX + 1));
        let taken: Vec<u64> = notices.take(replica(0)).iter().map(|told| told.timestamp.micros).collect();
        assert_eq!(taken, [3, 4]);
        assert!(notices.take(replica(0)).is_empty(), "it is told once");
        assert!(notices.take(replica(1)).is_empty(), "that is too much by itself");
    }
}
