//! Snapshots are taken and read (sections 5.1 and 5.3).
//!
//! A new snapshot is a copy of what has committed at the site, made at once. It is right only if this replica still leads: else another
//! one may have committed more. The leader knows that it leads while it holds a lease of the log; else it asks the others, and the answer
//! waits for theirs.

use std::ops::Bound;

use quorate_core::command::End;
use quorate_core::log::Log;
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{Address, Context, Key, KeyRange, TransactionId, Value};

use super::leader::Waiting;
use super::{Out, Replica, WAITING_MAX};
use crate::entry::Entry;
use crate::histories::{Count, Elements, TooOld};
use crate::message::{Found, Member, Message, Snapshot, Wanted};
use crate::reasons;
use crate::rules::Plant;
use crate::vector::Vector;

/// A page of members ends once it has more bytes: each may be as large as a value.
const MEMBERS_BYTES_MAX: usize = 1024 * 1024;

impl Replica {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read(
        &mut self,
        from: Address,
        transaction: TransactionId,
        request: u32,
        snapshot: Snapshot,
        wanted: Vec<Wanted>,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if from != Address::Client(transaction.client) {
            return outbox.ignored(reasons::FOREIGN);
        }
        // Ranges and elements are read one at a time, so that no client keeps a site busy for long.
        let is_large = |wanted: &Wanted| {
            matches!(wanted, Wanted::Range(..) | Wanted::Elements { .. } | Wanted::Members { .. })
        };
        if wanted.len() > TRANSACTION_ENTRIES_MAX || (wanted.len() > 1 && wanted.iter().any(is_large)) {
            return outbox.ignored(reasons::MALFORMED);
        }
        if self.leader.is_none() {
            return self.send_not_leading(from, Some(transaction), log, outbox);
        }
        if let Some(last) = self.abandoned(snapshot.least()) {
            return outbox.send(from, Message::Abandoned { transaction, last });
        }
        if let Some(last) = self.never_committed(snapshot.least()) {
            let reply = Message::NeverCommitted { transaction, last };
            return self.send_if_leading(from, reply, context, log, outbox);
        }
        if !self.has_committed(snapshot.least()) {
            let needs = snapshot.least().clone();
            let message = Message::Read { transaction, request, snapshot, wanted };
            return self.wait(from, message, needs, context, outbox);
        }
        let (snapshot, is_new) = match snapshot {
            Snapshot::Taken(snapshot) => (snapshot, false),
            Snapshot::New(_) => (self.state.committed.clone(), true),
        };
        let found: Result<Vec<Found>, TooOld> =
            wanted.iter().map(|wanted| self.find(wanted, &snapshot)).collect();
        let reply = match found {
            Ok(found) => {
                Message::ReadReply { transaction, request, snapshot, found, period: self.state.period }
            }
            Err(_) => return self.send_too_old(from, transaction, None, outbox),
        };
        match is_new {
            true => self.send_if_leading(from, reply, context, log, outbox),
            false => outbox.send(from, reply),
        }
    }

    fn find(&self, wanted: &Wanted, snapshot: &Vector) -> Result<Found, TooOld> {
        Ok(match wanted {
            Wanted::Register(key) => {
                let written = self.state.histories.read(key, snapshot)?;
                let version = written.map(|written| written.version);
                Found::Register { version, value: written.and_then(|written| written.value.clone()) }
            }
            Wanted::Range(range, limit) => {
                let limit = self.config.scan_page_max.min(*limit as usize);
                let (entries, next) = self.state.histories.scan(range, limit, snapshot)?;
                Found::Range { entries, next }
            }
            Wanted::Count { set, element } => {
                Found::Count(self.state.histories.count(set, element, snapshot)?)
            }
            Wanted::Elements { set, range, from, limit } => {
                let Elements { counts, is_cut } = self.elements(set, range, *from, *limit, snapshot)?;
                Found::Elements { counts, is_cut }
            }
            Wanted::Members { set, range, from, limit } => {
                let elements = self.elements(set, range, *from, *limit, snapshot)?;
                self.members(elements, snapshot)?
            }
            Wanted::InFlight(key) => {
                let written = self.state.histories.read(key, snapshot)?;
                Found::InFlight(written.is_some_and(|written| !self.is_everywhere(written.version)))
            }
            Wanted::Container(name) => Found::Container(self.found(name, snapshot)),
        })
    }

