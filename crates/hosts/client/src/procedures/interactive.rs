//! Procedures as interactive transactions, in keyspaces of any isolation.
//!
//! ```text
//!   fetch what the arguments name ──► call ──► done: put its writes, commit
//!                  ▲                   │
//!                  └── fetch that ◄────┘ missed something: see `quorate_procedure::fetched`
//! ```

use quorate_procedure::fetched::{Attempt, Called, Found, NeededRange};
use quorate_procedure::{Direction, Needs, Procedure, Stop};

use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::receipt::Receipt;
use crate::transaction::{Transaction, clock_now};

/// So many keys are asked for in one page of a scan.
const PAGE: usize = 1_000;

/// How a transaction has ended that is a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concluded {
    /// The procedure has done its work, and answers this.
    Done(Vec<u8>),
    /// It refuses, for this reason; nothing was written.
    Refused(Vec<u8>),
}

/// A transaction that is a procedure, and has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transacted {
    /// How the procedure has ended.
    pub ended: Concluded,
    /// How often the last attempt has fetched what was missing.
    pub fetches: u32,
    /// The commit. Where nothing was written, it has confirmed what was read.
    pub receipt: Receipt,
}

impl Keyspace {
    /// Runs a procedure as an interactive transaction, whatever the isolation: fetches what it reads, puts what it writes, and commits; again, if another
    /// transaction was in the way, until the deadline. Its time ([`quorate_procedure::Store::timestamp`]) is the clock of this client when
    /// the attempt begins.
    ///
    /// A refusal is committed like any other transaction that only reads: it is worth no more than what the procedure has read.
    ///
    /// # Errors
    /// As [`Keyspace::transact`]; [`Error::Application`] if the procedure fails on what it has read, after a commit has confirmed that.
    pub async fn transact_procedure(
        &self,
        procedure: &(dyn Procedure + Sync),
        arguments: &[u8],
    ) -> Result<Transacted> {
        let body = async |txn: Transaction| {
            let (mut attempt, mut fetches) = (Attempt::at(clock_now().as_micros()), 0);
            loop {
                match attempt.next(procedure, arguments) {
                    Called::Misses(needs) => {
                        fetches += 1;
                        attempt.found_all(txn.fetch(needs).await?);
                    }
                    Called::Done { answer, writes } => {
                        for (key, value) in writes {
                            match value {
                                Some(value) => txn.put(key, value)?,
                                None => txn.delete(key)?,
                            }
                        }
                        return Ok((Ok(Concluded::Done(answer)), fetches));
                    }
                    Called::Refused(reason) => return Ok((Ok(Concluded::Refused(reason)), fetches)),
                    Called::Stopped(stop) => return Ok((Err(stop), fetches)),
                }
            }
        };
        let ((ended, fetches), receipt) = self.transact_with_receipt(body).await?;
        let ended = ended.map_err(|stop| Error::application(Failed { stop }))?;
        Ok(Transacted { ended, fetches, receipt })
    }
}

/// A procedure has failed on what it has read.
#[derive(Debug, thiserror::Error)]
#[error("the procedure fails on what it has read, which is so: {stop:?}")]
struct Failed {
    stop: Stop,
}

impl Transaction {
    /// Reads keys and ranges that code which runs over a [`quorate_procedure::fetched`] store has missed.
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::scan`].
    pub async fn fetch(&self, needs: Needs) -> Result<Found> {
        let values = self.get_many(&needs.keys).await?;
        let values = values.into_iter().map(|value| value.map(|value| value.to_vec()));
        let mut found = Found { keys: needs.keys.into_iter().zip(values).collect(), ranges: Vec::new() };
        for range in needs.ranges {
            self.fetch_range(range, &mut found).await?;
        }
        Ok(found)
    }

    /// Reads a range, or as much of it as is enough. Scans begin at the least key, so what needs the greatest reads all.
    async fn fetch_range(&self, range: NeededRange, found: &mut Found) -> Result<()> {
        let NeededRange { mut from, to, limit, direction } = range;
        let mut enough = if direction == Direction::Ascending { limit } else { usize::MAX };
        loop {
            let page = self.scan(&from, &to, enough.min(PAGE) as u32).await?;
            enough = enough.saturating_sub(page.entries.len());
            let pairs = page.entries.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            let end = page.next.as_ref().map_or_else(|| to.clone(), |next| next.to_vec());
            found.ranges.push((from, end.clone(), pairs));
            if page.next.is_none() || enough == 0 {
                return Ok(());
            }
            from = end;
        }
    }
}
