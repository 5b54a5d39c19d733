//! The store's own part in being a member of a group.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::{Instant, ReplicaId};
use quorate_ir::member::{Kept, Parts};
use quorate_ir::{Member, Message as Ir};

use super::store::Store;
use super::{Replica, ReplicaTimer};
use crate::message::{Message, Put, QwStore};
use crate::record::Record;
use crate::rules::Plant;

/// Whether this replica lacks something that the others have collected.
#[derive(Debug, Default)]
pub(super) struct Lag {
    is_behind: bool,
    /// Until then no view is changed for that reason, in case it is the others that cannot be reached.
    next_view_change: Instant,
}

impl Lag {
    /// True if it is time to change the view, because the others have collected what this replica lacks.
    pub(super) fn is_over(&mut self, now: Instant, timeout: Duration) -> bool {
        /// Between two view changes of a replica that is behind lie so many time-outs.
        const TIMEOUTS_BETWEEN: u32 = 16;

        if !self.is_behind || now < self.next_view_change {
            return false;
        }
        self.is_behind = false;
        self.next_view_change = now + timeout * TIMEOUTS_BETWEEN;
        assert!(self.next_view_change > now, "views are changed without end, at {now:?}");
        true
    }
}

impl Member<QwStore> for Replica {
    type Protocol = Store;

    const VIEW_CHANGE: ReplicaTimer = ReplicaTimer::ViewChange;
    const NOTHING_IS_OPEN: bool = true;
    const ENDS_WHEN_PASSED: bool = true;
    const ENDS_WHEN_WILD: bool = false;

    fn id(&self) -> ReplicaId {
        self.config.replica
    }

    fn ir(&self) -> &quorate_ir::Replica<QwStore> {
        &self.ir
    }

    fn parts(&mut self) -> Parts<'_, QwStore, Store> {
        Parts { ir: &mut self.ir, protocol: &mut self.store, state: &mut self.member }
    }

    fn fact(record: Record) -> Kept<QwStore, Record> {
        record.try_into()
    }

    fn outdated() -> Message {
        Message::Outdated
    }

    fn keys(store: &Store) -> usize {
        store.versions.len()
    }

    fn collect_versions(&mut self, max: usize) -> bool {
        self.store.versions.collect(self.store.bounds.floor, max)
    }

    fn note_behind(&mut self) {
        self.lag.is_behind = true;
    }

    fn overtakes_disk(store: &Store, message: &Ir<QwStore>) -> bool {
        matches!(message, Ir::InconsistentReply { .. }) && store.rules.has(Plant::ReplyBeforeSync)
    }

    /// A replica that is complete holds all puts that were acknowledged. A put that it lacks was not, and another complete replica
    /// may have collected the versions around it already.
    fn learns(&self, operation: &Arc<Put>) -> bool {
        operation.timestamp >= self.ir.complete()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Perhaps it is the others that cannot be reached: then view changes would follow each other without end.
    #[test]
    fn a_replica_that_is_behind_changes_the_view_once_in_sixteen_time_outs() {
        let (timeout, mut lag) = (Duration::from_secs(1), Lag::default());
        let at = |millis| Instant::START + Duration::from_millis(millis);
        assert!(!lag.is_over(at(0), timeout), "it lacks nothing");
        lag.is_behind = true;
        assert!(lag.is_over(at(5), timeout));
        assert!(!lag.is_over(at(99_999), timeout), "once");
        lag.is_behind = true;
        assert!(lag.is_over(at(100_000), timeout));
        lag.is_behind = true;
        assert!(!lag.is_over(at(115_999), timeout));
        assert!(lag.is_over(at(116_000), timeout));
    }
}
