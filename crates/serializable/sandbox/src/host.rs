//! The imported functions, and what a call has come to so far.

use quorate_procedure::{Direction, Footprint, Pair, Stop};
use wasmi::{Caller, Engine, Error, Linker, Memory, StoreLimits, StoreLimitsBuilder};

use crate::error::Failure;
use crate::lent::Lent;
use crate::limits::Limits;
use crate::rewrite::MEMORY_BYTES_MAX;

/// The name of the interface, as modules import it. Another interface would have another.
pub(crate) const INTERFACE: &str = "quorate_1";

/// As much as this of the text is kept with which a guest says why it has failed.
const REASON_BYTES_MAX: usize = 256;

/// An imported function.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    /// How many integers it takes.
    pub(crate) parameters: usize,
    /// How many it returns.
    pub(crate) results: usize,
    /// Both, as errors show them.
    pub(crate) signature: &'static str,
}

const fn known(name: &'static str, parameters: usize, results: usize, signature: &'static str) -> Known {
    Known { name, parameters, results, signature }
}

/// The functions that a module may import.
pub(crate) const IMPORTS: [Known; 10] = [
    known("arguments", 1, 0, "(buffer: i32)"),
    known("get", 4, 1, "(key, key_length, buffer, capacity: i32) -> i32"),
    known("put", 4, 0, "(key, key_length, value, value_length: i32)"),
    known("delete", 2, 0, "(key, key_length: i32)"),
    known(
        "scan",
        8,
        1,
        "(from, from_length, to, to_length, limit, descending, buffer, capacity: i32) -> i32",
    ),
    known("fetch", 1, 0, "(buffer: i32)"),
    known("answer", 2, 0, "(bytes, length: i32)"),
    known("fail", 2, 0, "(text, length: i32)"),
    known("footprint_key", 2, 0, "(key, key_length: i32)"),
    known("footprint_range", 4, 0, "(from, from_length, to, to_length: i32)"),
];

/// The state of a call so far.
pub(crate) struct Host {
    /// The store of the call; none while a footprint is asked for.
    pub(crate) lent: Lent,
    pub(crate) arguments: Vec<u8>,
    pub(crate) answer: Vec<u8>,
    pub(crate) footprint: Footprint,
    /// Why the call has ended, if the host has ended it.
    pub(crate) failure: Option<Failure>,
    pub(crate) memory: Option<Memory>,
    /// Which parts of the memory the host has written: from, and how many bytes.
    pub(crate) written: Vec<(usize, usize)>,
    /// The bytes that did not fit into the guest's buffer.
    reply: Vec<u8>,
    bounds: StoreLimits,
    memory_bytes_max: usize,
    footprint_bytes: usize,
}

impl Host {
    pub(crate) fn new(limits: &Limits) -> Self {
        let bounds = StoreLimitsBuilder::new()
            .memory_size(limits.memory_bytes_max.min(MEMORY_BYTES_MAX))
            .memories(2)
            .tables(1)
            .instances(1)
            .trap_on_grow_failure(true)
            .build();
        Host {
            lent: Lent::nothing(),
            arguments: Vec::new(),
            answer: Vec::new(),
            footprint: no_keys(),
            failure: None,
            memory: None,
            written: Vec::new(),
            reply: Vec::new(),
            bounds,
            memory_bytes_max: limits.memory_bytes_max,
            footprint_bytes: 0,
        }
    }

    pub(crate) fn bounds(&mut self) -> &mut StoreLimits {
        &mut self.bounds
    }

    /// Forgets what a call before has left.
    pub(crate) fn begin(&mut self, arguments: &[u8]) {
        self.arguments.clear();
        self.arguments.extend_from_slice(arguments);
        self.answer.clear();
        self.reply.clear();
        self.failure = None;
    }

    /// Forgets what was named of a footprint before.
    pub(crate) fn begin_footprint(&mut self) {
        self.footprint = no_keys();
        self.footprint_bytes = 0;
    }

    /// The keys and ranges that were named.
    pub(crate) fn take_footprint(&mut self) -> Footprint {
        std::mem::replace(&mut self.footprint, no_keys())
    }

    /// Ends the call.
    fn end(&mut self, failure: Failure) -> Error {
        self.failure = Some(failure);
        Error::new(ENDED)
    }

    /// Hands a reply to the guest if it fits, and keeps it for `fetch` otherwise.
    fn hand(&mut self, memory: &mut [u8], reply: Vec<u8>, buffer: u32, capacity: u32) -> Result<i32, Error> {
        if reply.len() > self.memory_bytes_max {
            return Err(self.end(Failure::stopped(Stop::TooLarge)));
        }
        if reply.len() > capacity as usize {
            self.reply = reply;
            return Ok(self.reply.len() as i32);
        }
        match write(memory, &mut self.written, buffer, &reply) {
            Some(()) => Ok(reply.len() as i32),
            None => Err(self.end(outside())),
        }
    }
}

