//! Tables that are pleasant to read in a terminal.

use std::fmt;
use std::io::IsTerminal;

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a header; each column is as wide as its widest cell.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    header: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows.
    pub(crate) fn new(header: &[(&str, Align)]) -> Self {
        let header = header.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect();
        Table { header, rows: Vec::new() }
    }

    /// Adds a row, with as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.header.len(), "a row has one cell per column");
        self.rows.push(cells);
    }

    /// The text, with no line longer than so many columns if the last column is text that can be cut at spaces.
    fn render(&self, columns: Option<usize>) -> String {
        let mut widths = self.widths();
        let limit = columns.and_then(|columns| self.room(&widths, columns));
        if let (Some(limit), Some(last)) = (limit, widths.last_mut()) {
            *last = limit;
        }
        let line = |cells: &[&str]| {
            let columns =
                cells.iter().zip(&self.header).zip(&widths).map(|((cell, (_, align)), width)| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            format!("  {}", columns.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
        };
        let mut lines = vec![line(&self.header.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())];
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        lines.push(format!("  {}", rule.join("  ")));
        for row in &self.rows {
            let mut cells: Vec<&str> = row.iter().map(String::as_str).collect();
            let Some(limit) = limit else {
                lines.push(line(&cells));
                continue;
            };
            let last = cells.pop().unwrap_or_default();
            for (number, part) in cut(last, limit).into_iter().enumerate() {
                if number > 0 {
                    cells.fill("");
                }
                lines.push(line(&[&cells[..], &[part]].concat()));
            }
        }
        lines.join("\n")
    }

    /// How wide the last column may be, if it is text and too wide for so many columns.
    fn room(&self, widths: &[usize], columns: usize) -> Option<usize> {
        const LEAST: usize = 16;
        let (last, others) = widths.split_last()?;
        let taken: usize = others.iter().map(|width| width + 2).sum::<usize>() + 2;
        let is_text = self.header.last().is_some_and(|(_, align)| *align == Align::Left);
        let room = columns.saturating_sub(taken);
        (is_text && taken + last > columns && room >= LEAST).then_some(room)
    }

    fn widths(&self) -> Vec<usize> {
        let column = |at: usize| {
            let cells = self.rows.iter().map(|row| width(&row[at]));
            cells.chain([width(&self.header[at].0)]).max().unwrap_or(0)
        };
        (0..self.header.len()).map(column).collect()
    }
}

/// How many columns standard output has, if it is a terminal.
pub(crate) fn terminal_columns() -> Option<usize> {
    let output = std::io::stdout();
    if !output.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(output).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// A text in parts of at most so many characters, cut at spaces where there are any.
fn cut(text: &str, limit: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while width(rest) > limit {
        let end = rest.char_indices().nth(limit).map_or(rest.len(), |(at, _)| at);
        // A space right behind the limit is as good.
        let behind = rest[end..].chars().next().map_or(end, |next| end + next.len_utf8());
        let (part, left) = match rest[..behind].rfind(' ').filter(|at| *at > 0) {
            Some(at) => (&rest[..at], rest[at..].trim_start()),
            None => rest.split_at(end),
        };
        parts.push(part);
        rest = left;
    }
    parts.push(rest);
    parts
}

fn width(text: &str) -> usize {
    text.chars().count()
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.render(terminal_columns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("name", Align::Left), ("p50", Align::Right)]);
        table.row(["strict".to_owned(), "340 µs".to_owned()]);
        table.row(["x".to_owned(), "9 µs".to_owned()]);
        let expected = "  name       p50\n  ──────  ──────\n  strict  340 µs\n  x         9 µs";
        assert_eq!(table.render(None), expected);
        assert_eq!(table.render(Some(10)), expected, "a column of numbers is not cut");
    }

    #[test]
    fn text_in_the_last_column_is_cut_at_spaces_to_fit_a_terminal() {
        let mut table = Table::new(&[("id", Align::Left), ("what", Align::Left)]);
        table.row(["T1".to_owned(), "a late prepare slips below a completed transaction".to_owned()]);
        table.row(["T2".to_owned(), "short".to_owned()]);
        let expected = "  \
id  what
  ──  ──────────────────────
  T1  a late prepare slips
      below a completed
      transaction
  T2  short";
        assert_eq!(table.render(Some(28)), expected);
        assert!(table.render(Some(28)).lines().all(|line| width(line) <= 28));
        assert!(table.render(Some(20)).lines().any(|line| width(line) > 20), "too narrow for a table");
        assert_eq!(table.render(Some(80)), table.render(None));
    }

    #[test]
    fn texts_are_cut_where_they_can_be() {
        assert_eq!(cut("ab cd ef", 5), ["ab cd", "ef"]);
        assert_eq!(cut("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(cut("größer ist es", 6), ["größer", "ist es"]);
        assert_eq!(cut("", 3), [""]);
    }
}
