//! The crates of the workspace: what each may import, and what it must keep out.
//!
//! Arrows point down only, from the binary to the vocabulary. A new crate is added here when it is added to the
//! workspace; the `arrows` stage fails until it is. The picture and the table of `docs/architecture.md` are drawn from here.

/// The rules for one crate.
pub(crate) struct Crate {
    /// The name of its package.
    pub(crate) package: &'static str,
    /// Its folder, from the root of the repository. The folder that it lies in names its layer.
    pub(crate) folder: &'static str,
    /// One line about it, in Markdown as `docs/architecture.md` has it.
    pub(crate) what: &'static str,
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
const STORE: &str = "quorate-store";
const DRIVER: &str = "quorate-driver";
const STORAGE: &str = "quorate-storage";
const LOG: &str = "quorate-log";
const IR: &str = "quorate-ir";
const COORDINATOR: &str = "quorate-coordinator";
const TAPIR: &str = "quorate-tapir";
const GRANOLA: &str = "quorate-granola";
const WALTER: &str = "quorate-walter";
const STR: &str = "quorate-str";
const BASELINES: &str = "quorate-baselines";
const QWSTORE: &str = "quorate-qwstore";
const ACCESS: &str = "quorate-access";
const CONFIGURATION: &str = "quorate-configuration";
const EXPIRY: &str = "quorate-expiry";
const INDEX: &str = "quorate-index";
const PROCEDURE: &str = "quorate-procedure";
const SERIALIZABLE_SHARD: &str = "quorate-serializable-shard";
const SERIALIZABLE_COORDINATOR: &str = "quorate-serializable-coordinator";
const SERIALIZABLE_SANDBOX: &str = "quorate-serializable-sandbox";
const TPCC: &str = "quorate-tpcc";
const RUBIS: &str = "quorate-rubis";
const REDIS_COMMANDS: &str = "quorate-redis-commands";
const GATEWAY: &str = "quorate-gateway";
const REDIS_EVALUATOR: &str = "quorate-redis-evaluator";
const REDIS_SCRIPTS: &str = "quorate-redis-scripts";
const REDIS: &str = "quorate-redis";
const HTTP: &str = "quorate-http";
const SERIALIZABLE_LIBRARY: &str = "quorate-serializable-library";
const CERTIFICATES: &str = "quorate-certificates";
const WIRE: &str = "quorate-wire";
const LOGINS: &str = "quorate-logins";
const CREDENTIALS: &str = "quorate-credentials";
const RUNTIME: &str = "quorate-runtime";
pub(crate) const CLIENT: &str = "quorate";
const BACKUP: &str = "quorate-backup";
const PYTHON: &str = "quorate-python";
const SERVER: &str = "quorate-server";
const TESTSCRIPTS: &str = "quorate-testscripts";
const CHECKER: &str = "quorate-checker";
const WORKLOADS: &str = "quorate-workloads";
const SIMULATOR: &str = "quorate-simulator";
const EXPERIMENTS: &str = "quorate-experiments";
const REPORT: &str = "quorate-report";
const CLUSTER: &str = "quorate-cluster";
const LOAD: &str = "quorate-load";
const CALIBRATE: &str = "quorate-calibrate";
const TORTURE: &str = "quorate-torture";
const FUZZ: &str = "quorate-fuzz";
const CLI: &str = "quorate-cli";
const XTASK: &str = "xtask";
const MUTANTS: &str = "quorate-mutants";

/// A folder of crates. Crates of a layer import each other, and those of layers above it in [`LAYERS`].
pub(crate) struct Layer {
    /// The name of its folder in `crates`.
    pub(crate) name: &'static str,
    /// One line about it.
    pub(crate) what: &'static str,
}

/// The layers, each after those that it may import.
pub(crate) const LAYERS: [Layer; 11] = [
    Layer { name: "foundation", what: "machines, their drivers, memory and disks" },
    Layer { name: "replication", what: "how a group of replicas agrees" },
    Layer { name: "protocols", what: "one folder for each isolation" },
    Layer { name: "rivals", what: "the systems that the papers compare with" },
    Layer {
        name: "services",
        what: "what a cluster keeps for its operators: configuration, rights, indexes",
    },
    Layer { name: "serializable", what: "the operations of one-round transactions" },
    Layer { name: "hosts", what: "sockets, disks, processes" },
    Layer { name: "doors", what: "how programs come in that are no clients of the cluster" },
    Layer { name: "proof", what: "simulation, judgement, measurement" },
    Layer { name: "cli", what: "the binary" },
    Layer { name: "xtask", what: "the checks, which import nothing" },
];

impl Crate {
    /// The position of its layer in [`LAYERS`].
    ///
    /// # Panics
    /// If its folder lies in none.
    pub(crate) fn layer(&self) -> usize {
        let name = self.folder.trim_start_matches("crates/").split('/').next();
        match LAYERS.iter().position(|layer| Some(layer.name) == name) {
            Some(layer) => layer,
            None => panic!("{} lies in no layer", self.folder),
        }
    }
}

/// Every crate, each after those that it may import. Protocols import only `quorate-ir` beside core, codec, coordinator and store.
pub(crate) const CRATES: [Crate; 54] = [
    Crate {
        package: CORE,
        folder: "crates/foundation/core",
        what: "the vocabulary: machine and outbox, ids, two kinds of time, timestamps, transactions and their limits, quorums, topology",
        may_import: &[],
        kind: Kind::Machine,
    },
    Crate {
        package: CODEC,
        folder: "crates/foundation/codec",
        what: "protocol buffers over the project's own types: the tables of fields, which each protocol fills in its own folder, and the schema that they yield ([ADR 0005](adr/0005-codec.md))",
        may_import: &[CORE],
        kind: Kind::Machine,
    },
    Crate {
        package: STORE,
        folder: "crates/foundation/store",
        what: "the memory of a replica: versions, read timestamps, read locks, the prepared set",
        may_import: &[CORE],
        kind: Kind::Machine,
    },
    Crate {
        package: DRIVER,
        folder: "crates/foundation/driver",
        what: "the driver of a machine, one for servers, clients and the simulator: durability order, truncation, timers",
        may_import: &[CORE],
        kind: Kind::Machine,
    },
    Crate {
        package: STORAGE,
        folder: "crates/foundation/storage",
        what: "the durable log: format, recovery, truncation, the thread that syncs, the journal of a node ([ADR 0052](adr/0052-a-journal-for-the-logs-of-a-node.md)); \
               over files or a simulated disk",
        may_import: &[CORE],
        kind: Kind::Pure,
    },
    Crate {
        package: LOG,
        folder: "crates/replication/log",
        what: "Viewstamped Replication: views, leases, joining a view, snapshots, changes of the group; `Member` hosts a machine that stands on it ([ADR 0002](adr/0002-replicated-log.md))",
        may_import: &[CORE, CODEC],
        kind: Kind::Machine,
    },
    Crate {
        package: IR,
        folder: "crates/replication/ir",
        what: "inconsistent replication: operations, records, view changes, floors, and what is the same for every machine that stands on it ([ADR 0044](adr/0044-members-of-inconsistent-replication.md))",
        may_import: &[CORE, CODEC, STORE],
        kind: Kind::Machine,
    },
    Crate {
        package: COORDINATOR,
        folder: "crates/protocols/coordinator",
        what: "the parts that coordinators of all protocols share: the buffer of a transaction, its wake-ups, the leaders of groups",
        may_import: &[CORE],
        kind: Kind::Machine,
    },
    Crate {
        package: TAPIR,
        folder: "crates/protocols/tapir",
        what: "TAPIR: coordinator, replica, coordinator recovery, planted bugs",
        may_import: &[CORE, CODEC, STORE, IR, COORDINATOR],
        kind: Kind::Machine,
    },
    Crate {
        package: GRANOLA,
        folder: "crates/protocols/granola",
        what: "Granola: one-round transactions in the order of timestamps, and the port of the application that they run ([ADR 0029](adr/0029-executions-have-places.md), [protocols/serializable.md](protocols/serializable.md))",
        may_import: &[CORE, CODEC, STORE, IR, COORDINATOR],
        kind: Kind::Machine,
    },
    Crate {
        package: WALTER,
        folder: "crates/protocols/walter",
        what: "Walter, in a client and on a log in each local site ([ADR 0043](adr/0043-local-sites.md), [protocols/parallel-snapshot.md](protocols/parallel-snapshot.md))",
        may_import: &[CORE, CODEC, COORDINATOR],
        kind: Kind::Machine,
    },
    Crate {
        package: STR,
        folder: "crates/protocols/str",
        what: "STR: speculative snapshot isolation, in homes and shards on logs ([ADR 0050](adr/0050-speculation.md))",
        may_import: &[CORE, CODEC, STORE, COORDINATOR],
        kind: Kind::Machine,
    },
    Crate {
        package: BASELINES,
        folder: "crates/rivals/baselines",
        what: "the systems that TAPIR and Granola are compared with: two-phase commit over replicated logs ([ADR 0020](adr/0020-comparison-systems.md))",
        may_import: &[CORE, CODEC, STORE, IR, COORDINATOR],
        kind: Kind::Machine,
    },
    Crate {
        package: QWSTORE,
        folder: "crates/rivals/qwstore",
        what: "the quorum store without transactions that TAPIR is compared with, on inconsistent replication ([ADR 0023](adr/0023-quorum-store.md))",
        may_import: &[CORE, CODEC, STORE, IR, COORDINATOR],
        kind: Kind::Machine,
    },
    Crate {
        package: ACCESS,
        folder: "crates/services/access",
        what: "users, roles, rights and tokens as entries of the configuration, and the decision what a login may do ([access.md](access.md), [ADR 0073](adr/0073-access-control.md))",
        may_import: &[CORE, CODEC],
        kind: Kind::Machine,
    },
    Crate {
        package: CONFIGURATION,
        folder: "crates/services/configuration",
        what: "the configuration service, on a log: a versioned map with conditional writes, watches and leases ([ADR 0021](adr/0021-configuration-service.md))",
        may_import: &[CORE, CODEC, STORE, COORDINATOR, ACCESS],
        kind: Kind::Machine,
    },
    Crate {
        package: EXPIRY,
        folder: "crates/services/expiry",
        what: "values that expire: how a transaction judges what it reads, and the sweeper that deletes keys whose values are over ([ADR 0085](adr/0085-time-to-live.md))",
        may_import: &[CORE],
        kind: Kind::Machine,
    },
    Crate {
        package: INDEX,
        folder: "crates/services/index",
        what: "secondary indexes: their definitions, the entries of a value, and what a transaction writes so that both agree ([ADR 0084](adr/0084-secondary-indexes.md))",
        may_import: &[CORE],
        kind: Kind::Machine,
    },
    Crate {
        package: PROCEDURE,
        folder: "crates/serializable/procedure",
        what: "a stored procedure and its view of the store; linked with a server or compiled to WebAssembly",
        may_import: &[],
        kind: Kind::Machine,
    },
    Crate {
        package: SERIALIZABLE_SHARD,
        folder: "crates/serializable/shard",
        what: "the operations of a shard of a serializable keyspace: batches, procedures; how clients divide them by shards ([one-round.md](one-round.md), [ADR 0032](adr/0032-what-a-shard-of-a-serializable-keyspace-holds.md))",
        may_import: &[CORE, CODEC, STORE, GRANOLA, PROCEDURE],
        kind: Kind::Deterministic,
    },
    Crate {
        package: SERIALIZABLE_COORDINATOR,
        folder: "crates/serializable/coordinator",
        what: "the coordinator of serializable keyspaces: transactions that run in one round as the client has named them, and over those such that read before they know what they write",
        may_import: &[CORE, COORDINATOR, GRANOLA, SERIALIZABLE_SHARD],
        kind: Kind::Deterministic,
    },
    Crate {
        package: SERIALIZABLE_SANDBOX,
        folder: "crates/serializable/sandbox",
        what: "runs procedures that were compiled to WebAssembly, within limits, the same at every replica ([ADR 0030](adr/0030-webassembly.md), [procedures.md](procedures.md))",
        may_import: &[PROCEDURE],
        kind: Kind::Deterministic,
    },
    Crate {
        package: TPCC,
        folder: "crates/serializable/tpcc",
        what: "TPC-C as procedures: its transactions, population, mix and consistency conditions",
        may_import: &[PROCEDURE],
        kind: Kind::Machine,
    },
    Crate {
        package: RUBIS,
        folder: "crates/serializable/rubis",
        what: "RUBiS as procedures, laid out like TPC-C: its interactions, population, mix, and what must hold of the data",
        may_import: &[PROCEDURE, TPCC],
        kind: Kind::Machine,
    },
    Crate {
        package: REDIS_COMMANDS,
        folder: "crates/serializable/redis",
        what: "the commands of Redis as one procedure, and how their keys lie in records ([ADR 0059](adr/0059-doors.md))",
        may_import: &[PROCEDURE],
        kind: Kind::Machine,
    },
    Crate {
        package: REDIS_EVALUATOR,
        folder: "crates/serializable/evaluator",
        what: "scripts of Redis at the shard: a deterministic part of Lua 5.1, as one procedure ([ADR 0069](adr/0069-scripts-at-the-shard.md))",
        may_import: &[PROCEDURE, REDIS_COMMANDS],
        kind: Kind::Machine,
    },
    Crate {
        package: SERIALIZABLE_LIBRARY,
        folder: "crates/serializable/library",
        what: "the procedures of servers: linked ones, and deployed ones in the sandbox",
        may_import: &[
            PROCEDURE,
            SERIALIZABLE_SHARD,
            SERIALIZABLE_SANDBOX,
            TPCC,
            RUBIS,
            REDIS_COMMANDS,
            REDIS_EVALUATOR,
        ],
        kind: Kind::Pure,
    },
    Crate {
        package: WIRE,
        folder: "crates/hosts/wire",
        what: "frames, packets, records of logs, the catalogue, and the messages of all protocols as one",
        may_import: &[
            CORE,
            CODEC,
            STORE,
            LOG,
            IR,
            TAPIR,
            GRANOLA,
            WALTER,
            STR,
            BASELINES,
            QWSTORE,
            ACCESS,
            CONFIGURATION,
            SERIALIZABLE_SHARD,
        ],
        kind: Kind::Pure,
    },
    Crate {
        package: CERTIFICATES,
        folder: "crates/hosts/certificates",
        what: "certificates: the identity that each states, the authorities that are believed, and how both are renewed ([ADR 0072](adr/0072-certificates-are-identities.md))",
        may_import: &[CORE],
        kind: Kind::Host,
    },
    Crate {
        package: CREDENTIALS,
        folder: "crates/hosts/credentials",
        what: "passwords (Argon2id) and bearer tokens: made, hashed, compared",
        may_import: &[CORE, ACCESS],
        kind: Kind::Host,
    },
    Crate {
        package: LOGINS,
        folder: "crates/hosts/logins",
        what: "logging in: passwords that are compared beside event loops, clients that guess, and the audit log of a node",
        may_import: &[ACCESS, CREDENTIALS],
        kind: Kind::Host,
    },
    Crate {
        package: RUNTIME,
        folder: "crates/hosts/runtime",
        what: "connections, clocks, emulated delay",
        may_import: &[CORE, ACCESS, CERTIFICATES, DRIVER, WIRE],
        kind: Kind::Host,
    },
    Crate {
        package: CLIENT,
        folder: "crates/hosts/client",
        what: "the public Rust API; hosts the coordinator",
        may_import: &[
            CORE,
            LOG,
            TAPIR,
            GRANOLA,
            WALTER,
            STR,
            BASELINES,
            QWSTORE,
            ACCESS,
            CONFIGURATION,
            EXPIRY,
            INDEX,
            PROCEDURE,
            SERIALIZABLE_SHARD,
            SERIALIZABLE_COORDINATOR,
            CERTIFICATES,
            WIRE,
            CREDENTIALS,
            RUNTIME,
        ],
        kind: Kind::Host,
    },
    Crate {
        package: PYTHON,
        folder: "crates/hosts/python",
        what: "the Python package `quorate`: the client as an extension module, for threads and for asyncio ([python.md](python.md))",
        may_import: &[CLIENT],
        kind: Kind::Host,
    },
    Crate {
        package: SERVER,
        folder: "crates/hosts/server",
        what: "a node: configuration, data directory, replicas, catalogue, metrics, drain",
        may_import: &[
            CORE,
            ACCESS,
            CERTIFICATES,
            CREDENTIALS,
            LOGINS,
            STORE,
            STORAGE,
            LOG,
            TAPIR,
            GRANOLA,
            WALTER,
            STR,
            BASELINES,
            QWSTORE,
            CONFIGURATION,
            SERIALIZABLE_SHARD,
            SERIALIZABLE_LIBRARY,
            WIRE,
            RUNTIME,
        ],
        kind: Kind::Host,
    },
    Crate {
        package: BACKUP,
        folder: "crates/hosts/backup",
        what: "keyspaces at one instant, in folders or object stores and back: the format of backups, chunks that they share, rows of text, creating, verifying, restoring, deleting ([ADR 0074](adr/0074-backups.md), [ADR 0086](adr/0086-chunks-of-backups.md))",
        may_import: &[CORE, CLIENT],
        kind: Kind::Host,
    },
    Crate {
        package: GATEWAY,
        folder: "crates/doors/gateway",
        what: "what all doors have in common: threads beside those of the node, sessions, rights, bounded memory, deadlines ([ADR 0059](adr/0059-doors.md))",
        may_import: &[CERTIFICATES, LOGINS, CLIENT],
        kind: Kind::Host,
    },
    Crate {
        package: REDIS_SCRIPTS,
        folder: "crates/doors/scripts",
        what: "scripts of Redis: Lua 5.1 within limits, over whatever carries out commands ([ADR 0060](adr/0060-scripts.md))",
        may_import: &[REDIS_COMMANDS, REDIS_EVALUATOR],
        kind: Kind::Pure,
    },
    Crate {
        package: REDIS,
        folder: "crates/doors/redis",
        what: "the Redis protocol ([doors/redis.md](doors/redis.md)): codec, connections, transactions, commands divided by shards",
        may_import: &[CLIENT, PROCEDURE, REDIS_COMMANDS, REDIS_EVALUATOR, GATEWAY, REDIS_SCRIPTS],
        kind: Kind::Host,
    },
    Crate {
        package: HTTP,
        folder: "crates/doors/http",
        what: "HTTP and JSON ([doors/http.md](doors/http.md)): routes, problems, OpenAPI, repeats of requests; the [console](doors/console.md)",
        may_import: &[CLIENT, GATEWAY],
        kind: Kind::Host,
    },
    Crate {
        package: TESTSCRIPTS,
        folder: "crates/proof/testscripts",
        what: "golden scripts: stories about machines, compared with what happens, and a stage for those that stand on logs; for tests alone",
        may_import: &[CORE],
        kind: Kind::Pure,
    },
    Crate {
        package: CHECKER,
        folder: "crates/proof/checker",
        what: "judges histories of what clients saw",
        may_import: &[CORE],
        kind: Kind::Pure,
    },
    Crate {
        package: WORKLOADS,
        folder: "crates/proof/workloads",
        what: "transactions as data, so that the simulator and the real client execute the same ones",
        may_import: &[CORE, PROCEDURE, CHECKER],
        kind: Kind::Deterministic,
    },
    Crate {
        package: SIMULATOR,
        folder: "crates/proof/simulator",
        what: "clusters in virtual time, faults, invariants",
        may_import: &[
            CORE,
            CODEC,
            STORE,
            DRIVER,
            STORAGE,
            LOG,
            IR,
            TAPIR,
            GRANOLA,
            WALTER,
            STR,
            BASELINES,
            QWSTORE,
            ACCESS,
            CONFIGURATION,
            EXPIRY,
            INDEX,
            PROCEDURE,
            SERIALIZABLE_SHARD,
            SERIALIZABLE_COORDINATOR,
            REDIS_COMMANDS,
            TPCC,
            SERIALIZABLE_LIBRARY,
            WIRE,
            CHECKER,
            WORKLOADS,
        ],
        kind: Kind::Deterministic,
    },
    Crate {
        package: EXPERIMENTS,
        folder: "crates/proof/experiments",
        what: "figures in virtual time: closed-loop clients in the simulator's world, without faults",
        may_import: &[
            CORE,
            LOG,
            TAPIR,
            GRANOLA,
            WALTER,
            STR,
            BASELINES,
            QWSTORE,
            PROCEDURE,
            SERIALIZABLE_SHARD,
            TPCC,
            RUBIS,
            WORKLOADS,
            SIMULATOR,
        ],
        kind: Kind::Deterministic,
    },
    Crate {
        package: REPORT,
        folder: "crates/proof/report",
        what: "one page of every figure and table of the papers, with benches and simulations",
        may_import: &[EXPERIMENTS],
        kind: Kind::Pure,
    },
    Crate {
        package: CLUSTER,
        folder: "crates/proof/cluster",
        what: "clusters on this machine, of threads or of processes; whether the replicas of a cluster hold the same",
        may_import: &[CORE, CERTIFICATES, RUNTIME, CLIENT, SERVER],
        kind: Kind::Host,
    },
    Crate {
        package: LOAD,
        folder: "crates/proof/load",
        what: "keeps workload transactions in flight on a real cluster, measures them and records what they saw",
        may_import: &[CORE, PROCEDURE, CLIENT, CHECKER, WORKLOADS],
        kind: Kind::Host,
    },
    Crate {
        package: CALIBRATE,
        folder: "crates/proof/calibrate",
        what: "what work costs on this machine, for processors in the simulator; the same workload on real servers and simulated",
        may_import: &[
            CORE,
            STORAGE,
            TAPIR,
            WIRE,
            RUNTIME,
            CLIENT,
            WORKLOADS,
            SIMULATOR,
            EXPERIMENTS,
            CLUSTER,
            LOAD,
        ],
        kind: Kind::Host,
    },
    Crate {
        package: TORTURE,
        folder: "crates/proof/torture",
        what: "faults and scripted attacks on real server processes, judged",
        may_import: &[CORE, WIRE, CLIENT, SERVER, CHECKER, WORKLOADS, CLUSTER, LOAD],
        kind: Kind::Host,
    },
    Crate {
        package: FUZZ,
        folder: "crates/proof/fuzz",
        what: "hostile input for the codecs and commands of the doors, and for what names users",
        may_import: &[CORE, ACCESS, CREDENTIALS, WIRE, PROCEDURE, REDIS_COMMANDS, REDIS_SCRIPTS, REDIS, HTTP],
        kind: Kind::Host,
    },
    Crate {
        package: CLI,
        folder: "crates/cli",
        what: "the binary `quorate`",
        may_import: &[
            CORE,
            CERTIFICATES,
            TAPIR,
            PROCEDURE,
            TPCC,
            RUBIS,
            CLIENT,
            SERVER,
            BACKUP,
            GATEWAY,
            REDIS,
            HTTP,
            CHECKER,
            WORKLOADS,
            SIMULATOR,
            EXPERIMENTS,
            REPORT,
            CLUSTER,
            LOAD,
            CALIBRATE,
            TORTURE,
        ],
        kind: Kind::Host,
    },
    Crate { package: XTASK, folder: "xtask", what: "the checks", may_import: &[], kind: Kind::Host },
    Crate {
        package: MUTANTS,
        folder: "xtask/mutants",
        what: "changes protocol crates line by line, and counts which changes tests and seeds notice ([ADR 0057](adr/0057-mutants-in-one-build.md))",
        may_import: &[],
        kind: Kind::Host,
    },
];
