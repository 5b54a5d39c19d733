//! Which site lets in what is written to a register, and how that passes to another (section 4.1, and the head of [`crate::container`]).

use quorate_core::Key;
use quorate_core::topology::container_of;

use super::Replica;
use super::leader::Leader;
use crate::container::{Container, EVERYWHERE, Replicas};
use crate::histories::Update;
use crate::register::Written;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector};

/// The site that lets in what is written to a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// This one.
    Here,
    /// This one, once this has committed here: the transaction that hands the container over, or what the site has let in that was taken
    /// out.
    Soon(Vector),
    /// No site, for now: a transaction that hands the container over is about to commit here, or to be appended; or the site still joins.
    Nobody,
    /// No site, since this one was taken out and its end is open.
    Lost(LocalSite),
    /// Another one, as far as is known here.
    Elsewhere(LocalSite),
}

/// The transactions that have to commit here before this site lets in a write to one of some registers, by their holders.
pub(super) fn awaited(holders: &[Holder]) -> Option<&Vector> {
    holders.iter().find_map(|holder| match holder {
        Holder::Soon(needs) => Some(needs),
        Holder::Here | Holder::Nobody | Holder::Lost(_) | Holder::Elsewhere(_) => None,
    })
}

impl Replica {
    /// The site that lets in what is written to a register.
    pub(super) fn holder(&self, key: &[u8]) -> Holder {
        let name = container_of(key);
        let is_leaving = |leader: &Leader| leader.is_leaving(name) || leader.writers.is_moving(name);
        if self.leader.as_ref().is_some_and(is_leaving) {
            return Holder::Nobody;
        }
        let placed = self.state.histories.container(name, None);
        let first = self.preferred_of(name, placed.and_then(|placed| placed.value.as_ref()));
        let Some((site, mut needs)) = self.state.successor(first) else { return Holder::Lost(first) };
        if self.is_returning(first) {
            return Holder::Nobody;
        }
        if self.is_frozen(site) && self.state.removal(site).is_none() {
            return Holder::Lost(site);
        }
        if site != self.site {
            return Holder::Elsewhere(site);
        }
        if !self.counts(site) {
            return Holder::Nobody;
        }
        if self.config.rules.has(Plant::BarrierIgnored) {
            needs = Vector::default();
        }
        if let Some(placed) = placed.filter(|placed| self.is_awaited(placed)) {
            needs.include(placed.version);
        }
        match self.state.committed.includes_all(&needs) {
            true => Holder::Here,
            false => Holder::Soon(needs),
        }
    }

    /// True if the causes of what hands a container over may still be missing.
    fn is_awaited(&self, placed: &Written<Container>) -> bool {
        !self.state.committed.includes(placed.version) && !self.config.rules.has(Plant::MovesUnsettled)
    }

    /// The preferred site of an object, as far as is known here; none as long as the end of the site is open that it was.
    pub(super) fn preferred(&self, key: &[u8]) -> Option<LocalSite> {
        self.state.successor(self.first_holder(key)).map(|(site, _)| site)
    }

    /// The site that lets in what is written to an object, by the name that it had at first.
    pub(super) fn first_holder(&self, key: &[u8]) -> LocalSite {
        let name = container_of(key);
        let placed = self.state.histories.container(name, None);
        self.preferred_of(name, placed.and_then(|placed| placed.value.as_ref()))
    }

    fn preferred_of(&self, name: &[u8], container: Option<&Container>) -> LocalSite {
        container.map_or_else(|| self.config.preferred(name), |container| container.preferred)
    }

    /// The container of this name in a snapshot. The successor of a site that was taken out has what that site had.
    pub(super) fn found(&self, name: &[u8], snapshot: &Vector) -> Container {
        let placed = self.state.histories.container(name, Some(snapshot));
        let first = self.preferred_of(name, placed.and_then(|placed| placed.value.as_ref()));
        let successor = self.state.successor(first);
        let replicas = self.state.histories.replicas(name, snapshot).clone();
        let stays = placed.and_then(|placed| placed.value.as_ref()).is_some_and(|container| container.stays);
        Container { preferred: successor.map_or(first, |(site, _)| site), replicas, stays }
    }

    /// The site that must have an update before it is durable: it lets in what comes after it.
    pub(super) fn guardian(&self, update: &Update) -> Option<LocalSite> {
        match update {
            Update::Place { name, container } => {
                let first = self.preferred_of(name, container.as_ref());
                self.state.successor(first).map(|(site, _)| site)
            }
            Update::Write { .. } | Update::Add { .. } | Update::Noted { .. } => {
                self.preferred(update.object())
            }
        }
    }

    /// True if the objects of a container can be where its next version says: at sites that have them, and at enough of these. A site that still joins
    /// may adopt the state of one that has not got them.
    pub(super) fn can_limit(&self, name: &[u8], container: Option<&Container>) -> bool {
        let present = self.state.histories.container(name, None).and_then(|placed| placed.value.as_ref());
        let present = present.map_or(&EVERYWHERE, |container| &container.replicas);
        let Some(Container { preferred, replicas, .. }) = container else { return present.is_all() };
        let are_ready = replicas.sites.iter().all(|site| self.counts(*site));
        let copies = |replicas: &Replicas| replicas.among(self.sites_left()).len();
        let are_enough = copies(replicas) >= self.durable_at().min(copies(present));
        replicas.has(*preferred) && replicas.are_within(present) && are_ready && are_enough
    }

    /// True if this site can hand a container over now: it has it, and no transaction is under way that writes to it. The writes that this site has
    /// let in come before, and so does all that has committed here.
    pub(super) fn can_hand_over(&self, name: &[u8]) -> bool {
        let Some(leader) = &self.leader else { return false };
        let is_meant = |key: &Key| container_of(key) == name;
        let is_settled = !leader.holds_any(is_meant) && !self.state.locked().any(is_meant);
        self.holder(name) == Holder::Here && (is_settled || self.config.rules.has(Plant::MovesUnsettled))
    }
}
