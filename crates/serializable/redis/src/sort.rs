//! `SORT` and `SORT_RO`: elements in an order that they or other keys give.
//!
//! A pattern with `*` names a key for each element, which may lie in any slot. So a command with such patterns is no matter of one shard, unless a hash tag in front of the `*` says that it is.

use std::cmp::Ordering;

use crate::c_string;
use crate::database::Database;
use crate::hashes::{check_field, value_of};
use crate::layout::{KEY_BYTES_MAX, Kind, slot_of};
use crate::lists::{List, elements_of};
use crate::parse::{float, integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::sets::members_of;
use crate::sorted_sets::Ranking;

/// Options behind which so many arguments stand, of which none is a key.
pub(crate) const SKIPPED: &[(&str, usize)] = &[("LIMIT", 2), ("GET", 1), ("BY", 1)];

/// The options.
#[derive(Debug, Default)]
struct Options<'a> {
    is_descending: bool,
    by_bytes: bool,
    limit: Option<(i64, i64)>,
    by: Option<&'a [u8]>,
    /// The order is that in which the elements are kept.
    is_unsorted: bool,
    patterns: Vec<&'a [u8]>,
    target: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(words: &[&'a [u8]], may_store: bool) -> Result<Self, Fail> {
        let (mut options, mut rest) = (Options::default(), words);
        while let [word, behind @ ..] = rest {
            let is = |name: &str, more: usize| is_word(word, name) && behind.len() >= more;
            let taken = if is("ASC", 0) || is("DESC", 0) {
                options.is_descending = is("DESC", 0);
                0
            } else if is("ALPHA", 0) {
                options.by_bytes = true;
                0
            } else if is("LIMIT", 2) {
                options.limit = Some((integer_argument(behind[0])?, integer_argument(behind[1])?));
                2
            } else if is("STORE", 1) && may_store {
                options.target = Some(behind[0]);
                1
            } else if is("BY", 1) {
                options.by = Some(behind[0]);
                options.is_unsorted |= !c_string(behind[0]).contains(&b'*');
                1
            } else if is("GET", 1) {
                options.patterns.push(behind[0]);
                1
            } else {
                return fail(text::SYNTAX);
            };
            rest = &behind[taken..];
        }
        Ok(options)
    }

    /// The part of so many elements that is wanted.
    fn part(&self, count: usize) -> std::ops::Range<usize> {
        let (start, length) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start).unwrap_or(0).min(count);
        let length = usize::try_from(length).unwrap_or(count);
        start..start.saturating_add(length).min(count)
    }
}

/// True if a command names no other keys than those that are arguments, or only such as lie in the slot of the first.
pub(crate) fn is_confined(words: &[impl AsRef<[u8]>]) -> bool {
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let skipped = SKIPPED.iter().find(|(name, _)| is_word(word.as_ref(), name));
        let has_pattern = skipped.is_some_and(|(_, count)| *count == 1);
        let is_stored = is_word(word.as_ref(), "STORE");
        if has_pattern
            && let (Some(pattern), Some(key)) = (words.get(at + 1), words.get(1))
            && !stays_in(pattern.as_ref(), slot_of(key.as_ref()))
        {
            return false;
        }
        at += 1 + skipped.map_or(usize::from(is_stored), |(_, count)| *count);
    }
    true
}

/// True if all keys that a pattern names lie in a slot: there is a hash tag in front of what differs.
fn stays_in(pattern: &[u8], slot: u16) -> bool {
    let Some(star) = c_string(pattern).iter().position(|byte| *byte == b'*') else { return true };
    let fixed = &pattern[..star];
    let open = fixed.iter().position(|byte| *byte == b'{');
    let length = open.and_then(|open| fixed[open + 1..].iter().position(|byte| *byte == b'}'));
    length.is_some_and(|length| length > 0) && slot_of(fixed) == slot
}

/// The value that a pattern names for an element; none if there is none.
fn lookup(database: &mut Database<'_>, pattern: &[u8], element: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
    let visible = c_string(pattern);
    if visible == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = visible.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let behind = &pattern[star + 1..];
    let arrow = c_string(behind).windows(2).position(|pair| pair == b"->");
    let (behind, field) = match arrow {
        Some(at) if behind.get(at + 2).is_some_and(|byte| *byte != 0) => {
            (&behind[..at], Some(&behind[at + 2..]))
        }
        _ => (behind, None),
    };
    let key = [&pattern[..star], element, behind].concat();
    if key.len() > KEY_BYTES_MAX {
        return Ok(None);
    }
    match (database.find(&key)?, field) {
        (Some(header), None) if header.kind() == Kind::String => Ok(Some(database.string_of(&key, &header)?)),
        (Some(header), Some(field)) if header.kind() == Kind::Hash => value_of(database, &key, field),
        _ => Ok(None),
    }
}

/// The value that an element is sorted by.
#[derive(Debug)]
enum Weight {
    Number(f64),
    /// Up to the first zero, unless the result is stored: so C compares strings.
    Bytes(Option<Vec<u8>>),
}

impl Weight {
    fn of(value: Option<Vec<u8>>, by_bytes: bool, is_stored: bool) -> Result<Self, Fail> {
        if by_bytes {
            let shown = |value: Vec<u8>| if is_stored { value } else { c_string(&value).to_vec() };
            return Ok(Weight::Bytes(value.map(shown)));
        }
        let digits = value.as_deref().map(c_string).unwrap_or_default();
        // Nothing is zero, as for `strtod`, which goes over space in front.
        let number = if digits.is_empty() { Some(0.0) } else { float(digits.trim_ascii_start()) };
        match number {
            Some(number) => Ok(Weight::Number(number)),
            None => fail("ERR One or more scores can't be converted into double"),
        }
    }

