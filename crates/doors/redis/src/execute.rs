//! Commands that touch keys, carried out in their order: those of a pipeline together, those of a transaction as one.

use std::sync::Arc;

use quorate_gateway::Scope;
use quorate_redis_commands::{MORE, Reply, Request};

use crate::databases::{Databases, Keys};
use crate::failure::Failure;
use crate::permission;
use crate::plan::{Asked, Decoded, Indivisible, Plan, Watched, decode};
use crate::scripts::{Done, Item, Job, Scripts};

/// So many commands of a pipeline are one transaction at most, where they run at shards,
const TOGETHER_MAX: usize = 256;

/// and where they are an interactive transaction, whose conflicts are those of all its keys.
const TOGETHER_INTERACTIVE_MAX: usize = 32;

/// So many bytes of a pipeline are one transaction at most.
const TOGETHER_BYTES_MAX: usize = 1024 * 1024;

/// One of the databases of a door, and what is drawn at random for it.
pub(crate) struct Executor<'a, D: Databases> {
    pub(crate) databases: &'a D,
    pub(crate) number: usize,
    pub(crate) seed: u64,
}

impl<D: Databases> Executor<'_, D> {
    fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.seed
    }

    async fn open(&self, writes: bool) -> Result<D::Keys, Failure> {
        self.databases.open(self.number, writes).await
    }

    fn note(&self, failure: &Failure) {
        if failure.is_stale {
            self.databases.forget(self.number);
        }
    }

    /// Carries out some of the first commands of a pipeline as one transaction, and gives a reply for each of these. There is one command at least.
    ///
    /// Commands that do not fit into one transaction are tried in smaller parts: so replies are never longer than a transaction may read.
    pub(crate) async fn run_some(&mut self, asked: &[Asked]) -> Vec<Reply> {
        let permit = self.databases.permit(self.number);
        let mut asked = asked;
        for (at, one) in asked.iter().enumerate() {
            if let Err(failure) = permission::check(&permit, &one.command, &one.words) {
                if at == 0 {
                    return vec![failure.reply()];
                }
                // Those before it are carried out; it is refused in its turn.
                asked = &asked[..at];
                break;
            }
        }
        let writes = asked.iter().any(|one| one.command.writes());
        let keys = match self.open(writes).await {
            Ok(keys) => keys,
            Err(failure) => return asked.iter().map(|_| failure.reply()).collect(),
        };
        let mut count = together(asked, keys.runs_at_shards());
        loop {
            let plan = self.plan(&keys, &asked[..count]);
            if let Some((divisible, _)) = &plan {
                count = *divisible;
            } else if keys.runs_at_shards() {
                // The first one has to see keys of several shards.
                count = 1;
            }
            let (now, seed) = (&asked[..count], self.next_seed());
            let done = match plan {
                Some((_, plan)) => self.run_in_company(&keys, now, plan, seed).await,
                None => interact(&keys, now, &[], seed).await,
            };
            match done {
                Ok(done) => {
                    // Nothing is watched, so that there are replies.
                    let mut replies = done.unwrap_or_default();
                    replies.resize(now.len(), Reply::Null);
                    for (at, (one, reply)) in now.iter().zip(&mut replies).enumerate() {
                        if *reply == MORE {
                            assert!(at + 1 == now.len(), "{:?} goes on behind other commands", one.command);
                            *reply = self.go_on(&keys, one).await;
                        }
                    }
                    return replies;
                }
                Err(failure) if failure.is_too_large && count > 1 => count /= 2,
                Err(failure) => {
                    self.note(&failure);
                    return now.iter().map(|_| failure.reply()).collect();
                }
            }
        }
    }

    /// Carries out a plan of these commands, together with those of other clients if that may be.
    async fn run_in_company(
        &self,
        keys: &D::Keys,
        asked: &[Asked],
        plan: Plan,
        seed: u64,
    ) -> Result<Option<Vec<Reply>>, Failure> {
        let joint = self.databases.joint();
        let Some(place) = joint.place(self.number, asked, &plan) else {
            return plan.run(keys, &[], seed).await;
        };
        match joint.run(place, keys, asked, plan, seed).await {
            Some(done) => done.map(Some),
            None => {
                let alone = Plan::of(asked, keys).map_err(|Indivisible| Failure::too_large())?;
                alone.run(keys, &[], seed).await
            }
        }
    }

    /// A plan of as many of the first commands as can be divided by shards, and how many these are; none if that is none, or shards run no commands.
    fn plan(&self, keys: &D::Keys, asked: &[Asked]) -> Option<(usize, Plan)> {
        if !keys.runs_at_shards() {
            return None;
        }
        if let Ok(plan) = Plan::of(asked, keys) {
            return Some((asked.len(), plan));
        }
        let divisible = |one: &&Asked| Plan::of(std::slice::from_ref(*one), keys).is_ok();
        let count = asked.iter().take_while(divisible).count();
        if count == 0 { None } else { Some((count, Plan::of(&asked[..count], keys).ok()?)) }
    }

    /// Calls a command again until it has come to its end.
    async fn go_on(&mut self, keys: &D::Keys, asked: &Asked) -> Reply {
        loop {
            let seed = self.next_seed();
            let alone = std::slice::from_ref(asked);
            let done = match Plan::of(alone, keys) {
                Ok(plan) if keys.runs_at_shards() => plan.run(keys, &[], seed).await,
                Ok(_) | Err(Indivisible) => interact(keys, alone, &[], seed).await,
            };
            match done.map(|done| done.and_then(|mut replies| replies.pop())) {
                Ok(Some(reply)) if reply == MORE => {}
                Ok(reply) => return reply.unwrap_or(Reply::Null),
                Err(failure) => return failure.reply(),
            }
        }
    }

    /// Carries out commands as one transaction, unless something that is watched has changed: then there are no replies.
    pub(crate) async fn run_atomically(
        &mut self,
        asked: &[Asked],
        watched: &[Watched],
    ) -> Result<Option<Vec<Reply>>, Failure> {
        if asked.is_empty() && watched.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let permit = self.databases.permit(self.number);
        for one in asked {
            permission::check(&permit, &one.command, &one.words)?;
        }
        for (key, _) in watched {
            permission::check_keys(&permit, false, std::slice::from_ref(&key.to_vec()))?;
        }
        let keys = self.open(asked.iter().any(|one| one.command.writes())).await?;
        let seed = self.next_seed();
        let plan = if keys.runs_at_shards() { Plan::of(asked, &keys).ok() } else { None };
        let plan = plan.and_then(|mut plan| {
            for (key, _) in watched {
                plan.involve(keys.shard_of(quorate_redis_commands::slot_of(key)));
            }
            // One shard alone can tell that something has changed; several would have to agree.
            (watched.is_empty() || plan.is_at_one_shard()).then_some(plan)
        });
        let done = match plan {
            Some(plan) => plan.run(&keys, watched, seed).await,
            None => interact(&keys, asked, watched, seed).await,
        };
        let done = done.inspect_err(|failure| self.note(failure))?;
        let left = |reply| {
            let is_left = reply == MORE;
            if is_left {
                Reply::error("ERR there is more than one transaction removes: some is left")
            } else {
                reply
            }
        };
        Ok(done.map(|replies| replies.into_iter().map(left).collect()))
    }
}