/// The error that the interpreter is told when the host ends a call; why, the host knows.
const ENDED: &str = "the host has ended the call";

fn no_keys() -> Footprint {
    Footprint::Keys { keys: Vec::new(), ranges: Vec::new() }
}

fn outside() -> Failure {
    Failure::failed("the procedure has passed an address outside its memory")
}

fn no_store() -> Failure {
    Failure::failed("the procedure has asked for keys while it was asked for its footprint")
}

/// A part of the memory.
fn slice(memory: &[u8], at: u32, length: u32) -> Option<&[u8]> {
    memory.get(at as usize..)?.get(..length as usize)
}

/// Writes into the memory, and notes where.
fn write(memory: &mut [u8], written: &mut Vec<(usize, usize)>, at: u32, bytes: &[u8]) -> Option<()> {
    let at = at as usize;
    memory.get_mut(at..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
    if !bytes.is_empty() {
        written.push((at, bytes.len()));
    }
    Some(())
}

/// Takes the fuel that a call of the host costs, and gives the memory and the host.
fn enter<'a>(caller: &'a mut Caller<'_, Host>, bytes: u64) -> Result<(&'a mut [u8], &'a mut Host), Error> {
    charge(caller, Limits::FUEL_OF_A_CALL + bytes / 8)?;
    match caller.data().memory {
        Some(memory) => Ok(memory.data_and_store_mut(caller)),
        None => Err(caller.data_mut().end(Failure::failed("the procedure ran before it was loaded"))),
    }
}

/// Takes fuel.
fn charge(caller: &mut Caller<'_, Host>, fuel: u64) -> Result<(), Error> {
    match caller.get_fuel()?.checked_sub(fuel) {
        Some(rest) => caller.set_fuel(rest),
        None => Err(caller.data_mut().end(out_of_fuel())),
    }
}

pub(crate) fn out_of_fuel() -> Failure {
    Failure::failed("the procedure has used up the work that a call may take")
}

/// The functions of the interface.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Host>, Error> {
    let mut linker = Linker::new(engine);
    linker
        .func_wrap(INTERFACE, "arguments", arguments)?
        .func_wrap(INTERFACE, "get", get)?
        .func_wrap(INTERFACE, "put", put)?
        .func_wrap(INTERFACE, "delete", delete)?
        .func_wrap(INTERFACE, "scan", scan)?
        .func_wrap(INTERFACE, "fetch", fetch)?
        .func_wrap(INTERFACE, "answer", answer)?
        .func_wrap(INTERFACE, "fail", fail)?
        .func_wrap(INTERFACE, "footprint_key", footprint_key)?
        .func_wrap(INTERFACE, "footprint_range", footprint_range)?;
    Ok(linker)
}

fn arguments(mut caller: Caller<'_, Host>, buffer: u32) -> Result<(), Error> {
    let length = caller.data().arguments.len();
    let (memory, host) = enter(&mut caller, length as u64)?;
    write(memory, &mut host.written, buffer, &host.arguments).ok_or_else(|| host.end(outside()))
}

fn get(
    mut caller: Caller<'_, Host>,
    key: u32,
    key_length: u32,
    buffer: u32,
    capacity: u32,
) -> Result<i32, Error> {
    let (memory, host) = enter(&mut caller, u64::from(key_length))?;
    let Some(key) = slice(memory, key, key_length) else { return Err(host.end(outside())) };
    let Some(store) = host.lent.store() else { return Err(host.end(no_store())) };
    match store.get(key) {
        Ok(None) => Ok(-1),
        Ok(Some(value)) => {
            charge(&mut caller, value.len() as u64 / 8)?;
            let (memory, host) = enter_again(&mut caller)?;
            host.hand(memory, value, buffer, capacity)
        }
        Err(stop) => Err(host.end(Failure::stopped(stop))),
    }
}

/// The memory and the host, once more within one call of the host.
fn enter_again<'a>(caller: &'a mut Caller<'_, Host>) -> Result<(&'a mut [u8], &'a mut Host), Error> {
    match caller.data().memory {
        Some(memory) => Ok(memory.data_and_store_mut(caller)),
        None => Err(caller.data_mut().end(Failure::failed("the procedure ran before it was loaded"))),
    }
}

fn put(
    mut caller: Caller<'_, Host>,
    key: u32,
    key_length: u32,
    value: u32,
    value_length: u32,
) -> Result<(), Error> {
    let (memory, host) = enter(&mut caller, u64::from(key_length) + u64::from(value_length))?;
    let (Some(key), Some(value)) = (slice(memory, key, key_length), slice(memory, value, value_length))
    else {
        return Err(host.end(outside()));
    };
    let Some(store) = host.lent.store() else { return Err(host.end(no_store())) };
    store.put(key, value).map_err(|stop| host.end(Failure::stopped(stop)))
}

