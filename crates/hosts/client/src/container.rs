//! Containers: where the objects of a `parallel-snapshot` keyspace are written first.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use quorate_core::command::{ContainerCall, Outcome};
use quorate_core::topology::{container_of, shard_position};
use quorate_core::transaction::{LimitExceeded, validate_key};
use quorate_core::{ClientId, Key, ShardId, TransactionId};

use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::retry::Retries;
use crate::transaction::{Transaction, clock_now};
use crate::waiters::Located;

/// The kind of an object, as its id says it. A register and a set of one key are two objects all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A key with a value.
    Register,
    /// A counting set.
    Set,
}

impl ObjectKind {
    /// The kind that an id says.
    pub fn of(id: &[u8]) -> Option<Self> {
        match id.get(KIND_AT) {
            Some(b'r') => Some(ObjectKind::Register),
            Some(b's') => Some(ObjectKind::Set),
            _ => None,
        }
    }

    const fn letter(self) -> char {
        match self {
            ObjectKind::Register => 'r',
            ObjectKind::Set => 's',
        }
    }
}

/// Where the letter of the kind stands in an id.
const KIND_AT: usize = 15 + 1 + 16 + 1;

/// The id of an object that was named at this time, in microseconds, by a client: the time comes first, so that ids of all containers sort by it.
fn new_id(micros: u64, client: ClientId, kind: ObjectKind, tag: &[u8]) -> Result<Key> {
    let begin = format!("{micros:015x}-{:016x}-{}{{", client.0, kind.letter());
    let id = Key::from([begin.as_bytes(), tag, b"}"].concat());
    if container_of(&id) != tag {
        return Err(Invalid::from(LimitExceeded::ContainerName).into());
    }
    validate_key(&id).map_err(Invalid::from)?;
    Ok(id)
}

/// A container of a `parallel-snapshot` keyspace: all objects whose keys name it by their tag in braces, as `{alice}/profile` does.
///
/// Its *preferred site* lets in what is written to its registers, so a transaction that is begun there commits without waiting for
/// another site. Until a container is placed, its preferred site follows from its name, and passes to a site that writes the container much more often than
/// all others. Sets are changed at every site alike.
#[derive(Clone, Debug)]
pub struct Container {
    keyspace: Keyspace,
    name: Key,
}

impl Container {
    pub(crate) fn new(keyspace: Keyspace, tag: &[u8]) -> Self {
        Container { keyspace, name: Key::copy_from_slice(tag) }
    }

    /// The tag that its objects' keys have in braces.
    pub fn tag(&self) -> &[u8] {
        &self.name
    }

    /// The name of its preferred site, as the nearest site knows it.
    ///
    /// # Errors
    /// [`Invalid::Unsupported`] if the keyspace has no containers; else as [`Keyspace::read_only`].
    pub async fn preferred_site(&self) -> Result<String> {
        let located = self.locate().await?;
        let outdated = || Invalid::KeyspaceOutdated { name: self.keyspace.name().to_owned() };
        self.names(&[located.preferred]).into_iter().next().ok_or_else(|| outdated().into())
    }

    /// The names of the sites that hold the values of its objects, as the nearest site knows them: all sites of the keyspace, unless it was placed at some
    /// of them alone ([`Placement::replicated_at`]).
    ///
    /// # Errors
    /// As [`Container::preferred_site`].
    pub async fn replica_sites(&self) -> Result<Vec<String>> {
        Ok(self.names(&self.locate().await?.replicas))
    }

    /// Creates it with this preferred site, or moves it there: the site that has it lets in no more writes, and the other one begins as soon
    /// as it has all that was written. Returns once the site that had it has handed it over, durably. It stays there until it is placed elsewhere or destroyed.
    ///
    /// # Errors
    /// [`Invalid::NoSuchSite`] or [`Invalid::NotInSite`] if the keyspace is not there; [`Invalid::Replicas`] if the container's objects are not there;
    /// [`Error::Conflict`] if transactions wrote to it all the time until the deadline; else as [`Keyspace::transact`].
    pub async fn place_at(&self, site: &str) -> Result<()> {
        self.place(site).await
    }

    /// As [`Container::place_at`], and more can be said of it before it is awaited.
    pub fn place(&self, site: &str) -> Placement {
        Placement { container: self.clone(), site: site.to_owned(), replicas: None }
    }

    /// Destroys it: its preferred site is that which follows from its name. Its objects stay.
    ///
    /// # Errors
    /// [`Invalid::Replicas`] if its objects are not at all sites; else as [`Container::place_at`].
    pub async fn destroy(&self) -> Result<()> {
        self.run(ContainerCall::Destroy).await.map(drop)
    }

