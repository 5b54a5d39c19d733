//! Numbers of variable length: seven bits a byte, the least significant first.

/// The number of bytes that `value` takes.
#[inline]
pub const fn len(value: u64) -> usize {
    // Nine bits for every seven bits and one more: the division by seven without a division.
    ((63 - (value | 1).leading_zeros() as usize) * 9 + 73) / 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use crate::reader::Reader;
    use crate::writer::Writer;

    #[test]
    fn every_length_is_predicted_and_read_back() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) | 1, u64::MAX >> shift] {
                let mut out = [0; 10];
                let mut writer = Writer::new(&mut out);
                writer.put_varint(value);
                let free = writer.free();
                let out = &out[free..];
                assert_eq!(out.len(), len(value), "{value:#x}");
                let mut reader = Reader::new(out);
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
