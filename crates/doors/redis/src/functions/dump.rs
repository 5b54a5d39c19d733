//! Libraries as bytes, in the format in which Redis dumps them: so they can be moved between a Redis and a database.

/// An entry that is a library,
const LIBRARY: u8 = 0xf5;

/// and the version of the format that is written. Redis reads those up to its own.
const VERSION: u16 = 10;

/// The bytes behind the entries: the version, and a checksum.
const FOOT_BYTES: usize = 10;

/// The polynomial of the checksum, its bits in reverse.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// A library that is read back may have so many bytes.
const UNPACKED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The texts of libraries as bytes.
pub(crate) fn encode<'a>(libraries: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for code in libraries {
        bytes.push(LIBRARY);
        write_length(&mut bytes, code.len());
        bytes.extend_from_slice(code);
    }
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = checksum(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The texts of libraries; none if these bytes are no dump of libraries, or of a later version.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut entries, foot) = bytes.split_at_checked(bytes.len().checked_sub(FOOT_BYTES)?)?;
    let (version, told) = foot.split_first_chunk::<2>()?;
    let told = u64::from_le_bytes(told.try_into().ok()?);
    let checked = &bytes[..bytes.len() - 8];
    if u16::from_le_bytes(*version) > VERSION || told != 0 && told != checksum(checked) {
        return None;
    }
    let mut libraries = Vec::new();
    let mut left = UNPACKED_BYTES_MAX;
    while let Some((kind, rest)) = entries.split_first() {
        if *kind != LIBRARY {
            return None;
        }
        entries = rest;
        let code = read_string(&mut entries, left)?;
        left -= code.len();
        libraries.push(code);
    }
    Some(libraries)
}

fn write_length(bytes: &mut Vec<u8>, length: usize) {
    match length {
        0..=0x3f => bytes.push(length as u8),
        0x40..=0x3fff => bytes.extend([0x40 | (length >> 8) as u8, length as u8]),
        _ => {
            bytes.push(0x80);
            bytes.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

fn read_length(rest: &mut &[u8]) -> Option<usize> {
    let (first, after) = rest.split_first()?;
    let (length, after) = match first >> 6 {
        0 => (usize::from(first & 0x3f), after),
        1 => {
            let (second, after) = after.split_first()?;
            (usize::from(first & 0x3f) << 8 | usize::from(*second), after)
        }
        _ if *first == 0x80 => {
            let (length, after) = after.split_first_chunk::<4>()?;
            (u32::from_be_bytes(*length) as usize, after)
        }
        _ => return None,
    };
    *rest = after;
    Some(length)
}

/// A string, which may be compressed.
fn read_string(rest: &mut &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    const COMPRESSED: u8 = 0xc3;
    if rest.first() == Some(&COMPRESSED) {
        *rest = &rest[1..];
        let (packed, unpacked) = (read_length(rest)?, read_length(rest)?);
        let (bytes, after) = rest.split_at_checked(packed)?;
        *rest = after;
        return if unpacked <= bytes_max { unpack(bytes, unpacked) } else { None };
    }
    let length = read_length(rest)?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    (length <= bytes_max).then(|| bytes.to_vec())
}

/// Undoes the compression of LZF: runs of literal bytes, and references to what came before.
fn unpack(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let (mut unpacked, mut rest) = (Vec::with_capacity(length), packed);
    while let Some((control, after)) = rest.split_first() {
        rest = after;
        if *control < 32 {
            let (literal, after) = rest.split_at_checked(usize::from(*control) + 1)?;
            unpacked.extend_from_slice(literal);
            rest = after;
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                let (more, after) = rest.split_first()?;
                count += usize::from(*more);
                rest = after;
            }
            let (low, after) = rest.split_first()?;
            rest = after;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(*low)) + 1;
            let from = unpacked.len().checked_sub(distance)?;
            // The bytes may have been copied a moment ago.
            for at in from..from + count + 2 {
                unpacked.push(*unpacked.get(at)?);
            }
        }
        if unpacked.len() > length {
            return None;
        }
    }
    (unpacked.len() == length).then_some(unpacked)
}

/// CRC-64 with the polynomial of Jones.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |checksum, byte| {
        (0..8).fold(checksum ^ u64::from(*byte), |checksum: u64, _| {
            if checksum & 1 == 1 { checksum >> 1 ^ POLYNOMIAL } else { checksum >> 1 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dump of Redis 7.0, whose library is compressed.
    const OF_REDIS: &[u8] = b"\xf5\xc3@X@]\x1f#!lua name=mylib \n redis.registe\rr_function('my@\x0b\x02', @\x06`\x12\nkeys, args) 6\x03turn`\x0c\x07[1] end)\n\x00q\xee\xf6b\xe9$\xbaN";

    #[test]
    fn libraries_come_back() {
        let libraries: [&[u8]; 3] = [b"", &[b'x'; 70], &[b'y'; 20_000]];
        let bytes = encode(libraries.iter().copied());
        assert_eq!(decode(&bytes), Some(libraries.map(<[u8]>::to_vec).to_vec()));
        for at in [0, 1, 80, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
        }
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "the first {length} bytes");
        }
    }

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn a_compressed_library_is_read() {
        let libraries = decode(OF_REDIS).unwrap();
        let text = String::from_utf8(libraries[0].clone()).unwrap();
        assert!(text.starts_with("#!lua name=mylib") && text.ends_with("return args[1] end)"), "{text}");
    }
}
