//! Code that documentation shows and tests run: the page says where it comes from, and both have to agree.
//!
//! A page shows an excerpt below a line that names it:
//!
//! ````text
//! <!-- from crates/hosts/client/tests/cluster/write_where_you_are.rs: long fork -->
//! ```rust
//! …
//! ```
//! ````
//!
//! The excerpt stands in that file between the lines `// Page: long fork` and `// Page ends.`, with any indentation. In a file of Python the lines
//! begin with `#`, and the block of the page with `python`. `cargo xtask fix` copies the excerpt into the page. An excerpt that no page shows, and a page that
//! names none that exists, are mistakes. So is a block of Rust that names no file: nothing would notice when it stops compiling. Only a `README.md` that is
//! the documentation of its crate needs no names, because rustdoc compiles its blocks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::source::{File, files};

const FROM: &str = "<!-- from ";
const FROM_ENDS: &str = " -->";

/// How a language of excerpts is marked.
struct Language {
    /// The end of the names of its files.
    extension: &'static str,
    /// How a line begins that begins an excerpt.
    begin: &'static str,
    /// The line that ends one.
    end: &'static str,
    /// The line that begins a block of it in a page.
    fence: &'static str,
    /// Its name.
    name: &'static str,
}

const LANGUAGES: [Language; 2] = [
    Language { extension: "rs", begin: "// Page: ", end: "// Page ends.", fence: "```rust", name: "Rust" },
    Language { extension: "py", begin: "# Page: ", end: "# Page ends.", fence: "```python", name: "Python" },
];

impl Language {
    /// The language of a file, if excerpts of it are shown.
    fn of(path: &Path) -> Option<&'static Self> {
        let extension = path.extension()?;
        LANGUAGES.iter().find(|language| extension == language.extension)
    }
}

/// Where pages are, and where files are that have excerpts.
const PAGES: &str = "docs";
const FIRST_PAGE: &str = "README.md";
const SOURCES: &str = "crates";
/// A crate whose documentation is the page beside its manifest has this in its first file.
const IS_DOCUMENTATION: &str = "include_str!(\"../README.md\")";

/// The excerpts of all files, without their indentation, by file and name.
type Excerpts = BTreeMap<(String, String), String>;

/// Says which pages show other code than there is.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn complaints(root: &Path) -> Result<Vec<String>, String> {
    let (excerpts, mut complaints) = excerpts(&files(root, SOURCES)?);
    let mut shown = Vec::new();
    for page in pages(root)? {
        let (rewritten, mistakes) = rewrite(&page, &excerpts, &mut shown);
        complaints.extend(mistakes);
        complaints.extend(unnamed(&page, is_documentation(root, &page)));
        if rewritten != page.text {
            let path = page.path.display();
            complaints.push(format!("{path}: shows other code than it names; run `cargo xtask fix`"));
        }
    }
    let hidden = excerpts.keys().filter(|excerpt| !shown.contains(excerpt));
    complaints.extend(hidden.map(|(file, name)| format!("{file}: no page shows the excerpt `{name}`")));
    Ok(complaints)
}

/// Copies the excerpts into the pages.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let (excerpts, _) = excerpts(&files(root, SOURCES)?);
    for page in pages(root)? {
        let (rewritten, _) = rewrite(&page, &excerpts, &mut Vec::new());
        if rewritten != page.text {
            let path = root.join(&page.path);
            fs::write(&path, rewritten).map_err(|error| format!("{}: {error}", page.path.display()))?;
        }
    }
    Ok(())
}

fn pages(root: &Path) -> Result<Vec<File>, String> {
    let mut pages = files(root, PAGES)?;
    pages.retain(|file| file.path.extension().is_some_and(|extension| extension == "md"));
    let of_crates = files(root, SOURCES)?.into_iter();
    pages.extend(of_crates.filter(|file| file.path.file_name().is_some_and(|name| name == FIRST_PAGE)));
    let first =
        fs::read_to_string(root.join(FIRST_PAGE)).map_err(|error| format!("{FIRST_PAGE}: {error}"))?;
    pages.push(File { path: FIRST_PAGE.into(), text: first });
    Ok(pages)
}

