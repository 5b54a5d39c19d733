//! Patterns of Lua 5.1, in bounded work: the matcher of the C library backtracks without end, and no hook stops it.

/// How many captures a pattern may have, as in Lua.
const CAPTURES_MAX: usize = 32;

/// How deep the matcher goes.
const DEPTH_MAX: usize = 200;

const ESCAPE: u8 = b'%';

/// Why nothing was matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// The pattern, or what a replacement refers to, makes no sense.
    Invalid(&'static str),
    /// A replacement refers to a capture that is not there.
    Index,
    /// The script may not do so much.
    TooMuch,
}

/// A part of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// From one position up to, and without, another.
    Text(usize, usize),
    /// A position alone, counted from zero.
    Position(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Open,
    Position,
    Closed(usize),
}

/// A subject and a pattern.
pub struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    depth: usize,
    /// The steps that are left.
    steps: u64,
}

type Matched = Result<Option<usize>, Fail>;

impl<'a> Matcher<'a> {
    /// A matcher that may take so many steps in all.
    pub fn new(subject: &'a [u8], pattern: &'a [u8], steps: u64) -> Self {
        Matcher { subject, pattern, captures: Vec::new(), depth: 0, steps }
    }

    /// How many steps are left.
    pub fn steps_left(&self) -> u64 {
        self.steps
    }

    /// Where a match ends that begins at this position of the subject, and of the pattern.
    pub fn match_at(&mut self, at: usize, pattern_at: usize) -> Matched {
        self.captures.clear();
        self.depth = 0;
        self.step(at, pattern_at)
    }

    /// The captures of the last match, which has these bounds: the match itself if there are none and it is asked for.
    pub fn captures(&self, whole: Option<(usize, usize)>) -> Result<Vec<Capture>, Fail> {
        if let (true, Some((from, to))) = (self.captures.is_empty(), whole) {
            return Ok(vec![Capture::Text(from, to)]);
        }
        (0..self.captures.len()).map(|index| self.capture(index)).collect()
    }

    /// One capture of the last match, counted from zero.
    pub fn capture(&self, index: usize) -> Result<Capture, Fail> {
        match self.captures.get(index) {
            None => Err(Fail::Index),
            Some((_, Length::Open)) => Err(Fail::Invalid("unfinished capture")),
            Some((from, Length::Position)) => Ok(Capture::Position(*from)),
            Some((from, Length::Closed(length))) => Ok(Capture::Text(*from, from + length)),
        }
    }

    fn spend(&mut self) -> Result<(), Fail> {
        self.steps = self.steps.checked_sub(1).ok_or(Fail::TooMuch)?;
        Ok(())
    }

