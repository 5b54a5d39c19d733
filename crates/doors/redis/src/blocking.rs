//! Commands that wait until there is something to take: `BLPOP` and their kin.
//!
//! Each stands for one that does not wait. It is tried at once, and again when a key that it names has been filled: through this process, which
//! rings a bell, or through another node, for which the types of the keys are looked at now and then. A client that waits holds nothing at any shard.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate_redis_commands::{Keys, Reply, find as find_command, wrong_number};
use tokio::sync::Notify;

use crate::plan::Asked;

/// A command that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocking {
    pub(crate) name: &'static str,
    arity: i32,
    /// Which of its words are keys.
    pub(crate) keys: Keys,
    /// The command that it stands for,
    stands_for: &'static str,
    /// how its words are made of those of this one,
    words: Words,
    /// the type of a key that has something to take,
    of: &'static str,
    /// and how its reply becomes that of this one.
    shape: Shape,
}

/// How the words of the command that does not wait are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    /// A number of keys, the keys, and from which end; the time-out is the last word.
    Counted(&'static str),
    /// The same words without the time-out, which is the last one.
    WithoutLast,
    /// The same words without the time-out, which is the first one.
    WithoutFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// As it is.
    Same,
    /// `[key, [element]]` becomes `[key, element]`.
    Element,
    /// `[key, [[member, score]]]` becomes `[key, member, score]`.
    Scored,
}

const KEYS: Keys = Keys::At { first: 1, last: -2, step: 1 };
const TWO: Keys = Keys::At { first: 1, last: 2, step: 1 };
const COUNTED: Keys = Keys::Counted { number: 2, also: 0 };

/// All of them.
const BLOCKING: &[Blocking] = &[
    Blocking {
        name: "blpop",
        arity: -3,
        keys: KEYS,
        stands_for: "lmpop",
        words: Words::Counted("LEFT"),
        of: "list",
        shape: Shape::Element,
    },
    Blocking {
        name: "brpop",
        arity: -3,
        keys: KEYS,
        stands_for: "lmpop",
        words: Words::Counted("RIGHT"),
        of: "list",
        shape: Shape::Element,
    },
    Blocking {
        name: "blmove",
        arity: 6,
        keys: TWO,
        stands_for: "lmove",
        words: Words::WithoutLast,
        of: "list",
        shape: Shape::Same,
    },
    Blocking {
        name: "brpoplpush",
        arity: 4,
        keys: TWO,
        stands_for: "rpoplpush",
        words: Words::WithoutLast,
        of: "list",
        shape: Shape::Same,
    },
    Blocking {
        name: "blmpop",
        arity: -5,
        keys: COUNTED,
        stands_for: "lmpop",
        words: Words::WithoutFirst,
        of: "list",
        shape: Shape::Same,
    },
    Blocking {
        name: "bzpopmin",
        arity: -3,
        keys: KEYS,
        stands_for: "zmpop",
        words: Words::Counted("MIN"),
        of: "zset",
        shape: Shape::Scored,
    },
    Blocking {
        name: "bzpopmax",
        arity: -3,
        keys: KEYS,
        stands_for: "zmpop",
        words: Words::Counted("MAX"),
        of: "zset",
        shape: Shape::Scored,
    },
    Blocking {
        name: "bzmpop",
        arity: -5,
        keys: COUNTED,
        stands_for: "zmpop",
        words: Words::WithoutFirst,
        of: "zset",
        shape: Shape::Same,
    },
];

/// The keys of a command that waits are looked at again and again, so there may be so many.
pub(crate) const KEYS_MAX: usize = 1_000;

pub(crate) fn too_many_keys() -> Reply {
    Reply::error(format!("ERR unsupported: to wait for more than {KEYS_MAX} keys"))
}

/// The command of this name.
pub(crate) fn find(name: &[u8]) -> Option<Blocking> {
    BLOCKING.iter().find(|blocking| name.eq_ignore_ascii_case(blocking.name.as_bytes())).copied()
}

/// The names of all of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BLOCKING.iter().map(|blocking| blocking.name)
}

