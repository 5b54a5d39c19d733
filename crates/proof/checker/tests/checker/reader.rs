//! The format: what it accepts, and for each rule a file that breaks it, refused with line and reason.

use std::collections::BTreeMap;

use quorate_checker::history::{Action, Malformed, Outcome, RecordedFacts, Seen};
use quorate_checker::{History, MicroOp, Observed, ReadError, Recorder, Timestamp};

use crate::{brief, expand};

/// The line and the reason for which a file is refused.
fn refusal(json: &str) -> (u64, Malformed) {
    match History::read(json.as_bytes()) {
        Ok(_) => panic!("accepted:\n{json}"),
        Err(ReadError::Malformed { line, reason }) => (line, reason),
        Err(error) => panic!("{error}"),
    }
}

fn refusal_of_brief(text: &str) -> (u64, Malformed) {
    refusal(&expand(text))
}

/// A line with one field changed, after a good first line.
fn second_line(from: &str, to: &str) -> (u64, Malformed) {
    let json = expand("invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]");
    let (first, second) = json.split_once('\n').unwrap();
    let changed = second.replacen(from, to, 1);
    assert_ne!(changed, second);
    refusal(&format!("{first}\n{changed}"))
}

#[test]
fn an_empty_file() {
    assert_eq!(refusal(""), (1, Malformed::Empty));
}

#[test]
fn bad_json() {
    for (from, to, expected) in [
        ("{", "", "an object"),
        ("{", "[", "an object"),
        ("\"index\":1,", "\"index\":1", "`,` or `}`"),
        ("\"index\":", "\"index\" ", "`:`"),
        ("\"append\",\"x\",1]", "\"append\",\"x\",1", "`,` or `]`"),
        ("\"append\",\"x\",1", "\"append\",\"x\"", "an argument"),
        ("\"append\",\"x\",1", "\"append\"", "a key and an argument"),
        ("\"append\",\"x\",1", "\"append\",\"x\",1,2", "the end of the operation"),
        ("}", "", "`,` or `}`"),
        ("}", "}}", "the end of the line"),
        ("}", "} {}", "the end of the line"),
    ] {
        let (line, reason) = second_line(from, to);
        let matches = matches!(&reason, Malformed::Json { expected: found, .. } if *found == expected)
            || matches!(&reason, Malformed::Json { .. }) && to.ends_with(",1");
        assert!(line == 2 && matches, "{from} -> {to}: {reason}");
    }
    let blank = expand("invoke 0 [[\"append\",\"x\",1]]") + "\n";
    assert!(matches!(refusal(&blank), (2, Malformed::Json { .. })), "a blank line");
    assert_eq!(refusal("\u{7f}").0, 1);
    let error = History::read(&b"{\"f\":\"\xff\"}"[..]).unwrap_err();
    assert_eq!(error.to_string(), "line 1: the line is not valid UTF-8");
}

#[test]
fn wrong_types() {
    for (from, to) in [
        ("\"index\":1", "\"index\":\"1\""),
        ("\"index\":1", "\"index\":1.0"),
        ("\"type\":\"ok\"", "\"type\":1"),
        ("\"process\":0", "\"process\":\"0\""),
        ("\"process\":0", "\"process\":null"),
        ("\"time\":10", "\"time\":1e1"),
        ("\"time\":10", "\"time\":\"10\""),
        ("\"time\":10", "\"session\":1,\"time\":10"),
        ("\"time\":10", "\"site\":1,\"time\":10"),
        ("\"time\":10", "\"observed\":1,\"time\":10"),
        ("\"time\":10", "\"elsewhere\":1,\"time\":10"),
        ("\"time\":10", "\"ts\":\"1\",\"time\":10"),
        ("\"time\":10", "\"ts\":[1],\"time\":10"),
        ("\"time\":10", "\"ts\":[1,2,3],\"time\":10"),
        ("\"value\":[[", "\"value\":[{},["),
        ("[[\"append\",\"x\",1]]", "null"),
        ("[[\"append\",\"x\",1]]", "{}"),
        ("\"x\"", "null"),
        ("\"x\"", "1.5"),
        ("\"x\",1", "\"x\",\"1\""),
        ("\"x\",1", "\"x\",null"),
        ("\"x\",1", "\"x\",1.5"),
        ("\"append\",\"x\",1", "\"r\",\"x\",\"1\""),
        ("\"append\",\"x\",1", "\"r\",\"x\",true"),
        ("\"append\",\"x\",1", "\"r\",\"x\",[\"1\"]"),
        ("\"append\",\"x\",1", "\"r\",\"x\",[1,]"),
        ("\"append\",\"x\",1", "\"r\",\"x\",{\"1\":null}"),
    ] {
        let (line, reason) = second_line(from, to);
        assert!(line == 2 && matches!(reason, Malformed::Json { .. }), "{from} -> {to}: {reason}");
    }
}

