//! One-round transactions, as sessions run them: each is one command and one answer.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{Random, ShardId, TransactionId, Value};
use quorate_granola::{Application as _, Class, Command, Event, Failure};
use quorate_procedure::Pair;
use quorate_serializable_shard::{Page, ShardWith};
use quorate_simulator::cluster::Alarm;
use quorate_simulator::world::{Happening, World};

use super::world::{Application, OneRound};
use crate::deployment::Founded;
use crate::load::{Driver, PATIENCE, Progress, Say};

/// A one-round transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The operation of each participant.
    pub parts: BTreeMap<ShardId, Value>,
    /// The agreement that they need.
    pub class: Class,
    /// Its kind.
    pub kind: &'static str,
}

/// Runs the transactions of an application.
pub struct Rounds<A>(pub(super) A);

/// For so long nobody asks for anything: the leaders hear the clocks of their backups meanwhile, and only then do they serve.
const QUIET: Duration = Duration::from_millis(500);

/// The population is written within so long.
const POPULATING: Duration = Duration::from_secs(600);

impl<A: Application> Driver<OneRound<A>> for Rounds<A> {
    type Running = Transaction;

    /// Writes what has to be there, once leaders serve.
    fn prepare(&mut self, founded: &mut Founded<OneRound<A>>) {
        let world = &mut founded.world;
        let quiet = world.now() + QUIET;
        while world.advance(quiet).is_some() {}
        let (client, id) = founded.clients[0];
        let population = self.0.population();
        let mut left = population.len();
        for (number, Transaction { parts, class, .. }) in population.into_iter().enumerate() {
            let transaction = TransactionId { client: id, sequence: 1 + number as u64, attempt: 0 };
            let patience = POPULATING;
            world.command(client, Command::Execute { transaction, parts, class, persists: true, patience });
        }
        let limit = world.now() + POPULATING;
        while left > 0 {
            match world.advance(limit) {
                Some(Happening::Client(_, Event::Finished { result, .. })) => {
                    assert!(result.is_ok(), "the population is written: {result:?}");
                    left -= 1;
                }
                Some(_) => {}
                None => unreachable!("the population is written in time"),
            }
        }
    }

    fn draw(&mut self, session: usize, random: &mut Random) -> Transaction {
        self.0.draw(session, random)
    }

    /// The population has the names below.
    fn sequence(place: u64, number: u64) -> u64 {
        ((place + 1) << 32) + number
    }

    fn begin(
        &mut self,
        running: &mut Transaction,
        transaction: TransactionId,
        say: Say<'_, OneRound<A>>,
    ) -> Progress {
        let (parts, class) = (running.parts.clone(), running.class);
        say(Command::Execute { transaction, parts, class, persists: true, patience: PATIENCE });
        Progress::Commits
    }

    fn concerns(event: &Event) -> Option<TransactionId> {
        match event {
            Event::Finished { transaction, .. } => Some(*transaction),
            Event::Outdated { .. } => None,
        }
    }

    /// The client itself tries again what met a lock.
    fn on_event(&mut self, _: &mut Transaction, event: Event, _: Say<'_, OneRound<A>>) -> Progress {
        let Event::Finished { transaction, result } = event else { return Progress::Waits };
        match result {
            // A transaction that the application refuses has ended as it should.
            Ok(_) | Err(Failure::Aborted(_)) => Progress::Committed { again: transaction.attempt > 0 },
            Err(_) => Progress::Unknown,
        }
    }

    fn timed(&self, running: &Transaction) -> Option<usize> {
        Some(running.parts.len())
    }
}

/// The pairs that all repositories hold, by their leaders.
pub(super) fn held<A: Application>(world: &World<OneRound<A>, Alarm>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for server in (0..world.servers()).filter_map(|server| world.server(server)) {
        if server.machine().leads().is_none() {
            continue;
        }
        let mut frozen = server.machine().application().freeze(None);
        while let Some(page) = ShardWith::<A::Library>::next_page(&mut frozen, 1 << 20) {
            if let Page::Keys { entries, .. } = page {
                pairs.extend(entries.into_iter().map(|(key, held)| (key.to_vec(), held.value.to_vec())));
            }
        }
    }
    pairs
}
