//! The use that each user makes of a gateway, for those that have limits.
//!
//! A limit is of a user at one node: nodes do not tell each other, so a user that comes in at three nodes may use three times as much.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate::rights::UserLimits;

/// A user has reached a limit, and nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limited {
    /// Too much in a second.
    #[error("the user has reached its {what} per second: try again in {} ms", retry_after.as_millis().max(1))]
    Rate {
        /// Requests, or bytes.
        what: &'static str,
        /// After so long there is room.
        retry_after: Duration,
    },
    /// Too many transactions are open.
    #[error("the user has as many transactions open as it may have: end one first")]
    OpenTransactions,
}

/// Something of which there is so much in a second, and as much at once.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// May be negative: a request that is larger than a second's worth is paid off.
    left: f64,
    at: Instant,
}

impl Bucket {
    /// Takes an amount, or says how long to wait for it.
    fn take(&mut self, amount: f64, per_second: f64, now: Instant) -> Result<(), Duration> {
        /// Where nothing is allowed there is room once the limit was changed.
        const UNTIL_CHANGED: Duration = Duration::from_secs(60);
        if per_second <= 0.0 {
            return Err(UNTIL_CHANGED);
        }
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * per_second).min(per_second);
        self.at = now;
        // A request is let in once nothing is owed, so that one that is larger than a second's worth is let in at all.
        if self.left < amount.min(per_second) {
            let missing = amount.min(per_second) - self.left;
            return Err(Duration::try_from_secs_f64(missing / per_second).unwrap_or(Duration::MAX));
        }
        self.left -= amount;
        Ok(())
    }
}

#[derive(Debug)]
struct Used {
    requests: Bucket,
    bytes: Bucket,
    connections: u32,
    open_transactions: u32,
}

/// The use that all users make.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    users: Arc<Mutex<BTreeMap<String, Used>>>,
}

/// Something that a user has, until this is dropped.
#[derive(Debug)]
pub struct Place {
    meter: Meter,
    user: String,
    is_connection: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.meter.users();
        if let Some(used) = users.get_mut(&self.user) {
            let count = if self.is_connection { &mut used.connections } else { &mut used.open_transactions };
            *count = count.saturating_sub(1);
            if used.connections == 0 && used.open_transactions == 0 {
                users.remove(&self.user);
            }
        }
    }
}

impl Meter {
    fn users(&self) -> MutexGuard<'_, BTreeMap<String, Used>> {
        // Nothing panics while it is held.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, user: &str, now: Instant, limits: &UserLimits, act: impl FnOnce(&mut Used) -> T) -> T {
        let full = |per_second: f64| Bucket { left: per_second, at: now };
        let new = || Used {
            requests: full(f64::from(limits.requests_per_second.unwrap_or(0))),
            bytes: full(limits.bytes_per_second.unwrap_or(0) as f64),
            connections: 0,
            open_transactions: 0,
        };
        act(self.users().entry(user.to_owned()).or_insert_with(new))
    }

    /// A connection of a user; none if it has as many as it may have.
    pub(crate) fn connect(&self, user: &str, limits: &UserLimits, now: Instant) -> Option<Place> {
        self.with(user, now, limits, |used| {
            let is_full = limits.connections.is_some_and(|max| used.connections >= max);
            used.connections = used.connections.saturating_add(u32::from(!is_full));
            !is_full
        })
        .then(|| Place { meter: self.clone(), user: user.to_owned(), is_connection: true })
    }

    /// A transaction of a user that stays open.
    pub(crate) fn open(&self, user: &str, limits: &UserLimits, now: Instant) -> Result<Place, Limited> {
        let is_open = self.with(user, now, limits, |used| {
            let is_full = limits.open_transactions.is_some_and(|max| used.open_transactions >= max);
            used.open_transactions = used.open_transactions.saturating_add(u32::from(!is_full));
            !is_full
        });
        match is_open {
            true => Ok(Place { meter: self.clone(), user: user.to_owned(), is_connection: false }),
            false => Err(Limited::OpenTransactions),
        }
    }

    /// Counts a request of so many bytes, if there is room for it.
    pub(crate) fn count(
        &self,
        user: &str,
        limits: &UserLimits,
        bytes: usize,
        now: Instant,
    ) -> Result<(), Limited> {
        if limits.requests_per_second.is_none() && limits.bytes_per_second.is_none() {
            return Ok(());
        }
        self.with(user, now, limits, |used| {
            let before = used.requests;
            if let Some(per_second) = limits.requests_per_second {
                let taken = used.requests.take(1.0, f64::from(per_second), now);
                taken.map_err(|retry_after| Limited::Rate { what: "requests", retry_after })?;
            }
            if let Some(per_second) = limits.bytes_per_second {
                let taken = used.bytes.take(bytes as f64, per_second as f64, now);
                taken.map_err(|retry_after| {
                    used.requests = before;
                    Limited::Rate { what: "bytes", retry_after }
                })?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: UserLimits = UserLimits {
        requests_per_second: Some(2),
        bytes_per_second: Some(100),
        open_transactions: Some(1),
        connections: Some(2),
    };

    #[test]
    fn a_user_has_so_many_requests_and_bytes_in_a_second() {
        let (meter, now) = (Meter::default(), Instant::now());
        let count = |bytes, millis| meter.count("ada", &LIMITS, bytes, now + Duration::from_millis(millis));
        assert_eq!((count(10, 0), count(10, 0)), (Ok(()), Ok(())));
        let refused = |what, millis| Err(Limited::Rate { what, retry_after: Duration::from_millis(millis) });
        assert_eq!(count(10, 0), refused("requests", 500));
        assert_eq!(meter.count("bob", &LIMITS, 10, now), Ok(()), "another user");
        assert_eq!(count(500, 1_000), Ok(()), "a large request is let in, and paid off");
        assert_eq!(count(1, 1_000), refused("bytes", 4_010));
        assert_eq!((count(1, 5_100), count(1, 5_100)), (Ok(()), Ok(())));
        let free = UserLimits::default();
        assert!((0..1_000).all(|_| meter.count("ada", &free, 1_000_000, now).is_ok()));
    }

    #[test]
    fn connections_and_open_transactions_are_given_back() {
        let (meter, now) = (Meter::default(), Instant::now());
        let connect = || meter.connect("ada", &LIMITS, now);
        let (one, two) = (connect(), connect());
        assert!(one.is_some() && two.is_some() && connect().is_none());
        drop(one);
        assert!(connect().is_some());
        let open = meter.open("ada", &LIMITS, now).unwrap();
        assert_eq!(meter.open("ada", &LIMITS, now).unwrap_err(), Limited::OpenTransactions);
        drop(open);
        assert!(meter.open("ada", &LIMITS, now).is_ok());
        drop(two);
        assert!(meter.users().is_empty(), "nothing is kept of users that are gone");
    }

    #[test]
    fn no_request_is_let_in_where_none_may_be() {
        let limits = UserLimits { requests_per_second: Some(0), ..UserLimits::default() };
        assert!(Meter::default().count("ada", &limits, 1, Instant::now()).is_err());
    }
}
