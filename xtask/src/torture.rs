//! Real server processes under all faults for a while: with proxies between them, and where the machine allows it in network
//! namespaces, which lose packets.

use std::path::Path;

use crate::build::Quorate;
use crate::stage::Outcome;

/// How long each kind of network is tortured.
const SECONDS: &str = "30";

pub(crate) fn run(root: &Path) -> Outcome {
    torture(root).into()
}

fn torture(root: &Path) -> Result<String, String> {
    let quorate = Quorate::built(root)?;
    let arguments = ["torture", "--seconds", SECONDS];
    let (text, success) = quorate.output(&arguments)?;
    println!("{text}");
    if !success {
        return Err("real processes did not survive their faults".to_owned());
    }
    if !can_make_namespaces() {
        return Ok(format!("{SECONDS} s with proxies; no network namespaces can be made here"));
    }
    let (text, success) = quorate.output(&[&arguments[..], &["--namespaces"]].concat())?;
    println!("{text}");
    if !success {
        return Err("real processes did not survive their faults in network namespaces".to_owned());
    }
    Ok(format!("{SECONDS} s with proxies, {SECONDS} s in network namespaces"))
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
