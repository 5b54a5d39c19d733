//! The network: how long a message takes, and what goes wrong on its way.

use std::time::Duration;

use quorate_core::{Instant, Random};

use super::links::Links;
use crate::fault::{Fault, FaultCounts};

/// The probability of each misfortune of a single message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misfortunes {
    /// It is lost.
    pub loss: f64,
    /// It arrives twice within moments.
    pub duplication: f64,
    /// It arrives again much later, within [`Network::LATE_DUPLICATE_MAX`].
    pub late_duplicate: f64,
    /// It takes up to ten times as long, so that others overtake it.
    pub reordering: f64,
    /// It takes seconds, up to [`Network::LATE_MAX`].
    pub late: f64,
    /// It is damaged on its way.
    pub corruption: f64,
}

/// When a message arrives, if it does, and when a second copy of it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// The message.
    pub first: Option<Duration>,
    /// The copy.
    pub second: Option<Duration>,
    /// True if what arrives is damaged: then nothing else does.
    pub damaged: bool,
}

/// Links between nodes.
#[derive(Debug)]
pub struct Network {
    nodes: usize,
    /// One-way delay of each link without jitter, by sender and receiver.
    delays: Vec<Duration>,
    /// The share of its delay that a message may take longer.
    jitter: f64,
    /// How many bytes a second each link carries, by sender and receiver; without bound if not stated.
    bandwidths: Vec<Option<u64>>,
    /// Until when each link carries what was sent before.
    busy_until: Vec<Instant>,
    /// The messages that wait for them.
    pub links: Links,
    /// The faults of single messages.
    pub misfortunes: Misfortunes,
    /// Links that carry nothing: how many reasons there are for it.
    cuts: Vec<u32>,
    /// By how much what a node sends is delayed.
    spikes: Vec<Duration>,
    /// By how much each link is delayed that others are preferred to, by sender and receiver.
    starved: Vec<Duration>,
    /// True if nothing is lost or overtaken between machines of one node.
    keeps_order_within_nodes: bool,
    random: Random,
    /// The faults that were injected.
    pub injected: FaultCounts,
}

impl Network {
    /// No late message takes longer.
    pub const LATE_MAX: Duration = Duration::from_secs(8);

    /// No late copy of a message arrives later.
    pub const LATE_DUPLICATE_MAX: Duration = Duration::from_secs(180);

    /// Healthy links between nodes; `delay` gives the one-way delay from one to another.
    pub fn new(nodes: usize, jitter: f64, random: Random, delay: impl Fn(usize, usize) -> Duration) -> Self {
        let links = (0..nodes * nodes).map(|link| delay(link / nodes, link % nodes));
        Network {
            nodes,
            delays: links.collect(),
            jitter,
            bandwidths: vec![None; nodes * nodes],
            busy_until: vec![Instant::START; nodes * nodes],
            links: Links::new(nodes),
            misfortunes: Misfortunes::default(),
            cuts: vec![0; nodes * nodes],
            spikes: vec![Duration::ZERO; nodes],
            starved: vec![Duration::ZERO; nodes * nodes],
            keeps_order_within_nodes: false,
            random,
            injected: FaultCounts::default(),
        }
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The one-way delay of a link, without jitter.
    pub fn delay(&self, from: usize, to: usize) -> Duration {
        self.delays[from * self.nodes + to]
    }

    /// From now on each link between two nodes carries so many bytes a second, each way.
    pub fn set_bandwidth(&mut self, bytes_per_second: u64) {
        assert!(bytes_per_second > 0, "a link that carries nothing is a cut");
        self.bandwidths.fill(Some(bytes_per_second));
    }

    /// From now on one link carries so many bytes a second in this direction.
    pub fn set_link_bandwidth(&mut self, from: usize, to: usize, bytes_per_second: u64) {
        assert!(bytes_per_second > 0, "a link that carries nothing is a cut");
        self.bandwidths[from * self.nodes + to] = Some(bytes_per_second);
    }

    /// How long a message that is sent at this instant waits until its last byte has left: for its predecessors on the link, and for
    /// its own bytes. A node reaches itself without a link, and a link that is cut takes up nothing.
    pub fn occupy(&mut self, from: usize, to: usize, at: Instant, size: impl FnOnce() -> usize) -> Duration {
        if from == to || !self.is_open(from, to) {
            return Duration::ZERO;
        }
        let free_at = self.links.free_at(from, to, at);
        let Some(bandwidth) = self.bandwidths[from * self.nodes + to] else {
            return free_at.saturating_since(at);
        };
        let takes = Duration::from_nanos(size() as u64 * 1_000_000_000 / bandwidth);
        let busy_until = &mut self.busy_until[from * self.nodes + to];
        *busy_until = free_at.max(*busy_until) + takes;
        busy_until.saturating_since(at)
    }

    /// How many bytes wait to be sent by a node, where that is bounded.
    pub fn queued_bytes(&self, node: usize, now: Instant) -> usize {
        if self.links.are_bounded() { self.links.queued_bytes(node, now) } else { 0 }
    }

    /// The connection of a link is lost, and with it what waits: nothing takes it up any more.
    pub fn lose_connection(&mut self, from: usize, to: usize, now: Instant) {
        self.links.lose(from, to, now);
        self.busy_until[from * self.nodes + to] = now;
    }

    /// From now on nothing is lost or overtaken between machines of one node, as within a process; or it may be.
    pub fn keep_order_within_nodes(&mut self, keeps: bool) {
        self.keeps_order_within_nodes = keeps;
    }

    /// True if the link carries messages.
    pub fn is_open(&self, from: usize, to: usize) -> bool {
        self.cuts[from * self.nodes + to] == 0
    }

    /// Cuts the link in this direction. Cuts add up: each needs its own [`Network::mend`].
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cuts[from * self.nodes + to] += 1;
    }

