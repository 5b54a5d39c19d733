//! A session goes on at another client: tokens of what it has seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::KeyspaceId;
use quorate_core::command::Command;
use quorate_core::seen::{Seen, SeenPart};
use quorate_core::topology::Keyspace as Definition;

use crate::database::{Database, Shared};
use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;

/// The parts of tokens whose keyspaces this client does not use. They are handed on, and count once it does.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Seen>);

impl Kept {
    fn parts(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// The definition of a keyspace that this client uses.
    fn used(&self, keyspace: KeyspaceId) -> Option<Arc<Definition>> {
        self.places.definitions().into_iter().find(|definition| definition.id == keyspace)
    }
}

impl Database {
    /// How far this session has seen: a *causal token*, as text of some dozen bytes for each keyspace. A session is all that is done through one
    /// database. Its transactions are ordered as it runs them, and another one knows nothing of it; so hand this over as well, say in a cookie, and let
    /// the other one [observe](Database::observe) it. Keyspaces that are `strict` need none of this.
    ///
    /// ```no_run
    /// # async fn example(writer: quorate::Database, reader: quorate::Database) -> quorate::Result<()> {
    /// writer.keyspace("orders").await?.put("{alice}/order", "3 pens").await?;
    /// // Sent along with whatever makes the other one look.
    /// let seen = writer.seen().to_string();
    /// reader.observe(&seen.parse()?).await?;
    /// assert!(reader.keyspace("orders").await?.get("{alice}/order").await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn seen(&self) -> Seen {
        let mut seen = self.transport().with(|host, _| host.seen());
        seen.join(&self.shared().kept.parts());
        seen
    }

    /// Another session has seen this: whatever this one begins from here on comes after it in the serial order of `serializable` keyspaces, and
    /// includes it in `parallel-snapshot` keyspaces. For the latter it waits until the nearest site has all of it; parts of keyspaces that this
    /// client does not use are kept, handed on by [`Database::seen`], and waited for when it does ([`Database::keyspace`]).
    ///
    /// A part that is refused is as if it had not been there, and all others count. So a session that serves many users is held up by none of their tokens.
    /// Of `serializable` keyspaces, what lies further ahead than servers let clocks be, and than any shard has come, makes transactions fail.
    ///
    /// # Errors
    /// [`Invalid::NeverSeen`] if a site never had what was seen of it, and [`Invalid::SeenElsewhere`] if it was seen of another keyspace;
    /// [`Error::HistoryAbandoned`] if some of it was abandoned with its site, and then the rest counts; [`Error::Unavailable`] if the nearest site does
    /// not have it by the deadline; [`Invalid::Seen`] if so many parts cannot be kept.
    pub async fn observe(&self, seen: &Seen) -> Result<()> {
        self.shared().session.tell([Command::Observe { timestamp: seen.time }]);
        let mut unknown = Seen::default();
        let mut known = BTreeMap::new();
        for (keyspace, part) in seen.parts() {
            match self.shared().used(keyspace) {
                Some(definition) => _ = known.insert(keyspace, (definition, part.clone())),
                None => unknown.include(keyspace, part.clone()),
            }
        }
        let kept = {
            let mut parts = self.shared().kept.parts();
            let room = parts.validate_join(&unknown);
            if room.is_ok() {
                parts.join(&unknown);
            }
            room
        };
        let mut result = kept.map_err(|invalid| Error::from(Invalid::from(invalid)));
        for (definition, part) in known.into_values() {
            let caught_up = self.handle(Definition::clone(&definition)).catch_up(part).await;
            result = result.and(caught_up);
        }
        result
    }

    /// A token that was observed before this client used the keyspace counts from here on.
    pub(crate) async fn observe_kept(&self, keyspace: &Keyspace) -> Result<()> {
        let id = keyspace.definition().id;
        let taken = self.shared().kept.parts().take(id);
        let Some(part) = taken else { return Ok(()) };
        let result = keyspace.catch_up(part.clone()).await;
        if matches!(result, Err(Error::Unavailable { .. } | Error::Overloaded { .. })) {
            self.shared().kept.parts().include(id, part);
        }
        result
    }
}

impl Keyspace {
    /// Waits until the nearest site has all of this, and includes it from then on.
    async fn catch_up(&self, part: SeenPart) -> Result<()> {
        let definition = self.definition();
        let stands_in_sites = definition.comparison.is_none() && definition.isolation.stands_in_sites();
        if !stands_in_sites || definition.shards.first().is_none_or(|shard| shard.id != part.first) {
            return Err(Invalid::SeenElsewhere { name: self.name().to_owned() }.into());
        }
        self.begin().await?.catch_up(part.numbers).await
    }
}
