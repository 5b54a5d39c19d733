//! What a backup has read, in the history: a transaction that reads every key of the workload.
//!
//! Its instant is a reading of a clock. In a strict keyspace a client with a clock that is ahead may have committed above it before: so it is judged like a read of the past, as part of a
//! serial order, and the strict level says nothing about it. In a snapshot keyspace it is a snapshot like any other, and so it is at a local site, whose replica tells how many transactions
//! of each site it holds.

use std::sync::Arc;

use quorate_checker::history::RecordedFacts;
use quorate_checker::{MicroOp, RecordedTxn};
use quorate_core::command::{AtSite, End};
use quorate_core::{ClockTime, Key};
use quorate_workloads::{Elements, Execution, Operation, Plan, Step};

use super::Clients;
use super::facts::facts;
use super::losses::Read;
use super::speculation::snapshot_in_history;
use crate::backups::Held;
use crate::cluster::Cluster;
use crate::system::{Facts, System};

impl Clients {
    /// A backup begins; of what lies below an instant, in microseconds, where it has chosen one.
    pub(crate) fn begin_backup<S: System>(
        &mut self,
        below: Option<u64>,
        cluster: &Cluster<S>,
    ) -> RecordedTxn {
        let time = self.time(cluster.world.now());
        let process = self.next_process();
        let recorded = self.recorder.invoke(process, time);
        let Some(below) = below else { return recorded };
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
        held: Option<Held>,
        cluster: &Cluster<S>,
    ) {
        let time = self.time(cluster.world.now());
        let Some(held) = held else { return self.recorder.fail(recorded, time) };
        let ops = match self.read_everything(&held) {
            Ok(ops) => ops,
            Err(error) => {
                self.nonsense.push(format!("a backup has read what nobody wrote: {error}"));
                return self.recorder.fail(recorded, time);
            }
        };
        let Some((place, snapshot)) = held.of_site else {
            return self.recorder.ok(recorded, time, ops);
        };
        self.recorder.site(recorded, cluster.local_site(place));
        let at_site = AtSite { snapshot, version: None };
        self.recorder.facts(recorded, facts(&at_site, cluster));
        self.recorder.ok(recorded, time, ops.clone());
        // It is lost with its site, if it holds what nobody else has seen.
        self.may_be_lost.note_read(Read {
            home: place as u64 + 1,
            snapshot: at_site.snapshot,
            done: (recorded, ops),
        });
        self.abandon_lost(cluster);
    }

    /// Every key and counting set of the workload, as it is read in a backup.
    fn read_everything(&mut self, held: &Held) -> Result<Vec<MicroOp>, String> {
        let generations = self.slots.iter().map(|slot| slot.workload.generations()).max().unwrap_or(1);
        let workload = &self.slots[0].workload;
        let keys = (0..generations).flat_map(|generation| workload.universe(generation));
        let sets = (0..generations).flat_map(|generation| workload.sets(generation));
        let all_of = |set: Key| Operation::Elements(Elements::all(set, End::Least, u32::MAX));
        let operations = keys.map(Operation::Get).chain(sets.map(all_of)).collect();
        let mut execution =
            Execution::new(Arc::new(Plan { kind: "backup", operations }), &mut self.unique, 0);
        loop {
            match execution.next_step() {
                Step::Get(key) => {
                    execution.got(held.values.get(&key).cloned()).map_err(|error| error.to_string())?;
                }
                Step::Elements { set, .. } => {
                    let counts = held.sets.get(&set).into_iter().flatten();
                    let counts = counts.filter(|(_, count)| **count != 0);
                    execution
                        .counted(counts.map(|(element, count)| (element.clone(), *count)).collect(), None);
                }
                Step::Commit => return execution.observed().map_err(|error| error.to_string()),
                step => panic!("a backup reads keys and sets, and is asked for {step:?}"),
            }
        }
    }
}
