//! A report as a picture: one panel for each unit, a line with its intervals for each series.
//!
//! The picture is an SVG file that stands alone: colours for light and dark surroundings, no font but the generic one, no script. Series are told apart by
//! colour, by the shape of their points and by dashes, and named at the end of their lines.
//!
//! | file | role |
//! |---|---|
//! | `scale` | axes and their ticks |
//! | `text` | how wide text is, and where labels stand that must not cover each other |

mod scale;
mod text;

use std::fmt::Write;

use crate::report::{Report, Row};
use scale::{Scale, shown};
use text::{apart, clipped, escaped, lines, width_of};

const PLOT_WIDTH: f64 = 560.0;
const PLOT_HEIGHT: f64 = 250.0;
/// The room on the left of a plot, for the numbers of its axis.
const LEFT: f64 = 62.0;
/// Between the end of the lines and their names.
const LEADER: f64 = 26.0;
const LINE_HEIGHT: f64 = 17.0;
const TITLE_SIZE: f64 = 15.0;
const TITLE_LINE: f64 = 20.0;
/// Bold letters are wider by this factor.
const BOLD: f64 = 1.12;
/// The unit above a plot, and the numbers below it.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 44.0;
/// The longest name of a series, in characters: a pointer shows the whole.
const NAME_MAX: usize = 44;
/// Points of several series at one place stand side by side, so far from each other at most.
const DODGE: f64 = 4.0;

/// Told apart also by readers who see no red or no green; each with another one in the dark.
const COLOURS: [(&str, &str); 8] = [
    ("#0072b2", "#56b4e9"),
    ("#c2500b", "#ff9f5a"),
    ("#00805c", "#3fd6a6"),
    ("#b0478b", "#ea9bcb"),
    ("#7a5c00", "#e6c229"),
    ("#5b4bc4", "#a79bff"),
    ("#444444", "#cccccc"),
    ("#a61c28", "#ff7b86"),
];

/// How the lines of further series are broken, in turn.
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

/// Draws a report.
pub fn draw(report: &Report) -> String {
    let panels: Vec<Panel<'_>> = units(report).into_iter().map(|unit| Panel::new(report, unit)).collect();
    let names =
        panels.iter().flat_map(|panel| panel.series.iter().map(|series| width_of(&series.shown(), 12.0)));
    let width = (LEFT + PLOT_WIDTH + LEADER + names.fold(0.0, f64::max) + 14.0).ceil();
    let title = lines(&report.what, TITLE_SIZE * BOLD, width - 24.0);
    let top = 12.0 + TITLE_LINE * title.len() as f64;
    let has_paper = panels.iter().any(Panel::has_paper);
    let height = top + panels.iter().map(Panel::height).sum::<f64>() + if has_paper { 22.0 } else { 4.0 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>{}</title>\n<style>{}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n",
        escaped(&report.what),
        style()
    );
    for (number, line) in title.iter().enumerate() {
        let y = 22.0 + TITLE_LINE * number as f64;
        put(&mut svg, format_args!("<text class=\"title\" x=\"12\" y=\"{y}\">{}</text>", escaped(line)));
    }
    let mut y = top;
    for panel in &panels {
        put(&mut svg, format_args!("<g transform=\"translate({LEFT},{:.1})\">", y + ABOVE));
        panel.draw(&mut svg);
        svg.push_str("</g>\n");
        y += panel.height();
    }
    if has_paper {
        let mark = "<path class=\"quiet hollow\" d=\"M5 -4L9 0L5 4L1 0z\"/><text class=\"small\" x=\"16\" y=\"4\">the number of the paper</text>";
        put(&mut svg, format_args!("<g transform=\"translate({LEFT},{y:.1})\">{mark}</g>"));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The units of a report, in the order of its rows.
fn units(report: &Report) -> Vec<&str> {
    let mut units = Vec::new();
    for row in &report.rows {
        if !units.contains(&&*row.unit) {
            units.push(&row.unit);
        }
    }
    units
}

fn style() -> String {
    let colours = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let one = |(number, pair): (usize, &(&'static str, &'static str))| {
            let colour = pick(pair);
            format!(".s{number}{{stroke:{colour}}}.f{number}{{fill:{colour}}}")
        };
        COLOURS.iter().enumerate().map(one).collect::<String>()
    };
    format!(
        "text{{font-family:ui-sans-serif,system-ui,sans-serif;font-size:12px;fill:#1c2128}}\
         .title{{font-size:{TITLE_SIZE}px;font-weight:600}}.small,.unit{{fill:#57606a}}.paper{{fill:#ffffff}}\
         .grid{{stroke:#e1e4e8}}.axis,.quiet{{stroke:#8c959f}}.line{{fill:none;stroke-width:1.7;stroke-linejoin:round}}\
         .bar{{stroke-width:1.2;opacity:.75}}.leader{{fill:none;stroke-width:1;opacity:.6}}.hollow{{fill:none;stroke-width:1.4}}{}\
         @media (prefers-color-scheme:dark){{text{{fill:#e6edf3}}.small,.unit{{fill:#9aa4af}}.paper{{fill:#0f1318}}\
         .grid{{stroke:#262d36}}.axis,.quiet{{stroke:#6b7682}}{}}}",
        colours(|pair| pair.0),
        colours(|pair| pair.1)
    )
}

/// Writing to a string cannot fail.
fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(svg, "{text}");
}

