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

    /// The text, with no line longer than so many columns: the last column is cut at spaces if it is text, and where that is not enough each row is written in
    /// lines of its own.
    fn render(&self, columns: Option<usize>) -> String {
        let mut widths = self.widths();
        let limit = columns.and_then(|columns| self.room(&widths, columns));
        let is_too_wide = |columns: &usize| limit.is_none() && total(&widths) > *columns;
        if let Some(columns) = columns.filter(is_too_wide).filter(|_| !self.rows.is_empty()) {
            return self.render_rows(columns);
        }
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
        lines.push(format!("  {}", rule.join("  ")).trim_end().to_owned());
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

    /// Each row as lines of a name and a cell, without empty cells, and an empty line between rows.
    fn render_rows(&self, columns: usize) -> String {
        /// A cell is at least so wide.
        const LEAST: usize = 8;
        let names = self.header.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
        let room = columns.saturating_sub(names + 4).max(LEAST);
        let one = |row: &Vec<String>| {
            let cells = self.header.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
            let lines = cells.flat_map(|((name, _), cell)| {
                let line = |(number, part): (usize, &str)| {
                    let name = if number == 0 { name.as_str() } else { "" };
                    format!("  {name:<names$}  {part}")
                };
                cut(cell, room).into_iter().enumerate().map(line).collect::<Vec<_>>()
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        self.rows.iter().map(one).collect::<Vec<_>>().join("\n\n")
    }

    /// How wide the last column may be, if it is text and too wide for so many columns.
    fn room(&self, widths: &[usize], columns: usize) -> Option<usize> {
        const LEAST: usize = 16;
        let (last, others) = widths.split_last()?;
        let taken = total(others) + 2;
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

/// How wide columns of these widths are together. An empty last column takes no room.
fn total(widths: &[usize]) -> usize {
    widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum()
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
        assert_eq!(table.render(Some(16)), expected);
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
        let rows = "  \
id    T1
  what  a late
        prepare slips
        below a
        completed
        transaction

  id    T2
  what  short";
        assert_eq!(table.render(Some(21)), rows, "too narrow for a table");
        assert_eq!(table.render(Some(80)), table.render(None));
    }

    #[test]
    fn rows_that_do_not_fit_are_written_in_lines_of_their_own() {
        let mut table = Table::new(&[("level", Align::Left), ("anomalies", Align::Right), ("", Align::Left)]);
        table.row(["strict-serializable".to_owned(), "1".to_owned(), "a lost update of one key".to_owned()]);
        table.row(["serializable".to_owned(), "0".to_owned(), String::new()]);
        let rows = "  \
level      strict-serializable
  anomalies  1
             a lost update of
             one key

  level      serializable
  anomalies  0";
        assert_eq!(table.render(Some(32)), rows);
        for columns in 22..100 {
            let rendered = table.render(Some(columns));
            assert!(rendered.lines().all(|line| width(line) <= columns), "{columns}:\n{rendered}");
            let is_tidy = rendered.lines().all(|line| line.trim_end() == line);
            assert!(is_tidy, "{columns}:\n{rendered}");
        }
        let mut numbers = Table::new(&[("level", Align::Left), ("", Align::Left)]);
        numbers.row(["strict-serializable".to_owned(), String::new()]);
        assert_eq!(numbers.render(Some(21)).lines().count(), 3, "an empty column takes no room");
    }

    #[test]
    fn texts_are_cut_where_they_can_be() {
        assert_eq!(cut("ab cd ef", 5), ["ab cd", "ef"]);
        assert_eq!(cut("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(cut("größer ist es", 6), ["größer", "ist es"]);
        assert_eq!(cut("", 3), [""]);
    }
}
