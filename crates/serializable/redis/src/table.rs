//! The commands that run at shards: their names, how many arguments they take, which of these are keys, and how they are divided by shards.

use crate::database::Database;
use crate::reply::Replied;
use crate::streams::{administration, claims, entries, info, reading};
use crate::{
    bits, dump, expiry, geo, hashes, hyperloglog, keys, lists, ranges, scan, sets, sort, sorted_sets,
    strings, sweep,
};

/// A command.
#[derive(Clone, Copy)]
pub struct Command {
    /// Its name, in small letters.
    pub name: &'static str,
    /// How many words it has with its name; if negative, at least so many.
    pub arity: i32,
    /// Whether it may write.
    pub access: Access,
    /// Which of its arguments are keys.
    pub keys: Keys,
    /// How it is divided where its keys lie at several shards.
    pub spread: Spread,
    pub(crate) run: fn(&mut Database<'_>, &[&[u8]]) -> Replied,
}

impl Command {
    /// True if it may reply [`MORE`](crate::MORE), and then has to be called again before any command behind it is carried out: these would be undone.
    pub fn may_take_several_transactions(&self, words: &[impl AsRef<[u8]>]) -> bool {
        match self.name {
            "flushall" | "flushdb" => true,
            "xgroup" => words.get(1).is_some_and(|word| word.as_ref().eq_ignore_ascii_case(b"destroy")),
            _ => false,
        }
    }

    /// True if it leaves no more behind than was there, so that it is carried out where memory is short: the commands that Redis does not refuse then.
    pub fn frees(&self) -> bool {
        self.access == Access::Read
            || matches!(
                self.name,
                "del"
                    | "unlink"
                    | "getdel"
                    | "rename"
                    | "renamenx"
                    | "\0sweep"
                    | "flushall"
                    | "flushdb"
                    | "expire"
                    | "pexpire"
                    | "expireat"
                    | "pexpireat"
                    | "persist"
                    | "lpop"
                    | "rpop"
                    | "lmpop"
                    | "lrem"
                    | "ltrim"
                    | "hdel"
                    | "srem"
                    | "smove"
                    | "spop"
                    | "zrem"
                    | "zpopmin"
                    | "zpopmax"
                    | "zmpop"
                    | "zremrangebyrank"
                    | "zremrangebyscore"
                    | "zremrangebylex"
                    | "xdel"
                    | "xtrim"
                    | "xack"
            )
    }

    /// True if it concerns one key, and reads and writes a few records at most: other commands may well wait for it.
    pub fn is_brief(&self) -> bool {
        let is_brief = matches!(
            self.name,
            "get"
                | "set"
                | "setnx"
                | "setex"
                | "psetex"
                | "getset"
                | "getdel"
                | "getex"
                | "append"
                | "strlen"
                | "incr"
                | "decr"
                | "incrby"
                | "decrby"
                | "incrbyfloat"
                | "setbit"
                | "getbit"
                | "type"
                | "expire"
                | "pexpire"
                | "expireat"
                | "pexpireat"
                | "ttl"
                | "pttl"
                | "expiretime"
                | "pexpiretime"
                | "persist"
                | "hset"
                | "hsetnx"
                | "hget"
                | "hmget"
                | "hdel"
                | "hlen"
                | "hexists"
                | "hstrlen"
                | "hincrby"
                | "hincrbyfloat"
                | "lpush"
                | "rpush"
                | "lpushx"
                | "rpushx"
                | "llen"
                | "sadd"
                | "srem"
                | "sismember"
                | "smismember"
                | "scard"
                | "zadd"
                | "zrem"
                | "zincrby"
                | "zscore"
                | "zmscore"
                | "zcard"
                | "xlen"
        );
        assert!(!is_brief || self.keys == ONE, "{self:?} is brief, and concerns more than one key");
        is_brief
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Command").field(&self.name).finish()
    }
}

/// Whether a command may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads.
    Read,
    /// It may write.
    Write,
}

