//! Snapshots are taken and read (sections 5.1 and 5.3).
//!
//! A new snapshot is a copy of what has committed at the site, made at once. It is right only if this replica still leads: else another
//! one may have committed more. The leader knows that it leads while it holds a lease of the log; else it asks the others, and the answer
//! waits for theirs.
//!
//! Objects that have no replica here are at other sites. A snapshot says all by itself what belongs into it, so any replica of them can read it that has
//! received what it includes; and what was written at the client's own site goes along with the answer that they are elsewhere.

use std::ops::Bound;

use quorate_core::command::End;
use quorate_core::log::Log;
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{Address, Context, Instant, Key, KeyRange, TransactionId, Value};

use super::leader::{Awaits, Waiting};
use super::{Out, Replica, WAITING_MAX};
use crate::entry::Entry;
use crate::histories::{Count, Elements, TooOld};
use crate::message::{Found, Member, Message, Period, Snapshot, Wanted};
use crate::reasons;
use crate::register::Written;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector, VersionNumber};

/// True if a client asks for no more than is moderate: ranges and elements are read one at a time, so that no client keeps a site busy for
/// long.
fn is_moderate(wanted: &[Wanted]) -> bool {
    let is_large = |wanted: &Wanted| {
        matches!(wanted, Wanted::Range(..) | Wanted::Elements { .. } | Wanted::Members { .. })
    };
    wanted.len() <= TRANSACTION_ENTRIES_MAX && (wanted.len() <= 1 || !wanted.iter().any(is_large))
}

/// True unless a snapshot waits for a transaction of another client, or for the one that takes it.
pub(super) fn follows_its_own(transaction: TransactionId, snapshot: &Snapshot) -> bool {
    snapshot
        .earlier()
        .is_none_or(|(earlier, _)| earlier.client == transaction.client && earlier != transaction)
}

