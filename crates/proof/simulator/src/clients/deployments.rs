//! Procedures that come and go beside the workload, in some seeds: an operator deploys them at all shards, as a client does, and removes them again,
//! while clients call them.
//!
//! Each version answers a call with its number, so an answer says which version was called. By timestamps, then,
//!
//! - a version is called only where it stands deployed, and not removed;
//! - a call of the greatest version has reached the greatest that stands deployed;
//! - all shards of a transaction have called the same version;
//! - no shard lacks a version that stands deployed before the call began, unless somebody has begun to remove it.

use std::collections::BTreeMap;

use quorate_core::command::{Executed, Failure, NotExecuted};
use quorate_core::hosted::StoredVersion;
use quorate_core::{ClockTime, Key, Random, ShardId, Value};
use quorate_granola::Class;
use quorate_serializable_shard::answer::{Answer, Refusal};
use quorate_serializable_shard::operation::{Call, Deploy, Operation, Remove};

use super::beside::{Errand, Errands, Remark};

/// So many transactions are begun in a seed of the usual length. They are few: a change is agreed on by all shards, and all that is called waits for it.
const TRANSACTIONS: u64 = 48;

/// So many of the transactions of the operator are calls as well.
const OPERATOR_CALLS_PROBABILITY: f64 = 0.3;

/// So many changes remove a version, if there is one to remove.
const REMOVE_PROBABILITY: f64 = 0.35;

/// So many calls name a version.
const NAMED_PROBABILITY: f64 = 0.3;

/// So many calls are those of transactions that only read.
const READ_PROBABILITY: f64 = 0.3;

/// The name of the procedure.
const NAME: &str = "deployed/number";

/// A WebAssembly module without the four bytes that it answers, which come last: it lends its memory to the server, and its function has the first
/// four bytes of that taken for the answer.
const MODULE: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x0b\x02\x60\x02\x7f\x7f\0\x60\x01\x7f\x01\x7f\
    \x02\x14\x01\x09quorate_1\x06answer\0\0\
    \x03\x02\x01\x01\
    \x05\x03\x01\0\x01\
    \x07\x11\x02\x06memory\x02\0\x04call\0\x01\
    \x0a\x0c\x01\x0a\0\x41\0\x41\x04\x10\0\x41\0\x0b\
    \x0b\x0a\x01\0\x41\0\x0b\x04";

/// True if this is no key, but the name under which a shard holds a version of the procedure.
pub fn is_procedure(key: &Key) -> bool {
    key.strip_prefix(NAME.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
}

/// The transactions of all clients.
#[derive(Debug)]
pub(super) struct Deployments {
    random: Random,
    shards: Vec<ShardId>,
    asked: BTreeMap<u64, Asked>,
    /// The versions, from one.
    versions: Vec<Version>,
    /// The calls that were executed.
    called: Vec<Called>,
    /// A transaction that begins now stands after this in the serial order.
    after: ClockTime,
    /// How many transactions are still to be begun.
    left: u64,
}

/// A version of the procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Version {
    deployed: Change,
    removed: Change,
}

/// How far a change has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Change {
    /// Nobody has asked for it, or it was surely not made.
    #[default]
    Not,
    /// It was asked for, and may have been made.
    Asked,
    /// It stands at this timestamp, in microseconds.
    At(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Deploy(u32),
    Remove(u32),
    /// A call of this version, or of the greatest, when so many were surely there: deployed, and nobody had asked to remove them.
    Call {
        version: Option<u32>,
        there: Vec<u32>,
    },
}

/// A call that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Called {
    /// The version that it had to be; none if it was the greatest.
    named: Option<u32>,
    /// The version that has answered.
    version: u32,
    /// The timestamp, in microseconds.
    micros: u64,
}

impl Change {
    /// True if it surely stands before a timestamp.
    fn is_before(self, micros: u64) -> bool {
        matches!(self, Change::At(at) if at < micros)
    }

    /// True if it surely does not.
    fn is_behind(self, micros: u64) -> bool {
        match self {
            Change::Not => true,
            Change::Asked => false,
            Change::At(at) => at > micros,
        }
    }
}

impl Deployments {
    /// The procedures of a cluster with these shards.
    pub(super) fn new(seed: u64, length: u64, shards: Vec<ShardId>) -> Self {
        Deployments {
            random: Random::stream(seed, "deployments"),
            shards,
            asked: BTreeMap::new(),
            versions: Vec::new(),
            called: Vec::new(),
            after: ClockTime::default(),
            left: TRANSACTIONS * length,
        }
    }

    fn version(&mut self, version: u32) -> &mut Version {
        &mut self.versions[version as usize - 1]
    }

    /// The versions that surely stand deployed, and that nobody has asked to remove.
    fn there(&self) -> Vec<u32> {
        let numbered = (1..).zip(&self.versions);
        let there = numbered.filter(|(_, version)| {
            matches!((version.deployed, version.removed), (Change::At(_), Change::Not))
        });
        there.map(|(number, _)| number).collect()
    }

