//! The generator: from the text of a source file to its mutants.
//!
//! | file | role |
//! |---|---|
//! | [`site`] | what a site is, and what is written in its place |
//! | `walk` | finds the sites of functions |
//! | `expression` | which mutants an expression has |
//! | `skip` | what has no mutants |
//!
//! A site is a stretch of the text, an expression or a statement. It is replaced by a choice between what was there and its
//! mutants, made at run time by a number. Only one mutant is ever chosen, so mutants hold the original text of what is
//! inside of them, and the text grows by its depth and not by all combinations.

mod expression;
pub(crate) mod site;
mod skip;
mod walk;

#[cfg(test)]
mod tests;

pub(crate) use site::{Mutant, Rendered, Site, render};
pub(crate) use skip::modules_of_tests;

/// Finds the sites of a file, outer ones first.
///
/// # Errors
/// The text is no Rust.
pub(crate) fn sites(text: &str) -> Result<Vec<Site>, String> {
    let file = syn::parse_file(text).map_err(|error| {
        let at = error.span().start();
        format!("line {}: {error}", at.line)
    })?;
    Ok(site::merged(walk::sites(text, &file)))
}
