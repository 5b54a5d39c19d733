//! `redis`: commands, and their replies as values.

use quorate_redis_commands::{Reply, find, print_decimal, print_double, timeout_position};

use super::{Values, WRONG};
use crate::Halt;
use crate::machine::{Machine, VALUE_BYTES};
use crate::natives::Native;
use crate::numbers::{self, truncate};
use crate::sha1;
use crate::table::{Table, name};
use crate::values::Value;

/// Replies nest so deep at most: what travels to the door may not nest much deeper.
const DEPTH_MAX: usize = 6;

/// A reply has at most so many bytes, with [`ELEMENT_BYTES`] for each element.
const REPLY_BYTES_MAX: usize = 1024 * 1024;

const ELEMENT_BYTES: usize = 16;

/// The work of a command beside what the store counts, in steps.
const COMMAND_STEPS: u64 = 50;

/// A script logs so many lines at most,
const LOGGED_MAX: usize = 100;

/// of so many bytes each: what is longer is cut.
const LOGGED_BYTES_MAX: usize = 1024;

impl Machine<'_, '_> {
    pub(super) fn redis(&mut self, native: Native, arguments: &[Value]) -> Values {
        match native {
            Native::Call | Native::TryCall => match self.command(arguments)? {
                Reply::Error(_) if native == Native::Call => Err(Halt::Unfit("a command fails")),
                reply => Ok(vec![self.value_of_reply(&reply)?]),
            },
            Native::ErrorReply => {
                let text = self.only_text(arguments)?;
                let text = text.strip_prefix('-').unwrap_or(&text).trim_end_matches(['\r', '\n']);
                let text = if text.contains(' ') { text.to_owned() } else { format!("ERR {text}") };
                Ok(vec![self.within("err", text.as_bytes())?])
            }
            Native::StatusReply => {
                let text = self.only_text(arguments)?;
                Ok(vec![self.within("ok", text.as_bytes())?])
            }
            Native::Digest if arguments.len() == 1 => {
                let text = self.text(arguments, 0)?;
                self.spend(text.len() as u64 / 8)?;
                Ok(vec![self.string(sha1::hex(&text))?])
            }
            Native::Log => self.log(arguments),
            // All that a script writes is one transaction, which is replicated as a whole.
            Native::ReplicateCommands => Ok(vec![Value::Boolean(true)]),
            _ => Err(WRONG),
        }
    }

    fn only_text(&self, arguments: &[Value]) -> Result<String, Halt> {
        match arguments {
            [Value::String(text)] => String::from_utf8(text.to_vec()).map_err(|_| WRONG),
            _ => Err(WRONG),
        }
    }

    fn log(&mut self, arguments: &[Value]) -> Values {
        let level = match arguments {
            [Value::Number(level), _, ..] if (0.0..=3.0).contains(level) => *level as u8,
            _ => return Err(WRONG),
        };
        let mut text: Vec<u8> = Vec::new();
        for argument in &arguments[1..] {
            let part = match argument {
                Value::String(part) => part.to_vec(),
                Value::Number(number) => numbers::text(*number)?.into_bytes(),
                // Values that are no strings have no text.
                _ => continue,
            };
            if !text.is_empty() {
                text.push(b' ');
            }
            text.extend_from_slice(&part[..part.len().min(LOGGED_BYTES_MAX)]);
            text.truncate(LOGGED_BYTES_MAX);
        }
        self.take(text.len())?;
        if self.logged < LOGGED_MAX {
            self.logged += 1;
            self.host.log(level, &text);
        }
        Ok(Vec::new())
    }

    /// Carries out a command. It refuses the commands that the door would refuse.
    fn command(&mut self, arguments: &[Value]) -> Result<Reply, Halt> {
        let mut words = Vec::with_capacity(arguments.len());
        for argument in arguments {
            words.push(match argument {
                Value::String(text) => text.to_vec(),
                Value::Number(number) if truncate(*number) as f64 == *number => {
                    truncate(*number).to_string().into_bytes()
                }
                Value::Number(number) if !number.is_nan() => print_double(*number).into_bytes(),
                _ => return Err(Halt::Unfit("a command has a word that is no string")),
            });
            self.take(words.last().map_or(0, Vec::len) + VALUE_BYTES)?;
        }
        self.spend(COMMAND_STEPS + words.iter().map(|word| word.len() as u64 / 64 + 1).sum::<u64>())?;
        let Some(command) =
            words.first().and_then(|name| find(name)).filter(|command| !command.is_internal())
        else {
            return self.command_without_keys(&words);
        };
        if !command.takes(words.len())
            || self.is_read_only && command.writes()
            || timeout_position(&words).is_some()
            || command.may_take_several_transactions(&words)
        {
            return Err(Halt::Unfit("a command is refused"));
        }
        self.host.call(&command, &words)
    }

    fn command_without_keys(&mut self, words: &[Vec<u8>]) -> Result<Reply, Halt> {
        let name = words.first().map(|name| String::from_utf8_lossy(name).to_lowercase()).unwrap_or_default();
        match (name.as_str(), words) {
            ("ping", [_]) => Ok(Reply::Simple("PONG".into())),
            ("ping" | "echo", [_, word]) => Ok(Reply::Bulk(word.clone())),
            ("time", [_]) => {
                let now = self.host.now();
                let part = |part: u64| Reply::Bulk(part.to_string().into_bytes());
                Ok(Reply::Array(vec![part(now / 1_000_000), part(now % 1_000_000)]))
            }
            _ => Err(Halt::Unfit("it calls a command that shards do not know")),
        }
    }

