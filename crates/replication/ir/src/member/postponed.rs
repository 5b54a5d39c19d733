//! Requests that arrive while a replica changes views: the replica answers once the view has started, so that clients need not ask again.
//!
//! A client asks again after a time-out that is many times as long as most view changes. To IR the difference is that of a slower network.

use std::collections::VecDeque;
use std::time::Duration;

use quorate_core::{Address, Instant};

/// At most so many requests wait.
const REQUESTS_MAX: usize = 8_192;

/// Roughly so many bytes of requests wait at most, but for the last one.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// A request that has waited for so long is not answered any more: its client has asked again, or given up.
const WAITS_MAX: Duration = Duration::from_secs(2);

/// Requests that wait for a view.
#[derive(Debug)]
pub struct Postponed<M> {
    requests: VecDeque<Request<M>>,
    bytes: usize,
}

#[derive(Debug)]
struct Request<M> {
    from: Address,
    message: M,
    bytes: usize,
    arrived: Instant,
}

impl<M> Default for Postponed<M> {
    fn default() -> Self {
        Postponed { requests: VecDeque::new(), bytes: 0 }
    }
}

impl<M> Postponed<M> {
    /// A request of roughly so many bytes waits from now on. If too much waits, the first is dropped: then this is true.
    pub fn push(&mut self, from: Address, message: M, bytes: usize, now: Instant) -> bool {
        self.requests.push_back(Request { from, message, bytes, arrived: now });
        self.bytes += bytes;
        let mut dropped = false;
        while self.requests.len() > 1 && (self.requests.len() > REQUESTS_MAX || self.bytes > BYTES_MAX) {
            let bytes = self.requests.pop_front().map_or(0, |request| request.bytes);
            assert!(self.bytes >= bytes, "a request of {bytes} bytes waits, and {} bytes are", self.bytes);
            self.bytes -= bytes;
            dropped = true;
        }
        assert!(
            self.requests.len() == 1 || self.bytes <= BYTES_MAX && self.requests.len() <= REQUESTS_MAX,
            "{} requests of {} bytes wait",
            self.requests.len(),
            self.bytes
        );
        dropped
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The messages that are answered now, in the order in which they arrived. Nothing waits any more.
    pub fn take(&mut self, now: Instant) -> impl Iterator<Item = (Address, M)> + use<M> {
        self.bytes = 0;
        let requests = std::mem::take(&mut self.requests).into_iter();
        let is_recent = move |request: &Request<M>| now.saturating_since(request.arrived) < WAITS_MAX;
        requests.filter(is_recent).map(|request| (request.from, request.message))
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    fn taken(postponed: &mut Postponed<u64>, now: Instant) -> Vec<u64> {
        postponed.take(now).map(|(_, message)| message).collect()
    }

    fn from() -> Address {
        ClientId(1).into()
    }

    #[test]
    fn requests_are_answered_in_order_and_once() {
        let (mut postponed, now) = (Postponed::default(), Instant::START);
        assert!([1, 2, 3].map(|message| postponed.push(from(), message, 10, now)).iter().all(|it| !it));
        assert_eq!(taken(&mut postponed, now), [1, 2, 3]);
        assert!(postponed.is_empty() && taken(&mut postponed, now).is_empty());
    }

    #[test]
    fn a_request_that_has_waited_for_too_long_is_not_answered() {
        let (mut postponed, begin) = (Postponed::default(), Instant::START);
        postponed.push(from(), 1, 10, begin);
        postponed.push(from(), 2, 10, begin + WAITS_MAX / 2);
        assert_eq!(taken(&mut postponed, begin + WAITS_MAX), [2]);
    }

    #[test]
    fn the_first_are_dropped_if_too_much_waits() {
        let (mut postponed, now) = (Postponed::default(), Instant::START);
        for message in 0..REQUESTS_MAX as u64 {
            assert!(!postponed.push(from(), message, 1, now));
        }
        assert!(postponed.push(from(), 0, 1, now));
        assert_eq!(taken(&mut postponed, now)[0], 1);
        assert!(!postponed.push(from(), 1, BYTES_MAX + 1, now), "a large one may wait alone");
        assert!(postponed.push(from(), 2, 1, now));
        assert_eq!(taken(&mut postponed, now), [2]);
        // Nothing is left of what has been answered.
        for message in [1, 2] {
            assert!(!postponed.push(from(), message, BYTES_MAX / 2, now));
        }
    }

    #[test]
    fn what_is_dropped_makes_room_for_as_many_bytes_as_it_had() {
        let (mut postponed, now) = (Postponed::default(), Instant::START);
        let half = BYTES_MAX / 2;
        for (message, bytes, drops) in [
            (1, half, false),
            (2, half, false),
            (3, half - 1, true),
            (4, 1, false),
            (5, 1, true),
            (6, 1, false),
        ] {
            assert_eq!(postponed.push(from(), message, bytes, now), drops, "{message}");
        }
        assert!(postponed.push(from(), 7, BYTES_MAX, now), "all before it go");
        assert_eq!(taken(&mut postponed, now), [7]);
    }
}
