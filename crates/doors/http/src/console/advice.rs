//! Advice on problems, as the page for operators has it: its table is a part of the program, so that page and console say the same.

use std::cmp::Reverse;
use std::sync::LazyLock;

use serde::Serialize;

const PAGE: &str = include_str!("../../../../../docs/operations.md");

/// The table begins under this heading.
const HEADING: &str = "## What you see, what it means, what to do";

/// The meaning of a problem, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Advice {
    pub(super) meaning: String,
    pub(super) action: String,
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    /// The signs of the problem: any of these, each of which is a list of texts that all have to be there.
    seen: Vec<Vec<String>>,
    advice: Advice,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| rows(PAGE));

/// The advice on a problem in these words; none if the page says nothing of it.
pub(super) fn advice(problem: &str) -> Option<Advice> {
    let length = |texts: &Vec<String>| texts.iter().map(String::len).sum::<usize>();
    let matches = ROWS.iter().flat_map(|row| row.seen.iter().map(move |texts| (texts, &row.advice)));
    let found = matches.filter(|(texts, _)| texts.iter().all(|text| problem.contains(text.as_str())));
    // The longer the text, the more exactly it is about this; of two rows the first one counts.
    found.min_by_key(|(texts, _)| Reverse(length(texts))).map(|(_, advice)| advice.clone())
}

fn rows(page: &str) -> Vec<Row> {
    let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let section = page.split(HEADING).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [seen, meaning, action] = cells[..] else { return None };
            let seen = seen.split('`').skip(1).step_by(2).map(texts).filter(|texts| !texts.is_empty());
            let advice = Advice { meaning: plain(meaning, &headings), action: plain(action, &headings) };
            Some(Row { seen: seen.collect(), advice })
        })
        .collect()
}

/// The texts of something that is seen: numbers and names in it are only examples.
fn texts(seen: &str) -> Vec<String> {
    let words = seen.split('…').flat_map(|part| part.split(|character: char| character.is_ascii_digit()));
    // A name of a keyspace, in quotes.
    let words = words.flat_map(|part| part.split("\"accounts\"")).flat_map(|part| part.split("\"feed\""));
    let words = words.map(|text| text.trim_matches([' ', ',', ';', '.', ':'])).filter(|text| text.len() >= 4);
    words.map(str::to_owned).collect()
}

/// Text without marks, in which a link to another section is the name of that section.
fn plain(markdown: &str, headings: &[&str]) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        let link = after.split_once("](").and_then(|(name, link)| Some((name, link.split_once(')')?)));
        let Some((name, (target, behind))) = link else {
            text.push('[');
            rest = after;
            continue;
        };
        let anchor = target.strip_prefix('#').unwrap_or_default();
        match headings.iter().find(|heading| slug(heading) == anchor) {
            Some(heading) => text.push_str(&format!("see “{heading}” in docs/operations.md")),
            None => text.push_str(name),
        }
        rest = behind;
    }
    text.push_str(rest);
    text.replace('`', "").replace("**", "").replace('*', "")
}

/// The name by which a link finds a heading.
fn slug(heading: &str) -> String {
    let kept =
        heading.chars().filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_as_nodes_tell_them_have_advice() {
        for (problem, action) in [
            ("node 2 does not answer: it is not connected", "/live"),
            ("replica 1 of shard 4 (accounts) is recovering", "wait"),
            ("replica 1 of shard 4 (accounts) is view-changing", "look at the other nodes"),
            ("replica 1 of shard 4 (accounts) is lost", "More lost than the shard survives"),
            ("the clock of this node is 7.2 s ahead of those of most others: set it right", "Clocks"),
            ("the disk of node0 is nearly full", "make room"),
            ("the catalogue knows no keyspace \"shop\" with number 9", "nothing is deleted"),
            ("this node is fenced: rolled back to an older copy", "A node that has forgotten something"),
        ] {
            let advice = advice(problem).unwrap_or_else(|| panic!("{problem}: no advice"));
            assert!(advice.action.contains(action), "{problem}: {advice:?}");
            assert!(!advice.meaning.is_empty());
        }
        assert_eq!(advice("something that nobody has thought of"), None);
    }

    #[test]
    fn every_row_of_the_table_is_read_and_says_what_to_do() {
        let section = PAGE.split(HEADING).nth(1).unwrap().split("\n## ").next().unwrap();
        let lines = section.lines().filter(|line| line.starts_with("| ") && line.contains('`')).count();
        assert!(lines > 40, "{lines}");
        assert_eq!(ROWS.len(), lines);
        for row in ROWS.iter() {
            assert!(row.advice.action.chars().count() > 3 && !row.advice.action.contains("]("), "{row:?}");
        }
    }

    #[test]
    fn links_to_sections_become_their_names() {
        let headings = ["A lost disk", "Overload"];
        assert_eq!(
            plain("[below](#overload), **soon**", &headings),
            "see “Overload” in docs/operations.md, soon"
        );
        assert_eq!(plain("a [page](guide.md) [x", &headings), "a page [x");
    }
}
