//! What the log of a disk takes: appending records on the processor, and syncing them.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use quorate_core::{Epoch, Key, ReplicaId, Timestamp, Transaction, TransactionId, Write};
use quorate_simulator::world::costs::{Cost, SyncTime};
use quorate_storage::{Log, LogIdentity, LogOptions};
use quorate_tapir::Record;
use quorate_tapir::message::Decision;

use super::fit::{Sample, fit};
use crate::exit::Failure;

/// So many bytes are synced at once.
const SYNCED: [usize; 4] = [256, 4 * 1024, 64 * 1024, 512 * 1024];

/// So often each.
const SYNCS: usize = 40;

/// Records hold values of so many bytes.
const VALUES: [usize; 4] = [16, 256, 1_024, 8 * 1_024];

/// So many records of each size are appended.
const RECORDS: usize = 2_000;

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) appended: Cost,
    pub(super) appended_error: f64,
    pub(super) sync: SyncTime,
    pub(super) sync_error: f64,
}

/// Measures a log in a temporary directory, which should lie on the disk that matters.
pub(super) fn measure() -> Result<Measured, Failure> {
    let directory = tempfile::tempdir().map_err(Failure::failed)?;
    let identity = LogIdentity { cluster: 1, replica: ReplicaId::default() };
    let mut log = Log::create(&directory.path().join("log"), identity, LogOptions::default())
        .map_err(Failure::failed)?;
    let appending = append(&mut log)?;
    let appended = fit(&appending);
    let (small, syncing) = sync(&mut log)?;
    let synced = fit(&syncing);
    log.close().map_err(Failure::failed)?;
    Ok(Measured {
        appended: Cost::new(appended.costs[0], appended.costs[1]),
        appended_error: appended.error,
        sync: SyncTime {
            low: small[small.len() / 20],
            high: small[small.len() - 1 - small.len() / 20],
            byte_ns: synced.costs[1],
        },
        sync_error: synced.error,
    })
}

/// Appends records of several sizes, with the write to the file that ends each turn, sixteen records long.
fn append(log: &mut Log) -> Result<Vec<Sample>, Failure> {
    const TURN: usize = 16;
    let mut samples = Vec::new();
    for value in VALUES {
        let record = record(value);
        let mut took: Vec<f64> = Vec::new();
        let mut bytes = 0;
        for _ in 0..RECORDS / TURN {
            let began = Instant::now();
            for _ in 0..TURN {
                let mut contents = BytesMut::new();
                quorate_wire::encode_record(Epoch::FIRST, &record, &mut contents);
                bytes = contents.len();
                log.append(&contents);
            }
            let _unsynced = log.write().map_err(Failure::failed)?;
            took.push(began.elapsed().as_nanos() as f64 / TURN as f64);
        }
        log.sync().map_err(Failure::failed)?;
        took.sort_unstable_by(f64::total_cmp);
        samples.push((vec![1.0, bytes as f64], took[took.len() / 2]));
    }
    Ok(samples)
}

/// How long syncs take: those of few bytes, ascending, and the median for each size.
fn sync(log: &mut Log) -> Result<(Vec<Duration>, Vec<Sample>), Failure> {
    let mut small = Vec::new();
    let mut samples = Vec::new();
    for bytes in SYNCED {
        let contents = vec![7; bytes];
        let mut took = Vec::new();
        for _ in 0..SYNCS {
            log.append(&contents);
            let began = Instant::now();
            log.sync().map_err(Failure::failed)?;
            took.push(began.elapsed());
        }
        took.sort_unstable();
        samples.push((vec![1.0, bytes as f64], took[took.len() / 2].as_nanos() as f64));
        if small.is_empty() {
            small = took;
        }
    }
    Ok((small, samples))
}

/// The record of a decision on a write.
fn record(value: usize) -> Record {
    let write = Write { key: Key::from("a key of a usual size"), value: Some(vec![7; value].into()) };
    let transaction = Transaction { writes: vec![write], ..Transaction::default() };
    let (timestamp, last) = (Timestamp::ZERO, Timestamp::ZERO);
    let decision = Decision::Commit { transaction: transaction.into(), timestamp, last };
    Record::Decided { transaction: TransactionId::default(), decision, executed: true }
}