impl Blocking {
    /// The fault of its words before it is looked at.
    pub(crate) fn check(&self, words: &[Bytes]) -> Result<(), Reply> {
        let fits = match usize::try_from(self.arity) {
            Ok(exactly) => words.len() == exactly,
            Err(_) => words.len() >= self.arity.unsigned_abs() as usize,
        };
        if fits { Ok(()) } else { Err(wrong_number(self.name)) }
    }

    /// Reads its words, which [`check`](Self::check) has counted.
    ///
    /// # Errors
    /// The reply that says what is wrong.
    pub(crate) fn read(self, words: &[Bytes]) -> Result<Wait, Reply> {
        let at = if self.words == Words::WithoutFirst { 1 } else { words.len() - 1 };
        // Redis reads the time-out behind everything else.
        let fault_before = match self.words {
            Words::WithoutFirst => self.fault(&words[2..]),
            Words::WithoutLast => self.fault_of_ends(&words[3..at]),
            Words::Counted(_) => Ok(()),
        };
        let timeout = fault_before.and_then(|()| timeout(&words[at]))?;
        let keys: Vec<Bytes> = match self.words {
            // The other one is filled, and not waited for.
            Words::WithoutLast => vec![words[1].clone()],
            Words::Counted(_) | Words::WithoutFirst => {
                self.keys.positions(words).into_iter().filter_map(|at| words.get(at).cloned()).collect()
            }
        };
        if keys.len() > KEYS_MAX {
            return Err(too_many_keys());
        }
        let name = Bytes::from_static(self.stands_for.as_bytes());
        let rest = match self.words {
            Words::Counted(end) => counted(&keys, &[Bytes::from_static(end.as_bytes())]),
            Words::WithoutLast => words[1..at].to_vec(),
            Words::WithoutFirst => words[2..].to_vec(),
        };
        let behind = match self.words {
            Words::Counted(end) => vec![Bytes::from_static(end.as_bytes())],
            Words::WithoutLast => Vec::new(),
            Words::WithoutFirst => words.get(3 + keys.len()..).unwrap_or_default().to_vec(),
        };
        let asked = self.asked(std::iter::once(name).chain(rest).collect())?;
        Ok(Wait { blocking: self, asked, keys, behind, timeout })
    }

    /// The names of ends.
    fn ends(&self) -> &'static [&'static str] {
        if self.of == "list" { &["LEFT", "RIGHT"] } else { &["MIN", "MAX"] }
    }

    /// The fault of words that have to be ends.
    fn fault_of_ends(&self, words: &[Bytes]) -> Result<(), Reply> {
        let is_end = |word: &Bytes| self.ends().iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        if words.iter().all(is_end) { Ok(()) } else { Err(Reply::error("ERR syntax error")) }
    }

    /// The fault of a number of keys, the keys, an end and perhaps a count.
    fn fault(&self, words: &[Bytes]) -> Result<(), Reply> {
        let syntax = || Reply::error("ERR syntax error");
        let positive = |word: &Bytes, name: &str| {
            // A number of C, which has a sign.
            let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
            let number = number.and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0);
            number.ok_or_else(|| Reply::error(format!("ERR {name} should be greater than 0")))
        };
        let number = positive(&words[0], "numkeys")?;
        let is = |word: &Bytes, name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match number.checked_add(1).and_then(|at| words.get(at..)) {
            Some([end, options @ ..]) if self.ends().iter().any(|name| is(end, name)) => match options {
                [] => Ok(()),
                [name, count, rest @ ..] if is(name, "COUNT") => {
                    positive(count, "count")?;
                    if rest.is_empty() { Ok(()) } else { Err(syntax()) }
                }
                _ => Err(syntax()),
            },
            _ => Err(syntax()),
        }
    }

    fn asked(&self, words: Vec<Bytes>) -> Result<Asked, Reply> {
        let command = find_command(self.stands_for.as_bytes());
        let command = command.ok_or_else(|| Reply::error(format!("ERR unsupported: {}", self.name)))?;
        Ok(Asked { command, words })
    }
}

