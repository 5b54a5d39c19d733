//! Sorted sets: `ZADD`, `ZSCORE`, `ZPOPMIN` and their kin. A member has two records: one by its name, which holds its score, and one in the order of scores.

use quorate_procedure::Direction;

use crate::collection::{Keeps, Opened};
use crate::database::Database;
use crate::hashes::{check_field, choose};
use crate::layout::{KEY_BYTES_MAX, Kind, behind, elements_prefix};
use crate::parse::{float, float_argument, integer, integer_argument, is_word, print_double};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::scan::{elements, scan_elements};

/// Redis keeps a sorted set in a list pack as long as it has no more members than this,
const PACKED_COUNT_MAX: u64 = 128;

/// and none is longer, in bytes.
const PACKED_BYTES_MAX: usize = 64;

/// The records in the order of scores begin with this behind the generation.
const SCORE: u8 = b's';

/// A member with its score.
pub(crate) type Scored = (Vec<u8>, f64);

/// Keeps members with scores, each in two records: by member, and by score.
pub(crate) struct ByScore;

impl Keeps for ByScore {
    const KIND: Kind = Kind::SortedSet;
}

/// A sorted set that is there, or a new one, while members are read and written.
pub(crate) type Ranking<'k> = Opened<'k, ByScore>;

/// The bytes of a score, ordered as scores are. The two zeros are the same.
fn ordered(score: f64) -> [u8; 8] {
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 };
    ordered.to_be_bytes()
}

fn score_of(bytes: &[u8]) -> Result<f64, Fail> {
    let bits = bytes.try_into().map_err(|_| crate::Malformed)?;
    Ok(f64::from_bits(u64::from_be_bytes(bits)))
}

