//! `quorate cluster verify`: whether the replicas of each shard hold the same.

use std::sync::Mutex;
use std::time::Duration;

use clap::Args;
use quorate::topology::Keyspace as Definition;
use quorate::{Database, Difference, DifferingKey, ReplicaIndex, VerifiedShard, VerifyOptions};
use quorate_cluster::verify::{HowFar, Verified, node, remedy, verify};
use serde_json::{Value, json};

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json, thousands};

/// For so long nothing is said of how far it is.
const SILENCE: Duration = Duration::from_secs(2);

/// The keyspaces that are to be compared.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerifyArguments {
    /// The keyspaces; by default all, the catalogue `_system` as well.
    keyspaces: Vec<String>,
    /// How many seconds to wait for replicas that do not come to a common point, or do not answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
}

/// Compares the replicas of each shard of some keyspaces, and says what has come of it: bad if any differ, or could not be compared.
pub(super) async fn run(db: &Database, arguments: &VerifyArguments, json: bool) -> Outcome {
    let known = db.definitions().await?;
    let missing = |name: &&String| known.iter().all(|known| known.name != **name);
    if let Some(name) = arguments.keyspaces.iter().find(missing) {
        let known: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "there is no keyspace {name:?}; there are: {}",
            known.join(", ")
        )));
    }
    let is_wanted =
        |known: &&Definition| arguments.keyspaces.is_empty() || arguments.keyspaces.contains(&known.name);
    let options =
        VerifyOptions { patience: Duration::from_secs(arguments.patience), ..VerifyOptions::default() };
    let wanted: Vec<&Definition> = known.iter().filter(is_wanted).collect();
    let verified = telling(&wanted, async |tell| {
        let mut verified = Vec::new();
        for definition in &wanted {
            verified.push(verify(db, definition, options, tell).await);
        }
        verified
    })
    .await;
    let is_ok = verified.iter().flat_map(|verified| &verified.shards).all(VerifiedShard::is_ok);
    if json {
        let keyspaces: Vec<Value> = verified.iter().map(to_json).collect();
        print_json(&json!({ "ok": is_ok, "keyspaces": keyspaces }))?;
    } else {
        outln!("{}", text(&verified));
    }
    Ok(Verdict::good_if(is_ok))
}

/// Does something that tells how far it is; once that takes long, says it on standard error.
async fn telling<T>(wanted: &[&Definition], work: impl AsyncFnOnce(&(dyn Fn(HowFar<'_>) + Sync)) -> T) -> T {
    let far = Mutex::new(format!("{} keyspaces are to be compared", wanted.len()));
    let tell = |now: HowFar<'_>| {
        if let Ok(mut far) = far.lock() {
            *far = how_far(now);
        }
    };
    let mut work = std::pin::pin!(work(&tell));
    loop {
        match tokio::time::timeout(SILENCE, &mut work).await {
            Ok(done) => return done,
            Err(_) => {
                if let Ok(far) = far.lock() {
                    errln!("verifying: {far}");
                }
            }
        }
    }
}

/// How far a comparison is, for people.
pub(crate) fn how_far(HowFar { keyspace, shard, versions }: HowFar<'_>) -> String {
    format!("{keyspace}, shard {}: {} versions were read", shard.0, thousands(versions))
}

fn to_json(verified: &Verified) -> Value {
    let shards: Vec<Value> = verified.shards.iter().map(shard_to_json).collect();
    json!({ "keyspace": verified.keyspace, "shards": shards })
}

fn shard_to_json(shard: &VerifiedShard) -> Value {
    let held = shard.replicas.iter().filter_map(|replica| replica.held.as_ref().ok());
    let (keys, bytes) = (held.clone().map(|held| held.keys).max(), held.map(|held| held.bytes).max());
    let is_odd = |index: &ReplicaIndex| {
        shard.difference.as_ref().is_some_and(|difference| difference.odd.contains(index))
    };
    let replica = |replica: &quorate::VerifiedReplica| {
        let (checksum, state) = match &replica.held {
            Ok(held) if is_odd(&replica.index) => (Some(&held.checksum), "differs".to_owned()),
            Ok(held) => (Some(&held.checksum), "compared".to_owned()),
            Err(reason) => (None, format!("not compared: {reason}")),
        };
        json!({ "index": replica.index.0, "node": replica.node.0, "checksum": checksum, "state": state })
    };
    let differs = |difference: &Difference| {
        let key = |key: &DifferingKey| {
            let held = key.held.iter().map(|(index, held)| {
                json!({
                    "node": node(shard, *index).0,
                    "version": held.as_ref().map(|held| &held.version),
                    "checksum": held.as_ref().map(|held| &held.checksum),
                })
            });
            json!({ "key": key.key.escape_ascii().to_string(), "held": held.collect::<Vec<_>>() })
        };
        json!({
            "nodes": difference.odd.iter().map(|index| node(shard, *index).0).collect::<Vec<_>>(),
            "keys": difference.keys.iter().map(key).collect::<Vec<_>>(),
            "remedy": remedy(shard, difference),
        })
    };
    json!({
        "id": shard.shard.0,
        "compared_at": shard.compared_at,
        "keys": keys,
        "bytes": bytes,
        "replicas": shard.replicas.iter().map(replica).collect::<Vec<_>>(),
        "differs": shard.difference.iter().map(differs).collect::<Vec<_>>(),
    })
}

fn text(verified: &[Verified]) -> String {
    let mut table = Table::new(&[
        ("keyspace", Align::Left),
        ("shard", Align::Right),
        ("versions", Align::Right),
        ("bytes", Align::Right),
        ("replicas", Align::Left),
        ("compared at", Align::Left),
    ]);
    for Verified { keyspace, shards } in verified {
        for shard in shards {
            let held: Vec<_> =
                shard.replicas.iter().filter_map(|replica| replica.held.as_ref().ok()).collect();
            let replicas = match (shard.is_ok(), shard.difference.is_some()) {
                (true, _) => format!("{} hold the same", held.len()),
                (false, true) => "differ".to_owned(),
                (false, false) => format!("{} of {} compared, alike", held.len(), shard.replicas.len()),
            };
            let number = |of: fn(&quorate::HeldData) -> u64| {
                held.iter().map(|held| of(held)).max().map_or(String::new(), thousands)
            };
            table.row([
                keyspace.clone(),
                shard.shard.0.to_string(),
                number(|held| held.keys),
                number(|held| held.bytes),
                replicas,
                shard.compared_at.clone().unwrap_or_default(),
            ]);
        }
    }
    let mut text = table.to_string();
    for trouble in verified.iter().flat_map(Verified::troubles) {
        text.push_str(&format!("\n{trouble}"));
    }
    text
}