/// Finds the excerpts of files, and says which of them do not end or have one name.
fn excerpts(files: &[File]) -> (Excerpts, Vec<String>) {
    let (mut excerpts, mut complaints) = (Excerpts::new(), Vec::new());
    for file in files {
        let Some(language) = Language::of(&file.path) else { continue };
        let path = file.path.display().to_string();
        let mut open: Option<(String, Vec<&str>)> = None;
        for line in file.text.lines() {
            match (line.trim_start(), &mut open) {
                (text, None) => {
                    open = text.strip_prefix(language.begin).map(|name| (name.to_owned(), Vec::new()));
                }
                (text, Some(_)) if text == language.end => {
                    let (name, lines) = open.take().unwrap_or_default();
                    let excerpt = (path.clone(), name);
                    if excerpts.contains_key(&excerpt) {
                        complaints.push(format!("{path}: two excerpts are called `{}`", excerpt.1));
                    }
                    excerpts.insert(excerpt, unindented(&lines));
                }
                (_, Some((_, lines))) => lines.push(line),
            }
        }
        if let Some((name, _)) = open {
            complaints.push(format!("{path}: the excerpt `{name}` does not end"));
        }
    }
    (excerpts, complaints)
}

fn unindented(lines: &[&str]) -> String {
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.is_empty()).map(indentation).min().unwrap_or(0);
    lines.iter().map(|line| format!("{}\n", line.get(least..).unwrap_or_default())).collect()
}

/// The page with the code that it names, and what it names that is not there. Notes what it shows.
fn rewrite(page: &File, excerpts: &Excerpts, shown: &mut Vec<(String, String)>) -> (String, Vec<String>) {
    let (mut text, mut complaints) = (String::new(), Vec::new());
    let mut lines = page.text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let named = line.strip_prefix(FROM).and_then(|rest| rest.strip_suffix(FROM_ENDS));
        let Some((file, name)) = named.and_then(|named| named.split_once(": ")) else { continue };
        let excerpt = (file.to_owned(), name.to_owned());
        let (Some(code), Some(language)) = (excerpts.get(&excerpt), Language::of(Path::new(file))) else {
            complaints.push(format!("{}: {file} has no excerpt `{name}`", page.at(at)));
            continue;
        };
        let is_code = lines.next().is_some_and(|(_, fence)| fence == language.fence);
        if !is_code || !lines.by_ref().any(|(_, line)| line == "```") {
            complaints.push(format!("{}: a block of {} has to follow", page.at(at), language.name));
            return (page.text.clone(), complaints);
        }
        text.push_str(&format!("{}\n{code}```\n", language.fence));
        shown.push(excerpt);
    }
    (text, complaints)
}

/// True if rustdoc compiles the blocks of a page.
fn is_documentation(root: &Path, page: &File) -> bool {
    let first = page.path.parent().map(|folder| root.join(folder).join("src/lib.rs"));
    let first = first.and_then(|path| fs::read_to_string(path).ok());
    first.is_some_and(|text| text.contains(IS_DOCUMENTATION))
}

