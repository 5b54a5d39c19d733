//! The libraries of a database, in records beside its keys: so all doors know them, and a call sees what is there in its own transaction.
//!
//! | record | holds |
//! |---|---|
//! | `f{000}` | the index: libraries with the digests of their texts, and their functions |
//! | `f{000}` name | the text of a library |

use quorate_redis_scripts::{FLAGS, Function, Library, Over, digest};

/// The text of a library may have so many bytes,
pub(crate) const LIBRARY_BYTES_MAX: usize = 512 * 1024;

/// and those of all libraries of a database together: a transaction reads them all.
pub(crate) const LIBRARIES_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The index may have so many bytes: it is one record.
pub(crate) const INDEX_BYTES_MAX: usize = 512 * 1024;

/// The version of the index.
const VERSION: u8 = 1;

/// The record of the index, and the beginning of the others.
pub(crate) const INDEX: &[u8] = b"f{000}";

/// Reads and writes records of a transaction.
pub(crate) trait Records {
    /// The value of a record.
    fn read(&mut self, record: &[u8]) -> Result<Option<Vec<u8>>, Over>;

    /// Writes a record, or deletes it.
    fn write(&mut self, record: &[u8], value: Option<&[u8]>) -> Result<(), Over>;
}

/// A library, as the index knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The SHA-1 of its text, in small letters.
    pub(crate) digest: String,
    /// How long its text is, in bytes.
    pub(crate) bytes: usize,
    pub(crate) functions: Vec<Function>,
}

impl Entry {
    pub(crate) fn new(library: &Library, functions: Vec<Function>) -> Self {
        let (name, code) = (library.name().to_owned(), library.code());
        Entry { name, digest: digest(code), bytes: code.len(), functions }
    }
}

/// The record of the text of a library.
fn record_of(name: &str) -> Vec<u8> {
    [INDEX, name.as_bytes()].concat()
}

/// The text of a library; none if there is none, which the index would not say.
pub(crate) fn read_code(records: &mut impl Records, name: &str) -> Result<Option<Vec<u8>>, Over> {
    records.read(&record_of(name))
}

/// Writes the text of a library, or deletes it.
pub(crate) fn write_code(records: &mut impl Records, name: &str, code: Option<&[u8]>) -> Result<(), Over> {
    records.write(&record_of(name), code)
}

/// The libraries of a database, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
}

impl Index {
    /// Reads it; none if it makes no sense, or is of a later version.
    pub(crate) fn read(records: &mut impl Records) -> Result<Option<Index>, Over> {
        Ok(match records.read(INDEX)? {
            Some(bytes) => Index::decode(&bytes),
            None => Some(Index::default()),
        })
    }

    /// Writes it; false, and nothing is written, if it is too long.
    pub(crate) fn write(&self, records: &mut impl Records) -> Result<bool, Over> {
        let bytes = self.encode();
        if bytes.len() > INDEX_BYTES_MAX {
            return Ok(false);
        }
        let value = (!self.entries.is_empty()).then_some(bytes.as_slice());
        records.write(INDEX, value)?;
        Ok(true)
    }

    /// The library of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The library that has a function, and the function.
    pub(crate) fn find_function(&self, name: &str) -> Option<(&Entry, &Function)> {
        self.entries.iter().find_map(|entry| {
            let function = entry.functions.iter().find(|function| function.name == name);
            function.map(|function| (entry, function))
        })
    }

    /// How many bytes the texts of all libraries have.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// Adds a library in its place.
    pub(crate) fn insert(&mut self, entry: Entry) {
        let at = self.entries.partition_point(|known| known.name < entry.name);
        self.entries.insert(at, entry);
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let text = |bytes: &mut Vec<u8>, text: &[u8]| {
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text);
        };
        for entry in &self.entries {
            text(&mut bytes, entry.name.as_bytes());
            text(&mut bytes, entry.digest.as_bytes());
            bytes.extend_from_slice(&(entry.bytes as u32).to_le_bytes());
            bytes.extend_from_slice(&(entry.functions.len() as u32).to_le_bytes());
            for function in &entry.functions {
                text(&mut bytes, function.name.as_bytes());
                let bits = FLAGS.iter().enumerate().filter(|(_, flag)| function.flags.contains(flag));
                bytes.push(bits.fold(0, |bits, (at, _)| bits | 1 << at));
                bytes.push(u8::from(function.description.is_some()));
                text(&mut bytes, function.description.as_deref().unwrap_or_default());
            }
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Index> {
        let (version, mut rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (name, digest) = (take_text(&mut rest)?, take_text(&mut rest)?);
            let (bytes, count) = (take_number(&mut rest)?, take_number(&mut rest)?);
            let mut functions = Vec::new();
            for _ in 0..count {
                let name = take_text(&mut rest)?;
                let (bits, after) = rest.split_first()?;
                let (has_description, after) = after.split_first()?;
                rest = after;
                let description = take(&mut rest)?.to_vec();
                let flags = FLAGS.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
                functions.push(Function {
                    name,
                    description: (*has_description == 1).then_some(description),
                    flags: flags.map(|(_, flag)| *flag).collect(),
                });
            }
            entries.push(Entry { name, digest, bytes, functions });
        }
        Some(Index { entries })
    }
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_le_bytes(*number) as usize)
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_number(rest)?;
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(rest)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let function = |name: &str, description: Option<&str>, flags: &[&'static str]| Function {
            name: name.to_owned(),
            description: description.map(|text| text.as_bytes().to_vec()),
            flags: flags.to_vec(),
        };
        let library = |name: &str| Library::new(format!("#!lua name={name}\n").into_bytes()).unwrap();
        let mut index = Index::default();
        let functions = vec![function("f", Some(""), &["no-writes", "no-cluster"]), function("g", None, &[])];
        index.insert(Entry::new(&library("second"), functions));
        index.insert(Entry::new(&library("first"), vec![function("h", Some("says"), &[])]));
        index
    }

    #[test]
    fn an_index_is_read_as_it_was_written() {
        let index = index();
        assert_eq!(Index::decode(&index.encode()), Some(index.clone()));
        assert_eq!(index.entries[0].name, "first");
        let (entry, function) = index.find_function("g").unwrap();
        assert_eq!((entry.name.as_str(), function.only_reads()), ("second", false));
        assert!(index.find_function("f").unwrap().1.only_reads() && index.find_function("x").is_none());
    }

    #[test]
    fn an_index_that_makes_no_sense_is_none() {
        let bytes = index().encode();
        assert_eq!(Index::decode(&[]), None);
        assert_eq!(Index::decode(&[VERSION + 1]), None);
        // Where an entry ends, a shorter index may make sense.
        let whole = (1..bytes.len()).filter(|length| Index::decode(&bytes[..*length]).is_some()).count();
        assert_eq!(whole, 2, "nothing, and the first library");
    }
}
