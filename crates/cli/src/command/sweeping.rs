//! Drives the sweepers of keyspaces whose values expire: in the process of a node, which is a client of its cluster for that. The keys that are swept, and the time of that, are decided by
//! [`quorate::expiry::Sweeper`].

use std::collections::BTreeMap;
use std::time::Duration;

use quorate::expiry::{Sweeper, SweeperConfig};
use quorate::{Database, Keyspace};
use quorate_core::Instant;
use quorate_server::{SweepingStatus, SweptHere};

/// How often it is looked which keyspaces are to be swept.
const SURVEY_INTERVAL: Duration = Duration::from_secs(1);

/// How long the node waits after it could not reach its cluster.
const RECONNECT_PAUSE: Duration = Duration::from_secs(5);

/// No step of one keyspace keeps the others waiting for longer.
const STEP_MAX: Duration = Duration::from_secs(5);

/// One keyspace that is swept.
struct Swept {
    keyspace: Keyspace,
    sweeper: Sweeper,
    rank: u32,
    rests_until: Instant,
}

/// Sweeps what `here` says, for as long as it is polled, and tells how that goes. Nobody is connected to before there is anything to sweep.
pub(crate) async fn sweep(
    addresses: Vec<String>,
    client: quorate::Options,
    here: impl Fn() -> Vec<SweptHere>,
    tell: impl Fn(Vec<SweepingStatus>),
) -> std::convert::Infallible {
    let began = tokio::time::Instant::now();
    loop {
        if here().is_empty() {
            tokio::time::sleep(SURVEY_INTERVAL).await;
            continue;
        }
        match quorate::connect_with(addresses.as_slice(), client.clone()).await {
            Ok(db) => sweep_with(&db, began, &here, &tell).await,
            Err(error) => {
                tracing::warn!(%error, "values that expire are not swept, because the cluster cannot be reached");
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
        }
    }
}

/// Sweeps until there is nothing to sweep any more.
async fn sweep_with(
    db: &Database,
    began: tokio::time::Instant,
    here: &impl Fn() -> Vec<SweptHere>,
    tell: &impl Fn(Vec<SweepingStatus>),
) {
    let now = || Instant::START + began.elapsed();
    let mut swept: BTreeMap<String, Swept> = BTreeMap::new();
    loop {
        let wanted = here();
        swept.retain(|name, _| wanted.iter().any(|wanted| wanted.keyspace == *name));
        if wanted.is_empty() {
            tell(Vec::new());
            return;
        }
        for SweptHere { keyspace: name, rank } in wanted {
            match swept.get_mut(&name) {
                Some(known) if known.rank == rank => {}
                Some(known) => {
                    known.sweeper.stand_behind(rank);
                    known.rank = rank;
                }
                None => match db.keyspace(&name).await {
                    Ok(keyspace) => {
                        let sweeper = Sweeper::new(SweeperConfig::default(), rank);
                        let keyspace = keyspace.with_deadline(STEP_MAX);
                        swept.insert(name, Swept { keyspace, sweeper, rank, rests_until: Instant::START });
                    }
                    Err(error) => tracing::debug!(%error, keyspace = name, "cannot be swept yet"),
                },
            }
        }
        let survey = now() + SURVEY_INTERVAL;
        while now() < survey {
            for one in swept.values_mut().filter(|one| one.rests_until <= now()) {
                one.rests_until =
                    one.keyspace.sweep_step(&mut one.sweeper, now()).await.unwrap_or(Instant::START);
            }
            let next =
                swept.values().map(|one| one.rests_until).min().map_or(survey, |next| next.min(survey));
            tokio::time::sleep(next.saturating_since(now())).await;
        }
        tell(swept.iter().map(|(name, one)| status(name, one)).collect());
    }
}

fn status(name: &str, one: &Swept) -> SweepingStatus {
    let swept = one.sweeper.swept();
    SweepingStatus {
        keyspace: name.to_owned(),
        rank: one.rank,
        keys: swept.keys,
        transactions: swept.transactions,
        conflicts: swept.conflicts,
        failures: swept.failures,
        behind_seconds: swept.behind.as_secs_f64(),
    }
}
