//! A brute-force judge of tiny histories, straight from the definitions of the levels.
//!
//! A transaction of unknown outcome either committed or never happened; the oracle tries both. Then it looks
//! for an execution that explains what clients saw: a serial order for the serializable family (`serial`),
//! an arbitration order with a visibility relation for snapshot isolation, its parallel forms and causal
//! consistency (`search`, over the axioms in `axioms`), and snapshots that hold local commits for
//! speculative snapshot isolation (`speculative`). A history satisfies a level if some execution explains
//! it.
//!
//! The oracle shares nothing with the fast checks but the typed history, so that a mistake in one of them
//! shows as a disagreement. It derives no dependencies between transactions: a read is explained by running
//! the visible transactions one after another (`replay`). That also covers reads of aborted, intermediate,
//! unwritten and duplicate values, which no execution explains.

mod axioms;
mod members;
mod replay;
mod search;
mod serial;
mod speculative;

use crate::history::{History, KeyId};
use crate::level::Level;

/// More transactions of the serializable family than this are refused: the number of orders grows with the
/// factorial.
pub const TXNS_MAX: usize = 10;

/// More transactions than this are refused at the other levels, where every order comes with many visibility
/// relations.
pub const VISIBILITY_TXNS_MAX: usize = 7;

/// Keys are kept as bits of a word.
const KEYS_MAX: usize = 64;

/// A set of transactions, one bit each.
type Set = u16;

fn contains(set: Set, at: usize) -> bool {
    set >> at & 1 == 1
}

fn single(at: usize) -> Set {
    1 << at
}

/// The members of a set in ascending order.
fn each(set: Set) -> impl Iterator<Item = usize> {
    (0..Set::BITS as usize).filter(move |&at| contains(set, at))
}

/// A set of keys, one bit each.
type Keys = u64;

fn key_bit(key: KeyId) -> Keys {
    1 << key.index()
}

/// Whether a history satisfies a level, by trying every execution.
///
/// Returns none where the oracle has no answer: more than [`TXNS_MAX`] or [`VISIBILITY_TXNS_MAX`]
/// transactions that matter, more than 64 keys, a transaction without a site at a level that is about sites,
/// and reads of counting sets of which nobody can tell whether they read from a lost transaction.
pub fn satisfies(history: &History, level: Level) -> Option<bool> {
    if history.key_count() > KEYS_MAX {
        return None;
    }
    let fates = members::fates(history)?;
    match level {
        Level::StrictSerializable | Level::SessionSerializable | Level::Serializable => {
            serial::exists(history, level, &fates)
        }
        Level::Spsi => speculative::exists(history, &fates),
        _ => search::exists(history, level, &fates),
    }
}

/// Whether a history satisfies a level of the serializable family; none for other levels, and where
/// [`satisfies`] has no answer.
pub fn is_serializable(history: &History, level: Level) -> Option<bool> {
    let family = [Level::StrictSerializable, Level::SessionSerializable, Level::Serializable];
    if family.contains(&level) { satisfies(history, level) } else { None }
}
