//! `quorate cluster status`.

use quorate::Database;
use quorate::topology::{Keyspace as Definition, Topology};
use quorate_server::SYSTEM_KEYSPACE;
use serde::Serialize;
use serde_json::json;

use super::super::keyspace;
use super::survey::{NodeView, ReplicaView, ShardView, Survey, survey};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::help::sentences;
use crate::output::{Align, Table, print_json};

/// How the configuration service is.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ConfigurationView {
    verdict: &'static str,
    /// The nodes that hold it, by replica index.
    members: Vec<u16>,
    /// The node that leads it, if one that answers says that it does.
    leader: Option<u16>,
    /// How often it was written, as far as any node that answers knows.
    revision: Option<u64>,
    /// Why it did not say which keyspaces there are, if it did not.
    problem: Option<String>,
}

/// Prints how the cluster is: bad unless every replica of every shard serves, and the configuration service answers.
pub(super) async fn run(db: &Database, json: bool) -> Outcome {
    let survey = survey(db).await?;
    let (keyspaces, problem) = match db.list().await {
        Ok(keyspaces) => (Some(keyspaces), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let is_ok = keyspaces.is_some()
        && survey.nodes.iter().all(|node| node.unreachable.is_none() && node.problems.is_empty())
        && survey.shards.iter().all(|shard| verdict(shard) == "served")
        && survey.declared_lost().is_empty()
        && survey.shards.iter().all(|shard| shard.held_up().next().is_none());
    let held_up = held_up(&survey, keyspaces.as_deref().unwrap_or_default(), &db.topology());
    let configuration = configuration(&survey, problem);
    // An answer that is missing is no problem of its own: the configuration service says what is wrong.
    let access_control = match &keyspaces {
        Some(_) => db.access().await.ok().map(|access| access.is_in_force()),
        None => None,
    };
    if json {
        let listed = |known: &Vec<Definition>| {
            known.iter().map(|known| keyspace::to_json(db, known)).collect::<Vec<_>>()
        };
        print_json(&json!({
            "ok": is_ok,
            "configuration": configuration,
            "access_control": access_control,
            "nodes": survey.nodes,
            "keyspaces": keyspaces.as_ref().map(listed),
            "shards": shards(&survey)?,
            "declared_lost": declared_lost(&survey),
            "held_up": held_up,
        }))?;
    } else {
        outln!("{}", text(&survey, &configuration, keyspaces.as_deref(), &held_up));
        outln!("{}", sentences(access_line(access_control)));
    }
    Ok(Verdict::good_if(is_ok))
}

/// Whether users are asked for.
fn access_line(is_in_force: Option<bool>) -> &'static str {
    match is_in_force {
        Some(true) => "access control: in force at the doors",
        Some(false) => {
            "access control: not in force; any client that reaches a door may do everything (quorate user create NAME --administrator)"
        }
        None => "access control: not known, because the configuration service does not answer",
    }
}

/// A site that keeps transactions of another one from being visible everywhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct HeldUp {
    keyspace: String,
    /// Where these transactions have committed.
    at: String,
    /// The site that they wait for.
    by: String,
    /// How many there are.
    transactions: u64,
    /// For how long at least the first of them has waited.
    seconds: f64,
}

impl std::fmt::Display for HeldUp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HeldUp { keyspace, at, by, transactions, seconds } = self;
        write!(
            formatter,
            "{by} holds up {keyspace}: {transactions} transactions of {at} are not visible everywhere, the first for {}; they wait until that site is \
             back, or is taken out (quorate cluster remove-site)",
            span(*seconds)
        )
    }
}

