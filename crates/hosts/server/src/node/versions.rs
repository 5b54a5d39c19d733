//! Protocol versions: which one is in force, and which nodes know it (ADR 0077).
//!
//! Each end of a connection between nodes says its window among its settings, before it sends any message of a protocol; a program that says nothing knows the
//! first version alone. The connection of a node that does not know the version in force is closed with the reason, and nothing that comes on
//! it is taken in. The version in force is an entry of the configuration. A node enters it once its data directory names it, so that an earlier
//! program refuses the directory before anything is written there that it could misread.

use std::collections::BTreeMap;

use quorate_core::NodeId;
use quorate_core::topology::Topology;
use quorate_runtime::{LinkId, Turn};
use quorate_wire::{ProtocolVersion, Setting, Window};
use serde::Serialize;

use super::Node;
use super::loops::Handed;

/// The names of the settings by which nodes tell their windows and the version in force, as far as they know.
const OLDEST: &str = "protocol.oldest";
const NEWEST: &str = "protocol.newest";
const IN_FORCE: &str = "protocol.in_force";

/// The protocol versions of a node, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VersionsStatus {
    /// The oldest version that its program knows.
    pub oldest: u32,
    /// The newest one.
    pub newest: u32,
    /// The version in force, as far as the node has heard.
    pub in_force: u32,
}

/// The versions that another node has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    window: Window,
    /// The version that is in force as far as it knows.
    in_force: ProtocolVersion,
}

impl Said {
    const NOTHING: Said = Said { window: Window::UNSAID, in_force: ProtocolVersion::FIRST };

    fn read(settings: &[Setting]) -> Said {
        let version = |name: &str| {
            let said = settings.iter().find(|setting| setting.name == name)?;
            u32::try_from(said.value).ok().map(ProtocolVersion)
        };
        match (version(OLDEST), version(NEWEST)) {
            (Some(oldest), Some(newest)) => {
                let in_force = version(IN_FORCE).unwrap_or(ProtocolVersion::FIRST);
                Said { window: Window { oldest, newest }, in_force }
            }
            _ => Said::NOTHING,
        }
    }
}

/// The versions of this node and of others. Connections go by their names, which tests give themselves.
#[derive(Debug)]
pub(super) struct Versions<L = LinkId> {
    in_force: ProtocolVersion,
    links: BTreeMap<L, (NodeId, Said)>,
    /// Why nothing of a node is taken in, until it comes back with another program.
    refused: BTreeMap<NodeId, String>,
    /// Why this node cannot enter the version in force.
    hindrance: Option<String>,
}

impl<L: Copy + Ord> Versions<L> {
    /// A node whose data directory names this version as the one in force.
    pub(super) fn new(in_force: ProtocolVersion) -> Self {
        Versions { in_force, links: BTreeMap::new(), refused: BTreeMap::new(), hindrance: None }
    }

    /// The settings that other nodes are told.
    pub(super) fn settings(&self) -> [Setting; 3] {
        let Window { oldest, newest } = Window::OWN;
        [(OLDEST, oldest), (NEWEST, newest), (IN_FORCE, self.in_force)]
            .map(|(name, version)| Setting { name: name.to_owned(), value: version.0.into() })
    }

    pub(super) fn status(&self) -> VersionsStatus {
        let Window { oldest, newest } = Window::OWN;
        VersionsStatus { oldest: oldest.0, newest: newest.0, in_force: self.in_force.0 }
    }

    /// True if messages that come on the connection of a node are taken in.
    pub(super) fn admits(&self, link: L) -> bool {
        let said = self.links.get(&link).map_or(Said::NOTHING, |(_, said)| *said);
        self.objection(said).is_none()
    }

    /// Another node says which versions it knows. Gives why its connection is closed, if it is.
    pub(super) fn hear(&mut self, link: L, node: NodeId, settings: &[Setting]) -> Option<String> {
        self.links.insert(link, (node, Said::read(settings)));
        self.judge(link)
    }

    pub(super) fn forget_link(&mut self, link: L) {
        self.links.remove(&link);
    }

    /// A version is in force from here on. Gives the connections that are closed, and why.
    fn enter(&mut self, version: ProtocolVersion) -> Vec<(L, String)> {
        assert!(version > self.in_force, "version {version} follows {}", self.in_force);
        assert!(Window::OWN.contains(version), "this program knows {}", Window::OWN);
        (self.in_force, self.hindrance) = (version, None);
        let links: Vec<L> = self.links.keys().copied().collect();
        links.into_iter().filter_map(|link| Some((link, self.judge(link)?))).collect()
    }

    /// Why nothing of a node is taken in that has said this, if nothing is.
    fn objection(&self, said: Said) -> Option<String> {
        let (own, in_force) = (Window::OWN, self.in_force);
        if !said.window.contains(in_force) {
            let what = if said.window.newest < in_force { "a later program" } else { "an earlier program" };
            return Some(format!(
                "protocol version {in_force} is in force in this cluster, and its program knows {}: start {what} there",
                said.window
            ));
        }
        (said.in_force > own.newest).then(|| {
            format!(
                "protocol version {} is in force there, and this node knows {own}: start a later program here",
                said.in_force
            )
        })
    }

