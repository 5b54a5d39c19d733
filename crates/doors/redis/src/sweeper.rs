//! Has what is expired or dropped collected, a page at a time.
//!
//! Every door sweeps, each at its own pace: what another one has swept is not there any more. Nothing depends on it but memory, because what is
//! expired is not seen.

use std::time::Duration;

use bytes::Bytes;
use quorate_redis_commands::{DUE, Reply, SWEEP, find};

use crate::databases::{Databases, Keys};
use crate::plan::{Asked, Plan};

/// How long to rest behind a page in which there was little.
const REST: Duration = Duration::from_millis(500);

/// How long to rest behind one in which there was much: a sweep is a transaction as any other, and not to be in their way.
const SHORT_REST: Duration = Duration::from_millis(10);

/// A page with more is followed by the next one soon.
const MUCH: i64 = 16;

/// Sweeps all databases until it is dropped.
pub(crate) async fn run(databases: impl Databases) {
    let mut cursors = vec![0_u64; databases.count()];
    loop {
        let mut swept_max = 0;
        for (number, cursor) in cursors.iter_mut().enumerate() {
            // A keyspace may come later, and a cluster come back.
            if let Some((next, swept)) = sweep_page(&databases, number, *cursor).await {
                (*cursor, swept_max) = (next, swept_max.max(swept));
            }
        }
        tokio::time::sleep(if swept_max > MUCH { SHORT_REST } else { REST }).await;
    }
}

/// Sweeps a page of a database: where the next one begins, and how much there was. None if that could not be found out.
async fn sweep_page(databases: &impl Databases, number: usize, cursor: u64) -> Option<(u64, i64)> {
    let keys = databases.open(number, true).await.ok()?;
    if !keys.runs_at_shards() {
        return None;
    }
    let (next, due) = ask(&keys, DUE, cursor).await?;
    if due == 0 {
        return Some((next, 0));
    }
    ask(&keys, SWEEP, cursor).await
}

async fn ask(keys: &impl Keys, name: &'static str, cursor: u64) -> Option<(u64, i64)> {
    let words = vec![Bytes::from_static(name.as_bytes()), Bytes::from(cursor.to_string())];
    let plan = Plan::of(&[Asked { command: find(name.as_bytes())?, words }], keys).ok()?;
    let replies = plan.run(keys, &[], 0).await.ok()??;
    match replies.first()? {
        Reply::Array(page) => match &page[..] {
            [Reply::Bulk(next), Reply::Integer(count)] => {
                Some((std::str::from_utf8(next).ok()?.parse().ok()?, *count))
            }
            _ => None,
        },
        _ => None,
    }
}
