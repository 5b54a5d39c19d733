//! The tables: `message!` for structs, `alternatives!` for enums, `through!` for the few types whose encoding differs from
//! their shape in memory, and `foreign!`, `pair!` and `list!` for types of other crates.
//!
//! The first three implement [`Wire`] for a type of the crate that holds the table. A type with parameters names
//! them after `where`: `message!(Entry<P> where [P: Wire], "log.Entry", { … })`. If its fields differ from one protocol to the
//! other, `of` names a type that tells the protocol: `where [P: Wire] of P`. The others declare a kind of field, which
//! stands in tables where the type itself would be `Nested`.

use crate::Wire;
use crate::error::{DecodeError, Fault};
use crate::reader::{Reader, WireType};
use crate::schema::{self, Schema};

/// Declares the variables of the fields in a table and fills them from bytes.
#[doc(hidden)]
#[macro_export]
macro_rules! take_fields {
    ($bytes:expr, $name:expr, { $($number:literal $field:ident: $kind:ty),* } $(, one of $one:ident: $one_type:ty)?) => {
        $(let mut $field = None;)*
        $(let mut $one = None;)?
        let mut reader = $crate::reader::Reader::new($bytes);
        while let Some((number, wire_type)) = reader.tag().map_err(|error| error.within($name, ""))? {
            match number {
                $($number => <$kind as $crate::field::Field<_>>::merge(&mut $field, wire_type, &mut reader)
                    .map_err(|error| error.within($name, stringify!($field)))?,)*
                $(_ if <$one_type as $crate::OneOf>::merge(&mut $one, number, wire_type, &mut reader)? => {})?
                _ => reader.skip(wire_type).map_err(|error| error.within($name, ""))?,
            }
        }
        $(let $field = match $field {
            Some(value) => value,
            None => <$kind as $crate::field::Field<_>>::absent().ok_or_else(|| {
                $crate::error::DecodeError::new($name, stringify!($field), $crate::error::Fault::Missing)
            })?,
        };)*
        $(let $one: $one_type = $crate::table::present($one, $name)?;)?
    };
}

/// Writes the fields of a table from the last to the first.
#[doc(hidden)]
#[macro_export]
macro_rules! write_fields {
    ($writer:ident, [$($done:tt)*]) => {
        $($done)*
    };
    ($writer:ident, [$($done:tt)*] $number:literal ($value:expr, $kind:ty) $($rest:tt)*) => {
        $crate::write_fields!(
            $writer,
            [<$kind as $crate::field::Field<_>>::write($number, $value, $writer); $($done)*] $($rest)*
        )
    };
}

/// The name of a message in a schema.
#[doc(hidden)]
#[macro_export]
macro_rules! name_of {
    ($name:literal) => {
        $name.to_owned()
    };
    ($name:literal, $scope:ty) => {
        $crate::schema::scoped::<$scope>($name)
    };
}

/// The fields of a table, for a schema.
#[doc(hidden)]
#[macro_export]
macro_rules! describe_fields {
    ($schema:ident, $type:ty, { $($number:literal $field:ident: $kind:ty),* }) => {
        vec![$($crate::field::described::<$type, _, $kind>(
            $number,
            stringify!($field),
            |value| &value.$field,
            $schema,
        )),*]
    };
}

/// The alternatives of a table that may have some, for a schema.
#[doc(hidden)]
#[macro_export]
macro_rules! describe_alternatives {
    ($schema:ident) => {
        vec![]
    };
    ($schema:ident, $type:ty) => {
        <$type as $crate::OneOf>::alternatives($schema)
    };
}

/// A struct: `message!(Type, "name", { 1 field: Kind, … }, one of field: Type, check function)`. The alternatives of an enum stand
/// among the fields of the message, behind the others and under numbers of their own; the enum has the message's name.
#[macro_export]
macro_rules! message {
    ($type:ty $(where [$($parameters:tt)*] $(of $scope:ty)?)?, $name:literal, { $($number:literal $field:ident: $kind:ty),* $(,)? }
        $(, one of $one:ident: $one_type:ty)? $(, check $check:path)?) => {
        impl$(<$($parameters)*>)? $crate::Wire for $type {
            #[inline]
            fn encoded_len(&self) -> usize {
                0 $(+ <$kind as $crate::field::Field<_>>::encoded_len($number, &self.$field))*
                    $(+ $crate::Wire::encoded_len(&self.$one))?
            }

            #[inline]
            fn write(&self, writer: &mut $crate::Writer<'_>) {
                $($crate::Wire::write(&self.$one, writer);)?
                $crate::write_fields!(writer, [] $($number (&self.$field, $kind))*);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                $crate::take_fields!(bytes, $name, { $($number $field: $kind),* } $(, one of $one: $one_type)?);
                let message = Self { $($field,)* $($one)? };
                $($check(&message).map_err(|fault| $crate::error::DecodeError::from(fault).within($name, ""))?;)?
                Ok(message)
            }

            fn name() -> String {
                $crate::name_of!($name $($(, $scope)?)?)
            }

            fn describe(schema: &mut $crate::Schema) -> $crate::schema::Kind {
                schema.enter(
                    <Self as $crate::Wire>::name(),
                    None,
                    |_schema| $crate::describe_fields!(_schema, Self, { $($number $field: $kind),* }),
                    |_schema| $crate::describe_alternatives!(_schema $(, $one_type)?),
                )
            }
        }
    };
}