impl Ranking<'_> {
    fn member_record(&self, member: &[u8]) -> Vec<u8> {
        let mut record = elements_prefix(self.key, self.collection.generation);
        record.push(elements::MEMBER);
        record.extend(elements::suffix(member));
        record
    }

    fn scores_prefix(&self) -> Vec<u8> {
        let mut prefix = elements_prefix(self.key, self.collection.generation);
        prefix.push(SCORE);
        prefix
    }

    fn score_record(&self, score: f64, member: &[u8]) -> Vec<u8> {
        let mut record = self.scores_prefix();
        record.extend_from_slice(&ordered(score));
        record.extend_from_slice(member);
        record
    }

    pub(crate) fn score(&self, database: &mut Database<'_>, member: &[u8]) -> Result<Option<f64>, Fail> {
        if member.len() > KEY_BYTES_MAX || self.collection.count == 0 {
            return Ok(None);
        }
        database.store.get(&self.member_record(member))?.map(|score| score_of(&score)).transpose()
    }

    /// Sets the score of a member that has had this one.
    pub(crate) fn set(
        &mut self,
        database: &mut Database<'_>,
        member: &[u8],
        before: Option<f64>,
        score: f64,
    ) -> Result<(), Fail> {
        // The two zeros are one score.
        let bits = (score + 0.0).to_bits().to_be_bytes();
        match before {
            Some(before) => database.store.delete(&self.score_record(before, member))?,
            None => self.collection.count += 1,
        }
        database.store.put(&self.member_record(member), &bits)?;
        database.store.put(&self.score_record(score, member), &bits)?;
        if self.collection.count > PACKED_COUNT_MAX || member.len() > PACKED_BYTES_MAX {
            self.header.encoding = 1;
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, database: &mut Database<'_>, member: &[u8]) -> Result<bool, Fail> {
        let Some(score) = self.score(database, member)? else { return Ok(false) };
        database.store.delete(&self.member_record(member))?;
        database.store.delete(&self.score_record(score, member))?;
        self.note_removed();
        Ok(true)
    }

    /// The members with scores from one up to, and with, another, at most so many, from either end.
    pub(crate) fn between(
        &self,
        database: &mut Database<'_>,
        (least, greatest): (f64, f64),
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Scored>, Fail> {
        let prefix = self.scores_prefix();
        let from = [prefix.as_slice(), &ordered(least)].concat();
        let to = behind(&[prefix.as_slice(), &ordered(greatest)].concat());
        if from >= to {
            return Ok(Vec::new());
        }
        let records = database.store.scan(&from, &to, limit, direction)?;
        let scored = |(record, score): (Vec<u8>, Vec<u8>)| {
            Ok((record.get(prefix.len() + 8..).ok_or(crate::Malformed)?.to_vec(), score_of(&score)?))
        };
        records.into_iter().map(scored).collect()
    }

    /// The first members from either end.
    pub(crate) fn first(
        &self,
        database: &mut Database<'_>,
        count: usize,
        direction: Direction,
    ) -> Result<Vec<Scored>, Fail> {
        self.between(database, (f64::NEG_INFINITY, f64::INFINITY), count, direction)
    }

    /// All members, the least score first.
    pub(crate) fn all(&self, database: &mut Database<'_>) -> Result<Vec<Scored>, Fail> {
        self.first(database, usize::MAX, Direction::Ascending)
    }
}

/// The options of `ZADD`.
#[derive(Debug, Default)]
struct Options {
    if_absent: bool,
    if_present: bool,
    if_greater: bool,
    if_less: bool,
    counts_changes: bool,
    increments: bool,
}

pub(crate) fn zadd(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (mut options, mut rest) = (Options::default(), &arguments[2..]);
    while let [word, behind @ ..] = rest {
        let option = [
            ("NX", &mut options.if_absent),
            ("XX", &mut options.if_present),
            ("GT", &mut options.if_greater),
            ("LT", &mut options.if_less),
            ("CH", &mut options.counts_changes),
            ("INCR", &mut options.increments),
        ]
        .into_iter()
        .find(|(name, _)| is_word(word, name));
        let Some((_, option)) = option else { break };
        (*option, rest) = (true, behind);
    }
    if rest.is_empty() || !rest.len().is_multiple_of(2) {
        return fail(text::SYNTAX);
    }
    let Options { if_absent, if_present, if_greater, if_less, counts_changes, increments } = options;
    if if_absent && if_present {
        return fail("ERR XX and NX options at the same time are not compatible");
    }
    if if_absent && (if_greater || if_less) || if_greater && if_less {
        return fail("ERR GT, LT, and/or NX options at the same time are not compatible");
    }
    if increments && rest.len() > 2 {
        return fail("ERR INCR option supports a single increment-element pair");
    }
    let mut pairs = Vec::with_capacity(rest.len() / 2);
    for pair in rest.chunks_exact(2) {
        let score = float_argument(pair[0])?;
        check_field(pair[1], b"")?;
        pairs.push((score, pair[1]));
    }
    let found = Ranking::find_to_write(database, arguments[1])?;
    let mut ranking = match found {
        Some(ranking) => ranking,
        None if if_present => return Ok(if increments { Reply::Null } else { Reply::Integer(0) }),
        None => Ranking::open(database, arguments[1])?,
    };
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (score, member) in pairs {
        let before = ranking.score(database, member)?;
        let score = match before {
            Some(before) if increments => before + score,
            _ => score,
        };
        if score.is_nan() {
            return fail("ERR resulting score is not a number (NaN)");
        }
        let is_wanted = match before {
            None => !if_present,
            Some(before) => !if_absent && (!if_greater || score > before) && (!if_less || score < before),
        };
        if !is_wanted {
            continue;
        }
        last = Some(score);
        if before.is_none_or(|before| before != score) {
            ranking.set(database, member, before, score)?;
            added += i64::from(before.is_none());
            changed += 1;
        }
    }
    if changed > 0 {
        ranking.save(database)?;
    }
    Ok(match increments {
        true => last.map_or(Reply::Null, Reply::Double),
        false => Reply::Integer(if counts_changes { changed } else { added }),
    })
}

pub(crate) fn zincrby(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let by = float_argument(arguments[2])?;
    check_field(arguments[3], b"")?;
    let mut ranking = Ranking::open(database, arguments[1])?;
    let before = ranking.score(database, arguments[3])?;
    let score = before.unwrap_or(0.0) + by;
    let score = if before.is_none() { by } else { score };
    if score.is_nan() {
        return fail("ERR resulting score is not a number (NaN)");
    }
    if before != Some(score) {
        ranking.set(database, arguments[3], before, score)?;
        ranking.save(database)?;
    }
    Ok(Reply::Double(score))
}

pub(crate) fn zrem(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(mut ranking) = Ranking::find_to_write(database, arguments[1])? else {
        return Ok(Reply::Integer(0));
    };
    let mut removed = 0;
    for member in &arguments[2..] {
        removed += i64::from(ranking.remove(database, member)?);
    }
    if removed > 0 {
        ranking.save(database)?;
    }
    Ok(Reply::Integer(removed))
}

pub(crate) fn zcard(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(Reply::count(Ranking::find(database, arguments[1])?.map_or(0, |ranking| ranking.len())))
}

pub(crate) fn zscore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(ranking) = Ranking::find(database, arguments[1])? else { return Ok(Reply::Null) };
    Ok(ranking.score(database, arguments[2])?.map_or(Reply::Null, Reply::Double))
}

