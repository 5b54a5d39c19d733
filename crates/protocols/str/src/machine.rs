//! One machine for both roles: a replica of a shard, or of a home.

use quorate_core::log::{FrozenAt, Log, LogMachine, LogOutbox, Position};
use quorate_core::verify::{Digester, Item};
use quorate_core::{ClockTime, Context, Groups, Input, ReplicaId, Timestamp, TransactionId, View};

use crate::config::ReplicaConfig;
use crate::entry::{Entry, Frozen, Page};
use crate::home::Home;
use crate::message::{Life, Message};
use crate::reasons;
use crate::shard::Shard;

/// The outbox of a replica. All that it says is sent unordered: it promises nothing that its disk has to remember, because what it tells of
/// the log is stable when it is applied, and everything else is over with its life.
pub(crate) type Out = LogOutbox<Replica>;

/// A replica of a shard, or the machine of a node.
#[derive(Debug)]
pub enum Replica {
    /// Of a shard.
    Shard(Box<Shard>),
    /// Of a home.
    Home(Box<Home>),
}

/// The timers of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaTimer {
    /// Time to look after what is old.
    Attention,
    /// The window of a tuner ends.
    Tune,
    /// Replicas that were about to lead do so by now.
    Leaders,
}

/// The commands of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaCommand {
    /// The groups of its keyspace have changed.
    ChangeGroups(Groups),
    /// These are all machines of its keyspace on its node. Between them nothing is lost or overtaken. To be told when it starts, and
    /// whenever that changes.
    Meet(Vec<ReplicaId>),
    /// A consumer asks for changes.
    Follow,
}

/// A message of a replica to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// It leads.
    Leading {
        /// This view.
        view: View,
    },
    /// It leads no longer.
    Deposed,
    /// A transaction has committed locally. Told where the configuration asks for a journal.
    CommittedLocally {
        /// The transaction.
        transaction: TransactionId,
        /// The life of the machine.
        life: Life,
        /// Its snapshot.
        snapshot: ClockTime,
        /// Its local timestamp.
        local: ClockTime,
    },
    /// A commit is in the log of a home. Told where the configuration asks for a journal, by each replica that applies it.
    Finalized {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
    },
}

impl LogMachine for Replica {
    type Entry = Entry;
    type Message = Message;
    type Timer = ReplicaTimer;
    type Command = ReplicaCommand;
    type Event = ReplicaEvent;
    type Config = ReplicaConfig;
    type Page = Page;
    type Frozen = Frozen;
    type Canonical = Replica;

    fn new(config: ReplicaConfig) -> Self {
        match config.is_home() {
            true => Replica::Home(Box::new(Home::new(config))),
            false => Replica::Shard(Box::new(Shard::new(config))),
        }
    }

    fn bytes(entry: &Entry) -> usize {
        entry.bytes()
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, ReplicaTimer, ReplicaCommand>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match (self, input) {
            (_, Input::Persisted(_)) => {}
            (Replica::Shard(shard), Input::Start) => shard.start(draw_life(context), outbox),
            (Replica::Home(home), Input::Start) => home.start(draw_life(context), context.now, outbox),
            (Replica::Shard(shard), Input::Message { from, message, .. }) => {
                shard.on_message(from, message, context, log, outbox);
            }
            (Replica::Home(home), Input::Message { from, message, .. }) => {
                home.on_message(from, message, context, log, outbox);
            }
            (Replica::Shard(shard), Input::Timer(ReplicaTimer::Attention)) => {
                shard.on_attention(context, log, outbox);
            }
            (Replica::Home(home), Input::Timer(ReplicaTimer::Attention)) => {
                home.on_attention(context, log, outbox);
            }
            (Replica::Home(home), Input::Timer(ReplicaTimer::Tune)) => home.on_tune(context.now, outbox),
            (Replica::Home(home), Input::Timer(ReplicaTimer::Leaders)) => {
                home.on_leaders_timeout(context, log, outbox);
            }
            (Replica::Shard(_), Input::Timer(ReplicaTimer::Tune | ReplicaTimer::Leaders)) => {
                unreachable!("a shard has neither a tuner nor leaders to ask")
            }
            (Replica::Shard(shard), Input::Command(ReplicaCommand::ChangeGroups(groups))) => {
                shard.change_groups(groups, outbox);
            }
            (Replica::Home(home), Input::Command(ReplicaCommand::ChangeGroups(groups))) => {
                home.change_groups(groups, context, log, outbox);
            }
            (Replica::Shard(shard), Input::Command(ReplicaCommand::Meet(neighbours))) => {
                shard.meet(&neighbours, context, log, outbox);
            }
            (Replica::Home(home), Input::Command(ReplicaCommand::Meet(neighbours))) => {
                home.meet(&neighbours, context, log, outbox);
            }
            (Replica::Shard(shard), Input::Command(ReplicaCommand::Follow)) => {
                shard.on_follow(context, log, outbox);
            }
            (Replica::Home(_), Input::Command(ReplicaCommand::Follow)) => {
                outbox.ignored(reasons::SHARDS_ONLY)
            }
        }
    }

