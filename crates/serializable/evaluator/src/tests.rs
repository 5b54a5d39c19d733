//! The procedure over a shard in memory: what it does, what it refuses, and what it says that it touches.

use quorate_procedure::{Answer as Ended, Footprint, Memory, Procedure, Stop};
use quorate_redis_commands::{MARK, Reply, Request as OfCommands, record_of};

use crate::{Answer, Item, Limits, Request, Scripts, Text, UNKNOWN_TEXT, sha1};

/// A shard at this time, in microseconds.
fn shard() -> Memory {
    Memory { timestamp: Some(1_000_000_000), ..Memory::default() }
}

fn script<'a>(text: &'a str, keys: &[&'a str]) -> Item<'a> {
    let keys = keys.iter().map(|key| key.as_bytes()).collect();
    Item::Script {
        text: Text::Whole(text.as_bytes()),
        is_read_only: false,
        keys,
        arguments: vec![b"argument"],
    }
}

fn command(line: &str) -> Item<'_> {
    Item::Command(line.split(' ').map(str::as_bytes).collect())
}

/// Runs parts as a shard does, which keeps nothing of what is refused.
fn run(shard: &mut Memory, items: Vec<Item<'_>>) -> Result<Answer, String> {
    ask(shard, Request { items, ..Request::default() })
}

fn ask(shard: &mut Memory, request: Request<'_>) -> Result<Answer, String> {
    let mut attempt = shard.clone();
    match Scripts::default().call(&mut attempt, &request.encode()) {
        Ok(Ended::Done(answer)) => {
            *shard = attempt;
            Ok(Answer::decode(&answer).unwrap())
        }
        Ok(Ended::Refused(reason)) => Err(String::from_utf8(reason).unwrap()),
        Err(stop) => panic!("{stop:?}"),
    }
}

fn replies(shard: &mut Memory, items: Vec<Item<'_>>) -> Vec<Reply> {
    match run(shard, items) {
        Ok(Answer::Done { replies, .. }) => replies,
        other => panic!("{other:?}"),
    }
}

#[test]
fn scripts_and_commands_are_one_transaction_in_their_order() {
    let mut shard = shard();
    let add = "redis.log(redis.LOG_NOTICE, 'adds') return redis.call('incrby', KEYS[1], 2)";
    let items = vec![command("set n 1"), script(add, &["n"]), command("get n"), script(add, &["n"])];
    let Ok(Answer::Done { replies, wrote, logged }) = run(&mut shard, items) else { panic!("it is done") };
    assert_eq!(replies, [Reply::OK, Reply::Integer(3), Reply::bulk("3"), Reply::Integer(5)]);
    assert_eq!(wrote, [b"n"], "of what scripts have written, each key once");
    assert_eq!(logged, vec![(2, b"adds".to_vec()); 2]);
    let time = replies_of_one(&mut shard, "return redis.call('time')");
    assert_eq!(time, Reply::bulks([b"1000".to_vec(), b"0".to_vec()]), "the time is that of the transaction");
}

fn replies_of_one(shard: &mut Memory, text: &str) -> Reply {
    replies(shard, vec![script(text, &["n"])]).remove(0)
}

#[test]
fn a_script_that_is_given_up_leaves_nothing_behind() {
    let mut shard = shard();
    let before = replies(&mut shard, vec![command("set n 1")]);
    assert_eq!(before, [Reply::OK]);
    let untouched = shard.clone();
    for text in [
        "redis.call('set', KEYS[1], 2) return redis.call('lpush', KEYS[1], 'x')",
        "redis.call('set', KEYS[1], 2) while true do end",
        "redis.call('set', KEYS[1], 2) error('no')",
        "redis.call('set', KEYS[1], 2) return redis.call('get', 'elsewhere')",
        "redis.call('set', KEYS[1], 2) return redis.call('dbsize')",
        "redis.call('set', KEYS[1], 2) return redis.call('publish', 'c', 'm')",
        "redis.call('set', KEYS[1], 2) return redis.call('flushall')",
    ] {
        let refused = run(&mut shard, vec![command("append n x"), script(text, &["n"])]);
        assert!(refused.is_err(), "{text}: {refused:?}");
        assert_eq!(shard, untouched, "{text}");
    }
    // A key of the same slot need not be listed.
    let text = "return redis.call('set', '{tag}other', 1)";
    assert_eq!(replies(&mut shard, vec![script(text, &["{tag}one"])]), [Reply::OK]);
}

#[test]
fn a_command_that_names_no_keys_is_refused() {
    let mut shard = shard();
    for line in ["dbsize", "flushall", "sort n by w*", "nothing", "xgroup destroy s g"] {
        assert!(run(&mut shard, vec![command(line)]).is_err(), "{line}");
    }
}

#[test]
fn what_only_reads_does_not_write() {
    let mut shard = shard();
    let read_only = |text: &'static str| Item::Script {
        text: Text::Whole(text.as_bytes()),
        is_read_only: true,
        keys: vec![b"n"],
        arguments: Vec::new(),
    };
    let write = run(&mut shard, vec![read_only("return redis.call('set', KEYS[1], 1)")]);
    assert!(write.is_err(), "{write:?}");
    assert_eq!(
        replies(&mut shard, vec![read_only("return redis.call('exists', KEYS[1])")]),
        [Reply::Integer(0)]
    );
}

