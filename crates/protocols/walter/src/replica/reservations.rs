//! Slow commits do not starve (section 5.5, *anti-starvation*: described there and never built).
//!
//! A slow commit is refused as long as somebody at the preferred site has written what it writes since its snapshot. Against a stream of fast commits
//! there, which take no time at all, it might never get through. So a refusal reserves what was to be locked, for a while and for this transaction:
//!
//! ```text
//!   PREPARE ─► in the way: VOTE no, reserved ─► fast commits of these registers wait
//!                             PREPARE of the next attempt ─► locked: they go on, and conflict    (or refused again: reserved for longer)
//!                             nothing for as long as the reservation stands ─► they go on
//! ```
//!
//! Versions from before the reservation reach the client meanwhile. Back-off makes attempts rarer, so reservations of one transaction become longer; and
//! there are only so many. After a reservation as much time passes without one as it has stood, whichever transaction wants one: fast commits do not starve either.
//! A reservation is a courtesy. It is lost with the leader, and nothing depends on it.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::hash::FixedMap;
use quorate_core::log::Log;
use quorate_core::{Address, Context, Instant, Key, TransactionId};

use super::leader::{Awaits, Waiting};
use super::{Out, Replica, ReplicaTimer};
use crate::entry::Entry;
use crate::message::Message;
use crate::rules::Plant;
use crate::vector::Vector;

/// A transaction has so many reservations at most, one after the other, so that one which never gets through holds nobody up for ever.
const RESERVATIONS_OF_ONE_MAX: u32 = 8;

/// A reservation of one transaction doubles so often at most.
const DOUBLINGS_MAX: u32 = 3;

/// So many transactions have reservations at most.
const RESERVATIONS_MAX: usize = 10_000;

/// All reservations.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    /// By the transaction, whichever attempt of it.
    all: BTreeMap<TransactionId, Reservation>,
    /// The transaction for which a register is reserved, or was last.
    owners: FixedMap<Key, TransactionId>,
}

/// The registers that a transaction has reserved.
#[derive(Debug)]
struct Reservation {
    keys: Vec<Key>,
    /// How often.
    times: u32,
    /// How long it stood, or stands.
    lasts: Duration,
    /// Until then fast commits wait.
    until: Instant,
}

/// The name of a transaction, whichever attempt it is.
fn name(id: TransactionId) -> TransactionId {
    TransactionId { attempt: 0, ..id }
}

impl Reservations {
    /// An attempt at a transaction was refused that wanted to lock these registers.
    fn reserve(&mut self, id: TransactionId, keys: &[Key], now: Instant, first: Duration) {
        self.forget_old(now);
        let name = name(id);
        let others = keys.iter().any(|key| self.owners.get(key).is_some_and(|owner| *owner != name));
        if others || (self.all.len() >= RESERVATIONS_MAX && !self.all.contains_key(&name)) {
            return;
        }
        let times = self.all.get(&name).map_or(0, |reservation| reservation.times);
        if times >= RESERVATIONS_OF_ONE_MAX {
            return;
        }
        let lasts = first * (1 << times.min(DOUBLINGS_MAX));
        self.forget(name);
        for key in keys {
            self.owners.insert(key.clone(), name);
        }
        let reservation = Reservation { keys: keys.to_vec(), times: times + 1, lasts, until: now + lasts };
        assert!(reservation.until > now && reservation.times <= RESERVATIONS_OF_ONE_MAX, "{reservation:?}");
        self.all.insert(name, reservation);
        assert!(self.all.len() <= RESERVATIONS_MAX, "{} transactions have reservations", self.all.len());
    }

    /// Until when a register is reserved.
    fn of(&self, key: &[u8], now: Instant) -> Option<Instant> {
        let reservation = self.all.get(self.owners.get(key)?)?;
        (now < reservation.until).then_some(reservation.until)
    }

    /// An attempt at the transaction has what was reserved for it: its reservation goes, and nobody waits for it.
    fn forget(&mut self, name: TransactionId) {
        for key in self.all.remove(&name).into_iter().flat_map(|reservation| reservation.keys) {
            let owner = self.owners.remove(key.as_slice());
            assert!(owner == Some(name), "{key:?} is reserved for {name}, and {owner:?} has it");
        }
    }

