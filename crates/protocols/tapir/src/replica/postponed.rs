//! Requests that arrive while the replica changes views wait for the view to start.

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Context, Instant};
use quorate_ir::Status;

use super::{Ir, Replica};
use crate::message::{Decision, Message};

/// Why a request is dropped that a view would be waited for with.
const TOO_MUCH_WAITS: &str = "too much waits for a view";

impl Replica {
    /// True if a message of a client could be answered only by a replica that is normal, and this one is about to be.
    pub(super) fn postpones(&self, from: Address, message: &Message) -> bool {
        let is_about_to_be = self.ir.status() == Status::ViewChanging && !self.ir.is_answering();
        is_about_to_be && matches!(from, Address::Client(_)) && needs_a_view(message)
    }

    /// Keeps a request for when a view has started.
    pub(super) fn postpone(
        &mut self,
        from: Address,
        message: Message,
        now: Instant,
        outbox: &mut OutboxOf<Self>,
    ) {
        let bytes = bytes_of(&message);
        if self.postponed.push(from, message, bytes, now) {
            outbox.ignored(TOO_MUCH_WAITS);
        }
    }

    /// Answers what was asked before the view started.
    pub(super) fn attend_postponed(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        if self.postponed.is_empty() || self.ir.status() != Status::Normal {
            return;
        }
        for (from, message) in self.postponed.take(context.now) {
            if self.postpones(from, &message) {
                // One before it has shown that this replica has missed something.
                self.postpone(from, message, context.now, outbox);
            } else {
                self.on_message(from, message, context, outbox);
            }
        }
    }
}

/// True if only a replica that is normal answers.
fn needs_a_view(message: &Message) -> bool {
    match message {
        Message::Read { .. }
        | Message::ReadMany { .. }
        | Message::ReadInTurn { .. }
        | Message::Scan { .. }
        | Message::QuorumRead { .. }
        | Message::QuorumScan { .. }
        | Message::ReadValidated { .. }
        | Message::CommitPrepared { .. } => true,
        Message::Ir(message) => matches!(
            message,
            Ir::ProposeInconsistent { .. }
                | Ir::ProposeConsensus { .. }
                | Ir::FinalizeInconsistent { .. }
                | Ir::FinalizeConsensus { .. }
        ),
        _ => false,
    }
}

/// Roughly how many bytes a request has.
fn bytes_of(message: &Message) -> usize {
    const HEADER_BYTES: usize = 100;
    let contents = match message {
        Message::Ir(Ir::ProposeConsensus { operation, .. }) => operation.transaction.bytes(),
        Message::Ir(Ir::ProposeInconsistent { operation: Decision::Commit { transaction, .. }, .. }) => {
            transaction.bytes()
        }
        Message::ReadValidated { keys, validated, .. } => {
            let told = validated.iter().flat_map(|validation| &validation.reads).map(|read| &read.key);
            keys.iter().chain(told).map(|key| key.len()).sum()
        }
        Message::ReadMany { keys, .. } | Message::QuorumRead { keys, .. } => {
            keys.iter().map(|key| key.len()).sum()
        }
        _ => 0,
    };
    HEADER_BYTES + contents
}
