//! The content of reports: words, JSON, and how much a history was worth.

use quorate_checker::{Level, Recorder, Report, Vacuity, check, check_timestamps};
use quorate_checker::{MicroOp, Observed};
use serde_json::{Value, json};

use crate::{brief, strict};

const STALE: &str = r#"
    invoke 0 [["append","x",1]]
    ok     0 [["append","x",1]]
    invoke 1 [["r","x",null]]
    ok     1 [["r","x",[]]]
    invoke 2 [["r","x",null]]
    ok     2 [["r","x",[1]]]
"#;

#[test]
fn the_json_has_the_promised_fields() {
    let value = serde_json::to_value(strict(STALE)).unwrap();
    assert_eq!(
        value,
        json!({
            "level": "strict-serializable",
            "verdict": "invalid",
            "anomalies": [{
                "kind": "stale-read",
                "txns": [0, 2],
                "why": "T0 and T2 must each come before the other: T0 completed before T2 was invoked. \
                        T2 read [] of x and did not see 1, which T0 wrote, so T2 comes before T0.",
                "edges": [
                    {"from": 0, "to": 2, "kind": "rt"},
                    {"from": 2, "to": 0, "kind": "rw", "key": "x"},
                ],
            }],
            "txns": 3,
            "ops": 3,
            "vacuous": true,
            "evidence": {"commits": 3, "conflict_edges": 1, "overlapping_pairs": 0},
        })
    );
    let unknown = check(&brief(STALE), Level::Spsi);
    let value = serde_json::to_value(unknown).unwrap();
    assert_eq!(value["verdict"], "unknown");
    assert_eq!(value["reason"], "T0 names no site, and this level is about the nodes of transactions.");
    assert_eq!(serde_json::to_value(Level::WalterPsi).unwrap(), Value::from("walter-psi"));
}

#[test]
fn every_kind_of_anomaly_is_spelled_alike_for_people_and_machines() {
    for text in [STALE, "invoke 0 [[\"r\",\"x\",null]]\nok 0 [[\"r\",\"x\",[1]]]"] {
        for anomaly in strict(text).anomalies {
            assert_eq!(serde_json::to_value(anomaly.kind).unwrap(), anomaly.kind.name());
        }
    }
}

#[test]
fn the_text_is_for_people() {
    let text = strict(STALE).to_string();
    assert!(
        text.starts_with("strict-serializable: invalid (3 transactions, 3 operations; vacuous: 3 commits"),
        "{text}"
    );
    assert!(text.contains("\n  stale-read: T0 and T2 must each come before the other: "), "{text}");
}

/// One sentence per edge, naming transactions, keys and values.
#[test]
fn cycles_in_words() {
    let history = r#"
        invoke 0 [["append","x",1]]
        invoke 1 [["r","x",null],["append","y",5]]
        invoke 2 @s [["r","y",null],["r","x",null]]
        ok     0 [["append","x",1]]
        ok     1 [["r","x",[1]],["append","y",5]]
        ok     2 @s [["r","y",[5]],["r","x",[]]]
    "#;
    assert_eq!(
        strict(history).anomalies[0].why,
        "T0, T1, T2 and T0 again form a cycle: \
         T1 read [1] of x and so saw 1, which T0 wrote; T0 comes before T1. \
         T2 read [5] of y and so saw 5, which T1 wrote; T1 comes before T2. \
         T2 read [] of x and did not see 1, which T0 wrote, so T2 comes before T0."
    );
    let registers = r#"
        invoke 0 @s [["w","x",1]]
        ok     0 @s [["w","x",1]]
        invoke 1 @s [["r","x",null],["w","x",2]]
        ok     1 @s [["r","x",null],["w","x",2]]
        invoke 2 @t [["r","x",null],["w","x",3]]
        ok     2 @t [["r","x",1],["w","x",3]]
    "#;
    let report = check(&brief(registers), Level::SessionSerializable);
    assert_eq!(
        report.anomalies[0].why,
        "T0 and T2 must each come before the other: In session s, T0 completed before T2 was invoked. \
         T2 wrote 2 to x before T0 wrote 1 to it, so T2 comes before T0."
    );
}

