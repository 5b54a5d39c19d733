//! Leases beside the workload, in some seeds: commands of Redis, as calls of the procedure that servers are linked with.
//!
//! The effect of such a call depends on the timestamp of its transaction: a lease that is held is not granted, and one whose time is up is
//! held no more. Each group of shards has a counter and a lease at each of its shards. A transaction counts and asks for the lease at all of them. So
//!
//! - all shards of a group reply alike, because all carry out the same transactions in the same order, at the same timestamps;
//! - timestamps never descend as the counter ascends, and a reader stands between the transaction that led to its count and the next;
//! - of two transactions with none between them, the second is granted the lease if the first left none, or if its time is up.
//!
//! A coordinated transaction has no timestamp while its shards agree on it, so these are always refused (ADR 0068); and no independent one ever is.

use std::collections::BTreeMap;

use quorate_core::command::{Executed, NotExecuted};
use quorate_core::hosted::StoredVersion;
use quorate_core::{Random, ShardId, Value};
use quorate_granola::Class;
use quorate_redis_commands::{Answer, PROCEDURE, Reply, Request};
use quorate_serializable_shard::answer::{Answer as Found, Refusal};
use quorate_serializable_shard::operation::{Call, Operation};

use super::beside::{Errand, Errands, Remark};

/// So many transactions are begun in a seed of the usual length.
const TRANSACTIONS: u64 = 120;

/// So many transactions only read.
const READ_PROBABILITY: f64 = 0.2;

/// So many transactions at several shards are coordinated.
const COORDINATED_PROBABILITY: f64 = 0.15;

/// A lease lasts at most so long, in milliseconds: about as long as a few transactions take.
const LIFE_MS_MAX: u64 = 400;

/// The transactions of all clients.
#[derive(Debug)]
pub(super) struct Leases {
    random: Random,
    groups: Vec<Group>,
    /// The requests of transactions, by number, until their clients are told.
    asked: BTreeMap<u64, Asked>,
    /// How many transactions are still to be begun.
    left: u64,
}

/// Shards that hold the same counter and the same lease.
#[derive(Debug)]
struct Group {
    shards: Vec<ShardId>,
    seen: Vec<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    group: usize,
    class: Class,
    /// How long the lease is to last, in milliseconds; none if it only reads.
    life_ms: Option<u64>,
}

/// The counter and the lease that a transaction has seen. The order is that in which a group carries transactions out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    /// The counter: what it has led to, or what a reader has read.
    count: i64,
    /// The lease that it has asked for; none of a reader.
    lease: Option<Lease>,
    /// The timestamp, in microseconds.
    micros: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lease {
    is_granted: bool,
    life_ms: u64,
}

impl Leases {
    /// The leases of a cluster with these shards: of each, and of each pair of neighbours.
    pub(super) fn new(seed: u64, length: u64, shards: Vec<ShardId>) -> Self {
        let groups = shards.chunks(1).chain(shards.windows(2));
        let groups = groups.map(|shards| Group { shards: shards.to_vec(), seen: Vec::new() }).collect();
        let random = Random::stream(seed, "leases");
        Leases { random, groups, asked: BTreeMap::new(), left: TRANSACTIONS * length }
    }

    /// The request to a shard.
    fn part(asked: &Asked) -> Value {
        let (count, lease) = (format!("count{}", asked.group), format!("lease{}", asked.group));
        let life = asked.life_ms.unwrap_or_default().to_string();
        let commands: Vec<Vec<&[u8]>> = match asked.life_ms {
            Some(_) => vec![
                vec![b"INCR", count.as_bytes()],
                vec![b"SET", lease.as_bytes(), b"held", b"NX", b"PX", life.as_bytes()],
            ],
            None => vec![vec![b"GET", count.as_bytes()]],
        };
        let arguments = Request { commands, ..Request::default() }.encode().into();
        let call = Call { name: PROCEDURE.to_owned(), arguments, ..Call::default() };
        Operation::Call(call).encode()
    }

