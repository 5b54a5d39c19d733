//! Questions of a client about the server: `INFO`, `CONFIG`, `TIME`.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quorate_redis_commands::{Reply, STRING_BYTES_MAX, matches};

use super::{Facts, REDIS_VERSION, is_word};

/// The subcommands of `CONFIG`.
pub(super) const CONFIG_SUBCOMMANDS: &[(&str, i32)] =
    &[("GET", -3), ("SET", -4), ("RESETSTAT", 2), ("HELP", 2)];

fn since_epoch() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(super) fn time() -> Reply {
    let now = since_epoch();
    Reply::bulks([now.as_secs().to_string().into_bytes(), now.subsec_micros().to_string().into_bytes()])
}

/// The sections of `INFO`, in their order.
fn sections(facts: &Facts) -> [(&'static str, String); 6] {
    let uptime = facts.started.elapsed().as_secs();
    let server = format!(
        "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nquorate_version:{}\r\nos:{}\r\narch_bits:64\r\nprocess_id:{}\r\n\
         uptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::process::id(),
        uptime / 86_400
    );
    let clients = format!(
        "connected_clients:{}\r\nblocked_clients:{}\r\n",
        facts.clients.len(),
        facts.clients.waiting()
    );
    let [channels, patterns, shards] = facts.channels.counts();
    let stats = format!(
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\npubsub_channels:{channels}\r\npubsub_patterns:{patterns}\r\n\
         pubsubshard_channels:{shards}\r\n",
        facts.clients.opened(),
        facts.commands.load(Ordering::Relaxed)
    );
    [
        ("Server", server),
        ("Clients", clients),
        ("Persistence", "loading:0\r\naof_enabled:1\r\n".to_owned()),
        ("Stats", stats),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        ("Cluster", "cluster_enabled:0\r\n".to_owned()),
    ]
}

pub(super) fn info(words: &[Bytes], facts: &Facts) -> Reply {
    let wanted = &words[1..];
    let is_wanted = |name: &str| {
        let is_all = |word: &Bytes| ["all", "default", "everything"].iter().any(|all| is_word(word, all));
        wanted.is_empty() || wanted.iter().any(|word| is_word(word, name) || is_all(word))
    };
    let told = sections(facts).into_iter().filter(|(name, _)| is_wanted(name));
    let told: Vec<String> = told.map(|(name, lines)| format!("# {name}\r\n{lines}")).collect();
    Reply::Verbatim(told.join("\r\n").into_bytes())
}

pub(super) fn config(words: &[Bytes]) -> Reply {
    if is_word(&words[1], "RESETSTAT") {
        return Reply::OK;
    }
    if is_word(&words[1], "SET") {
        return Reply::error(
            "ERR unsupported: the settings of a door stand in the configuration of its node",
        );
    }
    let bulk_bytes_max = STRING_BYTES_MAX.to_string();
    let parameters = [
        ("appendfsync", "always"),
        ("appendonly", "yes"),
        ("databases", "16"),
        ("maxclients", "10000"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("proto-max-bulk-len", bulk_bytes_max.as_str()),
        ("save", ""),
        ("timeout", "0"),
    ];
    let is_wanted =
        |name: &str| words[2..].iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
    let wanted = parameters.iter().filter(|(name, _)| is_wanted(name));
    Reply::Map(wanted.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value))).collect())
}
