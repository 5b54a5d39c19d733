//! Lists: `LPUSH`, `LRANGE` and their kin. Elements have consecutive numbers, and a record each; so both ends grow and shrink by one record, and a range is a
//! scan. A put or a removal in the middle moves the elements on the shorter side.

use crate::collection::{Keeps, Opened};
use crate::database::Database;
use crate::layout::{ELEMENT_BYTES_MAX, Kind, elements_prefix};
use crate::parse::{bounds, integer, integer_argument, is_word, positive_argument};
use crate::reply::{Fail, Replied, Reply, fail, text};

/// So many elements are read at once: each may be long.
const READ_AT_ONCE: usize = 8;

/// One of the ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

impl End {
    fn parse(word: &[u8]) -> Result<Self, Fail> {
        match word {
            left if is_word(left, "LEFT") => Ok(End::Left),
            right if is_word(right, "RIGHT") => Ok(End::Right),
            _ => fail(text::SYNTAX),
        }
    }
}

/// Keeps elements by their numbers.
pub(crate) struct ByNumber;

impl Keeps for ByNumber {
    const KIND: Kind = Kind::List;
}

/// A list that is there, or a new one, while its elements are read and written.
pub(crate) type List<'k> = Opened<'k, ByNumber>;

/// The key of the record of an element: numbers are ordered as they are, negative ones first.
fn record(key: &[u8], generation: u64, number: i64) -> Vec<u8> {
    let mut record = elements_prefix(key, generation);
    record.extend_from_slice(&(number as u64 ^ 1 << 63).to_be_bytes());
    record
}

impl List<'_> {
    fn record(&self, at: usize) -> Vec<u8> {
        record(self.key, self.collection.generation, self.collection.first.wrapping_add(at as i64))
    }

    fn get(&self, database: &mut Database<'_>, at: usize) -> Result<Vec<u8>, Fail> {
        // The list whose element is missing has never been at one time.
        Ok(database.store.get(&self.record(at))?.ok_or(crate::Malformed)?)
    }

    fn set(&self, database: &mut Database<'_>, at: usize, element: &[u8]) -> Result<(), Fail> {
        Ok(database.store.put(&self.record(at), element)?)
    }

    /// The elements from one position up to, and without, another.
    fn range(&self, database: &mut Database<'_>, from: usize, to: usize) -> Result<Vec<Vec<u8>>, Fail> {
        let (mut at, mut found) = (from, Vec::new());
        while at < to {
            let next = to.min(at + READ_AT_ONCE);
            let records = database.records(&self.record(at), &self.record(next), next - at)?;
            if records.len() != next - at {
                return Err(crate::Malformed.into());
            }
            found.extend(records.into_iter().map(|(_, element)| element));
            at = next;
        }
        Ok(found)
    }

    fn push(&mut self, database: &mut Database<'_>, end: End, element: &[u8]) -> Result<(), Fail> {
        if end == End::Left {
            self.collection.first = self.collection.first.wrapping_sub(1);
        }
        self.collection.count += 1;
        let at = if end == End::Left { 0 } else { self.len() - 1 };
        self.set(database, at, element)
    }

    fn pop(&mut self, database: &mut Database<'_>, end: End) -> Result<Option<Vec<u8>>, Fail> {
        let Some(last) = self.len().checked_sub(1) else { return Ok(None) };
        let at = if end == End::Left { 0 } else { last };
        let element = self.get(database, at)?;
        database.store.delete(&self.record(at))?;
        if end == End::Left {
            self.collection.first = self.collection.first.wrapping_add(1);
        }
        self.collection.count -= 1;
        Ok(Some(element))
    }

    /// Puts an element before the one at a position.
    fn insert(&mut self, database: &mut Database<'_>, at: usize, element: &[u8]) -> Result<(), Fail> {
        if at < self.len() / 2 {
            let before = self.range(database, 0, at)?;
            self.collection.first = self.collection.first.wrapping_sub(1);
            self.collection.count += 1;
            for (number, moved) in before.iter().enumerate() {
                self.set(database, number, moved)?;
            }
        } else {
            let behind = self.range(database, at, self.len())?;
            self.collection.count += 1;
            for (number, moved) in behind.iter().enumerate() {
                self.set(database, at + 1 + number, moved)?;
            }
        }
        self.set(database, at, element)
    }

    /// Replaces all elements by these, of which there are no more.
    fn replace(&mut self, database: &mut Database<'_>, elements: &[Vec<u8>]) -> Result<(), Fail> {
        for at in elements.len()..self.len() {
            database.store.delete(&self.record(at))?;
        }
        for (at, element) in elements.iter().enumerate() {
            self.set(database, at, element)?;
        }
        self.collection.count = elements.len() as u64;
        Ok(())
    }

    /// Puts an element at the end.
    pub(crate) fn append(&mut self, database: &mut Database<'_>, element: &[u8]) -> Result<(), Fail> {
        self.push(database, End::Right, element)
    }

    /// The position that an index stands for, which counts from the end if it is negative.
    fn position(&self, index: i64) -> Option<usize> {
        let at = if index < 0 { (self.len() as i64).checked_add(index)? } else { index };
        usize::try_from(at).ok().filter(|at| *at < self.len())
    }
}