    fn step(&mut self, at: usize, pattern_at: usize) -> Matched {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fail::Invalid("pattern too complex"));
        }
        let matched = self.run(at, pattern_at);
        self.depth -= 1;
        matched
    }

    fn run(&mut self, mut at: usize, mut p: usize) -> Matched {
        loop {
            self.spend()?;
            let Some(first) = self.pattern.get(p).copied() else { return Ok(Some(at)) };
            match (first, self.pattern.get(p + 1).copied()) {
                (b'(', Some(b')')) => return self.open(at, p + 2, Length::Position),
                (b'(', _) => return self.open(at, p + 1, Length::Open),
                (b')', _) => return self.close(at, p + 1),
                (ESCAPE, Some(b'b')) => match self.balance(at, p + 2)? {
                    Some(end) => (at, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return Err(Fail::Invalid("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = if at == 0 { 0 } else { self.subject[at - 1] };
                    let here = self.subject.get(at).copied().unwrap_or(0);
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (ESCAPE, Some(digit)) if digit.is_ascii_digit() => match self.back(at, digit)? {
                    Some(end) => (at, p) = (end, p + 2),
                    None => return Ok(None),
                },
                (b'$', None) => return Ok((at == self.subject.len()).then_some(at)),
                _ => {
                    let end = self.class_end(p)?;
                    let is_one = at < self.subject.len() && self.single(self.subject[at], p, end);
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if is_one && let Some(found) = self.step(at + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.expand(at, p, end),
                        Some(b'+') => return if is_one { self.expand(at + 1, p, end) } else { Ok(None) },
                        Some(b'-') => return self.expand_least(at, p, end),
                        _ if is_one => (at, p) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// Where the class ends that begins here.
    fn class_end(&self, at: usize) -> Result<usize, Fail> {
        let mut p = at + 1;
        match self.pattern[at] {
            ESCAPE if p >= self.pattern.len() => Err(Fail::Invalid("malformed pattern (ends with '%')")),
            ESCAPE => Ok(p + 1),
            b'[' => {
                if self.pattern.get(p) == Some(&b'^') {
                    p += 1;
                }
                // A bracket that comes first stands for itself.
                loop {
                    const MISSING: Fail = Fail::Invalid("malformed pattern (missing ']')");
                    let byte = *self.pattern.get(p).ok_or(MISSING)?;
                    p += 1;
                    if byte == ESCAPE {
                        p += 1;
                    }
                    match self.pattern.get(p) {
                        None => return Err(MISSING),
                        Some(b']') => return Ok(p + 1),
                        Some(_) => {}
                    }
                }
            }
            _ => Ok(p),
        }
    }

    fn single(&self, byte: u8, p: usize, end: usize) -> bool {
        match self.pattern[p] {
            b'.' => true,
            ESCAPE => is_in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            other => other == byte,
        }
    }

    /// True if a byte is in the set between these brackets.
    fn in_set(&self, byte: u8, mut p: usize, end: usize) -> bool {
        let mut is_in = true;
        if self.pattern[p + 1] == b'^' {
            is_in = false;
            p += 1;
        }
        p += 1;
        while p < end {
            if self.pattern[p] == ESCAPE {
                p += 1;
                if is_in_class(byte, self.pattern[p]) {
                    return is_in;
                }
            } else if self.pattern.get(p + 1) == Some(&b'-') && p + 2 < end {
                if (self.pattern[p]..=self.pattern[p + 2]).contains(&byte) {
                    return is_in;
                }
                p += 2;
            } else if self.pattern[p] == byte {
                return is_in;
            }
            p += 1;
        }
        !is_in
    }

    fn expand(&mut self, at: usize, p: usize, end: usize) -> Matched {
        let mut count = 0;
        while at + count < self.subject.len() && self.single(self.subject[at + count], p, end) {
            self.spend()?;
            count += 1;
        }
        loop {
            if let Some(found) = self.step(at + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn expand_least(&mut self, mut at: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(found) = self.step(at, end + 1)? {
                return Ok(Some(found));
            }
            if at >= self.subject.len() || !self.single(self.subject[at], p, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, at: usize, p: usize, length: Length) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Fail::Invalid("too many captures"));
        }
        self.captures.push((at, length));
        let level = self.captures.len();
        let found = self.step(at, p)?;
        if found.is_none() {
            self.captures.truncate(level - 1);
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, p: usize) -> Matched {
        let open = self.captures.iter().rposition(|(_, length)| *length == Length::Open);
        let Some(level) = open else { return Err(Fail::Invalid("invalid pattern capture")) };
        self.captures[level].1 = Length::Closed(at - self.captures[level].0);
        let found = self.step(at, p)?;
        if found.is_none() {
            self.captures[level].1 = Length::Open;
        }
        Ok(found)
    }

    fn balance(&mut self, at: usize, p: usize) -> Matched {
        let (Some(&begin), Some(&end)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Fail::Invalid("unbalanced pattern"));
        };
        if self.subject.get(at) != Some(&begin) {
            return Ok(None);
        }
        let mut open = 1;
        for (offset, byte) in self.subject[at + 1..].iter().enumerate() {
            self.steps = self.steps.checked_sub(1).ok_or(Fail::TooMuch)?;
            if *byte == end {
                open -= 1;
                if open == 0 {
                    return Ok(Some(at + offset + 2));
                }
            } else if *byte == begin {
                open += 1;
            }
        }
        Ok(None)
    }

    /// The text that was captured before comes again.
    fn back(&mut self, at: usize, digit: u8) -> Matched {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let Some((from, Length::Closed(length))) = self.captures.get(index).copied() else {
            return Err(Fail::Invalid("invalid capture index"));
        };
        self.steps = self.steps.checked_sub(length as u64).ok_or(Fail::TooMuch)?;
        let is_same = self.subject[at..].starts_with(&self.subject[from..from + length]);
        Ok(is_same.then_some(at + length))
    }
}

fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(subject: &str, pattern: &str) -> Result<Option<String>, Fail> {
        let mut matcher = Matcher::new(subject.as_bytes(), pattern.as_bytes(), 100_000);
        for at in 0..=subject.len() {
            if let Some(end) = matcher.match_at(at, 0)? {
                return Ok(Some(subject[at..end].to_owned()));
            }
        }
        Ok(None)
    }

    #[test]
    fn patterns_match_as_in_lua() {
        for (subject, pattern, found) in [
            ("hello world", "o w", Some("o w")),
            ("key=value", "(%w+)=(%w+)", Some("key=value")),
            ("  x  ", "%S", Some("x")),
            ("f(a(b)c)d", "%b()", Some("(a(b)c)")),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some("THE")),
            ("aXbXc", ".-X", Some("aX")),
            ("aXbXc", ".*X", Some("aXbX")),
            ("abab", "(ab)%1", Some("abab")),
            ("a]b", "[]]", Some("]")),
            ("a-b", "[a%-]+", Some("a-")),
            ("abc", "^b", None),
            ("abc", "[^a-b]", Some("c")),
            ("abc", "c$", Some("c")),
            ("", "", Some("")),
        ] {
            assert_eq!(find(subject, pattern), Ok(found.map(str::to_owned)), "{subject:?} {pattern:?}");
        }
    }

    #[test]
    fn malformed_patterns_say_so_and_endless_ones_end() {
        let invalid = |pattern| find("aaaa", pattern).unwrap_err();
        assert_eq!(invalid("[a"), Fail::Invalid("malformed pattern (missing ']')"));
        assert_eq!(invalid("%"), Fail::Invalid("malformed pattern (ends with '%')"));
        assert_eq!(invalid("a)"), Fail::Invalid("invalid pattern capture"));
        assert_eq!(invalid("%1"), Fail::Invalid("invalid capture index"));
        assert_eq!(invalid("%b"), Fail::Invalid("unbalanced pattern"));
        let deep = find(&"a".repeat(1_000), &"a?".repeat(1_000));
        assert_eq!(deep, Err(Fail::Invalid("pattern too complex")));
        assert_eq!(find(&"a".repeat(100), &("a*".repeat(20) + "b")), Err(Fail::TooMuch));
    }
}
