//! Commands divided by shards: what each shard is asked, and the replies from theirs.
//!
//! | the command | what becomes of it |
//! |---|---|
//! | has its keys at one shard | that shard carries it out |
//! | can be divided: `MGET`, `MSET`, `DEL`, `DBSIZE` and their like | each shard carries out its part |
//! | has to see keys of several shards at once: `RENAME`, `BITOP` and their like; `SORT` with patterns | an interactive transaction |
//!
//! The parts of shards are one independent transaction: all of it stands at one place in the serial order, nothing is locked, and nobody can be in the way.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quorate_redis_commands::{Answer, Command, MORE, Mark, Reply, Request, Spread, slot_of};

use crate::databases::Keys;
use crate::failure::Failure;

/// A command with its words.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) command: Command,
    pub(crate) words: Vec<Bytes>,
}

impl Asked {
    /// The keys that it names.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.command.key_positions(&self.words).into_iter().filter_map(|at| self.words.get(at))
    }
}

/// A key that is watched, and what it held then.
pub(crate) type Watched = (Bytes, Mark);

/// Cursors of `SCAN` name their shard above so many bits.
const CURSOR_BITS: u32 = 51;

/// Where a reply is found: which shard, and which of its replies.
type Place = (usize, usize);

/// How a reply is made of those of shards.
#[derive(Debug)]
enum Compose {
    /// It is this one.
    Only(Place),
    /// They are added.
    Sum(Vec<Place>),
    /// They are the same, unless one of them is an error.
    Alike(Vec<Place>),
    /// Each key has one, in the array at a place.
    Each(Vec<(Place, usize)>),
    /// They are added, or put together, whichever they are.
    All(Vec<Place>),
    /// It is a page of a walk over a shard.
    Page(Place, usize),
}

/// The requests to shards, and how the replies are made.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    parts: BTreeMap<usize, Vec<Vec<Bytes>>>,
    composes: Vec<Compose>,
    writes: bool,
    shards: usize,
}

/// The command cannot be divided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Indivisible;

impl Plan {
    /// A plan of these commands.
    ///
    /// # Errors
    /// One of them has to see keys of several shards.
    pub(crate) fn of(asked: &[Asked], keys: &impl Keys) -> Result<Plan, Indivisible> {
        let mut plan = Plan { shards: keys.shards(), ..Plan::default() };
        for one in asked {
            let compose = plan.add(one, keys)?;
            plan.composes.push(compose);
            plan.writes |= one.command.writes();
        }
        Ok(plan)
    }

    /// Also asks a shard that has nothing to do but to look at what is watched.
    pub(crate) fn involve(&mut self, shard: usize) {
        self.parts.entry(shard).or_default();
    }

    /// True if it concerns one shard at most.
    pub(crate) fn is_at_one_shard(&self) -> bool {
        self.parts.len() <= 1
    }

    /// The only shard that it concerns, if each of its commands is one command there.
    pub(crate) fn only_shard(&self) -> Option<usize> {
        let (shard, _) = self.parts.first_key_value().filter(|_| self.parts.len() == 1)?;
        self.composes.iter().all(|compose| matches!(compose, Compose::Only(_))).then_some(*shard)
    }

    /// True if it may write.
    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    /// Also carries out the commands of another plan, behind its own, at the only shard of both.
    pub(crate) fn join(&mut self, other: Plan) {
        assert!(
            self.only_shard().is_some() && self.only_shard() == other.only_shard(),
            "plans of several shards are joined"
        );
        for words in other.parts.into_values().flatten() {
            let place = self.push(self.only_shard().unwrap_or_default(), words);
            self.composes.push(Compose::Only(place));
        }
        self.writes |= other.writes;
    }

    fn push(&mut self, shard: usize, words: Vec<Bytes>) -> Place {
        let part = self.parts.entry(shard).or_default();
        part.push(words);
        (shard, part.len() - 1)
    }

