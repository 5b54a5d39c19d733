//! An input in pieces of whole lines.

use std::io::{self, BufRead, Read};

/// About so many bytes make a block: enough to be worth handing to another thread, and little enough to stay
/// in its cache.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// A line longer than this is refused rather than read into memory.
pub(super) const LINE_BYTES_MAX: usize = 256 << 20;

/// Cuts an input into blocks that end where a line ends, or where the input does.
pub(super) struct Blocks<R> {
    input: R,
    /// The beginning of a line whose end has not been read yet.
    rest: Vec<u8>,
    is_at_end: bool,
}

impl<R: Read> Blocks<R> {
    pub(super) fn new(input: R) -> Self {
        Blocks { input, rest: Vec::new(), is_at_end: false }
    }

    /// Whether the input has ended and nothing of it is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_at_end && self.rest.is_empty()
    }

    /// Fills `block` with the next lines; it stays empty at the end of the input. A line that is too long
    /// comes without its end.
    pub(super) fn next(&mut self, block: &mut Vec<u8>) -> io::Result<()> {
        block.clear();
        block.append(&mut self.rest);
        while !self.is_at_end {
            let searched = block.len();
            let wanted = BLOCK_BYTES.saturating_sub(searched).max(BLOCK_BYTES / 4);
            let len = (&mut self.input).take(wanted as u64).read_to_end(block)?;
            self.is_at_end = len < wanted;
            if let Some(end) = block[searched..].iter().rposition(|&byte| byte == b'\n') {
                if !self.is_at_end {
                    self.rest.extend_from_slice(&block[searched + end + 1..]);
                    block.truncate(searched + end + 1);
                }
                break;
            }
            if block.len() >= LINE_BYTES_MAX {
                break;
            }
        }
        Ok(())
    }
}

/// The lines of a block, each with its end.
pub(super) fn lines(mut block: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let start = block;
        let len = block.skip_until(b'\n').unwrap_or(start.len());
        (len > 0).then(|| &start[..len])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives so many bytes at a time at most.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = buffer.len().min(self.1).min(self.0.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    /// The blocks of an input.
    fn cut(input: &[u8], at_a_time: usize) -> Vec<Vec<u8>> {
        let mut blocks = Blocks::new(Slow(input, at_a_time));
        let mut all = Vec::new();
        while !blocks.is_at_end() {
            let mut block = Vec::new();
            blocks.next(&mut block).unwrap();
            all.push(block);
        }
        all
    }

    #[test]
    fn blocks_are_whole_lines_and_nothing_is_lost() {
        for (line_len, last_line_ends) in [(10, true), (3000, false), (BLOCK_BYTES + 7, true)] {
            let line = [vec![b'x'; line_len], vec![b'\n']].concat();
            let mut input = line.repeat(3 * BLOCK_BYTES / line.len() + 1);
            if !last_line_ends {
                input.pop();
            }
            for at_a_time in [65_537, usize::MAX] {
                let blocks = cut(&input, at_a_time);
                assert!(blocks.len() > 2, "{line_len}");
                assert!(blocks.concat() == input, "{line_len}");
                assert!(blocks[..blocks.len() - 1].iter().all(|block| block.ends_with(b"\n")), "{line_len}");
            }
        }
        assert_eq!(cut(b"one line", 3), [b"one line"]);
        assert_eq!(cut(b"", 3).concat(), b"");
    }

    #[test]
    fn lines_keep_their_ends() {
        let lines = |block: &'static str| super::lines(block.as_bytes()).collect::<Vec<_>>();
        assert_eq!(lines("a\n\nb"), [&b"a\n"[..], b"\n", b"b"]);
        assert_eq!(lines("a\n"), [b"a\n"]);
        assert!(lines("").is_empty());
    }
}
