//! One instance of a module, and its calls.

use quorate_procedure::{Answer, Footprint, Store};
use wasmi::{Config, Engine, Error, Global, Linker, Memory, TrapCode, TypedFunc, Val};

use crate::error::Failure;
use crate::host::{Host, out_of_fuel};
use crate::lent::{Lent, lending};
use crate::limits::Limits;
use crate::rewrite::{BLOCK_BYTES, STORE_BYTES_MAX, TOUCHED, global_name};

/// The blocks of a page, of which a memory has a whole number.
const PAGE_BLOCKS: usize = 64 * 1024 / BLOCK_BYTES;

/// The result of `call` for work that is done.
const DONE: i32 = 0;

/// The result of `call` for a refusal.
const REFUSED: i32 = 1;

/// The result of `footprint` for any key.
const EVERYTHING: i32 = 0;

/// The result of `footprint` for the keys and ranges that it has named.
const KEYS: i32 = 1;

/// An interpreter that runs what passes the check, and nothing without fuel.
pub(crate) fn engine(limits: &Limits) -> Engine {
    let mut config = Config::default();
    config
        .floats(false)
        .wasm_tail_call(false)
        .wasm_extended_const(false)
        .allow_start_fn(false)
        .ignore_custom_sections(true)
        .consume_fuel(true)
        .compilation_mode(wasmi::CompilationMode::Eager)
        .set_max_recursion_depth(limits.depth_max)
        .set_max_cached_stacks(1);
    Engine::new(&config)
}

/// The compiled form of a module.
#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) linker: Linker<Host>,
    pub(crate) module: wasmi::Module,
    pub(crate) has_footprint: bool,
    /// How many of its globals are mutable.
    pub(crate) globals: u32,
    pub(crate) limits: Limits,
}

/// An instance.
pub(crate) struct Instance {
    store: wasmi::Store<Host>,
    memory: Memory,
    /// Which blocks of the memory were written: a byte for each.
    touched: Memory,
    globals: Vec<(Global, Val)>,
    call: TypedFunc<i32, i32>,
    footprint: Option<TypedFunc<i32, i32>>,
    fuel: u64,
    /// The fuel that calls have taken of it, all together.
    pub(crate) spent: u64,
    /// How long the memory is.
    memory_bytes: usize,
    /// The content of the memory before a call.
    fresh: Fresh,
}

impl Instance {
    /// Makes one, with the memory that the module declares.
    pub(crate) fn new(code: &Code) -> Result<Self, Error> {
        let mut store = wasmi::Store::new(code.linker.engine(), Host::new(&code.limits));
        store.limiter(|host| host.bounds());
        store.set_fuel(code.limits.fuel)?;
        let instance = code.linker.instantiate_and_start(&mut store, &code.module)?;
        let call = instance.get_typed_func(&store, "call")?;
        let footprint = match code.has_footprint {
            true => Some(instance.get_typed_func(&store, "footprint")?),
            false => None,
        };
        let export =
            |name: &str| instance.get_export(&store, name).ok_or_else(|| Error::new(format!("no `{name}`")));
        let memory =
            |name| export(name)?.into_memory().ok_or_else(|| Error::new(format!("`{name}` is no memory")));
        let (memory, touched) = (memory("memory")?, memory(TOUCHED)?);
        let global = |position| {
            let name = global_name(position);
            let global =
                export(&name)?.into_global().ok_or_else(|| Error::new(format!("`{name}` is no global")))?;
            Ok((global, global.get(&store)))
        };
        let globals = (0..code.globals).map(global).collect::<Result<_, Error>>()?;
        let fresh = Fresh::of(memory.data(&store));
        let memory_bytes = memory.data_size(&store);
        store.data_mut().memory = Some(memory);
        Ok(Instance {
            store,
            memory,
            touched,
            globals,
            call,
            footprint,
            fuel: code.limits.fuel,
            spent: 0,
            memory_bytes,
            fresh,
        })
    }

    /// Undoes what calls have changed. False if that cannot be: its memory has grown.
    pub(crate) fn reset(&mut self) -> bool {
        if self.memory.data_size(&self.store) != self.memory_bytes {
            return false;
        }
        for (global, value) in &self.globals {
            if global.set(&mut self.store, value.clone()).is_err() {
                return false;
            }
        }
        let mut written = std::mem::take(&mut self.store.data_mut().written);
        let blocks = self.memory_bytes / BLOCK_BYTES;
        let Some(touched) = self.touched.data_mut(&mut self.store).get_mut(..blocks) else { return false };
        take_touched(touched, &mut written);
        let memory = self.memory.data_mut(&mut self.store);
        for (at, length) in written.drain(..) {
            self.fresh.restore(memory, at, at + length);
        }
        self.store.data_mut().written = written;
        true
    }

