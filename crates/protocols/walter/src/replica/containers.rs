//! Which site lets in what is written to a register, and how that passes to another (section 4.1, and the head of [`crate::container`]).

use quorate_core::topology::container_of;

use super::Replica;
use crate::container::Container;
use crate::histories::Update;
use crate::register::Written;
use crate::rules::Plant;
use crate::vector::{LocalSite, VersionNumber};

/// The site that lets in what is written to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// This one.
    Here,
    /// This one, once the transaction has committed here that hands the container over.
    Soon(VersionNumber),
    /// This site no longer: a transaction that hands the container over is about to commit.
    Leaving,
    /// Another one, as far as is known here.
    Elsewhere(LocalSite),
}

impl Replica {
    /// The site that lets in what is written to a register.
    pub(super) fn holder(&self, key: &[u8]) -> Holder {
        let name = container_of(key);
        if self.leader.as_ref().is_some_and(|leader| leader.is_leaving(name)) {
            return Holder::Leaving;
        }
        let placed = self.state.histories.container(name, None);
        match (self.preferred_of(name, placed.and_then(|placed| placed.value.as_ref())), placed) {
            (site, _) if site != self.site => Holder::Elsewhere(site),
            (_, Some(placed)) if self.is_awaited(placed) => Holder::Soon(placed.version),
            _ => Holder::Here,
        }
    }

    /// True if the causes of what hands a container over may still be missing.
    fn is_awaited(&self, placed: &Written<Container>) -> bool {
        !self.state.committed.includes(placed.version) && !self.config.rules.has(Plant::MovesUnsettled)
    }

    /// The preferred site of an object, as far as is known here.
    pub(super) fn preferred(&self, key: &[u8]) -> LocalSite {
        let name = container_of(key);
        let placed = self.state.histories.container(name, None);
        self.preferred_of(name, placed.and_then(|placed| placed.value.as_ref()))
    }

    fn preferred_of(&self, name: &[u8], container: Option<&Container>) -> LocalSite {
        container.map_or_else(|| self.config.preferred(name), |container| container.preferred)
    }

    /// The site that must have an update before it is durable: it lets in what comes after it.
    pub(super) fn guardian(&self, update: &Update) -> LocalSite {
        match update {
            Update::Place { name, container } => self.preferred_of(name, container.as_ref()),
            Update::Write { .. } | Update::Add { .. } => self.preferred(update.object()),
        }
    }

    /// True if this site can hand a container over now: it has it, and no transaction is under way that writes to it. What this site has let in
    /// comes before, and so does all that has committed here.
    pub(super) fn can_hand_over(&self, name: &[u8]) -> bool {
        let Some(leader) = &self.leader else { return false };
        let mut under_way = leader.held().chain(self.state.locked());
        let is_settled = under_way.all(|key| container_of(key) != name);
        self.holder(name) == Holder::Here && (is_settled || self.config.rules.has(Plant::MovesUnsettled))
    }
}
