//! The figures and tables of the papers.

use maud::{Markup, PreEscaped, html};
use quorate_experiments::{Bound, Experiment, Report, Row, of_paper, svg};

use super::{command, number};
use crate::papers::{Figure, PAPERS, Paper, Place};
use crate::read::{Found, Results};

/// The one number of each figure, and that of the paper.
pub(super) fn at_a_glance(results: &Results) -> Markup {
    html! {
        section id="glance" {
            h2 { "At a glance" }
            div class="wide" { table {
                thead { tr {
                    th { "Figure" } th { "Subject" } th { "Number to remember" }
                    th class="number" { "Paper" } th class="number" { "Here" } th { "" } th { "Demands met" }
                } }
                @for paper in &PAPERS {
                    tbody {
                        tr class="group" { th colspan="7" { (paper.isolation) ": " (paper.title) } }
                        @for figure in paper.figures {
                            @if let Some(name) = figure.experiment() {
                                (glance(figure.label, figure.subject, name, results))
                            }
                        }
                        @for name in paper.beside {
                            (glance("beside", subject(name), name, results))
                        }
                    }
                }
            } }
        }
    }
}

fn glance(label: &str, subject: &str, name: &str, results: &Results) -> Markup {
    let report = results.experiments.get(name).map(|found| &found.result);
    html! {
        tr {
            td class="label" { a href=(format!("#{name}")) { (label) } }
            td { (subject) }
            @match report {
                Some(report) => {
                    td { (report.headline.what) @if report.quick { " " (quick()) } }
                    td class="number" { (of_paper(report.headline.paper, report.headline.paper_range).unwrap_or_else(|| "–".to_owned())) }
                    td class="number ours" { (ours(report)) }
                    td { (report.headline.unit) }
                    td { (demands(&report.bounds)) }
                }
                None => td colspan="5" class="missing" { "not among these results" }
            }
        }
    }
}

/// How many demands are met.
fn demands(bounds: &[Bound]) -> Markup {
    let met = bounds.iter().filter(|bound| bound.met).count();
    html! {
        @if bounds.is_empty() {
            span class="quiet" { "none" }
        } @else {
            span class=(if met == bounds.len() { "met" } else { "unmet" }) { (met) " of " (bounds.len()) }
        }
    }
}

fn quick() -> Markup {
    html! { span class="mark" title="a smaller run of the same shape, with fewer seeds" { "quick" } }
}

/// The subject of an experiment, in its own words.
fn subject(name: &str) -> &'static str {
    Experiment::named(name).map_or("", |experiment| experiment.what)
}

/// One paper: all its figures.
pub(super) fn paper(paper: &Paper, results: &Results) -> Markup {
    html! {
        section id=(paper.name) {
            h2 { (paper.title) }
            p class="quiet" { (paper.source) "; " code { (paper.isolation) } " keyspaces" }
            @for figure in paper.figures {
                @if let Place::Measured(name) = figure.place {
                    (measured(&format!("{}: {}", figure.label, figure.subject), name, results))
                }
            }
            @for name in paper.beside {
                (measured("Beside the figures", name, results))
            }
            (kept(paper))
        }
    }
}

/// The figures that show no measurement.
fn kept(paper: &Paper) -> Markup {
    let kept = |figure: &Figure| match figure.place {
        Place::Kept(files) => Some((figure.label, figure.subject, files)),
        Place::Measured(_) => None,
    };
    html! {
        details {
            summary { "Figures that show no measurement" }
            div class="wide" { table {
                thead { tr { th { "Figure" } th { "Subject" } th { "Here" } } }
                tbody {
                    @for (label, subject, files) in paper.figures.iter().filter_map(kept) {
                        tr { td class="label" { (label) } td { (subject) } td { code { (files) } } }
                    }
                }
            } }
        }
    }
}

/// One experiment.
fn measured(title: &str, name: &str, results: &Results) -> Markup {
    html! {
        article id=(name) {
            h3 { (title) }
            @match results.experiments.get(name) {
                Some(found) => (report(found)),
                None => {
                    p { (subject(name)) }
                    p class="missing" { "Not among these results. To measure it:" }
                    (command(&format!("quorate experiment {name} --out results")))
                }
            }
        }
    }
}

/// The number to remember, or a dash where it is none.
fn ours(report: &Report) -> String {
    report.headline.ours.map_or_else(|| "–".to_owned(), number)
}

fn report(found: &Found<Report>) -> Markup {
    let Report { name, headline, rows, bounds, deviations, seed, quick: is_quick, .. } = &found.result;
    html! {
        p class="headline" {
            (headline.what) ": " strong { (ours(&found.result)) " " (headline.unit) }
            @if let Some(paper) = of_paper(headline.paper, headline.paper_range) {
                ", in the paper " strong { (paper) " " (headline.unit) }
            }
            @if *is_quick { " " (quick()) }
        }
        figure class="wide" { (PreEscaped(svg::draw(&found.result))) }
        @if !bounds.is_empty() {
            h4 { "Demands" }
            ul class="demands" {
                @for bound in bounds {
                    li class=(if bound.met { "met" } else { "unmet" }) { (bound.to_string()) }
                }
            }
        }
        @if !deviations.is_empty() {
            h4 { "Where it differs from the paper" }
            ul { @for deviation in deviations { li { (deviation) } } }
        }
        details {
            summary { "All " (rows.len()) " numbers" }
            (table(rows))
        }
        (command(&format!("quorate experiment {name}{}", if *is_quick { " --quick" } else { "" })))
        p class="quiet" { "Seeds from " (seed) "; " code { (found.path.display()) } }
    }
}

fn table(rows: &[Row]) -> Markup {
    html! {
        div class="wide" { table {
            thead { tr {
                th { "Series" } th class="number" { "x" } th class="number" { "Paper" }
                th class="number" { "Here" } th class="number" { "Low" } th class="number" { "High" } th { "Unit" }
            } }
            tbody {
                @for row in rows {
                    tr {
                        td { (row.name()) }
                        td class="number" { (row.shown_place()) }
                        td class="number" { (of_paper(row.paper, row.paper_range).unwrap_or_default()) }
                        td class="number ours" { (number(row.ours)) }
                        td class="number" { (number(row.low)) }
                        td class="number" { (number(row.high)) }
                        td { (row.unit) }
                    }
                }
            }
        } }
    }
}
