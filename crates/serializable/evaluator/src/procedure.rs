//! The procedure: runs the scripts and commands of a [`Request`] at a shard, and answers with an [`Answer`], or gives up.

use std::borrow::Cow;
use std::sync::Arc;

use quorate_procedure::{Answer as Ended, Footprint, Procedure, Stop, Store};
use quorate_redis_commands::{Command, Commanded, Reply, find, footprint_of, slot_of};

use crate::request::{Answer, Item, Request, Text};
use crate::{Halt, Host, Limits, Program, Unfit, texts};

/// The name that the procedure is called by.
pub const PROCEDURE: &str = "redis/scripts";

/// The reason of a refusal because a text is not kept, or not any more: ask again with the text.
pub const UNKNOWN_TEXT: &str = "the shard has not kept this text";

/// So many keys that scripts may have written are remembered. A client that waits for others finds them later.
const WROTE_MAX: usize = 100;

/// The procedure. All that it does follows from the arguments, the records and the timestamp of the transaction.
#[derive(Clone, Copy, Debug)]
pub struct Scripts {
    /// Reads a text, or knows what came of that before: the same for the same text.
    pub read: fn(&[u8]) -> Result<Arc<Program>, Unfit>,
}

impl Default for Scripts {
    fn default() -> Self {
        Scripts { read: |text| Program::new(text).map(Arc::new) }
    }
}

impl Procedure for Scripts {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Ended, Stop> {
        let refused = |reason: &str| Ok(Ended::Refused(reason.as_bytes().to_vec()));
        let Ok(request) = Request::decode(arguments) else {
            return refused("this is no request of scripts, or of another version");
        };
        let Some(now) = store.timestamp() else {
            return refused(
                "scripts need a timestamp: call them at one shard, as independent, or to read only",
            );
        };
        let Some(found) = texts_of(store, &request)? else { return refused(UNKNOWN_TEXT) };
        let commanded = Commanded::new(store, now, (request.clock, request.seed));
        let mut keyspace = Keyspace { commanded, slots: Vec::new(), wrote: Vec::new(), logged: Vec::new() };
        match keyspace.commanded.is_unchanged(&request.watched)? {
            Ok(true) => {}
            Ok(false) => return Ok(Ended::Done(Answer::Changed.encode())),
            Err(reason) => return refused(&reason),
        }
        let mut limits = Limits::default();
        let mut replies = Vec::with_capacity(request.items.len());
        for (item, text) in request.items.iter().zip(&found) {
            match self.carry_out(&mut keyspace, (item, text), &mut limits) {
                Ok(reply) => replies.push(reply),
                Err(Halt::Unfit(reason)) => return refused(reason),
                Err(Halt::Stop(stop)) => return Err(stop),
            }
        }
        let Keyspace { commanded, wrote, logged, .. } = keyspace;
        if commanded.is_in_doubt() {
            return Ok(Ended::Done(Answer::Later.encode()));
        }
        for item in &request.items {
            if let Item::Script { text: Text::Keep(text), .. } = item {
                texts::keep(store, request.home, text)?;
            }
        }
        Ok(Ended::Done(Answer::Done { replies, wrote, logged }.encode()))
    }

    fn footprint(&self, arguments: &[u8]) -> Footprint {
        let Ok(request) = Request::decode(arguments) else { return Footprint::Everything };
        let mut slots: Vec<u16> = request.watched.iter().map(|(key, _)| slot_of(key)).collect();
        for item in &request.items {
            match item {
                // A key beyond their slots is refused.
                Item::Script { keys, .. } => slots.extend(keys.iter().map(|key| slot_of(key))),
                // One whose slots are not known is refused.
                Item::Command(words) => slots.extend(slots_of(words).unwrap_or_default()),
            }
        }
        let Footprint::Keys { keys, mut ranges } = footprint_of(slots) else { return Footprint::Everything };
        ranges.push(texts::records(request.home));
        Footprint::Keys { keys, ranges }
    }
}

/// The texts of scripts, in the places of their parts; none if one is not kept.
fn texts_of<'a>(store: &mut dyn Store, request: &Request<'a>) -> Result<Option<Vec<Cow<'a, [u8]>>>, Stop> {
    let mut found = Vec::with_capacity(request.items.len());
    for item in &request.items {
        found.push(match item {
            Item::Command(_) => Cow::default(),
            Item::Script { text: Text::Whole(text) | Text::Keep(text), .. } => Cow::Borrowed(*text),
            Item::Script { text: Text::Kept(digest), .. } => {
                match texts::find(store, request.home, digest)? {
                    Some(text) => Cow::Owned(text),
                    None => return Ok(None),
                }
            }
        });
    }
    Ok(Some(found))
}

impl Scripts {
    fn carry_out(
        &self,
        keyspace: &mut Keyspace<'_>,
        (item, text): (&Item<'_>, &[u8]),
        limits: &mut Limits,
    ) -> Result<Reply, Halt> {
        match item {
            Item::Command(words) => {
                slots_of(words)?;
                keyspace.commanded.carry_out(words).map_err(Halt::Stop)
            }
            Item::Script { is_read_only, keys, arguments, .. } => {
                let program = (self.read)(text).map_err(|Unfit(reason)| Halt::Unfit(reason))?;
                keyspace.slots = keys.iter().map(|key| slot_of(key)).collect();
                keyspace.slots.sort_unstable();
                keyspace.slots.dedup();
                let (reply, left) = program.run((keys, arguments), *is_read_only, *limits, keyspace)?;
                limits.steps_max = left;
                Ok(reply)
            }
        }
    }
}

/// The slots that a command touches.
fn slots_of(words: &[impl AsRef<[u8]>]) -> Result<Vec<u16>, Halt> {
    const NOT_CONFINED: Halt = Halt::Unfit("a command concerns keys that it does not name");
    let command = words.first().and_then(|name| find(name.as_ref())).ok_or(NOT_CONFINED)?;
    let positions = command.key_positions(words);
    if positions.is_empty() || !command.is_confined(words) || command.may_take_several_transactions(words) {
        return Err(NOT_CONFINED);
    }
    Ok(positions.into_iter().filter_map(|at| words.get(at)).map(|key| slot_of(key.as_ref())).collect())
}

/// The keys of the shard, as scripts see them.
struct Keyspace<'a> {
    commanded: Commanded<'a>,
    /// The slots of the keys of the script that runs, each once, ascending.
    slots: Vec<u16>,
    wrote: Vec<Vec<u8>>,
    logged: Vec<(u8, Vec<u8>)>,
}

impl Host for Keyspace<'_> {
    fn call(&mut self, command: &Command, words: &[Vec<u8>]) -> Result<Reply, Halt> {
        if slots_of(words)?.iter().any(|slot| self.slots.binary_search(slot).is_err()) {
            return Err(Halt::Unfit("it touches a key outside of the slots of its keys"));
        }
        let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = self.commanded.carry_out(&borrowed).map_err(Halt::Stop)?;
        if command.writes() {
            for key in command.key_positions(words).into_iter().filter_map(|at| words.get(at)) {
                if self.wrote.len() < WROTE_MAX && !self.wrote.contains(key) {
                    self.wrote.push(key.clone());
                }
            }
        }
        Ok(reply)
    }

    fn log(&mut self, level: u8, text: &[u8]) {
        self.logged.push((level, text.to_vec()));
    }

    fn now(&self) -> u64 {
        self.commanded.now()
    }
}
