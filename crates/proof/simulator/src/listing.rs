//! Which faults can be injected and which bugs planted, in the form in which `quorate sim` lists them.

use serde::Serialize;

use crate::fault::Fault;
use crate::options::Faults;
use crate::system::{Planted, SystemKind};

/// Something that can be named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name or id.
    pub id: &'static str,
    /// The isolation or comparison system that it concerns; `any` for faults.
    pub isolation: &'static str,
    /// Its effect, or what goes wrong, in a sentence.
    pub what: &'static str,
    /// Where the broken rule stands in the paper; empty for faults.
    pub section: &'static str,
}

/// A system that can be simulated, as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedSystem {
    /// Its name.
    pub id: &'static str,
    /// The option of `quorate sim` that chooses it.
    pub option: String,
    /// Its description, in a few words.
    pub what: String,
}

/// Every system.
pub fn list_systems() -> Vec<ListedSystem> {
    let listed =
        |system: SystemKind| ListedSystem { id: system.name(), option: system.option(), what: system.what() };
    SystemKind::all().map(listed).collect()
}

/// Every fault, and the choice of a configuration, which stands for a few of them.
pub fn list_faults() -> Vec<Listed> {
    const SWARM: &str = "each seed draws a configuration: a few of these faults, each several times as frequent, a few kinds of transactions, \
                         small worlds and limits, faults that wait for a moment, links that are starved";
    let listed = |id, what| Listed { id, isolation: "any", what, section: "" };
    let faults = Fault::ALL.into_iter().map(|fault| listed(fault.name(), fault.what()));
    faults.chain([listed(Faults::SWARM, SWARM)]).collect()
}

/// Every bug that can be planted, each with the system whose seeds are hunted for it, or the first that can have it.
pub fn list_plants() -> Vec<Listed> {
    let listed = |plant: Planted| Listed {
        id: plant.id,
        isolation: plant.system.name(),
        what: plant.what,
        section: plant.section,
    };
    let mut plants: Vec<Planted> = Vec::new();
    // The comparison systems share most of theirs.
    for plant in SystemKind::all().flat_map(SystemKind::plants) {
        match plants.iter_mut().find(|known| known.id == plant.id) {
            Some(known) if plant.is_hunted && !known.is_hunted => *known = plant,
            Some(_) => {}
            None => plants.push(plant),
        }
    }
    plants.into_iter().map(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plant_is_listed_once_and_where_it_is_hunted() {
        let listed = list_plants();
        let mut ids: Vec<_> = listed.iter().map(|plant| plant.id).collect();
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|one, other| one < other), "{ids:?}");
        for plant in SystemKind::all().flat_map(SystemKind::plants).filter(|plant| plant.is_hunted) {
            let listed = listed.iter().find(|listed| listed.id == plant.id).expect("it is listed");
            assert_eq!(listed.isolation, plant.system.name(), "{}", plant.id);
        }
    }

    #[test]
    fn lists_have_the_shape_of_the_contract() {
        let plants = serde_json::to_value(list_plants()).unwrap();
        assert_eq!(plants[0]["id"], "T1");
        assert_eq!(plants[0]["isolation"], "strict");
        assert!(plants[0]["section"].as_str().unwrap().starts_with("5."));
        assert_eq!(list_faults().len(), Fault::ALL.len() + 1);
        assert!(list_faults().iter().all(|listed| listed.id.parse::<Faults>().is_ok()));
        for listed in list_faults().into_iter().chain(list_plants()) {
            assert!(!listed.what.is_empty(), "{}", listed.id);
        }
    }
}
