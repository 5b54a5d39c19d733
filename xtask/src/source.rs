//! Rust files as text, and the same text with comments and literals blanked out.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of the repository.
pub(crate) struct File {
    /// From the root of the repository.
    pub(crate) path: PathBuf,
    /// Its content.
    pub(crate) text: String,
}

impl File {
    /// True if it is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// `path:line`, for a complaint about the line with this index.
    pub(crate) fn at(&self, index: usize) -> String {
        format!("{}:{}", self.path.display(), index + 1)
    }
}

/// Every readable text file below a folder or at a path, sorted.
///
/// # Errors
/// Something cannot be read.
pub(crate) fn files(root: &Path, below: &str) -> Result<Vec<File>, String> {
    let mut found = Vec::new();
    collect(root, &root.join(below), &mut found)?;
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn collect(root: &Path, path: &Path, found: &mut Vec<File>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            collect(root, &entry.map_err(failed)?.path(), found)?;
        }
    } else if path.is_file() {
        // Fixtures are binary; nothing here applies to them.
        if let Ok(text) = String::from_utf8(fs::read(path).map_err(failed)?) {
            found.push(File { path: path.strip_prefix(root).unwrap_or(path).to_path_buf(), text });
        }
    }
    Ok(())
}

/// Rust text in which comments and the insides of literals are blanks. Lines stay where they are.
pub(crate) fn code_only(text: &str) -> String {
    let mut rest = text;
    let mut code = String::with_capacity(text.len());
    let mut previous = ' ';
    while let Some(first) = rest.chars().next() {
        let length = literal_or_comment(rest, previous).unwrap_or(0);
        if length == 0 {
            code.push(first);
            previous = first;
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..length].chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
            previous = ' ';
            rest = &rest[length..];
        }
    }
    code
}

/// The length of the comment or literal that begins here, if one does.
fn literal_or_comment(rest: &str, previous: char) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    if is_word(previous) {
        return None;
    }
    ["r", "br", "cr"].iter().find_map(|prefix| raw_string(rest, prefix))
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// A literal with escapes, from its first quote to its last.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, char) in rest.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if char == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.chars().skip(1);
    let first = chars.next()?;
    (first == '\\' || chars.next() == Some('\'')).then(|| quoted(rest, '\''))
}

fn raw_string(rest: &str, prefix: &str) -> Option<usize> {
    let after = rest.strip_prefix(prefix)?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let inside = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = rest.len() - inside.len();
    Some(inside.find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// True if `line` contains `pattern`, and not merely as part of a longer word.
pub(crate) fn has_word(line: &str, pattern: &str) -> bool {
    line.match_indices(pattern).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + pattern.len()..].chars().next();
        let starts_word = pattern.chars().next().is_some_and(is_word);
        let ends_word = pattern.chars().next_back().is_some_and(is_word);
        let goes_on = starts_word && before.is_some_and(is_word) || ends_word && after.is_some_and(is_word);
        !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        let table = [
            ("let a = 1; // Instant::now", "let a = 1;"),
            ("/* one /* two */ three */ let b;", "let b;"),
            ("say(\"a \\\" SystemTime\", 'x', '\\'', b\"q\")", "say(             ,  ,  , b  )"),
            ("r#\"raw \" HashMap\"#.len()", ".len()"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("//! doc\nuse x;", "use x;"),
        ];
        for (text, expected) in table {
            let code = code_only(text);
            assert_eq!(code.chars().count(), text.chars().count(), "{text}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&code), words(expected), "{text}");
        }
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = "a\n/* b\nc */\n\"d\ne\"\nf";
        assert_eq!(code_only(text).lines().count(), text.lines().count());
        assert_eq!(code_only(text).lines().last(), Some("f"));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("use std::thread;", "std::thread"));
        assert!(has_word("HashMap::new()", "HashMap"));
        assert!(!has_word("FixedHashMap::new()", "HashMap"));
        assert!(!has_word("HashMapping", "HashMap"));
        assert!(has_word("x.await", ".await"));
    }
}
