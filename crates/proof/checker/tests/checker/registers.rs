//! Registers: read-modify-write chains, blind writes whose order is searched, and orders by commit timestamp.

use quorate_checker::Level;

use crate::{anomaly, strict, verdicts};

#[test]
fn a_chain_of_read_modify_writes() {
    let history = r#"
        invoke 0 [["r","x",null],["w","x",1]]
        ok     0 [["r","x",null],["w","x",1]]
        invoke 1 [["r","x",null],["w","x",2]]
        ok     1 [["r","x",1],["w","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",SEEN]]
    "#;
    assert_eq!(verdicts(&history.replace("SEEN", "2")), "vvv");
    assert_eq!(verdicts(&history.replace("SEEN", "1")), "ivv");
    assert_eq!(verdicts(&history.replace("SEEN", "null")), "ivv");
    assert_eq!(verdicts(&history.replace("SEEN", "3")), "iii");
    let stale = history.replace("SEEN", "1");
    assert_eq!(anomaly(&stale, Level::StrictSerializable), ("stale-read", vec![2, 4]));
}

/// The chains of a lost update hang from one version.
#[test]
fn two_successors_of_one_version_are_a_lost_update() {
    let history = r#"
        invoke 0 [["w","x",1]]
        ok     0 [["w","x",1]]
        invoke 1 [["r","x",null],["w","x",2]]
        invoke 2 [["r","x",null],["w","x",3]]
        ok     1 [["r","x",1],["w","x",2]]
        ok     2 [["r","x",1],["w","x",3]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, Level::Serializable), ("lost-update", vec![2, 3]));
}

#[test]
fn a_read_of_the_initial_value_precedes_every_write() {
    let history = r#"
        invoke 0 [["w","x",1]]
        ok     0 [["w","x",1]]
        invoke 1 [["w","x",2]]
        ok     1 [["w","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",null]]
    "#;
    assert_eq!(verdicts(history), "ivv");
}

#[test]
fn own_reads_and_writes_of_a_register_agree() {
    let history = r#"
        invoke 1 [["w","x",7]]
        ok     1 [["w","x",7]]
        invoke 0 [["r","x",null],["r","x",null],["w","x",1],["r","x",null]]
        ok     0 [["r","x",7],["r","x",AGAIN],["w","x",1],["r","x",OWN]]
    "#;
    let fill = |again: &str, own: &str| history.replace("AGAIN", again).replace("OWN", own);
    assert_eq!(verdicts(&fill("7", "1")), "vvv");
    for (again, own) in [("null", "1"), ("7", "7"), ("7", "null")] {
        assert_eq!(verdicts(&fill(again, own)), "iii", "{again} {own}");
        assert_eq!(anomaly(&fill(again, own), Level::Serializable), ("internal", vec![2]));
    }
}

/// Blind writes that overlap: readers decide the order, and the guess by completion is wrong here.
#[test]
fn the_order_of_blind_writes_is_searched() {
    let history = r#"
        invoke 0 [["w","x",1],["w","y",1]]
        invoke 1 [["w","x",2]]
        ok     0 [["w","x",1],["w","y",1]]
        ok     1 [["w","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",SEEN]]
    "#;
    assert_eq!(verdicts(&history.replace("SEEN", "1")), "vvv");
    assert_eq!(verdicts(&history.replace("SEEN", "2")), "vvv");
    assert_eq!(verdicts(&history.replace("SEEN", "null")), "ivv");
}

#[test]
fn no_order_of_blind_writes_explains_readers_that_disagree() {
    let history = r#"
        invoke 0 [["w","x",1]]
        invoke 1 [["w","x",2]]
        ok     0 [["w","x",1]]
        ok     1 [["w","x",2]]
        invoke 2 @a [["r","x",null]]
        ok     2 @a [["r","x",1]]
        invoke 3 @a [["r","x",null]]
        ok     3 @a [["r","x",2]]
        invoke 2 @b [["r","x",null]]
        ok     2 @b [["r","x",1]]
    "#;
    assert_eq!(verdicts(history), "ivv");
    let report = strict(history);
    let why = &report.anomalies[0].why;
    assert!(why.starts_with("No order of the writes to x fits. One way round: "), "{why}");
    assert!(why.contains("The other way round: "), "{why}");
}

/// Neither pair is settled by what is known, only together: the search must decide and propagate.
#[test]
fn blind_writes_of_two_keys_are_ordered_together() {
    let history = r#"
        invoke 0 @a [["w","x",1],["w","y",1]]
        invoke 1 @b [["w","x",2],["w","y",2]]
        ok     0 @a [["w","x",1],["w","y",1]]
        ok     1 @b [["w","x",2],["w","y",2]]
        invoke 2 @c [["r","x",null],["r","y",null]]
        ok     2 @c [["r","x",1],["r","y",SEEN]]
    "#;
    assert_eq!(verdicts(&history.replace("SEEN", "1")), "vvv");
    assert_eq!(verdicts(&history.replace("SEEN", "2")), "iii");
}

