//! The options of a simulation.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use quorate_core::topology::{SerialOrder, SpeculationVariant, UnknownName};
use quorate_workloads::WorkloadKind;

use crate::fault::Fault;
use crate::system::{Planted, SystemKind};

/// Which faults seeds may inject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Faults {
    /// None at all.
    None,
    /// Each seed draws some of all.
    All,
    /// Each seed draws a configuration: few features, and those frequent (see [`swarm`](crate::swarm)).
    Swarm,
    /// Each seed injects exactly these.
    Named(Vec<Fault>),
}

impl Faults {
    /// The name of [`Faults::Swarm`].
    pub const SWARM: &'static str = "swarm";
}

impl fmt::Display for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Faults::None => formatter.write_str("none"),
            Faults::All => formatter.write_str("all"),
            Faults::Swarm => formatter.write_str(Faults::SWARM),
            Faults::Named(faults) => {
                let names: Vec<&str> = faults.iter().map(|fault| fault.name()).collect();
                formatter.write_str(&names.join(","))
            }
        }
    }
}

impl FromStr for Faults {
    type Err = UnknownName;

    /// Reads `none`, `all`, `swarm` or names with commas between them.
    fn from_str(names: &str) -> Result<Self, UnknownName> {
        match names {
            "none" => Ok(Faults::None),
            "all" => Ok(Faults::All),
            Faults::SWARM => Ok(Faults::Swarm),
            _ => {
                let mut faults: Vec<Fault> = names.split(',').map(str::parse).collect::<Result<_, _>>()?;
                faults.sort_unstable();
                faults.dedup();
                Ok(Faults::Named(faults))
            }
        }
    }
}

/// The systems and seeds to simulate, and how strictly.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which system is simulated.
    pub system: SystemKind,
    /// The seeds, both ends included.
    pub seeds: RangeInclusive<u64>,
    /// Which faults are injected.
    pub faults: Faults,
    /// A bug to plant; the simulation should then find a violation.
    pub plant: Option<Planted>,
    /// True if some seeds run the serializable variant, and are judged as that.
    pub variants: bool,
    /// The workload; none lets each seed draw one.
    pub workload: Option<WorkloadKind>,
    /// The variant of `snapshot` keyspaces; none lets each seed draw one.
    pub speculation: Option<SpeculationVariant>,
    /// The serial order of `strict` keyspaces; none lets some seeds run that of timestamps.
    pub order: Option<SerialOrder>,
    /// True if TPC-C runs beside the workload in every seed, of a system that runs procedures; else in some.
    pub tpcc: bool,
    /// Every so many seeds, beginning with the first, one is run twice to see that its trace is the same (I8). Zero:
    /// never.
    pub repeat_every: u64,
    /// How many times as long as usual each seed runs, with as many times the transactions: what only shows after a while
    /// shows then.
    pub length: u64,
}

impl Options {
    /// The id of the bug that is planted, if one is.
    pub fn plant_id(&self) -> Option<&'static str> {
        self.plant.as_ref().map(|planted| planted.id)
    }

    /// All faults, no plant, any workload, and every fifth seed repeated.
    pub fn new(seeds: RangeInclusive<u64>) -> Self {
        Options {
            system: SystemKind::STRICT,
            seeds,
            faults: Faults::All,
            plant: None,
            variants: true,
            workload: None,
            speculation: None,
            order: None,
            tpcc: false,
            repeat_every: 5,
            length: 1,
        }
    }

    /// Every fault that some seed may inject.
    pub fn possible_faults(&self) -> Vec<Fault> {
        let is_possible = |fault: &Fault| self.system.can_strike(*fault);
        match &self.faults {
            Faults::None => Vec::new(),
            Faults::All | Faults::Swarm => Fault::ALL.into_iter().filter(is_possible).collect(),
            Faults::Named(faults) => faults.clone(),
        }
    }

    /// The arguments of `quorate sim` that repeat one seed.
    pub fn repeat_arguments(&self, seed: u64) -> String {
        let mut arguments = format!("sim {} --seed {seed}", self.system.option());
        arguments.push_str(&format!(" --faults {}", self.faults));
        if let Some(plant) = &self.plant {
            arguments.push_str(&format!(" --plant {}", plant.id));
        }
        if let Some(workload) = self.workload {
            arguments.push_str(&format!(" --workload {workload}"));
        }
        if let Some(variant) = self.speculation {
            arguments.push_str(&format!(" --variant {variant}"));
        }
        if let Some(order) = self.order {
            arguments.push_str(&format!(" --order {order}"));
        }
        if self.tpcc {
            arguments.push_str(" --tpcc");
        }
        if self.length != 1 {
            arguments.push_str(&format!(" --length {}", self.length));
        }
        arguments
    }
}

