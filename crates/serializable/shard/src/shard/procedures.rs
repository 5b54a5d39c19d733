//! Procedures: which there are, and calls of them.
//!
//! A version of a procedure is a part of the state, like a key: it is deployed and removed at a place in the
//! serial order, and rewound and handed over with the rest. Its compiled form is not: each replica compiles
//! for itself.

use std::cell::Cell;
use std::collections::BTreeMap;

use quorate_core::transaction::{TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX, validate_key};
use quorate_core::{Key, KeyRange, Value};
use quorate_granola::Place;
use quorate_procedure::{Answer as Called, Direction, Footprint, Pair, Procedure, Stop, Store};

use super::End;
use super::locks::{Access, Locks, Touched};
use super::versions::{Version, Versions, Writes};
use super::work::{Halt, Work};
use crate::answer::{Answer, Inferred, Refusal};
use crate::library::Library;
use crate::operation::{Call, Declared, Deploy, Infer, Malformed, Remove};

/// The procedures of a shard.
pub(super) struct Procedures<L: Library> {
    /// The application that can be called, if the keyspace names one.
    pub(super) application: Option<String>,
    /// Code, by name and version.
    pub(super) code: Versions,
    /// The modules that were compiled of it, by where it was deployed.
    compiled: BTreeMap<(Key, Place), L::Module>,
    /// How much work calls have been, with any result.
    work: Cell<u64>,
}

impl<L: Library> Default for Procedures<L> {
    fn default() -> Self {
        Procedures {
            application: None,
            code: Versions::default(),
            compiled: BTreeMap::new(),
            work: Cell::new(0),
        }
    }
}

impl<L: Library> std::fmt::Debug for Procedures<L> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.compiled.keys()).finish()
    }
}

/// A change of which procedures there are.
pub(super) struct Change<L: Library> {
    name: Key,
    /// The code and what was made of it; none removes it.
    code: Option<(Value, L::Module)>,
}

impl<L: Library> std::fmt::Debug for Change<L> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Change").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A procedure that can be called.
enum Callable<'a, L: Library> {
    Linked(&'static (dyn Procedure + Sync)),
    Deployed(&'a L::Module),
}

impl<L: Library> Callable<'_, L> {
    fn procedure(&self) -> &dyn Procedure {
        match self {
            Callable::Linked(procedure) => *procedure,
            Callable::Deployed(module) => *module,
        }
    }
}

/// The name under which a version is kept: versions of one name follow each other.
fn version_key(name: &str, version: u32) -> Key {
    Key::from([name.as_bytes(), b"\0", &version.to_be_bytes()].concat())
}

/// The version that a name stands for.
fn version_of(key: &Key) -> u32 {
    let number = key.last_chunk().expect("the name of a version ends in its number");
    u32::from_be_bytes(*number)
}

/// The keys that a procedure says that it touches; none if that is any key.
fn declared(footprint: Footprint) -> Option<Declared> {
    let Footprint::Keys { keys, ranges } = footprint else { return None };
    let range = |(from, to)| KeyRange { from: Key::from(from), to: Some(Key::from(to)) };
    let ranges = ranges.into_iter().map(range).filter(|range| !range.is_empty());
    Some(Declared { keys: keys.into_iter().map(Key::from).collect(), ranges: ranges.collect() })
}

impl<L: Library> Procedures<L> {
    /// Calls a procedure.
    pub(super) fn call(&self, work: &mut Work<'_>, call: &Call) -> Result<Answer, End> {
        let (callable, _) = self.resolve(work, &call.name, call.version)?;
        let mut store = Caller { work, declared: call.declared.as_ref(), ended: None };
        let result = callable.procedure().call(&mut store, &call.arguments);
        self.note_work(&callable);
        if let Some(ended) = store.ended {
            return Err(ended);
        }
        let failed = |text: &str| End::Refused(Refusal::Failed { text: text.to_owned() });
        match result {
            Ok(Called::Done(answer)) | Ok(Called::Refused(answer))
                if answer.len() > TRANSACTION_BYTES_MAX =>
            {
                Err(End::Halt(Halt::TooLarge))
            }
            Ok(Called::Done(answer)) => Ok(Answer::Call(answer.into())),
            Ok(Called::Refused(reason)) => Err(End::Refused(Refusal::Procedure { reason: reason.into() })),
            Err(Stop::InvalidKey) => Err(failed("a key is empty, or too long")),
            Err(Stop::InvalidValue) => Err(failed("a value is too long")),
            Err(Stop::Failed | Stop::Locked | Stop::ReadOnly | Stop::TooLarge) => {
                let text = match callable {
                    Callable::Linked(_) => None,
                    Callable::Deployed(module) => L::failure(module),
                };
                Err(failed(text.as_deref().unwrap_or("it has stopped itself")))
            }
        }
    }

    /// How much work calls have been, whatever came of them.
    pub(super) fn work(&self) -> u64 {
        self.work.get()
    }

