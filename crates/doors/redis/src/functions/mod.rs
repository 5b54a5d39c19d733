//! `FUNCTION` and `FCALL`: libraries of functions, kept in the database that they are loaded into.
//!
//! A request of a client is a part of a transaction with scripts, like a script: it reads the libraries that there are at its place in the serial order, and may stand
//! in a `MULTI`. A call compiles its library anew (ADR 0064).
//!
//! | file | role |
//! |---|---|
//! | `catalogue` | the records of libraries |
//! | `dump` | libraries as bytes, for `FUNCTION DUMP` and `RESTORE` |
//! | `cache` | texts that a door has read before |

mod cache;
mod catalogue;
mod dump;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bytes::Bytes;
use quorate_redis_commands::{Reply, matches};
use quorate_redis_scripts::{Function, Host, Library, Limits, Outcome, Over, register};

pub(crate) use cache::Cache;
use catalogue::{
    Entry, INDEX_BYTES_MAX, Index, LIBRARIES_BYTES_MAX, LIBRARY_BYTES_MAX, read_code, write_code,
};
pub(crate) use catalogue::{INDEX, Records};

use crate::local::is_word;

/// A request of a client to libraries.
#[derive(Clone, Debug)]
pub(crate) enum Asks {
    /// To add one, or to replace the one of its name.
    Load { library: Library, replaces: bool },
    /// To delete one.
    Delete { name: String },
    /// To list those whose names match a pattern, with their texts or without.
    List { pattern: Option<Vec<u8>>, with_code: bool },
    /// To delete all.
    Flush,
    /// To tell all as bytes.
    Dump,
    /// To take such bytes in, which are not looked at before: that takes a while.
    Restore { dump: Vec<u8>, policy: Policy },
    /// How many there are.
    Stats,
}

/// The fate of libraries that are there when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They stay, and must not be among those that are restored.
    Append,
    /// Those of the same names are replaced.
    Replace,
    /// They are deleted.
    Flush,
}

/// Why nothing more is done.
pub(crate) enum Ended {
    /// The transaction is over.
    Over,
    /// It must not commit, for this reason.
    Stopped(Reply),
}

impl From<Over> for Ended {
    fn from(_: Over) -> Self {
        Ended::Over
    }
}

/// A reply, or why nothing more is done.
type Replied = Result<Reply, Ended>;

impl Asks {
    /// Reads the words of `FUNCTION`, whose number has been checked.
    ///
    /// # Errors
    /// The reply that says what is wrong.
    pub(crate) fn read(words: &[Bytes]) -> Result<Asks, Reply> {
        let rest = &words[2..];
        match words[1].to_ascii_lowercase().as_slice() {
            b"load" => load(rest),
            b"delete" => Ok(Asks::Delete { name: String::from_utf8_lossy(&rest[0]).into_owned() }),
            b"list" => list(rest),
            b"flush" => match rest {
                [] => Ok(Asks::Flush),
                [how] if is_word(how, "SYNC") || is_word(how, "ASYNC") => Ok(Asks::Flush),
                _ => Err(Reply::error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
            },
            b"dump" => Ok(Asks::Dump),
            b"restore" => restore(rest),
            b"stats" => Ok(Asks::Stats),
            b"help" => Err(crate::local::documentation::help("function")),
            _ => Err(Reply::error("ERR syntax error")),
        }
    }

    /// True if it changes libraries.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self, Asks::List { .. } | Asks::Dump | Asks::Stats)
    }
}

fn load(words: &[Bytes]) -> Result<Asks, Reply> {
    let Some((code, options)) = words.split_last() else {
        return Err(Reply::error("ERR Function code is missing"));
    };
    let mut replaces = false;
    for option in options {
        if !is_word(option, "REPLACE") {
            let option = String::from_utf8_lossy(option);
            return Err(Reply::error(format!("ERR Unknown option given: {option}")));
        }
        replaces = true;
    }
    Ok(Asks::Load { library: library(code)?, replaces })
}

fn library(code: &[u8]) -> Result<Library, Reply> {
    if code.len() > LIBRARY_BYTES_MAX {
        return Err(Reply::error(format!("ERR a library may have at most {LIBRARY_BYTES_MAX} bytes")));
    }
    Library::new(code.to_vec())
}