/// A number of keys, the keys, and what comes behind them.
fn counted(keys: &[Bytes], behind: &[Bytes]) -> Vec<Bytes> {
    let number = Bytes::from(keys.len().to_string());
    std::iter::once(number).chain(keys.iter().cloned()).chain(behind.iter().cloned()).collect()
}

/// How long to wait; none for as long as it takes.
fn timeout(word: &[u8]) -> Result<Option<Duration>, Reply> {
    let seconds = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| !seconds.is_nan());
    let Some(seconds) = seconds else {
        return Err(Reply::error("ERR timeout is not a float or out of range"));
    };
    // Beyond the numbers of C it is negative for Redis.
    if seconds < 0.0 || seconds * 1_000.0 > i64::MAX as f64 {
        return Err(Reply::error("ERR timeout is negative"));
    }
    // Redis waits for whole milliseconds, and for the next one where there is a part of one.
    let millis = (seconds * 1_000.0).ceil() as u64;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

/// A command that waits for keys, as one client has sent it.
pub(crate) trait Waits {
    /// The keys that it waits for.
    fn keys(&self) -> &[Bytes];

    /// How long it waits; none for as long as it takes.
    fn timeout(&self) -> Option<Duration>;

    /// The command that does not wait, over all keys.
    fn asked(&self) -> &Asked;

    /// A question that only reads: whether there is something at a key.
    fn question(&self, at: usize) -> Option<Asked>;

    /// True if this is the answer that there is.
    fn is_yes(&self, answer: &Reply) -> bool;

    /// The command that does not wait, for one of the keys.
    fn asked_of(&self, at: usize) -> Asked;

    /// The reply, made of that of the command which does not wait; none if there was nothing.
    fn reply(&self, reply: Reply) -> Option<Reply>;
}

/// A command that waits for something to take, with its words.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    blocking: Blocking,
    /// The command that does not wait, over all keys.
    pub(crate) asked: Asked,
    keys: Vec<Bytes>,
    /// The words behind the keys.
    behind: Vec<Bytes>,
    timeout: Option<Duration>,
}

impl Waits for Wait {
    fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The type of the key: of another type it is passed over, as Redis passes it over once a client waits.
    fn question(&self, at: usize) -> Option<Asked> {
        const TYPE: &[u8] = b"type";
        Some(Asked {
            command: find_command(TYPE)?,
            words: vec![Bytes::from_static(TYPE), self.keys.get(at)?.clone()],
        })
    }

    fn is_yes(&self, answer: &Reply) -> bool {
        matches!(answer, Reply::Simple(of) if *of == self.blocking.of)
    }

    fn asked_of(&self, at: usize) -> Asked {
        if self.blocking.words == Words::WithoutLast {
            return self.asked.clone();
        }
        let name = self.asked.words[0].clone();
        let words = std::iter::once(name).chain(counted(&self.keys[at..=at], &self.behind)).collect();
        Asked { command: self.asked.command, words }
    }

    fn reply(&self, reply: Reply) -> Option<Reply> {
        match (self.blocking.shape, reply) {
            (_, Reply::Null | Reply::NullArray) => None,
            (Shape::Element, Reply::Array(mut parts)) => match parts.pop() {
                Some(Reply::Array(elements)) => {
                    Some(Reply::Array(parts.into_iter().chain(elements).collect()))
                }
                other => Some(Reply::Array(parts.into_iter().chain(other).collect())),
            },
            (Shape::Scored, Reply::Array(mut parts)) => match parts.pop() {
                Some(Reply::Array(members)) => {
                    let flat = members.into_iter().flat_map(|member| match member {
                        Reply::Array(scored) => scored,
                        other => vec![other],
                    });
                    Some(Reply::Array(parts.into_iter().chain(flat).collect()))
                }
                other => Some(Reply::Array(parts.into_iter().chain(other).collect())),
            },
            (_, reply) => Some(reply),
        }
    }
}

impl Wait {
    /// The reply within a transaction, which does not wait.
    pub(crate) fn reply_at_once(&self, reply: Reply) -> Reply {
        let nothing = if self.blocking.words == Words::WithoutLast { Reply::Null } else { Reply::NullArray };
        self.reply(reply).unwrap_or(nothing)
    }
}

/// A key of a database.
type Place = (usize, Bytes);

