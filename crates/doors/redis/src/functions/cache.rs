//! The texts of libraries that a door has read before, by their digests: a call reads the index, and the text only once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_redis_scripts::Library;

/// So many bytes of texts are kept. Beyond that all are forgotten, and read again when they are called.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A cache.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    libraries: BTreeMap<String, Arc<Library>>,
    bytes: usize,
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is held.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The library whose text has this digest.
    pub(crate) fn find(&self, digest: &str) -> Option<Arc<Library>> {
        self.lock().libraries.get(digest).cloned()
    }

    /// Keeps a library.
    pub(crate) fn keep(&self, digest: &str, library: Library) -> Arc<Library> {
        let (library, mut kept) = (Arc::new(library), self.lock());
        kept.bytes += library.code().len();
        if kept.bytes > KEPT_BYTES_MAX {
            *kept = Kept { bytes: library.code().len(), ..Kept::default() };
        }
        if let Some(before) = kept.libraries.insert(digest.to_owned(), Arc::clone(&library)) {
            kept.bytes -= before.code().len();
        }
        library
    }
}
