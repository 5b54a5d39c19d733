//! Scripts whose keys lie at one shard, which that shard runs: in one round, and nobody can be in the way.
//!
//! A shard gives up what it does not know, and then nothing was done: the door runs the same job as an interactive transaction.

use bytes::Bytes;
use quorate_redis_commands::{Reply, find, slot_of};
use quorate_redis_evaluator::{Answer, Item as Part, Request, Text};
use quorate_redis_scripts::{Place, Script, Telling};

use super::{Done, Item, Job, Scripts, lock};
use crate::databases::{AtShard, Keys};
use crate::failure::Failure;
use crate::plan::{micros_now, unreadable};

impl Item {
    fn script(&self) -> Option<&Script> {
        if let Item::Script { script, .. } = self { Some(script) } else { None }
    }
}

impl Job {
    /// The shard at which all of it may run; none if that is not known, or several.
    fn shard(&self, keys: &impl Keys) -> Option<usize> {
        let is_known = |item: &Item| match item {
            Item::Command(_) => !item.named_keys().is_empty(),
            Item::Script { .. } | Item::Reply(_) => true,
            Item::Function { .. } | Item::Library(..) | Item::Publish(_) => false,
        };
        if !keys.runs_scripts() || !self.items.iter().all(is_known) {
            return None;
        }
        let named = self.items.iter().flat_map(Item::named_keys).map(Vec::as_slice);
        let named = self.watched.iter().map(|(key, _)| key.as_ref()).chain(named);
        let mut shards = named.map(|key| keys.shard_of(slot_of(key)));
        let first = shards.next()?;
        let is_tried = |script: &Script| script.at_shards().is_tried(script.text());
        let is_at_one = shards.all(|shard| shard == first);
        (is_at_one && self.items.iter().filter_map(Item::script).all(is_tried)).then_some(first)
    }

    /// How the texts of its scripts are told, one after the other.
    fn tellings(&self, place: Place, may_write: bool) -> Vec<Telling> {
        let telling = |script: &Script| script.at_shards().telling(script.text(), place, may_write);
        self.items.iter().filter_map(Item::script).map(telling).collect()
    }

    /// The request to the shard.
    fn request(&self, (clock, home): (u64, u16), tellings: &[Telling]) -> Vec<u8> {
        fn slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
            words.iter().map(Vec::as_slice).collect()
        }
        let mut tellings = tellings.iter();
        let mut items = Vec::with_capacity(self.items.len());
        for item in &self.items {
            match item {
                Item::Script { script, keys, arguments, is_read_only } => items.push(Part::Script {
                    text: match tellings.next() {
                        Some(Telling::Keep) => Text::Keep(script.text()),
                        Some(Telling::Kept) => Text::Kept(script.sha().as_bytes()),
                        Some(Telling::Whole) | None => Text::Whole(script.text()),
                    },
                    is_read_only: *is_read_only,
                    keys: slices(keys),
                    arguments: slices(arguments),
                }),
                Item::Command(words) => items.push(Part::Command(slices(words))),
                // Known already: it is put among the replies.
                _ => {}
            }
        }
        let watched = self.watched.iter().map(|(key, mark)| (key.as_ref(), *mark)).collect();
        Request { seed: self.seed, clock, home, watched, items }.encode()
    }

    /// The job as a shard has carried it out.
    fn done(&self, replies: Vec<Reply>, wrote: Vec<Vec<u8>>) -> Done {
        let mut replies = replies.into_iter();
        let reply = |item: &Item| match item {
            Item::Reply(reply) => reply.clone(),
            _ => replies.next().unwrap_or(Reply::Null),
        };
        let replies = self.items.iter().map(reply).collect();
        let mut wrote: Vec<Bytes> = wrote.into_iter().map(Bytes::from).collect();
        for item in &self.items {
            if let Item::Command(words) = item
                && find(&words[0]).is_some_and(|command| command.writes())
            {
                wrote.extend(item.named_keys().into_iter().map(|key| Bytes::copy_from_slice(key)));
            }
        }
        Done { replies: Some(replies), wrote, ..Done::default() }
    }
}

impl Scripts {
    /// Has a job carried out at a shard of a database; none if it is not for one, or the shard gives it up.
    pub(crate) async fn run_at_shard(
        &self,
        job: &Job,
        keys: &impl Keys,
        database: usize,
    ) -> Result<Option<Done>, Failure> {
        let Some(shard) = job.shard(keys) else { return Ok(None) };
        let Some(home) = keys.home_of(shard) else { return Ok(None) };
        let place = (database, shard);
        let scripts = || job.items.iter().filter_map(Item::script);
        let mut is_read_only = !job.items.iter().any(Item::writes);
        loop {
            let clock = if is_read_only { micros_now() } else { 0 };
            let tellings = job.tellings(place, !is_read_only);
            let request = job.request((clock, home), &tellings);
            let answer = match keys.scripts_at_shard(shard, &request, is_read_only).await? {
                AtShard::Done(answer) => answer,
                AtShard::GivenUp => {
                    scripts().for_each(|script| script.at_shards().note_given_up());
                    return Ok(None);
                }
                // Told whole, a text is known.
                AtShard::TextUnknown if tellings.contains(&Telling::Kept) => {
                    scripts().for_each(|script| script.at_shards().note_unknown(place));
                    continue;
                }
                AtShard::TextUnknown => return Err(unreadable()),
            };
            match Answer::decode(&answer) {
                Ok(Answer::Done { replies, wrote, logged }) => {
                    self.note_end(job, place, &tellings);
                    for (level, text) in logged {
                        let text = String::from_utf8_lossy(&text);
                        tracing::debug!(level, %text, "a script logs");
                    }
                    return Ok(Some(job.done(replies, wrote)));
                }
                Ok(Answer::Changed) => return Ok(Some(Done::default())),
                // A key expires about now: an entry in the log has a time of its own.
                Ok(Answer::Later) if is_read_only => is_read_only = false,
                Ok(Answer::Later) | Err(_) => return Err(unreadable()),
            }
        }
    }

    /// Remembers the scripts of a job that a shard has run.
    fn note_end(&self, job: &Job, place: Place, tellings: &[Telling]) {
        let mut kept = lock(&self.kept);
        for (item, telling) in job.items.iter().filter(|item| item.script().is_some()).zip(tellings) {
            if let Item::Script { script, .. } = item {
                script.at_shards().note_end(place, *telling);
                kept.keep(script);
            }
        }
    }
}
