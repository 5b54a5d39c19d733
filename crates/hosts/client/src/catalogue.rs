//! The catalogue: keyspaces are entries of the built-in keyspace `_system`, created by transactions.
//!
//! Reads of it may be old until the transaction has committed, so that a keyspace is absent, or there, is known only then:
//! it is no error of the transaction, but its result.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::changes::Retention;
use quorate_core::comparison::{Comparison, Rival};
use quorate_core::topology::{
    APPLICATION_NAME_BYTES_MAX, CLOCK_BOUND_MAX, Durability, Isolation, KEYSPACE_NAME_BYTES_MAX,
    Keyspace as Definition, Node, PlacementError, Shard, Speculation, Timestamping, spread_leaders,
};
use quorate_core::{Epoch, GroupSize, KeyspaceId, NodeId, ShardId, SiteId};
use quorate_wire::catalogue::{
    DropStage, Dropped, NEXT_KEYSPACE_KEY, NEXT_SHARD_KEY, SYSTEM_KEYSPACE, SYSTEM_KEYSPACE_ID, SYSTEM_SHARD,
    decode_counter, encode_counter, group_key, keyspace_key, keyspace_range, node_key,
};

use crate::directory::Directory;
use crate::drops;
use crate::error::{Error, Invalid, Result};
use crate::indexes;
use crate::transaction::Transaction;

/// How many keyspaces are read at a time.
pub(crate) const PAGE: u32 = 256;

/// The properties of a new keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// The isolation that its transactions are promised.
    pub isolation: Isolation,
    /// The failures that its acknowledged writes survive.
    pub durability: Durability,
    /// Into how many shards its keys are divided.
    pub shards: usize,
    /// How many replicas each shard has: an odd number, or any in `snapshot` keyspaces, up to [`GroupSize::MAX`]. By default one in each site, or three if there are fewer sites
    /// than that and enough nodes.
    pub replicas: Option<usize>,
    /// The names of the sites that hold it; all if none are named.
    pub sites: Vec<String>,
    /// How far the clocks of all clients are apart at most, if that is known, up to [`CLOCK_BOUND_MAX`]. Commits then take as
    /// long at least, timestamps follow real time, and [`Keyspace::read_now`](crate::Keyspace::read_now) is possible.
    pub clock_bound: Option<Duration>,
    /// The comparison system that runs it in place of its isolation's protocol, for measurements; refused unless the crate is built with the feature
    /// `rivals`. The quorum store has no transactions and promises nothing. No system is for data that matters: replicas of it that have lost their records with a majority of their group do not come back.
    pub comparison: Option<Rival>,
    /// How its transactions speculate, in `snapshot` keyspaces; by default as [`Speculation::default`] says: chains of up to eight results are shown, and each
    /// node has a tuner. Refused for others.
    pub speculation: Option<Speculation>,
    /// The serial order of `strict` keyspaces and how their transactions are proposed again; by default as [`Timestamping::default`] says. Refused for others, and
    /// the order of timestamps with a [clock bound](KeyspaceOptions::clock_bound).
    pub timestamping: Option<Timestamping>,
    /// The application that the shards of a `serializable` keyspace can call, which all its nodes are linked with. Refused for others, and if a node is not.
    pub application: Option<String>,
    /// How much its replicas retain for consumers of changes, up to [`Retention::TIME_MAX`] and [`Retention::BYTES_MAX`] for each; by default what has committed in the last five minutes, and
    /// 64 MiB at most. Refused where no changes are told.
    pub retention: Option<Retention>,
    /// True if values may have lifetimes ([`Transaction::put_for`]), in keyspaces that are `strict` in the order of real time, or `snapshot`. Refused for others. A keyspace is made
    /// for it or not: it cannot be changed later.
    pub expiring: bool,
}

impl KeyspaceOptions {
    /// A keyspace of one shard with the defaults of this isolation.
    pub fn new(isolation: Isolation) -> Self {
        KeyspaceOptions {
            isolation,
            durability: Durability::default(),
            shards: 1,
            replicas: None,
            sites: Vec::new(),
            clock_bound: None,
            comparison: None,
            speculation: None,
            timestamping: None,
            application: None,
            retention: None,
            expiring: false,
        }
    }

    /// True if its transactions run at nodes, each with a machine in a home.
    pub(crate) fn has_homes(&self) -> bool {
        self.isolation.has_homes() && self.comparison.is_none()
    }
}

