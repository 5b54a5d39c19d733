//! The consistency levels that a history can be judged at.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// A consistency level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// One serial order, which agrees with real time.
    StrictSerializable,
    /// One serial order, which agrees with the order of every session.
    SessionSerializable,
    /// One serial order.
    Serializable,
    /// Snapshot isolation with real time in snapshots and commit order.
    StrongSi,
    /// Snapshot isolation whose snapshots agree with the order of every session.
    SessionSi,
    /// Snapshot isolation.
    Si,
    /// Parallel snapshot isolation.
    Psi,
    /// Parallel snapshot isolation with session order in visibility.
    SessionPsi,
    /// Walter's parallel snapshot isolation: snapshots belong to sites.
    WalterPsi,
    /// Causal consistency with convergence.
    Causal,
    /// Speculative snapshot isolation.
    Spsi,
}

/// Which pairs of transactions are ordered by when they ran, beside what their operations say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// None.
    None,
    /// Those of one session of which one completed before the other was invoked.
    Session,
    /// Those of one site of which one completed before the other was invoked.
    Site,
    /// Any of which one completed before the other was invoked.
    RealTime,
}

impl Level {
    /// All levels, the stronger ones of a family first.
    pub const ALL: [Level; 11] = [
        Level::StrictSerializable,
        Level::SessionSerializable,
        Level::Serializable,
        Level::StrongSi,
        Level::SessionSi,
        Level::Si,
        Level::Psi,
        Level::SessionPsi,
        Level::WalterPsi,
        Level::Causal,
        Level::Spsi,
    ];

    /// The name of the level on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::StrictSerializable => "strict-serializable",
            Level::SessionSerializable => "session-serializable",
            Level::Serializable => "serializable",
            Level::StrongSi => "strong-si",
            Level::SessionSi => "session-si",
            Level::Si => "si",
            Level::Psi => "psi",
            Level::SessionPsi => "session-psi",
            Level::WalterPsi => "walter-psi",
            Level::Causal => "causal",
            Level::Spsi => "spsi",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A level name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown level \"{0}\"; the levels are {all}", all = Level::ALL.map(Level::name).join(", "))]
pub struct UnknownLevel(pub String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let level = Level::ALL.into_iter().find(|level| level.name() == name);
        level.ok_or_else(|| UnknownLevel(name.to_string()))
    }
}
