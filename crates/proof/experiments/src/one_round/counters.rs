//! The micro-benchmark (section 6.1): each transaction adds to a counter of one repository, or of two.

use std::collections::BTreeMap;

use quorate_core::{Key, Random, Value};
use quorate_granola::Class;
use quorate_procedure::Procedure;
use quorate_serializable_shard::{Batch, Library, Operation, Step};

use super::deployment::shard;
use super::rounds::Transaction;
use super::world::Application;

/// No procedures, at shards that may execute out of order: where nobody waits for earlier timestamps they do.
#[derive(Clone, Copy, Debug)]
pub enum AnyOrder {}

impl Library for AnyOrder {
    type Module = quorate_serializable_shard::library::NoModule;

    const ALLOWS_DISORDER: bool = true;

    fn find(_: &str) -> Option<&'static (dyn Procedure + Sync)> {
        None
    }

    fn compile(_: &[u8]) -> Result<Self::Module, String> {
        Err("no procedures are deployed here".to_owned())
    }

    fn failure(_: &Self::Module) -> Option<String> {
        None
    }
}

/// How long a server takes to add to a counter.
const INCREMENT_NS: usize = 1_000;

/// Transactions that add to counters.
#[derive(Clone, Debug)]
pub struct Additions {
    /// How many repositories there are.
    pub repositories: usize,
    /// Which share of transactions concerns two of them.
    pub distributed: f64,
    /// Which share adds to a counter that all sessions share; the others to one of their own.
    pub conflicting: f64,
}

impl Application for Additions {
    type Library = AnyOrder;

    fn nanoseconds(_: &Value) -> usize {
        INCREMENT_NS
    }

    fn draw(&mut self, session: usize, random: &mut Random) -> Transaction {
        let key = match random.chance(self.conflicting) {
            true => "shared".to_owned(),
            false => format!("private{session}"),
        };
        let step = Step::Increment { key: Key::from(key.as_bytes()), by: 1 };
        let operation = Operation::Batch(Batch { conditions: Vec::new(), steps: vec![step] }).encode();
        let first = random.index(self.repositories);
        let mut parts = BTreeMap::from([(shard(first), operation.clone())]);
        if self.repositories > 1 && random.chance(self.distributed) {
            let other = (first + 1 + random.index(self.repositories - 1)) % self.repositories;
            parts.insert(shard(other), operation);
        }
        Transaction { parts, class: Class::Independent, kind: "add" }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::deployment::{Clocks, Deployment};
    use crate::load::{Measured, Window, run};
    use crate::one_round::deployment::{Coordination, Labour};

    const WINDOW: Window = Window::millis(20, 50);

    fn measured(coordination: Coordination, distributed: f64, conflicting: f64) -> Measured {
        let work = Additions { repositories: 2, distributed, conflicting };
        let costs = Labour { slowness: 4.0, ..Labour::PLAIN }.costs();
        let plain = Deployment::of_repositories(coordination, 2, work);
        let measured = run(&Deployment { costs, sessions_per_client: 4, ..plain }, 1, WINDOW);
        assert_eq!(measured.unknown, 0);
        measured
    }

    #[test]
    fn only_what_locks_minds_conflicts() {
        for coordination in [Coordination::Locking, Coordination::Sinfonia] {
            let (apart, together) = (measured(coordination, 1.0, 0.0), measured(coordination, 1.0, 1.0));
            assert_eq!(apart.retried, 0);
            assert!(together.retried > 0);
            assert!(together.throughput() < apart.throughput() / 3.0, "{}", coordination.name());
        }
        let (apart, together) =
            (measured(Coordination::Timestamps, 1.0, 0.0), measured(Coordination::Timestamps, 1.0, 1.0));
        assert_eq!(together.retried, 0);
        assert!(together.throughput() > apart.throughput() * 0.9);
    }

    #[test]
    fn a_dedicated_coordinator_costs_a_message_delay() {
        let alone = |coordination| {
            let work = Additions { repositories: 2, distributed: 1.0, conflicting: 0.0 };
            let plain = Deployment::of_repositories(coordination, 2, work);
            let deployment = Deployment {
                clients: 1,
                sessions_per_client: 1,
                clocks: Clocks::Ahead(Duration::ZERO),
                ..plain.delayed(Duration::from_millis(10), Duration::ZERO)
            };
            run(&deployment, 1, Window::millis(0, 2_000)).mean_latency_ms()
        };
        let delays = |latency: f64| (latency / 10.0).round();
        assert_eq!(delays(alone(Coordination::Timestamps)), 3.0);
        assert_eq!(delays(alone(Coordination::Locking)), 3.0);
        assert_eq!(delays(alone(Coordination::Sinfonia)), 4.0);
    }
}
