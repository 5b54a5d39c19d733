//! States that are frozen at a place and read page by page.

use quorate_core::{ClockTime, TransactionId, Value};
use quorate_granola::{Answer as Answered, Application};
use quorate_serializable_shard::{
    Answer, Condition, Found, Freeze, Operation, ReadFrozen, Refusal, Shard, Step, read_answer,
};

use crate::batches::{batch, key, place, put, run};

/// The keys of one page.
const PAGE_KEYS: usize = 10_000;

fn freeze(reader: u64) -> Value {
    Operation::Freeze(Freeze { reader }).encode()
}

fn read_frozen(reader: u64, at: u64, after: &str) -> Value {
    let at = ClockTime::from_micros(at);
    Operation::ReadFrozen(ReadFrozen { reader, at, procedures: false, after: key(after) }).encode()
}

fn reads(shard: &Shard, before: u64, operation: &Value) -> Result<Answer, Refusal> {
    read_answer(&shard.read(place(before), operation).answer).unwrap()
}

/// The timestamp at which a reader has had it frozen.
fn frozen_at(shard: &Shard, before: u64, reader: u64) -> u64 {
    match reads(shard, before, &freeze(reader)) {
        Ok(Answer::Batch(found)) => match found[..] {
            [Found::Length(_), Found::Number(micros)] => micros.cast_unsigned(),
            _ => panic!("{found:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Keys and values of a page, and whether there may be more.
fn page(shard: &Shard, now: u64, reader: u64, at: u64, after: &str) -> (Vec<(String, String)>, bool) {
    match reads(shard, now, &read_frozen(reader, at, after)) {
        Ok(Answer::Batch(found)) => match &found[..] {
            [Found::Keys { keys, more }] => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                (keys.iter().map(|found| (text(&found.key), text(&found.held.value))).collect(), *more)
            }
            _ => panic!("{found:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn writes(shard: &mut Shard, at: u64, steps: &[Step]) {
    run(shard, at, &batch(&[], steps)).unwrap();
}

#[test]
fn what_was_frozen_is_read_as_it_was_whatever_runs_and_is_settled_afterwards() {
    let mut shard = Shard::default();
    writes(&mut shard, 1, &[put("a", "1"), put("b", "1"), put("c", "1")]);
    writes(&mut shard, 5, &[put("b", "5"), put("d", "5")]);
    // It reads before what runs above its place already.
    let at = frozen_at(&shard, 3, 7);
    writes(&mut shard, 6, &[Step::Delete { key: key("a") }, put("e", "6")]);
    shard.settle(None);
    let expected = pairs(&[("a", "1"), ("b", "1"), ("c", "1")]);
    assert_eq!(page(&shard, 7, 7, at, ""), (expected.clone(), true));
    assert_eq!(page(&shard, 8, 7, at, ""), (expected.clone(), true), "as often as it is asked for");
    assert_eq!(page(&shard, 8, 7, at, "a"), (expected[1..].to_vec(), true));
    assert_eq!(page(&shard, 8, 7, at, "c"), (Vec::new(), false));
}

#[test]
fn a_page_has_a_bounded_number_of_keys() {
    let mut shard = Shard::default();
    let count = PAGE_KEYS + 5;
    let steps: Vec<Step> = (0..count).map(|number| put(&format!("{number:06}"), "x")).collect();
    writes(&mut shard, 1, &steps);
    let at = frozen_at(&shard, 3, 7);
    let (first, more) = page(&shard, 4, 7, at, "");
    assert_eq!((first.len(), more), (PAGE_KEYS, true));
    let (second, _) = page(&shard, 4, 7, at, &first.last().unwrap().0);
    assert_eq!(second.len(), 5);
}

#[test]
fn a_transaction_that_is_prepared_and_may_write_anywhere_is_in_the_way_of_a_freeze() {
    let mut shard = Shard::default();
    writes(&mut shard, 1, &[put("a", "1")]);
    let id = TransactionId { sequence: 9, ..place(2).transaction };
    shard.prepare(id, &batch(&[Condition::Exists { key: key("a") }], &[put("z", "new")]));
    let read = shard.read(place(3), &freeze(7));
    assert_eq!(read.locked_by, Some(id), "the protocol answers only once it has ended");
    shard.abort(id);
    assert_eq!(shard.read(place(3), &freeze(7)).locked_by, None);
}

#[test]
fn what_nobody_has_frozen_or_what_was_let_go_is_told() {
    let mut shard = Shard::default();
    writes(&mut shard, 1, &[put("a", "1")]);
    let at = frozen_at(&shard, 3, 7);
    assert_eq!(reads(&shard, 4, &read_frozen(8, at, "")), Err(Refusal::NotFrozen), "another reader");
    assert_eq!(reads(&shard, 4, &read_frozen(7, at + 1, "")), Err(Refusal::NotFrozen), "another instant");
    // Nobody reads for a minute; one that is read stays.
    let minute = 60_000_000;
    let later = frozen_at(&shard, 10, 8);
    page(&shard, minute, 8, later, "");
    shard.settle(Some(place(minute + 9)));
    assert_eq!(reads(&shard, minute + 10, &read_frozen(7, at, "")), Err(Refusal::NotFrozen));
    assert_eq!(page(&shard, minute + 10, 8, later, ""), (pairs(&[("a", "1")]), true));
    // But no longer than an hour, however often it is read.
    let hour = 60 * minute;
    for minutes in 1..=60 {
        reads(&shard, minutes * minute, &read_frozen(8, later, "")).unwrap();
        shard.settle(Some(place(minutes * minute)));
    }
    shard.settle(Some(place(hour + 10)));
    assert_eq!(
        (reads(&shard, hour + 11, &read_frozen(8, later, "")), shard.frozen_len()),
        (Err(Refusal::NotFrozen), 0)
    );
}

#[test]
fn a_state_that_holds_what_is_undone_is_let_go() {
    let mut shard = Shard::default();
    writes(&mut shard, 1, &[put("a", "1")]);
    writes(&mut shard, 5, &[put("a", "5")]);
    let (before, after) = (frozen_at(&shard, 3, 7), frozen_at(&shard, 6, 7));
    shard.rewind(place(5));
    assert_eq!(page(&shard, 7, 7, before, "").0, pairs(&[("a", "1")]));
    assert_eq!(reads(&shard, 7, &read_frozen(7, after, "")), Err(Refusal::NotFrozen));
}

#[test]
fn the_oldest_gives_way_to_one_too_many() {
    let mut shard = Shard::default();
    writes(&mut shard, 1, &[put("a", "1")]);
    let at: Vec<u64> = (1..=5).map(|reader| frozen_at(&shard, 10, reader)).collect();
    assert_eq!(shard.frozen_len(), 4);
    assert_eq!(reads(&shard, 11, &read_frozen(1, at[0], "")), Err(Refusal::NotFrozen));
    assert!(reads(&shard, 11, &read_frozen(5, at[4], "")).is_ok());
    frozen_at(&shard, 10, 5);
    assert_eq!(shard.frozen_len(), 4, "the same once more");
}

/// The answer of a write would depend on the memory of one replica.
#[test]
fn only_transactions_that_read_freeze() {
    let mut shard = Shard::default();
    for operation in [freeze(7), read_frozen(7, 1, "")] {
        let Some(Answered::Refused(reason)) = shard.run(place(1), &operation) else { panic!("it was run") };
        assert_eq!(Refusal::decode(&reason), Ok(Refusal::NotFrozen));
        assert!(Operation::decode(&operation).unwrap().reads_only());
    }
    assert_eq!(shard.frozen_len(), 0);
}

/// Transactions with one timestamp are ordered by their names, so a copy may hold some of them.
#[test]
fn a_copy_cannot_be_read_as_it_was_before_what_it_holds() {
    let mut shard = Shard::default();
    writes(&mut shard, 20, &[put("a", "1")]);
    assert!([1, 20, 21].into_iter().all(|at| shard.is_open(place(at))), "it may be undone");
    let mut frozen = shard.freeze(None);
    let copy = Shard::from_pages(std::iter::from_fn(|| Shard::next_page(&mut frozen, usize::MAX)).collect());
    assert_eq!([20, 21].map(|at| copy.is_open(place(at))), [false, true]);
    shard.settle(None);
    assert_eq!([20, 21].map(|at| shard.is_open(place(at))), [false, true]);
}
