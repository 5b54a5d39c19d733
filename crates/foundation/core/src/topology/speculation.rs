//! How much the transactions of a keyspace speculate, where they run at nodes (ADR 0050).

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

    /// True if its clients are shown chains of results before they are final, one transaction after the other.
    pub const fn has_chains(self) -> bool {
        matches!(self, SpeculationVariant::StrExternal)
    }

    /// True if there is something for a tuner to choose.
    pub const fn is_tunable(self) -> bool {
        matches!(self, SpeculationVariant::StrInternal | SpeculationVariant::StrExternal)
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

crate::names!(SpeculationVariant, "variant");

/// Where the decisions of transactions stand, which are in the log of the home of their node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decisions {
    /// In a site: three of its nodes share a home. A decision waits for no other site, and keys that a lost site has prepared wait for its return.
    #[default]
    Site,
    /// Across three sites: a node of each shares a home. A decision waits for another site, and survives the loss of one.
    AcrossSites,
}

impl Decisions {
    /// Every choice.
    pub const ALL: [Decisions; 2] = [Decisions::Site, Decisions::AcrossSites];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Decisions::Site => "site",
            Decisions::AcrossSites => "across-sites",
        }
    }
}

crate::names!(Decisions, "place for decisions");

/// Which replicas of a shard are granted snapshots to serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grants {
    /// All that are read from. Reads are served by the nearest replica, and commits wait for the votes of all of these.
    #[default]
    All,
    /// The leader alone. Reads go to it, and commits wait for a majority.
    Leader,
}

impl Grants {
    /// Every choice.
    pub const ALL: [Grants; 2] = [Grants::All, Grants::Leader];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Grants::All => "all",
            Grants::Leader => "leader",
        }
    }
}

crate::names!(Grants, "choice of replicas that serve reads");

/// How transactions speculate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Speculation {
    /// How much.
    pub variant: SpeculationVariant,
    /// True if a transaction is aborted whose client had been shown an earlier one that became final above its snapshot: then sessions are
    /// in order in every snapshot.
    pub orders_sessions: bool,
    /// So many transactions of one session may be shown and not settled, from 0, which is none, to [`Speculation::CHAIN_MAX`]; by default the latter. For
    /// variants that have chains.
    pub chain_max: Option<u8>,
    /// True if nodes always speculate as much as the variant and the chains allow. Else, where the variant speculates, each has a tuner, which chooses how
    /// much of that brings the most final commits.
    pub untuned: bool,
    /// Where decisions stand.
    pub decisions: Decisions,
    /// Which replicas serve reads.
    pub grants: Grants,
}

impl Speculation {
    /// No chain is longer.
    pub const CHAIN_MAX: u8 = 8;

    /// Says what means nothing.
    ///
    /// # Errors
    /// Chains that are too long, or that the variant has not.
    pub const fn validate(&self) -> Result<(), SpeculationError> {
        match self.chain_max {
            Some(length) if length > Self::CHAIN_MAX => Err(SpeculationError::ChainLength { length }),
            Some(_) if !self.variant.has_chains() => {
                Err(SpeculationError::NoChains { variant: self.variant })
            }
            _ => Ok(()),
        }
    }

    /// True if clients may be shown results before they are final.
    pub fn shows(&self) -> bool {
        match self.variant {
            SpeculationVariant::Planet => true,
            variant => variant.has_chains() && self.chain_max != Some(0),
        }
    }

    /// True if each node has a tuner.
    pub const fn is_tuned(&self) -> bool {
        self.variant.is_tunable() && !self.untuned
    }
}

/// Transactions cannot speculate like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpeculationError {
    /// No chain is so long.
    #[error(
        "chains of results that are shown and not final have between 0 and {max} transactions, not {length}",
        max = Speculation::CHAIN_MAX
    )]
    ChainLength {
        /// The length that the keyspace was to have.
        length: u8,
    },
    /// The variant has no chains.
    #[error(
        "chains of results are shown by the variant str-external, not by {variant}: leave their length out"
    )]
    NoChains {
        /// The variant.
        variant: SpeculationVariant,
    },
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
        for decisions in Decisions::ALL {
            assert_eq!(decisions.name().parse(), Ok(decisions));
        }
        let refused = "region".parse::<Decisions>().unwrap_err().to_string();
        assert!(refused.contains("\"region\"") && refused.contains("site, across-sites"), "{refused}");
        for grants in Grants::ALL {
            assert_eq!(grants.name().parse(), Ok(grants));
        }
        let refused = "some".parse::<Grants>().unwrap_err().to_string();
        assert!(refused.contains("\"some\"") && refused.contains("all, leader"), "{refused}");
    }

    #[test]
    fn chains_have_a_length_and_variants_that_show_them() {
        let external = |chain_max| Speculation { chain_max, ..Speculation::default() };
        for length in 0..=Speculation::CHAIN_MAX {
            assert_eq!(external(Some(length)).validate(), Ok(()));
            assert_eq!(external(Some(length)).shows(), length > 0);
        }
        assert!(external(None).validate().is_ok() && external(None).shows());
        for length in [9, 10, u8::MAX] {
            assert_eq!(external(Some(length)).validate(), Err(SpeculationError::ChainLength { length }));
        }
        for variant in SpeculationVariant::ALL.into_iter().filter(|variant| !variant.has_chains()) {
            let without = Speculation { variant, ..Speculation::default() };
            assert_eq!(without.validate(), Ok(()));
            let with = Speculation { chain_max: Some(1), ..without };
            assert_eq!(with.validate(), Err(SpeculationError::NoChains { variant }));
        }
    }

    #[test]
    fn what_speculates_is_tuned_unless_it_is_not_to_be() {
        let tuned = SpeculationVariant::ALL.map(|variant| {
            let speculation = Speculation { variant, ..Speculation::default() };
            (variant.name(), speculation.is_tuned(), Speculation { untuned: true, ..speculation }.is_tuned())
        });
        assert_eq!(
            tuned,
            [
                ("clock-si", false, false),
                ("planet", false, false),
                ("str-internal", true, false),
                ("str-external", true, false),
            ]
        );
    }
}
