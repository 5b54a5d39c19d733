//! Commands over a shard in memory.

use quorate_procedure::{Answer as Ended, Memory, Stop};

use super::*;

/// Commands one after the other, each with a timestamp of its own.
pub(crate) struct Redis {
    pub(crate) memory: Memory,
}

impl Redis {
    pub(crate) fn new() -> Self {
        Redis { memory: Memory { timestamp: Some(1_000_000_000), ..Memory::default() } }
    }

    fn ask(&mut self, watched: &[(&[u8], Mark)], lines: &[&str]) -> Answer {
        let commands = lines.iter().map(|line| line.split(' ').map(str::as_bytes).collect()).collect();
        let request = Request { seed: 1, clock: 0, watched: watched.to_vec(), commands };
        *self.memory.timestamp.as_mut().unwrap() += 1;
        match self.memory.call(&Commands, &request.encode(), false) {
            Ok(Ended::Done(answer)) => Answer::decode(&answer).unwrap(),
            other => panic!("{lines:?}: {other:?}"),
        }
    }

    pub(crate) fn run(&mut self, line: &str) -> Reply {
        match self.ask(&[], &[line]) {
            Answer::Replies(mut replies) => replies.pop().unwrap(),
            Answer::Changed | Answer::Later => panic!("nothing is watched, and there is no clock"),
        }
    }

