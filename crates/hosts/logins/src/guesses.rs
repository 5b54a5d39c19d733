//! Logging in: who says so is believed once a password, a token or a certificate fits.
//!
//! A password is compared on a thread beside the event loops, few at a time. Attempts that fail slow down further ones: of a user at an address, and of an address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_access::PasswordHash;
use quorate_credentials::Password;
use tokio::sync::Semaphore;

/// So many passwords are compared at a time: each takes 19 MiB and tens of milliseconds of a processor.
const COMPARED_MAX: usize = 2;

/// So many wait for that.
const WAITING_MAX: usize = 64;

/// So many failures of one user from one address are free,
const FREE_OF_USER: u32 = 3;

/// and so many from one address, whatever the user.
const FREE_OF_ADDRESS: u32 = 30;

/// The first pause behind these; it doubles with each failure,
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// up to this.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// After so long without a failure all is forgotten.
const MEMORY: Duration = Duration::from_secs(15 * 60);

/// So many users and addresses are remembered. Those whose last failure is oldest go first.
const REMEMBERED_MAX: usize = 10_000;

/// Why a login did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// There is no such user with such a credential, or it is disabled. It is not said which.
    #[error("the user, its password or the token is wrong, or the user is disabled")]
    Wrong,
    /// It has failed too often.
    #[error("there were too many failures: try again in {} ms", retry_after.as_millis().max(1))]
    TooMany {
        /// After so long it may try again.
        retry_after: Duration,
    },
    /// As many passwords wait to be compared as may.
    #[error("too many log in at once: try again in {} ms", retry_after.as_millis().max(1))]
    Busy {
        /// After so long it may try again.
        retry_after: Duration,
    },
    /// The user has as many connections as it may.
    #[error("the user has as many connections as it may have")]
    Connections,
    /// The users are not known yet, because the cluster could not be asked.
    #[error("users are not known yet: the cluster cannot be asked; try again")]
    Unknown,
}

/// The failures of a user from an address, or of an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    User(String, IpAddr),
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

/// How long to wait after so many failures.
fn pause(count: u32, free: u32) -> Duration {
    match count.checked_sub(free) {
        None => Duration::ZERO,
        Some(more) => PAUSE_MIN.saturating_mul(1 << more.min(16)).min(PAUSE_MAX),
    }
}

/// The logins of a gateway or a node, over all its threads.
#[derive(Debug)]
pub struct Logins {
    failures: Mutex<BTreeMap<Source, Failures>>,
    places: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Default for Logins {
    fn default() -> Self {
        Logins {
            failures: Mutex::default(),
            places: Arc::new(Semaphore::new(COMPARED_MAX)),
            waiting: Semaphore::new(WAITING_MAX),
        }
    }
}

impl Logins {
    fn failures(&self) -> MutexGuard<'_, BTreeMap<Source, Failures>> {
        // Nothing panics while it is held.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sources(user: &str, address: IpAddr) -> [(Source, u32); 2] {
        [(Source::User(user.to_owned(), address), FREE_OF_USER), (Source::Address(address), FREE_OF_ADDRESS)]
    }

    /// Begins an attempt, unless this client has failed too often and is to wait. It counts as a failure until it is known to be none, so that many at once are
    /// not taken for the first.
    ///
    /// # Errors
    /// [`LoginError::TooMany`] with the pause that is left.
    pub fn attempt(&self, user: &str, address: IpAddr, now: Instant) -> Result<(), LoginError> {
        let mut failures = self.failures();
        let left = |(source, free): (Source, u32)| {
            let Failures { count, last } = failures.get(&source).copied()?;
            let since = now.saturating_duration_since(last);
            (since < MEMORY).then(|| pause(count, free).saturating_sub(since))
        };
        if let Some(retry_after) = Self::sources(user, address).into_iter().filter_map(left).max()
            && !retry_after.is_zero()
        {
            return Err(LoginError::TooMany { retry_after });
        }
        for (source, _) in Self::sources(user, address) {
            let known = failures.entry(source).or_insert(Failures { count: 0, last: now });
            let is_old = now.saturating_duration_since(known.last) >= MEMORY;
            *known = Failures { count: if is_old { 1 } else { known.count.saturating_add(1) }, last: now };
        }
        while failures.len() > REMEMBERED_MAX {
            let oldest =
                failures.iter().min_by_key(|(_, known)| known.last).map(|(source, _)| source.clone());
            let Some(oldest) = oldest else { break };
            failures.remove(&oldest);
        }
        Ok(())
    }

