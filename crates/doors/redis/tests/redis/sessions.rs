//! Clients that do anything in any order, in pipelines that come in any pieces: each request has as many replies as it should, and the door goes on.
//!
//! `QUORATE_FUZZ_FACTOR` multiplies the number of sessions, and `QUORATE_FUZZ_SEED` repeats the one that has failed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quorate_gateway::Limits;

use crate::memory;
use crate::wire::{Client, Value, encode};

/// Draws numbers: splitmix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// The state of a client, as far as it decides how many replies there are.
#[derive(Default)]
struct Model {
    is_three: bool,
    is_in_multi: bool,
    names: [BTreeSet<String>; 3],
}

impl Model {
    fn is_restricted(&self) -> bool {
        !self.is_three && self.names.iter().any(|names| !names.is_empty())
    }

    /// Gives a request, and how many replies it has.
    fn request(&mut self, draws: &mut Draws) -> (Vec<String>, usize) {
        const NAMES: &[&str] = &["a", "b", "news", "n*", "?"];
        let line = match draws.below(16) {
            0 => "multi",
            1 | 2 => "exec",
            3 => "discard",
            4 if !self.is_in_multi => "hello 3",
            5 if !self.is_in_multi && draws.below(4) == 0 => "hello 2",
            6 if draws.below(4) == 0 => "reset",
            7..=9 => return self.change(draws, NAMES),
            10 => return (["publish", "news", "message"].map(str::to_owned).to_vec(), 1),
            11 => {
                let script = draws.one_of(&[
                    "return {1, 2, {3}}",
                    "redis.call('publish', 'a', 'of a script') return redis.call('incr', 'n')",
                    "return redis.call('incr', 's')",
                    "this is none",
                ]);
                return (["eval", script, "0"].map(str::to_owned).to_vec(), 1);
            }
            _ => draws.one_of(&[
                "set s text",
                "get s",
                "incr n",
                "incr s",
                "watch s",
                "unwatch",
                "get",
                "nothing at all",
                "spublish b message",
                "pubsub numsub a b",
                "blpop s 0.001",
                "mget a b c",
                "publish a",
                "subscribe",
                "client id",
                "ping",
            ]),
        };
        if !self.is_restricted() || line == "reset" {
            match line {
                "multi" => self.is_in_multi = true,
                "exec" | "discard" => self.is_in_multi = false,
                "hello 3" => self.is_three = true,
                "hello 2" => self.is_three = false,
                "reset" => *self = Model::default(),
                _ => {}
            }
        }
        (line.split(' ').map(str::to_owned).collect(), 1)
    }

    /// Subscribes to some names, or does so no more.
    fn change(&mut self, draws: &mut Draws, names: &[&str]) -> (Vec<String>, usize) {
        let kind = draws.below(3);
        let begins = draws.below(2) == 0;
        let least = usize::from(begins);
        let given: Vec<String> =
            (0..least + draws.below(3)).map(|_| (*draws.one_of(names)).to_owned()).collect();
        let command = match (["", "p", "s"][kind], begins) {
            (prefix, true) => format!("{prefix}subscribe"),
            (prefix, false) => format!("{prefix}unsubscribe"),
        };
        let words = std::iter::once(command).chain(given.iter().cloned()).collect();
        if self.is_in_multi {
            return (words, 1);
        }
        let of_kind = &mut self.names[kind];
        let replies = match (begins, given.is_empty()) {
            (true, _) => given.len(),
            (false, false) => given.len(),
            (false, true) => of_kind.len().max(1),
        };
        match (begins, given.is_empty()) {
            (true, _) => of_kind.extend(given),
            (false, true) => of_kind.clear(),
            (false, false) => of_kind.retain(|name| !given.contains(name)),
        }
        (words, replies)
    }
}

/// True if a value is a message, which no request has asked for by itself.
fn is_message(value: &Value) -> bool {
    let (Value::Array(parts) | Value::Push(parts)) = value else { return false };
    let kinds: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];
    matches!(parts.first(), Some(Value::Bulk(kind)) if kinds.contains(&kind.as_slice()))
}

/// A client does a few dozen things, in pipelines.
fn session(address: SocketAddr, seed: u64) {
    let mut draws = Draws(seed);
    let (mut client, mut model) = (Client::connect(address), Model::default());
    for round in 0..6 {
        let (mut bytes, mut expected) = (Vec::new(), 0);
        let mut requests = Vec::new();
        for _ in 0..draws.below(12) {
            let (words, replies) = model.request(&mut draws);
            bytes.extend(encode(&words.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>()));
            expected += replies;
            requests.push(words.join(" "));
        }
        // In a transaction it is queued, and so not what it would be otherwise.
        let end = format!("end-{round}");
        let begins_multi = model.is_in_multi;
        bytes.extend(encode(&if begins_multi { vec![b"discard".to_vec()] } else { vec![b"ping".to_vec()] }));
        model.is_in_multi = false;
        bytes.extend(encode(&[b"ping".to_vec(), end.clone().into_bytes()]));
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((1 + draws.below(200)).min(rest.len()));
            client.send(piece);
            rest = behind;
        }
        let mut received = Vec::new();
        let marks = [
            Value::Bulk(end.clone().into_bytes()),
            Value::Array(vec![Value::Bulk(b"pong".to_vec()), Value::Bulk(end.into_bytes())]),
        ];
        loop {
            let value = client.receive();
            if marks.contains(&value) {
                break;
            }
            if !is_message(&value) {
                received.push(value.to_string());
            }
        }
        assert_eq!(
            received.len(),
            expected + 1,
            "QUORATE_FUZZ_SEED={seed} repeats it: {requests:#?} have the replies {received:#?}"
        );
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_request_of_any_session_has_its_replies() {
    const SESSIONS: u64 = 150;
    const AT_A_TIME: u64 = 3;
    let (gateway, address) = memory::open(3, true, Limits::default());
    if let Some(seed) = variable("QUORATE_FUZZ_SEED") {
        return session(address, seed);
    }
    let each = SESSIONS * variable("QUORATE_FUZZ_FACTOR").unwrap_or(1) / AT_A_TIME;
    let threads: Vec<_> = (0..AT_A_TIME)
        .map(|thread| {
            std::thread::spawn(move || (0..each).for_each(|number| session(address, thread * each + number)))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let mut last = Client::connect(address);
    let deadline = Instant::now() + Duration::from_secs(20);
    while last.ask("pubsub numpat") != Value::Integer(0) || gateway.connections() > 1 {
        assert!(Instant::now() < deadline, "subscriptions end with their clients");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(last.ask("ping"), Value::Simple("PONG".to_owned()));
    assert!(gateway.memory().held() < 1024 * 1024);
}
