//! Rules that every picture keeps.

use super::*;
use crate::report::Headline;

fn report(what: &'static str, rows: Vec<Row>) -> Report {
    let headline =
        Headline { what: "x".to_owned(), paper: None, paper_range: None, ours: 1.0, unit: "ms".into() };
    Report {
        name: "n".into(),
        what: what.into(),
        headline,
        rows,
        bounds: Vec::new(),
        deviations: Vec::new(),
        seed: 1,
        quick: false,
    }
}

/// The numbers of an attribute, in the order of the picture.
fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
    let begin = format!("{attribute}=\"");
    let parts = svg.split(begin.as_str()).skip(1);
    parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
}

#[test]
fn every_series_is_drawn_and_named_in_the_panel_of_its_unit() {
    let rows = vec![
        Row::new("a < b", 0.6, "ms", &[1.0, 2.0, 3.0]),
        Row::new("a < b", 0.9, "ms", &[4.0, 5.0, 6.0]),
        Row { paper: Some(90.0), ..Row::new("c", 0.9, "1/s", &[100.0, 110.0, 120.0]) },
    ];
    let svg = draw(&report("w & v", rows));
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert_eq!(svg.matches(">a &lt; b<title>").count(), 1);
    assert!(svg.contains("w &amp; v") && svg.contains("the number of the paper"));
    assert_eq!(svg.matches("class=\"hollow s0\"").count(), 1);
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
}

#[test]
fn a_title_of_any_length_stays_in_the_picture() {
    let what = "words that go on and on ".repeat(12).leak();
    let svg = draw(&report(what, vec![Row::new("a", 1.0, "ms", &[1.0; 3])]));
    let width = numbers(&svg, "width")[0];
    let titles = svg.split("class=\"title\"").skip(1);
    let titles: Vec<&str> = titles.filter_map(|part| part.split('>').nth(1)?.split('<').next()).collect();
    assert!(titles.len() > 2, "{titles:?}");
    assert!(titles.iter().all(|line| width_of(line, TITLE_SIZE * BOLD) <= width), "{titles:?}");
}

#[test]
fn an_interval_below_zero_ends_at_the_axis() {
    let row = Row { low: -5.0, high: 9.0, ..Row::new("a", 1.0, "ms", &[2.0; 3]) };
    let svg = draw(&report("w", vec![row]));
    assert!(
        svg.contains(&format!("M296.0 {PLOT_HEIGHT:.1}V")) || svg.contains(&format!(" {PLOT_HEIGHT:.1}V"))
    );
    assert!(!svg.contains(">-"), "no tick below zero: {svg}");
}

#[test]
fn series_that_coincide_stand_side_by_side() {
    let names = ["one", "two", "three", "four", "five", "six", "seven"];
    let rows = names.iter().flat_map(|name| (0..3).map(|x| Row::new(*name, f64::from(x), "ms", &[1.0; 3])));
    let svg = draw(&report("w", rows.collect()));
    let points: Vec<&str> =
        svg.split("points=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
    let distinct: std::collections::BTreeSet<&&str> = points.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{points:?}");
}

#[test]
fn a_report_without_rows_is_a_picture_all_the_same() {
    let svg = draw(&report("w", Vec::new()));
    assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
}
