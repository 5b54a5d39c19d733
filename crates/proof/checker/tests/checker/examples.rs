//! Small histories, valid and invalid, with their verdicts at the strict, session and plain serializable
//! levels.

use quorate_checker::Level;

use crate::{anomaly, brief, strict, verdicts};

const STRICT: Level = Level::StrictSerializable;
const SESSION: Level = Level::SessionSerializable;
const PLAIN: Level = Level::Serializable;

#[test]
fn a_serial_history_is_valid_everywhere() {
    let history = r#"
        invoke 0 [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 1 [["r","x",null],["append","x",2]]
        ok     1 [["r","x",[1]],["append","x",2]]
        invoke 0 [["r","x",null]]
        ok     0 [["r","x",[1,2]]]
    "#;
    assert_eq!(verdicts(history), "vvv");
}

#[test]
fn a_stale_read_across_sessions_breaks_real_time_only() {
    let history = r#"
        invoke 0 [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[]]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "ivv");
    assert_eq!(anomaly(history, STRICT), ("stale-read", vec![0, 2]));
}

#[test]
fn overlapping_transactions_may_take_effect_in_either_order() {
    let history = r#"
        invoke 0 [["append","x",1]]
        invoke 1 [["r","x",null]]
        ok     0 [["append","x",1]]
        ok     1 [["r","x",[]]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "vvv");
}

/// Real time between two transactions with many others between them: the chain of barriers must carry it.
#[test]
fn real_time_reaches_over_unrelated_transactions() {
    let mut history = String::from("invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]\n");
    for value in 0..20 {
        history += &format!("invoke 1 [[\"append\",\"y\",{value}]]\nok 1 [[\"append\",\"y\",{value}]]\n");
    }
    history += "invoke 2 [[\"r\",\"x\",null]]\nok 2 [[\"r\",\"x\",[]]]\n";
    history += "invoke 3 [[\"r\",\"x\",null]]\nok 3 [[\"r\",\"x\",[1]]]\n";
    assert_eq!(verdicts(&history), "ivv");
    assert_eq!(anomaly(&history, STRICT), ("stale-read", vec![0, 42]));
}