    /// A new id for an object of this container: a key that nobody else is given, and that nobody is asked for. Ids ascend in the time at which they were
    /// given, by the clocks of the clients, whichever container they are of: a set of ids iterates from the oldest object to the newest. Those of one
    /// client ascend whatever its clock does.
    ///
    /// ```no_run
    /// # async fn example(posts: quorate::Keyspace) -> quorate::Result<()> {
    /// use quorate::ObjectKind;
    ///
    /// let post = posts.container("alice").new_id(ObjectKind::Register)?; // like 00627cc3c600000-00d1c5e2a4f87b36-r{alice}
    /// posts
    ///     .transact(async |txn| {
    ///         txn.put(&post, "hello")?;
    ///         txn.set_add("{bob}/timeline", &post)
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid::Limit`] if the tag names no container.
    pub fn new_id(&self, kind: ObjectKind) -> Result<Key> {
        let session = self.keyspace.session();
        new_id(session.next_id(clock_now()), session.client(), kind, &self.name)
    }

    async fn locate(&self) -> Result<Located> {
        let located = self.run(ContainerCall::Locate).await?;
        let outdated = || Invalid::KeyspaceOutdated { name: self.keyspace.name().to_owned() };
        located.ok_or_else(|| outdated().into())
    }

    fn names(&self, shards: &[ShardId]) -> Vec<String> {
        self.keyspace.shared().places.directory().sites_of(&self.keyspace.definition(), shards)
    }

    /// The local site of a place that has the container, or would have it: containers spread over the local sites of one place.
    fn local_site(&self, site: &str) -> Result<ShardId> {
        let directory = self.keyspace.shared().places.directory();
        let there = directory.local_sites(&self.keyspace.definition(), site)?;
        Ok(there[shard_position(&self.name, there.len())])
    }

    async fn run(&self, call: ContainerCall) -> Result<Option<Located>> {
        if container_of(&self.name) != self.name.as_slice() {
            return Err(Invalid::from(LimitExceeded::ContainerName).into());
        }
        let first = self.keyspace.session().next_transaction();
        let mut retries = Retries::new(self.keyspace.deadline(), first.client.0 ^ first.sequence);
        loop {
            let (attempt, patience) = retries.begin();
            let id = TransactionId { attempt, ..first };
            let txn: Transaction = self.keyspace.open(id, None, patience).await?;
            match txn.container(&self.name, call.clone()).await {
                Ok(located) => return Ok(located),
                Err(Error::Conflict) => {}
                Err(Error::Unknown { token }) => {
                    match self.keyspace.settle(&token, retries.remaining()).await {
                        Some(Outcome::Committed(_)) => return Ok(None),
                        Some(Outcome::Aborted) => {}
                        None => return Err(Error::Unknown { token }),
                    }
                }
                Err(error) => return Err(error),
            }
            if !retries.pause().await {
                return Err(Error::Conflict);
            }
        }
    }
}

/// A container is about to be placed: [`Container::place`].
#[derive(Clone, Debug)]
#[must_use = "nothing is placed before it is awaited"]
pub struct Placement {
    container: Container,
    site: String,
    replicas: Option<Vec<String>>,
}

impl Placement {
    /// Only these sites hold the values of its objects from here on, the preferred one among them. Clients at other sites read them at one of these, the
    /// nearest that answers, and write as before.
    ///
    /// Sites only ever give up their copies: one that does not hold the objects any more cannot be named again. At least two sites have to be named,
    /// where the keyspace has so many.
    pub fn replicated_at<Sites>(mut self, sites: Sites) -> Self
    where
        Sites: IntoIterator,
        Sites::Item: Into<String>,
    {
        self.replicas = Some(sites.into_iter().map(Into::into).collect());
        self
    }

    async fn run(self) -> Result<()> {
        let preferred = self.container.local_site(&self.site)?;
        let sites = self.replicas.as_ref();
        let replicas = sites.map(|sites| sites.iter().map(|site| self.container.local_site(site)).collect());
        let call = ContainerCall::Place { preferred, replicas: replicas.transpose()? };
        self.container.run(call).await.map(drop)
    }
}

impl IntoFuture for Placement {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId(0x00d1_c5e2_a4f8_7b36);

    #[test]
    fn ids_lie_in_their_container_and_sort_by_time() {
        let id =
            |micros, client, tag: &str| new_id(micros, client, ObjectKind::Register, tag.as_bytes()).unwrap();
        let first = id(1_732_608_000_000_000, CLIENT, "zoe");
        assert_eq!(first, "00627cc3c600000-00d1c5e2a4f87b36-r{zoe}");
        assert_eq!(container_of(&first), b"zoe");
        assert!(first < id(1_732_608_000_000_001, ClientId(0), "alice"), "the time comes first");
        assert_ne!(first, id(1_732_608_000_000_000, ClientId(7), "zoe"));
        assert!(id(u64::MAX >> 4, CLIENT, "a") > first);
        let set = new_id(7, CLIENT, ObjectKind::Set, b"zoe").unwrap();
        assert_eq!(
            (ObjectKind::of(&set), ObjectKind::of(&first)),
            (Some(ObjectKind::Set), Some(ObjectKind::Register))
        );
        assert_eq!(ObjectKind::of(b"{zoe}/profile"), None);
    }

    #[test]
    fn tags_that_name_no_container_get_no_ids() {
        for tag in ["", "{zoe}", "a}b", &"x".repeat(5_000)] {
            let error = new_id(7, CLIENT, ObjectKind::Register, tag.as_bytes()).unwrap_err();
            assert!(matches!(error, Error::Invalid(Invalid::Limit(_))), "{tag:?}: {error}");
        }
    }
}
