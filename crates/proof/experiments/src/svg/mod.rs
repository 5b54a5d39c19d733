//! A report as a picture: panels in a grid, one for each unit and each of the report's panels of it, and in them a line with its intervals for each series.
//!
//! The picture is an SVG file that stands alone: colours for light and dark surroundings, no font but the generic one, no script. Series are told apart by
//! colour, by the shape of their points and by dashes. Where panels stand side by side a series looks the same in all of them, and one legend names all; where
//! they stand below each other the names are at the ends of the lines. Places that have names are set evenly, and no line goes from one to the next.
//!
//! | file | role |
//! |---|---|
//! | `panel` | one panel |
//! | `scale` | axes and their ticks |
//! | `text` | how wide text is, and where labels stand that must not cover each other |

mod panel;
mod scale;
mod text;

use std::fmt::Write;

use crate::report::{Report, Row};
use panel::{Panel, Plot, dashes, shape};
use text::{clipped, escaped, lines, width_of};

/// The room on the left of a plot, for the numbers of its axis.
const LEFT: f64 = 62.0;
/// The room on the right of a plot that has another one beside it.
const GAP: f64 = 26.0;
/// Between the end of the lines and their names.
const LEADER: f64 = 26.0;
const LINE_HEIGHT: f64 = 17.0;
const TITLE_SIZE: f64 = 15.0;
const TITLE_LINE: f64 = 20.0;
/// The size of all other letters.
const SIZE: f64 = 12.0;
/// Bold letters are wider by this factor.
const BOLD: f64 = 1.12;
/// The longest name of a series, in characters: a pointer shows the whole.
const NAME_MAX: usize = 44;
/// The plots of a figure, by how many stand side by side.
const PLOTS: [Plot; 3] = [
    Plot { width: 560.0, height: 250.0 },
    Plot { width: 420.0, height: 220.0 },
    Plot { width: 270.0, height: 190.0 },
];
/// A figure with more panels than this has several side by side.
const PANELS_BELOW_EACH_OTHER_MAX: usize = 3;

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

/// Draws a report.
pub fn draw(report: &Report) -> String {
    Figure::new(report).draw(report)
}

/// The panels of a picture.
struct Figure<'a> {
    panels: Vec<Panel<'a>>,
    /// How many panels stand side by side.
    columns: usize,
    /// The names in the legend, which a figure with several columns has.
    legend: Vec<&'a str>,
}

impl<'a> Figure<'a> {
    fn new(report: &'a Report) -> Self {
        let names = distinct(defined(report).map(|row| &*row.series));
        let units = distinct(defined(report).map(|row| &*row.unit));
        let (mut groups, mut most) = (Vec::new(), 1);
        for unit in units {
            let of_unit = || defined(report).filter(move |row| row.unit == unit);
            let panels = distinct(of_unit().map(|row| row.panel.as_deref()));
            most = most.max(panels.len());
            groups.extend(panels.into_iter().map(|panel| {
                (
                    unit,
                    panel,
                    of_unit().filter(move |row| row.panel.as_deref() == panel).collect::<Vec<&Row>>(),
                )
            }));
        }
        let wanted = match most {
            1 if groups.len() <= PANELS_BELOW_EACH_OTHER_MAX => 1,
            1 | 2 | 4 => 2,
            _ => 3,
        };
        let needed = groups.iter().map(|(.., rows)| panel::width_needed(rows)).fold(0.0, f64::max);
        let columns = (2..=wanted).rev().find(|columns| PLOTS[columns - 1].width >= needed).unwrap_or(1);
        let plot = Plot { width: PLOTS[columns - 1].width.max(needed), ..PLOTS[columns - 1] };
        // A name stands for one look in the whole figure, as long as there are looks enough.
        let is_shared = columns > 1 || names.len() <= COLOURS.len();
        let shared: &[&str] = if is_shared { &names } else { &[] };
        let x = report.x.as_deref();
        let panel = |(unit, name, rows)| Panel::new(unit, name, rows, shared, x, plot);
        let panels = groups.into_iter().map(panel).collect();
        Figure { panels, columns, legend: if columns > 1 { names } else { Vec::new() } }
    }

