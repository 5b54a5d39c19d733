//! Commands of Redis that are left out on purpose, each with the reason: a client that asks for one is told more than that nobody knows it.

use quorate_redis_commands::Reply;

/// The reasons, each with the commands that it is about.
const LEFT_OUT: &[(&str, &[&str])] = &[
    ("a transaction has one keyspace, and keys do not move between databases", &["move", "swapdb"]),
    (
        "every node serves every key, and the cluster moves shards itself: there are no slots to follow or to migrate",
        &["asking", "cluster", "migrate", "readonly", "readwrite", "restore-asking"],
    ),
    (
        "replicas are those of the keyspace, which `quorate keyspace resize` changes: a door has none of its own",
        &["failover", "psync", "replconf", "replicaof", "role", "slaveof", "sync"],
    ),
    (
        "what is acknowledged is durable as the keyspace says, and `quorate backup` copies it: a door has no files",
        &["bgrewriteaof", "bgsave", "lastsave", "save"],
    ),
    (
        "the pages /metrics and /status of the node tell how it is, and `quorate trace` what a transaction does",
        &["latency", "memory", "monitor", "slowlog"],
    ),
    ("a door is stopped with its node", &["shutdown"]),
    ("a door takes no modules: libraries of functions and procedures run code", &["module"]),
    ("it is about the inside of a Redis server", &["debug", "lolwut", "pfdebug", "pfselftest"]),
];

/// The reply to a command that is left out; none to any other.
pub(crate) fn reply(name: &[u8]) -> Option<Reply> {
    let is_named = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
    let (reason, names) = LEFT_OUT.iter().find(|(_, names)| names.iter().any(is_named))?;
    let name = names.iter().find(|known| is_named(known))?;
    Some(Reply::error(format!("ERR unsupported: {}: {reason}", name.to_uppercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_command_is_left_out_that_is_there() {
        for name in super::super::names() {
            assert_eq!(reply(name.as_bytes()), None, "{name}");
        }
        assert!(
            matches!(reply(b"Move"), Some(Reply::Error(text)) if text.starts_with("ERR unsupported: MOVE: "))
        );
        assert_eq!(reply(b"moves"), None);
    }
}
