//! Read snapshot, local commit and final commit for speculative snapshot isolation.

use quorate_checker::{Report, check_speculation};

use super::{complaint, doubt};
use crate::brief;

fn judge(text: &str) -> Report {
    check_speculation(&brief(text))
}

/// The kind of the only anomaly.
fn kind(text: &str) -> &'static str {
    let report = judge(text);
    assert_eq!(report.anomalies.len(), 1, "{report}");
    report.anomalies[0].kind.name()
}

/// A final commit of site B, a local one of site A that aborts later, and a view.
const VIEW: &str = r#"
    invoke 0 #B [["append","x",1]]
    ok     0 rs=0 lc=4 fc=5 [["append","x",1]]
    invoke 1 #A [["append","x",2],["append","y",3]]
    spec   1 rs=6 lc=7 [["append","x",2],["append","y",3]]
    invoke 2 #SITE [["r","x",null],["r","y",null]]
    fail   2 ! rs=RS [["r","x",X],["r","y",Y]]
    fail   1 [["append","x",2],["append","y",3]]
"#;

fn view(site: &str, rs: &str, x: &str, y: &str) -> String {
    let text = VIEW.replace("SITE", site).replace("RS", rs);
    text.replace("null],[\"r\",\"y\"", "NULL],[\"r\",\"y\"")
        .replace('X', x)
        .replace('Y', y)
        .replace("NULL", "null")
}

#[test]
fn a_view_holds_final_commits_and_local_ones_of_its_site() {
    for (site, rs, x, y) in [
        ("A", "8", "[1,2]", "[3]"),
        ("A", "7", "[1,2]", "[3]"),
        ("A", "8", "[1]", "[]"),
        ("A", "6", "[1]", "[]"),
        ("B", "8", "[1]", "[]"),
        ("C", "4", "[]", "[]"),
    ] {
        let report = judge(&view(site, rs, x, y));
        assert!(report.is_valid(), "{site} {rs} {x} {y}: {report}");
    }
    for (site, rs, x, y) in [("B", "8", "[1,2]", "[3]"), ("A", "6", "[1,2]", "[3]")] {
        assert!(!judge(&view(site, rs, x, y)).is_valid(), "{site} {rs}");
    }
    for (site, rs, x, y) in [
        ("A", "8", "[2]", "[3]"),
        ("A", "8", "[2,1]", "[3]"),
        ("A", "8", "[]", "[]"),
        ("C", "4", "[1]", "[]"),
        ("A", "8", "[1,9]", "[]"),
    ] {
        assert_eq!(kind(&view(site, rs, x, y)), "snapshot-violation", "{site} {rs} {x} {y}");
    }
    assert!(
        complaint(&judge(&view("C", "4", "[1]", "[]"))).contains("T4, whose snapshot is 4, read [1] of x")
    );
}

#[test]
fn a_local_commit_is_seen_whole() {
    assert_eq!(kind(&view("A", "8", "[1]", "[3]")), "fractured-read");
    assert_eq!(kind(&view("A", "8", "[1,2]", "[]")), "fractured-read");
}

#[test]
fn registers_show_the_last_version_of_the_snapshot() {
    let fill = |rs: &str, seen: &str| {
        format!(
            r#"
            invoke 0 #B [["w","x",1]]
            ok     0 rs=0 fc=5 [["w","x",1]]
            invoke 1 #A [["w","x",2]]
            spec   1 rs=6 lc=7 [["w","x",2]]
            invoke 2 #A [["r","x",null],["w","x",9],["r","x",null]]
            spec   2 rs={rs} lc=20 [["r","x",{seen}],["w","x",9],["r","x",9]]
            fail   2 [["r","x",null],["w","x",9],["r","x",null]]
            fail   1 [["w","x",2]]
            "#
        )
    };
    for (rs, seen) in [("8", "2"), ("8", "1"), ("6", "1"), ("4", "null")] {
        assert!(judge(&fill(rs, seen)).is_valid(), "{rs} {seen}");
    }
    for (rs, seen) in [("6", "2"), ("4", "1"), ("8", "null"), ("8", "9")] {
        assert!(!judge(&fill(rs, seen)).is_valid(), "{rs} {seen}");
    }
    assert!(
        !judge(&fill("8", "2").replace("\"x\",9]]\n            fail", "\"x\",2]]\n            fail"))
            .is_valid()
    );
}

