//! Why commands were not carried out, as a Redis client is told.

use quorate::{Error, Refusal};
use quorate_gateway::{Denied, Limited, LoginError};
use quorate_redis_commands::Reply;

use crate::permission::Wanted;

const TOO_LARGE: &str = "ERR this is more than one transaction may read and write, and nothing was done";

/// A request has not come to an end as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reply of each of its commands: the code says whether anything can have happened.
    pub text: String,
    /// True if it was too large for one transaction, and nothing has happened: its commands may be tried one by one.
    pub is_too_large: bool,
    /// True if the keyspace may be another one by now.
    pub is_stale: bool,
}

impl Failure {
    /// Nothing has happened, and trying again would not help.
    pub fn refused(reason: impl std::fmt::Display) -> Self {
        Failure { text: format!("ERR {reason}"), is_too_large: false, is_stale: false }
    }

    fn told(text: String) -> Self {
        Failure { text, is_too_large: false, is_stale: false }
    }

    /// The client may not do it, and nothing has happened: in the words of Redis.
    pub(crate) fn denied(denied: &Denied, wanted: Wanted<'_>) -> Self {
        Self::told(match (denied, wanted) {
            (Denied::NotLoggedIn(_), _) => NOT_LOGGED_IN.to_owned(),
            (Denied::NotKnown, _) => format!("TRYAGAIN {denied}"),
            (Denied::NotAllowed(_), Wanted::Command(name)) => {
                format!("NOPERM this user has no permissions to run the '{name}' command")
            }
            (Denied::NotAllowed(_), Wanted::Key) => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
            }
            (Denied::NotAllowed(_), Wanted::Channel) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments"
                    .to_owned()
            }
        })
    }

    /// It is more than a transaction may be, and nothing has happened.
    pub(crate) fn too_large() -> Self {
        Failure { text: TOO_LARGE.to_owned(), is_too_large: true, is_stale: false }
    }

    /// True if nothing has happened, and the reason may lie in one of several commands: the others may be tried without it.
    pub(crate) fn may_lie_in_one_command(&self) -> bool {
        self.is_too_large || self.is_stale || self.text.starts_with("ERR")
    }

    /// The door ended while commands were under way.
    pub(crate) fn cut_off() -> Self {
        let text = "UNKNOWN the command may have been carried out: the door has ended".to_owned();
        Failure { text, is_too_large: false, is_stale: false }
    }

    /// The reply of a command.
    pub(crate) fn reply(&self) -> Reply {
        Reply::error(self.text.clone())
    }
}

/// The reply to a client that has to log in first.
pub(crate) const NOT_LOGGED_IN: &str = "NOAUTH Authentication required.";

impl From<LoginError> for Failure {
    fn from(error: LoginError) -> Self {
        Failure::told(match error {
            LoginError::Wrong => "WRONGPASS invalid username-password pair or user is disabled.".to_owned(),
            LoginError::Unknown => format!("TRYAGAIN {error}"),
            LoginError::TooMany { .. } | LoginError::Busy { .. } | LoginError::Connections => {
                format!("OVERLOADED {error}")
            }
        })
    }
}

impl From<Limited> for Failure {
    fn from(limited: Limited) -> Self {
        Failure::told(format!("OVERLOADED nothing was done: {limited}"))
    }
}

/// `UNKNOWN`: it may have happened. `OVERLOADED`, `TRYAGAIN`: it surely has not, and may be tried again. `ERR`: it surely has not.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let is_too_large = match &error {
            Error::Refused { refusal, .. } => matches!(**refusal, Refusal::TooLarge),
            Error::Invalid(quorate::Invalid::Limit(_) | quorate::Invalid::Procedure(_)) => true,
            _ => false,
        };
        let is_stale = matches!(error, Error::Invalid(quorate::Invalid::KeyspaceDropped { .. }));
        let text = match &error {
            Error::Unknown { token } => {
                format!("UNKNOWN the command may have been carried out, or may still be: transaction {token}")
            }
            Error::Denied { reason, token: Some(token) } => {
                format!(
                    "UNKNOWN {reason} by one node; the command may have been carried out: transaction {token}"
                )
            }
            Error::AnswersLost { token } => {
                format!("UNKNOWN the command was carried out, and its reply is lost: transaction {token}")
            }
            Error::Overloaded { retry_after } => {
                format!("OVERLOADED nothing was started: try again in {} ms", retry_after.as_millis().max(1))
            }
            Error::Conflict => {
                "TRYAGAIN other transactions were in the way, and nothing was done: try again".to_owned()
            }
            Error::Unavailable { .. } | Error::NoSpace { .. } | Error::Connect { .. } => {
                format!("TRYAGAIN nothing was done: {error}")
            }
            _ if is_too_large => TOO_LARGE.to_owned(),
            _ => format!("ERR nothing was done: {error}"),
        };
        Failure { text, is_too_large, is_stale }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_code_says_whether_anything_can_have_happened() {
        for (error, code) in [
            (Error::Conflict, "TRYAGAIN "),
            (Error::Overloaded { retry_after: Duration::from_millis(50) }, "OVERLOADED "),
            (Error::Unavailable { missing: Vec::new() }, "TRYAGAIN "),
            (Error::Closed, "ERR nothing was done"),
        ] {
            let failure = Failure::from(error);
            assert!(failure.text.starts_with(code) && !failure.is_too_large, "{failure:?}");
        }
    }
}
