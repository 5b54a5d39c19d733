//! A replica on a log of its own.
//!
//! | command | meaning |
//! |---|---|
//! | `c7 #1 get a` | a client asks |
//! | `r1 #1 renewed 1` | another replica speaks, which has nothing to say to this one |
//! | `lead 3`, `depose` | it leads this view from now on; no longer |
//! | `lease 500`, `lease none` | its log has a lease for so long; none |
//! | `closed`, `open` | the log takes nothing, although it is led; takes what it is given |
//! | `stable`, `stable 2` | what was appended is stable; the next two entries |
//! | `stable c7 write 5 0 a=x` | somebody else has led, and this entry is stable |
//! | `confirm 2` | the others confirm that it led when it asked for the second time |
//! | `wait 500` | time passes |
//! | `pages` | what it gives to a replica that lacks entries |
//! | `copy` | another one begins with these pages, and takes its place |
//! | `jump` | its own state takes the place of its state |
//! | `show` | what it holds |
//! | `held` | what its host is told of it |

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quorate_configuration::{Entry, Message, Page, Replica, ReplicaConfig, ReplicaEvent, ReplicaTimer};
use quorate_core::hosted::{Holdings, HostedOnLog};
use quorate_core::log::{Confirmation, Log, LogMachine, LogOutbox, Position};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, Input, Instant, Outbox, Random, ReplicaId,
    ReplicaIndex, ShardId, View,
};

use super::super::describe;
use super::{since_start, words};

/// A log that is stable when it is told to be.
#[derive(Debug, Default)]
struct OwnLog {
    leads: Option<View>,
    is_closed: bool,
    lease_until: Option<Instant>,
    waiting: VecDeque<Entry>,
    told: Vec<String>,
    /// How many confirmations were asked for, and how many are there.
    asked: u64,
    confirmed: u64,
    appended: u64,
}

impl Log<Entry> for OwnLog {
    fn append(&mut self, entry: Entry) -> Option<Position> {
        self.leads.filter(|_| !self.is_closed)?;
        self.told.push(format!("appends {}", describe::entry(&entry)));
        self.waiting.push_back(entry);
        self.appended += 1;
        Some(Position(self.appended))
    }

    fn leading(&self) -> Option<View> {
        self.leads
    }

    fn leader(&self) -> ReplicaIndex {
        ReplicaIndex(if self.leads.is_some() { 0 } else { 2 })
    }

    fn lease_until(&self) -> Option<Instant> {
        self.lease_until
    }

    fn confirm(&mut self) -> Option<Confirmation> {
        self.leads.filter(|_| !self.is_closed)?;
        self.asked += 1;
        self.told.push(format!("asks the others for the {}. time", self.asked));
        Some(Confirmation(self.asked))
    }

    fn has_confirmed(&self, Confirmation(number): Confirmation) -> bool {
        number <= self.confirmed
    }
}

pub(super) struct Alone {
    config: ReplicaConfig,
    replica: Replica,
    log: OwnLog,
    now: Instant,
    timers: BTreeMap<ReplicaTimer, Instant>,
    random: Random,
}

impl Alone {
    /// A replica with these bounds.
    pub(super) fn new(bounds: &[&str]) -> Self {
        let id = ReplicaId { shard: ShardId(0), index: ReplicaIndex(0) };
        let mut config = ReplicaConfig::new(id);
        for bound in bounds {
            let (name, most) = bound.split_once('=').unwrap_or_else(|| panic!("{bound} bounds nothing"));
            let most = words::number(most) as usize;
            match name {
                "bytes" => config.limits.bytes_max = most,
                "leases" => config.limits.leases_max = most,
                "client-leases" => config.limits.leases_of_client_max = most,
                "changes" => config.limits.changes_max = most,
                "change-bytes" => config.limits.changes_bytes_max = most,
                "results" => config.limits.results_max = most as u64,
                "clients" => config.limits.clients_max = most,
                "watches" => config.watches_max = most,
                "client-watches" => config.watches_of_client_max = most,
                "waiting" => config.waiting_max = most,
                "page" => config.scan_page_max = most,
                "page-bytes" => config.page_bytes_max = most,
                _ => panic!("nothing is bounded by {name}"),
            }
        }
        Alone {
            replica: Replica::new(config.clone()),
            config,
            log: OwnLog::default(),
            now: Instant::START,
            timers: BTreeMap::new(),
            random: Random::new(1),
        }
    }

