//! Wrong use is exit code 2, with a message that helps; help is exit code 0.

use crate::run;

#[test]
fn wrong_use_is_told_and_exits_with_2() {
    let table: [(&[&str], &str); 36] = [
        (&[], "Usage"),
        (&["dance"], "dance"),
        (&["bench"], "WORKLOAD"),
        (&["bench", "tpcc-x"], "rmw, writes, retwis, ycsb-t, lists"),
        (&["bench", "rmw", "--clients", "0"], "at least 1"),
        (&["bench", "rmw", "--embedded", "--connect", "x:1"], "cannot be used with"),
        (&["bench", "rmw", "--embedded", "--replicas", "2"], "odd"),
        (&["bench", "rmw", "--zipf=-1"], "uniform"),
        (&["bench", "waltsocial", "--embedded", "--mix", "mix3"], "mix1, mix2"),
        (&["bench", "rmw", "--embedded", "--users", "20"], "--users"),
        (&["bench", "retwis-psi", "--embedded", "--isolation", "strict"], "parallel-snapshot"),
        (&["bench", "rmw", "--embedded", "--sites", "2"], "parallel-snapshot"),
        (&["bench", "retwis-psi", "--embedded", "--sites", "2", "--loaded", "3"], "--loaded"),
        (&["bench", "waltsocial", "--redis", "127.0.0.1:1"], "retwis-psi"),
        (&["bench", "hotspot", "--embedded", "--mix", "hot"], "high-local, low"),
        (&["bench", "hotspot", "--embedded", "--remote", "10"], "--shards"),
        (&["bench", "rmw", "--embedded", "--local-hot", "10"], "options of hotspot"),
        (&["bench", "rmw", "--embedded", "--think", "100"], "--think"),
        (&["bench", "rmw", "--embedded", "--updates", "5"], "options of rubis"),
        (&["bench", "rubis", "--embedded", "--mix", "A"], "--updates"),
        (&["bench", "counters", "--embedded", "--populate"], "rmw, writes"),
        (&["bench", "rubis", "--embedded", "--full-size"], "options of tpcc"),
        (&["keyspace", "create", "shop", "--isolation", "snapshot", "--variant", "str"], "str-external"),
        (&["sim", "--workload", "waltsocial"], "parallel-snapshot"),
        (&["sim", "--variant", "planet"], "--isolation snapshot"),
        (&["sim", "--isolation", "snapshot", "--order", "timestamps"], "--isolation strict"),
        (&["sim", "--order", "timestamps", "--plant", "T1"], "leave --order out"),
        (&["sim", "--isolation", "snapshot", "--variant", "str"], "str-internal"),
        (&["sim", "--seeds", "9..1"], "both ends"),
        (&["sim", "--share", "1/2"], "--crash-points or --plants"),
        (&["sim", "--plant", "T99"], "T21"),
        (&["sim", "--faults", "flood"], "loss"),
        (&["sim", "--seeds", "1..2", "--trace", "x"], "--seed"),
        (&["check", "/no/such/file", "--level", "serializable"], "/no/such/file"),
        (&["check", "x", "--level", "linear"], "strict-serializable"),
        (&["server"], "--config"),
    ];
    for (arguments, expected) in table {
        let run = run(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.err);
        assert!(run.err.contains(expected), "{arguments:?}: {}", run.err);
        assert_eq!(run.out, "", "{arguments:?}");
    }
}

#[test]
fn a_redis_that_does_not_answer_is_named() {
    let run = run(&["bench", "retwis-psi", "--redis", "127.0.0.1:1"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("no Redis answers at 127.0.0.1:1"), "{}", run.err);
}

#[test]
fn a_configuration_that_is_wrong_is_told_with_its_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "node = 0\nspeed = 3\n").unwrap();
    let run = run(&["server", "--config", file.path().to_str().unwrap()]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("line 2"), "{}", run.err);
}

#[test]
fn every_command_explains_itself_with_examples() {
    for command in ["demo", "dev", "server", "shell", "keyspace", "bench", "sim", "check"] {
        let run = run(&[command, "--help"]);
        assert_eq!(run.code, 0, "{command}");
        assert!(run.out.contains("Examples:"), "{command}: {}", run.out);
    }
}

