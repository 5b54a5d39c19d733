//! `quorate check --export FORMAT`: the history for another checker.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use quorate_checker::History;
use quorate_checker::export::{ExportError, Format, UnknownFormat, write};

use crate::exit::Failure;

/// A format, and the file to write, if the usual name will not do.
#[derive(Clone, Debug)]
pub(super) struct Export {
    format: Format,
    file: Option<PathBuf>,
}

impl FromStr for Export {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let (format, file) = match text.split_once('=') {
            Some((format, file)) => (format, Some(PathBuf::from(file))),
            None => (text, None),
        };
        Ok(Export { format: format.parse()?, file })
    }
}

impl Export {
    /// Writes the history, and says on standard error where to and what was left out.
    pub(super) fn write(&self, history: &History, source: &Path) -> Result<(), Failure> {
        let path = self.file.clone().unwrap_or_else(|| usual_name(source, self.format));
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("cannot write {}: {error}", path.display()))
        };
        let file = File::create(&path).map_err(|error| failed(&error))?;
        let left_out = write(history, self.format, file).map_err(|error| {
            // Half a history would look like a whole one. If it cannot be removed, the message stands.
            let _ = std::fs::remove_file(&path);
            match error {
                ExportError::Inexpressible(why) => {
                    Failure::usage(format!("cannot export to {}: {why}", self.format))
                }
                ExportError::Io(error) => failed(&error),
            }
        })?;
        errln!("written for {} to {}; left out: {left_out}", self.format, path.display());
        Ok(())
    }
}

/// The name of the history in the current directory, with the ending of the format.
fn usual_name(source: &Path, format: Format) -> PathBuf {
    let stem = source.file_stem().filter(|_| source != Path::new("-"));
    let stem = stem.map_or("history".into(), |stem| stem.to_string_lossy());
    PathBuf::from(format!("{stem}.{}", format.extension()))
}