    fn step(
        &mut self,
        act: impl FnOnce(&mut Replica, &mut Context<'_>, &mut OwnLog, &mut LogOutbox<Replica>),
        told: &mut Vec<String>,
    ) {
        let mut outbox = Outbox::new();
        let clock = ClockTime::from_micros(0);
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        act(&mut self.replica, &mut context, &mut self.log, &mut outbox);
        self.replica.assert_invariants();
        self.replica.assert_whole();
        told.append(&mut self.log.told);
        told.extend(outbox.take_ignored().into_iter().map(|reason| format!("✗ {reason}")));
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to: Address::Client(to), message } => {
                    told.push(format!("c{} ← {}", to.0, describe::in_full(&message)));
                }
                Effect::Emit(ReplicaEvent::Leading { view }) => told.push(format!("leads {view}")),
                Effect::Emit(ReplicaEvent::Deposed) => told.push("is deposed".to_owned()),
                Effect::SetTimer { timer, after } => {
                    told.push(looks_after(timer, after));
                    self.timers.insert(timer, self.now + after);
                }
                Effect::CancelTimer(timer) => {
                    told.push(format!("looks after {timer:?} no more"));
                    self.timers.remove(&timer);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn hear(&mut self, from: Address, message: Message, told: &mut Vec<String>) {
        let input = Input::Message { from, epoch: Epoch::FIRST, message };
        self.step(|replica, context, log, outbox| replica.step(context, input, log, outbox), told);
    }

    pub(super) fn command(&mut self, words: &[&str], told: &mut Vec<String>) {
        match *words {
            ["lead", view] => {
                let view = View(words::number(view));
                self.log.leads = Some(view);
                self.step(
                    |replica, context, log, outbox| replica.on_leading(context, view, log, outbox),
                    told,
                );
            }
            ["depose"] => {
                self.log.leads = None;
                self.step(|replica, context, _, outbox| replica.on_deposed(context, outbox), told);
            }
            ["lease", "none"] => self.log.lease_until = None,
            ["lease", lasts] => self.log.lease_until = Some(self.now + words::milliseconds(lasts)),
            ["closed"] => self.log.is_closed = true,
            ["open"] => self.log.is_closed = false,
            ["stable"] => self.settle(usize::MAX, told),
            ["stable", count] => self.settle(words::number(count) as usize, told),
            ["stable", from, ref entry @ ..] => {
                let entry = entry_of(words::client(from), entry);
                self.log.waiting.push_front(entry);
                self.settle(1, told);
            }
            ["confirm", count] => {
                self.log.confirmed = words::number(count);
                self.step(|replica, context, log, outbox| replica.on_progress(context, log, outbox), told);
            }
            ["wait", lasts] => self.wait(self.now + words::milliseconds(lasts), told),
            ["pages"] => told.extend(self.pages().iter().map(describe::page)),
            ["copy"] => {
                let (base, pages) = (self.replica.position(), self.pages());
                self.replica = Replica::new(self.config.clone());
                self.step(|replica, _, _, _| replica.replace_state(base, pages), told);
            }
            ["jump"] => {
                let (base, pages) = (self.replica.position(), self.pages());
                self.step(|replica, _, _, _| replica.replace_state(base, pages), told);
            }
            ["show"] => self.show(told),
            ["held"] => self.tell_held(told),
            [from, ref question @ ..] if from.starts_with('c') => {
                let from = words::client(from);
                self.hear(from.into(), words::question(from, question), told);
            }
            [from, ref said @ ..] if from.starts_with('r') => {
                let from = ReplicaId { shard: ShardId(0), index: words::replica(from) };
                self.hear(from.into(), words::question(ClientId(7), said), told);
            }
            _ => panic!("no such command: {words:?}"),
        }
    }

    fn settle(&mut self, most: usize, told: &mut Vec<String>) {
        for _ in 0..most {
            let Some(entry) = self.log.waiting.pop_front() else { break };
            let position = self.replica.position().next();
            self.step(
                |replica, context, log, outbox| replica.apply(context, position, &entry, log, outbox),
                told,
            );
        }
    }

    fn wait(&mut self, until: Instant, told: &mut Vec<String>) {
        let mut vain: BTreeMap<ReplicaTimer, u32> = BTreeMap::new();
        while let Some((timer, at)) =
            self.timers.iter().map(|(timer, at)| (*timer, *at)).min_by_key(|(_, at)| *at)
            && at <= until
        {
            self.timers.remove(&timer);
            self.now = at;
            let mut lines = Vec::new();
            let input = Input::Timer(timer);
            self.step(|replica, context, log, outbox| replica.step(context, input, log, outbox), &mut lines);
            // It looks again and again, mostly in vain.
            if lines == [looks_after(timer, self.config.attention_interval)] {
                *vain.entry(timer).or_default() += 1;
                continue;
            }
            told.extend(lines.into_iter().map(|line| format!("{}: {line}", since_start(at))));
        }
        self.now = until;
        told.extend(vain.into_iter().map(|(timer, times)| format!("looks after {timer:?} in vain: {times}")));
    }

    fn pages(&self) -> Vec<Page> {
        let mut frozen = self.replica.freeze();
        std::iter::from_fn(|| Replica::next_page(&mut frozen)).collect()
    }

    fn tell_held(&self, told: &mut Vec<String>) {
        let replica = &self.replica;
        told.push(format!(
            "prepared {}, load {}, of c7 {}, waiting {}, {}",
            replica.prepared(),
            replica.load(None),
            replica.load(Some(ClientId(7))),
            Holdings::waiting(replica),
            if replica.is_idle(true) { "idle" } else { "busy" },
        ));
        told.push(format!(
            "decided {:?}, {} records, {} outcomes, {} versions, {} bytes, floor {:?}",
            replica.decided(),
            replica.record_len(),
            replica.recorded(),
            replica.version_count(),
            replica.state_bytes(),
            replica.floor(),
        ));
        told.extend(Holdings::versions(replica).into_iter().map(|version| format!("  {version:?}")));
        told.extend(
            replica
                .outcomes()
                .into_iter()
                .map(|(id, outcome)| format!("  {}: {outcome:?}", describe::transaction(id))),
        );
    }

    fn show(&self, told: &mut Vec<String>) {
        let replica = &self.replica;
        told.push(format!(
            "#{} {}: {} wait, {} watches",
            replica.position(),
            replica.revision(),
            replica.waiting(),
            replica.watches()
        ));
        if replica.is_empty() {
            told.push("  no key lives".to_owned());
        }
        told.extend(replica.keys().map(|(key, stored)| format!("  {}", describe::holds(key, Some(stored)))));
        told.extend(replica.leases().map(|(lease, lasts)| format!("  {lease} lasts {lasts:?}")));
    }
}

fn looks_after(timer: ReplicaTimer, after: Duration) -> String {
    format!("looks after {timer:?} in {} ms", after.as_millis())
}

/// The entry that is appended for a question.
fn entry_of(from: ClientId, words: &[&str]) -> Entry {
    match words::question(from, &[&["#0"], words].concat()) {
        Message::Write { transaction, since, write, .. } => Entry::Write { transaction, since, write },
        Message::Settle { transaction, since, .. } => Entry::Settle { transaction, since },
        Message::Grant { lease, duration, .. } => Entry::Grant { lease, duration },
        Message::Release { lease, .. } => Entry::End { lease },
        other => panic!("nothing is appended for {other:?}"),
    }
}
