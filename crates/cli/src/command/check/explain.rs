//! `quorate check --explain DIR`: sentences, pictures, and the smallest part of the history that still fails.

use std::fs;
use std::io::Error;
use std::path::Path;
use std::time::Instant;

use quorate_checker::explain::{Shrunk, picture, shrink};
use quorate_checker::{Anomaly, History, Level, Report, Verdict};

use crate::exit::Failure;
use crate::output::say_if_slow;

/// Writes about each report that is not valid, and says on standard error what was written.
pub(super) fn explain(
    directory: &Path,
    history: &History,
    reports: &[(Level, Report)],
) -> Result<(), Failure> {
    let mut writer = Writer { directory, written: Vec::new() };
    let failed = |error: Error| Failure::failed(format!("cannot write to {}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(failed)?;
    for (level, report) in reports.iter().filter(|(_, report)| report.verdict == Verdict::Invalid) {
        writer.anomalies(history, *level, report).map_err(failed)?;
        writer.shrunk(history, *level, report).map_err(failed)?;
    }
    if writer.written.is_empty() {
        errln!("nothing to explain: no level was found to be violated");
    } else {
        errln!("written to {}:", directory.display());
        for (name, what) in &writer.written {
            errln!("  {name}  {what}");
        }
    }
    Ok(())
}

struct Writer<'a> {
    directory: &'a Path,
    /// The names of the files, and what is in them.
    written: Vec<(String, &'static str)>,
}

impl Writer<'_> {
    fn write(&mut self, name: String, contents: &str, what: &'static str) -> Result<(), Error> {
        fs::write(self.directory.join(&name), contents)?;
        self.written.push((name, what));
        Ok(())
    }

    /// A text and a picture per anomaly, named after the level and the class.
    fn anomalies(&mut self, history: &History, level: Level, report: &Report) -> Result<(), Error> {
        for (number, anomaly) in report.anomalies.iter().enumerate() {
            let name = format!("{level}-{:02}-{}", number + 1, anomaly.kind);
            let title = format!("{} at {level}", anomaly.kind);
            self.write(format!("{name}.txt"), &text(&title, anomaly), "in words")?;
            self.write(format!("{name}.svg"), &picture(history, anomaly, &title), "a picture")?;
        }
        Ok(())
    }

    fn shrunk(&mut self, history: &History, level: Level, report: &Report) -> Result<(), Error> {
        let start = Instant::now();
        let how_far = || format!("shrinking the history at {level}: {} s", start.elapsed().as_secs());
        let Some(shrunk) = say_if_slow(how_far, || shrink(history, level, report)) else {
            errln!("{level}: no small part of the history was found that fails by itself");
            return Ok(());
        };
        let Some(anomaly) = shrunk.report.anomalies.first() else { return Ok(()) };
        let title = format!("{} at {level}, the history shrunk", anomaly.kind);
        let mut lines = Vec::new();
        shrunk.recorder.write_json(&mut lines)?;
        let name = format!("{level}-shrunk");
        self.write(
            format!("{name}.jsonl"),
            &String::from_utf8_lossy(&lines),
            "the smallest part of the history that still fails",
        )?;
        self.write(format!("{name}.txt"), &shrunk_text(&title, anomaly, &shrunk), "that part in words")?;
        self.write(
            format!("{name}.svg"),
            &picture(&shrunk.history, anomaly, &title),
            "that part as a picture",
        )
    }
}

fn text(title: &str, anomaly: &Anomaly) -> String {
    let lines: Vec<String> = anomaly.txns.iter().map(|txn| format!("line {}", txn + 1)).collect();
    format!(
        "{title}\n\n{}\n\nTransactions, by the line of their invocation: {}\n",
        anomaly.why,
        lines.join(", ")
    )
}

fn shrunk_text(title: &str, anomaly: &Anomaly, shrunk: &Shrunk) -> String {
    let names: Vec<String> = shrunk
        .names
        .iter()
        .map(|(here, there)| format!("  T{here} is T{there} (line {})", there + 1))
        .collect();
    let smallest = if shrunk.is_minimal {
        "No transaction and no operation can be left out of it without making it valid or undecidable."
    } else {
        "The search for a smaller one was ended because it took long."
    };
    format!(
        "{title}\n\n{}\n\nThis is a part of the history: what other transactions wrote is left out of what these \
         read. {smallest}\n\nIn the whole history:\n{}\n",
        anomaly.why,
        names.join("\n")
    )
}
