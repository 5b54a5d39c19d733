//! What a backup has read, in the history: a transaction that reads every key of the workload.
//!
//! Its instant is a reading of a clock. In a strict keyspace a client with a clock that is ahead may have committed above it before: so it is judged like a read of the past, as part of a
//! serial order, and the strict level says nothing about it. In a snapshot keyspace it is a snapshot like any other.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_checker::RecordedTxn;
use quorate_checker::history::RecordedFacts;
use quorate_core::{ClockTime, Key, Value};
use quorate_workloads::{Execution, Operation, Plan};

use super::Clients;
use super::speculation::snapshot_in_history;
use crate::cluster::Cluster;
use crate::system::{Facts, System};

impl Clients {
    /// A backup begins, of what lies below an instant, in microseconds.
    pub(crate) fn begin_backup<S: System>(&mut self, below: u64, cluster: &Cluster<S>) -> RecordedTxn {
        let time = self.time(cluster.world.now());
        let process = self.next_process();
        let recorded = self.recorder.invoke(process, time);
        if S::READS_THE_PAST {
            self.past.push(recorded);
        }
        if S::FACTS == Facts::Snapshots {
            let rs = Some(snapshot_in_history(ClockTime::from_micros(below - 1)));
            self.recorder.facts(recorded, RecordedFacts { rs, ..RecordedFacts::default() });
        }
        self.record_timestamp::<S>(recorded, quorate_checker::Timestamp { time: below as i64, client: 0 });
        recorded
    }

    /// A backup has ended: it is there if its shards have told everything that they held at its instant.
    pub(crate) fn end_backup<S: System>(
        &mut self,
        recorded: RecordedTxn,
        held: Option<&BTreeMap<Key, Value>>,
        cluster: &Cluster<S>,
    ) {
        let time = self.time(cluster.world.now());
        let Some(held) = held else { return self.recorder.fail(recorded, time) };
        let generations = self.slots.iter().map(|slot| slot.workload.generations()).max().unwrap_or(1);
        let workload = &self.slots[0].workload;
        let keys = (0..generations).flat_map(|generation| workload.universe(generation));
        let operations = keys.map(Operation::Get).collect();
        let plan = Arc::new(Plan { kind: "backup", operations });
        let mut execution = Execution::new(Arc::clone(&plan), &mut self.unique, 0);
        let read = plan.operations.iter().try_for_each(|operation| match operation {
            Operation::Get(key) => {
                execution.next_step();
                execution.got(held.get(key).cloned())
            }
            _ => Ok(()),
        });
        match read.and_then(|()| execution.observed()) {
            Ok(ops) => self.recorder.ok(recorded, time, ops),
            Err(error) => {
                self.nonsense.push(format!("a backup has read what nobody wrote: {error}"));
                self.recorder.fail(recorded, time);
            }
        }
    }
}
