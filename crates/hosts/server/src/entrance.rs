//! The entrance of a node: its copy of users, roles and tokens, and the judge of what clients show when they connect.
//!
//! The copy comes with the node's copy of the catalogue, and the node decides by it ([`Node`](crate::node::Node), `rights`). It lies behind a lock because passwords are judged in the handshakes
//! of connections, beside the turns of the node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quorate_access::{Access, ClockTime, Login, Proof, Refusal, Visitor, Wish};
use quorate_certificates::{Subject, Trust};
use quorate_core::{NodeId, Value};
use quorate_credentials::{Password, token_hash};
use quorate_logins::{Audit, LoginError, Logins};
use quorate_runtime::clock::Clock;
use quorate_runtime::secure::Certified;
use quorate_runtime::transport::{Doorkeeper, Judgement, Shown};
use quorate_wire::Credential;

/// The name that the audit log has for the native port among doors.
const DOOR: &str = "native";

/// The hash of a token.
pub(crate) type TokenHash = [u8; 32];

/// The entrance of a node. Shared by the node and its transport.
#[derive(Debug)]
pub(crate) struct Entrance {
    known: Mutex<Known>,
    /// True once there are users.
    is_in_force: AtomicBool,
    logins: Logins,
    audit: Option<Arc<Audit>>,
    /// The hash of the token of this node.
    own: TokenHash,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Known {
    /// None until users were read, by this node or in an earlier life of it: until then there are none as far as is known.
    access: Option<Arc<Access>>,
    /// The tokens of other nodes, as these have said.
    of_nodes: BTreeMap<NodeId, TokenHash>,
    /// Counts the changes of both.
    version: u64,
}

/// The user of a client, as of an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Nobody,
    User(Login),
    OfNode,
}

impl Who {
    pub(crate) fn visitor(&self) -> Visitor<'_> {
        match self {
            Who::Nobody => Visitor::Nobody,
            Who::User(login) => Visitor::User(login),
            Who::OfNode => Visitor::OfNode,
        }
    }

    /// The name of the user, for people.
    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Who::User(login) => Some(&login.user),
            Who::Nobody | Who::OfNode => None,
        }
    }
}

