//! The memory of a node for the key spaces of its replicas, and where replicas keep values that do not fit into it
//! ([`quorate_core::attic`]): a file for each, in one directory that is emptied at each start.
//!
//! Of some protocols everything stays in memory. Their replicas say how much they take, and what they leave is for those that have attics, the same for each.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::ReplicaId;
use quorate_core::attic::{Attic, is_exceeded};
use quorate_storage::{AtticBounds, AtticStatus, Directory, FileAttic, Files};

use super::DataError;
use super::replicas::name;

/// Its name in the data directory.
const DIRECTORY: &str = "attic";

/// An attic writes so many bytes at once: one value at a time would be most of what a start with millions of them costs the system.
const GATHERED_BYTES: usize = 64 << 10;

/// The attics of a node.
#[derive(Clone, Debug)]
pub(crate) struct Attics(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    directory: Files,
    /// The bytes of memory for the key spaces of all replicas.
    memory_bytes: usize,
    /// The bytes that replicas without attics take of it.
    taken: AtomicUsize,
    /// How many replicas with attics share the rest.
    replicas: Mutex<usize>,
    /// Of each.
    bounds: Arc<AtticBounds>,
}

/// The part of a replica without an attic in the memory of its node.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    taken: AtomicUsize,
    attics: Attics,
}

/// The attic of a replica that runs here.
#[derive(Debug)]
pub(crate) struct ReplicaAttic {
    attic: Arc<FileAttic<<Files as Directory>::File>>,
    name: String,
    attics: Attics,
}

impl Attics {
    /// Attics in a data directory, for replicas that may take so many bytes of memory together. Whatever earlier ones have left is removed.
    pub(super) fn open(data: &Path, memory_bytes: u64) -> Result<Attics, DataError> {
        let path = data.join(DIRECTORY);
        clear(&path).map_err(|source| DataError::Io { path: path.clone(), source })?;
        let shared = Shared {
            directory: Files::unsynced(&path),
            memory_bytes: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
            taken: AtomicUsize::new(0),
            replicas: Mutex::new(0),
            bounds: Arc::default(),
        };
        Ok(Attics(Arc::new(shared)))
    }

    /// Removes what earlier attics have left in a data directory that has none now.
    pub(super) fn remove_left(data: &Path) -> Result<(), DataError> {
        let path = data.join(DIRECTORY);
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(DataError::Io { path, source })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// An empty attic for a replica. From now on it has its share of the memory.
    pub(crate) fn create(&self, replica: ReplicaId) -> Result<ReplicaAttic, DataError> {
        let Shared { directory, bounds, .. } = &*self.0;
        let name = format!("{}.values", name(replica));
        let file = directory.create_file(&name);
        let file = file.map_err(|source| DataError::Io { path: directory.path().join(&name), source })?;
        self.count(|replicas| replicas + 1);
        let attic = Arc::new(FileAttic::new(file, Arc::clone(bounds), GATHERED_BYTES));
        Ok(ReplicaAttic { attic, name, attics: self.clone() })
    }

    /// The part of a replica whose values all stay in memory. It takes nothing yet.
    pub(crate) fn share(&self) -> MemoryShare {
        MemoryShare { taken: AtomicUsize::new(0), attics: self.clone() }
    }

    /// The problem with the memory that replicas without attics take, if there is one, in words.
    pub(crate) fn problem(&self) -> Option<String> {
        let Shared { memory_bytes, taken, .. } = &*self.0;
        let taken = taken.load(Ordering::Relaxed);
        is_exceeded(taken, *memory_bytes).then(|| {
            format!(
                "the keyspaces that keep all values in memory take {} MiB of it on this node and may take {} MiB; writes are refused until something is deleted, \
                 or memory_bytes is raised and the node is restarted",
                taken >> 20,
                memory_bytes >> 20
            )
        })
    }

    /// Whether there is so little room that files must not grow.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.0.bounds.set_full(is_full);
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        let Shared { memory_bytes, taken, bounds, replicas, .. } = &*self.0;
        let mut replicas = replicas.lock().unwrap_or_else(PoisonError::into_inner);
        *replicas = change(*replicas);
        let left = memory_bytes.saturating_sub(taken.load(Ordering::Relaxed));
        bounds.set_memory_bytes(left / (*replicas).max(1));
    }
}

