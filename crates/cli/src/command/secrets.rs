//! Passwords and tokens, from a person or a file.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use quorate::credentials::{PASSWORD_BYTES_MAX, Password};
use quorate::rights::PasswordHash;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::exit::Failure;

/// Reads a password and hashes it: the first line of a file, `-` for standard input, or what a person types twice.
pub(super) fn read_new(file: Option<&Path>) -> Result<PasswordHash, Failure> {
    let password = match file {
        Some(path) => from_file("password", path)?,
        None => from_person()?,
    };
    Password::told(password).hash().map_err(Failure::usage)
}

/// Reads the password by which a user logs in: the first line of a file, or what a person types.
pub(super) fn read_known(user: &str, file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    match file {
        Some(path) => from_file("password", path),
        None => ask(&mut terminal()?, &format!("Password of {user}: ")).map_err(Failure::failed),
    }
}

/// Reads a secret: the first line of a file, `-` for standard input.
pub(super) fn from_file(what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("cannot read the {what} from {}: {error}", path.display()))
    };
    let read: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(path).map_err(cannot)?),
    };
    first_line(read).map_err(cannot)
}

/// The first line, without its end. More than a password may have is not read.
fn first_line(read: impl Read) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(read.take(PASSWORD_BYTES_MAX as u64 + 3)).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

fn terminal() -> Result<File, Failure> {
    let no_terminal = |error| {
        Failure::usage(format!(
            "there is no terminal to ask for a password ({error}): name a file that holds it, or - for standard input"
        ))
    };
    OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(no_terminal)
}

fn from_person() -> Result<Vec<u8>, Failure> {
    let mut terminal = terminal()?;
    let first = ask(&mut terminal, "Password: ").map_err(Failure::failed)?;
    let second = ask(&mut terminal, "The same again: ").map_err(Failure::failed)?;
    if first == second {
        Ok(first)
    } else {
        Err(Failure::usage("the two passwords differ, and nothing was changed"))
    }
}

/// Shows what is typed again when it is dropped.
struct Hidden<'a> {
    terminal: &'a File,
    before: Termios,
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.terminal, OptionalActions::Now, &self.before) {
            errln!("the terminal does not show what is typed ({error}): `stty echo` mends that");
        }
    }
}

/// Asks, and reads a line that is not shown.
fn ask(terminal: &mut File, question: &str) -> std::io::Result<Vec<u8>> {
    terminal.write_all(question.as_bytes())?;
    let before = tcgetattr(&*terminal)?;
    let mut silent = before.clone();
    silent.local_modes -= LocalModes::ECHO;
    let line = {
        let _hidden = Hidden { terminal, before };
        tcsetattr(&*terminal, OptionalActions::Flush, &silent)?;
        first_line(&*terminal)
    };
    terminal.write_all(b"\n")?;
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_password() {
        for (text, line) in [("a b\nc", "a b"), ("a\r\n", "a"), ("a", "a"), ("", ""), ("\n", "")] {
            assert_eq!(first_line(text.as_bytes()).unwrap(), line.as_bytes(), "{text:?}");
        }
        let long = vec![b'x'; 10 * PASSWORD_BYTES_MAX];
        assert!(first_line(&long[..]).unwrap().len() > PASSWORD_BYTES_MAX, "it is refused as too long");
    }
}
