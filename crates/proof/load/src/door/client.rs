//! One client: a connection to one door, and one transaction after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quorate_core::Random;
use quorate_workloads::{UniqueValues, Workload};
use tokio::time::timeout;

use super::Shared;
use super::link::{End, Link};
use super::transaction::{Transaction, Understood};
use crate::client::REFUSED_PAUSE;

/// How long a client waits for a reply. Then it takes its connection for broken.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client waits before it connects again.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// How long the last reads may take: everything serves by then.
const FINAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs transactions until it is told to stop.
pub(super) async fn run(shared: Arc<Shared>, number: u64) {
    let load = &shared.load;
    let number = load.first_client + number;
    let mut client = Client::new(&shared, number);
    let mut random = Random::new(load.seed.wrapping_add(number)).fork();
    let mut workload = Workload::new(load.parameters.clone());
    while workload.generations() < load.generations {
        drop(workload.draw(&mut random));
    }
    while !shared.stop.load(Ordering::Relaxed) {
        // The generation of the plan, give or take one.
        let generation = workload.generations().saturating_sub(2);
        let plan = workload.draw(&mut random);
        shared.generations.fetch_max(workload.generations(), Ordering::Relaxed);
        let transaction = Transaction::draw(&plan, generation, &mut client.unique, &mut random);
        if let Some(pause) = client.run(&transaction).await {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Reads all that clients have touched once more, when nothing else is under way, and has the ledger look at it. Gives how many of these reads there were
/// to be, and how many were done.
pub(super) async fn read_everything(shared: &Shared) -> (u64, u64) {
    let load = &shared.load;
    let (workload, deadline) = (Workload::new(load.parameters.clone()), Instant::now() + FINAL_TIMEOUT);
    let mut client = Client::new(shared, load.first_client);
    let (wanted, mut done) = (shared.generations.load(Ordering::Relaxed), 0);
    for generation in 0..wanted {
        let transaction = Transaction::of_everything(&workload.universe(generation), generation);
        // A write that was acknowledged elsewhere may be a moment away where this client reads.
        let mut missing = Vec::new();
        while Instant::now() < deadline {
            let Some(understood) = client.read(&transaction).await else {
                tokio::time::sleep(CONNECT_PAUSE).await;
                continue;
            };
            missing = load.ledger.missing(&understood);
            if missing.is_empty() {
                load.ledger.check_repeats(&understood);
                done += 1;
                break;
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
        missing
            .into_iter()
            .for_each(|lost| load.ledger.note(format!("an acknowledged write is lost: {lost}")));
    }
    (wanted, done)
}

struct Client<'a> {
    shared: &'a Shared,
    unique: UniqueValues,
    link: Option<Link>,
    /// Which door it connects to next.
    door: usize,
    /// Which process it is in the history: another one with each connection, which is a session of its own, and after each transaction of whose end it
    /// does not know.
    process: u64,
}

impl<'a> Client<'a> {
    fn new(shared: &'a Shared, number: u64) -> Self {
        let load = &shared.load;
        let (unique, process) = (UniqueValues::new(number), load.history.process());
        Client { shared, unique, link: None, door: load.first_door, process }
    }

    /// Connects to the next door, if it is not connected. False if that door is not open.
    async fn connect(&mut self) -> bool {
        if self.link.is_none() {
            let doors = &self.shared.load.doors;
            self.link = Link::open(&doors[self.door % doors.len()]).await;
            match self.link {
                Some(_) => self.process = self.shared.load.history.process(),
                None => self.door += 1,
            }
        }
        self.link.is_some()
    }

    /// The connection cannot be used any more: the next one is to another door.
    fn disconnect(&mut self) {
        self.link = None;
        self.door += 1;
    }

    async fn carry_out(&mut self, transaction: &Transaction) -> End {
        let Some(link) = &mut self.link else { return End::Lost };
        timeout(REPLY_TIMEOUT, link.carry_out(transaction)).await.unwrap_or(End::LostUnknown)
    }

    /// Runs one transaction, and says how long to wait before the next, if at all.
    async fn run(&mut self, transaction: &Transaction) -> Option<Duration> {
        if !self.connect().await {
            return Some(CONNECT_PAUSE);
        }
        let load = &self.shared.load;
        let announced = transaction.announced();
        // An increment is nothing to a history; the ledger has it.
        let recorded =
            (!announced.is_empty()).then(|| load.history.invoke(self.process, &load.site, announced));
        load.ledger.begin(transaction);
        let began = Instant::now();
        let end = self.carry_out(transaction).await;
        let took = began.elapsed();
        if matches!(end, End::Lost | End::LostUnknown | End::Strange(_)) {
            self.disconnect();
        }
        let understood = match end {
            End::Done(replies) => match transaction.understand(replies) {
                Ok(understood) => Ok(understood),
                Err(strange) => Err(End::Strange(strange)),
            },
            end => Err(end),
        };
        match understood {
            Ok(understood) => {
                load.ledger.acknowledge(transaction, &understood);
                if let Some(recorded) = recorded {
                    load.history.ok(recorded, understood.ops);
                }
                self.shared.tally().on_commit(took, took, None, true);
                load.commits.note();
                None
            }
            Err(end @ (End::Conflict | End::Refused(_) | End::Lost)) => {
                load.ledger.fail(transaction);
                if let Some(recorded) = recorded {
                    load.history.fail(recorded);
                }
                self.count_failure(end)
            }
            Err(end) => {
                if let Some(recorded) = recorded {
                    load.history.info(recorded);
                    self.process = load.history.process();
                }
                self.count_unknown(end)
            }
        }
    }

    /// Counts a transaction that was surely not carried out.
    fn count_failure(&self, end: End) -> Option<Duration> {
        let mut tally = self.shared.tally();
        match end {
            End::Conflict => {
                tally.aborted += 1;
                None
            }
            End::Refused(reason) => {
                tally.refused += 1;
                tally.trouble = Some(reason);
                Some(REFUSED_PAUSE)
            }
            _ => {
                tally.refused += 1;
                Some(CONNECT_PAUSE)
            }
        }
    }

    /// Counts a transaction of whose end nothing is known.
    fn count_unknown(&self, end: End) -> Option<Duration> {
        if let End::Strange(reply) = end {
            self.shared.load.ledger.note(format!("a reply that no door gives: {reply}"));
        }
        self.shared.tally().unknown += 1;
        Some(CONNECT_PAUSE)
    }

    /// Runs a transaction that only reads, and gives what it has read, if that is known.
    async fn read(&mut self, transaction: &Transaction) -> Option<Understood> {
        if !self.connect().await {
            return None;
        }
        let load = &self.shared.load;
        let recorded = load.history.invoke(self.process, &load.site, transaction.announced());
        let end = self.carry_out(transaction).await;
        if let End::Done(replies) = end
            && let Ok(mut understood) = transaction.understand(replies)
        {
            load.history.ok(recorded, std::mem::take(&mut understood.ops));
            return Some(understood);
        }
        // It has written nothing, whether or not it was carried out.
        load.history.fail(recorded);
        self.disconnect();
        None
    }
}
