//! Ranges of sorted sets: by rank, by score, by the bytes of members.

use quorate_procedure::Direction;

use crate::database::Database;
use crate::parse::{bounds, float, integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::sorted_sets::{Ranking, Scored, show, store};

/// The order that a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Bytes,
}

/// A bound of scores.
#[derive(Clone, Copy, Debug)]
struct ScoreBound {
    score: f64,
    is_open: bool,
}

impl ScoreBound {
    fn parse(word: &[u8]) -> Result<Self, Fail> {
        let (digits, is_open) = match word.strip_prefix(b"(") {
            Some(digits) => (digits, true),
            None => (word, false),
        };
        // Redis takes it for a number of C: nothing is zero.
        let digits = digits.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii_start();
        match if digits.is_empty() { Some(0.0) } else { float(digits) } {
            Some(score) => Ok(ScoreBound { score, is_open }),
            None => fail("ERR min or max is not a float"),
        }
    }
}

/// A bound of members.
#[derive(Clone, Copy, Debug)]
enum BytesBound<'a> {
    Least,
    Greatest,
    Closed(&'a [u8]),
    Open(&'a [u8]),
}

impl<'a> BytesBound<'a> {
    fn parse(word: &'a [u8]) -> Result<Self, Fail> {
        match word {
            b"-" => Ok(BytesBound::Least),
            b"+" => Ok(BytesBound::Greatest),
            [b'[', bytes @ ..] => Ok(BytesBound::Closed(bytes)),
            [b'(', bytes @ ..] => Ok(BytesBound::Open(bytes)),
            _ => fail("ERR min or max not valid string range item"),
        }
    }

    fn lets_in_above(self, member: &[u8]) -> bool {
        match self {
            BytesBound::Least => true,
            BytesBound::Greatest => false,
            BytesBound::Closed(bytes) => member >= bytes,
            BytesBound::Open(bytes) => member > bytes,
        }
    }

    fn lets_in_below(self, member: &[u8]) -> bool {
        match self {
            BytesBound::Least => false,
            BytesBound::Greatest => true,
            BytesBound::Closed(bytes) => member <= bytes,
            BytesBound::Open(bytes) => member < bytes,
        }
    }
}

/// A range, as arguments give it.
#[derive(Clone, Copy, Debug)]
enum Range<'a> {
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Bytes(BytesBound<'a>, BytesBound<'a>),
}

impl<'a> Range<'a> {
    /// Of a descending range the greater bound of scores or members comes first.
    fn parse(by: By, first: &'a [u8], second: &'a [u8], direction: Direction) -> Result<Self, Fail> {
        let (least, greatest) = match direction {
            Direction::Descending if by != By::Rank => (second, first),
            _ => (first, second),
        };
        Ok(match by {
            By::Rank => Range::Rank(integer_argument(least)?, integer_argument(greatest)?),
            By::Score => Range::Score(ScoreBound::parse(least)?, ScoreBound::parse(greatest)?),
            By::Bytes => Range::Bytes(BytesBound::parse(least)?, BytesBound::parse(greatest)?),
        })
    }

    /// The members in it, from either end.
    fn members(
        self,
        database: &mut Database<'_>,
        ranking: &Ranking<'_>,
        direction: Direction,
    ) -> Result<Vec<Scored>, Fail> {
        match self {
            Range::Rank(start, end) => {
                let (from, to) = bounds(start, end, ranking.len());
                if from >= to {
                    return Ok(Vec::new());
                }
                let mut members = ranking.first(database, to, direction)?;
                members.drain(..from.min(members.len()));
                Ok(members)
            }
            Range::Score(least, greatest) => {
                let range = (least.score, greatest.score);
                let mut members = ranking.between(database, range, usize::MAX, direction)?;
                members.retain(|(_, score)| {
                    (!least.is_open || *score > least.score) && (!greatest.is_open || *score < greatest.score)
                });
                Ok(members)
            }
            Range::Bytes(least, greatest) => {
                // Members of one score are meant. With several, what Redis finds depends on where it begins and ends, and so here.
                let members = ranking.first(database, usize::MAX, direction)?;
                let (first, last) = match direction {
                    Direction::Ascending => (members.first(), members.last()),
                    Direction::Descending => (members.last(), members.first()),
                };
                let is_reached = last.is_some_and(|(member, _)| least.lets_in_above(member))
                    && first.is_some_and(|(member, _)| greatest.lets_in_below(member));
                if !is_reached {
                    return Ok(Vec::new());
                }
                let above = |(member, _): &Scored| least.lets_in_above(member);
                let below = |(member, _): &Scored| greatest.lets_in_below(member);
                let members = members.into_iter();
                Ok(match direction {
                    Direction::Ascending => members.skip_while(|one| !above(one)).take_while(below).collect(),
                    Direction::Descending => {
                        members.skip_while(|one| !below(one)).take_while(above).collect()
                    }
                })
            }
        }
    }
}

/// The parameters of a range.
struct Asked<'a> {
    range: Range<'a>,
    direction: Direction,
    /// How many are passed over, and how many are wanted then.
    limit: (i64, i64),
    with_scores: bool,
}

