//! The node takes over a configuration that was read again while it runs, as far as that is possible.

use std::sync::Arc;
use std::time::Duration;

use quorate_runtime::Turn;

use super::Node;
use super::loops::Handed;
use crate::{Config, Limits};

impl Node {
    /// Goes by these limits from now on. Those that sockets and threads were given when the node started stay as they are.
    pub(crate) fn set_limits(&mut self, limits: &Limits, turn: &mut Turn<'_>) {
        self.config = Arc::new(Config { limits: limits.clone(), ..Config::clone(&self.config) });
        self.here.loops.hand_to_others_if_first(|| Handed::Limits(limits.clone()));
        self.renew_clients_max(turn);
    }

    /// How long the node waits for transactions under way when it stops.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.config.limits.drain_timeout
    }

    /// A configuration that was read again cannot be used, for this reason; none if it can be.
    pub(crate) fn set_configuration_problem(&mut self, problem: Option<String>) {
        self.configuration_problem = problem;
    }
}
