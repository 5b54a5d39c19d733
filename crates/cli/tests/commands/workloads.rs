//! Workloads on server processes, in keyspaces of each isolation that runs them.

use serde_json::{Value, json};

/// Runs a workload for two seconds in memory; gives its report, which is good.
fn bench(words: &[&str]) -> Value {
    let common = ["--embedded", "--durability", "memory", "--clients", "8", "--seconds", "2", "--json"];
    let run = crate::run(&[&["bench"], words, &common[..]].concat());
    assert_eq!(run.code, 0, "{words:?}: {}{}", run.out, run.err);
    run.json()
}

fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name} is no number of {report}"))
}

#[test]
fn hotspot_says_how_much_contention_there_is() {
    let shape = ["hotspot", "--shards", "3", "--mix", "high", "--keys", "5000", "--remote", "30"];
    for isolation in ["strict", "serializable", "snapshot"] {
        let report = bench(&[&shape[..], &["--remote-hot", "50", "--isolation", isolation]].concat());
        assert_eq!((&report["workload"], &report["mix"]), (&json!("hotspot"), &json!("high")));
        let printed = ["keys_per_transaction", "keys_per_range", "local_hot_keys", "remote_hot_keys"];
        assert_eq!(printed.map(|name| count(&report, name)), [10, 5_000, 1_000, 50]);
        assert_eq!(["hot_percent", "remote_percent"].map(|name| count(&report, name)), [90, 30]);
        assert!(count(&report, "committed") > 20, "{report}");
    }
    let sites = ["hotspot", "--isolation", "parallel-snapshot", "--sites", "2", "--replicas", "1"];
    let report = bench(&[&sites[..], &["--mix", "low"]].concat());
    assert_eq!(["local_hot_keys", "remote_percent"].map(|name| count(&report, name)), [100_000, 10]);
    // A transaction with a key of another site asks that one.
    let fast = report["fast_rate"].as_f64().unwrap();
    assert!((0.1..0.7).contains(&fast) && count(&report, "committed") > 100, "{report}");
}

#[test]
fn populated_keys_are_found_by_reads() {
    let shape = ["rmw", "--keys", "10000", "--zipf", "0", "--value-size", "2000"];
    let bytes = |words: &[&str]| bench(&[&shape[..], words].concat())["bytes_per_txn"].as_f64().unwrap();
    let (found, missing) = (bytes(&["--populate"]), bytes(&[]));
    // Most keys are read once at most in such a time.
    assert!(found - missing > 500.0, "{found} bytes where values are read, {missing} where there are none");
}

#[test]
fn a_history_of_hotspot_is_valid() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("h.jsonl");
    let file = file.to_str().unwrap();
    let shape = ["hotspot", "--shards", "2", "--keys", "40", "--local-hot", "12", "--remote", "40"];
    let report = bench(&[&shape[..], &["--accesses", "4", "--history", file]].concat());
    assert!(count(&report, "committed") > 20 && count(&report, "aborted") > 0, "{report}");
    let judged = crate::run(&["check", file, "--level", "strict-serializable", "--json"]).json();
    assert_eq!(judged["verdict"], "valid", "{judged}");
}

#[test]
fn a_cluster_that_was_overloaded_commits_again() {
    let report =
        bench(&["rmw", "--shards", "2", "--keys", "20", "--overload", "5", "--isolation", "serializable"]);
    let overload = &report["overload"];
    assert!(overload["offered_tps"].as_f64() > report["throughput_tps"].as_f64(), "{report}");
    // How soon it does depends on what else runs on the machine.
    let after = overload["after_tps"].as_array().and_then(|after| after.last()?.as_u64());
    assert!(after > Some(0), "{report}");
}

#[test]
fn tpcc_runs_as_interactive_transactions_and_its_conditions_hold() {
    let words = ["tpcc", "--isolation", "strict", "--warehouses", "2", "--shards", "2"];
    let report = bench(&words);
    assert_eq!(
        (&report["violations"], &report["conditions_promised"]),
        (&json!([]), &json!(true)),
        "{report}"
    );
    assert_eq!((&report["procedures"], &report["mix"]), (&json!("interactive"), &json!("standard")));
    assert!(count(&report, "committed") > 20 && count(&report, "unknown") == 0, "{report}");
    assert_eq!(report["by_transaction"].as_object().unwrap().len(), 5, "{report}");
    let fetches = report["fetches_per_txn"].as_f64().unwrap();
    assert!((1.0..3.0).contains(&fetches), "{report}");

    let report = bench(&[&words[..], &["--mix", "A"]].concat());
    assert_eq!(report["violations"], json!([]), "{report}");
    assert_eq!(report["shares"]["payment"], 83, "{report}");
    let kinds: Vec<&String> = report["by_transaction"].as_object().unwrap().keys().collect();
    assert_eq!(kinds, ["new-order", "order-status", "payment"]);
}

#[test]
fn tpcc_and_rubis_keep_their_conditions_under_snapshot_isolation() {
    for words in [["tpcc", "--mix", "B", "--warehouses", "2"], ["rubis", "--updates", "40", "--markets", "2"]]
    {
        let report = bench(&[&words[..], &["--isolation", "snapshot", "--shards", "2"]].concat());
        assert_eq!(
            (&report["violations"], &report["conditions_promised"]),
            (&json!([]), &json!(true)),
            "{report}"
        );
        assert!(count(&report, "committed") > 20, "{report}");
    }
}

#[test]
fn tpcc_runs_at_two_sites_where_anomalies_are_permitted() {
    let words = ["tpcc", "--isolation", "parallel-snapshot", "--sites", "2", "--replicas", "1"];
    let report = bench(&[&words[..], &["--warehouses", "4", "--mix", "B"]].concat());
    assert_eq!((&report["conditions_promised"], &report["sites"]), (&json!(false), &json!(2)), "{report}");
    assert!(report["violations"].is_array() && count(&report, "committed") > 20, "{report}");
}

#[test]
fn rubis_runs_in_one_round_and_interactively_and_its_conditions_hold() {
    let words =
        ["rubis", "--markets", "3", "--shards", "2", "--market-users", "200", "--market-items", "100"];
    for (isolation, procedures) in [("serializable", "linked"), ("strict", "interactive")] {
        let report = bench(&[&words[..], &["--updates", "40", "--isolation", isolation]].concat());
        assert_eq!(
            (&report["violations"], &report["conditions_promised"]),
            (&json!([]), &json!(true)),
            "{report}"
        );
        assert_eq!((&report["procedures"], count(&report, "update_percent")), (&json!(procedures), 40));
        assert!(count(&report, "committed") > 100 && count(&report, "unknown") == 0, "{report}");
        assert!(report["by_transaction"]["store-bid"]["committed"].as_u64() > Some(10), "{report}");
        assert!(report["distributed_rate"].as_f64() > Some(0.0), "{report}");
    }
    let words = ["rubis", "--isolation", "parallel-snapshot", "--sites", "2", "--replicas", "1"];
    let report = bench(&[&words[..], &["--markets", "4", "--market-items", "100"]].concat());
    assert_eq!(report["conditions_promised"], json!(false), "{report}");
    assert!(count(&report, "committed") > 20, "{report}");
}

#[test]
fn users_that_think_are_slower() {
    let report = bench(&["rubis", "--think", "10"]);
    assert_eq!(count(&report, "think_percent"), 10);
    // Eight users that think half a second on average, for two seconds.
    let committed = count(&report, "committed");
    assert!((5..80).contains(&committed), "{report}");
}