    fn note_work(&self, callable: &Callable<'_, L>) {
        if let Callable::Deployed(module) = callable {
            self.work.set(self.work.get() + L::take_work(module));
        }
    }

    /// Says what a call would touch, in the bytes of an answer.
    pub(super) fn infer(&self, work: &mut Work<'_>, infer: Infer) -> Result<Value, End> {
        let (callable, version) = self.resolve(work, &infer.name, infer.version)?;
        let failed = |text| End::Refused(Refusal::Failed { text });
        let footprint = match callable {
            Callable::Linked(procedure) => procedure.footprint(&infer.arguments),
            Callable::Deployed(module) => {
                let footprint = L::footprint(module, &infer.arguments);
                self.note_work(&callable);
                footprint.map_err(failed)?
            }
        };
        let touches = declared(footprint);
        if let Some(Err(Malformed(text))) = touches.as_ref().map(Declared::validate) {
            return Err(failed(format!("what it says that it touches cannot be declared: {text}")));
        }
        let answer = Answer::Inferred(Inferred { version, touches }).encode();
        if answer.len() > TRANSACTION_BYTES_MAX { Err(End::Halt(Halt::TooLarge)) } else { Ok(answer) }
    }

    /// The procedure of this name that the server is linked with.
    fn linked(&self, name: &str) -> Option<&'static (dyn Procedure + Sync)> {
        let of_application = || L::find_in(self.application.as_deref()?, name);
        L::find(name).or_else(of_application)
    }

    /// The procedure that is meant, and its version; zero if it is linked.
    fn resolve(&self, work: &mut Work<'_>, name: &str, version: u32) -> Result<(Callable<'_, L>, u32), End> {
        if version == 0
            && let Some(procedure) = self.linked(name)
        {
            return Ok((Callable::Linked(procedure), 0));
        }
        work.touch_procedures(Access::Read)?;
        let found = self.deployed(name, version, work.before());
        let module = found.and_then(|(key, place)| {
            let version = version_of(&key);
            Some((Callable::Deployed(self.compiled.get(&(key, place))?), version))
        });
        let missing = || Refusal::NoSuchProcedure { name: name.to_owned(), version };
        module.ok_or_else(|| End::Refused(missing()))
    }

    /// Which version of a procedure is meant, and where it was deployed.
    fn deployed(&self, name: &str, version: u32, before: Option<Place>) -> Option<(Key, Place)> {
        let lowest = if version == 0 { 1 } else { version };
        let highest = if version == 0 { u32::MAX } else { version };
        let to = [version_key(name, highest).as_slice(), b"\0"].concat();
        let range = KeyRange { from: version_key(name, lowest), to: Some(Key::from(to)) };
        let writes = Writes::new();
        let newest = self.code.scan(&range, before, &writes, true).next();
        newest.and_then(|(key, seen)| Some((key.clone(), seen.place?)))
    }

    /// Finds out whether a version can be deployed.
    pub(super) fn deploy(&self, work: &mut Work<'_>, deploy: &Deploy) -> Result<Option<Change<L>>, End> {
        work.touch_procedures(Access::Write)?;
        let Deploy { name, version, code } = deploy;
        let refused = |text: String| Err(End::Refused(Refusal::Deploy { text }));
        if self.linked(name).is_some() {
            return refused(format!("{name} is linked with the server: give it another name"));
        }
        let key = version_key(name, *version);
        match self.code.newest(&key) {
            Some(held) if held.value == *code => return Ok(None),
            Some(_) => {
                return refused(format!(
                    "version {version} of {name} has other code: give it another number"
                ));
            }
            None => {}
        }
        match L::compile(code) {
            Ok(module) => Ok(Some(Change { name: key, code: Some((Value::copy_from_slice(code), module)) })),
            Err(text) => refused(text),
        }
    }

    /// Finds out whether a version can be removed.
    pub(super) fn remove(&self, work: &mut Work<'_>, remove: &Remove) -> Result<Option<Change<L>>, End> {
        work.touch_procedures(Access::Write)?;
        let name = version_key(&remove.name, remove.version);
        if self.code.newest(&name).is_none() {
            let Remove { name, version } = remove.clone();
            return Err(End::Refused(Refusal::NoSuchProcedure { name, version }));
        }
        Ok(Some(Change { name, code: None }))
    }

    /// Makes a change, and says whether it was in order.
    pub(super) fn install(&mut self, place: Place, change: Change<L>) -> bool {
        let Change { name, code } = change;
        let (code, module) = code.unzip();
        let is_in_order = self.code.write(place, &name, code);
        if let Some(module) = module {
            self.compiled.insert((name, place), module);
        }
        is_in_order
    }

    /// Settles what stands below a place.
    pub(super) fn settle(&mut self, below: Option<Place>) {
        if self.code.unsettled() > 0 {
            self.code.settle(below);
            self.forget();
        }
    }

    /// Undoes what stands at a place or above; true if that was anything.
    pub(super) fn rewind(&mut self, to: Place) -> bool {
        let has_changed = !self.code.rewind(to).is_empty();
        if has_changed {
            self.forget();
        }
        has_changed
    }

    /// Lets go of what was made of code that nobody can call any more.
    fn forget(&mut self) {
        self.compiled.retain(|(key, place), _| self.code.holds(key, *place));
    }

    /// Takes over a version from a page.
    pub(super) fn restore(&mut self, key: &Key, version: Version) {
        match L::compile(&version.value) {
            Ok(module) => drop(self.compiled.insert((key.clone(), version.place), module)),
            // It could be deployed at the others. Without it this replica would come to other answers than
            // they.
            Err(text) => {
                panic!("{key:?} was deployed and cannot be loaded here, which needs the same server: {text}")
            }
        }
        self.code.restore(key, version);
    }

    /// All keys that a call may touch, at any place.
    pub(super) fn footprint(&self, call: &Call, locks: &Locks) -> Touched {
        let mut touched = Touched::default();
        let linked = if call.version == 0 { self.linked(&call.name) } else { None };
        if linked.is_none() {
            touched.procedures = Some(Access::Read);
        }
        if let Some(declared) = &call.declared {
            declared.keys.iter().for_each(|key| touched.key(key, Access::Write));
            declared.ranges.iter().for_each(|range| touched.range(range.clone(), Access::Write));
            return touched;
        }
        // Somebody may change what would be called.
        let is_certain = linked.is_some() || !locks.has_procedures(Access::Read);
        let deployed =
            || self.deployed(&call.name, call.version, None).and_then(|found| self.compiled.get(&found));
        let footprint = match linked {
            Some(procedure) => procedure.footprint(&call.arguments),
            None => deployed().map_or(Footprint::Everything, |module| module.footprint(&call.arguments)),
        };
        match declared(footprint) {
            Some(declared) if is_certain => {
                declared.keys.iter().for_each(|key| touched.key(key, Access::Write));
                declared.ranges.into_iter().for_each(|range| touched.range(range, Access::Write));
            }
            Some(_) | None => touched.everything(),
        }
        touched
    }
}

