//! Streams over a shard in memory.

use std::collections::BTreeMap;

use crate::layout;
use crate::reply::Reply;
use crate::tests::Redis;

fn bulk(text: &str) -> Reply {
    Reply::bulk(text)
}

fn array(parts: Vec<Reply>) -> Reply {
    Reply::Array(parts)
}

/// An entry with one field.
fn entry(id: &str, field: &str, value: &str) -> Reply {
    array(vec![bulk(id), array(vec![bulk(field), bulk(value)])])
}

fn count_of(redis: &Redis, letter: u8) -> usize {
    let is_one = |record: &&Vec<u8>| record[0] == layout::kind::ELEMENT && record[14] == letter;
    redis.memory.pairs.keys().filter(is_one).count()
}

#[test]
fn an_entry_gets_the_time_of_its_transaction() {
    let mut redis = Redis::new();
    let millis = redis.memory.timestamp.unwrap() / 1_000;
    assert_eq!(redis.run("XADD s * f v"), Reply::bulk(format!("{millis}-0")));
    assert_eq!(redis.run("XADD s * f v"), Reply::bulk(format!("{millis}-1")));
    redis.pass(5);
    assert_eq!(redis.run("XADD s * f v"), Reply::bulk(format!("{}-0", millis + 5)));
    redis.run(&format!("XSETID s {}-7", millis + 100));
    let later = Reply::bulk(format!("{}-8", millis + 100));
    assert_eq!(redis.run("XADD s * f v"), later, "ids only grow, whatever the time");
}

#[test]
fn a_stream_is_trimmed_to_a_length_or_by_blocks() {
    let mut redis = Redis::new();
    for number in 1..=250 {
        redis.run(&format!("XADD s {number}-0 f v"));
    }
    assert_eq!(redis.run("XTRIM s MAXLEN ~ 60"), Reply::Integer(100), "two blocks would be too many");
    assert_eq!(redis.run("XTRIM s MAXLEN ~ 10 LIMIT 99"), Reply::Integer(0), "a block is more than that");
    assert_eq!(redis.run("XTRIM s MINID ~ 199"), Reply::Integer(0), "the block has entries behind the id");
    assert_eq!(redis.run("XTRIM s MINID 120"), Reply::Integer(19));
    assert_eq!(redis.run("XADD s MAXLEN 3 300-0 f v"), bulk("300-0"));
    assert_eq!(redis.run("XLEN s"), Reply::Integer(3));
    assert_eq!(redis.run("XTRIM s MAXLEN ~ 0"), Reply::Integer(3), "all of it is a block");
    assert_eq!(redis.run("EXISTS s"), Reply::Integer(1), "an empty stream stays");
    assert_eq!(count_of(&redis, b'e'), 0);
}

#[test]
fn a_group_delivers_each_entry_once_and_remembers_what_is_not_acknowledged() {
    let mut redis = Redis::new();
    for number in 1..=3 {
        redis.run(&format!("XADD s {number}-0 f {number}"));
    }
    redis.run("XGROUP CREATE s g 0");
    let read = |redis: &mut Redis, consumer: &str, rest: &str| {
        redis.run(&format!("XREADGROUP GROUP g {consumer} {rest}"))
    };
    let of = |entries| Reply::Table(vec![(bulk("s"), array(entries))]);
    assert_eq!(
        read(&mut redis, "a", "COUNT 2 STREAMS s >"),
        of(vec![entry("1-0", "f", "1"), entry("2-0", "f", "2")])
    );
    assert_eq!(read(&mut redis, "b", "STREAMS s >"), of(vec![entry("3-0", "f", "3")]));
    assert_eq!(read(&mut redis, "b", "STREAMS s >"), Reply::NullArray);
    redis.run("XDEL s 2-0");
    assert_eq!(redis.run("XACK s g 1-0 9-9"), Reply::Integer(1));
    let gone = array(vec![bulk("2-0"), Reply::NullArray]);
    assert_eq!(read(&mut redis, "a", "STREAMS s 0"), of(vec![gone]), "what was deleted is still pending");
    redis.pass(10);
    let claimed = array(vec![bulk("0-0"), array(vec![bulk("3-0")]), array(vec![bulk("2-0")])]);
    assert_eq!(redis.run("XAUTOCLAIM s g a 10 0 JUSTID"), claimed);
    let left = array(vec![array(vec![bulk("a"), bulk("1")])]);
    assert_eq!(redis.run("XPENDING s g"), array(vec![Reply::Integer(1), bulk("3-0"), bulk("3-0"), left]));
}

/// A stream with a group, two consumers, and something pending for each.
fn stream_with_group(redis: &mut Redis, key: &str) {
    for number in 1..=4 {
        redis.run(&format!("XADD {key} {number}-0 f {number} g x"));
    }
    redis.run(&format!("XGROUP CREATE {key} g 0"));
    redis.run(&format!("XGROUP CREATE {key} other $"));
    redis.run(&format!("XREADGROUP GROUP g a COUNT 2 STREAMS {key} >"));
    redis.run(&format!("XREADGROUP GROUP g b COUNT 1 STREAMS {key} >"));
    redis.run(&format!("XDEL {key} 4-0"));
}