pub(crate) fn zmscore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = Ranking::find(database, arguments[1])?;
    let mut scores = Vec::with_capacity(arguments.len() - 2);
    for member in &arguments[2..] {
        let score = match &found {
            Some(ranking) => ranking.score(database, member)?,
            None => None,
        };
        scores.push(score.map_or(Reply::Null, Reply::Double));
    }
    Ok(Reply::Array(scores))
}

fn rank_from(database: &mut Database<'_>, arguments: &[&[u8]], direction: Direction) -> Replied {
    let Some(ranking) = Ranking::find(database, arguments[1])? else { return Ok(Reply::Null) };
    let Some(score) = ranking.score(database, arguments[2])? else { return Ok(Reply::Null) };
    let range = match direction {
        Direction::Ascending => (f64::NEG_INFINITY, score),
        Direction::Descending => (score, f64::INFINITY),
    };
    let before = ranking.between(database, range, usize::MAX, direction)?;
    let at = before.iter().position(|(member, _)| member == arguments[2]);
    Ok(at.map_or(Reply::Null, Reply::count))
}

pub(crate) fn zrank(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    rank_from(database, arguments, Direction::Ascending)
}

pub(crate) fn zrevrank(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    rank_from(database, arguments, Direction::Descending)
}

/// Removes the first members from an end.
fn pop(
    database: &mut Database<'_>,
    mut ranking: Ranking<'_>,
    count: usize,
    direction: Direction,
) -> Result<Vec<Scored>, Fail> {
    let popped = ranking.first(database, count, direction)?;
    for (member, _) in &popped {
        ranking.remove(database, member)?;
    }
    if !popped.is_empty() {
        ranking.save(database)?;
    }
    Ok(popped)
}

fn pop_from(database: &mut Database<'_>, arguments: &[&[u8]], direction: Direction) -> Replied {
    if arguments.len() > 3 {
        return fail(text::SYNTAX);
    }
    let count = match arguments.get(2) {
        Some(count) => Some(crate::parse::positive_argument(count)?),
        None => None,
    };
    let Some(ranking) = Ranking::find_to_write(database, arguments[1])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let popped = pop(database, ranking, count.unwrap_or(1), direction)?;
    let both = |(member, score)| [Reply::Bulk(member), Reply::Double(score)];
    Ok(match count {
        None => Reply::Array(popped.into_iter().flat_map(both).collect()),
        Some(_) => scored_pairs(popped),
    })
}

pub(crate) fn zpopmin(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    pop_from(database, arguments, Direction::Ascending)
}

pub(crate) fn zpopmax(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    pop_from(database, arguments, Direction::Descending)
}

pub(crate) fn zmpop(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let count =
        integer(arguments[1]).and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    let Some(count) = count else { return fail("ERR numkeys should be greater than 0") };
    let Some((keys, [end, rest @ ..])) = arguments[2..].split_at_checked(count) else {
        return fail(text::SYNTAX);
    };
    let direction = match end {
        word if is_word(word, "MIN") => Direction::Ascending,
        word if is_word(word, "MAX") => Direction::Descending,
        _ => return fail(text::SYNTAX),
    };
    let count = crate::sets::popped(rest)?;
    for key in keys {
        let Some(ranking) = Ranking::find_to_write(database, key)? else { continue };
        let popped = pop(database, ranking, count, direction)?;
        let both = |(member, score)| Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)]);
        let popped = Reply::Array(popped.into_iter().map(both).collect());
        return Ok(Reply::Array(vec![Reply::bulk(key), popped]));
    }
    Ok(Reply::NullArray)
}

/// Members with their scores.
pub(crate) fn scored_pairs(scored: Vec<Scored>) -> Reply {
    let pair = |(member, score)| (Reply::Bulk(member), Reply::Double(score));
    Reply::Pairs(scored.into_iter().map(pair).collect())
}

