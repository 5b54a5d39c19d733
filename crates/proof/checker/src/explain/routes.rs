//! The arrows of a picture: from bar to bar, apart from one another, each with a label that nothing covers.

use super::layout::{Bar, CHARACTER, Layout};
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

/// The arrows of a picture.
pub(super) struct Routes {
    pub(super) all: Vec<Route>,
    /// True if each label stands where nothing else is.
    pub(super) is_clear: bool,
}

impl Routes {
    /// How far down arrows and labels reach.
    pub(super) fn bottom(&self) -> f64 {
        let reached = |route: &Route| {
            let lowest = trace(&route.curve).iter().map(|point| point.1).fold(0.0, f64::max);
            lowest.max(route.label_area().3)
        };
        self.all.iter().map(reached).fold(0.0, f64::max)
    }
}

impl Route {
    /// The area of its label.
    pub(super) fn label_area(&self) -> Area {
        label_area(self.label_at, half_width(&self.label))
    }
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
pub(super) fn routes(layout: &Layout, edges: &[AnomalyEdge]) -> Routes {
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
    let traces = curves.iter().map(trace).collect();
    let mut labels = Labels { layout, traces, taken: Vec::new(), is_clear: true };
    let all = placed
        .iter()
        .zip(&curves)
        .map(|(&(at, ..), curve)| {
            let edge = &edges[at];
            let label = edge.key.as_ref().map_or_else(
                || edge.kind.name().to_string(),
                |key| format!("{} {}", edge.kind.name(), short(key)),
            );
            let label_at = labels.place(curve, &label);
            Route { kind: edge.kind, label, curve: *curve, label_at }
        })
        .collect();
    Routes { all, is_clear: labels.is_clear }
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
pub(super) type Area = (f64, f64, f64, f64);

/// Letters are so high above their base line, and so deep below it.
const ASCENT: f64 = 11.0;
const DESCENT: f64 = 4.0;
/// Beside the letters of a label, and between that and its arrow.
const CLEAR: f64 = 5.0;
const ASIDE: f64 = 4.0;

fn half_width(label: &str) -> f64 {
    label.chars().count() as f64 * CHARACTER / 2.0 + CLEAR
}

fn label_area((x, y): Point, half: f64) -> Area {
    (x - half, y - ASCENT, x + half, y + DESCENT)
}

fn overlap((left, top, right, bottom): Area, other: Area) -> bool {
    left < other.2 && other.0 < right && top < other.3 && other.1 < bottom
}

/// Points of a curve, nearer to each other than a label is high.
fn trace(curve: &[Point; 4]) -> Vec<Point> {
    const POINTS: u32 = 200;
    (0..=POINTS).map(|at| point(curve, f64::from(at) / f64::from(POINTS))).collect()
}

/// The labels of a picture, while they are placed.
struct Labels<'a> {
    layout: &'a Layout,
    /// Points of every curve.
    traces: Vec<Vec<Point>>,
    /// Where labels stand.
    taken: Vec<Area>,
    /// True as long as each label stands where nothing else is.
    is_clear: bool,
}

impl Labels<'_> {
    /// The place for the label of a curve, beside it, that covers least: no bar and no other label if that can be, and then no arrow. Of several that cover
    /// nothing, one near the middle.
    fn place(&mut self, curve: &[Point; 4], label: &str) -> Point {
        /// Steps along a curve on either side of its middle.
        const STEPS: i32 = 16;
        let half = half_width(label);
        let (beside, above, below) = (half + ASIDE, -ASIDE - DESCENT, ASIDE + ASCENT);
        // A label that begins or ends at the curve keeps clear of one that is neither steep nor flat.
        let ways = [
            (beside, 4.0),
            (-beside, 4.0),
            (0.0, above),
            (0.0, below),
            (beside, above),
            (-beside, above),
            (beside, below),
            (-beside, below),
        ];
        let mut best: Option<(u32, Point)> = None;
        for step in (0..=STEPS).flat_map(|step| [step, -step]) {
            let (x, y) = point(curve, 0.5 + 0.45 * f64::from(step) / f64::from(STEPS));
            for (aside, down) in ways {
                let place = (x + aside, y + down);
                let cost = self.cost(label_area(place, half));
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, place));
                }
                if cost == 0 {
                    break;
                }
            }
            if best.is_some_and(|(least, _)| least == 0) {
                break;
            }
        }
        let (cost, place) = best.unwrap_or((u32::MAX, (0.0, 0.0)));
        self.is_clear &= cost == 0;
        self.taken.push(label_area(place, half));
        place
    }

    /// How bad it is if a label covers this; zero if it covers nothing.
    fn cost(&self, area: Area) -> u32 {
        const OTHER_TEXT: u32 = 100;
        const ARROW: u32 = 1;
        let bars = self.layout.bars.iter();
        let bars = bars
            .filter(|bar| overlap(area, (bar.left, bar.top, bar.left + bar.width, bar.top + bar.height)))
            .count();
        let labels = self.taken.iter().filter(|other| overlap(area, **other)).count();
        let names = self.layout.lanes.iter().filter(|lane| overlap(area, lane.names_area())).count();
        let is_outside = area.0 < 8.0 || area.2 > self.layout.width;
        let crosses = |trace: &&Vec<Point>| {
            trace.iter().any(|(x, y)| area.0 < *x && *x < area.2 && area.1 < *y && *y < area.3)
        };
        let arrows = self.traces.iter().filter(crosses).count();
        OTHER_TEXT * (bars + names + labels + usize::from(is_outside)) as u32 + ARROW * arrows as u32
    }
}

fn short(key: &str) -> String {
    if key.chars().count() <= 16 { key.to_string() } else { key.chars().take(15).chain(['…']).collect() }
}
