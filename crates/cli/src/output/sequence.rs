//! A transaction as a sequence diagram in a terminal: time runs down, each lane is a replica.

use quorate_http::trace::{Sequence, SequenceEvent};

/// The columns of the time before the first lane.
const TIME_COLUMNS: usize = 11;

/// A lane has at most so many columns,
const LANE_MAX: usize = 22;

/// and at least so many, however many there are.
const LANE_MIN: usize = 14;

/// Draws a sequence for a terminal of so many columns, if that is known. A failure is told in sentences, which stand behind the time.
pub(crate) fn draw(sequence: &Sequence, has_failed: bool, columns: Option<usize>) -> String {
    let lanes = sequence.participants.len();
    let room = columns
        .map_or(LANE_MAX, |columns| columns.saturating_sub(TIME_COLUMNS + LANE_MIN / 2) / lanes.max(1));
    let lane = room.clamp(LANE_MIN, LANE_MAX);
    let mut lines = Vec::new();
    let head = |text: &dyn Fn(usize) -> String, first: &str| {
        let mut line = format!("{}{first}", " ".repeat(TIME_COLUMNS));
        for at in 0..lanes {
            let column = TIME_COLUMNS + (at + 1) * lane;
            // Names stand over their lanes, as far as those before leave room.
            let name = cut(&text(at), lane - 1);
            let begin = column.saturating_sub(width(&name) / 2).max(width(&line) + 1);
            line = pad(line, begin) + &name;
        }
        line
    };
    lines.push(head(&|at| sequence.participants[at].replica.clone(), "coordinator"));
    let place = |at: usize| {
        let participant = &sequence.participants[at];
        format!("node {}, {}", participant.node, participant.site)
    };
    lines.push(head(&place, &sequence.coordinator));
    for event in &sequence.events {
        lines.push(row(event, lanes, lane));
    }
    let took = time(sequence.took_seconds);
    let Sequence { outcome, keyspace, isolation, .. } = sequence;
    let after = format!("after {} ({keyspace}, {isolation})", took.trim());
    lines.push(match has_failed {
        true => format!("\n{after}: {outcome}"),
        false => format!("\n{outcome} {after}"),
    });
    lines.join("\n")
}

/// A line of the diagram.
fn row(event: &SequenceEvent, lanes: usize, lane: usize) -> String {
    let mut cells: Vec<char> = vec![' '; lanes * lane + 1];
    (0..=lanes).for_each(|at| cells[at * lane] = '│');
    let label = match event.detail.as_str() {
        "" => event.name.clone(),
        detail => format!("{} {detail}", event.name),
    };
    let mut behind = String::new();
    match event.participant {
        None => write_at(&mut cells, 2, &label, &mut behind),
        Some(at) => {
            let end = (at + 1) * lane;
            cells[1..end].fill('─');
            let is_sent = event.kind == "sent";
            (cells[0], cells[end]) = if is_sent { ('├', '►') } else { ('◄', '┤') };
            let label = cut(&label, end - 4);
            write_at(&mut cells, 3, &format!(" {label} "), &mut behind);
        }
    }
    let line: String = cells.into_iter().collect();
    format!("{:>width$}  {line}{behind}", time(event.at_seconds), width = TIME_COLUMNS - 2)
        .trim_end()
        .to_owned()
}

/// Writes a text over the cells; the rest of a text that is too long goes behind the last one.
fn write_at(cells: &mut [char], from: usize, text: &str, behind: &mut String) {
    for (at, character) in text.chars().enumerate() {
        match cells.get_mut(from + at) {
            Some(cell) => *cell = character,
            None => behind.push(character),
        }
    }
}

fn time(seconds: f64) -> String {
    let millis = seconds * 1e3;
    if millis < 1_000.0 { format!("{millis:.2} ms") } else { format!("{:.2} s", millis / 1e3) }
}

fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

fn pad(mut line: String, columns: usize) -> String {
    let missing = columns.saturating_sub(width(&line));
    line.push_str(&" ".repeat(missing));
    line
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use quorate_http::trace::Participant;

    use super::*;

    fn sequence() -> Sequence {
        let participant = |index: u16, site: &str| Participant {
            replica: format!("shard1/r{index}"),
            node: index,
            site: site.to_owned(),
        };
        let event = |at_seconds, kind, participant, name: &str, detail: &str| SequenceEvent {
            at_seconds,
            kind,
            participant,
            name: name.to_owned(),
            detail: detail.to_owned(),
        };
        Sequence {
            keyspace: "accounts".to_owned(),
            isolation: "strict".to_owned(),
            coordinator: "us".to_owned(),
            outcome: "committed".to_owned(),
            took_seconds: 0.1112,
            participants: vec![participant(0, "us"), participant(1, "europe")],
            events: vec![
                event(0.0, "noted", None, "put alice 100", ""),
                event(0.0001, "sent", Some(0), "PREPARE", ""),
                event(0.0001, "sent", Some(1), "PREPARE", ""),
                event(0.1111, "received", Some(1), "VOTE", "OK"),
            ],
        }
    }

    #[test]
    fn time_runs_down_and_each_replica_has_a_lane() {
        let drawn = draw(&sequence(), false, Some(80));
        let rows: Vec<Vec<char>> = drawn.lines().map(|line| line.chars().collect()).collect();
        assert!(drawn.contains("├── PREPARE ─"), "{drawn}");
        for (row, at, mark) in [(2, 11, '│'), (3, 33, '►'), (4, 55, '►'), (5, 55, '┤'), (5, 11, '◄')]
        {
            assert_eq!(rows[row][at], mark, "row {row}:\n{drawn}");
        }
        assert!(drawn.contains("◄── VOTE OK ─"), "{drawn}");
        assert!(drawn.contains("node 1, europe"), "{drawn}");
        assert!(drawn.ends_with("committed after 111.20 ms (accounts, strict)"), "{drawn}");
        let failed = Sequence { outcome: "it was left open: end it".to_owned(), ..sequence() };
        let drawn = draw(&failed, true, Some(80));
        assert!(drawn.ends_with("\nafter 111.20 ms (accounts, strict): it was left open: end it"), "{drawn}");
    }

    #[test]
    fn lanes_are_narrow_where_there_are_many() {
        let mut wide = sequence();
        wide.participants = (0..9).map(|_| wide.participants[1].clone()).collect();
        let drawn = draw(&wide, false, Some(80));
        assert!(drawn.lines().all(|line| width(line) <= TIME_COLUMNS + 9 * LANE_MIN + 8), "{drawn}");
        let long = SequenceEvent { name: "x".repeat(300), ..sequence().events[1].clone() };
        assert!(width(&row(&long, 2, LANE_MIN)) < 60);
    }
}
