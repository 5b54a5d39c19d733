//! The check of a module, before anything is compiled.
//!
//! One pass over the bytes, whose cost is proportional to their number, finds everything that is not accepted and
//! says so in words. The interpreter validates again what it compiles.

use wasmparser::{
    BinaryReaderError, DataKind, ElementKind, ExternalKind, FuncType, FunctionBody, Import, MemoryType,
    Operator, Parser, Payload, RecGroup, TableType, TypeRef, ValType, ValidPayload, Validator, WasmFeatures,
};

use crate::error::Invalid;
use crate::host::{IMPORTS, INTERFACE};
use crate::limits::Limits;
use crate::rewrite::MEMORY_BYTES_MAX;

/// Globals that a module may have.
const GLOBALS_MAX: u32 = 1_000;

/// Types, exports, and segments that a module may have.
const ITEMS_MAX: u32 = 5_000;

/// Elements that the table of a module may have.
const TABLE_MAX: u64 = 10_000;

/// The longest name of an import or export that is spelled out.
const NAME_SHOWN: usize = 64;

/// The type that an exported function must have.
const CALL: &str = "a function `call` that takes an i32 and returns one";

/// The extensions of WebAssembly that compilers use today, and that are the same everywhere.
pub(crate) fn features() -> WasmFeatures {
    WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::REFERENCE_TYPES
        | WasmFeatures::GC_TYPES
}

fn malformed(error: BinaryReaderError) -> Invalid {
    Invalid::Malformed(error.to_string())
}

/// The properties of a module that its user has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// It says what its calls may touch.
    pub(crate) has_footprint: bool,
    /// How many parameters each of its own functions has.
    pub(crate) parameters: Vec<u32>,
}

/// Finds what is wrong with a module.
pub(crate) fn check(bytes: &[u8], limits: &Limits) -> Result<Shape, Invalid> {
    if bytes.len() > limits.module_bytes_max {
        return Err(Invalid::TooLong { bytes: bytes.len(), max: limits.module_bytes_max });
    }
    let mut check = Check::new(limits);
    for payload in Parser::new(0).parse_all(bytes) {
        check.payload(&payload.map_err(malformed)?)?;
    }
    validate(bytes)?;
    check.finish()
}

/// Checks types and structure. A module that is valid but for its floating-point instructions is told apart.
fn validate(bytes: &[u8]) -> Result<(), Invalid> {
    let validated = |features| {
        let mut validator = Validator::new_with_features(features);
        let mut allocations = Default::default();
        for payload in Parser::new(0).parse_all(bytes) {
            if let ValidPayload::Func(function, body) = validator.payload(&payload?)? {
                let mut function = function.into_validator(allocations);
                function.validate(&body)?;
                allocations = function.into_allocations();
            }
        }
        Ok(())
    };
    let result: Result<(), BinaryReaderError> = validated(features());
    result.map_err(|error| match validated(features() | WasmFeatures::FLOATS) {
        Ok(()) => Invalid::Floats { at: error.offset() },
        Err(_) => malformed(error),
    })
}

/// The parts of a module that were seen so far.
struct Check<'a> {
    limits: &'a Limits,
    types: Vec<FuncType>,
    functions: Vec<u32>,
    /// How many of the functions are imported: the first ones.
    imported: usize,
    exported: Vec<(String, u32)>,
    exports_memory: bool,
    tables: u64,
}

fn at_most(what: &'static str, count: impl Into<u64>, max: impl Into<u64>) -> Result<(), Invalid> {
    let (count, max) = (count.into(), max.into());
    if count <= max { Ok(()) } else { Err(Invalid::TooMany { what, count, max }) }
}

impl<'a> Check<'a> {
    fn new(limits: &'a Limits) -> Self {
        let (types, functions, exported) = (Vec::new(), Vec::new(), Vec::new());
        Check { limits, types, functions, imported: 0, exported, exports_memory: false, tables: 0 }
    }

    fn payload(&mut self, payload: &Payload<'_>) -> Result<(), Invalid> {
        match payload {
            Payload::TypeSection(section) => {
                at_most("types", section.count(), ITEMS_MAX)?;
                section.clone().into_iter().try_for_each(|group| self.types_of(&group.map_err(malformed)?))
            }
            Payload::ImportSection(section) => {
                at_most("imports", section.count(), IMPORTS.len() as u64)?;
                section.clone().into_iter().try_for_each(|import| self.import(&import.map_err(malformed)?))
            }
            Payload::FunctionSection(section) => {
                at_most("functions", section.count(), self.limits.functions_max)?;
                for function in section.clone() {
                    self.functions.push(function.map_err(malformed)?);
                }
                Ok(())
            }
            Payload::TableSection(section) => {
                section.clone().into_iter().try_for_each(|table| self.table(&table.map_err(malformed)?.ty))
            }
            Payload::MemorySection(section) => {
                at_most("memories", section.count(), 1u64)?;
                section.clone().into_iter().try_for_each(|memory| self.memory(&memory.map_err(malformed)?))
            }
            Payload::GlobalSection(section) => at_most("globals", section.count(), GLOBALS_MAX),
            Payload::ExportSection(section) => {
                at_most("exports", section.count(), ITEMS_MAX)?;
                for export in section.clone() {
                    let export = export.map_err(malformed)?;
                    match export.kind {
                        ExternalKind::Memory if export.name == "memory" => self.exports_memory = true,
                        ExternalKind::Func => self.exported.push((export.name.to_owned(), export.index)),
                        _ => {}
                    }
                }
                Ok(())
            }
            Payload::StartSection { .. } => Err(Invalid::StartFunction),
            Payload::ElementSection(section) => {
                at_most("element segments", section.count(), ITEMS_MAX)?;
                for element in section.clone() {
                    let element = element.map_err(malformed)?;
                    if matches!(element.kind, ElementKind::Passive) {
                        let what = "a passive element segment";
                        return Err(Invalid::Unsupported { what, at: element.range.start });
                    }
                }
                Ok(())
            }
            Payload::DataSection(section) => {
                at_most("data segments", section.count(), ITEMS_MAX)?;
                for data in section.clone() {
                    let data = data.map_err(malformed)?;
                    if matches!(data.kind, DataKind::Passive) {
                        let what = "a passive data segment";
                        return Err(Invalid::Unsupported { what, at: data.range.start });
                    }
                }
                Ok(())
            }
            Payload::CodeSectionEntry(body) => self.body(body),
            _ => Ok(()),
        }
    }

