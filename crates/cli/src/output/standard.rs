//! Standard output, of which somebody may read the beginning only, and whose disk may be full.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

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

/// Prints on standard output. If nobody reads any more the command goes on, and comes to what it comes to: `quorate … | head` is no mistake. Anything
/// else that is in the way is told when the command ends.
pub(crate) fn print(text: Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = written(stdout.write_fmt(text).and_then(|()| stdout.flush())) {
        // The first failure is the one to tell.
        let _ = FAILURE.set(error);
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