    /// Notes whether anything of the node at a connection is taken in; the log has it once for each reason. Gives why not.
    fn judge(&mut self, link: L) -> Option<String> {
        let (node, said) = *self.links.get(&link)?;
        let objection = self.objection(said);
        match &objection {
            None => _ = self.refused.remove(&node),
            Some(reason) => {
                if self.refused.insert(node, reason.clone()).as_ref() != Some(reason) {
                    tracing::error!(%node, "nothing of this node is taken in: {reason}");
                }
            }
        }
        objection
    }

    /// The problems, for operators: of the nodes that are in the topology, and of this one.
    pub(super) fn problems(&self, topology: &Topology) -> Vec<String> {
        let refused = self.refused.iter().filter(|(node, _)| topology.node(**node).is_some());
        let refused = refused.map(|(node, reason)| format!("nothing of {node} is taken in: {reason}"));
        refused.chain(self.hindrance.clone()).collect()
    }
}

impl Node {
    /// The configuration says that a protocol version is in force.
    pub(super) fn enter_version(&mut self, version: ProtocolVersion, turn: &mut Turn<'_>) {
        if version <= self.versions.in_force {
            return;
        }
        if !Window::OWN.contains(version) {
            let hindrance = format!(
                "protocol version {version} is in force in this cluster, and this program knows {}: start a later program",
                Window::OWN
            );
            tracing::error!("{hindrance}");
            self.versions.hindrance = Some(hindrance);
            return;
        }
        // Until the directory names it, an earlier program could be started on what this one writes.
        if let Err(error) = self.data.note_protocol_version(version) {
            let hindrance =
                format!("protocol version {version} cannot be entered until the next start: {error}");
            tracing::error!("{hindrance}");
            self.versions.hindrance = Some(hindrance);
            return;
        }
        tracing::info!(%version, "a protocol version is in force: earlier programs cannot take part any more");
        self.here.loops.hand_to_others(|| Handed::Version(version));
        self.enter_version_too(version, turn);
    }

    /// The data directory names a protocol version that is in force.
    pub(super) fn enter_version_too(&mut self, version: ProtocolVersion, turn: &mut Turn<'_>) {
        for (link, reason) in self.versions.enter(version) {
            turn.close(link, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::SiteId;
    use quorate_core::topology::Node as Place;

    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    fn said(oldest: u32, newest: u32, in_force: u32) -> Vec<Setting> {
        let told = [(OLDEST, oldest), (NEWEST, newest), (IN_FORCE, in_force)];
        told.map(|(name, value)| Setting { name: name.to_owned(), value: value.into() }).to_vec()
    }

    fn topology() -> Topology {
        let place = |id: u16| Place { id: NodeId(id), site: SiteId(0), address: format!("host{id}:7400") };
        Topology { sites: vec!["us".into()], nodes: (0..3).map(place).collect() }
    }

    /// With version 1 in force programs of before and after work together; with version 2, those that know it.
    #[test]
    fn nodes_are_taken_by_their_windows_as_a_table() {
        let other = [Setting { name: "log.beat_ms".to_owned(), value: 10 }];
        for (settings, in_one, in_two) in [
            (other.to_vec(), true, false),
            (said(1, 1, 1), true, false),
            (said(1, 2, 1), true, true),
            (said(1, 2, 2), true, true),
            (said(2, 3, 2), false, true),
            (said(3, 4, 3), false, false),
            // A cluster that is beyond what this program knows.
            (said(1, 9, 9), false, false),
        ] {
            for (in_force, is_taken) in [(1, in_one), (2, in_two)] {
                let mut versions = Versions::<u64>::new(ProtocolVersion(in_force));
                let objection = versions.hear(7, ONE, &settings);
                assert_eq!(objection.is_none(), is_taken, "{in_force} {settings:?}: {objection:?}");
                assert_eq!(versions.admits(7), is_taken, "{in_force} {settings:?}");
                assert_eq!(versions.problems(&topology()).is_empty(), is_taken);
            }
        }
    }

    #[test]
    fn a_node_that_has_said_nothing_is_one_of_the_first_version() {
        assert!(Versions::<u64>::new(ProtocolVersion(1)).admits(7));
        assert!(!Versions::<u64>::new(ProtocolVersion(2)).admits(7));
    }

    #[test]
    fn a_version_that_is_entered_ends_the_connections_of_nodes_that_do_not_know_it() {
        let mut versions = Versions::<u64>::new(ProtocolVersion(1));
        assert_eq!(versions.hear(7, ONE, &said(1, 1, 1)), None);
        assert_eq!(versions.hear(8, TWO, &said(1, 2, 1)), None);
        let ended = versions.enter(ProtocolVersion(2));
        assert_eq!(ended.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [7]);
        assert!(ended[0].1.contains("its program knows version 1: start a later program"), "{}", ended[0].1);
        assert!(!versions.admits(7) && versions.admits(8));
        assert_eq!(versions.status(), VersionsStatus { oldest: 1, newest: 3, in_force: 2 });
    }

    #[test]
    fn a_refused_node_is_a_problem_until_it_comes_with_another_program_or_is_forgotten() {
        let mut versions = Versions::<u64>::new(ProtocolVersion(2));
        versions.hear(7, ONE, &said(1, 1, 1));
        versions.forget_link(7);
        let problems = versions.problems(&topology());
        assert!(
            problems.len() == 1 && problems[0].starts_with("nothing of node1 is taken in"),
            "{problems:?}"
        );
        assert!(versions.problems(&Topology::default()).is_empty());
        versions.hear(8, ONE, &said(1, 2, 2));
        assert!(versions.problems(&topology()).is_empty());
    }
}