/// Members, with their scores if these are wanted.
pub(crate) fn show(scored: Vec<Scored>, with_scores: bool) -> Reply {
    match with_scores {
        true => scored_pairs(scored),
        false => Reply::bulks(scored.into_iter().map(|(member, _)| member)),
    }
}

pub(crate) fn zrandmember(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(count) = arguments.get(2) else {
        let Some(ranking) = Ranking::find(database, arguments[1])? else { return Ok(Reply::Null) };
        let chosen = choose(database, arguments[1], ranking.collection, 1)?;
        return Ok(Reply::bulk_or_null(chosen.into_iter().next().map(|(member, _)| member)));
    };
    let count = integer_argument(count)?;
    let with_scores = match arguments.get(3) {
        None => false,
        Some(word) if is_word(word, "WITHSCORES") && arguments.len() == 4 => true,
        Some(_) => return fail(text::SYNTAX),
    };
    if count < -(i64::MAX / 2) || with_scores && count < -(i64::MAX / 4) {
        return fail(text::OUT_OF_RANGE);
    }
    let Some(ranking) = Ranking::find(database, arguments[1])? else { return Ok(Reply::Array(Vec::new())) };
    let chosen = choose(database, arguments[1], ranking.collection, count)?;
    let scored = chosen.into_iter().map(|(member, score)| Ok((member, score_of(&score)?)));
    Ok(show(scored.collect::<Result<_, Fail>>()?, with_scores))
}

pub(crate) fn zscan(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    scan_elements(database, arguments, Kind::SortedSet, |member, score| {
        let score = print_double(score_of(&score)?);
        Ok(vec![Reply::Bulk(member), Reply::bulk(score)])
    })
}

/// Weights and how scores are put together, of `ZUNION` and its kin.
struct Together<'a, 'b> {
    keys: &'b [&'a [u8]],
    weights: Vec<f64>,
    aggregate: fn(f64, f64) -> f64,
    with_scores: bool,
}

/// The sum of scores: infinities that cancel out come to nothing.
fn sum(one: f64, other: f64) -> f64 {
    let sum = one + other;
    if sum.is_nan() { 0.0 } else { sum }
}

impl<'a, 'b> Together<'a, 'b> {
    fn parse(
        database: &mut Database<'_>,
        arguments: &'b [&'a [u8]],
        (command, how): (&str, How),
        stores: bool,
    ) -> Result<Self, Fail> {
        let is_difference = how == How::Difference;
        let Some(count) = integer(arguments[0]) else { return fail(text::NOT_INTEGER) };
        if count < 1 {
            return fail(format!("ERR at least 1 input key is needed for '{command}' command"));
        }
        let Some((keys, mut rest)) = arguments[1..].split_at_checked(count as usize) else {
            return fail(text::SYNTAX);
        };
        check_kinds(database, keys)?;
        let mut together =
            Together { keys, weights: vec![1.0; keys.len()], aggregate: sum, with_scores: false };
        while let [word, behind @ ..] = rest {
            rest = if is_word(word, "WEIGHTS") && !is_difference && behind.len() >= keys.len() {
                let (weights, behind) = behind.split_at(keys.len());
                together.weights.clear();
                for weight in weights {
                    match float(weight) {
                        Some(weight) => together.weights.push(weight),
                        None => return fail("ERR weight value is not a float"),
                    }
                }
                behind
            } else if is_word(word, "AGGREGATE") && !is_difference && !behind.is_empty() {
                together.aggregate = match behind[0] {
                    how if is_word(how, "SUM") => sum,
                    how if is_word(how, "MIN") => f64::min,
                    how if is_word(how, "MAX") => f64::max,
                    _ => return fail(text::SYNTAX),
                };
                &behind[1..]
            } else if is_word(word, "WITHSCORES") && !stores {
                together.with_scores = true;
                behind
            } else {
                return fail(text::SYNTAX);
            };
        }
        Ok(together)
    }

    /// The members of each key, which may also hold a set, with their weighted scores.
    fn inputs(&self, database: &mut Database<'_>) -> Result<Vec<Vec<Scored>>, Fail> {
        let mut inputs = Vec::with_capacity(self.keys.len());
        for (key, weight) in self.keys.iter().zip(&self.weights) {
            let found = database.find(key)?;
            let members: Vec<Scored> = match found.map(|header| header.kind()) {
                None => Vec::new(),
                Some(Kind::SortedSet) => match Ranking::find(database, key)? {
                    Some(ranking) => ranking.all(database)?,
                    None => Vec::new(),
                },
                Some(Kind::Set) => {
                    crate::sets::members_of(database, key)?.into_iter().map(|member| (member, 1.0)).collect()
                }
                Some(_) => Vec::new(),
            };
            let weighted = |score: f64| {
                let weighted = score * weight;
                if weighted.is_nan() { 0.0 } else { weighted }
            };
            inputs.push(members.into_iter().map(|(member, score)| (member, weighted(score))).collect());
        }
        Ok(inputs)
    }

    fn combine(&self, database: &mut Database<'_>, how: How) -> Result<Vec<Scored>, Fail> {
        let mut result: std::collections::BTreeMap<Vec<u8>, f64> = Default::default();
        for (number, input) in self.inputs(database)?.into_iter().enumerate() {
            let input: std::collections::BTreeMap<Vec<u8>, f64> = input.into_iter().collect();
            match how {
                _ if number == 0 => result = input,
                How::Union => {
                    for (member, score) in input {
                        result
                            .entry(member)
                            .and_modify(|known| *known = (self.aggregate)(*known, score))
                            .or_insert(score);
                    }
                }
                How::Intersection => {
                    result.retain(|member, _| input.contains_key(member));
                    for (member, known) in &mut result {
                        *known = (self.aggregate)(*known, input[member]);
                    }
                }
                How::Difference => result.retain(|member, _| !input.contains_key(member)),
            }
        }
        let mut scored: Vec<Scored> = result.into_iter().collect();
        scored.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
        Ok(scored)
    }
}

