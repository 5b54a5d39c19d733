//! Requests: arrays of bulk strings, and lines that people type.
//!
//! A parser keeps what has come of a request that is not whole, so that no byte is looked at twice, however small the pieces are that it comes in. An
//! error is said in the words of Redis, and the connection ends: nothing after it can be understood.

use bytes::{Buf, Bytes, BytesMut};

/// The bounds of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest argument, in bytes.
    pub bulk_bytes_max: usize,
    /// The most arguments.
    pub arguments_max: usize,
    /// The longest request, in bytes, with a little for each argument.
    pub request_bytes_max: usize,
}

/// The cost of each argument beside its bytes.
const ARGUMENT_BYTES: usize = std::mem::size_of::<Bytes>();

/// The longest line that people type, and the longest number, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bulk_bytes_max: quorate_redis_commands::STRING_BYTES_MAX,
            arguments_max: 1024 * 1024,
            request_bytes_max: 48 * 1024 * 1024,
        }
    }
}

/// A request cannot be understood: what the client is told before the connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

impl Invalid {
    fn of<T>(text: impl Into<String>) -> Result<T, Invalid> {
        Err(Invalid(format!("ERR Protocol error: {}", text.into())))
    }
}

/// Takes requests from what a client sends.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// The arguments of the request that has begun.
    arguments: Vec<Bytes>,
    /// How many are missing.
    missing: usize,
    /// The length of the next one, if that has come.
    length: Option<usize>,
    /// How much the arguments hold, and count for.
    bytes: usize,
    /// So many bytes were looked at for the end of a line in vain.
    looked_at: usize,
}

impl Parser {
    /// A parser at the beginning of a request.
    pub fn new(limits: Limits) -> Self {
        Parser { limits, arguments: Vec::new(), missing: 0, length: None, bytes: 0, looked_at: 0 }
    }

    /// How much it keeps of a request that is not whole, in bytes; not zero if one has begun.
    pub fn kept(&self) -> usize {
        if self.missing > 0 { self.bytes.max(1) } else { 0 }
    }

    /// Takes the next request; none if it is not whole. Empty ones are passed over, as Redis does.
    ///
    /// # Errors
    /// It cannot be understood; nor can anything after it.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, Invalid> {
        loop {
            if self.missing > 0 {
                return self.next_of_array(input);
            }
            match input.first() {
                None => return Ok(None),
                Some(b'*') => {
                    let Some(count) = self.number(input, "too big mbulk count string")? else {
                        return Ok(None);
                    };
                    match count {
                        Some(count) if count <= 0 => continue,
                        Some(count) if count as u64 <= self.limits.arguments_max as u64 => {
                            self.missing = count as usize;
                        }
                        _ => return Invalid::of("invalid multibulk length"),
                    }
                }
                Some(_) => match self.line(input)? {
                    None => return Ok(None),
                    Some(words) if words.is_empty() => continue,
                    Some(words) => return Ok(Some(words)),
                },
            }
        }
    }

    /// Takes what has come of the arguments that are missing.
    fn next_of_array(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, Invalid> {
        while self.missing > 0 {
            let length = match self.length {
                Some(length) => length,
                None => {
                    match input.first() {
                        None => return Ok(None),
                        Some(b'$') => {}
                        Some(other) => {
                            return Invalid::of(format!("expected '$', got '{}'", char::from(*other)));
                        }
                    }
                    let Some(length) = self.number(input, "too big bulk count string")? else {
                        return Ok(None);
                    };
                    let length = length.and_then(|length| usize::try_from(length).ok());
                    let Some(length) = length.filter(|length| *length <= self.limits.bulk_bytes_max) else {
                        return Invalid::of("invalid bulk length");
                    };
                    if self.bytes + length + ARGUMENT_BYTES > self.limits.request_bytes_max {
                        return Invalid::of(format!(
                            "a request of more than {} bytes",
                            self.limits.request_bytes_max
                        ));
                    }
                    self.length = Some(length);
                    length
                }
            };
            if input.len() < length + 2 {
                return Ok(None);
            }
            // As Redis does, what stands in place of the end of the line is passed over.
            let argument = input.split_to(length).freeze();
            input.advance(2);
            self.bytes += length + ARGUMENT_BYTES;
            self.arguments.push(argument);
            (self.length, self.missing) = (None, self.missing - 1);
        }
        self.bytes = 0;
        Ok(Some(std::mem::take(&mut self.arguments)))
    }

    /// Takes the number of a line behind its first byte: none if the line is not whole, none in it if that is no number.
    fn number(&mut self, input: &mut BytesMut, too_long: &str) -> Result<Option<Option<i64>>, Invalid> {
        let Some(end) = self.line_end(input) else {
            return if input.len() > LINE_BYTES_MAX { Invalid::of(too_long) } else { Ok(None) };
        };
        let line = input.split_to(end + 1);
        let digits = line[1..end].strip_suffix(b"\r").unwrap_or(&line[1..end]);
        // Redis reads no sign but a minus, and no zeros in front.
        let is_number = match digits.strip_prefix(b"-").unwrap_or(digits) {
            [b'0'] => digits.len() == 1,
            [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        let number = || std::str::from_utf8(digits).ok()?.parse().ok();
        Ok(Some(if is_number { number() } else { None }))
    }

    /// Takes a line that somebody has typed: none if it is not whole.
    fn line(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, Invalid> {
        let Some(end) = self.line_end(input) else {
            return if input.len() > LINE_BYTES_MAX {
                Invalid::of("too big inline request")
            } else {
                Ok(None)
            };
        };
        let line = input.split_to(end + 1);
        let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        match words(line) {
            Some(words) => Ok(Some(words)),
            None => Invalid::of("unbalanced quotes in request"),
        }
    }

    fn line_end(&mut self, input: &BytesMut) -> Option<usize> {
        let from = self.looked_at.min(input.len());
        match input[from..].iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                self.looked_at = 0;
                Some(from + at)
            }
            None => {
                self.looked_at = input.len();
                None
            }
        }
    }
}

/// The words of a line: between spaces, or in quotes. None if a quote does not end, or something stands right behind it.
fn words(line: &[u8]) -> Option<Vec<Bytes>> {
    let (mut words, mut rest) = (Vec::new(), line);
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() || rest[0] == 0 {
            return Some(words);
        }
        let (mut word, mut quote) = (Vec::new(), None);
        loop {
            let Some((byte, behind)) = rest.split_first() else {
                if quote.is_some() {
                    return None;
                }
                break;
            };
            rest = behind;
            match (quote, byte) {
                (Some(b'"'), b'\\') => match rest {
                    [b'x', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                        word.push(digit(*high) << 4 | digit(*low));
                        rest = behind;
                    }
                    [escaped, behind @ ..] => {
                        word.push(match escaped {
                            b'n' => b'\n',
                            b'r' => b'\r',
                            b't' => b'\t',
                            b'b' => 8,
                            b'a' => 7,
                            other => *other,
                        });
                        rest = behind;
                    }
                    [] => return None,
                },
                (Some(b'\''), b'\\') if rest.first() == Some(&b'\'') => {
                    word.push(b'\'');
                    rest = &rest[1..];
                }
                (Some(open), byte) if open == *byte => {
                    if rest.first().is_some_and(|next| !next.is_ascii_whitespace() && *next != 11) {
                        return None;
                    }
                    break;
                }
                (Some(_), byte) => word.push(*byte),
                (None, b' ' | b'\n' | b'\r' | b'\t' | 0) => break,
                (None, b'"' | b'\'') => quote = Some(*byte),
                (None, byte) => word.push(*byte),
            }
        }
        words.push(Bytes::from(word));
    }
}

