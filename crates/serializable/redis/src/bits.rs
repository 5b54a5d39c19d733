//! Strings as rows of bits: `SETBIT`, `BITCOUNT`, `BITFIELD` and their kin. The first bit is the highest of the first byte.

use crate::database::{Database, check_length};
use crate::layout::{Body, Header, Kind};
use crate::parse::{bit_offset, integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::strings::{encoding, length_of, string_bounds};

/// The header of a key that holds a string; none if it is not there.
fn find(database: &mut Database<'_>, key: &[u8], to_write: bool) -> Result<Option<Header>, Fail> {
    let found = if to_write { database.find_to_write(key)? } else { database.find(key)? };
    match found {
        Some(header) if header.kind() != Kind::String => fail(text::WRONG_TYPE),
        found => Ok(found),
    }
}

pub(crate) fn setbit(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    const NOT_A_BIT: &str = "ERR bit is not an integer or out of range";
    let offset = bit_offset(arguments[2], None)?;
    let bit = match arguments[3] {
        b"0" => 0,
        b"1" => 1_u8,
        _ => return fail(NOT_A_BIT),
    };
    let key = arguments[1];
    let found = find(database, key, true)?;
    let mut header = found.unwrap_or_else(|| Header::new(Body::Inline(Vec::new())));
    let (at, mask) = (offset / 8, 0x80 >> (offset % 8));
    let byte = database.substring(key, &header, at, at + 1)?.first().copied().unwrap_or(0);
    let changed = if bit == 1 { byte | mask } else { byte & !mask };
    header.encoding = encoding::RAW;
    database.patch_string(key, &mut header, at, &[changed])?;
    Ok(Reply::flag(byte & mask != 0))
}

pub(crate) fn getbit(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let offset = bit_offset(arguments[2], None)?;
    let Some(header) = find(database, arguments[1], false)? else { return Ok(Reply::Integer(0)) };
    let byte = database.substring(arguments[1], &header, offset / 8, offset / 8 + 1)?;
    Ok(Reply::flag(byte.first().is_some_and(|byte| byte & 0x80 >> (offset % 8) != 0)))
}

/// True if the bounds of a part are counted in bits, as the word behind them says.
fn counts_bits(word: Option<&&[u8]>) -> Result<bool, Fail> {
    match word {
        None => Ok(false),
        Some(word) if is_word(word, "BYTE") => Ok(false),
        Some(word) if is_word(word, "BIT") => Ok(true),
        Some(_) => fail(text::SYNTAX),
    }
}

/// The bytes that hold a part of a string, and which of their bits belong to it.
struct Part {
    bytes: Vec<u8>,
    /// The number of the first bit of the bytes in the string.
    first: usize,
    /// The bits that belong to the part, counted in the bytes.
    from: usize,
    to: usize,
}

impl Part {
    fn read(
        database: &mut Database<'_>,
        key: &[u8],
        header: &Header,
        (start, end): (i64, i64),
        in_bits: bool,
    ) -> Result<Part, Fail> {
        let factor = if in_bits { 1 } else { 8 };
        let length = length_of(header) * 8 / factor;
        // Where both bounds lie before the first byte, `BITPOS` looks at that byte.
        let from_end = |at: i64| if at < 0 { at.max(-(length as i64)) } else { at };
        let (from, to) = string_bounds(from_end(start), from_end(end), length);
        let (from, to) = (from * factor, to * factor);
        let first = from / 8;
        let bytes = database.substring(key, header, first, to.div_ceil(8))?;
        Ok(Part { bytes, first: first * 8, from: from - first * 8, to: to.saturating_sub(first * 8) })
    }

    fn bit(&self, at: usize) -> bool {
        self.bytes[at / 8] & 0x80 >> (at % 8) != 0
    }
}

pub(crate) fn bitcount(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    // A key that is not there has no bits, whatever else is wrong.
    let Some(header) = find(database, arguments[1], false)? else { return Ok(Reply::Integer(0)) };
    let (bounds, in_bits) = match arguments.len() {
        2 => ((0, -1), false),
        4 | 5 => {
            let (start, end) = (integer_argument(arguments[2])?, integer_argument(arguments[3])?);
            if start < 0 && end < 0 && start > end {
                return Ok(Reply::Integer(0));
            }
            ((start, end), counts_bits(arguments.get(4))?)
        }
        _ => return fail(text::SYNTAX),
    };
    let part = Part::read(database, arguments[1], &header, bounds, in_bits)?;
    let mut count: u32 = part.bytes.iter().map(|byte| byte.count_ones()).sum();
    let outside = (0..part.from).chain(part.to..part.bytes.len() * 8);
    count -= outside.filter(|at| part.bit(*at)).count() as u32;
    Ok(Reply::Integer(i64::from(count)))
}

pub(crate) fn bitpos(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let bit = match integer_argument(arguments[2])? {
        0 => false,
        1 => true,
        _ => return fail("ERR The bit argument must be 1 or 0."),
    };
    let Some(header) = find(database, arguments[1], false)? else {
        return Ok(Reply::Integer(if bit { -1 } else { 0 }));
    };
    if arguments.len() > 6 {
        return fail(text::SYNTAX);
    }
    let start = arguments.get(3).map_or(Ok(0), |start| integer_argument(start))?;
    let in_bits = counts_bits(arguments.get(5))?;
    let end = arguments.get(4).map(|end| integer_argument(end)).transpose()?;
    let part = Part::read(database, arguments[1], &header, (start, end.unwrap_or(-1)), in_bits)?;
    if part.from >= part.to {
        return Ok(Reply::Integer(-1));
    }
    // Whole bytes without it are passed over.
    let without = if bit { 0x00 } else { 0xff };
    let mut at = part.from;
    while at < part.to {
        if at % 8 == 0 && part.bytes[at / 8] == without {
            at += 8;
        } else if part.bit(at) == bit {
            return Ok(Reply::count(part.first + at));
        } else {
            at += 1;
        }
    }
    // Behind a string without a given end there are zeros.
    let is_open = end.is_none() && !bit;
    Ok(if is_open { Reply::count(part.first + part.to) } else { Reply::Integer(-1) })
}

pub(crate) fn bitop(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let operation: fn(u8, u8) -> u8 = match arguments[1].to_ascii_uppercase().as_slice() {
        b"AND" => |one, other| one & other,
        b"OR" => |one, other| one | other,
        b"XOR" => |one, other| one ^ other,
        b"NOT" if arguments.len() != 4 => {
            return fail("ERR BITOP NOT must be called with a single source key.");
        }
        b"NOT" => |one, _| !one,
        _ => return fail(text::SYNTAX),
    };
    let mut sources = Vec::new();
    for key in &arguments[3..] {
        sources.push(match find(database, key, false)? {
            Some(header) => database.string_of(key, &header)?,
            None => Vec::new(),
        });
    }
    let length = sources.iter().map(Vec::len).max().unwrap_or(0);
    let byte = |source: &Vec<u8>, at: usize| source.get(at).copied().unwrap_or(0);
    let result: Vec<u8> = match &sources[..] {
        [only] if is_word(arguments[1], "NOT") => only.iter().map(|byte| operation(*byte, 0)).collect(),
        [first, others @ ..] => {
            let all =
                |at| others.iter().fold(byte(first, at), |value, other| operation(value, byte(other, at)));
            (0..length).map(all).collect()
        }
        [] => Vec::new(),
    };
    let before = database.find_to_write(arguments[2])?;
    if result.is_empty() {
        if let Some(before) = &before {
            database.remove(arguments[2], before)?;
        }
    } else {
        database.set_encoded(arguments[2], before.as_ref(), &result, (None, encoding::RAW))?;
    }
    Ok(Reply::count(result.len()))
}

/// How `BITFIELD` goes beyond the range of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// A number of some bits.
#[derive(Clone, Copy, Debug)]
struct Field {
    is_signed: bool,
    width: u32,
    offset: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

impl Field {
    fn parse(name: &[u8], offset: &[u8]) -> Result<Self, Fail> {
        const INVALID: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        let (is_signed, max) = match name.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => return fail(INVALID),
        };
        let width = crate::parse::integer(&name[1..]).filter(|width| (1..=max).contains(width));
        let Some(width) = width else { return fail(INVALID) };
        let width = width as u32;
        Ok(Field { is_signed, width, offset: bit_offset(offset, Some(width))? })
    }

    fn end(self) -> usize {
        (self.offset + self.width as usize).div_ceil(8)
    }

    /// The number of these bits as it is meant.
    fn number(self, bits: u64) -> i64 {
        let unused = 64 - self.width;
        if self.is_signed { ((bits << unused) as i64) >> unused } else { bits as i64 }
    }

    fn range(self) -> (i128, i128) {
        if self.is_signed {
            (-(1 << (self.width - 1)), (1 << (self.width - 1)) - 1)
        } else {
            (0, (1 << self.width) - 1)
        }
    }

    /// The number in place of one beyond the range; none if the step is not taken.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = self.range();
        if (min..=max).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.number(number as u64 & u64::MAX >> (64 - self.width))),
            Overflow::Saturate => Some(number.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }

    fn read(self, bytes: &[u8], first: usize) -> u64 {
        let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte & 0x80 >> (at % 8) != 0);
        let from = self.offset - first * 8;
        (from..from + self.width as usize).fold(0, |bits, at| bits << 1 | u64::from(bit(at)))
    }

    fn write(self, bytes: &mut [u8], first: usize, number: u64) {
        let from = self.offset - first * 8;
        for place in 0..self.width as usize {
            let (at, bit) = (from + place, number >> (self.width as usize - 1 - place) & 1);
            let mask = 0x80 >> (at % 8);
            if bit == 1 {
                bytes[at / 8] |= mask;
            } else {
                bytes[at / 8] &= !mask;
            }
        }
    }
}

