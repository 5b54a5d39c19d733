//! The procedures of servers.
//!
//! A shard finds procedures by way of a [`Library`], which is a type. This is the one of servers:
//!
//! | procedure | where it comes from |
//! |---|---|
//! | `tpcc/new-order`, `tpcc/payment`, `tpcc/order-status`, `tpcc/delivery`, `tpcc/stock-level` | linked: the transactions of TPC-C |
//! | `rubis/interaction` | linked: the interactions of RUBiS |
//! | `redis/commands` | linked: the commands of Redis |
//! | `redis/scripts` | linked: scripts of Redis whose keys lie at one shard |
//! | `APPLICATION/…` | [linked](link) by the program that starts the server, in keyspaces that name the application |
//! | any other name | deployed: WebAssembly, in the sandbox, within [`Limits::default`] |
//!
//! A module that this process has loaded lately is not loaded again (`recent`).
//!
//! All replicas of a shard must come to the same. So whatever changes here changes what old log entries do, and
//! is a reason to upgrade all servers of a cluster before it is used.

mod applications;
mod recent;

use std::sync::Arc;

use quorate_procedure::{Footprint, Procedure};
use quorate_redis_evaluator::{Program, Scripts, Unfit};
use quorate_rubis::Rubis;
use quorate_serializable_sandbox::{Limits, Module};
use quorate_serializable_shard::Library;
use quorate_tpcc::procedures::{Delivery, NewOrder, OrderStatus, Payment, StockLevel};

pub use applications::{Application, LinkError, applications, is_linked, link};
use recent::Recent;

/// The procedures that servers can call.
#[derive(Clone, Copy, Debug)]
pub enum Hosted {}

/// The procedures that are linked with servers, by name.
pub const LINKED: [(&str, &(dyn Procedure + Sync)); 8] = [
    ("tpcc/new-order", &NewOrder),
    ("tpcc/payment", &Payment),
    ("tpcc/order-status", &OrderStatus),
    ("tpcc/delivery", &Delivery),
    ("tpcc/stock-level", &StockLevel),
    ("rubis/interaction", &Rubis),
    (quorate_redis_commands::PROCEDURE, &quorate_redis_commands::Commands),
    (quorate_redis_evaluator::PROCEDURE, &Scripts { read }),
];

/// Scripts that were read lately, or why shards do not run them.
static READ: Recent<Result<Arc<Program>, Unfit>> = Recent::with_costs(PROGRAM_FACTOR, 4 * 1024);

/// A script that was read takes some times as much as its text.
const PROGRAM_FACTOR: usize = 16;

fn read(text: &[u8]) -> Result<Arc<Program>, Unfit> {
    READ.load(text, |text| Program::new(text).map(Arc::new))
}

/// The modules that were loaded lately, or why one could not be.
static LOADED: Recent<Result<Module, String>> = Recent::new();

/// True if code was loaded lately, so that to deploy it takes a shard no time.
pub fn is_loaded(code: &[u8]) -> bool {
    LOADED.has(code)
}

/// Loads code before shards do. They find the result.
pub fn load(code: &[u8]) {
    drop(Hosted::compile(code));
}

impl Library for Hosted {
    type Module = Module;

