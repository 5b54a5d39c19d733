//! The judge of credentials, which a client shows before it is let in.

use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use quorate_access::Proof;
use quorate_wire::Credential;

use crate::secure::Certified;

/// A credential of a client that was found to be good: the user that it names may still be gone by the time it asks for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name of the user, where what was shown has one.
    pub user: Option<String>,
    /// The proof itself; none for a password that nobody could judge, because there were no users. Once there are, the connection has to be made anew.
    pub proof: Option<Proof>,
}

/// A judgement that is under way.
pub type Judgement<'a> = Pin<Box<dyn Future<Output = Result<Option<Arc<Shown>>, String>> + Send + 'a>>;

/// The judge of what clients show. It may take its time, within that of the handshake; the transport serves others meanwhile.
pub trait Doorkeeper: Debug + Send + Sync {
    /// Judges what a client shows: a credential, or else the certificate of its connection. None if it has shown nothing.
    ///
    /// # Errors
    /// The credential is wrong, or cannot be judged now; says why, for the client.
    fn judge<'a>(
        &'a self,
        address: SocketAddr,
        credential: Option<&'a Credential>,
        certified: Option<&'a Certified>,
    ) -> Judgement<'a>;
}
