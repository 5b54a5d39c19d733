//! `quorate bench --overload`: what a cluster does with more than it can take, and how soon it is itself again.
//!
//! ```text
//!   --clients, closed loop         open loop on two connections of its own      the same clients again
//!   ├──────── peak ────────────┤├──────── goodput under overload ────────────┤├── second by second ──►
//!                                                                             └ those connections are killed
//! ```

use std::time::Duration;

use clap::Args;
use quorate::{Database, Options};
use quorate_load::{Load, Offered, Tally};
use serde::Serialize;

use super::{Latency, Table, micros, round, thousands};
use crate::exit::Failure;
use crate::output::Progress;

/// So many processes offer more than the cluster can take.
const CONNECTIONS: u64 = 2;

/// No more than so many times as much is offered.
const TIMES_MAX: f64 = 1_000.0;

/// So many seconds the cluster is watched at most after the overload has ended.
const SECONDS_AFTER: u64 = 30;

/// The cluster is itself again in the first second after which it commits so much of its peak, three seconds in a row.
const ITSELF: f64 = 0.7;
const ITSELF_SECONDS: usize = 3;

/// The option of overload.
#[derive(Clone, Debug, Args)]
pub(super) struct OverloadArguments {
    /// After the measurement offer so many times as many transactions a second as were committed, for as long, whether they end or not; then end all of
    /// that at once, and measure how soon the cluster is itself again.
    #[arg(long, value_name = "TIMES", value_parser = times, conflicts_with_all = ["history", "samples", "speculative", "redis"])]
    pub(super) overload: Option<f64>,
}

/// The part of the report that is about overload.
#[derive(Debug, Serialize)]
pub(super) struct Overload {
    /// How many transactions have begun per second.
    offered_tps: f64,
    committed_tps: f64,
    /// The commits per second under overload, as a share of those before it.
    share_of_peak: f64,
    aborted: u64,
    unknown: u64,
    refused: u64,
    latency_us: Latency,
    /// The commits of each second since it ended, until the cluster was itself again.
    after_tps: Vec<u64>,
    /// How many seconds after its end the cluster was itself again; none if it was not in the time that was looked at.
    recovered_seconds: Option<u64>,
}

/// A cluster that is to be overloaded.
pub(super) struct Target<'a> {
    pub(super) addresses: &'a str,
    pub(super) options: &'a Options,
    pub(super) keyspace: &'a str,
    pub(super) seconds: u64,
    /// The commits per second of a cluster that is not overloaded.
    pub(super) peak_tps: f64,
}

/// A factor of load.
fn times(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(times) if times > 0.0 && times <= TIMES_MAX => Ok(times),
        _ => Err(format!("it must be a number above 0, {TIMES_MAX} at most")),
    }
}

impl OverloadArguments {
    /// Says what is asked for that means nothing together.
    ///
    /// # Errors
    /// Something does.
    pub(super) fn validate(&self, is_plain: bool) -> Result<(), Failure> {
        if self.overload.is_some() && !is_plain {
            return Err(Failure::usage(
                "--overload is an option of workloads of interactive transactions, and of keyspaces without sites",
            ));
        }
        Ok(())
    }
}

impl Target<'_> {
    /// Offers so many times what the cluster commits, and looks on until it is itself again.
    ///
    /// # Errors
    /// A connection fails.
    pub(super) async fn overload(
        &self,
        times: f64,
        load: &Load,
        progress: &Progress,
    ) -> Result<Overload, Failure> {
        let per_second = self.peak_tps * times;
        let mut offered = Vec::new();
        for connection in 0..CONNECTIONS {
            let db = quorate::connect_with(self.addresses, self.options.clone()).await?;
            offered.push(self.offer(&db, connection, per_second / CONNECTIONS as f64, load).await?);
        }
        for second in 1..=self.seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            progress.now(format!("s of overload, {} transactions/s offered", thousands(per_second as u64)));
            progress.step_to(second);
        }
        let begun: u64 = offered.iter().map(Offered::begun).sum();
        let mut tally = Tally::default();
        offered.iter().for_each(|offered| tally.add(&offered.take_tally()));
        // The connections go with it.
        drop(offered);
        let enough_tps = self.peak_tps * ITSELF;
        let after_tps = watch(load, enough_tps, progress).await;
        let seconds = self.seconds as f64;
        let committed_tps = tally.committed as f64 / seconds;
        Ok(Overload {
            offered_tps: round(begun as f64 / seconds, 1),
            committed_tps: round(committed_tps, 1),
            share_of_peak: round(committed_tps / self.peak_tps, 4),
            aborted: tally.aborted,
            unknown: tally.unknown,
            refused: tally.refused,
            latency_us: Latency::of(&tally),
            recovered_seconds: recovered(&after_tps, enough_tps),
            after_tps,
        })
    }

    async fn offer(
        &self,
        db: &Database,
        connection: u64,
        per_second: f64,
        load: &Load,
    ) -> Result<Offered, Failure> {
        let first_client = load.clients + connection;
        let keyspace = db.keyspace(self.keyspace).await?;
        Ok(Load { keyspace, first_client, ..load.clone() }.offer(per_second))
    }
}

/// Runs a load second by second, as it was before, until the cluster is itself again.
async fn watch(load: &Load, enough_tps: f64, progress: &Progress) -> Vec<u64> {
    let mut running = load.clone().start();
    let mut after = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    for second in 1..=SECONDS_AFTER {
        ticks.tick().await;
        let committed = running.take_tally().committed;
        progress.now(format!("{second} s after overload, {} transactions/s", thousands(committed)));
        after.push(committed);
        if recovered(&after, enough_tps).is_some() {
            break;
        }
    }
    running.end().await;
    after
}

/// The first second from which this much is committed for a while.
fn recovered(after_tps: &[u64], enough_tps: f64) -> Option<u64> {
    let is_itself = |window: &[u64]| window.iter().all(|committed| *committed as f64 >= enough_tps);
    let first = after_tps.windows(ITSELF_SECONDS).position(is_itself)?;
    Some(first as u64 + 1)
}

impl Overload {
    /// The rows for people.
    pub(super) fn rows(&self, table: &mut Table) {
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        row("overload: offered/s", thousands(self.offered_tps as u64));
        let share = self.share_of_peak * 100.0;
        row("overload: committed/s", format!("{} ({share:.0} %)", thousands(self.committed_tps as u64)));
        row(
            "overload: unknown, refused",
            format!("{}, {}", thousands(self.unknown), thousands(self.refused)),
        );
        row("overload: latency p99", micros(self.latency_us.p99));
        let recovered = self.recovered_seconds.map(|seconds| format!("{seconds} s"));
        let never = format!("not within {SECONDS_AFTER} s");
        row("itself again after", recovered.unwrap_or(never));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_itself_again_once_it_stays_so() {
        let table: [(&[u64], Option<u64>); 5] = [
            (&[80, 90, 70, 0], Some(1)),
            (&[0, 69, 70, 70, 70], Some(3)),
            (&[100, 100, 0, 100, 100, 100], Some(4)),
            (&[100, 100], None),
            (&[], None),
        ];
        for (after, expected) in table {
            assert_eq!(recovered(after, 70.0), expected, "{after:?}");
        }
    }
}
