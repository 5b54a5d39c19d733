//! Clients in a closed loop, which go on from what they are shown before it is final.
//!
//! A session runs its transactions in order. While results are shown to it, those that are not final are its *chain*:
//!
//! ```text
//!   final … final │ shown, shown, shown │ running          the next begins once the last one is shown
//!                 └────── chain ────────┘
//! ```
//!
//! Where one of them aborts, those behind it abort with it, and the session runs all of them again, in the same order, at once. A latency begins with the
//! first attempt: the *final* one ends with the final commit, and the *perceived* one with the last result that was shown before, or with the final
//! commit where none was shown.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Event, Failure, Freshness};
use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, Instant, Random, TransactionId};
use quorate_simulator::cluster::{Alarm, KEYSPACE};
use quorate_simulator::system::snapshot::Snapshot;
use quorate_simulator::world::{Happening, World};
use quorate_str::tuner::Tuner;
use quorate_str::{Counts, Shows};

use super::Geography;
use super::transactions::{Draw, Drawn, Running, Step, Work, key_of_each};
use crate::deployment::{Deployed, Founded, MOMENT};
use crate::load::{Measured, PATIENCE, Took, Window};

/// A transaction that has failed so often is starved.
const STARVED: u32 = 10;

/// Before sessions begin, every client reads a key of each shard this many times, so that replicas have been granted snapshots.
const FIRST_READS: u64 = 4;

/// Between two of these reads lies so much time.
const FIRST_READS_APART: Duration = Duration::from_millis(500);

/// Sessions that do not think begin within so long.
const SPREAD: Duration = Duration::from_millis(500);

/// Runs it.
pub(super) fn run(geography: &Geography, seed: u64, window: Window) -> Measured {
    let mut load = Load::start(geography, seed);
    load.read_first();
    load.measure(window)
}

/// Runs it until the tuners of all nodes have settled, or for so long at most, and measures for so long then.
pub(super) fn run_settled(
    geography: &Geography,
    seed: u64,
    settle_max: Duration,
    measured: Duration,
) -> Measured {
    let mut load = Load::start(geography, seed);
    load.read_first();
    let limit = load.world.now() + settle_max;
    while load.world.now() < limit && load.searching() > 0 {
        load.run_until(load.world.now() + SETTLE_STEP);
    }
    let searching = load.searching();
    let measured = load.measure(Window { warm_up: SETTLE_STEP, measured });
    let degrees = load.tuners().map(Tuner::degree).collect();
    Measured { degrees, searching, ..measured }
}

/// How often it is looked whether tuners have settled.
const SETTLE_STEP: Duration = Duration::from_secs(5);

type Machines = World<Snapshot, Alarm>;

struct Load {
    world: Machines,
    server_nodes: usize,
    draw: Draw,
    random: Random,
    sessions: Vec<Session>,
    /// The sessions of transactions that are not final, by the names of the first attempts.
    open: FixedMap<TransactionId, usize>,
    /// True if clients ask to be shown results.
    asks: bool,
    /// True if a session goes on from a result that is not final.
    chains: bool,
    measured_from: Instant,
    measured: Measured,
}

/// One transaction after the other, of a client.
struct Session {
    client: usize,
    id: ClientId,
    node: usize,
    /// Tells the sessions of a client apart.
    place: u64,
    number: u64,
    /// Those that are not final, in order.
    chain: VecDeque<Link>,
    /// The next transaction, and when it begins.
    next: Option<(Drawn, Instant)>,
}

/// A transaction that is not final.
struct Link {
    /// The name of its first attempt.
    name: TransactionId,
    attempt: u32,
    work: Arc<Work>,
    thinks: Duration,
    began: Instant,
    attempt_began: Instant,
    commit_began: Instant,
    /// When its result was shown last.
    shown_at: Option<Instant>,
    phase: Phase,
}

enum Phase {
    /// It is to be begun, once those before it have been shown.
    Waits,
    Runs(Box<Running>),
    Commits,
    /// One before it has aborted, and it is about to be told so.
    Ends,
}

