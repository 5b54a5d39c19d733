//! The formats of other checkers: a small history with everything, as each of them has it.

use quorate_checker::export::{ExportError, Format, LeftOut, write};
use quorate_checker::{History, Level, Verdict, check};

use crate::brief;

/// Lists, each outcome, a speculative commit, a named session that overlaps itself, and keys with odd names.
const LISTS: &str = r#"
    invoke 0 @s #A [["append","x",1],["r","k\"\\\u0001",null]]
    invoke 1 @s [["append","x",2],["append",7,5]]
    spec   0 [["append","x",1],["r","k\"\\\u0001",[]]]
    ok     0 ts=3:1 [["append","x",1],["r","k\"\\\u0001",[]]]
    fail   1 ! [["append","x",2],["append",7,5]]
    invoke 2 [["append","x",3]]
    invoke 3 [["append","x",4]]
    info   2 [["append","x",3]]
    info   3 [["append","x",4]]
    invoke 0 @s [["r","x",null],["r","r",null]]
    ok     0 ts=9:2 [["r","x",[1,3]],["r","r",null]]
    invoke 4 [["w","r",8]]
    ok     4 ts=10 [["w","r",8]]
"#;

const REGISTERS: &str = r#"
    invoke 0 [["w","x",1],["w","y",1]]
    ok     0 ts=3 rs=2:1 fc=4 [["w","x",1],["w","y",1]]
    invoke 1 @s [["r","x",null],["w","x",2],["add","s",1]]
    ok     1 ts=5 [["r","x",1],["w","x",2],["add","s",1]]
    invoke 1 @s [["r","x",null],["r","y",null],["r","z",null]]
    ok     1 rs=6 [["r","x",2],["r","y",77],["r","z",null]]
    invoke 2 [["r","x",null]]
"#;

fn export(history: &History, format: Format) -> (String, LeftOut) {
    let mut bytes = Vec::new();
    let left_out = write(history, format, &mut bytes).unwrap_or_else(|error| panic!("{error}"));
    (String::from_utf8(bytes).unwrap(), left_out)
}

#[test]
fn elle_reads_lists_in_edn() {
    let (text, left_out) = export(&brief(LISTS), Format::Elle);
    let expected = r#"
{:index 0, :type :invoke, :process 0, :f :txn, :time 0, :value [[:append "x" 1] [:r "k\"\\\u0001" nil]]}
{:index 1, :type :invoke, :process 1, :f :txn, :time 10, :value [[:append "x" 2] [:append 7 5]]}
{:index 2, :type :ok, :process 0, :f :txn, :time 30, :value [[:append "x" 1] [:r "k\"\\\u0001" []]]}
{:index 3, :type :fail, :process 1, :f :txn, :time 40, :value [[:append "x" 2] [:append 7 5]]}
{:index 4, :type :invoke, :process 2, :f :txn, :time 50, :value [[:append "x" 3]]}
{:index 5, :type :invoke, :process 3, :f :txn, :time 60, :value [[:append "x" 4]]}
{:index 6, :type :info, :process 2, :f :txn, :time 70, :value [[:append "x" 3]]}
{:index 7, :type :info, :process 3, :f :txn, :time 80, :value [[:append "x" 4]]}
{:index 8, :type :invoke, :process 0, :f :txn, :time 90, :value [[:r "x" nil]]}
{:index 9, :type :ok, :process 0, :f :txn, :time 100, :value [[:r "x" [1 3]]]}
{:index 10, :type :invoke, :process 4, :f :txn, :time 110, :value []}
{:index 11, :type :ok, :process 4, :f :txn, :time 120, :value []}
"#;
    assert_eq!(text, expected.trim_start());
    assert_eq!((left_out.ops, left_out.speculative_commits), (2, 1));
}

