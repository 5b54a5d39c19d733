//! Replies, in the version of the protocol that a client has chosen.

use quorate_redis_commands::{Reply, print_decimal, print_double};

/// A version of the Redis protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// RESP2, which every client speaks until it says otherwise.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl Version {
    /// Its number.
    pub fn number(self) -> i64 {
        match self {
            Version::Two => 2,
            Version::Three => 3,
        }
    }
}

fn line(output: &mut Vec<u8>, kind: u8, text: &[u8]) {
    output.push(kind);
    // A line ends where it says: what would end it sooner becomes a space.
    output.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    output.extend_from_slice(b"\r\n");
}

fn number(output: &mut Vec<u8>, kind: u8, number: i64) {
    output.push(kind);
    if (0..10).contains(&number) {
        output.push(b'0' + number as u8);
    } else {
        output.extend_from_slice(number.to_string().as_bytes());
    }
    output.extend_from_slice(b"\r\n");
}

fn bulk(output: &mut Vec<u8>, bytes: &[u8]) {
    number(output, b'$', bytes.len() as i64);
    output.extend_from_slice(bytes);
    output.extend_from_slice(b"\r\n");
}

/// A part of a message that no command has asked for by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// Nothing.
    Null,
    /// A number.
    Number(i64),
}

/// Writes a message that no command has asked for by itself: an array in version 2, a kind of its own in version 3.
pub fn write_push(output: &mut Vec<u8>, parts: &[Part<'_>], version: Version) {
    let kind = if version == Version::Three { b'>' } else { b'*' };
    number(output, kind, parts.len() as i64);
    for part in parts {
        match part {
            Part::Bytes(bytes) => bulk(output, bytes),
            Part::Null if version == Version::Three => output.extend_from_slice(b"_\r\n"),
            Part::Null => output.extend_from_slice(b"$-1\r\n"),
            Part::Number(value) => number(output, b':', *value),
        }
    }
}

/// Writes a reply.
pub fn write_reply(output: &mut Vec<u8>, reply: &Reply, version: Version) {
    let is_three = version == Version::Three;
    match reply {
        Reply::Simple(text) => line(output, b'+', text.as_bytes()),
        // As Redis does, which ends lines itself.
        Reply::Error(text) => line(output, b'-', text.trim_matches(['\r', '\n']).as_bytes()),
        Reply::Integer(value) => number(output, b':', *value),
        Reply::Boolean(flag) if is_three => line(output, b'#', if *flag { b"t" } else { b"f" }),
        Reply::Boolean(flag) => number(output, b':', i64::from(*flag)),
        Reply::Bulk(bytes) => bulk(output, bytes),
        Reply::Verbatim(text) if is_three => {
            number(output, b'=', text.len() as i64 + 4);
            output.extend_from_slice(b"txt:");
            output.extend_from_slice(text);
            output.extend_from_slice(b"\r\n");
        }
        Reply::Verbatim(text) => bulk(output, text),
        Reply::Null | Reply::NullArray if is_three => output.extend_from_slice(b"_\r\n"),
        Reply::Null => output.extend_from_slice(b"$-1\r\n"),
        Reply::NullArray => output.extend_from_slice(b"*-1\r\n"),
        Reply::Double(value) if is_three => line(output, b',', print_double(*value).as_bytes()),
        Reply::Double(value) => bulk(output, print_double(*value).as_bytes()),
        Reply::Decimal(value) if is_three => line(output, b',', print_decimal(*value).as_bytes()),
        Reply::Decimal(value) => bulk(output, print_decimal(*value).as_bytes()),
        Reply::Array(replies) | Reply::Set(replies) => {
            let kind = if is_three && matches!(reply, Reply::Set(_)) { b'~' } else { b'*' };
            number(output, kind, replies.len() as i64);
            replies.iter().for_each(|reply| write_reply(output, reply, version));
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Table(pairs) => {
            let is_map = is_three && !matches!(reply, Reply::Pairs(_));
            let is_nested = if is_three { !is_map } else { matches!(reply, Reply::Table(_)) };
            let count = if is_map || is_nested { pairs.len() } else { pairs.len() * 2 };
            number(output, if is_map { b'%' } else { b'*' }, count as i64);
            for (key, value) in pairs {
                if is_nested {
                    number(output, b'*', 2);
                }
                write_reply(output, key, version);
                write_reply(output, value, version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_written_in_both_versions() {
        let parts = [Part::Bytes(b"message"), Part::Null, Part::Number(12)];
        for (version, expected) in [
            (Version::Two, "*3\r\n$7\r\nmessage\r\n$-1\r\n:12\r\n"),
            (Version::Three, ">3\r\n$7\r\nmessage\r\n_\r\n:12\r\n"),
        ] {
            let mut output = Vec::new();
            write_push(&mut output, &parts, version);
            assert_eq!(String::from_utf8(output).unwrap(), expected);
        }
    }

    #[test]
    fn replies_are_written_in_both_versions() {
        let pair = || vec![(Reply::bulk("f"), Reply::Integer(12))];
        for (reply, two, three) in [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::error("ERR a\r\nb\n"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (Reply::bulk("a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::NullArray, "*-1\r\n", "_\r\n"),
            (Reply::Boolean(true), ":1\r\n", "#t\r\n"),
            (Reply::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (Reply::Decimal(0.5), "$3\r\n0.5\r\n", ",0.5\r\n"),
            (Reply::Verbatim(b"x".to_vec()), "$1\r\nx\r\n", "=5\r\ntxt:x\r\n"),
            (Reply::Set(vec![Reply::Integer(1)]), "*1\r\n:1\r\n", "~1\r\n:1\r\n"),
            (Reply::Map(pair()), "*2\r\n$1\r\nf\r\n:12\r\n", "%1\r\n$1\r\nf\r\n:12\r\n"),
            (Reply::Pairs(pair()), "*2\r\n$1\r\nf\r\n:12\r\n", "*1\r\n*2\r\n$1\r\nf\r\n:12\r\n"),
            (Reply::Table(pair()), "*1\r\n*2\r\n$1\r\nf\r\n:12\r\n", "%1\r\n$1\r\nf\r\n:12\r\n"),
        ] {
            for (version, expected) in [(Version::Two, two), (Version::Three, three)] {
                let mut output = Vec::new();
                write_reply(&mut output, &reply, version);
                assert_eq!(String::from_utf8(output).unwrap(), expected);
            }
        }
    }
}
