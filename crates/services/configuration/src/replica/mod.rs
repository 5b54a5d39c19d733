//! A replica: a machine on a replicated log.
//!
//! | file | role |
//! |---|---|
//! | `state` | what the entries of the log have led to |
//! | `history` | the last changes |
//! | `leader` | what only the leader knows, and loses with its leadership |
//! | `reads` | reads of what is here, and of what is certain |
//! | `writes` | conditional writes, and what became of them |
//! | `leases` | who holds what until when |
//! | `watches` | who is told of changes |
//! | `invariants` | what holds between any two steps |

mod history;
mod invariants;
mod leader;
mod leases;
mod reads;
mod state;
#[cfg(test)]
mod tests;
mod watches;
mod writes;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::log::{Log, LogMachine, LogOutbox, Position};
use quorate_core::verify::{Digester, Item};
use quorate_core::{Address, ClientId, Context, Input, Instant, Key, TransactionId, View};

use crate::config::ReplicaConfig;
use crate::entry::{Change, Entry, LeaseId, Page, Revision, Stored};
use crate::message::{Message, Refusal};
use leader::Leader;
pub use state::Frozen;
use state::{Applied, State};
use watches::Watches;

type Out = LogOutbox<Replica>;

/// A timer of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaTimer {
    /// The leader looks for leases that have ended.
    Leases,
    /// Watches that nobody has renewed end.
    Watches,
}

/// An event that a replica tells its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// It leads, and serves.
    Leading {
        /// In this view.
        view: View,
    },
    /// It leads no longer.
    Deposed,
}

/// A replica of the configuration.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    state: State,
    leader: Option<Leader>,
    watches: Watches,
    /// Until when leases last that were granted while this replica did not lead: only a planted bug remembers.
    granted_at: BTreeMap<LeaseId, Instant>,
}

impl Replica {
    /// How often the map has been written, as far as is known here.
    pub fn revision(&self) -> Revision {
        self.state.revision
    }

    /// How far the log has been applied.
    pub fn position(&self) -> Position {
        self.state.position
    }

    /// The value of a key, with its revision and its lease.
    pub fn get(&self, key: &Key) -> Option<&Stored> {
        self.state.get(key)
    }

    /// How many keys live.
    pub fn len(&self) -> usize {
        self.state.keys()
    }

    /// True if no key lives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys that live, ascending.
    pub fn keys(&self) -> impl Iterator<Item = (&Key, &Stored)> {
        self.state.all()
    }

    /// The changes that are not forgotten, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Arc<Change>> {
        self.state.history.changes()
    }

    /// The leases that have not ended, with their lengths.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, Duration)> {
        self.state.leases()
    }

    /// The outcomes of writes that it knows, ascending.
    pub fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        self.state.outcomes()
    }

    /// The view that it leads, if it does.
    pub fn leads(&self) -> Option<View> {
        self.leader.as_ref().map(|leader| leader.view)
    }

    /// How many requests wait here for something to become stable or to be confirmed.
    pub fn waiting(&self) -> usize {
        self.leader.as_ref().map_or(0, Leader::waiting)
    }

    /// How many watches it serves.
    pub fn watches(&self) -> usize {
        self.watches.len()
    }

    fn on_message(
        &mut self,
        from: ClientId,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match message {
            Message::Get { request, keys, consistency } => {
                self.on_get(from, request, keys, consistency, context, log, outbox);
            }
            Message::Scan { request, range, limit, consistency } => {
                self.on_scan(from, request, &range, limit, consistency, context, log, outbox);
            }
            Message::Check { request, compares } => {
                self.on_check(from, request, &compares, context, log, outbox);
            }
            Message::Write { request, transaction, since, write } => {
                self.on_write(from, request, transaction, since, write, log, outbox);
            }
            Message::Settle { request, transaction, since } => {
                self.on_settle(from, request, transaction, since, log, outbox);
            }
            Message::Grant { request, lease, duration } => {
                self.on_grant(from, request, lease, duration, context, log, outbox);
            }
            Message::Renew { request, lease } => self.on_renew(from, request, lease, context, log, outbox),
            Message::Release { request, lease } => {
                self.on_release(from, request, lease, context, log, outbox)
            }
            Message::Watch { request, range, after } => {
                self.on_watch(from, request, range, after, context, outbox);
            }
            Message::Unwatch { request } => self.watches.remove(from, request),
            Message::GetReply { .. }
            | Message::ScanReply { .. }
            | Message::CheckReply { .. }
            | Message::WriteReply { .. }
            | Message::Renewed { .. }
            | Message::NoSuchLease { .. }
            | Message::Changes { .. }
            | Message::Forgotten { .. }
            | Message::NotLeading { .. }
            | Message::Refused { .. } => outbox.ignored("only clients are told so"),
        }
    }

    /// Does nothing about a question but say who may.
    fn send_not_leading(to: ClientId, request: u64, log: &impl Log<Entry>, outbox: &mut Out) {
        outbox.send(to, Message::NotLeading { request, leader: log.leader() });
    }

    fn refuse(to: ClientId, request: u64, refusal: Refusal, outbox: &mut Out) {
        outbox.send(to, Message::Refused { request, refusal });
    }
}

