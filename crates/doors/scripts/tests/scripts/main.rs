//! Scripts over a host that remembers what it was asked: replies, errors, and what is hostile.

mod hostile;
mod replies;
mod shards;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use quorate_redis_commands::Reply;
use quorate_redis_scripts::{Host, Limits, Outcome, Over, Program, Run, STACK_BYTES, Script, run};
use rustix::time::{ClockId, clock_gettime};

/// Replies to each command with its arguments; `get` replies nothing, `lpush` is wrong, and the transaction ends at `keys`.
#[derive(Default)]
struct Echo {
    calls: usize,
    published: Vec<(Vec<u8>, Vec<u8>, bool)>,
    logged: Vec<(u8, Vec<u8>)>,
}

impl Host for Echo {
    fn call(&mut self, words: &[Vec<u8>]) -> Result<Reply, Over> {
        self.calls += 1;
        Ok(match words[0].as_slice() {
            b"get" => Reply::Null,
            b"lpush" => Reply::error("WRONGTYPE no"),
            b"keys" => return Err(Over),
            b"hgetall" => Reply::Map(vec![(Reply::bulk("f"), Reply::bulk("v"))]),
            b"zscore" => Reply::Double(1.5),
            b"set" => Reply::OK,
            _ => Reply::Array(words[1..].iter().map(|word| Reply::Bulk(word.clone())).collect()),
        })
    }

    fn publish(&mut self, channel: &[u8], content: &[u8], is_shard: bool) -> Result<Reply, Over> {
        self.published.push((channel.to_vec(), content.to_vec(), is_shard));
        Ok(Reply::Integer(3))
    }

    fn log(&mut self, level: u8, text: &[u8]) {
        self.logged.push((level, text.to_vec()));
    }

    fn now(&self) -> u64 {
        12_000_034
    }
}

/// Runs a script on a thread with as much stack as those of doors.
fn run_within(limits: Limits, code: &str, is_read_only: bool) -> Outcome {
    run_measured(limits, code, is_read_only).0
}

/// Runs a script, and says how much processor time it took: tests share the machine with others, which stretch any other time.
fn run_measured(limits: Limits, code: &str, is_read_only: bool) -> (Outcome, Duration) {
    let script = Script::new(code.as_bytes().to_vec());
    let body = move || {
        let host = Rc::new(RefCell::new(Echo::default()));
        let one = Run {
            program: Program::Script(&script),
            keys: &[b"k1".to_vec(), b"k2".to_vec()],
            arguments: &[b"a1".to_vec()],
            is_read_only,
            stop: Arc::new(AtomicBool::new(false)),
        };
        let outcome = run(&one, &limits, &host);
        let time = clock_gettime(ClockId::ThreadCPUTime);
        (outcome, Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body).unwrap().join().unwrap()
}

fn reply(code: &str) -> Reply {
    match run_within(Limits::default(), code, false) {
        Outcome::Ended(reply) | Outcome::Invalid(reply) => reply,
        other => panic!("{code}: {other:?}"),
    }
}

/// The error of a script without its place, which is the same everywhere.
fn error(code: &str) -> String {
    let Reply::Error(text) = reply(code) else { panic!("{code}: no error") };
    text.split(" script: ").next().unwrap().to_owned()
}
