//! Reads: of the state that this replica has applied, for any client; and linearizable ones, for which it must lead.
//!
//! An answer is true of the instant at which it is made only if nobody else leads then. The leader knows that while it
//! holds its log's lease; else it asks the others whether it still leads, and the answer waits for theirs.

use quorate_core::log::Log;
use quorate_core::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, validate_key};
use quorate_core::{ClientId, Context, Key, KeyRange};

use super::{Out, Replica};
use crate::entry::{Entry, KeyState};
use crate::message::{Compare, Consistency, Message, Refusal};
use crate::rules::Plant;

impl Replica {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_get(
        &mut self,
        from: ClientId,
        request: u64,
        keys: Vec<Key>,
        consistency: Consistency,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let bytes = |key: &Key| key.len() + self.state.get(key).map_or(0, |stored| stored.value.len());
        if keys.len() > TRANSACTION_ENTRIES_MAX
            || keys.iter().map(bytes).sum::<usize>() > TRANSACTION_BYTES_MAX
        {
            return Self::refuse(from, request, Refusal::TooLarge, outbox);
        }
        let state = |key: Key| KeyState { stored: self.state.get(&key).cloned(), key };
        let found = keys.into_iter().map(state).collect();
        let (revision, position) = (self.state.revision, self.state.position);
        let reply = Message::GetReply { request, revision, position, found };
        self.answer(from, reply, consistency, context, log, outbox);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_scan(
        &mut self,
        from: ClientId,
        request: u64,
        range: &KeyRange,
        limit: u32,
        consistency: Consistency,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let keys_max = self.config.scan_page_max.min(limit as usize);
        let mut bytes = 0;
        let (mut found, mut next) = (Vec::new(), None);
        for (key, stored) in self.state.range(range) {
            if found.len() >= keys_max || bytes >= self.config.page_bytes_max {
                next = Some(key.clone());
                break;
            }
            bytes += key.len() + stored.value.len();
            found.push((key.clone(), stored.clone()));
        }
        let (revision, position) = (self.state.revision, self.state.position);
        assert!(found.len() <= keys_max, "{} keys go into a page of {keys_max}", found.len());
        let reply = Message::ScanReply { request, revision, position, found, next };
        self.answer(from, reply, consistency, context, log, outbox);
    }

    pub(super) fn on_check(
        &mut self,
        from: ClientId,
        request: u64,
        compares: &[Compare],
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if let Some(refusal) = refusal_of(compares) {
            return Self::refuse(from, request, refusal, outbox);
        }
        let holds = compares.iter().all(|compare| self.state.holds(compare));
        let (revision, position) = (self.state.revision, self.state.position);
        let reply = Message::CheckReply { request, revision, position, holds };
        self.answer(from, reply, Consistency::Linearizable, context, log, outbox);
    }

    fn answer(
        &mut self,
        to: ClientId,
        reply: Message,
        consistency: Consistency,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match consistency {
            Consistency::Stale => outbox.send(to, reply),
            Consistency::Linearizable
                if self.leader.is_some() && self.config.rules.has(Plant::LeaseNotChecked) =>
            {
                outbox.send(to, reply);
            }
            Consistency::Linearizable => self.answer_certainly(to, reply, context, log, outbox),
        }
    }

    /// Gives an answer once it is certain that nobody else led when it was made.
    pub(super) fn answer_certainly(
        &mut self,
        to: ClientId,
        reply: Message,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let request = reply.request();
        let Some(leader) = &mut self.leader else { return Self::send_not_leading(to, request, log, outbox) };
        if log.lease_until().is_some_and(|until| until > context.now) {
            return outbox.send(to, reply);
        }
        if leader.unconfirmed.len() >= self.config.waiting_max {
            return Self::refuse(to, request, Refusal::TooMany, outbox);
        }
        match log.confirm() {
            Some(confirmation) => {
                let before = leader.unconfirmed.back().map(|(before, ..)| before.0);
                assert!(
                    before <= Some(confirmation.0),
                    "an answer waits for {confirmation:?}, behind one that waits for {before:?}"
                );
                leader.unconfirmed.push_back((confirmation, to, reply));
                let waiting = leader.unconfirmed.len();
                assert!(waiting <= self.config.waiting_max, "{waiting} answers wait to be confirmed");
            }
            None => Self::send_not_leading(to, request, log, outbox),
        }
    }

    /// Gives the answers that have been confirmed.
    pub(super) fn send_confirmed(&mut self, log: &impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        while let Some((confirmation, ..)) = leader.unconfirmed.front()
            && log.has_confirmed(*confirmation)
            && let Some((_, to, reply)) = leader.unconfirmed.pop_front()
        {
            outbox.send(to, reply);
        }
    }
}

/// The fault in conditions, if there is one.
pub(super) fn refusal_of(compares: &[Compare]) -> Option<Refusal> {
    if compares.len() > TRANSACTION_ENTRIES_MAX {
        return Some(Refusal::TooLarge);
    }
    let is_sound = compares.iter().all(|compare| match compare {
        Compare::Key { key, .. } => validate_key(key).is_ok(),
        Compare::Range { .. } => true,
    });
    (!is_sound).then_some(Refusal::Malformed)
}
