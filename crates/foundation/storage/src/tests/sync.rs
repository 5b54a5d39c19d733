//! The thread that syncs.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::super::{Position, Report, Syncer, format, syncer};
use super::*;

fn listening() -> (Syncer, Receiver<Report>) {
    let (reports, news) = mpsc::channel();
    // A test that is over does not listen any more.
    (Syncer::start(move |report| drop(reports.send(report))).unwrap(), news)
}

#[test]
fn what_is_submitted_becomes_durable() {
    let directory = Directory::new();
    let mut log = directory.create();
    let (syncer, news) = listening();
    let mut last = Position::ZERO;
    for round in 0..50 {
        (0..5).for_each(|number| last = log.append(&record(round * 5 + number)));
        syncer.submit(log.write().unwrap().unwrap());
    }
    let mut durable = Position::ZERO;
    while durable < last {
        let now = news.recv().unwrap().result.unwrap();
        assert!(now > durable, "reports grow");
        durable = now;
    }
    assert_eq!((durable, log.durable()), (last, last));
    drop((log, syncer));
    assert_eq!(directory.records().unwrap(), (0..250).map(record).collect::<Vec<_>>());
}

/// A hundred submissions that wait behind a slow report are served together.
#[test]
fn waiting_submissions_share_a_sync() {
    let directories = [Directory::new(), Directory::new()];
    let mut logs: Vec<Log> = (0..2)
        .map(|index| {
            let replica = ReplicaId { index: ReplicaIndex(index), ..IDENTITY.replica };
            let identity = LogIdentity { replica, ..IDENTITY };
            Log::create(&directories[usize::from(index)].log(), identity, LogOptions::default()).unwrap()
        })
        .collect();
    let (reports, news) = mpsc::channel();
    let (go, gate) = mpsc::channel();
    let syncer = Syncer::start(move |report| {
        reports.send(report).unwrap();
        gate.recv().unwrap();
    });
    let syncer = syncer.unwrap();
    let mut write = |at: usize| {
        logs[at].append(b"record");
        let unsynced = logs[at].write().unwrap().unwrap();
        let through = unsynced.through();
        syncer.submit(unsynced);
        through
    };
    let first = write(0);
    let report = news.recv().unwrap();
    assert_eq!(report.result.unwrap(), first);
    let mut last = BTreeMap::new();
    for round in 0..100 {
        last.insert(ReplicaIndex((round % 2) as u8), write(round % 2));
    }
    (0..3).for_each(|_| go.send(()).unwrap());
    for _ in 0..2 {
        let report = news.recv().unwrap();
        assert_eq!(report.result.unwrap(), last[&report.replica.index], "one sync served all fifty");
    }
    drop(syncer);
    assert!(news.try_recv().is_err());
}

#[test]
fn dropping_the_syncer_completes_what_was_submitted() {
    let directory = Directory::new();
    let mut log = directory.create();
    let (syncer, news) = listening();
    let last = log.append(b"last words");
    syncer.submit(log.write().unwrap().unwrap());
    drop(syncer);
    assert_eq!(news.recv().unwrap().result.unwrap(), last);
    assert_eq!(log.durable(), last);
}

fn mark_of(directory: &Directory, segment: usize) -> Option<Position> {
    let (_, bytes) = &files(&directory.log())[segment];
    let header = format::Header::decode(bytes).unwrap();
    format::decode_mark(bytes, header.incarnation)
}

/// So that decay of an idle log is noticed, without a second write in every sync.
#[test]
fn an_idle_log_is_marked() {
    let directory = Directory::new();
    let mut log = directory.create();
    let (syncer, _news) = listening();
    let end = log.append(b"then nothing");
    syncer.submit(log.write().unwrap().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    while mark_of(&directory, 0) != Some(end) {
        assert!(Instant::now() < deadline, "the mark is written within a few milliseconds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_closed_log_is_marked() {
    let directory = Directory::new();
    let mut log = directory.create();
    let end = log.append(b"then an end");
    log.close().unwrap();
    assert_eq!(mark_of(&directory, 0), Some(end));
}

/// The next segment is created by another thread before it is needed, and then used.
#[test]
fn the_next_segment_is_ready_in_time() {
    let directory = Directory::new();
    let mut log = directory.create();
    let (syncer, news) = listening();
    log.append(&[1; 150]);
    syncer.submit(log.write().unwrap().unwrap());
    news.recv().unwrap().result.unwrap();
    // Ends the threads, after they have done what was asked for.
    drop(syncer);
    assert_eq!(files(&directory.log()).len(), 2, "it was created ahead of time");
    log.append(&[2; 150]);
    log.sync().unwrap();
    assert_eq!(files(&directory.log()).len(), 2, "it was used");
    // A record that is too large for what was prepared gets a larger segment.
    let mut unsynced = {
        log.append(&[3; 20]);
        log.write().unwrap().unwrap()
    };
    unsynced.prepare.take().expect("half of the segment is used").run().unwrap();
    unsynced.sync().unwrap();
    log.append(&[4; 5_000]);
    log.sync().unwrap();
    drop((log, unsynced));
    let expected = [vec![1; 150], vec![2; 150], vec![3; 20], vec![4; 5_000]];
    assert_eq!(directory.records().unwrap(), expected);
}

/// The thread that creates segments may be slow. Records that have been written since are not overwritten.
#[test]
fn a_segment_that_is_in_use_is_not_created_again() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(&[1; 150]);
    let mut unsynced = log.write().unwrap().unwrap();
    let late = unsynced.prepare.take().expect("the segment is more than half full");
    log.append(&[2; 150]);
    log.sync().unwrap();
    late.run().unwrap();
    log.append(&[3; 150]);
    log.sync().unwrap();
    drop((log, unsynced));
    assert_eq!(directory.records().unwrap(), [vec![1; 150], vec![2; 150], vec![3; 150]]);
}

/// Under steady load nothing is marked, and nothing piles up to be marked later.
#[test]
fn only_the_latest_sync_of_a_log_is_to_be_marked() {
    let directory = Directory::new();
    let mut log = directory.create();
    let mut idle = BTreeMap::new();
    for number in 0..10 {
        log.append(&record(number));
        let unsynced = log.write().unwrap().unwrap();
        assert_eq!(syncer::sync(unsynced, &mut idle).result.unwrap(), log.durable());
        assert_eq!(idle.len(), 1);
    }
}
