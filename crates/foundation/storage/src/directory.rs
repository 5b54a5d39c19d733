//! The needs of a log from the place where its files lie.

use std::fmt::Debug;
use std::io;
use std::path::Path;

/// A directory that holds a log: of a file system ([`Files`](crate::Files)), or of a simulated one.
///
/// Clones name the same directory. Bytes that were written are durable once the file has been synced, and the names of files
/// once the directory has; a crash may take back anything else.
pub trait Directory: Clone + Debug {
    /// A file in it.
    type File: LogFile;
    /// Keeps others out for as long as it is not dropped.
    type Lock: Debug;

    /// Its path, for messages.
    fn path(&self) -> &Path;

    /// Creates it, durably, if it is not there.
    fn create(&self) -> io::Result<()>;

    /// Keeps others out; nothing if somebody else does that already.
    fn lock(&self) -> io::Result<Option<Self::Lock>>;

    /// The names of its files, in any order; none if it is not there.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates an empty file, or empties the one that is there.
    fn create_file(&self, name: &str) -> io::Result<Self::File>;

    /// Opens a file to read and write.
    fn open_file(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name, in place of the file that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names of files durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file of a log.
pub trait LogFile: Debug {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Its bytes from this offset on, at most so many.
    fn read_at(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>>;

    /// Lets what is read next come from the medium and not from what the operating system remembers of it, where it can be told
    /// to.
    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    /// Overwrites what stands from this offset on, and lengthens the file where needed.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes everything that was written durable, with what is needed to find it again.
    fn sync(&self) -> io::Result<()>;
}
