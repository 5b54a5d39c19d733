//! The faults and their times: everything is drawn from the seed.

use std::time::Duration;

use quorate_core::Random;

use super::fault::Fault;
use super::network::Place;
use super::operator::Wish;

/// One fault that strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strike {
    /// The fault.
    pub(crate) fault: Fault,
    /// The fault.
    pub(crate) blow: Blow,
    /// How long it lasts.
    pub(crate) lasts: Duration,
    /// How long to wait before the next one, if strikes overlap.
    pub(crate) pause: Duration,
}

impl Strike {
    /// A node is stopped in good order, and started again as soon as it has ended.
    pub(crate) fn restart(node: usize) -> Self {
        let (lasts, pause) = (Duration::ZERO, Duration::ZERO);
        Strike { fault: Fault::Restarts, blow: Blow::Stop(node), lasts, pause }
    }
}

/// A fault of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// These nodes are killed.
    Kill(Vec<usize>),
    /// A node is killed and what it has stored is removed.
    Wipe(usize, Wipe),
    /// A node is asked to stop.
    Stop(usize),
    /// A node stands still.
    Pause(usize),
    /// Nothing passes over these links, each from the first place to the second.
    Cut(Vec<(Place, Place)>),
    /// The messages of a node take so much longer.
    Slow(usize, Duration),
    /// The connections of a node break.
    Break(usize),
    /// The clients in the site of this node vanish.
    VanishClients(usize),
    /// The membership is changed.
    Change(Wish),
}

/// How much of what a node has stored is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wipe {
    /// Its data directory.
    Disk,
    /// The logs of all its replicas, but not the marks that they existed.
    Logs,
}

/// Draws one strike after the other.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    random: Random,
    faults: Vec<Fault>,
    nodes: usize,
    clients: usize,
    /// The faults of this round that have not struck yet: in each round, every fault strikes once.
    round: Vec<Fault>,
    /// True if groups have more replicas than at first once what was drawn is done.
    has_grown: bool,
}

impl Schedule {
    /// The schedule of a cluster with so many nodes, and clients in the sites of the first so many of them.
    pub(crate) fn new(seed: u64, faults: Vec<Fault>, nodes: usize, clients: usize) -> Self {
        Schedule {
            random: Random::new(seed).fork(),
            faults,
            nodes,
            clients,
            round: Vec::new(),
            has_grown: false,
        }
    }

    /// After so many strikes each fault has struck once.
    pub(crate) fn round_len(&self) -> usize {
        self.faults.len()
    }

    /// The next strike; none if there are no faults.
    pub(crate) fn draw(&mut self) -> Option<Strike> {
        if self.round.is_empty() {
            self.round = self.faults.clone();
        }
        if self.round.is_empty() {
            return None;
        }
        let position = self.random.index(self.round.len());
        let fault = self.round.remove(position);
        let node = self.random.index(self.nodes);
        let millis = |low, high, random: &mut Random| Duration::from_millis(random.between(low, high));
        let blow = match fault {
            Fault::NodeCrashes => Blow::Kill(vec![node]),
            Fault::PowerLoss => Blow::Kill((0..self.nodes).collect()),
            Fault::EmptyDisks if self.random.chance(0.5) => Blow::Wipe(node, Wipe::Disk),
            Fault::EmptyDisks => Blow::Wipe(node, Wipe::Logs),
            Fault::Restarts => Blow::Stop(node),
            Fault::Pauses => Blow::Pause(node),
            Fault::Partitions => {
                let links = self.others(Place::Node(node));
                Blow::Cut(links.iter().flat_map(|other| both_ways(Place::Node(node), *other)).collect())
            }
            Fault::OneWayPartitions => Blow::Cut(self.one_way(node)),
            Fault::DelaySpikes => Blow::Slow(node, millis(20, 1_500, &mut self.random)),
            Fault::BrokenConnections => Blow::Break(node),
            Fault::ClientCrashes => Blow::VanishClients(self.random.index(self.clients)),
            Fault::Membership => {
                self.has_grown = !self.has_grown;
                Blow::Change(if self.has_grown { Wish::Grow } else { Wish::Vacate(node) })
            }
        };
        let lasts = match fault {
            Fault::Partitions | Fault::OneWayPartitions => millis(300, 3_000, &mut self.random),
            Fault::BrokenConnections | Fault::Membership => Duration::ZERO,
            _ => millis(50, 1_500, &mut self.random),
        };
        let pause = millis(50, 1_200, &mut self.random);
        Some(Strike { fault, blow, lasts, pause })
    }

    /// One link of a node, or all that it sends, or all that it receives.
    fn one_way(&mut self, node: usize) -> Vec<(Place, Place)> {
        let here = Place::Node(node);
        let others = self.others(here);
        match self.random.below(3) {
            0 => vec![(here, others[self.random.index(others.len())])],
            1 => others.into_iter().map(|other| (here, other)).collect(),
            _ => others.into_iter().map(|other| (other, here)).collect(),
        }
    }

    fn others(&self, here: Place) -> Vec<Place> {
        let nodes = (0..self.nodes).map(Place::Node).filter(|other| *other != here);
        nodes.chain((0..self.clients).map(Place::Clients)).collect()
    }
}

fn both_ways(one: Place, other: Place) -> [(Place, Place); 2] {
    [(one, other), (other, one)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn strikes(seed: u64, count: usize) -> Vec<Strike> {
        let mut schedule = Schedule::new(seed, Fault::ALL.to_vec(), 3, 3);
        (0..count).map(|_| schedule.draw().unwrap()).collect()
    }

    #[test]
    fn the_same_seed_strikes_the_same() {
        assert_eq!(strikes(7, 100), strikes(7, 100));
        assert_ne!(strikes(7, 100), strikes(8, 100));
    }

    #[test]
    fn every_fault_strikes_once_in_each_round() {
        for round in strikes(1, 5 * Fault::ALL.len()).chunks(Fault::ALL.len()) {
            let faults: BTreeSet<_> = round.iter().map(|strike| strike.fault).collect();
            assert_eq!(faults, Fault::ALL.into_iter().collect());
        }
        assert_eq!(Schedule::new(1, Vec::new(), 3, 3).draw(), None);
    }

    #[test]
    fn blows_of_every_shape_are_drawn() {
        let strikes = strikes(3, 1_000);
        let has = |wanted: &dyn Fn(&Blow) -> bool| strikes.iter().any(|strike| wanted(&strike.blow));
        assert!(has(&|blow| matches!(blow, Blow::Wipe(_, Wipe::Disk))));
        assert!(has(&|blow| matches!(blow, Blow::Wipe(_, Wipe::Logs))));
        assert!(has(&|blow| matches!(blow, Blow::Kill(nodes) if nodes.len() == 3)));
        for node in 0..3 {
            assert!(has(&|blow| *blow == Blow::Change(Wish::Vacate(node))), "{node}");
        }
        for links in [1, 5, 10] {
            assert!(has(&|blow| matches!(blow, Blow::Cut(cut) if cut.len() == links)), "{links}");
        }
    }
}
