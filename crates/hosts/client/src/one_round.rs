//! Transactions that run in one round: what each shard does is known before they are sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Executed, Failure, NotExecuted};
use quorate_core::topology::Keyspace as Definition;
use quorate_core::{ShardId, Timestamp, TransactionId, Value};
use quorate_granola::Class;
use tokio::time::Instant;

use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::receipt::Receipt;
use crate::retry::Retries;
use crate::session::{COORDINATOR_GRACE, NotBegun, OneRound};
use crate::token::Token;
use crate::transaction::{WINDOW_RETRY_AFTER, clock_now};
use crate::waiters::ExecutedAnswer;

/// The result of a one-round transaction.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Every shard has done its part.
    Done {
        /// The answer of each.
        answers: BTreeMap<ShardId, Value>,
        /// The committed transaction.
        receipt: Receipt,
    },
    /// A shard refuses its part, so nobody has done anything.
    Refused {
        /// The shard.
        shard: ShardId,
        /// Why, in the encoding of whatever runs there.
        reason: Value,
    },
    /// Every shard has done its part, and what they have answered cannot be had.
    AnswersLost {
        /// The committed transaction.
        receipt: Receipt,
    },
}

impl Keyspace {
    /// Has a transaction executed in one round: again, if another one was in the way, until the deadline. The next attempt begins only
    /// once the previous one has surely not been executed.
    ///
    /// # Errors
    /// As [`Keyspace::transact`].
    pub(crate) async fn execute(&self, parts: BTreeMap<ShardId, Value>, class: Class) -> Result<Ended> {
        let first = self.session().next_transaction();
        let mut retries = Retries::new(self.deadline(), first.client.0 ^ first.sequence);
        loop {
            let (attempt, patience) = retries.begin();
            let token = Token {
                transaction: TransactionId { attempt, ..first },
                began: clock_now(),
                participants: parts.keys().copied().collect(),
            };
            let answer = match self.attempt(&token, &parts, class, patience).await? {
                // Only what writes is ever in doubt.
                Err(NotExecuted::Failed(Failure::Unknown { .. })) => {
                    let recalled = self.session().recall(&token, retries.remaining()).await;
                    recalled.ok_or_else(|| Error::Unknown { token: token.clone() })?
                }
                answer => answer,
            };
            let receipt = |token: Token, timestamp: Timestamp, attempts| Receipt {
                token,
                timestamp,
                fast: false,
                attempts,
                origin: None,
            };
            match answer {
                Ok(Executed { timestamp, answers }) => {
                    return Ok(Ended::Done {
                        answers,
                        receipt: receipt(token, timestamp, retries.attempts()),
                    });
                }
                Err(NotExecuted::Refused { shard, reason }) => return Ok(Ended::Refused { shard, reason }),
                Err(NotExecuted::AnswersLost { timestamp, .. }) => {
                    return Ok(Ended::AnswersLost { receipt: receipt(token, timestamp, retries.attempts()) });
                }
                Err(NotExecuted::Failed(Failure::Conflict)) => {}
                Err(NotExecuted::Failed(failure)) => {
                    if let Some(reason) = self.session().denial(token.transaction) {
                        self.session().forget(token.transaction, None);
                        let token = (class != Class::ReadOnly).then_some(token);
                        return Err(Error::Denied { reason, token });
                    }
                    return Err(self.shared().error(&self.definition(), failure, || token));
                }
                Err(NotExecuted::Forgotten) => return Err(Error::Unknown { token }),
                Err(NotExecuted::NoSuchShard(_)) => {
                    return Err(Invalid::KeyspaceDropped { name: self.name().to_owned() }.into());
                }
            }
            if !retries.pause().await {
                return Err(Error::Conflict);
            }
        }
    }

    /// One attempt, and what the coordinator says of it.
    async fn attempt(
        &self,
        token: &Token,
        parts: &BTreeMap<ShardId, Value>,
        class: Class,
        patience: Duration,
    ) -> Result<ExecutedAnswer> {
        let (shared, session) = (self.shared(), self.session());
        let deadline = Instant::now() + patience;
        let _permit = match tokio::time::timeout_at(deadline, session.commit_permit()).await {
            Ok(Some(permit)) => permit,
            Ok(None) => return Err(Error::Closed),
            Err(_) => return Err(Error::Overloaded { retry_after: WINDOW_RETRY_AFTER }),
        };
        let begin = |keyspace: Arc<Definition>| {
            let without_space = session.without_space(&keyspace);
            if class != Class::ReadOnly
                && let Some((_, reason)) = without_space.into_iter().find(|(id, _)| parts.contains_key(id))
            {
                return Err(Error::NoSpace { reason });
            }
            let order = OneRound {
                transaction: token.transaction,
                keyspace: &keyspace,
                parts: parts.clone(),
                class,
                not_before: token.began,
                patience: deadline.saturating_duration_since(Instant::now()),
            };
            session.execute(order).map_err(|not_begun| match not_begun {
                NotBegun::Refused(error) => shared.not_opened(&keyspace, error),
                NotBegun::Unserved(missing) => shared.unavailable(&keyspace, &missing),
            })
        };
        let receiver = self.once_current(deadline, begin).await?;
        // The coordinator keeps the deadline; the timer here is for when the runtime that hosts it has ended.
        match tokio::time::timeout_at(deadline + COORDINATOR_GRACE, receiver).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(_)) => {}
            Err(_) => session.forget(token.transaction, None),
        }
        match class {
            Class::ReadOnly if session.is_closed() => Err(Error::Closed),
            Class::ReadOnly => Err(shared.unanswered(&self.definition(), |shard| parts.contains_key(&shard))),
            Class::Independent | Class::Coordinated => {
                Ok(Err(Failure::Unknown { participants: token.participants.clone() }.into()))
            }
        }
    }
}
