//! How scripts write questions and answers, and what they hold.
//!
//! | words | meaning |
//! |---|---|
//! | `#3` | the number of a question |
//! | `5`, `5.2`, `c8/5` | a transaction of the client that speaks; its third attempt; one of another client |
//! | `1`, `c8/1` | a lease of the client that speaks; one of another |
//! | `a=x`, `a=x/1`, `-a` | what is written: a value, one that is bound to a lease, a delete |
//! | `?a@4`, `?a`, `?b..d=2`, `?b..d=2@5` | conditions: a key was last changed by a write, is absent; so many keys live in a range, and none has changed since |
//! | `a=x@4`, `a=x@4/1`, `a` | what a key holds; under a lease; nothing |
//! | `b..d`, `b..` | a range |
//! | `EMPTY`, `LONG` | a key that is none, and the shortest that is too long |
//! | `HUGE` | the shortest value that is too large for a transaction |

use std::sync::Arc;
use std::time::Duration;

use quorate_configuration::message::Compare;
use quorate_configuration::{
    Change, ConditionalWrite, Consistency, KeyState, LeaseId, Message, Put, Refusal, Revision, Stored,
    WriteResult,
};
use quorate_core::log::Position;
use quorate_core::transaction::{KEY_BYTES_MAX, TRANSACTION_BYTES_MAX};
use quorate_core::{ClientId, Key, KeyRange, ReplicaIndex, TransactionId, Value};

pub(super) fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

pub(super) fn milliseconds(word: &str) -> Duration {
    Duration::from_millis(number(word))
}

pub(super) fn client(word: &str) -> ClientId {
    ClientId(number(&word[1..]))
}

pub(super) fn replica(word: &str) -> ReplicaIndex {
    ReplicaIndex(number(&word[1..]) as u8)
}

pub(super) fn key(word: &str) -> Key {
    match word {
        "EMPTY" => Key::default(),
        "LONG" => Key::from("k".repeat(KEY_BYTES_MAX + 1)),
        word => Key::from(word),
    }
}

pub(super) fn value(word: &str) -> Value {
    match word {
        "HUGE" => Value::from(vec![b'x'; TRANSACTION_BYTES_MAX + 1]),
        word => Value::copy_from_slice(word.as_bytes()),
    }
}

fn request(word: &str) -> u64 {
    number(word.strip_prefix('#').unwrap_or_else(|| panic!("{word} numbers no question")))
}

/// The client that a word names, and the rest of it.
fn of_client(speaks: ClientId, word: &str) -> (ClientId, &str) {
    word.split_once('/').map_or((speaks, word), |(other, rest)| (client(other), rest))
}

pub(super) fn transaction(speaks: ClientId, word: &str) -> TransactionId {
    let (client, word) = of_client(speaks, word);
    let (sequence, attempt) = word.split_once('.').unwrap_or((word, "0"));
    TransactionId { client, sequence: number(sequence), attempt: number(attempt) as u32 }
}

pub(super) fn lease(speaks: ClientId, word: &str) -> LeaseId {
    let (client, word) = of_client(speaks, word);
    LeaseId { client, number: number(word) }
}

pub(super) fn range(word: &str) -> KeyRange {
    let (from, to) = word.split_once("..").unwrap_or_else(|| panic!("{word} is no range"));
    KeyRange { from: key(from), to: (!to.is_empty()).then(|| key(to)) }
}

fn compare(word: &str) -> Option<Compare> {
    let word = word.strip_prefix('?')?;
    let (word, revision) = word.split_once('@').map_or((word, None), |(word, at)| (word, Some(number(at))));
    Some(match word.split_once('=') {
        Some((of, keys)) => {
            let after = Revision(revision.unwrap_or(u64::MAX));
            Compare::Range { range: range(of), after, keys: number(keys) }
        }
        None => Compare::Key { key: key(word), changed: revision.map(Revision) },
    })
}

fn put(speaks: ClientId, word: &str) -> Put {
    if let Some(word) = word.strip_prefix('-') {
        return Put { key: key(word), value: None, lease: None };
    }
    let (name, held) = word.split_once('=').unwrap_or_else(|| panic!("{word} writes nothing"));
    let (held, bound) = held.split_once('/').map_or((held, None), |(held, bound)| (held, Some(bound)));
    let lease = bound.map(|bound| lease(speaks, bound));
    Put { key: key(name), value: Some(value(held)), lease }
}

pub(super) fn write(speaks: ClientId, words: &[&str]) -> Arc<ConditionalWrite> {
    let (conditions, puts): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('?'));
    let compares = conditions.into_iter().filter_map(compare).collect();
    Arc::new(ConditionalWrite { compares, puts: puts.into_iter().map(|word| put(speaks, word)).collect() })
}

fn state(word: &str) -> KeyState {
    let Some((name, held)) = word.split_once('=') else {
        return KeyState { key: key(word.trim_start_matches('-')), stored: None };
    };
    let (held, bound) = held.split_once('/').map_or((held, None), |(held, bound)| (held, Some(bound)));
    let (held, changed) = held.split_once('@').unwrap_or_else(|| panic!("{word} was written by nothing"));
    let (changed, lease) = (Revision(number(changed)), bound.map(|bound| lease(ClientId(0), bound)));
    let stored = Stored { value: value(held), created: changed, changed, lease };
    KeyState { key: key(name), stored: Some(stored) }
}

