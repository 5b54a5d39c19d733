//! The streaming reader: blocks of lines are parsed by other threads and built into a history by this one.
//!
//! Parsing looks at every byte, building only at numbers; so parsing is what other processors can help with.
//! Block after block goes to the threads in turn and comes back in the same turn, hence the history, and the
//! line of the first broken rule, do not depend on how many threads there are.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

use super::blocks::{self, Blocks, LINE_BYTES_MAX};
use super::builder::Builder;
use super::draft::Batch;
use super::line::LineParser;
use super::{History, Malformed, ReadError};

/// So many blocks are on their way to and from each thread.
const BLOCKS_PER_THREAD: usize = 3;
/// More threads would wait for this one, which builds.
const THREADS_MAX: usize = 4;

impl History {
    /// Reads a history of JSON lines, with the help of other threads if it is long.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`] if the input fails, [`ReadError::Malformed`] with the line and the reason for the
    /// first event that breaks the format. Values written twice are found last, because they need all writes.
    pub fn read(input: impl Read) -> Result<History, ReadError> {
        let mut reader = Reader { blocks: Blocks::new(input), builder: Builder::default(), lines: 0 };
        let mut first = Work::default();
        reader.blocks.next(&mut first.block)?;
        let threads = if reader.blocks.is_at_end() {
            0
        } else {
            thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
        };
        reader.read(first, threads)?;
        reader
            .builder
            .finish()
            .map_err(|error| ReadError::Malformed { line: error.event + 1, reason: error.reason })
    }
}

/// A block of lines and what it says.
#[derive(Default)]
struct Work {
    block: Vec<u8>,
    batch: Batch,
    /// The fault in the line after those of the batch, if there is one.
    malformed: Option<Malformed>,
}

impl Work {
    /// Parses the block up to its end or to the first line that is not of the format.
    fn parse(&mut self, parser: &mut LineParser) {
        self.batch.clear();
        self.malformed = blocks::lines(&self.block).find_map(|line| {
            if line.len() >= LINE_BYTES_MAX {
                return Some(Malformed::Json { column: line.len(), expected: "a shorter line" });
            }
            parser.parse(line, &mut self.batch).err()
        });
    }
}

/// A thread that parses.
struct Helper {
    work: SyncSender<Work>,
    done: Receiver<Work>,
}