fn digit(hexadecimal: u8) -> u8 {
    match hexadecimal {
        b'0'..=b'9' => hexadecimal - b'0',
        lower_or_upper => (lower_or_upper | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bulk_bytes_max: 100, arguments_max: 10, request_bytes_max: 1_000 };

    fn all(bytes: &[u8]) -> (Vec<Vec<Bytes>>, Option<String>) {
        let (mut parser, mut input, mut requests) = (Parser::new(LIMITS), BytesMut::from(bytes), Vec::new());
        loop {
            match parser.next(&mut input) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => return (requests, None),
                Err(Invalid(text)) => return (requests, Some(text)),
            }
        }
    }

    #[test]
    fn requests_come_in_any_pieces() {
        let bytes =
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\r\nPING\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\nset k \"a\\x00 b\"\n";
        let (whole, error) = all(bytes);
        assert_eq!((whole.len(), error), (4, None));
        assert_eq!(whole[3][2].as_ref(), b"a\0 b");
        for size in 1..bytes.len() {
            let (mut parser, mut input, mut requests) = (Parser::new(LIMITS), BytesMut::new(), Vec::new());
            for piece in bytes.chunks(size) {
                input.extend_from_slice(piece);
                while let Some(request) = parser.next(&mut input).unwrap() {
                    requests.push(request);
                }
            }
            assert_eq!(requests, whole, "in pieces of {size}");
            assert_eq!((parser.kept(), input.len()), (0, 0));
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_redis_does() {
        let long = [b'a'; LINE_BYTES_MAX + 1];
        for (bytes, error) in [
            (b"*1\r\n:1\r\n".as_slice(), "expected '$', got ':'"),
            (b"*x\r\n", "invalid multibulk length"),
            (b"*11\r\n", "invalid multibulk length"),
            (b"*+1\r\n", "invalid multibulk length"),
            (b"*1\r\n$101\r\n", "invalid bulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$x\r\n", "invalid bulk length"),
            (b"get \"a\r\n", "unbalanced quotes in request"),
            (b"get \"a\"b\r\n", "unbalanced quotes in request"),
            (&long, "too big inline request"),
            (&[b"*".as_slice(), &long].concat(), "too big mbulk count string"),
            (&[b"*1\r\n$".as_slice(), &long].concat(), "too big bulk count string"),
        ] {
            assert_eq!(all(bytes).1.as_deref(), Some(format!("ERR Protocol error: {error}").as_str()));
        }
        let request = |size: usize| format!("${size}\r\n{}\r\n", "x".repeat(size)).repeat(10);
        assert!(all(format!("*10\r\n{}", request(90)).as_bytes()).1.is_some(), "in all it is too long");
    }

    #[test]
    fn lines_are_divided_as_redis_does() {
        for (line, expected) in [
            ("a  b\tc", vec!["a", "b", "c"]),
            ("'it\\'s' x", vec!["it's", "x"]),
            ("\"a\\n\\\\\" ''", vec!["a\n\\", ""]),
            ("a\"b c\"", vec!["ab c"]),
        ] {
            let found = words(line.as_bytes()).unwrap();
            assert_eq!(found, expected.iter().map(|word| Bytes::from(*word)).collect::<Vec<_>>(), "{line}");
        }
    }
}