#[test]
fn a_watched_key_that_has_changed_keeps_all_from_being_done() {
    let mut shard = shard();
    replies(&mut shard, vec![command("set n 1")]);
    let mark = OfCommands { commands: vec![vec![MARK.as_bytes(), b"n"]], ..OfCommands::default() };
    let marks = quorate_redis_commands::Commands.call(&mut shard, &mark.encode()).unwrap();
    let Ended::Done(marks) = marks else { panic!("{marks:?}") };
    let Ok(quorate_redis_commands::Answer::Replies(marks)) = quorate_redis_commands::Answer::decode(&marks)
    else {
        panic!("no marks")
    };
    let [Reply::Array(marks)] = marks.as_slice() else { panic!("{marks:?}") };
    let Reply::Integer(mark) = marks[0] else { panic!("{marks:?}") };
    let request = |seed| Request {
        seed,
        watched: vec![(b"n", mark as u64)],
        items: vec![script("return redis.call('incr', KEYS[1])", &["n"])],
        ..Request::default()
    };
    assert!(matches!(ask(&mut shard, request(1)), Ok(Answer::Done { .. })));
    assert_eq!(ask(&mut shard, request(2)), Ok(Answer::Changed));
    assert_eq!(replies(&mut shard, vec![command("get n")]), [Reply::bulk("2")]);
}

#[test]
fn a_snapshot_that_may_be_too_old_says_so() {
    let mut shard = shard();
    replies(&mut shard, vec![command("set n 1 px 100")]);
    let read = |clock| Request {
        clock,
        items: vec![script("return redis.call('get', KEYS[1])", &["n"])],
        ..Request::default()
    };
    assert!(matches!(ask(&mut shard, read(1_000_050_000)), Ok(Answer::Done { .. })));
    assert_eq!(ask(&mut shard, read(1_000_200_000)), Ok(Answer::Later));
}

#[test]
fn all_scripts_of_a_call_share_its_steps() {
    let mut shard = shard();
    let long = "local n = 0 for i = 1, 6000 do n = n + i end return n";
    assert_eq!(replies(&mut shard, vec![script(long, &["n"])]).len(), 1);
    let many = (0..8).map(|_| script(long, &["n"])).collect();
    assert_eq!(run(&mut shard, many), Err("it takes more steps than at a shard".to_owned()));
    assert!(Limits::default().steps_max < 8 * 6_000 * 5);
}

#[test]
fn a_call_touches_what_it_says() {
    let items = vec![script("return 1", &["a", "b"]), command("set c 1")];
    let request = Request { items, watched: vec![(b"d", 1)], ..Request::default() };
    let Footprint::Keys { ranges, .. } = Scripts::default().footprint(&request.encode()) else {
        panic!("its slots are known")
    };
    let is_in = |key: &[u8]| {
        let record = record_of(key);
        ranges.iter().any(|(from, to)| *from <= record && record < *to)
    };
    assert!([b"a", b"b", b"c", b"d"].into_iter().all(|key| is_in(key)));
    assert!(!is_in(b"e"));
    assert_eq!(Scripts::default().footprint(b"nonsense"), Footprint::Everything);
}

#[test]
fn a_call_without_a_timestamp_or_of_another_version_is_refused() {
    let request = Request { items: vec![command("get n")], ..Request::default() }.encode();
    let refused = Scripts::default().call(&mut Memory::default(), &request);
    assert!(matches!(refused, Ok(Ended::Refused(_))), "{refused:?}");
    let newer = [&[2], &request[1..]].concat();
    let refused = Scripts::default().call(&mut shard(), &newer);
    assert!(matches!(refused, Ok(Ended::Refused(_))), "{refused:?}");
}

#[test]
fn the_store_stops_a_script() {
    let request =
        Request { items: vec![script("return redis.call('set', KEYS[1], 1)", &["n"])], ..Request::default() };
    let stopped = shard().call(&Scripts::default(), &request.encode(), true);
    assert_eq!(stopped, Err(Stop::ReadOnly));
}

#[test]
fn a_shard_runs_a_text_that_it_has_kept_by_its_digest() {
    const TEXT: &[u8] = b"return redis.call('incr', KEYS[1])";
    let digest = sha1::hex(TEXT);
    let call =
        |text| vec![Item::Script { text, is_read_only: false, keys: vec![b"n"], arguments: Vec::new() }];
    let mut shard = shard();
    let by_digest = Text::Kept(digest.as_bytes());
    assert_eq!(run(&mut shard, call(by_digest)), Err(UNKNOWN_TEXT.to_owned()));
    assert_eq!(replies(&mut shard, call(Text::Whole(TEXT))), [Reply::Integer(1)]);
    assert_eq!(run(&mut shard, call(by_digest)), Err(UNKNOWN_TEXT.to_owned()), "it was not to be kept");
    assert_eq!(replies(&mut shard, call(Text::Keep(TEXT))), [Reply::Integer(2)]);
    assert_eq!(replies(&mut shard, call(by_digest)), [Reply::Integer(3)]);
    // A script that is given up is not kept.
    let refused = run(&mut shard, call(Text::Keep(b"error('x')")));
    assert!(refused.is_err(), "{refused:?}");
    let digest = sha1::hex(b"error('x')");
    assert_eq!(run(&mut shard, call(Text::Kept(digest.as_bytes()))), Err(UNKNOWN_TEXT.to_owned()));
    // Texts are no keys.
    let request = OfCommands { commands: vec![vec![b"dbsize"]], ..OfCommands::default() };
    let size = quorate_redis_commands::Commands.call(&mut shard, &request.encode()).unwrap();
    let one = quorate_redis_commands::Answer::Replies(vec![Reply::Integer(1)]).encode();
    assert_eq!(size, Ended::Done(one));
}
