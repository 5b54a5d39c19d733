//! Files that are read, and files that are refused.

use serde_json::json;
use tempfile::TempDir;

use super::*;

fn experiment(ours: f64) -> Value {
    json!({
        "name": "tapir-fig9", "what": "Peak throughput",
        "headline": {"what": "TAPIR ÷ OCC", "paper": 3.0, "paper_range": null, "ours": ours, "unit": "×"},
        "rows": [{"series": "TAPIR", "x": 1.0, "paper": null, "paper_range": null, "ours": ours, "low": 1.0, "high": 9.0, "unit": "1/s"}],
        "bounds": [{"what": "ratio", "at_least": 2.0, "at_most": null, "ours": ours, "unit": "×", "met": true}],
        "deviations": ["processors are modelled"], "seed": 1,
    })
}

fn bench() -> Value {
    json!({
        "workload": "rmw", "baseline": "txn-lock", "clients": 64, "seconds": 2.0, "committed": 10, "abort_rate": 0.5, "throughput_tps": 5.0,
        "latency_us": {"p50": 1, "p99": 2, "p999": 3}, "durability": "sync", "shards": 1, "replicas": 3, "mean_batch": 1.5,
    })
}

fn simulation() -> Value {
    json!({
        "seeds": 2, "violations": [{"seed": 7, "invariant": "I1", "level": "strict-serializable"}], "simulated_seconds": 1.5,
        "committed": 3, "aborted": 1, "faults": {"loss": 4}, "coverage": {}, "trace_hash": "00ff",
    })
}

fn put(directory: &TempDir, name: &str, text: &str) {
    fs::write(directory.path().join(name), text).unwrap();
}

fn read(directories: &[&TempDir]) -> Result<Results, Error> {
    let paths: Vec<PathBuf> = directories.iter().map(|directory| directory.path().to_owned()).collect();
    Results::read(&paths)
}

#[test]
fn each_kind_of_result_is_told_by_its_fields() {
    let directory = TempDir::new().unwrap();
    put(&directory, "a.json", &experiment(3.5).to_string());
    put(&directory, "b.json", &bench().to_string());
    put(&directory, "c.json", &simulation().to_string());
    put(&directory, "d.json", "[1]");
    put(&directory, "e.csv", "not JSON");
    let results = read(&[&directory]).unwrap();
    assert_eq!(results.experiments["tapir-fig9"].result.headline.ours, Some(3.5));
    assert!(!results.experiments["tapir-fig9"].result.quick, "earlier versions did not say so");
    assert_eq!(results.benches[0].result.system(), "txn-lock");
    assert_eq!(results.simulations[0].result.violations[0].seed, 7);
    assert_eq!(results.left_out.len(), 1);
    assert!(results.left_out[0].0.ends_with("d.json"));
    assert!(!results.is_empty());
}

#[test]
fn the_later_result_of_an_experiment_counts() {
    let (earlier, later) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    put(&earlier, "x.json", &experiment(1.0).to_string());
    put(&later, "x.json", &experiment(2.0).to_string());
    let results = read(&[&earlier, &later]).unwrap();
    assert_eq!(results.experiments["tapir-fig9"].result.headline.ours, Some(2.0));
    assert!(results.left_out[0].0.starts_with(earlier.path()), "{:?}", results.left_out);
}

#[test]
fn a_result_that_is_cut_off_or_lacks_a_field_is_refused_by_its_name() {
    let whole = experiment(1.0).to_string();
    for text in [
        "",
        "{",
        &whole[..whole.len() / 2],
        r#"{"workload":"rmw","throughput_tps":1}"#,
        r#"{"seeds":-1,"violations":[]}"#,
    ] {
        let directory = TempDir::new().unwrap();
        put(&directory, "bad.json", text);
        let error = read(&[&directory]).unwrap_err();
        assert!(matches!(error, Error::Malformed(..)), "{error}");
        assert!(error.to_string().contains("bad.json"), "{error}");
    }
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let error = Results::read(&[PathBuf::from("/nowhere/at/all")]).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[test]
fn a_file_that_is_larger_than_any_result_is_not_read() {
    let directory = TempDir::new().unwrap();
    let file = fs::File::create(directory.path().join("large.json")).unwrap();
    file.set_len(FILE_BYTES_MAX + 1).unwrap();
    assert!(matches!(read(&[&directory]), Err(Error::TooLarge(..))));
}