/// The parameters that a command gives its range by its name.
#[derive(Clone, Copy, Default)]
struct Fixed {
    by: Option<By>,
    direction: Option<Direction>,
    stores: bool,
}

impl<'a> Asked<'a> {
    fn parse(words: &[&'a [u8]], fixed: Fixed) -> Result<Self, Fail> {
        let (mut by, mut direction) = (fixed.by, fixed.direction);
        let (mut limit, mut with_scores, mut rest) = (None, false, &words[2..]);
        while let [word, behind @ ..] = rest {
            rest = if is_word(word, "WITHSCORES") && !fixed.stores {
                with_scores = true;
                behind
            } else if let [offset, count, behind @ ..] = behind
                && is_word(word, "LIMIT")
            {
                limit = Some((integer_argument(offset)?, integer_argument(count)?));
                behind
            } else if is_word(word, "REV") && direction.is_none() {
                direction = Some(Direction::Descending);
                behind
            } else if is_word(word, "BYLEX") && by.is_none() {
                by = Some(By::Bytes);
                behind
            } else if is_word(word, "BYSCORE") && by.is_none() {
                by = Some(By::Score);
                behind
            } else {
                return fail(text::SYNTAX);
            };
        }
        let (by, direction) = (by.unwrap_or(By::Rank), direction.unwrap_or(Direction::Ascending));
        if limit.is_some_and(|(_, count)| count != -1) && by == By::Rank {
            return fail(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            );
        }
        if with_scores && by == By::Bytes {
            return fail("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
        }
        let range = Range::parse(by, words[0], words[1], direction)?;
        let limit = limit.filter(|_| by != By::Rank).unwrap_or((0, -1));
        Ok(Asked { range, direction, limit, with_scores })
    }

    fn members(&self, database: &mut Database<'_>, key: &[u8]) -> Result<Vec<Scored>, Fail> {
        let Some(ranking) = Ranking::find(database, key)? else { return Ok(Vec::new()) };
        let members = self.range.members(database, &ranking, self.direction)?;
        let (offset, count) = self.limit;
        let Ok(offset) = usize::try_from(offset) else { return Ok(Vec::new()) };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Ok(members.into_iter().skip(offset).take(count).collect())
    }
}

fn range_with(database: &mut Database<'_>, arguments: &[&[u8]], fixed: Fixed) -> Replied {
    let asked = Asked::parse(&arguments[2..], fixed)?;
    Ok(show(asked.members(database, arguments[1])?, asked.with_scores))
}

pub(crate) fn zrange(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    range_with(database, arguments, Fixed::default())
}

pub(crate) fn zrangestore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let asked = Asked::parse(&arguments[3..], Fixed { stores: true, ..Fixed::default() })?;
    let members = asked.members(database, arguments[2])?;
    store(database, arguments[1], members)
}

pub(crate) fn zrevrange(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let fixed = Fixed { by: Some(By::Rank), direction: Some(Direction::Descending), stores: false };
    range_with(database, arguments, fixed)
}

pub(crate) fn zrangebyscore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let fixed = Fixed { by: Some(By::Score), direction: Some(Direction::Ascending), stores: false };
    range_with(database, arguments, fixed)
}

pub(crate) fn zrevrangebyscore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let fixed = Fixed { by: Some(By::Score), direction: Some(Direction::Descending), stores: false };
    range_with(database, arguments, fixed)
}

pub(crate) fn zrangebylex(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let fixed = Fixed { by: Some(By::Bytes), direction: Some(Direction::Ascending), stores: false };
    range_with(database, arguments, fixed)
}

pub(crate) fn zrevrangebylex(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let fixed = Fixed { by: Some(By::Bytes), direction: Some(Direction::Descending), stores: false };
    range_with(database, arguments, fixed)
}

fn count_with(database: &mut Database<'_>, arguments: &[&[u8]], by: By) -> Replied {
    let range = Range::parse(by, arguments[2], arguments[3], Direction::Ascending)?;
    let Some(ranking) = Ranking::find(database, arguments[1])? else { return Ok(Reply::Integer(0)) };
    Ok(Reply::count(range.members(database, &ranking, Direction::Ascending)?.len()))
}

pub(crate) fn zcount(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    count_with(database, arguments, By::Score)
}

pub(crate) fn zlexcount(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    count_with(database, arguments, By::Bytes)
}

fn remove_with(database: &mut Database<'_>, arguments: &[&[u8]], by: By) -> Replied {
    let range = Range::parse(by, arguments[2], arguments[3], Direction::Ascending)?;
    let Some(mut ranking) = Ranking::find_to_write(database, arguments[1])? else {
        return Ok(Reply::Integer(0));
    };
    let members = range.members(database, &ranking, Direction::Ascending)?;
    for (member, _) in &members {
        ranking.remove(database, member)?;
    }
    if !members.is_empty() {
        ranking.save(database)?;
    }
    Ok(Reply::count(members.len()))
}

pub(crate) fn zremrangebyrank(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    remove_with(database, arguments, By::Rank)
}

pub(crate) fn zremrangebyscore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    remove_with(database, arguments, By::Score)
}

pub(crate) fn zremrangebylex(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    remove_with(database, arguments, By::Bytes)
}
