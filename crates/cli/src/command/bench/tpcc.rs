//! `quorate bench tpcc`: the mix of TPC-C, and what must hold of the data afterwards.
//!
//! ```text
//!   populate ──► clients: one transaction after the other ──► read everything, judge it
//! ```
//!
//! Keys of a warehouse share a tag, so each shard holds whole warehouses. In `serializable` keyspaces a transaction is one call of a procedure at the
//! shards that hold its warehouses, in all others an interactive transaction that runs the same procedure over what it reads. There is a tenth of the
//! customers and items of the specification unless all are asked for, and no time to think: so these are not figures that could be compared
//! with published ones.

use std::collections::BTreeMap;
use std::path::Path;

use quorate::{Call, Database, Isolation, Keyspace};
use quorate_core::Random;
use quorate_procedure::Pair;
use quorate_tpcc::generator::Mix;
use quorate_tpcc::population::{self, Items};
use quorate_tpcc::procedures::INVALID_ITEM;
use quorate_tpcc::random::Constants;
use quorate_tpcc::{Class, Generator, Scale, Transaction, key};
use quorate_workloads::thinking::exponential;
use serde::Serialize;

use super::procedural::{self, Common, Course, Drawn, Homes, How, Seat, Seating, Source};
use super::social::Site;
use super::{Align, Table};
use crate::exit::Failure;
use crate::output::{Progress, thousands};

/// The name under which the compiled module is deployed; those that are linked with servers are called `tpcc/…`.
const DEPLOYED: &str = "tpcc";

/// The mix that is measured if nothing else is asked for.
const STANDARD: &str = "standard";

/// As long as an average transaction takes with all times of its user, in milliseconds.
const CYCLE_MS: u32 = 20_000;

/// The tables are divided by warehouse.
const WAREHOUSES: Homes = Homes { name: "warehouse", keys: key::of_warehouse };

/// The run that is asked for.
#[derive(Clone, Debug)]
pub(super) struct Tpcc {
    pub(super) scale: Scale,
    pub(super) mix: (String, Mix),
    pub(super) seating: Seating,
    /// The compiled module; none calls what is linked with the servers.
    pub(super) module: Option<Vec<u8>>,
}

/// The results of the run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) common: Common,
    mix: String,
    /// Out of a hundred transactions.
    shares: BTreeMap<&'static str, u32>,
    warehouses: u32,
    customers_per_district: u32,
    items: u32,
    new_orders_per_minute: f64,
}

/// Reads the name of a mix, or shares out of a hundred.
///
/// # Errors
/// There is no such mix, or the shares are not a hundred.
pub(super) fn mix(text: Option<&str>) -> Result<(String, Mix), Failure> {
    let standard = Mix::default();
    let text = text.unwrap_or(STANDARD);
    if text == STANDARD {
        return Ok((text.to_owned(), standard));
    }
    let named = Mix::OF_STR.into_iter().find(|(name, _)| *name == text).map(|(_, shares)| shares.to_vec());
    let told = || text.split('/').map(|share| share.parse().ok()).collect::<Option<Vec<u32>>>();
    let mix = named.or_else(told).and_then(|shares| match shares[..] {
        [orders, payments, statuses] => standard.with_shares([orders, payments, statuses, 0, 0]),
        [orders, payments, statuses, deliveries, levels] => {
            standard.with_shares([orders, payments, statuses, deliveries, levels])
        }
        _ => None,
    });
    mix.map(|mix| (text.to_owned(), mix)).ok_or_else(|| {
        Failure::usage(format!(
            "tpcc has no mix \"{text}\": choose among {STANDARD}, A, B and C, or write shares that are a hundred together, like 45/43/4/4/4 \
             (new-order/payment/order-status/delivery/stock-level; the last two may be left out)"
        ))
    })
}

impl Tpcc {
    /// Populates a new keyspace, runs the mix, and judges what it has left.
    pub(super) async fn run(
        &self,
        db: &Database,
        keyspace: &Keyspace,
        sites: &[Site],
        progress: &Progress,
    ) -> Result<Report, Failure> {
        let mut random = Random::new(1);
        let mut bits = || random.next_u64();
        let constants = Constants::of_population(&mut bits);
        let items = Items::draw(&self.scale, &mut bits);
        let course = Course {
            workload: "tpcc",
            homes: WAREHOUSES,
            count: self.scale.warehouses,
            cycle_ms: CYCLE_MS,
            seating: &self.seating,
            db,
            keyspace,
            sites,
            progress,
        };
        let populate = |number, now, each: &mut dyn FnMut(Pair)| {
            population::warehouse(&self.scale, number, &items, &constants, now, &mut bits, each);
        };
        let places = course.populate(populate).await?;
        let procedures = match (&self.module, keyspace.isolation()) {
            (Some(code), _) => Procedures::Deployed(keyspace.deploy(DEPLOYED, None, code).await?.version),
            (None, Isolation::Serializable) => Procedures::Linked,
            (None, _) => Procedures::Interactive,
        };
        let trade = Trade {
            procedures,
            generator: Generator::new(self.scale, Constants::of_run(&mut bits, &constants), self.mix.1),
            seating: self.seating.clone(),
        };
        let judge = |pairs| quorate_tpcc::violations(&self.scale, pairs);
        let (common, counts, costs) = course.measure(&places, trade, procedures.name(), judge).await?;
        let kinds = ["new-order", "payment", "order-status", "delivery", "stock-level"];
        Ok(Report {
            common,
            mix: self.mix.0.clone(),
            shares: kinds.into_iter().zip(self.mix.1.shares()).collect(),
            warehouses: self.scale.warehouses,
            customers_per_district: self.scale.customers,
            items: self.scale.items,
            new_orders_per_minute: super::round(counts.of_kind("new-order") as f64 * 60.0 / costs.seconds, 0),
        })
    }
}

