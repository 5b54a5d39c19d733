//! `quorate report`: one page of everything that was measured.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use quorate_report::{Results, Summary, page};

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::print_json;

/// Make one page of what was measured: the figures and tables of the papers beside ours, benches, simulations.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate experiment tapir-fig9 --quick --out results
  quorate bench rmw --embedded --json > results/rmw-strict.json
  quorate sim --seeds 1..100 --faults all --json > results/sim-strict.json
  quorate report results --out report.html
  quorate report results last-week --json

The page stands alone: no network, no script. Results are the files of the directories whose names end in .json; of an experiment that two of
them have, the later one counts. `cargo xtask reproduce` measures everything, and makes the page.")]
pub(crate) struct ReportArguments {
    /// Where results are.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Write the page to this file, and not to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object that sums the results up.
    #[arg(long)]
    json: bool,
}

impl ReportArguments {
    pub(crate) fn run(self) -> Outcome {
        let results = Results::read(&self.directories).map_err(Failure::usage)?;
        if results.is_empty() {
            return Err(Failure::usage(
                "there are no results in these directories: `quorate experiment NAME --out DIR` and `quorate bench … --json > DIR/NAME.json` put some there",
            ));
        }
        if let Some(path) = &self.out {
            fs::write(path, page(&results))
                .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
        }
        let summary = Summary::of(&results);
        if self.json {
            print_json(&summary)?;
        } else if let Some(path) = &self.out {
            outln!("{}: {}", path.display(), in_words(&summary));
        } else {
            out!("{}", page(&results));
        }
        Ok(Verdict::Good)
    }
}

fn in_words(summary: &Summary) -> String {
    let of_figures = summary.figures.iter().filter_map(|figure| figure.experiment.as_ref());
    let experiments: Vec<_> = of_figures.chain(&summary.beside).collect();
    let measured = experiments.iter().filter(|experiment| experiment.measured).count();
    let Summary { benches, simulations, violations, .. } = summary;
    format!(
        "{measured} of {} experiments, {benches} benches, {simulations} simulations, {violations} violations",
        experiments.len()
    )
}
