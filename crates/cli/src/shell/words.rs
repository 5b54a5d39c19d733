//! Cuts a line into statements and statements into words, and writes bytes as a word.

/// Text that cannot be cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitError {
    /// A quote is not closed; more lines may close it.
    OpenQuote(char),
    /// A backslash before something that it gives no meaning.
    Escape,
}

impl std::fmt::Display for SplitError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SplitError::OpenQuote(quote) => write!(formatter, "a {quote} is not closed"),
            SplitError::Escape => formatter.write_str(
                "after a backslash in double quotes comes one of \\ \" n r t 0, or x and two hexadecimal digits",
            ),
        }
    }
}

/// A word, which may hold any bytes.
pub(crate) type Word = Vec<u8>;

/// The end of a text that may go on: the statement that is not ended yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unfinished {
    /// Its words that are ended.
    pub(crate) words: Vec<Word>,
    /// The word that the end of the text touches, and the byte at which it begins.
    pub(crate) open: Option<(usize, Word)>,
    /// True if the text ends within a comment.
    pub(crate) is_comment: bool,
}

/// The statements of a text, each as its words. Statements end with `;` or a line; empty ones are dropped.
///
/// A word may be quoted: `'…'` takes everything as it is, `"…"` knows `\n`, `\t`, `\\`, `\"`, and `\xNN` for the byte of that number. A `#` at
/// the beginning of a word begins a comment up to the end of the line.
pub(crate) fn split(text: &str) -> Result<Vec<Vec<Word>>, SplitError> {
    let (mut statements, Unfinished { mut words, open, .. }) = cut(text)?;
    words.extend(open.map(|(_, word)| word));
    if !words.is_empty() {
        statements.push(words);
    }
    Ok(statements)
}

/// The statement at the end of a text.
pub(crate) fn unfinished(text: &str) -> Result<Unfinished, SplitError> {
    cut(text).map(|(_, unfinished)| unfinished)
}

/// The statements that are ended, and the one that is not.
fn cut(text: &str) -> Result<(Vec<Vec<Word>>, Unfinished), SplitError> {
    let mut statements = Vec::new();
    let Unfinished { mut words, mut open, mut is_comment } = Unfinished::default();
    let mut characters = text.chars();
    loop {
        let at = text.len() - characters.as_str().len();
        let Some(character) = characters.next() else { break };
        match character {
            ';' | '\n' => {
                words.extend(open.take().map(|(_, word)| word));
                if !words.is_empty() {
                    statements.push(std::mem::take(&mut words));
                }
            }
            '#' if open.is_none() => {
                let rest = characters.as_str();
                is_comment = !rest.contains('\n');
                characters = rest[rest.find('\n').unwrap_or(rest.len())..].chars();
            }
            '\'' => {
                let (_, word) = open.get_or_insert_with(|| (at, Word::new()));
                loop {
                    match characters.next().ok_or(SplitError::OpenQuote('\''))? {
                        '\'' => break,
                        plain => push(word, plain),
                    }
                }
            }
            '"' => {
                let (_, word) = open.get_or_insert_with(|| (at, Word::new()));
                loop {
                    match characters.next().ok_or(SplitError::OpenQuote('"'))? {
                        '"' => break,
                        '\\' => word.push(escaped(&mut characters)?),
                        plain => push(word, plain),
                    }
                }
            }
            space if space.is_whitespace() => words.extend(open.take().map(|(_, word)| word)),
            plain => push(&mut open.get_or_insert_with(|| (at, Word::new())).1, plain),
        }
    }
    Ok((statements, Unfinished { words, open, is_comment }))
}

