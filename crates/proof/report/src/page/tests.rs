//! Rules that the page keeps.

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::read::Found;
use crate::summary::Summary;

fn found<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Found<T> {
    Found { path: PathBuf::from("results/a&b.json"), result: serde_json::from_value(value).unwrap() }
}

fn bench(system: &str, throughput: f64) -> Found<crate::read::Bench> {
    let kind = if system == "strict" { "isolation" } else { "baseline" };
    found(json!({
        "workload": "rmw", kind: system, "clients": 64, "seconds": 2.0, "committed": 10, "abort_rate": 0.25, "throughput_tps": throughput,
        "latency_us": {"p50": 900.0, "p99": 2500.0, "p999": null}, "durability": "sync", "shards": 1, "replicas": 3,
    }))
}

fn results() -> Results {
    let mut results = Results::default();
    let report = json!({
        "name": "tapir-fig9", "what": "Peak <b>throughput</b>",
        "headline": {"what": "TAPIR ÷ OCC <script>", "paper": 3.0, "paper_range": null, "ours": 3.456, "unit": "×"},
        "rows": [{"series": "TAPIR & co", "x": 1.0, "paper": 2.0, "paper_range": null, "ours": 12345.6, "low": 1.0, "high": 2.0, "unit": "1/s"}],
        "bounds": [
            {"what": "ratio", "at_least": 2.0, "at_most": null, "ours": 3.4, "unit": "×", "met": true},
            {"what": "latency", "at_least": null, "at_most": 1.0, "ours": 3.4, "unit": "ms", "met": false},
        ],
        "deviations": ["processors are modelled"], "seed": 1, "quick": true,
    });
    results.experiments.insert("tapir-fig9".to_owned(), found(report));
    results.benches = vec![bench("txn-occ", 500.0), bench("strict", 2_000.0), bench("txn-lock", 1_000.0)];
    results.simulations = vec![found(json!({
        "command": "quorate sim --seeds 1..2", "seeds": 2, "violations": [{"seed": 7, "invariant": "I1"}], "simulated_seconds": 1.5,
        "committed": 3, "aborted": 1, "faults": {"loss": 4, "none-of-this": 0}, "trace_hash": "00ff",
    }))];
    results
}

#[test]
fn every_figure_of_every_paper_has_a_place() {
    for results in [results(), Results::default()] {
        let page = page(&results);
        for paper in &PAPERS {
            for name in paper.experiments() {
                assert_eq!(page.matches(&format!("id=\"{name}\"")).count(), 1, "{name}");
                assert!(page.contains(&format!("href=\"#{name}\"")), "{name}");
            }
            for figure in paper.figures {
                assert!(page.contains(figure.label) && page.contains(figure.subject), "{}", figure.label);
            }
        }
    }
}

#[test]
fn the_number_of_the_paper_stands_beside_ours() {
    let page = page(&results());
    for part in [
        "in the paper <strong>3 ×</strong>",
        "<strong>3.46 ×</strong>",
        "12,346",
        "1 of 2",
        "quick",
        "processors are modelled",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("not met: latency is 3.400 ms, at most 1 ms"));
}

#[test]
fn an_experiment_that_is_missing_says_how_it_is_measured() {
    assert!(page(&results()).contains("quorate experiment walter-fig16 --out results"));
}

#[test]
fn systems_of_one_measurement_are_compared_with_the_fastest_rival() {
    let page = page(&results());
    assert_eq!(page.matches("<h3>rmw, 64 in flight, 1 × 3 replicas, sync</h3>").count(), 1);
    let order = ["2,000", "1,000", "500"].map(|speed| page.find(&format!(">{speed}<")).unwrap());
    assert!(order.is_sorted(), "{order:?}");
    for part in ["2.00×", "1.00×", "0.50×", "--width:25.0%", "900 µs", "2.50 ms", "25.0 %"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_violation_is_shown_with_its_seed() {
    let page = page(&results());
    assert!(page.contains("1 violations") && page.contains("seed 7: I1"), "{page}");
    assert!(!page.contains("none-of-this"));
    assert_eq!(Summary::of(&results()).violations, 1);
}

#[test]
fn text_of_results_is_no_markup() {
    let page = page(&results());
    assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
    assert!(page.contains("TAPIR ÷ OCC &lt;script&gt;") && page.contains("a&amp;b.json"));
}

#[test]
fn the_page_asks_for_nothing_elsewhere() {
    let page = page(&results());
    for part in ["src=", "@import", "url(", "<link", "<script"] {
        assert!(!page.contains(part), "{part}");
    }
    // The name of the language of pictures is no address that is asked.
    assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/2000/svg").count());
}

#[test]
fn numbers_as_people_read_them() {
    let cases = [
        (0.0, "0.00"),
        (3.456, "3.46"),
        (12.34, "12.3"),
        (999.4, "999"),
        (1_234_567.8, "1,234,568"),
        (-1_500.0, "−1,500"),
        (-0.5, "−0.50"),
    ];
    for (amount, shown) in cases {
        assert_eq!(number(amount), shown);
    }
}

#[test]
fn the_summary_tells_what_is_there_and_what_is_missing() {
    let summary = Summary::of(&results());
    let figure = |label: &str| {
        summary.figures.iter().find(|figure| figure.paper == "tapir" && figure.figure == label).unwrap()
    };
    let nine = figure("Figure 9").experiment.as_ref().unwrap();
    assert!(nine.measured && nine.quick && (nine.met, nine.demanded) == (1, 2));
    assert_eq!((nine.ours, nine.paper), (Some(3.456), Some(3.0)));
    assert!(!figure("Figure 10").experiment.as_ref().unwrap().measured);
    assert_eq!(figure("Figure 4").kept_in, Some("docs/trace.md"));
    assert_eq!((summary.benches, summary.simulations), (3, 1));
}
