//! A library: a text that registers functions, which clients call by name.

use quorate_redis_commands::Reply;

/// The flags of functions, in the words of scripts.
pub const FLAGS: &[&str] = &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// The flag of a function that only reads.
const NO_WRITES: &str = "no-writes";

/// The fault of a name of a library, and of a function.
pub(crate) const INVALID_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// A library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    name: String,
    code: Vec<u8>,
    /// How long its first line is, in bytes.
    head: usize,
}

/// A function as its library has registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// A text for people, if there is one.
    pub description: Option<Vec<u8>>,
    /// Its flags, each of [`FLAGS`].
    pub flags: Vec<&'static str>,
}

impl Function {
    /// True if it only reads.
    pub fn only_reads(&self) -> bool {
        self.flags.contains(&NO_WRITES)
    }
}

/// True if a library or a function may have this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

impl Library {
    /// A library of this text, whose first line names it.
    ///
    /// # Errors
    /// The reply of Redis to `FUNCTION LOAD` where the first line is wrong.
    pub fn new(code: Vec<u8>) -> Result<Self, Reply> {
        if !code.starts_with(b"#!") {
            return Err(Reply::error("ERR Missing library metadata"));
        }
        let Some(head) = code.iter().position(|byte| *byte == b'\n') else {
            return Err(Reply::error("ERR Invalid library metadata"));
        };
        let line = String::from_utf8_lossy(&code[2..head]).into_owned();
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default().to_owned();
        let mut name = None;
        for word in words {
            match word.strip_prefix("name=") {
                Some(_) if name.is_some() => {
                    return Err(Reply::error(
                        "ERR Invalid metadata value, name argument was given multiple times",
                    ));
                }
                Some(given) => name = Some(given.to_owned()),
                None => return Err(Reply::error(format!("ERR Invalid metadata value given: {word}"))),
            }
        }
        let Some(name) = name else { return Err(Reply::error("ERR Library name was not given")) };
        if !is_name(name.as_bytes()) {
            return Err(Reply::error(format!("ERR {INVALID_NAME}")));
        }
        if !engine.eq_ignore_ascii_case("lua") {
            return Err(Reply::error(format!("ERR Engine '{engine}' not found")));
        }
        Ok(Library { name, code, head })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its text.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// The text behind the first line, with the end of that, so that lines are counted as they are.
    pub(crate) fn body(&self) -> &[u8] {
        &self.code[self.head..]
    }
}
