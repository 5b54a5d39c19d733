//! The fields themselves: what is read, what is refused, and that a recording writes what it was given.

use std::collections::BTreeMap;

use quorate_checker::history::{Facts, Malformed, RecordedFacts};
use quorate_checker::{History, MicroOp, ReadError, Recorder, Timestamp, cross_check};

use super::{complaint, doubt};
use crate::{brief, expand};

const TEXT: &str = r#"
    invoke 0 #A [["append","x",1]]
    spec   0 rs=4 lc=5:7 [["append","x",1]]
    ok     0 rs=4 fc=9 vts=B:2,A:0 site_seq=3 [["append","x",1]]
"#;

fn refused(from: &str, to: &str) -> Malformed {
    let json = expand(TEXT);
    assert!(json.contains(from), "{json}");
    match History::read(json.replacen(from, to, 1).as_bytes()) {
        Err(ReadError::Malformed { reason, .. }) => reason,
        other => panic!("{from} → {to}: {other:?}"),
    }
}

#[test]
fn facts_of_all_lines_come_together() {
    let history = brief(TEXT);
    let txn = &history.txns()[0];
    let ts = |time, client| Some(Timestamp { time, client });
    let Facts { rs, lc, fc, vts, site_seq } = history.facts(txn).expect("there are facts").clone();
    assert_eq!((rs, lc, fc, site_seq), (ts(4, 0), ts(5, 7), ts(9, 0), Some(3)));
    let vts: Vec<(&str, u64)> =
        vts.iter().flatten().map(|&(site, commits)| (history.site_name(site), commits)).collect();
    assert_eq!(vts, [("B", 2)], "none of A is as good as leaving it out");
    assert!(brief("invoke 0 [[\"append\",\"x\",1]]").facts(txn).is_none());
}

#[test]
fn null_says_nothing() {
    for field in ["\"rs\":4", "\"lc\":[5,7]", "\"fc\":9", "\"vts\":{\"B\":2,\"A\":0}", "\"site_seq\":3"] {
        let name = field.split_once(':').unwrap().0;
        let json = expand(TEXT).replace(field, &format!("{name}:null"));
        let history = History::read(json.as_bytes()).unwrap();
        let facts = history.facts(&history.txns()[0]).unwrap();
        let known = [facts.rs.is_some(), facts.lc.is_some(), facts.fc.is_some(), facts.vts.is_some()];
        let known = known.into_iter().chain([facts.site_seq.is_some()]).filter(|known| *known).count();
        assert_eq!(known, 4, "{name}");
    }
}

#[test]
fn other_shapes_are_refused() {
    for (from, to) in [
        ("\"rs\":4", "\"rs\":4.5"),
        ("\"rs\":4", "\"rs\":\"4\""),
        ("\"lc\":[5,7]", "\"lc\":[5]"),
        ("\"lc\":[5,7]", "\"lc\":[5,7,9]"),
        ("\"fc\":9", "\"fc\":{}"),
        ("\"vts\":{\"B\":2,\"A\":0}", "\"vts\":[2,0]"),
        ("\"B\":2", "\"B\":-1"),
        ("\"B\":2", "\"B\":null"),
        ("\"site_seq\":3", "\"site_seq\":0"),
        ("\"site_seq\":3", "\"site_seq\":-3"),
    ] {
        assert!(matches!(refused(from, to), Malformed::Json { .. }), "{to}");
    }
    assert_eq!(refused("\"A\":0", "\"B\":0"), Malformed::RepeatedSite("B".into()));
    assert_eq!(refused("\"fc\":9", "\"rs\":4"), Malformed::RepeatedField("rs"));
}

#[test]
fn lines_of_one_transaction_must_agree() {
    assert_eq!(refused("\"rs\":4", "\"rs\":3"), Malformed::FactDiffers("rs"));
    assert_eq!(refused("\"fc\":9", "\"fc\":9,\"lc\":5"), Malformed::FactDiffers("lc"));
    let again = |field: &str| refused("\"lc\":[5,7]", field);
    assert_eq!(again("\"fc\":8"), Malformed::FactDiffers("fc"));
    assert_eq!(again("\"vts\":{\"B\":3}"), Malformed::FactDiffers("vts"));
    assert_eq!(again("\"site_seq\":2"), Malformed::FactDiffers("site_seq"));
    let same = expand(TEXT).replacen("\"lc\":[5,7]", "\"vts\":{\"B\":2}", 1);
    assert!(History::read(same.as_bytes()).is_ok(), "zero and absent are the same");
}