    /// Takes back one [`Network::cut`].
    pub fn mend(&mut self, from: usize, to: usize) {
        let cuts = &mut self.cuts[from * self.nodes + to];
        *cuts = cuts.saturating_sub(1);
    }

    /// Delays everything that a node sends by so much more.
    pub fn set_spike(&mut self, node: usize, extra: Duration) {
        self.spikes[node] = extra;
    }

    /// From now on these links take so much longer, each from a sender to a receiver, and no others do.
    pub fn starve(&mut self, links: impl IntoIterator<Item = (usize, usize)>, extra: Duration) {
        self.starved.fill(Duration::ZERO);
        for (from, to) in links {
            self.starved[from * self.nodes + to] = extra;
        }
    }

    /// From now on nothing goes wrong. Messages that are late already stay late.
    pub fn heal(&mut self) {
        self.misfortunes = Misfortunes::default();
        self.cuts.fill(0);
        self.spikes.fill(Duration::ZERO);
        self.starved.fill(Duration::ZERO);
        self.links.heal();
    }

    /// Draws the fate of one message.
    pub fn route(&mut self, from: usize, to: usize) -> Arrivals {
        if from == to && self.keeps_order_within_nodes {
            return Arrivals { first: Some(self.delay(from, to)), ..Arrivals::default() };
        }
        if !self.is_open(from, to) {
            return Arrivals::default();
        }
        let misfortunes = self.misfortunes;
        let first = Some(self.draw_delay(from, to));
        if self.strikes(misfortunes.corruption, Fault::CorruptedFrames) {
            return Arrivals { damaged: true, ..Arrivals::default() };
        }
        let mut arrivals = Arrivals { first, ..Arrivals::default() };
        if self.strikes(misfortunes.duplication, Fault::Duplication) {
            arrivals.second = Some(self.draw_delay(from, to) * 3);
        }
        if self.strikes(misfortunes.late_duplicate, Fault::LateDuplicates) {
            arrivals.second = Some(Self::LATE_DUPLICATE_MAX.mul_f64(self.random.unit()));
        }
        if self.strikes(misfortunes.reordering, Fault::Reordering) {
            arrivals.first = arrivals.first.map(|delay| delay.mul_f64(1.0 + 9.0 * self.random.unit()));
        }
        if self.strikes(misfortunes.late, Fault::LateMessages) {
            // Mostly fractions of a second, sometimes many: the square makes small delays likelier.
            let share = self.random.unit() * self.random.unit();
            arrivals.first = arrivals.first.map(|delay| delay + Self::LATE_MAX.mul_f64(share));
        }
        if self.strikes(misfortunes.loss, Fault::Loss) {
            arrivals.first = None;
        }
        arrivals
    }

    fn strikes(&mut self, probability: f64, fault: Fault) -> bool {
        let strikes = probability > 0.0 && self.random.chance(probability);
        if strikes {
            self.injected.add(fault);
        }
        strikes
    }

