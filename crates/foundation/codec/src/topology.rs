//! The field numbers of sites, nodes, keyspaces and shards.

use std::collections::BTreeSet;

use quorate_core::changes::Retention;
use quorate_core::comparison::Comparison;
use quorate_core::topology::{
    APPLICATION_NAME_BYTES_MAX, CLOCK_BOUND_MAX, Isolation, Join, KEYSPACE_NAME_BYTES_MAX, Keyspace, Node,
    Removal, SHARDS_MAX, Settled, Shard, Speculation, Timestamping, Topology,
};
use quorate_core::{GroupSize, ShardId, Succession};

use crate::error::Fault;
use crate::field::{Nested, Optional, Packed, Repeated, Text, Varint};

message!(Topology, "Topology", {
    1 sites: Repeated<Text>,
    2 nodes: Repeated<Nested>,
});

message!(Node, "Node", {
    1 id: Varint,
    2 site: Varint,
    3 address: Text,
});

message!(Keyspace, "Keyspace", {
    1 id: Varint,
    2 name: Text,
    3 isolation: Varint,
    4 durability: Varint,
    5 shards: Repeated<Nested, SHARDS_MAX>,
    6 epoch: Varint,
    7 clock_bound: Optional<Varint>,
    8 comparison: Optional<Nested>,
    9 removals: Repeated<Nested, SHARDS_MAX>,
    10 joins: Repeated<Nested, SHARDS_MAX>,
    11 homes: Repeated<Nested, SHARDS_MAX>,
    12 speculation: Optional<Nested>,
    13 timestamping: Optional<Nested>,
    14 application: Optional<Text>,
    15 retention: Optional<Nested>,
    16 expiring: Varint,
}, check validate_keyspace);

message!(Speculation, "Speculation", {
    1 variant: Varint,
    2 orders_sessions: Varint,
    3 chain_max: Optional<Varint>,
    4 untuned: Varint,
    5 decisions: Varint,
    6 grants: Varint,
}, check validate_speculation);

message!(Timestamping, "Timestamping", {
    1 order: Varint,
    2 retry_ahead: Varint,
});

message!(Retention, "Retention", {
    1 time: Varint,
    2 bytes: Varint,
}, check validate_retention);

message!(Removal, "Removal", {
    1 shard: Varint,
    2 successor: Varint,
    3 settled: Optional<Nested>,
});

message!(Join, "Join", {
    1 shard: Varint,
    2 replaces: Optional<Varint>,
    3 is_ready: Varint,
});

message!(Settled, "Settled", {
    1 last: Varint,
    2 barrier: Packed,
});

message!(Shard, "Shard", {
    1 id: Varint,
    2 replicas: Packed,
    3 change: Optional<Nested>,
}, check validate_shard);

message!(Comparison, "Comparison", {
    1 rival: Varint,
    2 service: Optional<Nested>,
}, check validate_comparison);

fn validate_keyspace(keyspace: &Keyspace) -> Result<(), Fault> {
    if keyspace.shards.is_empty() {
        Err(Fault::Meaningless("a keyspace must have a shard"))
    } else if !keyspace.groups().all(|group| may_be(keyspace, group)) {
        Err(Fault::Meaningless("the shards of such a keyspace must have an odd number of replicas"))
    } else if keyspace.name.is_empty() || keyspace.name.len() > KEYSPACE_NAME_BYTES_MAX {
        Err(Fault::Meaningless("the name of a keyspace is empty or too long"))
    } else if keyspace.clock_bound.is_some_and(|bound| bound > CLOCK_BOUND_MAX) {
        Err(Fault::Meaningless("nobody waits so long for clocks"))
    } else if keyspace.groups().any(|group| group.succession().present.since > keyspace.epoch) {
        Err(Fault::Meaningless("a group that changes in an epoch to come"))
    } else if !has_homes(keyspace) && (!keyspace.homes.is_empty() || keyspace.speculation.is_some()) {
        Err(Fault::Meaningless("homes where no transaction runs at a node"))
    } else if has_homes(keyspace) && keyspace.homes.is_empty() {
        Err(Fault::Meaningless("no homes where transactions run at nodes"))
    } else if !are_homes(keyspace) {
        Err(Fault::Meaningless("a home that is a shard, or two, or a node with more than one machine"))
    } else if !has_sound_timestamping(keyspace) {
        Err(Fault::Meaningless("options of timestamps that fit no keyspace, or not this one"))
    } else if !has_sound_application(keyspace) {
        Err(Fault::Meaningless("an application without a name, or where no shard runs procedures"))
    } else if !has_sound_retention(keyspace) {
        Err(Fault::Meaningless("changes that are retained where none are told"))
    } else if keyspace.expiring && !may_expire(keyspace) {
        Err(Fault::Meaningless("values that expire where the keyspace keeps no index on that"))
    } else if !keyspace.site_changes().fits(&keyspace.shards.iter().map(|shard| shard.id).collect::<Vec<_>>())
    {
        Err(Fault::Meaningless(
            "removals of sites that the keyspace has not, or of all, or sites that join out of order",
        ))
    } else {
        Ok(())
    }
}

