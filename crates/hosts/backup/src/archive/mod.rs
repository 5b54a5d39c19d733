//! Archives: where backups are kept, behind few operations.
//!
//! | kind | an object is | it is there whole or not at all because |
//! |---|---|---|
//! | [`Directory`] | a file | it has another name until it is durable |
//! | [`Bucket`] | an object of S3, Google Cloud Storage, Azure, or a server that speaks like one | such stores show an object once its upload is complete |
//!
//! An object is written once, read in parts, and deleted; nothing is renamed or changed. So a backup relies on nothing that object stores lack.
//!
//! Futures of a [`Directory`] wait for the disk on the thread that polls them: objects of more than some kilobytes are written and read on a thread that may
//! block.

mod bucket;
mod directory;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::listing::is_backup;

pub use bucket::Bucket;
pub use directory::Directory;

/// An operation that is under way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// An object of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name within the folder that was listed.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The time since it was written, as far as the clocks of this machine and of the archive agree.
    pub age: Duration,
}

/// A place that keeps backups. Names have the form `FOLDER/NAME`.
pub trait Archive: fmt::Debug + Send + Sync {
    /// The location, for people.
    fn location(&self) -> String;

    /// Makes the archive ready to be written to.
    fn prepare(&self) -> Pending<'_, ()>;

    /// The names of all folders, in order.
    fn folders(&self) -> Pending<'_, Vec<String>>;

    /// The objects in a folder, by name; none if there is no such folder.
    fn list<'a>(&'a self, folder: &'a str) -> Pending<'a, Vec<Object>>;

    /// At most so many bytes of an object from a position on; none if there is no such object. The position lies within it.
    fn read<'a>(&'a self, name: &'a str, from: u64, bytes: u64) -> Pending<'a, Option<Bytes>>;

    /// Begins to write an object.
    fn write<'a>(&'a self, name: &'a str) -> Pending<'a, Box<dyn Writing>>;

    /// Deletes an object, if it is there.
    fn delete<'a>(&'a self, name: &'a str) -> Pending<'a, ()>;
}

/// An object that is being written. It is not there before it is finished.
pub trait Writing: fmt::Debug + Send {
    /// Adds bytes.
    fn write(&mut self, bytes: Bytes) -> Pending<'_, ()>;

    /// Makes the object durable under its name, and tells its length.
    fn finish(self: Box<Self>) -> Pending<'static, u64>;

    /// Gives up what was written.
    fn abandon(self: Box<Self>) -> Pending<'static, ()>;
}

/// The name of an object in a folder. A backup that lies at the root of its archive has a folder without a name.
pub(crate) fn name_in(folder: &str, object: &str) -> String {
    match folder.is_empty() {
        true => object.to_owned(),
        false => format!("{folder}/{object}"),
    }
}

/// Writes a whole object.
pub(crate) async fn put(archive: &dyn Archive, name: &str, bytes: Bytes) -> Result<()> {
    let mut writing = archive.write(name).await?;
    match writing.write(bytes).await {
        Ok(()) => writing.finish().await.map(|_| ()),
        Err(error) => {
            // The first error says more than a second one would.
            let _ = writing.abandon().await;
            Err(error)
        }
    }
}

/// A location that was opened: an archive, and the one backup in it that the location names, if it names one.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The archive.
    pub archive: Arc<dyn Archive>,
    /// The folder of the backup; none if the location is a whole archive.
    pub folder: Option<String>,
}

