//! A picture of an anomaly: a lane per site and process, time from left to right, a bar per transaction with
//! its operations, and an arrow per edge.
//!
//! The picture is an SVG file that stands alone: colours for light and dark surroundings, no font but the
//! generic ones, no script. Time is not to scale: each event of the transactions has a column of its own, wide
//! enough for what stands in the bars, with the time since the first event above it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::layout::{Bar, CHARACTER, GAPS, Layout};
use super::routes::{Route, Routes, routes};
use crate::history::{Action, History, KeyId, Outcome, Seen, TxnId, Value};
use crate::report::{Anomaly, AnomalyEdge, DependencyKind};

/// Colours and shapes. Everything that has a colour on paper has another one in the dark.
const STYLE: &str = "\
text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;fill:#1c2128}\
.title{font-family:ui-sans-serif,system-ui,sans-serif;font-size:15px;font-weight:600}\
.small{font-size:11px;fill:#57606a}\
.name{font-weight:600}\
.paper{fill:#ffffff}\
.lane{fill:#f3f5f7}\
.bar{fill:#ffffff;stroke:#57606a;stroke-width:1.3}\
.aborted{fill:#fdeeee;stroke:#b3261e;stroke-dasharray:2 3}\
.unknown{stroke-dasharray:7 4}\
.tick{stroke:#c6ccd3;stroke-dasharray:1 4}\
.spec{stroke:#57606a;stroke-width:1.3;stroke-dasharray:3 2}\
.arrow{fill:none;stroke-width:1.8}.faint{opacity:.2}\
.on-top{stroke:#ffffff;stroke-width:4px;paint-order:stroke;stroke-linejoin:round}\
.aborted-text{stroke:#fdeeee}\
.label{font-weight:600}\
.wr{stroke:#0b62c4}.wr-ink{fill:#0b62c4}\
.ww{stroke:#b45309}.ww-ink{fill:#b45309}\
.rw{stroke:#b0156f}.rw-ink{fill:#b0156f}\
.so,.rt,.rts,.shown,.vis,.lc,.end{stroke:#4d7c0f;stroke-dasharray:6 3}.so-ink,.rt-ink,.rts-ink,.shown-ink,.vis-ink,.lc-ink,.end-ink{fill:#4d7c0f}\
@media (prefers-color-scheme:dark){\
text{fill:#e6edf3}.small{fill:#9aa4af}.paper{fill:#0f1318}.lane{fill:#181e25}\
.bar{fill:#0f1318;stroke:#9aa4af}.aborted{fill:#2c1517;stroke:#ff8b83}.tick{stroke:#39424d}.spec{stroke:#9aa4af}\
.on-top{stroke:#0f1318}.aborted-text{stroke:#2c1517}\
.wr{stroke:#6cb2ff}.wr-ink{fill:#6cb2ff}.ww{stroke:#f5a54a}.ww-ink{fill:#f5a54a}\
.rw{stroke:#ff85c8}.rw-ink{fill:#ff85c8}.so,.rt,.rts,.shown,.vis,.lc,.end{stroke:#a3d65c}.so-ink,.rt-ink,.rts-ink,.shown-ink,.vis-ink,.lc-ink,.end-ink{fill:#a3d65c}}";

/// The names of all kinds of edges, each with colours in [`STYLE`].
const EDGE_KINDS: [&str; 10] = ["wr", "ww", "rw", "so", "rt", "rts", "shown", "vis", "lc", "end"];

/// Values of a list that stand in a bar.
const LIST_VALUES_MAX: usize = 5;