impl LogMachine for Replica {
    type Entry = Entry;
    type Message = Message;
    type Timer = ReplicaTimer;
    type Command = Infallible;
    type Event = ReplicaEvent;
    type Config = ReplicaConfig;
    type Page = Page;
    type Frozen = Frozen;
    type Canonical = Self;

    fn new(config: ReplicaConfig) -> Self {
        let state = State::new(config.limits, config.rules);
        Replica { config, state, leader: None, watches: Watches::default(), granted_at: BTreeMap::new() }
    }

    fn bytes(entry: &Entry) -> usize {
        entry.bytes()
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, ReplicaTimer, Infallible>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match input {
            Input::Start | Input::Persisted(_) => {}
            Input::Message { from: Address::Client(from), message, .. } => {
                self.on_message(from, message, context, log, outbox);
            }
            Input::Message { from: Address::Replica(_), .. } => {
                outbox.ignored("replicas of the configuration have nothing to say to each other");
            }
            Input::Timer(ReplicaTimer::Leases) => self.on_leases_timeout(context, log, outbox),
            Input::Timer(ReplicaTimer::Watches) => self.on_watches_timeout(context, outbox),
            Input::Command(command) => match command {},
        }
    }

    fn apply(
        &mut self,
        context: &mut Context<'_>,
        position: Position,
        entry: &Entry,
        _: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let before = self.state.revision;
        let applied = self.state.apply(position, entry);
        match (entry, applied) {
            (
                Entry::Write { transaction, .. } | Entry::Settle { transaction, .. },
                Applied::Write(result),
            ) => {
                self.on_write_applied(*transaction, result, outbox);
            }
            (Entry::Grant { lease, duration }, Applied::Granted(is_granted)) => {
                self.on_granted(*lease, *duration, is_granted, context, outbox);
            }
            (Entry::End { lease }, _) => self.on_lease_ended(*lease, outbox),
            (entry, applied) => unreachable!("{entry:?} has led to {applied:?}"),
        }
        let (position_now, revision) = (self.state.position, self.state.revision);
        assert!(position_now == position, "the entry at {position:?} has led to {position_now:?}");
        assert!(
            before <= revision && revision <= before.next(),
            "one entry has led from {before:?} to {revision:?}"
        );
        if self.state.revision > before {
            self.send_change(outbox);
        }
    }

    fn on_leading(
        &mut self,
        context: &mut Context<'_>,
        view: View,
        _: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let leads = self.leads();
        assert!(leads < Some(view), "{view:?} is led after {leads:?}");
        self.leader = Some(Leader::new(view));
        self.restart_leases(context);
        outbox.set_timer(ReplicaTimer::Leases, self.config.attention_interval);
        outbox.emit(ReplicaEvent::Leading { view });
    }

    /// Clients that wait are told, and ask again: who leads is known in a moment.
    fn on_deposed(&mut self, _: &mut Context<'_>, outbox: &mut Out) {
        let Some(leader) = self.leader.take() else { return };
        let myself = self.config.replica.index;
        for (client, request) in leader.into_askers() {
            outbox.send(client, Message::NotLeading { request, leader: myself });
        }
        outbox.cancel_timer(ReplicaTimer::Leases);
        outbox.emit(ReplicaEvent::Deposed);
    }

    fn on_progress(&mut self, _: &mut Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        self.send_confirmed(log, outbox);
    }

    fn freeze(&self) -> Frozen {
        self.state.freeze(self.config.page_bytes_max)
    }

    /// Of what pages hold, the map: leases and the results of clients' writes pass.
    fn digest(page: &Page, digester: &mut Digester) {
        let Page::Keys(keys) = page else { return };
        for (key, Stored { value, created, changed, lease }) in keys {
            let (client, number) = lease.map_or((0, 0), |lease| (lease.client.0, lease.number));
            let stamps = [created.0, changed.0, client, number];
            digester.add(Item { space: Item::DATA, key, stamps: &stamps, value: Some(value) });
        }
    }

    fn next_page(frozen: &mut Frozen) -> Option<Page> {
        frozen.next_page()
    }

    fn replace_state(&mut self, base: Position, pages: Vec<Page>) {
        let before = self.state.position;
        assert!(base >= before, "the state at {base:?} takes the place of that at {before:?}");
        self.state = State::from_pages(base, pages, self.config.limits, self.config.rules);
        self.watches.fall_behind();
    }
}