/// Refuses a name that cannot name a keyspace.
pub(crate) fn validate_name(name: &str) -> Result<(), Invalid> {
    if name == SYSTEM_KEYSPACE {
        return Err(Invalid::SystemKeyspace { name: name.to_owned() });
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    if begins && name.len() <= KEYSPACE_NAME_BYTES_MAX && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(Invalid::KeyspaceName { name: name.chars().take(KEYSPACE_NAME_BYTES_MAX).collect() })
    }
}

/// The result of a transaction, if it commits.
pub(crate) type Found<T> = std::result::Result<T, Invalid>;

/// Looks a keyspace up. In a transaction that does not commit it may be as it was, or have been dropped.
pub(crate) async fn remembered(txn: &Transaction, name: &str) -> Result<Option<Definition>> {
    txn.get(keyspace_key(name)).await?.map(|value| decode_definition(&value)).transpose()
}

/// Looks up who holds the catalogue itself, of which this is known.
pub(crate) async fn system(txn: &Transaction, known: &Definition) -> Result<Definition> {
    let Some(value) = txn.get(group_key(SYSTEM_SHARD)).await? else { return Ok(known.clone()) };
    let shard: Shard = quorate_wire::decode(&value).map_err(|error| damaged(&error))?;
    Ok(Definition { epoch: shard.succession().present.since, shards: vec![shard], ..known.clone() })
}

/// Defines a keyspace, or who holds the catalogue itself.
pub(crate) fn define(txn: &Transaction, definition: &Definition) -> Result<()> {
    match definition.id {
        SYSTEM_KEYSPACE_ID => txn.put(group_key(SYSTEM_SHARD), quorate_wire::encode(&definition.shards[0])),
        _ => txn.put(keyspace_key(&definition.name), quorate_wire::encode(definition)),
    }
}

/// Finds a node among these that has been forgotten: nothing may be placed there. If a transaction forgets one of them meanwhile, it or this
/// transaction does not commit.
pub(crate) async fn forgotten_among(
    txn: &Transaction,
    nodes: impl IntoIterator<Item = NodeId>,
) -> Result<Option<NodeId>> {
    let nodes: BTreeSet<NodeId> = nodes.into_iter().collect();
    let found = txn.get_many(nodes.iter().map(|node| node_key(*node))).await?;
    for (node, value) in nodes.into_iter().zip(found) {
        let known = value.map(|value| quorate_wire::decode::<Node>(&value)).transpose();
        if known.map_err(|error| damaged(&error))?.is_some_and(|known| known.is_forgotten()) {
            return Ok(Some(node));
        }
    }
    Ok(None)
}

/// That a keyspace is not there, and which are; or that it was dropped.
pub(crate) async fn missing(txn: &Transaction, name: &str) -> Result<Invalid> {
    let dropped = drops::list(txn).await?;
    let is_meant = |dropped: &&Dropped| dropped.name == name && dropped.stage == DropStage::Waiting;
    if let Some(dropped) = dropped.iter().rfind(is_meant) {
        return Ok(Invalid::KeyspaceInDrops { name: name.to_owned(), id: dropped.id.0 });
    }
    let existing = list(txn).await?.into_iter().map(|definition| definition.name).collect();
    Ok(Invalid::NoSuchKeyspace { name: name.to_owned(), existing })
}

/// All keyspaces but the catalogue, by name.
pub(crate) async fn list(txn: &Transaction) -> Result<Vec<Definition>> {
    let range = keyspace_range();
    let to = range.to.unwrap_or_default();
    let mut definitions = Vec::new();
    let mut from = Some(range.from);
    while let Some(start) = from {
        let page = txn.scan(start, &to, PAGE).await?;
        for (_, value) in &page.entries {
            definitions.push(decode_definition(value)?);
        }
        from = page.next;
    }
    Ok(definitions)
}

/// Refuses a system of comparison of which this client has no coordinator.
pub(crate) fn validate_rival(rival: Option<Rival>) -> Result<(), Invalid> {
    match rival {
        Some(rival) if !cfg!(feature = "rivals") => Err(Invalid::NoRivals { rival }),
        _ => Ok(()),
    }
}

