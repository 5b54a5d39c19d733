//! Programs with a bound on their time and memory: a mutant may go on for ever, and fill its memory meanwhile.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The address space of a program, in kilobytes.
const MEMORY_KB: u32 = 4_000_000;

/// A command that yields to what waits for clocks, with bounded memory; and with bounded time of the processor, where that is given.
pub(crate) fn bounded(program: &Path, processor_max: Option<Duration>) -> Command {
    if !cfg!(unix) {
        return Command::new(program);
    }
    let mut command = Command::new("nice");
    let processor_max = processor_max.map(|most| format!("ulimit -t {}; ", most.as_secs() + 1));
    let script = format!("ulimit -v {MEMORY_KB}; {}exec \"$0\" \"$@\"", processor_max.unwrap_or_default());
    command
        .args([OsStr::new("-n"), OsStr::new("10"), OsStr::new("sh"), OsStr::new("-c"), OsStr::new(&script)])
        .arg(program);
    command
}

/// How a program has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with success or not.
    Exit { success: bool, printed: String },
    /// It was ended, because it took too long.
    Late,
}

/// True if a program was ended from outside, as it is once its time of the processor is over.
#[cfg(unix)]
fn is_killed(status: ExitStatus) -> bool {
    /// SIGKILL, which a program cannot see to itself.
    const KILLED: i32 = 9;
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(KILLED)
}

#[cfg(not(unix))]
fn is_killed(_: ExitStatus) -> bool {
    false
}

/// Runs a program to its end, or for so long.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run(mut command: Command, limit: Duration) -> Result<End, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child =
        command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.map(|mut output| output.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let begin = Instant::now();
    let end = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if is_killed(status) => break None,
            Some(status) => break Some(status.success()),
            None if begin.elapsed() > limit => break None,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    if end.is_none() {
        kill(&mut child);
    }
    let printed = reader.join().unwrap_or_default();
    Ok(match end {
        Some(success) => End::Exit { success, printed },
        None => End::Late,
    })
}

/// Ends a program and waits for that.
pub(crate) fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_goes_on_for_ever_is_ended() {
        let mut command = bounded(Path::new("sleep"), None);
        command.arg("100");
        assert_eq!(run(command, Duration::from_millis(100)), Ok(End::Late));
        let mut command = bounded(Path::new("echo"), None);
        command.arg("done");
        let printed = "done\n".to_owned();
        assert_eq!(run(command, Duration::from_secs(60)), Ok(End::Exit { success: true, printed }));
    }

    /// On a machine that others use as well a program is slow that does not hang.
    #[test]
    fn a_program_is_late_by_the_time_that_it_computes() {
        let mut command = bounded(Path::new("sh"), Some(Duration::ZERO));
        command.args(["-c", "while true; do :; done"]);
        assert_eq!(run(command, Duration::from_secs(60)), Ok(End::Late));
        let mut command = bounded(Path::new("sleep"), Some(Duration::ZERO));
        command.arg("2");
        let printed = String::new();
        assert_eq!(run(command, Duration::from_secs(60)), Ok(End::Exit { success: true, printed }));
    }
}