/// Which arguments of a command are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// None.
    No,
    /// Those from the first position to the last one, which counts from the end if it is negative, in steps.
    At {
        /// The position of the first.
        first: usize,
        /// The position of the last.
        last: i32,
        /// From one to the next.
        step: usize,
    },
    /// As many as the argument at this position says, behind it.
    Counted {
        /// The position of the number.
        number: usize,
        /// The position of one more key, or zero.
        also: usize,
    },
    /// The first argument, and the one behind the last of these words, if one of them is there.
    FirstAndBehind(&'static Behind),
    /// Half of those behind the word `STREAMS`.
    Streams,
}

/// Words behind which a key stands.
#[derive(Debug, PartialEq, Eq)]
pub struct Behind {
    /// These words.
    pub words: &'static [&'static str],
    /// The position of the first argument that may be one.
    pub from: usize,
    /// Words behind which so many arguments are none.
    pub skipped: &'static [(&'static str, usize)],
}

/// How a command is divided whose keys lie at several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Not: it has to see all its keys.
    Whole,
    /// Each shard replies a number for its keys, and the reply is their sum.
    Sum,
    /// Each key has a reply of its own.
    Each,
    /// Each shard does its part, and they reply `OK` alike.
    Alike,
    /// It concerns all shards: their replies are added, or put together.
    Everywhere,
    /// Any shard answers: others are asked if it replies nothing.
    Anywhere,
    /// Its cursor says which shard.
    Cursor,
}

/// True if this is the number of words that an arity asks for.
pub(crate) fn fits(arity: i32, words: usize) -> bool {
    match usize::try_from(arity) {
        Ok(exactly) => words == exactly,
        Err(_) => words >= arity.unsigned_abs() as usize,
    }
}

impl Command {
    /// True if it takes so many words, its name included.
    pub fn takes(&self, words: usize) -> bool {
        fits(self.arity, words)
    }

    /// True if it may write.
    pub fn writes(&self) -> bool {
        self.access == Access::Write
    }

    /// True if these words tell all keys that it touches, or at least their slots. `SORT` may have patterns that name others.
    pub fn is_confined(&self, words: &[impl AsRef<[u8]>]) -> bool {
        !matches!(self.name, "sort" | "sort_ro") || sort::is_confined(words)
    }

    /// The positions of its keys among these words. A word that is no number of keys stands for none: the command says what is wrong.
    pub fn key_positions(&self, words: &[impl AsRef<[u8]>]) -> Vec<usize> {
        self.keys.positions(words)
    }
}

impl Keys {
    /// The positions of keys among these words.
    pub fn positions(self, words: &[impl AsRef<[u8]>]) -> Vec<usize> {
        match self {
            Keys::No => Vec::new(),
            Keys::At { first, last, step } => {
                let last = if last < 0 { words.len() as i64 + i64::from(last) } else { i64::from(last) };
                (first..words.len()).step_by(step).take_while(|at| *at as i64 <= last).collect()
            }
            Keys::Counted { number, also } => {
                let count = words.get(number).and_then(|word| crate::parse::integer(word.as_ref()));
                let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
                let counted = number + 1..number.saturating_add(1).saturating_add(count).min(words.len());
                (also > 0).then_some(also).into_iter().chain(counted).collect()
            }
            Keys::Streams => crate::streams::reading::key_positions(words).collect(),
            Keys::FirstAndBehind(Behind { words: names, from, skipped }) => {
                let (mut at, mut last) = (*from, None);
                while let Some(word) = words.get(at) {
                    let is = |name: &&str| crate::parse::is_word(word.as_ref(), name);
                    if names.iter().any(&is) && at + 1 < words.len() {
                        at += 1;
                        last = Some(at);
                    } else {
                        at += skipped.iter().find(|(name, _)| is(name)).map_or(0, |(_, count)| *count);
                    }
                    at += 1;
                }
                (words.len() > 1).then_some(1).into_iter().chain(last).collect()
            }
        }
    }
}

const NONE: Keys = Keys::No;
const ONE: Keys = Keys::At { first: 1, last: 1, step: 1 };
const TWO: Keys = Keys::At { first: 1, last: 2, step: 1 };
const SECOND: Keys = Keys::At { first: 2, last: 2, step: 1 };
const ALL: Keys = Keys::At { first: 1, last: -1, step: 1 };
const FROM_SECOND: Keys = Keys::At { first: 2, last: -1, step: 1 };
const COUNTED: Keys = Keys::Counted { number: 1, also: 0 };
const ONE_AND_COUNTED: Keys = Keys::Counted { number: 2, also: 1 };
const ONE_AND_STORED: Keys =
    Keys::FirstAndBehind(&Behind { words: &["STORE", "STOREDIST"], from: 5, skipped: &[] });
