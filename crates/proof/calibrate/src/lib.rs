//! The cost of work on this machine, for processors in the simulator, and whether a simulation with these costs behaves as real servers do.
//!
//! | file | role |
//! |---|---|
//! | `machines` | the costs of operations, by their keys |
//! | `transport` | the costs of packets, messages and bytes, over loopback |
//! | `disk` | the costs of records and syncs |
//! | `compare` | the same workload on real servers and in the simulator |
//! | `fit` | costs from measurements |
//! | `processors` | the work of processors, as the operating system counts it |

mod compare;
mod disk;
mod fit;
mod machines;
mod processors;
mod transport;

use std::path::Path;
use std::time::Duration;

use quorate::Durability;
use quorate_cluster::Failure;
use quorate_simulator::world::costs::{Batching, Cost, Costs, Operation, SyncTime};
use serde::Serialize;

use compare::Case;
pub use compare::{Compared, Remainder, Went};
use disk::{Appended, Disk, Synced};

/// How many steps a measurement has.
pub const STEPS: u64 = 3 + compare::CASES.len() as u64;

/// So often the disk is looked at before and after it is used.
const DISK_WINDOWS: usize = 3;

/// The costs of work on this machine, and how well they explain real servers.
#[derive(Serialize)]
pub struct Report {
    /// The command that repeats the measurement.
    pub command: &'static str,
    /// The name that the processors of this machine give themselves.
    pub processor: String,
    /// How many processors there are.
    pub cores: usize,
    /// The costs, as the simulator takes them.
    pub costs: Costs,
    /// How long a sync takes.
    pub sync: SyncTime,
    /// From one process to another, in microseconds, beside the work of both.
    pub hop_us: f64,
    /// By how much the fits are off.
    pub fit_errors: Vec<FitError>,
    /// The part of the costs that only real processes show.
    pub remainder: Remainder,
    /// Real servers and simulated ones, side by side.
    pub compared: Vec<Compared>,
}

/// By how much a fit is off.
#[derive(Serialize)]
pub struct FitError {
    /// The costs that were fitted.
    pub what: String,
    /// The median, as a share of what was measured.
    pub error: f64,
}

/// The measurements of this machine and of real servers on it, not yet compared with a simulation.
pub struct Measurements {
    operations: Vec<machines::Measured>,
    transport: transport::Measured,
    appended: Appended,
    sync: Synced,
    really: Vec<(Case, Option<Synced>, Went)>,
}

/// Measures this machine, and servers of this program on it. `tell` hears how many of the [`STEPS`] are done, and which one begins.
///
/// # Errors
/// If anything cannot be measured.
pub fn measure(program: &Path, tell: &dyn Fn(u64, &str)) -> Result<Measurements, Failure> {
    tell(0, "operations");
    let operations = machines::measure()?;
    tell(1, "packets, messages and bytes");
    let transport = transport::measure()?;
    tell(2, "records and syncs");
    let mut disk = Disk::new()?;
    let appended = disk.append()?;
    let mut syncs = Vec::new();
    let mut really = Vec::new();
    on_this_thread(async {
        for (done, case) in compare::CASES.into_iter().enumerate() {
            tell(3 + done as u64, &format!("{} in flight, {}", case.in_flight, case.durability.name()));
            let is_synced = case.durability == Durability::Sync;
            // The disk before and after, because a disk that others use as well changes from one minute to the next.
            let mut around = Vec::new();
            let mut look = |disk: &mut Disk| {
                for _ in 0..if is_synced { DISK_WINDOWS } else { 0 } {
                    around.push(disk.sync()?);
                }
                Ok::<_, Failure>(())
            };
            look(&mut disk)?;
            let went = compare::really(program, case).await?;
            look(&mut disk)?;
            really.push((case, Synced::quietest(&around), went));
            syncs.extend(around);
        }
        Ok::<_, Failure>(())
    })??;
    let Some(sync) = Synced::quietest(&syncs) else { return Err(Failure::failed("no disk was measured")) };
    Ok(Measurements { operations, transport, appended, sync, really })
}

