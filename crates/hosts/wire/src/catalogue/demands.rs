//! The rights that questions about entries of the catalogue, and writes to them, demand of a client.
//!
//! Any user learns which keyspaces, nodes and sites there are. Users, roles and tokens are read and written by administrators of the cluster: they hold hashes of
//! credentials. A keyspace is changed by its administrators, and its procedures by those that may deploy there.

use quorate_access::{Claim, Entry, ROLE_RANGE, TOKEN_RANGE, USER_RANGE};
use quorate_codec::decode;
use quorate_configuration::{Message, Put};
use quorate_core::topology::Keyspace;
use quorate_core::{ClientId, Key, KeyRange, KeyspaceId, ShardId};

use super::{KEYSPACE_KEY_PREFIX, NEXT_ACCESS_KEY, NEXT_KEYSPACE_KEY, NEXT_SHARD_KEY, deployment_of};

/// How an entry names the keyspace that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its name.
    Name(String),
    /// By its id.
    Id(KeyspaceId),
    /// By one of its shards.
    Shard(ShardId),
}

/// A right that a part of a message demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryDemand {
    /// To be a user.
    Known,
    /// To administer some keyspace.
    AdministerSome,
    /// To administer the cluster.
    Cluster,
    /// To administer the cluster, and to be no node: users, roles and tokens are changed by people.
    Access,
    /// This claim in a keyspace that is there; [`EntryDemand::Cluster`] if there is none.
    In(Named, Claim),
    /// This claim in a keyspace, if there is one: what is new belongs to nobody.
    IfThere(Named, Claim),
}

/// The rights that a message of this client to the configuration service demands: all of them.
pub fn demands(message: &Message, client: ClientId) -> Vec<EntryDemand> {
    let read = |is_secret: bool| vec![if is_secret { EntryDemand::Cluster } else { EntryDemand::Known }];
    match message {
        Message::Get { keys, .. } => read(keys.iter().any(|key| Entry::is_key(key))),
        Message::Scan { range, .. } | Message::Watch { range, .. } => read(holds_access(range)),
        // Conditions tell when something was changed, and nothing of what it is.
        Message::Check { .. } | Message::Unwatch { .. } => read(false),
        // A write of another client that is asked for is never written later.
        Message::Settle { transaction, .. } => read(transaction.client != client),
        Message::Write { write, .. } => {
            let demands = write.puts.iter().flat_map(of_put);
            [EntryDemand::Known].into_iter().chain(demands).collect()
        }
        Message::Grant { .. } | Message::Renew { .. } | Message::Release { .. } => vec![EntryDemand::Cluster],
        // No client says these.
        Message::GetReply { .. }
        | Message::ScanReply { .. }
        | Message::CheckReply { .. }
        | Message::WriteReply { .. }
        | Message::Renewed { .. }
        | Message::NoSuchLease { .. }
        | Message::Changes { .. }
        | Message::Forgotten { .. }
        | Message::NotLeading { .. }
        | Message::Refused { .. } => vec![EntryDemand::Access],
    }
}

/// True if a range holds keys of users, roles or tokens.
fn holds_access(range: &KeyRange) -> bool {
    [USER_RANGE, ROLE_RANGE, TOKEN_RANGE].iter().any(|(from, to)| {
        range.from.as_slice() < to.as_bytes()
            && range.to.as_ref().is_none_or(|end| end.as_slice() > from.as_bytes())
    })
}

fn of_put(put: &Put) -> Vec<EntryDemand> {
    let Put { key, value, .. } = put;
    if Entry::is_key(key) || key.as_slice() == NEXT_ACCESS_KEY {
        return vec![EntryDemand::Access];
    }
    if [NEXT_KEYSPACE_KEY, NEXT_SHARD_KEY].contains(&key.as_slice()) {
        return vec![EntryDemand::AdministerSome];
    }
    let Some((kind, name)) = std::str::from_utf8(key.as_slice()).ok().and_then(|text| text.split_once('/'))
    else {
        return vec![EntryDemand::Cluster];
    };
    let own = |claim| match name.split('/').next().and_then(|id| id.parse().ok()) {
        Some(id) => vec![EntryDemand::In(Named::Id(KeyspaceId(id)), claim)],
        None => vec![EntryDemand::Cluster],
    };
    match kind {
        "keyspace" => of_keyspace(key, value.as_ref().map(|value| decode(value).ok())),
        // Nodes look for drops by the id.
        "dropped" | "option" | "container" => own(Claim::Administer),
        "procedure" => match name.split_once('/').and_then(|(id, _)| id.parse().ok()).map(KeyspaceId) {
            Some(id) if deployment_of(id, key).is_some() => own(Claim::Deploy),
            _ => vec![EntryDemand::Cluster],
        },
        _ => vec![EntryDemand::Cluster],
    }
}

/// The definition of a keyspace must not take what belongs to others: its name, its id, its shards. `value` is none if it is deleted, and holds none if it cannot be read.
fn of_keyspace(key: &Key, value: Option<Option<Keyspace>>) -> Vec<EntryDemand> {
    let name = String::from_utf8_lossy(&key.as_slice()[KEYSPACE_KEY_PREFIX.len()..]).into_owned();
    // A user that may administer a name may create a keyspace of it.
    let mut demands = vec![EntryDemand::In(Named::Name(name), Claim::Administer)];
    match value {
        None => {}
        Some(None) => demands.push(EntryDemand::Cluster),
        Some(Some(keyspace)) => {
            demands.push(EntryDemand::IfThere(Named::Id(keyspace.id), Claim::Administer));
            let shards = keyspace.groups().map(|group| Named::Shard(group.id));
            demands.extend(shards.map(|shard| EntryDemand::IfThere(shard, Claim::Administer)));
        }
    }
    demands
}

