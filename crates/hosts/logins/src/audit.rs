//! The audit log: log-ins, refusals and administration, as lines of JSON.
//!
//! Lines are written by a thread of their own, so that a slow disk delays no request. If more comes than it can write, lines are lost, and a line says how many. Secrets
//! never get here: what is recorded is made of names, addresses and errors.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// So many lines wait to be written.
const WAITING_MAX: usize = 4_096;

/// The longest text of a line, in bytes: a hostile name must not fill the disk.
const TEXT_BYTES_MAX: usize = 512;

/// So many refusals are recorded in a second, and so many other events: a client that is refused again and again must not fill the disk, nor hide what else happens.
const REFUSALS_PER_SECOND_MAX: u32 = 50;
const OTHERS_PER_SECOND_MAX: u32 = 500;

/// The audit log of a node.
#[derive(Debug)]
pub struct Audit {
    lines: SyncSender<String>,
    lost: AtomicU64,
    /// How many refusals, and other events, were recorded in this second.
    recorded: Mutex<(u64, [u32; 2])>,
}

impl Audit {
    /// Appends to a file, which only its owner can read if it is created.
    ///
    /// # Errors
    /// It cannot be opened, or there is no thread for it.
    pub fn open(path: &Path) -> io::Result<Audit> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let (lines, written) = sync_channel(WAITING_MAX);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || write(&written, file))?;
        Ok(Audit { lines, lost: AtomicU64::new(0), recorded: Mutex::default() })
    }

    /// A client has logged in at a door, or has failed to.
    pub fn logged_in(&self, door: &str, user: &str, peer: Option<SocketAddr>, failure: Option<&str>) {
        let event = if failure.is_none() { "login" } else { "login-failed" };
        self.record(event, door, Some(user), peer, &[("reason", failure)]);
    }

    /// A client was refused something.
    pub fn refused(&self, door: &str, user: Option<&str>, peer: Option<SocketAddr>, reason: &str) {
        self.record("refused", door, user, peer, &[("reason", Some(reason))]);
    }

    /// A user has done something to the cluster.
    pub fn administered(
        &self,
        door: &str,
        user: Option<&str>,
        peer: Option<SocketAddr>,
        what: &str,
        of: &str,
    ) {
        self.record("administration", door, user, peer, &[("what", Some(what)), ("of", Some(of))]);
    }

    fn record(
        &self,
        event: &str,
        door: &str,
        user: Option<&str>,
        peer: Option<SocketAddr>,
        more: &[(&str, Option<&str>)],
    ) {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        if !self.has_room(event == "refused", (micros / 1_000_000) as u64) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut line = format!("{{\"at_us\":{micros},\"event\":\"{event}\"");
        let peer = peer.map(|peer| peer.to_string());
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let fields = [("door", Some(door)), ("user", user), ("peer", peer.as_deref())];
        for (name, value) in fields.iter().chain(more) {
            if let Some(value) = value {
                line.push_str(&format!(",\"{name}\":{}", quoted(value)));
            }
        }
        if lost > 0 {
            line.push_str(&format!(",\"lost_before\":{lost}"));
        }
        line.push_str("}\n");
        if self.lines.try_send(line).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

impl Audit {
    /// Counts an event of a second, if there is room for it.
    fn has_room(&self, is_refusal: bool, second: u64) -> bool {
        // Nothing panics while it is held.
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.0 != second {
            *recorded = (second, [0; 2]);
        }
        let max = if is_refusal { REFUSALS_PER_SECOND_MAX } else { OTHERS_PER_SECOND_MAX };
        let count = &mut recorded.1[usize::from(is_refusal)];
        let has_room = *count < max;
        *count += u32::from(has_room);
        has_room
    }
}

/// A text as a string of JSON, cut where it is too long.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        if quoted.len() > TEXT_BYTES_MAX {
            quoted.push('…');
            break;
        }
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() || ['\u{2028}', '\u{2029}'].contains(&control) => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn write(lines: &Receiver<String>, file: File) {
    let mut file = BufWriter::new(file);
    let mut has_failed = false;
    while let Ok(line) = lines.recv() {
        let mut written = file.write_all(line.as_bytes());
        // Lines that have come meanwhile are written with it.
        while let Ok(line) = lines.try_recv() {
            written = written.and_then(|()| file.write_all(line.as_bytes()));
        }
        match written.and_then(|()| file.flush()) {
            Ok(()) => has_failed = false,
            Err(error) if !has_failed => {
                tracing::error!(%error, "the audit log cannot be written");
                has_failed = true;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_neither_fill_the_disk_nor_hide_what_else_happens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        for _ in 0..10_000 {
            audit.refused("redis", None, None, "no");
        }
        audit.logged_in("redis", "ada", None, None);
        drop(audit);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            let log = std::fs::read_to_string(&path).unwrap();
            let refusals = log.matches("refused").count();
            // It may have taken more than a second.
            assert!(refusals <= 10 * REFUSALS_PER_SECOND_MAX as usize, "{refusals}");
            if log.contains("\"event\":\"login\"") && log.contains("lost_before") {
                return;
            }
            assert!(std::time::Instant::now() < until, "{log}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    #[test]
    fn texts_of_strangers_stay_within_their_line() {
        assert_eq!(quoted("a\"b\\c\n\u{7f}"), "\"a\\\"b\\\\c\\u000a\\u007f\"");
        assert!(quoted(&"x".repeat(100_000)).len() < TEXT_BYTES_MAX + 10);
    }
}
