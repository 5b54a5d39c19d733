//! Calls over what a transaction has fetched come to the same as calls at the shards.

use std::collections::BTreeMap;

use quorate_procedure::fetched::{Called, over};
use quorate_procedure::{Answer, Memory, Procedure};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::random::{Constants, between};
use quorate_tpcc::transaction::{Transaction, Who};
use quorate_tpcc::{Generator, Scale, Tpcc, violations};

use crate::world::{NOW, World, seeded};

#[test]
fn a_call_that_fetches_has_the_answer_and_the_writes_of_a_call_at_the_shard() {
    let mut rounds_of: BTreeMap<(&str, bool), Vec<usize>> = BTreeMap::new();
    let mut refusals = 0;
    for seed in 1..=6 {
        let mut random = seeded(100 * seed);
        let scale = Scale {
            warehouses: between(&mut random, 1, 4),
            customers: between(&mut random, 10, 40),
            items: between(&mut random, 50, 200),
        };
        let world = World::drawn(scale, 1, seed);
        let mut shard = world.shards[0].clone();
        let constants = Constants::of_run(&mut random, &world.population);
        let mix = Mix { remote_lines: 20, invalid_items: 5, ..Mix::default() }
            .with_shares([35, 30, 15, 10, 10])
            .unwrap();
        let generator = Generator::new(scale, constants, mix);
        for at in 0..400 {
            let transaction = generator.next(&mut random, NOW + at);
            let arguments = transaction.arguments(&transaction.warehouses());
            let (called, rounds) = over(&mut shard, &Tpcc, &arguments).expect("nothing stops it");
            let by_number = match &transaction {
                Transaction::Payment(payment) => matches!(payment.customer, Who::Number(_)),
                Transaction::OrderStatus(status) => matches!(status.customer, Who::Number(_)),
                _ => true,
            };
            rounds_of.entry((transaction.name(), by_number)).or_default().push(rounds);
            let mut before = shard.clone();
            let expected = Tpcc.call(&mut shard, &arguments).expect("nothing stops it");
            match (called, expected) {
                (Called::Done { answer, writes }, Answer::Done(expected)) => {
                    assert_eq!(answer, expected, "{transaction:?}");
                    before.apply(writes);
                    assert_eq!(before, shard, "{transaction:?}");
                }
                (Called::Refused(reason), Answer::Refused(expected)) => {
                    assert_eq!(reason, expected, "{transaction:?}");
                    refusals += 1;
                }
                (called, expected) => panic!("{transaction:?}: {called:?}, not {expected:?}"),
            }
        }
        assert_eq!(violations(&scale, shard.pairs), [""; 0], "seed {seed}");
    }
    assert!(refusals > 5, "{refusals} new orders named an item that does not exist");
    // How often each fetches at most: few transactions ask for more than their arguments name.
    let table = [
        (("new-order", true), 1),
        (("payment", true), 1),
        (("payment", false), 2),
        (("order-status", true), 2),
        (("order-status", false), 4),
        (("delivery", true), 3),
        (("stock-level", true), 3),
    ];
    for (kind, most) in table {
        let rounds = &rounds_of[&kind];
        assert!(
            rounds.len() > 50 && rounds.iter().max() == Some(&most),
            "{kind:?}: {:?}",
            rounds.iter().max()
        );
    }
}

#[test]
fn arguments_that_are_none_are_refused_without_fetching() {
    assert_eq!(
        over(&mut Memory::default(), &Tpcc, b""),
        Ok((Called::Refused(quorate_tpcc::procedures::MALFORMED.to_vec()), 0))
    );
}

#[test]
fn shares_are_those_that_were_asked_for() {
    for (name, [orders, payments, statuses]) in Mix::OF_STR {
        let shares = [orders, payments, statuses, 0, 0];
        let mix = Mix::default().with_shares(shares).expect(name);
        assert_eq!(mix.shares(), shares);
        let mut random = seeded(5);
        let scale = Scale { warehouses: 2, customers: 30, items: 200 };
        let constants = Constants::of_population(&mut random);
        let generator = Generator::new(scale, constants, mix);
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for _ in 0..10_000 {
            *counts.entry(generator.next(&mut random, NOW).name()).or_default() += 1;
        }
        for (kind, share) in ["new-order", "payment", "order-status"].into_iter().zip(shares) {
            assert!(counts[kind].abs_diff(100 * share) < 150, "{name}: {counts:?}");
        }
        assert_eq!(counts.len(), 3);
    }
    assert_eq!(Mix::default().shares(), [45, 43, 4, 4, 4]);
    assert_eq!(Mix::default().with_shares([50, 50, 1, 0, 0]), None);
    assert_eq!(Mix::default().with_shares([u32::MAX, 101, 0, 0, 0]), None);
}