/// The sites that keep transactions from being visible everywhere.
fn held_up(survey: &Survey, keyspaces: &[Definition], topology: &Topology) -> Vec<HeldUp> {
    let site = |number: u32| {
        let mut groups = keyspaces.iter().flat_map(|keyspace| keyspace.shards.iter());
        let node = groups.find(|group| group.id.0 == number).and_then(|group| group.replicas.first());
        let node = node.and_then(|node| topology.nodes.iter().find(|known| known.id == *node));
        let site = node.and_then(|node| topology.sites.get(usize::from(node.site.0)));
        site.map_or_else(|| format!("shard {number}"), |site| format!("{site} (shard {number})"))
    };
    let of_shard = |shard: &ShardView| {
        let (keyspace, at) = (shard.keyspace.clone(), site(shard.shard));
        let held_up = shard.held_up().map(|lag| HeldUp {
            keyspace: keyspace.clone(),
            at: at.clone(),
            by: site(lag.shard),
            transactions: lag.uncommitted,
            seconds: lag.uncommitted_seconds,
        });
        held_up.collect::<Vec<_>>()
    };
    survey.shards.iter().flat_map(of_shard).collect()
}

/// The state of the configuration service, as the nodes that answer tell it.
fn configuration(survey: &Survey, problem: Option<String>) -> ConfigurationView {
    let shard = survey.shards.iter().find(|shard| shard.keyspace == SYSTEM_KEYSPACE);
    let replicas = shard.map_or(&[][..], |shard| &shard.replicas);
    // A node that is cut off may not have heard of a later view that another one leads.
    let leads = |replica: &&ReplicaView| replica.leads;
    ConfigurationView {
        verdict: shard.map_or("not served", verdict),
        members: replicas.iter().map(|replica| replica.node).collect(),
        leader: replicas.iter().filter(leads).max_by_key(|replica| replica.view).map(|replica| replica.node),
        revision: survey.nodes.iter().filter_map(|node| node.catalogue_revision).max(),
        problem,
    }
}

/// How a shard is, in a word or a few.
fn verdict(shard: &ShardView) -> &'static str {
    let serving = shard.in_state(&["normal"]).count();
    let lost = shard.in_state(&["lost", "recovering"]).count();
    if serving == shard.replicas.len() {
        "served"
    } else if lost > shard.survives() {
        "lost"
    } else if serving * 2 > shard.replicas.len() {
        "served by a majority"
    } else {
        "not served"
    }
}

/// The verdict on a shard that an operator has given up, whatever its replicas say.
const DECLARED_LOST: &str = "declared lost";

/// The shards that operators have declared lost. Their replicas may be gone, so that they are no shards that a node tells of.
fn declared_lost(survey: &Survey) -> Vec<serde_json::Value> {
    let declared = survey.declared_lost();
    declared.iter().map(|(shard, keyspace)| json!({ "keyspace": keyspace, "shard": shard })).collect()
}

fn shards(survey: &Survey) -> Result<Vec<serde_json::Value>, Failure> {
    let declared = survey.declared_lost();
    let with_verdict = |shard: &ShardView| {
        let mut value = serde_json::to_value(shard)?;
        value["verdict"] =
            if declared.contains_key(&shard.shard) { DECLARED_LOST } else { verdict(shard) }.into();
        Ok(value)
    };
    survey.shards.iter().map(with_verdict).collect::<Result<_, serde_json::Error>>().map_err(Failure::failed)
}

fn text(
    survey: &Survey,
    configuration: &ConfigurationView,
    keyspaces: Option<&[Definition]>,
    held_up: &[HeldUp],
) -> String {
    let line = sentences(&configuration_line(configuration));
    let mut text = format!("{line}\n\n{}\n\n", node_table(&survey.nodes));
    if let Some(keyspaces) = keyspaces {
        text.push_str(&format!("{}\n\n", keyspace::table(keyspaces)));
    }
    text.push_str(&shard_table(survey).to_string());
    for remark in remarks(survey, configuration, held_up) {
        text.push('\n');
        text.push_str(&sentences(&remark));
    }
    text
}

