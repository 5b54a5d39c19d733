//! The mutants of which it is argued that nobody could notice them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::catalogue::{Catalogue, read};

/// From the root of the repository.
pub(crate) const FILE: &str = "xtask/mutants/equivalent.txt";

/// Of each, the reason.
pub(crate) type Equivalent = BTreeMap<String, String>;

/// Reads the list.
///
/// # Errors
/// It has a line without a reason, or one of a mutant that there is no more.
pub(crate) fn read_list(root: &Path, catalogue: &Catalogue) -> Result<Equivalent, String> {
    parsed(&read(&root.join(FILE))?, catalogue)
}

/// A line names a mutant, says what it changes, and after `because` why that makes no difference.
fn parsed(text: &str, catalogue: &Catalogue) -> Result<Equivalent, String> {
    let mut equivalent = Equivalent::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = format!("{FILE}:{}", index + 1);
        let Some((id, rest)) = line.split_once(' ') else {
            return Err(format!("{at}: write `ID what because why`"));
        };
        let Some((_, reason)) = rest.split_once(" because ") else {
            return Err(format!("{at}: {id} has no reason: write `ID what because why`"));
        };
        if catalogue.mutants.iter().all(|mutant| mutant.id != id) {
            return Err(format!(
                "{at}: there is no mutant {id} any more: its function or its line has changed; remove the line"
            ));
        }
        if equivalent.insert(id.to_owned(), reason.to_owned()).is_some() {
            return Err(format!("{at}: {id} is listed twice"));
        }
    }
    Ok(equivalent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::TARGETS;

    #[test]
    fn the_list_names_mutants_that_there_are() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let catalogue = Catalogue::of(root).unwrap();
        read_list(root, &catalogue).unwrap();
    }

    #[test]
    fn entries_have_reasons_and_are_not_stale() {
        let mut catalogue = Catalogue::default();
        catalogue.add("x.rs".to_owned(), &TARGETS[0], "fn f(a: u8, b: u8) { g(a < b); }".to_owned()).unwrap();
        let id = &catalogue.mutants[0].id;
        assert_eq!(
            parsed(&format!("# why\n\n{id} f because a is never b\n"), &catalogue).unwrap()[id],
            "a is never b"
        );
        let table = [
            (format!("{id} f"), "has no reason"),
            ("0000000000 f because g".to_owned(), "there is no mutant 0000000000 any more"),
            (format!("{id} f because g\n{id} f because g"), "is listed twice"),
            (id.clone(), "write `ID what because why`"),
        ];
        for (text, expected) in table {
            let reason = parsed(&text, &catalogue).unwrap_err();
            assert!(reason.contains(expected) && reason.starts_with(FILE), "{reason}");
        }
    }
}
