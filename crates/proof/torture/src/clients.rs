//! The clients of the cluster under torture: one process's worth of them for each site, each on a thread of its own.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quorate::{Database, Keyspace};
use quorate_cluster::Failure;
use quorate_load::{Commits, DoorLoad, HistoryLog, Ledger, Load, Tally};
use quorate_workloads::Parameters;
use tokio::sync::oneshot;

use super::network::site_name;

/// How long a transaction may take, with all its attempts.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long one of the last reads may take: everything serves by then, and what is judged is what it says, not how soon.
const FINAL_DEADLINE: Duration = Duration::from_secs(60);

/// How long clients that cannot connect wait before they try again.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// The work of all clients.
#[derive(Clone)]
pub(crate) struct Task {
    /// Any nodes of the cluster.
    pub(crate) addresses: Vec<String>,
    /// How a client connects, beside its site and its patience.
    pub(crate) client: quorate::Options,
    /// The keyspace.
    pub(crate) keyspace: String,
    /// The parameters that they draw their transactions from.
    pub(crate) parameters: Parameters,
    /// How many transactions the clients of one site have in flight.
    pub(crate) in_flight: u64,
    /// Where they record what they saw.
    pub(crate) history: HistoryLog,
    /// The doors that they go through; none if they are native clients.
    pub(crate) doors: Option<Doors>,
    /// The seed that they draw with.
    pub(crate) seed: u64,
}

/// The doors of all nodes.
#[derive(Clone)]
pub(crate) struct Doors {
    /// The address of each.
    pub(crate) listen: Vec<String>,
    /// The writes that were acknowledged there, beside the history.
    pub(crate) ledger: Ledger,
}

/// The clients of all sites.
pub(crate) struct Clients {
    task: Arc<Task>,
    sites: Vec<Site>,
    /// The number of the next client that begins.
    next: u64,
    /// How many generations of keys were touched by clients that are gone.
    generations: u64,
    /// The outcomes of those.
    tally: Tally,
}

/// The clients of one site.
struct Site {
    commits: Commits,
    running: Option<Running>,
}

/// Clients that run on a thread of their own.
struct Running {
    /// Without a word, they vanish.
    farewell: oneshot::Sender<()>,
    thread: JoinHandle<Result<Ended, Failure>>,
}

/// The outcomes of clients.
#[derive(Default)]
struct Ended {
    tally: Tally,
    generations: u64,
}

impl Clients {
    /// Starts the clients of so many sites.
    pub(crate) fn start(task: Task, sites: usize) -> Result<Clients, Failure> {
        let sites = (0..sites).map(|_| Site { commits: Commits::default(), running: None }).collect();
        let mut clients =
            Clients { task: Arc::new(task), sites, next: 0, generations: 0, tally: Tally::default() };
        for site in 0..clients.sites.len() {
            clients.start_site(site)?;
        }
        Ok(clients)
    }

    /// Starts new clients in a site, if there are none.
    pub(crate) fn start_site(&mut self, site: usize) -> Result<(), Failure> {
        if self.sites[site].running.is_some() {
            return Ok(());
        }
        let (farewell, said) = oneshot::channel();
        let (task, commits) = (Arc::clone(&self.task), self.sites[site].commits.clone());
        let (first, generations) = (self.next, self.generations);
        self.next += self.task.in_flight;
        let name = format!("clients of {}", site_name(site));
        let thread = std::thread::Builder::new().name(name);
        let live = move || live(&task, site, first, generations, commits, said);
        let thread = thread.spawn(live).map_err(Failure::failed)?;
        self.sites[site].running = Some(Running { farewell, thread });
        Ok(())
    }

    /// Lets the clients of a site vanish in the middle of whatever they do. False if there are none.
    pub(crate) fn vanish(&mut self, site: usize) -> Result<bool, Failure> {
        let Some(Running { farewell, thread }) = self.sites[site].running.take() else { return Ok(false) };
        drop(farewell);
        self.take(thread)?;
        Ok(true)
    }

