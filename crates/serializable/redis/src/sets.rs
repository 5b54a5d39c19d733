//! Sets: `SADD`, `SINTER` and their kin. An element is a member, and holds nothing.

use std::collections::BTreeSet;

use crate::bytes::Words;
use crate::collection::{Keeps, Opened};
use crate::database::Database;
use crate::hashes::{check_field, choose};
use crate::layout::{Collection, KEY_BYTES_MAX, Kind};
use crate::parse::{integer, integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::scan::{elements, scan_elements};

/// Redis keeps a set of numbers as one as long as it has no more members than this.
const NUMBERS_MAX: u64 = 512;

/// Keeps members, and nothing beside them.
pub(crate) struct ByMember;

impl Keeps for ByMember {
    const KIND: Kind = Kind::Set;
}

/// A set that is there, or a new one, while members are written.
pub(crate) type Members<'k> = Opened<'k, ByMember>;

impl Members<'_> {
    fn record(&self, member: &[u8]) -> Vec<u8> {
        elements::record(self.key, self.collection.generation, member)
    }

    /// Adds a member; true if it is new.
    pub(crate) fn add(&mut self, database: &mut Database<'_>, member: &[u8]) -> Result<bool, Fail> {
        let record = self.record(member);
        if self.collection.count > 0 && database.store.get(&record)?.is_some() {
            return Ok(false);
        }
        database.store.put(&record, b"")?;
        self.collection.count += 1;
        if integer(member).is_none() || self.collection.count > NUMBERS_MAX {
            self.header.encoding = 1;
        }
        Ok(true)
    }

    fn remove(&mut self, database: &mut Database<'_>, member: &[u8]) -> Result<bool, Fail> {
        if member.len() > KEY_BYTES_MAX {
            return Ok(false);
        }
        self.remove_record(database, &self.record(member))
    }
}

fn has(database: &mut Database<'_>, key: &[u8], collection: Collection, member: &[u8]) -> Result<bool, Fail> {
    let is_short = member.len() <= KEY_BYTES_MAX;
    Ok(is_short && database.store.get(&elements::record(key, collection.generation, member))?.is_some())
}

/// All members of a key; none if it is not there.
pub(crate) fn members_of(database: &mut Database<'_>, key: &[u8]) -> Result<Vec<Vec<u8>>, Fail> {
    match database.collection(key, Kind::Set)? {
        Some((_, collection)) => {
            let all = elements::all(database, key, collection)?;
            Ok(all.into_iter().map(|(member, _)| member).collect())
        }
        None => Ok(Vec::new()),
    }
}

fn set_of(members: impl IntoIterator<Item = Vec<u8>>) -> Reply {
    Reply::Set(members.into_iter().map(Reply::Bulk).collect())
}

pub(crate) fn sadd(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    arguments[2..].iter().try_for_each(|member| check_field(member, b""))?;
    let mut members = Members::open(database, arguments[1])?;
    let mut added = 0;
    for member in &arguments[2..] {
        added += i64::from(members.add(database, member)?);
    }
    if added > 0 {
        members.save(database)?;
    }
    Ok(Reply::Integer(added))
}

pub(crate) fn srem(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(mut members) = Members::find_to_write(database, arguments[1])? else {
        return Ok(Reply::Integer(0));
    };
    let mut removed = 0;
    for member in &arguments[2..] {
        removed += i64::from(members.remove(database, member)?);
    }
    if removed > 0 {
        members.save(database)?;
    }
    Ok(Reply::Integer(removed))
}

pub(crate) fn scard(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = database.collection(arguments[1], Kind::Set)?;
    Ok(Reply::Integer(found.map_or(0, |(_, collection)| collection.count as i64)))
}

pub(crate) fn smembers(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(set_of(members_of(database, arguments[1])?))
}

pub(crate) fn sismember(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some((_, collection)) = database.collection(arguments[1], Kind::Set)? else {
        return Ok(Reply::Integer(0));
    };
    Ok(Reply::flag(has(database, arguments[1], collection, arguments[2])?))
}

pub(crate) fn smismember(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = database.collection(arguments[1], Kind::Set)?;
    let mut replies = Vec::with_capacity(arguments.len() - 2);
    for member in &arguments[2..] {
        let is_member = match &found {
            Some((_, collection)) => has(database, arguments[1], *collection, member)?,
            None => false,
        };
        replies.push(Reply::flag(is_member));
    }
    Ok(Reply::Array(replies))
}

pub(crate) fn smove(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (from, to, member) = (arguments[1], arguments[2], arguments[3]);
    let Some(mut source) = Members::find_to_write(database, from)? else { return Ok(Reply::Integer(0)) };
    // A fault of the destination comes before what is not in the source.
    Members::find_to_write(database, to)?;
    if from == to {
        return Ok(Reply::flag(has(database, from, source.collection, member)?));
    }
    if !source.remove(database, member)? {
        return Ok(Reply::Integer(0));
    }
    source.save(database)?;
    let mut target = Members::open(database, to)?;
    if target.add(database, member)? {
        target.save(database)?;
    }
    Ok(Reply::Integer(1))
}

pub(crate) fn spop(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let count = match arguments.get(2) {
        None => None,
        Some(_) if arguments.len() > 3 => return fail(text::SYNTAX),
        Some(count) => match integer(count) {
            Some(count @ 0..) => Some(count),
            _ => return fail(text::POSITIVE),
        },
    };
    let Some(mut members) = Members::find_to_write(database, arguments[1])? else {
        return Ok(count.map_or(Reply::Null, |_| Reply::Set(Vec::new())));
    };
    let Some(count) = count else {
        let hash = database.draw();
        let found = elements::near(database, arguments[1], members.collection.generation, hash)?;
        let Some((member, _)) = found else { return Ok(Reply::Null) };
        members.remove(database, &member)?;
        members.save(database)?;
        return Ok(Reply::Bulk(member));
    };
    let chosen = choose(database, arguments[1], members.collection, count)?;
    for (member, _) in &chosen {
        members.remove(database, member)?;
    }
    if !chosen.is_empty() {
        members.save(database)?;
    }
    Ok(set_of(chosen.into_iter().map(|(member, _)| member)))
}

