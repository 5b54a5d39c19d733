//! The five procedures of TPC-C as one module.
//!
//! `cargo build --release --target wasm32-unknown-unknown -p quorate-tpcc --example tpcc` makes it.

#![cfg_attr(target_arch = "wasm32", no_std)]

quorate_procedure::export!(quorate_tpcc::Tpcc);