/// The sentences below the tables: of shards, of sites, and of nodes.
fn remarks(survey: &Survey, configuration: &ConfigurationView, held_up: &[HeldUp]) -> Vec<String> {
    let declared = survey.declared_lost();
    let declared = declared.iter().map(|(shard, keyspace)| {
        format!("shard {shard} of {keyspace} was declared lost: nothing that touches it is executed any more")
    });
    let mut remarks: Vec<String> = declared.chain(held_up.iter().map(HeldUp::to_string)).collect();
    for node in &survey.nodes {
        for problem in node.unreachable.iter().chain(&node.problems) {
            remarks.push(format!("node {}: {problem}", node.node));
        }
    }
    for node in &survey.nodes {
        for address in node.security.iter().flat_map(|security| &security.insecure_addresses) {
            remarks.push(format!(
                "node {} speaks plain text at {address}: its file says insecure = true",
                node.node
            ));
        }
    }
    let problem = configuration.problem.iter().map(|problem| format!("configuration service: {problem}"));
    remarks.extend(problem);
    remarks
}

fn configuration_line(configuration: &ConfigurationView) -> String {
    let ConfigurationView { verdict, members, leader, revision, .. } = configuration;
    let members: Vec<_> = members.iter().map(u16::to_string).collect();
    let leader = leader.map_or("nobody leads".to_owned(), |leader| format!("node {leader} leads"));
    let revision = revision.map_or(String::new(), |revision| format!(", revision {revision}"));
    format!("configuration service: {verdict}, on nodes {}; {leader}{revision}", members.join(", "))
}

fn node_table(views: &[NodeView]) -> Table {
    let mut nodes = Table::new(&[
        ("node", Align::Right),
        ("site", Align::Left),
        ("address", Align::Left),
        ("up for", Align::Left),
        ("data directory", Align::Left),
    ]);
    for node in views {
        nodes.row([
            node.node.to_string(),
            node.site.clone(),
            node.address.clone(),
            node.up_seconds.map_or("does not answer".to_owned(), span),
            node.data_directory.clone().unwrap_or_default(),
        ]);
    }
    nodes
}

/// A span of time, in its greatest unit and the next.
fn span(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn shard_table(survey: &Survey) -> Table {
    let mut shards = Table::new(&[
        ("shard", Align::Right),
        ("keyspace", Align::Left),
        ("verdict", Align::Left),
        ("replicas: node, state", Align::Left),
    ]);
    let declared = survey.declared_lost();
    for shard in &survey.shards {
        let replica = |replica: &ReplicaView| {
            let accepted = if replica.accepted_losses.is_empty() { "" } else { " (after an accepted loss)" };
            let leads = if replica.leads { " (leads)" } else { "" };
            format!("{} {}{leads}{accepted}", replica.node, replica.state)
        };
        let replicas: Vec<_> = shard.replicas.iter().map(replica).collect();
        shards.row([
            shard.shard.to_string(),
            shard.keyspace.clone(),
            if declared.contains_key(&shard.shard) { DECLARED_LOST } else { verdict(shard) }.to_owned(),
            replicas.join(", "),
        ]);
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_two_units() {
        let table = [
            (0.9, "0 s"),
            (59.0, "59 s"),
            (61.0, "1 min 1 s"),
            (7_260.0, "2 h 1 min"),
            (90_000.0, "1 d 1 h"),
        ];
        for (seconds, expected) in table {
            assert_eq!(span(seconds), expected);
        }
    }

    #[test]
    fn verdicts_as_a_table() {
        let shard = |states: [&str; 3]| ShardView {
            keyspace: "accounts".to_owned(),
            shard: 1,
            since: 0,
            leaving: Vec::new(),
            epoch: 0,
            replicas: states
                .iter()
                .zip(0..)
                .map(|(state, index)| ReplicaView {
                    index,
                    node: index.into(),
                    state: (*state).to_owned(),
                    problem: None,
                    view: 0,
                    has_arrived: true,
                    leads: false,
                    accepted_losses: vec![],
                    lost_shards: vec![],
                    traffic: None,
                })
                .collect(),
            lags: vec![],
        };
        let table = [
            (["normal", "normal", "normal"], "served"),
            (["normal", "unreachable", "normal"], "served by a majority"),
            (["normal", "recovering", "normal"], "served by a majority"),
            (["normal", "view-changing", "unreachable"], "not served"),
            (["normal", "lost", "lost"], "lost"),
            (["unreachable", "lost", "lost"], "lost"),
        ];
        for (states, expected) in table {
            assert_eq!(verdict(&shard(states)), expected, "{states:?}");
        }
    }
}
