//! `quorate check`: judges a recorded history.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use quorate_checker::{History, Level, ReadError, Report, UnknownLevel, Verdict as Judgement, check};
use serde::Serialize;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json, thousands};

/// Judge a recorded history of transactions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate check history.jsonl --level strict-serializable
  quorate check history.jsonl --level all
  quorate bench retwis --embedded --seconds 5 --history h.jsonl && quorate check h.jsonl --level strict-serializable

Exit codes: 0 valid, 1 invalid or unknown, 2 malformed (the line is named). With `--level all`: 1 if the history is
invalid at the weakest level that can be judged, or at none can be judged at all.")]
pub(crate) struct CheckArguments {
    /// The history, JSON lines; `-` is standard input.
    file: PathBuf,
    /// What the history has to satisfy: a level, or `all` for a table of all levels.
    #[arg(long)]
    level: Levels,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Write a file about each anomaly into this directory.
    #[arg(long, value_name = "DIR")]
    explain: Option<PathBuf>,
}

/// One level or all.
#[derive(Clone, Copy, Debug)]
enum Levels {
    All,
    One(Level),
}

impl FromStr for Levels {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        if text == "all" { Ok(Levels::All) } else { text.parse().map(Levels::One) }
    }
}

#[derive(Serialize)]
struct AllLevels<'a> {
    levels: BTreeMap<&'static str, &'a Report>,
}

impl CheckArguments {
    pub(crate) fn run(self) -> Outcome {
        let history = read(&self.file)?;
        let reports: Vec<Report> = match self.level {
            Levels::One(level) => vec![check(&history, level)],
            Levels::All => Level::ALL.into_iter().map(|level| check(&history, level)).collect(),
        };
        if let Some(directory) = &self.explain {
            explain(directory, &reports)?;
        }
        match (self.level, reports.as_slice()) {
            (Levels::One(_), [report]) => {
                if self.json {
                    print_json(report)?;
                } else {
                    println!("{report}");
                }
                Ok(Verdict::good_if(report.is_valid()))
            }
            (_, reports) => {
                if self.json {
                    let levels = reports.iter().map(|report| (report.level, report)).collect();
                    print_json(&AllLevels { levels })?;
                } else {
                    println!("{}", table(reports));
                }
                let judged = reports.iter().rev().find(|report| report.verdict != Judgement::Unknown);
                Ok(Verdict::good_if(judged.is_some_and(Report::is_valid)))
            }
        }
    }
}

fn read(file: &Path) -> Result<History, Failure> {
    let input: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        let opened = File::open(file);
        Box::new(opened.map_err(|error| Failure::usage(format!("cannot open {}: {error}", file.display())))?)
    };
    History::read(input).map_err(|error| match error {
        ReadError::Malformed { .. } => Failure::usage(format!("{}: {error}", file.display())),
        ReadError::Io(_) => Failure::failed(format!("{}: {error}", file.display())),
    })
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

/// One file per anomaly, named after the level and the class.
fn explain(directory: &Path, reports: &[Report]) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::failed(format!("cannot write to {}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(failed)?;
    for report in reports {
        for (number, anomaly) in report.anomalies.iter().enumerate() {
            let lines: Vec<String> = anomaly.txns.iter().map(|txn| format!("line {}", txn + 1)).collect();
            let text = format!(
                "{} at {}\n\n{}\n\nTransactions, by the line of their invocation: {}\n",
                anomaly.kind,
                report.level,
                anomaly.why,
                lines.join(", ")
            );
            let name = format!("{}-{:02}-{}.txt", report.level, number + 1, anomaly.kind);
            fs::write(directory.join(name), text).map_err(failed)?;
        }
    }
    Ok(())
}
