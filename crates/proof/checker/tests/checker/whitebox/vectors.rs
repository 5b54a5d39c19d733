//! The replay per site for parallel snapshot isolation.

use quorate_checker::{Level, Report, check_vectors};

use super::{complaint, doubt};
use crate::brief;

fn replay(text: &str) -> Report {
    check_vectors(&brief(text), Level::Psi)
}

/// Two sites that have not heard of each other, and readers at both: a long fork.
const FORK: &str = r#"
    invoke 0 #A [["append","x",1]]
    invoke 1 #B [["append","y",2]]
    ok     0 vts=A:0 site_seq=1 [["append","x",1]]
    ok     1 vts=B:0 site_seq=1 [["append","y",2]]
    invoke 2 #A [["r","x",null],["r","y",null]]
    invoke 3 #B [["r","x",null],["r","y",null]]
    ok     2 vts=A:1 [["r","x",[1]],["r","y",[]]]
    ok     3 vts=B:1 [["r","x",[]],["r","y",[2]]]
"#;

#[test]
fn a_long_fork_is_parallel() {
    for level in [Level::Psi, Level::SessionPsi, Level::WalterPsi] {
        let report = check_vectors(&brief(FORK), level);
        assert!(report.is_valid(), "{report}");
    }
    assert_eq!(
        complaint(&replay(&FORK.replace("vts=A:1 ", "vts=A:1,B:1 "))),
        "T4, whose snapshot is {A: 1, B: 1}, read [] of y, but T1 wrote 2 as commit 1 of site B."
    );
    assert_eq!(
        complaint(&replay(&FORK.replace("ok     2 vts=A:1", "ok     2 vts=A:0"))),
        "T4, whose snapshot is {}, read [1] of x, but the snapshot holds nothing else."
    );
}

#[test]
fn a_snapshot_holds_what_its_members_saw() {
    let fill = |seen: &str, vts: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            ok     0 vts=A:0 site_seq=1 [["append","x",1]]
            invoke 1 #B [["append","y",2]]
            ok     1 vts=A:1 site_seq=1 [["append","y",2]]
            invoke 2 #B [["append","z",3]]
            ok     2 vts=B:1,A:1 site_seq=2 [["append","z",3]]
            invoke 3 #C [["r","x",null],["r","z",null]]
            ok     3 vts={vts} [["r","x",{seen}],["r","z",[3]]]
            "#
        )
    };
    assert!(replay(&fill("[1]", "A:1,B:2")).is_valid());
    assert_eq!(
        complaint(&replay(&fill("[]", "B:2"))),
        "T6, whose snapshot is {B: 2}, sees T2, whose snapshot is {A: 1}, but not all that it saw."
    );
}

#[test]
fn of_two_writers_of_a_key_one_saw_the_other() {
    let fill = |vts: &str, write: &str| {
        format!(
            r#"
            invoke 0 #A [["{write}","x",1]]
            ok     0 vts=A:0 site_seq=1 [["{write}","x",1]]
            invoke 1 #B [["{write}","x",2]]
            ok     1 vts={vts} site_seq=1 [["{write}","x",2]]
            "#
        )
    };
    for write in ["append", "w"] {
        assert!(replay(&fill("A:1", write)).is_valid());
        assert_eq!(
            complaint(&replay(&fill("A:0", write))),
            "T0 and T2 both wrote x, and neither is in the other's snapshot."
        );
    }
    assert!(replay(&fill("A:0", "add")).is_valid(), "updates never conflict");
}

/// The later one stands at the site whose name comes first, with the lower number.
#[test]
fn versions_follow_causality_not_names() {
    let text = r#"
        invoke 0 #B [["append","x",1]]
        ok     0 vts=A:0 site_seq=7 [["append","x",1]]
        invoke 1 #A [["append","x",2]]
        ok     1 vts=B:7 site_seq=1 [["append","x",2]]
        invoke 2 #A [["r","x",null]]
        ok     2 vts=A:1,B:7 [["r","x",[1,2]]]
        invoke 3 #B [["r","x",null]]
        ok     3 vts=B:7 [["r","x",[1]]]
    "#;
    assert!(replay(text).is_valid());
    assert!(complaint(&replay(&text.replace("[1,2]", "[2,1]"))).contains("T0 wrote 1 as commit 7 of site B"));
}

