//! The session of a connection: its rights, and the keyspaces that it uses.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate::credentials::{Password, token_hash};
use quorate::rights::{Login, Proof, UserLimits};
use quorate::{Database, Keyspace, Seen};
use quorate_certificates::Certified;
use quorate_logins::{Audit, LoginError, Logins};
use tokio::sync::OnceCell;

use crate::Limits;
use crate::access::Known;
use crate::authority::{Actor, Authority, Denied, Permit, Right, clock_now};
use crate::meter::{Limited, Meter, Place};

/// The state that the connections of a thread share.
pub(crate) struct Shared {
    pub(crate) addresses: Vec<String>,
    pub(crate) client: quorate::Options,
    pub(crate) access: Known,
    pub(crate) logins: Arc<Logins>,
    pub(crate) meter: Meter,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) limits: Limits,
    pub(crate) layered: Arc<[String]>,
    pub(crate) database: OnceCell<Database>,
    pub(crate) keyspaces: RefCell<BTreeMap<String, Keyspace>>,
    /// The values that doors share between their connections, one of each type.
    pub(crate) of_doors: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
}

impl Shared {
    /// The connection to the cluster.
    pub(crate) async fn database(&self) -> quorate::Result<&Database> {
        let Shared { addresses, client, database, .. } = self;
        database.get_or_try_init(|| quorate::connect_with(addresses.as_slice(), client.clone())).await
    }
}

/// The session of a connection. A transaction in it comes after all that the session has seen before, in any isolation.
#[derive(Clone)]
pub struct Session {
    shared: Rc<Shared>,
    certified: Option<Arc<Certified>>,
    authority: Arc<Authority>,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("user", &self.user()).finish_non_exhaustive()
    }
}

impl Session {
    /// The session of the door itself, which may do everything.
    pub(crate) fn of_door(shared: Rc<Shared>, door: &'static str) -> Self {
        Self::of(shared, Actor::Door, door, None)
    }

    /// The session of a client that has not logged in.
    pub(crate) fn of_client(
        shared: Rc<Shared>,
        door: &'static str,
        peer: SocketAddr,
        certified: Option<Arc<Certified>>,
    ) -> Self {
        Session { certified, ..Self::of(shared, Actor::Nobody, door, Some(peer)) }
    }

    /// The identity that the certificate of the client proves, if it has shown one.
    pub fn certified(&self) -> Option<&Certified> {
        self.certified.as_deref()
    }

    fn of(shared: Rc<Shared>, actor: Actor, door: &'static str, peer: Option<SocketAddr>) -> Self {
        let (access, audit) = (shared.access.clone(), shared.audit.clone());
        let authority = Arc::new(Authority { access, actor, audit, door, peer });
        Session { shared, certified: None, authority }
    }

    fn with_actor(&self, actor: Actor) -> Self {
        let Authority { door, peer, .. } = *self.authority;
        let certified = self.certified.clone();
        Session { certified, ..Self::of(Rc::clone(&self.shared), actor, door, peer) }
    }

    /// Waits until it is known who may do what, for some time. It is known for good after that.
    pub async fn ready(&self) {
        /// A door that has just been opened knows after a few round trips.
        const PATIENCE: Duration = Duration::from_secs(3);
        let mut access = self.shared.access.clone();
        if access.borrow().is_none() {
            // If it takes longer, what is asked for then is refused.
            let _ =
                tokio::time::timeout(PATIENCE.min(self.deadline()), access.wait_for(Option::is_some)).await;
        }
    }

    /// True if nothing is allowed that no user was granted; also while that is not known.
    pub fn is_controlled(&self) -> bool {
        self.authority.access().is_none_or(|access| access.is_in_force())
    }

    /// True if that is known by now.
    pub fn is_known_to_be_controlled(&self) -> bool {
        self.authority.access().is_some_and(|access| access.is_in_force())
    }

    /// The name of the user; none if the client has not logged in.
    pub fn user(&self) -> Option<&str> {
        self.authority.login().map(|login| login.user.as_str())
    }

