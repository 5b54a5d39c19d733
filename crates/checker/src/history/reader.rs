//! The streaming reader: one line at a time, buffers reused, the first broken rule ends it.

use std::io::{BufRead, BufReader, Read};

use super::builder::Builder;
use super::draft::{Draft, Names};
use super::line::LineParser;
use super::{History, Malformed, ReadError};

/// A line longer than this is refused rather than read into memory.
const LINE_BYTES_MAX: u64 = 256 << 20;

impl History {
    /// Reads a history of JSON lines.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`] if the input fails, [`ReadError::Malformed`] with the line and the reason for the
    /// first event that breaks the format. Values written twice are found last, because they need all writes.
    pub fn read(input: impl Read) -> Result<History, ReadError> {
        let mut input = BufReader::with_capacity(1 << 18, input);
        let (mut names, mut draft) = (Names::default(), Draft::new());
        let (mut builder, mut parser) = (Builder::default(), LineParser::default());
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            let len = (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
            if len == 0 {
                break;
            }
            let malformed = |reason| ReadError::Malformed { line, reason };
            if len as u64 == LINE_BYTES_MAX {
                return Err(malformed(Malformed::Json { column: len, expected: "a shorter line" }));
            }
            parser.parse(&bytes, &mut names, &mut draft).map_err(malformed)?;
            builder.event(&draft, &mut names).map_err(malformed)?;
        }
        builder
            .finish(names)
            .map_err(|error| ReadError::Malformed { line: error.event + 1, reason: error.reason })
    }
}