    /// A change of the operator.
    fn draw_change(&mut self) -> (Asked, Operation) {
        let there = self.there();
        let name = NAME.to_owned();
        if !there.is_empty() && self.random.chance(REMOVE_PROBABILITY) {
            let version = there[self.random.index(there.len())];
            self.version(version).removed = Change::Asked;
            return (Asked::Remove(version), Operation::Remove(Remove { name, version }));
        }
        self.versions.push(Version { deployed: Change::Asked, removed: Change::Not });
        let version = self.versions.len() as u32;
        let code = Value::from([MODULE, &version.to_le_bytes()].concat());
        (Asked::Deploy(version), Operation::Deploy(Deploy { name, version, code }))
    }

    /// A call: what is asked, where, and of which class. At several shards a call that one of them may refuse is coordinated.
    fn draw_call(&mut self) -> (Asked, Operation, Vec<ShardId>, Class) {
        let there = self.there();
        let names = self.random.chance(NAMED_PROBABILITY) && !self.versions.is_empty();
        let version = names.then(|| 1 + self.random.index(self.versions.len()) as u32);
        let first = self.random.index(self.shards.len());
        let second = self.random.index(self.shards.len());
        let mut shards = vec![self.shards[first]];
        if second != first {
            shards.push(self.shards[second]);
        }
        let class = match (self.random.chance(READ_PROBABILITY), shards.len()) {
            (true, _) => Class::ReadOnly,
            (false, 1) => Class::Independent,
            (false, _) => Class::Coordinated,
        };
        let call = Call { name: NAME.to_owned(), version: version.unwrap_or_default(), ..Call::default() };
        (Asked::Call { version, there }, Operation::Call(call), shards, class)
    }

    /// The version that a call has reached; what is wrong, if it makes no sense.
    fn reached(executed: &Executed) -> Result<u32, String> {
        let mut versions = executed.answers.iter().map(|(shard, answer)| match Answer::decode(answer) {
            Ok(Answer::Call(bytes)) => {
                let number = <[u8; 4]>::try_from(&bytes[..]).map(u32::from_le_bytes);
                number.map_err(|_| format!("was answered by {shard:?} with {bytes:?}"))
            }
            other => Err(format!("was answered by {shard:?} with {other:?}")),
        });
        let first = versions.next().unwrap_or_else(|| Err("has no answers".to_owned()))?;
        for version in versions {
            let version = version?;
            if version != first {
                return Err(format!("has called version {first} at one shard and {version} at another"));
            }
        }
        Ok(first)
    }

    /// A call was refused; what is wrong, if a shard lacked what was surely there when it began, and still is.
    fn refused(&self, version: Option<u32>, there: &[u32], reason: &Value) -> Option<String> {
        let refusal = Refusal::decode(reason);
        if !matches!(refusal, Ok(Refusal::NoSuchProcedure { .. })) {
            return Some(format!("was refused: {refusal:?}"));
        }
        let is_there = |number: &&u32| self.versions[**number as usize - 1].removed == Change::Not;
        let lacked =
            there.iter().filter(|number| version.is_none_or(|version| version == **number)).find(is_there);
        lacked.map(|number| format!("was refused although version {number} is deployed"))
    }

    /// The violations by one call.
    fn wrongs(&self, call: &Called) -> Vec<String> {
        let Called { named, version, micros } = *call;
        let mut wrongs = Vec::new();
        if named.is_some_and(|named| named != version) {
            wrongs.push("another version than the one that was named has answered");
        }
        let Some(reached) = (version as usize).checked_sub(1).and_then(|at| self.versions.get(at)) else {
            return vec!["a version that nobody has deployed has answered".to_owned()];
        };
        if reached.deployed.is_behind(micros) {
            wrongs.push("a version was called before it was deployed");
        }
        if reached.removed.is_before(micros) {
            wrongs.push("a version was called after it was removed");
        }
        let stands = |other: &Version| other.deployed.is_before(micros) && other.removed.is_behind(micros);
        if named.is_none() && self.versions[version as usize..].iter().any(stands) {
            wrongs.push("a greater version stood deployed than the one that was called");
        }
        wrongs.into_iter().map(str::to_owned).collect()
    }
}

