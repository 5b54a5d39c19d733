//! Makes a module note which of its memory it has written, so that only that has to be undone after a call.
//!
//! To make an instance anew costs more than most calls, above all the clearing of its memory, of which a call
//! writes next to nothing. The interpreter does not say what was written. So a second memory is added, out of
//! reach of the module's own code, with one byte for each [`BLOCK_BYTES`] of the first; and in front of each
//! instruction that writes, instructions that set the byte of its address:
//!
//! ```text
//!   i32.store offset=8   ⇒   touched[(address + 8) >> 10] = 1; i32.store offset=8
//!   memory.copy          ⇒   fill touched from (address >> 10) up to ((address + length) >> 10) with 1; memory.copy
//! ```
//!
//! An address for which there is no byte lies outside the memory, so what traps is as in the module itself. A
//! store over the boundary of two blocks sets the byte of the first alone: the undoing goes
//! [`STORE_BYTES_MAX`] beyond each block.
//!
//! Mutable globals are exported, so that they can be set back. Nothing else of an instance changes: see what
//! [`crate::check`] refuses.

use std::convert::Infallible;

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    CodeSection, ExportKind, ExportSection, Function, GlobalSection, Instruction, MemArg, MemorySection,
    MemoryType, Module, ValType,
};
use wasmparser::{
    CustomSectionReader, ExportSectionReader, FunctionBody, Global, MemorySectionReader, Operator,
    OperatorsReader, Parser,
};

/// The logarithm of [`BLOCK_BYTES`].
const BLOCK_BITS: i32 = 10;

/// Memory is noted and undone in blocks of this many bytes.
pub(crate) const BLOCK_BYTES: usize = 1 << BLOCK_BITS;

/// One instruction stores at most this many bytes.
pub(crate) const STORE_BYTES_MAX: usize = 8;

/// The memory of a module lies within so many bytes: as many blocks as the added memory has bytes.
pub(crate) const MEMORY_BYTES_MAX: usize = BLOCK_BYTES << 16;

/// The name under which the added memory is exported.
pub(crate) const TOUCHED: &str = "quorate touched";

/// The name under which a mutable global is exported, by its position among them.
pub(crate) fn global_name(position: u32) -> String {
    format!("quorate global {position}")
}

/// A module that notes what it writes.
pub(crate) struct Rewritten {
    pub(crate) bytes: Vec<u8>,
    /// How many of its globals are mutable.
    pub(crate) globals: u32,
}

/// Rewrites a module that has passed the check.
///
/// `parameters` has the number of parameters of each function that is not imported.
pub(crate) fn rewrite(bytes: &[u8], parameters: &[u32]) -> Result<Rewritten, String> {
    let mut rewriter = Rewriter { parameters: parameters.iter(), globals_seen: 0, mutable: Vec::new() };
    let mut module = Module::new();
    let result = rewriter.parse_core_module(&mut module, Parser::new(0), bytes);
    result.map_err(|error| format!("it cannot be rewritten: {error}"))?;
    Ok(Rewritten { bytes: module.finish(), globals: rewriter.mutable.len() as u32 })
}

struct Rewriter<'a> {
    /// Of the functions whose bodies are still to come.
    parameters: std::slice::Iter<'a, u32>,
    globals_seen: u32,
    /// The indices of the mutable globals.
    mutable: Vec<u32>,
}

