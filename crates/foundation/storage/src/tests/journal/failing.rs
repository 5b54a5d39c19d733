//! Files that fail while the journal holds something that belongs to them.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::super::super::segment::Segment;
use super::super::super::syncer::Desk;
use super::super::super::{Directory as LogDirectory, LogFile};
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Files have been synced, and the desk has not looked; something was written since; and then everything is to be settled.
#[test]
fn to_settle_all_is_to_wait_for_what_is_under_way_alone() {
    let node = Node::new();
    let (journal, mut logs) = (node.create(), node.create_logs());
    let (done, is_done) = mpsc::channel();
    let work = std::thread::spawn(move || {
        let mut files = Desk::around(journal, |_| {});
        files.desk.commit(write(&mut logs, b"one"));
        files.desk.begin_settling();
        files.settle_one();
        files.desk.commit(write(&mut logs, b"two"));
        let settler = files.settle_in_background();
        files.desk.settle_all();
        done.send(()).unwrap();
        drop(files);
        settler.join().unwrap();
    });
    assert!(is_done.recv_timeout(PATIENCE).is_ok(), "the thread that syncs hangs");
    work.join().unwrap();
    assert_eq!(node.replayed(), Replayed::default());
}

#[test]
fn files_are_synced_every_few_seconds() {
    let node = Node::new();
    let (journal, mut logs) = (node.create_for_syncer(), node.create_logs());
    let mut files = Desk::around(journal, |_| {});
    files.desk.commit(write(&mut logs, b"one"));
    assert!(!files.settles_after(Duration::from_secs(1)));
    assert!(files.settles_after(Duration::from_secs(1)));
}

/// A segment with the same name, that cannot be written to.
pub(super) fn without_room(old: &Segment<LogFiles>) -> Segment<LogFiles> {
    let device = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    Segment::around(device.into(), &old.path, old.header)
}

/// A log that cannot be written to, and one that can.
fn failing_logs(node: &Node) -> [Log; 2] {
    let mut logs = node.create_logs();
    logs[0].replace_segment(without_room);
    logs
}

#[test]
fn one_log_that_fails_keeps_no_other_from_being_opened() {
    let node = Node::new();
    let mut logs = failing_logs(&node);
    let (reports, news) = mpsc::channel();
    let report = move |together: Vec<_>| reports.send(together.len()).unwrap();
    let syncer = Syncer::start_with(Some(node.create_for_syncer()), report).unwrap();
    syncer.submit_all(write(&mut logs, b"record"));
    assert_eq!(news.recv().unwrap(), 2, "the journal serves both");
    let [failing, working] = [1, 2].map(|shard| Node::identity(shard).replica);
    let incarnations = logs.each_ref().map(Log::incarnation);
    assert!(syncer.settle(failing, incarnations[0]).is_err(), "its file is not written");
    assert!(syncer.settle(working, incarnations[1]).is_ok());
    assert!(syncer.settle(failing, 7).is_ok(), "another log in its place");
    assert!(syncer.settle(Node::identity(3).replica, 8).is_ok());
    drop((syncer, logs));
    // A process that begins anew gives it to the log.
    assert_eq!(node.replayed(), Replayed { writes: 1, let_go: 0, kept: 0 });
    for shard in [1, 2] {
        assert_eq!(node.records(shard).unwrap(), ["record"]);
    }
}

/// If its writes cannot be kept either, nothing is noted as settled, and logs whose files are synced are opened all the same.
#[test]
fn a_journal_that_fails_lets_logs_be_opened_that_are_synced() {
    let node = Node::new();
    let mut logs = failing_logs(&node);
    let mut journal = node.create();
    assert_eq!(commit(&mut journal, &mut logs, b"one").together.len(), 2);
    // Nothing can be created where the journal was.
    let aside = node.directory.0.join("aside");
    fs::rename(node.journal(), &aside).unwrap();
    journal.settle().unwrap();
    let Committed { together, alone } = journal.commit(write(&mut logs[1..], b"two"));
    assert_eq!((together.len(), alone.len()), (0, 1));
    alone.iter().for_each(|unsynced| unsynced.sync().unwrap());
    let [failing, working] = logs.each_ref().map(Log::incarnation);
    assert!(journal.release(Node::identity(1).replica, failing).is_err());
    assert!(journal.release(Node::identity(2).replica, working).is_ok());
    assert!(journal.release(Node::identity(3).replica, 8).is_ok());
    drop((journal, logs, alone));
    fs::rename(&aside, node.journal()).unwrap();
    assert_eq!(node.replayed().writes, 2, "nothing was noted as settled");
    assert_eq!(node.records(1).unwrap(), ["one"]);
    assert_eq!(node.records(2).unwrap(), ["one", "two"]);
}

