//! Programs with a bound on their time and memory: a mutant may go on for ever, and fill its memory meanwhile.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So much longer than it may compute a program may take, because others use the machine as well.
pub(crate) const WAIT_FACTOR: u32 = 12;

/// How often it is looked at how much a program has computed.
const LOOK: Duration = Duration::from_millis(20);

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
fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The time of the processor that a program has taken since it was started; none where the system does not tell.
fn computed(child: &Child) -> Option<Duration> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    computed_by(&text)
}

/// Reads the time of the processor off what Linux says of a process (proc_pid_stat(5)).
fn computed_by(text: &str) -> Option<Duration> {
    /// For every program one tick is a hundredth of a second, whatever the kernel counts in.
    const TICKS_PER_SECOND: f64 = 100.0;
    // The name of the program comes before, in parentheses, and may hold anything.
    let (_, after) = text.rsplit_once(')')?;
    let mut ticks = after.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some(Duration::from_secs_f64((user + system) as f64 / TICKS_PER_SECOND))
}

/// Why there is no further line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLine {
    /// The program has taken too long.
    Late,
    /// The program has ended.
    Over,
}

/// The lines of a program, as they come.
pub(crate) struct Lines {
    child: Child,
    lines: Receiver<String>,
    reader: JoinHandle<()>,
}

impl Lines {
    /// Starts a program.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn of(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let Some(output) = child.stdout.take() else { return Err("no output".to_owned()) };
        let (sender, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            // Nobody listens any more once a line has taken too long.
            let _ =
                BufReader::new(output).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok());
        });
        Ok(Lines { child, lines, reader })
    }

    /// The next line, for which the program may compute for so long. On a machine that others use as well it may take longer, but not
    /// without end: a program may wait for itself.
    pub(crate) fn next(&mut self, patience: Duration) -> Result<String, NoLine> {
        let (begin, before) = (Instant::now(), computed(&self.child));
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(NoLine::Over),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let taken = computed(&self.child).zip(before).map(|(now, before)| now.saturating_sub(before));
            if taken.is_some_and(|taken| taken > patience) || begin.elapsed() > patience * WAIT_FACTOR {
                return Err(NoLine::Late);
            }
        }
    }

    /// Ends the program.
    pub(crate) fn end(mut self) {
        kill(&mut self.child);
        drop(self.lines);
        let _ = self.reader.join();
    }
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

    /// The same with each line.
    #[test]
    fn a_line_is_late_by_the_time_that_its_program_computes() {
        let lines = |script: &str| {
            let mut command = bounded(Path::new("sh"), None);
            command.args(["-c", script]);
            Lines::of(command).unwrap()
        };
        let mut sleeps = lines("sleep 1; echo one; echo two");
        let patience = Duration::from_millis(300);
        assert_eq!(sleeps.next(patience), Ok("one".to_owned()), "it computes nothing meanwhile");
        assert_eq!(sleeps.next(patience), Ok("two".to_owned()));
        assert_eq!(sleeps.next(patience), Err(NoLine::Over));
        sleeps.end();
        let mut computes = lines("echo one; while true; do :; done");
        assert_eq!(computes.next(patience), Ok("one".to_owned()));
        assert_eq!(computes.next(patience), Err(NoLine::Late));
        let taken = computed(&computes.child);
        let bounds = patience..patience * WAIT_FACTOR / 2;
        assert!(taken.is_none_or(|taken| bounds.contains(&taken)), "{taken:?}, and not by the clock");
        computes.end();
        let mut waits = lines("exec sleep 100");
        assert_eq!(waits.next(Duration::from_millis(50)), Err(NoLine::Late), "it would wait for ever");
        waits.end();
    }

    #[test]
    fn the_time_of_a_process_is_read_behind_its_name() {
        let rest = "R 1 2 3 4 5 6 7 8 9 10 150 30 9 9 20 0 1 0 77";
        for name in ["seeds", "a) b (c", "1 2 3"] {
            let text = format!("17 ({name}) {rest}");
            assert_eq!(computed_by(&text), Some(Duration::from_millis(1_800)), "{name}");
        }
        assert_eq!(computed_by("17 (seeds) R 1 2"), None);
        assert_eq!(computed_by("nothing"), None);
    }
}
