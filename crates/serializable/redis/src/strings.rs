//! Strings: `GET`, `SET` and their kin.

use crate::bytes::Words;
use crate::database::{Database, check_length};
use crate::layout::{Body, Header, Kind, STRING_BYTES_MAX};
use crate::long_double::LongDouble;
use crate::parse::{integer, integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};

/// The meaning of `Header::encoding` for a string.
pub(crate) mod encoding {
    /// The string tells.
    pub(crate) const PLAIN: u8 = 0;
    /// It was changed in place, and stays `raw`.
    pub(crate) const RAW: u8 = 1;
    /// It was printed from a number with a fraction, and is no `int`.
    pub(crate) const PRINTED: u8 = 2;
}

/// The change of the expiry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    /// There is none.
    Clear,
    /// It stays.
    Keep,
    /// It is this, in milliseconds since the Unix epoch.
    At(u64),
}

/// How an argument gives an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) is_seconds: bool,
    pub(crate) is_relative: bool,
}

/// The options of `SET` and `GETEX`.
#[derive(Debug, Default)]
struct Options<'a> {
    expiry: Option<(Unit, &'a [u8])>,
    keeps_expiry: bool,
    persists: bool,
    if_absent: bool,
    if_present: bool,
    returns_before: bool,
}

impl<'a> Options<'a> {
    /// Reads the options behind the key, or behind the value of `SET`.
    fn parse(arguments: &[&'a [u8]], is_set: bool) -> Result<Self, Fail> {
        let mut options = Options::default();
        let mut rest = arguments;
        while let [word, behind @ ..] = rest {
            rest = behind;
            let has_expiry = options.expiry.is_some() || options.keeps_expiry || options.persists;
            let unit = |is_seconds, is_relative| Some(Unit { is_seconds, is_relative });
            let expires = match word.to_ascii_uppercase().as_slice() {
                b"NX" if is_set && !options.if_present => {
                    options.if_absent = true;
                    None
                }
                b"XX" if is_set && !options.if_absent => {
                    options.if_present = true;
                    None
                }
                b"GET" if is_set => {
                    options.returns_before = true;
                    None
                }
                b"KEEPTTL" if is_set && options.expiry.is_none() => {
                    options.keeps_expiry = true;
                    None
                }
                b"PERSIST" if !is_set && options.expiry.is_none() => {
                    options.persists = true;
                    None
                }
                b"EX" if !has_expiry => unit(true, true),
                b"PX" if !has_expiry => unit(false, true),
                b"EXAT" if !has_expiry => unit(true, false),
                b"PXAT" if !has_expiry => unit(false, false),
                _ => return fail(text::SYNTAX),
            };
            if let Some(unit) = expires {
                let [time, behind @ ..] = rest else { return fail(text::SYNTAX) };
                options.expiry = Some((unit, *time));
                rest = behind;
            }
        }
        Ok(options)
    }

    fn expiry(&self, now: u64, command: &str) -> Result<Expiry, Fail> {
        match self.expiry {
            Some((unit, time)) => Ok(Expiry::At(expiry_of(time, unit, now, command)?)),
            None if self.keeps_expiry => Ok(Expiry::Keep),
            None => Ok(Expiry::Clear),
        }
    }
}

/// When a key expires whose command has this argument; it is above zero.
fn expiry_of(time: &[u8], unit: Unit, now: u64, command: &str) -> Result<u64, Fail> {
    let time = integer_argument(time)?;
    let factor = if unit.is_seconds { 1_000 } else { 1 };
    let base = if unit.is_relative { now as i64 } else { 0 };
    let at = Some(time).filter(|time| *time > 0).and_then(|time| time.checked_mul(factor));
    match at.and_then(|at| at.checked_add(base)) {
        Some(at) => Ok(at as u64),
        None => fail(format!("ERR invalid expire time in '{command}' command")),
    }
}

/// Fails where a key holds something else than a string.
fn require_string(found: Option<Header>) -> Result<Option<Header>, Fail> {
    match found {
        Some(header) if header.kind() != Kind::String => fail(text::WRONG_TYPE),
        found => Ok(found),
    }
}

fn found_string(database: &mut Database<'_>, key: &[u8], header: Option<&Header>) -> Replied {
    match header {
        Some(header) => Ok(Reply::Bulk(database.string_of(key, header)?)),
        None => Ok(Reply::Null),
    }
}

pub(crate) fn get(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(Reply::bulk_or_null(database.string(arguments[1])?))
}

pub(crate) fn set(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let options = Options::parse(&arguments[3..], true)?;
    let expiry = options.expiry(database.now(), "set")?;
    let (key, value) = (arguments[1], arguments[2]);
    check_length(value.len())?;
    let before = database.find_to_write(key)?;
    let shown =
        if options.returns_before { Some(found_string(database, key, before.as_ref())?) } else { None };
    if options.if_absent && before.is_some() || options.if_present && before.is_none() {
        return Ok(shown.unwrap_or(Reply::Null));
    }
    let expiry = match expiry {
        Expiry::Clear => None,
        Expiry::Keep => before.as_ref().and_then(|before| before.expiry),
        Expiry::At(at) => Some(at),
    };
    database.set_string(key, before.as_ref(), value, expiry)?;
    Ok(shown.unwrap_or(Reply::OK))
}

pub(crate) fn setnx(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    check_length(arguments[2].len())?;
    if database.find_to_write(arguments[1])?.is_some() {
        return Ok(Reply::Integer(0));
    }
    database.set_string(arguments[1], None, arguments[2], None)?;
    Ok(Reply::Integer(1))
}

fn set_expiring(
    database: &mut Database<'_>,
    arguments: &[&[u8]],
    is_seconds: bool,
    command: &str,
) -> Replied {
    let unit = Unit { is_seconds, is_relative: true };
    let expiry = expiry_of(arguments[2], unit, database.now(), command)?;
    check_length(arguments[3].len())?;
    let before = database.find_to_write(arguments[1])?;
    database.set_string(arguments[1], before.as_ref(), arguments[3], Some(expiry))?;
    Ok(Reply::OK)
}

pub(crate) fn setex(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    set_expiring(database, arguments, true, "setex")
}

pub(crate) fn psetex(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    set_expiring(database, arguments, false, "psetex")
}

pub(crate) fn getset(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    check_length(arguments[2].len())?;
    let before = require_string(database.find_to_write(arguments[1])?)?;
    let shown = found_string(database, arguments[1], before.as_ref())?;
    database.set_string(arguments[1], before.as_ref(), arguments[2], None)?;
    Ok(shown)
}

pub(crate) fn getdel(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let before = require_string(database.find_to_write(arguments[1])?)?;
    let shown = found_string(database, arguments[1], before.as_ref())?;
    if let Some(before) = &before {
        database.remove(arguments[1], before)?;
    }
    Ok(shown)
}

pub(crate) fn getex(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let options = Options::parse(&arguments[2..], false)?;
    let key = arguments[1];
    let Some(mut header) = require_string(database.find_to_write(key)?)? else { return Ok(Reply::Null) };
    let expiry = options.expiry(database.now(), "getex")?;
    let shown = Reply::Bulk(database.string_of(key, &header)?);
    match expiry {
        Expiry::At(at) if at <= database.now() => database.remove(key, &header)?,
        Expiry::At(at) => {
            header.expiry = Some(at);
            database.save(key, &mut header)?;
        }
        Expiry::Clear | Expiry::Keep if options.persists && header.expiry.is_some() => {
            header.expiry = None;
            database.save(key, &mut header)?;
        }
        Expiry::Clear | Expiry::Keep => {}
    }
    Ok(shown)
}

pub(crate) fn mget(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let mut values = Vec::with_capacity(arguments.len() - 1);
    for key in &arguments[1..] {
        values.push(match database.find(key)? {
            Some(header) if header.kind() == Kind::String => Reply::Bulk(database.string_of(key, &header)?),
            _ => Reply::Null,
        });
    }
    Ok(Reply::Array(values))
}

/// A key and its value, as they stand in a request.
type Borrowed<'a> = (&'a [u8], &'a [u8]);

/// Key and value in turn.
fn pairs<'a>(arguments: &'a Words<'a>, command: &str) -> Result<Vec<Borrowed<'a>>, Fail> {
    let pairs = arguments[1..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return fail(format!("ERR wrong number of arguments for '{command}' command"));
    }
    let pairs: Vec<_> = pairs.map(|pair| (pair[0], pair[1])).collect();
    pairs.iter().try_for_each(|(_, value)| check_length(value.len()))?;
    Ok(pairs)
}

fn set_all(database: &mut Database<'_>, pairs: &[(&[u8], &[u8])]) -> Result<(), Fail> {
    for (key, value) in pairs {
        let before = database.find_to_write(key)?;
        database.set_string(key, before.as_ref(), value, None)?;
    }
    Ok(())
}

pub(crate) fn mset(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    set_all(database, &pairs(arguments, "mset")?)?;
    Ok(Reply::OK)
}

pub(crate) fn msetnx(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let pairs = pairs(arguments, "msetnx")?;
    for (key, _) in &pairs {
        if database.find_to_write(key)?.is_some() {
            return Ok(Reply::Integer(0));
        }
    }
    set_all(database, &pairs)?;
    Ok(Reply::Integer(1))
}

pub(crate) fn append(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (key, value) = (arguments[1], arguments[2]);
    let Some(mut header) = require_string(database.find_to_write(key)?)? else {
        database.set_string(key, None, value, None)?;
        return Ok(Reply::count(value.len()));
    };
    let length = length_of(&header);
    header.encoding = encoding::RAW;
    let length = database.patch_string(key, &mut header, length, value)?;
    Ok(Reply::count(length))
}

pub(crate) fn length_of(header: &Header) -> usize {
    match &header.body {
        Body::Inline(string) => string.len(),
        Body::Chunked { length, .. } => *length as usize,
        Body::Collection(collection) => collection.count as usize,
        Body::Stream(stream) => stream.length as usize,
    }
}

pub(crate) fn strlen(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = require_string(database.find(arguments[1])?)?;
    Ok(Reply::count(found.map_or(0, |header| length_of(&header))))
}

/// Adds to the number in a key.
fn increment_by(database: &mut Database<'_>, key: &[u8], by: i64) -> Replied {
    let before = require_string(database.find_to_write(key)?)?;
    let number = match &before {
        Some(Header { body: Body::Inline(string), .. }) => integer_argument(string)?,
        Some(_) => return fail(text::NOT_INTEGER),
        None => 0,
    };
    let Some(number) = number.checked_add(by) else { return fail(text::OVERFLOW) };
    let expiry = before.as_ref().and_then(|before| before.expiry);
    database.set_string(key, before.as_ref(), number.to_string().as_bytes(), expiry)?;
    Ok(Reply::Integer(number))
}

pub(crate) fn incr(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    increment_by(database, arguments[1], 1)
}

pub(crate) fn decr(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    increment_by(database, arguments[1], -1)
}

pub(crate) fn incrby(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let by = integer_argument(arguments[2])?;
    increment_by(database, arguments[1], by)
}

pub(crate) fn decrby(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    match integer_argument(arguments[2])?.checked_neg() {
        Some(by) => increment_by(database, arguments[1], by),
        None => fail("ERR decrement would overflow"),
    }
}

/// The sum of what is there and an argument, as Redis prints it.
pub(crate) fn float_sum(before: Option<&[u8]>, by: &[u8], not_a_number: &str) -> Result<String, Fail> {
    let zero = b"0".as_slice();
    let Some(number) = LongDouble::parse(before.unwrap_or(zero)) else { return fail(not_a_number) };
    let Some(by) = LongDouble::parse(by) else { return fail(text::NOT_FLOAT) };
    match number.add(by) {
        Some(sum) => Ok(sum.print()),
        None => fail("ERR increment would produce NaN or Infinity"),
    }
}

pub(crate) fn incrbyfloat(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let key = arguments[1];
    let before = require_string(database.find_to_write(key)?)?;
    let string = match &before {
        Some(header) => Some(database.string_of(key, header)?),
        None => None,
    };
    let sum = float_sum(string.as_deref(), arguments[2], text::NOT_FLOAT)?;
    let (stamp, expiry) = before.as_ref().map_or((0, None), |before| (before.stamp, before.expiry));
    if let Some(before) = &before {
        database.drop_elements(key, before)?;
    }
    let body = Body::Inline(sum.clone().into_bytes());
    database.save(key, &mut Header { stamp, expiry, encoding: encoding::PRINTED, body })?;
    Ok(Reply::bulk(sum))
}

pub(crate) fn setrange(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (key, value) = (arguments[1], arguments[3]);
    let Ok(offset) = usize::try_from(integer_argument(arguments[2])?) else {
        return fail("ERR offset is out of range");
    };
    let found = require_string(database.find_to_write(key)?)?;
    if value.is_empty() {
        return Ok(Reply::count(found.map_or(0, |header| length_of(&header))));
    }
    check_length(offset.saturating_add(value.len()))?;
    let mut header = found.unwrap_or_else(|| Header::new(Body::Inline(Vec::new())));
    header.encoding = encoding::RAW;
    let length = database.patch_string(key, &mut header, offset, value)?;
    Ok(Reply::count(length))
}

/// The bounds of a part of a string, as `GETRANGE` and `BITCOUNT` take them: an end before the beginning stands for the first byte.
pub(crate) fn string_bounds(start: i64, end: i64, length: usize) -> (usize, usize) {
    if length == 0 || start < 0 && end < 0 && start > end {
        return (0, 0);
    }
    let from_end = |at: i64| if at < 0 { (length as i64).saturating_add(at).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(length as i64 - 1));
    if start > end { (0, 0) } else { (start as usize, end as usize + 1) }
}

pub(crate) fn getrange(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (start, end) = (integer_argument(arguments[2])?, integer_argument(arguments[3])?);
    let Some(header) = require_string(database.find(arguments[1])?)? else { return Ok(Reply::bulk("")) };
    let (from, to) = string_bounds(start, end, length_of(&header));
    Ok(Reply::Bulk(database.substring(arguments[1], &header, from, to)?))
}

/// The options of `LCS`.
#[derive(Debug, Default)]
struct Common {
    wants_places: bool,
    wants_length: bool,
    wants_lengths: bool,
    length_min: usize,
}

impl Common {
    fn parse(arguments: &[&[u8]]) -> Result<Self, Fail> {
        let mut options = Common::default();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if is_word(word, "IDX") {
                options.wants_places = true;
            } else if is_word(word, "LEN") {
                options.wants_length = true;
            } else if is_word(word, "WITHMATCHLEN") {
                options.wants_lengths = true;
            } else if is_word(word, "MINMATCHLEN")
                && let Some(length) = rest.next()
            {
                options.length_min = integer_argument(length)?.max(0) as usize;
            } else {
                return fail(text::SYNTAX);
            }
        }
        if options.wants_places && options.wants_length {
            return fail("ERR If you want both the length and indexes, please just use IDX.");
        }
        Ok(options)
    }
}

