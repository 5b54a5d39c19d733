//! Compiles the machines for a target without an operating system, which proves that no I/O leaked in.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::crates::{CRATES, Kind};
use crate::shell;
use crate::stage::Outcome;

const TARGET: &str = "wasm32-unknown-unknown";

pub(crate) fn run(root: &Path) -> Outcome {
    if !is_installed(root) && !install(root) {
        return Outcome::skipped(format!("{TARGET} is not installed, and rustup could not add it"));
    }
    let machines: Vec<&str> =
        CRATES.iter().filter(|known| known.kind == Kind::Machine).map(|known| known.package).collect();
    let mut arguments = vec!["check", "--locked", "--target", TARGET];
    for package in &machines {
        arguments.extend(["--package", package]);
    }
    match shell::cargo(root, &arguments) {
        Ok(()) => Outcome::passed(machines.join(", ")),
        Err(reason) => Outcome::failed(reason),
    }
}

/// Looks where the compiler looks, so that a toolchain without rustup will do.
fn is_installed(root: &Path) -> bool {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--print", "target-libdir", "--target", TARGET]).current_dir(root).stdin(Stdio::null());
    shell::output(command).is_ok_and(|(folder, success)| success && Path::new(folder.trim()).is_dir())
}

fn install(root: &Path) -> bool {
    let mut command = Command::new("rustup");
    command.args(["target", "add", TARGET]).current_dir(root).stdin(Stdio::null());
    shell::run(command).is_ok()
}
