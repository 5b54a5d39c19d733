//! `quorate bench hotspot`: how much contention there is, and where.

use clap::Args;
use quorate_workloads::social::{Homes, Place};
use quorate_workloads::{Hotspot, Parameters, WorkloadKind};
use serde::Serialize;

use super::Table;
use crate::exit::Failure;
use crate::output::thousands;
use crate::parse::positive;

/// The options of the workload.
#[derive(Clone, Debug, Args)]
pub(super) struct HotspotArguments {
    /// `hotspot` only: how many keys a transaction reads and updates.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    accesses: Option<u64>,
    /// `hotspot`: of a hundred accesses, so many go to the remote ranges of other shards. `rubis`: of a hundred interactions with an item or another user,
    /// so many are with one of another market.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub(super) remote: Option<u64>,
    /// `hotspot` only: how many hot keys a local range has; by default as the mix says.
    #[arg(long, value_name = "N", value_parser = positive)]
    local_hot: Option<u64>,
    /// `hotspot` only: how many hot keys a remote range has; by default as the mix says.
    #[arg(long, value_name = "N", value_parser = positive)]
    remote_hot: Option<u64>,
}

/// The part of the report that only this workload has.
#[derive(Debug, Serialize)]
pub(super) struct Contention {
    mix: &'static str,
    keys_per_transaction: usize,
    keys_per_range: u64,
    local_hot_keys: u64,
    remote_hot_keys: u64,
    hot_percent: u64,
    remote_percent: u64,
}

impl HotspotArguments {
    /// Says what is asked for that means nothing together; `is_divided` is true of a keyspace of several shards. The workload is none where transactions
    /// are procedures.
    ///
    /// # Errors
    /// Something does.
    pub(super) fn validate(&self, workload: Option<WorkloadKind>, is_divided: bool) -> Result<(), Failure> {
        let HotspotArguments { accesses, remote, local_hot, remote_hot } = self;
        let is_shaped = [accesses, local_hot, remote_hot].into_iter().any(Option::is_some);
        let is_remote = remote.is_some() && workload.is_some();
        if (is_shaped || is_remote) && workload != Some(WorkloadKind::Hotspot) {
            return Err(Failure::usage(
                "--accesses, --remote, --local-hot and --remote-hot are options of hotspot",
            ));
        }
        let needs_others = is_remote && *remote != Some(0) || remote_hot.is_some();
        if needs_others && !is_divided {
            return Err(Failure::usage(
                "only where there are several shards some of them are remote: add --shards",
            ));
        }
        Ok(())
    }

    /// Shapes the workload, for clients that stand nowhere in particular, in so many shards.
    pub(super) fn shape(&self, parameters: &mut Parameters, shards: usize) {
        if parameters.kind != WorkloadKind::Hotspot {
            return;
        }
        let default = Hotspot::default();
        parameters.hotspot = Hotspot {
            accesses: self.accesses.map_or(default.accesses, |accesses| accesses as usize),
            remote_percent: self.remote.unwrap_or(default.remote_percent),
            local_hot: self.local_hot,
            remote_hot: self.remote_hot,
        };
        parameters.place = Place { homes: Homes::Hashed(shards), ..Place::default() };
    }
}

impl Contention {
    /// That of a workload, if it is the one.
    pub(super) fn of(parameters: &Parameters) -> Option<Self> {
        let Parameters { hotspot, shares, .. } = parameters;
        let [local_hot_keys, remote_hot_keys] = match parameters.kind {
            WorkloadKind::Hotspot => hotspot.hot_keys(shares)?.map(|hot| hot.min(parameters.keys)),
            _ => return None,
        };
        let has_remote = parameters.place.homes != Homes::Hashed(1);
        Some(Contention {
            mix: shares,
            keys_per_transaction: hotspot.accesses,
            keys_per_range: parameters.keys,
            local_hot_keys,
            remote_hot_keys,
            hot_percent: quorate_workloads::hotspot::HOT_PERCENT,
            remote_percent: if has_remote { hotspot.remote_percent } else { 0 },
        })
    }

    /// The rows for people.
    pub(super) fn rows(&self, table: &mut Table) {
        let Contention { mix, keys_per_transaction, keys_per_range, .. } = self;
        let range = thousands(*keys_per_range);
        table.row([
            "mix, keys".to_owned(),
            format!("{mix}, {keys_per_transaction} a transaction, {range} a range"),
        ]);
        let hot = format!(
            "{} local, {} remote; {} % of accesses",
            thousands(self.local_hot_keys),
            thousands(self.remote_hot_keys),
            self.hot_percent
        );
        table.row(["hot keys".to_owned(), hot]);
        table.row(["remote accesses".to_owned(), format!("{} %", self.remote_percent)]);
    }
}
