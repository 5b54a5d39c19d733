//! Requests of the HTTP door: a method, an address and a body.

use quorate_core::Random;
use quorate_http::validate::validate;

use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "http",
    what: "addresses, parameters and bodies of the HTTP door: read, or refused with a status of the client's mistakes",
    draw,
    run,
};

const METHODS: [&str; 6] = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"];

const ADDRESSES: [&str; 12] = [
    "/v1/keyspaces",
    "/v1/keyspaces/a",
    "/v1/keyspaces/a/keys/k%2Fx%00",
    "/v1/keyspaces/a/keys/k?at=1800000010743317@d18908",
    "/v1/keyspaces/a/keys?from=a&to=%FF&limit=10",
    "/v1/keyspaces/a/keys?prefix=user%2F&after=user%2Fx&limit=1000&at=5@1",
    "/v1/keyspaces/a/batch",
    "/v1/keyspaces/a/trace",
    "/v1/keyspaces/a/procedures/transfer/call",
    "/v1/outcomes/1-2-3",
    "/v1/openapi.json",
    "/",
];

const BODIES: [&str; 8] = [
    "",
    r#"{"conditions": [{"expect": {"key": "a", "value": "b"}}, {"expect_absent": {"key": "c"}}], "steps": [{"put": {"key": "a", "value": {"base64": "/w=="}}}]}"#,
    r#"{"steps": [{"read": {"key": "k"}}, {"increment": {"key": "n", "by": -9223372036854775808}}, {"append": {"key": "l", "value": "x"}}, {"delete": {"key": {"base64": ""}}}]}"#,
    r#"{"steps": [{"scan": {"prefix": "a", "limit": 4294967295}}, {"scan": {"from": "a", "to": "b", "limit": 0}}]}"#,
    r#"{"isolation": "serializable", "shards": 18446744073709551615, "replicas": 3, "sites": ["a", "b"], "clock_bound_ms": 18446744073709551615}"#,
    r#"{"isolation": "snapshot", "durability": "memory", "application": "tpcc"}"#,
    r#"{"arguments": {"base64": "AAEC"}, "keys": ["a"], "ranges": [{"from": "a", "to": "b"}], "at": ["x"], "read_only": true, "version": 4294967295}"#,
    r#"{"unknown": 1}"#,
];

/// A method, the end of a line, an address, the end of a line, and a body.
fn draw(random: &mut Random) -> Vec<u8> {
    let of = |words: &[&str], random: &mut Random| words[random.index(words.len())].to_owned();
    let (method, address, body) = (of(&METHODS, random), of(&ADDRESSES, random), of(&BODIES, random));
    format!("{method}\n{address}\n{body}").into_bytes()
}

fn run(input: &[u8]) {
    let mut parts = input.splitn(3, |byte| *byte == b'\n');
    let mut next = || parts.next().unwrap_or_default();
    let (method, address, body) = (String::from_utf8_lossy(next()), String::from_utf8_lossy(next()), next());
    for content_type in ["application/json", "text/plain"] {
        if let Err(status) = validate(&method, &address, content_type, body) {
            assert!((400..500).contains(&status), "{status} for {method} {address}");
        }
    }
}
