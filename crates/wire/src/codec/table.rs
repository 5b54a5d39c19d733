//! The tables: `message!` for structs, `alternatives!` for enums, `pair!` for tuples, `through!` for the few types whose
//! encoding differs from their shape in memory.

/// Declares the variables of the fields in a table and fills them from bytes.
macro_rules! take_fields {
    ($bytes:expr, $name:expr, { $($number:literal $field:ident: $kind:ty),* }) => {
        $(let mut $field = None;)*
        let mut reader = $crate::codec::reader::Reader::new($bytes);
        while let Some((number, wire_type)) = reader.tag().map_err(|error| error.within($name, ""))? {
            match number {
                $($number => <$kind as $crate::codec::field::Field<_>>::merge(&mut $field, wire_type, &mut reader)
                    .map_err(|error| error.within($name, stringify!($field)))?,)*
                _ => reader.skip(wire_type).map_err(|error| error.within($name, ""))?,
            }
        }
        $(let $field = match $field {
            Some(value) => value,
            None => <$kind as $crate::codec::field::Field<_>>::absent().ok_or_else(|| {
                $crate::error::DecodeError::new($name, stringify!($field), $crate::error::Fault::Missing)
            })?,
        };)*
    };
}

/// Writes the fields of a table from the last to the first.
macro_rules! write_fields {
    ($writer:ident, [$($done:tt)*]) => {
        $($done)*
    };
    ($writer:ident, [$($done:tt)*] $number:literal ($value:expr, $kind:ty) $($rest:tt)*) => {
        $crate::codec::table::write_fields!(
            $writer,
            [<$kind as $crate::codec::field::Field<_>>::write($number, $value, $writer); $($done)*] $($rest)*
        )
    };
}

/// A struct: `message!(Type, "name", { 1 field: Kind, … }, check function)`.
macro_rules! message {
    ($type:ty, $name:literal, { $($number:literal $field:ident: $kind:ty),* $(,)? } $(, check $check:path)?) => {
        impl $crate::codec::Wire for $type {
            #[inline]
            fn encoded_len(&self) -> usize {
                0 $(+ <$kind as $crate::codec::field::Field<_>>::encoded_len($number, &self.$field))*
            }

            #[inline]
            fn write(&self, writer: &mut $crate::codec::Writer<'_>) {
                $crate::codec::table::write_fields!(writer, [] $($number (&self.$field, $kind))*);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                $crate::codec::table::take_fields!(bytes, $name, { $($number $field: $kind),* });
                let message = Self { $($field),* };
                $($check(&message).map_err(|fault| $crate::error::DecodeError::from(fault).within($name, ""))?;)?
                Ok(message)
            }
        }
    };
}

