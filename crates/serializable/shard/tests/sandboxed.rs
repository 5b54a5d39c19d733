//! Procedures in WebAssembly, at a shard.

use quorate_core::Value;
use quorate_granola::{Application, Prepared};
use quorate_procedure::Procedure;
use quorate_serializable_sandbox::{Limits, Module};
use quorate_serializable_shard::{
    Answer, Call, Deploy, Library, Operation, Refusal, ShardWith, Step, read_answer,
};

use crate::batches::{batch, get, key, place, put};

/// The worked example: moves an amount from one account to another, and refuses an overdraft.
const TRANSFER: &[u8] = include_bytes!("../../sandbox/tests/sandbox/transfer.wasm");

/// All deployed procedures run in the sandbox.
#[derive(Debug)]
enum Sandboxed {}

impl Library for Sandboxed {
    type Module = Module;

    fn find(_: &str) -> Option<&'static (dyn Procedure + Sync)> {
        None
    }

    fn compile(code: &[u8]) -> Result<Module, String> {
        Module::new(code, Limits::default()).map_err(|invalid| invalid.to_string())
    }

    fn failure(module: &Module) -> Option<String> {
        module.take_failure().map(|failure| failure.to_string())
    }
}

type Shard = ShardWith<Sandboxed>;

fn deploy(code: &'static [u8]) -> Value {
    let (name, code) = ("transfer".to_owned(), Value::from_static(code));
    Operation::Deploy(Deploy { name, version: 1, code }).encode()
}

fn transfer(from: &str, to: &str, amount: u64) -> Value {
    let name = |name: &str| [&[name.len() as u8], name.as_bytes()].concat();
    let arguments = Value::from([name(from), name(to), amount.to_le_bytes().to_vec()].concat());
    Operation::Call(Call { name: "transfer".to_owned(), arguments, ..Call::default() }).encode()
}

fn holding(name: &str, amount: u64) -> Step {
    Step::Put { key: key(name), value: Value::from(amount.to_le_bytes().to_vec()) }
}

fn run(shard: &mut Shard, at: u64, operation: &Value) -> Result<Answer, Refusal> {
    read_answer(&shard.run(place(at), operation).expect("nothing is locked")).unwrap()
}

fn held(shard: &Shard, name: &str) -> u64 {
    let held = shard.newest(name.as_bytes()).expect("there is such an account");
    u64::from_le_bytes(held.value.as_ref().try_into().expect("an account has eight bytes"))
}

/// A shard with a procedure and two accounts.
fn shard() -> Shard {
    let mut shard = Shard::default();
    assert_eq!(run(&mut shard, 1, &deploy(TRANSFER)), Ok(Answer::Changed));
    run(&mut shard, 2, &batch(&[], &[holding("ada", 100), holding("bob", 5)])).unwrap();
    shard
}

#[test]
fn a_procedure_reads_writes_and_refuses() {
    let mut shard = shard();
    let left = Ok(Answer::Call(Value::from(70_u64.to_le_bytes().to_vec())));
    assert_eq!(run(&mut shard, 3, &transfer("ada", "bob", 30)), left);
    assert_eq!((held(&shard, "ada"), held(&shard, "bob")), (70, 35));
    let reason = Value::from_static(b"the account does not hold that much");
    assert_eq!(run(&mut shard, 4, &transfer("ada", "bob", 71)), Err(Refusal::Procedure { reason }));
    assert_eq!((held(&shard, "ada"), held(&shard, "bob")), (70, 35));
    let mut frozen = shard.freeze(None);
    let mut copy = Shard::from_pages(std::iter::from_fn(|| Shard::next_page(&mut frozen, 1)).collect());
    run(&mut copy, 5, &transfer("bob", "ada", 35)).unwrap();
    assert_eq!((held(&copy, "ada"), held(&copy, "bob")), (105, 0));
}

#[test]
fn a_procedure_meets_locks_and_holds_some() {
    let mut shard = shard();
    assert!(matches!(shard.prepare(place(3).transaction, &batch(&[], &[get("bob")])), Prepared::Commit(_)));
    assert_eq!(shard.run(place(4), &transfer("ada", "bob", 1)), None);
    assert_eq!(shard.prepare(place(5).transaction, &transfer("ada", "bob", 1)), Prepared::Conflict);
    shard.abort(place(3).transaction);
    let of = place;
    let Prepared::Commit(promised) = shard.prepare(of(6).transaction, &transfer("ada", "bob", 1)) else {
        panic!("nothing is locked")
    };
    assert_eq!(shard.run(of(7), &batch(&[], &[get("ada")])), None);
    assert!(shard.run(of(8), &batch(&[], &[put("eve", "1")])).is_some());
    assert_eq!(shard.commit(of(6)), promised);
    // It says itself what it may touch.
    assert!(shard.force_prepare(of(9).transaction, &transfer("ada", "bob", 1)));
    assert!(shard.run(of(10), &batch(&[], &[put("eve", "2")])).is_some());
    assert_eq!(shard.run(of(11), &batch(&[], &[get("ada")])), None);
    shard.commit(of(9));
    assert_eq!((held(&shard, "ada"), held(&shard, "bob")), (98, 7));
}

#[test]
fn what_is_no_module_is_not_deployed() {
    let mut shard = Shard::default();
    for code in [&b"no module"[..], &TRANSFER[..TRANSFER.len() / 2], b""] {
        let refused = run(&mut shard, 1, &deploy(code));
        assert!(matches!(refused, Err(Refusal::Deploy { .. })), "{refused:?}");
    }
}
