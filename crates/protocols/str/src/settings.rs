//! The options of a keyspace, as its machines are set up.

use quorate_core::topology::{Speculation, SpeculationVariant};

use crate::config::{ReplicaConfig, Shows, Variant};
use crate::tuner::{Setting, TunerConfig};

impl ReplicaConfig {
    /// The same machine in a keyspace that speculates like this: as its variant says, with chains that are no longer than the keyspace allows, and with a
    /// tuner if it has one.
    #[must_use]
    pub fn speculating(self, speculation: Speculation) -> Self {
        let named = Variant::from(speculation.variant);
        let shows = match (named.shows, speculation.chain_max) {
            (Shows::Chain(_), Some(0)) => Shows::Nothing,
            (Shows::Chain(length), Some(allowed)) => Shows::Chain(length.min(allowed)),
            (shows, _) => shows,
        };
        let setting = match (speculation.variant, shows) {
            (SpeculationVariant::ClockSi | SpeculationVariant::Planet, _) => None,
            (SpeculationVariant::StrInternal, _) => Some(Setting::Internal),
            (SpeculationVariant::StrExternal, Shows::Chain(chain_max)) => {
                Some(Setting::External { chain_max })
            }
            (SpeculationVariant::StrExternal, _) => Some(Setting::Internal),
        };
        let tuner = setting.filter(|_| speculation.is_tuned()).map(TunerConfig::new);
        let orders_sessions = speculation.orders_sessions;
        let grants = speculation.grants;
        ReplicaConfig { variant: Variant { shows, ..named }, tuner, orders_sessions, grants, ..self }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::GroupSize;
    use quorate_core::topology::Grants;

    use super::*;

    #[test]
    fn keyspaces_say_how_much_is_shown_and_tuned() {
        use SpeculationVariant::{ClockSi, Planet, StrExternal, StrInternal};
        //  variant, chains of the keyspace, what is shown, what the tuner chooses among
        let table = [
            (ClockSi, None, Shows::Nothing, None),
            (Planet, None, Shows::Result, None),
            (StrInternal, None, Shows::Nothing, Some(Setting::Internal)),
            (StrExternal, None, Shows::Chain(8), Some(Setting::External { chain_max: 8 })),
            (StrExternal, Some(8), Shows::Chain(8), Some(Setting::External { chain_max: 8 })),
            (StrExternal, Some(1), Shows::Chain(1), Some(Setting::External { chain_max: 1 })),
            (StrExternal, Some(0), Shows::Nothing, Some(Setting::Internal)),
        ];
        for (variant, chain_max, shows, setting) in table {
            for untuned in [false, true] {
                let speculation = Speculation {
                    variant,
                    chain_max,
                    untuned,
                    orders_sessions: untuned,
                    grants: if untuned { Grants::Leader } else { Grants::All },
                    ..Speculation::default()
                };
                let initial = ReplicaConfig::new(Default::default(), GroupSize::ONE, Default::default());
                let config = initial.speculating(speculation);
                assert_eq!(config.variant, Variant { shows, ..Variant::from(variant) }, "{speculation:?}");
                assert_eq!(config.orders_sessions, untuned);
                assert_eq!(config.grants, speculation.grants);
                let tuner = config.tuner;
                assert_eq!(tuner.as_ref().map(|tuner| tuner.setting), setting.filter(|_| !untuned));
                assert!(tuner.is_none_or(|tuner| tuner.validate().is_ok()));
            }
        }
    }
}