/// Clients of this process that wait for keys.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    /// How many there are, so that a write does not look for them in vain.
    waiting: AtomicUsize,
    next: AtomicU64,
    places: Mutex<BTreeMap<Place, BTreeMap<u64, Arc<Notify>>>>,
}

impl Bells {
    fn places(&self) -> MutexGuard<'_, BTreeMap<Place, BTreeMap<u64, Arc<Notify>>>> {
        // Nothing panics while it is held.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for keys from now on, until it is dropped.
    pub(crate) fn listen(&self, number: usize, keys: &[Bytes]) -> Listener<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let bell = Arc::new(Notify::new());
        let at: Vec<Place> = keys.iter().map(|key| (number, Bytes::copy_from_slice(key))).collect();
        let mut places = self.places();
        for place in &at {
            places.entry(place.clone()).or_default().insert(id, Arc::clone(&bell));
        }
        self.waiting.fetch_add(1, Ordering::Release);
        Listener { bells: self, id, at, bell }
    }

    /// Commands have been carried out: clients that wait for a key that they may have filled look again.
    pub(crate) fn ring<'a>(&self, number: usize, asked: impl IntoIterator<Item = &'a Asked>) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let written = asked.into_iter().filter(|one| one.command.writes());
        self.ring_for(number, written.flat_map(Asked::keys));
    }

    /// These keys may have been filled: clients that wait for one look again.
    pub(crate) fn ring_for<'a>(&self, number: usize, keys: impl IntoIterator<Item = &'a Bytes>) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let places = self.places();
        for key in keys {
            for bell in places.get(&(number, key.clone())).into_iter().flatten() {
                bell.1.notify_one();
            }
        }
    }
}

/// One client that waits.
#[derive(Debug)]
pub(crate) struct Listener<'a> {
    bells: &'a Bells,
    id: u64,
    at: Vec<Place>,
    bell: Arc<Notify>,
}