#[test]
fn a_recording_keeps_them() {
    let mut recorder = Recorder::new();
    let txn = recorder.invoke(0, 0);
    recorder.site(txn, "A");
    recorder.attempt(txn, MicroOp::Append("x".into(), 1));
    let ts = |time| Some(Timestamp { time, client: 2 });
    let vts = BTreeMap::from([("B".to_string(), 2), ("A \"".to_string(), 1)]);
    let facts = RecordedFacts { rs: ts(1), lc: ts(2), fc: ts(3), vts: Some(vts), site_seq: Some(4) };
    recorder.facts(txn, facts);
    recorder.ok(txn, 1, vec![MicroOp::Append("x".into(), 1)]);
    let mut json = Vec::new();
    recorder.write_json(&mut json).unwrap();
    let read = History::read(json.as_slice()).unwrap();
    let direct = recorder.to_history().unwrap();
    let of = |history: &History| {
        let facts = history.facts(&history.txns()[0]).unwrap().clone();
        let mut vts: Vec<(String, u64)> = facts
            .vts
            .iter()
            .flatten()
            .map(|&(site, commits)| (history.site_name(site).to_string(), commits))
            .collect();
        vts.sort();
        (facts.rs, facts.lc, facts.fc, vts, facts.site_seq)
    };
    assert_eq!(of(&read), of(&direct));
    assert_eq!(of(&read), (ts(1), ts(2), ts(3), vec![("A \"".into(), 1), ("B".into(), 2)], Some(4)));
}

const LISTS: &str = r#"
    invoke 0 #A [["append","x",1],["append","x",2]]
    invoke 1 #B [["append","x",3]]
    ok     0 FIRST [["append","x",1],["append","x",2]]
    ok     1 SECOND [["append","x",3]]
    invoke 2 #B [["r","x",null]]
    ok     2 [["r","x",[1,2,3]]]
"#;

/// The order in the longest list against the order of the servers.
#[test]
fn the_cross_check_compares_both_orders() {
    let check = |first: &str, second: &str| {
        cross_check(&brief(&LISTS.replace("FIRST", first).replace("SECOND", second)))
    };
    for (first, second) in
        [("ts=1", "ts=2"), ("ts=9 fc=1", "ts=3 fc=2"), ("site_seq=1 vts=A:0", "site_seq=1 vts=A:1")]
    {
        assert!(check(first, second).is_valid(), "{first} {second}");
    }
    let late = "T0 stands before T1 in the list of x, but committed later.";
    for (first, second) in [
        ("ts=2", "ts=1"),
        ("ts=1", "ts=1"),
        ("site_seq=1 vts=A:0", "site_seq=1 vts=A:0"),
        ("site_seq=2 vts=A:1", "site_seq=1 vts=A:1"),
        ("site_seq=1 vts=A:0", "site_seq=1 vts=B:1"),
    ] {
        assert_eq!(complaint(&check(first, second)), late, "{first} {second}");
    }
    for (first, second) in [("ts=1", ""), ("", "ts=2"), ("site_seq=1", "site_seq=1"), ("vts=A:0", "vts=A:1")]
    {
        assert_eq!(
            doubt(&check(first, second)),
            "Nothing orders the commits of T0 and T1.",
            "{first} {second}"
        );
    }
}

#[test]
fn the_cross_check_goes_by_sequence_at_one_site() {
    let check = |first: &str, second: &str| {
        let text = LISTS.replace("#B", "#A").replace("FIRST", first).replace("SECOND", second);
        cross_check(&brief(&text))
    };
    assert!(check("site_seq=1", "site_seq=2").is_valid());
    assert!(complaint(&check("site_seq=2", "site_seq=1")).contains("but committed later"));
}
