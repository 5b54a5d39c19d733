//! The metrics of a node, as Prometheus reads them: each has a help and a type, and latencies are histograms.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use crate::servers::Servers;

/// The keyspaces that are written, one of each isolation.
const KEYSPACES: [&str; 4] = ["strict", "serializable", "snapshot", "parallel-snapshot"];

/// A line of the exposition: the name, the labels, the value.
fn sample(line: &str) -> (&str, BTreeMap<&str, &str>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap_or_else(|_| panic!("{line} has no number"));
    let Some((name, labels)) = series.split_once('{') else { return (series, BTreeMap::new(), value) };
    let labels = labels.strip_suffix('}').unwrap().split(',').map(|label| {
        let (name, value) = label.split_once('=').unwrap();
        (name, value.trim_matches('"'))
    });
    (name, labels.collect(), value)
}

/// The family that a series belongs to: histograms have several series.
fn family<'a>(name: &'a str, types: &BTreeMap<&str, &str>) -> &'a str {
    let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    of_histogram.filter(|family| types.get(family) == Some(&"histogram")).unwrap_or(name)
}

/// Looks whether every family has one help and one type, before its first series, and every series is there once.
fn is_well_formed(text: &str) -> BTreeMap<&str, &str> {
    let (mut helps, mut types, mut series) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helps.insert(name) && help.len() > 5, "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helps.contains(name) && types.insert(name, kind).is_none(), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        } else {
            let (name, ..) = sample(line);
            assert!(types.contains_key(family(name, &types)), "{line} comes before its type");
            assert!(series.insert(line.rsplit_once(' ').unwrap().0), "{line} is there twice");
        }
    }
    types
}

/// Looks whether the buckets of a histogram of a keyspace count up to its count; gives that. A node that measures no commits of the keyspace, because others lead, has none.
fn counted(text: &str, histogram: &str, keyspace: &str) -> f64 {
    let of = |suffix: &str| {
        let name = format!("{histogram}{suffix}");
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(sample);
        let own =
            lines.filter(|(found, labels, _)| *found == name && labels.get("keyspace") == Some(&keyspace));
        own.map(|(_, labels, value)| (labels.get("le").copied().unwrap_or(""), value)).collect::<Vec<_>>()
    };
    if of("_bucket").is_empty() {
        return 0.0;
    }
    let mut last = (f64::NEG_INFINITY, 0.0);
    for (end, count) in of("_bucket") {
        let end = if end == "+Inf" { f64::INFINITY } else { end.parse().unwrap() };
        // The next replica begins anew.
        if end <= last.0 {
            assert_eq!(last.0, f64::INFINITY, "{keyspace}: the last bucket holds everything");
            last = (f64::NEG_INFINITY, 0.0);
        }
        assert!(count >= last.1, "{keyspace}: buckets are cumulative");
        last = (end, count);
    }
    assert_eq!(last.0, f64::INFINITY, "{keyspace}: the last bucket holds everything");
    assert!(of("_sum").iter().all(|(_, sum)| *sum >= 0.0));
    of("_count").iter().map(|(_, count)| count).sum()
}

#[test]
fn metrics_are_well_formed_and_commits_of_every_keyspace_have_a_histogram() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::start(directory.path(), &["us", "eu", "asia"]);
    for keyspace in KEYSPACES {
        let created = servers.run(&["keyspace", "create", keyspace, "--isolation", keyspace]);
        assert_eq!(created.code, 0, "{}", created.err);
        let written = servers.shell(&format!("use {keyspace}; put a 1; put b 2"));
        assert_eq!(written.code, 0, "{}", written.err);
    }
    let pages: Vec<String> = (0..3)
        .map(|node| {
            let answer = servers.metrics(node);
            assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
            answer.split_once("\r\n\r\n").unwrap().1.to_owned()
        })
        .collect();
    for page in &pages {
        let types = is_well_formed(page);
        assert!(types.len() > 40, "{types:?}");
        assert_eq!(types.get("quorate_commit_seconds"), Some(&"histogram"));
        is_found_good_by_promtool(page);
    }
    for keyspace in KEYSPACES {
        let commits: f64 = pages.iter().map(|page| counted(page, "quorate_commit_seconds", keyspace)).sum();
        assert!(commits >= 2.0, "{keyspace}: {commits} commits were measured");
    }
}

/// The verdict of Prometheus itself on the page, where its tool is installed.
fn is_found_good_by_promtool(page: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("promtool is not installed, so it is not asked (Debian: apt-get install prometheus)");
        return;
    };
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let judged = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert!(judged.status.success(), "{said}");
}
