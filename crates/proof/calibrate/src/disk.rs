//! The times that the log of a disk takes: appending records, and having them synced.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quorate_cluster::Failure;
use quorate_core::{Epoch, Key, ReplicaId, Timestamp, Transaction, TransactionId, Write};
use quorate_load::cpu_time;
use quorate_simulator::world::costs::{Cost, SyncTime};
use quorate_storage::{Log, LogIdentity, LogOptions, Syncer};
use quorate_tapir::Record;
use quorate_tapir::message::Decision;

use super::fit::{Sample, fit};
use crate::processors::thread_cpu_time;

/// So many logs are synced at the same time, as those of servers that share a disk.
const LOGS: usize = 3;

/// So many bytes are synced at once.
const SYNCED: [usize; 4] = [256, 4 * 1024, 64 * 1024, 512 * 1024];

/// So often each.
const SYNCS: usize = 50;

/// Records hold values of so many bytes.
const VALUES: [usize; 4] = [16, 256, 1_024, 8 * 1_024];

/// So many of them are written at once.
const WRITTEN: [usize; 2] = [1, 16];

/// So many records of each size are appended.
const RECORDS: usize = 2_000;

/// The processor time of records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    pub(super) cost: Cost,
    pub(super) error: f64,
}

/// The time of syncs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Synced {
    /// Of the disk.
    pub(super) time: SyncTime,
    /// Of processors, with the write before it, in nanoseconds.
    pub(super) cpu_ns: f64,
}

/// Logs in a temporary directory, which should lie on the disk that matters.
pub(super) struct Disk {
    logs: Vec<Log>,
    /// Removed when this is dropped.
    _directory: tempfile::TempDir,
}

impl Disk {
    pub(super) fn new() -> Result<Self, Failure> {
        let directory = tempfile::tempdir().map_err(Failure::failed)?;
        let identity = LogIdentity { cluster: 1, replica: ReplicaId::default() };
        let create = |number| {
            let path = directory.path().join(format!("log{number}"));
            Log::create(&path, identity, LogOptions::default()).map_err(Failure::failed)
        };
        let logs = (0..LOGS).map(create).collect::<Result<Vec<Log>, Failure>>()?;
        Ok(Disk { logs, _directory: directory })
    }

    /// Measures records.
    pub(super) fn append(&mut self) -> Result<Appended, Failure> {
        let found = fit(&append(&mut self.logs[0])?);
        Ok(Appended { cost: Cost::new(found.costs[1], found.costs[2]), error: found.error })
    }

    /// Measures syncs, as they are now: others may use the same disk.
    pub(super) fn sync(&mut self) -> Result<Synced, Failure> {
        let mut samples = Vec::new();
        let mut synced = Synced { time: SyncTime::TYPICAL, cpu_ns: 0.0 };
        for bytes in SYNCED {
            let before = cpu_time();
            let took = sync(&mut self.logs, bytes)?;
            // The mean: now and then a segment has to be created ahead of time, and all wait for that.
            let mean = took.iter().sum::<Duration>().as_nanos() as f64 / took.len() as f64;
            samples.push((vec![1.0, bytes as f64], mean));
            if bytes == SYNCED[0] {
                synced.cpu_ns = (cpu_time() - before).as_nanos() as f64 / took.len() as f64;
                synced.time.tenths = tenths(&took);
            }
        }
        synced.time.byte_ns = fit(&samples).costs[1];
        Ok(synced)
    }
}

impl Synced {
    /// The one of these in which others have used the disk the least.
    pub(super) fn quietest(all: &[Synced]) -> Option<Synced> {
        let took = |synced: &Synced| synced.time.tenths.iter().sum::<Duration>();
        all.iter().min_by_key(|synced| took(synced)).copied()
    }
}

/// The bounds that each tenth of these does not exceed; ascending, of which the very longest do not count.
fn tenths(took: &[Duration]) -> [Duration; 11] {
    let last = took.len() - 1 - took.len() / 50;
    std::array::from_fn(|tenth| took[last * tenth / 10])
}

