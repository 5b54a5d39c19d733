//! Commands of several clients that arrive at about the same time are one transaction, and none of them pays for the others.

use quorate_redis::Failure;

use crate::memory::{Shards, open_observed};
use crate::wire::{Client, Value, encode};

/// One more client than these have company in each test.
const CLIENTS: usize = 12;

fn failure(text: &str, is_too_large: bool) -> Failure {
    Failure { text: text.to_owned(), is_too_large, is_stale: false }
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Has clients send lines while the first line of another one is held up at the shard, and gives their replies, each as many as it has lines.
fn together(
    shards: &Shards,
    first: &mut Client,
    clients: &mut [Client],
    lines: &dyn Fn(usize) -> Vec<String>,
) -> Vec<Vec<Value>> {
    let send = |client: &mut Client, lines: &[String]| {
        client.send(&lines.iter().flat_map(|line| encode(&words(line))).collect::<Vec<u8>>());
    };
    shards.hold_up(
        || send(first, &["incr n".to_owned()]),
        || clients.iter_mut().enumerate().for_each(|(at, client)| send(client, &lines(at))),
    );
    first.receive();
    let receive = |(at, client): (usize, &mut Client)| lines(at).iter().map(|_| client.receive()).collect();
    clients.iter_mut().enumerate().map(receive).collect()
}

fn counted(replies: &[Vec<Value>]) -> Vec<i64> {
    let number = |reply: &Value| match reply {
        Value::Integer(number) => *number,
        other => panic!("{other:?} is no number"),
    };
    let mut counted: Vec<i64> = replies.iter().flatten().map(number).collect();
    counted.sort_unstable();
    counted
}

fn clients(address: std::net::SocketAddr) -> (Client, Vec<Client>) {
    let mut all: Vec<Client> = (0..=CLIENTS).map(|_| Client::connect(address)).collect();
    // Each is being served.
    all.iter_mut().for_each(|client| drop(client.ask("ping")));
    (all.pop().unwrap(), all)
}

#[test]
fn brief_commands_of_several_clients_are_one_transaction() {
    let (_gateway, address, shards) = open_observed();
    let (mut first, mut others) = clients(address);
    let replies = together(&shards, &mut first, &mut others, &|_| vec!["incr n".to_owned()]);
    assert_eq!(counted(&replies), (2..=CLIENTS as i64 + 1).collect::<Vec<_>>());
    assert_eq!(shards.take_asked(), [1, CLIENTS]);
}

#[test]
fn each_client_is_told_of_its_own_commands_in_their_order() {
    let (_gateway, address, shards) = open_observed();
    let (mut first, mut others) = clients(address);
    let lines =
        |at: usize| vec![format!("set key{at} {at}"), format!("append key{at} !"), format!("strlen key{at}")];
    let replies = together(&shards, &mut first, &mut others, &lines);
    for (at, replies) in replies.iter().enumerate() {
        let length = at.to_string().len() as i64 + 1;
        let expected = [Value::Simple("OK".to_owned()), Value::Integer(length), Value::Integer(length)];
        assert_eq!(replies, &expected);
    }
    assert_eq!(shards.take_asked(), [1, 3 * CLIENTS]);
}

#[test]
fn commands_that_only_read_stay_apart_from_those_that_write() {
    let (_gateway, address, shards) = open_observed();
    let (mut first, mut others) = clients(address);
    let line = |at: usize| if at < 4 { "get n" } else { "incr n" };
    together(&shards, &mut first, &mut others, &|at| vec![line(at).to_owned()]);
    let mut asked = shards.take_asked();
    asked.sort_unstable();
    assert_eq!(asked, [1, 4, CLIENTS - 4]);
}

#[test]
fn commands_that_may_take_long_are_carried_out_alone() {
    let (_gateway, address, shards) = open_observed();
    let (mut first, mut others) = clients(address);
    for line in ["hgetall h", "flushall", "lrange l 0 -1", "mget a b"] {
        together(&shards, &mut first, &mut others, &|_| vec![line.to_owned()]);
        assert!(shards.take_asked()[1..].iter().all(|asked| *asked <= 1), "{line}");
    }
    let many = vec!["get n".to_owned(); 17];
    together(&shards, &mut first, &mut others, &|_| many.clone());
    assert_eq!(shards.take_asked()[1..], [17; CLIENTS], "a long pipeline is company enough");
    let large = format!("set large {}", "x".repeat(16 * 1024));
    together(&shards, &mut first, &mut others, &|_| vec![large.clone()]);
    assert_eq!(shards.take_asked()[1..], [1; CLIENTS], "large values take long");
}

#[test]
fn a_joint_transaction_that_is_refused_is_tried_by_each_client_alone() {
    let (_gateway, address, shards) = open_observed();
    let (mut first, mut others) = clients(address);
    shards.fail([failure("ERR nothing was done: stopped", false)]);
    let replies = together(&shards, &mut first, &mut others, &|_| vec!["incr n".to_owned()]);
    assert_eq!(counted(&replies), (2..=CLIENTS as i64 + 1).collect::<Vec<_>>());
    assert_eq!(shards.take_asked()[..2], [1, CLIENTS]);
    // The next ones have company again.
    together(&shards, &mut first, &mut others, &|_| vec!["incr n".to_owned()]);
    assert_eq!(shards.take_asked(), [1, CLIENTS]);
}

#[test]
fn after_one_that_was_too_large_commands_are_carried_out_alone_for_a_while() {
    let (_gateway, address, shards) = open_observed();
    let (mut first, mut others) = clients(address);
    shards.fail([failure("ERR too large", true)]);
    let replies = together(&shards, &mut first, &mut others, &|_| vec!["incr n".to_owned()]);
    assert_eq!(counted(&replies), (2..=CLIENTS as i64 + 1).collect::<Vec<_>>());
    assert_eq!(shards.take_asked(), [&[1, CLIENTS][..], &[1; CLIENTS]].concat());
    together(&shards, &mut first, &mut others, &|_| vec!["incr n".to_owned()]);
    assert_eq!(shards.take_asked(), [1; CLIENTS + 1]);
}

#[test]
fn an_outcome_that_is_not_known_is_told_to_all_and_nothing_is_repeated() {
    let (_gateway, address, shards) = open_observed();
    let (mut first, mut others) = clients(address);
    for text in [
        "UNKNOWN it may have been carried out",
        "OVERLOADED nothing was started",
        "TRYAGAIN nothing was done",
    ] {
        shards.fail([failure(text, false)]);
        let replies = together(&shards, &mut first, &mut others, &|_| vec!["incr n".to_owned()]);
        assert!(replies.iter().flatten().all(|reply| *reply == Value::Error(text.to_owned())), "{replies:?}");
        assert_eq!(shards.take_asked(), [1, CLIENTS], "{text}");
    }
}

#[test]
fn what_one_transaction_does_not_take_is_taken_by_the_next() {
    let (_gateway, address, shards) = open_observed();
    let (mut first, mut others) = clients(address);
    let value = "x".repeat(12 * 1024);
    together(&shards, &mut first, &mut others, &|at| vec![format!("set key{at} {value}")]);
    let mut asked = shards.take_asked();
    asked.sort_unstable();
    assert_eq!(asked, [1, 2, 5, 5]);
}
