//! The crates of the workspace: what each may import, and what it must keep out.
//!
//! Arrows point down only, from the binary to the vocabulary. A new crate is added here when it is added to the
//! workspace; the `arrows` stage fails until it is.

/// What is expected of one crate.
pub(crate) struct Crate {
    /// The name of its package.
    pub(crate) package: &'static str,
    /// Its folder, from the root of the repository.
    pub(crate) folder: &'static str,
    /// The packages of the workspace that it may import. Tests are free to import more.
    pub(crate) may_import: &'static [&'static str],
    /// How pure it is.
    pub(crate) kind: Kind,
}

/// How pure a crate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The same input gives the same output, always; must compile for wasm32.
    Machine,
    /// As deterministic, but need not compile for wasm32.
    Deterministic,
    /// Below the runtime: knows no async runtime and opens no socket.
    Pure,
    /// Anything goes.
    Host,
}

impl Kind {
    /// True if the same input must always give the same output.
    pub(crate) fn is_deterministic(self) -> bool {
        matches!(self, Kind::Machine | Kind::Deterministic)
    }

    /// True if no async runtime may be among its dependencies, however far down.
    pub(crate) fn is_below_runtime(self) -> bool {
        self != Kind::Host
    }
}

const CORE: &str = "quorate-core";
const CODEC: &str = "quorate-codec";
const COORDINATOR: &str = "quorate-coordinator";
const DRIVER: &str = "quorate-driver";
const STORE: &str = "quorate-store";
const STORAGE: &str = "quorate-storage";
const LOG: &str = "quorate-log";
const CONFIGURATION: &str = "quorate-configuration";
const IR: &str = "quorate-ir";
const TAPIR: &str = "quorate-tapir";
const BASELINES: &str = "quorate-baselines";
const GRANOLA: &str = "quorate-granola";
const QWSTORE: &str = "quorate-qwstore";
const PROCEDURE: &str = "quorate-procedure";
const PROCEDURES: &str = "quorate-procedures";
const INTERACTIVE: &str = "quorate-interactive";
const SANDBOX: &str = "quorate-sandbox";
const TPCC: &str = "quorate-tpcc";
const LIBRARY: &str = "quorate-library";
const TESTSCRIPTS: &str = "quorate-testscripts";
const CHECKER: &str = "quorate-checker";
const WORKLOADS: &str = "quorate-workloads";
const SIMULATOR: &str = "quorate-simulator";
const EXPERIMENTS: &str = "quorate-experiments";
const WIRE: &str = "quorate-wire";
const RUNTIME: &str = "quorate-runtime";
const CLIENT: &str = "quorate";
const SERVER: &str = "quorate-server";