/// The bounds of a range of elements.
fn bounds(range: &KeyRange) -> (Bound<&Key>, Bound<&Key>) {
    (Bound::Included(&range.from), range.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded))
}

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
        if !is_moderate(&wanted) || !follows_its_own(transaction, &snapshot) {
            return outbox.ignored(reasons::MALFORMED);
        }
        if self.leader.is_none() {
            return self.send_not_leading(from, Some(transaction), log, outbox);
        }
        if self.denies(from, transaction, snapshot.least(), context, log, outbox) {
            return;
        }
        if !self.has_committed(snapshot.least()) {
            let needs = snapshot.least().clone();
            let message = Message::Read { transaction, request, snapshot, wanted };
            return self.wait(from, message, needs, context, outbox);
        }
        if let Some((earlier, period)) = self.awaited_ending(&snapshot) {
            if period <= self.state.forgotten {
                return self.send_too_old(from, transaction, Some(period), outbox);
            }
            let message = Message::Read { transaction, request, snapshot, wanted };
            return self.wait_for_ending(from, message, earlier, context.now, outbox);
        }
        let (snapshot, is_new) = match snapshot {
            Snapshot::Taken(snapshot) => (snapshot, false),
            Snapshot::New(_) | Snapshot::After { .. } => (self.state.committed.clone(), true),
        };
        assert!(
            self.has_committed(&snapshot),
            "{transaction} reads {snapshot}, and {} has committed",
            self.state.committed
        );
        let found: Result<Vec<Found>, TooOld> =
            wanted.iter().map(|wanted| self.find(wanted, &snapshot, None)).collect();
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

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_copy(
        &mut self,
        from: Address,
        transaction: TransactionId,
        request: u32,
        snapshot: Vector,
        home: LocalSite,
        wanted: Vec<Wanted>,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if from != Address::Client(transaction.client) {
            return outbox.ignored(reasons::FOREIGN);
        }
        // Elements are asked for without the registers that they name: these may be at other sites again.
        let is_of_home = |wanted: &Wanted| matches!(wanted, Wanted::InFlight(_) | Wanted::Members { .. });
        let is_site = self.sites().any(|site| site == home);
        if !is_moderate(&wanted) || !is_site || wanted.iter().any(is_of_home) {
            return outbox.ignored(reasons::MALFORMED);
        }
        if self.leader.is_none() {
            return self.send_not_leading(from, Some(transaction), log, outbox);
        }
        if self.denies(from, transaction, &snapshot, context, log, outbox) {
            return;
        }
        let mut needs = snapshot.clone();
        if !wanted.iter().any(|wanted| matches!(wanted, Wanted::Range(..))) {
            // The answer of the client's site has held its own transactions. Of a range it has not: all pages are of the snapshot as it is.
            needs.exclude_above(VersionNumber { site: home, seqno: 0 });
        }
        let received = self.state.histories.received();
        if !received.includes_all(&needs) && !self.config.rules.has(Plant::CopyReadEarly) {
            let message = Message::ReadCopy { transaction, request, snapshot, home, wanted };
            let (since, awaits) = (context.now, Awaits::Received);
            let waits = Waiting { from, message, awaits, needs, since, until: None, question: None };
            return self.wait_for(waits, outbox);
        }
        // A copy that is about to be given up is at other sites as well, and values of it may not come here any more.
        let keeps = |wanted: &Wanted| match wanted {
            Wanted::Register(key) | Wanted::Count { set: key, .. } | Wanted::Elements { set: key, .. } => {
                self.state.histories.keeps(key)
            }
            Wanted::Members { set: key, .. } => self.state.histories.keeps(key),
            Wanted::Range(..) | Wanted::Container(_) | Wanted::InFlight(_) => true,
        };
        if !wanted.iter().all(keeps) {
            return outbox.ignored(reasons::NO_COPY);
        }
        let included = received.of(home);
        let found: Result<Vec<Found>, TooOld> =
            wanted.iter().map(|wanted| self.find(wanted, &snapshot, Some(home))).collect();
        match found {
            Ok(found)
                if found
                    .iter()
                    .any(|found| matches!(found, Found::Elsewhere { .. } | Found::Container { .. })) =>
            {
                outbox.ignored(reasons::NO_COPY);
            }
            Ok(found) => {
                self.copies_read += 1;
                outbox.send(from, Message::CopyReply { transaction, request, included, found });
            }
            Err(_) => self.send_too_old(from, transaction, None, outbox),
        }
    }

    /// Finds something for a client of this site; or for one of another site, which has not got it.
    fn find(&self, wanted: &Wanted, snapshot: &Vector, home: Option<LocalSite>) -> Result<Found, TooOld> {
        let histories = &self.state.histories;
        Ok(match wanted {
            Wanted::Register(key) => {
                let written = histories.read(key, snapshot)?;
                if self.is_elsewhere(key, written, snapshot) {
                    return Ok(Found::Elsewhere {
                        sites: self.copies_elsewhere(key, snapshot),
                        own: Vec::new(),
                    });
                }
                let version = written.map(|written| written.version);
                assert!(
                    version.is_none_or(|version| snapshot.includes(version)),
                    "{version:?} of {key:?} is read in {snapshot}"
                );
                Found::Register { version, value: written.and_then(|written| written.value.clone()) }
            }
            Wanted::Range(range, limit) => {
                let limit = self.config.scan_page_max.min(*limit as usize);
                let is_wanted =
                    |key: &Key| home.is_none_or(|home| !histories.replicas(key, snapshot).has(home));
                let (entries, next) = histories.scan(range, limit, snapshot, is_wanted)?;
                assert!(entries.len() <= limit, "a page has {} entries of {limit}", entries.len());
                let elsewhere = if home.is_none() { self.sets_elsewhere() } else { Vec::new() };
                Found::Range { entries, next, elsewhere }
            }
            Wanted::Count { set, element } if histories.holds(set, snapshot) => {
                Found::Count(histories.count(set, element, snapshot)?)
            }
            Wanted::Elements { set, range, from, limit } if histories.holds(set, snapshot) => {
                let Elements { counts, is_cut } = self.elements(set, range, *from, *limit, snapshot)?;
                Found::Elements { counts, is_cut }
            }
            Wanted::Members { set, range, from, limit } if histories.holds(set, snapshot) => {
                let elements = self.elements(set, range, *from, *limit, snapshot)?;
                self.members(elements, snapshot)?
            }
            Wanted::Count { set, element } => {
                self.set_elsewhere(set, (Bound::Included(element), Bound::Included(element)), snapshot)?
            }
            Wanted::Elements { set, range, .. } | Wanted::Members { set, range, .. } => {
                self.set_elsewhere(set, bounds(range), snapshot)?
            }
            Wanted::InFlight(key) => {
                let written = histories.read(key, snapshot)?;
                Found::InFlight(written.is_some_and(|written| !self.is_everywhere(written.version)))
            }
            Wanted::Container(name) => {
                let (container, copies_min) = (self.found(name, snapshot), self.durable_at() as u32);
                Found::Container { container, copies_min }
            }
        })
    }

    /// A set that has no replica here, with what this site has added to it.
    fn set_elsewhere(
        &self,
        set: &Key,
        between: (Bound<&Key>, Bound<&Key>),
        snapshot: &Vector,
    ) -> Result<Found, TooOld> {
        let own = self.state.histories.own_changes(set, between, snapshot)?;
        Ok(Found::Elsewhere { sites: self.copies_elsewhere(set, snapshot), own })
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
        let elements = self.state.histories.elements(set, bounds(range), from, limit, snapshot)?;
        assert!(elements.counts.len() <= limit, "a page has {} counts of {limit}", elements.counts.len());
        Ok(elements)
    }

    /// The registers whose keys these elements are, as many as fit into a page, and as far as they have a replica here.
    fn members(&self, elements: Elements, snapshot: &Vector) -> Result<Found, TooOld> {
        let (mut members, mut bytes, mut is_cut) = (Vec::new(), 0, elements.is_cut);
        for Count { element, count, .. } in elements.counts {
            if bytes > MEMBERS_BYTES_MAX {
                is_cut = true;
                break;
            }
            let written = self.state.histories.read(&element, snapshot)?;
            let is_elsewhere = self.is_elsewhere(&element, written, snapshot);
            let version = written.filter(|_| !is_elsewhere).map(|written| written.version);
            let value = written.and_then(|written| written.value.clone());
            bytes += element.len() + value.as_ref().map_or(0, Value::len);
            members.push(Member { element, count, is_elsewhere, version, value });
        }
        Ok(Found::Members { members, is_cut })
    }

    /// True if the value of a register is not known here. A version that was written here is the newest one, wherever the others are.
    fn is_elsewhere(&self, key: &Key, written: Option<&Written>, snapshot: &Vector) -> bool {
        written.map_or(!self.state.histories.holds(key, snapshot), |written| written.is_elsewhere)
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
        let (since, awaits) = (context.now, Awaits::Committed);
        self.wait_for(Waiting { from, message, awaits, needs, since, until: None, question: None }, outbox);
    }

    /// The request is handled again once it is known how an earlier transaction of its client has ended.
    pub(super) fn wait_for_ending(
        &mut self,
        from: Address,
        message: Message,
        earlier: TransactionId,
        now: Instant,
        outbox: &mut Out,
    ) {
        let (awaits, needs) = (Awaits::Ending(earlier), Vector::default());
        let waits = Waiting { from, message, awaits, needs, since: now, until: None, question: None };
        self.wait_for(waits, outbox);
    }

    /// The request is handled again once a share of a counter has come.
    pub(super) fn wait_for_share(&mut self, from: Address, message: Message, now: Instant, outbox: &mut Out) {
        let Some(leader) = &self.leader else { return };
        let (awaits, needs) = (Awaits::Share(leader.shares.come), Vector::default());
        self.wait_for(
            Waiting { from, message, awaits, needs, since: now, until: None, question: None },
            outbox,
        );
    }

    /// The request is handled again once the ends of all sites that were taken out are settled here.
    pub(super) fn wait_for_ends(&mut self, from: Address, message: Message, now: Instant, outbox: &mut Out) {
        let (awaits, needs) = (Awaits::Ends, Vector::default());
        self.wait_for(
            Waiting { from, message, awaits, needs, since: now, until: None, question: None },
            outbox,
        );
    }

    /// The earlier transaction that a snapshot waits for; none once it is known how that has ended.
    pub(super) fn awaited_ending(&self, snapshot: &Snapshot) -> Option<(TransactionId, Period)> {
        let is_open = |(earlier, _): &(TransactionId, Period)| self.state.ending(*earlier).is_none();
        snapshot.earlier().filter(is_open).filter(|_| !self.config.rules.has(Plant::EarlierIgnored))
    }

    /// A request waits. One for which there is no room comes again.
    pub(super) fn wait_for(&mut self, waits: Waiting, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        let of_client = leader.waiting.iter().filter(|waiting| waiting.from == waits.from).count();
        if leader.waiting.len() >= WAITING_MAX / 10 || of_client >= WAITING_MAX / 100 {
            return outbox.ignored(reasons::TOO_MANY);
        }
        leader.waiting.push(waits);
        assert!(leader.waiting.len() <= WAITING_MAX / 10, "{} requests wait", leader.waiting.len());
    }

    /// Handles what has waited for what has committed or was received since.
    pub(super) fn wake(&mut self, context: &mut Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        if leader.waiting.is_empty() {
            return;
        }
        let (committed, received) = (&self.state.committed, self.state.histories.received());
        let is_over = |waiting: &Waiting| waiting.until.is_none_or(|until| context.now >= until);
        let has_come = |waiting: &Waiting| match waiting.awaits {
            Awaits::Committed => committed.includes_all(&waiting.needs),
            Awaits::Received => received.includes_all(&waiting.needs),
            Awaits::Ending(earlier) => self.state.ending(earlier).is_some(),
            Awaits::Share(come) => leader.shares.come > come,
            Awaits::Ends => leader.freezing.len() <= self.state.removals.len() && self.state.are_settled(),
        };
        let is_ready = |waiting: &mut Waiting| is_over(waiting) && has_come(waiting);
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
            assert!(leader.unconfirmed.len() <= WAITING_MAX, "{} answers wait", leader.unconfirmed.len());
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
