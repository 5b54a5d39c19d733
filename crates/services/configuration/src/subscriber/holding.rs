//! A lease that is held, or is to be.
//!
//! Its end is counted from when it was *asked* that it be granted or renewed, and earlier by the share by which time may pass
//! faster elsewhere. Once it is over for its holder, it is never taken up again, whatever answer comes.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{Context, Instant};

use super::asking::REDIRECTS_MAX;
use super::{About, Out, Subscriber, SubscriberEvent};
use crate::config::rate_error;
use crate::entry::LeaseId;
use crate::message::{Message, Refusal};
use crate::rules::Plant;

/// A lease that is held, or is to be.
#[derive(Debug)]
pub struct Holding {
    duration: Duration,
    stage: Stage,
    /// Until when it is held.
    until: Option<Instant>,
    /// When it was first asked for: that is when it began, whichever answer says so.
    began: Instant,
    /// When each renewal was asked for that may still be answered.
    asked: BTreeMap<u64, Instant>,
    redirects: u32,
    /// When to ask again, or for the first time.
    ask_at: Instant,
    /// True if it was asked and there was no answer.
    is_waiting: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Granting,
    Held,
    Releasing,
}

impl Holding {
    /// Until when the lease is held; none if it is not.
    pub fn until(&self) -> Option<Instant> {
        self.until.filter(|_| self.stage == Stage::Held)
    }

    /// True if it is held now.
    pub fn is_held(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// When there is no use in asking for anything any more.
    fn ends(&self) -> Instant {
        self.until.unwrap_or(self.began + self.duration)
    }

    pub(super) fn wakes_at(&self) -> Instant {
        self.ask_at.min(self.ends())
    }
}

impl Subscriber {
    pub(super) fn begin_hold(
        &mut self,
        number: u64,
        duration: Duration,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let now = context.now;
        let holding = Holding {
            duration,
            stage: Stage::Granting,
            until: None,
            began: now,
            asked: BTreeMap::new(),
            redirects: 0,
            ask_at: now,
            is_waiting: false,
        };
        self.holdings.insert(number, holding);
        self.ask_lease(number, context, outbox);
    }

    fn ask_lease(&mut self, number: u64, context: &Context<'_>, outbox: &mut Out) {
        let request = self.next_request(Some(About::Lease(number)));
        let (to, lease) = (self.replica(self.leader), self.lease(number));
        let ask_at = context.now + self.config.resend_timeout;
        let Some(holding) = self.holdings.get_mut(&number) else { return };
        (holding.ask_at, holding.is_waiting) = (ask_at, true);
        let began = if holding.stage == Stage::Granting { holding.began } else { context.now };
        holding.asked.insert(request, began);
        let message = match holding.stage {
            Stage::Granting => Message::Grant { request, lease, duration: holding.duration },
            Stage::Held => Message::Renew { request, lease },
            Stage::Releasing => Message::Release { request, lease },
        };
        outbox.send(to, message);
    }

    pub(super) fn redirect_lease(&mut self, number: u64, context: &Context<'_>, outbox: &mut Out) {
        let Some(holding) = self.holdings.get_mut(&number) else { return };
        holding.redirects += 1;
        if holding.is_waiting && holding.redirects <= REDIRECTS_MAX {
            self.ask_lease(number, context, outbox);
        }
    }

    pub(super) fn on_renewed(
        &mut self,
        request: u64,
        lease: LeaseId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let (rules, ppm) = (self.config.rules, self.config.rate_error_ppm);
        let number = lease.number;
        let Some(holding) = self.holdings.get_mut(&number) else { return };
        let Some(mut asked) = holding.asked.remove(&request) else { return };
        if holding.stage == Stage::Releasing {
            return;
        }
        if rules.has(Plant::LeaseFromAnswer) {
            asked = context.now;
        }
        let until = asked + holding.duration.saturating_sub(rate_error(holding.duration, ppm));
        let until = holding.until.map_or(until, |known| known.max(until));
        assert!(
            until <= context.now + holding.duration,
            "a lease of {:?} is held until {until:?}, and it is {:?}",
            holding.duration,
            context.now
        );
        (holding.stage, holding.until) = (Stage::Held, Some(until));
        (holding.is_waiting, holding.redirects) = (false, 0);
        holding.ask_at = asked + holding.duration / 3;
        // Answers to what was asked earlier say nothing new.
        let mut questions = std::mem::take(&mut holding.asked);
        holding.asked = questions.split_off(&request);
        for old in questions.into_keys().chain([request]) {
            self.questions.remove(&old);
        }
        let asked = holding.asked.keys().next();
        assert!(asked.is_none_or(|asked| *asked > request), "{asked:?} waits, and {request} is answered");
        match until > context.now {
            true => outbox.emit(SubscriberEvent::Held { number, until }),
            false => self.lose(number, None, outbox),
        }
    }

    pub(super) fn on_no_such_lease(&mut self, lease: LeaseId, outbox: &mut Out) {
        if lease.client == self.config.client {
            self.lose(lease.number, None, outbox);
        }
    }

    /// A request about a lease is refused. A subscriber that holds the lease already asks again.
    pub(super) fn on_lease_refused(&mut self, number: u64, refusal: Refusal, outbox: &mut Out) {
        if self.holdings.get(&number).is_some_and(|holding| holding.stage == Stage::Granting) {
            self.lose(number, Some(refusal), outbox);
        }
    }

    /// A lease is not held any more.
    pub(super) fn lose(&mut self, number: u64, refusal: Option<Refusal>, outbox: &mut Out) {
        let Some(holding) = self.holdings.remove(&number) else { return };
        for request in holding.asked.into_keys() {
            self.questions.remove(&request);
        }
        if holding.stage != Stage::Releasing {
            outbox.emit(SubscriberEvent::Lost { number, refusal });
        }
    }

    pub(super) fn release(&mut self, number: u64, context: &Context<'_>, outbox: &mut Out) {
        let Some(holding) = self.holdings.get_mut(&number) else { return };
        holding.stage = Stage::Releasing;
        self.ask_lease(number, context, outbox);
    }

    pub(super) fn attend_holdings(&mut self, context: &Context<'_>, outbox: &mut Out) {
        let due = self.holdings.iter().filter(|(_, holding)| holding.wakes_at() <= context.now);
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        let mut is_suspected = false;
        for number in due {
            let Some(holding) = self.holdings.get_mut(&number) else { continue };
            if holding.ends() <= context.now {
                self.lose(number, None, outbox);
                continue;
            }
            holding.redirects = 0;
            if holding.is_waiting && !std::mem::replace(&mut is_suspected, true) {
                self.suspect_leader();
            }
            self.ask_lease(number, context, outbox);
        }
    }
}
