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
    let mut taken = Vec::new();
    placed
        .into_iter()
        .map(|(at, from, to)| {
            let [start, end] = points[at];
            let edge = &edges[at];
            let label = edge.key.as_ref().map_or_else(
                || edge.kind.name().to_string(),
                |key| format!("{} {}", edge.kind.name(), short(key)),
            );
            let curve = curve(start, end, sides(from, to));
            let label_at = place_label(&curve, &label, &layout.bars, &mut taken);
            Route { kind: edge.kind, label, curve, label_at }
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

/// A place on the curve where the label covers neither a bar nor an earlier label; failing that, the middle.
fn place_label(curve: &[Point; 4], label: &str, bars: &[Bar], taken: &mut Vec<Area>) -> Point {
    let half = label.chars().count() as f64 * 7.3 / 2.0 + 3.0;
    let area = |(x, y): Point| (x - half, y - 11.0, x + half, y + 4.0);
    let is_free = |area: Area| {
        let on_bar =
            |bar: &Bar| overlap(area, (bar.left, bar.top, bar.left + bar.width, bar.top + bar.height));
        !bars.iter().any(on_bar) && !taken.iter().any(|&other| overlap(area, other))
    };
    let base_line = |at: f64| {
        let (x, y) = point(curve, at);
        (x, y + 4.0)
    };
    let places = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.12, 0.88].map(base_line);
    let place = places.into_iter().find(|&place| is_free(area(place))).unwrap_or(places[0]);
    taken.push(area(place));
    place
}

fn short(key: &str) -> String {
    if key.chars().count() <= 16 { key.to_string() } else { key.chars().take(15).chain(['…']).collect() }
}
