//! The parts of a TAPIR message that go into the hash of a trace: enough that executions that differ soon differ in it.

use quorate_core::command::Outcome;
use quorate_core::{Timestamp, TransactionId};
use quorate_ir::Message as Ir;
use quorate_tapir::{Message, Tapir};

use crate::world::trace::TraceHash;

/// Folds a message into a hash.
pub(crate) fn message(message: &Message, hash: &mut TraceHash) {
    match message {
        Message::Read { transaction: id, key } => {
            numbers(1, *id, &[], hash);
            hash.fold_bytes(key);
        }
        Message::ReadReply { transaction: id, key, version, value } => {
            numbers(2, *id, &[value.as_ref().map_or(0, |value| value.len() as u64 + 1)], hash);
            timestamp(*version, hash);
            hash.fold_bytes(key);
        }
        Message::Scan { transaction: id, request, range, limit } => {
            numbers(3, *id, &[u64::from(*request), u64::from(*limit)], hash);
            hash.fold_bytes(&range.from);
        }
        Message::ScanReply { transaction: id, request, keys, next } => {
            numbers(4, *id, &[u64::from(*request), u64::from(next.is_some())], hash);
            for key in keys {
                hash.fold_bytes(&key.key);
                timestamp(key.version, hash);
            }
        }
        Message::Ir(message) => ir(message, hash),
        Message::Recover { transaction: id, participants, .. } => {
            numbers(5, *id, &[participants.len() as u64], hash);
        }
        Message::CoordinatorChange { transaction: id, ballot, .. } => {
            numbers(6, *id, &[ballot.0.into()], hash);
        }
        Message::CoordinatorChangeReply {
            transaction: id,
            ballot,
            view,
            outcome: known,
            committed,
            votes,
            accepted,
            settled,
        } => {
            let present =
                u64::from(committed.is_some()) + 2 * u64::from(accepted.is_some()) + 4 * u64::from(*settled);
            numbers(7, *id, &[ballot.0.into(), view.0, votes.len() as u64, present], hash);
            known.iter().for_each(|known| outcome(*known, hash));
        }
        Message::RecordOutcome { transaction: id, ballot, outcome: decided } => {
            numbers(8, *id, &[ballot.0.into()], hash);
            outcome(*decided, hash);
        }
        Message::RecordOutcomeReply { transaction: id, ballot, view } => {
            numbers(9, *id, &[ballot.0.into(), view.0], hash);
        }
        Message::Superseded { transaction: id, promised } => numbers(10, *id, &[promised.0.into()], hash),
        Message::RecoverReply { transaction: id, outcome: decided } => {
            numbers(11, *id, &[], hash);
            outcome(*decided, hash);
        }
        Message::CommitPrepared { id, timestamp: at, .. } => {
            numbers(13, id.transaction, &[u64::from(id.number)], hash);
            timestamp(*at, hash);
        }
        Message::Recorded { view, transactions } => {
            hash.fold_bytes(&view.0.to_le_bytes());
            transactions.iter().for_each(|id| numbers(40, *id, &[], hash));
        }
        Message::Gather { view, below, from, .. } => {
            numbers(14, from.1, &[view.0, below.micros, from.0.micros], hash);
        }
        Message::GatherReply { view, below, from, executed, open, .. } => {
            let sizes = [view.0, below.micros, executed.len() as u64, open.len() as u64];
            numbers(15, from.1, &sizes, hash);
        }
        Message::AreDecided { nonce, transactions } => {
            numbers(16, TransactionId::default(), &[*nonce, transactions.len() as u64], hash);
        }
        // A message that is not spelled out above: its readable form says all of it, at some cost.
        other => hash.fold_bytes(format!("{other:?}").as_bytes()),
    }
}

