//! Speculative snapshot isolation: the views of transactions that did not commit.

use quorate_checker::{Level, Report, check};

use crate::brief;
use crate::corpus::parse;

fn judge(text: &str) -> Report {
    check(&brief(text), Level::Spsi)
}

fn verdict(text: &str) -> &'static str {
    judge(text).verdict.name()
}

/// The kind and the transactions of the first anomaly.
fn anomaly(text: &str) -> (&'static str, Vec<u32>) {
    let report = judge(text);
    let first = report.anomalies.first().unwrap_or_else(|| panic!("{report}"));
    (first.kind.name(), first.txns.clone())
}

/// A local commit of site A that aborts, and another transaction that saw it or not before.
const LOCAL: &str = r#"
    invoke 0 #A [["append","x",1],["append","y",2]]
    spec   0 [["append","x",1],["append","y",2]]
    invoke 1 #SITE [["r","x",null],["r","y",null]]
    fail   1 ! [["r","x",SEEN_X],["r","y",SEEN_Y]]
    fail   0 [["append","x",1],["append","y",2]]
"#;

fn local(site: &str, x: &str, y: &str) -> String {
    LOCAL.replace("SITE", site).replace("SEEN_X", x).replace("SEEN_Y", y)
}

#[test]
fn a_local_commit_may_be_seen_at_its_site_only_and_whole() {
    assert_eq!(verdict(&local("A", "[1]", "[2]")), "valid");
    assert_eq!(verdict(&local("A", "[]", "[]")), "valid", "it aborts, so nobody had to see it");
    assert_eq!(anomaly(&local("B", "[1]", "[2]")), ("G1a", vec![2, 0]));
    assert_eq!(anomaly(&local("A", "[1]", "[]")), ("SPSI-1", vec![2, 0]));
    assert_eq!(anomaly(&local("A", "[]", "[2]")), ("SPSI-1", vec![2, 0]));
    let plain = local("A", "[1]", "[]").replace("fail   1 !", "fail   1");
    assert_eq!(verdict(&plain), "valid", "what it read is not known");
}

#[test]
fn without_evidence_of_a_local_commit_there_was_none() {
    let hidden = local("A", "[1]", "[2]").replace("spec   0 [[\"append\",\"x\",1],[\"append\",\"y\",2]]", "");
    assert_eq!(anomaly(&hidden), ("G1a", vec![1, 0]));
    let logged = hidden.replace("fail   0", "fail   0 lc=5");
    assert_eq!(verdict(&logged), "valid");
}

#[test]
fn committed_reads_of_local_commits_that_abort_are_aborted_reads() {
    let text = local("A", "[1]", "[2]").replace("fail   1 !", "ok     1");
    assert_eq!(anomaly(&text).0, "G1a");
}

#[test]
fn what_aborted_before_is_not_seen_after() {
    let lines: Vec<String> = local("A", "[1]", "[2]").trim().lines().map(str::to_string).collect();
    let order = [0, 1, 4, 2, 3].map(|at: usize| lines[at].clone()).join("\n");
    assert_eq!(anomaly(&order), ("G1a", vec![3, 0]));
    // Its node may not have heard what another one has told. Nothing that commits has read from it all the same.
    let unheard = order.replace("fail   0", "fail   0 ~");
    assert_eq!(verdict(&unheard), "valid");
    assert_eq!(anomaly(&unheard.replace("fail   1 !", "ok     1")).0, "G1a");
    let future = [2, 3, 0, 1, 4].map(|at: usize| lines[at].clone()).join("\n");
    assert_eq!(anomaly(&future), ("G1a", vec![0, 2]), "it was invoked after the reader had ended");
}

#[test]
fn a_part_of_a_local_commit_is_no_version() {
    let fill = |op: &str, seen: &str| {
        format!(
            r#"
            invoke 0 #A [["{op}","x",1],["{op}","x",2]]
            spec   0 [["{op}","x",1],["{op}","x",2]]
            invoke 1 #A [["r","x",null]]
            fail   1 ! [["r","x",{seen}]]
            "#
        )
    };
    assert_eq!(verdict(&fill("append", "[1,2]")), "valid");
    assert_eq!(anomaly(&fill("append", "[1]")).0, "G1b");
    assert_eq!(anomaly(&fill("append", "[2,1]")).0, "G1b");
    assert_eq!(verdict(&fill("w", "2")), "valid");
    assert_eq!(anomaly(&fill("w", "1")).0, "G1b");
}

