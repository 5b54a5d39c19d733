//! Cuts a line into statements and statements into words.

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

/// The statements of a text, each as its words. Statements end with `;` or a line; empty ones are dropped.
///
/// A word may be quoted: `'…'` takes everything as it is, `"…"` knows `\n`, `\t`, `\\`, `\"`, `\xNN`. A `#` at the
/// beginning of a word begins a comment up to the end of the line.
pub(crate) fn split(text: &str) -> Result<Vec<Vec<String>>, SplitError> {
    let mut statements = Vec::new();
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ';' | '\n' => {
                words.extend(word.take());
                if !words.is_empty() {
                    statements.push(std::mem::take(&mut words));
                }
            }
            '#' if word.is_none() => while characters.next_if(|next| *next != '\n').is_some() {},
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(SplitError::OpenQuote('\''))? {
                        '\'' => break,
                        plain => word.push(plain),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(SplitError::OpenQuote('"'))? {
                        '"' => break,
                        '\\' => word.push(escaped(&mut characters)?),
                        plain => word.push(plain),
                    }
                }
            }
            space if space.is_whitespace() => words.extend(word.take()),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    if !words.is_empty() {
        statements.push(words);
    }
    Ok(statements)
}

fn escaped(characters: &mut impl Iterator<Item = char>) -> Result<char, SplitError> {
    match characters.next().ok_or(SplitError::OpenQuote('"'))? {
        'n' => Ok('\n'),
        'r' => Ok('\r'),
        't' => Ok('\t'),
        '0' => Ok('\0'),
        same @ ('\\' | '"') => Ok(same),
        'x' => {
            let mut digit =
                || characters.next().and_then(|digit| digit.to_digit(16)).ok_or(SplitError::Escape);
            let byte = digit()? * 16 + digit()?;
            // Words are text; a byte above 127 becomes the character of that number.
            char::from_u32(byte).ok_or(SplitError::Escape)
        }
        _ => Err(SplitError::Escape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        split(text).unwrap()
    }

    #[test]
    fn statements_end_with_semicolons_and_lines() {
        let expected = vec![vec!["begin"], vec!["put", "a", "1"], vec!["commit"]];
        assert_eq!(words("begin; put a 1 ;;\n commit"), expected);
        assert_eq!(words(""), Vec::<Vec<String>>::new());
        assert_eq!(words(" ; # nothing\n"), Vec::<Vec<String>>::new());
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words("put 'a; b' \"c \\\"d\\\"\""), [["put", "a; b", "c \"d\""]]);
        assert_eq!(words("put \"\" ''"), [["put", "", ""]]);
        assert_eq!(words("put a'b'c \"\\x41\\n\\\\\""), [["put", "abc", "A\n\\"]]);
        assert_eq!(words("put a#b #c"), [["put", "a#b"]]);
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(split("put 'a"), Err(SplitError::OpenQuote('\'')));
        assert_eq!(split("put \"a\\"), Err(SplitError::OpenQuote('"')));
        assert_eq!(split("put \"\\q\""), Err(SplitError::Escape));
        assert_eq!(split("put \"\\x4\""), Err(SplitError::Escape));
    }
}
