//! Protocol versions: which nodes may work together, and what they may write that earlier programs cannot read (ADR 0077).
//!
//! A program knows a window of protocol versions, and a cluster has one of them in force. Nodes say and store nothing that is newer than the
//! version in force, so that each can be started again with any program whose window holds it. An operator puts the next version in force
//! once all nodes know it; from then on there is no way back.
//!
//! | version | what it allows |
//! |---|---|
//! | 1 | everything before versions were counted |
//! | 2 | data directories name the version in force; users and roles, which gateways of earlier programs do not ask for |
//! | 3 | indexes, and keyspaces whose values expire: replicas of earlier programs take writes of clients that do not know of them |
//!
//! Most changes need no new version: what an earlier program does not know it passes over (ADR 0019).

use std::fmt;

/// A version of what nodes may say to each other and write to their disks, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolVersion(pub u32);

impl ProtocolVersion {
    /// The first one: that of a cluster in which none was ever put in force.
    pub const FIRST: ProtocolVersion = ProtocolVersion(1);

    /// From this one on every gateway of the cluster asks for users and roles.
    pub const ACCESS_CONTROL: ProtocolVersion = ProtocolVersion(2);

    /// From this one on every replica knows of index lists, and takes no write that overlooks one.
    pub const INDEXES: ProtocolVersion = ProtocolVersion(3);
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The protocol versions that a program knows: its support window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The oldest version that may be in force.
    pub oldest: ProtocolVersion,
    /// The newest one.
    pub newest: ProtocolVersion,
}

impl Window {
    /// That of this program.
    pub const OWN: Window = Window { oldest: ProtocolVersion(1), newest: ProtocolVersion(3) };

    /// That of a program which says nothing of versions.
    pub const UNSAID: Window = Window { oldest: ProtocolVersion::FIRST, newest: ProtocolVersion::FIRST };

    /// True if a program with this window can run in a cluster in which this version is in force.
    pub fn contains(self, version: ProtocolVersion) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { oldest, newest } = self;
        if oldest == newest {
            write!(formatter, "version {oldest}")
        } else {
            write!(formatter, "versions {oldest} to {newest}")
        }
    }
}

// A program that knows no version before its newest one could be started in no cluster that runs.
const _: () = assert!(Window::OWN.oldest.0 < Window::OWN.newest.0);
const _: () = assert!(ProtocolVersion::ACCESS_CONTROL.0 <= Window::OWN.newest.0);
const _: () = assert!(ProtocolVersion::INDEXES.0 <= Window::OWN.newest.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_its_ends_and_is_named_by_them() {
        let window = Window { oldest: ProtocolVersion(2), newest: ProtocolVersion(4) };
        let held: Vec<u32> = (0..7).filter(|version| window.contains(ProtocolVersion(*version))).collect();
        assert_eq!(held, [2, 3, 4]);
        assert_eq!(window.to_string(), "versions 2 to 4");
        assert_eq!(Window::UNSAID.to_string(), "version 1");
    }

    #[test]
    fn a_program_can_take_the_place_of_one_that_says_nothing_of_versions() {
        assert!(Window::OWN.contains(Window::UNSAID.newest));
    }
}
