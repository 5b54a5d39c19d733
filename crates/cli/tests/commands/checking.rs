//! `check` and `sim`: what they judge, and how they say so.

use crate::{run, run_with_input};

const VALID: &str = "\
{\"index\":0,\"type\":\"invoke\",\"process\":0,\"f\":\"txn\",\"time\":1,\"value\":[[\"append\",\"x\",1]]}
{\"index\":1,\"type\":\"ok\",\"process\":0,\"f\":\"txn\",\"time\":2,\"value\":[[\"append\",\"x\",1]]}
{\"index\":2,\"type\":\"invoke\",\"process\":1,\"f\":\"txn\",\"time\":3,\"value\":[[\"r\",\"x\",null]]}
{\"index\":3,\"type\":\"ok\",\"process\":1,\"f\":\"txn\",\"time\":4,\"value\":[[\"r\",\"x\",[1]]]}
";

/// The second transaction begins after the first has ended, and misses it.
fn stale() -> String {
    VALID.replace("[\"r\",\"x\",[1]]", "[\"r\",\"x\",[]]")
}

fn check(history: &str, arguments: &[&str]) -> crate::Run {
    run_with_input(&[&["check", "-"], arguments].concat(), history)
}

#[test]
fn histories_are_judged_by_exit_code_and_json() {
    let run = check(VALID, &["--level", "strict-serializable", "--json"]);
    assert_eq!((run.code, run.json()["verdict"].as_str()), (0, Some("valid")));
    assert_eq!((run.json()["txns"].as_u64(), run.json()["ops"].as_u64()), (Some(2), Some(2)));

    let run = check(&stale(), &["--level", "strict-serializable", "--json"]);
    assert_eq!((run.code, run.json()["verdict"].as_str()), (1, Some("invalid")));
    assert!(run.json()["anomalies"][0]["why"].is_string());
    assert_eq!(check(&stale(), &["--level", "serializable"]).code, 0);
}

#[test]
fn malformed_histories_name_the_line() {
    let run = check(&VALID.replace("\"index\":2", "\"index\":7"), &["--level", "serializable"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("line 3"), "{}", run.err);
}

#[test]
fn all_levels_are_a_table_or_an_object() {
    let run = check(&stale(), &["--level", "all"]);
    assert_eq!(run.code, 0, "it is valid at the weakest level");
    assert!(run.out.contains("strict-serializable") && run.out.contains("walter-psi"), "{}", run.out);
    let json = check(&stale(), &["--level", "all", "--json"]).json();
    assert_eq!(json["levels"]["strict-serializable"]["verdict"], "invalid");
    assert_eq!(json["levels"]["serializable"]["verdict"], "valid");
}

#[test]
fn anomalies_are_explained_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("why");
    let run = check(&stale(), &["--level", "strict-serializable", "--explain", target.to_str().unwrap()]);
    assert_eq!(run.code, 1);
    let mut names: Vec<String> = std::fs::read_dir(&target)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "strict-serializable-01-stale-read.svg",
            "strict-serializable-01-stale-read.txt",
            "strict-serializable-shrunk.jsonl",
            "strict-serializable-shrunk.svg",
            "strict-serializable-shrunk.txt",
        ]
    );
    assert!(names.iter().all(|name| run.err.contains(name.as_str())), "{}", run.err);
    let read = |name: &str| std::fs::read_to_string(target.join(name)).unwrap();
    let text = read("strict-serializable-01-stale-read.txt");
    assert!(text.contains("stale-read") && text.contains("line 1"), "{text}");
    assert!(read("strict-serializable-01-stale-read.svg").contains(">rw x</text>"));
    let again =
        check(&read("strict-serializable-shrunk.jsonl"), &["--level", "strict-serializable", "--json"]);
    assert_eq!((again.code, again.json()["anomalies"][0]["kind"].as_str()), (1, Some("stale-read")));

    let nothing = directory.path().join("nothing");
    let run = check(VALID, &["--level", "serializable", "--explain", nothing.to_str().unwrap()]);
    assert_eq!(run.code, 0);
    assert!(run.err.contains("nothing to explain"), "{}", run.err);
}

#[test]
fn histories_are_written_for_other_checkers() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let elle = format!("elle={}", file("h.edn"));
    let dbcop = format!("dbcop={}", file("0.json"));
    let run = check(VALID, &["--level", "serializable", "--json", "--export", &elle, "--export", &dbcop]);
    assert_eq!(run.code, 0);
    assert_eq!(run.json()["verdict"], "valid");
    assert!(std::fs::read_to_string(file("h.edn")).unwrap().contains("[:append \"x\" 1]"));
    assert!(std::fs::read_to_string(file("0.json")).unwrap().contains("\"Write\""));
    assert_eq!(run.err.matches("left out: nothing").count(), 2, "{}", run.err);

    let timekiller = format!("timekiller={}", file("t.json"));
    let run = check(VALID, &["--level", "serializable", "--export", &timekiller]);
    assert_eq!(run.code, 2);
    assert!(!directory.path().join("t.json").exists());
    assert!(run.err.contains("timestamps"), "{}", run.err);
    assert_eq!(check(VALID, &["--level", "serializable", "--export", "word"]).code, 2);
}