/// Own writes stand above all that a view shows.
#[test]
fn views_agree_with_their_own_writes() {
    let fill = |list: &str, register: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1],["w","y",2]]
            spec   0 [["append","x",1],["w","y",2]]
            invoke 1 #A [["append","x",3],["r","x",null],["r","y",null],["w","y",4],["r","y",null]]
            fail   1 ! [["append","x",3],["r","x",{list}],["r","y",2],["w","y",4],["r","y",{register}]]
            "#
        )
    };
    assert_eq!(verdict(&fill("[1,3]", "4")), "valid");
    for (list, register) in [("[1]", "4"), ("[3,1]", "4"), ("[1,3]", "2")] {
        assert_eq!(anomaly(&fill(list, register)), ("internal", vec![2]), "{list} {register}");
    }
}

#[test]
fn two_reads_of_a_key_agree() {
    let fill = |x: &str, y: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1],["w","y",2]]
            spec   0 [["append","x",1],["w","y",2]]
            invoke 1 #A [["r","x",null],["r","x",null],["r","y",null],["r","y",null]]
            fail   1 ! [["r","x",[1]],["r","x",{x}],["r","y",2],["r","y",{y}]]
            "#
        )
    };
    assert_eq!(verdict(&fill("[1]", "2")), "valid");
    assert_eq!(anomaly(&fill("[]", "2")).0, "internal");
    assert_eq!(anomaly(&fill("[1]", "null")).0, "internal");
}

/// The node's own commits are in the snapshots of its later transactions, unless they abort.
#[test]
fn own_commits_are_not_missed() {
    let fill = |site: &str, end: &str, outcome: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            spec   0 [["append","x",1]]
            invoke 1 #{site} [["r","x",null]]
            {end}
            {outcome}
            "#
        )
    };
    let (ok, fail) = (r#"ok 0 [["append","x",1]]"#, r#"fail 0 [["append","x",1]]"#);
    let committed = r#"ok 1 [["r","x",[]]]"#;
    let observed = r#"fail 1 ! [["r","x",[]]]"#;
    for (site, end, outcome, expected) in [
        ("A", committed, ok, "invalid"),
        ("A", observed, ok, "invalid"),
        ("B", committed, ok, "valid"),
        ("B", observed, ok, "valid"),
        ("A", committed, fail, "valid"),
        ("A", observed, fail, "valid"),
        ("A", committed, "", "valid"),
    ] {
        assert_eq!(verdict(&fill(site, end, outcome)), expected, "{site} {end} {outcome}");
    }
    assert_eq!(anomaly(&fill("A", observed, ok)), ("SPSI-1", vec![2, 0]));
    assert_eq!(check(&brief(&fill("A", committed, ok)), Level::Si).verdict.name(), "valid");
}

/// A final commit that touches a key of a local commit had it in its snapshot as a final one.
#[test]
fn own_local_commits_are_seen_final_by_those_that_touch_them() {
    let judge = |lines: &[&str]| {
        let history = parse(&lines.join("\n")).to_history().expect("the lines are a history");
        check(&history, Level::Spsi)
    };
    let first = ["begin T1 A: x+1 z[]", "spec T1"];
    let untouched = ["T2 A: y+1", "T3 B: x[] y[1]"];
    let only_read = ["T2 A: z+1", "T3 B: x[] z[1]"];
    for then in [untouched, only_read] {
        let report = judge(&[&first[..], &then, &["ok T1"]].concat());
        assert!(report.is_valid(), "{then:?}: {report}");
    }
    let missed = ["T2 A: x[] y+1", "T3 B: x[] y[1]"];
    let report = judge(&[&first[..], &missed, &["ok T1"]].concat());
    let [anomaly] = &report.anomalies[..] else { panic!("{report}") };
    assert_eq!((anomaly.kind.name(), &anomaly.txns[..]), ("stale-read", &[0, 2][..]));
    let told = "At one site, T0 had been shown before T2 was invoked, and T2 touches x, which T0 wrote.";
    assert!(anomaly.why.contains(told), "{report}");
    let edges: Vec<_> = anomaly.edges.iter().map(|edge| (edge.kind.name(), edge.key.as_deref())).collect();
    assert_eq!(edges, [("shown", Some("x")), ("rw", Some("x"))]);
    // Once its outcome is known, every later final commit had it in its snapshot as a final one.
    for then in [untouched, missed] {
        let report = judge(&[&first[..], &["ok T1"], &then].concat());
        let [anomaly] = &report.anomalies[..] else { panic!("{report}") };
        let told = "At one site, T0 had committed before T3 was invoked.";
        assert!(anomaly.why.contains(told), "{then:?}: {report}");
        assert!(anomaly.edges.iter().all(|edge| edge.kind.name() != "shown"), "{report}");
    }
}

