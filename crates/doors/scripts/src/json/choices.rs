//! The choices of a script: how JSON is read and written.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use super::DEPTH_MAX;
use crate::interpreter::Raised;
use crate::strings::{number, string};

/// The choices of a script.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    /// A mostly empty array becomes an object.
    pub(super) converts_sparse: bool,
    /// So many times its elements is as long as an array may be; zero for any length,
    pub(super) sparse_ratio: usize,
    /// if it names a number above this.
    pub(super) sparse_safe: usize,
    pub(super) encode_depth_max: usize,
    pub(super) decode_depth_max: usize,
    /// How many digits of a number are written.
    pub(super) precision: usize,
    pub(super) keeps_buffer: bool,
    pub(super) encodes_invalid: Invalid,
    pub(super) decodes_invalid: bool,
    /// A table that is read from an array is known to be one, so that an empty one is written as one.
    pub(super) marks_arrays: bool,
}

/// How numbers are written that JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    Refused,
    AsTheyAre,
    Null,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: DEPTH_MAX,
            decode_depth_max: DEPTH_MAX,
            precision: 14,
            keeps_buffer: true,
            encodes_invalid: Invalid::Refused,
            decodes_invalid: true,
            marks_arrays: false,
        }
    }
}

/// Choices that the functions of one table share.
pub(super) type Shared = Rc<RefCell<Choices>>;

/// An option: reads what it is given, if anything, and tells what holds then.
type Choose = fn(&mut Choices, &Chooser<'_>) -> mlua::Result<Vec<Value>>;

/// The functions that choose, with the most arguments that each takes.
const OPTIONS: &[(&str, usize, Choose)] = &[
    ("encode_sparse_array", 3, |choices, chooser| {
        chooser.flag(0, &mut choices.converts_sparse)?;
        chooser.integer(1, &mut choices.sparse_ratio, 0, i32::MAX as usize)?;
        chooser.integer(2, &mut choices.sparse_safe, 0, i32::MAX as usize)?;
        let numbers = [choices.sparse_ratio, choices.sparse_safe].map(|number| Value::Number(number as f64));
        Ok(std::iter::once(Value::Boolean(choices.converts_sparse)).chain(numbers).collect())
    }),
    ("encode_max_depth", 1, |choices, chooser| {
        chooser.depth(&mut choices.encode_depth_max)?;
        Ok(vec![Value::Number(choices.encode_depth_max as f64)])
    }),
    ("decode_max_depth", 1, |choices, chooser| {
        chooser.depth(&mut choices.decode_depth_max)?;
        Ok(vec![Value::Number(choices.decode_depth_max as f64)])
    }),
    ("encode_number_precision", 1, |choices, chooser| {
        chooser.integer(0, &mut choices.precision, 1, 14)?;
        Ok(vec![Value::Number(choices.precision as f64)])
    }),
    ("encode_keep_buffer", 1, |choices, chooser| {
        // Nobody can tell: the buffer belongs to one call.
        chooser.flag(0, &mut choices.keeps_buffer)?;
        Ok(vec![Value::Boolean(choices.keeps_buffer)])
    }),
    ("encode_invalid_numbers", 1, |choices, chooser| {
        const NAMES: &[&str] = &["off", "on", "null"];
        const MEANINGS: [Invalid; 3] = [Invalid::Refused, Invalid::AsTheyAre, Invalid::Null];
        if let Some(chosen) = chooser.one_of(0, NAMES)? {
            choices.encodes_invalid = MEANINGS[chosen];
        }
        Ok(vec![match choices.encodes_invalid {
            Invalid::Refused => Value::Boolean(false),
            Invalid::AsTheyAre => Value::Boolean(true),
            Invalid::Null => Value::String(chooser.lua.create_string("null")?),
        }])
    }),
    ("decode_invalid_numbers", 1, |choices, chooser| {
        chooser.flag(0, &mut choices.decodes_invalid)?;
        Ok(vec![Value::Boolean(choices.decodes_invalid)])
    }),
    ("decode_array_with_array_mt", 1, |choices, chooser| {
        chooser.flag(0, &mut choices.marks_arrays)?;
        Ok(vec![Value::Boolean(choices.marks_arrays)])
    }),
];

/// Adds the functions that choose.
pub(super) fn add(lua: &Lua, table: &Table, choices: &Shared) -> mlua::Result<()> {
    for (name, arguments_max, choose) in OPTIONS {
        let choices = Rc::clone(choices);
        let function = lua.create_function(move |lua, arguments: MultiValue| {
            let arguments: Vec<Value> = arguments.into_iter().collect();
            let chooser = Chooser { lua, name, arguments };
            if chooser.arguments.len() > *arguments_max {
                return Err(chooser.fault(*arguments_max, "found too many arguments"));
            }
            let told = choose(&mut choices.borrow_mut(), &chooser)?;
            Ok(told.into_iter().collect::<MultiValue>())
        })?;
        table.raw_set(*name, function)?;
    }
    Ok(())
}

/// The arguments of a function that chooses.
struct Chooser<'a> {
    lua: &'a Lua,
    name: &'static str,
    arguments: Vec<Value>,
}

impl Chooser<'_> {
    fn fault(&self, at: usize, text: &str) -> mlua::Error {
        Raised::here(self.lua, format!("bad argument #{} to '{}' ({text})", at + 1, self.name))
    }

    fn given(&self, at: usize) -> Option<&Value> {
        self.arguments.get(at).filter(|value| !value.is_nil())
    }

    fn integer(&self, at: usize, choice: &mut usize, least: usize, most: usize) -> mlua::Result<()> {
        if self.given(at).is_none() {
            return Ok(());
        }
        let number = number(self.lua, &self.arguments, at, self.name, None)?.trunc();
        if !(least as f64..=most as f64).contains(&number) {
            return Err(self.fault(0, &format!("expected integer between {least} and {most}")));
        }
        *choice = number as usize;
        Ok(())
    }

    /// A depth, of which there is no more than the stack has room for.
    fn depth(&self, choice: &mut usize) -> mlua::Result<()> {
        let mut chosen = *choice;
        self.integer(0, &mut chosen, 1, i32::MAX as usize)?;
        if chosen > DEPTH_MAX {
            return Err(self.fault(0, &format!("unsupported: a depth of more than {DEPTH_MAX}")));
        }
        *choice = chosen;
        Ok(())
    }

    /// Which of some names is given; true and false stand for the first two.
    fn one_of(&self, at: usize, names: &[&str]) -> mlua::Result<Option<usize>> {
        let text = match self.given(at) {
            None => return Ok(None),
            Some(Value::Boolean(flag)) => return Ok(Some(usize::from(*flag))),
            Some(_) => string(self.lua, &self.arguments, at, self.name)?,
        };
        match names.iter().position(|name| text.as_bytes() == name.as_bytes()) {
            Some(chosen) => Ok(Some(chosen)),
            None => Err(self.fault(at, &format!("invalid option '{}'", text.to_string_lossy()))),
        }
    }

    fn flag(&self, at: usize, choice: &mut bool) -> mlua::Result<()> {
        if let Some(chosen) = self.one_of(at, &["off", "on"])? {
            *choice = chosen == 1;
        }
        Ok(())
    }
}
