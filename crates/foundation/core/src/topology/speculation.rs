//! How much the transactions of a keyspace speculate, where they run at nodes (ADR 0050).

use std::fmt;
use std::str::FromStr;

use super::UnknownName;

/// The systems that the paper on STR compares in section 8: settings of one implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpeculationVariant {
    /// Clock-SI with replication: nothing is speculated.
    ClockSi,
    /// PLANET on the same: one result is shown before it is final.
    Planet,
    /// Transactions read from others of their node that are not final.
    StrInternal,
    /// And chains of results are shown before they are final.
    #[default]
    StrExternal,
}

impl SpeculationVariant {
    /// Every variant.
    pub const ALL: [SpeculationVariant; 4] = [
        SpeculationVariant::ClockSi,
        SpeculationVariant::Planet,
        SpeculationVariant::StrInternal,
        SpeculationVariant::StrExternal,
    ];

    /// True if clients may be shown results before they are final.
    pub const fn shows(self) -> bool {
        matches!(self, SpeculationVariant::Planet | SpeculationVariant::StrExternal)
    }

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            SpeculationVariant::ClockSi => "clock-si",
            SpeculationVariant::Planet => "planet",
            SpeculationVariant::StrInternal => "str-internal",
            SpeculationVariant::StrExternal => "str-external",
        }
    }
}

impl fmt::Display for SpeculationVariant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for SpeculationVariant {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        SpeculationVariant::ALL.into_iter().find(|variant| variant.name() == name).ok_or_else(|| {
            UnknownName {
                what: "variant",
                given: name.to_owned(),
                choices: SpeculationVariant::ALL.map(SpeculationVariant::name).join(", "),
            }
        })
    }
}

/// How transactions speculate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Speculation {
    /// How much.
    pub variant: SpeculationVariant,
    /// True if a transaction is aborted whose client had been shown an earlier one that became final above its snapshot: then sessions are
    /// in order in every snapshot.
    pub orders_sessions: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_names_and_others_are_refused() {
        for variant in SpeculationVariant::ALL {
            assert_eq!(variant.name().parse(), Ok(variant));
        }
        let refused = "str".parse::<SpeculationVariant>().unwrap_err().to_string();
        assert!(
            refused.contains("\"str\"") && refused.contains("clock-si, planet, str-internal, str-external"),
            "{refused}"
        );
        assert_eq!(SpeculationVariant::default().name(), "str-external");
    }
}
