//! Why a log cannot be used, and what an operator can do about it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use quorate_core::ReplicaId;

/// The action on a file or directory that makes it durable.
pub(crate) const SYNC: &str = "sync";

/// A log that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is a log where one should be created.
    #[error(
        "{directory} holds a log already: start without initialising, or remove the directory if the replica is to \
         begin anew", directory = .directory.display()
    )]
    Exists {
        /// The directory.
        directory: PathBuf,
    },
    /// There is no log where one should be opened.
    #[error(
        "{directory} holds no log: initialise the replica if its cluster is new, let it rejoin from the other replicas \
         if its disk was lost, and check the path otherwise", directory = .directory.display()
    )]
    Missing {
        /// The directory.
        directory: PathBuf,
    },
    /// Something stands in the place of a log that is not, or may not be, of the same node.
    #[error(
        "{directory} belongs to another data directory, or its mark cannot be read: put back the directory of the replica that belongs there",
        directory = .directory.display()
    )]
    Hidden {
        /// The directory.
        directory: PathBuf,
    },
    /// Another process uses the log, or the same one a second time.
    #[error("{directory} is in use by another process: a replica must not run twice", directory = .directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The operating system refused something.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// The action that was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that is no segment of a log.
    #[error(
        "{file} does not begin like a log of Quorate: something else has written to the directory; {advice}",
        file = .file.display(), advice = advice(.file)
    )]
    NotALog {
        /// The file.
        file: PathBuf,
    },
    /// The log was written by a later version of this program.
    #[error(
        "{file} has format {found}, and this version reads formats up to {supported}: start the version that wrote it, \
         or a later one", file = .file.display(), supported = super::FORMAT
    )]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The log belongs to another cluster.
    #[error(
        "{file} belongs to cluster {found:x}, not to cluster {expected:x}: check the configured directory and cluster",
        file = .file.display()
    )]
    ForeignCluster {
        /// The file.
        file: PathBuf,
        /// The cluster that wrote it.
        found: u64,
        /// The cluster that it should belong to.
        expected: u64,
    },
    /// The log belongs to another replica.
    #[error(
        "{file} belongs to replica {found}, not to replica {expected}: check the configured directory; two replicas \
         must not exchange their logs", file = .file.display()
    )]
    ForeignReplica {
        /// The file.
        file: PathBuf,
        /// The replica that wrote it.
        found: ReplicaId,
        /// The replica that it should belong to.
        expected: ReplicaId,
    },
    /// A segment comes from an earlier life of the same replica.
    #[error(
        "{file} comes from another incarnation of this log than the first segment: the directory mixes two logs; {advice}",
        file = .file.display(), advice = advice(.file)
    )]
    ForeignIncarnation {
        /// The file.
        file: PathBuf,
    },
    /// A segment between others is missing.
    #[error("{file} is missing, and later segments are there; {advice}", file = .file.display(), advice = advice(.file))]
    MissingSegment {
        /// The file that is missing.
        file: PathBuf,
    },
    /// Something that had been durable cannot be read.
    #[error("{file} is corrupt at byte {offset}: {what}; {advice}", file = .file.display(), advice = advice(.file))]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where it begins.
        offset: u64,
        /// The fault there.
        what: &'static str,
    },
    /// An earlier write or sync failed. Its effect is unknown, so nothing more is written or acknowledged.
    #[error(
        "the log in {directory} failed earlier, so nothing more is written to it: repair the disk and start the \
         replica again", directory = .directory.display()
    )]
    Failed {
        /// The directory.
        directory: PathBuf,
        /// The shortage then, if that is why.
        shortage: Option<Shortage>,
    },
    /// The journal of a node is not the one that the node has written last.
    #[error(
        "{directory} is not the journal that this node has written last: it belongs to another node, or it is an older copy; bring back the \
         right one", directory = .directory.display()
    )]
    ForeignJournal {
        /// The directory.
        directory: PathBuf,
    },
    /// The file in which the journal of a node keeps writes of a log cannot be read.
    #[error(
        "{file}, which keeps what a log has acknowledged, is {what}: bring it back and restart the node", file = .file.display()
    )]
    LostKept {
        /// The file.
        file: PathBuf,
        /// Whether the file is missing or damaged.
        what: &'static str,
    },
    /// A log lacks what it has acknowledged, and the journal of its node keeps that.
    #[error(
        "some of what the log of {replica} has acknowledged is only in {journal}, because the log was away, or could not be written: {advice}",
        journal = .journal.display(), advice = unsettled_advice(*.is_loss)
    )]
    Unsettled {
        /// The replica of the log.
        replica: ReplicaId,
        /// The directory of the journal.
        journal: PathBuf,
        /// True if that is because the log is gone, damaged, or another one, as [`LogError::is_loss`] says.
        is_loss: bool,
    },
}

/// Something of which there was not enough, and of which there may be enough later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Room on the disk, or within a quota.
    Space,
    /// Descriptors, of the process or of the whole system.
    Descriptors,
}

impl Shortage {
    /// The shortage, if an error of the operating system says so.
    pub fn of(error: &io::Error) -> Option<Shortage> {
        /// The process, or the system, has no descriptor left. The standard library has no names for these.
        const DESCRIPTORS: [i32; 2] = [24, 23];
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Shortage::Space),
            _ => {
                error.raw_os_error().filter(|code| DESCRIPTORS.contains(code)).map(|_| Shortage::Descriptors)
            }
        }
    }
}