pub(crate) fn srandmember(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(count) = arguments.get(2) else {
        let Some((_, collection)) = database.collection(arguments[1], Kind::Set)? else {
            return Ok(Reply::Null);
        };
        let hash = database.draw();
        let found = elements::near(database, arguments[1], collection.generation, hash)?;
        return Ok(Reply::bulk_or_null(found.map(|(member, _)| member)));
    };
    if arguments.len() > 3 {
        return fail(text::SYNTAX);
    }
    let count = integer_argument(count)?;
    if count < -(i64::MAX / 2) {
        return fail(text::OUT_OF_RANGE);
    }
    let Some((_, collection)) = database.collection(arguments[1], Kind::Set)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let chosen = choose(database, arguments[1], collection, count)?;
    Ok(Reply::bulks(chosen.into_iter().map(|(member, _)| member)))
}

/// How sets are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Intersection,
    Union,
    Difference,
}

/// The members of sets put together. An error in one of them comes first.
fn combined(
    database: &mut Database<'_>,
    keys: &[&[u8]],
    combine: Combine,
) -> Result<BTreeSet<Vec<u8>>, Fail> {
    for key in keys {
        database.collection(key, Kind::Set)?;
    }
    let mut result: BTreeSet<Vec<u8>> = BTreeSet::new();
    for (number, key) in keys.iter().enumerate() {
        let members = members_of(database, key)?.into_iter();
        match combine {
            _ if number == 0 => result.extend(members),
            Combine::Union => result.extend(members),
            Combine::Difference => {
                let removed: BTreeSet<_> = members.collect();
                result.retain(|member| !removed.contains(member));
            }
            Combine::Intersection => {
                let members: BTreeSet<_> = members.collect();
                result.retain(|member| members.contains(member));
            }
        }
    }
    Ok(result)
}

/// Replaces what a key holds by these members, and tells how many there are.
fn store(database: &mut Database<'_>, key: &[u8], members: BTreeSet<Vec<u8>>) -> Replied {
    if let Some(before) = database.find_to_write(key)? {
        database.remove(key, &before)?;
    }
    let count = members.len();
    if count > 0 {
        let mut target = Members::open(database, key)?;
        for member in members {
            target.add(database, &member)?;
        }
        target.save(database)?;
    }
    Ok(Reply::count(count))
}

pub(crate) fn sinter(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(set_of(combined(database, &arguments[1..], Combine::Intersection)?))
}

pub(crate) fn sunion(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(set_of(combined(database, &arguments[1..], Combine::Union)?))
}

pub(crate) fn sdiff(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(set_of(combined(database, &arguments[1..], Combine::Difference)?))
}

pub(crate) fn sinterstore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let members = combined(database, &arguments[2..], Combine::Intersection)?;
    store(database, arguments[1], members)
}

pub(crate) fn sunionstore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let members = combined(database, &arguments[2..], Combine::Union)?;
    store(database, arguments[1], members)
}

pub(crate) fn sdiffstore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let members = combined(database, &arguments[2..], Combine::Difference)?;
    store(database, arguments[1], members)
}

/// The keys that a number before them counts, and the options behind them.
pub(crate) fn counted<'a, 'b>(arguments: &'b Words<'a>) -> Result<(&'b Words<'a>, &'b Words<'a>), Fail> {
    const NOT_POSITIVE: &str = "ERR numkeys should be greater than 0";
    let count =
        integer(arguments[0]).and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    let Some(count) = count else { return fail(NOT_POSITIVE) };
    match arguments[1..].split_at_checked(count) {
        Some((keys, options)) => Ok((keys, options)),
        None => fail("ERR Number of keys can't be greater than number of args"),
    }
}

/// How many elements `LMPOP` and `ZMPOP` take, by what stands behind the end.
pub(crate) fn popped(options: &Words<'_>) -> Result<usize, Fail> {
    match options {
        [] => Ok(1),
        [word, count, rest @ ..] if is_word(word, "COUNT") => match integer(count) {
            Some(count @ 1..) if rest.is_empty() => Ok(count as usize),
            Some(1..) => fail(text::SYNTAX),
            _ => fail("ERR count should be greater than 0"),
        },
        _ => fail(text::SYNTAX),
    }
}

/// The limit of `SINTERCARD` and its kin.
pub(crate) fn limit(options: &[&[u8]]) -> Result<usize, Fail> {
    match options {
        [] => Ok(usize::MAX),
        [word, number, rest @ ..] if is_word(word, "LIMIT") => match integer(number) {
            Some(0) if rest.is_empty() => Ok(usize::MAX),
            Some(number @ 1..) if rest.is_empty() => Ok(number as usize),
            Some(0..) => limit(rest),
            _ => fail("ERR LIMIT can't be negative"),
        },
        _ => fail(text::SYNTAX),
    }
}

pub(crate) fn sintercard(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (keys, options) = counted(&arguments[1..])?;
    let limit = limit(options)?;
    Ok(Reply::count(combined(database, keys, Combine::Intersection)?.len().min(limit)))
}

pub(crate) fn sscan(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    scan_elements(database, arguments, Kind::Set, |member, _| Ok(vec![Reply::Bulk(member)]))
}
