//! The content of the page in short, for programs.

use serde::Serialize;

use crate::papers::{PAPERS, Place};
use crate::read::Results;

/// The results in short.
#[derive(Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Every figure and table of the papers, in their order.
    pub figures: Vec<FigureSummary>,
    /// The experiments that no figure shows.
    pub beside: Vec<ExperimentSummary>,
    /// How many benches there are.
    pub benches: usize,
    /// How many simulations there are.
    pub simulations: usize,
    /// Violated invariants of all simulations, and breaches of all benches.
    pub violations: u64,
    /// The files that are not shown, each with the reason.
    pub left_out: Vec<LeftOut>,
}

/// A figure or table.
#[derive(Debug, PartialEq, Serialize)]
pub struct FigureSummary {
    /// The paper.
    pub paper: &'static str,
    /// How the paper calls it.
    pub figure: &'static str,
    /// Where the rules stand that it draws or states, if it shows no measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_in: Option<&'static str>,
    /// The experiment that measures it, otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment: Option<ExperimentSummary>,
}

/// An experiment.
#[derive(Debug, PartialEq, Serialize)]
pub struct ExperimentSummary {
    /// Its name.
    pub name: &'static str,
    /// True if its results were found.
    pub measured: bool,
    /// True if it was a smaller run.
    pub quick: bool,
    /// The one number to remember.
    pub ours: Option<f64>,
    /// That of the paper, if it prints one.
    pub paper: Option<f64>,
    /// Of both.
    pub unit: Option<String>,
    /// How many demands its numbers keep to.
    pub met: usize,
    /// Of how many.
    pub demanded: usize,
}

/// A file that is not shown.
#[derive(Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// Its path.
    pub file: String,
    /// Why.
    pub why: String,
}

impl Summary {
    /// Sums results up.
    pub fn of(results: &Results) -> Summary {
        let figures = PAPERS.iter().flat_map(|paper| {
            paper.figures.iter().map(|figure| {
                let (kept_in, experiment) = match figure.place {
                    Place::Kept(files) => (Some(files), None),
                    Place::Measured(name) => (None, Some(ExperimentSummary::of(name, results))),
                };
                FigureSummary { paper: paper.name, figure: figure.label, kept_in, experiment }
            })
        });
        let beside = PAPERS.iter().flat_map(|paper| paper.beside.iter());
        let breaches: u64 = results.benches.iter().map(|bench| bench.result.breaches).sum();
        let violations =
            results.simulations.iter().map(|run| run.result.violations.len() as u64).sum::<u64>();
        let left_out = results
            .left_out
            .iter()
            .map(|(path, why)| LeftOut { file: path.display().to_string(), why: why.clone() });
        Summary {
            figures: figures.collect(),
            beside: beside.map(|name| ExperimentSummary::of(name, results)).collect(),
            benches: results.benches.len(),
            simulations: results.simulations.len(),
            violations: breaches + violations,
            left_out: left_out.collect(),
        }
    }
}

impl ExperimentSummary {
    fn of(name: &'static str, results: &Results) -> Self {
        let report = results.experiments.get(name).map(|found| &found.result);
        let bounds = report.map(|report| &report.bounds[..]).unwrap_or_default();
        ExperimentSummary {
            name,
            measured: report.is_some(),
            quick: report.is_some_and(|report| report.quick),
            ours: report.and_then(|report| report.headline.ours),
            paper: report.and_then(|report| report.headline.paper),
            unit: report.map(|report| report.headline.unit.to_string()),
            met: bounds.iter().filter(|bound| bound.met).count(),
            demanded: bounds.len(),
        }
    }
}