#[test]
fn long_lists_are_shortened() {
    let mut text = String::new();
    for value in 0..30 {
        text += &format!("invoke 0 [[\"append\",\"x\",{value}]]\nok 0 [[\"append\",\"x\",{value}]]\n");
    }
    let all = (0..30).chain([99]).map(|value: i64| value.to_string()).collect::<Vec<_>>().join(",");
    text += &format!(
        "invoke 1 [[\"append\",\"x\",30],[\"r\",\"x\",null]]\nok 1 [[\"append\",\"x\",30],[\"r\",\"x\",[{all}]]]"
    );
    assert_eq!(
        strict(&text).anomalies[0].why,
        "T60 read [0, 1, 2, 3, 4, 5, .., 26, 27, 28, 29, 99, 99] (31 elements) of x, which does not end with its own \
         appends."
            .replace("26, 27, 28, 29, 99, 99", "25, 26, 27, 28, 29, 99")
    );
}

#[test]
fn anomalies_of_a_kind_are_limited() {
    let mut text = String::new();
    for process in 0..1000 {
        text += &format!("invoke {process} [[\"r\",\"x\",null]]\nok {process} [[\"r\",\"x\",7]]\n");
    }
    let report = strict(&text);
    assert_eq!((report.verdict.name(), report.anomalies.len()), ("invalid", 10));
}

/// Transactions that each read and append, two at a time.
fn busy(txns: u64, overlapping: bool) -> Report {
    let mut recorder = Recorder::new();
    let mut list = Vec::new();
    let mut open = Vec::new();
    for at in 0..txns {
        open.push((recorder.invoke(at, at as i64 * 10), at as i64));
        if overlapping && at % 2 == 0 && at + 1 < txns {
            continue;
        }
        for (txn, value) in open.drain(..) {
            let read = MicroOp::Read("x".into(), Observed::List(list.clone()));
            recorder.ok(txn, at as i64 * 10 + 5, vec![read, MicroOp::Append("x".into(), value)]);
            list.push(value);
        }
    }
    check(&recorder.into_history().unwrap(), Level::StrictSerializable)
}

#[test]
fn vacuity_needs_commits_conflicts_and_overlaps() {
    let rich = busy(100, true);
    assert_eq!((rich.verdict.name(), rich.vacuous), ("valid", false));
    assert_eq!(rich.evidence, Vacuity { commits: 100, conflict_edges: 99, overlapping_pairs: 50 });
    assert!(busy(99, true).vacuous, "99 commits");
    let serial = busy(100, false);
    assert_eq!(
        (serial.verdict.name(), serial.vacuous, serial.evidence.overlapping_pairs),
        ("valid", true, 0)
    );
    let enough = Vacuity { commits: 100, conflict_edges: 20, overlapping_pairs: 5 };
    assert!(!enough.is_vacuous());
    assert!(Vacuity { commits: 99, ..enough }.is_vacuous());
    assert!(Vacuity { conflict_edges: 19, ..enough }.is_vacuous());
    assert!(Vacuity { overlapping_pairs: 4, ..enough }.is_vacuous());
}

#[test]
fn aborted_and_unknown_transactions_are_no_evidence() {
    let history = r#"
        invoke 0 [["append","x",1]]
        invoke 1 [["append","x",2]]
        invoke 2 [["append","x",3]]
        fail   0 [["append","x",1]]
        info   1 [["append","x",2]]
        ok     2 [["append","x",3]]
    "#;
    assert_eq!(strict(history).evidence, Vacuity { commits: 1, ..Vacuity::default() });
}

#[test]
fn the_white_box_report_has_the_same_form() {
    let report = check_timestamps(&brief("invoke 0 [[\"w\",\"x\",1]]\nok 0 ts=3 [[\"w\",\"x\",1]]"));
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!((&value["level"], &value["verdict"]), (&json!("timestamps"), &json!("valid")));
    assert_eq!(report.to_string().lines().count(), 1);
}