impl Helper {
    /// Starts a thread; none if the system has none to give.
    fn start<'scope>(scope: &'scope Scope<'scope, '_>) -> Option<Self> {
        let (work, to_do) = sync_channel::<Work>(BLOCKS_PER_THREAD);
        let (finished, done) = sync_channel::<Work>(BLOCKS_PER_THREAD);
        let parse = move || {
            let mut parser = LineParser::default();
            for mut work in to_do {
                work.parse(&mut parser);
                if finished.send(work).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().spawn_scoped(scope, parse).ok().map(|_| Helper { work, done })
    }
}

struct Reader<R> {
    blocks: Blocks<R>,
    builder: Builder,
    /// Lines that have been built.
    lines: u64,
}

impl<R: Read> Reader<R> {
    fn read(&mut self, first: Work, threads: usize) -> Result<(), ReadError> {
        thread::scope(|scope| {
            let helpers: Vec<Helper> = (0..threads).map_while(|_| Helper::start(scope)).collect();
            if helpers.is_empty() { self.read_alone(first) } else { self.read_with(&helpers, first) }
        })
    }

    fn read_alone(&mut self, mut work: Work) -> Result<(), ReadError> {
        let mut parser = LineParser::default();
        while !work.block.is_empty() {
            work.parse(&mut parser);
            self.build(&mut work)?;
            self.blocks.next(&mut work.block)?;
        }
        Ok(())
    }

    fn read_with(&mut self, helpers: &[Helper], first: Work) -> Result<(), ReadError> {
        let mut spare = vec![first];
        spare.resize_with(helpers.len() * BLOCKS_PER_THREAD, Work::default);
        spare.reverse();
        let (mut sent, mut received) = (0, 0);
        let mut failure = None;
        let mut more = true;
        loop {
            while more && let Some(mut work) = spare.pop() {
                if sent > 0 {
                    failure = self.blocks.next(&mut work.block).err();
                }
                more = failure.is_none() && !work.block.is_empty();
                if more {
                    helpers[sent % helpers.len()].work.send(work).map_err(|_| gone())?;
                    sent += 1;
                }
            }
            if received == sent {
                // Lines before the failure come first, should one of them be malformed.
                return failure.map_or(Ok(()), |failure| Err(failure.into()));
            }
            let mut work = helpers[received % helpers.len()].done.recv().map_err(|_| gone())?;
            received += 1;
            self.build(&mut work)?;
            spare.push(work);
        }
    }

    /// Takes the events of a block into the history.
    fn build(&mut self, work: &mut Work) -> Result<(), ReadError> {
        let built = self.builder.batch(&mut work.batch);
        let (events, malformed) = match built {
            Ok(()) => (work.batch.drafts.len() as u64, work.malformed.take()),
            Err((events, malformed)) => (events as u64, Some(malformed)),
        };
        self.lines += events;
        malformed.map_or(Ok(()), |reason| Err(ReadError::Malformed { line: self.lines + 1, reason }))
    }
}

/// A thread that parses ends early only by a panic, which the scope passes on.
fn gone() -> io::Error {
    io::Error::other("a thread that parses has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// A history of many blocks in which names keep appearing; `change` may spoil a line.
    fn long_history(change: impl Fn(usize, String) -> String) -> String {
        let padding = "x".repeat(20_000);
        let mut text = String::new();
        for line in 0..400 {
            let (txn, kind) = (line / 2, if line % 2 == 0 { "invoke" } else { "ok" });
            let event = format!(
                "{{\"index\":{line},\"type\":\"{kind}\",\"process\":0,\"time\":{line},\"site\":\"s{}\",\"session\":\"c{txn}\",\
                 \"value\":[[\"append\",\"k{}\",{txn}]],\"padding\":\"{padding}\"}}",
                txn % 3,
                txn % 50,
            );
            writeln!(text, "{}", change(line, event)).unwrap();
        }
        text
    }

    fn read(input: impl Read, threads: usize) -> Result<History, ReadError> {
        let mut reader = Reader { blocks: Blocks::new(input), builder: Builder::default(), lines: 0 };
        let mut first = Work::default();
        reader.blocks.next(&mut first.block)?;
        reader.read(first, threads)?;
        Ok(reader.builder.finish().unwrap())
    }

    #[test]
    fn any_number_of_threads_reads_the_same() {
        let text = long_history(|_, event| event);
        assert!(text.len() > 5 * blocks::BLOCK_BYTES);
        let alone = format!("{:?}", read(text.as_bytes(), 0).unwrap());
        for threads in [1, 2, 5] {
            assert!(alone == format!("{:?}", read(text.as_bytes(), threads).unwrap()), "{threads} threads");
        }
    }

    #[test]
    fn the_first_broken_rule_is_named_whoever_finds_it() {
        for line in [0, 37, 38, 211, 399] {
            // One rule that parsing sees, and one that building sees; all later lines break another one.
            for (good, bad, reason) in [
                ("\"process\":0", "\"process\":", "expected an integer process"),
                ("\"time\":", "\"time\":-", "time goes back"),
                ("\"append\"", "\"push\"", "unknown operation"),
                ("\"index\":", "\"index\":9", "was due"),
            ] {
                let text = long_history(|at, event| match at.cmp(&line) {
                    std::cmp::Ordering::Less => event,
                    std::cmp::Ordering::Equal => event.replacen(good, bad, 1),
                    std::cmp::Ordering::Greater => "rubbish".to_string(),
                });
                if line == 0 && bad == "\"time\":-" {
                    continue;
                }
                for threads in [0, 1, 3] {
                    let error = read(text.as_bytes(), threads).unwrap_err().to_string();
                    let expected = format!("line {}: ", line + 1);
                    assert!(
                        error.starts_with(&expected) && error.contains(reason),
                        "{threads} threads: {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn lines_before_a_failure_of_the_input_come_first() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("unplugged"))
            }
        }
        let spoiled = long_history(|at, event| if at == 250 { String::new() } else { event });
        for threads in [0, 2] {
            let error = read(spoiled.as_bytes().chain(Broken), threads).unwrap_err().to_string();
            assert!(error.starts_with("line 251: "), "{error}");
            let error = read(long_history(|_, event| event).as_bytes().chain(Broken), threads).unwrap_err();
            assert_eq!(error.to_string(), "cannot read the history: unplugged");
        }
    }
}
