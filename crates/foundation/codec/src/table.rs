//! The tables: `message!` for structs, `alternatives!` for enums, `through!` for the few types whose encoding differs from
//! their shape in memory, and `foreign!`, `pair!` and `list!` for types of other crates.
//!
//! The first three implement [`Wire`](crate::Wire) for a type of the crate that holds the table. A type with parameters names
//! them after `where`: `message!(Entry<P> where [P: Wire], "log.Entry", { … })`. If its fields differ from one protocol to the
//! other, `of` names a type that tells the protocol: `where [P: Wire] of P`. The others declare a kind of field, which
//! stands in tables where the type itself would be `Nested`.

/// Declares the variables of the fields in a table and fills them from bytes.
#[doc(hidden)]
#[macro_export]
macro_rules! take_fields {
    ($bytes:expr, $name:expr, { $($number:literal $field:ident: $kind:ty),* }) => {
        $(let mut $field = None;)*
        let mut reader = $crate::reader::Reader::new($bytes);
        while let Some((number, wire_type)) = reader.tag().map_err(|error| error.within($name, ""))? {
            match number {
                $($number => <$kind as $crate::field::Field<_>>::merge(&mut $field, wire_type, &mut reader)
                    .map_err(|error| error.within($name, stringify!($field)))?,)*
                _ => reader.skip(wire_type).map_err(|error| error.within($name, ""))?,
            }
        }
        $(let $field = match $field {
            Some(value) => value,
            None => <$kind as $crate::field::Field<_>>::absent().ok_or_else(|| {
                $crate::error::DecodeError::new($name, stringify!($field), $crate::error::Fault::Missing)
            })?,
        };)*
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

/// A struct: `message!(Type, "name", { 1 field: Kind, … }, check function)`.
#[macro_export]
macro_rules! message {
    ($type:ty $(where [$($parameters:tt)*] $(of $scope:ty)?)?, $name:literal, { $($number:literal $field:ident: $kind:ty),* $(,)? } $(, check $check:path)?) => {
        impl$(<$($parameters)*>)? $crate::Wire for $type {
            #[inline]
            fn encoded_len(&self) -> usize {
                0 $(+ <$kind as $crate::field::Field<_>>::encoded_len($number, &self.$field))*
            }

            #[inline]
            fn write(&self, writer: &mut $crate::Writer<'_>) {
                $crate::write_fields!(writer, [] $($number (&self.$field, $kind))*);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                $crate::take_fields!(bytes, $name, { $($number $field: $kind),* });
                let message = Self { $($field),* };
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
                    |_| vec![],
                )
            }
        }
    };
}

/// An enum, of which exactly one alternative is present. `messages` are variants with named fields or none, each a
/// nested message of its own; `fields` are variants around one value; `through` are encoded by way of another type.
#[macro_export]
macro_rules! alternatives {
    ($type:ty $(where [$($parameters:tt)*] $(of $scope:ty)?)?, $name:literal
        $(, messages { $($number:literal $variant:ident {
            $($field_number:literal $field:ident: $kind:ty),* $(,)?
        })* })?
        $(, fields { $($value_number:literal $value_variant:ident: $value_kind:ty),* $(,)? })?
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
                    $($(Self::$value_variant(value) => {
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
                    $($(Self::$value_variant(value) => {
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
                let mut reader = $crate::reader::Reader::new(bytes);
                let mut found = None;
                while let Some((number, wire_type)) = reader.tag().map_err(|error| error.within($name, ""))? {
                    match number {
                        $($($number => {
                            let body = $crate::field::take_body(wire_type, &mut reader)
                                .map_err(|error| error.within($name, stringify!($variant)))?;
                            $crate::take_fields!(
                                body,
                                concat!($name, ".", stringify!($variant)),
                                { $($field_number $field: $kind),* }
                            );
                            found = Some(Self::$variant { $($field),* });
                        })*)?
                        $($($value_number => {
                            let value = $crate::field::take_present::<_, $value_kind>(wire_type, &mut reader)
                                .map_err(|error| error.within($name, stringify!($value_variant)))?;
                            found = Some(Self::$value_variant(value));
                        })*)?
                        $($($other_number => {
                            let body = $crate::field::take_body(wire_type, &mut reader)
                                .map_err(|error| error.within($name, stringify!($other_variant)))?;
                            let other = <$other as $crate::Wire>::decode(body)?;
                            let value = $crate::Through::<Self>::restore(other)
                                .map_err(|fault| $crate::error::DecodeError::from(fault).within($name, ""))?;
                            found = Some(value);
                        })*)?
                        _ => reader.skip(wire_type).map_err(|error| error.within($name, ""))?,
                    }
                }
                found.ok_or_else(|| {
                    $crate::error::DecodeError::new($name, "", $crate::error::Fault::UnknownAlternative)
                })
            }

            fn name() -> String {
                $crate::name_of!($name $($(, $scope)?)?)
            }

            fn describe(schema: &mut $crate::Schema) -> $crate::schema::Kind {
                let own = <Self as $crate::Wire>::name();
                schema.enter(own.clone(), None, |_| vec![], |schema| vec![
                    $($($crate::schema::Field {
                        number: $number,
                        name: stringify!($variant),
                        label: $crate::schema::Label::Required,
                        kind: schema.enter(
                            format!("{own}.{}", stringify!($variant)),
                            Some(&own),
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
                    $($($crate::field::described_alternative::<Self, _, $value_kind>(
                        $value_number,
                        stringify!($value_variant),
                        |value| match value {
                            Self::$value_variant(value) => value,
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

/// A type that stands for another on the wire.
pub trait Through<T>: crate::Wire {
    /// The message that stands for a value.
    fn of(value: &T) -> Self;

    /// The value that the message stands for.
    ///
    /// # Errors
    /// It stands for none.
    fn restore(self) -> Result<T, crate::error::Fault>;
}
