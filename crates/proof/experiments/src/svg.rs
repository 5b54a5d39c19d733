//! A report as a picture: one panel for each unit, a line with its intervals for each series.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::report::{Report, Row};

const PANEL_WIDTH: f64 = 560.0;
const PANEL_HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 44.0;
const LEGEND_WIDTH: f64 = 300.0;
const LINE_HEIGHT: f64 = 18.0;

/// Told apart also by those who see no red or no green.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999"];

/// Draws a report.
pub fn draw(report: &Report) -> String {
    let mut units: Vec<&str> = Vec::new();
    for row in &report.rows {
        if !units.contains(&row.unit) {
            units.push(row.unit);
        }
    }
    let panels: Vec<(f64, String)> = units.iter().map(|unit| panel(report, unit)).collect();
    let width = LEFT + PANEL_WIDTH + LEGEND_WIDTH;
    let height = TOP + panels.iter().map(|(height, _)| height).sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(report.what)
    );
    let mut top = TOP;
    for (height, panel) in panels {
        // Writing to a string cannot fail.
        let _ = writeln!(svg, "<g transform=\"translate({LEFT},{top})\">\n{panel}</g>");
        top += height;
    }
    svg.push_str("</svg>\n");
    svg
}

/// The rows of one unit, with the height that they need.
fn panel(report: &Report, unit: &str) -> (f64, String) {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.unit == unit).collect();
    let mut series: Vec<&str> = Vec::new();
    for row in &rows {
        if !series.contains(&row.series.as_str()) {
            series.push(&row.series);
        }
    }
    let places: BTreeSet<u64> = rows.iter().map(|row| row.x.to_bits()).collect();
    let places: Vec<f64> = places.into_iter().map(f64::from_bits).collect();
    let greatest = rows.iter().map(|row| row.high.max(row.ours)).fold(f64::MIN_POSITIVE, f64::max);
    let ceiling = round_up(greatest);
    let step = PANEL_WIDTH / (places.len().max(1)) as f64;
    let x_of = |x: f64| {
        let at = places.iter().position(|place| *place == x).unwrap_or(0);
        step * (at as f64 + 0.5)
    };
    let y_of = |value: f64| PANEL_HEIGHT * (1.0 - value.max(0.0) / ceiling);
    let mut svg = String::new();
    for part in 0..=4 {
        let value = ceiling * f64::from(part) / 4.0;
        let y = y_of(value);
        let _ = writeln!(svg, "<path d=\"M0 {y:.1}H{PANEL_WIDTH}\" stroke=\"#ddd\"/>");
        let _ = writeln!(svg, "<text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", y + 4.0);
    }
    let _ = writeln!(svg, "<text x=\"-6\" y=\"-8\" text-anchor=\"end\">{}</text>", escaped(unit));
    for place in &places {
        let (x, y) = (x_of(*place), PANEL_HEIGHT + 16.0);
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{place}</text>");
    }
    for (number, name) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let dashes = if number < COLOURS.len() { "none" } else { "5 3" };
        let points: Vec<&&Row> = rows.iter().filter(|row| row.series == *name).collect();
        let line: Vec<String> =
            points.iter().map(|row| format!("{:.1},{:.1}", x_of(row.x), y_of(row.ours))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"/>",
            line.join(" ")
        );
        for row in points {
            let (x, low, high) = (x_of(row.x), y_of(row.low), y_of(row.high));
            let _ = writeln!(svg, "<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>");
            let y = y_of(row.ours);
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let (x, y) = (PANEL_WIDTH + 16.0, LINE_HEIGHT * (number as f64 + 0.5));
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>", y - 4.0);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{y:.1}\">{}</text>", x + 10.0, escaped(name));
    }
    let height = PANEL_HEIGHT.max(LINE_HEIGHT * series.len() as f64) + 60.0;
    (height, svg)
}

/// The next of 1, 2, 4 and 8 times a power of ten: four parts of it are round numbers too.
fn round_up(value: f64) -> f64 {
    let mut power = 1.0;
    while power * 10.0 <= value {
        power *= 10.0;
    }
    while power > value {
        power /= 10.0;
    }
    [1.0, 2.0, 4.0, 8.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|top| *top >= value)
        .unwrap_or(value)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Headline;

    #[test]
    fn every_series_is_drawn_in_the_panel_of_its_unit() {
        let rows = vec![
            Row::new("a < b", 0.6, "ms", &[1.0, 2.0, 3.0]),
            Row::new("a < b", 0.9, "ms", &[4.0, 5.0, 6.0]),
            Row::new("c", 0.9, "1/s", &[100.0, 110.0, 120.0]),
        ];
        let headline =
            Headline { what: "x".to_owned(), paper: None, paper_range: None, ours: 1.0, unit: "ms" };
        let report = Report {
            name: "n",
            what: "w & v",
            headline,
            rows,
            bounds: Vec::new(),
            deviations: Vec::new(),
            seed: 1,
        };
        let svg = draw(&report);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<g ").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains("w &amp; v"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn scales_end_at_round_numbers() {
        for (value, expected) in
            [(0.03, 0.04), (0.9, 1.0), (1.0, 1.0), (7.3, 8.0), (86.0, 100.0), (130.0, 200.0)]
        {
            assert!((round_up(value) - expected).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }
}
