//! A transaction of unknown outcome may have happened at any later time, or never.

use quorate_checker::Level;

use crate::{anomaly, verdicts};

/// Both ways of not knowing: an `info` line, and no line at all.
fn both(history: &str) -> [String; 2] {
    let open: Vec<&str> = history.lines().filter(|line| !line.trim_start().starts_with("info")).collect();
    [history.to_string(), open.join("\n")]
}

#[test]
fn unobserved_it_constrains_nobody() {
    let history = r#"
        invoke 0 [["r","x",null],["append","x",1]]
        info   0 [["r","x",null],["append","x",1]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[]]]
    "#;
    for history in both(history) {
        assert_eq!(verdicts(&history), "vvv");
        assert_eq!(verdicts(&history.replace("append", "w").replace("[]", "null")), "vvv");
    }
}

#[test]
fn observed_it_committed() {
    let history = r#"
        invoke 0 [["append","x",1],["append","y",1]]
        info   0 [["append","x",1],["append","y",1]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[1]]]
        invoke 2 [["r","y",null]]
        ok     2 [["r","y",Y]]
    "#;
    for history in both(history) {
        assert_eq!(verdicts(&history.replace('Y', "[1]")), "vvv");
        let torn = history.replace('Y', "[]");
        assert_eq!(
            verdicts(&torn),
            "ivv",
            "its other write has happened too, before both reads in real time"
        );
    }
}

#[test]
fn it_may_take_effect_long_after_its_invocation() {
    let history = r#"
        invoke 0 [["append","x",1]]
        info   0 [["append","x",1]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[]]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[1]]]
    "#;
    for history in both(history) {
        assert_eq!(verdicts(&history), "vvv");
    }
}

#[test]
fn it_takes_no_effect_before_its_invocation() {
    let history = r#"
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[1]]]
        invoke 0 [["append","x",1]]
        info   0 [["append","x",1]]
    "#;
    for history in both(history) {
        assert_eq!(verdicts(&history), "ivv");
        assert_eq!(anomaly(&history, Level::StrictSerializable), ("future-read", vec![0, 2]));
    }
}

#[test]
fn it_comes_after_what_its_session_had_completed() {
    let history = r#"
        invoke 0 @alice [["append","y",1]]
        ok     0 @alice [["append","y",1]]
        invoke 0 @alice [["append","x",1]]
        info   0 @alice [["append","x",1]]
        invoke 1 @bob   [["r","x",null],["r","y",null]]
        ok     1 @bob   [["r","x",[1]],["r","y",[]]]
    "#;
    for history in both(history) {
        assert_eq!(verdicts(&history), "iiv");
    }
}

/// The same session goes on under another process; the unknown transaction is not before it.
#[test]
fn its_session_may_overtake_it() {
    let history = r#"
        invoke 0 @alice [["append","x",1]]
        info   0 @alice [["append","x",1]]
        invoke 1 @alice [["r","x",null]]
        ok     1 @alice [["r","x",[]]]
        invoke 2 @bob   [["r","x",null]]
        ok     2 @bob   [["r","x",[1]]]
    "#;
    for history in both(history) {
        assert_eq!(verdicts(&history), "vvv");
    }
}

#[test]
fn its_reads_say_nothing() {
    let history = r#"
        invoke 0 [["r","y",null],["append","x",1]]
        info   0 [["r","y",[9]],["append","x",1]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "vvv");
}

#[test]
fn its_intermediate_values_are_still_intermediate() {
    let history = r#"
        invoke 0 [["append","x",1],["append","x",2]]
        info   0 [["append","x",1],["append","x",2]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[1]]]
    "#;
    for history in both(history) {
        assert_eq!(verdicts(&history), "iii");
        assert_eq!(anomaly(&history, Level::Serializable), ("G1b", vec![history_index(&history), 0]));
    }
}

/// The index of the invocation by process 1.
fn history_index(history: &str) -> u32 {
    let lines = history.lines().filter(|line| !line.trim().is_empty());
    lines.take_while(|line| !line.contains("invoke 1")).count() as u32
}

/// A transaction that only an aborted one read is not observed.
#[test]
fn an_aborted_reader_does_not_make_it_committed() {
    let history = r#"
        invoke 0 [["append","x",1],["append","y",1]]
        info   0 [["append","x",1],["append","y",1]]
        invoke 1 [["r","x",null]]
        fail   1 ! [["r","x",[1]]]
        invoke 2 [["r","x",null],["r","y",null]]
        ok     2 [["r","x",[]],["r","y",[]]]
    "#;
    assert_eq!(verdicts(history), "vvv");
}
