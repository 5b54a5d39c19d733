//! Whether a backup is as it was written: everything that a restoration reads is read, and nothing is changed.

use std::fs;
use std::path::Path;

use quorate::CutEntry;

use crate::cipher::Cipher;
use crate::create::Progress;
use crate::error::{Error, Result};
use crate::manifest::{File, Manifest};
use crate::segment::SegmentReader;

/// Reads all files of a backup, and compares them with its manifest.
///
/// # Errors
/// The first file that is not as it was written, and what is wrong with it.
pub fn verify(
    folder: &Path,
    manifest: &Manifest,
    cipher: Option<&Cipher>,
    mut progress: impl FnMut(Progress),
) -> Result<()> {
    let cipher = manifest.cipher(cipher)?;
    check_files(folder, manifest)?;
    let mut all = Progress::default();
    for file in &manifest.files {
        read_segment(folder, manifest, file, cipher, |entries| {
            all.entries += entries.len() as u64;
            all.bytes += entries.iter().map(crate::create::bytes_of).sum::<u64>();
            progress(all);
            Ok(())
        })?;
    }
    Ok(())
}

/// Whether all files are there, with their lengths: before anything is done with one of them.
pub(crate) fn check_files(folder: &Path, manifest: &Manifest) -> Result<()> {
    for file in &manifest.files {
        let path = folder.join(&file.name);
        let length = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::damaged(&file.name, "it is missing"));
            }
            Err(error) => return Err(Error::file("read", &path)(error)),
        };
        if length != file.bytes {
            let reason = format!("it has {length} bytes, and the manifest says {}", file.bytes);
            return Err(Error::damaged(&file.name, reason));
        }
    }
    Ok(())
}

/// Reads a segment block by block, and compares all of it with the manifest at its end.
pub(crate) fn read_segment(
    folder: &Path,
    manifest: &Manifest,
    file: &File,
    cipher: Option<&Cipher>,
    mut each: impl FnMut(Vec<CutEntry>) -> Result<()>,
) -> Result<()> {
    let path = folder.join(&file.name);
    let opened = fs::File::open(&path).map_err(Error::file("open", &path))?;
    let source = std::io::BufReader::with_capacity(256 * 1024, opened);
    let mut reader = SegmentReader::new(&file.name, source, manifest.place(file), cipher)?;
    while let Some(entries) = reader.next_block()? {
        each(entries)?;
    }
    if reader.content() != file.expected()? {
        return Err(Error::damaged(&file.name, "it is whole, and not the one that the manifest means"));
    }
    Ok(())
}
