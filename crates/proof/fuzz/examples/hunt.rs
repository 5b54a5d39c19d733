//! Has targets read hostile input for as long as it is told, and shrinks what it finds.
//!
//!     cargo run --profile test -p quorate-fuzz --example hunt -- [--seconds N] [--seed S] [--input FILE] [TARGET …]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorate_fuzz::{STACK_BYTES, TARGETS, Target};

/// An input that was found is made smaller by so many attempts at most.
const SHRINKS_MAX: usize = 2_000;

struct Arguments {
    seconds: u64,
    seed: u64,
    input: Option<Vec<u8>>,
    targets: Vec<&'static Target>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::from(2);
        }
    };
    let hunting = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || hunt(&arguments));
    match hunting.map(std::thread::JoinHandle::join) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { seconds: 60, seed: 0, input: None, targets: Vec::new() };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        let number = |text: String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        match word.as_str() {
            "--seconds" => arguments.seconds = number(value()?)?,
            "--seed" => arguments.seed = number(value()?)?,
            "--input" => {
                let file = value()?;
                arguments.input = Some(std::fs::read(&file).map_err(|error| format!("{file}: {error}"))?);
            }
            name => arguments.targets.push(TARGETS.iter().find(|target| target.name == name).ok_or_else(
                || {
                    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
                    format!("there is no target {name}: choose among {}", names.join(", "))
                },
            )?),
        }
    }
    if arguments.targets.is_empty() {
        arguments.targets = TARGETS.iter().collect();
    }
    Ok(arguments)
}

/// True if nothing was found.
fn hunt(arguments: &Arguments) -> bool {
    if let Some(input) = &arguments.input {
        arguments.targets.iter().for_each(|target| target.run(input));
        return true;
    }
    let each = Duration::from_secs(arguments.seconds) / arguments.targets.len() as u32;
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut found = Vec::new();
    for target in &arguments.targets {
        let (began, mut seed, mut slowest) = (Instant::now(), arguments.seed, (Duration::ZERO, 0));
        while began.elapsed() < each {
            let input = target.input(seed);
            let one = Instant::now();
            if fails(target, &input) {
                found.push((*target, seed, shrink(target, input)));
                break;
            }
            slowest = slowest.max((one.elapsed(), seed));
            seed += 1;
        }
        let (inputs, (took, slow)) = (seed - arguments.seed, slowest);
        println!("{:<14} {inputs} inputs, the slowest is that of seed {slow}: {took:?}", target.name);
    }
    std::panic::set_hook(usual);
    for (target, seed, input) in &found {
        println!(
            "{} fails with seed {seed}, and with {} bytes: b\"{}\"",
            target.name,
            input.len(),
            input.escape_ascii()
        );
        // Once more, to say why.
        let _ = catch_unwind(AssertUnwindSafe(|| target.run(input)));
    }
    found.is_empty()
}

fn fails(target: &Target, input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| target.run(input))).is_err()
}

/// Leaves out pieces as long as it still fails.
fn shrink(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let (mut size, mut left) = (input.len() / 2, SHRINKS_MAX);
    while size > 0 && left > 0 {
        let mut at = 0;
        while at < input.len() && left > 0 {
            let mut shorter = input.clone();
            shorter.drain(at..(at + size).min(input.len()));
            left -= 1;
            if fails(target, &shorter) { input = shorter } else { at += size }
        }
        size /= 2;
    }
    input
}