/// The worked example of the documentation, where Python and its SQLite are installed.
#[test]
fn the_example_with_sqlite_is_as_documented() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/sqlite_history.py");
    for (transactions, level, code) in [
        ("none", "serializable", 1),
        ("deferred", "strict-serializable", 0),
        ("immediate", "strict-serializable", 0),
    ] {
        let arguments = [script, "--transactions", transactions, "--count", "150"];
        let Ok(output) = std::process::Command::new("python3").args(arguments).output() else {
            eprintln!("skipped: python3 is not installed");
            return;
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("No module named") {
            eprintln!("skipped: {errors}");
            return;
        }
        assert!(output.status.success(), "{errors}");
        let history = String::from_utf8(output.stdout).unwrap();
        let run = check(&history, &["--level", level, "--json"]);
        assert_eq!(run.code, code, "{transactions}: {}{}", run.out, run.err);
        assert_eq!(run.json()["txns"], 151);
    }
}

#[test]
fn a_seed_has_one_trace_and_a_history_that_can_be_checked() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (trace, history) = (file("trace.txt"), file("history.jsonl"));
    let first = run(&["sim", "--seed", "7", "--json", "--trace", &trace, "--history", &history]);
    assert_eq!(first.code, 0, "{}{}", first.out, first.err);
    let second = run(&["sim", "--seeds", "7..7", "--json"]);
    assert_eq!(first.json()["trace_hash"], second.json()["trace_hash"]);
    assert_eq!(first.json()["seeds"], 1);
    assert!(std::fs::read_to_string(&trace).unwrap().lines().count() > 100);
    assert_eq!(run(&["check", &history, "--level", "strict-serializable"]).code, 0);
}

#[test]
fn seeds_give_the_same_hash_however_many_run_at_a_time() {
    let hash = || run(&["sim", "--seeds", "3..6", "--json"]).json()["trace_hash"].clone();
    assert_eq!(hash(), hash());
}

#[test]
fn a_planted_bug_is_found_and_the_seed_is_told() {
    let run = run(&["sim", "--seeds", "1..6", "--plant", "T21", "--workload", "lists"]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains("repeat: quorate sim --isolation strict --seed"), "{}", run.out);
}

#[test]
fn what_a_planted_bug_panics_with_is_in_the_report_of_its_hunt_and_nowhere_else() {
    let hunts = run(&[
        "sim",
        "--isolation",
        "serializable",
        "--plants",
        "--seeds",
        "1..2",
        "--share",
        "3/6",
        "--json",
    ]);
    assert!(!hunts.err.contains("panicked"), "{}", hunts.err);
    let hunts = hunts.json();
    let mut caught = hunts.as_array().unwrap().iter().map(|hunt| &hunt["caught"]);
    let panic = caught.find(|caught| caught["anomaly"] == "panic").expect("a plant is caught so");
    let (repeat, message) = (panic["repeat"].as_str().unwrap(), panic["explain"].as_str().unwrap());
    let arguments: Vec<&str> = repeat.split_whitespace().collect();
    let once = run(&arguments);
    assert_eq!(once.code, 1);
    assert!(once.err.contains("panicked at") && once.err.contains(message), "{message}: {}", once.err);
}
