//! Export and import: a keyspace as rows of text.

use std::io::{BufRead, Write};

use quorate::{Cut, CutEntry, Keyspace};
use quorate_core::expiry::Envelope;
use quorate_core::transaction::readable;
use tokio::sync::mpsc;

use crate::create::{Progress, bytes_of};
use crate::error::{Error, Result};
use crate::loader::Loader;
use crate::rows::{Columns, ROW_BYTES_MAX, Rows, is_open, read_json};

/// Pages that wait to be written, of all shards together.
const PAGES_WAITING: usize = 8;

/// Writes everything that a keyspace holds at the instant of a cut as rows, those of keys that begin with a prefix alone. Rows come in no order.
///
/// # Errors
/// The cut is lost, something has no place in such rows, or they cannot be written: then what was written is of no use.
pub async fn export(
    cut: &Cut,
    rows: Rows,
    prefix: &[u8],
    to: &mut (impl Write + Send),
    mut progress: impl FnMut(Progress),
) -> Result<Progress> {
    let (sender, mut pages) = mpsc::channel(PAGES_WAITING);
    for shard in cut.shards() {
        let (mut reader, sender) = (cut.reader(shard), sender.clone());
        tokio::spawn(async move {
            loop {
                let (page, is_last) = match reader.next().await {
                    Ok(Some(entries)) => (Ok(entries), false),
                    Ok(None) => return,
                    Err(error) => (Err(error), true),
                };
                if sender.send(page).await.is_err() || is_last {
                    return;
                }
            }
        });
    }
    drop(sender);
    let unwritable =
        |error: std::io::Error| Error::Unsuitable(format!("the rows cannot be written: {error}"));
    if let Some(header) = rows.header() {
        writeln!(to, "{header}").map_err(unwritable)?;
    }
    let (mut all, mut procedures) = (Progress::default(), std::collections::BTreeSet::new());
    while let Some(page) = pages.recv().await {
        for entry in page? {
            let Some(entry) = without_envelope(cut, entry)? else { continue };
            if !is_wanted(&entry, prefix) {
                continue;
            }
            // Each shard has it, and one row is enough.
            if let CutEntry::Procedure { name, version, .. } = &entry
                && !procedures.insert((name.clone(), *version))
            {
                continue;
            }
            writeln!(to, "{}", rows.write(&entry).map_err(Error::Unsuitable)?).map_err(unwritable)?;
            all.entries += 1;
            all.bytes += bytes_of(&entry);
        }
        progress(all);
    }
    to.flush().map_err(unwritable)?;
    Ok(all)
}

/// The entry with the value alone, where values have envelopes; none if it was over at the instant of the cut. Rows say nothing of expiries: what is imported stays.
fn without_envelope(cut: &Cut, entry: CutEntry) -> Result<Option<CutEntry>> {
    match entry {
        CutEntry::Value { key, value: held } if cut.definition().expiring => {
            let damaged = || Error::Unsuitable(format!("the value of {} has no envelope", readable(&key)));
            let Envelope { value, expiry } = Envelope::decode(&held).map_err(|_| damaged())?;
            let is_over = expiry.is_some_and(|expiry| expiry.as_micros() <= cut.instant_micros());
            Ok((!is_over).then_some(CutEntry::Value { key, value }))
        }
        entry => Ok(Some(entry)),
    }
}

/// True if a key begins with the prefix; procedures have none, and are wanted if all is.
fn is_wanted(entry: &CutEntry, prefix: &[u8]) -> bool {
    match entry {
        CutEntry::Value { key, .. }
        | CutEntry::Count { set: key, .. }
        | CutEntry::Counter { counter: key, .. } => key.starts_with(prefix),
        CutEntry::Procedure { .. } => prefix.is_empty(),
    }
}

/// How an import has ended.
#[derive(Debug)]
pub struct Imported {
    /// How much was written.
    pub written: Progress,
    /// Up to this line everything is committed.
    pub lines: u64,
    /// Why it has not come to the end; none if it has.
    pub stopped: Option<Error>,
}

/// Writes rows into a keyspace, from behind so many lines. Rows are written in transactions of some hundred, several at a time; if it stops, the
/// lines up to which everything is committed are told, and a few behind them may be committed as well.
pub async fn import(
    keyspace: &Keyspace,
    rows: Rows,
    from: &mut (impl BufRead + Send),
    skip: u64,
    mut progress: impl FnMut(Progress),
) -> Imported {
    let mut loader = Loader::new(keyspace.clone());
    let mut source = Source { from, rows, columns: None, line: 0 };
    let mut stopped = None;
    let mut last = skip;
    loop {
        let entry = match source.next(skip) {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => {
                stopped = Some(error);
                break;
            }
        };
        last = source.line;
        if let Err(error) = loader.add(entry, source.line).await {
            stopped = Some(error);
            break;
        }
        progress(loader.committed());
    }
    // The rows before one that is wrong are committed all the same.
    let finished = loader.finish().await;
    let lines = match &finished {
        Ok(()) if stopped.is_none() => source.line,
        Ok(()) => last.max(loader.committed_mark()),
        Err(_) => loader.committed_mark().max(skip),
    };
    Imported { written: loader.committed(), lines, stopped: stopped.or(finished.err()) }
}

