//! The costs of the transactions of TPC-C at a shard: `cargo run --release -p quorate-experiments --example tpcc_costs`.
//!
//! Each is run, as by timestamps; or run while another holds locks; or prepared and committed, as with locks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quorate_core::{ClientId, ClockTime, Random, TransactionId};
use quorate_experiments::one_round::tpcc::{Kinds, Linked, Trade};
use quorate_experiments::one_round::world::Application as _;
use quorate_granola::{Application, Class, Place, Prepared};
use quorate_serializable_shard::{Batch, Operation, ShardWith, Step};

/// The ways that are compared.
const WAYS: [&str; 3] = ["run", "run while another holds locks", "prepared and committed"];
const RUN: usize = 0;
const BESIDE_LOCKS: usize = 1;

fn place(at: u64) -> Place {
    let transaction = TransactionId { client: ClientId(7), sequence: at, attempt: 0 };
    Place { timestamp: ClockTime::from_micros(at), transaction }
}

fn main() {
    const TRANSACTIONS: u64 = 200_000;
    let mut took: BTreeMap<&str, [(u64, Duration); 3]> = BTreeMap::new();
    let mut trade = Trade::new(1, Kinds::All, 1);
    let mut shard: ShardWith<Linked> = ShardWith::from_pages(Vec::new());
    let mut at = 0;
    for transaction in trade.population() {
        at += 1;
        for operation in transaction.parts.values() {
            shard.run(place(at), operation);
        }
    }
    let other = Step::Put { key: b"held by another".as_slice().into(), value: b"".as_slice().into() };
    let other = Operation::Batch(Batch { conditions: Vec::new(), steps: vec![other] }).encode();
    let mut random = Random::new(2);
    for _ in 0..TRANSACTIONS {
        let transaction = trade.draw(0, &mut random);
        at += 2;
        let (way, other_place) = (random.index(WAYS.len()), place(at - 1));
        if way == BESIDE_LOCKS {
            shard.prepare(other_place.transaction, &other);
        }
        for operation in transaction.parts.values() {
            let began = Instant::now();
            match (transaction.class, way) {
                (Class::ReadOnly, _) => drop(shard.read(place(at), operation)),
                (_, RUN | BESIDE_LOCKS) => drop(shard.run(place(at), operation)),
                _ => {
                    let prepared = shard.prepare(place(at).transaction, operation);
                    assert!(prepared != Prepared::Conflict, "nothing else is prepared");
                    shard.commit(place(at));
                }
            }
            shard.settle(None);
            let (count, sum) = &mut took.entry(transaction.kind).or_default()[way];
            (*count, *sum) = (*count + 1, *sum + began.elapsed());
        }
        if way == BESIDE_LOCKS {
            shard.abort(other_place.transaction);
        }
    }
    println!("{:<14} {:>12} {:>30} {:>30}", "transaction", WAYS[RUN], WAYS[BESIDE_LOCKS], WAYS[2]);
    for (kind, ways) in took {
        let [run, beside, locked] = ways.map(|(count, sum)| sum.as_nanos() as f64 / count.max(1) as f64);
        let (beside_ratio, ratio) = (beside / run, locked / run);
        println!(
            "{kind:<14} {run:>9.0} ns {beside:>20.0} ns × {beside_ratio:.2} {locked:>20.0} ns × {ratio:.2}"
        );
    }
}