    fn add(&mut self, asked: &Asked, keys: &impl Keys) -> Result<Compose, Indivisible> {
        let Asked { command, words } = asked;
        let at = command.key_positions(words);
        let shards: Vec<usize> = at.iter().map(|at| keys.shard_of(slot_of(&words[*at]))).collect();
        let first = shards.first().copied().unwrap_or(0);
        let at_one = shards.iter().all(|shard| *shard == first);
        // A fault of a command is said once, by whichever shard.
        let is_sound = command.takes(words.len());
        Ok(match command.spread {
            Spread::Cursor => self.add_page(words),
            Spread::Everywhere if is_sound => {
                Compose::All((0..self.shards).map(|shard| self.push(shard, words.clone())).collect())
            }
            Spread::Anywhere if self.shards > 1 => return Err(Indivisible),
            _ if is_sound && self.shards > 1 && !command.is_confined(words) => return Err(Indivisible),
            _ if at_one || !is_sound => Compose::Only(self.push(first, words.clone())),
            Spread::Sum => Compose::Sum(self.divide(words, &at, &shards, 1).into_values().collect()),
            // A value without a key is for the command to complain of.
            Spread::Alike if words.len() % 2 == 0 => Compose::Only(self.push(first, words.clone())),
            Spread::Alike => Compose::Alike(self.divide(words, &at, &shards, 2).into_values().collect()),
            Spread::Each => {
                let places = self.divide(words, &at, &shards, 1);
                let mut next: BTreeMap<usize, usize> = BTreeMap::new();
                let each = shards.iter().filter_map(|shard| {
                    let index = next.entry(*shard).or_default();
                    *index += 1;
                    Some((*places.get(shard)?, *index - 1))
                });
                Compose::Each(each.collect())
            }
            Spread::Whole | Spread::Everywhere | Spread::Anywhere => return Err(Indivisible),
        })
    }

    /// Gives each shard its keys, with as many words each.
    fn divide(
        &mut self,
        words: &[Bytes],
        at: &[usize],
        shards: &[usize],
        width: usize,
    ) -> BTreeMap<usize, Place> {
        let mut of: BTreeMap<usize, Vec<Bytes>> = BTreeMap::new();
        for (at, shard) in at.iter().zip(shards) {
            let part = of.entry(*shard).or_insert_with(|| vec![words[0].clone()]);
            part.extend(words[*at..].iter().take(width).cloned());
        }
        of.into_iter().map(|(shard, words)| (shard, self.push(shard, words))).collect()
    }

    fn add_page(&mut self, words: &[Bytes]) -> Compose {
        let cursor = words.get(1).and_then(|word| quorate_redis_commands::cursor(word));
        // A word that is no cursor is for the command to complain of.
        let Some(cursor) = cursor else { return Compose::Only(self.push(0, words.to_vec())) };
        // Behind the last shard there is nothing, which the last position of it stands for.
        let position = |shard: usize| match shard < self.shards {
            true => (shard, cursor & ((1 << CURSOR_BITS) - 1)),
            false => (self.shards - 1, (1 << CURSOR_BITS) - 1),
        };
        let (shard, position) = position((cursor >> CURSOR_BITS) as usize);
        let mut words = words.to_vec();
        words[1] = Bytes::from(position.to_string());
        Compose::Page(self.push(shard, words), shard)
    }

    /// Has it carried out; none if something that is watched has changed.
    pub(crate) async fn run(
        self,
        keys: &impl Keys,
        watched: &[Watched],
        seed: u64,
    ) -> Result<Option<Vec<Reply>>, Failure> {
        let mut is_read_only = !self.writes;
        let replies = loop {
            let parts = self.requests(keys, watched, seed, is_read_only);
            let answers =
                if parts.is_empty() { Vec::new() } else { keys.at_shards(&parts, is_read_only).await? };
            let mut replies = BTreeMap::new();
            for ((shard, _), answer) in parts.iter().zip(&answers) {
                match decode(answer)? {
                    Decoded::Replies(of_shard) => drop(replies.insert(*shard, of_shard)),
                    Decoded::Changed => return Ok(None),
                    Decoded::Later => {}
                }
            }
            if replies.len() == parts.len() || !is_read_only {
                break replies;
            }
            // A key expires about now: an entry in the log has a time of its own.
            is_read_only = false;
        };
        Ok(Some(self.compose(replies)))
    }