    /// The same session without a user.
    #[must_use]
    pub fn logged_out(&self) -> Session {
        self.with_actor(Actor::Nobody)
    }

    /// The one place where a right is asked.
    ///
    /// # Errors
    /// The session does not have it.
    pub fn require(&self, right: Right<'_>) -> Result<(), Denied> {
        self.authority.require(right)
    }

    /// The same, of what is only asked and not wanted yet: no refusal is recorded.
    pub fn allows(&self, right: Right<'_>) -> bool {
        self.authority.decide(right).is_ok()
    }

    /// True if the keys of a keyspace are records of another door, so that a right to keys that begin in some way says nothing where they are read as they are.
    pub fn is_layered(&self, keyspace: &str) -> bool {
        self.shared.layered.iter().any(|name| name == keyspace)
    }

    /// The rights of the session in a keyspace, for threads that work for it.
    pub fn permit(&self, keyspace: &str) -> Permit {
        Permit::new(Arc::clone(&self.authority), keyspace)
    }

    /// Logs in by a password, from now on and for this session alone.
    ///
    /// # Errors
    /// It does not fit, or cannot be compared now.
    pub async fn log_in(&self, user: &str, password: Password) -> Result<Session, LoginError> {
        let result = self.try_password(user, password).await;
        self.record(user, &result);
        result
    }

    async fn try_password(&self, user: &str, password: Password) -> Result<Session, LoginError> {
        let logins = &self.shared.logins;
        let address = self.address();
        let access = self.authority.access().ok_or(LoginError::Unknown)?;
        logins.attempt(user, address, Instant::now())?;
        let hash = access.user(user).filter(|user| !user.is_disabled).and_then(|user| user.password.clone());
        let fits = logins.fits(password, hash.clone()).await;
        let fits = fits.inspect_err(|_| logins.forgive(user, address, false))?;
        if !fits {
            return Err(LoginError::Wrong);
        }
        logins.forgive(user, address, true);
        // It fits, so that there is a hash.
        let login = hash.map(|hash| Login { user: user.to_owned(), proof: Proof::Password(hash) });
        self.logged_in(login.ok_or(LoginError::Wrong)?)
    }

    /// Logs in by a bearer token.
    ///
    /// # Errors
    /// It is none, or is revoked or has expired.
    pub fn log_in_by_token(&self, shown: &[u8]) -> Result<Session, LoginError> {
        let result = self.try_token(shown);
        let user = result.as_ref().ok().and_then(Session::user).unwrap_or("(token)");
        self.record(user, &result);
        result
    }

    fn try_token(&self, shown: &[u8]) -> Result<Session, LoginError> {
        let address = self.address();
        // All tokens of an address are slowed as one user, whose name no user can have.
        let access = self.authority.access().ok_or(LoginError::Unknown)?;
        self.shared.logins.attempt("", address, Instant::now())?;
        let login = token_hash(shown).and_then(|hash| access.login_by_token(&hash, clock_now()));
        match login {
            Some(login) => {
                self.shared.logins.forgive("", address, false);
                self.logged_in(login)
            }
            None => Err(LoginError::Wrong),
        }
    }

    /// Logs in by a certificate of this name, which the connection has shown and a door has verified.
    ///
    /// # Errors
    /// It is that of no user.
    pub fn log_in_by_certificate(&self, name: &str) -> Result<Session, LoginError> {
        let access = self.authority.access().ok_or(LoginError::Unknown)?;
        let result = access.login_by_certificate(name).ok_or(LoginError::Wrong);
        let result = result.and_then(|login| self.logged_in(login));
        self.record(result.as_ref().ok().and_then(Session::user).unwrap_or(name), &result);
        result
    }

    fn logged_in(&self, login: Login) -> Result<Session, LoginError> {
        let access = self.authority.access().ok_or(LoginError::Unknown)?;
        let limits = access.user(&login.user).map(|user| user.limits).ok_or(LoginError::Wrong)?;
        let place = self.shared.meter.connect(&login.user, &limits, Instant::now());
        let place = place.ok_or(LoginError::Connections)?;
        Ok(self.with_actor(Actor::User(login, place)))
    }