#[test]
fn a_group_goes_with_its_stream_when_that_is_renamed_copied_or_restored() {
    let mut redis = Redis::new();
    stream_with_group(&mut redis, "{a}s");
    let told = redis.run("XINFO STREAM {a}s FULL");
    let Reply::Bulk(dump) = redis.run("DUMP {a}s") else { panic!("no dump") };
    redis.run("RENAME {a}s {a}t");
    redis.run("RENAME {a}t {b}u");
    assert_eq!(redis.run("COPY {b}u {c}v"), Reply::Integer(1));
    assert_eq!(redis.run_words(&[b"RESTORE", b"w", b"0", &dump]), Reply::OK);
    redis.run("XADD {b}u 9-0 f v");
    for key in ["{c}v", "w"] {
        assert_eq!(redis.run(&format!("XINFO STREAM {key} FULL")), told, "{key}");
        assert_eq!(redis.run(&format!("XACK {key} g 1-0 3-0")), Reply::Integer(2), "{key}");
    }
    assert_eq!(redis.run("EXISTS {a}s {a}t"), Reply::Integer(0));
    assert_eq!(redis.run("TYPE w"), Reply::Simple("stream".into()));
    assert_eq!(redis.run("OBJECT ENCODING w"), bulk("stream"));
    assert!(redis.run("LPUSH w x").is_error() && redis.run("GET w").is_error());
}

#[test]
fn names_that_are_too_long_are_refused_and_nothing_is_written() {
    let mut redis = Redis::new();
    let long = "n".repeat(crate::KEY_BYTES_MAX + 1);
    assert!(redis.run(&format!("XGROUP CREATE s {long} $ MKSTREAM")).is_error());
    assert!(redis.memory.pairs.is_empty());
    stream_with_group(&mut redis, "s");
    let before = redis.memory.pairs.clone();
    for line in [
        format!("XGROUP CREATECONSUMER s g {long}"),
        format!("XREADGROUP GROUP g {long} STREAMS s >"),
        format!("XREADGROUP GROUP {long} a STREAMS s >"),
        format!("XCLAIM s g {long} 0 1-0"),
        format!("XAUTOCLAIM s g {long} 0 0"),
        format!("XADD s 9-0 f {}", "v".repeat(crate::ELEMENT_BYTES_MAX)),
    ] {
        assert!(redis.run(&line).is_error(), "{}", &line[..30]);
        assert!(redis.memory.pairs == before, "{} writes", &line[..30]);
    }
    assert_eq!(redis.run(&format!("XPENDING s g - + 1 {long}")), array(vec![]));
}

#[test]
fn a_stream_expires_with_its_groups() {
    let mut redis = Redis::new();
    stream_with_group(&mut redis, "s");
    redis.run("PEXPIRE s 100");
    redis.pass(200);
    assert_eq!(redis.run("XLEN s"), Reply::Integer(0));
    assert_eq!(redis.run("XADD s 1-0 f v"), bulk("1-0"), "it begins anew");
    assert!(redis.run("XPENDING s g").is_error());
}

#[test]
fn a_dropped_stream_or_group_leaves_nothing() {
    let mut redis = Redis::new();
    stream_with_group(&mut redis, "s");
    assert_eq!(redis.run("XGROUP DELCONSUMER s g a"), Reply::Integer(2));
    assert_eq!((count_of(&redis, b'c'), count_of(&redis, b'p'), count_of(&redis, b'q')), (1, 1, 1));
    redis.run("XGROUP DESTROY s g");
    assert_eq!((count_of(&redis, b'c'), count_of(&redis, b'p'), count_of(&redis, b'q')), (0, 0, 0));
    stream_with_group(&mut redis, "t");
    for key in ["s", "t"] {
        assert_eq!(redis.run(&format!("DEL {key}")), Reply::Integer(1));
    }
    for _ in 0..3 {
        redis.run(&format!("{} 0", crate::SWEEP));
    }
    let left = redis.memory.pairs.keys().filter(|record| record[0] != layout::kind::GENERATION).count();
    assert_eq!(left, 0);
}

