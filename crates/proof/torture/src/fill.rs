//! Keys that a keyspace holds before anything strikes: replays and joins take as long as there is something to replay and to tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quorate::{Batch, Keyspace};
use quorate_cluster::Failure;
use tokio::task::JoinSet;

use crate::{Moment, Tell};

/// So many keys are written by one transaction at most,
const BATCH_KEYS_MAX: u64 = 500;

/// with so many bytes of values.
const BATCH_BYTES_MAX: u64 = 256 * 1024;

/// So many transactions are in flight.
const IN_FLIGHT: usize = 16;

/// How long one batch is tried, with pauses of so long in between.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// How often it is told how far this is.
const TELL_INTERVAL: Duration = Duration::from_millis(200);

/// Keys that no client of the run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// How many.
    pub keys: u64,
    /// How many bytes the value of each has.
    pub value_bytes: u64,
}

impl Fill {
    /// How many keys one transaction writes.
    fn of_batch(self) -> u64 {
        (BATCH_BYTES_MAX / self.value_bytes.max(1)).clamp(1, BATCH_KEYS_MAX)
    }

    /// The keys of a batch: those with these numbers.
    fn batch(self, number: u64) -> std::ops::Range<u64> {
        let first = number * self.of_batch();
        first..(first + self.of_batch()).min(self.keys)
    }

    /// Writes them.
    pub(crate) async fn write(self, keyspace: &Keyspace, tell: &Tell<'_>) -> Result<(), Failure> {
        let (next, mut writers) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        for _ in 0..IN_FLIGHT {
            writers.spawn(write_batches(self, keyspace.clone(), Arc::clone(&next)));
        }
        let mut told = tokio::time::interval(TELL_INTERVAL);
        loop {
            tokio::select! {
                _ = told.tick() => {
                    let done = (next.load(Ordering::Relaxed) * self.of_batch()).min(self.keys);
                    tell(Moment::Fills { done, of: self.keys });
                }
                ended = writers.join_next() => match ended {
                    Some(ended) => ended.map_err(Failure::failed)??,
                    None => return Ok(()),
                },
            }
        }
    }
}

/// Writes the batches that nobody has begun yet.
async fn write_batches(fill: Fill, keyspace: Keyspace, next: Arc<AtomicU64>) -> Result<(), Failure> {
    let value = vec![b'v'; fill.value_bytes as usize];
    loop {
        let keys = fill.batch(next.fetch_add(1, Ordering::Relaxed));
        if keys.is_empty() {
            return Ok(());
        }
        let put = |batch: Batch, key: u64| batch.put(format!("filled/{key:012}"), &value);
        let batch = keys.fold(Batch::new(), put);
        let since = Instant::now();
        // To write the same once more does no harm, whatever has come of it before.
        while let Err(error) = keyspace.apply(batch.clone()).await {
            if since.elapsed() > PATIENCE {
                return Err(Failure::failed(format!("the keyspace cannot be filled: {error}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_every_key_once_and_not_too_many_bytes() {
        for (keys, value_bytes, of_batch) in
            [(1_201, 10, 500), (100, 8_192, 32), (3, 1 << 20, 1), (7, 0, 500)]
        {
            let fill = Fill { keys, value_bytes };
            assert_eq!(fill.of_batch(), of_batch);
            let all: Vec<u64> = (0..)
                .map(|number| fill.batch(number))
                .take_while(|keys| !keys.is_empty())
                .flatten()
                .collect();
            assert_eq!(all, (0..keys).collect::<Vec<_>>());
        }
    }
}
