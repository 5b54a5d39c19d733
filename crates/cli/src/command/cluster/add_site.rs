//! `quorate cluster add-site`: a site joins parallel-snapshot keyspaces, among them those that it was removed from.

use std::time::Duration;

use quorate::{Database, SiteJoin};
use serde_json::json;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::print_json;

/// How long the site may take to get all data.
const PATIENCE: Duration = Duration::from_secs(600);

/// Lets the site join these keyspaces; if none is named, those that it was removed from.
pub(super) async fn run(db: &Database, site: &str, keyspaces: &[String], json: bool) -> Outcome {
    let names = match keyspaces {
        [] => db.removed_from(site).await?,
        named => named.to_vec(),
    };
    if names.is_empty() {
        return Err(Failure::usage(format!(
            "the site {site:?} was removed from no parallel-snapshot keyspace: name one with --keyspace to add it there"
        )));
    }
    let mut joins = Vec::new();
    for name in &names {
        let mut is_told = false;
        let progress = |_: &SiteJoin| {
            if !std::mem::replace(&mut is_told, true) {
                errln!("{name}: {site:?} joins; waiting until it has all data");
            }
        };
        joins.push((name, db.add_site(name, site, PATIENCE, progress).await?));
    }
    let is_ready = joins.iter().all(|(_, join)| join.is_ready());
    if json {
        let keyspaces: Vec<_> = joins.iter().map(|(name, join)| described(name, join)).collect();
        print_json(&json!({ "ok": is_ready, "site": site, "keyspaces": keyspaces }))?;
    } else {
        for (name, join) in &joins {
            match join.is_ready() {
                true => outln!("{name} is in {site:?}"),
                false => outln!(
                    "{name}: {site:?} has not got all data within {PATIENCE:?}, and goes on by itself: see `quorate cluster status`; or repeat the command"
                ),
            }
        }
    }
    Ok(Verdict::good_if(is_ready))
}

fn described(name: &str, join: &SiteJoin) -> serde_json::Value {
    let joined = join.joined.iter().map(|joined| {
        json!({
            "shard": joined.shard.0,
            "replaces": joined.replaces.map(|replaced| replaced.0),
            "ready": joined.is_ready,
        })
    });
    json!({ "keyspace": name, "joined": joined.collect::<Vec<_>>() })
}
