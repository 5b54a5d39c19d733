//! Rules that every picture keeps.

use super::*;
use crate::report::Headline;

fn report(what: &'static str, rows: Vec<Row>) -> Report {
    let headline =
        Headline { what: "x".to_owned(), paper: None, paper_range: None, ours: None, unit: "ms".into() };
    Report {
        name: "n".into(),
        what: what.into(),
        headline,
        x: Some("clients".into()),
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
    assert_eq!(svg.matches("class=\"hollow s1\"").count(), 1);
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
    assert!(svg.contains(&format!(" {:.1}V", PLOTS[0].height)));
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

/// The values of an attribute of the elements with this class, in the order of the picture.
fn attributes<'a>(svg: &'a str, class: &str, attribute: &str) -> Vec<&'a str> {
    let of_class = svg.split(class).skip(1);
    let begin = format!("{attribute}=\"");
    let value = |part: &'a str| part.split('>').next()?.split(begin.as_str()).nth(1)?.split('"').next();
    of_class.filter_map(value).collect()
}

#[test]
fn no_two_series_look_alike() {
    const MANY: usize = 32;
    let rows = (0..MANY).flat_map(|at| (0..2).map(move |x| (at, f64::from(x))));
    let rows = rows.map(|(at, x)| Row::exact(format!("series {at}"), x, "ms", at as f64));
    let svg = draw(&report("w", rows.collect()));
    let mut looks = std::collections::BTreeSet::new();
    for number in 0..MANY {
        let colour = number % COLOURS.len();
        assert!(looks.insert((colour, dashes(number).to_owned())), "the dashes of {number}");
        assert!(looks.insert((colour, shape(number, 0.0, 0.0))), "the shape of {number}");
        assert!(svg.contains(&format!("stroke-dasharray=\"{}\"", dashes(number))));
    }
}

#[test]
fn a_series_looks_the_same_in_all_panels_and_the_legend_names_it_once() {
    let of_panel = |panel: &'static str, series: &'static str| {
        (0..2).map(move |x| Row::exact(series, f64::from(x), "1/s", 5.0).in_panel(panel))
    };
    let rows = of_panel("low", "one").chain(of_panel("low", "two")).chain(of_panel("high", "two"));
    let svg = draw(&report("w", rows.collect()));
    for (text, times) in [
        (">one<title>", 1),
        (">two<title>", 1),
        ("\"name\"", 2),
        ("line s1\" points", 2),
        ("line s0\" points", 1),
    ] {
        assert_eq!(svg.matches(text).count(), times, "{text}");
    }
    let left = attributes(&svg, "<g ", "transform");
    assert!(left.len() == 2 && left[0] != left[1], "side by side: {left:?}");
}

#[test]
fn places_have_their_names_and_these_keep_apart() {
    let names = ["TAPIR", "txn-lock", "txn-occ", "span-lock", "a system with a long name", "qwstore"];
    for panels in [1, 3] {
        let mut rows = Vec::new();
        for panel in 0..panels {
            let row = |(x, name): (usize, &&'static str)| {
                Row::exact("read", x as f64, "ms", x as f64).in_panel(format!("panel {panel}")).at(*name)
            };
            rows.extend(names.iter().enumerate().map(row));
        }
        let rows: Vec<&Row> = rows.iter().collect();
        let plot = Plot { width: panel::width_needed(&rows).max(PLOTS[0].width), ..PLOTS[0] };
        let (svg, mut drawn) =
            (draw(&report("w", rows.iter().map(|row| (*row).clone()).collect())), String::new());
        assert!(!svg.contains("<polyline"), "no line goes from one system to the next");
        Panel::new("ms", None, rows.iter().take(names.len()).copied().collect(), &[], None, plot)
            .draw(&mut drawn, true);
        let texts = drawn.lines().filter(|line| line.contains("text-anchor=\"middle\""));
        let mut boxes: Vec<(String, f64, f64)> = Vec::new();
        for line in texts {
            let text = line.split('>').nth(1).unwrap().split('<').next().unwrap();
            let (x, y, half) = (numbers(line, " x")[0], numbers(line, " y")[0], width_of(text, SIZE) / 2.0);
            let before = boxes.iter().rev().find(|(at, ..)| *at == format!("{y}"));
            assert!(before.is_none_or(|(_, _, end)| *end < x - half), "{text} covers its neighbour");
            assert!(0.0 <= x - half && x + half <= plot.width, "{text} leaves the plot");
            boxes.push((format!("{y}"), x - half, x + half));
        }
        for word in names.iter().flat_map(|name| name.split(' ')) {
            assert!(svg.contains(word), "{word}");
        }
    }
}

#[test]
fn the_axis_says_its_quantity() {
    let svg = draw(&report("w", vec![Row::exact("a", 1.0, "ms", 1.0), Row::exact("a", 2.0, "ms", 1.0)]));
    assert_eq!(svg.matches(">clients</text>").count(), 1);
    let svg = draw(&report("w", vec![Row::exact("a", 1.0, "ms", 1.0).at("Asia")]));
    assert!(!svg.contains(">clients</text>") && svg.contains(">Asia</text>"));
}

#[test]
fn a_row_that_is_no_number_is_not_drawn() {
    let rows = vec![
        Row::exact("a", 1.0, "ms", f64::NAN),
        Row::exact("b", 1.0, "ms", f64::INFINITY),
        Row::exact("c", 1.0, "ms", 2.0),
    ];
    let svg = draw(&report("w", rows));
    assert!(svg.contains(">c<title>") && !svg.contains(">a<title>") && !svg.contains(">b<title>"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn a_report_without_rows_is_a_picture_all_the_same() {
    let svg = draw(&report("w", Vec::new()));
    assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
}