    /// Runs the procedure.
    pub(crate) fn call(&mut self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Failure> {
        let call = self.call;
        let lent: fn(&mut Instance) -> &mut Lent = |instance| &mut instance.store.data_mut().lent;
        let code = lending(self, lent, store, |instance| instance.run(call, arguments))?;
        let answer = std::mem::take(&mut self.store.data_mut().answer);
        match code {
            DONE => Ok(Answer::Done(answer)),
            REFUSED => Ok(Answer::Refused(answer)),
            other => {
                Err(Failure::failed(format!("the procedure has returned {other}, which is neither 0 nor 1")))
            }
        }
    }

    /// Asks what a call may touch.
    pub(crate) fn footprint(&mut self, arguments: &[u8]) -> Result<Footprint, Failure> {
        let Some(footprint) = self.footprint else { return Ok(Footprint::Everything) };
        self.store.data_mut().begin_footprint();
        match self.run(footprint, arguments)? {
            EVERYTHING => Ok(Footprint::Everything),
            KEYS => Ok(self.store.data_mut().take_footprint()),
            other => {
                Err(Failure::failed(format!("`footprint` has returned {other}, which is neither 0 nor 1")))
            }
        }
    }

    fn run(&mut self, function: TypedFunc<i32, i32>, arguments: &[u8]) -> Result<i32, Failure> {
        let Ok(length) = i32::try_from(arguments.len()) else {
            return Err(Failure::failed("the arguments are longer than a memory can be"));
        };
        self.store.data_mut().begin(arguments);
        let result = self.store.set_fuel(self.fuel).and_then(|()| function.call(&mut self.store, length));
        self.spent += self.fuel.saturating_sub(self.store.get_fuel().unwrap_or_default());
        result.map_err(|error| match self.store.data_mut().failure.take() {
            Some(failure) => failure,
            None => explain(&error),
        })
    }
}

/// Clears the bytes that are set, and adds the blocks that they stand for.
fn take_touched(touched: &mut [u8], written: &mut Vec<(usize, usize)>) {
    // Next to all are clear, so that those of a page are looked at together, and then eight by eight.
    let (pages, _) = touched.as_chunks_mut::<PAGE_BLOCKS>();
    for (page, marks) in pages.iter_mut().enumerate() {
        if marks.iter().fold(0, |any, mark| any | mark) == 0 {
            continue;
        }
        let (words, _) = marks.as_chunks_mut::<8>();
        for (word, bytes) in words.iter_mut().enumerate() {
            let mut set = u64::from_le_bytes(std::mem::take(bytes));
            while set != 0 {
                let byte = set.trailing_zeros() as usize / 8;
                set &= !(0xff << (8 * byte));
                let block = page * PAGE_BLOCKS + word * 8 + byte;
                written.push((block * BLOCK_BYTES, BLOCK_BYTES + STORE_BYTES_MAX));
            }
        }
    }
}

/// The content of the memory when nothing has run: zeros, but for one part.
struct Fresh {
    at: usize,
    bytes: Vec<u8>,
}

impl Fresh {
    fn of(memory: &[u8]) -> Self {
        let is_set = |byte: &u8| *byte != 0;
        let at = memory.iter().position(is_set).unwrap_or(0);
        let end = memory.iter().rposition(is_set).map_or(at, |last| last + 1);
        Fresh { at, bytes: memory[at..end].to_vec() }
    }

    /// Makes a part of the memory, or as much of it as there is, what it was.
    fn restore(&self, memory: &mut [u8], from: usize, to: usize) {
        let to = to.min(memory.len());
        memory[from..to].fill(0);
        let (begin, end) = (from.max(self.at), to.min(self.at + self.bytes.len()));
        if begin < end {
            memory[begin..end].copy_from_slice(&self.bytes[begin - self.at..end - self.at]);
        }
    }
}

/// The failure of a call that neither the host nor the guest has ended.
fn explain(error: &Error) -> Failure {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => out_of_fuel(),
        Some(TrapCode::GrowthOperationLimited) => {
            Failure::failed("the procedure wants more memory than it may have")
        }
        Some(TrapCode::StackOverflow) => Failure::failed("the procedure calls itself too deeply"),
        Some(trap) => Failure::failed(format!("the procedure has trapped: {trap}")),
        None => Failure::failed(format!("the procedure was stopped: {error}")),
    }
}
