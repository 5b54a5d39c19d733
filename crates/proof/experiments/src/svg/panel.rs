//! One panel: the rows of one unit.

use super::scale::{Scale, shown};
use super::text::{apart, clipped, escaped, lines, width_of};
use super::{BOLD, COLOURS, LEADER, LEFT, LINE_HEIGHT, NAME_MAX, SIZE, put};
use crate::report::Row;

/// How the lines of further series are broken, in turn.
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];
/// Points of several series at one place stand side by side, so far from each other at most.
const DODGE: f64 = 4.0;
/// The same where places have names, and room around them.
const DODGE_OF_NAMES: f64 = 9.0;
/// Points do not stand on the edge.
const INSET: f64 = 16.0;
/// Between the names of two places.
const BETWEEN_NAMES: f64 = 10.0;
/// Above a plot: a line of its heading, and the room below that.
const HEADING_LINE: f64 = 16.0;
const HEADING_GAP: f64 = 14.0;
/// Below a plot: from the axis to the numbers, a further line, and the room below all.
const NUMBERS: f64 = 18.0;
const NUMBER_LINE: f64 = 14.0;
const BELOW_GAP: f64 = 22.0;

/// The size of a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plot {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The x axis.
enum Places {
    /// Amounts, and their quantity.
    Amounts(Scale, Option<String>),
    /// Things, each where it is in the rows, and with the lines of its name.
    Names(Vec<(f64, Vec<String>)>),
}

/// The rows of one unit, or those of one panel of it.
pub(super) struct Panel<'a> {
    /// The lines above it, and whether they are those of its name.
    heading: Vec<(String, bool)>,
    pub(super) series: Vec<Series<'a>>,
    pub(super) plot: Plot,
    places: Places,
    y: Scale,
}

/// The rows of one series in a panel, ascending by place.
pub(super) struct Series<'a> {
    /// How it looks.
    pub(super) number: usize,
    name: &'a str,
    rows: Vec<&'a Row>,
}

/// The width that a plot of these rows has to have for the names of its places.
pub(super) fn width_needed(rows: &[&Row]) -> f64 {
    let names = named_places(rows);
    let words = names.iter().flat_map(|(_, name)| name.split(' '));
    let widest = words.map(|word| width_of(word, SIZE)).fold(0.0, f64::max);
    names.len() as f64 * (widest + BETWEEN_NAMES)
}

/// The places that have names, ascending.
fn named_places<'a>(rows: &[&'a Row]) -> Vec<(f64, &'a str)> {
    let mut names: Vec<(f64, &str)> =
        rows.iter().filter_map(|row| Some((row.x, row.place.as_deref()?))).collect();
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    names.dedup_by_key(|(x, _)| *x);
    names
}

impl<'a> Panel<'a> {
    /// A panel of these rows. A series looks as its place among the shared names tells, or in the panel if there are none. `x` is the quantity of the axis.
    pub(super) fn new(
        unit: &str,
        name: Option<&str>,
        rows: Vec<&'a Row>,
        shared: &[&str],
        x: Option<&str>,
        plot: Plot,
    ) -> Self {
        let places = Places::new(&rows, x, plot);
        // An interval of an amount that is never negative may reach below zero: the picture does not.
        let is_negative = rows.iter().any(|row| row.ours < 0.0);
        let mut amounts: Vec<f64> =
            rows.iter().flat_map(|row| [row.ours, row.high].into_iter().chain(row.paper)).collect();
        amounts.extend(rows.iter().map(|row| row.low).filter(|low| is_negative || *low > 0.0));
        let mut series: Vec<Series<'a>> = Vec::new();
        for row in rows {
            match series.iter_mut().find(|known| known.name == row.series) {
                Some(known) => known.rows.push(row),
                None => {
                    let place = shared.iter().position(|name| *name == row.series);
                    let number = place.unwrap_or(series.len());
                    series.push(Series { number, name: &row.series, rows: vec![row] });
                }
            }
        }
        series.iter_mut().for_each(|series| series.rows.sort_by(|one, other| one.x.total_cmp(&other.x)));
        let width = plot.width + LEFT / 2.0;
        let name = name.map_or(Vec::new(), |name| lines(name, SIZE * BOLD, width));
        let name = name.into_iter().map(|line| (line, true));
        let heading = name.chain(lines(unit, SIZE, width).into_iter().map(|line| (line, false))).collect();
        Panel { heading, series, plot, places, y: Scale::of_amounts(&amounts) }
    }

    pub(super) fn has_paper(&self) -> bool {
        self.series.iter().flat_map(|series| &series.rows).any(|row| row.paper.is_some())
    }

