//! Runs the tests of the Python package with pytest, on the extension that was built with this and the `quorate` binary beside it.
//!
//! `.ci/run` installs pytest into `target/clients/python`. Without it nothing is tried, which is said; where `QUORATE_CLIENTS` names the folder of clients,
//! it has to be there.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file name of the extension, as cargo has it.
const LIBRARY: &str =
    if cfg!(target_os = "macos") { "libquorate_python.dylib" } else { "libquorate_python.so" };

/// The folder that clients are installed in, and whether they must be there.
fn clients() -> (PathBuf, bool) {
    match std::env::var_os("QUORATE_CLIENTS") {
        Some(folder) => (PathBuf::from(folder), true),
        None => (Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/clients"), false),
    }
}

/// True if a Python has all that the tests import.
fn has_pytest(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import pytest, pytest_asyncio"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Lays the package out as a wheel would: its files and the extension side by side.
fn lay_out(package: &Path, library: &Path, folder: &Path) -> std::io::Result<()> {
    let laid = folder.join("quorate");
    std::fs::create_dir(&laid)?;
    for entry in std::fs::read_dir(package)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::os::unix::fs::symlink(entry.path(), laid.join(entry.file_name()))?;
        }
    }
    std::os::unix::fs::symlink(library, laid.join("_native.abi3.so"))
}

/// Says something that is seen although the test passes: output of macros is kept back.
fn say(text: &str) {
    std::io::stderr().write_all(format!("the Python package: {text}\n").as_bytes()).unwrap();
}

#[test]
fn the_package_passes_its_tests() {
    let (clients, must_be_there) = clients();
    let python = clients.join("python/bin/python");
    if !has_pytest(&python) {
        assert!(!must_be_there, "pytest and pytest-asyncio are not in {}", clients.display());
        say("not tried, because pytest and pytest-asyncio are not in target/clients/python");
        return;
    }
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let quorate = built.parent().unwrap().join("quorate");
    assert!(quorate.is_file(), "{} is not built: `cargo test --workspace` builds it", quorate.display());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    lay_out(&manifest.join("package/quorate"), &built.join(LIBRARY), folder.path()).unwrap();
    let mut pytest = Command::new(&python);
    pytest
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5", "tests"])
        .current_dir(manifest)
        .env("PYTHONPATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("QUORATE", &quorate)
        .stdin(Stdio::null());
    let output = pytest.output().unwrap();
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{told}");
    let closing = printed.lines().last().unwrap_or_default();
    assert!(closing.contains(" passed"), "{printed}{told}");
    say(closing);
}
