//! The Python client: `quorate._native`, the extension module that the package `quorate` is written around.
//!
//! ```text
//!   threads of the program                          thread "quorate"
//!     accounts.get(key) ──────── spawn ───────────►   one tokio loop: the native client and every call
//!        wait, interpreter released  ◄── slot ─────   answered
//!
//!     await accounts.get(key) ── spawn ───────────►
//!        event loop: drain ◄── queue, one wake-up ─   answered, answered, answered
//! ```
//!
//! | file | about |
//! |---|---|
//! | `runtime` | the thread that runs the client of a database |
//! | `context` | how a call is begun, and how its answer reaches the program |
//! | `operations` | the same for an event loop: a queue of answers |
//! | `handle` | parts of a client belong to the process that has connected |
//! | `values` | arguments, as programs give them |
//! | `answers` | the answers of calls |
//! | `error` | errors of the client as exceptions |
//! | `changes` | change feeds |
//! | `database`, `keyspace`, `transaction`, `attempts`, `batch`, `container`, `commits` | the handles of the client |
//!
//! The classes here are those of both interfaces, the blocking one and that for `asyncio`: a handle knows which it belongs to, and its calls either wait or
//! give a future. Context managers, iterators and decorators are written in Python.

mod answers;
mod attempts;
mod batch;
mod changes;
mod commits;
mod container;
mod context;
mod database;
mod error;
mod handle;
mod indexes;
mod keyspace;
mod once;
mod operations;
mod runtime;
mod transaction;
mod values;

use pyo3::prelude::*;

#[pymodule(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("KEY_BYTES_MAX", quorate::KEY_BYTES_MAX)?;
    module.add("VALUE_BYTES_MAX", quorate::VALUE_BYTES_MAX)?;
    module.add("TRANSACTION_BYTES_MAX", quorate::TRANSACTION_BYTES_MAX)?;
    module.add_function(wrap_pyfunction!(database::connect, module)?)?;
    module.add_function(wrap_pyfunction!(values::octets, module)?)?;
    module.add_function(wrap_pyfunction!(values::end_of_prefix, module)?)?;
    module.add_class::<operations::Operations>()?;
    module.add_class::<database::Database>()?;
    module.add_class::<keyspace::Keyspace>()?;
    module.add_class::<attempts::Attempts>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<container::Container>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<commits::Committing>()?;
    module.add_class::<commits::Speculated>()?;
    module.add_class::<answers::Receipt>()?;
    module.add_class::<answers::Timestamp>()?;
    module.add_class::<answers::Snapshot>()?;
    module.add_class::<answers::Applied>()?;
    module.add_class::<answers::Answers>()?;
    module.add_class::<answers::Marked>()?;
    module.add_class::<answers::Member>()?;
    module.add_class::<answers::Info>()?;
    module.add_class::<answers::ProcedureVersion>()?;
    module.add_class::<answers::KeyspaceInfo>()?;
    module.add_class::<answers::DroppedKeyspace>()?;
    module.add_function(wrap_pyfunction!(once::remembered, module)?)?;
    module.add_function(wrap_pyfunction!(once::remembering, module)?)?;
    module.add_class::<indexes::IndexInfo>()?;
    module.add_class::<indexes::IndexPage>()?;
    module.add_class::<indexes::Found>()?;
    module.add_class::<once::Marker>()?;
    module.add_class::<once::Once>()?;
    module.add_class::<changes::Changes>()?;
    module.add_class::<changes::Change>()?;
    module.add_class::<changes::ChangePage>()?;
    Ok(())
}