/// A variant around one value, as a pattern and as an expression.
#[doc(hidden)]
#[macro_export]
macro_rules! around {
    ($variant:ident, $value:ident) => {
        Self::$variant($value)
    };
    ($variant:ident, $value:ident, $field:ident) => {
        Self::$variant { $field: $value }
    };
}

/// An enum, of which exactly one alternative is present. `messages` are variants with named fields or none, each a
/// nested message of its own; `fields` are variants around one value, which `Variant.field` names if it has a name,
/// and which is there on the condition of a `#[cfg(…)]` before its number; `through` are encoded by way of another type.
#[macro_export]
macro_rules! alternatives {
    ($type:ty $(where [$($parameters:tt)*] $(of $scope:ty)?)?, $name:literal
        $(, messages { $($number:literal $variant:ident {
            $($field_number:literal $field:ident: $kind:ty),* $(,)?
        })* })?
        $(, fields {
            $($(#[$condition:meta])* $value_number:literal $value_variant:ident $(. $value_field:ident)?: $value_kind:ty),* $(,)?
        })?
        $(, through { $($other_number:literal $other_variant:ident: $other:ty),* $(,)? })?
    ) => {
        impl$(<$($parameters)*>)? $crate::Wire for $type {
            #[inline]
            fn encoded_len(&self) -> usize {
                match self {
                    $($(Self::$variant { $($field),* } => {
                        let length = 0
                            $(+ <$kind as $crate::field::Field<_>>::encoded_len($field_number, $field))*;
                        $crate::varint::len($number << 3)
                            + $crate::varint::len(length as u64)
                            + length
                    })*)?
                    $($($(#[$condition])* $crate::around!($value_variant, value $(, $value_field)?) => {
                        $crate::field::present_len::<_, $value_kind>($value_number, value)
                    })*)?
                    $($(Self::$other_variant { .. } => {
                        let other = <$other as $crate::Through<Self>>::of(self);
                        $crate::field::present_len::<_, $crate::field::Nested>($other_number, &other)
                    })*)?
                }
            }

            #[inline]
            fn write(&self, writer: &mut $crate::Writer<'_>) {
                match self {
                    $($(Self::$variant { $($field),* } => {
                        let before = writer.free();
                        $crate::write_fields!(writer, [] $($field_number ($field, $kind))*);
                        writer.put_varint((before - writer.free()) as u64);
                        $crate::field::put_tag($number, $crate::reader::WireType::Delimited, writer);
                    })*)?
                    $($($(#[$condition])* $crate::around!($value_variant, value $(, $value_field)?) => {
                        $crate::field::put_present::<_, $value_kind>($value_number, value, writer);
                    })*)?
                    $($(Self::$other_variant { .. } => {
                        let other = <$other as $crate::Through<Self>>::of(self);
                        $crate::field::put_present::<_, $crate::field::Nested>(
                            $other_number,
                            &other,
                            writer,
                        );
                    })*)?
                }
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                $crate::table::decode_one_of(bytes, $name)
            }

            fn name() -> String {
                $crate::name_of!($name $($(, $scope)?)?)
            }

            fn describe(schema: &mut $crate::Schema) -> $crate::schema::Kind {
                schema.enter(<Self as $crate::Wire>::name(), None, |_| vec![], <Self as $crate::OneOf>::alternatives)
            }
        }

        impl$(<$($parameters)*>)? $crate::OneOf for $type {
            #[inline]
            fn merge(
                found: &mut Option<Self>,
                number: u32,
                wire_type: $crate::reader::WireType,
                reader: &mut $crate::reader::Reader<'_>,
            ) -> Result<bool, $crate::error::DecodeError> {
                match number {
                    $($($number => {
                        let body = $crate::field::take_body(wire_type, reader)
                            .map_err(|error| error.within($name, stringify!($variant)))?;
                        $crate::take_fields!(
                            body,
                            concat!($name, ".", stringify!($variant)),
                            { $($field_number $field: $kind),* }
                        );
                        *found = Some(Self::$variant { $($field),* });
                    })*)?
                    $($($(#[$condition])* $value_number => {
                        let value = $crate::field::take_present::<_, $value_kind>(wire_type, reader)
                            .map_err(|error| error.within($name, stringify!($value_variant)))?;
                        *found = Some($crate::around!($value_variant, value $(, $value_field)?));
                    })*)?
                    $($($other_number => {
                        let body = $crate::field::take_body(wire_type, reader)
                            .map_err(|error| error.within($name, stringify!($other_variant)))?;
                        let other = <$other as $crate::Wire>::decode(body)?;
                        let value = $crate::Through::<Self>::restore(other)
                            .map_err(|fault| $crate::error::DecodeError::from(fault).within($name, ""))?;
                        *found = Some(value);
                    })*)?
                    _ => return Ok(false),
                }
                Ok(true)
            }

            fn alternatives(schema: &mut $crate::Schema) -> Vec<$crate::schema::Field> {
                Vec::from([
                    $($($crate::schema::Field {
                        number: $number,
                        name: stringify!($variant),
                        label: $crate::schema::Label::Required,
                        kind: schema.enter(
                            format!("{}.{}", <Self as $crate::Wire>::name(), stringify!($variant)),
                            Some(&<Self as $crate::Wire>::name()),
                            |_schema| vec![$($crate::field::described::<Self, _, $kind>(
                                $field_number,
                                stringify!($field),
                                |value| match value {
                                    Self::$variant { $field, .. } => $field,
                                    _ => unreachable!("only the type of the field is asked for"),
                                },
                                _schema,
                            )),*],
                            |_| vec![],
                        ),
                    },)*)?
                    $($($(#[$condition])* $crate::field::described_alternative::<Self, _, $value_kind>(
                        $value_number,
                        stringify!($value_variant),
                        |value| match value {
                            $crate::around!($value_variant, value $(, $value_field)?) => value,
                            _ => unreachable!("only the type of the field is asked for"),
                        },
                        schema,
                    ),)*)?
                    $($($crate::schema::Field {
                        number: $other_number,
                        name: stringify!($other_variant),
                        label: $crate::schema::Label::Required,
                        kind: <$other as $crate::Wire>::describe(schema),
                    },)*)?
                ])
            }
        }
    };
}

/// A struct of another crate: `foreign!(Name: Type, "name", { 1 field: Kind, … })` declares the kind `Name`.
#[macro_export]
macro_rules! foreign {
    ($(#[$meta:meta])* $visibility:vis $kind:ident: $type:ty, $name:literal, {
        $($number:literal $field:ident: $field_kind:ty),* $(,)?
    }) => {
        $(#[$meta])*
        $visibility struct $kind;

        $crate::nested_kind!($kind: $type, value => {
            0 $(+ <$field_kind as $crate::field::Field<_>>::encoded_len($number, &value.$field))*
        }, writer => {
            $crate::write_fields!(writer, [] $($number (&value.$field, $field_kind))*);
        }, bytes => {
            $crate::take_fields!(bytes, $name, { $($number $field: $field_kind),* });
            type Foreign = $type;
            Ok(Foreign { $($field),* })
        }, schema => {
            schema.enter(
                $name.to_owned(),
                None,
                |schema| $crate::describe_fields!(schema, $type, { $($number $field: $field_kind),* }),
                |_| vec![],
            )
        });
    };
}

/// A tuple of two: `pair!(Name: (A, B), "name", 1 first: KindOfA, 2 second: KindOfB)` declares the kind `Name`.
#[macro_export]
macro_rules! pair {
    ($(#[$meta:meta])* $visibility:vis $kind:ident: $type:ty $(where [$($parameters:tt)*] $(of $scope:ty)?)?, $name:literal,
        1 $first:ident: $first_kind:ty, 2 $second:ident: $second_kind:ty) => {
        $(#[$meta])*
        $visibility struct $kind;

        $crate::nested_kind!($kind: $type $(where [$($parameters)*])?, value => {
            <$first_kind as $crate::field::Field<_>>::encoded_len(1, &value.0)
                + <$second_kind as $crate::field::Field<_>>::encoded_len(2, &value.1)
        }, writer => {
            $crate::write_fields!(writer, [] 1 (&value.0, $first_kind) 2 (&value.1, $second_kind));
        }, bytes => {
            $crate::take_fields!(bytes, $name, { 1 $first: $first_kind, 2 $second: $second_kind });
            Ok(($first, $second))
        }, schema => {
            schema.enter($crate::name_of!($name $($(, $scope)?)?), None, |schema| vec![
                $crate::field::described::<$type, _, $first_kind>(1, stringify!($first), |pair| &pair.0, schema),
                $crate::field::described::<$type, _, $second_kind>(2, stringify!($second), |pair| &pair.1, schema),
            ], |_| vec![])
        });
    };
}

/// A list that is a message of its own: `list!(Name: Vec<Type>, "name", Repeated<Nested>)` declares the kind `Name`.
#[macro_export]
macro_rules! list {
    ($(#[$meta:meta])* $visibility:vis $kind:ident: $type:ty $(where [$($parameters:tt)*] $(of $scope:ty)?)?, $name:literal,
        $entries_kind:ty) => {
        $(#[$meta])*
        $visibility struct $kind;

        $crate::nested_kind!($kind: $type $(where [$($parameters)*])?, value => {
            <$entries_kind as $crate::field::Field<_>>::encoded_len(1, value)
        }, writer => {
            <$entries_kind as $crate::field::Field<_>>::write(1, value, writer);
        }, bytes => {
            $crate::take_fields!(bytes, $name, { 1 entries: $entries_kind });
            Ok(entries)
        }, schema => {
            schema.enter($crate::name_of!($name $($(, $scope)?)?), None, |schema| vec![
                $crate::field::described::<$type, _, $entries_kind>(1, "entries", |entries| entries, schema),
            ], |_| vec![])
        });
    };
}

/// The kind of a nested message: its length, its fields and how it is read.
#[doc(hidden)]
#[macro_export]
macro_rules! nested_kind {
    ($kind:ident: $type:ty $(where [$($parameters:tt)*] $(of $scope:ty)?)?, $value:ident => $length:block, $writer:ident => $write:block,
        $bytes:ident => $read:block, $schema:ident => $describe:block) => {
        impl$(<$($parameters)*>)? $crate::field::Kind<$type> for $kind {
            const WIRE_TYPE: $crate::reader::WireType = $crate::reader::WireType::Delimited;

            fn value_len($value: &$type) -> usize {
                let length = $length;
                $crate::varint::len(length as u64) + length
            }

            fn put($value: &$type, $writer: &mut $crate::Writer<'_>) {
                let before = $writer.free();
                $write
                $writer.put_varint((before - $writer.free()) as u64);
            }

            fn take(reader: &mut $crate::reader::Reader<'_>) -> Result<$type, $crate::error::DecodeError> {
                let $bytes = reader.delimited()?;
                $read
            }

            fn default() -> Option<$type> {
                None
            }

            fn is_default(_: &$type) -> bool {
                false
            }

            fn describe($schema: &mut $crate::Schema) -> $crate::schema::Kind {
                $describe
            }
        }
    };
}

/// A type that is encoded by way of another: `through!(Type, Other)`.
#[macro_export]
macro_rules! through {
    ($type:ty $(where [$($parameters:tt)*] $(of $scope:ty)?)?, $other:ty) => {
        impl$(<$($parameters)*>)? $crate::Wire for $type {
            fn encoded_len(&self) -> usize {
                <$other as $crate::Through<Self>>::of(self).encoded_len()
            }

            fn write(&self, writer: &mut $crate::Writer<'_>) {
                <$other as $crate::Through<Self>>::of(self).write(writer);
            }

            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                let other = <$other as $crate::Wire>::decode(bytes)?;
                Ok($crate::Through::<Self>::restore(other)?)
            }

            fn name() -> String {
                <$other as $crate::Wire>::name()
            }

            fn describe(schema: &mut $crate::Schema) -> $crate::schema::Kind {
                <$other as $crate::Wire>::describe(schema)
            }
        }
    };
}

/// An enum of which exactly one alternative is present.
pub trait OneOf: Wire {
    /// Reads a field, after its tag, if it is one of the alternatives: the last one counts. False if it is none.
    ///
    /// # Errors
    /// The bytes are not such an alternative, or it exceeds a limit.
    fn merge(
        found: &mut Option<Self>,
        number: u32,
        wire_type: WireType,
        reader: &mut Reader<'_>,
    ) -> Result<bool, DecodeError>;

    /// The alternatives, for a schema.
    fn alternatives(schema: &mut Schema) -> Vec<schema::Field>;
}

/// Reads the alternative that is present.
#[doc(hidden)]
#[inline]
pub fn decode_one_of<T: OneOf>(bytes: &[u8], name: &'static str) -> Result<T, DecodeError> {
    take_fields!(bytes, name, {}, one of found: T);
    Ok(found)
}

/// The alternative that was found.
#[doc(hidden)]
#[inline]
pub fn present<T>(found: Option<T>, name: &'static str) -> Result<T, DecodeError> {
    found.ok_or_else(|| DecodeError::new(name, "", Fault::UnknownAlternative))
}

/// A type that stands for another on the wire.
pub trait Through<T>: Wire {
    /// The message that stands for a value.
    fn of(value: &T) -> Self;

    /// The value that the message stands for.
    ///
    /// # Errors
    /// It stands for none.
    fn restore(self) -> Result<T, Fault>;
}
