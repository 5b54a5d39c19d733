//! Deterministic workloads: what transactions do, written once for the simulator and for real clusters.
//!
//! ```text
//!    Workload ──next(random)──▶ Plan ──Execution::new(fresh values)──▶ Execution
//!                                                                        │ ▲
//!                                    Step: get, scan, put, commit        ▼ │ what was read
//!                                                                   a simulated or a real client
//! ```
//!
//! A [`Workload`] draws transactions from a seeded generator; a [`Plan`] says what one transaction does; an
//! [`Execution`] is one attempt at it, a small state machine that says what to do next and is told what was read. It
//! knows no client, so a simulated and a real one run the same code, and it ends with the micro-operations that a
//! history records. A plan that is known beforehand can be carried out as one batch instead ([`Execution::all_at_once`]).
//!
//! | workload | what | source |
//! |---|---|---|
//! | [`rmw`] | one key is read and written | TAPIR paper, section 7.3 |
//! | [`writes`] | one key is written | what a commit costs by itself |
//! | [`retwis`] | a social network: users, followers, posts, timelines | TAPIR paper, section 7.4 |
//! | [`ycsb_t`] | a closed economy: balances are read, money is moved | YCSB+T (Dey et al., 2014) |
//! | [`counters`] | increments, each transaction one batch | Granola paper, section 6 |
//! | [`waltsocial`] | a social network over counting sets: friends, walls, events, albums | Walter paper, section 8.6 |
//! | [`retwis_psi`] | a Twitter clone over counting sets | Walter paper, section 8.7 |
//! | [`hotspot`] | ten keys are read and updated, most of them hot | STR paper, section 8.1 |
//! | [`lists`] | conflicts on purpose: appends, registers, scans, absent keys | the judged workload of simulator and demo |
//!
//! | module | what they share |
//! |---|---|
//! | [`workload`] | their names and parameters |
//! | [`operation`], [`execution`] | what a transaction does, as data, and one attempt at it |
//! | [`social`] | what belongs to the users of social networks, where they are at home, and what must hold |
//! | [`key`], [`value`], [`unique`] | how keys are named, what they hold, and values that are never written twice |
//! | [`zipf`] | which keys are popular |
//! | [`thinking`] | how long users think |

pub mod counters;
pub mod execution;
pub mod hotspot;
pub mod key;
pub mod lists;
pub mod operation;
pub mod retwis;
pub mod retwis_psi;
pub mod rmw;
pub mod social;
pub mod thinking;
pub mod unique;
pub mod value;
pub mod waltsocial;
pub mod workload;
pub mod writes;
pub mod ycsb_t;
pub mod zipf;

pub use execution::{Execution, Step, Unread};
pub use hotspot::Hotspot;
pub use operation::{Element, Elements, Operation, Plan, Scan, Spread};
pub use unique::UniqueValues;
pub use value::{Content, Undecodable};
pub use workload::{Parameters, Workload, WorkloadKind};
pub use zipf::{Distribution, Popularity};

use quorate_checker::Level;
use quorate_core::topology::{Isolation, SerialOrder};

/// The level at which the histories of keyspaces of an isolation are judged. The checker itself knows no isolations.
pub const fn level(isolation: Isolation) -> Level {
    match isolation {
        Isolation::Strict => Level::StrictSerializable,
        Isolation::Serializable => Level::SessionSerializable,
        Isolation::ParallelSnapshot => Level::WalterPsi,
        Isolation::Snapshot => Level::SessionSi,
    }
}

/// The same in keyspaces whose transactions are serialized in this order, if they are strict.
pub const fn level_in(isolation: Isolation, order: SerialOrder) -> Level {
    match (isolation, order) {
        (Isolation::Strict, SerialOrder::Timestamps) => Level::Serializable,
        (_, SerialOrder::RealTime | SerialOrder::Timestamps) => level(isolation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_timestamps_promises_less_in_strict_keyspaces_alone() {
        for isolation in Isolation::ALL {
            assert_eq!(level_in(isolation, SerialOrder::RealTime), level(isolation));
            let expected =
                if isolation == Isolation::Strict { Level::Serializable } else { level(isolation) };
            assert_eq!(level_in(isolation, SerialOrder::Timestamps), expected);
        }
    }
}
