//! Transactions that are procedures: clients that run them one after the other, each in one round or as an interactive transaction.
//!
//! ```text
//!   client: key in ──► draw ──► call at the shards, or fetch and call here ──► think ──► …
//! ```

mod course;
mod report;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use quorate::{Call, Database, Error, Keyspace, Receipt, Refusal};
use quorate_core::Random;
use quorate_load::{Costs, Ended, Tally, transact};
use quorate_procedure::Procedure;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::social::Site;
use crate::exit::Failure;
use crate::output::Progress;
pub(super) use course::{Course, Homes};
pub(super) use report::Common;
use report::Setting;

/// A transaction that a client is about to run.
pub(super) struct Drawn {
    /// Its name.
    pub(super) kind: &'static str,
    pub(super) how: How,
    /// True if more than one shard takes part.
    pub(super) is_distributed: bool,
    /// True if it touches more than the home of its client.
    pub(super) is_remote: bool,
    /// How long its user takes to key it in, before it begins.
    pub(super) keying: Duration,
    /// How long its user thinks about what came of it.
    pub(super) thinking: Duration,
}

/// How a transaction is run.
pub(super) enum How {
    /// At the shards that take part.
    InOneRound(Call),
    /// Here, over what an interactive transaction reads.
    Interactive { procedure: &'static (dyn Procedure + Sync), arguments: Vec<u8> },
}

/// Where transactions come from.
pub(super) trait Source: Send + Sync + 'static {
    /// The next transaction of a client.
    fn draw(&self, seat: &Seat, random: &mut Random) -> Drawn;

    /// True if a procedure refuses for this reason because the workload wants it to.
    fn is_intended(&self, reason: &[u8]) -> bool;
}

/// Where a client sits.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) keyspace: Keyspace,
    /// The number of the warehouse or market that it is at home at.
    pub(super) home: u32,
}

/// Where everything is at home: at one of several sites, or wherever the keyspace is.
pub(super) struct Places {
    /// The keyspace as each site has it.
    keyspaces: Vec<Keyspace>,
    /// The numbers of what is at home, by the position of the site.
    homes: Vec<Vec<u32>>,
}

impl Places {
    /// Looks where each of these numbers is at home: where the shard of its key stands.
    ///
    /// # Errors
    /// A site does not know the keyspace.
    pub(super) async fn new(
        keyspace: &Keyspace,
        sites: &[Site],
        numbers: impl Iterator<Item = (u32, Vec<u8>)>,
    ) -> Result<Self, Failure> {
        let (mut keyspaces, mut shards) = (Vec::new(), Vec::new());
        for site in sites {
            let known = site.keyspace(keyspace.name()).await?;
            shards.push(site.shards_here(&known));
            keyspaces.push(known);
        }
        if keyspaces.is_empty() {
            keyspaces.push(keyspace.clone());
        }
        let mut homes = vec![Vec::new(); keyspaces.len()];
        for (number, key) in numbers {
            let shard = keyspace.definition().shard_of(&key).id;
            let site = shards.iter().position(|here| here.contains(&shard)).unwrap_or_default();
            homes[site].push(number);
        }
        Ok(Places { keyspaces, homes })
    }

    /// The keyspace as the site has it where a number is at home.
    pub(super) fn of(&self, number: u32) -> &Keyspace {
        let site = self.homes.iter().position(|homes| homes.contains(&number)).unwrap_or_default();
        &self.keyspaces[site]
    }

    /// Seats for clients, the same number at each site that is loaded, at what is at home there; where nothing is, at anything.
    pub(super) fn seats(&self, seating: &Seating) -> Vec<Seat> {
        let sites = seating.loaded.unwrap_or(usize::MAX).clamp(1, self.keyspaces.len());
        let all = self.homes.concat();
        let seat = |client: usize| {
            let (site, at) = (client % sites, client / sites);
            let homes = if self.homes[site].is_empty() { &all } else { &self.homes[site] };
            Seat { keyspace: self.keyspaces[site].clone(), home: homes[at % homes.len()] }
        };
        (0..seating.clients as usize).map(seat).collect()
    }
}

/// The state that the clients share.
struct Shared {
    source: Arc<dyn Source>,
    counts: Mutex<Counts>,
}

/// The counts of a run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) all: Tally,
    /// Transactions that were refused as the workload wants it.
    rolled_back: u64,
    distributed: u64,
    remote: u64,
    /// How often the interactive ones have fetched something.
    fetches: u64,
    /// Latencies in microseconds.
    by_kind: BTreeMap<&'static str, Histogram<u64>>,
}

/// The clients of a workload.
#[derive(Clone, Debug)]
pub(super) struct Seating {
    pub(super) clients: u64,
    /// At how many sites there are clients; none has them at all.
    pub(super) loaded: Option<usize>,
    /// Of the times to key in and to think that the benchmark specifies, so much is spent.
    pub(super) think_percent: u32,
    /// How long they are measured.
    pub(super) seconds: u64,
    /// How many replicas each shard has.
    pub(super) replicas: usize,
}

impl Seating {
    /// So much of a time in milliseconds as is spent of it.
    pub(super) fn part_of(&self, millis: u32) -> Duration {
        Duration::from_millis(u64::from(millis)) * self.think_percent / 100
    }
}