    /// The request to each shard.
    fn requests(
        &self,
        keys: &impl Keys,
        watched: &[Watched],
        seed: u64,
        is_read_only: bool,
    ) -> Vec<(usize, Vec<u8>)> {
        let request = |(number, (shard, commands)): (u64, (&usize, &Vec<Vec<Bytes>>))| {
            let watched = watched.iter().filter(|(key, _)| keys.shard_of(slot_of(key)) == *shard);
            let commands = commands.iter().map(|words| words.iter().map(AsRef::as_ref).collect());
            let request = Request {
                seed: seed.wrapping_add(number),
                clock: if is_read_only { micros_now() } else { 0 },
                watched: watched.map(|(key, mark)| (key.as_ref(), *mark)).collect(),
                commands: commands.collect(),
            };
            (*shard, request.encode())
        };
        (0..).zip(&self.parts).map(request).collect()
    }

    fn compose(self, replies: BTreeMap<usize, Vec<Reply>>) -> Vec<Reply> {
        let mut replies: BTreeMap<usize, Vec<Option<Reply>>> =
            replies.into_iter().map(|(shard, of)| (shard, of.into_iter().map(Some).collect())).collect();
        let mut take = |(shard, at): Place| {
            let reply = replies.get_mut(&shard).and_then(|of| of.get_mut(at)).and_then(Option::take);
            reply.unwrap_or_else(|| Reply::error("ERR a shard has answered less than it was asked"))
        };
        let compose = |compose| match compose {
            Compose::Only(place) => take(place),
            Compose::Sum(places) | Compose::Alike(places) | Compose::All(places) => {
                places.into_iter().map(&mut take).reduce(join).unwrap_or(Reply::Integer(0))
            }
            Compose::Each(of) => {
                let mut arrays: BTreeMap<Place, Reply> = BTreeMap::new();
                for (place, _) in &of {
                    arrays.entry(*place).or_insert_with(|| take(*place));
                }
                if let Some(error) = arrays.values().find(|reply| reply.is_error()) {
                    return error.clone();
                }
                let each = of.iter().map(|(place, index)| match arrays.get_mut(place) {
                    Some(Reply::Array(array)) if *index < array.len() => {
                        std::mem::replace(&mut array[*index], Reply::Null)
                    }
                    _ => Reply::Null,
                });
                Reply::Array(each.collect())
            }
            Compose::Page(place, shard) => turn_page(take(place), shard, self.shards),
        };
        self.composes.into_iter().map(compose).collect()
    }
}

/// The clock of this process, in microseconds since the Unix epoch.
pub(crate) fn micros_now() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_micros() as u64
}

/// The meaning of an answer.
pub(crate) enum Decoded {
    /// The reply of each command.
    Replies(Vec<Reply>),
    /// Something that was watched has changed.
    Changed,
    /// A snapshot cannot tell.
    Later,
}

/// Reads an answer.
pub(crate) fn decode(answer: &[u8]) -> Result<Decoded, Failure> {
    match Answer::decode(answer) {
        Ok(Answer::Replies(replies)) => Ok(Decoded::Replies(replies)),
        Ok(Answer::Changed) => Ok(Decoded::Changed),
        Ok(Answer::Later) => Ok(Decoded::Later),
        Err(_) => Err(unreadable()),
    }
}

/// A shard has answered what this door does not know.
pub(crate) fn unreadable() -> Failure {
    Failure {
        text: "UNKNOWN the command was carried out, and its reply cannot be read: is a server newer than this door?"
            .to_owned(),
        is_too_large: false,
        is_stale: false,
    }
}

/// One reply of those of two shards.
fn join(one: Reply, other: Reply) -> Reply {
    match (one, other) {
        (error @ Reply::Error(_), _) | (_, error @ Reply::Error(_)) => error,
        (Reply::Integer(one), Reply::Integer(other)) => Reply::Integer(one + other),
        (Reply::Array(mut one), Reply::Array(mut other)) => {
            one.append(&mut other);
            Reply::Array(one)
        }
        (one, other) => {
            if one == MORE {
                one
            } else {
                other
            }
        }
    }
}

/// A page of a walk over one shard as a page of a walk over all.
fn turn_page(reply: Reply, shard: usize, shards: usize) -> Reply {
    let Reply::Array(mut page) = reply else { return reply };
    if let Some(Reply::Bulk(next)) = page.first() {
        let next: u64 = std::str::from_utf8(next).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let following = shard + usize::from(next == 0);
        let cursor = if following < shards { (following as u64) << CURSOR_BITS | next } else { 0 };
        page[0] = Reply::bulk(cursor.to_string());
    }
    Reply::Array(page)
}
