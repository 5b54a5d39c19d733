//! Real server processes under all faults for a while: with proxies between them, and where the machine allows it in network namespaces,
//! which lose packets. Then every scripted attack, several at once.

use std::path::Path;

use crate::build::Quorate;
use crate::simulation;
use crate::stage::Outcome;

/// How long servers are tortured each time.
const SECONDS: &str = "12";

/// The isolations of the keyspace, with further options, of which a commit chooses one for the run with proxies. They are those whose servers share
/// least. In namespaces it is the first.
const RUNS: [(&str, &[&str]); 5] = [
    ("strict", &[]),
    ("serializable", &[]),
    ("snapshot", &[]),
    ("parallel-snapshot", &[]),
    ("serializable", &["--door", "redis"]),
];

pub(crate) fn run(root: &Path) -> Outcome {
    torture(root).into()
}

fn torture(root: &Path) -> Result<String, String> {
    let quorate = Quorate::built(root)?;
    let (isolation, options) = RUNS[simulation::share_of_commit(root) as usize % RUNS.len()];
    survive(&quorate, isolation, options)?;
    play(&quorate, &["torture", "--attack", "all"], "servers did not survive their attacks")?;
    let with_proxies = format!(
        "{SECONDS} s with proxies, {isolation}{}, as the commit has it; and attacks",
        spaced(options)
    );
    if !can_make_namespaces() {
        return Ok(format!("{with_proxies}; no network namespaces can be made here"));
    }
    survive(&quorate, RUNS[0].0, &["--namespaces"])?;
    Ok(format!("{with_proxies}; {SECONDS} s in network namespaces"))
}

fn spaced(options: &[&str]) -> String {
    options.iter().map(|option| format!(" {option}")).collect()
}

fn survive(quorate: &Quorate, isolation: &str, options: &[&str]) -> Result<(), String> {
    let arguments = ["torture", "--isolation", isolation, "--seconds", SECONDS];
    let failed = format!("servers did not survive their faults ({isolation} {options:?})");
    play(quorate, &[&arguments[..], options].concat(), &failed)
}

fn play(quorate: &Quorate, arguments: &[&str], failed: &str) -> Result<(), String> {
    let (text, success) = quorate.output(arguments)?;
    println!("{text}");
    if success { Ok(()) } else { Err(failed.to_owned()) }
}

/// Tries it, with a namespace that is removed at once.
fn can_make_namespaces() -> bool {
    let name = format!("quorate-check-{}", std::process::id());
    let ip = |action: &str| {
        let mut command = std::process::Command::new("ip");
        let done = command.args(["netns", action, &name]).stderr(std::process::Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    ip("add") && ip("del")
}
