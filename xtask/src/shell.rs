//! Running other programs.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// The cargo that runs this program.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A cargo command in the repository, without input.
pub(crate) fn cargo_command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_program());
    command.args(arguments).current_dir(root).stdin(Stdio::null());
    command
}

/// A command that computes, and yields to what waits for clocks.
pub(crate) fn computing(program: &Path) -> Command {
    if !cfg!(unix) {
        return Command::new(program);
    }
    let mut command = Command::new("nice");
    // Several compute at a time, and hosts have to find their clocks all the same.
    command.args(["-n", "19"]).arg(program);
    command
}

/// Runs cargo; its output is ours.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    run(cargo_command(root, arguments))
}

/// Runs a command whose output is ours.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{}: {error}", name(&command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", name(&command))) }
}

/// Runs a command and gives what it wrote to standard output, and whether it succeeded. Its standard error is shown.
pub(crate) fn output(mut command: Command) -> Result<(String, bool), String> {
    command.stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{}: {error}", name(&command)))?;
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success()))
}

/// The command as a person would type it.
pub(crate) fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
