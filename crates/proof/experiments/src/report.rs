//! The findings of an experiment, as JSON and CSV.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::catalogue::Experiment;
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
    /// The quantity of the x axis, with its unit, where this has amounts.
    #[serde(default)]
    pub x: Option<Cow<'static, str>>,
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
    /// Ours; none where nothing was measured that it could be made of.
    pub ours: Option<f64>,
    /// Of both.
    pub unit: Cow<'static, str>,
}

/// A point of the figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The panel that it belongs to, where a figure has several of one unit.
    #[serde(default)]
    pub panel: Option<Cow<'static, str>>,
    /// The line that it belongs to.
    pub series: String,
    /// Where on the x axis.
    pub x: f64,
    /// The name of this place, where the x axis has things and no amounts.
    #[serde(default)]
    pub place: Option<Cow<'static, str>>,
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
    /// Our number; none where nothing was measured that it could be made of.
    pub ours: Option<f64>,
    /// Of all of them.
    pub unit: Cow<'static, str>,
    /// True if the number keeps to the demand.
    pub met: bool,
}

impl Bound {
    /// The number is to be so much at least.
    pub fn at_least(what: impl Into<String>, bound: f64, ours: f64, unit: &'static str) -> Self {
        Bound { at_least: Some(bound), ..Bound::new(what, ours, unit, ours >= bound) }
    }

    /// The number is to be so much at most.
    pub fn at_most(what: impl Into<String>, bound: f64, ours: f64, unit: &'static str) -> Self {
        Bound { at_most: Some(bound), ..Bound::new(what, ours, unit, ours <= bound) }
    }