#[test]
fn commit_timestamps_order_blind_writes() {
    let history = r#"
        invoke 0 [["w","x",1]]
        invoke 1 [["w","x",2]]
        ok     0 ts=FIRST:1 [["w","x",1]]
        ok     1 ts=20:2 [["w","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 ts=40:1 [["r","x",2]]
        invoke 3 [["r","x",null]]
        ok     3 ts=50:1 [["r","x",2]]
    "#;
    assert_eq!(verdicts(&history.replace("FIRST", "10")), "vvv");
    assert_eq!(verdicts(&history.replace("FIRST", "30")), "ivv");
    assert_eq!(
        verdicts(&history.replace("ts=FIRST:1 ", "")),
        "vvv",
        "without all timestamps the order is searched"
    );
}

/// More pairs than the search tries, and a contradiction that only the search could find.
#[test]
fn a_search_out_of_bounds_is_unknown_never_valid() {
    let mut history = String::new();
    let writers = 400;
    for value in 0..writers {
        history += &format!("invoke {value} [[\"w\",\"x\",{value}]]\n");
    }
    for value in 0..writers {
        history += &format!("ok {value} [[\"w\",\"x\",{value}]]\n");
    }
    assert_eq!(verdicts(&history), "vvv", "a guess settles it without any search");
    for (process, seen) in [(500, 1), (501, 2), (502, 1)] {
        history += &format!("invoke {process} [[\"r\",\"x\",null]]\nok {process} [[\"r\",\"x\",{seen}]]\n");
    }
    assert_eq!(verdicts(&history), "uvv");
    assert!(strict(&history).reason.is_some_and(|reason| reason.contains("400 blind writes")));
}

/// All transactions overlap, and the guess `x=1` before `x=2` rules out both orders of the writes to `y`.
const ENTANGLED: [&str; 8] = [
    r#"[["w","x",1],["w","p",1]]"#,
    r#"[["w","y",1],["w","c",1]]"#,
    r#"[["w","y",2],["w","d",1]]"#,
    r#"[["r","x",1],["r","c",1],["r","d",1]]"#,
    r#"[["w","x",2],["w","q",1]]"#,
    r#"[["r","y",1],["r","q",1]]"#,
    r#"[["r","y",2],["r","q",1]]"#,
    r#"[["r","x",2],["r","d",1]]"#,
];

fn overlapping(transactions: &[&str]) -> String {
    let mut history = String::new();
    for (process, ops) in transactions.iter().enumerate() {
        let mut invoked = ops.to_string();
        for key in ["x", "y", "c", "d", "p", "q"] {
            for value in [1, 2] {
                invoked =
                    invoked.replace(&format!("\"r\",\"{key}\",{value}"), &format!("\"r\",\"{key}\",null"));
            }
        }
        history += &format!("invoke {process} {invoked}\n");
    }
    for (process, ops) in transactions.iter().enumerate() {
        history += &format!("ok {process} {ops}\n");
    }
    history
}

#[test]
fn the_search_takes_a_wrong_choice_back() {
    assert_eq!(verdicts(&overlapping(&ENTANGLED)), "vvv");
}

/// With the mirror image added, the other order of the writes to `x` rules out both orders of `y` as well.
#[test]
fn the_search_ends_when_all_choices_are_wrong() {
    let mut transactions = ENTANGLED;
    transactions[5] = r#"[["r","y",1],["r","q",1],["r","p",1]]"#;
    transactions[6] = r#"[["r","y",2],["r","q",1],["r","p",1]]"#;
    transactions[7] = r#"[["r","x",2],["r","c",1],["r","d",1]]"#;
    assert_eq!(verdicts(&overlapping(&transactions)), "iii");
}

/// Nobody reads, so only the timestamps say that the writes took effect against real time.
#[test]
fn timestamps_against_real_time_need_no_reader() {
    let history = r#"
        invoke 0 [["w","x",1]]
        ok     0 ts=20 [["w","x",1]]
        invoke 1 [["w","x",3]]
        fail   1 [["w","x",3]]
        invoke 1 [["w","x",2]]
        ok     1 ts=10 [["w","x",2]]
    "#;
    assert_eq!(verdicts(history), "ivv");
}

/// Too many pairs to search, but the order in real time fits: of two concurrent writes the one that completes
/// first is the one that later readers still see.
#[test]
fn many_blind_writes_are_ordered_by_where_they_stand_in_real_time() {
    let mut history = String::new();
    for round in 0..300 {
        let (seen, overwritten) = (2 * round, 2 * round + 1);
        history += &format!(
            "invoke 0 [[\"w\",\"x\",{seen}]]\ninvoke 1 [[\"w\",\"x\",{overwritten}]]\n\
             ok 0 [[\"w\",\"x\",{seen}]]\nok 1 [[\"w\",\"x\",{overwritten}]]\n\
             invoke 2 [[\"r\",\"x\",null]]\nok 2 [[\"r\",\"x\",{seen}]]\n"
        );
    }
    assert_eq!(verdicts(&history), "vvv");
}

/// A value that its writer overwrote itself is no version, so nothing comes between.
#[test]
fn only_the_last_write_of_a_transaction_installs_a_version() {
    let history = r#"
        invoke 0 [["w","x",1],["w","x",2]]
        ok     0 [["w","x",1],["w","x",2]]
        invoke 1 [["r","x",null],["w","x",3]]
        ok     1 [["r","x",2],["w","x",3]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",3]]
    "#;
    assert_eq!(verdicts(history), "vvv");
}
