//! Finds walks over hash tables whose order nobody has restored.
//!
//! The tables of `quorate_core::hash` have a fixed seed, so a walk repeats; but its order is an accident that an upgrade
//! of a library may change, and with it the trace of every seed. This is a reading of text and not of types: it knows
//! the fields and variables that a file declares as `FixedMap` or `FixedSet`, looks for walks over them, and is content
//! if a sort or an ordered collection follows within a few lines, or if the order cannot matter and a comment that
//! begins with `Any order:` says why.

use crate::source::{File, code_only, has_word};

/// How many lines after a walk may restore the order.
const SORTED_WITHIN: usize = 18;

const WALKS: [&str; 11] = [
    "iter()",
    "iter_mut()",
    "into_iter()",
    "keys()",
    "into_keys()",
    "values()",
    "values_mut()",
    "into_values()",
    "drain()",
    "extract_if(",
    "retain(",
];

const ORDERLESS: [&str; 12] = [
    ".sort", "BTreeMap", "BTreeSet", ".sum()", ".sum::<", ".count()", ".all(", ".any(", ".min()", ".max()",
    ".min_by", ".max_by",
];

pub(crate) fn complaints(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let code: Vec<&str> = code.lines().collect();
    let text: Vec<&str> = file.text.lines().collect();
    let tables = declared(&code);
    let mut complaints = Vec::new();
    for (index, line) in code.iter().enumerate() {
        let Some(table) = tables.iter().find(|table| walks(line, table)) else { continue };
        let is_sorted = code[index..code.len().min(index + SORTED_WITHIN)]
            .iter()
            .any(|line| ORDERLESS.iter().any(|word| line.contains(word)));
        let is_explained =
            text[index.saturating_sub(3)..=index].iter().any(|line| line.contains("// Any order:"));
        if !is_sorted && !is_explained {
            complaints.push(format!(
                "{}: walks {table} in hash order: sort what it finds, use a BTreeMap, or say `// Any order: why`",
                file.at(index)
            ));
        }
    }
    complaints
}

/// The names that the file declares as hash tables: `name: FixedMap<…>` and `name = FixedMap::…`.
fn declared<'a>(code: &[&'a str]) -> Vec<&'a str> {
    let mut tables = Vec::new();
    for line in code {
        for kind in ["FixedMap", "FixedSet"] {
            for (at, _) in line.match_indices(kind) {
                let before = line[..at].trim_end().trim_end_matches("&mut").trim_end_matches('&').trim_end();
                let Some(before) = before.strip_suffix(':').or_else(|| before.strip_suffix('=')) else {
                    continue;
                };
                let name =
                    before.trim_end().rsplit(|char: char| !char.is_alphanumeric() && char != '_').next();
                tables.extend(name.filter(|name| !name.is_empty()));
            }
        }
    }
    tables.sort_unstable();
    tables.dedup();
    tables
}

fn walks(line: &str, table: &str) -> bool {
    let by_method = WALKS.iter().any(|walk| {
        // A retain whose closure fits on its line changes nothing beside the table.
        let is_small = *walk == "retain(" && !line.trim_end().ends_with('{');
        !is_small && has_word(line, &format!("{table}.{walk}"))
    });
    let by_loop = line.trim_start().starts_with("for ")
        && line.split_once(" in ").is_some_and(|(_, walked)| {
            let walked = walked.trim_end().trim_end_matches('{').trim_end();
            let walked =
                walked.trim_start_matches('&').trim_start_matches("mut ").trim_start_matches("self.");
            walked == table
        });
    by_method || by_loop
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> usize {
        let text = format!("struct S {{ open: FixedMap<u64, u64> }}\nfn f(&mut self) {{\n{body}\n}}\n");
        complaints(&File { path: "x.rs".into(), text }).len()
    }

    #[test]
    fn walks_in_hash_order_are_found() {
        for body in [
            "for (id, _) in &self.open {\n    send(id);\n}",
            "for id in self.open.keys() {\n    send(id);\n}",
            "let all: Vec<_> = self.open.values().cloned().collect();",
            "self.open.retain(|id, _| {\n    send(id);\n    false\n});",
            "for (id, _) in self.open.drain() {}",
        ] {
            assert_eq!(found(body), 1, "{body}");
        }
    }

    #[test]
    fn walks_whose_order_cannot_matter_are_not() {
        for body in [
            "let mut ids: Vec<_> = self.open.keys().copied().collect();\nids.sort_unstable();",
            "let total: u64 = self.open.values().sum();",
            "// Any order: each entry is reset by itself.\nfor open in self.open.values_mut() {\n    *open = 0;\n}",
            "self.open.retain(|_, at| *at > floor);",
            "let one = self.open.get(&7);",
            "for id in self.reopened.keys() {}",
        ] {
            assert_eq!(found(body), 0, "{body}");
        }
    }
}
