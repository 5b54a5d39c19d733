//! The interactions that are drawn, and how often.

use std::collections::BTreeMap;

use quorate_procedure::{Footprint, Procedure};
use quorate_rubis::{Generator, Interaction, Kind, Mix, Rubis, Scale, key};

use crate::world::{NOW, seeded};

#[test]
fn the_mix_has_all_26_and_as_many_updates_as_it_was_asked_for() {
    let scale = Scale { markets: 10, ..Scale::default() };
    const COUNT: u32 = 200_000;
    for update_percent in [15, 0, 100] {
        let generator = Generator::new(scale, Mix { update_percent, ..Mix::default() });
        let mut random = seeded(u64::from(update_percent));
        let mut counts: BTreeMap<Kind, u32> = BTreeMap::new();
        let [mut remote, mut dealing] = [0u32; 2];
        for _ in 0..COUNT {
            let interaction = generator.next_at(&mut random, 3, NOW);
            *counts.entry(interaction.kind()).or_default() += 1;
            let markets = interaction.markets();
            assert!(markets.is_sorted() && markets.iter().all(|market| (1..=10).contains(market)));
            if let Interaction::StoreBid(_) | Interaction::StoreBuyNow(_) = interaction {
                dealing += 1;
                remote += u32::from(markets.len() == 2);
            }
        }
        let updates: u32 = counts.iter().filter(|(kind, _)| kind.is_update()).map(|(_, count)| count).sum();
        assert!(updates.abs_diff(COUNT / 100 * update_percent) < 800, "{updates} of {COUNT} update");
        if update_percent == 15 {
            assert_eq!(counts.len(), 26, "{counts:?}");
            assert!((9.0..11.0).contains(&(100.0 * f64::from(remote) / f64::from(dealing))), "{remote}");
            // Within those that do not update, as often as the shares say.
            let reads: u32 = Kind::ALL.into_iter().filter(|kind| !kind.is_update()).map(Kind::share).sum();
            for (kind, count) in counts.iter().filter(|(kind, _)| !kind.is_update() && kind.share() > 100) {
                let expected = f64::from(kind.share()) / f64::from(reads) * f64::from(COUNT - updates);
                assert!(
                    (f64::from(*count) / expected - 1.0).abs() < 0.1,
                    "{kind:?}: {count}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn users_think_from_two_to_ten_seconds() {
    for kind in Kind::ALL {
        assert!((2_000..=10_000).contains(&kind.thinking_ms()), "{kind:?}");
    }
    assert_eq!(Kind::ALL.into_iter().filter(|kind| kind.is_update()).count(), 5);
    let names: std::collections::BTreeSet<_> = Kind::ALL.into_iter().map(Kind::name).collect();
    assert_eq!(names.len(), 26);
    let sum: u32 = Kind::ALL.into_iter().map(Kind::share).sum();
    assert!((9_990..=10_010).contains(&sum), "{sum}");
}

#[test]
fn arguments_are_read_back_and_name_what_may_be_touched() {
    let generator = Generator::new(Scale { markets: 4, ..Scale::default() }, Mix::default());
    let mut random = seeded(4);
    for at in 0..5_000 {
        let interaction = generator.next_at(&mut random, 2, NOW + at);
        for local in [interaction.markets(), interaction.markets()[..1].to_vec()] {
            let arguments = interaction.arguments(&local);
            assert_eq!(Interaction::decode(&arguments), Some((local.clone(), interaction.clone())));
            assert_eq!(Interaction::decode(&arguments[..arguments.len() - 1]), None);
            assert_eq!(Interaction::decode(&[&arguments[..], &[0]].concat()), None);
            let ranges = local.into_iter().map(key::of_market).collect();
            assert_eq!(Rubis.footprint(&arguments), Footprint::Keys { keys: Vec::new(), ranges });
        }
        let elsewhere = interaction.arguments(&[99]);
        assert_eq!(Interaction::decode(&elsewhere), None, "it does not touch that market");
    }
    for length in 0..60 {
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        assert_eq!(Interaction::decode(&bytes), None);
    }
}
