//! Rights: the one place where they are decided, for a session and for the threads that work for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use quorate::rights::{self, Access, ClockTime, Login, Refusal, Scope};
use quorate_logins::Audit;

use crate::access::Known;
use crate::meter::Place;

/// The built-in keyspace, in which users and the hashes of their passwords lie.
const SYSTEM: &str = "_system";

/// Something that a session may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right<'a> {
    /// To read a part of a keyspace.
    Read {
        /// Its name.
        keyspace: &'a str,
        /// The part.
        scope: Scope<'a>,
    },
    /// To write to a part of a keyspace.
    Write {
        /// Its name.
        keyspace: &'a str,
        /// The part.
        scope: Scope<'a>,
    },
    /// To deploy or to remove procedures.
    Deploy {
        /// The name of the keyspace.
        keyspace: &'a str,
    },
    /// To create or to drop a keyspace.
    Administer {
        /// Its name.
        keyspace: &'a str,
    },
    /// To list the keyspaces: any user may, and is told of those that it has a right in.
    List,
    /// To see how the nodes of the cluster are, and which keys are hot; and to do with other clients of a door as one likes.
    Observe,
    /// To ask for the outcome of a transaction, which settles it: a user that may write to something may settle what it has the token of.
    Settle,
    /// To tell other clients something on a channel that is not stored.
    Publish {
        /// The channel.
        channel: &'a [u8],
    },
    /// To hear what other clients publish.
    Subscribe {
        /// The channels.
        channels: Scope<'a>,
    },
}

/// A session may not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It is no user's session, or its login has ended.
    #[error("{0}, and nothing was done")]
    NotLoggedIn(Refusal),
    /// Its user has not the right.
    #[error("{0}, and nothing was done")]
    NotAllowed(Refusal),
    /// The users are not known yet.
    #[error("who may do this is not known yet, and nothing was done: the cluster cannot be asked; try again")]
    NotKnown,
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotLoggedIn | Refusal::LoggedOut { .. } => Denied::NotLoggedIn(refusal),
            Refusal::Denied { .. } => Denied::NotAllowed(refusal),
        }
    }
}

/// On whose behalf something is done.
#[derive(Debug)]
pub(crate) enum Actor {
    /// The door itself, for its own work.
    Door,
    /// A client that has not logged in.
    Nobody,
    /// A user, with its place among its connections.
    User(Login, #[expect(dead_code, reason = "it is counted as long as it is here")] Place),
}

/// The rights of a session, as long as its login stands.
#[derive(Debug)]
pub(crate) struct Authority {
    pub(crate) access: Known,
    pub(crate) actor: Actor,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) door: &'static str,
    pub(crate) peer: Option<SocketAddr>,
}

/// The time that the clock of this node tells.
pub(crate) fn clock_now() -> ClockTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ClockTime::from_micros(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
}

impl Authority {
    pub(crate) fn access(&self) -> Option<Arc<Access>> {
        self.access.borrow().clone()
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        match &self.actor {
            Actor::User(login, _) => Some(login),
            Actor::Door | Actor::Nobody => None,
        }
    }

    /// Decides, and records a refusal.
    pub(crate) fn require(&self, right: Right<'_>) -> Result<(), Denied> {
        self.decide(right).inspect_err(|denied| {
            if let (Some(audit), Denied::NotLoggedIn(_) | Denied::NotAllowed(_)) = (&self.audit, denied) {
                let user = self.login().map(|login| login.user.as_str());
                audit.refused(self.door, user, self.peer, &denied.to_string());
            }
        })
    }

    pub(crate) fn decide(&self, right: Right<'_>) -> Result<(), Denied> {
        if matches!(self.actor, Actor::Door) {
            return Ok(());
        }
        let access = self.access().ok_or(Denied::NotKnown)?;
        let (login, now) = (self.login(), clock_now());
        let allow = |right, keyspace, scope| access.allow(login, right, keyspace, scope, now);
        // The catalogue holds the hashes of passwords.
        let within = |right, keyspace, scope| match keyspace {
            SYSTEM => allow(rights::Right::Administer, None, Scope::Whole),
            name => allow(right, Some(name), scope),
        };
        match right {
            Right::Read { keyspace, scope } => within(rights::Right::Read, keyspace, scope)?,
            Right::Write { keyspace, scope } => within(rights::Right::Write, keyspace, scope)?,
            Right::Deploy { keyspace } => within(rights::Right::Deploy, keyspace, Scope::Whole)?,
            Right::Administer { keyspace } => within(rights::Right::Administer, keyspace, Scope::Whole)?,
            Right::Publish { channel } => {
                allow(rights::Right::Write, Some(rights::CHANNELS), Scope::Key(channel))?;
            }
            Right::Subscribe { channels } => allow(rights::Right::Read, Some(rights::CHANNELS), channels)?,
            Right::Observe => allow(rights::Right::Administer, None, Scope::Whole)?,
            Right::List => access.known(login, now)?,
            Right::Settle => access.allow_somewhere(login, rights::Right::Write, now)?,
        }
        Ok(())
    }
}

/// The rights of a session in a keyspace. They may be sent to other threads, and are as current as the session.
#[derive(Clone, Debug)]
pub struct Permit {
    /// None for the door itself.
    of: Option<(Arc<Authority>, Arc<str>)>,
}

impl Permit {
    pub(crate) fn new(authority: Arc<Authority>, keyspace: &str) -> Self {
        Permit { of: Some((authority, keyspace.into())) }
    }

    /// Everything: where there is no cluster, and so no user.
    pub fn everything() -> Self {
        Permit { of: None }
    }

    fn right<'a>(keyspace: &'a str, writes: bool, scope: Scope<'a>) -> Right<'a> {
        match writes {
            true => Right::Write { keyspace, scope },
            false => Right::Read { keyspace, scope },
        }
    }

    /// Asks whether a part of the keyspace may be read, or also written to.
    ///
    /// # Errors
    /// It may not.
    pub fn require(&self, writes: bool, scope: Scope<'_>) -> Result<(), Denied> {
        let Some((authority, keyspace)) = &self.of else { return Ok(()) };
        authority.require(Self::right(keyspace, writes, scope))
    }

    /// The same, of what is only asked and not wanted yet: no refusal is recorded.
    pub fn allows(&self, writes: bool, scope: Scope<'_>) -> bool {
        let Some((authority, keyspace)) = &self.of else { return true };
        authority.decide(Self::right(keyspace, writes, scope)).is_ok()
    }

    /// Asks whether something may be done that is about no keyspace.
    ///
    /// # Errors
    /// It may not.
    pub fn require_beside(&self, right: Right<'_>) -> Result<(), Denied> {
        self.of.as_ref().map_or(Ok(()), |(authority, _)| authority.require(right))
    }

    /// Asks whether something else may be done in the keyspace.
    ///
    /// # Errors
    /// It may not.
    pub fn require_right(&self, right: impl FnOnce(&str) -> Right<'_>) -> Result<(), Denied> {
        let Some((authority, keyspace)) = &self.of else { return Ok(()) };
        authority.require(right(keyspace))
    }
}
