//! A script: its text, its name, and what its first line says.

use quorate_redis_commands::Reply;

use quorate_redis_evaluator::sha1;

use crate::at_shards::AtShards;

/// A script.
#[derive(Debug)]
pub struct Script {
    body: Vec<u8>,
    sha: String,
    /// The knowledge of it at shards.
    at_shards: AtShards,
}

/// The flags in the first line of a script, and the rest of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'a> {
    pub(crate) code: &'a [u8],
    pub(crate) may_write: bool,
}

/// The name of a script with this text.
pub fn digest(body: &[u8]) -> String {
    sha1::hex(body)
}

impl Script {
    /// A script of this text.
    pub fn new(body: Vec<u8>) -> Self {
        Script { sha: sha1::hex(&body), body, at_shards: AtShards::default() }
    }

    /// The SHA-1 of the text, in small letters.
    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// How long the text is, in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Its text.
    pub fn text(&self) -> &[u8] {
        &self.body
    }

    /// The knowledge of the door of it at shards.
    pub fn at_shards(&self) -> &AtShards {
        &self.at_shards
    }

    /// Looks at a first line that begins with `#!`.
    pub(crate) fn parse(&self) -> Result<Parsed<'_>, Reply> {
        if !self.body.starts_with(b"#!") {
            return Ok(Parsed { code: &self.body, may_write: true });
        }
        let Some(end) = self.body.iter().position(|byte| *byte == b'\n') else {
            return Err(Reply::error("ERR Invalid script shebang"));
        };
        let line = String::from_utf8_lossy(&self.body[..end]).into_owned();
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(Reply::error(format!("ERR Unexpected engine in script shebang: {engine}")));
        }
        let mut may_write = true;
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(Reply::error(format!("ERR Unknown lua shebang option: {word}")));
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => may_write = false,
                    "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    _ => return Err(Reply::error(format!("ERR Unexpected flag in script shebang: {flag}"))),
                }
            }
        }
        // The end of the line stays, so that lines are counted as they are.
        Ok(Parsed { code: &self.body[end..], may_write })
    }

    /// The fault of the script before it runs.
    ///
    /// # Errors
    /// The reply of Redis to `SCRIPT LOAD`.
    pub fn check(&self) -> Result<(), Reply> {
        crate::interpreter::check(self)
    }
}
