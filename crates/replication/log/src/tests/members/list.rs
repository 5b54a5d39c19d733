//! The machine of these tests: a list that is appended to and read, and that is replicated by the log.

use std::collections::BTreeMap;

use quorate_core::ReplicaId;
use quorate_core::log::{Confirmation, Log, LogMachine, LogOutbox, Position};
use quorate_core::machine::{Context, Input};
use quorate_core::verify::{Digester, Item};
use quorate_core::{ShardId, View};

/// A page holds so many values.
const PAGE: usize = 16;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tests) enum Ask {
    /// Put this value at the end. A multiple of seven has a successor, which follows by itself.
    Append(u64),
    /// Put these values there, one after the other.
    AppendMany(u64, u64),
    /// How long is the list? Because the leader has a lease.
    ReadByLease(u64),
    /// The same, because the others have confirmed that it leads.
    ReadByConfirmation(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tests) enum Told {
    /// The value stands at this place, counted from zero.
    Appended { value: u64, place: u64 },
    /// The list is so long.
    Read { number: u64, length: u64 },
    /// It may or may not be appended, or is not read.
    Failed(Ask),
}

/// The value at which the successors of sevens begin.
pub(super) const SUCCESSORS: u64 = 1 << 40;

#[derive(Debug)]
pub(in crate::tests) struct List {
    values: Vec<u64>,
    /// Up to here everything has been applied.
    applied: Position,
    /// At a leader: the values that are not stable yet, and who waits for an answer.
    appended: BTreeMap<Position, u64>,
    by_lease: Vec<u64>,
    by_confirmation: Vec<(Confirmation, u64)>,
    /// The view that it has been told that it leads.
    leads: Option<View>,
}

impl List {
    pub(super) fn values(&self) -> &[u64] {
        &self.values
    }

    fn answer(&mut self, context: &Context<'_>, log: &impl Log<u64>, outbox: &mut LogOutbox<Self>) {
        let length = self.values.len() as u64;
        if log.lease_until().is_some_and(|until| context.now < until) {
            for number in self.by_lease.drain(..) {
                outbox.emit(Told::Read { number, length });
            }
        }
        self.by_confirmation.retain(|(confirmation, number)| {
            let is_confirmed = log.has_confirmed(*confirmation);
            if is_confirmed {
                outbox.emit(Told::Read { number: *number, length });
            }
            !is_confirmed
        });
    }

    fn on_ask(
        &mut self,
        ask: Ask,
        context: &Context<'_>,
        log: &mut impl Log<u64>,
        outbox: &mut LogOutbox<Self>,
    ) {
        assert_eq!(log.leading(), self.leads, "it is told of each change");
        match ask {
            Ask::Append(value) => self.append(value, log, outbox),
            Ask::AppendMany(first, count) => {
                (first..first + count).for_each(|value| self.append(value, log, outbox));
            }
            Ask::ReadByLease(number) if self.leads.is_some() => self.by_lease.push(number),
            Ask::ReadByConfirmation(number) if self.leads.is_some() => {
                let confirmation = log.confirm().expect("it leads");
                self.by_confirmation.push((confirmation, number));
            }
            _ => outbox.emit(Told::Failed(ask)),
        }
        self.answer(context, log, outbox);
    }

    fn append(&mut self, value: u64, log: &mut impl Log<u64>, outbox: &mut LogOutbox<Self>) {
        match log.append(value) {
            Some(position) => {
                self.appended.insert(position, value);
            }
            None => outbox.emit(Told::Failed(Ask::Append(value))),
        }
    }
}

impl LogMachine for List {
    type Entry = u64;
    type Message = Ask;
    type Timer = ();
    type Command = Ask;
    type Event = Told;
    type Config = ();
    type Page = Vec<u64>;
    type Frozen = (Vec<u64>, usize);
    type Canonical = Self;

    fn new((): ()) -> Self {
        List {
            values: Vec::new(),
            applied: Position::START,
            appended: BTreeMap::new(),
            by_lease: Vec::new(),
            by_confirmation: Vec::new(),
            leads: None,
        }
    }

    fn bytes(_: &u64) -> usize {
        8
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Ask, (), Ask>,
        log: &mut impl Log<u64>,
        outbox: &mut LogOutbox<Self>,
    ) {
        match input {
            // A replica that does not lead passes it on, once.
            Input::Command(ask) if self.leads.is_none() => {
                outbox.send(ReplicaId { shard: ShardId(1), index: log.leader() }, ask);
            }
            Input::Command(ask) | Input::Message { message: ask, .. } => {
                self.on_ask(ask, context, log, outbox);
            }
            Input::Timer(()) => self.answer(context, log, outbox),
            Input::Start | Input::Persisted(_) => {}
        }
    }

    fn apply(
        &mut self,
        _: &mut Context<'_>,
        position: Position,
        value: &u64,
        log: &mut impl Log<u64>,
        outbox: &mut LogOutbox<Self>,
    ) {
        let place = self.values.len() as u64;
        self.values.push(*value);
        assert!(position > self.applied, "{position} is given out of turn");
        self.applied = position;
        if let Some(appended) = self.appended.remove(&position) {
            assert_eq!(appended, *value, "something else stands where it was appended");
            outbox.emit(Told::Appended { value: *value, place });
        }
        if value.is_multiple_of(7) && *value < SUCCESSORS {
            log.append(SUCCESSORS + *value);
        }
    }

    fn on_leading(
        &mut self,
        _: &mut Context<'_>,
        view: View,
        log: &mut impl Log<u64>,
        _: &mut LogOutbox<Self>,
    ) {
        assert_eq!((self.leads, log.leading()), (None, Some(view)));
        self.leads = Some(view);
    }

    fn on_deposed(&mut self, _: &mut Context<'_>, outbox: &mut LogOutbox<Self>) {
        assert!(self.leads.take().is_some(), "it did not lead");
        for (_, value) in std::mem::take(&mut self.appended) {
            outbox.emit(Told::Failed(Ask::Append(value)));
        }
        for number in self.by_lease.drain(..) {
            outbox.emit(Told::Failed(Ask::ReadByLease(number)));
        }
        for (_, number) in self.by_confirmation.drain(..) {
            outbox.emit(Told::Failed(Ask::ReadByConfirmation(number)));
        }
    }

    fn on_progress(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<u64>,
        outbox: &mut LogOutbox<Self>,
    ) {
        self.answer(context, log, outbox);
        if !self.by_lease.is_empty() {
            outbox.set_timer((), std::time::Duration::from_millis(5));
        }
    }

    fn freeze(&self) -> Self::Frozen {
        (self.values.clone(), 0)
    }

    fn digest(page: &Vec<u64>, digester: &mut Digester) {
        for value in page {
            let key = value.to_le_bytes();
            digester.add(Item { space: Item::DATA, key: &key, stamps: &[], value: None });
        }
    }

    fn next_page((values, given): &mut Self::Frozen) -> Option<Vec<u64>> {
        let page = values[*given..].iter().take(PAGE).copied().collect::<Vec<u64>>();
        *given += page.len();
        Some(page).filter(|page| !page.is_empty())
    }

    fn replace_state(&mut self, base: Position, pages: Vec<Vec<u64>>) {
        let values = pages.concat();
        assert!(base > self.applied, "what was given is taken back");
        self.applied = base;
        assert!(values.starts_with(&self.values), "what was applied is in it");
        self.values = values;
    }
}
