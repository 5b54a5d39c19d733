//! The page: HTML that stands alone.
//!
//! | file | role |
//! |---|---|
//! | `figures` | the figures and tables of the papers |
//! | `benches` | benches, those that differ in the system alone side by side |
//! | `simulations` | what was simulated |
//! | `style.css` | how it looks, in light and in dark |

mod benches;
mod figures;
mod simulations;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::papers::PAPERS;
use crate::read::Results;

const STYLE: &str = include_str!("page/style.css");

/// Makes the page.
pub fn page(results: &Results) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Quorate: what was measured" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Quorate: what was measured" }
                    p {
                        "Every figure and table of the four papers with their numbers beside ours, benches on server processes with the systems that the papers \
                         compare with, and simulations. Numbers of papers are those that they print; nothing is read off a plot."
                    }
                    nav {
                        a href="#glance" { "At a glance" }
                        @for paper in &PAPERS {
                            a href=(format!("#{}", paper.name)) { (paper.isolation) }
                        }
                        a href="#benches" { "Benches" }
                        a href="#simulations" { "Simulations" }
                    }
                }
                main {
                    (figures::at_a_glance(results))
                    @for paper in &PAPERS {
                        (figures::paper(paper, results))
                    }
                    (benches::section(results))
                    (simulations::section(results))
                    (left_out(results))
                }
            }
        }
    };
    markup.into_string()
}

/// The files that are not shown.
fn left_out(results: &Results) -> Markup {
    html! {
        @if !results.left_out.is_empty() {
            section id="left-out" {
                h2 { "Left out" }
                ul {
                    @for (path, why) in &results.left_out {
                        li { code { (path.display()) } " " (why) }
                    }
                }
            }
        }
    }
}

/// A number for people: three digits that count, and groups of thousands.
fn number(number: f64) -> String {
    let size = number.abs();
    let digits = match size {
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ => 2,
    };
    let plain = format!("{number:.digits$}");
    let (whole, rest) = match plain.find('.') {
        Some(point) => plain.split_at(point),
        None => (&plain[..], ""),
    };
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => ("−", whole),
        None => ("", whole),
    };
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

/// A command that can be copied.
fn command(text: &str) -> Markup {
    html! { pre class="command" { code { (text) } } }
}

#[cfg(test)]
mod tests;
