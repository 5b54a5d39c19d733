//! Shortening the log: from where on it suffices for a restart.
//!
//! The record is not written down a second time. The log is marked where a snapshot *begins*, with what is small and changes
//! both ways, such as the view. Then the replica goes on as ever, until every operation that its record held at the mark has
//! ended, and nearly all have been collected: what is left of these is their effect. That is written down by the protocol on
//! top, page by page, together with the few that must still be remembered; then everything before the mark may go.
//!
//! A restart from the mark finds every later operation whole, behind the mark, and the effects of the earlier ones in the
//! pages.

use super::{Fact, Host, Replica, Upcalls};
use crate::Operations;
use crate::record::Cursor;

impl<O: Operations> Replica<O> {
    /// Marks the log where a snapshot begins.
    pub fn begin_snapshot<H: Host<O>>(&mut self, host: &mut H) {
        self.record.start_generation();
        host.anchor();
        let (view, lineage) = (self.view, self.record.lineage().to_vec());
        let (floor, complete, lives) = (self.floor, self.complete, self.lives.clone());
        let supplement = host.protocol().contribution();
        assert!(
            floor <= complete,
            "a snapshot from below {floor} on, where all is complete below {complete}"
        );
        assert!(lineage.last() <= Some(&view), "a snapshot in {view:?} of the record of {lineage:?}");
        host.persist(Fact::SnapshotBegun { view, lineage, floor, complete, lives, supplement });
    }

    /// True once all operations from before the mark have ended, and at most `max` are still remembered, of at most so many bytes.
    pub fn is_snapshot_ready(&self, max: usize, bytes_max: usize) -> bool {
        self.record.older_open() == 0 && self.record.older() <= max && self.record.older_bytes() <= bytes_max
    }

    /// The last of those from before the mark that are still remembered, or one after it: all of them have ended, so none
    /// moves any more.
    pub fn carried_over_to(&self) -> Option<Cursor> {
        self.record.last()
    }

    /// Writes down again those from before the mark that are still remembered, beginning after `after`, up to `to`; looks at
    /// `max` transactions at most. Gives where to go on, if there is more. Entries that come meanwhile lie above `to`, nearly all
    /// of them, or no number of pages would ever reach the end.
    pub fn carry_over<H: Host<O>>(
        &self,
        after: Option<Cursor>,
        to: Cursor,
        max: usize,
        host: &mut H,
    ) -> Option<Cursor> {
        let (ended, next) = self.record.older_ended(after, to, max);
        assert!(
            next.is_none_or(|next| Some(next) > after && next <= to),
            "carried over from {after:?} to {next:?}, beyond {to:?}"
        );
        for (transaction, operation) in ended {
            let operation = operation.clone();
            host.persist(Fact::InconsistentRecorded { transaction, operation, executed: true });
        }
        next
    }
}
