//! What a shard tells of what was written to it.

use quorate_codec::{decode, encode};
use quorate_core::changes::{Answer as Told, Page as Stretch, Request, Retention};
use quorate_core::{ClientId, ClockTime, Timestamp};
use quorate_granola::{Application, Prepared};
use quorate_serializable_shard::{Condition, Page, Shard, Step};

use crate::batches::{batch, key, place, put, run};

fn stretch(shard: &Shard, from: u64, certain: u64) -> Stretch {
    match answer(shard, from, certain) {
        Told::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

fn answer(shard: &Shard, from: u64, certain: u64) -> Told {
    let from = Timestamp { micros: from, client: ClientId(0) };
    shard.changes(&Request::all(Some(from)), ClockTime::from_micros(certain))
}

/// The timestamps, with the keys and values.
fn told(shard: &Shard, from: u64, certain: u64) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let changes = stretch(shard, from, certain).changes.into_iter();
    let line = changes.map(|change| {
        let writes = change.writes.iter().map(|write| {
            format!(" {}={}", text(&write.key), write.value.as_deref().map_or("nothing".to_owned(), text))
        });
        format!("{}:{}", change.timestamp.micros, writes.collect::<String>())
    });
    line.collect()
}

/// At 10 `a` and `c` are written, at 20 `a` again, at 30 `c` is deleted.
fn shard() -> Shard {
    let mut shard = Shard::default();
    run(&mut shard, 10, &batch(&[], &[put("a", "1"), put("c", "2")])).unwrap();
    run(&mut shard, 20, &batch(&[], &[put("a", "3")])).unwrap();
    run(&mut shard, 30, &batch(&[], &[Step::Delete { key: key("c") }])).unwrap();
    shard
}

const ALL: [&str; 3] = ["10: a=1 c=2", "20: a=3", "30: c=nothing"];

fn pages(shard: &Shard, below: Option<u64>) -> Vec<Page> {
    let mut frozen = shard.freeze(below.map(place));
    std::iter::from_fn(|| Shard::next_page(&mut frozen, 64)).collect()
}

#[test]
fn what_was_written_is_told_and_nothing_that_was_refused_or_aborted() {
    let mut shard = shard();
    let refused = batch(&[Condition::Absent { key: key("a") }], &[put("a", "4")]);
    run(&mut shard, 40, &refused).unwrap_err();
    for (at, is_committed) in [(50, true), (60, false)] {
        let prepared = shard.prepare(place(at).transaction, &batch(&[], &[put("b", "5")]));
        assert!(matches!(prepared, Prepared::Commit(_)));
        match is_committed {
            true => drop(shard.commit(place(at))),
            false => shard.abort(place(at).transaction),
        }
    }
    shard.settle(None);
    assert_eq!(told(&shard, 0, 100), [&ALL[..], &["50: b=5"]].concat());
    assert_eq!(told(&shard, 0, 30), ALL[..2]);
}

#[test]
fn what_is_undone_was_never_written() {
    let mut shard = shard();
    shard.settle(Some(place(30)));
    shard.rewind(place(30));
    run(&mut shard, 35, &batch(&[], &[put("c", "6")])).unwrap();
    assert_eq!(told(&shard, 0, 100), ["10: a=1 c=2", "20: a=3", "35: c=6"]);
}

#[test]
fn a_state_brings_along_what_was_written_below_its_place() {
    let mut shard = shard();
    shard.settle(Some(place(30)));
    let given = pages(&shard, Some(30));
    let read: Vec<Page> = given.iter().map(|page| decode(&encode(page)).unwrap()).collect();
    assert_eq!(read, given);
    let mut other = Shard::from_pages(read);
    assert_eq!(told(&other, 0, 100), ALL[..2]);
    run(&mut other, 30, &batch(&[], &[Step::Delete { key: key("c") }])).unwrap();
    other.settle(None);
    shard.settle(None);
    assert_eq!(
        (told(&other, 0, 100), pages(&other, None)),
        (ALL.map(str::to_owned).to_vec(), pages(&shard, None))
    );
    assert_eq!(other.retained(), shard.retained());
}

#[test]
fn a_state_that_brings_nothing_along_says_so() {
    let only_keys = |page: &Page| matches!(page, Page::Keys { retained_from: None, .. });
    let mut shard = shard();
    shard.settle(None);
    let given: Vec<Page> = pages(&shard, None).into_iter().filter(only_keys).collect();
    let mut other = Shard::from_pages(given);
    assert!(matches!(answer(&other, 100, 100), Told::Unable { .. }));
    run(&mut other, 40, &batch(&[], &[put("a", "7")])).unwrap();
    let retained_from = Timestamp { micros: 40, client: ClientId(0) };
    assert_eq!(answer(&other, 30, 100), Told::TooOld { retained_from });
    assert_eq!(told(&other, 40, 100), ["40: a=7"]);
}

/// Programs that know no history read a page of it as one of no keys.
#[test]
fn a_page_of_what_was_written_holds_no_keys() {
    let mut shard = shard();
    shard.settle(None);
    let mut histories = pages(&shard, None);
    histories.retain(|page| matches!(page, Page::Keys { retained_from: Some(_), .. }));
    assert!(!histories.is_empty());
    for page in histories {
        let Page::Keys { entries, .. } = &page else { unreachable!("it is one") };
        assert!(entries.is_empty());
        // The first alternative, of a message whose first field is missing.
        assert_eq!(encode(&page)[0], 1 << 3 | 2);
        assert!(encode(&page)[2] >> 3 > 1, "{page:?}");
    }
}

#[test]
fn so_much_is_retained_as_was_asked_for() {
    let mut shard = shard();
    shard.settle(None);
    let bytes = shard.retained().bytes;
    assert!(bytes > 0);
    shard.retain(Retention { bytes: bytes / 2, ..Retention::default() });
    run(&mut shard, 40, &batch(&[], &[put("a", "8")])).unwrap();
    shard.settle(None);
    assert!(shard.retained().bytes <= bytes / 2, "{:?} of {bytes}", shard.retained());
    assert_eq!(told(&shard, 31, 100), ["40: a=8"]);
    assert!(matches!(answer(&shard, 0, 100), Told::TooOld { .. }));
}
