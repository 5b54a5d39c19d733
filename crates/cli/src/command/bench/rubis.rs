//! `quorate bench rubis`: the 26 interactions of an auction site, and what must hold of the data afterwards.
//!
//! ```text
//!   populate ──► clients: one interaction after the other ──► read everything, judge it
//! ```
//!
//! Keys of a market share a tag, so each shard holds whole markets. In `serializable` keyspaces an interaction is one call of a procedure at the shards
//! that hold its markets, in all others an interactive transaction that runs the same procedure over what it reads.

use std::time::Duration;

use clap::Args;
use quorate::{Call, Database, Isolation, Keyspace};
use quorate_core::Random;
use quorate_procedure::Pair;
use quorate_rubis::procedures::NICKNAME_TAKEN;
use quorate_rubis::{Generator, Mix, Rubis as Procedure, Scale, key, population};
use serde::Serialize;

use super::procedural::{self, Common, Course, Drawn, Homes, How, Seat, Seating, Source};
use super::social::Site;
use super::{Align, Table};
use crate::exit::Failure;
use crate::output::{Progress, thousands};

/// The name that the procedure is linked with servers under.
const LINKED: &str = "rubis/interaction";

/// As long as an average interaction takes with its user's time to think, in milliseconds.
const CYCLE_MS: u32 = 5_000;

/// The tables are divided by market.
const MARKETS: Homes = Homes { name: "market", keys: key::of_market };

/// The options of the workload.
#[derive(Clone, Debug, Args)]
pub(super) struct RubisArguments {
    /// `rubis` only: into how many markets every table is divided; a market lies in one shard.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    markets: Option<u32>,
    /// `rubis` only: how many users each market has at first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    market_users: Option<u32>,
    /// `rubis` only: how many items for sale each market has at first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    market_items: Option<u32>,
    /// `rubis` only: of a hundred interactions, so many update.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    updates: Option<u32>,
}

/// The run that is asked for.
#[derive(Clone, Debug)]
pub(super) struct Rubis {
    scale: Scale,
    mix: Mix,
    seating: Seating,
}

/// The results of the run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) common: Common,
    markets: u32,
    users_per_market: u32,
    items_per_market: u32,
    update_percent: u32,
    remote_percent: u32,
}

impl RubisArguments {
    /// True if any of them was given.
    pub(super) fn is_given(&self) -> bool {
        [self.markets, self.market_users, self.market_items, self.updates].into_iter().any(|of| of.is_some())
    }

    /// The workload, as it is asked for.
    pub(super) fn prepare(&self, remote: Option<u64>, seating: Seating) -> Rubis {
        let (scale, mix) = (Scale::default(), Mix::default());
        Rubis {
            scale: Scale {
                markets: self.markets.unwrap_or(scale.markets),
                users: self.market_users.unwrap_or(scale.users),
                items: self.market_items.unwrap_or(scale.items),
                ..scale
            },
            mix: Mix {
                update_percent: self.updates.unwrap_or(mix.update_percent),
                remote_percent: remote.map_or(mix.remote_percent, |remote| remote as u32),
            },
            seating,
        }
    }
}

impl Rubis {
    /// Populates a new keyspace, runs the mix, and judges what it has left.
    pub(super) async fn run(
        &self,
        db: &Database,
        keyspace: &Keyspace,
        sites: &[Site],
        progress: &Progress,
    ) -> Result<Report, Failure> {
        let course = Course {
            workload: "rubis",
            homes: MARKETS,
            count: self.scale.markets,
            cycle_ms: CYCLE_MS,
            seating: &self.seating,
            db,
            keyspace,
            sites,
            progress,
        };
        let mut random = Random::new(1);
        let mut bits = || random.next_u64();
        let populate = |number, now, each: &mut dyn FnMut(Pair)| {
            population::market(&self.scale, number, now, &mut bits, each);
        };
        let places = course.populate(populate).await?;
        let is_one_round = keyspace.isolation() == Isolation::Serializable;
        let auctions = Auctions {
            is_one_round,
            generator: Generator::new(self.scale, self.mix),
            seating: self.seating.clone(),
        };
        let procedures = if is_one_round { "linked" } else { "interactive" };
        let judge = |pairs| quorate_rubis::violations(&self.scale, pairs);
        let (common, ..) = course.measure(&places, auctions, procedures, judge).await?;
        Ok(Report {
            common,
            markets: self.scale.markets,
            users_per_market: self.scale.users,
            items_per_market: self.scale.items,
            update_percent: self.mix.update_percent,
            remote_percent: if self.scale.markets > 1 { self.mix.remote_percent } else { 0 },
        })
    }
}

/// Interactions of the mix.
struct Auctions {
    is_one_round: bool,
    generator: Generator,
    seating: Seating,
}

impl Source for Auctions {
    fn draw(&self, seat: &Seat, random: &mut Random) -> Drawn {
        let interaction = self.generator.next_at(&mut || random.next_u64(), seat.home, procedural::now());
        let (kind, markets) = (interaction.kind(), interaction.markets());
        let local = MARKETS.by_shard(&markets, &seat.keyspace);
        let how = if self.is_one_round {
            let call = MARKETS.call_at(Call::new(LINKED), &local, |markets| interaction.arguments(markets));
            How::InOneRound(if kind.is_update() { call.independent() } else { call.read_only() })
        } else {
            How::Interactive { procedure: &Procedure, arguments: interaction.arguments(&markets) }
        };
        Drawn {
            kind: kind.name(),
            how,
            is_distributed: local.len() > 1,
            is_remote: markets != [seat.home],
            keying: Duration::ZERO,
            thinking: self.seating.part_of(kind.thinking_ms()),
        }
    }

    fn is_intended(&self, reason: &[u8]) -> bool {
        reason == NICKNAME_TAKEN
    }
}

/// The report for people.
pub(super) fn table(report: &Report) -> Table {
    let mut table = Table::new(&[(report.common.workload, Align::Left), ("", Align::Right)]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let each = |count: u32| thousands(u64::from(count));
    row("markets", each(report.markets));
    row(
        "users, items",
        format!("{}, {} a market", each(report.users_per_market), each(report.items_per_market)),
    );
    row("updates", format!("{} %", report.update_percent));
    row("dealings elsewhere", format!("{} %", report.remote_percent));
    report.common.rows(&mut table);
    table
}