#[test]
fn a_log_that_fails_after_the_journal_is_not_opened() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), failing_logs(&node));
    assert_eq!(commit(&mut journal, &mut logs, b"one").together.len(), 2);
    journal.replace_segment(without_room);
    let Committed { together, alone } = journal.commit(write(&mut logs, b"two"));
    assert_eq!((together.len(), alone.len()), (0, 2));
    assert_eq!(alone.iter().filter(|unsynced| unsynced.sync().is_ok()).count(), 1);
    let [failing, working] = logs.each_ref().map(Log::incarnation);
    assert!(journal.release(Node::identity(1).replica, failing).is_err());
    assert!(journal.release(Node::identity(2).replica, working).is_ok());
}

#[test]
fn nothing_is_written_after_what_a_log_has_refused() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), failing_logs(&node));
    assert_eq!(commit(&mut journal, &mut logs, b"one").together.len(), 2);
    let mut unsynced = write(&mut logs[..1], b"two").remove(0);
    journal.pass(&mut unsynced);
    assert!(unsynced.outcome().is_err() && unsynced.sync().is_err());
}

/// How many descriptors this process has whose file is gone.
fn deleted_files(node: &Node) -> usize {
    let all =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let own = node.directory.0.to_str().unwrap().to_owned();
    all.filter(|path| path.to_str().is_some_and(|it| it.starts_with(&own) && it.ends_with("(deleted)")))
        .count()
}

/// The journal has failed, each log is synced for itself, and has given up segments since.
#[test]
fn a_journal_that_has_failed_does_not_hold_segments_that_were_given_up() {
    let node = Node::new();
    let mut journal = node.create();
    let mut logs =
        [1, 2].map(|shard| Log::create(&node.log_of(shard), Node::identity(shard), JOURNAL.log).unwrap());
    assert_eq!(commit(&mut journal, &mut logs, b"one").together.len(), 2);
    journal.replace_segment(without_room);
    let failed = commit(&mut journal, &mut logs, b"two");
    assert_eq!(failed.alone.len(), 2);
    failed.alone.iter().for_each(|unsynced| unsynced.sync().unwrap());
    drop(failed);
    for _ in 0..20 {
        let Committed { alone, .. } = journal.commit(write(&mut logs, &[3; 1000]));
        alone.iter().for_each(|unsynced| unsynced.sync().unwrap());
        for log in &mut logs {
            if let Some(truncation) = log.truncate(log.durable()) {
                truncation.run().unwrap();
            }
        }
        drop(alone);
    }
    drop(journal.settle());
    // Each log itself may hold one that is on its way out.
    assert_eq!(deleted_files(&node), 0, "room that is not given back before the process ends");
}

/// Files whose failed sync is told to one of those that sync through the same descriptor, as Linux does (`f_wb_err`).
#[derive(Debug, Default)]
struct Hook {
    /// While set, two syncs of one file come together, and the one by the thread of this name alone is told of a failure.
    together: Mutex<Option<(Arc<AtomicUsize>, &'static str)>>,
    failures: AtomicUsize,
}

#[derive(Clone, Debug)]
struct HookedDirectory(LogFiles, Arc<Hook>);

#[derive(Debug)]
struct HookedFile(<LogFiles as LogDirectory>::File, Arc<Hook>);

impl LogDirectory for HookedDirectory {
    type File = HookedFile;
    type Lock = <LogFiles as LogDirectory>::Lock;

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn create(&self) -> io::Result<()> {
        self.0.create()
    }