/// All elements of a key; none if it is not there.
pub(crate) fn elements_of(database: &mut Database<'_>, key: &[u8]) -> Result<Vec<Vec<u8>>, Fail> {
    match List::find(database, key)? {
        Some(list) => list.range(database, 0, list.len()),
        None => Ok(Vec::new()),
    }
}

/// Refuses what is no record.
fn check(element: &[u8]) -> Result<(), Fail> {
    if element.len() > ELEMENT_BYTES_MAX { fail(text::TOO_LONG) } else { Ok(()) }
}

fn push_to(database: &mut Database<'_>, arguments: &[&[u8]], end: End, creates: bool) -> Replied {
    arguments[2..].iter().try_for_each(|element| check(element))?;
    let mut list = match List::find_to_write(database, arguments[1])? {
        Some(list) => list,
        None if creates => List::open(database, arguments[1])?,
        None => return Ok(Reply::Integer(0)),
    };
    for element in &arguments[2..] {
        list.push(database, end, element)?;
    }
    let length = list.len();
    list.save(database)?;
    Ok(Reply::count(length))
}

pub(crate) fn lpush(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    push_to(database, arguments, End::Left, true)
}

pub(crate) fn rpush(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    push_to(database, arguments, End::Right, true)
}

pub(crate) fn lpushx(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    push_to(database, arguments, End::Left, false)
}

pub(crate) fn rpushx(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    push_to(database, arguments, End::Right, false)
}

fn pop_from(database: &mut Database<'_>, arguments: &[&[u8]], end: End) -> Replied {
    let count = match arguments.get(2) {
        Some(_) if arguments.len() > 3 => {
            let name = if end == End::Left { "lpop" } else { "rpop" };
            return Ok(crate::wrong_number(name));
        }
        Some(count) => Some(positive_argument(count)?),
        None => None,
    };
    let Some(mut list) = List::find_to_write(database, arguments[1])? else {
        return Ok(if count.is_some() { Reply::NullArray } else { Reply::Null });
    };
    let Some(count) = count else {
        let element = list.pop(database, end)?;
        list.save(database)?;
        return Ok(Reply::bulk_or_null(element));
    };
    let mut popped = Vec::new();
    while popped.len() < count
        && let Some(element) = list.pop(database, end)?
    {
        popped.push(element);
    }
    if !popped.is_empty() {
        list.save(database)?;
    }
    Ok(Reply::bulks(popped))
}

pub(crate) fn lpop(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    pop_from(database, arguments, End::Left)
}

pub(crate) fn rpop(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    pop_from(database, arguments, End::Right)
}

pub(crate) fn llen(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(Reply::count(List::find(database, arguments[1])?.map_or(0, |list| list.len())))
}

pub(crate) fn lindex(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(list) = List::find(database, arguments[1])? else { return Ok(Reply::Null) };
    match list.position(integer_argument(arguments[2])?) {
        Some(at) => Ok(Reply::Bulk(list.get(database, at)?)),
        None => Ok(Reply::Null),
    }
}

pub(crate) fn lset(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(list) = List::find_to_write(database, arguments[1])? else { return fail(text::NO_SUCH_KEY) };
    let index = integer_argument(arguments[2])?;
    check(arguments[3])?;
    let Some(at) = list.position(index) else { return fail(text::INDEX) };
    list.set(database, at, arguments[3])?;
    list.save(database)?;
    Ok(Reply::OK)
}

pub(crate) fn lrange(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (start, end) = (integer_argument(arguments[2])?, integer_argument(arguments[3])?);
    let Some(list) = List::find(database, arguments[1])? else { return Ok(Reply::Array(Vec::new())) };
    let (from, to) = bounds(start, end, list.len());
    Ok(Reply::bulks(list.range(database, from, to)?))
}

pub(crate) fn ltrim(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (start, end) = (integer_argument(arguments[2])?, integer_argument(arguments[3])?);
    let Some(mut list) = List::find_to_write(database, arguments[1])? else { return Ok(Reply::OK) };
    let (from, to) = bounds(start, end, list.len());
    if from >= to {
        database.remove(arguments[1], &list.header)?;
        return Ok(Reply::OK);
    }
    for at in (0..from).chain(to..list.len()) {
        database.store.delete(&list.record(at))?;
    }
    list.collection.first = list.collection.first.wrapping_add(from as i64);
    list.collection.count = (to - from) as u64;
    list.save(database)?;
    Ok(Reply::OK)
}

pub(crate) fn lrem(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let count = integer_argument(arguments[2])?;
    let Some(mut list) = List::find_to_write(database, arguments[1])? else { return Ok(Reply::Integer(0)) };
    let mut elements = list.range(database, 0, list.len())?;
    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let mut removed = 0;
    let mut stays = |element: &Vec<u8>| {
        let goes = removed < most && element == arguments[3];
        removed += usize::from(goes);
        !goes
    };
    if count < 0 {
        elements.reverse();
        elements.retain(&mut stays);
        elements.reverse();
    } else {
        elements.retain(&mut stays);
    }
    if removed > 0 {
        list.replace(database, &elements)?;
        list.save(database)?;
    }
    Ok(Reply::count(removed))
}

