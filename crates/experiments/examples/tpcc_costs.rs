//! What the transactions of TPC-C cost a shard: `cargo run --release -p quorate-experiments --example tpcc_costs`.
//!
//! Each is run, as by timestamps, or prepared and committed, as with locks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quorate_core::{ClientId, ClockTime, Random, TransactionId};
use quorate_experiments::one_round::load::Source;
use quorate_experiments::one_round::tpcc::{Kinds, Linked, Trade};
use quorate_granola::{Application, Class, Place, Prepared};
use quorate_procedures::ShardWith;

fn place(at: u64) -> Place {
    let transaction = TransactionId { client: ClientId(7), sequence: at, attempt: 0 };
    Place { timestamp: ClockTime::from_micros(at), transaction }
}

fn main() {
    const TRANSACTIONS: u64 = 200_000;
    let mut took: BTreeMap<&str, [(u64, Duration); 2]> = BTreeMap::new();
    let mut trade = Trade::new(1, Kinds::All, 1);
    let mut shard: ShardWith<Linked> = ShardWith::from_pages(Vec::new());
    let mut at = 0;
    for transaction in trade.population() {
        at += 1;
        for operation in transaction.parts.values() {
            shard.run(place(at), operation);
        }
    }
    let mut random = Random::new(2);
    for _ in 0..TRANSACTIONS {
        let transaction = trade.draw(0, &mut random);
        at += 1;
        let locks = at % 2 == 0;
        for operation in transaction.parts.values() {
            let began = Instant::now();
            match (transaction.class, locks) {
                (Class::ReadOnly, _) => drop(shard.read(place(at), operation)),
                (_, false) => drop(shard.run(place(at), operation)),
                (_, true) => {
                    let prepared = shard.prepare(place(at).transaction, operation);
                    assert!(prepared != Prepared::Conflict, "nothing else is prepared");
                    shard.commit(place(at));
                }
            }
            shard.settle(None);
            let (count, sum) = &mut took.entry(transaction.kind).or_default()[usize::from(locks)];
            (*count, *sum) = (*count + 1, *sum + began.elapsed());
        }
    }
    println!("{:<16} {:>10} {:>22} {:>6}", "transaction", "run", "prepared and committed", "ratio");
    for (kind, [run, locked]) in took {
        let mean = |(count, sum): (u64, Duration)| sum.as_nanos() as f64 / count.max(1) as f64;
        let (run, locked) = (mean(run), mean(locked));
        println!("{kind:<16} {run:>7.0} ns {locked:>19.0} ns {:>6.2}", locked / run);
    }
}
