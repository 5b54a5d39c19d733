//! How long it takes to check, rewrite and compile a module when it is deployed: the worked example, and one as large as is allowed that
//! consists of the instructions that take most.
//!
//! `cargo run --release -p quorate-serializable-sandbox --example loading`

use std::time::{Duration, Instant};

use quorate_serializable_sandbox::{Limits, Module};
use wasm_encoder::{
    CodeSection, ExportKind, ExportSection, Function, FunctionSection, Instruction, MemArg, MemorySection,
    MemoryType, TypeSection, ValType,
};

const TRANSFER: &[u8] = include_bytes!("../tests/sandbox/transfer.wasm");

/// Of so many loads, the middle one counts.
const LOADS: usize = 9;

/// So many functions, each of so many writes to memory: those are what a module is rewritten for.
fn writing(functions: u32, writes: usize) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], [ValType::I32]);
    let (mut declared, mut code) = (FunctionSection::new(), CodeSection::new());
    for _ in 0..functions {
        declared.function(0);
        let mut function = Function::new([]);
        for _ in 0..writes {
            function.instruction(&Instruction::LocalGet(0));
            function.instruction(&Instruction::LocalGet(0));
            function.instruction(&Instruction::I32Store(MemArg { offset: 0, align: 2, memory_index: 0 }));
        }
        function.instruction(&Instruction::I32Const(0));
        function.instruction(&Instruction::End);
        code.function(&function);
    }
    let mut memory = MemorySection::new();
    memory.memory(MemoryType {
        minimum: 1,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0).export("call", ExportKind::Func, 0);
    let mut module = wasm_encoder::Module::new();
    module.section(&types).section(&declared).section(&memory).section(&exports).section(&code);
    module.finish()
}

fn measure(what: &str, bytes: &[u8]) {
    let mut loads: Vec<Duration> = (0..LOADS)
        .map(|_| {
            let begin = Instant::now();
            Module::new(bytes, Limits::default()).expect("the module is accepted");
            begin.elapsed()
        })
        .collect();
    loads.sort_unstable();
    println!("{what}: {} bytes, loaded in {:?}", bytes.len(), loads[LOADS / 2]);
}

fn main() {
    measure("the worked example", TRANSFER);
    for kibibytes in [64, 256, 1000] {
        // A write takes seven bytes.
        let functions = 1_000;
        let writes = kibibytes * 1024 / functions / 7;
        measure(&format!("{functions} functions, about {kibibytes} KiB"), &writing(functions as u32, writes));
    }
}
