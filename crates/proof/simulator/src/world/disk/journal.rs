//! The journal of a simulated node, which all its logs share, as those of servers do.
//!
//! ```text
//!   a log ── begin ──▶ record, written ── end ──▶ record, synced: the log is durable
//!                         │                           └── now and then: files are synced, settled
//!                         └── power is lost here: the record is there, or not, or torn
//! ```
//!
//! A server has a thread that gives the journal what many logs have written; here each log has a record of its own, or is synced for itself, by
//! chance or because another record is under way. Records of many logs are tried in the tests beside this.
//!
//! The journal is opened with the first log of a node and dropped with the last one, as the process of a node that ends. A log that fails alone is
//! opened again beside the others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use quorate_core::{Random, ReplicaId};
use quorate_storage::{
    Begun, Committed, Journal, JournalId, JournalOptions, Log, LogError, LogIdentity, LogOptions, Settled,
    Settling, Unsynced, Whereabouts,
};

use super::{Condition, Crash, SimulatedDirectory};

/// Small segments, so that it needs many, and no log is too few.
const OPTIONS: JournalOptions = JournalOptions {
    log: LogOptions { segment_bytes_first: 16 * 1024, segment_bytes_max: 16 * 1024 },
    logs_min: 1,
};

/// So often a log is synced for itself.
const ALONE: f64 = 0.25;

/// So often, of all syncs, the next step of settling is taken: to begin, to sync files, to note that.
const SETTLES: f64 = 0.2;

/// So often a node ends, or cannot write, before it has noted that it has opened its journal.
const FORGETS: f64 = 0.3;

/// The journal of a node. Clones are the same one.
#[derive(Clone, Debug)]
pub struct NodeJournal(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    cluster: u64,
    directory: SimulatedDirectory,
    /// The id by which the node knows it, durably.
    id: JournalId,
    /// Where the replicas of the node have their logs.
    places: BTreeMap<ReplicaId, SimulatedDirectory>,
    random: Random,
    /// The state that ends with the process of the node.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    journal: Journal<SimulatedDirectory>,
    /// How many logs are open.
    logs: usize,
    /// The record that is under way, and by which log, as [`Log::opening`] says.
    begun: Option<(u64, Begun<SimulatedDirectory>)>,
    /// The results of the records of logs that have not asked yet.
    ended: BTreeMap<u64, Committed<SimulatedDirectory>>,
    settling: Option<Settling<SimulatedDirectory>>,
    settled: Option<Settled<SimulatedDirectory>>,
}

impl NodeJournal {
    /// The journal of a node that is down.
    pub fn new(cluster: u64, node: usize, mut random: Random) -> Self {
        let directory = SimulatedDirectory::new(PathBuf::from(format!("/journal-{node}")), random.fork());
        let id = match Journal::create_in(&directory, cluster, OPTIONS, random.next_u64()) {
            Ok(journal) => journal.id(),
            Err(error) => unreachable!("a disk that works refuses a new journal: {error}"),
        };
        NodeJournal(Rc::new(RefCell::new(State {
            cluster,
            directory,
            id,
            places: BTreeMap::new(),
            random,
            running: None,
        })))
    }

    /// A replica of the node has its log here.
    pub(super) fn place(&self, replica: ReplicaId, directory: &SimulatedDirectory) {
        self.0.borrow_mut().places.insert(replica, directory.clone());
    }

    /// Lets a log hold all that it has acknowledged. Comes before it is opened.
    ///
    /// # Errors
    /// The log must not be opened now.
    pub(super) fn release(&self, identity: LogIdentity, log: &SimulatedDirectory) -> Result<(), LogError> {
        let mut state = self.0.borrow_mut();
        let running = state.run()?;
        running.end_record();
        running.settling.take().into_iter().for_each(|settling| running.settled = Some(settling.run()));
        running.end_settling();
        // Segments that are not removed now are removed later.
        let _ = running.journal.settle();
        let incarnation = Log::incarnation_in(log, identity)?;
        let released = running.journal.release(identity.replica, incarnation);
        if released.is_err() && running.logs == 0 {
            // A process that has to be started again, and serves nothing.
            state.running = None;
        }
        released
    }

    /// A log was opened.
    pub(super) fn on_opened(&self) {
        self.0.borrow_mut().running.iter_mut().for_each(|running| running.logs += 1);
    }

