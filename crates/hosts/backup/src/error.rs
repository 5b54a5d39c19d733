//! The errors that a backup can have, and their remedies.

use std::path::{Path, PathBuf};

/// The result of what is done with backups.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a backup was not taken, cannot be used, or was not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A folder holds no backup.
    #[error("{location} is no backup: {reason}")]
    NotABackup {
        /// The folder.
        location: String,
        /// The finding.
        reason: String,
    },
    /// A later version has taken it.
    #[error(
        "the backup has format {found}, and this program knows formats up to {known}: use a version of quorate that is at least as new as \
         the one that has taken it"
    )]
    NewerFormat {
        /// Its format.
        found: u32,
        /// The greatest that is known here.
        known: u32,
    },
    /// The manifest is not as it was written.
    #[error(
        "the manifest of the backup is damaged: {reason}; restore from another backup, or from another copy of this one"
    )]
    ManifestDamaged {
        /// The mistake.
        reason: String,
    },
    /// A file is not as it was written.
    #[error("{file} is damaged: {reason}; restore from another backup, or from another copy of this one")]
    Damaged {
        /// The file.
        file: String,
        /// The damage, and where it is.
        reason: String,
    },
    /// The backup is encrypted, and no key was given.
    #[error("the backup is encrypted: name the file with its key, with --key-file")]
    KeyNeeded,
    /// The key is another one.
    #[error("the key is not the one that the backup was encrypted with: name another file with --key-file")]
    WrongKey,
    /// A file holds no key.
    #[error("{} holds no key: {reason}", path.display())]
    InvalidKey {
        /// The file.
        path: PathBuf,
        /// The form of a key.
        reason: String,
    },
    /// A place that backups cannot be kept at.
    #[error("backups cannot be kept at {location:?}: {reason}")]
    Location {
        /// The place.
        location: String,
        /// Why.
        reason: String,
    },
    /// No backup fits what was asked for.
    #[error("{0}")]
    NoSuchBackup(String),
    /// A file or folder could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The operation that was tried.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// An object of an archive could not be read or written.
    #[error("cannot {doing} {object}: {reason}")]
    Archive {
        /// The operation that was tried.
        doing: &'static str,
        /// The object, or the whole archive.
        object: String,
        /// The error of the store, and what can be done.
        reason: String,
    },
    /// Backups that others lean on are not deleted.
    #[error("nothing was deleted, because others use what is there: {}; delete these first, or name them as well", leaning.join(", "))]
    StillNeeded {
        /// The backups that lean on it.
        leaning: Vec<String>,
    },
    /// A backup was not taken to its end, and some of it is kept.
    #[error(
        "{source}; the backup was not taken, and what was written of it is kept ({files} files with {bytes} bytes in {folder}): the next backup of the keyspace \
         to this place uses it, and `quorate backup delete` removes it"
    )]
    Unfinished {
        /// Why.
        source: Box<Error>,
        /// The folder that holds it.
        folder: String,
        /// How many files there are.
        files: u64,
        /// How many bytes they have.
        bytes: u64,
    },
    /// Somebody wanted the command to stop.
    #[error("interrupted")]
    Interrupted,
    /// A row of a file that is imported.
    #[error("line {line}: {reason}")]
    Row {
        /// The line, counted from one.
        line: u64,
        /// The mistake in it.
        reason: String,
    },
    /// Something of the keyspace has no place in the format.
    #[error("{0}")]
    Unsuitable(String),
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] quorate::Error),
}

impl Error {
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { doing, path, source }
    }

    pub(crate) fn damaged(file: &str, reason: impl Into<String>) -> Error {
        Error::Damaged { file: file.to_owned(), reason: reason.into() }
    }
}