impl Measurements {
    /// Simulates with the measured costs what real servers have done, and reports both.
    pub fn compare(self) -> Report {
        let Measurements { operations, transport, appended, sync, really } = self;
        let mut costs = Costs {
            batching: Batching::Turns,
            wake_ns: transport.wake_ns,
            read_ns: transport.read_ns,
            write_ns: transport.write_ns,
            received: transport.received,
            sent: transport.sent,
            appended: appended.cost,
            sync_ns: sync.cpu_ns,
            operations: costs_of(&operations),
        };
        let hop = Duration::from_nanos(transport.hop_ns as u64);
        let simulated = |case, synced: Option<Synced>, costs: &Costs| {
            let synced = synced.unwrap_or(sync);
            let costs = Costs { sync_ns: synced.cpu_ns, ..costs.clone() };
            compare::simulated(case, &costs, synced.time, hop)
        };
        let mut remainder = Remainder::default();
        if let Some((case, synced, real)) = really.first() {
            remainder = Remainder::between(real, &simulated(*case, *synced, &costs));
            costs = remainder.added_to(&costs);
        }
        let compared = really.into_iter().enumerate().map(|(place, (case, synced, real))| Compared {
            durability: case.durability.name(),
            in_flight: case.in_flight,
            fitted: place == 0,
            real,
            simulated: simulated(case, synced, &costs),
        });
        Report {
            command: "quorate sim --calibrate",
            processor: processor(),
            cores: compare::cores(),
            compared: compared.collect(),
            costs,
            sync: sync.time,
            hop_us: transport.hop_ns / 1e3,
            fit_errors: fit_errors(&operations, transport.error, appended.error),
            remainder,
        }
    }
}

/// Runs a future to its end, on this thread.
fn on_this_thread<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("the async runtime cannot start: {error}")))?;
    Ok(runtime.block_on(work))
}

/// The cost of each operation, in their order; one that was not met costs as much as the cheapest that was.
fn costs_of(operations: &[machines::Measured]) -> [Cost; Operation::ALL.len()] {
    let met = || operations.iter().filter(|measured| measured.samples > 0);
    let cheapest = met().map(|measured| measured.cost.base_ns).fold(f64::INFINITY, f64::min);
    Operation::ALL.map(|operation| {
        let found = met().find(|measured| measured.operation == operation);
        found.map_or(Cost::new(cheapest, 0.0), |measured| measured.cost)
    })
}

fn fit_errors(operations: &[machines::Measured], transport: f64, append: f64) -> Vec<FitError> {
    let measured = operations.iter().filter(|measured| measured.samples > 0);
    let operations = measured.map(|measured| (name(measured.operation), measured.error));
    let others = [("transport", transport), ("append", append)].map(|(what, error)| (what.to_owned(), error));
    operations.chain(others).map(|(what, error)| FitError { what, error }).collect()
}

/// The name that the processors of this machine give themselves.
fn processor() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("unknown", |(_, name)| name.trim()).to_owned()
}

/// The name of an operation, as reports have it.
pub fn name(operation: Operation) -> String {
    format!("{operation:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_was_not_met_costs_as_much_as_the_cheapest_that_was() {
        let measured = |operation, base_ns, samples| machines::Measured {
            operation,
            cost: Cost::new(base_ns, 1.0),
            error: 0.0,
            samples,
        };
        let costs = costs_of(&[
            measured(Operation::Control, 0.0, 0),
            measured(Operation::Prepare, 900.0, 64),
            measured(Operation::Reply, 500.0, 64),
        ]);
        assert_eq!(costs[Operation::Prepare as usize], Cost::new(900.0, 1.0));
        for unmet in [Operation::Control, Operation::Commit] {
            assert_eq!(costs[unmet as usize], Cost::new(500.0, 0.0));
        }
    }
}
