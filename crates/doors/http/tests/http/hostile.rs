//! Clients that mean no good, or know no better: an answer that says so, bounded memory and time, and nobody else notices.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use quorate_gateway::{Gateway, Limits};

use crate::support;
use crate::wire::Client;

/// The memory that is counted for an idle connection.
const IDLE_BYTES: usize = 16 * 1024;

/// A door to no cluster.
fn open(limits: Limits) -> (Gateway, SocketAddr) {
    support::open(Vec::new(), quorate::Options::default(), limits)
}

fn quick() -> Limits {
    Limits { stall_timeout: Duration::from_millis(400), ..Limits::default() }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Another client is answered as ever.
fn assert_undisturbed(address: SocketAddr) {
    let answer = Client::connect(address).get("/v1/openapi.json");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["openapi"], "3.1.0");
}

#[test]
fn what_is_no_http_ends_one_connection() {
    let (_gateway, address) = open(Limits::default());
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/keyspaces HTTP/9.9\r\n\r\n",
        b"GET /v1/keyspaces HTTP/1.1\r\nhost localhost\r\n\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
        b"POST /v1/keyspaces/a/batch HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/keyspaces/a/batch HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST /v1/keyspaces/a/batch HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip\r\n\r\n",
    ] {
        let mut client = Client::connect(address);
        client.send(bytes);
        let answer = client.receive(false);
        assert!(answer.as_ref().is_none_or(|answer| answer.status == 400), "{bytes:?}: {answer:?}");
        assert!(client.is_closed(), "{bytes:?}");
    }
    assert_undisturbed(address);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_bytes_stop_the_door(bytes in proptest::collection::vec(any::<u8>(), 1..300), is_head in any::<bool>()) {
        let (gateway, address) = open(quick());
        let mut client = Client::connect(address);
        let mut sent = if is_head { b"PUT /v1/keyspaces/".to_vec() } else { Vec::new() };
        sent.extend_from_slice(&bytes);
        // The door may have had enough of it already.
        let _ = client.stream.get_mut().write_all(&sent);
        assert_undisturbed(address);
        drop(client);
        until("nothing is held for those that have gone", || gateway.connections() == 0 && gateway.memory().held() == 0);
    }
}

#[test]
fn heads_have_bounds() {
    let (_gateway, address) = open(Limits::default());
    let long = "x".repeat(20_000);
    let many = (0..100).map(|number| format!("x-{number}: y\r\n")).collect::<String>();
    for head in [
        format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{many}\r\n"),
    ] {
        let mut client = Client::connect(address);
        let _ = client.stream.get_mut().write_all(head.as_bytes());
        let status = client.receive(false).map(|answer| answer.status);
        assert!(matches!(status, None | Some(414 | 431)), "{status:?}");
        assert!(client.is_closed());
    }
    assert_undisturbed(address);
}

#[test]
fn bodies_have_bounds() {
    let (gateway, address) = open(Limits::default());
    let put = "PUT /v1/keyspaces/a/keys/k HTTP/1.1\r\nhost: localhost\r\n";
    // It is refused before any of it is sent.
    let mut client = Client::connect(address);
    client.send(format!("{put}content-length: 1048577\r\n\r\n").as_bytes());
    assert_eq!(client.receive(false).unwrap().problem(), (413, "too-large".to_owned(), "no".to_owned()));
    // One of which nobody has said how long it is ends where it is too long.
    let mut client = Client::connect(address);
    client.send(format!("{put}transfer-encoding: chunked\r\n\r\n").as_bytes());
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
    for _ in 0..17 {
        if client.stream.get_mut().write_all(&chunk).is_err() {
            break;
        }
    }
    assert_eq!(client.receive(false).map(|answer| answer.problem().1), Some("too-large".to_owned()));
    let mut client = Client::connect(address);
    client.send(format!("{put}transfer-encoding: chunked\r\n\r\nzz\r\n").as_bytes());
    assert_eq!(client.receive(false).map(|answer| answer.status), Some(400));
    let mut client = Client::connect(address);
    let with_body = client.ask("GET", "/v1/keyspaces", &[], b"body");
    assert_eq!(with_body.problem().1, "bad-request");
    drop(client);
    until("nothing is held", || gateway.memory().held() == 0);
    assert_undisturbed(address);
}

