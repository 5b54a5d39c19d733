//! The one build with code in it: all tests, and the binary that they, the simulation and the torture run.
//!
//! All stages that run something run what this has built. A second profile would cost as much again; this one has debug
//! assertions and checks for overflow, which the release profile has not, and is optimized enough to simulate with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::shell;
use crate::stage::Outcome;

/// What cargo is asked to build, and the `tests` stage to run. Other packages or targets would ask for other features of
/// dependencies, and all of it would be built again.
pub(crate) const TESTS: [&str; 3] = ["test", "--workspace", "--locked"];

/// The file name of the binary, as on this system.
const BINARY: &str = if cfg!(windows) { "quorate.exe" } else { "quorate" };

pub(crate) fn run(root: &Path) -> Outcome {
    Quorate::built(root).map(|_| ()).into()
}

/// The `quorate` binary.
pub(crate) struct Quorate {
    root: PathBuf,
    binary: PathBuf,
}

impl Quorate {
    /// Builds what is not built yet.
    pub(crate) fn built(root: &Path) -> Result<Self, String> {
        let format = ["--no-run", "--message-format", "json-render-diagnostics"];
        let command = shell::cargo_command(root, &[&TESTS[..], &format].concat());
        let name = shell::name(&command);
        let (messages, success) = shell::output(command)?;
        if !success {
            return Err(format!("{name} failed"));
        }
        let binary = binary(&messages).ok_or_else(|| format!("{name} has built no {BINARY}"))?;
        Ok(Quorate { root: root.to_owned(), binary })
    }

    /// Runs it in the repository. Gives what it wrote to standard output, and whether it succeeded.
    pub(crate) fn output(&self, arguments: &[&str]) -> Result<(String, bool), String> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        shell::output(command)
    }
}

/// Where the binary is, by what cargo says of what it has built: each artifact in a line of JSON.
fn binary(messages: &str) -> Option<PathBuf> {
    let executables = messages.lines().filter_map(|line| {
        let (_, rest) = line.split_once(r#""executable":""#)?;
        let (path, _) = rest.split_once('"')?;
        Some(PathBuf::from(path.replace(r"\\", r"\")))
    });
    executables.into_iter().find(|path| path.file_name().is_some_and(|name| name == BINARY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_told_from_libraries_and_tests() {
        let built = |name: &str| {
            format!(r#"{{"reason":"compiler-artifact","executable":"/clone/{name}","fresh":true}}"#)
        };
        let library = r#"{"reason":"compiler-artifact","executable":null,"fresh":true}"#.to_owned();
        let tests = built("target/debug/deps/quorate-218fc255adbc32ae");
        assert_eq!(binary(&[library.clone(), tests.clone()].join("\n")), None);
        let name = format!("target/debug/{BINARY}");
        assert_eq!(
            binary(&[library, tests, built(&name)].join("\n")),
            Some(PathBuf::from("/clone").join(name))
        );
    }
}