fn push(word: &mut Word, character: char) {
    word.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn escaped(characters: &mut impl Iterator<Item = char>) -> Result<u8, SplitError> {
    match characters.next().ok_or(SplitError::OpenQuote('"'))? {
        'n' => Ok(b'\n'),
        'r' => Ok(b'\r'),
        't' => Ok(b'\t'),
        '0' => Ok(0),
        '\\' => Ok(b'\\'),
        '"' => Ok(b'"'),
        'x' => {
            let mut digit =
                || characters.next().and_then(|digit| digit.to_digit(16)).ok_or(SplitError::Escape);
            let byte = digit()? * 16 + digit()?;
            u8::try_from(byte).map_err(|_| SplitError::Escape)
        }
        _ => Err(SplitError::Escape),
    }
}

/// Bytes as a word that [`split`] reads back as the same bytes: plain where that can be, else in quotes.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control));
    // The sign for an absent value is in parentheses, and an option begins with a hyphen.
    let is_plain = |text: &&str| {
        !text.starts_with(['(', '-', '\\']) && split(text).is_ok_and(|words| words == [[text.as_bytes()]])
    };
    match text {
        Some(text) if is_plain(&text) || is_number(text) => text.to_owned(),
        Some(text) if !text.contains('\'') => format!("'{text}'"),
        Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        None => {
            let escaped = bytes.iter().map(|byte| match byte {
                b'\'' => "'".to_owned(),
                byte => byte.escape_ascii().to_string(),
            });
            format!("\"{}\"", escaped.collect::<String>())
        }
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite) && !text.starts_with('(')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<Word>> {
        split(text).unwrap()
    }

    fn statement(words: &[&str]) -> Vec<Word> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn statements_end_with_semicolons_and_lines() {
        let expected = vec![statement(&["begin"]), statement(&["put", "a", "1"]), statement(&["commit"])];
        assert_eq!(words("begin; put a 1 ;;\n commit"), expected);
        assert_eq!(words(""), Vec::<Vec<Word>>::new());
        assert_eq!(words(" ; # nothing\n"), Vec::<Vec<Word>>::new());
    }

    #[test]
    fn a_text_that_goes_on_ends_within_a_statement() {
        let ends = |text: &str, words: &[&str], open: Option<(usize, &str)>, is_comment| {
            let open = open.map(|(begin, word)| (begin, word.as_bytes().to_vec()));
            let expected = Unfinished { words: statement(words), open, is_comment };
            assert_eq!(unfinished(text), Ok(expected), "{text:?}");
        };
        ends("", &[], None, false);
        ends("put a", &["put"], Some((4, "a")), false);
        ends("put a ", &["put", "a"], None, false);
        ends("begin; ge", &[], Some((7, "ge")), false);
        ends("begin;", &[], None, false);
        ends("put 'two words'", &["put"], Some((4, "two words")), false);
        ends("put ü'b c'd", &["put"], Some((4, "üb cd")), false);
        ends("put a # it's", &["put", "a"], None, true);
        ends("put a # it's\nget b", &["get"], Some((17, "b")), false);
        ends("put a#b", &["put"], Some((4, "a#b")), false);
        assert_eq!(unfinished("put 'a"), Err(SplitError::OpenQuote('\'')));
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words("put 'a; b' \"c \\\"d\\\"\""), [statement(&["put", "a; b", "c \"d\""])]);
        assert_eq!(words("put \"\" ''"), [statement(&["put", "", ""])]);
        assert_eq!(words("put a'b'c \"\\x41\\n\\\\\""), [statement(&["put", "abc", "A\n\\"])]);
        assert_eq!(words("put a#b #c"), [statement(&["put", "a#b"])]);
    }

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(
            words("put hi \"\\xff\\x00ü\""),
            [[b"put".to_vec(), b"hi".to_vec(), b"\xff\x00\xc3\xbc".to_vec()]]
        );
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(split("put 'a"), Err(SplitError::OpenQuote('\'')));
        assert_eq!(split("put \"a\\"), Err(SplitError::OpenQuote('"')));
        assert_eq!(split("put \"\\q\""), Err(SplitError::Escape));
        assert_eq!(split("put \"\\x4\""), Err(SplitError::Escape));
    }

    #[test]
    fn bytes_are_written_as_they_are_read() {
        let table: [(&[u8], &str); 10] = [
            (b"60", "60"),
            (b"-5", "-5"),
            ("grüße".as_bytes(), "grüße"),
            (b"", "''"),
            (b"two words", "'two words'"),
            (br#"{"a":1}"#, r#"'{"a":1}'"#),
            (b"it's \"so\"", r#""it's \"so\"""#),
            (b"(absent)", "'(absent)'"),
            (b"\x00\xff", r#""\x00\xff""#),
            (b"a'\n\"", r#""a'\n\"""#),
        ];
        for (bytes, text) in table {
            assert_eq!(quoted(bytes), text);
        }
        // Every byte, alone and beside a quote.
        for byte in 0..=u8::MAX {
            for bytes in [vec![byte], vec![b'"', byte], vec![b'\'', byte, b' '], vec![b'a', byte, b'\\']] {
                assert_eq!(
                    words(&quoted(&bytes)),
                    [[bytes.clone()]],
                    "{bytes:?} is written {}",
                    quoted(&bytes)
                );
            }
        }
    }
}