#[test]
fn a_place_belongs_to_one_commit_which_does_not_see_itself() {
    let fill = |seq: &str, vts: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            ok     0 vts=A:0 site_seq=1 [["append","x",1]]
            invoke 1 #A [["append","y",2]]
            ok     1 vts={vts} site_seq={seq} [["append","y",2]]
            "#
        )
    };
    assert!(replay(&fill("2", "A:1")).is_valid());
    assert!(replay(&fill("5", "A:1")).is_valid(), "what is between may be of unknown outcome");
    assert_eq!(complaint(&replay(&fill("1", "A:0"))), "T0 and T2 are both commit 1 of site A.");
    assert_eq!(
        complaint(&replay(&fill("2", "A:2"))),
        "T2, whose snapshot is {A: 2}, is itself commit 2 of site A."
    );
}

const SESSION: &str = r#"
    invoke 0 #A @u [["append","x",1]]
    ok     0 vts=A:0 site_seq=1 [["append","x",1]]
    invoke 1 #B @SESSION [["r","x",null]]
    ok     1 vts=VTS [["r","x",SEEN]]
"#;

#[test]
fn a_session_keeps_what_it_did() {
    let judge = |session: &str, vts: &str, seen: &str, level| {
        let text = SESSION.replace("SESSION", session).replace("VTS", vts).replace("SEEN", seen);
        check_vectors(&brief(&text), level)
    };
    assert!(judge("u", "A:1", "[1]", Level::SessionPsi).is_valid());
    assert!(judge("v", "A:0", "[]", Level::SessionPsi).is_valid());
    assert!(judge("u", "A:0", "[]", Level::Psi).is_valid());
    assert_eq!(
        complaint(&judge("u", "A:0", "[]", Level::SessionPsi)),
        "In session u, T0, whose snapshot is {}, completed before T2 was invoked, whose snapshot is {}, which does not \
         hold it."
    );
    assert!(judge("u", "A:0", "[]", Level::WalterPsi).is_valid(), "the session changed its site");
}

/// A transaction that a reader saw is also done for the reader's session.
#[test]
fn a_session_keeps_what_it_saw() {
    let text = r#"
        invoke 0 #A [["append","x",1]]
        ok     0 vts=A:0 site_seq=1 [["append","x",1]]
        invoke 1 #B @u [["r","x",null]]
        ok     1 vts=A:1 [["r","x",[1]]]
        invoke 2 #C @u [["r","x",null]]
        ok     2 vts=A:0 [["r","x",[]]]
    "#;
    assert!(check_vectors(&brief(text), Level::Psi).is_valid());
    assert!(complaint(&check_vectors(&brief(text), Level::SessionPsi)).contains("In session u, T2"));
}

#[test]
fn a_site_shows_what_completed_there() {
    let text =
        SESSION.replace("#B", "#A").replace("SESSION", "v").replace("SEEN", "[]").replace("VTS", "A:0");
    assert!(check_vectors(&brief(&text), Level::SessionPsi).is_valid());
    let report = check_vectors(&brief(&text), Level::WalterPsi);
    assert!(
        complaint(&report).starts_with("In site A, T0, whose snapshot is {}, completed before T2"),
        "{report}"
    );
    let lines: Vec<&str> = text.trim().lines().collect();
    let overlapping = [lines[0], lines[2], lines[1], lines[3]].join("\n");
    assert!(check_vectors(&brief(&overlapping), Level::WalterPsi).is_valid());
}

