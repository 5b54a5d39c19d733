//! Users in a data directory: a copy of them for the time before the configuration service can be asked, and the token of the node.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};

use quorate_access::Access;
use quorate_core::{Key, Value};
use serde::{Deserialize, Serialize};

use super::{DataDirectory, DataError, FORMAT, exists, io_error, read, write_durably};

impl DataDirectory {
    /// Notes the users, roles and tokens of the cluster, as the configuration service keeps them: they count from the start of a later life, before the service can be
    /// asked. Passwords and tokens are hashes.
    pub(crate) fn remember_access(&self, entries: &BTreeMap<Key, Value>) -> Result<(), DataError> {
        let entries = entries.iter().map(|(key, value)| (hex(key), hex(value))).collect();
        write_durably(&self.path.join("users.toml"), &AccessFile { format: FORMAT, entries })
    }

    /// The users, roles and tokens that were noted last; none if none were.
    pub(crate) fn remembered_access(&self) -> Result<Option<Access>, DataError> {
        let path = self.path.join("users.toml");
        if !exists(&path)? {
            return Ok(None);
        }
        let damaged = |reason: String| DataError::Damaged { path: path.clone(), reason };
        let mut entries = BTreeMap::new();
        for (key, value) in read::<AccessFile>(&path)?.entries {
            let bytes =
                |text: &str| unhex(text).ok_or_else(|| damaged(format!("{text:?} is no hexadecimal text")));
            entries.insert(Key::from(bytes(&key)?), Value::from(bytes(&value)?));
        }
        Access::read(&entries).map(Some).map_err(|error| damaged(error.to_string()))
    }

    /// Writes the token of this life of the node where only the owner of the directory reads it.
    pub(crate) fn write_token(&self, token: &str) -> Result<(), DataError> {
        let path = self.path.join("token");
        let write = || -> io::Result<()> {
            // An earlier one may have been made readable to others.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut options = File::options();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&path)?;
            file.write_all(token.as_bytes())?;
            file.write_all(b"\n")
        };
        write().map_err(|source| io_error(&path, source))
    }
}

/// The users, roles and tokens: keys and values, in hexadecimal.
#[derive(Serialize, Deserialize)]
struct AccessFile {
    format: u32,
    entries: BTreeMap<String, String>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_are_written() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        for text in ["0", "0g", "+1", "é0"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }
}
