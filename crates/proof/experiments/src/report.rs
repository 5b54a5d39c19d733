//! The findings of an experiment, as JSON and CSV.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::load::Measured;

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its subject, in a sentence.
    pub what: Cow<'static, str>,
    /// The one number to remember.
    pub headline: Headline,
    /// Every point of the figure.
    pub rows: Vec<Row>,
    /// The bounds of the numbers, and whether they keep to them.
    pub bounds: Vec<Bound>,
    /// The differences to the paper, in sentences.
    pub deviations: Vec<String>,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// True for a smaller run of the same shape.
    #[serde(default)]
    pub quick: bool,
}

/// The one number to remember.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// Its subject.
    pub what: String,
    /// The number of the paper; none if the experiment is our own, or the paper prints no such number.
    pub paper: Option<f64>,
    /// The bounds of it, where the paper prints these.
    pub paper_range: Option<[f64; 2]>,
    /// Ours.
    pub ours: f64,
    /// Of both.
    pub unit: Cow<'static, str>,
}

/// A point of the figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The line that it belongs to.
    pub series: String,
    /// Where on the x axis.
    pub x: f64,
    /// The number of the paper, as it is printed in a table or in the text, or follows from numbers that are; none if there is none. Nothing is read off a plot.
    pub paper: Option<f64>,
    /// The bounds of it, where the paper prints these.
    pub paper_range: Option<[f64; 2]>,
    /// Ours, on average over the seeds, or the median of them.
    pub ours: f64,
    /// The lower end of the 95% interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Of all four.
    pub unit: Cow<'static, str>,
}

/// A demand on a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The subject of the demand.
    pub what: String,
    /// The number is to be this at least.
    pub at_least: Option<f64>,
    /// The number is to be this at most.
    pub at_most: Option<f64>,
    /// Our number.
    pub ours: f64,
    /// Of all of them.
    pub unit: Cow<'static, str>,
    /// True if the number keeps to the demand.
    pub met: bool,
}

impl Bound {
    /// The number is to be so much at least.
    pub fn at_least(what: impl Into<String>, bound: f64, ours: f64, unit: &'static str) -> Self {
        let met = ours >= bound;
        Bound { what: what.into(), at_least: Some(bound), at_most: None, ours, unit: unit.into(), met }
    }

    /// The number is to be so much at most.
    pub fn at_most(what: impl Into<String>, bound: f64, ours: f64, unit: &'static str) -> Self {
        let met = ours <= bound;
        Bound { what: what.into(), at_least: None, at_most: Some(bound), ours, unit: unit.into(), met }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bound { what, at_least, at_most, ours, unit, met } = self;
        let verdict = if *met { "met" } else { "not met" };
        write!(formatter, "{verdict}: {what} is {ours:.3} {unit}")?;
        if let Some(bound) = at_least {
            write!(formatter, ", at least {bound} {unit}")?;
        }
        match at_most {
            Some(bound) => write!(formatter, ", at most {bound} {unit}"),
            None => Ok(()),
        }
    }
}

/// The findings of an experiment, for its report.
#[derive(Clone, Debug)]
pub struct Found {
    /// The one number to remember.
    pub headline: Headline,
    /// Every point of the figure.
    pub rows: Vec<Row>,
    /// The bounds of the numbers.
    pub bounds: Vec<Bound>,
    /// The differences to the paper, in sentences.
    pub deviations: Vec<String>,
}

/// One point, measured with each of the seeds.
pub struct Runs(Vec<Measured>);

impl From<Vec<Measured>> for Runs {
    fn from(runs: Vec<Measured>) -> Self {
        Runs(runs)
    }
}

impl Runs {
    /// Measures it with these seeds.
    pub fn new(seeds: RangeInclusive<u64>, one: impl FnMut(u64) -> Measured) -> Self {
        Runs(seeds.map(one).collect())
    }

    /// The average over the seeds.
    pub fn mean(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / self.0.len() as f64
    }

    /// The run of each seed.
    pub fn iter(&self) -> impl Iterator<Item = &Measured> {
        self.0.iter()
    }

    /// The median over the seeds.
    pub fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(&self.samples(of))
    }

    fn samples(&self, of: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.0.iter().map(of).collect()
    }

    /// Ours ÷ that of other runs, seed by seed.
    pub fn pairs(&self, others: &Runs, of: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.0
            .iter()
            .zip(&others.0)
            .map(|(ours, other)| of(ours) / of(other).max(f64::MIN_POSITIVE))
            .collect()
    }

    /// A point of a figure, with the median over the seeds.
    pub fn median_row(
        &self,
        series: impl Into<String>,
        x: f64,
        unit: &'static str,
        of: impl Fn(&Measured) -> f64,
    ) -> Row {
        Row::of_median(series, x, unit, &self.samples(of))
    }

    /// A point of a figure.
    pub fn row(
        &self,
        series: impl Into<String>,
        x: f64,
        unit: &'static str,
        of: impl Fn(&Measured) -> f64,
    ) -> Row {
        Row::new(series, x, unit, &self.samples(of))
    }
}

