//! The arrows of a picture: from bar to bar, apart from one another, each with a label that nothing covers.

use super::layout::{Bar, Layout};
use crate::report::{AnomalyEdge, DependencyKind};

type Point = (f64, f64);

/// An arrow.
pub(super) struct Route {
    pub(super) kind: DependencyKind,
    pub(super) label: String,
    /// A cubic Bézier curve.
    pub(super) curve: [Point; 4],
    /// The middle of the label's base line.
    pub(super) label_at: Point,
}

/// The side of a bar where an arrow begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Top,
    Bottom,
}

/// One end of an arrow, to be placed among the others on its side of the bar.
struct End<'a> {
    bar: &'a Bar,
    side: Side,
    /// Where the other end is, which decides the order on the side.
    toward: f64,
    edge: usize,
    is_start: bool,
}

/// Routes all edges whose bars are in the layout.
pub(super) fn routes(layout: &Layout, edges: &[AnomalyEdge]) -> Vec<Route> {
    let placed: Vec<(usize, &Bar, &Bar)> = edges
        .iter()
        .enumerate()
        .filter_map(|(at, edge)| Some((at, layout.bar(edge.from)?, layout.bar(edge.to)?)))
        .collect();
    let mut ends = Vec::new();
    for &(edge, from, to) in &placed {
        let (start, end) = sides(from, to);
        ends.push(End { bar: from, side: start, toward: middle(to), edge, is_start: true });
        ends.push(End { bar: to, side: end, toward: middle(from), edge, is_start: false });
    }
    let mut points = vec![[(0.0, 0.0); 2]; edges.len()];
    for bar in &layout.bars {
        for side in [Side::Top, Side::Bottom] {
            let mut here: Vec<&End<'_>> =
                ends.iter().filter(|end| end.bar.invoke == bar.invoke && end.side == side).collect();
            here.sort_by(|one, other| one.toward.total_cmp(&other.toward).then(one.edge.cmp(&other.edge)));
            let step = bar.width / (here.len() + 1) as f64;
            for (at, end) in here.into_iter().enumerate() {
                let y = if side == Side::Top { bar.top } else { bar.top + bar.height };
                points[end.edge][usize::from(!end.is_start)] = (bar.left + step * (at + 1) as f64, y);
            }
        }
    }
    let curves: Vec<[Point; 4]> =
        placed.iter().map(|&(at, from, to)| curve(points[at][0], points[at][1], sides(from, to))).collect();
    let mut labels = Labels { layout, traces: curves.iter().map(trace).collect(), taken: Vec::new() };
    placed
        .iter()
        .zip(&curves)
        .enumerate()
        .map(|(number, (&(at, ..), curve))| {
            let edge = &edges[at];
            let label = edge.key.as_ref().map_or_else(
                || edge.kind.name().to_string(),
                |key| format!("{} {}", edge.kind.name(), short(key)),
            );
            let label_at = labels.place(number, curve, &label);
            Route { kind: edge.kind, label, curve: *curve, label_at }
        })
        .collect()
}

fn middle(bar: &Bar) -> f64 {
    bar.left + bar.width / 2.0
}

/// Arrows leave towards the other lane; within a lane they take the way below.
fn sides(from: &Bar, to: &Bar) -> (Side, Side) {
    match from.lane.cmp(&to.lane) {
        std::cmp::Ordering::Less => (Side::Bottom, Side::Top),
        std::cmp::Ordering::Equal => (Side::Bottom, Side::Bottom),
        std::cmp::Ordering::Greater => (Side::Top, Side::Bottom),
    }
}

fn curve(start: Point, end: Point, (leaving, arriving): (Side, Side)) -> [Point; 4] {
    let reach = if leaving == arriving { 34.0 } else { ((end.1 - start.1).abs() * 0.5).clamp(22.0, 90.0) };
    let away = |side, (x, y): Point| (x, if side == Side::Top { y - reach } else { y + reach });
    [start, away(leaving, start), away(arriving, end), end]
}

fn point(curve: &[Point; 4], at: f64) -> Point {
    let back = 1.0 - at;
    let weights = [back * back * back, 3.0 * back * back * at, 3.0 * back * at * at, at * at * at];
    let sum =
        |axis: fn(&Point) -> f64| curve.iter().zip(weights).map(|(point, weight)| axis(point) * weight).sum();
    (sum(|point| point.0), sum(|point| point.1))
}

/// A rectangle: left, top, right, bottom.
type Area = (f64, f64, f64, f64);

fn overlap((left, top, right, bottom): Area, other: Area) -> bool {
    left < other.2 && other.0 < right && top < other.3 && other.1 < bottom
}

/// Points of a curve, near to each other.
fn trace(curve: &[Point; 4]) -> Vec<Point> {
    const POINTS: u32 = 48;
    (0..=POINTS).map(|at| point(curve, f64::from(at) / f64::from(POINTS))).collect()
}

/// The labels of a picture, while they are placed.
struct Labels<'a> {
    layout: &'a Layout,
    /// Points of every curve.
    traces: Vec<Vec<Point>>,
    /// Where labels stand.
    taken: Vec<Area>,
}

impl Labels<'_> {
    /// The place for the label of a curve, on it or beside it, that covers least: no bar and no other label if that can be, and then no arrow.
    fn place(&mut self, number: usize, curve: &[Point; 4], label: &str) -> Point {
        let half = label.chars().count() as f64 * 7.3 / 2.0 + 3.0;
        let area = |(x, y): Point| (x - half, y - 11.0, x + half, y + 4.0);
        let mut best: Option<(u32, Point)> = None;
        for at in [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82, 0.1, 0.9] {
            let (x, y) = point(curve, at);
            for aside in [0.0, half + 4.0, -half - 4.0] {
                let place = (x + aside, y + 4.0);
                let cost = self.cost(number, area(place), aside == 0.0);
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, place));
                }
            }
        }
        let place = best.map_or((0.0, 0.0), |(_, place)| place);
        self.taken.push(area(place));
        place
    }

    /// How bad it is if a label covers this; zero if it covers nothing.
    fn cost(&self, number: usize, area: Area, is_on_its_curve: bool) -> u32 {
        const BAR: u32 = 1_000;
        const LABEL: u32 = 1_000;
        const OTHER_ARROW: u32 = 30;
        const OWN_ARROW: u32 = 10;
        let bars = self.layout.bars.iter();
        let bars = bars
            .filter(|bar| overlap(area, (bar.left, bar.top, bar.left + bar.width, bar.top + bar.height)))
            .count();
        let labels = self.taken.iter().filter(|other| overlap(area, **other)).count();
        let names = self.layout.lanes.iter().filter(|lane| overlap(area, lane.names_area())).count();
        let is_outside = area.0 < 8.0 || area.2 > self.layout.width;
        let crosses = |trace: &[Point]| {
            trace.iter().any(|(x, y)| area.0 < *x && *x < area.2 && area.1 < *y && *y < area.3)
        };
        let others =
            self.traces.iter().enumerate().filter(|(other, trace)| *other != number && crosses(trace));
        let own = !is_on_its_curve && crosses(&self.traces[number]);
        // A label that its own arrow goes through hides the middle of it.
        BAR * (bars + names) as u32
            + LABEL * (labels as u32 + u32::from(is_outside))
            + OTHER_ARROW * others.count() as u32
            + OWN_ARROW * (u32::from(own) + u32::from(is_on_its_curve))
    }
}

fn short(key: &str) -> String {
    if key.chars().count() <= 16 { key.to_string() } else { key.chars().take(15).chain(['…']).collect() }
}