fn entry(word: &str) -> (Key, Stored) {
    let KeyState { key, stored } = state(word);
    (key, stored.unwrap_or_else(|| panic!("{word} is absent")))
}

/// The question of a client to a replica.
pub(super) fn question(speaks: ClientId, words: &[&str]) -> Message {
    let request = request(words[0]);
    let freshness = |rest: &[&str]| match rest.last() {
        Some(&"stale") => Consistency::Stale,
        _ => Consistency::Linearizable,
    };
    match words[1..] {
        ["get", ref keys @ ..] => {
            let consistency = freshness(keys);
            let keys = keys.iter().filter(|word| **word != "stale").map(|word| key(word)).collect();
            Message::Get { request, keys, consistency }
        }
        ["scan", of, limit, ref rest @ ..] => {
            let (range, limit) = (range(of), number(limit) as u32);
            Message::Scan { request, range, limit, consistency: freshness(rest) }
        }
        ["check", ref conditions @ ..] => {
            let compares = conditions.iter().filter_map(|word| compare(word)).collect();
            Message::Check { request, compares }
        }
        ["write", of, since, ref what @ ..] => Message::Write {
            request,
            transaction: transaction(speaks, of),
            since: Position(number(since)),
            write: write(speaks, what),
        },
        ["settle", of, since] => {
            Message::Settle { request, transaction: transaction(speaks, of), since: Position(number(since)) }
        }
        ["grant", of, lasts] => {
            Message::Grant { request, lease: lease(speaks, of), duration: milliseconds(lasts) }
        }
        ["renew", of] => Message::Renew { request, lease: lease(speaks, of) },
        ["release", of] => Message::Release { request, lease: lease(speaks, of) },
        ["watch", of, after] => Message::Watch { request, range: range(of), after: Revision(number(after)) },
        ["unwatch"] => Message::Unwatch { request },
        _ => answer(speaks, words),
    }
}

/// The answer of a replica.
pub(super) fn answer(asked: ClientId, words: &[&str]) -> Message {
    let request = request(words[0]);
    let at = |revision: &str, position: &str| (Revision(number(revision)), Position(number(position)));
    let result = |position: &str, result| Message::WriteReply {
        request,
        position: Position(number(position)),
        result,
    };
    match words[1..] {
        ["got", revision, position, ref found @ ..] => {
            let (revision, position) = at(revision, position);
            Message::GetReply {
                request,
                revision,
                position,
                found: found.iter().map(|word| state(word)).collect(),
            }
        }
        ["scanned", revision, position, ref found @ ..] => {
            let (revision, position) = at(revision, position);
            let next = found.iter().find_map(|word| word.strip_prefix("next:")).map(key);
            let found = found.iter().filter(|word| !word.starts_with("next:")).map(|word| entry(word));
            Message::ScanReply { request, revision, position, found: found.collect(), next }
        }
        ["checked", revision, position, holds] => {
            let (revision, position) = at(revision, position);
            Message::CheckReply { request, revision, position, holds: holds == "holds" }
        }
        ["written", revision, position] => {
            result(position, WriteResult::Written { revision: Revision(number(revision)) })
        }
        ["not-held", revision, position, compare] => {
            let (revision, compare) = (Revision(number(revision)), number(compare) as u32);
            result(position, WriteResult::NotHeld { revision, compare })
        }
        ["unbound", position, of] => result(position, WriteResult::NoSuchLease { lease: lease(asked, of) }),
        ["full", position] => result(position, WriteResult::Full),
        ["last-administrator", position] => result(position, WriteResult::LastAdministrator),
        ["settled", position] => result(position, WriteResult::Settled),
        ["renewed", of] => Message::Renewed { request, lease: lease(asked, of) },
        ["gone", of] => Message::NoSuchLease { request, lease: lease(asked, of) },
        ["changes", after, until, ref rest @ ..] => {
            let changes = rest.iter().filter(|word| **word != "more").map(|word| change(word)).collect();
            let (after, until) = (Revision(number(after)), Revision(number(until)));
            Message::Changes { request, after, until, changes, has_more: rest.contains(&"more") }
        }
        ["forgotten", forgotten] => Message::Forgotten { request, forgotten: Revision(number(forgotten)) },
        ["leads", leader] => Message::NotLeading { request, leader: replica(leader) },
        ["refused", why] => Message::Refused { request, refusal: refusal(why) },
        _ => panic!("nobody says so: {words:?}"),
    }
}

/// `@4:a=x,-b`: what one write has changed.
fn change(word: &str) -> Arc<Change> {
    let parts = word.strip_prefix('@').and_then(|word| word.split_once(':'));
    let (revision, keys) = parts.unwrap_or_else(|| panic!("{word} is no change"));
    let with_revision =
        |key: &str| if key.contains('=') { format!("{key}@{revision}") } else { key.to_owned() };
    let keys = keys.split(',').map(|key| state(&with_revision(key))).collect();
    Arc::new(Change { revision: Revision(number(revision)), keys })
}

fn refusal(word: &str) -> Refusal {
    match word {
        "malformed" => Refusal::Malformed,
        "too-large" => Refusal::TooLarge,
        "too-old" => Refusal::TooOld,
        "too-many" => Refusal::TooMany,
        "duration" => Refusal::Duration,
        _ => panic!("nothing is refused as {word}"),
    }
}
