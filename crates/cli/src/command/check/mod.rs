//! `quorate check`: judges a recorded history.

mod explain;
mod export;

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use quorate::Isolation;
use quorate_checker::{History, Level, Report, UnknownLevel, check};
use serde::Serialize;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json, say_if_slow, thousands};

/// Judge a recorded history of transactions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate check history.jsonl --level strict-serializable
  quorate check history.jsonl --level all
  quorate check history.jsonl --level si --explain why/
  quorate check history.jsonl --level serializable --export elle --export dbcop=d/0.json
  quorate bench retwis --embedded --seconds 5 --history h.jsonl && quorate check h.jsonl --level strict-serializable

Exit codes: 0 valid, 1 invalid or unknown, 2 malformed (the line is named). With `--level all`: 0 if the
history is valid at one level at least.")]
pub(crate) struct CheckArguments {
    /// The history, JSON lines; `-` is standard input.
    file: PathBuf,
    /// The level that the history has to satisfy, `all` for a table of all levels, or an isolation for the level that its keyspaces promise.
    #[arg(long)]
    level: Levels,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Write into this directory: each anomaly in words and as a picture, and the smallest part of the history
    /// that still fails.
    #[arg(long, value_name = "DIR")]
    explain: Option<PathBuf>,
    /// Write the history for another checker too: elle, porcupine, dbcop or timekiller. Can be given several
    /// times. Without FILE, the name of the history with the ending of the format, in this directory.
    #[arg(long, value_name = "FORMAT[=FILE]")]
    export: Vec<export::Export>,
}

/// One level or all. `strict` is what keyspaces of this isolation promise, and so are the names of the other isolations that are no levels themselves.
#[derive(Clone, Copy, Debug)]
enum Levels {
    All,
    One(Level),
}

impl FromStr for Levels {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let of_isolation = || text.parse::<Isolation>().ok().map(quorate_workloads::level);
        match text.parse() {
            _ if text == "all" => Ok(Levels::All),
            Ok(level) => Ok(Levels::One(level)),
            Err(unknown) => of_isolation().map(Levels::One).ok_or(unknown),
        }
    }
}

#[derive(Serialize)]
struct AllLevels<'a> {
    levels: BTreeMap<&'static str, &'a Report>,
}

impl CheckArguments {
    pub(crate) fn run(self) -> Outcome {
        let history = read(&self.file)?;
        let levels = match self.level {
            Levels::One(level) => vec![level],
            Levels::All => Level::ALL.to_vec(),
        };
        for export in &self.export {
            export.write(&history, &self.file)?;
        }
        let judged: Vec<_> = levels.into_iter().map(|level| (level, judge(&history, level))).collect();
        if let Some(directory) = &self.explain {
            explain::explain(directory, &history, &judged)?;
        }
        let reports: Vec<Report> = judged.into_iter().map(|(_, report)| report).collect();
        match (self.level, reports.as_slice()) {
            (Levels::One(_), [report]) if self.json => print_json(report)?,
            (Levels::One(_), [report]) => outln!("{report}"),
            (_, reports) if self.json => {
                let levels = reports.iter().map(|report| (report.level, report)).collect();
                print_json(&AllLevels { levels })?;
            }
            (_, reports) => outln!("{}", table(reports)),
        }
        Ok(Verdict::good_if(reports.iter().any(Report::is_valid)))
    }
}

fn judge(history: &History, level: Level) -> Report {
    let start = Instant::now();
    let txns = thousands(history.txn_count() as u64);
    let how_far = || format!("judging {txns} transactions at {level}: {} s", start.elapsed().as_secs());
    say_if_slow(how_far, || check(history, level))
}

fn read(file: &Path) -> Result<History, Failure> {
    let (input, size): (Box<dyn Read>, Option<u64>) = if file == Path::new("-") {
        (Box::new(std::io::stdin().lock()), None)
    } else {
        let opened = File::open(file);
        let opened =
            opened.map_err(|error| Failure::usage(format!("cannot open {}: {error}", file.display())))?;
        // Pipes and the like have no size that would mean anything.
        let size = opened.metadata().ok().filter(Metadata::is_file).map(|metadata| metadata.len());
        (Box::new(opened), size)
    };
    let bytes = AtomicU64::new(0);
    let how_far = || {
        let megabytes = |bytes: u64| thousands(bytes >> 20);
        let of = size.map(|size| format!(" of {}", megabytes(size))).unwrap_or_default();
        format!("reading {}: {}{of} MB", file.display(), megabytes(bytes.load(Ordering::Relaxed)))
    };
    let input = Counted { input, bytes: &bytes };
    // A history that cannot be read is not judged, and must not look as if it had been found invalid.
    say_if_slow(how_far, || History::read(input))
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// Counts the bytes that are read, for people who wait.
struct Counted<'a, R> {
    input: R,
    bytes: &'a AtomicU64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.input.read(buffer)?;
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

fn table(reports: &[Report]) -> Table {
    let mut table = Table::new(&[
        ("level", Align::Left),
        ("verdict", Align::Left),
        ("anomalies", Align::Right),
        ("", Align::Left),
    ]);
    for report in reports {
        let remark = match (&report.reason, report.anomalies.first()) {
            (Some(reason), _) => reason.clone(),
            (None, Some(anomaly)) => anomaly.kind.to_string(),
            (None, None) if report.vacuous => "vacuous: too few conflicts to say much".to_owned(),
            (None, None) => String::new(),
        };
        let anomalies = thousands(report.anomalies.len() as u64);
        table.row([report.level.to_owned(), report.verdict.to_string(), anomalies, remark]);
    }
    table
}
