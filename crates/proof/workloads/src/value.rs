//! How workloads encode what a key holds: compact, and readable without knowing the key.
//!
//! ```text
//!    register:  1, integer, padding…          list:  2, count, integer, integer, …, padding…
//! ```
//!
//! An integer that is appended to a list without reading it is `3, integer`: so a list may end with such pairs, or consist of them.
//!
//! Integers are unsigned LEB128, as in protocol buffers. Padding brings a value to the size that a benchmark asks for.

use bytes::{BufMut, Bytes, BytesMut};
use quorate_checker::Observed;
use quorate_core::{Value, transaction::readable};

const REGISTER: u8 = 1;
const LIST: u8 = 2;
const APPENDED: u8 = 3;

/// The content of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// One integer.
    Register(i64),
    /// Integers in the order in which they were appended.
    List(Vec<i64>),
}

/// A value that no workload wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value {value} is not one that this workload writes: is something else writing to its keys?")]
pub struct Undecodable {
    /// The beginning of the value, readable.
    pub value: String,
}

impl Content {
    /// The bytes of this content, padded with zeros to at least `bytes_min`.
    pub fn encode(&self, bytes_min: usize) -> Value {
        let elements = match self {
            Content::Register(_) => 1,
            Content::List(elements) => elements.len() + 1,
        };
        let mut value = BytesMut::with_capacity(bytes_min.max(1 + 8 * elements));
        match self {
            Content::Register(register) => {
                value.put_u8(REGISTER);
                put_integer(&mut value, *register as u64);
            }
            Content::List(elements) => {
                value.put_u8(LIST);
                put_integer(&mut value, elements.len() as u64);
                for element in elements {
                    put_integer(&mut value, *element as u64);
                }
            }
        }
        if value.len() < bytes_min {
            value.resize(bytes_min, 0);
        }
        value.freeze()
    }

    /// The bytes that add an element to a list without padding, or begin one, wherever they are appended.
    pub fn appended(element: i64) -> Value {
        let mut value = BytesMut::with_capacity(11);
        value.put_u8(APPENDED);
        put_integer(&mut value, element as u64);
        value.freeze()
    }

    /// The content of a value.
    ///
    /// # Errors
    /// The value was not written by [`Content::encode`] and [`Content::appended`].
    pub fn decode(value: &Bytes) -> Result<Content, Undecodable> {
        decode(value).ok_or_else(|| Undecodable { value: readable(value) })
    }

    /// This content as a history records it.
    pub fn into_observed(self) -> Observed {
        match self {
            Content::Register(register) => Observed::Register(register),
            Content::List(elements) => Observed::List(elements),
        }
    }
}

fn decode(value: &[u8]) -> Option<Content> {
    let (&kind, mut rest) = value.split_first()?;
    match kind {
        REGISTER => Some(Content::Register(take_integer(&mut rest)? as i64)),
        LIST => {
            let count = take_integer(&mut rest)?;
            if count > rest.len() as u64 {
                return None;
            }
            let mut elements: Vec<i64> = (0..count)
                .map(|_| take_integer(&mut rest).map(|element| element as i64))
                .collect::<Option<_>>()?;
            take_appended(rest, &mut elements)?;
            Some(Content::List(elements))
        }
        APPENDED => {
            let mut elements = Vec::new();
            take_appended(value, &mut elements)?;
            Some(Content::List(elements))
        }
        _ => None,
    }
}

/// Takes what was appended, up to the end or to padding.
fn take_appended(mut bytes: &[u8], elements: &mut Vec<i64>) -> Option<()> {
    while let Some((&APPENDED, rest)) = bytes.split_first() {
        bytes = rest;
        elements.push(take_integer(&mut bytes)? as i64);
    }
    bytes.iter().all(|padding| *padding == 0).then_some(())
}

fn put_integer(bytes: &mut BytesMut, mut integer: u64) {
    while integer >= 0x80 {
        bytes.put_u8(integer as u8 | 0x80);
        integer >>= 7;
    }
    bytes.put_u8(integer as u8);
}

fn take_integer(bytes: &mut &[u8]) -> Option<u64> {
    let mut integer = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        integer |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(integer);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodings_are_pinned() {
        assert_eq!(Content::Register(300).encode(0).as_ref(), [1, 0xac, 0x02]);
        assert_eq!(Content::List(vec![1, 128]).encode(0).as_ref(), [2, 2, 1, 0x80, 0x01]);
        assert_eq!(Content::Register(1).encode(5).as_ref(), [1, 1, 0, 0, 0]);
    }

    #[test]
    fn what_is_appended_unread_is_read_as_elements() {
        let appended = Content::appended(300);
        assert_eq!(appended.as_ref(), [3, 0xac, 0x02]);
        let list = |bytes: &[&[u8]]| Content::decode(&bytes.concat().into());
        assert_eq!(list(&[&appended]), Ok(Content::List(vec![300])));
        let counted = Content::List(vec![1, 3]).encode(0);
        assert_eq!(list(&[&counted, &appended, &appended]), Ok(Content::List(vec![1, 3, 300, 300])));
    }

    #[test]
    fn foreign_values_are_refused() {
        let long = [2, 0xff, 0xff, 0xff, 0xff, 1];
        let foreign =
            [&b""[..], b"hello", &[1], &[1, 0x80], &[2, 3, 1, 1], &long, &[2, 0, 9], &[3], &[3, 1, 2]];
        for foreign in foreign {
            assert!(Content::decode(&Bytes::copy_from_slice(foreign)).is_err(), "{foreign:?}");
        }
    }

    proptest! {
        #[test]
        fn contents_survive_a_round_trip(
            elements in proptest::collection::vec(0i64..1 << 53, 0..50),
            register in 0i64..1 << 53,
            padding in 0usize..200,
        ) {
            for content in [Content::List(elements.clone()), Content::Register(register)] {
                let value = content.encode(padding);
                prop_assert!(value.len() >= padding);
                prop_assert_eq!(Content::decode(&value), Ok(content));
            }
        }

        #[test]
        fn no_bytes_make_decoding_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Content::decode(&Bytes::from(bytes));
        }
    }
}
