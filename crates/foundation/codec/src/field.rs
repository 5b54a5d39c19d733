//! How the fields of a message stand on the wire.
//!
//! A [`Kind`] says how one value is written; a [`Field`] says when: a kind by itself leaves a default value out, as
//! protocol buffers do, [`Optional`] writes whatever is present, [`Repeated`] and [`Packed`] write lists.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use bytes::Bytes;
use quorate_core::transaction::{KEY_BYTES_MAX, LimitExceeded, VALUE_BYTES_MAX, readable, validate_key};
use quorate_core::{Key, Value};

use crate::error::{DecodeError, Fault};
use crate::reader::{Reader, WireType};
use crate::scalar::Scalar;
use crate::schema::{self, Label, Schema};
use crate::table::Through;
use crate::writer::Writer;
use crate::{Wire, varint};

/// How one value is written.
pub trait Kind<T> {
    /// How the value is delimited.
    const WIRE_TYPE: WireType;
    /// The length of the value with its own length prefix, if it has one.
    fn value_len(value: &T) -> usize;
    /// Writes the value, without a tag.
    fn put(value: &T, writer: &mut Writer<'_>);
    /// Reads the value, after its tag.
    ///
    /// # Errors
    /// The bytes are not such a value, or it exceeds a limit.
    fn take(reader: &mut Reader<'_>) -> Result<T, DecodeError>;
    /// The meaning of an absent field; none if it must be present.
    fn default() -> Option<T>;
    /// True if an absent field means this value.
    fn is_default(value: &T) -> bool;
    /// The kind of the value in a schema.
    fn describe(schema: &mut Schema) -> schema::Kind;
}

/// When the values of a field are written, and what their absence means.
pub trait Field<T> {
    /// The length of the field with its tags; zero if it is left out.
    fn encoded_len(number: u32, value: &T) -> usize;
    /// Writes the field, unless it is left out.
    fn write(number: u32, value: &T, writer: &mut Writer<'_>);
    /// Reads an occurrence of the field, after its tag, on top of those before it.
    ///
    /// # Errors
    /// The bytes are not such a field, or it exceeds a limit.
    fn merge(slot: &mut Option<T>, wire_type: WireType, reader: &mut Reader<'_>) -> Result<(), DecodeError>;
    /// The value of a field that never occurred; none if it must be present.
    fn absent() -> Option<T>;
    /// When the field is present and what it holds, for a schema.
    fn describe(schema: &mut Schema) -> (Label, schema::Kind);
}

/// A field of a table, for a schema; `of` only tells the type of its value.
pub fn described<S, T, F: Field<T>>(
    number: u32,
    name: &'static str,
    _of: fn(&S) -> &T,
    schema: &mut Schema,
) -> schema::Field {
    let (label, kind) = F::describe(schema);
    schema::Field { number, name, label, kind }
}

/// An alternative of a table, for a schema; `of` only tells the type of its value.
pub fn described_alternative<S, T, K: Kind<T>>(
    number: u32,
    name: &'static str,
    _of: fn(&S) -> &T,
    schema: &mut Schema,
) -> schema::Field {
    schema::Field { number, name, label: Label::Required, kind: K::describe(schema) }
}

/// The length of a field with its tag, whatever the value.
#[inline]
pub fn present_len<T, K: Kind<T>>(number: u32, value: &T) -> usize {
    varint::len(u64::from(number << 3)) + K::value_len(value)
}

/// Writes a field with its tag, whatever the value.
#[inline]
pub fn put_present<T, K: Kind<T>>(number: u32, value: &T, writer: &mut Writer<'_>) {
    K::put(value, writer);
    put_tag(number, K::WIRE_TYPE, writer);
}

/// Writes the tag of a field.
#[inline]
pub fn put_tag(number: u32, wire_type: WireType, writer: &mut Writer<'_>) {
    writer.put_varint(u64::from(number << 3 | wire_type as u32));
}

/// Reads a value of a field that is there.
///
/// # Errors
/// As [`Kind::take`], or the tag has another wire type.
#[inline]
pub fn take_present<T, K: Kind<T>>(wire_type: WireType, reader: &mut Reader<'_>) -> Result<T, DecodeError> {
    if wire_type != K::WIRE_TYPE {
        return Err(Fault::WireType.into());
    }
    K::take(reader)
}

/// The bytes of a nested message.
///
/// # Errors
/// They end too early, or the tag has another wire type.
#[inline]
pub fn take_body<'a>(wire_type: WireType, reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    if wire_type != WireType::Delimited {
        return Err(Fault::WireType.into());
    }
    reader.delimited()
}

impl<T, K: Kind<T>> Field<T> for K {
    #[inline]
    fn encoded_len(number: u32, value: &T) -> usize {
        if K::is_default(value) { 0 } else { present_len::<T, K>(number, value) }
    }

    #[inline]
    fn write(number: u32, value: &T, writer: &mut Writer<'_>) {
        if !K::is_default(value) {
            put_present::<T, K>(number, value, writer);
        }
    }

    #[inline]
    fn merge(slot: &mut Option<T>, wire_type: WireType, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        *slot = Some(take_present::<T, K>(wire_type, reader)?);
        Ok(())
    }

    #[inline]
    fn absent() -> Option<T> {
        K::default()
    }

    fn describe(schema: &mut Schema) -> (Label, schema::Kind) {
        let label = if K::default().is_some() { Label::Plain } else { Label::Required };
        (label, K::describe(schema))
    }
}

/// A value that may be absent, which is not the same as its default.
pub struct Optional<K>(PhantomData<K>);

impl<T, K: Kind<T>> Field<Option<T>> for Optional<K> {
    #[inline]
    fn encoded_len(number: u32, value: &Option<T>) -> usize {
        value.as_ref().map_or(0, |value| present_len::<T, K>(number, value))
    }

    #[inline]
    fn write(number: u32, value: &Option<T>, writer: &mut Writer<'_>) {
        if let Some(value) = value {
            put_present::<T, K>(number, value, writer);
        }
    }

    #[inline]
    fn merge(
        slot: &mut Option<Option<T>>,
        wire_type: WireType,
        reader: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        *slot = Some(Some(take_present::<T, K>(wire_type, reader)?));
        Ok(())
    }

    #[inline]
    fn absent() -> Option<Option<T>> {
        Some(None)
    }

    fn describe(schema: &mut Schema) -> (Label, schema::Kind) {
        (Label::Optional, K::describe(schema))
    }
}

/// The most entries of a list that has no smaller limit of its own: so many cannot be meant, and a frame full of the
/// shortest entries must not become a hundred times its size in memory.
pub const ENTRIES_MAX: usize = 1 << 20;

/// A list, one field for each entry.
pub struct Repeated<K, const MAX: usize = ENTRIES_MAX>(PhantomData<K>);

impl<T, K: Kind<T>, const MAX: usize> Field<Vec<T>> for Repeated<K, MAX> {
    #[inline]
    fn encoded_len(number: u32, values: &Vec<T>) -> usize {
        values.iter().map(|value| present_len::<T, K>(number, value)).sum()
    }

    #[inline]
    fn write(number: u32, values: &Vec<T>, writer: &mut Writer<'_>) {
        for value in values.iter().rev() {
            put_present::<T, K>(number, value, writer);
        }
    }

    #[inline]
    fn merge(
        slot: &mut Option<Vec<T>>,
        wire_type: WireType,
        reader: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        let values = slot.get_or_insert_default();
        if values.len() >= MAX {
            return Err(Fault::Entries { max: MAX }.into());
        }
        let value = take_present::<T, K>(wire_type, reader)?;
        push_compactly(values, value);
        Ok(())
    }

    #[inline]
    fn absent() -> Option<Vec<T>> {
        Some(Vec::new())
    }

    fn describe(schema: &mut Schema) -> (Label, schema::Kind) {
        (Label::Repeated { max: MAX }, K::describe(schema))
    }
}

/// A map, one field for each pair: `E` is how a pair is written. Of pairs with the same key the last counts.
pub struct Map<E>(PhantomData<E>);

impl<K: Clone + Ord, V: Clone, E: Kind<(K, V)>> Field<BTreeMap<K, V>> for Map<E> {
    fn encoded_len(number: u32, map: &BTreeMap<K, V>) -> usize {
        map.iter().map(|(key, value)| present_len::<_, E>(number, &(key.clone(), value.clone()))).sum()
    }

    fn write(number: u32, map: &BTreeMap<K, V>, writer: &mut Writer<'_>) {
        for (key, value) in map.iter().rev() {
            put_present::<_, E>(number, &(key.clone(), value.clone()), writer);
        }
    }

    fn merge(
        slot: &mut Option<BTreeMap<K, V>>,
        wire_type: WireType,
        reader: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        let (key, value) = take_present::<(K, V), E>(wire_type, reader)?;
        let map = slot.get_or_insert_default();
        if map.len() >= ENTRIES_MAX {
            return Err(Fault::Entries { max: ENTRIES_MAX }.into());
        }
        map.insert(key, value);
        Ok(())
    }

    fn absent() -> Option<BTreeMap<K, V>> {
        Some(BTreeMap::new())
    }

    fn describe(schema: &mut Schema) -> (Label, schema::Kind) {
        (Label::Map, E::describe(schema))
    }
}

/// Adds to a list that is kept for long and most often has one element: room for four would be most of its memory.
fn push_compactly<T>(values: &mut Vec<T>, value: T) {
    if values.is_empty() {
        values.reserve_exact(1);
    }
    values.push(value);
}

/// A list of numbers in one field.
pub struct Packed;

impl<T: Scalar> Field<Vec<T>> for Packed {
    fn encoded_len(number: u32, values: &Vec<T>) -> usize {
        if values.is_empty() {
            return 0;
        }
        let length = packed_len(values);
        varint::len(u64::from(number << 3)) + varint::len(length as u64) + length
    }

    fn write(number: u32, values: &Vec<T>, writer: &mut Writer<'_>) {
        if values.is_empty() {
            return;
        }
        let before = writer.free();
        for value in values.iter().rev() {
            writer.put_varint(value.to_u64());
        }
        writer.put_varint((before - writer.free()) as u64);
        put_tag(number, WireType::Delimited, writer);
    }

    /// Reads the packed form and the unpacked one, as every reader of protocol buffers must.
    fn merge(
        slot: &mut Option<Vec<T>>,
        wire_type: WireType,
        reader: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        let values = slot.get_or_insert_default();
        let mut take = |reader: &mut Reader<'_>| -> Result<(), DecodeError> {
            if values.len() >= ENTRIES_MAX {
                return Err(Fault::Entries { max: ENTRIES_MAX }.into());
            }
            push_compactly(values, Varint::take(reader)?);
            Ok(())
        };
        match wire_type {
            WireType::Varint => take(reader),
            WireType::Delimited => {
                let mut inner = Reader::new(reader.delimited()?);
                while !inner.is_empty() {
                    take(&mut inner)?;
                }
                Ok(())
            }
            _ => Err(Fault::WireType.into()),
        }
    }

    fn absent() -> Option<Vec<T>> {
        Some(Vec::new())
    }

    fn describe(_: &mut Schema) -> (Label, schema::Kind) {
        (Label::Packed, schema::Kind::Varint(T::NUMBER))
    }
}

fn packed_len<T: Scalar>(values: &[T]) -> usize {
    values.iter().map(|value| varint::len(value.to_u64())).sum()
}

/// A kind of field for numbers: how many bytes one takes, and which functions of writer and reader carry it.
macro_rules! number_kind {
    ($(#[$meta:meta])* $kind:ident, |$number:ident| $len:expr, $put:ident, $take:ident) => {
        $(#[$meta])*
        pub struct $kind;

        impl<T: Scalar> Kind<T> for $kind {
            const WIRE_TYPE: WireType = WireType::$kind;

            #[inline]
            fn value_len(value: &T) -> usize {
                let $number = value.to_u64();
                $len
            }

            #[inline]
            fn put(value: &T, writer: &mut Writer<'_>) {
                writer.$put(value.to_u64());
            }

            #[inline]
            fn take(reader: &mut Reader<'_>) -> Result<T, DecodeError> {
                T::from_u64(reader.$take()?).ok_or_else(|| Fault::OutOfRange.into())
            }

            #[inline]
            fn default() -> Option<T> {
                T::from_u64(0)
            }

            #[inline]
            fn is_default(value: &T) -> bool {
                value.to_u64() == 0
            }

            fn describe(_: &mut Schema) -> schema::Kind {
                schema::Kind::$kind(T::NUMBER)
            }
        }
    };
}

number_kind!(
    /// A number of variable length.
    Varint, |number| varint::len(number), put_varint, varint
);

number_kind!(
    /// A number of eight bytes, for those that are random or a time and would take more as a varint.
    Fixed64, |_number| 8, put_fixed64, fixed64
);

/// A message in a message. It has no default: absent means malformed, unless it is [`Optional`] or [`Repeated`].
pub struct Nested;

impl<T: Wire> Kind<T> for Nested {
    const WIRE_TYPE: WireType = WireType::Delimited;

    #[inline]
    fn value_len(value: &T) -> usize {
        let length = value.encoded_len();
        varint::len(length as u64) + length
    }

    #[inline]
    fn put(value: &T, writer: &mut Writer<'_>) {
        let before = writer.free();
        value.write(writer);
        writer.put_varint((before - writer.free()) as u64);
    }

    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<T, DecodeError> {
        T::decode(reader.delimited()?)
    }

    fn default() -> Option<T> {
        None
    }

    #[inline]
    fn is_default(_: &T) -> bool {
        false
    }

    fn describe(schema: &mut Schema) -> schema::Kind {
        T::describe(schema)
    }
}

/// A message in a message, of a type that stands for the value: for values of other crates, which [`through!`](crate::through)
/// cannot be used for, and of those that are written in two ways.
pub struct Via<O>(PhantomData<O>);

impl<T, O: Through<T>> Kind<T> for Via<O> {
    const WIRE_TYPE: WireType = WireType::Delimited;

    #[inline]
    fn value_len(value: &T) -> usize {
        Nested::value_len(&O::of(value))
    }

    #[inline]
    fn put(value: &T, writer: &mut Writer<'_>) {
        Nested::put(&O::of(value), writer);
    }

    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<T, DecodeError> {
        let other: O = Nested::take(reader)?;
        Ok(other.restore()?)
    }

    fn default() -> Option<T> {
        None
    }

    #[inline]
    fn is_default(_: &T) -> bool {
        false
    }

    fn describe(schema: &mut Schema) -> schema::Kind {
        O::describe(schema)
    }
}

/// Bytes with a limit: `bytes_kind!(Kind: Type, default …, lengths min, max, check |bytes| …)`.
#[macro_export]
macro_rules! bytes_kind {
    ($(#[$meta:meta])* $visibility:vis $kind:ident: $type:ty, default $default:expr, lengths $min:expr, $max:expr,
        check |$bytes:ident| $check:expr) => {
        $(#[$meta])*
        $visibility struct $kind;

        impl $crate::field::Kind<$type> for $kind {
            const WIRE_TYPE: $crate::reader::WireType = $crate::reader::WireType::Delimited;

            #[inline]
            fn value_len(value: &$type) -> usize {
                $crate::varint::len(value.len() as u64) + value.len()
            }

            #[inline]
            fn put(value: &$type, writer: &mut $crate::Writer<'_>) {
                writer.put_slice(value);
                writer.put_varint(value.len() as u64);
            }

            #[inline]
            fn take(
                reader: &mut $crate::reader::Reader<'_>,
            ) -> Result<$type, $crate::error::DecodeError> {
                let $bytes = reader.delimited()?;
                $check?;
                Ok(<$type>::copy_from_slice($bytes))
            }

            #[inline]
            fn default() -> Option<$type> {
                $default
            }

            #[inline]
            fn is_default(value: &$type) -> bool {
                value.is_empty() && $default.is_some()
            }

            fn describe(_: &mut $crate::Schema) -> $crate::schema::Kind {
                $crate::schema::Kind::Bytes { min: $min, max: $max }
            }
        }
    };
}

bytes_kind!(
    /// A key: never empty, so it has no default.
    pub KeyBytes: Key,
    default None::<Key>,
    lengths 1, Some(KEY_BYTES_MAX),
    check |bytes| validate_key(bytes)
);

bytes_kind!(
    /// The bound of a range, which may be empty, and one byte longer than a key: the successor of the longest key.
    pub BoundBytes: Key,
    default Some(Key::default()),
    lengths 0, Some(KEY_BYTES_MAX + 1),
    check |bytes| if bytes.len() > KEY_BYTES_MAX + 1 {
        Err(LimitExceeded::Key { key: readable(bytes), bytes: bytes.len() })
    } else {
        Ok(())
    }
);

bytes_kind!(
    /// A value.
    pub ValueBytes: Value,
    default Some(Value::new()),
    lengths 0, Some(VALUE_BYTES_MAX),
    check |bytes| if bytes.len() > VALUE_BYTES_MAX {
        Err(Fault::Value { bytes: bytes.len() })
    } else {
        Ok(())
    }
);

bytes_kind!(
    /// Bytes that are limited only by the frame.
    pub PlainBytes: Bytes,
    default Some(Bytes::new()),
    lengths 0, None,
    check |bytes| Ok::<(), Fault>(())
);

/// A text.
pub struct Text;

impl Kind<String> for Text {
    const WIRE_TYPE: WireType = WireType::Delimited;

    fn value_len(value: &String) -> usize {
        varint::len(value.len() as u64) + value.len()
    }

    fn put(value: &String, writer: &mut Writer<'_>) {
        writer.put_slice(value.as_bytes());
        writer.put_varint(value.len() as u64);
    }

    fn take(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
        let text = std::str::from_utf8(reader.delimited()?).map_err(|_| Fault::Utf8)?;
        Ok(text.to_owned())
    }

    fn default() -> Option<String> {
        Some(String::new())
    }

    fn is_default(value: &String) -> bool {
        value.is_empty()
    }

    fn describe(_: &mut Schema) -> schema::Kind {
        schema::Kind::Text
    }
}
