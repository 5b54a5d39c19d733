//! Reading tags, numbers and nested bytes from a slice that nobody has checked.

use crate::error::{DecodeError, Fault};

/// How the value of a field is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    /// A number of variable length.
    Varint = 0,
    /// Eight bytes, the least significant first.
    Fixed64 = 1,
    /// A length and as many bytes.
    Delimited = 2,
    /// Four bytes, the least significant first. No field of ours has it, but an unknown one may.
    Fixed32 = 5,
}

/// The rest of a message that is being decoded.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of exactly these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// True at the end.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field's number and wire type; none at the end.
    ///
    /// # Errors
    /// The bytes are not a tag.
    #[inline]
    pub fn tag(&mut self) -> Result<Option<(u32, WireType)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| Fault::WireType)?;
        let wire_type = match tag & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Delimited,
            5 => WireType::Fixed32,
            _ => return Err(Fault::WireType.into()),
        };
        match tag >> 3 {
            0 => Err(Fault::WireType.into()),
            number => Ok(Some((number, wire_type))),
        }
    }

    /// A number of variable length.
    ///
    /// # Errors
    /// It is longer than 64 bits, or the bytes end too early.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for (at, &byte) in self.rest.iter().enumerate().take(10) {
            if at == 9 && byte > 1 {
                return Err(Fault::OutOfRange.into());
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(Fault::Truncated.into())
    }

    /// A number of eight bytes.
    ///
    /// # Errors
    /// The bytes end too early.
    #[inline]
    pub fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// The bytes of a field that states its length. Nothing is allocated for a length that lies.
    ///
    /// # Errors
    /// The bytes end too early.
    #[inline]
    pub fn delimited(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.varint()?).map_err(|_| Fault::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Passes over a field that this version does not know.
    ///
    /// # Errors
    /// The bytes end too early.
    pub fn skip(&mut self, wire_type: WireType) -> Result<(), DecodeError> {
        match wire_type {
            WireType::Varint => drop(self.varint()?),
            WireType::Fixed64 => drop(self.fixed64()?),
            WireType::Delimited => drop(self.delimited()?),
            WireType::Fixed32 => self.rest = self.rest.get(4..).ok_or(Fault::Truncated)?,
        }
        Ok(())
    }
}