/// A view cannot have read from transactions that were invoked after it had ended.
#[test]
fn impossible_reads_are_told() {
    let judge = |lines: &[&str]| {
        let history = parse(&lines.join("\n")).to_history().expect("the lines are a history");
        check(&history, Level::Spsi)
    };
    let report = judge(&["begin T3 B: y?1 y=2", "begin T1 A: y?2", "fail! T1", "T2 C: y=1", "ok T3"]);
    let [anomaly] = &report.anomalies[..] else { panic!("{report}") };
    assert_eq!((anomaly.kind.name(), &anomaly.txns[..]), ("SPSI-1", &[0, 1, 3][..]));
    let told = "T1 read y, which T3 writes, and ended before T3 was invoked, so it did not see T3.";
    assert!(anomaly.why.contains(told), "{report}");
    let ends = anomaly.edges.iter().filter(|edge| edge.kind.name() == "end");
    assert_eq!(ends.map(|edge| edge.key.as_deref()).collect::<Vec<_>>(), [Some("y")]);

    let report = judge(&["begin T1 A: x[1]", "fail! T1", "T2 A: x+1"]);
    let [anomaly] = &report.anomalies[..] else { panic!("{report}") };
    assert_eq!((anomaly.kind.name(), &anomaly.txns[..]), ("SPSI-1", &[0, 2][..]));
    assert_eq!(anomaly.why, "T0 read x from T2, which was invoked after T0 had ended.");
}

/// A local commit brings along what it saw.
#[test]
fn snapshots_are_closed() {
    let fill = |y: &str| {
        format!(
            r#"
            invoke 0 #B [["append","y",1]]
            ok     0 [["append","y",1]]
            invoke 1 #A [["r","y",null],["append","x",2]]
            spec   1 [["r","y",[1]],["append","x",2]]
            invoke 2 #A [["r","x",null],["r","y",null]]
            fail   2 ! [["r","x",[2]],["r","y",{y}]]
            fail   1 [["r","y",null],["append","x",2]]
            "#
        )
    };
    assert_eq!(verdict(&fill("[1]")), "valid");
    assert_eq!(anomaly(&fill("[]")).0, "SPSI-1");
    // The same with a local commit below the local commit.
    let chain = |y: &str| {
        let text = fill(y).replace("#B", "#A").replace("ok     0", "spec   0");
        format!("{text}\nfail 0 [[\"append\",\"y\",1]]")
    };
    assert_eq!(verdict(&chain("[1]")), "valid");
    assert_eq!(anomaly(&chain("[]")), ("SPSI-1", vec![4, 0]));
}

/// Figure 2 of the STR paper: T1 (local at node 1) and T2 (final) both write C; T3 read from T2 and is final;
/// T4 at node 1 reads from T1 and from T3. That T1 had read C before tells that T2 is not below its snapshot.
const FIGURE_2: &str = r#"
    invoke 1 #N1 [["r","C",null],["w","A",1],["w","C",1]]
    spec   1 [["r","C",null],["w","A",1],["w","C",1]]
    invoke 2 #N2 [["w","C",2],["w","E",2]]
    ok     2 [["w","C",2],["w","E",2]]
    invoke 3 #N3 [["r","E",null],["w","B",3]]
    ok     3 [["r","E",2],["w","B",3]]
    invoke 4 #N1 [["r","A",null],["r","B",null]]
    fail   4 ! [["r","A",SEEN_A],["r","B",SEEN_B]]
    fail   1 [["r","C",null],["w","A",1],["w","C",1]]
"#;

