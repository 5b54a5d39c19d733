//! The one build with code in it: all tests, and the binary that they, the simulation and the torture run.
//!
//! All stages that run something run what this has built. A second profile would cost as much again; this one has debug
//! assertions and checks for overflow, which the release profile has not, and is optimized enough to simulate with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::shell;
use crate::stage::Outcome;

/// The build that cargo is asked for, and that the `tests` stage runs. Other packages or targets would ask for other
/// features of dependencies, and all of it would be built again.
pub(crate) const TESTS: [&str; 3] = ["test", "--workspace", "--locked"];

/// The file name of the binary, as on this system.
const BINARY: &str = if cfg!(windows) { "quorate.exe" } else { "quorate" };

pub(crate) fn run(root: &Path) -> Outcome {
    Quorate::built(root).map(|_| ()).into()
}

/// Builds what is not built yet; gives what cargo says of it, each artifact in a line of JSON.
fn build(root: &Path) -> Result<String, String> {
    let format = ["--no-run", "--message-format", "json-render-diagnostics"];
    let command = shell::cargo_command(root, &[&TESTS[..], &format].concat());
    let name = shell::name(&command);
    let (messages, success) = shell::output(command)?;
    if success { Ok(messages) } else { Err(format!("{name} failed")) }
}

/// The binaries that hold the tests of the workspace.
pub(crate) fn test_binaries(root: &Path) -> Result<Vec<TestBinary>, String> {
    let binaries: Vec<TestBinary> = build(root)?.lines().filter_map(TestBinary::parse).collect();
    if binaries.is_empty() { Err("cargo has built no tests".to_owned()) } else { Ok(binaries) }
}

/// A binary that holds tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestBinary {
    /// The folder of its package.
    pub(crate) package: PathBuf,
    /// Its source.
    pub(crate) source: PathBuf,
    /// Where it is.
    pub(crate) executable: PathBuf,
}

impl TestBinary {
    /// Reads what cargo says of an artifact; nothing if it is no test.
    fn parse(message: &str) -> Option<Self> {
        // The target of an artifact is described in such words as well.
        let (_, profile) = message.split_once(r#""profile":{"#)?;
        let (profile, _) = profile.split_once('}')?;
        if !profile.contains(r#""test":true"#) {
            return None;
        }
        let manifest = path(message, "manifest_path")?;
        let package = manifest.parent()?.to_owned();
        Some(TestBinary {
            package,
            source: path(message, "src_path")?,
            executable: path(message, "executable")?,
        })
    }

    /// The source, from the folder of the package.
    fn source(&self) -> std::path::Display<'_> {
        self.source.strip_prefix(&self.package).unwrap_or(&self.source).display()
    }

    fn is_integration_test(&self) -> bool {
        self.source.strip_prefix(&self.package).is_ok_and(|source| source.starts_with("tests"))
    }

    /// The line in which cargo names it before it runs.
    pub(crate) fn name(&self, root: &Path) -> String {
        let kind = if self.is_integration_test() { "" } else { "unittests " };
        let executable = self.executable.strip_prefix(root).unwrap_or(&self.executable).display();
        format!("     Running {kind}{} ({executable})", self.source())
    }

    /// How a person finds it again.
    pub(crate) fn again(&self) -> String {
        let folder = self.package.file_name().unwrap_or_default().to_string_lossy();
        format!("{folder}: {}", self.source())
    }

    /// Has a command run it as cargo would.
    pub(crate) fn in_place(&self, mut command: Command) -> Command {
        command.arg("--quiet").current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command
    }
}

/// The `quorate` binary.
pub(crate) struct Quorate {
    root: PathBuf,
    binary: PathBuf,
}

impl Quorate {
    /// Builds what is not built yet.
    pub(crate) fn built(root: &Path) -> Result<Self, String> {
        let binary = binary(&build(root)?).ok_or_else(|| format!("cargo has built no {BINARY}"))?;
        Ok(Quorate { root: root.to_owned(), binary })
    }

    /// Builds it as it is released.
    pub(crate) fn released(root: &Path) -> Result<Self, String> {
        let arguments = ["build", "--release", "--locked", "--package", "quorate-cli"];
        let format = ["--message-format", "json-render-diagnostics"];
        let (messages, success) =
            shell::output(shell::cargo_command(root, &[&arguments[..], &format].concat()))?;
        match binary(&messages) {
            Some(binary) if success => Ok(Quorate { root: root.to_owned(), binary }),
            _ => Err(format!("cargo {} failed", arguments.join(" "))),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.binary
    }

    /// The folder that it is in.
    pub(crate) fn folder(&self) -> &Path {
        self.binary.parent().unwrap_or(&self.root)
    }

    /// Runs it in the repository. Gives what it wrote to standard output, and whether it succeeded.
    pub(crate) fn output(&self, arguments: &[&str]) -> Result<(String, bool), String> {
        self.output_of(Command::new(&self.binary), arguments)
    }

    /// The same, for what only computes.
    pub(crate) fn computed(&self, arguments: &[&str]) -> Result<(String, bool), String> {
        self.output_of(shell::computing(&self.binary), arguments)
    }

    fn output_of(&self, mut command: Command, arguments: &[&str]) -> Result<(String, bool), String> {
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        shell::output(command)
    }
}

/// Builds the binary of another work tree, in a target directory of its own; gives where it is.
pub(crate) fn binary_of(tree: &Path, target: &Path) -> Result<PathBuf, String> {
    let arguments = ["build", "--locked", "--package", "quorate-cli"];
    let format = ["--message-format", "json-render-diagnostics"];
    let mut command = shell::cargo_command(tree, &[&arguments[..], &format].concat());
    command.env("CARGO_TARGET_DIR", target);
    let (messages, success) = shell::output(command)?;
    binary(&messages).filter(|_| success).ok_or_else(|| format!("cargo {} failed", arguments.join(" ")))
}

/// Where the binary is, by what cargo says of what it has built.
fn binary(messages: &str) -> Option<PathBuf> {
    let mut executables = messages.lines().filter_map(|line| path(line, "executable"));
    executables.find(|path| path.file_name().is_some_and(|name| name == BINARY))
}

/// A path in a line of JSON.
fn path(message: &str, field: &str) -> Option<PathBuf> {
    let (_, rest) = message.split_once(&format!(r#""{field}":""#))?;
    let (path, _) = rest.split_once('"')?;
    Some(PathBuf::from(path.replace(r"\\", r"\")))
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

    #[test]
    fn tests_are_told_from_what_is_built_for_them() {
        let artifact = |folder: &str, source: &str, is_test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/clone/{folder}/Cargo.toml","target":{{"kind":["lib"],"src_path":"/clone/{folder}/{source}","test":true}},"profile":{{"opt_level":"1","test":{is_test}}},"executable":"/clone/target/debug/deps/a-1","fresh":true}}"#
            )
        };
        assert_eq!(TestBinary::parse(&artifact("crates/a", "src/main.rs", false)), None);
        let unit = TestBinary::parse(&artifact("crates/a", "src/lib.rs", true)).unwrap();
        let root = Path::new("/clone");
        assert_eq!(unit.name(root), "     Running unittests src/lib.rs (target/debug/deps/a-1)");
        let test = TestBinary::parse(&artifact("crates/a", "tests/main.rs", true)).unwrap();
        assert_eq!(test.name(root), "     Running tests/main.rs (target/debug/deps/a-1)");
        assert_eq!((test.again().as_str(), test.package), ("a: tests/main.rs", root.join("crates/a")));
    }
}
