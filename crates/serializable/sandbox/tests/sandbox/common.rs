//! A shard in memory, and modules in text.

use quorate_procedure::{Direction, Memory, Pair, Stop, Store};
use quorate_serializable_sandbox::{Invalid, Limits, Module};

/// A shard in memory, a key of which another transaction has locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) memory: Memory,
    pub(crate) locked: Option<Vec<u8>>,
    /// How often it was asked.
    pub(crate) calls: usize,
}

impl Shard {
    pub(crate) fn new(pairs: &[(&str, &[u8])]) -> Self {
        let pairs = pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.to_vec())).collect();
        Shard { memory: Memory { pairs, ..Memory::default() }, ..Shard::default() }
    }

    fn touch(&mut self, key: &[u8]) -> Result<&mut Memory, Stop> {
        self.calls += 1;
        match &self.locked {
            _ if key.is_empty() => Err(Stop::InvalidKey),
            Some(locked) if locked == key => Err(Stop::Locked),
            _ => Ok(&mut self.memory),
        }
    }
}

impl Store for Shard {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.touch(key)?.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.touch(key)?.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        self.touch(key)?.delete(key)
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>, Stop> {
        self.calls += 1;
        self.memory.scan(from, to, limit, direction)
    }
}

/// All imported functions, for the text of a module.
pub(crate) const IMPORTS: &str = r#"
  (import "quorate_1" "arguments" (func $arguments (param i32)))
  (import "quorate_1" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "quorate_1" "put" (func $put (param i32 i32 i32 i32)))
  (import "quorate_1" "delete" (func $delete (param i32 i32)))
  (import "quorate_1" "scan" (func $scan (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "quorate_1" "fetch" (func $fetch (param i32)))
  (import "quorate_1" "answer" (func $answer (param i32 i32)))
  (import "quorate_1" "fail" (func $fail (param i32 i32)))
  (import "quorate_1" "footprint_key" (func $footprint_key (param i32 i32)))
  (import "quorate_1" "footprint_range" (func $footprint_range (param i32 i32 i32 i32)))
"#;

/// The bytes of a module that has all imports, a page of memory, and this.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {IMPORTS} (memory (export \"memory\") 1) {text})"))
        .expect("the text is well formed")
}

/// A module that has all imports, a page of memory, and a function `call` that does this.
pub(crate) fn calling(body: &str) -> Module {
    module(&format!("(func (export \"call\") (param $length i32) (result i32) {body})"))
}

pub(crate) fn module(text: &str) -> Module {
    Module::new(&bytes(text), Limits::default()).expect("the module is accepted")
}

pub(crate) fn refused(text: &str) -> Invalid {
    Module::new(&bytes(text), Limits::default()).expect_err("the module is not accepted")
}
