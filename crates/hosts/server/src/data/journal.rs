//! How the journal of the logs in a data directory is opened.

use quorate_storage::{Journal, LogError};

use super::{
    DataDirectory, DataError, FORMAT_WITH_JOURNAL, IdentityFile, exists, read, remove_all, write_durably,
};

impl DataDirectory {
    /// Opens the journal of the logs here, which lets the logs hold all that they had counted as durable. To be called before the first of them
    /// is opened. A directory of an earlier version gets one, and is not read by that version again.
    ///
    /// # Errors
    /// There should be one, and it cannot be used.
    pub(crate) fn open_journal(&self) -> Result<Journal, DataError> {
        let identity = self.path().join("identity.toml");
        let known: IdentityFile = read(&identity)?;
        let directory = self.path().join("journal");
        // Without replicas there is nothing that it could have held.
        let is_given_up =
            self.gives_up_missing && !exists(&directory)? && self.replica_directories()?.is_empty();
        let is_new = !known.journal || is_given_up;
        if is_new {
            // Nothing was written there yet.
            remove_all(&directory)?;
        }
        let place = |replica| self.replica_directory(replica).join("log");
        let opened = Journal::open(&directory, known.cluster, is_new, place);
        let (journal, replayed) =
            opened.map_err(|source: LogError| DataError::Journal { path: self.path().to_owned(), source })?;
        if replayed.writes > 0 {
            tracing::info!(writes = replayed.writes, "logs were given what the journal held for them");
        }
        if !known.journal {
            let file = IdentityFile { format: FORMAT_WITH_JOURNAL, journal: true, ..known };
            write_durably(&identity, &file)?;
        }
        Ok(journal)
    }
}
