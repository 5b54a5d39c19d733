//! The index of decisions, `docs/adr/README.md`: a row for each page, with a number of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FOLDER: &str = "docs/adr";
const INDEX: &str = "README.md";

/// A row of the index: `| [number](page) | title | decision | status |`.
struct Row<'a> {
    number: &'a str,
    page: &'a str,
    status: &'a str,
}

/// Says what the index and the pages disagree about.
///
/// # Errors
/// The folder or the index cannot be read.
pub(crate) fn complaints(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join(FOLDER);
    let failed = |error: std::io::Error| format!("{FOLDER}: {error}");
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        pages.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    pages.retain(|page| page != INDEX);
    pages.sort_unstable();
    let index = fs::read_to_string(folder.join(INDEX)).map_err(failed)?;
    Ok(disagreements(&pages, &index))
}

/// The number that the name of a page begins with.
fn number_of(page: &str) -> Option<&str> {
    let (number, _) = page.strip_suffix(".md")?.split_once('-')?;
    (number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// `[text](page)` in two.
fn link(cell: &str) -> Option<(&str, &str)> {
    cell.strip_prefix('[')?.strip_suffix(')')?.split_once("](")
}

fn row(line: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let [first, _, _, status] = cells[..] else { return None };
    let (number, page) = link(first)?;
    Some(Row { number, page, status })
}

fn disagreements(pages: &[String], index: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut numbers: BTreeMap<&str, &str> = BTreeMap::new();
    for page in pages {
        match number_of(page) {
            None => complaints.push(format!("{FOLDER}/{page}: a page is called `0123-what-was-decided.md`")),
            Some(number) => {
                if let Some(other) = numbers.insert(number, page) {
                    complaints.push(format!("{FOLDER}/{page}: {other} has the same number"));
                }
            }
        }
    }
    let is_page = |page: &str| pages.iter().any(|known| known == page);
    let rows: Vec<Row<'_>> = index.lines().filter_map(row).collect();
    for page in pages {
        match rows.iter().filter(|row| row.page == page).count() {
            0 => complaints.push(format!("{FOLDER}/{page}: no row of {INDEX} links to it")),
            1 => {}
            _ => complaints.push(format!("{FOLDER}/{page}: several rows of {INDEX} link to it")),
        }
    }
    for Row { number, page, status } in &rows {
        if !is_page(page) {
            complaints.push(format!("{FOLDER}/{INDEX}: {page} is not there"));
        } else if number_of(page) != Some(number) {
            complaints.push(format!("{FOLDER}/{INDEX}: {page} is called {number}"));
        }
        let successor = status.strip_prefix("superseded by ").and_then(link);
        if *status != "accepted" && !successor.is_some_and(|(_, page)| is_page(page)) {
            complaints.push(format!(
                "{FOLDER}/{INDEX}: {number} is `{status}`: say `accepted`, or `superseded by [0123](page)`"
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX_OF_TWO: &str = "\
| number | title | decision | status |
|---|---|---|---|
| [0001](0001-one.md) | One | Do it. | superseded by [0002](0002-two.md) |
| [0002](0002-two.md) | Two | Do it well. | accepted |
";

    fn found(pages: &[&str], index: &str) -> Vec<String> {
        let pages: Vec<String> = pages.iter().map(|page| (*page).to_owned()).collect();
        disagreements(&pages, index)
    }

    #[test]
    fn an_index_with_a_row_for_each_page_is_complete() {
        assert!(found(&["0001-one.md", "0002-two.md"], INDEX_OF_TWO).is_empty());
    }

    #[test]
    fn disagreements_as_a_table() {
        let table: [(&[&str], String, &str); 7] = [
            (
                &["0001-one.md", "0002-two.md", "0003-three.md"],
                INDEX_OF_TWO.to_owned(),
                "0003-three.md: no row",
            ),
            (
                &["0002-two.md"],
                INDEX_OF_TWO.replace("superseded by [0002](0002-two.md)", "accepted"),
                "0001-one.md is not there",
            ),
            (
                &["0001-one.md", "0002-two.md"],
                INDEX_OF_TWO.replace("[0001](", "[0003]("),
                "0001-one.md is called 0003",
            ),
            (&["0001-one.md", "0002-two.md"], INDEX_OF_TWO.replace("accepted", "draft"), "0002 is `draft`"),
            (
                &["0001-one.md", "0002-two.md"],
                INDEX_OF_TWO.replace("by [0002](0002-two.md)", "by [0003](0003-three.md)"),
                "0001 is `superseded",
            ),
            (&["0001-one.md", "0002-two.md"], INDEX_OF_TWO.repeat(2), "0001-one.md: several rows"),
            (
                &["0001-one.md", "0002-two.md", "notes.md"],
                format!("{INDEX_OF_TWO}| [notes](notes.md) | | | accepted |"),
                "notes.md: a page is called",
            ),
        ];
        for (pages, index, expected) in table {
            let found = found(pages, &index);
            assert!(found.iter().any(|complaint| complaint.contains(expected)), "{expected}: {found:?}");
        }
    }

    #[test]
    fn two_pages_do_not_share_a_number() {
        let index = format!("{INDEX_OF_TWO}| [0002](0002-too.md) | Too | Do it too. | accepted |");
        let found = found(&["0001-one.md", "0002-too.md", "0002-two.md"], &index);
        assert_eq!(found, ["docs/adr/0002-two.md: 0002-too.md has the same number"]);
    }
}
