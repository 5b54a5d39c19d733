//! Joint transactions: brief commands of several clients that arrive at about the same time are one transaction.
//!
//! A transaction costs its messages, its entry in three logs and its outcome whether it carries out one command or fifty, and clients that wait for each reply send
//! one command at a time. So the commands of one turn of a thread are carried out together, at the shard of their keys, each client's in their order. Others see all
//! of them or nothing of them, which is more than each client is promised.
//!
//! Nobody pays for the company of others. Commands join that touch a few records alone ([`Command::is_brief`](quorate_redis_commands::Command::is_brief)); if a joint
//! transaction is refused, so that nothing has happened, each client's commands are carried out alone; after one that was too large, commands are carried out alone for a while.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use quorate_redis_commands::Reply;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::databases::Keys;
use crate::failure::Failure;
use crate::plan::{Asked, Plan};

/// So many commands are one joint transaction at most,
const COMMANDS_MAX: usize = 256;

/// with so many bytes.
const BYTES_MAX: usize = 64 * 1024;

/// So many commands of one client join those of others at most: more are company enough for each other,
const OF_CLIENT_MAX: usize = 16;

/// and so many bytes.
const OF_CLIENT_BYTES_MAX: usize = BYTES_MAX / 4;

/// After a joint transaction that was too large, commands are carried out alone for so long.
const ALONE: Duration = Duration::from_secs(1);

/// Commands that join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Their database,
    number: usize,
    /// their shard,
    shard: usize,
    /// and whether they write.
    writes: bool,
}

/// The commands of a client that wait for company.
struct Waiting {
    plan: Plan,
    commands: usize,
    bytes: usize,
    told: oneshot::Sender<Told>,
}

/// The end of the commands of a client.
enum Told {
    /// They were carried out.
    Replies(Vec<Reply>),
    /// They were not, or perhaps, whatever they are.
    Failed(Failure),
    /// They were not: they are to be tried without the others.
    TryAlone,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// True if a transaction is about to take what waits.
    is_called: bool,
    alone_until: Option<Instant>,
}

/// The joint transactions of a thread.
#[derive(Default)]
pub struct Joint {
    queues: RefCell<BTreeMap<Place, Queue>>,
}

impl std::fmt::Debug for Joint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Joint").finish_non_exhaustive()
    }
}

impl Joint {
    /// Where commands of a database may be carried out together with those of other clients; none if they are to be carried out alone.
    pub(crate) fn place(&self, number: usize, asked: &[Asked], plan: &Plan) -> Option<Place> {
        let is_company = asked.len() <= OF_CLIENT_MAX
            && bytes_of(asked) <= OF_CLIENT_BYTES_MAX
            && asked.iter().all(|one| one.command.is_brief());
        let place = Place { number, shard: plan.only_shard().filter(|_| is_company)?, writes: plan.writes() };
        let is_alone = |queue: &Queue| queue.alone_until.is_some_and(|until| Instant::now() < until);
        (!self.queues.borrow().get(&place).is_some_and(is_alone)).then_some(place)
    }

    /// Carries out commands together with those of other clients; none if nothing has happened, and they are to be tried alone.
    pub(crate) async fn run(
        self: &Rc<Self>,
        place: Place,
        keys: &(impl Keys + 'static),
        asked: &[Asked],
        plan: Plan,
        seed: u64,
    ) -> Option<Result<Vec<Reply>, Failure>> {
        let (told, answer) = oneshot::channel();
        let waiting = Waiting { plan, commands: asked.len(), bytes: bytes_of(asked), told };
        let is_first = self.with(place, |queue| {
            queue.waiting.push_back(waiting);
            !std::mem::replace(&mut queue.is_called, true)
        });
        if is_first {
            tokio::task::spawn_local(Rc::clone(self).gather(place, keys.clone(), seed));
        }
        match answer.await {
            Ok(Told::Replies(replies)) => Some(Ok(replies)),
            Ok(Told::Failed(failure)) => Some(Err(failure)),
            Ok(Told::TryAlone) => None,
            Err(_) => Some(Err(Failure::cut_off())),
        }
    }

    /// Waits for the rest of the turn, takes what has gathered by then, and carries it out.
    async fn gather(self: Rc<Self>, place: Place, keys: impl Keys + 'static, seed: u64) {
        tokio::task::yield_now().await;
        loop {
            let (joined, is_last) = self.with(place, |queue| {
                let joined = queue.take();
                queue.is_called = !queue.waiting.is_empty();
                (joined, !queue.is_called)
            });
            if is_last {
                self.carry_out(place, &keys, joined, seed).await;
                return;
            }
            // More has gathered than one transaction takes.
            tokio::task::spawn_local({
                let (joint, keys) = (Rc::clone(&self), keys.clone());
                async move { joint.carry_out(place, &keys, joined, seed).await }
            });
        }
    }

    fn with<T>(&self, place: Place, act: impl FnOnce(&mut Queue) -> T) -> T {
        act(self.queues.borrow_mut().entry(place).or_default())
    }

    async fn carry_out(&self, place: Place, keys: &impl Keys, joined: Vec<Waiting>, seed: u64) {
        let (mut plan, mut told) = (None::<Plan>, Vec::new());
        for waiting in joined {
            told.push((waiting.commands, waiting.told));
            match &mut plan {
                None => plan = Some(waiting.plan),
                Some(plan) => plan.join(waiting.plan),
            }
        }
        let done = match plan {
            Some(plan) => plan.run(keys, &[], seed).await,
            None => Ok(None),
        };
        if done.as_ref().is_err_and(|failure| failure.is_too_large) && told.len() > 1 {
            self.with(place, |queue| queue.alone_until = Some(Instant::now() + ALONE));
        }
        // Nothing is watched, so that there are replies.
        let done = done.map(|replies| replies.unwrap_or_default().into_iter());
        match done {
            Ok(mut replies) => {
                for (commands, told) in told {
                    // A client that has gone is told nothing.
                    let _ = told.send(Told::Replies(replies.by_ref().take(commands).collect()));
                }
            }
            Err(failure) => {
                let tries_alone = failure.may_lie_in_one_command() && told.len() > 1;
                for (_, told) in told {
                    let failed = Told::Failed(failure.clone());
                    let _ = told.send(if tries_alone { Told::TryAlone } else { failed });
                }
            }
        }
    }
}

fn bytes_of(asked: &[Asked]) -> usize {
    asked.iter().flat_map(|one| &one.words).map(|word| word.len()).sum()
}

impl Queue {
    /// Takes as much of what waits as one transaction may carry out, and something, if anything waits.
    fn take(&mut self) -> Vec<Waiting> {
        let (mut commands, mut bytes) = (0, 0);
        let fits = |waiting: &&Waiting| {
            let is_first = commands == 0;
            commands += waiting.commands;
            bytes += waiting.bytes;
            is_first || commands <= COMMANDS_MAX && bytes <= BYTES_MAX
        };
        let count = self.waiting.iter().take_while(fits).count();
        self.waiting.drain(..count).collect()
    }
}