    /// A log is not used any more. With the last one the process of the node has ended.
    pub(super) fn on_closed(&self, crash: Crash) {
        let mut state = self.0.borrow_mut();
        let Some(running) = &mut state.running else { return };
        running.logs = running.logs.saturating_sub(1);
        if running.logs == 0 {
            state.running = None;
            if crash == Crash::Power {
                state.directory.lose_power();
            }
        }
    }

    /// Begins to make something durable; gives it back if it is to be synced for itself.
    pub(super) fn begin(
        &self,
        mut unsynced: Unsynced<SimulatedDirectory>,
    ) -> Option<Unsynced<SimulatedDirectory>> {
        let mut state = self.0.borrow_mut();
        let is_alone = state.random.chance(ALONE);
        let Some(running) = &mut state.running else { return Some(unsynced) };
        if is_alone || running.begun.is_some() {
            running.journal.pass(&mut unsynced);
            return Some(unsynced);
        }
        let opening = unsynced.opening();
        running.begun = Some((opening, running.journal.begin(vec![unsynced])));
        None
    }

    /// Ends what was begun.
    ///
    /// # Errors
    /// The log has failed.
    pub(super) fn end(&self, opening: u64) -> Result<(), LogError> {
        let mut state = self.0.borrow_mut();
        let settles = state.random.chance(SETTLES);
        let Some(running) = &mut state.running else { unreachable!("a log is open") };
        if running.begun.as_ref().is_some_and(|(of, _)| *of == opening) {
            running.end_record();
        }
        let Some(Committed { together, alone }) = running.ended.remove(&opening) else {
            unreachable!("the record of a log that is open has been begun")
        };
        let synced = alone.iter().try_for_each(Unsynced::sync);
        let synced =
            synced.and_then(|()| together.iter().try_for_each(|unsynced| unsynced.outcome().map(drop)));
        // Without room each log is synced for itself.
        let _ = running.journal.prepare();
        if settles && running.begun.is_none() {
            running.go_on_settling();
        }
        synced
    }

    /// Sets the condition of the disk from now on.
    pub(super) fn set_condition(&self, condition: Condition) {
        self.0.borrow().directory.set_condition(condition);
    }

    /// True if a loss of power could lose something.
    pub(super) fn is_dirty(&self) -> bool {
        self.0.borrow().directory.is_dirty()
    }

    /// A copy of what it holds, and what the node knows of it.
    pub(super) fn image(&self) -> (SimulatedDirectory, JournalId) {
        let state = self.0.borrow();
        (state.directory.copy(), state.id)
    }

    /// A copy takes its place. The node is down.
    pub(super) fn restore(&self, (directory, id): (SimulatedDirectory, JournalId)) {
        let mut state = self.0.borrow_mut();
        assert!(
            state.running.as_ref().is_none_or(|running| running.logs == 0),
            "disks are replaced while nobody uses them"
        );
        (state.directory, state.id, state.running) = (directory, id, None);
    }
}

impl State {
    /// The process of the node, which begins by opening the journal.
    fn run(&mut self) -> Result<&mut Running, LogError> {
        if self.running.is_none() {
            let place = |replica: ReplicaId| {
                self.places.get(&replica).cloned().map_or(Whereabouts::GivenUp, Whereabouts::Here)
            };
            let (journal, _) = Journal::open_in(&self.directory, self.cluster, OPTIONS, self.id, place)?;
            if !self.random.chance(FORGETS) {
                self.id = journal.id();
            }
            self.running = Some(Running {
                journal,
                logs: 0,
                begun: None,
                ended: BTreeMap::new(),
                settling: None,
                settled: None,
            });
        }
        match &mut self.running {
            Some(running) => Ok(running),
            None => unreachable!("it was opened"),
        }
    }
}

impl Running {
    /// Ends the record that is under way, as the thread that syncs does even if its log was given up.
    fn end_record(&mut self) {
        if let Some((opening, begun)) = self.begun.take() {
            let committed = self.journal.end(begun);
            self.ended.insert(opening, committed);
        }
    }

    /// Takes the next step of settling.
    fn go_on_settling(&mut self) {
        if let Some(settling) = self.settling.take() {
            self.settled = Some(settling.run());
        } else if self.settled.is_some() {
            self.end_settling();
        } else {
            self.settling = self.journal.begin_settling();
        }
    }

    fn end_settling(&mut self) {
        let truncation = self.settled.take().and_then(|settled| self.journal.end_settling(settled));
        // Segments that are not removed now are removed later.
        let _ = truncation.map(quorate_storage::Truncation::run);
    }
}
