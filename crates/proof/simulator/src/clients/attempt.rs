//! An attempt at a transaction, as its client knows it.

use std::collections::BTreeMap;

use quorate_checker::{MicroOp, RecordedTxn};
use quorate_core::command::AtSite;
use quorate_core::{Key, ShardId, Timestamp, TransactionId, Value};
use quorate_workloads::Execution;

use super::one_round::OneRound;
use super::read_only::ReadOnly;
use super::script::Manner;

/// An attempt that has begun.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) id: TransactionId,
    /// When it began, by the clock of its client.
    pub(super) began: Timestamp,
    pub(super) execution: Execution,
    pub(super) recorded: RecordedTxn,
    /// The site at which it runs, as the history names it.
    pub(super) site: String,
    /// Its place among the transactions of local sites, once its client was told.
    pub(super) place: Option<AtSite>,
    pub(super) commit_asked: bool,
    /// True once the client has been told that nobody knows, and asks what became of it.
    pub(super) resolving: bool,
    /// True while the client thinks before the next step.
    pub(super) thinks: bool,
    /// How it is still to think before it commits, and whether it commits at all.
    pub(super) manner: Manner,
    /// How it reads all at once, if it does.
    pub(super) read_only: Option<ReadOnly>,
    /// How it is asked for in one round, if it is.
    pub(super) one_round: Option<Box<OneRound>>,
    /// The values that it has put, where they are kept.
    pub(super) puts: BTreeMap<Key, Option<Value>>,
    /// How many of the keys have not been answered that it reads at once before anything else.
    pub(super) awaited: usize,
}

impl Attempt {
    /// True if it has written anything so far.
    pub(super) fn has_written(&self) -> bool {
        let writes = |ops: Vec<MicroOp>| ops.iter().any(|op| !matches!(op, MicroOp::Read(..)));
        self.execution.observed_so_far().map_or(true, writes)
    }
}

/// An attempt that its client gave up without knowing its fate.
#[derive(Debug)]
pub(super) struct Undecided {
    pub(super) attempt: Attempt,
    /// The shards that can be asked, if the client was told.
    pub(super) participants: Option<Vec<ShardId>>,
    /// True if its client was told that it has not the right to commit it.
    pub(super) is_denied: bool,
    /// True if the history says already that its fate is unknown.
    pub(super) reported: bool,
    /// True if the history says anything of its end.
    pub(super) is_in_history: bool,
    pub(super) resolved: bool,
}