#[test]
fn bodies_for_which_there_is_no_memory_are_refused_before_they_come() {
    let limits = Limits { bytes_max: 1024 * 1024, ..Limits::default() };
    let (_gateway, address) = open(limits);
    let mut client = Client::connect(address);
    client.send(b"POST /v1/keyspaces/a/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n");
    let refused = client.receive(false).unwrap();
    assert_eq!(refused.problem(), (429, "overloaded".to_owned(), "no".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_undisturbed(address);
}

/// Whether it sends nothing at all, half a head, a byte now and then, or half a body.
#[test]
fn a_client_that_takes_its_time_to_ask_is_given_up() {
    let (gateway, address) = open(quick());
    let began = Instant::now();
    let mut silent = Client::connect(address);
    let mut half = Client::connect(address);
    half.send(b"GET /v1/openapi.json HTTP/1.1\r\nhost: loc");
    let mut body = Client::connect(address);
    body.send(b"PUT /v1/keyspaces/a/keys/k HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nhalf");
    let mut dribbling = Client::connect(address);
    dribbling.send(b"GET / HTTP/1.1\r\nx: ");
    dribbling.stream.get_ref().set_nonblocking(true).unwrap();
    until("a client that sends a byte now and then is given up", || {
        assert_undisturbed(address);
        let is_gone =
            dribbling.stream.get_mut().write(b"y").is_err_and(|error| error.kind() != ErrorKind::WouldBlock);
        std::thread::sleep(Duration::from_millis(50));
        is_gone
    });
    assert_eq!(body.receive(false).unwrap().problem(), (408, "stalled".to_owned(), "no".to_owned()));
    assert!(silent.is_closed() && half.is_closed() && body.is_closed());
    assert!(began.elapsed() < Duration::from_secs(20));
    until("nothing is held", || gateway.connections() == 0 && gateway.memory().held() == 0);
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    let (gateway, address) = open(quick());
    let mut slow = Client::connect(address);
    slow.stream.get_ref().set_nonblocking(true).unwrap();
    let ask = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
    let mut sent = 0;
    until("a slow reader is cut off", || {
        match slow.stream.get_mut().write(&ask[sent % ask.len()..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
        assert!(gateway.memory().held() < 1024 * 1024, "{} bytes are held", gateway.memory().held());
        gateway.connections() == 0
    });
    assert_undisturbed(address);
    until("nothing is held", || gateway.connections() == 0 && gateway.memory().held() == 0);
}

#[test]
fn many_idle_clients_cost_little_and_disturb_nobody() {
    const IDLE: usize = 400;
    let (gateway, address) = open(Limits { stall_timeout: Duration::from_secs(20), ..Limits::default() });
    let idle: Vec<Client> = (0..IDLE)
        .map(|number| {
            let mut client = Client::connect(address);
            if number % 2 == 0 {
                assert_eq!(client.get("/v1/openapi.json").status, 200);
            }
            client
        })
        .collect();
    until("all are in", || gateway.connections() == IDLE);
    assert_undisturbed(address);
    until("an idle one holds what it always holds", || gateway.memory().held() <= IDLE * IDLE_BYTES);
    drop(idle);
    until("nothing is held", || gateway.connections() == 0 && gateway.memory().held() == 0);
}

#[test]
fn clients_beyond_the_limit_are_told() {
    let (_gateway, address) = open(Limits { connections_max: 1, ..Limits::default() });
    let mut first = Client::connect(address);
    assert_eq!(first.get("/v1/openapi.json").status, 200);
    let mut second = Client::connect(address);
    assert_eq!(second.receive(false).unwrap().problem(), (429, "overloaded".to_owned(), "no".to_owned()));
    assert_eq!(first.get("/v1/openapi.json").status, 200);
}

/// A client that has closed its side is answered all the same.
#[test]
fn a_half_open_connection_is_answered() {
    let (gateway, address) = open(Limits::default());
    let mut client = Client::connect(address);
    client.send(b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n");
    client.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.receive(false).unwrap().status, 200);
    assert!(client.is_closed());
    until("it has ended", || gateway.connections() == 0);
}

#[test]
fn wrong_requests_are_problems() {
    let (_gateway, address) = open(Limits::default());
    let mut client = Client::connect(address);
    let json = ("content-type", "application/json");
    for (method, path, headers, body, status) in [
        ("GET", "/v2", vec![], "", 404),
        ("GET", "/v1/keyspaces/a/keys/%zz", vec![], "", 400),
        ("GET", "/v1/keyspaces/%ff/keys/a", vec![], "", 400),
        ("GET", "/v1/keyspaces/a/keys/k?at=%", vec![], "", 400),
        ("GET", "/v1/keyspaces/a/keys?limit=1&limit=2", vec![], "", 400),
        ("PATCH", "/v1/keyspaces/a/keys/k", vec![], "", 405),
        (
            "OPTIONS",
            "/v1/keyspaces",
            vec![("origin", "http://evil.example"), ("access-control-request-method", "GET")],
            "",
            405,
        ),
        ("POST", "/v1/keyspaces/a/batch", vec![], "{}", 415),
        ("POST", "/v1/keyspaces/a/batch", vec![("content-type", "text/plain")], "{}", 415),
        ("POST", "/v1/keyspaces/a/batch", vec![json], "{\"steps\": [", 400),
        ("POST", "/v1/keyspaces/a/batch", vec![json], "\u{1}", 400),
        ("PUT", "/v1/keyspaces/a", vec![json], "[]", 400),
        ("PUT", "/v1/keyspaces/a/keys/k", vec![("quorate-deadline-ms", "soon")], "v", 400),
        ("PUT", "/v1/keyspaces/a/keys/k", vec![("content-type", "image/png")], "v", 415),
    ] {
        let answer = client.ask(method, path, &headers, body.as_bytes());
        let (told, _, committed) = answer.problem();
        assert_eq!((told, committed.as_str()), (status, "no"), "{method} {path}: {answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        if client.stream.buffer().is_empty() && matches!(status, 404 | 405 | 415) && !body.is_empty() {
            // The unread rest of a body may have ended the connection.
            client = Client::connect(address);
        }
    }
    for host in ["evil.example", "localhost.evil.example:80"] {
        let mut client = Client::connect(address);
        client.send(format!("GET /v1/openapi.json HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes());
        assert_eq!(client.receive(false).unwrap().problem().1, "misdirected");
    }
    let mut client = Client::connect(address);
    client.send(b"GET /v1/openapi.json HTTP/1.1\r\n\r\n");
    assert_eq!(client.receive(false).unwrap().problem().1, "bad-request");
}
