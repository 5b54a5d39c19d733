//! TAPIR's own part in being a member of a group: see [`quorate_ir::member`].

use quorate_core::machine::OutboxOf;
use quorate_core::{Instant, ReplicaId, Timestamp};
use quorate_ir::member::{Kept, Parts, Reached};
use quorate_ir::{Cursor, Member, MemberSettings, Message as Ir, SearchSettings, Upcalls};
use quorate_store::WalkBelow;

use super::participant::Participant;
use super::{Replica, ReplicaTimer};
use crate::config::ReplicaConfig;
use crate::message::{Message, Supplement, Tapir};
use crate::record::Record;
use crate::rules::Plant;

/// A search that takes longer than so many recovery time-outs is given up, and begun anew with a later floor.
const SEARCH_TIMEOUTS_MAX: u32 = 16;

/// So many recovery time-outs are given to slower replicas before f + 1 go on without them.
const PATIENCE_TIMEOUTS: u32 = 4;

/// The sizes and times that a replica goes by as a member of its group.
pub(super) fn settings(config: &ReplicaConfig) -> MemberSettings {
    MemberSettings {
        page_bytes_max: config.page_bytes_max,
        snapshot_records_min: config.snapshot_records_min,
        search: SearchSettings {
            interval: config.checkpoint_interval,
            lag: config.checkpoint_lag,
            bytes_max: config.checkpoint_bytes_max,
            lag_min: config.checkpoint_lag_min,
            lag_hurried: config.checkpoint_lag_followed,
            patience: config.recovery_timeout * PATIENCE_TIMEOUTS,
            limit: config.recovery_timeout * SEARCH_TIMEOUTS_MAX,
            ahead_max: config.timestamp_ahead_max / 2,
            page_max: config.checkpoint_page_max,
        },
    }
}

impl Member<Tapir> for Replica {
    type Protocol = Participant;

    const VIEW_CHANGE: ReplicaTimer = ReplicaTimer::ViewChange;

    fn id(&self) -> ReplicaId {
        self.config.replica
    }

    fn ir(&self) -> &quorate_ir::Replica<Tapir> {
        &self.ir
    }

    fn parts(&mut self) -> Parts<'_, Tapir, Participant> {
        Parts { ir: &mut self.ir, protocol: &mut self.participant, state: &mut self.member }
    }

    fn fact(record: Record) -> Kept<Tapir, Record> {
        record.try_into()
    }

    fn outdated() -> Message {
        Message::Outdated
    }

    fn keys(participant: &Participant) -> usize {
        participant.versions.len()
    }

    fn collect_versions(&mut self, max: usize) -> bool {
        let Participant { history, versions, bounds, .. } = &mut self.participant;
        history.retain(bounds.floor, self.config.retention, max);
        let collectable = WalkBelow::collectable(&self.verification, history.horizon());
        versions.collect(collectable, max)
    }

    fn note_behind(&mut self) {
        self.currency.note_behind();
    }

    fn overtakes_disk(participant: &Participant, message: &Ir<Tapir>) -> bool {
        matches!(message, Ir::ConsensusReply { .. }) && participant.rules.has(Plant::VoteBeforeSync)
    }

    fn on_installing(participant: &mut Participant) {
        participant.enter_view();
    }

    /// A view has started, with promises that replicas gave before they knew the outcome.
    fn on_serving(&mut self) {
        let record = self.ir.record();
        self.participant
            .promises
            .retain(|id, _| record.inconsistent(*id).is_none_or(|known| !known.executed));
    }

    fn restore_own(&mut self, record: Record) {
        match record {
            Record::EpochEntered { groups } => self.restore_epoch(groups),
            Record::Promised { transaction, promise } => {
                self.participant.promises.insert(transaction, promise);
            }
            Record::ReadsPromised { until } => self.promised = self.promised.max(until),
            Record::SnapshotBinds { read_floor, supplement } => {
                self.promised = self.promised.max(supplement.read_floor);
                self.participant.bounds.refuse_below(supplement.refusal);
                self.participant.adopt_supplement(&Supplement { read_floor: Timestamp::ZERO, ..supplement });
                self.participant.reads.raise_floor(read_floor);
            }
            shared => unreachable!("{shared:?} is a fact of inconsistent replication"),
        }
    }

    /// Nobody waits yet, and all that a log tells of would be a lot to remember.
    fn on_restored(&mut self) {
        drop(self.participant.prepared.take_changes());
    }

    /// Only now: the promise was not in force in the views whose records were just read, and must not speak against what they
    /// have let in.
    fn on_rebuilt(&mut self) {
        self.participant.take_over_promise(self.promised);
    }

    fn on_snapshot_begun(&mut self, outbox: &mut OutboxOf<Self>) {
        let read_floor = self.participant.reads.floor();
        let supplement = self.participant.contribution();
        assert!(
            supplement.read_floor >= read_floor,
            "a snapshot keeps writers above {}, and they are kept above {read_floor}",
            supplement.read_floor
        );
        outbox.persist(Record::SnapshotBinds { read_floor, supplement });
        self.write_epoch(outbox);
        // Readers are answered up to here without a further record.
        outbox.persist(Record::ReadsPromised { until: self.promise.until() });
    }

    fn remembers(&self) -> bool {
        let Participant { reads, promised_reads, promises, fading, .. } = &self.participant;
        let reads = reads.remembered() + promised_reads.remembered();
        let has_work =
            !self.ir.record().is_empty() || reads > 0 || !promises.is_empty() || !fading.is_empty();
        // A reader of all that is held below an instant waits until the floor has passed it, which that of an idle group never would.
        has_work || self.verification.awaits_reading() || self.followed.is_some()
    }

    /// The changes that a consumer asks for are certain once the floor has passed them.
    fn hurries(&self) -> bool {
        self.followed.is_some() || self.verification.awaits_reading()
    }

    fn on_search(&mut self, from: Cursor) {
        self.confirmation.begin(from);
    }

    fn on_stepped_back(&mut self, to: Cursor) {
        self.confirmation.step_back(to);
    }

    fn have_settled(&self, open: &[Cursor], now: Instant, outbox: &mut OutboxOf<Self>) {
        self.have_recovered(open.iter().map(|(_, transaction)| *transaction), now, outbox);
    }

    fn confirm(&mut self, reached: Reached, outbox: &mut OutboxOf<Self>) -> Option<Cursor> {
        let Reached { to, end, waited } = reached;
        assert!(to <= end, "a floor is searched for below {end:?}, and all have ended below {to:?}");
        let confirmed = self.ask_participants(to, outbox).min(to);
        let is_patient = waited < 2 * self.config.recovery_timeout * PATIENCE_TIMEOUTS;
        (!is_patient || confirmed == end).then_some(confirmed)
    }

    fn ask_again(&mut self, now: Instant, outbox: &mut OutboxOf<Self>) {
        self.ask_participants_again(now, outbox);
    }
}
