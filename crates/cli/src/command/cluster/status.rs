//! `quorate cluster status`.

use quorate::Database;
use serde_json::json;

use super::survey::{ShardView, Survey, survey};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json};

/// Prints how the cluster is: bad unless every replica of every shard serves.
pub(super) async fn run(db: &Database, json: bool) -> Outcome {
    let survey = survey(db).await?;
    let is_ok = survey.nodes.iter().all(|node| node.unreachable.is_none() && node.problems.is_empty())
        && survey.shards.iter().all(|shard| verdict(shard) == "served");
    if json {
        print_json(&json!({ "ok": is_ok, "nodes": survey.nodes, "shards": shards(&survey)? }))?;
    } else {
        println!("{}", text(&survey));
    }
    Ok(Verdict::good_if(is_ok))
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

fn shards(survey: &Survey) -> Result<Vec<serde_json::Value>, Failure> {
    let with_verdict = |shard: &ShardView| {
        let mut value = serde_json::to_value(shard)?;
        value["verdict"] = verdict(shard).into();
        Ok(value)
    };
    survey.shards.iter().map(with_verdict).collect::<Result<_, serde_json::Error>>().map_err(Failure::failed)
}

fn text(survey: &Survey) -> String {
    let mut nodes = Table::new(&[
        ("node", Align::Right),
        ("site", Align::Left),
        ("address", Align::Left),
        ("answers", Align::Left),
        ("data directory", Align::Left),
    ]);
    for node in &survey.nodes {
        nodes.row([
            node.node.to_string(),
            node.site.clone(),
            node.address.clone(),
            if node.unreachable.is_none() { "yes" } else { "no" }.to_owned(),
            node.data_directory.clone().unwrap_or_default(),
        ]);
    }
    let mut shards = Table::new(&[
        ("shard", Align::Right),
        ("keyspace", Align::Left),
        ("verdict", Align::Left),
        ("replicas: node, state", Align::Left),
    ]);
    for shard in &survey.shards {
        let replica = |replica: &super::survey::ReplicaView| {
            let accepted = if replica.accepted_losses.is_empty() { "" } else { " (after an accepted loss)" };
            let leads = if replica.leads { " (leads)" } else { "" };
            format!("{} {}{leads}{accepted}", replica.node, replica.state)
        };
        let replicas: Vec<_> = shard.replicas.iter().map(replica).collect();
        shards.row([
            shard.shard.to_string(),
            shard.keyspace.clone(),
            verdict(shard).to_owned(),
            replicas.join(", "),
        ]);
    }
    let mut text = format!("{nodes}\n\n{shards}");
    for node in &survey.nodes {
        for problem in node.unreachable.iter().chain(&node.problems) {
            text.push_str(&format!("\nnode {}: {problem}", node.node));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::survey::ReplicaView;
    use super::*;

    #[test]
    fn verdicts_as_a_table() {
        let shard = |states: [&str; 3]| ShardView {
            keyspace: "accounts".to_owned(),
            shard: 1,
            replicas: states
                .iter()
                .zip(0..)
                .map(|(state, index)| ReplicaView {
                    index,
                    node: index.into(),
                    state: (*state).to_owned(),
                    problem: None,
                    view: 0,
                    leads: false,
                    accepted_losses: vec![],
                })
                .collect(),
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