/// Draws an anomaly as an SVG file. Transactions have the names of the sentences: T12 was invoked in the line
/// with index 12. `title` stands above the picture.
pub fn picture(history: &History, anomaly: &Anomaly, title: &str) -> String {
    let edges = if anomaly.edges.is_empty() { reads_among(history, anomaly) } else { anomaly.edges.clone() };
    let invokes: Vec<u32> =
        anomaly.txns.iter().copied().chain(edges.iter().flat_map(|edge| [edge.from, edge.to])).collect();
    let (layout, routes) = arranged(history, &invokes, &edges);
    let kinds = legend_entries(&edges);
    let legend_top = layout.height.max(routes.bottom()) + 14.0;
    let legend_width = kinds.iter().map(|(kind, meaning)| text_width(&format!("{kind} {meaning}"), SMALL));
    let legend_width = legend_width.fold(0.0, f64::max) + LEGEND_TEXT;
    let width = layout.width.max(legend_width).max(text_width(title, TITLE) + 12.0) + 12.0;
    let height = legend_top + 18.0 * kinds.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<title>{title}</title>\n<desc>{why}</desc>\n<style>{STYLE}</style>\n\
         <defs>",
        title = escape(title),
        why = escape(&anomaly.why),
    );
    for kind in EDGE_KINDS {
        let _ = write!(
            svg,
            "<marker id=\"{kind}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"5\" markerHeight=\"5\" \
             orient=\"auto\"><path class=\"{kind}-ink\" d=\"M0 0L8 4L0 8z\"/></marker>"
        );
    }
    let _ = writeln!(svg, "</defs>\n<rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>");
    let _ = writeln!(svg, "<text class=\"title\" x=\"12\" y=\"24\">{}</text>", escape(title));
    draw_lanes(&mut svg, &layout);
    // An arrow passes behind the bars between its ends, and shines through.
    for route in &routes.all {
        draw_route(&mut svg, route);
    }
    for bar in &layout.bars {
        draw_bar(&mut svg, history, bar);
    }
    for route in &routes.all {
        let _ = writeln!(svg, "<path class=\"arrow {} faint\" d=\"{}\"/>", route.kind.name(), outline(route));
    }
    // Text comes last, so that no arrow crosses it out.
    for bar in &layout.bars {
        draw_bar_text(&mut svg, history, bar);
    }
    for route in &routes.all {
        let (x, y) = route.label_at;
        let (kind, label) = (route.kind.name(), escape(&route.label));
        let _ = writeln!(
            svg,
            "<text class=\"label on-top {kind}-ink\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\">{label}</text>"
        );
    }
    for (at, (kind, meaning)) in kinds.iter().enumerate() {
        let y = legend_top + 18.0 * at as f64;
        let _ = writeln!(
            svg,
            "<path class=\"arrow {kind}\" marker-end=\"url(#{kind})\" d=\"M14 {y:.1}H48\"/>\
             <text class=\"small\" x=\"{LEGEND_TEXT}\" y=\"{:.1}\"><tspan class=\"name {kind}-ink\">{kind}</tspan> {meaning}</text>",
            y + 4.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// The width of a letter in a line of the legend, and in the title, whose letters differ.
const SMALL: f64 = CHARACTER * 11.0 / 12.0;
const TITLE: f64 = 8.8;
/// Where the text of the legend begins.
const LEGEND_TEXT: f64 = 56.0;

fn text_width(text: &str, letter: f64) -> f64 {
    text.chars().count() as f64 * letter
}

/// The bars and the arrows between them. Lanes are as far apart as labels need that are to stand beside their arrows, in the way of none.
fn arranged(history: &History, invokes: &[u32], edges: &[AnomalyEdge]) -> (Layout, Routes) {
    let arrange = |gap| {
        let layout = Layout::new(history, invokes, &|txn| bar_lines(history, txn), gap);
        let routes = routes(&layout, edges);
        (layout, routes)
    };
    let [first, wider @ ..] = GAPS;
    let mut best = arrange(first);
    for gap in wider {
        if best.1.is_clear {
            break;
        }
        best = arrange(gap);
    }
    best
}

fn draw_lanes(svg: &mut String, layout: &Layout) {
    for lane in &layout.lanes {
        let _ = writeln!(
            svg,
            "<rect class=\"lane\" x=\"8\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\"/>",
            lane.top,
            layout.width - 16.0,
            lane.height
        );
        for (line, text) in lane.names.iter().enumerate() {
            let y = lane.top + 19.0 + 15.0 * line as f64;
            let class = if line == 0 { "name" } else { "small" };
            let _ = writeln!(svg, "<text class=\"{class}\" x=\"16\" y=\"{y:.1}\">{}</text>", escape(text));
        }
    }
    for tick in &layout.ticks {
        let _ = writeln!(
            svg,
            "<path class=\"tick\" d=\"M{x:.1} 52V{:.1}\"/><text class=\"small\" text-anchor=\"middle\" x=\"{x:.1}\" \
             y=\"46\">{}</text>",
            layout.height,
            tick.label,
            x = tick.x
        );
    }
}

fn draw_bar(svg: &mut String, history: &History, bar: &Bar) {
    let class = match history.txn(bar.txn).outcome {
        _ if is_aborted(history, bar) => " aborted",
        Outcome::Unknown => " unknown",
        _ => "",
    };
    let _ = writeln!(
        svg,
        "<rect class=\"bar{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"5\"/>",
        bar.left, bar.top, bar.width, bar.height
    );
    if let Some(x) = bar.speculated_at {
        let (top, bottom) = (bar.top, bar.top + bar.height);
        let _ = writeln!(svg, "<path class=\"spec\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>");
    }
}

fn draw_bar_text(svg: &mut String, history: &History, bar: &Bar) {
    let ground = if is_aborted(history, bar) { " aborted-text" } else { "" };
    for (line, text) in bar.lines.iter().enumerate() {
        let (x, y) = (bar.left + 8.0, bar.top + 17.0 + 15.0 * line as f64);
        let class = if line == 0 { " name" } else { "" };
        let text = escape(text);
        let _ =
            writeln!(svg, "<text class=\"on-top{ground}{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }
}

fn is_aborted(history: &History, bar: &Bar) -> bool {
    let txn = history.txn(bar.txn);
    txn.outcome == Outcome::Aborted || txn.lost
}

fn draw_route(svg: &mut String, route: &Route) {
    let (kind, outline) = (route.kind.name(), outline(route));
    let _ = writeln!(svg, "<path class=\"arrow {kind}\" marker-end=\"url(#{kind})\" d=\"{outline}\"/>");
}

fn outline(route: &Route) -> String {
    let [(x1, y1), (x2, y2), (x3, y3), (x4, y4)] = route.curve;
    format!("M{x1:.1} {y1:.1}C{x2:.1} {y2:.1} {x3:.1} {y3:.1} {x4:.1} {y4:.1}")
}

/// The meanings of the kinds of edges in a picture.
fn legend_entries(edges: &[AnomalyEdge]) -> Vec<(&'static str, &'static str)> {
    let mut kinds: Vec<DependencyKind> = edges.iter().map(|edge| edge.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let meaning = |kind| match kind {
        DependencyKind::ReadsFrom => "the second read what the first wrote",
        DependencyKind::WriteOrder => "the second wrote after what the first wrote",
        DependencyKind::AntiDependency => "the first did not see what the second wrote",
        DependencyKind::SessionOrder => "in one session, the first completed before the second began",
        DependencyKind::RealTime => "the first completed before the second began",
        DependencyKind::SiteOrder => "at one site, the first completed before the second began",
        DependencyKind::Shown => {
            "at one site, the first was shown before the second began, which touches its key"
        }
        DependencyKind::Snapshot => "at the site of both, the second saw all that the first had seen",
        DependencyKind::LocalCommit => "the second's snapshot holds the first, maybe as a local commit",
        DependencyKind::Ended => {
            "the first read a key and ended before the second began, which writes the key"
        }
    };
    kinds.into_iter().map(|kind| (kind.name(), meaning(kind))).collect()
}

/// Where an anomaly is no cycle, who of its transactions read from whom.
fn reads_among(history: &History, anomaly: &Anomaly) -> Vec<AnomalyEdge> {
    let find = |invoke: &u32| history.txns().binary_search_by_key(invoke, |txn| txn.invoke).ok();
    let txns: Vec<_> = anomaly.txns.iter().filter_map(find).map(|at| &history.txns()[at]).collect();
    let mut writers: BTreeMap<(KeyId, Value), u32> = BTreeMap::new();
    for txn in &txns {
        for op in history.ops(txn) {
            writers.extend(op.action.written().map(|value| ((op.key, value), txn.invoke)));
        }
    }
    let mut edges = Vec::new();
    for reader in &txns {
        for op in history.ops(reader) {
            let values: &[Value] = match &op.action {
                Action::Read(Seen::Register(value)) => std::slice::from_ref(value),
                Action::Read(Seen::List(list)) => history.list(op.key, *list),
                _ => &[],
            };
            for value in values {
                let writer =
                    writers.get(&(op.key, *value)).copied().filter(|&writer| writer != reader.invoke);
                let edge = writer.map(|from| AnomalyEdge {
                    from,
                    to: reader.invoke,
                    kind: DependencyKind::ReadsFrom,
                    key: Some(history.key(op.key).to_string()),
                });
                edges.extend(edge.filter(|edge| !edges.contains(edge)));
            }
        }
    }
    edges
}

/// The text in the bar of a transaction: its name and outcome, and its operations.
fn bar_lines(history: &History, id: TxnId) -> Vec<String> {
    let txn = history.txn(id);
    let outcome = match (txn.outcome, txn.completion) {
        (Outcome::Committed, _) if txn.lost => " lost",
        (Outcome::Committed, _) => "",
        (Outcome::Aborted, _) => " aborted",
        (Outcome::Unknown, Some(_)) => " unknown outcome",
        (Outcome::Unknown, None) => " still open",
    };
    let ops = history.ops(txn).iter().map(|op| {
        let key = history.key(op.key);
        match op.action {
            Action::Append(value) => format!("append {key} {value}"),
            Action::Write(value) => format!("write {key} {value}"),
            Action::Add(element) => format!("add {key} {}", history.element(element)),
            Action::Remove(element) => format!("remove {key} {}", history.element(element)),
            Action::Read(seen) => format!("read {key}{}", seen_text(history, op.key, seen)),
        }
    });
    std::iter::once(format!("T{}{outcome}", txn.invoke)).chain(ops).collect()
}

fn seen_text(history: &History, key: KeyId, seen: Seen) -> String {
    match seen {
        Seen::Nothing => String::new(),
        Seen::Initial => " → initial".to_string(),
        Seen::Register(value) => format!(" → {value}"),
        Seen::List(list) => {
            let values = history.list(key, list);
            let shown = values.iter().skip(values.len().saturating_sub(LIST_VALUES_MAX));
            let shown = shown.map(Value::to_string).collect::<Vec<_>>().join(", ");
            let dots = if values.len() > LIST_VALUES_MAX { "…, " } else { "" };
            format!(" → [{dots}{shown}]")
        }
        Seen::Set(set) => {
            let counts = history.set(set);
            let shown = counts
                .iter()
                .take(LIST_VALUES_MAX)
                .map(|&(element, count)| format!("{}×{count}", history.element(element)));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let dots = if counts.len() > LIST_VALUES_MAX { ", …" } else { "" };
            format!(" → {{{shown}{dots}}}")
        }
    }
}

/// Text as it may stand in XML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML knows no other control characters, and a line break would not show.
            character if character.is_control() => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Level, MicroOp, Observed, Recorder, check};

    /// A cycle of anti-dependencies: each transaction misses the append of the next one.
    fn ring(txns: u64, key: impl Fn(u64) -> String) -> History {
        let mut recorder = Recorder::new();
        let open: Vec<_> = (0..txns).map(|at| recorder.invoke(at, at as i64 * 700)).collect();
        for (at, &txn) in (0..).zip(&open) {
            recorder.site(txn, format!("<{}>", at % 3));
            let read = MicroOp::Read(key(at).into(), Observed::Null);
            let append = MicroOp::Append(key((at + txns - 1) % txns).into(), at as i64);
            recorder.ok(txn, 1_000_000 + at as i64, vec![read, append]);
        }
        let last = recorder.invoke(txns, 2_000_000);
        let all =
            (0..txns).map(|at| MicroOp::Read(key(at).into(), Observed::List(vec![((at + 1) % txns) as i64])));
        recorder.ok(last, 2_000_000, all.collect());
        recorder.into_history().unwrap()
    }

    fn drawn(history: &History) -> (Anomaly, String) {
        let anomaly = check(history, Level::Serializable).anomalies.remove(0);
        let svg = picture(history, &anomaly, "a \"title\" & more");
        (anomaly, svg)
    }

    /// Panics unless tags are balanced and no character stands where XML forbids it.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some(start) = rest.find('<') {
            let (text, tag) = rest.split_at(start);
            assert!(!text.contains('>'), "{text}");
            for entity in text.split('&').skip(1) {
                assert!(
                    ["amp;", "lt;", "gt;", "quot;"].iter().any(|name| entity.starts_with(name)),
                    "{text}"
                );
            }
            let (tag, after) = tag[1..].split_once('>').expect("a tag ends");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap_or(tag));
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            rest = after;
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
        assert!(svg.chars().all(|character| character == '\n' || !character.is_control()));
    }

    #[test]
    fn every_transaction_and_every_edge_is_drawn() {
        for txns in [2, 3, 12] {
            let history = ring(txns, |at| format!("k{at}"));
            let (anomaly, svg) = drawn(&history);
            assert_well_formed(&svg);
            assert_eq!(anomaly.edges.len(), txns as usize);
            assert_eq!(svg.matches("class=\"bar").count(), txns as usize);
            assert_eq!(
                svg.matches("class=\"arrow rw\" marker-end").count(),
                txns as usize + 1,
                "and the legend's"
            );
            for at in 0..txns {
                assert!(svg.contains(&format!(">T{at}</text>")), "{at}");
                assert!(svg.contains(&format!(">rw k{at}</text>")), "{at}");
            }
            assert!(svg.contains(">site &lt;0&gt;</text>"));
        }
    }

    #[test]
    fn whatever_a_key_is_called_the_picture_is_xml() {
        let name = |at: u64| format!("</text>&\"{at}'\u{1}\n\u{ffff} {}", "w".repeat(100));
        let (_, svg) = drawn(&ring(2, name));
        assert_well_formed(&svg);
        assert!(svg.contains("rw &lt;/text&gt;&amp;"));
    }

    #[test]
    fn bars_keep_apart_and_labels_keep_off_them() {
        for txns in [2, 5, 12] {
            let history = ring(txns, |at| format!("key-{at}"));
            let (anomaly, _) = drawn(&history);
            let (layout, routes) = arranged(&history, &anomaly.txns, &anomaly.edges);
            for (at, one) in layout.bars.iter().enumerate() {
                assert!(one.left > 0.0 && one.left + one.width < layout.width);
                assert!(one.top + one.height < layout.height);
                let text = one.lines.iter().map(|line| line.chars().count()).max().unwrap();
                assert!(one.width > 7.0 * text as f64, "the text fits");
                for other in &layout.bars[at + 1..] {
                    let apart = one.left + one.width <= other.left || other.left + other.width <= one.left;
                    assert!(one.lane != other.lane || apart);
                }
            }
            assert!(routes.is_clear, "{txns}");
            for route in &routes.all {
                let (left, top, right, bottom) = route.label_area();
                let covers = |bar: &Bar| {
                    bar.left < right
                        && left < bar.left + bar.width
                        && bar.top < bottom
                        && top < bar.top + bar.height
                };
                assert!(!layout.bars.iter().any(covers), "{txns} {}", route.label);
            }
        }
    }

    /// The numbers of a text, in order.
    fn numbers(text: &str) -> Vec<f64> {
        let parts = text.split(|character: char| !character.is_ascii_digit() && !".-".contains(character));
        parts.filter_map(|part| part.parse().ok()).collect()
    }

    /// The value of an attribute of a tag.
    fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
        tag.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default()
    }

    /// The arrows and labels are taken from the picture itself, so whatever draws them is held to it.
    #[test]
    fn no_arrow_goes_through_a_label_and_no_label_through_another() {
        for txns in [2, 3, 5, 12] {
            let (_, svg) = drawn(&ring(txns, |at| format!("key-{at}")));
            let outlines = svg.lines().filter(|line| line.starts_with("<path class=\"arrow"));
            let curves: Vec<Vec<f64>> =
                outlines.map(|line| numbers(attribute(line, "d"))).filter(|curve| curve.len() == 8).collect();
            assert_eq!(curves.len(), 2 * txns as usize, "each once more, faintly");
            let mut labels: Vec<[f64; 4]> = Vec::new();
            for line in svg.lines().filter(|line| line.starts_with("<text class=\"label")) {
                let text = line.split('>').nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default();
                let half = CHARACTER * text.chars().count() as f64 / 2.0;
                let [x, y] = ["x", "y"].map(|name| numbers(attribute(line, name))[0]);
                let area = [x - half, y - 9.0, x + half, y + 3.0];
                for curve in &curves {
                    for at in (0..=500).map(|at| f64::from(at) / 500.0) {
                        let weights = [
                            (1.0 - at).powi(3),
                            3.0 * (1.0 - at).powi(2) * at,
                            3.0 * (1.0 - at) * at.powi(2),
                            at.powi(3),
                        ];
                        let of =
                            |axis: usize| (0..4).map(|point| weights[point] * curve[2 * point + axis]).sum();
                        let (px, py): (f64, f64) = (of(0), of(1));
                        let is_inside = area[0] < px && px < area[2] && area[1] < py && py < area[3];
                        assert!(!is_inside, "an arrow of {txns} goes through {text}: {px} {py} in {area:?}");
                    }
                }
                let covers = |other: &[f64; 4]| {
                    area[0] < other[2] && other[0] < area[2] && area[1] < other[3] && other[1] < area[3]
                };
                assert!(!labels.iter().any(covers), "{text} covers another label of {txns}");
                labels.push(area);
            }
            assert_eq!(labels.len(), txns as usize);
        }
    }

    /// The title and the legend may be wider than the lanes, and arrows and labels may reach below these.
    #[test]
    fn the_picture_holds_all_that_is_drawn() {
        let history = ring(2, |at| format!("k{at}"));
        let anomaly = check(&history, Level::Serializable).anomalies.remove(0);
        let title = "a title that is far longer than lanes with two short transactions are wide, and then some more of it";
        let svg = picture(&history, &anomaly, title);
        let width = numbers(attribute(&svg, "width"))[0];
        assert!(width > 8.0 * title.len() as f64, "{width}");
        let legend = svg.lines().find(|line| line.contains("M14 ")).unwrap();
        let legend_top = numbers(attribute(legend, "d"))[1];
        let outlines = svg.lines().filter(|line| line.starts_with("<path class=\"arrow"));
        let curves = outlines.map(|line| numbers(attribute(line, "d"))).filter(|curve| curve.len() == 8);
        for curve in curves {
            assert!(curve[1].max(curve[7]) < legend_top, "{curve:?} reaches the legend at {legend_top}");
        }
    }

    #[test]
    fn every_kind_of_edge_has_a_colour_in_light_and_in_dark() {
        for kind in EDGE_KINDS {
            for class in [format!(".{kind}"), format!(".{kind}-ink")] {
                let styled = [",", "{"].map(|end| STYLE.matches(&format!("{class}{end}")).count());
                assert_eq!(styled.iter().sum::<usize>(), 2, "{class}");
            }
        }
    }

    #[test]
    fn anomalies_without_a_cycle_show_who_read_from_whom() {
        let mut recorder = Recorder::new();
        let writer = recorder.invoke(0, 0);
        recorder.attempt(writer, MicroOp::Write("x".into(), 1));
        recorder.fail(writer, 1);
        let reader = recorder.invoke(1, 2);
        recorder.ok(reader, 3, vec![MicroOp::Read("x".into(), Observed::Register(1))]);
        let history = recorder.into_history().unwrap();
        let (anomaly, svg) = drawn(&history);
        assert!(anomaly.edges.is_empty());
        assert!(svg.contains(">T0 aborted</text>") && svg.contains("class=\"bar aborted\""), "{svg}");
        assert!(svg.contains(">wr x</text>"));
    }
}