    /// Lets all clients end their transactions, and waits for that.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        let mut threads = Vec::new();
        for Running { farewell, thread } in self.sites.iter_mut().filter_map(|site| site.running.take()) {
            // Clients that have ended by themselves do not listen; their thread tells why.
            let _ = farewell.send(());
            threads.push(thread);
        }
        threads.into_iter().try_for_each(|thread| self.take(thread))
    }

    fn take(&mut self, thread: JoinHandle<Result<Ended, Failure>>) -> Result<(), Failure> {
        let ended = thread.join().map_err(|_| Failure::failed("the thread of a client has panicked"))??;
        self.tally.add(&ended.tally);
        self.generations = self.generations.max(ended.generations);
        Ok(())
    }

    /// The outcomes of the clients that have ended.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// When transactions have committed, over all sites, ascending.
    pub(crate) fn commits(&self) -> Vec<Instant> {
        let mut all: Vec<_> =
            self.sites.iter().flat_map(|site| site.commits.with(<[Instant]>::to_vec)).collect();
        all.sort_unstable();
        all
    }

    /// For each site, whether its clients have committed anything since then.
    pub(crate) fn have_committed_since(&self, since: Instant) -> Vec<bool> {
        let has = |commits: &[Instant]| commits.last().is_some_and(|last| *last > since);
        self.sites.iter().map(|site| site.commits.with(has)).collect()
    }

    /// In how many sites there are clients.
    pub(crate) fn sites(&self) -> usize {
        self.sites.len()
    }

    /// Connects as the clients of a site do.
    pub(crate) async fn connect(&self, site: usize) -> Result<(Database, Keyspace), Failure> {
        connect(&self.task, site).await
    }

    /// Reads all keys of all generations once more, from a site, as the last transactions of the history. Gives how many of these
    /// transactions there were to be, and what they came to.
    pub(crate) async fn read_everything(&self, keyspace: Keyspace, site: String) -> (u64, Tally) {
        if let Some(doors) = &self.task.doors {
            let load = door_load(&self.task, doors, 0, self.next, self.generations, Commits::default());
            let (wanted, committed) = load.read_everything().await;
            let mut tally = Tally::default();
            tally.committed = committed;
            return (wanted, tally);
        }
        let keyspace = keyspace.with_deadline(FINAL_DEADLINE);
        let load = load(&self.task, keyspace, site, self.next, self.generations, Commits::default());
        let running = Load { clients: 0, ..load }.start();
        (running.final_reads(), running.stop().await)
    }
}

fn load(
    task: &Task,
    keyspace: Keyspace,
    site: String,
    first_client: u64,
    generations: u64,
    commits: Commits,
) -> Load {
    Load {
        keyspace,
        parameters: task.parameters.clone(),
        clients: task.in_flight,
        first_client,
        site,
        round_trip: None,
        history: Some(task.history.clone()),
        seed: task.seed,
        drawn: 0,
        generations,
        commits: Some(commits),
        reads_at_once: false,
        stale: None,
        speculates: false,
    }
}

fn door_load(
    task: &Task,
    doors: &Doors,
    site: usize,
    first_client: u64,
    generations: u64,
    commits: Commits,
) -> DoorLoad {
    DoorLoad {
        doors: doors.listen.clone(),
        first_door: site,
        parameters: task.parameters.clone(),
        clients: task.in_flight,
        first_client,
        site: site_name(site),
        history: task.history.clone(),
        ledger: doors.ledger.clone(),
        seed: task.seed,
        generations,
        commits,
    }
}

/// The life of the clients of one site.
fn live(
    task: &Task,
    site: usize,
    first: u64,
    generations: u64,
    commits: Commits,
    farewell: oneshot::Receiver<()>,
) -> Result<Ended, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
    let ended = runtime.block_on(run(task, site, first, generations, commits, farewell));
    // A transaction that is under way ends here, without a word to anybody.
    runtime.shutdown_background();
    ended
}

async fn run(
    task: &Task,
    site: usize,
    first: u64,
    generations: u64,
    commits: Commits,
    mut farewell: oneshot::Receiver<()>,
) -> Result<Ended, Failure> {
    if let Some(doors) = &task.doors {
        let mut running = door_load(task, doors, site, first, generations, commits).start();
        if farewell.await.is_ok() {
            running.end().await;
        }
        return Ok(Ended { tally: running.take_tally(), generations: running.generations() });
    }
    let (db, keyspace) = tokio::select! {
        _ = &mut farewell => return Ok(Ended::default()),
        connected = connect(task, site) => connected?,
    };
    let load = load(task, keyspace, site_name(site), first, generations, commits);
    // Both ways to read are under fire, and meet each other.
    let mut running = Load { reads_at_once: site % 2 == 1, ..load }.start();
    let ends_well = farewell.await.is_ok();
    if ends_well {
        running.end().await;
    }
    let ended = Ended { tally: running.take_tally(), generations: running.generations() };
    if ends_well {
        db.close().await;
    }
    Ok(ended)
}

/// Connects, as often as it takes.
async fn connect(task: &Task, site: usize) -> Result<(Database, Keyspace), Failure> {
    loop {
        let options = quorate::Options {
            site: Some(site_name(site)),
            connect_timeout: Duration::from_secs(1),
            deadline: DEADLINE,
            ..task.client.clone()
        };
        let failed = match quorate::connect_with(task.addresses.clone(), options).await {
            Ok(db) => match db.keyspace(&task.keyspace).await {
                Ok(keyspace) => return Ok((db, keyspace)),
                Err(error) => error,
            },
            Err(error) => error,
        };
        if !matches!(failed, quorate::Error::Connect { .. } | quorate::Error::Unknown { .. })
            && !failed.is_retryable()
        {
            return Err(failed.into());
        }
        tokio::time::sleep(CONNECT_PAUSE).await;
    }
}
