//! Clients that mean no good, or know no better: the protocol's own error, bounded memory, and nobody else notices.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use proptest::prelude::*;
use quorate_gateway::{Gateway, Limits};
use quorate_redis::codec::{Limits as RequestLimits, Parser};

use crate::memory;
use crate::oracle::Oracle;
use crate::wire::{Client, Value, encode};

fn open(limits: Limits) -> (Gateway, SocketAddr) {
    memory::open(1, true, limits)
}

/// True once the door has closed the connection.
fn is_closed(client: &mut Client) -> bool {
    let mut rest = Vec::new();
    match client.stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_cannot_be_understood_is_said_and_ends_one_connection() {
    let (_gateway, address) = open(Limits::default());
    let mut other = Client::connect(address);
    for (bytes, error) in [
        (b"*1048577\r\n".as_slice(), "invalid multibulk length"),
        (b"*1\r\n$536870912\r\n", "invalid bulk length"),
        (b"*1\r\nGET\r\n", "expected '$', got 'G'"),
        (b"SET \"k\r\n", "unbalanced quotes in request"),
    ] {
        let mut client = Client::connect(address);
        client.send(b"PING\r\n");
        client.send(bytes);
        assert_eq!(client.receive(), Value::Simple("PONG".to_owned()), "what came before is answered");
        assert_eq!(client.receive(), Value::Error(format!("ERR Protocol error: {error}")));
        assert!(is_closed(&mut client));
        assert_eq!(other.ask("ping"), Value::Simple("PONG".to_owned()));
    }
}

/// The bytes that come back until the connection is closed; none if it is reset, as sockets do with what was not read.
fn rest(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let (mut client, mut rest) = (Client::connect(address), Vec::new());
    client.send(bytes);
    match client.stream.read_to_end(&mut rest) {
        Ok(_) => rest,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            rest
        }
    }
}

#[test]
fn a_request_of_http_ends_its_connection_and_nothing_of_its_body_is_carried_out() {
    let (_gateway, address) = open(Limits::default());
    let oracle = Oracle::start();
    let doors = oracle.iter().map(|oracle| oracle.address).chain([address]);
    for address in doors {
        let mut other = Client::connect(address);
        for request in [
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 30\r\n\r\nSET forged 1\r\n",
            "post / HTTP/1.1\r\n\r\nSET forged 1\r\n",
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET forged 1\r\n",
            "GET / HTTP/1.1\r\nhOST: 127.0.0.1\r\n\r\nSET forged 1\r\n",
            "*1\r\n$4\r\nPOST\r\nSET forged 1\r\n",
            "*2\r\n$5\r\nHost:\r\n$1\r\nx\r\n*3\r\n$3\r\nSET\r\n$6\r\nforged\r\n$1\r\n1\r\n",
            "MULTI\r\nSET forged 1\r\nPOST\r\nEXEC\r\n",
        ] {
            assert_eq!(rest(address, request.as_bytes()), b"", "{address} has said something to {request:?}");
            assert_eq!(
                other.ask("exists forged"),
                Value::Integer(0),
                "{address} has carried out {request:?}"
            );
        }
        assert_eq!(rest(address, b"SET before 1\r\nPOST\r\nSET forged 1\r\n"), b"");
        assert_eq!(other.ask("exists before forged"), Value::Integer(1), "at {address} it came before");
        // No other command is in the way.
        assert_eq!(other.ask("set post host:"), Value::Simple("OK".to_owned()));
    }
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let limits = Limits { stall_timeout: Duration::from_millis(500), ..Limits::default() };
    let (gateway, address) = open(limits);
    let mut slow = Client::connect(address);
    let value = vec![b'x'; 1_000_000];
    let set = [b"set".to_vec(), b"big".to_vec(), value];
    assert_eq!(slow.pipeline(&[set.to_vec()]), [Value::Simple("OK".to_owned())]);
    let get = encode(&[b"get".to_vec(), b"big".to_vec()]).repeat(2_000);
    slow.stream.get_ref().set_nonblocking(true).unwrap();
    // Two gigabytes are asked for, and nothing is taken.
    let mut sent = 0;
    until("a slow reader is cut off", || {
        match slow.stream.get_mut().write(&get[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
        assert!(gateway.memory().held() < 32 * 1024 * 1024, "{} bytes are held", gateway.memory().held());
        gateway.connections() == 0
    });
    assert_eq!(Client::connect(address).ask("ping"), Value::Simple("PONG".to_owned()));
}

#[test]
fn one_connection_holds_no_more_than_it_may() {
    let (gateway, address) = open(Limits { connection_bytes_max: 100_000, ..Limits::default() });
    let mut greedy = Client::connect(address);
    greedy.send(b"*2\r\n$3\r\nGET\r\n$200000\r\n");
    // It may be cut off before it has sent all of that.
    let _ = greedy.stream.get_mut().write_all(&[b'x'; 150_000]);
    until("it is cut off", || gateway.connections() == 0);
    assert_eq!(gateway.memory().held(), 0);
}

#[test]
fn all_connections_together_hold_no_more_than_they_may() {
    let (gateway, address) = open(Limits { bytes_max: 1_000_000, ..Limits::default() });
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.send(b"*2\r\n$3\r\nGET\r\n$200000\r\n");
        // It may be cut off before it has sent all of that.
        let _ = client.stream.get_mut().write_all(&[b'x'; 150_000]);
    }
    until("some are cut off", || gateway.connections() <= 7);
    assert!(gateway.memory().held() <= 1_000_000);
    assert_eq!(
        Client::connect(address).ask("ping"),
        Value::Simple("PONG".to_owned()),
        "short requests have room"
    );
}

#[test]
fn a_request_that_stops_halfway_is_given_up_and_an_idle_client_is_not() {
    let limits = Limits { stall_timeout: Duration::from_millis(100), ..Limits::default() };
    let (gateway, address) = open(limits);
    let mut idle = Client::connect(address);
    assert_eq!(idle.ask("ping"), Value::Simple("PONG".to_owned()));
    let mut half = Client::connect(address);
    half.send(b"*2\r\n$3\r\nGET\r\n");
    until("half a request is given up", || gateway.connections() == 1);
    assert_eq!(idle.ask("ping"), Value::Simple("PONG".to_owned()));
}

#[test]
fn too_many_connections_are_refused_and_idle_ones_hold_nothing() {
    let (gateway, address) = open(Limits { connections_max: 200, ..Limits::default() });
    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(address)).collect();
    assert!(clients.iter_mut().all(|client| client.ask("ping") == Value::Simple("PONG".to_owned())));
    until("replies are gone", || gateway.memory().held() == 0);
    let mut further = Client::connect(address);
    assert_eq!(further.receive(), Value::Error("ERR max number of clients reached".to_owned()));
    drop(clients.pop());
    until("one has gone", || gateway.connections() == 199);
    assert_eq!(Client::connect(address).ask("ping"), Value::Simple("PONG".to_owned()));
}