fn steps(arguments: &[&[u8]]) -> Result<Vec<(Field, Step)>, Fail> {
    let (mut steps, mut overflow, mut rest) = (Vec::new(), Overflow::Wrap, arguments);
    loop {
        rest = match rest {
            [] => return Ok(steps),
            [word, name, offset, behind @ ..] if is_word(word, "GET") => {
                steps.push((Field::parse(name, offset)?, Step::Get));
                behind
            }
            [word, kind, behind @ ..] if is_word(word, "OVERFLOW") => {
                overflow = match kind.to_ascii_uppercase().as_slice() {
                    b"WRAP" => Overflow::Wrap,
                    b"SAT" => Overflow::Saturate,
                    b"FAIL" => Overflow::Fail,
                    _ => return fail("ERR Invalid OVERFLOW type specified"),
                };
                behind
            }
            [word, name, offset, value, behind @ ..] if is_word(word, "SET") || is_word(word, "INCRBY") => {
                let field = Field::parse(name, offset)?;
                let value = integer_argument(value)?;
                let step = if is_word(word, "SET") { Step::Set } else { Step::Increment };
                steps.push((field, step(value, overflow)));
                behind
            }
            _ => return fail(text::SYNTAX),
        };
    }
}

fn bitfield_with(database: &mut Database<'_>, arguments: &[&[u8]], is_read_only: bool) -> Replied {
    let steps = steps(&arguments[2..])?;
    let key = arguments[1];
    let written =
        steps.iter().filter(|(_, step)| !matches!(step, Step::Get)).map(|(field, _)| field.end()).max();
    let writes = written.is_some();
    if writes && is_read_only {
        return fail("ERR BITFIELD_RO only supports the GET subcommand");
    }
    let mut header = find(database, key, writes)?.unwrap_or_else(|| Header::new(Body::Inline(Vec::new())));
    if let Some(end) = written {
        check_length(end)?;
        header.encoding = encoding::RAW;
        // As in Redis, the string grows to its full length even if no step is taken.
        if length_of(&header) < end {
            database.patch_string(key, &mut header, end - 1, &[0])?;
        }
    }
    let mut replies = Vec::with_capacity(steps.len());
    for (field, step) in steps {
        let first = field.offset / 8;
        let mut bytes = database.substring(key, &header, first, field.end())?;
        bytes.resize(field.end() - first, 0);
        let before = field.number(field.read(&bytes, first));
        let written = match step {
            Step::Get => {
                replies.push(Reply::Integer(before));
                continue;
            }
            Step::Set(value, overflow) => {
                let value = if field.is_signed { value.into() } else { i128::from(value as u64) };
                field.fit(value, overflow).map(|fits| (fits, before))
            }
            Step::Increment(by, overflow) => {
                field.fit(i128::from(before) + i128::from(by), overflow).map(|sum| (sum, sum))
            }
        };
        let Some((number, reply)) = written else {
            replies.push(Reply::Null);
            continue;
        };
        field.write(&mut bytes, first, number as u64);
        database.patch_string(key, &mut header, first, &bytes)?;
        replies.push(Reply::Integer(reply));
    }
    Ok(Reply::Array(replies))
}

pub(crate) fn bitfield(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    bitfield_with(database, arguments, false)
}

pub(crate) fn bitfield_ro(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    bitfield_with(database, arguments, true)
}