/// Refuses an application where no shard runs procedures, or whose name is none.
pub(crate) fn validate_application(options: &KeyspaceOptions, application: &str) -> Result<(), Invalid> {
    if options.isolation != Isolation::Serializable || options.comparison.is_some() {
        return Err(Invalid::NoApplication { isolation: options.isolation });
    }
    if application.is_empty() || application.len() > APPLICATION_NAME_BYTES_MAX {
        return Err(Invalid::ApplicationName { name: application.to_owned() });
    }
    Ok(())
}

/// Adds a keyspace.
pub(crate) async fn create(
    txn: &Transaction,
    directory: &Directory,
    name: &str,
    options: &KeyspaceOptions,
) -> Result<Found<Definition>> {
    validate_rival(options.comparison)?;
    if options.clock_bound.is_some_and(|bound| bound > CLOCK_BOUND_MAX) {
        return Err(Invalid::ClockBound { max: CLOCK_BOUND_MAX }.into());
    }
    if options.speculation.is_some() && !options.has_homes() {
        return Err(Invalid::NoSpeculation { isolation: options.isolation }.into());
    }
    if let Some(speculation) = options.speculation {
        speculation.validate().map_err(Invalid::Speculation)?;
    }
    if let Some(timestamping) = options.timestamping {
        if options.isolation != Isolation::Strict || options.comparison.is_some() {
            return Err(Invalid::NoTimestamping { isolation: options.isolation }.into());
        }
        timestamping.validate(options.clock_bound).map_err(Invalid::Timestamping)?;
    }
    if let Some(retention) = options.retention {
        if options.comparison.is_some() {
            return Err(Invalid::NoRetention { isolation: options.isolation }.into());
        }
        if !retention.is_possible() {
            return Err(Invalid::Retention.into());
        }
    }
    let sites = directory.sites(&options.sites)?;
    let replicas = options.replicas.unwrap_or_else(|| default_replicas(directory, options.isolation, &sites));
    let key = keyspace_key(name);
    let found = txn.get_many([key.as_ref(), NEXT_KEYSPACE_KEY, NEXT_SHARD_KEY]).await?;
    let [existing, next_keyspace, next_shard] = found.as_slice() else { return Err(Error::Closed) };
    if existing.is_some() {
        return Ok(Err(Invalid::KeyspaceExists { name: name.to_owned() }));
    }
    let next = |value: &Option<quorate_core::Value>, first: u32| match value {
        Some(value) => decode_counter(value).map_err(|error| damaged(&error)),
        None => Ok(first),
    };
    // Number 0 is the catalogue's, for keyspaces and for shards.
    let (mut id, first_shard) = (next(next_keyspace, 1)?, next(next_shard, 1)?);
    // Nor is the number of a drop given again, should the catalogue have lost its counter.
    while drops::find(txn, KeyspaceId(id)).await?.is_some() {
        id = id.saturating_add(1);
    }
    if options.comparison.is_some() {
        GroupSize::new(replicas).map_err(PlacementError::from).map_err(Invalid::Placement)?;
    }
    let place = |shards, first| {
        let placed =
            directory.topology().place_for(options.isolation, shards, replicas, ShardId(first), &sites);
        placed.map_err(Invalid::Placement)
    };
    let mut shards = place(options.shards, first_shard)?;
    let end = first_shard + shards.len() as u32;
    let mut service = None;
    if let Some(rival) = options.comparison {
        if rival.has_service() {
            service = place(1, end)?.pop();
        }
        // The first replica of a group leads it, and each node is to lead as many as any other.
        for (group, position) in shards.iter_mut().chain(&mut service).zip(0..) {
            group.replicas.rotate_left(position % replicas);
        }
    } else if !options.isolation.stands_in_sites() {
        spread_leaders(&mut shards);
    }
    let end = end + service.iter().len() as u32;
    let homes = match options.has_homes() {
        true => {
            let hosts: BTreeSet<NodeId> =
                shards.iter().flat_map(|shard| shard.replicas.iter().copied()).collect();
            let decisions = options.speculation.unwrap_or_default().decisions;
            let homes = directory.topology().homes(ShardId(end), decisions, |node| hosts.contains(&node));
            homes.map_err(Invalid::Placement)?
        }
        false => Vec::new(),
    };
    let next_shard = end + homes.len() as u32;
    let comparison = options.comparison.map(|rival| Comparison { rival, service });
    let definition = Definition {
        id: KeyspaceId(id),
        name: name.to_owned(),
        isolation: options.isolation,
        durability: options.durability,
        shards,
        epoch: Epoch::FIRST,
        clock_bound: options.clock_bound,
        comparison,
        removals: Vec::new(),
        joins: Vec::new(),
        homes,
        speculation: options.has_homes().then(|| options.speculation.unwrap_or_default()),
        timestamping: options.timestamping,
        application: options.application.clone(),
        retention: options.retention,
        expiring: options.expiring,
    };
    if let Some(reason) = definition.expiring.then(|| indexes::known::unindexable(&definition)).flatten() {
        return Err(Invalid::CannotExpire { reason }.into());
    }
    let nodes = definition.groups().flat_map(|group| group.replicas.iter().copied());
    if let Some(node) = forgotten_among(txn, nodes).await? {
        return Ok(Err(Invalid::NoSuchNode { node }));
    }
    txn.put(NEXT_KEYSPACE_KEY, encode_counter(id + 1))?;
    txn.put(NEXT_SHARD_KEY, encode_counter(next_shard))?;
    define(txn, &definition)?;
    Ok(Ok(definition))
}

