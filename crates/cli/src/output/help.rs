//! Help that fits a terminal. The wrapping of clap needs a crate that finds out how wide that is, which tables do here already.

use std::io::IsTerminal;

use clap::builder::StyledStr;

use super::table::terminal_columns;

/// So wide is help that is written to no terminal.
const COLUMNS: usize = 80;

/// The description of an option is at least so wide, or begins in the line below the option.
const MEANING_LEAST: usize = 32;

/// In that line it begins here.
const MEANING_BELOW: usize = 10;

/// Help as it is written to standard output.
pub(crate) fn rendered(help: &StyledStr) -> String {
    let is_colourful = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_some_and(|terminal| terminal != "dumb");
    let text = if is_colourful { help.ansi().to_string() } else { help.to_string() };
    fitted(&text)
}

/// A text of help for standard output.
pub(crate) fn fitted(text: &str) -> String {
    wrapped(text, terminal_columns().unwrap_or(COLUMNS))
}

/// Sentences for standard output, one in a line: cut at spaces where a terminal is too narrow for one, and as they are where there is no terminal.
pub(crate) fn sentences(text: &str) -> String {
    within(text, terminal_columns())
}

fn within(text: &str, columns: Option<usize>) -> String {
    /// So far the further lines of a sentence are indented.
    const HANGING: usize = 2;
    let Some(columns) = columns else { return text.to_owned() };
    let lines = text.lines().flat_map(|line| filled(String::new(), line, HANGING, columns));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text with lines of so many columns, but for examples, which are pasted as they are.
fn wrapped(text: &str, columns: usize) -> String {
    let is_below = text.lines().filter_map(option_column).any(|column| column + MEANING_LEAST > columns);
    let (mut lines, mut is_example) = (Vec::new(), false);
    for line in text.lines() {
        is_example = line.starts_with("Examples:") || is_example && !line.is_empty();
        match option_column(line) {
            _ if is_example => lines.push(line.to_owned()),
            Some(column) if is_below => {
                let (option, meaning) = divided(line, column);
                lines.push(option.trim_end().to_owned());
                lines.extend(filled(" ".repeat(MEANING_BELOW), meaning, MEANING_BELOW, columns));
            }
            column => {
                let column = column.or_else(|| gap(line)).unwrap_or_else(|| indentation(line));
                let (head, rest) = divided(line, column);
                let hanging = if column + MEANING_LEAST > columns { indentation(line) } else { column };
                lines.extend(filled(head.to_owned(), rest, hanging, columns));
            }
        }
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

/// Words behind a beginning, in lines of so many columns; those after the first one begin at a column of their own.
fn filled(beginning: String, words: &str, hanging: usize, columns: usize) -> Vec<String> {
    let (mut lines, mut line, mut is_first) = (Vec::new(), beginning, true);
    for word in words.split(' ') {
        if is_first {
            line.push_str(word);
        } else if width(&line) + 1 + width(word) <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(std::mem::replace(&mut line, " ".repeat(hanging) + word));
        }
        is_first = false;
    }
    lines.push(line);
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Where the meaning of an option begins, if the line has one.
fn option_column(line: &str) -> Option<usize> {
    plain(line).trim_start().starts_with('-').then(|| gap(line)).flatten()
}

/// Where the second column of a line begins: behind two spaces.
fn gap(line: &str) -> Option<usize> {
    let plain = plain(line);
    let begin = indentation(line);
    let behind = plain.chars().skip(begin).collect::<String>();
    let at = behind.find("  ").filter(|_| begin > 0)?;
    let spaces = behind[at..].chars().take_while(|character| *character == ' ').count();
    (at + spaces < behind.len()).then(|| begin + behind[..at].chars().count() + spaces)
}

fn indentation(line: &str) -> usize {
    plain(line).chars().take_while(|character| *character == ' ').count()
}

/// The parts of a line before and behind a column.
fn divided(line: &str, column: usize) -> (&str, &str) {
    let end = (0..=line.len())
        .filter(|at| line.is_char_boundary(*at))
        .find(|at| width(&line[..*at]) == column && !line[..*at].ends_with('\u{1b}'))
        .unwrap_or(line.len());
    line.split_at(end)
}

/// How many columns a text takes, which colours do not.
fn width(text: &str) -> usize {
    plain(text).chars().count()
}

/// The text without colours.
fn plain(text: &str) -> String {
    let (mut plain, mut is_colour) = (String::with_capacity(text.len()), false);
    for character in text.chars() {
        match (is_colour, character) {
            (false, '\u{1b}') => is_colour = true,
            (true, 'm') => is_colour = false,
            (true, _) => {}
            (false, character) => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn meanings_are_wrapped_under_themselves() {
        let text = "Measure\n\nOptions:\n      --log <N>  Set an option of a section that is long\n  -h         Help\n";
        let expected = "Measure\n\nOptions:\n      --log <N>  Set an option of a section that\n                 is long\n  -h         Help\n";
        assert_eq!(wrapped(text, 50), expected);
        assert_eq!(wrapped(text, 200), text);
        let below = "Options:\n      --log <N>\n          Set an option of a section\n          that is long\n  -h\n          Help\n";
        assert_eq!(wrapped(text.strip_prefix("Measure\n\n").unwrap(), 37), below);
    }

    #[test]
    fn sentences_fit_a_terminal_and_stay_whole_elsewhere() {
        let text = "access control: not known\nconfiguration service: it does not answer";
        let expected = "access control: not\n  known\nconfiguration service:\n  it does not answer";
        assert_eq!(within(text, Some(22)), expected);
        assert_eq!(within(text, Some(80)), text);
        assert_eq!(within(text, None), text);
    }

    #[test]
    fn examples_stay_as_they_are_and_colours_take_no_room() {
        let text =
            "Examples:\n  quorate shell    talk to a cluster that is far away\n\nA sentence that is longer.";
        let expected = "Examples:\n  quorate shell    talk to a cluster that is far away\n\nA sentence\nthat is\nlonger.";
        assert_eq!(wrapped(text, 10), expected);
        let coloured = "  \u{1b}[1m--log\u{1b}[0m  one two three four five six seven eight nine";
        let expected = "  \u{1b}[1m--log\u{1b}[0m  one two three four five six seven\n         eight nine";
        assert_eq!(wrapped(coloured, 43), expected);
    }

    #[test]
    fn the_help_of_every_command_fits_80_columns() {
        fn check(command: &mut clap::Command) {
            let text = wrapped(&command.render_help().to_string(), 80);
            let mut is_example = false;
            for line in text.lines() {
                is_example = line.starts_with("Examples:") || is_example && !line.is_empty();
                assert!(is_example || width(line) <= 80, "{}: {line}", command.get_name());
            }
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&text), words(&command.render_help().to_string()), "nothing is lost");
            command.get_subcommands_mut().for_each(check);
        }
        let mut command = crate::Arguments::command();
        command.build();
        check(&mut command);
    }
}