/// Every crate, each after those that it may import. Protocols import only `quorate-ir` beside core, codec, coordinator and store.
pub(crate) const CRATES: [Crate; 30] = [
    Crate { package: CORE, folder: "crates/core", may_import: &[], kind: Kind::Machine },
    Crate { package: CODEC, folder: "crates/codec", may_import: &[CORE], kind: Kind::Machine },
    Crate { package: STORE, folder: "crates/store", may_import: &[CORE], kind: Kind::Machine },
    Crate { package: COORDINATOR, folder: "crates/coordinator", may_import: &[CORE], kind: Kind::Machine },
    Crate { package: DRIVER, folder: "crates/driver", may_import: &[CORE], kind: Kind::Machine },
    Crate { package: STORAGE, folder: "crates/storage", may_import: &[CORE], kind: Kind::Pure },
    Crate { package: LOG, folder: "crates/log", may_import: &[CORE, CODEC], kind: Kind::Machine },
    Crate {
        package: CONFIGURATION,
        folder: "crates/configuration",
        may_import: &[CORE, CODEC, COORDINATOR, STORE],
        kind: Kind::Machine,
    },
    Crate {
        package: IR,
        folder: "crates/protocols/ir",
        may_import: &[CORE, CODEC, STORE],
        kind: Kind::Machine,
    },
    Crate {
        package: TAPIR,
        folder: "crates/protocols/tapir",
        may_import: &[CORE, CODEC, COORDINATOR, STORE, IR],
        kind: Kind::Machine,
    },
    Crate {
        package: BASELINES,
        folder: "crates/protocols/baselines",
        may_import: &[CORE, CODEC, COORDINATOR, STORE, IR],
        kind: Kind::Machine,
    },
    Crate {
        package: GRANOLA,
        folder: "crates/protocols/granola",
        may_import: &[CORE, CODEC, COORDINATOR, STORE, IR],
        kind: Kind::Machine,
    },
    Crate {
        package: QWSTORE,
        folder: "crates/protocols/qwstore",
        may_import: &[CORE, CODEC, COORDINATOR, STORE, IR],
        kind: Kind::Machine,
    },
    Crate { package: PROCEDURE, folder: "crates/procedure", may_import: &[], kind: Kind::Machine },
    Crate {
        package: PROCEDURES,
        folder: "crates/procedures",
        may_import: &[CORE, CODEC, STORE, GRANOLA, PROCEDURE],
        kind: Kind::Deterministic,
    },
    Crate {
        package: INTERACTIVE,
        folder: "crates/interactive",
        may_import: &[CORE, COORDINATOR, GRANOLA, PROCEDURES],
        kind: Kind::Deterministic,
    },
    Crate { package: SANDBOX, folder: "crates/sandbox", may_import: &[PROCEDURE], kind: Kind::Deterministic },
    Crate { package: TPCC, folder: "crates/tpcc", may_import: &[PROCEDURE], kind: Kind::Machine },
    Crate {
        package: LIBRARY,
        folder: "crates/library",
        may_import: &[PROCEDURE, PROCEDURES, SANDBOX, TPCC],
        kind: Kind::Pure,
    },
    Crate { package: TESTSCRIPTS, folder: "crates/testscripts", may_import: &[CORE], kind: Kind::Pure },
    Crate { package: CHECKER, folder: "crates/checker", may_import: &[CORE], kind: Kind::Pure },
    Crate {
        package: WORKLOADS,
        folder: "crates/workloads",
        may_import: &[CORE, CHECKER, PROCEDURE],
        kind: Kind::Deterministic,
    },
    Crate {
        package: WIRE,
        folder: "crates/wire",
        may_import: &[
            CORE,
            CODEC,
            STORE,
            LOG,
            CONFIGURATION,
            IR,
            TAPIR,
            BASELINES,
            GRANOLA,
            PROCEDURES,
            QWSTORE,
        ],
        kind: Kind::Pure,
    },
    Crate {
        package: SIMULATOR,
        folder: "crates/simulator",
        may_import: &[
            CORE,
            DRIVER,
            STORE,
            STORAGE,
            LOG,
            CONFIGURATION,
            IR,
            TAPIR,
            BASELINES,
            GRANOLA,
            PROCEDURE,
            LIBRARY,
            PROCEDURES,
            TPCC,
            INTERACTIVE,
            QWSTORE,
            CHECKER,
            WORKLOADS,
            WIRE,
        ],
        kind: Kind::Deterministic,
    },
    Crate {
        package: EXPERIMENTS,
        folder: "crates/experiments",
        may_import: &[
            CORE, LOG, TAPIR, BASELINES, GRANOLA, PROCEDURE, PROCEDURES, TPCC, QWSTORE, WORKLOADS, SIMULATOR,
        ],
        kind: Kind::Deterministic,
    },
    Crate { package: RUNTIME, folder: "crates/runtime", may_import: &[CORE, DRIVER, WIRE], kind: Kind::Host },
    Crate {
        package: CLIENT,
        folder: "crates/client",
        may_import: &[
            CORE,
            LOG,
            CONFIGURATION,
            TAPIR,
            BASELINES,
            GRANOLA,
            PROCEDURES,
            INTERACTIVE,
            QWSTORE,
            WIRE,
            RUNTIME,
        ],
        kind: Kind::Host,
    },
    Crate {
        package: SERVER,
        folder: "crates/server",
        may_import: &[
            CORE,
            STORE,
            STORAGE,
            LOG,
            CONFIGURATION,
            IR,
            TAPIR,
            BASELINES,
            GRANOLA,
            PROCEDURES,
            LIBRARY,
            QWSTORE,
            WIRE,
            RUNTIME,
        ],
        kind: Kind::Host,
    },
    Crate {
        package: "quorate-cli",
        folder: "crates/cli",
        may_import: &[
            CORE,
            STORAGE,
            TAPIR,
            BASELINES,
            GRANOLA,
            PROCEDURES,
            TPCC,
            CHECKER,
            WORKLOADS,
            SIMULATOR,
            EXPERIMENTS,
            WIRE,
            RUNTIME,
            CLIENT,
            SERVER,
        ],
        kind: Kind::Host,
    },
    Crate { package: "xtask", folder: "xtask", may_import: &[], kind: Kind::Host },
];