/// Takes the number of a new shard.
pub(crate) async fn take_shard(txn: &Transaction) -> Result<ShardId> {
    let next = match txn.get(NEXT_SHARD_KEY).await? {
        Some(value) => decode_counter(&value).map_err(|error| damaged(&error))?,
        None => 1,
    };
    txn.put(NEXT_SHARD_KEY, encode_counter(next + 1))?;
    Ok(ShardId(next))
}

/// One replica in each site; three if there are fewer sites but enough nodes. Of a group that stands in one site, three if every site has
/// so many nodes, else one.
pub(crate) fn default_replicas(directory: &Directory, isolation: Isolation, sites: &[SiteId]) -> usize {
    if isolation.stands_in_sites() {
        let nodes =
            |site: &SiteId| directory.topology().live_nodes().filter(|node| node.site == *site).count();
        return if sites.iter().all(|site| nodes(site) >= 3) { 3 } else { 1 };
    }
    let nodes = directory.topology().live_nodes().filter(|node| sites.contains(&node.site));
    let (nodes, sites) = nodes.fold((0, BTreeSet::new()), |(nodes, mut sites), node| {
        sites.insert(node.site);
        (nodes + 1, sites)
    });
    let wanted = sites.len().max(3).min(nodes).clamp(1, GroupSize::MAX);
    if wanted.is_multiple_of(2) { wanted - 1 } else { wanted }
}

fn decode_definition(value: &[u8]) -> Result<Definition> {
    quorate_wire::decode(value).map_err(|error| damaged(&error))
}

pub(crate) fn damaged(error: &quorate_wire::DecodeError) -> Error {
    Error::application(format!(
        "the catalogue holds an entry that this version cannot read ({error}): is the cluster newer than this client?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::topology::Topology;

    fn directory(nodes_per_site: &[usize]) -> Directory {
        let mut topology = Topology::default();
        for (site, nodes) in nodes_per_site.iter().enumerate() {
            topology.sites.push(format!("site{site}"));
            for _ in 0..*nodes {
                let id = NodeId(topology.nodes.len() as u16);
                topology.nodes.push(Node { id, site: SiteId(site as u16), address: "here:1".to_owned() });
            }
        }
        Directory::new(topology, None, |_| None)
    }

    #[test]
    fn names_as_a_table() {
        for name in ["a", "accounts", "Team-7_b.x"] {
            assert!(validate_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(KEYSPACE_NAME_BYTES_MAX + 1);
        for name in ["", "7up", "-x", "a b", "a/b", "ümlaut", "_private", &long] {
            assert!(matches!(validate_name(name), Err(Invalid::KeyspaceName { .. })), "{name}");
        }
        assert!(matches!(validate_name("_system"), Err(Invalid::SystemKeyspace { .. })));
    }

    #[test]
    fn replicas_by_default_as_a_table() {
        let table: [(&[usize], usize); 7] = [
            (&[1], 1),
            (&[3], 3),
            (&[5], 3),
            (&[1, 1], 1),
            (&[2, 2], 3),
            (&[1, 1, 1], 3),
            (&[2, 1, 1, 1, 1], 5),
        ];
        for (nodes, expected) in table {
            let directory = directory(nodes);
            let sites = directory.sites(&[]).unwrap();
            assert_eq!(default_replicas(&directory, Isolation::Strict, &sites), expected, "{nodes:?}");
        }
    }
}