    /// An attempt was no failure, or could not be judged. Earlier failures stay, unless the user has logged in.
    pub fn forgive(&self, user: &str, address: IpAddr, has_logged_in: bool) {
        let mut failures = self.failures();
        for (source, _) in Self::sources(user, address) {
            let forgets = has_logged_in && matches!(source, Source::User(..));
            if let Some(known) = failures.get_mut(&source) {
                known.count = known.count.saturating_sub(1);
                if forgets || known.count == 0 {
                    failures.remove(&source);
                }
            }
        }
    }

    /// Compares a password, beside the event loop.
    ///
    /// # Errors
    /// [`LoginError::Busy`] if too many wait for that.
    pub async fn fits(&self, password: Password, hash: Option<PasswordHash>) -> Result<bool, LoginError> {
        const BUSY: LoginError = LoginError::Busy { retry_after: Duration::from_millis(500) };
        let _waiting = self.waiting.try_acquire().map_err(|_| BUSY)?;
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| BUSY)?;
        let compare = move || {
            // The place is given back when it is done, also if the client has gone meanwhile.
            let _place = place;
            password.fits(hash.as_ref())
        };
        tokio::task::spawn_blocking(compare).await.map_err(|_| BUSY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

    #[test]
    fn pauses_double_behind_the_free_failures() {
        let millis = [0, 0, 0, 250, 500, 1_000].map(Duration::from_millis);
        assert_eq!(std::array::from_fn(|count| pause(count as u32, 3)), millis);
        assert_eq!(pause(u32::MAX, 3), PAUSE_MAX);
    }

    #[test]
    fn a_client_that_fails_is_slowed_by_user_and_address_and_by_address() {
        let (logins, now) = (Logins::default(), Instant::now());
        let fails = |user: &str, address, now| logins.attempt(user, address, now);
        for _ in 0..FREE_OF_USER {
            assert_eq!(fails("ada", HERE, now), Ok(()));
        }
        let refused = Err(LoginError::TooMany { retry_after: PAUSE_MIN });
        assert_eq!(fails("ada", HERE, now), refused);
        assert_eq!(fails("ada", THERE, now), Ok(()), "who attacks from elsewhere locks nobody out");
        assert_eq!(fails("bob", HERE, now), Ok(()));
        let later = now + PAUSE_MIN;
        assert_eq!(fails("ada", HERE, later), Ok(()));
        assert!(fails("ada", HERE, later + PAUSE_MIN).is_err(), "the pause has doubled");
        logins.forgive("ada", HERE, true);
        assert_eq!(fails("ada", HERE, later), Ok(()), "the user has logged in");
    }

    #[test]
    fn who_tries_many_users_is_one_address() {
        let (logins, now) = (Logins::default(), Instant::now());
        for number in 0..FREE_OF_ADDRESS {
            assert_eq!(logins.attempt(&format!("user{number}"), HERE, now), Ok(()));
        }
        assert!(logins.attempt("carol", HERE, now).is_err());
        assert_eq!(logins.attempt("carol", HERE, now + MEMORY), Ok(()), "it is forgotten");
    }

    #[test]
    fn logins_that_succeed_are_no_failures() {
        let (logins, now) = (Logins::default(), Instant::now());
        for _ in 0..10 * FREE_OF_ADDRESS {
            assert_eq!(logins.attempt("ada", HERE, now), Ok(()));
            logins.forgive("ada", HERE, true);
        }
        assert!(logins.failures().is_empty(), "nothing is remembered of them");
    }

    #[test]
    fn the_memory_of_failures_is_bounded() {
        let (logins, now) = (Logins::default(), Instant::now());
        for number in 0..REMEMBERED_MAX as u64 / 2 + 50 {
            let address = IpAddr::V6(std::net::Ipv6Addr::from_bits(u128::from(number)));
            assert_eq!(logins.attempt("ada", address, now + Duration::from_millis(number)), Ok(()));
        }
        assert_eq!(logins.failures().len(), REMEMBERED_MAX);
    }

    #[tokio::test]
    async fn passwords_are_compared_few_at_a_time() {
        let logins = Arc::new(Logins::default());
        let hash = Password::told("correct horse").hash().unwrap();
        assert_eq!(logins.fits(Password::told("correct horse"), Some(hash.clone())).await, Ok(true));
        assert_eq!(logins.fits(Password::told("wrong"), Some(hash)).await, Ok(false));
        assert_eq!(logins.fits(Password::told("wrong"), None).await, Ok(false));
        let _all = logins.waiting.acquire_many(WAITING_MAX as u32).await.unwrap();
        assert!(matches!(logins.fits(Password::told("x"), None).await, Err(LoginError::Busy { .. })));
    }
}
