//! Hashes: `HSET`, `HGET` and their kin. An element is a field, and holds its value.

use crate::bytes::Pair;
use crate::collection::{Keeps, Opened};
use crate::database::Database;
use crate::layout::{Collection, ELEMENT_BYTES_MAX, KEY_BYTES_MAX, Kind};
use crate::parse::{integer, integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::scan::{elements, scan_elements};
use crate::strings::float_sum;

/// Redis keeps a hash in a list pack as long as it has no more fields than this,
pub(crate) const PACKED_COUNT_MAX: u64 = 512;

/// and no field or value is longer, in bytes.
pub(crate) const PACKED_BYTES_MAX: usize = 64;

/// Keeps values by their fields.
pub(crate) struct ByField;

impl Keeps for ByField {
    const KIND: Kind = Kind::Hash;
}

/// A hash that is there, or a new one, while fields are written.
pub(crate) type Fields<'k> = Opened<'k, ByField>;

impl Fields<'_> {
    fn get(&self, database: &mut Database<'_>, field: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        Ok(database.store.get(&elements::record(self.key, self.collection.generation, field))?)
    }

    /// Sets a field; true if it is new.
    pub(crate) fn set(
        &mut self,
        database: &mut Database<'_>,
        field: &[u8],
        value: &[u8],
    ) -> Result<bool, Fail> {
        let record = elements::record(self.key, self.collection.generation, field);
        let is_new = self.collection.count == 0 || database.store.get(&record)?.is_none();
        database.store.put(&record, value)?;
        self.collection.count += u64::from(is_new);
        let is_long = field.len().max(value.len()) > PACKED_BYTES_MAX;
        if is_long || self.collection.count > PACKED_COUNT_MAX {
            self.header.encoding = 1;
        }
        Ok(is_new)
    }

    fn delete(&mut self, database: &mut Database<'_>, field: &[u8]) -> Result<bool, Fail> {
        self.remove_record(database, &elements::record(self.key, self.collection.generation, field))
    }
}

/// Refuses what is no record.
pub(crate) fn check_field(field: &[u8], value: &[u8]) -> Result<(), Fail> {
    if field.len() > KEY_BYTES_MAX {
        return fail(format!("ERR field or member is longer than {KEY_BYTES_MAX} bytes"));
    }
    if value.len() > ELEMENT_BYTES_MAX { fail(text::TOO_LONG) } else { Ok(()) }
}

fn set_pairs(database: &mut Database<'_>, arguments: &[&[u8]], command: &str) -> Result<i64, Fail> {
    let pairs = arguments[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return fail(format!("ERR wrong number of arguments for '{command}' command"));
    }
    for pair in pairs.clone() {
        check_field(pair[0], pair[1])?;
    }
    let mut fields = Fields::open(database, arguments[1])?;
    let mut added = 0;
    for pair in pairs {
        added += i64::from(fields.set(database, pair[0], pair[1])?);
    }
    fields.save(database)?;
    Ok(added)
}

pub(crate) fn hset(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(Reply::Integer(set_pairs(database, arguments, "hset")?))
}

pub(crate) fn hmset(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    set_pairs(database, arguments, "hmset")?;
    Ok(Reply::OK)
}

pub(crate) fn hsetnx(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    check_field(arguments[2], arguments[3])?;
    let mut fields = Fields::open(database, arguments[1])?;
    if fields.collection.count > 0 && fields.get(database, arguments[2])?.is_some() {
        return Ok(Reply::Integer(0));
    }
    fields.set(database, arguments[2], arguments[3])?;
    fields.save(database)?;
    Ok(Reply::Integer(1))
}

/// The value of a field of a hash that is there.
pub(crate) fn value_of(
    database: &mut Database<'_>,
    key: &[u8],
    field: &[u8],
) -> Result<Option<Vec<u8>>, Fail> {
    match database.collection(key, Kind::Hash)? {
        Some(_) if field.len() > KEY_BYTES_MAX => Ok(None),
        Some((_, collection)) => {
            Ok(database.store.get(&elements::record(key, collection.generation, field))?)
        }
        None => Ok(None),
    }
}

pub(crate) fn hget(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(Reply::bulk_or_null(value_of(database, arguments[1], arguments[2])?))
}

pub(crate) fn hmget(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = database.collection(arguments[1], Kind::Hash)?;
    let mut values = Vec::with_capacity(arguments.len() - 2);
    for field in &arguments[2..] {
        let value = match &found {
            Some((_, collection)) if field.len() <= KEY_BYTES_MAX => {
                database.store.get(&elements::record(arguments[1], collection.generation, field))?
            }
            _ => None,
        };
        values.push(Reply::bulk_or_null(value));
    }
    Ok(Reply::Array(values))
}

pub(crate) fn hdel(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(mut fields) = Fields::find_to_write(database, arguments[1])? else {
        return Ok(Reply::Integer(0));
    };
    let mut deleted = 0;
    for field in arguments[2..].iter().filter(|field| field.len() <= KEY_BYTES_MAX) {
        deleted += i64::from(fields.delete(database, field)?);
    }
    if deleted > 0 {
        fields.save(database)?;
    }
    Ok(Reply::Integer(deleted))
}

