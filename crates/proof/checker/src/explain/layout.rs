//! Where lanes, bars and columns of a picture are.

use std::collections::BTreeSet;

use crate::history::{History, Outcome, Session, Txn, TxnId};

/// The width of a character of the fixed-width font.
pub(super) const CHARACTER: f64 = 7.3;
const LINE: f64 = 15.0;
/// Lines of text in a bar; further ones are counted.
const LINES_MAX: usize = 8;
/// Characters of a line in a bar; the rest is cut off.
const CHARACTERS_MAX: usize = 44;
/// The least width of a column between two events.
const COLUMN_MIN: f64 = 46.0;
/// The first lane begins here, below the title and the times.
const LANES_TOP: f64 = 58.0;

pub(super) struct Lane {
    pub(super) names: Vec<String>,
    pub(super) top: f64,
    pub(super) height: f64,
}

impl Lane {
    /// The area of its names: left, top, right, bottom.
    pub(super) fn names_area(&self) -> (f64, f64, f64, f64) {
        let longest = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        (16.0, self.top, 16.0 + CHARACTER * longest as f64, self.top + LINE * self.names.len() as f64 + 8.0)
    }
}

pub(super) struct Bar {
    pub(super) txn: TxnId,
    pub(super) invoke: u32,
    pub(super) lane: usize,
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) lines: Vec<String>,
    /// Where its speculative commit was shown.
    pub(super) speculated_at: Option<f64>,
}

pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) label: String,
}

pub(super) struct Layout {
    pub(super) lanes: Vec<Lane>,
    pub(super) bars: Vec<Bar>,
    pub(super) ticks: Vec<Tick>,
    pub(super) width: f64,
    /// Where the lanes end.
    pub(super) height: f64,
}

/// The lanes are so far apart: farther if labels find no room between them that is free of arrows.
pub(super) const GAPS: [f64; 4] = [42.0, 56.0, 80.0, 120.0];

/// A transaction and the columns in which it begins and ends.
struct Span {
    txn: TxnId,
    lane: usize,
    from: usize,
    to: usize,
    speculated: Option<usize>,
    lines: Vec<String>,
}

/// Site, process, and session if it has a name.
type LaneKey = (Option<String>, u64, Option<String>);

impl Layout {
    /// Places the transactions with these `invoke` indices. The lanes are so far apart.
    pub(super) fn new(
        history: &History,
        invokes: &[u32],
        lines: &dyn Fn(TxnId) -> Vec<String>,
        gap: f64,
    ) -> Self {
        let find = |invoke: u32| history.txns().binary_search_by_key(&invoke, |txn| txn.invoke).ok();
        let invokes: BTreeSet<u32> = invokes.iter().copied().collect();
        let txns: Vec<TxnId> = invokes.into_iter().filter_map(find).map(|at| TxnId(at as u32)).collect();
        let lane_keys: BTreeSet<LaneKey> =
            txns.iter().map(|&txn| lane_key(history, history.txn(txn))).collect();
        let lane_keys: Vec<LaneKey> = lane_keys.into_iter().collect();
        let events = Events::new(history, &txns);
        let spans: Vec<Span> = txns
            .iter()
            .map(|&id| {
                let txn = history.txn(id);
                let key = lane_key(history, txn);
                Span {
                    txn: id,
                    lane: lane_keys.binary_search(&key).unwrap_or_default(),
                    from: events.column(txn.invoke),
                    to: end_of(txn).map_or(events.indices.len(), |end| events.column(end)),
                    speculated: txn.speculation.map(|speculation| events.column(speculation.index)),
                    lines: clipped(lines(id)),
                }
            })
            .collect();
        let names: Vec<Vec<String>> = lane_keys.iter().map(lane_names).collect();
        let longest = names.iter().flatten().map(|name| name.chars().count()).max().unwrap_or(0);
        let columns = columns(&spans, events.indices.len(), 16.0 + CHARACTER * longest as f64 + 26.0);
        let lanes = lanes(names, &spans, gap);
        let bars: Vec<Bar> = spans.into_iter().map(|span| span.bar(history, &lanes, &columns)).collect();
        let height = lanes.last().map_or(LANES_TOP, |lane| lane.top + lane.height);
        let ticks = events.ticks(&columns);
        let width = columns.last().copied().unwrap_or_default() + 24.0;
        Layout { lanes, bars, ticks, width, height }
    }

    pub(super) fn bar(&self, invoke: u32) -> Option<&Bar> {
        self.bars.iter().find(|bar| bar.invoke == invoke)
    }
}

impl Span {
    fn bar(self, history: &History, lanes: &[Lane], columns: &[f64]) -> Bar {
        let (left, right) = (columns[self.from], columns[self.to]);
        Bar {
            txn: self.txn,
            invoke: history.txn(self.txn).invoke,
            lane: self.lane,
            left: left + 3.0,
            top: lanes[self.lane].top + 7.0,
            width: right - left - 6.0,
            height: bar_height(&self.lines),
            lines: self.lines,
            speculated_at: self.speculated.map(|column| columns[column]),
        }
    }
}

