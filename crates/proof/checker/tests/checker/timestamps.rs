//! The white-box check: replaying in the order of commit timestamps explains every read.

use quorate_checker::{Report, check_timestamps};

use crate::brief;

fn replay(text: &str) -> Report {
    check_timestamps(&brief(text))
}

/// The only anomaly, in words.
fn complaint(text: &str) -> String {
    let report = replay(text);
    assert_eq!(report.verdict.name(), "invalid", "{report}");
    assert_eq!(report.anomalies.len(), 1, "{report}");
    report.anomalies[0].why.clone()
}

const LISTS: &str = r#"
    invoke 0 [["append","x",1]]
    invoke 1 [["append","x",2],["r","x",null]]
    invoke 2 [["r","x",null]]
    ok     0 ts=20 [["append","x",1]]
    ok     1 ts=10 [["append","x",2],["r","x",[2]]]
    ok     2 ts=READER [["r","x",SEEN]]
"#;

fn lists(reader: &str, seen: &str) -> String {
    LISTS.replace("READER", reader).replace("SEEN", seen)
}

#[test]
fn a_read_sees_exactly_the_appends_below_it() {
    for (reader, seen) in
        [("5", "[]"), ("10", "[]"), ("15", "[2]"), ("20", "[2]"), ("20:1", "[2,1]"), ("30", "[2,1]")]
    {
        assert!(replay(&lists(reader, seen)).is_valid(), "{reader} {seen}");
    }
    assert_eq!(
        complaint(&lists("30", "[2]")),
        "T2, at timestamp 30, read [2] of x, but T0 wrote 1 at the earlier timestamp 20."
    );
    assert_eq!(
        complaint(&lists("15", "[2,1]")),
        "T2, at timestamp 15, read [2, 1] of x, but nothing else was written at an earlier timestamp."
    );
    assert!(complaint(&lists("30", "[1,2]")).contains("T1 wrote 2 at the earlier timestamp 10"));
    assert!(complaint(&lists("30", "[]")).contains("T1 wrote 2 at the earlier timestamp 10"));
}

const REGISTERS: &str = r#"
    invoke 0 [["w","x",1],["w","x",2],["r","x",null]]
    ok     0 ts=10:1 [["w","x",1],["w","x",2],["r","x",2]]
    invoke 1 [["r","x",null],["w","x",3]]
    ok     1 ts=10:2 [["r","x",SEEN],["w","x",3]]
    invoke 2 [["w","x",4]]
    fail   2 [["w","x",4]]
    invoke 3 [["w","x",5]]
    info   3 [["w","x",5]]
    invoke 4 [["r","x",null]]
    ok     4 ts=12 [["r","x",LAST]]
"#;

#[test]
fn a_read_sees_the_last_register_write_below_it() {
    let fill = |seen: &str, last: &str| REGISTERS.replace("SEEN", seen).replace("LAST", last);
    assert!(replay(&fill("2", "3")).is_valid());
    assert!(complaint(&fill("2", "2")).contains("T2 wrote 3 at the earlier timestamp [10, 2]"));
    assert!(complaint(&fill("1", "3")).contains("read 1 of x, but T0 wrote 2"));
    assert!(complaint(&fill("null", "3")).contains("read the initial value of x, but T0 wrote 2"));
    assert!(complaint(&fill("2", "4")).contains("read 4 of x"), "an aborted write is no version");
    let report = replay(&fill("2", "5"));
    assert_eq!(report.reason.as_deref(), Some("T6 committed without a commit timestamp."));
}

#[test]
fn two_writers_at_one_timestamp_have_no_order() {
    let history = r#"
        invoke 0 [["w","x",1]]
        ok     0 ts=10 [["w","x",1]]
        invoke 1 [["w","x",2]]
        ok     1 ts=10 [["w","x",2]]
    "#;
    assert_eq!(complaint(history), "T0 and T2 both wrote x at timestamp 10.");
}

#[test]
fn own_operations_must_agree_as_well() {
    let history = r#"
        invoke 0 [["w","x",1],["r","x",null]]
        ok     0 ts=10 [["w","x",1],["r","x",null]]
    "#;
    assert_eq!(
        complaint(history),
        "T0, at timestamp 10, read the initial value of x, but it wrote 1 itself."
    );
}

#[test]
fn a_missing_timestamp_is_unknown() {
    let report = replay("invoke 0 [[\"w\",\"x\",1]]\nok 0 [[\"w\",\"x\",1]]");
    assert_eq!(report.verdict.name(), "unknown");
    assert!(report.reason.is_some());
}

#[test]
fn counts_are_the_sums_of_the_updates_below() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 [["add","s",1],["add","s",2]]
            ok     0 ts=10 [["add","s",1],["add","s",2]]
            invoke 1 [["rem","s",1],["r","s",null]]
            invoke 2 [["rem","s",2]]
            ok     1 ts=20 [["rem","s",1],["r","s",{seen}]]
            ok     2 ts=30 [["rem","s",2]]
            "#
        )
    };
    assert!(replay(&fill(r#"{"2":1}"#)).is_valid());
    assert_eq!(
        complaint(&fill("{}")),
        "T2, at timestamp 20, read the count 0 for 2 of s, but the updates that it must see sum up to 1."
    );
    assert!(complaint(&fill(r#"{"1":1,"2":1}"#)).contains("read the count 1 for 1"));
    let unknown = fill("{}").replace("ok     2 ts=30", "info   2");
    assert_eq!(replay(&unknown).verdict.name(), "unknown", "it may have taken effect before");
    assert!(replay(&fill(r#"{"2":1}"#).replace("ok     2 ts=30", "info   2")).is_valid());
}

/// Clients cannot tell, but the timestamps are wrong: the black-box levels accept this history.
#[test]
fn it_finds_what_clients_cannot_see() {
    let history = r#"
        invoke 0 [["append","x",1]]
        invoke 1 [["r","x",null]]
        ok     0 ts=10 [["append","x",1]]
        ok     1 ts=20 [["r","x",[]]]
    "#;
    assert_eq!(crate::verdicts(history), "vvv");
    assert!(complaint(history).contains("T0 wrote 1 at the earlier timestamp 10"));
}