    fn compare(&self, other: &Weight) -> Ordering {
        match (self, other) {
            (Weight::Number(one), Weight::Number(other)) => one.partial_cmp(other).unwrap_or(Ordering::Equal),
            (Weight::Bytes(one), Weight::Bytes(other)) => one.cmp(other),
            (Weight::Number(_), Weight::Bytes(_)) | (Weight::Bytes(_), Weight::Number(_)) => Ordering::Equal,
        }
    }
}

/// The elements of a list, a set or a sorted set, as they are kept, with its kind.
fn elements(database: &mut Database<'_>, key: &[u8]) -> Result<(Option<Kind>, Vec<Vec<u8>>), Fail> {
    let kind = database.find(key)?.map(|header| header.kind());
    let elements = match kind {
        None => Vec::new(),
        Some(Kind::List) => elements_of(database, key)?,
        Some(Kind::Set) => members_of(database, key)?,
        Some(Kind::SortedSet) => match Ranking::find(database, key)? {
            Some(ranking) => ranking.all(database)?.into_iter().map(|(member, _)| member).collect(),
            None => Vec::new(),
        },
        Some(Kind::String | Kind::Hash | Kind::Stream) => return fail(text::WRONG_TYPE),
    };
    Ok((kind, elements))
}

/// Elements in the order that is wanted.
fn sorted(
    database: &mut Database<'_>,
    mut elements: Vec<Vec<u8>>,
    options: &Options<'_>,
    kind: Option<Kind>,
) -> Result<Vec<Vec<u8>>, Fail> {
    if options.is_unsorted && kind != Some(Kind::Set) {
        if options.is_descending {
            elements.reverse();
        }
        return Ok(elements);
    }
    // A set is kept in no order that means something, so that it is sorted by bytes.
    let (by, by_bytes) = if options.is_unsorted { (None, true) } else { (options.by, options.by_bytes) };
    let mut weighted = Vec::with_capacity(elements.len());
    for element in elements {
        let value = match by {
            Some(pattern) => lookup(database, pattern, &element)?,
            None => Some(element.clone()),
        };
        let weight = Weight::of(value, by_bytes, options.target.is_some())?;
        weighted.push((weight, element));
    }
    weighted.sort_by(|(weight, element), (other_weight, other)| {
        let order = weight.compare(other_weight);
        let order = if by_bytes { order } else { order.then_with(|| element.cmp(other)) };
        if options.is_descending { order.reverse() } else { order }
    });
    Ok(weighted.into_iter().map(|(_, element)| element).collect())
}

fn sort_with(database: &mut Database<'_>, arguments: &[&[u8]], may_store: bool) -> Replied {
    let options = Options::parse(&arguments[2..], may_store)?;
    let (kind, elements) = elements(database, arguments[1])?;
    let elements = sorted(database, elements, &options, kind)?;
    let mut told = Vec::new();
    for element in &elements[options.part(elements.len())] {
        if options.patterns.is_empty() {
            told.push(Some(element.clone()));
        }
        for pattern in &options.patterns {
            told.push(lookup(database, pattern, element)?);
        }
    }
    match options.target {
        Some(target) => store(database, target, told),
        None => Ok(Reply::Array(told.into_iter().map(Reply::bulk_or_null).collect())),
    }
}

/// Replaces what a key holds by a list, in which nothing is an empty element.
fn store(database: &mut Database<'_>, key: &[u8], elements: Vec<Option<Vec<u8>>>) -> Replied {
    let elements: Vec<Vec<u8>> = elements.into_iter().map(Option::unwrap_or_default).collect();
    elements.iter().try_for_each(|element| check_field(b"", element))?;
    if let Some(before) = database.find_to_write(key)? {
        database.remove(key, &before)?;
    }
    if !elements.is_empty() {
        let mut list = List::open(database, key)?;
        elements.iter().try_for_each(|element| list.append(database, element))?;
        list.save(database)?;
    }
    Ok(Reply::count(elements.len()))
}

pub(crate) fn sort(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    sort_with(database, arguments, true)
}

pub(crate) fn sort_ro(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    sort_with(database, arguments, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_confined_where_patterns_stay_in_the_slot_of_its_key() {
        for (line, expected) in [
            ("sort k", true),
            ("sort k by nosort get #", true),
            ("sort k by w_*", false),
            ("sort k get w_*->f", false),
            ("sort {t}k by {t}w_* get {t}v_*->f", true),
            ("sort {t}k by {u}w_*", false),
            ("sort {t}k by *{t}", false),
            ("sort {t}k by {}{t}*", false),
            ("sort k limit by *", true),
            ("sort k store by desc get *", false),
            ("sort k store get by w_*", false),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(is_confined(&words), expected, "{line}");
        }
    }

    #[test]
    fn a_part_is_counted_from_the_front() {
        for (limit, expected) in [
            (None, 0..5),
            (Some((1, 2)), 1..3),
            (Some((-3, 2)), 0..2),
            (Some((2, -1)), 2..5),
            (Some((9, 1)), 5..5),
            (Some((0, 0)), 0..0),
            (Some((3, i64::MAX)), 3..5),
        ] {
            assert_eq!(Options { limit, ..Options::default() }.part(5), expected, "{limit:?}");
        }
    }
}