/// A procedure's view of the shard.
struct Caller<'w, 'a> {
    work: &'w mut Work<'a>,
    declared: Option<&'w Declared>,
    /// The reason that ends the call, even if the procedure goes on.
    ended: Option<End>,
}

impl Caller<'_, '_> {
    fn stop(&mut self, halt: Halt) -> Stop {
        self.ended = Some(End::Halt(halt));
        match halt {
            Halt::Locked => Stop::Locked,
            Halt::ReadOnly => Stop::ReadOnly,
            Halt::TooLarge => Stop::TooLarge,
        }
    }

    /// A key that the call may touch.
    fn key(&mut self, key: &[u8]) -> Result<Key, Stop> {
        validate_key(key).map_err(|_| Stop::InvalidKey)?;
        let is_declared = self.declared.is_none_or(|declared| {
            declared.keys.iter().any(|known| known == key)
                || declared.ranges.iter().any(|range| range.contains(key))
        });
        let key = Key::copy_from_slice(key);
        if is_declared { Ok(key) } else { Err(self.undeclared(&format!("{key:?}"))) }
    }

    fn undeclared(&mut self, what: &str) -> Stop {
        let text = format!("it touches {what}, which the call has not declared");
        self.ended = Some(End::Refused(Refusal::Failed { text }));
        Stop::Failed
    }
}

impl Store for Caller<'_, '_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        let key = self.key(key)?;
        match self.work.read(&key) {
            Ok(seen) => Ok(seen.map(|seen| seen.value.to_vec())),
            Err(halt) => Err(self.stop(halt)),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        let key = self.key(key)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(Stop::InvalidValue);
        }
        let written = self.work.write(key, Some(Value::copy_from_slice(value)));
        written.map_err(|halt| self.stop(halt))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        let key = self.key(key)?;
        self.work.write(key, None).map_err(|halt| self.stop(halt))
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>, Stop> {
        let range = KeyRange { from: Key::copy_from_slice(from), to: Some(Key::copy_from_slice(to)) };
        let is_declared = self.declared.is_none_or(|declared| {
            range.is_empty() || declared.ranges.iter().any(|known| covers(known, &range))
        });
        if !is_declared {
            return Err(self.undeclared(&format!("{range:?}")));
        }
        let mut pairs = Vec::new();
        let scanned = self.work.scan(&range, direction == Direction::Descending, |key, seen| {
            let has_room = pairs.len() < limit;
            if has_room {
                pairs.push((key.to_vec(), seen.value.to_vec()));
            }
            has_room
        });
        match scanned {
            Ok(_) => Ok(pairs),
            Err(halt) => Err(self.stop(halt)),
        }
    }

    fn timestamp(&self) -> Option<u64> {
        self.work.ask_place().map(|place| place.timestamp.as_micros())
    }
}

/// True if every key of one range lies in another.
fn covers(outer: &KeyRange, inner: &KeyRange) -> bool {
    outer.from <= inner.from
        && match (&outer.to, &inner.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(outer), Some(inner)) => inner <= outer,
        }
}