impl Link {
    fn id(&self) -> TransactionId {
        TransactionId { attempt: self.attempt, ..self.name }
    }

    fn is_shown(&self) -> bool {
        matches!(self.phase, Phase::Commits) && self.shown_at.is_some()
    }
}

impl Load {
    fn start(geography: &Geography, seed: u64) -> Self {
        let Founded { mut world, server_nodes, clients } = Snapshot::found(&geography.deployment(), seed);
        let nodes = geography.nodes();
        world.set_alarm(Duration::ZERO, Alarm::Poll);
        let mut random = Random::stream(seed, "sessions of a speculative load");
        let mut draw = Draw::new(&geography.application, nodes);
        let begins = world.now() + FIRST_READS_APART * FIRST_READS as u32;
        let mut sessions = Vec::new();
        for (node, (client, id)) in clients.into_iter().enumerate() {
            for place in 0..geography.sessions as u64 {
                let (drawn, after) = draw_first(&mut draw, node, place as usize, &mut random);
                let at = begins + after;
                world.set_alarm(at - world.now(), Alarm::Session(sessions.len()));
                let (chain, next) = (VecDeque::new(), Some((drawn, at)));
                sessions.push(Session { client, id, node, place, number: 0, chain, next });
            }
        }
        let shows = geography.variant.shows;
        Load {
            measured_from: begins,
            world,
            server_nodes,
            draw,
            random,
            sessions,
            open: FixedMap::default(),
            asks: shows != Shows::Nothing,
            chains: matches!(shows, Shows::Chain(_)),
            measured: Measured::default(),
        }
    }

    fn measure(&mut self, window: Window) -> Measured {
        self.measured_from = self.world.now() + window.warm_up;
        self.run_until(self.measured_from);
        let (before, passed) = (self.worked(), self.counts().passed);
        self.measured = Measured { seconds: window.measured.as_secs_f64(), ..Measured::default() };
        self.run_until(self.measured_from + window.measured);
        let since = self.worked().into_iter().zip(before).map(|(now, then)| now - then);
        let mut measured = std::mem::take(&mut self.measured);
        measured.servers_worked = since.collect();
        measured.passed = self.counts().passed - passed;
        measured
    }

    fn worked(&self) -> Vec<Duration> {
        (0..self.server_nodes).map(|node| self.world.processor_time(node)).collect()
    }