#[test]
fn a_session_must_see_its_own_writes() {
    let history = r#"
        invoke 0 @alice [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 1 @alice [["r","x",null]]
        ok     1 [["r","x",[]]]
        invoke 2 @bob   [["r","x",null]]
        ok     2 [["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "iiv");
    assert_eq!(anomaly(history, SESSION), ("session-violation", vec![0, 2]));
}

#[test]
fn the_process_is_the_session_unless_one_is_named() {
    let history = r#"
        invoke 0 [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 0 [["r","x",null]]
        ok     0 [["r","x",[]]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "iiv");
    assert_eq!(verdicts(&history.replace("invoke 0 [[\"r\"", "invoke 0 @other [[\"r\"")), "ivv");
}

/// Two transactions of one session that overlap have no session order.
#[test]
fn session_order_needs_a_completion_before_the_invocation() {
    let history = r#"
        invoke 0 @alice [["append","x",1]]
        invoke 1 @alice [["r","x",null]]
        ok     0 [["append","x",1]]
        ok     1 [["r","x",[]]]
        invoke 2 @bob   [["r","x",null]]
        ok     2 [["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "vvv");
}

/// An idle session in the middle must not hide the order of the others.
#[test]
fn sessions_have_separate_chains() {
    let history = r#"
        invoke 0 [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 1 [["append","y",1]]
        ok     1 [["append","y",1]]
        invoke 0 [["r","y",null]]
        ok     0 [["r","y",[]]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[]]]
        invoke 2 [["r","x",null],["r","y",null]]
        ok     2 [["r","x",[1]],["r","y",[1]]]
    "#;
    assert_eq!(verdicts(history), "iiv");
}

#[test]
fn a_read_from_the_future_breaks_real_time() {
    let history = r#"
        invoke 0 [["r","x",null]]
        ok     0 [["r","x",[1]]]
        invoke 1 [["append","x",1]]
        ok     1 [["append","x",1]]
    "#;
    assert_eq!(verdicts(history), "ivv");
    assert_eq!(anomaly(history, STRICT), ("future-read", vec![0, 2]));
}

#[test]
fn a_write_order_against_real_time() {
    let history = r#"
        invoke 0 [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 1 [["append","x",2]]
        ok     1 [["append","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[2,1]]]
    "#;
    assert_eq!(verdicts(history), "ivv");
    assert_eq!(anomaly(history, STRICT).0, "real-time-violation");
}

#[test]
fn g0_write_cycle() {
    let history = r#"
        invoke 0 [["append","x",1],["append","y",1]]
        invoke 1 [["append","x",2],["append","y",2]]
        ok     0 [["append","x",1],["append","y",1]]
        ok     1 [["append","x",2],["append","y",2]]
        invoke 2 [["r","x",null],["r","y",null]]
        ok     2 [["r","x",[1,2]],["r","y",[2,1]]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN), ("G0", vec![0, 1]));
}

#[test]
fn g0_interleaved_appends_of_one_key() {
    let history = r#"
        invoke 0 [["append","x",1],["append","x",3]]
        invoke 1 [["append","x",2]]
        ok     0 [["append","x",1],["append","x",3]]
        ok     1 [["append","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[1,2,3]]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN), ("G0", vec![0, 1]));
}

#[test]
fn g1a_aborted_read() {
    let history = r#"
        invoke 0 [["append","x",1]]
        fail   0 [["append","x",1]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN), ("G1a", vec![2, 0]));
    let register = history.replace("append", "w").replace("[1]", "1");
    assert_eq!(verdicts(&register), "iii");
    assert_eq!(anomaly(&register, PLAIN), ("G1a", vec![2, 0]));
}

/// The aborted value stands before a committed one, so that only a longer list shows it.
#[test]
fn g1a_names_the_first_transaction_that_saw_the_aborted_value() {
    let history = r#"
        invoke 0 [["append","x",1]]
        fail   0 [["append","x",1]]
        invoke 1 [["append","x",2]]
        ok     1 [["append","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[1]]]
        invoke 3 [["r","x",null]]
        ok     3 [["r","x",[1,2]]]
    "#;
    assert_eq!(anomaly(history, PLAIN), ("G1a", vec![4, 0]));
}

#[test]
fn what_an_aborted_transaction_read_says_nothing_at_committed_levels() {
    for end in ["fail 1 !", "fail 1"] {
        let history = format!(
            r#"
            invoke 0 [["append","x",1]]
            ok     0 [["append","x",1]]
            invoke 1 [["r","x",null],["append","x",2]]
            {end}  [["r","x",[7,9]],["append","x",2]]
            invoke 0 [["r","x",null]]
            ok     0 [["r","x",[1]]]
        "#
        );
        assert_eq!(verdicts(&history), "vvv", "{end}");
    }
}

#[test]
fn g1b_intermediate_read() {
    let history = r#"
        invoke 0 [["append","x",1],["append","x",2]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[1]]]
        ok     0 [["append","x",1],["append","x",2]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN), ("G1b", vec![1, 0]));
    let register = history.replace("append", "w").replace("[1]", "1");
    assert_eq!(verdicts(&register), "iii");
    assert_eq!(anomaly(&register, PLAIN), ("G1b", vec![1, 0]));
}

#[test]
fn g1c_circular_information_flow() {
    let history = r#"
        invoke 0 [["append","x",1],["r","y",null]]
        invoke 1 [["append","y",1],["r","x",null]]
        ok     0 [["append","x",1],["r","y",[1]]]
        ok     1 [["append","y",1],["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN), ("G1c", vec![0, 1]));
}

#[test]
fn fractured_read() {
    let history = r#"
        invoke 0 [["append","x",1],["append","y",1]]
        invoke 1 [["r","x",null],["r","y",null]]
        ok     0 [["append","x",1],["append","y",1]]
        ok     1 [["r","x",[1]],["r","y",[]]]
        invoke 2 [["r","y",null]]
        ok     2 [["r","y",[1]]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN), ("fractured-read", vec![0, 1]));
}

#[test]
fn g_single_over_three_transactions() {
    let history = r#"
        invoke 0 [["append","x",1]]
        invoke 1 [["r","x",null],["append","y",1]]
        invoke 2 [["r","y",null],["r","x",null]]
        ok     0 [["append","x",1]]
        ok     1 [["r","x",[1]],["append","y",1]]
        ok     2 [["r","y",[1]],["r","x",[]]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN), ("G-single", vec![0, 1, 2]));
}

/// No read shows the appends, so they are in the tail of the list; each of the two writers missed the other.
#[test]
fn lost_update_that_nobody_reads() {
    let history = r#"
        invoke 0 [["r","x",null],["append","x",1]]
        invoke 1 [["r","x",null],["append","x",2]]
        ok     0 [["r","x",[]],["append","x",1]]
        ok     1 [["r","x",[]],["append","x",2]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN).0, "lost-update");
    let register = history.replace("append", "w").replace("[]", "null");
    assert_eq!(verdicts(&register), "iii");
    assert_eq!(anomaly(&register, PLAIN).0, "lost-update");
}

#[test]
fn lost_update_that_a_later_read_shows() {
    let history = r#"
        invoke 0 [["r","x",null],["append","x",1]]
        invoke 1 [["r","x",null],["append","x",2]]
        ok     0 [["r","x",[]],["append","x",1]]
        ok     1 [["r","x",[]],["append","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[1,2]]]
    "#;
    assert_eq!(anomaly(history, PLAIN), ("lost-update", vec![0, 1]));
}

#[test]
fn write_skew() {
    let history = r#"
        invoke 0 [["r","x",null],["append","y",1]]
        invoke 1 [["r","y",null],["append","x",1]]
        ok     0 [["r","x",[]],["append","y",1]]
        ok     1 [["r","y",[]],["append","x",1]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN).0, "write-skew");
}

/// The long fork: two readers disagree about the order of two independent writes.
#[test]
fn long_fork() {
    let history = r#"
        invoke 0 [["append","x",1]]
        invoke 1 [["append","y",1]]
        invoke 2 [["r","x",null],["r","y",null]]
        invoke 3 [["r","x",null],["r","y",null]]
        ok     0 [["append","x",1]]
        ok     1 [["append","y",1]]
        ok     2 [["r","x",[1]],["r","y",[]]]
        ok     3 [["r","x",[]],["r","y",[1]]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN).0, "long-fork");
}

/// A reader of the whole list precedes every append that nobody has seen, however many there are.
#[test]
fn readers_precede_all_unseen_appends() {
    let history = r#"
        invoke 0 [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 1 [["append","x",2]]
        ok     1 [["append","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[1]]]
    "#;
    assert_eq!(verdicts(history), "ivv");
    assert_eq!(anomaly(history, STRICT), ("stale-read", vec![2, 4]));
}

/// A transaction that reads the whole list and appends to it goes before the other unseen appends, not before
/// itself.
#[test]
fn an_unseen_append_of_the_reader_itself_is_no_cycle() {
    let history = r#"
        invoke 0 [["r","x",null],["append","x",1]]
        invoke 1 [["append","x",2]]
        ok     0 [["r","x",[]],["append","x",1]]
        ok     1 [["append","x",2]]
    "#;
    assert_eq!(verdicts(history), "vvv");
    let first_completed = r#"
        invoke 1 [["append","x",2]]
        ok     1 [["append","x",2]]
        invoke 0 [["r","x",null],["append","x",1]]
        ok     0 [["r","x",[]],["append","x",1]]
    "#;
    assert_eq!(verdicts(first_completed), "ivv");
}

#[test]
fn internal_own_appends_are_visible() {
    let valid = r#"
        invoke 0 [["append","x",1],["r","x",null],["append","x",2],["r","x",null]]
        ok     0 [["append","x",1],["r","x",[1]],["append","x",2],["r","x",[1,2]]]
    "#;
    assert_eq!(verdicts(valid), "vvv");
    for (seen, then) in
        [("[]", "[1,2]"), ("[1]", "[1]"), ("[1]", "[2,1]"), ("[1]", "[2]"), ("[1,2]", "[1,2]")]
    {
        let history = format!(
            r#"
            invoke 0 [["append","x",1],["r","x",null],["append","x",2],["r","x",null]]
            ok     0 [["append","x",1],["r","x",{seen}],["append","x",2],["r","x",{then}]]
        "#
        );
        assert_eq!(verdicts(&history), "iii", "{seen} {then}");
        assert_eq!(anomaly(&history, PLAIN), ("internal", vec![0]), "{seen} {then}");
    }
}

#[test]
fn internal_a_list_must_not_change_under_a_transaction() {
    let history = r#"
        invoke 1 [["append","x",1]]
        invoke 0 [["r","x",null],["r","x",null]]
        ok     1 [["append","x",1]]
        ok     0 [["r","x",[]],["r","x",[1]]]
    "#;
    assert_eq!(anomaly(history, PLAIN), ("internal", vec![1]));
}

#[test]
fn internal_own_append_before_it_is_made() {
    let history = r#"
        invoke 0 [["r","x",null],["append","x",1]]
        ok     0 [["r","x",[1]],["append","x",1]]
    "#;
    assert_eq!(verdicts(history), "iii");
    assert_eq!(anomaly(history, PLAIN), ("internal", vec![0]));
    let register = history.replace("append", "w").replace("[1]", "1");
    assert_eq!(verdicts(&register), "iii");
    assert_eq!(anomaly(&register, PLAIN), ("internal", vec![0]));
}

#[test]
fn internal_appends_of_one_transaction_keep_their_order() {
    for list in ["[2,1]", "[2]"] {
        let history = format!(
            r#"
            invoke 0 [["append","x",1],["append","x",2]]
            ok     0 [["append","x",1],["append","x",2]]
            invoke 1 [["r","x",null]]
            ok     1 [["r","x",{list}]]
        "#
        );
        assert_eq!(verdicts(&history), "iii", "{list}");
        assert!(strict(&history).anomalies.iter().any(|anomaly| anomaly.kind.name() == "internal"), "{list}");
    }
}

#[test]
fn unwritten_and_duplicate_values() {
    for (list, kind) in [("[9]", "unwritten-read"), ("[1,1]", "duplicate-value"), ("[1,9]", "unwritten-read")]
    {
        let history = format!(
            r#"
            invoke 0 [["append","x",1]]
            ok     0 [["append","x",1]]
            invoke 1 [["r","x",null]]
            ok     1 [["r","x",{list}]]
        "#
        );
        assert_eq!(verdicts(&history), "iii", "{list}");
        assert_eq!(anomaly(&history, PLAIN), (kind, vec![2]), "{list}");
    }
}

#[test]
fn a_duplicate_in_a_list_that_stands_apart() {
    let history = r#"
        invoke 0 [["append","x",1],["append","x",2]]
        ok     0 [["append","x",1],["append","x",2]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[1,2]]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[1,1]]]
    "#;
    assert_eq!(anomaly(history, PLAIN), ("duplicate-value", vec![4]));
}

#[test]
fn incompatible_lists() {
    for (one, other) in [("[1,2]", "[2,1]"), ("[1]", "[2,1]"), ("[2]", "[1]"), ("[2,1]", "[1]")] {
        let history = format!(
            r#"
            invoke 0 [["append","x",1]]
            invoke 1 [["append","x",2]]
            ok     0 [["append","x",1]]
            ok     1 [["append","x",2]]
            invoke 2 [["r","x",null]]
            invoke 3 [["r","x",null]]
            ok     2 [["r","x",{one}]]
            ok     3 [["r","x",{other}]]
        "#
        );
        assert_eq!(verdicts(&history), "iii", "{one} {other}");
        let (kind, mut txns) = anomaly(&history, PLAIN);
        txns.sort_unstable();
        assert_eq!((kind, txns), ("incompatible-order", vec![4, 5]), "{one} {other}");
    }
}

#[test]
fn a_list_that_stands_apart_is_searched_for_bad_values_too() {
    let history = r#"
        invoke 0 [["append","x",1]]
        fail   0 [["append","x",1]]
        invoke 1 [["append","x",2]]
        ok     1 [["append","x",2]]
        invoke 2 [["r","x",null]]
        ok     2 [["r","x",[2]]]
        invoke 3 [["r","x",null]]
        ok     3 [["r","x",[1,2]]]
        invoke 4 [["r","x",null]]
        ok     4 [["r","x",[2]]]
    "#;
    assert_eq!(anomaly(history, PLAIN), ("G1a", vec![6, 0]));
}

/// Acknowledged, then abandoned: what it wrote must not be read elsewhere, and what it saw decides nothing.
#[test]
fn a_lost_transaction_is_judged_as_aborted() {
    let history = r#"
        invoke 0 #A [["append","x",1]]
        ok     0 #A [["append","x",1]]
        invoke 1 #A [["r","x",null],["append","y",1]]
        ok     1 #A [["r","x",[1]],["append","y",1]]
        lost   0 #A [["append","x",1]]
        invoke 2 #B [["append","x",2]]
        ok     2 #B [["append","x",2]]
        invoke 3 #B [["r","x",null],["r","y",null]]
        ok     3 #B [["r","x",SEEN],["r","y",[]]]
    "#;
    assert_eq!(verdicts(&history.replace("SEEN", "[2]")), "vvv");
    let read_at_another_site = history.replace("SEEN", "[1,2]");
    assert_eq!(verdicts(&read_at_another_site), "iii");
    assert_eq!(anomaly(&read_at_another_site, PLAIN), ("G1a", vec![7, 0]));
    let elsewhere = history.replace("SEEN", "[2]").replace("1 #A", "1 #B");
    assert_eq!(anomaly(&elsewhere, PLAIN).0, "G1a", "only readers at the same site are lost too");
}

#[test]
fn speculative_commits_are_ignored_at_committed_levels() {
    let history = r#"
        invoke 0 [["r","x",null],["append","x",1]]
        spec   0 [["r","x",[5]],["append","x",1]]
        invoke 1 [["r","x",null]]
        ok     1 [["r","x",[]]]
        ok     0 [["r","x",[]],["append","x",1]]
    "#;
    assert_eq!(verdicts(history), "vvv");
}

#[test]
fn levels_of_sites_are_unknown_without_sites() {
    let valid = brief("invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]");
    for level in [Level::WalterPsi, Level::Spsi] {
        let report = quorate_checker::check(&valid, level);
        assert_eq!(report.verdict.name(), "unknown", "nobody names a site");
        assert!(report.reason.is_some());
    }
    assert_eq!("si".parse(), Ok(Level::Si));
    assert!("snapshot".parse::<Level>().unwrap_err().to_string().contains("walter-psi"));
}

/// More unread appends to one key than a search would order pair by pair, and they took effect in the reverse
/// order of their completions: only the dependencies tell.
#[test]
fn many_unread_appends_are_ordered_as_the_dependencies_say() {
    let txns = 400;
    let ops = |txn: u32, seen: &str| {
        format!(r#"[["append","x",{txn}],["w","link {txn}",1],["r","link {}",{seen}]]"#, txn + 1)
    };
    let mut history = String::new();
    for txn in 0..=txns {
        history += &format!("invoke {txn} #A {}\n", ops(txn, "null"));
    }
    for txn in 0..=txns {
        let seen = if txn == txns { "null" } else { "1" };
        history += &format!("ok {txn} #A {}\n", ops(txn, seen));
    }
    let history = brief(&history);
    for level in [Level::StrongSi, Level::Si, Level::Psi, Level::SessionPsi, Level::WalterPsi] {
        let report = quorate_checker::check(&history, level);
        assert_eq!(report.verdict.name(), "valid", "{report}");
    }
}

/// More unread writes of a register than a search would order. Almost all of them took effect in the order of real time, but neither that order
/// nor one that follows the known dependencies fits: the first read of `x` comes long after its version was overwritten, and each other one has
/// seen that the other writer came before.
#[test]
fn many_writes_of_which_few_took_effect_in_another_order() {
    let mut writers = vec![
        r#"[["w","x",1],["w","made 1",1]]"#.to_owned(),
        r#"[["r","made 1",SEEN],["w","x",2]]"#.to_owned(),
    ];
    writers.extend((3..407).map(|write| match write {
        3..7 => format!(r#"[["w","x",{write}],["w","made {write}",1]]"#),
        _ => format!(r#"[["w","x",{write}]]"#),
    }));
    let mut history = String::new();
    for (kind, seen) in [("invoke", "null"), ("ok", "1")] {
        for (process, ops) in writers.iter().enumerate() {
            history += &format!("{kind} {process} #A {}\n", ops.replace("SEEN", seen));
        }
    }
    for (process, site, read, seen) in [(407, "B", 3, 4), (408, "C", 6, 5), (409, "D", 1, 1)] {
        for (kind, value, made) in [("invoke", "null", "null"), ("ok", &*read.to_string(), "1")] {
            history += &format!(r#"{kind} {process} #{site} [["r","x",{value}],["r","made {seen}",{made}]]"#);
            history.push('\n');
        }
    }
    let history = brief(&history);
    for level in [Level::Si, Level::Psi, Level::WalterPsi, Level::Serializable] {
        let report = quorate_checker::check(&history, level);
        assert_eq!(report.verdict.name(), "valid", "{report}");
    }
}

/// Two snapshots of one site that each miss what the other saw: no order of them fits, whatever the other
/// sites do. Parallel snapshot isolation without sites allows it.
#[test]
fn snapshots_of_one_site_form_a_chain() {
    let history = r#"
        invoke 0 #A [["append","x",1]]
        invoke 1 #A [["append","y",1]]
        invoke 2 #SITE [["r","x",null],["r","y",null]]
        invoke 3 #A [["r","x",null],["r","y",null]]
        ok     0 #A [["append","x",1]]
        ok     1 #A [["append","y",1]]
        ok     2 #SITE [["r","x",[1]],["r","y",[]]]
        ok     3 #A [["r","x",[]],["r","y",[1]]]
    "#;
    let at_one_site = history.replace("SITE", "A");
    assert_eq!(quorate_checker::check(&brief(&at_one_site), Level::Psi).verdict.name(), "valid");
    assert_eq!(anomaly(&at_one_site, Level::WalterPsi), ("long-fork", vec![0, 2, 1, 3]));
    let at_two_sites = brief(&history.replace("SITE", "B"));
    assert_eq!(quorate_checker::check(&at_two_sites, Level::WalterPsi).verdict.name(), "valid");
}

/// Under causal consistency two lists may differ in what they hold, but not in the order of it.
#[test]
fn causal_lists_need_not_be_prefixes_of_one_another() {
    let history = r#"
        invoke 0 [["append","x",1]]
        invoke 1 [["append","x",2]]
        invoke 2 [["append","x",3]]
        invoke 3 [["r","x",null]]
        invoke 4 [["r","x",null]]
        ok     0 [["append","x",1]]
        ok     1 [["append","x",2]]
        ok     2 [["append","x",3]]
        ok     3 [["r","x",[1,2]]]
        ok     4 [["r","x",OTHER]]
    "#;
    let verdict = |other: &str, level| {
        quorate_checker::check(&brief(&history.replace("OTHER", other)), level).verdict.name()
    };
    for other in ["[1,3]", "[2,3]", "[3,2]", "[2]", "[1,3,2]"] {
        assert_eq!(verdict(other, Level::Causal), "valid", "{other}");
        assert_eq!(verdict(other, Level::Psi), "invalid", "{other}");
    }
    assert_eq!(verdict("[2,1]", Level::Causal), "invalid");
    assert_eq!(verdict("[2,3,1]", Level::Causal), "invalid");
}

/// A reader that saw the answer saw the question that its writer had seen.
#[test]
fn causality_violation() {
    let history = r#"
        invoke 0 @asker [["append","question",1]]
        ok     0 @asker [["append","question",1]]
        invoke 1 [["r","question",null],["append","answer",2]]
        ok     1 [["r","question",[1]],["append","answer",2]]
        invoke 2 [["r","answer",null],["r","question",null]]
        ok     2 [["r","answer",[2]],["r","question",[]]]
    "#;
    assert_eq!(anomaly(history, Level::Causal), ("causality-violation", vec![4, 0, 2]));
    let own = history.replace("invoke 2", "invoke 2 @asker").replace("[2]", "[]");
    assert_eq!(anomaly(&own, Level::Causal), ("session-violation", vec![4, 0]));
}

/// A long fork, which rules out snapshot isolation, and more unread appends than a search would order.
#[test]
fn many_unread_appends_beside_a_long_fork() {
    let mut history = String::from(
        r#"
        invoke 0 [["append","x",1]]
        invoke 1 [["append","y",1]]
        invoke 2 [["r","x",null],["r","y",null]]
        invoke 3 [["r","x",null],["r","y",null]]
        ok     0 [["append","x",1]]
        ok     1 [["append","y",1]]
        ok     2 [["r","x",[1]],["r","y",[]]]
        ok     3 [["r","x",[]],["r","y",[1]]]
    "#,
    );
    for txn in 4..404 {
        history += &format!("\ninvoke {txn} [[\"append\",\"z\",{txn}]]\nok {txn} [[\"append\",\"z\",{txn}]]");
    }
    assert_eq!(anomaly(&history, Level::Si).0, "long-fork");
    assert_eq!(quorate_checker::check(&brief(&history), Level::Psi).verdict.name(), "valid");
}
