//! The examples of the door's page, carried out as they stand there.

use std::process::Command;
use std::time::Duration;

use quorate::{IndexOptions, Isolation, KeyspaceOptions};
use quorate_gateway::Limits;

use crate::support::Cluster;

const PAGE: &str = include_str!("../../../../../docs/doors/http.md");

/// An example: what is typed, and lines that are in what is printed, in their order.
fn examples() -> Vec<(String, Vec<&'static str>)> {
    let mut examples: Vec<(String, Vec<&str>)> = Vec::new();
    let mut is_typed = false;
    for line in PAGE.lines() {
        let Some(line) = line.strip_prefix("    ") else {
            is_typed = false;
            continue;
        };
        match (line.strip_prefix("$ "), examples.last_mut()) {
            (Some(typed), _) => {
                examples.push((typed.to_owned(), Vec::new()));
                is_typed = true;
            }
            (None, Some((typed, _))) if is_typed && line.starts_with("    ") => {
                typed.push('\n');
                typed.push_str(line);
            }
            (None, Some((_, printed))) if is_typed => printed.push(line),
            _ => {}
        }
    }
    examples
}

/// True if a line is like one of the page, where `…` stands for anything.
fn is_like(line: &str, wanted: &str) -> bool {
    let mut parts = wanted.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut is_open = false;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
        is_open = part.is_empty();
    }
    rest.is_empty() || is_open
}

/// Makes the keyspace whose index an example asks: no request creates one.
async fn create_users(cluster: &Cluster) {
    let options = cluster.nodes.client().unwrap();
    let db = quorate::connect_with(cluster.nodes.addresses(), options).await.unwrap();
    let users = db.create_keyspace("users", KeyspaceOptions::new(Isolation::Strict)).await.unwrap();
    let users = users.with_deadline(Duration::from_secs(60));
    let by_city = IndexOptions::new("json:/city".parse().unwrap());
    users.create_index("by-city", &by_city, |_| {}).await.unwrap();
    users.put("ada", r#"{"city":"London"}"#).await.unwrap();
    db.close().await;
}

#[test]
fn the_examples_of_the_page_are_true() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("curl is not installed, so the examples are not carried out");
        return;
    }
    let cluster = Cluster::start(Limits { deadline: Duration::from_secs(60), ..Limits::default() });
    let examples = examples();
    assert!(examples.len() > 8, "{examples:?}");
    let mut has_users = false;
    for (typed, wanted) in examples {
        if !has_users && typed.contains("/keyspaces/users/") {
            tokio::runtime::Runtime::new().unwrap().block_on(create_users(&cluster));
            has_users = true;
        }
        let line = typed.replace("127.0.0.1:7480", &cluster.door.to_string());
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        assert!(output.status.success(), "{typed}: {}", String::from_utf8_lossy(&output.stderr));
        let mut lines = printed.lines();
        for line in wanted {
            assert!(
                lines.any(|printed| is_like(printed, line)),
                "{typed}\nprints\n{printed}\nand not\n{line}"
            );
        }
    }
}
