//! Counting sets: sums of adds and removes that never conflict.

use quorate_checker::explain::shrink;
use quorate_checker::{History, Level, MicroOp, Observed, Recorder, check};

use crate::{anomaly, brief, strict, verdicts};

#[test]
fn a_unique_element_names_its_adder() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 [["add","s",1]]
            ok     0 [["add","s",1]]
            invoke 1 [["r","s",null]]
            ok     1 [["r","s",{seen}]]
            "#
        )
    };
    assert_eq!(verdicts(&fill(r#"{"1":1}"#)), "vvv");
    for stale in ["{}", "null"] {
        assert_eq!(verdicts(&fill(stale)), "ivv", "{stale}");
        assert_eq!(anomaly(&fill(stale), Level::StrictSerializable), ("stale-read", vec![0, 2]));
    }
    for wrong in [r#"{"1":2}"#, r#"{"1":-1}"#, r#"{"2":1}"#, r#"{"1":1,"2":1}"#] {
        assert_eq!(anomaly(&fill(wrong), Level::Serializable), ("unwritten-read", vec![2]), "{wrong}");
    }
}

/// The element is named in an object in reads, where every name is text.
#[test]
fn elements_are_numbers_or_text() {
    let fill = |added: &str, seen: &str| {
        format!(
            r#"
            invoke 0 [["add","s",{added}]]
            ok     0 [["add","s",{added}]]
            invoke 1 [["r","s",null]]
            ok     1 [["r","s",{seen}]]
            "#
        )
    };
    for (added, seen) in [
        (r#""ada""#, r#"{"ada":1}"#),
        (r#""""#, r#"{"":1}"#),
        (r#""7""#, r#"{"7":1}"#),
        ("7", r#"{"7":1}"#),
        (r#""07""#, r#"{"07":1}"#),
        (r#""a\"b""#, r#"{"a\"b":1}"#),
    ] {
        assert_eq!(verdicts(&fill(added, seen)), "vvv", "{added}");
        assert_eq!(anomaly(&fill(added, "{}"), Level::StrictSerializable), ("stale-read", vec![0, 2]));
    }
    for (added, seen) in [
        (r#""ada""#, r#"{"bob":1}"#),
        (r#""ada""#, r#"{"ada":2}"#),
        (r#""07""#, r#"{"7":1}"#),
        // Where text is numbered from.
        ("7", r#"{"-9223372036854775808":1}"#),
    ] {
        assert_eq!(anomaly(&fill(added, seen), Level::Serializable), ("unwritten-read", vec![2]), "{seen}");
    }
    let why = &check(&brief(&fill(r#""ada""#, r#"{"bob":1}"#)), Level::Serializable).anomalies[0].why;
    assert!(why.contains("updates of bob in s"), "{why}");
}

#[test]
fn text_keeps_its_spelling_where_a_history_is_recorded_and_written() {
    let mut recorder = Recorder::new();
    let (ada, bob) = (recorder.element("ada"), recorder.element("bob"));
    assert_eq!(recorder.element("7"), 7);
    let writer = recorder.invoke(0, 1);
    recorder.ok(writer, 2, vec![MicroOp::Add("s".into(), bob), MicroOp::Remove("s".into(), ada)]);
    let reader = recorder.invoke(1, 3);
    let seen = [(ada, -1), (bob, 1)].into_iter().collect();
    recorder.ok(reader, 4, vec![MicroOp::Read("s".into(), Observed::Set(seen))]);
    let mut json = Vec::new();
    recorder.write_json(&mut json).unwrap();
    let text = String::from_utf8(json.clone()).unwrap();
    assert!(text.contains(r#"["add","s","bob"],["rem","s","ada"]"#), "{text}");
    assert!(text.contains(r#""ada":-1"#) && text.contains(r#""bob":1"#), "{text}");
    for history in [History::read(&json[..]).unwrap(), recorder.to_history().unwrap()] {
        assert!(check(&history, Level::StrictSerializable).is_valid());
    }
}

/// A part that fails as the whole does is written as a history of its own.
#[test]
fn text_keeps_its_spelling_in_what_a_history_is_shrunk_to() {
    let history = brief(
        r#"
        invoke 0 [["add","s","ada"]]
        ok     0 [["add","s","ada"]]
        invoke 1 [["add","s","bob"]]
        ok     1 [["add","s","bob"]]
        invoke 2 [["r","s",null]]
        ok     2 [["r","s",{"ada":1}]]
        "#,
    );
    let report = check(&history, Level::StrictSerializable);
    let shrunk = shrink(&history, Level::StrictSerializable, &report).expect("it fails");
    let mut json = Vec::new();
    shrunk.recorder.write_json(&mut json).unwrap();
    let text = String::from_utf8(json).unwrap();
    assert!(text.contains(r#""bob""#) && !text.contains("-9223372036854775"), "{text}");
}

#[test]
fn updates_never_conflict_and_counts_may_be_negative() {
    let history = r#"
        invoke 0 [["r","s",null],["rem","s",7]]
        invoke 1 [["r","s",null],["rem","s",7]]
        ok     0 [["r","s",{}],["rem","s",7]]
        ok     1 [["r","s",{}],["rem","s",7]]
        invoke 2 [["r","s",null]]
        ok     2 [["r","s",{"7":-2}]]
    "#;
    assert_eq!(verdicts(history), "iii", "two read-modify-writes of one set are a write skew");
    assert_eq!(
        anomaly(history, Level::Serializable),
        ("write-skew", vec![0, 1]),
        "both updates count, so none is lost"
    );
    let report = check(&brief(history), Level::Serializable);
    assert_eq!(
        report.anomalies[0].why,
        "T0 and T1 must each come before the other: T0 read {} of s and did not see that T1 removed 7, so T0 comes before \
         T1. T1 read {} of s and did not see that T0 removed 7, so T1 comes before T0."
    );
    let blind = history
        .replace(r#"["r","s",null],["rem""#, r#"["rem""#)
        .replace(r#"["r","s",{}],["rem""#, r#"["rem""#);
    assert_eq!(verdicts(&blind), "vvv");
}

#[test]
fn own_updates_count_for_own_reads() {
    let fill = |first: &str, then: &str| {
        format!(
            r#"
            invoke 0 [["add","s",1],["add","s",2]]
            ok     0 [["add","s",1],["add","s",2]]
            invoke 1 [["add","s",1],["r","s",null],["rem","s",2],["rem","s",3],["r","s",null]]
            ok     1 [["add","s",1],["r","s",{first}],["rem","s",2],["rem","s",3],["r","s",{then}]]
            "#
        )
    };
    assert_eq!(verdicts(&fill(r#"{"1":2,"2":1}"#, r#"{"1":2,"3":-1}"#)), "vvv");
    for (first, then) in [
        (r#"{"1":2,"2":1}"#, r#"{"1":2,"2":1}"#),
        (r#"{"1":2,"2":1}"#, r#"{"1":2}"#),
        (r#"{"1":2,"2":1}"#, r#"{"1":1,"3":-1}"#),
        (r#"{"1":1}"#, r#"{"1":2,"3":-1}"#),
    ] {
        assert_eq!(anomaly(&fill(first, then), Level::Serializable).0, "internal", "{first} {then}");
    }
    let before = fill(r#"{"1":1}"#, r#"{"1":1,"2":-1,"3":-1}"#);
    assert_eq!(verdicts(&before), "ivv", "it may have run first");
}

#[test]
fn a_transaction_is_seen_whole() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 [["add","s",1],["add","s",2],["add","t",5],["add","t",5]]
            ok     0 [["add","s",1],["add","s",2],["add","t",5],["add","t",5]]
            invoke 1 [["r","s",null],["r","t",null]]
            ok     1 {seen}
            "#
        )
    };
    assert_eq!(verdicts(&fill(r#"[["r","s",{"1":1,"2":1}],["r","t",{"5":2}]]"#)), "vvv");
    for fractured in [r#"[["r","s",{"1":1}],["r","t",{"5":2}]]"#, r#"[["r","s",{"1":1,"2":1}],["r","t",{}]]"#]
    {
        assert_eq!(
            anomaly(&fill(fractured), Level::Serializable),
            ("fractured-read", vec![0, 2]),
            "{fractured}"
        );
    }
    let half = fill(r#"[["r","s",{"1":1,"2":1}],["r","t",{"5":1}]]"#);
    assert_eq!(anomaly(&half, Level::Serializable), ("G1b", vec![2, 0]));
}

#[test]
fn updates_that_cancel_out_are_seen_in_between_only() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 [["add","s",1],["rem","s",1]]
            ok     0 [["add","s",1],["rem","s",1]]
            invoke 1 [["r","s",null]]
            ok     1 [["r","s",{seen}]]
            "#
        )
    };
    assert_eq!(verdicts(&fill("{}")), "vvv");
    assert_eq!(anomaly(&fill(r#"{"1":1}"#), Level::Serializable), ("G1b", vec![2, 0]));
}

#[test]
fn effects_of_aborted_and_lost_transactions_must_not_be_seen() {
    let fill = |end: &str, seen: &str| {
        format!(
            r#"
            invoke 0 #A [["add","s",1]]
            {end}
            invoke 1 #B [["add","s",1]]
            ok     1 [["add","s",1]]
            invoke 2 #B [["r","s",null]]
            ok     2 [["r","s",{seen}]]
            "#
        )
    };
    let fail = r#"fail 0 [["add","s",1]]"#;
    assert_eq!(verdicts(&fill(fail, r#"{"1":1}"#)), "vvv");
    assert_eq!(anomaly(&fill(fail, r#"{"1":2}"#), Level::Serializable), ("G1a", vec![4, 0]));
    let lost = "ok 0 [[\"add\",\"s\",1]]\nlost 0 [[\"add\",\"s\",1]]";
    assert_eq!(verdicts(&fill(lost, r#"{"1":1}"#)), "vvv");
    assert_eq!(anomaly(&fill(lost, r#"{"1":2}"#), Level::Serializable), ("G1a", vec![5, 0]));
    let at_its_site = fill(lost, r#"{"1":2}"#).replace("#B", "#A");
    assert_eq!(verdicts(&at_its_site), "vvv", "the reader is lost with it");
}

/// Whether it took effect is for the readers to say.
#[test]
fn an_unknown_outcome_may_have_been_seen_or_not() {
    let fill = |first: &str, then: &str| {
        format!(
            r#"
            invoke 0 [["add","s",1],["append","x",1]]
            info   0 [["add","s",1],["append","x",1]]
            invoke 1 [["r","s",null]]
            ok     1 [["r","s",{first}]]
            invoke 1 [["r","s",null],["r","x",null]]
            ok     1 [["r","s",{then}],["r","x",[]]]
            "#
        )
    };
    assert_eq!(verdicts(&fill("{}", "{}")), "vvv");
    assert_eq!(anomaly(&fill("{}", r#"{"1":1}"#), Level::Serializable).0, "fractured-read");
    assert_eq!(anomaly(&fill(r#"{"1":1}"#, "{}"), Level::SessionSerializable).0, "session-violation");
    assert_eq!(verdicts(&fill(r#"{"1":1}"#, "{}")), "iiv");
}

#[test]
fn all_or_none_of_the_updates_of_an_element_are_edges() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 [["add","s",1],["append","x",1]]
            ok     0 [["add","s",1],["append","x",1]]
            invoke 1 [["rem","s",1]]
            ok     1 [["rem","s",1]]
            invoke 2 [["add","s",1]]
            ok     2 [["add","s",1]]
            invoke 3 [["r","s",null],["r","x",null]]
            ok     3 [["r","s",{seen}],["r","x",[]]]
            "#
        )
    };
    // Two additions and no removal; then the removal alone.
    assert_eq!(anomaly(&fill(r#"{"1":2}"#), Level::Serializable), ("fractured-read", vec![0, 6]));
    assert_eq!(verdicts(&fill(r#"{"1":-1}"#)), "ivv");
    assert_eq!(anomaly(&fill(r#"{"1":-2}"#), Level::Serializable).0, "unwritten-read");
}

#[test]
fn which_of_several_updates_was_seen_follows_from_everything_else() {
    let fill = |seen: &str, list: &str| {
        format!(
            r#"
            invoke 0 [["add","s",1],["append","x",1]]
            ok     0 [["add","s",1],["append","x",1]]
            invoke 1 [["add","s",1],["append","x",2]]
            invoke 2 [["r","s",null],["r","x",null]]
            ok     1 [["add","s",1],["append","x",2]]
            ok     2 [["r","s",{seen}],["r","x",{list}]]
            "#
        )
    };
    assert_eq!(verdicts(&fill(r#"{"1":1}"#, "[1]")), "vvv");
    assert_eq!(verdicts(&fill(r#"{"1":2}"#, "[1,2]")), "vvv");
    assert_eq!(verdicts(&fill(r#"{"1":1}"#, "[1,2]")), "iii");
    assert_eq!(verdicts(&fill(r#"{"1":1}"#, "[]")), "iii");
    assert_eq!(verdicts(&fill("{}", "[]")), "ivv");
}

/// At the end, when nothing runs any more, real time lets a reader miss nothing.
#[test]
fn the_sums_at_quiescence_are_exact() {
    let mut history = String::new();
    for process in 0..20 {
        history += &format!("invoke {process} [[\"add\",\"s\",1]]\n");
    }
    for process in 0..20 {
        history += &format!("ok {process} [[\"add\",\"s\",1]]\n");
    }
    let read = |count: i64| {
        format!("{history}invoke 0 [[\"r\",\"s\",null]]\nok 0 [[\"r\",\"s\",{{\"1\":{count}}}]]\n")
    };
    assert_eq!(verdicts(&read(20)), "vvv");
    assert_eq!(verdicts(&read(19)), "ivv");
    assert_eq!(verdicts(&read(21)), "iii");
    assert!(!strict(&read(19)).anomalies.is_empty());
}

#[test]
fn sums_over_uneven_changes_are_found_to_be_impossible() {
    let fill = |count: i64| {
        let updates = ["[\"add\",\"s\",1],[\"add\",\"s\",1]"; 2];
        let mut history = String::new();
        for (process, update) in updates.iter().enumerate() {
            history += &format!("invoke {process} [{update}]\nok {process} [{update}]\n");
        }
        format!("{history}invoke 3 [[\"r\",\"s\",null]]\nok 3 [[\"r\",\"s\",{{\"1\":{count}}}]]\n")
    };
    assert_eq!(verdicts(&fill(2)), "ivv");
    assert_eq!(anomaly(&fill(1), Level::Serializable).0, "G1b");
    assert_eq!(anomaly(&fill(3), Level::Serializable).0, "G1b");
}

/// An element that is the same in two sets is two elements.
#[test]
fn sets_do_not_mix() {
    let history = r#"
        invoke 0 [["add","s",1]]
        ok     0 [["add","s",1]]
        invoke 1 [["rem","t",1]]
        ok     1 [["rem","t",1]]
        invoke 2 [["r","s",null],["r","t",null]]
        ok     2 [["r","s",{"1":1}],["r","t",{"1":-1}]]
    "#;
    assert_eq!(verdicts(history), "vvv");
    assert_eq!(brief(history).key_count(), 2);
}