    /// The counts of all machines of homes.
    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for server in 0..self.world.servers() {
            let counts = self.world.server(server).and_then(|member| member.machine().counts());
            sum.passed += counts.map_or(0, |counts| counts.passed);
        }
        sum
    }

    fn tuners(&self) -> impl Iterator<Item = &Tuner> {
        let machines = (0..self.world.servers()).filter_map(|server| self.world.server(server));
        machines.filter_map(|member| member.machine().tuner())
    }

    /// How many tuners have not settled.
    fn searching(&self) -> usize {
        self.tuners().filter(|tuner| tuner.state().settled.is_none()).count()
    }

    /// Reads a key of each shard, from every node.
    fn read_first(&mut self) {
        let keys = key_of_each(self.server_nodes);
        let mut clients: Vec<(usize, ClientId)> = Vec::new();
        for session in &self.sessions {
            if !clients.contains(&(session.client, session.id)) {
                clients.push((session.client, session.id));
            }
        }
        for time in 0..FIRST_READS {
            for (client, id) in &clients {
                // Sessions have greater numbers.
                let transaction = TransactionId { client: *id, sequence: 1 + time, attempt: 0 };
                let (keyspace, keys, freshness) = (KEYSPACE, keys.clone(), Freshness::Strict);
                let command =
                    Command::ReadOnly { transaction, keyspace, keys, freshness, patience: PATIENCE };
                self.world.command(*client, command);
            }
            self.run_until(self.world.now() + FIRST_READS_APART);
        }
    }

    fn run_until(&mut self, end: Instant) {
        while let Some(happening) = self.world.advance(end) {
            match happening {
                Happening::Client(_, event) => self.on_event(event),
                Happening::Alarm(Alarm::Session(session)) => self.go_on(session),
                // No faults are injected, and replicas have nothing to tell here.
                _ => {}
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        let id = match &event {
            Event::Got { transaction, .. }
            | Event::Scanned { transaction, .. }
            | Event::Shown { transaction, .. }
            | Event::Finished { transaction, .. } => *transaction,
            // Nothing else is asked for.
            _ => return,
        };
        let Some(&at) = self.open.get(&TransactionId { attempt: 0, ..id }) else { return };
        let Some(link) = self.sessions[at].chain.iter().position(|link| link.id() == id) else { return };
        match event {
            Event::Shown { .. } => self.on_shown(at, link),
            Event::Finished { result: Ok(_), .. } => self.on_committed(at, link),
            Event::Finished { result: Err(failure), .. } => self.on_failed(at, link, &failure),
            read => {
                let Session { client, chain, .. } = &mut self.sessions[at];
                let (client, link_at) = (*client, link);
                let Phase::Runs(running) = &mut chain[link_at].phase else { return };
                let step = running.on_event(read, &mut |command| self.world.command(client, command));
                self.on_step(at, link_at, step);
            }
        }
    }

    fn on_step(&mut self, at: usize, link: usize, step: Step) {
        let session = &mut self.sessions[at];
        let (client, transaction) = (session.client, session.chain[link].id());
        match step {
            Step::Reads => {}
            Step::Commits => {
                (session.chain[link].phase, session.chain[link].commit_began) =
                    (Phase::Commits, self.world.now());
                let command = match self.asks {
                    true => Command::CommitSpeculatively { transaction },
                    false => Command::Commit { transaction },
                };
                self.world.command(client, command);
            }
            Step::Fails => {
                session.chain[link].phase = Phase::Ends;
                self.world.command(client, Command::Abort { transaction });
            }
        }
    }

    fn on_shown(&mut self, at: usize, link: usize) {
        let now = self.world.now();
        let link = &mut self.sessions[at].chain[link];
        if !matches!(link.phase, Phase::Commits) {
            return;
        }
        link.shown_at = Some(now);
        let thinks = link.thinks;
        self.plan_next(at, thinks);
        self.go_on(at);
    }

    fn on_committed(&mut self, at: usize, link: usize) {
        let now = self.world.now();
        let Some(link) = self.sessions[at].chain.remove(link) else { return };
        assert!(
            matches!(link.phase, Phase::Commits),
            "{} commits although one before it has aborted",
            link.name
        );
        self.open.remove(&link.name);
        if now >= self.measured_from {
            let measured = &mut self.measured;
            measured.committed += 1;
            measured.perceived.push(link.shown_at.unwrap_or(now) - link.began);
            measured.took.push(Took {
                all: now - link.began,
                commit: now - link.commit_began,
                read: link.commit_began - link.attempt_began,
                parts: 1,
            });
        }
        if link.shown_at.is_none() {
            self.plan_next(at, link.thinks);
        }
        self.go_on(at);
    }

    fn on_failed(&mut self, at: usize, first: usize, failure: &Failure) {
        assert!(
            matches!(failure, Failure::Conflict | Failure::TooOld { .. } | Failure::Aborted),
            "nothing fails here: {failure:?}"
        );
        let counts = now_counts(self.world.now(), self.measured_from);
        let Session { client, chain, .. } = &mut self.sessions[at];
        let client = *client;
        let failed = &mut chain[first];
        self.measured.aborted += counts;
        self.measured.starved += if failed.attempt >= STARVED { counts } else { 0 };
        self.measured.misspeculated += if failed.shown_at.is_some() { counts } else { 0 };
        failed.shown_at = None;
        failed.attempt += 1;
        failed.phase = Phase::Waits;
        // Those behind it hear the same soon, or are told so.
        for link in chain.iter_mut().skip(first + 1) {
            if let Phase::Runs(_) = link.phase {
                self.world.command(client, Command::Abort { transaction: link.id() });
            }
            if matches!(link.phase, Phase::Runs(_) | Phase::Commits) {
                link.phase = Phase::Ends;
            }
        }
        self.world.set_alarm(MOMENT, Alarm::Session(at));
    }

    /// The next transaction begins once the user has thought about the last result, and has keyed it in.
    fn plan_next(&mut self, at: usize, thinks: Duration) {
        let now = self.world.now();
        let session = &mut self.sessions[at];
        let drawn = match session.next.take() {
            Some((drawn, _)) => drawn,
            None => self.draw.draw(session.node, session.place as usize, &mut self.random),
        };
        let pause = (thinks + drawn.keys_in).max(MOMENT);
        session.next = Some((drawn, now + pause));
        self.world.set_alarm(pause, Alarm::Session(at));
    }

    /// Begins what can be begun.
    fn go_on(&mut self, at: usize) {
        let now = self.world.now();
        let chains = self.chains;
        let session = &mut self.sessions[at];
        let may_follow = |chain: &VecDeque<Link>| match chain.back() {
            None => true,
            Some(last) => chains && last.is_shown(),
        };
        let is_due = session.next.as_ref().is_some_and(|(_, due)| *due <= now);
        if is_due
            && may_follow(&session.chain)
            && let Some((Drawn { work, thinks, .. }, _)) = session.next.take()
        {
            session.number += 1;
            // Those that are read first have lower ones.
            let sequence = (session.number << 16) + session.place;
            let name = TransactionId { client: session.id, sequence, attempt: 0 };
            session.chain.push_back(Link {
                name,
                attempt: 0,
                work,
                thinks,
                began: now,
                attempt_began: now,
                commit_began: now,
                shown_at: None,
                phase: Phase::Waits,
            });
            self.open.insert(name, at);
        }
        self.begin(at);
    }

    /// Begins the first one that waits, if those before it have been shown.
    fn begin(&mut self, at: usize) {
        let now = self.world.now();
        let Session { client, chain, .. } = &mut self.sessions[at];
        let client = *client;
        let Some(first) = chain.iter().position(|link| !link.is_shown()) else { return };
        let earlier = first.checked_sub(1).map(|earlier| chain[earlier].id());
        let link = &mut chain[first];
        if !matches!(link.phase, Phase::Waits) {
            return;
        }
        link.attempt_began = now;
        let transaction = link.id();
        self.world.command(client, Command::Begin { transaction, keyspace: KEYSPACE, patience: PATIENCE });
        if let Some(earlier) = earlier {
            self.world.command(client, Command::After { transaction, earlier });
        }
        let mut running = Box::new(Running::new(Arc::clone(&link.work)));
        let step = running.begin(transaction, &mut |command| self.world.command(client, command));
        link.phase = Phase::Runs(running);
        self.on_step(at, first, step);
    }
}

/// The first transaction of a session, and when it begins: as if the session had been at it for long.
fn draw_first(draw: &mut Draw, node: usize, place: usize, random: &mut Random) -> (Drawn, Duration) {
    let mut passed = Duration::ZERO;
    let mut drawn = draw.draw(node, place, random);
    let at_it_for = LONG_AT_IT.mul_f64(1.0 + random.unit());
    loop {
        let pause = drawn.thinks + drawn.keys_in;
        if pause.is_zero() {
            return (drawn, SPREAD.mul_f64(random.unit()));
        }
        passed += pause;
        if passed >= at_it_for {
            return (drawn, passed - at_it_for);
        }
        drawn = draw.draw(node, place, random);
    }
}

/// A session that thinks has done so for this long at least, and for twice as long at most, when it begins.
const LONG_AT_IT: Duration = Duration::from_secs(60);

/// One if what happens now counts.
fn now_counts(now: Instant, measured_from: Instant) -> u64 {
    u64::from(now >= measured_from)
}