#[test]
fn the_snapshots_of_a_site_form_a_chain() {
    let fill = |site: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            invoke 1 #B [["append","y",2]]
            ok     0 vts=A:0 site_seq=1 [["append","x",1]]
            ok     1 vts=B:0 site_seq=1 [["append","y",2]]
            invoke 2 #C [["r","x",null]]
            invoke 3 #{site} [["r","y",null]]
            ok     2 vts=A:1 [["r","x",[1]]]
            ok     3 vts=B:1 [["r","y",[2]]]
            "#
        )
    };
    let judge = |site: &str, level| check_vectors(&brief(&fill(site)), level);
    assert!(judge("D", Level::WalterPsi).is_valid());
    assert!(judge("C", Level::SessionPsi).is_valid());
    assert_eq!(
        complaint(&judge("C", Level::WalterPsi)),
        "T4, whose snapshot is {A: 1}, and T5, whose snapshot is {B: 1}, ran at one site, and neither snapshot holds \
         the other."
    );
}

#[test]
fn nobody_sees_what_began_after_he_completed() {
    let text = r#"
        invoke 0 #A [["r","x",null]]
        ok     0 vts=B:2 [["r","x",[]]]
        invoke 1 #B [["append","y",1]]
        invoke 2 #B [["append","z",1]]
        ok     1 vts=A:0 site_seq=1 [["append","y",1]]
        ok     2 vts=B:1 site_seq=2 [["append","z",1]]
    "#;
    assert!(check_vectors(&brief(text), Level::SessionPsi).is_valid());
    let report = check_vectors(&brief(text), Level::WalterPsi);
    assert_eq!(
        complaint(&report),
        "T0, whose snapshot is {B: 2}, sees T3, which was invoked after it completed."
    );
    let unknown = text.replace("ok     0 vts=B:2 [[\"r\",\"x\",[]]]", "info 0 [[\"r\",\"x\",null]]");
    assert!(check_vectors(&brief(&unknown), Level::WalterPsi).is_valid());
}

#[test]
fn counts_are_sums_over_the_vector() {
    let fill = |vts: &str, count: &str| {
        format!(
            r#"
            invoke 0 #A [["add","s",1]]
            ok     0 vts=A:0 site_seq=1 [["add","s",1]]
            invoke 1 #B [["add","s",1]]
            ok     1 vts=B:0 site_seq=1 [["add","s",1]]
            invoke 2 #C [["r","s",null]]
            ok     2 vts={vts} [["r","s",{count}]]
            "#
        )
    };
    for (vts, count) in [("A:0", "{}"), ("A:1", "{\"1\":1}"), ("B:1", "{\"1\":1}"), ("A:1,B:1", "{\"1\":2}")]
    {
        assert!(replay(&fill(vts, count)).is_valid(), "{vts}");
    }
    assert!(complaint(&replay(&fill("A:1,B:1", "{\"1\":1}"))).contains("sum up to 2"));
}

/// The client of a transaction has not heard how it ended, and the servers have placed it.
#[test]
fn what_has_a_place_has_committed() {
    let fill = |facts: &str, count: &str| {
        format!(
            r#"
            invoke 0 #A [["add","s",1]]
            info   0 {facts} [["add","s",1]]
            invoke 1 #A [["r","s",null]]
            ok     1 vts=A:1 [["r","s",{count}]]
            "#
        )
    };
    assert!(replay(&fill("vts=A:0 site_seq=1", "{\"1\":1}")).is_valid());
    assert!(complaint(&replay(&fill("vts=A:0 site_seq=1", "{}"))).contains("sum up to 1"));
    assert!(doubt(&replay(&fill("", "{\"1\":1}"))).starts_with("A transaction of unknown outcome"));
}

#[test]
fn missing_facts_are_unknown() {
    assert_eq!(doubt(&replay(&FORK.replace("vts=A:1 ", ""))), "T4 committed without a snapshot vector.");
    let unplaced = "T0 committed without a place in the sequence of its site.";
    assert_eq!(doubt(&replay(&FORK.replacen(" site_seq=1", "", 1))), unplaced);
    assert_eq!(doubt(&replay(&FORK.replacen("#A", "", 1))), unplaced);
    let readers_without = FORK.replace("invoke 2 #A", "invoke 2");
    assert!(replay(&readers_without).is_valid());
    let walter = check_vectors(&brief(&readers_without), Level::WalterPsi);
    assert_eq!(doubt(&walter), "T4 committed without a site.");
    assert!(doubt(&check_vectors(&brief(FORK), Level::Si)).contains("si"));
}