#[test]
fn missing_repeated_and_unknown_fields() {
    for (field, text) in [
        ("index", "\"index\":1,"),
        ("type", "\"type\":\"ok\","),
        ("process", "\"process\":0,"),
        ("time", "\"time\":10,"),
        ("value", ",\"value\":[[\"append\",\"x\",1]]"),
    ] {
        let text = if field == "value" { text.trim_start_matches(',') } else { text };
        let (line, reason) = match field {
            "value" => second_line("\"time\":10,\"value\":[[\"append\",\"x\",1]]", "\"time\":10"),
            _ => second_line(text, ""),
        };
        assert_eq!((line, reason), (2, Malformed::MissingField(field)));
    }
    assert_eq!(second_line("{", "{\"time\":1,"), (2, Malformed::RepeatedField("time")));
    assert_eq!(second_line("\"ok\"", "\"okay\""), (2, Malformed::UnknownType("okay".into())));
    assert_eq!(second_line("\"txn\"", "\"read\""), (2, Malformed::UnknownFunction("read".into())));
    assert_eq!(second_line("\"append\"", "\"push\""), (2, Malformed::UnknownOperation("push".into())));
}

#[test]
fn foreign_fields_are_passed_over() {
    let json = expand("invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]");
    let extended = json.replace("\"f\"", "\"note\":{\"A\":[1,2]},\"error\":\"e\\\"\",\"f\"");
    assert_eq!(History::read(extended.as_bytes()).unwrap().txn_count(), 1);
    assert_eq!(refusal(&json.replacen("\"f\"", "\"note\":[1,,2],\"f\"", 1)).0, 1, "yet they must be JSON");
}

#[test]
fn the_index_is_contiguous() {
    assert_eq!(
        second_line("\"index\":1", "\"index\":2"),
        (2, Malformed::IndexNotContiguous { expected: 1, found: 2 })
    );
    assert_eq!(
        second_line("\"index\":1", "\"index\":0"),
        (2, Malformed::IndexNotContiguous { expected: 1, found: 0 })
    );
}

#[test]
fn time_does_not_go_back() {
    assert_eq!(
        second_line("\"time\":10", "\"time\":-1"),
        (2, Malformed::TimeGoesBack { before: 0, now: -1 })
    );
    let json = expand("invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]")
        .replace("\"time\":10", "\"time\":0");
    assert!(History::read(json.as_bytes()).is_ok(), "one instant may hold several events");
}

#[test]
fn processes_run_one_transaction_at_a_time() {
    let two = "invoke 0 [[\"append\",\"x\",1]]\ninvoke 0 [[\"append\",\"x\",2]]";
    assert_eq!(refusal_of_brief(two), (2, Malformed::TwoOpenTransactions(0)));
    for end in ["ok", "fail", "info", "spec"] {
        let without_invoke = format!("{end} 3 [[\"append\",\"x\",1]]");
        assert_eq!(refusal_of_brief(&without_invoke), (1, Malformed::NoOpenTransaction(3)), "{end}");
    }
    let twice = "invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]";
    assert_eq!(refusal_of_brief(twice), (3, Malformed::NoOpenTransaction(0)));
    assert_eq!(second_line("\"process\":0", "\"process\":-1"), (2, Malformed::NegativeProcess(-1)));
}

#[test]
fn a_process_is_silent_after_an_unknown_outcome() {
    let info = "invoke 0 [[\"append\",\"x\",1]]\ninfo 0 [[\"append\",\"x\",1]]\n";
    for next in ["invoke 0 [[\"append\",\"x\",2]]", "ok 0 [[\"append\",\"x\",1]]"] {
        assert_eq!(refusal_of_brief(&format!("{info}{next}")), (3, Malformed::ProcessReused(0)), "{next}");
    }
}

