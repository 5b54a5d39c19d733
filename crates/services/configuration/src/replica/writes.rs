//! Conditional writes. The leader only decides that they are appended: whether their conditions hold is decided by the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::log::{Log, Position};
use quorate_core::transaction::{
    TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, validate_key, validate_write,
};
use quorate_core::{ClientId, TransactionId};

use super::leader::wait;
use super::reads::refusal_of;
use super::state::KnownWrite;
use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::{ConditionalWrite, Message, Refusal, WriteResult};
use crate::rules::Plant;

impl Replica {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_write(
        &mut self,
        from: ClientId,
        request: u64,
        id: TransactionId,
        since: Position,
        write: Arc<ConditionalWrite>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        // A client that may write in the name of another could make it unknown what became of the other's writes.
        if from != id.client {
            return Self::refuse(from, request, Refusal::Malformed, outbox);
        }
        if let Some(refusal) = refusal_of(&write.compares).or_else(|| refusal_of_puts(&write)) {
            return Self::refuse(from, request, refusal, outbox);
        }
        let entry = Entry::Write { transaction: id, since, write };
        self.submit(from, request, id, since, entry, log, outbox);
    }

    pub(super) fn on_settle(
        &mut self,
        from: ClientId,
        request: u64,
        id: TransactionId,
        since: Position,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        // Nobody else knows since when its client knows the log: a client that claimed to would have forgotten writes settled anew.
        let since = if from == id.client { since } else { Position::START };
        self.submit(from, request, id, since, Entry::Settle { transaction: id, since }, log, outbox);
    }

    /// Appends what has not been done, and answers again what has.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message, and what becomes of it")]
    fn submit(
        &mut self,
        from: ClientId,
        request: u64,
        id: TransactionId,
        since: Position,
        entry: Entry,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let position = self.state.position;
        let known = match self.config.rules.has(Plant::RepeatedAfterFailOver) {
            true => {
                let done = self.leader.as_ref().and_then(|leader| leader.done.get(&id));
                done.map_or(KnownWrite::New, KnownWrite::Done)
            }
            false => self.state.known(id, since),
        };
        // A stable result may be told by any replica.
        match known {
            KnownWrite::Done(result) => {
                let result = *result;
                return outbox.send(from, Message::WriteReply { request, position, result });
            }
            KnownWrite::Superseded => {
                let result = WriteResult::Settled;
                return outbox.send(from, Message::WriteReply { request, position, result });
            }
            KnownWrite::TooOld => return Self::refuse(from, request, Refusal::TooOld, outbox),
            KnownWrite::New => {}
        }
        let Some(leader) = &mut self.leader else {
            return Self::send_not_leading(from, request, log, outbox);
        };
        if let Some(waiting) = leader.writes.get_mut(&id) {
            return wait(waiting, (from, request));
        }
        if leader.writes.len() >= self.config.waiting_max {
            return Self::refuse(from, request, Refusal::TooMany, outbox);
        }
        match log.append(entry) {
            Some(_) => {
                leader.writes.insert(id, BTreeSet::from([(from, request)]));
                let writes = leader.writes.len();
                assert!(writes <= self.config.waiting_max, "{writes} writes are to become stable");
            }
            None => Self::send_not_leading(from, request, log, outbox),
        }
    }

    /// It is known what became of a write.
    pub(super) fn on_write_applied(
        &mut self,
        id: TransactionId,
        result: Option<WriteResult>,
        outbox: &mut Out,
    ) {
        let position = self.state.position;
        let Some(leader) = &mut self.leader else { return };
        if let Some(result) = result.filter(|_| self.config.rules.has(Plant::RepeatedAfterFailOver)) {
            leader.done.insert(id, result);
        }
        for (to, request) in leader.writes.remove(&id).into_iter().flatten() {
            match result {
                Some(result) => outbox.send(to, Message::WriteReply { request, position, result }),
                None => Self::refuse(to, request, Refusal::TooOld, outbox),
            }
        }
    }
}

/// The fault in the puts of a write, if there is one.
fn refusal_of_puts(write: &ConditionalWrite) -> Option<Refusal> {
    if write.puts.len() > TRANSACTION_ENTRIES_MAX || write.bytes() > 2 * TRANSACTION_BYTES_MAX {
        return Some(Refusal::TooLarge);
    }
    let ascends = write.puts.is_sorted_by(|one, next| one.key < next.key);
    let is_sound = write.puts.iter().all(|put| match &put.value {
        Some(value) => validate_write(&put.key, value).is_ok(),
        None => validate_key(&put.key).is_ok(),
    });
    (!ascends || !is_sound).then_some(Refusal::Malformed)
}
