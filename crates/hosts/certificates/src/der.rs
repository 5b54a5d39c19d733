//! The few fields of a certificate that webpki checks and does not show: when it is valid, and the common names of subject and issuer.
//!
//! A reader of DER that knows tags and lengths, and refuses whatever it does not understand. Nothing of this decides whether a certificate is
//! good; it is for messages, lists, and connections that outlive their certificate.

use crate::date::Date;

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;

/// The object identifier of common names, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// The fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// The common name of the authority that signed it, or a note that it has none.
    pub(crate) issuer: String,
    /// The common name of its subject, likewise.
    pub(crate) subject: String,
    pub(crate) not_before: Date,
    pub(crate) not_after: Date,
}

/// Reads the fields of a certificate; none if it is not laid out as one.
pub(crate) fn fields(certificate: &[u8]) -> Option<Fields> {
    let mut outer = Reader(certificate).enter(SEQUENCE)?;
    let mut body = outer.enter(SEQUENCE)?;
    body.skip_if(VERSION);
    body.take(INTEGER)?;
    body.take(SEQUENCE)?;
    let issuer = common_name(body.enter(SEQUENCE)?)?;
    let mut validity = body.enter(SEQUENCE)?;
    let (not_before, not_after) = (date(&mut validity)?, date(&mut validity)?);
    let subject = common_name(body.enter(SEQUENCE)?)?;
    Some(Fields { issuer, subject, not_before, not_after })
}

/// The bytes that have not been read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next value, with its tag.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Up to 16 MiB: a certificate is far shorter.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }

    fn take(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == wanted).map(|(_, value)| value)
    }

    fn enter(&mut self, wanted: u8) -> Option<Reader<'a>> {
        self.take(wanted).map(Reader)
    }

    fn skip_if(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }
}

/// The common name among the parts of a name.
fn common_name(mut parts: Reader<'_>) -> Option<String> {
    while !parts.0.is_empty() {
        let mut attribute = parts.enter(SET)?.enter(SEQUENCE)?;
        if attribute.take(OBJECT_IDENTIFIER)? == COMMON_NAME {
            let (_, text) = attribute.next()?;
            // Text of a stranger goes into messages and logs.
            let printable = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
            return Some(String::from_utf8_lossy(text).chars().map(printable).take(128).collect());
        }
    }
    Some("without a common name".to_owned())
}

/// A time of either form, which for certificates ends with the second and `Z`.
fn date(reader: &mut Reader<'_>) -> Option<Date> {
    let (tag, text) = reader.next()?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2_000 + year } else { 1_900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let pair = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    Date::from_civil([year, pair(0)?, pair(2)?], [pair(4)?, pair(6)?, pair(8)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_forms_are_read_and_others_are_refused() {
        let read = |tag: u8, text: &str| {
            let mut bytes = vec![tag, text.len() as u8];
            bytes.extend_from_slice(text.as_bytes());
            date(&mut Reader(&bytes)).map(|date| date.to_string())
        };
        assert_eq!(read(UTC_TIME, "261129115959Z").as_deref(), Some("2026-11-29 11:59:59 UTC"));
        assert_eq!(read(UTC_TIME, "991231235959Z").as_deref(), Some("1999-12-31 23:59:59 UTC"));
        assert_eq!(read(GENERALIZED_TIME, "20500101000000Z").as_deref(), Some("2050-01-01 00:00:00 UTC"));
        for (tag, text) in [
            (UTC_TIME, "2611291159Z"),
            (UTC_TIME, "261129115959"),
            (UTC_TIME, "2611291159+1Z"),
            (GENERALIZED_TIME, "261129115959Z"),
            (GENERALIZED_TIME, "20501301000000Z"),
            (INTEGER, "261129115959Z"),
        ] {
            assert_eq!(read(tag, text), None, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_are_refused_and_nothing_is_read_beyond_them() {
        for bytes in [
            &b""[..],
            b"\x30",
            b"\x30\x05\x30\x01",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x83\xff\xff\xff",
            b"\x30\x80",
        ] {
            assert_eq!(fields(bytes), None, "{bytes:?}");
        }
    }
}
