//! Where procedures come from: linked with the server, or compiled when they are deployed.

use std::fmt;

use quorate_procedure::{Answer, Footprint, Procedure, Stop, Store};

/// The procedures that a shard can call. The host of shards says it with a type, the same at every replica.
pub trait Library: fmt::Debug + 'static {
    /// A procedure that was deployed, ready to be called.
    type Module: Procedure + Send;

    /// True where operations run out of their order on purpose: in experiments. Operations that are out of order
    /// are counted then, as where a bug is planted in the protocol. Otherwise one stops the replica, because its
    /// state would be wrong.
    const ALLOWS_DISORDER: bool = false;

    /// A procedure that is linked with the server. None is deployed under its name.
    fn find(name: &str) -> Option<&'static (dyn Procedure + Sync)>;

    /// A procedure of an application that the server is linked with, where a keyspace names one. None is deployed under its name there.
    fn find_in(application: &str, name: &str) -> Option<&'static (dyn Procedure + Sync)> {
        let _ = (application, name);
        None
    }

    /// Makes a procedure of what was deployed.
    ///
    /// # Errors
    /// Why that cannot be done, in the same words at every replica.
    fn compile(code: &[u8]) -> Result<Self::Module, String>;

    /// Why the last call of a procedure has failed, in the same words at every replica.
    fn failure(module: &Self::Module) -> Option<String>;

    /// How much work calls of a procedure were since this was asked last, in units of its own: about the number of its instructions. No answer
    /// depends on that.
    fn take_work(module: &Self::Module) -> u64 {
        let _ = module;
        0
    }

    /// The keys that a call would touch.
    ///
    /// # Errors
    /// Why the procedure does not come to say it, in the same words at every replica.
    fn footprint(module: &Self::Module, arguments: &[u8]) -> Result<Footprint, String> {
        Ok(module.footprint(arguments))
    }
}

/// No procedures at all.
#[derive(Clone, Copy, Debug)]
pub enum NoProcedures {}

/// A procedure that there is not.
#[derive(Clone, Copy, Debug)]
pub enum NoModule {}

impl Library for NoProcedures {
    type Module = NoModule;

    fn find(_: &str) -> Option<&'static (dyn Procedure + Sync)> {
        None
    }

    fn compile(_: &[u8]) -> Result<NoModule, String> {
        Err("this server runs no procedures".to_owned())
    }

    fn failure(module: &NoModule) -> Option<String> {
        match *module {}
    }
}

impl Procedure for NoModule {
    fn call(&self, _: &mut dyn Store, _: &[u8]) -> Result<Answer, Stop> {
        match *self {}
    }
}
