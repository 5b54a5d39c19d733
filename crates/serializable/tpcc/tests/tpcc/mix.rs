//! The transactions that are drawn, and how often.

use std::collections::BTreeMap;

use quorate_procedure::{Footprint, Memory, Procedure};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::key;
use quorate_tpcc::random::{Constants, between, is_original, last_name, non_uniform};
use quorate_tpcc::transaction::{Transaction, Who};
use quorate_tpcc::{Generator, Scale, Tpcc};

use crate::world::{NOW, seeded};

#[test]
fn the_mix_is_as_specified() {
    let scale = Scale { warehouses: 100, ..Scale::default() };
    let mut random = seeded(11);
    let population = Constants::of_population(&mut random);
    let constants = Constants::of_run(&mut random, &population);
    let generator = Generator::new(scale, constants, Mix::default());
    const COUNT: u32 = 200_000;
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    let mut count = |what| *counts.entry(what).or_default() += 1.0;
    for _ in 0..COUNT {
        let transaction = generator.next(&mut random, NOW);
        count(transaction.name());
        if transaction.warehouses().len() > 1 {
            count("distributed");
        }
        match &transaction {
            Transaction::NewOrder(order) => {
                assert!((5..=15).contains(&order.lines.len()));
                order.lines.iter().for_each(|_| count("line"));
                order
                    .lines
                    .iter()
                    .filter(|line| line.supplier != order.warehouse)
                    .for_each(|_| count("remote line"));
                if order.lines.iter().any(|line| line.item > scale.items) {
                    count("invalid");
                }
                assert!(order.lines.iter().all(|line| (1..=10).contains(&line.quantity)));
                assert!((1..=scale.customers).contains(&order.customer));
            }
            Transaction::Payment(payment) => {
                if payment.warehouse != payment.customer_warehouse {
                    count("remote payment");
                }
                if matches!(payment.customer, Who::LastName(_)) {
                    count("by name");
                }
                assert!((100..=500_000).contains(&payment.amount));
            }
            _ => assert_eq!(transaction.warehouses().len(), 1),
        }
        assert!(transaction.warehouses().iter().all(|warehouse| (1..=100).contains(warehouse)));
    }
    let all = f64::from(COUNT);
    let (orders, payments, lines) = (counts["new-order"], counts["payment"], counts["line"]);
    let shares = [
        ("new orders", orders / all, 0.45),
        ("payments", payments / all, 0.43),
        ("order status", counts["order-status"] / all, 0.04),
        ("deliveries", counts["delivery"] / all, 0.04),
        ("stock levels", counts["stock-level"] / all, 0.04),
        ("distributed", counts["distributed"] / all, 0.107),
        ("invalid", counts["invalid"] / orders, 0.01),
        ("remote lines", counts["remote line"] / lines, 0.01),
        ("remote payments", counts["remote payment"] / payments, 0.15),
        ("by name", counts["by name"] / payments, 0.60),
        ("a tenth of the lines of an order", lines / orders / 10.0, 1.0),
    ];
    for (what, share, expected) in shares {
        assert!((share - expected).abs() < 0.03 * expected + 0.001, "{what}: {share}, not {expected}");
    }
}

#[test]
fn one_warehouse_has_nothing_remote() {
    let mut random = seeded(3);
    let constants = Constants::of_population(&mut random);
    let generator = Generator::new(Scale::default(), constants, Mix::default());
    for _ in 0..2_000 {
        assert_eq!(generator.next(&mut random, NOW).warehouses(), [1]);
    }
}

#[test]
fn arguments_are_read_as_they_were_written() {
    let mut random = seeded(5);
    let constants = Constants::of_population(&mut random);
    let scale = Scale { warehouses: 4, customers: 30, items: 200 };
    let generator = Generator::new(scale, constants, Mix { remote_lines: 50, ..Mix::default() });
    for _ in 0..2_000 {
        let transaction = generator.next(&mut random, NOW);
        let local = transaction.warehouses();
        let arguments = transaction.arguments(&local);
        assert_eq!(Transaction::decode(&arguments), Some((local.clone(), transaction.clone())));
        let ranges = local.iter().map(|number| key::of_warehouse(*number)).collect();
        assert_eq!(Tpcc.footprint(&arguments), Footprint::Keys { keys: Vec::new(), ranges });
        // Cut off, too long, or changed: never a panic, and most of it is no transaction.
        assert_eq!(Transaction::decode(&arguments[..arguments.len() - 1]), None);
        assert_eq!(Transaction::decode(&[&arguments[..], &[0]].concat()), None);
        let mut changed = arguments.clone();
        let at = between(&mut random, 0, arguments.len() as u32 - 1) as usize;
        changed[at] = changed[at].wrapping_add(between(&mut random, 1, 255) as u8);
        let _ = Tpcc.call(&mut Memory::default(), &changed);
        // Nobody acts for a warehouse that takes no part.
        assert_eq!(Transaction::decode(&transaction.arguments(&[9])), None);
        assert_eq!(Transaction::decode(&transaction.arguments(&[])), None);
    }
}

#[test]
fn names_and_favourites_are_as_specified() {
    assert_eq!([0, 371, 999].map(last_name), ["BARBARBAR", "PRICALLYOUGHT", "EINGEINGEING"]);
    let mut random = seeded(1);
    let mut counts = vec![0u32; 3_001];
    for _ in 0..300_000 {
        counts[non_uniform(&mut random, 1_023, 77, 1, 3_000) as usize] += 1;
    }
    assert_eq!(counts[0], 0);
    assert!(counts.iter().filter(|count| **count > 0).count() > 2_900, "next to nobody is left out");
    // The favourite tenth gets several times its share.
    counts.sort_unstable();
    let favourites: u32 = counts.iter().rev().take(300).sum();
    assert!((80_000..250_000).contains(&favourites), "{favourites}");
    assert!(is_original(b"some ORIGINAL text") && !is_original(b"ORIGINA L"));
}