impl Listener<'_> {
    /// Ends when a key has been written to since it was last awaited.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut places = self.bells.places();
        for place in &self.at {
            if let Some(bells) = places.get_mut(place) {
                bells.remove(&self.id);
                if bells.is_empty() {
                    places.remove(place);
                }
            }
        }
        self.bells.waiting.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Bytes> {
        text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    fn read(text: &str) -> Result<Wait, Reply> {
        let words = words(text);
        let blocking = find(&words[0]).unwrap();
        blocking.check(&words)?;
        blocking.read(&words)
    }

    fn bulk(text: &str) -> Reply {
        Reply::bulk(text)
    }

    #[test]
    fn each_stands_for_a_command_that_does_not_wait() {
        for (text, stands_for, of_key, keys) in [
            ("BLPOP a b 1.5", "lmpop 2 a b LEFT", "lmpop 1 b LEFT", "a b"),
            ("brpop b 0", "lmpop 1 b RIGHT", "lmpop 1 b RIGHT", "b"),
            ("blmove b d LEFT RIGHT 1", "lmove b d LEFT RIGHT", "lmove b d LEFT RIGHT", "b"),
            ("brpoplpush b d 1", "rpoplpush b d", "rpoplpush b d", "b"),
            ("blmpop 1 2 a b LEFT COUNT 3", "lmpop 2 a b LEFT COUNT 3", "lmpop 1 b LEFT COUNT 3", "a b"),
            ("bzpopmin a b 1", "zmpop 2 a b MIN", "zmpop 1 b MIN", "a b"),
            ("bzpopmax b 1", "zmpop 1 b MAX", "zmpop 1 b MAX", "b"),
            ("bzmpop 1 1 b MAX", "zmpop 1 b MAX", "zmpop 1 b MAX", "b"),
        ] {
            let wait = read(text).unwrap();
            assert_eq!(wait.asked.words, words(stands_for), "{text}");
            let at = wait.keys.iter().position(|key| key == "b").unwrap();
            assert_eq!(wait.asked_of(at).words, words(of_key), "{text}");
            assert_eq!(wait.question(at).unwrap().words, words("type b"), "{text}");
            assert_eq!(wait.keys, words(keys), "{text}");
        }
    }

    #[test]
    fn timeouts_are_read_as_redis_reads_them() {
        let of = |text: &str| timeout(text.as_bytes());
        assert_eq!(of("0"), Ok(None));
        assert_eq!(of("1.5"), Ok(Some(Duration::from_millis(1_500))));
        assert_eq!(of("0.0001"), Ok(Some(Duration::from_millis(1))));
        for (text, told) in [
            ("-1", "negative"),
            ("x", "not a float"),
            ("nan", "not a float"),
            ("1e300", "negative"),
            ("inf", "negative"),
        ] {
            assert!(matches!(of(text), Err(Reply::Error(error)) if error.contains(told)), "{text}");
        }
        let error = |text: &str| match read(text) {
            Err(Reply::Error(error)) => error,
            other => panic!("{text}: {other:?}"),
        };
        for number in ["0", "-1", "9223372036854775808", "x"] {
            let line = format!("blmpop x {number} a LEFT");
            assert_eq!(error(&line), "ERR numkeys should be greater than 0", "{number}");
        }
        assert_eq!(error("blmove a b LEFT nothing x"), "ERR syntax error", "ends are read before the time");
        for wrong in
            ["blmpop x 1 a MIN", "blmpop x 2 a LEFT", "bzmpop x 1 a MIN COUNT", "bzmpop x 1 a MIN COUNT 1 y"]
        {
            assert_eq!(error(wrong), "ERR syntax error", "{wrong}");
        }
        assert_eq!(error("bzmpop x 1 a MIN COUNT 0"), "ERR count should be greater than 0");
        assert_eq!(error("bzmpop x 1 a MIN count 1"), "ERR timeout is not a float or out of range");
        assert!(read("blpop a").is_err() && read("blpop a b").is_err());
        let many = format!("blpop {} 1", vec!["k"; KEYS_MAX + 1].join(" "));
        assert!(matches!(read(&many), Err(Reply::Error(error)) if error.contains("unsupported")));
    }

    #[test]
    fn replies_say_from_which_key() {
        let popped = |elements| Reply::Array(vec![bulk("a"), Reply::Array(elements)]);
        let wait = read("blpop a 1").unwrap();
        assert_eq!(wait.reply(popped(vec![bulk("1")])), Some(Reply::Array(vec![bulk("a"), bulk("1")])));
        assert_eq!(wait.reply(Reply::NullArray), None);
        assert_eq!(wait.reply_at_once(Reply::Null), Reply::NullArray);
        let wait = read("bzpopmin a 1").unwrap();
        let scored = Reply::Array(vec![bulk("m"), bulk("2")]);
        let flat = Reply::Array(vec![bulk("a"), bulk("m"), bulk("2")]);
        assert_eq!(wait.reply(popped(vec![scored])), Some(flat));
        let wait = read("blmove a b LEFT LEFT 1").unwrap();
        assert_eq!(wait.reply(bulk("x")), Some(bulk("x")));
        assert_eq!(wait.reply_at_once(Reply::Null), Reply::Null);
        assert!(wait.is_yes(&Reply::Simple("list".into())) && !wait.is_yes(&Reply::Simple("zset".into())));
    }

    #[tokio::test]
    async fn a_write_rings_for_the_clients_that_wait_for_its_key() {
        let bells = Bells::default();
        let push = |key: &str| {
            let words = words(&format!("lpush {key} 1"));
            Asked { command: find_command(&words[0]).unwrap(), words }
        };
        let listener = bells.listen(0, &words("a b"));
        let is_rung = async |listener: &Listener<'_>| {
            tokio::time::timeout(Duration::from_millis(20), listener.rung()).await.is_ok()
        };
        bells.ring(0, [&push("c")]);
        bells.ring(1, [&push("a")]);
        assert!(!is_rung(&listener).await, "another key, another database");
        bells.ring(0, [&push("b")]);
        assert!(is_rung(&listener).await, "a ring before it is awaited is not lost");
        assert!(!is_rung(&listener).await);
        drop(listener);
        assert!(bells.places().is_empty() && bells.waiting.load(Ordering::Relaxed) == 0);
    }
}