    fn types_of(&mut self, group: &RecGroup) -> Result<(), Invalid> {
        for of in group.types() {
            let wasmparser::CompositeInnerType::Func(function) = &of.composite_type.inner else {
                return Err(Invalid::Malformed("a type that is no function's".to_owned()));
            };
            at_most("parameters of a function", function.params().len() as u64, 32u64)?;
            at_most("results of a function", function.results().len() as u64, 32u64)?;
            self.types.push(function.clone());
        }
        Ok(())
    }

    fn import(&mut self, import: &Import<'_>) -> Result<(), Invalid> {
        let known = IMPORTS.iter().find(|known| import.module == INTERFACE && known.name == import.name);
        let (Some(known), TypeRef::Func(of)) = (known, import.ty) else {
            let names: Vec<&str> = IMPORTS.iter().map(|known| known.name).collect();
            return Err(Invalid::UnknownImport {
                module: shown(import.module),
                name: shown(import.name),
                known: format!("in `{INTERFACE}`, as functions: {}", names.join(", ")),
            });
        };
        let function = self.types.get(of as usize);
        let is_as_expected = function.is_some_and(|function| {
            let are_integers =
                function.params().iter().chain(function.results()).all(|of| *of == ValType::I32);
            are_integers
                && function.params().len() == known.parameters
                && function.results().len() == known.results
        });
        if !is_as_expected {
            return Err(Invalid::ImportType { name: known.name.to_owned(), expected: known.signature });
        }
        self.functions.push(of);
        self.imported += 1;
        Ok(())
    }

    fn table(&mut self, table: &TableType) -> Result<(), Invalid> {
        self.tables += 1;
        at_most("tables", self.tables, 1u64)?;
        at_most("elements in its table", table.initial, TABLE_MAX)
    }

    fn memory(&self, memory: &MemoryType) -> Result<(), Invalid> {
        let max = self.limits.memory_bytes_max.min(MEMORY_BYTES_MAX) as u64;
        at_most("bytes of memory", memory.initial.saturating_mul(1 << 16), max)
    }

    fn body(&self, body: &FunctionBody<'_>) -> Result<(), Invalid> {
        let mut locals = 0u64;
        for group in body.get_locals_reader().map_err(malformed)? {
            locals += u64::from(group.map_err(malformed)?.0);
            at_most("local variables in a function", locals, self.limits.locals_max)?;
        }
        let mut operators = body.get_operators_reader().map_err(malformed)?;
        while !operators.eof() {
            let (operator, at) = operators.read_with_offset().map_err(malformed)?;
            if let Some(what) = lasting(&operator) {
                return Err(Invalid::Unsupported { what, at });
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Shape, Invalid> {
        if !self.exports_memory {
            let why = "through it, keys and values are passed";
            return Err(Invalid::MissingExport { what: "its memory as `memory`", why });
        }
        if !self.exports_step("call") {
            return Err(Invalid::MissingExport { what: CALL, why: "that is what runs" });
        }
        let names_footprint = self.exported.iter().any(|(name, _)| name == "footprint");
        if names_footprint && !self.exports_step("footprint") {
            let what = "`footprint` as a function that takes an i32 and returns one";
            return Err(Invalid::MissingExport {
                what,
                why: "what has this name says what a call may touch",
            });
        }
        let own = self.functions.iter().skip(self.imported);
        let parameters =
            own.map(|of| self.types.get(*of as usize).map_or(0, |function| function.params().len() as u32));
        Ok(Shape { has_footprint: names_footprint, parameters: parameters.collect() })
    }

    /// True if there is a function of this name that takes an i32 and returns one.
    fn exports_step(&self, name: &str) -> bool {
        let exported = self.exported.iter().find(|(exported, _)| exported == name);
        let of = exported.and_then(|(_, function)| self.functions.get(*function as usize));
        let function = of.and_then(|of| self.types.get(*of as usize));
        function.is_some_and(|function| {
            function.params() == [ValType::I32] && function.results() == [ValType::I32]
        })
    }
}

/// A name as an error shows it.
fn shown(name: &str) -> String {
    name.chars().take(NAME_SHOWN).collect()
}

/// The name of an instruction, if it could leave something behind that is not undone after a call.
fn lasting(operator: &Operator<'_>) -> Option<&'static str> {
    match operator {
        Operator::TableSet { .. } | Operator::TableGrow { .. } | Operator::TableFill { .. } => {
            Some("an instruction that changes a table")
        }
        Operator::TableCopy { .. } | Operator::TableInit { .. } | Operator::ElemDrop { .. } => {
            Some("an instruction that fills a table")
        }
        Operator::MemoryInit { .. } | Operator::DataDrop { .. } => Some("an instruction on data segments"),
        _ => None,
    }
}
