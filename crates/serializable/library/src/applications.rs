//! Applications that users link with a server: procedures in native code, under the name of the application.
//!
//! *Source*: Granola paper, section 3: applications link against the library of Granola and run at the repositories.
//!
//! A process says at its start what it is linked with. Which keyspaces may call that stands in the catalogue: so all replicas of a shard call the
//! same, and a node without the application refuses to host one.

use std::sync::{PoisonError, RwLock};

use quorate_procedure::Procedure;

use crate::LINKED;

/// An application: native procedures under one name.
#[derive(Clone, Copy)]
pub struct Application {
    /// Its name: letters, digits, `-`, `_` and `.`. One whose procedures come to something else than before gets another name.
    pub name: &'static str,
    /// Its procedures. They are called `application/procedure`.
    pub procedures: &'static [(&'static str, &'static (dyn Procedure + Sync))],
}

impl std::fmt::Debug for Application {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let procedures: Vec<&str> = self.procedures.iter().map(|(name, _)| *name).collect();
        formatter
            .debug_struct("Application")
            .field("name", &self.name)
            .field("procedures", &procedures)
            .finish()
    }
}

/// An application cannot be linked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No keyspace could name it.
    #[error("{name:?} cannot name an application: use 1 to 64 letters, digits, '-', '_' or '.'")]
    Name {
        /// The name.
        name: &'static str,
    },
    /// Another one, or the server itself, has the name.
    #[error("this server has an application {name:?} already: link another one under another name")]
    Taken {
        /// The name.
        name: &'static str,
    },
}

/// The applications that this process is linked with.
static APPLICATIONS: RwLock<Vec<Application>> = RwLock::new(Vec::new());

/// Links an application with this process. That is to be done before a server starts: replicas of its keyspaces are refused until then.
///
/// # Errors
/// If it cannot have its name.
pub fn link(application: Application) -> Result<(), LinkError> {
    let Application { name, .. } = application;
    let is_sound = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_sound) {
        return Err(LinkError::Name { name });
    }
    let is_own = LINKED.iter().any(|(linked, _)| linked.split('/').next() == Some(name));
    let mut applications = APPLICATIONS.write().unwrap_or_else(PoisonError::into_inner);
    if is_own || applications.iter().any(|known| known.name == name) {
        return Err(LinkError::Taken { name });
    }
    applications.push(application);
    Ok(())
}

/// The longest name of an application, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The names of the applications that this process is linked with, in the order of names.
pub fn applications() -> Vec<&'static str> {
    let applications = APPLICATIONS.read().unwrap_or_else(PoisonError::into_inner);
    let mut names: Vec<&'static str> = applications.iter().map(|application| application.name).collect();
    names.sort_unstable();
    names
}

/// True if this process is linked with the application.
pub fn is_linked(application: &str) -> bool {
    applications().contains(&application)
}

/// A procedure of an application, by the name that it is called by.
pub(crate) fn find(application: &str, name: &str) -> Option<&'static (dyn Procedure + Sync)> {
    let procedure = name.strip_prefix(application)?.strip_prefix('/')?;
    let applications = APPLICATIONS.read().unwrap_or_else(PoisonError::into_inner);
    let linked = applications.iter().find(|linked| linked.name == application)?;
    linked.procedures.iter().find(|(known, _)| *known == procedure).map(|(_, procedure)| *procedure)
}

#[cfg(test)]
mod tests {
    use quorate_tpcc::procedures::Payment;

    use super::*;

    #[test]
    fn procedures_are_found_by_the_name_of_their_application() {
        let shop = Application { name: "shop", procedures: &[("pay", &Payment)] };
        assert_eq!(link(shop), Ok(()));
        assert!(is_linked("shop") && applications().contains(&"shop"));
        assert!(find("shop", "shop/pay").is_some());
        for (application, name) in
            [("shop", "pay"), ("shop", "shop/buy"), ("sho", "shop/pay"), ("other", "other/pay")]
        {
            assert!(find(application, name).is_none(), "{application}: {name}");
        }
        assert_eq!(link(shop), Err(LinkError::Taken { name: "shop" }));
    }

    #[test]
    fn names_that_no_keyspace_can_say_are_refused() {
        let named = |name| link(Application { name, procedures: &[] });
        for name in ["", "a/b", "a b"] {
            assert_eq!(named(name), Err(LinkError::Name { name }));
        }
        for name in ["tpcc", "rubis", "redis"] {
            assert_eq!(named(name), Err(LinkError::Taken { name }));
        }
    }
}
