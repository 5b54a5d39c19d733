//! How the log is shortened: what a snapshot holds of TAPIR beside what inconsistent replication writes into it (see
//! [`quorate_ir::replica::shortening`]).

use quorate_core::machine::OutboxOf;
use quorate_core::{Context, Timestamp};
use quorate_ir::Upcalls;

use super::Replica;
use crate::message::Supplement;
use crate::record::Record;

impl Replica {
    /// Begins a snapshot, or writes a page of it.
    pub(super) fn shorten_log(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        let (records_min, page_max) = (self.config.snapshot_records_min, self.config.checkpoint_page_max);
        if !self.with_desk(context.random, outbox, |ir, desk| ir.shorten(records_min, page_max, desk)) {
            return;
        }
        let read_floor = self.participant.reads.floor();
        let supplement = self.participant.contribution();
        outbox.persist(Record::SnapshotBinds { read_floor, supplement });
        self.write_epoch(outbox);
        // Readers are answered up to here without a further record.
        outbox.persist(Record::ReadsPromised { until: self.promise.until() });
    }

    /// Takes back, while the machine is rebuilt, what a snapshot says of promises.
    pub(super) fn restore_binds(&mut self, read_floor: Timestamp, supplement: Supplement) {
        self.promised = self.promised.max(supplement.read_floor);
        self.participant.refuse_below(supplement.refusal);
        self.participant.adopt_supplement(&Supplement { read_floor: Timestamp::ZERO, ..supplement });
        self.participant.reads.raise_floor(read_floor);
    }
}