const SORTED: Keys = Keys::FirstAndBehind(&Behind { words: &["STORE"], from: 2, skipped: sort::SKIPPED });
const STREAMS: Keys = Keys::Streams;
const EVERY_OTHER: Keys = Keys::At { first: 1, last: -1, step: 2 };

macro_rules! commands {
    ($($name:literal $arity:literal $access:ident $keys:ident $spread:ident $run:path;)*) => {
        /// All commands, by family.
        pub const COMMANDS: &[Command] = &[$(
            Command { name: $name, arity: $arity, access: Access::$access, keys: $keys, spread: Spread::$spread, run: $run },
        )*];

        /// The command of this name, in small letters.
        fn named(name: &str) -> Option<Command> {
            Some(match name {
                $($name => Command {
                    name: $name, arity: $arity, access: Access::$access, keys: $keys, spread: Spread::$spread, run: $run,
                },)*
                _ => return None,
            })
        }
    };
}

/// The command of this name, in letters of either case.
pub fn find(name: &[u8]) -> Option<Command> {
    const NAME_BYTES_MAX: usize = 24;
    let mut small = [0; NAME_BYTES_MAX];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    named(std::str::from_utf8(small).ok()?)
}

/// The command of a transaction that watches keys: no client can send this name.
pub const MARK: &str = "\0mark";

/// The command of a client that waits for entries, about the last id of a stream,
pub const LAST: &str = "\0last";

/// and about whether a group has something to read.
pub const UNREAD: &str = "\0unread";

/// The command of a sweeper about a page of keys,
pub const DUE: &str = "\0due";

/// and has done there.
pub const SWEEP: &str = "\0sweep";

impl Command {
    /// True if doors alone ask for it, and no client.
    pub fn is_internal(&self) -> bool {
        self.name.starts_with('\0')
    }
}

