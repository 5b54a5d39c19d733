//! Bytes as text: percent encoding in addresses, and strings or base64 in JSON.
//!
//! Keys and values are bytes. In JSON they are a string where they are UTF-8, and `{"base64": "…"}` where they are not; either may be sent.

use bytes::Bytes;
use quorate::Key;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Octets(pub Bytes);

impl From<&Key> for Octets {
    fn from(key: &Key) -> Self {
        Octets(Bytes::copy_from_slice(key))
    }
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &to_base64(&self.0))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OctetsVisitor)
    }
}

struct OctetsVisitor;

impl<'de> Visitor<'de> for OctetsVisitor {
    type Value = Octets;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a string, or {\"base64\": \"…\"}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Octets, E> {
        Ok(Octets(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Octets, A::Error> {
        let Some((name, text)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::missing_field("base64"));
        };
        if name != "base64" {
            return Err(de::Error::unknown_field(&name, &["base64"]));
        }
        if let Some(other) = map.next_key::<String>()? {
            return Err(de::Error::unknown_field(&other, &["base64"]));
        }
        let decoded = from_base64(&text).ok_or_else(|| de::Error::custom("this is no padded base64"))?;
        Ok(Octets(decoded.into()))
    }
}

/// The digits of base64, by their values.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes in the standard alphabet of base64 (RFC 4648, section 4), padded.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            // A group of n bytes has n + 1 digits.
            text.push(match digit <= group.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => '=',
            });
        }
    }
    text
}

/// The bytes of padded base64; none if it is not, or if bits are set that no byte has: each text stands for other bytes.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text[..text.len() - padding].chunks(4) {
        let mut bits: u32 = 0;
        for digit in group {
            bits = bits << 6 | value_of(*digit)?;
        }
        bits <<= 6 * (4 - group.len());
        let whole = group.len() - 1;
        let [_, high, middle, low] = bits.to_be_bytes();
        let decoded = [high, middle, low];
        if decoded[whole..].iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&decoded[..whole]);
    }
    Some(bytes)
}

/// The value of a digit of base64.
fn value_of(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// The bytes of a percent-encoded part of an address (RFC 3986, section 2.1); none if a `%` is not followed by two hexadecimal digits. A `+` is a `+`.
pub(crate) fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push((high << 4 | low) as u8);
    }
    Some(bytes)
}

/// Bytes as a part of an address: all that is not unreserved (RFC 3986, section 2.3) is percent-encoded.
pub(crate) fn percent_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base64_as_in_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        for wrong in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zg==Zg==", "Zm 9v", "Zm9v\n", "Zm-_", "é==="]
        {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn percent_encoding_is_strict() {
        assert_eq!(percent_decode("a%2Fb+c%00").unwrap(), b"a/b+c\0");
        for wrong in ["%", "%2", "%zz", "%+1", "a%2", "%%41"] {
            assert_eq!(percent_decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bytes_in_json_are_strings_where_they_can_be() {
        let octets = |bytes: &'static [u8]| Octets(Bytes::from_static(bytes));
        assert_eq!(serde_json::to_string(&octets(b"a\"b\n")).unwrap(), "\"a\\\"b\\n\"");
        assert_eq!(serde_json::to_string(&octets(b"\xff")).unwrap(), "{\"base64\":\"/w==\"}");
        for wrong in
            ["7", "null", "[1]", "{}", "{\"base64\":\"!\"}", "{\"hex\":\"00\"}", "{\"base64\":\"\",\"a\":1}"]
        {
            assert!(serde_json::from_str::<Octets>(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn bytes_survive_the_way_through_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(percent_decode(&percent_encode(&bytes)).unwrap(), bytes.clone());
            prop_assert_eq!(from_base64(&to_base64(&bytes)).unwrap(), bytes.clone());
            let octets = Octets(bytes.into());
            let text = serde_json::to_string(&octets).unwrap();
            prop_assert_eq!(serde_json::from_str::<Octets>(&text).unwrap(), octets);
        }
    }
}
