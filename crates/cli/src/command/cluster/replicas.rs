//! `quorate cluster move` and `drain`, and `quorate keyspace resize`: the replicas of keyspaces are changed, and waited for.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use quorate::topology::{Keyspace as Definition, Topology};
use quorate::{Changed, Database, NodeId, ReplicaChange};
use serde_json::json;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::print_json;

/// How long to wait.
#[derive(Args, Clone, Debug)]
pub(crate) struct Patience {
    /// How many seconds to wait for a change, until it may begin and until it has ended. It goes on by itself.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
}

impl Patience {
    fn span(&self) -> Duration {
        Duration::from_secs(self.patience)
    }
}

/// Changes the replicas of keyspaces one after the other, and says what has come of it: bad if something is still waited for.
pub(crate) async fn run(
    db: &Database,
    keyspaces: &[String],
    change: &ReplicaChange,
    patience: &Patience,
    json: bool,
) -> Outcome {
    let mut changed = Vec::new();
    for name in keyspaces {
        changed.push(change_one(db, name, change, patience).await?);
    }
    let topology = db.topology();
    let is_ok = changed.iter().all(|changed| changed.waits_for.is_empty());
    if json {
        let all: Vec<_> = changed.iter().map(to_json).collect();
        print_json(&json!({ "ok": is_ok, "changed": all }))?;
    } else if changed.is_empty() {
        outln!("nothing to change: there are no replicas");
    } else {
        changed.iter().for_each(|changed| outln!("{}", text(changed, &topology)));
    }
    Ok(Verdict::good_if(is_ok))
}

/// Changes one keyspace, and says how far it is whenever that is something else.
async fn change_one(
    db: &Database,
    name: &str,
    change: &ReplicaChange,
    patience: &Patience,
) -> Result<Changed, Failure> {
    let mut said = Vec::new();
    let progress = |progress: &quorate::ChangeProgress| {
        if said != progress.waits_for {
            let step = if progress.is_defined { "waiting" } else { "not yet" };
            errln!("{name}, epoch {}, {step}: {}", progress.epoch, progress.waits_for.join("; "));
            said.clone_from(&progress.waits_for);
        }
    };
    Ok(db.change_replicas(name, change, patience.span(), progress).await?)
}

/// The keyspaces that have a replica on one of these nodes, or had before their last change, which may still be under way. The
/// catalogue comes last.
pub(super) async fn keyspaces_on(db: &Database, nodes: &BTreeSet<NodeId>) -> Result<Vec<String>, Failure> {
    let is_there = |keyspace: &Definition| {
        let mut seats = keyspace.groups().flat_map(|group| group.members().chain(group.previous()));
        seats.any(|(_, node)| nodes.contains(&node))
    };
    let keyspaces = db.definitions().await?.into_iter().filter(is_there);
    Ok(keyspaces.map(|keyspace| keyspace.name).collect())
}

/// The nodes that are named, and those of a site.
pub(super) fn nodes(db: &Database, named: &[u16], sites: &[String]) -> Result<BTreeSet<NodeId>, Failure> {
    let topology = db.topology();
    let mut nodes = BTreeSet::new();
    for node in named.iter().copied().map(NodeId) {
        if topology.node(node).is_none() {
            return Err(Failure::usage(format!("{node} is no node of this cluster")));
        }
        nodes.insert(node);
    }
    for name in sites {
        let Some(site) = topology.sites.iter().position(|known| known == name) else {
            let known = topology.sites.join(", ");
            return Err(Failure::usage(format!("there is no site {name:?}; there are: {known}")));
        };
        let within = topology.live_nodes().filter(|node| usize::from(node.site.0) == site);
        nodes.extend(within.map(|node| node.id));
    }
    if nodes.is_empty() {
        return Err(Failure::usage("name nodes, or a site with nodes in it"));
    }
    Ok(nodes)
}

fn to_json(changed: &Changed) -> serde_json::Value {
    let Changed { definition, is_new, waits_for, absent } = changed;
    let shard = |shard: &quorate::topology::Shard| {
        let replicas: Vec<_> =
            shard.members().map(|(index, node)| json!({ "index": index.0, "node": node.0 })).collect();
        json!({ "id": shard.id.0, "replicas": replicas })
    };
    json!({
        "keyspace": definition.name,
        "epoch": definition.epoch.0,
        "is_new": is_new,
        "shards": definition.groups().map(shard).collect::<Vec<_>>(),
        "waits_for": waits_for,
        "absent": absent.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn text(changed: &Changed, topology: &Topology) -> String {
    let Changed { definition, is_new, waits_for, absent } = changed;
    let (name, epoch) = (&definition.name, definition.epoch.0);
    let mut text = match (is_new, waits_for.is_empty()) {
        (false, true) => format!("{name}: nothing to change, all is done in epoch {epoch}"),
        (true, true) => format!("{name}: done, epoch {epoch}"),
        (_, false) => format!("{name}: epoch {epoch} goes on by itself: {}", waits_for.join("; ")),
    };
    if !absent.is_empty() {
        let absent: Vec<_> = absent.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "\nnodes do not answer that have, or had, {}: what is to be done there will be when they are back",
            absent.join(", ")
        ));
    }
    for group in definition.groups() {
        if let Some(site) =
            topology.decisive_site(group).and_then(|site| topology.sites.get(usize::from(site.0)))
        {
            text.push_str(&format!("\nwarning: {} does not survive the loss of the site {site}", group.id));
        }
    }
    text
}
