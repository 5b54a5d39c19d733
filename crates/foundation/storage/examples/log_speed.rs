//! How many records a log makes durable in a second, by the number of records in a batch.
//!
//! `cargo run --release -p quorate-storage --example log_speed -- [DIRECTORY]`
//!
//! One batch in flight: append, write, submit, wait for the report. `pipelined` appends the next batch while the
//! previous one is being synced, as an event loop does.

use std::error::Error;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quorate_core::{ReplicaId, ReplicaIndex, ShardId};
use quorate_storage::{Log, LogIdentity, LogOptions, Position, Report, Syncer};

const RECORD: &[u8] = &[7; 250];
const MEASURED: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = parent.join(format!("quorate-log-speed-{}", std::process::id()));
    println!("{} bytes a record, in {}", RECORD.len(), directory.display());
    println!("{:>6}{:>12}{:>14}{:>12}{:>16}", "batch", "in flight", "records/s", "syncs/s", "batch latency");
    for (batch, in_flight) in [(1, 1), (8, 1), (64, 1), (64, 4), (256, 1), (256, 4)] {
        let result = measure(&directory, batch, in_flight);
        std::fs::remove_dir_all(&directory)?;
        let (records, syncs, latency) = result?;
        println!(
            "{batch:>6}{in_flight:>12}{records:>14.0}{syncs:>12.0}{:>13.0} us",
            latency.as_secs_f64() * 1e6
        );
    }
    Ok(())
}

fn measure(
    directory: &std::path::Path,
    batch: u64,
    in_flight: usize,
) -> Result<(f64, f64, Duration), Box<dyn Error>> {
    let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
    let mut log = Log::create(directory, LogIdentity { cluster: 1, replica }, LogOptions::default())?;
    let (reports, news) = channel();
    let syncer = Syncer::start(move |report| drop(reports.send(report)))?;
    let (mut records, mut syncs) = (0, 0);
    let mut waiting: Vec<Position> = Vec::new();
    let start = Instant::now();
    while start.elapsed() < MEASURED {
        while waiting.len() >= in_flight {
            let durable = next(&news)?;
            syncs += 1;
            waiting.retain(|position| *position > durable);
        }
        let mut last = Position::ZERO;
        for _ in 0..batch {
            last = log.append(RECORD);
        }
        records += batch;
        if let Some(unsynced) = log.write()? {
            syncer.submit(unsynced);
        }
        waiting.push(last);
    }
    while !waiting.is_empty() {
        let durable = next(&news)?;
        syncs += 1;
        waiting.retain(|position| *position > durable);
    }
    let elapsed = start.elapsed();
    let batches = (records / batch) as f64 / in_flight as f64;
    Ok((
        records as f64 / elapsed.as_secs_f64(),
        f64::from(syncs) / elapsed.as_secs_f64(),
        elapsed.div_f64(batches),
    ))
}

fn next(news: &Receiver<Report>) -> Result<Position, Box<dyn Error>> {
    Ok(news.recv()?.result?)
}