impl Errands for Deployments {
    fn name(&self) -> &'static str {
        "deployments"
    }

    fn next(&mut self, slot: usize, _: u64) -> Option<Errand> {
        self.left = self.left.checked_sub(1)?;
        let number = self.left;
        // One operator makes one change after the other.
        let changes = slot == 0 && !self.random.chance(OPERATOR_CALLS_PROBABILITY);
        let (asked, operation, shards, class) = if changes {
            let (asked, operation) = self.draw_change();
            let class = if self.shards.len() == 1 { Class::Independent } else { Class::Coordinated };
            (asked, operation, self.shards.clone(), class)
        } else {
            self.draw_call()
        };
        self.asked.insert(number, asked);
        let part = operation.encode();
        let parts = shards.into_iter().map(|shard| (shard, part.clone())).collect();
        Some(Errand { number, parts, class, insists: changes, begins_backup: false })
    }

    fn after(&self) -> ClockTime {
        self.after
    }

    fn on_told(&mut self, number: u64, told: &Result<Executed, NotExecuted>) -> Remark {
        let Some(asked) = self.asked.get(&number).cloned() else {
            return Remark {
                nonsense: Some("was told of, and nobody had asked".to_owned()),
                ..Remark::default()
            };
        };
        let change = match told {
            Ok(Executed { timestamp, .. }) | Err(NotExecuted::AnswersLost { timestamp, .. }) => {
                Change::At(timestamp.micros)
            }
            Err(NotExecuted::Refused { .. } | NotExecuted::Failed(Failure::Conflict)) => Change::Not,
            // It may be the question for its outcome that has failed.
            Err(_) => Change::Asked,
        };
        if let (Asked::Deploy(_) | Asked::Remove(_), Change::At(micros)) = (&asked, change) {
            self.after = self.after.max(ClockTime::from_micros(micros));
        }
        let is_refused = matches!(told, Err(NotExecuted::Refused { .. }));
        let (happened, nonsense) = match (asked, told) {
            (Asked::Deploy(version), _) => {
                self.version(version).deployed = change;
                let refused =
                    is_refused.then(|| format!("was refused, and would deploy a version: {told:?}"));
                (matches!(change, Change::At(_)).then_some("procedure deployed"), refused)
            }
            (Asked::Remove(version), _) => {
                self.version(version).removed = change;
                let refused =
                    is_refused.then(|| format!("was refused, and would remove a version: {told:?}"));
                (matches!(change, Change::At(_)).then_some("procedure removed"), refused)
            }
            (Asked::Call { version: named, .. }, Ok(executed)) => match Self::reached(executed) {
                Ok(version) => {
                    self.called.push(Called { named, version, micros: executed.timestamp.micros });
                    (Some("deployed procedure called"), None)
                }
                Err(nonsense) => (None, Some(nonsense)),
            },
            (Asked::Call { version, there }, Err(NotExecuted::Refused { reason, .. })) => {
                (Some("call of no procedure refused"), self.refused(version, &there, reason))
            }
            (Asked::Call { .. }, Err(_)) => (None, None),
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
        let wrongs = |call| self.wrongs(call).into_iter().map(move |text| format!("{text}: {call:?}"));
        self.called.iter().flat_map(wrongs).collect()
    }
}

#[cfg(test)]
mod tests {
    use quorate_serializable_library::Hosted;
    use quorate_serializable_shard::Library;

    use super::*;

    fn wrongs(
        versions: &[(Change, Change)],
        (named, version, micros): (Option<u32>, u32, u64),
    ) -> Vec<String> {
        let versions =
            versions.iter().map(|(deployed, removed)| Version { deployed: *deployed, removed: *removed });
        let mut deployments = Deployments::new(1, 1, vec![ShardId(1)]);
        deployments.versions = versions.collect();
        deployments.wrongs(&Called { named, version, micros })
    }

    #[test]
    fn a_version_is_a_module_that_servers_take() {
        let code = [MODULE, &7_u32.to_le_bytes()].concat();
        assert_eq!(Hosted::compile(&code).err(), None);
    }

    #[test]
    fn calls_that_fit_with_the_order_are_sound() {
        use Change::{Asked, At, Not};
        for (versions, call) in [
            (&[(At(5), Not)][..], (None, 1, 6)),
            (&[(At(5), At(9))], (Some(1), 1, 7)),
            (&[(At(5), Not), (At(8), Not)], (None, 1, 7)),
            (&[(At(5), Not), (At(8), Not)], (Some(1), 1, 9)),
            (&[(At(5), Not), (At(8), At(9))], (None, 1, 10)),
            // These may stand on either side.
            (&[(At(5), Not), (Asked, Not)], (None, 1, 10)),
            (&[(At(5), Not), (At(6), Asked)], (None, 1, 10)),
            (&[(Asked, Not)], (None, 1, 10)),
            (&[(At(5), Asked)], (None, 1, 10)),
        ] {
            assert_eq!(wrongs(versions, call), [""; 0], "{versions:?} {call:?}");
        }
    }

    #[test]
    fn calls_that_do_not_are_found() {
        use Change::{At, Not};
        for (expected, versions, call) in [
            ("before it was deployed", &[(At(5), Not)][..], (None, 1, 4)),
            ("before it was deployed", &[(Not, Not)], (None, 1, 4)),
            ("after it was removed", &[(At(5), At(9))], (None, 1, 10)),
            ("greater version", &[(At(5), Not), (At(6), Not)], (None, 1, 7)),
            ("greater version", &[(At(5), Not), (At(6), At(9))], (None, 1, 7)),
            ("that was named", &[(At(5), Not), (At(6), Not)], (Some(1), 2, 7)),
            ("nobody has deployed", &[(At(5), Not)], (None, 2, 7)),
        ] {
            let wrongs = wrongs(versions, call);
            assert!(wrongs.iter().any(|text| text.contains(expected)), "{expected}: {wrongs:?}");
        }
    }
}
