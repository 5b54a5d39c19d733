//! `quorate cluster upgrade-check` and `upgrade-finish`: which protocol versions the nodes know, and putting the next one in force (ADR 0077).

use std::time::{Duration, Instant};

use quorate::{Database, ProtocolVersion};
use serde_json::json;

use super::survey::{NodeView, Versions, survey};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json};

/// How long nodes may take to hear of a version that is in force.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often they are asked whether they have.
const POLL: Duration = Duration::from_millis(100);

/// The protocol versions that the nodes of a cluster know, put together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// The version in force, as far as any node knows.
    in_force: u32,
    /// The newest version that all nodes know; none if not all have answered.
    known_to_all: Option<u32>,
    /// The steps that are left before the upgrade can be finished.
    hindrances: Vec<String>,
}

impl Finding {
    /// The version that can be put in force.
    fn next(&self) -> Option<u32> {
        self.known_to_all.filter(|known| *known > self.in_force && self.hindrances.is_empty())
    }

    fn verdict(&self) -> String {
        match (self.next(), self.hindrances.is_empty()) {
            (Some(next), _) => format!(
                "all nodes know version {next}, and version {} is in force: until the upgrade is finished, each node can go back to its earlier program. \
                 Finish it with `quorate cluster upgrade-finish --confirm`",
                self.in_force
            ),
            (None, true) => format!("version {} is in force, and no node knows a later one", self.in_force),
            (None, false) => "the upgrade cannot be finished yet".to_owned(),
        }
    }
}

/// Puts together what nodes say.
fn judge(nodes: &[NodeView]) -> Finding {
    let said: Vec<&Versions> = nodes.iter().filter_map(|node| node.protocol_versions.as_ref()).collect();
    let first = ProtocolVersion::FIRST.0;
    let newest = said.iter().map(|versions| versions.newest).max().unwrap_or(first);
    let has_answered = said.len() == nodes.len() && !nodes.is_empty();
    let hindrance = |node: &NodeView| match &node.protocol_versions {
        None => Some(format!(
            "node {} does not answer: start it, or take it out with `quorate cluster forget {}`",
            node.node, node.node
        )),
        Some(versions) if versions.newest < newest => Some(format!(
            "node {} knows version {} at most: start on it the program that others have",
            node.node, versions.newest
        )),
        Some(_) => None,
    };
    Finding {
        in_force: said.iter().map(|versions| versions.in_force).max().unwrap_or(first),
        known_to_all: said.iter().map(|versions| versions.newest).min().filter(|_| has_answered),
        hindrances: nodes.iter().filter_map(hindrance).collect(),
    }
}

/// Prints which versions the nodes know: bad if the upgrade has begun and cannot be finished yet.
pub(super) async fn check(db: &Database, json: bool) -> Outcome {
    let nodes = survey(db).await?.nodes;
    let finding = judge(&nodes);
    if json {
        let listed = nodes.iter().map(|node| {
            json!({ "node": node.node, "program": node.version, "protocol_versions": node.protocol_versions })
        });
        print_json(&json!({
            "ok": finding.hindrances.is_empty(),
            "in_force": finding.in_force,
            "next": finding.next(),
            "hindrances": finding.hindrances,
            "nodes": listed.collect::<Vec<_>>(),
        }))?;
    } else {
        outln!("{}\n", table(&nodes));
        finding.hindrances.iter().for_each(|hindrance| outln!("{hindrance}"));
        outln!("{}", finding.verdict());
    }
    Ok(Verdict::good_if(finding.hindrances.is_empty()))
}

/// Puts the newest version in force that all nodes know, and waits until all have heard so.
pub(super) async fn finish(db: &Database, confirm: bool, json: bool) -> Outcome {
    let finding = judge(&survey(db).await?.nodes);
    if !finding.hindrances.is_empty() {
        return Err(Failure::failed(format!(
            "the upgrade cannot be finished yet, and nothing was done: {}",
            finding.hindrances.join("; ")
        )));
    }
    if let Some(next) = finding.next() {
        if !confirm {
            return Err(Failure::usage(format!(
                "protocol version {next} would be in force from now on: no node could go back to a program that does not know it. Nothing was done: repeat the \
                 command with --confirm"
            )));
        }
        db.enter_protocol_version(ProtocolVersion(next)).await?;
    }
    let version = finding.next().unwrap_or(finding.in_force);
    let waits_for = wait_until_heard(db, version).await?;
    if json {
        print_json(
            &json!({ "ok": waits_for.is_empty(), "in_force": version, "is_new": finding.next().is_some(), "waits_for": waits_for }),
        )?;
    } else if waits_for.is_empty() {
        outln!("protocol version {version} is in force at all nodes");
    } else {
        outln!(
            "protocol version {version} is in force; nodes that have not said so within {PATIENCE:?}: {waits_for:?}; see `quorate cluster status`"
        );
    }
    Ok(Verdict::good_if(waits_for.is_empty()))
}

/// Waits until all nodes say that a version is in force; names those that do not.
async fn wait_until_heard(db: &Database, version: u32) -> Result<Vec<u16>, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let has_heard =
            |node: &NodeView| node.protocol_versions.as_ref().is_some_and(|said| said.in_force >= version);
        let nodes = survey(db).await?.nodes;
        let waits_for: Vec<u16> =
            nodes.iter().filter(|node| !has_heard(node)).map(|node| node.node).collect();
        if waits_for.is_empty() || Instant::now() >= deadline {
            return Ok(waits_for);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn table(nodes: &[NodeView]) -> Table {
    let mut table = Table::new(&[
        ("node", Align::Right),
        ("site", Align::Left),
        ("program", Align::Left),
        ("knows versions", Align::Left),
        ("in force", Align::Right),
    ]);
    for node in nodes {
        let versions = node.protocol_versions.as_ref();
        table.row([
            node.node.to_string(),
            node.site.clone(),
            node.version.clone().unwrap_or_else(|| "does not answer".to_owned()),
            versions.map_or(String::new(), |known| format!("{} to {}", known.oldest, known.newest)),
            versions.map_or(String::new(), |known| known.in_force.to_string()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(node: u16, known: Option<(u32, u32, u32)>) -> NodeView {
        let versions = known.map(|(oldest, newest, in_force)| Versions { oldest, newest, in_force });
        NodeView { protocol_versions: versions, ..NodeView::silent(node, "us", "host:7400") }
    }

    fn judged(known: [Option<(u32, u32, u32)>; 3]) -> Finding {
        let nodes: Vec<NodeView> = known.into_iter().zip(0..).map(|(known, id)| node(id, known)).collect();
        judge(&nodes)
    }

    #[test]
    fn an_upgrade_is_finished_once_all_nodes_answer_and_know_the_same_newest_version() {
        let [old, new, done] = [Some((1, 1, 1)), Some((1, 2, 1)), Some((1, 2, 2))];
        for (known, next, hindrances) in [
            ([old, old, old], None, 0),
            ([new, old, old], None, 2),
            ([new, new, None], None, 1),
            ([new, new, new], Some(2), 0),
            // One node has heard of it, so it is in force.
            ([done, new, new], None, 0),
            ([None, None, None], None, 3),
            // A node with a still later program: the others are behind.
            ([Some((2, 3, 2)), done, done], None, 2),
        ] {
            let finding = judged(known);
            assert_eq!((finding.next(), finding.hindrances.len()), (next, hindrances), "{finding:?}");
        }
        assert!(judged([new, new, new]).verdict().contains("upgrade-finish"));
        assert!(judged([done, done, done]).verdict().contains("no node knows a later one"));
    }
}