/// A final commit of site B, and a local one of site A that writes the same key and aborts.
const OVERLAP: &str = r#"
    invoke 0 #B [["append","x",1],["append","z",9]]
    ok     0 rs=0 lc=4 fc=5 [["append","x",1],["append","z",9]]
    invoke 1 #A [["append","x",2],["append","y",3]]
    spec   1 rs=RS lc=7 [["append","x",2],["append","y",3]]
    invoke 2 #A [["r","KEY",null],["r","y",null]]
    fail   2 ! rs=8 [["r","KEY",SEEN],["r","y",[3]]]
    fail   1 [["append","x",2],["append","y",3]]
"#;

fn overlap(rs: &str, key: &str, seen: &str) -> String {
    OVERLAP.replace("RS", rs).replace("KEY", key).replace("SEEN", seen)
}

#[test]
fn two_overlapping_writers_are_not_in_one_snapshot() {
    assert!(judge(&overlap("5", "z", "[9]")).is_valid(), "T2 saw T0");
    assert_eq!(kind(&overlap("4", "z", "[9]")), "SPSI-3");
    let told = complaint(&judge(&overlap("4", "z", "[9]")));
    assert!(told.contains("holds T2 and T0, which both wrote x and overlap"), "{told}");
    let two = r#"
        invoke 0 #A [["w","x",1],["w","y",1]]
        spec   0 rs=0 lc=5 [["w","x",1],["w","y",1]]
        invoke 1 #A [["w","x",2],["w","z",1]]
        spec   1 rs=LATER lc=8 [["w","x",2],["w","z",1]]
        invoke 2 #A [["r","y",null],["r","z",null]]
        spec   2 rs=9 [["r","y",1],["r","z",1]]
        fail   2 [["r","y",null],["r","z",null]]
        fail   0 [["w","x",1],["w","y",1]]
        fail   1 [["w","x",2],["w","z",1]]
    "#;
    assert!(judge(&two.replace("LATER", "5")).is_valid());
    assert_eq!(kind(&two.replace("LATER", "4")), "SPSI-3");
    assert!(judge(&two.replace("LATER", "4").replace("[\"w\",\"x\",2]", "[\"w\",\"w\",2]")).is_valid());
}

/// A transaction of another site may become final below a snapshot after the reads, which rest on a local commit that
/// aborts for it.
#[test]
fn final_commits_conflict_where_there_is_evidence_of_them() {
    assert!(judge(&overlap("4", "w", "[]")).is_valid(), "no read shows T0");
    assert_eq!(kind(&overlap("4", "z", "[]")), "snapshot-violation", "T0 is below the snapshot");
    // A read of the key itself shows the local commit, in whose snapshot the final one was not.
    assert!(judge(&overlap("4", "x", "[2]")).is_valid());
    assert_eq!(kind(&overlap("5", "x", "[2]")), "snapshot-violation", "T2 saw T0");
    let late = overlap("4", "x", "[2]").replace("fc=5", "fc=8");
    assert!(judge(&late).is_valid(), "above the local commit, but below the snapshot");
    let register = late.replace("append\",\"x", "w\",\"x").replace("\"x\",[2]", "\"x\",2");
    assert!(judge(&register).is_valid());
    assert_eq!(
        kind(
            &register
                .replace("rs=4", "rs=8")
                .replace("lc=7", "lc=9")
                .replace("rs=8 [", "rs=10 [")
                .replace("\"r\",\"x\",2", "\"r\",\"x\",null")
        ),
        "snapshot-violation"
    );
    let both = overlap("4", "x", "[2]")
        .replace("[[\"r\",\"x\",null]", "[[\"r\",\"z\",null],[\"r\",\"x\",null]")
        .replace("[[\"r\",\"x\",[2]]", "[[\"r\",\"z\",[9]],[\"r\",\"x\",[2]]");
    assert!(judge(&both).anomalies.iter().any(|anomaly| anomaly.kind.name() == "snapshot-violation"));
}