#[test]
fn a_completion_has_the_shape_of_its_invocation() {
    let invoke = "invoke 0 [[\"append\",\"x\",1],[\"r\",\"y\",null]]\n";
    for (position, completion) in [
        (1, r#"[["append","x",2],["r","y",[]]]"#),
        (1, r#"[["append","z",1],["r","y",[]]]"#),
        (1, r#"[["r","x",null],["r","y",[]]]"#),
        (1, r#"[["r","y",[]],["append","x",1]]"#),
        (2, r#"[["append","x",1],["r","z",[]]]"#),
        (2, r#"[["append","x",1],["append","y",2]]"#),
        (2, r#"[["append","x",1]]"#),
        (3, r#"[["append","x",1],["r","y",[]],["r","y",[]]]"#),
    ] {
        for end in ["ok", "fail", "info", "spec"] {
            let refused = refusal_of_brief(&format!("{invoke}{end} 0 {completion}"));
            assert_eq!(refused, (2, Malformed::ShapeDiffers { position }), "{end} {completion}");
        }
    }
    let register = "invoke 0 [[\"w\",\"x\",1]]\nok 0 [[\"w\",\"x\",2]]";
    assert_eq!(refusal_of_brief(register), (2, Malformed::ShapeDiffers { position: 1 }));
}

#[test]
fn a_completion_keeps_session_and_site() {
    let history = "invoke 0 @s #A [[\"append\",\"x\",1]]\nok 0 FIELD [[\"append\",\"x\",1]]";
    assert_eq!(refusal_of_brief(&history.replace("FIELD", "@t")), (2, Malformed::OriginDiffers("session")));
    assert_eq!(refusal_of_brief(&history.replace("FIELD", "#B")), (2, Malformed::OriginDiffers("site")));
    assert_eq!(brief(&history.replace("FIELD", "@s #A")).txn_count(), 1);
}

#[test]
fn an_invocation_carries_no_results() {
    for result in ["1", "[]", "[1]", "{}"] {
        let history = format!("invoke 0 [[\"r\",\"x\",{result}]]");
        assert_eq!(refusal_of_brief(&history), (1, Malformed::ReadInInvocation), "{result}");
    }
}

#[test]
fn written_values_are_unique_per_key() {
    for write in ["append", "w"] {
        let history = format!(
            "invoke 0 [[\"{write}\",\"x\",1],[\"{write}\",\"y\",1]]\nfail 0 [[\"{write}\",\"x\",1],[\"{write}\",\"y\",1]]\n\
             invoke 1 [[\"{write}\",\"y\",2],[\"{write}\",\"x\",1]]"
        );
        let duplicate = Malformed::DuplicateWrite { key: "x".into(), value: 1 };
        assert_eq!(refusal_of_brief(&history), (3, duplicate), "{write}");
    }
    assert_eq!(
        brief("invoke 0 [[\"add\",\"x\",1],[\"add\",\"x\",1]]").op_count(),
        2,
        "added elements may repeat"
    );
}

#[test]
fn written_values_are_below_two_to_the_53() {
    let bound = 1_i64 << 53;
    for write in ["append", "w", "add", "rem"] {
        for value in [bound, -bound, i64::MAX, i64::MIN] {
            let history = format!("invoke 0 [[\"{write}\",\"x\",{value}]]");
            assert_eq!(refusal_of_brief(&history), (1, Malformed::ValueTooLarge(value)), "{write}");
        }
        assert_eq!(brief(&format!("invoke 0 [[\"{write}\",\"x\",{}]]", bound - 1)).op_count(), 1);
    }
}

#[test]
fn a_key_has_one_type() {
    let types = [
        ("list", r#"["append","x",1]"#),
        ("register", r#"["w","x",1]"#),
        ("counting set", r#"["add","x",1]"#),
    ];
    for (before, one) in types {
        for (now, other) in types.into_iter().filter(|(now, _)| *now != before) {
            let refused = refusal_of_brief(&format!("invoke 0 [{one}]\ninvoke 1 [{other}]"));
            assert_eq!(refused, (2, Malformed::KeyOfTwoTypes { key: "x".into(), before, now }));
        }
    }
    for (before, result) in [("list", "1"), ("list", "{}"), ("register", "[1]"), ("register", "{\"1\":1}")] {
        let write = if before == "list" { "append" } else { "w" };
        let history = format!(
            "invoke 0 [[\"{write}\",\"x\",1]]\ninvoke 1 [[\"r\",\"x\",null]]\nok 1 [[\"r\",\"x\",{result}]]"
        );
        assert!(
            matches!(refusal_of_brief(&history), (3, Malformed::KeyOfTwoTypes { .. })),
            "{before} {result}"
        );
    }
    assert_eq!(
        brief("invoke 0 [[\"append\",1,1],[\"w\",\"1\",1]]").key_count(),
        2,
        "1 and \"1\" are two keys"
    );
}

#[test]
fn counting_sets_name_elements_once_and_not_with_zero() {
    for (result, element) in
        [("{\"1\":1,\"1\":2}", "1"), ("{\"2\":0}", "2"), ("{\"ada\":1,\"ada\":1}", "ada")]
    {
        let history = format!("invoke 0 [[\"r\",\"x\",null]]\nok 0 [[\"r\",\"x\",{result}]]");
        assert_eq!(refusal_of_brief(&history), (2, Malformed::BadElement(element.to_owned())));
    }
}

#[test]
fn speculation_and_loss_need_their_transactions() {
    let spec =
        "invoke 0 [[\"append\",\"x\",1]]\nspec 0 [[\"append\",\"x\",1]]\nspec 0 [[\"append\",\"x\",1]]";
    assert_eq!(refusal_of_brief(spec), (3, Malformed::SecondSpeculation(0)));
    for end in ["fail", "info"] {
        let lost = format!(
            "invoke 0 [[\"append\",\"x\",1]]\n{end} 0 [[\"append\",\"x\",1]]\nlost 0 [[\"append\",\"x\",1]]"
        );
        assert_eq!(refusal_of_brief(&lost), (3, Malformed::NothingLost(0)), "{end}");
    }
    let other = "invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]\nlost 0 [[\"append\",\"x\",2]]";
    assert_eq!(refusal_of_brief(other), (3, Malformed::NothingLost(0)));
    let earlier = "invoke 0 [[\"append\",\"x\",1]]\nok 0 [[\"append\",\"x\",1]]\ninvoke 0 [[\"append\",\"x\",2]]\n\
                   ok 0 [[\"append\",\"x\",2]]\nlost 0 [[\"append\",\"x\",1]]";
    let lost: Vec<bool> = brief(earlier).txns().iter().map(|txn| txn.lost).collect();
    assert_eq!(lost, [true, false], "the operations say which transaction was lost");
}

#[test]
fn reads_without_a_known_result_stay_unknown() {
    for (end, seen) in [
        ("fail 0", Seen::Nothing),
        ("info 0", Seen::Nothing),
        ("fail 0 !", Seen::Register(3)),
        ("ok 0", Seen::Register(3)),
    ] {
        let history = brief(&format!("invoke 0 [[\"r\",\"x\",null]]\n{end} [[\"r\",\"x\",3]]"));
        assert_eq!(history.ops(&history.txns()[0])[0].action, Action::Read(seen), "{end}");
    }
}

#[test]
fn every_field_arrives() {
    let history = brief(
        r#"
        invoke 7 @alice #A [["append","x",1],["r","s",null],["r",3,null]]
        spec   7 [["append","x",1],["r","s",{"4":-2}],["r",3,8]]
        fail   7 ! ts=5:6 [["append","x",1],["r","s",{}],["r",3,9]]
        invoke 8 [["rem","s",4],["r","x",null],["w",3,9]]
    "#,
    );
    let [first, second] = history.txns() else { panic!("two transactions") };
    assert_eq!((first.process, first.invoke, first.completion), (7, 0, Some(2)));
    assert_eq!((first.invoked_at, first.completed_at), (0, 20));
    assert_eq!(
        (first.outcome, first.observed, first.ts),
        (Outcome::Aborted, true, Some(Timestamp { time: 5, client: 6 }))
    );
    assert_eq!(history.session_name(first.session), "alice");
    assert_eq!(first.site.map(|site| history.site_name(site)), Some("A"));
    assert_eq!(history.ops(first)[2].action, Action::Read(Seen::Register(9)));
    let speculated = history.speculated_ops(&first.speculation.unwrap());
    let Action::Read(Seen::Set(set)) = speculated[1].action else { panic!("a set") };
    assert_eq!(history.set(set), [(4, -2)]);
    assert_eq!((second.outcome, second.completion), (Outcome::Unknown, None));
    assert_eq!(history.session_name(second.session), "8");
    assert_eq!(history.ops(second)[1].action, Action::Read(Seen::Nothing));
    assert_eq!((history.txn_count(), history.op_count(), history.event_count()), (2, 6, 4));
}

/// Every recording, written and read again, gives the same history.
#[test]
fn a_recording_survives_the_way_through_json() {
    let mut recorder = Recorder::new();
    let read = |key: &str, observed| MicroOp::Read(key.into(), observed);
    let one = recorder.invoke(0, 5);
    recorder.session(one, "al \"ice\"");
    recorder.site(one, "A");
    recorder.timestamp(one, Timestamp { time: 9, client: 2 });
    let two = recorder.invoke(1, 5);
    recorder.attempt(two, MicroOp::Write(7.into(), 1));
    let ops =
        vec![MicroOp::Append("l".into(), 1), read("l", Observed::List(vec![1])), read("é\n", Observed::Null)];
    recorder.speculate(one, 6, ops.clone());
    recorder.ok(one, 7, ops);
    recorder.lost(one, 8);
    recorder.info(two, 8);
    let three = recorder.invoke(2, 9);
    let sets = vec![
        MicroOp::Add("s".into(), 1),
        MicroOp::Remove("s".into(), 2),
        read("s", Observed::Set(BTreeMap::from([(1, 1), (2, -1)]))),
    ];
    recorder.elsewhere(three);
    recorder.fail_observed(three, 10, sets);
    let four = recorder.invoke(2, 10);
    recorder.attempt(four, read("7", Observed::Register(4)));
    recorder.fail(four, 11);
    assert_eq!(recorder.event_count(), 10);
    let mut json = Vec::new();
    recorder.write_json(&mut json).unwrap();
    let written = History::read(&json[..]).unwrap_or_else(|error| panic!("{error}"));
    let direct = recorder.into_history().unwrap();
    assert_eq!(format!("{written:?}"), format!("{direct:?}"));
    assert!(
        String::from_utf8(json)
            .unwrap()
            .contains(r#""session":"al \"ice\"","ts":[9,2],"value":[["append","l",1],["r","l",[1]]"#)
    );
}

/// A chain as a client of STR records it: the snapshot and the local commit with the speculative result, the final commit with the outcome.
#[test]
fn facts_of_a_recording_come_bit_by_bit() {
    let at = |time| Some(Timestamp { time, client: 3 });
    let mut recorder = Recorder::new();
    let write = |value| vec![MicroOp::Append("x".into(), value)];
    let [one, two] = [0, 1].map(|process| {
        let txn = recorder.invoke(process, 10 * process as i64);
        recorder.session(txn, "chain");
        recorder.site(txn, "node2");
        recorder.attempt(txn, MicroOp::Append("x".into(), process as i64));
        recorder.facts(txn, RecordedFacts { rs: at(4), lc: at(5), ..RecordedFacts::default() });
        recorder.speculate(txn, 10 * process as i64 + 1, write(process as i64));
        txn
    });
    recorder.facts(one, RecordedFacts { fc: at(7), ..RecordedFacts::default() });
    recorder.ok(one, 20, write(0));
    recorder.fail(two, 21);
    recorder.facts(two, RecordedFacts { lc: at(6), ..RecordedFacts::default() });
    let history = recorder.to_history().unwrap();
    let facts: Vec<_> = history.txns().iter().map(|txn| history.facts(txn).unwrap().clone()).collect();
    assert_eq!((facts[0].rs, facts[0].lc, facts[0].fc), (at(4), at(5), at(7)));
    assert_eq!((facts[1].rs, facts[1].lc, facts[1].fc), (at(4), at(6), None), "what is said last counts");
    let [one, two] = history.txns() else { panic!("two transactions") };
    assert_eq!((one.session, one.process, two.process), (two.session, 0, 1));
    assert!(
        two.invoke > one.speculation.unwrap().index
            && one.completion > two.speculation.map(|spec| spec.index)
    );
}

#[test]
fn a_recording_obeys_the_same_rules() {
    let mut recorder = Recorder::new();
    let one = recorder.invoke(0, 5);
    recorder.ok(one, 4, vec![]);
    assert_eq!(recorder.into_history().unwrap_err().to_string(), "line 2: time goes back from 5 to 4");
    let mut recorder = Recorder::new();
    let one = recorder.invoke(0, 5);
    recorder.attempt(one, MicroOp::Append("x".into(), 1 << 53));
    let error = recorder.into_history().unwrap_err();
    assert_eq!(error.to_string(), "line 1: written value 9007199254740992 is not below 2^53");
    assert_eq!(Recorder::new().into_history().unwrap_err().to_string(), "line 1: the history is empty");
}

#[test]
fn an_input_that_fails_is_reported() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("unplugged"))
        }
    }
    let error = History::read(Broken).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the history: unplugged");
}
