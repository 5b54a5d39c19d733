//! Trimming: `XADD` and `XTRIM` take away the first entries, beyond a length or below an id.

use quorate_procedure::Direction;

use super::{Id, Opened};
use crate::database::Database;
use crate::parse::{integer_argument, is_word};
use crate::reply::{Fail, fail, text};

/// `~` takes away so many entries together, as Redis does by default where entries are short.
const BLOCK: u64 = 100;

/// `~` takes away so many at most, unless `LIMIT` says something else.
const LIMIT: u64 = 100 * BLOCK;

/// The entries that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    /// The last entries, at most so many.
    Length(u64),
    /// Those from this id on.
    From(Id),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    keep: Keep,
    /// Blocks are taken away as a whole: at most so many entries; zero stands for all.
    blocks: Option<u64>,
}

/// The options in front of an id, or of `XTRIM`.
#[derive(Debug, Default)]
pub(super) struct Options {
    keep: Option<Keep>,
    is_about: bool,
    limit: Option<u64>,
    /// A stream that is not there is not made.
    pub(super) only_existing: bool,
}

impl Options {
    /// Reads options up to a word that is none, and tells how many words these are.
    pub(super) fn read(&mut self, words: &[&[u8]], is_append: bool) -> Result<usize, Fail> {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let more = &words[at + 1..];
            let is = |name: &str| is_word(word, name) && !more.is_empty();
            if is("MAXLEN") || is("MINID") {
                at += self.read_keep(is("MAXLEN"), more)?;
            } else if is("LIMIT") {
                match u64::try_from(integer_argument(more[0])?) {
                    Ok(limit) => self.limit = Some(limit),
                    Err(_) => return fail("ERR The LIMIT argument must be >= 0."),
                }
                at += 1;
            } else if is_append && is_word(word, "NOMKSTREAM") {
                self.only_existing = true;
            } else if is_append {
                break;
            } else {
                return fail(text::SYNTAX);
            }
            at += 1;
        }
        Ok(at)
    }

    /// Reads what is to stay, and tells how many words that takes.
    fn read_keep(&mut self, is_length: bool, words: &[&[u8]]) -> Result<usize, Fail> {
        if self.keep.is_some() {
            return fail("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
        }
        let sign = words.len() >= 2 && matches!(words[0], b"~" | b"=");
        self.is_about = sign && words[0] == b"~";
        let word = words[usize::from(sign)];
        self.keep = Some(if is_length {
            match u64::try_from(integer_argument(word)?) {
                Ok(length) => Keep::Length(length),
                Err(_) => return fail("ERR The MAXLEN argument must be >= 0."),
            }
        } else {
            Keep::From(Id::argument(word)?)
        });
        Ok(1 + usize::from(sign))
    }

    /// How they trim a stream; none if they do not.
    pub(super) fn trim(&self, is_append: bool) -> Result<Option<Trim>, Fail> {
        if self.keep.is_none() && self.limit.is_some_and(|limit| limit > 0) {
            return fail("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
        }
        if self.keep.is_none() && !is_append {
            return fail("ERR syntax error, XTRIM must be called with a trimming strategy");
        }
        if self.limit.is_some() && !self.is_about {
            return fail("ERR syntax error, LIMIT cannot be used without the special ~ option");
        }
        let blocks = self.is_about.then_some(self.limit.unwrap_or(LIMIT));
        Ok(self.keep.map(|keep| Trim { keep, blocks }))
    }
}

impl Opened<'_> {
    /// Takes entries away, and tells how many.
    pub(super) fn trim(&mut self, database: &mut Database<'_>, trim: Trim) -> Result<u64, Fail> {
        let mut trimmed = 0;
        while let Some(count) = self.first_to_go(database, trim, trimmed)? {
            let all = (Id::LEAST, Id::GREATEST);
            let entries = self.entries(database, all, count as usize, Direction::Ascending)?;
            if entries.is_empty() {
                break;
            }
            for (id, _) in &entries {
                database.store.delete(&self.entry_record(*id))?;
            }
            self.facts.length = self.facts.length.saturating_sub(entries.len() as u64);
            trimmed += entries.len() as u64;
        }
        Ok(trimmed)
    }

    /// How many of the first entries go next; none if no more do.
    fn first_to_go(
        &self,
        database: &mut Database<'_>,
        trim: Trim,
        trimmed: u64,
    ) -> Result<Option<u64>, Fail> {
        let block = BLOCK.min(self.facts.length);
        let surplus = match trim.keep {
            Keep::Length(length) => self.facts.length.saturating_sub(length).min(block),
            Keep::From(id) => match id.before() {
                Some(last) => {
                    let below = (Id::LEAST, last);
                    self.entries(database, below, block as usize, Direction::Ascending)?.len() as u64
                }
                None => 0,
            },
        };
        let Some(limit) = trim.blocks else { return Ok((surplus > 0).then_some(surplus)) };
        let is_allowed = limit == 0 || trimmed + block <= limit;
        Ok((surplus > 0 && surplus == block && is_allowed).then_some(block))
    }
}
