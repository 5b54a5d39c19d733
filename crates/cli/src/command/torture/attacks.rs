//! `quorate torture --attack`: scripted attacks, and what has come of them.

use quorate_torture::attacks::{self, ATTACKS, Attack, Attacked, Attacks, Ended};
use serde_json::{Map, Value, json};

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json, thousands};
use crate::runtime::{block_on, program, stop_signal};

/// How much of a trouble is printed.
const TROUBLE_CHARACTERS: usize = 800;

/// Plays attacks.
pub(super) fn run(attacks: &Attacks, seed: u64, keep: bool, json: bool) -> Outcome {
    let (program, progress) = (program()?, Progress::spinner());
    block_on(async {
        let tell = |attack: &Attack, scene: &str, ended: &Ended| {
            progress.say(format!("{} {scene}: {} after {:.1} s", attack.name, ended.word(), ended.seconds));
        };
        // If it is stopped, everything that it has started ends as it is dropped.
        let attacked = tokio::select! {
            signal = stop_signal() => return signal.and(Err(Failure::failed("stopped"))),
            attacked = attacks::run(attacks, &program, seed, keep, &tell) => attacked?,
        };
        drop(progress);
        let is_ok = attacked.iter().all(Attacked::is_ok);
        if json {
            let all: Vec<Value> = attacked.iter().map(report).collect();
            print_json(&json!({ "ok": is_ok, "seed": seed, "attacks": all }))?;
        } else {
            outln!("{}", text(&attacked));
        }
        Ok(Verdict::good_if(is_ok))
    })
}

/// Lists the attacks.
pub(super) fn list(json: bool) -> Outcome {
    if json {
        let attack =
            |attack: &&Attack| json!({ "id": attack.name, "item": attack.item, "what": attack.what });
        print_json(&ATTACKS.iter().map(attack).collect::<Vec<_>>())?;
    } else {
        let mut table = Table::new(&[("attack", Align::Left), ("what", Align::Left)]);
        for attack in ATTACKS {
            table.row([attack.name, attack.what].map(str::to_owned));
        }
        outln!("{table}");
    }
    Ok(Verdict::Good)
}

fn report(attacked: &Attacked) -> Value {
    let scene = |ended: &Ended| {
        json!({
            "ok": ended.troubles.is_empty(),
            "seconds": ended.seconds,
            "skipped": ended.skipped,
            "acknowledged": ended.counts.acknowledged,
            "unknown": ended.counts.unknown,
            "refused": ended.counts.refused,
            "lost": ended.counts.lost,
            "troubles": ended.troubles,
            "evidence": ended.evidence,
        })
    };
    let scenes: Map<String, Value> =
        attacked.scenes.iter().map(|(name, ended)| ((*name).to_owned(), scene(ended))).collect();
    json!({
        "id": attacked.attack.name,
        "item": attacked.attack.item,
        "ok": attacked.is_ok(),
        "scenes": scenes,
    })
}

fn text(attacked: &[Attacked]) -> String {
    let mut table = Table::new(&[
        ("attack", Align::Left),
        ("scene", Align::Left),
        ("outcome", Align::Left),
        ("seconds", Align::Right),
        ("acknowledged", Align::Right),
        ("unknown", Align::Right),
        ("lost", Align::Right),
    ]);
    let mut remarks = Vec::new();
    for attacked in attacked {
        for (scene, ended) in &attacked.scenes {
            table.row([
                attacked.attack.name.to_owned(),
                (*scene).to_owned(),
                ended.word().to_owned(),
                format!("{:.1}", ended.seconds),
                thousands(ended.counts.acknowledged),
                thousands(ended.counts.unknown),
                thousands(ended.counts.lost),
            ]);
            let name = format!("{} {scene}", attacked.attack.name);
            remarks.extend(ended.skipped.iter().map(|why| format!("{name} is skipped: {why}")));
            remarks.extend(
                ended.troubles.iter().map(|trouble| format!("{name}: trouble: {}", shortened(trouble))),
            );
            let kept = ended.evidence.iter();
            remarks.extend(kept.map(|kept| format!("{name}: logs and data are kept in {}", kept.display())));
        }
    }
    [vec![table.to_string()], remarks].concat().join("\n")
}

/// A trouble without what goes beyond a few lines; the story in the evidence has all of it.
fn shortened(trouble: &str) -> String {
    match trouble.char_indices().nth(TROUBLE_CHARACTERS) {
        Some((end, _)) => format!("{} …", &trouble[..end]),
        None => trouble.to_owned(),
    }
}
