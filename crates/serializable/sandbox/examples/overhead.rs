//! The cost of a procedure in WebAssembly beyond its cost when it is linked: the transfer of the worked example,
//! with four calls of the store.
//!
//! `cargo run --release -p quorate-serializable-sandbox --example overhead`

use std::hint::black_box;
use std::time::{Duration, Instant};

use quorate_procedure::{Answer, Memory, Procedure};
use quorate_serializable_sandbox::{Limits, Module};

#[path = "../../procedure/examples/transfer.rs"]
#[expect(unreachable_pub, reason = "the example stands on its own")]
mod transfer;

const TRANSFER: &[u8] = include_bytes!("../tests/sandbox/transfer.wasm");

/// Calls in a round.
const CALLS: u32 = 20_000;

/// Rounds, of which the middle one counts.
const ROUNDS: usize = 31;

/// The time of a call: of all rounds, the middle one.
fn measure(mut call: impl FnMut(u32)) -> Duration {
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            (0..CALLS).for_each(&mut call);
            begin.elapsed() / CALLS
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

fn measure_procedure(procedure: &dyn Procedure) -> Duration {
    let account = |at: u64| (at.to_le_bytes().to_vec(), (1u64 << 40).to_le_bytes().to_vec());
    let mut store = Memory { pairs: (0..1_000).map(account).collect(), ..Memory::default() };
    let mut arguments = [&[8u8][..], &[0; 8], &[8], &[0; 8], &1u64.to_le_bytes()].concat();
    measure(|call| {
        let (from, to) = (u64::from(call * 7 % 1_000), u64::from(call * 13 % 999 + 1));
        arguments[1..9].copy_from_slice(&from.to_le_bytes());
        arguments[10..18].copy_from_slice(&to.to_le_bytes());
        let answer = procedure.call(&mut store, black_box(&arguments)).expect("accounts hold enough");
        assert!(matches!(black_box(answer), Answer::Done(_)), "accounts hold enough");
    })
}

fn main() {
    let begin = Instant::now();
    let module = Module::new(TRANSFER, Limits::default()).expect("the worked example is accepted");
    println!("loaded in {:?}", begin.elapsed());
    let linked = measure_procedure(&transfer::Transfer);
    let compiled = measure_procedure(&module);
    println!("linked   {linked:?} a call");
    println!("compiled {compiled:?} a call, {:?} more", compiled.saturating_sub(linked));
}