impl LogError {
    /// The shortage, if that is all that is wrong: then the log may be opened again, which reads and checks it as after a
    /// crash, until there is enough. None if an operator has to act.
    ///
    /// A sync that failed is never among these, whatever the reason that is given: it has failed to write something that had been
    /// taken in, and that a disk does so is for an operator to look at.
    pub fn shortage(&self) -> Option<Shortage> {
        match self {
            LogError::Io { action: SYNC, .. } => None,
            LogError::Io { source, .. } => Shortage::of(source),
            LogError::Failed { shortage, .. } => *shortage,
            _ => None,
        }
    }

    /// True if what should be there is gone, damaged, or belongs elsewhere: it has to be brought back, or given up. In all other cases it is
    /// there, and nothing may be removed.
    pub fn is_loss(&self) -> bool {
        match self {
            LogError::Missing { .. }
            | LogError::MissingSegment { .. }
            | LogError::Corrupt { .. }
            | LogError::NotALog { .. }
            | LogError::Hidden { .. }
            | LogError::ForeignCluster { .. }
            | LogError::ForeignReplica { .. }
            | LogError::ForeignIncarnation { .. }
            | LogError::ForeignJournal { .. }
            | LogError::LostKept { .. } => true,
            LogError::Unsettled { is_loss, .. } => *is_loss,
            LogError::Exists { .. }
            | LogError::InUse { .. }
            | LogError::Io { .. }
            | LogError::NewerFormat { .. }
            | LogError::Failed { .. } => false,
        }
    }

    /// The remedy for an operator if nothing is lost. No remedy removes anything.
    pub fn remedy(&self) -> &'static str {
        match (self, self.shortage()) {
            (_, Some(Shortage::Space)) => "make room on its disk, and start the node again: nothing is lost",
            (_, Some(Shortage::Descriptors)) => {
                "raise the limit of open files, or end what holds them, and start the node again: nothing is lost"
            }
            (LogError::InUse { .. }, _) => {
                "another process holds it: start the node again once that has ended"
            }
            (LogError::NewerFormat { .. }, _) => "start the version that wrote it, or a later one",
            _ => {
                "look at the disk, how it is mounted, and the permissions, and start the node again once that works; remove nothing"
            }
        }
    }

    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> LogError + 'a {
        move |source| LogError::Io { action, path: path.to_owned(), source }
    }
}

fn unsettled_advice(is_loss: bool) -> &'static str {
    match is_loss {
        true => {
            "bring the log back and restart the node, which gives it to the log first of all; or give the log up: move the directory of the \
             replica away, and start the node once with --rejoin, so that it learns everything from its group"
        }
        false => {
            "look at its disk, and restart the node once that works, which gives it to the log first of all; remove nothing"
        }
    }
}

fn advice(file: &Path) -> String {
    let directory = file.parent().unwrap_or(file).display();
    format!(
        "the replica is not served: remove {directory} so that it rejoins from the other replicas, or restore the \
         directory from a copy"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_given_up_for_a_loss_alone() {
        let io = |code| LogError::Io {
            action: "write to",
            path: "log".into(),
            source: io::Error::from_raw_os_error(code),
        };
        let (directory, replica) = (
            PathBuf::from("log"),
            quorate_core::ReplicaId { shard: quorate_core::ShardId(1), index: quorate_core::ReplicaIndex(0) },
        );
        let unsettled = |is_loss| LogError::Unsettled { replica, journal: "journal".into(), is_loss };
        let table = [
            (LogError::Missing { directory: directory.clone() }, true),
            (LogError::Hidden { directory: directory.clone() }, true),
            (LogError::ForeignJournal { directory: directory.clone() }, true),
            (LogError::Corrupt { file: "log/1".into(), offset: 0, what: "it is torn" }, true),
            (LogError::LostKept { file: "journal/1".into(), what: "gone" }, true),
            (unsettled(true), true),
            (io(28), false),
            (io(24), false),
            (io(5), false),
            (LogError::InUse { directory: directory.clone() }, false),
            (LogError::Failed { directory, shortage: None }, false),
            (unsettled(false), false),
        ];
        for (error, is_loss) in table {
            assert_eq!(error.is_loss(), is_loss, "{error}");
            assert!(is_loss || !error.to_string().contains("--rejoin"), "{error}");
            assert!(!error.remedy().contains("--rejoin"));
        }
    }

    #[test]
    fn what_passes_by_itself_as_a_table() {
        let io = |action, source: io::Error| LogError::Io { action, path: "log".into(), source };
        let code = io::Error::from_raw_os_error;
        let (directory, file) = (PathBuf::from("log"), PathBuf::from("log/1"));
        let failed = |shortage| LogError::Failed { directory: directory.clone(), shortage };
        let table = [
            (io("write to", ErrorKind::StorageFull.into()), Some(Shortage::Space)),
            (io("preallocate", code(28)), Some(Shortage::Space)),
            (io("create", ErrorKind::QuotaExceeded.into()), Some(Shortage::Space)),
            (io("open", code(24)), Some(Shortage::Descriptors)),
            (io("lock", code(23)), Some(Shortage::Descriptors)),
            (failed(Some(Shortage::Space)), Some(Shortage::Space)),
            // Not read, not written, not synced: what the disk holds is for an operator to look at.
            (io("write to", code(5)), None),
            (io("read", code(5)), None),
            (io(SYNC, code(5)), None),
            (io(SYNC, ErrorKind::StorageFull.into()), None),
            (io("create", ErrorKind::PermissionDenied.into()), None),
            (io("create", ErrorKind::ReadOnlyFilesystem.into()), None),
            (failed(None), None),
            (LogError::InUse { directory: directory.clone() }, None),
            (LogError::Missing { directory: directory.clone() }, None),
            (LogError::MissingSegment { file: file.clone() }, None),
            (LogError::Corrupt { file, offset: 0, what: "it is torn" }, None),
        ];
        for (error, expected) in table {
            assert_eq!(error.shortage(), expected, "{error}");
        }
    }
}