fn list(words: &[Bytes]) -> Result<Asks, Reply> {
    let (mut pattern, mut with_code, mut rest) = (None, false, words);
    while let [option, behind @ ..] = rest {
        rest = behind;
        if is_word(option, "WITHCODE") && !with_code {
            with_code = true;
        } else if is_word(option, "LIBRARYNAME") && pattern.is_none() {
            let Some((name, behind)) = rest.split_first() else {
                return Err(Reply::error("ERR library name argument was not given"));
            };
            (pattern, rest) = (Some(name.to_vec()), behind);
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(Reply::error(format!("ERR Unknown argument {option}")));
        }
    }
    Ok(Asks::List { pattern, with_code })
}

fn restore(words: &[Bytes]) -> Result<Asks, Reply> {
    let policy = match words {
        [_] => Policy::Append,
        [_, policy] if is_word(policy, "APPEND") => Policy::Append,
        [_, policy] if is_word(policy, "REPLACE") => Policy::Replace,
        [_, policy] if is_word(policy, "FLUSH") => Policy::Flush,
        _ => {
            return Err(Reply::error(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    Ok(Asks::Restore { dump: words[0].to_vec(), policy })
}

/// The libraries of a dump.
fn restored(dump: &[u8]) -> Result<Vec<Library>, Reply> {
    let Some(codes) = dump::decode(dump) else {
        return Err(Reply::error("ERR DUMP payload version or checksum are wrong"));
    };
    codes.iter().map(|code| library(code)).collect()
}

/// The libraries of a database, within an attempt of a transaction.
pub(crate) struct Libraries<'a, H> {
    pub(crate) host: &'a Rc<RefCell<H>>,
    pub(crate) limits: &'a Limits,
    pub(crate) stop: &'a Arc<AtomicBool>,
    pub(crate) cache: &'a Cache,
}

impl<H: Host + Records + 'static> Libraries<'_, H> {
    fn index(&self) -> Result<Index, Ended> {
        let index = Index::read(&mut *self.host.borrow_mut())?;
        index.ok_or_else(|| {
            let text = "ERR the libraries of this database are of a later version, and nothing was done";
            Ended::Stopped(Reply::error(text))
        })
    }

    /// Carries out what a client asks.
    pub(crate) fn ask(&self, asks: &Asks) -> Replied {
        let index = self.index()?;
        match asks {
            Asks::Load { library, replaces } => {
                let policy = if *replaces { Policy::Replace } else { Policy::Append };
                match self.add(index, std::slice::from_ref(library), policy)? {
                    Ok(()) => Ok(Reply::bulk(library.name())),
                    Err(reply) => Ok(reply),
                }
            }
            Asks::Restore { dump, policy } => match restored(dump) {
                Ok(libraries) => Ok(self.add(index, &libraries, *policy)?.err().unwrap_or(Reply::OK)),
                Err(reply) => Ok(reply),
            },
            Asks::Delete { name } => self.delete(index, name),
            Asks::Flush => {
                let records = &mut *self.host.borrow_mut();
                for entry in &index.entries {
                    write_code(records, &entry.name, None)?;
                }
                Index::default().write(records)?;
                Ok(Reply::OK)
            }
            Asks::List { pattern, with_code } => self.list(&index, pattern.as_deref(), *with_code),
            Asks::Dump => {
                let codes: Result<Vec<_>, _> = index.entries.iter().map(|entry| self.code(entry)).collect();
                let codes = codes?;
                Ok(Reply::Bulk(dump::encode(codes.iter().map(|library| library.code()))))
            }
            Asks::Stats => {
                let functions = index.entries.iter().map(|entry| entry.functions.len()).sum();
                Ok(Reply::Map(vec![
                    (Reply::bulk("libraries_count"), Reply::count(index.entries.len())),
                    (Reply::bulk("functions_count"), Reply::count(functions)),
                ]))
            }
        }
    }

    /// The function of this name, with its library; its reply if there is none, or it may write where that is not allowed.
    pub(crate) fn find(&self, name: &str, is_read_only: bool) -> Result<Result<Arc<Library>, Reply>, Ended> {
        let index = self.index()?;
        let Some((entry, function)) = index.find_function(name) else {
            return Ok(Err(Reply::error("ERR Function not found")));
        };
        if is_read_only && !function.only_reads() {
            let text = "ERR Can not execute a script with write flag using *_ro command.";
            return Ok(Err(Reply::error(text)));
        }
        self.code(entry).map(Ok)
    }

    /// The text of a library.
    fn code(&self, entry: &Entry) -> Result<Arc<Library>, Ended> {
        if let Some(known) = self.cache.find(&entry.digest) {
            return Ok(known);
        }
        let code = read_code(&mut *self.host.borrow_mut(), &entry.name)?;
        match code.map(Library::new) {
            Some(Ok(library)) => Ok(self.cache.keep(&entry.digest, library)),
            _ => {
                let text = format!("ERR the text of library '{}' is lost, and nothing was done", entry.name);
                Err(Ended::Stopped(Reply::error(text)))
            }
        }
    }

    /// Adds libraries; the reply if that cannot be done, and then nothing is.
    fn add(
        &self,
        mut index: Index,
        libraries: &[Library],
        policy: Policy,
    ) -> Result<Result<(), Reply>, Ended> {
        let before = index.clone();
        if policy == Policy::Flush {
            index = Index::default();
        }
        let begun = Instant::now();
        for library in libraries {
            // All of them together may run for as long as one script.
            let left = self.limits.time_max.saturating_sub(begun.elapsed());
            let limits = Limits { time_max: left, ..self.limits.clone() };
            let functions = match register(library, self.stop, &limits, self.host) {
                Ok(functions) => functions,
                Err(Outcome::Invalid(reply) | Outcome::Ended(reply)) => return Ok(Err(reply)),
                Err(Outcome::Stopped(reply)) => return Err(Ended::Stopped(reply)),
                Err(Outcome::Over) => return Err(Ended::Over),
            };
            let name = library.name();
            if index.find(name).is_some() {
                if policy != Policy::Replace {
                    return Ok(Err(Reply::error(format!("ERR Library '{name}' already exists"))));
                }
                index.entries.retain(|entry| entry.name != name);
            }
            let is_taken = |function: &&Function| index.find_function(&function.name).is_some();
            if let Some(taken) = functions.iter().find(is_taken) {
                return Ok(Err(Reply::error(format!("ERR Function {} already exists", taken.name))));
            }
            index.insert(Entry::new(library, functions));
        }
        if index.bytes() > LIBRARIES_BYTES_MAX {
            let text =
                format!("ERR the libraries of a database may have at most {LIBRARIES_BYTES_MAX} bytes");
            return Ok(Err(Reply::error(text)));
        }
        let records = &mut *self.host.borrow_mut();
        if !index.write(records)? {
            let text =
                format!("ERR the names and descriptions of functions take more than {INDEX_BYTES_MAX} bytes");
            return Ok(Err(Reply::error(text)));
        }
        for entry in before.entries.iter().filter(|entry| index.find(&entry.name).is_none()) {
            write_code(records, &entry.name, None)?;
        }
        for library in libraries {
            write_code(records, library.name(), Some(library.code()))?;
        }
        Ok(Ok(()))
    }

    fn delete(&self, mut index: Index, name: &str) -> Replied {
        if index.find(name).is_none() {
            return Ok(Reply::error("ERR Library not found"));
        }
        index.entries.retain(|entry| entry.name != name);
        let records = &mut *self.host.borrow_mut();
        // It is shorter than it was.
        index.write(records)?;
        write_code(records, name, None)?;
        Ok(Reply::OK)
    }

    fn list(&self, index: &Index, pattern: Option<&[u8]>, with_code: bool) -> Replied {
        let is_wanted = |entry: &&Entry| pattern.is_none_or(|pattern| is_like(pattern, &entry.name));
        let mut libraries = Vec::new();
        for entry in index.entries.iter().filter(is_wanted) {
            let functions = entry.functions.iter().map(describe).collect();
            let mut described = vec![
                (Reply::bulk("library_name"), Reply::bulk(&entry.name)),
                (Reply::bulk("engine"), Reply::bulk("LUA")),
                (Reply::bulk("functions"), Reply::Array(functions)),
            ];
            if with_code {
                let library = self.code(entry)?;
                described.push((Reply::bulk("library_code"), Reply::bulk(library.code())));
            }
            libraries.push(Reply::Map(described));
        }
        Ok(Reply::Array(libraries))
    }
}

/// True if a name matches a pattern, in letters of any size.
fn is_like(pattern: &[u8], name: &str) -> bool {
    matches(&pattern.to_ascii_lowercase(), name.to_ascii_lowercase().as_bytes())
}

fn describe(function: &Function) -> Reply {
    let flags = function.flags.iter().map(|flag| Reply::Simple((*flag).into())).collect();
    Reply::Map(vec![
        (Reply::bulk("name"), Reply::bulk(&function.name)),
        (Reply::bulk("description"), Reply::bulk_or_null(function.description.clone())),
        (Reply::bulk("flags"), Reply::Set(flags)),
    ])
}