/// The rows of one unit.
struct Panel<'a> {
    unit: &'a str,
    series: Vec<Series<'a>>,
    x: Scale,
    y: Scale,
}

/// The rows of one series in a panel, ascending by place.
struct Series<'a> {
    number: usize,
    name: &'a str,
    rows: Vec<&'a Row>,
}

impl<'a> Panel<'a> {
    fn new(report: &'a Report, unit: &'a str) -> Self {
        let mut series: Vec<Series<'a>> = Vec::new();
        for row in report.rows.iter().filter(|row| row.unit == unit) {
            match series.iter_mut().find(|known| known.name == row.series) {
                Some(known) => known.rows.push(row),
                None => series.push(Series { number: series.len(), name: &row.series, rows: vec![row] }),
            }
        }
        series.iter_mut().for_each(|series| series.rows.sort_by(|one, other| one.x.total_cmp(&other.x)));
        let rows = || series.iter().flat_map(|series| &series.rows);
        let mut places: Vec<f64> = rows().map(|row| row.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        // An interval of what is never negative may reach below zero: the picture does not.
        let is_negative = rows().any(|row| row.ours < 0.0);
        let low = |row: &Row| if is_negative { row.low } else { row.low.max(0.0) };
        let mut amounts: Vec<f64> =
            rows().flat_map(|row| [row.ours, row.high].into_iter().chain(row.paper)).collect();
        amounts.extend(rows().map(|row| low(row)).filter(|low| is_negative || *low > 0.0));
        let (x, y) = (Scale::of_places(&places), Scale::of_amounts(&amounts));
        Panel { unit, series, x, y }
    }

    fn has_paper(&self) -> bool {
        self.series.iter().flat_map(|series| &series.rows).any(|row| row.paper.is_some())
    }

    fn height(&self) -> f64 {
        ABOVE + BELOW + PLOT_HEIGHT.max(LINE_HEIGHT * self.series.len() as f64)
    }

    fn x_of(&self, x: f64) -> f64 {
        /// Points do not stand on the edge.
        const INSET: f64 = 16.0;
        INSET + (PLOT_WIDTH - 2.0 * INSET) * self.x.place(x)
    }

    fn y_of(&self, amount: f64) -> f64 {
        PLOT_HEIGHT * (1.0 - self.y.place(amount))
    }

    fn draw(&self, svg: &mut String) {
        self.draw_axes(svg);
        for series in &self.series {
            self.draw_series(svg, series);
        }
        self.draw_names(svg);
    }

    fn draw_axes(&self, svg: &mut String) {
        put(svg, format_args!("<text class=\"unit\" x=\"0\" y=\"-12\">{}</text>", escaped(self.unit)));
        for tick in &self.y.ticks {
            let y = self.y_of(*tick);
            put(svg, format_args!("<path class=\"grid\" d=\"M0 {y:.1}H{PLOT_WIDTH}\"/>"));
            let label = shown(*tick);
            put(
                svg,
                format_args!(
                    "<text class=\"small\" x=\"-8\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                    y + 4.0
                ),
            );
        }
        put(svg, format_args!("<path class=\"axis\" d=\"M0 {PLOT_HEIGHT}H{PLOT_WIDTH}\"/>"));
        if self.y.has_zero_inside() {
            put(svg, format_args!("<path class=\"axis\" d=\"M0 {:.1}H{PLOT_WIDTH}\"/>", self.y_of(0.0)));
        }
        // Of numbers that would run into one another only the first stays.
        let mut free_from = f64::MIN;
        for tick in &self.x.ticks {
            let (x, label) = (self.x_of(*tick), shown(*tick));
            let half = width_of(&label, 12.0) / 2.0;
            put(svg, format_args!("<path class=\"axis\" d=\"M{x:.1} {PLOT_HEIGHT}v4\"/>"));
            if x - half >= free_from {
                let y = PLOT_HEIGHT + 18.0;
                put(
                    svg,
                    format_args!(
                        "<text class=\"small\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>"
                    ),
                );
                free_from = x + half + 8.0;
            }
        }
    }

    /// How far the points of a series stand to the side of their place: where series share places, none covers another.
    fn dodge(&self, series: &Series<'_>) -> f64 {
        let others = self.series.len() as f64 - 1.0;
        let step = DODGE.min(self.room_between_places() / (others + 1.0));
        (series.number as f64 - others / 2.0) * step
    }

    /// Half of the least distance between two places.
    fn room_between_places(&self) -> f64 {
        let mut places: Vec<f64> =
            self.series.iter().flat_map(|series| &series.rows).map(|row| self.x_of(row.x)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places.windows(2).map(|pair| (pair[1] - pair[0]) / 2.0).fold(PLOT_WIDTH, f64::min)
    }

    fn draw_series(&self, svg: &mut String, series: &Series<'_>) {
        let (colour, dodge) = (series.colour(), self.dodge(series));
        let dashes = DASHES[series.number / COLOURS.len() % DASHES.len()];
        let place = |row: &Row| (self.x_of(row.x) + dodge, self.y_of(row.ours));
        let points: Vec<String> =
            series.rows.iter().map(|row| place(row)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        put(
            svg,
            format_args!(
                "<polyline class=\"line s{colour}\" points=\"{}\" stroke-dasharray=\"{dashes}\"/>",
                points.join(" ")
            ),
        );
        for row in &series.rows {
            let (x, y) = place(row);
            let (low, high) = (self.y_of(row.low), self.y_of(row.high));
            if low - high > 1.0 {
                put(svg, format_args!("<path class=\"bar s{colour}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>"));
            }
            put(svg, format_args!("<path class=\"f{colour}\" d=\"{}\"/>", shape(series.number, x, y)));
            if let Some(paper) = row.paper {
                let y = self.y_of(paper);
                let diamond = format!("M{x:.1} {:.1}l4.5 4.5l-4.5 4.5l-4.5 -4.5z", y - 4.5);
                put(svg, format_args!("<path class=\"hollow s{colour}\" d=\"{diamond}\"/>"));
            }
        }
    }

    /// The name of each series, beside the end of its line or as near as others leave room.
    fn draw_names(&self, svg: &mut String) {
        let ends: Vec<(f64, f64)> = self
            .series
            .iter()
            .filter_map(|series| Some((series, series.rows.last()?)))
            .map(|(series, row)| (self.x_of(row.x) + self.dodge(series), self.y_of(row.ours)))
            .collect();
        let wanted: Vec<f64> = ends.iter().map(|(_, y)| *y).collect();
        let bottom = PLOT_HEIGHT.max(LINE_HEIGHT * self.series.len() as f64);
        let places = apart(&wanted, LINE_HEIGHT, 0.0, bottom);
        for ((series, (x, y)), at) in self.series.iter().zip(ends).zip(places) {
            let (colour, left) = (series.colour(), PLOT_WIDTH + LEADER);
            let (from, to) = (x + 6.0, left - 12.0);
            put(
                svg,
                format_args!(
                    "<path class=\"leader s{colour}\" d=\"M{from:.1} {y:.1}H{:.1}L{to:.1} {at:.1}\"/><path class=\"f{colour}\" d=\"{}\"/>",
                    PLOT_WIDTH.max(from),
                    shape(series.number, left - 5.0, at)
                ),
            );
            let name = escaped(&series.shown());
            put(
                svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\">{name}<title>{}</title></text>",
                    left + 3.0,
                    at + 4.0,
                    escaped(series.name)
                ),
            );
        }
    }
}

impl Series<'_> {
    fn colour(&self) -> usize {
        self.number % COLOURS.len()
    }

    fn shown(&self) -> String {
        clipped(self.name, NAME_MAX)
    }
}

/// The outline of a point: a circle, a square, a triangle, and so on, in turn.
fn shape(number: usize, x: f64, y: f64) -> String {
    match number % 4 {
        0 => format!("M{:.1} {y:.1}a3.3 3.3 0 1 0 6.6 0a3.3 3.3 0 1 0 -6.6 0z", x - 3.3),
        1 => format!("M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
        2 => format!("M{x:.1} {:.1}l4 7h-8z", y - 4.2),
        _ => format!("M{x:.1} {:.1}l4 -7h-8z", y + 4.2),
    }
}

#[cfg(test)]
mod tests;
