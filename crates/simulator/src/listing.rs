//! Which faults can be injected and which bugs planted, in the form in which `quorate sim` lists them.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::fault::Fault;
use crate::system::{Planted, SystemKind};

/// Something that can be named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name or id.
    pub id: &'static str,
    /// The isolation or comparison system that it concerns; `any` for faults.
    pub isolation: &'static str,
    /// What it does or what goes wrong, in a sentence.
    pub what: &'static str,
    /// Where the broken rule stands in the paper; empty for faults.
    pub section: &'static str,
}

/// Every fault.
pub fn list_faults() -> Vec<Listed> {
    let listed =
        |fault: Fault| Listed { id: fault.name(), isolation: "any", what: fault.what(), section: "" };
    Fault::ALL.into_iter().map(listed).collect()
}

/// Every bug that can be planted, each with the first system that can have it.
pub fn list_plants() -> Vec<Listed> {
    let listed = |plant: Planted| Listed {
        id: plant.id,
        isolation: plant.system.name(),
        what: plant.what,
        section: plant.section,
    };
    let mut plants: Vec<Planted> = SystemKind::all().flat_map(SystemKind::plants).collect();
    // The comparison systems share most of theirs.
    let mut known = BTreeSet::new();
    plants.retain(|plant| known.insert(plant.id));
    plants.into_iter().map(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_shape_of_the_contract() {
        let plants = serde_json::to_value(list_plants()).unwrap();
        assert_eq!(plants[0]["id"], "T1");
        assert_eq!(plants[0]["isolation"], "strict");
        assert!(plants[0]["section"].as_str().unwrap().starts_with("5."));
        assert_eq!(list_faults().len(), Fault::ALL.len());
        for listed in list_faults().into_iter().chain(list_plants()) {
            assert!(!listed.what.is_empty(), "{}", listed.id);
        }
    }
}
