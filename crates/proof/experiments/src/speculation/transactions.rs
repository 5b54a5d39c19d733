//! The transactions of sessions, step by step: keys that are read and updated, or procedures over what was read.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Event};
use quorate_core::topology::shard_position;
use quorate_core::{Key, KeyRange, Random, TransactionId, Value};
use quorate_procedure::Procedure;
use quorate_procedure::fetched::{Attempt, Called, NeededRange, Needs};
use quorate_rubis::key::Id;
use quorate_rubis::population::{nickname, password};
use quorate_rubis::{Interaction, Rubis};
use quorate_tpcc::generator::Generator;
use quorate_tpcc::{Tpcc, Transaction as Order};
use quorate_workloads::operation::Operation;
use quorate_workloads::social::{Homes, Place};
use quorate_workloads::thinking::exponential;
use quorate_workloads::{Parameters, Workload};

use super::population::{FIRST, Population};

/// The application that the sessions of every node run.
#[derive(Clone, Debug)]
pub enum Application {
    /// Keys of a hotspot, without a thought in between.
    Hotspot(Parameters),
    /// TPC-C, with times to key in and to think.
    Trade(Trade),
    /// RUBiS, with times to think.
    Auction(Auction),
}

/// TPC-C over so many warehouses at each node.
#[derive(Clone, Debug)]
pub struct Trade {
    /// Draws transactions.
    pub generator: Generator,
    /// The rows at first.
    pub population: Population,
    /// Warehouses of each node.
    pub warehouses_per_node: usize,
}

/// RUBiS over a market at each node.
#[derive(Clone, Debug)]
pub struct Auction {
    /// Draws interactions.
    pub generator: quorate_rubis::Generator,
    /// The rows at first.
    pub population: Population,
}

/// A transaction, with what it is asked to do.
pub struct Drawn {
    pub(super) work: Arc<Work>,
    /// How long the user keys it in.
    pub(super) keys_in: Duration,
    /// How long the user thinks about its result.
    pub(super) thinks: Duration,
}

/// The work of a transaction.
pub(super) enum Work {
    /// To read these keys, all at once, and to write them.
    Update(Vec<Key>),
    /// To do what a procedure does.
    Call(Calling),
}

/// A call of a procedure.
pub(super) struct Calling {
    procedure: &'static (dyn Procedure + Sync),
    arguments: Vec<u8>,
    population: Population,
}

/// Draws transactions for the session of every node.
pub(super) struct Draw {
    application: Application,
    nodes: usize,
    /// For the sessions of each node.
    workloads: Vec<Workload>,
    /// Orders are numbered by when they were drawn.
    now: u64,
}

impl Draw {
    pub(super) fn new(application: &Application, nodes: usize) -> Self {
        let at = |parameters: &Parameters, node: usize| {
            let place = Place { homes: Homes::Hashed(nodes), here: vec![node], away: 0.0 };
            Workload::new(Parameters { place, ..parameters.clone() })
        };
        let workloads = match application {
            Application::Hotspot(parameters) => (0..nodes).map(|node| at(parameters, node)).collect(),
            Application::Trade(_) | Application::Auction(_) => Vec::new(),
        };
        Draw { application: application.clone(), nodes, workloads, now: 0 }
    }

    /// The next transaction of a session of a node.
    pub(super) fn draw(&mut self, node: usize, place: usize, random: &mut Random) -> Drawn {
        match &self.application {
            Application::Hotspot(_) => {
                let plan = self.workloads[node].draw(random);
                let keys = plan.operations.iter().filter_map(Operation::key_written).cloned();
                let work = Arc::new(Work::Update(keys.collect()));
                Drawn { work, keys_in: Duration::ZERO, thinks: Duration::ZERO }
            }
            Application::Trade(trade) => {
                self.now += 1;
                let home = trade.population.place(node, place % trade.warehouses_per_node, self.nodes);
                let order = trade.generator.next_at(&mut || random.next_u64(), home, self.now);
                Drawn {
                    keys_in: millis(order.keying_ms()),
                    thinks: exponential(millis(order.thinking_ms()), random),
                    work: Arc::new(Work::of_order(&order, trade.population.clone())),
                }
            }
            Application::Auction(auction) => {
                self.now += 1;
                let home = auction.population.place(node, 0, self.nodes);
                let drawn = auction.generator.next_at(&mut || random.next_u64(), home, self.now);
                let interaction = of_first_population(drawn);
                let arguments = interaction.arguments(&interaction.markets());
                let population = auction.population.clone();
                Drawn {
                    keys_in: Duration::ZERO,
                    thinks: millis(interaction.kind().thinking_ms()),
                    work: Arc::new(Work::Call(Calling { procedure: &Rubis, arguments, population })),
                }
            }
        }
    }
}

impl Work {
    fn of_order(order: &Order, population: Population) -> Self {
        let arguments = order.arguments(&order.warehouses());
        Work::Call(Calling { procedure: &Tpcc, arguments, population })
    }
}

fn millis(millis: u32) -> Duration {
    Duration::from_millis(u64::from(millis))
}

/// The same interaction of the user that has this number at the first market: at first all markets have the rows of that one, with its nicknames.
fn of_first_population(mut interaction: Interaction) -> Interaction {
    let login = match &mut interaction {
        Interaction::BuyNow { login, .. }
        | Interaction::PutBid { login, .. }
        | Interaction::PutComment { login, .. }
        | Interaction::SelectCategoryToSellItem { login }
        | Interaction::AboutMe { login } => login,
        _ => return interaction,
    };
    let prefix_of = |market| {
        let mut name = nickname(Id { market, number: 0 });
        name.pop();
        name
    };
    if let Some(number) = login.nickname.strip_prefix(&prefix_of(login.market)[..]) {
        login.nickname = [&prefix_of(FIRST)[..], number].concat();
        login.password = password(&login.nickname);
    }
    interaction
}