/// Refuses keys that hold neither a set nor a sorted set.
fn check_kinds(database: &mut Database<'_>, keys: &[&[u8]]) -> Result<(), Fail> {
    for key in keys {
        let found = database.find(key)?.map(|header| header.kind());
        if !matches!(found, None | Some(Kind::Set | Kind::SortedSet)) {
            return fail(text::WRONG_TYPE);
        }
    }
    Ok(())
}

/// How sorted sets are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Union,
    Intersection,
    Difference,
}

fn combine(database: &mut Database<'_>, arguments: &[&[u8]], how: How, command: &str) -> Replied {
    let together = Together::parse(database, &arguments[1..], (command, how), false)?;
    Ok(show(together.combine(database, how)?, together.with_scores))
}

fn combine_into(database: &mut Database<'_>, arguments: &[&[u8]], how: How, command: &str) -> Replied {
    let together = Together::parse(database, &arguments[2..], (command, how), true)?;
    let scored = together.combine(database, how)?;
    store(database, arguments[1], scored)
}

/// Replaces what a key holds by these members, and tells how many there are.
pub(crate) fn store(database: &mut Database<'_>, key: &[u8], scored: Vec<Scored>) -> Replied {
    if let Some(before) = database.find_to_write(key)? {
        database.remove(key, &before)?;
    }
    let count = scored.len();
    if count > 0 {
        let mut ranking = Ranking::open(database, key)?;
        for (member, score) in scored {
            ranking.set(database, &member, None, score)?;
        }
        ranking.save(database)?;
    }
    Ok(Reply::count(count))
}

pub(crate) fn zunion(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    combine(database, arguments, How::Union, "zunion")
}

pub(crate) fn zinter(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    combine(database, arguments, How::Intersection, "zinter")
}

pub(crate) fn zdiff(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    combine(database, arguments, How::Difference, "zdiff")
}

pub(crate) fn zunionstore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    combine_into(database, arguments, How::Union, "zunionstore")
}

pub(crate) fn zinterstore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    combine_into(database, arguments, How::Intersection, "zinterstore")
}

pub(crate) fn zdiffstore(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    combine_into(database, arguments, How::Difference, "zdiffstore")
}

pub(crate) fn zintercard(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let Some(count) = integer(arguments[1]) else { return fail(text::NOT_INTEGER) };
    if count < 1 {
        return fail("ERR at least 1 input key is needed for 'zintercard' command");
    }
    let Some((keys, options)) = arguments[2..].split_at_checked(count as usize) else {
        return fail(text::SYNTAX);
    };
    check_kinds(database, keys)?;
    let limit = crate::sets::limit(options)?;
    let together = Together { keys, weights: vec![1.0; keys.len()], aggregate: sum, with_scores: false };
    Ok(Reply::count(together.combine(database, How::Intersection)?.len().min(limit)))
}
