//! Tests of the checker through its public API, in one binary.

mod examples;
mod fuzz;
mod hostile;
mod output;
mod reader;
mod registers;
mod timestamps;
mod unknown_outcomes;

use quorate_checker::{History, Level, Report, check};

/// Reads a history whose lines are written briefly, and judges it.
///
/// Each line is `invoke|ok|fail|info|spec|lost PROCESS [OPERATIONS]`; index and time are filled in. An
/// `@NAME` after the process names the session, `#NAME` the site, `!` an observed abort, `ts=N` or
/// `ts=N:CLIENT` a commit timestamp.
fn brief(text: &str) -> History {
    let json = expand(text);
    History::read(json.as_bytes()).unwrap_or_else(|error| panic!("{error} in\n{json}"))
}

/// The brief notation as JSON lines.
fn expand(text: &str) -> String {
    let mut json = String::new();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    for (index, line) in lines.enumerate() {
        let (head, ops) = line.split_at(line.find('[').expect("every line has operations"));
        let mut words = head.split_whitespace();
        let (kind, process) = (words.next().unwrap(), words.next().unwrap());
        let mut fields = String::new();
        for word in words {
            fields += &match word.split_at(1) {
                ("@", name) => format!("\"session\":\"{name}\","),
                ("#", name) => format!("\"site\":\"{name}\","),
                ("!", _) => "\"observed\":true,".to_string(),
                _ => {
                    let ts = word.strip_prefix("ts=").expect("a known field");
                    let pair = ts.split_once(':').map(|(time, client)| format!("[{time},{client}]"));
                    format!("\"ts\":{},", pair.as_deref().unwrap_or(ts))
                }
            };
        }
        let time = index * 10;
        json += &format!(
            "{{\"index\":{index},\"type\":\"{kind}\",\"process\":{process},\"f\":\"txn\",\"time\":{time},{fields}\"value\":{ops}}}\n"
        );
    }
    json
}

/// The verdicts at the strict, session and plain serializable levels, as one letter each: `v`, `i` or `u`.
fn verdicts(text: &str) -> String {
    let history = brief(text);
    let levels = [Level::StrictSerializable, Level::SessionSerializable, Level::Serializable];
    levels.map(|level| check(&history, level).verdict.name()[..1].to_string()).concat()
}

fn strict(text: &str) -> Report {
    check(&brief(text), Level::StrictSerializable)
}

/// The kind and the transactions of the first anomaly at a level.
fn anomaly(text: &str, level: Level) -> (&'static str, Vec<u32>) {
    let report = check(&brief(text), level);
    let first = report.anomalies.first().unwrap_or_else(|| panic!("{report}"));
    (first.kind.name(), first.txns.clone())
}