impl<D: Databases> Executor<'_, D> {
    /// Carries out scripts, and commands among them, as one transaction, unless something that is watched has changed.
    pub(crate) async fn run_scripts(
        &mut self,
        scripts: &Arc<Scripts>,
        items: Vec<Item>,
        watched: Vec<Watched>,
    ) -> Result<Done, Failure> {
        let permit = self.databases.permit(self.number);
        for item in &items {
            item.check(&permit)?;
        }
        let writes = items.iter().any(Item::writes);
        let keys = self.open(writes).await?;
        // A shard knows no users: it runs only what may touch whatever it likes.
        let may_run_at_shard = permit.allows(writes, Scope::Whole);
        let job = Job::new(items, watched, self.next_seed(), &keys).with_permit(permit);
        if may_run_at_shard {
            let done = scripts.run_at_shard(&job, &keys, self.number).await;
            if let Some(done) = done.inspect_err(|failure| self.note(failure))? {
                return Ok(done);
            }
        }
        let _place = scripts.place().await?;
        let done = keys.by_steps(|timestamp| scripts.begin(&job, timestamp)).await;
        done.inspect_err(|failure| self.note(failure))
    }
}

/// How many of the first commands of a pipeline are to be one transaction.
fn together(asked: &[Asked], runs_at_shards: bool) -> usize {
    let count_max = if runs_at_shards { TOGETHER_MAX } else { TOGETHER_INTERACTIVE_MAX };
    let (mut count, mut bytes) = (0, 0);
    for one in asked.iter().take(count_max) {
        bytes += one.words.iter().map(|word| word.len()).sum::<usize>();
        if count > 0 && bytes > TOGETHER_BYTES_MAX {
            break;
        }
        count += 1;
        if one.command.may_take_several_transactions(&one.words) {
            break;
        }
    }
    count
}

/// Carries out commands as an interactive transaction.
async fn interact(
    keys: &impl Keys,
    asked: &[Asked],
    watched: &[Watched],
    seed: u64,
) -> Result<Option<Vec<Reply>>, Failure> {
    let commands = asked.iter().map(|one| one.words.iter().map(AsRef::as_ref).collect());
    let watched = watched.iter().map(|(key, mark)| (key.as_ref(), *mark));
    let request = Request { seed, clock: 0, watched: watched.collect(), commands: commands.collect() };
    match decode(&keys.as_transaction(&request.encode()).await?)? {
        Decoded::Replies(replies) => Ok(Some(replies)),
        Decoded::Changed => Ok(None),
        // It has told no clock.
        Decoded::Later => Err(Failure::refused("this is no answer to a request without a clock")),
    }
}