    /// A table with one field.
    fn within(&mut self, field: &str, text: &[u8]) -> Result<Value, Halt> {
        let value = self.table(Table::default())?;
        let text = self.string(text)?;
        if let Value::Table(table) = value {
            self.set(table, &name(field), text)?;
        }
        Ok(value)
    }

    fn list(&mut self, replies: &mut dyn Iterator<Item = &Reply>) -> Result<Value, Halt> {
        let mut values = Vec::new();
        for reply in replies {
            values.push(self.value_of_reply(reply)?);
        }
        self.grown_list(values)
    }

    /// A list to which its elements were added one by one, as the door makes lists of replies.
    fn grown_list(&mut self, values: Vec<Value>) -> Result<Value, Halt> {
        let list = self.table(Table::default())?;
        if let Value::Table(table) = list {
            for (at, value) in values.into_iter().enumerate() {
                self.set(table, &Value::Number((at + 1) as f64), value)?;
            }
        }
        Ok(list)
    }

    /// A reply as a script sees it, in version 2 of the protocol.
    fn value_of_reply(&mut self, reply: &Reply) -> Result<Value, Halt> {
        self.spend(1)?;
        match reply {
            Reply::Simple(text) => self.within("ok", text.as_bytes()),
            Reply::Error(text) => {
                let value = self.within("err", text.as_bytes())?;
                if let Value::Table(table) = value {
                    self.set(table, &name("ignore_error_stats_update"), Value::Boolean(true))?;
                }
                Ok(value)
            }
            Reply::Integer(number) => Ok(Value::Number(*number as f64)),
            Reply::Boolean(flag) => Ok(Value::Number(f64::from(u8::from(*flag)))),
            Reply::Bulk(bytes) | Reply::Verbatim(bytes) => self.string(bytes),
            Reply::Null | Reply::NullArray => Ok(Value::Boolean(false)),
            Reply::Double(number) | Reply::Decimal(number) if number.is_nan() => {
                Err(Halt::Unfit("a reply is no number"))
            }
            Reply::Double(number) => self.string(print_double(*number)),
            Reply::Decimal(number) => self.string(print_decimal(*number)),
            Reply::Array(replies) | Reply::Set(replies) => self.list(&mut replies.iter()),
            Reply::Map(pairs) | Reply::Pairs(pairs) => {
                self.list(&mut pairs.iter().flat_map(|(key, value)| [key, value]))
            }
            Reply::Table(pairs) => {
                let mut values = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    values.push(self.list(&mut [key, value].into_iter())?);
                }
                self.grown_list(values)
            }
        }
    }

    /// The value that a script returns, as a reply.
    pub(crate) fn reply_of(&mut self, value: &Value) -> Result<Reply, Halt> {
        let mut left = REPLY_BYTES_MAX;
        self.reply(value, &mut left, 0)
    }

    fn reply(&mut self, value: &Value, left: &mut usize, depth: usize) -> Result<Reply, Halt> {
        const TOO_LARGE: Halt = Halt::Unfit("it replies more than at a shard");
        let bytes = if let Value::String(text) = value { text.len() } else { 0 };
        *left = left.checked_sub(bytes + ELEMENT_BYTES).filter(|_| depth <= DEPTH_MAX).ok_or(TOO_LARGE)?;
        self.spend(1)?;
        Ok(match value {
            Value::String(text) => Reply::Bulk(text.to_vec()),
            Value::Number(number) => Reply::Integer(truncate(*number)),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Table(table) => return self.reply_of_table(*table, left, depth),
            Value::Library(_) => return Err(WRONG),
            _ => Reply::Null,
        })
    }

    fn reply_of_table(&mut self, table: usize, left: &mut usize, depth: usize) -> Result<Reply, Halt> {
        let text = |text: &[u8]| String::from_utf8(text.to_vec()).map_err(|_| WRONG);
        let named = |name: &str| self.tables[table].named(name.as_bytes());
        if let Value::String(error) = named("err") {
            return text(&error).map(Reply::Error);
        }
        if let Value::String(status) = named("ok") {
            return text(&status).map(|text| Reply::Simple(text.into()));
        }
        match named("double") {
            Value::Number(number) if number.is_nan() => return Err(Halt::Unfit("a reply is no number")),
            Value::Number(number) => return Ok(Reply::Double(number)),
            _ => {}
        }
        if ["map", "set", "verbatim_string", "big_number"].into_iter().any(|name| !named(name).is_nil()) {
            return Err(Halt::Unfit("a reply is of a kind that shards do not know"));
        }
        let mut replies = Vec::new();
        for at in 1_u32.. {
            match self.tables[table].get(&Value::Number(f64::from(at))) {
                Value::Nil => break,
                value => replies.push(self.reply(&value, left, depth + 1)?),
            }
        }
        Ok(Reply::Array(replies))
    }
}
