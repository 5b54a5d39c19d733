//! Parts of recordings: up to an instant, and about some keys.

use quorate_checker::{Key, Level, MicroOp, Observed, RecordedTxn, Recorder, Verdict, check};

fn append(key: &str, value: i64) -> MicroOp {
    MicroOp::Append(key.into(), value)
}

fn read(key: &str, values: &[i64]) -> MicroOp {
    MicroOp::Read(key.into(), Observed::List(values.to_vec()))
}

/// One process after the other does this, and is told that it is done.
fn recorded(transactions: &[&[MicroOp]]) -> (Recorder, Vec<RecordedTxn>) {
    let mut recorder = Recorder::new();
    let mut txns = Vec::new();
    for (at, ops) in (0i64..).zip(transactions) {
        let txn = recorder.invoke(0, 10 * at);
        recorder.ok(txn, 10 * at + 5, ops.to_vec());
        txns.push(txn);
    }
    (recorder, txns)
}

fn verdict(recorder: &Recorder) -> Verdict {
    check(&recorder.to_history().expect("it is well formed"), Level::StrictSerializable).verdict
}

fn is(key: &'static str) -> impl Fn(&Key) -> bool {
    move |other| *other == Key::from(key)
}

#[test]
fn a_recording_up_to_an_instant_leaves_open_what_is_open_then() {
    let (recorder, _) = recorded(&[&[append("x", 1)], &[append("x", 2)], &[read("x", &[])]]);
    assert_eq!(verdict(&recorder), Verdict::Invalid, "acknowledged appends are missing");
    assert_eq!(verdict(&recorder.until(19)), Verdict::Valid);
    let history = recorder.until(14).to_history().unwrap();
    assert_eq!((history.txn_count(), history.event_count()), (2, 3), "the second has no outcome");
    assert_eq!(recorder.until(-1).event_count(), 0);
}

#[test]
fn a_recording_about_some_keys_says_nothing_of_others() {
    let (recorder, txns) = recorded(&[&[append("x", 1), append("y", 1)], &[read("x", &[]), read("y", &[1])]]);
    assert_eq!(verdict(&recorder), Verdict::Invalid, "the first was lost on x");
    assert_eq!(verdict(&recorder.about(is("y"), |_| false)), Verdict::Valid);
    assert_eq!(verdict(&recorder.about(is("x"), |_| false)), Verdict::Invalid);
    assert_eq!(verdict(&recorder.about(is("x"), |txn| txn == txns[0])), Verdict::Valid);
    // An unknown transaction has happened as one, or not at all.
    assert_eq!(verdict(&recorder.about(|_| true, |txn| txn == txns[0])), Verdict::Invalid);
}

#[test]
fn the_session_of_what_is_unknown_goes_on_without_it() {
    let (recorder, txns) = recorded(&[&[append("x", 1)], &[append("x", 2)], &[read("x", &[2])]]);
    assert_eq!(verdict(&recorder.about(|_| true, |txn| txn == txns[0])), Verdict::Valid);
    assert_eq!(verdict(&recorder.about(|_| true, |txn| txn == txns[1])), Verdict::Invalid);
}

#[test]
fn what_is_in_pieces_has_happened_in_part() {
    let read_in_part = [read("x", &[]), read("y", &[1])];
    let (recorder, txns) = recorded(&[&[append("x", 1), append("y", 1), read("z", &[7])], &read_in_part]);
    assert_eq!(
        verdict(&recorder),
        Verdict::Invalid,
        "the first was lost on x, and has read what nobody wrote"
    );
    assert_eq!(verdict(&recorder.in_pieces(|txn| txn == txns[0])), Verdict::Valid);
    assert_eq!(verdict(&recorder.in_pieces(|_| false)), Verdict::Invalid);
    let history = recorder.in_pieces(|_| true).to_history().expect("it is well formed");
    assert_eq!((history.txn_count(), history.event_count()), (2, 2), "what only reads leaves nothing");
    // A piece that was seen is there from then on.
    let (recorder, txns) = recorded(&[&[append("x", 1)], &[read("x", &[1])], &[read("x", &[])]]);
    assert_eq!(verdict(&recorder.in_pieces(|txn| txn == txns[0])), Verdict::Invalid);
    assert_eq!(verdict(&recorder.in_pieces(|txn| txn != txns[2])), Verdict::Valid);
}
