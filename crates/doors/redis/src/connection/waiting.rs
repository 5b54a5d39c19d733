//! A client that waits until there is something to take.

use std::time::Duration;

use quorate_gateway::Ended;
use quorate_redis_commands::Reply;
use tokio::time::Instant;

use super::Client;
use super::subscriptions::message;
use crate::blocking::Waits;
use crate::databases::Databases;
use crate::local::clients::Unblocked;
use crate::plan::Asked;
use crate::reading::Reading;

/// A client that waits for a key looks at it again after this time, in case that another node has filled it,
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);

/// and more seldom the longer it waits, up to this.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(250);

impl<D: Databases> Client<'_, D> {
    /// Carries out a command that waits until there is something to take, the time is up, or the client has gone. Its commands meanwhile come
    /// behind.
    pub(super) async fn wait_for(&mut self, wait: Result<impl Waits, Reply>) -> Result<(), Ended> {
        self.carry_out().await?;
        self.facts.count(1);
        let wait = match wait {
            Ok(wait) => wait,
            Err(reply) => {
                self.reply(&reply);
                return Ok(());
            }
        };
        // A time beyond those that a clock can tell is as none.
        let deadline = wait.timeout().and_then(|timeout| Instant::now().checked_add(timeout));
        let facts = self.facts;
        let listener = facts.bells.listen(self.state.number, wait.keys());
        let reply = self.run_one(wait.asked().clone()).await;
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

    /// Carries out commands that only read, as many together as may be, and gives a reply for each.
    async fn ask(&mut self, asked: &[Asked]) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(asked.len());
        while replies.len() < asked.len() {
            let mut executor = self.executor(self.state.number);
            replies.extend(executor.run_some(&asked[replies.len()..]).await);
            self.seed = executor.seed;
        }
        replies
    }

    /// Waits for entries of streams.
    pub(super) async fn read_on(&mut self, reading: Result<Reading, Reply>) -> Result<(), Ended> {
        // Commands before it may add to the streams.
        self.carry_out().await?;
        let mut reading = match reading {
            Ok(reading) => reading,
            Err(reply) => return self.wait_for(Err::<Reading, Reply>(reply)).await,
        };
        let (positions, asked): (Vec<usize>, Vec<Asked>) = reading.last_ids().into_iter().unzip();
        for (at, reply) in positions.into_iter().zip(self.ask(&asked).await) {
            match reply {
                Reply::Bulk(id) => reading.set_id(at, id),
                fault => {
                    // The command says itself what is wrong with it, and may find something else first.
                    let reply = self.run_one(reading.asked().clone()).await;
                    let reply = if reply.is_error() { reply } else { fault };
                    return self.wait_for(Err::<Reading, Reply>(reply)).await;
                }
            }
        }
        self.wait_for(Ok(reading)).await
    }

    /// Takes from the first key that has something by now.
    async fn look_again(&mut self, wait: &impl Waits) -> Option<Reply> {
        let questions: Option<Vec<Asked>> = (0..wait.keys().len()).map(|at| wait.question(at)).collect();
        let answers = self.ask(&questions?).await;
        // An error is one of a moment: it is looked at again.
        let ready = answers.iter().enumerate().filter(|(_, answer)| wait.is_yes(answer));
        for at in ready.map(|(at, _)| at) {
            let reply = self.run_one(wait.asked_of(at)).await;
            if let Some(reply) = wait.reply(reply) {
                return Some(reply);
            }
        }
        None
    }
}
