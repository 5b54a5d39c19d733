//! Read holds: what a strict read-only transaction over several shards reads and keeps others off, in one message.
//!
//! Its PREPARE names keys and no versions. A replica that votes OK holds the keys from then on, as for any prepared
//! transaction, and says what it found at that moment. Everything else about it is what prepared transactions have in
//! common: the vote is durable, travels through view changes, and ends with the outcome, which the coordinator tells or
//! a recovery finds.
//!
//! # Why one round trip is strict
//! *Say that every shard has agreed by the quorum of a consensus operation. Then there is an instant at which all shards
//! hold the transaction, because holds end only with its outcome, and no outcome other than commit is possible. A
//! transaction that writes one of the keys and commits has its own such instant. If that comes earlier, the two
//! majorities share a replica that held the writer first, so it was either still in the way, and the vote ABSTAIN, or its
//! COMMIT had been executed and its version found. If it comes later, its version was found nowhere. So what was found,
//! the newest of f + 1 for each key, is the state at that instant.*
//!
//! Reading shard after shard without holds has no such instant: it may see a later transaction and miss an earlier one
//! (T27).
//!
//! Two things follow for a replica that is asked again. It repeats its vote but not what it found, which may have been
//! overtaken once a recovery has released other holds. And a hold that came with a view change is no source of versions
//! either: it says that others held, not what they found.

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Context};
use quorate_ir::{Member, OperationId};

use super::Replica;
use crate::message::{FoundVersion, Message, Prepare, Vote};

impl Replica {
    /// Votes on a transaction that reads when it is prepared.
    pub(super) fn on_hold_reads(
        &mut self,
        from: Address,
        id: OperationId,
        prepare: Prepare,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        let transaction = prepare.transaction.clone();
        let mut answer = None;
        self.with_desk(context.random, outbox, |ir, desk| answer = ir.answer_consensus(id, prepare, desk));
        let Some(answer) = answer else { return };
        let found = if answer.is_new && answer.verdict == Vote::Ok {
            let (versions, floor) = (&self.participant.versions, self.participant.deleted_below());
            let newest = |key| FoundVersion::new(versions.newest(key), floor);
            transaction.reads.iter().map(|read| newest(&read.key)).collect()
        } else {
            Vec::new()
        };
        assert!(
            found.is_empty() || self.participant.prepared.entry(id.transaction).is_some(),
            "{id} is told what it has found, and holds nothing"
        );
        let (view, vote, finalized) = (self.ir.view(), answer.verdict, answer.finalized);
        outbox.send(from, Message::HeldReads { id, view, vote, finalized, found });
    }
}