impl Reencode for Rewriter<'_> {
    type Error = Infallible;

    fn parse_memory_section(
        &mut self,
        memories: &mut MemorySection,
        section: MemorySectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_memory_section(self, memories, section)?;
        memories.memory(MemoryType {
            minimum: 1,
            maximum: Some(1),
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        Ok(())
    }

    fn parse_global(&mut self, globals: &mut GlobalSection, global: Global<'_>) -> Result<(), Error> {
        if global.ty.mutable {
            self.mutable.push(self.globals_seen);
        }
        self.globals_seen += 1;
        utils::parse_global(self, globals, global)
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_export_section(self, exports, section)?;
        exports.export(TOUCHED, ExportKind::Memory, 1);
        for (position, global) in self.mutable.iter().enumerate() {
            exports.export(&global_name(position as u32), ExportKind::Global, *global);
        }
        Ok(())
    }

    fn parse_custom_section(&mut self, _: &mut Module, _: CustomSectionReader<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn parse_function_body(&mut self, code: &mut CodeSection, body: FunctionBody<'_>) -> Result<(), Error> {
        let mut groups = Vec::new();
        let mut first_free = self.parameters.next().copied().unwrap_or(0);
        for group in body.get_locals_reader()? {
            let (count, of) = group?;
            groups.push((count, self.val_type(of)?));
            first_free += count;
        }
        // Local variables are cleared whenever a function is entered.
        if writes(body.get_operators_reader()?)? {
            groups.extend([(3, ValType::I32), (1, ValType::I64)]);
        }
        let mut function = Function::new(groups);
        let spare = Spare { first: first_free };
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            self.operator(&mut function, spare, &mut operators)?;
        }
        code.function(&function);
        Ok(())
    }
}

/// True if one of the instructions writes memory.
fn writes(operators: OperatorsReader<'_>) -> Result<bool, Error> {
    for operator in operators {
        if matches!(
            operator?,
            Operator::I32Store { .. }
                | Operator::I32Store8 { .. }
                | Operator::I32Store16 { .. }
                | Operator::I64Store { .. }
                | Operator::I64Store8 { .. }
                | Operator::I64Store16 { .. }
                | Operator::I64Store32 { .. }
                | Operator::MemoryCopy { .. }
                | Operator::MemoryFill { .. }
        ) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The local variables that are added to a function that writes.
#[derive(Clone, Copy)]
struct Spare {
    first: u32,
}

impl Spare {
    fn address(self) -> u32 {
        self.first
    }

    /// A value to store, or where to copy from.
    fn value(self) -> u32 {
        self.first + 1
    }

    fn length(self) -> u32 {
        self.first + 2
    }

    /// A value of 64 bits to store.
    fn long(self) -> u32 {
        self.first + 3
    }
}

impl Rewriter<'_> {
    fn operator(
        &mut self,
        function: &mut Function,
        spare: Spare,
        operators: &mut OperatorsReader<'_>,
    ) -> Result<(), Error> {
        let operator = operators.read()?;
        match &operator {
            Operator::I32Store { memarg }
            | Operator::I32Store8 { memarg }
            | Operator::I32Store16 { memarg } => {
                note_store(function, spare.address(), spare.value(), memarg.offset);
            }
            Operator::I64Store { memarg }
            | Operator::I64Store8 { memarg }
            | Operator::I64Store16 { memarg }
            | Operator::I64Store32 { memarg } => {
                note_store(function, spare.address(), spare.long(), memarg.offset);
            }
            Operator::MemoryCopy { .. } | Operator::MemoryFill { .. } => note_range(function, spare),
            _ => {}
        }
        function.instruction(&self.instruction(operator)?);
        Ok(())
    }
}

/// Notes the address on the stack, under the value; both are on the stack again afterwards.
fn note_store(function: &mut Function, address: u32, value: u32, offset: u64) {
    function.instruction(&Instruction::LocalSet(value));
    function.instruction(&Instruction::LocalTee(address));
    if offset != 0 {
        // The offsets of a memory with 32-bit addresses have 32 bits.
        function.instruction(&Instruction::I32Const(offset as u32 as i32));
        function.instruction(&Instruction::I32Add);
    }
    block(function);
    function.instruction(&Instruction::I32Const(1));
    function.instruction(&Instruction::I32Store8(MemArg { offset: 0, align: 0, memory_index: 1 }));
    function.instruction(&Instruction::LocalGet(address));
    function.instruction(&Instruction::LocalGet(value));
}

/// Notes the range whose first address lies on the stack, under another operand and its length; all are on
/// the stack again afterwards.
fn note_range(function: &mut Function, spare: Spare) {
    function.instruction(&Instruction::LocalSet(spare.length()));
    function.instruction(&Instruction::LocalSet(spare.value()));
    function.instruction(&Instruction::LocalTee(spare.address()));
    block(function);
    function.instruction(&Instruction::I32Const(1));
    function.instruction(&Instruction::LocalGet(spare.address()));
    function.instruction(&Instruction::LocalGet(spare.length()));
    function.instruction(&Instruction::I32Add);
    block(function);
    function.instruction(&Instruction::LocalGet(spare.address()));
    block(function);
    function.instruction(&Instruction::I32Sub);
    function.instruction(&Instruction::I32Const(1));
    function.instruction(&Instruction::I32Add);
    function.instruction(&Instruction::MemoryFill(1));
    function.instruction(&Instruction::LocalGet(spare.address()));
    function.instruction(&Instruction::LocalGet(spare.value()));
    function.instruction(&Instruction::LocalGet(spare.length()));
}

/// Makes the block of the address on the stack.
fn block(function: &mut Function) {
    function.instruction(&Instruction::I32Const(BLOCK_BITS));
    function.instruction(&Instruction::I32ShrU);
}
