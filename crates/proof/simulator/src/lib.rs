//! The simulator: whole clusters in virtual time, under faults, from one seed.
//!
//! A seed derives everything ([`scenario`]): shards, replicas, distances, the workload, faults, time-outs. The machines
//! are the ones that servers and clients run; only what is around them is simulated ([`world`]). When faults have ended,
//! everything must end, and what clients saw and replicas hold is judged ([`invariants`]). The same seed gives the same
//! execution, so a seed in a report is a bug that can be repeated.
//!
//! | file | role |
//! |---|---|
//! | [`options`], [`scenario`] | what to simulate, and what a seed makes of it |
//! | [`swarm`] | few features in each seed, and those frequent |
//! | `modes` | limits that are as small as can be, and load without measure |
//! | [`world`] | virtual time, network, clocks, processors, disks: knows no protocol |
//! | [`calibrated`] | what work costs, as measured on real servers |
//! | [`system`] | which protocols can be simulated, and what has to be known of each |
//! | [`cluster`], [`clients`] | replicas and coordinators in the world, and the sessions that use them |
//! | [`fault`], [`injector`] | what can go wrong, and when it does |
//! | `membership`, `definers` | who the replicas are while it runs, who learns of that, and the operators that define it |
//! | `site_loss`, `shard_loss`, `accepted_loss` | what is lost for good, and the operators that say so |
//! | [`hosts`] | what nodes do beside their machines: what they refuse, how much waits for links, which version they run |
//! | `attic` | where replicas keep values that do not fit into memory |
//! | [`amnesia`] | nodes that forget, and what is made of that |
//! | `operator` | compares what replicas hold, while it runs |
//! | `healthy_core` | what must work although all else stays broken |
//! | [`crash_points`] | crashes at every step of small clusters |
//! | [`mod@run`] | the phases of a run |
//! | [`invariants`] | what must hold, one file each |
//! | `clock_watch` | what clocks that are far off must not do, while a seed runs |
//! | [`report`] | what was found |
//! | [`listing`] | which faults and plants there are |
//! | [`mod@hunt`] | whether planted bugs are caught |
//!
//! Processors take no time in most seeds, and links carry what there is at once, unless a fault makes them slow.

mod accepted_loss;
pub mod amnesia;
mod attic;
mod backups;
pub mod calibrated;
pub mod clients;
mod clock_watch;
pub mod cluster;
mod consumers;
pub mod crash_points;
mod definers;
pub mod fault;
mod healthy_core;
pub mod hosts;
pub mod hunt;
pub mod injector;
pub mod invariants;
pub mod listing;
pub mod membership;
mod modes;
mod operator;
pub mod options;
mod reachability;
pub mod report;
pub mod run;
pub mod scenario;
mod shard_loss;
mod site_loss;
pub mod swarm;
pub mod system;
pub mod users;
pub mod world;

pub use fault::Fault;
pub use hunt::{Hunt, hunt};
pub use invariants::Invariant;
pub use listing::{Listed, ListedSystem, list_faults, list_plants, list_systems};
pub use options::{Faults, Options, baseline_named, plant_named};
pub use report::{Configured, Happened, Report, Sample, SeedReport, Violation};
pub use run::{SeedRun, run, run_seed};
pub use system::{Planted, SystemKind};
pub use world::trace::TraceText;
