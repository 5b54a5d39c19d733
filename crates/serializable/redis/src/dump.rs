//! `DUMP` and `RESTORE`: what a key holds as bytes. The format is our own; that of Redis depends on how Redis keeps things in memory.

use crate::bytes::{Reader, put_bytes};
use crate::database::Database;
use crate::hashes::{Fields, check_field, pairs_of};
use crate::layout::{Kind, hash_of};
use crate::lists::{List, elements_of};
use crate::parse::{integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::sets::{Members, members_of};
use crate::sorted_sets::Ranking;
use crate::streams;

/// The first bytes of a dump: a name and a version.
const DUMP: &[u8] = b"QRTE\x01";

pub(crate) fn dump(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let key = arguments[1];
    let Some(header) = database.find(key)? else { return Ok(Reply::Null) };
    let mut bytes = DUMP.to_vec();
    bytes.push(header.kind() as u8);
    match header.kind() {
        Kind::String => put_bytes(&mut bytes, &database.string_of(key, &header)?),
        Kind::Hash => {
            for (field, value) in pairs_of(database, key)? {
                put_bytes(&mut bytes, &field);
                put_bytes(&mut bytes, &value);
            }
        }
        Kind::List => elements_of(database, key)?.iter().for_each(|element| put_bytes(&mut bytes, element)),
        Kind::Set => members_of(database, key)?.iter().for_each(|member| put_bytes(&mut bytes, member)),
        Kind::SortedSet => {
            let scored = match Ranking::find(database, key)? {
                Some(ranking) => ranking.all(database)?,
                None => Vec::new(),
            };
            for (member, score) in scored {
                put_bytes(&mut bytes, &member);
                put_bytes(&mut bytes, &score.to_bits().to_be_bytes());
            }
        }
        Kind::Stream => {
            for part in streams::dumping::parts_of(database, key)? {
                put_bytes(&mut bytes, &part);
            }
        }
    }
    let check = hash_of(&bytes);
    bytes.extend_from_slice(&check.to_be_bytes());
    Ok(Reply::Bulk(bytes))
}

/// The key in a dump.
enum Dumped<'a> {
    String(&'a [u8]),
    List(Vec<&'a [u8]>),
    Set(Vec<&'a [u8]>),
    SortedSet(Vec<(&'a [u8], f64)>),
    Hash(Vec<(&'a [u8], &'a [u8])>),
    Stream(streams::dumping::Dumped<'a>),
}

/// Reads a dump; none if these bytes are none, or not whole.
fn read(bytes: &[u8]) -> Option<Dumped<'_>> {
    let (body, check) = bytes.split_last_chunk::<8>()?;
    if hash_of(body) != u64::from_be_bytes(*check) {
        return None;
    }
    let mut reader = Reader::new(body.strip_prefix(DUMP)?);
    let kind = reader.byte().ok()?;
    let mut parts = Vec::new();
    while !reader.is_empty() {
        parts.push(reader.bytes().ok()?);
    }
    if parts.is_empty() {
        return None;
    }
    let pairs = parts.len().is_multiple_of(2).then(|| parts.chunks_exact(2).map(|pair| (pair[0], pair[1])));
    let score = |bytes: &[u8]| {
        let score = f64::from_bits(u64::from_be_bytes(bytes.try_into().ok()?));
        (!score.is_nan()).then_some(score)
    };
    Some(match kind {
        kind if kind == Kind::String as u8 && parts.len() == 1 => Dumped::String(parts[0]),
        kind if kind == Kind::List as u8 => Dumped::List(parts),
        kind if kind == Kind::Set as u8 => Dumped::Set(parts),
        kind if kind == Kind::SortedSet as u8 => {
            let scored = pairs?.map(|(member, bytes)| Some((member, score(bytes)?)));
            Dumped::SortedSet(scored.collect::<Option<_>>()?)
        }
        kind if kind == Kind::Hash as u8 => Dumped::Hash(pairs?.collect()),
        kind if kind == Kind::Stream as u8 => Dumped::Stream(streams::dumping::Dumped::read(&parts)?),
        _ => return None,
    })
}

impl Dumped<'_> {
    /// Refuses what is no record: it could not have been dumped here.
    fn check(&self) -> Result<(), Fail> {
        match self {
            Dumped::String(string) => crate::database::check_length(string.len()),
            Dumped::List(elements) => elements.iter().try_for_each(|element| check_field(b"", element)),
            Dumped::Set(members) => members.iter().try_for_each(|member| check_field(member, b"")),
            Dumped::SortedSet(scored) => scored.iter().try_for_each(|(member, _)| check_field(member, b"")),
            Dumped::Hash(pairs) => pairs.iter().try_for_each(|(field, value)| check_field(field, value)),
            Dumped::Stream(stream) => stream.check(),
        }
    }

    /// Writes it to a key that is not there.
    fn write(self, database: &mut Database<'_>, key: &[u8], expiry: Option<u64>) -> Result<(), Fail> {
        match self {
            Dumped::String(string) => database.set_string(key, None, string, expiry),
            Dumped::List(elements) => {
                let mut list = List::open(database, key)?;
                elements.iter().try_for_each(|element| list.append(database, element))?;
                list.expire(expiry);
                list.save(database)
            }
            Dumped::Set(all) => {
                let mut members = Members::open(database, key)?;
                for member in all {
                    members.add(database, member)?;
                }
                members.expire(expiry);
                members.save(database)
            }
            Dumped::SortedSet(scored) => {
                let mut ranking = Ranking::open(database, key)?;
                for (member, score) in scored {
                    let before = ranking.score(database, member)?;
                    ranking.set(database, member, before, score)?;
                }
                ranking.expire(expiry);
                ranking.save(database)
            }
            Dumped::Hash(pairs) => {
                let mut fields = Fields::open(database, key)?;
                for (field, value) in pairs {
                    fields.set(database, field, value)?;
                }
                fields.expire(expiry);
                fields.save(database)
            }
            Dumped::Stream(stream) => stream.write(database, key, expiry),
        }
    }
}

/// The options of `RESTORE`.
#[derive(Debug, Default)]
struct Options {
    replaces: bool,
    is_absolute: bool,
}

impl Options {
    fn parse(arguments: &[&[u8]]) -> Result<Self, Fail> {
        let (mut options, mut rest) = (Options::default(), arguments.iter());
        while let Some(word) = rest.next() {
            if is_word(word, "REPLACE") {
                options.replaces = true;
            } else if is_word(word, "ABSTTL") {
                options.is_absolute = true;
            } else if is_word(word, "IDLETIME")
                && let Some(seconds) = rest.next()
            {
                if integer_argument(seconds)? < 0 {
                    return fail("ERR Invalid IDLETIME value, must be >= 0");
                }
            } else if is_word(word, "FREQ")
                && let Some(frequency) = rest.next()
            {
                if !(0..=255).contains(&integer_argument(frequency)?) {
                    return fail("ERR Invalid FREQ value, must be >= 0 and <= 255");
                }
            } else {
                return fail(text::SYNTAX);
            }
        }
        Ok(options)
    }
}

pub(crate) fn restore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let options = Options::parse(&arguments[4..])?;
    let key = arguments[1];
    let before = database.find_to_write(key)?;
    if before.is_some() && !options.replaces {
        return fail("BUSYKEY Target key name already exists.");
    }
    let Ok(ttl) = u64::try_from(integer_argument(arguments[2])?) else {
        return fail("ERR Invalid TTL value, must be >= 0");
    };
    let Some(dumped) = read(arguments[3]) else {
        return fail("ERR DUMP payload version or checksum are wrong");
    };
    let expiry = match (ttl, options.is_absolute) {
        (0, _) => None,
        (at, true) => Some(at),
        (ttl, false) => Some(database.now().saturating_add(ttl)),
    };
    dumped.check()?;
    if let Some(before) = &before {
        database.remove(key, before)?;
    }
    if expiry.is_none_or(|at| at >= database.now()) {
        dumped.write(database, key, expiry)?;
    }
    Ok(Reply::OK)
}