/// The archive at a location: a path, `file://` and an absolute one, or `s3://`, `gs://` or `az://` with a bucket and perhaps a prefix. Requests to an object
/// store are repeated for as long as the patience lasts.
///
/// # Errors
/// The location is none of these, or the environment does not say how an object store is reached.
pub fn archive_at(location: &str, patience: Duration) -> Result<Arc<dyn Archive>> {
    let refused = |reason: String| Error::Location { location: location.to_owned(), reason };
    match location.split_once("://") {
        None if location.is_empty() => {
            Err(refused("name a folder, or an object store as s3://BUCKET/PREFIX".to_owned()))
        }
        None => Ok(Arc::new(Directory::new(PathBuf::from(location)))),
        Some(("file", path)) if path.starts_with('/') => Ok(Arc::new(Directory::new(PathBuf::from(path)))),
        Some(("file", _)) => {
            Err(refused("a URL of a file has an absolute path, as file:///backups".to_owned()))
        }
        Some((scheme @ ("s3" | "gs" | "az"), path)) => Ok(Arc::new(Bucket::open(scheme, path, patience)?)),
        Some((scheme, _)) => Err(refused(format!(
            "{scheme} is not known; name a folder, file:/// and its path, or s3://, gs:// or az:// with a bucket and a prefix"
        ))),
    }
}

/// Opens a location that may be a backup itself, or an archive.
///
/// # Errors
/// As [`archive_at`], or the archive cannot be read.
pub async fn open(location: &str, patience: Duration) -> Result<Opened> {
    let archive = archive_at(location, patience)?;
    if !is_backup(&*archive, "").await? {
        return Ok(Opened { archive, folder: None });
    }
    // The folders that the backup leans on lie beside it.
    match parent_of(location) {
        Some((parent, folder)) => {
            Ok(Opened { archive: archive_at(&parent, patience)?, folder: Some(folder) })
        }
        None => Ok(Opened { archive, folder: Some(String::new()) }),
    }
}

/// The location of the archive that a backup lies in, and the name of its folder.
///
/// # Errors
/// The location is no folder of an archive.
pub fn folder_at(location: &str) -> Result<(String, String)> {
    parent_of(location).ok_or_else(|| Error::Location {
        location: location.to_owned(),
        reason: "name a backup in it, as `quorate backup list` shows them".to_owned(),
    })
}

/// The location that a folder lies in, and the name of the folder; none if the location is a root.
fn parent_of(location: &str) -> Option<(String, String)> {
    let (scheme, path) = match location.split_once("://") {
        Some((scheme, path)) => (format!("{scheme}://"), path),
        None => (String::new(), location),
    };
    let path = path.trim_end_matches('/');
    let is_bucket = !matches!(scheme.as_str(), "" | "file://");
    match path.rsplit_once('/') {
        _ if path.is_empty() => None,
        Some((parent, folder)) if !matches!(folder, "." | "..") => {
            let parent = if parent.is_empty() { "/" } else { parent };
            Some((format!("{scheme}{parent}"), folder.to_owned()))
        }
        None if !is_bucket && !matches!(path, "." | "..") => Some((".".to_owned(), path.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod faulty;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_as_a_table() {
        let location = |text: &str| archive_at(text, Duration::ZERO).map(|archive| archive.location());
        assert_eq!(location("backups").unwrap(), "backups");
        assert_eq!(location("file:///a/b").unwrap(), "/a/b");
        assert_eq!(location("s3://bucket/some/prefix/").unwrap(), "s3://bucket/some/prefix");
        for (text, reason) in [
            ("", "name a folder"),
            ("file://a", "absolute path"),
            ("s3://", "name a bucket"),
            ("s3:///x", "name a bucket"),
            ("ftp://x", "ftp is not known"),
        ] {
            let error = location(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn the_archive_of_a_backup_is_the_place_beside_it() {
        for (location, expected) in [
            ("/backups/a-1/", Some(("/backups", "a-1"))),
            ("/a-1", Some(("/", "a-1"))),
            ("a-1", Some((".", "a-1"))),
            ("../a-1", Some(("..", "a-1"))),
            ("file:///backups/a-1", Some(("file:///backups", "a-1"))),
            ("s3://bucket/x/a-1", Some(("s3://bucket/x", "a-1"))),
            ("s3://bucket/a-1", Some(("s3://bucket", "a-1"))),
            ("s3://bucket", None),
            (".", None),
            ("a/..", None),
            ("/", None),
        ] {
            let found = parent_of(location);
            let found = found.as_ref().map(|(parent, folder)| (parent.as_str(), folder.as_str()));
            assert_eq!(found, expected, "{location}");
        }
    }
}