#[test]
fn elle_reads_registers_in_edn() {
    let (text, left_out) = export(&brief(REGISTERS), Format::Elle);
    let expected = r#"
{:index 0, :type :invoke, :process 0, :f :txn, :time 0, :value [[:w "x" 1] [:w "y" 1]]}
{:index 1, :type :ok, :process 0, :f :txn, :time 10, :value [[:w "x" 1] [:w "y" 1]]}
{:index 2, :type :invoke, :process 1, :f :txn, :time 20, :value [[:r "x" nil] [:w "x" 2]]}
{:index 3, :type :ok, :process 1, :f :txn, :time 30, :value [[:r "x" 1] [:w "x" 2]]}
{:index 4, :type :invoke, :process 1, :f :txn, :time 40, :value [[:r "x" nil] [:r "y" nil] [:r "z" nil]]}
{:index 5, :type :ok, :process 1, :f :txn, :time 50, :value [[:r "x" 2] [:r "y" 77] [:r "z" nil]]}
{:index 6, :type :invoke, :process 2, :f :txn, :time 60, :value [[:r "x" nil]]}
"#;
    assert_eq!(text, expected.trim_start());
    assert_eq!(left_out, LeftOut { ops: 1, ..LeftOut::default() });
}

#[test]
fn porcupine_reads_one_object_per_transaction() {
    let (text, left_out) = export(&brief(LISTS), Format::Porcupine);
    let expected = r#"
{"call":0,"call_time":0,"client":0,"input":[["append","x",1],["r","k\"\\\u0001",null]],"output":[["append","x",1],["r","k\"\\\u0001",null]],"return":3,"return_time":30}
{"call":5,"call_time":50,"client":2,"input":[["append","x",3]],"output":null,"return":null,"return_time":null}
{"call":6,"call_time":60,"client":3,"input":[["append","x",4]],"output":null,"return":null,"return_time":null}
{"call":9,"call_time":90,"client":0,"input":[["r","x",null],["r","r",null]],"output":[["r","x",[1,3]],["r","r",null]],"return":10,"return_time":100}
{"call":11,"call_time":110,"client":4,"input":[["w","r",8]],"output":[["w","r",8]],"return":12,"return_time":120}
"#;
    assert_eq!(text, expected.trim_start());
    assert_eq!(left_out.txns, 1, "the aborted one");
    let (sets, _) = export(
        &brief(
            "invoke 0 [[\"rem\",\"s\",1],[\"r\",\"s\",null]]\nok 0 [[\"rem\",\"s\",1],[\"r\",\"s\",{\"1\":-1}]]",
        ),
        Format::Porcupine,
    );
    assert!(sets.contains(r#""output":[["rem","s",1],["r","s",{"1":-1}]]"#), "{sets}");
}

#[test]
fn dbcop_reads_sessions_of_versions() {
    let (text, left_out) = export(&brief(LISTS), Format::Dbcop);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = serde_json::json!([
        [
            {"committed": true, "events": [
                {"Write": {"variable": 0, "version": 1}},
                {"Read": {"variable": 1, "version": null}}]},
            {"committed": true, "events": [
                {"Read": {"variable": 0, "version": 3}},
                {"Read": {"variable": 3, "version": null}}]},
        ],
        [{"committed": true, "events": [{"Write": {"variable": 0, "version": 3}}]}],
        [{"committed": true, "events": [{"Write": {"variable": 3, "version": 6}}]}],
    ]);
    assert_eq!(json["data"], expected);
    assert_eq!(json["params"]["n_node"], 3);
    assert_eq!((left_out.txns, left_out.list_elements), (2, 1));
    let (text, _) = export(&brief(REGISTERS), Format::Dbcop);
    assert!(text.contains(r#"{"Read":{"variable":1,"version":4}}"#), "nobody wrote version 4: {text}");
}

#[test]
fn timekiller_reads_timestamps() {
    let lists = LISTS.replace("info   2 [", "info   2 ts=7 [");
    let (text, left_out) = export(&brief(&lists), Format::TimeKiller);
    let expected = r#"
[
{"cts":{"l":1,"p":3},"ops":[{"k":0,"t":"a","v":1},{"k":1,"t":"r","v":[]}],"sid":"s","sts":{"l":1,"p":3},"tid":0},
{"cts":{"l":0,"p":7},"ops":[{"k":0,"t":"a","v":3}],"sid":"2","sts":{"l":0,"p":7},"tid":5},
{"cts":{"l":2,"p":9},"ops":[{"k":0,"t":"r","v":[1,3]}],"sid":"s","sts":{"l":2,"p":9},"tid":9},
{"cts":{"l":0,"p":10},"ops":[],"sid":"4","sts":{"l":0,"p":10},"tid":11}
]
"#;
    assert_eq!(text, expected.trim_start());
    assert_eq!((left_out.txns, left_out.ops), (2, 2));
    let (text, _) = export(&brief(REGISTERS), Format::TimeKiller);
    assert!(text.contains(r#""sts":{"l":1,"p":2}"#) && text.contains(r#""cts":{"l":0,"p":4}"#), "{text}");
    let error = write(&brief(LISTS), Format::TimeKiller, Vec::new()).unwrap_err();
    assert!(matches!(&error, ExportError::Inexpressible(why) if why.contains("line 6")), "{error}");
}

#[test]
fn what_cannot_be_expressed_is_refused_or_said() {
    let sets = brief("invoke 0 [[\"add\",\"s\",1]]\nok 0 ts=1 [[\"add\",\"s\",1]]");
    for format in [Format::Elle, Format::Dbcop, Format::TimeKiller] {
        let refused = write(&sets, format, Vec::new());
        assert!(matches!(refused, Err(ExportError::Inexpressible(_))), "{format}");
    }
    for format in Format::ALL {
        assert!(format.limits().len() > 2 && format.limits().iter().all(|limit| limit.ends_with('.')));
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert_eq!(
        LeftOut { txns: 2, ops: 1, ..LeftOut::default() }.to_string(),
        "2 transactions, 1 operations on keys of other types"
    );
    assert_eq!(LeftOut::default().to_string(), "nothing");
}

/// dbcop takes them for versions that others might have seen.
#[test]
fn dbcop_does_not_hear_what_a_transaction_tells_itself() {
    let events = |own_read: &str, other_read: &str| {
        let history = brief(&format!(
            r#"
            invoke 0 [["r","x",null],["w","x",1],["r","x",null],["w","x",2],["r","x",null],["r","x",null]]
            ok     0 [["r","x",null],["w","x",1],["r","x",{own_read}],["w","x",2],["r","x",2],["r","x",2]]
            invoke 1 [["r","x",null],["r","x",null]]
            ok     1 [["r","x",{other_read}],["r","x",{other_read}]]
        "#
        ));
        let json: serde_json::Value = serde_json::from_str(&export(&history, Format::Dbcop).0).unwrap();
        let sessions = json["data"].as_array().unwrap().iter();
        sessions.map(|session| session[0]["events"].as_array().unwrap().len()).collect::<Vec<_>>()
    };
    assert_eq!(events("1", "2"), [2, 1], "a read and the final write; a read");
    assert_eq!(events("1", "1"), [3, 1], "the other one must not read an intermediate write");
    assert_eq!(events("null", "2"), [3, 1], "its own read contradicts its own write");
}

/// The lost transaction, and what read from it at its site, aborted as far as other checkers know.
#[test]
fn lost_transactions_are_written_as_aborted() {
    let history = brief(
        r#"
        invoke 0 #A [["append","x",1]]
        ok     0 [["append","x",1]]
        invoke 1 #A [["r","x",null],["append","y",2]]
        ok     1 [["r","x",[1]],["append","y",2]]
        lost   0 [["append","x",1]]
        invoke 2 #B [["r","y",null]]
        ok     2 [["r","y",[]]]
    "#,
    );
    assert_eq!(check(&history, Level::Serializable).verdict, Verdict::Valid);
    let (text, _) = export(&history, Format::Elle);
    assert_eq!(text.matches(":type :fail").count(), 2, "{text}");
    assert_eq!(export(&history, Format::Porcupine).1.txns, 2);
    assert_eq!(export(&history, Format::Dbcop).1.txns, 2, "nobody else read from them");
}
