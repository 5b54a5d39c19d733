//! Whether a backup is as it was written: everything that a restoration reads is read, and nothing is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quorate::CutEntry;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::archive::{Archive, name_in};
use crate::cipher::Cipher;
use crate::create::Progress;
use crate::error::{Error, Result};
use crate::manifest::{File, Manifest};
use crate::segment::SegmentReader;

/// So many bytes of a segment are asked for at a time.
const READ_BYTES: u64 = 4 * 1024 * 1024;

/// Reads all files of a backup, also those that it leans on, and compares them with its manifest.
///
/// # Errors
/// The first file that is not as it was written, and what is wrong with it.
pub async fn verify(
    archive: &Arc<dyn Archive>,
    folder: &str,
    manifest: &Manifest,
    cipher: Option<&Cipher>,
    mut progress: impl FnMut(Progress),
) -> Result<()> {
    let cipher = manifest.cipher(cipher)?.cloned();
    check_files(&**archive, folder, manifest).await?;
    let (segments, cipher) = (Segments::new(archive, folder, manifest), cipher);
    let mut all = Progress::default();
    for file in manifest.files.clone() {
        let (sender, mut blocks) = mpsc::channel(4);
        let (segments, cipher) = (segments.clone(), cipher.clone());
        let reader = tokio::task::spawn_blocking(move || {
            segments.read(&file, cipher.as_ref(), |entries| {
                let bytes = entries.iter().map(crate::create::bytes_of).sum();
                // Nobody listens any more if the command was stopped.
                let _ = sender.blocking_send(Progress { entries: entries.len() as u64, bytes });
                Ok(())
            })
        });
        while let Some(Progress { entries, bytes }) = blocks.recv().await {
            all.entries += entries;
            all.bytes += bytes;
            progress(all);
        }
        reader
            .await
            .map_err(|error| Error::Unsuitable(format!("a segment is not read any more: {error}")))??;
    }
    Ok(())
}

/// Whether all files are there, with their lengths: before anything is done with one of them.
pub(crate) async fn check_files(archive: &dyn Archive, folder: &str, manifest: &Manifest) -> Result<()> {
    let folders: BTreeSet<&str> =
        manifest.files.iter().map(|file| file.from.as_deref().unwrap_or(folder)).collect();
    let mut lengths: BTreeMap<(&str, String), u64> = BTreeMap::new();
    for folder in folders {
        for object in archive.list(folder).await? {
            lengths.insert((folder, object.name), object.bytes);
        }
    }
    for file in &manifest.files {
        let damaged = |reason: String| Error::damaged(&named(file), reason);
        match lengths.get(&(file.from.as_deref().unwrap_or(folder), file.name.clone())) {
            None => return Err(damaged("it is missing".to_owned())),
            Some(length) if *length != file.bytes => {
                return Err(damaged(format!("it has {length} bytes, and the manifest says {}", file.bytes)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The name of a file for messages: with its folder, if that is another one.
fn named(file: &File) -> String {
    name_in(file.from.as_deref().unwrap_or(""), &file.name)
}

/// The segments of a backup, to be read on a thread that may block.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    archive: Arc<dyn Archive>,
    folder: Arc<str>,
    manifest: Arc<Manifest>,
    runtime: Handle,
}

impl Segments {
    pub(crate) fn new(archive: &Arc<dyn Archive>, folder: &str, manifest: &Manifest) -> Self {
        Segments {
            archive: Arc::clone(archive),
            folder: folder.into(),
            manifest: Arc::new(manifest.clone()),
            runtime: Handle::current(),
        }
    }

    /// Reads what a backup uses of a segment block by block, and compares all of it with the manifest at its end.
    pub(crate) fn read(
        &self,
        file: &File,
        cipher: Option<&Cipher>,
        mut each: impl FnMut(Vec<CutEntry>) -> Result<()>,
    ) -> Result<()> {
        let name = name_in(file.from.as_deref().unwrap_or(&self.folder), &file.name);
        let mut failure = None;
        let source = ObjectReader {
            archive: &*self.archive,
            runtime: &self.runtime,
            name: &name,
            at: 0,
            length: file.bytes,
            read: Bytes::new(),
            failure: &mut failure,
        };
        let read = self.read_from(file, source, cipher, &mut each);
        // The archive has a reason of its own, with a remedy, where the reader saw that bytes did not come.
        match failure {
            Some(error) => Err(error),
            None => read,
        }
    }

    fn read_from(
        &self,
        file: &File,
        source: ObjectReader<'_>,
        cipher: Option<&Cipher>,
        each: &mut impl FnMut(Vec<CutEntry>) -> Result<()>,
    ) -> Result<()> {
        let (named, place) = (named(file), self.manifest.place(file));
        let mut reader = match file.used()? {
            None => SegmentReader::of_blocks(&named, source, place, cipher)?,
            Some(used) => SegmentReader::of_chunks(&named, source, place, used, cipher)?,
        };
        while let Some(entries) = reader.next_block()? {
            each(entries)?;
        }
        if reader.content() != file.expected()? {
            return Err(Error::damaged(&named, "it is whole, and not the one that the manifest means"));
        }
        Ok(())
    }
}

/// Reads an object from its beginning to its end, on a thread that may block.
struct ObjectReader<'a> {
    archive: &'a dyn Archive,
    runtime: &'a Handle,
    name: &'a str,
    at: u64,
    length: u64,
    read: Bytes,
    /// The error of the archive, if it had one.
    failure: &'a mut Option<Error>,
}

impl io::Read for ObjectReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read.is_empty() && self.at < self.length {
            let wanted = READ_BYTES.min(self.length - self.at);
            match self.runtime.block_on(self.archive.read(self.name, self.at, wanted)) {
                Ok(Some(bytes)) => {
                    self.at += bytes.len() as u64;
                    self.read = bytes;
                }
                Ok(None) => {
                    *self.failure = Some(Error::damaged(self.name, "it is missing"));
                    return Err(io::ErrorKind::NotFound.into());
                }
                Err(error) => {
                    let told = io::Error::other(error.to_string());
                    *self.failure = Some(error);
                    return Err(told);
                }
            }
        }
        let length = buffer.len().min(self.read.len());
        buffer[..length].copy_from_slice(&self.read.split_to(length));
        Ok(length)
    }
}