/// The blocks of Rust that nothing compiles, because they name no file.
fn unnamed(page: &File, is_documentation: bool) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut open: Option<&str> = None;
    let mut above = "";
    for (at, line) in page.text.lines().enumerate() {
        let text = line.trim();
        let (fence, info) = text.split_at(text.len() - text.trim_start_matches('`').len());
        match open {
            // A block ends with a fence as long as that with which it begins.
            Some(begin) if info.is_empty() && fence.len() >= begin.len() => open = None,
            None if fence.len() >= 3 => {
                let mut words = info.split([',', ' ']);
                let is_rust = words.next().is_some_and(|language| matches!(language, "rust" | "rs"));
                let is_compiled = is_documentation && !words.any(|word| word == "ignore");
                let is_named = above.starts_with(FROM) && above.ends_with(FROM_ENDS);
                if is_rust && !is_named && !is_compiled {
                    complaints.push(format!(
                        "{}: nothing compiles this block of Rust: put it into a test or an example, and name that above it: `{FROM}FILE: NAME{FROM_ENDS}`",
                        page.at(at)
                    ));
                }
                open = Some(fence);
            }
            _ => {}
        }
        above = line;
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.to_owned() }
    }

    fn source() -> File {
        file("t.rs", "fn f() {\n    // Page: one\n    a();\n\n        b();\n    // Page ends.\n    c();\n}\n")
    }

    const PAGE: &str = "x\n<!-- from t.rs: one -->\n```rust\na();\n\n    b();\n```\ny\n";

    fn rewritten(page: &str) -> (String, Vec<String>) {
        let (excerpts, complaints) = excerpts(&[source()]);
        assert!(complaints.is_empty());
        rewrite(&file("p.md", page), &excerpts, &mut Vec::new())
    }

    #[test]
    fn a_page_shows_what_is_run() {
        assert_eq!(rewritten(PAGE), (PAGE.to_owned(), vec![]));
        assert_eq!(rewritten(&PAGE.replace("a();", "z();")), (PAGE.to_owned(), vec![]));
        assert_eq!(rewritten("no code\n").0, "no code\n");
    }

    #[test]
    fn a_page_shows_python_that_is_run() {
        let source = file("t.py", "def f():\n    # Page: one\n    a()\n    # Page ends.\n    b()\n");
        let (excerpts, complaints) = excerpts(&[source]);
        assert!(complaints.is_empty());
        let rewritten = |page: &str| rewrite(&file("p.md", page), &excerpts, &mut Vec::new());
        let page = "<!-- from t.py: one -->\n```python\na()\n```\n";
        assert_eq!(rewritten(&page.replace("a()", "z()")), (page.to_owned(), vec![]));
        let (_, complaints) = rewritten(&page.replace("python", "rust"));
        assert!(complaints[0].contains("a block of Python has to follow"), "{complaints:?}");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let (_, complaints) = rewritten(&PAGE.replace(": one", ": two"));
        assert!(complaints[0].contains("has no excerpt `two`"), "{complaints:?}");
        let (unchanged, complaints) = rewritten("<!-- from t.rs: one -->\nx\n```\ny\n```\n");
        assert!(unchanged.ends_with("y\n```\n") && complaints[0].contains("has to follow"), "{complaints:?}");
    }

    #[test]
    fn a_block_of_rust_names_the_file_that_is_compiled() {
        let unnamed = |page: &str| unnamed(&file("docs/p.md", page), false);
        for named in [
            PAGE,
            "```toml\na = 1\n```\n",
            "    quorate dev\n",
            // A block within a block is text.
            "````text\n<!-- x -->\n```rust\na();\n```\n````\n",
        ] {
            assert!(unnamed(named).is_empty(), "{named}");
        }
        for (page, line) in [
            ("x\n```rust\na();\n```\n", 2),
            ("```text\n```\n\n  ```rust,no_run\n  a();\n  ```\n", 4),
            ("```rs\na();\n```\n", 1),
            ("<!-- from t.rs: one -->\n\n```rust\na();\n```\n", 3),
        ] {
            let complaints = unnamed(page);
            assert!(
                complaints.len() == 1 && complaints[0].starts_with(&format!("docs/p.md:{line}: ")),
                "{complaints:?}"
            );
        }
    }

    #[test]
    fn the_documentation_of_a_crate_is_compiled_by_rustdoc() {
        let page = |text: &str| file("crates/c/README.md", text);
        assert!(unnamed(&page("```rust,no_run\na();\n```\n"), true).is_empty());
        assert_eq!(unnamed(&page("```rust,ignore\na();\n```\n"), true).len(), 1);
        assert_eq!(unnamed(&page("```rust,no_run\na();\n```\n"), false).len(), 1);
    }

    #[test]
    fn excerpts_end_and_have_names_of_their_own() {
        let open = file("t.rs", "// Page: one\nx\n");
        assert!(excerpts(&[open]).1[0].contains("does not end"));
        let twice = file("t.rs", &"// Page: one\n// Page ends.\n".repeat(2));
        assert!(excerpts(&[twice]).1[0].contains("two excerpts"));
    }
}