/// The events of the transactions: a column each.
struct Events {
    /// Their indices in the history, sorted, and their times where known.
    indices: Vec<(u32, Option<i64>)>,
}

impl Events {
    fn new(history: &History, txns: &[TxnId]) -> Self {
        let mut indices = Vec::new();
        for &id in txns {
            let txn = history.txn(id);
            indices.push((txn.invoke, Some(txn.invoked_at)));
            indices.extend(txn.speculation.map(|speculation| (speculation.index, None)));
            indices.extend(end_of(txn).map(|end| (end, Some(txn.completed_at))));
        }
        indices.sort_unstable();
        Events { indices }
    }

    fn column(&self, index: u32) -> usize {
        self.indices.partition_point(|&(other, _)| other < index)
    }

    fn ticks(&self, columns: &[f64]) -> Vec<Tick> {
        let start = self.indices.iter().find_map(|&(_, time)| time).unwrap_or_default();
        let ticks = self.indices.iter().zip(columns);
        let mut ticks: Vec<Tick> = ticks
            .filter_map(|(&(_, time), &x)| Some(Tick { x, label: since(time?.saturating_sub(start)) }))
            .collect();
        // Of labels that would run into one another only the first stays.
        let mut free_from = f64::MIN;
        for tick in &mut ticks {
            let half = tick.label.chars().count() as f64 * CHARACTER / 2.0;
            if tick.x - half < free_from {
                tick.label.clear();
            } else {
                free_from = tick.x + half + 6.0;
            }
        }
        ticks
    }
}

/// Where a bar ends: at the completion, unless the transaction may take effect later.
fn end_of(txn: &Txn) -> Option<u32> {
    txn.completion.filter(|_| txn.outcome != Outcome::Unknown)
}

/// A time in the unit that suits it.
fn since(nanoseconds: i64) -> String {
    let time = nanoseconds as f64;
    match nanoseconds {
        0 => "0".to_string(),
        1..=999 => format!("{nanoseconds} ns"),
        1_000..=999_999 => format!("{:.1} µs", time / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} ms", time / 1e6),
        _ => format!("{:.2} s", time / 1e9),
    }
}

fn lane_key(history: &History, txn: &Txn) -> LaneKey {
    let site = txn.site.map(|site| history.site_name(site).to_string());
    let session = matches!(txn.session, Session::Named(_)).then(|| history.session_name(txn.session));
    (site, txn.process, session)
}

fn lane_names((site, process, session): &LaneKey) -> Vec<String> {
    let process = format!("process {process}");
    let session = session.as_ref().map(|session| clip(&format!("session {session}"), 24));
    match site {
        Some(site) => [clip(&format!("site {site}"), 24), process].into_iter().chain(session).collect(),
        None => std::iter::once(process).chain(session).collect(),
    }
}

/// The left edges of the columns, and the right edge of the last one. Each bar gets the width of its text.
fn columns(spans: &[Span], count: usize, left: f64) -> Vec<f64> {
    let mut widths = vec![COLUMN_MIN; count];
    let mut by_end: Vec<&Span> = spans.iter().collect();
    by_end.sort_by_key(|span| (span.to, span.from));
    for span in by_end {
        let text = span.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let needed = CHARACTER * text as f64 + 24.0;
        let width: f64 = widths[span.from..span.to].iter().sum();
        if let Some(last) = widths[span.from..span.to].last_mut() {
            *last += (needed - width).max(0.0);
        }
    }
    let mut edges = vec![left];
    for width in widths {
        edges.push(edges[edges.len() - 1] + width);
    }
    edges
}

fn lanes(names: Vec<Vec<String>>, spans: &[Span], gap: f64) -> Vec<Lane> {
    let mut top = LANES_TOP;
    let mut lanes = Vec::new();
    for (at, names) in names.into_iter().enumerate() {
        let bars = spans.iter().filter(|span| span.lane == at).map(|span| bar_height(&span.lines));
        let name = LINE * names.len() as f64 + 10.0;
        let height = bars.fold(name, f64::max) + 14.0;
        lanes.push(Lane { names, top, height });
        top += height + gap;
    }
    lanes
}

fn bar_height(lines: &[String]) -> f64 {
    LINE * lines.len() as f64 + 10.0
}

/// As many lines and characters as a bar may have.
fn clipped(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES_MAX {
        let more = lines.len() - (LINES_MAX - 1);
        lines.truncate(LINES_MAX - 1);
        lines.push(format!("… and {more} more"));
    }
    lines.into_iter().map(|line| clip(&line, CHARACTERS_MAX)).collect()
}

fn clip(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_string();
    }
    text.chars().take(characters - 1).chain(['…']).collect()
}