    fn draw(&self, report: &Report) -> String {
        let width = self.width();
        let title = lines(&report.what, TITLE_SIZE * BOLD, width - 24.0);
        let legend = self.legend_places(width);
        let legend_top = 12.0 + TITLE_LINE * title.len() as f64;
        let top = legend_top + legend.last().map_or(0.0, |(_, y)| y + 24.0);
        let has_paper = self.panels.iter().any(Panel::has_paper);
        let rows = || self.panels.chunks(self.columns);
        let height = top + rows().map(row_height).sum::<f64>() + if has_paper { 22.0 } else { 4.0 };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
             <title>{}</title>\n<style>{}</style>\n<rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n",
            escaped(&report.what),
            style()
        );
        for (number, line) in title.iter().enumerate() {
            let y = 22.0 + TITLE_LINE * number as f64;
            put(&mut svg, format_args!("<text class=\"title\" x=\"12\" y=\"{y}\">{}</text>", escaped(line)));
        }
        let has_lines = self.panels.iter().any(|panel| !panel.has_names());
        for ((number, name), (x, y)) in self.legend.iter().enumerate().zip(legend) {
            draw_legend(&mut svg, number, name, (x, legend_top + y), has_lines);
        }
        let mut y = top;
        for row in rows() {
            let above = row.iter().map(Panel::above).fold(0.0, f64::max);
            for (column, panel) in row.iter().enumerate() {
                let x = LEFT + self.cell() * column as f64;
                put(&mut svg, format_args!("<g transform=\"translate({x:.1},{:.1})\">", y + above));
                panel.draw(&mut svg, self.columns == 1);
                svg.push_str("</g>\n");
            }
            y += row_height(row);
        }
        if has_paper {
            let mark = "<path class=\"quiet hollow\" d=\"M5 -4L9 0L5 4L1 0z\"/><text class=\"small\" x=\"16\" y=\"4\">the number of the paper</text>";
            put(&mut svg, format_args!("<g transform=\"translate({LEFT},{y:.1})\">{mark}</g>"));
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The width of a panel with what is beside it.
    fn cell(&self) -> f64 {
        LEFT + self.panels.first().map_or(PLOTS[0].width, |panel| panel.plot.width) + GAP
    }

    fn width(&self) -> f64 {
        if self.columns > 1 {
            return (self.cell() * self.columns as f64).ceil();
        }
        let names = self.panels.iter().flat_map(|panel| &panel.series);
        let names = names.map(|series| width_of(&series.shown(), SIZE)).fold(0.0, f64::max);
        (self.cell() - GAP + LEADER + names + 14.0).ceil()
    }

    /// Where the entries of the legend begin: in lines that are as wide as the figure.
    fn legend_places(&self, width: f64) -> Vec<(f64, f64)> {
        let (mut x, mut y) = (12.0, 10.0);
        let mut places = Vec::new();
        for name in &self.legend {
            let entry = LEGEND_TEXT + width_of(&clipped(name, NAME_MAX), SIZE) + 20.0;
            if x + entry > width && x > 12.0 {
                (x, y) = (12.0, y + LINE_HEIGHT);
            }
            places.push((x, y));
            x += entry;
        }
        places
    }
}

/// The name of an entry of the legend stands so far from its beginning.
const LEGEND_TEXT: f64 = 32.0;

fn draw_legend(svg: &mut String, number: usize, name: &str, (x, y): (f64, f64), has_line: bool) {
    let (colour, dashes) = (number % COLOURS.len(), dashes(number));
    if has_line {
        let outline = format!("M{x:.1} {y:.1}h26");
        put(
            svg,
            format_args!("<path class=\"line s{colour}\" d=\"{outline}\" stroke-dasharray=\"{dashes}\"/>"),
        );
    }
    let (shape, text) = (shape(number, x + 13.0, y), x + LEGEND_TEXT);
    let shown = escaped(&clipped(name, NAME_MAX));
    put(
        svg,
        format_args!(
            "<path class=\"f{colour}\" d=\"{shape}\"/><text x=\"{text:.1}\" y=\"{:.1}\">{shown}<title>{}</title></text>",
            y + 4.0,
            escaped(name)
        ),
    );
}

/// The rows of a report that are numbers.
fn defined(report: &Report) -> impl Iterator<Item = &Row> {
    report.rows.iter().filter(|row| row.is_defined())
}

/// Each of these once, in the order in which they come first.
fn distinct<T: PartialEq>(of: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in of {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

fn row_height(row: &[Panel<'_>]) -> f64 {
    let greatest = |amounts: [f64; 3], panel: &Panel<'_>| {
        let [above, height, below] = amounts;
        [above.max(panel.above()), height.max(panel.height()), below.max(panel.below())]
    };
    row.iter().fold([0.0; 3], greatest).iter().sum()
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
        "text{{font-family:ui-sans-serif,system-ui,sans-serif;font-size:{SIZE}px;fill:#1c2128}}\
         .title{{font-size:{TITLE_SIZE}px;font-weight:600}}.name{{font-weight:600}}.small,.unit{{fill:#57606a}}.paper{{fill:#ffffff}}\
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

#[cfg(test)]
mod tests;