#[test]
fn a_long_stream_is_read_and_a_group_with_much_pending_is_removed_in_parts() {
    let mut redis = Redis::new();
    redis.run("XGROUP CREATE s g 0 MKSTREAM");
    for number in 1..=10_100 {
        redis.run(&format!("XADD s {number}-0 f v"));
    }
    let Reply::Table(read) = redis.run("XREAD STREAMS s 0") else { panic!("nothing is read") };
    assert!(
        matches!(&read[0].1, Reply::Array(entries) if entries.len() == 10_000),
        "a reader goes on from there"
    );
    redis.run("XREADGROUP GROUP g a COUNT 5000 STREAMS s >");
    redis.run("XREADGROUP GROUP g b STREAMS s >");
    assert_eq!(redis.run("XGROUP DESTROY s g"), crate::MORE);
    let Reply::Array(left) = redis.run("XPENDING s g") else { panic!("no summary") };
    assert_eq!(left[0], Reply::Integer(100), "counters are right in between");
    assert_eq!(redis.run("XGROUP DESTROY s g"), Reply::Integer(1));
    assert_eq!((count_of(&redis, b'c'), count_of(&redis, b'p'), count_of(&redis, b'q')), (0, 0, 0));
    assert_eq!((count_of(&redis, b'g'), redis.run("XLEN s")), (0, Reply::Integer(10_100)));
}

#[test]
fn a_watched_stream_is_changed_by_what_happens_to_its_groups() {
    let mut redis = Redis::new();
    stream_with_group(&mut redis, "s");
    let mark = |redis: &mut Redis| redis.run(&format!("{} s", crate::MARK));
    for line in [
        "XACK s g 1-0",
        "XGROUP SETID s g 0",
        "XGROUP CREATECONSUMER s g c",
        "XREADGROUP GROUP g c STREAMS s 0",
        "XCLAIM s g c 0 2-0",
        "XGROUP DESTROY s g",
        "XTRIM s MAXLEN 1",
    ] {
        let before = mark(&mut redis);
        assert!(!redis.run(line).is_error(), "{line}");
        assert_ne!(mark(&mut redis), before, "{line}");
    }
}

#[test]
fn counters_are_those_of_the_records_whatever_is_done() {
    let mut redis = Redis::new();
    let mut state = 7_u64;
    let mut draw = |count: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % count
    };
    for round in 0..4_000 {
        let (group, consumer) = (["g", "h"][draw(2) as usize], ["a", "b", "c"][draw(3) as usize]);
        let (id, other) = (1 + draw(40), 1 + draw(40));
        let line = match draw(14) {
            0..3 => format!("XADD s MAXLEN 20 {}-* f v", 1 + round / 100),
            3 => format!("XGROUP CREATE s {group} {id}-0 MKSTREAM"),
            4 => format!("XGROUP SETID s {group} {id}-0"),
            5 => format!("XDEL s {id}-0 {other}-1"),
            6 => format!("XACK s {group} {id}-0 {other}-1 {other}-2"),
            7 => format!("XCLAIM s {group} {consumer} 0 {id}-0 {other}-1 FORCE"),
            8 => format!("XAUTOCLAIM s {group} {consumer} 0 0 COUNT 3"),
            9 if draw(6) == 0 => format!("XGROUP DELCONSUMER s {group} {consumer}"),
            10 if draw(20) == 0 => format!("XGROUP DESTROY s {group}"),
            11 => format!("XREADGROUP GROUP {group} {consumer} COUNT 2 STREAMS s 0"),
            _ => format!("XREADGROUP GROUP {group} {consumer} COUNT 3 STREAMS s >"),
        };
        redis.run(&line);
        let Reply::Map(stream) = redis.run("XINFO STREAM s FULL COUNT 0") else { continue };
        let number = |map: &BTreeMap<String, Reply>, name: &str| match &map[name] {
            Reply::Integer(number) => *number as usize,
            other => panic!("{name}: {other:?}"),
        };
        let stream = by_name(stream);
        assert_eq!(number(&stream, "length"), count_of(&redis, b'e'), "{line}");
        let (mut pending, mut consumers) = (0, 0);
        for group in maps(&stream["groups"]) {
            let of_consumers = maps(&group["consumers"]);
            let total: usize = of_consumers.iter().map(|consumer| number(consumer, "pel-count")).sum();
            assert_eq!(number(&group, "pel-count"), total, "{line}");
            (pending, consumers) = (pending + total, consumers + of_consumers.len());
        }
        let records = (count_of(&redis, b'p'), count_of(&redis, b'q'), count_of(&redis, b'c'));
        assert_eq!((pending, pending, consumers), records, "{line}");
    }
}

fn by_name(pairs: Vec<(Reply, Reply)>) -> BTreeMap<String, Reply> {
    let name = |name: Reply| match name {
        Reply::Bulk(name) => String::from_utf8(name).unwrap(),
        other => panic!("{other:?}"),
    };
    pairs.into_iter().map(|(key, value)| (name(key), value)).collect()
}

fn maps(reply: &Reply) -> Vec<BTreeMap<String, Reply>> {
    let Reply::Array(maps) = reply else { panic!("{reply:?}") };
    let map = |map: &Reply| match map {
        Reply::Map(pairs) => by_name(pairs.clone()),
        other => panic!("{other:?}"),
    };
    maps.iter().map(map).collect()
}