/// A key of each of so many shards.
pub(super) fn key_of_each(shards: usize) -> Vec<Key> {
    let mut keys: BTreeMap<usize, Key> = BTreeMap::new();
    for number in 0u64.. {
        if keys.len() == shards {
            break;
        }
        let key = Key::from(format!("{{first{number}}}"));
        keys.entry(shard_position(&key, shards)).or_insert(key);
    }
    keys.into_values().collect()
}

/// An attempt at a transaction.
pub(super) struct Running {
    work: Arc<Work>,
    attempt: Attempt,
    /// Keys that were asked for, and not answered.
    missing: usize,
    /// Ranges that are to be read, the first of which was asked for.
    ranges: VecDeque<NeededRange>,
    /// The pairs that were read of the first one.
    found: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for what it reads.
    Reads,
    /// All is written, and it is to commit.
    Commits,
    /// It cannot go on from what it has read.
    Fails,
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl Running {
    /// An attempt that has not begun.
    pub(super) fn new(work: Arc<Work>) -> Self {
        let (attempt, ranges, found) = (Attempt::default(), VecDeque::new(), BTreeMap::new());
        Running { work, attempt, missing: 0, ranges, found }
    }

    /// Begins it.
    pub(super) fn begin(&mut self, transaction: TransactionId, say: &mut dyn FnMut(Command)) -> Step {
        match &*Arc::clone(&self.work) {
            Work::Update(keys) => {
                self.missing = keys.len();
                say(Command::GetMany { transaction, keys: keys.clone() });
                Step::Reads
            }
            Work::Call(call) => self.call(call, transaction, say),
        }
    }

    /// Goes on with what was read.
    pub(super) fn on_event(&mut self, event: Event, say: &mut dyn FnMut(Command)) -> Step {
        let work = Arc::clone(&self.work);
        match (event, &*work) {
            (Event::Got { transaction, .. }, Work::Update(keys)) => {
                self.missing -= 1;
                if self.missing > 0 {
                    return Step::Reads;
                }
                for key in keys {
                    let value = Some(Value::from_static(&[b'v'; VALUE_BYTES]));
                    say(Command::Put { transaction, key: key.clone(), value });
                }
                Step::Commits
            }
            (Event::Got { transaction, key, value }, Work::Call(call)) => {
                let key = call.population.known(&key);
                let value = value.map(|value| value.to_vec()).or_else(|| call.population.value(&key));
                self.attempt.found(key, value);
                self.missing -= 1;
                self.go_on(call, transaction, say)
            }
            (Event::Scanned { transaction, entries, next }, Work::Call(call)) => {
                let known = |(key, value): (Key, Value)| (call.population.known(&key), value.to_vec());
                self.found.extend(entries.into_iter().map(known));
                match (next, self.ranges.front()) {
                    (Some(from), Some(range)) => {
                        let to = Some(Key::from(call.population.stored(&range.to)));
                        say(Command::Scan { transaction, range: KeyRange { from, to }, limit: u32::MAX });
                        return Step::Reads;
                    }
                    (None, Some(_)) => self.end_range(call, transaction, say),
                    (_, None) => return Step::Reads,
                }
                self.go_on(call, transaction, say)
            }
            _ => Step::Reads,
        }
    }

    /// A range was read to its end.
    fn end_range(&mut self, call: &Calling, transaction: TransactionId, say: &mut dyn FnMut(Command)) {
        let Some(NeededRange { from, to, .. }) = self.ranges.pop_front() else { return };
        let mut pairs = call.population.range(&from, &to);
        pairs.append(&mut self.found);
        self.attempt.found_range(from, to, pairs);
        self.scan(call, transaction, say);
    }

    fn scan(&self, call: &Calling, transaction: TransactionId, say: &mut dyn FnMut(Command)) {
        if let Some(range) = self.ranges.front() {
            let [from, to] = [&range.from, &range.to].map(|key| Key::from(call.population.stored(key)));
            say(Command::Scan { transaction, range: KeyRange { from, to: Some(to) }, limit: u32::MAX });
        }
    }

    fn go_on(&mut self, call: &Calling, transaction: TransactionId, say: &mut dyn FnMut(Command)) -> Step {
        match self.missing == 0 && self.ranges.is_empty() {
            true => self.call(call, transaction, say),
            false => Step::Reads,
        }
    }

    fn call(&mut self, call: &Calling, transaction: TransactionId, say: &mut dyn FnMut(Command)) -> Step {
        let writes = match self.attempt.next(call.procedure, &call.arguments) {
            Called::Misses(Needs { keys, ranges }) => {
                (self.missing, self.ranges) = (keys.len(), ranges.into());
                if !keys.is_empty() {
                    let keys = keys.iter().map(|key| Key::from(call.population.stored(key))).collect();
                    say(Command::GetMany { transaction, keys });
                }
                self.scan(call, transaction, say);
                return Step::Reads;
            }
            Called::Done { writes, .. } => writes,
            // It has read what makes it refuse, and that has to be so.
            Called::Refused(_) => Vec::new(),
            Called::Stopped(_) => return Step::Fails,
        };
        for (key, value) in writes {
            let (key, value) = (Key::from(call.population.stored(&key)), value.map(Value::from));
            say(Command::Put { transaction, key, value });
        }
        Step::Commits
    }
}

/// The length of a value that is written to a key of a hotspot.
const VALUE_BYTES: usize = 100;
