//! The entries of the logs of shards and homes, and the pages of the state that they lead to.

use std::collections::VecDeque;
use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClockTime, Key, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, View, Write};

use crate::message::{Holder, Life};

/// An entry of the log of a shard, or of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A shard has let a transaction in: its keys are held until it ends.
    Prepared(Arc<Prepared>),
    /// A transaction has ended at a shard.
    Decided(Arc<Decided>),
    /// Replicas of a shard may serve snapshots up to a bound.
    Granted(Granted),
    /// Below this timestamp versions and outcomes of a shard are forgotten, and nothing is let in.
    Floor(ClockTime),
    /// A home has decided a transaction, unless the log says otherwise before.
    Recorded(Arc<Decision>),
    /// Every shard has applied these outcomes.
    Settled(Vec<TransactionId>),
    /// A home forgets settled decisions on transactions with snapshots below.
    Forgotten(ClockTime),
}

/// A transaction that a shard has let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The transaction.
    pub transaction: TransactionId,
    /// The machine that coordinates it.
    pub home: ReplicaId,
    /// In which of its lives.
    pub life: Life,
    /// Its snapshot.
    pub snapshot: ClockTime,
    /// The shard proposes this timestamp.
    pub proposal: ClockTime,
    /// Its writes here, ascending by key.
    pub writes: Vec<Write>,
    /// The view whose leader has appended it. Votes under another one do not count.
    pub view: View,
    /// The other replicas that had been granted snapshots when this was appended.
    pub holders: Vec<Holder>,
}

/// The end of a transaction at a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The transaction.
    pub transaction: TransactionId,
    /// How it ended.
    pub outcome: Outcome,
    /// The latest snapshots that have read its keys at its own node alone.
    pub readers: Vec<(Key, ClockTime)>,
}

/// A grant of snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The view whose leader has granted it.
    pub view: View,
    /// The reading of its clock.
    pub clock: ClockTime,
    /// The bounds.
    pub holders: Vec<Holder>,
}

/// A decision of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The transaction.
    pub transaction: TransactionId,
    /// The replica of the home that has decided it, or where somebody has inquired.
    pub by: ReplicaIndex,
    /// Its snapshot, or the time of the inquiry that has aborted it.
    pub snapshot: ClockTime,
    /// Its client's clock when it was begun, as far as that is known: somebody may ask for its outcome with that.
    pub begun: ClockTime,
    /// Every shard that has to be told, sorted.
    pub participants: Vec<ShardId>,
    /// The decision.
    pub outcome: Outcome,
    /// The latest snapshots that have read its keys at its own node alone.
    pub readers: Vec<(Key, ClockTime)>,
}

impl Decision {
    /// It is remembered until outcomes of this time are forgotten.
    pub(crate) fn remembered_until(&self) -> ClockTime {
        self.snapshot.max(self.begun)
    }
}

/// A decision that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The decision.
    pub decision: Arc<Decision>,
    /// True once every shard has applied it.
    pub is_settled: bool,
}

/// An outcome that a shard remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The transaction.
    pub transaction: TransactionId,
    /// How it ended.
    pub outcome: Outcome,
    /// Its snapshot.
    pub snapshot: ClockTime,
}

/// A part of the state that the entries up to some position have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Versions of a shard.
    Versions(Vec<KeyVersion>),
    /// Transactions that a shard has let in and does not know to have ended.
    Prepared(Vec<Arc<Prepared>>),
    /// Outcomes that a shard remembers.
    Ended(Vec<Ended>),
    /// The rest of what a shard knows.
    Bounds {
        /// As in [`Entry::Floor`].
        floor: ClockTime,
        /// The greatest bound of each replica that was ever granted one, with the life that was granted it last.
        grants: Vec<Holder>,
        /// The latest snapshots that have read keys at nodes of transactions that had written them.
        readers: Vec<(Key, ClockTime)>,
        /// Every version at this timestamp or above is there; none, if the replica does not say.
        retained_from: Option<Timestamp>,
    },
    /// Decisions of a home.
    Decisions(Vec<Remembered>),
    /// The rest of what a home knows.
    HomeBounds {
        /// As in [`Entry::Forgotten`].
        forgotten: ClockTime,
    },
}

/// The pages of a state, while more entries come.
#[derive(Debug)]
pub struct Frozen {
    pub(crate) pages: VecDeque<Page>,
}

impl Entry {
    /// Roughly how many bytes it takes, rather more than less.
    pub fn bytes(&self) -> usize {
        const FIXED: usize = 96;
        const SMALL: usize = 24;
        let of_readers =
            |readers: &[(Key, ClockTime)]| readers.iter().map(|(key, _)| SMALL + key.len()).sum::<usize>();
        FIXED
            + match self {
                Entry::Prepared(prepared) => {
                    let of_write = |write: &Write| {
                        SMALL + write.key.len() + write.value.as_ref().map_or(0, |value| value.len())
                    };
                    let writes: usize = prepared.writes.iter().map(of_write).sum();
                    writes + SMALL * prepared.holders.len()
                }
                Entry::Decided(decided) => of_readers(&decided.readers),
                Entry::Granted(granted) => SMALL * granted.holders.len(),
                Entry::Recorded(decision) => of_readers(&decision.readers) + 4 * decision.participants.len(),
                Entry::Settled(transactions) => SMALL * transactions.len(),
                Entry::Floor(_) | Entry::Forgotten(_) => 0,
            }
    }
}