#[cfg(test)]
mod tests {
    use std::slice;
    use std::sync::Arc;

    use quorate_codec::encode;
    use quorate_configuration::message::ConditionalWrite;
    use quorate_configuration::{Consistency, Revision};
    use quorate_core::log::Position;
    use quorate_core::topology::{Durability, Isolation, Shard};
    use quorate_core::{NodeId, TransactionId, Value};

    use super::*;
    use crate::catalogue::{deployment_key, dropped_key, keyspace_key, option_key};

    const CLIENT: ClientId = ClientId(7);

    fn scan(from: &str, to: Option<&str>) -> Message {
        let range = KeyRange { from: Key::from(from), to: to.map(Key::from) };
        Message::Scan { request: 1, range, limit: 1, consistency: Consistency::Stale }
    }

    #[test]
    fn hashes_of_credentials_are_read_by_administrators() {
        let table = [
            (scan("", None), true),
            (scan("user/", Some("user0")), true),
            (scan("user/ada", Some("user/adb")), true),
            (scan("role/", None), true),
            (scan("u", Some("user/")), false),
            (scan("user0", None), false),
            (scan("keyspace/", Some("keyspace0")), false),
            (scan("a", Some("token/")), true),
            (scan("token/", Some("token/0")), true),
        ];
        for (message, is_secret) in table {
            let expected = if is_secret { EntryDemand::Cluster } else { EntryDemand::Known };
            assert_eq!(demands(&message, CLIENT), slice::from_ref(&expected), "{message:?}");
            let Message::Scan { request, range, .. } = message else { continue };
            let watch = Message::Watch { request, range, after: Revision::START };
            assert_eq!(demands(&watch, CLIENT), [expected], "{watch:?}");
        }
        let get = |keys: &[&str]| {
            let keys = keys.iter().map(|key| Key::from(*key)).collect();
            demands(&Message::Get { request: 1, keys, consistency: Consistency::Linearizable }, CLIENT)
        };
        assert_eq!(get(&["site/00000", "token/0000000000000001"]), [EntryDemand::Cluster]);
        assert_eq!(get(&["site/00000"]), [EntryDemand::Known]);
    }

    fn of_write(key: Key, value: Option<Value>) -> Vec<EntryDemand> {
        let puts = vec![Put { key, value, lease: None }];
        let write = Arc::new(ConditionalWrite { compares: vec![], puts });
        let transaction = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };
        let found =
            demands(&Message::Write { request: 1, transaction, since: Position::START, write }, CLIENT);
        assert_eq!(found[0], EntryDemand::Known, "a stranger writes nothing");
        found[1..].to_vec()
    }

    #[test]
    fn a_write_demands_the_right_of_its_key() {
        let id = KeyspaceId(3);
        let own = |claim| vec![EntryDemand::In(Named::Id(id), claim)];
        let table = [
            (Key::from("user/ada"), vec![EntryDemand::Access]),
            (Key::from("role/readers"), vec![EntryDemand::Access]),
            (Key::from("token/0000000000000001"), vec![EntryDemand::Access]),
            (Key::from("next/access"), vec![EntryDemand::Access]),
            (Key::from("next/keyspace"), vec![EntryDemand::AdministerSome]),
            (Key::from("next/shard"), vec![EntryDemand::AdministerSome]),
            (Key::from("site/00000"), vec![EntryDemand::Cluster]),
            (Key::from("node/00000"), vec![EntryDemand::Cluster]),
            (Key::from("group/0000000000"), vec![EntryDemand::Cluster]),
            (Key::from("thing"), vec![EntryDemand::Cluster]),
            (dropped_key(id), own(Claim::Administer)),
            (option_key(id, "colour"), own(Claim::Administer)),
            (deployment_key(id, "a", 1), own(Claim::Deploy)),
            (Key::from("procedure/0000000003/a"), vec![EntryDemand::Cluster]),
            (keyspace_key("shop"), vec![EntryDemand::In(Named::Name("shop".to_owned()), Claim::Administer)]),
        ];
        for (key, expected) in table {
            assert_eq!(of_write(key.clone(), None), expected, "{key:?}");
        }
    }

    #[test]
    fn a_definition_takes_no_name_id_or_shard_of_another_keyspace() {
        let shards = vec![Shard::new(ShardId(8), vec![NodeId(0)]), Shard::new(ShardId(9), vec![NodeId(0)])];
        let keyspace = Keyspace::new(KeyspaceId(3), "shop", Isolation::Strict, Durability::Memory, shards);
        let own = |named| EntryDemand::IfThere(named, Claim::Administer);
        assert_eq!(
            of_write(keyspace_key("shop"), Some(encode(&keyspace))),
            [
                EntryDemand::In(Named::Name("shop".to_owned()), Claim::Administer),
                own(Named::Id(KeyspaceId(3))),
                own(Named::Shard(ShardId(8))),
                own(Named::Shard(ShardId(9))),
            ]
        );
    }

    #[test]
    fn the_write_of_another_client_is_settled_by_administrators() {
        for (client, expected) in [(CLIENT, EntryDemand::Known), (ClientId(8), EntryDemand::Cluster)] {
            let transaction = TransactionId { client, sequence: 1, attempt: 0 };
            let settle = Message::Settle { request: 1, transaction, since: Position::START };
            assert_eq!(demands(&settle, CLIENT), [expected]);
        }
    }
}
