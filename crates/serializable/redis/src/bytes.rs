//! Numbers and byte strings in the bytes of requests, replies and records.

use crate::Malformed;

/// A field and its value, or a key and its.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// The words of a request.
pub(crate) type Words<'a> = [&'a [u8]];

/// Writes a number in groups of seven bits, the lowest first.
pub fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes a byte string behind its length.
pub fn put_bytes(bytes: &mut Vec<u8>, string: &[u8]) {
    put_number(bytes, string.len() as u64);
    bytes.extend_from_slice(string);
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// All of these.
    pub fn new(rest: &'a [u8]) -> Self {
        Reader { rest }
    }

    /// True if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    ///
    /// # Errors
    /// There are no more.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    /// A number of [`put_number`].
    ///
    /// # Errors
    /// There is none.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                return Err(Malformed);
            }
            number |= group << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    /// A count of what takes a byte each at least: so no more than that is ever reserved.
    ///
    /// # Errors
    /// There are fewer bytes.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if count > self.rest.len() { Err(Malformed) } else { Ok(count) }
    }

    /// So many bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A byte string of [`put_bytes`].
    ///
    /// # Errors
    /// There is none.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count()?;
        self.take(length)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A number in eight bytes, the highest first.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.fixed()?))
    }

    /// The bytes that are left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_long_ones_are_refused() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut reader = Reader::new(&bytes);
            assert_eq!((reader.number(), reader.is_empty()), (Ok(number), true));
        }
        assert_eq!(Reader::new(&[0xff; 11]).number(), Err(Malformed));
        assert_eq!(Reader::new(&[5, 1]).bytes(), Err(Malformed), "a count is no more than there are bytes");
    }
}