#[test]
fn help_fits_80_columns_where_there_is_no_terminal() {
    let help = run(&["bench", "--help"]).out;
    let options = help.split_once("Options:\n").unwrap().1.split_once("\n\n").unwrap().0;
    assert!(options.lines().count() > 40 && options.lines().all(|line| line.chars().count() <= 80), "{help}");
    assert!(help.contains("Examples:\n  quorate bench"), "{help}");
}

#[test]
fn the_example_configuration_is_printed() {
    let run = run(&["server", "--print-config"]);
    assert_eq!(run.code, 0);
    assert!(run.out.contains("data_directory") && run.out.contains("# "), "{}", run.out);
}

#[test]
fn lists_are_json_arrays_of_what_can_be_chosen() {
    for (arguments, id) in [
        (["sim", "--list-faults", "--json"], "clock-skew"),
        (["sim", "--list-plants", "--json"], "T21"),
        (["sim", "--list-systems", "--json"], "sinfonia"),
        (["bench", "--list", "--json"], "retwis"),
        (["bench", "--list", "--json"], "hotspot"),
        (["bench", "--list", "--json"], "tpcc"),
        (["bench", "--list", "--json"], "rubis"),
    ] {
        let run = run(&arguments);
        assert_eq!(run.code, 0);
        let list = run.json();
        let entry = list.as_array().unwrap().iter().find(|entry| entry["id"] == id).unwrap();
        assert!(!entry["what"].as_str().unwrap().is_empty());
    }
    let plants = run(&["sim", "--list-plants", "--json"]).json();
    assert_eq!(plants[0]["isolation"], "strict");
    assert!(plants[0]["section"].is_string());
}

#[test]
fn a_cluster_that_is_not_there_is_told_and_exits_with_1() {
    let run = run(&["keyspace", "list", "--connect", "127.0.0.1:1"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("127.0.0.1:1") && run.err.contains("check the address"), "{}", run.err);
    assert!(!run.err.contains("Error {") && !run.err.contains("Os {"), "{}", run.err);
}

#[test]
fn a_reader_that_goes_before_the_end_is_no_mistake() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = crate::quorate().args(["sim", "--list-plants", "--json"]).stdout(writer).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A pipe that nobody reads.
pub(crate) fn without_reader() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

#[test]
fn nothing_panics_where_nobody_reads_output_or_errors() {
    for arguments in [&["completions", "bash"][..], &["man"], &["sim", "--list-plants"]] {
        let output = crate::quorate().args(arguments).stdout(without_reader()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
    for (arguments, code) in [
        (&["completions", "bash"][..], 0),
        (&["keyspace", "list", "--connect", "127.0.0.1:1"], 1),
        (&["bench", "nothing-like-it"], 2),
    ] {
        let mut command = crate::quorate();
        let status =
            command.args(arguments).stdout(without_reader()).stderr(without_reader()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_standard_output_that_is_full_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = crate::quorate().args(["sim", "--list-faults"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot write to standard output"), "{said}");
}

#[test]
fn a_page_is_made_of_results_and_of_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().to_str().unwrap();
    let nothing = run(&["report", results]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("no results"), "{}", nothing.err);

    let simulated = run(&["sim", "--seeds", "1..1", "--faults", "none", "--json"]);
    std::fs::write(directory.path().join("sim.json"), &simulated.out).unwrap();
    let page = directory.path().join("page.html");
    let made = run(&["report", results, "--out", page.to_str().unwrap(), "--json"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!((made.json()["simulations"].as_u64(), made.json()["violations"].as_u64()), (Some(1), Some(0)));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("quorate sim --seeds 1..1 --faults none --json"), "{page}");
    assert_eq!(run(&["report", results]).out, page);

    std::fs::write(directory.path().join("bad.json"), "{").unwrap();
    let bad = run(&["report", results]);
    assert_eq!(bad.code, 2);
    assert!(bad.err.contains("bad.json"), "{}", bad.err);
}