/// How a transaction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Procedures {
    /// By the procedures that are linked with the servers.
    Linked,
    /// By this version of the module that was deployed.
    Deployed(u32),
    /// By the client, over what it reads.
    Interactive,
}

impl Procedures {
    const fn name(self) -> &'static str {
        match self {
            Procedures::Linked => "linked",
            Procedures::Deployed(_) => "deployed",
            Procedures::Interactive => "interactive",
        }
    }
}

/// Transactions of the mix.
struct Trade {
    procedures: Procedures,
    generator: Generator,
    seating: Seating,
}

impl Source for Trade {
    fn draw(&self, seat: &Seat, random: &mut Random) -> Drawn {
        let transaction = self.generator.next_at(&mut || random.next_u64(), seat.home, procedural::now());
        let warehouses = transaction.warehouses();
        let local = WAREHOUSES.by_shard(&warehouses, &seat.keyspace);
        Drawn {
            kind: transaction.name(),
            is_distributed: local.len() > 1,
            is_remote: warehouses.len() > 1,
            keying: self.seating.part_of(transaction.keying_ms()),
            thinking: exponential(self.seating.part_of(transaction.thinking_ms()), random),
            how: match self.procedures {
                Procedures::Interactive => How::Interactive {
                    procedure: &quorate_tpcc::Tpcc,
                    arguments: transaction.arguments(&warehouses),
                },
                Procedures::Linked => How::InOneRound(call(
                    Call::new(format!("tpcc/{}", transaction.name())),
                    &transaction,
                    &local,
                )),
                Procedures::Deployed(version) => {
                    How::InOneRound(call(Call::new(DEPLOYED).version(version), &transaction, &local))
                }
            },
        }
    }

    fn is_intended(&self, reason: &[u8]) -> bool {
        reason == INVALID_ITEM
    }
}

/// The call that does a transaction, at the shards that hold its warehouses.
fn call(call: Call, transaction: &Transaction, local: &[Vec<u32>]) -> Call {
    let call = WAREHOUSES.call_at(call, local, |warehouses| transaction.arguments(warehouses));
    match transaction.class() {
        Class::ReadOnly => call.read_only(),
        Class::Independent => call.independent(),
    }
}

/// Reads the compiled module.
pub(super) fn read_module(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::usage(format!(
            "cannot read {} ({error}); it is made, in a clone, with `rustup target add wasm32-unknown-unknown` and `cargo build \
             --release --target wasm32-unknown-unknown -p quorate-tpcc --example tpcc`, in target/wasm32-unknown-unknown/release/examples",
            path.display()
        ))
    })
}

/// The report for people.
pub(super) fn table(report: &Report) -> Table {
    let mut table = Table::new(&[(report.common.workload, Align::Left), ("", Align::Right)]);
    let Report { warehouses, customers_per_district, items, mix, shares, .. } = report;
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let share = |kind: &str| shares.get(kind).copied().unwrap_or_default().to_string();
    let shares = ["new-order", "payment", "order-status", "delivery", "stock-level"].map(share).join("/");
    row("mix", format!("{mix}: {shares}"));
    row("warehouses", thousands(u64::from(*warehouses)));
    row(
        "customers, items",
        format!(
            "{} a district, {}",
            thousands(u64::from(*customers_per_district)),
            thousands(u64::from(*items))
        ),
    );
    row("new orders/minute", thousands(report.new_orders_per_minute as u64));
    report.common.rows(&mut table);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_named_or_told_in_shares_of_a_hundred() {
        let shares = |text| mix(Some(text)).map(|(_, mix)| mix.shares());
        assert_eq!(mix(None).unwrap().1, Mix::default());
        assert_eq!(shares("standard").unwrap(), [45, 43, 4, 4, 4]);
        assert_eq!(shares("A").unwrap(), [5, 83, 12, 0, 0]);
        assert_eq!(shares("C").unwrap(), [5, 43, 52, 0, 0]);
        assert_eq!(shares("20/30/50").unwrap(), [20, 30, 50, 0, 0]);
        assert_eq!(shares("0/0/0/100/0").unwrap(), [0, 0, 0, 100, 0]);
        for wrong in ["D", "", "50/50", "50/50/1", "50/25/25/0", "1/2/97/x/0", "-1/50/51"] {
            assert!(shares(wrong).is_err(), "{wrong}");
        }
    }
}