impl Entrance {
    /// The entrance of a node whose own token has this hash, with what was known of users in an earlier life.
    pub(crate) fn new(
        own: TokenHash,
        access: Option<Access>,
        audit: Option<Arc<Audit>>,
        clock: Clock,
    ) -> Self {
        let is_in_force = AtomicBool::new(access.as_ref().is_some_and(Access::is_in_force));
        let known = Mutex::new(Known { access: access.map(Arc::new), ..Known::default() });
        Entrance { known, is_in_force, logins: Logins::default(), audit, own, clock }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while it is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there is a log of log-ins, refusals and administration.
    pub(crate) fn is_audited(&self) -> bool {
        self.audit.is_some()
    }

    /// The hash of the token of this node.
    pub(crate) fn own_token(&self) -> TokenHash {
        self.own
    }

    /// The copy, if there are users, and a number that changes with it and with the tokens of nodes.
    pub(crate) fn in_force(&self) -> Option<(Arc<Access>, u64)> {
        // Asked for every message: without users nothing else is.
        if !self.is_in_force.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known();
        let access = known.access.as_ref().filter(|access| access.is_in_force())?;
        Some((Arc::clone(access), known.version))
    }

    /// The copy is this from now on. Gives the one before.
    pub(crate) fn set_access(&self, access: Access) -> Option<Arc<Access>> {
        let mut known = self.known();
        known.version += 1;
        self.is_in_force.store(access.is_in_force(), Ordering::Release);
        known.access.replace(Arc::new(access))
    }

    /// Another node has this token.
    pub(crate) fn set_token(&self, node: NodeId, hash: TokenHash) {
        let mut known = self.known();
        known.version += 1;
        known.of_nodes.insert(node, hash);
    }

    /// True if this is the hash of the token of a node.
    fn is_of_node(&self, hash: &TokenHash) -> bool {
        *hash == self.own || self.known().of_nodes.values().any(|known| known == hash)
    }

    /// The user of a client that has shown this, where there are users.
    pub(crate) fn who(&self, shown: Option<&Shown>, access: &Access, now: ClockTime) -> Who {
        let Some(shown) = shown else { return Who::Nobody };
        let Some(proof) = &shown.proof else { return Who::Nobody };
        let login = match proof {
            Proof::Token(hash) => {
                let Ok(hash) = TokenHash::try_from(hash.as_ref()) else { return Who::Nobody };
                if self.is_of_node(&hash) {
                    return Who::OfNode;
                }
                access.login_by_token(&hash, now)
            }
            Proof::Certificate(name) => access.login_by_certificate(name),
            Proof::Password(_) => None,
        };
        // Whether a login still stands is looked at with each decision, so that one that has ended is told so.
        let as_shown = || Some(Login { user: shown.user.clone()?, proof: proof.clone() });
        login.or_else(as_shown).map_or(Who::Nobody, Who::User)
    }

    async fn by_password(
        &self,
        user: &str,
        password: &[u8],
        address: SocketAddr,
    ) -> Result<Shown, LoginError> {
        let access = self.in_force().map(|(access, _)| access);
        let hash = access.as_ref().and_then(|access| access.user(user)).filter(|user| !user.is_disabled);
        let hash = hash.and_then(|user| user.password.clone());
        self.logins.attempt(user, address.ip(), Instant::now())?;
        let fits = self.logins.fits(Password::told(password), hash.clone()).await;
        let fits = fits.inspect_err(|_| self.logins.forgive(user, address.ip(), false))?;
        match hash.filter(|_| fits) {
            Some(hash) => {
                self.logins.forgive(user, address.ip(), true);
                Ok(Shown { user: Some(user.to_owned()), proof: Some(Proof::Password(hash)) })
            }
            None => Err(LoginError::Wrong),
        }
    }

    fn by_token(&self, token: &[u8], address: SocketAddr) -> Result<Shown, LoginError> {
        // A token that is none is not remembered, but as one that is wrong.
        let hash = token_hash(token);
        let proof = hash.map(|hash| Proof::Token(Value::copy_from_slice(&hash)));
        if let (Some(hash), Some(proof)) = (&hash, &proof)
            && self.is_of_node(hash)
        {
            return Ok(Shown { user: None, proof: Some(proof.clone()) });
        }
        let Some((access, _)) = self.in_force() else {
            // There are no users: what it names is looked up once there are.
            return match proof {
                Some(_) => Ok(Shown { user: None, proof }),
                None => Err(LoginError::Wrong),
            };
        };
        // All tokens of an address are slowed as one user, whose name no user can have.
        self.logins.attempt("", address.ip(), Instant::now())?;
        let login = hash.and_then(|hash| access.login_by_token(&hash, self.clock.read().clock));
        match login {
            Some(Login { user, proof }) => {
                self.logins.forgive("", address.ip(), false);
                Ok(Shown { user: Some(user), proof: Some(proof) })
            }
            None => Err(LoginError::Wrong),
        }
    }

    async fn judged(
        &self,
        address: SocketAddr,
        credential: Option<&Credential>,
        certified: Option<&Certified>,
    ) -> Result<Option<Arc<Shown>>, String> {
        let (shown, named) = match (credential, certified.map(|certified| &certified.identity.subject)) {
            (Some(Credential::Password { user, password }), _) => {
                if self.in_force().is_none() {
                    return Ok(Some(Arc::new(Shown { user: Some(user.clone()), proof: None })));
                }
                (self.by_password(user, password, address).await, user.as_str())
            }
            (Some(Credential::Token { token }), _) => (self.by_token(token, address), "(token)"),
            (None, Some(Subject::User(name))) => {
                let proof = Proof::Certificate(name.clone());
                (Ok(Shown { user: None, proof: Some(proof) }), name.as_str())
            }
            (None, Some(Subject::Node(_)) | None) => return Ok(None),
        };
        if let (Some(audit), Some((access, _))) = (&self.audit, self.in_force()) {
            let who =
                shown.as_ref().ok().map(|shown| self.who(Some(shown), &access, self.clock.read().clock));
            match (&shown, who) {
                // The doors of nodes come and go with them.
                (Ok(_), Some(Who::OfNode)) => {}
                (Ok(_), Some(Who::User(login))) => audit.logged_in(DOOR, &login.user, Some(address), None),
                (Ok(_), _) => {
                    audit.logged_in(DOOR, named, Some(address), Some("its certificate is that of no user"));
                }
                (Err(error), _) => audit.logged_in(DOOR, named, Some(address), Some(&error.to_string())),
            }
        }
        shown.map(|shown| Some(Arc::new(shown))).map_err(|error| error.to_string())
    }

    /// Decides whether who shows this token, if any, may have a page of the node.
    ///
    /// # Errors
    /// It may not; says why.
    pub(crate) fn admit_to_page(&self, token: Option<&[u8]>, wish: Wish<'_>) -> Result<(), Refusal> {
        let Some((access, _)) = self.in_force() else { return Ok(()) };
        let proof = token.and_then(token_hash).map(|hash| Proof::Token(Value::copy_from_slice(&hash)));
        let shown = Shown { user: None, proof };
        let now = self.clock.read().clock;
        access.admit(self.who(Some(&shown), &access, now).visitor(), wish, now)
    }

    /// Notes that a client was refused something.
    pub(crate) fn note_refusal(&self, user: Option<&str>, address: SocketAddr, reason: &str) {
        if let Some(audit) = &self.audit {
            audit.refused(DOOR, user, Some(address), reason);
        }
    }

    /// Notes that a client has administered something.
    pub(crate) fn note_administration(&self, user: Option<&str>, address: SocketAddr, what: &str, of: &str) {
        if let Some(audit) = &self.audit {
            audit.administered(DOOR, user, Some(address), what, of);
        }
    }
}

/// How a node knows its peers.
#[derive(Clone)]
pub(crate) struct Security {
    /// The certificates of the node; none if its connections are plain text.
    pub(crate) trust: Option<Arc<Trust>>,
    /// The judge of those that come in.
    pub(crate) entrance: Arc<Entrance>,
}

impl Doorkeeper for Entrance {
    fn judge<'a>(
        &'a self,
        address: SocketAddr,
        credential: Option<&'a Credential>,
        certified: Option<&'a Certified>,
    ) -> Judgement<'a> {
        Box::pin(self.judged(address, credential, certified))
    }
}
