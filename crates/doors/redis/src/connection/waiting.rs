//! A client that waits until there is something to take.

use std::time::Duration;

use bytes::Bytes;
use quorate_gateway::Ended;
use quorate_redis_commands::{Reply, find};
use tokio::time::Instant;

use super::Client;
use super::subscriptions::message;
use crate::blocking::Wait;
use crate::databases::Databases;
use crate::local::clients::Unblocked;
use crate::plan::Asked;

/// A client that waits for a key looks at it again after this time, in case that another node has filled it,
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);

/// and more seldom the longer it waits, up to this.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(250);

impl<D: Databases> Client<'_, D> {
    /// Carries out a command that waits until there is something to take, the time is up, or the client has gone. Its commands meanwhile come
    /// behind.
    pub(super) async fn wait_for(&mut self, wait: Result<Wait, Reply>) -> Result<(), Ended> {
        self.carry_out().await?;
        self.facts.count(1);
        let wait = match wait {
            Ok(wait) => wait,
            Err(reply) => {
                self.reply(&reply);
                return Ok(());
            }
        };
        let deadline = wait.timeout.map(|timeout| Instant::now() + timeout);
        let facts = self.facts;
        let listener = facts.bells.listen(self.state.number, &wait.keys);
        let reply = self.run_one(wait.asked.clone()).await;
        if let Some(reply) = wait.reply(reply) {
            self.reply(&reply);
            return Ok(());
        }
        self.send().await?;
        self.state.tell(&self.connection);
        let waiting = self.state.peer.begin_to_wait();
        let mut pause = LOOK_AGAIN_MIN;
        loop {
            let is_over = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = listener.rung() => pause = LOOK_AGAIN_MIN,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LOOK_AGAIN_MAX),
                () = is_over => {
                    self.reply(&Reply::NullArray);
                    return Ok(());
                }
                ended = waiting.ended() => {
                    match ended {
                        Some(Unblocked::Timeout) => self.reply(&Reply::NullArray),
                        Some(Unblocked::Error) => {
                            self.reply(&Reply::error("UNBLOCKED client unblocked via CLIENT UNBLOCK"));
                        }
                        None => return Err(Ended::Killed),
                    }
                    return Ok(());
                }
                () = message(self.state.subscriber.as_ref()) => {
                    self.write_messages()?;
                    self.send().await?;
                    continue;
                }
                ended = self.connection.left() => return Err(ended),
            }
            if let Some(reply) = self.look_again(&wait).await {
                self.reply(&reply);
                return Ok(());
            }
        }
    }

    /// Takes from the first key that has something by now. A key of another type is passed over, as Redis passes it over once a client waits.
    async fn look_again(&mut self, wait: &Wait) -> Option<Reply> {
        let command = find(b"type")?;
        let ask = |key: &Bytes| Asked { command, words: vec![Bytes::from_static(b"type"), key.clone()] };
        let types: Vec<Asked> = wait.keys.iter().map(ask).collect();
        let mut rest = types.as_slice();
        let mut ready = Vec::new();
        while !rest.is_empty() {
            let mut executor = self.executor(self.state.number);
            let replies = executor.run_some(rest).await;
            self.seed = executor.seed;
            // An error is one of a moment: it is looked at again.
            let filled = rest.iter().zip(&replies).filter(|(_, reply)| wait.takes_from(reply));
            ready.extend(filled.map(|(one, _)| one.words[1].clone()));
            rest = rest.get(replies.len().max(1)..).unwrap_or_default();
        }
        for key in ready {
            let reply = self.run_one(wait.asked_of(&key)).await;
            if let Some(reply) = wait.reply(reply) {
                return Some(reply);
            }
        }
        None
    }
}
