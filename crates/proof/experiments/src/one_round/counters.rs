//! The micro-benchmark (section 6.1): each transaction adds to a counter of one repository, or of two.

use std::collections::BTreeMap;

use quorate_core::{Key, Random, Value};
use quorate_granola::Class;
use quorate_procedure::Procedure;
use quorate_serializable_shard::{Batch, Library, Operation, Step};

use super::deployment::Deployment;
use super::load::{Source, Transaction};
use super::world::Application;

/// Counters, without procedures.
#[derive(Clone, Copy, Debug)]
pub struct Counters;

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

impl Application for Counters {
    type Library = AnyOrder;

    fn nanoseconds(_: &Value) -> usize {
        INCREMENT_NS
    }
}

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

impl Source for Additions {
    fn draw(&mut self, session: usize, random: &mut Random) -> Transaction {
        let key = match random.chance(self.conflicting) {
            true => "shared".to_owned(),
            false => format!("private{session}"),
        };
        let step = Step::Increment { key: Key::from(key.as_bytes()), by: 1 };
        let operation = Operation::Batch(Batch { conditions: Vec::new(), steps: vec![step] }).encode();
        let first = random.index(self.repositories);
        let mut parts = BTreeMap::from([(Deployment::shard(first), operation.clone())]);
        if self.repositories > 1 && random.chance(self.distributed) {
            let other = (first + 1 + random.index(self.repositories - 1)) % self.repositories;
            parts.insert(Deployment::shard(other), operation);
        }
        Transaction { parts, class: Class::Independent, kind: "add" }
    }

    fn population(&self) -> Vec<Transaction> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::Window;
    use crate::one_round::deployment::Coordination;
    use crate::one_round::load::{Measured, run};

    const WINDOW: Window = Window { warm_up: Duration::from_millis(20), measured: Duration::from_millis(50) };

    fn measured(coordination: Coordination, distributed: f64, conflicting: f64) -> Measured {
        let deployment =
            Deployment { slowness: 4.0, sessions_per_client: 4, ..Deployment::new(coordination, 2) };
        let mut source = Additions { repositories: 2, distributed, conflicting };
        let measured = run::<Counters>(&deployment, &mut source, 1, WINDOW, false);
        assert_eq!(measured.lost, 0);
        measured
    }

    #[test]
    fn only_what_locks_minds_conflicts() {
        for coordination in [Coordination::Locking, Coordination::Sinfonia] {
            let (apart, together) = (measured(coordination, 1.0, 0.0), measured(coordination, 1.0, 1.0));
            assert_eq!(apart.conflicts, 0);
            assert!(together.conflicts > 0);
            assert!(together.throughput() < apart.throughput() / 3.0, "{}", coordination.name());
        }
        let (apart, together) =
            (measured(Coordination::Timestamps, 1.0, 0.0), measured(Coordination::Timestamps, 1.0, 1.0));
        assert_eq!(together.conflicts, 0);
        assert!(together.throughput() > apart.throughput() * 0.9);
    }

    #[test]
    fn a_dedicated_coordinator_costs_a_message_delay() {
        let alone = |coordination| {
            let plain = Deployment::new(coordination, 2);
            let delay = Duration::from_millis(10);
            let deployment = Deployment {
                clients: 1,
                sessions_per_client: 1,
                delay,
                delay_of_replicas: Duration::ZERO,
                clock_error: Duration::ZERO,
                ..plain
            };
            let window = Window { warm_up: Duration::ZERO, measured: Duration::from_secs(2) };
            let mut source = Additions { repositories: 2, distributed: 1.0, conflicting: 0.0 };
            run::<Counters>(&deployment, &mut source, 1, window, false).latency_ms(true)
        };
        let delays = |latency: f64| (latency / 10.0).round();
        assert_eq!(delays(alone(Coordination::Timestamps)), 3.0);
        assert_eq!(delays(alone(Coordination::Locking)), 3.0);
        assert_eq!(delays(alone(Coordination::Sinfonia)), 4.0);
    }
}