    fn draw_delay(&mut self, from: usize, to: usize) -> Duration {
        let delay = self.delay(from, to) + self.spikes[from] + self.starved[from * self.nodes + to];
        delay.mul_f64(1.0 + self.jitter * self.random.unit()) + Duration::from_nanos(self.random.below(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(misfortunes: Misfortunes) -> Network {
        let delay = |from: usize, to: usize| Duration::from_millis(10 * (1 + from.abs_diff(to) as u64));
        Network { misfortunes, ..Network::new(3, 0.1, Random::new(9), delay) }
    }

    #[test]
    fn a_healthy_link_takes_its_delay_and_some_jitter() {
        let mut network = network(Misfortunes::default());
        for _ in 0..100 {
            let arrivals = network.route(0, 2);
            let delay = arrivals.first.unwrap().as_micros();
            assert!((30_000..=33_001).contains(&delay) && arrivals.second.is_none());
        }
        assert_eq!(network.injected, FaultCounts::default());
    }

    #[test]
    fn messages_wait_for_those_before_them_on_a_narrow_link() {
        let mut network = network(Misfortunes::default());
        let at = |millis| Instant::START + Duration::from_millis(millis);
        assert_eq!(network.occupy(0, 1, at(0), || unreachable!("nobody asks")), Duration::ZERO);
        network.set_bandwidth(1_000_000);
        assert_eq!(network.occupy(0, 1, at(0), || 5_000), Duration::from_millis(5));
        assert_eq!(network.occupy(0, 1, at(1), || 1_000), Duration::from_millis(5));
        assert_eq!(network.occupy(1, 0, at(1), || 1_000), Duration::from_millis(1));
        assert_eq!(network.occupy(0, 2, at(1), || 1_000), Duration::from_millis(1));
        assert_eq!(network.occupy(0, 1, at(10), || 1_000), Duration::from_millis(1));
        assert_eq!(network.occupy(0, 0, at(10), || 1_000), Duration::ZERO);
        network.set_link_bandwidth(0, 2, 100_000);
        assert_eq!(network.occupy(0, 2, at(20), || 1_000), Duration::from_millis(10));
        assert_eq!(network.occupy(2, 0, at(20), || 1_000), Duration::from_millis(1));
    }

    #[test]
    fn a_cut_is_one_way_and_needs_as_many_mends() {
        let mut network = network(Misfortunes::default());
        network.cut(0, 1);
        network.cut(0, 1);
        network.mend(0, 1);
        assert_eq!(network.route(0, 1), Arrivals::default());
        assert!(network.route(1, 0).first.is_some());
        network.mend(0, 1);
        network.mend(0, 1);
        assert!(network.route(0, 1).first.is_some());
    }

    #[test]
    fn every_misfortune_strikes_and_is_counted_and_ends_with_healing() {
        let all = Misfortunes {
            loss: 0.3,
            duplication: 0.3,
            late_duplicate: 0.3,
            reordering: 0.3,
            late: 0.3,
            corruption: 0.3,
        };
        let mut network = network(all);
        let routes: Vec<Arrivals> = (0..1_000).map(|_| network.route(0, 1)).collect();
        for fault in [
            Fault::Loss,
            Fault::Duplication,
            Fault::LateDuplicates,
            Fault::Reordering,
            Fault::LateMessages,
            Fault::CorruptedFrames,
        ] {
            let expected = if fault == Fault::CorruptedFrames { 300 } else { 210 };
            assert!(network.injected.of(fault).abs_diff(expected) < 80, "{fault}");
        }
        let firsts = || routes.iter().filter_map(|arrivals| arrivals.first);
        assert!(firsts().count() < 800);
        assert!(firsts().any(|delay| delay > Duration::from_secs(1)));
        assert!(routes.iter().any(|arrivals| arrivals.second > Some(Duration::from_secs(60))));
        network.set_spike(0, Duration::from_secs(5));
        network.cut(0, 1);
        network.heal();
        assert!(network.route(0, 1).first.unwrap() < Duration::from_millis(30));
    }

    #[test]
    fn a_spike_delays_what_one_node_sends() {
        let mut network = network(Misfortunes::default());
        network.set_spike(0, Duration::from_secs(1));
        assert!(network.route(0, 1).first.unwrap() > Duration::from_secs(1));
        assert!(network.route(1, 0).first.unwrap() < Duration::from_secs(1));
    }

    #[test]
    fn starved_links_are_slow_until_others_are_starved() {
        let mut network = network(Misfortunes::default());
        let is_slow =
            |network: &mut Network, from, to| network.route(from, to).first.unwrap() > Duration::from_secs(1);
        network.starve([(0, 1), (2, 1)], Duration::from_secs(1));
        assert!(is_slow(&mut network, 0, 1) && is_slow(&mut network, 2, 1) && !is_slow(&mut network, 1, 0));
        network.starve([(1, 0)], Duration::from_secs(1));
        assert!(!is_slow(&mut network, 0, 1) && is_slow(&mut network, 1, 0));
        network.heal();
        assert!(!is_slow(&mut network, 1, 0));
    }

    #[test]
    fn nothing_happens_to_what_a_node_says_to_itself_if_it_is_one_process() {
        let mut network = network(Misfortunes { loss: 1.0, ..Misfortunes::default() });
        network.cut(1, 1);
        assert_eq!(network.route(1, 1).first, None);
        network.keep_order_within_nodes(true);
        let delay = network.delay(1, 1);
        assert!((0..100).all(|_| network.route(1, 1).first == Some(delay)), "all take as long");
        assert_eq!(network.route(1, 2).first, None);
    }
}
