//! The protocol version in force, durably: a program that does not know it must not use the directory (ADR 0077).

use quorate_wire::{ProtocolVersion, Window};

use super::{DataDirectory, DataError, FORMAT_WITH_VERSION, IdentityFile, read, write_durably};

impl IdentityFile {
    /// The version in force when the directory was written last: the first, as long as none is named.
    fn protocol_version(&self) -> ProtocolVersion {
        self.protocol_version.map_or(ProtocolVersion::FIRST, ProtocolVersion)
    }
}

impl DataDirectory {
    /// Refuses a directory in which there may be what this program cannot read, or what it no longer reads.
    pub(super) fn refuse_unknown_version(&self, identity: &IdentityFile) -> Result<(), DataError> {
        let (path, found, known) = (self.path().to_owned(), identity.protocol_version(), Window::OWN);
        match known.contains(found) {
            true => Ok(()),
            false if found > known.newest => Err(DataError::NewerProtocol { path, found, known }),
            false => Err(DataError::OlderProtocol { path, found, known }),
        }
    }

    /// The protocol version that was in force when this was noted last.
    pub(crate) fn protocol_version(&self) -> Result<ProtocolVersion, DataError> {
        read(&self.path().join("identity.toml")).map(|identity: IdentityFile| identity.protocol_version())
    }

    /// Notes that a protocol version is in force. Programs that do not know it refuse the directory from here on, also those that
    /// know nothing of versions: the format of the identity is later than theirs.
    pub(crate) fn note_protocol_version(&self, version: ProtocolVersion) -> Result<(), DataError> {
        let path = self.path().join("identity.toml");
        let known: IdentityFile = read(&path)?;
        let format = known.format.max(FORMAT_WITH_VERSION);
        write_durably(&path, &IdentityFile { format, protocol_version: Some(version.0), ..known })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use quorate_core::NodeId;

    use super::*;
    use crate::data::Initialise;

    fn open(path: &Path, initialise: Initialise) -> Result<DataDirectory, DataError> {
        DataDirectory::open(path, 7, NodeId(1), initialise, 99)
    }

    #[test]
    fn a_directory_stays_readable_for_earlier_programs_until_a_version_is_noted() {
        let root = tempfile::tempdir().unwrap();
        let (path, identity) = (root.path().join("node"), root.path().join("node/identity.toml"));
        let data = open(&path, Initialise::New).unwrap();
        drop(data.open_journals(1).unwrap());
        assert_eq!(data.protocol_version().unwrap(), ProtocolVersion::FIRST);
        let text = fs::read_to_string(&identity).unwrap();
        assert!(text.contains("format = 3") && !text.contains("protocol_version"), "{text}");
        data.note_protocol_version(Window::OWN.newest).unwrap();
        // The journal is opened at every start, and takes neither back.
        drop(data.open_journals(1).unwrap());
        drop(data);
        let text = fs::read_to_string(&identity).unwrap();
        assert!(text.contains("format = 4") && text.contains("protocol_version = 3"), "{text}");
        assert_eq!(open(&path, Initialise::No).unwrap().protocol_version().unwrap(), Window::OWN.newest);
    }

    #[test]
    fn a_directory_beyond_the_window_is_refused_with_the_version_that_is_needed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("node");
        let data = open(&path, Initialise::New).unwrap();
        let newer = ProtocolVersion(Window::OWN.newest.0 + 1);
        data.note_protocol_version(newer).unwrap();
        drop(data);
        let error = open(&path, Initialise::No).unwrap_err();
        assert!(matches!(error, DataError::NewerProtocol { found, .. } if found == newer), "{error}");
        assert!(error.to_string().contains("a later program"), "{error}");
        let file = path.join("identity.toml");
        let text = fs::read_to_string(&file)
            .unwrap()
            .replace(&format!("protocol_version = {}", newer.0), "protocol_version = 0");
        fs::write(&file, text).unwrap();
        let error = open(&path, Initialise::No).unwrap_err();
        assert!(matches!(error, DataError::OlderProtocol { .. }), "{error}");
    }
}
