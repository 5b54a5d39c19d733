//! The remains of ended transactions at a replica.

use quorate_core::Timestamp;
use quorate_store::ReadTimestamps;

use super::Replica;

/// The entries that a replica keeps although nothing may ask for them any more. Some of them are dropped with the next floor, so
/// that there are none only when the replica has been at rest for a while; but they never grow with the number of transactions
/// that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Transactions in its record that lie below the floor with everything that may ever have been proposed of them.
    pub recorded: usize,
    /// Versions that are below the floor and not retained either, and not the newest there; and such deletions.
    pub versions: usize,
    /// Keys and ranges whose read timestamps it remembers, if nothing has been read above the floor.
    pub read_timestamps: usize,
    /// Promises to backup coordinators, of transactions of which the record tells nothing and of which nothing may have been
    /// proposed above the floor.
    pub promises: usize,
    /// Transactions that were prepared again, and of which nothing is held any more.
    pub displaced: usize,
    /// Recoveries that it leads, and recoveries that it has asked others for.
    pub recoveries: usize,
    /// Keys whose readers take turns.
    pub turns: usize,
}

impl Remains {
    /// Each kind of thing that is left, with its number.
    pub fn left(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let all = [
            ("recorded transactions", self.recorded),
            ("versions", self.versions),
            ("read timestamps", self.read_timestamps),
            ("promises", self.promises),
            ("displaced prepares", self.displaced),
            ("recoveries", self.recoveries),
            ("turns", self.turns),
        ];
        all.into_iter().filter(|(_, number)| *number > 0)
    }
}

impl Replica {
    /// The remains of ended transactions. Looks at everything that it keeps.
    pub fn remains(&self) -> Remains {
        let (record, floor, participant) = (self.ir.record(), self.ir.floor(), &self.participant);
        let may_be_proposed = |id| participant.fading.get(id).is_some_and(|(_, last)| *last >= floor);
        let promises = participant.promises.keys();
        let promises = promises.filter(|id| !record.holds(**id) && !may_be_proposed(*id));
        Remains {
            recorded: record.overdue(floor),
            versions: participant.versions.superfluous(floor.min(participant.history.horizon())),
            read_timestamps: [&participant.reads, &participant.promised_reads]
                .map(|reads| overdue(reads, floor))
                .iter()
                .sum(),
            promises: promises.count(),
            displaced: participant.displaced_in_vain(),
            recoveries: self.recoveries.len() + self.asked.len(),
            turns: self.turns.len(),
        }
    }
}

