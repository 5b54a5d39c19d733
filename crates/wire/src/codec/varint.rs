//! Numbers of variable length: seven bits a byte, the least significant first.

use bytes::{BufMut, BytesMut};

/// The longest encoding of a 64-bit number.
const VARINT_BYTES_MAX: usize = 10;

/// The number of bytes that `value` takes.
#[inline]
pub(crate) const fn len(value: u64) -> usize {
    // Nine bits for every seven bits and one more: the division by seven without a division.
    ((63 - (value | 1).leading_zeros() as usize) * 9 + 73) / 64
}

/// Appends `value`.
#[inline]
pub(crate) fn put(mut value: u64, out: &mut BytesMut) {
    if value < 0x80 {
        out.put_u8(value as u8);
        return;
    }
    let mut bytes = [0; VARINT_BYTES_MAX];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    out.put_slice(&bytes[..=length]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::reader::Reader;
    use crate::error::Fault;

    #[test]
    fn every_length_is_predicted_and_read_back() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) | 1, u64::MAX >> shift] {
                let mut out = BytesMut::new();
                put(value, &mut out);
                assert_eq!(out.len(), len(value), "{value:#x}");
                let mut reader = Reader::new(&out);
                assert_eq!(reader.varint().unwrap(), value);
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn endless_and_cut_numbers_are_refused() {
        assert_eq!(Reader::new(&[0x80; 11]).varint().unwrap_err().fault, Fault::OutOfRange);
        let above_64_bits = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(Reader::new(&above_64_bits).varint().unwrap_err().fault, Fault::OutOfRange);
        assert_eq!(Reader::new(&[0x80; 3]).varint().unwrap_err().fault, Fault::Truncated);
    }
}