#[test]
fn conflicting_writers_are_not_in_one_snapshot() {
    let figure = |a: &str, b: &str| FIGURE_2.replace("SEEN_A", a).replace("SEEN_B", b);
    for (a, b) in [("1", "null"), ("null", "3"), ("null", "null")] {
        assert_eq!(verdict(&figure(a, b)), "valid", "{a} {b}");
    }
    assert_eq!(verdict(&figure("1", "3")), "invalid");
    // Had the local commit written another key, or seen the final one, all would be well.
    let another = figure("1", "3").replace("[\"w\",\"C\",1]", "[\"w\",\"D\",1]");
    assert_eq!(verdict(&another), "valid");
    let blind = figure("1", "3").replace("[\"r\",\"C\",null],", "");
    assert_eq!(verdict(&blind), "valid", "with skewed clocks, T2 may be below the snapshot of T1");
    let lines: Vec<String> = blind.trim().lines().map(str::to_string).collect();
    let later = [2, 3, 0, 1, 4, 5, 6, 7, 8].map(|at: usize| lines[at].clone()).join("\n");
    assert_eq!(verdict(&later), "valid", "T1 may have seen T2");
    let blind = later.replace("[[\"w\",\"A\",1],", "[[\"r\",\"E\",null],[\"w\",\"A\",1],");
    let blind = blind.replace("spec   1 [[\"r\",\"E\",null]", "spec   1 [[\"r\",\"E\",SEEN]");
    assert_eq!(verdict(&blind.replace("SEEN", "2")), "valid");
    assert_eq!(verdict(&blind.replace("SEEN", "null")), "invalid", "T1 is known not to have seen T2");
}