    /// Words that need not be text.
    pub(crate) fn run_words(&mut self, words: &[&[u8]]) -> Reply {
        let request = Request { seed: 1, commands: vec![words.to_vec()], ..Request::default() };
        *self.memory.timestamp.as_mut().unwrap() += 1;
        match self.memory.call(&Commands, &request.encode(), false) {
            Ok(Ended::Done(answer)) => match Answer::decode(&answer) {
                Ok(Answer::Replies(mut replies)) => replies.pop().unwrap(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn mark(&mut self, key: &str) -> Mark {
        match self.run(&format!("{MARK} {key}")) {
            Reply::Array(marks) => match marks[..] {
                [Reply::Integer(mark)] => mark as Mark,
                _ => panic!("{marks:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        *self.memory.timestamp.as_mut().unwrap() += millis * 1_000;
    }
}

#[test]
fn keys_expire_by_the_timestamp_of_the_transaction() {
    let mut redis = Redis::new();
    redis.run("SET k v PX 100");
    redis.pass(90);
    assert_eq!(redis.run("GET k"), Reply::bulk("v"));
    redis.pass(20);
    assert_eq!(redis.run("GET k"), Reply::Null);
    assert_eq!(redis.run("INCR k"), Reply::Integer(1), "what is expired is no number either");
    assert_eq!(redis.run("TTL k"), Reply::Integer(-1), "and its expiry is gone");
}

#[test]
fn what_a_snapshot_is_too_old_to_tell_is_told_by_the_log() {
    let mut redis = Redis::new();
    redis.run("SET k v PX 100");
    redis.run("SET other v");
    let expiry = redis.memory.timestamp.unwrap() + 100_000;
    let mut read = |clock, key: &[u8]| {
        let request = Request { clock, commands: vec![vec![b"GET", key]], ..Request::default() };
        match redis.memory.call(&Commands, &request.encode(), true) {
            Ok(Ended::Done(answer)) => Answer::decode(&answer).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let there = || Answer::Replies(vec![Reply::bulk("v")]);
    assert_eq!(read(expiry - 50_000, b"k"), there());
    assert_eq!(
        read(expiry + 50_000, b"k"),
        Answer::Later,
        "time may have gone on, or the clock may be wrong"
    );
    assert_eq!(read(expiry + 50_000, b"other"), there());
    assert_eq!(read(0, b"k"), there(), "at this timestamp it is there");
    redis.pass(200);
    assert_eq!(redis.run("GET k"), Reply::Null);
}

#[test]
fn without_a_timestamp_nothing_runs() {
    let mut memory = Memory::default();
    let request = Request { commands: vec![vec![b"SET", b"k", b"v"]], ..Request::default() };
    let ended = memory.call(&Commands, &request.encode(), false);
    assert!(matches!(ended, Ok(Ended::Refused(_))) && memory.pairs.is_empty(), "{ended:?}");
    assert!(matches!(memory.call(&Commands, b"?", false), Ok(Ended::Refused(_))));
}

#[test]
fn commands_that_only_read_write_nothing() {
    let mut redis = Redis::new();
    for line in ["SET s v PX 1", "HSET h f v", "SET long x"] {
        redis.run(line);
    }
    redis.pass(5);
    let timestamp = redis.memory.timestamp;
    for command in COMMANDS.iter().filter(|command| !command.writes()) {
        for key in ["s", "h", "long", "absent"] {
            let words = [command.name, key, "0", "1", "2"];
            let count = if command.arity > 0 { command.arity as usize } else { 3 };
            let words = words[..count].iter().map(|word| word.as_bytes()).collect();
            let request = Request { commands: vec![words], ..Request::default() };
            let ended = redis.memory.call(&Commands, &request.encode(), true);
            assert!(!matches!(ended, Err(Stop::ReadOnly)), "{} {key} writes", command.name);
        }
    }
    assert_eq!(redis.memory.timestamp, timestamp);
}

#[test]
fn what_is_watched_is_told_from_what_it_was() {
    let mut redis = Redis::new();
    let absent = redis.mark("k");
    redis.run("SET k v");
    let set = redis.mark("k");
    assert_ne!(absent, set);
    assert_eq!(redis.ask(&[(b"k", absent)], &["SET k other"]), Answer::Changed);
    assert_eq!(redis.run("GET k"), Reply::bulk("v"), "nothing was done");
    redis.run("SET k v");
    assert_ne!(redis.mark("k"), set, "the same value, written again, is a change");
    let again = redis.mark("k");
    assert_eq!(redis.ask(&[(b"k", again)], &["APPEND k w"]), Answer::Replies(vec![Reply::Integer(2)]));
    redis.run("HSET h f 1");
    let hash = redis.mark("h");
    redis.run("HSET h f 2");
    assert_ne!(redis.mark("h"), hash, "a field that changes changes its hash");
}

#[test]
fn long_strings_are_kept_in_chunks_and_lie_nowhere_afterwards() {
    let mut redis = Redis::new();
    let long = "x".repeat(200_000);
    redis.run(&format!("SET k {long}"));
    assert_eq!(redis.run("STRLEN k"), Reply::Integer(200_000));
    assert_eq!(redis.run("GET k"), Reply::bulk(&long));
    assert_eq!(redis.run("SETRANGE k 131071 yy"), Reply::Integer(200_000));
    assert_eq!(redis.run("GETRANGE k 131070 131073"), Reply::bulk("xyyx"));
    redis.run("SETBIT far 800000 1");
    assert_eq!(redis.run("BITCOUNT far"), Reply::Integer(1), "what was never written is zeros");
    redis.run("SET k short");
    redis.run("DEL far");
    assert_eq!(redis.run("GET k"), Reply::bulk("short"));
    let elements = redis.memory.pairs.keys().filter(|record| record[0] == layout::kind::ELEMENT).count();
    assert_eq!(elements, 0);
}

#[test]
fn a_large_hash_is_dropped_by_its_generation() {
    let mut redis = Redis::new();
    for number in 0..300 {
        redis.run(&format!("HSET h f{number} {number}"));
    }
    redis.run("DEL h");
    assert_eq!(redis.run("HLEN h"), Reply::Integer(0));
    redis.run("HSET h other 1");
    assert_eq!(redis.run("HKEYS h"), Reply::bulks([b"other".to_vec()]), "nothing of the one before is seen");
}

#[test]
fn a_sweep_leaves_nothing_of_what_is_gone() {
    let mut redis = Redis::new();
    for number in 0..400 {
        redis.run(&format!("HSET big f{number} {number}"));
        redis.run(&format!("SET k{number} v PX 10"));
    }
    redis.run("DEL big");
    redis.run("SET stays v");
    redis.pass(100);
    let count = |reply| match reply {
        Reply::Array(page) => match &page[..] {
            [Reply::Bulk(next), Reply::Integer(count)] => (String::from_utf8(next.clone()).unwrap(), *count),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert!(count(redis.run(&format!("{DUE} 0"))).1 > 200);
    let mut cursor = "0".to_owned();
    for _ in 0..10 {
        cursor = count(redis.run(&format!("{SWEEP} {cursor}"))).0;
    }
    assert_eq!(count(redis.run(&format!("{DUE} 0"))), ("0".to_owned(), 0));
    let left = redis.memory.pairs.keys().filter(|record| record[0] != layout::kind::GENERATION).count();
    assert_eq!(left, 1, "one key stays");
}

#[test]
fn a_scan_meets_all_keys_that_stay() {
    let mut redis = Redis::new();
    for number in 0..500 {
        redis.run(&format!("SET key{number} v"));
    }
    let (mut cursor, mut met, mut pages) = ("0".to_owned(), std::collections::BTreeSet::new(), 0);
    loop {
        let Reply::Array(page) = redis.run(&format!("SCAN {cursor} COUNT 20")) else { panic!("no page") };
        let [Reply::Bulk(next), Reply::Array(keys)] = &page[..] else { panic!("{page:?}") };
        met.extend(keys.iter().map(|key| format!("{key:?}")));
        // Writes on the way neither stop it nor make it endless.
        redis.run(&format!("DEL gone{pages}"));
        redis.run(&format!("SET new{pages} v"));
        (cursor, pages) = (String::from_utf8(next.clone()).unwrap(), pages + 1);
        if cursor == "0" {
            break;
        }
    }
    let stayed =
        (0..500).filter(|number| met.contains(&format!("{:?}", Reply::bulk(format!("key{number}")))));
    assert_eq!(stayed.count(), 500);
    assert!((20..60).contains(&pages), "{pages} pages");
}

#[test]
fn a_renamed_key_keeps_its_elements_in_any_slot() {
    let mut redis = Redis::new();
    redis.run("HSET {a}h f v");
    redis.run("RENAME {a}h {a}i");
    redis.run("RENAME {a}i {b}j");
    assert_eq!(redis.run("HGET {b}j f"), Reply::bulk("v"));
    assert_eq!(redis.run("COPY {b}j {b}k"), Reply::Integer(1));
    redis.run("DEL {b}j");
    assert_eq!(redis.run("HGET {b}k f"), Reply::bulk("v"));
    assert_eq!(redis.run("EXISTS {a}h {a}i {b}j"), Reply::Integer(0));
}

#[test]
fn a_dump_is_restored_and_a_damaged_one_refused() {
    let mut redis = Redis::new();
    redis.run("HSET h f v g w");
    let Reply::Bulk(dump) = redis.run("DUMP h") else { panic!("no dump") };
    let restore = |redis: &mut Redis, key: &[u8], dump: &[u8]| {
        let request =
            Request { commands: vec![vec![b"RESTORE", key, b"0", dump, b"REPLACE"]], ..Request::default() };
        match redis.memory.call(&Commands, &request.encode(), false) {
            Ok(Ended::Done(answer)) => Answer::decode(&answer).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(restore(&mut redis, b"i", &dump), Answer::Replies(vec![Reply::OK]));
    assert_eq!(redis.run("HMGET i f g"), Reply::Array(vec![Reply::bulk("v"), Reply::bulk("w")]));
    for at in 0..dump.len() {
        let mut damaged = dump.clone();
        damaged[at] ^= 1;
        let Answer::Replies(replies) = restore(&mut redis, b"j", &damaged) else { panic!() };
        assert!(replies[0].is_error(), "byte {at}");
    }
}

#[test]
fn a_call_says_which_slots_it_touches() {
    let request = Request { commands: vec![vec![b"MGET", b"a", b"b"]], ..Request::default() };
    let Footprint::Keys { keys, ranges } = Commands.footprint(&request.encode()) else { panic!() };
    assert_eq!((keys.len(), ranges.len()), (2, 8));
    let record = layout::header_record(b"a");
    assert!(ranges.iter().any(|(from, to)| *from <= record && record < *to));
    let request = Request { commands: vec![vec![b"KEYS", b"*"]], ..Request::default() };
    assert_eq!(Commands.footprint(&request.encode()), Footprint::Everything);
}

#[test]
fn a_place_that_lies_in_two_cells_is_stored_once() {
    let mut redis = Redis::new();
    redis.run("GEOADD k 0 0 a 90 40 b -120 -40 c");
    let Reply::Array(found) = redis.run("GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 20000 km ASC") else { panic!() };
    assert!(found.len() >= 3, "{found:?}");
    assert_eq!(redis.run("GEOSEARCHSTORE s k FROMLONLAT 1 1 BYRADIUS 20000 km"), Reply::Integer(3));
    assert_eq!(redis.run("ZCARD s"), Reply::Integer(3));
    assert_eq!(redis.run("GEODIST s a b KM"), redis.run("GEODIST k a b KM"), "scores are places");
    assert_eq!(redis.run("GEOSEARCHSTORE s none FROMMEMBER a BYRADIUS 1 m"), Reply::Integer(0));
    assert_eq!(redis.run("EXISTS s"), Reply::Integer(0));
}

#[test]
fn a_count_of_elements_keeps_the_expiry_of_its_key() {
    let mut redis = Redis::new();
    assert_eq!(redis.run("PFADD k a b c"), Reply::Integer(1));
    redis.run("PEXPIRE k 1000");
    assert_eq!(redis.run("PFADD k a b"), Reply::Integer(0));
    assert_eq!(redis.run("PFADD k d"), Reply::Integer(1));
    assert_eq!(redis.run("PFMERGE k other"), Reply::OK);
    assert!(matches!(redis.run("PTTL k"), Reply::Integer(1..)));
    assert_eq!(redis.run("PFCOUNT k none"), Reply::Integer(4));
    redis.pass(2_000);
    assert_eq!(redis.run("PFCOUNT k"), Reply::Integer(0));
    assert_eq!(redis.run("PFADD k"), Reply::Integer(1), "it is made anew");
}

#[test]
fn elements_are_sorted_by_other_keys_and_by_fields() {
    let mut redis = Redis::new();
    redis.run("RPUSH l 1 2 3");
    redis.run("MSET w_1 30 w_2 20 n_1 one n_2 two n_3 three");
    redis.run("HSET h_1 f b");
    redis.run("HSET h_2 f a");
    let bulks = |words: &str| Reply::bulks(words.split(' ').map(|word| word.as_bytes().to_vec()));
    assert_eq!(redis.run("SORT l BY w_* GET n_*"), bulks("three two one"), "what has no weight is zero");
    assert_eq!(redis.run("SORT l BY h_*->f ALPHA"), bulks("3 2 1"), "nothing comes first");
    assert_eq!(redis.run("SORT l BY n_* ALPHA DESC LIMIT 1 2"), bulks("3 1"));
    assert_eq!(redis.run("SORT l BY nosort DESC"), bulks("3 2 1"));
    redis.run("ZADD z 2 x 1 y");
    assert_eq!(redis.run("SORT z BY nosort"), bulks("y x"), "a sorted set has an order of its own");
    assert_eq!(redis.run("SORT l BY w_* GET # GET w_* STORE out"), Reply::Integer(6));
    assert_eq!(redis.run("LRANGE out 0 -1"), bulks("3  2 20 1 30"));
    assert_eq!(redis.run("SORT none STORE out"), Reply::Integer(0));
    assert_eq!(redis.run("EXISTS out"), Reply::Integer(0));
}
