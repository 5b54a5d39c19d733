//! The command as it was typed, which results carry.

use std::ffi::OsString;

use serde::Serialize;

/// A result with the command that has made it, so that it can be made again.
#[derive(Serialize)]
pub(crate) struct WithCommand<T> {
    command: String,
    #[serde(flatten)]
    result: T,
}

impl<T: Serialize> WithCommand<T> {
    /// The result of this process.
    pub(crate) fn new(result: T) -> Self {
        WithCommand { command: line(std::env::args_os()), result }
    }
}

/// The words of a command as a shell takes them; the program by its name, wherever it stands.
fn line(words: impl Iterator<Item = OsString>) -> String {
    let words = words.skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("quorate".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word, in quotes if a shell would take it apart.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_=+./:,@%".contains(character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let typed = ["/opt/bin/quorate", "bench", "rmw", "--log=a=1", "two words", "", "it's"];
        let words = typed.map(OsString::from).into_iter();
        assert_eq!(line(words), r"quorate bench rmw --log=a=1 'two words' '' 'it'\''s'");
    }
}
