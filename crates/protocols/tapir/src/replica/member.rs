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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate_core::changes::Retention;
    use quorate_core::hosted::Boot;
    use quorate_core::machine::{Effect, Machine, Outbox};
    use quorate_core::{
        Ballot, ClientId, Epoch, GroupSize, Groups, Instant, Key, ReplicaIndex, ShardId, TransactionId,
        Value, View,
    };
    use quorate_ir::{Fact, OperationId};

    use super::*;
    use crate::message::{Decision, Promise};
    use crate::rules::Rules;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn config() -> ReplicaConfig {
        let me = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        ReplicaConfig::new(me, GroupSize::new(3).unwrap(), Boot::Initialise)
    }

    fn replica() -> Replica {
        Replica::restore(config(), [])
    }

    fn promise(ballot: u32) -> Promise {
        Promise { ballot: Ballot(ballot), accepted: None }
    }

    #[test]
    fn a_search_has_its_times_from_the_recovery_timeout_and_its_lags_from_the_configuration() {
        let second = Duration::from_secs(1);
        let config = ReplicaConfig {
            recovery_timeout: 3 * second,
            timestamp_ahead_max: 50 * second,
            checkpoint_interval: 11 * second,
            checkpoint_lag: 12 * second,
            checkpoint_lag_min: 13 * second,
            checkpoint_lag_followed: 14 * second,
            checkpoint_bytes_max: 15,
            checkpoint_page_max: 16,
            page_bytes_max: 17,
            snapshot_records_min: 18,
            ..config()
        };
        let settings = settings(&config);
        assert_eq!((settings.page_bytes_max, settings.snapshot_records_min), (17, 18));
        let search = settings.search;
        assert_eq!(
            (search.patience, search.limit, search.ahead_max),
            (12 * second, 48 * second, 25 * second)
        );
        assert_eq!((search.interval, search.lag, search.lag_min), (11 * second, 12 * second, 13 * second));
        assert_eq!((search.lag_hurried, search.bytes_max, search.page_max), (14 * second, 15, 16));
    }

    #[test]
    fn only_a_vote_overtakes_the_disk_and_only_where_that_is_planted() {
        let vote = Ir::ConsensusReply {
            id: OperationId::default(),
            view: View(0),
            verdict: crate::message::Vote::Ok,
            finalized: false,
        };
        let recorded = Ir::InconsistentReply { id: OperationId::default(), view: View(0) };
        for (rules, message, overtakes) in [
            (Rules::EXCLUSIVE, &vote, false),
            (Rules::EXCLUSIVE, &recorded, false),
            (Rules::planted(Plant::VoteBeforeSync), &vote, true),
            (Rules::planted(Plant::VoteBeforeSync), &recorded, false),
        ] {
            let participant = Participant::new(rules, None);
            assert_eq!(Replica::overtakes_disk(&participant, message), overtakes, "{message:?}");
        }
    }

    /// One thing that a replica may have to remember.
    type Change = fn(&mut Replica);

    #[test]
    fn a_floor_is_searched_for_while_there_is_anything_that_it_would_let_go() {
        assert!(!replica().remembers());
        let changes: [(&str, Change); 6] = [
            ("a record", |replica| {
                let operation = Decision::Abort { last: at(1) };
                let fact = Fact::InconsistentRecorded { transaction: id(1), operation, executed: true };
                replica.ir.restore(fact, &mut Participant::new(Rules::EXCLUSIVE, None));
            }),
            ("what was read", |replica| replica.participant.reads.read_key(&Key::from("a"), at(1))),
            ("what readers were promised", |replica| {
                replica.participant.promised_reads.read_key(&Key::from("a"), at(1));
            }),
            ("a promise", |replica| {
                replica.participant.promises.insert(id(1), promise(1));
            }),
            ("one that fades", |replica| {
                replica.participant.fading.insert(id(1), (Ballot(1), at(1)));
            }),
            ("a consumer", |replica| replica.followed = Some(Instant::START)),
        ];
        for (what, change) in changes {
            let mut replica = replica();
            change(&mut replica);
            assert!(replica.remembers(), "{what}");
            assert_eq!(replica.hurries(), what == "a consumer", "{what}");
        }
    }

    #[test]
    fn a_view_begins_without_promises_of_what_has_run() {
        let mut replica = replica();
        for (sequence, executed) in [(1, true), (2, false)] {
            let operation = Decision::Abort { last: at(1) };
            let fact = Fact::InconsistentRecorded { transaction: id(sequence), operation, executed };
            replica.ir.restore(fact, &mut Participant::new(Rules::EXCLUSIVE, None));
        }
        for sequence in [1, 2, 3] {
            replica.participant.promises.insert(id(sequence), promise(1));
        }
        replica.on_serving();
        assert!(replica.participant.promises.keys().copied().eq([id(2), id(3)]));
    }

    #[test]
    fn a_restart_takes_back_promises_and_refusals_and_what_was_read() {
        let mut replica = replica();
        replica.restore_own(Record::Promised { transaction: id(1), promise: promise(3) });
        assert_eq!(replica.participant.promised(id(1)), Ballot(3));
        // The latest record need not hold the greatest promise to readers.
        for (until, greatest) in [(50, 50), (40, 50), (60, 60)] {
            replica.restore_own(Record::ReadsPromised { until: at(until) });
            assert_eq!(replica.promised, at(greatest));
        }
        let supplement = Supplement {
            promises: vec![(id(2), promise(4))],
            read_floor: at(70),
            refusal: at(30),
            complete: at(20),
        };
        replica.restore_own(Record::SnapshotBinds { read_floor: at(15), supplement: supplement.clone() });
        assert_eq!(replica.promised, at(70));
        assert_eq!(
            (replica.participant.bounds.refusal, replica.participant.bounds.complete),
            (at(30), at(20))
        );
        assert_eq!(replica.participant.reads.floor(), at(15), "what was in force is in force again");
        assert_eq!(
            replica.participant.pending_read_floor,
            Timestamp::ZERO,
            "and the rest with the next view"
        );
        assert_eq!(replica.participant.promised(id(2)), Ballot(4));
        let less = Supplement { read_floor: at(65), ..supplement };
        replica.restore_own(Record::SnapshotBinds { read_floor: at(10), supplement: less });
        assert_eq!((replica.promised, replica.participant.reads.floor()), (at(70), at(15)));
        replica.on_rebuilt();
        assert_eq!(replica.participant.pending_read_floor, at(70));
    }

    #[test]
    fn a_snapshot_begins_with_all_that_binds_beside_the_record() {
        let written = |replica: &mut Replica| -> Vec<Record> {
            let mut outbox = Outbox::new();
            replica.on_snapshot_begun(&mut outbox);
            let record = |effect| match effect {
                Effect::Persist { record, .. } => record,
                other => panic!("{other:?}"),
            };
            outbox.drain().map(record).collect()
        };
        let mut replica = replica();
        replica.participant.reads.raise_floor(at(15));
        replica.participant.reads.read_key(&Key::from("a"), at(25));
        replica.participant.bounds.refuse_below(at(30));
        let supplement = Supplement { read_floor: at(25), refusal: at(30), ..Supplement::default() };
        let binds = Record::SnapshotBinds { read_floor: at(15), supplement };
        let promised = Record::ReadsPromised { until: replica.promise.until() };
        assert_eq!(written(&mut replica), [binds, promised]);
        // In a later epoch that is told, too.
        let groups = Groups { epoch: Epoch(4), ..Groups::new(GroupSize::new(3).unwrap()) };
        let mut replica = Replica::restore(ReplicaConfig { groups: groups.clone(), ..config() }, []);
        assert_eq!(written(&mut replica)[1], Record::EpochEntered { groups });
    }

    #[test]
    fn versions_are_collected_as_far_as_the_floor_and_consumers_allow() {
        let left = |retention: Retention, floor: u64, max: usize| {
            let mut replica = Replica::restore(ReplicaConfig { retention, ..config() }, []);
            for key in ["a", "b"] {
                for micros in [10, 20] {
                    let value = Some(Value::from_static(b"x"));
                    replica.participant.versions.install(&Key::from(key), at(micros), value);
                }
            }
            let versions = &replica.participant.versions;
            replica.participant.history.rebuild(Timestamp::ZERO, versions);
            replica.participant.bounds.complete_below(at(floor));
            replica.participant.bounds.refuse_below(at(floor));
            replica.participant.bounds.raise_floor(at(floor));
            let more = replica.collect_versions(max);
            (replica.participant.versions.stored().len(), more)
        };
        assert_eq!(left(Retention::NONE, 100, 10), (2, false));
        assert_eq!(left(Retention::NONE, 15, 10), (4, false), "what is the newest below the floor stays");
        let (stored, _) = left(Retention::default(), 100, 10);
        assert_eq!(stored, 4, "consumers may still ask");
    }

    #[test]
    fn a_consumer_is_there_for_a_while_after_it_has_asked() {
        use quorate_core::changes::PRESENT;
        use quorate_core::machine::Input;
        let mut replica = replica();
        let began = Instant::START + Duration::from_secs(100);
        let mut step = |after: Duration, input| {
            let (clock, mut random) =
                (quorate_core::ClockTime::from_micros(1_000), quorate_core::Random::new(1));
            let mut context = quorate_core::Context { now: began + after, clock, random: &mut random };
            replica.step(&mut context, input, &mut Outbox::new());
            replica.hurries()
        };
        let sweep = || Input::Timer(ReplicaTimer::Sweep);
        assert!(!step(Duration::ZERO, Input::Start));
        assert!(step(Duration::ZERO, Input::Command(super::super::ReplicaCommand::Follow)));
        assert!(step(PRESENT - Duration::from_nanos(1), sweep()));
        assert!(!step(PRESENT, sweep()));
    }

    #[test]
    fn parts_that_disagree_on_the_floor_are_noticed_in_the_next_step() {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        for disagrees in [false, true] {
            let mut replica = replica();
            if disagrees {
                replica.participant.bounds.raise_floor(at(5));
            }
            let step = || {
                let (clock, mut random) = (Default::default(), quorate_core::Random::new(1));
                let mut context = quorate_core::Context { now: Instant::START, clock, random: &mut random };
                let input = quorate_core::machine::Input::Timer(ReplicaTimer::Turn);
                replica.step(&mut context, input, &mut Outbox::new());
            };
            assert_eq!(catch_unwind(AssertUnwindSafe(step)).is_err(), disagrees);
        }
    }
}
