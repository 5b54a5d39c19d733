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
            None => <$kind as $crate::codec::field::Field<_>>::absent().ok_or($crate::error::DecodeError {
                message: $name,
                field: stringify!($field),
                fault: $crate::error::Fault::Missing,
            })?,
        };)*
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
            fn encode(&self, out: &mut ::bytes::BytesMut) {
                $(<$kind as $crate::codec::field::Field<_>>::encode($number, &self.$field, out);)*
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
            fn encode(&self, out: &mut ::bytes::BytesMut) {
                match self {
                    $($(Self::$variant { $($field),* } => {
                        let length: usize = 0
                            $(+ <$kind as $crate::codec::field::Field<_>>::encoded_len($field_number, $field))*;
                        $crate::codec::field::put_tag($number, $crate::codec::reader::WireType::Delimited, out);
                        $crate::codec::varint::put(length as u64, out);
                        $(<$kind as $crate::codec::field::Field<_>>::encode($field_number, $field, out);)*
                    })*)?
                    $($(Self::$value_variant(value) => {
                        $crate::codec::field::put_present::<_, $value_kind>($value_number, value, out);
                    })*)?
                    $($(Self::$other_variant { .. } => {
                        let other = <$other as $crate::codec::table::Through<Self>>::of(self);
                        $crate::codec::field::put_present::<_, $crate::codec::field::Nested>($other_number, &other, out);
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
                found.ok_or($crate::error::DecodeError {
                    message: $name,
                    field: "",
                    fault: $crate::error::Fault::UnknownAlternative,
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
            fn encode(&self, out: &mut ::bytes::BytesMut) {
                <$first_kind as $crate::codec::field::Field<_>>::encode(1, &self.0, out);
                <$second_kind as $crate::codec::field::Field<_>>::encode(2, &self.1, out);
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

            fn encode(&self, out: &mut ::bytes::BytesMut) {
                <$other as $crate::codec::table::Through<Self>>::of(self).encode(out);
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

pub(crate) use {alternatives, message, pair, take_fields, through};
