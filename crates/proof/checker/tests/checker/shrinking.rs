//! The smallest part of a history that still fails.

use quorate_checker::explain::{Shrunk, shrink};
use quorate_checker::{History, Level, Verdict, check};

use crate::brief;

fn shrunk(history: &History, level: Level) -> Shrunk {
    let report = check(history, level);
    shrink(history, level, &report).expect("it fails")
}

/// The part in JSON lines, without what every line has.
fn lines(shrunk: &Shrunk) -> Vec<String> {
    let mut json = Vec::new();
    shrunk.recorder.write_json(&mut json).unwrap();
    let text = String::from_utf8(json).unwrap();
    let value = |line: &str| line[line.find("\"value\":").unwrap() + 8..line.len() - 1].to_string();
    text.lines().filter(|line| !line.contains("\"invoke\"")).map(value).collect()
}

/// A stale read among many transactions that do nothing wrong.
fn busy(rounds: usize) -> String {
    let mut text = String::new();
    let mut list = String::new();
    for round in 0..rounds {
        let separator = if round > 0 { "," } else { "" };
        text += &format!("invoke 0 @s #A [[\"append\",\"x\",{round}],[\"append\",\"y{round}\",1]]\n");
        text += &format!("invoke 1 [[\"r\",\"x\",null],[\"r\",\"y{round}\",null]]\n");
        text += &format!("ok 1 [[\"r\",\"x\",[{list}]],[\"r\",\"y{round}\",[]]]\n");
        text += &format!("ok 0 [[\"append\",\"x\",{round}],[\"append\",\"y{round}\",1]]\n");
        if round == rounds / 2 {
            text += "invoke 2 [[\"r\",\"y0\",null],[\"r\",\"x\",null]]\n";
            text += &format!("ok 2 [[\"r\",\"y0\",[1]],[\"r\",\"x\",[{list}]]]\n");
        }
        list += &format!("{separator}{round}");
    }
    text += "invoke 2 [[\"r\",\"x\",null]]\n";
    text + &format!("ok 2 [[\"r\",\"x\",[{list}]]]\n")
}

#[test]
fn what_is_not_needed_is_left_out() {
    let history = brief(&busy(30));
    let shrunk = shrunk(&history, Level::StrictSerializable);
    assert_eq!(lines(&shrunk), [r#"[["append","x",15]]"#, r#"[["r","x",[]]]"#]);
    assert!(shrunk.is_minimal);
    assert_eq!(shrunk.report.anomalies[0].kind.name(), "stale-read");
    let found: Vec<u32> = shrunk.names.iter().map(|&(_, there)| there).collect();
    let touched: Vec<u64> = found
        .iter()
        .map(|&invoke| history.txns().iter().find(|txn| txn.invoke == invoke).unwrap().process)
        .collect();
    assert_eq!(touched, [0, 2], "the names lead back to the whole history");
}

#[test]
fn the_part_is_the_same_every_time_and_still_fails() {
    let text = busy(20);
    let parts = [(); 2].map(|()| shrunk(&brief(&text), Level::StrictSerializable));
    assert_eq!(lines(&parts[0]), lines(&parts[1]));
    for part in &parts {
        let mut json = Vec::new();
        part.recorder.write_json(&mut json).unwrap();
        let read = History::read(&json[..]).unwrap();
        assert_eq!(check(&read, Level::StrictSerializable), part.report);
        assert_eq!(part.report.verdict, Verdict::Invalid);
        assert!(String::from_utf8(json).unwrap().contains("\"site\":\"A\",\"session\":\"s\""));
    }
}

#[test]
fn nothing_can_be_left_out_of_the_result() {
    let skew = r#"
        invoke 0 [["r","x",null],["r","z",null],["append","y",1]]
        invoke 1 [["r","y",null],["append","x",2],["append","z",3]]
        ok     0 [["r","x",[]],["r","z",[]],["append","y",1]]
        ok     1 [["r","y",[]],["append","x",2],["append","z",3]]
        invoke 2 [["r","x",null],["r","y",null],["r","z",null]]
        ok     2 [["r","x",[2]],["r","y",[1]],["r","z",[3]]]
    "#;
    let shrunk = shrunk(&brief(skew), Level::Serializable);
    assert_eq!(
        lines(&shrunk),
        [r#"[["r","z",null],["append","y",1]]"#, r#"[["r","y",null],["append","z",3]]"#],
        "x would do as well as z, but not neither"
    );
}

/// Aborted, speculative, open and lost transactions keep what they are.
#[test]
fn outcomes_survive() {
    let aborted = r#"
        invoke 3 [["w","q",9]]
        invoke 0 [["w","x",1],["w","q",1]]
        spec   0 [["w","x",1],["w","q",1]]
        fail   0 [["w","x",1],["w","q",1]]
        invoke 1 [["r","x",null],["r","q",null]]
        ok     1 [["r","x",1],["r","q",null]]
        info   3 [["w","q",9]]
    "#;
    let history = brief(aborted);
    let part = shrunk(&history, Level::Serializable);
    assert_eq!(part.report.anomalies[0].kind.name(), "G1a");
    assert_eq!(lines(&part), [r#"[["w","x",1]]"#, r#"[["w","x",1]]"#, r#"[["r","x",1]]"#]);
    let lost = r#"
        invoke 0 #A [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 1 #B [["r","x",null],["r","y",null]]
        lost   0 [["append","x",1]]
        ok     1 [["r","x",[1]],["r","y",[]]]
    "#;
    let part = shrunk(&brief(lost), Level::Serializable);
    assert_eq!(lines(&part).len(), 3, "{:?}", lines(&part));
}

/// A part never fails where the whole is right.
#[test]
fn what_is_right_is_not_shrunk() {
    let history = brief("invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]");
    let report = check(&history, Level::Serializable);
    assert!(shrink(&history, Level::Serializable, &report).is_none());
}

#[test]
fn values_that_nobody_wrote_stay() {
    let history = brief(
        "invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]\n\
         invoke 1 [[\"r\",\"x\",null]]\nok 1 [[\"r\",\"x\",[1,7]]]",
    );
    assert_eq!(lines(&shrunk(&history, Level::Serializable)), [r#"[["r","x",[7]]]"#]);
}