    /// The room above the plot.
    pub(super) fn above(&self) -> f64 {
        HEADING_GAP + HEADING_LINE * self.heading.len() as f64
    }

    /// The height of the plot, and of the names beside it.
    pub(super) fn height(&self) -> f64 {
        self.plot.height.max(LINE_HEIGHT * self.series.len() as f64)
    }

    /// The room below the plot.
    pub(super) fn below(&self) -> f64 {
        let further = match &self.places {
            Places::Amounts(_, quantity) => usize::from(quantity.is_some()),
            Places::Names(names) => names.iter().map(|(_, lines)| lines.len() - 1).max().unwrap_or(0),
        };
        NUMBERS + NUMBER_LINE * further as f64 + BELOW_GAP
    }

    fn x_of(&self, x: f64) -> f64 {
        match &self.places {
            Places::Amounts(scale, _) => INSET + (self.plot.width - 2.0 * INSET) * scale.place(x),
            Places::Names(names) => {
                let at = names.iter().position(|(place, _)| *place == x).unwrap_or_default();
                self.plot.width * (at as f64 + 0.5) / names.len() as f64
            }
        }
    }

    fn y_of(&self, amount: f64) -> f64 {
        self.plot.height * (1.0 - self.y.place(amount))
    }

    /// Draws it, with the names of its series beside it if there is no legend.
    pub(super) fn draw(&self, svg: &mut String, has_names: bool) {
        self.draw_heading(svg);
        self.draw_axes(svg);
        for series in &self.series {
            self.draw_series(svg, series);
        }
        if has_names {
            self.draw_names(svg);
        }
    }

    fn draw_heading(&self, svg: &mut String) {
        let last = self.heading.len().saturating_sub(1);
        for (number, (line, is_name)) in self.heading.iter().enumerate() {
            let y = -12.0 - HEADING_LINE * (last - number) as f64;
            let class = if *is_name { "name" } else { "unit" };
            put(svg, format_args!("<text class=\"{class}\" x=\"0\" y=\"{y}\">{}</text>", escaped(line)));
        }
    }

    fn draw_axes(&self, svg: &mut String) {
        let Plot { width, height } = self.plot;
        for tick in &self.y.ticks {
            let y = self.y_of(*tick);
            put(svg, format_args!("<path class=\"grid\" d=\"M0 {y:.1}H{width}\"/>"));
            let label = shown(*tick);
            put(
                svg,
                format_args!(
                    "<text class=\"small\" x=\"-8\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                    y + 4.0
                ),
            );
        }
        put(svg, format_args!("<path class=\"axis\" d=\"M0 {height}H{width}\"/>"));
        if self.y.has_zero_inside() {
            put(svg, format_args!("<path class=\"axis\" d=\"M0 {:.1}H{width}\"/>", self.y_of(0.0)));
        }
        match &self.places {
            Places::Amounts(scale, quantity) => self.draw_amounts(svg, scale, quantity.as_deref()),
            Places::Names(names) => {
                for (x, lines) in names {
                    let x = self.x_of(*x);
                    put(svg, format_args!("<path class=\"grid\" d=\"M{x:.1} 0V{height}\"/>"));
                    for (number, line) in lines.iter().enumerate() {
                        self.draw_below(svg, x, number, line);
                    }
                }
            }
        }
    }

    fn draw_amounts(&self, svg: &mut String, scale: &Scale, quantity: Option<&str>) {
        // Of numbers that would run into one another only the first stays.
        let mut free_from = f64::MIN;
        for tick in &scale.ticks {
            let (x, label) = (self.x_of(*tick), shown(*tick));
            let half = width_of(&label, SIZE) / 2.0;
            put(svg, format_args!("<path class=\"axis\" d=\"M{x:.1} {}v4\"/>", self.plot.height));
            if x - half >= free_from {
                self.draw_below(svg, x, 0, &label);
                free_from = x + half + 8.0;
            }
        }
        if let Some(quantity) = quantity {
            self.draw_below(svg, self.plot.width / 2.0, 1, quantity);
        }
    }

    /// Writes into a line below the plot.
    fn draw_below(&self, svg: &mut String, x: f64, line: usize, text: &str) {
        let (y, text) = (self.plot.height + NUMBERS + NUMBER_LINE * line as f64, escaped(text));
        put(
            svg,
            format_args!(
                "<text class=\"small\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>"
            ),
        );
    }