impl Row {
    /// The average over seeds, with its interval.
    pub fn new(series: impl Into<String>, x: f64, unit: &'static str, samples: &[f64]) -> Self {
        let (ours, low, high) = interval(samples);
        Row { series: series.into(), x, paper: None, paper_range: None, ours, low, high, unit: unit.into() }
    }

    /// The median over seeds. The interval is that of their average.
    pub fn of_median(series: impl Into<String>, x: f64, unit: &'static str, samples: &[f64]) -> Self {
        Row { ours: median(samples), ..Row::new(series, x, unit, samples) }
    }
}

/// A number of a paper for people: as it is printed, or its bounds.
pub fn of_paper(paper: Option<f64>, range: Option<[f64; 2]>) -> Option<String> {
    let bounds = |[low, high]: [f64; 2]| match low == 0.0 {
        true => format!("below {high}"),
        false => format!("{low} to {high}"),
    };
    paper.map(|paper| paper.to_string()).or_else(|| range.map(bounds))
}

impl Report {
    /// The rows as comma-separated values under a header.
    pub fn csv(&self) -> String {
        let mut text = "series,x,paper,ours,low,high,unit,paper_low,paper_high\n".to_owned();
        for Row { series, x, paper, paper_range, ours, low, high, unit } in &self.rows {
            let cell = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
            let (paper, least, greatest) = (
                cell(*paper),
                cell(paper_range.map(|[low, _]| low)),
                cell(paper_range.map(|[_, high]| high)),
            );
            let series = series.replace('"', "\"\"");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\"{series}\",{x},{paper},{ours},{low},{high},{unit},{least},{greatest}");
        }
        text
    }
}

/// The median of samples: of an even number of them, the average of the two in the middle.
///
/// # Panics
/// If there are none.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[half - 1] + sorted[half]) / 2.0,
        _ => sorted[half],
    }
}

/// The average of samples and its 95% confidence interval, by Student's distribution.
fn interval(samples: &[f64]) -> (f64, f64, f64) {
    /// The 97.5% quantiles for one degree of freedom, two, and so on.
    const QUANTILES: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

    assert!(samples.len() >= 3, "an interval needs three seeds at least");
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let quantile = QUANTILES[(samples.len() - 2).min(QUANTILES.len() - 1)];
    let half = quantile * (variance / count).sqrt();
    (mean, mean - half, mean + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_students_distribution() {
        let (mean, low, high) = interval(&[1.0, 2.0, 3.0]);
        assert_eq!(mean, 2.0);
        // 4.303 · 1 / √3
        assert!((low - -0.484).abs() < 0.001 && (high - 4.484).abs() < 0.001, "{low} {high}");
        assert_eq!(interval(&[5.0; 4]), (5.0, 5.0, 5.0));
    }

    #[test]
    fn a_median_is_that_in_the_middle() {
        let samples = [9.0, 1.0, 2.0];
        let (row, average) = (Row::of_median("a", 1.0, "ms", &samples), Row::new("a", 1.0, "ms", &samples));
        assert_eq!((row.ours, row.low, row.high), (2.0, average.low, average.high));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn rows_are_written_as_they_are() {
        let row = Row {
            paper: Some(2.5),
            paper_range: Some([2.0, 3.0]),
            ..Row::new("a, \"b\"", 0.9, "ms", &[1.0, 1.0, 1.0])
        };
        let headline =
            Headline { what: "a".to_owned(), paper: None, paper_range: None, ours: 1.0, unit: "ms".into() };
        let report = Report {
            name: "n".into(),
            what: "w".into(),
            headline,
            rows: vec![row],
            bounds: Vec::new(),
            deviations: Vec::new(),
            seed: 1,
            quick: false,
        };
        assert_eq!(
            report.csv(),
            "series,x,paper,ours,low,high,unit,paper_low,paper_high\n\"a, \"\"b\"\"\",0.9,2.5,1,1,1,ms,2,3\n"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][0]["paper"], 2.5);
        assert!(json["headline"]["paper"].is_null());
    }

    #[test]
    fn numbers_of_papers_are_given_as_they_are_printed() {
        assert_eq!(of_paper(Some(4.713), None).as_deref(), Some("4.713"));
        assert_eq!(of_paper(None, Some([10.0, 20.0])).as_deref(), Some("10 to 20"));
        assert_eq!(of_paper(None, Some([0.0, 90.0])).as_deref(), Some("below 90"));
        assert_eq!(of_paper(None, None), None);
    }

    #[test]
    fn a_bound_says_whether_it_is_met() {
        let met = Bound::at_least("speed", 3.8, 3.9, "×");
        assert_eq!(met.to_string(), "met: speed is 3.900 ×, at least 3.8 ×");
        let exceeded = Bound::at_most("latency", 27.0, 27.5, "ms");
        assert_eq!(exceeded.to_string(), "not met: latency is 27.500 ms, at most 27 ms");
        assert!(met.met && !exceeded.met);
    }
}
