//! Tests of the checker through its public API, in one binary.

mod corpus;
mod examples;
mod exports;
mod figure8;
mod fuzz;
mod hostile;
mod levels;
mod mutants;
mod output;
mod parts;
mod reader;
mod registers;
mod sets;
mod shrinking;
mod speculation;
mod timestamps;
mod unknown_outcomes;
mod whitebox;

use quorate_checker::{History, Level, Report, check};

/// Reads a history whose lines are written briefly, and judges it.
///
/// Each line is `invoke|ok|fail|info|spec|lost PROCESS [OPERATIONS]`; index and time are filled in. An
/// `@NAME` after the process names the session, `#NAME` the site, `!` an observed abort, `~` one that another node has told; `ts=N` or
/// `ts=N:CLIENT` is a commit timestamp, and so are `rs=`, `lc=` and `fc=`; `vts=A:1,B:2` is a snapshot vector and
/// `site_seq=N` the place among the commits of a site.
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
                ("~", _) => "\"elsewhere\":true,".to_string(),
                _ => fact(word),
            };
        }
        let time = index * 10;
        json += &format!(
            "{{\"index\":{index},\"type\":\"{kind}\",\"process\":{process},\"f\":\"txn\",\"time\":{time},{fields}\"value\":{ops}}}\n"
        );
    }
    json
}

/// A white-box field as JSON.
fn fact(word: &str) -> String {
    let (name, value) = word.split_once('=').expect("a field");
    let value = match (name, value.split_once(':')) {
        ("vts", _) => {
            let entries = value.split(',').filter_map(|entry| entry.split_once(':'));
            let entries: Vec<String> =
                entries.map(|(site, commits)| format!("\"{site}\":{commits}")).collect();
            format!("{{{}}}", entries.join(","))
        }
        ("ts" | "rs" | "lc" | "fc", Some((time, client))) => format!("[{time},{client}]"),
        ("ts" | "rs" | "lc" | "fc" | "site_seq", _) => value.to_string(),
        _ => panic!("{word} is no known field"),
    };
    format!("\"{name}\":{value},")
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