    fn record(&self, user: &str, result: &Result<Session, LoginError>) {
        if let Some(audit) = &self.shared.audit {
            let failure = result.as_ref().err().map(ToString::to_string);
            let Authority { door, peer, .. } = *self.authority;
            audit.logged_in(door, user, peer, failure.as_deref());
        }
    }

    /// Records something that the session has done to the cluster.
    pub fn record_administration(&self, what: &str, of: &str) {
        if let Some(audit) = &self.shared.audit {
            let Authority { door, peer, .. } = *self.authority;
            audit.administered(door, self.user(), peer, what, of);
        }
    }

    fn address(&self) -> IpAddr {
        self.authority.peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip())
    }

    fn limits(&self) -> Option<(&str, UserLimits)> {
        let user = self.user()?;
        Some((user, self.authority.access()?.user(user)?.limits))
    }

    /// Counts a request of so many bytes.
    ///
    /// # Errors
    /// The user has no room for it now.
    pub fn count(&self, bytes: usize) -> Result<(), Limited> {
        let Some((user, limits)) = self.limits() else { return Ok(()) };
        self.shared.meter.count(user, &limits, bytes, Instant::now())
    }

    /// Counts a transaction that stays open until the place is dropped; none if nobody counts.
    ///
    /// # Errors
    /// The user has as many as it may have.
    pub fn open_transaction(&self) -> Result<Option<Place>, Limited> {
        let Some((user, limits)) = self.limits() else { return Ok(None) };
        self.shared.meter.open(user, &limits, Instant::now()).map(Some)
    }

    /// How long a request may take to arrive once it has begun, and a client to take some of what waits for it.
    pub fn stall_timeout(&self) -> Duration {
        self.shared.limits.stall_timeout
    }

    /// How long a request may take in all.
    pub fn deadline(&self) -> Duration {
        self.shared.limits.deadline
    }

    /// The connection to the cluster.
    ///
    /// # Errors
    /// No node of the cluster can be reached.
    pub async fn database(&self) -> quorate::Result<&Database> {
        self.shared.database().await
    }

    /// A further connection to the cluster, which no other client of the door uses. To make one takes a few round trips.
    ///
    /// # Errors
    /// No node of the cluster can be reached.
    pub async fn connect(&self) -> quorate::Result<Database> {
        let Shared { addresses, client, .. } = &*self.shared;
        quorate::connect_with(addresses.as_slice(), client.clone()).await
    }

    /// The site that the door stands in, if it is known.
    pub fn site(&self) -> Option<&str> {
        self.shared.client.site.as_deref()
    }

    /// A keyspace, whose transactions have the deadline of requests.
    ///
    /// # Errors
    /// There is none of this name, or whatever a transaction may end with.
    pub async fn keyspace(&self, name: &str) -> quorate::Result<Keyspace> {
        if let Some(known) = self.shared.keyspaces.borrow().get(name) {
            return Ok(known.clone());
        }
        let keyspace = self.database().await?.keyspace(name).await?.with_deadline(self.deadline());
        self.shared.keyspaces.borrow_mut().insert(name.to_owned(), keyspace.clone());
        Ok(keyspace)
    }

    /// A value that all sessions of a thread share, made when it is first asked for: one of each type.
    pub fn shared<T: Default + 'static>(&self) -> Rc<T> {
        let mut shared = self.shared.of_doors.borrow_mut();
        let value = shared.entry(TypeId::of::<T>()).or_insert_with(|| Rc::<T>::default());
        Rc::clone(value).downcast().unwrap_or_else(|_| unreachable!("it was found by its type"))
    }

    /// A token of all that this session has seen of a keyspace, for a client that goes on at another node; none of a keyspace that it has not used.
    pub fn seen(&self, name: &str) -> Option<Seen> {
        let keyspace = self.shared.keyspaces.borrow().get(name)?.definition().id;
        Some(self.shared.database.get()?.seen().only(keyspace))
    }

    /// Looks a keyspace up anew when it is used next: it may have been dropped.
    pub fn forget(&self, name: &str) {
        self.shared.keyspaces.borrow_mut().remove(name);
    }
}
