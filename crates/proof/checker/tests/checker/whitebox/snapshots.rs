//! The timestamp sweep for snapshot isolation.

use quorate_checker::{Level, Report, check, check_snapshots};

use super::{complaint, doubt};
use crate::brief;

fn sweep(text: &str) -> Report {
    check_snapshots(&brief(text), Level::Si)
}

const LISTS: &str = r#"
    invoke 0 [["append","x",1]]
    ok     0 rs=0 ts=10 [["append","x",1]]
    invoke 1 [["r","x",null],["append","x",2],["r","x",null]]
    ok     1 rs=10 ts=20 [["r","x",[1]],["append","x",2],["r","x",[1,2]]]
    invoke 2 [["r","x",null]]
    ok     2 rs=RS [["r","x",SEEN]]
"#;

fn lists(rs: &str, seen: &str) -> Report {
    sweep(&LISTS.replace("RS", rs).replace("SEEN", seen))
}

#[test]
fn a_snapshot_holds_what_committed_at_or_below_it() {
    for (rs, seen) in
        [("0", "[]"), ("9", "[]"), ("10", "[1]"), ("19", "[1]"), ("20", "[1,2]"), ("20:1", "[1,2]")]
    {
        assert!(lists(rs, seen).is_valid(), "{rs} {seen}");
    }
    assert_eq!(
        complaint(&lists("20", "[1]")),
        "T4, whose snapshot is 20, read [1] of x, but T2 wrote 2 and committed at 20."
    );
    assert_eq!(
        complaint(&lists("15", "[1,2]")),
        "T4, whose snapshot is 15, read [1, 2] of x, but the snapshot holds nothing else."
    );
}

#[test]
fn the_final_commit_counts_where_there_is_one() {
    let late = LISTS.replace("ts=20", "ts=20 fc=40").replace("SEEN", "[1]").replace("RS", "30");
    assert!(sweep(&late).is_valid());
    assert!(complaint(&sweep(&late.replace("rs=30", "rs=40"))).contains("committed at 40"));
}

#[test]
fn writers_of_a_key_must_not_overlap() {
    let fill = |rs: &str| {
        format!(
            r#"
            invoke 0 [["w","x",1]]
            invoke 1 [["w","x",2]]
            ok     0 rs=0 ts=10 [["w","x",1]]
            ok     1 rs={rs} ts=20 [["w","x",2]]
            "#
        )
    };
    assert!(sweep(&fill("10")).is_valid());
    assert_eq!(
        complaint(&sweep(&fill("9"))),
        "T0 wrote x and committed at 10; T1, whose snapshot is 9, wrote it too, so the two overlap."
    );
    assert!(sweep(&fill("9").replace("\"w\",\"x\"", "\"add\",\"x\"")).is_valid(), "updates never conflict");
    assert!(sweep(&fill("9").replace("\"x\",2", "\"y\",2")).is_valid(), "two keys");
    assert!(complaint(&sweep(&fill("9").replace("ts=20", "ts=10"))).contains("overlap"), "a tie is no order");
}

#[test]
fn a_writer_commits_after_its_snapshot() {
    let fill = |ts: &str| format!("invoke 0 [[\"w\",\"x\",1]]\nok 0 rs=5 ts={ts} [[\"w\",\"x\",1]]");
    assert!(sweep(&fill("6")).is_valid());
    let own = "T0, whose snapshot is 5, wrote and committed at 5, which is not later.";
    assert_eq!(complaint(&sweep(&fill("5"))), own);
    let read_only = "invoke 0 [[\"r\",\"x\",null]]\nok 0 rs=5 ts=5 [[\"r\",\"x\",null]]";
    assert!(sweep(read_only).is_valid());
}

#[test]
fn counts_and_registers() {
    let fill = |count: &str, value: &str| {
        format!(
            r#"
            invoke 0 [["add","s",7],["w","r",1]]
            ok     0 rs=0 ts=10 [["add","s",7],["w","r",1]]
            invoke 1 [["add","s",7],["r","s",null],["r","r",null]]
            ok     1 rs=10 ts=20 [["add","s",7],["r","s",{{"7":{count}}}],["r","r",{value}]]
            "#
        )
    };
    assert!(sweep(&fill("2", "1")).is_valid());
    assert_eq!(
        complaint(&sweep(&fill("1", "1"))),
        "T2, whose snapshot is 10, read the count 1 for 7 of s, but the updates that it must see sum up to 2."
    );
    assert!(complaint(&sweep(&fill("2", "null"))).contains("read the initial value of r, but T0 wrote 1"));
}

const ORDER: &str = r#"
    invoke 0 @u [["append","x",1]]
    ok     0 rs=5 ts=10 [["append","x",1]]
    invoke 1 @v [["r","y",null]]
    ok     1 rs=READER [["r","y",[]]]
    invoke 2 @SESSION [["r","x",null]]
    ok     2 rs=7 [["r","x",[]]]
"#;

#[test]
fn session_and_real_time_bound_snapshots_from_below() {
    let text = |session: &str, reader: &str| ORDER.replace("SESSION", session).replace("READER", reader);
    let judge = |session: &str, reader: &str, level| check_snapshots(&brief(&text(session, reader)), level);
    for session in ["u", "v"] {
        assert!(judge(session, "7", Level::Si).is_valid());
    }
    // Beside the reader's own time, it is the one after the first transaction that counts.
    assert!(judge("v", "7", Level::SessionSi).is_valid());
    assert!(judge("w", "12", Level::SessionSi).is_valid());
    assert_eq!(
        complaint(&judge("u", "10", Level::SessionSi)),
        "T0 completed, and had reached 10, before T4 was invoked, whose snapshot is 7."
    );
    assert!(complaint(&judge("v", "8", Level::SessionSi)).contains("T2 completed, and had reached 8"));
    assert!(complaint(&judge("w", "10", Level::StrongSi)).contains("T0 completed, and had reached 10"));
    // The black box agrees.
    assert!(!check(&brief(&text("u", "10")), Level::SessionSi).is_valid());
}

#[test]
fn a_reader_bounds_later_snapshots_by_its_own() {
    let report =
        check_snapshots(&brief(&ORDER.replace("SESSION", "w").replace("READER", "12")), Level::StrongSi);
    assert!(complaint(&report).contains("T2 completed, and had reached 12"), "{report}");
}

#[test]
fn missing_facts_are_unknown() {
    let text = LISTS.replace("RS", "20").replace("SEEN", "[1,2]");
    assert_eq!(doubt(&sweep(&text.replace("rs=10 ", ""))), "T2 committed without a snapshot timestamp.");
    assert_eq!(doubt(&sweep(&text.replace(" ts=20", ""))), "T2 committed without a commit timestamp.");
    assert!(sweep(&text.replace("ok     2 rs=20", "fail   2")).is_valid());
    assert!(doubt(&check_snapshots(&brief(&text), Level::Psi)).contains("psi"));
}

#[test]
fn effects_of_aborted_transactions_are_nowhere() {
    let text = LISTS.replace("RS", "20").replace("SEEN", "[1,2]").replace("ok     1", "fail   1");
    assert!(complaint(&sweep(&text)).contains("but the snapshot holds nothing else"));
}