    /// Reservations keep others from being made for as long again as they have stood.
    fn forget_old(&mut self, now: Instant) {
        let is_over = |(name, reservation): (&TransactionId, &Reservation)| {
            (now >= reservation.until + reservation.lasts).then_some(*name)
        };
        let over: Vec<TransactionId> = self.all.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|name| self.forget(name));
    }
}

impl Replica {
    /// An attempt at a slow commit of another site is refused: its next one is to find what it wants to lock.
    pub(super) fn reserve(&mut self, id: TransactionId, keys: &[Key], now: Instant) {
        let first = self.config.reservation_timeout;
        if self.config.rules.has(Plant::StarvationIgnored) {
            return;
        }
        if let Some(leader) = &mut self.leader {
            leader.reservations.reserve(id, keys, now, first);
        }
    }

    /// Until when a fast commit has to wait that writes one of these.
    pub(super) fn reserved_until<'a>(
        &self,
        mut keys: impl Iterator<Item = &'a Key>,
        now: Instant,
    ) -> Option<Instant> {
        let leader = self.leader.as_ref()?;
        keys.find_map(|key| leader.reservations.of(key, now))
    }

    /// A fast commit waits for a slow one that was refused, until then.
    pub(super) fn wait_for_slow(
        &mut self,
        from: Address,
        message: Message,
        until: Instant,
        now: Instant,
        outbox: &mut Out,
    ) {
        let needs = Vector::default();
        let waits = Waiting {
            from,
            message,
            awaits: Awaits::Committed,
            needs,
            since: now,
            until: Some(until),
            question: None,
        };
        self.wait_for(waits, outbox);
        self.attend_reservations(now, outbox);
    }

    /// An attempt at a slow commit of another site is about to lock what was reserved for it: fast commits that wait are woken, and find the lock.
    pub(super) fn release_reserved(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        if leader.reservations.all.contains_key(&name(id)) {
            leader.reservations.forget(name(id));
            for waiting in &mut leader.waiting {
                waiting.until = waiting.until.map(|_| context.now);
            }
            self.wake(context, log, outbox);
        }
    }

    /// Wakes the fast commits that have waited for reservations.
    pub(super) fn on_reservations_timeout(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        self.wake(context, log, outbox);
        self.attend_reservations(context.now, outbox);
    }

    /// Wants to be woken when the first reservation ends that a fast commit waits for.
    pub(super) fn attend_reservations(&self, now: Instant, outbox: &mut Out) {
        let waiting = self.leader.iter().flat_map(|leader| &leader.waiting);
        if let Some(first) = waiting.filter_map(|waiting| waiting.until).filter(|until| *until > now).min() {
            outbox.set_timer(ReplicaTimer::Reservations, first - now);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    const FIRST: Duration = Duration::from_millis(100);

    fn id(sequence: u64, attempt: u32) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt }
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn keys(words: &[&str]) -> Vec<Key> {
        words.iter().map(|word| Key::from(*word)).collect()
    }

    #[test]
    fn a_reservation_stands_for_a_while_and_longer_for_the_next_attempts() {
        let mut reservations = Reservations::default();
        reservations.reserve(id(1, 0), &keys(&["a", "b"]), at(0), FIRST);
        assert_eq!(reservations.of(b"b", at(99)), Some(at(100)));
        assert_eq!((reservations.of(b"b", at(100)), reservations.of(b"c", at(0))), (None, None));
        reservations.reserve(id(1, 1), &keys(&["a"]), at(50), FIRST);
        assert_eq!((reservations.of(b"a", at(50)), reservations.of(b"b", at(50))), (Some(at(250)), None));
        reservations.forget(id(1, 0));
        assert_eq!(reservations.of(b"a", at(50)), None);
    }

    #[test]
    fn nobody_else_reserves_what_was_reserved_until_as_much_time_has_passed() {
        let mut reservations = Reservations::default();
        reservations.reserve(id(1, 0), &keys(&["a"]), at(0), FIRST);
        for now in [50, 199] {
            reservations.reserve(id(2, 0), &keys(&["a", "b"]), at(now), FIRST);
            assert_eq!(reservations.of(b"b", at(now)), None, "{now}");
        }
        reservations.reserve(id(2, 0), &keys(&["a", "b"]), at(200), FIRST);
        assert_eq!(reservations.of(b"a", at(200)), Some(at(300)));
    }

    #[test]
    fn a_transaction_has_only_so_many_reservations() {
        let mut reservations = Reservations::default();
        let mut now = 0;
        for attempt in 0..RESERVATIONS_OF_ONE_MAX {
            reservations.reserve(id(1, attempt), &keys(&["a"]), at(now), FIRST);
            now += 10;
        }
        let until = reservations.of(b"a", at(now)).unwrap();
        assert!(until <= at(now) + FIRST * (1 << DOUBLINGS_MAX));
        reservations.reserve(id(1, 99), &keys(&["a"]), at(now + 500), FIRST);
        assert_eq!(reservations.of(b"a", at(now + 500)), Some(until), "no other reservation is made");
    }

    /// Each reservation of one transaction is twice as long as the one before, up to a bound.
    #[test]
    fn reservations_become_longer_up_to_a_bound() {
        let mut reservations = Reservations::default();
        let mut now = 0;
        for (attempt, lasts) in (0..).zip([100, 200, 400, 800, 800, 800, 800, 800]) {
            reservations.reserve(id(1, attempt), &keys(&["a"]), at(now), FIRST);
            assert_eq!(reservations.of(b"a", at(now)), Some(at(now + lasts)), "attempt {attempt}");
            assert_eq!(reservations.of(b"a", at(now + lasts)), None);
            now += lasts;
        }
        reservations.reserve(id(1, 8), &keys(&["a"]), at(now), FIRST);
        assert_eq!(reservations.of(b"a", at(now)), None, "it has had eight");
        // As much time has passed as the last one has stood: all is forgotten.
        reservations.reserve(id(1, 9), &keys(&["a"]), at(now + 799), FIRST);
        assert_eq!(reservations.of(b"a", at(now + 799)), None);
        reservations.reserve(id(1, 9), &keys(&["a"]), at(now + 800), FIRST);
        assert_eq!(reservations.of(b"a", at(now + 800)), Some(at(now + 900)));
        assert_eq!((reservations.all.len(), reservations.owners.len()), (1, 1));
    }

    /// A register may be reserved for one, and another one be free.
    #[test]
    fn a_transaction_reserves_all_registers_that_it_wants_or_none() {
        let mut reservations = Reservations::default();
        reservations.reserve(id(1, 0), &keys(&["a"]), at(0), FIRST);
        reservations.reserve(id(2, 0), &keys(&["b", "a"]), at(1), FIRST);
        assert_eq!((reservations.of(b"b", at(1)), reservations.all.len()), (None, 1));
        reservations.reserve(id(3, 0), &keys(&["b", "c"]), at(1), FIRST);
        assert_eq!(
            (reservations.of(b"c", at(1)), reservations.of(b"a", at(1))),
            (Some(at(101)), Some(at(100)))
        );
        reservations.forget(id(3, 0));
        assert_eq!(
            (reservations.of(b"c", at(1)), reservations.all.len(), reservations.owners.len()),
            (None, 1, 1)
        );
    }

    /// One that has a reservation may have its next one all the same.
    #[test]
    fn so_many_transactions_have_reservations() {
        let mut reservations = Reservations::default();
        let key = |number: u64| vec![Key::from(number.to_string())];
        for number in 0..=RESERVATIONS_MAX as u64 {
            reservations.reserve(id(number, 0), &key(number), at(0), FIRST);
        }
        assert_eq!(reservations.all.len(), RESERVATIONS_MAX);
        let last = RESERVATIONS_MAX as u64;
        assert_eq!(reservations.of(&key(last)[0], at(0)), None);
        reservations.reserve(id(7, 1), &key(7), at(0), FIRST);
        assert_eq!(reservations.of(&key(7)[0], at(0)), Some(at(200)));
    }
}