    /// The observation of a transaction that was executed; what is wrong, if it makes no sense.
    fn see(&self, asked: &Asked, executed: &Executed) -> Result<Seen, String> {
        let expected = &self.groups[asked.group].shards;
        if !executed.answers.keys().eq(expected) {
            return Err(format!("has answers of {:?}, and was for {expected:?}", executed.answers.keys()));
        }
        let mut replies = Vec::new();
        for (shard, answer) in &executed.answers {
            let of_shard = match Found::decode(answer) {
                Ok(Found::Call(bytes)) => Answer::decode(&bytes),
                other => return Err(format!("was answered by {shard:?} with {other:?}")),
            };
            match of_shard {
                Ok(Answer::Replies(of_shard)) => replies.push(of_shard),
                other => return Err(format!("was answered by {shard:?} with {other:?}")),
            }
        }
        if replies.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(format!("has other replies at each shard: {replies:?}"));
        }
        let micros = executed.timestamp.micros;
        let lease = |is_granted| asked.life_ms.map(|life_ms| Lease { is_granted, life_ms });
        match replies.first().map(Vec::as_slice) {
            Some([Reply::Integer(count), Reply::Simple(_)]) => {
                Ok(Seen { count: *count, lease: lease(true), micros })
            }
            Some([Reply::Integer(count), Reply::Null]) => {
                Ok(Seen { count: *count, lease: lease(false), micros })
            }
            Some([Reply::Null]) => Ok(Seen { count: 0, lease: None, micros }),
            Some([Reply::Bulk(digits)]) => {
                let count = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                let count = count.ok_or_else(|| format!("has read a counter of {digits:?}"))?;
                Ok(Seen { count, lease: None, micros })
            }
            other => Err(format!("was answered with {other:?}")),
        }
    }
}

impl Group {
    /// The observations that fit with no order in which the group could have carried all out.
    fn violations(&self) -> Vec<String> {
        let mut seen = self.seen.clone();
        // A reader of a count stands behind the transaction that has led to it, and readers by their timestamps.
        seen.sort_by_key(|seen| (seen.count, seen.lease.is_none(), seen.micros));
        let mut violations = Vec::new();
        let shards = &self.shards;
        let mut violated = |text: &str, first: &Seen, second: &Seen| {
            violations.push(format!("{shards:?} {text}: {first:?}, then {second:?}"));
        };
        for pair in seen.windows(2) {
            if pair[1].micros < pair[0].micros {
                violated("did not count in the order of timestamps", &pair[0], &pair[1]);
            }
        }
        // Until when the lease is held, in milliseconds, where that is known; none if it is not.
        let mut held_until_ms = Some(0);
        let counted: Vec<(&Seen, Lease)> = seen.iter().filter_map(|seen| Some((seen, seen.lease?))).collect();
        let mut before: Option<&Seen> = None;
        for (seen, lease) in counted {
            let last = before.map_or(0, |before| before.count);
            if seen.count == last {
                violated("counted two transactions as one", before.unwrap_or(seen), seen);
            }
            if seen.count != last + 1 {
                held_until_ms = None;
            }
            let now_ms = seen.micros / 1_000;
            if held_until_ms.is_some_and(|until| lease.is_granted != (now_ms > until)) {
                violated(
                    "granted a lease that was held, or refused one that was not",
                    before.unwrap_or(seen),
                    seen,
                );
            }
            if lease.is_granted {
                held_until_ms = Some(now_ms + lease.life_ms);
            }
            before = Some(seen);
        }
        violations
    }
}

