//! Calls over what a transaction has fetched come to the same as calls at the shards.

use std::collections::BTreeMap;

use quorate_procedure::fetched::{Called, over};
use quorate_procedure::{Answer, Memory, Procedure};
use quorate_rubis::procedures::MALFORMED;
use quorate_rubis::{Generator, Kind, Mix, Rubis, Scale, violations};
use quorate_tpcc::random::between;

use crate::world::{NOW, World, seeded};

#[test]
fn a_call_that_fetches_has_the_answer_and_the_writes_of_a_call_at_the_shard() {
    let mut fetches_of: BTreeMap<Kind, usize> = BTreeMap::new();
    for seed in 1..=6 {
        let mut random = seeded(100 * seed);
        let scale = Scale {
            markets: between(&mut random, 1, 4),
            users: between(&mut random, 5, 60),
            items: between(&mut random, 5, 60),
            bids_max: between(&mut random, 0, 40),
        };
        let mut shard = World::new(scale, 1, seed).shards.remove(0);
        let generator = Generator::new(scale, Mix { update_percent: 40, remote_percent: 30 });
        for at in 0..700 {
            let home = between(&mut random, 1, scale.markets);
            let interaction = generator.next_at(&mut random, home, NOW + at);
            let arguments = interaction.arguments(&interaction.markets());
            let (called, fetches) = over(&mut shard, &Rubis, &arguments).expect("nothing stops it");
            let most = fetches_of.entry(interaction.kind()).or_default();
            *most = fetches.max(*most);
            let mut before = shard.clone();
            let expected = Rubis.call(&mut shard, &arguments).expect("nothing stops it");
            match (called, expected) {
                (Called::Done { answer, writes }, Answer::Done(expected)) => {
                    assert_eq!(answer, expected, "{interaction:?}");
                    assert!(interaction.kind().is_update() || writes.is_empty(), "{interaction:?}");
                    before.apply(writes);
                    assert_eq!(before, shard, "{interaction:?}");
                }
                (called, expected) => panic!("{interaction:?}: {called:?}, not {expected:?}"),
            }
        }
        assert_eq!(violations(&scale, shard.pairs), [""; 0], "seed {seed}");
    }
    // How often each fetches at most: those that update ask for nothing that their arguments do not name.
    for (kind, fetches) in fetches_of {
        let expected = match kind {
            form if Kind::FORMS.contains(&form) => 0,
            Kind::SearchItemsInCategory | Kind::SearchItemsInRegion | Kind::ViewItem => 2,
            Kind::BuyNow | Kind::PutBid | Kind::PutComment | Kind::SelectCategoryToSellItem => 2,
            Kind::AboutMe => 4,
            _ => 1,
        };
        assert_eq!(fetches, expected, "{kind:?}");
    }
}

#[test]
fn arguments_that_are_none_are_refused_without_fetching() {
    let refused = Called::Refused(MALFORMED.to_vec());
    assert_eq!(over(&mut Memory::default(), &Rubis, b""), Ok((refused, 0)));
}
