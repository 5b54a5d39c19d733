//! `quorate cluster declare-lost`: tells the other shards of a serializable keyspace that one is lost for good.
//!
//! A transaction of several shards waits for the vote of each. If a shard is gone with all its replicas, what lacks its vote
//! would wait for ever. Only who leads a shard makes known durably that another one is lost, and leaders change: so all replicas
//! are told again and again until one of each shard says that it knows.

use std::time::{Duration, Instant};

use quorate::topology::Keyspace as Definition;
use quorate::{Database, Isolation, NodeId, ReplicaId, ReplicaIndex, ShardId};
use serde_json::json;

use super::survey::{ShardView, Survey, survey};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::print_json;

/// How long the other shards may take to know.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often nodes are asked and told meanwhile.
const POLL: Duration = Duration::from_millis(200);

/// The arguments of the command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) keyspace: &'a str,
    pub(super) shard: ShardId,
    pub(super) confirm: bool,
    /// Although replicas of the shard are up.
    pub(super) force: bool,
}

/// Says what is lost, and tells the other shards if that was confirmed.
pub(super) async fn run(db: &Database, asked: Asked<'_>, json: bool) -> Outcome {
    let keyspace = db.keyspace(asked.keyspace).await?;
    let definition = keyspace.definition();
    let others = others(&definition, asked.shard).map_err(Failure::usage)?;
    let up = up(&survey(db).await?, asked.shard);
    errln!("{}", consequences(asked.keyspace, asked.shard, &others));
    if !up.is_empty() && !asked.force {
        return Err(Failure::failed(format!(
            "replicas of it are up, on nodes {}: bring the shard back instead (`quorate cluster status`); or stop these \
             nodes for good, or repeat the command with --force",
            list(&up)
        )));
    }
    if !asked.confirm {
        return Err(Failure::usage("nothing was done: repeat the command with --confirm to declare it lost"));
    }
    let unaware = tell(db, asked.shard, &others).await?;
    if json {
        let told: Vec<u32> =
            others.iter().filter(|other| !unaware.contains(other)).map(|other| other.0).collect();
        let unaware: Vec<u32> = unaware.iter().map(|other| other.0).collect();
        let (name, shard) = (asked.keyspace, asked.shard.0);
        print_json(&json!({
            "ok": unaware.is_empty(), "keyspace": name, "lost": shard, "known_by": told, "not_known_by": unaware,
        }))?;
    } else if unaware.is_empty() {
        outln!("all other shards know that shard {} is lost", asked.shard.0);
    } else {
        outln!(
            "shards {} did not learn of it within {PATIENCE:?}: see `quorate cluster status`, and repeat the command",
            list(unaware.iter().map(|other| other.0).collect::<Vec<_>>().as_slice())
        );
    }
    Ok(Verdict::good_if(unaware.is_empty()))
}

/// The other shards of a keyspace.
fn others(definition: &Definition, lost: ShardId) -> Result<Vec<ShardId>, String> {
    let name = &definition.name;
    if definition.isolation != Isolation::Serializable {
        return Err(format!(
            "{name:?} is not serializable: none of its shards waits for another one for ever; see `quorate cluster \
             accept-loss`"
        ));
    }
    let shards: Vec<ShardId> = definition.shards.iter().map(|shard| shard.id).collect();
    if !shards.contains(&lost) {
        let shards: Vec<u32> = shards.iter().map(|shard| shard.0).collect();
        return Err(format!("{name:?} has no shard {}; it has {}", lost.0, list(&shards)));
    }
    if shards.len() == 1 {
        return Err(format!("shard {} is all of {name:?}: no other shard waits for it", lost.0));
    }
    Ok(shards.into_iter().filter(|shard| *shard != lost).collect())
}

/// The nodes where replicas of a shard are up that may have their records.
fn up(found: &Survey, lost: ShardId) -> Vec<u16> {
    let shard = found.shards.iter().find(|shard| shard.shard == lost.0);
    let is_up = ["normal", "view-changing", "refused"];
    shard.map(|shard| shard.in_state(&is_up).map(|replica| replica.node).collect()).unwrap_or_default()
}

/// Tells the other shards until each knows; gives those that do not in time.
async fn tell(db: &Database, lost: ShardId, others: &[ShardId]) -> Result<Vec<ShardId>, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = survey(db).await?;
        let is_unaware = |other: &&ShardId| !view(&found, **other).is_some_and(|view| knows(view, lost));
        let unaware: Vec<ShardId> = others.iter().filter(is_unaware).copied().collect();
        if unaware.is_empty() || Instant::now() >= deadline {
            return Ok(unaware);
        }
        for view in unaware.iter().filter_map(|other| view(&found, *other)) {
            for replica in view.in_state(&["normal"]) {
                let id = ReplicaId { shard: ShardId(view.shard), index: ReplicaIndex(replica.index) };
                match db.declare_lost(NodeId(replica.node), id, lost).await {
                    // A node that has just gone is seen to be so by the next survey.
                    Ok(()) | Err(quorate::Error::Connect { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

fn view(found: &Survey, shard: ShardId) -> Option<&ShardView> {
    found.shards.iter().find(|view| view.shard == shard.0)
}

/// True if a replica has it in what its group has agreed on, which the others of its group learn of.
fn knows(view: &ShardView, lost: ShardId) -> bool {
    view.replicas.iter().any(|replica| replica.lost_shards.contains(&lost.0))
}

/// The consequences of the loss, for the operator who decides.
fn consequences(keyspace: &str, lost: ShardId, others: &[ShardId]) -> String {
    let others: Vec<u32> = others.iter().map(|other| other.0).collect();
    format!(
        "shard {lost} of {keyspace} is declared lost for good: ALL DATA OF THIS SHARD IS LOST, and this cannot be taken back.\n  \
         Shards {} go on without it. What waits there for its vote is executed nowhere; of what the lost shard has told its \
         clients alone, parts MAY BE LOST on the others, too.\n  Transactions that touch the lost shard are refused from then \
         on: to use its keys again, create another keyspace.\n  Disks that held replicas of this shard must not be brought back.",
        list(&others),
        lost = lost.0,
    )
}

fn list<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