/// A transaction that a site has shown is in the snapshots of its later transactions, with or without a read.
#[test]
fn final_commits_of_the_own_site_conflict_once_they_were_shown() {
    let fill = |site: &str, before: &str, after: &str| {
        format!(
            r#"
            invoke 1 #A [["append","x",2],["append","y",3]]
            invoke 0 #{site} [["append","x",1]]
            {before}
            spec   1 rs=4 lc=7 [["append","x",2],["append","y",3]]
            invoke 2 #A [["r","y",null]]
            fail   2 ! rs=8 [["r","y",[3]]]
            {after}
            fail   1 [["append","x",2],["append","y",3]]
            "#
        )
    };
    let ok = r#"ok 0 rs=0 lc=5 fc=6 [["append","x",1]]"#;
    let (spec, then) = (r#"spec 0 rs=0 lc=5 [["append","x",1]]"#, r#"ok 0 fc=6 [["append","x",1]]"#);
    assert_eq!(kind(&fill("A", ok, "")), "SPSI-3");
    assert_eq!(kind(&fill("A", spec, then)), "SPSI-3");
    assert!(judge(&fill("A", "", ok)).is_valid(), "its result came later");
    assert!(judge(&fill("B", ok, "")).is_valid(), "the site of the view need not have heard of it");
}

/// Figure 2 of the STR paper: no read shows T2, but T4 read from T3, which had read from T2.
#[test]
fn reads_rest_on_earlier_reads() {
    let figure = |key: &str, seen: &str| {
        format!(
            r#"
            invoke 1 #A [["w","a",1],["w","c",1]]
            spec   1 rs=1 lc=2 [["w","a",1],["w","c",1]]
            invoke 2 #B [["w","c",2],["w","e",2]]
            ok     2 rs=1 lc=3 fc=3 [["w","c",2],["w","e",2]]
            invoke 3 #C [["r","{key}",null],["w","b",3]]
            ok     3 rs=4 lc=5 fc=5 [["r","{key}",{seen}],["w","b",3]]
            invoke 4 #A [["r","a",null],["r","b",null]]
            fail   4 ! rs=9 [["r","a",1],["r","b",3]]
            fail   1 [["w","a",1],["w","c",1]]
            "#
        )
    };
    assert_eq!(kind(&figure("e", "2")), "SPSI-3");
    assert!(judge(&figure("d", "null")).is_valid());
    // T3 read what overwrote what T2 wrote, which had been final before.
    let overwritten = figure("e", "7").replace(
        "            invoke 3",
        "            invoke 5 #D [[\"w\",\"e\",7]]\n            ok 5 rs=3 lc=4 fc=4 [[\"w\",\"e\",7]]\n            invoke 3",
    );
    assert_eq!(kind(&overwritten), "SPSI-3");
}

/// T0 was a local commit in the snapshot of T2, and becomes final above that snapshot. T2 aborts for it.
const STACKED: &str = r#"
    invoke 0 #A [["append","x",1],["append","z",1]]
    spec   0 rs=0 lc=2 [["append","x",1],["append","z",1]]
    invoke 1 #SITE [["append","x",2],["append","y",2]]
    spec   1 rs=RS lc=4 [["append","x",2],["append","y",2]]
    invoke 2 #A READS
    fail   2 ! rs=9 SEEN
    ok     0 fc=FC [["append","x",1],["append","z",1]]
    fail   1 [["append","x",2],["append","y",2]]
"#;

#[test]
fn local_commits_stand_on_those_that_their_snapshots_held() {
    let fill = |rs: &str, fc: &str, x: &str| {
        let text = STACKED.replace("SITE", "A").replace("RS", rs).replace("FC", fc);
        let reads = r#"[["r","x",null],["r","y",null]]"#;
        text.replace("READS", reads).replace("SEEN", &format!(r#"[["r","x",{x}],["r","y",[2]]]"#))
    };
    for fc in ["2", "3", "6", "12"] {
        assert!(judge(&fill("3", fc, "[1,2]")).is_valid(), "{fc}");
        assert_eq!(kind(&fill("3", fc, "[2,1]")), "snapshot-violation", "{fc}");
    }
    // T2 was invoked when its site had shown T0, so that a lower snapshot is wrong by itself.
    let lower = judge(&fill("1", "6", "[1,2]"));
    assert!(lower.anomalies.iter().any(|anomaly| anomaly.why.contains("read [1, 2] of x")), "{lower}");
    let registers = |rs: &str, x: &str| {
        fill(rs, "6", x)
            .replace("append\",\"x", "w\",\"x")
            .replace(&format!("\"x\",[{x}]"), &format!("\"x\",{x}"))
    };
    assert!(judge(&registers("3", "2")).is_valid());
    assert_eq!(kind(&registers("3", "1")), "fractured-read", "T2 stands on T0");
}

#[test]
fn final_commits_that_were_seen_as_local_ones_are_no_conflict() {
    let fill = |rs: &str| {
        let text = STACKED.replace("SITE", "A").replace("RS", rs).replace("FC", "6");
        let reads = r#"[["r","z",null],["r","y",null]]"#;
        text.replace("READS", reads).replace("SEEN", r#"[["r","z",[1]],["r","y",[2]]]"#)
    };
    assert!(judge(&fill("2")).is_valid());
    let blind = judge(&fill("1"));
    assert!(blind.anomalies.iter().any(|anomaly| anomaly.kind.name() == "SPSI-3"), "{blind}");
}

#[test]
fn counts_may_hold_local_updates() {
    let fill = |site: &str, count: &str| {
        format!(
            r#"
            invoke 0 #B [["add","s",1]]
            ok     0 rs=0 fc=5 [["add","s",1]]
            invoke 1 #A [["add","s",1],["add","s",1]]
            spec   1 rs=6 lc=7 [["add","s",1],["add","s",1]]
            invoke 2 #{site} [["add","s",1],["r","s",null]]
            fail   2 ! rs=8 [["add","s",1],["r","s",{{"1":{count}}}]]
            fail   1 [["add","s",1],["add","s",1]]
            "#
        )
    };
    for (site, count) in [("A", "2"), ("A", "4"), ("C", "2")] {
        assert!(judge(&fill(site, count)).is_valid(), "{site} {count}");
    }
    for (site, count) in [("A", "1"), ("A", "3"), ("C", "4")] {
        assert!(complaint(&judge(&fill(site, count))).contains("a count of 1 in s"), "{site} {count}");
    }
}

const OWN_SITE: &str = r#"
    invoke 0 #A [["append","x",1]]
    spec   0 rs=0 lc=5 [["append","x",1]]
    invoke 1 #SITE [["r","y",null]]
    END
    ok     0 fc=9 [["append","x",1]]
"#;

#[test]
fn what_a_site_has_shown_is_in_later_snapshots_there() {
    let fill = |site: &str, end: &str| OWN_SITE.replace("SITE", site).replace("END", end);
    let aborted = |rs: &str| format!("fail 1 ! rs={rs} [[\"r\",\"y\",[]]]");
    let committed = |rs: &str| format!("ok 1 rs={rs} [[\"r\",\"y\",[]]]");
    // The local commit is in every snapshot; nobody touches its key, so the final one need not be.
    for (site, end) in [
        ("A", aborted("5")),
        ("A", committed("5")),
        ("A", committed("9")),
        ("B", aborted("4")),
        ("B", committed("4")),
    ] {
        let report = judge(&fill(site, &end));
        assert!(report.is_valid(), "{site} {end}: {report}");
    }
    for end in [aborted("4"), committed("4")] {
        assert_eq!(
            complaint(&judge(&fill("A", &end))),
            "T0 had committed at 5, at the same site, before T2 was invoked, whose snapshot is 4."
        );
    }
    let late = fill("A", &committed("4")).replace("spec   0 rs=0 lc=5 [[\"append\",\"x\",1]]", "");
    assert!(judge(&late.replace("ok     0 fc=9", "ok     0 rs=0 fc=9")).is_valid(), "nobody had shown it");
}

/// A transaction that commits and touches a key of what its site had shown has the final commit in its snapshot.
#[test]
fn what_touches_a_shown_write_and_commits_saw_it_final() {
    let fill = |site: &str, invoked: &str, outcome: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1],["r","z",null]]
            spec   0 rs=0 lc=5 [["append","x",1],["r","z",[]]]
            invoke 1 #{site} {invoked}
            {outcome}
            ok     0 fc=9 [["append","x",1],["r","z",[]]]
            "#
        )
    };
    let read = r#"[["r","x",null]]"#;
    let reads = |rs: &str, seen: &str| format!(r#"ok 1 rs={rs} [["r","x",{seen}]]"#);
    let writes = |rs: &str, key: &str| format!(r#"ok 1 rs={rs} fc=20 [["append","{key}",2]]"#);
    let told = "T0 had been shown at the same site before T2 was invoked, and committed at 9; T2, whose snapshot is 8, \
                touches x, which T0 wrote.";
    let early = fill("A", read, &reads("8", "[]"));
    assert_eq!(complaint(&judge(&early)), told);
    assert!(judge(&fill("A", read, &reads("9", "[1]"))).is_valid());
    assert!(judge(&fill("B", read, &reads("8", "[]"))).is_valid(), "it began at another site");
    assert!(judge(&fill("A", read, r#"fail 1 ! rs=8 [["r","x",[]]]"#)).is_valid(), "a view need not");
    assert!(judge(&fill("A", r#"[["append","z",2]]"#, &writes("8", "z"))).is_valid(), "T0 only read it");
    let blind = fill("A", r#"[["append","x",2]]"#, &writes("8", "x"));
    assert!(judge(&blind).anomalies.iter().any(|anomaly| anomaly.why == told));
    // Touched or not, what was final before is in the snapshot as that.
    let final_first = |rs: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            spec   0 rs=0 lc=5 [["append","x",1]]
            ok     0 fc=9 [["append","x",1]]
            invoke 1 #A [["r","y",null]]
            ok     1 rs={rs} [["r","y",[]]]
            "#
        )
    };
    assert!(judge(&final_first("9")).is_valid());
    assert_eq!(
        complaint(&judge(&final_first("8"))),
        "T0 had committed at 9, at the same site, before T3 was invoked, whose snapshot is 8."
    );
    let unread = fill(
        "A",
        r#"[["r","x",null],["append","y",2]]"#,
        r#"info 1 rs=8 fc=20 [["r","x",null],["append","y",2]]"#,
    );
    let then_seen = "invoke 2 #B [[\"r\",\"y\",null]]\nok 2 rs=30 [[\"r\",\"y\",[2]]]";
    assert!(judge(&format!("{unread}\n{then_seen}")).is_valid(), "it need not have come to its read");
    let unknown = early.replace("ok     0 fc=9", "info   0 fc=9");
    assert_eq!(complaint(&judge(&unknown)), told, "it committed, though its client has not heard so");
}

#[test]
fn commits_come_after_snapshots_and_final_ones_not_before_local_ones() {
    let fill = |facts: &str| format!("invoke 0 #A [[\"w\",\"x\",1]]\nok 0 {facts} [[\"w\",\"x\",1]]");
    assert!(judge(&fill("rs=3 lc=4 fc=4")).is_valid());
    for facts in ["rs=4 lc=4 fc=5", "rs=3 lc=5 fc=4"] {
        let told = complaint(&judge(&fill(facts)));
        assert!(told.starts_with("T0 committed locally at"), "{told}");
    }
}

#[test]
fn the_committed_part_is_snapshot_isolation() {
    let text = r#"
        invoke 0 #A [["w","x",1]]
        invoke 1 #B [["w","x",2]]
        ok     0 rs=0 lc=1 fc=10 [["w","x",1]]
        ok     1 rs=9 lc=10 fc=20 [["w","x",2]]
    "#;
    assert!(complaint(&judge(text)).contains("so the two overlap"));
    assert!(judge(&text.replace("rs=9", "rs=10").replace("lc=10", "lc=11")).is_valid());
}

#[test]
fn missing_facts_are_unknown() {
    let text = view("A", "8", "[1]", "[]");
    let told = "T4 shows reads without a site and a snapshot timestamp.";
    assert_eq!(doubt(&judge(&text.replace(" rs=8", ""))), told);
    assert_eq!(doubt(&judge(&text.replace("invoke 2 #A", "invoke 2"))), told);
    assert_eq!(doubt(&judge(&text.replace("rs=0 ", ""))), "T0 committed without a snapshot timestamp.");
    assert!(judge(&text.replace("fail   2 ! rs=8", "fail   2")).is_valid(), "what it read is not known");
}

#[test]
fn a_view_may_see_a_commit_of_which_its_client_has_not_heard() {
    let fill = |end: &str, site: &str, rs: &str, x: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            {end}
            invoke 1 #{site} [["r","x",null]]
            fail   1 ! rs={rs} [["r","x",{x}]]
            "#
        )
    };
    let known = "info 0 rs=0 lc=5 fc=6 [[\"append\",\"x\",1]]";
    for (site, rs, x) in [("B", "6", "[1]"), ("B", "5", "[]"), ("A", "5", "[1]"), ("A", "5", "[]")] {
        assert!(judge(&fill(known, site, rs, x)).is_valid(), "{site} {rs} {x}");
    }
    for (site, rs, x) in [("B", "6", "[]"), ("B", "5", "[1]"), ("A", "4", "[1]")] {
        assert_eq!(kind(&fill(known, site, rs, x)), "snapshot-violation", "{site} {rs} {x}");
    }
    // Nobody says whether it committed, and at which timestamp.
    let told = "T2, whose snapshot is 6, saw T0, of which no final commit is known.";
    let unknown = "info 0 rs=0 lc=5 [[\"append\",\"x\",1]]";
    assert_eq!(doubt(&judge(&fill(unknown, "B", "6", "[1]"))), told);
    assert!(judge(&fill(unknown, "A", "6", "[1]")).is_valid(), "it was a local commit there");
    let aborted = "fail 0 rs=0 lc=5 [[\"append\",\"x\",1]]";
    assert_eq!(kind(&fill(aborted, "B", "6", "[1]")), "snapshot-violation");
}