/// Rows, one after the other.
struct Source<'a, R> {
    from: &'a mut R,
    rows: Rows,
    columns: Option<Columns>,
    line: u64,
}

impl<R: BufRead> Source<'_, R> {
    /// The next entry behind so many lines; none if there are no more.
    fn next(&mut self, skip: u64) -> Result<Option<CutEntry>> {
        loop {
            let Some(row) = self.row()? else { return Ok(None) };
            let wrong = |reason: String| Error::Row { line: self.line, reason };
            if self.rows == Rows::Csv && self.columns.is_none() {
                self.columns = Some(Columns::read(&row).map_err(wrong)?);
                continue;
            }
            if self.line <= skip || row.trim().is_empty() {
                continue;
            }
            let entry = match &self.columns {
                Some(columns) => columns.entry(&row),
                None => read_json(&row),
            };
            let entry = entry.map_err(wrong)?;
            if let CutEntry::Value { key, .. } = &entry
                && key.is_empty()
            {
                return Err(wrong("a key has one byte at least".to_owned()));
            }
            return Ok(Some(entry));
        }
    }

    /// The next row, of several lines if quotes are open.
    fn row(&mut self) -> Result<Option<String>> {
        let mut row = Vec::new();
        loop {
            let before = row.len();
            let mut limited = std::io::Read::take(&mut *self.from, (ROW_BYTES_MAX - before + 1) as u64);
            limited
                .read_until(b'\n', &mut row)
                .map_err(|error| Error::Unsuitable(format!("the rows cannot be read: {error}")))?;
            if row.len() == before {
                break;
            }
            self.line += 1;
            if row.len() > ROW_BYTES_MAX {
                let reason = format!("it is longer than {ROW_BYTES_MAX} bytes: is a quote not closed?");
                return Err(Error::Row { line: self.line, reason });
            }
            if self.rows == Rows::Json || !is_open(&row) {
                break;
            }
        }
        if row.is_empty() {
            return Ok(None);
        }
        while row.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            row.pop();
        }
        let text = String::from_utf8(row).map_err(|_| Error::Row {
            line: self.line,
            reason: "it is no UTF-8: put bytes in base64".to_owned(),
        })?;
        // Programs of others may begin a file with the mark of its encoding.
        let text = if self.line == 1 { text.trim_start_matches('\u{feff}').to_owned() } else { text };
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{Key, Value};

    use super::*;

    fn entries(rows: Rows, text: &str, skip: u64) -> Result<Vec<CutEntry>> {
        let mut bytes = text.as_bytes();
        let mut source = Source { from: &mut bytes, rows, columns: None, line: 0 };
        let mut entries = Vec::new();
        while let Some(entry) = source.next(skip)? {
            entries.push(entry);
        }
        Ok(entries)
    }

    fn value(key: &str, value: &str) -> CutEntry {
        CutEntry::Value { key: Key::from(key), value: Value::copy_from_slice(value.as_bytes()) }
    }

    #[test]
    fn rows_are_read_line_by_line_with_any_ends_and_behind_those_that_are_skipped() {
        let text = "\u{feff}{\"key\":\"a\",\"value\":\"1\"}\r\n\n{\"key\":\"b\",\"value\":\"2\"}";
        assert_eq!(entries(Rows::Json, text, 0).unwrap(), [value("a", "1"), value("b", "2")]);
        assert_eq!(entries(Rows::Json, text, 2).unwrap(), [value("b", "2")]);
        assert_eq!(entries(Rows::Json, text, 3).unwrap(), []);
    }

    #[test]
    fn a_row_of_csv_may_have_several_lines_and_the_names_are_read_whatever_is_skipped() {
        let text = "key,value\n\"a\nb\",1\nc,\"2\n\n3\"\n";
        assert_eq!(entries(Rows::Csv, text, 0).unwrap(), [value("a\nb", "1"), value("c", "2\n\n3")]);
        assert_eq!(entries(Rows::Csv, text, 3).unwrap(), [value("c", "2\n\n3")]);
    }

    #[test]
    fn a_row_that_is_wrong_is_named_by_its_line() {
        let error = |rows, text: &str| entries(rows, text, 0).unwrap_err().to_string();
        assert!(
            error(Rows::Json, "{\"key\":\"a\",\"value\":\"1\"}\n{").starts_with("line 2: this is no JSON")
        );
        assert!(error(Rows::Json, "{\"key\":\"\",\"value\":\"1\"}").contains("line 1: a key has one byte"));
        assert!(error(Rows::Csv, "key,value\na,1\nb").starts_with("line 3: it has 1 fields"));
        assert!(error(Rows::Csv, "a,b\n").starts_with("line 1: the first line names"));
        let endless = format!("key,value\n\"{}", "x".repeat(ROW_BYTES_MAX + 10));
        assert!(error(Rows::Csv, &endless).contains("is a quote not closed?"));
    }
}
