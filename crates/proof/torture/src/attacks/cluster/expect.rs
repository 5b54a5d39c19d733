//! The messages that nodes have to print: the problem, its file, and the remedy.

use std::time::{Duration, Instant};

use quorate_cluster::Failure;

use super::{Cluster, POLL};

/// How long a node may take to say what is wrong.
const SAY_TIMEOUT: Duration = Duration::from_secs(15);

/// The last lines of a log that a message quotes.
const QUOTED_LINES: usize = 3;

impl Cluster {
    /// Waits until a node runs, does not serve everything, and says all these words in its status and in its log.
    pub(in super::super) async fn expect_refused(
        &mut self,
        node: usize,
        words: &[&str],
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + SAY_TIMEOUT;
        loop {
            let lacks = match self.refusal(node, words).await? {
                Ok(()) => return Ok(()),
                Err(lacks) => lacks,
            };
            self.check_that_all_run()?;
            if Instant::now() >= deadline {
                return Err(Failure::failed(lacks));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until a node either is refused in this way or, as [`Cluster::expect_exit`] wants it, ends.
    pub(in super::super) async fn expect_complaint(
        &mut self,
        node: usize,
        words: &[&str],
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + SAY_TIMEOUT;
        loop {
            if self.has_ended_well(node, words)? {
                return Ok(());
            }
            match self.refusal(node, words).await? {
                Ok(()) => return Ok(()),
                Err(lacks) if Instant::now() >= deadline => return Err(Failure::failed(lacks)),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// The difference to a node that is refused and says these words; none if this one is and does.
    async fn refusal(&mut self, node: usize, words: &[&str]) -> Result<Result<(), String>, Failure> {
        let status = self.status(node).await;
        let (healthy, said) = status
            .map_or((false, "nothing".to_owned()), |status| (status.healthy, status.problems.join("; ")));
        let log = self.log(node)?;
        let unsaid = |text: &str| words.iter().copied().find(|word| !text.contains(word)).map(str::to_owned);
        let (in_status, in_log) = (unsaid(&said), unsaid(&log));
        if !healthy && in_status.is_none() && in_log.is_none() {
            self.note(format!("{node} says: {said}"));
            return Ok(Ok(()));
        }
        Ok(Err(format!(
            "node {node} is to be refused and to say {words:?}; its status is healthy: {healthy}, lacks {in_status:?} and says \
             {said:?}; its log lacks {in_log:?}"
        )))
    }

    /// Waits until a server ends by itself with exit code 1, having said all these words, and did not panic.
    pub(in super::super) async fn expect_exit(&mut self, node: usize, words: &[&str]) -> Result<(), Failure> {
        let deadline = Instant::now() + SAY_TIMEOUT;
        while !self.has_ended_well(node, words)? {
            if Instant::now() >= deadline {
                return Err(Failure::failed(format!("server {node} is to end with exit code 1, and runs")));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// True if a server has ended by itself; an error if not with exit code 1 and all these words, or by a panic.
    fn has_ended_well(&mut self, node: usize, words: &[&str]) -> Result<bool, Failure> {
        let Some(status) = self.processes.take_ended(node)? else { return Ok(false) };
        self.running.remove(&node);
        let log = self.log(node)?;
        self.note(format!("{node} has ended ({status}): {}", last_lines(&log)));
        let unsaid = words.iter().find(|word| !log.contains(*word));
        if status.code() == Some(1) && unsaid.is_none() && panic_in(&log).is_none() {
            return Ok(true);
        }
        Err(Failure::failed(format!(
            "server {node} is to end with exit code 1 and to say {words:?}; it has ended with {status}, lacks {unsaid:?} and says: {}",
            last_lines(&log)
        )))
    }

    /// An error if a server has ended by itself.
    pub(super) fn check_that_all_run(&mut self) -> Result<(), Failure> {
        for node in self.running.clone() {
            if let Some(status) = self.processes.take_ended(node)? {
                self.running.remove(&node);
                let log = self.log(node)?;
                let words = panic_in(&log).map_or_else(|| last_lines(&log), str::to_owned);
                return Err(Failure::failed(format!(
                    "server {node} has ended by itself ({status}): {words}"
                )));
            }
        }
        Ok(())
    }

    /// The lines that a node has logged since it was started last.
    pub(super) fn log(&self, node: usize) -> Result<String, Failure> {
        let path = self.log_path(node);
        let bytes = std::fs::read(&path)
            .map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
        let start = (self.log_starts[node] as usize).min(bytes.len());
        Ok(without_colours(&String::from_utf8_lossy(&bytes[start..])))
    }
}

/// The line of a log that tells of a panic, with the next, which says why.
pub(super) fn panic_in(log: &str) -> Option<&str> {
    let start = log.find("panicked at").or_else(|| log.find("Cannot drop a runtime"))?;
    let mut lines = log[start..].match_indices('\n');
    let end = lines.nth(1).map_or(log.len() - start, |(end, _)| end);
    Some(&log[start..start + end])
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join(" / ")
}

/// A text without the sequences that colour it on a terminal.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_with_its_reason() {
        let log = "INFO all is well\nthread 'node' panicked at log.rs:7:\nit overflows\nnote: run with\n";
        assert_eq!(panic_in(log), Some("panicked at log.rs:7:\nit overflows"));
        assert_eq!(panic_in("INFO all is well\n"), None);
        assert_eq!(without_colours("\u{1b}[2mtime\u{1b}[0m INFO"), "time INFO");
    }
}