// Name, arity, access, keys, spread, code.
commands! {
    "get" 2 Read ONE Whole strings::get;
    "set" -3 Write ONE Whole strings::set;
    "setnx" 3 Write ONE Whole strings::setnx;
    "setex" 4 Write ONE Whole strings::setex;
    "psetex" 4 Write ONE Whole strings::psetex;
    "mget" -2 Read ALL Each strings::mget;
    "mset" -3 Write EVERY_OTHER Alike strings::mset;
    "msetnx" -3 Write EVERY_OTHER Whole strings::msetnx;
    "getset" 3 Write ONE Whole strings::getset;
    "getdel" 2 Write ONE Whole strings::getdel;
    "getex" -2 Write ONE Whole strings::getex;
    "append" 3 Write ONE Whole strings::append;
    "strlen" 2 Read ONE Whole strings::strlen;
    "incr" 2 Write ONE Whole strings::incr;
    "decr" 2 Write ONE Whole strings::decr;
    "incrby" 3 Write ONE Whole strings::incrby;
    "decrby" 3 Write ONE Whole strings::decrby;
    "incrbyfloat" 3 Write ONE Whole strings::incrbyfloat;
    "setrange" 4 Write ONE Whole strings::setrange;
    "getrange" 4 Read ONE Whole strings::getrange;
    "substr" 4 Read ONE Whole strings::getrange;
    "lcs" -3 Read TWO Whole strings::lcs;

    "setbit" 4 Write ONE Whole bits::setbit;
    "getbit" 3 Read ONE Whole bits::getbit;
    "bitcount" -2 Read ONE Whole bits::bitcount;
    "bitpos" -3 Read ONE Whole bits::bitpos;
    "bitop" -4 Write FROM_SECOND Whole bits::bitop;
    "bitfield" -2 Write ONE Whole bits::bitfield;
    "bitfield_ro" -2 Read ONE Whole bits::bitfield_ro;

    "del" -2 Write ALL Sum keys::del;
    "unlink" -2 Write ALL Sum keys::del;
    "exists" -2 Read ALL Sum keys::exists;
    "touch" -2 Read ALL Sum keys::exists;
    "type" 2 Read ONE Whole keys::type_of;
    "rename" 3 Write TWO Whole keys::rename;
    "renamenx" 3 Write TWO Whole keys::renamenx;
    "copy" -3 Write TWO Whole keys::copy;
    "object" -2 Read SECOND Whole keys::object;
    "dump" 2 Read ONE Whole dump::dump;
    "restore" -4 Write ONE Whole dump::restore;
    "\0mark" -2 Read ALL Each keys::mark;
    "\0last" 2 Read ONE Whole entries::last;
    "\0unread" -7 Read STREAMS Whole reading::unread;
    "\0due" 2 Read NONE Cursor sweep::due;
    "\0sweep" 2 Write NONE Cursor sweep::sweep;

    "expire" -3 Write ONE Whole expiry::expire;
    "pexpire" -3 Write ONE Whole expiry::pexpire;
    "expireat" -3 Write ONE Whole expiry::expireat;
    "pexpireat" -3 Write ONE Whole expiry::pexpireat;
    "ttl" 2 Read ONE Whole expiry::ttl;
    "pttl" 2 Read ONE Whole expiry::pttl;
    "expiretime" 2 Read ONE Whole expiry::expiretime;
    "pexpiretime" 2 Read ONE Whole expiry::pexpiretime;
    "persist" 2 Write ONE Whole expiry::persist;

    "scan" -2 Read NONE Cursor scan::scan;
    "keys" 2 Read NONE Everywhere scan::keys;
    "dbsize" 1 Read NONE Everywhere scan::dbsize;
    "randomkey" 1 Read NONE Anywhere scan::randomkey;
    "flushdb" -1 Write NONE Everywhere scan::flush;
    "flushall" -1 Write NONE Everywhere scan::flush;

    "hset" -4 Write ONE Whole hashes::hset;
    "hmset" -4 Write ONE Whole hashes::hmset;
    "hsetnx" 4 Write ONE Whole hashes::hsetnx;
    "hget" 3 Read ONE Whole hashes::hget;
    "hmget" -3 Read ONE Whole hashes::hmget;
    "hdel" -3 Write ONE Whole hashes::hdel;
    "hlen" 2 Read ONE Whole hashes::hlen;
    "hexists" 3 Read ONE Whole hashes::hexists;
    "hstrlen" 3 Read ONE Whole hashes::hstrlen;
    "hgetall" 2 Read ONE Whole hashes::hgetall;
    "hkeys" 2 Read ONE Whole hashes::hkeys;
    "hvals" 2 Read ONE Whole hashes::hvals;
    "hincrby" 4 Write ONE Whole hashes::hincrby;
    "hincrbyfloat" 4 Write ONE Whole hashes::hincrbyfloat;
    "hscan" -3 Read ONE Whole hashes::hscan;
    "hrandfield" -2 Read ONE Whole hashes::hrandfield;

    "lpush" -3 Write ONE Whole lists::lpush;
    "rpush" -3 Write ONE Whole lists::rpush;
    "lpushx" -3 Write ONE Whole lists::lpushx;
    "rpushx" -3 Write ONE Whole lists::rpushx;
    "lpop" -2 Write ONE Whole lists::lpop;
    "rpop" -2 Write ONE Whole lists::rpop;
    "llen" 2 Read ONE Whole lists::llen;
    "lindex" 3 Read ONE Whole lists::lindex;
    "lset" 4 Write ONE Whole lists::lset;
    "lrange" 4 Read ONE Whole lists::lrange;
    "ltrim" 4 Write ONE Whole lists::ltrim;
    "lrem" 4 Write ONE Whole lists::lrem;
    "linsert" 5 Write ONE Whole lists::linsert;
    "lpos" -3 Read ONE Whole lists::lpos;
    "lmove" 5 Write TWO Whole lists::lmove;
    "rpoplpush" 3 Write TWO Whole lists::rpoplpush;
    "lmpop" -4 Write COUNTED Whole lists::lmpop;

    "sadd" -3 Write ONE Whole sets::sadd;
    "srem" -3 Write ONE Whole sets::srem;
    "scard" 2 Read ONE Whole sets::scard;
    "smembers" 2 Read ONE Whole sets::smembers;
    "sismember" 3 Read ONE Whole sets::sismember;
    "smismember" -3 Read ONE Whole sets::smismember;
    "smove" 4 Write TWO Whole sets::smove;
    "spop" -2 Write ONE Whole sets::spop;
    "srandmember" -2 Read ONE Whole sets::srandmember;
    "sinter" -2 Read ALL Whole sets::sinter;
    "sunion" -2 Read ALL Whole sets::sunion;
    "sdiff" -2 Read ALL Whole sets::sdiff;
    "sinterstore" -3 Write ALL Whole sets::sinterstore;
    "sunionstore" -3 Write ALL Whole sets::sunionstore;
    "sdiffstore" -3 Write ALL Whole sets::sdiffstore;
    "sintercard" -3 Read COUNTED Whole sets::sintercard;
    "sscan" -3 Read ONE Whole sets::sscan;

    "zadd" -4 Write ONE Whole sorted_sets::zadd;
    "zincrby" 4 Write ONE Whole sorted_sets::zincrby;
    "zrem" -3 Write ONE Whole sorted_sets::zrem;
    "zcard" 2 Read ONE Whole sorted_sets::zcard;
    "zscore" 3 Read ONE Whole sorted_sets::zscore;
    "zmscore" -3 Read ONE Whole sorted_sets::zmscore;
    "zrank" 3 Read ONE Whole sorted_sets::zrank;
    "zrevrank" 3 Read ONE Whole sorted_sets::zrevrank;
    "zpopmin" -2 Write ONE Whole sorted_sets::zpopmin;
    "zpopmax" -2 Write ONE Whole sorted_sets::zpopmax;
    "zmpop" -4 Write COUNTED Whole sorted_sets::zmpop;
    "zrandmember" -2 Read ONE Whole sorted_sets::zrandmember;
    "zscan" -3 Read ONE Whole sorted_sets::zscan;
    "zunion" -3 Read COUNTED Whole sorted_sets::zunion;
    "zinter" -3 Read COUNTED Whole sorted_sets::zinter;
    "zdiff" -3 Read COUNTED Whole sorted_sets::zdiff;
    "zunionstore" -4 Write ONE_AND_COUNTED Whole sorted_sets::zunionstore;
    "zinterstore" -4 Write ONE_AND_COUNTED Whole sorted_sets::zinterstore;
    "zdiffstore" -4 Write ONE_AND_COUNTED Whole sorted_sets::zdiffstore;
    "zintercard" -3 Read COUNTED Whole sorted_sets::zintercard;

    "zrange" -4 Read ONE Whole ranges::zrange;
    "zrangestore" -5 Write TWO Whole ranges::zrangestore;
    "zrevrange" -4 Read ONE Whole ranges::zrevrange;
    "zrangebyscore" -4 Read ONE Whole ranges::zrangebyscore;
    "zrevrangebyscore" -4 Read ONE Whole ranges::zrevrangebyscore;
    "zrangebylex" -4 Read ONE Whole ranges::zrangebylex;
    "zrevrangebylex" -4 Read ONE Whole ranges::zrevrangebylex;
    "zcount" 4 Read ONE Whole ranges::zcount;
    "zlexcount" 4 Read ONE Whole ranges::zlexcount;
    "zremrangebyrank" 4 Write ONE Whole ranges::zremrangebyrank;
    "zremrangebyscore" 4 Write ONE Whole ranges::zremrangebyscore;
    "zremrangebylex" 4 Write ONE Whole ranges::zremrangebylex;

    "geoadd" -5 Write ONE Whole geo::geoadd;
    "geopos" -2 Read ONE Whole geo::geopos;
    "geohash" -2 Read ONE Whole geo::geohash;
    "geodist" -4 Read ONE Whole geo::geodist;
    "georadius" -6 Write ONE_AND_STORED Whole geo::georadius;
    "georadius_ro" -6 Read ONE Whole geo::georadius_ro;
    "georadiusbymember" -5 Write ONE_AND_STORED Whole geo::georadiusbymember;
    "georadiusbymember_ro" -5 Read ONE Whole geo::georadiusbymember_ro;
    "geosearch" -7 Read ONE Whole geo::geosearch;
    "geosearchstore" -8 Write TWO Whole geo::geosearchstore;

    "xadd" -5 Write ONE Whole entries::xadd;
    "xlen" 2 Read ONE Whole entries::xlen;
    "xrange" -4 Read ONE Whole entries::xrange;
    "xrevrange" -4 Read ONE Whole entries::xrevrange;
    "xdel" -3 Write ONE Whole entries::xdel;
    "xtrim" -4 Write ONE Whole entries::xtrim;
    "xsetid" -3 Write ONE Whole entries::xsetid;
    "xread" -4 Read STREAMS Whole reading::xread;
    "xreadgroup" -7 Write STREAMS Whole reading::xreadgroup;
    "xgroup" -2 Write SECOND Whole administration::xgroup;
    "xack" -4 Write ONE Whole administration::xack;
    "xpending" -3 Read ONE Whole administration::xpending;
    "xclaim" -6 Write ONE Whole claims::xclaim;
    "xautoclaim" -6 Write ONE Whole claims::xautoclaim;
    "xinfo" -2 Read SECOND Whole info::xinfo;

    "pfadd" -2 Write ONE Whole hyperloglog::pfadd;
    "pfcount" -2 Read ALL Whole hyperloglog::pfcount;
    "pfmerge" -2 Write ALL Whole hyperloglog::pfmerge;

    "sort" -2 Write SORTED Whole sort::sort;
    "sort_ro" -2 Read ONE Whole sort::sort_ro;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Commands, Request};
    use quorate_procedure::Procedure;

    #[test]
    fn what_deletes_or_only_reads_is_carried_out_where_memory_is_short() {
        let frees: Vec<_> = COMMANDS.iter().filter(|command| command.frees()).collect();
        assert!(
            frees.iter().filter(|command| command.access == Access::Write).count() == 32,
            "a name is wrong"
        );
        for (words, is_free) in [
            (&["get"][..], true),
            (&["DEL"], true),
            (&["del", "hdel", "mget"], true),
            (&["del", "set"], false),
            (&["append"], false),
            (&["nothing"], true),
        ] {
            let commands = words.iter().map(|name| vec![name.as_bytes(), b"a"]).collect();
            let request = Request { commands, ..Request::default() };
            assert_eq!(Commands.frees(&request.encode()), is_free, "{words:?}");
        }
        assert!(Commands.frees(b"no request"), "it is refused with a reason");
    }

    #[test]
    fn commands_are_found_by_name_and_know_their_keys() {
        for command in COMMANDS {
            assert_eq!(
                find(command.name.to_uppercase().as_bytes()).map(|found| found.name),
                Some(command.name)
            );
        }
        assert!(find(b"nothing").is_none() && find(&[b'x'; 100]).is_none() && find(b"\xff").is_none());
        let keys = |words: &[&str]| find(words[0].as_bytes()).map(|found| found.key_positions(words));
        assert_eq!(keys(&["mset", "a", "1", "b", "2"]), Some(vec![1, 3]));
        assert_eq!(keys(&["del", "a", "b"]), Some(vec![1, 2]));
        assert_eq!(keys(&["bitop", "and", "d", "s"]), Some(vec![2, 3]));
        assert_eq!(keys(&["scan", "0"]), Some(vec![]));
        assert_eq!(keys(&["xread", "count", "2", "streams", "a", "b", "1", "2"]), Some(vec![4, 5]));
        assert_eq!(keys(&["xread", "count", "streams"]), Some(vec![]));
        let radius = ["georadius", "a", "0", "0", "1", "m"];
        assert_eq!(keys(&radius), Some(vec![1]));
        assert_eq!(
            keys(&[&radius[..], &["STORE", "b", "asc", "storedist", "c"]].concat()),
            Some(vec![1, 10])
        );
        assert_eq!(keys(&[&radius[..], &["store"]].concat()), Some(vec![1]), "nothing is behind it");
    }
}