    /// A number that is none keeps to no demand.
    fn new(what: impl Into<String>, ours: f64, unit: &'static str, is_kept: bool) -> Self {
        let ours = defined(ours);
        let met = is_kept && ours.is_some();
        Bound { what: what.into(), at_least: None, at_most: None, ours, unit: unit.into(), met }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bound { what, at_least, at_most, ours, unit, met } = self;
        let verdict = if *met { "met" } else { "not met" };
        let ours = Shown::of(*ours);
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

/// The number, if it is one: a ratio to nothing is none, and so is the latency of nothing.
pub fn defined(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

/// A number in a sentence: a dash where it is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown(pub f64);

impl Shown {
    /// A number that may be missing.
    pub fn of(number: Option<f64>) -> Self {
        Shown(number.unwrap_or(f64::NAN))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match defined(self.0) {
            Some(number) => fmt::Display::fmt(&number, formatter),
            None => formatter.write_str("–"),
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
        self.0.iter().zip(&others.0).map(|(ours, other)| of(ours) / of(other)).collect()
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
        let (panel, series, place) = (None, series.into(), None);
        Row { panel, series, x, place, paper: None, paper_range: None, ours, low, high, unit: unit.into() }
    }

    /// One number, without an interval.
    pub fn exact(series: impl Into<String>, x: f64, unit: &'static str, number: f64) -> Self {
        Row::new(series, x, unit, &[number; 3])
    }

    /// The same in a panel of this name.
    pub fn in_panel(self, panel: impl Into<Cow<'static, str>>) -> Self {
        Row { panel: Some(panel.into()), ..self }
    }

    /// The same at a place with this name.
    pub fn at(self, place: impl Into<Cow<'static, str>>) -> Self {
        Row { place: Some(place.into()), ..self }
    }

    /// The names of its panel and of its series.
    pub fn name(&self) -> String {
        match &self.panel {
            Some(panel) if self.series.is_empty() => panel.to_string(),
            Some(panel) => format!("{panel}, {}", self.series),
            None => self.series.clone(),
        }
    }

    /// Where it is on the x axis, for people.
    pub fn shown_place(&self) -> String {
        self.place.as_ref().map_or_else(|| self.x.to_string(), |place| place.to_string())
    }

    /// True if something was measured for it, with every seed.
    pub fn is_defined(&self) -> bool {
        [self.ours, self.low, self.high].into_iter().all(f64::is_finite)
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
    /// The report of what an experiment has found. A point that is no number is left out, and a sentence says so.
    pub(crate) fn new(experiment: &Experiment, found: Found, seed: u64, quick: bool) -> Self {
        let Found { headline, rows, bounds, mut deviations } = found;
        let (rows, undefined): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(Row::is_defined);
        deviations.extend(left_out(&undefined));
        let (name, what, x) = (experiment.name.into(), experiment.what.into(), experiment.x.map(Cow::from));
        Report { name, what, headline, x, rows, bounds, deviations, seed, quick }
    }

    /// The rows as comma-separated values under a header.
    pub fn csv(&self) -> String {
        let mut text = "series,x,paper,ours,low,high,unit,paper_low,paper_high,place\n".to_owned();
        for row in &self.rows {
            let Row { x, place, paper, paper_range, ours, low, high, unit, .. } = row;
            let cell = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
            let (paper, least, greatest) = (
                cell(*paper),
                cell(paper_range.map(|[low, _]| low)),
                cell(paper_range.map(|[_, high]| high)),
            );
            let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            let (series, unit) =
                (quoted(&row.name()), if unit.contains(',') { quoted(unit) } else { unit.to_string() });
            let place = place.as_deref().map_or(String::new(), quoted);
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "{series},{x},{paper},{ours},{low},{high},{unit},{least},{greatest},{place}");
        }
        text
    }
}

/// The points that are no numbers, in a sentence.
fn left_out(undefined: &[Row]) -> Option<String> {
    /// So many are named, and the rest is counted.
    const NAMED_MAX: usize = 6;
    let point = |row: &Row| format!("{} at {} ({})", row.name(), row.shown_place(), row.unit);
    let mut points: Vec<String> = undefined.iter().take(NAMED_MAX).map(point).collect();
    if undefined.len() > NAMED_MAX {
        points.push(format!("and {} more", undefined.len() - NAMED_MAX));
    }
    (!points.is_empty()).then(|| {
        format!(
            "Left out, because nothing was measured there, or nothing to divide by: {}.",
            points.join("; ")
        )
    })
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
        let row =
            Row { paper: Some(2.5), paper_range: Some([2.0, 3.0]), ..Row::exact("\"b\"", 0.9, "ms", 1.0) };
        let elsewhere = Row::exact("c", 1.0, "ms, late", 2.0).in_panel("p").at("Asia");
        let report = reported(vec![row.in_panel("a"), elsewhere], 1.0);
        assert_eq!(
            report.csv(),
            "series,x,paper,ours,low,high,unit,paper_low,paper_high,place\n\
             \"a, \"\"b\"\"\",0.9,2.5,1,1,1,ms,2,3,\n\
             \"p, c\",1,,2,2,2,\"ms, late\",,,\"Asia\"\n"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["rows"][0]["paper"], &json["rows"][1]["place"]), (&2.5.into(), &"Asia".into()));
        assert!(json["headline"]["paper"].is_null());
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    }

    fn reported(rows: Vec<Row>, ours: f64) -> Report {
        let ours = defined(ours);
        let headline =
            Headline { what: "a".to_owned(), paper: None, paper_range: None, ours, unit: "ms".into() };
        let found = Found { headline, rows, bounds: Vec::new(), deviations: Vec::new() };
        Report::new(&Experiment::ALL[0], found, 1, false)
    }

    /// A run in which nothing has committed has no latency, and nothing is so many times as much as it.
    #[test]
    fn a_number_that_is_none_is_left_out_and_a_sentence_says_so() {
        let nothing = || Measured { seconds: 1.0, ..Measured::default() };
        let (runs, others) = (Runs::new(1..=3, |_| nothing()), Runs::new(1..=3, |_| nothing()));
        let rows = vec![
            runs.row("latency", 1.0, "ms", |run| run.latency_ms(0.5)).at("cluster"),
            runs.row("average", 1.0, "ms", Measured::mean_latency_ms),
            Row::new("ratio", 2.0, "×", &runs.pairs(&others, Measured::throughput)).in_panel("p"),
            Row::exact("more", 2.0, "×", 1.0 / 0.0),
            Row::exact("kept", 3.0, "ms", 4.0),
        ];
        let report = reported(rows, runs.mean(Measured::mean_latency_ms));
        let series: Vec<&str> = report.rows.iter().map(|row| &*row.series).collect();
        assert_eq!((&series[..], report.headline.ours), (&["kept"][..], None));
        let said = "latency at cluster (ms); average at 1 (ms); p, ratio at 2 (×); more at 2 (×).";
        assert!(report.deviations[0].ends_with(said), "{:?}", report.deviations);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report, "it is read as it was written");
        for text in [json, report.csv(), crate::svg::draw(&report)] {
            assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
        }
        assert_eq!(format!("{:.2} {:.2}", Shown(1.0 / 0.0), Shown(0.5)), "– 0.50");
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
        for none in
            [Bound::at_least("speed", 3.8, f64::INFINITY, "×"), Bound::at_most("speed", 3.8, f64::NAN, "×")]
        {
            assert!(!none.met && none.to_string().starts_with("not met: speed is – ×, at "), "{none}");
        }
        assert_eq!(exceeded.to_string(), "not met: latency is 27.500 ms, at most 27 ms");
        assert!(met.met && !exceeded.met);
    }
}
