//! Commands that an operator gives, by the program that operators use.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_cluster::Failure;

use super::{Cluster, POLL};

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a command.
#[derive(Clone, Debug)]
pub(in super::super) struct Told {
    /// Its exit code; none if a signal has ended it.
    pub(in super::super) code: Option<i32>,
    /// Its output.
    pub(in super::super) out: String,
    /// Its words on standard error.
    pub(in super::super) err: String,
}

/// A command that runs; it ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A command that has ended already cannot be killed, which is no matter.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cluster {
    /// Gives a command of `quorate`, connected to every node.
    pub(in super::super) async fn command(&mut self, words: &[&str]) -> Result<Told, Failure> {
        let files = ["out", "err"]
            .map(|end| self.layout.directory.join(format!("command-{}.{end}", self.steps.len())));
        let [out, err] = &files;
        let mut command = Command::new(self.processes.program());
        command.args(words).arg("--connect").arg(self.layout.addresses().join(","));
        command.stdin(Stdio::null());
        command.stdout(File::create(out).map_err(Failure::failed)?);
        command.stderr(File::create(err).map_err(Failure::failed)?);
        let mut running = Running(command.spawn().map_err(Failure::failed)?);
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = running.0.try_wait().map_err(Failure::failed)? {
                break status;
            }
            if Instant::now() >= deadline {
                return Err(Failure::failed(format!("`quorate {}` runs for {TIMEOUT:?}", words.join(" "))));
            }
            tokio::time::sleep(POLL).await;
        };
        let read = |path| std::fs::read_to_string(path).map_err(Failure::failed);
        let told = Told { code: status.code(), out: read(out)?, err: read(err)? };
        self.note(format!("quorate {}: {told:?}", words.join(" ")));
        Ok(told)
    }

    /// Gives a command that has to succeed; what it has printed.
    pub(in super::super) async fn command_done(&mut self, words: &[&str]) -> Result<String, Failure> {
        let told = self.command(words).await?;
        if told.code == Some(0) {
            return Ok(told.out);
        }
        let Told { code, err, .. } = told;
        Err(Failure::failed(format!("`quorate {}` ends with {code:?}: {}", words.join(" "), err.trim_end())))
    }
}