impl Errands for Leases {
    fn name(&self) -> &'static str {
        "leases"
    }

    fn next(&mut self, _: usize, _: u64) -> Option<Errand> {
        self.left = self.left.checked_sub(1)?;
        let group = self.random.index(self.groups.len());
        let shards = &self.groups[group].shards;
        let (reads, coordinates) =
            (self.random.chance(READ_PROBABILITY), self.random.chance(COORDINATED_PROBABILITY));
        let class = match (reads, coordinates && shards.len() > 1) {
            (true, _) => Class::ReadOnly,
            (false, true) => Class::Coordinated,
            (false, false) => Class::Independent,
        };
        let life_ms = (!reads).then(|| 1 + self.random.below(LIFE_MS_MAX));
        let asked = Asked { group, class, life_ms };
        let part = Self::part(&asked);
        let parts = shards.iter().map(|shard| (*shard, part.clone())).collect();
        let number = self.left;
        self.asked.insert(number, asked);
        Some(Errand { number, parts, class, insists: false, begins_backup: false })
    }

    fn on_told(&mut self, number: u64, told: &Result<Executed, NotExecuted>) -> Remark {
        let Some(asked) = self.asked.remove(&number) else {
            return Remark { nonsense: Some("was told of twice".to_owned()), ..Remark::default() };
        };
        let is_coordinated = asked.class == Class::Coordinated;
        let (happened, nonsense) = match told {
            Ok(_) | Err(NotExecuted::AnswersLost { .. }) if is_coordinated => {
                (None, Some("was executed, and has no timestamp while its shards agree".to_owned()))
            }
            Ok(executed) => match self.see(&asked, executed) {
                Ok(seen) => {
                    self.groups[asked.group].seen.push(seen);
                    (Some("lease asked for"), None)
                }
                Err(nonsense) => (None, Some(nonsense)),
            },
            Err(NotExecuted::Refused { .. }) if is_coordinated => {
                (Some("lease without a timestamp refused"), None)
            }
            Err(NotExecuted::Refused { shard, reason }) => {
                let refusal = Refusal::decode(reason);
                (None, Some(format!("was refused by {shard:?}: {refusal:?}")))
            }
            Err(_) => (None, None),
        };
        Remark { happened, nonsense, of_backup: None }
    }

    fn thought(&mut self) -> f64 {
        self.random.unit()
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }

    fn violations(&self, _: &mut dyn Iterator<Item = &StoredVersion>) -> Vec<String> {
        self.groups.iter().flat_map(Group::violations).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter, the lease that was asked for (whether it was granted, and for how long), and the timestamp, in milliseconds.
    type Row = (i64, Option<(bool, u64)>, u64);

    fn group(seen: &[Row]) -> Group {
        let seen = seen.iter().map(|(count, lease, millis)| Seen {
            count: *count,
            lease: lease.map(|(is_granted, life_ms)| Lease { is_granted, life_ms }),
            micros: millis * 1_000,
        });
        Group { shards: vec![ShardId(1)], seen: seen.collect() }
    }

    #[test]
    fn a_group_grants_its_lease_again_when_its_time_is_up() {
        let orders = [
            group(&[
                (0, None, 1),
                (1, Some((true, 10)), 5),
                (2, Some((false, 10)), 15),
                (3, Some((true, 1)), 16),
            ]),
            // One that nobody was told of may have taken the lease.
            group(&[(1, Some((true, 10)), 5), (3, Some((false, 10)), 40)]),
            group(&[(2, None, 9), (1, Some((true, 10)), 5), (2, Some((false, 10)), 9), (2, None, 20)]),
        ];
        for group in orders {
            assert_eq!(group.violations(), Vec::<String>::new());
        }
    }

    #[test]
    fn a_group_that_errs_is_found_out() {
        let orders = [
            ("refused one that was not", group(&[(1, Some((false, 10)), 5)])),
            ("granted a lease that was held", group(&[(1, Some((true, 10)), 5), (2, Some((true, 10)), 15)])),
            ("refused one that was not", group(&[(1, Some((true, 10)), 5), (2, Some((false, 10)), 16)])),
            ("in the order of timestamps", group(&[(1, Some((true, 10)), 5), (2, Some((false, 10)), 4)])),
            ("in the order of timestamps", group(&[(1, Some((true, 1)), 5), (0, None, 6)])),
            (
                "in the order of timestamps",
                group(&[(1, Some((true, 1)), 5), (1, None, 9), (2, Some((true, 1)), 8)]),
            ),
            ("two transactions as one", group(&[(1, Some((true, 1)), 5), (1, Some((true, 1)), 9)])),
        ];
        for (expected, group) in orders {
            let violations = group.violations();
            assert!(violations.iter().any(|text| text.contains(expected)), "{expected}: {violations:?}");
        }
    }
}