    fn elements(
        &self,
        set: &Key,
        range: &KeyRange,
        from: End,
        limit: u32,
        snapshot: &Vector,
    ) -> Result<Elements, TooOld> {
        let limit = self.config.scan_page_max.min(limit as usize);
        let to = range.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        self.state.histories.elements(set, (Bound::Included(&range.from), to), from, limit, snapshot)
    }

    /// The registers whose keys these elements are, as many as fit into a page.
    fn members(&self, elements: Elements, snapshot: &Vector) -> Result<Found, TooOld> {
        let (mut members, mut bytes, mut is_cut) = (Vec::new(), 0, elements.is_cut);
        for Count { element, count, .. } in elements.counts {
            if bytes > MEMBERS_BYTES_MAX {
                is_cut = true;
                break;
            }
            let written = self.state.histories.read(&element, snapshot)?;
            let version = written.map(|written| written.version);
            let value = written.and_then(|written| written.value.clone());
            bytes += element.len() + value.as_ref().map_or(0, Value::len);
            members.push(Member { element, count, version, value });
        }
        Ok(Found::Members { members, is_cut })
    }

    /// True if all of this has committed here.
    pub(super) fn has_committed(&self, vector: &Vector) -> bool {
        self.state.committed.includes_all(vector) || self.config.rules.has(Plant::SessionForgotten)
    }

    /// The request is handled again once all that it needs has committed here.
    pub(super) fn wait(
        &mut self,
        from: Address,
        message: Message,
        needs: Vector,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let since = context.now;
        self.wait_for(Waiting { from, message, needs, since, until: None, question: None }, outbox);
    }

    /// A request waits. One for which there is no room comes again.
    pub(super) fn wait_for(&mut self, waits: Waiting, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        let of_client = leader.waiting.iter().filter(|waiting| waiting.from == waits.from).count();
        if leader.waiting.len() >= WAITING_MAX / 10 || of_client >= WAITING_MAX / 100 {
            return outbox.ignored(reasons::TOO_MANY);
        }
        leader.waiting.push(waits);
    }

    /// Handles what has waited for what has committed since.
    pub(super) fn wake(&mut self, context: &mut Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        if leader.waiting.is_empty() {
            return;
        }
        let committed = &self.state.committed;
        let is_over = |waiting: &Waiting| waiting.until.is_none_or(|until| context.now >= until);
        let is_ready = |waiting: &mut Waiting| is_over(waiting) && committed.includes_all(&waiting.needs);
        let ready: Vec<Waiting> = leader.waiting.extract_if(.., is_ready).collect();
        for Waiting { from, message, .. } in ready {
            self.on_message(from, message, context, log, outbox);
        }
    }

    /// Sends an answer that is right only if this replica led when it was made.
    pub(super) fn send_if_leading(
        &mut self,
        to: Address,
        reply: Message,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        let has_lease = log.lease_until().is_some_and(|until| context.now < until);
        if has_lease || self.config.rules.has(Plant::LeaseNotChecked) {
            outbox.send(to, reply);
        } else if leader.unconfirmed.len() >= WAITING_MAX {
            outbox.ignored(reasons::TOO_MANY);
        } else if let Some(confirmation) = log.confirm() {
            leader.unconfirmed.push_back((confirmation, to, reply));
        } else {
            outbox.ignored(reasons::NOT_LEADING);
        }
    }

    /// Sends what has been confirmed since.
    pub(super) fn send_confirmed(&mut self, log: &impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        while let Some((confirmation, ..)) = leader.unconfirmed.front()
            && log.has_confirmed(*confirmation)
        {
            if let Some((_, to, reply)) = leader.unconfirmed.pop_front() {
                outbox.send(to, reply);
            }
        }
    }
}