    fn find(name: &str) -> Option<&'static (dyn Procedure + Sync)> {
        LINKED.iter().find(|(linked, _)| *linked == name).map(|(_, procedure)| *procedure)
    }

    fn find_in(application: &str, name: &str) -> Option<&'static (dyn Procedure + Sync)> {
        applications::find(application, name)
    }

    fn compile(code: &[u8]) -> Result<Module, String> {
        LOADED.load(code, |code| Module::new(code, Limits::default()).map_err(|invalid| invalid.to_string()))
    }

    fn failure(module: &Module) -> Option<String> {
        module.take_failure().map(|failure| failure.to_string())
    }

    fn take_work(module: &Module) -> u64 {
        module.take_spent()
    }

    fn footprint(module: &Module, arguments: &[u8]) -> Result<Footprint, String> {
        module.try_footprint(arguments).map_err(|failure| failure.to_string())
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, ClockTime, Key, TransactionId, Value};
    use quorate_granola::{Application, Keyed, Place, Prepared};
    use quorate_serializable_shard::{
        Answer, Batch, Call, Deploy, Infer, Operation, Refusal, ShardWith, Step, read_answer,
    };
    use quorate_tpcc::Transaction;
    use quorate_tpcc::transaction::StockLevel;

    use super::*;

    /// The worked example.
    const TRANSFER: &[u8] = include_bytes!("../../sandbox/tests/sandbox/transfer.wasm");

    fn run(shard: &mut ShardWith<Hosted>, at: u64, operation: &Operation) -> Result<Answer, Refusal> {
        let place = Place {
            timestamp: ClockTime::from_micros(at),
            transaction: TransactionId { client: ClientId(1), sequence: at, attempt: 0 },
        };
        read_answer(&shard.run(place, &operation.encode()).expect("nothing is locked")).unwrap()
    }

    fn call(name: &str, arguments: Vec<u8>) -> Operation {
        Operation::Call(Call { name: name.to_owned(), arguments: arguments.into(), ..Call::default() })
    }

    fn deploy(name: &str, code: &[u8]) -> Operation {
        Operation::Deploy(Deploy { name: name.to_owned(), version: 1, code: Value::copy_from_slice(code) })
    }

    #[test]
    fn each_linked_procedure_is_the_transaction_of_its_name() {
        let level = StockLevel { warehouse: 1, district: 1, threshold: 10 };
        let transaction = Transaction::StockLevel(level);
        let arguments = transaction.arguments(&[1]);
        for (name, _) in LINKED {
            let answer = run(&mut ShardWith::default(), 1, &call(name, arguments.clone()));
            let is_its_own = name.strip_prefix("tpcc/") == Some(transaction.name());
            // Without a population it fails, where the others refuse what is not theirs.
            let takes_them = matches!(answer, Err(Refusal::Failed { .. }));
            assert_eq!(takes_them, is_its_own, "{name}: {answer:?}");
        }
    }

    #[test]
    fn an_application_is_called_where_its_keyspace_names_it() {
        let application = super::Application {
            name: "warehouse",
            procedures: &[("level", &quorate_tpcc::procedures::StockLevel)],
        };
        assert_eq!(link(application), Ok(()));
        let level = StockLevel { warehouse: 1, district: 1, threshold: 10 };
        let call = call("warehouse/level", Transaction::StockLevel(level).arguments(&[1]));
        let missing = Err(Refusal::NoSuchProcedure { name: "warehouse/level".to_owned(), version: 0 });
        assert_eq!(run(&mut ShardWith::default(), 1, &call), missing);
        let named = |name: &str| {
            let mut shard = ShardWith::default();
            shard.link(name);
            shard
        };
        // It is called, and finds no population.
        let answer = run(&mut named("warehouse"), 1, &call);
        assert!(matches!(answer, Err(Refusal::Failed { .. })), "{answer:?}");
        assert_eq!(run(&mut named("shop"), 1, &call), missing);
        // Nothing is deployed under its name there, and anything elsewhere.
        let refused = run(&mut named("warehouse"), 1, &deploy("warehouse/level", TRANSFER));
        assert!(matches!(refused, Err(Refusal::Deploy { .. })), "{refused:?}");
        assert_eq!(
            run(&mut ShardWith::default(), 1, &deploy("warehouse/level", TRANSFER)),
            Ok(Answer::Changed)
        );
    }

    #[test]
    fn commands_of_redis_go_by_the_place_where_they_run() {
        use quorate_redis_commands::{Answer as Told, PROCEDURE, Reply, Request};
        let request = |line: &str| {
            let commands = vec![line.split(' ').map(str::as_bytes).collect()];
            call(PROCEDURE, Request { commands, ..Request::default() }.encode())
        };
        let mut shard = ShardWith::default();
        for (at, line, expected) in [
            (1_000_000, "SET k v PX 100", Reply::OK),
            (1_050_000, "GET k", Reply::bulk("v")),
            (1_200_000, "GET k", Reply::Null),
        ] {
            let answer = run(&mut shard, at, &request(line));
            let Ok(Answer::Call(bytes)) = answer else { panic!("{line}: {answer:?}") };
            assert_eq!(Told::decode(&bytes), Ok(Told::Replies(vec![expected])), "{line}");
        }
        // A transaction has no place while it is prepared. So it runs when it has one, whatever else is prepared meanwhile.
        let id = |sequence| TransactionId { client: ClientId(1), sequence, attempt: 0 };
        let prepared = shard.prepare(id(4), &request("SET k late").encode());
        assert!(matches!(prepared, Prepared::Late(_)), "{prepared:?}");
        assert_eq!(shard.prepare(id(5), &request("GET k").encode()), Prepared::Conflict);
        let other = shard.prepare(id(6), &request("SET another v").encode());
        assert!(matches!(other, Prepared::Late(_)), "{other:?}");
        let place =
            |sequence, micros| Place { timestamp: ClockTime::from_micros(micros), transaction: id(sequence) };
        shard.commit(place(6, 1_400_000));
        shard.commit(place(4, 1_300_000));
        let mut follower = ShardWith::default();
        for (at, line) in [(1_000_000, "SET k v PX 100"), (1_300_000, "SET k late")] {
            assert!(run(&mut follower, at, &request(line)).is_ok());
        }
        let held = |shard: &ShardWith<Hosted>| -> Vec<_> {
            let values = shard.versions().into_iter().map(|(key, _, value)| (key, value));
            values.filter(|(key, _)| key.ends_with(b"k")).collect()
        };
        assert!(!held(&shard).is_empty());
        assert_eq!(held(&shard), held(&follower), "at the leader as at a replica that follows");
    }

    #[test]
    fn a_script_that_is_given_up_leaves_no_trace_at_the_shard() {
        use quorate_redis_evaluator::{Answer as Told, Item, PROCEDURE, Request, Text};
        const TEXT: &[u8] =
            b"local n = redis.call('incr', KEYS[1]) if n > 2 then error('too many') end return n";
        let script = Item::Script {
            text: Text::Whole(TEXT),
            is_read_only: false,
            keys: vec![b"k"],
            arguments: Vec::new(),
        };
        let request = Request { items: vec![script], ..Request::default() };
        let mut shard = ShardWith::default();
        // The second time, and each time after that, the text was read before.
        for (at, expected) in [(1, Some(1)), (2, Some(2)), (3, None), (4, None)] {
            let answer = run(&mut shard, at, &call(PROCEDURE, request.encode()));
            let told = match answer {
                Ok(Answer::Call(bytes)) => match Told::decode(&bytes) {
                    Ok(Told::Done { replies, .. }) => Some(replies),
                    other => panic!("{other:?}"),
                },
                Err(Refusal::Procedure { .. }) => None,
                other => panic!("{other:?}"),
            };
            let expected = expected.map(|n| vec![quorate_redis_commands::Reply::Integer(n)]);
            assert_eq!(told, expected, "at {at}");
        }
    }

    #[test]
    fn what_is_deployed_runs_in_the_sandbox() {
        let mut shard = ShardWith::default();
        assert_eq!(run(&mut shard, 1, &deploy("transfer", TRANSFER)), Ok(Answer::Changed));
        let answer = run(&mut shard, 2, &call("transfer", b"\x03ada\x03bob\x01\0\0\0\0\0\0\0".to_vec()));
        let reason = Value::from_static(b"there is no such account");
        assert_eq!(answer, Err(Refusal::Procedure { reason }));
        let refused = run(&mut shard, 3, &deploy("tpcc/payment", TRANSFER));
        assert!(matches!(refused, Err(Refusal::Deploy { .. })), "{refused:?}");
        let refused = run(&mut shard, 4, &deploy("other", b"no module"));
        assert!(matches!(refused, Err(Refusal::Deploy { .. })), "{refused:?}");
    }

    #[test]
    fn what_procedures_do_is_work_whether_they_come_to_an_end_or_not() {
        let endless = r#"(module (memory (export "memory") 1)
            (func (export "call") (param i32) (result i32) (loop $again (br $again)) i32.const 0)
            (func (export "footprint") (param i32) (result i32) (loop $again (br $again)) i32.const 0))"#;
        let mut shard = ShardWith::default();
        run(&mut shard, 1, &deploy("endless", &wat::parse_str(endless).unwrap())).unwrap();
        run(&mut shard, 2, &deploy("transfer", TRANSFER)).unwrap();
        assert_eq!(shard.work(), 0, "nothing was called");
        let mut work_of = |at, operation| {
            let before = shard.work();
            assert!(run(&mut shard, at, &operation).is_err());
            shard.work() - before
        };
        let fuel = Limits::default().fuel;
        let infer = Operation::Infer(Infer { name: "endless".to_owned(), ..Infer::default() });
        for (at, operation) in [(3, call("endless", Vec::new())), (4, infer)] {
            assert!((fuel * 9 / 10..=fuel).contains(&work_of(at, operation)), "it has taken all");
        }
        let short = work_of(5, call("transfer", b"\x03ada\x03bob\x01\0\0\0\0\0\0\0".to_vec()));
        assert!((1..10_000).contains(&short), "a short one is {short}");
    }

    #[test]
    fn what_is_loaded_ahead_is_not_loaded_again() {
        let code = [TRANSFER, b"\0\x06\x05ahead"].concat();
        assert!(!is_loaded(&code));
        load(&code);
        assert!(is_loaded(&code));
        load(b"no module either");
        assert!(is_loaded(b"no module either"), "why it is refused is remembered as well");
    }

    #[test]
    fn what_fails_to_say_what_it_touches_is_told_why() {
        let traps = r#"(module (memory (export "memory") 1)
            (func (export "call") (param i32) (result i32) i32.const 0)
            (func (export "footprint") (param i32) (result i32) unreachable))"#;
        let mut shard = ShardWith::default();
        run(&mut shard, 1, &deploy("p", &wat::parse_str(traps).unwrap())).unwrap();
        let infer = Operation::Infer(Infer { name: "p".to_owned(), ..Infer::default() });
        let text = "the procedure has trapped: wasm `unreachable` instruction executed".to_owned();
        assert_eq!(run(&mut shard, 2, &infer), Err(Refusal::Failed { text }));
        // A shard that has to go on all the same takes it for any key.
        let id = |sequence| TransactionId { client: ClientId(1), sequence, attempt: 0 };
        assert!(shard.force_prepare(id(3), &call("p", Vec::new()).encode()));
        let get =
            Operation::Batch(Batch { steps: vec![Step::Get { key: Key::from("k") }], ..Batch::default() });
        assert_eq!(shard.prepare(id(4), &get.encode()), Prepared::Conflict);
    }
}
