//! Tables that are pleasant to read in a terminal.

use std::fmt;

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

    fn widths(&self) -> Vec<usize> {
        let column = |at: usize| {
            let cells = self.rows.iter().map(|row| width(&row[at]));
            cells.chain([width(&self.header[at].0)]).max().unwrap_or(0)
        };
        (0..self.header.len()).map(column).collect()
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let columns =
                cells.zip(&self.header).zip(&widths).map(|((cell, (_, align)), width)| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            format!("  {}", columns.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
        };
        writeln!(formatter, "{}", line(&mut self.header.iter().map(|(name, _)| name.as_str())))?;
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        write!(formatter, "  {}", rule.join("  "))?;
        for row in &self.rows {
            write!(formatter, "\n{}", line(&mut row.iter().map(String::as_str)))?;
        }
        Ok(())
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
        assert_eq!(table.to_string(), expected);
    }
}