    fn lock(&self) -> io::Result<Option<Self::Lock>> {
        self.0.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create_file(&self, name: &str) -> io::Result<HookedFile> {
        Ok(HookedFile(self.0.create_file(name)?, Arc::clone(&self.1)))
    }

    fn open_file(&self, name: &str) -> io::Result<HookedFile> {
        Ok(HookedFile(self.0.open_file(name)?, Arc::clone(&self.1)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

impl LogFile for HookedFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.0.read_at(offset, bytes_max)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let together = self.1.together.lock().unwrap().clone();
        let Some((waiting, told)) = together else { return self.0.sync() };
        // Both wait for the same pages to be written, which fails; the first one to look at the error takes it. One that comes by itself is
        // told unless the other one was.
        waiting.fetch_add(1, Ordering::SeqCst);
        let begun = Instant::now();
        while waiting.load(Ordering::SeqCst) < 2 && begun.elapsed() < Duration::from_millis(300) {
            std::thread::yield_now();
        }
        let nobody_was_told = self.1.failures.load(Ordering::SeqCst) == 0;
        let are_both = waiting.load(Ordering::SeqCst) == 2 && nobody_was_told;
        let is_told = std::thread::current().name() == Some(told);
        if if are_both { is_told } else { nobody_was_told } {
            // So that both have decided.
            std::thread::sleep(Duration::from_millis(20));
            self.1.failures.fetch_add(1, Ordering::SeqCst);
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }
}

fn what_was_acknowledged_stays_if_one_of_two_syncs_is_told_of_a_failure(told: &'static str) {
    let node = Node::new();
    let hooks = [1, 2, 3].map(|_| Arc::new(Hook::default()));
    let directory = |at: usize| {
        let path = if at == 0 { node.journal() } else { node.log_of(at as u32) };
        HookedDirectory(LogFiles::at(&path), Arc::clone(&hooks[at]))
    };
    let mut journal = Journal::create_in(&directory(0), CLUSTER, JOURNAL, 5).unwrap();
    let mut logs = [1, 2].map(|at| {
        let identity = Node::identity(at as u32);
        Log::create_in(&directory(at), identity, LogOptions::default(), 90 + at as u64).unwrap()
    });
    journal.prepare().unwrap();
    let write = |logs: &mut [Log<HookedDirectory>], record: &[u8]| -> Vec<Unsynced<HookedDirectory>> {
        let write = |log: &mut Log<HookedDirectory>| {
            log.append(record);
            log.write_later().unwrap().unwrap()
        };
        logs.iter_mut().map(write).collect()
    };
    assert_eq!(journal.commit(write(&mut logs, b"one")).together.len(), 2);
    assert_eq!(logs[0].durable(), logs[0].end());
    let settling = journal.begin_settling().unwrap();
    // The log is alone in this turn.
    let Committed { alone, .. } = journal.commit(write(&mut logs[..1], b"two"));
    *hooks[1].together.lock().unwrap() = Some((Arc::new(AtomicUsize::new(0)), told));
    let settled = std::thread::scope(|scope| {
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let settler = spawn("settler").spawn_scoped(scope, move || settling.run()).unwrap();
        let syncer = spawn("syncer").spawn_scoped(scope, || alone[0].sync()).unwrap();
        // It may have come first, and then the settler is refused.
        drop(syncer.join().unwrap());
        settler.join().unwrap()
    });
    *hooks[1].together.lock().unwrap() = None;
    assert_eq!(hooks[1].failures.load(Ordering::Relaxed), 1);
    drop(journal.end_settling(settled));
    assert!(journal.release(Node::identity(2).replica, 92).is_ok());
    drop((journal, logs, alone));
    // Writes that the failed sync has not written are lost with the power.
    node.lose(1, 1);
    node.replayed();
    assert_eq!(node.records(1).unwrap().first().unwrap(), "one", "what was acknowledged is lost");
}

#[test]
fn what_was_acknowledged_stays_if_the_own_sync_is_told_of_a_failure() {
    what_was_acknowledged_stays_if_one_of_two_syncs_is_told_of_a_failure("syncer");
}

#[test]
fn what_was_acknowledged_stays_if_the_settler_is_told_of_a_failure() {
    what_was_acknowledged_stays_if_one_of_two_syncs_is_told_of_a_failure("settler");
}