/// True if the group has as many replicas as one of the keyspace may have, and had before it changed.
fn may_be(keyspace: &Keyspace, group: &Shard) -> bool {
    let Succession { previous, present } = group.succession();
    let sizes = previous.iter().chain([&present]).map(|tenure| tenure.members.size().replicas());
    sizes.into_iter().all(|size| keyspace.group_of(size).is_ok())
}

/// True if transactions of the keyspace run at nodes.
fn has_homes(keyspace: &Keyspace) -> bool {
    keyspace.isolation.has_homes() && keyspace.comparison.is_none()
}

/// True if the options of timestamps are those of a strict keyspace, and fit it.
fn has_sound_timestamping(keyspace: &Keyspace) -> bool {
    keyspace.timestamping.is_none_or(|timestamping| {
        keyspace.isolation == Isolation::Strict
            && keyspace.comparison.is_none()
            && timestamping.validate(keyspace.clock_bound).is_ok()
    })
}

/// True if values of the keyspace may have lifetimes.
fn may_expire(keyspace: &Keyspace) -> bool {
    matches!(keyspace.isolation, Isolation::Strict | Isolation::Snapshot) && keyspace.comparison.is_none()
}

/// True if the keyspace names no application, or one that its shards can run.
fn has_sound_application(keyspace: &Keyspace) -> bool {
    keyspace.application.as_ref().is_none_or(|name| {
        keyspace.isolation == Isolation::Serializable
            && keyspace.comparison.is_none()
            && !name.is_empty()
            && name.len() <= APPLICATION_NAME_BYTES_MAX
    })
}

/// True if the keyspace says nothing of changes, or has some.
fn has_sound_retention(keyspace: &Keyspace) -> bool {
    keyspace.retention.is_none() || keyspace.tells_changes()
}

fn validate_retention(retention: &Retention) -> Result<(), Fault> {
    match retention.is_possible() {
        true => Ok(()),
        false => Err(Fault::Meaningless("changes that are retained for too long, or too many")),
    }
}

/// True if homes are groups of their own, and no node has two machines of them.
fn are_homes(keyspace: &Keyspace) -> bool {
    let mut groups: BTreeSet<ShardId> = keyspace.shards.iter().map(|shard| shard.id).collect();
    let mut nodes = BTreeSet::new();
    keyspace
        .homes
        .iter()
        .all(|home| groups.insert(home.id) && home.replicas.iter().all(|node| nodes.insert(*node)))
}

fn validate_speculation(speculation: &Speculation) -> Result<(), Fault> {
    speculation
        .validate()
        .map_err(|_| Fault::Meaningless("chains that are too long, or that the variant has not"))
}

fn validate_comparison(comparison: &Comparison) -> Result<(), Fault> {
    if comparison.service.is_some() == comparison.rival.has_service() {
        Ok(())
    } else {
        Err(Fault::Meaningless("a group that serves a system without one, or none where there is one"))
    }
}

/// Whether the number may be even depends on the keyspace, which is checked as a whole.
fn validate_shard(shard: &Shard) -> Result<(), Fault> {
    let Ok(size) = GroupSize::on_log(shard.replicas.len()) else {
        return Err(Fault::Meaningless("a shard has too many replicas, or none"));
    };
    match &shard.change {
        Some(change) if change.succession.present.members.size() != size => {
            Err(Fault::Meaningless("a shard has as many nodes as replicas"))
        }
        _ => Ok(()),
    }
}
