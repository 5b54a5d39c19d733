//! `XADD`, `XLEN`, `XRANGE`, `XDEL` and what else concerns entries and knows no groups.

use quorate_procedure::Direction;

use super::ids::{Wanted, interval};
use super::trimming::Options;
use super::{Id, Opened, count_argument, encode_fields, show_all};
use crate::database::Database;
use crate::parse::{integer_argument, is_word};
use crate::reply::{Replied, Reply, fail, text};

pub(crate) fn xadd(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let mut options = Options::default();
    let at = 2 + options.read(&arguments[2..], true)?;
    let wanted = arguments.get(at).map(|word| Wanted::parse(word)).transpose()?;
    let trim = options.trim(true)?;
    let fields = arguments.get(at + 1..).unwrap_or_default();
    let Some(wanted) = wanted.filter(|_| !fields.is_empty() && fields.len().is_multiple_of(2)) else {
        return Ok(crate::wrong_number("xadd"));
    };
    if wanted == Wanted::Exactly(Id::LEAST) {
        return fail("ERR The ID specified in XADD must be greater than 0-0");
    }
    let found = Opened::find_to_write(database, arguments[1])?;
    if found.is_none() && options.only_existing {
        return Ok(Reply::Null);
    }
    let last = found.as_ref().map_or(Id::LEAST, |stream| stream.facts.last);
    if last == Id::GREATEST {
        return fail("ERR The stream has exhausted the last possible ID, unable to add more items");
    }
    let Some(id) = wanted.behind(last, database.now()) else {
        return fail("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    };
    let fields = encode_fields(fields)?;
    let mut stream = match found {
        Some(stream) => stream,
        None => Opened::create(database, arguments[1])?,
    };
    stream.append(database, id, &fields)?;
    if let Some(trim) = trim {
        stream.trim(database, trim)?;
    }
    stream.save(database)?;
    Ok(id.reply())
}

pub(crate) fn xtrim(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let mut options = Options::default();
    options.read(&arguments[2..], false)?;
    let trim = options.trim(false)?;
    let (Some(mut stream), Some(trim)) = (Opened::find_to_write(database, arguments[1])?, trim) else {
        return Ok(Reply::Integer(0));
    };
    let trimmed = stream.trim(database, trim)?;
    if trimmed > 0 {
        stream.save(database)?;
    }
    Ok(Reply::Integer(trimmed as i64))
}

pub(crate) fn xlen(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = Opened::find(database, arguments[1])?;
    Ok(Reply::Integer(found.map_or(0, |stream| stream.facts.length as i64)))
}

fn range(
    database: &mut Database<'_>,
    arguments: &[&[u8]],
    (start, end): (&[u8], &[u8]),
    direction: Direction,
) -> Replied {
    let ids = interval(start, end)?;
    let (mut count, mut rest) = (None, &arguments[4..]);
    while let [word, behind @ ..] = rest {
        match behind {
            [number, behind @ ..] if is_word(word, "COUNT") => {
                count = Some(count_argument(number)?);
                rest = behind;
            }
            _ => return fail(text::SYNTAX),
        }
    }
    let Some(stream) = Opened::find(database, arguments[1])? else { return Ok(Reply::Array(Vec::new())) };
    let limit = match count {
        None => usize::MAX,
        Some(0) => return Ok(Reply::NullArray),
        Some(count) => count,
    };
    show_all(&stream.entries(database, ids, limit, direction)?)
}

pub(crate) fn xrange(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    range(database, arguments, (arguments[2], arguments[3]), Direction::Ascending)
}

pub(crate) fn xrevrange(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    range(database, arguments, (arguments[3], arguments[2]), Direction::Descending)
}

pub(crate) fn xdel(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(mut stream) = Opened::find_to_write(database, arguments[1])? else {
        return Ok(Reply::Integer(0));
    };
    let ids = arguments[2..].iter().map(|word| Id::argument(word)).collect::<Result<Vec<_>, _>>()?;
    let mut deleted = 0;
    for id in ids {
        if stream.delete(database, id)? {
            stream.facts.deleted = stream.facts.deleted.max(id);
            deleted += 1;
        }
    }
    if deleted > 0 {
        stream.save(database)?;
    }
    Ok(Reply::Integer(deleted))
}

pub(crate) fn xsetid(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let last = Id::argument(arguments[2])?;
    let (mut added, mut deleted, mut rest) = (None, Id::LEAST, &arguments[3..]);
    while let [word, value, behind @ ..] = rest {
        if is_word(word, "ENTRIESADDED") {
            match u64::try_from(integer_argument(value)?) {
                Ok(count) => added = Some(count),
                Err(_) => return fail("ERR entries_added must be positive"),
            }
        } else if is_word(word, "MAXDELETEDID") {
            deleted = Id::argument(value)?;
            if last < deleted {
                return fail(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                );
            }
        } else {
            return fail(text::SYNTAX);
        }
        rest = behind;
    }
    if !rest.is_empty() {
        return fail(text::SYNTAX);
    }
    let Some(mut stream) = Opened::find_to_write(database, arguments[1])? else {
        return fail(text::NO_SUCH_KEY);
    };
    let all = (Id::LEAST, Id::GREATEST);
    if let Some((top, _)) = stream.entries(database, all, 1, Direction::Descending)?.first() {
        if last < *top {
            return fail("ERR The ID specified in XSETID is smaller than the target stream top item");
        }
        if added.is_some_and(|added| stream.facts.length > added) {
            return fail(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            );
        }
    }
    stream.facts.last = last;
    stream.facts.added = added.unwrap_or(stream.facts.added);
    if deleted > Id::LEAST {
        stream.facts.deleted = deleted;
    }
    stream.save(database)?;
    Ok(Reply::OK)
}

/// Tells the last id of a stream, for a client that waits for what comes behind it; under a name that no client can send.
pub(crate) fn last(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = Opened::find(database, arguments[1])?;
    Ok(found.map_or(Id::LEAST, |stream| stream.facts.last).reply())
}