#[test]
fn lists_show_which_final_versions_a_local_commit_saw() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 #A [["r","x",null],["append","x",1],["append","z",1]]
            spec   0 [["r","x",[]],["append","x",1],["append","z",1]]
            invoke 1 #B [["append","x",2]]
            ok     1 [["append","x",2]]
            invoke 2 #A [["r","x",null],["r","z",null]]
            fail   2 ! {seen}
            fail   0 [["r","x",null],["append","x",1],["append","z",1]]
            "#
        )
    };
    assert_eq!(verdict(&fill(r#"[["r","x",[1]],["r","z",[1]]]"#)), "valid");
    assert_eq!(verdict(&fill(r#"[["r","x",[2]],["r","z",[]]]"#)), "valid");
    assert_eq!(anomaly(&fill(r#"[["r","x",[2,1]],["r","z",[1]]]"#)).0, "SPSI-3");
    assert_eq!(anomaly(&fill(r#"[["r","x",[1,2]],["r","z",[1]]]"#)), ("SPSI-3", vec![4, 0, 2]));
    assert_eq!(anomaly(&fill(r#"[["r","x",[2]],["r","z",[1]]]"#)).0, "SPSI-1");
}

/// A final commit that wrote blindly after a local commit of its site survives the abort of that one.
#[test]
fn a_blind_writer_survives_whom_it_had_in_its_snapshot() {
    let fill = |site: &str, seen: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            spec   0 [["append","x",1]]
            invoke 1 #{site} [["append","x",2]]
            invoke 2 #A [["r","x",null]]
            fail   2 ! [["r","x",{seen}]]
            ok     1 [["append","x",2]]
            fail   0 [["append","x",1]]
            "#
        )
    };
    assert_eq!(verdict(&fill("A", "[1,2]")), "valid");
    assert_eq!(verdict(&fill("A", "[2,1]")), "valid", "the final one is below the snapshot of the local one");
    let seen = fill("A", "[2,1]")
        .replace("invoke 0 #A [[", "invoke 0 #A [[\"r\",\"x\",null],[")
        .replace("spec   0 [[", "spec   0 [[\"r\",\"x\",[]],[")
        .replace("fail   0 [[", "fail   0 [[\"r\",\"x\",null],[");
    assert_eq!(anomaly(&seen).0, "SPSI-3", "the local one is known not to have seen the final one");
    assert_eq!(anomaly(&fill("B", "[1,2]")).0, "SPSI-3");
}

/// T5 must hold T2, which was acknowledged before, below T1; T7 holds T1 below T2. That cannot be, and the check knows no
/// better than that.
#[test]
fn a_survivor_does_not_stand_below_what_it_survived() {
    let judge = |acknowledged: &str, reported: &str| {
        let lines = format!(
            "begin T1 A: x=1\nspec T1\nbegin T2 A: x=2\nbegin T3 A: x?1 z=3\n{acknowledged}\nbegin T5 A: x?1\n{reported}\n\
             spec T3\nbegin T7 A: x?2 z?3\nspec T5\nfail! T5\nfail! T7\nfail! T3\nfail T1"
        );
        check(&parse(&lines).to_history().expect("the lines are a history"), Level::Spsi).verdict.name()
    };
    assert_eq!(judge("ok T2", ""), "unknown");
    assert_eq!(judge("", "ok T2"), "valid", "T5 began before");
}

/// T3 counts T1, which is lost, and must hold T2. Both wrote x, which nobody reads, and T1 did not see T2; but T2 may have
/// had T1 in its snapshot.
#[test]
fn a_survivor_of_a_local_commit_that_only_counts_show_is_not_followed() {
    let lines = "begin T1 A/u: x+1 s++1 y?-\nbegin T2 A/u: x+2 y=3\nok T1\nok T2\nlost T1\nT3 A/u: s{1:1}";
    let history = parse(lines).to_history().expect("the lines are a history");
    assert_eq!(check(&history, Level::Spsi).verdict.name(), "unknown");
}

/// A transaction from which a member read is a member too, and then a list shows it.
#[test]
fn a_list_shows_all_members_that_appended_to_it() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            spec   0 [["append","x",1]]
            invoke 1 #A [["r","x",null],["append","x",2]]
            spec   1 [["r","x",[1]],["append","x",2]]
            invoke 2 #A [["r","x",null]]
            fail   2 ! [["r","x",{seen}]]
            "#
        )
    };
    assert_eq!(verdict(&fill("[1,2]")), "valid");
    assert_eq!(verdict(&fill("[2]")), "invalid");
    assert_eq!(verdict(&fill("[2,1]")), "invalid");
}

#[test]
fn of_two_local_commits_that_write_one_key_one_saw_the_other() {
    let fill = |z: &str, reads: &str| {
        format!(
            r#"
            invoke 0 #A [["w","x",1],["w","y",1]]
            spec   0 [["w","x",1],["w","y",1]]
            invoke 1 #A [["r","y",null],["w","x",2],["w","z",2]]
            spec   1 [["r","y",{z}],["w","x",2],["w","z",2]]
            invoke 2 #A [["r","y",null],["r","z",null],["r","x",null]]
            fail   2 ! {reads}
            fail   0 [["w","x",1],["w","y",1]]
            fail   1 [["r","y",null],["w","x",2],["w","z",2]]
            "#
        )
    };
    let both = r#"[["r","y",1],["r","z",2],["r","x",2]]"#;
    assert_eq!(verdict(&fill("1", both)), "valid");
    assert_eq!(verdict(&fill("null", both)), "invalid", "neither saw the other");
    let wrong = r#"[["r","y",1],["r","z",2],["r","x",1]]"#;
    assert_eq!(verdict(&fill("1", wrong)), "invalid", "the later one is on top");
}

const FLOW: &str = r#"
    invoke 0 #A @u [["append","x",1]]
    spec   0 [["append","x",1]]
    invoke 1 #B @SESSION [["append","y",2]]
    FIRST
    SECOND
"#;

#[test]
fn a_final_commit_flows_from_final_commits_only() {
    let (ok, fail, info) =
        (r#"ok 0 [["append","x",1]]"#, r#"fail 0 [["append","x",1]]"#, r#"info 0 [["append","x",1]]"#);
    let commit = r#"ok 1 [["append","y",2]]"#;
    let abort = r#"fail 1 [["append","y",2]]"#;
    for (session, first, second, expected) in [
        ("u", commit, fail, "invalid"),
        ("u", fail, commit, "invalid"),
        ("u", ok, commit, "valid"),
        ("u", abort, fail, "valid"),
        ("v", commit, fail, "valid"),
        ("u", commit, info, "valid"),
        ("u", commit, "", "valid"),
    ] {
        let text = FLOW.replace("SESSION", session).replace("FIRST", first).replace("SECOND", second);
        assert_eq!(verdict(&text), expected, "{session} {first} {second}");
        if expected == "invalid" {
            assert_eq!(anomaly(&text), ("SPSI-4", vec![2, 0]));
        }
    }
    let settled = r#"
        invoke 0 #A @u [["append","x",1]]
        spec   0 [["append","x",1]]
        fail   0 [["append","x",1]]
        invoke 1 #B @u [["append","y",2]]
        ok     1 [["append","y",2]]
    "#;
    assert_eq!(verdict(settled), "valid", "the outcome was known");
}

/// A transaction that is depended on did commit, and then its node must have shown it to others.
#[test]
fn an_unknown_outcome_that_a_final_commit_flows_from_is_a_commit() {
    let fill = |session: &str| {
        format!(
            r#"
            invoke 0 #A @u [["append","x",1]]
            spec   0 [["append","x",1]]
            invoke 1 #B @{session} [["append","y",2]]
            ok     1 [["append","y",2]]
            invoke 2 #A @w [["r","x",null]]
            ok     2 [["r","x",[]]]
            info   0 [["append","x",1]]
            "#
        )
    };
    assert_eq!(verdict(&fill("u")), "invalid");
    assert_eq!(verdict(&fill("v")), "valid");
}

/// It may have committed as far as counts can tell, but not if it depends on what aborted.
#[test]
fn an_unknown_outcome_that_flows_from_an_abort_is_an_abort() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 #A @u [["append","x",1]]
            spec   0 [["append","x",1]]
            invoke 1 #A @u [["add","s",1]]
            fail   0 [["append","x",1]]
            invoke 2 #A [["r","s",null]]
            ok     2 [["r","s",{seen}]]
            "#
        )
    };
    assert_eq!(verdict(&fill("{}")), "valid");
    assert_eq!(verdict(&fill(r#"{"1":1}"#)), "invalid");
}

#[test]
fn the_speculative_result_of_a_final_commit_is_the_final_one() {
    let fill = |seen: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            spec   0 [["append","x",1]]
            invoke 1 #A [["r","x",null]]
            spec   1 [["r","x",{seen}]]
            fail   0 [["append","x",1]]
            ok     1 [["r","x",[]]]
            "#
        )
    };
    assert_eq!(verdict(&fill("[]")), "valid");
    assert_eq!(anomaly(&fill("[1]")), ("SPSI-4", vec![2, 0]), "it depended on what aborted");
    let both = fill("[]")
        .replace("fail   0", "ok     0")
        .replace("ok     1 [[\"r\",\"x\",[]]]", "ok 1 [[\"r\",\"x\",[1]]]");
    assert_eq!(anomaly(&both), ("SPSI-1", vec![2]));
}

/// A view at another site, or of what never committed locally, proves that an unknown outcome is a commit.
#[test]
fn views_may_prove_a_commit() {
    let fill = |site: &str, seen: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1],["append","y",1]]
            info   0 [["append","x",1],["append","y",1]]
            invoke 1 #{site} [["r","x",null]]
            fail   1 ! [["r","x",[1]]]
            invoke 2 #A [["r","y",null]]
            ok     2 [["r","y",{seen}]]
            "#
        )
    };
    for site in ["A", "B"] {
        assert_eq!(verdict(&fill(site, "[1]")), "valid");
        assert_eq!(verdict(&fill(site, "[]")), "valid", "it may have committed late");
    }
    let unwritten = fill("A", "[]").replace("[\"r\",\"x\",[1]]", "[\"r\",\"x\",[7]]");
    assert_eq!(anomaly(&unwritten), ("unwritten-read", vec![2]));
}

#[test]
fn counts_of_views_hold_local_updates_of_their_site() {
    let fill = |site: &str, count: &str| {
        format!(
            r#"
            invoke 0 #B [["add","s",1]]
            ok     0 [["add","s",1]]
            invoke 1 #A [["add","s",1],["add","s",1],["add","t",2]]
            spec   1 [["add","s",1],["add","s",1],["add","t",2]]
            invoke 2 #{site} [["r","s",null],["r","t",null]]
            fail   2 ! {count}
            fail   1 [["add","s",1],["add","s",1],["add","t",2]]
            "#
        )
    };
    for (site, count, expected) in [
        ("A", r#"[["r","s",{"1":3}],["r","t",{"2":1}]]"#, "valid"),
        ("A", r#"[["r","s",{"1":1}],["r","t",{}]]"#, "valid"),
        ("A", r#"[["r","s",{"1":2}],["r","t",{"2":1}]]"#, "valid"),
        ("A", r#"[["r","s",{"1":3}],["r","t",{}]]"#, "invalid"),
        ("A", r#"[["r","s",{"1":1}],["r","t",{"2":1}]]"#, "invalid"),
        ("A", r#"[["r","s",{"1":4}],["r","t",{"2":1}]]"#, "invalid"),
        ("B", r#"[["r","s",{"1":3}],["r","t",{"2":1}]]"#, "invalid"),
        ("B", r#"[["r","s",{"1":1}],["r","t",{}]]"#, "valid"),
    ] {
        assert_eq!(verdict(&fill(site, count)), expected, "{site} {count}");
    }
}

/// A lost transaction counts as aborted, with its reads observed; its site had committed it.
#[test]
fn lost_transactions_are_local_commits() {
    let fill = |site: &str, seen: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1],["append","y",1]]
            ok     0 [["append","x",1],["append","y",1]]
            invoke 1 #{site} [["r","x",null],["r","y",null]]
            ok     1 [["r","x",[1]],["r","y",{seen}]]
            lost   0 [["append","x",1],["append","y",1]]
            "#
        )
    };
    assert_eq!(verdict(&fill("A", "[1]")), "valid");
    assert_eq!(verdict(&fill("A", "[]")), "invalid", "its reads are observed");
    assert_eq!(anomaly(&fill("B", "[1]")).0, "G1a");
}

#[test]
fn the_committed_part_is_snapshot_isolation() {
    let text = r#"
        invoke 0 #A [["r","x",null],["append","x",1]]
        invoke 1 #B [["r","x",null],["append","x",2]]
        ok     0 [["r","x",[]],["append","x",1]]
        ok     1 [["r","x",[]],["append","x",2]]
    "#;
    assert_eq!(anomaly(text), ("lost-update", vec![0, 1]));
    assert_eq!(
        verdict(&text.replace("\"append\",\"x\",2", "\"append\",\"y\",2")),
        "valid",
        "a write skew, at most"
    );
}

#[test]
fn a_view_is_a_snapshot_of_final_commits() {
    let fill = |outcome: &str| {
        format!(
            r#"
            invoke 0 #A [["append","x",1]]
            ok     0 [["append","x",1]]
            invoke 1 #B [["r","x",null],["append","y",2]]
            ok     1 [["r","x",[1]],["append","y",2]]
            invoke 2 #C [["r","x",null],["r","y",null]]
            {outcome}
            "#
        )
    };
    let torn = r#"[["r","x",[]],["r","y",[2]]]"#;
    assert_eq!(verdict(&fill(&format!("fail 2 ! {torn}"))), "invalid");
    assert_eq!(verdict(&fill(&format!("spec 2 {torn}"))), "invalid");
    assert_eq!(verdict(&fill(&format!("fail 2 {torn}"))), "valid");
    assert_eq!(verdict(&fill(r#"fail 2 ! [["r","x",[1]],["r","y",[]]]"#)), "valid");
}

#[test]
fn without_sites_nothing_is_known() {
    let report = judge("invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]");
    assert_eq!(report.verdict.name(), "unknown");
    assert!(report.reason.is_some_and(|reason| reason.starts_with("T0 names no site")));
}

/// Where clocks differ, a transaction that began after a reader had ended may commit below the snapshot of the reader; but the reader cannot have read it.
#[test]
fn final_commits_read_nothing_that_began_after_they_had_ended() {
    let read = |end: &str, seen: &str| {
        let text = r#"
            invoke 0 #A [["r","x",null]]
            END    0 [["r","x",SEEN]]
            invoke 1 #B [["append","x",7],["append","y",8]]
            ok     1 [["append","x",7],["append","y",8]]
        "#;
        text.replace("END", end).replace("SEEN", seen)
    };
    assert_eq!(anomaly(&read("ok    ", "[7]")), ("future-read", vec![0, 2]));
    assert_eq!(verdict(&read("ok    ", "[]")), "valid");
    let shown = read("spec  ", "[7]") + r#"ok 0 [["r","x",[7]]]"#;
    assert_eq!(anomaly(&shown), ("future-read", vec![0, 2]), "it had read by then");
    // Of two writers the first began later than the reader had ended.
    let behind = r#"
        invoke 2 #C [["append","x",9]]
        invoke 0 #A [["r","x",null]]
        ok     0 [["r","x",[7,9]]]
        invoke 1 #B [["append","x",7]]
        ok     1 [["append","x",7]]
        ok     2 [["append","x",9]]
    "#;
    assert_eq!(anomaly(behind).0, "real-time-violation");
}