#[test]
fn a_transaction_without_end_is_bounded() {
    let (_gateway, address) = open(Limits::default());
    let mut client = Client::connect(address);
    client.ask("multi");
    let value = vec![b'x'; 1_000_000];
    let set = vec![b"set".to_vec(), b"k".to_vec(), value];
    let replies: Vec<Value> =
        (0..20).map(|_| client.pipeline(std::slice::from_ref(&set)).remove(0)).collect();
    assert!(matches!(&replies[19], Value::Error(text) if text.contains("more than")), "{}", replies[19]);
    assert!(matches!(client.ask("exec"), Value::Error(text) if text.starts_with("EXECABORT")));
    assert_eq!(client.ask("exists k"), Value::Integer(0));
}

/// More cases where that is wanted: a factor.
fn cases() -> u32 {
    let factor = std::env::var("QUORATE_FUZZ_FACTOR").ok().and_then(|text| text.parse::<u32>().ok());
    256 * factor.unwrap_or(1)
}

/// All requests in some bytes that come in pieces of these sizes, and what is wrong with the rest.
fn parse(bytes: &[u8], sizes: &[usize]) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let limits = RequestLimits { bulk_bytes_max: 1_000, arguments_max: 50, request_bytes_max: 10_000 };
    let (mut parser, mut input, mut requests) = (Parser::new(limits), BytesMut::new(), Vec::new());
    let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
    loop {
        let size = (*sizes.next().unwrap_or(&1)).clamp(1, rest.len().max(1)).min(rest.len());
        let (piece, behind) = rest.split_at(size);
        input.extend_from_slice(piece);
        rest = behind;
        loop {
            match parser.next(&mut input) {
                Ok(Some(request)) => requests.push(request.iter().map(|word| word.to_vec()).collect()),
                Ok(None) => break,
                Err(invalid) => return (requests, Some(invalid.0)),
            }
            assert!(parser.kept() <= limits.request_bytes_max);
        }
        if rest.is_empty() {
            return (requests, None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn any_bytes_are_parsed_alike_in_any_pieces(
        bytes in proptest::collection::vec(
            prop_oneof![
                3 => proptest::sample::select(b"*$\r\n0123456789-\"'\\x ".to_vec()),
                1 => any::<u8>(),
            ],
            0..300,
        ),
        sizes in proptest::collection::vec(1_usize..20, 1..10),
    ) {
        prop_assert_eq!(parse(&bytes, &[usize::MAX]), parse(&bytes, &sizes));
    }

    #[test]
    fn requests_come_back_and_damaged_ones_do_no_harm(
        requests in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..5), 1..5),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        sizes in proptest::collection::vec(1_usize..20, 1..10),
    ) {
        let mut bytes: Vec<u8> = requests.iter().flat_map(|words| encode(words)).collect();
        prop_assert_eq!(parse(&bytes, &sizes), (requests, None));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assert_eq!(parse(&bytes, &[usize::MAX]), parse(&bytes, &sizes));
    }
}

#[test]
fn an_independent_codec_understands_replies() {
    use quorate_redis::codec::{Version, write_reply};
    use quorate_redis_commands::Reply;
    let one = || Reply::Integer(1);
    let replies = [
        Reply::OK,
        Reply::error("ERR no"),
        Reply::bulk("a\r\nb"),
        Reply::Null,
        Reply::NullArray,
        Reply::Double(1.5),
        Reply::Verbatim(b"text".to_vec()),
        Reply::Array(vec![one(), Reply::Null]),
        Reply::Set(vec![one()]),
        Reply::Map(vec![(one(), one())]),
        Reply::Pairs(vec![(one(), one())]),
        Reply::Table(vec![(one(), one())]),
        Reply::Decimal(0.5),
    ];
    for reply in replies {
        for version in [Version::Two, Version::Three] {
            let mut bytes = Vec::new();
            write_reply(&mut bytes, &reply, version);
            let length = match version {
                Version::Two => redis_protocol::resp2::decode::decode(&bytes).unwrap().unwrap().1,
                Version::Three => redis_protocol::resp3::decode::complete::decode(&bytes).unwrap().unwrap().1,
            };
            assert_eq!(length, bytes.len(), "{reply:?} in {version:?}");
        }
    }
}