    fn apply(
        &mut self,
        context: &mut Context<'_>,
        _: Position,
        entry: &Entry,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match self {
            Replica::Shard(shard) => shard.apply(entry, context, log, outbox),
            Replica::Home(home) => home.apply(entry, context, log, outbox),
        }
    }

    fn on_leading(
        &mut self,
        context: &mut Context<'_>,
        view: View,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match self {
            Replica::Shard(shard) => shard.on_leading(view, context, log, outbox),
            Replica::Home(home) => home.on_leading(view, context, log, outbox),
        }
    }

    fn on_deposed(&mut self, _: &mut Context<'_>, outbox: &mut Out) {
        match self {
            Replica::Shard(shard) => shard.on_deposed(outbox),
            Replica::Home(home) => home.on_deposed(outbox),
        }
    }

    /// Reads are under grants, so neither leases nor confirmations are waited for.
    fn on_progress(&mut self, _: &mut Context<'_>, _: &mut impl Log<Entry>, _: &mut Out) {}

    fn freeze(&self) -> Frozen {
        match self {
            Replica::Shard(shard) => shard.freeze(false),
            Replica::Home(home) => home.freeze(),
        }
    }

    fn freeze_data(&self) -> Frozen {
        match self {
            Replica::Shard(shard) => shard.freeze(true),
            Replica::Home(home) => home.freeze(),
        }
    }

    /// Versions lie at timestamps, so what is shown now is nothing that several shards have in common: see [`LogMachine::freeze_at`].
    fn freeze_to_read(&self) -> Option<Frozen> {
        None
    }

    fn freeze_at(&mut self, below: Timestamp) -> FrozenAt<Frozen> {
        match self {
            Replica::Shard(shard) => shard.freeze_at(below),
            Replica::Home(_) => FrozenAt::Passed,
        }
    }

    fn digest(page: &Page, digester: &mut Digester) {
        let Page::Versions(versions) = page else { return };
        for version in versions {
            let stamps = [version.version.micros, version.version.client.0];
            let value = version.value.as_ref();
            digester.add(Item {
                space: Item::DATA,
                key: &version.key,
                stamps: &stamps,
                value: value.map(|value| &value[..]),
            });
        }
    }

    fn next_page(frozen: &mut Frozen) -> Option<Page> {
        frozen.pages.pop_front()
    }

    fn replace_state(&mut self, _: Position, pages: Vec<Page>) {
        match self {
            Replica::Shard(shard) => shard.replace_state(pages),
            Replica::Home(home) => home.replace_state(pages),
        }
    }
}

/// A life of a machine; never zero, which means none.
fn draw_life(context: &mut Context<'_>) -> Life {
    Life(1 + context.random.below(u64::MAX - 1))
}

impl Replica {
    /// Asserts what holds between any two steps.
    pub fn assert_invariants(&self) {
        match self {
            Replica::Shard(shard) => shard.assert_invariants(),
            Replica::Home(home) => home.assert_invariants(),
        }
    }

    /// The counts of events, if this is the machine of a node.
    pub fn counts(&self) -> Option<crate::home::Counts> {
        match self {
            Replica::Shard(_) => None,
            Replica::Home(home) => Some(home.counts()),
        }
    }

    /// True if this is the machine of a node, and has not heard how the transaction ended that was asked to commit: others of the node may be shown its
    /// local commit.
    pub fn is_committing(&self, transaction: TransactionId) -> bool {
        match self {
            Replica::Shard(_) => false,
            Replica::Home(home) => home.is_committing(transaction),
        }
    }

    /// The tuner, if this is the machine of a node that has one.
    pub fn tuner(&self) -> Option<&crate::tuner::Tuner> {
        match self {
            Replica::Shard(_) => None,
            Replica::Home(home) => home.tuner(),
        }
    }

    /// How many transactions had to give way at this replica of a shard.
    pub fn gave_way(&self) -> u64 {
        match self {
            Replica::Shard(shard) => shard.gave_way(),
            Replica::Home(_) => 0,
        }
    }
}
