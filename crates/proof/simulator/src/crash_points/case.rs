//! One execution with crashes at certain steps, and what is left of it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use quorate_core::topology::UnknownName;

use super::configuration::Configuration;
use crate::system::Planted;
use crate::world::disk::Crash;

/// The fate of a machine after its crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// A client never returns.
    Stays,
    /// A new incarnation of a client goes on where the old one stopped.
    Returns,
    /// A server's process restarts at once, and finds everything that was written.
    Restarts,
    /// A server loses power, and with it what was not synced; it restarts when others have settled what they could.
    LosesPower,
}

impl Aftermath {
    /// Every aftermath.
    pub const ALL: [Aftermath; 4] =
        [Aftermath::Stays, Aftermath::Returns, Aftermath::Restarts, Aftermath::LosesPower];

    /// The name, as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Aftermath::Stays => "stays-away",
            Aftermath::Returns => "returns",
            Aftermath::Restarts => "restarts",
            Aftermath::LosesPower => "loses-power",
        }
    }

    /// The part of the machine that ends with the crash.
    pub const fn crash(self) -> Crash {
        match self {
            Aftermath::Stays | Aftermath::Returns | Aftermath::Restarts => Crash::Process,
            Aftermath::LosesPower => Crash::Power,
        }
    }

    /// After how long something comes back, if anything does.
    pub const fn back_after(self) -> Option<Duration> {
        match self {
            Aftermath::Stays => None,
            Aftermath::Returns => Some(Duration::from_millis(1)),
            Aftermath::Restarts => Some(Duration::from_millis(5)),
            Aftermath::LosesPower => Some(Duration::from_millis(250)),
        }
    }
}

/// A crash at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// The number of the step in this execution.
    pub step: u64,
    /// The fate of the machine that takes it.
    pub aftermath: Aftermath,
}

/// One execution of a configuration, with crashes in the order of their steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The cluster.
    pub configuration: Configuration,
    /// The bug that is planted, if one is: not part of the name.
    pub plant: Option<Planted>,
    /// The crashes, ascending.
    pub crashes: Vec<CrashPoint>,
}

impl Case {
    /// The arguments of `quorate sim` that repeat it.
    pub fn repeat_arguments(&self) -> String {
        let plant = self.plant.as_ref().map(|plant| format!(" --plant {}", plant.id));
        format!("sim --crash-case {self}{}", plant.unwrap_or_default())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.configuration.name)?;
        for CrashPoint { step, aftermath } in &self.crashes {
            write!(formatter, ":{step}-{}", aftermath.name())?;
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = UnknownName;

    /// Reads `two-shards:17-stays-away:203-loses-power` and the like.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let unknown = |what, given: &str, choices: Vec<&str>| UnknownName {
            what,
            given: given.to_owned(),
            choices: choices.join(", "),
        };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let names = || Configuration::ALL.map(|configuration| configuration.name).to_vec();
        let configuration =
            Configuration::named(name).ok_or_else(|| unknown("configuration", name, names()))?;
        let crash = |part: &str| {
            let point = part.split_once('-').and_then(|(step, name)| {
                let aftermath = Aftermath::ALL.into_iter().find(|aftermath| aftermath.name() == name)?;
                Some(CrashPoint { step: step.parse().ok()?, aftermath })
            });
            let choices = || Aftermath::ALL.map(Aftermath::name).to_vec();
            point
                .ok_or_else(|| unknown("crash (the number of a step, a hyphen, and one of)", part, choices()))
        };
        let crashes: Vec<CrashPoint> = parts.map(crash).collect::<Result<_, _>>()?;
        if !crashes.is_sorted_by(|one, other| one.step < other.step) {
            return Err(unknown("order of crashes", text, vec!["ascending steps"]));
        }
        Ok(Case { configuration, plant: None, crashes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_they_are_written() {
        for text in ["one-shard", "two-shards:17-stays-away", "five-replicas:3-returns:90-loses-power"] {
            assert_eq!(text.parse::<Case>().map(|case| case.to_string()), Ok(text.to_owned()));
        }
        for text in ["three-shards", "one-shard:x-returns", "one-shard:5", "one-shard:9-returns:9-restarts"] {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
    }
}