/// The time in microseconds; not zero.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// Seats clients, measures them, and waits until what they have done is visible everywhere. A cycle is as long as a transaction takes with
/// all times of its user, on average: the clients begin spread over that time.
async fn measure(
    source: Arc<dyn Source>,
    seats: Vec<Seat>,
    cycle: Duration,
    (db, connections): (&Database, &[&Database]),
    seconds: u64,
    progress: &Progress,
) -> Result<(Counts, Costs), Failure> {
    let shared = Arc::new(Shared { source, counts: Mutex::default() });
    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    for (number, seat) in seats.into_iter().enumerate() {
        // The generators of neighbouring numbers are neighbours; those that they fork are not.
        let mut random = Random::new(2 + number as u64).fork();
        let idle = cycle.mul_f64(random.unit());
        let client = Client { seat, shared: Arc::clone(&shared), stopped: stopped.clone(), last: None };
        clients.spawn(client.run(idle, random));
    }
    let look = |_| Ok(shared.with_counts(|counts| (counts.all.committed, counts.all.trouble.clone())));
    let take = || shared.with_counts(std::mem::take);
    let measured = super::measure_with(db, connections, seconds, progress, take, look).await;
    stop.send_replace(true);
    let mut receipts = Vec::new();
    while let Some(ended) = clients.join_next().await {
        receipts
            .extend(ended.map_err(|panicked| Failure::failed(format!("a client has ended: {panicked}")))?);
    }
    progress.now("waiting until everything is visible everywhere");
    for receipt in receipts {
        receipt.visible().await?;
    }
    let (counts, costs) = measured?;
    super::say_trouble(&counts.all, progress);
    Ok((counts, costs))
}

struct Client {
    seat: Seat,
    shared: Arc<Shared>,
    stopped: watch::Receiver<bool>,
    /// The commit of the transaction that it has run last.
    last: Option<Receipt>,
}

impl Client {
    /// Runs one transaction after the other until it is told to stop; gives the last commit.
    async fn run(mut self, idle: Duration, mut random: Random) -> Option<Receipt> {
        self.rest(idle).await;
        while !*self.stopped.borrow() {
            let drawn = self.shared.source.draw(&self.seat, &mut random);
            self.rest(drawn.keying).await;
            if *self.stopped.borrow() {
                break;
            }
            let pause = self.transact(&drawn).await;
            self.rest(pause.unwrap_or_default() + drawn.thinking).await;
        }
        self.last
    }

    /// Waits, unless it is told to stop.
    async fn rest(&mut self, time: Duration) {
        if time > Duration::ZERO {
            // An error says that nobody is left to tell it to stop, and it ends with the loop.
            drop(tokio::time::timeout(time, self.stopped.wait_for(|stopped| *stopped)).await);
        }
    }

    /// Runs one transaction, and says how long to wait before the next, if at all.
    async fn transact(&mut self, drawn: &Drawn) -> Option<Duration> {
        let began = Instant::now();
        let result = match &drawn.how {
            How::InOneRound(call) => self.seat.keyspace.call(call.clone()).await.map(|answers| Ran {
                refusal: None,
                receipt: answers.receipt,
                fetches: 0,
            }),
            How::Interactive { procedure, arguments } => {
                let transacted = transact(&self.seat.keyspace, *procedure, arguments).await;
                transacted.map(|transacted| Ran {
                    refusal: match transacted.ended {
                        Ended::Done(_) => None,
                        Ended::Refused(reason) => Some(reason),
                    },
                    receipt: transacted.receipt,
                    fetches: transacted.fetches,
                })
            }
        };
        let took = began.elapsed();
        if let Ok(ran) = &result {
            self.last = Some(ran.receipt.clone());
        }
        self.shared.count(drawn, took, result)
    }
}

/// A transaction that was run to its end.
struct Ran {
    /// The reason for which its procedure has refused; none if it has done its work.
    refusal: Option<Vec<u8>>,
    receipt: Receipt,
    fetches: u32,
}

impl Shared {
    fn with_counts<R>(&self, look: impl FnOnce(&mut Counts) -> R) -> R {
        look(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self, drawn: &Drawn, took: Duration, result: Result<Ran, Error>) -> Option<Duration> {
        /// How long to wait before a cluster that refused is asked again.
        const PAUSE: Duration = Duration::from_millis(50);
        const LATENCY_US_MAX: u64 = 60_000_000;
        self.with_counts(|counts| {
            let refusal = match &result {
                Ok(ran) => ran.refusal.clone(),
                Err(Error::Refused { refusal, .. }) => match &**refusal {
                    Refusal::Procedure { reason } => Some(reason.to_vec()),
                    _ => None,
                },
                Err(_) => None,
            };
            let is_intended = refusal.as_ref().is_some_and(|reason| self.source.is_intended(reason));
            counts.rolled_back += u64::from(is_intended);
            match result {
                Ok(ran) => {
                    counts.all.aborted += u64::from(ran.receipt.attempts.saturating_sub(1));
                    counts.fetches += u64::from(ran.fetches);
                    if let Some(reason) = refusal.filter(|_| !is_intended) {
                        counts.all.refused += 1;
                        counts.all.trouble = Some(String::from_utf8_lossy(&reason).into_owned());
                        return Some(PAUSE);
                    }
                }
                Err(_) if is_intended => {}
                Err(Error::Conflict) => {
                    counts.all.aborted += 1;
                    return None;
                }
                Err(Error::Unknown { .. }) => {
                    counts.all.unknown += 1;
                    return None;
                }
                Err(error) => {
                    counts.all.refused += 1;
                    let pause = match &error {
                        Error::Overloaded { retry_after } => *retry_after,
                        _ => PAUSE,
                    };
                    counts.all.trouble = Some(error.to_string());
                    return Some(pause);
                }
            }
            counts.all.on_commit(took, took, None, true);
            counts.distributed += u64::from(drawn.is_distributed);
            counts.remote += u64::from(drawn.is_remote);
            let latencies = counts.by_kind.entry(drawn.kind).or_insert_with(|| {
                Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are valid")
            });
            latencies.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            None
        })
    }
}
