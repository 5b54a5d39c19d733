//! What a node has to know of a machine to host it as a replica. This is all that differs from protocol to protocol.

mod baseline;
mod configuration;
pub(crate) mod granola;
mod member;
mod qwstore;
mod tapir;

use quorate_core::verify::{Answer, Request};
use quorate_core::{ClientId, Epoch, Groups, Machine, ShardId, View};
use quorate_wire::{ProtocolMessage, Wire};

use super::log::LogError;
use crate::data::{Boot, Placement};

/// A machine that a node hosts as a replica.
pub(crate) trait Served:
    Machine<
        Message: Into<ProtocolMessage> + TryFrom<ProtocolMessage> + Send,
        Timer: Send,
        Record: Wire + Send,
        Event: Send,
    > + Send
    + 'static
{
    /// What tells apart what the same machine can be.
    type Kind: Copy;

    /// Builds the machine from what it had made durable, or as it is told to begin if there is nothing. One that knows better, by
    /// what it had made durable, begins with that, and is told what has happened since.
    fn build(
        kind: Self::Kind,
        placement: &Placement,
        knows_better: bool,
        boot: Boot,
        records: Vec<Self::Record>,
    ) -> Result<Self, LogError>;

    /// What a replica remembers that was created with its group and has slept since, and that takes part in no view up to
    /// this one; none if losses cannot be accepted.
    fn asleep_since_creation(
        placement: &Placement,
        view: View,
    ) -> Result<Option<Vec<Self::Record>>, LogError>;

    /// How it is.
    fn health(&self) -> Health;

    /// How many transactions are prepared here; those of one client only, if one is named.
    fn load(&self, client: Option<ClientId>) -> usize;

    /// True if it has nothing of clients under way.
    fn is_idle(&self) -> bool;

    /// How many transactions it has seen committed and aborted.
    fn decided(&self) -> (u64, u64);

    /// What a replica of a shard is told if those of its keyspace change.
    fn change_groups(memberships: &Groups, shard: ShardId) -> Vec<Self::Command>;

    /// What a replica is told if an operator says that another shard of its keyspace is lost for good; none if nobody waits for
    /// votes of that shard for ever.
    fn declare_lost(_: ShardId) -> Option<Self::Command> {
        None
    }

    /// The shards that an operator has declared lost, as far as is durable here.
    fn lost_shards(&self) -> Vec<ShardId> {
        Vec::new()
    }

    /// What a replica is told if an operator compares what replicas hold; none if its protocol knows no point at which they are alike.
    fn verify(request: Request) -> Option<Self::Command>;

    /// What the operator is answered.
    fn verified(&self, request: &Request) -> Answer;

    /// What the node has to know of what the machine has said.
    fn news(event: &Self::Event) -> Option<News>;
}

/// How a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// What it is doing.
    pub(crate) activity: Activity,
    /// Its view.
    pub(crate) view: View,
    /// True if it leads its group.
    pub(crate) leads: bool,
    /// The transactions that it holds prepared.
    pub(crate) prepared: usize,
    /// The transactions of which it knows something.
    pub(crate) record_len: usize,
    /// The transactions of silent coordinators that it is settling.
    pub(crate) recoveries: usize,
    /// By how many microseconds the clock of this node is ahead of those of a majority of the group, negative if it is behind; none if it
    /// is not off as far as is known, or if the protocol compares no clocks.
    pub(crate) clock_error_micros: Option<i64>,
}

/// What a machine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It takes part.
    Normal,
    /// It waits for a view to begin.
    ViewChanging,
    /// It learns what it has lost from the others.
    Recovering,
    /// Its group has gone on without it.
    Retired,
}

/// What a machine says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It takes part in this view.
    Normal(View),
    /// It waits for this view to begin.
    ViewChanging(View),
    /// It learns what it has lost from the others.
    Recovering,
    /// It leads this view.
    Leading(View),
    /// Somebody speaks under a later membership.
    Outdated(Epoch),
    /// It is no member of its group any more, and nobody needs it.
    Retired,
    /// So many replicas of its group have lost their records that it does not recover by itself.
    Lost(usize),
    /// Its clock is off by so many microseconds, or is so no longer.
    Clock(Option<i64>),
}