fn ir(message: &Ir<Tapir>, hash: &mut TraceHash) {
    let nobody = TransactionId::default();
    match message {
        Ir::ProposeInconsistent { id, operation } => {
            numbers(20, id.transaction, &[], hash);
            let commits = matches!(operation, quorate_tapir::message::Decision::Commit { .. });
            hash.fold(u64::from(commits));
        }
        Ir::ProposeConsensus { id, operation } => {
            numbers(21, id.transaction, &[id.number.into()], hash);
            timestamp(operation.timestamp, hash);
        }
        Ir::InconsistentReply { id, view } => numbers(22, id.transaction, &[view.0], hash),
        Ir::ConsensusReply { id, view, verdict, finalized } => {
            numbers(23, id.transaction, &[id.number.into(), view.0, u64::from(*finalized)], hash);
            vote(*verdict, hash);
        }
        Ir::FinalizeInconsistent { id } => numbers(24, id.transaction, &[], hash),
        Ir::FinalizeConsensus { id, verdict, view, ballot } => {
            numbers(25, id.transaction, &[id.number.into(), view.0, ballot.0.into()], hash);
            vote(*verdict, hash);
        }
        Ir::Confirm { id, view, verdict, finalized } => {
            numbers(26, id.transaction, &[id.number.into(), view.0, u64::from(*finalized)], hash);
            verdict.iter().for_each(|verdict| vote(*verdict, hash));
        }
        Ir::HigherView { view } => numbers(27, nobody, &[view.0], hash),
        Ir::StartViewChange { view } => numbers(28, nobody, &[view.0], hash),
        Ir::DoViewChange { view, lineage, part, page, .. } => {
            let sizes = [view.0, lineage.len() as u64, part.index.into(), page.entries.len() as u64];
            numbers(29, nobody, &sizes, hash);
        }
        Ir::StartView { view, since, part, page, .. } => {
            let sizes =
                [view.0, since.map_or(0, |since| since.0), part.index.into(), page.entries.len() as u64];
            numbers(30, nobody, &sizes, hash);
        }
        Ir::PartsMissing { view, missing, .. } => {
            let parts = missing.iter().map(|range| u64::from(range.last - range.first) + 1).sum();
            numbers(33, nobody, &[view.0, missing.len() as u64, parts], hash);
        }
        Ir::StateWanted { view, series, after } => {
            numbers(35, nobody, &[view.0, *series], hash);
            hash.fold_bytes(after);
        }
        Ir::StatePage { view, series, state, .. } => {
            numbers(36, nobody, &[view.0, *series, state.versions.len() as u64], hash);
        }
        Ir::Arrived => numbers(34, nobody, &[], hash),
        Ir::ViewQuery { nonce, life } => numbers(31, nobody, &[*nonce, *life], hash),
        Ir::ViewQueryReply { nonce, view, lost, life } => {
            numbers(32, nobody, &[*nonce, view.0, u64::from(*lost), *life], hash);
        }
    }
}

fn numbers(kind: u64, transaction: TransactionId, numbers: &[u64], hash: &mut TraceHash) {
    hash.fold(kind);
    hash.fold(transaction.client.0);
    hash.fold(transaction.sequence);
    hash.fold(transaction.attempt.into());
    numbers.iter().for_each(|number| hash.fold(*number));
}

fn timestamp(timestamp: Timestamp, hash: &mut TraceHash) {
    hash.fold(timestamp.micros);
    hash.fold(timestamp.client.0);
}

fn outcome(decided: Outcome, hash: &mut TraceHash) {
    match decided {
        Outcome::Committed(at) => timestamp(at, hash),
        Outcome::Aborted => hash.fold(0),
    }
}

fn vote(vote: quorate_tapir::message::Vote, hash: &mut TraceHash) {
    use quorate_tapir::message::Vote;
    match vote {
        Vote::Ok => hash.fold(1),
        Vote::Abstain => hash.fold(2),
        Vote::Abort => hash.fold(3),
        Vote::Retry(above) => timestamp(above, hash),
    }
}
