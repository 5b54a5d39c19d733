//! A procedure that was compiled to WebAssembly.

use std::cell::{Cell, RefCell};
use std::fmt;

use quorate_procedure::{Answer, Footprint, Procedure, Stop, Store};

use crate::check;
use crate::error::{Failure, Invalid};
use crate::host;
use crate::instance::{self, Code, Instance};
use crate::limits::Limits;
use crate::rewrite::rewrite;

/// A procedure that was compiled to WebAssembly. It belongs to one thread at a time; a clone shares the code,
/// and has instances of its own.
pub struct Module {
    code: Code,
    /// An instance that is as good as new.
    spare: RefCell<Option<Instance>>,
    failure: Cell<Option<Failure>>,
    /// The fuel that calls have taken since somebody has asked.
    spent: Cell<u64>,
}

impl Module {
    /// Checks and compiles a module.
    ///
    /// # Errors
    /// If it is not accepted, with what is wrong.
    pub fn new(bytes: &[u8], limits: Limits) -> Result<Self, Invalid> {
        let shape = check::check(bytes, &limits)?;
        let rewritten = rewrite(bytes, &shape.parameters).map_err(Invalid::Malformed)?;
        let malformed = |error: wasmi::Error| Invalid::Malformed(error.to_string());
        let engine = instance::engine(&limits);
        let module = wasmi::Module::new(&engine, &rewritten.bytes).map_err(malformed)?;
        let linker = host::linker(&engine).map_err(malformed)?;
        let (has_footprint, globals) = (shape.has_footprint, rewritten.globals);
        let code = Code { linker, module, has_footprint, globals, limits };
        // Segments that do not fit into the memory are found when there is one.
        let spare = RefCell::new(Some(Instance::new(&code).map_err(malformed)?));
        Ok(Module { code, spare, failure: Cell::new(None), spent: Cell::new(0) })
    }

    /// Runs the procedure.
    ///
    /// # Errors
    /// The failure that has stopped it, and why. None of its writes may be kept.
    pub fn run(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Failure> {
        self.with_instance(|instance| instance.call(store, arguments))
    }

    /// The keys that a call may touch.
    ///
    /// # Errors
    /// If the module fails to say it.
    pub fn try_footprint(&self, arguments: &[u8]) -> Result<Footprint, Failure> {
        self.with_instance(|instance| instance.footprint(arguments))
    }

    /// Why the latest [`Procedure::call`] has failed that did, if nobody has asked before.
    pub fn take_failure(&self) -> Option<Failure> {
        self.failure.take()
    }

    /// The fuel that calls have taken since this was asked last, those that have failed and those for footprints included.
    pub fn take_spent(&self) -> u64 {
        self.spent.take()
    }

    fn with_instance<R>(&self, run: impl FnOnce(&mut Instance) -> Result<R, Failure>) -> Result<R, Failure> {
        let spare = self.spare.take();
        let mut instance = match spare {
            Some(instance) => instance,
            None => Instance::new(&self.code)
                .map_err(|error| Failure::failed(format!("the procedure could not be loaded: {error}")))?,
        };
        let result = run(&mut instance);
        self.spent.set(self.spent.get() + std::mem::take(&mut instance.spent));
        if instance.reset() {
            self.spare.replace(Some(instance));
        }
        result
    }
}

impl Procedure for Module {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        self.run(store, arguments).map_err(|failure| {
            let stop = failure.stop();
            self.failure.set(Some(failure));
            stop
        })
    }

    /// A module that fails to say it may touch everything.
    fn footprint(&self, arguments: &[u8]) -> Footprint {
        self.try_footprint(arguments).unwrap_or(Footprint::Everything)
    }
}

impl Clone for Module {
    fn clone(&self) -> Self {
        let code = self.code.clone();
        Module { code, spare: RefCell::new(None), failure: Cell::new(None), spent: Cell::new(0) }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Module").field("limits", &self.code.limits).finish_non_exhaustive()
    }
}
