//! The worked example: a transfer that refuses an overdraft, compiled and linked.

use std::path::{Path, PathBuf};
use std::process::Command;

use quorate_core::Random;
use quorate_procedure::{Answer, Footprint, Memory, Procedure};
use quorate_serializable_sandbox::{Limits, Module};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::population::{self, Items};
use quorate_tpcc::random::Constants;
use quorate_tpcc::{Generator, Scale, Tpcc, violations};

use crate::common::Shard;

#[path = "../../../procedure/examples/transfer.rs"]
#[expect(unreachable_pub, reason = "the example stands on its own")]
mod transfer;

/// The example as it was compiled once, optimised as a whole (`lto = "fat"`, `codegen-units = 1`), for machines that cannot.
pub(crate) const TRANSFER: &[u8] = include_bytes!("transfer.wasm");

fn arguments(from: &str, to: &str, amount: u64) -> Vec<u8> {
    let name = |name: &str| [&[name.len() as u8][..], name.as_bytes()].concat();
    [name(from), name(to), amount.to_le_bytes().to_vec()].concat()
}

fn accounts(ada: u64, bob: u64) -> Shard {
    Shard::new(&[("ada", &ada.to_le_bytes()), ("bob", &bob.to_le_bytes())])
}

/// The rules of a transfer, compiled or not.
fn judge(transfer: &dyn Procedure) {
    let done = |left: u64| Ok(Answer::Done(left.to_le_bytes().to_vec()));
    let refused = |why: &str| Ok(Answer::Refused(why.as_bytes().to_vec()));

    let mut store = accounts(100, 5);
    assert_eq!(transfer.call(&mut store, &arguments("ada", "bob", 30)), done(70));
    assert_eq!(store.memory.pairs, accounts(70, 35).memory.pairs);
    assert_eq!(
        transfer.call(&mut store, &arguments("ada", "bob", 71)),
        refused("the account does not hold that much")
    );
    assert_eq!(transfer.call(&mut store, &arguments("ada", "eve", 1)), refused("there is no such account"));
    assert_eq!(transfer.call(&mut store, b"\x09ada"), refused("the arguments are no transfer"));
    assert_eq!(transfer.call(&mut store, &arguments("bob", "bob", 35)), done(35));
    assert_eq!(store.memory.pairs, accounts(70, 35).memory.pairs);
    assert_eq!(transfer.call(&mut store, &arguments("bob", "ada", 35)), done(0));
    assert_eq!(store.memory.pairs, accounts(105, 0).memory.pairs);

    let keys = vec![b"ada".to_vec(), b"bob".to_vec()];
    let footprint = Footprint::Keys { keys, ranges: Vec::new() };
    assert_eq!(transfer.footprint(&arguments("ada", "bob", 1)), footprint);
}

#[test]
fn a_transfer_that_is_linked() {
    judge(&transfer::Transfer);
}

#[test]
fn a_transfer_that_was_compiled() {
    judge(&Module::new(TRANSFER, Limits::default()).unwrap());
}

#[test]
fn both_do_the_same_with_whatever_bytes() {
    let module = Module::new(TRANSFER, Limits::default()).unwrap();
    let long =
        [vec![255; 1], vec![b'x'; 255], vec![3], b"bob".to_vec(), 7u64.to_le_bytes().to_vec()].concat();
    let cases =
        [vec![], vec![0], vec![0; 10], vec![255; 300], long, arguments("", "bob", 1), vec![1; 100_000]];
    for arguments in cases {
        let (mut linked, mut compiled) = (accounts(9, 9), accounts(9, 9));
        linked.memory.pairs.insert(vec![b'x'; 255], u64::MAX.to_le_bytes().to_vec());
        compiled.memory.pairs = linked.memory.pairs.clone();
        assert_eq!(
            transfer::Transfer.call(&mut linked, &arguments),
            module.call(&mut compiled, &arguments),
            "{arguments:?}"
        );
        assert_eq!(linked, compiled);
    }
}

const TARGET: &str = "wasm32-unknown-unknown";

fn is_target_installed() -> bool {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).args(["--print", "target-libdir", "--target", TARGET]).output();
    output.is_ok_and(|output| {
        output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
    })
}

/// Compiles an example anew, in a directory of its own so that no other build is waited for.
fn compile(package: &str, example: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(example);
    let status = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--release", "--quiet", "--target", TARGET])
        .args(["--package", package, "--example", example])
        .arg("--target-dir")
        .arg(&directory)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "{example} does not compile");
    directory.join(TARGET).join("release").join("examples").join(format!("{example}.wasm"))
}

/// Where the target is not installed, what was compiled once is judged above.
#[test]
fn the_example_compiles_to_a_module_that_does_the_same() {
    if !is_target_installed() {
        println!("{TARGET} is not installed: rustup target add {TARGET}");
        return;
    }
    let bytes =
        std::fs::read(compile("quorate-procedure", "transfer")).expect("the module is where cargo puts it");
    judge(&Module::new(&bytes, Limits::default()).unwrap());
}

#[test]
fn tpcc_does_the_same_compiled_as_linked() {
    if !is_target_installed() {
        println!("{TARGET} is not installed: rustup target add {TARGET}");
        return;
    }
    let bytes = std::fs::read(compile("quorate-tpcc", "tpcc")).expect("the module is where cargo puts it");
    let module = Module::new(&bytes, Limits::default()).unwrap();

    let scale = Scale { warehouses: 2, customers: 30, items: 200 };
    let mut random = Random::new(7);
    let mut random = || random.next_u64();
    let constants = Constants::of_population(&mut random);
    let items = Items::draw(&scale, &mut random);
    let mut linked = Memory::default();
    for warehouse in 1..=scale.warehouses {
        population::warehouse(&scale, warehouse, &items, &constants, 1, &mut random, &mut |(key, value)| {
            linked.pairs.insert(key, value);
        });
    }
    let mut compiled = linked.clone();
    let constants = Constants::of_run(&mut random, &constants);
    let generator = Generator::new(scale, constants, Mix::default());
    for at in 0..400 {
        let transaction = generator.next(&mut random, 1_000 + at);
        for warehouse in transaction.warehouses() {
            let arguments = transaction.arguments(&[warehouse]);
            let answer = module.call(&mut compiled, &arguments);
            assert_eq!(answer, Tpcc.call(&mut linked, &arguments), "{transaction:?}");
            assert!(answer.is_ok(), "{:?}", module.take_failure());
            assert_eq!(module.footprint(&arguments), Tpcc.footprint(&arguments));
        }
    }
    assert!(linked == compiled, "the stores differ");
    assert_eq!(violations(&scale, compiled.pairs), [""; 0]);
}