pub(crate) fn lcs(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    const STRINGS: &str = "ERR The specified keys must contain string values";
    let mut strings = Vec::new();
    for key in &arguments[1..3] {
        strings.push(match database.find(key)? {
            Some(header) if header.kind() != Kind::String => return fail(STRINGS),
            Some(header) => database.string_of(key, &header)?,
            None => Vec::new(),
        });
    }
    let options = Common::parse(&arguments[3..])?;
    let (one, other) = (&strings[0], &strings[1]);
    if (one.len() + 1).saturating_mul(other.len() + 1).saturating_mul(4) > STRING_BYTES_MAX {
        return fail("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    }
    Ok(common_subsequence(one, other, &options))
}

/// The longest common subsequence, found from the end as Redis does: of several the same one.
fn common_subsequence(one: &[u8], other: &[u8], options: &Common) -> Reply {
    let width = other.len() + 1;
    let mut lengths = vec![0_u32; (one.len() + 1) * width];
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            lengths[i * width + j] = if one[i - 1] == other[j - 1] {
                lengths[(i - 1) * width + j - 1] + 1
            } else {
                lengths[(i - 1) * width + j].max(lengths[i * width + j - 1])
            };
        }
    }
    let total = lengths[one.len() * width + other.len()];
    if options.wants_length {
        return Reply::Integer(i64::from(total));
    }
    let (mut i, mut j) = (one.len(), other.len());
    let mut common = Vec::new();
    // The bytes from `.0` to `.1` of the one are those from `.2` to `.3` of the other.
    let (mut matches, mut run): (Vec<Reply>, Option<[usize; 4]>) = (Vec::new(), None);
    let mut end = |run: Option<[usize; 4]>| {
        let Some([from, to, other_from, other_to]) = run else { return };
        let length = to - from + 1;
        if length < options.length_min {
            return;
        }
        let place = |from: usize, to: usize| Reply::Array(vec![Reply::count(from), Reply::count(to)]);
        let mut found = vec![place(from, to), place(other_from, other_to)];
        if options.wants_lengths {
            found.push(Reply::count(length));
        }
        matches.push(Reply::Array(found));
    };
    while i > 0 && j > 0 {
        if one[i - 1] == other[j - 1] {
            common.push(one[i - 1]);
            run = match run {
                Some([from, to, other_from, other_to]) if from == i && other_from == j => {
                    Some([i - 1, to, j - 1, other_to])
                }
                ended => {
                    end(ended);
                    Some([i - 1, i - 1, j - 1, j - 1])
                }
            };
            (i, j) = (i - 1, j - 1);
        } else if lengths[(i - 1) * width + j] > lengths[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    end(run);
    if !options.wants_places {
        common.reverse();
        return Reply::Bulk(common);
    }
    Reply::Map(vec![
        (Reply::bulk("matches"), Reply::Array(matches)),
        (Reply::bulk("len"), Reply::Integer(i64::from(total))),
    ])
}

/// The reply of `OBJECT ENCODING` for a string.
pub(crate) fn encoding_of(header: &Header) -> &'static str {
    const EMBEDDED_BYTES_MAX: usize = 44;
    const INTEGER_BYTES_MAX: usize = 20;
    match &header.body {
        Body::Inline(string) if header.encoding != encoding::RAW => {
            let is_integer = string.len() <= INTEGER_BYTES_MAX && integer(string).is_some();
            match header.encoding {
                encoding::PLAIN if is_integer => "int",
                _ if string.len() <= EMBEDDED_BYTES_MAX => "embstr",
                _ => "raw",
            }
        }
        _ => "raw",
    }
}