fn delete(mut caller: Caller<'_, Host>, key: u32, key_length: u32) -> Result<(), Error> {
    let (memory, host) = enter(&mut caller, u64::from(key_length))?;
    let Some(key) = slice(memory, key, key_length) else { return Err(host.end(outside())) };
    let Some(store) = host.lent.store() else { return Err(host.end(no_store())) };
    store.delete(key).map_err(|stop| host.end(Failure::stopped(stop)))
}

#[expect(clippy::too_many_arguments, reason = "the interface passes addresses and lengths one by one")]
fn scan(
    mut caller: Caller<'_, Host>,
    from: u32,
    from_length: u32,
    to: u32,
    to_length: u32,
    limit: u32,
    descending: u32,
    buffer: u32,
    capacity: u32,
) -> Result<i32, Error> {
    let (memory, host) = enter(&mut caller, u64::from(from_length) + u64::from(to_length))?;
    let (Some(from), Some(to)) = (slice(memory, from, from_length), slice(memory, to, to_length)) else {
        return Err(host.end(outside()));
    };
    let Some(store) = host.lent.store() else { return Err(host.end(no_store())) };
    let direction = if descending == 0 { Direction::Ascending } else { Direction::Descending };
    match store.scan(from, to, limit as usize, direction) {
        Ok(pairs) => {
            let reply = encode(&pairs);
            charge(&mut caller, Limits::FUEL_OF_A_CALL * pairs.len() as u64 + reply.len() as u64 / 8)?;
            let (memory, host) = enter_again(&mut caller)?;
            host.hand(memory, reply, buffer, capacity)
        }
        Err(stop) => Err(host.end(Failure::stopped(stop))),
    }
}

/// The answer to a scan: of each pair both lengths, in four bytes each, little endian, the key, and the
/// value.
fn encode(pairs: &[Pair]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pairs.iter().map(|(key, value)| 8 + key.len() + value.len()).sum());
    for (key, value) in pairs {
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    bytes
}

fn fetch(mut caller: Caller<'_, Host>, buffer: u32) -> Result<(), Error> {
    let length = caller.data().reply.len();
    let (memory, host) = enter(&mut caller, length as u64)?;
    write(memory, &mut host.written, buffer, &host.reply).ok_or_else(|| host.end(outside()))
}

fn answer(mut caller: Caller<'_, Host>, bytes: u32, length: u32) -> Result<(), Error> {
    let (memory, host) = enter(&mut caller, u64::from(length))?;
    let Some(bytes) = slice(memory, bytes, length) else { return Err(host.end(outside())) };
    host.answer.clear();
    host.answer.extend_from_slice(bytes);
    Ok(())
}

fn fail(mut caller: Caller<'_, Host>, text: u32, length: u32) -> Result<(), Error> {
    let (memory, host) = enter(&mut caller, 0)?;
    let Some(text) = slice(memory, text, length) else { return Err(host.end(outside())) };
    let shown = &text[..text.len().min(REASON_BYTES_MAX)];
    Err(host.end(Failure::failed(String::from_utf8_lossy(shown).into_owned())))
}

fn footprint_key(mut caller: Caller<'_, Host>, key: u32, key_length: u32) -> Result<(), Error> {
    let (memory, host) = enter(&mut caller, u64::from(key_length))?;
    let Some(key) = slice(memory, key, key_length) else { return Err(host.end(outside())) };
    host.name(key.len(), |keys, _| keys.push(key.to_vec()))
}

fn footprint_range(
    mut caller: Caller<'_, Host>,
    from: u32,
    from_length: u32,
    to: u32,
    to_length: u32,
) -> Result<(), Error> {
    let (memory, host) = enter(&mut caller, u64::from(from_length) + u64::from(to_length))?;
    let (Some(from), Some(to)) = (slice(memory, from, from_length), slice(memory, to, to_length)) else {
        return Err(host.end(outside()));
    };
    host.name(from.len() + to.len(), |_, ranges| ranges.push((from.to_vec(), to.to_vec())))
}

/// As many bytes are named of a footprint at most; with what each key costs beside.
const FOOTPRINT_BYTES_MAX: usize = 1 << 20;

/// The cost of a key that is named, beside its bytes.
const NAMED_BYTES: usize = 64;

impl Host {
    /// Notes what is named of a footprint.
    fn name(
        &mut self,
        bytes: usize,
        note: impl FnOnce(&mut Vec<Vec<u8>>, &mut Vec<(Vec<u8>, Vec<u8>)>),
    ) -> Result<(), Error> {
        self.footprint_bytes += bytes + NAMED_BYTES;
        if self.footprint_bytes > FOOTPRINT_BYTES_MAX {
            return Err(self.end(Failure::failed("the procedure names too much of its footprint")));
        }
        if let Footprint::Keys { keys, ranges } = &mut self.footprint {
            note(keys, ranges);
        }
        Ok(())
    }
}
