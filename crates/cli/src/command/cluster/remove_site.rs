//! `quorate cluster remove-site`: parallel-snapshot keyspaces go on without a site that is lost for good.

use std::time::Duration;

use quorate::topology::Shard;
use quorate::{Database, Error, Invalid, SiteRemoval};
use serde_json::json;

use super::survey::{Survey, survey};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::print_json;

/// How long the sites that are left may take to agree: they wait until the lease of the lost one has surely ended.
const PATIENCE: Duration = Duration::from_secs(90);

/// The removal that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) site: &'a str,
    /// From this keyspace alone.
    pub(super) keyspace: Option<&'a str>,
    /// Although what only that site knows is lost.
    pub(super) abandon: bool,
    pub(super) confirm: bool,
    /// Although replicas of it are up.
    pub(super) force: bool,
}

/// Says which transactions are lost, and removes the site if that was confirmed.
pub(super) async fn run(db: &Database, asked: Asked<'_>, json: bool) -> Outcome {
    let concerned = concerned(db, asked).await?;
    if concerned.is_empty() {
        return Err(Failure::usage(format!(
            "no parallel-snapshot keyspace is in the site {:?}: there is nothing to remove",
            asked.site
        )));
    }
    let names: Vec<&str> = concerned.iter().map(|(name, _)| name.as_str()).collect();
    errln!("{}", consequences(asked.site, &names));
    if !asked.abandon {
        return Err(Failure::usage(
            "nothing was done: a site that is only cut off comes back by itself. Repeat the command with --abandon to see how it is removed",
        ));
    }
    let up = up(&survey(db).await?, concerned.iter().flat_map(|(_, shards)| shards));
    if !up.is_empty() && !asked.force {
        return Err(Failure::failed(format!(
            "replicas of it are up, on nodes {}: bring the site back instead (`quorate cluster status`); or stop these nodes for good, or \
             repeat the command with --force",
            up.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
        )));
    }
    if !asked.confirm {
        return Err(Failure::usage("nothing was done: repeat the command with --confirm to remove the site"));
    }
    let mut removals = Vec::new();
    for (name, _) in &concerned {
        let mut is_told = false;
        let progress = |_: &SiteRemoval| {
            if !std::mem::replace(&mut is_told, true) {
                errln!("{name}: removed; waiting until the other sites have agreed on what is kept of it");
            }
        };
        removals.push((name, db.remove_site(name, asked.site, PATIENCE, progress).await?));
    }
    let is_settled = removals.iter().all(|(_, removal)| removal.is_settled());
    if json {
        let keyspaces: Vec<_> = removals.iter().map(|(name, removal)| described(name, removal)).collect();
        print_json(&json!({ "ok": is_settled, "site": asked.site, "keyspaces": keyspaces }))?;
    } else {
        for (name, removal) in &removals {
            match removal.is_settled() {
                true => outln!("{name} goes on without {:?}", asked.site),
                false => outln!(
                    "{name}: the other sites have not agreed within {PATIENCE:?}; they go on by themselves: see `quorate cluster status`"
                ),
            }
        }
    }
    Ok(Verdict::good_if(is_settled))
}

/// The keyspaces that have local sites there, with these.
async fn concerned(db: &Database, asked: Asked<'_>) -> Result<Vec<(String, Vec<Shard>)>, Failure> {
    let names = match asked.keyspace {
        Some(name) => vec![name.to_owned()],
        None => {
            let all = db.definitions().await?.into_iter();
            let local = all.filter(|keyspace| keyspace.isolation.stands_in_sites());
            local.map(|keyspace| keyspace.name).collect()
        }
    };
    let mut concerned = Vec::new();
    for name in names {
        match db.local_sites(&name, asked.site).await {
            Ok(shards) => concerned.push((name, shards)),
            Err(Error::Invalid(Invalid::NotInSite { .. })) if asked.keyspace.is_none() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(concerned)
}

/// The nodes where replicas of these local sites are up.
fn up<'a>(found: &Survey, shards: impl Iterator<Item = &'a Shard>) -> Vec<u16> {
    let is_up = ["normal", "view-changing", "recovering"];
    let views = shards.filter_map(|shard| found.shards.iter().find(|view| view.shard == shard.id.0));
    let mut nodes: Vec<u16> = views
        .flat_map(|view| view.in_state(&is_up).map(|replica| replica.node).collect::<Vec<_>>())
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn described(name: &str, removal: &SiteRemoval) -> serde_json::Value {
    let removed = removal.removed.iter().map(|removed| {
        json!({
            "shard": removed.shard.0,
            "successor": removed.successor.0,
            "kept": removed.settled.as_ref().map(|settled| settled.last),
        })
    });
    json!({ "keyspace": name, "removed": removed.collect::<Vec<_>>() })
}

/// The consequences, for the operator.
fn consequences(site: &str, names: &[&str]) -> String {
    format!(
        "the site {site:?} is removed for good from: {}.\n  What it has acknowledged and no other site has received IS LOST, and this cannot be taken \
         back.\n  What others have of it they keep; the next site lets in what is written to its keys.\n  Clients that have seen what is lost are told so \
         once.\n  Its disks must not be brought back.",
        names.join(", ")
    )
}
