//! The picture and the table of crates in `docs/architecture.md`, drawn from [`crate::crates`].

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::crates::{CRATES, Crate, Kind, LAYERS, Layer};

const PAGE: &str = "docs/architecture.md";
const BEGIN: &str = "<!-- `cargo xtask fix` draws from here -->\n";
const END: &str = "<!-- to here -->\n";

/// Says if the page shows other crates than there are.
///
/// # Errors
/// The page cannot be read, or has lost the place where they are drawn.
pub(crate) fn complaints(root: &Path) -> Result<Vec<String>, String> {
    let (page, drawn) = read(root)?;
    let stale = format!("{PAGE}: not what xtask/src/crates.rs says; run `cargo xtask fix`");
    Ok((page != drawn).then_some(stale).into_iter().collect())
}

/// Draws the crates into the page.
///
/// # Errors
/// As [`complaints`], or the page cannot be written.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let (page, drawn) = read(root)?;
    if page == drawn {
        return Ok(());
    }
    fs::write(root.join(PAGE), drawn).map_err(|error| format!("{PAGE}: {error}"))
}

/// The page as it is and as it should be.
fn read(root: &Path) -> Result<(String, String), String> {
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let drawn = redraw(&page).ok_or_else(|| format!("{PAGE}: the lines {BEGIN}and {END}are missing"))?;
    Ok((page, drawn))
}

fn redraw(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n{}\n{END}{after}", picture(), table()))
}

/// The layers from the binary down to the vocabulary, with a line below those that know an async runtime.
fn picture() -> String {
    let mut lines = vec!["```text".to_owned()];
    for (position, layer) in LAYERS.iter().enumerate().rev() {
        let crates: Vec<String> = members(position).map(label).collect();
        lines.push(format!("{:<14} {}", layer.name, crates.join("  ")));
        lines.push(format!("{:<14} ({})", "", layer.what));
    }
    lines.push("```".to_owned());
    lines.join("\n") + "\n"
}

/// How the picture names a crate: with a star if it may know an async runtime.
fn label(member: &Crate) -> String {
    let star = if member.kind == Kind::Host { "*" } else { "" };
    format!("{}{star}", short(member))
}

fn table() -> String {
    let mut text = String::from("| crate | package | promises | about |\n|---|---|---|---|\n");
    for (position, Layer { name, what }) in LAYERS.iter().enumerate() {
        if members(position).any(|member| short(member) != *name) {
            let _ = writeln!(text, "| **`{name}`** | | | *{what}* |");
        }
        for member in members(position) {
            let promises = match member.kind {
                Kind::Machine => "deterministic, wasm32",
                Kind::Deterministic => "deterministic",
                Kind::Pure => "no async runtime",
                Kind::Host => "",
            };
            let row =
                format!("| `{}` | `{}` | {promises} | {} |", short(member), member.package, member.what);
            text.push_str(&row);
            text.push('\n');
        }
    }
    text
}

fn members(layer: usize) -> impl Iterator<Item = &'static Crate> {
    CRATES.iter().filter(move |member| member.layer() == layer)
}

/// The name of its folder.
fn short(member: &Crate) -> &'static str {
    member.folder.rsplit('/').next().unwrap_or(member.folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_drawn_between_the_marks_and_nothing_else_changes() {
        let page = format!("before\n{BEGIN}yesterday\n{END}after\n");
        let drawn = redraw(&page).unwrap();
        assert!(
            drawn.starts_with("before\n") && drawn.ends_with("after\n") && !drawn.contains("yesterday"),
            "{drawn}"
        );
        assert_eq!(redraw(&drawn), Some(drawn.clone()));
        for known in &CRATES {
            assert!(drawn.contains(&format!("| `{}` |", known.package)), "{}", known.package);
        }
        assert_eq!(redraw("no marks"), None);
    }
}