/// An enum, of which exactly one alternative is present. `messages` are variants with named fields or none, each a
/// nested message of its own; `fields` are variants around one value; `through` are encoded by way of another type.
macro_rules! alternatives {
    ($type:ty, $name:literal
        $(, messages { $($number:literal $variant:ident {
            $($field_number:literal $field:ident: $kind:ty),* $(,)?
        })* })?
        $(, fields { $($value_number:literal $value_variant:ident: $value_kind:ty),* $(,)? })?
        $(, through { $($other_number:literal $other_variant:ident: $other:ty),* $(,)? })?
    ) => {
        impl $crate::codec::Wire for $type {
            #[inline]
            fn encoded_len(&self) -> usize {
                match self {
                    $($(Self::$variant { $($field),* } => {
                        let length = 0
                            $(+ <$kind as $crate::codec::field::Field<_>>::encoded_len($field_number, $field))*;
                        $crate::codec::varint::len($number << 3)
                            + $crate::codec::varint::len(length as u64)
                            + length
                    })*)?
                    $($(Self::$value_variant(value) => {
                        $crate::codec::field::present_len::<_, $value_kind>($value_number, value)
                    })*)?
                    $($(Self::$other_variant { .. } => {
                        let other = <$other as $crate::codec::table::Through<Self>>::of(self);
                        $crate::codec::field::present_len::<_, $crate::codec::field::Nested>($other_number, &other)
                    })*)?
                }
            }

            #[inline]
            fn write(&self, writer: &mut $crate::codec::Writer<'_>) {
                match self {
                    $($(Self::$variant { $($field),* } => {
                        let before = writer.free();
                        $crate::codec::table::write_fields!(writer, [] $($field_number ($field, $kind))*);
                        writer.put_varint((before - writer.free()) as u64);
                        $crate::codec::field::put_tag($number, $crate::codec::reader::WireType::Delimited, writer);
                    })*)?
                    $($(Self::$value_variant(value) => {
                        $crate::codec::field::put_present::<_, $value_kind>($value_number, value, writer);
                    })*)?
                    $($(Self::$other_variant { .. } => {
                        let other = <$other as $crate::codec::table::Through<Self>>::of(self);
                        $crate::codec::field::put_present::<_, $crate::codec::field::Nested>(
                            $other_number,
                            &other,
                            writer,
                        );
                    })*)?
                }
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                let mut reader = $crate::codec::reader::Reader::new(bytes);
                let mut found = None;
                while let Some((number, wire_type)) = reader.tag().map_err(|error| error.within($name, ""))? {
                    match number {
                        $($($number => {
                            let body = $crate::codec::field::take_body(wire_type, &mut reader)
                                .map_err(|error| error.within($name, stringify!($variant)))?;
                            $crate::codec::table::take_fields!(
                                body,
                                concat!($name, ".", stringify!($variant)),
                                { $($field_number $field: $kind),* }
                            );
                            found = Some(Self::$variant { $($field),* });
                        })*)?
                        $($($value_number => {
                            let value = $crate::codec::field::take_present::<_, $value_kind>(wire_type, &mut reader)
                                .map_err(|error| error.within($name, stringify!($value_variant)))?;
                            found = Some(Self::$value_variant(value));
                        })*)?
                        $($($other_number => {
                            let body = $crate::codec::field::take_body(wire_type, &mut reader)
                                .map_err(|error| error.within($name, stringify!($other_variant)))?;
                            let other = <$other as $crate::codec::Wire>::decode(body)?;
                            let value = $crate::codec::table::Through::<Self>::restore(other)
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
        }
    };
}

/// A tuple of two: `pair!((A, B), "name", 1 KindOfA, 2 KindOfB)`.
macro_rules! pair {
    (($first:ty, $second:ty), $name:literal, 1 $first_field:ident: $first_kind:ty, 2 $second_field:ident: $second_kind:ty) => {
        impl $crate::codec::Wire for ($first, $second) {
            #[inline]
            fn encoded_len(&self) -> usize {
                <$first_kind as $crate::codec::field::Field<_>>::encoded_len(1, &self.0)
                    + <$second_kind as $crate::codec::field::Field<_>>::encoded_len(2, &self.1)
            }

            #[inline]
            fn write(&self, writer: &mut $crate::codec::Writer<'_>) {
                <$second_kind as $crate::codec::field::Field<_>>::write(2, &self.1, writer);
                <$first_kind as $crate::codec::field::Field<_>>::write(1, &self.0, writer);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                $crate::codec::table::take_fields!(
                    bytes,
                    $name,
                    { 1 $first_field: $first_kind, 2 $second_field: $second_kind }
                );
                Ok(($first_field, $second_field))
            }
        }
    };
}

/// A type that is encoded by way of another: `through!(Type, Other)`.
macro_rules! through {
    ($type:ty, $other:ty) => {
        impl $crate::codec::Wire for $type {
            fn encoded_len(&self) -> usize {
                <$other as $crate::codec::table::Through<Self>>::of(self).encoded_len()
            }

            fn write(&self, writer: &mut $crate::codec::Writer<'_>) {
                <$other as $crate::codec::table::Through<Self>>::of(self).write(writer);
            }

            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                let other = <$other as $crate::codec::Wire>::decode(bytes)?;
                Ok($crate::codec::table::Through::<Self>::restore(other)?)
            }
        }
    };
}

/// A type that stands for another on the wire.
pub(crate) trait Through<T>: crate::codec::Wire {
    fn of(value: &T) -> Self;

    fn restore(self) -> Result<T, crate::error::Fault>;
}

pub(crate) use {alternatives, message, pair, take_fields, through, write_fields};
