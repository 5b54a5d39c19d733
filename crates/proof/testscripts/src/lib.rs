//! Golden scripts: stories about machines that are compared with what happens.
//!
//! A *world* carries out one command after the other and tells what happened: a function from a line to lines. A script is a
//! sequence of blocks: commands, one a line, a line `---`, and what they led to. Blocks are set apart by empty lines,
//! and a line of commands that begins with `#` is a comment. The meaning of the commands is up to the crate whose scripts they are, and
//! is documented there.
//!
//! | module | what it is for |
//! |---|---|
//! | [`stage`] | where machines that stand on logs meet |
//! | [`schedule`] | what goes wrong there by chance |
//! | [`ignored`] | what machines drop |
//! | [`alone`] | one machine by itself, and all that each step of it leads to |
//! | [`log`] | the smallest log that there can be, for them to stand on |
//!
//! `QUORATE_BLESS=1 cargo test -p CRATE` writes what happens into the scripts; read the difference before you commit it.

pub mod alone;
pub mod ignored;
pub mod log;
pub mod schedule;
pub mod stage;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The scripts of a crate, in `tests/testscripts`.
#[derive(Clone, Debug)]
pub struct Scripts {
    folder: PathBuf,
}

impl Scripts {
    /// Those of the crate whose manifest is in this folder.
    pub fn of(manifest: &str) -> Self {
        Scripts { folder: Path::new(manifest).join("tests/testscripts") }
    }

    /// The text of a script.
    ///
    /// # Panics
    /// If there is no such script.
    pub fn text(&self, name: &str) -> String {
        let path = self.folder.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The names of all scripts, ascending.
    ///
    /// # Panics
    /// If there are none.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder)
            .unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        let files = entries.filter_map(Result::ok).filter(|entry| entry.path().is_file());
        let mut names: Vec<String> =
            files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        assert!(!names.is_empty(), "{} has no scripts", self.folder.display());
        names
    }

    /// Compares every script with what happens, each in a world of its own; or writes that into them, if it is to be blessed.
    ///
    /// # Panics
    /// If something else happens, and it is not to be blessed.
    pub fn assert_tell_what_happens<W: FnMut(&str) -> Vec<String>>(&self, world: impl Fn() -> W) {
        let bless = std::env::var_os("QUORATE_BLESS").is_some();
        let mut differing = Vec::new();
        for name in self.names() {
            let expected = self.text(&name);
            let actual = run(&expected, world());
            if actual == expected {
                continue;
            }
            let first = expected.lines().zip(actual.lines()).find(|(one, other)| one != other);
            differing.push(format!("{name}: {first:?}"));
            if bless {
                let path = self.folder.join(&name);
                std::fs::write(&path, actual).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
        assert!(
            bless || differing.is_empty(),
            "scripts differ; QUORATE_BLESS=1 rewrites them: {differing:#?}"
        );
    }

    /// Asserts that a script has this line in one of two worlds and not in both. A script that goes the same way when its rule is
    /// broken would guard nothing.
    ///
    /// # Panics
    /// If it has the line in both worlds, or in none. `what` says which.
    pub fn assert_parts<W: FnMut(&str) -> Vec<String>>(
        &self,
        name: &str,
        line: &str,
        one: W,
        other: W,
        what: &str,
    ) {
        let text = self.text(name);
        // A machine that an assertion stops tells nothing any more.
        let tells = |world: W| catch_unwind(AssertUnwindSafe(|| tells(&text, world, line))).unwrap_or(false);
        assert_ne!(tells(one), tells(other), "{name} with {what}");
    }
}

/// True if this line is among what a script leads to.
pub fn tells(text: &str, world: impl FnMut(&str) -> Vec<String>, line: &str) -> bool {
    run(text, world).lines().any(|told| told == line)
}

/// A script as it would have to be: its commands, and what they lead to here.
///
/// # Panics
/// If it does not end with what its commands lead to.
pub fn run(text: &str, mut world: impl FnMut(&str) -> Vec<String>) -> String {
    let mut result = String::new();
    let mut in_output = false;
    let mut pending = Vec::new();
    for line in text.lines() {
        if line == "---" {
            in_output = true;
            result.push_str("---\n");
            for event in std::mem::take(&mut pending) {
                let _ = writeln!(result, "{event}");
            }
        } else if line.is_empty() {
            in_output = false;
            result.push('\n');
        } else if !in_output {
            let _ = writeln!(result, "{line}");
            if !line.starts_with('#') {
                pending.extend(world(line));
            }
        }
    }
    assert!(pending.is_empty(), "a script ends with what its commands lead to");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A world that says what it hears, and how often it has heard anything; or nothing.
    fn echo(is_mute: bool) -> impl FnMut(&str) -> Vec<String> {
        let mut heard = 0;
        move |line| {
            heard += 1;
            if is_mute { Vec::new() } else { vec![format!("{heard}: {line}")] }
        }
    }

    #[test]
    fn blocks_keep_their_commands_and_comments_and_tell_what_is_new() {
        let text = "# A story.\none\ntwo\n---\nwhat was\n\n# Goes on.\nthree\n---\n";
        let told = "# A story.\none\ntwo\n---\n1: one\n2: two\n\n# Goes on.\nthree\n---\n3: three\n";
        assert_eq!(run(text, echo(false)), told);
        assert_eq!(run(told, echo(false)), told, "what was blessed stays");
    }

    #[test]
    #[should_panic(expected = "ends with what its commands lead to")]
    fn a_script_that_does_not_say_what_happens_is_no_script() {
        run("one\n---\n1: one\n\ntwo\n", echo(false));
    }

    #[test]
    fn scripts_are_compared_with_what_happens() {
        let scripts = Scripts::of(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(scripts.names(), ["echo"]);
        scripts.assert_tell_what_happens(|| echo(false));
        scripts.assert_parts("echo", "2: world", echo(false), echo(true), "no voice");
        let same = || scripts.assert_parts("echo", "2: world", echo(true), echo(true), "no voice");
        assert!(std::panic::catch_unwind(same).is_err());
        if std::env::var_os("QUORATE_BLESS").is_none() {
            let differs = || scripts.assert_tell_what_happens(|| echo(true));
            assert!(std::panic::catch_unwind(differs).is_err());
        }
    }
}
