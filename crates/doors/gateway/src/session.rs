//! The session of a connection: its rights, and the keyspaces that it uses.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use quorate::{Database, Keyspace, Seen};
use quorate_certificates::Certified;
use tokio::sync::OnceCell;

use crate::Limits;

/// Something that a session may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right<'a> {
    /// To read a keyspace.
    Read {
        /// Its name.
        keyspace: &'a str,
    },
    /// To write to a keyspace.
    Write {
        /// Its name.
        keyspace: &'a str,
    },
    /// To create or to drop a keyspace.
    Administer {
        /// Its name.
        keyspace: &'a str,
    },
    /// To list the keyspaces.
    List,
    /// To see how the nodes of the cluster are, and which keys are hot.
    Observe,
    /// To ask for the outcome of a transaction, which settles it.
    Settle,
    /// To tell other clients something that is not stored.
    Publish,
    /// To hear what other clients publish.
    Subscribe,
}

/// The rights of sessions, asked for every request.
pub trait Rights: Send + Sync + 'static {
    /// True if a session without a name may do this.
    fn allows(&self, right: Right<'_>) -> bool;
}

/// A client that reaches the listener may do everything, which is why it is on loopback unless an operator says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl Rights for Everything {
    fn allows(&self, _: Right<'_>) -> bool {
        true
    }
}

/// A session may not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this needs the right to {what}, and nothing was done")]
pub struct Denied {
    what: String,
}

/// The state that the connections of a thread share.
pub(crate) struct Shared {
    pub(crate) addresses: Vec<String>,
    pub(crate) client: quorate::Options,
    pub(crate) rights: Arc<dyn Rights>,
    pub(crate) limits: Limits,
    pub(crate) database: OnceCell<Database>,
    pub(crate) keyspaces: RefCell<BTreeMap<String, Keyspace>>,
    /// The values that doors share between their connections, one of each type.
    pub(crate) of_doors: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
}

/// The session of a connection. What is done in it comes after what it has seen before, whatever the isolation.
#[derive(Clone)]
pub struct Session {
    shared: Rc<Shared>,
    certified: Option<Arc<Certified>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(shared: Rc<Shared>) -> Self {
        Session::of_client(shared, None)
    }

    /// The session of a client that has shown this certificate, if it has shown one.
    pub(crate) fn of_client(shared: Rc<Shared>, certified: Option<Arc<Certified>>) -> Self {
        Session { shared, certified }
    }

    /// The identity that the certificate of the client proves, if it has shown one.
    pub fn certified(&self) -> Option<&Certified> {
        self.certified.as_deref()
    }

    /// The one place where a right is asked.
    ///
    /// # Errors
    /// The session does not have it.
    pub fn require(&self, right: Right<'_>) -> Result<(), Denied> {
        if self.shared.rights.allows(right) {
            return Ok(());
        }
        let what = match right {
            Right::Read { keyspace } => format!("read {keyspace:?}"),
            Right::Write { keyspace } => format!("write to {keyspace:?}"),
            Right::Administer { keyspace } => format!("create or drop {keyspace:?}"),
            Right::List => "list the keyspaces".to_owned(),
            Right::Observe => "see how the cluster is".to_owned(),
            Right::Settle => "ask for the outcomes of transactions".to_owned(),
            Right::Publish => "publish".to_owned(),
            Right::Subscribe => "subscribe".to_owned(),
        };
        Err(Denied { what })
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
        let Shared { addresses, client, database, .. } = &*self.shared;
        database.get_or_try_init(|| quorate::connect_with(addresses.as_slice(), client.clone())).await
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
