//! `quorate experiment`: figures of the papers again, in virtual time.

mod threads;

use std::path::{Path, PathBuf};

use clap::Args;
use quorate_experiments::report::Shown;
use quorate_experiments::{Experiment, Report, Settings, of_paper, svg};
use serde_json::json;
use threads::Threads;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json};

/// Measure a figure or table of a paper again, in virtual time: exactly repeatable, on any machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate experiment --list
  quorate experiment tapir-deadline --quick
  quorate experiment tapir-deadline --out results --json

Writes NAME.json, NAME.csv and NAME.svg to the directory. low and high are the 95% interval over the seeds, or the least and the greatest where a median is given. The number of
the paper is one that it prints, in a table or in its text, or the bounds that it states (paper_low and paper_high in the CSV, paper_range in the JSON); nothing is
read off a plot.")]
pub(crate) struct ExperimentArguments {
    /// Which one.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// List the experiments.
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// Write JSON, CSV and SVG to this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A smaller run of the same shape.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object; with a list, a JSON array.
    #[arg(long)]
    json: bool,
}

impl ExperimentArguments {
    pub(crate) fn run(self) -> Outcome {
        let Some(name) = &self.name else { return list(self.json) };
        let Some(experiment) = Experiment::named(name) else {
            let names = Experiment::ALL.map(|known| known.name).join(", ");
            return Err(Failure::usage(format!("there is no experiment {name}; there are: {names}")));
        };
        let progress = Progress::bar(1);
        let mut say = |what: &str| progress.now(what.to_owned());
        let workers = &Threads::of_processors();
        let report = experiment.run(&mut Settings { quick: self.quick, progress: &mut say, workers });
        progress.step_to(1);
        if let Some(directory) = &self.out {
            write(directory, &report)?;
        }
        if self.json {
            print_json(&report)?;
        } else {
            outln!("{}", text(&report));
        }
        Ok(Verdict::Good)
    }
}

fn list(json: bool) -> Outcome {
    if json {
        let array = Experiment::ALL.map(|known| json!({ "name": known.name, "what": known.what }));
        print_json(&array)?;
    } else {
        let mut table = Table::new(&[("experiment", Align::Left), ("what", Align::Left)]);
        for known in Experiment::ALL {
            table.row([known.name, known.what].map(str::to_owned));
        }
        outln!("{table}");
    }
    Ok(Verdict::Good)
}

/// Writes a report in all its forms.
fn write(directory: &Path, report: &Report) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report).map_err(Failure::failed)?;
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::failed(format!("cannot create {}: {error}", directory.display())))?;
    for (ending, text) in [("json", json), ("csv", report.csv()), ("svg", svg::draw(report))] {
        let path = directory.join(format!("{}.{ending}", report.name));
        std::fs::write(&path, text)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

/// A number for people: those near one are mostly ratios.
fn number(number: f64) -> String {
    if number.abs() < 10.0 { format!("{number:.2}") } else { format!("{number:.1}") }
}

/// A report for people.
fn text(report: &Report) -> String {
    let mut table = Table::new(&[
        ("series", Align::Left),
        (if report.x.is_some() { "x" } else { "place" }, Align::Right),
        ("paper", Align::Right),
        ("ours", Align::Right),
        ("low", Align::Right),
        ("high", Align::Right),
        ("unit", Align::Left),
    ]);
    for row in &report.rows {
        table.row([
            row.name(),
            row.shown_place(),
            of_paper(row.paper, row.paper_range).unwrap_or_default(),
            number(row.ours),
            number(row.low),
            number(row.high),
            row.unit.to_string(),
        ]);
    }
    let headline = &report.headline;
    let ours = Shown::of(headline.ours);
    let x = report.x.as_ref().map_or(String::new(), |quantity| format!("\nx: {quantity}"));
    let mut text = format!("{}{x}\n\n{table}\n\n{}: {ours:.2} {}", report.what, headline.what, headline.unit);
    if let Some(paper) = of_paper(headline.paper, headline.paper_range) {
        text.push_str(&format!(" (paper: {paper} {})", headline.unit));
    }
    for bound in &report.bounds {
        text.push_str(&format!("\n{bound}"));
    }
    for deviation in &report.deviations {
        text.push_str(&format!("\n- {deviation}"));
    }
    text
}