pub(crate) fn hlen(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = database.collection(arguments[1], Kind::Hash)?;
    Ok(Reply::Integer(found.map_or(0, |(_, collection)| collection.count as i64)))
}

pub(crate) fn hexists(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(Reply::flag(value_of(database, arguments[1], arguments[2])?.is_some()))
}

pub(crate) fn hstrlen(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let value = value_of(database, arguments[1], arguments[2])?;
    Ok(Reply::count(value.map_or(0, |value| value.len())))
}

/// All fields with their values.
pub(crate) fn pairs_of(database: &mut Database<'_>, key: &[u8]) -> Result<Vec<Pair>, Fail> {
    match database.collection(key, Kind::Hash)? {
        Some((_, collection)) => elements::all(database, key, collection),
        None => Ok(Vec::new()),
    }
}

pub(crate) fn hgetall(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let pairs = pairs_of(database, arguments[1])?;
    Ok(Reply::Map(pairs.into_iter().map(|(field, value)| (Reply::Bulk(field), Reply::Bulk(value))).collect()))
}

pub(crate) fn hkeys(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let pairs = pairs_of(database, arguments[1])?;
    Ok(Reply::bulks(pairs.into_iter().map(|(field, _)| field)))
}

pub(crate) fn hvals(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let pairs = pairs_of(database, arguments[1])?;
    Ok(Reply::bulks(pairs.into_iter().map(|(_, value)| value)))
}

pub(crate) fn hincrby(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    check_field(arguments[2], b"")?;
    let by = integer_argument(arguments[3])?;
    let mut fields = Fields::open(database, arguments[1])?;
    let number = match fields.get(database, arguments[2])? {
        Some(value) => match integer(&value) {
            Some(number) => number,
            None => return fail("ERR hash value is not an integer"),
        },
        None => 0,
    };
    let Some(sum) = number.checked_add(by) else { return fail(text::OVERFLOW) };
    fields.set(database, arguments[2], sum.to_string().as_bytes())?;
    fields.save(database)?;
    Ok(Reply::Integer(sum))
}

pub(crate) fn hincrbyfloat(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    check_field(arguments[2], b"")?;
    // A fault of the summand comes first.
    float_sum(None, arguments[3], text::NOT_FLOAT)?;
    let mut fields = Fields::open(database, arguments[1])?;
    let value = fields.get(database, arguments[2])?;
    let sum = float_sum(value.as_deref(), arguments[3], "ERR hash value is not a float")?;
    fields.set(database, arguments[2], sum.as_bytes())?;
    fields.save(database)?;
    Ok(Reply::bulk(sum))
}

pub(crate) fn hscan(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    scan_elements(database, arguments, Kind::Hash, |field, value| {
        Ok(vec![Reply::Bulk(field), Reply::Bulk(value)])
    })
}

pub(crate) fn hrandfield(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(count) = arguments.get(2) else {
        let Some((_, collection)) = database.collection(arguments[1], Kind::Hash)? else {
            return Ok(Reply::Null);
        };
        let hash = database.draw();
        let found = elements::near(database, arguments[1], collection.generation, hash)?;
        return Ok(Reply::bulk_or_null(found.map(|(field, _)| field)));
    };
    let count = integer_argument(count)?;
    let with_values = match arguments.get(3) {
        None => false,
        Some(word) if is_word(word, "WITHVALUES") && arguments.len() == 4 => true,
        Some(_) => return fail(text::SYNTAX),
    };
    if count < -(i64::MAX / 2) || with_values && count < -(i64::MAX / 4) {
        return fail(text::OUT_OF_RANGE);
    }
    let Some((_, collection)) = database.collection(arguments[1], Kind::Hash)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let chosen = choose(database, arguments[1], collection, count)?;
    let pair = |(field, value)| (Reply::Bulk(field), Reply::Bulk(value));
    Ok(match with_values {
        true => Reply::Pairs(chosen.into_iter().map(pair).collect()),
        false => Reply::bulks(chosen.into_iter().map(|(field, _)| field)),
    })
}

/// Elements that are drawn: different ones, or, if the count is negative, each from all.
pub(crate) fn choose(
    database: &mut Database<'_>,
    key: &[u8],
    collection: Collection,
    count: i64,
) -> Result<Vec<Pair>, Fail> {
    /// A draw with repetitions replies so many at most, so that a reply is bounded.
    const DRAWN_MAX: u64 = 100_000;
    let wanted = count.unsigned_abs();
    if count < 0 {
        if wanted > DRAWN_MAX {
            return fail(format!("ERR value is out of range: at most {DRAWN_MAX} are drawn"));
        }
        let all = elements::all(database, key, collection)?;
        let mut chosen = Vec::with_capacity(wanted as usize);
        for _ in 0..if all.is_empty() { 0 } else { wanted } {
            let at = database.draw() % all.len() as u64;
            chosen.push(all[at as usize].clone());
        }
        return Ok(chosen);
    }
    let mut all = elements::all(database, key, collection)?;
    let wanted = wanted.min(all.len() as u64) as usize;
    if wanted < all.len() {
        for at in 0..wanted {
            let other = at + (database.draw() % (all.len() - at) as u64) as usize;
            all.swap(at, other);
        }
        all.truncate(wanted);
    }
    Ok(all)
}