/// Appends records of several sizes, with the write to the file that ends each turn: writes, records, bytes.
fn append(log: &mut Log) -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    for value in VALUES {
        let record = record(value);
        for written in WRITTEN {
            let (mut bytes, began) = (0, thread_cpu_time());
            for _ in 0..RECORDS / written {
                for _ in 0..written {
                    let mut contents = BytesMut::new();
                    quorate_wire::encode_record(Epoch::FIRST, &record, &mut contents);
                    bytes += contents.len();
                    log.append(&contents);
                }
                let _unsynced = log.write().map_err(Failure::failed)?;
            }
            let took = (thread_cpu_time() - began).as_nanos() as f64;
            let records = RECORDS / written * written;
            samples.push((vec![(records / written) as f64, records as f64, bytes as f64], took));
            log.sync().map_err(Failure::failed)?;
        }
    }
    Ok(samples)
}

/// How long it takes from the end of a turn until its event loop knows that what was written is durable, while other logs on
/// the same disk are synced as well; ascending.
fn sync(logs: &mut [Log], bytes: usize) -> Result<Vec<Duration>, Failure> {
    let mut took = thread::scope(|scope| {
        let threads: Vec<_> = logs.iter_mut().map(|log| scope.spawn(move || sync_one(log, bytes))).collect();
        let mut took = Vec::new();
        for thread in threads {
            took.extend(thread.join().map_err(|_| Failure::failed("a log has panicked"))??);
        }
        Ok::<_, Failure>(took)
    })?;
    took.sort_unstable();
    Ok(took)
}

fn sync_one(log: &mut Log, bytes: usize) -> Result<Vec<Duration>, Failure> {
    let contents = vec![7; bytes];
    let (sender, reports) = mpsc::channel();
    // The receiver of the report is gone only if something has failed, and says so.
    let syncer = Syncer::start(move |report| drop(sender.send(report))).map_err(Failure::failed)?;
    let mut took = Vec::new();
    for _ in 0..SYNCS {
        log.append(&contents);
        let began = Instant::now();
        let Some(unsynced) = log.write().map_err(Failure::failed)? else { continue };
        syncer.submit(unsynced);
        let report = reports.recv().map_err(Failure::failed)?;
        report.result.map_err(Failure::failed)?;
        took.push(began.elapsed());
    }
    Ok(took)
}

/// The record of a decision on a write.
fn record(value: usize) -> Record {
    let write = Write { key: Key::from("a key of a usual size"), value: Some(vec![7; value].into()) };
    let transaction = Transaction { writes: vec![write], ..Transaction::default() };
    let (timestamp, last) = (Timestamp::ZERO, Timestamp::ZERO);
    let decision = Decision::Commit { transaction: transaction.into(), timestamp, last };
    Record::Decided { transaction: TransactionId::default(), decision, executed: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_are_of_what_was_measured_without_the_longest() {
        let mut took: Vec<Duration> = (0..=100).map(Duration::from_millis).collect();
        took.push(Duration::from_secs(9));
        took.push(Duration::from_secs(9));
        let tenths = tenths(&took);
        assert_eq!([tenths[0], tenths[5], tenths[10]], [0, 50, 100].map(Duration::from_millis));
        assert_eq!(super::tenths(&took[5..6]), [Duration::from_millis(5); 11]);
    }

    #[test]
    fn the_quietest_is_that_with_the_shortest_syncs() {
        let synced = |millis, cpu_ns| Synced {
            time: SyncTime::between(Duration::from_millis(1), Duration::from_millis(millis)),
            cpu_ns,
        };
        let quietest = Synced::quietest(&[synced(9, 1.0), synced(3, 2.0), synced(4, 3.0)]);
        assert_eq!(quietest.map(|synced| synced.cpu_ns), Some(2.0));
        assert!(Synced::quietest(&[]).is_none());
    }
}