/// The plant with this id, in whatever system.
///
/// # Errors
/// There is none.
pub fn plant_named(id: &str) -> Result<Planted, UnknownName> {
    let plants = || SystemKind::all().flat_map(SystemKind::plants);
    plants().find(|plant| plant.id == id).ok_or_else(|| UnknownName {
        what: "plant",
        given: id.to_owned(),
        choices: plants().map(|plant| plant.id).collect::<Vec<_>>().join(", "),
    })
}

/// The comparison system with this name.
///
/// # Errors
/// There is none.
pub fn baseline_named(name: &str) -> Result<SystemKind, UnknownName> {
    name.parse().map(SystemKind::Rival)
}

#[cfg(test)]
mod tests {
    use quorate_core::comparison::Rival;

    use super::*;

    #[test]
    fn faults_are_read_as_users_write_them() {
        assert_eq!("none".parse(), Ok(Faults::None));
        assert_eq!("all".parse(), Ok(Faults::All));
        assert_eq!("swarm".parse(), Ok(Faults::Swarm));
        let named = Faults::Named(vec![Fault::Loss, Fault::ClockSkew]);
        assert_eq!("clock-skew,loss,loss".parse(), Ok(named));
        for names in ["none", "all", "swarm", "loss,clock-skew"] {
            assert_eq!(names.parse::<Faults>().map(|faults| faults.to_string()), Ok(names.to_owned()));
        }
        assert!("loss,flood".parse::<Faults>().unwrap_err().to_string().contains("flood"));
    }

    #[test]
    fn what_a_system_cannot_do_is_no_fault_of_it() {
        let options = |system: SystemKind| Options { system, ..Options::new(1..=1) };
        let possible = |system| options(system).possible_faults().contains(&Fault::Membership);
        assert!(possible(SystemKind::STRICT));
        for rival in Rival::ALL {
            assert_eq!(possible(SystemKind::Rival(rival)), rival.changes_groups());
        }
        // Its coordinators leave nothing behind that anybody recovers.
        let configuration = options(SystemKind::Configuration).possible_faults();
        assert!(!configuration.contains(&Fault::RecoveryCrashes) && configuration.contains(&Fault::Loss));
        let elsewhere = [Fault::SiteLoss, Fault::ShardLoss];
        let strict: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| !elsewhere.contains(fault)).collect();
        assert_eq!(options(SystemKind::STRICT).possible_faults(), strict);
    }

    #[test]
    fn a_seed_can_be_repeated_by_command() {
        let mut options = Options::new(1..=9);
        assert_eq!(options.repeat_arguments(4), "sim --isolation strict --seed 4 --faults all");
        options.faults = Faults::Named(vec![Fault::Loss, Fault::Pauses]);
        options.plant = Some(plant_named("T21").unwrap());
        options.workload = Some(WorkloadKind::Lists);
        let expected = "sim --isolation strict --seed 4 --faults loss,pauses --plant T21 --workload lists";
        assert_eq!(options.repeat_arguments(4), expected);
        assert!(plant_named("T99").is_err());
        options = Options { order: Some(SerialOrder::Timestamps), ..Options::new(1..=9) };
        let expected = "sim --isolation strict --seed 4 --faults all --order timestamps";
        assert_eq!(options.repeat_arguments(4), expected);
        options = Options { system: baseline_named("span-occ").unwrap(), ..Options::new(1..=9) };
        assert_eq!(options.repeat_arguments(4), "sim --baseline span-occ --seed 4 --faults all");
        assert!(baseline_named("strict").is_err());
    }
}