/// Single keys are forgotten together, once the floor has passed all that was read.
fn overdue(reads: &ReadTimestamps, floor: Timestamp) -> usize {
    if reads.greatest() > floor { 0 } else { reads.remembered() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::changes::Retention;
    use quorate_core::hosted::Boot;
    use quorate_core::{
        Ballot, ClientId, GroupSize, Instant, Key, KeyRange, ReplicaId, ReplicaIndex, ShardId, TransactionId,
        Value,
    };
    use quorate_ir::{Fact, Upcalls};
    use quorate_store::Prepared;

    use super::super::participant::Participant;
    use super::*;
    use crate::config::ReplicaConfig;
    use crate::message::{Decision, Prepare, Promise};

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    /// A replica that has this floor, and retains nothing below it.
    fn replica(floor: u64) -> Replica {
        let me = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        let config = ReplicaConfig::new(me, GroupSize::new(3).unwrap(), Boot::Initialise);
        let mut replica =
            Replica::restore_with(config, [Fact::Completed(at(floor)), Fact::FloorRaised(at(floor))]);
        replica.participant.history.retain(at(floor), Retention::NONE, usize::MAX);
        replica
    }

    impl Replica {
        fn restore_with(config: ReplicaConfig, facts: [Fact<crate::Tapir>; 2]) -> Self {
            use quorate_core::machine::Machine;
            let records = [crate::Record::Initialised].into_iter().chain(facts.map(crate::Record::from));
            Replica::restore(config, records)
        }
    }

    #[test]
    fn what_is_left_is_told_by_name_and_number() {
        let nothing = Remains::default();
        assert_eq!(nothing.left().count(), 0);
        let remains = Remains {
            recorded: 1,
            versions: 2,
            read_timestamps: 3,
            promises: 4,
            displaced: 5,
            recoveries: 6,
            turns: 7,
        };
        let all = [
            ("recorded transactions", 1),
            ("versions", 2),
            ("read timestamps", 3),
            ("promises", 4),
            ("displaced prepares", 5),
            ("recoveries", 6),
            ("turns", 7),
        ];
        assert!(remains.left().eq(all));
        assert!(Remains { turns: 1, ..nothing }.left().eq([("turns", 1)]));
        assert_eq!(replica(100).remains(), nothing);
    }

    #[test]
    fn a_promise_is_left_once_nothing_is_recorded_and_nothing_may_be_proposed_above_the_floor() {
        // The greatest timestamp at which something may have been proposed, and whether the promise is left.
        for (last, left) in [(None, 1), (Some(99), 1), (Some(100), 0), (Some(101), 0)] {
            let mut replica = replica(100);
            replica.participant.promises.insert(id(1), Promise { ballot: Ballot(1), accepted: None });
            replica.participant.fading.extend(last.map(|last| (id(1), (Ballot(1), at(last)))));
            assert_eq!(replica.remains().promises, left, "{last:?}");
            let operation = Decision::Abort { last: at(120) };
            let fact = Fact::InconsistentRecorded { transaction: id(1), operation, executed: false };
            replica.ir.restore(fact, &mut Participant::new(crate::Rules::EXCLUSIVE, None));
            assert_eq!(replica.remains().promises, 0, "the record tells of it");
        }
    }

    #[test]
    fn a_version_is_left_that_is_neither_the_newest_below_the_floor_nor_retained() {
        let superfluous = |floor: u64, retained_from: u64| {
            let mut replica = replica(floor);
            for micros in [10, 50, 90] {
                let value = Some(Value::from_static(b"x"));
                replica.participant.versions.install(&Key::from("a"), at(micros), value);
            }
            let versions = &replica.participant.versions;
            replica.participant.history.rebuild(at(retained_from), versions);
            replica.remains().versions
        };
        assert_eq!(superfluous(100, 100), 2);
        assert_eq!(superfluous(100, 60), 1, "from 60 on all is retained, and what was the newest there");
        assert_eq!(superfluous(100, 5), 0);
        assert_eq!(superfluous(60, 100), 1, "above the floor nothing is collected");
        assert_eq!(superfluous(5, 100), 0);
    }

    /// Keys that were read at these timestamps.
    fn reads_at(all: &[u64]) -> ReadTimestamps {
        let mut reads = ReadTimestamps::new();
        for micros in all {
            reads.read_key(&Key::from(format!("k{micros}")), at(*micros));
        }
        reads
    }

    #[test]
    fn read_timestamps_are_left_if_all_that_was_read_lies_at_the_floor_or_below() {
        for (all, left) in [(&[99][..], 1), (&[90, 100], 2), (&[90, 101], 0), (&[], 0)] {
            assert_eq!(overdue(&reads_at(all), at(100)), left, "{all:?}");
            let mut replica = replica(100);
            replica.participant.reads = reads_at(all);
            assert_eq!(replica.remains().read_timestamps, left, "{all:?}");
            replica.participant.promised_reads = reads_at(&[80, 90]);
            assert_eq!(replica.remains().read_timestamps, left + 2, "each kind by itself");
        }
    }

    #[test]
    fn a_prepare_is_left_if_what_displaced_it_is_not_held_any_more() {
        let mut replica = replica(0);
        let prepare = |micros| Prepare { transaction: Arc::default(), timestamp: at(micros), first: None };
        replica.participant.hold(id(1), &prepare(10));
        replica.participant.hold(id(1), &prepare(20));
        replica.participant.hold(id(2), &prepare(10));
        assert_eq!(replica.remains().displaced, 0);
        replica.participant.prepared.remove(id(2));
        assert_eq!(replica.remains().displaced, 0, "it had displaced nothing");
        replica.participant.prepared.remove(id(1));
        assert_eq!(replica.remains().displaced, 1);
        let (transaction, timestamp, since) = (Arc::default(), at(20), Instant::START);
        replica.participant.prepared.insert(id(1), Prepared { transaction, timestamp, since });
        replica.participant.execute_inconsistent(id(1), &Decision::Abort { last: at(20) });
        assert_eq!(replica.remains().displaced, 0, "with the outcome all goes");
    }

    #[test]
    fn recoveries_that_are_led_or_asked_for_and_lines_of_readers_are_left() {
        let mut replica = replica(0);
        replica.asked.insert(id(1), 1);
        replica.asked.insert(id(2), 1);
        let from = ClientId(1).into();
        assert!(replica.turns.join(from, id(3), &Key::from("a"), true, Instant::START));
        let remains = replica.remains();
        assert_eq!((remains.recoveries, remains.turns), (2, 1));
    }

    /// A floor drops what was read below it, in ranges as of single keys; and the promises to readers.
    #[test]
    fn a_floor_makes_read_timestamps_go() {
        let mut replica = replica(0);
        let range = KeyRange { from: Key::from("m"), to: Some(Key::from("p")) };
        for reads in [&mut replica.participant.reads, &mut replica.participant.promised_reads] {
            reads.read_key(&Key::from("a"), at(10));
            reads.read_range(&range, at(20));
            reads.read_key(&Key::from("b"), at(200));
        }
        let remembered = |replica: &Replica| {
            [&replica.participant.reads, &replica.participant.promised_reads].map(ReadTimestamps::remembered)
        };
        let before = remembered(&replica);
        for _ in 0..3 {
            replica.participant.on_floor(at(100));
        }
        let after = remembered(&replica);
        assert!(after[0] < before[0] && after[1] < before[1], "{before:?}, {after:?}");
        for reads in [&replica.participant.reads, &replica.participant.promised_reads] {
            assert_eq!(reads.of(b"b"), at(200), "what was read above it binds");
        }
    }
}