impl MemoryShare {
    /// The key space of the replica takes so many bytes now.
    pub(crate) fn note(&self, taken: usize) {
        let before = self.taken.swap(taken, Ordering::Relaxed);
        if before != taken {
            self.attics.0.taken.fetch_add(taken.wrapping_sub(before), Ordering::Relaxed);
            self.attics.count(|replicas| replicas);
        }
    }

    /// The key space of the replica takes so many bytes now. True if those without attics take more together than all may.
    pub(crate) fn exceeds_with(&self, taken: usize) -> bool {
        self.note(taken);
        is_exceeded(self.attics.0.taken.load(Ordering::Relaxed), self.attics.0.memory_bytes)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.note(0);
    }
}

impl ReplicaAttic {
    /// For its machine.
    pub(crate) fn for_machine(&self) -> Arc<dyn Attic> {
        Arc::clone(&self.attic) as Arc<dyn Attic>
    }

    /// True if a value could not be read: nothing that follows from that may leave.
    pub(crate) fn has_failed(&self) -> bool {
        self.attic.has_failed()
    }

    /// The bytes of memory that its replica may take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.attic.memory_bytes()
    }

    /// Its contents, and its reads, writes and failures so far.
    pub(crate) fn status(&self) -> AtticStatus {
        self.attic.status()
    }

    /// Its file.
    pub(crate) fn path(&self) -> PathBuf {
        self.attics.0.directory.path().join(&self.name)
    }
}

impl Drop for ReplicaAttic {
    fn drop(&mut self) {
        self.attics.count(|replicas| replicas - 1);
        // The next attic of the replica empties what is left of this one, and so does the next start of the node.
        if let Err(error) = self.attics.0.directory.remove(&self.name) {
            tracing::warn!(path = %self.path().display(), %error, "the file of values cannot be removed");
        }
    }
}

fn clear(path: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(path)
}

#[cfg(test)]
mod tests {
    use quorate_core::{ReplicaIndex, ShardId};

    use super::*;

    fn replica(shard: u32) -> ReplicaId {
        ReplicaId { shard: ShardId(shard), index: ReplicaIndex(0) }
    }

    #[test]
    fn what_stays_in_memory_is_taken_from_what_the_others_share() {
        let directory = tempfile::tempdir().unwrap();
        let attics = Attics::open(directory.path(), 4_000_000).unwrap();
        let with_attic = attics.create(replica(1)).unwrap();
        let (one, other) = (attics.share(), attics.share());
        assert!(!one.exceeds_with(1_000_000) && !other.exceeds_with(2_000_000));
        assert_eq!((with_attic.memory_bytes(), attics.problem()), (1_000_000, None));
        assert!(other.exceeds_with(3_600_000), "both together count");
        assert!(one.exceeds_with(1_000_000), "whichever is asked");
        assert_eq!(with_attic.memory_bytes(), 0);
        let problem = attics.problem().unwrap();
        assert!(problem.contains("take 4 MiB") && problem.contains("may take 3 MiB"), "{problem}");
        drop(other);
        assert!(!one.exceeds_with(1_000_001));
        assert_eq!((with_attic.memory_bytes(), attics.problem()), (2_999_999, None));
    }

    #[test]
    fn replicas_share_the_memory_and_leave_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(DIRECTORY).join("shard-9-r0.values");
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(&left, "of an earlier life").unwrap();
        let attics = Attics::open(directory.path(), 1_000).unwrap();
        assert!(!left.exists());
        let one = attics.create(replica(1)).unwrap();
        assert_eq!(one.memory_bytes(), 1_000);
        let other = attics.create(replica(2)).unwrap();
        assert_eq!((one.memory_bytes(), other.memory_bytes()), (500, 500));
        let place = one.for_machine().put(b"salt").unwrap();
        assert_eq!(one.for_machine().value(place).as_deref(), Some(&b"salt"[..]));
        assert!(one.path().exists() && one.path() != other.path());
        let path = other.path();
        drop(other);
        assert_eq!((one.memory_bytes(), path.exists()), (1_000, false));
        attics.set_full(true);
        assert_eq!(one.for_machine().put(b"pepper"), None, "logs need the room");
        drop(one);
        Attics::remove_left(directory.path()).unwrap();
        Attics::remove_left(directory.path()).unwrap();
        assert!(!directory.path().join(DIRECTORY).exists());
    }
}
