//! The seeds that have caught planted bugs, one line for each bug: system, id, seed. A bug that its pinned seed still catches
//! need not be hunted.

use std::collections::BTreeMap;
use std::path::Path;

use quorate_simulator::{Hunt, Planted, SystemKind};

use crate::exit::Failure;

/// The pinned seeds of some systems.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pins(BTreeMap<(String, String), u64>);

impl Pins {
    /// Reads a file of pins.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
        Pins::parse(&text).map_err(|line| {
            let path = path.display();
            Failure::failed(format!(
                "{path}: {line:?} is no pin; a pin is a line of system, bug and seed, as in `strict T1 16`"
            ))
        })
    }

    /// Gives the pins of a text, or the first line that is none.
    fn parse(text: &str) -> Result<Self, &str> {
        let pins = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [system, plant, seed] => match seed.parse() {
                    Ok(seed) => Ok(((system.to_owned(), plant.to_owned()), seed)),
                    Err(_) => Err(line),
                },
                _ => Err(line),
            }
        });
        pins.collect::<Result<_, _>>().map(Pins)
    }

    /// The seed that has caught a bug.
    pub(super) fn seed(&self, plant: &Planted) -> Option<u64> {
        self.0.get(&(plant.system.name().to_owned(), plant.id.to_owned())).copied()
    }

    /// Puts the seeds of these hunts in place of all pins of a system.
    pub(super) fn set(&mut self, system: SystemKind, hunts: &[Hunt]) {
        self.0.retain(|(of, _), _| of != system.name());
        let caught = hunts.iter().filter_map(|hunt| Some((hunt.plant, hunt.caught.as_ref()?.seed)));
        self.0.extend(caught.map(|(plant, seed)| ((system.name().to_owned(), plant.to_owned()), seed)));
    }

    /// Writes them all to a file.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        std::fs::write(path, self.to_string())
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
    }
}

impl std::fmt::Display for Pins {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            formatter,
            "# The seed that catches each planted bug under the faults that suit it: `cargo xtask pin` writes it."
        )?;
        self.0.iter().try_for_each(|((system, plant), seed)| writeln!(formatter, "{system} {plant} {seed}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_as_they_are_written() {
        let text = "# a comment\nstrict T1 16\n\nspan-lock D1 7\n";
        let pins = Pins::parse(text).unwrap();
        assert_eq!(Pins::parse(&pins.to_string()), Ok(pins));
        for bad in ["strict T1", "strict T1 x", "strict T1 1 2"] {
            assert_eq!(Pins::parse(bad), Err(bad));
        }
    }

    #[test]
    fn a_system_whose_bugs_were_hunted_has_only_the_new_pins() {
        let mut pins = Pins::parse("strict T1 16\nspan-lock D1 7\n").unwrap();
        pins.set(SystemKind::STRICT, &[]);
        assert_eq!(pins, Pins::parse("span-lock D1 7").unwrap());
    }
}
