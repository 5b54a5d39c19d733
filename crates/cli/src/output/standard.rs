//! Standard output, of which somebody may read the beginning only, and whose disk may be full; and standard error, which may be gone with it.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use crate::exit::Failure;

/// Why something could not be written, the first time.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Prints a line on standard output, as `println!` does, and does not panic.
macro_rules! outln {
    ($($part:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($part)*))) };
}

/// Prints on standard output, as `print!` does, and does not panic.
macro_rules! out {
    ($($part:tt)*) => { $crate::output::print(format_args!($($part)*)) };
}

/// Prints a line on standard error, as `eprintln!` does, and does not panic.
macro_rules! errln {
    ($($part:tt)*) => { $crate::output::tell(format_args!("{}\n", format_args!($($part)*))) };
}

/// Prints on standard error. Where that cannot be there is nowhere to say so.
pub(crate) fn tell(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Prints on standard output. If nobody reads any more the command goes on, and comes to what it comes to: `quorate … | head` is no mistake. Anything
/// else that is in the way is told when the command ends.
pub(crate) fn print(text: Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = written(stdout.write_fmt(text).and_then(|()| stdout.flush())) {
        // The first failure is the one to tell.
        let _ = FAILURE.set(error);
    }
}

/// Writes bytes to standard output, at once. A reader that has gone is no failure, as above.
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let result = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written(result).map_err(|error| Failure::failed(format!("cannot write to standard output: {error}")))
}

/// Standard output for what writes much: it notes that its reader has gone, so that the writer can end.
#[derive(Debug)]
pub(crate) struct Piped {
    to: io::Stdout,
    is_left: bool,
}

impl Piped {
    pub(crate) fn new() -> Self {
        Piped { to: io::stdout(), is_left: false }
    }

    /// True if the reader has gone: a failure to write was none then.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_left |= result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Piped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.to.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.to.flush();
        self.note(result)
    }
}

/// A failure of standard output that the user has to know of.
pub(crate) fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// To write for a reader that has gone is no failure.
fn written(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_no_failure_and_a_full_disk_is() {
        assert!(written(Err(ErrorKind::BrokenPipe.into())).is_ok());
        assert_eq!(written(Err(ErrorKind::StorageFull.into())).unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(written(Ok(())).is_ok());
    }
}