    /// How far the points of a series stand to the side of their place: where series share places, none covers another.
    fn dodge(&self, series: &Series<'_>) -> f64 {
        let place = self.series.iter().position(|known| known.number == series.number).unwrap_or_default();
        let others = self.series.len() as f64 - 1.0;
        let widest = if self.has_names() { DODGE_OF_NAMES } else { DODGE };
        let step = widest.min(self.room_between_places() / (others + 1.0));
        (place as f64 - others / 2.0) * step
    }

    /// Half of the least distance between two places.
    fn room_between_places(&self) -> f64 {
        let mut places: Vec<f64> =
            self.series.iter().flat_map(|series| &series.rows).map(|row| self.x_of(row.x)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places.windows(2).map(|pair| (pair[1] - pair[0]) / 2.0).fold(self.plot.width, f64::min)
    }

    /// True if its places have names.
    pub(super) fn has_names(&self) -> bool {
        matches!(self.places, Places::Names(_))
    }

    fn draw_series(&self, svg: &mut String, series: &Series<'_>) {
        let (colour, dodge) = (series.colour(), self.dodge(series));
        let place = |row: &Row| (self.x_of(row.x) + dodge, self.y_of(row.ours));
        if !self.has_names() {
            let points = series.rows.iter().map(|row| place(row));
            let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            put(
                svg,
                format_args!(
                    "<polyline class=\"line s{colour}\" points=\"{}\" stroke-dasharray=\"{}\"/>",
                    points.join(" "),
                    dashes(series.number)
                ),
            );
        }
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
        /// A line leads from a point to a name only if the point is as near to the edge: a longer one would look like data.
        const LEADS_MAX: f64 = 60.0;
        let ends: Vec<(f64, f64)> = self
            .series
            .iter()
            .filter_map(|series| Some((series, series.rows.last()?)))
            .map(|(series, row)| (self.x_of(row.x) + self.dodge(series), self.y_of(row.ours)))
            .collect();
        let wanted: Vec<f64> = ends.iter().map(|(_, y)| *y).collect();
        let places = apart(&wanted, LINE_HEIGHT, 0.0, self.height());
        let edge = self.plot.width;
        for ((series, (x, y)), at) in self.series.iter().zip(ends).zip(places) {
            let (colour, left) = (series.colour(), edge + LEADER);
            let (from, to) = (x + 6.0, left - 12.0);
            if edge - x <= LEADS_MAX && !self.has_names() {
                put(
                    svg,
                    format_args!(
                        "<path class=\"leader s{colour}\" d=\"M{from:.1} {y:.1}H{:.1}L{to:.1} {at:.1}\"/>",
                        edge.max(from)
                    ),
                );
            }
            put(
                svg,
                format_args!(
                    "<path class=\"f{colour}\" d=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}<title>{}</title></text>",
                    shape(series.number, left - 5.0, at),
                    left + 3.0,
                    at + 4.0,
                    escaped(&series.shown()),
                    escaped(series.name)
                ),
            );
        }
    }
}

impl Places {
    fn new(rows: &[&Row], quantity: Option<&str>, plot: Plot) -> Self {
        let names = named_places(rows);
        if names.is_empty() {
            let mut places: Vec<f64> = rows.iter().map(|row| row.x).collect();
            places.sort_by(f64::total_cmp);
            places.dedup();
            return Places::Amounts(Scale::of_places(&places), quantity.map(str::to_owned));
        }
        let room = plot.width / names.len() as f64 - BETWEEN_NAMES;
        Places::Names(names.into_iter().map(|(x, name)| (x, lines(name, SIZE, room))).collect())
    }
}

impl Series<'_> {
    pub(super) fn colour(&self) -> usize {
        self.number % COLOURS.len()
    }

    pub(super) fn shown(&self) -> String {
        clipped(self.name, NAME_MAX)
    }
}

/// How the line of a series is broken.
pub(super) fn dashes(number: usize) -> &'static str {
    DASHES[number / COLOURS.len() % DASHES.len()]
}

/// The outline of a point: a circle, a square, a triangle, and so on, in turn. Where colours begin again, another one has the shape.
pub(super) fn shape(number: usize, x: f64, y: f64) -> String {
    match (number + number / COLOURS.len()) % 4 {
        0 => format!("M{:.1} {y:.1}a3.3 3.3 0 1 0 6.6 0a3.3 3.3 0 1 0 -6.6 0z", x - 3.3),
        1 => format!("M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
        2 => format!("M{x:.1} {:.1}l4 7h-8z", y - 4.2),
        _ => format!("M{x:.1} {:.1}l4 -7h-8z", y + 4.2),
    }
}
