//! The faults of physical clocks.

use std::time::Duration;

use super::{Ending, Injector, Step};
use crate::cluster::{CLOCK_ERROR_MAX_MICROS, Cluster};
use crate::system::System;

/// Further than any two clocks that are merely wrong, and the greatest lead that a timestamp may have.
const FAR_MICROS_MIN: i64 = 2 * CLOCK_ERROR_MAX_MICROS + 70_000_000;

/// Further ahead than any timestamp may be dragged.
const LEAP_MICROS_MIN: u64 = 600_000_000;

/// So old a reading of a clock is that a leader goes by, beside some messages on their way: it hears a new one with each beat.
const READING_AGE_MAX: Duration = Duration::from_secs(1);

/// Six hours.
const LEAP_MICROS_MAX: u64 = 21_600_000_000;

/// Three years.
const FAR_MICROS_MAX: i64 = 100_000_000_000_000;

impl<S: System> Injector<S> {
    /// An error within the bounds of what a clock may be wrong by.
    fn draw_error(&mut self) -> i64 {
        let max = CLOCK_ERROR_MAX_MICROS;
        self.random.between(0, max as u64) as i64 - max / 2
    }

    pub(super) fn jump(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        if self.is_far(node) {
            return false;
        }
        let target = self.draw_error();
        set_error(cluster, node, target);
        cluster.world.note(|| format!("the clock of node {node} jumps to an error of {target} µs"));
        true
    }

    pub(super) fn strobe(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        if self.is_far(node) {
            return false;
        }
        let errors = [self.draw_error(), self.draw_error()];
        let left = self.random.between(4, 200) as u32;
        cluster.world.note(|| format!("the clock of node {node} jumps between errors of {errors:?} µs"));
        self.go_on_strobing(cluster, node, errors, left);
        true
    }

    pub(super) fn go_on_strobing(
        &mut self,
        cluster: &mut Cluster<S>,
        node: usize,
        errors: [i64; 2],
        left: u32,
    ) {
        if !self.is_far(node) {
            set_error(cluster, node, errors[0]);
        }
        if left > 0 {
            let step = Step::Strobe { node, errors: [errors[1], errors[0]], left: left - 1 };
            self.next_after(cluster, Duration::from_micros(200), Duration::from_millis(40), step);
        }
    }

    pub(super) fn freeze(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        let now = cluster.world.now();
        cluster.world.clock(node).freeze(now);
        cluster.world.note(|| format!("the clock of node {node} stands still"));
        self.end_after(cluster, 100, 4_000, Ending::Thaw(node))
    }

    /// The clock of a client is set far ahead, so that it must be refused; or that of a node is set as far behind, so that
    /// its replicas refuse everybody, at most f of a group at a time.
    pub(super) fn move_far(&mut self, cluster: &mut Cluster<S>) -> bool {
        let (servers, clients) = (cluster.scenario.server_nodes, cluster.scenario.clients);
        let share = self.random.unit() * self.random.unit();
        let by = FAR_MICROS_MIN + ((FAR_MICROS_MAX - FAR_MICROS_MIN) as f64 * share) as i64;
        let (node, by) = if self.random.chance(0.5) {
            (servers + self.random.index(clients), by)
        } else {
            (self.random.index(servers), -by)
        };
        if self.is_far(node) || node < servers && self.is_any_server_far(servers) {
            return false;
        }
        cluster.world.clock(node).jump(by);
        self.far.push((node, by));
        cluster.world.note(|| format!("the clock of node {node} is set {by} µs ahead"));
        self.end_after(cluster, 200, 5_000, Ending::Near(node))
    }

    /// One node at a time hosts at most one replica of each group.
    fn is_any_server_far(&self, servers: usize) -> bool {
        self.far.iter().any(|(far, _)| *far < servers)
    }

    /// The clock of a node with replicas leaps, at most f of a group at a time, so that its group must not follow.
    pub(super) fn leap(&mut self, cluster: &mut Cluster<S>) -> bool {
        let servers = cluster.scenario.server_nodes;
        let node = self.random.index(servers);
        let by = self.random.between(LEAP_MICROS_MIN, LEAP_MICROS_MAX) as i64;
        let by = if self.random.chance(0.7) { by } else { -by };
        if self.is_any_server_far(servers) || cluster.world.now() < self.next_leap {
            return false;
        }
        cluster.world.clock(node).jump(by);
        self.far.push((node, by));
        cluster.world.note(|| format!("the clock of node {node} leaps {by} µs ahead"));
        self.end_after(cluster, 20, 5_000, Ending::Near(node))
    }

    /// Sets a clock right that was far off. A client that runs there has to be replaced, because its timestamps would
    /// still be far ahead: they only ever rise.
    pub(super) fn set_right(&mut self, cluster: &mut Cluster<S>, node: usize) -> Option<usize> {
        let at = self.far.iter().position(|(far, _)| *far == node)?;
        let (_, by) = self.far.swap_remove(at);
        cluster.world.clock(node).jump(-by);
        let reading_age_max = S::hands_over_within(&cluster.scenario.settings).unwrap_or_default();
        self.next_leap = cluster.world.now()
            + reading_age_max.max(READING_AGE_MAX)
            + 2 * cluster.scenario.slow_round_trip();
        cluster.world.note(|| format!("the clock of node {node} is set right"));
        node.checked_sub(cluster.scenario.server_nodes)
    }
}

fn set_error<S: System>(cluster: &mut Cluster<S>, node: usize, error_micros: i64) {
    let now = cluster.world.now();
    let clock = cluster.world.clock(node);
    clock.jump(error_micros - clock.error_micros(now));
}