pub(crate) fn linsert(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let is_behind = match arguments[2] {
        word if is_word(word, "AFTER") => true,
        word if is_word(word, "BEFORE") => false,
        _ => return fail(text::SYNTAX),
    };
    check(arguments[4])?;
    let Some(mut list) = List::find_to_write(database, arguments[1])? else { return Ok(Reply::Integer(0)) };
    let elements = list.range(database, 0, list.len())?;
    let Some(at) = elements.iter().position(|element| element == arguments[3]) else {
        return Ok(Reply::Integer(-1));
    };
    list.insert(database, at + usize::from(is_behind), arguments[4])?;
    let length = list.len();
    list.save(database)?;
    Ok(Reply::count(length))
}

/// The options of `LPOS`.
#[derive(Debug)]
struct Search {
    rank: i64,
    count: Option<usize>,
    compared_max: usize,
}

impl Search {
    fn parse(arguments: &[&[u8]]) -> Result<Self, Fail> {
        const ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list";
        let mut search = Search { rank: 1, count: None, compared_max: usize::MAX };
        let mut rest = arguments;
        while let [word, behind @ ..] = rest {
            let [value, behind @ ..] = behind else { return fail(text::SYNTAX) };
            rest = behind;
            if is_word(word, "RANK") {
                search.rank = match integer_argument(value)? {
                    0 => return fail(ZERO),
                    // As the sign cannot be taken from it.
                    i64::MIN => -1,
                    rank => rank,
                };
            } else if is_word(word, "COUNT") {
                search.count = match integer(value).map(usize::try_from) {
                    Some(Ok(count)) => Some(count),
                    _ => return fail("ERR COUNT can't be negative"),
                };
            } else if is_word(word, "MAXLEN") {
                search.compared_max = match integer(value).map(usize::try_from) {
                    Some(Ok(0)) => usize::MAX,
                    Some(Ok(most)) => most,
                    _ => return fail("ERR MAXLEN can't be negative"),
                };
            } else {
                return fail(text::SYNTAX);
            }
        }
        Ok(search)
    }
}

pub(crate) fn lpos(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let search = Search::parse(&arguments[3..])?;
    let nothing = || if search.count.is_some() { Reply::Array(Vec::new()) } else { Reply::Null };
    let Some(list) = List::find(database, arguments[1])? else { return Ok(nothing()) };
    let elements = list.range(database, 0, list.len())?;
    let mut order: Vec<usize> = (0..elements.len()).collect();
    if search.rank < 0 {
        order.reverse();
    }
    let skipped = (search.rank.unsigned_abs() - 1) as usize;
    let matching = order.into_iter().take(search.compared_max).filter(|at| elements[*at] == arguments[2]);
    let mut matching = matching.skip(skipped).map(Reply::count);
    Ok(match search.count {
        None => matching.next().unwrap_or(Reply::Null),
        Some(0) => Reply::Array(matching.collect()),
        Some(count) => Reply::Array(matching.take(count).collect()),
    })
}

fn move_between(database: &mut Database<'_>, (from, to): (&[u8], &[u8]), ends: (End, End)) -> Replied {
    let Some(mut source) = List::find_to_write(database, from)? else { return Ok(Reply::Null) };
    // A fault of the destination comes before anything is moved.
    List::find_to_write(database, to)?;
    let Some(element) = source.pop(database, ends.0)? else { return Ok(Reply::Null) };
    if from == to {
        source.push(database, ends.1, &element)?;
        source.save(database)?;
    } else {
        source.save(database)?;
        let mut target = List::open(database, to)?;
        target.push(database, ends.1, &element)?;
        target.save(database)?;
    }
    Ok(Reply::Bulk(element))
}

pub(crate) fn lmove(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let ends = (End::parse(arguments[3])?, End::parse(arguments[4])?);
    move_between(database, (arguments[1], arguments[2]), ends)
}

pub(crate) fn rpoplpush(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    move_between(database, (arguments[1], arguments[2]), (End::Right, End::Left))
}

pub(crate) fn lmpop(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (keys, options) = crate::sets::counted(&arguments[1..]).or_else(|error| {
        if matches!(&error, Fail::Error(text) if text.contains("greater than number")) {
            fail(text::SYNTAX)
        } else {
            Err(error)
        }
    })?;
    let [end, rest @ ..] = options else { return fail(text::SYNTAX) };
    let end = End::parse(end)?;
    let count = crate::sets::popped(rest)?;
    for key in keys {
        let Some(mut list) = List::find_to_write(database, key)? else { continue };
        let mut popped = Vec::new();
        while popped.len() < count
            && let Some(element) = list.pop(database, end)?
        {
            popped.push(element);
        }
        list.save(database)?;
        return Ok(Reply::Array(vec![Reply::bulk(key), Reply::bulks(popped)]));
    }
    Ok(Reply::NullArray)
}
