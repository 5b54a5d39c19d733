//! Versions that meet: nodes that run this version, and nodes that run a later one. There is no later version yet, so what it says that
//! this one does not know is made up: fields in every message, packets of other kinds beside it. A message of this version that one
//! before it does not know is passed over where either end is of the earlier version.

use quorate_core::Random;

use super::{Envelope, Fabric, Protocol, World};
use crate::fault::Fault;

/// Which version each node runs.
pub struct Versions<P: Protocol> {
    /// Per node: true if that is the later one.
    later: Vec<bool>,
    /// True if nodes refuse messages in which there is something that they do not know: a mistake.
    refuses_unknown: bool,
    said: P::Later,
    random: Random,
}

impl<P: Protocol> Versions<P> {
    /// Nodes of which some run the later version.
    pub fn new(later: Vec<bool>, refuses_unknown: bool, random: Random) -> Self {
        Versions { later, refuses_unknown, said: P::Later::default(), random }
    }

    /// True if a node runs the later version.
    pub fn is_later(&self, node: usize) -> bool {
        self.later[node]
    }
}

impl<P: Protocol, A> World<P, A> {
    /// From now on versions mix. At first all nodes run the same.
    pub fn set_versions(&mut self, versions: Versions<P>) {
        self.fabric.versions = Some(versions);
    }

    /// The versions of the nodes, where they mix.
    pub fn versions(&self) -> Option<&Versions<P>> {
        self.fabric.versions.as_ref()
    }

    /// A node runs the later version from now on; false if it did, or versions do not mix.
    pub fn upgrade(&mut self, node: usize) -> bool {
        let Some(versions) = &mut self.fabric.versions else { return false };
        let is_new = !std::mem::replace(&mut versions.later[node], true);
        if is_new {
            self.note(|| format!("node {node} runs the later version"));
        }
        is_new
    }
}

impl<P: Protocol, A> Fabric<P, A> {
    /// The message that the receiver reads of one between nodes of any two versions; none if it passes it over.
    pub(super) fn between_versions(
        &mut self,
        from: usize,
        to: usize,
        envelope: Envelope<P::Message>,
    ) -> Option<Envelope<P::Message>> {
        let Some(versions) = &mut self.versions else { return Some(envelope) };
        let (sender, receiver) = (versions.later[from], versions.later[to]);
        let is_passed_over = P::is_new(&envelope.message) && !(sender && receiver);
        let is_refused = versions.refuses_unknown && sender && !receiver;
        if sender != receiver || is_passed_over {
            self.network.injected.add(Fault::MixedVersions);
        }
        if is_passed_over || is_refused {
            let Envelope { from, to, message, .. } = &envelope;
            self.trace.line(self.now, || format!("{from} → {to} ✗ not known to the version  {message:?}"));
            return None;
        }
        Some(match sender {
            true => P::carry_from_later(envelope, &versions.said, &mut versions.random),
            false => envelope,
        })
    }
}
